"""Guesses at what was meant: those that help are made, those that mislead are not."""

import pytest

from sparcl.data import DATASETS
from sparcl.errors import SparclError
from sparcl.experiments import experiment
from sparcl.graph import MODELS
from sparcl.hints import did_you_mean, meant
from sparcl.learning.settings import from_preset, resolve, with_changes
from sparcl.methods import METHODS


@pytest.mark.parametrize(
    ("typed", "known", "expected"),
    [
        # Methods, as papers and other libraries call them
        ("der++", METHODS, "derpp"),
        ("DER++", METHODS, "derpp"),
        ("derp", METHODS, "derpp"),
        ("EWC", METHODS, "ewc"),
        ("ewc_on", METHODS, "ewc"),
        ("iCaRL", METHODS, "icarl"),
        ("A-GEM", METHODS, "agem"),
        ("naive", METHODS, "sgd"),
        ("cumulative", METHODS, "joint"),
        ("re", METHODS, "er"),
        # Others that are not here, though some of ours have names like theirs
        ("gem", METHODS, None),
        ("x-der", METHODS, None),
        ("mer", METHODS, None),
        ("lwf_mc", METHODS, None),
        ("si", METHODS, None),
        # Data sets
        ("seq-cifar10", DATASETS, "cifar10"),
        ("cifar-10", DATASETS, "cifar10"),
        ("cifar", DATASETS, "cifar10"),
        ("tinyimagenet", DATASETS, "tiny_imagenet"),
        ("cifar100", DATASETS, None),
        ("split-cifar100", DATASETS, None),
        ("imagenet", DATASETS, None),
        ("mnist", DATASETS, None),
        # Networks, tables
        ("resnet34", MODELS, None),
        ("resnet", MODELS, "resnet18"),
        ("tabel1", experiment.names(), "table1"),
        ("table7", experiment.names(), None),
        ("table", experiment.names(), None),
    ],
)
def test_names(typed, known, expected):
    assert meant(typed, known) == expected


@pytest.mark.parametrize(
    ("preset", "typed", "expected"),
    [
        ("digits/er", "lr", "method.learning_rate"),
        ("digits/er", "learning_rate", "method.learning_rate"),
        ("digits/er", "method.lr", "method.learning_rate"),
        ("digits/er", "wd", "method.weight_decay"),
        ("digits/er", "bs", "batch_size"),
        ("digits/er", "batch", "batch_size"),
        ("digits/er", "minibatch_size", "replay_batch_size"),
        ("digits/er", "memory", "buffer_size"),
        ("digits/er", "buffer", "buffer_size"),
        ("digits/er", "n_epochs", "epochs"),
        ("digits/er", "method.epochs", "epochs"),
        ("digits/er", "data.seed", "seed"),
        ("digits/er", "tasks", "data.tasks"),
        ("digits/ewc", "lambda", "method.strength"),
        ("digits/ewc", "e_lambda", "method.strength"),
        ("digits/derpp", "alpha", "method.alpha"),
        ("digits/sparcl-derpp-90", "cutof", "sparsifier.cutoff"),
        # The setting belongs to another method, or to none
        ("digits/er", "lambda", None),
        ("digits/er", "sparsifier.rho", None),
        ("digits/er", "momentum", "optimizer.momentum"),
    ],
)
def test_settings(preset, typed, expected):
    with pytest.raises(SparclError) as caught:
        resolve(with_changes(from_preset(preset), [f"{typed}=1"]))
    end = f"; did you mean {expected!r}?" if expected else ". Choose one of: "
    assert f"There is no setting called {typed!r}{end}" in str(caught.value)


@pytest.mark.parametrize("preset", ["digits/sparcl-derpp", "digits/sparcl-derpp-0.9", "digits/sparcl-derpp-"])
def test_a_sparsifier_without_its_percents(preset):
    with pytest.raises(SparclError, match=r"for example digits/sparcl-derpp-90\.$"):
        from_preset(preset)


def test_without_a_guess_there_is_the_whole_list():
    assert did_you_mean("gem", ["er", "agem"], ["method.alpha"]) == ". Choose one of: agem, er."
