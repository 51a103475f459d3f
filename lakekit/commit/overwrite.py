"""What an overwrite replaces: all, the partitions of a (partial) spec, or those of the new files.

    Overwrite.entire_table()               delete every live file: truncate, a table without partitions
    Overwrite.static({"dt": "2024-03-31"}) delete files of matching partitions; new files must lie in them
    Overwrite.dynamic()                    delete files of the partitions that were written, if any
    Overwrite.partitions([{…}, {…}])       drop partitions
    Overwrite.serialized([b"…", b"…"])     drop partitions, identified by their serialized rows

Source: ENGINE.md 5.6, `FileStoreCommitImpl.overwritePartition`, `dropPartitions`, `tryUpgrade`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit.codec.binary_row import decode_columns
from lakekit.commit import manifest_writer
from lakekit.commit.changes import EMPTY_DELTA
from lakekit.commit.conflict_detection import mask_partitions
from lakekit.data_file.paths import partition_spec
from lakekit.errors import SchemaMismatch
from lakekit.lsm.sorted_runs import build_sections
from lakekit.metadata import manifest_reader
from lakekit.model import manifest_entries as columns_of
from lakekit.model.index_manifest import DELETE as INDEX_DELETE
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.options.option import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.commit.changes import CommitChanges
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot

    Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """The partitions to replace.

    Those that match one of `specs` (None: all), or, if `is_dynamic`, those of the new files. A spec holds values or
    partition texts. `serialized_partitions`: the partitions with these serialized rows, and no others.
    """

    specs: tuple[Spec, ...] | None = None
    is_dynamic: bool = False
    serialized_partitions: frozenset[bytes] | None = None

    @staticmethod
    def entire_table() -> Overwrite:
        """Return an overwrite of the whole table."""
        return Overwrite()

    @staticmethod
    def dynamic() -> Overwrite:
        """Return an overwrite of the partitions that were written."""
        return Overwrite(is_dynamic=True)

    @staticmethod
    def static(spec: Spec) -> Overwrite:
        """Return an overwrite of the partitions that match `spec`; an empty spec matches all."""
        return Overwrite(specs=(FrozenDict(spec),)) if spec else Overwrite()

    @staticmethod
    def partitions(specs: Iterable[Spec]) -> Overwrite:
        """Return an overwrite of the partitions that match one of the specs; no spec: of none."""
        return Overwrite(specs=tuple(FrozenDict(spec) for spec in specs))

    @staticmethod
    def serialized(rows: Iterable[bytes]) -> Overwrite:
        """Return an overwrite of the partitions with these serialized rows."""
        return Overwrite(serialized_partitions=frozenset(rows))


class _PartitionFilter:
    """Decides by serialized partitions which ones an overwrite replaces."""

    def __init__(self, ctx: TableContext, overwrite: Overwrite, changes: CommitChanges) -> None:
        self.fields = ctx.schema.partition_fields
        self.written_partitions = changes.delta.partitions
        self.by_file = overwrite.is_dynamic and bool(self.fields)
        self.rows = overwrite.serialized_partitions
        self.specs = None if overwrite.specs is None else [partition_spec(ctx, spec) for spec in overwrite.specs]
        self._decisions: dict[bytes, bool] = {}

    def is_replaced(self, partition: bytes) -> bool:
        if partition not in self._decisions:
            self._decisions[partition] = self._matches_spec(partition)
        return self._decisions[partition]

    def _matches_spec(self, partition: bytes) -> bool:
        if self.by_file:
            return partition in self.written_partitions
        if self.rows is not None:
            return partition in self.rows
        if self.specs is None:
            return True
        values = manifest_writer.partition_values_of([partition], self.fields)[0]
        return any(all(values[position] == value for position, value in spec.items()) for spec in self.specs)

    def keep_manifest(self, file: ManifestFileMeta) -> bool:
        """Return whether a manifest may have entries of a replaced partition."""
        return not self.by_file or manifest_writer.may_contain_partition(
            file, manifest_writer.partition_values_of(self.written_partitions, self.fields), self.fields
        )


def replaces_nothing(ctx: TableContext, overwrite: Overwrite, changes: CommitChanges) -> bool:
    """Return whether there is nothing to replace: a dynamic overwrite that wrote no file."""
    return overwrite.is_dynamic and bool(ctx.schema.partition_keys) and not len(changes.delta)


def resolve_overwrite(
    ctx: TableContext, overwrite: Overwrite, changes: CommitChanges, latest: Snapshot | None
) -> CommitChanges:
    """Return the changes of an overwrite at a snapshot: delete live files and index files, add new ones.

    Only files of the replaced partitions are deleted. Raises `SchemaMismatch` if a new file lies outside of a static
    overwrite.
    """
    selection = _PartitionFilter(ctx, overwrite, changes)
    outside = [partition for partition in selection.written_partitions if not selection.is_replaced(partition)]
    if outside:
        values = manifest_writer.partition_values_of(outside[:1], selection.fields)[0]
        raise SchemaMismatch(
            f"rows of partition {values!r} do not belong to the partitions that are overwritten. Nothing was committed"
        )
    deletions = columns_of.empty_entries()
    index: list[IndexManifestEntry] = []
    if latest is not None:
        replaces_all = selection.specs is None and selection.rows is None and not selection.by_file
        live = manifest_reader.read_live_entries(
            ctx,
            latest,
            keep_manifest=selection.keep_manifest,
            keep_partitions=None
            if replaces_all
            else lambda column: mask_partitions(column, filter(selection.is_replaced, column.unique().to_pylist())),
        )
        if ctx.options.bucket != POSTPONE_BUCKET:
            live = live.filter(live.integers("bucket") != POSTPONE_BUCKET)
        deletions = live.as_kind(DELETE)
        if ctx.options.manifest_delete_file_drop_stats:
            deletions = deletions.without_value_stats()
        index = [
            replace(entry, kind=INDEX_DELETE)
            for entry in manifest_reader.index_entries(ctx, latest)
            if selection.is_replaced(entry.partition)
        ]
    return replace(
        changes,
        kind="OVERWRITE",
        delta=replace(changes.delta, stored_entries=deletions),
        changelog=EMPTY_DELTA,
        index=(*index, *changes.index),
        hash_bases=(),
    )


def upgrade_levels(ctx: TableContext, changes: CommitChanges) -> CommitChanges:
    """Move the new files of an overwrite to the highest level in buckets whose files share no keys.

    No older file is left to merge them with.
    """
    rows = changes.delta.message_rows
    key_types = [field.type for field in ctx.schema.key_fields]
    if not (ctx.options.overwrite_upgrade and ctx.kind == "key" and rows):
        return changes
    if any(kind != ADD or bucket < 0 or file.level for kind, _, bucket, _, file in rows):
        return changes
    overlapping = _overlapping_buckets(changes.delta.entries, key_types)
    level = ctx.options.level_count - 1
    upgraded = tuple(row if row[1:3] in overlapping else (*row[:4], replace(row[4], level=level)) for row in rows)
    return replace(changes, delta=replace(changes.delta, message_rows=upgraded))


def _overlapping_buckets(entries: ManifestEntries, key_types: Sequence[Any]) -> set[tuple[bytes, int]]:
    """Return the buckets in which files share keys."""
    bucket_ids = list(zip(entries.column("partition").to_pylist(), entries.column("bucket").to_pylist(), strict=True))
    numbering = {bucket_id: number for number, bucket_id in enumerate(dict.fromkeys(bucket_ids))}
    low, high = (decode_columns(entries.column(name), key_types) for name in ("min_key", "max_key"))
    zeros = np.zeros(len(entries), np.int64)
    key_sections = build_sections(
        low,
        high,
        levels=zeros,
        min_sequence=zeros,
        max_sequence=zeros,
        buckets=np.array([numbering[bucket_id] for bucket_id in bucket_ids]),
    )
    alone = set(key_sections.files_without_overlap.tolist())
    return {bucket_id for position, bucket_id in enumerate(bucket_ids) if position not in alone}
