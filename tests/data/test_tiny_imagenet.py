"""Tiny ImageNet in its original layout, with two classes of three images."""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sparcl.data import DATASETS, load_stream
from sparcl.data.export import export_pictures
from sparcl.errors import SparclError

WNIDS = ("n02", "n01")
REAL_DATA = Path(os.environ.get("SPARCL_DATA", "")) / "tiny_imagenet"


@pytest.fixture
def top(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    top = tmp_path / "data" / "tiny_imagenet" / "tiny-imagenet-200"
    (top / "val" / "images").mkdir(parents=True)
    (top / "wnids.txt").write_text("".join(f"{wnid}\n" for wnid in WNIDS))
    (top / "words.txt").write_text("n01\tgoldfish, Carassius auratus\nn02\tlemon\nn03\tunused\n")
    annotations = ""
    for label, wnid in enumerate(WNIDS):
        (top / "train" / wnid / "images").mkdir(parents=True)
        (top / "train" / wnid / f"{wnid}_boxes.txt").write_text("ignored")
        for number in range(3):
            mode = "L" if number == 2 else "RGB"
            grey = 100 * label + 10 * number
            content = picture((64, 64), grey if mode == "L" else (grey,) * 3, "JPEG", mode)
            (top / "train" / wnid / "images" / f"{wnid}_{number}.JPEG").write_bytes(content)
        (top / "val" / "images" / f"val_{label}.JPEG").write_bytes(picture((64, 64), (100 * label,) * 3, "JPEG"))
        annotations += f"val_{label}.JPEG\t{wnid}\t0\t1\t2\t3\n"
    (top / "val" / "val_annotations.txt").write_text(annotations)
    return top


def check_contents(root: Path | None) -> None:
    stream = load_stream("tiny_imagenet", root=root)
    assert stream.class_names == ("lemon", "goldfish")
    assert stream.image_shape == (3, 64, 64)
    (task,) = stream.tasks
    assert task.train.labels.tolist() == [1, 1, 1, 0, 0, 0]
    assert task.train.originals(slice(None)).mean(axis=(1, 2, 3)).tolist() == [100, 110, 120, 0, 10, 20]
    assert task.test.labels.tolist() == [0, 1]
    assert task.test.originals(slice(None)).mean(axis=(1, 2, 3)).tolist() == [0, 100]
    assert stream.augmentation.padding == 4


def zip_up(top: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(top.rglob("*")):
            packed.write(path, Path(top.name) / path.relative_to(top))
    return archive


def test_folder_and_archive(top: Path, tmp_path: Path) -> None:
    archive = zip_up(top, tmp_path / "my.zip")
    for root in (None, top, top.parent, archive):
        check_contents(root)
    shutil.rmtree(top)
    shutil.copy(archive, top.parent / "tiny-imagenet-200.zip")
    check_contents(None)


def test_words_are_optional_and_made_unique(top: Path) -> None:
    (top / "words.txt").write_text("n01\tcrane, bird\nn02\tcrane, machine\n")
    assert load_stream("tiny_imagenet").class_names == ("crane (n02)", "crane (n01)")
    (top / "words.txt").unlink()
    assert load_stream("tiny_imagenet").class_names == ("n02", "n01")


@pytest.mark.parametrize("word", ["TMP/outside", "../../outside", "a/b", ".."])
def test_a_class_is_written_into_no_other_folder(top: Path, tmp_path: Path, word: str) -> None:
    (top / "words.txt").write_text(f"n01\t{word.replace('TMP', str(tmp_path))}\nn02\tlemon\n")
    before = set(tmp_path.rglob("*"))
    with pytest.raises(SparclError, match="cannot be a folder's"):
        export_pictures(DATASETS["tiny_imagenet"], None, tmp_path / "out")
    assert set(tmp_path.rglob("*")) == before


def refused(message: str, root: Path | None = None) -> None:
    with pytest.raises(SparclError, match=message) as caught:
        load_stream("tiny_imagenet", root=root)
    assert "\n" not in str(caught.value)


def test_missing() -> None:
    refused("Tiny ImageNet was not found under .*Run `sparcl data get tiny_imagenet`, or put tiny-imagenet-200.zip")


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ("val_0.JPEG\tn02\nval_1.JPEG\tn99\n", "val_annotations.txt, line 2: 'n99' is not among the classes"),
        ("val_0.JPEG\tn02\n\nval_7.JPEG\tn01\n", "line 3: the image val_7.JPEG is not in val/images"),
        ("val_0.JPEG\tn02\nval_0.JPEG\tn02\n", "line 2: the image val_0.JPEG is listed twice"),
        ("val_0.JPEG n02\n", "line 1: '' is not among the classes"),
        ("../../wnids.txt\tn02\n", "line 1: the image ../../wnids.txt is not in val/images"),
        ("val_0.JPEG\tn02\n", "'goldfish' of tiny_imagenet has no test images"),
        (b"\xff\xfe", "is not a text file"),
        ("a\x1b[31m\tn02\n", r"line 1: the image 'a\\x1b\[31m' is not in val/images"),
    ],
)
def test_wrong_annotations(top: Path, annotations: str | bytes, message: str) -> None:
    content = annotations if isinstance(annotations, bytes) else annotations.encode()
    (top / "val" / "val_annotations.txt").write_bytes(content)
    refused(message)


def test_missing_parts(top: Path) -> None:
    (top / "val" / "val_annotations.txt").unlink()
    refused("val_annotations.txt is missing")
    for image in (top / "train" / "n01" / "images").iterdir():
        image.unlink()
    refused("train/n01/images has no images")
    (top / "wnids.txt").write_text("n02\n")
    (top / "train" / "n01" / "images" / "a.JPEG").write_bytes(b"")
    refused("train/n01 is not among the classes in wnids.txt")
    (top / "wnids.txt").write_text("n02\nn01\nn02\n")
    refused("wnids.txt, line 3: the class n02 is listed twice")
    (top / "wnids.txt").write_text("\n")
    refused("lists no classes")


def test_wrong_images(top: Path, picture: Callable[..., bytes]) -> None:
    image = top / "train" / "n01" / "images" / "n01_1.JPEG"
    image.write_bytes(picture((64, 63), kind="JPEG"))
    refused("n01_1.JPEG has 64x63 pixels instead of 64x64")
    image.write_bytes(picture((64, 64), kind="JPEG")[:400])
    refused("n01_1.JPEG is not a readable picture")


def test_damaged_archive(top: Path, tmp_path: Path) -> None:
    archive = zip_up(top, tmp_path / "my.zip")
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    refused("my.zip is damaged or incomplete", archive)
    damaged = bytearray(content)
    start = content.index(b"JFIF") + 20
    damaged[start : start + 40] = bytes(40)
    archive.write_bytes(damaged)
    refused(r"my.zip is damaged or incomplete \(at tiny-imagenet-200/train", archive)
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("readme", "")
    refused("wnids.txt is missing", archive)


if "SPARCL_DATA" in os.environ and REAL_DATA.exists():

    def test_the_real_dataset() -> None:
        stream = load_stream("tiny_imagenet", root=REAL_DATA)
        assert stream.classes == 200
        assert len(stream.tasks) == 10
        numbers = [np.bincount(task.train.labels)[task.classes.start :] for task in stream.tasks]
        assert len(np.unique(numbers)) == 1
