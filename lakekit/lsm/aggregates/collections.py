"""collect, merge_map, merge_map_with_keytime: arrays and maps that grow.

Where the reference's order is that of a hash table, elements here are in the order in which they came. Elements and map
keys of binary types are never equal to each other in engine 1.4.2, which compares their Java objects: none of them is
dropped or replaced.

Source: ENGINE.md 3.4 and 3.6; `FieldCollectAgg`, `FieldMergeMapAgg`, `FieldMergeMapWithKeyTimeAgg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lakekit.lsm.aggregates import by_key, pool as pools
from lakekit.lsm.aggregates.contract import aggregate, contributions, roots
from lakekit.lsm.numpy_columns import not_null_mask
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET_RETRACT
from lakekit.types import BINARIES, NESTED_TYPES, part

if TYPE_CHECKING:
    from lakekit.lsm.aggregates.contract import FieldFunction
    from lakekit.lsm.aggregates.pool import FlattenedLists
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.row_versions import Versions

ENTRY_KEY = 0
"""The index of the key in a map entry's struct."""


def has_op(ops: Array | None, *kinds: int) -> bool:
    """Return whether any version has one of those operations."""
    return ops is not None and bool(np.isin(ops, kinds).any())


def has_list(versions: Versions, pool: FlattenedLists, places: Ints, keys: Ints) -> Bools:
    """Return which keys have a list that is not null."""
    keys_with_list = np.zeros(versions.count, bool)
    keys_with_list[keys[pool.there[places]]] = True
    return keys_with_list


# ---- collect ---------------------------------------------------------------------------------------------------------


@aggregate("collect", refuses=roots("collect", "Array", "ARRAY"), retracts=True)
def collect(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return all elements, oldest version first; with `distinct` each once.

    A retracted element removes the first one that equals it.
    """
    if has_op(ops, REVERSE) and not function.ignore_retract:
        assert ops is not None
        ops = np.where(ops == REVERSE, ADD, ops)
    pool = pools.flatten_lists(column.gather(versions.rows))
    if has_op(ops, RETRACT, SET_RETRACT) or (function.distinct and has_op(ops, REVERSE)):
        return _collect_by_key(function, versions, column, ops, pool)
    used = contributions(versions, ops)
    elements, keys = pool.spread(used.places, used.keys)
    if function.distinct:
        keep = pools.firsts(keys, _element_codes(function, pool)[elements]) | used.set_alone[keys]
        elements, keys = elements[keep], keys[keep]
    return pool.built(column, elements, keys, has_list(versions, pool, used.places, used.keys))


def _element_codes(function: FieldFunction, pool: FlattenedLists) -> Array:
    """Return a number for each element, the same for equal elements."""
    if part(function.type.element).root in BINARIES:
        return np.where(pool.elements.is_null().to_numpy(), -1, np.arange(len(pool.elements)))
    return pools.codes(pool.elements.rename("element").to_frame())


def _collect_by_key(
    function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None, pool: FlattenedLists
) -> pl.Series:
    codes = by_key.scalars(_element_codes(function, pool))
    nested = part(function.type.element).root in NESTED_TYPES

    def agg(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if accumulator is None and value is None:
            return None
        if not function.distinct:
            return (
                [*accumulator, *value]
                if accumulator is not None and value is not None
                else accumulator
                if value is None
                else value
            )
        seen_codes: set[int] = set()
        elements = []
        for element in accumulator or ():
            if nested or codes[element] not in seen_codes:  # nested elements of the accumulator count as distinct
                elements.append(element)
            seen_codes.add(codes[element])
        for element in value or ():
            if codes[element] not in seen_codes:
                elements.append(element)
                seen_codes.add(codes[element])
        return elements

    def retract(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if not accumulator or not value:
            return accumulator
        retracted = [codes[element] for element in value]
        elements = []
        for element in accumulator:
            if codes[element] in retracted:
                retracted.remove(codes[element])
            else:
                elements.append(element)
        return elements

    return lists_by_key(versions, column, ops, pool, by_key.ScalarFold(agg=agg, retract=retract))


def lists_by_key(
    versions: Versions, column: pl.Series, ops: Array | None, pool: FlattenedLists, scalar: by_key.ScalarFold
) -> pl.Series:
    """Return the lists that a fold over lists of element numbers computes, one for each key."""
    lists = zip(by_key.scalars(pool.starts), by_key.scalars(pool.sizes), by_key.scalars(pool.there), strict=True)
    ranges = [list(range(at, at + size)) if is_present else None for at, size, is_present in lists]
    results = by_key.fold_values(versions, ranges, ops, scalar)
    not_null = np.array([result is not None for result in results], bool)
    sizes = [len(result or ()) for result in results]
    elements = np.array([element for result in results for element in result or ()], np.int64)
    return pool.built(column, elements, np.repeat(np.arange(versions.count), sizes), not_null)


# ---- maps ------------------------------------------------------------------------------------------------------------


@aggregate("merge_map", refuses=roots("merge map", "MAP", "MAP"), retracts=True)
def merge_map(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return one map of all, later values of a map key winning; a retracted map removes its keys."""
    pool = pools.flatten_lists(column.gather(versions.rows))
    codes = _map_codes(function, pool)
    if has_op(ops, RETRACT, SET_RETRACT):
        return lists_by_key(
            versions,
            column,
            ops,
            pool,
            by_key.ScalarFold(agg=_make_merge(by_key.scalars(codes)), retract=_make_retract(by_key.scalars(codes))),
        )
    used = contributions(versions, ops)
    elements, keys = pool.spread(used.places, used.keys)
    elements, keys = pools.select_latest(keys, codes[elements], elements)
    return pool.built(column, elements, keys, has_list(versions, pool, used.places, used.keys))


def _map_codes(function: FieldFunction, pool: FlattenedLists) -> Array:
    if part(function.type.key).root in BINARIES:
        return np.arange(len(pool.elements))
    return pools.codes(pool.elements.struct.unnest()[:, [ENTRY_KEY]])


def _make_merge(codes: list[int]) -> Any:
    def agg(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return list({codes[element]: element for element in (*accumulator, *value)}.values())

    return agg


def _make_retract(codes: list[int]) -> Any:
    def retract(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if not accumulator or not value:
            return accumulator
        retracted = {codes[element] for element in value}
        return [element for element in accumulator if codes[element] not in retracted]

    return retract


def _refuses_keytime(function: FieldFunction) -> str | None:
    if function.type.root != "MAP":
        return f"Data type for field '{function.column}' must be 'MAP' but was '{function.type}'"
    row = part(function.type.value)
    if row.root != "ROW":
        return f"Value type of MAP for field '{function.column}' must be ROW but was '{row}'"
    if len(row.fields) < 2:
        return f"ROW type for field '{function.column}' must have at least 2 fields, but found {len(row.fields)}"
    names = [inner.name for inner in row.fields]
    if function.time_field is not None and function.time_field not in names:
        return (
            f"Timestamp field '{function.time_field}' not found in ROW type for field '{function.column}'. Available "
            f"fields: {names}"
        )
    return None


@aggregate("merge_map_with_keytime", refuses=_refuses_keytime)
def merge_map_with_keytime(
    function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None
) -> pl.Series:
    """Return one map of all: a value replaces one whose time, as text, is older; a null value removes its key."""
    pool = pools.flatten_lists(column.gather(versions.rows))
    codes = by_key.scalars(_map_codes(function, pool))
    entries = pool.elements.struct.unnest()
    rows = entries.to_series(1)
    names = [inner.name for inner in part(function.type.value).fields]
    index = len(names) - 1 if function.time_field is None else names.index(function.time_field)
    clock = rows.struct.unnest().to_series(index) if len(rows) else pl.Series([], dtype=pl.String)
    alive_mask = not_null_mask(rows)
    alive = [True] * len(rows) if alive_mask is None else by_key.scalars(alive_mask)
    times = clock.cast(pl.String).to_list()  # scalar: compared entry by entry in the order of versions

    def agg(accumulator: list[int] | None, value: list[int] | None) -> list[int] | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        merged = {codes[element]: element for element in accumulator}
        for element in value:
            code = codes[element]
            if not alive[element]:
                merged.pop(code, None)
            elif times[element] is not None:
                old = merged.get(code)
                if (
                    old is None
                    or not alive[old]
                    or times[old] is None
                    or _java_order(times[element]) > _java_order(times[old])
                ):
                    merged[code] = element
        return list(merged.values())

    return lists_by_key(versions, column, ops, pool, by_key.ScalarFold(agg=agg))


def _java_order(text: str) -> bytes:
    """Return the sort key of a text in Java, which compares UTF-16 units."""
    return text.encode("utf-16-be")
