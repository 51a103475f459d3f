"""Commit queue: of the commits that lost a race for a file, one at a time retries.

A turn is advice, and no commit relies on it: it only keeps many processes on one machine from disturbing each other
until one of them gives up. Storages with a queue have a method `turn(directory, patience_ms)`: a context manager that
yields whether the turn was granted, until it ends.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lakekit.storage.protocol import Storage


@runtime_checkable
class SupportsCommitQueue(Protocol):
    """A storage with a commit queue."""

    def turn(self, directory: str, patience_ms: float) -> AbstractContextManager[bool]:
        """Wait for a turn, at most that long; yield whether it was granted. Never fails."""
        ...


def commit_queue(storage: Storage, directory: str, patience_ms: float) -> AbstractContextManager[bool]:
    """Wait for a turn among the writers of a directory; yield False at once without a queue."""
    # every commit asks, and `isinstance` is slow to tell
    taken: Callable[[str, float], AbstractContextManager[bool]] | None = getattr(storage, "turn", None)
    return nullcontext(enter_result=False) if taken is None else taken(directory, patience_ms)
