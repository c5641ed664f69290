"""The report page, served while runs are in progress.

The server listens on this machine only, answers two paths, and only to requests that name it by a loopback address:
a foreign page that has its own name point here (DNS rebinding) gets nothing.
"""

import json
import re
import socketserver
import sys
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from sparcl.errors import SparclError
from sparcl.report.named_runs import runs_in
from sparcl.report.page.assemble import page, policy, sections
from sparcl.report.page.parts import Section
from sparcl.report.run_record import RunRecord

ADDRESS = "127.0.0.1"
HTTP_PORT = 80
MAX_RUNS = 12  # of a directory are shown, those that were written last
FILES = ("settings.json", "stream.json", "metrics.jsonl", "confusion.json", "result.json", "costs.json", "checkpoints")


class LiveRuns:
    """What there is to show in a directory of runs, or in that of a single one. It is read again when files change."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._seen: object = None
        self._shown: list[Section] = []

    def sections(self) -> list[Section]:
        with self._lock:
            paths = self._runs()
            state = [(path, [_state(path / name) for name in FILES]) for path in paths]
            if state != self._seen:
                self._shown, self._seen = _read(paths), state
            return self._shown

    def _runs(self) -> list[Path]:
        found = runs_in(self.directory)
        newest = sorted(found, key=lambda path: _state(path / "metrics.jsonl") or (0, 0))[-MAX_RUNS:]
        return [path for path in found if path in newest]


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(paths: Sequence[Path]) -> list[Section]:
    runs, notes = [], []
    for path in paths:
        try:
            runs.append(RunRecord.read(path))
        except SparclError as error:
            notes.append(f"Left out: {error}")
    return sections(runs, notes)


def names_this_server(hosts: Sequence[str], port: int) -> bool:
    """Whether a request's only Host header is a loopback name and this port, which a browser leaves out if it is 80."""
    if len(hosts) != 1:
        return False
    found = re.fullmatch(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{0,5}))?", hosts[0].lower())
    return found is not None and int(found[1] or HTTP_PORT) == port


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Port 0 takes a free one; `url` says which."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, runs: LiveRuns, port: int) -> None:
        self.runs = runs
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise SparclError(
                f"Port {port} of {ADDRESS} cannot be used: {error.strerror}. Choose another port, or 0 for any."
            ) from error
        except OverflowError as error:
            raise SparclError(f"There is no port {port}: choose one from 0 to 65535.") from error

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader who goes away in the middle of an answer is no error; others are shown."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 20  # seconds for a request to arrive
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sparcl", ""

    def do_GET(self) -> None:
        if not names_this_server(self.headers.get_all("Host", []), self.server.port):
            self.send_error(HTTPStatus.FORBIDDEN, "This server answers only to its own address")
        elif self.path == "/":
            title = self.server.runs.directory.resolve().name
            self._answer("text/html", page(title, self.server.runs.sections(), live=True))
        elif self.path == "/sections":
            self._answer_sections()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer_sections(self) -> None:
        shown = self.server.runs.sections()
        tag = f'"{"-".join(section.digest for section in shown)}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.send_header("ETag", tag)
            self.end_headers()
            return
        content = {
            section.name: {"title": section.title, "digest": section.digest, "html": section.html} for section in shown
        }
        self._answer("application/json", json.dumps(content), tag)

    def _answer(self, kind: str, text: str, tag: str | None = None) -> None:
        content = text.encode(errors="replace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", policy(live=True) + "; frame-ancestors 'none'")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if tag is not None:
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """A request every two seconds is nothing to tell."""
