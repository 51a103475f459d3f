"""Partitions: expired ones dropped in commits of their own, complete ones marked, idle ones found.

    values-time     dt=2024-01-01 is as old as its values say (`partition.timestamp-pattern`,
                    `partition.timestamp-formatter`); without a time it stays
    update-time     as old as the newest file that was added or removed

Source: ENGINE.md 5.12; `PartitionExpire`, `PartitionValuesTimeExpireStrategy`, `PartitionUpdateTimeExpireStrategy`,
`SuccessFileMarkDoneAction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from lakekit import plugins
from lakekit.columns import POSITION
from lakekit.commit.committer import commit_changes
from lakekit.commit.overwrite import Overwrite
from lakekit.data_file.paths import partition_path, partition_spec, partition_values
from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.format.polars_types import polars_schema
from lakekit.maintenance.arguments import parse_count
from lakekit.maintenance.result import DeletionResult
from lakekit.metadata import manifest_reader, snapshots, table_context
from lakekit.model import partition as partitions
from lakekit.model.manifest_entries import ADD
from lakekit.model.partition import partition_time_ms
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.read import user_expressions
from lakekit.read.planner import partition_frame
from lakekit.runtime import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.commit.changes import Commit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.snapshot import Snapshot


EXPIRATION_STRATEGIES = ("values-time", "update-time")
_NEXT_BYTES = 100


def expire_partitions(
    ctx: TableContext,
    expiration_ms: int | None = None,
    *,
    strategy: str | None = None,
    pattern: str | None = None,
    formatter: str | None = None,
    most: int | None = None,
    dry_run: bool = False,
    by: Commit | None = None,
) -> DeletionResult:
    """Drop the partitions that are older than `expiration_ms`, the oldest first, `most` at once.

    An argument that is None is as the options `partition.*` say. `by`: the commit after which this runs. Its user and
    identifier are those of the drop too: the job that made it takes the drop for its own work, not for another
    writer's, and its progress can still be read from a snapshot when that of its rows has expired.

    Raises: `InvalidOption` if no expiration is set, the table is not partitioned, or the strategy is unknown;
    `Conflict`.
    """
    table_context.check_writable(ctx)
    options = ctx.options
    age = options.partition_expiration_time_ms if expiration_ms is None else expiration_ms
    how = strategy or options.partition_expiration_strategy
    age = _check_arguments(ctx, age, how, {"timestamp_pattern": pattern, "timestamp_formatter": formatter})
    before = wall_clock_ms(ctx.runtime.now_ms()) - age
    update_times = _last_update_times(ctx)
    texts = {row: _directory_texts(ctx, row) for row in update_times}
    if how == "values-time":
        time_format = (
            pattern or options.partition_timestamp_pattern,
            formatter or options.partition_timestamp_formatter,
        )
        over = [
            row
            for row in update_times
            if (time := _partition_time_ms(ctx, row, texts[row], *time_format)) is not None and time < before
        ]
    else:
        over = [row for row, time in update_times.items() if time is not None and time < before]
    over.sort(key=lambda row: ",".join(texts[row]))
    over = over[: options.partition_expiration_max_num if most is None else parse_count(most, "max_expires")]
    if not dry_run:
        _drop_in_batches(ctx, over, by)
    return DeletionResult(
        table=ctx.name, partitions=tuple(partition_path(ctx, row).strip("/") for row in over), dry_run=dry_run
    )


def _drop_in_batches(ctx: TableContext, partitions: Sequence[bytes], by: Commit | None) -> None:
    """Drop partitions, at most `partition.expiration-batch-size` in one commit."""
    size = ctx.options.partition_expiration_batch_size or len(partitions) or 1
    for at in range(0, len(partitions), size):
        user, identifier = (ctx.new_commit_user(), BATCH_IDENTIFIER) if by is None else (by.commit_user, by.identifier)
        overwrite = Overwrite.serialized(partitions[at : at + size])
        commit_changes(ctx, (), commit_user=user, identifier=identifier, overwrite=overwrite, is_new_user=True)


def _check_arguments(ctx: TableContext, age: int | None, strategy: str, formats: Mapping[str, object]) -> int:
    """Return the age in milliseconds, or raise `InvalidOption` for arguments that expire cannot use."""
    if not ctx.schema.partition_keys:
        raise InvalidOption(f"{ctx.name} is not partitioned, so no partition expires", key="partition.expiration-time")
    if age is None:
        raise InvalidOption(
            f"{ctx.name} has no partition.expiration-time: say expiration='30 d'", key="partition.expiration-time"
        )
    if strategy not in EXPIRATION_STRATEGIES:
        raise InvalidOption(
            f"partition.expiration-strategy is {strategy!r}; lakekit knows {' and '.join(EXPIRATION_STRATEGIES)}",
            key="partition.expiration-strategy",
            value=strategy,
        )
    for key, text in formats.items():
        if not isinstance(text, str | None):
            raise InvalidOption(
                f"{key}= takes a text, such as the option partition.{key.replace('_', '-')} has; found "
                f"{ascii(text)[:100]}",
                key=key,
            )
    return age


def is_check_due(ctx: TableContext, *, ends: bool) -> bool:
    """Return whether to look for expired partitions after a commit.

    That is once in `partition.expiration-check-interval`, the first time after a part of it. `ends`: the commit is that
    of a batch job, after which `end-input.check-partition-expire` always asks for it.
    """
    options = ctx.options
    if options.partition_expiration_time_ms is None or not ctx.schema.partition_keys:
        return False
    interval = options.partition_expiration_check_interval_ms
    if not interval or (ends and options.end_input_check_partition_expire):
        return True
    now, key = ctx.runtime.now_ms(), ("partitions-looked-at", ctx.storage, ctx.paths.snapshot_dir)
    last: int | None = ctx.runtime.metadata_cache.get(key)
    if last is None:
        last = now - interval * int(ctx.runtime.new_id()[:6], 16) // 0xFFFFFF
    due = now > last + interval
    ctx.runtime.metadata_cache.put({key: now if due else last}, _NEXT_BYTES)
    return due


def _last_update_times(ctx: TableContext) -> dict[bytes, int | None]:
    """Return the partitions that have live files, and when one of their files was last added or removed.

    The times are those of the wall clock, in milliseconds.
    """
    latest = snapshots.latest(ctx)
    if latest is None:
        return {}
    entries = manifest_reader.read_entries(
        ctx, manifest_reader.manifest_files(ctx, latest), columns=("kind", "partition", "creation_time")
    )
    frame: pl.DataFrame = pl.from_arrow(entries.table)  # type: ignore[assignment]
    sign = pl.when(pl.col("kind") == ADD).then(1).otherwise(-1)
    live = (
        frame.group_by("partition")
        .agg(sign.sum().alias("files"), pl.col("creation_time").max().cast(pl.Int64))
        .filter(pl.col("files") > 0)
    )
    return dict(live.select("partition", "creation_time").iter_rows())  # scalar: one a partition


def _directory_texts(ctx: TableContext, row: bytes) -> tuple[str, ...]:
    """Return the partition values as their directories spell them, but a blank text as it is.

    The directory name that replaces a blank text holds no time; a blank text sorts first and is dropped first.
    """
    types = [field.type for field in ctx.schema.partition_fields]
    values = partition_values(ctx, row)
    spelt = partitions.partition_texts(values, types, default_name=ctx.options.partition_default_name)
    return tuple(value if isinstance(value, str) else text for value, text in zip(values, spelt, strict=True))


def _partition_time_ms(
    ctx: TableContext, row: bytes, texts: Sequence[str], pattern: str | None, formatter: str | None
) -> int | None:
    values = partition_values(ctx, row)
    if any(value is None for value in (values if pattern is not None else values[:1])):
        return None
    return partition_time_ms(ctx.schema.partition_keys, texts, pattern=pattern, formatter=formatter)


# ---- complete ------------------------------------------------------------------------------------


def mark_done(ctx: TableContext, specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Mark partitions as complete, in the ways of `partition.mark-done-action`.

    `success-file` writes `_SUCCESS` into the directory of each, `http-report` reports to a web service:
    `maintenance.mark_done` has a module for each.

    Raises: `ColumnNotFound`, `SchemaMismatch`, `InvalidOption` for specs that do not name every partition column once,
    `Unsupported` for other actions, `StorageFailed` for a service that does not answer.
    """
    ways = _load_actions(ctx)
    listed = [specs] if isinstance(specs, Mapping) or not isinstance(specs, Iterable) else specs
    return _mark_directories(ctx, ways, [_partition_directory(ctx, spec) for spec in listed])


def mark_written_done(ctx: TableContext, messages: Sequence[CommitMessage]) -> list[str]:
    """Mark the partitions that a batch wrote to as complete.

    Where readers wait for compaction, partitions that the batch only compacted count too. Raises `Unsupported` as
    `mark_done` does. Source: `PartitionMarkDoneListener`.
    """
    ways = _load_actions(ctx)
    options = ctx.options
    waits = bool(ctx.schema.primary_keys) and (options.deletion_vectors_enabled or options.merge_engine == "first-row")
    rows = dict.fromkeys(message.partition for message in messages if waits or message.has_new)
    return _mark_directories(ctx, ways, [partition_path(ctx, row).strip("/") for row in rows])


def _load_actions(ctx: TableContext) -> list[Any]:
    """Return the modules of `maintenance.mark_done` that the option names, after their checks.

    Raises what `mark_done` raises for the option.
    """
    available, actions = plugins.names("maintenance/mark_done"), []
    for action in dict.fromkeys(action.strip() for action in ctx.options.partition_mark_done_action.split(",")):
        if action not in available:
            raise Unsupported(
                f"partition.mark-done-action of {ctx.name} is {action!r}, which needs a metastore or Java; lakekit "
                f"does {' and '.join(available)}",
                feature="procedure.mark_partition_done",
            )
        way: Any = plugins.load("maintenance/mark_done", action)
        way.check(ctx)
        actions.append(way)
    return actions


def _mark_directories(ctx: TableContext, ways: Sequence[Any], directories: list[str]) -> list[str]:
    for directory in directories:
        for way in ways:
            way.mark(ctx, directory)
    return directories


def _partition_directory(ctx: TableContext, spec: Mapping[str, Any]) -> str:
    if not isinstance(spec, Mapping):
        raise InvalidOption(
            f"{ascii(spec)[:100]} is no partition: one is a dict of column and value, such as {{'dt': '2024-03-31'}}",
            key="partitions",
        )
    keys = ctx.schema.partition_keys
    if set(spec) != set(keys) or not keys:
        has = f"partition columns are {', '.join(keys)}" if keys else "the table is not partitioned"
        unknown = next((name for name in spec if name not in keys), None)
        raise InvalidOption(f"{dict(spec)!r} is no partition of {ctx.name}: {has}", key="partitions", value=unknown)
    from_spec = partition_spec(ctx, spec)
    types = [field.type for field in ctx.schema.partition_fields]
    options = ctx.options
    values = [from_spec[at] for at in range(len(keys))]
    texts = partitions.partition_texts(
        values, types, default_name=options.partition_default_name, legacy_form=options.partition_legacy_name
    )
    return partitions.partition_path(keys, texts).strip("/")


# ---- idle partitions ------------------------------------------------------------


def matching_partitions(ctx: TableContext, serialized: Iterable[bytes], where: pl.Expr | str | None) -> set[bytes]:
    """Return those of some serialized partitions that satisfy a condition; all without one.

    `where`: a Polars expression or SQL text on partition columns.

    Raises: `InvalidOption` if the text is no condition or names another column, `SchemaMismatch` if it does not fit the
    columns' types.
    """
    rows = sorted(set(serialized))
    if where is None:
        return set(rows)
    every = polars_schema(ctx.schema.fields)
    wanted = user_expressions.parse_condition(where, every, ctx.name, "where")
    partition_keys = ctx.schema.partition_keys
    if others := [name for name in user_expressions.used_columns(wanted, every) if name not in partition_keys]:
        has = f"partition columns are {', '.join(partition_keys)}" if partition_keys else "the table is not partitioned"
        raise InvalidOption(
            f"where= chooses partitions of {ctx.name}; {others[0]!r} is no partition column: {has}",
            key="where",
            value=str(where),
        )
    numbered = partition_frame(ctx, pa.array(rows, pa.binary())).with_row_index(
        POSITION
    )  # a condition that names no column holds for each of them
    try:
        matching = numbered.filter(wanted.fill_null(value=False)).get_column(POSITION)
    except pl.exceptions.PolarsError as wrong:  # some of what does not fit is seen only here
        raise SchemaMismatch(f"where={wanted} does not fit the columns of {ctx.name}: {wrong}") from None
    return {rows[at] for at in matching}


def idle_partitions(ctx: TableContext, snapshot: Snapshot | None, partitions: set[bytes], idle_ms: int) -> set[bytes]:
    """Return those of some partitions whose newest file is at least `idle_ms` old, by the wall clock.

    An unpartitioned table is one partition.
    """
    if snapshot is None or not partitions:
        return partitions
    entries = manifest_reader.read_live_entries(ctx, snapshot)
    newest = (
        pa.table({name: entries.column(name) for name in ("partition", "creation_time")})
        .group_by("partition")
        .aggregate([("creation_time", "max")])
    )
    times = newest.column("creation_time_max").cast(pa.int64()).to_pylist()  # scalar: one a partition
    last = wall_clock_ms(ctx.runtime.now_ms()) - idle_ms
    last_writes = zip(newest.column("partition").to_pylist(), times, strict=True)  # scalar: one a partition
    return {partition for partition, time in last_writes if partition in partitions and (time is None or time <= last)}
