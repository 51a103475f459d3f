"""SQLite: a file, by Python's own module. Other connections wait up to half a minute for a writer."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit.catalog.jdbc_session import JdbcAddress

PLACEHOLDER = "?"
LOCK_EXPIRED_CONDITION = "strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds"
Error = sqlite3.Error
_WAIT_SECONDS = 30


def connect(address: JdbcAddress) -> sqlite3.Connection:
    """Return a connection that another thread may close."""
    return sqlite3.connect(address.database, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)


def is_duplicate_key(error: Exception) -> bool:
    """Return whether a row of that key exists."""
    return isinstance(error, sqlite3.IntegrityError)


def is_busy(error: Exception) -> bool:
    """Return whether another connection blocks the statement, which can be repeated."""
    return isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def is_missing_table(error: Exception) -> bool:
    """Return whether there is no such table."""
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith("no such table")


def error_hint(error: Exception) -> str | None:  # noqa: ARG001 - every dialect's
    """Return advice on an error that only SQLite raises; None if there is no advice."""
    return None
