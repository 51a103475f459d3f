"""Metadata files of a commit: manifests, their lists, and the index files that a snapshot combines.

    base of the new snapshot   =  merged(base + delta of the snapshot before)
    delta of the new snapshot  =  its own entries
    manifest-<uuid>-0, manifest-<uuid>-1, manifest-list-<uuid>-0 …    one uuid a commit, one counter a kind (FORMAT 1.3)

Merging decodes only where needed: manifests that only add files are joined byte by byte. `UncommittedFiles` writes the
files, and deletes them if the commit fails. `may_contain_partition` tells by statistics which manifests may contain a
partition:
values compare as Java's do, texts by their bytes, NaN above everything; binary values have no order and so no bounds
(FORMAT 4.2 and 7.7).

    index files   bucketed   one hash index and one file of deletion vectors a bucket: a new one replaces the one it
                             started from
                  unaware    deletion vectors by file name: a commit lists which index files to delete and which to add
                  others     by file name

Source: FORMAT.md 4.2, 4.4, 4.6, ENGINE.md 5.3, 5.5 (3a), 5.12, 7.3, 7.4; `ManifestFileMerger`, `ManifestFileMeta`,
`SimpleStatsCollector`, `IndexManifestFileHandler`, `PartitionExpire.isValueAllExpired`,
`PartitionValuesTimeExpireStrategy`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import suppress
from itertools import chain, pairwise
from math import copysign, isnan
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lakekit.codec import avro_container, binary_row
from lakekit.codec.avro_container import to_avro_codec
from lakekit.data_file.paths import partition_values
from lakekit.errors import Conflict, LakekitError
from lakekit.metadata import manifest_reader as meta
from lakekit.model import entry_files, manifest_entries as columns_of, manifests, partition as partitions
from lakekit.model.data_file import Stats
from lakekit.model.index_manifest import DELETE as INDEX_DELETE, DELETION_VECTORS, HASH_INDEX
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.manifests import ManifestFileMeta
from lakekit.model.partition import partition_time_ms
from lakekit.runtime import wall_clock_ms
from lakekit.storage.atomic_write import put_all
from lakekit.types import BINARIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lakekit.commit.changes import Delta, KnownHashIndexes
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.types import Field

    Values = tuple[Any, ...]
    Prefix = Literal["manifest", "manifest-list", "index-manifest"]
    Key = tuple[bytes, int, str, str]


def partition_values_of(partitions: Iterable[bytes], fields: Sequence[Field]) -> list[Values]:
    """Return the values of serialized partitions. Raises `Corrupt`."""
    types = [field.type for field in fields]
    return [binary_row.decode_row(binary_row.strip_arity(row)[1], types) if types else () for row in partitions]


def stats_of_partitions(counts: Mapping[bytes, int], fields: Sequence[Field]) -> Stats:
    """Return the bounds and null counts of serialized partitions; `counts` gives how often each occurs."""
    if not fields:
        return Stats()
    counted_rows = zip(partition_values_of(counts, fields), counts.values(), strict=True)
    return _combine_ranges(
        [(row, row, tuple(count * (value is None) for value in row)) for row, count in counted_rows], fields
    )


def merge_manifest_metas(
    files: Sequence[ManifestFileMeta], *, name: str, size_bytes: int, fields: Sequence[Field]
) -> ManifestFileMeta:
    """Return the metadata of a manifest that holds the entries of several."""
    return ManifestFileMeta(
        name=name,
        size_bytes=size_bytes,
        num_added_files=sum(file.num_added_files for file in files),
        num_deleted_files=sum(file.num_deleted_files for file in files),
        partition_stats=_combine_ranges([_partition_range(file, fields) for file in files], fields)
        if fields
        else Stats(),
        schema_id=max(file.schema_id for file in files),
        min_bucket=_reduce_if_known(min, [file.min_bucket for file in files]),
        max_bucket=_reduce_if_known(max, [file.max_bucket for file in files]),
        min_level=_reduce_if_known(min, [file.min_level for file in files]),
        max_level=_reduce_if_known(max, [file.max_level for file in files]),
        min_row_id=_reduce_if_known(min, [file.min_row_id for file in files]),
        max_row_id=_reduce_if_known(max, [file.max_row_id for file in files]),
    )


def may_contain_partition(file: ManifestFileMeta, partitions: Sequence[Values], fields: Sequence[Field]) -> bool:
    """Return whether a manifest may have entries of one of the partitions."""
    if not fields:
        return True
    low, high, nulls = _partition_range(file, fields)
    return any(
        all(_is_in_range(*value_range) for value_range in zip(values, low, high, nulls, strict=True))
        for values in partitions
    )


def filter_manifests(
    files: Iterable[ManifestFileMeta], partitions: Iterable[Values], fields: Sequence[Field]
) -> list[ManifestFileMeta]:
    """Return the manifests that `may_contain_partition` one of the partitions, in order.

    Partitions are looked up by their first value, so many manifests and many partitions stay cheap.
    """
    if not fields:
        return list(files)
    rows = list(partitions)
    nulls = [row for row in rows if row[0] is None]
    ordered = sorted(((_java_sort_key(row[0]), row) for row in rows if row[0] is not None), key=itemgetter(0))
    firsts = [first for first, _ in ordered]

    def holds(file: ManifestFileMeta) -> bool:
        low, high, counts = _partition_range(file, fields)
        null_rows = nulls if counts[0] is None or counts[0] > 0 else []
        start, end = 0, len(ordered)
        if low[0] is not None and high[0] is not None:
            start, end = bisect_left(firsts, _java_sort_key(low[0])), bisect_right(firsts, _java_sort_key(high[0]))
        if len(fields) == 1:
            return bool(null_rows) or start < end
        other_bounds = list(zip(low, high, counts, strict=True))[1:]
        return any(
            all(_is_in_range(value, *bounds) for value, bounds in zip(row[1:], other_bounds, strict=True))
            for row in chain(null_rows, (ordered[position][1] for position in range(start, end)))
        )

    return [file for file in files if holds(file)]


def _is_in_range(value: Any, low: Any, high: Any, nulls: int | None) -> bool:
    if value is None:
        return nulls is None or nulls > 0
    if low is None or high is None:
        return True  # only nulls, or unknown
    return bool(_java_sort_key(low) <= _java_sort_key(value) <= _java_sort_key(high))


def _partition_range(file: ManifestFileMeta, fields: Sequence[Field]) -> tuple[Values, Values, tuple[int | None, ...]]:
    low, high = partition_values_of((file.partition_stats.min_values, file.partition_stats.max_values), fields)
    nulls = file.partition_stats.null_counts
    return low, high, nulls if nulls is not None and len(nulls) == len(fields) else (None,) * len(fields)


def _combine_ranges(ranges: Sequence[tuple[Values, Values, tuple[int | None, ...]]], fields: Sequence[Field]) -> Stats:
    low: list[Any] = []
    high: list[Any] = []
    nulls: list[int | None] = []
    for position, field in enumerate(fields):
        lows = [range_[0][position] for range_ in ranges if range_[0][position] is not None]
        highs = [range_[1][position] for range_ in ranges if range_[1][position] is not None]
        ordered = lows and field.type.root not in BINARIES
        low.append(min(lows, key=_java_sort_key) if ordered else None)
        high.append(max(highs, key=_java_sort_key) if ordered else None)
        counts = [range_[2][position] for range_ in ranges]
        nulls.append(None if None in counts else sum(null_count or 0 for null_count in counts))
    types = [field.type for field in fields]
    rows = [binary_row.with_arity(binary_row.encode_row(range_, types), len(types)) for range_ in (low, high)]
    return Stats(min_values=rows[0], max_values=rows[1], null_counts=tuple(nulls))


def _java_sort_key(value: Any) -> Any:
    """Return a key that orders the value as Java does."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, float):
        return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))  # two NaN are one value
    return value


def _reduce_if_known(choose: Any, numbers: list[int | None]) -> int | None:
    """Return the smallest or greatest of the numbers; None if one is unknown."""
    return None if None in numbers else choose(numbers)


# ---- partition expiration -----------------------------------------------


def is_partition_expired(ctx: TableContext, partition: bytes) -> bool:
    """Return True for a partition past its expiration time (`partition.expiration-time`), by the time in its values.

    A commit that replaces files of such a partition fails with an error of its own: the files were removed with the
    partition, and would be again. Always False without the option, and with another strategy than values-time.
    """
    options = ctx.options
    age = options.partition_expiration_time_ms
    if age is None or options.partition_expiration_strategy != "values-time" or not ctx.schema.partition_keys:
        return False
    values, pattern = partition_values(ctx, partition), options.partition_timestamp_pattern
    if any(value is None for value in (values if pattern is not None else values[:1])):
        return False
    types = [field.type for field in ctx.schema.partition_fields]
    texts = partitions.partition_texts(values, types, default_name=options.partition_default_name)
    time = partition_time_ms(
        ctx.schema.partition_keys, texts, pattern=pattern, formatter=options.partition_timestamp_formatter
    )
    return time is not None and time < wall_clock_ms(ctx.runtime.now_ms()) - age


# ---- manifest writer ------------------------------------------------------------


MIN_JOINED_MANIFESTS = 2
"""So many manifests are joined at least."""
MAX_ROWWISE_ENTRIES = 1000
"""Up to so many entries are written one by one; more as columns."""


def write_manifest_list(draft: UncommittedFiles, files: Sequence[ManifestFileMeta]) -> tuple[str, int]:
    """Write a manifest list; return its name and size."""
    data = manifests.encode_list(files, **draft.encode_options)
    name = draft.add_file("manifest-list", data)
    meta.cache_list(draft.ctx, name, files)
    return name, len(data)


def write_delta_manifests(draft: UncommittedFiles, delta: Delta) -> list[ManifestFileMeta]:
    """Write what a commit adds and deletes as manifests; return none if there is nothing."""
    if delta.stored_entries is not None or len(delta.message_rows) > MAX_ROWWISE_ENTRIES:
        return write_entry_manifests(draft, delta.entries)
    if not delta.message_rows:
        return []
    data = entry_files.encode_entry_rows(delta.message_rows, **draft.encode_options)
    kinds, partitions, buckets, _, files = zip(*delta.message_rows, strict=True)
    name = draft.add_file("manifest", data)
    meta.cache_entries(draft.ctx, name, delta)
    levels, first = [file.level for file in files], [file.first_row_id for file in files]
    return [
        ManifestFileMeta(
            name=name,
            size_bytes=len(data),
            num_added_files=kinds.count(ADD),
            num_deleted_files=kinds.count(DELETE),
            partition_stats=stats_of_partitions(Counter(partitions), draft.ctx.schema.partition_fields),
            schema_id=max(file.schema_id for file in files),
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
            min_row_id=None if None in first else min(first),
            max_row_id=None if None in first else max(file.first_row_id + file.row_count for file in files) - 1,
        )
    ]


def write_entry_manifests(draft: UncommittedFiles, entries: ManifestEntries) -> list[ManifestFileMeta]:
    """Write entries as manifests of about `manifest.target-file-size`; none without entries."""
    if not len(entries):
        return []
    target = max(draft.ctx.options.manifest_target_file_size_bytes, 1)
    data = entry_files.encode_entries(entries, **draft.encode_options)
    pieces = min(-(-len(data) // target), len(entries))
    if pieces == 1:
        return [_write_manifest(draft, data, entries)]
    cuts = np.linspace(0, len(entries), pieces + 1).astype(np.int64)
    parts = [entries.slice(int(start), int(end)) for start, end in pairwise(cuts)]
    return [_write_manifest(draft, entry_files.encode_entries(part, **draft.encode_options), part) for part in parts]


def _write_manifest(draft: UncommittedFiles, data: bytes, entries: ManifestEntries) -> ManifestFileMeta:
    name = draft.add_file("manifest", data)
    kinds, buckets, levels = entries.integers("kind"), entries.integers("bucket"), entries.integers("level")
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
        partition_stats=stats_of_partitions(
            dict(zip(encoded.dictionary.to_pylist(), counts.tolist(), strict=True)), draft.ctx.schema.partition_fields
        ),
        schema_id=int(entries.integers("schema_id").max()),
        min_bucket=int(buckets.min()),
        max_bucket=int(buckets.max()),
        min_level=int(levels.min()),
        max_level=int(levels.max()),
        min_row_id=int(first_row_ids.min()) if has_row_ids else None,
        max_row_id=int((first_row_ids + entries.integers("row_count")).max()) - 1 if has_row_ids else None,
    )
    meta.cache_entries(draft.ctx, name, entries)
    return manifest


# ---- merging ---------------------------------------------------------------------------------------------------------


def merge_manifests(draft: UncommittedFiles, files: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    """Merge the small ones of a snapshot's manifests into the next base list. Live files stay live."""
    compacted = _try_full_compaction(draft, files)
    return _compact_minor(draft, files) if compacted is None else compacted


def _try_full_compaction(draft: UncommittedFiles, files: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta] | None:
    """Rewrite every manifest that is small or has deletions, without deletions.

    Returns None if they are smaller than `manifest.full-compaction-threshold-size`, or fewer than two.
    """
    options = draft.ctx.options
    target = options.manifest_target_file_size_bytes
    candidates = [file for file in files if file.num_deleted_files or file.size_bytes < target]
    if sum(file.size_bytes for file in candidates) < options.manifest_full_compaction_threshold_size_bytes:
        return None
    entries = meta.read_entries(draft.ctx, candidates)
    deleted = entries.filter(entries.integers("kind") == DELETE)
    chosen_names = {file.name for file in candidates}
    if len(deleted):
        fields = draft.ctx.schema.partition_fields
        partitions = partition_values_of(deleted.column("partition").unique().to_pylist(), fields)
        others = [
            file for file in files if file.name not in chosen_names and may_contain_partition(file, partitions, fields)
        ]
        chosen_names |= {file.name for file in others if _names_any(meta.read_entries(draft.ctx, [file]), deleted)}
    rewritten = [file for file in files if file.name in chosen_names]
    if len(rewritten) < MIN_JOINED_MANIFESTS:
        return None
    live = columns_of.live_entries([meta.read_entries(draft.ctx, rewritten)])
    return [file for file in files if file.name not in chosen_names] + write_entry_manifests(draft, live)


def _names_any(entries: ManifestEntries, deleted_entries: ManifestEntries) -> bool:
    group = columns_of.identity_codes(columns_of.concat_entries([entries, deleted_entries]))
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
    if len(group) < MIN_JOINED_MANIFESTS:
        return group
    if not any(file.num_deleted_files for file in group):
        copied = _copy_avro_records(draft, group)
        if copied is not None:
            return [copied]
    return write_entry_manifests(draft, columns_of.merge_entries([meta.read_entries(draft.ctx, group)]))


def _copy_avro_records(draft: UncommittedFiles, group: list[ManifestFileMeta]) -> ManifestFileMeta | None:
    """Join manifests that only add files by copying their encoded records.

    Returns None if their records cannot be in one file (not Avro, other schemas or counts), or if the file would be too
    large.
    """
    if draft.encode_options["kind"] != "avro":
        return None
    containers = [
        avro_container.open_container(data)
        for data in meta.read_manifest_bytes(draft.ctx, group)
        if avro_container.is_avro(data)
    ]
    avro_schemas = {container.metadata["avro.schema"] for container in containers}
    counts = [file.num_added_files for file in group]
    if len(containers) < len(group) or len(avro_schemas) > 1 or [container.count for container in containers] != counts:
        return None
    data = avro_container.join_containers(
        containers, codec=draft.encode_options["codec"], level=draft.encode_options["level"]
    )
    if len(data) > 2 * draft.ctx.options.manifest_target_file_size_bytes:
        return None
    return merge_manifest_metas(
        group, name=draft.add_file("manifest", data), size_bytes=len(data), fields=draft.ctx.schema.partition_fields
    )


# ---- uncommitted files ------------------------------------------------


_MAX_PENDING_BYTES = 32 << 20
"""Bytes that wait to be written together."""


class UncommittedFiles:
    """The files that a commit has written; they are unreferenced until a snapshot is created."""

    def __init__(self, ctx: TableContext) -> None:
        self.ctx = ctx
        self.is_outcome_unknown = False
        """Whether a snapshot that refers to the files may be there, or may come."""
        self._uuid = ctx.runtime.new_id()
        self._numbers: dict[str, int] = {}
        self._written_paths: dict[str, None] = {}
        self._pending_writes: list[tuple[str, bytes]] = []
        options = ctx.options
        compression, kind = options.manifest_compression, options.manifest_format
        self.encode_options: dict[str, Any] = {
            "kind": kind,
            # each format has names of its own
            "codec": to_avro_codec(compression) if kind == "avro" else compression.lower(),
            "level": options.file_compression_zstd_level,
        }

    def add_file(self, prefix: Prefix, data: bytes) -> str:
        """Add a file to be written and return its name; it is durable after `write_pending`."""
        counter = self._numbers.get(prefix, 0)
        self._numbers[prefix] = counter + 1
        name = f"{prefix}-{self._uuid}-{counter}"
        path = self.ctx.paths.manifest(name)
        self._written_paths[path] = None
        self._pending_writes.append((path, data))
        if sum(len(waiting) for _, waiting in self._pending_writes) > _MAX_PENDING_BYTES:
            self.write_pending()
        return name

    def write_pending(self) -> None:
        """Write the pending files and sync them. Raises `StorageFailed`."""
        waiting, self._pending_writes = self._pending_writes, []
        put_all(self.ctx.storage, waiting)

    def discard(self, keep: Collection[str] = ()) -> None:
        """Drop pending files and delete written ones, except those named in `keep`.

        A file that cannot be deleted is left to the cleaning of orphans.
        """
        self._pending_writes = []
        kept_paths = {self.ctx.paths.manifest(name) for name in keep}
        to_delete = [path for path in self._written_paths if path not in kept_paths]
        with suppress(LakekitError):
            if to_delete:
                self.ctx.storage.delete(to_delete)
        self._written_paths = dict.fromkeys(path for path in self._written_paths if path in kept_paths)


# ---- index files ------------------------------------------------------


def combine_index_entries(
    live_entries: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry], *, by_bucket: bool
) -> list[IndexManifestEntry]:
    """Return the index files after the changes (ADD and DELETE), in order.

    `by_bucket`: deletion vectors belong to buckets. Two writers that both choose buckets for new keys of a partition
    would put one key in two buckets, and two that both mark rows of a bucket would each undo the other's marks: the
    reference lets the last one win, here the second one gets a `Conflict`.

    Raises:
        Conflict: a deleted file is missing, an added file exists already, or deletion vectors replace others than they
            started from.
    """
    combined = {_entry_key(entry, by_bucket): entry for entry in live_entries}
    removed = [entry for entry in changes if entry.kind == INDEX_DELETE]
    added = [entry for entry in changes if entry.kind != INDEX_DELETE]
    started_from = {_entry_key(entry, by_bucket): entry.file_name for entry in removed}
    for entry in removed:
        key = _entry_key(entry, by_bucket)
        existing = combined.pop(key, None)
        if existing is None or existing.file_name != entry.file_name:
            raise _make_stale_conflict(entry, entry.file_name, None if existing is None else existing.file_name)
    for entry in added:
        key = _entry_key(entry, by_bucket)
        existing = combined.get(key)
        if existing is not None and entry.index_type != HASH_INDEX:
            raise _make_stale_conflict(entry, started_from.get(key), existing.file_name)
        combined[key] = entry
    return list(combined.values())


def _entry_key(entry: IndexManifestEntry, by_bucket: bool) -> Key:
    if entry.index_type == HASH_INDEX or (entry.index_type == DELETION_VECTORS and by_bucket):
        return entry.partition, entry.bucket, entry.index_type, ""
    return b"", 0, entry.index_type, entry.file_name


def _make_stale_conflict(entry: IndexManifestEntry, started: str | None, existing: str | None) -> Conflict:
    start_text = "no index file" if started is None else started
    found_text = "none is there" if existing is None else f"{existing} is there"
    subject = "Deletion vectors" if entry.index_type == DELETION_VECTORS else f"The {entry.index_type} index"
    return Conflict(
        f"{subject} of bucket {entry.bucket} changed while this commit was made: it started from {start_text}, now "
        f"{found_text}. Nothing was committed. Another writer or compaction works on the same bucket; give compaction "
        "to one job (write-only=true for the others) and write again",
        files=tuple(name for name in (entry.file_name, started, existing) if name is not None),
    )


def check_hash_bases(live_entries: Iterable[IndexManifestEntry], bases: Sequence[KnownHashIndexes]) -> None:
    """Raise `Conflict` if the hash indexes of a partition are not those by which its writer chose buckets."""
    partitions = {base.partition for base in bases}
    live_names: dict[bytes, set[str]] = {partition: set() for partition in partitions}
    for entry in live_entries:
        if entry.index_type == HASH_INDEX and entry.partition in partitions:
            live_names[entry.partition].add(entry.file_name)
    for base in bases:
        changed = live_names[base.partition] ^ base.file_names
        if changed:
            raise Conflict(
                "Another writer changed the hash index of a partition since this one loaded it: a key could come to "
                "lie in two buckets. Nothing was committed. Open a new writer and write the rows again; one job at a "
                "time may write new keys to a partition of dynamic buckets",
                files=tuple(sorted(changed)),
            )
