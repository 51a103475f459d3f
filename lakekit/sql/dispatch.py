"""The execution of one statement, chosen by its first word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import Unsupported
from lakekit.options.redaction import excerpt
from lakekit.sql import (
    calls as calls,  # noqa: PLC0414 - imported for what it registers
    ddl,
    dml,
    insert,
    joined_changes,
    procedures as procedures,  # noqa: PLC0414 - imported for what it registers
    show,
    table_changes,
    view_ddl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.sql.backend import Rows, Statement, StatementResult

QUERY_KEYWORDS = ("SELECT", "WITH", "VALUES", "(", "FROM", "TABLE", "PIVOT", "UNPIVOT")
"""First tokens of statements that the backend executes as queries."""


def execute(statement: Statement) -> StatementResult | Rows:
    """Execute a statement; return the `Rows` of a query, or the `StatementResult` of another statement.

    `Rows` is the frame type of the statement's backend.

    Raises: `InvalidOption` with the position in the text for an invalid statement, `Unsupported` for an unsupported
    statement: nothing has changed then.
    """
    tokens = statement.tokens
    if is_query(statement):
        return statement.backend.query(statement, tokens.remaining_text)
    for word, does in _STATEMENTS.items():
        if tokens.accept(word):
            return does(statement)
    first = "" if tokens.next is None else tokens.next.text
    supported = ", ".join(("SELECT", *_STATEMENTS))
    msg = f"{first}: no statement that is done here; there are {supported}. In: {excerpt(tokens.statement_text)}"
    raise Unsupported(msg, feature="catalog.sql")


def is_query(statement: Statement) -> bool:
    """Return whether a statement begins as one of `QUERY_KEYWORDS`.

    SHOW and DESCRIBE are not queries in this sense: they return `StatementResult`.
    """
    return any(statement.tokens.is_next(word) for word in QUERY_KEYWORDS)


_STATEMENTS: dict[str, Callable[[Statement], StatementResult | Rows]] = {
    "CALL": calls.call_procedure,
    "INSERT": insert.insert,
    "DELETE": joined_changes.delete,
    "UPDATE": joined_changes.update,
    "MERGE": dml.merge,
    "CREATE": insert.create,
    "DROP": lambda statement: view_ddl.drop_view(statement) or ddl.drop(statement),
    "ALTER": lambda statement: (
        view_ddl.alter_materialized(statement)
        if statement.tokens.accept("MATERIALIZED", "TABLE")
        else table_changes.alter(statement)
    ),
    "COMMENT": table_changes.comment_on,
    "COPY": lambda statement: statement.backend.copy(statement),
    "EXPLAIN": lambda statement: statement.backend.explain(statement),
    "SUMMARIZE": lambda statement: statement.backend.summarize(statement),
    "TRUNCATE": ddl.truncate,
    "ANALYZE": dml.analyze,
    "SHOW": lambda statement: view_ddl.show_view(statement) or show.show(statement),
    "DESCRIBE": show.describe,
    "DESC": show.describe,
}
"""First word of a statement -> the function that executes the statement."""
