"""What changed between two snapshots: `t.changes()` (ENGINE 6.3).

    delta       the rows that APPEND snapshots added, as they were written, unmerged
    changelog   the rows that a changelog producer recorded, except those of OVERWRITE snapshots
    diff        the difference between the two states: new and changed rows as they are after, and -D for deleted keys
    auto        changelog if the table has a producer, else delta

Options may ask for the same: `incremental-between` and similar ones, `scan.mode` incremental, and `scan.mode`
latest-delta, the delta of the newest snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.compute as pc

from lakekit.data_file.corrupt_manifest_path import add_manifest_path
from lakekit.errors import InvalidOption, SnapshotNotFound
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import manifest_reader, refs, schemas, snapshots
from lakekit.model.manifest_entries import ADD, concat_entries, empty_entries
from lakekit.options.features import check_readable
from lakekit.options.table_options import TableOptions
from lakekit.read import lazy_frames, planner, table_scan, time_travel
from lakekit.read.polars_pushdown import ResolvedSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.planner import Plan
    from lakekit.read.polars_pushdown import ScanFilter
    from lakekit.types import Field

CHANGE_MODES = ("auto", "delta", "changelog", "diff")
LATEST_DELTA = "latest-delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalScan:
    """The rows of (since, until], with their kind first.

    `until` None: up to the newest snapshot when the frame runs. `kind_column` None: only the rows that were added or
    updated to, without their kind. `with_sequence_number`: with sequence numbers after the kinds. `newest_only`: the
    newest snapshot alone when the frame runs.
    """

    ctx: TableContext
    fields: tuple[Field, ...]
    since: int | str | datetime
    until: int | str | datetime | None
    mode: str
    kind_column: str | None
    newest_only: bool = False
    with_sequence_number: bool = False

    def schema(self) -> Mapping[str, pl.DataType]:
        """Return the columns and types: kind first, then the table's columns."""
        kind = (
            {}
            if self.kind_column is None
            else lazy_frames.kind_schema(self.kind_column, numbered=self.with_sequence_number)
        )
        return {**kind, **polars_schema(self.fields, timestamp_unit=self.ctx.options.lakekit_timestamp_unit)}

    def resolve(self) -> ResolvedSource:
        """Return the two ends as snapshot ids, and the rows between them."""
        ctx, fields = table_scan.refresh_if_recreated(self.ctx, self.fields, "changes()")
        if ctx is not self.ctx:
            return replace(self, ctx=ctx, fields=fields).resolve()
        start, end = self._resolve_range()
        return ResolvedSource(f"{start}-{end}@{ctx.schema.time_millis}", self._frame, ctx.schema)

    def _frame(self, scan_filter: ScanFilter, limit: int | None) -> pl.LazyFrame:  # noqa: ARG002 - rows may be deletes
        with add_manifest_path(self.ctx, lambda: snapshots.read_snapshot(self.ctx, self._resolve_range()[1])):
            plans = self.plans(scan_filter)
            if not plans:
                return pl.LazyFrame(schema=self.schema())
            return lazy_frames.select_changes(self._scan_plans(plans), self.kind_column, self.fields, self._system)

    def plans(self, scan_filter: ScanFilter) -> tuple[Plan, ...]:
        """Return the plans of a condition; none if nothing changed.

        In general they read changed files unmerged, those of a fallback branch last. For "diff" they are the plans of
        what only one state has; of append tables the later plan alone, to be read as a state.
        """
        start, end = self._resolve_range()
        if start == end:
            return ()
        if self.mode == "diff":
            return self._plan_states(scan_filter)
        entries, newest = self._read_added_entries(start, end)
        # engine 1.4.2 hides level 0 here too (case first_row_lookup); latest-delta is newer and never did
        own = planner.plan_added_files(self.ctx, newest, entries, scan_filter, hides_level_zero=not self.newest_only)
        return (own, *self._fallback_plan(start, end, entries, scan_filter))

    def _fallback_plan(
        self, start: int, end: int, own_entries: ManifestEntries, scan_filter: ScanFilter
    ) -> tuple[Plan, ...]:
        """Return the plan of the fallback branch's changes in partitions that this branch did not change.

        Snapshot ids mean those of either branch, as in the reference (`FallbackReadFileStoreTable`), a time or a tag
        what it means there.
        """
        other = None if self.newest_only else table_scan.open_fallback_branch(self.ctx)
        if other is None:
            return ()
        theirs = replace(self, ctx=table_scan.align_fallback_branch(self.ctx, other))
        snapshot_ids = snapshots.ids(other)
        if not snapshot_ids:
            return ()
        if time_travel.names_a_snapshot(self.ctx, self.since):
            first, last = max(start, snapshot_ids[0] - 1), min(end, snapshot_ids[-1])
        else:
            first, last = theirs._resolve_range()  # noqa: SLF001 - of the same class
        if first >= last:
            return ()
        entries, newest = theirs._read_added_entries(first, last)  # noqa: SLF001 - of the same class
        taken = own_entries.column("partition").unique()
        entries = entries.filter(pc.invert(pc.is_in(entries.column("partition"), taken)).to_numpy(zero_copy_only=False))
        return (planner.plan_added_files(theirs.ctx, newest, entries, scan_filter, hides_level_zero=True),)

    def _scan_plans(self, plans: Sequence[Plan]) -> pl.LazyFrame:
        if self.mode != "diff":
            return pl.concat([lazy_frames.scan_raw_rows(plan, self.fields, self._system) for plan in plans])
        if len(plans) == 1:
            return lazy_frames.scan_merged(plans, self.fields, system=self._system)
        return lazy_frames.scan_difference(
            plans[0], plans[1], self.fields, self._system, keeps_deletes=self.kind_column is not None
        )

    @property
    def _system(self) -> Sequence[str]:
        return lazy_frames.KIND_AND_SEQUENCE if self.with_sequence_number else lazy_frames.KIND_COLUMNS

    def _resolve_range(self) -> tuple[int, int]:
        """Return the snapshot ids between which changes lie; equal if there are none."""
        newest, oldest = snapshots.latest(self.ctx), snapshots.read_earliest(self.ctx)
        if newest is None or oldest is None:
            return 0, 0
        if self.newest_only:
            return newest.id - 1, newest.id
        first = self._first_readable_id(oldest.id)
        start = _resolve_end(self.ctx, self.since, before_all=first - 1)
        end = newest.id if self.until is None else _resolve_end(self.ctx, self.until, before_all=first - 1)
        if self.mode == "diff":
            if start < oldest.id <= end and not time_travel.names_a_snapshot(self.ctx, self.since):
                start = oldest.id  # as `_state` has it
            if end < start:
                raise self._make_order_error(start, end)
            return start, end  # states are looked up by themselves: a tag keeps one whose snapshot is gone
        if start == 0 and end != first - 1:
            start = min(first - 1, end)
        for argument, number in ((self.since, start), (self.until, end)):
            if not first - 1 <= number <= newest.id:
                msg = (
                    f"changes of {self.ctx.name} reach from snapshot {first} to {newest.id}; {argument!r} is snapshot "
                    f"{number}"
                )
                raise SnapshotNotFound(msg, name=str(argument))
        if end < start:
            raise self._make_order_error(start, end)
        return start, end

    def _first_readable_id(self, oldest: int) -> int:
        """Return the first snapshot whose changes can be read.

        A long-lived changelog keeps rows as they were written only if no changelog is produced.
        """
        if self._reads_changelog or self.ctx.options.changelog_producer == "none":
            return min([oldest, *snapshots.changelog_ids(self.ctx)])
        return oldest

    @property
    def _reads_changelog(self) -> bool:
        return self.mode == "changelog" or (self.mode == "auto" and self.ctx.options.changelog_producer != "none")

    def _make_order_error(self, start: int, end: int) -> InvalidOption:
        msg = f"changes end at snapshot {end}, before they begin at {start}: give the older one as since"
        return InvalidOption(msg, key="until", value=str(self.until))

    def _read_added_entries(self, start: int, end: int) -> tuple[ManifestEntries, Snapshot]:
        """Return the entries that the snapshots of the range added, in their order, and the newest snapshot."""
        changelog = self._reads_changelog
        parts: list[ManifestEntries] = []
        newest = snapshots.find_change(self.ctx, end) or snapshots.read_snapshot(self.ctx, end)
        for number in range(start + 1, end + 1):
            snapshot = snapshots.find_change(self.ctx, number)
            if snapshot is None:
                raise snapshots.snapshot_not_found(self.ctx, number)
            wanted = (
                snapshot.changelog_manifest_list is not None and snapshot.commit_kind != "OVERWRITE"
                if changelog
                else snapshot.commit_kind == "APPEND"
            )
            if wanted:
                listed = manifest_reader.manifest_files(self.ctx, snapshot, "changelog" if changelog else "delta")
                read = manifest_reader.read_entries(self.ctx, listed)
                parts.append(read.filter(read.integers("kind") == ADD))
        return (concat_entries(parts) if parts else empty_entries()), newest

    def _plan_states(self, scan_filter: ScanFilter) -> tuple[Plan, ...]:
        """Return the plans of both states, over the files that only one of them has.

        Append tables, which have no keys, have only the plan of the newer files.
        """
        before, after = (self._resolve_state(end) for end in (self.since, self.until))
        self._check_same_buckets(before, after)
        old, new = planner.plan_difference(self.ctx, before, after, scan_filter)
        return (old, new) if self.ctx.schema.primary_keys else (new,)

    def _check_same_buckets(self, before: time_travel.Position, after: time_travel.Position) -> None:
        """Raise `InvalidOption` if the states have different numbers of buckets, as the reference does.

        Files are compared bucket by bucket.
        """
        ends = [state.snapshot for state in (before, after) if state.snapshot is not None]
        if len({end.schema_id for end in ends}) < 2:
            return
        counts = [
            TableOptions.parse(schemas.read_schema(self.ctx, end.schema_id).options, kind=self.ctx.kind).bucket
            for end in ends
        ]
        if counts[0] != counts[1]:
            msg = (
                f"{self.ctx.name} had {counts[0]} buckets at snapshot {ends[0].id} and has {counts[1]} at "
                f"{ends[1].id}: their difference is not told; ask for mode 'delta' or 'changelog', or compare the two "
                "states"
            )
            raise InvalidOption(msg, key="mode", value="diff")

    def _resolve_state(self, at: int | str | datetime | None) -> time_travel.Position:
        """Return one of the two states.

        Snapshot 0 is the empty table, a time before all snapshots means the oldest one, as in the reference.
        """
        if at is None:
            return time_travel.Position(snapshot=snapshots.latest(self.ctx))
        if at == 0:
            return time_travel.Position(snapshot=None)
        if isinstance(at, int) or time_travel.names_a_snapshot(self.ctx, at):
            return time_travel.resolve_position(self.ctx, at)
        snapshot = snapshots.latest_at_or_before(
            self.ctx, time_travel.to_epoch_millis(self.ctx, at)
        ) or snapshots.read_earliest(self.ctx)
        return time_travel.Position(snapshot=None) if snapshot is None else time_travel.position_of(snapshot)


def _resolve_end(ctx: TableContext, at: int | str | datetime, *, before_all: int) -> int:
    """Return the snapshot id of an end of a range."""
    if isinstance(at, bool) or not isinstance(at, (int, str, datetime)):
        msg = f"changes() takes snapshot ids, tags, ISO times or datetimes, not {type(at).__name__}"
        raise TypeError(msg)
    if isinstance(at, int):
        return at
    if isinstance(at, str):
        if (tag := refs.find_tag(ctx, at)) is not None:
            return tag.snapshot.id
        if (number := time_travel.parse_digits(at)) is not None:
            return number
    snapshot = snapshots.latest_at_or_before(ctx, time_travel.to_epoch_millis(ctx, at))
    return before_all if snapshot is None else snapshot.id


def plan_changes(
    ctx: TableContext,
    since: int | str | datetime,
    until: int | str | datetime | None,
    *,
    mode: str,
    kind_column: str | None,
) -> IncrementalScan:
    """Return the changes of a range, checked."""
    check_readable(ctx.all_options, f"table {ctx.name}")
    if mode not in CHANGE_MODES:
        msg = f"mode {mode!r} is none of {', '.join(CHANGE_MODES)}"
        raise InvalidOption(msg, key="mode", value=mode)
    if kind_column is not None and not isinstance(kind_column, str):
        msg = f"kind_column= is the name of a column, or None for rows without their kind; found {kind_column!r}"
        raise TypeError(msg)
    if kind_column is not None and ctx.schema.has(kind_column):
        msg = f"{ctx.name} has a column {kind_column!r} of its own; name the kinds otherwise with kind_column="
        raise InvalidOption(msg, key="kind_column", value=kind_column)
    _check_time_order(ctx, since, until)
    source = IncrementalScan(
        ctx=replace(ctx), fields=ctx.schema.fields, since=since, until=until, mode=mode, kind_column=kind_column
    )
    source.resolve()
    return source


def _check_time_order(ctx: TableContext, since: int | str | datetime, until: int | str | datetime | None) -> None:
    """Raise `InvalidOption` for two times of which the later comes first, even if both mean one snapshot."""
    ends = [
        end for end in (since, until) if isinstance(end, (str, datetime)) and not time_travel.names_a_snapshot(ctx, end)
    ]
    if len(ends) == 2 and time_travel.to_epoch_millis(ctx, ends[1]) < time_travel.to_epoch_millis(ctx, ends[0]):
        msg = f"changes end at {until}, before they begin at {since}: give the earlier time as since"
        raise InvalidOption(msg, key="until", value=str(until))


def changes_from_options(ctx: TableContext, *, kind_column: str | None) -> IncrementalScan:
    """Return the changes that a table's options ask for, if `time_travel.means_changes` (ENGINE 6.3).

    Two tags mean the difference of their states, unless `incremental-between-tag-to-snapshot` is set;
    `incremental-to-auto-tag` means the difference from the automatic tag before. Raises `InvalidOption`.
    """
    options = ctx.options
    mode = options.incremental_between_scan_mode
    _check_exclusive_options(ctx)
    if options.scan_mode == LATEST_DELTA:
        return replace(plan_changes(ctx, 0, None, mode="delta", kind_column=kind_column), newest_only=True)
    if (label := options.incremental_to_auto_tag) is not None:
        before = time_travel.find_previous_tag(ctx, label)
        ends = (label, label) if before is None else (before, label)
        return plan_changes(ctx, *ends, mode="diff", kind_column=kind_column)
    if (text := options.incremental_between) is None:
        first, last = (
            _parse_time(end)
            for end in _parse_pair("incremental-between-timestamp", options.incremental_between_timestamp or "")
        )
        return plan_changes(ctx, first, last, mode=mode, kind_column=kind_column)
    ends = _parse_pair("incremental-between", text)
    tagged = [refs.find_tag(ctx, end) is not None for end in ends]
    numbers = [time_travel.parse_digits(end) for end in ends]
    if not all(tagged) and None in numbers:
        msg = (
            f"incremental-between is two tags or two snapshot ids, not {text!r}; {ctx.name} has the tags "
            f"{', '.join(refs.list_tag_names(ctx)) or 'none'}"
        )
        raise InvalidOption(msg, key="incremental-between", value=text)
    if all(tagged) and not options.incremental_between_tag_to_snapshot:
        mode = "diff"
    if all(tagged):
        return plan_changes(ctx, *ends, mode=mode, kind_column=kind_column)
    return plan_changes(ctx, numbers[0] or 0, numbers[1] or 0, mode=mode, kind_column=kind_column)


def _check_exclusive_options(ctx: TableContext) -> None:
    """Raise `InvalidOption` unless exactly one option asks for changes, and none for a state."""
    table_options = ctx.all_options
    named = [
        key
        for key in (*time_travel.POSITION_OPTIONS, "scan.version", time_travel.FILES_SINCE_OPTION)
        if table_options.get(key) is not None
    ]
    ranges = [key for key in time_travel.INCREMENTAL_KEYS if table_options.get(key) is not None]
    mode = ctx.options.scan_mode
    if mode == LATEST_DELTA and (also := [*named, *ranges]):
        msg = f"scan.mode 'latest-delta' means the newest snapshot alone and {also[0]} something else: set one of them"
        raise InvalidOption(msg, key=also[0], value=table_options[also[0]])
    if ranges and named:
        msg = f"{named[0]} asks for one state and {ranges[0]} a range: set one of them"
        raise InvalidOption(msg, key=named[0], value=table_options[named[0]])
    if len(ranges) > 1:
        msg = f"{' and '.join(ranges)} each name a range: set only one of them"
        raise InvalidOption(msg, key=ranges[1], value=table_options[ranges[1]])
    if ranges and mode not in ("default", "incremental"):
        msg = f"scan.mode {mode!r} reads a state and {ranges[0]} names a range: set one of them"
        raise InvalidOption(msg, key=ranges[0], value=table_options[ranges[0]])
    if mode == "incremental" and not ranges:
        msg = f"scan.mode 'incremental' needs one of {', '.join(time_travel.INCREMENTAL_KEYS)}"
        raise InvalidOption(msg, key="scan.mode", value=mode)


def _parse_pair(key: str, text: str) -> tuple[str, str]:
    ends = [end.strip() for end in text.split(",")]
    if len(ends) != 2 or not all(ends):
        msg = f"{key} is two ends with a comma between them, not {text!r}"
        raise InvalidOption(msg, key=key, value=text)
    return ends[0], ends[1]


def _parse_time(text: str) -> datetime | str:
    """Return a time given in milliseconds, or as a date and time."""
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        return text
    try:
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        msg = f"incremental-between-timestamp is two times in milliseconds, and {text[:200]!a} is none a calendar holds"
        raise InvalidOption(msg, key="incremental-between-timestamp", value=text) from None
