"""Files in memory, for tests. Every call is recorded in `trace`, so that a test can count them."""

from __future__ import annotations

import io
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO

from lakekit.storage.protocol import FileMissing, Stat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(slots=True, eq=False)
class MemoryStorage:
    """A storage in memory. `files`: path to (content, number of the write that made it).

    Equal only to itself.
    """

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    trace: list[tuple[str, str]] = field(default_factory=list)
    _writes: Iterator[int] = field(default_factory=lambda: count(1))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.trace.append(("read", path))
        data = self._get(path)[0]
        return data[offset : None if length is None else offset + max(0, length)]

    def stat(self, path: str) -> Stat | None:
        self.trace.append(("stat", path))
        if path in self.files:
            return self._stat(path)
        inside = path.rstrip("/") + "/"
        return (
            Stat(path=path, size_bytes=0, modified_ms=0, is_dir=True)
            if any(name.startswith(inside) for name in self.files)
            else None
        )

    def size(self, path: str) -> int:
        self.trace.append(("size", path))
        return len(self._get(path)[0])

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def list(self, directory: str) -> list[Stat]:
        self.trace.append(("list", directory))
        inside = directory.rstrip("/") + "/"
        stats: dict[str, Stat] = {}
        for path in tuple(self.files):
            if path.startswith(inside):
                name, deeper, _ = path.removeprefix(inside).partition("/")
                stats[name] = (
                    Stat(path=inside + name, size_bytes=0, modified_ms=0, is_dir=True) if deeper else self._stat(path)
                )
        return [stats[name] for name in sorted(stats)]

    def put(self, path: str, data: bytes) -> None:
        self.trace.append(("put", path))
        self.files[path] = (bytes(data), next(self._writes))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.trace.append(("put_if_absent", path))
        return self.files.setdefault(path, (bytes(data), next(self._writes)))[0] == data

    @contextmanager
    def open_write(self, path: str) -> Iterator[BinaryIO]:
        self.trace.append(("open_write", path))
        buffer = io.BytesIO()
        yield buffer
        self.files[path] = (buffer.getvalue(), next(self._writes))

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.trace.append(("delete", path))
            self.files.pop(path, None)

    def remove_directories(self, paths: Iterable[str]) -> None:
        """Do nothing: a storage in memory has names only, and no directories."""

    def polars_path(self, path: str) -> str | None:  # noqa: ARG002 - nothing outside this process can open it
        return None

    def polars_scan_options(self) -> dict[str, Any]:
        return {}

    @property
    def is_remote(self) -> bool:
        return False

    def count(self, operation: str) -> int:
        """Return how often an operation was called."""
        return sum(name == operation for name, _ in self.trace)

    def _get(self, path: str) -> tuple[bytes, int]:
        try:
            return self.files[path]
        except KeyError:
            raise FileMissing(f"{path} does not exist", path=path) from None

    def _stat(self, path: str) -> Stat:
        data, number = self.files[path]
        return Stat(path=path, size_bytes=len(data), modified_ms=number, tag=str(number))
