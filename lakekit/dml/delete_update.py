"""Delete or update the rows for which a condition is true.

    DELETE  every row                      truncate: metadata only
            partition columns decide       those partitions are dropped: metadata only
            key table, engine takes -D     the rows are written again as deletes
            other key table, append table  files are rewritten without the rows, or deletion vectors mark them
    UPDATE  key table      the rows are written again, complete, as +U: only with deduplicate and partial-update
            append table   touched files are rewritten, every row in its place;
                           with deletion vectors old rows are marked and new ones appended

With `delete.force-produce-changelog` DELETE never drops partitions or truncates: it writes -D rows, rewrites files or
marks rows, so that the changelog has every deleted row. New values are expressions over the old row: `{"v": pl.col("v")
+ 1, "s": "upper(s)", "d": date(2024, 1, 1)}`. A text is SQL, as it is in conditions: a text as value is written
`"'closed'"` or `pl.lit("closed")`. Every other value is a literal, read with its column's type: lists for ARRAY, dicts
for MAP and ROW.

Source: ENGINE.md 1.6, 3.1 to 3.3, 8.3 and 8.4; `DeleteFromPaimonTableCommand`,
`PrimaryKeyTableUtils.validatePKUpsertDeletable`, `UpdatePaimonTableCommand`, `RowLevelOp`, `PaimonUpdateTable`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from pyroaring import BitMap

from lakekit.columns import KIND, ROW, SEQUENCE, col, cols, internal, run_expressions
from lakekit.commit.overwrite import Overwrite
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.row_change import RowChange, RowChangeSpec, delete_files, delete_rows, write_deletion_vectors
from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.format.polars_types import polars_type
from lakekit.lsm import merge
from lakekit.model.data_file import RowKind
from lakekit.read.user_expressions import (
    condition_on_table,
    format_expression,
    is_row_wise,
    make_column_not_found,
    non_elementwise_reason,
    resolve_expression,
    translate_compute_errors,
    translate_value,
)
from lakekit.write import input_frames, row_conversion
from lakekit.write.value_casting import ErrorHints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakekit.dml.row_change import RowChangeResult
    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.metadata.table_context import TableContext

    UpdateStrategy = Callable[[RowChange, TargetRows, pl.Expr, list[pl.Expr]], None]


def delete(ctx: TableContext, where: pl.Expr | str) -> RowChangeResult:
    """Delete the rows for which `where` is true, in one commit; without such rows there is no commit.

    Rows for which `where` is null stay.

    Raises: `ColumnNotFound`, `SchemaMismatch` for the condition, `InvalidOption` where the table's options leave no way
    to delete, `Conflict` where another commit rewrote or marked the same files meanwhile: nothing changed.
    """
    return delete_spec(ctx, where).commit()


def delete_spec(ctx: TableContext, where: pl.Expr | str) -> RowChangeSpec:
    """Return the change that `delete` makes. Raises the same errors as `delete` for the condition."""
    expr, target = condition_on_table(where, ctx), TargetRows.at_newest(ctx)
    everything, row_by_row = target.always(expr), ctx.options.delete_force_produce_changelog
    replaces = Overwrite.entire_table() if everything and target.snapshot is not None and not row_by_row else None
    partitions = [] if everything is False else None if row_by_row or replaces is not None else target.partitions(expr)
    if partitions:
        replaces = Overwrite.serialized(partitions)
    by_rows = ctx.kind == "key" and merge_applies_deletes(ctx)
    return RowChangeSpec(
        ctx=ctx,
        target=target,
        where=expr,
        only_adds=not by_rows,
        fill=_delete_nothing
        if target.snapshot is None or partitions is not None
        else partial(_delete_by_rows if by_rows else _delete_stored_rows, expr=expr),
        by_bucket=is_row_wise(expr, target.schema),
        replaces=replaces,
    )


def _delete_nothing(change: RowChange, target: TargetRows) -> None:
    """Do nothing: no row satisfies the condition."""


def _delete_by_rows(change: RowChange, target: TargetRows, *, expr: pl.Expr) -> None:
    write_deletes(change, target, expr)


def _delete_stored_rows(change: RowChange, target: TargetRows, *, expr: pl.Expr) -> None:
    stored = target.file_rows(expr)
    marked = stored.matching_row_numbers(expr)
    delete_rows(change, stored, marked)
    change.affected_row_count += len(marked)


def merge_applies_deletes(ctx: TableContext) -> bool:
    """Return whether the table's merge engine deletes a key when it reads a row of kind -D (ENGINE 1.6).

    The option `ignore-delete` is not considered: `check_deletes` checks it.
    """
    rule = merge.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name)
    removes = rule.removes_on_delete or bool(ctx.options.partial_update_remove_record_on_sequence_group)
    return rule.engine == "deduplicate" or (rule.engine in ("partial-update", "aggregation") and removes)


def check_deletes(ctx: TableContext) -> None:
    """Raise `InvalidOption` if the option `ignore-delete` drops rows of kind -D."""
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
        change.affected_row_count += batch.height


def as_deletes(rows: pl.DataFrame, ctx: TableContext) -> pl.DataFrame:
    """Return rows of a key table with kind -D, also in the column that `rowkind.field` names."""
    own = ctx.options.rowkind_field
    kind_column = [] if own is None else [pl.lit("-D", pl.String).alias(own)]
    return rows.with_columns(*kind_column, pl.lit(int(RowKind.DELETE), pl.Int8).alias(KIND))


# ---- assignments ------------------------------------------------------------


def resolve_assignments(
    values: Mapping[str, object], ctx: TableContext, schema: Mapping[str, pl.DataType], *, argument: str
) -> dict[str, pl.Expr]:
    """Return an expression over columns `schema` for each column of the table that gets a value.

    `argument`: the name of the argument, for error messages.

    Raises: `ColumnNotFound`, `SchemaMismatch`, `TypeError` if `values` is no mapping.
    """
    if not hasattr(values, "items") or not values or not all(isinstance(name, str) for name in values):
        msg = f"{argument} takes the new values by column, such as {{'v': pl.col('v') + 1}}, not {values!r}"
        raise TypeError(msg)
    expressions = {}
    for name, value in values.items():
        if not ctx.schema.has(name):
            raise make_column_not_found(name, list(ctx.schema.names), ctx.name, argument)
        expressions[name] = _resolve_value(name, value, ctx, schema, argument=f"{argument}[{name!r}]").alias(name)
    return expressions


def _resolve_value(
    name: str, value: object, ctx: TableContext, schema: Mapping[str, pl.DataType], *, argument: str
) -> pl.Expr:
    if not isinstance(value, (pl.Expr, str)):
        return pl.lit(input_frames.dicts_to_frame([{name: value}], ctx).get_column(name)).first()
    if isinstance(value, str):
        value = translate_value(value, polars_type(ctx.schema.field(name).type), schema, ctx.name, argument)
    expr, _ = resolve_expression(value, schema, ctx.name, argument)
    if (beyond := non_elementwise_reason(expr, schema)) is not None:
        raise SchemaMismatch(
            f"{argument}={format_expression(expr)} for {ctx.name} {beyond}. A new value is made of its own row alone",
            column=name,
        )
    return expr


# ---- update validation ------------------------------------------------------------


_MERGED_SUFFIX = internal("merged")
"""The suffix of the names of merged columns."""


def check_update_survives_merge(old: pl.DataFrame, new: pl.DataFrame, names: Sequence[str], ctx: TableContext) -> None:
    """Raise `InvalidOption` where a new value of a column in `names` would be lost by merging.

        partial-update, {"v": None}            v keeps its older value      refused: the update would change nothing
        sequence.field = q, {"v": 2, "q": 3}   the row with q = 9 stays     refused

    The rows are merged as reading merges them, so that all merge options of the table count.
    """
    rule = merge.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name)
    if not old.height or (rule.engine == "deduplicate" and not rule.sequence_fields):
        return
    keys = list(dict.fromkeys((*ctx.schema.partition_keys, *ctx.schema.primary_keys)))
    own = cols(ctx.schema.names)
    both = pl.concat(
        [_as_version(old.select(own), RowKind.INSERT, 0), _as_version(new.select(own), RowKind.UPDATE_AFTER, 1)]
    )
    merged = merge.merge_section(both, replace(rule, key_columns=tuple(keys), needs_lookup=False))
    pairs = new.select(own).join(
        merged.select(own), on=cols(keys), how="left", nulls_equal=True, suffix=_MERGED_SUFFIX, maintain_order="left"
    )
    for name in (name for name in names if name not in keys):
        lost = pairs.filter(col(name).ne_missing(col(name + _MERGED_SUFFIX)))
        if lost.height:
            raise _lost_update(name, lost[name][0], lost[name + _MERGED_SUFFIX][0], rule, ctx)


def _as_version(rows: pl.DataFrame, kind: RowKind, number: int) -> pl.DataFrame:
    return rows.with_columns(pl.lit(int(kind), pl.Int8).alias(KIND), pl.lit(number, pl.Int64).alias(SEQUENCE))


def _lost_update(name: str, wanted: object, left: object, spec: MergeSpec, ctx: TableContext) -> InvalidOption:
    group = spec.group_of(name)
    fields = spec.sequence_fields if group is None else group.columns
    if fields:
        key, value = (
            "sequence.field" if group is None else f"fields.{','.join(fields)}.sequence-group",
            ",".join(fields),
        )
        why = (
            f"rows are ordered by {', '.join(fields)}, and the new one is older, or has none: give {fields[0]} a "
            "value that is not below the old one"
        )
    else:
        key, value = "merge-engine", spec.engine
        why = (
            f"merge engine {spec.engine} keeps the older value of a column that is NULL, or makes one of both: delete "
            "the row and write another"
        )
    message = (
        f"{name!r} of {ctx.name} would be {left!r} after the update, and not {wanted!r}: {why}. Nothing was changed"
    )
    return InvalidOption(message, key=key, value=value)


# ---- update ------------------------------------------------------------


_DELETE_ENGINES = ("deduplicate", "partial-update")
COMPUTED_VALUE_HINTS = ErrorHints(cast=" where the value is made")
"""Advice in error messages about rows that a statement computes: the statement casts nothing by itself."""


def update(ctx: TableContext, values: Mapping[str, object], where: pl.Expr | str) -> RowChangeResult:
    """Set columns in the rows for which `where` is true, in one commit; without such rows there is no commit.

    Raises: `InvalidOption` for a merge engine without updates, and if merging would undo a new value; `SchemaMismatch`
    for a column of the primary key; the errors of `delete` for conditions, the errors of appending for values;
    `Conflict`.
    """
    return update_spec(ctx, values, where).commit()


def update_spec(ctx: TableContext, values: Mapping[str, object], where: pl.Expr | str) -> RowChangeSpec:
    """Return the change that `update` makes.

    Raises the same errors as `update` for the engine, the condition and the columns.
    """
    check_merge_engine(ctx, "Update")
    target = TargetRows.at_newest(ctx)
    expr, new = condition_on_table(where, ctx), resolve_assignments(values, ctx, target.schema, argument="set")
    check_keys_kept(ctx, new)
    does = (
        _write_new_rows
        if ctx.kind == "key"
        else _update_by_vectors
        if ctx.options.deletion_vectors_enabled
        else _rewrite_files
    )
    return RowChangeSpec(
        ctx=ctx,
        target=target,
        where=expr,
        only_adds=ctx.kind == "append",
        fill=partial(_run_update, write_rows=does, expr=expr, values=list(new.values())),
        by_bucket=is_row_wise(expr, target.schema),
    )


def _run_update(
    change: RowChange,
    target: TargetRows,
    *,
    write_rows: Callable[[RowChange, TargetRows, pl.Expr, list[pl.Expr]], None],
    expr: pl.Expr,
    values: list[pl.Expr],
) -> None:
    if target.snapshot is not None and target.always(expr) is not False:
        write_rows(change, target, expr, values)


def _write_new_rows(change: RowChange, target: TargetRows, expr: pl.Expr, values: list[pl.Expr]) -> None:
    """Write new rows over the old ones. Raises `InvalidOption` if merging would lose a new value."""
    names = [value.meta.output_name() for value in values]
    for batch in target.batches(expr):
        new = apply_assignments(batch, values, change.ctx)
        check_update_survives_merge(batch, new, names, change.ctx)
        change.write(new.with_columns(pl.lit(int(RowKind.UPDATE_AFTER), pl.Int8).alias(KIND)))
        change.affected_row_count += new.height


def check_merge_engine(ctx: TableContext, operation: str) -> None:
    """Raise `InvalidOption` if the merge engine of a key table does not support a statement (ENGINE 8.4).

    `operation`: the name of the statement, for the message.
    """
    engine = ctx.options.merge_engine
    if ctx.kind == "key" and engine not in _DELETE_ENGINES:
        instead = (
            "write rows with t.upsert(…), which it merges"
            if engine == "aggregation"
            else "its first row of a key stands"
        )
        raise InvalidOption(
            f"merge engine {engine} can not support {operation}, currently only {', '.join(_DELETE_ENGINES)} can "
            "support "
            f"{operation}. "
            f"{ctx.name} has that engine: {instead}",
            key="merge-engine",
            value=engine,
        )


def check_keys_kept(ctx: TableContext, names: Iterable[str]) -> None:
    """Raise `SchemaMismatch` where an UPDATE sets a column of the primary key."""
    if keys := [name for name in names if name in ctx.schema.primary_keys]:
        raise SchemaMismatch(
            f"Can't update the primary key column. {keys[0]!r} is one of {ctx.name}: delete the row and write another",
            column=keys[0],
        )


def check_key_unchanged(old: pl.DataFrame, new: pl.DataFrame, ctx: TableContext) -> None:
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


def apply_assignments(rows: pl.DataFrame, values: list[pl.Expr], ctx: TableContext) -> pl.DataFrame:
    """Return rows with new values, cast to the table's types. Raises `SchemaMismatch`, `ValueOutOfRange`."""
    with translate_compute_errors(ctx.name):
        made = run_expressions(rows, lambda frame: frame.with_columns(values))
    return pl.concat(
        [
            row_conversion.empty_frame(ctx),
            *row_conversion.convert_batches(made.select(cols(ctx.schema.names)), ctx, error_hints=COMPUTED_VALUE_HINTS),
        ]
    )


def _update_by_vectors(change: RowChange, target: TargetRows, expr: pl.Expr, values: list[pl.Expr]) -> None:
    """Mark old rows by deletion vectors, and append new ones."""
    stored, marked = target.file_rows(expr), BitMap()
    for batch in stored.batches(stored.rows(expr)):
        marked |= BitMap(batch[ROW].to_numpy())
        change.write(apply_assignments(batch, values, change.ctx))
    write_deletion_vectors(change, stored, marked)
    change.affected_row_count += len(marked)


def _rewrite_files(change: RowChange, target: TargetRows, expr: pl.Expr, values: list[pl.Expr]) -> None:
    """Rewrite the files with marked rows, each row in its place."""
    stored = target.file_rows(expr)
    marked = stored.matching_row_numbers(expr)
    touched = stored.files_with_marks(marked)
    for at in touched:
        file_rows, positions = stored.select_files([at]), stored.positions(at, marked)
        for batch in file_rows.batches(file_rows.rows(skips_by_index=False)):
            hit = pl.Series(np.isin(batch[ROW].to_numpy(), positions))
            change.write(_update_batch(batch, hit, values, change.ctx))
    delete_files(change, stored, touched)
    change.affected_row_count += len(marked)


def _update_batch(batch: pl.DataFrame, hit: pl.Series, values: list[pl.Expr], ctx: TableContext) -> pl.DataFrame:
    """Return a batch in which some rows have new values; the others are as they were."""
    if not hit.any():
        return batch.drop(ROW)
    old, unchanged = batch.filter(hit), batch.filter(~hit)
    new = apply_assignments(old, values, ctx).with_columns(old[ROW])
    return pl.concat([unchanged.select(cols(new.columns)), new]).sort(ROW).drop(ROW)
