"""Run a task of a read in an executor: its bytes become a plan, the plan rows, the rows Arrow batches.

A `ReadJob` is all that the tasks of one frame have in common; it travels with Spark's function, once a task. Only the
shape of the batches is Spark's here: merging, schema evolution and deleted rows are handled as in every read of
lakekit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lakekit.bucket import merge_read as buckets, slices
from lakekit.codec.index_files import ENTRY_EXTRA
from lakekit.columns import col
from lakekit.data_file import deletion_vector_reader
from lakekit.errors import Corrupt
from lakekit.format.polars_types import polars_schema
from lakekit.model import manifest_entries
from lakekit.model.index_file import DELETION_VECTORS, DeletionRange, IndexManifestEntry
from lakekit.read import damage, lazy, lazy_frames, row_groups
from lakekit.read.condition import ScanFilter
from lakekit.read.planner import Plan, rule_of
from lakekit.read.sections import MergedBucket
from lakekit.spark.task import decode
from lakekit.spark.types import to_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    import polars as pl
    import pyarrow as pa

    from lakekit.bucket.merge_read import MergeTask
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.split import DeletionFile, Split
    from lakekit.spark.task import ReadTask, SplitPiece
    from lakekit.types import Field

BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """What the tasks of a read have in common.

    They read the columns `fields` of the table and return `out`, with the kind of each row before them where
    `kind_column` names one. `how`: "state", the rows of a table; "written", rows of files as stored; "difference" of
    two states. `where` is applied to every row; `on_key` are its conjuncts on key columns, which merges apply early.
    `keeps_deletes`: rows whose newest version is a delete stay.
    """

    ctx: TableContext
    fields: tuple[Field, ...]
    out: tuple[Field, ...]
    how: Literal["state", "written", "difference"] = "state"
    where: pl.Expr | None = None
    on_key: tuple[pl.Expr, ...] = ()
    kind_column: str | None = None
    numbered: bool = False
    keeps_deletes: bool = False

    @property
    def system(self) -> Sequence[str]:
        """The system columns that are read."""
        if self.kind_column is None and self.how == "state":
            return ()
        return lazy_frames.KIND_AND_SEQUENCE if self.numbered else lazy_frames.KINDS


def rows(job: ReadJob, data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, given as its bytes."""
    for frame in read_frames(job, data):
        for part in frame.iter_slices(BATCH_ROWS):
            yield to_batch(part, job.out)


def read_frames(job: ReadJob, data: bytes) -> Iterator[pl.DataFrame]:
    """Yield the rows of a task as Polars frames."""
    task = decode(data)
    if task.slices > 1:
        yield _slice(job, task)
    else:
        with damage.translate_read_errors(lambda: [_plan(job, task.pieces)]):
            yield from _frame(job, task).collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)


def _frame(job: ReadJob, task: ReadTask) -> pl.LazyFrame:
    """Return the rows of whole splits."""
    plan = _plan(job, [piece for piece in task.pieces if not piece.before])
    match job.how:
        case "state":
            frame = lazy_frames.scan_merged([plan], job.fields, system=job.system, keeps_deletes=job.keeps_deletes)
        case "written":
            frame = lazy_frames.scan_raw_rows(plan, job.fields, job.system)
        case "difference":
            earlier = _plan(job, [piece for piece in task.pieces if piece.before])
            frame = lazy_frames.difference(
                earlier, plan, job.fields, job.system, keeps_deletes=job.kind_column is not None
            )
    return _filter_and_project(job, frame)


def _filter_and_project(job: ReadJob, frame: pl.LazyFrame) -> pl.LazyFrame:
    if job.kind_column is not None or job.how != "state":
        frame = lazy_frames.select_changes(frame, job.kind_column, job.fields, job.system)
    if job.where is not None:
        frame = lazy.filter_rows(frame, job.where, polars_schema(job.fields, timestamp_unit="us"))
    return frame.select(col(field.name) for field in job.out)


def _slice(job: ReadJob, task: ReadTask) -> pl.DataFrame:
    """Return the rows of one slice of a merge."""
    plan = _plan(job, task.pieces)
    merges = lazy_frames.tasks(
        plan, deletion_vector_reader.load(plan.ctx, plan.vectors), keeps_deletes=job.keeps_deletes
    )
    pieces = split_merge(merges[0], task.slices) if merges else []
    if task.slice >= len(pieces):
        raise Corrupt(
            f"a task of a read asks for slice {task.slice}, and its files are cut into {len(pieces)}", field="slice"
        )
    names = [*(field.name for field in job.fields), *job.system]
    where = job.where
    if where is not None:
        where = None if row_groups.may_fail(where, polars_schema(job.fields)) else row_groups.hide_calculated(where)
    frame = buckets.rows(pieces[task.slice], names, where)
    return _filter_and_project(job, frame.lazy()).collect()


def split_merge(merge: MergeTask, count: int) -> list[MergeTask]:
    """Split a merge into `count` slices of its key range; the result is the same in every process.

    There are fewer slices where the files do not say where to cut.
    """
    size_bytes = -(-slices.decoded_bytes(merge) // count)
    return slices.split_by_key_range(
        replace(merge, ctx=merge.ctx.with_options({"lakekit.merge-memory": f"{max(1, size_bytes)} b"}))
    )


# ---- splits -> plan --------------------------------------------------------------------------------------------------


def _plan(job: ReadJob, pieces: Sequence[SplitPiece]) -> Plan:
    """Return the plan that consists of these pieces."""
    listed = [
        (
            manifest_entries.ADD,
            split_piece.split.partition,
            split_piece.split.bucket,
            split_piece.split.total_buckets or 0,
            file,
        )
        for split_piece in pieces
        for file in split_piece.split.files
    ]
    ends = np.cumsum([len(piece.split.files) for piece in pieces], dtype=np.int64)
    starts = ends - [len(piece.split.files) for piece in pieces]
    file_ranges = [range(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]
    raw = [at for piece, indices in zip(pieces, file_ranges, strict=True) if piece.split.raw for at in indices]
    merged = [
        MergedBucket(
            partition=piece.split.partition, bucket=piece.split.bucket, files=tuple(indices), in_order=piece.in_order
        )
        for piece, indices in zip(pieces, file_ranges, strict=True)
        if not piece.split.raw
    ]
    return Plan(
        ctx=job.ctx,
        snapshot=None,
        entries=manifest_entries.of_rows(listed),
        raw=np.array(raw, np.int64),
        merged=tuple(merged),
        rule=rule_of(job.ctx),
        condition=ScanFilter(on_key=job.on_key),
        vectors={name: entry for piece in pieces for name, entry in _vectors(job.ctx, piece.split).items()},
    )


def _vectors(ctx: TableContext, split: Split) -> dict[str, IndexManifestEntry]:
    """Return the location of each file's deletion vector, as an index manifest has it."""
    by_path: dict[str, list[tuple[str, DeletionFile]]] = {}
    for name, deletion in split.deletions.items():
        by_path.setdefault(deletion.path, []).append((name, deletion))
    vectors: dict[str, IndexManifestEntry] = {}
    for path, inside in by_path.items():
        end = max(vector.offset + vector.length + ENTRY_EXTRA for _, vector in inside)
        entry = IndexManifestEntry(
            index_type=DELETION_VECTORS,
            file_name=path.rpartition("/")[2],
            # a split does not say it, and the last vector may be the shorter kind
            file_size_bytes=min(end, ctx.storage.size(path)),
            row_count=len(inside),
            ranges=tuple(
                DeletionRange(
                    file_name=name, offset=vector.offset, length=vector.length, cardinality=vector.cardinality
                )
                for name, vector in inside
            ),
            external_path=path,
            partition=split.partition,
            bucket=split.bucket,
        )
        vectors |= {name: entry for name, _ in inside}
    return vectors
