"""What a name that does not exist was probably meant to be: the one place that guesses.

A wrong guess misleads, so only a clear one is made: the name that something goes by elsewhere, the same name in another
spelling or section, or a name so near that it must be a slip. Where names differ in a number (cifar100, cifar10) or two
are equally near, nothing is guessed.
"""

import difflib
import re
from collections.abc import Iterable, Sequence

# Names used by papers, Mammoth and Avalanche, and what they are called here; None: something else, not to be guessed.
ALIASES: dict[str, str | None] = {
    # Methods
    **dict.fromkeys(("naive", "finetune", "finetuning", "sequential"), "sgd"),
    **dict.fromkeys(("cumulative", "offline", "jointtraining"), "joint"),
    **dict.fromkeys(("replay", "rehearsal", "experiencereplay"), "er"),
    **dict.fromkeys(("ewcon", "oewc", "onlineewc"), "ewc"),
    **dict.fromkeys(("gem", "agemr", "mer", "xder", "lwfmc")),
    # Data sets
    **dict.fromkeys(("seqcifar10", "splitcifar10"), "cifar10"),
    **dict.fromkeys(("seqtinyimg", "tinyimg", "splittinyimagenet"), "tiny_imagenet"),
    "imagefolder": "folder",
    "imagenet": None,
    # Settings
    "lr": "learning_rate",
    **dict.fromkeys(("bs", "batch", "trainmbsize"), "batch_size"),
    **dict.fromkeys(("minibatchsize", "batchsizemem", "replaybatch"), "replay_batch_size"),
    "evalmbsize": "evaluation.batch_size",
    **dict.fromkeys(("memory", "mem", "memorysize", "memsize", "buffer"), "buffer_size"),
    **dict.fromkeys(("nepochs", "numepochs", "trainepochs"), "epochs"),
    **dict.fromkeys(("ntasks", "nexperiences"), "tasks"),
    **dict.fromkeys(("wd", "optimwd"), "weight_decay"),
    **dict.fromkeys(("mom", "optimmom"), "momentum"),
    "optimnesterov": "nesterov",
    **dict.fromkeys(("optim", "opt"), "optimizer"),
    **dict.fromkeys(("scheduler", "lrscheduler", "lrschedule"), "schedule"),
    **dict.fromkeys(("warmup", "numwarmupsteps"), "warmup_steps"),
    **dict.fromkeys(("lambda", "elambda", "ewclambda"), "strength"),
    **dict.fromkeys(("temp", "softmaxtemp"), "temperature"),
    **dict.fromkeys(("net", "network", "backbone", "arch"), "model"),
    **dict.fromkeys(("numworkers", "nthreads"), "threads"),
    # Options and commands
    **dict.fromkeys(("output", "outdir", "outputdir"), "out"),
    **dict.fromkeys(("train", "fit"), "run"),
    "plot": "report",
    **dict.fromkeys(("serve", "dashboard"), "watch"),
}
NEAR = 0.76  # of difflib's ratio: one slip in a word of five letters


def meant(name: str, known: Iterable[str]) -> str | None:
    """The one of the known names that was meant, if that is clear. Sections are parted by dots: method.alpha."""
    names = list(dict.fromkeys(known))
    section, _, last = name.rpartition(".")
    alias = ALIASES.get(_letters(last), last)
    if alias is None:
        return None
    spelt = next((one for one in names if _letters(one) == _letters(alias)), None)
    inside = [one for one in names if _letters(one.rpartition(".")[2]) == _letters(alias)]
    same_section = [one for one in inside if one.rpartition(".")[0] == section]
    found = [*same_section, *([spelt] if spelt else []), *inside]
    return found[0] if found else _nearest(name, names)


def did_you_mean(name: str, known: Sequence[str], elsewhere: Iterable[str] = ()) -> str:
    """The end of a sentence that says that there is no such name. `elsewhere`: names to guess from, but not to list."""
    guess = meant(name, [*known, *elsewhere])
    return f"; did you mean {guess!r}?" if guess else f". Choose one of: {', '.join(sorted(known))}."


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """By their last parts: a section in common makes two names no more alike."""
    wanted = name.rpartition(".")[2].casefold()
    numbers = re.findall(r"\d+", wanted)

    def nearness(one: str) -> float:
        other = one.rpartition(".")[2].casefold()
        if numbers and numbers != re.findall(r"\d+", other):
            return 0.0
        if sorted(wanted) == sorted(other):
            return 1.0  # letters in another order: a slip, however short the word
        return difflib.SequenceMatcher(None, wanted, other, autojunk=False).ratio()

    ranked = sorted(((nearness(one), one) for one in known), reverse=True)[:2]
    clear = len(ranked) == 1 or (len(ranked) == 2 and ranked[0][0] > ranked[1][0])
    return ranked[0][1] if clear and ranked[0][0] >= NEAR else None


def _letters(name: str) -> str:
    """DER++, der-pp and derpp are one name."""
    return re.sub(r"[^a-z0-9]", "", name.casefold().replace("++", "pp"))
