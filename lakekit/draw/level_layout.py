"""Data files as the levels picture needs them: their texts, and one axis for all keys of a bucket.

    bounds   (1,) (40,) (41,) (99,)                by value: the first key column that varies is a number, a date
                                                   or a time
    cells    [0 ─ ] … [ ─ ][ ─ ] … [ ─ 1]          else by rank: every bound is as wide as any other

A vertical line of the axis crosses every file that may hold a key. A bound has a cell, from `start` to `end`, fractions
of the axis; a file reaches from the start of its smallest key to the end of its largest. Cells stand in the order of
keys and never overlap. Keys with the same value in the column that gives the position divide its cell among themselves.
A key is a tuple, its parts may be null, and keys may be given by their first columns only. Pure: plain values, no
table, no clock.
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
    def deleted_fraction(self) -> float:
        """The fraction of rows that are deleted or delete."""
        lost = self.deleted_row_count + self.delete_row_count
        return min(1.0, lost / self.row_count) if self.row_count > 0 and lost > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """A bucket at one snapshot.

    It has files, which of them were `added_names`, which are `leaving_names` later, and the files that were
    `removed_files`. Files of level 0 stand newest first. `opened_names` are those that a read would open, None without
    a query.
    """

    snapshot_id: int | None
    files: tuple[LevelFile, ...]
    added_names: frozenset[str] = frozenset()
    leaving_names: frozenset[str] = frozenset()
    removed_files: tuple[LevelFile, ...] = ()
    opened_names: frozenset[str] | None = None

    @property
    def marked(self) -> frozenset[str]:
        """The files that are highlighted."""
        return self.added_names | self.leaving_names if self.opened_names is None else self.opened_names


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelQuery:
    """A query on the picture: the key that a line marks, and lines below the title."""

    probe: Key | None = None
    notes: tuple[str, ...] = ()


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


# ---- texts -----------------------------------------------------------------------------------------------------------


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
    read = (
        0 if state is None or state.opened_names is None else sum(member.name in state.opened_names for member in files)
    )
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


# ---- key axis ------------------------------------------------------------


Key = tuple[Any, ...]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - only differences count
_MICROSECOND = timedelta(microseconds=1)
_INTEGRAL_TYPES = (int, date)
"""Types of discrete values: a cell of such a value is one unit wide. A datetime is a date to Python and not discrete.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAxis:
    """The positions of keys.

    `keys` are the distinct bounds in order; `column` is the key column that gives the position, None: by rank.
    """

    keys: tuple[Key, ...]
    orders: tuple[tuple[Any, ...], ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    column: int | None

    def start(self, key: Key) -> float:
        """Return where the cell of a key begins."""
        return self._cell(key)[0]

    def end(self, key: Key) -> float:
        """Return where the cell of a key ends."""
        return self._cell(key)[1]

    def middle(self, key: Key) -> float:
        """Return the position of a line for a key."""
        return sum(self._cell(key)) / 2

    def holds(self, key: Key) -> bool:
        """Return whether the key is between the first and the last bound."""
        order = order_of(key)
        return bool(self.orders) and self.orders[0][: len(order)] <= order <= self.orders[-1]

    def how(self, names: Sequence[str] = ()) -> str:
        """Return a text that says what gives the position."""
        if self.column is None:
            return "keys by rank"
        return (
            f"keys by value of {names[self.column]}" if self.column < len(names) and len(names) > 1 else "keys by value"
        )

    def _cell(self, key: Key) -> tuple[float, float]:
        order = order_of(key)
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
        """Return the position by value of a key that lies between two bounds."""
        if not 0 < at < len(self.keys):
            return 0.0 if at == 0 else 1.0
        if self.column is None or len(key) <= self.column:
            return None
        value, low, high = (number(bound[self.column]) for bound in (key, self.keys[at - 1], self.keys[at]))
        if value is None or low is None or high is None or high <= low:
            return None
        fraction = float(Fraction(value - low) / Fraction(high - low))
        return self.starts[at - 1] + (self.starts[at] - self.starts[at - 1]) * min(max(fraction, 0.0), 1.0)


def axis_of(bounds: Iterable[Key]) -> KeyAxis:
    """Return the axis of the smallest and largest keys of some files."""
    by_order = {order_of(key): key for key in bounds}
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


def order_of(key: Key) -> tuple[Any, ...]:
    """Return the sort key of a key: nulls first, then values as the format orders them.

    Values of different kinds are grouped by kind, so that comparing them never fails.
    """
    return tuple(_order(value) for value in key)


def _order(value: Any) -> tuple[Any, ...]:
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


def number(value: Any) -> int | Fraction | None:
    """Return the value as an exact number; None for what has no position on a line."""
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
    """Return the cells of keys by one of their columns; None where its values have no positions."""
    numbers = [number(key[column]) for key in keys]
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
        edges = [_quotient(count * (value - low) + unit * part, count * span) for part in range(count + 1)]
        cells += pairwise(edges)
    return cells


def _quotient(part: int | Fraction, total: int | Fraction) -> float:
    """Return a quotient that is rounded once, so that order is kept."""
    return part / total if isinstance(part, int) and isinstance(total, int) else float(Fraction(part) / Fraction(total))
