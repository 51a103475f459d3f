"""The rows that a change applies to in one snapshot: merged rows, or rows of files by position.

    target = TargetRows.at_newest(ctx)
    target.batches(expr)               rows of the table that satisfy a condition, streamed
    target.file_rows(expr).matching_row_numbers(expr)
                                       the same rows as numbers that count the rows of all files, in order

Source: ENGINE.md 8.3 and 8.4; `PaimonRowLevelCommand`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import polars as pl
import pyarrow.compute as pc
from pyroaring import BitMap

from lakekit.codec import hashing
from lakekit.columns import ROW, collect_batches, cols
from lakekit.data_file import deletion_vector_reader, row_kinds
from lakekit.data_file.paths import bucket_id_at, data_file_paths
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.errors import Corrupt, InvalidOption, LimitExceeded
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import snapshots, table_context
from lakekit.predicate import FALSE, TRUE
from lakekit.read import lazy_frames, planner as plans, polars_pushdown
from lakekit.read.filter_pushdown import filter_to_pyarrow_text
from lakekit.read.polars_pushdown import ScanFilter, parse_exact
from lakekit.read.time_travel import Position
from lakekit.read.user_expressions import is_row_wise, translate_compute_errors, used_columns
from lakekit.write import bucket_assigners

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.planner import Plan

    Positions = NDArray[np.unsignedinteger]


def check_row_buckets(plan: Plan, expr: pl.Expr | None) -> None:
    """Raise `Corrupt` if a matching row of a key table lies in another bucket than that of its key.

    pypaimon 2.1.0 places rows by the default function whatever `bucket-function.type` says. A delete or a new version
    of such a key goes to the bucket of the option's function, and the row stays where it is. Tables with the default
    bucket function are not checked, since all writers agree on it.
    """
    ctx = plan.ctx
    if (
        ctx.kind != "key"
        or ctx.options.bucket < 1
        or len(hashing.writer_bucket_functions(ctx.options.bucket_function_type)) == 1
    ):
        return
    fields = bucket_assigners.bucket_fields(ctx)
    if not hashing.supports_bucket_key(ctx.options.bucket_function_type, [field.type for field in fields]):
        return  # never written: the writers refuse the table by name
    numbers = plan.entries.integers("bucket")
    for number in np.unique(numbers[plan.selected_indices]).tolist():  # scalar: one a bucket
        buckets = tuple(bucket for bucket in plan.merged_buckets if bucket.bucket == number)
        _check_bucket(
            replace(plan, raw_indices=plan.raw_indices[numbers[plan.raw_indices] == number], merged_buckets=buckets),
            expr,
            number,
        )


def _check_bucket(plan: Plan, expr: pl.Expr | None, bucket: int) -> None:
    ctx, fields = plan.ctx, bucket_assigners.bucket_fields(plan.ctx)
    frame = lazy_frames.scan_merged([plan], ctx.schema.fields)
    matching = frame if expr is None else polars_pushdown.filter_rows(frame, expr, polars_schema(ctx.schema.fields))
    with (
        translate_compute_errors(ctx.name),
        translate_polars_errors(ctx, data_file_paths(ctx, plan.entries.take(plan.selected_indices))),
    ):
        for batch in collect_batches(matching.select(cols([field.name for field in fields]))):
            columns, types = bucket_assigners.columns_to_arrow(batch, fields)
            right = hashing.assign_buckets(ctx.options.bucket_function_type, columns, types, ctx.options.bucket)
            if (right != bucket).any():
                raise _misplaced_rows(ctx, plan, bucket, int(right[right != bucket][0]))


def _misplaced_rows(ctx: TableContext, plan: Plan, bucket: int, right_bucket: int) -> Corrupt:
    [path] = data_file_paths(ctx, plan.entries.take(plan.selected_indices[:1]))
    function = ctx.options.bucket_function_type
    return Corrupt(
        f"rows of bucket {bucket} of {ctx.name} belong to bucket {right_bucket} by bucket-function.type={function}: "
        "another writer placed them otherwise, and what is written now would not replace them. Nothing was changed. "
        "Write the rows anew first: t.overwrite(t.scan().collect())",
        path=path,
        field="_BUCKET",
    )


# ---- matching rows ------------------------------------------------------------


_LOSSY_READ_OPTIONS = ("scan.ignore-lost-files", "scan.ignore-corrupt-files", "lakekit.timestamp-unit", "scan.bucket")
"""A caller's options of reading: what they hide or round must not decide what is kept."""
_MAX_ROWS = 2**32 - 2


@dataclass(frozen=True, kw_only=True)
class TargetRows:
    """A table at one snapshot, for a change.

    `snapshot` is None if the table has none. `bucket_ids`: read only these buckets, (partition, bucket); None: all.
    `file_share` (i, n): of the files that need no merge, read only part i of n.
    """

    ctx: TableContext
    snapshot: Snapshot | None
    bucket_ids: frozenset[tuple[bytes, int]] | None = None
    file_share: tuple[int, int] | None = None

    @staticmethod
    def at_newest(ctx: TableContext) -> TargetRows:
        """Return the rows of the branch's newest snapshot.

        Raises: `Unsupported` for a table that cannot be read.
        """
        table_context.check_writable(ctx)
        overrides = {key: None for key in _LOSSY_READ_OPTIONS if key in ctx.all_options}
        return TargetRows(ctx=ctx.with_options(overrides) if overrides else ctx, snapshot=snapshots.latest(ctx))

    @cached_property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The columns of its rows."""
        return polars_schema(self.ctx.schema.fields)

    def plan(self, expr: pl.Expr | None = None) -> Plan:
        """Return the plan that reads the rows that satisfy a condition."""
        scan_filter = ScanFilter() if expr is None else self._scan_filter(expr)
        plan = plans.plan_read(self.ctx, Position(snapshot=self.snapshot), scan_filter)
        if self.file_share is not None:
            number, count = self.file_share
            names = plan.entries.take(plan.raw_indices).column("file_name").to_pylist()  # scalar: one a file
            mine = [crc32(name.encode()) % count == number for name in names]
            plan = replace(plan, raw_indices=plan.raw_indices[np.array(mine, bool)])
        if self.bucket_ids is None:
            return plan
        raw = [at for at in plan.raw_indices if bucket_id_at(plan.entries, int(at)) in self.bucket_ids]
        merged = tuple(bucket for bucket in plan.merged_buckets if (bucket.partition, bucket.bucket) in self.bucket_ids)
        return replace(plan, raw_indices=np.array(raw, np.int64), merged_buckets=merged)

    def candidate_buckets(self, expr: pl.Expr | None) -> list[tuple[bytes, int]]:
        """Return the (partition, bucket) pairs that may hold rows which satisfy a condition."""
        plan = self.plan(expr)
        return sorted({bucket_id_at(plan.entries, int(at)) for at in plan.selected_indices})

    def batches(
        self, expr: pl.Expr | None, transform: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda rows: rows
    ) -> Iterator[pl.DataFrame]:
        """Yield the merged rows that satisfy a condition in batches, in full precision, transformed by `transform`.

        Raises: `Corrupt` and `FileMissing` with the path of the damaged file, `SchemaMismatch` for an expression that
        cannot be computed, `Corrupt` if such rows lie in another bucket than that of their keys.
        """
        plan = self.plan(expr)
        check_row_buckets(plan, expr)
        frame = lazy_frames.scan_merged([plan], self.ctx.schema.fields)
        matching = transform(frame if expr is None else polars_pushdown.filter_rows(frame, expr, self.schema))
        with (
            translate_compute_errors(self.ctx.name),
            translate_polars_errors(self.ctx, data_file_paths(self.ctx, plan.entries.take(plan.selected_indices))),
        ):
            yield from collect_batches(matching)

    def file_rows(self, expr: pl.Expr | None = None) -> FileRows:
        """Return the files that may hold matching rows, each row the only one of its key.

        Raises: `InvalidOption` if rows are merged from several files.
        """
        plan = self.plan(expr)
        if plan.merged_buckets or _may_retract(plan):
            engine = self.ctx.options.merge_engine
            raise InvalidOption(
                "Only compacted table can generate touched files, please use 'COMPACT' procedure first. "
                f"{self.ctx.name} has merge engine {engine}, which takes no deletes as rows, so files are rewritten: "
                "run t.compact(full=True), then delete",
                key="merge-engine",
                value=engine,
            )
        return FileRows.from_plan(plan, plan.raw_indices)

    def _scan_filter(self, expr: pl.Expr) -> ScanFilter:
        schema = self.ctx.schema
        return polars_pushdown.build_scan_filter(polars_pushdown.filters_of(expr, self.schema), schema)[0]

    # ---- what a condition says without reading rows

    def always(self, expr: pl.Expr) -> bool | None:
        """Return True if a condition holds of every row, False if of none, None if it depends on the row."""
        filters = [parse_exact(filter_to_pyarrow_text(term)) for term in polars_pushdown.filters_of(expr, self.schema)]
        if expr.meta.root_names() or len(filters) != 1:
            return None
        return {TRUE: True, FALSE: False}.get(filters[0]) if filters[0] is not None else None

    def partitions(self, expr: pl.Expr) -> list[bytes] | None:
        """Return the partitions, as serialized rows, for which a condition on partition columns holds.

        Returns None if the condition needs other columns.
        """
        names = set(used_columns(expr, self.schema))
        if not names or not names <= set(self.ctx.schema.partition_keys) or not is_row_wise(expr, self.schema):
            return None
        if self.snapshot is None:
            return []
        serialized = plans.load_live_entries(self.ctx, self.snapshot).column("partition").unique()
        with translate_compute_errors(self.ctx.name):
            chosen = plans.partition_frame(self.ctx, serialized).select(expr.fill_null(value=False)).to_series()
        return pl.Series(serialized).filter(chosen).to_list()  # scalar: one a partition

    def row_count_from_metadata(self, partitions: Collection[bytes] | None) -> int | None:
        """Return how many rows some partitions (serialized) hold; for `partitions` None, how many the table holds.

        Reads only metadata and deletion vectors. Returns None if these are not enough: files may hold several versions
        of a key, so that rows would have to be read.
        """
        plan = self.plan()
        deleted = plan.entries.column("delete_row_count")
        if plan.merged_buckets or (plan.spec is not None and (deleted.null_count or pc.sum(deleted).as_py())):
            return None
        entries = plan.entries.take(plan.raw_indices)
        if partitions is not None:
            own = [one in partitions for one in entries.column("partition").to_pylist()]  # scalar: one a file
            entries = entries.take(np.flatnonzero(own))
        names = entries.column("file_name").to_pylist()  # scalar: one a file
        vectors = {name: plan.vector_entries[name] for name in names if name in plan.vector_entries}
        marked = deletion_vector_reader.load_positions(plan.ctx, vectors) if vectors else {}
        return int(entries.integers("row_count").sum()) - sum(map(len, marked.values()))


def _may_retract(plan: Plan) -> bool:
    """Return whether a file that needs no merge may hold deletes.

    An unknown count of deletes means none in files above level 0.
    """
    if plan.spec is None:
        return False
    unknown = np.asarray(pc.is_null(plan.entries.column("delete_row_count")))[plan.raw_indices] & (
        plan.entries.integers("level")[plan.raw_indices] > 0
    )
    return bool((row_kinds.may_retract(plan.ctx, plan.entries, plan.raw_indices, reads_remote=True) & ~unknown).any())


@dataclass(frozen=True, kw_only=True)
class FileRows:
    """Files in an order, their rows numbered over all of them.

    `deleted_positions`: the positions of deleted rows, ascending, by file name.
    """

    plan: Plan
    entries: ManifestEntries
    files: tuple[DataFileMeta, ...]
    paths: tuple[str, ...]
    deleted_positions: Mapping[str, Positions]

    @staticmethod
    def from_plan(plan: Plan, indices: NDArray[np.int64]) -> FileRows:
        """Return the files of a plan at `indices`. Raises `LimitExceeded` for too many rows."""
        entries = plan.entries.take(indices)
        files = entries.files()
        names = {file.name: plan.vector_entries[file.name] for file in files if file.name in plan.vector_entries}
        if sum(file.row_count for file in files) > _MAX_ROWS:
            raise LimitExceeded(
                f"{plan.ctx.name}: this change would look through more than {_MAX_ROWS} rows. Make it a partition at "
                "a time"
            )
        return FileRows(
            plan=plan,
            entries=entries,
            files=tuple(files),
            paths=tuple(data_file_paths(plan.ctx, entries)),
            deleted_positions=deletion_vector_reader.load_positions(plan.ctx, names) if names else {},
        )

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The number of each file's first row, and of the row after the last."""
        return np.cumsum([0, *(file.row_count for file in self.files)])

    @cached_property
    def file_buckets(self) -> list[tuple[bytes, int, int]]:
        """Partition, bucket and number of buckets of each file."""
        columns = (
            self.entries.column(name).to_pylist() for name in ("partition", "bucket", "total_buckets")
        )  # scalar: one a file
        return list(zip(*columns, strict=True))

    def rows(self, expr: pl.Expr | None = None, *, skips_by_index: bool = True) -> pl.LazyFrame:
        """Return all rows, or those that satisfy a condition, with their numbers first.

        `skips_by_index`: leave out rows that, by the file indexes, cannot satisfy the plan's condition.
        """
        fields = self.plan.ctx.schema.fields
        frame = scan_files(
            self.plan.ctx,
            self.files,
            self.paths,
            fields,
            deleted_rows=self.deleted_positions,
            selected_rows=self.plan.matching_positions if skips_by_index else None,
            row_index=ROW,
            snapshot_id=self._snapshot_id,
        )
        return frame if expr is None else polars_pushdown.filter_rows(frame, expr, polars_schema(fields))

    def matching_row_numbers(self, expr: pl.Expr) -> BitMap:
        """Return the numbers of the rows that satisfy a condition."""
        matching = BitMap()
        for batch in self.batches(self.rows(expr).select(ROW)):
            matching |= BitMap(batch[ROW].to_numpy())
        return matching

    def unmarked_rows(self, index: int, marked: BitMap, system: Sequence[str] = ()) -> pl.LazyFrame:
        """Return the rows of one file that are not marked, in the file's order."""
        ctx, file = self.plan.ctx, self.files[index]
        deletions = {file.name: self.positions(index, marked, also_deleted=True)}
        return scan_files(
            ctx,
            [file],
            [self.paths[index]],
            ctx.schema.fields,
            system=system,
            deleted_rows=deletions,
            snapshot_id=self._snapshot_id,
        )

    def files_with_marks(self, marked: BitMap) -> list[int]:
        """Return the indices of the files that hold marked rows."""
        counts = [
            marked.range_cardinality(int(start), int(end))
            for start, end in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]
        return [at for at, count in enumerate(counts) if count]

    def positions(self, index: int, marked: BitMap, *, also_deleted: bool = False) -> NDArray[np.uint64]:
        """Return the positions of the marked rows of one file, ascending.

        `also_deleted`: include the positions of rows that were deleted before.
        """
        start, end = int(self.starts[index]), int(self.starts[index + 1])
        own = np.asarray((marked & BitMap(range(start, end))).to_array(), np.uint64) - np.uint64(start)
        before = self.deleted_positions.get(self.files[index].name) if also_deleted else None
        return own if before is None else np.union1d(own, before.astype(np.uint64))

    def select_files(self, indices: Sequence[int]) -> FileRows:
        """Return some of the files, with their rows numbered again from 0."""
        files, paths = tuple(self.files[index] for index in indices), tuple(self.paths[index] for index in indices)
        return FileRows(
            plan=self.plan,
            entries=self.entries.take(list(indices)),
            files=files,
            paths=paths,
            deleted_positions=self.deleted_positions,
        )

    def batches(self, frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
        """Yield the result of a query over the files, in batches, in order.

        Raises: `Corrupt` and `FileMissing` with the path of the damaged file.
        """
        with translate_compute_errors(self.plan.ctx.name), translate_polars_errors(self.plan.ctx, self.paths):
            yield from collect_batches(frame)

    @property
    def _snapshot_id(self) -> int | None:
        return None if self.plan.snapshot is None else self.plan.snapshot.id
