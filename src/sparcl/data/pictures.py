"""Decoding picture files that cannot be trusted, several at a time."""

import contextlib
import io
import itertools
import logging
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, TiffImagePlugin, WebPImagePlugin  # noqa: F401

from sparcl import _engine
from sparcl.data.source import Block
from sparcl.data.tree import Tree
from sparcl.errors import SparclError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""Only common formats: each further decoder is one more that a hostile file could attack."""
BLOCK_IMAGES = 512
BLOCK_PIXELS = 16 << 20
"""At most this many pictures, and this many pixels, are decoded before the first is handed on."""
JOB_IMAGES = 32
"""How many pictures a thread takes at a time; handing over small ones singly costs more than decoding them."""
MAX_THREADS = 4
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
AVIF_BRANDS = (b"avif", b"avis")
"""Kinds of picture that phones take; a file of either names its brands at its start. Their decoders are loaded when the
first one is met: AVIF's is part of newer versions of Pillow, HEIC's is an extra."""
MAX_BRANDS = 64
NEEDS_HEIC = 'pip install "sparcl-edge[heic]"'
LARGE = 16 << 20
"""Pictures of more pixels wait for one another, and become smaller before their colours are looked at."""
MAX_PIXELS = 89_000_000
MAX_SIDE = 65_535
"""JPEG has no longer side, and a picture takes memory for every row, however short that is."""

Decoder = Callable[[io.BytesIO, str], Image.Image]

# Pillow logs some kinds of damage, and warns of odd metadata. Our one line says what matters, and theirs would only be
# noise beside it. The filter is set once: changing it while pictures are decoded is not safe with several threads.
logging.getLogger("PIL").addHandler(logging.NullHandler())
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

Image.preinit()  # registers most of FORMATS; the two imported above register themselves


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

    threads = min(MAX_THREADS, _engine.usable_cores())
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(files), prepare.together):
            block = files[start : start + prepare.together]
            length = min(JOB_IMAGES, -(-len(block) // threads))
            jobs = [block[first : first + length] for first in range(0, len(block), length)]
            yield from list(itertools.chain.from_iterable(pool.map(decode, jobs)))


def _picture_or_reason(tree: Tree, name: str, prepare: Prepare) -> NDArray[np.uint8] | SparclError:
    try:
        return decode_picture(tree.read(name), tree.where(name), prepare)
    except SparclError as error:
        return error


def decode_picture(content: bytes, where: str, prepare: Prepare) -> NDArray[np.uint8]:
    """One picture as [3, height, width]."""
    try:
        with _opened(content) as picture:
            return prepared(picture, prepare)
    except SparclError as error:
        raise SparclError(f"{where} {error}") from error
    except Exception as error:
        # A damaged picture can make a decoder raise anything at all; whatever it is, the picture is unreadable.
        raise SparclError(f"{where} is not a readable picture: {_what_it_is(content)}") from error


def prepared(picture: Image.Image, prepare: Prepare) -> NDArray[np.uint8]:
    """[3, height, width] of a picture that is open, but perhaps not decoded yet: what it claims to be is checked
    before."""
    if picture.width * picture.height > MAX_PIXELS:
        raise SparclError(
            f"has too many pixels to be decoded safely, more than {MAX_PIXELS // 1_000_000} million. Make it smaller."
        )
    if max(picture.size) > MAX_SIDE:
        raise SparclError(
            f"has {picture.width:,}x{picture.height:,} pixels, and no side may be longer than {MAX_SIDE:,}. "
            "Make it smaller."
        )
    if picture.mode == "F" or (picture.mode == "I" and picture.format != "PPM"):  # Pillow scales those to 16 bits
        raise SparclError(
            "has 32 bits a pixel, and nothing says which number is white. Save it with 8 or 16 bits a channel."
        )
    return np.asarray(_as_rgb(prepare.of(picture)), dtype=np.uint8).transpose(2, 0, 1)


def _opened(content: bytes) -> Image.Image:
    """As `Image.open`, but for its check of the size, which warns and lets the picture through."""
    brands = _brands(content)
    decoder = _avif_decoder() if _is_avif(brands) else _heic_decoder() if _is_heic(brands) else None
    if decoder is not None:
        return decoder(io.BytesIO(content), "")
    for name in _formats_like(content):
        with contextlib.suppress(SyntaxError, IndexError, TypeError, struct.error):  # it only began like one
            return Image.OPEN[name][0](io.BytesIO(content), "")
    raise ValueError("no decoder knows it")


def _brands(content: bytes) -> tuple[bytes, ...]:
    """What a file of MPEG's family says it is, and is compatible with: nothing of any other file."""
    if content[4:8] != b"ftyp":
        return ()
    end = min(int.from_bytes(content[:4], "big"), 16 + 4 * MAX_BRANDS)
    return content[8:12], *(content[place : place + 4] for place in range(16, end, 4))


def _is_avif(brands: tuple[bytes, ...]) -> bool:
    """mif1 and msf1 say only that it is a picture; what it is compatible with says which."""
    return bool(brands) and any(brand in AVIF_BRANDS for brand in (brands if brands[0] in HEIC_BRANDS else brands[:1]))


def _is_heic(brands: tuple[bytes, ...]) -> bool:
    return bool(brands) and brands[0] in HEIC_BRANDS and not _is_avif(brands)


def _avif_decoder() -> Decoder | None:
    try:
        from PIL import AvifImagePlugin
    except ImportError:
        return None
    return AvifImagePlugin.AvifImageFile if AvifImagePlugin.SUPPORTED else None


def _heic_decoder() -> Decoder | None:
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        return None
    decoder: Decoder = HeifImageFile
    return decoder


def _formats_like(content: bytes) -> list[str]:
    """Those of FORMATS whose files begin like this."""

    def accepts(name: str) -> bool:
        accept = Image.OPEN[name][1]
        return accept is None or accept(content[:16].ljust(16, b"\0")) is True

    return [name for name in FORMATS if accepts(name)]


def _what_it_is(content: bytes) -> str:
    """Of a file that could not be decoded, and what to do about it."""
    brands = _brands(content)
    if _is_heic(brands):
        if _heic_decoder() is not None:
            return "it begins like HEIC, but is damaged or cut off. Get it again, or leave it out."
        return (
            f"it is a HEIC photo. Install what reads it with: {NEEDS_HEIC}; or convert it to JPEG. A phone whose "
            "camera is set to its most compatible format takes JPEG photos from the start."
        )
    if _is_avif(brands):
        if _avif_decoder() is not None:
            return "it begins like AVIF, but is damaged or cut off. Get it again, or leave it out."
        return "it is an AVIF picture. Pillow 11.3 and newer read them; or convert it to JPEG or PNG."
    if brands:
        return "it is a video or a sound. Give single pictures."
    if not content:
        return "it is empty."
    like = _formats_like(content)
    if like:
        return f"it begins like {like[0]}, but is damaged or cut off. Get it again, or leave it out."
    return f"it is none of {', '.join(FORMATS[:-1])} and {FORMATS[-1]}. Leave it out, or convert it if it is a picture."


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
