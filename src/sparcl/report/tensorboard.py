"""Scalars as a file that TensorBoard reads.

Such a file is a row of records, each framed so that a damaged one is noticed:

    length      8 bytes, little-endian
    check       4 bytes: masked CRC-32C of the length
    content     a protobuf message `Event`
    check       4 bytes: masked CRC-32C of the content

    Event    1: wall time (double)  2: step (int64)  3: version (string, in the first record)  5: Summary
    Summary  1: Value, repeated
    Value    1: tag (string)  2: number (float)

These few fields are written here by hand, so that nothing has to be installed.
"""

import struct
from collections.abc import Iterable

from sparcl.report.scalars import Scalar

VERSION = "brain.Event:2"  # of the format, as TensorBoard expects it
POLYNOMIAL = 0x82F63B78  # Castagnoli, reversed


def _table() -> list[int]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return entries


_TABLE = _table()


def event_file(numbers: Iterable[Scalar], wall_time: float) -> bytes:
    """All numbers carry the same wall time: a run's metrics do not record when they were measured."""
    start = _double(1, wall_time)
    records = [start + _bytes(3, VERSION.encode())]
    for number in numbers:
        value = _bytes(1, number.metric.encode(errors="replace")) + _float(2, number.value)
        records.append(start + _integer(2, number.step) + _bytes(5, _bytes(1, value)))
    return b"".join(map(_framed, records))


def _framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _check(length) + content + _check(content)


def _check(content: bytes) -> bytes:
    """A CRC, rotated and shifted, so that a CRC of data that contains CRCs still works."""
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


# Protobuf: each field is a key (its number and how it is written), then its content.


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
