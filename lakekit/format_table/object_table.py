"""Object tables: the files at a location, a row for each.

A refresh lists the location and makes the listing the table's newest snapshot, so that earlier listings can be read by
time travel. The columns are the columns of engines 1.0 to 1.2, which had such tables. Later engines have six of the
columns, and list the location at each read. Columns that a listing does not give (owner, content type and others) are
null. The access time is always the epoch, as in those engines.

Source: ENGINE.md 9.6, 11; `ObjectTable`, `ObjectRefresh` of engine 1.2.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import cast_columns, col
from lakekit.errors import InvalidOption, NotFound, StorageFailed, Unsupported
from lakekit.format.polars_types import polars_schema
from lakekit.format_table import scan
from lakekit.model.table_paths import OBJECT_LOCATION, is_plain_name
from lakekit.storage.protocol import FileMissing
from lakekit.types import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, BinaryIO

    from lakekit.metadata.table_context import TableContext
    from lakekit.storage.protocol import Stat, Storage

    Lists = Callable[[Sequence[str]], list[list[Stat]]]

OBJECT_TABLE_FIELDS = (
    Field("path", "STRING NOT NULL"),
    Field("parent_path", "STRING NOT NULL"),
    Field("name", "STRING NOT NULL"),
    Field("length", "BIGINT NOT NULL"),
    Field("mtime", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    Field("atime", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    Field("owner", "STRING"),
    Field("generation", "INT"),
    Field("content_type", "STRING"),
    Field("storage_class", "STRING"),
    Field("md5_hash", "STRING"),
    Field("metadata_mtime", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    Field("metadata", "MAP<STRING, STRING>"),
)
"""The columns that an object table may have."""
_LISTED_COLUMNS = ("path", "parent_path", "name", "length", "mtime", "atime")
_ROWS_PER_FRAME = 50_000


def objects_location(ctx: TableContext) -> tuple[Storage, str, str]:
    """Return the storage of the objects, their path in it, and the location as the table's option spells it."""
    location = ctx.all_options.get(OBJECT_LOCATION, "").strip()
    if not location:
        raise Unsupported(
            f"{ctx.name} is an object table without the option {OBJECT_LOCATION}: engines since 1.3 keep such tables "
            "in a REST catalog alone",
            feature="object-table",
        )
    storage, root = scan.resolve_location(ctx, location, OBJECT_LOCATION)
    return storage, root, location.rstrip("/")


def list_objects(ctx: TableContext, lists: Lists | None = None) -> Iterator[pl.DataFrame]:
    """Yield the objects at the table's location, by path, in frames; one empty frame if there are none.

    `lists`: a function that lists many directories at once; None: the storage lists them one by one, in this process.

    Raises: `StorageFailed`, `Unsupported`.
    """
    storage, root, location = objects_location(ctx)
    names = {field.name for field in OBJECT_TABLE_FIELDS}
    if odd := [field.name for field in ctx.schema.fields if field.name not in names]:
        raise Unsupported(
            f"{ctx.name} has the column {odd[0]!r}, which no listing of objects has", feature="object-table"
        )
    if storage.stat(root) is None:
        raise FileMissing(
            f"there is nothing at {location}, the location of {ctx.name}: nothing was refreshed", path=root
        )
    rows: list[tuple[Any, ...]] = []
    count = 0
    for entry in _walk_files(storage.list if lists is None else _list_by_level(lists, root).__getitem__, root):
        relative = entry.path.removeprefix(root).lstrip("/")
        path = f"{location}/{relative}"
        rows.append((path, path.rpartition("/")[0], entry.name, entry.size_bytes, entry.modified_ms, 0))
        if len(rows) == _ROWS_PER_FRAME:
            yield _to_frame(rows, ctx)
            rows, count = [], count + 1
    if rows or not count:
        yield _to_frame(rows, ctx)


def _walk_files(entries: Callable[[str], list[Stat]], directory: str) -> Iterator[Stat]:
    for entry in entries(directory):
        if entry.is_dir:
            yield from _walk_files(entries, entry.path)
        else:
            yield entry


def _list_by_level(lists: Lists, root: str) -> dict[str, list[Stat]]:
    """Return the contents of every directory, listed level by level."""
    contents: dict[str, list[Stat]] = {}
    level = [root]
    while level:
        contents |= dict(zip(level, lists(level), strict=True))
        level = [entry.path for directory in level for entry in contents[directory] if entry.is_dir]
    return contents


def _to_frame(rows: list[tuple[Any, ...]], ctx: TableContext) -> pl.DataFrame:
    schema = polars_schema(OBJECT_TABLE_FIELDS)
    plain = {name: pl.Int64() if schema[name] == pl.Datetime("ms", "UTC") else schema[name] for name in _LISTED_COLUMNS}
    frame = cast_columns(
        pl.DataFrame(rows, schema=plain, orient="row"), {name: schema[name] for name in _LISTED_COLUMNS}
    )
    complete = frame.with_columns(
        pl.lit(None, schema[field.name]).alias(field.name)
        for field in OBJECT_TABLE_FIELDS
        if field.name not in _LISTED_COLUMNS
    )
    return complete.select(col(field.name) for field in ctx.schema.fields)


# ---- one object ----------------------------------------------------------------------------------


def open_object(ctx: TableContext, path: str) -> BinaryIO:
    """Open one object, given by its value of the column `path` or by its path relative to the location.

    Raises: `NotFound`, `InvalidOption`, `StorageFailed`.
    """
    storage, root, location = objects_location(ctx)
    relative = path.removeprefix(f"{location}/") if path.startswith(f"{location}/") else path
    if not relative or not all(is_plain_name(part) for part in relative.split("/")):
        raise InvalidOption(
            f"{path[:200]!r} is no path below {location}, the location of {ctx.name}: give a value of its column path",
            key="path",
            value=path,
        )
    try:
        size_bytes = storage.size(f"{root}/{relative}")
    except FileMissing:
        raise NotFound(
            f"there is no object {relative[:200]!r} at {location}; t.refresh() lists what is there now", name=path
        ) from None
    return io.BufferedReader(_RangeReader(storage, f"{root}/{relative}", size_bytes))


class _RangeReader(io.RawIOBase):
    """A file of a storage, read by ranges on demand."""

    def __init__(self, storage: Storage, path: str, size_bytes: int) -> None:
        super().__init__()
        self.storage, self.path, self.size_bytes, self.at = storage, path, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size_bytes}[whence]
        if base + offset < 0:
            msg = f"cannot seek before the beginning of {self.path}"
            raise OSError(msg)
        self.at = base + offset
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), max(0, self.size_bytes - self.at))
        data = self.storage.read(self.path, self.at, wanted) if wanted else b""
        if len(data) < wanted:
            raise StorageFailed(f"{self.path} became shorter while it was read", path=self.path)
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)
