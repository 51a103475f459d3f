"""Sessions of a JDBC database: a connection for one query or one group of statements, with lakekit's errors.

    with database.session() as session:
        session.ask("SELECT table_name FROM paimon_tables WHERE catalog_key = ?", "jdbc")
        session.do("DELETE FROM …", …)                      rows that it changed

Connections are not kept open: a catalog asks rarely, and a closed one cannot go stale. No transaction is open while
files are written.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lakekit import plugins
from lakekit.catalog.uris import address
from lakekit.errors import StorageFailed
from lakekit.options.secrets import HIDDEN, is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from lakekit.catalog.uris import JdbcAddress

A = TypeVar("A")

_TRIES = 20
_PAUSE_MS = 25


class DuplicateKey(StorageFailed):
    """A row of that key exists already."""


class DatabaseBusy(StorageFailed):
    """Another transaction blocks this one; nothing was changed."""


class MissingTable(StorageFailed):
    """There is no such table in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcDatabase:
    """The address of a database; `shown` is its uri without secrets."""

    uri: str = field(repr=False)
    driver: Mapping[str, str] = field(repr=False)
    shown: str

    @property
    def address(self) -> JdbcAddress:
        """Where it is. Raises `InvalidOption`."""
        return address(self.uri, self.driver)

    @property
    def dialect(self) -> ModuleType:
        """Its way with SQL. Raises `Unsupported` naming the extra that brings its driver."""
        return plugins.load("catalog/dialects", self.address.dialect)

    @contextmanager
    def session(self) -> Iterator[JdbcSession]:
        """Open a connection. Raises `StorageFailed` where that fails."""
        address, dialect = self.address, self.dialect
        secrets = tuple(
            value
            for value in (address.password, *(value for key, value in address.parameters.items() if is_secret(key)))
            if value
        )
        connection, failure = None, ""
        try:
            connection = dialect.connect(address)
        except dialect.Error as error:
            failure = _redact_message(error, secrets)
        if connection is None:  # outside of the block: a driver's error may hold the connection's password
            raise StorageFailed(f"the database {self.shown} does not let lakekit in: {failure}", path=self.shown)
        try:
            yield JdbcSession(connection=connection, dialect=dialect, shown=self.shown, secrets=secrets)
        finally:
            with suppress(dialect.Error):
                connection.close()


@dataclass(slots=True, kw_only=True)
class JdbcSession:
    """An open connection to a database."""

    connection: Any = field(repr=False)
    dialect: ModuleType
    shown: str
    secrets: tuple[str, ...] = field(repr=False)

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises `MissingTable`, `DatabaseBusy`, `StorageFailed`."""
        cursor = self._said(statement, values)
        try:
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def do(self, statement: str, *values: Any) -> int:
        """Execute a statement, and return how many rows it changed.

        Raises: `DuplicateKey`, `MissingTable`, `DatabaseBusy`, `StorageFailed`.
        """
        cursor = self._said(statement, values)
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """All statements of the block, or none."""
        self.do("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(StorageFailed):
                self.do("ROLLBACK")
            raise
        self.do("COMMIT")

    def _said(self, statement: str, values: tuple[Any, ...]) -> Any:
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement if self.dialect.MARK == "?" else statement.replace("?", self.dialect.MARK), values)
        except self.dialect.Error as error:
            failed = self._failed(error)
        else:
            return cursor
        cursor.close()
        raise failed  # outside of the block: a driver's error may hold the connection's password

    def _failed(self, error: Exception) -> StorageFailed:
        kinds = (
            (self.dialect.is_duplicate, DuplicateKey),
            (self.dialect.is_missing, MissingTable),
            (self.dialect.is_busy, DatabaseBusy),
        )
        kind = next((error_type for test, error_type in kinds if test(error)), StorageFailed)
        advice = self.dialect.why(error)
        return kind(
            f"the database {self.shown} says: {_redact_message(error, self.secrets)}"
            + (f". {advice}" if advice else ""),
            path=self.shown,
        )


def retry_while_busy(work: Callable[[], A], wait: Callable[[float], None]) -> A:
    """Return the result of `work`, repeated while other transactions block it.

    `work` changes everything or nothing.

    Raises: `DatabaseBusy` after some twenty times.
    """
    for turn in range(_TRIES):
        try:
            return work()
        except DatabaseBusy:
            if turn == _TRIES - 1:
                raise
        wait(min(_PAUSE_MS * 2**turn, 1000))
    msg = "a turn returns or raises"
    raise AssertionError(msg)


def _redact_message(error: Exception, secrets: tuple[str, ...]) -> str:
    """Return a driver's message on one line, without secrets."""
    text = " ".join(str(error).split()) or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text[:500]
