"""Check the footer and page headers of local Parquet files before Polars opens them.

A check costs some 80 µs of CPU at a file of four columns and seven pages, which a scan of large files does not feel and
one of many small files would each time: a file that was checked is remembered in the process, by path and the storage's
tag of the content. Over a network, where every page would be a request, no file is checked.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from lakekit.format import parquet_bounds

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from lakekit.storage.protocol import Stat, Storage
    from lakekit.types import DataType
    from lakekit.world import Runtime

WHOLE_BYTES = 1 << 18
"""A file of no more bytes is read in one call."""
_REMEMBERED_BYTES = 400
_KEY = "parquet headers"


class PageHeaderChecks:
    """Checks of files for some columns; thread-safe.

    Checks are remembered in the process once `remember` is called.
    """

    __slots__ = ("_columns", "_marks", "_names", "_storage", "_world")

    def __init__(self, runtime: Runtime, storage: Storage, columns: Mapping[str, DataType | None]) -> None:
        self._world, self._storage, self._columns = runtime, storage, columns
        self._names = frozenset(columns)
        self._marks: dict[Hashable, frozenset[str]] = {}

    def is_wanted(self, path: str) -> bool:
        """Return whether Polars opens that file itself; others are not checked."""
        return self._storage.polars(path) is not None

    def is_known(self, stat: Stat) -> bool:
        """Return whether that content of a file was checked before, for all of the columns."""
        checked: frozenset[str] | None = (
            None if stat.tag is None else self._world.decoded.get((_KEY, stat.path, stat.tag))
        )
        return checked is not None and self._names <= checked

    def check(self, stat: Stat, data: bytes | None = None) -> None:
        """Check the footer of a file and the page headers of the columns, if Polars is to open it itself.

        `data`: all of the file, if it was read.

        Raises:
            Corrupt: names path, offset and field.
            Unsupported: the file is encrypted.
        """
        native = self._storage.polars(stat.path)
        if native is None:
            return
        if data is None and stat.size_bytes <= WHOLE_BYTES:
            data = self._storage.read(stat.path)
        if data is not None:
            parquet_bounds.check(stat.path, partial(_part, data), len(data), self._columns)
        else:
            with io.FileIO(native) as file:
                parquet_bounds.check(stat.path, partial(_part_of_file, file), stat.size_bytes, self._columns)
        if stat.tag is not None:
            key = (_KEY, stat.path, stat.tag)
            checked: frozenset[str] | None = self._world.decoded.get(key)
            self._marks[key] = self._names if checked is None else checked | self._names

    def remember(self) -> None:
        """Cache which files were checked."""
        marks, self._marks = self._marks, {}
        if marks:
            self._world.decoded.put(marks, _REMEMBERED_BYTES * len(marks))


def _part(data: bytes, offset: int, length: int) -> bytes:
    return data[offset : offset + length]


def _part_of_file(file: io.FileIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length) or b""
