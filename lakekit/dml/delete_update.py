"""Delete the rows for which a condition is true.

    every row                      truncate: metadata only
    partition columns decide       those partitions are dropped: metadata only
    key table, engine takes -D     the rows are written again as deletes
    other key table, append table  files are rewritten without the rows, or deletion vectors mark them

With `delete.force-produce-changelog` only the last two are used, so that a changelog has every row.

Source: ENGINE.md 1.6, 8.3 and 8.4; `DeleteFromPaimonTableCommand`, `PrimaryKeyTableUtils.validatePKUpsertDeletable`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import KIND
from lakekit.commit.overwrite import Overwrite
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.rewriting import delete_rows
from lakekit.dml.row_change import RowChange, RowChangeSpec
from lakekit.errors import InvalidOption
from lakekit.lsm import rule as rules
from lakekit.model.row_kind import RowKind
from lakekit.read.user_expressions import condition, is_row_wise

if TYPE_CHECKING:
    from lakekit.dml.row_change import RowChangeResult
    from lakekit.metadata.table_context import TableContext


def delete(ctx: TableContext, where: pl.Expr | str) -> RowChangeResult:
    """Delete the rows of which `where` is true, in one commit; no commit where there is no such row.

    Rows of which it is null stay.

    Raises: `ColumnNotFound`, `SchemaMismatch` for the condition, `InvalidOption` where the table's options leave no way
    to delete, `Conflict` where another commit rewrote or marked the same files meanwhile: nothing changed.
    """
    return statement(ctx, where).commit()


def statement(ctx: TableContext, where: pl.Expr | str) -> RowChangeSpec:
    """Return the change that `delete` makes. Raises what it raises for the condition."""
    expr, target = condition(where, ctx), TargetRows.at_newest(ctx)
    everything, row_by_row = target.always(expr), ctx.options.delete_force_produce_changelog
    replaces = Overwrite.whole() if everything and target.snapshot is not None and not row_by_row else None
    partitions = [] if everything is False else None if row_by_row or replaces is not None else target.partitions(expr)
    if partitions:
        replaces = Overwrite.exactly(partitions)
    by_rows = ctx.kind == "key" and takes_deletes(ctx)
    return RowChangeSpec(
        ctx=ctx,
        found=target,
        where=expr,
        only_adds=not by_rows,
        fill=_delete_nothing
        if target.snapshot is None or partitions is not None
        else partial(_delete_by_rows if by_rows else _delete_stored_rows, expr=expr),
        by_place=is_row_wise(expr, target.schema),
        replaces=replaces,
    )


def _delete_nothing(change: RowChange, target: TargetRows) -> None:
    """Do nothing: no row satisfies the condition."""


def _delete_by_rows(change: RowChange, target: TargetRows, *, expr: pl.Expr) -> None:
    write_deletes(change, target, expr)


def _delete_stored_rows(change: RowChange, target: TargetRows, *, expr: pl.Expr) -> None:
    stored = target.stored(expr)
    delete_rows(change, stored, stored.marked(expr))


def takes_deletes(ctx: TableContext) -> bool:
    """Whether a row of kind -D deletes its key, under the table's merge engine (ENGINE 1.6)."""
    rule = rules.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name)
    removes = rule.remove_on_delete or bool(ctx.options.partial_update_remove_record_on_sequence_group)
    return rule.engine == "deduplicate" or (rule.engine in ("partial-update", "aggregation") and removes)


def check_deletes(ctx: TableContext) -> None:
    """Raise `InvalidOption` where rows of kind -D would be dropped on write or merge."""
    if ctx.options.ignore_delete:
        raise InvalidOption(
            f"{ctx.name} has ignore-delete=true: deletes are dropped as they are written, and where rows are merged, "
            "so nothing would be deleted. "
            "Drop partitions, or t.overwrite(…) with the rows that stay",
            key="ignore-delete",
            value="true",
        )


def write_deletes(change: RowChange, target: TargetRows, expr: pl.Expr) -> None:
    """Write the rows that satisfy a condition as deletes."""
    check_deletes(change.ctx)
    for batch in target.batches(expr):
        change.write(as_deletes(batch, change.ctx))


def as_deletes(rows: pl.DataFrame, ctx: TableContext) -> pl.DataFrame:
    """Return rows of a key table with kind -D, in the column of `rowkind.field` too."""
    own = ctx.options.rowkind_field
    kind_column = [] if own is None else [pl.lit("-D", pl.String).alias(own)]
    return rows.with_columns(*kind_column, pl.lit(int(RowKind.DELETE), pl.Int8).alias(KIND))
