"""JSON: one object a line, members by name.

    {"k":"1","name":"a","tags":["x",null],"m":{"a":"1"},"r":{"x":"2.5"}}

Plain values are written as texts, numbers too, nulls as null; maps are objects, whose keys are texts. Numbers and
booleans are read as well. A missing member is null, a member without a column is ignored, and a line `null` is no row.
A line that is no object, or a text that is no value of its column, is an error, unless json.ignore-parse-errors drops
the line, or makes the value null.

Source: ENGINE.md 9.6, `JsonFormatWriter`, `JsonFileReader`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import col, struct_field
from lakekit.errors import Corrupt, ValueOutOfRange
from lakekit.format import external_reader
from lakekit.format.encoder import refuse_null_key, refuse_type
from lakekit.format.polars_types import polars_type
from lakekit.text_format import options as values
from lakekit.types import DataType, Field, part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakekit.text_format.options import TextOptions

_KEY_ROOTS = frozenset(
    {"CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL"}
)
"""Types that the reference writes as keys of objects in a form that it reads."""
_MAP_ROOTS = frozenset({"MAP"})
_PLACEHOLDER_MEMBER = "lakekit"
"""Placeholder member of an object none of whose members is requested."""


def check_types(fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for a column whose type, at any depth, JSON files do not hold."""
    for field in fields:
        _check_type(field.type)


def _check_type(t: DataType) -> None:
    if t.root == "MAP" and part(t.key).root not in _KEY_ROOTS:
        raise refuse_type(t, "json")
    inner = (
        [part(t.element)] if t.root == "ARRAY" else [part(t.value)] if t.root == "MAP" else [f.type for f in t.fields]
    )
    if t.root not in values.PLAIN_TYPES and t.root not in ("ARRAY", "MAP", "ROW"):
        raise refuse_type(t, "json")
    for inner_type in inner:
        _check_type(inner_type)


# ---- in --------------------------------------------------------------------------------------------------------------


def parse_lines(
    lines: pl.Series, fields: Sequence[Field], column_names: Sequence[str], options: TextOptions
) -> pl.DataFrame:
    """Parse lines to rows of the columns `column_names`.

    Raises:
        Corrupt: a line is no JSON object (the message quotes its beginning), or a text no value of its column.
    """
    types = {field.name: field.type for field in fields if field.name in column_names}
    row = DataType(root="ROW", fields=tuple(Field(name, t) for name, t in types.items()))
    row_lines = lines.filter(lines.str.strip_chars() != "null")
    objects = _decode_lines(row_lines, row, options)
    if not types:
        return pl.DataFrame(height=len(objects))
    cells = objects.struct.unnest()
    return cells.select(_parse_values(col(name), types[name], options, name).alias(name) for name in column_names)


def _text_dtype(t: DataType) -> pl.DataType:
    """Return the Polars type of a value whose texts are not parsed yet."""
    match t.root:
        case "ARRAY":
            return pl.List(_text_dtype(part(t.element)))
        case "MAP":
            return pl.List(pl.Struct({"key": pl.String, "value": _text_dtype(part(t.value))}))
        case "ROW":
            return pl.Struct({f.name: _text_dtype(f.type) for f in t.fields} or {_PLACEHOLDER_MEMBER: pl.String})
    return pl.String()


def _decode_lines(lines: pl.Series, row: DataType, options: TextOptions) -> pl.Series:
    """Decode lines to structs in which every plain value is a text."""
    if not row.holds(_MAP_ROOTS) and not (lines.str.strip_chars() == "").any():
        with suppress(pl.exceptions.PolarsError):  # a line is wrong: decode line by line
            objects = lines.str.json_decode(_text_dtype(row))
            if not objects.null_count():
                return objects
    rows = [_parse_line(line, row, options) for line in lines.to_list()]  # scalar: maps, and lines with errors
    return pl.Series("line", [row_value for row_value in rows if row_value is not None], _text_dtype(row), strict=True)


def _parse_line(line: str, row: DataType, options: TextOptions) -> Any:
    """Decode one line; None where parse errors are ignored and it has one."""
    try:
        texts = _values_to_texts(json.loads(line, parse_int=str, parse_float=str, parse_constant=str), row, options)
    except (ValueError, RecursionError) as error:
        if options.ignores_errors:
            return None
        raise Corrupt(f"Failed to parse JSON line: {str(error)[:200]}, in {line[:80]!r}", field="json") from None
    return texts


def _values_to_texts(value: Any, t: DataType, options: TextOptions) -> Any:
    """Convert a decoded JSON value to the shape of `_text_dtype`."""
    if value is None:
        return None
    expected = {"ARRAY": list, "MAP": dict, "ROW": dict}.get(t.root)
    if expected is not None and not isinstance(value, expected):
        if options.ignores_errors:
            return None
        msg = f"{t.root} is an {'array' if expected is list else 'object'}, found {type(value).__name__}"
        raise ValueError(msg)
    match t.root:
        case "ARRAY":
            return [_values_to_texts(item, part(t.element), options) for item in value]
        case "MAP":
            return [
                {"key": key, "value": _values_to_texts(item, part(t.value), options)} for key, item in value.items()
            ]
        case "ROW":
            return {f.name: _values_to_texts(value.get(f.name), f.type, options) for f in t.fields}
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""


def _parse_values(column: pl.Expr, t: DataType, options: TextOptions, name: str) -> pl.Expr:
    """Parse the texts in `column`, at any depth, to values of type `t`."""

    def leaf(texts: pl.Expr, leaf_type: DataType) -> pl.Expr:
        dtype = polars_type(leaf_type, timestamp_unit=options.timestamp_unit)
        return texts.map_batches(
            partial(_parse_texts, t=leaf_type, options=options, name=name), return_dtype=dtype, is_elementwise=True
        )

    if t.root not in ("ARRAY", "MAP", "ROW"):
        return leaf(column, t)
    return external_reader.map_leaves(column, t, leaf)  # type: ignore[return-value] # leaf changes each


def _parse_texts(texts: pl.Series, *, t: DataType, options: TextOptions, name: str) -> pl.Series:
    parsed_values, is_bad = values.parse_values(texts, t, options, name)
    is_bad = is_bad.fill_null(value=False)
    if is_bad.any() and not options.ignores_errors:
        raise Corrupt(f"column {name} is {t}, but a line holds {texts.filter(is_bad)[0][:80]!r}", field=name)
    return parsed_values.alias(texts.name)


# ---- out -------------------------------------------------------------------------------------------------------------


def format_lines(frame: pl.DataFrame, fields: Sequence[Field], options: TextOptions) -> pl.Series:
    """Return the lines of the rows of `frame`.

    Raises:
        ValueOutOfRange: a map has a null key, or a row's text holds a line end set by json.line-delimiter.
    """
    for field in fields:
        keys = list(_null_keys(col(field.name), field.type))
        if keys and frame.select(pl.any_horizontal(keys).any()).item():
            raise refuse_null_key(field.name, "json")
    lines = frame.select(
        _print_object(((field.name, col(field.name), field.type) for field in fields), options)
    ).to_series()
    if not options.accepts_any_line_end and lines.str.contains(options.line_end, literal=True).any():
        msg = f"a row holds the line end {options.line_end!r}, which ends a row of the file"
        raise ValueOutOfRange(f"{msg}; leave json.line-delimiter as it is")
    return lines


def _print_object(members: Iterable[tuple[str, pl.Expr, DataType]], options: TextOptions) -> pl.Expr:
    texts = [
        pl.concat_str(pl.lit(json.dumps(name, ensure_ascii=False) + ":"), _print_value(member, t, options))
        for name, member, t in members
    ]
    return pl.concat_str(pl.lit("{"), pl.concat_str(texts, separator=",") if texts else pl.lit(""), pl.lit("}"))


def _print_value(column: pl.Expr, t: DataType, options: TextOptions) -> pl.Expr:
    """Print the values of `column` as JSON."""
    match t.root:
        case "ARRAY":
            json_text = _join_items("[", column.list.eval(_print_value(pl.element(), part(t.element), options)), "]")
        case "MAP":
            key, value = pl.element().struct.field("key"), pl.element().struct.field("value")
            pair = pl.concat_str(
                _print_value(key, part(t.key), options), pl.lit(":"), _print_value(value, part(t.value), options)
            )
            json_text = _join_items("{", column.list.eval(pair), "}")
        case "ROW":
            json_text = _print_object(((f.name, struct_field(column, f.name), f.type) for f in t.fields), options)
        case _:
            return (
                pl.struct(values.print_values(column, t, options).alias("x"))
                .struct.json_encode()
                .str.slice(5)
                .str.head(-1)
            )
    return pl.when(column.is_not_null()).then(json_text).otherwise(pl.lit("null"))


def _join_items(before: str, texts: pl.Expr, after: str) -> pl.Expr:
    return pl.concat_str(pl.lit(before), texts.list.join(","), pl.lit(after))


def _null_keys(column: pl.Expr, t: DataType) -> Iterator[pl.Expr]:
    """Yield, for every map in the type, an expression that is true where the map has a null key."""
    match t.root:
        case "ARRAY":
            yield from (
                column.list.eval(has_null_key).list.any() for has_null_key in _null_keys(pl.element(), part(t.element))
            )
        case "MAP":
            yield column.list.eval(pl.element().struct.field("key").is_null()).list.any()
            yield from (
                column.list.eval(has_null_key).list.any()
                for has_null_key in _null_keys(pl.element().struct.field("value"), part(t.value))
            )
        case "ROW":
            for f in t.fields:
                yield from _null_keys(struct_field(column, f.name), f.type)
