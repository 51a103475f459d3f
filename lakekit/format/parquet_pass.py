"""A small Parquet file on its way into a bigger one: its row groups pass to the sink while they are encoded, each page with a checksum, its two ends do not.

    encoder writes    "PAR1" | head, page | head, page | … | facts of the column | … | page indexes             | footer | i32 LE length | "PAR1"
    sink receives              head with CRC-32, page | …                        | … | page indexes, told anew

    head of a page    15 kind · 15 bytes as it was · 15 bytes as it is ·             2c what a data page is · 00       4c: a dictionary page
    and with a CRC    15 kind · 15 bytes as it was · 15 bytes as it is · 15 CRC-32 · 1c what a data page is · 00       3c

Heads grow by a few bytes, so everything that tells where pages are is told anew. Facts of a column, which the footer has too, go; they begin otherwise than
heads do (15 type · 19 a list of numbers), and so do indexes of pages, which come after all pages.
Whoever encodes writes from threads of its own, and wraps what a sink raises: `failed` keeps it as it was. Source: the Apache Parquet format, `parquet.thrift`,
"Checksumming".
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from lakekit.codec.varints import read_varint
from lakekit.errors import Corrupt
from lakekit.format import parquet_chunks, thrift
from lakekit.format.parquet_footer import skip
from lakekit.format.thrift import I32, I64, STRUCT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.format.parquet_chunks import ColumnChunk, RowGroup

MAGIC = b"PAR1"
_MEMBER, _MEMBER_LIST = 0x15, 0x19
"""The heads of members that are a number of 32 bits, or a list, and come right after the last."""
_JOINED_BYTES = 1 << 16
"""A page of no more bytes is put together with its head, which costs less than a second call."""
_TOLD_BY = 4
"""So many bytes tell what they begin."""
_COLUMN_INDEX, _OFFSET_INDEX = (6, 7), (4, 5)


class _PageHead(NamedTuple):
    """The head of a page of so many bytes: a checksum goes in at `at`, and it ends at `end`."""

    data: bytes
    page_bytes: int
    at: int
    end: int


class RowGroupStream:
    """The file object that an encoder is given: `put` takes what passes, which begins at byte `start` of the bigger file."""

    def __init__(self, put: Callable[[bytes | memoryview], object], start: int) -> None:
        self._put, self._start = put, start
        self._seen = 0
        self._held = b""
        """The beginning of a head."""
        self._head = _PageHead(b"", 0, 0, 0)
        """The head of the page that is under way, of which so many bytes are missing:"""
        self._missing = 0
        self._body: list[memoryview] = []
        self._rest: list[bytes] | None = None
        """What came after the last page."""
        self._pages, self._growth = list[int](), list[int]()
        """Where heads of pages and facts of columns were for the encoder, and by how many bytes each has grown."""
        self.failed: BaseException | None = None

    def write(self, data: bytes | memoryview) -> int:
        """Takes what comes next, which must not change any more."""
        view = memoryview(data)
        passed_over = min(max(0, len(MAGIC) - self._seen), len(view))
        self._seen += passed_over
        view = view[passed_over:]
        try:
            while len(view):
                view = self._take(view)
        except BaseException as failed:
            self.failed = failed
            raise
        return len(data)

    def flush(self) -> None:
        """Nothing to do: the sink is not this file's to flush."""

    def _take(self, view: memoryview) -> memoryview:
        """Takes the beginning of some bytes, and gives what is left of them."""
        if self._missing:
            self._body.append(view[: self._missing])
            taken = len(self._body[-1])
            self._missing -= taken
        elif self._rest is not None:
            self._rest.append(bytes(view))
            taken = len(view)
        else:
            return self._begin(view)
        self._seen += taken
        if self._rest is None and not self._missing:
            self._page()
        return view[taken:]

    def _begin(self, view: memoryview) -> memoryview:
        """Takes the head of a page, or the facts of a column, or finds out that all of them were taken."""
        data = memoryview(self._held + bytes(view)) if self._held else view
        self._held = b""
        is_page, is_fact = _kinds(data)
        if len(data) >= _TOLD_BY and not is_page and not is_fact:
            self._rest = []
            return data
        try:
            head = _head_of(data) if is_page else None
            end = head.end if head is not None else skip(data, 0, STRUCT, 0) if is_fact else 0
        except IndexError:
            end = 0
        if not end:  # it ends too early
            self._held = bytes(data)
            return view[:0]
        self._pages.append(self._seen)
        self._seen += end
        if head is None:
            self._growth.append(-end)
        else:
            self._head = head
            self._missing = head.page_bytes
            if not self._missing:
                self._page()
        return data[end:]

    def _page(self) -> None:
        """Lets a page pass whose bytes are all there."""
        head, sum_ = self._head, 0
        for part in self._body:
            sum_ = crc32(part, sum_)
        told = thrift.encode_members({4: (I32, sum_ - (sum_ >> 31 << 32))}, 3)
        grown = b"".join([head.data[: head.at], told, bytes([head.data[head.at] - 0x10]), head.data[head.at + 1 : head.end]])
        self._growth.append(len(grown) - head.end)
        if sum(map(len, self._body)) <= _JOINED_BYTES:
            self._put(b"".join([grown, *self._body]))
        else:
            self._put(grown)
            for part in self._body:
                self._put(part)
        self._body = []

    def groups(self) -> list[RowGroup]:
        """What passed, once everything is written: page indexes go to the sink. Raises `Corrupt`."""
        rest = b"".join(self._rest or [])
        length = int.from_bytes(rest[-8:-4], "little") + 8
        if rest[-4:] != MAGIC or length > len(rest):
            raise Corrupt("an encoder's file that does not end as Parquet does", field="footer")
        indexes, begin = rest[:-length], self._seen - len(rest)
        found, places = parquet_chunks.read(rest[-length:-8], 0), _Offsets(self._pages, self._growth, self._start - len(MAGIC))
        chunks = [chunk for group in found for chunk in group.chunks]
        put, told_anew = self._start - len(MAGIC) + begin + sum(self._growth), []
        for members, told in ((_COLUMN_INDEX, places.unchanged), (_OFFSET_INDEX, places.offsets)):
            for chunk in chunks:
                if (index := chunk.index(members)) is not None:
                    told_anew.append(told(indexes[index[0] - begin : index[0] - begin + index[1]]))
                    chunk.point(members, put, len(told_anew[-1]))
                    put += len(told_anew[-1])
        self._put(b"".join(told_anew))
        return [group._replace(size_bytes=group.size_bytes + sum([places.move(chunk) for chunk in group.chunks])) for group in found]


def _kinds(data: memoryview) -> tuple[bool, bool]:
    """Whether a head of a page begins here, and whether facts of a column do."""
    if len(data) < _TOLD_BY or data[0] != _MEMBER:
        return False, False
    return data[2] == _MEMBER, data[2] == _MEMBER_LIST and data[3] & 15 == I32


def _head_of(data: memoryview) -> _PageHead:
    """The head that begins here. Raises `IndexError` where it ends too early."""
    at = number = 0
    for _ in range(3):
        number, at = read_varint(data, at + 1)
    end = skip(data, at, STRUCT, 0)
    return _PageHead(bytes(data[:end]), number >> 1, at, end)


class _Offsets:
    """Where things are that an encoder told the places of: heads of pages before them have grown, and the file begins elsewhere."""

    def __init__(self, pages: list[int], growth: list[int], shift: int) -> None:
        self._pages, self._growth = pages, growth
        self._shifts = [shift, *accumulate(growth, initial=shift)][1:]

    def now(self, place: int) -> int:
        """A place in the bigger file."""
        return place + self._shifts[bisect_left(self._pages, place)]

    def move(self, chunk: ColumnChunk) -> int:
        """Tells a chunk where it is now, and gives by how many bytes it has grown."""
        begin, end = chunk.place
        growth = self.now(end) - self.now(begin) - (end - begin)
        chunk.move(self.now, growth)
        return growth

    @staticmethod
    def unchanged(data: bytes) -> bytes:
        """An index that tells no places."""
        return data

    def offsets(self, data: bytes) -> bytes:
        """An index of pages: 1 a list of structs, which say 1 where a page is · 2 its bytes, with its head · 3 its first row."""
        _, count, at = thrift.list_head(data, 1)
        told = [data[:at]]
        for _ in range(count):
            members = []
            for _ in range(3):
                number, at = read_varint(data, at + 1)
                members.append(number >> 1)
            at += 1
            place, size_bytes, first_row = members
            size_bytes += self._growth[bisect_left(self._pages, place)]
            told.append(thrift.encode({1: (I64, self.now(place)), 2: (I32, size_bytes), 3: (I64, first_row)}))
        return b"".join([*told, data[at:]])
