"""The order of the steps of a training pass, forward and backward, and the life of every buffer.

The backward pass is derived from the forward steps in reverse. A map's gradient is started by the first step that
contributes to it and added to by the others; where a step hands its gradient on unchanged (an addition) or can
overwrite it (the norm of a single operand), the gradient of its input takes over the buffer.

What is frozen has no gradients: the backward pass ends where nothing below is trained, and what nobody reads any more
is not kept.
"""

from collections.abc import Set
from itertools import count

from sparcl.compiler.arena import place
from sparcl.compiler.fuse import Fused, Operand, fuse
from sparcl.compiler.plan import ArenaBuffer, Extent, Plan, PlanStep
from sparcl.graph import Graph, Shape
from sparcl.operations import Conv


def compile_graph(graph: Graph, images: int, lanes: int, frozen: Set[str] = frozenset()) -> Plan:
    """A plan for training with batches of so many images. `frozen`: names of parameters that are not trained."""
    fused = fuse(graph)
    extents = _extents(graph, fused)
    forward = _forward(graph, fused)
    steps = forward + _Backward(graph, fused, extents, frozen).run()
    plan = Plan(images, lanes, len(forward), steps, extents)
    _lay_out(plan)
    return plan


def _forward(graph: Graph, fused: list[Fused]) -> list[PlanStep]:
    steps = [PlanStep("pack", out=graph.nodes[0].name)]
    for op in fused:
        first = op.operands[0]
        second = op.operands[1] if len(op.operands) > 1 else Operand("")
        steps.append(
            PlanStep(
                op.op,
                layer=op.node.name if op.node else "",
                a=first.map,
                b=second.map,
                out=op.out,
                norm_a=first.norm,
                norm_b=second.norm,
                mask=_mask(op),
                activation=op.activation,
                attributes=op.attributes,
                state=op.node.op.state if op.node else 0,
            )
        )
    steps.append(PlanStep("unpack", a=fused[-1].out))
    return steps


def _mask(op: Fused) -> str:
    return f"{op.out}:mask" if op.activation else ""


class _Backward:
    def __init__(self, graph: Graph, fused: list[Fused], extents: dict[str, Extent], frozen: Set[str]) -> None:
        self.graph, self.fused, self.extents, self.frozen = graph, fused, extents, frozen
        self.steps: list[PlanStep] = []
        self.gradient: dict[str, str] = {}  # map -> the map that holds its gradient so far
        self.numbers = count()
        self.made = {op.out: op for op in fused}
        self.recomputed: dict[str, str] = {}  # maps of the forward pass that were computed once more
        self.trained = self._depends_on_parameters()

    def _trains(self, op: Fused) -> bool:
        """Whether a step has parameters of its own that are trained."""
        owners = [op.node.name] if op.op != "combine" and op.node is not None else []
        parts = [spec.name for owner in owners for spec in self.graph.parameters_of(self.graph[owner])]
        # A convolution's bias is a norm of whoever reads it.
        own = [part for part in parts if not (isinstance(self.graph[owners[0]].op, Conv) and part.endswith(".bias"))]
        return any(part not in self.frozen for part in own) or any(
            self._norm_trains(operand.norm) for operand in op.operands if operand.norm
        )

    def _norm_trains(self, norm: str) -> bool:
        if norm.endswith(":bias"):
            return f"{norm.removesuffix(':bias')}.bias" not in self.frozen
        return any(spec.name not in self.frozen for spec in self.graph.parameters_of(self.graph[norm]))

    def _depends_on_parameters(self) -> set[str]:
        trained: set[str] = set()
        for op in self.fused:
            if self._trains(op) or any(operand.map in trained for operand in op.operands):
                trained.add(op.out)
        return trained

    def new(self, like: str) -> str:
        name = f"d {like}#{next(self.numbers)}"
        self.extents[name] = self.extents[like]
        return name

    def run(self) -> list[PlanStep]:
        output = self.fused[-1].out
        self.gradient[output] = self.new(output)
        self.steps.append(PlanStep("pack_gradient", out=self.gradient[output]))
        for op in reversed(self.fused):
            if op.out not in self.gradient or op.out not in self.trained:
                continue
            match op.op:
                case "convolve":
                    self._convolve(op, self.gradient[op.out])
                case "combine":
                    self._combine(op, self.gradient[op.out])
                case _:
                    self._operation(op, self.gradient[op.out])
        return self.steps

    def _operation(self, op: Fused, d_out: str) -> None:
        """Writes a fresh map: if there is a gradient already, its result is added to it."""
        assert op.node is not None
        source, reads = op.operands[0].map, op.node.op.backward_reads
        wanted = source in self.trained
        if not wanted and not self._trains(op):
            return
        step = PlanStep(
            op.op,
            layer=op.node.name,
            a=self._kept_or_recomputed(source) if "input" in reads else "",
            b=op.out if "output" in reads else "",
            c=d_out,
            out=self.new(source) if wanted else "",
            attributes=op.attributes,
            state=op.node.op.state,
            backward=True,
        )
        self.steps.append(step)
        if wanted and source in self.gradient:
            self.steps.append(PlanStep("combine_backward", a=step.out, out=self.gradient[source], accumulate=True))
        elif wanted:
            self.gradient[source] = step.out

    def _convolve(self, op: Fused, d_out: str) -> None:
        source = op.operands[0].map
        if f"{op.out}.weight" not in self.frozen:
            kept = self._kept_or_recomputed(source)
            self.steps.append(PlanStep("weight_gradient", layer=op.out, a=kept, b=d_out))
        if source in self.trained:
            known = source in self.gradient
            if not known:
                self.gradient[source] = self.new(source)
            self.steps.append(
                PlanStep("data_gradient", layer=op.out, a=d_out, out=self.gradient[source], accumulate=known)
            )

    def _kept_or_recomputed(self, wanted: str) -> str:
        """A map of the forward pass that the backward pass needs: kept, or computed once more if that is cheap.

        Cheap is what a single normalised operand gives, for the operand is needed anyway; and a convolution of the
        images, which are small beside what comes out. This halves the memory of activations.
        """
        made = self.made.get(wanted)
        if made is None or len(made.operands) > 1:
            return wanted
        operand = made.operands[0]
        if not (made.op == "combine" and operand.norm) and not (made.op == "convolve" and operand.map not in self.made):
            return wanted
        if wanted not in self.recomputed:
            step = PlanStep(made.op, layer=made.node.name if made.node else "", norm_a=operand.norm)
            step.activation = made.activation
            step.a, step.out, step.recompute = self._kept_or_recomputed(operand.map), self.new(wanted), True
            self.recomputed[wanted] = step.out
            self.steps.append(step)
        return self.recomputed[wanted]

    def _combine(self, op: Fused, d_out: str) -> None:
        mask = _mask(op)
        normed = [o for o in op.operands if o.norm and (o.map in self.trained or self._norm_trains(o.norm))]
        plain = [operand for operand in op.operands if not operand.norm and operand.map in self.trained]
        for place_, operand in enumerate(normed):
            last = not plain and place_ + 1 == len(normed)
            known = operand.map in self.gradient
            if not known:  # the last reader of d_out may overwrite it
                self.gradient[operand.map] = d_out if last else self.new(operand.map)
            self.steps.append(
                PlanStep(
                    "combine_backward",
                    a=d_out,
                    b="" if operand.norm.endswith(":bias") else self._kept_or_recomputed(operand.map),
                    out=self.gradient[operand.map],
                    norm_a=operand.norm,
                    mask=mask,
                    write_gated=bool(mask) and not last,
                    accumulate=known,
                )
            )
            mask = ""
        to_a_convolution = any(self.made[operand.map].op == "convolve" for operand in plain if operand.map in self.made)
        if plain and (mask or to_a_convolution):  # in place; it also puts zeros around, which a convolution reads
            self.steps.append(PlanStep("combine_backward", a=d_out, out=d_out, mask=mask))
        handed_on = False
        for operand in plain:
            if operand.map in self.gradient:
                target, known = self.gradient[operand.map], True
            elif handed_on:
                target, known = self.new(operand.map), False
            else:
                self.gradient[operand.map] = d_out
                handed_on = True
                continue
            self.gradient[operand.map] = target
            self.steps.append(PlanStep("combine_backward", a=d_out, out=target, accumulate=known))


def _extents(graph: Graph, fused: list[Fused]) -> dict[str, Extent]:
    """The size of every map. Zeros around a map cost multiplications; maps of 4x4 do without (a third fewer)."""
    shapes: dict[str, Shape] = {graph.nodes[0].name: graph.input_shape}
    for op in fused:
        shapes[op.out] = op.node.shape if op.node else shapes[op.operands[0].map]
    joined = _joined(fused)
    needs_padding: set[str] = set()
    for op in fused:
        if op.op == "convolve" and op.node is not None and isinstance(op.node.op, Conv):
            if (op.node.op.kernel, op.node.op.stride) != (3, 2):
                continue
            needs_padding.add(joined[op.operands[0].map])
            if shapes[op.operands[0].map][1:] != (8, 8):
                needs_padding.add(joined[op.out])
    return {name: _extent(shape, joined[name] in needs_padding) for name, shape in shapes.items()}


def _joined(fused: list[Fused]) -> dict[str, str]:
    """Maps that must have the same layout, since they are combined element by element: map -> representative."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for op in fused:
        find(op.out)
        for operand in op.operands:
            find(operand.map)
            if op.op == "combine":
                leader[find(operand.map)] = find(op.out)
    return {name: find(name) for name in leader}


def _extent(shape: Shape, needs_padding: bool) -> Extent:
    if len(shape) == 1:
        return Extent(shape[0], 1, 1, 1, 1)
    channels, height, width = shape
    if (height, width) == (4, 4) and not needs_padding:
        return Extent(channels, 4, 4, 4, 16)
    row = width + 1
    plane = height * row
    if plane >= 256:
        # Channels must not start at the same place in the cache: with planes of an odd number of half kilobytes, eight
        # neighbouring channels start at eight different places.
        plane += (8 - plane) % 16
    return Extent(channels, height, width, row, plane)


def _lay_out(plan: Plan) -> None:
    """Find when each buffer is in use, and place all of them."""
    buffers: dict[str, ArenaBuffer] = {}

    def use(name: str, floats: int, step: int) -> None:
        buffer = buffers.setdefault(name, ArenaBuffer(name, floats, step, step))
        buffer.last = step

    pixels = plan.blocks * plan.lanes
    for number, step in enumerate(plan.steps):
        for name in step.maps:
            extent = plan.extents[name]
            use(name, plan.lanes + extent.channels * extent.plane * pixels, number)
        if step.mask:
            extent = plan.extents[step.a]
            use(step.mask, -(-plan.blocks * extent.channels * extent.height * extent.width // 2), number)
        for name in step.norm_states:
            use(name, 4 * plan.extents[step.a].channels, number)
        if step.state:
            use(f"{step.layer}:state", step.state, number)
    plan.arena = place(buffers.values())
    plan.buffers = buffers
