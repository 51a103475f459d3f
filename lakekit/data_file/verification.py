"""Verify that data files exist, are complete, and have headers within bounds, before they are read.

Only the last bytes of a local file are read. Over a network that costs as much as reading a small file, and stores have
no torn files: there reading itself finds out, and `read_whole_file` compares sizes. A file that a manifest lists and
that does not exist was expired, or removed by hand; one of another size was torn, or is another file of that name.

Footer and page headers of local Parquet files are checked before Polars opens them (`PageHeaderChecks`). A check takes
some 80 µs of CPU for a file of four columns and seven pages: little in a scan of large files, much in each scan of many
small files. So a file that was checked is remembered in the process, by path and the storage's tag of the content. Over
a network, where every page would be a request, no file is checked.
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakekit.draw import humanize
from lakekit.errors import Corrupt, Unsupported
from lakekit.format import parquet_validation
from lakekit.metadata import snapshots
from lakekit.options.option import EMPTY
from lakekit.parallel import parallel_map
from lakekit.storage import with_path_cache
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.runtime import Runtime
    from lakekit.storage.protocol import Stat, Storage
    from lakekit.types import DataType


MAX_WHOLE_READ_BYTES = 1 << 18
"""A file of no more bytes is read in one call."""
_CACHED_BYTES = 400
_KEY = "parquet headers"


class PageHeaderChecks:
    """Checks of files for some columns; thread-safe.

    Checks are remembered in the process once `cache_checked` is called.
    """

    __slots__ = ("_checked_columns", "_columns", "_names", "_runtime", "_storage")

    def __init__(self, runtime: Runtime, storage: Storage, columns: Mapping[str, DataType | None]) -> None:
        self._runtime, self._storage, self._columns = runtime, storage, columns
        self._names = frozenset(columns)
        self._checked_columns: dict[Hashable, frozenset[str]] = {}

    def must_check(self, path: str) -> bool:
        """Return whether Polars opens that file itself; others are not checked."""
        return self._storage.polars_path(path) is not None

    def is_checked(self, stat: Stat) -> bool:
        """Return whether that content of a file was checked before, for all of the columns."""
        checked: frozenset[str] | None = (
            None if stat.tag is None else self._runtime.metadata_cache.get((_KEY, stat.path, stat.tag))
        )
        return checked is not None and self._names <= checked

    def check(self, stat: Stat, data: bytes | None = None) -> None:
        """Check the footer of a file and the page headers of the columns, if Polars is to open it itself.

        `data`: all of the file, if it was read.

        Raises:
            Corrupt: names path, offset and field.
            Unsupported: the file is encrypted.
        """
        native = self._storage.polars_path(stat.path)
        if native is None:
            return
        if data is None and stat.size_bytes <= MAX_WHOLE_READ_BYTES:
            data = self._storage.read(stat.path)
        if data is not None:
            parquet_validation.check_footer_and_pages(stat.path, partial(_slice_bytes, data), len(data), self._columns)
        else:
            with io.FileIO(native) as file:
                parquet_validation.check_footer_and_pages(
                    stat.path, partial(_read_slice, file), stat.size_bytes, self._columns
                )
        if stat.tag is not None:
            key = (_KEY, stat.path, stat.tag)
            checked: frozenset[str] | None = self._runtime.metadata_cache.get(key)
            self._checked_columns[key] = self._names if checked is None else checked | self._names

    def cache_checked(self) -> None:
        """Cache which files were checked."""
        marks, self._checked_columns = self._checked_columns, {}
        if marks:
            self._runtime.metadata_cache.put(marks, _CACHED_BYTES * len(marks))


def _slice_bytes(data: bytes, offset: int, length: int) -> bytes:
    return data[offset : offset + length]


def _read_slice(file: io.FileIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length) or b""


# ---- verification ------------------------------------------------------------


_TAIL_BYTES = 8
FILES_PER_TASK = 64
"""Files that one thread verifies in turn: a local file takes microseconds."""


def verify_files(
    ctx: TableContext,
    files: Sequence[DataFileMeta],
    paths: Sequence[str],
    snapshot_id: int | None = None,
    *,
    columns: Mapping[int, Mapping[str, DataType]] = EMPTY,
) -> list[int]:
    """Return the indexes of files that exist, are complete, and end as their format does.

    These are all of them, or an error names the first that is not. Of `columns`, by the file's schema and name, the
    page headers of Parquet files that Polars opens are checked too (`PageHeaderChecks`).

    With `scan.ignore-lost-files` missing ones are left out, with `scan.ignore-corrupt-files` torn ones; only then files
    over a network are looked at. Raises `FileMissing`, `Corrupt`, `Unsupported` (encrypted Parquet).
    """
    skips_lost, skips_corrupt = ctx.options.scan_ignore_lost_files, ctx.options.scan_ignore_corrupt_files
    remote = ctx.storage.is_remote
    if remote and not (skips_lost or skips_corrupt):
        return list(range(len(files)))
    step = 1 if remote else FILES_PER_TASK
    once_ctx = replace(ctx, storage=with_path_cache(ctx.storage))
    checks = (
        {}
        if remote
        else {
            schema_id: PageHeaderChecks(ctx.runtime, once_ctx.storage, schema_columns)
            for schema_id, schema_columns in columns.items()
        }
    )

    def look(first: int) -> list[int]:
        indexes = []
        for at in range(first, min(first + step, len(files))):
            try:
                _verify_file(once_ctx, files[at], paths[at], snapshot_id, checks.get(files[at].schema_id))
            except FileMissing:
                if not skips_lost:
                    raise
            except Corrupt:
                if not skips_corrupt:
                    raise
            else:
                indexes.append(at)
        return indexes

    verified = [at for part in parallel_map(look, range(0, len(files), step), waiting=remote) for at in part]
    for check in checks.values():
        check.cache_checked()
    return verified


def read_whole_file(ctx: TableContext, path: str, size_bytes: int) -> bytes:
    """Return all bytes of a data file.

    Raises:
        FileMissing: the file does not exist.
        Corrupt: it has another size than its manifest says.
    """
    try:
        data = ctx.storage.read(path)
    except FileMissing as missing:
        raise make_file_missing(ctx, path, None, None) from missing
    if len(data) != size_bytes:
        raise make_size_mismatch(path, len(data), size_bytes)
    return data


def make_size_mismatch(path: str, size: int, expected: int) -> Corrupt:
    """Return the error of a file that is not as long as its manifest says."""
    return Corrupt(
        f"{path} is {size} bytes, the manifest says {expected}. Nothing was read", path=path, field="_FILE_SIZE"
    )


def _verify_file(
    ctx: TableContext,
    file: DataFileMeta,
    path: str,
    snapshot_id: int | None,
    checks: PageHeaderChecks | None,
) -> None:
    if checks is None or file.format_name != "parquet":
        _verify_tail(ctx, file, path, snapshot_id)
        return
    stat = ctx.storage.stat(path)
    if stat is not None and stat.size_bytes == file.size_bytes and checks.is_checked(stat):
        return
    is_whole = file.size_bytes <= MAX_WHOLE_READ_BYTES and checks.must_check(path)
    data = _verify_tail(ctx, file, path, snapshot_id, is_whole=is_whole)
    if stat is not None:
        checks.check(stat, data if is_whole else None)


def _verify_tail(
    ctx: TableContext, file: DataFileMeta, path: str, snapshot_id: int | None, *, is_whole: bool = False
) -> bytes:
    """Check the last bytes of a file and return them, or all bytes if `is_whole`."""
    size = max(0, file.size_bytes)
    first = 0 if is_whole else max(0, size - _TAIL_BYTES)
    try:
        data = ctx.storage.read(path, first, size - first + 1)
    except FileMissing as missing:
        raise make_file_missing(ctx, path, file, snapshot_id) from missing
    if len(data) != size - first:
        raise make_size_mismatch(path, ctx.storage.size(path), file.size_bytes)
    if file.format_name == "parquet":
        _check_tail(path, data[-_TAIL_BYTES:], size)
    return data


def _check_tail(path: str, tail: bytes, size: int) -> None:
    if tail[-4:] == b"PARE":
        raise Unsupported(
            f"{path} is encrypted Parquet, which lakekit does not read", feature="parquet.encryption", path=path
        )
    if tail[-4:] != b"PAR1":
        raise Corrupt(
            f"{path} does not end as a Parquet file does: {tail[-4:].hex(' ')} where PAR1 was expected",
            path=path,
            offset=size - 4,
            field="magic",
        )
    footer = int.from_bytes(tail[:4], "little")
    if footer > size - 12:
        raise Corrupt(
            f"{path}: a footer of {footer} bytes does not fit into a file of {size}",
            path=path,
            offset=size - 8,
            field="footer length",
        )


def make_file_missing(ctx: TableContext, path: str, file: DataFileMeta | None, snapshot_id: int | None) -> FileMissing:
    """Return the error for a data file that does not exist, with advice on what to read instead."""
    short = path.removeprefix(ctx.root.rstrip("/") + "/")
    size = "" if file is None else f" ({humanize.format_size(file.size_bytes)})"
    lists = f"{ctx.name} lists" if snapshot_id is None else f"snapshot {snapshot_id} of {ctx.name} lists"
    return FileMissing(
        f"{lists} {short}{size}, which is not there. Was it expired by another writer? "
        f"{_missing_file_advice(ctx, snapshot_id)}",
        path=path,
    )


def _missing_file_advice(ctx: TableContext, snapshot_id: int | None) -> str:
    newest = snapshots.latest_id(ctx)
    if newest is None or newest == snapshot_id:
        return "t.check() looks for other missing files"
    return f"t.scan(at={newest})"
