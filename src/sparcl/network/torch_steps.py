"""The steps of a torch module's forward, as torch.fx records them, translated into nodes of a graph.

What a graph cannot express exactly is refused with an error that names the layer. Torch is imported inside the
functions: the package must be importable on devices without it.
"""

import builtins
import inspect
import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sparcl.errors import SparclError
from sparcl.graph import Graph, GraphBuilder
from sparcl.network.protocol import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class _Tensor:
    """What a step of the module's forward returns: a node of the graph, and the shape that torch sees."""

    node: str
    shape: tuple[int, ...]
    #: Torch sees a map of 1x1 pixels where the graph, whose global pooling flattens too, has a vector.
    pooled: bool = False


class Translation:
    """Walks over the steps that torch.fx recorded. Handlers raise ValueError; `_step` says for which layer."""

    def __init__(self, module: "torch.nn.Module", input_shape: tuple[int, ...]) -> None:
        self.module = module
        self.build = GraphBuilder(input_shape)
        self.layers: dict[str, Any] = {}  # those with parameters, by the node that owns them
        self._values: dict[Any, Any] = {}  # of a torch.fx node: a _Tensor, or a size
        self._names = {self.build.input}
        self._module_names = {name for name, _ in module.named_modules()}
        self._owners: dict[int, str] = {}
        steps = _trace(module)
        for step in steps:
            if step.op == "placeholder":
                if not self._values:
                    self._values[step] = _Tensor(self.build.input, input_shape)
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
        if not isinstance(logits, _Tensor):
            raise SparclError("from_torch takes modules that return one tensor, the logits.")
        graph = self.build.finish(logits.node)
        if graph.nodes[-1].op != "linear":
            raise SparclError(
                f"from_torch takes modules that return the logits of a Linear layer, but the last step is "
                f"{logits.node!r} ({graph.nodes[-1].op})."
            )
        return graph

    # Layers: torch.nn classes

    def _layer(self, layer: Any) -> Callable[..., _Tensor]:
        kind = type(layer)
        # A class of another origin may carry the same name and do something else.
        handler = _LAYERS.get(kind.__name__) if kind.__module__.startswith("torch.nn.modules.") else None
        if handler is None:
            raise ValueError(f"this layer is not supported (only {', '.join(_LAYERS)})")
        if layer._forward_hooks or layer._forward_pre_hooks:  # weight norm and pruning work by them
            raise ValueError("forward hooks are not supported")
        return lambda input: handler(self, layer, _tensor(input))

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

    def _conv(self, layer: Any, x: _Tensor) -> _Tensor:
        _require("kernel_size", layer.kernel_size, 1, 3)
        _require("stride", layer.stride, 1, 2)
        _require("padding", layer.padding, layer.kernel_size[0] // 2)
        _require("dilation", layer.dilation, 1)
        _require("groups", layer.groups, 1)
        _require("padding_mode", layer.padding_mode, "zeros")
        _require_map(x)
        _require_channels("in_channels", layer.in_channels, x)
        self._own(layer)
        kernel, stride, bias = layer.kernel_size[0], layer.stride[0], layer.bias is not None
        node = self.build.conv(self.name, x.node, layer.out_channels, kernel, stride, bias)
        sizes = ((size - 1) // stride + 1 for size in x.shape[1:])
        return _Tensor(node, (layer.out_channels, *sizes))

    def _batch_norm(self, layer: Any, x: _Tensor) -> _Tensor:
        _require("eps", layer.eps, BATCH_NORM_EPSILON)
        _require("momentum", layer.momentum, BATCH_NORM_MOMENTUM)
        _require("affine", layer.affine, True)
        _require("bias", layer.bias is not None, True)
        _require("track_running_stats", layer.track_running_stats, True)
        _require_map(x)
        _require_channels("num_features", layer.num_features, x)
        self._own(layer)
        return replace(x, node=self.build.batch_norm(self.name, x.node))

    def _linear(self, layer: Any, x: _Tensor) -> _Tensor:
        _require("bias", layer.bias is not None, True)
        if len(x.shape) != 1:
            raise ValueError(f"its input has the shape {x.shape} and must be pooled and flattened first")
        _require_channels("in_features", layer.in_features, x)
        self._own(layer)
        return _Tensor(self.build.linear(self.name, x.node, layer.out_features), (layer.out_features,))

    # Operations: functions and methods of tensors, with the names of torch's arguments

    def _operation(self, step: Any) -> Callable[..., Any]:
        if step.op == "get_attr":
            raise ValueError(f"the tensor {step.target!r} is used directly (only layers of torch.nn may use tensors)")
        method = step.op == "call_method"
        name = step.target if method else getattr(step.target, "__name__", str(step.target))
        handler = (_OPERATIONS | _SIZES).get(name) if method or _is_torchs_or_pythons(step.target) else None
        if handler is None:
            raise ValueError(f"{name} is not supported (only {', '.join(_OPERATIONS)}, and layers of torch.nn)")
        return partial(handler, self)

    def _relu(self, input: Any, inplace: bool = False) -> _Tensor:
        x = _tensor(input)
        result = replace(x, node=self.build.relu(self.name, x.node))
        return self._overwrite(x, result) if inplace else result

    def _relu_in_place(self, input: Any) -> _Tensor:
        return self._relu(input, inplace=True)

    def _add(self, input: Any, other: Any, *, alpha: float = 1) -> _Tensor:
        if not isinstance(input, _Tensor) or not isinstance(other, _Tensor):
            raise ValueError("only two tensors can be added")
        _require("alpha", alpha, 1)
        if (input.shape, input.pooled) != (other.shape, other.pooled):
            raise ValueError(f"tensors of the shapes {input.shape} and {other.shape} cannot be added")
        return replace(input, node=self.build.add(self.name, input.node, other.node))

    def _add_in_place(self, input: Any, other: Any, *, alpha: float = 1) -> _Tensor:
        return self._overwrite(_tensor(input), self._add(input, other, alpha=alpha))

    def _overwrite(self, old: _Tensor, new: _Tensor) -> _Tensor:
        """After an operation in place, whoever reads the old tensor (or a view of it) reads the new one."""
        for step, value in self._values.items():
            if isinstance(value, _Tensor) and value.node == old.node:
                self._values[step] = replace(value, node=new.node)
        return new

    def _max_pool(
        self,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> _Tensor:
        x, kernel = _tensor(input), _square(kernel_size)
        _require_map(x)
        if not isinstance(kernel, int):
            raise ValueError(f"kernel_size={kernel} is not supported (only square ones)")
        _require("stride", stride or kernel, kernel)
        _require("padding", padding, 0)
        _require("dilation", dilation, 1)
        _require("ceil_mode", ceil_mode, False)
        _require("return_indices", return_indices, False)
        channels, height, width = x.shape
        return _Tensor(self.build.max_pool(self.name, x.node, kernel), (channels, height // kernel, width // kernel))

    def _adaptive_average_pool(self, input: Any, output_size: Any) -> _Tensor:
        _require("output_size", output_size, 1)
        return self._global_average_pool(_tensor(input), flat=False)

    def _average_pool(
        self,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> _Tensor:
        x = _tensor(input)
        _require("kernel_size", kernel_size, _square(x.shape[1:]))  # one window: the stride does not matter
        _require("padding", padding, 0)
        _require("divisor_override", divisor_override, None)
        return self._global_average_pool(x, flat=False)

    def _mean(self, input: Any, dim: Any = None, keepdim: bool = False) -> _Tensor:
        x = _tensor(input)
        axes = [axis % 4 for axis in dim] if isinstance(dim, tuple | list) else []
        if sorted(axes) != [2, 3]:
            raise ValueError(f"dim={dim} is not supported (only dim=(2, 3))")
        return self._global_average_pool(x, flat=not keepdim)

    def _global_average_pool(self, x: _Tensor, flat: bool) -> _Tensor:
        if len(x.shape) != 3:
            raise ValueError(f"its input has the shape {x.shape} and is not a map")
        node = x.node if x.pooled else self.build.global_average_pool(self.name, x.node)
        return _Tensor(node, x.shape[:1]) if flat else _Tensor(node, (x.shape[0], 1, 1), pooled=True)

    def _flatten(self, input: Any, start_dim: int = 0, end_dim: int = -1) -> _Tensor:
        x = _tensor(input)
        axes = len(x.shape) + 1
        _require("start_dim", start_dim % axes, 1)
        _require("end_dim", end_dim % axes, axes - 1)
        return self._flat(x)

    def _view(self, input: Any, *shape: Any) -> _Tensor:
        x = _tensor(input)
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if len(sizes) != 2 or sizes[0] != -1 or sizes[1] not in (-1, math.prod(x.shape)):
            raise ValueError(f"the shape {sizes} is not supported (only flattening, as in x.view(x.size(0), -1))")
        return self._flat(x)

    def _flat(self, x: _Tensor) -> _Tensor:
        if len(x.shape) == 1:
            return x
        if x.shape[1:] != (1, 1):
            raise ValueError(
                f"a map of {x.shape[1]}x{x.shape[2]} pixels cannot be flattened (only 1x1: pool it first, for example "
                "with AdaptiveAvgPool2d(1))"
            )
        return self._global_average_pool(x, flat=True)

    def _size(self, input: Any, dim: int | None = None) -> Any:
        sizes = (-1, *_tensor(input).shape)  # -1: the batch may have any size
        return sizes if dim is None else sizes[dim]

    def _getattr(self, input: Any, name: str) -> Any:
        _require("attribute", name, "shape")
        return self._size(input)

    def _getitem(self, sizes: Any, index: Any) -> Any:
        if not isinstance(sizes, tuple):
            raise ValueError("tensors cannot be indexed")
        return sizes[index]

    def _dropout(self, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> _Tensor:
        if training:
            _require("p", p, 0)
        return _tensor(input)

    def _identity(self, input: Any) -> _Tensor:
        return _tensor(input)


_T = Translation
_LAYERS: dict[str, Callable[[Translation, Any, _Tensor], _Tensor]] = {
    "Conv2d": _T._conv,
    "BatchNorm2d": _T._batch_norm,
    "Linear": _T._linear,
    "ReLU": lambda t, layer, x: t._relu(x, layer.inplace),
    "MaxPool2d": lambda t, layer, x: t._max_pool(
        x, layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode, layer.return_indices
    ),
    "AdaptiveAvgPool2d": lambda t, layer, x: t._adaptive_average_pool(x, layer.output_size),
    "AvgPool2d": lambda t, layer, x: t._average_pool(
        x, layer.kernel_size, padding=layer.padding, divisor_override=layer.divisor_override
    ),
    "Flatten": lambda t, layer, x: t._flatten(x, layer.start_dim, layer.end_dim),
    "Dropout": lambda t, layer, x: t._dropout(x, layer.p),
    "Identity": lambda t, layer, x: x,
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "relu": _T._relu,
    "relu_": _T._relu_in_place,
    "add": _T._add,
    "add_": _T._add_in_place,
    "iadd": _T._add_in_place,
    "max_pool2d": _T._max_pool,
    "adaptive_avg_pool2d": _T._adaptive_average_pool,
    "avg_pool2d": _T._average_pool,
    "mean": _T._mean,
    "flatten": _T._flatten,
    "view": _T._view,
    "reshape": _T._view,
    "contiguous": _T._identity,
    "dropout": _T._dropout,
}
_SIZES: dict[str, Callable[..., Any]] = {"size": _T._size, "getattr": _T._getattr, "getitem": _T._getitem}


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


def _tensor(value: Any) -> _Tensor:
    if not isinstance(value, _Tensor):
        raise ValueError(f"{value!r} is not a tensor")
    return value


def _square(size: Any) -> Any:
    """One number for both directions, if they agree: torch takes, and keeps, either form."""
    return size[0] if isinstance(size, tuple | list) and len(set(size)) == 1 else size


def _require(name: str, value: Any, *allowed: Any) -> None:
    value = _square(value)
    if value not in allowed:
        choices = " or ".join(f"{name}={choice!r}" for choice in allowed)
        raise ValueError(f"{name}={value!r} is not supported (only {choices})")


def _require_map(x: _Tensor) -> None:
    if x.pooled or len(x.shape) != 3:
        raise ValueError("it follows a global pooling or flattening, after which only ReLU and Linear are supported")


def _require_channels(name: str, expected: int, x: _Tensor) -> None:
    if expected != x.shape[0]:
        raise ValueError(f"it has {name}={expected}, but its input has the shape {x.shape}")


def first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
