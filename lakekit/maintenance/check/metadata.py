"""Check the metadata of a snapshot: lists, manifests and statistics are intact and agree with each other.

    snapshot   total and delta row counts  = sums over the entries
    list       added and deleted files, buckets, levels and partitions of a manifest  = those of its entries
    entries    a file is added once, and nothing is deleted that was not added
    schemas    of the snapshot and of each data file exist
    row ids    of files are below the snapshot's next one

Sources: FORMAT.md 3.1, 4.1-4.5; RELIABILITY I5, I7.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row
from lakekit.draw.humanize import format_count
from lakekit.errors import LakekitError
from lakekit.maintenance.check.findings import format_value
from lakekit.metadata import manifest_reader, schemas, statistics
from lakekit.model import manifest_entries as columns_of
from lakekit.model.data_file import EMPTY_ROW
from lakekit.model.manifest_entries import ADD, DELETE, ManifestEntries
from lakekit.types import BINARIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot

    Which = Literal["base", "delta", "changelog"]

_LISTS: tuple[Which, ...] = ("base", "delta", "changelog")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataContents:
    """The live files, changelog files and index files that could be read."""

    live: ManifestEntries
    changelog: ManifestEntries
    index: list[IndexManifestEntry]


def check(ctx: TableContext, snapshot: Snapshot, notes: Findings) -> MetadataContents:
    """Check the metadata of a snapshot, and return its contents."""
    where = ctx.layout.snapshot(snapshot.id)
    notes.paths.add(where)
    lists = {which: _entries(ctx, snapshot, which, notes) for which in _LISTS}
    base, delta, changelog = (lists[which] for which in _LISTS)
    live = _live_entries(
        columns_of.concat([part for part, _ in (base, delta)]), notes, where, is_complete=base[1] and delta[1]
    )
    counts = (
        ("total_record_count", live, "totalRecordCount", base[1] and delta[1]),
        ("delta_record_count", delta[0], "deltaRecordCount", delta[1]),
    )
    for member, entries, name, is_complete in (
        *counts,
        ("changelog_record_count", changelog[0], "changelogRecordCount", changelog[1]),
    ):
        expected = getattr(snapshot, member)
        if is_complete and expected is not None and (rows := _rows(entries)) != expected:
            message = f"the snapshot says {format_count(expected)} rows, its entries add up to {format_count(rows)}"
            remedy = "rows are read as the manifests say; only counts are wrong"
            notes.wrong("row count of the snapshot", message, path=where, field=name, remedy=remedy)
    if snapshot.statistics is not None:
        with notes.reading("statistics file", ctx.layout.statistics(snapshot.statistics)):
            statistics.read_statistics(ctx, snapshot)
    _row_ids(snapshot, live, where, notes)
    _schemas(ctx, snapshot, live, notes)
    return MetadataContents(live=live, changelog=changelog[0], index=_index(ctx, snapshot, notes))


def _row_ids(snapshot: Snapshot, live: ManifestEntries, where: str, notes: Findings) -> None:
    """Check that the next row id is above all ids of files: else the next commit assigns some twice."""
    first = live.column("first_row_id")
    if snapshot.next_row_id is None or first.null_count == len(first):
        return
    reached = int(pc.max(pc.add(first, live.column("row_count"))).as_py())  # scalar: one number
    if reached > snapshot.next_row_id:
        taken = (
            f"the next row id is {format_count(snapshot.next_row_id)}, files have ids up to {format_count(reached - 1)}"
        )
        message = f"{taken}: the next commit gives some a second time"
        notes.wrong(
            "next row id is taken",
            message,
            path=where,
            field="nextRowId",
            remedy="t.rollback to a snapshot before it, or put the file back from a copy",
        )


def _schemas(ctx: TableContext, snapshot: Snapshot, live: ManifestEntries, notes: Findings) -> None:
    """Whether the schemas can be read that the snapshot and its data files were made with."""
    for number in {snapshot.schema_id, *live.numbers("schema_id").tolist()}:  # scalar: few schemas
        path = ctx.layout.schema(number)
        with notes.reading("schema", path):
            schemas.read(ctx, number)
        notes.paths.discard(path)  # it is looked at, not counted: it is no file of the snapshot


def _rows(entries: ManifestEntries) -> int:
    return int((entries.numbers("row_count") * np.where(entries.numbers("kind") == ADD, 1, -1)).sum())


def _entries(ctx: TableContext, snapshot: Snapshot, which: Which, notes: Findings) -> tuple[ManifestEntries, bool]:
    """Return the entries of one manifest list, and whether all of them could be read."""
    name = getattr(snapshot, f"{which}_manifest_list")
    listed: list[ManifestFileMeta] | None = None
    if name is None:
        return columns_of.empty(), True
    if which == "changelog" and _is_restored(ctx, snapshot):
        return columns_of.empty(), False
    with notes.reading("manifest list", ctx.layout.manifest(name)):
        listed = manifest_reader.manifest_files(ctx, snapshot, which)
    if listed is None:
        return columns_of.empty(), False
    parts: list[ManifestEntries] = []
    with suppress(LakekitError):  # which of them it is comes out below
        manifest_reader.read_entries(ctx, listed)  # all at once, which is faster; kept for what follows
    for file in listed:
        path = ctx.layout.manifest(file.name)
        with notes.reading("manifest", path):
            part = manifest_reader.read_entries(ctx, [file])
            _manifest(ctx, file, part, path, notes)
            parts.append(part)
    return columns_of.concat([columns_of.empty(), *parts]), len(parts) == len(listed)


def _is_restored(ctx: TableContext, snapshot: Snapshot) -> bool:
    """Return whether a rollback or a branch made this snapshot from a tag.

    The changelog of such a snapshot was deleted when the snapshot expired. A branch begins with one.
    """
    storage, layout = ctx.storage, ctx.layout
    first = not storage.exists(layout.snapshot(snapshot.id - 1))
    return first and not storage.exists(layout.manifest(snapshot.changelog_manifest_list or ""))


def _manifest(ctx: TableContext, file: ManifestFileMeta, part: ManifestEntries, path: str, notes: Findings) -> None:
    """Check what the manifest list says of a manifest against its entries."""
    kinds = part.numbers("kind")
    remedy = "readers may skip files of it: t.rollback to a snapshot without it, or restore the manifest list"

    def wrong(field: str, expected: object, actual: object) -> None:
        notes.wrong(
            "manifest differs from its list",
            f"the manifest list says {expected}, the manifest holds {actual}",
            path=path,
            field=field,
            remedy=remedy,
        )

    for name, expected, kind in (
        ("_NUM_ADDED_FILES", file.num_added_files, ADD),
        ("_NUM_DELETED_FILES", file.num_deleted_files, DELETE),
    ):
        if (actual := int((kinds == kind).sum())) != expected:
            wrong(name, expected, actual)
    if not len(part):
        return
    if not ctx.schema.partition_keys and any(
        partition != EMPTY_ROW for partition in part.column("partition").unique().to_pylist()
    ):  # scalar: of each
        message = "an entry is of a partition, and the table has none: versions of a key do not meet"
        notes.wrong("entry is of a partition that there is not", message, path=path, field="_PARTITION", remedy=remedy)
    for column in ("bucket", "level"):
        numbers = part.numbers(column)
        low, high = getattr(file, f"min_{column}"), getattr(file, f"max_{column}")
        if low is not None and low > numbers.min():
            wrong(f"_MIN_{column.upper()}", low, numbers.min())
        if high is not None and high < numbers.max():
            wrong(f"_MAX_{column.upper()}", high, numbers.max())
    _partitions(ctx, file, part, wrong)


def _partitions(ctx: TableContext, file: ManifestFileMeta, part: ManifestEntries, wrong: Any) -> None:
    fields = ctx.schema.partition_fields
    if not fields:
        return
    types = [field.type for field in fields]
    stats = file.partition_stats
    columns = binary_row.decode_columns(part.column("partition").unique(), types)
    low, high = (
        binary_row.decode_columns(pa.array([row], pa.binary()), types) for row in (stats.min_values, stats.max_values)
    )
    counts = (
        stats.null_counts
        if stats.null_counts is not None and len(stats.null_counts) == len(fields)
        else (None,) * len(fields)
    )
    for field, values, least, most, nulls in zip(fields, columns, low, high, counts, strict=True):
        if nulls == 0 and values.null_count:
            wrong(f"_PARTITION_STATS.{field.name}", "that no partition is null", "one that is")
        if field.type.root in BINARIES:
            continue
        if least[0].is_valid and pc.less(values, least[0]).true_count:
            wrong(
                f"_PARTITION_STATS.{field.name}",
                f"at least {format_value(pl.Series(least), 0)}",
                _first_value_text(values, "ascending"),
            )
        if most[0].is_valid and pc.greater(values, most[0]).true_count:
            wrong(
                f"_PARTITION_STATS.{field.name}",
                f"at most {format_value(pl.Series(most), 0)}",
                _first_value_text(values, "descending"),
            )


def _first_value_text(values: pa.Array, order: str) -> str:
    """Return the value that comes first in an order, as text."""
    return format_value(pl.Series(values.take(pc.array_sort_indices(values, order=order)[:1])), 0)


def _live_entries(entries: ManifestEntries, notes: Findings, where: str, *, is_complete: bool) -> ManifestEntries:
    """Return the live files; files that are added twice are reported and counted once."""
    kinds = entries.numbers("kind")
    group = columns_of.identities(entries)
    size = int(group.max()) + 1 if len(group) else 0
    added, deleted = (np.bincount(group[kinds == kind], minlength=size) for kind in (ADD, DELETE))
    remedy = "t.rollback to a snapshot before it; every commit on top of this one will fail"
    for what, numbers in (
        ("file is added twice", added > 1),
        ("file is deleted that was not added", is_complete & (deleted > 0) & (added == 0)),
    ):
        for name in _names(entries, group, np.flatnonzero(numbers)):
            notes.wrong(
                what,
                f"the manifests of the snapshot contradict each other about {name}",
                path=where,
                field="_FILE_NAME",
                remedy=remedy,
            )
    _, first = np.unique(group * 2 + kinds, return_index=True)
    return columns_of.live_entries([entries.take(np.sort(first))])


def _names(
    entries: ManifestEntries, group: np.ndarray[Any, Any], wanted: Sequence[int] | np.ndarray[Any, Any]
) -> list[str]:
    rows = np.flatnonzero(np.isin(group, wanted))
    names: list[str] = entries.column("file_name").take(pa.array(rows)).unique().to_pylist()  # scalar: one a wrong file
    return names


def _index(ctx: TableContext, snapshot: Snapshot, notes: Findings) -> list[IndexManifestEntry]:
    if snapshot.index_manifest is None:
        return []
    with notes.reading("index manifest", ctx.layout.manifest(snapshot.index_manifest)):
        return manifest_reader.index_entries(ctx, snapshot)
    return []
