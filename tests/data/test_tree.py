"""Archives that want to do harm."""

import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sparcl.data import tree
from sparcl.data.tree import open_tree
from sparcl.errors import SparclError


def zipped(path: Path, members: list[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def tarred(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def refused(path: Path, message: str) -> None:
    with pytest.raises(SparclError, match=message) as caught:
        opened = open_tree(path)
        for name in opened.names:
            opened.read(name)
    assert "\n" not in str(caught.value)


OUTSIDE = ["../evil.png", "a/../../evil.png", "/etc/evil.png", "..\\evil.png", "C:/evil.png"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_members_that_point_outside(tmp_path: Path, name: str) -> None:
    refused(zipped(tmp_path / "a.zip", [(name, b"x")]), "points outside the archive")
    refused(tarred(tmp_path / "a.tar.gz", [(tarfile.TarInfo(name), b"x")]), "points outside the archive")


def test_links(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("dog/link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(zipped(tmp_path / "a.zip", [(link, b"/etc/passwd")]), "dog/link.png is a link")
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        info = tarfile.TarInfo("dog/link.png")
        info.type, info.linkname = kind, "/etc/passwd"
        refused(tarred(tmp_path / "a.tar.gz", [(info, b"")]), "is a link or a special file")


def test_archives_that_expand_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "EXPANSION_ALLOWANCE", 100_000)
    zeros = bytes(5_000_000)
    refused(zipped(tmp_path / "a.zip", [("a.png", zeros)]), "would expand to more than 100 times its size")
    refused(tarred(tmp_path / "a.tar.gz", [(tarfile.TarInfo("a.png"), zeros)]), "would expand to more than 100 times")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("packed", [lambda content: content, gzip.compress, lzma.compress])
def test_headers_that_say_they_are_endless(tmp_path: Path, kind: bytes, packed: Callable[[bytes], bytes]) -> None:
    """`tarfile` would set aside as much memory as they say."""
    header = tarfile.TarInfo("long")
    header.type, header.size = kind, 1 << 40
    (tmp_path / "a.tar").write_bytes(packed(header.tobuf(tarfile.GNU_FORMAT) + bytes(100_000)))
    refused(tmp_path / "a.tar", "would expand to more than 100 times its size")


def test_headers_that_follow_each_other_without_end(tmp_path: Path) -> None:
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 512
    (tmp_path / "a.tar").write_bytes((header.tobuf(tarfile.GNU_FORMAT) + b"a" * 512) * 2000)
    refused(tmp_path / "a.tar", "is damaged or incomplete")


def test_more_than_memory_should_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MEMORY_LIMIT", 3 << 20)
    noise = [(tarfile.TarInfo(f"{number}.png"), bytes(1 << 20)) for number in range(4)]
    refused(tarred(tmp_path / "a.tar.gz", noise), "holds more than 3 MB")


def test_members_with_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse member says how long it is, and what it has of that: here nothing."""
    monkeypatch.setattr(tree, "EXPANSION_ALLOWANCE", 100_000)
    info = tarfile.TarInfo("a.png")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = b"%011o\0" % 50_000_000  # its real size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a.tar").write_bytes(bytes(header) + bytes(10_240 - 512))
    refused(tmp_path / "a.tar", "would expand to more than 100 times its size")


def test_hidden_members_expand_an_archive_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "EXPANSION_ALLOWANCE", 100_000)
    hidden = [(tarfile.TarInfo(f".{number}"), bytes(1_000_000)) for number in range(5)]
    refused(tarred(tmp_path / "a.tar.gz", hidden), "would expand to more than 100 times its size")


def test_files_too_large_for_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "FILE_LIMIT", 1 << 20)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "big.png").write_bytes(bytes(1 << 21))
    refused(tmp_path / "folder", "big.png is larger than 1 MB")
    refused(zipped(tmp_path / "a.zip", [("big.png", bytes(1 << 21))]), "big.png is larger than 1 MB")
    refused(tarred(tmp_path / "a.tgz", [(tarfile.TarInfo("big.png"), bytes(1 << 21))]), "big.png is larger than 1 MB")


def test_a_member_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        zipped(tmp_path / "a.zip", [("a.png", b"1"), ("a.png", b"2")])
    refused(tmp_path / "a.zip", "holds a.png twice")
    twice = [(tarfile.TarInfo("a.png"), b"1"), (tarfile.TarInfo("a.png"), b"2")]
    refused(tarred(tmp_path / "a.tar.gz", twice), "holds a.png twice")


def test_a_member_without_a_name(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", [("a", b"1")])
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 28], content[entry + 30] = 0, 1  # its name becomes an extra field
    path.write_bytes(content)
    refused(path, "has a member without a name")


def test_encrypted(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", [("a.png", b"1")])
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    path.write_bytes(content)
    refused(path, "a.png is encrypted")


def test_a_zip_damaged_anywhere_is_refused_or_read_right(tmp_path: Path) -> None:
    """Flip every byte in turn: never anything but the right content or one clear line."""
    path = zipped(tmp_path / "a.zip", [("a.png", b"some content " * 5)])
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            opened = open_tree(path)
            for name in opened.names:
                assert opened.read(name) == b"some content " * 5
        except SparclError as error:
            assert "\n" not in str(error)


def test_a_member_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for opened in (
        open_tree(tmp_path / "folder"),
        open_tree(zipped(tmp_path / "a.zip", [])),
        open_tree(tarred(tmp_path / "a.tar", [])),
    ):
        with pytest.raises(SparclError, match=r"nothing.txt (is missing|could not be read: No such file)"):
            opened.read("nothing.txt")


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    refused(tmp_path / "a.txt", "neither a folder nor")
    refused(tmp_path / "nowhere", "does not exist")
    (tmp_path / "a.zip").write_text("x")
    refused(tmp_path / "a.zip", "is damaged or incomplete")
