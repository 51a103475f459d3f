"""The LSM tree of one bucket while it is written: flushed files are added, compactions move them up.

    add(files)      level 0 grows
    compact(full)   universal compaction, or all into the last level    ->  CompactResult, or None where nothing was due

Older rows are looked up in the levels above a compaction's output. The rows found are marked in the bucket's deletion
vectors, if it has any.

Source: ENGINE.md 2 to 2.8; `MergeTreeCompactManager`, `LookupMergeTreeCompactRewriter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lakekit.bucket.compaction import CompactionJob, compact
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.bucket.expired import expiry
from lakekit.bucket.lookup import LookupLevels, lookup
from lakekit.columns import KIND, LEVEL, SEQUENCE
from lakekit.lsm import compaction_picker
from lakekit.lsm.levels import LsmLevels
from lakekit.world import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from lakekit.bucket.compaction import CompactResult
    from lakekit.bucket.restore import RestoredBucket
    from lakekit.data_file.file_names import FileNames
    from lakekit.lsm.compaction_picker import CompactionUnit
    from lakekit.lsm.rule import MergeSpec
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta


@dataclass(slots=True, kw_only=True)
class RecordingLookup:
    """The older rows as a compaction looks them up (`changelog.PreviousRows`).

    `marks` collects the positions of the rows found by file name, for deletion vectors.
    """

    older: LookupLevels
    columns: tuple[str, ...]
    marks: dict[str, list[NDArray[np.int64]]] = field(default_factory=dict)

    def __call__(self, keys: pl.DataFrame) -> pl.DataFrame:
        result = lookup(self.older, keys, self.columns)
        for name, positions in result.positions.items():
            self.marks.setdefault(name, []).append(positions)
        return result.rows.drop(LEVEL) if self.columns else keys.clear()


@dataclass(slots=True, kw_only=True, eq=False)
class MergeTree:
    """The levels of a bucket.

    `replaces`: the writer ignores existing rows, and so writes no changelog against them. `vectors` are read by the
    first compaction. `last_full_ms` is when the whole bucket was last compacted. `idle_triggers`: see
    `compaction_picker.pick_or_force_level0`.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    names: FileNames
    rule: MergeSpec
    restored: RestoredBucket
    vectors: BucketDeletionVectors | None = None
    replaces: bool = False
    last_full_ms: int | None = None
    idle_triggers: int = 0
    _levels: LsmLevels | None = None
    _flushed: list[DataFileMeta] = field(default_factory=list)
    _keys: dict[str, pl.DataFrame] = field(default_factory=dict)

    @staticmethod
    def of(
        ctx: TableContext,
        bucket_id: tuple[bytes, int],
        restored: RestoredBucket,
        names: FileNames,
        rule: MergeSpec,
        *,
        replaces: bool,
    ) -> MergeTree:
        """Return the tree of a (partition, bucket) as a snapshot has it."""
        partition, bucket_number = bucket_id
        return MergeTree(
            ctx=ctx,
            partition=partition,
            bucket=bucket_number,
            names=names,
            rule=rule,
            restored=restored,
            replaces=replaces,
        )

    @property
    def levels(self) -> LsmLevels:
        """Return the files by level and run.

        A writer that only adds files never calls this: flushed files then wait beside those restored.
        """
        levels = self._levels
        if levels is None:
            levels = LsmLevels.of(self.restored.files, self.ctx.options)
            last, now_ms = compaction_picker.last_full_ms(levels), self.ctx.world.now_ms()
            # files keep the time of the wall clock
            self.last_full_ms = None if last is None else last - (wall_clock_ms(now_ms) - now_ms)
        if self._flushed:
            levels, self._flushed = levels.changed((), self._flushed), []
        self._levels = levels
        return levels

    @property
    def run_count(self) -> int:
        """Return the number of sorted runs: how many a reader merges at most."""
        return len(self.levels.runs)

    @property
    def is_due(self) -> bool:
        """Return whether level 0 must be emptied and is not empty."""
        return self.ctx.options.needs_lookup and bool(self.levels.level_0)

    @property
    def asks_for_keys(self) -> bool:
        """Return whether the compaction after a flush may need only the keys of its files, for deletion vectors."""
        options = self.ctx.options
        return options.deletion_vectors_enabled and not options.write_only and not self._looked_at()

    def add(self, files: Sequence[DataFileMeta], keys: pl.DataFrame | None = None) -> None:
        """Add flushed files.

        `keys` are those of the first rows, in file order. They are kept for the next compaction if they are all the
        keys.
        """
        self._flushed += files
        if keys is not None and len(files) == 1 and keys.height == files[0].row_count:
            self._keys[files[0].name] = keys

    def compact(self, *, full: bool) -> CompactResult | None:
        """Compact what is due, or everything; None if nothing was due.

        Raises what `compaction.compact` and reading deletion vectors raise; then the tree is unchanged.
        """
        if self.vectors is None and self.ctx.options.deletion_vectors_enabled:
            self.vectors = BucketDeletionVectors.restored(self.ctx, self.partition, self.bucket, self.restored.vectors)
        unit = self._full() if full else self._due()
        flushed, self._keys = self._keys, {}
        if unit is None:
            return None
        recorder = RecordingLookup(older=self._older(unit), columns=self._looked_at())
        result = compact(self._job(recorder, flushed), unit)
        self._levels = self.levels.changed(result.before, result.after)
        if unit.is_full:
            self.last_full_ms = self.ctx.world.now_ms()
        if self.vectors is not None:
            self.vectors.mark({name: np.concatenate(parts) for name, parts in recorder.marks.items()})
            self.vectors.forget(result.rewritten)
        return result

    def _due(self) -> CompactionUnit | None:
        unit, self.idle_triggers = compaction_picker.pick_or_force_level0(
            self.levels,
            self.ctx.options,
            now_ms=self.ctx.world.now_ms(),
            last_full_ms=self.last_full_ms,
            idle_triggers=self.idle_triggers,
        )
        return unit

    def _full(self) -> CompactionUnit | None:
        due = expiry(self.ctx, self.ctx.world.now_ms())
        positions = {} if self.vectors is None else self.vectors.positions
        return compaction_picker.pick_full(
            self.levels,
            self.ctx.options,
            has_vector=lambda file: file.name in positions,
            is_expired=None if due is None else due.is_due,
        )

    def _job(self, looking: RecordingLookup, flushed: Mapping[str, pl.DataFrame]) -> CompactionJob:
        return CompactionJob(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            levels=self.levels,
            names=self.names,
            rule=self.rule,
            deletions={} if self.vectors is None else self.vectors.positions,
            previous=looking,
            marks_only=not looking.columns and not self.rule.ignore_delete,
            flushed=flushed,
            tells=not self.replaces,
            snapshot_id=self.restored.snapshot_id,
        )

    def _older(self, unit: CompactionUnit) -> LookupLevels:
        return LookupLevels(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            runs=self.levels.above(unit.output_level),
            vectors={} if self.vectors is None else self.vectors.positions,
        )

    def _looked_at(self) -> tuple[str, ...]:
        """Return the columns that a compaction needs of older rows; none if positions are enough (ENGINE 2.7)."""
        rule, tells = self.rule, self.ctx.options.changelog_producer == "lookup" and not self.replaces
        if rule.engine == "first-row":
            return rule.key
        if (
            self.ctx.options.deletion_vectors_enabled
            and rule.engine == "deduplicate"
            and not rule.sequence_fields
            and not tells
        ):
            return ()
        return (*self.ctx.schema.names, SEQUENCE, KIND)
