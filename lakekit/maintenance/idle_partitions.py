"""The partitions that a maintenance task works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.columns import PLACE
from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import manifest_reader
from lakekit.read import user_expressions
from lakekit.read.planner import partition_frame
from lakekit.runtime import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


def partitions(ctx: TableContext, serialized: Iterable[bytes], where: pl.Expr | str | None) -> set[bytes]:
    """Return those of some serialized partitions that satisfy a condition; all without one.

    `where`: a Polars expression or SQL text on partition columns.

    Raises: `InvalidOption` where the text is no condition or names another column, `SchemaMismatch` where it does not
    fit the columns' types.
    """
    rows = sorted(set(serialized))
    if where is None:
        return set(rows)
    every = polars_schema(ctx.schema.fields)
    wanted = _expand_by_name(condition(where), where, every, ctx.name)
    partition_keys = ctx.schema.partition_keys
    if others := [name for name in user_expressions.used_columns(wanted, every) if name not in partition_keys]:
        has = f"partition columns are {', '.join(partition_keys)}" if partition_keys else "the table is not partitioned"
        raise InvalidOption(
            f"where= chooses partitions of {ctx.name}; {others[0]!r} is no partition column: {has}",
            key="where",
            value=str(where),
        )
    schema = polars_schema(ctx.schema.partition_fields)
    wanted = user_expressions.check_condition(
        user_expressions.fit_condition(wanted, where, schema), schema, ctx.name, "where"
    )
    numbered = partition_frame(ctx, pa.array(rows, pa.binary())).with_row_index(
        PLACE
    )  # a condition that names no column holds for each of them
    try:
        matching = numbered.filter(wanted.fill_null(value=False)).get_column(PLACE)
    except pl.exceptions.PolarsError as wrong:  # some of what does not fit is seen only here
        raise SchemaMismatch(f"where={wanted} does not fit the columns of {ctx.name}: {wrong}") from None
    return {rows[at] for at in matching}


def _expand_by_name(wanted: pl.Expr, where: pl.Expr | str, schema: Mapping[str, pl.DataType], table: str) -> pl.Expr:
    """Replace column selectors in a condition by the names of the columns that they select.

    Raises: `SchemaMismatch`.
    """
    if isinstance(where, str):
        return user_expressions.name_exactly(wanted, schema)
    return (
        user_expressions.check_condition(wanted, schema, table, "where")
        if wanted.meta.has_multiple_outputs()
        else wanted
    )


def idle_partitions(ctx: TableContext, snapshot: Snapshot | None, wanted: set[bytes], idle_ms: int) -> set[bytes]:
    """Return those of some partitions whose newest file is at least `idle_ms` old, by the wall clock.

    An unpartitioned table is one partition.
    """
    if snapshot is None or not wanted:
        return wanted
    entries = manifest_reader.read_live_entries(ctx, snapshot)
    newest = (
        pa.table({name: entries.column(name) for name in ("partition", "creation_time")})
        .group_by("partition")
        .aggregate([("creation_time", "max")])
    )
    times = newest.column("creation_time_max").cast(pa.int64()).to_pylist()  # scalar: one a partition
    last = wall_clock_ms(ctx.runtime.now_ms()) - idle_ms
    last_writes = zip(newest.column("partition").to_pylist(), times, strict=True)  # scalar: one a partition
    return {partition for partition, time in last_writes if partition in wanted and (time is None or time <= last)}


def condition(where: pl.Expr | str, key: str = "where") -> pl.Expr:
    """Return a condition as a Polars expression, parsed if it is SQL text.

    Raises: `InvalidOption`, and `TypeError` for anything else.
    """
    if not isinstance(where, str):
        return user_expressions.parse_expression(where, "", key)
    try:
        return pl.sql_expr(where)
    except (pl.exceptions.PolarsError, UnicodeEncodeError) as error:
        raise InvalidOption(f"{where!r} is no condition in SQL: {error}", key=key, value=where) from error
