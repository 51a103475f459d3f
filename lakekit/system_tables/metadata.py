"""The metadata of a table as small frames: one row a snapshot, schema, tag, branch, consumer.

Newest last; times are UTC where they are instants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.metadata import (
    branches as branch_files,
    consumers as consumer_files,
    schemas as schema_files,
    snapshots as snapshot_files,
    tags as tag_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakekit.metadata.table_context import TableContext

INSTANT = pl.Datetime("ms", "UTC")
WALL = pl.Datetime("ns")
_PAIRS = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
_FIELDS = pl.List(pl.Struct({"id": pl.Int32, "name": pl.String, "type": pl.String, "comment": pl.String}))
_SNAPSHOT = {
    "snapshot_id": pl.Int64,
    "kind": pl.String,
    "time": INSTANT,
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
    "properties": _PAIRS,
}


def frame(rows: Iterable[tuple[Any, ...]], schema: dict[str, Any]) -> pl.DataFrame:
    """Return rows of facts as a frame."""
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def snapshots(ctx: TableContext) -> pl.DataFrame:
    """Return every snapshot. Counts are stored rows: several versions of a key count each.

    `tags` are the tags that name it.
    """
    named: dict[int, list[str]] = {}
    for tag in tag_files.all(ctx):
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
            _pairs(s.properties),
        )
        for s in snapshot_files.all(ctx)
    )
    return frame(rows, _SNAPSHOT)


def schemas(ctx: TableContext) -> pl.DataFrame:
    """Return every schema of the table."""
    rows = (
        (
            s.id,
            s.time_millis,
            [{"id": f.id, "name": f.name, "type": str(f.type), "comment": f.comment} for f in s.fields],
            list(s.partition_keys),
            list(s.primary_keys),
            _pairs(s.options),
            s.comment,
            s.highest_field_id,
        )
        for s in schema_files.all(ctx)
    )
    texts = pl.List(pl.String)
    columns = {
        "schema_id": pl.Int64,
        "time": INSTANT,
        "fields": _FIELDS,
        "partition_keys": texts,
        "primary_keys": texts,
        "options": _PAIRS,
        "comment": pl.String,
        "highest_field_id": pl.Int64,
    }
    return frame(rows, columns)


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
        for t in tag_files.all(ctx)
    )
    columns = {
        "tag": pl.String,
        "snapshot_id": pl.Int64,
        "schema_id": pl.Int64,
        "time": INSTANT,
        "record_count": pl.Int64,
        "created": pl.Int64,
        "retained": pl.Int64,
    }
    return frame(rows, columns).with_columns(pl.col("created").cast(WALL), pl.col("retained").cast(pl.Duration("us")))


def branches(ctx: TableContext) -> pl.DataFrame:
    """Return every branch but main."""
    return frame(((b.name, b.created_ms) for b in branch_files.all(ctx)), {"branch": pl.String, "created": INSTANT})


def consumers(ctx: TableContext) -> pl.DataFrame:
    """Return every consumer and the snapshot it will read next."""
    by_id = consumer_files.all(ctx)
    return frame(
        ((name, by_id[name].next_snapshot) for name in sorted(by_id)),
        {"consumer": pl.String, "next_snapshot_id": pl.Int64},
    )


def _pairs(mapping: Any) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in sorted((mapping or {}).items())]
