"""Which files of a key table overlap: sections of several files are merged, all others are read raw.

Source: ENGINE 2.5, 6.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lakekit.codec import binary_row
from lakekit.data_file.paths import bucket_id_at
from lakekit.errors import Corrupt
from lakekit.lsm import sorted_runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakekit.lsm.sorted_runs import Sections
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries


_SECOND_PARTITION = 1 << 31
"""The least of `bucket_ids` in a second partition: bucket numbers have 32 bits, those of postponed files are negative.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedBucket:
    """Files of one bucket whose keys overlap, as indices into a plan's entries.

    They are ordered section by section, oldest versions first in each. `in_order`: sequence numbers rise from run to
    run of every section, so that the order of the files is the order of the versions of a key.
    """

    partition: bytes
    bucket: int
    files: tuple[int, ...]
    in_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionGroups:
    """The section of each entry.

    `number` is the number of its section if other files share it, else -1; `rank` is its position in the order of
    sections and of age. `in_order` says of each section whether sequence numbers rise from run to run. A section is
    kept or dropped as a whole.
    """

    number: NDArray[np.int64]
    rank: NDArray[np.int64]
    in_order: NDArray[np.bool_]

    def filter(self, mask: NDArray[np.bool_]) -> SectionGroups:
        """Return the groups of the entries in the mask."""
        return replace(self, number=self.number[mask], rank=self.rank[mask])


def bucket_ids(entries: ManifestEntries) -> NDArray[np.int64]:
    """Return a number for each (partition, bucket), equal for equal ones."""
    partition = entries.column("partition").dictionary_encode().indices.to_numpy().astype(np.int64)
    return (partition << 32) + entries.numbers("bucket")


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
    if len(entries) < 2 or (may_hide_level_zero(ctx) and bool((entries.numbers("level") > 0).all())):
        return None
    bucket_of_entry = bucket_ids(entries)
    if not ctx.schema.partition_keys and bucket_of_entry.max() >= _SECOND_PARTITION:
        raise Corrupt(
            "entries of several partitions, and the table has none: versions of a key would not meet",
            field="_PARTITION",
        )
    _, code, counts = np.unique(bucket_of_entry, return_inverse=True, return_counts=True)
    crowded = np.flatnonzero(counts[code.reshape(-1)] > 1)
    if not len(crowded):
        return None
    cut = _sections(ctx, entries.take(crowded) if len(crowded) < len(entries) else entries)
    number = np.repeat(np.arange(len(cut)), cut.sizes)
    section_groups = SectionGroups(
        number=np.full(len(entries), -1), rank=np.zeros(len(entries), np.int64), in_order=cut.in_order
    )
    section_groups.number[crowded[cut.files]] = np.where(cut.sizes[number] > 1, number, -1)
    section_groups.rank[crowded[cut.files]] = np.arange(len(number))
    return section_groups


def merged_buckets(entries: ManifestEntries, group: SectionGroups) -> tuple[MergedBucket, ...]:
    """Return the overlapping files of each bucket."""
    inside = np.flatnonzero(group.number >= 0)
    if not len(inside):
        return ()
    inside = inside[np.argsort(group.rank[inside])]
    bucket_of_file = bucket_ids(entries)[inside]
    starts = np.flatnonzero(np.append(True, bucket_of_file[1:] != bucket_of_file[:-1]))
    ordered = np.logical_and.reduceat(group.in_order[group.number[inside]], starts)
    merged = []
    for files, in_order in zip(np.split(inside, starts[1:]), ordered, strict=True):
        partition, bucket = bucket_id_at(entries, int(files[0]))
        merged.append(
            MergedBucket(
                partition=partition, bucket=bucket, files=tuple(int(index) for index in files), in_order=bool(in_order)
            )
        )
    return tuple(merged)


def _sections(ctx: TableContext, entries: ManifestEntries) -> Sections:
    types = [field.type for field in ctx.schema.key_fields]
    return sorted_runs.sections(
        binary_row.decode_columns(entries.column("min_key"), types),
        binary_row.decode_columns(entries.column("max_key"), types),
        levels=entries.numbers("level"),
        min_sequence=entries.numbers("min_sequence_number"),
        max_sequence=entries.numbers("max_sequence_number"),
        buckets=bucket_ids(entries),
    )
