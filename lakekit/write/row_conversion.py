"""Rows on their way into a table: read, matched by name, made to fit, defaults put in, kinds read and filtered.

    batches(frame, handle)                     ->   frames with the table's columns, in order, in full precision, and `_VALUE_KIND` for key tables
    batches(frame, handle, row_kind="op")      ->   the same, `op` says +I, -U, +U or -D and is not written

The order of the steps is the reference's: a null is looked for in the row as it came, so that a default does not save a NOT NULL column; defaults replace
nulls, in deletes too; then the kind, by `rowkind.field` where it is set; then `ignore-delete` and `ignore-update-before` drop rows. An append table takes
rows that add, nothing else. Rows are counted from 0 over all that was handed in. Source: ENGINE.md 1.1, 8.1; `TableWriteImpl`, `DefaultValueRow`,
`DefaultValueUtils`, `RowKindGenerator`, `RowKindFilter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from lakekit.bucket.merge_read import KIND
from lakekit.columns import col, prepare_series
from lakekit.errors import InvalidOption, SchemaMismatch, ValueOutOfRange
from lakekit.format import casts
from lakekit.format.polars_types import polars_schema, polars_type
from lakekit.model.row_kind import KIND_TEXTS, RowKind
from lakekit.types import MAX_LENGTH, STRINGS, DataType
from lakekit.write import input_frames, retraction, sketches
from lakekit.write.input_frames import BATCH_ROWS, InputFrames, open_input
from lakekit.write.spot import DEFAULT_HINTS, ErrorHints, ValueLocation, format_value
from lakekit.write.value_casting import fit, looks_inside
from lakekit.write.widening import AddedColumn, WidenedColumn, schema_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.types import Field

ROW_KIND = "_row_kind"
"""What lakekit calls the column of row kinds where it gives one."""
_TEXT = DataType(root="VARCHAR", length=MAX_LENGTH)
_KINDS = pl.Enum(KIND_TEXTS)
_MAX_CACHED_HEIGHT = 32
"""Rows of a write so small that making a column for it would be felt."""
_RETRACTS = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionContext:
    """How the rows of one call are made to fit: what does not change from piece to piece."""

    ctx: TableContext
    cast: bool
    row_kind: str | None
    null_keys: bool
    remedies: ErrorHints = DEFAULT_HINTS

    @property
    def is_keyed(self) -> bool:
        """Whether the rows go into a key table."""
        return self.ctx.kind == "key"


def batches(
    data: object, ctx: TableContext, *, cast: bool = False, row_kind: str | None = None, batch_rows: int | None = None, remedies: ErrorHints = DEFAULT_HINTS
) -> Iterator[pl.DataFrame]:
    """The rows of `data`, which is anything API.md calls a frame, or an `InputFrames`, in frames of about `batch_rows`.

    None: of a stream `BATCH_ROWS`; rows that are in memory anyway come in frames as big as half of the table's write buffer.
    Columns, options and, where all rows are in memory, every value are checked before the first frame is given; of a stream, the rows before a bad one are
    given before its error. Raises `SchemaMismatch`, `ValueOutOfRange` naming column, row and value, `InvalidOption`; `remedies`: what they say is to be done.
    """
    found = open_input(data, ctx, batch_rows=batch_rows or BATCH_ROWS)
    how = ConversionContext(ctx=ctx, cast=cast, row_kind=row_kind, null_keys=_takes_null_keys(ctx), remedies=found.remedies or remedies)
    _check_kind_column(how)
    if found.schema is not None:
        _check_columns(list(found.schema), how)
    if found.is_whole:
        frames = [conform_frame(piece, how) for piece in found.pieces(ctx)]
        return (part for frame in frames for part in _parts(frame, batch_rows or _buffered_rows(frame, ctx)) if part.height)
    return _stream_batches(found, how, batch_rows or BATCH_ROWS)


def _buffered_rows(frame: pl.DataFrame, ctx: TableContext) -> int:
    """How many rows of a frame take half of the write buffer."""
    half = ctx.options.write_buffer_size_bytes // 2
    return max(BATCH_ROWS, frame.height * half // max(1, int(frame.estimated_size())))


def _parts(frame: pl.DataFrame, rows: int) -> Iterator[pl.DataFrame]:
    return iter([frame]) if frame.height <= rows else frame.iter_slices(rows)


def _stream_batches(found: InputFrames, how: ConversionContext, batch_rows: int) -> Iterator[pl.DataFrame]:
    """Pieces as they come, small ones put together. What came before an error is given before it."""
    waiting: list[pl.DataFrame] = []
    height = first = 0
    try:
        for piece in found.pieces(how.ctx):
            waiting.append(conform_frame(piece, how, first))
            first += piece.height
            height += waiting[-1].height
            if height >= batch_rows:
                whole, waiting, height = pl.concat(waiting), [], 0
                yield from whole.iter_slices(batch_rows)
    except Exception:
        if height:
            yield pl.concat(waiting)
        raise
    if height:
        yield pl.concat(waiting)


def conform_frame(frame: pl.DataFrame, how: ConversionContext, first_row: int = 0) -> pl.DataFrame:
    """One frame as the table wants it; its rows are numbered from `first_row` in errors."""
    ctx = how.ctx
    names = frame.columns
    _check_columns(names, how)
    known = _target_columns(ctx.schema.fields, _keys_without_null(ctx))
    found = [_column(frame, one, how, first_row) if one.field.name in names else (_missing_column(frame, one.field), False) for one in known]
    fits = names == list(ctx.schema.names) and all(is_given for _, is_given in found)
    columns = [column for column, _ in found]
    # a frame that fits stays as it is; but the caller's own may be changed in place while its rows wait
    made = frame.clone() if fits else pl.DataFrame(columns, height=frame.height)
    sketches.check(made, ctx, first_row)
    kinds = _kinds(frame, made, how, first_row)
    return _drop_ignored_rows(made, kinds, how, first_row)


def convert_columns(frame: pl.DataFrame, ctx: TableContext, names: Sequence[str]) -> pl.DataFrame:
    """Some of a table's columns as `batches` gives them, of a frame that has at least those that must be there. Raises as `batches` does for a bad value."""
    how = ConversionContext(ctx=ctx, cast=False, row_kind=None, null_keys=_takes_null_keys(ctx))
    known, given = _target_columns(ctx.schema.fields_of(names), _keys_without_null(ctx)), frame.columns
    return pl.DataFrame(
        [_column(frame, one, how, 0)[0] if one.field.name in given else _missing_column(frame, one.field) for one in known], height=frame.height
    )


# ---- columns ---------------------------------------------------------------------------------------------------------------------------------


class TargetColumn(NamedTuple):
    """A column of the table: its type as rows must fit it, and that as Polars', where values of it need no look but for their nulls."""

    field: Field
    type: DataType
    plain: pl.DataType | None


@lru_cache(maxsize=256)
def _target_columns(fields: tuple[Field, ...], without_null: frozenset[str]) -> tuple[TargetColumn, ...]:
    prepare_series(field.name for field in fields)  # the first rows of a process may be these
    wanted = [field.type.not_null() if field.name in without_null else field.type for field in fields]
    return tuple(TargetColumn(field, t, None if looks_inside(t) else polars_type(t)) for field, t in zip(fields, wanted, strict=True))


def _column(frame: pl.DataFrame, known: TargetColumn, how: ConversionContext, first_row: int) -> tuple[pl.Series, bool]:
    """A column of the table, and whether it is the frame's own, untouched."""
    field = known.field
    given = frame.get_column(field.name)
    if given.dtype == known.plain and (not given.null_count() or (known.type.nullable and field.default is None)):
        return given, True
    spot = ValueLocation(column=field.name, path=field.name, table=how.ctx.name, row_of=lambda i: first_row + i, remedies=how.remedies)
    column = _with_default(fit(given, known.type, spot, cast=how.cast, null_keys=how.null_keys), field)
    return (column, True) if column is given else (column.alias(field.name), False)


def _missing_column(frame: pl.DataFrame, field: Field) -> pl.Series:
    """A column that the frame has not."""
    return _with_default(pl.Series(field.name, [None], polars_type(field.type)).new_from_index(0, frame.height), field)


def _check_columns(names: list[str], how: ConversionContext) -> None:
    """Every column is one of the table's, and those that must have values are there."""
    ctx, known = how.ctx, how.ctx.schema.names
    given = [name for name in names if name != how.row_kind or name in known]
    extra = [name for name in given if name not in known]
    if extra:
        raise SchemaMismatch(_describe_unknown_column(extra, given, how), column=extra[0])
    if how.row_kind is not None and how.row_kind not in names:
        found = ", ".join(names)
        raise SchemaMismatch(f"row_kind names column {how.row_kind!r}, which the rows for {ctx.name} have not; they have {found}", column=how.row_kind)
    keys = _keys_without_null(ctx)
    absent = next((field for field in ctx.schema.fields if field.name not in given and (not field.nullable or field.name in keys)), None)
    if absent is not None:
        what = "in the primary key" if absent.name in keys else "NOT NULL"
        found = ", ".join(names) or "no columns"
        raise SchemaMismatch(f"the rows for {ctx.name} have no column {absent.name!r}, which is {what}; they have {found}. Add it", column=absent.name)


def _keys_without_null(ctx: TableContext) -> frozenset[str]:
    """Columns of the primary key, which must have values unless `primary-key.nullable` says otherwise."""
    return frozenset() if ctx.options.primary_key_nullable else frozenset(ctx.schema.primary_keys)


def _describe_unknown_column(extra: list[str], given: list[str], how: ConversionContext) -> str:
    known = how.ctx.schema.names
    free = [name for name in known if name not in given]
    by_case = {name.lower(): name for name in known}
    near = [by_case[extra[0].lower()]] if extra[0].lower() in by_case else get_close_matches(extra[0], free or known, 1, 0.6)
    if extra[0] == ROW_KIND:
        hint = f" To have its kinds obeyed, write with row_kind={ROW_KIND!r}"
    elif extra[0].startswith("__index_level_"):
        hint = " It is the index of a pandas frame: give df.reset_index(drop=True)"
    elif near:
        hint = f" Did you mean {near[0]!r}?"
    else:
        hint = f" Drop it{how.remedies.grow}"
    more = f" (nor {', '.join(map(repr, extra[1:]))})" if len(extra) > 1 else ""
    return f"{how.ctx.name} has no column {extra[0]!r}{more}; its columns are {', '.join(known)}.{hint}"


def _with_default(column: pl.Series, field: Field) -> pl.Series:
    """The column's default in the place of its nulls."""
    if field.default is None or not column.null_count():
        return column
    return column.fill_null(_default(field)) if len(column) else column


@lru_cache(maxsize=1024)
def _default(field: Field) -> pl.Expr:
    """A default's text as a value; quotes around it are no part of it."""
    text = field.default or ""
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    made = pl.DataFrame({field.name: [text]}).select(casts.cast(col(field.name), _TEXT, field.type, casts.CastTarget(column=field.name)))
    return pl.lit(made.to_series()).first()


def _takes_null_keys(ctx: TableContext) -> bool:
    """Whether no file of the table is Parquet, which has no null keys of maps."""
    options = ctx.options
    formats = {options.file_format, options.changelog_file_format, *options.file_format_per_level.values()}
    return "parquet" not in {str(one).lower() for one in formats if one}


# ---- kinds -----------------------------------------------------------------------------------------------------------------------------------


def _check_kind_column(how: ConversionContext) -> None:
    own = how.ctx.options.rowkind_field
    if own is not None and how.row_kind is not None:
        raise InvalidOption(
            f"rowkind.field of {how.ctx.name} takes the kind of a row from its column {own}; leave row_kind={how.row_kind!r} out",
            key="rowkind.field",
            value=own,
        )
    if own is not None and (not how.ctx.schema.has(own) or how.ctx.schema.field(own).type.root not in STRINGS):
        raise InvalidOption(f"rowkind.field of {how.ctx.name} names {own!r}, which is no STRING column of it", key="rowkind.field", value=own)


def _kinds(frame: pl.DataFrame, made: pl.DataFrame, how: ConversionContext, first_row: int) -> pl.Series | None:
    """The kind of each row as its byte; None where every row is +I."""
    own = how.ctx.options.rowkind_field
    if own is None and how.row_kind is None:
        return None
    name = own or how.row_kind or ""
    texts = made[name] if own is not None else frame[name]
    if not isinstance(texts.dtype, (pl.String, pl.Enum, pl.Categorical, pl.Null)):
        raise SchemaMismatch(f"the row kinds in column {name!r} are {texts.dtype}; they are texts: {', '.join(KIND_TEXTS)}", column=name)
    found = texts.cast(pl.String).cast(_KINDS, strict=False)
    if found.null_count():  # small letters do too (`RowKind.fromShortString`)
        found = texts.cast(pl.String).str.to_uppercase().cast(_KINDS, strict=False)
    if found.null_count():
        at = found.is_null().alias("").arg_true()[0]
        what = "Row kind cannot be null" if texts[at] is None else f"{format_value(texts[at])} is no row kind"
        raise ValueOutOfRange(
            f"row {first_row + at}: {what}, in column {name!r} of the rows for {how.ctx.name}. There are {', '.join(KIND_TEXTS)}", column=name
        )
    return found.to_physical().cast(pl.Int8)


def _insert_kinds(height: int) -> pl.Series:
    """The kinds of rows that all are +I; through numpy, as `pl.zeros` is a query, which waits for the threads of others."""
    return pl.Series(KIND, np.zeros(height, np.int8))


_insert_kinds_cached = lru_cache(maxsize=_MAX_CACHED_HEIGHT)(_insert_kinds)


def _drop_ignored_rows(made: pl.DataFrame, kinds: pl.Series | None, how: ConversionContext, first_row: int) -> pl.DataFrame:
    """The rows that the options do not drop, with their kinds where the table has such."""
    options = how.ctx.options
    if kinds is None:
        return made.hstack([(_insert_kinds_cached if made.height < _MAX_CACHED_HEIGHT else _insert_kinds)(made.height)]) if how.is_keyed else made
    dropped = _RETRACTS if options.ignore_delete else (RowKind.UPDATE_BEFORE,) if options.ignore_update_before else ()
    stays = ~kinds.is_in([int(kind) for kind in dropped]) if dropped else None
    if not how.is_keyed:
        takes_away = kinds.is_in([int(kind) for kind in _RETRACTS])
        takes_away = takes_away if stays is None else takes_away & stays
        if takes_away.any():
            at = takes_away.alias("").arg_true()[0]
            raise ValueOutOfRange(
                f"row {first_row + at}: {how.ctx.name} is an append table, which takes +I and +U rows and not {KIND_TEXTS[kinds[at]]}. "
                "Delete with t.delete(…), or write to a table with a primary key",
                column=options.rowkind_field or how.row_kind,
            )
        return made if stays is None else made.filter(stays)
    retraction.check_retractions(made, kinds if stays is None else kinds.set(~stays, int(RowKind.INSERT)), how.ctx, first_row)
    made = made.with_columns(kinds.alias(KIND))
    return made if stays is None else made.filter(stays)


def empty_frame(ctx: TableContext) -> pl.DataFrame:
    """No rows, with the columns that `batches` gives."""
    schema = dict(polars_schema(ctx.schema.fields))
    return pl.DataFrame(schema={**schema, KIND: pl.Int8()} if ctx.kind == "key" else schema)


__all__ = [
    "BATCH_ROWS",
    "AddedColumn",
    "InputFrames",
    "WidenedColumn",
    "batches",
    "conform_frame",
    "empty_frame",
    "input_frames",
    "open_input",
    "schema_changes",
]
