"""Integers of variable length.

Seven bits a byte, low bits first, the high bit set on all bytes but the last.

    0      00           300    ac 02            plain: protobuf, lengths, headers of runs
    0 -1   00 01        1 -300 02 d7 04         zig-zag: n is 2n, or -2n-1 below zero

A number has at most 64 bits, which take ten bytes. Where the data ends inside a number, `IndexError` is raised, as by
every read of a byte beyond the end: the caller says what ended too early. Source: "Encoding" of Protocol Buffers; the
Thrift compact protocol; the ORC specification v1, "Integer Run Length Encoding".
"""

from __future__ import annotations

from lakekit.errors import Corrupt

_UINT64_MAX = (1 << 64) - 1


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned number and the offset after it; most take one byte.

    Raises:
        Corrupt: the number has more than 64 bits.
        IndexError: the data ends inside it.
    """
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value <= _UINT64_MAX:
            return value, at + 1
        shift += 7
        if byte < 0x80 or shift > 63:
            raise Corrupt("a number of more than 64 bits", field="number")


def read_zigzag(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a signed number and the offset after it. Raises as `read_varint` does."""
    raw, at = read_varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def append_varint(out: bytearray, value: int) -> None:
    """Append an unsigned number."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_zigzag(out: bytearray, value: int) -> None:
    """Append a signed number."""
    append_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
