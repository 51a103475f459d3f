"""Tasks of a read: a plan divided into tasks, their bytes, and their rows in an executor.

    small files and small merges      some together in a task, up to a size that keeps all cores busy and is not
                                      above `source.split.target-size`
    a big merge                       as many tasks as it has slices
    a big file                        a task of its own

    4c 4b 52 54 | u8 version 1                             "LKRT"
    i32 slice | i32 slices                                 0 of 1: all of it; else its index among that many slices
    i32 count | count × (u8 flags | i32 size | split)      splits as `model.split` draws them
    u32 CRC32 of everything before

Sizes are those of the files; each counts for `source.split.open-file-cost` more, as opening it takes its time.

Big endian. Flags: 1 the order of the files is the order of versions, 2 of two states the earlier one. Only a task of
one split has slices. A task names files by partition, bucket and name: how to reach them is in the context, so no
secret is in these bytes.

A `ReadJob` is all that the tasks of one frame have in common, the context too; it travels with Spark's function, once a
task. Only the shape of the batches is Spark's here: merging, schema evolution and deleted rows are handled as in every
read of lakekit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from lakekit.bucket import merge_read
from lakekit.codec.cursor import Cursor
from lakekit.codec.index_files import ENTRY_OVERHEAD_BYTES
from lakekit.columns import col, collect_batches
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import paths_with_extra_files
from lakekit.errors import Corrupt, Unsupported
from lakekit.format.polars_types import polars_schema
from lakekit.model import manifest_entries, split as split_bytes
from lakekit.model.index_manifest import DELETION_VECTORS, DeletionRange, IndexManifestEntry
from lakekit.model.split import DeletionFile, Split
from lakekit.options.option import FrozenDict
from lakekit.read import filter_pushdown, lazy_frames, polars_pushdown, sections, table_scan
from lakekit.read.planner import Plan, merge_spec_of
from lakekit.read.polars_pushdown import ScanFilter
from lakekit.read.sections import MergedBucket
from lakekit.spark.types import to_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.bucket.merge_read import MergeTask
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.types import Field

    Ints = NDArray[np.int64]


MAGIC = b"LKRT"
VERSION = 1
_IN_ORDER, _BEFORE_STATE = 1, 2
_MIN_BYTES = 5
"""The least bytes of a split with its flags and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPiece:
    """A split and the order of its files.

    `is_in_sequence`: sequence numbers rise from file to file; `is_before_state`: of two states that are compared, the
    earlier one.
    """

    split: Split
    is_in_sequence: bool = False
    is_before_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """The splits that one Spark task reads.

    Or, of one split whose files are merged, the slice of number `slice` of `slices`.
    """

    pieces: tuple[SplitPiece, ...]
    slice: int = 0
    slices: int = 1


def encode_task(task: ReadTask) -> bytes:
    """Return the bytes of a task."""
    out = [MAGIC, bytes([VERSION]), _encode_i32(task.slice), _encode_i32(task.slices), _encode_i32(len(task.pieces))]
    for piece in task.pieces:
        data = split_bytes.encode_split(piece.split)
        out += [
            bytes([_IN_ORDER * piece.is_in_sequence | _BEFORE_STATE * piece.is_before_state]),
            _encode_i32(len(data)),
            data,
        ]
    body = b"".join(out)
    return body + crc32(body).to_bytes(4, "big")


def _encode_i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def decode_task(data: bytes) -> ReadTask:
    """Return the task of some bytes.

    Raises: `Corrupt`; `Unsupported` for a later version.
    """
    if data[:4] != MAGIC:
        raise Corrupt(f"a task of a read begins with {MAGIC!r}, found {data[:4]!r}", offset=0, field="magic")
    cursor = Cursor(data, offset=4, end=max(4, len(data) - 4))
    version = cursor.u8("version")
    if version != VERSION:
        msg = (
            f"a task of version {version}: this lakekit reads version {VERSION}. Install the same lakekit on the "
            "driver and the executors"
        )
        raise Unsupported(msg, feature="spark.read")
    if crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
        raise Corrupt("a task of a read does not fit its checksum", offset=len(data) - 4, field="crc")
    number, slices = cursor.i32be("slice"), cursor.i32be("slices")
    count = cursor.count("splits", each=_MIN_BYTES)
    if not 0 <= number < slices or (slices > 1 and count != 1):
        raise cursor.make_error(f"slice {number} of {slices} of {count} splits", "slice")
    pieces = tuple(_decode_piece(cursor) for _ in range(count))
    cursor.expect_end("task")
    return ReadTask(pieces=pieces, slice=number, slices=slices)


def _decode_piece(cursor: Cursor) -> SplitPiece:
    flags = cursor.u8("flags")
    if flags & ~(_IN_ORDER | _BEFORE_STATE):
        raise cursor.make_error(f"flags {flags}", "flags")
    split = split_bytes.decode_split(cursor.raw(cursor.count("size", each=1), "split"))
    return SplitPiece(split=split, is_in_sequence=bool(flags & _IN_ORDER), is_before_state=bool(flags & _BEFORE_STATE))


# ---- job ------------------------------------------------------------


BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """What the tasks of a read have in common.

    They read the columns `fields` of the table and return `output_fields`, with the kind of each row before them where
    `kind_column` names one. `mode`: "state", the rows of a table; "written", rows of files as stored; "difference" of
    two states. `condition` is applied to every row; `key_conditions` are its conjuncts on key columns, which merges
    apply early. `keeps_deletes`: rows whose newest version is a delete stay.
    """

    ctx: TableContext
    fields: tuple[Field, ...]
    output_fields: tuple[Field, ...]
    mode: Literal["state", "written", "difference"] = "state"
    condition: pl.Expr | None = None
    key_conditions: tuple[pl.Expr, ...] = ()
    kind_column: str | None = None
    numbers_rows: bool = False
    keeps_deletes: bool = False

    @property
    def system(self) -> Sequence[str]:
        """The system columns that are read."""
        if self.kind_column is None and self.mode == "state":
            return ()
        return lazy_frames.KIND_AND_SEQUENCE if self.numbers_rows else lazy_frames.KIND_COLUMNS


def read_task_batches(job: ReadJob, data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, given as its bytes."""
    for frame in read_frames(job, data):
        for part in frame.iter_slices(BATCH_ROWS):
            yield to_batch(part, job.output_fields)


def read_frames(job: ReadJob, data: bytes) -> Iterator[pl.DataFrame]:
    """Yield the rows of a task as Polars frames."""
    task = decode_task(data)
    if task.slices > 1:
        yield _read_slice(job, task)
    else:
        with table_scan.translate_read_errors(lambda: [_rebuild_plan(job, task.pieces)]):
            yield from collect_batches(_scan_task(job, task), chunk_size=BATCH_ROWS)


def _scan_task(job: ReadJob, task: ReadTask) -> pl.LazyFrame:
    """Return the rows of whole splits."""
    plan = _rebuild_plan(job, [piece for piece in task.pieces if not piece.is_before_state])
    match job.mode:
        case "state":
            frame = lazy_frames.scan_merged([plan], job.fields, system=job.system, keeps_deletes=job.keeps_deletes)
        case "written":
            frame = lazy_frames.scan_raw_rows(plan, job.fields, job.system)
        case "difference":
            earlier = _rebuild_plan(job, [piece for piece in task.pieces if piece.is_before_state])
            frame = lazy_frames.scan_difference(
                earlier, plan, job.fields, job.system, keeps_deletes=job.kind_column is not None
            )
    return _filter_and_project(job, frame)


def _filter_and_project(job: ReadJob, frame: pl.LazyFrame) -> pl.LazyFrame:
    if job.kind_column is not None or job.mode != "state":
        frame = lazy_frames.select_changes(frame, job.kind_column, job.fields, job.system)
    if job.condition is not None:
        frame = polars_pushdown.filter_rows(frame, job.condition, polars_schema(job.fields, timestamp_unit="us"))
    return frame.select(col(field.name) for field in job.output_fields)


def _read_slice(job: ReadJob, task: ReadTask) -> pl.DataFrame:
    """Return the rows of one slice of a merge."""
    plan = _rebuild_plan(job, task.pieces)
    merges = lazy_frames.merge_tasks(
        plan, deletion_vector_reader.load_positions(plan.ctx, plan.vector_entries), keeps_deletes=job.keeps_deletes
    )
    pieces = split_merge(merges[0], task.slices) if merges else []
    if task.slice >= len(pieces):
        raise Corrupt(
            f"a task of a read asks for slice {task.slice}, and its files are cut into {len(pieces)}", field="slice"
        )
    names = [*(field.name for field in job.fields), *job.system]
    where = job.condition
    if where is not None:
        where = (
            None
            if filter_pushdown.may_raise(where, polars_schema(job.fields))
            else filter_pushdown.block_pruning_unless_plain(where)
        )
    frame = merge_read.read_merged_rows(pieces[task.slice], names, where)
    return _filter_and_project(job, frame.lazy()).collect()


def split_merge(merge: MergeTask, count: int) -> list[MergeTask]:
    """Split a merge into `count` slices of its key range; the result is the same in every process.

    There are fewer slices where the files do not say where to cut.
    """
    size_bytes = -(-merge_read.estimate_decoded_bytes(merge) // count)
    return merge_read.split_by_key_range(
        replace(merge, ctx=merge.ctx.with_options({"lakekit.merge-memory": f"{max(1, size_bytes)} b"}))
    )


# ---- splits -> plan --------------------------------------------------------------------------------------------------


def _rebuild_plan(job: ReadJob, pieces: Sequence[SplitPiece]) -> Plan:
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
            partition=piece.split.partition,
            bucket=piece.split.bucket,
            files=tuple(indices),
            is_in_sequence=piece.is_in_sequence,
        )
        for piece, indices in zip(pieces, file_ranges, strict=True)
        if not piece.split.raw
    ]
    return Plan(
        ctx=job.ctx,
        snapshot=None,
        entries=manifest_entries.entries_of_rows(listed),
        raw_indices=np.array(raw, np.int64),
        merged_buckets=tuple(merged),
        spec=merge_spec_of(job.ctx),
        scan_filter=ScanFilter(key_conditions=job.key_conditions),
        vector_entries={
            name: entry for piece in pieces for name, entry in _deletion_vector_entries(job.ctx, piece.split).items()
        },
    )


def _deletion_vector_entries(ctx: TableContext, split: Split) -> dict[str, IndexManifestEntry]:
    """Return the location of each file's deletion vector, as an index manifest has it."""
    by_path: dict[str, list[tuple[str, DeletionFile]]] = {}
    for name, deletion in split.deletions.items():
        by_path.setdefault(deletion.path, []).append((name, deletion))
    vectors: dict[str, IndexManifestEntry] = {}
    for path, inside in by_path.items():
        end = max(vector.offset + vector.length + ENTRY_OVERHEAD_BYTES for _, vector in inside)
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


# ---- tasks ------------------------------------------------------------


FILES_AT_ONCE = 4096
"""Files that are decoded at once: decoding them one by one is slow, and a million of them would not fit in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPiece:
    """A piece of a task and its weight in bytes.

    A merge that was to be cut into `slices` is cut into `slice_count`.
    """

    split_piece: SplitPiece
    weight_bytes: int
    slices: int = 1
    slice_count: int = 1


def plan_tasks(plan: Plan, raw: Ints, slots: int) -> list[bytes]:
    """Return the tasks of a plan's files `raw`, which are indices into its entries, and of its merges.

    `slots`: how many tasks may run at once.
    """
    files = _PlanFiles(plan)
    size_bytes = _task_bytes(plan, raw, slots)
    sized = [*_split_raw_files(plan, files, raw, size_bytes), *_size_merged_pieces(plan, files, size_bytes)]
    return [encode_task(task) for task in _pack_pieces(sized, size_bytes)]


def plan_difference_tasks(before: Plan, after: Plan) -> list[bytes]:
    """Return the tasks that compare two states: one for each bucket that has files on either side."""
    sides: dict[tuple[bytes, int], list[SplitPiece]] = {}
    for plan in (before, after):
        files = _PlanFiles(plan)
        for piece in (
            *(sized.split_piece for sized in _split_raw_files(plan, files, plan.raw_indices, 1 << 62)),
            *_split_merged_buckets(plan, files),
        ):
            bucket_id = (piece.split.partition, piece.split.bucket)
            sides.setdefault(bucket_id, []).append(
                SplitPiece(split=piece.split, is_in_sequence=piece.is_in_sequence, is_before_state=plan is before)
            )
    return [encode_task(ReadTask(pieces=tuple(pieces))) for pieces in sides.values()]


def tasks_by_bucket(plan: Plan) -> dict[tuple[bytes, int], bytes]:
    """Return a task for each (partition, bucket) of a plan's unmerged files, in their order."""
    pieces = [sized.split_piece for sized in _split_raw_files(plan, _PlanFiles(plan), plan.raw_indices, 1 << 62)]
    return {(piece.split.partition, piece.split.bucket): encode_task(ReadTask(pieces=(piece,))) for piece in pieces}


def _task_bytes(plan: Plan, raw: Ints, slots: int) -> int:
    """Return how much a task should weigh, as Spark itself weighs files."""
    options, sizes = plan.ctx.options, plan.entries.integers("file_size")
    open_bytes = options.source_split_open_file_cost_bytes
    indices = np.concatenate([raw, *(np.asarray(bucket.files, np.int64) for bucket in plan.merged_buckets)])
    total = int(sizes[indices].sum()) + open_bytes * len(indices)
    return int(max(1, min(options.source_split_target_size_bytes, max(open_bytes, total // max(1, slots)))))


def _pack_pieces(sized: Iterable[SizedPiece], size_bytes: int) -> Iterator[ReadTask]:
    """Yield tasks of neighbouring pieces that weigh enough together; a slice is a task of its own."""
    pieces: list[SplitPiece] = []
    weight = 0
    for item in sized:
        if item.slice_count > 1:
            yield from (
                ReadTask(pieces=(item.split_piece,), slice=number, slices=item.slices)
                for number in range(item.slice_count)
            )
            continue
        if pieces and weight + item.weight_bytes > size_bytes:
            yield ReadTask(pieces=tuple(pieces))
            pieces, weight = [], 0
        pieces.append(item.split_piece)
        weight += item.weight_bytes
    if pieces:
        yield ReadTask(pieces=tuple(pieces))


# ---- pieces ----------------------------------------------------------------------------------------------------------


class _PlanFiles:
    """The files of a plan as facts, without value statistics."""

    def __init__(self, plan: Plan) -> None:
        self.ctx = plan.ctx
        self.snapshot_id = 0 if plan.snapshot is None else plan.snapshot.id
        self.entries = plan.entries.without_value_stats()
        columns = ("partition", "bucket", "total_buckets")
        self.columns: dict[str, list[Any]] = {
            name: plan.entries.column(name).to_pylist() for name in columns
        }  # scalar: one a file
        entries = {id(entry): entry for entry in plan.vector_entries.values()}.values()
        self.vectors = {
            vector.file_name: DeletionFile(
                path=path, offset=vector.offset, length=vector.length, cardinality=vector.cardinality
            )
            for path, entry in ((deletion_vector_reader.index_path(plan.ctx, entry), entry) for entry in entries)
            for vector in entry.ranges
        }

    def facts(self, order: Sequence[int]) -> Iterator[DataFileMeta]:
        """Yield the files of these indices."""
        for first in range(0, len(order), FILES_AT_ONCE):  # scalar: some thousand files each
            yield from self.entries.files(list(order[first : first + FILES_AT_ONCE]))

    def split(self, indices: Sequence[int], facts: Iterator[DataFileMeta], *, raw: bool) -> Split:
        """Return a split of files of one bucket, which `facts` yields next."""
        files = tuple(islice(facts, len(indices)))
        first = indices[0]
        outside = [file for file in files if file.external_path is not None]
        # refused here, before there are tasks
        paths_with_extra_files(self.ctx, self.columns["partition"][first], self.columns["bucket"][first], outside)
        return Split(
            snapshot_id=self.snapshot_id,
            partition=self.columns["partition"][first],
            bucket=self.columns["bucket"][first],
            total_buckets=self.columns["total_buckets"][first],
            files=files,
            deletions=FrozenDict(self._deletions(files)),
            raw=raw,
        )

    def _deletions(self, files: Iterable[DataFileMeta]) -> dict[str, DeletionFile]:
        return {file.name: self.vectors[file.name] for file in files if file.name in self.vectors}


def _split_raw_files(plan: Plan, files: _PlanFiles, raw: Ints, size_bytes: int) -> Iterator[SizedPiece]:
    """Yield files that need no merge: neighbours of a bucket in a split, up to a task's weight."""
    weights = plan.entries.integers("file_size") + plan.ctx.options.source_split_open_file_cost_bytes
    raw = raw[np.argsort(sections.bucket_codes(plan.entries)[raw], kind="stable")]
    places = list(zip(files.columns["partition"], files.columns["bucket"], strict=True))
    facts = files.facts(raw.tolist())
    indices: list[int] = []
    weight = 0
    for at in raw.tolist():  # scalar: one a file
        own = int(weights[at])
        if indices and (places[at] != places[indices[-1]] or weight + own > size_bytes):
            yield SizedPiece(split_piece=SplitPiece(split=files.split(indices, facts, raw=True)), weight_bytes=weight)
            indices, weight = [], 0
        indices.append(at)
        weight += own
    if indices:
        yield SizedPiece(split_piece=SplitPiece(split=files.split(indices, facts, raw=True)), weight_bytes=weight)


def _split_merged_buckets(plan: Plan, files: _PlanFiles) -> Iterator[SplitPiece]:
    """Yield the files of each bucket that are merged."""
    facts = files.facts(list(chain.from_iterable(bucket.files for bucket in plan.merged_buckets)))
    for bucket in plan.merged_buckets:
        yield SplitPiece(split=files.split(bucket.files, facts, raw=False), is_in_sequence=bucket.is_in_sequence)


def _size_merged_pieces(plan: Plan, files: _PlanFiles, size_bytes: int) -> Iterator[SizedPiece]:
    """Yield the merges, with the number of slices each is cut into.

    A slice has the weight of a task and fits its memory.
    """
    options = plan.ctx.options
    for piece, merge in zip(_split_merged_buckets(plan, files), lazy_frames.merge_tasks(plan, {}), strict=True):
        weight = piece.split.size_bytes + options.source_split_open_file_cost_bytes * len(merge.files)
        wanted = max(
            -(-piece.split.size_bytes // size_bytes),
            -(-merge_read.estimate_decoded_bytes(merge) // max(1, options.lakekit_merge_memory_bytes)),
        )
        count = len(split_merge(merge, wanted)) if wanted > 1 else 1
        yield SizedPiece(split_piece=piece, weight_bytes=weight, slices=wanted, slice_count=count)
