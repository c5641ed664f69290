"""onnxruntime beside PyTorch: the same dense network, exported as users export theirs."""

import importlib.util
import tempfile
from pathlib import Path

from sparcl.bench import native_side
from sparcl.bench.contender import Side
from sparcl.bench.timing import Step
from sparcl.bench.workload import CHANNELS, Workload
from sparcl.deploy.onnx import write_onnx
from sparcl.deploy.writer import Preprocessing

NAME = "onnxruntime"
NEEDS_ONNX = "onnxruntime is not measured: pip install onnx onnxruntime."


def available() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("onnx", NAME))


def rival(work: Workload, threads: int) -> Side:
    return Side(NAME, NAME, prediction, {"work": work, "threads": threads})


def prediction(work: Workload, threads: int) -> Step:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Its threads would otherwise wait busily after their own turn, in that of another side.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    net, names = native_side.network(work, 0.0), [str(label) for label in range(work.classes)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        write_onnx(path, net.graph, net.parameters, names, Preprocessing((0.5,) * CHANNELS, (0.25,) * CHANNELS))
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    images = {"images": work.images()}
    return lambda: session.run(None, images)
