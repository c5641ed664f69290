"""The steps of a torch module's forward, as torch.fx records them, translated into nodes of a graph.

What a graph cannot express exactly is refused with an error that names the layer. Torch is imported inside the
functions: the package must be importable on devices without it.
"""

import builtins
import inspect
import itertools
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sparcl.errors import SparclError
from sparcl.graph import Graph, GraphBuilder
from sparcl.operations import Conv, Operation
from sparcl.operations.tracing import FUNCTIONS, LAYERS, Traced, traced

if TYPE_CHECKING:
    import torch


class Translation:
    """Walks over the steps that torch.fx recorded. Handlers raise ValueError; `_step` says for which layer."""

    def __init__(self, module: "torch.nn.Module", input_shape: tuple[int, ...]) -> None:
        self.module = module
        self.build = GraphBuilder(input_shape)
        self.layers: dict[str, Any] = {}  # those with parameters, by the node that owns them
        self._values: dict[Any, Any] = {}  # of a torch.fx node: a Traced, or a size
        self._names = {self.build.input}
        self._module_names = {name for name, _ in module.named_modules()}
        self._owners: dict[int, str] = {}
        steps = _trace(module)
        for step in steps:
            if step.op == "placeholder":
                if not self._values:
                    self._values[step] = Traced(self.build.input, input_shape)
                elif step.users:
                    raise SparclError(f"from_torch takes modules with one input, but forward also needs {step.name!r}.")
            elif step.op == "output":
                self.graph = self._finish(step.args[0])
            else:
                self._values[step] = self._step(step)

    def _step(self, step: Any) -> Any:
        self.name = self._name(step)
        layer = self.module.get_submodule(step.target) if step.op == "call_module" else None
        try:
            handler = self._operation(step) if layer is None else self._layer(layer)
            try:
                call = inspect.signature(handler).bind(*self._resolved(step.args), **self._resolved(step.kwargs))
            except TypeError as problem:
                raise ValueError(f"its arguments are not supported ({problem})") from None
            return handler(*call.args, **call.kwargs)
        except ValueError as problem:
            if layer is not None:
                title = f"layer {step.target!r} ({type(layer).__name__})"
            else:  # say whose forward it is, for one who looks for the line
                path, owner = next(reversed(step.meta.get("nn_module_stack", {}).values()), ("", type(self.module)))
                title = f"operation {step.name!r} of " + (f"{path!r} ({owner.__name__})" if path else owner.__name__)
            raise SparclError(f"from_torch cannot take {title}: {problem}") from None

    def _resolved(self, arguments: Any) -> Any:
        """Arguments of a step, with what other steps returned in the place of these steps."""
        match arguments:
            case tuple() | list():
                return tuple(self._resolved(item) for item in arguments)
            case dict():
                return {name: self._resolved(item) for name, item in arguments.items()}
            case slice():
                return slice(*self._resolved((arguments.start, arguments.stop, arguments.step)))
            case _:
                return self._values.get(arguments, arguments)

    def _name(self, step: Any) -> str:
        """A layer's qualified name or torch.fx's name; numbered if a layer without parameters is called again."""
        base = step.target if step.op == "call_module" else step.name
        taken = self._names | (self._module_names - {step.target})
        numbered = (f"{base}_{number}" for number in itertools.count(1))
        name: str = next(name for name in itertools.chain([base], numbered) if name not in taken)
        self._names.add(name)
        return name

    def _finish(self, output: Any) -> Graph:
        logits = self._values.get(output) if not isinstance(output, dict | list | tuple) else None
        if not isinstance(logits, Traced):
            raise SparclError("from_torch takes modules that return one tensor, the logits.")
        graph = self.build.finish(logits.node)
        if len(graph.nodes[-1].shape) != 1:
            raise SparclError(
                f"from_torch takes modules that return logits, one number for each class, but the last step "
                f"{logits.node!r} ({graph.nodes[-1].op.name}) makes a map of the shape {graph.nodes[-1].shape}."
            )
        return graph

    def _layer(self, layer: Any) -> Callable[..., Traced]:
        kind = type(layer)
        # A class of another origin may carry the same name and do something else.
        rule = LAYERS.get(kind.__name__) if kind.__module__.startswith("torch.nn.modules.") else None
        if rule is None:
            raise ValueError(f"this layer is not supported (only {', '.join(LAYERS)})")
        if layer._forward_hooks or layer._forward_pre_hooks:  # weight norm and pruning work by them
            raise ValueError("forward hooks are not supported")
        return lambda input: rule(self, layer, traced(input))

    def add(self, operation: Operation, *inputs: Traced, layer: Any = None) -> Traced:
        if any(any(x.padding) for x in inputs) and not isinstance(operation, Conv):
            raise ValueError("zeros are put around its input, which is only supported before a convolution")
        if layer is not None:
            self._own(layer)
        node = self.build(self.name, operation, *(x.node for x in inputs))
        shape = self.build.shape(node)
        pooled = len(shape) == 1 and inputs[0].pooled
        return Traced(node, (*shape, 1, 1) if pooled else shape, pooled)

    def count(self, kind: type[Operation]) -> int:
        return self.build.count(kind)

    def overwrite(self, old: Traced, new: Traced) -> Traced:
        """After an operation in place, whoever reads the old tensor (or a view of it) reads the new one."""
        for step, value in self._values.items():
            if isinstance(value, Traced) and value.node == old.node:
                self._values[step] = replace(value, node=new.node)
        return new

    def _own(self, layer: Any) -> None:
        for part, tensor in layer.named_parameters():
            if id(tensor) in self._owners:
                raise ValueError(
                    f"its {part} is used a second time (first by {self._owners[id(tensor)]!r}), but shared weights "
                    "are not supported"
                )
            if not tensor.requires_grad:
                raise ValueError(f"its {part} is frozen (requires_grad=False), but a graph trains all parameters")
            self._owners[id(tensor)] = self.name
        self.layers[self.name] = layer

    def _operation(self, step: Any) -> Callable[..., Any]:
        if step.op == "get_attr":
            raise ValueError(f"the tensor {step.target!r} is used directly (only layers of torch.nn may use tensors)")
        method = step.op == "call_method"
        name = step.target if method else getattr(step.target, "__name__", str(step.target))
        rule = FUNCTIONS.get(name) if method or _is_torchs_or_pythons(step.target) else None
        if rule is None:
            raise ValueError(f"{name} is not supported (only {', '.join(FUNCTIONS)}, and layers of torch.nn)")
        return partial(rule, self)


def _trace(module: "torch.nn.Module") -> Any:
    """The steps of a module's forward that its result depends on. Arguments with a default keep it."""
    import torch.fx

    others = list(inspect.signature(module.forward).parameters.values())[1:]
    defaults = {other.name: other.default for other in others if other.default is not other.empty}
    try:
        graph = torch.fx.Tracer().trace(module, defaults or None)
    except Exception as problem:
        raise SparclError(f"torch.fx cannot trace {type(module).__name__}: {first_line(problem)}") from problem
    graph.eliminate_dead_code(is_impure_node=lambda step: step.op in ("placeholder", "output"))
    return graph.nodes


def _is_torchs_or_pythons(function: Any) -> bool:
    import torch

    name = getattr(function, "__name__", "")
    return any(getattr(home, name, None) is function for home in (torch, torch.nn.functional, operator, builtins))


def first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
