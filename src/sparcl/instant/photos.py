"""From a decoded picture to a photo that is kept: its features, a small JPEG, and how sharp it is."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcl.device.held_out import digest
from sparcl.instant.features import FeatureExtractor
from sparcl.instant.kept import Photo

JPEG_QUALITY = 85


def photo_of(image: NDArray[np.uint8], features: FeatureExtractor) -> Photo:
    """Of a picture [3, size, size]."""
    sharpness, contrast = quality(image)
    return Photo(digest(image), features(image), as_jpeg(image), sharpness, contrast)


def as_jpeg(image: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()


def from_jpeg(content: bytes, size: int) -> NDArray[np.uint8]:
    """[3, size, size]; raises ValueError for anything that was not written by `as_jpeg`."""
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as picture:
            if picture.size != (size, size) or picture.mode != "RGB":
                raise ValueError("a picture that it keeps has another size")
            return np.ascontiguousarray(np.asarray(picture, np.uint8).transpose(2, 0, 1))
    except (OSError, SyntaxError) as error:
        raise ValueError("a picture that it keeps is damaged") from error


def quality(image: NDArray[np.uint8]) -> tuple[float, float]:
    """Sharpness: how much neighbouring pixels differ from what their neighbours would suggest, beside how much all
    differ (low when blurred). Contrast: the deviation of the brightness, from 0 to 1 (low when empty)."""
    grey = image.astype(np.float64).mean(axis=0) / 255
    contrast = float(grey.std())
    curved = grey[1:-1, :-2] + grey[1:-1, 2:] + grey[:-2, 1:-1] + grey[2:, 1:-1] - 4 * grey[1:-1, 1:-1]
    return (float(curved.std()) / contrast if contrast > 0 else 0.0), contrast
