"""The part of Thrift's compact protocol that Parquet footers use, from and to plain values.

    struct   {member number: (kind, value), …}      members ascending; a 0 byte ends it
    kinds    1 2 true, false · 3 byte · 4 5 6 zig-zag varints · 7 double (8 bytes) · 8 bytes
             9 list (element kind, [values]) · 12 struct

Booleans are members of kind 1 with the value True or False. A struct to be encoded may be given as its bytes. Source:
the Thrift compact protocol; `parquet_footer` draws it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

from lakekit.codec.cursor import append_varint, append_zigzag, read_varint, read_zigzag
from lakekit.errors import Corrupt
from lakekit.types import MAX_DEPTH

Struct: TypeAlias = dict[int, tuple[int, Any]]
BOOL, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 3, 4, 5, 6, 7, 8, 9, 12
_VARINT_KINDS = frozenset({I16, I32, I64})
_SINGLE_BYTES = [bytes([byte]) for byte in range(0x80)]


def decode_struct(
    data: bytes | memoryview, offset: int = 0, depth: int = 0, *, last_field_id: int = 0
) -> tuple[Struct, int]:
    """Return the struct at an offset, or its members behind number `last_field_id`, and the offset after it.

    Raises `Corrupt`.
    """
    if depth > MAX_DEPTH:
        raise Corrupt(f"a Thrift struct nested deeper than {MAX_DEPTH} levels", field="footer")
    members: Struct = {}
    number = last_field_id
    try:
        while True:
            head = data[offset]
            offset += 1
            if head == 0:
                return members, offset
            if head > 15:
                number += head >> 4
            else:
                number, offset = read_zigzag(data, offset)
            kind = head & 15
            if kind in _VARINT_KINDS:  # most members are numbers: no call for those of a byte
                raw = data[offset]
                if raw < 0x80:
                    offset += 1
                else:
                    raw, offset = read_varint(data, offset)
                members[number] = (kind, (raw >> 1) ^ -(raw & 1))
            elif kind == STRUCT:
                value, offset = decode_struct(data, offset, depth + 1)
                members[number] = (kind, value)
            elif kind in (1, 2):
                members[number] = (BOOL, kind == 1)
            else:
                value, offset = _decode_value(data, offset, kind, depth)
                members[number] = (kind, value)
    except IndexError:
        raise Corrupt("a Thrift struct ends too early", field="footer") from None


def read_list_head(data: bytes | memoryview, offset: int) -> tuple[int, int, int]:
    """Return the kind of a list's elements, their count, and the offset of the first.

    Raises `Corrupt`, and `IndexError` if the data ends.
    """
    head = data[offset]
    offset += 1
    count = head >> 4
    if count == 15:
        count, offset = read_varint(data, offset)
    if count > len(data):
        raise Corrupt(f"a list of {count} elements in {len(data)} bytes of Thrift", field="footer")
    return head & 15, count, offset


def _decode_value(data: bytes | memoryview, offset: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _VARINT_KINDS:
        return read_zigzag(data, offset)
    if kind == BINARY:
        length, offset = read_varint(data, offset)
        return data[offset : offset + length], offset + length
    if kind == STRUCT:
        return decode_struct(data, offset, depth + 1)
    if kind == LIST:
        inner, count, offset = read_list_head(data, offset)
        items: list[Any] = []
        for _ in range(count):
            if inner in _VARINT_KINDS and data[offset] < 0x80:
                items.append((data[offset] >> 1) ^ -(data[offset] & 1))
                offset += 1
            elif inner in (1, 2):
                items.append(data[offset] == 1)
                offset += 1
            else:
                item, offset = _decode_value(data, offset, inner, depth + 1)
                items.append(item)
        return (inner, items), offset
    if kind == BYTE:
        return data[offset], offset + 1
    if kind == DOUBLE:
        return data[offset : offset + 8], offset + 8
    raise Corrupt(f"a Thrift value of unknown kind {kind}", field="footer")


@lru_cache(maxsize=4096)
def encode_number(value: int) -> bytes:
    """Return the bytes of an integer, as members of kinds 4, 5 and 6 store it.

    Cached, because small similar files encode the same numbers.
    """
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    if raw < 0x80:
        return _SINGLE_BYTES[raw]
    out = bytearray()
    append_varint(out, raw)
    return bytes(out)


def encode_struct(struct: Struct) -> bytes:
    """Return the bytes of a struct."""
    return encode_members(struct, 0) + b"\0"


def encode_members(struct: Struct, last_field_id: int) -> bytes:
    """Return the bytes of members of a struct that follow number `last_field_id`, without its end."""
    out = bytearray()
    _put_members(out, struct, last_field_id)
    return bytes(out)


def append_struct(out: bytearray, struct: Struct) -> None:
    """Append a struct's bytes."""
    _put_members(out, struct, 0)
    out.append(0)


def _put_members(out: bytearray, struct: Struct, last_field_id: int) -> None:
    for number, (kind, value) in struct.items():
        code = (1 if value else 2) if kind == BOOL else kind
        step = number - last_field_id
        if 0 < step < 16:
            out.append(step << 4 | code)
        else:
            out.append(code)
            append_varint(out, number << 1)
        last_field_id = number
        if kind != BOOL:
            _append_value(out, kind, value)


def _append_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _VARINT_KINDS:
        append_zigzag(out, value)
    elif kind == BINARY:
        append_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        if isinstance(value, bytes):
            out += value
        else:
            append_struct(out, value)
    elif kind == LIST:
        inner, items = value
        if len(items) < 15:
            out.append(len(items) << 4 | inner)
        else:
            out.append(0xF0 | inner)
            append_varint(out, len(items))
        for item in items:
            if inner in (1, 2):
                out.append(1 if item else 2)
            else:
                _append_value(out, inner, item)
    elif kind == BYTE:
        out.append(value)
    else:
        out += value
