"""The native backend: sparse convolutions that cost what their active weights cost. It needs no torch.

For training, the graph is compiled once for each batch size (sparcl.compiler) and run by the engine (native/engine).
Sparse weights are never made dense: the engine sorts the active positions into the orders its kernels read, again
whenever they change, and takes over the current values at each forward pass.

Predicting is another path, the same that model files take: the network is folded (folding.py) and handed to the
inference engine (native/inference), again when its numbers have changed.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.compiler import Plan, PlanStep, bias_norm, compile_graph
from sparcl.graph import Graph, ParameterSpec
from sparcl.network.folding import engine_nodes, fold
from sparcl.network.parameters import FlatStore, Index, Parameters
from sparcl.network.protocol import Features, Images, Logits
from sparcl.operations import BatchNorm, Conv

OWN_MOMENTUM = -1.0  # to the engine: every norm has its own


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
        self._programs: dict[tuple[int, frozenset[str]], CompiledPlan] = {}
        self._predictors: dict[str, _Predictor] = {}  # by the node whose output they give
        # Around what takes several calls of the engine, which lets other Python threads in at each. A context that is
        # gone gives its memory back at any moment, so the same thread may ask again.
        self._turn = threading.RLock()
        self._free: list[_engine.Arena] = []
        self._layout = -1
        self._bound: dict[str, Index | None] = {}  # the positions each convolution was last sorted for
        self._updated: dict[str, Index] = {}
        self._fixed: frozenset[str] = frozenset()  # norms that keep their running statistics in training
        self._add_layers()

    def _add_layers(self) -> None:
        plan = compile_graph(self.graph, 1, self._lanes)
        self.convolutions: dict[str, int] = {}
        self.norms: dict[str, int] = {}
        self.operations: dict[tuple[str, tuple[int, ...]], int] = {}  # by node and attributes
        for step in plan.steps[: plan.forward_steps]:
            if not step.layer:
                continue
            node, into, out = self.graph[step.layer], plan.extents[step.a], plan.extents[step.out]
            if step.op == "convolve":
                assert isinstance(node.op, Conv)
                self.convolutions[node.name] = self.engine.add_convolution(node.op.kernel, node.op.stride, into, out)
            else:
                self.operations[node.name, step.attributes] = self.engine.add_operation(
                    step.op, into[:3], out[:3], list(step.attributes)
                )
        for node in self.graph:
            if isinstance(node.op, BatchNorm):
                self.norms[node.name] = self.engine.add_norm(node.shape[0], True, node.op.epsilon, node.op.momentum)
            elif bias_norm(node):
                self.norms[bias_norm(node)] = self.engine.add_norm(node.shape[0], False)

    def forward(
        self, images: Images, *, train: bool = True, momentum: float | None = None
    ) -> tuple[Logits, NativeContext]:
        program = self.program(len(images))
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
        # Where gradients pass through something frozen, its own came along.
        gradients = self.parameters.gradients
        for name in self.parameters.frozen:
            gradients.flat[gradients.slices[name]] = 0.0
        context.release()

    def predict(self, images: Images) -> Logits:
        return self._predictor(self.graph).predict(images)

    def features(self, images: Images) -> Features:
        return self._predictor(self.graph.without_classifier()).predict(images)

    def _predictor(self, graph: Graph) -> "_Predictor":
        """The network, or its lower part, as it predicts with the numbers it has now."""
        with self._turn:
            current = self._predictors.get(graph.nodes[-1].name)
            digest = self._digest()
            if current is None or current.digest != digest:
                current = _Predictor(_engine.Model.from_nodes(engine_nodes(fold(graph, self.parameters))), digest)
                self._predictors[graph.nodes[-1].name] = current
            return current

    def _digest(self) -> tuple[int, ...]:
        """Tells whether any number, or which ones are active, has changed. Numbers are written to in many places."""
        parameters = self.parameters
        return (
            parameters.layout,
            _engine.digest(parameters.values.flat),
            _engine.digest(parameters.statistics.flat),
        )

    def with_parameters(self, parameters: Parameters) -> "NativeNetwork":
        return NativeNetwork(self.graph, parameters)

    def _run(
        self, program: CompiledPlan, arena: _engine.Arena | None, images: Images, train: bool, momentum: float | None
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
            OWN_MOMENTUM if momentum is None else momentum,
            _engine.threads(),
        )
        return logits

    def flat_arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self.parameters.values.flat, self.parameters.gradients.flat, self.parameters.statistics.flat

    def program(self, images: int) -> CompiledPlan:
        frozen = self.parameters.frozen
        self._fix_norms(frozen)
        if (images, frozen) not in self._programs:
            self._bind()
            plan = compile_graph(self.graph, images, self._lanes, frozen)
            self._programs[images, frozen] = CompiledPlan(plan, self.compile(plan))
        return self._programs[images, frozen]

    def _fix_norms(self, frozen: frozenset[str]) -> None:
        """What is frozen keeps its running statistics."""
        fixed = frozenset(name for name in self.norms if f"{name}.weight" in frozen)
        with self._turn:
            for name in fixed ^ self._fixed:
                self.engine.fix_norm(self.norms[name], name in fixed)
            self._fixed = fixed

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
        op, layer = step.op, self.convolutions.get(step.layer, -1)
        if (step.layer, step.attributes) in self.operations:
            op = "operation_backward" if step.backward else "operation"
            layer = self.operations[step.layer, step.attributes]
        state = f"{step.norm_a or step.layer}:state"
        return _engine.Step(
            op,
            layer=layer,
            a=number.get(step.a, -1),
            b=number.get(step.b, -1),
            c=number.get(step.c, -1),
            out=number.get(step.out, -1),
            norm_a=self.norms.get(step.norm_a, -1),
            norm_b=self.norms.get(step.norm_b, -1),
            mask=plan.offset(step.mask) if step.mask else -1,
            state_a=plan.offset(state) if step.norm_a or step.state else -1,
            state_b=plan.offset(f"{step.norm_b}:state") if step.norm_b else -1,
            activation=step.activation or "none",
            recompute=step.recompute,
            write_gated=step.write_gated,
            accumulate=step.accumulate,
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
        for (name, _), layer in self.operations.items():
            owned = [spec.name for spec in self.graph.statistics_of(self.graph[name])]
            self.engine.bind_operation(
                layer,
                _start(values, f"{name}.weight"),
                # A convolution's bias is a norm of whoever reads it.
                -1 if bias_norm(self.graph[name]) else _start(values, f"{name}.bias"),
                _start(statistics, owned[0]) if owned else -1,
            )

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


@dataclass(frozen=True)
class _Predictor:
    model: _engine.Model
    digest: tuple[int, ...]  # of the numbers it was made of

    def predict(self, images: Images) -> NDArray[Any]:
        if not len(images):
            raise ValueError("there are no images to predict")
        outputs = np.empty((len(images), self.model.outputs), np.float32)
        self.model.predict(np.ascontiguousarray(images, np.float32), outputs, _engine.threads())
        return outputs


def _start(store: FlatStore, name: str) -> int:
    """Where a block begins; -1 if there is none."""
    return store.slices[name].start if name in store.slices else -1


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
