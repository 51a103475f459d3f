"""What lakekit takes from the machine: clock, identifiers, scratch files, locks, processes, terminal.

Tests replace `Runtime`; nothing else in the package reads the clock or makes an identifier. `Runtime` also carries the
caches of a table, so that a caller who wants fresh metadata replaces it. A cache has a bound in bytes, and evicts the
values that were used longest ago.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from lakekit.errors import ForkedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping


METADATA_CACHE_BYTES = 128 << 20
"""How much decoded metadata is kept; as much as the reference's catalogs keep of manifests."""
INDEX_CACHE_BYTES = 256 << 20
"""How much is kept of file indexes that are files of their own: twice what the bloom filters of two hundred files take
that are of the default size.
"""


class LRUCache:
    """A thread-safe cache of immutable values by key, limited to `budget_bytes`.

    The least recently used values are evicted first. Values stored by one `put` are evicted as a group: when the group
    is the least recently used one, or when every key in it has been stored again. A copy or a pickle of a cache is
    empty.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._batches: OrderedDict[int, tuple[Mapping[Hashable, Any], int]] = OrderedDict()
        self._numbers: dict[Hashable, int] = {}
        self._current: dict[int, int] = {}
        self._next_number = 0
        self._size_bytes = 0

    def get(self, key: Hashable) -> Any:
        """Return a cached value; None if it is missing."""
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                return None
            self._batches.move_to_end(number)
            return self._batches[number][0][key]

    def put(self, values: Mapping[Hashable, Any], size_bytes: int) -> None:
        """Cache values of about `size_bytes` together; they are evicted together, as they may share memory."""
        with self._lock:
            number = self._next_number
            self._next_number += 1
            for name in values:
                old = self._numbers.get(name)
                if old is not None:
                    self._current[old] -= 1
                    if not self._current[old]:
                        self._forget(old)
                self._numbers[name] = number
            self._batches[number] = (values, size_bytes)
            self._current[number] = len(values)
            self._size_bytes += size_bytes
            while self._size_bytes > self.budget_bytes:
                self._forget(next(iter(self._batches)))

    def _forget(self, group_number: int) -> None:
        values, weight = self._batches.pop(group_number)
        self._size_bytes -= weight
        for name in values if self._current.pop(group_number) else ():
            if self._numbers.get(name) == group_number:
                del self._numbers[name]

    @property
    def size_bytes(self) -> int:
        """The size of all cached values."""
        return self._size_bytes

    def __reduce__(self) -> tuple[type[LRUCache], tuple[int]]:
        return LRUCache, (self.budget_bytes,)


# ---- runtime ------------------------------------------------------------


_MAX_WAIT_MS = 7 * 24 * 3_600_000


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def wall_clock_ms(time_ms: int) -> int:
    """Return a time as local wall clock milliseconds since 1970, as writers record creation times."""
    try:
        return time_ms + time.localtime(time_ms / 1000).tm_gmtoff * 1000
    except (OverflowError, ValueError, OSError):
        return time_ms


def instant_ms(wall_ms: int) -> int:
    """Return the time at which the local wall clock shows `wall_ms`; the inverse of `wall_clock_ms`."""
    try:
        offset = (datetime(1970, 1, 1) + timedelta(milliseconds=wall_ms)).astimezone().utcoffset()  # noqa: DTZ001 - a wall clock has no zone
    except (OverflowError, ValueError, OSError):
        return wall_ms
    return wall_ms - round(offset.total_seconds() * 1000) if offset is not None else wall_ms


def wait_ms(duration_ms: float) -> None:
    """Wait that long, or some days at most: longer waits overflow, and callers check again anyway."""
    time.sleep(min(duration_ms, _MAX_WAIT_MS) / 1000)


def new_id() -> str:
    """Return a random UUID (version 4) as text.

    It takes a third of the time of `uuid`: a small commit needs seven of them.
    """
    bits = int.from_bytes(os.urandom(16), "big") & ~(0xF << 76 | 0x3 << 62) | 4 << 76 | 2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_MARK_START = 19


def new_mark() -> str:
    """Return what the ids of one piece of work have in common: the last two of the five groups of a random UUID."""
    return new_id()[_MARK_START:]


def new_marked_id(mark: str) -> str:
    """Return a random UUID that ends with a mark: 60 of its bits are drawn."""
    return new_id()[:_MARK_START] + mark


def elapsed_ms() -> float:
    """Return a monotonic clock, for durations."""
    return time.perf_counter() * 1000


def new_lock() -> threading.Lock:
    """Return a new lock for threads."""
    return threading.Lock()


def open_scratch_file() -> BinaryIO:
    """Open a temporary file without a name; it is gone when it is closed or the process ends in any way."""
    return tempfile.TemporaryFile()


def scratch_folder() -> str:
    """Make a temporary folder, which is removed with its files when the process ends; return its path."""
    path, process = tempfile.mkdtemp(prefix="lakekit-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # a fork has the folder of its parent
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Everything that is not input: time, waiting, new ids, scratch files, caches, uncertain files.

    Tests and simulations pass their own. `uncertain_files` are the names of files that a commit of unknown outcome may
    refer to; there are few.
    """

    now_ms: Callable[[], int] = now_ms
    wait_ms: Callable[[float], None] = wait_ms
    new_id: Callable[[], str] = new_id
    elapsed_ms: Callable[[], float] = elapsed_ms
    open_scratch_file: Callable[[], BinaryIO] = open_scratch_file
    metadata_cache: LRUCache = field(default_factory=lambda: LRUCache(METADATA_CACHE_BYTES), compare=False, repr=False)
    index_cache: LRUCache = field(default_factory=lambda: LRUCache(INDEX_CACHE_BYTES), compare=False, repr=False)
    uncertain_files: set[str] = field(default_factory=set, compare=False, repr=False)


REAL_RUNTIME = Runtime()


class ChildProcess:
    """A process that answers bytes with bytes and may crash.

    It is `python -m MODULE`, which calls `answer_requests`, and ends when this process does.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: BinaryIO | None = None
        self._lock = threading.Lock()
        atexit.register(self._end_with_this_process)

    def send_request(self, request: bytes) -> bytes | str:
        """Return the answer, or a short text on how the process ended.

        Raises `OSError` if it cannot be started.
        """
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _send_message(process.stdin, request)
                answer = _read_message(process.stdout)
            except BrokenPipeError:
                answer = None
            except BaseException:  # an interrupt: what comes next would answer the request before
                self._terminate(process)
                raise
            if answer is not None:
                return answer
            code = self._terminate(process)
            cause = signal.Signals(-code).name if -code in _SIGNAL_NUMBERS else f"exit code {code}"
            return f"{cause}{self._read_stderr_tail()}"

    def _start(self) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise OSError("this process is no Python interpreter that could start another")
        self._errors = open_scratch_file()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "RUST_BACKTRACE": "0",
        }
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", self._module]
        self._process = subprocess.Popen(  # noqa: S603 - ours
            command, stdin=pipe, stdout=pipe, stderr=self._errors, env=environment, start_new_session=True
        )
        return self._process

    def _terminate(self, process: subprocess.Popen[bytes]) -> int:
        """End the process, if it is running, and return its exit code; negative for a signal."""
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
            self._terminate(self._process)
            self._read_stderr_tail()

    def _read_stderr_tail(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        return f": {lines[0][:200]}" if lines else ""


_SIGNAL_NUMBERS = frozenset(signal.Signals)


def answer_requests(answer: Callable[[bytes], bytes]) -> None:
    """Answer the requests of `ChildProcess` until input ends; output of libraries goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _read_message(sys.stdin.buffer)) is not None:
        _send_message(replies, answer(request))


def _send_message(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(8, "little") + message)
    stream.flush()


def _read_message(stream: IO[bytes]) -> bytes | None:
    """Return a whole message; None if the stream ends early."""
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    message = stream.read(length) if len(head) == 8 else b""
    return message if len(head) == 8 and len(message) == length else None


def terminal_columns() -> int:
    """Return the width of the terminal behind stderr.

    0 if it is no terminal, closed, or cannot move its cursor.
    """
    stream = sys.stderr
    try:
        if stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb":
            return 0
        return os.get_terminal_size(stream.fileno()).columns or 80  # terminals that do not know answer 0
    except (OSError, ValueError):
        return 0


def replace_terminal_line(line: str) -> None:
    """Replace the current line of stderr; "" clears it."""
    encoding = sys.stderr.encoding or "ascii"
    sys.stderr.write(f"\r{line.encode(encoding, 'replace').decode(encoding)}\x1b[K")
    sys.stderr.flush()


def warn_user(text: str) -> None:
    """Warn of something that is done all the same, at the line that called lakekit."""
    depth, frame = 2, sys._getframe(1)  # noqa: SLF001 - the way to a caller
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("lakekit."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=depth)


class _ProcessIdentity:
    """The process that first used the package; a forked child inherits the id, not the process."""

    process = os.getpid()


def refuse_fork() -> None:
    """Raise `ForkedProcess` in a child forked after lakekit was loaded, which would hang.

    Polars' threads do not exist in it.
    """
    if os.getpid() != _ProcessIdentity.process:
        raise ForkedProcess(
            "this process was forked from one that had loaded lakekit; Polars hangs in forked children. Start workers "
            'with multiprocessing.get_context("spawn")'
        )
