"""nested_update and nested_partial_update: an ARRAY of ROW as a nested table, with or without a key.

    key sub_order_id    [{1, A}] + [{2, B}]  ->  [{1, A}, {2, B}]        [{1, A}] + [{1, C}]  ->  [{1, C}]

A value that is the only one of its key stays as it is, null rows and repeated nested keys included. Rows with a nested
key come out in the order of the reference's hash table, which `pool.hash_order` computes; nested_partial_update of the
reference reverses the order of rows that share a bucket with every step, and this does not. Engine 1.4.2 has no
`nested-sequence-field` and ignores it (case `aggregate_nested_update`); of later engines `nested-key-null-strategy` is
followed, and with it their counting of `count-limit`.

Source: ENGINE.md 3.4, `FieldNestedUpdateAgg` and `FieldNestedPartialUpdateAgg` (1.4.2 and the development version).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lakekit.codec import binary_row, hashing
from lakekit.columns import CODE, HASH, KEY, VALUE, cols
from lakekit.errors import SchemaMismatch
from lakekit.lsm.aggregates import by_key, pool as pools
from lakekit.lsm.aggregates.collections import has_list, has_op, lists_by_key
from lakekit.lsm.aggregates.contract import NO_LIMIT, aggregate, contributions
from lakekit.lsm.numpy_columns import not_null_mask
from lakekit.lsm.row_versions import RETRACT, SET_RETRACT
from lakekit.types import part

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.lsm.aggregates.contract import FieldFunction
    from lakekit.lsm.aggregates.pool import FlattenedLists
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.row_versions import Versions


def _refuses(function: FieldFunction) -> str | None:
    if function.type.root != "ARRAY" or part(function.type.element).root != "ROW":
        return f"Data type for nested table column must be 'Array<Row>' but was '{function.type}'."
    names = [inner.name for inner in part(function.type.element).fields]
    strays = [name for name in function.nested_key if name not in names]
    if strays:
        return f"nested-key of column {function.column} names {', '.join(strays)}; the rows have {', '.join(names)}"
    return None


def _refuses_partial(function: FieldFunction) -> str | None:
    if function.nested_key:
        return _refuses(function)
    return (
        _refuses(function)
        or f"nested_partial_update of column {function.column} needs 'fields.{function.column}.nested-key'"
    )


@aggregate("nested_update", refuses=_refuses, retracts=True)
def nested_update(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return all rows of the nested table; with a nested key, the last row of each.

    Retracting removes equal rows, or rows of equal nested key.
    """
    pool = pools.flatten_lists(column.gather(versions.rows))
    codes = _codes(function, pool)
    hashes = _hashes(function, pool)
    if _is_newer(function) or function.count_limit != NO_LIMIT or has_op(ops, RETRACT, SET_RETRACT):
        return lists_by_key(versions, column, ops, pool, _make_scalar_fold(function, pool, codes, hashes))
    used = contributions(versions, ops)
    elements, keys = pool.spread(used.places, used.keys)
    alone = _has_single_value(versions, pool, used.places, used.keys)
    merged = _present_elements(pool)[elements] & ~alone[keys]
    rows, rows_keys = elements[merged], keys[merged]
    if function.nested_key:
        rows, rows_keys = pools.select_latest(rows_keys, codes[rows], rows)
        rows = rows[pools.hash_order_by_key(rows_keys, hashes[rows])]
    as_is = alone[keys]
    rows, rows_keys = np.concatenate([rows, elements[as_is]]), np.concatenate([rows_keys, keys[as_is]])
    ordered = np.argsort(rows_keys, kind="stable")
    return pool.built(column, rows[ordered], rows_keys[ordered], has_list(versions, pool, used.places, used.keys))


def _is_newer(function: FieldFunction) -> bool:
    return function.nested_key_nulls != "merge"


def _hashes(function: FieldFunction, pool: FlattenedLists) -> Array:
    """Return the hash of each row's nested key, encoded as a binary row."""
    fields = {inner.name: inner.type for inner in part(function.type.element).fields}
    if not function.nested_key:
        return np.zeros(len(pool.elements), np.int32)
    keys = pool.elements.struct.unnest().select(cols(function.nested_key)).to_arrow().columns
    return hashing.hash_rows(binary_row.encode_columns(keys, [fields[name] for name in function.nested_key]))


def _present_elements(pool: FlattenedLists) -> Bools:
    not_null = not_null_mask(pool.elements)
    return np.ones(len(pool.elements), bool) if not_null is None else not_null


def _has_single_value(versions: Versions, pool: FlattenedLists, places: Ints, keys: Ints) -> Bools:
    """Return which keys have at most one value that is not null: nothing is merged into it."""
    return np.asarray(np.bincount(keys[pool.there[places]], minlength=versions.count) <= 1)


def _codes(function: FieldFunction, pool: FlattenedLists) -> Array:
    fields = pool.elements.struct.unnest()
    return pools.codes(fields.select(cols(function.nested_key)) if function.nested_key else fields)


def _make_scalar_fold(function: FieldFunction, pool: FlattenedLists, codes: Array, hashes: Array) -> by_key.ScalarFold:
    numbers, is_present, element_hashes = (
        by_key.scalars(codes),
        by_key.scalars(_present_elements(pool)),
        by_key.scalars(hashes),
    )
    usable = _usable_rows(function, pool, is_present)

    def tabled(rows: list[int], retracted: set[int] | None = None) -> list[int]:
        """Return the last row of each nested key, in the order of a hash table that all of them went into."""
        last_of_key = {numbers[element]: element for element in rows}
        order = pools.hash_order([element_hashes[element] for element in last_of_key.values()])
        elements = list(last_of_key.values())
        return [elements[at] for at in order if retracted is None or numbers[elements[at]] not in retracted]

    def agg(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        if len(accumulator) >= function.count_limit:
            return accumulator
        fresh = [element for element in value if is_present[element]][: function.count_limit - len(accumulator)]
        rows = [*(element for element in accumulator if is_present[element]), *fresh]
        return tabled(rows) if function.nested_key else rows

    def retract(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if accumulator is None or value is None:
            return accumulator
        retracted = {numbers[element] for element in value if usable[element]}
        rows = [element for element in accumulator if usable[element]]
        return (
            tabled(rows, retracted)
            if function.nested_key
            else [element for element in rows if numbers[element] not in retracted]
        )

    newer = _make_limited_agg(function, numbers, usable, tabled) if _is_newer(function) else agg
    return by_key.ScalarFold(agg=newer, retract=retract)


def _usable_rows(function: FieldFunction, pool: FlattenedLists, is_present: list[bool]) -> list[bool]:
    """Return which rows of nested tables take part: no null rows, and by option no rows with a null in their key."""
    if function.nested_key_nulls == "merge" or not function.nested_key:
        return is_present
    keys = pool.elements.struct.unnest().select(cols(function.nested_key))
    has_full_key = keys.select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    rows = np.array(is_present, bool)
    if function.nested_key_nulls == "error" and (rows & ~has_full_key).any():
        raise SchemaMismatch(
            f"Nested key contains null values. Primary key fields must not be null. (column {function.column}, "
            f"nested-key {', '.join(function.nested_key)})",
            column=function.column,
        )
    return by_key.scalars(rows & has_full_key)


def _make_limited_agg(
    function: FieldFunction, numbers: list[int], usable: list[bool], tabled: Callable[[list[int]], list[int]]
) -> Any:
    """Return the `agg` of engines after 1.4.2: the limit counts keys, and the first value is deduplicated too."""

    def agg(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if value is None:
            return accumulator
        if not function.nested_key:
            if accumulator is not None and len(accumulator) >= function.count_limit:
                return accumulator
            elements = [element for element in accumulator or () if usable[element]]
            return [
                *elements,
                *[element for element in value if usable[element]][: function.count_limit - len(accumulator or ())],
            ]
        rows = {numbers[element]: element for element in accumulator or () if usable[element]}
        for element in value:
            if usable[element] and (numbers[element] in rows or len(rows) < function.count_limit):
                rows[numbers[element]] = element
        return tabled(list(rows.values()))

    return agg


@aggregate("nested_partial_update", refuses=_refuses_partial)
def nested_partial_update(
    function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None
) -> pl.Series:
    """Return one row for each nested key, each field its last value that is not null."""
    pool = pools.flatten_lists(column.gather(versions.rows))
    used = contributions(versions, ops)
    elements, keys = pool.spread(used.places, used.keys)
    alone = _has_single_value(versions, pool, used.places, used.keys)
    merged = _present_elements(pool)[elements] & ~alone[keys]
    rows = pool.elements.gather(pl.Series(elements[merged])).struct.unnest()
    names = rows.columns
    grouped = (
        rows.with_columns(
            **{
                KEY: keys[merged],
                CODE: _codes(function, pool)[elements[merged]],
                HASH: _hashes(function, pool)[elements[merged]],
            }
        )
        .group_by(KEY, CODE, maintain_order=True)
        .agg(pl.col(HASH).first(), *(field.last(ignore_nulls=True) for field in cols(names)))
    )
    as_is = alone[keys]
    untouched = pl.DataFrame({KEY: keys[as_is], VALUE: pool.elements.gather(pl.Series(elements[as_is]))})
    by_hash = pools.hash_order_by_key(grouped[KEY].to_numpy(), grouped[HASH].to_numpy())
    grouped = grouped[by_hash]
    both = pl.concat([grouped.select(KEY, pl.struct(cols(names)).alias(VALUE)), untouched]).sort(
        KEY, maintain_order=True
    )
    return pools.rebuild_lists(
        column, both[VALUE], both[KEY].to_numpy(), has_list(versions, pool, used.places, used.keys)
    )
