"""PostgreSQL, by psycopg (the extra `postgresql`).

The time in a lock's row has no zone: it is the wall clock of its writer. An old row therefore proves nothing, and
`LOCK_EXPIRED_CONDITION` is None: a waiting process removes a lock only after it has seen the same row for longer than a
lock may be held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors

from lakekit.runtime import warn_user

if TYPE_CHECKING:
    from lakekit.catalog.jdbc_session import JdbcAddress

PLACEHOLDER = "%s"
LOCK_EXPIRED_CONDITION = None
Error = psycopg.Error
_PSYCOPG_NAMES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
}
"""What the Java driver calls things, and what this one does."""


def connect(address: JdbcAddress) -> psycopg.Connection[tuple[object, ...]]:
    """Return a connection whose clock is UTC."""
    arguments: dict[str, Any] = {}
    for key, value in address.parameters.items():
        if key == "ssl":
            arguments["sslmode"] = "verify-full" if value.lower() in ("", "true") else "prefer"
        elif key in _PSYCOPG_NAMES or key in _PSYCOPG_NAMES.values():
            arguments[_PSYCOPG_NAMES.get(key, key)] = value
        elif key != "currentSchema":
            warn_user(f"option jdbc.{key} is not passed on: psycopg has nothing of that name")
    schema = address.parameters.get("currentSchema")
    options = "-c timezone=UTC" + (
        f" -c search_path={schema}" if schema and schema.replace(",", "").isidentifier() else ""
    )
    return psycopg.connect(
        host=address.host,
        port=address.port or 5432,
        dbname=address.database,
        user=address.user,
        password=address.password,
        autocommit=True,
        options=options,
        **arguments,
    )


def is_duplicate_key(error: Exception) -> bool:
    """Return whether a row of that key exists."""
    return isinstance(error, errors.UniqueViolation)


def is_busy(error: Exception) -> bool:
    """Return whether another transaction blocks the statement, which can be repeated."""
    return isinstance(error, (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable))


def is_missing_table(error: Exception) -> bool:
    """Return whether there is no such table."""
    return isinstance(error, errors.UndefinedTable)


def error_hint(error: Exception) -> str | None:  # noqa: ARG001 - every dialect's
    """Return advice on an error that only PostgreSQL raises; None if there is no advice."""
    return None
