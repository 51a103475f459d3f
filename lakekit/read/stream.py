"""A table followed as it grows: `t.follow()` (ENGINE 6.9).

    snapshot    1 APPEND   2 APPEND   3 COMPACT   4 APPEND   5 (not there yet)
    changes     ─ state ─────────→    –           its rows   wait, ask again

First the state where the stream begins (`read.stream_start`), then snapshot after snapshot what each brought: the changelog where the table keeps one, else the
rows that were added. Nothing is read before a change's frame runs; a consumer's place moves when a change is acknowledged.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl

from lakekit.columns import KIND
from lakekit.data_file.entry_damage import add_manifest_path
from lakekit.draw import cards, html
from lakekit.draw.timeline import moment
from lakekit.errors import InvalidOption, SchemaChanged, SnapshotNotFound
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import consumers, manifest_reader, schemas, snapshots
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.options.features import check_readable
from lakekit.read import lazy, lazy_frames, planner, stream_start, table_scan, time_travel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.condition import ScanFilter
    from lakekit.read.planner import Plan
    from lakekit.read.stream_start import Start
    from lakekit.read.time_travel import Position
    from lakekit.types import Field

KIND_COLUMN: Final = "_row_kind"
STATE = "FULL"
"""The kind of a change that is a whole state."""
_ENGINE_TITLES = {"partial-update": "Partial update", "aggregation": "Pre-aggregate", "first-row": "First row"}
_CHANGELOG_HINTS = (
    ("its rows are parts of rows until they are merged", "'lookup' or 'full-compaction', or to 'input' to be told the rows as they came"),
    ("rows that an earlier one hides would be told too", "'lookup', the only one that first-row goes with"),
)
"""Why a table without changelog cannot be followed, and the producers that help; the second for first-row."""
_ANY_LEVEL = 2**31 - 1
_POSTPONE = -2


@dataclass(slots=True, kw_only=True)
class StreamOffset:
    """How far a consumer has come; without one it is only remembered here."""

    ctx: TableContext
    consumer: str | None
    next_id: int = 0

    def reach(self, next_id: int) -> None:
        """The snapshot that comes next; a place never goes back."""
        if next_id <= self.next_id:
            return
        self.next_id = next_id
        if self.consumer is not None:
            consumers.record(self.ctx, self.consumer, next_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one snapshot brought. `kind` is the kind of its commit, FULL for the state that a stream begins with; `watermark` and `time_ms` are the snapshot's.

    `frame`: its rows as a LazyFrame, `_row_kind` first. Read it before the snapshot expires; a consumer keeps it from that until `ack()`.
    """

    table: str
    snapshot_id: int
    kind: str
    watermark: int | None
    time_ms: int
    frame: pl.LazyFrame = field(repr=False, compare=False)
    _place: StreamOffset = field(repr=False, compare=False)

    def ack(self) -> None:
        """Says that this change and all before it are done with: a consumer goes on behind it. Without a consumer nothing is recorded.

        Raises `StorageFailed`.
        """
        self._place.reach(self.snapshot_id + 1)

    @property
    def _title(self) -> str:
        return f"{self.table} · change · snapshot {self.snapshot_id} {self.kind}"

    @property
    def _facts(self) -> list[tuple[str, object]]:
        found: list[tuple[str, object]] = [("time", moment(self.time_ms))]
        return found if self.watermark is None else [*found, ("watermark", self.watermark)]

    def __str__(self) -> str:
        return cards.card(self._title, self._facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html.card(self._title, self._facts)


@dataclass(frozen=True, kw_only=True)
class TableStream:
    """A source of rows with their kinds, of a table whose columns are fixed."""

    ctx: TableContext
    fields: tuple[Field, ...]
    snapshot: Snapshot

    def schema(self) -> Mapping[str, pl.DataType]:
        """Kind first, then the columns."""
        unit = self.ctx.options.lakekit_timestamp_unit
        return {**lazy_frames.kind_schema(KIND_COLUMN, numbered=False), **polars_schema(self.fields, timestamp_unit=unit)}

    def now(self) -> lazy.ResolvedSource:
        """A snapshot never changes."""
        return lazy.ResolvedSource(str(self.snapshot.id), self._frame, self.ctx.schema)

    def _frame(self, condition: ScanFilter, limit: int | None) -> pl.LazyFrame:  # noqa: ARG002 - rows are merged first, and those of a change may be deletes
        with add_manifest_path(self.ctx, lambda: self.snapshot):
            return self._rows(condition)

    @abstractmethod
    def _rows(self, condition: ScanFilter) -> pl.LazyFrame:
        """The rows of a condition."""

    def _lying(self, entries: ManifestEntries, condition: ScanFilter, *, created_since_ms: int | None = None) -> Plan:
        """Files whose rows are told as they lie; nothing is hidden."""
        shown = {"hides_level_zero": False, "hides_postponed": self._hides_postponed}
        return planner.plan_change(self.ctx, self.snapshot, entries, condition, created_since_ms=created_since_ms, **shown)

    @property
    def _hides_postponed(self) -> bool:
        """A stream without a changelog is handed postponed rows (engine 1.4.2); their changelog comes when they find their buckets."""
        return self.ctx.options.changelog_producer != "none"


@dataclass(frozen=True, kw_only=True)
class SnapshotState(TableStream):
    """The rows of a snapshot, as a stream begins, all of them +I: only what no later changelog will tell."""

    position: Position

    def _rows(self, condition: ScanFilter) -> pl.LazyFrame:
        merged, lying = self.plans(condition)
        rows = lazy_frames.scan_merged([merged], self.fields).with_columns(pl.lit(0, pl.Int8).alias(KIND))
        if lying is not None:
            rows = pl.concat([rows, lazy_frames.scan_raw_rows(lying, self.fields)])
        return lazy_frames.kinds_first(rows, KIND_COLUMN, self.fields)

    def plans(self, condition: ScanFilter) -> tuple[Plan, Plan | None]:
        """The plan of the rows that stand, and that of postponed rows, which are told as they lie; None where none are told."""
        levels, last = _initial_levels(self.ctx)
        merged = planner.plan_read(self.ctx, self.position, condition, levels=levels, last_level=last, hides_level_zero=False)
        if self.ctx.options.bucket != _POSTPONE or self._hides_postponed:
            return merged, None
        entries = planner.load_live_entries(self.ctx, self.snapshot)
        postponed = entries.filter(entries.numbers("bucket") == _POSTPONE)
        return merged, self._lying(postponed, condition, created_since_ms=self.position.created_since_ms)


@dataclass(frozen=True, kw_only=True)
class StreamBatch(TableStream):
    """What a snapshot brought: its changelog, the rows it added, or what an overwrite took away and put there."""

    changelog: bool
    overwrites: bool = False

    @cached_property
    def entries(self) -> ManifestEntries:
        """The files that hold it."""
        listed = manifest_reader.manifest_files(self.ctx, self.snapshot, "changelog" if self.changelog else "delta")
        return manifest_reader.read_entries(self.ctx, listed)

    def _rows(self, condition: ScanFilter) -> pl.LazyFrame:
        lying = self.plan(condition)
        if lying is not None:
            rows = lazy_frames.scan_raw_rows(lying, self.fields)
        else:
            kinds = self.entries.numbers("kind")
            before = snapshots.find(self.ctx, self.snapshot.id - 1) or self.snapshot
            rows = pl.concat([_invert_kinds(self._merged(kinds == DELETE, before, condition)), self._merged(kinds == ADD, self.snapshot, condition)])
        return lazy_frames.kinds_first(lazy_frames.deletes_first(rows, self.ctx.schema, self.fields), KIND_COLUMN, self.fields)

    def plan(self, condition: ScanFilter) -> Plan | None:
        """The plan where the rows are told as they lie; None: what stood and what stands after an overwrite is merged first."""
        if self.overwrites and self.ctx.schema.primary_keys:
            return None
        return self._lying(self.entries.filter(self.entries.numbers("kind") == ADD), condition)

    def _merged(self, chosen: NDArray[np.bool_], snapshot: Snapshot, condition: ScanFilter) -> pl.LazyFrame:
        """The rows of some of the files, merged, with `_VALUE_KIND`; postponed ones where a stream is handed them at all."""
        if self._hides_postponed and self.ctx.options.bucket == _POSTPONE:
            chosen = chosen & (self.entries.numbers("bucket") != _POSTPONE)
        if snapshot.index_manifest is not None and snapshots.find(self.ctx, snapshot.id) is None:
            snapshot = replace(snapshot, index_manifest=None)  # a long-lived changelog keeps files of rows alone
        found = planner.plan_entries(self.ctx, snapshot, planner.PruningFunnel(self.entries.filter(chosen)), planner.rule_of(self.ctx), condition)
        return lazy_frames.scan_merged([found], self.fields, system=lazy_frames.KINDS)


def _invert_kinds(frame: pl.LazyFrame) -> pl.LazyFrame:
    """What stood is taken away, and what took away stands again."""
    kind = pl.col(KIND)
    return frame.with_columns(pl.when(kind & 1 == 0).then(pl.lit(3, pl.Int8)).otherwise(pl.lit(0, pl.Int8)).alias(KIND))


def _initial_levels(ctx: TableContext) -> tuple[range | None, int | None]:
    """The levels that the first state shows, or the least that the last one of each bucket is, which may be a higher one: the table may have had more.

    Rows of lower ones come later, as the changelog of the compaction that lifts them.
    """
    if not ctx.schema.primary_keys:
        return None, None
    match ctx.options.changelog_producer:
        case "lookup":
            return range(1, _ANY_LEVEL), None
        case "full-compaction":
            return None, ctx.options.level_count - 1
    return None, None


# ---- the stream ------------------------------------------------------------------------------------------------------------------------------------


def follow(
    ctx: TableContext,
    start: str | int | datetime | None,
    *,
    consumer: str | None = None,
    until: str | int | datetime | None = None,
    poll: float | timedelta | None = None,
) -> Iterator[Change]:
    """The changes of a table, one a snapshot, as they come; see `Table.follow`. What cannot be followed is refused here, before anything is read."""
    return stream(ctx, start, consumer=consumer, until=until, poll=poll).changes()


def stream(
    ctx: TableContext,
    start: str | int | datetime | None = None,
    *,
    consumer: str | None = None,
    until: str | int | datetime | None = None,
    poll: float | timedelta | None = None,
) -> StreamCursor:
    """What `follow` goes along, for who takes its steps himself."""
    check_readable(ctx.all_options, f"table {ctx.name}")
    _check_engine(ctx)
    if ctx.schema.has(KIND_COLUMN):
        msg = f"{ctx.name} has a column {KIND_COLUMN!r} of its own, which a stream needs for the kinds of its rows: rename it"
        raise InvalidOption(msg, key="kind_column", value=KIND_COLUMN)
    consumer = consumer if consumer is not None else ctx.options.consumer_id
    if consumer is not None:
        consumers.check_id(consumer)
    if isinstance(until, bool) or not (until is None or until == "latest" or isinstance(until, (int, datetime))):
        raise InvalidOption(f"until is 'latest', a snapshot id, a datetime or None, not {until!r}", key="until", value=str(until))
    ctx = stream_start.with_start(ctx, start)
    return StreamCursor(
        ctx=ctx,
        fields=ctx.schema.fields,
        place=StreamOffset(ctx=ctx, consumer=consumer),
        until=time_travel.time_ms(ctx, until) if isinstance(until, datetime) else None,
        last_id=until if isinstance(until, int) else None,
        stops_at_end=until == "latest",
        poll_ms=_poll_ms(ctx, poll),
        newest_at_call=snapshots.latest_id(ctx),
    )


def _check_engine(ctx: TableContext) -> None:
    """Raises `InvalidOption` where rows as they were written would be told as if they were whole (`TableScanUtils`)."""
    engine = ctx.options.merge_engine
    if ctx.schema.primary_keys and engine in _ENGINE_TITLES and ctx.options.changelog_producer == "none":
        why, producers = _CHANGELOG_HINTS[engine == "first-row"]
        msg = f"{_ENGINE_TITLES[engine]} continuous reading is not supported: {ctx.name} keeps no changelog, and {why}. Set changelog-producer to {producers}; \
t.scan() and t.changes(mode='diff') read states"
        raise InvalidOption(msg, key="changelog-producer", value="none")
    if ctx.options.streaming_read_overwrite:
        _check_overwrites(ctx)


def _check_overwrites(ctx: TableContext) -> None:
    """Raises `InvalidOption` where options given to a stream ask for overwrites that no table of that kind may have told (`SchemaValidation`)."""
    producer, why = ctx.options.changelog_producer, ""
    if not ctx.schema.primary_keys:
        why = "is for key tables: set streaming-read-append-overwrite for an append table"
    elif producer in ("full-compaction", "lookup"):
        why = f"does not go with the changelog producer {producer}, whose later changelogs may tell the rows of overwrites too: they would be told twice. \
t.changes(mode='diff') tells what they changed"
    if why:
        raise InvalidOption(f"streaming-read-overwrite {why}; found it set for {ctx.name}", key="streaming-read-overwrite", value="true")


def _poll_ms(ctx: TableContext, poll: float | timedelta | None) -> float:
    if poll is None:
        return ctx.options.continuous_discovery_interval_ms
    seconds: object = poll.total_seconds() if isinstance(poll, timedelta) else poll
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise InvalidOption(f"poll is a time in seconds, 0 or more, or a timedelta, not {poll!r}", key="poll", value=str(poll))
    return seconds * 1000


@dataclass(slots=True, kw_only=True)
class StreamCursor:
    """Where a stream stands and when it ends: after `last_id`, before the first snapshot younger than `until`, or, `stops_at_end`, where it would wait."""

    ctx: TableContext
    fields: tuple[Field, ...]
    place: StreamOffset
    until: int | None
    last_id: int | None
    stops_at_end: bool
    poll_ms: float
    newest_at_call: int | None
    passed: Snapshot | None = None
    stood: Snapshot | None = None

    def changes(self) -> Iterator[Change]:
        """One change after another; waits for the next."""
        start = self.begin()
        while start is None:
            if self._ends():
                return
            self.ctx.world.wait(self.poll_ms)
            start = self.begin()
        number = start.next_id
        self.stood = snapshots.find_change(self.ctx, number - 1) if start.state is None else None
        if self._begins_now():
            self.place.reach(number)  # "now" is later when the stream begins again, and what came meanwhile would not be told
        if start.state is not None and start.state.snapshot is not None:
            if self._is_behind_the_end(start.state.snapshot):
                msg = f"the stream of {self.ctx.name} would begin with snapshot {start.state.snapshot.id}, which is behind its end: begin with an older one"
                raise InvalidOption(msg, key="until", value=str(self.last_id if self.last_id is not None else self.until))
            yield self._told(self.state(start.state, start.state.snapshot), start.state.snapshot, STATE)
            self.passed = start.state.snapshot
            if self._passes_watermark(start.state.snapshot):
                return
        while self.last_id is None or number <= self.last_id:
            snapshot = self.next(number)
            self._check_passed(number)
            if snapshot is None:
                if self._ends():
                    break
                self.ctx.world.wait(self.poll_ms)
                continue
            if self.ends_before(snapshot):
                break
            if (wait_ms := self.delay_ms(snapshot)) > 0:
                self.ctx.world.wait(min(wait_ms, self.poll_ms) or 1)
                continue
            source = self.brought(snapshot)
            if source is not None:
                yield self._told(source, snapshot, snapshot.commit_kind)
            elif self.place.next_id == number or (self.passed is None and self._is_new()):  # nothing to acknowledge: a consumer is past it
                self.place.reach(number + 1)
            number, self.passed = number + 1, snapshot

    def begin(self) -> Start | None:
        """Where the stream begins, or goes on; None while there is nothing to begin with. Raises `TableNotFound` where there is no table any more."""
        found = self._begun()
        if found is None:
            self._check_table()
        return found

    def _begun(self) -> Start | None:
        consumer = self.place.consumer
        found = None
        if consumer is not None and not self.ctx.options.consumer_ignore_progress:
            found = stream_start.start_of_consumer(self.ctx, consumer)
        if found is not None:
            self.place.next_id = found.next_id
            return found
        return stream_start.begin(self.ctx, newest_at_call=self.newest_at_call)

    def _begins_now(self) -> bool:
        """Whether a consumer begins with what is committed from now on, and has no place yet."""
        return self._is_new() and time_travel.scan_mode_of(self.ctx)[0] == "latest"

    def _is_new(self) -> bool:
        return not (self.place.next_id or self.ctx.options.consumer_ignore_progress)

    def _ends(self) -> bool:
        """Whether a stream that has nothing to tell now is over."""
        return self.stops_at_end or (self.last_id is not None and self.last_id < 1) or (self.until is not None and self.ctx.world.now_ms() > self.until)

    def _is_behind_the_end(self, snapshot: Snapshot) -> bool:
        return (self.until is not None and snapshot.time_millis > self.until) or (self.last_id is not None and snapshot.id > self.last_id)

    def _passes_watermark(self, snapshot: Snapshot) -> bool:
        bound, reached = self.ctx.options.scan_bounded_watermark, snapshot.watermark_or_none
        return bound is not None and reached is not None and reached > bound

    def ends_before(self, snapshot: Snapshot) -> bool:
        """Whether the stream is over when it comes to that snapshot."""
        return self._passes_watermark(snapshot) or self._is_behind_the_end(snapshot)

    def delay_ms(self, snapshot: Snapshot) -> float:
        """How long a snapshot is still held back (`streaming-read-snapshot-delay`); not above 0: it is not."""
        delay = self.ctx.options.streaming_read_snapshot_delay_ms
        return 0 if delay is None else snapshot.time_millis + delay - self.ctx.world.now_ms()

    def next(self, number: int) -> Snapshot | None:
        """That snapshot; None while it is not there yet. Raises `SnapshotNotFound` where it never will be, `TableNotFound` where the table is gone."""
        found = snapshots.find_change(self.ctx, number)
        if found is not None:
            return found
        newest = snapshots.latest_id(self.ctx)
        if newest is None:
            self._check_table()
            return None
        if number == newest + 1:
            return None
        if number > newest:
            consumer = self.place.consumer
            anew = "Begin anew with start=" if consumer is None else f"t.reset_consumer({consumer!r}) lets the consumer begin anew"
            msg = f"the stream of {self.ctx.name} expects snapshot {number}, and the newest is {newest}: The next expected snapshot is too big! \
Was the table rolled back, or begins it ahead of the table? {anew}"
            raise SnapshotNotFound(msg, name=str(number))
        found = snapshots.find_change(self.ctx, number)  # it may have come meanwhile
        if found is None:
            mine = self.place.consumer
            kept = "or follow with a consumer, which keeps them" if mine is None else f"acknowledge what is told, and keep consumer {mine!r} to one stream"
            msg = f"the stream of {self.ctx.name} wants snapshot {number}, which has expired: {snapshots.describe_range(self.ctx)}. \
Begin anew with start=, keep snapshots longer (snapshot.time-retained), {kept}"
            raise SnapshotNotFound(msg, name=str(number))
        return found

    def _check_passed(self, number: int) -> None:
        """Raises `SnapshotNotFound` where the snapshot before is another one than was told: rows of the one that is gone would stand for ever.

        Of a stream that told nothing yet it is the one that stood before its first: what has taken its place would never be told.
        """
        told = self.passed or self.stood
        if told is None or told.id != number - 1:
            return
        now = snapshots.find_change(self.ctx, told.id)
        if now is not None and snapshot_identity(now) != snapshot_identity(told):
            self._check_table()
            where = "told" if self.passed else "begins behind"
            anew = "" if self.place.consumer is None else f", or with t.reset_consumer({self.place.consumer!r})"
            msg = f"the stream of {self.ctx.name} {where} snapshot {told.id}, and another one has its number now: the table was rolled back, or moved \
forward to a branch. Begin anew with start={anew}"
            raise SnapshotNotFound(msg, name=str(told.id))

    def state(self, position: Position, snapshot: Snapshot) -> SnapshotState:
        """The rows of a snapshot, as the stream begins."""
        return SnapshotState(ctx=self._today(snapshot), fields=self.fields, snapshot=snapshot, position=position)

    def brought(self, snapshot: Snapshot) -> StreamBatch | None:
        """What a snapshot brought; None: nothing that this stream tells."""
        ctx = self._today(snapshot)
        options = ctx.options
        keyed = bool(ctx.schema.primary_keys)
        tells_overwrites = options.streaming_read_overwrite if keyed else options.streaming_read_append_overwrite
        overwrites = snapshot.commit_kind == "OVERWRITE" and tells_overwrites
        changelog = options.changelog_producer != "none" and not overwrites
        tells = snapshot.changelog_manifest_list is not None if changelog else overwrites or snapshot.commit_kind == "APPEND"
        if not tells:
            return None
        source = StreamBatch(ctx=ctx, fields=self.fields, snapshot=snapshot, changelog=changelog, overwrites=overwrites)
        return source if len(source.entries) else None

    def _today(self, snapshot: Snapshot) -> TableContext:
        """The handle with this stream's columns, and options as new as the snapshot. Raises `SchemaChanged`; `InvalidOption` where it may be told no more."""
        self._check_table()
        if snapshot.schema_id > self.ctx.newest_schema_id:
            self.ctx = table_scan.refresh_options(self.ctx, self.fields, "follow()")
            _check_engine(self.ctx)
        return self.ctx

    def _check_table(self) -> None:
        """Raises `TableNotFound` where the table was dropped, `SchemaChanged` where another one is in its place: its snapshots have the same numbers."""
        if not schemas.is_same_table(self.ctx):
            msg = f"schema {self.ctx.schema.id} of {self.ctx.name} is not what it was when follow() was called: the table was made anew, or moved \
forward to a branch; call t.follow() again"
            raise SchemaChanged(msg)

    def _told(self, source: SnapshotState | StreamBatch, snapshot: Snapshot, kind: str) -> Change:
        return Change(
            table=self.ctx.name,
            snapshot_id=snapshot.id,
            kind=kind,
            watermark=snapshot.watermark_or_none,
            time_ms=snapshot.time_millis,
            frame=lazy.scan_lazily(source),
            _place=self.place,
        )


def snapshot_identity(snapshot: Snapshot) -> tuple[str, int, str, int]:
    """By which commit, and when, a snapshot was made: what tells it from another of its number."""
    return snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind, snapshot.time_millis
