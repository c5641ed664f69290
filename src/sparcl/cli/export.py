"""`sparcl export`: what was learned as a file to use elsewhere."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sparcl.cli.display import progress_bar
from sparcl.cli.run import PluginOption
from sparcl.deploy.onnx import write_onnx
from sparcl.deploy.writer import SUFFIX, Precision, Preprocessing, write_model
from sparcl.device.model import Predictor, open_predictor
from sparcl.errors import SparclError
from sparcl.learning.learned import LearnedNetwork, learned_by
from sparcl.learning.plugins import import_plugins
from sparcl.learning.run_directory import RunDirectory

HELP = f"""Write what a learner or a run has learned as a model file: small, checked when it is read, ready to predict.

\b
sparcl export shop fruit{SUFFIX}                                             # what a learner knows
sparcl export runs/digits-sparcl-derpp-90-seed0 digits{SUFFIX}                # what a run has learned
sparcl export runs/digits-derpp-seed0 digits{SUFFIX} --precision int8         # a third of the size
sparcl export runs/digits-derpp-seed0 --onnx digits.onnx                     # dense, for other programs

In Python: sparcl.load("digits{SUFFIX}").predict(images), which needs only NumPy. In C: native/include/sparcl.h. An
unfinished run exports the classes it has learned so far.
"""


def export(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a learner or a run.")],
    out: Annotated[Path | None, typer.Argument(metavar="FILE", help=f"The file to write (*{SUFFIX}).")] = None,
    precision: Annotated[
        Precision, typer.Option(help="How weights are stored. float32 is exact; int8 has a scale for each output.")
    ] = "float32",
    onnx: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an ONNX file, too or instead.")] = None,
    plugin: PluginOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    import_plugins(plugin)
    if out is None and onnx is None:
        raise SparclError(f"Say where to write it, for example: sparcl export {source} model{SUFFIX}")
    if out is not None and out.suffix == ".onnx":
        raise SparclError(f"For an ONNX file, write: sparcl export {source} --onnx {out}")
    if out is not None and out.suffix != SUFFIX:
        better = out.with_suffix(SUFFIX) if out.name else out / f"model{SUFFIX}"
        raise SparclError(f"{out} does not end with {SUFFIX}, as model files do. Write to: {better}")
    with progress_bar(as_json) as progress:
        if not source.exists():
            raise SparclError(f"{source} does not exist. Give the directory of a learner or a run.")
        is_learner = (source / "states").is_dir()
        learned = _of_learner(source) if is_learner else learned_by(RunDirectory.open(source), progress)
    written = {}
    how = Preprocessing(learned.mean, learned.std)
    if out is not None:
        written[out] = write_model(out, learned.graph, learned.parameters, learned.class_names, how, precision)
    if onnx is not None:
        written[onnx] = write_onnx(onnx, learned.graph, learned.parameters, learned.class_names, how)
    if as_json:
        files = [{"file": str(path), "bytes": size} for path, size in written.items()]
        print(json.dumps({"files": files, "classes": list(learned.class_names), "dense_bytes": _dense_bytes(learned)}))
        return
    for path, size in written.items():
        share = size / _dense_bytes(learned)
        print(f"{path}: {size / 1e6:.2f} MB, {100 * share:.0f}% of the dense network in float32")


export.__doc__ = HELP


def _of_learner(directory: Path) -> LearnedNetwork:
    predictor = open_predictor(directory)
    if not isinstance(predictor, Predictor):
        raise SparclError(
            f"{directory} sees with a backbone, and cannot be exported yet. Copy its directory instead: it is a whole "
            "learner wherever sparcl is installed."
        )
    about = predictor.description
    return LearnedNetwork(predictor.graph, predictor.parameters, about.classes, about.mean, about.std)


def _dense_bytes(learned: LearnedNetwork) -> int:
    return 4 * learned.graph.parameter_count()
