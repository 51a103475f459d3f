"""The metadata of a table as frames: snapshots, schemas, refs, and the files of a snapshot.

The newest row is last; instants are in UTC. `file_totals` and `merge_health` describe a frame of data files in one line
each: how many files there are, and how much a read has to merge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row
from lakekit.columns import cols
from lakekit.data_file import paths
from lakekit.data_file.corrupt_manifest_path import add_manifest_path
from lakekit.draw import humanize
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import (
    manifest_reader as manifest_files,
    refs,
    schemas as schema_files,
    snapshots as snapshot_files,
)
from lakekit.read import time_travel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot
    from lakekit.types import Field


INSTANT_DTYPE = pl.Datetime("ms", "UTC")
WALL_CLOCK_NS_DTYPE = pl.Datetime("ns")
_PAIRS_DTYPE = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
_FIELDS_DTYPE = pl.List(pl.Struct({"id": pl.Int32, "name": pl.String, "type": pl.String, "comment": pl.String}))
_SNAPSHOTS_SCHEMA = {
    "snapshot_id": pl.Int64,
    "kind": pl.String,
    "time": INSTANT_DTYPE,
    "schema_id": pl.Int64,
    "total_record_count": pl.Int64,
    "delta_record_count": pl.Int64,
    "changelog_record_count": pl.Int64,
    "watermark": pl.Int64,
    "tags": pl.List(pl.String),
    "commit_user": pl.String,
    "commit_identifier": pl.Int64,
    "base_manifest_list": pl.String,
    "delta_manifest_list": pl.String,
    "changelog_manifest_list": pl.String,
    "index_manifest": pl.String,
    "statistics": pl.String,
    "properties": _PAIRS_DTYPE,
}


def rows_to_frame(rows: Iterable[tuple[Any, ...]], schema: dict[str, Any]) -> pl.DataFrame:
    """Return rows of facts as a frame."""
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def snapshots(ctx: TableContext) -> pl.DataFrame:
    """Return every snapshot. Counts are stored rows: several versions of a key count each.

    `tags` are the tags that name it.
    """
    named: dict[int, list[str]] = {}
    for tag in refs.list_tags(ctx):
        named.setdefault(tag.snapshot.id, []).append(tag.name)
    rows = (
        (
            s.id,
            s.commit_kind,
            s.time_millis,
            s.schema_id,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark_or_none,
            named.get(s.id, []),
            s.commit_user,
            s.commit_identifier,
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.index_manifest,
            s.statistics,
            _to_pairs(s.properties),
        )
        for s in snapshot_files.read_all(ctx)
    )
    return rows_to_frame(rows, _SNAPSHOTS_SCHEMA)


def schemas(ctx: TableContext) -> pl.DataFrame:
    """Return every schema of the table."""
    rows = (
        (
            s.id,
            s.time_millis,
            [{"id": f.id, "name": f.name, "type": str(f.type), "comment": f.comment} for f in s.fields],
            list(s.partition_keys),
            list(s.primary_keys),
            _to_pairs(s.options),
            s.comment,
            s.highest_field_id,
        )
        for s in schema_files.read_all(ctx)
    )
    texts = pl.List(pl.String)
    columns = {
        "schema_id": pl.Int64,
        "time": INSTANT_DTYPE,
        "fields": _FIELDS_DTYPE,
        "partition_keys": texts,
        "primary_keys": texts,
        "options": _PAIRS_DTYPE,
        "comment": pl.String,
        "highest_field_id": pl.Int64,
    }
    return rows_to_frame(rows, columns)


def tags(ctx: TableContext) -> pl.DataFrame:
    """Return every tag. `created` is the writer's wall clock; `retained` null: for ever."""
    rows = (
        (
            t.name,
            t.snapshot.id,
            t.snapshot.schema_id,
            t.snapshot.time_millis,
            t.snapshot.total_record_count,
            None if t.create_time is None else t.create_time.millis * 1_000_000 + t.create_time.nanos,
            None if t.time_retained_ns is None else t.time_retained_ns // 1000,
        )
        for t in refs.list_tags(ctx)
    )
    columns = {
        "tag": pl.String,
        "snapshot_id": pl.Int64,
        "schema_id": pl.Int64,
        "time": INSTANT_DTYPE,
        "record_count": pl.Int64,
        "created": pl.Int64,
        "retained": pl.Int64,
    }
    return rows_to_frame(rows, columns).with_columns(
        pl.col("created").cast(WALL_CLOCK_NS_DTYPE), pl.col("retained").cast(pl.Duration("us"))
    )


def branches(ctx: TableContext) -> pl.DataFrame:
    """Return every branch but main."""
    return rows_to_frame(
        ((b.name, b.changed_ms) for b in refs.list_branches(ctx)), {"branch": pl.String, "created": INSTANT_DTYPE}
    )


def consumers(ctx: TableContext) -> pl.DataFrame:
    """Return every consumer and the snapshot it will read next."""
    by_id = refs.list_consumers(ctx)
    return rows_to_frame(
        ((name, by_id[name].next_snapshot) for name in sorted(by_id)),
        {"consumer": pl.String, "next_snapshot_id": pl.Int64},
    )


def _to_pairs(mapping: Any) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in sorted((mapping or {}).items())]


# ---- frames ------------------------------------------------------------


WALL_CLOCK_MS_DTYPE = pl.Datetime("ms")
_ENTRY_KIND_NAMES, _FILE_SOURCE_NAMES = pa.array(["ADD", "DELETE"]), pa.array(["APPEND", "COMPACT"])
"""The names of codes, in their order."""
_VECTORS_DTYPE = pl.List(
    pl.Struct({"file_name": pl.String, "offset": pl.Int64, "length": pl.Int64, "deleted_row_count": pl.Int64})
)
_MANIFEST_LISTS: tuple[manifest_files.ManifestListKind, ...] = ("base", "delta", "changelog")


def manifests(ctx: TableContext, snapshot: Snapshot | None) -> pl.DataFrame:
    """Return the manifests of a snapshot: of its base, of what its commit added (delta), of its changelog.

    `partition_min` and `partition_max` bound partitions.
    """
    fields = ctx.schema.partition_fields
    listed = (
        [(which, m) for which in _MANIFEST_LISTS for m in manifest_files.manifest_files(ctx, snapshot, which)]
        if snapshot is not None
        else []
    )
    low = decode_structs(fields, pa.array([m.partition_stats.min_values for _, m in listed], pa.binary()))
    high = decode_structs(fields, pa.array([m.partition_stats.max_values for _, m in listed], pa.binary()))
    rows = (
        (
            w,
            m.name,
            m.size_bytes,
            m.num_added_files,
            m.num_deleted_files,
            m.schema_id,
            m.min_bucket,
            m.max_bucket,
            m.min_level,
            m.max_level,
        )
        for w, m in listed
    )
    columns: dict[str, Any] = {"list": pl.String, "file_name": pl.String}
    columns |= dict.fromkeys(
        (
            "size_bytes",
            "num_added_files",
            "num_deleted_files",
            "schema_id",
            "min_bucket",
            "max_bucket",
            "min_level",
            "max_level",
        ),
        pl.Int64,
    )
    return rows_to_frame(rows, columns).with_columns(low.alias("partition_min"), high.alias("partition_max"))


FILE_COLUMNS = (
    "partition",
    "bucket",
    "level",
    "file_name",
    "row_count",
    "size_bytes",
    "delete_row_count",
    "deleted_row_count",
    "min_key",
    "max_key",
    "min_sequence_number",
    "max_sequence_number",
    "schema_id",
    "source",
    "creation_time",
    "extra_files",
    "embedded_index_bytes",
    "file_path",
)
"""The columns of a data file."""


def files(ctx: TableContext, snapshot: Snapshot | None) -> pl.DataFrame:
    """Return every live data file.

    `partition` is its directory; `min_key` and `max_key` are structs of the key columns, null in append tables.
    `creation_time` is the writer's wall clock; `source` is APPEND (a flush) or COMPACT; `deleted_row_count` counts rows
    its deletion vector hides.
    """
    entries = live_entries(ctx, snapshot)
    listed = describe_entries(ctx, entries, [name for name in FILE_COLUMNS if name != "deleted_row_count"])
    return listed.insert_column(
        FILE_COLUMNS.index("deleted_row_count"),
        _deleted_row_counts(ctx, snapshot, listed["file_name"]).alias("deleted_row_count"),
    )


def describe_entries(ctx: TableContext, entries: ManifestEntries, columns: Sequence[str]) -> pl.DataFrame:
    """Return manifest entries as a frame, with those columns of `FILE_COLUMNS` and `kind`.

    `columns` must not name `deleted_row_count`, which a manifest entry does not have.
    """
    return pl.DataFrame([_entry_column(ctx, entries, name).alias(name) for name in columns])


def _entry_column(ctx: TableContext, entries: ManifestEntries, name: str) -> pl.Series:
    match name:
        case "partition":
            return partition_directories(ctx, entries)
        case "min_key" | "max_key":
            return decode_structs(ctx.schema.key_fields, entries.column(name))
        case "kind":
            return _code_names(entries.column(name), _ENTRY_KIND_NAMES)
        case "source":
            return _code_names(entries.column("file_source"), _FILE_SOURCE_NAMES)
        case "creation_time":
            return pl.Series(entries.column(name)).cast(WALL_CLOCK_MS_DTYPE)
        case "extra_files":
            return pl.Series(entries.column(name), dtype=pl.List(pl.String))
        case "embedded_index_bytes":
            return pl.Series(entries.column("embedded_index")).bin.size().cast(pl.Int64)
        case "file_path":
            return pl.Series(paths.data_file_paths(ctx, entries), dtype=pl.String)
    return pl.Series(entries.column("file_size" if name == "size_bytes" else name))


def _code_names(codes: pa.Array, names: pa.StringArray) -> pl.Series:
    """Return the name of each code, null for one without.

    Every listing calls this, and Arrow takes less time for it than a query of Polars.
    """
    return pl.Series(names.take(pc.index_in(codes, pa.array(range(len(names)), codes.type))), dtype=pl.String)


def partitions(ctx: TableContext, snapshot: Snapshot | None) -> pl.DataFrame:
    """Return live data files summed by partition.

    Columns are its directory, its values as a struct, files, rows, bytes, buckets, newest file. Null and blank text
    share one directory and stay partitions of their own.
    """
    entries = live_entries(ctx, snapshot)
    values = decode_structs(ctx.schema.partition_fields, entries.column("partition"))
    return _sum_entries(
        ctx, entries, ["partition"], pl.col("bucket").n_unique().cast(pl.Int64).alias("bucket_count"), values
    )


def buckets(ctx: TableContext, snapshot: Snapshot | None) -> pl.DataFrame:
    """Return live data files summed by bucket.

    `run_count` is the number of sorted runs: each file of level 0, and each deeper level.
    """
    level_zero = (pl.col("level") == 0).sum()
    runs = (level_zero + pl.col("level").filter(pl.col("level") > 0).n_unique()).cast(pl.Int64).alias("run_count")
    return _sum_entries(ctx, live_entries(ctx, snapshot), ["partition", "bucket"], runs, None)


def indexes(ctx: TableContext, snapshot: Snapshot | None) -> pl.DataFrame:
    """Return the index files of a snapshot: hash indexes and deletion vectors.

    `row_count` is the number of hashes or of vectors.
    """
    entries = manifest_files.index_entries(ctx, snapshot) if snapshot is not None else []
    rows = (
        (
            entry.index_type,
            paths.partition_path(ctx, entry.partition),
            entry.bucket,
            entry.file_name,
            entry.file_size_bytes,
            entry.row_count,
            [
                {"file_name": r.file_name, "offset": r.offset, "length": r.length, "deleted_row_count": r.cardinality}
                for r in entry.ranges or ()
            ],
        )
        for entry in entries
    )
    columns = {
        "index_type": pl.String,
        "partition": pl.String,
        "bucket": pl.Int32,
        "file_name": pl.String,
        "size_bytes": pl.Int64,
        "row_count": pl.Int64,
        "vectors": _VECTORS_DTYPE,
    }
    return rows_to_frame(rows, columns)


# ---- parts -----------------------------------------------------------------------------------------------------------


def list_at_position(
    listing: Callable[[TableContext, Snapshot | None], pl.DataFrame],
    ctx: TableContext,
    at: int | str | datetime | None,
) -> pl.DataFrame:
    """Return one of these listings for the snapshot that `at` means, with the schema of then.

    Raises: `SnapshotNotFound`, `TagNotFound`, `Corrupt` naming the manifest.
    """
    ctx, snapshot = time_travel.context_at(ctx, at)
    with add_manifest_path(ctx, lambda: snapshot):
        return listing(ctx, snapshot)


def live_entries(ctx: TableContext, snapshot: Snapshot | None) -> ManifestEntries:
    """Return all live entries of a snapshot, also those that are hidden from reads."""
    return manifest_files.empty_entries() if snapshot is None else manifest_files.read_live_entries(ctx, snapshot)


def decode_structs(fields: Sequence[Field], rows: pa.BinaryArray) -> pl.Series:
    """Return serialized rows as a column of structs; null if there are no fields."""
    if not fields:
        return pl.Series([None] * len(rows), dtype=pl.Struct({}))
    wanted = polars_schema(fields)
    decoded = binary_row.decode_columns(rows, [field.type for field in fields])
    return pl.DataFrame(
        [pl.Series(f.name, values).cast(wanted[f.name]) for f, values in zip(fields, decoded, strict=True)]
    ).to_struct()


def partition_directories(ctx: TableContext, entries: ManifestEntries) -> pl.Series:
    """Return the partition directory of each entry, without a slash at the end.

    It is empty in a table without partitions.
    """
    encoded = entries.column("partition").dictionary_encode()
    texts = [paths.partition_path(ctx, row).rstrip("/") for row in encoded.dictionary.to_pylist()]
    return pl.Series("partition", texts, dtype=pl.String).gather(pl.Series(encoded.indices))


def _sum_entries(
    ctx: TableContext, entries: ManifestEntries, group_columns: list[str], extra: pl.Expr, values: pl.Series | None
) -> pl.DataFrame:
    parts = [partition_directories(ctx, entries), pl.Series("row", entries.column("partition"))]
    parts += [
        pl.Series(name, entries.column(name)) for name in ("bucket", "level", "row_count", "file_size", "creation_time")
    ]
    selected = pl.DataFrame(parts)
    sums = [
        pl.len().cast(pl.Int64).alias("file_count"),
        pl.col("row_count").sum(),
        pl.col("file_size").sum().alias("size_bytes"),
        extra,
        pl.col("creation_time").max().cast(WALL_CLOCK_MS_DTYPE).alias("newest_file"),
    ]
    if values is not None:
        selected, sums = selected.with_columns(values.alias("values")), [pl.col("values").first(), *sums]
    return selected.group_by(*cols(group_columns), "row").agg(sums).sort(*cols(group_columns), "row").drop("row")


def _deleted_row_counts(ctx: TableContext, snapshot: Snapshot | None, names: pl.Series) -> pl.Series:
    index_entries = manifest_files.index_entries(ctx, snapshot) if snapshot is not None else []
    counts = {r.file_name: r.cardinality for entry in index_entries for r in entry.ranges or ()}
    if not counts:
        return pl.Series([0]).new_from_index(0, len(names))
    return names.replace_strict(list(counts), list(counts.values()), default=0, return_dtype=pl.Int64)


# ---- summary ------------------------------------------------------------


_MANY_RUNS = 5
"""The number of sorted runs in a bucket above which compaction is mentioned: Paimon's own compaction starts there by
default.
"""


def file_totals(files: pl.DataFrame) -> str:
    """Return how many files there are, their size, and how many rows are stored in them."""
    size_bytes, row_count = (int(files[name].sum()) for name in ("size_bytes", "row_count"))
    return (
        f"{humanize.plural(files.height, 'file')}, {humanize.format_size(size_bytes)}, "
        f"{humanize.plural(row_count, 'stored row')}"
    )


def merge_health(files: pl.DataFrame) -> str:
    """Return how many sorted runs a read has to merge: level 0 counts by file, deeper levels once."""
    if files.is_empty():
        return "no files"
    of_bucket = files.group_by("partition", "bucket").agg(
        (pl.col("level") == 0).sum().alias("files"), pl.col("level").filter(pl.col("level") > 0).n_unique()
    )
    many = max(of_bucket["files"] + of_bucket["level"])
    advice = "compaction would make reads faster" if many > _MANY_RUNS else "reads have little to merge"
    return f"{humanize.plural(many, 'sorted run')} in the fullest bucket: {advice}"
