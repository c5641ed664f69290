"""Pictures inside a page: as data URIs, drawn ones as PNG, photos as JPEG."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Colour = tuple[int, int, int]
# Of middle brightness, so that they can be seen on light and on dark pages alike: share 0 is transparent.
HEAT: Colour = (0x2F, 0x81, 0xF7)
MISS: Colour = (0xE8, 0x6A, 0x1F)
PHOTO_QUALITY = 82


def data_uri(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def photo(image: NDArray[np.uint8], longest_side: int) -> str:
    """An image [channels, height, width], made smaller if it is larger than that."""
    file = io.BytesIO()
    _small(image, longest_side).save(file, "JPEG", quality=PHOTO_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def heat(shares: NDArray[np.floating], missed: NDArray[np.bool_] | None = None) -> str:
    """One pixel a cell, the more opaque the larger its share (0 to 1, NaN is empty). `missed`: in the other colour."""
    pixels = np.empty((*shares.shape, 4), np.uint8)
    pixels[...] = (*HEAT, 0)
    if missed is not None:
        pixels[missed] = (*MISS, 0)
    pixels[..., 3] = np.rint(255 * np.clip(np.nan_to_num(shares), 0, 1)).astype(np.uint8)
    return data_uri(Image.fromarray(pixels, "RGBA"))


def strip(images: NDArray[np.uint8], longest_side: int) -> str:
    """Images [n, channels, height, width] side by side, made smaller if they are larger than that."""
    pictures = [_small(image, longest_side) for image in images]
    wide, high = pictures[0].size
    gap = max(1, wide // 16)
    whole = Image.new("RGBA", (len(pictures) * (wide + gap) - gap, high), (0, 0, 0, 0))
    for place, picture in enumerate(pictures):
        whole.paste(picture, (place * (wide + gap), 0))
    return data_uri(whole)


def _small(image: NDArray[np.uint8], longest_side: int) -> Image.Image:
    channels, height, width = image.shape
    colours = image if channels >= 3 else image[:1].repeat(3, axis=0)
    picture = Image.fromarray(np.ascontiguousarray(colours[:3].transpose(1, 2, 0)))
    factor = min(1.0, longest_side / max(height, width))
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return picture if factor == 1 else picture.resize(size, Image.Resampling.BOX)
