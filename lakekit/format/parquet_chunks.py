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
from lakekit.format.parquet_footer import rows_and_rest
from lakekit.format.thrift import I64, LIST, STRUCT, Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOAT, DOUBLE = 4, 5
"""Physical types of real numbers."""


class Chunk:
    """A column of a row group. `facts` is read only: what changes it goes through the methods."""

    __slots__ = ("_whole", "bytes", "facts")

    def __init__(self, whole: Struct, data: bytes) -> None:
        self._whole, self.facts = whole, whole[3][1]
        self.bytes: bytes | None = data

    def move(self, shift: int) -> None:
        """Lets every place be so many bytes further on."""
        if shift:
            self.bytes = None
            _move(self._whole, (2, 4, 6), shift)
            _move(self.facts, (9, 10, 11, 14), shift)

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


class Group(NamedTuple):
    """A row group."""

    chunks: Sequence[Chunk]
    size_bytes: int
    row_count: int


def read(footer: bytes, shift: int) -> list[Group]:
    """The row groups of a footer, moved on by so many bytes. Raises `Corrupt`."""
    groups = []
    try:
        _, count, at = thrift.list_head(footer, _behind(footer, rows_and_rest(footer)[1]))
        for _ in range(count):
            _, columns, at = thrift.list_head(footer, _behind(footer, at))
            chunks = []
            for _ in range(columns):
                start = at
                whole, at = thrift.decode(footer, at)
                chunks.append(Chunk(whole, footer[start:at]))
                chunks[-1].move(shift)
            rest, at = thrift.decode(footer, at, last=1)
            groups.append(Group(chunks, rest[2][1], rest[3][1]))
    except IndexError:
        raise Corrupt("the Parquet footer ends within its row groups", field="footer") from None
    return groups


def _behind(footer: bytes, at: int) -> int:
    """The offset after the head of a member that is a list and comes next."""
    if footer[at] != 1 << 4 | LIST:
        raise Corrupt(f"no list at byte {at} of the footer that an encoder wrote", field="footer")
    return at + 1


def _move(members: Struct, places: Sequence[int], shift: int) -> None:
    for number in places:
        if number in members and members[number][1]:
            members[number] = (I64, members[number][1] + shift)
