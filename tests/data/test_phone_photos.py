"""HEIC and AVIF photos: made here, read like any other picture, or refused in one line that says what to install."""

import io
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image, features

from sparcl.data.pictures import _brands, centre_square, decode_picture
from sparcl.errors import SparclError

needs_heic = pytest.mark.skipif(find_spec("pillow_heif") is None, reason="needs the extra `heic`")
needs_avif = pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")


def photo(kind, turned=1, size=(96, 64)):
    """Bright above, dark below; `turned`: as the camera notes that it was held (6: by a quarter)."""
    levels = np.full((size[1], size[0], 3), 30, np.uint8)
    levels[: size[1] // 2] = 210
    picture = Image.fromarray(levels)
    if turned == 6:
        picture = picture.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = turned
    content = io.BytesIO()
    if kind == "HEIC":
        import pillow_heif

        pillow_heif.from_pillow(picture).save(content, quality=90, exif=exif.tobytes())
    else:
        picture.save(content, kind, quality=90, exif=exif.tobytes())
    return content.getvalue()


def decoded(content):
    return decode_picture(content, "photo", centre_square(32))


KINDS = [pytest.param("HEIC", marks=needs_heic), pytest.param("AVIF", marks=needs_avif)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", [1, 6])
def test_photos_of_phones_are_read_upright(kind, turned):
    content = photo(kind, turned)
    assert content[4:8] == b"ftyp"
    picture = decoded(content)
    assert picture.shape == (3, 32, 32)
    assert picture[:, :14].min() > 180 and picture[:, 18:].max() < 60


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_ones_are_one_line(kind):
    whole = photo(kind)
    for content in (whole[: len(whole) // 2], whole[:40], whole[:-200] + bytes(200)):
        try:
            assert decoded(content).shape == (3, 32, 32)  # what is missing may be grey
        except SparclError as error:
            assert f"it begins like {kind}, but is damaged" in str(error) and "\n" not in str(error)
    with pytest.raises(SparclError, match=f"it begins like {kind}, but is damaged"):
        decoded(whole[:40])


def test_without_the_extra_a_heic_photo_names_it(monkeypatch):
    content = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(SparclError, match=r'pip install "sparcl-edge\[heic\]"; or convert it to JPEG') as refused:
        decoded(content)
    assert "\n" not in str(refused.value)


def test_without_support_an_avif_picture_says_which_pillow(monkeypatch):
    content = b"\0\0\0\x18ftypavif\0\0\0\0mif1avif"
    monkeypatch.setitem(sys.modules, "PIL.AvifImagePlugin", None)
    monkeypatch.delattr("PIL.AvifImagePlugin", raising=False)
    with pytest.raises(SparclError, match=r"Pillow 11\.3 and newer"):
        decoded(content)


@needs_avif
def test_a_general_brand_is_told_by_what_it_is_compatible_with():
    """mif1 says only that a file holds pictures."""
    content = photo("AVIF")
    general = content[:8] + b"mif1" + content[12:]
    assert b"avif" in _brands(general)[1:]
    assert np.array_equal(decoded(general), decoded(content))


def test_brands_of_files_that_lie():
    assert _brands(b"") == () and _brands(b"\xff\xd8\xff\xe0" + bytes(20)) == ()
    endless = b"\xff\xff\xff\xffftypmif1" + b"heic" * 100_000
    assert len(_brands(endless)) < 100
    for content in (endless, b"\0\0\0\0ftyp", b"\0\0\0\x08ftyp", b"\0\0\0\x10ftypheic", b"\0\0\0\x10ftypavif"):
        with pytest.raises(SparclError):
            decoded(content)
