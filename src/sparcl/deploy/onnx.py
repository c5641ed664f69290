"""The same network as an ONNX file: dense, for whatever runs ONNX. Sparse weights become zeros among others."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparcl.deploy.writer import Preprocessing
from sparcl.errors import SparclError
from sparcl.files import write_bytes
from sparcl.graph import Graph, Shape
from sparcl.network.folding import cut_classifier, fold
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
    write = _Writer(helper, numpy_helper)
    output_of = {folded[0].name: "images", folded[-1].name: "logits"}
    for node in folded[1:]:
        inputs = [output_of.get(name, name) for name in node.inputs]
        node.op.onnx(write, node.name, inputs, output_of.get(node.name, node.name), node)
    made = helper.make_graph(
        write.nodes,
        "sparcl",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", *graph.input_shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(class_names)])],
        write.constants,
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, producer_name="sparcl", ir_version=IR_VERSION, opset_imports=opset)
    described = {"classes": list(class_names), "mean": list(preprocessing.mean), "std": list(preprocessing.std)}
    helper.set_model_props(model, {key: json.dumps(value) for key, value in described.items()})
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    write_bytes(path, content)
    return len(content)


class _Writer:
    """Collects nodes and arrays (sparcl.operations.OnnxWriter)."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self._helper, self._numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        self.nodes.append(self._helper.make_node(kind, list(inputs), [output], output, **attributes))

    def bounds(self, source: str, output: str, least: float, greatest: float) -> None:
        limits = [self.constant(f"{output}:{part}", np.array(n), ()) for part, n in (("min", least), ("max", greatest))]
        self.node("Clip", [source, *limits], output)

    def constant(self, name: str, values: Any, shape: Shape) -> str:
        self.constants.append(self._numpy_helper.from_array(values.astype(np.float32).reshape(shape), name))
        return name
