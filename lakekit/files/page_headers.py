"""Whether Parquet files on this machine can be handed to Polars: footer and page headers of the columns that are read, looked at once.

A look costs some 30 µs a file and 2 µs a page, which a scan of large files does not feel and one of many small files would each time: what was looked at is
remembered in the process, by path and the storage's tag of the content. Over a network, where every page would be a request, nobody looks.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from lakekit.format import parquet_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.storage.protocol import Stat, Storage
    from lakekit.types import DataType
    from lakekit.world import World

_WHOLE_BYTES = 1 << 18
"""A file of no more bytes is read in one call."""
_REMEMBERED_BYTES = 400
_KEY = "parquet headers"


def is_known(world: World, stat: Stat, columns: Mapping[str, DataType | None]) -> bool:
    """Whether that content of a file was looked at before, for all of those columns."""
    known: frozenset[str] | None = None if stat.tag is None else world.decoded.get((_KEY, stat.path, stat.tag))
    return known is not None and columns.keys() <= known


def check(world: World, storage: Storage, stat: Stat, columns: Mapping[str, DataType | None]) -> None:
    """Looks at a file's footer and at the page headers of some columns, if Polars is to open it itself and nobody has looked before.

    Raises `Corrupt` naming path, offset and field, `Unsupported` where the file is encrypted.
    """
    native = storage.polars(stat.path)
    if native is None or is_known(world, stat, columns):
        return
    _look(storage, native, stat, columns)
    if stat.tag is not None:
        key = (_KEY, stat.path, stat.tag)
        world.decoded.put({key: frozenset(columns) | (world.decoded.get(key) or frozenset())}, _REMEMBERED_BYTES)


def _look(storage: Storage, native: str, stat: Stat, wanted: Mapping[str, DataType | None]) -> None:
    if stat.size_bytes <= _WHOLE_BYTES:
        data = storage.read(stat.path)
        parquet_bounds.check(stat.path, partial(_part, data), len(data), wanted)
        return
    with io.FileIO(native) as file:
        parquet_bounds.check(stat.path, partial(_part_of_file, file), stat.size_bytes, wanted)


def _part(data: bytes, offset: int, length: int) -> bytes:
    return data[offset : offset + length]


def _part_of_file(file: io.FileIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length) or b""
