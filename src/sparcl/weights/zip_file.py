"""The entries of a zip archive that is not compressed, as `torch.save` writes it.

    local header, bytes | local header, bytes | ... | directory | end of the directory (a zip64 one before it)

Reads only what is needed to find bytes, strictly: names are unique, entries do not overlap, and nothing is unpacked, so
an archive cannot say that it is larger than it is. Python's own module would take memory for endless directories.
"""

import struct
import zlib
from dataclasses import dataclass

from sparcl.weights.file import UnusableError, WeightFile, shown

MAX_ENTRIES = 200_000
LOCAL, ENTRY, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
END64, LOCATOR = b"PK\x06\x06", b"PK\x06\x07"
LONGEST_COMMENT = 0xFFFF
SEE_EXTRA = 0xFFFFFFFF  # the number has 64 bits, and is in the extra field
ENCRYPTED = 1


@dataclass(frozen=True)
class Entry:
    start: int
    size: int
    checksum: int

    def read(self, file: WeightFile) -> bytes:
        content = file.read(self.start, self.size)
        if zlib.crc32(content) != self.checksum:
            raise UnusableError(DAMAGED)
        return content

    def check(self, file: WeightFile) -> None:
        checksum = 0
        for chunk in file.chunks(self.start, self.size):
            checksum = zlib.crc32(chunk, checksum)
        if checksum != self.checksum:
            raise UnusableError(DAMAGED)


DAMAGED = "is damaged: a checksum in it is wrong"
BAD_DIRECTORY = "is damaged: the directory of the archive is wrong"


def read_entries(file: WeightFile) -> dict[str, Entry]:
    count, start, size = _directory(file)
    if count > MAX_ENTRIES:
        raise UnusableError(f"is an archive of more than {MAX_ENTRIES:,} entries")
    directory = file.read(start, size)
    entries: dict[str, Entry] = {}
    taken: list[tuple[int, int]] = []
    place = 0
    for _ in range(count):
        if directory[place : place + 4] != ENTRY or place + 46 > size:
            raise UnusableError(BAD_DIRECTORY)
        (flags, method, checksum, packed, unpacked, name_size, extra_size, comment_size, header) = struct.unpack_from(
            "<8xHH4xIIIHHH8xI", directory, place
        )
        name = directory[place + 46 : place + 46 + name_size]
        extra = directory[place + 46 + name_size : place + 46 + name_size + extra_size]
        place += 46 + name_size + extra_size + comment_size
        unpacked, packed, header = _wide([unpacked, packed, header], extra)
        if method or flags & ENCRYPTED or packed != unpacked:
            raise UnusableError("is a compressed or encrypted archive, which torch.save does not write")
        first = _data_start(file, header, name)
        if first + packed > start:
            raise UnusableError(BAD_DIRECTORY)
        text = _text(name)
        if text in entries:
            raise UnusableError(f"is an archive with two entries called {shown(text)}")
        entries[text] = Entry(first, packed, checksum)
        taken.append((header, first + packed))
    end = 0
    for begin, after in sorted(taken):
        if begin < end:
            raise UnusableError("is an archive whose entries overlap")
        end = after
    return entries


def _directory(file: WeightFile) -> tuple[int, int, int]:
    """How many entries the directory has, where it begins, and its size in bytes."""
    tail_start = max(0, file.size - 22 - LONGEST_COMMENT)
    tail = file.read(tail_start, file.size - tail_start)
    place = tail.rfind(END)
    if place < 0 or place + 22 > len(tail):
        raise UnusableError("is damaged: it is an archive without an end")
    count, size, start, comment_size = struct.unpack_from("<10xHIIH", tail, place)
    if place + 22 + comment_size != len(tail):
        raise UnusableError("is damaged: something follows the end of the archive")
    end = tail_start + place
    locator = file.read(end - 20, 20) if end >= 20 else b""
    if locator[:4] == LOCATOR:
        (end,) = struct.unpack_from("<8xQ", locator)
        wide = file.read(end, 56)
        if wide[:4] != END64:
            raise UnusableError(BAD_DIRECTORY)
        count, size, start = struct.unpack_from("<32xQQQ", wide)
    if start + size > end:
        raise UnusableError(BAD_DIRECTORY)
    return count, start, size


def _wide(numbers: list[int], extra: bytes) -> list[int]:
    """Numbers that did not fit into 32 bits, from the extra field that has them, in order."""
    if SEE_EXTRA not in numbers:
        return numbers
    place = 0
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, place)
        if kind == 1:
            stored = extra[place + 4 : place + 4 + size]
            wide = iter([number for (number,) in struct.iter_unpack("<Q", stored[: len(stored) // 8 * 8])])
            return [next(wide, number) if number == SEE_EXTRA else number for number in numbers]
        place += 4 + size
    return numbers


def _data_start(file: WeightFile, header: int, name: bytes) -> int:
    fixed = file.read(header, 30)
    method, name_size, extra_size = struct.unpack_from("<8xH16xHH", fixed)
    if fixed[:4] != LOCAL or method or file.read(header + 30, name_size) != name:
        raise UnusableError(BAD_DIRECTORY)
    return header + 30 + int(name_size) + int(extra_size)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise UnusableError(BAD_DIRECTORY) from None
