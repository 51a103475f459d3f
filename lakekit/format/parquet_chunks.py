"""The row groups of a file that an encoder has just made, as its footer tells of them: on their way into the footer of a bigger file.

    footer        1 version · 2 schema elements · 3 row count · 4 row groups · 5 …        walked over up to 4, and no further
    row group     1 chunks, one a column · 2 bytes · 3 row count · …
    chunk         2 its own place · 3 facts · 4 6 places of its page indexes · …
    facts         1 physical type · 5 values · 7 compressed bytes · 9 10 11 places of its pages · 12 statistics · 14 place of its bloom filter · …

A chunk that stays in its place, and loses no bounds, is written as the bytes it came as: what most of them are. Source: the Apache Parquet format,
`parquet.thrift`.
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
    """A column of a row group. `facts` is read only: what changes it goes through the methods."""

    __slots__ = ("_whole", "bytes", "facts")

    def __init__(self, whole: Struct, data: bytes) -> None:
        self._whole, self.facts = whole, whole[3][1]
        self.bytes: bytes | None = data

    @property
    def place(self) -> tuple[int, int]:
        """Where its pages begin, and where they end."""
        begin = min(self.facts[number][1] for number in (9, 11) if number in self.facts and self.facts[number][1])
        return begin, begin + self.facts[7][1]

    def shift(self, by: int) -> None:
        """Lets every place be so many bytes further on."""
        if by:
            self.bytes = None
            _change(self._whole, (2, 4, 6), by.__add__)
            _change(self.facts, (9, 10, 11, 14), by.__add__)

    def move(self, now: Callable[[int], int], growth: int) -> None:
        """Lets places of pages be what `now` says of them, and the chunk be so many bytes bigger; its facts are nowhere but in the footer."""
        self.bytes = None
        self._whole[2] = (I64, 0)
        _change(self.facts, (9, 10, 11), now)
        _change(self.facts, (6, 7), growth.__add__)

    def index(self, members: tuple[int, int]) -> tuple[int, int] | None:
        """Where a page index is, and how long, as two members tell it; None where there is none."""
        return (self._whole[members[0]][1], self._whole[members[1]][1]) if members[0] in self._whole else None

    def point(self, members: tuple[int, int], place: int, length: int) -> None:
        """Lets a page index be so long, and elsewhere."""
        self.bytes = None
        self._whole[members[0]], self._whole[members[1]] = (I64, place), (I32, length)

    def forget_reals(self) -> None:
        """Takes bounds of real numbers away: both encoders leave NaN out of them."""
        if self.facts[1][1] not in (FLOAT, DOUBLE):
            return
        self.bytes = None
        self._whole.pop(6, None)  # where the bounds of pages are
        self._whole.pop(7, None)
        if 12 in self.facts:
            self.facts[12] = (STRUCT, {number: found for number, found in self.facts[12][1].items() if number in (3, 4)})  # null and distinct counts

    @property
    def encoded(self) -> bytes | Struct:
        """What a footer takes."""
        return self._whole if self.bytes is None else self.bytes


class RowGroup(NamedTuple):
    """A row group."""

    chunks: Sequence[ColumnChunk]
    size_bytes: int
    row_count: int


def read(footer: bytes, shift: int) -> list[RowGroup]:
    """The row groups of a footer, moved on by so many bytes. Raises `Corrupt`."""
    groups = []
    try:
        _, count, at = thrift.list_head(footer, list_member(footer, rows_and_rest(footer)[1]))
        for _ in range(count):
            _, columns, at = thrift.list_head(footer, list_member(footer, at))
            chunks = []
            for _ in range(columns):
                start = at
                whole, at = thrift.decode(footer, at)
                chunks.append(ColumnChunk(whole, footer[start:at]))
                chunks[-1].shift(shift)
            rest, at = thrift.decode(footer, at, last=1)
            groups.append(RowGroup(chunks, rest[2][1], rest[3][1]))
    except IndexError:
        raise Corrupt("the Parquet footer ends within its row groups", field="footer") from None
    return groups


def _change(members: Struct, numbers: Sequence[int], to: Callable[[int], int]) -> None:
    for number in numbers:
        if number in members and members[number][1]:
            members[number] = (members[number][0], to(members[number][1]))
