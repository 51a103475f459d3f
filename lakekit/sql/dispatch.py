"""The execution of one statement, chosen by its first word."""

from __future__ import annotations

import re
from difflib import get_close_matches
from operator import attrgetter
from typing import TYPE_CHECKING

from lakekit import sql
from lakekit.errors import (
    AlreadyExists,
    DatabaseAlreadyExists,
    DatabaseNotFound,
    InvalidOption,
    LakekitError,
    NotFound,
    SchemaMismatch,
    SnapshotNotFound,
    SqlError,
    Unsupported,
)
from lakekit.options.redaction import piece
from lakekit.sql.query_refusal import advise_in_sql
from lakekit.sql.tokenizer import PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.sql.backend import Rows, Statement, StatementResult
    from lakekit.sql.tokenizer import TokenStream

QUERY_KEYWORDS = ("SELECT", "WITH", "VALUES", "(", "FROM", "TABLE", "PIVOT", "UNPIVOT")
"""First tokens of statements that the backend executes as queries."""
_SESSION_KEYWORDS = ("USE", "SET", "RESET")
"""First words of the statements of a session, which are executed before those of this module."""
_OTHER_STATEMENTS = frozenset(
    {
        "ADD",
        "ATTACH",
        "BEGIN",
        "CACHE",
        "CHECKPOINT",
        "CLEAR",
        "COMMIT",
        "DEALLOCATE",
        "DETACH",
        "EXECUTE",
        "EXPORT",
        "GRANT",
        "IMPORT",
        "INSTALL",
        "KILL",
        "LOAD",
        "LOCK",
        "MSCK",
        "OPTIMIZE",
        "PRAGMA",
        "PREPARE",
        "REFRESH",
        "REPAIR",
        "REPLACE",
        "REVOKE",
        "ROLLBACK",
        "SAVEPOINT",
        "START",
        "UNCACHE",
        "VACUUM",
    }
)
"""First words of statements of DuckDB, Spark and Flink that are not done here."""
_MAX_WORD_CHARS = 40
_POSITION = re.compile(r"\bline \d+, column \d+: ")
_QUERY_POSITION = re.compile(
    r"query: line (?P<line>\d+), column (?P<column>\d+): (?P<problem>.*)\n    [^\n]*\n *\^$", re.DOTALL
)
_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE")


def execute(statement: Statement) -> StatementResult | Rows:
    """Execute a statement; return the `Rows` of a query, or the `StatementResult` of another statement.

    `Rows` is the frame type of the statement's backend.

    Raises: `InvalidOption` with the position in the text for an invalid statement, `Unsupported` for an unsupported
    statement: nothing has changed then.
    """
    try:
        return _execute(statement)
    except LakekitError as wrong:
        advise_in_sql(wrong, statement.tokens.text)
        add_position(wrong, statement.tokens)
        raise


def _execute(statement: Statement) -> StatementResult | Rows:
    tokens = statement.tokens
    if is_query(statement):
        _refuse_change_behind_with(tokens)
        return statement.backend.query(statement, tokens.remaining_text)
    for word, does in _STATEMENTS.items():
        if tokens.accept(word):
            return does(statement)
    raise _unknown_statement(tokens)


def _refuse_change_behind_with(tokens: TokenStream) -> None:
    """Raise `SqlError` where WITH stands before a statement that changes rows, whose queries alone have one."""
    ahead = tokens.fork()
    if not ahead.accept("WITH"):
        return
    ahead.accept("RECURSIVE")
    while ahead.next is not None and ahead.next.kind in ("word", "quoted"):
        ahead.position += 1
        if ahead.is_next("("):
            ahead.inside()
        for words in (("AS",), ("NOT",), ("MATERIALIZED",)):
            ahead.accept(*words)
        if not ahead.is_next("("):
            return
        ahead.inside()
        if not ahead.accept(","):
            break
    if any(ahead.is_next(word) for word in _CHANGES):
        raise ahead.wrong(
            "a query behind WITH: write it within, INSERT INTO t WITH … SELECT, or DELETE … WHERE id IN (WITH … SELECT)"
        )


def check_first_word(tokens: TokenStream) -> None:
    """Raise `SqlError`, `Unsupported` for a statement whose first word begins none that is executed here."""
    if not any(tokens.is_next(word) for word in (*QUERY_KEYWORDS, *_STATEMENTS, *_SESSION_KEYWORDS)):
        raise _unknown_statement(tokens)


def _unknown_statement(tokens: TokenStream) -> LakekitError:
    """Return the error about a statement whose first word begins none that is executed here."""
    word = "" if tokens.next is None else tokens.next.text.upper()
    first, position = piece(word, 0, _MAX_WORD_CHARS), tokens.first_position
    known = list(dict.fromkeys(("SELECT", *_STATEMENTS, *QUERY_KEYWORDS, *_SESSION_KEYWORDS)))
    supported = f"there are {', '.join(known)}"
    if word in _OTHER_STATEMENTS:
        located = tokens.source.error(position, f"{first} is no statement that is done here; {supported}")
        return Unsupported(located.message, feature="catalog.sql")
    near = get_close_matches(word, known, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else ";"
    return tokens.source.error(position, f"{first!r} begins no statement{hint} {supported[0].upper()}{supported[1:]}")


def is_query(statement: Statement) -> bool:
    """Return whether a statement begins as one of `QUERY_KEYWORDS`.

    SHOW and DESCRIBE are not queries in this sense: they return `StatementResult`.
    """
    return any(statement.tokens.is_next(word) for word in QUERY_KEYWORDS)


def _in_module(path: str) -> Callable[[Statement], StatementResult | Rows]:
    """Return a function of a module of `lakekit.sql`, which is loaded when the function is called."""

    def execute_in_module(statement: Statement) -> StatementResult | Rows:
        result: StatementResult | Rows = attrgetter(path)(sql)(statement)
        return result

    return execute_in_module


_STATEMENTS: dict[str, Callable[[Statement], StatementResult | Rows]] = {
    "CALL": _in_module("procedures.call_procedure"),
    "INSERT": _in_module("insert.insert"),
    "DELETE": _in_module("change_text.delete"),
    "UPDATE": _in_module("change_text.update"),
    "MERGE": _in_module("dml.merge"),
    "CREATE": _in_module("insert.create"),
    "DROP": lambda statement: sql.view_ddl.drop_view(statement) or sql.ddl.drop(statement),
    "ALTER": lambda statement: (
        sql.view_ddl.alter_materialized_table(statement)
        if statement.tokens.accept("MATERIALIZED", "TABLE")
        else sql.table_changes.alter(statement)
    ),
    "COMMENT": _in_module("table_changes.comment_on"),
    "COPY": lambda statement: statement.backend.copy(statement),
    "EXPLAIN": lambda statement: statement.backend.explain(statement),
    "SUMMARIZE": lambda statement: statement.backend.summarize(statement),
    "TRUNCATE": _in_module("ddl.truncate"),
    "ANALYZE": _in_module("dml.analyze"),
    "SHOW": lambda statement: sql.view_ddl.show_views(statement) or sql.show.show(statement),
    "DESCRIBE": _in_module("show.describe"),
    "DESC": _in_module("show.describe"),
}
"""First word of a statement -> the function that executes the statement."""


# ---- places of errors ----------------------------------------------------------------------------


def add_position(wrong: LakekitError, tokens: TokenStream) -> None:
    """Add line, column and caret to the message of an error about a statement, where they are known and missing.

    The place in a query that was read by itself, as that of CREATE VIEW, becomes the place in the statement.
    """
    query = _QUERY_POSITION.match(wrong.message)
    if query is not None and tokens.next is not None and tokens.position:
        lines = tokens.remaining_text.split("\n")[: int(query["line"]) - 1]
        position = tokens.next.start + sum(map(len, lines)) + len(lines) + int(query["column"]) - 1
        _locate(wrong, tokens.source.error(position, query["problem"]))
    if _POSITION.search(wrong.message):
        return
    place = tokens.first_position if isinstance(wrong, SqlError) else _position_of_name(wrong, tokens)
    if place is not None:
        _locate(wrong, tokens.source.error(place, wrong.message))


def _locate(wrong: LakekitError, located: SqlError) -> None:
    wrong.args = located.args
    if isinstance(wrong, SqlError):
        wrong.line, wrong.column = located.line, located.column


def _position_of_name(wrong: LakekitError, tokens: TokenStream) -> int | None:
    """Return where the name stands that an error is about; None where it stands nowhere."""
    if isinstance(wrong, (NotFound, AlreadyExists)):
        names = [wrong.name]
    elif isinstance(wrong, SchemaMismatch):
        names = [wrong.column]
    elif isinstance(wrong, InvalidOption):
        names = [wrong.value, wrong.key] if repr(wrong.value) in wrong.message else [wrong.key, wrong.value]
    else:
        names = []
    if isinstance(wrong, InvalidOption) and wrong.key == PARAMETERS:
        return next((mark.start for mark in tokens.placeholders if f":{mark.value}" == wrong.value), None)
    parts = [part for name in names if name for part in (name, name.rpartition(".")[2]) if part]
    is_database = isinstance(wrong, (DatabaseNotFound, DatabaseAlreadyExists))
    for is_part in (False, True):
        positions = (tokens.position_of(part, may_qualify=is_database, is_part=is_part) for part in parts)
        found = next((position for position in positions if position is not None), None)
        if found is not None:
            return found
    return tokens.position_of_time() if isinstance(wrong, SnapshotNotFound) else None
