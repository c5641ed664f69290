"""What the engine refuses: programs, arrays and calls that do not fit, before anything is computed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.network.parameters import Index

REFUSED = (ValueError, IndexError)


def numbers(count: int) -> Index:
    return np.arange(count, dtype=np.int32)


@dataclass
class Tiny:
    """A program by hand: a convolution, a norm with ReLU, pooling, a linear layer; forward and backward."""

    engine: _engine.Engine = field(default_factory=_engine.Engine)
    images: int = 3
    arena: int = 0
    forward_steps: int = 7
    maps: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    sizes: tuple[int, int] = (54 + 6 + 15 + 5, 6)

    def __post_init__(self) -> None:
        lanes = _engine.lanes()
        image, features = (2, 5, 4, 5, 25), (3, 5, 4, 5, 25)
        pooled, logits, halved = (3, 1, 1, 1, 1), (5, 1, 1, 1, 1), (3, 2, 2, 3, 6)
        extents = [image, features, features, halved, pooled, logits]
        for extent in extents + extents:  # maps 6.. are gradients
            self.maps.append((self.arena + lanes, extent))
            self.arena += lanes * (1 + extent[0] * extent[4])
        mask, state = self.arena, self.arena + 64 * lanes
        self.arena = state + 16
        self.engine.add_convolution(3, 1, image, features)
        self.engine.add_norm(3, True)
        feature_map, half = (3, 5, 4), (3, 2, 2)
        self.engine.add_operation("max_pool", feature_map, half, [2, 2, 0])
        self.engine.add_operation("global_average_pool", half, (3, 1, 1), [])
        self.engine.add_operation("linear", (3, 1, 1), (5, 1, 1), [])
        norm = {"norm_a": 0, "state_a": state, "mask": mask}
        self.steps = [
            {"op": "pack", "out": 0},
            {"op": "convolve", "layer": 0, "a": 0, "out": 1},
            {"op": "combine", "a": 1, "out": 2, "activation": "relu", **norm},
            {"op": "operation", "layer": 0, "a": 2, "out": 3},
            {"op": "operation", "layer": 1, "a": 3, "out": 4},
            {"op": "operation", "layer": 2, "a": 4, "out": 5},
            {"op": "unpack", "a": 5},
            {"op": "pack_gradient", "out": 11},
            {"op": "operation_backward", "layer": 2, "a": 4, "c": 11, "out": 10},
            {"op": "operation_backward", "layer": 1, "c": 10, "out": 9},
            {"op": "operation_backward", "layer": 0, "a": 2, "b": 3, "c": 9, "out": 8},
            {"op": "combine_backward", "a": 8, "b": 1, "out": 7, **norm},
            {"op": "weight_gradient", "layer": 0, "a": 0, "b": 7},
            {"op": "data_gradient", "layer": 0, "a": 7, "out": 6},
        ]

    def step(self, op: str, **changes: Any) -> None:
        place = {"pool": 3, "mean": 4, "linear": 5, "linear backward": 8, "mean backward": 9, "pool backward": 10}.get(
            op
        )
        found = self.steps[place] if place else next(step for step in self.steps if step["op"] == op)
        found.update(changes)

    def move(self, place: int, offset: int | None = None, extent: tuple[int, ...] | None = None) -> None:
        self.maps[place] = (
            self.maps[place][0] if offset is None else offset,
            self.maps[place][1] if extent is None else extent,
        )

    def program(self) -> _engine.Program:
        steps = [_engine.Step(**step) for step in self.steps]
        return _engine.Program(self.engine, self.images, self.arena, self.forward_steps, self.maps, steps)

    def bind(self) -> None:
        self.engine.set_sizes(*self.sizes)
        self.engine.bind_convolution(0, 0, numbers(54))
        self.engine.bind_norm(0, 54, 57, 0, 3)
        self.engine.bind_operation(0, -1, -1, -1)
        self.engine.bind_operation(1, -1, -1, -1)
        self.engine.bind_operation(2, 60, 75, -1)

    def arrays(self) -> dict[str, Any]:
        """What the program's forward and backward passes are called with, as it should be."""
        values, statistics = self.sizes
        generator = np.random.default_rng(0)

        def numbers(*shape: int) -> NDArray[Any]:
            return generator.uniform(0.1, 1, shape).astype(np.float32)

        return {
            "images": numbers(3, 2, 5, 4),
            "logits": np.full((3, 5), np.nan, np.float32),
            "d_logits": numbers(3, 5),
            "values": numbers(values),
            "gradients": np.zeros(values, np.float32),
            "statistics": numbers(statistics),
            "arena": _engine.Arena(self.arena),
            "dense_gradients": {},
            "threads": 1,
        }

    def run(self, given: dict[str, Any]) -> None:
        program = self.program()
        flat = {name: given[name] for name in ("arena", "values", "gradients", "statistics", "threads")}
        program.forward(images=given["images"], logits=given["logits"], training=True, momentum=0.1, **flat)
        program.backward(d_logits=given["d_logits"], dense_gradients=given["dense_gradients"], training=True, **flat)
        program.run_steps(steps=[1, 2, 12], **flat)


def test_the_program_the_bad_ones_are_made_of_runs():
    tiny = Tiny()
    tiny.bind()
    given = tiny.arrays()
    given["dense_gradients"] = {0: np.zeros(54, np.float32)}
    tiny.run(given)
    assert np.isfinite(given["logits"]).all()
    assert np.isfinite(given["gradients"]).all()
    assert given["dense_gradients"][0].any()


BAD_PROGRAMS: dict[str, Callable[[Tiny], object]] = {
    "no images": lambda t: setattr(t, "images", 0),
    "negative images": lambda t: setattr(t, "images", -5),
    "too many images": lambda t: setattr(t, "images", 2**30),
    "arena too small": lambda t: setattr(t, "arena", t.arena - 17),
    "arena negative": lambda t: setattr(t, "arena", -1),
    "more forward steps than steps": lambda t: setattr(t, "forward_steps", 15),
    "negative forward steps": lambda t: setattr(t, "forward_steps", -1),
    "no input": lambda t: t.steps.pop(0),
    "no output": lambda t: t.steps.pop(6),
    "images wanted in the backward pass": lambda t: setattr(t, "forward_steps", 0),
    "gradients wanted in the forward pass": lambda t: setattr(t, "forward_steps", 8),
    "logits wanted in the backward pass": lambda t: setattr(t, "forward_steps", 6),
    "two inputs that differ": lambda t: t.steps.insert(0, {"op": "pack", "out": 1}),
    "two outputs that differ": lambda t: t.steps.insert(6, {"op": "unpack", "a": 4}),
    "logits with rows": lambda t: (t.step("unpack", a=3), t.step("pack_gradient", out=9)),
    "map before the arena": lambda t: t.move(2, 0),
    "map at a negative place": lambda t: t.move(2, -_engine.lanes()),
    "map not aligned": lambda t: t.move(2, t.maps[2][0] + 1),
    "map behind the arena": lambda t: t.move(2, t.arena // 16 * 16),
    "map far behind the arena": lambda t: t.move(2, 2**63 - 64),
    "map without channels": lambda t: t.move(2, extent=(0, 5, 4, 5, 25)),
    "map of negative height": lambda t: t.move(2, extent=(3, -5, 4, 5, 25)),
    "map with a row too short": lambda t: t.move(2, extent=(3, 5, 4, 3, 25)),
    "map with a row too long": lambda t: t.move(2, extent=(3, 5, 4, 6, 30)),
    "map with a plane too small": lambda t: t.move(2, extent=(3, 5, 4, 5, 24)),
    "map whose size overflows": lambda t: t.move(2, extent=(2**30, 1, 1, 1, 2**30)),
    "map without layer that overflows": lambda t: t.maps.append((16, (2**30, 1, 1, 1, 2**30))),
    "missing map": lambda t: t.step("combine", a=12),
    "missing map to write to": lambda t: t.step("mean", out=-1),
    "missing gradient map": lambda t: t.step("weight_gradient", b=99),
    "missing map where none is needed": lambda t: t.step("weight_gradient", out=99),
    "missing operand where none is needed": lambda t: t.step("combine_backward", norm_a=-1, b=10**9),
    "missing input of a data gradient": lambda t: t.step("data_gradient", out=-7),
    "missing map of a pooling": lambda t: t.step("pool backward", c=-1),
    "missing map of a linear layer": lambda t: t.step("linear backward", out=77),
    "missing input map": lambda t: t.step("pack", out=50),
    "missing output map": lambda t: t.step("unpack", a=50),
    "missing convolution": lambda t: t.step("convolve", layer=1),
    "negative convolution": lambda t: t.step("convolve", layer=-1),
    "missing convolution of a gradient": lambda t: t.step("weight_gradient", layer=5),
    "missing linear layer": lambda t: t.step("linear", layer=3),
    "missing norm": lambda t: t.step("combine", norm_a=1),
    "missing norm of the second operand": lambda t: t.step("combine", b=1, norm_b=9),
    "missing norm of a gradient": lambda t: t.step("combine_backward", norm_a=9),
    "norm without operand": lambda t: t.step("combine_backward", b=-1),
    "norm of other channels": lambda t: t.step("combine", a=5, out=11),
    "convolution of a wrong map": lambda t: t.step("convolve", a=1),
    "convolution to a wrong map": lambda t: t.step("convolve", out=0),
    "combination of maps that differ": lambda t: t.step("combine", b=0),
    "gradient for a map that differs": lambda t: t.step("combine_backward", out=0),
    "gradient of a pooling that differs": lambda t: t.step("pool backward", c=8),
    "backward pass without the input it reads": lambda t: t.step("linear backward", a=-1),
    "backward pass without the output it reads": lambda t: t.step("pool backward", b=-1),
    "backward pass with an output laid out otherwise": lambda t: t.move(3, extent=(3, 2, 2, 2, 4)),
    "backward pass that nobody wants": lambda t: t.step("mean backward", out=-1),
    "residual of an operation that takes none": lambda t: t.step("pool", b=9),
    "activation of an operation that has none": lambda t: t.step("pool", activation="relu"),
    "unknown activation": lambda t: t.step("combine", activation="tanh"),
    "activation that does not gate": lambda t: t.step("combine", activation="hard_swish"),
    "pooling to a wrong map": lambda t: t.step("mean", out=3),
    "linear layer of a map with rows": lambda t: t.step("linear", a=3),
    "linear layer of other features": lambda t: t.step("linear", a=5),
    "gradients that do not fit the output": lambda t: t.step("pack_gradient", out=10),
    "state behind the arena": lambda t: t.step("combine", state_a=t.arena - 11),
    "state far behind the arena": lambda t: t.step("combine", state_a=2**63 - 4),
    "no state": lambda t: t.step("combine", state_a=-1),
    "mask behind the arena": lambda t: t.step("combine", mask=t.arena - 20),
    "mask far behind the arena": lambda t: t.step("combine", mask=2**63 - 4),
    "convolution with a missing norm": lambda t: t.step("convolve", norm_a=1),
    "convolution with a residual and no norm": lambda t: t.step("convolve", b=2),
    "convolution with a norm before a backward pass": lambda t: t.step("convolve", norm_a=0),
    "unknown operation": lambda t: t.steps.append({"op": "divide", "a": 0, "out": 0}),
}


@pytest.mark.parametrize("spoil", BAD_PROGRAMS.values(), ids=BAD_PROGRAMS)
def test_a_bad_program_is_refused(spoil):
    tiny = Tiny()
    spoil(tiny)
    with pytest.raises(REFUSED):
        tiny.program()


def without_last(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array[..., :-1])


BAD_ARRAYS: dict[str, Callable[[dict[str, Any]], object]] = {
    "too few images": lambda g: g.update(images=g["images"][:2]),
    "images too small": lambda g: g.update(images=without_last(g["images"])),
    "images of other channels": lambda g: g.update(images=np.ascontiguousarray(g["images"][:, :1])),
    "too few logits": lambda g: g.update(logits=g["logits"][:2]),
    "logits of other classes": lambda g: g.update(logits=without_last(g["logits"])),
    "too few gradients": lambda g: g.update(d_logits=g["d_logits"][:2]),
    "gradients of other classes": lambda g: g.update(d_logits=without_last(g["d_logits"])),
    "values too short": lambda g: g.update(values=without_last(g["values"])),
    "gradient store too short": lambda g: g.update(gradients=without_last(g["gradients"])),
    "statistics too short": lambda g: g.update(statistics=without_last(g["statistics"])),
    "arena too small": lambda g: g.update(arena=_engine.Arena(64)),
    "no threads": lambda g: g.update(threads=0),
    "threads without number": lambda g: g.update(threads=100_000),
    "dense gradient of another size": lambda g: g.update(dense_gradients={0: np.zeros(53, np.float32)}),
    "dense gradient of no layer": lambda g: g.update(dense_gradients={1: np.zeros(54, np.float32)}),
    "dense gradient of a negative layer": lambda g: g.update(dense_gradients={-1: np.zeros(54, np.float32)}),
}


@pytest.mark.parametrize("spoil", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(spoil):
    tiny = Tiny()
    tiny.bind()
    given = tiny.arrays()
    spoil(given)
    with pytest.raises(REFUSED):
        tiny.run(given)


def test_a_program_for_inference_computes_nothing_before_it_was_given_weights():
    tiny = Tiny()
    tiny.bind()
    tiny.steps[1:3] = [{"op": "convolve", "layer": 0, "a": 0, "out": 2, "norm_a": 0, "activation": "relu"}]
    tiny.steps, tiny.forward_steps = tiny.steps[:6], 6
    with pytest.raises(REFUSED):
        tiny.program().run_steps(_engine.Arena(tiny.arena), [1], *flat_of(tiny), 1)


def test_there_is_no_backward_pass_before_a_forward_pass():
    tiny = Tiny()
    tiny.bind()
    given = tiny.arrays()
    with pytest.raises(REFUSED, match="no forward pass"):
        tiny.program().backward(given["arena"], given["d_logits"], *flat_of(tiny), True, {}, 1)
    assert not given["gradients"].any()


def test_an_inference_program_folds_norms_into_a_convolution_once():
    """Two steps would write the same weights at once, and the second one's norm would count for both."""
    tiny = Tiny()
    folded = {"op": "convolve", "layer": 0, "a": 0, "norm_a": 0, "activation": "relu"}
    tiny.steps[1:3] = [{**folded, "out": 1}, {**folded, "out": 2}]
    tiny.steps, tiny.forward_steps = tiny.steps[:7], 7
    with pytest.raises(REFUSED, match="only once"):
        tiny.program()


def test_arrays_of_another_kind_are_refused():
    tiny = Tiny()
    tiny.bind()
    for name in ("images", "logits", "d_logits", "values", "gradients", "statistics"):
        for spoil in (lambda a: a.astype(np.float64), lambda a: a.repeat(2, -1)[..., ::2], lambda a: a[None]):
            given = tiny.arrays()
            given[name] = spoil(given[name])
            with pytest.raises(TypeError):
                tiny.run(given)


def test_arrays_that_are_written_to_are_never_copies():
    tiny = Tiny()
    tiny.bind()
    numbers = np.ones(4, np.float32)
    for velocity in (np.zeros(4), np.zeros(8, np.float32)[::2]):
        with pytest.raises(TypeError):
            _engine.sgd(numbers, numbers.copy(), velocity, 0.1, 0.9, 0.0)
    with pytest.raises(ValueError, match="differ in length"):
        _engine.sgd(numbers, numbers.copy(), None, 0.1, 0.9, 0.0, np.ones(3, np.uint8))
    table = np.ones((3, 2), np.float32)
    good = [*(np.ones(4, np.float32) for _ in range(4)), np.zeros(4, np.int32), None, table]
    for place, wrong, error in (
        (2, np.zeros(4), TypeError),
        (4, np.zeros(4, np.int64), TypeError),
        (3, np.zeros(5, np.float32), ValueError),
        (5, np.zeros(5, np.uint8), ValueError),
        (6, np.ones((3, 3), np.float32), ValueError),
        (6, np.ones((0, 2), np.float32), ValueError),
    ):
        with pytest.raises(error):
            _engine.adamw(*good[:place], wrong, *good[place + 1 :], 0.1, 0.9, 0.999, 1e-8, 0.0)
    with pytest.raises(TypeError):
        tiny.run({**tiny.arrays(), "dense_gradients": {0: np.zeros(54)}})


BAD_LAYERS: dict[str, Callable[[Tiny], object]] = {
    "positions not sorted": lambda t: t.engine.bind_convolution(0, 0, np.array([3, 1], np.int32)),
    "positions twice": lambda t: t.engine.bind_convolution(0, 0, np.array([3, 3], np.int32)),
    "negative position": lambda t: t.engine.bind_convolution(0, 0, np.array([-1, 3], np.int32)),
    "position behind the weight": lambda t: t.engine.bind_convolution(0, 0, np.array([3, 54], np.int32)),
    "weight behind the store": lambda t: t.engine.bind_convolution(0, 27, numbers(54)),
    "weight before the store": lambda t: t.engine.bind_convolution(0, -1, numbers(54)),
    "weight far behind the store": lambda t: t.engine.bind_convolution(0, 2**63 - 1, numbers(54)),
    "too few places": lambda t: t.engine.bind_convolution(0, 0, numbers(54), numbers(53)),
    "place outside": lambda t: t.engine.bind_convolution(0, 0, numbers(3), np.array([0, 1, 3], np.int32)),
    "negative place": lambda t: t.engine.bind_convolution(0, 0, numbers(3), np.array([0, 1, -1], np.int32)),
    "place twice": lambda t: t.engine.bind_convolution(0, 0, numbers(3), np.array([0, 0, 1], np.int32)),
    "missing convolution": lambda t: t.engine.bind_convolution(1, 0, numbers(54)),
    "negative convolution": lambda t: t.engine.bind_convolution(-1, 0, numbers(54)),
    "moved behind the store": lambda t: t.engine.move_convolution(0, 27),
    "moved before the store": lambda t: t.engine.move_convolution(0, -1),
    "moved a missing convolution": lambda t: t.engine.move_convolution(4, 0),
    "norm behind the store": lambda t: t.engine.bind_norm(0, 78, 57, 0, 3),
    "norm without scale": lambda t: t.engine.bind_norm(0, -1, 57, 0, 3),
    "norm without bias": lambda t: t.engine.bind_norm(0, 54, -1, 0, 3),
    "statistics behind the store": lambda t: t.engine.bind_norm(0, 54, 57, 0, 4),
    "missing norm": lambda t: t.engine.bind_norm(1, 54, 57, 0, 3),
    "operation behind the store": lambda t: t.engine.bind_operation(2, 66, 0, -1),
    "bias behind the store": lambda t: t.engine.bind_operation(2, 60, 76, -1),
    "missing operation": lambda t: t.engine.bind_operation(-1, 60, 75, -1),
    "operation without its weight": lambda t: t.engine.bind_operation(2, -1, 75, -1),
    "linear layer without its bias": lambda t: t.engine.bind_operation(2, 60, -1, -1),
    "weight of an operation that has none": lambda t: t.engine.bind_operation(0, 60, -1, -1),
    "statistics of an operation that has none": lambda t: t.engine.bind_operation(2, 60, 75, 0),
    "unknown operation": lambda t: t.engine.add_operation("divide", (1, 1, 1), (1, 1, 1), []),
    "too few attributes": lambda t: t.engine.add_operation("max_pool", (3, 4, 4), (3, 2, 2), [2, 2]),
    "too many attributes": lambda t: t.engine.add_operation("linear", (3, 1, 1), (3, 1, 1), [1]),
    "pooling without kernel": lambda t: t.engine.add_operation("max_pool", (3, 4, 4), (3, 4, 4), [0, 1, 0]),
    "pooling with a negative kernel": lambda t: t.engine.add_operation("max_pool", (3, 4, 4), (3, 4, 4), [-2, 1, 0]),
    "pooling without stride": lambda t: t.engine.add_operation("max_pool", (3, 4, 4), (3, 3, 3), [2, 0, 0]),
    "pooling with another kernel": lambda t: t.engine.add_operation("max_pool", (3, 4, 4), (3, 2, 2), [4, 3, 0]),
    "pooling with wide padding": lambda t: t.engine.add_operation("average_pool", (3, 4, 4), (3, 5, 5), [2, 2, 3, 1]),
    "pooling of other channels": lambda t: t.engine.add_operation("max_pool", (3, 4, 4), (2, 2, 2), [2, 2, 0]),
    "concatenation outside": lambda t: t.engine.add_operation("concat", (3, 4, 4), (5, 4, 4), [3]),
    "concatenation before": lambda t: t.engine.add_operation("concat", (3, 4, 4), (5, 4, 4), [-1]),
    "dropout of everything": lambda t: t.engine.add_operation("dropout", (3, 4, 4), (3, 4, 4), [1 << 16, 0]),
    "window larger than seven": lambda t: t.engine.add_operation("depthwise", (3, 9, 9), (3, 9, 9), [9, 1, 4]),
    "depthwise of other channels": lambda t: t.engine.add_operation("depthwise", (3, 9, 9), (4, 9, 9), [3, 1, 1]),
    "window of an even size": lambda t: t.engine.add_operation("dense_conv", (3, 9, 9), (4, 9, 9), [4, 1, 2]),
    "norm with an impossible epsilon": lambda t: t.engine.add_norm(3, True, -1.0, 0.1),
    "updated weights not sorted": lambda t: t.engine.set_updated(0, np.array([3, 1])),
    "updated weights twice": lambda t: t.engine.set_updated(0, np.array([1, 1])),
    "updated weight not active": lambda t: t.engine.set_updated(0, np.array([54])),
    "negative updated weight": lambda t: t.engine.set_updated(0, np.array([-1])),
    "updated weights of no layer": lambda t: t.engine.set_updated(1, None),
    "knobs of no layer": lambda t: t.engine.knobs(1),
    "knobs for no layer": lambda t: t.engine.set_knobs(1, (0, 1), (0, 1), (0, True)),
    "unknown tile": lambda t: t.engine.set_knobs(0, (8, 1), (0, 1), (0, True)),
    "negative tile": lambda t: t.engine.set_knobs(0, (0, 1), (-1, 1), (0, True)),
    "empty block of channels": lambda t: t.engine.set_knobs(0, (0, 0), (0, 1), (0, True)),
    "unknown tile of a gradient": lambda t: t.engine.set_knobs(0, (0, 1), (0, 1), (8, True)),
    "values of another size": lambda t: t.engine.refresh(np.zeros(79, np.float32), True, 1),
    "refresh without threads": lambda t: t.engine.refresh(np.zeros(80, np.float32), True, 0),
    "sizes without layers bound anew": lambda t: (t.engine.set_sizes(80, 6), t.run(t.arrays())),
    "a step that does not exist": lambda t: t.program().run_steps(_engine.Arena(t.arena), [14], *flat_of(t), 1),
    "a negative step": lambda t: t.program().run_steps(_engine.Arena(t.arena), [-1], *flat_of(t), 1),
    "a step that needs images": lambda t: t.program().run_steps(_engine.Arena(t.arena), [0], *flat_of(t), 1),
    "a step that needs logits": lambda t: t.program().run_steps(_engine.Arena(t.arena), [6], *flat_of(t), 1),
    "a step that needs gradients": lambda t: t.program().run_steps(_engine.Arena(t.arena), [7], *flat_of(t), 1),
    "5x5 convolution": lambda t: t.engine.add_convolution(5, 1, (2, 5, 4, 5, 25), (3, 5, 4, 5, 25)),
    "stride 3": lambda t: t.engine.add_convolution(3, 3, (2, 5, 4, 5, 25), (3, 2, 2, 3, 6)),
    "stride 0": lambda t: t.engine.add_convolution(3, 0, (2, 5, 4, 5, 25), (3, 5, 4, 5, 25)),
    "output of another size": lambda t: t.engine.add_convolution(3, 1, (2, 5, 4, 5, 25), (3, 4, 4, 5, 20)),
    "5x5 map without padding": lambda t: t.engine.add_convolution(3, 1, (2, 5, 5, 5, 25), (3, 5, 5, 6, 30)),
    "strided 4x4 map without padding": lambda t: t.engine.add_convolution(3, 2, (2, 4, 4, 4, 16), (3, 2, 2, 3, 6)),
    "convolution of a huge map": lambda t: t.engine.add_convolution(1, 1, (2**20, 1, 1, 2, 2**20), (3, 1, 1, 2, 2)),
    "convolution of no channels": lambda t: t.engine.add_convolution(1, 1, (0, 1, 1, 2, 2), (3, 1, 1, 2, 2)),
    "norm of no channels": lambda t: t.engine.add_norm(0, True),
    "linear layer of no features": lambda t: t.engine.add_operation("linear", (0, 1, 1), (3, 1, 1), []),
    "arena of negative size": lambda t: _engine.Arena(-1),
    "no threads at all": lambda t: _engine.set_threads(0),
    "more threads than can be": lambda t: _engine.set_threads(100_000),
    "refresh with too many threads": lambda t: t.engine.refresh(np.zeros(80, np.float32), True, 100_000),
}


def flat_of(tiny: Tiny) -> tuple[Any, ...]:
    given = tiny.arrays()
    return given["values"], given["gradients"], given["statistics"]


@pytest.mark.parametrize("call", BAD_LAYERS.values(), ids=BAD_LAYERS)
def test_a_bad_call_is_refused(call):
    tiny = Tiny()
    tiny.bind()
    with pytest.raises(REFUSED):
        call(tiny)
