"""Named reads of bytes: a cursor, the spans of fields for hex views, and integers of variable length.

    cursor = Cursor(data, path="index/index-1-0")
    length = cursor.i32be("length")
    body = cursor.raw(length, "data")

    offset  length  field                  value      section
    0       1       version                1          FORMAT 8.1
    1       4       vectors[0].length      24         FORMAT 8.1

Every read is named, so an error says which field broke at which offset. A cursor records spans itself where a hex view
gives it a `SpanRecorder`; decoders take a cursor, and know nothing of it. A value decoded from bytes that were recorded
before lies inside their span; `innermost_spans` keeps the innermost spans, so that each byte has one.

Varints have seven bits a byte, low bits first, the high bit set on all bytes but the last:

    0      00           300    ac 02            plain: protobuf, lengths, headers of runs
    0 -1   00 01        1 -300 02 d7 04         zig-zag: n is 2n, or -2n-1 below zero

A number has at most 64 bits, which take ten bytes. Where the data ends inside a number, `IndexError` is raised, as by
every read of a byte beyond the end: the caller says what ended too early.

Source: "Encoding" of Protocol Buffers; the Thrift compact protocol; the ORC specification v1, "Integer Run Length
Encoding".
"""

from __future__ import annotations

import struct
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager


PADDING_LABEL = "padding"
"""The label of bytes without meaning."""
UNREAD_LABEL = "not read"
"""The label of bytes that no decoder read: those after an error."""


class FieldSpan(NamedTuple):
    """One value that was read: its bytes, its name, its value, and the section that describes it."""

    offset: int
    length: int
    field: str
    value: object
    section: str = ""

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + self.length


class SpanRecorder:
    """Spans in the order of reading. `wrong_at` is where the innermost decoder met an error."""

    __slots__ = ("name", "section", "shift", "spans", "wrong_at")

    def __init__(self, *, section: str = "") -> None:
        self.spans: list[FieldSpan] = []
        self.name, self.section, self.shift = "", section, 0
        self.wrong_at: int | None = None

    def __iter__(self) -> Iterator[FieldSpan]:
        return iter(self.spans)

    def add(self, offset: int, length: int, field: str, value: object, *, section: str = "") -> None:
        """Record a span; its offset counts from where the decoder's bytes begin."""
        name = f"{self.name}.{field}" if self.name and field else self.name or field
        self.spans.append(FieldSpan(self.shift + offset, length, name, value, section or self.section))

    def set_meaning(self, value: object) -> None:
        """Set the value of the span recorded last, if the plain value of its bytes does not say it."""
        self.spans[-1] = self.spans[-1]._replace(value=value)

    @contextmanager
    def within(self, name: str = "", *, at: int = 0, section: str = "") -> Iterator[None]:
        """Prefix spans recorded inside by `name.`, count their offsets from `at`, and set their section."""
        before = self.name, self.section, self.shift
        self.name = f"{self.name}.{name}" if self.name and name else self.name or name
        self.section, self.shift = section or self.section, self.shift + at
        try:
            yield
        except Corrupt as error:
            if self.wrong_at is None and error.offset is not None:
                self.wrong_at = self.shift + error.offset
            raise
        finally:
            self.name, self.section, self.shift = before

    def rename(self, since: int, old: str, new: str) -> None:
        """Replace `old` by `new` in the names of spans from index `since` on: list items get their indexes."""
        for i in range(since, len(self.spans)):
            self.spans[i] = self.spans[i]._replace(field=self.spans[i].field.replace(old, new, 1))

    def fill(self, start: int, end: int, *, since: int) -> None:
        """Record as padding what no span from index `since` on covers between `start` and `end`."""
        at = start + self.shift
        for mark in sorted(self.spans[since:], key=lambda mark: mark.offset):
            if mark.offset > at:
                self.add(at - self.shift, mark.offset - at, PADDING_LABEL, None)
            at = max(at, mark.end)
        if at < end + self.shift:
            self.add(at - self.shift, end + self.shift - at, PADDING_LABEL, None)


def innermost_spans(spans: Sequence[FieldSpan], size_bytes: int) -> list[FieldSpan]:
    """Return the innermost spans in the order of their bytes, each byte from 0 to `size_bytes` in exactly one.

    Bytes without any are called `UNREAD_LABEL`. Of two spans over the same bytes the later one stays; where damaged
    bytes are read twice under two names, the first name stays.
    """
    order = sorted(range(len(spans)), key=lambda i: (spans[i].offset, -spans[i].length, i))
    parents: set[int] = set()
    open_: list[int] = []
    for i in order:
        mark = spans[i]
        if not mark.length:
            parents.add(i)
            continue
        while open_ and spans[open_[-1]].end <= mark.offset:
            open_.pop()
        if open_ and mark.end <= spans[open_[-1]].end:
            parents.add(open_[-1])
        open_.append(i)
    innermost: list[FieldSpan] = []
    at = 0
    for i in order:
        mark = spans[i]
        start, end = max(mark.offset, at), min(mark.end, size_bytes)
        if i in parents or start >= end:
            continue
        if start > at:
            innermost.append(FieldSpan(at, start - at, UNREAD_LABEL, None))
        innermost.append(
            mark if (start, end) == (mark.offset, mark.end) else mark._replace(offset=start, length=end - start)
        )
        at = end
    if at < size_bytes:
        innermost.append(FieldSpan(at, size_bytes - at, UNREAD_LABEL, None))
    return innermost


# ---- cursor ------------------------------------------------------------


_NO_RECORDING = nullcontext()
_I16BE, _I32BE, _I32LE = struct.Struct(">h"), struct.Struct(">i"), struct.Struct("<i")
_I64BE, _I64LE, _U16LE, _F64BE = struct.Struct(">q"), struct.Struct("<q"), struct.Struct("<H"), struct.Struct(">d")


class Cursor:
    """Reads of `data[at:end]` from front to back.

    Any read past `end` raises `Corrupt`. Every read takes the field's name, which errors and spans use, and `part`: the
    name of the bytes where a field has several parts. `spans` records what was read, for hex views; None elsewhere.
    """

    __slots__ = ("at", "data", "end", "path", "spans")

    def __init__(
        self,
        data: bytes | memoryview,
        *,
        path: str | None = None,
        offset: int = 0,
        end: int | None = None,
        spans: SpanRecorder | None = None,
    ) -> None:
        self.data = data
        self.path = path
        self.at = offset
        self.end = len(data) if end is None else end
        self.spans = spans
        if not 0 <= self.at <= self.end <= len(data):
            raise self.make_error(f"bytes {offset} to {self.end} wanted, {len(data)} there", "range")

    def region(self, offset: int, end: int | None = None) -> Cursor:
        """Return a cursor over other bytes of the same data, which records where this one does."""
        return Cursor(self.data, path=self.path, offset=offset, end=end, spans=self.spans)

    def nested(self, data: bytes | memoryview) -> Cursor:
        """Return a cursor over bytes that were read here, which records where this one does.

        `within(at=…)` says where in `self.data` they begin.
        """
        return Cursor(data, path=self.path, spans=self.spans)

    @property
    def tell(self) -> int:
        """The offset of the next byte."""
        return self.at

    @property
    def remaining(self) -> int:
        """The number of bytes that are left."""
        return self.end - self.at

    def make_error(self, problem: str, field: str, *, at: int | None = None) -> Corrupt:
        """Return the error for the bytes here (or at `at`), to be raised by the caller."""
        offset = self.at if at is None else at
        where = "" if self.path is None else f"{self.path}: "
        return Corrupt(f"{where}{field} at offset {offset}: {problem}", path=self.path, offset=offset, field=field)

    def _take(self, length: int, field: str) -> int:
        start = self.at
        if length < 0:
            raise self.make_error(f"a length of {length}", field)
        if length > self.end - start:
            raise self.make_error(f"{length} bytes wanted, {self.end - start} left", field)
        self.at = start + length
        return start

    def _number(self, number_struct: struct.Struct, field: str, part: str) -> int:
        start = self._take(number_struct.size, field)
        value: int = number_struct.unpack_from(self.data, start)[0]
        if self.spans is not None:
            self.spans.add(start, number_struct.size, part_name(field, part), value)
        return value

    def u8(self, field: str) -> int:
        """Read one unsigned byte."""
        start = self._take(1, field)
        value = self.data[start]
        if self.spans is not None:
            self.spans.add(start, 1, field, value)
        return value

    def i8(self, field: str) -> int:
        """Read one signed byte."""
        value = self.u8(field)
        value = value - 256 if value > 127 else value
        self.set_meaning(value)
        return value

    def flag(self, field: str) -> bool:
        """Read one byte that is 0 or 1."""
        value = self.u8(field)
        if value > 1:
            raise self.make_error(f"0 or 1 wanted, {value} found", field, at=self.at - 1)
        self.set_meaning(value == 1)
        return value == 1

    def u16le(self, field: str, part: str = "") -> int:
        """Read two bytes, unsigned, little endian."""
        return self._number(_U16LE, field, part)

    def i16be(self, field: str, part: str = "") -> int:
        """Read two bytes, big endian."""
        return self._number(_I16BE, field, part)

    def i32be(self, field: str, part: str = "") -> int:
        """Read four bytes, big endian."""
        return self._number(_I32BE, field, part)

    def i32le(self, field: str, part: str = "") -> int:
        """Read four bytes, little endian."""
        return self._number(_I32LE, field, part)

    def i64be(self, field: str, part: str = "") -> int:
        """Read eight bytes, big endian."""
        return self._number(_I64BE, field, part)

    def i64le(self, field: str, part: str = "") -> int:
        """Read eight bytes, little endian."""
        return self._number(_I64LE, field, part)

    def f64be(self, field: str) -> float:
        """Read a double, big endian."""
        start = self._take(8, field)
        value: float = _F64BE.unpack_from(self.data, start)[0]
        if self.spans is not None:
            self.spans.add(start, 8, field, value)
        return value

    def raw(self, length: int, field: str, part: str = "") -> bytes:
        """Read the next `length` bytes."""
        start = self._take(length, field)
        value = bytes(self.data[start : start + length])
        if self.spans is not None:
            self.spans.add(start, length, part_name(field, part), value)
        return value

    def view(self, length: int, field: str) -> memoryview:
        """Read the next `length` bytes without copying them."""
        start = self._take(length, field)
        value = memoryview(self.data)[start : start + length]
        if self.spans is not None:
            self.spans.add(start, length, field, bytes(value))
        return value

    def skip(self, length: int, field: str, part: str = "") -> int:
        """Skip `length` bytes without copying them and return where they begin."""
        start = self._take(length, field)
        if self.spans is not None:
            self.spans.add(start, length, part_name(field, part), None)
        return start

    def count(self, field: str, *, each: int) -> int:
        """Read a big endian i32 that counts items of at least `each` bytes, all of which must still fit."""
        start = self.at
        value = self.i32be(field)
        if value < 0 or value * each > self.remaining:
            raise self.make_error(
                f"{value} items of at least {each} bytes wanted, {self.remaining} bytes left", field, at=start
            )
        return value

    def java_utf(self, field: str) -> str:
        """Read J-UTF: i16 BE byte count, then Java's modified UTF-8.

        In it NUL is `c0 80`, a supplementary character two surrogates of 3 bytes.
        """
        start = self.at
        length = self.i16be(field, "length") & 0xFFFF
        body = self.raw(length, field)
        try:
            text = (
                body.replace(b"\xc0\x80", b"\0")
                .decode("utf-8", "surrogatepass")
                .encode("utf-16-le", "surrogatepass")
                .decode("utf-16-le")
            )
        except UnicodeDecodeError as error:
            raise self.make_error(f"not modified UTF-8: {error.reason}", field, at=start) from None
        self.set_meaning(text)
        return text

    def set_meaning(self, value: object) -> None:
        """Record what the bytes read last mean, if their plain value does not say it."""
        if self.spans is not None:
            self.spans.set_meaning(value)

    def record(self, offset: int, length: int, field: str, value: object, *, section: str = "") -> None:
        """Record the span of bytes that were decoded without a read of their own."""
        if self.spans is not None:
            self.spans.add(offset, length, field, value, section=section)

    def advance(self, to: int, field: str, value: object) -> None:
        """Move to an offset, the end of a value that was decoded from here on."""
        if self.spans is not None:
            self.spans.add(self.at, to - self.at, field, value)
        self.at = to

    @contextmanager
    def renaming_spans(self, old: str, new: str) -> Iterator[None]:
        """Replace `old` by `new` in the names of spans recorded inside."""
        since = 0 if self.spans is None else len(self.spans.spans)
        yield
        if self.spans is not None:
            self.spans.rename(since, old, new)

    def within(self, name: str = "", *, at: int = 0, section: str = "") -> AbstractContextManager[None]:
        """Prefix spans recorded inside by `name.`, count their offsets from `at`, and set their section."""
        return _NO_RECORDING if self.spans is None else self.spans.within(name, at=at, section=section)

    def expect_end(self, subject: str) -> None:
        """Raise `Corrupt` unless everything was read."""
        if self.remaining:
            raise self.make_error(f"{self.remaining} bytes after the end", subject)


def part_name(field: str, part: str) -> str:
    """Return the name of a part of a field: `positions`, `positions cookie`."""
    return f"{field} {part}" if part else field


def encode_java_utf(text: str) -> bytes:
    """Return a string as Java writes it with `writeUTF` (see `Cursor.jutf`). At most 65535 bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    if any(0xD8 <= unit <= 0xDF for unit in units[::2]):
        body = "".join(chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2)).encode(
            "utf-8", "surrogatepass"
        )
    else:
        body = text.encode()
    body = body.replace(b"\0", b"\xc0\x80")
    if len(body) > 0xFFFF:
        msg = f"a text of {len(body)} bytes: Java's writeUTF holds 65535"
        raise Corrupt(msg, field="utf")
    return len(body).to_bytes(2, "big") + body


# ---- varints ------------------------------------------------------------


_UINT64_MAX = (1 << 64) - 1


def read_varint(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Return an unsigned number and the offset after it; most take one byte.

    Raises:
        Corrupt: the number has more than 64 bits.
        IndexError: the data ends inside it.
    """
    byte = data[offset]
    if byte < 0x80:
        return byte, offset + 1
    value, shift = byte & 0x7F, 7
    while True:
        offset += 1
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value <= _UINT64_MAX:
            return value, offset + 1
        shift += 7
        if byte < 0x80 or shift > 63:
            raise Corrupt("a number of more than 64 bits", field="number")


def read_zigzag(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Return a signed number and the offset after it. Raises as `read_varint` does."""
    raw, offset = read_varint(data, offset)
    return (raw >> 1) ^ -(raw & 1), offset


def append_varint(out: bytearray, value: int) -> None:
    """Append an unsigned number."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_zigzag(out: bytearray, value: int) -> None:
    """Append a signed number."""
    append_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
