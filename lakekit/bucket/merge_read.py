"""Merge of the overlapping runs of one bucket: what a merge engine leaves of all versions of each key.

Engines that select rows (deduplicate, first-row) compute one mask of winners from the key columns. Without a condition,
or with one on key columns, keys and payload come from one scan: measured, that costs less than reading the files twice.
A condition on values is applied in the scan of the payload, where it skips row groups; of the versions that satisfy it,
the winners by the keys of all files remain. Engines that compute rows (partial-update, aggregation) read the columns
the fold needs and fold them. Only conditions on key columns may be applied before a fold, and in the scan of the keys:
they keep or drop all versions of a key alike.

A merge too big for `lakekit.merge-memory` is split into key ranges (`split_by_key_range`).

Compactions leave out expired rows by `record-level.expire-time` and the column `record-level.time-field`
(`RecordExpiration`); reads return them until then. A row without a time never expires.

    INT                     seconds since 1970
    BIGINT                  seconds, or milliseconds from 10^12 on
    TIMESTAMP, LTZ          an instant of the clock without a zone, in seconds

Source: ENGINE.md 2.9, `RecordLevelExpire`.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from lakekit import parallel
from lakekit.codec import binary_row
from lakekit.columns import KIND, LEVEL, ROW, SEQUENCE, col, cols, drop_columns, run_expressions, split_by_chunk
from lakekit.data_file import row_kinds
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.errors import Corrupt, InvalidOption, ValueOutOfRange
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import merge, sorted_runs
from lakekit.metadata import schemas
from lakekit.model.data_file import KIND_TEXTS, RowKind
from lakekit.types import TIMESTAMPS, Instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.sorted_runs import KeyRange
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.types import DataType, Field


DECODED_RATIO = 6
"""About how many bytes of memory a byte of a compressed data file takes in a merge: measured on ten mixed columns."""


_TYPE_BYTES = {
    "BOOLEAN": 1,
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "FLOAT": 4,
    "DATE": 4,
    "BIGINT": 8,
    "DOUBLE": 8,
    "TIME": 8,
    "TIMESTAMP": 8,
    "TIMESTAMP_LTZ": 8,
}
_TEXT_BYTES = 24
"""The bytes of a text's slot and of a short text; a decimal takes less."""
_MAX_SLICES = 1 << 16
"""The most pieces: wrong sizes and row counts in metadata, which reading detects, must not make a longer list."""
_SAMPLED_ROWS_PER_SLICE = 1000
"""How many keys are sampled for each slice."""


def estimate_decoded_bytes(task: MergeTask) -> int:
    """Return about how much memory all rows of the task's files take."""
    return sum(file.size_bytes for file in task.files) * DECODED_RATIO


def estimate_row_bytes(fields: Iterable[Field]) -> int:
    """Return about how much memory a row takes uncompressed; texts and lists are assumed to be short."""
    return sum(_estimate_width(field.type) for field in fields)


def _estimate_width(t: DataType) -> int:
    inner = sum(_estimate_width(u) for u in (t.element, t.key, t.value, *(f.type for f in t.fields)) if u is not None)
    return inner or _TYPE_BYTES.get(t.root, _TEXT_BYTES)


def split_by_key_range(task: MergeTask, weight_bytes: int | None = None) -> list[MergeTask]:
    """Split the task into key ranges, each with the files that reach into it; a small task stays whole.

    `weight_bytes` is how much memory all its rows take; None: estimated from the sizes of its files.
    """
    weight = estimate_decoded_bytes(task) if weight_bytes is None else weight_bytes
    pieces = min(_MAX_SLICES, -(-weight // max(1, task.ctx.options.lakekit_merge_memory_bytes)))
    if pieces <= 1:
        return [task]
    low = decode_keys(task.ctx, [file.min_key for file in task.files])
    high = decode_keys(task.ctx, [file.max_key for file in task.files])
    rows = np.array([file.row_count for file in task.files])
    ranges = sorted_runs.split_key_ranges(low, high, rows, -(-int(rows.sum()) // pieces))
    if (
        2 * len(ranges) <= pieces
        and weight_bytes is not None
        and not any(field.type.nullable for field in task.ctx.schema.key_fields)
    ):
        return _split_by_sample(task, pieces)
    return (
        [task]
        if len(ranges) < 2
        else [piece for key_range in ranges if (piece := _restrict_to_range(task, key_range, low, high)).files]
    )


def _split_by_sample(task: MergeTask, slice_count: int) -> list[MergeTask]:
    """Split by the whole key, at quantiles of a sample, where the first column has too few values."""
    fields = task.ctx.schema.key_fields
    step = max(1, sum(file.row_count for file in task.files) // (slice_count * _SAMPLED_ROWS_PER_SLICE))
    names = [field.name for field in fields]
    with translate_polars_errors(task.ctx, task.paths):
        scan = scan_files(
            task.ctx, task.files, task.paths, fields, deleted_rows=task.deletions, snapshot_id=task.snapshot_id
        )
        sample = scan.filter(*task.range_conditions).gather_every(step).collect().sort(cols(names))
    positions = np.arange(1, slice_count) * sample.height // slice_count
    cuts = sample[np.unique(positions)].unique(maintain_order=True) if sample.height else sample
    bounds = [None, *(_key_at_least(cuts[at]) for at in range(cuts.height)), None]
    return [
        replace(task, range_conditions=(*task.range_conditions, *_range_bounds(low, high)))
        for low, high in pairwise(bounds)
    ]


def _key_at_least(key: pl.DataFrame) -> pl.Expr:
    """Return the condition for keys that do not sort before `key`."""
    *others, last = key.columns
    condition = col(last) >= pl.lit(key[last])
    for name in reversed(others):
        condition = (col(name) > pl.lit(key[name])) | ((col(name) == pl.lit(key[name])) & condition)
    return condition


def _range_bounds(low: pl.Expr | None, high: pl.Expr | None) -> list[pl.Expr]:
    return [*([] if low is None else [low]), *([] if high is None else [~high])]


def decode_keys(ctx: TableContext, rows: Sequence[bytes]) -> pl.DataFrame:
    """Decode serialized keys to columns with the table's names."""
    fields = ctx.schema.key_fields
    decoded = binary_row.decode_columns(pa.array(rows, pa.binary()), [field.type for field in fields])
    types = polars_schema(fields)
    return pl.DataFrame(
        [pl.Series(field.name, values).cast(types[field.name]) for field, values in zip(fields, decoded, strict=True)]
    )


def _restrict_to_range(
    task: MergeTask, key_range: KeyRange, min_keys: pl.DataFrame, max_keys: pl.DataFrame
) -> MergeTask:
    """Return the task for one key range."""
    reach = pl.DataFrame([min_keys[key_range.column].alias("low"), max_keys[key_range.column].alias("high")])
    conditions = [pl.lit(True)]
    if key_range.min_key is not None:
        conditions.append(pl.col("high") >= key_range.min_key)
    if key_range.end_key is not None:
        conditions.append(pl.col("low") < key_range.end_key)
    inside = reach.select(pl.all_horizontal(conditions).fill_null(value=True)).to_series().to_numpy()
    indices = np.flatnonzero(inside)
    expr = key_range.expr()
    return replace(
        task,
        files=tuple(task.files[at] for at in indices),
        paths=tuple(task.paths[at] for at in indices),
        range_conditions=() if expr is None else (expr,),
    )


# ---- merge read ------------------------------------------------------------


SELECTIVE_RATIO = 0.1
"""If fewer than this share of all versions satisfy a condition, only their keys are compared."""
SYSTEM_DTYPES: dict[str, pl.DataType] = {KIND: pl.Int8(), SEQUENCE: pl.Int64()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """Files of one bucket to be merged together, oldest versions first.

    Attributes:
        is_in_sequence: sequence numbers rise from file to file, so that file order is version order.
        range_conditions: conditions on key columns that select a slice of the files.
        key_conditions: the caller's conditions on key columns.
        deletions: deleted positions by file name.
        keeps_deletes: keep deletes that are the newest version of their key.
        snapshot_id: for error messages.
    """

    ctx: TableContext
    files: tuple[DataFileMeta, ...]
    paths: tuple[str, ...]
    spec: MergeSpec
    is_in_sequence: bool
    range_conditions: tuple[pl.Expr, ...] = ()
    key_conditions: tuple[pl.Expr, ...] = ()
    deletions: Mapping[str, NDArray[np.unsignedinteger]] | None = None
    keeps_deletes: bool = False
    snapshot_id: int | None = None

    @property
    def may_retract(self) -> bool:
        """Return whether a file may hold retracting rows.

        Of a file at level 0 only its row kinds say so: they are read once, and what they say is cached.
        """
        return not all(
            row_kinds.is_known_add_only(self.ctx, file, path) for file, path in zip(self.files, self.paths, strict=True)
        )

    @property
    def conditions_on_all_versions(self) -> tuple[pl.Expr, ...]:
        """Return the conditions that keep or drop all versions of a key alike."""
        return (*self.key_conditions, *self.range_conditions)


def merge_lazily(tasks: Sequence[MergeTask], fields: Sequence[Field], *, system: Sequence[str] = ()) -> pl.LazyFrame:
    """Return the merged rows of some buckets as a LazyFrame that decodes nothing before it is collected.

    `system` may add `_VALUE_KIND` and `_SEQUENCE_NUMBER`: those of the winning row, or of the last one that a fold took
    in.

    As many buckets, or slices of one, are merged in parallel as there are cores; their rows come in order. If a
    condition on keys leaves few rows, all buckets are read by one Polars query, which costs less than a query each, as
    long as they fit the memory of one merge.
    """
    schema = dict(polars_schema(fields, timestamp_unit=tasks[0].ctx.options.lakekit_timestamp_unit))
    schema |= {name: SYSTEM_DTYPES[name] for name in system}

    # Polars passes `batch_size` to every source
    def source(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001
    ) -> Iterator[pl.DataFrame]:
        names = list(schema) if with_columns is None else with_columns
        frames = _merge_tasks(tasks, names or tasks[0].spec.key_columns[:1], predicate, n_rows)
        for frame in frames:
            # without columns the rows are still counted: a frame keeps its height when its last column is dropped
            yield from split_by_chunk(frame) if names else (drop_columns(frame, frame.columns),)

    return register_io_source(source, schema=schema, is_pure=True)


def _merge_tasks(
    tasks: Sequence[MergeTask], column_names: Sequence[str], condition: pl.Expr | None, n_rows: int | None
) -> Iterator[pl.DataFrame]:
    """Return the merged rows of some buckets that satisfy the predicate, in the order of the buckets."""
    pieces = (piece for task in tasks for piece in split_by_key_range(task))
    if n_rows is not None:
        return _merge_first_rows(pieces, column_names, condition, n_rows)
    if (
        tasks[0].key_conditions
        and sum(map(estimate_decoded_bytes, tasks)) <= tasks[0].ctx.options.lakekit_merge_memory_bytes
    ):
        # a value out of range may belong to a row that does not win: then each bucket is read by itself
        with suppress(ValueOutOfRange):
            sections = _read_versions(tasks, column_names, condition)
            return parallel.map_prefetch(
                lambda task_section: _merge_section(*task_section, column_names, condition),
                sections,
                parallel.core_count(),
            )
    return parallel.map_prefetch(
        lambda piece: read_merged_rows(piece, column_names, condition), pieces, parallel.core_count()
    )


def read_merged_rows(task: MergeTask, column_names: Sequence[str], condition: pl.Expr | None) -> pl.DataFrame:
    """Return the merged rows that satisfy `condition`, with exactly the columns `column_names`.

    `column_names` are columns of the table or of `SYSTEM_DTYPES`.
    Raises `ValueOutOfRange` for a value that a changed type of its column cannot hold; where the engine selects rows,
    only for values of winning rows.
    """
    try:
        return _read_task_rows(task, column_names, condition)
    except ValueOutOfRange:
        if not merge.selects_rows(task.spec):
            raise
        return _read_task_rows(delete_losing_rows(task), column_names, condition)


def delete_losing_rows(task: MergeTask) -> MergeTask:
    """Return the task with every row deleted that is not the winner of its key.

    The values of those rows are not read, and not cast to the column types of today.
    """
    with translate_polars_errors(task.ctx, task.paths):
        keys = _read_keys(task, has_kinds=True).filter(*task.conditions_on_all_versions).collect()
    check_row_kinds(keys[KIND], task.paths)
    wins = _mark_winners(task, keys, keep_deletes=True)
    ends = np.cumsum([file.row_count for file in task.files])
    by_file = zip(task.files, np.split(wins, ends[:-1]), strict=True)
    return replace(
        task, deletions={file.name: np.flatnonzero(~wins_of_file).astype(np.uint64) for file, wins_of_file in by_file}
    )


def _read_task_rows(task: MergeTask, column_names: Sequence[str], condition: pl.Expr | None) -> pl.DataFrame:
    if _filters_on_values(task, condition):
        assert condition is not None
        with translate_polars_errors(task.ctx, task.paths):
            return _merge_filtered(task, column_names, condition)
    [(_, versions)] = _read_versions([task], column_names, condition)
    return _merge_section(task, versions, column_names, condition)


def _merge_first_rows(
    merge_tasks: Iterable[MergeTask], column_names: Sequence[str], condition: pl.Expr | None, n_rows: int
) -> Iterator[pl.DataFrame]:
    """Yield those of the first `n_rows` merged rows that satisfy the predicate.

    Polars limits before it filters, so that the condition may not drop rows early.
    """
    used = column_names if condition is None else list(dict.fromkeys((*column_names, *condition.meta.root_names())))
    for piece in merge_tasks:
        merged = read_merged_rows(piece, used, None).head(n_rows)
        n_rows -= merged.height
        yield _filter_merged(merged, condition).select(cols(column_names))
        if n_rows == 0:
            return


def _read_versions(
    tasks: Sequence[MergeTask], column_names: Sequence[str], condition: pl.Expr | None
) -> list[tuple[MergeTask, pl.DataFrame]]:
    """Return each task with the versions that conditions on keys leave, in the columns that its merge needs."""
    frames = [_scan_versions(task, column_names, condition) for task in tasks]
    with translate_polars_errors(tasks[0].ctx, [path for task in tasks for path in task.paths]):
        sections = [frames[0].collect()] if len(frames) == 1 else pl.collect_all(frames)
    return list(zip(tasks, sections, strict=True))


def _scan_versions(task: MergeTask, column_names: Sequence[str], condition: pl.Expr | None) -> pl.LazyFrame:
    used = {*column_names, *([] if condition is None else condition.meta.root_names())}
    if merge.selects_rows(task.spec):
        needed: AbstractSet[str] = {*task.spec.key_columns, *task.spec.sequence_fields, *used}
        system = _version_columns(task, {*used, KIND} if _needs_row_kinds(task) else used)
    else:
        needed = set(
            merge.required_columns(
                task.spec, [name for name in dict.fromkeys((*column_names, *used)) if name not in SYSTEM_DTYPES]
            )
        )
        system = _version_columns(task, {KIND, *used})
    return _scan_task(task, [name for name in task.ctx.schema.names if name in needed], system=system).filter(
        *task.conditions_on_all_versions
    )


def _merge_section(
    task: MergeTask, versions: pl.DataFrame, column_names: Sequence[str], condition: pl.Expr | None
) -> pl.DataFrame:
    """Return the merged rows of a section that satisfy `condition`."""
    if not merge.selects_rows(task.spec):
        check_row_kinds(versions[KIND], task.paths)
        with add_paths_to_errors(task.paths):
            merged = merge.merge_section(versions, task.spec, keep_deletes=task.keeps_deletes)
        return _filter_merged(merged, condition).select(cols(column_names))
    kinds = KIND in versions.columns  # what is known of the files may have changed since they were scanned
    if kinds:
        _check_kinds_of_task(task, versions[KIND])
    mask = merge.winner_mask(versions, task.spec, keep_deletes=task.keeps_deletes or not kinds)
    filter_columns = [] if condition is None else condition.meta.root_names()
    winners = versions.select(cols(dict.fromkeys((*column_names, *filter_columns)))).filter(pl.Series(mask))
    return _filter_merged(winners, condition).select(cols(column_names))


def _filter_merged(merged_rows: pl.DataFrame, condition: pl.Expr | None) -> pl.DataFrame:
    return merged_rows if condition is None else run_expressions(merged_rows, lambda frame: frame.filter(condition))


def _needs_row_kinds(task: MergeTask) -> bool:
    """Return whether an engine that selects rows needs their row kinds."""
    return task.may_retract or task.spec.ignores_deletes


def _check_kinds_of_task(task: MergeTask, kinds: pl.Series) -> None:
    """Check the row kinds of a task, and cache that its files only add where all of their rows were read and do.

    Raises `Corrupt` for a byte that is no row kind.
    """
    check_row_kinds(kinds, task.paths)
    is_whole = not task.conditions_on_all_versions and not task.deletions
    if is_whole and len(kinds) and kinds.max() == RowKind.INSERT and task.may_retract:
        row_kinds.cache_add_only(
            task.ctx, [path for file, path in zip(task.files, task.paths, strict=True) if file.delete_row_count == 0]
        )


def _filters_on_values(task: MergeTask, condition: pl.Expr | None) -> bool:
    """Return whether the payload is to be read under the condition, apart from the keys."""
    if condition is None or task.key_conditions or not merge.selects_rows(task.spec):
        return False
    return not {*task.spec.key_columns, *task.spec.sequence_fields}.issuperset(condition.meta.root_names())


def _merge_filtered(task: MergeTask, column_names: Sequence[str], condition: pl.Expr) -> pl.DataFrame:
    """Return the winners under a condition on values: reads versions that satisfy it, then keys alone."""
    kinds = _needs_row_kinds(task)
    used = {*column_names, *condition.meta.root_names()}
    wanted = [name for name in task.ctx.schema.names if name in used or name in task.spec.key_columns]
    payload = _scan_task(task, wanted, system=[name for name in SYSTEM_DTYPES if name in used], row_index=ROW)
    matching = payload.filter(*task.range_conditions, condition).collect()
    if not matching.height:
        return matching.select(cols(column_names))
    keys = _read_keys(task, has_kinds=kinds).filter(*task.range_conditions).collect()
    if kinds:
        _check_kinds_of_task(task, keys[KIND])
    if matching.height < keys.height * SELECTIVE_RATIO and not any(
        keys.schema[name].is_float() for name in task.spec.key_columns
    ):
        keys = keys.join(
            matching.select(cols(task.spec.key_columns)),
            on=cols(task.spec.key_columns),
            how="semi",
            nulls_equal=True,
            maintain_order="left",
        )
    wins = _mark_winners(task, keys, keep_deletes=task.keeps_deletes or not kinds)
    return matching.filter(pl.Series(wins[matching[ROW].to_numpy()])).select(cols(column_names))


def _read_keys(task: MergeTask, *, has_kinds: bool) -> pl.LazyFrame:
    """Return the columns that decide which version of each key wins, with row numbers over all files."""
    needed = {*task.spec.key_columns, *task.spec.sequence_fields}
    names = [name for name in task.ctx.schema.names if name in needed]
    return _scan_task(task, names, system=_version_columns(task, {KIND} if has_kinds else set()), row_index=ROW)


def _mark_winners(task: MergeTask, keys: pl.DataFrame, *, keep_deletes: bool) -> NDArray[np.bool_]:
    """Return a mask over all rows of the files that is set for the winners among `decode_keys`."""
    wins = np.zeros(sum(file.row_count for file in task.files), bool)
    wins[keys[ROW].to_numpy()[merge.winner_mask(keys, task.spec, keep_deletes=keep_deletes)]] = True
    return wins


@contextmanager
def add_paths_to_errors(paths: Sequence[str]) -> Iterator[None]:
    """Add the paths of the files to a `Corrupt` that a merge raises about a value."""
    try:
        yield
    except Corrupt as wrong:
        if wrong.path is not None or not paths:
            raise
        others = f" or one of {len(paths) - 1} files merged with it" if len(paths) > 1 else ""
        raise type(wrong)(
            f"{paths[0]}{others}: {wrong.message}", path=paths[0], offset=wrong.offset, field=wrong.field
        ) from None


def check_row_kinds(kinds: pl.Series, paths: Sequence[str] = ()) -> None:
    """Raise `Corrupt` for a byte that is no row kind; `paths` are the files it may come from."""
    low, high = kinds.min(), kinds.max()
    if kinds.null_count() or (
        isinstance(low, int) and isinstance(high, int) and not 0 <= low <= high < len(KIND_TEXTS)
    ):
        where = f"{paths[0]} or a file merged with it" if paths else "a data file"
        strange = "null" if kinds.null_count() else high if isinstance(high, int) and high >= len(KIND_TEXTS) else low
        raise Corrupt(
            f"{where} holds the row kind {strange!r}; there are 0 to {len(KIND_TEXTS) - 1}",
            path=paths[0] if paths else None,
            field=KIND,
        )


def _version_columns(task: MergeTask, requested: AbstractSet[str]) -> list[str]:
    """Return the system columns to read: those requested, and those that decide which version is newer.

    The sequence number is left out if the order of the files decides.
    """
    names = [] if task.is_in_sequence and not task.spec.sequence_fields and SEQUENCE not in requested else [SEQUENCE]
    if KIND in requested:
        names.append(KIND)
    if task.spec.needs_lookup:
        names.append(LEVEL)
    return names


def _scan_task(
    task: MergeTask, column_names: Sequence[str], *, system: Sequence[str], row_index: str | None = None
) -> pl.LazyFrame:
    fields = [task.ctx.schema.field(name) for name in column_names]
    return scan_files(
        task.ctx,
        task.files,
        task.paths,
        fields,
        system=system,
        deleted_rows=task.deletions,
        row_index=row_index,
        snapshot_id=task.snapshot_id,
    )


# ---- record expiration --------------------------------------------------


_MIN_MILLIS = 10**12
_TIME_FIELD_OPTION = "record-level.time-field"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiration:
    """When rows of a table expire: before `oldest_s`, a time in whole seconds, by the column `field`."""

    ctx: TableContext
    field: Field
    oldest_s: int

    def unexpired_condition(self) -> pl.Expr:
        """Return the condition that is true for rows to keep."""
        seconds = _to_epoch_seconds(col(self.field.name), self.field.type)
        return (seconds >= self.oldest_s).fill_null(value=True)

    def may_have_expired_rows(self, file: DataFileMeta) -> bool:
        """Return whether the file's statistics say that one of its rows is expired; False without statistics."""
        schema = schemas.schema_of_file(self.ctx, file.schema_id)
        names = schema.names if file.value_stats_cols is None else file.value_stats_cols
        written = next((field for field in schema.fields if field.id == self.field.id), None)
        if written is None or written.name not in names:
            return False
        arity, row = binary_row.strip_arity(file.value_stats.min_values)
        if arity != len(names):
            return False
        types = [schema.field(name).type for name in names]
        smallest = binary_row.decode_row(row, types)[list(names).index(written.name)]
        if isinstance(smallest, Instant):
            return int(smallest.millis / 1000) < self.oldest_s
        if not isinstance(smallest, int):
            return False
        return (smallest // 1000 if smallest >= _MIN_MILLIS else smallest) < self.oldest_s


def record_expiration(ctx: TableContext, now_ms: int) -> RecordExpiration | None:
    """Return when rows of the table expire; None if they never do.

    Raises:
        InvalidOption: the time field is missing, is not a column, or holds no time.
    """
    span_ms, name = ctx.options.record_level_expire_time_ms, ctx.options.record_level_time_field
    if span_ms is None:
        return None
    if name is None:
        raise InvalidOption(
            f"{ctx.name} sets record-level.expire-time; {_TIME_FIELD_OPTION} must name the column of a row's time",
            key=_TIME_FIELD_OPTION,
        )
    if not ctx.schema.has(name):
        column_names = ", ".join(ctx.schema.names)
        raise InvalidOption(
            f"{_TIME_FIELD_OPTION} of {ctx.name} is {name!r}, which is not there; columns are {column_names}",
            key=_TIME_FIELD_OPTION,
            value=name,
        )
    field = ctx.schema.field(name)
    if field.type.root not in ("INT", "BIGINT", *TIMESTAMPS):
        msg = (
            f"{_TIME_FIELD_OPTION} of {ctx.name} is {name!r} of type {field.type}; it must be INT, BIGINT, TIMESTAMP "
            "or TIMESTAMP_LTZ"
        )
        raise InvalidOption(msg, key=_TIME_FIELD_OPTION, value=name)
    return RecordExpiration(ctx=ctx, field=field, oldest_s=now_ms // 1000 - span_ms // 1000)


def _to_epoch_seconds(column: pl.Expr, t: DataType) -> pl.Expr:
    """Return the time of a row in whole seconds."""
    if t.root == "INT":
        return column.cast(pl.Int64)
    if t.root == "BIGINT":
        return pl.when(column >= _MIN_MILLIS).then(column // 1000).otherwise(column)
    millis = column.dt.epoch("ms")
    return pl.when(millis < 0).then(-(-millis // 1000)).otherwise(millis // 1000)
