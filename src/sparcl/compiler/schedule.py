"""The order of the steps, forward and backward, and the life of every buffer.

The backward pass is derived from the forward operations in reverse. A map's gradient is started by the first operation
that contributes to it and added to by the others; where an operation hands its gradient on unchanged (an addition) or
can overwrite it (the norm of a single operand), the gradient of its input takes over the buffer.
"""

from itertools import count

from sparcl.compiler.arena import place
from sparcl.compiler.fuse import Fused, Operand, fold, fuse
from sparcl.compiler.plan import Buffer, Extent, Plan, PlanStep
from sparcl.graph import Graph, Shape


def compile_graph(graph: Graph, images: int, lanes: int, backward: bool = True) -> Plan:
    """A plan for batches of so many images; without `backward`, memory is used again as soon as it can be."""
    fused = fuse(graph)
    extents = _extents(graph, fused)
    forward = _forward(graph, fused if backward else fold(fused), keep_signs=backward)
    steps = forward + (_Backward(graph, fused, extents).run() if backward else [])
    plan = Plan(images, lanes, len(forward), steps, extents)
    _lay_out(plan)
    return plan


def _forward(graph: Graph, fused: list[Fused], keep_signs: bool) -> list[PlanStep]:
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
                bits=_signs(op) if keep_signs else "",
                relu=op.relu,
                kernel=op.node.kernel if op.op == "max_pool" and op.node else 0,
            )
        )
    steps.append(PlanStep("unpack", a=fused[-1].out))
    return steps


def _signs(op: Fused) -> str:
    return f"{op.out}:signs" if op.relu and op.op == "combine" else ""


class _Backward:
    def __init__(self, graph: Graph, fused: list[Fused], extents: dict[str, Extent]) -> None:
        self.graph, self.fused, self.extents = graph, fused, extents
        self.steps: list[PlanStep] = []
        self.gradient: dict[str, str] = {}  # map -> the map that holds its gradient so far
        self.numbers = count()
        self.made = {op.out: op for op in fused}
        self.again: dict[str, str] = {}  # maps of the forward pass that were computed once more
        self.trained = self._depends_on_parameters()

    def _depends_on_parameters(self) -> set[str]:
        trained: set[str] = set()
        for op in self.fused:
            own = op.op in ("convolve", "linear") or any(operand.norm for operand in op.operands)
            if own or any(operand.map in trained for operand in op.operands):
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
            if op.out in self.gradient:
                getattr(self, f"_{op.op}")(op, self.gradient[op.out])
        return self.steps

    def _contribute(self, step: PlanStep, to: str) -> None:
        """A step that can only write a fresh map: if there is a gradient already, its result is added to it."""
        step.out = self.new(to)
        self.steps.append(step)
        if to in self.gradient:
            self.steps.append(PlanStep("combine_backward", a=step.out, out=self.gradient[to], accumulate=True))
        else:
            self.gradient[to] = step.out

    def _linear(self, op: Fused, d_out: str) -> None:
        source = op.operands[0].map
        step = PlanStep("linear_backward", layer=op.out, a=source, b=d_out)
        if source in self.trained:
            self._contribute(step, source)
        else:
            self.steps.append(step)

    def _average_pool(self, op: Fused, d_out: str) -> None:
        source = op.operands[0].map
        if source in self.trained:
            self._contribute(PlanStep("average_pool_backward", a=d_out), source)

    def _max_pool(self, op: Fused, d_out: str) -> None:
        source = op.operands[0].map
        if source in self.trained:
            assert op.node is not None
            step = PlanStep("max_pool_backward", a=source, b=op.out, c=d_out, kernel=op.node.kernel)
            self._contribute(step, source)

    def _convolve(self, op: Fused, d_out: str) -> None:
        source = op.operands[0].map
        self.steps.append(PlanStep("weight_gradient", layer=op.out, a=self._kept_or_again(source), b=d_out))
        if source in self.trained:
            known = source in self.gradient
            if not known:
                self.gradient[source] = self.new(source)
            self.steps.append(
                PlanStep("data_gradient", layer=op.out, a=d_out, out=self.gradient[source], accumulate=known)
            )

    def _kept_or_again(self, wanted: str) -> str:
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
        if wanted not in self.again:
            step = PlanStep(made.op, layer=made.node.name if made.node else "", norm_a=operand.norm, relu=made.relu)
            step.a, step.out, step.again = self._kept_or_again(operand.map), self.new(wanted), True
            self.again[wanted] = step.out
            self.steps.append(step)
        return self.again[wanted]

    def _combine(self, op: Fused, d_out: str) -> None:
        signs = _signs(op)
        normed = [operand for operand in op.operands if operand.norm]
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
                    b="" if operand.norm.endswith(":bias") else self._kept_or_again(operand.map),
                    out=self.gradient[operand.map],
                    norm_a=operand.norm,
                    bits=signs,
                    write_gated=bool(signs) and not last,
                    accumulate=known,
                )
            )
            signs = ""
        to_a_convolution = any(self.made[operand.map].op == "convolve" for operand in plain if operand.map in self.made)
        if plain and (signs or to_a_convolution):  # in place; it also puts zeros around, which a convolution reads
            self.steps.append(PlanStep("combine_backward", a=d_out, out=d_out, bits=signs))
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
        if op.op == "convolve" and op.node is not None and op.node.kernel == 3 and op.node.stride == 2:
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
    buffers: dict[str, Buffer] = {}

    def use(name: str, floats: int, step: int) -> None:
        buffer = buffers.setdefault(name, Buffer(name, floats, step, step))
        buffer.last = step

    pixels = plan.blocks * plan.lanes
    for number, step in enumerate(plan.steps):
        for name in step.maps:
            extent = plan.extents[name]
            use(name, plan.lanes + extent.channels * extent.plane * pixels, number)
        if step.bits:
            extent = plan.extents[step.a]
            use(step.bits, -(-plan.blocks * extent.channels * extent.height * extent.width // 2), number)
        for name in step.states:
            use(name, 4 * plan.extents[step.a].channels, number)
    plan.arena = place(buffers.values())
    plan.buffers = buffers
