"""Row changes of a table: `t.delete`, `t.update`, `t.merge`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit import maintenance
from lakekit.dml import delete_update as deleting, merge as merging, update as updating
from lakekit.read.table_core import TableCore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from lakekit.commit.result import Commit
    from lakekit.dml.merge_clauses import Clause
    from lakekit.dml.row_change import RowChangeResult
    from lakekit.metadata.table_context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Changing(TableCore):
    """Methods that change rows by a condition, in one commit each."""

    def delete(self, where: pl.Expr | str) -> Commit:
        """Delete the rows of which `where` is true. Where it is null, rows stay.

        `where`: a Polars expression or SQL text, `"dt < '2024-01-01' AND v IS NULL"`. Whole partitions, and everything,
        go without reading rows. In key tables deletes are written as rows where the merge engine takes them; else, and
        in append tables, the files concerned are rewritten, or their rows marked where `deletion-vectors.enabled` says
        so. No such row: no commit, and `snapshot_ids` is empty.

        Raises: `ColumnNotFound` and `SchemaMismatch` for the condition, `InvalidOption` where the table's options leave
        no way to delete, `Conflict` where another commit changed the same files meanwhile.
        """
        ctx = self.handle()
        return _run_after_commit(ctx, deleting.delete(ctx, where))

    def update(self, set: Mapping[str, Any], /, *, where: pl.Expr | str) -> Commit:  # noqa: A002 - as in SQL
        """Set columns to new values in the rows of which `where` is true.

        `t.update({"v": pl.col("v") + 1, "s": "upper(s)"}, where="k = 7")`. A value is a Polars expression over the old
        row, SQL text (so that a text as value is `"'closed'"` or `pl.lit("closed")`), or any other value. In key tables
        of the engines deduplicate and partial-update the rows are written again, in append tables the files concerned,
        or, with deletion vectors, the new rows.

        Raises: `InvalidOption` for other engines, and where merging would take a new value back, as NULL for a column
        of partial-update or a `sequence.field` that falls; `SchemaMismatch` for a column of the primary key or a value
        of another type, `ValueOutOfRange`, and what `delete` raises.
        """
        ctx = self.handle()
        return _run_after_commit(ctx, updating.update(ctx, set, where))

    def merge(self, source: object, *clauses: Clause, on: Sequence[str] | pl.Expr | str) -> Commit:
        """Merge the rows of a source into the table.

        `t.merge(new, lk.when_matched(update="all"), lk.when_not_matched(), on=["k"])`. `source` is any frame that
        `append` takes; it is read once and held, the table is streamed. `on`: columns that are equal on both sides, or
        a condition, `"t.k = s.k AND t.dt = '2024-03-31'"`, or `pl.col("k") == lk.source("k")`. Of the clauses of a kind
        the first true one acts on a row. Key tables of the engines deduplicate and partial-update, and append tables.

        Raises: `MergeConflict` where several source rows match a target row and there is a `when_matched` clause,
        `ColumnNotFound`, `SchemaMismatch`, `ValueOutOfRange`, `InvalidOption`, and what `delete` raises.
        """
        ctx = self.handle()
        return _run_after_commit(ctx, merging.merge(ctx, source, clauses, on))


def _run_after_commit(ctx: TableContext, changed: RowChangeResult) -> Commit:
    return maintenance.after_commit.maintain_after_commit(ctx, changed.commit, changed.messages)
