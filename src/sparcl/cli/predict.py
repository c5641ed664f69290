"""`sparcl predict`: what a picture shows. Starts without the other commands, because it must answer at once on a small
board: the parser is the standard library's, and nothing is imported that only learning needs."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HELP = """Say what pictures show: with a learner's last finished state (also while it learns), or with a model file.

sparcl predict shop image.jpg
sparcl predict fruit.sparcl image.jpg            # a file that `sparcl export` has written
sparcl predict shop new/ more.png --top 3        # all pictures of a folder; the three likeliest classes
sparcl predict shop image.jpg --json
sparcl predict shop image.jpg --always           # name a class even if the picture resembles none

Each line: the picture, its class, how sure the learner is, and the time that the network took. A learner with a
backbone says `unknown` for what resembles no class it has learned, and its confidence comes true in the long run
(`sparcl status` shows how well). From scratch and in a model file it is the network's own opinion, not a probability.
"""

#: For the command line's table of commands: everything after `predict` is parsed here.
OWN_OPTIONS: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
    "add_help_option": False,
}


def options_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sparcl predict", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=_path, metavar="LEARNER", help="the learner's directory, or a model file")
    parser.add_argument("pictures", type=_path, nargs="+", metavar="PICTURE", help="picture files, or folders of them")
    parser.add_argument("--top", type=int, default=1, metavar="N", help="show the N likeliest classes (default: 1)")
    parser.add_argument("--always", action="store_true", help="never say unknown: name the likeliest class")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line, one for each picture")
    return parser


def predict() -> None:
    """Say what pictures show: class, confidence, milliseconds."""
    parser = options_parser()
    options = parser.parse_intermixed_args(sys.argv[2:])
    if options.top < 1:
        parser.error("--top must be at least 1")
    failed = False
    for line, bad in answers(options.model, options.pictures, options.top, options.json, options.always):
        failed |= bad
        print(line, file=sys.stderr if bad else sys.stdout, flush=True)
    if failed:
        sys.exit(1)


def answers(
    model: Path, pictures: Sequence[Path], top: int, as_json: bool, always: bool = False
) -> Iterator[tuple[str, bool]]:
    """A line for each picture, and whether it tells of a failure."""
    import numpy as np

    from sparcl.data.pictures import decoded
    from sparcl.device.gather import listed_files
    from sparcl.errors import SparclError

    predictor = open_model(model)
    files = []
    missing = False
    for path in pictures:
        try:
            files += listed_files(path)
        except SparclError as error:
            missing = True
            yield f"sparcl: {error}", True
    if not files and not missing:
        raise SparclError(f"{', '.join(map(str, pictures))}: there are no pictures.")
    names = [str(tree.location / name) if as_json else tree.where(name) for tree, name in files]
    waiting: list[tuple[str, Any]] = []

    def predicted() -> Iterator[tuple[str, bool]]:
        images = np.stack([image for _, image in waiting])
        for (name, _), prediction in zip(waiting, predictor.predict(images, always), strict=True):
            best = list(zip(prediction.classes, prediction.confidences, strict=True))[:top]
            if as_json:
                shown = {"picture": name, "class": prediction.name, "confidence": prediction.confidence}
                yield json.dumps({**shown, "classes": dict(best), "milliseconds": prediction.milliseconds}), False
            else:
                classes = "  ".join(f"{found} {100 * share:.1f}%" for found, share in best)
                if prediction.unknown:
                    classes = f"unknown (most like {classes})"
                yield f"{name}: {classes}  ({prediction.milliseconds:.1f} ms)", False
        waiting.clear()

    for name, image in zip(names, decoded(files, predictor.prepare), strict=True):
        if isinstance(image, SparclError):
            yield f"sparcl: {image}", True
            continue
        waiting.append((name, image))
        if len(waiting) == predictor.batch:
            yield from predicted()
    if waiting:
        yield from predicted()


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("an empty name is no path")
    return Path(text)


def open_model(model: Path) -> Any:
    """The predictor of a learner, or of a model file."""
    if model.is_file():
        from sparcl.device.model_file import FilePredictor

        return FilePredictor(model)
    if model.suffix == ".sparcl" and not model.exists():
        from sparcl.errors import SparclError

        raise SparclError(f"{model} does not exist. A model file is written with: sparcl export LEARNER FILE")
    from sparcl.device.model import open_predictor

    return open_predictor(model)
