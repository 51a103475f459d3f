"""Input rows converted for a table: columns by name, casts, defaults, kinds, filters, checks.

    convert_batches(frame, ctx)             ->   frames with the table's columns, in order, in full precision,
                                                 and `_VALUE_KIND` for key tables
    convert_batches(frame, ctx, row_kind="op")
                                            ->   the same; column `op` holds +I, -U, +U or -D and is not written

The order of the steps is the reference's: NOT NULL is checked in the row as given, so a default does not satisfy it;
defaults replace nulls, in deletes too; then the kind, by `rowkind.field` if set; then `ignore-delete` and
`ignore-update-before` drop rows. An append table takes only rows that add. Rows are counted from 0 over the whole
input.

Source: ENGINE.md 1.1, 3.2 to 3.4, 8.1; `TableWriteImpl`, `DefaultValueRow`, `DefaultValueUtils`, `RowKindGenerator`,
`RowKindFilter`, `PartialUpdateMergeFunction`, `AggregateMergeFunction`, `FieldAggregator.retract`.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from lakekit.columns import KIND, ROW_KIND, col, prepare_series
from lakekit.errors import Corrupt, InvalidOption, LakekitError, SchemaMismatch, Unsupported, ValueOutOfRange
from lakekit.format import casts
from lakekit.format.polars_types import polars_schema, polars_type
from lakekit.lsm import aggregates, merge
from lakekit.lsm.sketch_bytes import CHECK_OF_FUNCTION
from lakekit.model.data_file import KIND_TEXTS, RowKind
from lakekit.options.redaction import excerpt
from lakekit.types import BINARIES, MAX_LENGTH, STRINGS, DataType
from lakekit.write import input_frames
from lakekit.write.input_frames import BATCH_ROWS, InputFrames, open_input
from lakekit.write.value_casting import (
    DEFAULT_HINTS,
    AddedColumn,
    ErrorHints,
    ValueLocation,
    WidenedColumn,
    fit_to_type,
    format_value,
    format_value_at,
    looks_inside,
    schema_changes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.lsm.merge_spec import FieldFunction, MergeSpec
    from lakekit.lsm.numpy_columns import Array, Bools
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.options.option import FrozenDict
    from lakekit.types import Field


RETRACTION_CHECKED_ENGINES = ("first-row", "partial-update", "aggregation")


def check_retractions(rows: pl.DataFrame, kinds: pl.Series, ctx: TableContext, first_row: int = 0) -> None:
    """Raise for the first row whose retraction the table's merge engine cannot process.

    The reference engine commits such rows; from then on reads of their keys fail, in both engines, until options
    change.
    A row is refused if its kind and the options alone make every merge with another row of its key fail; of the row's
    values only nulls of a sequence group are looked at. A sequence group that may remove the row
    (`partial-update.remove-record-on-sequence-group`) decides by the row's age, so its deletes are not checked here.
    `kinds` holds the byte of each row's kind.

    Raises:
        InvalidOption: with the row, the function if there is one, and the options that accept such rows.
    """
    if ctx.options.merge_engine not in RETRACTION_CHECKED_ENGINES:
        return
    kind_bytes = kinds.to_numpy()
    retracts = (kind_bytes == RowKind.UPDATE_BEFORE) | (kind_bytes == RowKind.DELETE)
    if not retracts.any():
        return
    merge_rule = _merge_spec(ctx.schema, ctx.all_options, ctx.name)
    if merge_rule.engine == "first-row":
        if merge_rule.ignores_deletes:
            return
        row = int(np.flatnonzero(retracts)[0])
        raise InvalidOption(
            f"row {first_row + row} is {KIND_TEXTS[kind_bytes[row]]}: by default, First row merge engine can not "
            f"accept DELETE/UPDATE_BEFORE records, and every read of its key in {merge_rule.table_name} would fail. "
            "You "
            "can configure 'ignore-delete' to ignore such records",
            key="ignore-delete",
        )
    if merge_rule.engine == "partial-update":
        _check_partial_update(rows, kind_bytes, retracts, merge_rule, first_row)
        return
    judged = kind_bytes == RowKind.UPDATE_BEFORE if merge_rule.removes_on_delete else retracts
    for function in merge_rule.functions.values():
        if judged.any() and not _accepts_retractions(function, merge_rule):
            raise _make_function_refusal(function, kind_bytes, judged, merge_rule, first_row)


@lru_cache(maxsize=64)
def _merge_spec(schema: TableSchema, options: FrozenDict[str, str], table: str) -> MergeSpec:
    return merge.merge_spec_from_options(schema, options, table=table)


def _check_partial_update(rows: pl.DataFrame, kinds: Array, retracts: Bools, spec: MergeSpec, first_row: int) -> None:
    if spec.ignores_deletes or spec.removes_on_delete:
        return
    if not spec.sequence_groups:
        row = int(np.flatnonzero(retracts)[0])
        raise InvalidOption(
            f"row {first_row + row} is {KIND_TEXTS[kinds[row]]}: by default, Partial update can not accept delete "
            f"records, and every read of its key in {spec.table_name} would fail. Choose one of: 1. configure "
            "'ignore-delete' to ignore delete records; 2. configure 'partial-update.remove-record-on-delete' to "
            "remove the whole row when receiving delete records; 3. configure 'sequence-group's to retract partial "
            "columns",
            key="ignore-delete",
        )
    removes = any(group.removes_record for group in spec.sequence_groups)
    checked = kinds == RowKind.UPDATE_BEFORE if removes else retracts
    for group in spec.sequence_groups:
        has_value = np.zeros(len(kinds), bool)
        for column in group.columns:
            has_value |= rows[column].is_not_null().to_numpy()
        for function in (spec.functions[name] for name in group.protected_columns if name in spec.functions):
            if (checked & has_value).any() and not _accepts_retractions(function, spec):
                raise _make_function_refusal(function, kinds, checked & has_value, spec, first_row)


def _accepts_retractions(function: FieldFunction, spec: MergeSpec) -> bool:
    return function.ignore_retract or aggregates.find_aggregate(function, spec).can_retract


def _make_function_refusal(
    function: FieldFunction, kinds: Array, checked_rows: Bools, spec: MergeSpec, first_row: int
) -> InvalidOption:
    row = int(np.flatnonzero(checked_rows)[0])
    key = f"fields.{function.column}.ignore-retract"
    return InvalidOption(
        f"row {first_row + row} is {KIND_TEXTS[kinds[row]]}: aggregate function {function.name!r} of column "
        f"{function.column} does not support retraction, and every read of its key in {spec.table_name} would fail. "
        "If you "
        f"allow this function to ignore retraction messages, you can configure '{key}'='true'",
        key=key,
    )


# ---- sketches ------------------------------------------------------------


def check_sketches(frame: pl.DataFrame, ctx: TableContext, first_row: int) -> None:
    """Raise `ValueOutOfRange` for the first value that is no sketch, in columns that unite sketches.

    A merge passes the values to a C++ library and checks them again (`lsm.aggregates.sketches`), so that every read of
    the key would fail. `first_row` is the frame's first row number.
    """
    if ctx.kind != "key" or ctx.options.merge_engine not in ("aggregation", "partial-update"):
        return
    for column, function in _sketch_columns(ctx.schema, ctx.all_options).items():
        values = frame.get_column(column)
        for row, value in enumerate(values.to_list()):  # scalar: sketches are whole values
            try:
                if value is not None:
                    CHECK_OF_FUNCTION[function](value)
            except Corrupt as wrong:
                message = (
                    f"row {first_row + row}: column {column} of {ctx.name} holds {format_value_at(values, row)}, "
                    f"which {function} cannot unite: {wrong.message}"
                )
                raise ValueOutOfRange(f"{message}. Write the bytes of a serialized sketch", column=column) from None


@lru_cache(maxsize=256)
def _sketch_columns(schema: TableSchema, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the function name of each column whose function unites sketches."""
    try:
        functions = merge.merge_spec_from_options(schema, options).functions
    except LakekitError:  # refused where rows are merged
        return {}
    return {
        name: function.name
        for name, function in functions.items()
        if function.name in CHECK_OF_FUNCTION and function.type.root in BINARIES
    }


# ---- row conversion ------------------------------------------------------------


_TEXT_TYPE = DataType(root="VARCHAR", length=MAX_LENGTH)
_KIND_ENUM = pl.Enum(KIND_TEXTS)
_MAX_CACHED_HEIGHT = 32
"""Rows of a write so small that making a column for it would be felt."""
_RETRACTING_KINDS = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionContext:
    """Settings of one conversion, the same for all of its frames."""

    table_ctx: TableContext
    allows_cast: bool
    row_kind_column: str | None
    allows_null_map_keys: bool
    error_hints: ErrorHints = DEFAULT_HINTS

    @property
    def is_keyed(self) -> bool:
        """Return whether the rows go into a key table."""
        return self.table_ctx.kind == "key"


def convert_batches(
    data: object,
    ctx: TableContext,
    *,
    cast: bool = False,
    row_kind: str | None = None,
    batch_rows: int | None = None,
    error_hints: ErrorHints = DEFAULT_HINTS,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of `data` in frames of about `batch_rows`.

    `data`: any input that API.md accepts, or an `InputFrames`. `batch_rows` None: `BATCH_ROWS` for a stream; rows in
    memory come in frames as big as half of the table's write buffer. Columns, options and, if all rows are in memory,
    every value are checked before the first frame is yielded; of a stream, the rows before a bad one are yielded before
    its error. `error_hints`: advice of error messages.

    Raises:
        SchemaMismatch, ValueOutOfRange: with column, row and value.
        InvalidOption: `row_kind` and the table's `rowkind.field` contradict each other.
    """
    input_frames = open_input(data, ctx, batch_rows=batch_rows or BATCH_ROWS)
    conversion = ConversionContext(
        table_ctx=ctx,
        allows_cast=cast,
        row_kind_column=row_kind,
        allows_null_map_keys=_allows_null_map_keys(ctx),
        error_hints=input_frames.error_hints or error_hints,
    )
    _check_kind_column(conversion)
    if input_frames.schema is not None:
        _check_columns(list(input_frames.schema), conversion)
    if input_frames.is_single_frame:
        frames = [conform_frame(piece, conversion) for piece in input_frames.iter_frames(ctx)]
        return (
            part
            for frame in frames
            for part in _split_frame(frame, batch_rows or _rows_per_half_buffer(frame, ctx))
            if part.height
        )
    return _stream_batches(input_frames, conversion, batch_rows or BATCH_ROWS)


def _rows_per_half_buffer(frame: pl.DataFrame, ctx: TableContext) -> int:
    """Return how many rows of a frame take half of the write buffer."""
    half = ctx.options.write_buffer_size_bytes // 2
    return max(BATCH_ROWS, frame.height * half // max(1, int(frame.estimated_size())))


def _split_frame(frame: pl.DataFrame, row_count: int) -> Iterator[pl.DataFrame]:
    return iter([frame]) if frame.height <= row_count else frame.iter_slices(row_count)


def _stream_batches(
    input_frames: InputFrames, conversion: ConversionContext, batch_rows: int
) -> Iterator[pl.DataFrame]:
    """Yield frames as they come, small ones joined. Rows before an error are yielded before it."""
    waiting: list[pl.DataFrame] = []
    height = first = 0
    try:
        for piece in input_frames.iter_frames(conversion.table_ctx):
            waiting.append(conform_frame(piece, conversion, first))
            first += piece.height
            height += waiting[-1].height
            if height >= batch_rows:
                combined, waiting, height = pl.concat(waiting), [], 0
                yield from combined.iter_slices(batch_rows)
    except Exception:
        if height:
            yield pl.concat(waiting)
        raise
    if height:
        yield pl.concat(waiting)


def conform_frame(frame: pl.DataFrame, conversion: ConversionContext, first_row: int = 0) -> pl.DataFrame:
    """Convert one frame to the table's columns; its rows are numbered from `first_row` in errors."""
    ctx = conversion.table_ctx
    names = frame.columns
    _check_columns(names, conversion)
    targets = _target_columns(ctx.schema.fields, _not_null_keys(ctx))
    converted = [
        _convert_column(frame, target, conversion, first_row)
        if target.field.name in names
        else (_missing_column(frame, target.field, conversion.table_ctx), False)
        for target in targets
    ]
    fits = names == list(ctx.schema.names) and all(is_given for _, is_given in converted)
    columns = [column for column, _ in converted]
    # a frame that fits stays as it is; but the caller's own may be changed in place while its rows wait
    conformed = frame.clone() if fits else pl.DataFrame(columns, height=frame.height)
    check_sketches(conformed, ctx, first_row)
    kinds = _row_kinds(frame, conformed, conversion, first_row)
    return _drop_ignored_rows(conformed, kinds, conversion, first_row)


def convert_columns(frame: pl.DataFrame, ctx: TableContext, names: Sequence[str]) -> pl.DataFrame:
    """Convert some of a table's columns as `convert_batches` does; the frame has at least those that are required.

    Raises as `convert_batches` does for a bad value.
    """
    conversion = ConversionContext(
        table_ctx=ctx, allows_cast=False, row_kind_column=None, allows_null_map_keys=_allows_null_map_keys(ctx)
    )
    targets, frame_columns = _target_columns(ctx.schema.fields_of(names), _not_null_keys(ctx)), frame.columns
    return pl.DataFrame(
        [
            _convert_column(frame, target, conversion, 0)[0]
            if target.field.name in frame_columns
            else _missing_column(frame, target.field, conversion.table_ctx)
            for target in targets
        ],
        height=frame.height,
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


class TargetColumn(NamedTuple):
    """A column of the table with the type rows must fit.

    `unchecked_dtype`: the Polars type whose values need no check but for nulls; None if values must be checked.
    """

    field: Field
    type: DataType
    unchecked_dtype: pl.DataType | None


@lru_cache(maxsize=256)
def _target_columns(fields: tuple[Field, ...], not_null: frozenset[str]) -> tuple[TargetColumn, ...]:
    prepare_series(field.name for field in fields)  # the first rows of a process may be these
    types = [field.type.not_null() if field.name in not_null else field.type for field in fields]
    return tuple(
        TargetColumn(field, t, None if looks_inside(t) else polars_type(t))
        for field, t in zip(fields, types, strict=True)
    )


def _convert_column(
    frame: pl.DataFrame, target: TargetColumn, conversion: ConversionContext, first_row: int
) -> tuple[pl.Series, bool]:
    """Return a column of the table, and whether it is the frame's own, unchanged."""
    field = target.field
    series = frame.get_column(field.name)
    if series.dtype == target.unchecked_dtype and (
        not series.null_count() or (target.type.nullable and field.default is None)
    ):
        return series, True
    location = ValueLocation(
        column=field.name,
        path=field.name,
        table=conversion.table_ctx.name,
        row_of=lambda i: first_row + i,
        error_hints=conversion.error_hints,
    )
    column = _fill_default(
        fit_to_type(
            series, target.type, location, cast=conversion.allows_cast, null_keys=conversion.allows_null_map_keys
        ),
        field,
        conversion.table_ctx,
    )
    return (column, True) if column is series else (column.alias(field.name), False)


def _missing_column(frame: pl.DataFrame, field: Field, ctx: TableContext) -> pl.Series:
    nulls = pl.Series(field.name, [None], polars_type(field.type)).new_from_index(0, frame.height)
    return _fill_default(nulls, field, ctx)


def _check_columns(names: list[str], conversion: ConversionContext) -> None:
    """Check that every column is one of the table's, and that required columns are present."""
    ctx, table_columns = conversion.table_ctx, conversion.table_ctx.schema.names
    data_columns = [name for name in names if name != conversion.row_kind_column or name in table_columns]
    extra = [name for name in data_columns if name not in table_columns]
    if extra:
        raise SchemaMismatch(_describe_unknown_column(extra, data_columns, conversion), column=extra[0])
    if conversion.row_kind_column is not None and conversion.row_kind_column not in names:
        columns_text = ", ".join(names)
        raise SchemaMismatch(
            f"row_kind names column {conversion.row_kind_column!r}, which the rows for {ctx.name} have not; they have "
            f"{columns_text}",
            column=conversion.row_kind_column,
        )
    keys = _not_null_keys(ctx)
    absent = next(
        (
            field
            for field in ctx.schema.fields
            if field.name not in data_columns and (not field.nullable or field.name in keys)
        ),
        None,
    )
    if absent is not None:
        reason = "in the primary key" if absent.name in keys else "NOT NULL"
        columns_text = ", ".join(names) or "no columns"
        raise SchemaMismatch(
            f"the rows for {ctx.name} have no column {absent.name!r}, which is {reason}; they have {columns_text}. "
            "Add it",
            column=absent.name,
        )


def _not_null_keys(ctx: TableContext) -> frozenset[str]:
    """Return the primary key columns that must have values: all, or none under `primary-key.nullable`."""
    return frozenset() if ctx.options.primary_key_nullable else frozenset(ctx.schema.primary_keys)


def _describe_unknown_column(extra: list[str], data_columns: list[str], conversion: ConversionContext) -> str:
    table_columns = conversion.table_ctx.schema.names
    free = [name for name in table_columns if name not in data_columns]
    by_case = {name.lower(): name for name in table_columns}
    near = (
        [by_case[extra[0].lower()]]
        if extra[0].lower() in by_case
        else get_close_matches(extra[0], free or table_columns, 1, 0.6)
    )
    if extra[0] == ROW_KIND:
        hint = f" To have its kinds obeyed, write with row_kind={ROW_KIND!r}"
    elif extra[0].startswith("__index_level_"):
        hint = " It is the index of a pandas frame: give df.reset_index(drop=True)"
    elif near:
        hint = f" Did you mean {near[0]!r}?"
    else:
        hint = f" Drop it{conversion.error_hints.grow}"
    more = f" (nor {', '.join(map(repr, extra[1:]))})" if len(extra) > 1 else ""
    return (
        f"{conversion.table_ctx.name} has no column {extra[0]!r}{more}; its columns are "
        f"{', '.join(table_columns)}.{hint}"
    )


def _fill_default(column: pl.Series, field: Field, ctx: TableContext) -> pl.Series:
    """Return a column with its default for nulls. Raises `ValueOutOfRange` for a default that is no value of it."""
    if field.default is None or not column.null_count():
        return column
    try:
        return column.fill_null(_default_value(field))
    except (Unsupported, ValueOutOfRange) as wrong:
        path = ctx.paths.schema(ctx.schema.id)
        raise ValueOutOfRange(
            f"column {field.name} of {ctx.name} is {field.type.as_nullable()}, and {path} gives it the default "
            f"{excerpt(repr(field.default[:80]))}, which is none: t.alter(lk.update_default({field.name!r}, …))",
            column=field.name,
            path=path,
        ) from wrong


@lru_cache(maxsize=1024)
def _default_value(field: Field) -> pl.Expr:
    """Return a default's text as a value; quotes around it are not part of it."""
    text = field.default or ""
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    values = pl.DataFrame({field.name: [text]}).select(
        casts.cast(col(field.name), _TEXT_TYPE, field.type, casts.CastTarget(column=field.name))
    )
    return pl.lit(values.to_series()).first()


def _allows_null_map_keys(ctx: TableContext) -> bool:
    """Return whether no file of the table is Parquet, which has no null keys in maps."""
    options = ctx.options
    formats = {options.file_format, options.changelog_file_format, *options.file_format_per_level.values()}
    return "parquet" not in {str(format_name).lower() for format_name in formats if format_name}


# ---- kinds -----------------------------------------------------------------------------------------------------------


def _check_kind_column(conversion: ConversionContext) -> None:
    own = conversion.table_ctx.options.rowkind_field
    if own is not None and conversion.row_kind_column is not None:
        raise InvalidOption(
            f"rowkind.field of {conversion.table_ctx.name} takes the kind of a row from its column {own}; leave "
            f"row_kind={conversion.row_kind_column!r} out",
            key="rowkind.field",
            value=own,
        )
    if own is not None and (
        not conversion.table_ctx.schema.has(own) or conversion.table_ctx.schema.field(own).type.root not in STRINGS
    ):
        raise InvalidOption(
            f"rowkind.field of {conversion.table_ctx.name} names {own!r}, which is no STRING column of it",
            key="rowkind.field",
            value=own,
        )


def _row_kinds(
    frame: pl.DataFrame, converted: pl.DataFrame, conversion: ConversionContext, first_row: int
) -> pl.Series | None:
    """Return the kind of each row as a byte; None if every row is +I."""
    own = conversion.table_ctx.options.rowkind_field
    if own is None and conversion.row_kind_column is None:
        return None
    name = own or conversion.row_kind_column or ""
    texts = converted[name] if own is not None else frame[name]
    if not isinstance(texts.dtype, (pl.String, pl.Enum, pl.Categorical, pl.Null)):
        raise SchemaMismatch(
            f"the row kinds in column {name!r} are {texts.dtype}; they are texts: {', '.join(KIND_TEXTS)}", column=name
        )
    kinds = texts.cast(pl.String).cast(_KIND_ENUM, strict=False)
    if kinds.null_count():  # small letters do too (`RowKind.fromShortString`)
        kinds = texts.cast(pl.String).str.to_uppercase().cast(_KIND_ENUM, strict=False)
    if kinds.null_count():
        row = kinds.is_null().alias("").arg_true()[0]
        problem = "Row kind cannot be null" if texts[row] is None else f"{format_value(texts[row])} is no row kind"
        raise ValueOutOfRange(
            f"row {first_row + row}: {problem}, in column {name!r} of the rows for {conversion.table_ctx.name}. There "
            "are "
            f"{', '.join(KIND_TEXTS)}",
            column=name,
        )
    return kinds.to_physical().cast(pl.Int8)


def _all_insert_kinds(height: int) -> pl.Series:
    """Return +I kinds. Built by numpy: `pl.zeros` is a query, which waits for the thread pool."""
    return pl.Series(KIND, np.zeros(height, np.int8))


_insert_kinds_cached = lru_cache(maxsize=_MAX_CACHED_HEIGHT)(_all_insert_kinds)


def _drop_ignored_rows(
    rows: pl.DataFrame, kinds: pl.Series | None, conversion: ConversionContext, first_row: int
) -> pl.DataFrame:
    """Return the rows that the options do not drop, with their kinds if the table has them."""
    options = conversion.table_ctx.options
    if kinds is None:
        return (
            rows.hstack(
                [(_insert_kinds_cached if rows.height < _MAX_CACHED_HEIGHT else _all_insert_kinds)(rows.height)]
            )
            if conversion.is_keyed
            else rows
        )
    dropped = (
        _RETRACTING_KINDS if options.ignore_delete else (RowKind.UPDATE_BEFORE,) if options.ignore_update_before else ()
    )
    kept_rows = ~kinds.is_in([int(kind) for kind in dropped]) if dropped else None
    if not conversion.is_keyed:
        retracts = kinds.is_in([int(kind) for kind in _RETRACTING_KINDS])
        retracts = retracts if kept_rows is None else retracts & kept_rows
        if retracts.any():
            row = retracts.alias("").arg_true()[0]
            raise ValueOutOfRange(
                f"row {first_row + row}: {conversion.table_ctx.name} is an append table, which takes +I and +U rows "
                "and not "
                f"{KIND_TEXTS[kinds[row]]}. Delete with t.delete(…), or write to a table with a primary key",
                column=options.rowkind_field or conversion.row_kind_column,
            )
        return rows if kept_rows is None else rows.filter(kept_rows)
    check_retractions(
        rows,
        kinds if kept_rows is None else kinds.set(~kept_rows, int(RowKind.INSERT)),
        conversion.table_ctx,
        first_row,
    )
    rows = rows.with_columns(kinds.alias(KIND))
    return rows if kept_rows is None else rows.filter(kept_rows)


def empty_frame(ctx: TableContext) -> pl.DataFrame:
    """Return a frame without rows, with the columns that `convert_batches` gives."""
    schema = dict(polars_schema(ctx.schema.fields))
    return pl.DataFrame(schema={**schema, KIND: pl.Int8()} if ctx.kind == "key" else schema)


__all__ = [
    "BATCH_ROWS",
    "AddedColumn",
    "InputFrames",
    "WidenedColumn",
    "conform_frame",
    "convert_batches",
    "empty_frame",
    "input_frames",
    "open_input",
    "schema_changes",
]
