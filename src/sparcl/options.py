"""Classes that are chosen by name and take options: methods and sparsifiers.

The options of a class are its annotated attributes and those of its bases, with their defaults, except class variables.
A text in the annotation says what an option means: `alpha: Annotated[NotNegative, "weight of the distance"] = 0.3`.
"""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, get_origin, get_type_hints

from sparcl.checked import Bounds
from sparcl.errors import SparclError

Share = Annotated[float, Bounds(ge=0, lt=1)]
Positive = Annotated[float, Bounds(gt=0)]
NotNegative = Annotated[float, Bounds(ge=0)]
AtLeastOne = Annotated[int, Bounds(ge=1)]


def declared_options(owner: type) -> dict[str, tuple[Any, Any]]:
    """Name, type (with its bounds, if annotated) and default of every option."""
    hints = {
        name: hint
        for name, hint in get_type_hints(owner, include_extras=True).items()
        if get_origin(hint) is not ClassVar and hint is not ClassVar
    }
    for name in hints:
        if not hasattr(owner, name):
            raise SparclError(f"The option {name} of {owner.__name__} has no default. Give it one: {name}: ... = VALUE")
    return {name: (hint, getattr(owner, name)) for name, hint in hints.items()}


def option_meanings(owner: type) -> dict[str, str]:
    """What each option means, for those that say it; a class that only changes a default need not say it again."""
    meanings = {}
    for base in reversed(owner.__mro__):
        for name, hint in inspect.get_annotations(base, eval_str=True).items():
            for note in getattr(hint, "__metadata__", ()):
                if isinstance(note, str):
                    meanings[name] = note
    return meanings


def set_options(owner: object, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(owner, name, value)
