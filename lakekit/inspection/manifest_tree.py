"""View model of the manifest tree: facts of a table for `draw.manifests`.

    build_tree(table, 7, tree_filter)           the manifests of a snapshot, and which of them a filter skips
    list_entries(table, "manifest-…", 7)        the entries of one manifest as a frame
    entry_facts(table, "manifest-…", 7)         the same as facts, each with what planning does with its file
    parse_tree_filter(table, 7, "amount > 3")   a filter, evaluated by the planner itself

Only metadata is read, and of one snapshot at a time.
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
from lakekit.inspection.timeline import display_name, find_snapshot, parse_condition_text, to_at_argument
from lakekit.metadata import manifest_reader as manifest_files
from lakekit.predicate import conjuncts, iter_columns
from lakekit.read import polars_pushdown, pruning, table_scan, time_travel
from lakekit.read.table_scan import context_of
from lakekit.storage.protocol import FileMissing
from lakekit.system_tables import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from polars.lazyframe.resolver import FilterExpr

    from lakekit.metadata.manifest_reader import ManifestListKind
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.table_scan import TableCore, TableScan
    from lakekit.types import Field

MANIFEST_LISTS: tuple[ManifestListKind, ...] = ("base", "delta", "changelog")
MAX_SHOWN_ENTRIES = 200
"""The most entries that are returned as facts; the frame has all."""


# ---- filters ---------------------------------------------------------------------------------------------------------


Files = set[tuple[str, int]]
"""Data files by name and level: a file that compaction moves is removed at one level and added at another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFilter:
    """A filter on a snapshot: which manifests and files the planner leaves out, and by which columns.

    `filter_text` is the filter as typed, `filters` are its conjuncts, `selected_files` the files that a scan under it
    reads.
    """

    filter_text: str
    scan: TableScan
    filters: Sequence[FilterExpr]
    selected_files: Files

    def skip_reasons(self, manifests: Sequence[ManifestFileMeta]) -> list[str]:
        """Return for each manifest the columns whose bounds skip it, "" where it is opened."""
        scan_filter, _ = polars_pushdown.build_scan_filter(self.filters, self.scan.ctx.schema)
        reasons: list[set[str]] = [set() for _ in manifests]
        for part in conjuncts(scan_filter.predicate):
            used = set(iter_columns(part))
            if used and used <= set(self.scan.ctx.schema.partition_keys):
                mask = pruning.keep_manifests(self.scan.ctx, manifests, part)
                for at in np.flatnonzero(~mask):
                    reasons[at] |= used
        return [", ".join(sorted(columns_)) for columns_ in reasons]

    def read_outcomes(self, live_files: Files) -> Callable[[str, str, int], str]:
        """Return a function that says what a read does with an entry's file, of its kind, name and level.

        `live_files` are the live files. The answer is read, or why not.
        """
        read, visible = self.selected_files, _plan_files(self.scan, [])
        files_by_filter = (
            [read] if len(self.filters) == 1 else [_plan_files(self.scan, [filter_]) for filter_ in self.filters]
        )
        alone = [
            (", ".join(sorted(set(filter_.expr.meta.root_names()))), files)
            for filter_, files in zip(self.filters, files_by_filter, strict=True)
        ]

        def fate(kind: str, name: str, level: int) -> str:
            key = (name, level)
            if kind == "DELETE":
                return "removes a file"
            if key in read:
                return "read"
            if key not in live_files:
                return "removed since"
            if key not in visible:
                return "not visible before compaction"
            reasons = dict.fromkeys(columns_ for columns_, files in alone if key not in files)
            return f"skipped: {', '.join(reasons) or 'the conditions together'}"

        return fate


def _plan_files(scan: TableScan, filters: Sequence[FilterExpr]) -> Files:
    """Return the files of the scan's own branch that are read under some conjuncts."""
    scan_filter, _ = polars_pushdown.build_scan_filter(filters, scan.ctx.schema)
    plans = [plan for plan in scan.plans(scan_filter) if plan.ctx.branch == scan.ctx.branch]
    return {key for plan in plans for key in _file_keys(plan.entries.take(plan.selected_indices))}


def _file_keys(entries_: ManifestEntries) -> Files:
    return set(zip(entries_.column("file_name").to_pylist(), entries_.column("level").to_pylist(), strict=True))


def parse_tree_filter(table: TableCore, snapshot_id: int, text: str) -> TreeFilter | None:
    """Return the filter of a text at a snapshot; None without one.

    Raises: what parsing the text, checking its columns and scanning the table raise.
    """
    predicate = parse_condition_text(table, text)
    if predicate is None:
        return None
    scan = table_scan.scan(context_of(table), to_at_argument(table, snapshot_id))
    filters = polars_pushdown.filters_of(predicate, scan.schema())
    return TreeFilter(filter_text=text.strip(), scan=scan, filters=filters, selected_files=_plan_files(scan, filters))


# ---- manifests -------------------------------------------------------------------------------------------------------


def build_tree(table: TableCore, snapshot_id: int, tree_filter: TreeFilter | None = None) -> ManifestTree:
    """Return the manifests of a snapshot; with a filter, which of them it skips.

    No snapshot (0) is an empty tree.

    Raises: `SnapshotNotFound`.
    """
    if not snapshot_id:
        return ManifestTree(table=display_name(table), snapshot_id=0, lists=())
    ctx, snapshot = _load_snapshot(table, snapshot_id)
    named = {
        "base": snapshot.base_manifest_list,
        "delta": snapshot.delta_manifest_list,
        "changelog": snapshot.changelog_manifest_list,
    }
    lists = tuple(
        _list_fact(ctx, snapshot, which, name, tree_filter)
        for which in MANIFEST_LISTS
        if (name := named[which]) is not None
    )
    indexes, index_note = _index_facts(ctx, snapshot)
    return ManifestTree(
        table=display_name(table),
        snapshot_id=snapshot.id,
        kind=snapshot.commit_kind,
        lists=lists,
        index_manifest=snapshot.index_manifest or "",
        indexes=indexes,
        missing_index_note=index_note,
        filter_text="" if tree_filter is None else tree_filter.filter_text,
        selected_file_count=0 if tree_filter is None else len(tree_filter.selected_files),
    )


def _load_snapshot(table: TableCore, snapshot_id: int) -> tuple[TableContext, Snapshot]:
    """Return the table and a snapshot of it, with the schema that was in force then."""
    ctx = context_of(table)
    snapshot = find_snapshot(ctx, snapshot_id)
    return time_travel.schema_of(ctx, time_travel.position_of(snapshot)), snapshot


def _list_fact(
    ctx: TableContext, snapshot: Snapshot, list_kind: ManifestListKind, name: str, tree_filter: TreeFilter | None
) -> ListFact:
    try:
        listed = manifest_files.manifest_files(ctx, snapshot, list_kind)
    except FileMissing:
        return ListFact(kind=list_kind, name=name, manifests=(), error="gone: it expired with the snapshot")
    low, high = (
        _decode_structs(ctx.schema.partition_fields, [getattr(m.partition_stats, end) for m in listed])
        for end in ("min_values", "max_values")
    )
    skipped = (
        [""] * len(listed) if tree_filter is None or list_kind == "changelog" else tree_filter.skip_reasons(listed)
    )
    manifests = tuple(
        ManifestFact(
            name=m.name,
            size_bytes=m.size_bytes,
            added_count=m.num_added_files,
            removed_count=m.num_deleted_files,
            schema_id=m.schema_id,
            partitions=_format_range(low[at], high[at]),
            buckets=None if m.min_bucket is None or m.max_bucket is None else (m.min_bucket, m.max_bucket),
            levels=None if m.min_level is None or m.max_level is None else (m.min_level, m.max_level),
            skip_columns=skipped[at],
        )
        for at, m in enumerate(listed)
    )
    return ListFact(kind=list_kind, name=name, manifests=manifests)


def _index_facts(ctx: TableContext, snapshot: Snapshot) -> tuple[tuple[IndexFact, ...], str]:
    try:
        index_entries = manifest_files.index_entries(ctx, snapshot)
    except FileMissing:
        return (), "gone: it expired with the snapshot"
    facts = tuple(
        IndexFact(
            name=entry.file_name,
            type=entry.index_type,
            partition=paths.partition_path(ctx, entry.partition).rstrip("/"),
            bucket=entry.bucket,
            size_bytes=entry.file_size_bytes,
            row_count=entry.row_count,
            vectors=tuple((r.file_name, r.cardinality) for r in entry.ranges),
        )
        for entry in index_entries
    )
    return facts, ""


def _decode_structs(fields: Sequence[Field], rows: list[bytes]) -> list[dict[str, Any]]:
    """Return serialized rows as values by name; empty ones where there are no fields."""
    if not fields:
        return [{} for _ in rows]
    return frames.decode_structs(fields, pa.array(rows, pa.binary())).to_list()


def _format_range(low: dict[str, Any], high: dict[str, Any]) -> str:
    """Return a text such as `dt 2024-01-01 .. 2024-03-31, hr 8`."""
    ends = {name: [("null" if end[name] is None else format_cell(end[name])) for end in (low, high)] for name in low}
    return ", ".join(
        f"{name} {first}" + ("" if first == last else f" .. {last}") for name, (first, last) in ends.items()
    )


# ---- entries ---------------------------------------------------------------------------------------------------------


ENTRY_COLUMNS = (
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


def list_entries(table: TableCore, name: str, snapshot_id: int) -> pl.DataFrame:
    """Return the entries of one manifest of a snapshot, ADD and DELETE, in their order.

    Raises: `InvalidOption` if the snapshot has no such manifest.
    """
    ctx, snapshot = _load_snapshot(table, snapshot_id)
    manifest_entries = manifest_files.read_entries(ctx, [_find_manifest(ctx, snapshot, name)[0]])
    return frames.describe_entries(ctx, manifest_entries, ENTRY_COLUMNS)


def _find_manifest(ctx: TableContext, snapshot: Snapshot, name: str) -> tuple[ManifestFileMeta, ManifestListKind]:
    """Return a manifest of a snapshot by its name, and the list that has it."""
    by_name: dict[str, tuple[ManifestFileMeta, ManifestListKind]] = {}
    for which in reversed(MANIFEST_LISTS):
        with suppress(FileMissing):
            by_name |= {m.name: (m, which) for m in manifest_files.manifest_files(ctx, snapshot, which)}
    if name not in by_name:
        msg = (
            f"snapshot {snapshot.id} of {ctx.name} has no manifest {name!r}; it has "
            f"{', '.join(list(by_name)[:3]) or 'none'}"
        )
        raise InvalidOption(msg, key="manifest", value=name)
    return by_name[name]


def entry_facts(
    table: TableCore,
    name: str,
    snapshot_id: int,
    tree_filter: TreeFilter | None = None,
    *,
    limit: int = MAX_SHOWN_ENTRIES,
) -> tuple[tuple[EntryFact, ...], int]:
    """Return the first `limit` entries of a manifest, in its order, and how many there are.

    With a filter each says what a read does with its file.
    """
    frame = list_entries(table, name, snapshot_id)
    fate = _read_outcome_of(table, name, snapshot_id, tree_filter)
    facts = tuple(
        EntryFact(
            kind=row["kind"],
            partition=row["partition"],
            bucket=row["bucket"],
            level=row["level"],
            name=row["file_name"],
            size_bytes=row["size_bytes"],
            row_count=row["row_count"],
            min_key=_format_key(row["min_key"]),
            max_key=_format_key(row["max_key"]),
            read_outcome=fate(row["kind"], row["file_name"], row["level"]),
        )
        for row in frame.head(limit).iter_rows(named=True)
    )
    return facts, frame.height


def _read_outcome_of(
    table: TableCore, name: str, snapshot_id: int, tree_filter: TreeFilter | None
) -> Callable[[str, str, int], str]:
    if tree_filter is None:
        return lambda *_: ""
    ctx, snapshot = _load_snapshot(table, snapshot_id)
    if _find_manifest(ctx, snapshot, name)[1] == "changelog":
        return lambda *_: "read by changes only"
    return tree_filter.read_outcomes(_file_keys(frames.live_entries(ctx, snapshot)))


def _format_key(values: dict[str, Any] | None) -> str:
    return ", ".join(format_cell(value) for value in (values or {}).values())
