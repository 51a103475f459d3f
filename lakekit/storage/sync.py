"""Make files on the local disk durable."""

from __future__ import annotations

import io
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.parallel import parallel_map

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def sync_files(opened: Sequence[io.FileIO]) -> None:
    """Wait until the bytes of all these files are durable. Raises `OSError` with the name of a failed one.

    All of them are started first. The first sync waits for what the file system writes of them all (on ext4 and XFS,
    one journal commit) and the others find little to do, without waking a thread. If each takes long, the remaining
    ones are synced in parallel.
    """
    if len(opened) > 1:
        for file in opened:
            start_sync(file)
    for at, file in enumerate(opened):
        began = time.monotonic()
        _sync(file)
        if at > 0 and time.monotonic() - began > _LONG_S:
            parallel_map(_sync, opened[at + 1 :])
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
