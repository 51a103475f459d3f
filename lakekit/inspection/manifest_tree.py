"""What a snapshot is made of, taken from a table: facts for `draw.manifests`.

    tree(table, 7, where)                   the manifests of a snapshot, and which of them a filter skips
    entries(table, "manifest-…", 7)         the entries of one manifest as a frame
    entry_facts(table, "manifest-…", 7)     the same as facts, each with what planning does with its file
    where_of(table, 7, "amount > 3")        a filter, asked of the planner itself

Nothing but metadata is read, and of one snapshot at a time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakekit.data_file import paths
from lakekit.draw.humanize import format_cell
from lakekit.draw.manifests import EntryFact, IndexFact, ListFact, ManifestFact, ManifestTree
from lakekit.errors import InvalidOption
from lakekit.inspection.timeline import at_of, condition, display_name, snapshot_of
from lakekit.metadata import manifest_reader as manifest_files
from lakekit.predicate import columns, conjuncts
from lakekit.read import bounds, lazy, table_scan, time_travel
from lakekit.storage.protocol import FileMissing
from lakekit.system_tables import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from polars.lazyframe.resolver import FilterExpr

    from lakekit.metadata.manifest_reader import Which
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.table_scan import TableScan
    from lakekit.table.table import Table
    from lakekit.types import Field

LISTS: tuple[Which, ...] = ("base", "delta", "changelog")
SHOWN_ENTRIES = 200
"""Facts of so many entries are made; the frame has all."""


# ---- filters --------------------------------------------------------------------------------------------------------------------------------


Files = set[tuple[str, int]]
"""Data files by name and level: a file that compaction moves is removed at one level and added at another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFilter:
    """A filter on a snapshot, asked of the planner: which manifests and files it leaves out, and which columns say so.

    `text` is how it was said, `filters` are its conjuncts, `chosen` the files that a scan under it reads.
    """

    text: str
    scan: TableScan
    filters: Sequence[FilterExpr]
    chosen: Files

    def manifests(self, listed: Sequence[ManifestFileMeta]) -> list[str]:
        """For each manifest the columns whose bounds skip it, "" where it is opened."""
        asked, _ = lazy.condition_of(self.filters, self.scan.ctx.schema)
        reasons: list[set[str]] = [set() for _ in listed]
        for part in conjuncts(asked.predicate):
            used = set(columns(part))
            if used and used <= set(self.scan.ctx.schema.partition_keys):
                kept = bounds.keep_manifests(self.scan.ctx, listed, part)
                for at in np.flatnonzero(~kept):
                    reasons[at] |= used
        return [", ".join(sorted(found)) for found in reasons]

    def fates(self, live: Files) -> Callable[[str, str, int], str]:
        """What is done with an entry's file, given its kind, name and level, where these files are live: read, or why not."""
        read, visible = self.chosen, _plan_files(self.scan, [])
        kept = [read] if len(self.filters) == 1 else [_plan_files(self.scan, [one]) for one in self.filters]
        alone = [(", ".join(sorted(set(one.expr.meta.root_names()))), files) for one, files in zip(self.filters, kept, strict=True)]

        def fate(kind: str, name: str, level: int) -> str:
            one = (name, level)
            if kind == "DELETE":
                return "removes a file"
            if one in read:
                return "read"
            if one not in live:
                return "removed since"
            if one not in visible:
                return "not visible before compaction"
            reasons = dict.fromkeys(columns_ for columns_, files in alone if one not in files)
            return f"skipped: {', '.join(reasons) or 'the conditions together'}"

        return fate


def _plan_files(asked: TableScan, filters: Sequence[FilterExpr]) -> Files:
    """The files of the scan's own branch that are read under some conjuncts."""
    condition_, _ = lazy.condition_of(filters, asked.ctx.schema)
    plans = [plan for plan in asked.plans(condition_) if plan.ctx.branch == asked.ctx.branch]
    return {one for plan in plans for one in _file_keys(plan.entries.take(plan.chosen))}


def _file_keys(entries_: ManifestEntries) -> Files:
    return set(zip(entries_.column("file_name").to_pylist(), entries_.column("level").to_pylist(), strict=True))


def parse_tree_filter(table: Table, snapshot_id: int, text: str) -> TreeFilter | None:
    """The filter of a text at a snapshot; None without one. Raises what the text, its columns and the table deserve."""
    asked = condition(table, text)
    if asked is None:
        return None
    made = table_scan.scan(table.handle(), at_of(table, snapshot_id))
    filters = lazy.filters_of(asked, made.schema())
    return TreeFilter(text=text.strip(), scan=made, filters=filters, chosen=_plan_files(made, filters))


# ---- manifests ------------------------------------------------------------------------------------------------------------------------------


def tree(table: Table, snapshot_id: int, where: TreeFilter | None = None) -> ManifestTree:
    """What a snapshot is made of; with a filter, which manifests it skips. No snapshot (0): an empty tree. Raises `SnapshotNotFound`."""
    if not snapshot_id:
        return ManifestTree(table=display_name(table), snapshot_id=0, lists=())
    ctx, snapshot = _load_snapshot(table, snapshot_id)
    named = {"base": snapshot.base_manifest_list, "delta": snapshot.delta_manifest_list, "changelog": snapshot.changelog_manifest_list}
    lists = tuple(_list(ctx, snapshot, which, name, where) for which in LISTS if (name := named[which]) is not None)
    indexes, gone = _indexes(ctx, snapshot)
    return ManifestTree(
        table=display_name(table),
        snapshot_id=snapshot.id,
        kind=snapshot.commit_kind,
        lists=lists,
        index_manifest=snapshot.index_manifest or "",
        indexes=indexes,
        index_gone=gone,
        filter="" if where is None else where.text,
        files_read=0 if where is None else len(where.chosen),
    )


def _load_snapshot(table: Table, snapshot_id: int) -> tuple[TableContext, Snapshot]:
    """The table and a snapshot of it, with the schema that was in force then."""
    ctx = table.handle()
    snapshot = snapshot_of(ctx, snapshot_id)
    return time_travel.schema_of(ctx, time_travel.at_snapshot(snapshot)), snapshot


def _list(ctx: TableContext, snapshot: Snapshot, which: Which, name: str, where: TreeFilter | None) -> ListFact:
    try:
        listed = manifest_files.manifest_files(ctx, snapshot, which)
    except FileMissing:
        return ListFact(which=which, name=name, manifests=(), gone="gone: it expired with the snapshot")
    low, high = (_structs(ctx.schema.partition_fields, [getattr(m.partition_stats, end) for m in listed]) for end in ("min_values", "max_values"))
    skipped = [""] * len(listed) if where is None or which == "changelog" else where.manifests(listed)
    found = tuple(
        ManifestFact(
            name=m.name,
            size_bytes=m.size_bytes,
            added=m.num_added_files,
            removed=m.num_deleted_files,
            schema_id=m.schema_id,
            partitions=_format_range(low[at], high[at]),
            buckets=None if m.min_bucket is None or m.max_bucket is None else (m.min_bucket, m.max_bucket),
            levels=None if m.min_level is None or m.max_level is None else (m.min_level, m.max_level),
            skipped=skipped[at],
        )
        for at, m in enumerate(listed)
    )
    return ListFact(which=which, name=name, manifests=found)


def _indexes(ctx: TableContext, snapshot: Snapshot) -> tuple[tuple[IndexFact, ...], str]:
    try:
        found = manifest_files.index_entries(ctx, snapshot)
    except FileMissing:
        return (), "gone: it expired with the snapshot"
    facts = tuple(
        IndexFact(
            name=one.file_name,
            type=one.index_type,
            partition=paths.partition_path(ctx, one.partition).rstrip("/"),
            bucket=one.bucket,
            size_bytes=one.file_size_bytes,
            row_count=one.row_count,
            vectors=tuple((r.file_name, r.cardinality) for r in one.ranges),
        )
        for one in found
    )
    return facts, ""


def _structs(fields: Sequence[Field], rows: list[bytes]) -> list[dict[str, Any]]:
    """Serialized rows as values by name; nothing where there are no fields."""
    if not fields:
        return [{} for _ in rows]
    return frames.structs(fields, pa.array(rows, pa.binary())).to_list()


def _format_range(low: dict[str, Any], high: dict[str, Any]) -> str:
    """`dt 2024-01-01 .. 2024-03-31, hr 8`."""
    ends = {name: [("null" if end[name] is None else format_cell(end[name])) for end in (low, high)] for name in low}
    return ", ".join(f"{name} {first}" + ("" if first == last else f" .. {last}") for name, (first, last) in ends.items())


# ---- entries --------------------------------------------------------------------------------------------------------------------------------


ENTRY = (
    "kind",
    "partition",
    "bucket",
    "level",
    "file_name",
    "row_count",
    "size_bytes",
    "min_key",
    "max_key",
    "min_sequence_number",
    "max_sequence_number",
    "schema_id",
    "creation_time",
)
"""The columns of a manifest's entry."""


def entries(table: Table, name: str, at: int) -> pl.DataFrame:
    """The entries of one manifest of a snapshot, ADD and DELETE, in their order. Raises `InvalidOption` where the snapshot has no such manifest."""
    ctx, snapshot = _load_snapshot(table, at)
    found = manifest_files.read_entries(ctx, [_find_manifest(ctx, snapshot, name)[0]])
    return frames.describe_entries(ctx, found, ENTRY)


def _find_manifest(ctx: TableContext, snapshot: Snapshot, name: str) -> tuple[ManifestFileMeta, Which]:
    """A manifest of a snapshot by its name, and the list that has it."""
    known: dict[str, tuple[ManifestFileMeta, Which]] = {}
    for which in reversed(LISTS):
        with suppress(FileMissing):
            known |= {m.name: (m, which) for m in manifest_files.manifest_files(ctx, snapshot, which)}
    if name not in known:
        msg = f"snapshot {snapshot.id} of {ctx.name} has no manifest {name!r}; it has {', '.join(list(known)[:3]) or 'none'}"
        raise InvalidOption(msg, key="manifest", value=name)
    return known[name]


def entry_facts(table: Table, name: str, at: int, where: TreeFilter | None = None, *, shown: int = SHOWN_ENTRIES) -> tuple[tuple[EntryFact, ...], int]:
    """The first entries of a manifest, in its order, and how many there are. With a filter each says what a read does with its file."""
    frame = entries(table, name, at)
    fate = _fate_of(table, name, at, where)
    facts = tuple(
        EntryFact(
            kind=row["kind"],
            partition=row["partition"],
            bucket=row["bucket"],
            level=row["level"],
            name=row["file_name"],
            size_bytes=row["size_bytes"],
            row_count=row["row_count"],
            low=_key(row["min_key"]),
            high=_key(row["max_key"]),
            fate=fate(row["kind"], row["file_name"], row["level"]),
        )
        for row in frame.head(shown).iter_rows(named=True)
    )
    return facts, frame.height


def _fate_of(table: Table, name: str, at: int, where: TreeFilter | None) -> Callable[[str, str, int], str]:
    if where is None:
        return lambda *_: ""
    ctx, snapshot = _load_snapshot(table, at)
    if _find_manifest(ctx, snapshot, name)[1] == "changelog":
        return lambda *_: "read by changes only"
    return where.fates(_file_keys(frames.live_entries(ctx, snapshot)))


def _key(values: dict[str, Any] | None) -> str:
    return ", ".join(format_cell(value) for value in (values or {}).values())
