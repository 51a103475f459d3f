"""Partitions of manifests as ranges: what a manifest list says of its manifests, and which manifests may hold a partition.

Values compare as Java's do: texts by their bytes, NaN above everything; binary values have no order and so no bounds (FORMAT 4.2 and 7.7).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from math import copysign, isnan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lakekit.codec import binary_row
from lakekit.model.data_file import Stats
from lakekit.model.manifests import ManifestFileMeta
from lakekit.types import BINARIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.types import Field

    Values = tuple[Any, ...]


def values_of(partitions: Iterable[bytes], fields: Sequence[Field]) -> list[Values]:
    """The values of serialized partitions. Raises `Corrupt`."""
    types = [field.type for field in fields]
    return [binary_row.decode(binary_row.strip_arity(row)[1], types) if types else () for row in partitions]


def stats_of_partitions(counts: Mapping[bytes, int], fields: Sequence[Field]) -> Stats:
    """The bounds of serialized partitions, and how often they are null, each counted so many times."""
    if not fields:
        return Stats()
    found = zip(values_of(counts, fields), counts.values(), strict=True)
    return _stats([(row, row, tuple(number * (value is None) for value in row)) for row, number in found], fields)


def merge_manifest_metas(files: Sequence[ManifestFileMeta], *, name: str, size_bytes: int, fields: Sequence[Field]) -> ManifestFileMeta:
    """What a list says of a manifest that holds the entries of several."""
    return ManifestFileMeta(
        name=name,
        size_bytes=size_bytes,
        num_added_files=sum(file.num_added_files for file in files),
        num_deleted_files=sum(file.num_deleted_files for file in files),
        partition_stats=_stats([_range(file, fields) for file in files], fields) if fields else Stats(),
        schema_id=max(file.schema_id for file in files),
        min_bucket=_reduce_if_known(min, [file.min_bucket for file in files]),
        max_bucket=_reduce_if_known(max, [file.max_bucket for file in files]),
        min_level=_reduce_if_known(min, [file.min_level for file in files]),
        max_level=_reduce_if_known(max, [file.max_level for file in files]),
        min_row_id=_reduce_if_known(min, [file.min_row_id for file in files]),
        max_row_id=_reduce_if_known(max, [file.max_row_id for file in files]),
    )


def may_hold(file: ManifestFileMeta, partitions: Sequence[Values], fields: Sequence[Field]) -> bool:
    """Whether a manifest may have entries of one of the partitions."""
    if not fields:
        return True
    low, high, nulls = _range(file, fields)
    return any(all(_is_in_range(*one) for one in zip(values, low, high, nulls, strict=True)) for values in partitions)


def filter_manifests(files: Iterable[ManifestFileMeta], partitions: Iterable[Values], fields: Sequence[Field]) -> list[ManifestFileMeta]:
    """Those manifests that `may_hold` one of the partitions, in order. Many of both cost little: partitions are looked up by their first value."""
    if not fields:
        return list(files)
    rows = list(partitions)
    nulls = [row for row in rows if row[0] is None]
    known = sorted(((_order(row[0]), row) for row in rows if row[0] is not None), key=itemgetter(0))
    firsts = [first for first, _ in known]

    def holds(file: ManifestFileMeta) -> bool:
        low, high, counts = _range(file, fields)
        some = nulls if counts[0] is None or counts[0] > 0 else []
        start, end = 0, len(known)
        if low[0] is not None and high[0] is not None:
            start, end = bisect_left(firsts, _order(low[0])), bisect_right(firsts, _order(high[0]))
        if len(fields) == 1:
            return bool(some) or start < end
        others = list(zip(low, high, counts, strict=True))[1:]
        return any(
            all(_is_in_range(value, *one) for value, one in zip(row[1:], others, strict=True))
            for row in chain(some, (known[at][1] for at in range(start, end)))
        )

    return [file for file in files if holds(file)]


def _is_in_range(value: Any, low: Any, high: Any, nulls: int | None) -> bool:
    if value is None:
        return nulls is None or nulls > 0
    if low is None or high is None:
        return True  # only nulls, or nobody knows
    return bool(_order(low) <= _order(value) <= _order(high))


def _range(file: ManifestFileMeta, fields: Sequence[Field]) -> tuple[Values, Values, tuple[int | None, ...]]:
    low, high = values_of((file.partition_stats.min_values, file.partition_stats.max_values), fields)
    nulls = file.partition_stats.null_counts
    return low, high, nulls if nulls is not None and len(nulls) == len(fields) else (None,) * len(fields)


def _stats(found: Sequence[tuple[Values, Values, tuple[int | None, ...]]], fields: Sequence[Field]) -> Stats:
    """The bounds of several ranges."""
    low: list[Any] = []
    high: list[Any] = []
    nulls: list[int | None] = []
    for at, field in enumerate(fields):
        lows = [row[0][at] for row in found if row[0][at] is not None]
        highs = [row[1][at] for row in found if row[1][at] is not None]
        ordered = lows and field.type.root not in BINARIES
        low.append(min(lows, key=_order) if ordered else None)
        high.append(max(highs, key=_order) if ordered else None)
        counts = [row[2][at] for row in found]
        nulls.append(None if None in counts else sum(number or 0 for number in counts))
    types = [field.type for field in fields]
    rows = [binary_row.with_arity(binary_row.encode(row, types), len(types)) for row in (low, high)]
    return Stats(min_values=rows[0], max_values=rows[1], null_counts=tuple(nulls))


def _order(value: Any) -> Any:
    """What compares as Java compares the value."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, float):
        return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))  # two NaN are one value
    return value


def _reduce_if_known(choose: Any, numbers: list[int | None]) -> int | None:
    """The smallest or greatest of numbers; None where one is not known."""
    return None if None in numbers else choose(numbers)
