"""What pictures show, according to a model file. Nothing is imported that only learning needs."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparcl.data.pictures import centre_fit, decode_picture
from sparcl.deploy.model import Model, load
from sparcl.errors import SparclError

GREY = (19595, 38470, 7471)  # how bright red, green and blue look, in shares of 65536


def answers_of_file(model_file: Path, pictures: Sequence[Path], top: int, as_json: bool) -> Iterator[tuple[str, bool]]:
    """A line for each picture, and whether it tells of a failure. A picture that cannot be read stops no other."""
    model = load(model_file)
    for path in pictures:
        try:
            image = read_picture(path, model)
        except SparclError as error:
            yield f"sparcl: {error}", True
            continue
        start = time.perf_counter()
        logits = model.predict(image).astype(np.float64)
        milliseconds = 1e3 * (time.perf_counter() - start)
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        best = [(model.classes[label], float(shares[label])) for label in np.argsort(-shares, kind="stable")[:top]]
        if as_json:
            shown = {"picture": str(path), "class": best[0][0], "confidence": best[0][1]}
            yield json.dumps({**shown, "classes": dict(best), "milliseconds": milliseconds}), False
        else:
            classes = "  ".join(f"{name} {100 * share:.1f}%" for name, share in best)
            yield f"{path}: {classes}  ({milliseconds:.1f} ms)", False


def read_picture(path: Path, model: Model) -> NDArray[np.uint8]:
    """A picture as the model takes it: the largest centred part of the right proportions, resized."""
    channels, height, width = model.image_shape
    if channels not in (1, 3):
        raise SparclError(f"{model.path} takes images of {channels} channels, not pictures.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SparclError(f"{path} could not be read: {error.strerror}.") from error
    picture = decode_picture(content, str(path), centre_fit(width, height))
    if channels == 3:
        return picture
    grey = sum(share * colour.astype(np.int64) for share, colour in zip(GREY, picture, strict=True))
    return ((np.asarray(grey) + 0x8000) >> 16).astype(np.uint8)[None]
