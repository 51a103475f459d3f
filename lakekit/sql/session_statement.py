"""Statements that change a session: USE, CREATE CATALOG, SET and RESET.

CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '/data/lake'); USE lake.shop
SET 'paimon.*.*.orders.scan.snapshot-id' = '7'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.catalog.connection import connect
from lakekit.catalog.identifier import SYSTEM
from lakekit.catalog.metastore import suggest_name
from lakekit.catalog.session import DEFAULT_DATABASE
from lakekit.errors import DatabaseNotFound, InvalidOption
from lakekit.model.table_paths import check_not_in_hint
from lakekit.sql.backend import StatementResult, is_setting, parse_key, parse_properties

if TYPE_CHECKING:
    from lakekit.catalog.session import Session
    from lakekit.sql.tokenizer import TokenStream

_KIND = "paimon"
_STORAGES = ("s3.", "s3a.", "fs.", "gs.", "gcs.", "azure.", "oss.")
"""How keys begin that are for the storage, among those of CREATE CATALOG."""


def execute(session: Session, tokens: TokenStream) -> StatementResult | None:
    """Execute a statement that changes the session; return None for any other. Raises what the statement does."""
    if tokens.accept("USE", "CATALOG"):
        return _use_catalog(session, tokens)
    if tokens.accept("USE"):
        return _use_database(session, tokens)
    if tokens.accept("CREATE", "CATALOG"):
        return _create_catalog(session, tokens)
    if tokens.accept("SET"):
        return _set(session, tokens)
    return _reset(session, tokens) if tokens.accept("RESET") else None


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
            f"USE {name}: there is no such database; there are {', '.join(databases) or 'none'}"
            f"{suggest_name(name, databases)}",
            name=name,
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
        problem = (
            f"CREATE CATALOG {name}: its type is {kind!r}; the only one is {_KIND}, which it has without a type too"
        )
        raise InvalidOption(problem, key="type", value=kind)
    storage_options = {key: options.pop(key) for key in list(options) if key.startswith(_STORAGES)}
    session.catalogs[name] = connect(storage_options=storage_options or None, options=options)
    return StatementResult()


def _set(session: Session, tokens: TokenStream) -> StatementResult:
    """Execute SET: an option of all tables that the key fits, from here on; alone, list what is set.

    Raises: `InvalidOption` for a key that names no option of tables: none is kept without an effect.
    """
    if tokens.next is None:
        tokens.end()
        return StatementResult("key string, value string", sorted(session.settings.items()))
    key = parse_key(tokens)
    tokens.expect("=")
    value = tokens.take("a value: a text in single quotes, a number or a word", "text", "number", "word").value
    tokens.end()
    if not is_setting(key):
        raise InvalidOption(
            f"SET {key[:200]!a}: a session keeps options of tables, 'paimon.<catalog>.<database>.<table>.<option>', "
            "with * for any catalog, database or table",
            key=key,
            value=None,
        )
    check_not_in_hint([key.split(".", 4)[4]], "SET")
    session.settings[key] = value
    return StatementResult()


def _reset(session: Session, tokens: TokenStream) -> StatementResult:
    """Execute RESET, of one key or of all. Raises `InvalidOption` for a key that is not set."""
    key = None if tokens.next is None else parse_key(tokens)
    tokens.end()
    if key is None:
        session.settings.clear()
    elif session.settings.pop(key, None) is None:
        raise InvalidOption(f"RESET {key[:200]!a}: it is not set; SET lists what is", key=key, value=None)
    return StatementResult()
