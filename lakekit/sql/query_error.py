"""Errors of DuckDB as lakekit's own, without secrets and without DuckDB's classes.

    Binder Error: Referenced column "nope" not found in FROM clause!   ->   ColumnNotFound
    Conversion Error: Could not convert string 'x' to INT32            ->   ValueOutOfRange
    Parser Error: syntax error at or near "+"                          ->   SqlError, with line and column

DuckDB shows the place in the statement that it was handed, which is not the caller's text. The word there is looked
for in the caller's text; where it is found, the error has its line and column.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import (
    ColumnNotFound,
    LakekitError,
    LimitExceeded,
    SchemaMismatch,
    SqlError,
    StorageFailed,
    ValueOutOfRange,
)
from lakekit.expressions.parser import tokenize
from lakekit.options.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.expressions.parser import SqlText

_MAX_CHARS = 600
_KIND = re.compile(r"^(?P<kind>[A-Z][\w ]*? Error): (?P<message>.*)$", re.DOTALL)
_CARET_LINES = re.compile(r"\n*(?P<prefix>LINE \d+: )(?P<line>[^\n]*)\n(?P<blanks> *)\^+.*", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*|\d[\w.]*|'[^']*'|\"[^\"]*\"|\S")
_NAMED = re.compile(r'"(?P<quoted>[^"]+)"|name (?P<bare>\w+) does not exist')
_COLUMN = re.compile(r'(?:column|Table) "(?P<name>[^"]+)"', re.IGNORECASE)
_INTERNAL = re.compile(r"\b(?:main\.)?lakekit_\w+\b")
_VALUES = ("Conversion Error", "Out of Range Error", "Invalid Input Error", "Sequence Error", "Divide by zero Error")
_MEMORY = ("Out of Memory Error",)
_TYPES = ("Mismatch Type Error", "Invalid type Error", "Unimplemented type Error", "Decimal Error")


def translate(wrong: BaseException, source: SqlText, failures: Sequence[BaseException]) -> BaseException:
    """Return lakekit's error for what DuckDB raised over a query.

    `failures`: what scans raised meanwhile; the first of them is the cause.
    """
    if failures:
        return failures[0]
    if isinstance(wrong, LakekitError):
        return wrong
    matched = _KIND.match(str(wrong))
    kind, text = ("", str(wrong)) if matched is None else (matched["kind"], matched["message"])
    word = _word_at(text)
    message = without_secrets(_INTERNAL.sub("a table", _CARET_LINES.sub("", text)).strip())[:_MAX_CHARS]
    at = _position(word, source)
    if kind in _MEMORY:
        return LimitExceeded(
            f"{source.name}: it needs more memory than a query has: {message}. Raise the catalog's option "
            "'lakekit.sql-memory', or ask for less",
            field="lakekit.sql-memory",
        )
    if kind in _VALUES:
        return ValueOutOfRange(_at(source, at, message))
    if kind in _TYPES:
        return SchemaMismatch(_at(source, at, message))
    if kind == "Binder Error":
        column = _COLUMN.search(message)
        if "not found in FROM clause" in message or "does not have a column" in message:
            return ColumnNotFound(_at(source, at, message), name=column["name"] if column else None)
        return SchemaMismatch(_at(source, at, message)) if _is_about_types(message) else _sql_error(source, at, message)
    if kind in ("IO Error", "Permission Error", "HTTP Error"):
        return StorageFailed(f"{source.name}: {message}")
    return _sql_error(source, at, message or "DuckDB computes no such query")


def _sql_error(source: SqlText, at: int | None, problem: str) -> SqlError:
    """Return the error about a place of the text, or about the text where the place is unknown."""
    return SqlError(f"{source.name}: {problem}", key="sql") if at is None else source.error(at, problem)


def _is_about_types(message: str) -> bool:
    return "explicit type cast" in message or "Cannot compare values" in message or "Cannot mix values" in message


def _at(source: SqlText, at: int | None, problem: str) -> str:
    """Return the message about a place, if it is known."""
    return f"{source.name}: {problem}" if at is None else source.error(at, problem).message


def _word_at(text: str) -> str | None:
    """Return the word under the caret of DuckDB's message, or else the first that it quotes."""
    place = _CARET_LINES.search(text)
    if place is None:
        named = _NAMED.search(text)
        return None if named is None else named["quoted"] or named["bare"]
    column = len(place["blanks"]) - len(place["prefix"])
    matched = _WORD.match(place["line"], max(0, column))
    return None if matched is None else matched[0]


def _position(word: str | None, source: SqlText) -> int | None:
    """Return where the caller's text has that word first."""
    if word is None:
        return None
    bare = word.strip("'\"").lower()
    with suppress(SqlError):
        return next((token.start for token in tokenize(source) if token.text.lower() == bare), None)
    return None
