"""Names of new data files: one counter and one UUID for all files of a writer in a bucket.

Changelog files are included.

    data-f0a2…-0.parquet   changelog-f0a2…-1.orc   data-f0a2…-2.zst.parquet

Source: FORMAT.md 1.3, `DataFilePathFactory`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.options.table_options import TableOptions

EXTENSIONS = {
    "gzip": "gz",
    "bzip2": "bz2",
    "deflate": "deflate",
    "snappy": "snappy",
    "lz4": "lz4",
    "zstd": "zst",
    "none": "",
}
"""`file.compression` -> its extension in file names; names not listed stand for themselves."""


class FileNames:
    """The file names of one writer in one bucket. `prefix` is that of data files; thread-safe."""

    __slots__ = ("_numbers", "_turns", "prefix", "uuid")

    def __init__(self, prefix: str, uuid: str) -> None:
        self.prefix, self.uuid = prefix, uuid
        self._numbers, self._turns = itertools.count(), itertools.count()  # next() is one step of the interpreter

    def next(self, extension: str, *, prefix: str | None = None) -> str:
        """Return the next name, with `extension` after the dot; `prefix` replaces that of data files."""
        return f"{self.prefix if prefix is None else prefix}{self.uuid}-{next(self._numbers)}.{extension}"

    def turn(self, count: int) -> int:
        """Return the next number below `count`, round robin."""
        return next(self._turns) % count


def file_names(ctx: TableContext) -> FileNames:
    """Return the names of a new writer of one bucket of a table."""
    return FileNames(ctx.options.data_file_prefix, ctx.world.new_id())


def extension(options: TableOptions, format_name: str, compression: str) -> str:
    """Return the extension of a data file: its format, after its compression if the table says so."""
    codec = EXTENSIONS.get(compression.lower(), compression.lower())
    return f"{codec}.{format_name}" if codec and options.file_suffix_include_compression else format_name
