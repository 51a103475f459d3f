"""The machine, as far as lakekit may see it: clock, ids, waiting, a small pool, progress, and whether this process was forked.

    handle.world.now_ms()      a clock that a test can set
    handle.world.wait(200)     milliseconds that a test need not sit through
    world.each(read, names)    the same function over many inputs, on a shared pool, in order

Everything that is not input comes through here or through a storage, so that a run can be repeated exactly.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from lakekit.errors import ForkedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

A = TypeVar("A")
B = TypeVar("B")

MOST_THREADS = 16


# ---- clock, ids, waiting -------------------------------------------------------------------------------------------------------------------


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def wall_clock_ms(time_ms: int) -> int:
    """A time as this process's wall clock shows it, in milliseconds since 1970 of that clock: how writers record when a file was made."""
    try:
        offset = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().utcoffset()
    except (OverflowError, ValueError, OSError):
        return time_ms
    return time_ms + round(offset.total_seconds() * 1000) if offset is not None else time_ms


def wait(duration_ms: float) -> None:
    """Returns after that long."""
    time.sleep(duration_ms / 1000)


def new_id() -> str:
    """A random UUID as text."""
    return str(uuid.uuid4())


def elapsed_ms() -> float:
    """A clock that only goes forward, for durations."""
    return time.perf_counter() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is not input: the time, waiting, fresh ids. Tests and simulations pass their own."""

    now_ms: Callable[[], int] = now_ms
    wait: Callable[[float], None] = wait
    new_id: Callable[[], str] = new_id


REAL = World()


# ---- the pool ------------------------------------------------------------------------------------------------------------------------------


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - one pool a process
    return ThreadPoolExecutor(min(MOST_THREADS, 2 * core_count()), thread_name_prefix="lakekit")


_INSIDE = threading.local()


def each(function: Callable[[A], B], inputs: Iterable[A]) -> list[B]:
    """`[function(x) for x in inputs]`, side by side; the first failure is raised, and what has not begun is not begun.

    A call from inside the pool runs in line, so that nested use cannot wait for itself. Context variables reach the threads.
    """
    items = list(inputs)
    if len(items) < 2 or getattr(_INSIDE, "busy", False):
        return [function(item) for item in items]
    pool = _pool(os.getpid())
    waiting: list[Future[B]] = [pool.submit(copy_context().run, _busy, function, item) for item in items]
    try:
        return [future.result() for future in waiting]
    finally:
        for future in waiting:
            future.cancel()


def _busy(function: Callable[[A], B], item: A) -> B:
    _INSIDE.busy = True
    try:
        return function(item)
    finally:
        _INSIDE.busy = False


# ---- progress ------------------------------------------------------------------------------------------------------------------------------

_CALLBACK: ContextVar[Callable[[int, int, str], object] | None] = ContextVar("lakekit_progress", default=None)


@contextmanager
def progress(callback: Callable[[int, int, str], object] | None) -> Iterator[None]:
    """Sends `callback(done, total, what)` for long work inside the block."""
    token = _CALLBACK.set(callback)
    try:
        yield
    finally:
        _CALLBACK.reset(token)


def set_progress(callback: Callable[[int, int, str], object] | None) -> None:
    """The callback for everything that follows in this context; None: silence."""
    _CALLBACK.set(callback)


def report(done: int, total: int, what: str) -> None:
    """Says how far some work has come, to whoever listens."""
    callback = _CALLBACK.get()
    if callback is not None:
        callback(done, total, what)


# ---- forks ---------------------------------------------------------------------------------------------------------------------------------


class _Birth:
    """The process that first used the package; a forked child inherits the number, not the process."""

    process = os.getpid()


def refuse_fork() -> None:
    """Raises `ForkedProcess` in a child made by fork after lakekit was loaded: Polars' threads do not exist there and it would hang."""
    if os.getpid() != _Birth.process:
        raise ForkedProcess(
            'this process was forked from one that had loaded lakekit; Polars hangs in forked children. Start workers with multiprocessing.get_context("spawn")'
        )
