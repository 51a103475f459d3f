"""Partition ranges of manifests: their statistics, and which manifests may contain a partition.

Values compare as Java's do: texts by their bytes, NaN above everything; binary values have no order and so no bounds
(FORMAT 4.2 and 7.7).

Decide whether `partition.expiration-time` removes a partition, by the time in its values.

A commit that replaces files of such a partition fails with an error of its own: the files were removed with the
partition, and would be again.

Source: ENGINE.md 5.5 (3a) and 5.12; `PartitionExpire.isValueAllExpired`, `PartitionValuesTimeExpireStrategy`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from math import copysign, isnan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lakekit.codec import binary_row
from lakekit.data_file.paths import partition_values
from lakekit.model import partition as partitions
from lakekit.model.data_file import Stats
from lakekit.model.manifests import ManifestFileMeta
from lakekit.model.partition import time_ms
from lakekit.runtime import wall_clock_ms
from lakekit.types import BINARIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.types import Field

    Values = tuple[Any, ...]


def values_of(partitions: Iterable[bytes], fields: Sequence[Field]) -> list[Values]:
    """Return the values of serialized partitions. Raises `Corrupt`."""
    types = [field.type for field in fields]
    return [binary_row.decode(binary_row.strip_arity(row)[1], types) if types else () for row in partitions]


def stats_of_partitions(counts: Mapping[bytes, int], fields: Sequence[Field]) -> Stats:
    """Return the bounds and null counts of serialized partitions; `counts` gives how often each occurs."""
    if not fields:
        return Stats()
    counted_rows = zip(values_of(counts, fields), counts.values(), strict=True)
    return _stats([(row, row, tuple(count * (value is None) for value in row)) for row, count in counted_rows], fields)


def merge_manifest_metas(
    files: Sequence[ManifestFileMeta], *, name: str, size_bytes: int, fields: Sequence[Field]
) -> ManifestFileMeta:
    """Return the metadata of a manifest that holds the entries of several."""
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
    """Return whether a manifest may have entries of one of the partitions."""
    if not fields:
        return True
    low, high, nulls = _range(file, fields)
    return any(
        all(_is_in_range(*value_range) for value_range in zip(values, low, high, nulls, strict=True))
        for values in partitions
    )


def filter_manifests(
    files: Iterable[ManifestFileMeta], partitions: Iterable[Values], fields: Sequence[Field]
) -> list[ManifestFileMeta]:
    """Return the manifests that `may_hold` one of the partitions, in order.

    Partitions are looked up by their first value, so many manifests and many partitions stay cheap.
    """
    if not fields:
        return list(files)
    rows = list(partitions)
    nulls = [row for row in rows if row[0] is None]
    ordered = sorted(((_order(row[0]), row) for row in rows if row[0] is not None), key=itemgetter(0))
    firsts = [first for first, _ in ordered]

    def holds(file: ManifestFileMeta) -> bool:
        low, high, counts = _range(file, fields)
        null_rows = nulls if counts[0] is None or counts[0] > 0 else []
        start, end = 0, len(ordered)
        if low[0] is not None and high[0] is not None:
            start, end = bisect_left(firsts, _order(low[0])), bisect_right(firsts, _order(high[0]))
        if len(fields) == 1:
            return bool(null_rows) or start < end
        other_bounds = list(zip(low, high, counts, strict=True))[1:]
        return any(
            all(_is_in_range(value, *bounds) for value, bounds in zip(row[1:], other_bounds, strict=True))
            for row in chain(null_rows, (ordered[position][1] for position in range(start, end)))
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


def _stats(ranges: Sequence[tuple[Values, Values, tuple[int | None, ...]]], fields: Sequence[Field]) -> Stats:
    """Return the bounds of several ranges."""
    low: list[Any] = []
    high: list[Any] = []
    nulls: list[int | None] = []
    for position, field in enumerate(fields):
        lows = [range_[0][position] for range_ in ranges if range_[0][position] is not None]
        highs = [range_[1][position] for range_ in ranges if range_[1][position] is not None]
        ordered = lows and field.type.root not in BINARIES
        low.append(min(lows, key=_order) if ordered else None)
        high.append(max(highs, key=_order) if ordered else None)
        counts = [range_[2][position] for range_ in ranges]
        nulls.append(None if None in counts else sum(null_count or 0 for null_count in counts))
    types = [field.type for field in fields]
    rows = [binary_row.with_arity(binary_row.encode(range_, types), len(types)) for range_ in (low, high)]
    return Stats(min_values=rows[0], max_values=rows[1], null_counts=tuple(nulls))


def _order(value: Any) -> Any:
    """Return a key that orders the value as Java does."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, float):
        return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))  # two NaN are one value
    return value


def _reduce_if_known(choose: Any, numbers: list[int | None]) -> int | None:
    """Return the smallest or greatest of the numbers; None if one is unknown."""
    return None if None in numbers else choose(numbers)


# ---- expired ------------------------------------------------------------


def is_expired(ctx: TableContext, partition: bytes) -> bool:
    """Return True for a partition past its expiration time.

    Always False without `partition.expiration-time`, and with another strategy than values-time.
    """
    options = ctx.options
    age = options.partition_expiration_time_ms
    if age is None or options.partition_expiration_strategy != "values-time" or not ctx.schema.partition_keys:
        return False
    values, pattern = partition_values(ctx, partition), options.partition_timestamp_pattern
    if any(value is None for value in (values if pattern is not None else values[:1])):
        return False
    types = [field.type for field in ctx.schema.partition_fields]
    texts = partitions.text(values, types, default_name=options.partition_default_name)
    time = time_ms(ctx.schema.partition_keys, texts, pattern=pattern, formatter=options.partition_timestamp_formatter)
    return time is not None and time < wall_clock_ms(ctx.runtime.now_ms()) - age
