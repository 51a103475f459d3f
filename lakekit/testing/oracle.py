"""Merge engines row by row, in plain Python, written from the specification alone.

The columnar engines are compared with it. Rows are dictionaries: `_SEQUENCE_NUMBER`, `_VALUE_KIND`, `columns.LEVEL`
where there is one, and the columns. Values are those of Arrow's `to_pylist`; maps and nested tables are lists. Speed is
no concern here.

Source: ENGINE.md 1.3, 2.7, 3 and 6.6, with ENGINE_1.4.2 where they differ.
"""

from __future__ import annotations

import math
import struct
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakekit.codec import binary_row, hashing
from lakekit.columns import LEVEL
from lakekit.lsm.aggregates.collections import hash_order
from lakekit.types import BINARIES, NESTED_TYPES, part
from lakekit.types.arrow import to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.lsm.merge_spec import FieldFunction, MergeSpec, SequenceGroup
    from lakekit.types import DataType

Row = dict[str, Any]
ADD_KINDS = (0, 2)
DELETE_KIND = 3
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_EXACT_CONTEXT = Context(prec=200, rounding=ROUND_HALF_UP)


class RefusedRows(Exception):
    """Rows that the engine refuses; the text is a fragment of the reference's message."""


def merge(rows: list[Row], spec: MergeSpec) -> list[Row]:
    """Return one row a key, deletes included, in no particular order."""
    keys: dict[Any, list[Row]] = {}
    for row in rows:
        keys.setdefault(tuple(row[name] for name in spec.key_columns), []).append(row)
    merged = [_merge_versions(sorted(versions, key=_age(spec)), spec) for versions in keys.values()]
    return [{name: value for name, value in row.items() if name != LEVEL} for row in merged if row is not None]


# ---- order (1.3) -----------------------------------------------------------------------------------------------------


def compare(left: Any, right: Any, *, as_sequence: bool = False) -> int:
    """Return -1, 0 or 1 for two values.

    Null is smallest, NaN largest of the numbers; -0.0 is below 0.0, but `as_sequence` they are equal.
    """
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, float) and not as_sequence:
        left, right = _float_order(left), _float_order(right)
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return int(left > right) - int(left < right)


def _float_order(value: float) -> tuple[int, float, float]:
    return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1.0, value))


def _compare_versions(left: Row, right: Row, spec: MergeSpec) -> int:
    for name in spec.sequence_fields:
        mine, theirs = left[name], right[name]
        order = compare(mine, theirs, as_sequence=True)
        if spec.is_descending and mine is not None and theirs is not None:
            order = -order
        if order:
            return order
    return compare(left["_SEQUENCE_NUMBER"], right["_SEQUENCE_NUMBER"]) or compare(_adds(left), _adds(right))


def _age(spec: MergeSpec) -> Callable[[Row], Any]:
    def older(left: Row, right: Row) -> int:
        return _compare_versions(left, right, spec)

    return cmp_to_key(older)


def _adds(row: Row) -> bool:
    return row["_VALUE_KIND"] in ADD_KINDS


# ---- engines (3) -----------------------------------------------------------------------------------------------------


def _merge_versions(versions: list[Row], spec: MergeSpec) -> Row | None:
    if len(versions) == 1:
        return versions[0]
    if spec.needs_lookup and LEVEL in versions[0]:
        above = [row for row in versions if row[LEVEL] > 0]
        lowest = min(above, key=lambda row: row[LEVEL]) if above else None
        versions = [row for row in versions if row[LEVEL] <= 0 or row is lowest]
    engines: dict[str, Callable[[list[Row], MergeSpec], Row | None]] = {
        "deduplicate": _deduplicate,
        "first-row": _first_row,
        "partial-update": _partial_update,
        "aggregation": _aggregation,
    }
    return engines[spec.engine](versions, spec)


def _deduplicate(versions: list[Row], spec: MergeSpec) -> Row | None:
    remaining = [row for row in versions if _adds(row) or not spec.ignores_deletes]
    return remaining[-1] if remaining else None


def _first_row(versions: list[Row], spec: MergeSpec) -> Row | None:
    if not spec.ignores_deletes and not all(_adds(row) for row in versions):
        raise RefusedRows("By default, First row merge engine can not accept DELETE/UPDATE_BEFORE records")
    remaining = [row for row in versions if _adds(row)]
    return remaining[0] if remaining else None


def _names(versions: list[Row], spec: MergeSpec) -> list[str]:
    return [field.name for field in spec.fields if field.name in versions[0]]


def _copy(row: Row, names: list[str], spec: MergeSpec) -> Row:
    for field in spec.fields:
        if field.name in names and not field.type.nullable and row[field.name] is None:
            raise RefusedRows("can not be null")
    return {name: row[name] for name in names}


def _aggregation(versions: list[Row], spec: MergeSpec) -> Row | None:
    names = _names(versions, spec)
    state = {name: Accumulator(spec.functions[name]) for name in names}
    merged: Row = dict.fromkeys(names)
    deleted = False
    for row in versions:
        deleted = spec.removes_on_delete and row["_VALUE_KIND"] == DELETE_KIND
        if deleted:
            merged = _copy(row, names, spec)
            continue
        for name in names:
            act = state[name].agg if _adds(row) else state[name].retract
            merged[name] = act(merged[name], row[name])
    return {
        **merged,
        "_VALUE_KIND": DELETE_KIND if deleted else 0,
        "_SEQUENCE_NUMBER": versions[-1]["_SEQUENCE_NUMBER"],
    }


def _partial_update(versions: list[Row], spec: MergeSpec) -> Row | None:
    names = _names(versions, spec)
    state = {name: Accumulator(spec.functions[name]) for name in names if name in spec.functions}
    merged: Row = dict.fromkeys(names)
    filled = inserted = deleted = False
    sequence = 0
    for row in versions:
        deleted = False
        if not _adds(row):
            if not filled:
                merged, filled = _copy(row, names, spec), True
            if spec.ignores_deletes:
                continue
            sequence = row["_SEQUENCE_NUMBER"]
            if spec.sequence_groups:
                deleted = _retract_groups(row, merged, names, spec, state)
                if deleted:
                    merged = _copy(row, names, spec)
            elif spec.removes_on_delete:
                if row["_VALUE_KIND"] == DELETE_KIND:
                    deleted, merged = True, _copy(row, names, spec)
            else:
                raise RefusedRows("By default, Partial update can not accept delete records")
            continue
        sequence = row["_SEQUENCE_NUMBER"]
        if spec.sequence_groups:
            _update_groups(row, merged, names, spec, state)
        else:
            merged.update({name: value for name, value in _copy(row, names, spec).items() if value is not None})
        inserted = filled = True
    return {**merged, "_VALUE_KIND": DELETE_KIND if deleted or not inserted else 0, "_SEQUENCE_NUMBER": sequence}


def _compare_group(row: Row, merged: Row, group: SequenceGroup) -> int:
    return next((order for name in group.columns if (order := compare(row[name], merged[name], as_sequence=True))), 0)


def _update_groups(row: Row, merged: Row, names: list[str], spec: MergeSpec, state: dict[str, Accumulator]) -> None:
    for name in names:
        group = spec.group_of(name)
        function = state.get(name)
        if group is None:
            if function is not None:
                merged[name] = function.agg(merged[name], row[name])
            elif row[name] is not None:
                merged[name] = row[name]
            continue
        if all(row[column] is None for column in group.columns):
            continue
        if _compare_group(row, merged, group) >= 0:
            if name in group.columns:
                merged.update({column: row[column] for column in group.columns})
            else:
                merged[name] = row[name] if function is None else function.agg(merged[name], row[name])
        elif function is not None:
            merged[name] = function.agg_reversed(merged[name], row[name])


def _retract_groups(row: Row, merged: Row, names: list[str], spec: MergeSpec, state: dict[str, Accumulator]) -> bool:
    """Apply a retraction to sequence groups, and return whether the row is removed."""
    for name in names:
        group = spec.group_of(name)
        if group is None or all(row[column] is None for column in group.columns):
            continue
        function = state.get(name)
        if _compare_group(row, merged, group) >= 0:
            if name in group.columns:
                if row["_VALUE_KIND"] == DELETE_KIND and group.removes_record:
                    return True
                merged.update({column: row[column] for column in group.columns})
            else:
                merged[name] = None if function is None else function.retract(merged[name], row[name])
        elif function is not None:
            merged[name] = function.retract(merged[name], row[name])
    return False


# ---- aggregate functions (3.4) ---------------------------------------------------------------------------------------


class Accumulator:
    """The aggregate function of one column, while one key is merged."""

    def __init__(self, function: FieldFunction) -> None:
        self.function, self.name, self.type = function, function.name.replace("-", "_"), function.type
        self.started = False

    def agg(self, acc: Any, value: Any) -> Any:
        """Return the aggregate with one more value."""
        if self.name in ("first_value", "first_non_null_value"):
            if self.started or (value is None and self.name == "first_non_null_value"):
                return acc
            self.started = True
            return value
        if self.name in ("last_value", "primary_key"):
            return value
        if self.name == "last_non_null_value":
            return acc if value is None else value
        if self.name == "count":
            return (acc or 0) + (value is not None)
        if self.name == "collect" and self.function.distinct and (acc is not None or value is not None):
            return _append_distinct(acc or [], value or [], self.type)
        if acc is None or value is None:
            return value if acc is None else acc
        return _COMBINER_OF_FUNCTION[self.name](self.function, acc, value)

    def agg_reversed(self, acc: Any, value: Any) -> Any:
        """Return the aggregate with one more value that is older than the others."""
        if self.name == "collect" and not self.function.ignore_retract:
            return self.agg(acc, value)
        return self.agg(value, acc)

    def retract(self, acc: Any, value: Any) -> Any:
        """Return the aggregate with one value taken back."""
        if self.function.ignore_retract:
            return acc
        match self.name:
            case "primary_key":
                return value
            case "last_value":
                return None
            case "last_non_null_value":
                return None if value is not None else acc
            case "count":
                return (acc or 0) - (value is not None)
            case "sum":
                if acc is None or value is None:
                    return acc if acc is not None else None if value is None else _negate(self.type, value)
                return _add(self.type, acc, _raw_negative(self.type, value))
            case "product":
                return acc if acc is None or value is None else _divide(self.type, acc, value)
            case "collect" | "merge_map" | "nested_update":
                return (
                    acc
                    if acc is None or value is None
                    else _RETRACTION_OF_FUNCTION[self.name](self.function, acc, value)
                )
        raise RefusedRows(f"Aggregate function '{self.function.name}' does not support retraction")


def _wrap(t: DataType, value: int) -> int:
    bits = _INTEGER_BITS[t.root]
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _float(t: DataType, value: float) -> float:
    if t.root == "DOUBLE" or not math.isfinite(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _fit_decimal(t: DataType, value: Decimal) -> Decimal | None:
    """Return a decimal rounded half up to the column's scale; None when it needs too many digits."""
    rounded = value.quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_EXACT_CONTEXT)
    rounded = rounded or rounded.copy_abs()
    return rounded if rounded.copy_abs() < Decimal(10) ** ((t.precision or 10) - (t.scale or 0)) else None


def _add(t: DataType, acc: Any, value: Any) -> Any:
    if t.root == "DECIMAL":
        total = _EXACT_CONTEXT.add(acc, value)
        total = total or total.copy_abs()
        if (t.precision or 10) <= 18 and total.scaleb(t.scale or 0, context=_EXACT_CONTEXT).copy_abs() < 2**63:
            return total
        return _fit_decimal(t, total)
    return _wrap(t, acc + value) if t.root in _INTEGER_BITS else _float(t, acc + value)


def _raw_negative(t: DataType, value: Any) -> Any:
    return _EXACT_CONTEXT.minus(value) if t.root == "DECIMAL" else -value


def _negate(t: DataType, value: Any) -> Any:
    if t.root == "DECIMAL":
        return _fit_decimal(t, _EXACT_CONTEXT.minus(value))
    return _wrap(t, -value) if t.root in _INTEGER_BITS else -value


def _multiply(t: DataType, acc: Any, value: Any) -> Any:
    if t.root == "DECIMAL":
        return _fit_decimal(t, _EXACT_CONTEXT.multiply(acc, value))
    return _wrap(t, acc * value) if t.root in _INTEGER_BITS else _float(t, acc * value)


def _divide(t: DataType, acc: Any, value: Any) -> Any:
    if t.root == "DECIMAL":
        if not value:
            raise RefusedRows("Division by zero")
        exact = Context(prec=300, traps=[Inexact])
        try:
            return _fit_decimal(t, exact.divide(acc, value))
        except Inexact as wrong:
            raise RefusedRows("Non-terminating decimal expansion") from wrong
    if t.root in _INTEGER_BITS:
        if value == 0:
            raise RefusedRows("/ by zero")
        down = abs(acc) // abs(value)
        return _wrap(t, down if (acc < 0) == (value < 0) else -down)
    if value == 0:
        return math.nan if acc == 0 or math.isnan(acc) else math.copysign(math.inf, acc) * math.copysign(1.0, value)
    return _float(t, acc / value)


def _listagg(function: FieldFunction, acc: str, value: str) -> str:
    if not acc or not value:
        return acc or value
    if not function.distinct:
        return acc + function.delimiter + value
    existing, joined = acc.split(function.delimiter), acc
    for token in value.split(function.delimiter):
        if token and token not in existing:
            existing.append(token)
            joined += function.delimiter + token
    return joined


def _is_equal(left: Any, right: Any, t: DataType) -> bool:
    """Return whether elements are equal; binary ones never are in 1.4.2 (compared by identity)."""
    if t.root in BINARIES:
        return left is None and right is None
    if isinstance(left, float) and isinstance(right, float):
        return compare(left, right) == 0
    return bool(left == right)


def _append_distinct(acc: list[Any], value: list[Any], t: DataType) -> list[Any]:
    element = part(t.element)
    distinct = list(acc) if element.root in NESTED_TYPES else []
    for item in value if element.root in NESTED_TYPES else [*acc, *value]:
        if not any(_is_equal(item, other, element) for other in distinct):
            distinct.append(item)
    return distinct


def _map_keys(function: FieldFunction, entries: list[Any]) -> list[tuple[Any, Any]]:
    binary = part(function.type.key).root in BINARIES
    return [((id(entry), entry["key"]) if binary else entry["key"], entry) for entry in entries]


def _map(function: FieldFunction, acc: list[Any], value: list[Any]) -> list[Any]:
    return list(dict([*_map_keys(function, acc), *_map_keys(function, value)]).values())


def _timed_map(function: FieldFunction, acc: list[Any], value: list[Any]) -> list[Any]:
    row = part(function.type.value)
    clock = function.time_field or row.fields[-1].name
    by_key = dict(_map_keys(function, acc))
    for key, entry in _map_keys(function, value):
        fresh, old = entry["value"], by_key.get(key, {"value": None})["value"]
        if fresh is None:
            by_key.pop(key, None)
        elif fresh[clock] is not None and (
            old is None or old[clock] is None or fresh[clock].encode("utf-16-be") > old[clock].encode("utf-16-be")
        ):
            by_key[key] = entry
    return list(by_key.values())


def _nested_key(function: FieldFunction, row: Row) -> Any:
    return repr([row[name] for name in function.nested_key])


def _nested_update(function: FieldFunction, acc: list[Any], value: list[Any]) -> list[Any]:
    if len(acc) >= function.count_limit:
        return acc
    rows = [row for row in acc if row is not None] + [row for row in value if row is not None][
        : function.count_limit - len(acc)
    ]
    return (
        _in_hash_order(function, list({_nested_key(function, row): row for row in rows}.values()))
        if function.nested_key
        else rows
    )


def _in_hash_order(function: FieldFunction, rows: list[Row]) -> list[Row]:
    """Return rows in the order of a hash table of the reference.

    Where they are added to an older version, the limit takes the first of them.
    """
    types = {inner.name: inner.type for inner in part(function.type.element).fields}
    columns = [pa.array([row[name] for row in rows], to_arrow(types[name])) for name in function.nested_key]
    hashes = hashing.row_hash_codes(binary_row.encode_columns(columns, [types[name] for name in function.nested_key]))
    return [rows[at] for at in hash_order(hashes.tolist())]


def _nested_partial(function: FieldFunction, acc: list[Any], value: list[Any]) -> list[Any]:
    by_key: dict[Any, Row] = {}
    for row in (*acc, *value):
        if row is not None:
            merged = by_key.setdefault(_nested_key(function, row), dict.fromkeys(row))
            merged.update({name: inner for name, inner in row.items() if inner is not None})
    return list(by_key.values())


def _collect_back(function: FieldFunction, acc: list[Any], value: list[Any]) -> list[Any]:
    removed, remaining = list(value), []
    for item in acc:
        match = next(
            (at for at, other in enumerate(removed) if _is_equal(item, other, part(function.type.element))), None
        )
        if match is None:
            remaining.append(item)
        else:
            del removed[match]
    return remaining


def _map_back(function: FieldFunction, acc: list[Any], value: list[Any]) -> list[Any]:
    removed_keys = [key for key, _ in _map_keys(function, value)]
    return [entry for key, entry in _map_keys(function, acc) if key not in removed_keys]


def _nested_back(function: FieldFunction, acc: list[Any], value: list[Any]) -> list[Any]:
    rows = [row for row in acc if row is not None]
    removed = [row for row in value if row is not None]
    if not function.nested_key:
        return [row for row in rows if row not in removed]
    keys = {_nested_key(function, row) for row in removed}
    return [row for key, row in {_nested_key(function, row): row for row in rows}.items() if key not in keys]


_COMBINER_OF_FUNCTION: dict[str, Callable[[FieldFunction, Any, Any], Any]] = {
    "sum": lambda function, acc, value: _add(function.type, acc, value),
    "product": lambda function, acc, value: _multiply(function.type, acc, value),
    "max": lambda _, acc, value: value if compare(acc, value) < 0 else acc,
    "min": lambda _, acc, value: acc if compare(acc, value) < 0 else value,
    "bool_and": lambda _, acc, value: acc and value,
    "bool_or": lambda _, acc, value: acc or value,
    "listagg": _listagg,
    "collect": lambda _, acc, value: acc + value,
    "merge_map": _map,
    "merge_map_with_keytime": _timed_map,
    "nested_update": _nested_update,
    "nested_partial_update": _nested_partial,
}
_RETRACTION_OF_FUNCTION: dict[str, Callable[[FieldFunction, Any, Any], Any]] = {
    "collect": _collect_back,
    "merge_map": _map_back,
    "nested_update": _nested_back,
}
