"""Divide a plan into tasks: files packed until they are worth a task, big merges cut by key range.

    small files and small merges      some together in a task, up to a size that keeps all cores busy and is not
                                      above `source.split.target-size`
    a big merge                       as many tasks as it has slices
    a big file                        a task of its own

Sizes are those of the files; each counts for `source.split.open-file-cost` more, as opening it takes its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit.bucket import slices
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import every_path
from lakekit.model.split import DeletionFile, Split
from lakekit.options.frozendict import FrozenDict
from lakekit.read import lazy_frames, sections
from lakekit.spark.job import split_merge
from lakekit.spark.task import ReadTask, SplitPiece, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from lakekit.model.data_file import DataFileMeta
    from lakekit.read.planner import Plan

    Ints = NDArray[np.int64]

FILES_AT_ONCE = 4096
"""Files that are decoded at once: decoding them one by one is slow, and a million of them would not fit in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPiece:
    """A piece of a task and its weight in bytes.

    A merge that was to be cut into `slices` is cut into `made`.
    """

    piece: SplitPiece
    weight_bytes: int
    slices: int = 1
    made: int = 1


def plan_tasks(plan: Plan, raw: Ints, slots: int) -> list[bytes]:
    """Return the tasks of a plan's files `raw`, which are indices into its entries, and of its merges.

    `slots`: how many tasks may run at once.
    """
    files = _PlanFiles(plan)
    size_bytes = _task_bytes(plan, raw, slots)
    sized = [*_split_raw_files(plan, files, raw, size_bytes), *_size_merged_pieces(plan, files, size_bytes)]
    return [encode(task) for task in _pack_pieces(sized, size_bytes)]


def differences(before: Plan, after: Plan) -> list[bytes]:
    """Return the tasks that compare two states: one for each bucket that has files on either side."""
    sides: dict[tuple[bytes, int], list[SplitPiece]] = {}
    for plan in (before, after):
        files = _PlanFiles(plan)
        for piece in (
            *(sized.piece for sized in _split_raw_files(plan, files, plan.raw, 1 << 62)),
            *_split_merged_buckets(plan, files),
        ):
            bucket_id = (piece.split.partition, piece.split.bucket)
            sides.setdefault(bucket_id, []).append(
                SplitPiece(split=piece.split, in_order=piece.in_order, before=plan is before)
            )
    return [encode(ReadTask(pieces=tuple(pieces))) for pieces in sides.values()]


def buckets(plan: Plan) -> dict[tuple[bytes, int], bytes]:
    """Return a task for each (partition, bucket) of a plan's unmerged files, in their order."""
    pieces = [sized.piece for sized in _split_raw_files(plan, _PlanFiles(plan), plan.raw, 1 << 62)]
    return {(piece.split.partition, piece.split.bucket): encode(ReadTask(pieces=(piece,))) for piece in pieces}


def _task_bytes(plan: Plan, raw: Ints, slots: int) -> int:
    """Return how much a task should weigh, as Spark itself weighs files."""
    options, sizes = plan.ctx.options, plan.entries.numbers("file_size")
    open_bytes = options.source_split_open_file_cost_bytes
    indices = np.concatenate([raw, *(np.asarray(bucket.files, np.int64) for bucket in plan.merged)])
    total = int(sizes[indices].sum()) + open_bytes * len(indices)
    return int(max(1, min(options.source_split_target_size_bytes, max(open_bytes, total // max(1, slots)))))


def _pack_pieces(sized: Iterable[SizedPiece], size_bytes: int) -> Iterator[ReadTask]:
    """Yield tasks of neighbouring pieces that weigh enough together; a slice is a task of its own."""
    pieces: list[SplitPiece] = []
    weight = 0
    for item in sized:
        if item.made > 1:
            yield from (ReadTask(pieces=(item.piece,), slice=number, slices=item.slices) for number in range(item.made))
            continue
        if pieces and weight + item.weight_bytes > size_bytes:
            yield ReadTask(pieces=tuple(pieces))
            pieces, weight = [], 0
        pieces.append(item.piece)
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
        self.places: dict[str, list[Any]] = {
            name: plan.entries.column(name).to_pylist() for name in columns
        }  # scalar: one a file
        entries = {id(entry): entry for entry in plan.vectors.values()}.values()
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
        every_path(self.ctx, self.places["partition"][first], self.places["bucket"][first], outside)
        return Split(
            snapshot_id=self.snapshot_id,
            partition=self.places["partition"][first],
            bucket=self.places["bucket"][first],
            total_buckets=self.places["total_buckets"][first],
            files=files,
            deletions=FrozenDict(self._deletions(files)),
            raw=raw,
        )

    def _deletions(self, files: Iterable[DataFileMeta]) -> dict[str, DeletionFile]:
        return {file.name: self.vectors[file.name] for file in files if file.name in self.vectors}


def _split_raw_files(plan: Plan, files: _PlanFiles, raw: Ints, size_bytes: int) -> Iterator[SizedPiece]:
    """Yield files that need no merge: neighbours of a bucket in a split, up to a task's weight."""
    weights = plan.entries.numbers("file_size") + plan.ctx.options.source_split_open_file_cost_bytes
    raw = raw[np.argsort(sections.bucket_ids(plan.entries)[raw], kind="stable")]
    places = list(zip(files.places["partition"], files.places["bucket"], strict=True))
    facts = files.facts(raw.tolist())
    indices: list[int] = []
    weight = 0
    for at in raw.tolist():  # scalar: one a file
        own = int(weights[at])
        if indices and (places[at] != places[indices[-1]] or weight + own > size_bytes):
            yield SizedPiece(piece=SplitPiece(split=files.split(indices, facts, raw=True)), weight_bytes=weight)
            indices, weight = [], 0
        indices.append(at)
        weight += own
    if indices:
        yield SizedPiece(piece=SplitPiece(split=files.split(indices, facts, raw=True)), weight_bytes=weight)


def _split_merged_buckets(plan: Plan, files: _PlanFiles) -> Iterator[SplitPiece]:
    """Yield the files of each bucket that are merged."""
    facts = files.facts(list(chain.from_iterable(bucket.files for bucket in plan.merged)))
    for bucket in plan.merged:
        yield SplitPiece(split=files.split(bucket.files, facts, raw=False), in_order=bucket.in_order)


def _size_merged_pieces(plan: Plan, files: _PlanFiles, size_bytes: int) -> Iterator[SizedPiece]:
    """Yield the merges, with the number of slices each is cut into.

    A slice has the weight of a task and fits its memory.
    """
    options = plan.ctx.options
    for piece, merge in zip(_split_merged_buckets(plan, files), lazy_frames.tasks(plan, {}), strict=True):
        weight = piece.split.size_bytes + options.source_split_open_file_cost_bytes * len(merge.files)
        wanted = max(
            -(-piece.split.size_bytes // size_bytes),
            -(-slices.decoded_bytes(merge) // max(1, options.lakekit_merge_memory_bytes)),
        )
        count = len(split_merge(merge, wanted)) if wanted > 1 else 1
        yield SizedPiece(piece=piece, weight_bytes=weight, slices=wanted, made=count)
