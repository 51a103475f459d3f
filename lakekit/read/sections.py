"""Which files of a key table overlap: sections of several runs are merged, everything else is read as it lies (ENGINE 2.5, 6.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.files.places import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lakekit.meta.handle import Handle
    from lakekit.model.entries import Entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Files of one bucket whose keys overlap, as indices into a plan's entries, oldest versions first.

    `in_order`: sequence numbers rise from file to file, so that the order of the files is the order of the versions.
    """

    partition: bytes
    bucket: int
    files: tuple[int, ...]
    in_order: bool


def places(entries: Entries) -> NDArray[np.int64]:
    """A number for each (partition, bucket), equal for equal places."""
    partition = entries.column("partition").dictionary_encode().indices.to_numpy().astype(np.int64)
    bucket = entries.numbers("bucket").astype(np.int64)
    return (partition << 32) + bucket


def hides_level_zero(handle: Handle) -> bool:
    """Whether batch reads wait for level 0 to be compacted: under first-row, and where deletion vectors say which versions are old (ENGINE 2.10)."""
    options = handle.options
    return options.merge_engine == "first-row" or (options.deletion_vectors_enabled and not options.deletion_vectors_merge_on_read)


def groups(handle: Handle, entries: Entries) -> NDArray[np.int64]:
    """For each entry the number of its section when it has several runs, -1 when it stands alone.

    Deletion vectors and first-row leave one version of a key above level 0: nothing there needs a merge.
    """
    alone = np.full(len(entries), -1)
    if len(entries) < 2 or hides_level_zero(handle):
        return alone
    place = places(entries)
    order = np.argsort(place, kind="stable")
    _, starts, counts = np.unique(place[order], return_index=True, return_counts=True)
    crowded = order[np.repeat(counts > 1, counts)]
    if not len(crowded):
        return alone
    types = [field.type for field in handle.schema.key_fields]
    low = binary_row.decode_columns(entries.column("min_key").take(crowded), types)
    high = binary_row.decode_columns(entries.column("max_key").take(crowded), types)
    alone[crowded] = overlaps(low, high, place[crowded])
    return alone


def overlaps(low: list[pa.Array], high: list[pa.Array], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each key range of a place the number of the section it overlaps with others in, -1 when it overlaps none (ENGINE 2.5, `IntervalPartition`)."""
    count = len(place)
    rank = ranks([pa.concat_arrays([a, b]) for a, b in zip(low, high, strict=True)])
    _, place = np.unique(place, return_inverse=True)
    base = place.reshape(-1).astype(np.int64) * (int(rank.max(initial=0)) + 1)
    begins, ends = base + rank[:count], base + rank[count:]
    order = np.lexsort((ends, begins))
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    section = np.concatenate([[0], np.cumsum(begins[1:] > reached[:-1])])
    found = np.empty(count, np.int64)
    found[order] = np.where(np.bincount(section)[section] > 1, section, -1)
    return found


def ranks(columns: list[pa.Array]) -> NDArray[np.int64]:
    """A number for each row, in the order of the rows: column by column, nulls first."""
    frame = pl.DataFrame([pl.Series(str(at), column) for at, column in enumerate(columns)])
    ordered = frame.with_row_index("row").sort(frame.columns)
    values = ordered.select(frame.columns)
    changed = values.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
    changed[:1] = False
    found = np.empty(frame.height, np.int64)
    found[ordered["row"].to_numpy()] = np.cumsum(changed)
    return found


def buckets(entries: Entries, group: NDArray[np.int64]) -> tuple[Bucket, ...]:
    """The overlapping files of each bucket, oldest versions first."""
    inside = np.flatnonzero(group >= 0)
    if not len(inside):
        return ()
    place = places(entries)[inside]
    first, last = entries.numbers("min_sequence_number")[inside], entries.numbers("max_sequence_number")[inside]
    order = np.lexsort((last, first, place))
    inside, place, first, last = inside[order], place[order], first[order], last[order]
    found = []
    for files, low, high in _cut(place, inside, first, last):
        partition, bucket = place_of(entries, int(files[0]))
        found.append(Bucket(partition=partition, bucket=bucket, files=tuple(int(at) for at in files), in_order=bool((low[1:] > high[:-1]).all())))
    return tuple(found)


def _cut(place: NDArray[np.int64], *columns: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Each column in pieces of equal place."""
    ends = np.flatnonzero(np.diff(place)) + 1
    return zip(*(np.split(column, ends) for column in columns), strict=True)
