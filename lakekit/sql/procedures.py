"""The procedures of Paimon's Spark connector, each over the method that does it.

    CALL sys.compact(table => 'shop.orders', where => 'day > "2024-03-01"')       by name
    CALL sys.create_tag('shop.orders', 'monday', 12)                              by position

Names, order and types of the arguments are the connector's; a procedure is an entry here, and returns one row, or some.
Source: `SparkProcedures` and the classes it names, "Spark / Procedures" of Paimon's documentation.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakekit.catalog import due_maintenance
from lakekit.errors import InvalidOption, TagNotFound, Unsupported
from lakekit.metadata import refs
from lakekit.read.table_scan import context_of
from lakekit.sql import show
from lakekit.sql.calls import (
    PROCEDURES,
    call_procedure as call_procedure,  # noqa: PLC0414 - dispatch finds it here, with all that this module registers
    format_parameters,
    options_of,
    partitions_of,
    procedure,
    rows_of,
    success_rows,
    table_options,
)
from lakekit.table.format_tables import ObjectTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.maintenance.result import Expired
    from lakekit.sql.backend import Row
    from lakekit.sql.calls import Call
    from lakekit.table.table import Table


# ---- files ---------------------------------------------------------------------------------------


@procedure(
    "table string, partitions string?, compact_strategy string?, order_strategy string?, order_by string?, where "
    "string?, options string?, "
    "partition_idle_time string?, buckets string?"
)
def _compact(
    call: Call,
    *,
    table: str,
    partitions: str | None,
    compact_strategy: str | None,
    order_strategy: str | None,
    order_by: str | None,
    where: str | None,
    options: str | None,
    partition_idle_time: str | None,
    buckets: str | None,
) -> Sequence[Row]:
    target = call.table(table, options)
    if buckets is not None:
        raise Unsupported("sys.compact(buckets => …) is not done: say partitions or where", feature="catalog.sql")
    if (compact_strategy or "full") not in ("full", "minor"):
        raise InvalidOption(
            f"compact_strategy {compact_strategy!r}; there are 'full' and 'minor'",
            key="compact_strategy",
            value=compact_strategy,
        )
    if (order_strategy or "none") == "none" and order_by is not None:
        raise InvalidOption("order_by needs an order_strategy: 'order', 'zorder' or 'hilbert'", key="order_strategy")
    condition = rows_of(target, partitions, where, dialect=call.statement.tokens.dialect)
    full = compact_strategy != "minor"
    if (order_strategy or "none") == "none":
        if partition_idle_time is not None:
            target.compact(full=full, where=condition, idle=partition_idle_time)
            return success_rows()
        call.backend.compact(target, full=full, where=condition)
        return success_rows()
    if partition_idle_time is not None:
        raise InvalidOption(
            "partition_idle_time and order_strategy cannot be given at once: leave one out", key="partition_idle_time"
        )
    strategy: Any = order_strategy
    columns = [name.strip() for name in (order_by or "").split(",") if name.strip()]
    if not columns or strategy not in ("order", "zorder", "hilbert"):
        raise InvalidOption(
            f"order_strategy {strategy!r} by {order_by!r}: there are 'order', 'zorder' and 'hilbert', by columns",
            key="order_strategy",
            value=strategy,
        )
    if context_of(target).kind == "key":
        target.compact(where=condition, order_by=columns, strategy=strategy)
        return success_rows()
    call.backend.compact(target, where=condition, order_by=columns, strategy=strategy)
    return success_rows()


@procedure(
    "including_databases string?, including_tables string?, excluding_tables string?, options string?", "result string"
)
def _compact_database(
    call: Call,
    *,
    including_databases: str | None,
    including_tables: str | None,
    excluding_tables: str | None,
    options: str | None,
) -> Sequence[Row]:
    outcome = call.catalog.compact(
        databases=including_databases or None,
        tables=including_tables or None,
        excluding=excluding_tables or None,
        full=True,
        options=options_of(options),
    )
    return [(f"compacted {outcome.height} tables",)]


@procedure("table string, options string?")
def _compact_manifest(call: Call, *, table: str, options: str | None) -> Sequence[Row]:
    call.table(table, options).compact_manifests()
    return success_rows()


@procedure("table string, bucket_num int?, partitions string?, where string?")
def _rescale(
    call: Call, *, table: str, bucket_num: int | None, partitions: str | None, where: str | None
) -> Sequence[Row]:
    target = call.table(table)
    target.rescale(
        context_of(target).options.bucket if bucket_num is None else bucket_num,
        where=rows_of(target, partitions, where, dialect=call.statement.tokens.dialect),
    )
    return success_rows()


@procedure("table string")
def _refresh_object_table(call: Call, *, table: str) -> Sequence[Row]:
    target = call.table(table)
    if not isinstance(target, ObjectTable):
        raise InvalidOption(
            f"{target.name} is no object table: what is read of it is new with each read", key="table", value=table
        )
    call.backend.refresh(target)
    return success_rows()


@procedure("table string, where string?", "written_partitions int, written_indexes int")
def _rewrite_file_index(call: Call, *, table: str, where: str | None) -> Sequence[Row]:
    target = call.table(table)
    before = _index_state(target)
    call.backend.rewrite_file_index(target, where=rows_of(target, None, where, dialect=call.statement.tokens.dialect))
    new = _index_state(target) - before
    return [(len({partition for partition, *_ in new}), len(new))]


def _index_state(table: Table) -> set[tuple[str, ...]]:
    """Return the files and their index facts."""
    rows = (
        table.files().select("partition", "bucket", "file_name", "extra_files", "embedded_index_bytes").rows()
    )  # scalar: one a file
    return {tuple(map(str, row)) for row in rows}


@procedure(
    "table string, older_than string?, dry_run boolean?, parallelism int?, mode string?",
    "deletedFileCount long, deletedFileTotalLenInBytes long",
)
def _remove_orphan_files(
    call: Call, *, table: str, older_than: str | None, dry_run: bool | None, parallelism: int | None, mode: str | None
) -> Sequence[Row]:
    if mode is not None and mode.lower() not in ("local", "distributed"):
        raise InvalidOption(f"mode {mode!r}; there are 'local' and 'distributed'", key="mode", value=mode)
    if parallelism is not None and parallelism < 1:
        raise InvalidOption(f"parallelism {parallelism}; it is 1 or more", key="parallelism", value=str(parallelism))
    database, _, name = call.full(table).partition(".")
    names = [table] if name != "*" else [f"{database}.{item}" for item in call.catalog.tables(database)["table"]]
    removed = [
        call.backend.remove_orphans(call.table(item), older_than=call.time(older_than), dry_run=bool(dry_run))
        for item in names
    ]
    return [(sum(item.height for item in removed), sum(int(item["size_bytes"].sum()) for item in removed))]


# ---- what goes -----------------------------------------------------------------------------------


@procedure(
    "table string, retain_max int?, retain_min int?, older_than string?, max_deletes int?, options string?",
    "deleted_snapshots_count int",
)
def _expire_snapshots(
    call: Call,
    *,
    table: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    max_deletes: int | None,
    options: str | None,
) -> Sequence[Row]:
    target = call.table(table, options)
    expired = call.backend.expire_snapshots(
        target, retain_max=retain_max, retain_min=retain_min, older_than=call.time(older_than), max_deletes=max_deletes
    )
    return [(len(expired.snapshot_ids),)]


@procedure(
    "table string, expiration_time string?, timestamp_formatter string?, timestamp_pattern string?, expire_strategy "
    "string?, max_expires int?, options string?",
    "expired_partitions string",
)
def _expire_partitions(
    call: Call,
    *,
    table: str,
    expiration_time: str | None,
    timestamp_formatter: str | None,
    timestamp_pattern: str | None,
    expire_strategy: str | None,
    max_expires: int | None,
    options: str | None,
) -> Sequence[Row]:
    expired = call.table(table, options).expire_partitions(
        expiration=expiration_time,
        strategy=expire_strategy,
        timestamp_pattern=timestamp_pattern,
        timestamp_formatter=timestamp_formatter,
        max_expires=max_expires,
    )
    return [(partition,) for partition in expired.partitions] or [("No expired partitions.",)]


@procedure("table string, older_than string?", "expired_tags string")
def _expire_tags(call: Call, *, table: str, older_than: str | None) -> Sequence[Row]:
    return [(tag,) for tag in call.table(table).expire_tags(older_than=call.time(older_than)).tags] or [
        ("No expired tags.",)
    ]


# ---- tags and branches ---------------------------------------------------------------------------


@procedure("table string, tag string, snapshot long?, time_retained string?")
def _create_tag(call: Call, *, table: str, tag: str, snapshot: int | None, time_retained: str | None) -> Sequence[Row]:
    call.table(table).create_tag(tag, at=snapshot, retain=time_retained)
    return success_rows()


@procedure("table string, tag string, snapshot long?, time_retained string?")
def _replace_tag(call: Call, *, table: str, tag: str, snapshot: int | None, time_retained: str | None) -> Sequence[Row]:
    call.table(table).replace_tag(tag, at=snapshot, retain=time_retained)
    return success_rows()


@procedure(
    "table string, tag string, timestamp long?, time_retained string?",
    "tagName string, snapshot long, commit_time long, watermark string",
)
def _create_tag_from_timestamp(
    call: Call, *, table: str, tag: str, timestamp: int | None, time_retained: str | None
) -> Sequence[Row]:
    if timestamp is None:
        raise InvalidOption(
            "sys.create_tag_from_timestamp needs timestamp, in milliseconds since 1970", key="timestamp"
        )
    target = call.table(table)
    target.create_tag(tag, since=datetime.fromtimestamp(timestamp / 1000, UTC), retain=time_retained)
    made = refs.read_tag(context_of(target), tag).snapshot
    return [(tag, made.id, made.time_millis, None if made.watermark is None else str(made.watermark))]


@procedure("table string, tag string, target_tag string")
def _rename_tag(call: Call, *, table: str, tag: str, target_tag: str) -> Sequence[Row]:
    call.table(table).rename_tag(tag, target_tag)
    return success_rows()


@procedure("table string, tag string")
def _delete_tag(call: Call, *, table: str, tag: str) -> Sequence[Row]:
    target, names = call.table(table), _split_names(tag)
    existing = set(target.tags()["tag"])
    if unknown := [name for name in names if name not in existing]:
        raise TagNotFound(
            f"{target.name} has no tag {unknown[0]!r}; its tags are {', '.join(sorted(existing)) or 'none'}",
            name=unknown[0],
        )
    for name in names:
        target.delete_tag(name)
    return success_rows()


@procedure("table string")
def _trigger_tag_automatic_creation(call: Call, *, table: str) -> Sequence[Row]:
    call.table(table).create_automatic_tags(force=True)
    return success_rows()


@procedure("table string, branch string, tag string?, ignoreIfExists boolean?")
def _create_branch(
    call: Call,
    *,
    table: str,
    branch: str,
    tag: str | None,
    ignoreIfExists: bool | None,  # noqa: N803 - its name
) -> Sequence[Row]:
    target = call.table(table)
    if ignoreIfExists and branch in set(target.branches()["branch"]):
        return success_rows()
    target.create_branch(branch, tag=tag)
    return success_rows()


@procedure("table string, branch string")
def _delete_branch(call: Call, *, table: str, branch: str) -> Sequence[Row]:
    target = call.table(table)
    for name in _split_names(branch):
        target.delete_branch(name)
    return success_rows()


@procedure("table string, from_branch string, to_branch string")
def _rename_branch(call: Call, *, table: str, from_branch: str, to_branch: str) -> Sequence[Row]:
    call.table(table).rename_branch(from_branch, to_branch)
    return success_rows()


@procedure("table string, branch string")
def _fast_forward(call: Call, *, table: str, branch: str) -> Sequence[Row]:
    call.table(table).fast_forward(branch)
    return success_rows()


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


# ---- back in time --------------------------------------------------------------------------------

_ROLLBACK_COLUMNS = "previous_snapshot_id long, current_snapshot_id long"


@procedure("table string, version string?, snapshot long?, tag string?", _ROLLBACK_COLUMNS)
def _rollback(call: Call, *, table: str, version: str | None, snapshot: int | None, tag: str | None) -> Sequence[Row]:
    versions = [value for value in (version, snapshot, tag) if value is not None]
    if len(versions) != 1:
        raise InvalidOption("sys.rollback takes one of version, snapshot and tag", key="version")
    return _run_rollback(
        call.table(table),
        lambda target: target.rollback(int(version) if version is not None and version.isdecimal() else versions[0]),
    )


@procedure("table string, timestamp long", _ROLLBACK_COLUMNS)
def _rollback_to_timestamp(call: Call, *, table: str, timestamp: int) -> Sequence[Row]:
    return _run_rollback(call.table(table), lambda found: found.rollback(datetime.fromtimestamp(timestamp / 1000, UTC)))


@procedure("table string, watermark long", _ROLLBACK_COLUMNS)
def _rollback_to_watermark(call: Call, *, table: str, watermark: int) -> Sequence[Row]:
    return _run_rollback(call.table(table), lambda found: found.rollback(watermark=watermark))


def _run_rollback(table: Table, back: Callable[[Table], Expired]) -> Sequence[Row]:
    before = table.snapshots()["snapshot_id"].max()
    back(table)
    return [(before, table.snapshots()["snapshot_id"].max())]


# ---- the rest ------------------------------------------------------------------------------------


@procedure("table string, consumerId string, nextSnapshotId long?")
def _reset_consumer(call: Call, *, table: str, consumerId: str, nextSnapshotId: int | None) -> Sequence[Row]:  # noqa: N803 - their names
    call.table(table).reset_consumer(consumerId, next_snapshot=nextSnapshotId)
    return success_rows()


@procedure("table string, includingConsumers string?, excludingConsumers string?")
def _clear_consumers(
    call: Call,
    *,
    table: str,
    includingConsumers: str | None,  # noqa: N803 - the engine's name
    excludingConsumers: str | None,  # noqa: N803 - the engine's name
) -> Sequence[Row]:
    target = call.table(table)
    for name in target.consumers()["consumer"]:  # scalar: one a consumer
        wanted = not includingConsumers or re.fullmatch(includingConsumers, name)
        if wanted and not (excludingConsumers and re.fullmatch(excludingConsumers, name)):
            target.reset_consumer(name)
    return success_rows()


@procedure("table string, partitions string")
def _mark_partition_done(call: Call, *, table: str, partitions: str) -> Sequence[Row]:
    target = call.table(table)
    target.mark_partition_done(partitions_of(partitions))
    return success_rows()


@procedure("database_or_table string")
def _repair(call: Call, *, database_or_table: str) -> Sequence[Row]:
    names = _split_names(database_or_table)
    for name in names:
        call.catalog.repair(name)
    if not names:
        call.catalog.repair()
    return success_rows()


@procedure(
    "source_type string, table string, options string?, target_table string?, delete_origin boolean?, parallelism int?"
)
def _migrate_table(
    call: Call,
    *,
    source_type: str,
    table: str,
    options: str | None,
    target_table: str | None,
    delete_origin: bool | None,
    parallelism: int | None,
) -> Sequence[Row]:
    """Migrate the files of a folder, or of a format table.

    The connector's sources are tables of Hive, which it deletes by default; here nothing is deleted unless requested.
    """
    if source_type.lower() not in _SOURCES or target_table is None:
        msg = (
            f"sys.migrate_table of {source_type!r} is not done: source_type => 'files', table => '/the/folder' or a "
            "format table, target_table => 'db.t'"
        )
        raise Unsupported(msg, feature="procedure.migrate_table")
    if parallelism is not None and parallelism < 1:
        raise InvalidOption(f"parallelism {parallelism}; it is 1 or more", key="parallelism", value=str(parallelism))
    source = table if "/" in table else call.full(table)
    call.catalog.migrate(source, call.full(target_table), move=bool(delete_origin), options=table_options(options))
    return success_rows()


_SOURCES = ("files", "format-table")


@procedure("", "procedure string, arguments string, results string")
def _help(call: Call) -> Sequence[Row]:  # noqa: ARG001 - as its kind
    """Return each procedure, with its arguments and the columns of its result."""
    return [(f"sys.{name}", format_parameters(one), one.result_columns) for name, one in sorted(PROCEDURES.items())]


@procedure("database string?", "table string, snapshot_id long, row_count long")
def _refresh_due(call: Call, *, database: str | None) -> Sequence[Row]:
    """Refresh the materialized tables whose rows are older than they may be; suspended ones stay as they are.

    A table comes behind those that its query reads. Raises: `InvalidOption` for tables that read each other; nothing is
    refreshed then.
    """
    ordered, wrong = due_maintenance.refresh_order(show.materialized_tables(call.catalog, database))
    if wrong:
        raise InvalidOption(next(iter(wrong.values())), key="materialized-table.definition-query")
    commits = [(one.name, one.refresh()) for one in ordered if one.is_stale and not one.is_suspended]
    return [(name, commit.snapshot_id, commit.row_count) for name, commit in commits]
