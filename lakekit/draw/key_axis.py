"""One axis for all keys of a bucket, so that a vertical line crosses every file that may hold a key.

    bounds   (1,) (40,) (41,) (99,)                by value: the first key column that varies is a number, a date
                                                   or a time
    cells    [0 ─ ] … [ ─ ][ ─ ] … [ ─ 1]          else by rank: every bound is as wide as any other

A bound has a cell, from `start` to `end`, fractions of the axis; a file reaches from the start of its smallest key to
the end of its largest. Cells stand in the order of keys and never overlap. Keys with the same value in the column that
gives the position divide its cell among themselves. A key is a tuple, its parts may be null, and keys may be given by
their first columns only. Pure: plain values in, numbers out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from lakekit.draw.humanize import format_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Key = tuple[Any, ...]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - only differences count
_MICROSECOND = timedelta(microseconds=1)
_WHOLE = (int, date)
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
    is_integral = all(issubclass(value_type, _WHOLE) and not issubclass(value_type, datetime) for value_type in values)
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
