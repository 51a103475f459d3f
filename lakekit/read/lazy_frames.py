"""Plans as LazyFrames: a native scan for files without merge, a source for each bucket with one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.bucket import merge_read as buckets
from lakekit.columns import FILE, KIND, LEVEL, ROW_KIND, SEQUENCE, col, cols
from lakekit.data_file import deletion_vector_reader, row_kinds, schema_evolution
from lakekit.data_file.paths import data_file_paths
from lakekit.data_file.reader import scan_files
from lakekit.errors import SchemaMismatch
from lakekit.format.polars_types import polars_schema
from lakekit.model.data_file import KIND_TEXTS
from lakekit.read import sections

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.table_schema import TableSchema
    from lakekit.read.planner import Plan
    from lakekit.types import Field

KIND_COLUMNS = (KIND,)
KIND_AND_SEQUENCE = (KIND, SEQUENCE)
_TEXT_OF_KIND = dict(enumerate(KIND_TEXTS))


def scan_merged(
    plans: Sequence[Plan], fields: Sequence[Field], *, system: Sequence[str] = (), keeps_deletes: bool = False
) -> pl.LazyFrame:
    """Return the rows of a table: those that need no merge, then those of each bucket that does.

    `system` may add `_VALUE_KIND` and, to key tables, `_SEQUENCE_NUMBER`; `keeps_deletes` keeps deletes that are the
    newest version of their key.
    """
    parts: list[pl.LazyFrame] = []
    for plan in plans:
        vectors, own = _load_deleted_positions(plan), fields_of_branch(plan, fields)
        parts += _scan_unmerged(plan, own, vectors, system=system, keeps_deletes=keeps_deletes)
        if plan.merged_buckets:
            parts.append(
                buckets.merge_lazily(merge_tasks(plan, vectors, keeps_deletes=keeps_deletes), own, system=system)
            )
    return _concat_frames(parts, plans[0], fields, system)


def scan_raw_rows(plan: Plan, fields: Sequence[Field], system: Sequence[str] = KIND_COLUMNS) -> pl.LazyFrame:
    """Every row of the plan's files as it lies, with `_VALUE_KIND`, of key tables with all of `system`."""
    parts = (
        []
        if not len(plan.raw_indices)
        else [
            _scan_entries(
                plan, plan.raw_indices, fields_of_branch(plan, fields), system if plan.spec is not None else []
            )
        ]
    )
    if plan.spec is None:
        parts = [part.with_columns(pl.lit(0, pl.Int8).alias(KIND)) for part in parts]
    return _concat_frames(parts, plan, fields, system)


def fields_of_branch(plan: Plan, fields: Sequence[Field]) -> Sequence[Field]:
    """Return the columns with the field ids of the branch that is read.

    A fallback branch has its own ids for columns of the same names.
    """
    schema = plan.ctx.schema
    return schema.fields_of(field.name for field in fields) if schema.id < 0 else fields


def scan_stored_versions(plan: Plan, fields: Sequence[Field]) -> pl.LazyFrame:
    """Return every stored version: the columns, then `_SEQUENCE_NUMBER`, `_row_kind`, `_level`, `_file`.

    Append tables store neither sequence number nor kind.
    """
    check_raw_column_names(plan.ctx, fields)
    system = [SEQUENCE, KIND] if plan.spec is not None else []
    names = [field.name for field in fields]
    if not len(plan.raw_indices):
        columns = {SEQUENCE: pl.Int64(), ROW_KIND: pl.String(), "_level": pl.Int32(), "_file": pl.String()}
        return pl.LazyFrame(schema={**_frame_schema(plan, fields), **columns})
    frame = _scan_entries(plan, plan.raw_indices, fields, [*system, LEVEL, FILE])
    if plan.spec is None:
        frame = frame.with_columns(pl.lit(None, pl.Int64).alias(SEQUENCE), pl.lit(0, pl.Int8).alias(KIND))
    return frame.select(
        *cols(names),
        SEQUENCE,
        _format_kind().alias(ROW_KIND),
        pl.col(LEVEL).alias("_level"),
        pl.col(FILE).alias("_file"),
    )


STORED_VERSION_COLUMNS = (SEQUENCE, ROW_KIND, "_level", "_file")
"""The columns that stored versions have behind those of the table."""


def check_raw_column_names(ctx: TableContext, fields: Sequence[Field]) -> None:
    """Raise `SchemaMismatch` if a column of the table is called like one that stored versions add."""
    own = next((field.name for field in fields if field.name in STORED_VERSION_COLUMNS), None)
    if own is not None:
        msg = (
            f"{ctx.name} has a column {own!r} of its own, and stored versions of rows carry "
            f"{', '.join(STORED_VERSION_COLUMNS)} "
            "beside the table's columns: "
            f"rename it (t.alter(lk.rename_column({own!r}, …))) to see them, or read the merged rows with t.scan()"
        )
        raise SchemaMismatch(msg, column=own)


def scan_difference(
    before: Plan,
    after: Plan,
    fields: Sequence[Field],
    system: Sequence[str] = KIND_COLUMNS,
    *,
    keeps_deletes: bool = True,
) -> pl.LazyFrame:
    """Return how the rows of `after` differ from those of `before`, with `system`, `_VALUE_KIND` among it.

    Without `keeps_deletes` neither state has deletes.
    """
    assert after.spec is not None
    options = after.ctx.options
    # writers agree on the bucket of a key by the default function alone (`hashing.functions_of_writers`)
    is_told_by_key = options.bucket >= 0 and options.bucket_function_type == "default"
    side = partial(
        _scan_merged_plan if is_told_by_key else _scan_with_bucket, fields=fields, keeps_deletes=keeps_deletes
    )
    old, new = side(before), side(after)
    return sections.diff_frames(old, new, after.ctx, after.spec).select(
        cols([*(field.name for field in fields), *system])
    )


def _scan_merged_plan(plan: Plan, fields: Sequence[Field], *, keeps_deletes: bool) -> pl.LazyFrame:
    return scan_merged([plan], fields, system=sections.SYSTEM_COLUMNS, keeps_deletes=keeps_deletes)


def _scan_with_bucket(plan: Plan, fields: Sequence[Field], *, keeps_deletes: bool) -> pl.LazyFrame:
    """Return the merged rows with the number of their bucket."""
    numbers = plan.entries.integers("bucket")
    parts = []
    for number in np.unique(numbers[plan.selected_indices]).tolist():  # scalar: one a bucket
        bucket_plan = replace(
            plan,
            raw_indices=plan.raw_indices[numbers[plan.raw_indices] == number],
            merged_buckets=tuple(bucket for bucket in plan.merged_buckets if bucket.bucket == number),
        )
        parts.append(
            _scan_merged_plan(bucket_plan, fields, keeps_deletes=keeps_deletes).with_columns(
                pl.lit(number, pl.Int32).alias(sections.BUCKET)
            )
        )
    return (
        pl.concat(parts)
        if parts
        else _scan_merged_plan(plan, fields, keeps_deletes=keeps_deletes).with_columns(
            pl.lit(0, pl.Int32).alias(sections.BUCKET)
        )
    )


def select_changes(
    frame: pl.LazyFrame, kind_column: str | None, fields: Sequence[Field], system: Sequence[str] = KIND_COLUMNS
) -> pl.LazyFrame:
    """Return changes with their kind first; without `kind_column` only the rows that were added or updated to."""
    if kind_column is not None:
        return kinds_first(frame, kind_column, fields, system)
    return frame.filter(_is_addition()).select(col(field.name) for field in fields)


def kinds_first(
    frame: pl.LazyFrame, kind_column: str, fields: Sequence[Field], system: Sequence[str] = KIND_COLUMNS
) -> pl.LazyFrame:
    """Return `_VALUE_KIND` as text, named `kind_column`, then the rest of `system`, then the columns."""
    names = [*(name for name in system if name != KIND), *(field.name for field in fields)]
    return frame.select(_format_kind().alias(kind_column), *cols(names))


def deletes_first(frame: pl.LazyFrame, schema: TableSchema, fields: Sequence[Field]) -> pl.LazyFrame:
    """Return the rows of a change, with `_VALUE_KIND`, in an order in which a copy by key can apply them.

    Files come partition by partition, and a key that moved from a later one to an earlier one would come before its
    delete. So keys that end as deleted go first; rows of one key and partition stay in their order.
    """
    if not schema.cross_partition:
        return frame
    ids = {field.id for field in (*schema.key_fields, *schema.partition_fields)}
    stays = pl.col(KIND).last().over([col(field.name) for field in fields if field.id in ids]) & 1 == 0
    return frame.sort(stays, maintain_order=True)


def merge_tasks(
    plan: Plan, vectors: Mapping[str, NDArray[np.unsignedinteger]], *, keeps_deletes: bool = False
) -> list[buckets.MergeTask]:
    """Return the merge task of each bucket with overlapping files."""
    if plan.spec is None or not plan.merged_buckets:
        return []
    merged_entries = plan.entries.take([at for bucket in plan.merged_buckets for at in bucket.files])
    files, paths = merged_entries.files(), data_file_paths(plan.ctx, merged_entries)
    ends = list(accumulate(len(bucket.files) for bucket in plan.merged_buckets))
    return [
        buckets.MergeTask(
            ctx=plan.ctx,
            files=tuple(files[end - len(bucket.files) : end]),
            paths=tuple(paths[end - len(bucket.files) : end]),
            spec=plan.spec,
            is_in_sequence=bucket.is_in_sequence,
            key_conditions=plan.scan_filter.key_conditions,
            deletions=vectors,
            keeps_deletes=keeps_deletes,
            snapshot_id=None if plan.snapshot is None else plan.snapshot.id,
        )
        for bucket, end in zip(plan.merged_buckets, ends, strict=True)
    ]


def _scan_unmerged(
    plan: Plan,
    fields: Sequence[Field],
    vectors: Mapping[str, NDArray[np.unsignedinteger]],
    *,
    system: Sequence[str],
    keeps_deletes: bool,
) -> list[pl.LazyFrame]:
    """Return the frames of files that need no merge, without deletes.

    Only files that may hold deletes are read with their kinds.
    """
    if not len(plan.raw_indices):
        return []
    if plan.spec is None:
        frame = _scan_entries(plan, plan.raw_indices, fields, [], vectors)
        return [frame.with_columns(pl.lit(0, pl.Int8).alias(KIND)) if KIND in system else frame]
    doubts = row_kinds.may_retract(plan.ctx, plan.entries, plan.raw_indices)
    clean, other = plan.raw_indices[~doubts], plan.raw_indices[doubts]
    parts = []
    if len(clean):
        parts.append(_scan_entries(plan, clean, fields, system, vectors))
    if len(other):
        frame = _scan_entries(plan, other, fields, system if KIND in system else [*system, KIND], vectors)
        if not keeps_deletes:
            frame = frame.filter(_is_addition())
        parts.append(frame if KIND in system else frame.drop(KIND))
    return parts


def _scan_entries(
    plan: Plan,
    rows: NDArray[np.int64],
    fields: Sequence[Field],
    system: Sequence[str],
    vectors: Mapping[str, NDArray[np.unsignedinteger]] | None = None,
) -> pl.LazyFrame:
    number = None if plan.snapshot is None else plan.snapshot.id
    # the null counts of a file tell which of the columns it lacks
    entries = plan.entries.take(rows) if len(rows) < len(plan.entries) else plan.entries
    files = entries.files_to_read(with_null_counts=bool(schema_evolution.select_possibly_missing(plan.ctx, fields)))
    paths = data_file_paths(plan.ctx, entries)
    masks = {} if not vectors and all(_is_filtered(plan, file) for file in files) else plan.matching_positions
    return scan_files(
        plan.ctx, files, paths, fields, system=system, deleted_rows=vectors, selected_rows=masks, snapshot_id=number
    )


def _is_filtered(plan: Plan, file: DataFileMeta) -> bool:
    """Return whether the query's filters reach the decoder of a file.

    Such a decoder reads the filters' columns in any case, and finds the rows that an index selects by itself.
    """
    return file.format_name == "parquet" and file.schema_id == plan.ctx.schema.id


def _load_deleted_positions(plan: Plan) -> Mapping[str, NDArray[np.unsignedinteger]]:
    """Return the deleted positions of the files that will be read, by file name."""
    if not plan.vector_entries:
        return {}
    names = plan.entries.column("file_name").take(plan.selected_indices).to_pylist()  # scalar: one a file
    return deletion_vector_reader.load_positions(
        plan.ctx, {name: plan.vector_entries[name] for name in names if name in plan.vector_entries}
    )


def _concat_frames(
    parts: list[pl.LazyFrame], plan: Plan, fields: Sequence[Field], system: Sequence[str]
) -> pl.LazyFrame:
    if not parts:
        return pl.LazyFrame(schema=_frame_schema(plan, fields) | {name: buckets.SYSTEM_DTYPES[name] for name in system})
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def kind_schema(kind_column: str, *, numbered: bool) -> dict[str, pl.DataType]:
    """Return the columns that `kinds_first` puts before those of the table."""
    return {kind_column: pl.String(), **({SEQUENCE: pl.Int64()} if numbered else {})}


def _frame_schema(plan: Plan, fields: Sequence[Field]) -> dict[str, pl.DataType]:
    return dict(polars_schema(fields, timestamp_unit=plan.ctx.options.lakekit_timestamp_unit))


def _is_addition() -> pl.Expr:
    """Return the condition for +I and +U, which add rows; -U and -D retract."""
    return pl.col(KIND) & 1 == 0


def _format_kind() -> pl.Expr:
    """Return the kind as text; a number that is no kind raises `Corrupt`."""
    return pl.col(KIND).map_batches(_format_kinds, return_dtype=pl.String, is_elementwise=True)


def _format_kinds(kinds: pl.Series) -> pl.Series:
    buckets.check_row_kinds(kinds)
    return kinds.replace_strict(_TEXT_OF_KIND, return_dtype=pl.String)
