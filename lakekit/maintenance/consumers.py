"""Consumers: the positions of named streaming readers.

Snapshots from a consumer's position on are kept, so that a consumer that never returns keeps all of them.

Source: ENGINE.md 5.12; `ConsumerManager`, `ResetConsumerProcedure`, `ClearConsumersProcedure`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import Corrupt, InvalidOption
from lakekit.maintenance import reachability
from lakekit.maintenance.arguments import parse_count
from lakekit.maintenance.result import DeletionResult
from lakekit.metadata import refs
from lakekit.model.snapshot import MAX_ID

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext


def reset_consumer(ctx: TableContext, consumer_id: str, next_snapshot: int | None) -> None:
    """Set the next snapshot of a consumer, which need not exist yet; for None, delete the consumer.

    Raises: `InvalidOption`, `ConsumerNotFound`.
    """
    refs.check_consumer_id(consumer_id)
    if next_snapshot is None:
        with suppress(Corrupt):  # one that nobody can read keeps every snapshot: it can be forgotten all the same
            refs.read_consumer(ctx, consumer_id)
        ctx.storage.delete([ctx.paths.consumer(consumer_id)])
        return
    number = parse_count(next_snapshot, "next_snapshot")
    if number > MAX_ID:
        raise InvalidOption(f"next_snapshot={number} is no snapshot's number", key="next_snapshot", value=str(number))
    refs.record_consumer(ctx, consumer_id, number)


def next_snapshot_ids(ctx: TableContext) -> list[int]:
    """Return the snapshots that consumers read next.

    Raises: `Corrupt` if a consumer cannot be read, so that its position is unknown.
    """
    snapshot_ids = []
    for name in refs.list_consumer_ids(ctx):
        try:
            consumer = refs.find_consumer(ctx, name)
        except Corrupt as damaged:
            remedy = f"t.reset_consumer({name!r}, next_snapshot=…) writes it anew, and without next_snapshot forgets it"
            raise reachability.unreadable_root(damaged, "a consumer", ctx.paths.consumer(name), remedy) from damaged
        snapshot_ids += [] if consumer is None else [consumer.next_snapshot]
    return snapshot_ids


def expire_consumers(
    ctx: TableContext,
    *,
    older_than_ms: int | None = None,
    including: str | None = None,
    excluding: str | None = None,
    dry_run: bool = False,
) -> DeletionResult:
    """Delete the consumers whose file was written before a time, by the storage's clock; for None, all.

    `including`, `excluding`: regular expressions that match whole ids.

    Raises: `InvalidOption` for an invalid regular expression.
    """
    wanted, spared = _compile_pattern(including, "including"), _compile_pattern(excluding, "excluding")
    expired = []
    for entry in ctx.storage.list(ctx.paths.consumer_dir):
        name = entry.name.removeprefix("consumer-")
        if (
            entry.is_dir
            or name in {entry.name, ""}
            or (older_than_ms is not None and entry.modified_ms >= older_than_ms)
        ):
            continue
        if (wanted is None or wanted.fullmatch(name)) and not (spared is not None and spared.fullmatch(name)):
            expired.append(name)
    if not dry_run:
        ctx.storage.delete([f"{ctx.paths.consumer_dir}/consumer-{name}" for name in expired])
    return DeletionResult(table=ctx.name, consumers=tuple(expired), dry_run=dry_run)


def expire_old_consumers(
    ctx: TableContext, age_ms: int | None, *, including: str | None, excluding: str | None, dry_run: bool = False
) -> DeletionResult:
    """Delete the consumers older than `age_ms`; for None, those older than the option's age.

    Without any age, those that `including` names are deleted.

    Raises: `InvalidOption` where neither an age nor `including` is given.
    """
    age = ctx.options.consumer_expiration_time_ms if age_ms is None and including is None else age_ms
    if age is None and including is None:
        msg = f"{ctx.name} has no consumer.expiration-time: say expiration='7 d', or including='.*' for all"
        raise InvalidOption(msg, key="consumer.expiration-time")
    before = None if age is None else ctx.runtime.now_ms() - age
    return expire_consumers(ctx, older_than_ms=before, including=including, excluding=excluding, dry_run=dry_run)


def _compile_pattern(text: str | None, key: str) -> re.Pattern[str] | None:
    if text is not None and not isinstance(text, str):
        raise InvalidOption(
            f"{key}= takes a regular expression as a text, not {type(text).__name__}", key=key, value=str(text)
        )
    try:
        return None if text is None else re.compile(text)
    except re.error as wrong:
        raise InvalidOption(f"{key}={text!r} is no regular expression: {wrong}", key=key, value=text) from None
