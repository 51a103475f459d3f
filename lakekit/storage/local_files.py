"""Parts of `storage.local`: temporary files, stat results, locks of directories, errors."""

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
from lakekit.runtime import new_id
from lakekit.storage import confinement
from lakekit.storage.confinement import check_path
from lakekit.storage.protocol import FileMissing, Stat

if TYPE_CHECKING:
    from lakekit.storage.confinement import Opener, ParentDirectory

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MAX_READ_BYTES = 1 << 30
_EARLY_BYTES = 1 << 20
_LOOK_AGAIN_S = 0.002


@dataclass(slots=True, eq=False)
class TemporaryFile:
    """A complete file without its final name, in its open directory; `name` is its temporary name."""

    name: str
    path: str
    file: io.FileIO
    directory: ParentDirectory
    is_taken: bool = False

    def rename_into_place(self) -> None:
        """Give the file its final name, replacing an existing file."""
        descriptor = self.directory.handle
        os.replace(self.name, self.directory.name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        self.is_taken = True

    def link_into_place(self) -> None:
        """Give the file its final name too, if that is free."""
        descriptor = self.directory.handle
        os.link(self.name, self.directory.name, src_dir_fd=descriptor, dst_dir_fd=descriptor)

    def delete(self) -> None:
        """Delete the temporary name, if possible."""
        with suppress(OSError, ValueError):
            os.unlink(self.name, dir_fd=self.directory.handle)
            self.is_taken = True


class EarlyFile(io.FileIO):
    """A file whose bytes are written out while more are produced, so the sync at its end waits less."""

    _sync_offset = 0
    _written_bytes = 0

    def write(self, data: Any, /) -> int:
        """Write bytes, and start writing out what has accumulated."""
        count = super().write(data)
        self._written_bytes += count
        if self._written_bytes - self._sync_offset >= _EARLY_BYTES:
            confinement.start_sync(self, self._sync_offset, self._written_bytes - self._sync_offset)
            self._sync_offset = self._written_bytes
        return count


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write all of the bytes."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[file.write(remaining) :]


def read_all(descriptor: int, offset: int, byte_count: int) -> bytes:
    """Return `byte_count` bytes of an open file from `offset` on, fewer at its end."""
    first = os.pread(descriptor, min(byte_count, _MAX_READ_BYTES), offset)
    if len(first) == byte_count or not first:
        return first
    parts, read_count = [first], len(first)
    while read_count < byte_count:
        part = os.pread(descriptor, min(byte_count - read_count, _MAX_READ_BYTES), offset + read_count)
        if not part:
            break
        parts.append(part)
        read_count += len(part)
    return b"".join(parts)


def to_stat(path: str, os_stat: os.stat_result) -> Stat:
    """Return the `Stat` of a path from the system's stat."""
    directory = modes.S_ISDIR(os_stat.st_mode)
    return Stat(
        path=path,
        size_bytes=0 if directory else os_stat.st_size,
        modified_ms=os_stat.st_mtime_ns // 1_000_000,
        is_dir=directory,
        tag=f"{os_stat.st_ino}-{os_stat.st_mtime_ns}-{os_stat.st_size}",
    )


def open_early_file(name: str, opener: Opener | None) -> EarlyFile:
    """Open a new file of many bytes."""
    return EarlyFile(name, "xb", opener=opener)


def temporary_name(path: str) -> str:
    """Return the temporary name of a file, in the same directory."""
    above, slash, name = path.rpartition("/")
    return f"{above}{slash}.{name}.{new_id()}.tmp"


def acquire_turn(roots: tuple[str, ...], directory: str, deadline: float) -> int | None:
    """Return a file descriptor that holds the directory's lock.

    Returns None if it cannot be had in time, or at all.
    """
    try:
        check_path(roots, directory)
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(_LOOK_AGAIN_S)
    except BaseException as interrupt:
        os.close(descriptor)
        if isinstance(interrupt, OSError):  # this file system has no locks
            return None
        raise
    return descriptor


def _try_lock(descriptor: int) -> bool:
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "no locks")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_storage_failure(path: str, error: OSError | ValueError) -> StorageFailed:
    """Return the error for a failed system call; a `StorageFailed` is returned unchanged."""
    if isinstance(error, StorageFailed):
        return error
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(f"{path} does not exist", path=path)
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StorageFailed(f"{ascii(path) if isinstance(error, ValueError) else path}: {why}", path=path)
