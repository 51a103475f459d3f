"""JDBC databases: their addresses, sessions with lakekit's errors, and the lock of a catalog.

    sqlite:///catalog.db      postgresql://user@host:5432/db      mysql://host/db      or Java's spelling, after `jdbc:`
    parse_address("jdbc:postgresql://db.example/lake?user=me", {"password": "…"})
        ->   JdbcAddress(dialect_name="postgresql", host="db.example", database="lake", …)

    with database.session() as session:                 a connection for one query or one group of statements
        session.query("SELECT table_name FROM paimon_tables WHERE catalog_key = ?", "jdbc")
        session.execute("DELETE FROM …", …)                 rows that it changed

Connections are not kept open: a catalog asks rarely, and a closed one cannot go stale. No transaction is open while
files are written. A lock is a row of `paimon_distributed_locks`, which exists while the lock is held:

    lock_id               acquired_at            expire_time_seconds
    jdbc.shop.orders      2024-03-31 10:00:00    480

The process that inserts the row has the lock; others wait, twice as long each time. A row left behind by a process that
died may be removed once `expire_time_seconds` have passed. As in the reference, but for three errors of it: only the
row with our own time is released, so that a process that lost its lock cannot release the lock of another; a lock about
to run out claims nothing more; and where the times in rows cannot be compared (`dialects.postgresql`) a row is removed
only after it was seen unchanged for `expire_time_seconds` and some more.

Source: ENGINE.md 9.3; `JdbcCatalogLock`, `JdbcDistributedLockDialect`; the drivers' own URLs.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from lakekit import plugins
from lakekit.errors import InvalidOption, LockLost, RetriesExhausted, StorageFailed
from lakekit.options.option import EMPTY, HIDDEN, FrozenDict, is_secret
from lakekit.options.redaction import redact_uri
from lakekit.runtime import REAL_RUNTIME, warn_user
from lakekit.storage.local import absolute_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType
    from urllib.parse import SplitResult

    from lakekit.runtime import Runtime


_DIALECT_OF_SCHEME = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
}
_URI_FORMS = (
    "sqlite:///file, postgresql://host:port/db, mysql://host:port/db, or the same after jdbc: as Java writes it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcAddress:
    """The address of a database.

    `database` is a file's path for sqlite; `parameters` are all other arguments of the driver.
    """

    dialect_name: str
    database: str
    host: str = "localhost"
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    parameters: Mapping[str, str] = field(default=EMPTY, repr=False)


def parse_address(uri: str, driver_options: Mapping[str, str]) -> JdbcAddress:
    """Return the address of a database, by its uri and the options of its driver.

    The uri wins over the options.

    Raises: `InvalidOption` for a uri that names none.
    """
    text = uri.strip()
    kind, colon, tail = text.removeprefix("jdbc:").partition(":")
    dialect = _DIALECT_OF_SCHEME.get(kind.lower())
    if dialect is None or not colon:
        raise InvalidOption(
            f"{redact_uri(uri)!r} is no uri of a database that lakekit knows; there are {_URI_FORMS}",
            key="uri",
            value=None,
        )
    if dialect == "sqlite":
        return JdbcAddress(
            dialect_name=dialect,
            database=_sqlite_path(uri, tail, is_java=text.startswith("jdbc:")),
            parameters=FrozenDict(driver_options),
        )
    parts = _split_uri(f"{dialect}:{tail}")
    if parts is None:  # outside of the block that found out: its error quotes what stands behind the colon
        raise InvalidOption(
            f"{redact_uri(uri)!r} cannot be read as an uri; there are {_URI_FORMS}", key="uri", value=None
        )
    host, port, user, password = parts.hostname, parts.port, parts.username, parts.password
    database = unquote(parts.path.strip("/"))
    if not database or "/" in database or not tail.startswith("//"):
        raise InvalidOption(f"{redact_uri(uri)!r} names no database; there are {_URI_FORMS}", key="uri", value=None)
    parameters = {**driver_options, **dict(parse_qsl(parts.query, keep_blank_values=True))}
    user, secret = (
        parameters.pop(name, None) if part is None else unquote(part)
        for name, part in (("user", user), ("password", password))
    )
    remaining = {key: value for key, value in parameters.items() if key not in ("user", "password")}
    return JdbcAddress(
        dialect_name=dialect,
        database=database,
        host=host or "localhost",
        port=port,
        user=user,
        password=secret,
        parameters=FrozenDict(remaining),
    )


def _split_uri(uri: str) -> SplitResult | None:
    """Return the parts of a uri; None if it has none, or its port is no number."""
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _sqlite_path(uri: str, tail: str, *, is_java: bool) -> str:
    """Return the path in `jdbc:sqlite:[file:]FILE` or `sqlite:///FILE` (absolute by a fourth slash)."""
    name = tail.partition("?")[0]
    if not is_java:
        if not name.startswith("///"):
            raise InvalidOption(
                f"{redact_uri(uri)!r} names no file: sqlite:///catalog.db, or sqlite:////data/catalog.db from the root",
                key="uri",
                value=None,
            )
        name = unquote(name[3:])
    name = name.removeprefix("file:")
    if name in ("", ":memory:"):
        raise InvalidOption(
            f"{redact_uri(uri)!r} is a database in memory, which nobody else could open; give a file",
            key="uri",
            value=None,
        )
    return absolute_path(name)


# ---- jdbc session ------------------------------------------------------------


Result = TypeVar("Result")

_MAX_ATTEMPTS = 20
_PAUSE_MS = 25


class DuplicateKey(StorageFailed):
    """A row of that key exists already."""


class DatabaseBusy(StorageFailed):
    """Another transaction blocks this one; nothing was changed."""


class MissingDatabaseTable(StorageFailed):
    """There is no such table in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcDatabase:
    """The address of a database; `redacted_uri` is its uri without secrets."""

    uri: str = field(repr=False)
    driver_options: Mapping[str, str] = field(repr=False)
    redacted_uri: str

    @property
    def address(self) -> JdbcAddress:
        """Where it is. Raises `InvalidOption`."""
        return parse_address(self.uri, self.driver_options)

    @property
    def dialect(self) -> ModuleType:
        """Its way with SQL. Raises `Unsupported` naming the extra that brings its driver."""
        return plugins.load("catalog/dialects", self.address.dialect_name)

    @contextmanager
    def session(self) -> Iterator[JdbcSession]:
        """Open a connection. Raises `StorageFailed` if that fails."""
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
            raise StorageFailed(
                f"the database {self.redacted_uri} does not let lakekit in: {failure}", path=self.redacted_uri
            )
        try:
            yield JdbcSession(connection=connection, dialect=dialect, redacted_uri=self.redacted_uri, secrets=secrets)
        finally:
            with suppress(dialect.Error):
                connection.close()


@dataclass(slots=True, kw_only=True)
class JdbcSession:
    """An open connection to a database."""

    connection: Any = field(repr=False)
    dialect: ModuleType
    redacted_uri: str
    secrets: tuple[str, ...] = field(repr=False)

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises `MissingDatabaseTable`, `DatabaseBusy`, `StorageFailed`."""
        cursor = self._execute_checked(statement, values)
        try:
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def execute(self, statement: str, *values: Any) -> int:
        """Execute a statement, and return how many rows it changed.

        Raises: `DuplicateKey`, `MissingDatabaseTable`, `DatabaseBusy`, `StorageFailed`.
        """
        cursor = self._execute_checked(statement, values)
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run all statements of the block, or none."""
        self.execute("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(StorageFailed):
                self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def _execute_checked(self, statement: str, values: tuple[Any, ...]) -> Any:
        cursor = self.connection.cursor()
        try:
            cursor.execute(
                statement if self.dialect.PLACEHOLDER == "?" else statement.replace("?", self.dialect.PLACEHOLDER),
                values,
            )
        except self.dialect.Error as error:
            failed = self._translate_error(error)
        else:
            return cursor
        cursor.close()
        raise failed  # outside of the block: a driver's error may hold the connection's password

    def _translate_error(self, error: Exception) -> StorageFailed:
        kinds = (
            (self.dialect.is_duplicate_key, DuplicateKey),
            (self.dialect.is_missing_table, MissingDatabaseTable),
            (self.dialect.is_busy, DatabaseBusy),
        )
        kind = next((error_type for test, error_type in kinds if test(error)), StorageFailed)
        advice = self.dialect.error_hint(error)
        return kind(
            f"the database {self.redacted_uri} says: {_redact_message(error, self.secrets)}"
            + (f". {advice}" if advice else ""),
            path=self.redacted_uri,
        )


def retry_while_busy(work: Callable[[], Result], wait: Callable[[float], None]) -> Result:
    """Return the result of `work`, repeated while other transactions block it.

    `work` changes everything or nothing.

    Raises: `DatabaseBusy` after some twenty times.
    """
    for turn in range(_MAX_ATTEMPTS):
        try:
            return work()
        except DatabaseBusy:
            if turn == _MAX_ATTEMPTS - 1:
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


# ---- jdbc lock ------------------------------------------------------------


_SELECT_LOCK = "SELECT acquired_at, expire_time_seconds, {expired} FROM paimon_distributed_locks WHERE lock_id = ?"
_INSERT_LOCK = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)"
_DELETE_OWN_LOCK = "DELETE FROM paimon_distributed_locks WHERE lock_id = ? AND acquired_at = ?"
_DELETE_EXPIRED_LOCK = "DELETE FROM paimon_distributed_locks WHERE {expired} AND lock_id = ?"
_FIRST_SLEEP_MS = 100
_EXTRA_WATCH_MS = 5_000
_EXPIRY_MARGIN_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcLock:
    """The lock of one table. `timeout_ms` is how long to wait for it, and how long it may be held."""

    database: JdbcDatabase
    lock_id: str
    timeout_ms: int
    max_sleep_ms: int
    runtime: Runtime = REAL_RUNTIME

    @contextmanager
    def hold(self) -> Iterator[HeldJdbcLock]:
        """Hold the lock. Raises `RetriesExhausted` when others have it for too long."""
        lock = self._acquire()
        try:
            yield lock
        finally:
            lock.release()

    def _acquire(self) -> HeldJdbcLock:
        started, sleep, seen = self.runtime.elapsed_ms(), _FIRST_SLEEP_MS, _LockWatch()
        with self.database.session() as session:
            patience = (
                self.timeout_ms if session.dialect.LOCK_EXPIRED_CONDITION else self.timeout_ms + 2 * _EXTRA_WATCH_MS
            )
            while True:
                since_ms = self.runtime.elapsed_ms()
                if self._remove_if_expired(session, seen) and self._insert_row(session):
                    rows = session.query(_SELECT_LOCK.format(expired="FALSE"), self.lock_id)
                    return HeldJdbcLock(lock=self, acquired_at=rows[0][0] if rows else None, held_since_ms=since_ms)
                waited = self.runtime.elapsed_ms() - started
                if waited > patience:
                    raise RetriesExhausted(
                        f"Acquire lock failed with time: {waited / 1000:.0f} s. Somebody else holds {self.lock_id!r} "
                        f"in {self.database.redacted_uri}; nothing was "
                        "changed. Try again, or delete its row of paimon_distributed_locks where its holder is gone"
                    )
                self.runtime.wait_ms(min(sleep, self.max_sleep_ms))
                sleep *= 2

    def _insert_row(self, session: JdbcSession) -> bool:
        try:
            session.execute(_INSERT_LOCK, self.lock_id, self.timeout_ms // 1000)
        except (DuplicateKey, DatabaseBusy):
            return False
        return True

    def _remove_if_expired(self, session: JdbcSession, watch: _LockWatch) -> bool:
        """Return whether the row does not exist, or was left behind and is removed now.

        Only reads while another process holds the lock: a writer would block SQLite's readers.
        """
        rows, now = (
            session.query(_SELECT_LOCK.format(expired=session.dialect.LOCK_EXPIRED_CONDITION or "FALSE"), self.lock_id),
            self.runtime.elapsed_ms(),
        )
        if not rows:
            return True
        *row, is_expired = rows[0]
        if row != watch.lock_row:
            watch.lock_row, watch.unchanged_since_ms = row, now
        if is_expired:
            retry_while_busy(
                lambda: session.execute(
                    _DELETE_EXPIRED_LOCK.format(expired=session.dialect.LOCK_EXPIRED_CONDITION), self.lock_id
                ),
                self.runtime.wait_ms,
            )
            return True
        if (
            not session.dialect.LOCK_EXPIRED_CONDITION
            and now - watch.unchanged_since_ms > row[1] * 1000 + _EXTRA_WATCH_MS
        ):
            return session.execute(_DELETE_OWN_LOCK, self.lock_id, row[0]) > 0
        return False


@dataclass(slots=True)
class _LockWatch:
    """The row of another holder, and since when it is unchanged."""

    lock_row: list[Any] | None = None
    unchanged_since_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJdbcLock:
    """A lock that this process holds; `acquired_at` is the time in its row, as the database spells it."""

    lock: JdbcLock
    acquired_at: Any
    held_since_ms: float

    def check_held(self) -> None:
        """Raise `LockLost` when the lock runs out soon, or was taken from this process already."""
        lock = self.lock
        spent, allowed = (
            lock.runtime.elapsed_ms() - self.held_since_ms,
            lock.timeout_ms - min(_EXPIRY_MARGIN_MS, lock.timeout_ms // 4),
        )
        if self.acquired_at is None or spent >= allowed:
            why = (
                "somebody removed it"
                if self.acquired_at is None
                else f"held for {spent / 1000:.0f} s of {lock.timeout_ms / 1000:.0f} s, it runs out"
            )
            raise LockLost(
                f"the lock {lock.lock_id!r} in {lock.database.redacted_uri} was lost: {why}. Nothing was changed; "
                "try again, or raise lock-acquire-timeout"
            )

    def release(self) -> None:
        """Release the lock where this process still holds it.

        A lost lock, or a failure to release it, causes a warning: what was done under the lock stays.
        """
        lock = self.lock

        def leave() -> int:
            with lock.database.session() as session:
                return session.execute(_DELETE_OWN_LOCK, lock.lock_id, self.acquired_at)

        try:
            removed = retry_while_busy(leave, lock.runtime.wait_ms)
        except StorageFailed as failed:
            warn_user(
                f"the lock {lock.lock_id!r} could not be given back, and runs out after {lock.timeout_ms / 1000:.0f} "
                f"s: {failed.message}"
            )
            return
        if not removed:
            warn_user(
                f"the lock {lock.lock_id!r} in {lock.database.redacted_uri} was not there any more when it was given "
                "back: "
                "others may have worked meanwhile"
            )


def create_if_missing(create: Callable[[], Any], exists: Callable[[], bool]) -> None:
    """Create something that another process may create at the same moment."""
    try:
        create()
    except StorageFailed:
        if not exists():
            raise
