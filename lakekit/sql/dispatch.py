"""One statement, by its first word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import Unsupported
from lakekit.sql import calls, ddl, dml, flink_procedures as flink_procedures, inserts, procedures as procedures, show, view_ddl  # noqa: PLC0414 - imported for what they enter
from lakekit.sql.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.sql.backend import ResultRows, Rows, Statement

QUERIES = ("SELECT", "WITH", "VALUES", "(", "FROM", "TABLE")


def execute(asked: Statement) -> ResultRows | Rows:
    """Does a statement: the rows of a query as its door has them, the `ResultRows` of another.

    Raises `InvalidOption` with the place in the text for what is no statement, `Unsupported` for one that is not done here: nothing has changed then.
    """
    words = asked.words
    if is_query(asked):
        return asked.door.query(asked, words.rest)
    for word, does in _STATEMENTS.items():
        if words.accept(word):
            return does(asked)
    first = "" if words.next is None else words.next.said
    known = ", ".join(("SELECT", *_STATEMENTS))
    msg = f"{first}: no statement that is done here; there are {known}. In: {excerpt(words.text)}"
    raise Unsupported(msg, feature="catalog.sql")


def is_query(asked: Statement) -> bool:
    """Whether a statement only asks."""
    return any(asked.words.is_next(word) for word in QUERIES)


_STATEMENTS: dict[str, Callable[[Statement], ResultRows]] = {
    "CALL": calls.call_procedure,
    "INSERT": inserts.insert,
    "DELETE": dml.delete,
    "UPDATE": dml.update,
    "MERGE": dml.merge,
    "CREATE": dml.create,
    "DROP": lambda asked: view_ddl.drop_view(asked) or ddl.drop(asked),
    "ALTER": lambda asked: view_ddl.alter_materialized(asked) if asked.words.accept("MATERIALIZED", "TABLE") else ddl.alter(asked),
    "TRUNCATE": ddl.truncate,
    "ANALYZE": dml.analyze,
    "SHOW": lambda asked: view_ddl.show_view(asked) or show.show(asked),
    "DESCRIBE": show.describe,
    "DESC": show.describe,
}
"""By its first word, what does a statement."""
