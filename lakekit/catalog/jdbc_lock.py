"""The lock of a JDBC catalog: a row of `paimon_distributed_locks`, which exists while the lock is held.

    lock_id               acquired_at            expire_time_seconds
    jdbc.shop.orders      2024-03-31 10:00:00    480

The process that inserts the row has the lock; others wait, twice as long each time. A row left behind by a process that
died may be removed once it is older than it says. As in the reference, but for three errors of it: only the row with
our own time is released, so that a process that lost its lock cannot release the lock of another; a lock about to run
out claims nothing more; and where times in rows mean nothing (`dialects.postgresql`) a lock counts as left behind only
after it was watched for as long. Source: ENGINE.md 9.3; `JdbcCatalogLock`, `JdbcDistributedLockDialect`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.catalog.jdbc_session import DatabaseBusy, DuplicateKey, retry_while_busy
from lakekit.errors import LockLost, RetriesExhausted, StorageFailed
from lakekit.world import REAL_RUNTIME, warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakekit.catalog.jdbc_session import JdbcDatabase, JdbcSession
    from lakekit.world import Runtime

_ROW = "SELECT acquired_at, expire_time_seconds, {expired} FROM paimon_distributed_locks WHERE lock_id = ?"
_TAKE = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)"
_LEAVE = "DELETE FROM paimon_distributed_locks WHERE lock_id = ? AND acquired_at = ?"
_REMOVE = "DELETE FROM paimon_distributed_locks WHERE {expired} AND lock_id = ?"
_FIRST_SLEEP_MS = 100
_WATCHED_LONGER_MS = 5_000
_MARGIN_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcLock:
    """The lock of one table. `timeout_ms` is how long to wait for it, and how long it may be held."""

    database: JdbcDatabase
    lock_id: str
    timeout_ms: int
    max_sleep_ms: int
    world: Runtime = REAL_RUNTIME

    @contextmanager
    def held(self) -> Iterator[HeldJdbcLock]:
        """Hold the lock. Raises `RetriesExhausted` when others have it for too long."""
        lock = self._taken()
        try:
            yield lock
        finally:
            lock.release()

    def _taken(self) -> HeldJdbcLock:
        started, sleep, seen = self.world.elapsed_ms(), _FIRST_SLEEP_MS, _LockWatch()
        with self.database.session() as session:
            patience = self.timeout_ms if session.dialect.EXPIRED else self.timeout_ms + 2 * _WATCHED_LONGER_MS
            while True:
                since_ms = self.world.elapsed_ms()
                if self._is_free(session, seen) and self._insert(session):
                    rows = session.ask(_ROW.format(expired="FALSE"), self.lock_id)
                    return HeldJdbcLock(lock=self, acquired_at=rows[0][0] if rows else None, since_ms=since_ms)
                waited = self.world.elapsed_ms() - started
                if waited > patience:
                    raise RetriesExhausted(
                        f"Acquire lock failed with time: {waited / 1000:.0f} s. Somebody else holds {self.lock_id!r} "
                        f"in {self.database.shown}; nothing was "
                        "changed. Try again, or delete its row of paimon_distributed_locks where its holder is gone"
                    )
                self.world.wait(min(sleep, self.max_sleep_ms))
                sleep *= 2

    def _insert(self, session: JdbcSession) -> bool:
        try:
            session.do(_TAKE, self.lock_id, self.timeout_ms // 1000)
        except (DuplicateKey, DatabaseBusy):
            return False
        return True

    def _is_free(self, session: JdbcSession, seen: _LockWatch) -> bool:
        """Return whether the row does not exist, or was left behind and is removed now.

        Only reads while another process holds the lock: a writer would block SQLite's readers.
        """
        rows, now = (
            session.ask(_ROW.format(expired=session.dialect.EXPIRED or "FALSE"), self.lock_id),
            self.world.elapsed_ms(),
        )
        if not rows:
            return True
        *row, is_expired = rows[0]
        if row != seen.row:
            seen.row, seen.since_ms = row, now
        if is_expired:
            retry_while_busy(
                lambda: session.do(_REMOVE.format(expired=session.dialect.EXPIRED), self.lock_id), self.world.wait
            )
            return True
        if not session.dialect.EXPIRED and now - seen.since_ms > row[1] * 1000 + _WATCHED_LONGER_MS:
            return session.do(_LEAVE, self.lock_id, row[0]) > 0
        return False


@dataclass(slots=True)
class _LockWatch:
    """The row of another holder, and since when it is unchanged."""

    row: list[Any] | None = None
    since_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJdbcLock:
    """A lock that this process holds; `acquired_at` is the time in its row, as the database spells it."""

    lock: JdbcLock
    acquired_at: Any
    since_ms: float

    def check(self) -> None:
        """Raise `LockLost` when the lock runs out soon, or was taken from this process already."""
        lock = self.lock
        spent, allowed = (
            lock.world.elapsed_ms() - self.since_ms,
            lock.timeout_ms - min(_MARGIN_MS, lock.timeout_ms // 4),
        )
        if self.acquired_at is None or spent >= allowed:
            why = (
                "somebody removed it"
                if self.acquired_at is None
                else f"held for {spent / 1000:.0f} s of {lock.timeout_ms / 1000:.0f} s, it runs out"
            )
            raise LockLost(
                f"the lock {lock.lock_id!r} in {lock.database.shown} was lost: {why}. Nothing was changed; try again, "
                "or raise lock-acquire-timeout"
            )

    def release(self) -> None:
        """Release the lock where this process still holds it.

        A lost lock, or a failure to release it, causes a warning: what was done under the lock stays.
        """
        lock = self.lock

        def leave() -> int:
            with lock.database.session() as session:
                return session.do(_LEAVE, lock.lock_id, self.acquired_at)

        try:
            removed = retry_while_busy(leave, lock.world.wait)
        except StorageFailed as failed:
            warn_user(
                f"the lock {lock.lock_id!r} could not be given back, and runs out after {lock.timeout_ms / 1000:.0f} "
                f"s: {failed.message}"
            )
            return
        if not removed:
            warn_user(
                f"the lock {lock.lock_id!r} in {lock.database.shown} was not there any more when it was given back: "
                "others may have worked meanwhile"
            )


def create_if_missing(create: Callable[[], Any], is_there: Callable[[], bool]) -> None:
    """Create something that another process may create at the same moment."""
    try:
        create()
    except StorageFailed:
        if not is_there():
            raise
