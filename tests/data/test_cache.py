"""The cache: used when it is right, written anew when it is not, never half-written."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sparcl.data import Stream, cache, load_stream
from sparcl.data.folder import ImageFolder
from sparcl.errors import SparclError


def load(root: Path, **choices: int) -> Stream:
    return load_stream("folder", root=root, classes_per_task=3, **choices)  # type: ignore[arg-type]


def content(stream: Stream) -> list[bytes]:
    """Copies: a test that damages a file must not look at it through a memory map afterwards."""
    task = stream.tasks[0]
    return [part.tobytes() for side in (task.train, task.test) for part in (side.images, side.labels, side.positions)]


def stores() -> list[Path]:
    return [path for path in Path(os.environ["SPARCL_CACHE"]).iterdir() if path.is_dir()]


@pytest.fixture
def forbid_decoding(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def decode(*_: object) -> None:
        raise AssertionError("decoded again")

    return lambda: monkeypatch.setattr(ImageFolder, "read", decode)


def test_second_load_does_not_decode(class_folders: Path, forbid_decoding: Callable[[], None]) -> None:
    first = load(class_folders)
    forbid_decoding()
    second = load(class_folders)
    assert content(first) == content(second)
    assert first.augmentation == second.augmentation
    images = second.tasks[0].train.images
    assert not images.flags.writeable
    assert images.flags.c_contiguous


def test_a_change_is_noticed(class_folders: Path, picture: Callable[..., bytes]) -> None:
    load(class_folders)
    image = class_folders / "cat" / "3.png"
    image.write_bytes(picture(colour=(1, 2, 3)))
    changed = load(class_folders)
    images = np.concatenate([changed.tasks[0].train.images, changed.tasks[0].test.images])
    assert any((i == np.array([1, 2, 3])[:, None, None]).all() for i in images)
    (class_folders / "cat" / "3.png").unlink()
    assert len(load(class_folders).tasks[0].train) < 24
    load(class_folders, image_size=16)
    assert len(stores()) == 2  # one for each size: what the pictures were before is removed


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 200)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [cut_short, lengthen, empty, garble, remove])
@pytest.mark.parametrize(
    "name", ["train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy", "meta.json"]
)
def test_a_damaged_cache_is_written_anew(class_folders: Path, damage: Callable[[Path], None], name: str) -> None:
    first = content(load(class_folders))
    (store,) = stores()
    damage(store / name)
    assert content(load(class_folders)) == first
    assert stores() == [store]
    assert cache.open_store(store) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"image_shape": [3, 32]},
        {"image_shape": [3, 16, 64]},
        {"mean": [0.5]},
        {"train": {"count": -1, "labels": 0}},
        {"test": None},
    ],
)
def test_wrong_meta_data(class_folders: Path, change: dict[str, object]) -> None:
    first = content(load(class_folders))
    (store,) = stores()
    meta = json.loads((store / "meta.json").read_text())
    (store / "meta.json").write_text(json.dumps({**meta, **change}))
    assert cache.open_store(store) is None
    assert content(load(class_folders)) == first


def test_other_labels_and_pickles_in_the_cache_are_not_believed(class_folders: Path) -> None:
    load(class_folders)
    (store,) = stores()
    labels = np.load(store / "train_labels.npy")
    np.save(store / "train_labels.npy", labels[::-1])
    assert cache.open_store(store) is None
    np.save(store / "train_labels.npy", np.array([print] * len(labels), dtype=object), allow_pickle=True)
    assert cache.open_store(store) is None


def test_leftovers_of_a_killed_process_do_not_matter(class_folders: Path) -> None:
    load(class_folders)
    (store,) = stores()
    store.rename(store.with_name(store.name + ".partial"))
    (store.with_name(store.name + ".partial") / "meta.json").unlink()
    load(class_folders)
    assert stores() == [store]


def _load_content(root: Path) -> list[bytes]:
    return content(load(root))


def test_many_processes_at_once(class_folders: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = pool.map(_load_content, [class_folders] * 3, chunksize=1)
    assert results[0] == results[1] == results[2]
    assert len(stores()) == 1


def test_interruption_leaves_nothing(class_folders: Path) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_stream("folder", root=class_folders, progress=interrupt)
    assert stores() == []


def test_progress_is_reported(class_folders: Path) -> None:
    reports: list[tuple[str, int, int]] = []
    load_stream("folder", root=class_folders, progress=lambda *report: reports.append(report))
    assert reports == [
        ("decoding train images", 0, 24),
        ("decoding train images", 24, 24),
        ("decoding test images", 0, 6),
        ("decoding test images", 6, 6),
    ]


def test_full_disk(class_folders: Path) -> None:
    """A limit on the size of files stops the write midway, as a full disk would; the process must live and say so."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from sparcl.data import load_stream\n"
        "from sparcl.errors import SparclError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))\n"
        "try: load_stream('folder', root=Path(sys.argv[1]))\n"
        "except SparclError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(class_folders)], capture_output=True, text=True, check=True)
    assert "could not be written: File too large." in ran.stdout
    assert ran.stdout.count("\n") == 1
    assert stores() == []


def test_a_cache_that_cannot_be_written(class_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARCL_CACHE", "/dev/null/cache")
    with pytest.raises(SparclError, match=r"/dev/null/cache.* could not be written: Not a directory"):
        load(class_folders)
