"""One value of a binary row: slots, arrays, maps and nested rows, encoded and decoded.

`binary_row` draws the row and is the module to call.

    array      i32 LE n | null bits, (n + 31) / 32 * 4 bytes | n elements of 1, 2, 4 or 8 bytes | zeros to 8
               | variable part
    map        i32 LE byte length of the keys | keys as an array | values as an array
    variant    i32 LE length | value | metadata
    slot       the value itself; or (offset << 32) | length of a part further on;
               or up to 7 bytes of text, zeros, 0x80 | length

Offsets count from the start of the row or array they belong to. Parts of one row or array never overlap: a decoder that
allowed it could be made to build exponentially more than it was given.

Source: FORMAT.md 5.2-5.5; `BinaryArray`, `BinaryMap`, `AbstractBinaryWriter`.
"""

from __future__ import annotations

import struct
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from lakekit.errors import Corrupt, Unsupported, ValueOutOfRange
from lakekit.types import BINARIES, NESTED_TYPES, STRINGS, TIMESTAMPS, DataType, Instant, part
from lakekit.types.arrow import from_unscaled, to_unscaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.codec.cursor import Cursor, SpanRecorder

ROW_SECTION, SLOT_SECTION, ARRAY_SECTION = "FORMAT 5.1", "FORMAT 5.2", "FORMAT 5.4"
"""Sections of FORMAT.md that describe the recorded spans."""
FIXED_FORMATS: dict[str, struct.Struct] = {
    "BOOLEAN": struct.Struct("<?"),
    "TINYINT": struct.Struct("<b"),
    "SMALLINT": struct.Struct("<h"),
    "INT": struct.Struct("<i"),
    "DATE": struct.Struct("<i"),
    "TIME": struct.Struct("<i"),
    "FLOAT": struct.Struct("<f"),
    "BIGINT": struct.Struct("<q"),
    "DOUBLE": struct.Struct("<d"),
}
_I32, _U64, _I64 = struct.Struct("<i"), struct.Struct("<Q"), struct.Struct("<q")
_INT_TYPE = DataType(root="INT")
_CANONICAL_NAN = {"FLOAT": bytes.fromhex("0000c07f"), "DOUBLE": bytes.fromhex("000000000000f87f")}


def round_up_to_8(n: int) -> int:
    """Return `n` rounded up to a multiple of 8."""
    return (n + 7) & ~7


def header_width(arity: int) -> int:
    """Return the bytes of row kind and null bits: 8 for up to 56 fields, 16 for up to 120 and so on."""
    return (arity + 71) // 64 * 8


def is_compact(t: DataType) -> bool:
    """Return whether a DECIMAL or timestamp fits its slot."""
    if t.root == "DECIMAL":
        return (t.precision or 10) <= 18
    return (6 if t.precision is None else t.precision) <= 3


def reserved_bytes(t: DataType) -> int:
    """Return how many bytes of the variable part a field takes whether or not it is null (FORMAT 5.3)."""
    if t.root == "DECIMAL" and not is_compact(t):
        return 16
    return 8 if t.root in TIMESTAMPS and not is_compact(t) else 0


def element_width(t: DataType) -> int:
    """Return the bytes of an array element."""
    form = FIXED_FORMATS.get(t.root)
    return form.size if form is not None else 8


# ---- writing ---------------------------------------------------------------------------------------------------------


def encode_row(values: Sequence[Any], types: Sequence[DataType], kind: int = 0) -> bytes:
    """Return row bytes without arity."""
    width = header_width(len(types))
    out = bytearray(width + 8 * len(types))
    out[0] = kind
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        at = width + 8 * i
        if value is None:
            out[(i + 8) >> 3] |= 1 << ((i + 8) & 7)
            if hole := reserved_bytes(t):
                _U64.pack_into(out, at, len(out) << 32)
                out += bytes(hole)
        else:
            write_slot(out, at, value, t)
    return bytes(out)


def write_slot(out: bytearray, offset: int, value: Any, t: DataType) -> None:
    """Write a non-null value into the slot at `offset`, and its part, if it has one, at the end of `out`."""
    try:
        _write_slot_value(out, offset, value, t)
    except (struct.error, TypeError, AttributeError, OverflowError, UnicodeEncodeError) as error:
        msg = f"{value!r:.100} is not a value of {t}: {error}"
        raise ValueOutOfRange(msg) from None


def _write_slot_value(out: bytearray, offset: int, value: Any, t: DataType) -> None:
    form = FIXED_FORMATS.get(t.root)
    if form is not None:
        form.pack_into(out, offset, value)
    elif t.root in STRINGS or t.root in BINARIES:
        body = value.encode() if t.root in STRINGS else bytes(value)
        if len(body) <= 7:
            out[offset : offset + len(body)] = body
            out[offset + 7] = 0x80 | len(body)
        else:
            _append_part(out, offset, len(body), body)
    elif t.root == "DECIMAL":
        number = to_unscaled(value, t.scale or 0)
        if is_compact(t):
            _I64.pack_into(out, offset, number)
        else:
            length = (number if number >= 0 else ~number).bit_length() // 8 + 1
            if length > 16:
                msg = f"{value} needs more than 16 bytes"
                raise ValueOutOfRange(msg)
            _append_part(out, offset, length, number.to_bytes(length, "big", signed=True).ljust(16, b"\0"))
    elif t.root in TIMESTAMPS:
        millis, nanos = value
        if is_compact(t):
            _I64.pack_into(out, offset, millis)
        else:
            if not 0 <= nanos <= 999_999:
                msg = f"{nanos} nanoseconds within a millisecond"
                raise ValueOutOfRange(msg)
            _append_part(out, offset, nanos, _I64.pack(millis))
    else:
        body = encode_part(value, t)
        _append_part(out, offset, len(body), body)


def _append_part(out: bytearray, offset: int, low: int, body: bytes) -> None:
    if len(out) >= 2**31 or low >= 2**31:
        msg = "a binary row of 2 GiB or more"
        raise ValueOutOfRange(msg)
    _U64.pack_into(out, offset, len(out) << 32 | low)
    out += body
    out += bytes(-len(body) % 8)


def encode_part(value: Any, t: DataType) -> bytes:
    """Return the bytes of a nested value, unpadded."""
    match t.root:
        case "ARRAY":
            return encode_array(value, part(t.element))
        case "MULTISET" | "MAP":
            return encode_map(value, t)
        case "ROW":
            return encode_row(value, [f.type for f in t.fields])
        case "VARIANT":
            body, metadata = value
            return _I32.pack(len(body)) + body + metadata
    msg = f"type {t} has no binary form in lakekit"
    raise Unsupported(msg, feature=f"type.{t.root.lower()}")


def encode_array(values: Sequence[Any], element: DataType) -> bytes:
    """Return a BinaryArray.

    FLOAT and DOUBLE elements get the canonical NaN, null elements reserve nothing.
    """
    width, nulls = element_width(element), 4
    start = 4 + (len(values) + 31) // 32 * 4
    out = bytearray(round_up_to_8(start + width * len(values)))
    _I32.pack_into(out, 0, len(values))
    nan = _CANONICAL_NAN.get(element.root)
    for i, value in enumerate(values):
        at = start + width * i
        if value is None:
            out[nulls + (i >> 3)] |= 1 << (i & 7)
        elif nan is not None and value != value:  # noqa: PLR0124 - NaN
            out[at : at + width] = nan
        else:
            write_slot(out, at, value, element)
    return bytes(out)


def map_types(t: DataType) -> tuple[DataType, DataType]:
    """Return the key and value types of a MAP; a MULTISET maps its elements to INT counts."""
    return (part(t.element), _INT_TYPE) if t.root == "MULTISET" else (part(t.key), part(t.value))


def encode_map(items: Sequence[tuple[Any, Any]], t: DataType) -> bytes:
    """Return a BinaryMap, entries in the order given."""
    key, value = map_types(t)
    keys = encode_array([k for k, _ in items], key)
    return _I32.pack(len(keys)) + keys + encode_array([v for _, v in items], value)


# ---- reading ---------------------------------------------------------------------------------------------------------


class BoundedSlice:
    """The bytes of one row or array, `data[start:end]`; its parts together may not be longer than it."""

    __slots__ = ("data", "end", "path", "remaining_bytes", "spans", "start")

    def __init__(self, data: bytes, start: int, end: int, path: str | None, spans: SpanRecorder | None = None) -> None:
        self.data, self.start, self.end, self.path, self.spans = data, start, end, path, spans
        self.remaining_bytes = end - start

    @classmethod
    def read_remaining(cls, cursor: Cursor) -> BoundedSlice:
        """Return the bytes of one row or array from the cursor to the end, and move the cursor there."""
        start, cursor.at = cursor.at, cursor.end
        return cls(bytes(cursor.data), start, cursor.end, cursor.path, cursor.spans)

    def make_error(self, problem: str, field: str, at: int) -> Corrupt:
        """Return the error for the bytes at `at`."""
        where = "" if self.path is None else f"{self.path}: "
        return Corrupt(f"{where}{field} at offset {at}: {problem}", path=self.path, offset=at, field=field)

    def part_start(self, slot: int, length: int, field: str, offset: int) -> int:
        """Return where the part of a slot begins in `data`, checked."""
        begin = self.start + (slot >> 32)
        if length < 0 or begin + length > self.end:
            raise self.make_error(f"a part of {length} bytes at {slot >> 32} of {self.end - self.start}", field, offset)
        self.remaining_bytes -= length
        if self.remaining_bytes < 0:
            raise self.make_error("its parts overlap", field, offset)
        if self.spans is not None:
            self.spans.add(offset, 4, f"{field} length", slot & 0xFFFFFFFF, section=SLOT_SECTION)
            self.spans.add(offset + 4, 4, f"{field} offset", slot >> 32, section=SLOT_SECTION)
            self.spans.add(begin, length, field, None, section=SLOT_SECTION)
        return begin


def decode_row(space: BoundedSlice, types: Sequence[DataType], names: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Return the values of a row that fills its space."""
    if space.spans is not None:
        return _decode_recorded_row(space, types, names)
    data, start, width = space.data, space.start, header_width(len(types))
    if space.end - start < width + 8 * len(types):
        raise space.make_error(
            f"{width + 8 * len(types)} bytes wanted for {len(types)} fields, {space.end - start} there", "row", start
        )
    return tuple(
        None
        if data[start + ((i + 8) >> 3)] >> ((i + 8) & 7) & 1
        else read_slot(space, start + width + 8 * i, t, f"field {i}")
        for i, t in enumerate(types)
    )


def _decode_recorded_row(
    space: BoundedSlice, types: Sequence[DataType], names: Sequence[str] | None
) -> tuple[Any, ...]:
    """Decode a row field by field and record the row kind, the null bits, slots and parts."""
    spans = space.spans
    assert spans is not None
    data, start, width, since = space.data, space.start, header_width(len(types)), len(spans.spans)
    if space.end - start < width + 8 * len(types):
        raise space.make_error(
            f"{width + 8 * len(types)} bytes wanted for {len(types)} fields, {space.end - start} there", "row", start
        )
    nulls = [i for i in range(len(types)) if data[start + ((i + 8) >> 3)] >> ((i + 8) & 7) & 1]
    spans.add(start, 1, "row kind", data[start], section=ROW_SECTION)
    spans.add(
        start + 1, (len(types) + 7) // 8, "null bits", [names[i] if names else i for i in nulls], section=ROW_SECTION
    )
    values: list[Any] = []
    for i, t in enumerate(types):
        at, field = start + width + 8 * i, names[i] if names else f"field {i}"
        if i in nulls:
            spans.add(at, 8, field, None, section="FORMAT 5.3")
        values.append(None if i in nulls else read_slot(space, at, t, field))
    spans.fill(start, space.end, since=since)
    return tuple(values)


def read_slot(space: BoundedSlice, offset: int, t: DataType, field: str) -> Any:
    """Return the value of the slot at `offset`, which is not null."""
    if space.spans is None:
        return _read_slot_value(space, offset, t, field)
    since = len(space.spans.spans)
    value = _read_slot_value(space, offset, t, field)
    if t.root in NESTED_TYPES or t.root == "VARIANT":
        return value
    if len(space.spans.spans) > since:
        space.spans.set_meaning(value)  # the part, which was marked last
    elif t.root in STRINGS or t.root in BINARIES:
        length = space.data[offset + 7] & 0x7F
        space.spans.add(offset, length, field, value, section=SLOT_SECTION)
        space.spans.add(offset + 7, 1, f"{field} length", length, section=SLOT_SECTION)
    else:
        space.spans.add(offset, element_width(t), field, value, section=SLOT_SECTION)
    return value


def _read_slot_value(space: BoundedSlice, offset: int, t: DataType, field: str) -> Any:
    form = FIXED_FORMATS.get(t.root)
    if form is not None:
        return form.unpack_from(space.data, offset)[0]
    slot = _U64.unpack_from(space.data, offset)[0]
    if t.root in STRINGS or t.root in BINARIES:
        body = _read_text_bytes(space, slot, offset, field)
        if t.root in BINARIES:
            return body
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise space.make_error(f"{body[:40]!r} is not UTF-8", field, offset) from None
    if t.root == "DECIMAL":
        if is_compact(t):
            return from_unscaled(_I64.unpack_from(space.data, offset)[0], t.scale or 0)
        length = slot & 0xFFFFFFFF
        if not 1 <= length <= 16:
            raise space.make_error(f"a decimal of {length} bytes", field, offset)
        begin = space.part_start(slot, length, field, offset)
        return from_unscaled(int.from_bytes(space.data[begin : begin + length], "big", signed=True), t.scale or 0)
    if t.root in TIMESTAMPS:
        if is_compact(t):
            return Instant(_I64.unpack_from(space.data, offset)[0], 0)
        nanos = slot & 0xFFFFFFFF
        if nanos > 999_999:
            raise space.make_error(f"{nanos} nanoseconds within a millisecond", field, offset)
        return Instant(_I64.unpack_from(space.data, space.part_start(slot, 8, field, offset))[0], nanos)
    if t.root in NESTED_TYPES or t.root == "VARIANT":
        length = slot & 0xFFFFFFFF
        begin = space.part_start(slot, length, field, offset)
        inner = BoundedSlice(space.data, begin, begin + length, space.path, space.spans)
        if space.spans is None:
            return _decode_part(inner, t)
        with space.spans.within(field):
            return _decode_part(inner, t)
    msg = f"type {t} has no binary form in lakekit"
    raise Unsupported(msg, feature=f"type.{t.root.lower()}", path=space.path)


def _read_text_bytes(space: BoundedSlice, slot: int, offset: int, field: str) -> bytes:
    if slot >> 63:
        length = slot >> 56 & 0x7F
        if length > 7:
            raise space.make_error(f"{length} bytes inside a slot of 7", field, offset)
        return space.data[offset : offset + length]
    length = slot & 0xFFFFFFFF
    begin = space.part_start(slot, length, field, offset)
    return space.data[begin : begin + length]


def _decode_part(space: BoundedSlice, t: DataType) -> Any:
    match t.root:
        case "ARRAY":
            return decode_array(space, part(t.element))
        case "MULTISET" | "MAP":
            return decode_map(space, t)
        case "ROW":
            return decode_row(space, [f.type for f in t.fields], [f.name for f in t.fields])
    data, start, end = space.data, space.start, space.end
    length = _I32.unpack_from(data, start)[0] if end - start >= 4 else -1
    if not 0 <= length <= end - start - 4:
        raise space.make_error(f"a value of {length} bytes in {end - start}", "variant", start)
    if space.spans is not None:
        space.spans.add(start, 4, "value length", length, section=SLOT_SECTION)
        space.spans.add(start + 4, length, "value", data[start + 4 : start + 4 + length], section=SLOT_SECTION)
        space.spans.add(
            start + 4 + length,
            end - start - 4 - length,
            "metadata",
            data[start + 4 + length : end],
            section=SLOT_SECTION,
        )
    return data[start + 4 : start + 4 + length], data[start + 4 + length : end]


def decode_array(space: BoundedSlice, element: DataType) -> list[Any]:
    """Return the elements of a BinaryArray that fills its space."""
    data, start, size, width = space.data, space.start, space.end - space.start, element_width(element)
    count = _I32.unpack_from(data, start)[0] if size >= 4 else -1
    first = start + 4 + (count + 31) // 32 * 4
    if count < 0 or first + count * width > space.end:
        raise space.make_error(f"{count} elements of {width} bytes in {size} bytes", "array", start)
    if space.spans is not None:
        return _decode_recorded_array(space, element, count, first)
    form = FIXED_FORMATS.get(element.root)
    if form is not None and not any(data[start + 4 : first]):
        return [value for (value,) in form.iter_unpack(data[first : first + count * width])]
    return [
        None
        if data[start + 4 + (i >> 3)] >> (i & 7) & 1
        else read_slot(space, first + width * i, element, f"element {i}")
        for i in range(count)
    ]


def _decode_recorded_array(space: BoundedSlice, element: DataType, count: int, first: int) -> list[Any]:
    """Decode an array element by element and record the span of each."""
    spans = space.spans
    assert spans is not None
    start, width, since = space.start, element_width(element), len(spans.spans)
    nulls = {i for i in range(count) if space.data[start + 4 + (i >> 3)] >> (i & 7) & 1}
    spans.add(start, 4, "count", count, section=ARRAY_SECTION)
    spans.add(start + 4, first - start - 4, "null bits", sorted(nulls), section=ARRAY_SECTION)
    values: list[Any] = []
    for i in range(count):
        if i in nulls:
            spans.add(first + width * i, width, f"element {i}", None, section=ARRAY_SECTION)
        values.append(None if i in nulls else read_slot(space, first + width * i, element, f"element {i}"))
    spans.fill(start, space.end, since=since)
    return values


def decode_map(space: BoundedSlice, t: DataType) -> list[tuple[Any, Any]]:
    """Return the entries of a BinaryMap that fills its space."""
    data, start, size = space.data, space.start, space.end - space.start
    length = _I32.unpack_from(data, start)[0] if size >= 4 else -1
    if not 0 <= length <= size - 4:
        raise space.make_error(f"keys of {length} bytes in {size}", "map", start)
    key, value = map_types(t)
    spans = space.spans
    if spans is not None:
        spans.add(start, 4, "keys length", length, section="FORMAT 5.5")
    with nullcontext() if spans is None else spans.within("keys"):
        keys = decode_array(BoundedSlice(data, start + 4, start + 4 + length, space.path, spans), key)
    with nullcontext() if spans is None else spans.within("values"):
        values = decode_array(BoundedSlice(data, start + 4 + length, space.end, space.path, spans), value)
    if len(keys) != len(values):
        raise space.make_error(f"{len(keys)} keys and {len(values)} values", "map", start)
    return list(zip(keys, values, strict=True))
