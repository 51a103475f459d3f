"""Merge of a source into a table: matched rows are updated or deleted, others inserted, in one commit.

    source (in memory) ──join on── target (streamed)  ─▶  pairs    first true WHEN MATCHED clause: +U, -D, or nothing
                                                      └▶  rows without a match: source rows to insert,
                                                          target rows not matched by the source

A target row that several source rows match is refused before anything is committed. Key tables get rows of kinds +U, -D
and +I; append tables lose the old rows by rewriting files, or by deletion vectors, and get the new ones appended.

Source: ENGINE.md 8.3, 8.4; `MergeIntoPaimonTable`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from pyroaring import BitMap

from lakekit.columns import KIND, ROW, cols, internal, run_expressions, without_empty_chunks
from lakekit.dml.delete_update import (
    COMPUTED_VALUE_HINTS,
    apply_assignments,
    as_deletes,
    check_deletes,
    check_key_unchanged,
    check_merge_engine,
    check_update_survives_merge,
    merge_applies_deletes,
)
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.merge_plan import SOURCE_ROW, build_merge_plan
from lakekit.dml.row_change import RowChange, delete_files, delete_rows
from lakekit.errors import InvalidOption, MergeConflict
from lakekit.model.data_file import RowKind
from lakekit.read import polars_pushdown
from lakekit.read.user_expressions import MERGE_SOURCE_PREFIX, translate_compute_errors
from lakekit.write import row_conversion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.dml.matching_rows import FileRows
    from lakekit.dml.merge_plan import Clause, MergeAction, MergePlan
    from lakekit.dml.row_change import RowChangeResult
    from lakekit.metadata.table_context import TableContext

_ACTION_COLUMN = internal("action")


def merge(
    ctx: TableContext, source: object, clauses: Sequence[Clause], on: Sequence[str] | pl.Expr | str
) -> RowChangeResult:
    """Merge a source into a table, in one commit; no commit where nothing changes.

    Raises: `MergeConflict` where several source rows match one target row and there are WHEN MATCHED clauses,
    `InvalidOption` for a merge engine that takes no such statement, `ColumnNotFound`, `SchemaMismatch`,
    `ValueOutOfRange` for conditions and values, `Conflict`.
    """
    plan = plan_merge(ctx, source, clauses, on)
    target = TargetRows.at_newest(ctx)
    with RowChange.of(ctx, only_adds=ctx.kind == "append") as change:
        write_changes(change, plan, target)
        return change.commit()


def plan_merge(
    ctx: TableContext, source: object, clauses: Sequence[Clause], on: Sequence[str] | pl.Expr | str
) -> MergePlan:
    """Return the plan of a merge, checked against the table.

    Raises what `merge` raises for engine, clauses, conditions and columns.
    """
    check_merge_engine(ctx, "MergeInto")
    plan = build_merge_plan(ctx, source, clauses, on)
    if ctx.kind == "key" and plan.deletes:
        check_key_deletes(ctx)
    return plan


def write_changes(change: RowChange, plan: MergePlan, target: TargetRows) -> None:
    """Write the result of a merge into the target rows to a change.

    Raises what `merge` raises for rows and values.
    """
    merging = _MergeRun(change=change, plan=plan, target=target)
    if target.ctx.kind == "key":
        merging.merge_by_key()
    else:
        merging.merge_by_position()


def check_key_deletes(ctx: TableContext) -> None:
    """Raise `InvalidOption` if a merge cannot delete rows of a key table."""
    check_deletes(ctx)
    if not merge_applies_deletes(ctx):
        raise InvalidOption(
            f"merge engine {ctx.options.merge_engine} of {ctx.name} takes no deletes as rows; partial-update does with "
            "partial-update.remove-record-on-delete=true",
            key="merge-engine",
            value=ctx.options.merge_engine,
        )


@dataclass(slots=True, kw_only=True)
class _MergeRun:
    """A running merge. `matched` are the source rows that matched a target row."""

    change: RowChange
    plan: MergePlan
    target: TargetRows
    matched: BitMap = field(default_factory=BitMap)

    @property
    def ctx(self) -> TableContext:
        return self.change.ctx

    @property
    def _rows_to_read(self) -> pl.Expr | None:
        """Return the condition of the target rows to read; None for all, where unmatched ones matter too."""
        return None if self.plan.not_matched_by_source else self.plan.target_filter

    # ---- key tables

    def merge_by_key(self) -> None:
        """Write rows with row kinds; a target row is identified by its key."""
        keys = list(dict.fromkeys((*self.ctx.schema.partition_keys, *self.ctx.schema.primary_keys)))
        seen: list[pl.DataFrame] = [pl.DataFrame(schema={name: self.target.schema[name] for name in keys})]
        for batch in self.target.batches(self._rows_to_read, self._join_source):
            self.matched |= BitMap(batch[SOURCE_ROW].to_numpy())
            seen.append(batch.select(cols(keys)))
            self._write_by_kind(batch, self.plan.matched)
        matched_keys = pl.concat(seen, rechunk=True)
        if self.plan.matched and matched_keys.is_duplicated().any():
            raise self.make_conflict(matched_keys.filter(matched_keys.is_duplicated()).row(0, named=True))
        if self.plan.not_matched_by_source:
            alone = matched_keys.unique()
            for batch in self.target.batches(
                None,
                lambda rows: _with_action_number(
                    rows.join(alone.lazy(), on=cols(keys), how="anti", nulls_equal=True), self._actions_without_source
                ),
            ):
                self._write_by_kind(batch, self._actions_without_source)
        self.insert_unmatched()

    def _write_by_kind(self, batch: pl.DataFrame, actions: Sequence[MergeAction]) -> None:
        for action, rows in _split_batch_by_action(batch, actions):
            self.change.affected_row_count += rows.height
            old = rows.select(cols(self.ctx.schema.names))
            if action.action == "delete":
                self.change.write(as_deletes(old, self.ctx))
            else:
                new = apply_assignments(rows, list(action.columns), self.ctx).with_columns(
                    pl.lit(int(RowKind.UPDATE_AFTER), pl.Int8).alias(KIND)
                )
                check_key_unchanged(old, new, self.ctx)
                if self.plan.is_update:
                    set_names = [value.meta.output_name() for value in action.columns]
                    check_update_survives_merge(old, new, set_names, self.ctx)
                self.change.write(new)

    # ---- append tables

    def merge_by_position(self) -> None:
        """Change rows of files, which are identified by their positions."""
        if self.target.snapshot is None:
            self.insert_unmatched()
            return
        stored, removed, seen = self.target.file_rows(self._rows_to_read), BitMap(), BitMap()
        for batch in stored.batches(self._join_source(stored.rows())):
            self.matched |= BitMap(batch[SOURCE_ROW].to_numpy())
            mine = BitMap(batch[ROW].to_numpy())
            if self.plan.matched and (len(mine) < batch.height or mine.intersect(seen)):
                raise self.make_conflict(_find_duplicate_row(batch, mine & seen, self.ctx))
            seen |= mine
            removed |= self.append_new_rows(batch, self.plan.matched)
        if self.plan.not_matched_by_source:
            unmatched = _without_rows(stored, seen)
            for batch in stored.batches(
                _with_action_number(unmatched.rows(skips_by_index=False), self._actions_without_source)
            ):
                removed |= self.append_new_rows(batch, self._actions_without_source)
        self.insert_unmatched()
        delete_rows(self.change, stored, removed)
        self.change.affected_row_count += len(removed)

    def append_new_rows(self, batch: pl.DataFrame, actions: Sequence[MergeAction]) -> BitMap:
        """Append the new rows of a batch, and return which old rows are removed."""
        for action, rows in _split_batch_by_action(batch, actions):
            if action.action == "update":
                self.change.write(apply_assignments(rows, list(action.columns), self.ctx))
        acted = batch.filter(pl.col(_ACTION_COLUMN).is_not_null())
        return BitMap(acted[ROW].to_numpy())

    # ---- both

    @property
    def _actions_without_source(self) -> Sequence[MergeAction]:
        return self.plan.not_matched_by_source

    def _join_source(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return each target row with each source row that it matches, and the clause that acts on it."""
        schema = {**self.target.schema, **self.plan.source.schema}
        return _with_action_number(
            polars_pushdown.hide_from_pushdown(rows, [self.plan.match], schema).join_where(
                self.plan.source.lazy(), self.plan.match
            ),
            self.plan.matched,
        )

    def insert_unmatched(self) -> None:
        """Insert the unmatched source rows; last in key tables, where one replaces a deleted row of its key."""
        if not self.plan.not_matched:
            return
        unmatched = self.plan.source.filter(
            ~pl.Series(np.isin(np.arange(self.plan.source.height), np.asarray(self.matched.to_array(), np.int64)))
        )
        with translate_compute_errors(self.ctx.name):
            inserts = [
                rows.select(action.columns) for action, rows in split_by_action(unmatched, self.plan.not_matched)
            ]
        for frame in inserts:
            for batch in row_conversion.convert_batches(frame, self.ctx, error_hints=COMPUTED_VALUE_HINTS):
                self.change.write(batch)
                self.change.affected_row_count += batch.height

    def make_conflict(self, row: dict[str, object]) -> MergeConflict:
        shown = ", ".join(f"{name}={value!r}" for name, value in row.items())
        return MergeConflict(
            "Can't execute this MergeInto when there are some target rows that each of them match more than one "
            "source rows. It may lead to an unexpected "
            f"result. {self.ctx.name} has such a row: {shown}. Nothing was changed. Leave one source row for each, as "
            "with source.unique(…)"
        )


# ---- rows that were found by their numbers ------------------------------------------------------------


FOUND_ROW = f"{MERGE_SOURCE_PREFIX}{internal('found')}"
"""The column of a plan's source with the number of the row that is changed, as `FileRows` counts; null: inserted."""


def write_found_rows(change: RowChange, plan: MergePlan, stored: FileRows) -> None:
    """Write what a plan's clauses do to the rows of files that its source names by number, and its inserts.

    Without deletion vectors the touched files of append tables are rewritten, every row in its place.

    Raises: `MergeConflict` where two rows of the source name one row, and what `merge` raises for values.
    """
    ctx, found_rows = change.ctx, plan.source.filter(pl.col(FOUND_ROW).is_not_null())
    run = _MergeRun(change=change, plan=plan, target=TargetRows(ctx=ctx, snapshot=stored.plan.snapshot))
    run.matched = BitMap(found_rows[SOURCE_ROW].to_numpy())
    repeated = found_rows[FOUND_ROW].filter(found_rows[FOUND_ROW].is_duplicated())
    if len(repeated):
        number = int(repeated[0])
        rows = stored.rows(skips_by_index=False).filter(pl.col(ROW) == number)
        raise run.make_conflict(
            pl.concat(list(stored.batches(rows))).select(cols(ctx.schema.names[:4])).row(0, named=True)
        )
    acting = run_expressions(
        found_rows, lambda frame: _with_action_number(frame.lazy(), plan.matched).collect()
    ).filter(pl.col(_ACTION_COLUMN).is_not_null())
    removed = BitMap(acting[FOUND_ROW].to_numpy())
    if not any(action.columns for action in plan.matched):
        delete_rows(change, stored, removed)
    elif ctx.options.deletion_vectors_enabled:
        for batch in stored.batches(_join_found(stored.rows(skips_by_index=False), acting, "inner")):
            run.append_new_rows(batch, plan.matched)
        delete_rows(change, stored, removed)
    else:
        _rewrite_found(run, stored, acting, removed)
    change.affected_row_count += len(removed)
    run.insert_unmatched()


def _rewrite_found(run: _MergeRun, stored: FileRows, acting: pl.DataFrame, removed: BitMap) -> None:
    """Rewrite the files of found rows, with new rows in their places and without those that are deleted."""
    ctx, touched = run.ctx, stored.files_with_marks(removed)
    for at in touched:
        start, end = int(stored.starts[at]), int(stored.starts[at + 1])
        inside = acting.filter(pl.col(FOUND_ROW).is_between(start, end - 1)).with_columns(pl.col(FOUND_ROW) - start)
        file_rows = stored.select_files([at])
        for batch in file_rows.batches(_join_found(file_rows.rows(skips_by_index=False), inside, "left")):
            unchanged = batch.filter(pl.col(_ACTION_COLUMN).is_null()).select(cols([*ctx.schema.names, ROW]))
            changed = [
                apply_assignments(rows, list(action.columns), ctx).with_columns(rows[ROW])
                for action, rows in _split_batch_by_action(batch, run.plan.matched)
                if action.action == "update"
            ]
            run.change.write(pl.concat([unchanged, *changed]).sort(ROW).drop(ROW))
    delete_files(run.change, stored, touched)


def _join_found(rows: pl.LazyFrame, found_rows: pl.DataFrame, how: Literal["inner", "left"]) -> pl.LazyFrame:
    """Return rows of files, each with the row of the source that names its number."""
    numbered = found_rows.with_columns(pl.col(FOUND_ROW).cast(rows.collect_schema()[ROW]))
    return rows.join(numbered.lazy(), left_on=ROW, right_on=FOUND_ROW, how=how, maintain_order="left")


def split_by_action(rows: pl.DataFrame, actions: Sequence[MergeAction]) -> list[tuple[MergeAction, pl.DataFrame]]:
    """Return the rows that each clause acts on, without those of no clause."""
    numbered = run_expressions(rows, lambda frame: _with_action_number(frame.lazy(), actions).collect())
    return list(_split_batch_by_action(numbered, actions))


def _with_action_number(rows: pl.LazyFrame, actions: Sequence[MergeAction]) -> pl.LazyFrame:
    """Return the rows with the number of the first clause whose condition is true."""
    number = pl.lit(None, pl.Int32)
    for at, action in reversed(list(enumerate(actions))):
        number = pl.when(action.condition).then(pl.lit(at, pl.Int32)).otherwise(number)
    return rows.with_columns(number.alias(_ACTION_COLUMN))


def _split_batch_by_action(
    batch: pl.DataFrame, actions: Sequence[MergeAction]
) -> Iterator[tuple[MergeAction, pl.DataFrame]]:
    """Yield the rows that each clause acts on."""
    for number, action in enumerate(actions):
        rows = without_empty_chunks(batch.filter(pl.col(_ACTION_COLUMN) == number))
        if rows.height:
            yield action, rows


def _without_rows(stored: FileRows, seen: BitMap) -> FileRows:
    """Return the same files, with their rows numbered as before, without some rows."""
    return replace(
        stored,
        deleted_positions={
            file.name: stored.positions(at, seen, also_deleted=True) for at, file in enumerate(stored.files)
        },
    )


def _find_duplicate_row(batch: pl.DataFrame, repeated: BitMap, ctx: TableContext) -> dict[str, object]:
    twice = batch.filter(
        pl.col(ROW).is_duplicated()
        | pl.Series(np.isin(batch[ROW].to_numpy(), np.asarray(repeated.to_array(), np.int64)))
    )
    return twice.select(cols(ctx.schema.names[:4])).row(0, named=True)
