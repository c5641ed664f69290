"""Folders of pictures as people have them, and as nobody should have them."""

import io
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sparcl.data import Stream, load_stream, pictures
from sparcl.errors import SparclError


def load(root: Path, **choices: object) -> Stream:
    return load_stream("folder", root=root, **choices)  # type: ignore[arg-type]


def refused(root: Path | None, message: str) -> None:
    with pytest.raises(SparclError, match=message) as caught:
        load_stream("folder", root=root)
    assert "\n" not in str(caught.value)


def zip_up(folder: Path, archive: Path, inside: str = "") -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            packed.write(path, Path(inside) / path.relative_to(folder))
    return archive


def test_a_share_of_each_class_is_for_testing(class_folders: Path) -> None:
    stream = load(class_folders, classes_per_task=3)
    assert stream.class_names == ("cat", "dog", "emu")
    assert stream.image_shape == (3, 32, 32)
    assert stream.augmentation.padding == 4
    assert stream.augmentation.flip
    (task,) = stream.tasks
    assert np.bincount(task.train.labels).tolist() == [8, 8, 8]
    assert np.bincount(task.test.labels).tolist() == [2, 2, 2]
    seen = {image.tobytes() for image in (*task.train.images, *task.test.images)}
    assert len(seen) == 30  # every picture once
    (half,) = load(class_folders, classes_per_task=3, test_share=0.5).tasks
    assert np.bincount(half.test.labels).tolist() == [5, 5, 5]


def test_mean_and_std_are_those_of_the_training_images(class_folders: Path) -> None:
    stream = load(class_folders, image_size=16)
    images = stream.tasks[0].train.images / 255
    np.testing.assert_allclose(stream.augmentation.mean, images.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(stream.augmentation.std, images.std(axis=(0, 2, 3)))
    assert stream.augmentation.padding == 2


@pytest.mark.parametrize("held_out", ["test", "val"])
def test_given_splits(class_folders: Path, tmp_path: Path, held_out: str) -> None:
    root = tmp_path / "split"
    shutil.copytree(class_folders, root / "train")
    shutil.copytree(class_folders, root / held_out)
    (root / held_out / "cat" / "0.png").unlink()
    (task,) = load(root, classes_per_task=3).tasks
    assert (len(task.train), len(task.test)) == (30, 29)
    shutil.rmtree(root / held_out / "emu")
    refused(root, f"the class 'emu' is in train but not in {held_out}")


@pytest.mark.parametrize("inside", ["", "photos", "my/photos", "train"])
def test_an_archive_equals_its_folder(class_folders: Path, tmp_path: Path, inside: str) -> None:
    packed, plain = load(zip_up(class_folders, tmp_path / "photos.zip", inside)), load(class_folders)
    assert packed.class_names == plain.class_names
    for a, b in zip(packed.tasks, plain.tasks, strict=True):
        assert (a.train.images == b.train.images).all()
        assert (a.test.labels == b.test.labels).all()


def test_junk_is_ignored_and_folders_in_a_class_belong_to_it(
    class_folders: Path, tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    (class_folders / "readme.txt").write_text("beside the class folders")
    (class_folders / "__MACOSX").mkdir()
    (class_folders / "cat" / ".DS_Store").write_bytes(b"junk")
    (class_folders / "cat" / "Thumbs.db").write_bytes(b"junk")
    (class_folders / ".hidden").mkdir()
    (class_folders / "cat" / "more").mkdir()
    (class_folders / "cat" / "more" / "a.png").write_bytes(picture())
    for root in (class_folders, zip_up(class_folders, tmp_path / "a.zip")):
        stream = load(root, classes_per_task=3)
        assert stream.class_names == ("cat", "dog", "emu")
        assert len(stream.tasks[0].train) + len(stream.tasks[0].test) == 31


def decoded(tmp_path: Path, content: bytes, size: int = 8) -> NDArray[np.int64]:
    for name in ("a", "b"):
        (tmp_path / "one" / name).mkdir(parents=True)
        for number in range(2):
            (tmp_path / "one" / name / f"{number}.img").write_bytes(content)
    image: NDArray[np.int64] = load(tmp_path / "one", image_size=size).tasks[0].train.images[0].astype(np.int64)
    return image


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_the_centre_square_is_taken(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 20), "red")
    image.paste("blue", (10, 0, 30, 20))
    result = decoded(tmp_path, saved(image, "PNG"))
    assert (result[:, :, 1:-1] == np.array([0, 0, 255])[:, None, None]).all()
    assert result[2].min() > 200  # the filter reaches a little beyond the edge of the square


def test_a_picture_of_the_right_size_is_not_touched(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    content = picture((8, 8))
    expected = np.asarray(Image.open(io.BytesIO(content))).transpose(2, 0, 1)
    assert (decoded(tmp_path, content) == expected).all()


def test_cameras_turn_pictures(tmp_path: Path) -> None:
    image = Image.new("RGB", (16, 16), "black")
    image.paste("white", (0, 0, 16, 8))  # white above; turned by 90 degrees clockwise it is white on the right
    exif = Image.Exif()
    exif[0x0112] = 6
    result = decoded(tmp_path, saved(image, "JPEG", exif=exif, quality=95))
    assert result[:, :, 5:].min() > 200
    assert result[:, :, :3].max() < 50


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "L", "I;16"])
def test_large_pictures_take_another_way_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Colours in large areas, and not turned upright: smoothing the one way or the other makes hardly a difference."""
    noise = np.random.default_rng(0).integers(0, 256, (4, 3, 4), np.uint8)
    large = Image.fromarray(noise.repeat(64, 0).repeat(64, 1), "RGBA")
    if mode == "I;16":
        image = Image.fromarray(np.asarray(large.convert("L")).astype(np.uint16) * 256)
    else:
        image = large.convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6
    content = saved(image, "PNG", exif=exif)
    usual = decoded(tmp_path / "usual", content).astype(int)
    monkeypatch.setattr(pictures, "LARGE", 1000)
    assert np.abs(decoded(tmp_path / "large", content) - usual).mean() < 4 < usual.std()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_become_white(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0)).convert(mode)
    options = {"transparency": 0} if mode == "P" else {}
    assert (decoded(tmp_path, saved(image, "PNG", **options)) == 255).all()


@pytest.mark.parametrize(
    ("image", "kind", "expected"),
    [
        (Image.new("L", (9, 9), 77), "PNG", 77),
        (Image.new("1", (9, 9), 1), "PNG", 255),
        (Image.fromarray(np.full((9, 9), 77 * 256, dtype=np.uint16)), "PNG", 77),
        (Image.new("CMYK", (9, 9), (0, 0, 0, 0)), "JPEG", 255),
        (Image.new("RGB", (9, 9), (77, 77, 77)), "BMP", 77),
        (Image.new("RGB", (9, 9), (77, 77, 77)), "TIFF", 77),
        (Image.new("RGB", (9, 9), (77, 77, 77)), "GIF", 77),
        (Image.new("RGB", (1, 500), (77, 77, 77)), "PNG", 77),
    ],
)
def test_kinds_of_pictures(tmp_path: Path, image: Image.Image, kind: str, expected: int) -> None:
    assert (decoded(tmp_path, saved(image, kind)) == expected).all()


def test_pictures_of_one_colour_can_be_normalised(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    decoded(tmp_path, picture((8, 8), (9, 9, 9)))
    stream = load(tmp_path / "one")
    batch = stream.augmentation.test(stream.tasks[0].train.images, np.array([0]))
    assert np.isfinite(batch).all()


def png_header(width: int, height: int) -> bytes:
    """A PNG file that claims a size and holds nothing."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    end = b"IEND"
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body)),
            struct.pack(">I", 0) + end + struct.pack(">I", zlib.crc32(end)),
        ]
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "dog/bad.png is not a readable picture"),
        (b"hello", "dog/bad.png is not a readable picture"),
        (b"%PDF-1.4", "not a readable picture"),
        (png_header(40, 30), "not a readable picture"),
        (png_header(0, 0), "not a readable picture"),
        (png_header(10_000, 10_000), "has too many pixels"),
        (png_header(100_000, 100_000), "has too many pixels"),
    ],
)
def test_files_that_are_no_pictures(class_folders: Path, tmp_path: Path, content: bytes, message: str) -> None:
    (class_folders / "dog" / "bad.png").write_bytes(content)
    refused(class_folders, message)
    refused(zip_up(class_folders, tmp_path / "photos.zip"), message)
    assert not list((tmp_path / "cache").glob("*/"))  # nothing half-written


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_truncated_pictures(class_folders: Path, picture: Callable[..., bytes], kind: str) -> None:
    content = picture(kind=kind)
    for length in (len(content) // 2, 20):
        (class_folders / "dog" / "bad.img").write_bytes(content[:length])
        refused(class_folders, "dog/bad.img is not a readable picture")


def test_too_few(class_folders: Path, tmp_path: Path) -> None:
    for image in list((class_folders / "dog").iterdir())[1:]:
        image.unlink()
    refused(class_folders, r"the class 'dog' has too few images \(1; it needs 2\)")
    next((class_folders / "dog").iterdir()).unlink()
    refused(class_folders, r"the class 'dog' has too few images \(0")
    refused(zip_up(class_folders, tmp_path / "photos.zip"), r"the class 'dog' has too few images \(0")
    shutil.rmtree(class_folders / "dog")
    shutil.rmtree(class_folders / "emu")
    refused(class_folders, "has 1 class folders. At least 2")
    shutil.rmtree(class_folders / "cat")
    refused(class_folders, "has 0 class folders")


def test_wrong_roots(tmp_path: Path) -> None:
    refused(None, "'folder' needs data.root=PATH")
    refused(tmp_path / "nowhere", "does not exist")
    (tmp_path / "list.csv").write_text("a,b")
    refused(tmp_path / "list.csv", "neither a folder nor a .zip")
    with pytest.raises(SparclError, match="image_size is 2"):
        load(tmp_path, image_size=2)


def test_roots_that_the_file_system_objects_to(class_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(Path("a" * 5000), "could not be read: File name too long")
    monkeypatch.setenv("HOME", str(class_folders.parent))
    assert load(Path("~/photos")).classes == 3


def test_folders_without_end(class_folders: Path) -> None:
    deep = class_folders / "dog" / "/".join("d" * 30)
    deep.mkdir(parents=True)
    refused(class_folders, "is nested too deeply")


def test_links_and_special_files(class_folders: Path) -> None:
    (class_folders / "dog" / "link.png").symlink_to(class_folders / "dog" / "0.png")
    refused(class_folders, "dog/link.png is a link or a special file")
    (class_folders / "dog" / "link.png").unlink()
    os.mkfifo(class_folders / "dog" / "pipe.png")  # reading it would wait for ever
    refused(class_folders, "dog/pipe.png is a link or a special file")


def test_names_that_would_spoil_the_terminal(class_folders: Path) -> None:
    bad = class_folders / "dog" / "a\n\x1b[31mb.png"
    bad.write_bytes(b"")
    refused(class_folders, r"\\n\\x1b")
    bad.unlink()
    next((class_folders / "dog").iterdir()).rename(class_folders / "dog" / "b\udce4r.png")
    load(class_folders)
    (class_folders / "dog").rename(class_folders / "do\udcffg")
    refused(class_folders, "has unprintable characters. Rename it")
