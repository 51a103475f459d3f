"""System tables of a snapshot: its files, key ranges, manifests, partitions, buckets, indexes.

Values are printed as the reference prints them: a partition as SQL text `{2024-01-01, 1}`, a key `[19723]` and
statistics `{k=19723, v=a}` as internal values. Where it prints an object's identity, binary keys and statistics, there
is hexadecimal text.

file_indexes, which is newer than engine 1.4.2, has one row for each column and type of a data file's indexes. Only the
heads of containers are read, those of index files too.

Source: ENGINE 10.1, `FileIndexesTable`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit import parallel
from lakekit.codec import binary_row
from lakekit.columns import col, cols
from lakekit.data_file import paths, schema_evolution
from lakekit.errors import Unsupported
from lakekit.file_index import container as index_container
from lakekit.format import casts
from lakekit.format.polars_types import polars_type
from lakekit.metadata import manifest_reader as manifest_files, schemas as schema_files, snapshots
from lakekit.model import partition as partitions_of
from lakekit.model.index_manifest import DELETION_VECTORS, DeletionRange
from lakekit.model.manifest_entries import ADD, concat_entries
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.read import planner, sections, table_scan, time_travel
from lakekit.runtime import instant_ms
from lakekit.system_tables.frames import live_entries, rows_to_frame
from lakekit.types import BINARIES, TIMESTAMPS, DataType, Field, Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta, Stats
    from lakekit.model.manifest_entries import ManifestEntries

    At = int | str | datetime | None


TIME_DTYPE = pl.Datetime("ms")
_FILE_SOURCE_NAMES = {0: "APPEND", 1: "COMPACT"}
_TRACKING_FIELDS = tuple(
    Field(id=-n, name=name, type=DataType(root="BIGINT")) for n, name in enumerate(("_ROW_ID", "_SEQUENCE_NUMBER"), 1)
)
_FILES_SCHEMA: dict[str, Any] = {
    "partition": pl.String,
    "bucket": pl.Int32,
    "file_path": pl.String,
    "file_format": pl.String,
    "schema_id": pl.Int64,
    "level": pl.Int32,
    "record_count": pl.Int64,
    "file_size_in_bytes": pl.Int64,
    "min_key": pl.String,
    "max_key": pl.String,
    "null_value_counts": pl.String,
    "min_value_stats": pl.String,
    "max_value_stats": pl.String,
    "min_sequence_number": pl.Int64,
    "max_sequence_number": pl.Int64,
    "creation_time": TIME_DTYPE,
    "deleteRowCount": pl.Int64,
    "file_source": pl.String,
    "first_row_id": pl.Int64,
    "write_cols": pl.List(pl.String),
}


def _read_live_entries(ctx: TableContext, at: At) -> tuple[TableContext, ManifestEntries]:
    position = time_travel.resolve_position(ctx, at)
    return time_travel.schema_of(ctx, position), live_entries(ctx, position.snapshot)


def format_internal_value(value: Any, t: DataType) -> str:
    """Return an internal value as the reference prints it; null is `null`, bytes are hexadecimal."""
    if value is None:
        return "null"
    if t.root in BINARIES:
        return bytes(value).hex()
    try:
        return partitions_of.print_value(value, t)
    except Unsupported:
        return str(value)


def _decode_row(data: bytes, fields: Sequence[Field]) -> tuple[Any, ...]:
    return binary_row.decode_row(binary_row.strip_arity(data)[1], [field.type for field in fields])


def _format_key(data: bytes, fields: Sequence[Field]) -> str:
    values = zip(_decode_row(data, fields), fields, strict=True)
    return f"[{', '.join(format_internal_value(value, field.type) for value, field in values)}]"


def _format_partition(ctx: TableContext, partition: bytes) -> str:
    """Return the values of a partition as SQL text: `{2024-01-01, 12:00:00.0}`."""
    fields = ctx.schema.partition_fields
    texts = (
        "null" if value is None else partitions_of.print_value(value, f.type, legacy_form=False)
        for value, f in zip(_decode_row(partition, fields), fields, strict=True)
    )
    return "{" + ", ".join(texts) + "}"


def files(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return every live data file of real buckets, all levels.

    Of an older state it lists only those in partitions that still exist, as the reference does.
    """
    newest = snapshots.latest(ctx)
    ctx, entries = _read_live_entries(ctx, at)
    entries = _without_postponed(ctx, entries)
    entries = entries.filter(
        np.asarray(pc.is_in(entries.column("partition"), live_entries(ctx, newest).column("partition")))
    )
    listed = zip(entries.files(), paths.data_file_paths(ctx, entries), range(len(entries)), strict=True)
    return rows_to_frame((_file_row(ctx, entries, file, path, i) for file, path, i in listed), _FILES_SCHEMA)


def _file_row(ctx: TableContext, entries: ManifestEntries, file: DataFileMeta, path: str, i: int) -> tuple[Any, ...]:
    partition, bucket = paths.bucket_id_at(entries, i)
    keys = ctx.schema.key_fields
    nulls, low, high = _format_stats(ctx, file)
    return (
        _format_partition(ctx, partition),
        bucket,
        path,
        file.format_name,
        file.schema_id,
        file.level,
        file.row_count,
        file.size_bytes,
        _format_key(file.min_key, keys) if keys else None,
        _format_key(file.max_key, keys) if keys else None,
        nulls,
        low,
        high,
        file.min_sequence_number,
        file.max_sequence_number,
        file.creation_time_ms,
        file.delete_row_count,
        None if file.source is None else _FILE_SOURCE_NAMES.get(file.source),
        file.first_row_id,
        None if file.write_cols is None else list(file.write_cols),
    )


def _format_stats(ctx: TableContext, file: DataFileMeta) -> tuple[str, str, str]:
    """Return null counts, minima and maxima of all columns of the schema, by name.

    A column that the file's schema does not have is null in every row. Where the statistics cover what the file holds
    (`_WRITE_COLS`, without `_VALUE_STATS_COLS`), columns that it has not are not listed.
    """
    written = schema_files.read_schema(ctx, file.schema_id)
    # a compaction of tracked rows writes columns into the file that no schema has (append_row_tracking)
    own = replace(written, fields=(*written.fields, *_TRACKING_FIELDS))
    names = file.value_stats_cols if file.value_stats_cols is not None else file.write_cols
    covered = written.fields if names is None else own.fields_of(names)
    stats = _stats_by_field_id(ctx, file.value_stats, covered)
    written_ids = {field.id for field in written.fields}
    left_out = (
        set()
        if file.write_cols is None or file.value_stats_cols is not None
        else written_ids - {field.id for field in own.fields_of(file.write_cols)}
    )
    nulls, low, high = {}, {}, {}
    for field in ctx.schema.fields:
        if field.id in left_out:
            continue
        absent = (str(file.row_count), "null", "null") if field.id not in written_ids else ("null", "null", "null")
        nulls[field.name], low[field.name], high[field.name] = stats.get(field.id, absent)
    return _format_map(nulls), _format_map(low), _format_map(high)


def _stats_by_field_id(ctx: TableContext, stats: Stats, fields: Sequence[Field]) -> dict[int, tuple[str, str, str]]:
    """Return the texts of each column's null count and bounds, by field id.

    Bounds of a column whose type changed are cast as its rows are.
    """
    if binary_row.strip_arity(stats.min_values)[0] != len(fields):
        return {}
    low, high = _decode_row(stats.min_values, fields), _decode_row(stats.max_values, fields)
    counts = stats.null_counts or ()
    nulls = ["null" if n is None else str(n) for n in counts] if len(counts) == len(fields) else ["null"] * len(fields)
    today = {field.id: field.type for field in ctx.schema.fields}
    texts = {}
    for i, field in enumerate(fields):
        want = today.get(field.id, field.type)
        least, most = (
            format_internal_value(_cast_to_current_type(value, field, want), want) for value in (low[i], high[i])
        )
        texts[field.id] = (nulls[i], least, most)
    return texts


def _cast_to_current_type(value: Any, field: Field, target: DataType) -> Any:
    """Return an internal value of a column, as one of the type that the column has now."""
    if value is None or schema_evolution.is_same_type(field.type, target):
        return value
    row = binary_row.with_arity(binary_row.encode_row([value], [field.type]), 1)
    decoded = binary_row.decode_columns(pa.array([row], pa.binary()), [field.type])[0]
    series = pl.Series(field.name, decoded).cast(polars_type(field.type))
    cast_value = (
        series.to_frame()
        .select(casts.cast(col(field.name), field.type, target, casts.CastTarget(column=field.name)))
        .to_series()
    )
    return to_internal_value(cast_value, target)


def to_internal_value(column: pl.Series, t: DataType) -> Any:
    """Return the first value of a column as an internal value (FORMAT 0.2)."""
    value = column.to_physical()[0] if t.root in (*TIMESTAMPS, "DATE", "TIME") else column[0]
    if value is None or t.root not in (*TIMESTAMPS, "TIME"):
        return value
    if t.root == "TIME":
        return value // 1_000_000
    nanos = value * {"ms": 1_000_000, "us": 1_000, "ns": 1}[getattr(column.dtype, "time_unit", "us")]
    return Instant(nanos // 1_000_000, nanos % 1_000_000)


def _format_map(values: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={values[name]}" for name in sorted(values)) + "}"


def file_key_ranges(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return the key range of every live data file."""
    names = (
        "partition",
        "bucket",
        "file_path",
        "file_format",
        "schema_id",
        "level",
        "record_count",
        "file_size_in_bytes",
        "min_key",
        "max_key",
        "first_row_id",
    )
    return files(ctx, at).select(cols(names))


def manifests(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return the manifests of a snapshot, those of its changelog last."""
    position = time_travel.resolve_position(ctx, at)
    ctx = time_travel.schema_of(ctx, position)
    snapshot = position.snapshot
    lists: tuple[manifest_files.ManifestListKind, ...] = ("all", "changelog")
    listed = (
        [] if snapshot is None else [m for which in lists for m in manifest_files.manifest_files(ctx, snapshot, which)]
    )
    rows = (
        (
            m.name,
            m.size_bytes,
            m.num_added_files,
            m.num_deleted_files,
            m.schema_id,
            _format_partition(ctx, m.partition_stats.min_values),
            _format_partition(ctx, m.partition_stats.max_values),
            m.min_row_id,
            m.max_row_id,
        )
        for m in listed
    )
    columns: dict[str, Any] = {"file_name": pl.String}
    columns |= dict.fromkeys(("file_size", "num_added_files", "num_deleted_files", "schema_id"), pl.Int64)
    columns |= {
        "min_partition_stats": pl.String,
        "max_partition_stats": pl.String,
        "min_row_id": pl.Int64,
        "max_row_id": pl.Int64,
    }
    return rows_to_frame(rows, columns)


def partitions(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return live data files of real buckets, summed by partition.

    The creator and creation time of a partition are null: only catalogs with accounts know them. A fallback branch
    shows the partitions that this branch lacks, this one those that a primary branch lacks.
    """
    unknown = pl.lit(None, pl.String)
    sums = _sum_partitions(ctx, at, legacy_names=False)
    return sums.with_columns(
        pl.lit(None, TIME_DTYPE).alias("created_at"),
        unknown.alias("created_by"),
        unknown.alias("updated_by"),
        unknown.alias("options"),
    )


def catalog_partitions(ctx: TableContext) -> pl.DataFrame:
    """Return the same partitions as a catalog lists them.

    They are named as their directories are, not escaped; the newest file's time is an instant; none is marked done.
    """
    partition_frame = _sum_partitions(ctx, None, legacy_names=ctx.options.partition_legacy_name)
    instants = [
        None if wall is None else instant_ms(wall)
        for wall in partition_frame["last_update_time"].cast(pl.Int64).to_list()
    ]
    sums = partition_frame.select(
        pl.col("partition").alias("partition_name"), "record_count", "file_size_in_bytes", "file_count"
    )
    return sums.with_columns(
        pl.Series("last_file_creation_time", instants, dtype=pl.Int64), pl.lit(value=False).alias("done")
    )


def _sum_partitions(ctx: TableContext, at: At, *, legacy_names: bool) -> pl.DataFrame:
    position = time_travel.resolve_position(ctx, at)
    ctx = time_travel.schema_of(ctx, position)
    entries = planner.filter_created_since(_without_postponed(ctx, _read_all_entries(ctx, position)), position)
    # only with a fallback branch does the reference leave out what a read leaves out
    if (fallback := table_scan.fallback_position(ctx, position, at)) is not None:
        stood_in = planner.filter_created_since(_without_postponed(ctx, _read_all_entries(*fallback)), fallback[1])
        entries, other = (_without_unread_levels(ctx, listed) for listed in (entries, stood_in))
        entries, other = (other, entries) if ctx.is_fallback_primary else (entries, other)
        is_own = pc.is_in(other.column("partition"), entries.column("partition"))
        entries = concat_entries([entries, other.filter(~np.asarray(is_own))])
    types = [field.type for field in ctx.schema.partition_fields]
    default = ctx.options.partition_default_name

    def directory(data: bytes) -> str:
        """Return the name of the partition's directory, not escaped."""
        texts = partitions_of.partition_texts(
            paths.partition_values(ctx, data), types, default_name=default, legacy_form=legacy_names
        )
        return "/".join(f"{name}={text}" for name, text in zip(ctx.schema.partition_keys, texts, strict=True))

    return _sum_entries(entries, ["partition"], directory)


def buckets(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return live data files summed by bucket, the postponed one too."""
    position = time_travel.resolve_position(ctx, at)
    ctx = time_travel.schema_of(ctx, position)
    return _sum_entries(
        _read_all_entries(ctx, position), ["partition", "bucket"], lambda data: _format_partition(ctx, data)
    )


def _read_all_entries(ctx: TableContext, position: time_travel.Position) -> ManifestEntries:
    """Return the entries of all manifests of a snapshot, of added and of deleted files."""
    if position.snapshot is None:
        return manifest_files.empty_entries()
    return manifest_files.read_entries(ctx, manifest_files.manifest_files(ctx, position.snapshot, "all"))


def _without_unread_levels(ctx: TableContext, entries: ManifestEntries) -> ManifestEntries:
    hides = ctx.schema.primary_keys and sections.may_hide_level_zero(ctx)
    return entries.filter(entries.integers("level") > 0) if hides else entries


def _without_postponed(ctx: TableContext, entries: ManifestEntries) -> ManifestEntries:
    """Return the entries without postponed files, while the table postpones.

    A table with buckets of its own again shows what is left of them.
    """
    return (
        entries.filter(entries.integers("bucket") != POSTPONE_BUCKET)
        if ctx.options.bucket == POSTPONE_BUCKET
        else entries
    )


def _sum_entries(
    entries: ManifestEntries, group_columns: list[str], format_partition: Callable[[bytes], str]
) -> pl.DataFrame:
    """Return sums of live files by partition (and bucket).

    Partitions whose texts are equal stay apart; the last update is that of any file listed, removed or not.
    """
    names = ("kind", "partition", "bucket", "row_count", "file_size", "creation_time")
    texts = {data: format_partition(data) for data in entries.column("partition").unique().to_pylist()}
    sign = pl.when(pl.col("kind") == ADD).then(1).otherwise(-1).cast(pl.Int64)
    sums = (
        pl.DataFrame([pl.Series(name, entries.column(name)) for name in names])
        .group_by(cols(group_columns))
        .agg(
            (pl.col("row_count") * sign).sum().alias("record_count"),
            (pl.col("file_size") * sign).sum().alias("file_size_in_bytes"),
            sign.sum().alias("file_count"),
            pl.col("creation_time").max().cast(TIME_DTYPE).alias("last_update_time"),
        )
        .filter(pl.col("file_count") > 0)
    )
    partition_text = pl.col("partition").replace_strict(list(texts), list(texts.values()), return_dtype=pl.String)
    return sums.with_columns(partition_text if texts else pl.col("partition").cast(pl.String)).sort(cols(group_columns))


def table_indexes(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return the index files of a snapshot."""
    position = time_travel.resolve_position(ctx, at)
    ctx = time_travel.schema_of(ctx, position)
    index_entries = [] if position.snapshot is None else manifest_files.index_entries(ctx, position.snapshot)
    rows = (
        (
            _format_partition(ctx, entry.partition),
            entry.bucket,
            entry.index_type,
            entry.file_name,
            entry.file_size_bytes,
            entry.row_count,
            [_range_struct(r) for r in entry.ranges or ()] if entry.index_type == DELETION_VECTORS else None,
        )
        for entry in index_entries
    )
    columns = {
        "partition": pl.String,
        "bucket": pl.Int32,
        "index_type": pl.String,
        "file_name": pl.String,
        "file_size": pl.Int64,
        "row_count": pl.Int64,
        "dv_ranges": pl.List(pl.Struct({"f0": pl.String, "f1": pl.Int32, "f2": pl.Int32, "_CARDINALITY": pl.Int64})),
    }
    return rows_to_frame(rows, columns)


def _range_struct(deletion: DeletionRange) -> dict[str, Any]:
    return {
        "f0": deletion.file_name,
        "f1": deletion.offset,
        "f2": deletion.length,
        "_CARDINALITY": deletion.cardinality,
    }


# ---- file indexes ------------------------------------------------------------


FILE_INDEX_FILE_COLUMNS = ("partition", "bucket", "file_path", "file_size_in_bytes", "record_count", "schema_id")
_FILE_INDEX_SCHEMA: dict[str, Any] = {
    "file_path": pl.String,
    "column_name": pl.String,
    "index_type": pl.String,
    "storage_type": pl.String,
    "index_file_path": pl.String,
    "index_size_in_bytes": pl.Int64,
    "index_container_size_in_bytes": pl.Int64,
    "is_empty": pl.Boolean,
}


def file_indexes(ctx: TableContext, at: int | str | datetime | None = None) -> pl.DataFrame:
    """Return every index of every live data file of real buckets.

    `storage_type` is EMBEDDED (in the manifest) or FILE; an empty index holds no value at all.
    """
    position = time_travel.resolve_position(ctx, at)
    entries = live_entries(ctx, position.snapshot)
    inner = pc.is_valid(entries.column("embedded_index"))
    outer = pc.greater(pc.list_value_length(entries.column("extra_files")), 0)
    entries = entries.filter(pc.or_(inner, pc.fill_null(outer, False)).to_numpy(zero_copy_only=False))
    by_file = parallel.parallel_map(
        lambda i: list(_index_rows(ctx, entries, i)), range(len(entries)), waiting=ctx.storage.is_remote
    )
    indexes = rows_to_frame((row for rows in by_file for row in rows), _FILE_INDEX_SCHEMA)
    return (
        files(ctx, at).select(cols(FILE_INDEX_FILE_COLUMNS)).join(indexes, on="file_path", maintain_order="left_right")
    )


def _index_rows(ctx: TableContext, entries: ManifestEntries, i: int) -> Iterator[tuple[Any, ...]]:
    file = entries.file(i)
    path = paths.data_file_path(ctx, *paths.bucket_id_at(entries, i), file)
    if file.embedded_index is not None:
        yield from _container_rows(path, file.embedded_index, None, len(file.embedded_index))
        return
    for name in file.extra_files:
        if name.endswith(".index"):
            index_file_path = ctx.paths.extra_file(path, name)
            first = ctx.storage.read(index_file_path, 0, index_container.FIXED_HEAD_BYTES)
            head = ctx.storage.read(index_file_path, 0, index_container.head_length(first, path=index_file_path))
            yield from _container_rows(path, head, index_file_path, ctx.storage.size(index_file_path))


def _container_rows(
    path: str, container: bytes, index_file_path: str | None, container_size: int
) -> Iterator[tuple[Any, ...]]:
    storage_type = "EMBEDDED" if index_file_path is None else "FILE"
    for column, indexes in index_container.read_toc(container, path=index_file_path or path).items():
        for kind, span in indexes.items():
            yield (
                path,
                column,
                kind,
                storage_type,
                index_file_path,
                0 if span is None else span.length,
                container_size,
                span is None,
            )
