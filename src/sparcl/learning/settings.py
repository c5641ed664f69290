"""The settings of a run: typed, checked, with a hint for a misspelt key.

A run is described by a preset `DATASET/METHOD`, or by a TOML file, and single values changed with `key=value`. Whatever
is not given comes from, in this order: the data set's protocol, the method's tuned hyper-parameters, the defaults here.
"""

import copy
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from sparcl import _engine
from sparcl.checked import Checked, FieldRule, WrongValueError, check, check_fields, plain, rules_of, setting
from sparcl.data import DATASETS
from sparcl.errors import SparclError
from sparcl.graph import MAX_WIDTH, MODELS
from sparcl.hints import did_you_mean
from sparcl.learning.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from sparcl.learning.rate_schedule import ScheduleSettings
from sparcl.learning.start_weights import WeightsSettings, completed
from sparcl.methods import METHODS
from sparcl.network import Backend, OptimizerSettings
from sparcl.options import NotNegative
from sparcl.sparsity import SPARSIFIERS

Values = dict[str, Any]
_T = TypeVar("_T")


class DataSettings(Checked):
    root: Path | None = setting(default=None, meaning="where the data set is, if not in the default place")
    tasks: int | None = setting(default=None, ge=1, meaning="keep only the first tasks")
    classes_per_task: int | None = setting(
        default=None, ge=1, meaning="classes in each task, if not the data set's own"
    )
    class_order: Literal["natural", "shuffled"] = setting(default="natural", meaning="shuffled: by the seed")
    domains: Literal["permuted", "rotated"] | None = setting(
        default=None, meaning="Domain-IL: every task has all classes, with pixels permuted or images rotated"
    )
    images_per_task: int | None = setting(
        default=None, ge=1, meaning="keep only this many training images of each task"
    )
    image_size: int | None = setting(default=None, ge=8, le=1024, meaning="side of the images read from folders")
    test_share: float = setting(default=0.2, gt=0, lt=1, meaning="share held out of folders without a test set")
    validation: float = setting(default=0.0, ge=0, lt=1, meaning="share of the training images held out for validation")


@dataclass(frozen=True)
class MethodSettings:
    """The method's name and its hyper-parameters; which ones there are, the method says."""

    name: str
    options: Values = field(default_factory=dict)

    @classmethod
    def from_plain(cls, content: Any) -> Self:
        found = check(dict[str, Any], content)
        name = check_fields({"name": FieldRule(str)}, found, ignores_unknown=True)["name"]
        return cls(name, {key: value for key, value in found.items() if key != "name"})

    def to_plain(self) -> Values:
        return {"name": self.name, **plain(self.options)}


@dataclass(frozen=True)
class SparsifierSettings(MethodSettings):
    """The same for the sparsifier and its options."""

    name: str = "none"


class EvaluationSettings(Checked):
    split: Literal["test", "validation"] = setting(default="test", meaning="which held-out images are judged")
    batch_size: int = setting(default=250, ge=1)
    snapshots: int = setting(
        default=0, ge=0, meaning="also report the mean of this many evaluations over a task's last steps"
    )
    snapshot_steps: int = setting(default=48, ge=1, meaning="over how many last steps the snapshots are spread")
    bn_recalibration: bool = setting(
        default=False, meaning="re-estimate batch statistics from the buffer before a snapshot"
    )


class CheckpointSettings(Checked):
    minutes: float = setting(default=5.0, ge=0, meaning="minutes between checkpoints; 0: after every step")


class Settings(Checked):
    dataset: str = "digits"
    protocol: str = setting(
        default=DEFAULT_PROTOCOL, meaning="which of the data set's protocols the defaults come from"
    )
    method: MethodSettings
    optimizer: OptimizerSettings = OptimizerSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    rates: dict[str, NotNegative] = setting(
        factory=dict, meaning="multipliers of the learning rate for parts of the network, by name; 0: frozen"
    )
    sparsifier: SparsifierSettings = SparsifierSettings()
    sparsity: float = setting(default=0.0, ge=0, lt=1, meaning="share of the sparse layers' weights that are pruned")
    seed: int = setting(default=0, ge=0)
    model: str = "resnet18"
    width: int = setting(default=64, ge=1, le=MAX_WIDTH, meaning="channels of the first layer")
    epochs: int = setting(default=50, ge=1, le=10**12, meaning="passes over each task's data")
    batch_size: int = setting(default=32, ge=1)
    drop_last: bool = setting(default=False, meaning="leave out the last batch of an epoch if it is not full")
    replay_batch_size: int = setting(default=32, ge=1)
    buffer_size: int = setting(
        default=500, ge=0, le=10_000_000, meaning="samples kept for rehearsal; 0 switches replay off"
    )
    backend: Backend = setting(default="auto", meaning="native: our engine; torch: PyTorch; auto: ours where it can")
    tuning_seconds: float = setting(default=10.0, ge=0, meaning="how long a long run first tunes the engine; 0: never")
    threads: int = setting(default=0, ge=0, le=_engine.MAX_THREADS, meaning="0: all cores that this process may use")
    data: DataSettings = DataSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    weights: WeightsSettings = WeightsSettings()


# The first mask of a network with weights of its own keeps the largest of them; a random one would undo them.
MASKS_OF_WEIGHTS: Values = {"initial_mask": "magnitude"}
SECTIONS = (
    *(OptimizerSettings, ScheduleSettings, DataSettings, EvaluationSettings, CheckpointSettings, WeightsSettings),
)
NAMED = ("method", "optimizer", "schedule", "sparsifier")  # sections for which a name alone may stand
# PyTorch's: those of the methods are for gradient descent, and far too large for AdamW.
ADAMW_DEFAULTS: Values = {"learning_rate": 1e-3, "weight_decay": 1e-2}


def resolve(given: Values) -> Settings:
    """Fill in what was not given, and check everything. Raises SparclError with one line for anything wrong."""
    given = dict(given)
    for key in NAMED:
        if isinstance(given.get(key), str):
            given[key] = {"name": given[key]}
    if isinstance(given.get("weights"), str | Path):
        given["weights"] = {"file": str(given["weights"])}
    method_values = given.get("method")
    if not isinstance(method_values, Mapping) or not isinstance(method_values.get("name"), str):
        raise SparclError(f"The settings do not say which method to use. Choose one of: {', '.join(sorted(METHODS))}.")
    method = METHODS[choose("method", method_values["name"], METHODS)]
    dataset = choose("data set", given.get("dataset", "digits"), DATASETS)
    protocols = PROTOCOLS.get(dataset, {DEFAULT_PROTOCOL: {}})
    protocol = choose(f"protocol of {dataset}", given.get("protocol", DEFAULT_PROTOCOL), protocols)

    sparsifier_values = given.get("sparsifier", {"name": "none"})
    if not isinstance(sparsifier_values, Mapping):
        raise SparclError(f"The setting sparsifier = {sparsifier_values!r} is wrong: it must be a name.")
    sparsifier = SPARSIFIERS[choose("sparsifier", sparsifier_values.get("name", "none"), SPARSIFIERS)]

    values = merge(protocols[protocol], given)
    buffer_size = values.get("buffer_size", Settings.buffer_size)
    tuned: Values = method.tuned_for(dataset, buffer_size) if isinstance(buffer_size, int) else {}
    implied = sparsifier.implied(sparsifier_values, method.name)
    values = merge(implied.settings, values)
    tuned |= _known(implied.method, method.hyperparameters())
    sparsifier_values = {**implied.options, **sparsifier_values}
    if uses_adamw(given):
        tuned |= ADAMW_DEFAULTS
    of_method = _known(protocols[protocol].get("method", {}), method.hyperparameters())
    of_sparsifier = _known(protocols[protocol].get("sparsifier", {}), sparsifier.options())
    if isinstance(given.get("weights"), Mapping) and given["weights"].get("file"):
        of_sparsifier = _known(MASKS_OF_WEIGHTS, sparsifier.options()) | of_sparsifier
    every = list(setting_names(method.hyperparameters(), sparsifier.options()))
    values["method"] = _check_named("method", method.hyperparameters(), {**tuned, **of_method, **method_values}, every)
    values["sparsifier"] = _check_named(
        "sparsifier", sparsifier.options(), {"name": "none", **of_sparsifier, **sparsifier_values}, every
    )
    settings = validated(Settings, values, elsewhere=every)
    if settings.sparsifier.name != "none" and method.sparsifier_conflict:
        raise SparclError(
            f"{settings.sparsifier.name} cannot be put around {method.name}: {method.sparsifier_conflict}. "
            "Leave the sparsifier out."
        )
    if settings.sparsifier.name == "none":
        wanted = {
            "sparsity": settings.sparsity,
            **{f"sparsifier.{name}": settings.sparsifier.options[name] for name in ("layers", "layer_sparsity")},
        }
        for name, value in wanted.items():
            if value:
                raise SparclError(f"{name}={value} needs a sparsifier, for example sparsifier=sparcl.")
    settings.optimizer.check_options()
    if method.sparsifier_conflict and 0.0 in settings.rates.values():
        raise SparclError(f"{method.name} cannot freeze parts of a network: {method.sparsifier_conflict}.")
    choose("model", settings.model, MODELS)
    if settings.evaluation.split == "validation" and settings.data.validation == 0:
        raise SparclError("evaluation.split=validation needs a validation set: add data.validation=0.1.")
    return replace(settings, weights=completed(settings.weights))


def uses_adamw(given: Mapping[str, Any]) -> bool:
    chosen = given.get("optimizer")
    return chosen == "adamw" or (isinstance(chosen, Mapping) and chosen.get("name") == "adamw")


def from_json(stored: Values) -> Settings:
    """Settings as a run has stored them, without asking whether their method exists here, or still has each option."""
    settings = validated(Settings, stored)
    method, sparsifier = METHODS.get(settings.method.name), SPARSIFIERS.get(settings.sparsifier.name)
    if method is not None:
        _check_known("method", method.hyperparameters(), settings.method)
    if sparsifier is not None:
        _check_known("sparsifier", sparsifier.options(), settings.sparsifier)
    return settings


def learns_all_tasks_at_once(stored: Settings) -> bool:
    """A method that is not known here takes one task after the other, as nearly all do."""
    method = METHODS.get(stored.method.name)
    return method is not None and method.learns_all_tasks_at_once


def fingerprint(settings: Settings) -> str:
    """Tells whether two settings lead to the same run."""
    content = plain(settings)
    for name in ("threads", "tuning_seconds", "checkpoint"):
        del content[name]
    del content["data"]["root"]
    if content.pop("weights")["digest"]:
        content["weights"] = settings.weights.digest
    # Runs of version 0.1.0 had no such settings, and must stay the same runs.
    for name, default in (("optimizer", OptimizerSettings()), ("schedule", ScheduleSettings()), ("rates", {})):
        if content[name] == plain(default):
            del content[name]
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def run_key(settings: Settings) -> str:
    """Equal for settings that lead to the same run on the same pictures."""
    where = os.fsencode(settings.data.root.expanduser().resolve()) if settings.data.root else b""
    return hashlib.sha256(f"{fingerprint(settings)} ".encode() + where).hexdigest()


def from_preset(name: str) -> Values:
    """`DATASET/METHOD` or `DATASET/SPARSIFIER-METHOD-PERCENT`, for example digits/derpp or cifar10/sparcl-derpp-90."""
    dataset, slash, method = name.partition("/")
    if not slash:
        raise SparclError(f"{name!r} is not a preset: presets are named DATASET/METHOD, for example digits/derpp.")
    values: Values = {"dataset": choose("data set", dataset, DATASETS)}
    parts = re.fullmatch(r"([a-z]+)-(.+)-(\d\d?)", method)
    if parts is not None and parts[1] in SPARSIFIERS:
        values |= {"sparsifier": {"name": parts[1]}, "sparsity": int(parts[3]) / 100}
        method = parts[2]
    elif method.partition("-")[0] in SPARSIFIERS:
        whole = f"{name.rstrip('-0123456789.')}-90"
        raise SparclError(f"{name!r} does not say how sparse: add whole percents, for example {whole}.")
    return values | {"method": {"name": choose("method", method, METHODS)}}


def from_file(path: Path) -> Values:
    """The values of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SparclError(f"{path} could not be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # not TOML, not text, a number without end, lists in lists
        raise SparclError(f"{path} is not a valid TOML file: {error}.") from error


def with_changes(values: Values, changes: Sequence[str]) -> Values:
    """Apply `key=value` changes, written as in TOML; the quotes around a text may be left out."""
    for change in changes:
        key, equals, text = change.partition("=")
        for written in (change, f"{key} = {json.dumps(text.strip())}") if equals else ():
            try:
                parsed = tomllib.loads(written)
                break
            except tomllib.TOMLDecodeError:
                continue
        else:
            raise SparclError(f"{change!r} is not a setting: write key=value, for example seed=7 or method.alpha=0.2.")
        for section in NAMED:
            if isinstance(parsed.get(section), str):
                parsed[section] = {"name": parsed[section]}
        values = merge(values, parsed)
    return values


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
    """`base` with every value of `over` put in its place; sections are merged, not replaced."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def choose(what: str, name: Any, known: Mapping[str, Any]) -> str:
    """The name if it is known; otherwise an error that names the nearest one."""
    if isinstance(name, str) and name in known:
        return name
    raise SparclError(f"There is no {what} called {name!r}{did_you_mean(str(name), list(known))}")


def setting_names(method_options: Iterable[str], sparsifier_options: Iterable[str]) -> Iterator[str]:
    """Every name that `--set` takes, with these options of methods and sparsifiers."""
    options = {"method": method_options, "sparsifier": sparsifier_options}
    for name, rule in rules_of(Settings).items():
        inside = options.get(name, rules_of(rule.kind) if rule.kind in SECTIONS else ())
        yield from [f"{name}.{one}" for one in inside] or [name]


def _known(values: Mapping[str, Any], options: Mapping[str, Any]) -> Values:
    """What a protocol says about methods or sparsifiers in general, as far as this one has such an option."""
    return {key: value for key, value in values.items() if key in options}


def _check_named(
    section: str, options: Mapping[str, tuple[Any, Any]], values: Values, elsewhere: Iterable[str] = ()
) -> Values:
    """The options of a method or sparsifier, typed as it declares them."""
    rules = {name: FieldRule(kind, partial(copy.copy, default)) for name, (kind, default) in options.items()}
    try:
        return check_fields({"name": FieldRule(str), **rules}, values)
    except WrongValueError as wrong:
        raise _explained(wrong, f"{section}.", elsewhere) from None


def _check_known(section: str, options: Mapping[str, tuple[Any, Any]], found: MethodSettings) -> None:
    """That those of its options that exist here are what they must be."""
    _check_named(section, options, {"name": found.name, **_known(found.options, options)})


def validated(kind: type[_T], values: Values, prefix: str = "", elsewhere: Iterable[str] = ()) -> _T:
    """The values as this class wants them; SparclError with one line for the first that is wrong.

    `elsewhere`: names in other sections, one of which may have been meant by one that does not exist.
    """
    try:
        return check(kind, values)
    except WrongValueError as wrong:
        raise _explained(wrong, prefix, elsewhere) from None


def _explained(wrong: WrongValueError, prefix: str, elsewhere: Iterable[str]) -> SparclError:
    section = prefix + "".join(f"{part}." for part in wrong.path[:-1])
    key = prefix + ".".join(wrong.path)
    if wrong.sort == "unknown":
        known = [section + name for name in wrong.known]
        return SparclError(f"There is no setting called {key!r}{did_you_mean(key, known, elsewhere)}")
    if wrong.sort == "missing":
        return SparclError(f"The setting {key} is missing.")
    return SparclError(f"The setting {key} = {wrong.value!r} is wrong: {wrong.problem}.")
