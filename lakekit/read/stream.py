"""A table followed as it grows: `t.follow()` (ENGINE 6.9).

    snapshot    1 APPEND   2 APPEND   3 COMPACT   4 APPEND   5 (does not exist yet)
    changes     ─ state ─────────→    –           its rows   wait, look again

First comes the state where the stream begins (`read.stream_start`), then the change of each snapshot: the changelog if
the table has one, else the rows that were added. No rows are read before a change's frame runs; a consumer's progress
moves when a change is acknowledged.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import KIND, ROW_KIND
from lakekit.data_file.corrupt_manifest_path import add_manifest_path
from lakekit.draw import cards
from lakekit.draw.timeline import format_time
from lakekit.errors import InvalidOption, SchemaChanged, SnapshotNotFound
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import manifest_reader, refs, schemas, snapshots
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.options.features import check_readable
from lakekit.read import lazy_frames, planner, polars_pushdown, stream_start, table_scan, time_travel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.planner import Plan
    from lakekit.read.polars_pushdown import ScanFilter
    from lakekit.read.stream_start import StreamStart
    from lakekit.read.time_travel import Position
    from lakekit.types import Field

STATE_KIND = "FULL"
"""The kind of a change that is the state a stream begins with."""
"""Why a table without changelog cannot be followed, and the producers that help; the second for first-row."""
_ANY_LEVEL = 2**31 - 1


@dataclass(slots=True, kw_only=True)
class StreamOffset:
    """How far a consumer has come; without a consumer it is only kept in memory."""

    ctx: TableContext
    consumer: str | None
    next_id: int = 0

    def reach(self, next_id: int) -> None:
        """Set the next snapshot; progress never goes back."""
        if next_id <= self.next_id:
            return
        self.next_id = next_id
        if self.consumer is not None:
            refs.record_consumer(self.ctx, self.consumer, next_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one snapshot.

    `kind` is the kind of its commit, FULL for the state that a stream begins with; `watermark` and `time_ms` are the
    snapshot's. `frame` holds its rows as a LazyFrame, `_row_kind` first. Read it before the snapshot expires; a
    consumer protects the snapshot until `ack()`.
    """

    table: str
    snapshot_id: int
    kind: str
    watermark: int | None
    time_ms: int
    frame: pl.LazyFrame = field(repr=False, compare=False)
    _offset: StreamOffset = field(repr=False, compare=False)

    def ack(self) -> None:
        """Acknowledge this change and all before it: the consumer continues after it.

        Without a consumer nothing is recorded. Raises `StorageFailed`.
        """
        self._offset.reach(self.snapshot_id + 1)

    @property
    def _title(self) -> str:
        return f"{self.table} · change · snapshot {self.snapshot_id} {self.kind}"

    @property
    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [("time", format_time(self.time_ms))]
        return facts if self.watermark is None else [*facts, ("watermark", self.watermark)]

    def __str__(self) -> str:
        return cards.card_text(self._title, self._facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return cards.html_card(self._title, self._facts)


@dataclass(frozen=True, kw_only=True)
class TableStream:
    """A source of rows with their kinds, of a table with fixed columns."""

    ctx: TableContext
    fields: tuple[Field, ...]
    snapshot: Snapshot

    def schema(self) -> Mapping[str, pl.DataType]:
        """Return the columns and types: kind first, then the columns."""
        unit = self.ctx.options.lakekit_timestamp_unit
        return {
            **lazy_frames.kind_schema(ROW_KIND, numbered=False),
            **polars_schema(self.fields, timestamp_unit=unit),
        }

    def resolve(self) -> polars_pushdown.ResolvedSource:
        """Return the snapshot as the version; it never changes."""
        return polars_pushdown.ResolvedSource(str(self.snapshot.id), self._frame, self.ctx.schema)

    def _frame(self, scan_filter: ScanFilter, limit: int | None) -> pl.LazyFrame:  # noqa: ARG002 - rows may be deletes
        with add_manifest_path(self.ctx, lambda: self.snapshot):
            return self._rows(scan_filter)

    @abstractmethod
    def _rows(self, scan_filter: ScanFilter) -> pl.LazyFrame: ...

    def _plan_unmerged(
        self, entries: ManifestEntries, scan_filter: ScanFilter, *, created_since_ms: int | None = None
    ) -> Plan:
        """Return the plan of files to read unmerged; nothing is hidden."""
        visibility = {"hides_level_zero": False, "hides_postponed": self._hides_postponed}
        return planner.plan_added_files(
            self.ctx, self.snapshot, entries, scan_filter, created_since_ms=created_since_ms, **visibility
        )

    @property
    def _hides_postponed(self) -> bool:
        """Return whether postponed rows are hidden.

        A stream without a changelog returns them (engine 1.4.2); with one, their changelog comes when they are assigned
        to buckets.
        """
        return self.ctx.options.changelog_producer != "none"


@dataclass(frozen=True, kw_only=True)
class SnapshotState(TableStream):
    """The rows of a snapshot with which a stream begins, all +I: only those that no later changelog returns."""

    position: Position

    def _rows(self, scan_filter: ScanFilter) -> pl.LazyFrame:
        merged, lying = self.plans(scan_filter)
        rows = lazy_frames.scan_merged([merged], self.fields).with_columns(pl.lit(0, pl.Int8).alias(KIND))
        if lying is not None:
            rows = pl.concat([rows, lazy_frames.scan_raw_rows(lying, self.fields)])
        return lazy_frames.kinds_first(rows, ROW_KIND, self.fields)

    def plans(self, scan_filter: ScanFilter) -> tuple[Plan, Plan | None]:
        """Return the plan of the merged rows, and the plan of postponed rows, which are read without a merge.

        The second is None if there are none to return.
        """
        levels, last = _initial_levels(self.ctx)
        merged = planner.plan_read(
            self.ctx, self.position, scan_filter, levels=levels, least_last_level=last, hides_level_zero=False
        )
        if self.ctx.options.bucket != POSTPONE_BUCKET or self._hides_postponed:
            return merged, None
        entries = planner.load_live_entries(self.ctx, self.snapshot)
        postponed = entries.filter(entries.integers("bucket") == POSTPONE_BUCKET)
        return merged, self._plan_unmerged(postponed, scan_filter, created_since_ms=self.position.created_since_ms)


@dataclass(frozen=True, kw_only=True)
class StreamBatch(TableStream):
    """The change of a snapshot: its changelog, the rows it added, or what an overwrite removed and added."""

    is_changelog: bool
    is_overwrite: bool = False

    @cached_property
    def entries(self) -> ManifestEntries:
        """Return the files that hold it."""
        listed = manifest_reader.manifest_files(self.ctx, self.snapshot, "changelog" if self.is_changelog else "delta")
        return manifest_reader.read_entries(self.ctx, listed)

    def _rows(self, scan_filter: ScanFilter) -> pl.LazyFrame:
        lying = self.plan(scan_filter)
        if lying is not None:
            rows = lazy_frames.scan_raw_rows(lying, self.fields)
        else:
            kinds = self.entries.integers("kind")
            before = snapshots.find(self.ctx, self.snapshot.id - 1) or self.snapshot
            rows = pl.concat(
                [
                    _invert_kinds(self._merged(kinds == DELETE, before, scan_filter)),
                    self._merged(kinds == ADD, self.snapshot, scan_filter),
                ]
            )
        return lazy_frames.kinds_first(
            lazy_frames.deletes_first(rows, self.ctx.schema, self.fields), ROW_KIND, self.fields
        )

    def plan(self, scan_filter: ScanFilter) -> Plan | None:
        """Return the plan to read the rows unmerged.

        Returns None for an overwrite of a key table, whose old and new rows are merged first.
        """
        if self.is_overwrite and self.ctx.schema.primary_keys:
            return None
        return self._plan_unmerged(self.entries.filter(self.entries.integers("kind") == ADD), scan_filter)

    def _merged(self, mask: NDArray[np.bool_], snapshot: Snapshot, scan_filter: ScanFilter) -> pl.LazyFrame:
        """Return the merged rows of the files in the mask, with `_VALUE_KIND`.

        Postponed ones are among them if the stream returns them at all.
        """
        if self._hides_postponed and self.ctx.options.bucket == POSTPONE_BUCKET:
            mask = mask & (self.entries.integers("bucket") != POSTPONE_BUCKET)
        if snapshot.index_manifest is not None and snapshots.find(self.ctx, snapshot.id) is None:
            snapshot = replace(snapshot, index_manifest=None)  # a long-lived changelog keeps files of rows alone
        plan = planner.plan_entries(
            self.ctx,
            snapshot,
            planner.PruningFunnel(self.entries.filter(mask)),
            planner.merge_spec_of(self.ctx),
            scan_filter,
        )
        return lazy_frames.scan_merged([plan], self.fields, system=lazy_frames.KIND_COLUMNS)


def _invert_kinds(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows with additions as deletes, and retractions as additions."""
    kind = pl.col(KIND)
    return frame.with_columns(pl.when(kind & 1 == 0).then(pl.lit(3, pl.Int8)).otherwise(pl.lit(0, pl.Int8)).alias(KIND))


def _initial_levels(ctx: TableContext) -> tuple[range | None, int | None]:
    """Return the levels that the first state shows, or the least number of the last level of each bucket.

    A bucket's last level may be higher: the table may have had more levels. Rows of lower levels come later, in the
    changelog of the compaction that lifts them.
    """
    if not ctx.schema.primary_keys:
        return None, None
    match ctx.options.changelog_producer:
        case "lookup":
            return range(1, _ANY_LEVEL), None
        case "full-compaction":
            return None, ctx.options.level_count - 1
    return None, None


# ---- the stream ------------------------------------------------------------------------------------------------------


def follow_table(
    ctx: TableContext,
    start: str | int | datetime | None,
    *,
    consumer: str | None = None,
    until: str | int | datetime | None = None,
    poll: float | timedelta | None = None,
) -> Iterator[Change]:
    """Yield the changes of a table, one for each snapshot, as they come; see `Table.follow`.

    What cannot be followed is refused by the call, before anything is read.
    """
    return open_stream(ctx, start, consumer=consumer, until=until, poll=poll).changes()


def open_stream(
    ctx: TableContext,
    start: str | int | datetime | None = None,
    *,
    consumer: str | None = None,
    until: str | int | datetime | None = None,
    poll: float | timedelta | None = None,
) -> StreamCursor:
    """Return the cursor over which `follow_table` iterates, for callers that step through it themselves."""
    check_readable(ctx.all_options, f"table {ctx.name}")
    stream_start.check_stream_engine(ctx)
    if ctx.schema.has(ROW_KIND):
        msg = (
            f"{ctx.name} has a column {ROW_KIND!r} of its own, which a stream needs for the kinds of its rows: "
            "rename it"
        )
        raise InvalidOption(msg, key="kind_column", value=ROW_KIND)
    consumer = consumer if consumer is not None else ctx.options.consumer_id
    if consumer is not None:
        refs.check_consumer_id(consumer)
    if isinstance(until, bool) or not (until is None or until == "latest" or isinstance(until, (int, datetime))):
        raise InvalidOption(
            f"until is 'latest', a snapshot id, a datetime or None, not {until!r}", key="until", value=str(until)
        )
    ctx = stream_start.with_start_option(ctx, start)
    return StreamCursor(
        ctx=ctx,
        fields=ctx.schema.fields,
        offset=StreamOffset(ctx=ctx, consumer=consumer),
        until=time_travel.to_epoch_millis(ctx, until) if isinstance(until, datetime) else None,
        last_id=until if isinstance(until, int) else None,
        stops_at_end=until == "latest",
        poll_ms=stream_start.poll_ms(ctx, poll),
        newest_at_call=snapshots.latest_id(ctx),
    )


@dataclass(slots=True, kw_only=True)
class StreamCursor:
    """The position of a stream, and when it ends.

    It ends after `last_id`, before the first snapshot younger than `until`, or, if `stops_at_end`, when it would wait.
    """

    ctx: TableContext
    fields: tuple[Field, ...]
    offset: StreamOffset
    until: int | None
    last_id: int | None
    stops_at_end: bool
    poll_ms: float
    newest_at_call: int | None
    last_snapshot: Snapshot | None = None
    snapshot_before: Snapshot | None = None

    def changes(self) -> Iterator[Change]:
        """Yield one change after another; wait for the next."""
        start = self.find_start()
        while start is None:
            if self._is_over():
                return
            self.ctx.runtime.wait_ms(self.poll_ms)
            start = self.find_start()
        number = start.next_id
        self.snapshot_before = snapshots.find_change(self.ctx, number - 1) if start.initial_state is None else None
        if self._starts_at_newest():
            # "now" is later when the stream begins again, and the changes in between would be lost
            self.offset.reach(number)
        if start.initial_state is not None and start.initial_state.snapshot is not None:
            if self._is_behind_the_end(start.initial_state.snapshot):
                msg = (
                    f"the stream of {self.ctx.name} would begin with snapshot {start.initial_state.snapshot.id}, "
                    "which is "
                    "behind its end: begin with an older one"
                )
                raise InvalidOption(
                    msg, key="until", value=str(self.last_id if self.last_id is not None else self.until)
                )
            yield self._make_change(
                self.read_state(start.initial_state, start.initial_state.snapshot),
                start.initial_state.snapshot,
                STATE_KIND,
            )
            self.last_snapshot = start.initial_state.snapshot
            if self._passes_watermark(start.initial_state.snapshot):
                return
        while self.last_id is None or number <= self.last_id:
            snapshot = self.find_snapshot(number)
            self._check_passed(number)
            if snapshot is None:
                if self._is_over():
                    break
                self.ctx.runtime.wait_ms(self.poll_ms)
                continue
            if self.ends_before(snapshot):
                break
            if (wait_ms := self.delay_ms(snapshot)) > 0:
                self.ctx.runtime.wait_ms(min(wait_ms, self.poll_ms) or 1)
                continue
            source = self.read_batch(snapshot)
            if source is not None:
                yield self._make_change(source, snapshot, snapshot.commit_kind)
            elif self.offset.next_id == number or (
                self.last_snapshot is None and self._is_new()
            ):  # not acknowledged by a caller
                self.offset.reach(number + 1)
            number, self.last_snapshot = number + 1, snapshot

    def find_start(self) -> StreamStart | None:
        """Return where the stream begins, or continues; None while there is nothing to begin with.

        Raises:
            TableNotFound: the table does not exist any more.
        """
        start = self._find_start_once()
        if start is None:
            self._check_table()
        return start

    def _find_start_once(self) -> StreamStart | None:
        consumer = self.offset.consumer
        start = None
        if consumer is not None and not self.ctx.options.consumer_ignore_progress:
            start = stream_start.start_of_consumer(self.ctx, consumer)
        if start is not None:
            self.offset.next_id = start.next_id
            return start
        return stream_start.find_stream_start(self.ctx, newest_at_call=self.newest_at_call)

    def _starts_at_newest(self) -> bool:
        """Return whether a consumer without progress begins with what is committed from now on."""
        return self._is_new() and time_travel.scan_mode_of(self.ctx)[0] == "latest"

    def _is_new(self) -> bool:
        return not (self.offset.next_id or self.ctx.options.consumer_ignore_progress)

    def _is_over(self) -> bool:
        """Return whether a stream without a next snapshot is over."""
        return (
            self.stops_at_end
            or (self.last_id is not None and self.last_id < 1)
            or (self.until is not None and self.ctx.runtime.now_ms() > self.until)
        )

    def _is_behind_the_end(self, snapshot: Snapshot) -> bool:
        return (self.until is not None and snapshot.time_millis > self.until) or (
            self.last_id is not None and snapshot.id > self.last_id
        )

    def _passes_watermark(self, snapshot: Snapshot) -> bool:
        bound, reached = self.ctx.options.scan_bounded_watermark, snapshot.watermark_or_none
        return bound is not None and reached is not None and reached > bound

    def ends_before(self, snapshot: Snapshot) -> bool:
        """Return whether the stream is over when it comes to that snapshot."""
        return self._passes_watermark(snapshot) or self._is_behind_the_end(snapshot)

    def delay_ms(self, snapshot: Snapshot) -> float:
        """Return how long a snapshot is still delayed (`streaming-read-snapshot-delay`); not if not above 0."""
        delay = self.ctx.options.streaming_read_snapshot_delay_ms
        return 0 if delay is None else snapshot.time_millis + delay - self.ctx.runtime.now_ms()

    def find_snapshot(self, snapshot_id: int) -> Snapshot | None:
        """Return that snapshot; None while it does not exist yet.

        Raises:
            SnapshotNotFound: it will never exist, or has expired.
            TableNotFound: the table does not exist any more.
        """
        snapshot = snapshots.find_change(self.ctx, snapshot_id)
        if snapshot is not None:
            return snapshot
        newest = snapshots.latest_id(self.ctx)
        if newest is None:
            self._check_table()
            return None
        if snapshot_id == newest + 1:
            return None
        if snapshot_id > newest:
            consumer = self.offset.consumer
            advice = (
                "Begin anew with start="
                if consumer is None
                else f"t.reset_consumer({consumer!r}) lets the consumer begin anew"
            )
            msg = (
                f"the stream of {self.ctx.name} expects snapshot {snapshot_id}, and the newest is {newest}: The next "
                f"expected snapshot is too big! Was the table rolled back, or begins it ahead of the table? {advice}"
            )
            raise SnapshotNotFound(msg, name=str(snapshot_id))
        snapshot = snapshots.find_change(self.ctx, snapshot_id)  # it may have come meanwhile
        if snapshot is None:
            mine = self.offset.consumer
            retention_advice = (
                "or follow with a consumer, which keeps them"
                if mine is None
                else f"acknowledge what is told, and keep consumer {mine!r} to one stream"
            )
            msg = (
                f"the stream of {self.ctx.name} wants snapshot {snapshot_id}, which has expired: "
                f"{snapshots.describe_range(self.ctx)}. Begin anew with start=, keep snapshots longer "
                f"(snapshot.time-retained), {retention_advice}"
            )
            raise SnapshotNotFound(msg, name=str(snapshot_id))
        return snapshot

    def _check_passed(self, snapshot_id: int) -> None:
        """Raise `SnapshotNotFound` if the snapshot before was replaced by another one since the stream returned it.

        Rows of the replaced one would stay forever. For a stream that returned nothing yet it is the snapshot before
        its first: what replaced it would never be returned.
        """
        previous = self.last_snapshot or self.snapshot_before
        if previous is None or previous.id != snapshot_id - 1:
            return
        current = snapshots.find_change(self.ctx, previous.id)
        if current is not None and snapshot_identity(current) != snapshot_identity(previous):
            self._check_table()
            where = "told" if self.last_snapshot else "begins behind"
            advice = "" if self.offset.consumer is None else f", or with t.reset_consumer({self.offset.consumer!r})"
            msg = (
                f"the stream of {self.ctx.name} {where} snapshot {previous.id}, and another one has its number now: "
                f"the table was rolled back, or moved forward to a branch. Begin anew with start={advice}"
            )
            raise SnapshotNotFound(msg, name=str(previous.id))

    def read_state(self, position: Position, snapshot: Snapshot) -> SnapshotState:
        """Return the rows of a snapshot, with which the stream begins."""
        return SnapshotState(ctx=self._context_at(snapshot), fields=self.fields, snapshot=snapshot, position=position)

    def read_batch(self, snapshot: Snapshot) -> StreamBatch | None:
        """Return the change of a snapshot; None if the stream returns nothing for it."""
        ctx = self._context_at(snapshot)
        options = ctx.options
        keyed = bool(ctx.schema.primary_keys)
        tells_overwrites = options.streaming_read_overwrite if keyed else options.streaming_read_append_overwrite
        overwrites = snapshot.commit_kind == "OVERWRITE" and tells_overwrites
        changelog = options.changelog_producer != "none" and not overwrites
        tells = (
            snapshot.changelog_manifest_list is not None
            if changelog
            else overwrites or snapshot.commit_kind == "APPEND"
        )
        if not tells:
            return None
        source = StreamBatch(
            ctx=ctx, fields=self.fields, snapshot=snapshot, is_changelog=changelog, is_overwrite=overwrites
        )
        return source if len(source.entries) else None

    def _context_at(self, snapshot: Snapshot) -> TableContext:
        """Return the context with this stream's columns, and options as new as the snapshot.

        Raises:
            SchemaChanged: the columns changed.
            InvalidOption: the table can no longer be followed.
        """
        self._check_table()
        if snapshot.schema_id > self.ctx.newest_schema_id:
            self.ctx = table_scan.refresh_options(self.ctx, self.fields, "follow()")
            stream_start.check_stream_engine(self.ctx)
        return self.ctx

    def _check_table(self) -> None:
        """Raise `TableNotFound` if the table was dropped, `SchemaChanged` if another one is in its place.

        The snapshots of the other have the same numbers.
        """
        if not schemas.is_same_table(self.ctx):
            msg = (
                f"schema {self.ctx.schema.id} of {self.ctx.name} is not what it was when follow() was called: the "
                "table was made anew, or moved forward to a branch; call t.follow() again"
            )
            raise SchemaChanged(msg)

    def _make_change(self, source: SnapshotState | StreamBatch, snapshot: Snapshot, kind: str) -> Change:
        return Change(
            table=self.ctx.name,
            snapshot_id=snapshot.id,
            kind=kind,
            watermark=snapshot.watermark_or_none,
            time_ms=snapshot.time_millis,
            frame=polars_pushdown.scan_lazily(source),
            _offset=self.offset,
        )


def snapshot_identity(snapshot: Snapshot) -> tuple[str, int, str, int]:
    """Return which commit made a snapshot, and when: this distinguishes it from another of its number."""
    return snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind, snapshot.time_millis
