"""The settings of a learner: those of a run (method, network, epochs, ...), and what only a learner has.

They are made once, by `sparcl new`, completely resolved, and stored as settings.json in the learner's directory.
"""

import math
import re
from typing import Annotated, Any

from sparcl.checked import Bounds, Checked, plain, rules_of, setting
from sparcl.device.kinds import NO_BACKBONE
from sparcl.device.model import LARGEST_SCALE
from sparcl.errors import SparclError
from sparcl.files import Directory, as_json, from_json
from sparcl.learning.settings import Settings, Values, merge, resolve, uses_adamw, validated
from sparcl.methods import METHODS, Rehearsal
from sparcl.seals import sealed
from sparcl.sparsity import SPARSIFIERS

FILE = "settings.json"
MAX_SAMPLES = 10_000_000  # of a buffer, as in the settings of a run

Mean = Annotated[float, Bounds(gt=-LARGEST_SCALE, lt=LARGEST_SCALE)]
Spread = Annotated[float, Bounds(gt=1 / LARGEST_SCALE, lt=LARGEST_SCALE)]


class PictureSettings(Checked):
    size: int = setting(default=64, ge=8, le=1024, meaning="side of the squares that pictures are resized to")
    flip: bool = setting(default=True, meaning="mirror training pictures at random")
    padding: int | None = setting(
        default=None, ge=0, le=64, meaning="shift them by up to this many pixels; default: size/8"
    )
    mean: tuple[Mean, Mean, Mean] | None = setting(
        default=None, meaning="of the channels, 0 to 1; default: of the first pictures learned"
    )
    std: tuple[Spread, Spread, Spread] | None = setting(default=None, meaning="the same for the standard deviation")
    held_out: float = setting(default=0.1, ge=0, le=0.5, meaning="share that is never trained on, to judge by")
    held_out_most: int = setting(default=50, ge=1, meaning="but no more than this many of each class")


class LearnerSettings(Checked):
    training: Settings
    pictures: PictureSettings = PictureSettings()
    classes: int = setting(
        default=0, ge=0, le=10_000, meaning="outputs that the network has from the start; it can grow"
    )
    buffer_mb: float | None = setting(
        default=None, gt=0, meaning="limit of the buffer in MB (10^6 bytes) instead of samples"
    )
    undo_steps: int = setting(
        default=1, ge=1, le=100, meaning="how many learning sessions can be undone; each keeps a whole state"
    )
    backbone: str = setting(default=NO_BACKBONE, meaning="frozen network that sees for the learner; none: from scratch")
    keep: int = setting(default=1000, ge=1, le=1_000_000, meaning="with a backbone: pictures kept of each class")
    unknown: float = setting(
        default=0.03, ge=0, le=0.5, meaning="with a backbone: share of known pictures that may be called unknown"
    )

    def sample_bytes(self, outputs: int) -> int:
        """What one sample takes in the buffer: picture, label, task and logits."""
        keeps_logits = METHODS[self.training.method.name].keeps_logits  # type: ignore[attr-defined]
        return 3 * self.pictures.size**2 + 16 + (4 * outputs if keeps_logits else 0)

    def capacity(self, outputs: int) -> int:
        """Samples that the buffer may hold when the network has this many outputs."""
        if self.buffer_mb is None:
            return self.training.buffer_size
        return max(2, min(int(self.buffer_mb * 1e6) // self.sample_bytes(outputs), MAX_SAMPLES))


DEFAULTS: Values = {
    "training": {"dataset": "folder", "method": {"name": "derpp"}, "sparsifier": {"name": "sparcl"}, "sparsity": 0.9}
}
# For short trainings and tasks of a single class (docs/learner.md): far better than what suits 50 epochs a task.
DERPP_DEFAULTS: Values = {"learning_rate": 0.1, "beta": 1.0, "one_pass": True}

#: Settings of a run only. They are in the settings that `resolve` completes, and in those of older learners.
WITHOUT_EFFECT = frozenset(("data", "evaluation", "backend"))


def make(changes: Values) -> LearnerSettings:
    """Complete settings from single values: `training` as for a run, the others of LearnerSettings."""
    values = merge(DEFAULTS, changes)
    training = values["training"]
    if not isinstance(training, dict):
        raise SparclError(f"The setting training = {training!r} is wrong: it is a section.")
    method = training["method"]
    if isinstance(method, dict) and method.get("name") == "derpp":
        for_sgd = () if not uses_adamw(training) else ("learning_rate",)
        defaults = {name: value for name, value in DERPP_DEFAULTS.items() if name not in for_sgd}
        training = {**training, "method": {**defaults, **method}}
    values["training"] = resolve(training)
    return _checked(validated(LearnerSettings, values))


#: What only a learner from scratch has.
OF_SCRATCH = ("classes", "buffer_mb")
SIZE_FROM_SCRATCH = 64


def with_defaults(values: Values) -> Values:
    """Values for a new learner, with those that follow from its backbone. Says so if some belong to the other kind."""
    backbone = values.get("backbone", NO_BACKBONE)
    if backbone == NO_BACKBONE:
        return merge({"pictures": {"size": SIZE_FROM_SCRATCH}}, values)
    foreign = [
        name for name in (*OF_SCRATCH, *values.get("training", {})) if values.get(name) or name not in OF_SCRATCH
    ]
    foreign += [f"pictures.{name}" for name in values.get("pictures", {}) if name != "size"]
    if foreign:
        raise SparclError(
            f"{foreign[0]} is a setting of learners that learn from scratch. Leave it out, or set backbone = none."
        )
    from sparcl.backbone import find_backbone

    return merge({"pictures": {"size": find_backbone(backbone).size}}, values)


def split(values: Values) -> Values:
    """Flat values, as --set gives them, sorted into the learner's own and those of the training."""
    for name in WITHOUT_EFFECT & values.keys():
        raise SparclError(
            f"A learner has no setting {name!r}: it learns the folders it is given, on the engine. Leave it out."
        )
    own = rules_of(LearnerSettings).keys() - {"training"}
    return {
        **{key: value for key, value in values.items() if key in own},
        "training": {key: value for key, value in values.items() if key not in own},
    }


def buffer_budget(text: str) -> Values:
    """ "500" samples, or "20MB"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(mb)?", text.strip(), re.IGNORECASE)
    if found is None or (not found[2] and "." in found[1]):
        raise SparclError(f"{text!r} is not a size for the buffer. Write samples (500) or megabytes (20MB).")
    return {"buffer_mb": float(found[1])} if found[2] else {"training": {"buffer_size": int(found[1])}}


def store(directory: Directory, settings: LearnerSettings) -> None:
    directory.write_bytes(FILE, as_json(sealed(plain(settings))))


def load(directory: Directory) -> LearnerSettings:
    path = directory.path / FILE
    try:
        content = directory.read_bytes(FILE)
    except OSError as error:
        raise SparclError(f"{path} could not be read: {error.strerror or error}.") from error
    stored: dict[str, Any] = from_json(content, path)
    try:
        return make(stored)
    except SparclError as error:
        raise SparclError(f"{path} is damaged: {error}") from error


def _checked(settings: LearnerSettings) -> LearnerSettings:
    training = settings.training
    if not issubclass(METHODS[training.method.name], Rehearsal):
        able = sorted(name for name, method in METHODS.items() if issubclass(method, Rehearsal))
        raise SparclError(f"A learner cannot use {training.method.name}. Choose one of: {', '.join(able)}.")
    if not SPARSIFIERS[training.sparsifier.name].open_ended:
        able = sorted(name for name, sparsifier in SPARSIFIERS.items() if sparsifier.open_ended)
        raise SparclError(f"A learner cannot use {training.sparsifier.name}. Choose one of: {', '.join(able)}.")
    least = 2 * settings.sample_bytes(max(settings.classes, 1)) / 1e6
    if settings.buffer_mb is not None and settings.buffer_mb < least:
        size = settings.pictures.size
        raise SparclError(
            f"A buffer of {settings.buffer_mb:g} MB holds no two pictures of {size}x{size}: "
            f"give it {math.ceil(1000 * least) / 1000:g} MB at least, better room for hundreds."
        )
    if not settings.capacity(max(settings.classes, 1)):
        raise SparclError("A learner without a buffer forgets what it knew. Give it some samples, for example 200.")
    if training.schedule.span == "run":
        raise SparclError("A learner does not know how much it will learn: schedule.span=run is for experiments.")
    if (settings.pictures.mean is None) != (settings.pictures.std is None):
        raise SparclError("pictures.mean and pictures.std belong together: give both or none.")
    return settings
