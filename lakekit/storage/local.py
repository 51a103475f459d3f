"""Files on the local disk, by system calls, confined to root folders (`storage.confinement`).

A file is created exclusively by `link(2)` from a synced temporary file beside it: the one call that is atomic, refuses
to overwrite, and survives power loss once the directory is synced. Temporary files are named `.<name>.<uuid>.tmp`,
which every reader ignores.
"""

from __future__ import annotations

import errno
import io
import os
import stat as modes
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from lakekit.errors import CommitStateUnknown, StorageFailed, Unsupported
from lakekit.storage import confinement
from lakekit.storage.confinement import (
    NOT_FOLLOWED,
    ParentDirectory,
    check_file,
    check_path,
    is_inside,
    make_not_a_file_error,
)
from lakekit.storage.local_files import (
    TemporaryFile,
    acquire_turn,
    make_storage_failure,
    open_early_file,
    read_all,
    temporary_name,
    to_stat,
    write_all,
)
from lakekit.storage.protocol import FileMissing, OutsideRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakekit.storage.confinement import Opener
    from lakekit.storage.protocol import Stat

F = TypeVar("F", bound=io.FileIO)
_LINKS_UNSUPPORTED_ERRNOS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})
_CERTAIN_FAILURE_ERRNOS = frozenset(
    {
        errno.EACCES,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
    }
)
"""Why a link was not made, for sure; of other errors nobody knows when they were met."""
_NOT_EMPTY_ERRNOS = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def absolute_path(path: str) -> str:
    """Return a path independent of the working directory; `~` is the home directory."""
    try:
        return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - text in, text out
    except (OSError, ValueError) as wrong:
        raise make_storage_failure(path, wrong) from wrong


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The local disk below some `roots`, as absolute paths; () is all of it. Equal if the roots are.

    Writes and deletes below a root go through no link, reads through one only if it leads below the same root. A root
    itself may be a link.
    """

    roots: tuple[str, ...] = ()
    _checked_paths: set[str] | None = field(default=None, compare=False, repr=False)
    """Directories that were checked, for an operation that checks each once: `with_path_cache`."""

    def with_path_cache(self) -> LocalStorage:
        """Return the same storage for an operation that reads many files; it checks each directory once."""
        return LocalStorage(self.roots, set())

    def with_roots(self, roots: Iterable[str]) -> LocalStorage:
        return type(self)(_normalize_roots(roots))

    def with_added_roots(self, roots: Iterable[str]) -> LocalStorage:
        more = [root for root in _normalize_roots(roots) if root not in self.roots]
        return self if not self.roots or not more else self._copy_with_roots((*self.roots, *more))

    def _copy_with_roots(self, roots: tuple[str, ...]) -> LocalStorage:
        return type(self)(roots)

    def __reduce__(self) -> tuple[type[LocalStorage], tuple[tuple[str, ...]]]:
        return type(self), (self.roots,)

    def _parent(self, path: str, *, is_made: bool = False) -> ParentDirectory:
        return ParentDirectory(self.roots, path, is_made=is_made)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        try:
            stat = check_path(self.roots, path, self._checked_paths) or os.stat(path)  # noqa: PTH116
            if not modes.S_ISREG(stat.st_mode):
                raise make_not_a_file_error(path)
            # an object and no file number, which an interrupt before its `try` would leave open
            with io.FileIO(path) as file:
                size_bytes = os.fstat(file.fileno()).st_size
                byte_count = max(0, size_bytes - offset) if length is None else max(0, min(length, size_bytes - offset))
                return read_all(file.fileno(), offset, byte_count)
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong

    def stat(self, path: str) -> Stat | None:
        try:
            os_stat = check_path(self.roots, path, self._checked_paths) or os.stat(path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong
        return to_stat(path, os_stat)

    def size(self, path: str) -> int:
        stat = self.stat(path)
        if stat is None or stat.is_dir:
            raise FileMissing(f"{path} does not exist", path=path)
        return stat.size_bytes

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def list(self, directory: str) -> list[Stat]:
        entries_found = []
        try:
            check_path(self.roots, directory)
            with os.scandir(directory) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # gone since the listing began, or a link to nothing
                        os_stat = entry.stat() if not entry.is_symlink() else self._symlink_stat(entry)
                        if os_stat is not None:
                            entries_found.append(to_stat(f"{directory.rstrip('/')}/{entry.name}", os_stat))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(directory, wrong) from wrong
        return sorted(entries_found, key=lambda stat: stat.path)

    def _symlink_stat(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        """Return the stat by which a listing shows a link.

        It is the stat of the link's target; of the link itself if the target is outside the roots; None if the target
        is a directory, or the link leads in a circle.
        """
        try:
            os_stat = entry.stat()
        except OSError as wrong:
            if wrong.errno == errno.ELOOP:
                return None
            raise
        if modes.S_ISDIR(os_stat.st_mode):
            return None
        return os_stat if is_inside(self.roots, entry.path) else entry.stat(follow_symlinks=False)

    def file_names(self, directory: str) -> Sequence[str]:
        """Return the names of the files that `list` finds, in any order, without a stat of each file."""
        names = []
        try:
            check_path(self.roots, directory)
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        with suppress(FileNotFoundError):
                            if self._symlink_stat(entry) is not None:
                                names.append(entry.name)
                    elif not entry.is_dir():
                        names.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(directory, wrong) from wrong
        return names

    def symlinks(self, directory: str) -> Sequence[tuple[str, bool]]:
        """Return the names of all links in a directory, and whether each leads to a directory.

        Empty if the directory is a link itself.
        """
        try:
            with (
                self._parent(f"{directory.rstrip('/')}/-") as opened,
                os.scandir(directory if opened.handle is None else opened.handle) as entries,
            ):
                return sorted(
                    (entry.name, os.path.isdir(f"{directory}/{entry.name}"))  # noqa: PTH112
                    for entry in entries
                    if entry.is_symlink()
                )
        except (FileNotFoundError, NotADirectoryError, OutsideRoot):
            return []
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(directory, wrong) from wrong

    def entry_kind(self, path: str) -> Literal["folder", "link", "file"] | None:
        """Return the kind of the entry at a path; None if there is none, or if a link is on the way."""
        try:
            with self._parent(path) as directory:
                mode = directory.stat().st_mode
        except (FileNotFoundError, NotADirectoryError, OutsideRoot):
            return None
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong
        return "link" if modes.S_ISLNK(mode) else "folder" if modes.S_ISDIR(mode) else "file"

    def symlink_target(self, path: str) -> str | None:
        """Return the target of a link, as written; None if it is no link, or if another link is on the way."""
        if self.entry_kind(path) != "link":
            return None
        try:
            with self._parent(path) as directory:
                return os.readlink(directory.name, dir_fd=directory.handle)
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong

    def put(self, path: str, data: bytes) -> None:
        with self._temporary_file(path, data) as temporary:
            temporary.rename_into_place()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._temporary_file(path, data, stays_open=True) as temporary:
            self._sync_before_create(temporary)
            directory = temporary.directory
            try:
                temporary.link_into_place()  # no other call is atomic and refuses to overwrite
            except OSError as wrong:
                if not self._is_own_file(path, data, wrong):
                    return False
            temporary.delete()
            try:
                directory.sync()
            except OSError as wrong:
                raise CommitStateUnknown(
                    f"{path} was written, but its directory could not be synced: {wrong.strerror}. Look whether it is "
                    "there"
                ) from wrong
        return True

    def _is_own_file(self, path: str, data: bytes, error: OSError) -> bool:
        """Return whether the file that exists after `hard_link` refused is ours, from a repeated attempt."""
        if error.errno in _LINKS_UNSUPPORTED_ERRNOS:
            raise Unsupported(
                f"the file system of {path} has no hard links ({error.strerror}); nothing else creates a file safely "
                "there",
                feature="storage.hard-links",
            ) from error
        if error.errno in _CERTAIN_FAILURE_ERRNOS:
            raise make_storage_failure(path, error) from error
        try:
            return self.read(path) == data
        except OutsideRoot:
            return False  # a link that was there before: no file of ours is one
        except StorageFailed as unreadable:
            raise CommitStateUnknown(
                f"{path} could not be created ({error.strerror}) and cannot be read. Look before trying again"
            ) from unreadable

    @contextmanager
    def open_write(self, path: str) -> Iterator[BinaryIO]:
        temporary, number, is_done = "", -1, False
        try:
            directory, temporary, temporary_file = self._create_new(path, open_early_file)
            directory.close()  # a writer of many files would keep as many directories open
            with io.BufferedWriter(temporary_file) as file:
                yield file
                file.flush()
                waits = self._defers_sync(file.tell())
                if not waits:
                    os.fsync(file.fileno())
                number = os.fstat(file.fileno()).st_ino
            with self._parent(path) as directory:
                os.replace(temporary, directory.name, src_dir_fd=directory.handle, dst_dir_fd=directory.handle)
                self._register_for_sync(path) if waits else directory.sync()
            is_done = True
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong
        finally:
            if not is_done and temporary:
                self._delete_unfinished(path, temporary, number)

    def _delete_unfinished(self, path: str, temporary: str, inode: int) -> None:
        """Delete what a failed `open_write` left: the temporary file and, if it has that inode number, `path` itself.

        The latter is the case where the file was renamed into place and could not be synced.
        """
        with suppress(OSError, ValueError, OutsideRoot), self._parent(path) as directory:
            with suppress(OSError):
                if inode >= 0 and directory.stat().st_ino == inode:
                    os.unlink(directory.name, dir_fd=directory.handle)
            os.unlink(temporary, dir_fd=directory.handle)

    def put_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write several whole files, all synced before the first gets its name: see `storage.atomic_write`."""
        with ExitStack() as stack:
            written = [stack.enter_context(self._temporary_file(path, data, stays_open=True)) for path, data in files]
            try:
                confinement.sync_files([temporary.file for temporary in written])
                for temporary in written:
                    temporary.rename_into_place()
                for temporary in {
                    written_file.path.rpartition("/")[0]: written_file for written_file in written
                }.values():
                    temporary.directory.sync()
            except OSError as wrong:
                raise make_storage_failure(files[0][0], wrong) from wrong

    def delete(self, paths: Iterable[str]) -> None:
        for _, group in groupby(paths, key=lambda path: path.rpartition("/")[0]):
            siblings = list(group)
            current = siblings[0]
            try:
                with self._parent(current) as directory:
                    for current in siblings:
                        with suppress(FileNotFoundError, NotADirectoryError):
                            os.unlink(directory.sibling_name(current), dir_fd=directory.handle)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as wrong:
                raise make_storage_failure(current, wrong) from wrong

    def make_directory(self, path: str) -> None:
        try:
            with self._parent(f"{path}/-", is_made=True):
                pass
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong

    def move_directory(self, source: str, target: str) -> None:
        try:
            with self._parent(source) as old, self._parent(target, is_made=True) as new:
                # rename(2) refuses a target directory that is not empty
                os.rename(old.name, new.name, src_dir_fd=old.handle, dst_dir_fd=new.handle)
                new.sync()
                old.sync()
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(source, wrong) from wrong

    def hard_link(self, path: str, target_storage: LocalStorage, target: str) -> bool:
        """Give a file a second name: see `storage.protocol`."""
        try:
            with self._parent(path) as old:
                if modes.S_ISLNK(old.stat().st_mode):  # what it leads to is not this place's to give away
                    return False
                with io.FileIO(old.name, opener=old.opener) as file:
                    os.fsync(file.fileno())
                with target_storage._parent(target, is_made=True) as new:
                    os.link(old.name, new.name, src_dir_fd=old.handle, dst_dir_fd=new.handle, **NOT_FOLLOWED)
                    new.sync()
        except (OSError, ValueError) as wrong:
            if isinstance(wrong, OSError) and wrong.errno in _LINKS_UNSUPPORTED_ERRNOS | {errno.EMLINK}:
                return False
            raise make_storage_failure(path, wrong) from wrong
        return True

    def remove_directories(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                with self._parent(path) as directory:
                    # rmdir(2) refuses a link to a directory, and a directory that is not empty
                    os.rmdir(directory.name, dir_fd=directory.handle)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as wrong:
                if not (isinstance(wrong, OSError) and wrong.errno in _NOT_EMPTY_ERRNOS):
                    raise make_storage_failure(path, wrong) from wrong

    def polars_path(self, path: str) -> str | None:
        """Return the path itself, after a check that it stays below the roots and is no pipe. Raises `OutsideRoot`."""
        try:
            check_file(self.roots, path, self._checked_paths)
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong
        return path

    @contextmanager
    def enter_commit_queue(self, directory: str, timeout_ms: float) -> Iterator[bool]:
        """Hold a lock on the directory (`flock`), which the system releases when a process ends.

        See `storage.protocol`.
        """
        descriptor = acquire_turn(self.roots, directory, time.monotonic() + timeout_ms / 1000)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def polars_scan_options(self) -> dict[str, Any]:
        return {}

    @property
    def is_remote(self) -> bool:
        return False

    def _defers_sync(self, size_bytes: int) -> bool:  # noqa: ARG002 - for `Gathering`
        """Return whether a file of that size is synced later."""
        return False

    def _register_for_sync(self, path: str) -> None:
        """Register a file to be synced later."""

    def _sync_before_create(self, temporary: TemporaryFile | None) -> None:
        """Wait until the file about to be created is durable, with all pending files."""
        if temporary is not None:
            confinement.sync_files([temporary.file])

    @contextmanager
    def _temporary_file(self, path: str, data: bytes, *, stays_open: bool = False) -> Iterator[TemporaryFile]:
        """Yield a file beside `path` with that content; it is deleted at the end unless it was taken."""
        try:
            directory, name, file = self._create_new(path, create_file)
            with closing(directory):
                temporary = TemporaryFile(name, path, file, directory)
                try:
                    with file:
                        write_all(file, data)
                        if stays_open:
                            yield temporary
                    if not stays_open:
                        yield temporary
                finally:
                    if not temporary.is_taken:
                        temporary.delete()
        except (OSError, ValueError) as wrong:
            raise make_storage_failure(path, wrong) from wrong

    def _create_new(
        self, path: str, make: Callable[[str, Opener | None], F], *, is_temporary: bool = True
    ) -> tuple[ParentDirectory, str, F]:
        """Create a temporary file in the directory of `path`, or (not `is_temporary`) the file `path` itself.

        Return the open directory, the file's name in it, and the file. A directory that is deleted meanwhile is created
        again.
        """
        for is_last in (False, True):
            directory = self._parent(path, is_made=True).__enter__()
            name = temporary_name(directory.name) if is_temporary else directory.name
            try:
                return directory, name, make(name, directory.opener)
            except BaseException as wrong:
                if is_temporary:
                    with suppress(OSError, ValueError):
                        os.unlink(name, dir_fd=directory.handle)
                directory.close()
                if is_last or not isinstance(wrong, FileNotFoundError):
                    raise
        raise AssertionError


def create_file(name: str, opener: Opener | None) -> io.FileIO:
    """Open a new file for writing."""
    return open(name, "xb", 0, opener=opener)


def _normalize_roots(roots: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(type(root)(root.rstrip("/") or "/") for root in roots))
