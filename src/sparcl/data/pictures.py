"""Decoding picture files that cannot be trusted, several at a time."""

import contextlib
import io
import itertools
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from sparcl.data.source import Block
from sparcl.data.tree import Tree
from sparcl.errors import SparclError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""Only common formats: each further decoder is one more that a hostile file could attack."""
BLOCK_IMAGES = 512
BLOCK_PIXELS = 16 << 20
"""So many pictures, and of so many pixels, are decoded before the first is handed on."""
JOB_IMAGES = 32
"""How many pictures a thread takes at a time; handing over small ones singly costs more than decoding them."""
MOST_THREADS = 4
LARGE = 16 << 20
"""Pictures of more pixels wait for one another, and become smaller before their colours are looked at."""

# Pillow logs some kinds of damage; our one line says it, and a log line of its own would only be noise beside it.
logging.getLogger("PIL").addHandler(logging.NullHandler())

MOST_MEGAPIXELS = (Image.MAX_IMAGE_PIXELS or 0) // 1_000_000


@dataclass(frozen=True)
class Prepare:
    """Turns an opened picture into one that has the wanted size."""

    pixels: int
    of: Callable[[Image.Image], Image.Image]

    @property
    def together(self) -> int:
        """How many pictures make a block."""
        return max(1, min(BLOCK_IMAGES, BLOCK_PIXELS // self.pixels))


def decoded_blocks(tree: Tree, pictures: Sequence[tuple[str, int]], prepare: Prepare) -> Iterator[Block]:
    """Decode (name, label) pairs in order to RGB images. The first one that cannot be decoded is raised."""
    found = decoded([(tree, name) for name, _ in pictures], prepare)
    for start in range(0, len(pictures), prepare.together):
        block = pictures[start : start + prepare.together]
        images = []
        for picture in itertools.islice(found, len(block)):
            if isinstance(picture, SparclError):
                raise picture
            images.append(picture)
        yield np.stack(images), np.array([label for _, label in block], dtype=np.int64)


def decoded(files: Sequence[tuple[Tree, str]], prepare: Prepare) -> Iterator[NDArray[np.uint8] | SparclError]:
    """For each file, in order, its picture as an RGB image or the reason why there is none.

    Several at a time: Pillow lets go of the interpreter while it decodes.
    """

    def decode(job: Sequence[tuple[Tree, str]]) -> list[NDArray[np.uint8] | SparclError]:
        return [_picture_or_reason(tree, name, prepare) for tree, name in job]

    threads = min(MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(files), prepare.together):
            block = files[start : start + prepare.together]
            length = min(JOB_IMAGES, -(-len(block) // threads))
            jobs = [block[first : first + length] for first in range(0, len(block), length)]
            with safe_decoding():
                results = list(itertools.chain.from_iterable(pool.map(decode, jobs)))
            yield from results


@contextlib.contextmanager
def safe_decoding() -> Iterator[None]:
    """Odd metadata is none of our business, but a picture of too many pixels must not be decoded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _picture_or_reason(tree: Tree, name: str, prepare: Prepare) -> NDArray[np.uint8] | SparclError:
    try:
        return decode_picture(tree.read(name), tree.where(name), prepare)
    except SparclError as error:
        return error


def decode_picture(content: bytes, where: str, prepare: Prepare) -> NDArray[np.uint8]:
    """One picture as [3, height, width]."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            return np.asarray(_as_rgb(prepare.of(picture)), dtype=np.uint8).transpose(2, 0, 1)
    except SparclError as error:
        raise SparclError(f"{where} {error}") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise SparclError(
            f"{where} has too many pixels to be decoded safely, more than {MOST_MEGAPIXELS} million. Make it smaller."
        ) from error
    except Exception as error:
        # A damaged picture can make a decoder raise anything at all; whatever it is, the picture is unreadable.
        raise SparclError(
            f"{where} is not a readable picture (damaged, or of a kind that is not supported). Remove it."
        ) from error


def centre_square(size: int) -> Prepare:
    return centre_fit(size, size)


def centre_fit(width: int, height: int) -> Prepare:
    """Turn upright as the camera noted, cut out the largest centred part of the right proportions, resize it with a
    smoothing filter."""

    def prepare(picture: Image.Image) -> Image.Image:
        # JPEG can be decoded at a fraction of its size; twice the wanted size leaves the filter something to smooth.
        picture.draft(None, (2 * width, 2 * height))
        if picture.width * picture.height > LARGE:
            with _one_large_picture:
                picture = _reduced(picture, 4 * max(width, height))
        upright = ImageOps.exif_transpose(picture)
        # Colours first: a palette or a 16-bit picture cannot be smoothed.
        return ImageOps.fit(_as_rgb(upright), (width, height), Image.Resampling.BILINEAR)

    return Prepare(width * height, prepare)


def exact_size(size: int) -> Prepare:
    """Take the picture as it is, but only if it has the size that the dataset promises."""

    def prepare(picture: Image.Image) -> Image.Image:
        if picture.size != (size, size):
            raise SparclError(f"has {picture.width}x{picture.height} pixels instead of {size}x{size}. Get it again.")
        return picture

    return Prepare(size * size, prepare)


_one_large_picture = threading.Lock()


def _reduced(picture: Image.Image, least: int) -> Image.Image:
    """A whole fraction of the picture with sides of at least `least`, in RGB.

    Stripe by stripe, because looking at the colours of all pixels at once takes several times the picture's memory.
    """
    factor = max(1, min(picture.size) // least)
    small = Image.new("RGB", (-(-picture.width // factor), -(-picture.height // factor)))
    rows = factor * max(1, (LARGE >> 4) // (factor * picture.width))
    for top in range(0, picture.height, rows):
        stripe = picture.crop((0, top, picture.width, min(top + rows, picture.height)))
        stripe.info = picture.info  # it says which colour is transparent
        small.paste(_as_rgb(stripe).reduce(factor), (0, top // factor))
    small.getexif()[ExifTags.Base.Orientation] = picture.getexif().get(ExifTags.Base.Orientation, 1)
    return small


def _as_rgb(picture: Image.Image) -> Image.Image:
    """Grey becomes RGB, transparent parts become white, 16 bits become 8."""
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return picture
    if picture.mode.startswith("I"):
        picture = Image.fromarray((np.asarray(picture).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return picture.convert("RGB")
