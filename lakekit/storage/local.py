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
import uuid
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from lakekit.errors import CommitStateUnknown, StorageFailed, Unsupported
from lakekit.storage.protocol import FileMissing, Stat
from lakekit.world import each

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
_EARLY_BYTES = 4 << 20
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
        with self._temporary(path, data, sync=False) as temporary:
            temporary.take()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._temporary(path, data, sync=True) as temporary:
            try:
                os.link(temporary.name, path)  # no other call is atomic and refuses to overwrite
            except OSError as wrong:
                if not self._settle(path, data, wrong):
                    return False
        try:
            _sync_directory(path)
        except OSError as wrong:
            raise CommitStateUnknown(f"{path} was written, but its directory could not be synced: {wrong.strerror}. Look whether it is there") from wrong
        return True

    def _settle(self, path: str, data: bytes, why: OSError) -> bool:
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
                os.fsync(file.fileno())
                number = os.fstat(file.fileno()).st_ino
            os.replace(temporary, path)  # noqa: PTH105
            _sync_directory(path)
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
            written = [stack.enter_context(self._temporary(path, data, sync=False, stays_open=True)) for path, data in files]
            try:
                each(_Temporary.sync, written, joining=True)  # one wait for the disk, not one a file
                for temporary in written:
                    temporary.take()
                for path in {path.rpartition("/")[0]: path for path, _ in files}.values():
                    _sync_directory(path)
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
            _sync_directory(target)
            _sync_directory(source)
        except (OSError, ValueError) as wrong:
            raise _failed(source, wrong) from wrong

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

    @contextmanager
    def _temporary(self, path: str, data: bytes, *, sync: bool, stays_open: bool = False) -> Iterator[_Temporary]:
        """A file beside `path` with that content; if nobody takes it, it is gone when the block ends."""
        name, made = _temporary_name(path), None
        try:
            with _new(path, lambda: open(name, "xb", 0)) as file:  # noqa: PTH123
                made = _Temporary(name, path, file)
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                if sync:
                    made.sync()
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


@dataclass(slots=True, eq=False)
class _Temporary:
    """A whole file that has not got its name yet."""

    name: str
    path: str
    file: io.FileIO
    is_taken: bool = False

    def sync(self) -> None:
        """Waits until its bytes are safe from power loss."""
        os.fsync(self.file.fileno())

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
        if self._written - self._started >= _EARLY_BYTES and hasattr(os, "posix_fadvise"):
            # Linux starts to write pages that are not on the disk yet, and drops only those that are: none of these
            os.posix_fadvise(self.fileno(), self._started, self._written - self._started, os.POSIX_FADV_DONTNEED)
            self._started = self._written
        return count


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


def _temporary_name(path: str) -> str:
    parent, _, name = path.rpartition("/")
    return f"{parent}/.{name}.{uuid.uuid4()}.tmp"


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
        _sync_directory(directory)


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


def _sync_directory(path: str) -> None:
    handle = os.open(path.rpartition("/")[0] or "/", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _failed(path: str, wrong: OSError | ValueError) -> StorageFailed:
    if isinstance(wrong, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(f"{path} does not exist", path=path)
    why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
    return StorageFailed(f"{ascii(path) if isinstance(wrong, ValueError) else path}: {why}", path=path)
