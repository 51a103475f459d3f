"""The files of one bucket of an append table while it is written.

    add(files)      as they are written: a b c d e
    compact(full)   [a b c d e] -> f, a small f is considered again    ->  CompactResult, or None where nothing was due

Small neighbours become bigger files; the rows keep their order.

Source: ENGINE.md 8.2; `BucketedAppendCompactManager`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.bucket import append_compaction
from lakekit.bucket.append_compaction import DeletionVectorSummary, RewriteTarget
from lakekit.bucket.compaction import is_small
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakekit.bucket.compaction import CompactResult
    from lakekit.bucket.restore import RestoredBucket
    from lakekit.data_file.file_names import FileNames
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta


@dataclass(slots=True, kw_only=True, eq=False)
class AppendBucket:
    """A bucket of rows without keys.

    `waiting` are the files that a compaction may consider, in order. `vectors` are read by the first compaction.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    names: FileNames
    restored: RestoredBucket
    waiting: list[DataFileMeta]
    vectors: BucketDeletionVectors | None = None

    @staticmethod
    def of(ctx: TableContext, bucket_id: tuple[bytes, int], restored: RestoredBucket, names: FileNames) -> AppendBucket:
        """Return the (partition, bucket) as a snapshot has it."""
        partition, bucket_number = bucket_id
        return AppendBucket(
            ctx=ctx,
            partition=partition,
            bucket=bucket_number,
            names=names,
            restored=restored,
            waiting=append_compaction.sort_by_sequence(restored.files),
        )

    @property
    def run_count(self) -> int:
        """Return 0: readers merge nothing, so that commits need not wait for a compaction."""
        return 0

    @property
    def is_due(self) -> bool:
        """Return False: small files may wait."""
        return False

    def add(self, files: Iterable[DataFileMeta]) -> None:
        """Add files that were written."""
        self.waiting = append_compaction.sort_by_sequence([*self.waiting, *files])

    def compact(self, *, full: bool) -> CompactResult | None:
        """Rewrite neighbours where there are enough, or all files that are worth it; None if nothing was due.

        Raises what `append_compaction.rewrite` raises; then nothing changed.
        """
        options = self.ctx.options
        if self.vectors is None and options.deletion_vectors_enabled:
            self.vectors = BucketDeletionVectors.restored(self.ctx, self.partition, self.bucket, self.restored.vectors)
        remaining: tuple[DataFileMeta, ...] = ()
        if full:
            picked = append_compaction.pick_full(self.waiting, options, self._marked())
        else:
            picked, remaining = append_compaction.pick(self.waiting, options)
        if not picked:
            self.waiting = self.waiting if full else list(remaining)
            return None
        result = append_compaction.rewrite(self._place(), picked)
        small_files = [file for file in result.after[-1:] if is_small(file, options)]
        self.waiting = append_compaction.sort_by_sequence([*small_files, *remaining])
        if self.vectors is not None:
            self.vectors.forget(result.rewritten)
        return result

    def _marked(self) -> dict[str, DeletionVectorSummary] | None:
        if self.vectors is None:
            return None
        return {
            name: DeletionVectorSummary(index_file="", deleted=len(positions))
            for name, positions in self.vectors.positions.items()
        }

    def _place(self) -> RewriteTarget:
        return RewriteTarget(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            names=self.names,
            deletions={} if self.vectors is None else self.vectors.positions,
            snapshot_id=self.restored.snapshot_id,
        )
