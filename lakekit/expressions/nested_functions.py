"""Fields of ROW, elements of ARRAY, values of MAP; functions of lists and maps.

r.a, struct_extract(r, 'a')    arr[1] the first, arr[-1] the last    m['k'] NULL where the key is not there
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import struct_field
from lakekit.expressions.comparison import list_literal, unify
from lakekit.expressions.typed_expression import TypedExpression, mismatch, null_literal, typed_value

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENTRY = ["key", "value"]


def _plain_type(dtype: object) -> pl.DataType:
    """Return a type that may be given as its class."""
    own = dtype() if isinstance(dtype, type) else dtype
    assert isinstance(own, pl.DataType)
    return own


def field_of(value: TypedExpression, name: str) -> TypedExpression | None:
    """Return a field of a ROW, in whatever case it is written; None where it has none of that name."""
    fields = value.dtype.fields if isinstance(value.dtype, pl.Struct) else []
    named = [field for field in fields if field.name == name] or [
        field for field in fields if field.name.lower() == name.lower()
    ]
    if len(named) != 1:
        return None
    return typed_value(struct_field(value.expr, named[0].name), _plain_type(named[0].dtype), value)


def extract_field(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001 - as all of the table
    """Return a field of a ROW by its name, a literal."""
    row, name = values[0], values[1].literal
    found = field_of(row, name) if isinstance(name, str) else None
    if found is None:
        fields = ", ".join(field.name for field in row.dtype.fields) if isinstance(row.dtype, pl.Struct) else "none"
        raise mismatch(f"{row.description} and has no field {name!r}; it has {fields}")
    return found


def map_types(dtype: pl.DataType) -> tuple[pl.DataType, pl.DataType] | None:
    """Return the types of a MAP's keys and values; None for another type."""
    inner = dtype.inner if isinstance(dtype, pl.List) else None
    if not isinstance(inner, pl.Struct) or [field.name for field in inner.fields] != _ENTRY:
        return None
    key, value = (_plain_type(field.dtype) for field in inner.fields)
    return key, value


def element_of(value: TypedExpression, index: TypedExpression, zone: str) -> TypedExpression:
    """Return an element of an ARRAY by its place from 1, a value of a MAP by its key, a field of a ROW by its name.

    NULL where there is none.

    Raises: `TranslationRefusal` for a value without elements.
    """
    if isinstance(value.dtype, pl.Struct):
        return extract_field([value, index], zone)
    types = map_types(value.dtype)
    if types is not None:
        if index.is_null:
            return null_literal(types[1])
        if not index.is_constant:
            raise mismatch(
                f"a value of a MAP is named by a literal key, and {index.description}, computed for each row"
            )
        key = list_literal(typed_value(pl.lit(None, types[0]), types[0]), index, zone)
        found = value.expr.list.filter(struct_field(pl.element(), "key") == key)
        entry = found.list.get(0, null_on_oob=True)
        return typed_value(struct_field(entry, "value"), types[1], value, index)
    if not isinstance(value.dtype, pl.List):
        raise mismatch(f"[ ] names an element of an ARRAY or a MAP, and {value.description}")
    dtype = _plain_type(value.dtype.inner)
    if index.is_null:
        return null_literal(dtype)
    if not index.is_integer:
        raise mismatch(f"an element of an ARRAY is named by its place, and {index.description}")
    if isinstance(index.literal, int):
        place: pl.Expr | int = index.literal - (index.literal > 0)
        if index.literal == 0 or abs(index.literal) >= 1 << 31:
            return null_literal(dtype)
    else:
        at = index.expr.cast(pl.Int64())
        place = pl.when(at > 0).then(at - 1).when(at < 0).then(at)
    return typed_value(value.expr.list.get(place, null_on_oob=True), dtype, value, index)


def list_contains(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    """Return whether an ARRAY has an element; false where it has only others, NULL among them."""
    items, item = values
    _check_list(items, "list_contains")
    of_null = pl.when(items.expr.list.len() == 0).then(pl.lit(value=False))  # nothing is in an empty list
    if item.is_null or item.literal is None:
        return typed_value(of_null, pl.Boolean(), items)
    found, wanted = _contains(items, item, zone)
    return typed_value(pl.when(wanted.is_not_null()).then(found).otherwise(of_null), pl.Boolean(), items, item)


def _contains(items: TypedExpression, item: TypedExpression, zone: str) -> tuple[pl.Expr, pl.Expr]:
    """Return whether a list has a value, both in one type, and the value in it.

    Raises: `TranslationRefusal` for a value of another kind than the elements.
    """
    assert isinstance(items.dtype, pl.List)
    inner = _plain_type(items.dtype.inner)
    (_, wanted), dtype = unify([typed_value(pl.lit(None, inner), inner), item], zone)
    searched = items.expr if dtype == inner else items.expr.cast(pl.List(dtype))
    return searched.list.contains(wanted.expr), wanted.expr


def equals_any(value: TypedExpression, items: TypedExpression, zone: str) -> TypedExpression:
    """Return value = ANY (list): NULL where the value, or an element, is NULL and none equals; false of no elements."""
    _check_list(items, "= ANY")
    if value.is_null or value.literal is None:
        return typed_value(
            pl.when(items.expr.list.len().fill_null(0) == 0).then(pl.lit(value=False)), pl.Boolean(), items
        )
    found, wanted = _contains(items, value, zone)
    result = (
        pl.when(items.expr.list.len().fill_null(0) == 0)
        .then(pl.lit(value=False))
        .when(wanted.is_null())
        .then(pl.lit(None, pl.Boolean()))
        .when(found)
        .then(pl.lit(value=True))
        .when(~items.expr.list.eval(pl.element().is_null()).list.any())
        .then(pl.lit(value=False))
    )
    return typed_value(result, pl.Boolean(), value, items)


def _check_list(items: TypedExpression, word: str) -> None:
    if not isinstance(items.dtype, pl.List) or map_types(items.dtype) is not None:
        raise mismatch(f"{word} takes an ARRAY, and {items.description}")


def list_length(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return how many elements an ARRAY or a MAP has, or characters a text."""
    value = values[0]
    if value.is_text:
        return typed_value(value.expr.str.len_chars().cast(pl.Int64()), pl.Int64(), value)
    if not isinstance(value.dtype, pl.List):
        raise mismatch(f"the length of a text, an ARRAY or a MAP is counted, and {value.description}")
    return typed_value(value.expr.list.len().cast(pl.Int64()), pl.Int64(), value)


def map_part(values: Sequence[TypedExpression], part: str) -> TypedExpression:
    """Return the keys or the values of a MAP as an ARRAY."""
    types = map_types(values[0].dtype)
    if types is None:
        raise mismatch(f"map_{part}s takes a MAP, and {values[0].description}")
    dtype = types[part == "value"]
    inner = values[0].expr.list.eval(struct_field(pl.element(), part))
    return typed_value(inner, pl.List(dtype), values[0])
