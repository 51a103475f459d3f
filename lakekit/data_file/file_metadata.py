"""The column statistics of a data file in its manifest: null counts, minimum and maximum.

    collector = StatsCollector([field, …])
    collector.add(frame)                                  many times
    collector.stats([field, …], [mode, …])                -> Stats, in the order of the fields

    modes     none: nothing · counts: null counts · truncate(n): bounds of n characters · full: whole bounds

A bound is never false. Text is cut to the mode's length, upper bounds then raised to the next text; where none is
greater both bounds are left out. A column that holds a NaN has none; a zero among floats is bounded by -0.0 and 0.0,
which are equal as numbers. Nested columns have none, nor have bytes: the reference writes none, and where it found some
would compare them by signed bytes, and lose rows (`CompareUtils`).

Source: FORMAT.md 7.7, `StatsCollectorFactories`, `TruncateSimpleColStatsCollector`, `ParquetSimpleStatsExtractor`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakekit.codec import binary_row
from lakekit.codec.arrow_values import instant
from lakekit.errors import InvalidOption
from lakekit.format.told import REALS, ColumnStats
from lakekit.model.data_file import Stats
from lakekit.options.frozendict import EMPTY
from lakekit.types import STRINGS, TIMESTAMPS
from lakekit.types.arrow import timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from lakekit.types import DataType, Field

NONE, COUNTS, FULL = "none", "counts", "full"
SYSTEM_MODE = "truncate(128)"
"""The stats mode of key columns in formats whose footers hold bounds (all but Avro)."""
_TRUNCATE = re.compile(r"TRUNCATE\(([0-9]{1,9})\)")
_NO_STATS: tuple[Any, Any, int] = (None, None, 0)
_LAST_SCALAR, _FIRST_SURROGATE, _AFTER_SURROGATES = 0x10FFFF, 0xD800, 0xE000


def parse_stats_mode(text: str, key: str) -> str:
    """Return a stats mode in lower case, parsed as the reference does. Raises `InvalidOption`."""
    upper = text.strip().upper()
    if upper in ("NONE", "COUNTS", "FULL") or (_TRUNCATE.fullmatch(upper) and upper.strip("TRUNCAE()0")):
        return upper.lower()
    raise InvalidOption(
        f"option {key!r} is {text!r}; allowed: none, counts, truncate(n) with n above 0, full", key=key, value=text
    )


class StatsCollector:
    """Null counts, minima and maxima of columns over all frames added.

    `encoder_stats`: statistics that the encoder of the file computes itself, by column; those columns are not looked at
    here.
    """

    __slots__ = ("_asked", "_columns", "_types")

    def __init__(self, fields: Sequence[Field], encoder_stats: Mapping[str, ColumnStats] = EMPTY) -> None:
        self._types = {field.name: field.type for field in fields}
        self._asked = tuple(field for field in fields if field.name not in encoder_stats)
        self._columns = {field.name: encoder_stats.get(field.name) or ColumnStats() for field in fields}

    def add(self, frame: pl.DataFrame) -> None:
        """Include the rows of a frame."""
        for field in self._asked:
            self._columns[field.name].add(frame.get_column(field.name), field.type)

    def column(self, name: str) -> tuple[Any, Any, int]:
        """Return (minimum, maximum, null count) of a column; None for bounds that are not known.

        Values are in the form of `codec.arrow_values`.
        """
        stats = self._columns[name]
        return *_convert_bounds(stats, self._types[name]), stats.nulls

    def tells_all(self, field: Field, mode: str) -> bool:
        """Return whether a mode keeps the bounds of a column exactly as its rows have them.

        False for real numbers, whose zero has two signs, for columns with nulls, and where a text is cut.
        """
        if field.name not in self._columns or field.type.root in REALS:
            return False
        low, high, nulls = self.column(field.name)
        return low is not None and not nulls and truncate_bounds(low, high, field.type, mode) == (low, high)

    def stats(self, fields: Sequence[Field], modes: Sequence[str]) -> Stats:
        """Return the statistics of some columns as a manifest stores them.

        Columns of mode `none` need not have been added.
        """
        types = _nullable_types(tuple(fields))
        columns = [
            _NO_STATS if mode == NONE else self.column(field.name) for field, mode in zip(fields, modes, strict=True)
        ]
        bounds = [
            truncate_bounds(low, high, t, mode) for (low, high, _), t, mode in zip(columns, types, modes, strict=True)
        ]
        return Stats(
            min_values=binary_row.with_arity(binary_row.encode([low for low, _ in bounds], types), len(types)),
            max_values=binary_row.with_arity(binary_row.encode([high for _, high in bounds], types), len(types)),
            null_counts=tuple(
                None if mode == NONE else nulls for (_, _, nulls), mode in zip(columns, modes, strict=True)
            ),
        )


@lru_cache(maxsize=256)
def _nullable_types(fields: tuple[Field, ...]) -> tuple[DataType, ...]:
    return tuple(field.type.as_nullable() for field in fields)


@lru_cache(maxsize=256)
def _truncate_length(mode: str) -> int | None:
    """Return how many characters a mode leaves of a text; None for all."""
    match = _TRUNCATE.fullmatch(mode.upper())
    return None if match is None else int(match.group(1))


def _fits(value: Any, t: DataType) -> bool:
    """Return whether a decimal has no more digits than its type."""
    limit = 10 ** ((t.precision or 10) - (t.scale or 0))
    return -limit < value < limit  # no abs: it rounds to 28 digits


def _convert_bounds(stats: ColumnStats, t: DataType) -> tuple[Any, Any]:
    """Return bounds in the form of `codec.arrow_values`; (None, None) where they are not known."""
    low, high = stats.low, stats.high
    if low is None or not stats.known:
        return None, None
    if t.root in REALS:
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    if t.root in TIMESTAMPS:
        unit = timestamp_unit(t.precision)
        return instant(low, unit), instant(high, unit)
    if t.root == "TIME":
        return low // 1_000_000, high // 1_000_000
    if t.root == "DECIMAL" and not (_fits(low, t) and _fits(high, t)):
        return None, None
    return low, high


def truncate_bounds(low: Any, high: Any, t: DataType, mode: str) -> tuple[Any, Any]:
    """Return the bounds that a mode stores of a column's minimum and maximum."""
    if mode in (NONE, COUNTS) or low is None or high is None:
        return None, None
    length = _truncate_length(mode)
    if length is None or t.root not in STRINGS:
        return low, high
    raised = round_up_text(high, length)
    return (None, None) if raised is None else (low[:length], raised)


def round_up_text(text: str, length: int) -> str | None:
    """Return the least text of at most `length` characters that is not before `text`; None without one."""
    if len(text) <= length:
        return text
    for i in range(length - 1, -1, -1):
        code = ord(text[i]) + 1
        if code <= _LAST_SCALAR:
            return text[:i] + chr(_AFTER_SURROGATES if code == _FIRST_SURROGATE else code)
    return None
