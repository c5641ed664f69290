"""Values from outside (TOML, JSON, the command line) as typed objects, checked entirely before anyone uses them.

A class of settings is a `Checked`: its annotations are its types, `setting` gives defaults, bounds and meanings. It is
a frozen dataclass like any other, made from outside values by `check`; other dataclasses can be checked too. Bounds may
also stand in the type: Annotated[float, Bounds(ge=0)]. A class with `from_plain` and `to_plain` does it itself.
"""

import copy
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform, get_args, get_origin

_T = TypeVar("_T")


@dataclass(frozen=True)
class Bounds:
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def broken_by(self, number: float) -> str | None:
        """What the number must be and is not."""
        for holds, words, limit in (
            (self.ge is None or number >= self.ge, "at least", self.ge),
            (self.gt is None or number > self.gt, "more than", self.gt),
            (self.le is None or number <= self.le, "at most", self.le),
            (self.lt is None or number < self.lt, "less than", self.lt),
        ):
            if not holds:
                return f"it must be {words} {limit}"
        return None


def setting(
    *,
    default: Any = MISSING,
    meaning: str = "",
    factory: Callable[[], Any] | Any = MISSING,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """A field with bounds, and with a meaning for `sparcl settings`."""
    metadata = {"bounds": Bounds(ge, gt, le, lt), "meaning": meaning}
    return dataclasses.field(default=default, default_factory=factory, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting, dataclasses.field))
class Checked:
    """Subclasses become frozen dataclasses. Names that they do not know are refused, or ignored if they say so."""

    ignores_unknown: ClassVar[bool] = False

    def __init_subclass__(cls, ignores_unknown: bool | None = None) -> None:
        if ignores_unknown is not None:
            cls.ignores_unknown = ignores_unknown
        dataclass(frozen=True, kw_only=True)(cls)


class WrongValueError(ValueError):
    """One value is not what it must be, and `path` leads to it.

    sort: "kind" if it is of another kind altogether (a text for a number), "unknown" if nothing is called so; `known`
    are the names there are.
    """

    def __init__(
        self,
        problem: str,
        value: Any = None,
        sort: Literal["value", "kind", "unknown", "missing"] = "value",
        known: Iterable[str] = (),
    ) -> None:
        super().__init__(problem)
        self.problem, self.value, self.sort, self.known = problem, value, sort, list(known)
        self.path: list[str] = []

    def below(self, name: Any) -> "WrongValueError":
        """The same as seen from what holds it, whose own kind was right."""
        self.path.insert(0, str(name))
        self.sort = "value" if self.sort == "kind" else self.sort
        return self

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.problem}" if self.path else self.problem


@dataclass(frozen=True)
class FieldRule:
    """What a field must be, from wherever it is declared."""

    kind: Any
    default: Callable[[], Any] | None = None  # None: it must be given
    bounds: Bounds = Bounds()


def check(kind: type[_T], content: Any) -> _T:
    """The content as an object of this class; raises WrongValueError."""
    found: _T = _convert(kind, content)
    return found


def check_fields(rules: Mapping[str, FieldRule], content: Any, ignores_unknown: bool = False) -> dict[str, Any]:
    """The values of a section by name, with the defaults of those that are not given."""
    if not isinstance(content, Mapping):
        raise WrongValueError("it is a section; set a name inside it", content, "kind")
    for name in content:
        if name not in rules and not ignores_unknown:
            raise WrongValueError("nothing is called so", content[name], "unknown", rules).below(name)
    found: dict[str, Any] = {}
    for name, rule in rules.items():
        if name in content:
            try:
                found[name] = _within(rule.bounds, _convert(rule.kind, content[name]))
            except WrongValueError as wrong:
                raise wrong.below(name) from None
        elif rule.default is None:
            raise WrongValueError("it is missing", None, "missing").below(name)
        else:
            found[name] = rule.default()
    return found


def plain(value: Any) -> Any:
    """The same in dictionaries, lists, texts and numbers; `check` makes it an object again."""
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


@functools.cache
def rules_of(owner: type) -> dict[str, FieldRule]:
    """Of a dataclass."""
    hints = typing.get_type_hints(owner, include_extras=True)
    rules = {}
    for field in dataclasses.fields(owner):
        default: Callable[[], Any] | None = None
        if field.default_factory is not MISSING:
            default = field.default_factory
        elif field.default is not MISSING:
            default = functools.partial(copy.copy, field.default)
        rules[field.name] = FieldRule(hints[field.name], default, field.metadata.get("bounds", Bounds()))
    return rules


def _within(bounds: Bounds, value: Any) -> Any:
    broken = bounds.broken_by(value) if isinstance(value, int | float) else None
    if broken:
        raise WrongValueError(broken, value)
    return value


def _convert(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin is typing.Annotated:
        inner, *notes = get_args(kind)
        value = _convert(inner, value)
        for bounds in (note for note in notes if isinstance(note, Bounds)):
            value = _within(bounds, value)
        return value
    if origin in _GENERIC:
        return _GENERIC[origin](get_args(kind), value)
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    if isinstance(value, kind):
        return value
    if hasattr(kind, "from_plain"):
        return kind.from_plain(value)
    return kind(**check_fields(rules_of(kind), value, getattr(kind, "ignores_unknown", True)))


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError("it must be true or false", value, "kind")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongValueError("it must be a whole number", value, "kind")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongValueError("it must be a number", value, "kind")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise WrongValueError("it must be a finite number", value)
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongValueError("it must be a text", value, "kind")
    return value


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path) or "\0" in str(value):
        raise WrongValueError("it must be a path", value, "kind")
    return Path(value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise WrongValueError("it must be left out", value, "kind")


def _literal(choices: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise WrongValueError(f"choose one of: {', '.join(choices)}", value, "kind")
    return value


def _union(kinds: tuple[Any, ...], value: Any) -> Any:
    wrongs = []
    for kind in kinds:
        try:
            return _convert(kind, value)
        except WrongValueError as wrong:
            if wrong.sort != "kind":
                raise  # it is of this kind, but not right
            if kind is not types.NoneType:
                wrongs.append(wrong)
    raise WrongValueError(", or ".join(wrong.problem for wrong in wrongs), value, "kind")


def _list(kinds: tuple[Any, ...], value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise WrongValueError("it must be a list", value, "kind")
    return [_element(kinds[0], place, one) for place, one in enumerate(value)]


def _tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    found = _list((Any,), value)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_list(kinds[:1], found))
    if len(found) != len(kinds):
        raise WrongValueError(f"it must be a list of {len(kinds)} values", value)
    return tuple(_element(kind, place, one) for place, (kind, one) in enumerate(zip(kinds, found, strict=True)))


def _dictionary(kinds: tuple[Any, ...], value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise WrongValueError("it must be a table of names and values", value, "kind")
    found = {}
    for name, one in value.items():
        if kinds[0] is int and isinstance(name, str) and name.isascii() and name.isdecimal() and len(name) < 20:
            name = int(name)  # JSON has only texts as names
        found[_element(kinds[0], name, name)] = _element(kinds[1], name, one)
    return found


def _element(kind: Any, place: Any, value: Any) -> Any:
    try:
        return _convert(kind, value)
    except WrongValueError as wrong:
        raise wrong.below(place) from None


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    bool: _boolean,
    int: _integer,
    float: _number,
    str: _text,
    Path: _path,
    types.NoneType: _nothing,
}
_GENERIC: dict[Any, Callable[[tuple[Any, ...], Any], Any]] = {
    Literal: _literal,
    list: _list,
    tuple: _tuple,
    dict: _dictionary,
    typing.Union: _union,
    types.UnionType: _union,
}
