"""JSON: an object a line, members by name.

    {"k":"1","name":"a","tags":["x",null],"m":{"a":"1"},"r":{"x":"2.5"}}

Plain values are written as texts, numbers too, nulls as null; maps are objects, whose keys are texts. Numbers and truth values are read as well. A member
that is missing is null, one that no column is named after is passed over, and a line `null` is no row. A line that is no object, or a text that is no value of
its column, is an error, unless json.ignore-parse-errors drops the line, or makes the value null.

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
from lakekit.text_format import values
from lakekit.types import DataType, Field, part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakekit.text_format.options import TextOptions

_KEYS = frozenset({"CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL"})
"""Types that the reference writes as keys of objects in a form that it reads."""
_MAPS = frozenset({"MAP"})
_NOTHING = "lakekit"
"""The member of an object of which nothing is wanted."""


def check_types(fields: Sequence[Field]) -> None:
    """Raises `Unsupported` for a column with a part that JSON files do not hold."""
    for field in fields:
        _check(field.type)


def _check(t: DataType) -> None:
    if t.root == "MAP" and part(t.key).root not in _KEYS:
        raise refuse_type(t, "json")
    inner = [part(t.element)] if t.root == "ARRAY" else [part(t.value)] if t.root == "MAP" else [f.type for f in t.fields]
    if t.root not in values.PLAIN_TYPES and t.root not in ("ARRAY", "MAP", "ROW"):
        raise refuse_type(t, "json")
    for one in inner:
        _check(one)


# ---- in --------------------------------------------------------------------------------------------------------------------------------------


def parsed(lines: pl.Series, fields: Sequence[Field], names: Sequence[str], how: TextOptions) -> pl.DataFrame:
    """The rows of some lines. Raises `Corrupt` naming the line's beginning, or the column and its text."""
    wanted = {field.name: field.type for field in fields if field.name in names}
    row = DataType(root="ROW", fields=tuple(Field(name, t) for name, t in wanted.items()))
    told = lines.filter(lines.str.strip_chars() != "null")
    found = _decode_lines(told, row, how)
    if not wanted:
        return pl.DataFrame(height=len(found))
    cells = found.struct.unnest()
    return cells.select(_values(col(name), wanted[name], how, name).alias(name) for name in names)


def _text_dtype(t: DataType) -> pl.DataType:
    """What a value is before its texts are parsed."""
    match t.root:
        case "ARRAY":
            return pl.List(_text_dtype(part(t.element)))
        case "MAP":
            return pl.List(pl.Struct({"key": pl.String, "value": _text_dtype(part(t.value))}))
        case "ROW":
            return pl.Struct({f.name: _text_dtype(f.type) for f in t.fields} or {_NOTHING: pl.String})
    return pl.String()


def _decode_lines(lines: pl.Series, row: DataType, how: TextOptions) -> pl.Series:
    """The objects of some lines, every plain value in them a text."""
    if not row.holds(_MAPS) and not (lines.str.strip_chars() == "").any():
        with suppress(pl.exceptions.PolarsError):  # something in it is not as it should be: looked at line by line
            found = lines.str.json_decode(_text_dtype(row))
            if not found.null_count():
                return found
    made = [_parse_line(line, row, how) for line in lines.to_list()]  # scalar: objects with keys of their own, and lines with mistakes
    return pl.Series("line", [one for one in made if one is not None], _text_dtype(row), strict=True)


def _parse_line(line: str, row: DataType, how: TextOptions) -> Any:
    """One line as the object it says; None where mistakes are passed over and it says none."""
    try:
        found = _values_to_texts(json.loads(line, parse_int=str, parse_float=str, parse_constant=str), row, how)
    except (ValueError, RecursionError) as wrong:
        if how.ignores_errors:
            return None
        raise Corrupt(f"Failed to parse JSON line: {str(wrong)[:200]}, in {line[:80]!r}", field="json") from None
    return found


def _values_to_texts(value: Any, t: DataType, how: TextOptions) -> Any:
    """A value of JSON in the shape of `_text_dtype`."""
    if value is None:
        return None
    expected = {"ARRAY": list, "MAP": dict, "ROW": dict}.get(t.root)
    if expected is not None and not isinstance(value, expected):
        if how.ignores_errors:
            return None
        msg = f"{t.root} is an {'array' if expected is list else 'object'}, found {type(value).__name__}"
        raise ValueError(msg)
    match t.root:
        case "ARRAY":
            return [_values_to_texts(one, part(t.element), how) for one in value]
        case "MAP":
            return [{"key": key, "value": _values_to_texts(one, part(t.value), how)} for key, one in value.items()]
        case "ROW":
            return {f.name: _values_to_texts(value.get(f.name), f.type, how) for f in t.fields}
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""


def _values(column: pl.Expr, t: DataType, how: TextOptions, name: str) -> pl.Expr:
    """The values that texts say, at any depth."""

    def leaf(one: pl.Expr, of: DataType) -> pl.Expr:
        dtype = polars_type(of, timestamp_unit=how.timestamp_unit)
        return one.map_batches(partial(_parse_texts, t=of, how=how, name=name), return_dtype=dtype, is_elementwise=True)

    return external_reader.map_leaves(column, t, leaf) if t.root in ("ARRAY", "MAP", "ROW") else leaf(column, t)  # type: ignore[return-value] # leaf changes each


def _parse_texts(texts: pl.Series, *, t: DataType, how: TextOptions, name: str) -> pl.Series:
    found, bad = values.parse_values(texts, t, how, name)
    bad = bad.fill_null(value=False)
    if bad.any() and not how.ignores_errors:
        raise Corrupt(f"column {name} is {t}, but a line holds {texts.filter(bad)[0][:80]!r}", field=name)
    return found.alias(texts.name)


# ---- out -------------------------------------------------------------------------------------------------------------------------------------


def printed(frame: pl.DataFrame, fields: Sequence[Field], how: TextOptions) -> pl.Series:
    """The lines of some rows. Raises `ValueOutOfRange` for a map with a null key, or a value that holds a line end of its own making."""
    for field in fields:
        keys = list(_null_keys(col(field.name), field.type))
        if keys and frame.select(pl.any_horizontal(keys).any()).item():
            raise refuse_null_key(field.name, "json")
    lines = frame.select(_object(((field.name, col(field.name), field.type) for field in fields), how)).to_series()
    if not how.ends_anyhow and lines.str.contains(how.line_end, literal=True).any():
        raise ValueOutOfRange(f"a row holds the line end {how.line_end!r}, which ends a row of the file; leave json.line-delimiter as it is")
    return lines


def _object(members: Iterable[tuple[str, pl.Expr, DataType]], how: TextOptions) -> pl.Expr:
    texts = [pl.concat_str(pl.lit(json.dumps(name, ensure_ascii=False) + ":"), _text(one, t, how)) for name, one, t in members]
    return pl.concat_str(pl.lit("{"), pl.concat_str(texts, separator=",") if texts else pl.lit(""), pl.lit("}"))


def _text(column: pl.Expr, t: DataType, how: TextOptions) -> pl.Expr:
    """A value as JSON."""
    match t.root:
        case "ARRAY":
            found = _join_items("[", column.list.eval(_text(pl.element(), part(t.element), how)), "]")
        case "MAP":
            key, value = pl.element().struct.field("key"), pl.element().struct.field("value")
            pair = pl.concat_str(_text(key, part(t.key), how), pl.lit(":"), _text(value, part(t.value), how))
            found = _join_items("{", column.list.eval(pair), "}")
        case "ROW":
            found = _object(((f.name, struct_field(column, f.name), f.type) for f in t.fields), how)
        case _:
            return pl.struct(values.print_values(column, t, how).alias("x")).struct.json_encode().str.slice(5).str.head(-1)
    return pl.when(column.is_not_null()).then(found).otherwise(pl.lit("null"))


def _join_items(before: str, texts: pl.Expr, after: str) -> pl.Expr:
    return pl.concat_str(pl.lit(before), texts.list.join(","), pl.lit(after))


def _null_keys(column: pl.Expr, t: DataType) -> Iterator[pl.Expr]:
    """Whether a value holds a map with a null key, for every map in its type."""
    match t.root:
        case "ARRAY":
            yield from (column.list.eval(one).list.any() for one in _null_keys(pl.element(), part(t.element)))
        case "MAP":
            yield column.list.eval(pl.element().struct.field("key").is_null()).list.any()
            yield from (column.list.eval(one).list.any() for one in _null_keys(pl.element().struct.field("value"), part(t.value)))
        case "ROW":
            for f in t.fields:
                yield from _null_keys(struct_field(column, f.name), f.type)
