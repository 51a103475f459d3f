"""Data files as the levels picture needs them: their texts, and one axis for all keys of a bucket.

    bounds   (1,) (40,) (41,) (99,)                by value: the first key column that varies is a number, a date
                                                   or a time
    cells    [0 ─ ] … [ ─ ][ ─ ] … [ ─ 1]          else by rank: all cells have the same width

A vertical line of the axis crosses every file that may hold a key. A bound has a cell, from `start` to `end`, fractions
of the axis; a file reaches from the start of its smallest key to the end of its largest. Cells stand in the order of
keys and never overlap. If several bounds have the same value in the column that gives the position, the cell of that
value is divided among them in equal parts. A key is a tuple, its parts may be null, and keys may be given by their
first columns only. Pure: plain values, no table, no clock.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any

from lakekit.draw.humanize import escape_controls, format_cell, format_count, format_size, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFile:
    """A data file.

    `min_key` and `max_key` are the smallest and the largest key of the file; None: unknown, the file may hold any key.
    The deletion vector of the file hides `deleted_row_count` rows. `delete_row_count` rows are delete records: each
    says that its key is deleted.
    """

    name: str
    level: int
    min_key: Key | None
    max_key: Key | None
    size_bytes: int
    row_count: int
    deleted_row_count: int = 0
    delete_row_count: int = 0
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    source: str = ""
    creation_time: str = ""

    @property
    def deleted_fraction(self) -> float:
        """The fraction of rows that are hidden by the deletion vector or are delete records; at most 1."""
        lost = self.deleted_row_count + self.delete_row_count
        return min(1.0, lost / self.row_count) if self.row_count > 0 and lost > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """A bucket at one snapshot.

    `files`: the files of the bucket at the snapshot, level 0 with the newest file first. `added_names`: names of the
    files that the snapshot added. `leaving_names`: names of the files that a later snapshot in the picture removes.
    `removed_files`: files that the snapshot removed. `opened_names`: names of the files that a query would open; None:
    there is no query.
    """

    snapshot_id: int | None
    files: tuple[LevelFile, ...]
    added_names: frozenset[str] = frozenset()
    leaving_names: frozenset[str] = frozenset()
    removed_files: tuple[LevelFile, ...] = ()
    opened_names: frozenset[str] | None = None

    @property
    def highlighted_names(self) -> frozenset[str]:
        """Names of highlighted files: `opened_names` if there is a query, else `added_names` and `leaving_names`."""
        return self.added_names | self.leaving_names if self.opened_names is None else self.opened_names


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelQuery:
    """A query on the picture: `probe` is the key at which a line is drawn, `notes` are lines below the title."""

    probe: Key | None = None
    notes: tuple[str, ...] = ()


EMPTY_QUERY = LevelQuery()
"""No query."""
EMPTY_STATE = BucketState(snapshot_id=None, files=())
"""The state of a bucket without snapshot and files."""


def with_row_number_bounds(files: Iterable[LevelFile]) -> tuple[LevelFile, ...]:
    """Return the files of an append table with row numbers as `low` and `high`.

    `files` are in the order of writing; row numbers count from 0 through all files.
    """
    ordered = list(files)
    ends = list(accumulate(file.row_count for file in ordered))
    return tuple(
        replace(file, min_key=(end - file.row_count,), max_key=(max(end - 1, end - file.row_count),))
        for file, end in zip(ordered, ends, strict=True)
    )


# ---- texts -----------------------------------------------------------------------------------------------------------


def key_range_text(file: LevelFile, *, is_append: bool = False) -> str:
    """Return the key range of a file as text: `keys 1 .. 9`; of a file of an append table `rows 0 .. 4`."""
    if file.min_key is None or file.max_key is None:
        return "keys unknown"
    low, high = (", ".join(format_cell(part) for part in key) for key in (file.min_key, file.max_key))
    return f"{'rows' if is_append else 'keys'} {low} .. {high}"


def file_tooltip(files: Sequence[LevelFile], bucket_state: BucketState | None, *, is_append: bool = False) -> str:
    """Return the tooltip of a box that stands for some files; `bucket_state` None: the files were removed."""
    file = files[0]
    level = "" if is_append else f"L{file.level}  "
    read = (
        0
        if bucket_state is None or bucket_state.opened_names is None
        else sum(member.name in bucket_state.opened_names for member in files)
    )
    word = (
        "removed"
        if bucket_state is None
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
            f"{key_range_text(file, is_append=is_append)}"
        )
        text += f"  {plural(file.deleted_row_count, 'row')} deleted" if file.deleted_row_count else ""
        text += f"  {plural(file.delete_row_count, 'row')} delete" if file.delete_row_count else ""
    return escape_controls(f"{text}  {word}".rstrip())


def file_facts_line(file: LevelFile, *, is_append: bool = False) -> str:
    """Return the metadata of a file on one line."""
    parts = [
        file_tooltip([file], EMPTY_STATE, is_append=is_append),
        f"seq {file.min_sequence_number}..{file.max_sequence_number}",
        f"schema {file.schema_id}",
    ]
    if file.source:
        parts.append(
            "by "
            f"{'a compaction' if file.source == 'COMPACT' else 'a write' if file.source == 'APPEND' else file.source}"
        )
    if file.creation_time:
        parts.append(f"written {file.creation_time}")
    return escape_controls("  ".join(parts))


# ---- key axis ------------------------------------------------------------


Key = tuple[Any, ...]
"""The values of the key columns, or of the first of them."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - only differences count
_MICROSECOND = timedelta(microseconds=1)
_INTEGRAL_TYPES = (int, date)
"""Types of discrete values: a cell of such a value is one unit wide. A datetime is a date to Python and not discrete.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAxis:
    """The axis of a picture: it gives each key a position from 0 to 1.

    `keys` are the distinct bounds of files in order. `column` is the index of the key column whose values give the
    positions; None: the rank of a bound gives its position.
    """

    keys: tuple[Key, ...]
    orders: tuple[tuple[Any, ...], ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    column: int | None

    def start(self, key: Key) -> float:
        """Return where the cell of a key begins on the axis."""
        return self._cell(key)[0]

    def end(self, key: Key) -> float:
        """Return where the cell of a key ends on the axis."""
        return self._cell(key)[1]

    def middle(self, key: Key) -> float:
        """Return where the line of a key is drawn: the middle of the key's cell."""
        return sum(self._cell(key)) / 2

    def is_in_range(self, key: Key) -> bool:
        """Return whether the key is between the first and the last bound."""
        order = key_sort_key(key)
        return bool(self.orders) and self.orders[0][: len(order)] <= order <= self.orders[-1]

    def scale_text(self, names: Sequence[str] = ()) -> str:
        """Return how keys get their positions, as text: `keys by rank`, `keys by value of k`."""
        if self.column is None:
            return "keys by rank"
        return (
            f"keys by value of {names[self.column]}" if self.column < len(names) and len(names) > 1 else "keys by value"
        )

    def _cell(self, key: Key) -> tuple[float, float]:
        order = key_sort_key(key)
        at = bisect_left(self.orders, order)
        if at < len(self.orders) and self.orders[at] == order:
            return self.starts[at], self.ends[at]
        if at < len(self.orders) and self.orders[at][: len(order)] == order:  # the first columns of a bound
            return self.starts[at], self.starts[at]
        low = self.ends[at - 1] if at else 0.0
        high = self.starts[at] if at < len(self.starts) else 1.0
        position = self._between(key, at)
        position = (low + high) / 2 if position is None else min(max(position, low), high)
        return position, position

    def _between(self, key: Key, at: int) -> float | None:
        """Return the position of a key between two bounds, interpolated by value; None if that is not possible."""
        if not 0 < at < len(self.keys):
            return 0.0 if at == 0 else 1.0
        if self.column is None or len(key) <= self.column:
            return None
        value, low, high = (to_exact_number(bound[self.column]) for bound in (key, self.keys[at - 1], self.keys[at]))
        if value is None or low is None or high is None or high <= low:
            return None
        fraction = float(Fraction(value - low) / Fraction(high - low))
        return self.starts[at - 1] + (self.starts[at] - self.starts[at - 1]) * min(max(fraction, 0.0), 1.0)


def build_axis(bounds: Iterable[Key]) -> KeyAxis:
    """Return the axis of the smallest and largest keys of some files."""
    by_order = {key_sort_key(key): key for key in bounds}
    orders = tuple(sorted(by_order))
    keys = tuple(by_order[order] for order in orders)
    column = next((at for at in range(min(map(len, keys), default=0)) if orders[0][at] != orders[-1][at]), None)
    cells = None if column is None else _cells_by_value(keys, column)
    if cells is None:
        count = max(1, len(keys))
        cells, column = [(rank / count, (rank + 1) / count) for rank in range(len(keys))], None
    return KeyAxis(
        keys=keys,
        orders=orders,
        starts=tuple(start for start, _ in cells),
        ends=tuple(end for _, end in cells),
        column=column,
    )


def key_sort_key(key: Key) -> tuple[Any, ...]:
    """Return the sort key of a key, by which nulls come first and values follow as the format orders them."""
    return tuple(_value_sort_key(value) for value in key)


def _value_sort_key(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, (int, float, Decimal)):
        nan = isinstance(value, (float, Decimal)) and math.isnan(value)
        return (1, 1, 0) if nan else (1, 0, value)
    if isinstance(value, datetime):
        return (2, "datetime", value.tzinfo is not None, value)
    return (
        2,
        type(value).__name__,
        value if isinstance(value, (str, bytes, date, time, timedelta)) else format_cell(value),
    )


def to_exact_number(value: Any) -> int | Fraction | None:
    """Return a number, date or time as an exact number; None for a value without a position on a line."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float() | Decimal():
            return Fraction(value) if math.isfinite(value) else None
        case datetime():
            return (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
        case date():
            return value.toordinal()
        case time():
            return (datetime.combine(_EPOCH, value.replace(tzinfo=None)) - _EPOCH) // _MICROSECOND
        case timedelta():
            return value // _MICROSECOND
    return None


def _cells_by_value(keys: Sequence[Key], column: int) -> list[tuple[float, float]] | None:
    """Return the cells of keys, placed by the values of one column; None if a value has no position."""
    numbers = [to_exact_number(key[column]) for key in keys]
    positions = [value for value in numbers if value is not None]
    if len(positions) < len(keys):
        return None
    groups = [(value, len(list(same))) for value, same in groupby(positions)]
    step = min(later - earlier for (earlier, _), (later, _) in pairwise(groups))
    values = {type(key[column]) for key in keys}
    is_integral = all(
        issubclass(value_type, _INTEGRAL_TYPES) and not issubclass(value_type, datetime) for value_type in values
    )
    unit: int | Fraction = 1 if is_integral else step if len(groups) < len(keys) else 0
    low = groups[0][0]
    span = groups[-1][0] - low + unit
    cells: list[tuple[float, float]] = []
    for value, count in groups:
        edges = [_rounded_quotient(count * (value - low) + unit * part, count * span) for part in range(count + 1)]
        cells += pairwise(edges)
    return cells


def _rounded_quotient(part: int | Fraction, total: int | Fraction) -> float:
    """Return a quotient that is rounded once, so that order is kept."""
    return part / total if isinstance(part, int) and isinstance(total, int) else float(Fraction(part) / Fraction(total))
