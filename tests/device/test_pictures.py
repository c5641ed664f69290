"""Pictures as they come: every common kind is read, everything else is skipped with its reason."""

import io
import shutil
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from small import Photos, small, sparcl

from sparcl.data.pictures import centre_square, decode_picture
from sparcl.device.gather import decode_files, listed_files, prepare_array
from sparcl.errors import SparclError


def png_of(width: int, height: int) -> bytes:
    """A small file that claims to hold an enormous picture."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.fixture
def odd(tmp_path):
    """One picture of each kind: its upper half is bright, its lower half dark."""
    folder = tmp_path / "odd"
    folder.mkdir()
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[:10] = 220
    picture = Image.fromarray(pixels)
    picture.save(folder / "a.jpg", quality=95)
    picture.save(folder / "b.png")
    picture.save(folder / "c.webp", lossless=True)
    picture.convert("L").save(folder / "d_grey.png")
    picture.convert("CMYK").save(folder / "e_cmyk.jpg", quality=95)
    Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) << 8).save(folder / "f_16bit.png")
    picture.convert("P").save(folder / "g_palette.gif")
    turned = Image.Exif()
    turned[0x0112] = 3  # upside down
    picture.rotate(180).save(folder / "h_turned.jpg", quality=95, exif=turned.tobytes())
    alpha = np.dstack([np.zeros((20, 30, 3), np.uint8), np.full((20, 30), 255, np.uint8)])
    alpha[:10, :, 3] = 0  # transparent parts become white
    Image.fromarray(alpha).save(folder / "i_alpha.png")
    picture.save(folder / "j_moving.webp", save_all=True, append_images=[Image.new("RGB", (30, 20))], lossless=True)
    picture.save(folder / "k_moving.gif", save_all=True, append_images=[Image.new("RGB", (30, 20))])
    picture.resize((300, 1)).save(folder / "l_thin.png")
    (folder / "m").mkdir()
    picture.save(folder / "m" / "inside.tif")
    return folder


def test_every_common_kind_is_read_and_looks_the_same(odd):
    images = list(decode_files(listed_files(odd), 8))
    assert len(images) == 13
    for place, image in enumerate(images):
        if place != 11:  # the thin one has no halves
            assert image[:, :3].mean() > 190 and image[:, 5:].mean() < 30, place


def test_the_same_picture_in_two_classes_is_said(tmp_path, digits):
    (tmp_path / "photos").mkdir()
    photos = Photos(tmp_path / "photos", digits)
    for number in (3, 5):
        name = f"{number:05d}.png"
        shutil.copy(photos.folder / "1" / name, photos.folder / "0" / f"copy-{name}")
    shutil.copy(photos.folder / "2" / "00001.png", photos.folder / "2" / "again.png")  # of no harm
    learner = small(tmp_path / "shop")
    shown = sparcl("learn", learner.directory, *photos.of("0", "1", "2").values())
    assert shown.returncode == 0, shown.stderr
    said = [line for line in (shown.stdout + shown.stderr).splitlines() if "given as" in line]
    assert said == ["2 pictures given as '0' and as '1': only one can be right."]


def test_a_long_list_of_skipped_files_is_cut(tmp_path, digits):
    (tmp_path / "photos").mkdir()
    photos = Photos(tmp_path / "photos", digits)
    for number in range(30):
        (photos.folder / "0" / f"{number}.txt").write_text("not a picture")
    learner = small(tmp_path / "shop")
    shown = sparcl("learn", learner.directory, *photos.of("0", "1").values())
    lines = [line for line in shown.stdout.splitlines() if line.startswith("skipped")]
    assert len(lines) == 11 and "20 more" in lines[-1]


def test_a_buffer_that_holds_no_pictures_is_refused(tmp_path):
    refused = sparcl("new", tmp_path / "shop", "--backbone", "none", "--buffer", "0.001MB", "--image-size", "64")
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert "holds no two pictures of 64x64" in refused.stderr and not (tmp_path / "shop").exists()
    least = refused.stderr.split("give it ")[1].split(" MB")[0]
    assert (
        sparcl(
            "new", tmp_path / "shop", "--backbone", "none", "--buffer", f"{least}MB", "--image-size", "64"
        ).returncode
        == 0
    )


def test_what_cannot_be_read_is_skipped_and_named(tmp_path, odd):
    (odd / "n_cut.jpg").write_bytes((odd / "a.jpg").read_bytes()[:300])
    (odd / "o_text.txt").write_text("not a picture")
    (odd / "p_bomb.png").write_bytes(png_of(30_000, 30_000))
    (odd / "q_empty.png").write_bytes(b"")
    (odd / "r_large.png").write_bytes(bytes(65 * 2**20))
    learner = small(tmp_path / "shop")
    with pytest.warns(UserWarning, match="Copies"):  # most look the same once they are resized
        learned = learner.learn({"odd": odd})
    reasons = {line.split("/")[-1].split()[0]: line for line in learned.skipped}
    assert set(reasons) == {"n_cut.jpg", "o_text.txt", "p_bomb.png", "q_empty.png", "r_large.png"}
    assert "too many pixels" in reasons["p_bomb.png"] and "larger than 64 MB" in reasons["r_large.png"]
    assert learned.entry.skipped == 5
    shown = sparcl("predict", learner.directory, odd)
    assert shown.returncode == 1
    assert len(shown.stdout.splitlines()) == 13 and len(shown.stderr.splitlines()) == 5
    assert "Traceback" not in shown.stderr


def test_predict_loads_only_what_it_needs(tmp_path, photos):
    """A small board has little memory and little time; what only learning needs stays out."""
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1"))
    picture = photos.folder / "1" / "00001.png"
    code = (
        "import sys; from sparcl.cli.main import main\n"
        "try: main()\n"
        "finally: print('LOADED', *sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "predict", str(learner.directory), str(picture)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert finished.returncode == 0, finished.stderr
    name, _, answer = finished.stdout.partition(": ")
    assert name == str(picture) and answer.split()[0] in ("0", "1") and answer.endswith("ms)\n")
    loaded = set(finished.stderr.split("LOADED")[1].split())
    unwanted = {"torch", "typer", "click", "rich", "matplotlib", "hypothesis", "asyncio", "http", "ssl"}
    assert not loaded & unwanted
    rooms = {name.split(".")[1] for name in loaded if name.startswith("sparcl.")}
    assert not rooms & {"methods", "sparsity", "report", "bench", "tuning", "metrics"}
    assert not {"sparcl.learning.settings", "sparcl.learning.loop", "sparcl.data.load"} & loaded


def refusal(content: bytes) -> str:
    with pytest.raises(SparclError) as caught:
        decode_picture(content, "file", centre_square(8))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def saved(picture: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("shape", [(1, 80_000_000), (80_000_000, 1), (70_000, 1_000)], ids=str)
def test_a_picture_with_an_endless_side_is_refused_by_its_header(shape):
    """Decoding one row or column of 80 million pixels took 2.6 GB."""
    assert "no side may be longer than 65,535" in refusal(png_of(*shape))


def test_too_many_pixels_are_refused_without_any_warning(recwarn):
    """Pillow itself warns of these, and decodes them."""
    assert "too many pixels" in refusal(png_of(10_000, 10_000))
    assert not recwarn.list


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"import sys\n", "it is none of JPEG, PNG, BMP, GIF, WEBP, TIFF and PPM. Leave it out"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "it is a video"),
        (b"", "it is empty"),
        (b"\xff\xd8\xff\xe0 and nothing more", "begins like JPEG, but is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_readable_picture_is_named_for_what_it_is(content, words):
    assert words in refusal(content)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_pictures_of_32_bits_are_not_taken_for_black_ones(dtype):
    pixels = (np.arange(400).reshape(20, 20) / 400).astype(np.float32)
    pixels = pixels if dtype is np.float32 else (pixels * 2**31).astype(np.int32)
    assert "32 bits a pixel" in refusal(saved(Image.fromarray(pixels), "TIFF"))
    with pytest.raises(SparclError, match="32 bits a pixel"):
        prepare_array(pixels, 8)


def test_16_bits_are_read_from_every_format_that_has_them():
    pixels = np.linspace(0, 65535, 400).reshape(20, 20).astype(np.uint16)
    ppm = b"P5 20 20 65535\n" + pixels.astype(">u2").tobytes()
    wanted = decode_picture(saved(Image.fromarray((pixels >> 8).astype(np.uint8)), "PNG"), "", centre_square(8))
    for content in (saved(Image.fromarray(pixels), "PNG"), saved(Image.fromarray(pixels), "TIFF"), ppm):
        np.testing.assert_array_equal(decode_picture(content, "", centre_square(8)), wanted)


def test_warnings_stay_as_they_were_after_predicting_in_threads(tmp_path, photos):
    """`warnings.catch_warnings` in two threads at once can leave the filters of one of them behind for good."""
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1"))
    paths = sorted((photos.folder / "0").iterdir())
    before = warnings.filters[:]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda path: learner.predict(path)[0].classes, paths * 4))
    assert answers == 4 * [learner.predict(path)[0].classes for path in paths]
    assert warnings.filters == before
