"""Literals behind VALUES as columns of texts, so that a long INSERT is not parsed value by value.

    VALUES (1, 'a'), (2.5, NULL), (3, 'b')     ->     columns ['1', '2.5', '3'] and ['a', None, 'b'],
                                                      sample VALUES (1, 'a'), (2.5, NULL)

DuckDB decides what the rows mean: it says the type of each column of the sample, which has a row with each shape of
literal, and casts the texts to those types. A column whose literals are of several kinds is parsed as any query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.types import text_literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.sql.tokenizer import Token, TokenStream

_MIN_TOKENS = 2_000
"""How long a list of values is that is worth another way."""
_MAX_DIGITS = 38
_MAX_SAMPLE = 1_000
_TYPED = frozenset({"DATE", "TIME", "TIMESTAMP"})
_NULLS = frozenset({"NULL", "DEFAULT"})
"""A row without a value gets the default when it is written."""
_BOOLEANS = frozenset({"TRUE", "FALSE"})
_TEXT, _NUMBER, _BOOLEAN, _NULL = "text", "number", "boolean", "null"
Literal = tuple[str, object, str | None]
"""The kind of a literal, its shape, on which its type depends, and its text; None for NULL."""
_NO_LITERAL: Literal = (_NULL, _NULL, None)


@dataclass(frozen=True, slots=True)
class ValuesLiteral:
    """The texts of the literals, null for NULL, and VALUES with a row for each shape that they have."""

    frame: pl.DataFrame
    sample: str


def read(tokens: TokenStream) -> ValuesLiteral | None:
    """Return the rows of literals behind VALUES, which comes; None for a short list, and for any other list."""
    coming = tokens.coming
    if len(coming) < _MIN_TOKENS or tokens.dialect != "lakekit" or tokens.hints or "\0" in tokens.text:
        return None
    columns: list[list[str | None]] = []
    kinds: list[dict[object, str]] = []
    sample: list[str] = []
    for row in _rows(coming):  # scalar: literals, each a word of the statement
        if row is None or (columns and len(row) != len(columns)) or len(sample) > _MAX_SAMPLE:
            return None
        if not columns:
            columns, kinds = [[] for _ in row], [{} for _ in row]
        is_new = False
        for values, known, (kind, shape, text) in zip(columns, kinds, row, strict=True):
            values.append(text)
            if shape not in known:
                known[shape] = kind
                is_new = True
        if is_new:
            sample.append(f"({', '.join(_written(kind, text) for kind, _, text in row)})")
    if any(len({*known.values()} - {_NULL}) != 1 for known in kinds):
        return None
    frame = pl.DataFrame({f"c{at}": pl.Series(values, dtype=pl.String) for at, values in enumerate(columns)})
    return ValuesLiteral(frame, f"VALUES {', '.join(sample)}")


def _written(kind: str, text: str | None) -> str:
    if text is None or kind in (_NUMBER, _BOOLEAN):
        return text or "NULL"
    quoted = text_literal(text)
    return quoted if kind == _TEXT else f"{kind} {quoted}"


def _rows(tokens: Sequence[Token]) -> Iterator[list[Literal] | None]:
    """Yield the literals of each row; None, as the last, where anything else stands there."""
    at, stop = 0, len(tokens)
    row: list[Literal] = []
    while at + 1 < stop and tokens[at].text == ("," if at else "VALUES") and tokens[at + 1].text == "(":
        at, row = at + 1, []
        while at + 1 < stop and tokens[at].text == ("," if row else "("):
            literal, count = _literal(tokens, at + 1)
            if not count:
                break
            row.append(literal)
            at += 1 + count
        if at >= stop or tokens[at].text != ")" or not row:
            break
        yield row
        at += 1
    if at < stop:
        yield None


def _literal(tokens: Sequence[Token], at: int) -> tuple[Literal, int]:
    """Return the literal at a position, and the number of its tokens: 0 where there is none that is plain."""
    token = tokens[at]
    if token.kind == "text":
        return (_TEXT, _TEXT, token.value), int(token.text[0] == "'")
    if token.kind == "number":
        return (_NUMBER, shape := _number_shape(token.text), token.text), int(shape is not None)
    word, after = token.text.upper(), tokens[at + 1] if at + 1 < len(tokens) else token
    if word == "-" and after.kind == "number":
        return (_NUMBER, ("-", shape := _number_shape(after.text)), f"-{after.text}"), 2 * (shape is not None)
    if token.kind != "word":
        return _NO_LITERAL, 0
    if word in _TYPED and after.kind == "text":
        return (word, (word, len(after.value)), after.value), 2 * (after.text[0] == "'")
    if word in _NULLS:
        return _NO_LITERAL, 1
    return (_BOOLEAN, _BOOLEAN, word), int(word in _BOOLEANS)


def _number_shape(text: str) -> Any:
    """Return that on which the type of a number depends; None for one with an exponent, or too many digits."""
    whole, point, fraction = text.partition(".")
    digits = whole + fraction
    if (
        not (digits.isascii() and digits.isdigit())
        or len(digits) > _MAX_DIGITS
        or not whole
        or (point and not fraction)
    ):
        return None
    if point:
        return len(whole), len(whole.lstrip("0")), len(fraction)
    value = int(whole)
    return value.bit_length(), value & (value - 1) == 0  # the edges of the integer types are powers of two
