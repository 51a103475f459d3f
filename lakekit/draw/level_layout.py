"""Data files as the levels picture needs them, and their texts.

Pure: plain values, no table, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from lakekit.draw.humanize import escape_controls, format_cell, format_count, format_size, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.draw.key_axis import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFile:
    """A data file.

    `low` and `high` are its smallest and largest key, None where unknown: it may then hold any key. `deleted_row_count`
    rows are hidden by its deletion vector, `delete_row_count` rows say that a key is deleted.
    """

    name: str
    level: int
    low: Key | None
    high: Key | None
    size_bytes: int
    row_count: int
    deleted_row_count: int = 0
    delete_row_count: int = 0
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    source: str = ""
    created: str = ""

    @property
    def gone(self) -> float:
        """The fraction of rows that are deleted or delete."""
        lost = self.deleted_row_count + self.delete_row_count
        return min(1.0, lost / self.row_count) if self.row_count > 0 and lost > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """A bucket at one snapshot.

    It has files, which of them were `added`, which are `leaving` later, and the files that were `removed`. Files of
    level 0 stand newest first. `lit` are those that a read would open, None without a query.
    """

    snapshot_id: int | None
    files: tuple[LevelFile, ...]
    added: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    removed: tuple[LevelFile, ...] = ()
    lit: frozenset[str] | None = None

    @property
    def marked(self) -> frozenset[str]:
        """The files that are highlighted."""
        return self.added | self.leaving if self.lit is None else self.lit


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelQuery:
    """A query on the picture: the key that a line marks, and lines below the title."""

    probe: Key | None = None
    said: tuple[str, ...] = ()


EMPTY_QUERY = LevelQuery()
EMPTY_STATE = BucketState(snapshot_id=None, files=())


def in_order_of_writing(files: Iterable[LevelFile]) -> tuple[LevelFile, ...]:
    """Return files of an append table with row numbers, in the order of writing, as `low` and `high`."""
    ordered = list(files)
    ends = list(accumulate(file.row_count for file in ordered))
    return tuple(
        replace(file, low=(end - file.row_count,), high=(max(end - 1, end - file.row_count),))
        for file, end in zip(ordered, ends, strict=True)
    )


# ---- words -----------------------------------------------------------------------------------------------------------


def keys_of(file: LevelFile, *, is_append: bool = False) -> str:
    """Return a text on the key range of a file."""
    if file.low is None or file.high is None:
        return "keys unknown"
    low, high = (", ".join(format_cell(part) for part in key) for key in (file.low, file.high))
    return f"{'rows' if is_append else 'keys'} {low} .. {high}"


def hint(files: Sequence[LevelFile], state: BucketState | None, *, is_append: bool = False) -> str:
    """Return the text shown on hovering over a box; without a state its files were removed."""
    file = files[0]
    level = "" if is_append else f"L{file.level}  "
    read = 0 if state is None or state.lit is None else sum(member.name in state.lit for member in files)
    word = (
        "removed"
        if state is None
        else ""
        if not read
        else "to be read"
        if len(files) == 1
        else f"{format_count(read)} to be read"
    )
    if len(files) > 1:
        rows = plural(sum(member.row_count for member in files), "row")
        text = f"{plural(len(files), 'file')}  {level}{format_size(sum(member.size_bytes for member in files))}  {rows}"
    else:
        text = (
            f"{file.name}  {level}{format_size(file.size_bytes)}  {plural(file.row_count, 'row')}  "
            f"{keys_of(file, is_append=is_append)}"
        )
        text += f"  {plural(file.deleted_row_count, 'row')} deleted" if file.deleted_row_count else ""
        text += f"  {plural(file.delete_row_count, 'row')} delete" if file.delete_row_count else ""
    return escape_controls(f"{text}  {word}".rstrip())


def detail(file: LevelFile, *, is_append: bool = False) -> str:
    """Return all facts of a file on one line."""
    parts = [
        hint([file], EMPTY_STATE, is_append=is_append),
        f"seq {file.min_sequence_number}..{file.max_sequence_number}",
        f"schema {file.schema_id}",
    ]
    if file.source:
        parts.append(
            "by "
            f"{'a compaction' if file.source == 'COMPACT' else 'a write' if file.source == 'APPEND' else file.source}"
        )
    if file.created:
        parts.append(f"written {file.created}")
    return escape_controls("  ".join(parts))
