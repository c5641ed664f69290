"""The settings of a run: typed, checked, with the nearest match named for a misspelt key.

A run is described by a preset `DATASET/METHOD`, or by a TOML file, and single values changed with `key=value`. Whatever
is not given comes from, in this order: the method's tuned hyper-parameters, the data set's protocol, the defaults here.
"""

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from sparcl.data import DATASETS
from sparcl.errors import SparclError
from sparcl.graph import MODELS
from sparcl.learning.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from sparcl.methods import METHODS
from sparcl.network import Backend
from sparcl.sparsity import SPARSIFIERS, Sparsifier
from sparcl.sparsity.sparcl import OFFICIAL_METHOD, OFFICIAL_OPTIONS, OFFICIAL_SETTINGS, OFFICIAL_TUNED

Values = dict[str, Any]
_Model = TypeVar("_Model", bound=BaseModel)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataSettings(Section):
    root: Path | None = Field(None, description="where the data set lies, if not in the usual place")
    tasks: int | None = Field(None, ge=1, description="keep only the first tasks")
    classes_per_task: int | None = Field(None, ge=1, description="classes in each task, if not the data set's own")
    class_order: Literal["natural", "shuffled"] = Field("natural", description="shuffled: by the seed")
    domains: Literal["permuted", "rotated"] | None = Field(
        None, description="Domain-IL: every task has all classes, with pixels permuted or images rotated"
    )
    images_per_task: int | None = Field(None, ge=1, description="keep only so many training images of each task")
    image_size: int | None = Field(None, ge=8, le=1024, description="side of the images read from folders")
    test_share: float = Field(0.2, gt=0, lt=1, description="share held out of folders without a test set")
    validation: float = Field(0.0, ge=0, lt=1, description="share of the training images held out for validation")


class MethodSettings(BaseModel):
    """The method's name and its hyper-parameters; which ones there are, the method says."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    def hyperparameters(self) -> Values:
        return dict(self.__pydantic_extra__ or {})


class SparsifierSettings(MethodSettings):
    """The same for the sparsifier and its options."""

    name: str = "none"


class EvaluationSettings(Section):
    split: Literal["test", "validation"] = Field("test", description="which held-out images are judged")
    batch_size: int = Field(250, ge=1)
    snapshots: int = Field(0, ge=0, description="also report the mean of so many evaluations in a task's last steps")
    snapshot_steps: int = Field(48, ge=1, description="over how many last steps the snapshots are spread")
    bn_recalibration: bool = Field(False, description="re-estimate batch statistics from the buffer before a snapshot")


class CheckpointSettings(Section):
    minutes: float = Field(5.0, ge=0, description="at least every so many minutes; 0: after every step")


class Settings(Section):
    dataset: str = "digits"
    protocol: str = Field(DEFAULT_PROTOCOL, description="which of the data set's protocols the defaults come from")
    method: MethodSettings
    sparsifier: SparsifierSettings = SparsifierSettings()
    sparsity: float = Field(0.0, ge=0, lt=1, description="share of the sparse layers' weights that are not there")
    seed: int = Field(0, ge=0)
    model: str = "resnet18"
    width: int = Field(64, ge=1, description="channels of the first layer")
    epochs: int = Field(50, ge=1, description="passes over each task's data")
    batch_size: int = Field(32, ge=1)
    drop_last: bool = Field(False, description="leave out the last batch of an epoch if it is not full")
    replay_batch_size: int = Field(32, ge=1)
    buffer_size: int = Field(500, ge=0, description="samples kept for rehearsal; 0 switches replay off")
    backend: Backend = Field("auto", description="native: our engine; torch: PyTorch; auto: ours where it can")
    tuning_seconds: float = Field(10.0, ge=0, description="a long run first tunes the engine for so long; 0: never")
    threads: int = Field(0, ge=0, le=512, description="0: all cores")
    data: DataSettings = DataSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()


def resolve(given: Values) -> Settings:
    """Fill in what was not given, and check everything. Raises SparclError with one line for anything wrong."""
    given = dict(given)
    for key in ("method", "sparsifier"):
        if isinstance(given.get(key), str):
            given[key] = {"name": given[key]}
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
    buffer_size = values.get("buffer_size", Settings.model_fields["buffer_size"].default)
    tuned: Values = method.tuned_for(dataset, buffer_size) if isinstance(buffer_size, int) else {}
    if sparsifier_values.get("preset") == "official":
        values = merge(OFFICIAL_SETTINGS, values)
        official = {**OFFICIAL_METHOD, **OFFICIAL_TUNED.get(method.name, {})}
        tuned |= {key: value for key, value in official.items() if key in method.hyperparameters()}
        sparsifier_values = {**OFFICIAL_OPTIONS, **sparsifier_values}
    values["method"] = _check_named("method", method.hyperparameters(), {**tuned, **values["method"]})
    values["sparsifier"] = _check_named(
        "sparsifier",
        sparsifier.options(),
        {"name": "none", **_for(sparsifier, protocols[protocol]), **sparsifier_values},
    )
    settings = validated(Settings, values)
    if settings.sparsifier.name != "none" and method.stays_dense_because:
        raise SparclError(
            f"{settings.sparsifier.name} cannot be put around {method.name}: {method.stays_dense_because}. "
            "Leave the sparsifier out."
        )
    if settings.sparsity > 0 and settings.sparsifier.name == "none":
        raise SparclError(f"sparsity={settings.sparsity} needs a sparsifier, for example sparsifier=sparcl.")
    choose("model", settings.model, MODELS)
    if settings.evaluation.split == "validation" and settings.data.validation == 0:
        raise SparclError("evaluation.split=validation needs a validation set: add data.validation=0.1.")
    return settings


def from_json(stored: Values) -> Settings:
    """Settings as a run has stored them, without asking whether their method exists here."""
    return validated(Settings, stored)


def fingerprint(settings: Settings) -> str:
    """Tells whether two settings lead to the same run."""
    content = settings.model_dump_json(
        exclude={"threads": True, "tuning_seconds": True, "checkpoint": True, "data": {"root"}}
    )
    return hashlib.sha256(content.encode()).hexdigest()


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
    return values | {"method": {"name": choose("method", method, METHODS)}}


def from_file(path: Path) -> Values:
    """The values of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SparclError(f"{path} could not be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
        for section in ("method", "sparsifier"):
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
    raise SparclError(f"There is no {what} called {name!r}{_nearest(str(name), known)}")


def _nearest(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f". Choose one of: {', '.join(sorted(known))}."


def _for(sparsifier: type[Sparsifier], protocol: Mapping[str, Any]) -> Values:
    """What a protocol says about sparsifiers, as far as this one has such an option."""
    return {key: value for key, value in protocol.get("sparsifier", {}).items() if key in sparsifier.options()}


def _check_named(section: str, fields: Mapping[str, tuple[Any, Any]], values: Values) -> Values:
    """The options of a method or sparsifier, typed as it declares them."""
    model = pydantic.create_model(section, __base__=Section, name=(str, ...), **fields)  # type: ignore[call-overload]
    checked: Values = validated(model, values, prefix=f"{section}.").model_dump()
    return checked


def validated(model: type[_Model], values: Values, prefix: str = "") -> _Model:
    """The values as the model wants them; SparclError with one line for the first that is wrong."""
    try:
        return model.model_validate(values)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        path = [str(part) for part in problem["loc"]]
        key = prefix + ".".join(path)
        if problem["type"] == "extra_forbidden":
            known = [key.removesuffix(path[-1]) + name for name in _section(model, path[:-1]).model_fields]
            raise SparclError(f"There is no setting called {key!r}{_nearest(key, known)}") from None
        if problem["type"] == "missing":
            raise SparclError(f"The setting {key} is missing.") from None
        expected = problem["msg"][0].lower() + problem["msg"][1:]
        if problem["type"] in ("model_type", "dataclass_type"):
            expected = f"it is a section; set {key}.NAME instead"
        raise SparclError(f"The setting {key} = {problem.get('input')!r} is wrong: {expected}.") from None


def _section(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel]:
    """The model at a place in another one, through lists and what may be left out."""
    for part in path:
        if part in model.model_fields:
            annotation = model.model_fields[part].annotation
            inside = [annotation, *get_args(annotation)]
            model = next((one for one in inside if isinstance(one, type) and issubclass(one, BaseModel)), model)
    return model
