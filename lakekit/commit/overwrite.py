"""What an overwrite replaces: everything, the partitions of a (partial) specification, or those that the new files lie in.

    Overwrite.whole()                      every live file goes: truncate, a table without partitions
    Overwrite.static({"dt": "2024-03-31"}) files of matching partitions go, and new files must lie in them
    Overwrite.dynamic()                    files of the partitions that were written go; nothing written: nothing happens
    Overwrite.partitions([{…}, {…}])       drop partitions
    Overwrite.exactly([b"…", b"…"])        drop partitions, told by their serialized rows

Source: ENGINE.md 5.6, `FileStoreCommitImpl.overwritePartition`, `dropPartitions`, `tryUpgrade`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit.codec.binary_columns import decode_columns
from lakekit.commit import partition_ranges
from lakekit.commit.bucket_counts import mask_partitions
from lakekit.commit.changes import EMPTY_DELTA
from lakekit.data_file.paths import partition_spec
from lakekit.errors import SchemaMismatch
from lakekit.lsm.sorted_runs import sections
from lakekit.metadata import manifest_reader
from lakekit.model import manifest_entries as columns_of
from lakekit.model.index_file import DELETE as INDEX_DELETE
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.options.frozendict import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.commit.changes import CommitChanges
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot

    Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Which partitions go: those that match one of `specs` (None: all), or, `is_dynamic`, those of the new files. A spec has values or partition texts.

    `rows`: the partitions with these serialized rows, and no others.
    """

    specs: tuple[Spec, ...] | None = None
    is_dynamic: bool = False
    rows: frozenset[bytes] | None = None

    @staticmethod
    def whole() -> Overwrite:
        """Everything goes."""
        return Overwrite()

    @staticmethod
    def dynamic() -> Overwrite:
        """What was written replaces its partitions."""
        return Overwrite(is_dynamic=True)

    @staticmethod
    def static(spec: Spec) -> Overwrite:
        """Matching partitions go; an empty spec matches all."""
        return Overwrite(specs=(FrozenDict(spec),)) if spec else Overwrite()

    @staticmethod
    def partitions(specs: Iterable[Spec]) -> Overwrite:
        """The partitions that match one of the specs go; none: nothing does."""
        return Overwrite(specs=tuple(FrozenDict(spec) for spec in specs))

    @staticmethod
    def exactly(rows: Iterable[bytes]) -> Overwrite:
        """Those partitions go."""
        return Overwrite(rows=frozenset(rows))


class _Filter:
    """Partitions by their bytes: whether they go."""

    def __init__(self, ctx: TableContext, overwrite: Overwrite, changes: CommitChanges) -> None:
        self.fields = ctx.schema.partition_fields
        self.written = changes.delta.partitions
        self.by_file = overwrite.is_dynamic and bool(self.fields)
        self.rows = overwrite.rows
        self.specs = None if overwrite.specs is None else [partition_spec(ctx, spec) for spec in overwrite.specs]
        self._known: dict[bytes, bool] = {}

    def goes(self, partition: bytes) -> bool:
        if partition not in self._known:
            self._known[partition] = self._decide(partition)
        return self._known[partition]

    def _decide(self, partition: bytes) -> bool:
        if self.by_file:
            return partition in self.written
        if self.rows is not None:
            return partition in self.rows
        if self.specs is None:
            return True
        values = partition_ranges.values_of([partition], self.fields)[0]
        return any(all(values[at] == value for at, value in spec.items()) for spec in self.specs)

    def keep_manifest(self, file: ManifestFileMeta) -> bool:
        """Whether a manifest may have entries of a partition that goes."""
        return not self.by_file or partition_ranges.may_hold(file, partition_ranges.values_of(self.written, self.fields), self.fields)


def does_nothing(ctx: TableContext, overwrite: Overwrite, changes: CommitChanges) -> bool:
    """Whether there is nothing that could go: a dynamic overwrite that wrote no file."""
    return overwrite.is_dynamic and bool(ctx.schema.partition_keys) and not len(changes.delta)


def changes_at(ctx: TableContext, overwrite: Overwrite, changes: CommitChanges, latest: Snapshot | None) -> CommitChanges:
    """What an overwrite changes at a snapshot: every live file and index file of its partitions goes, the new files come.

    Raises `SchemaMismatch` where a new file lies outside of a static overwrite.
    """
    chosen = _Filter(ctx, overwrite, changes)
    outside = [partition for partition in chosen.written if not chosen.goes(partition)]
    if outside:
        values = partition_ranges.values_of(outside[:1], chosen.fields)[0]
        raise SchemaMismatch(f"rows of partition {values!r} do not belong to the partitions that are overwritten. Nothing was committed")
    gone = columns_of.empty()
    index: list[IndexManifestEntry] = []
    if latest is not None:
        everything = chosen.specs is None and chosen.rows is None and not chosen.by_file
        live = manifest_reader.read_live_entries(
            ctx,
            latest,
            keep_manifest=chosen.keep_manifest,
            keep_partitions=None if everything else lambda column: mask_partitions(column, filter(chosen.goes, column.unique().to_pylist())),
        )
        if ctx.options.bucket != POSTPONE_BUCKET:
            live = live.filter(live.numbers("bucket") != POSTPONE_BUCKET)
        gone = live.as_kind(DELETE)
        if ctx.options.manifest_delete_file_drop_stats:
            gone = gone.without_value_stats()
        index = [replace(entry, kind=INDEX_DELETE) for entry in manifest_reader.index_entries(ctx, latest) if chosen.goes(entry.partition)]
    return replace(
        changes,
        kind="OVERWRITE",
        delta=replace(changes.delta, read=gone),
        changelog=EMPTY_DELTA,
        index=(*index, *changes.index),
        hash_bases=(),
    )


def upgrade_levels(ctx: TableContext, changes: CommitChanges) -> CommitChanges:
    """The new files of an overwrite at the highest level, bucket by bucket, where they share no keys: nothing older is left to merge them with."""
    rows = changes.delta.rows
    key_types = [field.type for field in ctx.schema.key_fields]
    if not (ctx.options.overwrite_upgrade and ctx.kind == "key" and rows):
        return changes
    if any(kind != ADD or bucket < 0 or file.level for kind, _, bucket, _, file in rows):
        return changes
    meeting = _overlapping_buckets(changes.delta.entries, key_types)
    level = ctx.options.level_count - 1
    raised = tuple(row if row[1:3] in meeting else (*row[:4], replace(row[4], level=level)) for row in rows)
    return replace(changes, delta=replace(changes.delta, rows=raised))


def _overlapping_buckets(entries: ManifestEntries, key_types: Sequence[Any]) -> set[tuple[bytes, int]]:
    """The buckets in which files share keys."""
    places = list(zip(entries.column("partition").to_pylist(), entries.column("bucket").to_pylist(), strict=True))
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    low, high = (decode_columns(entries.column(name), key_types) for name in ("min_key", "max_key"))
    nothing = np.zeros(len(entries), np.int64)
    found = sections(low, high, levels=nothing, min_sequence=nothing, max_sequence=nothing, buckets=np.array([numbers[place] for place in places]))
    alone = set(found.alone.tolist())
    return {place for at, place in enumerate(places) if at not in alone}
