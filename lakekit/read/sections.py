"""Files of a key table that overlap and are merged, or are read raw; the difference of two states.

    before   1 a   2 b           after   1 a   2 B   3 c           difference   +I 2 B   +I 3 c
    before   1 a   2 b           after   1 a                       difference   -D 2 b, if deletes are kept

The difference is for diff increments and `changes(mode="diff")`. The reference merges the two sorted states as if they
were runs of one table, and reports a changed key only if the later state's row comes second, that is if its sequence
fields, or then its sequence number, are greater. Sequence numbers begin again with an INSERT OVERWRITE, so that rows it
replaced may go unreported (case overwrite_keyed). Equal ones are ordered by the loser tree that merges: the side whose
row was not moved last is first.

Buckets are compared one by one. If they are dynamic, a key that was deleted may come again in another bucket, and
writers place keys by several functions if `bucket-function.type` is not the default: then both states have the bucket
of every row in a column `BUCKET`.

Source: ENGINE 2.5, 6.3, 6.5; `IncrementalDiffSplitRead.DiffMerger`, `LoserTree`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from lakekit.codec import binary_row, hashing
from lakekit.columns import AFTER, BEFORE, GROUP, KIND, POSITION, ROW, SEQUENCE, col, cols, internal
from lakekit.data_file.paths import bucket_id_at
from lakekit.errors import Corrupt
from lakekit.lsm import row_versions, sorted_runs
from lakekit.lsm.merge import sort_map_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.sorted_runs import Sections
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

    Mask = NDArray[np.bool_]


_SECOND_PARTITION = 1 << 31
"""The least of `bucket_codes` in a second partition: bucket numbers have 32 bits, those of postponed files are
negative.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedBucket:
    """Files of one bucket whose keys overlap, as indices into a plan's entries.

    They are ordered section by section, oldest versions first in each. `is_in_sequence`: sequence numbers rise from run
    to run of every section, so that the order of the files is the order of the versions of a key.
    """

    partition: bytes
    bucket: int
    files: tuple[int, ...]
    is_in_sequence: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionGroups:
    """The section of each entry.

    `section_numbers` is the number of its section if other files share it, else -1; `positions` is its position in the
    order of sections and of age. `is_in_sequence` says of each section whether sequence numbers rise from run to run. A
    section is kept or dropped as a whole.
    """

    section_numbers: NDArray[np.int64]
    positions: NDArray[np.int64]
    is_in_sequence: NDArray[np.bool_]

    def filter(self, mask: NDArray[np.bool_]) -> SectionGroups:
        """Return the groups of the entries in the mask."""
        return replace(self, section_numbers=self.section_numbers[mask], positions=self.positions[mask])


def bucket_codes(entries: ManifestEntries) -> NDArray[np.int64]:
    """Return a number for each (partition, bucket), equal for equal ones."""
    partition = entries.column("partition").dictionary_encode().indices.to_numpy().astype(np.int64)
    return (partition << 32) + entries.integers("bucket")


def may_hide_level_zero(ctx: TableContext) -> bool:
    """Return whether batch reads hide level 0 until it is compacted (ENGINE 2.10).

    They do with first-row, and if deletion vectors say which versions are old.
    """
    options = ctx.options
    return options.merge_engine == "first-row" or (
        options.deletion_vectors_enabled and not options.deletion_vectors_merge_on_read
    )


def group_sections(ctx: TableContext, entries: ManifestEntries) -> SectionGroups | None:
    """Return which entries share a section; None if none do.

    Deletion vectors and first-row leave one version of a key above level 0: nothing there needs a merge if no file of
    level 0 is among the entries, as in the first state of a stream (`MergeTreeSplitGenerator.splitForBatch`).

    Raises:
        Corrupt: there are several partitions in a table without partition keys.
    """
    if len(entries) < 2 or (may_hide_level_zero(ctx) and bool((entries.integers("level") > 0).all())):
        return None
    bucket_of_entry = bucket_codes(entries)
    if not ctx.schema.partition_keys and bucket_of_entry.max() >= _SECOND_PARTITION:
        raise Corrupt(
            "entries of several partitions, and the table has none: versions of a key would not meet",
            field="_PARTITION",
        )
    _, code, counts = np.unique(bucket_of_entry, return_inverse=True, return_counts=True)
    crowded = np.flatnonzero(counts[code.reshape(-1)] > 1)
    if not len(crowded):
        return None
    cut = _build_sections(ctx, entries.take(crowded) if len(crowded) < len(entries) else entries)
    number = np.repeat(np.arange(len(cut)), cut.sizes)
    section_groups = SectionGroups(
        section_numbers=np.full(len(entries), -1),
        positions=np.zeros(len(entries), np.int64),
        is_in_sequence=cut.is_in_sequence,
    )
    section_groups.section_numbers[crowded[cut.files]] = np.where(cut.sizes[number] > 1, number, -1)
    section_groups.positions[crowded[cut.files]] = np.arange(len(number))
    return section_groups


def group_merged_buckets(entries: ManifestEntries, group: SectionGroups) -> tuple[MergedBucket, ...]:
    """Return the overlapping files of each bucket."""
    inside = np.flatnonzero(group.section_numbers >= 0)
    if not len(inside):
        return ()
    inside = inside[np.argsort(group.positions[inside])]
    bucket_of_file = bucket_codes(entries)[inside]
    starts = np.flatnonzero(np.append(True, bucket_of_file[1:] != bucket_of_file[:-1]))
    ordered = np.logical_and.reduceat(group.is_in_sequence[group.section_numbers[inside]], starts)
    merged = []
    for files, in_order in zip(np.split(inside, starts[1:]), ordered, strict=True):
        partition, bucket = bucket_id_at(entries, int(files[0]))
        merged.append(
            MergedBucket(
                partition=partition,
                bucket=bucket,
                files=tuple(int(index) for index in files),
                is_in_sequence=bool(in_order),
            )
        )
    return tuple(merged)


def _build_sections(ctx: TableContext, entries: ManifestEntries) -> Sections:
    types = [field.type for field in ctx.schema.key_fields]
    return sorted_runs.build_sections(
        binary_row.decode_columns(entries.column("min_key"), types),
        binary_row.decode_columns(entries.column("max_key"), types),
        levels=entries.integers("level"),
        min_sequence=entries.integers("min_sequence_number"),
        max_sequence=entries.integers("max_sequence_number"),
        buckets=bucket_codes(entries),
    )


# ---- snapshot diff ------------------------------------------------------------


SYSTEM_COLUMNS = (KIND, SEQUENCE)
BUCKET: Final = GROUP
_DELETE_KIND = 3


def diff_frames(before: pl.LazyFrame, after: pl.LazyFrame, ctx: TableContext, spec: MergeSpec) -> pl.LazyFrame:
    """Return the rows of `after` that `before` does not have, and -D for keys that only `before` has.

    Both frames have the table's columns, `SYSTEM_COLUMNS`, and maybe `BUCKET`.
    """
    key = [*ctx.schema.partition_keys, *spec.key_columns]
    if BUCKET in after.collect_schema():
        key.append(BUCKET)
    others = [name for name in ctx.schema.names if name not in key] + list(SYSTEM_COLUMNS)
    old = before.with_columns(pl.lit(True).alias(BEFORE)).rename({name: _before_name(name) for name in others})
    joined = after.with_columns(pl.lit(True).alias(AFTER)).join(
        old, on=cols(key), how="full", nulls_equal=True, coalesce=True
    )
    schema = after.collect_schema()
    return joined.map_batches(partial(_select_changes, ctx=ctx, spec=spec, names=schema.names()), schema=schema)


def _before_name(name: str) -> str:
    """Return the name of a column of the state before, beside that of the state after."""
    return internal("before", name)


def _select_changes(joined: pl.DataFrame, *, ctx: TableContext, spec: MergeSpec, names: Sequence[str]) -> pl.DataFrame:
    in_after, in_before = joined[AFTER].is_not_null().to_numpy(), joined[BEFORE].is_not_null().to_numpy()
    is_deleted = ~in_after & ~_mask_retractions(joined[_before_name(KIND)])
    changed = joined.filter(
        pl.Series((in_after & ~in_before) | is_deleted | _mask_changed(joined, in_after & in_before, ctx, spec))
    )
    is_there, both = pl.col(AFTER).is_not_null(), set(joined.columns)
    columns = [
        pl.when(is_there).then(col(name)).otherwise(col(_before_name(name))).alias(name)
        if _before_name(name) in both
        else col(name)
        for name in names
    ]
    kind = (
        pl.when(is_there)
        .then(col(_before_name(KIND)))
        .otherwise(pl.lit(_DELETE_KIND, pl.Int8))
        .alias(_before_name(KIND))
    )
    return changed.with_columns(kind).select(columns)


def _mask_retractions(kinds: pl.Series) -> Mask:
    return (kinds.fill_null(0).to_numpy() & 1).astype(bool)


def _mask_changed(joined: pl.DataFrame, both: Mask, ctx: TableContext, spec: MergeSpec) -> Mask:
    """Return the keys of both states that changed, and whose row of `after` comes second.

    A key changed if its values differ, or one of its rows is a delete.
    """
    types, both_states = ctx.schema.types, set(joined.columns)
    values = [name for name in ctx.schema.names if _before_name(name) in both_states]
    unlike = [
        sort_map_entries(col(name), types[name]).ne_missing(sort_map_entries(col(_before_name(name)), types[name]))
        for name in values
    ]
    mask = joined.select(pl.any_horizontal(*unlike) if unlike else pl.lit(value=False)).to_series().to_numpy() & both
    mask |= both & (_mask_retractions(joined[KIND]) != _mask_retractions(joined[_before_name(KIND)]))
    if not mask.any():
        return mask
    order = _compare_sequence(joined, both, spec)
    if (mask & (order == 0)).any():
        order = _break_ties(joined, both, order, ctx, spec)
    changed: Mask = mask & (order > 0)
    return changed


def _compare_sequence(joined: pl.DataFrame, both: Mask, spec: MergeSpec) -> NDArray[np.int8]:
    """Return whether `after` comes second (1) or first (-1) by sequence fields and numbers, 0 for equal ones.

    Only keys that both states have are compared.
    """
    names = [*spec.sequence_fields, SEQUENCE]
    pairs = joined.filter(pl.Series(both))
    older = [col(_before_name(name) if _before_name(name) in pairs.columns else name).alias(name) for name in names]
    sides = [pairs.select(older), pairs.select(cols(names))]
    pair_order, count = np.zeros(len(pairs), np.int8), len(pairs)
    for rank in reversed(row_versions.version_ranks(pl.concat(sides), spec)):
        pair_order = np.where(
            rank[count:] == rank[:count], pair_order, np.where(rank[count:] > rank[:count], 1, -1)
        ).astype(np.int8)
    order = np.zeros(len(both), np.int8)
    order[both] = pair_order
    return order


def _break_ties(
    joined: pl.DataFrame, both: Mask, order: NDArray[np.int8], ctx: TableContext, spec: MergeSpec
) -> NDArray[np.int8]:
    """Return the order with every tie resolved as the reference's loser tree of two leaves resolves it.

    The leaf that did not move last comes first. A lone row's leaf moves last, of a pair the leaf that came first; at
    the start of a bucket that of `before`.
    """
    bucket_of_row = _bucket_ids(joined, ctx)
    partition = cols(ctx.schema.partition_keys)
    at = joined.select(*partition, bucket_of_row.alias(POSITION), *cols(spec.key_columns)).with_row_index(ROW)
    rows = at.sort(cols(at.columns[1:]))[ROW].to_numpy()
    bucket_rank = at.select(pl.struct(*partition, POSITION).rank("dense")).to_series().to_numpy()[rows]
    tie = (both & (order == 0))[rows]
    alone = joined[AFTER].is_not_null().to_numpy()[rows]
    moved = np.where(both[rows], order[rows] < 0, alone)  # whether the leaf of `after` moved last
    number = np.arange(len(rows))
    starts = np.concatenate(([True], bucket_rank[1:] != bucket_rank[:-1]))
    start = np.maximum.accumulate(np.where(starts, number, 0))
    last = np.maximum.accumulate(np.where(tie, -1, number))  # the last event that was no tie
    last = np.where(last < start, -1, last)
    ties = np.cumsum(tie)
    # number of ties between that event, or the start of the bucket, and this tie
    since = ties - np.where(last >= 0, ties[last], ties[start] - tie[start]) - tie
    after_moved = np.where(last >= 0, moved[last], False) ^ (since % 2 == 1)
    settled = order.copy()
    settled[rows[tie]] = np.where(after_moved[tie], 1, -1)
    return settled


def _bucket_ids(joined: pl.DataFrame, ctx: TableContext) -> pl.Series:
    """Return the bucket of each key, from its column or computed from the key."""
    if BUCKET in joined.columns:
        return joined[BUCKET]
    count, schema = ctx.options.bucket, ctx.schema
    if count <= 1:
        return pl.zeros(joined.height, pl.Int32, eager=True)
    keys = [schema.field(name) for name in schema.bucket_keys]
    return pl.Series(
        hashing.assign_buckets("default", [joined[f.name].to_arrow() for f in keys], [f.type for f in keys], count)
    )
