"""What a compiled network is made of. Maps, norms and layers are known by name; the engine gets numbers for them."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Extent(NamedTuple):
    """The size of a map in memory: `row` and `plane` are pixels between rows and between channels."""

    channels: int
    height: int
    width: int
    row: int
    plane: int


@dataclass
class ArenaBuffer:
    """A stretch of the arena that is in use from one step to another."""

    name: str
    floats: int
    first: int
    last: int
    offset: int = -1


@dataclass
class PlanStep:
    """One step of the engine (native/engine/program.h says what each reads and writes)."""

    op: str
    layer: str = ""  # the node whose parameters it uses
    a: str = ""
    b: str = ""
    c: str = ""
    out: str = ""
    norm_a: str = ""
    norm_b: str = ""
    mask: str = ""  # where the activation lets gradients through
    activation: str = ""
    attributes: tuple[int, ...] = ()
    state: int = 0  # floats that an operation leaves for its backward pass
    backward: bool = False  # of an operation of the engine's table
    recompute: bool = False  # a step of the forward pass, made once more because its result was not kept
    write_gated: bool = False
    accumulate: bool = False

    @property
    def maps(self) -> list[str]:
        return [name for name in (self.a, self.b, self.c, self.out) if name]

    @property
    def norm_states(self) -> list[str]:
        """The buffers in which norms keep their statistics between the passes."""
        return [f"{name}:state" for name in (self.norm_a, self.norm_b) if name]


@dataclass
class Plan:
    images: int
    lanes: int
    forward_steps: int
    steps: list[PlanStep]
    extents: dict[str, Extent]  # of every map
    buffers: dict[str, ArenaBuffer] = field(default_factory=dict)
    arena: int = 0  # floats

    @property
    def blocks(self) -> int:
        return -(-self.images // self.lanes)

    def offset(self, name: str) -> int:
        """Where a map's first pixel, a norm's state or an activation's mask lies in the arena, in floats."""
        buffer = self.buffers[name]
        # A map has one pixel of zeros in front of it.
        return buffer.offset + self.lanes if name in self.extents else buffer.offset
