"""System tables of what a snapshot holds: files, file_key_ranges, manifests, partitions, buckets, table_indexes.

Values are printed as the reference prints them: `{2024-01-01, 1}` for a partition, `[7]` for a key, `{k=1, v=a}` for statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.codec import binary_row
from lakekit.errors import Unsupported
from lakekit.files import places
from lakekit.meta import manifests as manifest_files, schemas as schema_files
from lakekit.model import partition as partitions_of
from lakekit.model.index_file import DELETION_VECTORS, DeletionRange
from lakekit.read import travel
from lakekit.system.contents import live
from lakekit.system.metadata import frame

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakekit.meta.handle import Handle
    from lakekit.model.data_file import DataFile, Stats
    from lakekit.model.entries import Entries
    from lakekit.types import DataType, Field

    At = int | str | datetime | None

TIME = pl.Datetime("ms")
POSTPONE_BUCKET = -2
_SOURCES = {0: "APPEND", 1: "COMPACT"}
_FILES: dict[str, Any] = {
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
    "creation_time": TIME,
    "deleteRowCount": pl.Int64,
    "file_source": pl.String,
    "first_row_id": pl.Int64,
    "write_cols": pl.List(pl.String),
}


def _at(handle: Handle, at: At) -> tuple[Handle, Entries]:
    position = travel.locate(handle, at)
    return travel.schema_of(handle, position), live(handle, position.snapshot)


def printed(values: Sequence[Any], types: Sequence[DataType]) -> list[str]:
    """Internal values as the reference prints them; null is `null`."""
    return ["null" if value is None else _printed(value, t) for value, t in zip(values, types, strict=True)]


def _printed(value: Any, t: DataType) -> str:
    try:
        return partitions_of.print_value(value, t)
    except Unsupported:
        return str(value)


def _row(data: bytes, fields: Sequence[Field]) -> list[str]:
    types = [field.type for field in fields]
    return printed(binary_row.decode(binary_row.strip_arity(data)[1], types), types)


def _partition(handle: Handle, partition: bytes) -> str:
    return "{" + ", ".join(_row(partition, handle.schema.partition_fields)) + "}"


def files(handle: Handle, at: At = None) -> pl.DataFrame:
    """Every live data file of real buckets, all levels."""
    handle, entries = _at(handle, at)
    entries = entries.filter(entries.numbers("bucket") != POSTPONE_BUCKET)
    found = zip(entries.files(), places.data_file_paths(handle, entries), range(len(entries)), strict=True)
    return frame((_file(handle, entries, file, path, i) for file, path, i in found), _FILES)


def _file(handle: Handle, entries: Entries, file: DataFile, path: str, i: int) -> tuple[Any, ...]:
    partition, bucket = places.place_of(entries, i)
    keys = handle.schema.key_fields
    nulls, low, high = _values(handle, file)
    return (
        _partition(handle, partition),
        bucket,
        path,
        file.format_name,
        file.schema_id,
        file.level,
        file.row_count,
        file.size_bytes,
        f"[{', '.join(_row(file.min_key, keys))}]" if keys else None,
        f"[{', '.join(_row(file.max_key, keys))}]" if keys else None,
        nulls,
        low,
        high,
        file.min_sequence_number,
        file.max_sequence_number,
        file.creation_time_ms,
        file.delete_row_count,
        None if file.source is None else _SOURCES.get(file.source),
        file.first_row_id,
        None if file.write_cols is None else list(file.write_cols),
    )


def _values(handle: Handle, file: DataFile) -> tuple[str, str, str]:
    """Null counts, minima and maxima of all columns of the schema, by name; a column the file does not have is null in every row."""
    written = schema_files.read(handle, file.schema_id)
    covered = written.fields if file.value_stats_cols is None else written.fields_of(file.value_stats_cols)
    stats = _by_id(file.value_stats, covered)
    there = {field.id for field in written.fields}
    nulls, low, high = {}, {}, {}
    for field in handle.schema.fields:
        absent = (str(file.row_count), "null", "null") if field.id not in there else ("null", "null", "null")
        nulls[field.name], low[field.name], high[field.name] = stats.get(field.id, absent)
    return _map(nulls), _map(low), _map(high)


def _by_id(stats: Stats, fields: Sequence[Field]) -> dict[int, tuple[str, str, str]]:
    if binary_row.strip_arity(stats.min_values)[0] != len(fields):
        return {}
    low, high = _row(stats.min_values, fields), _row(stats.max_values, fields)
    counts = stats.null_counts or ()
    nulls = ["null" if n is None else str(n) for n in counts] if len(counts) == len(fields) else ["null"] * len(fields)
    return {field.id: (nulls[i], low[i], high[i]) for i, field in enumerate(fields)}


def _map(values: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={values[name]}" for name in sorted(values)) + "}"


def file_key_ranges(handle: Handle, at: At = None) -> pl.DataFrame:
    """The key range of every live data file."""
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
    return files(handle, at).select(names)


def manifests(handle: Handle, at: At = None) -> pl.DataFrame:
    """The manifests of a snapshot, those of its changelog last."""
    position = travel.locate(handle, at)
    handle = travel.schema_of(handle, position)
    snapshot = position.snapshot
    lists: tuple[manifest_files.Which, ...] = ("all", "changelog")
    found = [] if snapshot is None else [m for which in lists for m in manifest_files.manifest_files(handle, snapshot, which)]
    rows = (
        (
            m.name,
            m.size_bytes,
            m.num_added_files,
            m.num_deleted_files,
            m.schema_id,
            _partition(handle, m.partition_stats.min_values),
            _partition(handle, m.partition_stats.max_values),
            m.min_row_id,
            m.max_row_id,
        )
        for m in found
    )
    columns: dict[str, Any] = {"file_name": pl.String}
    columns |= dict.fromkeys(("file_size", "num_added_files", "num_deleted_files", "schema_id"), pl.Int64)
    columns |= {"min_partition_stats": pl.String, "max_partition_stats": pl.String, "min_row_id": pl.Int64, "max_row_id": pl.Int64}
    return frame(rows, columns)


def partitions(handle: Handle, at: At = None) -> pl.DataFrame:
    """Live data files of real buckets, summed by partition; who made a partition and when only catalogs with accounts know."""
    handle, entries = _at(handle, at)
    entries = entries.filter(entries.numbers("bucket") != POSTPONE_BUCKET)
    texts = {data: places.partition_path(handle, data).rstrip("/") for data in entries.column("partition").unique().to_pylist()}
    unknown = pl.lit(None, pl.String)
    return (
        _summed(entries, ["partition"], texts)
        .with_columns(pl.lit(None, TIME).alias("created_at"), unknown.alias("created_by"), unknown.alias("updated_by"), unknown.alias("options"))
        .sort("partition")
    )


def buckets(handle: Handle, at: At = None) -> pl.DataFrame:
    """Live data files summed by bucket, the postponed one too."""
    handle, entries = _at(handle, at)
    texts = {data: _partition(handle, data) for data in entries.column("partition").unique().to_pylist()}
    return _summed(entries, ["partition", "bucket"], texts).sort("partition", "bucket")


def _summed(entries: Entries, by: list[str], texts: dict[bytes, str]) -> pl.DataFrame:
    names = ("partition", "bucket", "row_count", "file_size", "creation_time")
    some = pl.DataFrame([pl.Series(name, entries.column(name)) for name in names])
    shown = pl.col("partition").replace_strict(list(texts), list(texts.values()), return_dtype=pl.String)
    return (
        some.with_columns(shown if texts else pl.col("partition").cast(pl.String))
        .group_by(by)
        .agg(
            pl.col("row_count").sum().alias("record_count"),
            pl.col("file_size").sum().alias("file_size_in_bytes"),
            pl.len().cast(pl.Int64).alias("file_count"),
            pl.col("creation_time").max().cast(TIME).alias("last_update_time"),
        )
    )


def table_indexes(handle: Handle, at: At = None) -> pl.DataFrame:
    """The index files of a snapshot."""
    position = travel.locate(handle, at)
    handle = travel.schema_of(handle, position)
    found = [] if position.snapshot is None else manifest_files.index_entries(handle, position.snapshot)
    rows = (
        (
            _partition(handle, entry.partition),
            entry.bucket,
            entry.index_type,
            entry.file_name,
            entry.file_size_bytes,
            entry.row_count,
            [_range(r) for r in entry.ranges or ()] if entry.index_type == DELETION_VECTORS else None,
        )
        for entry in found
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
    return frame(rows, columns)


def _range(found: DeletionRange) -> dict[str, Any]:
    return {"f0": found.file_name, "f1": found.offset, "f2": found.length, "_CARDINALITY": found.cardinality}
