"""Turns: of those who lost a race for a file, one at a time tries again, as far as the storage can tell them apart.

A turn is advice, and no commit relies on it: it only keeps many processes on one machine from getting in each other's way until one of them gives up.
Storages that know turns have a method `commit_queue(directory, patience_ms)`: a context manager that answers whether this one has the turn, until it leaves.
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
    """A storage that knows turns."""

    def turn(self, directory: str, patience_ms: float) -> AbstractContextManager[bool]:
        """Waits for a turn, no longer than that; whether it came. Never fails."""
        ...


def commit_queue(storage: Storage, directory: str, patience_ms: float) -> AbstractContextManager[bool]:
    """A turn among those who write to a directory; False at once where the storage knows none."""
    taken: Callable[[str, float], AbstractContextManager[bool]] | None = getattr(storage, "turn", None)  # every commit asks, and `isinstance` is slow to tell
    return nullcontext(enter_result=False) if taken is None else taken(directory, patience_ms)
