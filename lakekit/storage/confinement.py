"""Paths of the local disk confined to root folders, past no link; durable files.

    check_path(roots, path)                            for reads: links may lead to a path below the same root
    with ParentDirectory(roots, path) as directory:    for writes and deletes: no links on the way
        os.unlink(directory.name, dir_fd=directory.handle)

A root itself, and everything above it, may be a link: the caller or the catalog named it. Where the platform has
`openat` (Linux, macOS) writes and deletes open each directory from the root down without following links and act
relative to it, so a directory that is replaced by a link meanwhile changes nothing. Elsewhere real paths are compared
before the call. Without roots (`()`) nothing is checked.
"""

from __future__ import annotations

import errno
import io
import os
import stat as modes
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from lakekit.errors import StorageFailed
from lakekit.parallel import parallel_map
from lakekit.storage.protocol import OutsideRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Opener = Callable[[str, int], int]


_LONG_S = 0.001


def start_sync(file: io.FileIO, offset: int = 0, length: int = 0) -> None:
    """Start writing out a file from `offset` on (`length` 0: all of it), without waiting."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # a file system need not take advice
            # Linux starts to write pages that are not on the disk yet, and drops only those that are: none of these
            os.posix_fadvise(file.fileno(), offset, length, os.POSIX_FADV_DONTNEED)


def sync_file(path: str) -> None:
    """Wait until the bytes of an already written file are durable. Raises `OSError`."""
    with io.FileIO(path) as file:
        os.fsync(file.fileno())


def sync_files(open_files: Sequence[io.FileIO]) -> None:
    """Wait until the bytes of all these files are durable. Raises `OSError` with the name of a failed one.

    All of them are started first. The first sync waits for what the file system writes of them all (on ext4 and XFS,
    one journal commit) and the others find little to do, without waking a thread. If each takes long, the remaining
    ones are synced in parallel.
    """
    if len(open_files) > 1:
        for file in open_files:
            start_sync(file)
    for at, file in enumerate(open_files):
        began = time.monotonic()
        _sync(file)
        if at > 0 and time.monotonic() - began > _LONG_S:
            parallel_map(_sync, open_files[at + 1 :])
            return


def sync_directory(path: str) -> None:
    """Wait until the names in the directory of a file are durable. Raises `OSError`."""
    descriptor = os.open(path.rpartition("/")[0] or "/", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(file: io.FileIO) -> None:
    try:
        os.fsync(file.fileno())
    except OSError as wrong:
        raise OSError(wrong.errno, wrong.strerror, file.name) from wrong


# ---- confinement ------------------------------------------------------------


HAS_DIR_FD = (
    hasattr(os, "O_NOFOLLOW")
    and hasattr(os, "O_DIRECTORY")
    and all(
        call in os.supports_dir_fd for call in (os.open, os.stat, os.mkdir, os.rmdir, os.unlink, os.link, os.rename)
    )
)
NOT_FOLLOWED: dict[str, Any] = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
"""What `os.link` is told, so that a link gets no second name for what it leads to."""
_NO_DIRECTORY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""What systems say of a link that is not to be followed, or of what is no directory."""


class LinkFreeRoot(str):
    """A root below which no link is followed, not even for reads.

    A link could lead to files below the root that may not be read.
    """

    __slots__ = ()


def split_below_root(roots: tuple[str, ...], path: str) -> tuple[str, list[str]]:
    """Return the innermost root above a path and the names between them; no names for the root itself.

    Raises `OutsideRoot`.
    """
    innermost = None
    for root in roots:
        if (
            (innermost is None or len(root) > len(innermost))
            and path.startswith(root)
            and (path[len(root) : len(root) + 1] in {"/", ""} or root[-1] == "/")
        ):
            innermost = root
    if innermost is None:
        raise OutsideRoot(f'"{path}" is refused: it lies outside of {_list_roots(roots)}', path=path)
    names = path[len(innermost) :].lstrip("/").split("/")
    if "" in names or "." in names:
        names = [name for name in names if name and name != "."]
    if ".." in names:
        raise OutsideRoot(f'"{path}" is refused: ".." leads out of "{innermost}"', path=path)
    return innermost, names


def check_path(roots: tuple[str, ...], path: str, checked_dirs: set[str] | None = None) -> os.stat_result | None:
    """Return the stat of a path that may be read; None if it must be read again with links followed.

    `checked_dirs` are directories that need no check; more are added. Raises `OutsideRoot` for a path that leaves the
    roots by a link, `FileNotFoundError` and other `OSError`s.
    """
    if not roots:
        return None
    if checked_dirs is not None and path.rpartition("/")[0] in checked_dirs:
        stat = os.lstat(path)
        if not modes.S_ISLNK(stat.st_mode):
            return stat
    root, names = split_below_root(roots, path)
    current, last_stat = root.rstrip("/"), None
    for name in names:
        current = f"{current}/{name}"
        last_stat = os.lstat(current)
        if modes.S_ISLNK(last_stat.st_mode):
            if not is_inside(roots, path):
                raise make_outside_error(path, current, root, "read")
            return None
    if checked_dirs is not None and names:
        checked_dirs.add(path.rpartition("/")[0])
    return last_stat


def check_file(roots: tuple[str, ...], path: str, checked_dirs: set[str] | None = None) -> None:
    """Check a path as `check_path` does before another library opens it, and that it is no pipe or device.

    Missing files are left to that library. Raises `StorageFailed` for what is neither a file nor a directory.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        stat = check_path(roots, path, checked_dirs) or os.stat(path)  # noqa: PTH116
        if not modes.S_ISREG(stat.st_mode) and not modes.S_ISDIR(stat.st_mode):
            raise make_not_a_file_error(path)


def make_not_a_file_error(path: str) -> StorageFailed:
    """Return the error for a pipe or a device: whoever opens a pipe without a writer waits for ever."""
    return StorageFailed(f"{path} is no file", path=path)


def is_inside(roots: tuple[str, ...], path: str) -> bool:
    """Return whether the target of a link is below the same root, and the root allows links.

    Without roots everything is.
    """
    if not roots:
        return True
    root = split_below_root(roots, path)[0]
    return not isinstance(root, LinkFreeRoot) and _is_below(os.path.realpath(path), os.path.realpath(root))


def make_outside_error(path: str, link: str, root: str, action: str) -> OutsideRoot:
    """Return the error for a path that goes through a link. `action`: what is refused, such as "read"."""
    refusal = f'"{path}" is refused: ' + ("it is a link" if link == path else f'"{link}" is a link')
    if isinstance(root, LinkFreeRoot):
        remedy = "Put the files themselves in its place, or name the place in lakekit.allowed-locations"
        return OutsideRoot(
            f'{refusal}, and below "{root}" a table is led nowhere by one, since it may lead to another table. '
            f"{remedy}",
            path=path,
        )
    remedy = "Put the files themselves in its place, or remove the link"
    return OutsideRoot(f'{refusal}, and nothing outside of "{root}" is {action} through one. {remedy}', path=path)


def _list_roots(roots: tuple[str, ...]) -> str:
    return ", ".join(f'"{root}"' for root in roots)


def _is_below(real_path: str, root: str) -> bool:
    return real_path == root or real_path.startswith(root if root.endswith("/") else f"{root}/")


class ParentDirectory:
    """The directory of a path, opened for one call or a few.

    `handle` and `name` are the arguments of those calls; `handle` None: `name` is the whole path. `is_made`: missing
    directories are created and synced. Raises `OutsideRoot`, `OSError`.
    """

    __slots__ = ("_is_made", "_roots", "handle", "name", "path")

    def __init__(self, roots: tuple[str, ...], path: str, *, is_made: bool = False) -> None:
        self._roots, self.path, self._is_made = roots, path, is_made
        self.handle: int | None = None
        self.name = path

    def __enter__(self) -> Self:
        if not self._roots:
            if self._is_made:
                make_directory(self.path.rpartition("/")[0])
            return self
        root, names = split_below_root(self._roots, self.path)
        if not names:  # the root itself, whose folder is no matter of its own
            above, _, name = root.rstrip("/").rpartition("/")
            names, root = [name], above or "/"
        if HAS_DIR_FD:
            self.handle, self.name = self._open(root, names[:-1]), names[-1]
        else:
            self._compare(root, names[:-1])
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        descriptor, self.handle = self.handle, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    @property
    def opener(self) -> Opener | None:
        """The `opener` argument of `open` to create a file here."""
        return None if self.handle is None else partial(os.open, dir_fd=self.handle, mode=0o666)

    def sibling_name(self, path: str) -> str:
        """Return the name that calls take for another path in the same directory."""
        return path if self.handle is None else path.rpartition("/")[2]

    def sync(self) -> None:
        """Wait until the names in the directory are safe from power loss."""
        if self.handle is None:
            sync_directory(self.path)
        else:
            os.fsync(self.handle)

    def stat(self) -> os.stat_result:
        """Return the stat of the entry at the name; a link is not followed."""
        return os.stat(self.name, dir_fd=self.handle, follow_symlinks=False)

    def _open(self, root: str, names: list[str]) -> int:
        if self._is_made:
            try:
                descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            except FileNotFoundError:
                make_directory(root)
                descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        else:
            descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        at = root.rstrip("/")
        try:
            for name in names:
                at = f"{at}/{name}"
                inner = self._step(descriptor, name, at, root)
                os.close(descriptor)
                descriptor = inner
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _step(self, above: int, name: str, at: str, root: str) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            return os.open(name, flags, dir_fd=above)
        except FileNotFoundError:
            if not self._is_made:
                raise
        except OSError as wrong:
            if wrong.errno in _NO_DIRECTORY and modes.S_ISLNK(
                os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            ):
                raise make_outside_error(self.path, at, root, "written or deleted") from wrong
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
        os.fsync(above)
        return os.open(name, flags, dir_fd=above)

    def _compare(self, root: str, names: list[str]) -> None:
        """Compare real paths, where directories have no handles."""
        above = root.rstrip("/")
        real = os.path.realpath(root)
        for name in names:
            above, real = f"{above}/{name}", os.path.join(real, name)  # noqa: PTH118 - text in, text out
            if os.path.normcase(os.path.realpath(above)) != os.path.normcase(real):
                raise make_outside_error(self.path, above, root, "written or deleted")
        if self._is_made:
            make_directory(above)


def make_directory(path: str) -> None:
    """Make a directory, with those above it, each safe from power loss."""
    missing = []
    while path and not os.path.isdir(path):  # noqa: PTH112
        missing.append(path)
        path = path.rpartition("/")[0]
    for directory in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(directory)  # noqa: PTH102
        sync_directory(directory)
