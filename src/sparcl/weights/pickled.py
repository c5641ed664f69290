"""What `torch.save` pickled, read without unpickling: a stack machine for what dictionaries of tensors need.

Nothing in the file is called or imported. The names that it mentions become one of the constants below, which stand for
what PyTorch would call; any other name, and any other operation, is refused. A tensor becomes a `PickledTensor`: its
place in a storage, still to be checked against the bytes that are there.

`pickletools` takes the stream apart into operations and their arguments, and runs none of them.
"""

import pickletools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, BinaryIO

from sparcl.weights.file import UnusableError, checked_shape, shown

MAX_OPERATIONS = 1_000_000
NEWEST_PROTOCOL = 5
LARGEST_KEY = 1 << 31  # of whole numbers as keys: larger ones can be chosen so that a dictionary takes forever


class Name(Enum):
    """What a pickle may mention. PyTorch's own functions are understood here, never called."""

    ORDERED_DICT = "collections OrderedDict"
    TENSOR = "torch._utils _rebuild_tensor"  # of version 0.3
    TENSOR_2 = "torch._utils _rebuild_tensor_v2"
    PARAMETER = "torch._utils _rebuild_parameter"
    FLOAT64 = "torch DoubleStorage"
    FLOAT32 = "torch FloatStorage"
    FLOAT16 = "torch HalfStorage"
    BFLOAT16 = "torch BFloat16Storage"
    INT64 = "torch LongStorage"
    INT32 = "torch IntStorage"
    INT16 = "torch ShortStorage"
    INT8 = "torch CharStorage"
    UINT8 = "torch ByteStorage"
    BOOL = "torch BoolStorage"


NAMES = {name.value: name for name in Name}
STORAGES = {name: name.name.lower() for name in Name if name.value.endswith("Storage")}


@dataclass(frozen=True)
class Storage:
    """Numbers of one type, in the part of the file that `key` leads to."""

    kind: str
    key: str
    count: int


@dataclass(frozen=True)
class PickledTensor:
    storage: Storage
    offset: int  # these three in numbers, not in bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]


MARK = object()
NO_SENSE = "is damaged: its pickle makes no sense"


def read_pickle(stream: BinaryIO) -> tuple[Any, dict[str, Storage]]:
    """The object of one pickle, and every storage that it mentions; the stream is left behind its end."""
    machine = _Machine()
    try:
        for number, (operation, argument, _) in enumerate(pickletools.genops(stream)):
            if number >= MAX_OPERATIONS:
                raise UnusableError(f"is a pickle of more than {MAX_OPERATIONS:,} operations")
            if operation.name == "STOP":
                return machine.pop(), machine.storages
            machine.do(operation.name, argument)
    except UnusableError:
        raise
    except (ValueError, IndexError, OverflowError) as error:
        raise UnusableError(NO_SENSE) from error
    raise UnusableError("is damaged: its pickle has no end")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, Storage] = {}

    def do(self, operation: str, argument: Any) -> None:
        match operation:
            case "PROTO":
                if argument > NEWEST_PROTOCOL:
                    raise UnusableError(f"is a pickle of protocol {argument}, which is not known")
            case "FRAME":
                pass
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                self.stack.append(argument)
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BINSTRING" | "SHORT_BINSTRING":  # the last two of Python 2
                self.stack.append(argument)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                self.stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[operation])
            case "EMPTY_DICT":
                self.stack.append({})
            case "EMPTY_LIST":
                self.stack.append([])
            case "EMPTY_TUPLE":
                self.stack.append(())
            case "MARK":
                self.stack.append(MARK)
            case "TUPLE":
                self.stack.append(tuple(self.pop_to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                self.stack.append(tuple(reversed([self.pop() for _ in range(int(operation[-1]))])))
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.top()
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.top()
            case "BINGET" | "LONG_BINGET":
                if argument not in self.memo:
                    raise UnusableError("is damaged: its pickle refers to what is not there")
                self.stack.append(self.memo[argument])
            case "APPEND" | "APPENDS":
                items = [self.pop()] if operation == "APPEND" else self.pop_to_mark()
                self.top(list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = [self.pop(), self.pop()][::-1] if operation == "SETITEM" else self.pop_to_mark()
                self.set_items(items)
            case "GLOBAL":
                self.stack.append(_known(argument))
            case "STACK_GLOBAL":
                name, module = self.pop(str), self.pop(str)
                self.stack.append(_known(f"{module} {name}"))
            case "BINPERSID":
                storage = _storage(self.pop(tuple))
                if self.storages.setdefault(storage.key, storage) != storage:
                    raise UnusableError("has a storage of two types or sizes")
                self.stack.append(storage)
            case "REDUCE":
                arguments, name = self.pop(tuple), self.pop(Name)
                self.stack.append(_made(name, arguments))
            case "BUILD":  # a state dict has attributes beside its entries, which nobody needs
                self.pop()
                self.top(dict)
            case _:
                raise UnusableError(
                    f"does more in its pickle than a dictionary of tensors needs ({operation}). "
                    "Save only the tensors: torch.save(model.state_dict(), file)"
                )

    def pop(self, kind: type = object) -> Any:
        value = self.top(kind)
        self.stack.pop()
        return value

    def top(self, kind: type = object) -> Any:
        if not self.stack or self.stack[-1] is MARK or not isinstance(self.stack[-1], kind):
            raise UnusableError(NO_SENSE)
        return self.stack[-1]

    def pop_to_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is MARK:
                found = self.stack[place + 1 :]
                del self.stack[place:]
                return found
        raise UnusableError(NO_SENSE)

    def set_items(self, items: list[Any]) -> None:
        if len(items) % 2:
            raise UnusableError(NO_SENSE)
        _add(self.top(dict), zip(items[::2], items[1::2], strict=True))


def _add(target: dict[Any, Any], items: Iterable[tuple[Any, Any]]) -> None:
    for key, value in items:
        # What hashes slowly, or alike, could keep somebody busy for hours.
        if type(key) is not str and not (type(key) is int and abs(key) < LARGEST_KEY):
            raise UnusableError("has a dictionary whose keys are not names")
        target[key] = value


def _known(name: str) -> Name:
    if name not in NAMES:
        raise UnusableError(
            f"refers to {shown(name.replace(' ', '.'))}, which is not part of a dictionary of tensors. "
            "Save only the tensors: torch.save(model.state_dict(), file)"
        )
    return NAMES[name]


def _storage(identity: tuple[Any, ...]) -> Storage:
    """From ("storage", type, key, where it was, how many numbers); the old format adds None."""
    match identity:
        case ("storage", Name() as name, str(key), str(), int(count), *rest) if name in STORAGES and rest in (
            [],
            [None],
        ):
            if count >= 0:
                return Storage(STORAGES[name], key, count)
    raise UnusableError("has a storage of a kind that is not known")


def _made(name: Name, arguments: tuple[Any, ...]) -> Any:
    """What PyTorch's function would give."""
    match name, arguments:
        case Name.ORDERED_DICT, ():
            return {}
        case Name.ORDERED_DICT, (list(pairs),) if all(type(pair) is list and len(pair) == 2 for pair in pairs):
            made: dict[Any, Any] = {}  # as Python 2 wrote it
            _add(made, ((key, value) for key, value in pairs))
            return made
        case Name.PARAMETER, (PickledTensor() as tensor, *_):
            return tensor
        case ((Name.TENSOR | Name.TENSOR_2), (Storage() as storage, int(offset), tuple(shape), tuple(strides), *_)):
            if len(shape) == len(strides):
                return PickledTensor(storage, offset, checked_shape(shape), checked_shape(strides))
    raise UnusableError(f"has a tensor that was made in a way that is not known ({name.value.split()[1]})")


def tensors_in(content: Any) -> dict[str, PickledTensor]:
    """The state dict in what was saved: itself, or inside of a training's checkpoint under one of the usual names."""
    for found in _dictionaries(content, 3, set()):
        tensors = {key: value for key, value in found.items() if type(key) is str and isinstance(value, PickledTensor)}
        if tensors:
            return tensors
    if isinstance(content, dict) and content:
        entries = ", ".join(shown(str(key), 20) for key in list(content)[:5])
        raise UnusableError(f"has no tensors where a state dict has them; it has: {entries}")
    raise UnusableError("does not hold a dictionary of tensors")


NESTED = ("state_dict", "model_state_dict", "model", "net", "network", "module", "weights", "params")


def _dictionaries(content: Any, depth: int, seen: set[int]) -> Iterator[dict[Any, Any]]:
    """The inner ones first: a checkpoint may have tensors of its own beside the state dict."""
    if not isinstance(content, dict) or id(content) in seen:
        return
    seen.add(id(content))
    if depth:
        for name in NESTED:
            yield from _dictionaries(content.get(name), depth - 1, seen)
    yield content
