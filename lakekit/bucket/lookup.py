"""Lookup of older rows in the levels above a compaction's output, and the changelog made of them.

    keys 3 5 9        L4 |1 3 7|   3 is there             -> row of 3, file a, position 1
                      L5 |3 5 8|   3 has been found; 5    -> row of 5, file b, position 1          9 is new

Levels are searched lowest first: the first hit of a key is its newest row there, and a delete is a hit. Files whose key
range holds none of the keys are not opened. Of the others the key columns alone are read; then, if other columns are
wanted, the rows that were hit. Rows that deletion vectors delete are no hits.

Keys of a single integer column are cached between lookups: files never change, and every upsert to a table with lookups
looks in them again. The keys are read from the file each time if they are not one integer column, or if only few keys
of a big file are looked up. The cache shares the budget of decoded metadata (`runtime.metadata_cache`).

    merge_for_full_compaction(section, …)   row before: that of the last level
    merge_with_lookup(section, …)           row before: that of the lowest level above 0, or found in higher levels
    merge_first_rows(section, …)            keys that are in no level above 0

A section holds all versions of its keys among the compacted files, oldest run first: the table's columns,
`_SEQUENCE_NUMBER`, `_VALUE_KIND` and, except for the plain merge, `_level`. Each function returns the merged rows,
deletes included, and the changelog: frames of the table's columns, `_SEQUENCE_NUMBER` and `_VALUE_KIND`, not in key
order; in the changelog the row before is in front of the row after.

Source: ENGINE.md 2.7, 3.1 and 4.1; `LookupLevels`, whose local files are the cache, `LookupUtils`,
`RemoteLookupFileManager`, `FullChangelogMergeFunctionWrapper`, `LookupChangelogMergeFunctionWrapper`,
`FirstRowMergeFunctionWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from lakekit.bucket import merge_read
from lakekit.bucket.merge_read import SYSTEM_DTYPES
from lakekit.bucket.write_buffer import sort_by_key
from lakekit.columns import KEY, LEVEL, POSITION, ROW, col, cols
from lakekit.data_file.paths import data_file_path
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import merge, numpy_columns as keyed
from lakekit.lsm.numpy_columns import float_bits, is_whole, min_max_literals, physical_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.lsm.compaction_picker import SortedRun
    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.types import Field


MAX_CACHED_FILE_ROWS = 2_000_000
"""The keys of a file with more rows are not cached: they would evict everything else."""
MIN_CACHED_SPAN = 0.25
"""All keys of a file are read into the cache if the keys looked up cover at least this share of its key range.

Below it, reading the file with its statistics skips most of it.
"""


def to_integer_keys(keys: pl.DataFrame) -> Ints | None:
    """Return the keys as ascending, distinct integers; None if they are not a single integer column."""
    if keys.width != 1:
        return None
    column = keys.to_series()
    if not is_whole(column.dtype) or column.null_count():
        return None
    numbers = np.sort(physical_values(column).astype(np.int64), kind="stable")
    return numbers[np.append(True, numbers[1:] != numbers[:-1])] if len(numbers) else numbers


def find_rows_by_cached_keys(
    ctx: TableContext, file: DataFileMeta, path: str, key_numbers: Ints, *, span: float
) -> tuple[Ints, Ints] | None:
    """Look up ascending keys in the cached keys of a file, which are loaded first if that is worth it.

    Return the indices into `key_numbers` of the keys that the file has, and the row of each in the file; None if its
    keys are not cached, so that the file must be read. `span` is the share of the file's key range that the keys cover.
    Raises what reading files raises.
    """
    file_keys = _load_keys(ctx, file, path, span)
    if file_keys is None or not len(file_keys):
        return None
    rows: Ints = np.searchsorted(file_keys, key_numbers)
    rows[rows == len(file_keys)] = 0
    indices = np.flatnonzero(file_keys[rows] == key_numbers)
    return indices, rows[indices]


def cache_keys(ctx: TableContext, path: str, keys: pl.DataFrame) -> None:
    """Cache the keys of a file that was just written, in file order, if they are a single integer column."""
    if keys.width == 1 and is_whole(keys.to_series().dtype) and keys.height <= MAX_CACHED_FILE_ROWS:
        _cache_integer_keys(ctx, path, keys.to_series())


def cached_key_range(ctx: TableContext, path: str) -> tuple[int, int] | None:
    """Return the smallest and the greatest key of a file; None if its keys are not cached."""
    cached: Ints | None = ctx.runtime.metadata_cache.get(_cache_key(ctx, path))
    return None if cached is None or not len(cached) else (int(cached[0]), int(cached[-1]))


def _cache_key(ctx: TableContext, path: str) -> tuple[object, ...]:
    return "keys", ctx.storage, path, ctx.schema.id


def _load_keys(ctx: TableContext, file: DataFileMeta, path: str, span: float) -> Ints | None:
    key = _cache_key(ctx, path)
    cached: Ints | None = ctx.runtime.metadata_cache.get(key)
    if cached is not None:
        return cached
    if file.row_count > MAX_CACHED_FILE_ROWS or span < MIN_CACHED_SPAN:
        return None
    with translate_polars_errors(ctx, [path]):
        column = scan_files(ctx, [file], [path], ctx.schema.key_fields).collect().to_series()
    return _cache_integer_keys(ctx, path, column)


def _cache_integer_keys(ctx: TableContext, path: str, column: pl.Series) -> Ints | None:
    """Cache the keys of a file; None if they cannot be searched."""
    if column.null_count():
        return None
    numbers = physical_values(column).astype(np.int64)
    if (numbers[1:] <= numbers[:-1]).any():  # not sorted, so that binary search would miss rows
        return None
    ctx.runtime.metadata_cache.put({_cache_key(ctx, path): numbers}, numbers.nbytes)
    return numbers


# ---- lookup ------------------------------------------------------------


MAX_LOOKUP_ROWS = 4_000_000
"""The most rows whose keys are searched at once; a file with more is searched by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupLevels:
    """The runs of one bucket in which older rows are looked up.

    `runs` are the levels above 0, lowest first (`LsmLevels.above`); `deleted_positions` are the positions that deletion
    vectors delete, by file name.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    runs: tuple[SortedRun, ...]
    deleted_positions: Mapping[str, NDArray[np.unsignedinteger]] = field(default_factory=dict)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the key columns."""
        return self.ctx.schema.trimmed_primary_keys

    def file_path(self, file: DataFileMeta) -> str:
        """Return the path of a file."""
        return data_file_path(self.ctx, self.partition, self.bucket, file)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupResult:
    """The older rows of the keys that have one, in no particular order, and their positions.

    `positions` are ascending, by file name.
    """

    rows: pl.DataFrame
    positions: Mapping[str, NDArray[np.int64]]


def look_up_rows(lookup_levels: LookupLevels, keys: pl.DataFrame, columns: Sequence[str]) -> LookupResult:
    """Return for each key its newest row in these levels: `columns`, then a column with its level.

    `keys` needs the key columns only; `columns` are of the table or of `SYSTEM_DTYPES`. Raises `Corrupt`,
    `FileMissing`, `Unsupported`, as reading does.
    """
    if not lookup_levels.runs or not keys.height:
        return LookupResult(rows=_empty_rows(lookup_levels, columns), positions={})
    numbers = to_integer_keys(pl.DataFrame([keys.get_column(name) for name in lookup_levels.key_columns]))
    result = None if numbers is None else _look_up_integers(lookup_levels, numbers, columns)
    return (
        _look_up_by_join(lookup_levels, keys.unique(cols(lookup_levels.key_columns)), columns)
        if result is None
        else result
    )


def _look_up_integers(lookup_levels: LookupLevels, key_numbers: Ints, columns: Sequence[str]) -> LookupResult | None:
    """Return the rows of ascending integer keys, by the cached keys of files; None if a file must be read for it."""
    parts = [_empty_rows(lookup_levels, columns)]
    positions: dict[str, Ints] = {}
    for run in lookup_levels.runs:
        low, high = _integer_key_bounds(lookup_levels, run.files)
        is_hit = np.zeros(len(key_numbers), bool)
        hit_positions: dict[str, Ints] = {}
        starts, ends = np.searchsorted(key_numbers, low), np.searchsorted(key_numbers, high, side="right")
        for at in np.flatnonzero(starts < ends):
            file, start, end = run.files[at], starts[at], ends[at]
            span = (int(key_numbers[end - 1]) - int(key_numbers[start])) / max(1, int(high[at]) - int(low[at]))
            hits = find_rows_by_cached_keys(
                lookup_levels.ctx, file, lookup_levels.file_path(file), key_numbers[start:end], span=span
            )
            if hits is None:
                return None
            indices, rows = hits
            if file.name in lookup_levels.deleted_positions:
                stay = ~_mask_deleted(rows, lookup_levels.deleted_positions[file.name])
                indices, rows = indices[stay], rows[stay]
            if len(rows):
                is_hit[start + indices] = True
                hit_positions[file.name] = rows
        if not hit_positions:
            continue
        key_numbers = key_numbers[~is_hit]
        positions |= hit_positions
        level = pl.Series(LEVEL, np.full(int(is_hit.sum()), run.level, np.int32))
        parts.append(
            _read_rows_at(lookup_levels, run.files, hit_positions, columns).with_columns(level)
            if columns
            else level.to_frame()
        )
    return LookupResult(rows=pl.concat(parts), positions=positions)


def _integer_key_bounds(lookup_levels: LookupLevels, files: Sequence[DataFileMeta]) -> tuple[Ints, Ints]:
    """Return the smallest and the greatest key of each file, as integers."""
    cached = [cached_key_range(lookup_levels.ctx, lookup_levels.file_path(file)) for file in files]
    if None not in cached:
        ranges = np.array(cached, np.int64)
        return ranges[:, 0], ranges[:, 1]
    both = merge_read.decode_keys(
        lookup_levels.ctx, [*(file.min_key for file in files), *(file.max_key for file in files)]
    ).to_series()
    numbers = physical_values(both).astype(np.int64)
    return numbers[: len(files)], numbers[len(files) :]


def _mask_deleted(row_numbers: Ints, deleted_rows: NDArray[np.unsignedinteger]) -> Bools:
    """Return which rows are among the deleted ones; both are ascending."""
    indices = np.searchsorted(deleted_rows, row_numbers.astype(deleted_rows.dtype))
    indices[indices == len(deleted_rows)] = 0
    return deleted_rows[indices] == row_numbers if len(deleted_rows) else np.zeros(len(row_numbers), bool)


def _look_up_by_join(lookup_levels: LookupLevels, keys: pl.DataFrame, columns: Sequence[str]) -> LookupResult:
    """Return the rows of distinct keys of any columns, by reading the keys of files."""
    left = _float_keys_as_bits(keys.select(cols(lookup_levels.key_columns)))
    parts = [_empty_rows(lookup_levels, columns)]
    positions: dict[str, Ints] = {}
    for run in lookup_levels.runs:
        for files in _group_files(_select_overlapping(lookup_levels, run.files, keys) if left.height else []):
            hits = _join_with_files(lookup_levels, files, left)
            if not hits.height:
                continue
            left = left.join(
                hits, on=cols(lookup_levels.key_columns), how="anti", nulls_equal=True, maintain_order="left"
            )
            where = _split_positions_by_file(files, hits[ROW].to_numpy())
            positions |= where
            level = pl.repeat(run.level, hits.height, dtype=pl.Int32, eager=True).alias(LEVEL)
            parts.append(
                _read_rows_at(lookup_levels, files, where, columns).with_columns(level) if columns else level.to_frame()
            )
    return LookupResult(rows=pl.concat(parts), positions=positions)


def _select_overlapping(
    lookup_levels: LookupLevels, files: Sequence[DataFileMeta], keys: pl.DataFrame
) -> list[DataFileMeta]:
    """Return the files whose key range holds one of the keys, by sorting all bounds and keys together."""
    low = merge_read.decode_keys(lookup_levels.ctx, [file.min_key for file in files])
    high = merge_read.decode_keys(lookup_levels.ctx, [file.max_key for file in files])
    kinds = np.repeat([0, 1, 2], [len(files), keys.height, len(files)])
    numbers = np.concatenate([np.arange(len(files)), np.zeros(keys.height, np.int64), np.arange(len(files))])
    # lower bounds sort before equal keys, upper bounds after them
    every = pl.concat([low, keys.select(cols(lookup_levels.key_columns)), high]).with_columns(
        pl.Series(POSITION, np.arange(len(kinds)))
    )
    order = sort_by_key(every, lookup_levels.key_columns)[POSITION].to_numpy()
    kinds, numbers = kinds[order], numbers[order]
    passed = np.cumsum(kinds == 1)
    before, until = np.empty(len(files), np.int64), np.empty(len(files), np.int64)
    before[numbers[kinds == 0]] = passed[kinds == 0]
    until[numbers[kinds == 2]] = passed[kinds == 2]
    return [file for file, start, end in zip(files, before, until, strict=True) if end > start]


def _group_files(files: Sequence[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
    """Yield groups of files to be searched at once."""
    group: list[DataFileMeta] = []
    for file in files:
        if group and sum(grouped.row_count for grouped in group) + file.row_count > MAX_LOOKUP_ROWS:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _join_with_files(lookup_levels: LookupLevels, files: Sequence[DataFileMeta], left: pl.DataFrame) -> pl.DataFrame:
    """Return the keys of `left` that are in the files, with their row numbers counted over all the files."""
    ctx, paths = lookup_levels.ctx, [lookup_levels.file_path(file) for file in files]
    first = lookup_levels.key_columns[0]
    bounds = []
    if ctx.schema.field(first).type.root not in ("FLOAT", "DOUBLE") and not left[first].null_count():
        bounds = [col(first).is_between(*min_max_literals(left[first]))]
    deleted = {
        file.name: lookup_levels.deleted_positions[file.name]
        for file in files
        if file.name in lookup_levels.deleted_positions
    }
    scan = scan_files(ctx, files, paths, ctx.schema.key_fields, deleted_rows=deleted, row_index=ROW, filters=bounds)
    with translate_polars_errors(ctx, paths):
        keys = scan.collect()
    return _float_keys_as_bits(keys).join(
        left, on=cols(lookup_levels.key_columns), how="semi", nulls_equal=True, maintain_order="left"
    )


def _split_positions_by_file(
    files: Sequence[DataFileMeta], rows: NDArray[np.unsignedinteger]
) -> dict[str, NDArray[np.int64]]:
    """Convert row numbers over all files to positions in each file that has any."""
    starts = np.cumsum([0, *(file.row_count for file in files)])
    placed = np.sort(rows.astype(np.int64))
    cuts = np.searchsorted(placed, starts)
    parts = ((file.name, placed[cuts[at] : cuts[at + 1]] - starts[at]) for at, file in enumerate(files))
    return {name: positions for name, positions in parts if len(positions)}


def _read_rows_at(
    lookup_levels: LookupLevels,
    files: Sequence[DataFileMeta],
    positions_by_file: Mapping[str, NDArray[np.int64]],
    columns: Sequence[str],
) -> pl.DataFrame:
    ctx = lookup_levels.ctx
    hit = [file for file in files if file.name in positions_by_file]
    paths = [lookup_levels.file_path(file) for file in hit]
    fields = [ctx.schema.field(name) for name in columns if name not in SYSTEM_DTYPES]
    masks = {name: positions.astype(np.uint64) for name, positions in positions_by_file.items()}
    scan = scan_files(
        ctx, hit, paths, fields, system=[name for name in columns if name in SYSTEM_DTYPES], selected_rows=masks
    )
    with translate_polars_errors(ctx, paths):
        return scan.select(cols(columns)).collect()


def _empty_rows(lookup_levels: LookupLevels, columns: Sequence[str]) -> pl.DataFrame:
    types = polars_schema(lookup_levels.ctx.schema.fields) | SYSTEM_DTYPES | {LEVEL: pl.Int32()}
    return pl.DataFrame(schema={name: types[name] for name in (*columns, LEVEL)})


def _float_keys_as_bits(keys: pl.DataFrame) -> pl.DataFrame:
    """Return the keys with floats as integers that are equal where the reference considers the floats equal."""
    floats = [name for name, dtype in keys.schema.items() if dtype.is_float()]
    return keys.with_columns(float_bits(keys[name]) for name in floats) if floats else keys


# ---- changelog ------------------------------------------------------------


_LOOKUP_LEVEL = np.iinfo(np.int32).max
"""The level given to looked-up rows in a merge: above all others."""


class PreviousRows(Protocol):
    """The hook of lookup compaction: finds the rows that keys have in the levels above the output level.

    A compaction calls it once for each section, or slice of one, with the distinct keys that are in level 0 and in no
    compacted file above level 0: a frame of the key columns, by name, in no order. It returns at most one row for each
    key, from the lowest level that has the key, in any order: the table's columns, `_SEQUENCE_NUMBER`, `_VALUE_KIND`;
    for first-row the key columns are enough. Keys that are in no level are left out.

    With deletion vectors it also records the position of every row it found. The compacted files replace that row, so
    it is marked as deleted in its old file. If only positions matter (deduplicate without sequence fields and without a
    changelog) it may return no rows.
    """

    def __call__(self, keys: pl.DataFrame) -> pl.DataFrame: ...


def no_previous_rows(keys: pl.DataFrame) -> pl.DataFrame:
    """Return no rows: the hook of a compaction into the last level, above which there is nothing."""
    return keys.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """The distinct keys of a section, numbered.

    `key_numbers` is the key number of every row. `row_numbers` are all row indices, grouped by key; the group of each
    key begins at `starts`.
    """

    key_numbers: Ints
    row_numbers: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def any_row(self, mask: Bools) -> Bools:
        """Return which keys have a row that is set in the mask."""
        keys_in_mask = np.zeros(len(self), bool)
        keys_in_mask[self.key_numbers[mask]] = True
        return keys_in_mask


def merge_for_full_compaction(
    section: pl.DataFrame, spec: MergeSpec, max_level: int, compared_fields: Sequence[Field] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the merged rows, and the changelog against the last level.

    A key that is in the last level only has no row in the changelog.
    """
    groups = _group_by_key(section, spec)
    below = section[LEVEL].to_numpy() != max_level
    touched = groups.any_row(below)
    result = _merge_with_key_numbers(section, groups, spec)
    before = np.flatnonzero(~below & touched[groups.key_numbers])
    return result.drop(KEY), _build_changelog(
        section[before].drop(LEVEL), groups.key_numbers[before], result, touched, compared_fields
    )


def merge_with_lookup(
    section: pl.DataFrame,
    spec: MergeSpec,
    find_previous_rows: PreviousRows,
    *,
    compared_fields: Sequence[Field] | None,
    writes_changelog: bool,
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return level 0 merged with the previous row of each key, and, if `writes_changelog`, the changelog.

    Of the rows above level 0 only that of the lowest level takes part. If there is none, the row that
    `find_previous_rows` finds takes part. Rows that are the only one of their key are merged too.
    """
    spec = replace(spec, needs_lookup=True, merges_single_versions=True)
    groups = _group_by_key(section, spec)
    levels = section[LEVEL].to_numpy()
    high = _lowest_level_rows(levels, groups)
    previous_rows, number = _look_up_previous(section, spec, groups, high < 0, find_previous_rows)
    touched = groups.any_row(levels == 0)
    older = previous_rows.with_columns(pl.lit(_LOOKUP_LEVEL, pl.Int32).alias(LEVEL)).select(cols(section.columns))
    versions = pl.concat([older, section])
    numbers = np.concatenate([number, groups.key_numbers])
    result = merge.merge_section(versions.with_columns(pl.Series(KEY, numbers)), spec, keep_deletes=True)
    if not writes_changelog:
        return result.drop(KEY), None
    inside = high[touched & (high >= 0)]
    before = pl.concat([older, section[inside]]).drop(LEVEL)
    return result.drop(KEY), _build_changelog(
        before, np.concatenate([number, groups.key_numbers[inside]]), result, touched, compared_fields
    )


def merge_first_rows(
    section: pl.DataFrame, spec: MergeSpec, find_previous_rows: PreviousRows, *, writes_changelog: bool
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the first row of each key that is in no level above 0, and, if `writes_changelog`, the changelog.

    The changelog holds the rows that are new to the table, as they are stored.
    """
    spec = replace(spec, merges_single_versions=True)
    groups = _group_by_key(section, spec)
    above_level_0 = groups.any_row(section[LEVEL].to_numpy() > 0)
    _, number = _look_up_previous(section, spec, groups, ~above_level_0, find_previous_rows)
    elsewhere = np.zeros(len(groups), bool)
    elsewhere[number] = True
    result = _merge_with_key_numbers(section, groups, spec)
    mine = result[KEY].to_numpy()
    new_rows = result.drop(KEY).filter(pl.Series(~elsewhere[mine]))
    return new_rows, result.drop(KEY).filter(
        pl.Series(~(elsewhere | above_level_0)[mine])
    ) if writes_changelog else None


# ---- keys of a section -----------------------------------------------------------------------------------------------


def _group_by_key(section: pl.DataFrame, spec: MergeSpec) -> KeyGroups:
    rows, starts = keyed.key_blocks(keyed.encode_keys(section, spec.key_columns))
    number = np.empty(section.height, np.int64)
    number[rows] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    return KeyGroups(key_numbers=number, row_numbers=rows, starts=starts)


def _merge_with_key_numbers(section: pl.DataFrame, groups: KeyGroups, spec: MergeSpec) -> pl.DataFrame:
    """Return the merged rows with a column of their key numbers, which the merge takes from the newest row."""
    return merge.merge_section(section.with_columns(pl.Series(KEY, groups.key_numbers)), spec, keep_deletes=True)


def _lowest_level_rows(levels: Array, groups: KeyGroups) -> Ints:
    """Return for each key the row of its lowest level above 0; -1 where it has none."""
    placed = levels[groups.row_numbers].astype(np.int64)
    ranked = np.where(placed > 0, placed, np.iinfo(np.int64).max)
    row_of_key = np.full(len(groups), -1, np.int64)
    if len(groups):
        lowest = np.repeat(
            np.minimum.reduceat(ranked, groups.starts), np.diff(groups.starts, append=len(groups.row_numbers))
        )
        lowest_rows = groups.row_numbers[(placed > 0) & (placed == lowest)]
        row_of_key[groups.key_numbers[lowest_rows]] = lowest_rows
    return row_of_key


def _look_up_previous(
    section: pl.DataFrame, spec: MergeSpec, groups: KeyGroups, is_searched: Bools, find_previous_rows: PreviousRows
) -> tuple[pl.DataFrame, Ints]:
    """Return the previous rows of the wanted keys, and the key number of each of those rows."""
    numbers = np.flatnonzero(is_searched)
    if not len(numbers):
        return section.drop(LEVEL).clear(), np.zeros(0, np.int64)
    keys = section[groups.row_numbers[groups.starts[numbers]]].select(cols(spec.key_columns))
    previous_rows = find_previous_rows(keys)
    if not previous_rows.height:
        return section.drop(LEVEL).clear(), np.zeros(0, np.int64)
    # keys and previous rows together, sorted by key: a previous row comes right after the key looked up
    both = pl.concat([keys, previous_rows.select(cols(spec.key_columns))])
    rows, starts = keyed.key_blocks(keyed.encode_keys(both, spec.key_columns))
    first = np.empty(len(rows), np.int64)
    first[rows] = np.repeat(rows[starts], np.diff(starts, append=len(rows)))
    return previous_rows, numbers[first[keys.height :]]


def _build_changelog(
    before: pl.DataFrame,
    key_numbers: Ints,
    result: pl.DataFrame,
    is_touched: Bools,
    compared_fields: Sequence[Field] | None,
) -> pl.DataFrame:
    """Return the changelog of the keys that are set in `is_touched`."""
    after = result if is_touched.all() else result.filter(pl.Series(is_touched[result[KEY].to_numpy()]))
    states = key_numbers, after[KEY].to_numpy()
    return merge.changelog_between(before, after.drop(KEY), states, len(is_touched), compared_fields)
