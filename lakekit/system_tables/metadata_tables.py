"""System tables of metadata files: snapshots, schemas, options, tags, branches, consumers, and others.

The others are aggregation_fields and statistics.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import world
from lakekit.metadata import (
    branches as branch_files,
    consumers as consumer_files,
    schemas as schema_files,
    snapshots as snapshot_files,
    statistics as statistics_files,
    tags as tag_files,
)
from lakekit.model import json_codec
from lakekit.read import time_travel
from lakekit.system_tables.metadata import frame
from lakekit.types import field_to_json

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext

    At = int | str | datetime | None

TIME = pl.Datetime("ms")
"""Local wall clock, as the reference shows times."""


def wall(time_ms: int | None) -> int | None:
    """Return an instant as the wall clock of this process."""
    return None if time_ms is None else world.wall_clock_ms(time_ms)


def snapshots(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001 - travel does not change the list
    """Return every snapshot."""
    rows = (
        (
            s.id,
            s.schema_id,
            s.commit_user,
            s.commit_identifier,
            s.commit_kind,
            wall(s.time_millis),
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark,
            s.next_row_id,
        )
        for s in snapshot_files.all(ctx)
    )
    columns: dict[str, Any] = {
        "snapshot_id": pl.Int64,
        "schema_id": pl.Int64,
        "commit_user": pl.String,
        "commit_identifier": pl.Int64,
        "commit_kind": pl.String,
        "commit_time": TIME,
        "base_manifest_list": pl.String,
        "delta_manifest_list": pl.String,
        "changelog_manifest_list": pl.String,
    }
    numbers = ("total_record_count", "delta_record_count", "changelog_record_count", "watermark", "next_row_id")
    return frame(rows, columns | dict.fromkeys(numbers, pl.Int64))


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
            wall(s.time_millis),
        )
        for s in schema_files.all(ctx)
    )
    columns: dict[str, Any] = {"schema_id": pl.Int64}
    columns |= dict.fromkeys(("fields", "partition_keys", "primary_keys", "options", "comment"), pl.String)
    return frame(rows, columns | {"update_time": TIME})


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def options(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return the options of the newest schema."""
    return frame(schema_files.latest(ctx).options.items(), {"key": pl.String, "value": pl.String})


def tags(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every tag, by name; `time_retained` as ISO text."""
    rows = (
        (
            t.name,
            t.snapshot.id,
            t.snapshot.schema_id,
            wall(t.snapshot.time_millis),
            t.snapshot.total_record_count,
            None if t.create_time is None else t.create_time.millis * 1_000_000 + t.create_time.nanos,
            None if t.time_retained_ns is None else iso_duration(t.time_retained_ns),
        )
        for t in sorted(tag_files.all(ctx), key=lambda tag: tag.name)
    )
    columns = {
        "tag_name": pl.String,
        "snapshot_id": pl.Int64,
        "schema_id": pl.Int64,
        "commit_time": TIME,
        "record_count": pl.Int64,
        "create_time": pl.Int64,
        "time_retained": pl.String,
    }
    return frame(rows, columns).with_columns(pl.col("create_time").cast(pl.Datetime("ns")))


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
    return frame(
        ((b.name, wall(b.created_ms)) for b in branch_files.all(ctx)), {"branch_name": pl.String, "create_time": TIME}
    )


def consumers(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every consumer and the snapshot it reads next."""
    rows = ((name, consumer.next_snapshot) for name, consumer in consumer_files.all(ctx).items())
    return frame(rows, {"consumer_id": pl.String, "next_snapshot_id": pl.Int64})


def aggregation_fields(ctx: TableContext, at: At = None) -> pl.DataFrame:  # noqa: ARG001
    """Return every column with the values and the keys of its `fields.<column>.…` options."""
    schema = schema_files.latest(ctx)
    rows = []
    for field in schema.fields:
        own = {key: value for key, value in schema.options.items() if key.startswith(f"fields.{field.name}.")}
        rows.append((field.name, str(field.type), f"[{', '.join(own.values())}]", f"[{', '.join(own)}]", field.comment))
    return frame(
        rows, dict.fromkeys(("field_name", "field_type", "function", "function_options", "comment"), pl.String)
    )


def statistics(ctx: TableContext, at: At = None) -> pl.DataFrame:
    """Return the result of the last ANALYZE of a snapshot: one row, or none."""
    snapshot = time_travel.locate(ctx, at).snapshot
    stats = None if snapshot is None else statistics_files.read_statistics(ctx, snapshot)
    columns = dict.fromkeys(("snapshot_id", "schema_id", "mergedRecordCount", "mergedRecordSize"), pl.Int64) | {
        "colstat": pl.String
    }
    if stats is None:
        return frame([], columns)
    members = json_codec.encode(stats)
    text = json_codec.dumps(members.get("colStats") or {}).decode()
    return frame(
        [(stats.snapshot_id, stats.schema_id, stats.merged_record_count, stats.merged_record_size_bytes, text)], columns
    )
