"""The same network as an ONNX file: dense, for whatever runs ONNX. Sparse weights become zeros among others."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparcl.deploy.folding import FoldedNode, fold
from sparcl.deploy.writer import Preprocessing, cut_classifier
from sparcl.errors import SparclError
from sparcl.files import write_bytes
from sparcl.graph import Graph
from sparcl.network.parameters import Parameters

NEEDS_ONNX = 'Writing ONNX files needs the onnx package: pip install "sparcl-edge[onnx]"'
OPSET = 17
IR_VERSION = 8


def write_onnx(
    path: Path, graph: Graph, parameters: Parameters, class_names: Sequence[str], preprocessing: Preprocessing
) -> int:
    """The input is called images, float32 [n, channels, height, width], normalised; the output logits [n, classes].

    Class names, mean and standard deviation are in the file's metadata. Returns the size in bytes.
    """
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise SparclError(NEEDS_ONNX) from None
    folded = cut_classifier(fold(graph, parameters), len(class_names))
    steps: list[Any] = []
    numbers: list[Any] = []

    def constant(name: str, values: Any, shape: tuple[int, ...]) -> str:
        numbers.append(numpy_helper.from_array(values.astype(np.float32).reshape(shape), name))
        return name

    for layer in folded[1:]:
        node, inputs = layer.node, ["images" if name == graph.nodes[0].name else name for name in layer.node.inputs]
        out = "logits" if layer is folded[-1] else node.name
        match layer.op:
            case "conv":
                weight = constant(f"{node.name}.weight", *_dense(layer))
                bias = constant(f"{node.name}.bias", layer.bias, (-1,))
                sides, steps_wide = [node.padding] * 4, [node.stride] * 2
                steps.append(
                    helper.make_node("Conv", [*inputs, weight, bias], [out], node.name, pads=sides, strides=steps_wide)
                )
            case "linear":
                weight = constant(f"{node.name}.weight", *_dense(layer))
                bias = constant(f"{node.name}.bias", layer.bias, (-1,))
                steps.append(helper.make_node("Gemm", [*inputs, weight, bias], [out], node.name, transB=1))
            case "affine":
                scale = constant(f"{node.name}.weight", layer.weight, (1, -1, 1, 1))
                shift = constant(f"{node.name}.bias", layer.bias, (1, -1, 1, 1))
                steps.append(helper.make_node("Mul", [*inputs, scale], [f"{out}:scaled"], f"{node.name}:scale"))
                steps.append(helper.make_node("Add", [f"{out}:scaled", shift], [out], node.name))
            case "global_average_pool":
                steps.append(helper.make_node("GlobalAveragePool", inputs, [f"{out}:map"], f"{node.name}:map"))
                steps.append(helper.make_node("Flatten", [f"{out}:map"], [out], node.name))
            case "max_pool":
                size = [node.kernel] * 2
                steps.append(helper.make_node("MaxPool", inputs, [out], node.name, kernel_shape=size, strides=size))
            case _:
                steps.append(helper.make_node({"relu": "Relu", "add": "Add"}[layer.op], inputs, [out], node.name))
    made = helper.make_graph(
        steps,
        "sparcl",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", *graph.input_shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(class_names)])],
        numbers,
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, producer_name="sparcl", ir_version=IR_VERSION, opset_imports=opset)
    described = {"classes": list(class_names), "mean": list(preprocessing.mean), "std": list(preprocessing.std)}
    helper.set_model_props(model, {key: json.dumps(value) for key, value in described.items()})
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    write_bytes(path, content)
    return len(content)


def _dense(layer: FoldedNode) -> tuple[Any, tuple[int, ...]]:
    """The whole weight, zero where nothing is stored, and its shape."""
    assert layer.weight is not None
    outputs = layer.node.shape[0]
    full = layer.weight
    if layer.index is not None:
        full = np.zeros(outputs * layer.row)
        full[layer.index] = layer.weight
    kernel = layer.node.kernel
    return full, (outputs, -1, kernel, kernel) if layer.op == "conv" else (outputs, -1)
