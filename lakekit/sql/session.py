"""`cat.sql`: the statements of a text, one after another, in a session that lasts from text to text.

    cat.sql("USE shop")
    cat.sql("SELECT id FROM orders WHERE id > 7").collect()        orders of shop: USE holds from call to call

A query is the backend's (`polars_backend`); what a session is, and what it holds, is in `lakekit.catalog.session`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from lakekit.catalog.connection import connect
from lakekit.catalog.identifier import SYSTEM
from lakekit.catalog.session import DEFAULT_DATABASE
from lakekit.errors import DatabaseNotFound, InvalidOption
from lakekit.options.redaction import excerpt
from lakekit.read.user_expressions import translate_panics
from lakekit.sql import dispatch
from lakekit.sql.backend import Statement, StatementResult, parse_properties
from lakekit.sql.polars_backend import PolarsBackend
from lakekit.sql.tokenizer import TokenStream
from lakekit.storage.object_store_requests import typed_refusals

if TYPE_CHECKING:
    from lakekit.catalog.session import Session
    from lakekit.sql.backend import Rows

_RESULT_TYPES = {"string": pl.String(), "long": pl.Int64(), "int": pl.Int32(), "boolean": pl.Boolean()}
_KIND = "paimon"
_STORAGES = ("s3.", "s3a.", "fs.", "gs.", "gcs.", "azure.", "oss.")
"""How keys begin that are for the storage, among those of CREATE CATALOG."""


def sql(session: Session, text: str) -> pl.LazyFrame | pl.DataFrame:
    """Execute the statements of a text in a session, as `cat.sql`."""
    read = TokenStream.split(text)
    result: StatementResult | Rows = StatementResult()
    for tokens in read:  # scalar: one a statement
        result = _execute(session, tokens)
    if isinstance(result, pl.LazyFrame):
        return result if len(read) == 1 else _collect(result, read[-1].statement_text)
    assert isinstance(result, StatementResult)
    return _result_frame(result)


def _execute(session: Session, tokens: TokenStream) -> StatementResult | Rows:
    """Execute one statement: what changes the session here, all others by `dispatch`."""
    if tokens.accept("USE", "CATALOG"):
        return _use_catalog(session, tokens)
    if tokens.accept("USE"):
        return _use_database(session, tokens)
    if tokens.accept("CREATE", "CATALOG"):
        return _create_catalog(session, tokens)
    backend = PolarsBackend(database=session.database, tables=session.tables, catalogs=session.catalogs)
    with translate_panics("the statement", sql=partial(excerpt, tokens.statement_text)):
        return dispatch.execute(Statement(backend=backend, catalog=session.catalog, tokens=tokens))


def _use_catalog(session: Session, tokens: TokenStream) -> StatementResult:
    """Execute USE CATALOG: the catalog whose databases are named from here on.

    Raises: `InvalidOption` for one that was not created in the session.
    """
    name = tokens.name("a catalog")
    tokens.end()
    session.catalog = session.named(name)
    session.database = DEFAULT_DATABASE
    return StatementResult()


def _use_database(session: Session, tokens: TokenStream) -> StatementResult:
    """Execute USE: the database of names of one part, from here on, and its catalog where the name has two parts.

    Raises: `DatabaseNotFound`, `InvalidOption` for a catalog that was not created in the session.
    """
    tokens.accept("DATABASE")
    *catalogs, name = tokens.names("a database")
    if len(catalogs) > 1:
        raise tokens.wrong("a database, or catalog.database")
    tokens.end()
    catalog = session.named(catalogs[0]) if catalogs else session.catalog
    if name not in (SYSTEM, DEFAULT_DATABASE) and name not in (databases := catalog.databases()):
        raise DatabaseNotFound(
            f"USE {name}: there is no such database; there are {', '.join(databases) or 'none'}", name=name
        )
    session.catalog, session.database = catalog, name
    return StatementResult()


def _create_catalog(session: Session, tokens: TokenStream) -> StatementResult:
    """Execute CREATE CATALOG: another catalog, known by its name in the statements that follow.

    Raises what `lk.connect` raises.
    """
    name = tokens.name("a catalog")
    tokens.expect("WITH")
    options = parse_properties(tokens)
    tokens.end()
    kind = options.pop("type", _KIND)
    if kind != _KIND:
        raise InvalidOption(f"CREATE CATALOG {name}: type is {kind!r}, and there is {_KIND!r}", key="type", value=kind)
    storage_options = {key: options.pop(key) for key in list(options) if key.startswith(_STORAGES)}
    session.catalogs[name] = connect(storage_options=storage_options or None, options=options)
    return StatementResult()


def _collect(rows: pl.LazyFrame, text: str) -> pl.DataFrame:
    with typed_refusals(), translate_panics("the query", sql=partial(excerpt, text)):
        return rows.collect()


def _result_frame(answer: StatementResult) -> pl.DataFrame:
    return pl.DataFrame(
        list(answer.rows), schema={name: _RESULT_TYPES[kind] for name, kind in answer.kinds.items()}, orient="row"
    )
