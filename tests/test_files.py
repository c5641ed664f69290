import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparcl.errors import SparclError
from sparcl.files import Directory, atomic_writer, is_locked, locked, write_text
from sparcl.learning.run_directory import MetricsLog


def test_an_error_while_writing_leaves_the_old_content(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_writer(path) as file:
        file.write(b"half of the new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_looking_at_a_lock_is_in_nobodys_way(tmp_path):
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(SparclError, match="Another process"), locked(tmp_path):
            pass
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # as somebody who looks holds it for a moment
    assert not is_locked(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: locked(tmp_path).__enter__())
        os.close(descriptor)
        waiting.result()


def test_a_file_needs_a_name():
    with pytest.raises(SparclError, match="Name the file"):
        write_text(Path(), "content")


def test_a_full_disk_is_named_as_such(tmp_path):
    """/dev/full is a disk that is always full."""
    path = tmp_path / "file"
    (tmp_path / "file.partial").symlink_to("/dev/full")
    with pytest.raises(SparclError, match="The disk is full"):
        write_text(path, "content")
    assert not list(tmp_path.iterdir())
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    log = MetricsLog(Directory.open(tmp_path))
    with pytest.raises(SparclError, match="The disk is full"):
        log.write("event", value=1)
