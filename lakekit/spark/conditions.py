"""Convert a condition of Polars into one of Spark, only where both agree on every value.

    And((Leaf("k", ">=", (5,)), Leaf("s", "in", ("a", "b"))))   ->   (k >= 5) AND (s IN ('a', 'b'))

They agree on whole numbers, booleans, texts (compared by their bytes), dates, and DOUBLE, whose NaN is the greatest
number to both and equal to itself. Timestamps up to microseconds are compared as numbers of them, which no zone of the
session moves. Other conditions (FLOAT with a literal of more digits, DECIMAL, bytes, a half understood filter) are not
converted: lakekit reads those files and evaluates them with Polars.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from lakekit.predicate import And, Leaf, Or
from lakekit.sql.tokenizer import quote_identifier
from lakekit.types import INTEGERS, STRINGS, TIMESTAMPS, Instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column

    from lakekit.predicate import Predicate
    from lakekit.types import DataType

_BIGINT = 2**63
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock has no zone
_COMPARED = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


class _NotTheSame(Exception):
    """A condition that the two engines might evaluate differently."""


def column_of(predicates: Iterable[Predicate | None], types: Mapping[str, DataType]) -> Column | None:
    """Return all predicates as one condition of Spark; None where one has no equivalent or is None.

    A predicate that is None was not understood.
    """
    try:
        return reduce(and_, [_to_column(predicate, types) for predicate in predicates], sql.lit(True))
    except _NotTheSame:
        return None


def _to_column(predicate: Predicate | None, types: Mapping[str, DataType]) -> Column:
    match predicate:
        case And(parts):
            return reduce(and_, [_to_column(part, types) for part in parts], sql.lit(True))
        case Or(parts):
            return reduce(or_, [_to_column(part, types) for part in parts], sql.lit(False))
        case Leaf(name, op, literals) if name in types:
            return _leaf(sql.col(quote_identifier(name)), op, literals, types[name])
    raise _NotTheSame


def _leaf(column: Column, op: str, literals: tuple[Any, ...], t: DataType) -> Column:
    match op:
        case "is null":
            return column.isNull()
        case "is not null":
            return column.isNotNull()
    values = [_literal(value, t) for value in literals]
    match op:
        case "in":
            return column.isin(*values) if values else sql.lit(False)
        case "starts with" if t.root in STRINGS:
            return column.startswith(values[0])
        case word if word in _COMPARED:
            return _COMPARED[word](column, values[0])
    raise _NotTheSame


def _literal(value: object, t: DataType) -> Column:
    match value:
        case bool() if t.root == "BOOLEAN":
            return sql.lit(value)
        case int() if not isinstance(value, bool) and -_BIGINT <= value < _BIGINT and t.root in INTEGERS:
            return sql.lit(value)
        case float() if t.root == "DOUBLE":
            return sql.lit(value)
        case str() if t.root in STRINGS:
            return sql.lit(value)
        case date() if not isinstance(value, datetime) and t.root == "DATE":
            return sql.expr(f"date'{value.isoformat()}'")
        case Instant() if t.root in TIMESTAMPS and (t.precision or 0) <= 6 and not value.nanos % 1000:
            return _instant(value, t)
    raise _NotTheSame


def _instant(value: Instant, t: DataType) -> Column:
    micros = value.millis * 1000 + value.nanos // 1000
    if t.root == "TIMESTAMP_LTZ":
        return sql.timestamp_micros(sql.lit(micros))
    try:
        wall = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise _NotTheSame from None
    return sql.expr(f"timestamp_ntz'{wall.isoformat(' ')}'")
