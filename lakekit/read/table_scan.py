"""A table at a position as a source of rows for Polars; the core of every table object.

A table that was dropped and created again under an existing frame, or fast-forwarded to a branch, has schemas that
begin again at the same numbers. Numbers and field ids then mean nothing: `refresh_if_recreated` matches columns by
name, and the whole context is that of the new table.

`translate_read_errors` turns what Polars raises over damaged files into lakekit's errors. `TableCore` is the location
of a table, and opens it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakekit import runtime
from lakekit.columns import pass_interrupt
from lakekit.data_file.corrupt_manifest_path import add_manifest_path, with_manifest_path
from lakekit.data_file.paths import data_file_paths
from lakekit.data_file.reader import raise_file_damage
from lakekit.errors import BranchNotFound, Corrupt, InvalidOption, LakekitError, SchemaChanged, SchemaMismatch
from lakekit.format import external_reader
from lakekit.format.polars_types import cached_schema
from lakekit.metadata import schemas, snapshots
from lakekit.metadata.table_context import load_context, open_context
from lakekit.model.table_paths import Locations
from lakekit.options.features import OBJECT_TABLE, check_readable, make_refusal
from lakekit.options.option import EMPTY
from lakekit.read import lazy_frames, planner, time_travel
from lakekit.read.planner import NO_FILTER
from lakekit.read.polars_pushdown import ResolvedSource
from lakekit.types import Field, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import polars as pl

    from lakekit.metadata.table_context import CatalogEnvironment, TableContext
    from lakekit.read.planner import Plan
    from lakekit.read.polars_pushdown import ScanFilter
    from lakekit.read.time_travel import Position
    from lakekit.storage.protocol import Storage


def refresh_if_recreated(
    ctx: TableContext, fields: Sequence[Field], method: str, at: int | str | datetime | None = None
) -> tuple[TableContext, tuple[Field, ...]]:
    """Return the context and those columns of the table as it is now, as of `at`.

    If it is the same table as when `method` was called, the arguments are returned.

    Raises:
        TableNotFound: there is no table.
        SchemaChanged: the table does not have all of the columns.
    """
    if schemas.is_same_table(ctx):
        return ctx, tuple(fields)
    fresh = load_context(ctx.location, schemas.read_latest(ctx), ctx.dynamic)
    if at is not None:
        fresh = time_travel.schema_of(fresh, time_travel.resolve_position(fresh, at))
    current_fields = {column.name: column for column in fresh.schema.fields}
    for column in fields:
        current = current_fields.get(column.name)
        if current is None or str(current.type.as_nullable()) != str(column.type.as_nullable()):
            what = "it is not there" if current is None else f"it is {current.type} there"
            msg = (
                f"column {column.name!r} of {ctx.name} was {column.type} when {method} was called; the table was made "
                f"anew since, or moved forward to a branch, and {what}: its columns are {', '.join(current_fields)}; "
                f"call t.{method} again"
            )
            raise SchemaChanged(msg, column=column.name)
    return fresh, tuple(current_fields[column.name] for column in fields)


# ---- table scan ------------------------------------------------------------


RAW_FIELDS = tuple(
    Field(name, parse(text))
    for name, text in zip(lazy_frames.STORED_VERSION_COLUMNS, ("BIGINT", "STRING", "INT", "STRING"), strict=True)
)
"""What `scan(raw=True)` adds to the columns of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """A batch read.

    `fields` are the columns of the schema in force when the scan was made; they stay, whatever changes in the table.
    `kind_column` puts the kind of each row before them, `with_sequence_number` its sequence number after that;
    `keeps_deletes` keeps deletes that are the newest version of their key; `levels` reads the files of those levels
    only.
    """

    ctx: TableContext
    fields: tuple[Field, ...]
    at: int | str | datetime | None = None
    raw: bool = False
    kind_column: str | None = None
    with_sequence_number: bool = False
    keeps_deletes: bool = False
    levels: range | None = None

    def schema(self) -> Mapping[str, pl.DataType]:
        """Return the columns and types of the frame."""
        unit = self.ctx.options.lakekit_timestamp_unit
        kind = (
            {}
            if self.kind_column is None
            else lazy_frames.kind_schema(self.kind_column, numbered=self.with_sequence_number)
        )
        return {**kind, **cached_schema((*self.fields, *RAW_FIELDS) if self.raw else self.fields, unit)}

    def resolve(self) -> ResolvedSource:
        """Return snapshot and schema that a read would see now, and its rows."""
        ctx, fields = refresh_if_recreated(self.ctx, self.fields, "scan()", self.at)
        if ctx is not self.ctx:
            return replace(self, ctx=ctx, fields=fields).resolve()
        position = time_travel.resolve_position(self.ctx, self.at)
        schema_id = self._schema_id(position)
        number = "-" if position.snapshot is None else f"{position.snapshot.id}@{position.snapshot.time_millis}"
        other = "" if (fallback := open_fallback_branch(self.ctx)) is None else f"+{snapshots.latest_id(fallback)}"
        version = f"{number}{other}/{schema_id}@{self.ctx.schema.time_millis}"
        return ResolvedSource(version, partial(self._frame, position, schema_id), self.ctx.schema)

    def _frame(self, position: Position, schema_id: int, scan_filter: ScanFilter, limit: int | None) -> pl.LazyFrame:
        ctx = self._context_at(position, schema_id)
        with add_manifest_path(ctx, lambda: position.snapshot):
            return self._frame_of(ctx, position, scan_filter, limit)

    def _frame_of(
        self, ctx: TableContext, position: Position, scan_filter: ScanFilter, limit: int | None
    ) -> pl.LazyFrame:
        if self.raw:
            return lazy_frames.scan_stored_versions(planner.plan_raw_files(ctx, position, scan_filter), self.fields)
        plans = self._plans(ctx, position, scan_filter, limit)
        if self.kind_column is None:
            return lazy_frames.scan_merged(plans, self.fields)
        system = lazy_frames.KIND_AND_SEQUENCE if self.with_sequence_number else lazy_frames.KIND_COLUMNS
        frame = lazy_frames.scan_merged(plans, self.fields, system=system, keeps_deletes=self.keeps_deletes)
        return lazy_frames.kinds_first(frame, self.kind_column, self.fields, system)

    def plans(self, scan_filter: ScanFilter) -> list[Plan]:
        """Return the plans of a condition, for `explain`: one for each branch, in the order of their rows."""
        position = time_travel.resolve_position(self.ctx, self.at)
        ctx = self._context_at(position, self._schema_id(position))
        with add_manifest_path(ctx, lambda: position.snapshot):
            return self._plans(ctx, position, scan_filter, None)

    def _plans(self, ctx: TableContext, position: Position, scan_filter: ScanFilter, limit: int | None) -> list[Plan]:
        """Return the plan, and that of the fallback branch for the partitions that this branch does not have.

        With a primary branch it is the other way round.
        """
        fallback = fallback_position(ctx, position, self.at)
        if fallback is None:
            return [planner.plan_read(ctx, position, scan_filter, limit=limit, levels=self.levels)]
        sides = [(ctx, position), fallback]
        first, second = reversed(sides) if ctx.is_fallback_primary else sides
        taken = planner.list_partitions(*first, levels=self.levels)
        return [
            planner.plan_read(*first, scan_filter, limit=limit, levels=self.levels),
            planner.plan_read(*second, scan_filter, without_partitions=taken, levels=self.levels),
        ]

    def _schema_id(self, position: Position) -> int:
        """Return the schema that a position is read with: that of its time, or the newest.

        Raises:
            TableNotFound: the table was dropped.
        """
        if position.schema_id is not None:
            return position.schema_id
        newest = schemas.newest_id(self.ctx)
        if newest is None:
            raise schemas.table_not_found(self.ctx, self.ctx.root)
        return newest

    def _context_at(self, position: Position, schema_id: int) -> TableContext:
        """Return the context with this scan's columns and today's options.

        Raises:
            SchemaChanged: the columns are no longer what they were.
        """
        if position.schema_id is not None or schema_id == self.ctx.newest_schema_id:
            return self.ctx
        return refresh_options(self.ctx, self.fields, "scan()")


def refresh_options(ctx: TableContext, fields: Sequence[Field], method: str) -> TableContext:
    """Return the context with its columns and today's options.

    Raises:
        SchemaChanged: the `fields` are no longer what they were when `method` was called.
    """
    newest = schemas.read_latest(ctx)
    newest_fields = {column.id: column for column in newest.fields}
    for column in fields:
        current = newest_fields.get(column.id)
        if current is None or current.type.as_nullable() != column.type.as_nullable():
            what = "was dropped" if current is None else f"is {current.type} now"
            msg = (
                f"column {column.name!r} of {ctx.name} was {column.type} when {method} was called and {what}; call "
                f"t.{method} again"
            )
            raise SchemaChanged(msg, column=column.name)
    return ctx.with_schema(newest).with_schema(ctx.schema)


def fallback_position(
    ctx: TableContext, position: Position, at: int | str | datetime | None
) -> tuple[TableContext, Position] | None:
    """Return the fallback branch and its position for a position of this branch; None without such a branch.

    Its columns have the names of this branch. A snapshot or tag of this branch means the state of the other at its
    time; before its first snapshot, that one. Anything else, such as a time or a watermark, is looked up in that branch
    too.

    Raises:
        SnapshotNotFound: the fallback branch has no snapshot for it.
        SchemaMismatch: the columns of the two, as of then, have different types.
    """
    other = open_fallback_branch(ctx)
    if other is None:
        return None
    named = position.snapshot is not None and time_travel.names_a_snapshot(ctx, at)
    other_position = _align_fallback_position(other, position) if named else time_travel.resolve_position(other, at)
    return align_fallback_branch(ctx, time_travel.schema_of(other, other_position)), other_position


def _align_fallback_position(fallback_ctx: TableContext, position: Position) -> Position:
    """Return the position of the fallback branch at the time of a snapshot of this one."""
    assert position.snapshot is not None
    snapshot = snapshots.latest_at_or_before(fallback_ctx, position.snapshot.time_millis)
    if snapshot is None and snapshots.latest_id(fallback_ctx) is None:
        return time_travel.EMPTY_TABLE  # a branch without snapshots has no rows at any time
    return time_travel.position_of(snapshots.read_snapshot(fallback_ctx, 1) if snapshot is None else snapshot)


def open_fallback_branch(ctx: TableContext) -> TableContext | None:
    """Return the branch that is read for partitions this one does not have.

    Returns None if it does not exist, as in the reference.
    """
    try:
        return None if ctx.fallback_branch is None else ctx.on_branch(ctx.fallback_branch)
    except BranchNotFound:
        return None


def align_fallback_branch(ctx: TableContext, fallback_ctx: TableContext) -> TableContext:
    """Return the other branch with the column names of this one.

    Raises:
        SchemaMismatch: the columns of the two do not have the same types, one by one.
    """
    # ids of parts of ROWs count, as in the reference
    types = [[field.type.as_nullable() for field in side.schema.fields] for side in (ctx, fallback_ctx)]
    if types[0] != types[1]:
        column_lists = [
            ", ".join(f"{field.name} {field.type}" for field in side.schema.fields) for side in (ctx, fallback_ctx)
        ]
        msg = (
            f"branch {ctx.branch} of {ctx.name} has the columns {column_lists[0]}, its fallback branch "
            f"{fallback_ctx.branch} "
            f"has {column_lists[1]}: make them alike, or read each branch by itself"
        )
        raise SchemaMismatch(msg)
    return fallback_ctx.with_column_names_of(ctx.schema)


def scan(ctx: TableContext, at: int | str | datetime | None = None, *, raw: bool = False) -> TableScan:
    """Return a scan of a table with the columns of the schema in force at the position.

    Raises `Unsupported`, `InvalidOption`.
    """
    check_readable(ctx.all_options, f"table {ctx.name}")
    if at is None and time_travel.means_changes(ctx):
        key = next((key for key in time_travel.INCREMENTAL_KEYS if key in ctx.all_options), "scan.mode")
        msg = (
            f"{key} asks for what changed in {ctx.name}, and a state was asked for: give at=, or read changes with "
            "t.scan() or t.changes()"
        )
        raise InvalidOption(msg, key=key, value=ctx.all_options[key])
    position = (
        time_travel.EMPTY_TABLE
        if at is None and time_travel.means_newest(ctx)
        else time_travel.resolve_position(ctx, at)
    )
    if (
        ctx.all_options.get("type") == OBJECT_TABLE
        and not ctx.all_options.get("object-location")
        and time_travel.resolve_position(ctx, at).snapshot is None
    ):
        raise make_refusal(OBJECT_TABLE, f"table {ctx.name}")
    ctx = time_travel.schema_of(ctx, position)
    if raw:
        lazy_frames.check_raw_column_names(ctx, ctx.schema.fields)
    return TableScan(ctx=ctx, fields=ctx.schema.fields, at=at, raw=raw)


def scan_snapshot(ctx: TableContext, snapshot_id: int) -> TableScan:
    """Return a scan of a snapshot with the columns of the context.

    It is for rows that are rewritten, or reported: those are of today's schema, not of the snapshot's.
    """
    check_readable(ctx.all_options, f"table {ctx.name}")
    return TableScan(ctx=ctx, fields=ctx.schema.fields, at=snapshot_id)


# ---- damage ------------------------------------------------------------


@contextmanager
def translate_read_errors(plans: Callable[[], Sequence[Plan]]) -> Iterator[None]:
    """Translate an error about a file of some plans to lakekit's error with the file's path.

    For use around a `collect`. The plans are made only if there is an error; an error about the query stays Polars'
    own.

    Raises:
        Corrupt, FileMissing, StorageFailed: a file of the plans could not be read.
    """
    try:
        yield
    except LakekitError as wrong:
        if isinstance(wrong, Corrupt) and wrong.path is None:
            for plan in plans():
                if plan.snapshot is not None:
                    raise with_manifest_path(plan.ctx, plan.snapshot, wrong) from None
        raise
    except external_reader.FOREIGN_FAILURES as wrong:
        pass_interrupt(wrong)
        for plan in plans():
            raise_file_damage(plan.ctx, data_file_paths(plan.ctx, plan.entries.take(plan.selected_indices)), wrong)
        raise


def plan_reader(source: TableScan) -> Callable[[], Sequence[Plan]]:
    """Return the plans of every row of a scan, for `translate_read_errors`."""
    return lambda: source.plans(NO_FILTER)


# ---- table core ------------------------------------------------------------


_CARRIED_FIELDS = (
    "location",
    "name",
    "branch_name",
    "dynamic",
    "storage_options",
    "storage",
    "catalog_env",
    "locations",
)
"""What a pickled table takes along."""
_MAX_SCANS = 64
"""So many scans share a frame: Polars may keep something of every question it is asked."""


@dataclass(slots=True)
class SharedScan:
    """A frame of the newest snapshot that several scans may share, and the context it reads.

    Each time it runs it looks for the newest snapshot again.
    """

    ctx: TableContext
    frame: pl.LazyFrame
    scans_left: int = _MAX_SCANS


@dataclass(slots=True)
class LastContext:
    """The context a table was last opened with, and what is shown of it without opening it again.

    `files`, `health_text` and `checked_text` are texts; `shared_scan` is a frame to reuse.
    """

    ctx: TableContext | None = None
    snapshot_id: int | None = None
    files: str | None = None
    health_text: str | None = None
    checked_text: str | None = None
    shared_scan: SharedScan | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableCore:
    """A location, a branch and dynamic options.

    Nothing here becomes outdated: each call opens the newest schema and snapshot.
    """

    location: str
    name: str
    branch_name: str | None = None
    dynamic: Mapping[str, Any] = EMPTY
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    storage: Storage | None = field(default=None, repr=False)
    catalog_env: CatalogEnvironment | None = field(default=None, repr=False, compare=False)
    locations: Locations = field(default=Locations(), repr=False, compare=False)
    _last_seen: LastContext = field(default_factory=LastContext, repr=False, compare=False)

    def _context(self) -> TableContext:
        """Open the table and return its context as of now.

        Raises `TableNotFound` and what opening raises, and `ForkedProcess` in a forked child.
        """
        runtime.refuse_fork()
        ctx = open_context(
            self.location,
            branch=self.branch_name,
            options=self.dynamic,
            storage_options=self.storage_options,
            storage=self.storage,
            name=self.name,
            catalog_env=self.catalog_env,
            locations=self.locations,
        )
        self._last_seen.ctx = ctx
        return ctx

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _CARRIED_FIELDS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_last_seen", LastContext())


def context_of(table: TableCore) -> TableContext:
    """Open a table and return its context as of now.

    Raises `TableNotFound` and what opening raises, `ForkedProcess` in a forked child, and `Unsupported` for a format
    table, which has no snapshots.
    """
    return table._context()  # noqa: SLF001 - an object of the package, which users are not given
