"""A storage that fails where it is told to: the n-th call, in one of seven ways, and then, for a crash, never answers again (RELIABILITY 5.1).

    crash           the process dies before the call                crash_after     … after it
    torn            it dies in the middle: half a temporary file    power           it dies after it, and what was not synced is lost
    error           the storage says no; nothing happened           ambiguous       it says no; it happened
    unknown         a create says that nobody can tell; nothing happened (elsewhere: error)
    unknown_done    the same; it happened (elsewhere: ambiguous)
    interrupt       Ctrl-C before the call                          interrupt_after … after it; the process cleans up

Reads fail too. The files are a `MemoryStorage`'s; `copy` makes another of the same files, so that a case costs one step.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from lakekit.errors import CommitStateUnknown, StorageFailed
from lakekit.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lakekit.storage.protocol import Stat

KINDS = ("crash", "crash_after", "torn", "power", "error", "ambiguous", "unknown", "unknown_done")
DEATHS = frozenset({"crash", "crash_after", "torn", "power"})
INTERRUPTS = ("interrupt", "interrupt_after")


class Crash(BaseException):
    """The process is gone: no `except Exception` may catch it."""


class FaultyStorage:
    """`plan`: the numbers of calls and how they fail, by the names above. `meanwhile`: what others do before a call. `trace`: what was called."""

    def __init__(self, store: MemoryStorage, plan: Mapping[int, str] | None = None, meanwhile: Mapping[int, Callable[[], object]] | None = None) -> None:
        self.store = store
        self.plan = plan or {}
        self.meanwhile = meanwhile or {}
        self.trace: list[tuple[str, str]] = []
        self.dead = False
        self._unsynced: dict[str, tuple[bytes, int] | None] = {}

    def power_loss(self) -> None:
        """Puts back what stood where unsynced writes went."""
        for path, before in self._unsynced.items():
            self.store.files.pop(path, None)
            if before is not None:
                self.store.files[path] = before

    def _call(self, name: str, path: str, do: Callable[[], Any], torn: bytes | None = None) -> Any:
        at = len(self.trace)
        self.trace.append((name, path))
        if self.dead:
            raise Crash(at)
        if at in self.meanwhile:
            self.meanwhile[at]()
        kind = self.plan.get(at)
        if kind == "torn" and torn is not None:
            self.store.files[f"{path.rpartition('/')[0]}/.{path.rpartition('/')[2]}.tmp"] = (torn[: len(torn) // 2], 0)
        if kind in {"crash", "torn"}:
            self.dead = True
            raise Crash(at)
        if kind == "interrupt":
            raise KeyboardInterrupt
        if kind in {"error", "unknown"}:
            raise self._refusal(name, kind, path)
        found, failed = None, None
        try:
            found = do()
        except StorageFailed as refused:
            failed = refused
        if kind in {"crash_after", "power"}:
            self.dead = True
            raise Crash(at)
        if kind == "interrupt_after":
            raise KeyboardInterrupt
        if kind in {"ambiguous", "unknown_done"}:
            raise self._refusal(name, kind, path)
        if failed is not None:
            raise failed
        return found

    @staticmethod
    def _refusal(name: str, kind: str, path: str) -> Exception:
        if name == "put_if_absent" and kind.startswith("unknown"):
            return CommitStateUnknown(f"{path}: the answer was lost")
        return StorageFailed(f"{path}: injected", path=path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        found: bytes = self._call("read", path, lambda: self.store.read(path, offset, length))
        return found

    def stat(self, path: str) -> Stat | None:
        found: Stat | None = self._call("stat", path, lambda: self.store.stat(path))
        return found

    def size(self, path: str) -> int:
        found: int = self._call("size", path, lambda: self.store.size(path))
        return found

    def exists(self, path: str) -> bool:
        found: bool = self._call("exists", path, lambda: self.store.exists(path))
        return found

    def list(self, directory: str) -> list[Stat]:
        found: list[Stat] = self._call("list", directory, lambda: self.store.list(directory))
        return found

    def put(self, path: str, data: bytes) -> None:
        before = self.store.files.get(path)

        def do() -> None:
            self.store.put(path, data)
            self._unsynced.setdefault(path, before)

        self._call("put", path, do, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        found: bool = self._call("put_if_absent", path, lambda: self.store.put_if_absent(path, data), data)
        return found

    @contextmanager
    def open_write(self, path: str) -> Iterator[BinaryIO]:
        buffer = io.BytesIO()
        yield buffer

        def do() -> None:
            with self.store.open_write(path) as file:
                file.write(buffer.getvalue())

        self._call("open_write", path, do, buffer.getvalue())

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._call("delete", path, lambda path=path: self.store.delete([path]))  # type: ignore[misc]

    def remove_directories(self, paths: Iterable[str]) -> None:
        pass

    def polars_path(self, path: str) -> str | None:
        return None

    def polars_scan_options(self) -> dict[str, Any]:
        return {}

    @property
    def is_remote(self) -> bool:
        return False


class FolderStorage(FaultyStorage):
    """A storage with folders, which a subclass makes and moves; no name is a link."""

    def symlinks(self, directory: str) -> list[tuple[str, bool]]:
        return []

    def entry_kind(self, path: str) -> Literal["folder", "file"] | None:
        if path in self.store.files:
            return "file"
        return "folder" if any(name.startswith(f"{path}/") for name in self.store.files) else None

    def symlink_target(self, path: str) -> str | None:
        return None


def copy(store: MemoryStorage) -> MemoryStorage:
    """A storage of the same files, whose clock goes on."""
    return MemoryStorage(files=dict(store.files), _writes=count(1 + max((number for _, number in store.files.values()), default=0)))
