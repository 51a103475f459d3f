"""A table at a position as a source of rows: what `t.scan()` hands to Polars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lakekit.data_file.entry_damage import add_manifest_path
from lakekit.errors import BranchNotFound, InvalidOption, SchemaChanged, SchemaMismatch
from lakekit.format.polars_types import known_schema
from lakekit.metadata import schemas, snapshots
from lakekit.options.features import OBJECTS, check_readable, refuse
from lakekit.read import anew, lazy_frames, planner, time_travel
from lakekit.read.lazy import ResolvedSource
from lakekit.types import Field, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import polars as pl

    from lakekit.metadata.table_context import TableContext
    from lakekit.read.condition import ScanFilter
    from lakekit.read.planner import Plan
    from lakekit.read.time_travel import Position

RAW_FIELDS = tuple(Field(name, parse(text)) for name, text in zip(lazy_frames.RAW_COLUMNS, ("BIGINT", "STRING", "INT", "STRING"), strict=True))
"""What `scan(raw=True)` adds to the columns of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """A batch read. `fields` are the columns of the schema in force when the scan was made; they stay, whatever the table becomes.

    `kind_column` puts the kind of each row before them, `numbered` its sequence number after that; `keeps_deletes` keeps standing deletes; `levels` reads the
    files of those levels only.
    """

    ctx: TableContext
    fields: tuple[Field, ...]
    at: int | str | datetime | None = None
    raw: bool = False
    kind_column: str | None = None
    numbered: bool = False
    keeps_deletes: bool = False
    levels: range | None = None

    def schema(self) -> Mapping[str, pl.DataType]:
        """Columns and types of the frame."""
        unit = self.ctx.options.lakekit_timestamp_unit
        kind = {} if self.kind_column is None else lazy_frames.kind_schema(self.kind_column, numbered=self.numbered)
        return {**kind, **known_schema((*self.fields, *RAW_FIELDS) if self.raw else self.fields, unit)}

    def now(self) -> ResolvedSource:
        """Snapshot and schema that a read would see now, and its rows."""
        ctx, fields = anew.refresh_if_recreated(self.ctx, self.fields, "scan()", self.at)
        if ctx is not self.ctx:
            return replace(self, ctx=ctx, fields=fields).now()
        position = time_travel.locate(self.ctx, self.at)
        schema_id = self._schema_id(position)
        number = "-" if position.snapshot is None else f"{position.snapshot.id}@{position.snapshot.time_millis}"
        other = "" if (fallback := fallback_of(self.ctx)) is None else f"+{snapshots.latest_id(fallback)}"
        version = f"{number}{other}/{schema_id}@{self.ctx.schema.time_millis}"
        return ResolvedSource(version, partial(self._frame, position, schema_id), self.ctx.schema)

    def _frame(self, position: Position, schema_id: int, condition: ScanFilter, limit: int | None) -> pl.LazyFrame:
        ctx = self._handle(position, schema_id)
        with add_manifest_path(ctx, lambda: position.snapshot):
            return self._frame_of(ctx, position, condition, limit)

    def _frame_of(self, ctx: TableContext, position: Position, condition: ScanFilter, limit: int | None) -> pl.LazyFrame:
        if self.raw:
            return lazy_frames.scan_stored_versions(planner.plan_raw_files(ctx, position, condition), self.fields)
        plans = self._plans(ctx, position, condition, limit)
        if self.kind_column is None:
            return lazy_frames.scan_merged(plans, self.fields)
        system = lazy_frames.KIND_AND_SEQUENCE if self.numbered else lazy_frames.KINDS
        found = lazy_frames.scan_merged(plans, self.fields, system=system, keeps_deletes=self.keeps_deletes)
        return lazy_frames.kinds_first(found, self.kind_column, self.fields, system)

    def plans(self, condition: ScanFilter) -> list[Plan]:
        """The plans of a condition, for `explain`: one for each branch that is read, in the order of their rows."""
        position = time_travel.locate(self.ctx, self.at)
        ctx = self._handle(position, self._schema_id(position))
        with add_manifest_path(ctx, lambda: position.snapshot):
            return self._plans(ctx, position, condition, None)

    def _plans(self, ctx: TableContext, position: Position, condition: ScanFilter, limit: int | None) -> list[Plan]:
        """The plan, and that of the fallback branch for the partitions this branch lacks; with a primary branch the other way round."""
        fallback = fallback_position(ctx, position, self.at)
        if fallback is None:
            return [planner.plan_read(ctx, position, condition, limit=limit, levels=self.levels)]
        sides = [(ctx, position), fallback]
        first, second = reversed(sides) if ctx.fallback_first else sides
        taken = planner.partitions_of(*first, levels=self.levels)
        return [
            planner.plan_read(*first, condition, limit=limit, levels=self.levels),
            planner.plan_read(*second, condition, without=taken, levels=self.levels),
        ]

    def _schema_id(self, position: Position) -> int:
        """The schema that a position is read with: that of its time, or the newest. Raises `TableNotFound` where the table was dropped."""
        if position.schema_id is not None:
            return position.schema_id
        newest = schemas.newest_id(self.ctx)
        if newest is None:
            raise schemas.table_not_found(self.ctx, self.ctx.root)
        return newest

    def _handle(self, position: Position, schema_id: int) -> TableContext:
        """The handle with this scan's columns and today's options. Raises `SchemaChanged` where those columns are no more what they were."""
        if position.schema_id is not None or schema_id == self.ctx.newest_schema_id:
            return self.ctx
        return refresh_options(self.ctx, self.fields, "scan()")


def refresh_options(ctx: TableContext, fields: Sequence[Field], asked: str) -> TableContext:
    """The handle with its columns and today's options. Raises `SchemaChanged` where the `fields` of what was `asked` are no more what they were."""
    newest = schemas.latest(ctx)
    found = {field.id: field for field in newest.fields}
    for field in fields:
        now = found.get(field.id)
        if now is None or now.type.as_nullable() != field.type.as_nullable():
            what = "was dropped" if now is None else f"is {now.type} now"
            msg = f"column {field.name!r} of {ctx.name} was {field.type} when {asked} was called and {what}; call t.{asked} again"
            raise SchemaChanged(msg, column=field.name)
    return ctx.with_schema(newest).with_schema(ctx.schema)


def fallback_position(ctx: TableContext, position: Position, at: int | str | datetime | None) -> tuple[TableContext, Position] | None:
    """The fallback branch, its columns called as this branch calls them, and its position that goes with one of this branch. None without such a branch.

    A snapshot or tag of this branch means what the other had at its time; before its first snapshot, that one. What else is asked for, as a time or a
    watermark, is asked of that branch too, which must have a snapshot for it (`SnapshotNotFound`). Raises `SchemaMismatch` where the columns of the two,
    as they were then, are of other types.
    """
    other = fallback_of(ctx)
    if other is None:
        return None
    named = position.snapshot is not None and time_travel.names_a_snapshot(ctx, at)
    there = _align_fallback_position(other, position) if named else time_travel.locate(other, at)
    return align_fallback_branch(ctx, time_travel.schema_of(other, there)), there


def _align_fallback_position(other: TableContext, position: Position) -> Position:
    """The position of the fallback branch at the time of a snapshot of this one."""
    assert position.snapshot is not None
    found = snapshots.at_time(other, position.snapshot.time_millis)
    if found is None and snapshots.latest_id(other) is None:
        return time_travel.EMPTY_TABLE  # a branch that nobody wrote to yet has no rows of any time
    return time_travel.at_snapshot(snapshots.read(other, 1) if found is None else found)


def fallback_of(ctx: TableContext) -> TableContext | None:
    """The branch that stands in for partitions this one lacks; one that is not there does nothing, as in the reference."""
    try:
        return None if ctx.fallback_branch is None else ctx.on_branch(ctx.fallback_branch)
    except BranchNotFound:
        return None


def align_fallback_branch(ctx: TableContext, other: TableContext) -> TableContext:
    """The other branch with its columns called as they are here. Raises `SchemaMismatch` unless both have columns of the same types, one by one."""
    types = [[field.type.as_nullable() for field in one.schema.fields] for one in (ctx, other)]  # ids of parts of ROWs count, as in the reference
    if types[0] != types[1]:
        shown = [", ".join(f"{field.name} {field.type}" for field in one.schema.fields) for one in (ctx, other)]
        msg = f"branch {ctx.branch} of {ctx.name} has the columns {shown[0]}, its fallback branch {other.branch} has {shown[1]}: \
make them alike, or read each branch by itself"
        raise SchemaMismatch(msg)
    return other.with_names_of(ctx.schema)


def scan(ctx: TableContext, at: int | str | datetime | None = None, *, raw: bool = False) -> TableScan:
    """A scan of a table: its columns are those of the schema in force at the position. Raises `Unsupported`, `InvalidOption`."""
    check_readable(ctx.all_options, f"table {ctx.name}")
    if at is None and time_travel.means_changes(ctx):
        key = next((key for key in time_travel.INCREMENTAL_KEYS if key in ctx.all_options), "scan.mode")
        msg = f"{key} asks for what changed in {ctx.name}, and a state was asked for: give at=, or read changes with t.scan() or t.changes()"
        raise InvalidOption(msg, key=key, value=ctx.all_options[key])
    position = time_travel.EMPTY_TABLE if at is None and time_travel.means_newest(ctx) else time_travel.locate(ctx, at)
    if ctx.all_options.get("type") == OBJECTS and not ctx.all_options.get("object-location") and time_travel.locate(ctx, at).snapshot is None:
        raise refuse(OBJECTS, f"table {ctx.name}")
    ctx = time_travel.schema_of(ctx, position)
    if raw:
        lazy_frames.check_raw(ctx, ctx.schema.fields)
    return TableScan(ctx=ctx, fields=ctx.schema.fields, at=at, raw=raw)


def scan_snapshot(ctx: TableContext, snapshot_id: int) -> TableScan:
    """A scan of a snapshot with the columns of the handle: rows that are written anew, or told of, are those of today's schema, not of the snapshot's."""
    check_readable(ctx.all_options, f"table {ctx.name}")
    return TableScan(ctx=ctx, fields=ctx.schema.fields, at=snapshot_id)
