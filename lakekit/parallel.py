"""Threads: maps over inputs by a pool of the process, for computations and for waits for a storage."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator


A = TypeVar("A")
B = TypeVar("B")

MAX_CPU_THREADS = 16
"""The most threads of the pool for computations."""
MAX_IO_THREADS = 32
"""The most threads that wait for a network; with more concurrent requests a store only answers later."""


def core_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _cpu_pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - one pool a process
    return ThreadPoolExecutor(min(MAX_CPU_THREADS, 2 * core_count()), thread_name_prefix="lakekit")


@lru_cache(maxsize=1)
def _io_pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - as _pool
    return ThreadPoolExecutor(MAX_IO_THREADS, thread_name_prefix="lakekit-waiting")


_POOL_THREAD = threading.local()


def is_pool_thread() -> bool:
    """Return whether this thread is one of the pool's."""
    return getattr(_POOL_THREAD, "busy", False)


def parallel_map(
    function: Callable[[A], B],
    inputs: Iterable[A],
    *,
    on_done: Callable[[A], object] | None = None,
    waiting: bool = False,
) -> list[B]:
    """Return `[function(x) for x in inputs]`, computed in parallel; the first failure is raised.

    After a failure nothing is running any more, so the caller can clean up everything that was made; calls not begun
    are dropped. A call from inside the pool runs inline, so that nested use cannot wait for itself. Context variables
    reach the threads. `on_done` is called in this thread with each input in turn, when its result is there. `waiting`:
    the function mostly waits for a network, so more calls than cores may run.
    """
    items = list(inputs)
    if len(items) < 2 or is_pool_thread():
        return map_sequentially(function, items, on_done=on_done)
    pool = (_io_pool if waiting else _cpu_pool)(os.getpid())
    begun: list[Future[B]] = [pool.submit(copy_context().run, _call_as_pool_thread, function, item) for item in items]
    try:
        return [_call_after(on_done, item, future.result()) for item, future in zip(items, begun, strict=True)]
    finally:
        for future in [future for future in begun if not future.cancel()]:
            future.exception()


def map_io(
    function: Callable[[A], B], inputs: Iterable[A], *, is_remote: bool, on_done: Callable[[A], object] | None = None
) -> list[B]:
    """Return `parallel_map` with waiting threads if the storage is remote, else `map_sequentially`.

    Reading a small local file takes less time than handing it to a thread.
    """
    return (
        parallel_map(function, inputs, on_done=on_done, waiting=True)
        if is_remote
        else map_sequentially(function, inputs, on_done=on_done)
    )


def map_sequentially(
    function: Callable[[A], B], inputs: Iterable[A], *, on_done: Callable[[A], object] | None = None
) -> list[B]:
    """Return `[function(x) for x in inputs]`, computed in this thread; `on_done` as in `parallel_map`."""
    return [_call_after(on_done, item, function(item)) for item in inputs]


def map_prefetch(function: Callable[[A], B], inputs: Iterable[A], depth: int) -> Iterator[B]:
    """Yield `map(function, inputs)` in order, with up to `depth` calls running ahead.

    After a failure nothing is running any more. Leaving the iterator early does not wait: the caller may be in the
    middle of that very work (Polars drops its sources on any thread).
    """
    if depth < 2 or is_pool_thread():
        yield from map(function, inputs)
        return
    pool, waiting = _cpu_pool(os.getpid()), deque[Future[B]]()
    try:
        for item in inputs:
            waiting.append(pool.submit(copy_context().run, _call_as_pool_thread, function, item))
            if len(waiting) >= depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except GeneratorExit:
        for future in waiting:
            future.cancel()
        raise
    except BaseException:
        for future in [future for future in waiting if not future.cancel()]:
            future.exception()
        raise


def iterate_pushed(push: Callable[[Callable[[A], bool]], object]) -> Iterator[A]:
    """Yield the items that `push` passes to its callback; `push(put)` runs in its own thread.

    The thread computes at most one item ahead of the consumer: `put(item)` blocks until the item is wanted. `put`
    returns True once no more items are wanted. Whatever `push` raises is raised here, a `BaseException` too. Leaving
    the iterator early does not wait for the thread.
    """
    return cast("Iterator[A]", iterate_pushed_within(push, None))


def iterate_pushed_within(push: Callable[[Callable[[A], bool]], object], seconds: float | None) -> Generator[A | None]:
    """Yield the items as `iterate_pushed`, and None whenever no item has come for so many seconds.

    A consumer that is resumed now and then can look whether the items are still wanted.
    """
    items: SimpleQueue[tuple[A] | BaseException | None] = SimpleQueue()
    wanted, left = threading.Semaphore(1), threading.Event()

    def put(item: A) -> bool:
        wanted.acquire()
        if not left.is_set():
            items.put((item,))
        return left.is_set()

    def run() -> None:
        try:
            push(put)
        except BaseException as error:  # noqa: BLE001 - raised by whoever pulls
            items.put(error)
        else:
            items.put(None)

    threading.Thread(target=copy_context().run, args=(run,), name="lakekit-pull", daemon=True).start()
    try:
        while True:
            try:
                item = items.get(timeout=seconds)
            except Empty:
                yield None
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item[0]
            wanted.release()
    finally:
        left.set()
        wanted.release()


def start_together(function: Callable[[A], B], inputs: Iterable[A]) -> list[B]:
    """Return `[function(x) for x in inputs]`, each in its own thread, begun together, to test races.

    The first failure is raised.
    """
    items = list(inputs)
    barrier = threading.Barrier(len(items))

    def run(item: A) -> B:
        barrier.wait()
        return function(item)

    with ThreadPoolExecutor(len(items), thread_name_prefix="lakekit-together") as pool:
        return list(pool.map(run, items))


def _call_after(on_done: Callable[[A], object] | None, item: A, result: B) -> B:
    if on_done is not None:
        on_done(item)
    return result


def _call_as_pool_thread(function: Callable[[A], B], item: A) -> B:
    _POOL_THREAD.busy = True
    try:
        return function(item)
    finally:
        _POOL_THREAD.busy = False
