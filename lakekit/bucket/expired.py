"""Record expiration: compactions leave out rows by `record-level.expire-time` and `record-level.time-field`.

    INT                     seconds since 1970
    BIGINT                  seconds, or milliseconds from 10^12 on
    TIMESTAMP, LTZ          an instant of the clock without a zone, in seconds

Reads return expired rows until then. A row without a time never expires.

Source: ENGINE.md 2.9, `RecordLevelExpire`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from lakekit.codec import binary_row
from lakekit.columns import col
from lakekit.errors import InvalidOption
from lakekit.metadata import schemas
from lakekit.types import TIMESTAMPS, Instant

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.types import DataType, Field

_MILLIS_FROM = 10**12
_FIELD = "record-level.time-field"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiration:
    """When rows of a table expire: before `oldest_s`, a time in whole seconds, by the column `field`."""

    ctx: TableContext
    field: Field
    oldest_s: int

    def alive(self) -> pl.Expr:
        """Return the condition that is true for rows to keep."""
        seconds = _seconds(col(self.field.name), self.field.type)
        return (seconds >= self.oldest_s).fill_null(value=True)

    def is_due(self, file: DataFileMeta) -> bool:
        """Return whether the file's statistics say that one of its rows is expired; False without statistics."""
        schema = schemas.schema_of_file(self.ctx, file.schema_id)
        names = schema.names if file.value_stats_cols is None else file.value_stats_cols
        written = next((field for field in schema.fields if field.id == self.field.id), None)
        if written is None or written.name not in names:
            return False
        arity, row = binary_row.strip_arity(file.value_stats.min_values)
        if arity != len(names):
            return False
        types = [schema.field(name).type for name in names]
        smallest = binary_row.decode(row, types)[list(names).index(written.name)]
        if isinstance(smallest, Instant):
            return int(smallest.millis / 1000) < self.oldest_s
        if not isinstance(smallest, int):
            return False
        return (smallest // 1000 if smallest >= _MILLIS_FROM else smallest) < self.oldest_s


def expiry(ctx: TableContext, now_ms: int) -> RecordExpiration | None:
    """Return when rows of the table expire; None if they never do.

    Raises:
        InvalidOption: the time field is missing, is not a column, or holds no time.
    """
    span_ms, name = ctx.options.record_level_expire_time_ms, ctx.options.record_level_time_field
    if span_ms is None:
        return None
    if name is None:
        raise InvalidOption(
            f"{ctx.name} sets record-level.expire-time; {_FIELD} must name the column that holds a row's time",
            key=_FIELD,
        )
    if not ctx.schema.has(name):
        column_names = ", ".join(ctx.schema.names)
        raise InvalidOption(
            f"{_FIELD} of {ctx.name} is {name!r}, which is not there; columns are {column_names}",
            key=_FIELD,
            value=name,
        )
    field = ctx.schema.field(name)
    if field.type.root not in ("INT", "BIGINT", *TIMESTAMPS):
        msg = (
            f"{_FIELD} of {ctx.name} is {name!r} of type {field.type}; it must be INT, BIGINT, TIMESTAMP or "
            "TIMESTAMP_LTZ"
        )
        raise InvalidOption(msg, key=_FIELD, value=name)
    return RecordExpiration(ctx=ctx, field=field, oldest_s=now_ms // 1000 - span_ms // 1000)


def _seconds(column: pl.Expr, t: DataType) -> pl.Expr:
    """Return the time of a row in whole seconds."""
    if t.root == "INT":
        return column.cast(pl.Int64)
    if t.root == "BIGINT":
        return pl.when(column >= _MILLIS_FROM).then(column // 1000).otherwise(column)
    millis = column.dt.epoch("ms")
    return pl.when(millis < 0).then(-(-millis // 1000)).otherwise(millis // 1000)
