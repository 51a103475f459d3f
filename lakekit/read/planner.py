"""Planning: from a snapshot and a condition to the files to read, raw or merged bucket by bucket.

Everything here works on the columns of manifest entries; a `DataFileMeta` is made only for a file that remains. Each
step counts what it drops, and `t.explain()` prints those counts. Rules: ENGINE 2.10 (what is visible), 6.4 (what may be
skipped), 2.5 (sections).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit import runtime
from lakekit.codec import binary_row
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import merge
from lakekit.metadata import manifest_reader
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.predicate import TRUE, conjunction, conjuncts, iter_columns
from lakekit.read import file_index_pruning, pruning, sections
from lakekit.read.polars_pushdown import ScanFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot
    from lakekit.predicate import Predicate
    from lakekit.read.sections import MergedBucket, SectionGroups
    from lakekit.read.time_travel import Position

    Mask = NDArray[np.bool_]

ROW_SELECTING_ENGINES = ("deduplicate", "first-row")
"""Engines that choose a row as it is; the others build rows from many."""
NO_FILTER = ScanFilter()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the funnel: of `before` manifests or files, `after` remained; `why` is the reason."""

    what: str
    before: int
    after: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a read has to do.

    `raw_indices` are indices into `entries` of files that need no merge, `merged_buckets` the buckets that do.
    `matching_positions` are the row positions that file indexes select, by file name; `vector_entries` has the index
    entry of the deletion vector of each file, by file name.
    """

    ctx: TableContext
    snapshot: Snapshot | None
    entries: ManifestEntries
    raw_indices: NDArray[np.int64]
    merged_buckets: tuple[MergedBucket, ...] = ()
    spec: MergeSpec | None = None
    scan_filter: ScanFilter = NO_FILTER
    matching_positions: Mapping[str, BitMap] = field(default_factory=dict)
    vector_entries: Mapping[str, IndexManifestEntry] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    files_total: int = 0
    all_entries: ManifestEntries | None = None

    @cached_property
    def bytes_total(self) -> int | None:
        """Return the bytes of all files of the snapshot (`all_entries`); None if manifests were never opened."""
        return None if self.all_entries is None else int(self.all_entries.integers("file_size").sum())

    @cached_property
    def selected_indices(self) -> NDArray[np.int64]:
        """Return the indices of every file that will be read."""
        if not self.merged_buckets and (self.raw_indices[1:] > self.raw_indices[:-1]).all():
            return self.raw_indices
        parts = [self.raw_indices, *(np.asarray(bucket.files, np.int64) for bucket in self.merged_buckets)]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


class PruningFunnel:
    """The entries that remain after each step, and what each step dropped.

    `groups` has a number for each remaining entry: that of its section, if the section has several files. It is None if
    no section has several files.
    """

    def __init__(self, entries: ManifestEntries) -> None:
        self.entries = entries
        self.groups: SectionGroups | None = None
        self.steps: list[Step] = []

    def apply_step(self, why: str, mask: Mask | None) -> None:
        """Keep the entries of the mask; None: this step drops nothing."""
        self.apply_steps([(why, mask)])

    def apply_steps(self, steps: Sequence[tuple[str, Mask | None]]) -> None:
        """Apply several steps at once, with masks over the entries as they are now.

        All are applied in one pass, since each pass copies the remaining entries with the indexes in them.
        """
        masks = [(why, mask) for why, mask in steps if mask is not None and len(mask)]
        combined, left = None, len(self.entries)
        for why, mask in masks:
            combined, before = mask if combined is None else combined & mask, left
            left = int(np.count_nonzero(combined))
            self.steps.append(Step("files", before, left, why))
        if combined is not None and left < len(self.entries):
            self.entries, self.groups = (
                self.entries.filter(combined),
                None if self.groups is None else self.groups.filter(combined),
            )


def plan_read(
    ctx: TableContext,
    position: Position,
    scan_filter: ScanFilter = NO_FILTER,
    *,
    limit: int | None = None,
    without_partitions: frozenset[bytes] = frozenset(),
    levels: range | None = None,
    least_last_level: int | None = None,
    hides_level_zero: bool = True,
) -> Plan:
    """Return the plan of a batch read of a position.

    It leaves out the partitions `without_partitions`, and reads only `levels` if given. `least_last_level`: read only
    the last level of each bucket. That is `least_last_level`, unless the bucket has files in a level above it
    (`lsm.compaction_picker`). `hides_level_zero` is False for a stream. Reads metadata only.

    Raises:
        Unsupported: the table cannot be read.
    """
    rule = merge_spec_of(ctx)
    snapshot = position.snapshot
    if snapshot is None:
        return Plan(
            ctx=ctx,
            snapshot=None,
            entries=manifest_reader.empty_entries(),
            raw_indices=np.zeros(0, np.int64),
            spec=rule,
        )
    listed = manifest_reader.manifest_files(ctx, snapshot)
    manifests = _keep_manifests(ctx, listed, scan_filter)
    keep = (
        _memoize_partition_filter(partial(_mask_partition_condition, ctx, scan_filter))
        if scan_filter.partition_conditions
        else None
    )
    funnel = PruningFunnel(manifest_reader.read_live_entries(ctx, manifests, keep_partitions=keep))
    every = funnel.entries if keep is None and len(manifests) == len(listed) else None
    if len(manifests) < len(listed):
        funnel.steps.append(Step("manifests", len(listed), len(manifests), "partition ranges"))
    if keep is not None:
        # some of the kept entries delete what others added
        funnel.steps.append(Step("files", _file_count(listed), len(funnel.entries), "partition"))
        scan_filter = replace(scan_filter, partition_conditions=())
    funnel.apply_step(
        "not visible before compaction", _visible_mask(ctx, funnel.entries, hides_level_zero=hides_level_zero)
    )
    funnel.apply_step("scan.bucket", _mask_scan_bucket(ctx, funnel.entries))
    if levels is not None:
        funnel.apply_step(f"levels from {levels.start}", _mask_levels(funnel.entries, levels))
    if least_last_level is not None:
        funnel.apply_step("last level", _mask_last_level(funnel.entries, least_last_level))
    if without_partitions:
        funnel.apply_step("partitions of the other branch", ~_mask_partitions(funnel.entries, without_partitions))
    if position.created_since_ms is not None:
        funnel.apply_step("creation time", _mask_created_since(funnel.entries, position.created_since_ms))
    plan = plan_entries(ctx, snapshot, funnel, rule, scan_filter, limit)
    return replace(plan, files_total=_file_count(listed), all_entries=every)


def plan_entries(
    ctx: TableContext,
    snapshot: Snapshot,
    funnel: PruningFunnel,
    spec: MergeSpec | None,
    scan_filter: ScanFilter,
    limit: int | None = None,
) -> Plan:
    """Return the plan over given live entries: pruning, sections, file indexes."""
    index = manifest_reader.index_entries(ctx, snapshot)
    vectors = {
        r.file_name: entry for entry in index if entry.index_type == "DELETION_VECTORS" for r in entry.ranges or ()
    }
    _prune_partitions_and_buckets(ctx, funnel, index, scan_filter)
    if spec is not None:
        _prune_keys(ctx, funnel, spec, scan_filter)
        funnel.groups = sections.group_sections(ctx, funnel.entries)
    hits = _prune_values(ctx, funnel, spec, scan_filter)
    groups = funnel.groups
    raw = np.arange(len(funnel.entries)) if groups is None else np.flatnonzero(groups.section_numbers < 0)
    if limit is not None and spec is None and not vectors:
        raw = _limit_files(funnel.entries, raw, limit)
    return Plan(
        ctx=ctx,
        snapshot=snapshot,
        entries=funnel.entries,
        raw_indices=raw,
        merged_buckets=() if groups is None else sections.group_merged_buckets(funnel.entries, groups),
        spec=spec,
        scan_filter=scan_filter,
        matching_positions=hits,
        vector_entries=vectors,
        steps=tuple(funnel.steps),
    )


def plan_raw_files(ctx: TableContext, position: Position, scan_filter: ScanFilter) -> Plan:
    """Return the plan of every file of a position, hidden ones too: pruned by partition and key, never merged."""
    if position.snapshot is None:
        return Plan(ctx=ctx, snapshot=None, entries=manifest_reader.empty_entries(), raw_indices=np.zeros(0, np.int64))
    funnel = PruningFunnel(load_live_entries(ctx, position.snapshot))
    return _plan_unmerged(ctx, position.snapshot, funnel, merge_spec_of(ctx), scan_filter)


def plan_added_files(
    ctx: TableContext,
    snapshot: Snapshot,
    entries: ManifestEntries,
    scan_filter: ScanFilter,
    *,
    hides_level_zero: bool,
    hides_postponed: bool = True,
    created_since_ms: int | None = None,
) -> Plan:
    """Return the plan of files that commits added, unmerged.

    What batch reads hide is hidden by `hides_level_zero` and `hides_postponed`.
    """
    funnel = PruningFunnel(entries)
    if created_since_ms is not None:
        funnel.apply_step("creation time", _mask_created_since(funnel.entries, created_since_ms))
    funnel.apply_step(
        "not visible before compaction",
        _visible_mask(ctx, funnel.entries, hides_level_zero=hides_level_zero, hides_postponed=hides_postponed),
    )
    return _plan_unmerged(ctx, snapshot, funnel, merge_spec_of(ctx), scan_filter)


def plan_difference(ctx: TableContext, before: Position, after: Position, scan_filter: ScanFilter) -> tuple[Plan, Plan]:
    """Return the plans of the files that only one of two states has, each to be merged by itself (ENGINE 6.3, diff).

    A file that compaction only moved to another level is in both plans: its rows are in both states, but may be merged
    with different files there.
    """
    states = (before, after)
    sides = [
        manifest_reader.empty_entries()
        if state.snapshot is None
        else _filter_visible(ctx, load_live_entries(ctx, state.snapshot))
        for state in states
    ]
    names = [
        pc.binary_join_element_wise(side.column("file_name"), side.column("level").cast(pa.string()), "@")
        for side in sides
    ]
    rule = merge_spec_of(ctx)
    key_filter = ScanFilter(
        _select_conjuncts(scan_filter.predicate, {*ctx.schema.partition_keys, *ctx.schema.trimmed_primary_keys}),
        scan_filter.partition_conditions,
    )
    plans = []
    for state, side, mine, other in zip(states, sides, names, reversed(names), strict=True):
        if state.snapshot is None:
            plans.append(Plan(ctx=ctx, snapshot=None, entries=side, raw_indices=np.zeros(0, np.int64), spec=rule))
        else:
            funnel = PruningFunnel(side.filter(~np.asarray(pc.is_in(mine, other))))
            plans.append(plan_entries(ctx, state.snapshot, funnel, rule, key_filter))
    return plans[0], plans[1]


def merge_spec_of(ctx: TableContext) -> MergeSpec | None:
    """Return the merge rule of a key table; None for an append table."""
    return (
        merge.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name) if ctx.schema.primary_keys else None
    )


def load_live_entries(ctx: TableContext, snapshot: Snapshot) -> ManifestEntries:
    """Return every live entry of a snapshot."""
    return manifest_reader.read_live_entries(ctx, snapshot)


def list_partitions(ctx: TableContext, position: Position, *, levels: range | None = None) -> frozenset[bytes]:
    """Return the serialized partitions that have visible files at a position, or files of those levels."""
    if position.snapshot is None:
        return frozenset()
    entries = filter_created_since(_filter_visible(ctx, load_live_entries(ctx, position.snapshot)), position)
    if levels is not None:
        entries = entries.filter(_mask_levels(entries, levels))
    return frozenset(entries.column("partition").unique().to_pylist())  # scalar: one a partition


def _plan_unmerged(
    ctx: TableContext, snapshot: Snapshot, funnel: PruningFunnel, spec: MergeSpec | None, scan_filter: ScanFilter
) -> Plan:
    funnel.apply_step("scan.bucket", _mask_scan_bucket(ctx, funnel.entries))
    _prune_partitions_and_buckets(ctx, funnel, [], scan_filter)
    if spec is not None:
        _prune_keys(ctx, funnel, spec, scan_filter)
    raw = np.arange(len(funnel.entries))
    return Plan(
        ctx=ctx,
        snapshot=snapshot,
        entries=funnel.entries,
        raw_indices=raw,
        spec=spec,
        scan_filter=scan_filter,
        steps=tuple(funnel.steps),
    )


def _mask_partitions(entries: ManifestEntries, partitions: frozenset[bytes]) -> Mask:
    return np.asarray(pc.is_in(entries.column("partition"), pa.array(sorted(partitions), pa.binary())))


# ---- visibility ------------------------------------------------------------------------------------------------------


def _visible_mask(
    ctx: TableContext, entries: ManifestEntries, *, hides_level_zero: bool = True, hides_postponed: bool = True
) -> Mask | None:
    """Return which entries are visible; None if all are (ENGINE 2.10).

    Files of the postpone bucket are hidden while the table is in postpone mode. Level 0 is hidden in first-row tables,
    and in tables with deletion vectors, where compaction makes its rows visible.
    """
    hides_postponed = hides_postponed and ctx.options.bucket == POSTPONE_BUCKET
    hides_level_zero = hides_level_zero and bool(ctx.schema.primary_keys) and sections.may_hide_level_zero(ctx)
    if not hides_postponed and not hides_level_zero:
        return None
    mask: Mask = np.ones(len(entries), bool)
    if hides_postponed:
        mask &= entries.integers("bucket") != POSTPONE_BUCKET
    if hides_level_zero:
        mask &= entries.integers("level") > 0
    return None if mask.all() else mask


def _mask_scan_bucket(ctx: TableContext, entries: ManifestEntries) -> Mask | None:
    """Return which entries are in the bucket of `scan.bucket`; None without it."""
    wanted = ctx.options.scan_bucket
    return None if wanted is None else entries.integers("bucket") == wanted


def _mask_levels(entries: ManifestEntries, levels: range) -> Mask:
    numbers: NDArray[np.int64] = entries.integers("level")
    return (numbers >= levels.start) & (numbers < levels.stop)


def _mask_last_level(entries: ManifestEntries, least_level: int) -> Mask:
    level = pl.col("level")
    frame = pl.DataFrame(
        {
            "partition": pl.Series(entries.column("partition")),
            "bucket": entries.integers("bucket"),
            "level": entries.integers("level"),
        }
    )
    mask: Mask = (
        frame.select(level == pl.max_horizontal(level.max().over("partition", "bucket"), pl.lit(least_level)))
        .to_series()
        .to_numpy()
    )
    return mask


def _filter_visible(ctx: TableContext, entries: ManifestEntries) -> ManifestEntries:
    for step in (_visible_mask, _mask_scan_bucket):
        mask = step(ctx, entries)
        entries = entries if mask is None else entries.filter(mask)
    return entries


def filter_created_since(entries: ManifestEntries, position: Position) -> ManifestEntries:
    """Return the entries of files that were created at the position's creation time or later."""
    since = position.created_since_ms
    return entries if since is None else entries.filter(_mask_created_since(entries, since))


def _mask_created_since(entries: ManifestEntries, time_ms: int) -> Mask:
    creation_times = entries.column("creation_time").cast(pa.int64())
    return np.asarray(pc.fill_null(pc.greater_equal(creation_times, runtime.wall_clock_ms(time_ms)), True))


# ---- partitions and buckets ------------------------------------------------------------------------------------------


def _keep_manifests(
    ctx: TableContext, manifests: list[ManifestFileMeta], scan_filter: ScanFilter
) -> list[ManifestFileMeta]:
    """Return the manifests whose partition ranges may satisfy the condition."""
    predicate = _select_conjuncts(scan_filter.predicate, set(ctx.schema.partition_keys))
    if predicate == TRUE:
        return manifests
    mask = pruning.keep_manifests(ctx, manifests, predicate)
    return [m for m, keep in zip(manifests, mask, strict=True) if keep]


def partition_frame(ctx: TableContext, rows: pa.BinaryArray) -> pl.DataFrame:
    """Return serialized partition rows as a frame with a column for each partition key."""
    fields = [ctx.schema.field(name) for name in ctx.schema.partition_keys]
    decoded = binary_row.decode_columns(rows, [f.type for f in fields])
    wanted = polars_schema(fields)
    return pl.DataFrame(
        [pl.Series(f.name, values).cast(wanted[f.name]) for f, values in zip(fields, decoded, strict=True)]
    )


def _mask_partition_condition(ctx: TableContext, scan_filter: ScanFilter, rows: pa.BinaryArray) -> Mask:
    """Return which serialized partitions satisfy the conditions on partition columns; each is tested once."""
    encoded = rows.dictionary_encode()
    frame = partition_frame(ctx, encoded.dictionary)
    matches: Mask = (
        frame.select(pl.all_horizontal(e.fill_null(False) for e in scan_filter.partition_conditions))
        .to_series()
        .to_numpy()
    )
    return matches[encoded.indices.to_numpy()]


def _memoize_partition_filter(partition_filter: Callable[[pa.BinaryArray], Mask]) -> Callable[[pa.BinaryArray], Mask]:
    """Return the partition filter with its last answers cached: a Polars query takes longer than all lookups."""
    memo: list[tuple[pa.BinaryArray, pa.BinaryArray]] = []

    def known(rows: pa.BinaryArray) -> Mask:
        if not len(rows):
            return np.zeros(0, bool)
        encoded = rows.dictionary_encode()
        if memo and np.asarray(pc.is_in(encoded.dictionary, memo[-1][0])).all():
            return np.asarray(pc.is_in(encoded.dictionary, memo[-1][1]))[encoded.indices.to_numpy()]
        matches = partition_filter(encoded.dictionary)
        memo[:] = [(encoded.dictionary, encoded.dictionary.filter(pa.array(matches)))]
        return matches[encoded.indices.to_numpy()]

    return known


def _file_count(manifests: list[ManifestFileMeta]) -> int:
    return sum(m.num_added_files - m.num_deleted_files for m in manifests)


def _prune_partitions_and_buckets(
    ctx: TableContext, funnel: PruningFunnel, index: list[IndexManifestEntry], scan_filter: ScanFilter
) -> None:
    """Prune by partition, exactly, and by bucket, from the values of the whole bucket key."""
    if not len(funnel.entries):
        return
    if scan_filter.partition_conditions:
        funnel.apply_step("partition", _mask_partition_condition(ctx, scan_filter, funnel.entries.column("partition")))
    funnel.apply_step("bucket", pruning.mask_buckets(ctx, funnel.entries, scan_filter.predicate))
    hashed = [entry for entry in index if entry.index_type == "HASH"]
    if hashed and ctx.options.bucket == -1:
        funnel.apply_step("hash index", pruning.mask_hash_indexes(ctx, funnel.entries, scan_filter.predicate, hashed))


# ---- keys and values -------------------------------------------------------------------------------------------------


def _select_conjuncts(predicate: Predicate, names: set[str]) -> Predicate:
    """Return the conjuncts that use only those columns."""
    return conjunction([part for part in conjuncts(predicate) if (used := set(iter_columns(part))) and used <= names])


def _drop_conjuncts(predicate: Predicate, names: set[str]) -> Predicate:
    """Return the conjuncts that use any other column."""
    return conjunction([part for part in conjuncts(predicate) if not set(iter_columns(part)) <= names])


def _format_columns(predicate: Predicate) -> str:
    return ", ".join(sorted(set(iter_columns(predicate))))


def _prune_keys(ctx: TableContext, funnel: PruningFunnel, spec: MergeSpec, scan_filter: ScanFilter) -> None:
    """Prune by key range, file by file.

    If no key in a file's range can match, then no version of these keys in another file can match either.
    """
    key_predicate = _select_conjuncts(scan_filter.predicate, set(spec.key_columns))
    if key_predicate != TRUE and len(funnel.entries):
        funnel.apply_step(
            f"keys {_format_columns(key_predicate)}", pruning.may_match_files(ctx, funnel.entries, key_predicate, "key")
        )


def _prune_values(
    ctx: TableContext, funnel: PruningFunnel, spec: MergeSpec | None, scan_filter: ScanFilter
) -> Mapping[str, BitMap]:
    """Prune by value statistics and file indexes, where no other version of a key could reappear.

    Return the row positions that the indexes select in the remaining files, by file name.
    """
    if scan_filter.predicate == TRUE or not len(funnel.entries):
        return {}
    decided = set(ctx.schema.partition_keys) | (set(spec.key_columns) if spec is not None else set())
    value_predicate, entries = _drop_conjuncts(scan_filter.predicate, decided), funnel.entries
    masks: list[tuple[str, Mask | None]] = []
    alone = None if funnel.groups is None else funnel.groups.section_numbers < 0
    if value_predicate != TRUE:
        fit = pruning.may_match_files(
            ctx, entries, file_index_pruning.relax_lossy_times(ctx.schema, entries, value_predicate), "value"
        )
        if spec is not None and funnel.groups is not None:
            fit = _widen_to_sections(
                fit, funnel.groups.section_numbers, selects_rows=spec.engine in ROW_SELECTING_ENGINES
            )
        masks.append((f"values {_format_columns(value_predicate)}", fit))
        alone = fit if alone is None else fit & alone
    indices = np.arange(len(entries)) if alone is None else np.flatnonzero(alone)
    result = file_index_pruning.evaluate_file_indexes(
        ctx, entries, indices, _drop_conjuncts(scan_filter.predicate, set(ctx.schema.partition_keys))
    )
    if result.prunes_anything:
        may_match = np.ones(len(entries), bool)
        may_match[result.no_match] = False
        masks.append(("file index", may_match))
    funnel.apply_steps(masks)
    return _hits_by_name(entries, result.matching_rows)


def _hits_by_name(entries: ManifestEntries, hits: Mapping[int, BitMap]) -> Mapping[str, BitMap]:
    if not hits:
        return {}
    names = entries.column("file_name").take(pa.array(list(hits), pa.int64())).to_pylist()  # scalar: one a file
    return dict(zip(names, hits.values(), strict=True))


def _widen_to_sections(fit: Mask, groups: NDArray[np.int64], *, selects_rows: bool) -> Mask:
    """Return the mask with whole sections: kept, or dropped if the merge selects rows and no file of theirs is set."""
    mask = fit.copy()
    inside = groups >= 0
    if not selects_rows:
        return mask | inside
    alive = np.unique(groups[inside & fit])
    mask[inside] = np.isin(groups[inside], alive)
    return mask


def _limit_files(entries: ManifestEntries, raw_indices: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the first files that together hold `limit` rows."""
    before = np.cumsum(entries.integers("row_count")[raw_indices]) - entries.integers("row_count")[raw_indices]
    return raw_indices[before < limit]
