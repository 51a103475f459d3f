"""Row groups in the footer of an encoder's small file, moved into the footer of a bigger file.

    footer        1 version · 2 schema elements · 3 row count · 4 row groups · 5 …   skipped up to 4, not read beyond
    row group     1 chunks, one a column · 2 bytes · 3 row count · …
    chunk         2 its own offset · 3 metadata · 4 6 offsets of its page indexes · …
    metadata      1 physical type · 5 values · 7 compressed bytes · 9 10 11 offsets of its pages · 12 statistics
                  · 14 offset of its bloom filter · …

A chunk that keeps its offset and its bounds, as most do, is written as the bytes it was read from. Source: the Apache
Parquet format, `parquet.thrift`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakekit.errors import Corrupt
from lakekit.format import thrift
from lakekit.format.parquet_footer import list_member, rows_and_rest
from lakekit.format.thrift import I32, I64, STRUCT, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FLOAT, DOUBLE = 4, 5
"""Physical types of real numbers."""


class ColumnChunk:
    """A column of a row group. `facts` is its metadata, read only: changes go through the methods."""

    __slots__ = ("_whole", "bytes", "facts")

    def __init__(self, chunk: Struct, data: bytes) -> None:
        self._whole, self.facts = chunk, chunk[3][1]
        self.bytes: bytes | None = data

    @property
    def place(self) -> tuple[int, int]:
        """Where its pages begin, and where they end."""
        begin = min(self.facts[number][1] for number in (9, 11) if number in self.facts and self.facts[number][1])
        return begin, begin + self.facts[7][1]

    def shift(self, by: int) -> None:
        """Move every offset by so many bytes."""
        if by:
            self.bytes = None
            _change(self._whole, (2, 4, 6), by.__add__)
            _change(self.facts, (9, 10, 11, 14), by.__add__)

    def move(self, new_offset: Callable[[int], int], growth: int) -> None:
        """Map offsets of pages by `new_offset`, and grow the chunk by `growth` bytes.

        Its metadata is in the footer alone afterwards.
        """
        self.bytes = None
        self._whole[2] = (I64, 0)
        _change(self.facts, (9, 10, 11), new_offset)
        _change(self.facts, (6, 7), growth.__add__)

    def index(self, members: tuple[int, int]) -> tuple[int, int] | None:
        """Return offset and length of the page index in these two members; None without one."""
        return (self._whole[members[0]][1], self._whole[members[1]][1]) if members[0] in self._whole else None

    def point(self, members: tuple[int, int], offset: int, length: int) -> None:
        """Set offset and length of a page index."""
        self.bytes = None
        self._whole[members[0]], self._whole[members[1]] = (I64, offset), (I32, length)

    def forget_reals(self) -> None:
        """Drop bounds of real numbers: both encoders leave NaN out of them."""
        if self.facts[1][1] not in (FLOAT, DOUBLE):
            return
        self.bytes = None
        self._whole.pop(6, None)  # the column index: bounds of pages
        self._whole.pop(7, None)
        if 12 in self.facts:
            # null and distinct counts
            self.facts[12] = (
                STRUCT,
                {number: member for number, member in self.facts[12][1].items() if number in (3, 4)},
            )

    @property
    def encoded(self) -> bytes | Struct:
        """The chunk as a footer takes it: its bytes, or its struct."""
        return self._whole if self.bytes is None else self.bytes


class RowGroup(NamedTuple):
    """A row group."""

    chunks: Sequence[ColumnChunk]
    size_bytes: int
    row_count: int


def read(footer: bytes, shift: int) -> list[RowGroup]:
    """Return the row groups of a footer, moved by `shift` bytes. Raises `Corrupt`."""
    groups = []
    try:
        _, count, at = thrift.list_head(footer, list_member(footer, rows_and_rest(footer)[1]))
        for _ in range(count):
            _, columns, at = thrift.list_head(footer, list_member(footer, at))
            chunks = []
            for _ in range(columns):
                start = at
                chunk, at = thrift.decode(footer, at)
                chunks.append(ColumnChunk(chunk, footer[start:at]))
                chunks[-1].shift(shift)
            group_members, at = thrift.decode(footer, at, last=1)
            groups.append(RowGroup(chunks, group_members[2][1], group_members[3][1]))
    except IndexError:
        raise Corrupt("the Parquet footer ends within its row groups", field="footer") from None
    return groups


def _change(members: Struct, numbers: Sequence[int], to: Callable[[int], int]) -> None:
    for number in numbers:
        if number in members and members[number][1]:
            members[number] = (members[number][0], to(members[number][1]))
