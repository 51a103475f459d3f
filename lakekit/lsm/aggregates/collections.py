"""Functions on arrays and maps: collect, the merge_map family, nested_update, nested_partial_update.

    values  [a, b]  null  [c]          elements  a b c              `FlattenedLists`: all elements in one series,
                                       sizes     2 0 1              each list a range of it
                                       there     yes no yes
    nested_update, key sub_order_id    [{1, A}] + [{2, B}]  ->  [{1, A}, {2, B}]     [{1, A}] + [{1, C}]  ->  [{1, C}]

A function works on row numbers of elements, whatever the elements are, and one gather makes lists of them again. Where
the reference's order is that of a hash table, elements of collect and maps are in the order in which they came.
Elements and map keys of binary types are never equal to each other in engine 1.4.2, which compares their Java objects:
none of them is dropped or replaced.

Nested tables: a value that is the only one of its key stays as it is, null rows and repeated nested keys included. Rows
with a nested key come out in the order of the reference's hash table (`hash_order`); nested_partial_update of the
reference reverses the order of rows that share a bucket with every step, and this does not. Engine 1.4.2 has no
`nested-sequence-field` and ignores it (case `aggregate_nested_update`); of later engines `nested-key-null-strategy` is
followed, and with it their counting of `count-limit`.

Source: ENGINE.md 3.4 and 3.6; `FieldCollectAgg`, `FieldMergeMapAgg`, `FieldMergeMapWithKeyTimeAgg`;
`FieldNestedUpdateAgg` and `FieldNestedPartialUpdateAgg` of 1.4.2 and the development version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row, hashing
from lakekit.columns import CODE, HASH, KEY, ROW, VALUE, cols
from lakekit.errors import SchemaMismatch
from lakekit.lsm.aggregates import function as by_key
from lakekit.lsm.aggregates.function import declare_aggregate, list_contributions, require_type_roots
from lakekit.lsm.merge_spec import NO_LIMIT
from lakekit.lsm.numpy_columns import float_bits, not_null_mask
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET_RETRACT
from lakekit.types import BINARIES, NESTED_TYPES, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.lsm.merge_spec import FieldFunction
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.row_versions import Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class FlattenedLists:
    """The lists of a column, flattened. See the drawing in the module."""

    elements: pl.Series
    starts: Ints
    sizes: Ints
    not_null: Bools

    def elements_of_lists(self, list_indices: Ints, keys: Ints) -> tuple[Ints, Ints]:
        """Return the elements of the lists at `list_indices`, one list after another, and the key of each element."""
        sizes = self.sizes[list_indices]
        ends = np.cumsum(sizes)
        inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        return inside + np.repeat(self.starts[list_indices], sizes), np.repeat(keys, sizes)

    def rebuild(self, column: pl.Series, elements: Ints, keys: Ints, not_null: Bools) -> pl.Series:
        """Return lists like `column`'s, one for each key, null where not `not_null`.

        `elements` are grouped by key.
        """
        return rebuild_lists(column, self.elements.gather(pl.Series(elements)), keys, not_null)


def flatten_lists(lists: pl.Series) -> FlattenedLists:
    """Flatten a column of lists."""
    not_null = not_null_mask(lists)
    sizes = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    elements = lists.explode(empty_as_null=False, keep_nulls=False)
    return FlattenedLists(
        elements=elements,
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        not_null=np.ones(len(lists), bool) if not_null is None else not_null,
    )


def rebuild_lists(column: pl.Series, elements: pl.Series, keys: Ints, not_null: Bools) -> pl.Series:
    """Return lists like `column`'s from elements that are grouped by key."""
    offsets = np.zeros(len(not_null) + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=len(not_null)), out=offsets[1:])
    mask = None if not_null.all() else pa.array(~not_null)
    array = pa.LargeListArray.from_arrays(pa.array(offsets), elements.to_arrow(), mask=mask)
    result = pl.from_arrow(array)
    assert isinstance(result, pl.Series)
    return result.cast(column.dtype).alias(column.name)


def number_elements(elements: pl.DataFrame) -> Array:
    """Return a number for each element: equal rows of the frame have equal numbers.

    Floats are compared as Java's boxed ones: -0.0 is not 0.0, NaN equals NaN.
    """
    floats = [name for name, dtype in elements.schema.items() if dtype.is_float()]
    bits = [float_bits(elements[name]) for name in floats]
    named = elements.with_columns(bits)
    code_of_row = np.zeros(elements.height, np.int64)
    groups = (
        named.with_row_index(ROW)
        .group_by(cols(named.columns), maintain_order=True)
        .agg(pl.col(ROW))
        .select(ROW)
        .with_row_index(CODE)
        .explode(ROW)
    )
    code_of_row[groups[ROW].to_numpy()] = groups[CODE].to_numpy()
    return code_of_row


def mask_first_elements(keys: Ints, element_codes: Array) -> Bools:
    """Return which elements are the first of their value within their key."""
    return (
        pl.DataFrame({"key": keys, "code": element_codes})
        .select(pl.struct("key", "code").is_first_distinct())
        .to_series()
        .to_numpy()
    )


def select_latest(keys: Ints, element_codes: Array, elements: Ints) -> tuple[Ints, Ints]:
    """Return for each value within a key its last element, in the order in which values came first; and the keys."""
    latest = (
        pl.DataFrame({"key": keys, "code": element_codes, "element": elements})
        .group_by("key", "code", maintain_order=True)
        .agg(pl.col("element").last())
    )
    return latest["element"].to_numpy(), latest["key"].to_numpy()


def hash_order_by_key(keys: Ints, hashes: Array) -> Ints:
    """Return the iteration order of Java's hash tables, one for each key: by bucket, then by insertion.

    `keys` are ascending.
    """
    count = np.bincount(keys) if len(keys) else np.zeros(0, np.int64)
    # a table doubles when more than three quarters of its buckets are taken
    capacity = np.maximum(16, 2 ** np.ceil(np.log2(np.maximum(count, 1) / 0.75)).astype(np.int64))
    spread = hashes.astype(np.int32).view(np.uint32)
    bucket = (spread ^ (spread >> np.uint32(16))).astype(np.int64) & (capacity[keys] - 1)
    return np.lexsort((bucket, keys))


def hash_order(hashes: list[int]) -> list[int]:
    """Return the iteration order of one Java hash table."""
    return [
        int(at)
        for at in hash_order_by_key(np.zeros(len(hashes), np.int64), np.array(hashes, np.int64).astype(np.int32))
    ]


# ---- collections ------------------------------------------------------------


ENTRY_KEY = 0
"""The index of the key in a map entry's struct."""


def has_op(ops: Array | None, *kinds: int) -> bool:
    """Return whether any version has one of those operations."""
    return ops is not None and bool(np.isin(ops, kinds).any())


def has_list(versions: Versions, lists: FlattenedLists, list_indices: Ints, keys: Ints) -> Bools:
    """Return which keys have a list that is not null."""
    keys_with_list = np.zeros(versions.count, bool)
    keys_with_list[keys[lists.not_null[list_indices]]] = True
    return keys_with_list


# ---- collect ---------------------------------------------------------------------------------------------------------


@declare_aggregate("collect", type_problem=require_type_roots("collect", "Array", "ARRAY"), can_retract=True)
def fold_collect(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return all elements, oldest version first; with `distinct` each once.

    A retracted element removes the first one that equals it.
    """
    if has_op(ops, REVERSE) and not function.ignore_retract:
        assert ops is not None
        ops = np.where(ops == REVERSE, ADD, ops)
    pool = flatten_lists(column.gather(versions.row_numbers))
    if has_op(ops, RETRACT, SET_RETRACT) or (function.distinct and has_op(ops, REVERSE)):
        return _collect_by_key(function, versions, column, ops, pool)
    used = list_contributions(versions, ops)
    elements, keys = pool.elements_of_lists(used.positions, used.keys)
    if function.distinct:
        keep = mask_first_elements(keys, _element_codes(function, pool)[elements]) | used.sets_whole_value[keys]
        elements, keys = elements[keep], keys[keep]
    return pool.rebuild(column, elements, keys, has_list(versions, pool, used.positions, used.keys))


def _element_codes(function: FieldFunction, lists: FlattenedLists) -> Array:
    """Return a number for each element, the same for equal elements."""
    if part(function.type.element).root in BINARIES:
        return np.where(lists.elements.is_null().to_numpy(), -1, np.arange(len(lists.elements)))
    return number_elements(lists.elements.rename("element").to_frame())


def _collect_by_key(
    function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None, lists: FlattenedLists
) -> pl.Series:
    codes = by_key.to_python_values(_element_codes(function, lists))
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

    return lists_by_key(versions, column, ops, lists, by_key.ScalarFold(agg=agg, retract=retract))


def lists_by_key(
    versions: Versions, column: pl.Series, ops: Array | None, pool: FlattenedLists, scalar: by_key.ScalarFold
) -> pl.Series:
    """Return the lists that a fold over lists of element numbers computes, one for each key."""
    lists = zip(
        by_key.to_python_values(pool.starts),
        by_key.to_python_values(pool.sizes),
        by_key.to_python_values(pool.not_null),
        strict=True,
    )
    ranges = [list(range(at, at + size)) if is_present else None for at, size, is_present in lists]
    results = by_key.fold_values(versions, ranges, ops, scalar)
    not_null = np.array([result is not None for result in results], bool)
    sizes = [len(result or ()) for result in results]
    elements = np.array([element for result in results for element in result or ()], np.int64)
    return pool.rebuild(column, elements, np.repeat(np.arange(versions.count), sizes), not_null)


# ---- maps ------------------------------------------------------------------------------------------------------------


@declare_aggregate("merge_map", type_problem=require_type_roots("merge map", "MAP", "MAP"), can_retract=True)
def fold_merge_map(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return one map of all, later values of a map key winning; a retracted map removes its keys."""
    pool = flatten_lists(column.gather(versions.row_numbers))
    codes = _map_codes(function, pool)
    if has_op(ops, RETRACT, SET_RETRACT):
        return lists_by_key(
            versions,
            column,
            ops,
            pool,
            by_key.ScalarFold(
                agg=_make_merge(by_key.to_python_values(codes)), retract=_make_retract(by_key.to_python_values(codes))
            ),
        )
    used = list_contributions(versions, ops)
    elements, keys = pool.elements_of_lists(used.positions, used.keys)
    elements, keys = select_latest(keys, codes[elements], elements)
    return pool.rebuild(column, elements, keys, has_list(versions, pool, used.positions, used.keys))


def _map_codes(function: FieldFunction, lists: FlattenedLists) -> Array:
    if part(function.type.key).root in BINARIES:
        return np.arange(len(lists.elements))
    return number_elements(lists.elements.struct.unnest()[:, [ENTRY_KEY]])


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


@declare_aggregate("merge_map_with_keytime", type_problem=_refuses_keytime)
def merge_map_with_keytime(
    function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None
) -> pl.Series:
    """Return one map of all: a value replaces one whose time, as text, is older; a null value removes its key."""
    pool = flatten_lists(column.gather(versions.row_numbers))
    codes = by_key.to_python_values(_map_codes(function, pool))
    entries = pool.elements.struct.unnest()
    rows = entries.to_series(1)
    names = [inner.name for inner in part(function.type.value).fields]
    index = len(names) - 1 if function.time_field is None else names.index(function.time_field)
    clock = rows.struct.unnest().to_series(index) if len(rows) else pl.Series([], dtype=pl.String)
    alive_mask = not_null_mask(rows)
    alive = [True] * len(rows) if alive_mask is None else by_key.to_python_values(alive_mask)
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


# ---- nested ------------------------------------------------------------


def _nested_update_problem(function: FieldFunction) -> str | None:
    if function.type.root != "ARRAY" or part(function.type.element).root != "ROW":
        return f"Data type for nested table column must be 'Array<Row>' but was '{function.type}'."
    names = [inner.name for inner in part(function.type.element).fields]
    strays = [name for name in function.nested_key if name not in names]
    if strays:
        return f"nested-key of column {function.column} names {', '.join(strays)}; the rows have {', '.join(names)}"
    return None


def _refuses_partial(function: FieldFunction) -> str | None:
    if function.nested_key:
        return _nested_update_problem(function)
    return (
        _nested_update_problem(function)
        or f"nested_partial_update of column {function.column} needs 'fields.{function.column}.nested-key'"
    )


@declare_aggregate("nested_update", type_problem=_nested_update_problem, can_retract=True)
def nested_update(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return all rows of the nested table; with a nested key, the last row of each.

    Retracting removes equal rows, or rows of equal nested key.
    """
    pool = flatten_lists(column.gather(versions.row_numbers))
    codes = _nested_key_codes(function, pool)
    hashes = _nested_key_hashes(function, pool)
    if _is_newer(function) or function.count_limit != NO_LIMIT or has_op(ops, RETRACT, SET_RETRACT):
        return lists_by_key(versions, column, ops, pool, _make_scalar_fold(function, pool, codes, hashes))
    used = list_contributions(versions, ops)
    elements, keys = pool.elements_of_lists(used.positions, used.keys)
    alone = _has_single_value(versions, pool, used.positions, used.keys)
    merged = _present_elements(pool)[elements] & ~alone[keys]
    rows, rows_keys = elements[merged], keys[merged]
    if function.nested_key:
        rows, rows_keys = select_latest(rows_keys, codes[rows], rows)
        rows = rows[hash_order_by_key(rows_keys, hashes[rows])]
    as_is = alone[keys]
    rows, rows_keys = np.concatenate([rows, elements[as_is]]), np.concatenate([rows_keys, keys[as_is]])
    ordered = np.argsort(rows_keys, kind="stable")
    return pool.rebuild(column, rows[ordered], rows_keys[ordered], has_list(versions, pool, used.positions, used.keys))


def _is_newer(function: FieldFunction) -> bool:
    return function.nested_key_nulls != "merge"


def _nested_key_hashes(function: FieldFunction, lists: FlattenedLists) -> Array:
    """Return the hash of each row's nested key, encoded as a binary row."""
    fields = {inner.name: inner.type for inner in part(function.type.element).fields}
    if not function.nested_key:
        return np.zeros(len(lists.elements), np.int32)
    keys = lists.elements.struct.unnest().select(cols(function.nested_key)).to_arrow().columns
    return hashing.row_hash_codes(binary_row.encode_columns(keys, [fields[name] for name in function.nested_key]))


def _present_elements(lists: FlattenedLists) -> Bools:
    not_null = not_null_mask(lists.elements)
    return np.ones(len(lists.elements), bool) if not_null is None else not_null


def _has_single_value(versions: Versions, lists: FlattenedLists, list_indices: Ints, keys: Ints) -> Bools:
    """Return which keys have at most one value that is not null: nothing is merged into it."""
    return np.asarray(np.bincount(keys[lists.not_null[list_indices]], minlength=versions.count) <= 1)


def _nested_key_codes(function: FieldFunction, lists: FlattenedLists) -> Array:
    fields = lists.elements.struct.unnest()
    return number_elements(fields.select(cols(function.nested_key)) if function.nested_key else fields)


def _make_scalar_fold(function: FieldFunction, lists: FlattenedLists, codes: Array, hashes: Array) -> by_key.ScalarFold:
    numbers, is_present, element_hashes = (
        by_key.to_python_values(codes),
        by_key.to_python_values(_present_elements(lists)),
        by_key.to_python_values(hashes),
    )
    usable = _usable_rows(function, lists, is_present)

    def tabled(rows: list[int], retracted: set[int] | None = None) -> list[int]:
        """Return the last row of each nested key, in the order of a hash table that all of them went into."""
        last_of_key = {numbers[element]: element for element in rows}
        order = hash_order([element_hashes[element] for element in last_of_key.values()])
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


def _usable_rows(function: FieldFunction, lists: FlattenedLists, is_present: list[bool]) -> list[bool]:
    """Return which rows of nested tables take part: no null rows, and by option no rows with a null in their key."""
    if function.nested_key_nulls == "merge" or not function.nested_key:
        return is_present
    keys = lists.elements.struct.unnest().select(cols(function.nested_key))
    has_full_key = keys.select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    rows = np.array(is_present, bool)
    if function.nested_key_nulls == "error" and (rows & ~has_full_key).any():
        raise SchemaMismatch(
            f"Nested key contains null values. Primary key fields must not be null. (column {function.column}, "
            f"nested-key {', '.join(function.nested_key)})",
            column=function.column,
        )
    return by_key.to_python_values(rows & has_full_key)


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


@declare_aggregate("nested_partial_update", type_problem=_refuses_partial)
def nested_partial_update(
    function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None
) -> pl.Series:
    """Return one row for each nested key, each field its last value that is not null."""
    pool = flatten_lists(column.gather(versions.row_numbers))
    used = list_contributions(versions, ops)
    elements, keys = pool.elements_of_lists(used.positions, used.keys)
    alone = _has_single_value(versions, pool, used.positions, used.keys)
    merged = _present_elements(pool)[elements] & ~alone[keys]
    rows = pool.elements.gather(pl.Series(elements[merged])).struct.unnest()
    names = rows.columns
    grouped = (
        rows.with_columns(
            **{
                KEY: keys[merged],
                CODE: _nested_key_codes(function, pool)[elements[merged]],
                HASH: _nested_key_hashes(function, pool)[elements[merged]],
            }
        )
        .group_by(KEY, CODE, maintain_order=True)
        .agg(pl.col(HASH).first(), *(field.last(ignore_nulls=True) for field in cols(names)))
    )
    as_is = alone[keys]
    untouched = pl.DataFrame({KEY: keys[as_is], VALUE: pool.elements.gather(pl.Series(elements[as_is]))})
    by_hash = hash_order_by_key(grouped[KEY].to_numpy(), grouped[HASH].to_numpy())
    grouped = grouped[by_hash]
    both = pl.concat([grouped.select(KEY, pl.struct(cols(names)).alias(VALUE)), untouched]).sort(
        KEY, maintain_order=True
    )
    return rebuild_lists(column, both[VALUE], both[KEY].to_numpy(), has_list(versions, pool, used.positions, used.keys))
