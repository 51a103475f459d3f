"""`cat.sql`: the statements of a text, one after another, in a session that lasts from text to text.

    cat.sql("USE shop")
    cat.sql("SELECT id FROM orders WHERE id > 7").collect()        orders of shop: USE holds from call to call

A query is the backend's (`duckdb_backend`); what a session is, and what it holds, is in `lakekit.catalog.session`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.catalog.connection import connect
from lakekit.catalog.session import ResultFrame
from lakekit.errors import InvalidOption, LakekitError
from lakekit.expressions.parser import SqlText
from lakekit.options.redaction import excerpt, redact_error
from lakekit.read.user_expressions import translate_panics
from lakekit.sql import dispatch, session_statement
from lakekit.sql.backend import Statement, StatementResult
from lakekit.sql.duckdb_backend import DuckDBBackend
from lakekit.sql.parameters import named_frames, number
from lakekit.sql.query_refusal import advise_in_sql
from lakekit.sql.tokenizer import TokenStream, quote_dollars
from lakekit.storage.object_store_requests import typed_refusals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.catalog.session import Session
    from lakekit.sql.backend import Rows
    from lakekit.sql.parameters import NamedFrame

_RESULT_TYPES = {"string": pl.String(), "long": pl.Int64(), "int": pl.Int32(), "boolean": pl.Boolean()}
_MAX_SHOWN_CHARS = 80
"""How much of each statement that ran an error shows."""


def sql(
    session: Session,
    text: str,
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    files: bool = False,
    dialect: str = "lakekit",
    frames: Mapping[str, Any] | None = None,
) -> pl.LazyFrame | ResultFrame:
    """Execute the statements of a text in a session, as `cat.sql`."""
    result: pl.LazyFrame | ResultFrame = ResultFrame()
    for result in run(session, text, parameters, files=files, dialect=dialect, frames=frames):  # noqa: B007 - the last
        pass
    return result


def run(
    session: Session,
    text: str,
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    files: bool = False,
    dialect: str = "lakekit",
    frames: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> Iterator[pl.LazyFrame | ResultFrame]:
    """Execute the statements of a text one after another, and yield the result of each before the next begins.

    `limit`: the most rows of a query that are computed, where there are several statements.

    Raises what a statement raises, with the statements before it in the message. Before the first is executed, it
    raises `SqlError`, `Unsupported` for any whose first word begins none.
    """
    if dialect not in ("lakekit", "spark"):
        raise InvalidOption(f"dialect={dialect!r}; there are 'lakekit' and 'spark'", key="dialect", value=dialect)
    numbered, values = number(text, parameters, dialect)
    if dialect == "spark" and "$" in numbered.text:
        numbered = SqlText(quote_dollars(numbered.text))
    known = named_frames(frames or {})
    read = TokenStream.split(numbered, dialect, parameters=values)
    _check_first_words(read)
    for index, tokens in enumerate(read):  # scalar: one a statement
        try:
            result = _execute(session, tokens, known, files=files)
            if not isinstance(result, StatementResult) and len(read) > 1:
                result = _collect(result if limit is None else result.head(limit), tokens.statement_text)
        except LakekitError as wrong:
            _complete_error(wrong, tokens, _format_progress(read, index) if len(read) > 1 else None)
            raise
        if isinstance(result, StatementResult):
            yield _result_frame(result)
        else:
            yield ResultFrame(result) if isinstance(result, pl.DataFrame) else result


def _check_first_words(read: Sequence[TokenStream]) -> None:
    """Refuse a text of which a statement begins with no known word, before its first statement is executed."""
    for index, tokens in enumerate(read):  # scalar: one a statement
        try:
            dispatch.check_first_word(tokens)
        except LakekitError as wrong:
            others = f"In statement {index + 1} of {len(read)}; none of them ran" if len(read) > 1 else None
            _complete_error(wrong, tokens, others)
            raise


def _complete_error(wrong: LakekitError, tokens: TokenStream, others: str | None) -> None:
    """Give an error its place, take the secrets of its statement out of it, and add what became of other statements."""
    advise_in_sql(wrong, tokens.text)
    dispatch.add_position(wrong, tokens)
    redact_error(wrong, tokens.text)
    if others is not None:
        wrong.args = (f"{wrong.message}\n{others}",)


def query_table(
    table: Any, text: str, parameters: Sequence[Any] | Mapping[str, Any] | None, frames: Mapping[str, Any]
) -> pl.LazyFrame:
    """Return the rows of a query over one table, which it calls `self`. Raises `SqlError` for what is no query."""
    if "self" in frames:
        raise InvalidOption("self= is the name of the table itself", key="self", value=None)
    numbered, values = number(text, parameters, "lakekit")
    [tokens, *others] = TokenStream.split(numbered, parameters=values)
    catalog = connect(table.location, storage_options=table.storage_options)
    known = {"self": table, **named_frames(frames)}
    statement = Statement(backend=DuckDBBackend(), catalog=catalog, tokens=tokens, frames=known)
    if others or not dispatch.is_query(statement):
        raise tokens.wrong("one query, SELECT … FROM self")
    try:
        with translate_panics("the statement", sql=partial(excerpt, tokens.statement_text)):
            rows: pl.LazyFrame = statement.backend.query(statement, tokens.remaining_text)
    except LakekitError as wrong:
        advise_in_sql(wrong, tokens.text)
        redact_error(wrong, tokens.text)
        raise
    return rows


def _format_progress(read: Sequence[TokenStream], index: int) -> str:
    """Return which statements of a text ran before the one that failed."""
    ran = "; ".join(f"{at}: {_first_line(tokens.statement_text)}" for at, tokens in enumerate(read[:index], 1))
    what = f"these ran and stay done: {ran}" if ran else "none ran before it"
    return f"In statement {index + 1} of {len(read)}; {what}"


def _first_line(text: str) -> str:
    line = excerpt(text.partition("\n")[0])
    return line if len(line) <= _MAX_SHOWN_CHARS else f"{line[:_MAX_SHOWN_CHARS]}…"


def _execute(
    session: Session, tokens: TokenStream, frames: Mapping[str, NamedFrame], *, files: bool
) -> StatementResult | Rows:
    """Execute one statement: one that changes the session, or all others by `dispatch`."""
    changed = session_statement.execute(session, tokens)
    if changed is not None:
        return changed
    backend = DuckDBBackend(database=session.database, tables=session.tables, catalogs=session.catalogs, files=files)
    with translate_panics("the statement", sql=partial(excerpt, tokens.statement_text)):
        return dispatch.execute(
            Statement(backend=backend, catalog=session.catalog, tokens=tokens, frames=frames, settings=session.settings)
        )


def _collect(rows: pl.LazyFrame, text: str) -> pl.DataFrame:
    with typed_refusals(), translate_panics("the query", sql=partial(excerpt, text)):
        return rows.collect()


def _result_frame(answer: StatementResult) -> ResultFrame:
    return ResultFrame(
        list(answer.rows), schema={name: _RESULT_TYPES[kind] for name, kind in answer.kinds.items()}, orient="row"
    )
