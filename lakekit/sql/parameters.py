"""Values of a caller in a statement: parameters, bound as literals in the tree, and frames, read as tables.

    cat.sql("SELECT day FROM shop.orders WHERE id = ? OR day = ?", [7, "it's"])       by position, also as $1, $2
    cat.sql("SELECT day FROM shop.orders WHERE id = :id", {"id": 7})                  by name, also as $id
    cat.sql("INSERT INTO shop.orders SELECT * FROM df", df=df)

A value never becomes text of the statement. `?` is numbered before the text is read, so that each part of a statement
knows its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlglot import exp

from lakekit.errors import InvalidOption
from lakekit.expressions.parser import SqlText
from lakekit.sql.tokenizer import PARAMETERS, Token, find_placeholders

if TYPE_CHECKING:
    Node = Any
    """A node of sqlglot's tree."""

_JOINING = ("_", "$", ":", "?")
"""What would be one token with the name of a parameter beside it, as letters and digits are."""


@dataclass(frozen=True, slots=True)
class NamedFrame:
    """A frame of the caller under a name: a name to scan."""

    name: str
    rows: pl.LazyFrame

    def scan(self) -> pl.LazyFrame:
        """Return its rows."""
        return self.rows


# ---- parameters ----------------------------------------------------------------------------------


def number(text: str, values: object, dialect: str) -> tuple[SqlText, Mapping[str, Any]]:
    """Return the text with each `?` numbered, which knows the places of the caller's, and values by number or name.

    Raises: `InvalidOption` where the text and the values do not fit together.
    """
    if not isinstance(values, (Mapping, Sequence, type(None))) or isinstance(values, (str, bytes)):
        msg = f"parameters are a list of values, or values by name; found {type(values).__name__}"
        raise TypeError(msg)
    if values is None and not any(mark in str(text) for mark in "?$"):
        return SqlText(text), {}
    found = find_placeholders(text, dialect)
    marks = [token for token in found if token.value == "?"]
    if isinstance(values, Mapping):
        by_name = dict(values)
        unused = sorted(set(by_name) - {token.value for token in found}, key=str)
        if unused or marks:
            what = f"it names no :{unused[0]}" if unused else "it has ? in place of names"
            place = None if unused else marks[0]
            raise _misfit(text, place, f"parameters by name: the text does not fit, {what}")
    else:
        by_name = {str(at): value for at, value in enumerate(values or (), 1)}
        numbered = {token.value for token in found if token.text.startswith("$") and token.value.isdecimal()}
        wanted = {str(at) for at in range(1, len(marks) + 1)} | numbered
        if wanted != set(by_name):
            names = {mark: str(at) for at, mark in enumerate(marks, 1)}
            missing = [token for token in found if names.get(token, token.value) in wanted - set(by_name)]
            problem = (
                f"the text has {len(wanted)} parameters ({', '.join(sorted(wanted)) or 'none'}), and {len(by_name)} "
                "values are given"
            )
            raise _misfit(text, missing[0] if missing else None, problem)
    named = [token for token in found if token.text.startswith(":") and token.value in by_name]
    if dialect == "spark":  # whose parser takes no number behind a colon
        by_name |= {f"_{key}": value for key, value in by_name.items() if key.isdecimal()}
        return _renamed(text, [*marks, *named], ":", ":_"), by_name
    return _renamed(text, [*marks, *named], "$", "$"), by_name


def _misfit(text: str, mark: Token | None, problem: str) -> InvalidOption:
    """Return the error about parameters that do not fit, at one of them."""
    located = problem if mark is None else SqlText(text).error(mark.start, problem).message
    return InvalidOption(located, key=PARAMETERS, value=None)


def _renamed(text: str, marks: Sequence[Token], sign: str, number_sign: str) -> SqlText:
    """Return the text with a sign and a number or name for each parameter: DuckDB reads `SELECT :a` otherwise."""
    pieces: list[str] = []
    shifts: list[tuple[int, int]] = []
    at, length, count = 0, 0, 0
    for token in sorted(marks, key=lambda token: token.start):  # scalar: one a parameter
        count += token.value == "?"
        name = f"{number_sign}{count}" if token.value == "?" else f"{sign}{token.value}"
        sides = text[max(0, token.start - 1) : token.start], text[token.end : token.end + 1]
        before, after = (" " if side and _joins(side, text) else "" for side in sides)
        pieces += [text[at : token.start], before, name, after]
        length += sum(map(len, pieces[-4:]))
        at = token.end
        shifts.append((length, at))
    return SqlText("".join([*pieces, text[at:]]), shown_text=text, shifts=shifts)


def _joins(sign: str, text: str) -> bool:
    """Return whether a sign beside the name of a parameter may be one token with it."""
    is_in_quote = "$" in text and not sign.isspace()  # sqlglot takes `$1,$` for a dollar quote, but for blanks in it
    return sign.isalnum() or sign in _JOINING or is_in_quote


def bind(tree: Node, values: Mapping[str, Any]) -> Node:
    """Return a tree with literals in place of its parameters.

    Raises: `InvalidOption` for a parameter without a value, and for a value that SQL has no literal for.
    """
    for node in list(tree.find_all(exp.Placeholder, exp.Parameter)):
        name = node.this if isinstance(node.this, str) else getattr(node.this, "name", "")
        if name not in values:
            known = ", ".join(f":{key}" for key in values) or "none"
            problem = f"parameter :{name} has no value; there are {known}"
            raise InvalidOption(problem, key=PARAMETERS, value=f":{name}")
        made = literal(name, values[name])
        made.meta.update(node.meta)
        if node is tree:
            return made
        node.replace(made)
    return tree


def literal(name: str, value: Any) -> Node:
    """Return a value of Python as a literal. Raises `InvalidOption` for another type."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, int):
        return exp.Literal.number(value)
    if isinstance(value, float):
        return _cast(str(value), "DOUBLE") if not math.isfinite(value) else _cast(repr(value), "DOUBLE")
    if isinstance(value, Decimal) and value.is_finite():
        return _decimal(value)
    if isinstance(value, datetime):
        return _cast(value.isoformat(" "), "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ")
    if isinstance(value, date):
        return _cast(value.isoformat(), "DATE")
    if isinstance(value, time):
        return _cast(value.isoformat(), "TIME")
    if isinstance(value, bytes):
        return exp.Unhex(this=exp.Literal.string(value.hex()))
    if isinstance(value, (list, tuple)):
        return exp.Array(expressions=[literal(name, item) for item in value])
    raise InvalidOption(
        f"parameter :{name} is a {type(value).__name__}; a text, number, bool, date, time, bytes, a list of them, or "
        "None is bound",
        key=PARAMETERS,
        value=f":{name}",
    )


def _decimal(value: Decimal) -> Node:
    """Return a DECIMAL of just the digits that the value has."""
    text = format(value, "f")
    digits, _, fraction = text.lstrip("-").partition(".")
    precision = max(len(digits.lstrip("0")) + len(fraction), 1)
    return _cast(text, f"DECIMAL({max(precision, len(fraction))}, {len(fraction)})")


def _cast(text: str, t: str) -> Node:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(t, dialect="duckdb"))


# ---- frames --------------------------------------------------------------------------------------


def named_frames(frames: Mapping[str, object]) -> dict[str, NamedFrame]:
    """Return frames as tables by their names: of Polars, pandas or Arrow. Raises `InvalidOption` for others."""
    return {name: NamedFrame(name, _lazy(name, frame)) for name, frame in frames.items()}


def _lazy(name: str, frame: Any) -> pl.LazyFrame:
    if isinstance(frame, pl.LazyFrame):
        return frame
    if isinstance(frame, pl.DataFrame):
        return frame.lazy()
    if type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns"):
        return pl.from_pandas(frame).lazy()
    if hasattr(frame, "__arrow_c_stream__"):
        rows = pl.DataFrame(frame)
        return rows.lazy()
    raise InvalidOption(
        f"{name}= is a {type(frame).__name__}; a frame of Polars, pandas or Arrow is read by its name in a statement",
        key=name,
        value=None,
    )
