"""Files on the local disk, by the system's own calls.

A file is claimed by `link(2)` from a synced temporary file beside it: the one call that is atomic, refuses to overwrite, and survives power loss once the
directory is synced. Temporary files are called `.<name>.<uuid>.tmp`, which no reader takes for anything.
"""

from __future__ import annotations

import errno
import io
import os
import stat as modes
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from lakekit.errors import CommitStateUnknown, StorageFailed, Unsupported
from lakekit.storage import sync
from lakekit.storage.protocol import FileMissing, Stat
from lakekit.world import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

F = TypeVar("F", bound=io.FileIO)
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})
_CERTAIN = frozenset({errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMLINK, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Why a link was not made, for sure; of other errors nobody knows when they were met."""
_NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_CHUNK = 1 << 30
_EARLY_BYTES = 1 << 20
_GATHERED_BYTES = 1 << 20
"""Bigger files are synced at once: nobody waits for them with a snapshot to claim."""
_SYNCED_AT_ONCE = 64
"""Files that are open for it."""
_LOOK_AGAIN_S = 0.002


def absolute(path: str) -> str:
    """The same place whatever the working directory becomes; `~` is the home directory."""
    try:
        return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - text in, text out
    except (OSError, ValueError) as wrong:
        raise _failed(path, wrong) from wrong


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The local disk. All instances are the same."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        try:
            if not modes.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a pipe would keep who opens it waiting
                raise StorageFailed(f"{path} is no file", path=path)
            with io.FileIO(path) as file:  # an object: an interrupt that falls between a number and the `try` that closes it leaves it open
                size_bytes = os.fstat(file.fileno()).st_size
                wanted = max(0, size_bytes - offset) if length is None else max(0, min(length, size_bytes - offset))
                return _read(file.fileno(), offset, wanted)
        except (OSError, ValueError) as wrong:
            raise wrong if isinstance(wrong, StorageFailed) else _failed(path, wrong) from wrong

    def stat(self, path: str) -> Stat | None:
        try:
            found = os.stat(path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as wrong:
            raise _failed(path, wrong) from wrong
        return _stat(path, found)

    def size(self, path: str) -> int:
        found = self.stat(path)
        if found is None or found.is_dir:
            raise FileMissing(f"{path} does not exist", path=path)
        return found.size_bytes

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def list(self, directory: str) -> list[Stat]:
        found = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # gone since the listing began, or a link to nothing
                        seen = entry.stat()
                        if modes.S_ISDIR(seen.st_mode) and entry.is_symlink():
                            continue  # a directory elsewhere is not part of this one
                        found.append(_stat(f"{directory.rstrip('/')}/{entry.name}", seen))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError) as wrong:
            raise _failed(directory, wrong) from wrong
        return sorted(found, key=lambda one: one.path)

    def file_names(self, directory: str) -> Sequence[str]:
        """The names of the files that `list` finds, in any order: a directory knows them, and no file is looked at."""
        found = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        if (seen := self.stat(entry.path)) is not None and not seen.is_dir:
                            found.append(entry.name)
                    elif not entry.is_dir():
                        found.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError) as wrong:
            raise _failed(directory, wrong) from wrong
        return found

    def put(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as temporary:
            temporary.take()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._temporary(path, data, stays_open=True) as temporary:
            self._settle(temporary)
            try:
                os.link(temporary.name, path)  # no other call is atomic and refuses to overwrite
            except OSError as wrong:
                if not self._whose(path, data, wrong):
                    return False
        try:
            sync.directory_of(path)
        except OSError as wrong:
            raise CommitStateUnknown(f"{path} was written, but its directory could not be synced: {wrong.strerror}. Look whether it is there") from wrong
        return True

    def _whose(self, path: str, data: bytes, why: OSError) -> bool:
        """Whose file is there after `link` refused: ours (a repeated attempt), or somebody else's."""
        if why.errno in _NO_LINKS:
            raise Unsupported(
                f"the file system of {path} has no hard links ({why.strerror}); nothing else creates a file safely there", feature="storage.hard-links"
            ) from why
        if why.errno in _CERTAIN:
            raise _failed(path, why) from why
        try:
            return self.read(path) == data
        except StorageFailed as unreadable:
            raise CommitStateUnknown(f"{path} could not be created ({why.strerror}) and cannot be read. Look before trying again") from unreadable

    @contextmanager
    def open_write(self, path: str) -> Iterator[BinaryIO]:
        temporary, number, is_done = _temporary_name(path), -1, False
        try:
            with io.BufferedWriter(_new(path, lambda: _Early(temporary, "xb"))) as file:
                yield file
                file.flush()
                waits = self._gathers(file.tell())
                if not waits:
                    os.fsync(file.fileno())
                number = os.fstat(file.fileno()).st_ino
            os.replace(temporary, path)  # noqa: PTH105
            self._gathered(path) if waits else sync.directory_of(path)
            is_done = True
        except (OSError, ValueError) as wrong:
            raise wrong if isinstance(wrong, StorageFailed) else _failed(path, wrong) from wrong
        finally:
            with suppress(OSError, ValueError):
                if not is_done and number >= 0 and os.stat(path).st_ino == number:  # noqa: PTH116 - it stands there, and is not safe
                    os.unlink(path)  # noqa: PTH108
            if not is_done:
                with suppress(OSError, ValueError):
                    os.unlink(temporary)  # noqa: PTH108

    def write_together(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Several whole files, all synced before the first gets its name: see `lakekit.storage.together`."""
        with ExitStack() as stack:
            written = [stack.enter_context(self._temporary(path, data, stays_open=True)) for path, data in files]
            try:
                sync.files([temporary.file for temporary in written])
                for temporary in written:
                    temporary.take()
                for path in {path.rpartition("/")[0]: path for path, _ in files}.values():
                    sync.directory_of(path)
            except OSError as wrong:
                raise _failed(files[0][0], wrong) from wrong

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                os.unlink(path)  # noqa: PTH108
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as wrong:
                raise _failed(path, wrong) from wrong

    def make_directory(self, path: str) -> None:
        try:
            _make_directory(f"{path}/")
        except (OSError, ValueError) as wrong:
            raise _failed(path, wrong) from wrong

    def move_directory(self, source: str, target: str) -> None:
        try:
            _make_directory(target)
            os.rename(source, target)  # noqa: PTH104 - which refuses a target that holds anything
            sync.directory_of(target)
            sync.directory_of(source)
        except (OSError, ValueError) as wrong:
            raise _failed(source, wrong) from wrong

    def link(self, path: str, target: str) -> bool:
        """A second name for a file: see `lakekit.storage.linked`."""
        try:
            if os.path.islink(path):  # noqa: PTH114 - what it leads to is not this place's to give away
                return False
            sync.file_of(path)
            _make_directory(target)
            os.link(path, target)
            sync.directory_of(target)
        except (OSError, ValueError) as wrong:
            if isinstance(wrong, OSError) and wrong.errno in _NO_LINKS | {errno.EMLINK}:
                return False
            raise _failed(path, wrong) from wrong
        return True

    def remove_directories(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                os.rmdir(path)  # noqa: PTH106 - which refuses a link to a directory, and one that holds anything
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as wrong:
                if not (isinstance(wrong, OSError) and wrong.errno in _NOT_EMPTY):
                    raise _failed(path, wrong) from wrong

    def polars(self, path: str) -> str | None:
        return path

    @contextmanager
    def turn(self, directory: str, patience_ms: float) -> Iterator[bool]:
        """A lock on the directory (`flock`), which the system takes back from a process that ends. See `lakekit.storage.turns`."""
        handle = _turn(directory, time.monotonic() + patience_ms / 1000)
        try:
            yield handle is not None
        finally:
            if handle is not None:
                os.close(handle)

    def polars_options(self) -> dict[str, Any]:
        return {}

    @property
    def is_remote(self) -> bool:
        return False

    def _gathers(self, size_bytes: int) -> bool:  # noqa: ARG002 - for `Gathering`
        """Whether a file of that size is synced later."""
        return False

    def _gathered(self, path: str) -> None:
        """Takes a file that stands and is to be synced later."""

    def _settle(self, claimed: _Temporary | None) -> None:
        """Waits until a file that is about to be claimed is safe from power loss, and with it all that was gathered."""
        if claimed is not None:
            sync.files([claimed.file])

    @contextmanager
    def _temporary(self, path: str, data: bytes, *, stays_open: bool = False) -> Iterator[_Temporary]:
        """A file beside `path` with that content; if nobody takes it, it is gone when the block ends."""
        name, made = _temporary_name(path), None
        try:
            with _new(path, lambda: _created(name)) as file:
                made = _Temporary(name, path, file)
                _write(file, data)
                if stays_open:
                    yield made
            if not stays_open:
                yield made
        except (OSError, ValueError) as wrong:
            raise wrong if isinstance(wrong, StorageFailed) else _failed(path, wrong) from wrong
        finally:
            if made is None or not made.is_taken:
                with suppress(OSError, ValueError):
                    os.unlink(name)  # noqa: PTH108


class Gathering(LocalStorage):
    """The local disk for the commits of one writer: their small files are synced side by side when a commit is claimed, not each in turn.

    A file stands under its name at once. It is safe from power loss when `put_if_absent` has claimed a file, or `settle` returned: both sync all that was
    gathered and its directories first. Until then nothing that lasts may refer to it. What could not be synced is never taken for safe again: whoever
    wrote it deletes it.
    """

    __slots__ = ("_lost", "_waiting")
    _lost: set[str]
    _waiting: dict[str, None]

    def __init__(self) -> None:
        object.__setattr__(self, "_lost", set())
        object.__setattr__(self, "_waiting", {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage)

    __hash__ = LocalStorage.__hash__  # the same files, so that what was remembered of them is found

    def __reduce__(self) -> tuple[type[LocalStorage], tuple[()]]:
        return LocalStorage, ()

    def settle(self) -> None:
        """Returns when every file written so far is safe from power loss. Raises `StorageFailed`."""
        self._settle(None)

    def write_together(self, files: Sequence[tuple[str, bytes]]) -> None:
        for path, data in files:
            self._waiting[path] = None
            try:
                with _new(path, partial(_created, path)) as file:
                    _write(file, data)
            except (OSError, ValueError) as wrong:
                raise _failed(path, wrong) from wrong

    def delete(self, paths: Iterable[str]) -> None:
        gone = list(paths)
        LocalStorage.delete(self, gone)
        for path in gone:
            self._waiting.pop(path, None)
            self._lost.discard(path)

    def _gathers(self, size_bytes: int) -> bool:
        return size_bytes <= _GATHERED_BYTES

    def _gathered(self, path: str) -> None:
        self._waiting[path] = None

    def _settle(self, claimed: _Temporary | None) -> None:
        if self._lost:
            raise StorageFailed(f"{min(self._lost)} could not be synced: its rows must be written again", path=min(self._lost))
        waiting, own = list(self._waiting), [] if claimed is None else [claimed.file]
        for start in range(0, max(1, len(waiting)), _SYNCED_AT_ONCE):
            self._sync(waiting[start : start + _SYNCED_AT_ONCE], own if start == 0 else ())
        for directory in {f"{path.rpartition('/')[0]}/": None for path in waiting}:
            self._sync_names(directory)
        for path in waiting:
            self._waiting.pop(path, None)

    def _sync(self, paths: Sequence[str], claimed: Sequence[io.FileIO]) -> None:
        """Waits until the bytes of these files are safe."""
        with ExitStack() as stack:
            try:
                files = [*(stack.enter_context(io.FileIO(path)) for path in paths), *claimed]
                try:
                    sync.files(files)
                except OSError:
                    self._lost.update(paths)  # the system may take their pages for written from here on
                    raise
            except OSError as wrong:
                if wrong.filename not in paths:
                    raise
                raise _failed(wrong.filename, wrong) from wrong

    def _sync_names(self, directory: str) -> None:
        try:
            sync.directory_of(directory)
        except OSError as wrong:
            self._lost.update(path for path in self._waiting if path.startswith(directory))
            raise _failed(directory, wrong) from wrong


@dataclass(slots=True, eq=False)
class _Temporary:
    """A whole file that has not got its name yet."""

    name: str
    path: str
    file: io.FileIO
    is_taken: bool = False

    def take(self) -> None:
        """Gives it its name."""
        os.replace(self.name, self.path)  # noqa: PTH105
        self.is_taken = True


class _Early(io.FileIO):
    """A file whose bytes are on their way to the disk while more are made: the sync at its end has less to wait for."""

    _started = 0
    _written = 0

    def write(self, data: Any, /) -> int:
        """Writes, and starts what has gathered."""
        count = super().write(data)
        self._written += count
        if self._written - self._started >= _EARLY_BYTES:
            sync.start(self, self._started, self._written - self._started)
            self._started = self._written
        return count


def _write(file: io.FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _read(handle: int, offset: int, wanted: int) -> bytes:
    first = os.pread(handle, min(wanted, _CHUNK), offset)
    if len(first) == wanted or not first:
        return first
    parts, have = [first], len(first)
    while have < wanted:
        part = os.pread(handle, min(wanted - have, _CHUNK), offset + have)
        if not part:
            break
        parts.append(part)
        have += len(part)
    return b"".join(parts)


def _stat(path: str, found: os.stat_result) -> Stat:
    directory = modes.S_ISDIR(found.st_mode)
    return Stat(
        path=path,
        size_bytes=0 if directory else found.st_size,
        modified_ms=found.st_mtime_ns // 1_000_000,
        is_dir=directory,
        tag=f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}",
    )


def _created(path: str) -> io.FileIO:
    return open(path, "xb", 0)  # noqa: PTH123


def _temporary_name(path: str) -> str:
    parent, _, name = path.rpartition("/")
    return f"{parent}/.{name}.{new_id()}.tmp"


def _make_directory(path: str) -> None:
    """The directory of a file, with those above it, each safe from power loss."""
    parent = path.rpartition("/")[0]
    missing = []
    while parent and not os.path.isdir(parent):  # noqa: PTH112
        missing.append(parent)
        parent = parent.rpartition("/")[0]
    for directory in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(directory)  # noqa: PTH102
        sync.directory_of(directory)


def _new(path: str, opened: Callable[[], F]) -> F:
    """What opens a file beside `path`; its directory is made where it is missing, which is found out by trying."""
    try:
        return opened()
    except FileNotFoundError:
        _make_directory(path)
        return opened()


def _turn(directory: str, deadline: float) -> int | None:
    """A handle that holds the lock; None where it cannot be had in time, or at all."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        while not _locked(handle):
            if time.monotonic() >= deadline:
                os.close(handle)
                return None
            time.sleep(_LOOK_AGAIN_S)
    except BaseException as interrupt:
        os.close(handle)
        if isinstance(interrupt, OSError):  # this file system has no locks
            return None
        raise
    return handle


def _locked(handle: int) -> bool:
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "no locks")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _failed(path: str, wrong: OSError | ValueError) -> StorageFailed:
    if isinstance(wrong, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(f"{path} does not exist", path=path)
    why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
    return StorageFailed(f"{ascii(path) if isinstance(wrong, ValueError) else path}: {why}", path=path)
