"""The native backend: sparse convolutions that cost what their active weights cost. It needs no torch.

The graph is compiled once for each batch size (sparcl.compiler) and run by the engine (native/engine). Sparse weights
are never made dense: the engine sorts the active positions into the orders its kernels read, again whenever they
change, and takes over the current values at each forward pass.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.compiler import Plan, PlanStep, compile_graph
from sparcl.graph import Graph, ParameterSpec
from sparcl.network.parameters import Index, Parameters
from sparcl.network.protocol import BATCH_NORM_MOMENTUM, Features, Images, Logits

SMALLEST_PART = 16  # images that are predicted at once, if there are so many: threads need enough to share


@dataclass(eq=False)
class NativeContext:
    """The memory in which a forward pass left what its backward pass needs; it is used again when this is gone."""

    network: "NativeNetwork"
    program: "CompiledPlan"
    arena: _engine.Arena | None
    train: bool
    layout: int

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        if self.arena is not None:
            self.network.give_back(self.arena)
            self.arena = None


@dataclass(frozen=True)
class CompiledPlan:
    plan: Plan
    compiled: _engine.Program


class NativeNetwork:
    def __init__(self, graph: Graph, parameters: Parameters) -> None:
        self.graph = graph
        self.parameters = parameters
        self.engine = _engine.Engine()
        self._lanes = _engine.lanes()
        self._programs: dict[tuple[int, bool], CompiledPlan] = {}
        self._feature_programs: dict[int, CompiledPlan] = {}
        # Around what takes several calls of the engine, which lets other Python threads in at each. A context that is
        # gone gives its memory back at any moment, so the same thread may ask again.
        self._turn = threading.RLock()
        self._free: list[_engine.Arena] = []
        self._layout = -1
        self._bound: dict[str, Index | None] = {}  # the positions each convolution was last sorted for
        self._updated: dict[str, Index] = {}
        self._add_layers()

    def _add_layers(self) -> None:
        plan = compile_graph(self.graph, 1, self._lanes, backward=False)
        extents = plan.extents
        padded = {step.layer: step.a for step in plan.steps if step.op == "convolve"}
        self.convolutions: dict[str, int] = {}
        self.norms: dict[str, int] = {}
        self.linears: dict[str, int] = {}
        for node in self.graph:
            if node.op == "conv":
                self.convolutions[node.name] = self.engine.add_convolution(
                    node.kernel, node.stride, extents[padded[node.name]], extents[node.name]
                )
                if node.bias:
                    self.norms[f"{node.name}:bias"] = self.engine.add_norm(node.shape[0], False)
            elif node.op == "batch_norm":
                self.norms[node.name] = self.engine.add_norm(node.shape[0], True)
            elif node.op == "linear":
                self.linears[node.name] = self.engine.add_linear(self.graph[node.inputs[0]].shape[0], node.shape[0])

    def forward(
        self, images: Images, *, train: bool = True, momentum: float = BATCH_NORM_MOMENTUM
    ) -> tuple[Logits, NativeContext]:
        program = self.program(len(images), backward=True)
        context = NativeContext(self, program, self.take(program.plan.arena), train, self.parameters.layout)
        return self._run(program, context.arena, images, train, momentum), context

    def backward(
        self, context: NativeContext, d_logits: Logits, dense_gradients: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        if context.arena is None or context.layout != self.parameters.layout:
            raise ValueError("this forward pass has had its backward pass, or the active weights have changed since")
        self._choose_updated()
        wanted = dense_gradients or {}
        flat = {self.convolutions[name.removesuffix(".weight")]: _flat(array) for name, array in wanted.items()}
        context.program.compiled.backward(
            context.arena,
            np.ascontiguousarray(d_logits, np.float32),
            *self.flat_arrays(),
            context.train,
            flat,
            _engine.threads(),
        )
        context.release()

    def predict(self, images: Images) -> Logits:
        return self._infer(lambda count: self.program(count, backward=False), images)

    def features(self, images: Images) -> Features:
        return self._infer(self._feature_program, images)

    def with_parameters(self, parameters: Parameters) -> "NativeNetwork":
        return NativeNetwork(self.graph, parameters)

    def _infer(self, program_for: Callable[[int], CompiledPlan], images: Images) -> NDArray[Any]:
        """Every image by itself, so a few at a time: their maps stay in the caches, and take little memory."""
        together = max(SMALLEST_PART, self._lanes * _engine.threads())
        whole = len(images) // together * together
        outputs = []
        for part, size in ((images[:whole], together), (images[whole:], len(images) - whole)):
            if len(part) or not len(images):  # no images at all are refused below
                program = program_for(size)
                arena = self.take(program.plan.arena)
                outputs.append(self._run(program, arena, part, train=False, momentum=0.0))
                self.give_back(arena)
        return outputs[0] if len(outputs) == 1 else np.concatenate(outputs)

    def _run(
        self, program: CompiledPlan, arena: _engine.Arena | None, images: Images, train: bool, momentum: float
    ) -> Logits:
        assert arena is not None
        self._bind()
        outputs = program.plan.extents[program.plan.steps[program.plan.forward_steps - 1].a].channels
        logits = np.empty((len(images), outputs), np.float32)
        program.compiled.forward(
            arena,
            np.ascontiguousarray(images, np.float32),
            logits,
            *self.flat_arrays(),
            train,
            momentum,
            _engine.threads(),
        )
        return logits

    def flat_arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self.parameters.values.flat, self.parameters.gradients.flat, self.parameters.statistics.flat

    def program(self, images: int, backward: bool) -> CompiledPlan:
        if (images, backward) not in self._programs:
            self._bind()
            plan = compile_graph(self.graph, images, self._lanes, backward)
            self._programs[images, backward] = CompiledPlan(plan, self.compile(plan))
        return self._programs[images, backward]

    def _feature_program(self, images: int) -> CompiledPlan:
        if images not in self._feature_programs:
            self._bind()
            plan = compile_graph(self.graph.without_classifier(), images, self._lanes, backward=False)
            self._feature_programs[images] = CompiledPlan(plan, self.compile(plan))
        return self._feature_programs[images]

    def compile(self, plan: Plan) -> _engine.Program:
        """A plan with names turned into a program with numbers, checked by the engine."""
        number = {name: place for place, name in enumerate(plan.extents)}
        maps = [(plan.offset(name) if name in plan.buffers else self._lanes, plan.extents[name]) for name in number]
        return _engine.Program(
            self.engine,
            plan.images,
            max(plan.arena, 1),
            plan.forward_steps,
            maps,
            [self._step(plan, step, number) for step in plan.steps],
        )

    def _step(self, plan: Plan, step: PlanStep, number: dict[str, int]) -> _engine.Step:
        layers = self.linears if step.op.startswith("linear") else self.convolutions
        return _engine.Step(
            step.op,
            layer=layers.get(step.layer, -1),
            a=number.get(step.a, -1),
            b=number.get(step.b, -1),
            c=number.get(step.c, -1),
            out=number.get(step.out, -1),
            norm_a=self.norms.get(step.norm_a, -1),
            norm_b=self.norms.get(step.norm_b, -1),
            bits=plan.offset(step.bits) if step.bits else -1,
            state_a=plan.offset(f"{step.norm_a}:state") if step.norm_a and step.states else -1,
            state_b=plan.offset(f"{step.norm_b}:state") if step.norm_b else -1,
            relu=step.relu,
            again=step.again,
            write_gated=step.write_gated,
            accumulate=step.accumulate,
            kernel=step.kernel,
        )

    def prepare(self) -> None:
        """Sort changed masks now; the next training step would do it otherwise."""
        self._bind()
        self.engine.refresh(self.parameters.values.flat, True, _engine.threads())

    def _bind(self) -> None:
        """Tell the engine where the parameters lie, if they were laid out anew; only changed masks are sorted again."""
        with self._turn:
            if self._layout != self.parameters.layout:
                self._bind_all()
                self._layout = self.parameters.layout

    def _bind_all(self) -> None:
        parameters = self.parameters
        values, statistics = parameters.values, parameters.statistics
        self.engine.set_sizes(len(values.flat), len(statistics.flat))
        for name, layer in self.convolutions.items():
            weight = f"{name}.weight"
            index = parameters.index.get(weight)
            start = values.slices[weight].start
            if name in self._bound and self._bound[name] is index:
                self.engine.move_convolution(layer, start)
            elif index is not None:
                self.engine.bind_convolution(layer, start, index)
            else:
                spec = values.specs[weight]
                self.engine.bind_convolution(layer, start, np.arange(spec.size, dtype=np.int32), _dense_places(spec))
            if self._bound.get(name) is not index:
                self._updated.pop(weight, None)
            self._bound[name] = index
        for name, layer in self.norms.items():
            self._bind_norm(name, layer)
        for name, layer in self.linears.items():
            slices = values.slices
            self.engine.bind_linear(layer, slices[f"{name}.weight"].start, slices[f"{name}.bias"].start)

    def _bind_norm(self, name: str, layer: int) -> None:
        values, statistics = self.parameters.values.slices, self.parameters.statistics.slices
        if name.endswith(":bias"):
            self.engine.bind_norm(layer, -1, values[f"{name.removesuffix(':bias')}.bias"].start, -1, -1)
            return
        self.engine.bind_norm(
            layer,
            values[f"{name}.weight"].start,
            values[f"{name}.bias"].start,
            statistics[f"{name}.running_mean"].start,
            statistics[f"{name}.running_var"].start,
        )

    def _choose_updated(self) -> None:
        """Hand changed gradient masks to the engine."""
        wanted = self.parameters.updated
        with self._turn:
            for weight in self._updated.keys() | wanted.keys():
                if self._updated.get(weight) is not wanted.get(weight):
                    self.engine.set_updated(self.convolutions[weight.removesuffix(".weight")], wanted.get(weight))
            self._updated = dict(wanted)

    def take(self, floats: int) -> _engine.Arena:
        """Free memory that is large enough; smaller pieces are let go, for they would not be used again soon."""
        with self._turn:
            large_enough = [arena for arena in self._free if arena.size >= floats]
            if large_enough:
                smallest = min(large_enough, key=lambda arena: arena.size)
                self._free.remove(smallest)
                return smallest
            self._free.clear()
        return _engine.Arena(max(floats, 1))

    def release_memory(self) -> None:
        self._free.clear()

    def give_back(self, arena: _engine.Arena) -> None:
        with self._turn:
            self._free.append(arena)


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory in one dimension."""
    if not array.flags.c_contiguous or array.dtype != np.float32:
        raise ValueError("dense gradients must be contiguous float32 arrays")
    return array.reshape(-1)


def _dense_places(spec: ParameterSpec) -> Index:
    """Where a dense convolution's weights [out, in, ky, kx] lie in memory, which has the order [out, ky, kx, in]."""
    out, into, height, width = spec.shape
    places = np.arange(spec.size, dtype=np.int32).reshape(out, height, width, into).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(places).ravel()
