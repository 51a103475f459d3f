"""Conditions on columns, as data, for planning, statistics and file indexes.

    (k >= 5) & (s in ("a", "b"))   ->   And((Leaf("k", ">=", (5,)), Leaf("s", "in", ("a", "b"))))

A predicate is a *necessary* condition: rows that do not satisfy it may be skipped, nothing else follows from it. What
cannot be expressed is `TRUE`. Literals are plain values (None, bool, int, float, str, bytes, Decimal, date, time,
datetime), as the caller wrote them; `to_internal_literal` converts one to the internal value of a column's type.
Comparisons follow
SQL: a null satisfies only "is null".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakekit.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakekit.types import DataType

LEAF_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null", "starts with")
_NEGATED_OPERATORS = {"=": "!=", "<": ">=", ">": "<=", "in": "not in", "is null": "is not null"}
_NEGATED_OPERATORS |= {v: k for k, v in _NEGATED_OPERATORS.items()}
_MAX_SHOWN_LITERALS = 5
"""Literals of a set that `describe` names."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall clock of TIMESTAMP has no zone
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column, one operator, its literals."""

    column: str
    op: str
    literals: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class And:
    """Every part holds. `And(())` is always true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds. `Or(())` is never true."""

    parts: tuple[Predicate, ...]


Predicate = Leaf | And | Or
TRUE = And(())
FALSE = Or(())


def conjunction(parts: list[Predicate]) -> Predicate:
    """Return the conjunction, flattened; a part that is `FALSE` wins, parts that are `TRUE` vanish."""
    flat: list[Predicate] = []
    for part in parts:
        if part == FALSE:
            return FALSE
        flat += part.parts if isinstance(part, And) else (part,)
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: list[Predicate]) -> Predicate:
    """Return the disjunction, flattened; a part that is `TRUE` wins, parts that are `FALSE` vanish."""
    flat: list[Predicate] = []
    for part in parts:
        if part == TRUE:
            return TRUE
        flat += part.parts if isinstance(part, Or) else (part,)
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def negate(predicate: Predicate) -> Predicate:
    """Return a condition of all rows for which `predicate` is false; `TRUE` if it cannot be expressed.

    A null comparison satisfies neither.
    """
    match predicate:
        case And(()):
            return FALSE
        case Or(()):
            return TRUE
        case And(parts):
            return disjunction([negate(part) for part in parts])
        case Or(parts):
            return conjunction([negate(part) for part in parts])
        case Leaf(column, op, literals):
            return Leaf(column, _NEGATED_OPERATORS[op], literals) if op in _NEGATED_OPERATORS else TRUE
    return TRUE


def iter_columns(predicate: Predicate) -> Iterator[str]:
    """Yield every column mentioned, with repeats."""
    if isinstance(predicate, Leaf):
        yield predicate.column
        return
    for part in predicate.parts:
        yield from iter_columns(part)


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Yield every comparison, with repeats."""
    if isinstance(predicate, Leaf):
        yield predicate
        return
    for part in predicate.parts:
        yield from leaves(part)


def operators(predicate: Predicate) -> Iterator[str]:
    """Yield every operator used, with repeats."""
    if isinstance(predicate, Leaf):
        yield predicate.op
        return
    for part in predicate.parts:
        yield from operators(part)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the parts of a conjunction, or the predicate as the only part."""
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def restrict(predicate: Predicate, replace_leaf: Callable[[Leaf], Predicate]) -> Predicate:
    """Return the same condition with every leaf replaced by `replace_leaf(leaf)`.

    For example by a leaf with another column name, or by `TRUE`.
    """
    match predicate:
        case And(parts):
            return conjunction([restrict(part, replace_leaf) for part in parts])
        case Or(parts):
            return disjunction([restrict(part, replace_leaf) for part in parts])
    return replace_leaf(predicate)


def describe(predicate: Predicate) -> str:
    """Format the condition: `(day = 2013-02-08) & (carrier = "9E")`."""
    match predicate:
        case And(()):
            return "true"
        case Or(()):
            return "false"
        case And(parts):
            return " & ".join(f"({describe(part)})" for part in parts)
        case Or(parts):
            return " | ".join(f"({describe(part)})" for part in parts)
        case Leaf(column, ("in" | "not in") as op, literals):
            more = [f"… {len(literals) - _MAX_SHOWN_LITERALS} more"] if len(literals) > _MAX_SHOWN_LITERALS else []
            return f"{column} {op} ({', '.join([*map(_format_literal, literals[:_MAX_SHOWN_LITERALS]), *more])})"
        case Leaf(column, op, literals):
            return " ".join([column, op, *map(_format_literal, literals)])


def _format_literal(value: object) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return f"x'{value.hex()}'"
        case bool():
            return str(value).lower()
        case Instant():
            try:
                return (_EPOCH + timedelta(milliseconds=value.millis, microseconds=value.nanos // 1000)).isoformat(" ")
            except OverflowError:  # before the year 1 or after 9999
                return f"{value.millis} ms since 1970"
    return str(value)


def to_internal_literal(value: object, t: DataType) -> Any:
    """Return the internal value (see `codec.binary_row`) that equals `value` in a column of type `t`.

    Returns None if no value of that type does: only the column's own comparison can decide then, and the caller keeps
    the file.
    """
    if value is None:
        return None
    if t.root in INTEGERS:
        return _to_int(value)
    if t.root in STRINGS:
        return value if isinstance(value, str) else None
    if t.root in BINARIES:
        return value if isinstance(value, bytes) else None
    match t.root:
        case "BOOLEAN":
            return value if isinstance(value, bool) else None
        case "FLOAT" | "DOUBLE":
            return _to_float(value)
        case "DECIMAL":
            return _to_decimal(value)
        case "DATE":
            if isinstance(value, datetime):
                return None
            return (value - date(1970, 1, 1)).days if isinstance(value, date) else None
        case "TIME":
            if not isinstance(value, time) or value.microsecond % 1000:
                return None
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return _to_instant(value, t) if t.root in TIMESTAMPS else None


def _to_int(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return None


def _to_float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    number = float(value)
    return None if number != number or (isinstance(value, int) and int(number) != value) else number  # noqa: PLR0124 - NaN never prunes


def _to_decimal(value: object) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Decimal(value)
    return value if isinstance(value, Decimal) and value.is_finite() else None


def _to_instant(value: object, t: DataType) -> Instant | None:
    if isinstance(value, Instant):
        return value
    if isinstance(value, datetime):
        if (value.tzinfo is not None) != (t.root == "TIMESTAMP_LTZ"):
            return None
        wall = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        since = wall - _EPOCH
        return Instant(
            since.days * _DAY_MS + since.seconds * 1000 + since.microseconds // 1000, since.microseconds % 1000 * 1000
        )
    if isinstance(value, date) and t.root == "TIMESTAMP":
        return Instant((value - date(1970, 1, 1)).days * _DAY_MS, 0)
    return None
