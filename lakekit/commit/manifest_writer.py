"""Write the manifests and manifest lists of a commit, and merge small manifests.

    base of the new snapshot   =  merged(base + delta of the snapshot before)
    delta of the new snapshot  =  its own entries

Merging decodes only where needed: manifests that only add files are joined byte by byte. Source: FORMAT.md 4.2, 4.6,
ENGINE.md 5.3; `ManifestFileMerger`, `ManifestFileMeta`, `SimpleStatsCollector`.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lakekit.codec import avro_container
from lakekit.commit import partition_ranges
from lakekit.metadata import manifest_reader as meta
from lakekit.model import entry_files, manifest_entries as columns_of, manifests
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.manifests import ManifestFileMeta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.commit.changes import Delta
    from lakekit.commit.draft import UncommittedFiles
    from lakekit.model.manifest_entries import ManifestEntries

LEAST_JOINED = 2
"""So many manifests are joined at least."""
MAX_ROWWISE_ENTRIES = 1000
"""Up to so many entries are written one by one; more as columns."""


def write_list(draft: UncommittedFiles, files: Sequence[ManifestFileMeta]) -> tuple[str, int]:
    """Write a manifest list; return its name and size."""
    data = manifests.encode_list(files, **draft.how)
    name = draft.write("manifest-list", data)
    meta.remember_list(draft.ctx, name, files)
    return name, len(data)


def write_delta(draft: UncommittedFiles, delta: Delta) -> list[ManifestFileMeta]:
    """Write what a commit adds and deletes as manifests; return none if there is nothing."""
    if delta.read is not None or len(delta.rows) > MAX_ROWWISE_ENTRIES:
        return write_entries(draft, delta.entries)
    if not delta.rows:
        return []
    data = entry_files.encode_rows(delta.rows, **draft.how)
    kinds, partitions, buckets, _, files = zip(*delta.rows, strict=True)
    name = draft.write("manifest", data)
    meta.remember_entries(draft.ctx, name, delta)
    levels, first = [file.level for file in files], [file.first_row_id for file in files]
    return [
        ManifestFileMeta(
            name=name,
            size_bytes=len(data),
            num_added_files=kinds.count(ADD),
            num_deleted_files=kinds.count(DELETE),
            partition_stats=partition_ranges.stats_of_partitions(
                Counter(partitions), draft.ctx.schema.partition_fields
            ),
            schema_id=max(file.schema_id for file in files),
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
            min_row_id=None if None in first else min(first),
            max_row_id=None if None in first else max(file.first_row_id + file.row_count for file in files) - 1,
        )
    ]


def write_entries(draft: UncommittedFiles, entries: ManifestEntries) -> list[ManifestFileMeta]:
    """Write entries as manifests of about `manifest.target-file-size`; none without entries."""
    if not len(entries):
        return []
    target = max(draft.ctx.options.manifest_target_file_size_bytes, 1)
    data = entry_files.encode(entries, **draft.how)
    pieces = min(-(-len(data) // target), len(entries))
    if pieces == 1:
        return [_write_manifest(draft, data, entries)]
    cuts = np.linspace(0, len(entries), pieces + 1).astype(np.int64)
    parts = [entries.slice(int(start), int(end)) for start, end in pairwise(cuts)]
    return [_write_manifest(draft, entry_files.encode(part, **draft.how), part) for part in parts]


def _write_manifest(draft: UncommittedFiles, data: bytes, entries: ManifestEntries) -> ManifestFileMeta:
    name = draft.write("manifest", data)
    kinds, buckets, levels = entries.numbers("kind"), entries.numbers("bucket"), entries.numbers("level")
    encoded = entries.column("partition").dictionary_encode()
    counts = np.bincount(encoded.indices.to_numpy(), minlength=len(encoded.dictionary))
    row_id_column = entries.column("first_row_id")
    has_row_ids = row_id_column.null_count == 0
    first_row_ids = row_id_column.to_numpy() if has_row_ids else np.zeros(0, np.int64)
    manifest = ManifestFileMeta(
        name=name,
        size_bytes=len(data),
        num_added_files=int((kinds == ADD).sum()),
        num_deleted_files=int((kinds == DELETE).sum()),
        partition_stats=partition_ranges.stats_of_partitions(
            dict(zip(encoded.dictionary.to_pylist(), counts.tolist(), strict=True)), draft.ctx.schema.partition_fields
        ),
        schema_id=int(entries.numbers("schema_id").max()),
        min_bucket=int(buckets.min()),
        max_bucket=int(buckets.max()),
        min_level=int(levels.min()),
        max_level=int(levels.max()),
        min_row_id=int(first_row_ids.min()) if has_row_ids else None,
        max_row_id=int((first_row_ids + entries.numbers("row_count")).max()) - 1 if has_row_ids else None,
    )
    meta.remember_entries(draft.ctx, name, entries)
    return manifest


# ---- merging ---------------------------------------------------------------------------------------------------------


def merge_manifests(draft: UncommittedFiles, files: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    """Merge the small ones of a snapshot's manifests into the next base list. Live files stay live."""
    compacted = _try_full_compaction(draft, files)
    return _compact_minor(draft, files) if compacted is None else compacted


def _try_full_compaction(draft: UncommittedFiles, files: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta] | None:
    """Rewrite every manifest that is small or has deletions, without deletions.

    None: they are smaller than `manifest.full-compaction-threshold-size`, or fewer than two.
    """
    options = draft.ctx.options
    target = options.manifest_target_file_size_bytes
    candidates = [file for file in files if file.num_deleted_files or file.size_bytes < target]
    if sum(file.size_bytes for file in candidates) < options.manifest_full_compaction_threshold_size_bytes:
        return None
    entries = meta.read_entries(draft.ctx, candidates)
    deleted = entries.filter(entries.numbers("kind") == DELETE)
    chosen_names = {file.name for file in candidates}
    if len(deleted):
        fields = draft.ctx.schema.partition_fields
        partitions = partition_ranges.values_of(deleted.column("partition").unique().to_pylist(), fields)
        others = [
            file
            for file in files
            if file.name not in chosen_names and partition_ranges.may_hold(file, partitions, fields)
        ]
        chosen_names |= {file.name for file in others if _names_any(meta.read_entries(draft.ctx, [file]), deleted)}
    rewritten = [file for file in files if file.name in chosen_names]
    if len(rewritten) < LEAST_JOINED:
        return None
    live = columns_of.live_entries([meta.read_entries(draft.ctx, rewritten)])
    return [file for file in files if file.name not in chosen_names] + write_entries(draft, live)


def _names_any(entries: ManifestEntries, deleted: ManifestEntries) -> bool:
    """Return whether one of the deleted files is among the entries."""
    group = columns_of.identities(columns_of.concat([entries, deleted]))
    return bool(np.isin(group[: len(entries)], group[len(entries) :]).any())


def _compact_minor(draft: UncommittedFiles, files: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    """Merge groups of neighbours that reach the target size, and a last group of enough manifests."""
    options = draft.ctx.options
    merged: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for file in files:
        group.append(file)
        size += file.size_bytes
        if size >= options.manifest_target_file_size_bytes:
            merged += _merge_group(draft, group)
            group, size = [], 0
    return merged + (_merge_group(draft, group) if len(group) >= options.manifest_merge_min_count else group)


def _merge_group(draft: UncommittedFiles, group: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
    if len(group) < LEAST_JOINED:
        return group
    if not any(file.num_deleted_files for file in group):
        copied = _copy_avro_records(draft, group)
        if copied is not None:
            return [copied]
    return write_entries(draft, columns_of.merge([meta.read_entries(draft.ctx, group)]))


def _copy_avro_records(draft: UncommittedFiles, group: list[ManifestFileMeta]) -> ManifestFileMeta | None:
    """Join manifests that only add files by copying their encoded records.

    None: their records cannot be in one file (not Avro, other schemas or counts), or the file would be too large.
    """
    if draft.how["kind"] != "avro":
        return None
    containers = [
        avro_container.open_container(data)
        for data in meta.read_bytes(draft.ctx, group)
        if avro_container.is_avro(data)
    ]
    avro_schemas = {container.metadata["avro.schema"] for container in containers}
    counts = [file.num_added_files for file in group]
    if len(containers) < len(group) or len(avro_schemas) > 1 or [container.count for container in containers] != counts:
        return None
    data = avro_container.join(containers, codec=draft.how["codec"], level=draft.how["level"])
    if len(data) > 2 * draft.ctx.options.manifest_target_file_size_bytes:
        return None
    return partition_ranges.merge_manifest_metas(
        group, name=draft.write("manifest", data), size_bytes=len(data), fields=draft.ctx.schema.partition_fields
    )
