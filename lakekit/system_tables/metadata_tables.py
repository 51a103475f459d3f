"""System tables of metadata files (snapshots, schemas, …) and of rows: audit_log, binlog, ro.

Source: ENGINE 10.1.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa

from lakekit import runtime
from lakekit.columns import ROW_KIND, SEQUENCE, col, cols
from lakekit.metadata import refs, schemas as schema_files, snapshots as snapshot_files
from lakekit.model import json_codec
from lakekit.read import incremental, polars_pushdown, table_scan, time_travel
from lakekit.system_tables.frames import rows_to_frame
from lakekit.types import field_to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.read.incremental import IncrementalScan
    from lakekit.read.table_scan import TableScan

    At = int | str | datetime | None


TIME_DTYPE = pl.Datetime("ms")
"""The type of time columns: the local wall clock, as in the reference."""


def to_local_wall_ms(time_ms: int | None) -> int | None:
    """Return an instant as the wall clock of this process."""
    return None if time_ms is None else runtime.wall_clock_ms(time_ms)


def snapshots(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001 - travel does not change the list
    """Return every snapshot."""
    rows = (
        (
            s.id,
            s.schema_id,
            s.commit_user,
            s.commit_identifier,
            s.commit_kind,
            to_local_wall_ms(s.time_millis),
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark,
            s.next_row_id,
        )
        for s in snapshot_files.read_all(ctx)
    )
    columns: dict[str, Any] = {
        "snapshot_id": pl.Int64,
        "schema_id": pl.Int64,
        "commit_user": pl.String,
        "commit_identifier": pl.Int64,
        "commit_kind": pl.String,
        "commit_time": TIME_DTYPE,
        "base_manifest_list": pl.String,
        "delta_manifest_list": pl.String,
        "changelog_manifest_list": pl.String,
    }
    numbers = ("total_record_count", "delta_record_count", "changelog_record_count", "watermark", "next_row_id")
    return rows_to_frame(rows, columns | dict.fromkeys(numbers, pl.Int64))


def schemas(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every schema; fields, keys and options as compact JSON."""
    rows = (
        (
            s.id,
            _to_json([field_to_json(f) for f in s.fields]),
            _to_json(list(s.partition_keys)),
            _to_json(list(s.primary_keys)),
            _to_json(dict(s.options)),
            s.comment,
            to_local_wall_ms(s.time_millis),
        )
        for s in schema_files.read_all(ctx)
    )
    columns: dict[str, Any] = {"schema_id": pl.Int64}
    columns |= dict.fromkeys(("fields", "partition_keys", "primary_keys", "options", "comment"), pl.String)
    return rows_to_frame(rows, columns | {"update_time": TIME_DTYPE})


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def options(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return the options of the newest schema."""
    return rows_to_frame(schema_files.read_latest(ctx).options.items(), {"key": pl.String, "value": pl.String})


def tags(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every tag, by name; `time_retained` as ISO text."""
    rows = (
        (
            t.name,
            t.snapshot.id,
            t.snapshot.schema_id,
            to_local_wall_ms(t.snapshot.time_millis),
            t.snapshot.total_record_count,
            None if t.create_time is None else t.create_time.millis * 1_000_000 + t.create_time.nanos,
            None if t.time_retained_ns is None else iso_duration(t.time_retained_ns),
        )
        for t in sorted(refs.list_tags(ctx), key=lambda tag: tag.name)
    )
    columns = {
        "tag_name": pl.String,
        "snapshot_id": pl.Int64,
        "schema_id": pl.Int64,
        "commit_time": TIME_DTYPE,
        "record_count": pl.Int64,
        "create_time": pl.Int64,
        "time_retained": pl.String,
    }
    return rows_to_frame(rows, columns).with_columns(pl.col("create_time").cast(pl.Datetime("ns")))


def iso_duration(nanos: int) -> str:
    """Return a duration as ISO text with hours, minutes and seconds: `PT36H`, `PT1M0.5S`."""
    seconds, fraction_nanos = divmod(nanos, 1_000_000_000)
    hours, minutes, left = seconds // 3600, seconds % 3600 // 60, seconds % 60
    fraction = f".{fraction_nanos:09d}".rstrip("0") if fraction_nanos else ""
    text = (
        (f"{hours}H" if hours else "")
        + (f"{minutes}M" if minutes else "")
        + (f"{left}{fraction}S" if left or fraction_nanos else "")
    )
    return "PT" + (text or "0S")


def branches(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every branch but main."""
    return rows_to_frame(
        ((b.name, to_local_wall_ms(b.changed_ms)) for b in refs.list_branches(ctx)),
        {"branch_name": pl.String, "create_time": TIME_DTYPE},
    )


def consumers(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every consumer and the snapshot it reads next."""
    rows = ((name, consumer.next_snapshot) for name, consumer in refs.list_consumers(ctx).items())
    return rows_to_frame(rows, {"consumer_id": pl.String, "next_snapshot_id": pl.Int64})


def aggregation_fields(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every column with the values and the keys of its `fields.<column>.…` options."""
    schema = schema_files.read_latest(ctx)
    rows = []
    for field in schema.fields:
        own = {key: value for key, value in schema.options.items() if key.startswith(f"fields.{field.name}.")}
        rows.append((field.name, str(field.type), f"[{', '.join(own.values())}]", f"[{', '.join(own)}]", field.comment))
    return rows_to_frame(
        rows, dict.fromkeys(("field_name", "field_type", "function", "function_options", "comment"), pl.String)
    )


def statistics(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return the result of the last ANALYZE of a snapshot: one row, or none."""
    snapshot = time_travel.resolve_position(ctx, at).snapshot
    stats = None if snapshot is None else refs.read_statistics(ctx, snapshot)
    columns = dict.fromkeys(("snapshot_id", "schema_id", "mergedRecordCount", "mergedRecordSize"), pl.Int64) | {
        "colstat": pl.String
    }
    if stats is None:
        return rows_to_frame([], columns)
    members = json_codec.to_members(stats)
    text = json_codec.format_object(members.get("colStats") or {}).decode()
    return rows_to_frame(
        [(stats.snapshot_id, stats.schema_id, stats.merged_record_count, stats.merged_record_size_bytes, text)], columns
    )


# ---- data ------------------------------------------------------------


ROW_KIND_COLUMN: Final = "rowkind"
"""The column of row kinds."""
UPDATE_BEFORE = "-U"
"""The row kind of the old version of an updated row."""


def audit_log(ctx: TableContext, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return every row with its kind first, including deletes that are the newest version of a key.

    If the table's options select a range of changes, the rows are these changes. With
    `table-read.sequence-number.enabled` the sequence number of a key table's row follows its kind.
    """
    return polars_pushdown.scan_lazily(audit_log_scan(ctx, at))


def audit_log_scan(ctx: TableContext, at: int | str | datetime | None = None) -> TableScan | IncrementalScan:
    """Return the scan of the audit log."""
    numbered = bool(ctx.schema.primary_keys) and ctx.options.table_read_sequence_number_enabled
    if at is None and time_travel.means_changes(ctx):
        return replace(
            incremental.changes_from_options(ctx, kind_column=ROW_KIND_COLUMN), with_sequence_number=numbered
        )
    return replace(
        table_scan.scan(ctx, at), kind_column=ROW_KIND_COLUMN, with_sequence_number=numbered, keeps_deletes=True
    )


def binlog(ctx: TableContext, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return the audit log with every column as a list: `[value]`.

    If the table's options select a range of changes, an update is one row: `[before, after]`, with the kind of the
    after row and the sequence number of the before row.
    """
    source = audit_log_scan(ctx, at)
    audit = polars_pushdown.scan_lazily(source)
    columns = [
        (name, dtype) for name, dtype in audit.collect_schema().items() if name not in (ROW_KIND_COLUMN, SEQUENCE)
    ]
    if isinstance(source, incremental.IncrementalScan) and source.mode != "diff" and ctx.schema.primary_keys:
        listed = dict(columns)
        schema = {name: pl.List(dtype) if name in listed else dtype for name, dtype in audit.collect_schema().items()}
        packed = partial(_pack_updates, keys=ctx.schema.primary_keys)
        return audit.map_batches(
            packed, predicate_pushdown=False, projection_pushdown=False, slice_pushdown=False, schema=schema
        )
    return audit.select(
        cs.by_name(ROW_KIND_COLUMN, SEQUENCE, require_all=False),
        *(
            col(name).map_batches(_wrap_in_lists, return_dtype=pl.List(dtype), is_elementwise=True)
            for name, dtype in columns
        ),
    )


CHANGE_TABLES = ("audit_log", "binlog")
"""System tables that can be read as a stream."""


def as_changelog_table(name: str, frame: pl.LazyFrame, ctx: TableContext) -> pl.LazyFrame:
    """Return one change of a stream in the shape of the system table `name`, one of `CHANGE_TABLES`.

    `rows_to_frame`: the rows of the change, with `_row_kind` as first column.
    """
    renamed = frame.rename({ROW_KIND: ROW_KIND_COLUMN})
    if name == "audit_log":
        return renamed
    columns = [(column, dtype) for column, dtype in renamed.collect_schema().items() if column != ROW_KIND_COLUMN]
    if ctx.schema.primary_keys:
        schema = {ROW_KIND_COLUMN: pl.String(), **{column: pl.List(dtype) for column, dtype in columns}}
        packed = partial(_pack_updates, keys=ctx.schema.primary_keys)
        return renamed.map_batches(
            packed, predicate_pushdown=False, projection_pushdown=False, slice_pushdown=False, schema=schema
        )
    lists = (
        col(column).map_batches(_wrap_in_lists, return_dtype=pl.List(dtype), is_elementwise=True)
        for column, dtype in columns
    )
    return renamed.select(col(ROW_KIND_COLUMN), *lists)


def _wrap_in_lists(column: pl.Series) -> pl.Series:
    return _to_lists(column, np.arange(len(column) + 1))


def _to_lists(column: pl.Series, offsets: NDArray[np.int64]) -> pl.Series:
    """Return the values of a column as lists: list i is the values `offsets[i]` to `offsets[i + 1]`."""
    return pl.Series(
        column.name,
        pa.LargeListArray.from_arrays(pa.array(offsets), column.rechunk().to_arrow()),
        dtype=pl.List(column.dtype),
    )


def _pack_updates(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Pack each -U row and the next row into one row if both have the same key.

    The reference packs a -U row with the next row even if the keys differ (`PackChangelogReader`): a -U row without its
    +U becomes an update of one key to another.
    """
    places = np.arange(rows.height)
    alike = rows.select(pl.all_horizontal(key.eq_missing(key.shift(-1)) for key in cols(keys))).to_series().to_numpy()
    may = (rows.get_column(ROW_KIND_COLUMN) == UPDATE_BEFORE).to_numpy() & alike & (places < rows.height - 1)
    first = may & ~np.concatenate([[False], may[:-1]])[: rows.height]
    # in a run of -U rows every second one is packed with the -U row before it
    begins = may & ((places - np.maximum.accumulate(np.where(first, places, 0))) % 2 == 0)
    starts = places[~np.concatenate([[False], begins[:-1]])[: rows.height]]
    offsets = np.append(starts, rows.height)
    row_indices = {ROW_KIND_COLUMN: offsets[1:] - 1, SEQUENCE: starts}
    return pl.DataFrame(
        [
            column[row_indices[column.name]] if column.name in row_indices else _to_lists(column, offsets)
            for column in rows
        ]
    )


def read_optimized(ctx: TableContext, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return the rows of the highest level: fast, and as old as the last full compaction.

    An append table is read in full.
    """
    return polars_pushdown.scan_lazily(read_optimized_scan(ctx, at))


def read_optimized_scan(ctx: TableContext, at: int | str | datetime | None = None) -> TableScan:
    """Return the scan of `read_optimized`."""
    scan = table_scan.scan(ctx, at)
    return (
        replace(scan, levels=range(ctx.options.level_count - 1, ctx.options.level_count))
        if ctx.schema.primary_keys
        else scan
    )
