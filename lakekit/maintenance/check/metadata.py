"""Checks of metadata: the metadata files of a snapshot, the sequence of snapshots, the gc roots.

    snapshot   total and delta row counts  = sums over the entries
    list       file counts and bounds of bucket, level and partition of each manifest fit the manifest's entries
    entries    a file is added once, and nothing is deleted that was not added
    schemas    of the snapshot and of each data file exist
    row ids    of files are below the snapshot's next one
    sequence   snapshots 1, 2, 4 and LATEST 5: 4 is the newest, not 5; 3 is missing

Engines that believe hints cannot continue from a snapshot that was lost. A gap before the snapshot that EARLIEST names
is no problem for any engine: `t.repair()` leaves it so.

Snapshots, tags, long-lived changelogs and consumers keep files, in every branch: while one of them cannot be read,
nothing expires and no orphan file is removed. `check_gc_roots_and_schemas` only checks that they can be read; the files
that they refer to are checked for the newest snapshot alone. Gaps between schema ids are reported too, since files of
older snapshots may need the missing schema.

Source: FORMAT.md 1.6, 3.1, 4.1-4.5; RELIABILITY D5, I3, I5, I7, I15.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row
from lakekit.draw.humanize import format_count
from lakekit.errors import Corrupt, LakekitError, StorageFailed, Unsupported
from lakekit.maintenance import reachability
from lakekit.maintenance.check.findings import format_value
from lakekit.metadata import manifest_reader, refs, schemas, snapshots
from lakekit.model import manifest_entries as columns_of, snapshot
from lakekit.model.data_file import EMPTY_ROW
from lakekit.model.manifest_entries import ADD, DELETE, ManifestEntries
from lakekit.parallel import map_io
from lakekit.storage.protocol import FileMissing
from lakekit.types import BINARIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot
    from lakekit.storage.protocol import Stat

    Which = Literal["base", "delta", "changelog"]
    HintState = tuple[int | None, int | None, list[int]]
    UnreadableRoot = tuple[str, Corrupt | StorageFailed]


_MANIFEST_LISTS: tuple[Which, ...] = ("base", "delta", "changelog")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataContents:
    """The readable entries of a snapshot: live files, changelog files and index files."""

    live_entries: ManifestEntries
    changelog_entries: ManifestEntries
    index_entries: list[IndexManifestEntry]


def check_snapshot(ctx: TableContext, snapshot: Snapshot, findings: Findings) -> MetadataContents:
    """Check the metadata of a snapshot, add problems to `findings`, and return the entries that could be read."""
    where = ctx.paths.snapshot(snapshot.id)
    findings.paths.add(where)
    lists = {which: _read_checked_entries(ctx, snapshot, which, findings) for which in _MANIFEST_LISTS}
    base, delta, changelog = (lists[which] for which in _MANIFEST_LISTS)
    live = _live_entries(
        columns_of.concat_entries([part for part, _ in (base, delta)]),
        findings,
        where,
        is_complete=base[1] and delta[1],
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
        if is_complete and expected is not None and (rows := _count_rows(entries)) != expected:
            message = f"the snapshot says {format_count(expected)} rows, its entries add up to {format_count(rows)}"
            remedy = "rows are read as the manifests say; only counts are wrong"
            findings.add_problem("row count of the snapshot", message, path=where, field=name, remedy=remedy)
    if snapshot.statistics is not None:
        with findings.reading_file("statistics file", ctx.paths.statistics(snapshot.statistics)):
            refs.read_statistics(ctx, snapshot)
    _check_row_ids(snapshot, live, where, findings)
    _check_schemas(ctx, snapshot, live, findings)
    return MetadataContents(
        live_entries=live, changelog_entries=changelog[0], index_entries=_read_checked_index(ctx, snapshot, findings)
    )


def _check_row_ids(snapshot: Snapshot, live_entries: ManifestEntries, location: str, findings: Findings) -> None:
    """Check that the next row id is above the row ids of all files, so that no commit repeats one."""
    first = live_entries.column("first_row_id")
    if snapshot.next_row_id is None or first.null_count == len(first):
        return
    reached = int(pc.max(pc.add(first, live_entries.column("row_count"))).as_py())  # scalar: one number
    if reached > snapshot.next_row_id:
        taken = (
            f"the next row id is {format_count(snapshot.next_row_id)}, files have ids up to {format_count(reached - 1)}"
        )
        message = f"{taken}: the next commit gives some a second time"
        findings.add_problem(
            "next row id is taken",
            message,
            path=location,
            field="nextRowId",
            remedy="t.rollback to a snapshot before it, or put the file back from a copy",
        )


def _check_schemas(ctx: TableContext, snapshot: Snapshot, live_entries: ManifestEntries, findings: Findings) -> None:
    """Check that the schemas of the snapshot and of its data files can be read."""
    for number in {snapshot.schema_id, *live_entries.integers("schema_id").tolist()}:  # scalar: few schemas
        path = ctx.paths.schema(number)
        with findings.reading_file("schema", path):
            schemas.read_schema(ctx, number)
        findings.paths.discard(path)  # it is looked at, not counted: it is no file of the snapshot


def _count_rows(entries: ManifestEntries) -> int:
    return int((entries.integers("row_count") * np.where(entries.integers("kind") == ADD, 1, -1)).sum())


def _read_checked_entries(
    ctx: TableContext, snapshot: Snapshot, list_kind: Which, findings: Findings
) -> tuple[ManifestEntries, bool]:
    """Return the entries of one manifest list, and whether all of them could be read."""
    name = getattr(snapshot, f"{list_kind}_manifest_list")
    listed: list[ManifestFileMeta] | None = None
    if name is None:
        return columns_of.empty_entries(), True
    if list_kind == "changelog" and _is_restored(ctx, snapshot):
        return columns_of.empty_entries(), False
    with findings.reading_file("manifest list", ctx.paths.manifest(name)):
        listed = manifest_reader.manifest_files(ctx, snapshot, list_kind)
    if listed is None:
        return columns_of.empty_entries(), False
    parts: list[ManifestEntries] = []
    with suppress(LakekitError):  # which of them it is comes out below
        manifest_reader.read_entries(ctx, listed)  # all at once, which is faster; kept for what follows
    for file in listed:
        path = ctx.paths.manifest(file.name)
        with findings.reading_file("manifest", path):
            part = manifest_reader.read_entries(ctx, [file])
            _check_manifest(ctx, file, part, path, findings)
            parts.append(part)
    return columns_of.concat_entries([columns_of.empty_entries(), *parts]), len(parts) == len(listed)


def _is_restored(ctx: TableContext, snapshot: Snapshot) -> bool:
    """Return whether a rollback or a branch made this snapshot from a tag.

    The changelog of such a snapshot was deleted when the snapshot expired. The first snapshot of a branch may be one.
    """
    storage, layout = ctx.storage, ctx.paths
    first = not storage.exists(layout.snapshot(snapshot.id - 1))
    return first and not storage.exists(layout.manifest(snapshot.changelog_manifest_list or ""))


def _check_manifest(
    ctx: TableContext, file: ManifestFileMeta, part: ManifestEntries, path: str, findings: Findings
) -> None:
    """Check the counts and bounds that the manifest list records for a manifest against the manifest's entries."""
    kinds = part.integers("kind")
    remedy = "readers may skip files of it: t.rollback to a snapshot without it, or restore the manifest list"

    def wrong(field: str, expected: object, actual: object) -> None:
        findings.add_problem(
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
        findings.add_problem(
            "entry is of a partition that there is not", message, path=path, field="_PARTITION", remedy=remedy
        )
    for column in ("bucket", "level"):
        numbers = part.integers(column)
        low, high = getattr(file, f"min_{column}"), getattr(file, f"max_{column}")
        if low is not None and low > numbers.min():
            wrong(f"_MIN_{column.upper()}", low, numbers.min())
        if high is not None and high < numbers.max():
            wrong(f"_MAX_{column.upper()}", high, numbers.max())
    _check_partition_bounds(ctx, file, part, wrong)


def _check_partition_bounds(ctx: TableContext, file: ManifestFileMeta, part: ManifestEntries, wrong: Any) -> None:
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


def _live_entries(entries: ManifestEntries, findings: Findings, location: str, *, is_complete: bool) -> ManifestEntries:
    """Return the live files; files that are added twice are reported and counted once."""
    kinds = entries.integers("kind")
    group = columns_of.identity_codes(entries)
    size = int(group.max()) + 1 if len(group) else 0
    added, deleted = (np.bincount(group[kinds == kind], minlength=size) for kind in (ADD, DELETE))
    remedy = "t.rollback to a snapshot before it; every commit on top of this one will fail"
    for what, numbers in (
        ("file is added twice", added > 1),
        ("file is deleted that was not added", is_complete & (deleted > 0) & (added == 0)),
    ):
        for name in _file_names(entries, group, np.flatnonzero(numbers)):
            findings.add_problem(
                what,
                f"the manifests of the snapshot contradict each other about {name}",
                path=location,
                field="_FILE_NAME",
                remedy=remedy,
            )
    _, first = np.unique(group * 2 + kinds, return_index=True)
    return columns_of.live_entries([entries.take(np.sort(first))])


def _file_names(
    entries: ManifestEntries, group: np.ndarray[Any, Any], wrong_groups: Sequence[int] | np.ndarray[Any, Any]
) -> list[str]:
    rows = np.flatnonzero(np.isin(group, wrong_groups))
    names: list[str] = entries.column("file_name").take(pa.array(rows)).unique().to_pylist()  # scalar: one a wrong file
    return names


def _read_checked_index(ctx: TableContext, snapshot: Snapshot, findings: Findings) -> list[IndexManifestEntry]:
    if snapshot.index_manifest is None:
        return []
    with findings.reading_file("index manifest", ctx.paths.manifest(snapshot.index_manifest)):
        return manifest_reader.index_entries(ctx, snapshot)
    return []


# ---- history ------------------------------------------------------------


_HINT_REMEDY = (
    "t.repair(), which lets the hint say what is there; the newest snapshot may have been lost: put its file back "
    "from a copy if there is one"
)
_GAP_REMEDY = "put the file back from a copy; else t.repair(), which lets the table begin behind the gap"


def check_history(ctx: TableContext, findings: Findings) -> None:
    """Check the snapshot ids and the hints, and add problems to `findings`.

    Problems are looked for a second time, to rule out changes that other processes made during the first look.
    """
    problems = _find_problems(_read_hint_state(ctx))
    if problems != (None, []) and problems == _find_problems(_read_hint_state(ctx)):
        latest, gap = problems
        if latest is not None:
            message = (
                f"it says {latest[0]}, and the newest snapshot is {latest[1]}: the reference engine believes it, and "
                "fails or goes on from there"
            )
            findings.add_problem("hint leads astray", message, path=ctx.paths.latest_hint, remedy=_HINT_REMEDY)
        if gap:
            message = (
                f"{describe_ranges(gap)} are not there, and others before and after are: streams and expiry of the "
                "reference engine fail there"
            )
            findings.add_problem("snapshots are missing", message, path=ctx.paths.snapshot_dir, remedy=_GAP_REMEDY)


_MAX_SHOWN = 8


def missing_ranges(ids: Sequence[int]) -> list[range]:
    """Return the gaps in ascending numbers, each as the range of missing numbers."""
    return [range(low + 1, high) for low, high in pairwise(ids) if high - low > 1]


def describe_ranges(gaps: Sequence[range]) -> str:
    """Return the numbers of some gaps as text: the first `_MAX_SHOWN` of them, and how many follow."""
    shown = list(islice(chain.from_iterable(gaps), _MAX_SHOWN))
    left = sum(gap.stop - gap.start for gap in gaps) - len(shown)
    return ", ".join(map(str, shown)) + (f" and {left} more" if left else "")


def _read_hint_state(ctx: TableContext) -> HintState:
    """Return LATEST, EARLIEST and the snapshot ids, read in this order.

    A commit writes its snapshot before its hint, so a hint that was read is never ahead of the ids.
    """
    latest, earliest = (_read_hint(ctx, path) for path in (ctx.paths.latest_hint, ctx.paths.earliest_hint))
    return latest, earliest, snapshots.ids(ctx)


def _read_hint(ctx: TableContext, path: str) -> int | None:
    try:
        return snapshot.decode_hint(ctx.storage.read(path, 0, 32))
    except StorageFailed:
        return None


def _find_problems(hint_state: HintState) -> tuple[tuple[int, int] | None, Sequence[range]]:
    """Return (value of LATEST, newest snapshot id) if LATEST misleads an engine (else None), and the missing ids."""
    latest, earliest, ids = hint_state
    if not ids:
        return None, []
    believed = latest is not None and latest != ids[-1] and latest + 1 not in ids
    first = earliest if earliest in ids else ids[0]
    gap = missing_ranges([number for number in ids if number >= (first or 0)])
    return ((latest, ids[-1]) if latest is not None and believed else None), gap


# ---- keeping ------------------------------------------------------------


_ROOT_REMEDY = "put it back from a copy, or delete it: until then nothing expires and no orphan goes"
_CONSUMER_REMEDY = "t.reset_consumer writes it anew or forgets it: until then nothing expires"
_BRANCH_REMEDY = (
    "t.delete_branch({branch!r}) removes what is left of it; t.remove_orphans does where it was begun a day ago and "
    "never finished"
)
_MAX_FINDINGS = 8
_SCHEMA_REMEDY = "put it back from a copy: files that were written with it cannot be read"


def check_gc_roots_and_schemas(ctx: TableContext, findings: Findings) -> None:
    """Check that the gc roots and consumers of all branches can be read, and look for missing schemas.

    Gaps between schema ids are looked for in the current branch; other branches must have at least one schema. Problems
    are added to `findings`.
    """
    reported = {problem.path for problem in findings.problems}
    with suppress(StorageFailed):
        for branch in reachability.list_branch_names(ctx):
            own = reachability.on_branch(ctx, branch)
            for what, damaged in _find_unreadable(own):
                if damaged.path not in reported:
                    field = damaged.field if isinstance(damaged, Corrupt) else None
                    remedy = _CONSUMER_REMEDY if what == "consumer" else _ROOT_REMEDY
                    findings.add_problem(
                        f"{what} is unreadable", damaged.message, path=damaged.path, field=field, remedy=remedy
                    )
            if branch != ctx.paths.branch and not schemas.list_ids(own):
                message = (
                    f"branch {branch!r} has no schema: it was not made whole, or not removed whole, and no orphan of "
                    "the table goes while it is there"
                )
                findings.add_advice(
                    "branch is half there",
                    message,
                    path=own.paths.branch_root,
                    remedy=_BRANCH_REMEDY.format(branch=branch),
                )
    numbers = schemas.list_ids(ctx)
    for gap in missing_ranges(numbers):
        for number in gap[:_MAX_FINDINGS]:
            path = ctx.paths.schema(number)
            if path not in reported:
                findings.add_problem(
                    "schema is missing",
                    f"schema {number} is not there, and others before and after are",
                    path=path,
                    remedy=_SCHEMA_REMEDY,
                )
        if len(gap[_MAX_FINDINGS:]):
            message = f"schemas {gap[_MAX_FINDINGS]} to {gap[-1]} are not there, and others before and after are"
            findings.add_problem("schema is missing", message, path=ctx.paths.schema_dir, remedy=_SCHEMA_REMEDY)


def _find_unreadable(ctx: TableContext) -> list[UnreadableRoot]:
    """Return the roots and consumers of one branch that cannot be read, with their errors."""

    def of_root(root: tuple[reachability.Kind, str, Stat]) -> UnreadableRoot | None:
        try:
            with suppress(FileMissing, Unsupported):
                reachability.read_listed_root(ctx, *root)
        except (Corrupt, StorageFailed) as damaged:
            return root[0], damaged.at(root[2].path) if isinstance(damaged, Corrupt) else damaged
        return None

    wrong = [
        root
        for root in map_io(of_root, reachability.list_roots(ctx), is_remote=ctx.storage.is_remote)
        if root is not None
    ]
    for name in refs.list_consumer_ids(ctx):
        try:
            refs.find_consumer(ctx, name)
        except (Corrupt, StorageFailed) as damaged:
            wrong.append(("consumer", damaged))
    return wrong
