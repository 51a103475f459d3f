"""The machine, as far as lakekit may see it: clock, ids, waiting, a small pool, the terminal, and whether this process was forked.

    handle.world.now_ms()      a clock that a test can set
    handle.world.wait(200)     milliseconds that a test need not sit through
    world.parallel_map(read, names)    the same function over many inputs, on a shared pool, in order

Everything that is not input comes through here or through a storage, so that a run can be repeated exactly.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar

from lakekit.errors import ForkedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

A = TypeVar("A")
B = TypeVar("B")

MOST_THREADS = 16
MOST_WAITING = 32
"""Threads that wait for a network; more requests at once make one store answer later, not more."""
DECODED_BYTES = 128 << 20
"""How much decoded metadata is kept; as much as the reference's catalogs keep of manifests."""
INDEX_BYTES = 256 << 20
"""How much is kept of file indexes that are files of their own: twice what the bloom filters of two hundred files take that are of the default size."""
_LONGEST_WAIT_MS = 7 * 24 * 3_600_000


# ---- clock, ids, waiting -------------------------------------------------------------------------------------------------------------------


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def wall_clock_ms(time_ms: int) -> int:
    """A time as this process's wall clock shows it, in milliseconds since 1970 of that clock: how writers record when a file was made."""
    try:
        return time_ms + time.localtime(time_ms / 1000).tm_gmtoff * 1000
    except (OverflowError, ValueError, OSError):
        return time_ms


def instant_ms(wall_ms: int) -> int:
    """The time at which this process's wall clock shows that, both in milliseconds since 1970: the other way round."""
    try:
        offset = (datetime(1970, 1, 1) + timedelta(milliseconds=wall_ms)).astimezone().utcoffset()  # noqa: DTZ001 - a wall clock has no zone
    except (OverflowError, ValueError, OSError):
        return wall_ms
    return wall_ms - round(offset.total_seconds() * 1000) if offset is not None else wall_ms


def wait(duration_ms: float) -> None:
    """Returns after that long, or after some days: the machine's clock knows no end of centuries, and who waits looks again anyway."""
    time.sleep(min(duration_ms, _LONGEST_WAIT_MS) / 1000)


def new_id() -> str:
    """A random UUID (version 4) as text, in a third of the time that `uuid` takes: a small commit wants seven of them."""
    bits = int.from_bytes(os.urandom(16), "big") & ~(0xF << 76 | 0x3 << 62) | 4 << 76 | 2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def elapsed_ms() -> float:
    """A clock that only goes forward, for durations."""
    return time.perf_counter() * 1000


def lock() -> threading.Lock:
    """What one thread has at a time."""
    return threading.Lock()


def scratch() -> BinaryIO:
    """A file without a name, to write to and read from: nobody else finds it, and it is gone when it is closed or the process ends, however it ends."""
    return tempfile.TemporaryFile()


class LRUCache:
    """Values that cannot change, kept by key until all of them weigh more than `budget_bytes`; what was not used for longest goes first.

    Values put together go together: when their turn comes, or when every key of theirs holds something newer. Safe between threads. A copy or a pickle of a
    shelf is an empty one.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[Mapping[Hashable, Any], int]] = OrderedDict()
        self._numbers: dict[Hashable, int] = {}
        self._current: dict[int, int] = {}
        self._next = 0
        self._size_bytes = 0

    def get(self, key: Hashable) -> Any:
        """What was put there; None when it is not, or no longer."""
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                return None
            self._kept.move_to_end(number)
            return self._kept[number][0][key]

    def put(self, values: Mapping[Hashable, Any], size_bytes: int) -> None:
        """Keeps values that weigh about so much together; they are forgotten together, as they may share memory."""
        with self._lock:
            number = self._next
            self._next += 1
            for name in values:
                old = self._numbers.get(name)
                if old is not None:
                    self._current[old] -= 1
                    if not self._current[old]:
                        self._forget(old)
                self._numbers[name] = number
            self._kept[number] = (values, size_bytes)
            self._current[number] = len(values)
            self._size_bytes += size_bytes
            while self._size_bytes > self.budget_bytes:
                self._forget(next(iter(self._kept)))

    def _forget(self, number: int) -> None:
        gone, weight = self._kept.pop(number)
        self._size_bytes -= weight
        for name in gone if self._current.pop(number) else ():
            if self._numbers.get(name) == number:
                del self._numbers[name]

    @property
    def size_bytes(self) -> int:
        """What everything kept weighs."""
        return self._size_bytes

    def __reduce__(self) -> tuple[type[LRUCache], tuple[int]]:
        return LRUCache, (self.budget_bytes,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What is not input: the time, waiting, fresh ids, scratch files, what was decoded or read before, what is in doubt. Tests and simulations pass their own.

    `doubtful` are the names of files that a commit may have whose outcome nobody knows; there are few.
    """

    now_ms: Callable[[], int] = now_ms
    wait: Callable[[float], None] = wait
    new_id: Callable[[], str] = new_id
    elapsed_ms: Callable[[], float] = elapsed_ms
    scratch: Callable[[], BinaryIO] = scratch
    decoded: LRUCache = field(default_factory=lambda: LRUCache(DECODED_BYTES), compare=False, repr=False)
    indexes: LRUCache = field(default_factory=lambda: LRUCache(INDEX_BYTES), compare=False, repr=False)
    doubtful: set[str] = field(default_factory=set, compare=False, repr=False)


REAL_RUNTIME = Runtime()


# ---- the pool ------------------------------------------------------------------------------------------------------------------------------


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - one pool a process
    return ThreadPoolExecutor(min(MOST_THREADS, 2 * core_count()), thread_name_prefix="lakekit")


@lru_cache(maxsize=1)
def _waiting_pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - as _pool
    return ThreadPoolExecutor(MOST_WAITING, thread_name_prefix="lakekit-waiting")


_POOL_THREAD = threading.local()


def in_pool() -> bool:
    """Return whether this thread is one of the pool's."""
    return getattr(_POOL_THREAD, "busy", False)


def parallel_map(function: Callable[[A], B], inputs: Iterable[A], *, after: Callable[[A], object] | None = None, waiting: bool = False) -> list[B]:
    """`[function(x) for x in inputs]`, side by side; the first failure is raised, and what has not begun is not begun.

    After a failure nothing is under way any more: whoever takes back what was made finds all of it. A call from inside the pool runs in line, so that
    nested use cannot wait for itself. Context variables reach the threads. `after` is called in this thread with each input in turn, when its result is
    there. `waiting`: the function mostly waits for a network, so that more may be under way than there are cores.
    """
    items = list(inputs)
    if len(items) < 2 or in_pool():
        return map_sequentially(function, items, after=after)
    pool = (_waiting_pool if waiting else _pool)(os.getpid())
    begun: list[Future[B]] = [pool.submit(copy_context().run, _call_as_pool_thread, function, item) for item in items]
    try:
        return [_call_after(after, item, future.result()) for item, future in zip(items, begun, strict=True)]
    finally:
        for future in [future for future in begun if not future.cancel()]:
            future.exception()


def map_io(function: Callable[[A], B], inputs: Iterable[A], *, is_remote: bool, after: Callable[[A], object] | None = None) -> list[B]:
    """`parallel_map` where a network is waited for, else one by one: a small file of this machine is read in less than it takes to hand it to a thread."""
    return parallel_map(function, inputs, after=after, waiting=True) if is_remote else map_sequentially(function, inputs, after=after)


def map_sequentially(function: Callable[[A], B], inputs: Iterable[A], *, after: Callable[[A], object] | None = None) -> list[B]:
    """`parallel_map` in this thread alone."""
    return [_call_after(after, item, function(item)) for item in inputs]


def map_prefetch(function: Callable[[A], B], inputs: Iterable[A], depth: int) -> Iterator[B]:
    """`map(function, inputs)` with up to `depth` inputs under way at once; results come in order, and what nobody waits for is not begun.

    After a failure nothing is under way any more. Leaving the iterator early waits for nothing: whoever lets go of it may be in the middle of that very
    work (Polars drops its sources on whichever thread comes by next).
    """
    if depth < 2 or in_pool():
        yield from map(function, inputs)
        return
    pool, waiting = _pool(os.getpid()), deque[Future[B]]()
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


def run_concurrently(function: Callable[[A], B], inputs: Iterable[A]) -> list[B]:
    """`[function(x) for x in inputs]`, each in a thread of its own, begun together: for what is about meeting. The first failure is raised."""
    items = list(inputs)
    barrier = threading.Barrier(len(items))

    def run(item: A) -> B:
        barrier.wait()
        return function(item)

    with ThreadPoolExecutor(len(items), thread_name_prefix="lakekit-together") as pool:
        return list(pool.map(run, items))


def _call_after(after: Callable[[A], object] | None, item: A, result: B) -> B:
    if after is not None:
        after(item)
    return result


def _call_as_pool_thread(function: Callable[[A], B], item: A) -> B:
    _POOL_THREAD.busy = True
    try:
        return function(item)
    finally:
        _POOL_THREAD.busy = False


# ---- a process apart ---------------------------------------------------------------------------------------------------------------------------


class ChildProcess:
    """A process that answers bytes with bytes and may die of them: `python -m MODULE`, which calls `answer_requests`. It ends when this process does."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: BinaryIO | None = None
        self._lock = threading.Lock()
        atexit.register(self._end_with_this_process)

    def send_request(self, request: bytes) -> bytes | str:
        """The answer, or in a few words how the process ended instead of giving one. Raises `OSError` where no process can be started."""
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _send(process.stdin, request)
                answer = _read_message(process.stdout)
            except BrokenPipeError:
                answer = None
            except BaseException:  # an interrupt: what comes next would answer the request before
                self._end(process)
                raise
            if answer is not None:
                return answer
            code = self._end(process)
            return f"{signal.Signals(-code).name if -code in _SIGNALS else f'exit code {code}'}{self._last_words()}"

    def _start(self) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise OSError("this process is no Python interpreter that could start another")
        self._errors = scratch()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "RUST_BACKTRACE": "0"}
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", self._module]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, env=environment, start_new_session=True)  # noqa: S603 - ours
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Ends the process, if it has not ended, and gives its exit code: below zero the signal."""
        ended = process.poll()
        if ended is None and process.stdout is not None and not process.stdout.closed:
            with suppress(subprocess.TimeoutExpired):
                ended = process.wait(1)
        process.kill()
        code = process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr] # both are pipes
        self._process = None
        return code

    def _end_with_this_process(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._end(self._process)
            self._last_words()

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        return f": {lines[0][:200]}" if lines else ""


_SIGNALS = frozenset(signal.Signals)


def answer_requests(answer: Callable[[bytes], bytes]) -> None:
    """Answers what `ChildProcess.ask` asks, until nobody asks any more; what libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _read_message(sys.stdin.buffer)) is not None:
        _send(replies, answer(request))


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(8, "little") + message)
    stream.flush()


def _read_message(stream: IO[bytes]) -> bytes | None:
    """A whole message; None where the stream ends before its end."""
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    message = stream.read(length) if len(head) == 8 else b""
    return message if len(head) == 8 and len(message) == length else None


# ---- the terminal --------------------------------------------------------------------------------------------------------------------------


def terminal_columns() -> int:
    """How wide the terminal is that stderr writes to; 0 when it is a file, a pipe, closed, or cannot move its cursor."""
    stream = sys.stderr
    try:
        if stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb":
            return 0
        return os.get_terminal_size(stream.fileno()).columns or 80  # terminals that do not know answer 0
    except (OSError, ValueError):
        return 0


def write_over(line: str) -> None:
    """Puts a line in the place of the one the cursor of stderr stands in; "" clears it."""
    encoding = sys.stderr.encoding or "ascii"
    sys.stderr.write(f"\r{line.encode(encoding, 'replace').decode(encoding)}\x1b[K")
    sys.stderr.flush()


# ---- warnings ------------------------------------------------------------------------------------------------------------------------------


def warn_user(text: str) -> None:
    """Warns of something that is done all the same, at the line that called lakekit."""
    depth, frame = 2, sys._getframe(1)  # noqa: SLF001 - the way to a caller
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("lakekit."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=depth)


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
