"""Parts of `lakekit.storage.local`: files that have not got their name yet, what the system says of files, locks of directories, errors."""

from __future__ import annotations

import errno
import io
import os
import stat as modes
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.errors import StorageFailed
from lakekit.storage import sync
from lakekit.storage.confinement import check_path
from lakekit.storage.protocol import FileMissing, Stat
from lakekit.world import new_id

if TYPE_CHECKING:
    from lakekit.storage.confinement import Opener, ParentDirectory

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_CHUNK = 1 << 30
_EARLY_BYTES = 1 << 20
_LOOK_AGAIN_S = 0.002


@dataclass(slots=True, eq=False)
class Temporary:
    """A whole file that has not got its name yet, in its directory, which is open; `name` is what it has meanwhile."""

    name: str
    path: str
    file: io.FileIO
    directory: ParentDirectory
    is_taken: bool = False

    def take(self) -> None:
        """Gives it its name, in place of what has it."""
        ctx = self.directory.handle
        os.replace(self.name, self.directory.name, src_dir_fd=ctx, dst_dir_fd=ctx)
        self.is_taken = True

    def link(self) -> None:
        """Gives it its name too, where nothing has it."""
        ctx = self.directory.handle
        os.link(self.name, self.directory.name, src_dir_fd=ctx, dst_dir_fd=ctx)

    def drop(self) -> None:
        """Takes the temporary name away, if that can be done."""
        with suppress(OSError, ValueError):
            os.unlink(self.name, dir_fd=self.directory.handle)
            self.is_taken = True


class EarlyFile(io.FileIO):
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


def write_all(file: io.FileIO, data: bytes) -> None:
    """Writes all of some bytes."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def read_all(ctx: int, offset: int, wanted: int) -> bytes:
    """The bytes of an open file from `offset` on, fewer where it ends."""
    first = os.pread(ctx, min(wanted, _CHUNK), offset)
    if len(first) == wanted or not first:
        return first
    parts, have = [first], len(first)
    while have < wanted:
        part = os.pread(ctx, min(wanted - have, _CHUNK), offset + have)
        if not part:
            break
        parts.append(part)
        have += len(part)
    return b"".join(parts)


def stat_of(path: str, found: os.stat_result) -> Stat:
    """What is told of a file or directory of which the system says that."""
    directory = modes.S_ISDIR(found.st_mode)
    return Stat(
        path=path,
        size_bytes=0 if directory else found.st_size,
        modified_ms=found.st_mtime_ns // 1_000_000,
        is_dir=directory,
        tag=f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}",
    )


def early_file(name: str, opener: Opener | None) -> EarlyFile:
    """A new file of many bytes."""
    return EarlyFile(name, "xb", opener=opener)


def temporary_name(path: str) -> str:
    """What a file is called, beside its place, until it is whole."""
    above, slash, name = path.rpartition("/")
    return f"{above}{slash}.{name}.{new_id()}.tmp"


def turn_of(roots: tuple[str, ...], directory: str, deadline: float) -> int | None:
    """A handle that holds the lock; None where it cannot be had in time, or at all."""
    try:
        check_path(roots, directory)
        ctx = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        while not _try_lock(ctx):
            if time.monotonic() >= deadline:
                os.close(ctx)
                return None
            time.sleep(_LOOK_AGAIN_S)
    except BaseException as interrupt:
        os.close(ctx)
        if isinstance(interrupt, OSError):  # this file system has no locks
            return None
        raise
    return ctx


def _try_lock(ctx: int) -> bool:
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "no locks")
    try:
        fcntl.flock(ctx, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def storage_failure(path: str, wrong: OSError | ValueError) -> StorageFailed:
    """The error of what a call to the system said; one of ours stays as it is."""
    if isinstance(wrong, StorageFailed):
        return wrong
    if isinstance(wrong, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(f"{path} does not exist", path=path)
    why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
    return StorageFailed(f"{ascii(path) if isinstance(wrong, ValueError) else path}: {why}", path=path)
