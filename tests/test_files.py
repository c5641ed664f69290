import pytest

from sparcl.errors import SparclError
from sparcl.files import atomic_writer, write_text
from sparcl.learning.run_directory import MetricsLog


def test_an_error_while_writing_leaves_the_old_content(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_writer(path) as file:
        file.write(b"half of the new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_named_as_such(tmp_path):
    """/dev/full is a disk that is always full."""
    path = tmp_path / "file"
    (tmp_path / "file.partial").symlink_to("/dev/full")
    with pytest.raises(SparclError, match="The disk is full"):
        write_text(path, "content")
    assert not list(tmp_path.iterdir())
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    log = MetricsLog(tmp_path / "metrics.jsonl")
    with pytest.raises(SparclError, match="The disk is full"):
        log.write("event", value=1)
