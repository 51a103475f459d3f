"""Update the rows for which a condition is true: each is computed from its old values.

    key table      the rows are written again, complete, as +U: only with the engines deduplicate and partial-update
    append table   touched files are rewritten, every row in its place;
                   with deletion vectors old rows are marked and new ones appended

Source: ENGINE.md 8.3 and 8.4; `UpdatePaimonTableCommand`, `RowLevelOp`, `PaimonUpdateTable`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from pyroaring import BitMap

from lakekit.columns import KIND, ROW, cols
from lakekit.dml.assignments import assignments
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.rewriting import drop, mark
from lakekit.dml.row_change import RowChange, RowChangeSpec
from lakekit.dml.update_validation import check_stands
from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.model.row_kind import RowKind
from lakekit.read.user_expressions import condition, is_row_wise, translate_compute_errors
from lakekit.write import row_conversion
from lakekit.write.spot import ErrorHints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakekit.dml.row_change import RowChangeResult
    from lakekit.metadata.table_context import TableContext

    UpdateStrategy = Callable[[RowChange, TargetRows, pl.Expr, list[pl.Expr]], None]

_ENGINES = ("deduplicate", "partial-update")
COMPUTED_VALUE_HINTS = ErrorHints(cast=" where the value is made")
"""Of rows that a statement makes, which casts nothing by itself."""


def update(ctx: TableContext, values: Mapping[str, object], where: pl.Expr | str) -> RowChangeResult:
    """Set columns in the rows of which `where` is true, in one commit; no commit where no row is.

    Raises: `InvalidOption` for a merge engine that takes no updates, and where merging would undo a new value;
    `SchemaMismatch` for a column of the primary key; what `delete` raises for conditions, what appending raises for
    values; `Conflict`.
    """
    return statement(ctx, values, where).commit()


def statement(ctx: TableContext, values: Mapping[str, object], where: pl.Expr | str) -> RowChangeSpec:
    """Return the change that `update` makes.

    Raises what it raises for the engine, the condition and the columns.
    """
    check_engine(ctx, "Update")
    target = TargetRows.at_newest(ctx)
    expr, new = condition(where, ctx), assignments(values, ctx, target.schema, argument="set")
    if keys := [name for name in new if name in ctx.schema.primary_keys]:
        raise SchemaMismatch(
            f"Can't update the primary key column. {keys[0]!r} is one of {ctx.name}: delete the row and write another",
            column=keys[0],
        )
    does = (
        _write_new_rows
        if ctx.kind == "key"
        else _update_by_vectors
        if ctx.options.deletion_vectors_enabled
        else _rewrite_files
    )
    return RowChangeSpec(
        ctx=ctx,
        found=target,
        where=expr,
        only_adds=ctx.kind == "append",
        fill=partial(_run_update, does=does, expr=expr, values=list(new.values())),
        by_place=is_row_wise(expr, target.schema),
    )


def _run_update(
    change: RowChange,
    target: TargetRows,
    *,
    does: Callable[[RowChange, TargetRows, pl.Expr, list[pl.Expr]], None],
    expr: pl.Expr,
    values: list[pl.Expr],
) -> None:
    if target.snapshot is not None and target.always(expr) is not False:
        does(change, target, expr, values)


def _write_new_rows(change: RowChange, target: TargetRows, expr: pl.Expr, values: list[pl.Expr]) -> None:
    """Write new rows over the old ones.

    Raises: `InvalidOption` where the table would not keep a new value.
    """
    names = [value.meta.output_name() for value in values]
    for batch in target.batches(expr):
        new = compute_rows(batch, values, change.ctx)
        check_stands(batch, new, names, change.ctx)
        change.write(new.with_columns(pl.lit(int(RowKind.UPDATE_AFTER), pl.Int8).alias(KIND)))


def check_engine(ctx: TableContext, what: str) -> None:
    """Raise `InvalidOption` where the merge engine of a key table takes no such statement (ENGINE 8.4)."""
    engine = ctx.options.merge_engine
    if ctx.kind == "key" and engine not in _ENGINES:
        instead = (
            "write rows with t.upsert(…), which it merges"
            if engine == "aggregation"
            else "its first row of a key stands"
        )
        raise InvalidOption(
            f"merge engine {engine} can not support {what}, currently only {', '.join(_ENGINES)} can support {what}. "
            f"{ctx.name} has that engine: {instead}",
            key="merge-engine",
            value=engine,
        )


def key_changed(old: pl.DataFrame, new: pl.DataFrame, ctx: TableContext) -> None:
    """Raise `SchemaMismatch` where new values of rows change their key."""
    for name in ctx.schema.primary_keys:
        changed = old[name].ne_missing(new[name])
        if changed.any():
            at = int(changed.alias("").arg_true()[0])
            raise SchemaMismatch(
                f"Can't update the primary key column. {name!r} of {ctx.name} would become {new[name][at]!r}, and is "
                f"{old[name][at]!r}: "
                "leave it out, match rows by the whole key, or delete the row and insert another",
                column=name,
            )


def compute_rows(rows: pl.DataFrame, values: list[pl.Expr], ctx: TableContext) -> pl.DataFrame:
    """Rows with new values, held to the table's types. Raises `SchemaMismatch`, `ValueOutOfRange`."""
    with translate_compute_errors(ctx.name):
        made = rows.with_columns(values)
    return pl.concat(
        [
            row_conversion.empty_frame(ctx),
            *row_conversion.batches(made.select(cols(ctx.schema.names)), ctx, remedies=COMPUTED_VALUE_HINTS),
        ]
    )


def _update_by_vectors(change: RowChange, target: TargetRows, expr: pl.Expr, values: list[pl.Expr]) -> None:
    """Mark old rows by deletion vectors, and append new ones."""
    stored, marked = target.stored(expr), BitMap()
    for batch in stored.batches(stored.rows(expr)):
        marked |= BitMap(batch[ROW].to_numpy())
        change.write(compute_rows(batch, values, change.ctx))
    mark(change, stored, marked)


def _rewrite_files(change: RowChange, target: TargetRows, expr: pl.Expr, values: list[pl.Expr]) -> None:
    """Rewrite the files with marked rows, each row in its place."""
    stored = target.stored(expr)
    marked = stored.marked(expr)
    touched = stored.touched(marked)
    for at in touched:
        file_rows, positions = stored.narrowed([at]), stored.positions(at, marked)
        for batch in file_rows.batches(file_rows.rows(masked=False)):
            hit = pl.Series(np.isin(batch[ROW].to_numpy(), positions))
            change.write(_update_batch(batch, hit, values, change.ctx))
    drop(change, stored, touched)


def _update_batch(batch: pl.DataFrame, hit: pl.Series, values: list[pl.Expr], ctx: TableContext) -> pl.DataFrame:
    """Return a batch in which some rows have new values; the others are as they were."""
    if not hit.any():
        return batch.drop(ROW)
    old, unchanged = batch.filter(hit), batch.filter(~hit)
    new = compute_rows(old, values, ctx).with_columns(old[ROW])
    return pl.concat([unchanged.select(cols(new.columns)), new]).sort(ROW).drop(ROW)
