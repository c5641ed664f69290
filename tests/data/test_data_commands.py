"""sparcl data list, get and check."""

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparcl.cli.data import app
from sparcl.data import download
from sparcl.data.download import Archive
from sparcl.errors import SparclError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, SparclError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_list(tmp_path: Path) -> None:
    output = run("list")
    lines = {line.split()[0]: line for line in output.splitlines() if line.strip()}
    assert "in the package" in lines["digits"]
    assert "not here" in lines["cifar10"]
    assert "200" in lines["tiny_imagenet"]
    assert "yours" in output
    assert str(tmp_path / "data") in output


def test_check_digits() -> None:
    output = run("check", "digits")
    assert "all    1442   355" in output
    assert "Digits in the package is complete: 1x8x8 images." in output


def test_check_folder_with_names_that_look_like_markup(class_folders: Path) -> None:
    (class_folders / "dog").rename(class_folders / "[red]")
    output = run("check", "folder", "--root", str(class_folders), "--image-size", "8")
    assert "[red]" in output
    assert "3x8x8 images" in output


def test_check_names_what_is_wrong(class_folders: Path) -> None:
    (class_folders / "dog" / "bad.png").write_bytes(b"no picture")
    with pytest.raises(SparclError, match=r"dog/bad.png is not a readable picture"):
        run("check", "folder", "--root", str(class_folders))
    with pytest.raises(SparclError, match="CIFAR-10 was not found"):
        run("check", "cifar10")
    with pytest.raises(SparclError, match="There is no dataset 'mnist'"):
        run("check", "mnist")


def test_check_compares_a_published_archive_with_its_digest(tmp_path: Path) -> None:
    (tmp_path / "data" / "cifar10").mkdir(parents=True)
    archive = tmp_path / "data" / "cifar10" / "cifar-10-binary.tar.gz"
    archive.write_bytes(b"something else")
    with pytest.raises(SparclError, match="is damaged: its SHA-256 is not the published one"):
        run("check", "cifar10")
    assert archive.exists()  # a person's file is never deleted


def test_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"content"
    (tmp_path / "published").write_bytes(content)
    archive = Archive(
        "cifar-10-binary.tar.gz", len(content), hashlib.sha256(content).hexdigest(), (tmp_path / "published").as_uri()
    )
    monkeypatch.setitem(download.ARCHIVES, "cifar10", (archive,))
    place = tmp_path / "data" / "cifar10" / "cifar-10-binary.tar.gz"
    assert f"CIFAR-10 is at {place}." in run("get", "cifar10")
    assert place.read_bytes() == content
    assert f"CIFAR-10 is already at {place}." in run("get", "cifar10")


def test_get_what_cannot_be_fetched() -> None:
    with pytest.raises(SparclError, match="digits needs no download"):
        run("get", "digits")
    with pytest.raises(SparclError, match="There is no dataset"):
        run("get", "mnist")
