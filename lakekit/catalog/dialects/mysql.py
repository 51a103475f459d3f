"""MySQL and MariaDB, by PyMySQL (the extra `mysql`).

MySQL's collation ignores case and trailing blanks when it compares names of databases and tables. File systems do not:
the catalog reads the stored name and compares it again. A database with the character set utf8mb4 cannot hold the
catalog's tables: their keys are too long for it.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql import err

from lakekit.runtime import warn_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.catalog.jdbc_session import JdbcAddress

PLACEHOLDER = "%s"
"""The placeholder of a value in a statement."""
LOCK_EXPIRED_CONDITION = "TIMESTAMPDIFF(SECOND, acquired_at, NOW()) > expire_time_seconds"
"""The SQL condition that a lock's row has expired."""
Error = err.MySQLError
"""The base class of the driver's errors."""
_DUPLICATE_CODE, _NO_TABLE_CODE, _KEY_TOO_LONG_CODE = 1062, 1146, 1071
_BUSY_CODES = (1205, 1213)
_SSL_PARAMETERS = ("useSSL", "requireSSL", "sslMode", "verifyServerCertificate")


def connect(address: JdbcAddress) -> Any:
    """Return a connection whose clock is UTC."""
    parameters = address.parameters
    for key in parameters:
        if key not in (*_SSL_PARAMETERS, "connectTimeout"):
            warn_user(f"option jdbc.{key} is not passed on: PyMySQL has nothing of that name")
    arguments: dict[str, Any] = {} if (context := _tls_context(parameters)) is None else {"ssl": context}
    if "connectTimeout" in parameters:
        arguments["connect_timeout"] = max(1, int(parameters["connectTimeout"]) // 1000)
    return pymysql.connect(
        host=address.host,
        port=address.port or 3306,
        database=address.database,
        user=address.user,
        password=address.password or "",
        autocommit=True,
        init_command="SET time_zone = '+00:00'",
        **arguments,
    )


def _tls_context(parameters: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context that the Java driver's options describe; None if the server decides."""
    mode = parameters.get("sslMode", "").upper()
    is_checked = (
        mode in ("VERIFY_CA", "VERIFY_IDENTITY") or parameters.get("verifyServerCertificate", "").lower() == "true"
    )
    if (
        not is_checked
        and mode != "REQUIRED"
        and "true" not in (parameters.get("requireSSL", "").lower(), parameters.get("useSSL", "").lower())
    ):
        return None
    context = ssl.create_default_context()
    context.check_hostname = is_checked and mode != "VERIFY_CA"
    if not is_checked:
        context.verify_mode = ssl.CERT_NONE
    return context


def is_duplicate_key(error: Exception) -> bool:
    """Return whether the error says that a row with the same key exists."""
    return _error_code(error) == _DUPLICATE_CODE


def is_busy(error: Exception) -> bool:
    """Return whether the error says that another transaction blocks the statement, which can be repeated."""
    return _error_code(error) in _BUSY_CODES


def is_missing_table(error: Exception) -> bool:
    """Return whether the error says that the table does not exist."""
    return _error_code(error) == _NO_TABLE_CODE


def error_hint(error: Exception) -> str | None:
    """Return advice on an error that only MySQL raises; None if there is no advice."""
    if _error_code(error) == _KEY_TOO_LONG_CODE:
        return (
            "the keys of Paimon's tables are too long for utf8mb4: ALTER DATABASE … CHARACTER SET utf8mb3, and "
            "connect again"
        )
    return None


def _error_code(error: Exception) -> int | None:
    return error.args[0] if error.args and isinstance(error.args[0], int) else None
