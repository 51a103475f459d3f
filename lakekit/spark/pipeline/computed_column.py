"""Computed columns of a pipeline: the functions that Paimon's CDC actions know, as Spark's SQL.

    year(at)  month(at)  day(at)  hour(at)  minute(at)  second(at)     INT; an epoch with its digits: year(ms, 3)
    date_format(at, yyyy-MM-dd)                                        STRING, with the patterns of Spark
    substring(name, 0, 3)                                              STRING, from 0, up to the end
    truncate(n, 10)                                                    the type of its column
    cast(7, INT)                                                       a constant
    upper, lower, trim of a column                                     STRING
    now, without arguments                                             TIMESTAMP_LTZ(3): when the batch is written

A function reads the columns of the source, by the names that they have there. `parse_computed_column` parses one;
`ComputedColumn.to_sql` returns its expression.

Source: `Expression` of paimon-flink-cdc, engine 1.4.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.ddl.table_definition import to_paimon_type
from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.types import INTEGERS, STRINGS, DataType, quote_identifier, text_literal

if TYPE_CHECKING:
    from collections.abc import Mapping

_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']*))\s*(,|$)")
_TEMPORAL = ("year", "month", "day", "hour", "minute", "second")
_TEXT = ("upper", "lower", "trim")
_COUNTS = {
    **dict.fromkeys(_TEMPORAL, (1, 2)),
    **dict.fromkeys(_TEXT, (1, 1)),
    "date_format": (2, 3),
    "substring": (2, 3),
    "truncate": (2, 2),
    "cast": (1, 2),
    "now": (0, 0),
}
"""How many arguments a function takes, at least and at most."""
_MICROSECONDS = {"0": "* 1000000", "3": "* 1000", "6": "", "9": "DIV 1000"}
"""By the digits of an epoch: what makes it microseconds."""
METADATA_TYPES = {
    "database_name": DataType(root="VARCHAR", length=2**31 - 1),
    "table_name": DataType(root="VARCHAR", length=2**31 - 1),
    "op_ts": DataType(root="TIMESTAMP_LTZ", precision=3),
}
"""The columns that a message itself has, and their types."""
_STRING = METADATA_TYPES["table_name"]
_INT = DataType(root="INT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """A column that a function makes of a row's other columns."""

    name: str
    function: str
    arguments: tuple[str, ...]

    @property
    def source_column(self) -> str | None:
        """The column that the function reads; None for a constant."""
        return None if self.function in ("cast", "now") else self.arguments[0]

    def result_type(self, types: Mapping[str, DataType]) -> DataType:
        """Return the Paimon type of its values. `types`: of the source's columns.

        Raises: `SchemaMismatch` where the source has no such column.
        """
        match self.function:
            case "truncate":
                return self._argument_type(types).as_nullable()
            case "cast":
                return to_paimon_type(self.arguments[1], self.name) if len(self.arguments) > 1 else _STRING
            case "now":
                return METADATA_TYPES["op_ts"]
        return _INT if self.function in _TEMPORAL else _STRING

    def to_sql(self, types: Mapping[str, DataType], *, prefix: str = "") -> str:
        """Return the expression as Spark's SQL over the source's columns, which stand behind `prefix`.

        Raises: `SchemaMismatch` where the source has no such column, or one of another kind.
        """
        match self.function:
            case "now":
                return "date_trunc('MILLISECOND', current_timestamp())"
            case "cast":
                return f"{text_literal(self.arguments[0], 'spark')}"
        column, t = prefix + quote_identifier(self.arguments[0]), self._argument_type(types)
        match self.function:
            case "substring":
                start, *end = (int(text) for text in self.arguments[1:])
                length = f", {end[0] - start}" if end else ""
                return f"substring(CAST({column} AS STRING), {start + 1}{length})"
            case "truncate":
                return self._truncation(column, t)
            case "date_format":
                pattern = text_literal(self.arguments[1], "spark")
                return f"date_format({self._timestamp(column, t, self.arguments[2:])}, {pattern})"
            case function if function in _TEXT:
                return f"{function}(CAST({column} AS STRING))"
        return f"CAST({self.function}({self._timestamp(column, t, self.arguments[1:])}) AS INT)"

    def _argument_type(self, types: Mapping[str, DataType]) -> DataType:
        name = self.arguments[0]
        if name not in types:
            near = difflib.get_close_matches(name, types, 1)
            hint = f"did you mean {near[0]!r}?" if near else "the source has no such column"
            raise SchemaMismatch(f"{self.name} = {self.function}({name}, …): {hint}", column=name)
        return types[name]

    def _timestamp(self, column: str, t: DataType, digits: tuple[str, ...]) -> str:
        """Return a column as a TIMESTAMP without a zone; null where a text is none."""
        if t.root in STRINGS and not digits:
            return f"try_cast({column} AS TIMESTAMP_NTZ)"
        if t.root in (*INTEGERS, *STRINGS):
            number = f"try_cast({column} AS BIGINT)"
            micros = f"({number} {_MICROSECONDS[digits[0] if digits else '0']})"
            return f"timestampadd(MICROSECOND, {micros}, TIMESTAMP_NTZ'1970-01-01 00:00:00')"
        if t.root not in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ"):
            raise SchemaMismatch(
                f"{self.name} = {self.function}({self.arguments[0]}, …): a {t} is no time", column=self.arguments[0]
            )
        return f"CAST({column} AS TIMESTAMP_NTZ)"

    def _truncation(self, column: str, t: DataType) -> str:
        width = self.arguments[1]
        if t.root in STRINGS:
            return f"left({column}, {width})"
        if t.root in INTEGERS:
            return f"{column} - pmod({column}, {width})"
        if t.root == "DECIMAL":
            digits = f"{t.precision or 10}, {t.scale or 0}"
            scaled = f"CAST({width}E-{t.scale or 0}BD AS DECIMAL({digits}))"
            return f"CAST({column} - pmod({column}, {scaled}) AS DECIMAL({digits}))"
        raise SchemaMismatch(f"{self.name} = truncate({self.arguments[0]}, …): a {t} has no width", column=self.name)


def parse_computed_column(name: str, text: str) -> ComputedColumn:
    """Return the column that a text such as `year(at)` describes.

    Raises: `InvalidOption` for what is no call of a known function.
    """
    call = _CALL.fullmatch(text)
    if call is None:
        raise _invalid(name, text, "a computed column is a call, such as year(at)")
    function = call[1].lower()
    if function not in _COUNTS:
        near = difflib.get_close_matches(function, _COUNTS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_COUNTS)}"
        raise _invalid(name, text, f"no function is called {function}; {hint}")
    arguments = _split_arguments(name, text, call[2])
    least, most = _COUNTS[function]
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} or {most}"
        raise _invalid(name, text, f"{function} takes {wanted} arguments, and has {len(arguments)}")
    column = ComputedColumn(name=name, function=function, arguments=arguments)
    _check_literals(column, text)
    return column


def _split_arguments(name: str, text: str, inside: str) -> tuple[str, ...]:
    if not inside.strip():
        return ()
    arguments, at = [], 0
    while True:
        argument = _ARGUMENT.match(inside, at)
        if argument is None:
            raise _invalid(name, text, "arguments stand between commas; quote what holds a comma, 'a, b'")
        arguments.append(argument[2].strip() if argument[1] is None else argument[1].replace("''", "'"))
        if not argument[3]:
            return tuple(arguments)
        at = argument.end()


def _check_literals(column: ComputedColumn, text: str) -> None:
    function, arguments = column.function, column.arguments
    digits = {"date_format": arguments[2:], **dict.fromkeys(_TEMPORAL, arguments[1:])}.get(function, ())
    if any(digit not in _MICROSECONDS for digit in digits):
        raise _invalid(column.name, text, "the digits of an epoch are 0, 3, 6 or 9")
    numbers = arguments[1:] if function in ("substring", "truncate") else ()
    if not all(re.fullmatch(r"[0-9]{1,9}", number) for number in numbers):
        raise _invalid(column.name, text, f"{function} takes whole numbers from 0 on")
    if function == "substring" and len(numbers) > 1 and int(numbers[1]) <= int(numbers[0]):
        raise _invalid(column.name, text, "the end of a substring is behind its begin")
    if function == "truncate" and int(numbers[0]) == 0:
        raise _invalid(column.name, text, "a width is 1 or more")
    if function == "cast" and len(arguments) > 1:
        try:
            is_nested = to_paimon_type(arguments[1], column.name).is_nested
        except SchemaMismatch as error:
            raise _invalid(column.name, text, str(error)) from error
        if is_nested:
            raise _invalid(column.name, text, "a constant has a type without parts")


def _invalid(name: str, text: str, problem: str) -> InvalidOption:
    return InvalidOption(f"{name} = {text!r}: {problem}", key=name, value=text)
