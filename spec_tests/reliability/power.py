"""What a power loss would leave of files on the local disk, as calls to the system tell: those whose bytes are safe, and whose names are."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN = Path("/proc/self/fd")


def _whole(name: str, directories: dict[str, int | None]) -> str:
    """The whole path of a name in an open directory; a temporary file and its place are in one."""
    handle = directories.get("src_dir_fd")
    return name if handle is None else f"{(OPEN / str(handle)).readlink()}/{name}"


class Power:
    """`safe`: paths whose bytes were synced; `named`: what directories held when they were. `claimed`: what `at_claims` told before each link."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if not OPEN.is_dir():
            pytest.skip("which file a handle is of is asked of /proc")
        self.safe: set[str] = set()
        self.named: set[str] = set()
        self.claimed: dict[str, set[str]] = {}
        self.at_claims: Callable[[], set[str]] = lambda: self.safe & self.named
        self.failing = ""
        """How the paths end that cannot be synced."""
        sync, link, replace = os.fsync, os.link, os.replace

        def synced(handle: int) -> None:
            path = (OPEN / str(handle)).readlink()
            if self.failing and str(path).endswith(self.failing):
                raise OSError(errno.EIO, "Input/output error")
            sync(handle)
            self.safe.add(str(path))
            if path.is_dir():
                self.named |= {str(one) for one in path.iterdir()}

        def linked(one: str, other: str, **directories: int | None) -> None:
            whole, target = _whole(one, directories), _whole(other, directories)
            assert whole in self.safe
            self.claimed[target] = self.at_claims()
            link(one, other, **directories)  # type: ignore[arg-type]
            self.safe.add(target)

        def replaced(one: str, other: str, **directories: int | None) -> None:
            whole, target = _whole(one, directories), _whole(other, directories)
            replace(one, other, **directories)
            (self.safe.add if whole in self.safe else self.safe.discard)(target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "link", linked)
        monkeypatch.setattr(os, "replace", replaced)
