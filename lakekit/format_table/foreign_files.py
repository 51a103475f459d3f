"""Files that other engines wrote to a folder: flat, or in folders that name the values of partition columns.

    <root>/part-0.parquet                     <root>/dt=2024-01-01/hr=__HIVE_DEFAULT_PARTITION__/000000_0

Names that begin with a dot, or with `_` and are no `k=v`, are skipped, as Spark and Hive skip them; so are empty files,
which Hive leaves for buckets without rows. Folders that are no `k=v` are searched. A folder of another table format is
refused: its files alone do not show which of them are rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakekit.errors import Corrupt, NotFound, SchemaMismatch, Unsupported
from lakekit.format import foreign_file
from lakekit.format_table.listing import is_hidden
from lakekit.model import partition as partitions
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.storage.protocol import Stat, Storage

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_HEAD_BYTES = 4
_OTHER_FORMATS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_TRANSACTIONS = re.compile(r"(base|delta|delete_delta)_\d+(_\d+)*")
_MARKS = ("_SUCCESS", "_metadata", "_common_metadata")
"""What writers leave beside files, which says something of these files only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFile:
    """A file of rows, its format, and the texts of its partition values in the order of the keys."""

    path: str
    size_bytes: int
    format_name: str
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSource:
    """The files of a folder.

    `beside` are files that hold no rows and only describe the others; `folders` are listed before the folders that
    contain them.
    """

    storage: Storage
    root: str
    keys: tuple[str, ...]
    files: tuple[ForeignFile, ...]
    beside: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def source(storage: Storage, root: str) -> ForeignSource:
    """Return the files in a folder, or a single file.

    Raises: `NotFound` where nothing is, or no file of rows; `Unsupported` for a folder of another table format,
    `SchemaMismatch` where folders disagree on the partition columns, `Corrupt` for a file that is no Parquet, ORC or
    Avro.
    """
    inside = storage.list(root)
    stat = None if inside else storage.stat(root)
    if stat is not None and not stat.is_dir:
        inside = [stat]
    elif not inside:
        what = "an empty folder" if stat is not None else "nothing"
        raise NotFound(
            f'there is {what} at "{root}", where Parquet, ORC or Avro files were to be taken over', name=root
        )
    _refuse_tables(storage, root, inside)
    folders: list[str] = []
    seen = list(_walk(storage, root, inside, folders))
    files = [entry for entry in seen if entry.size_bytes and not _is_hidden(entry.name)]
    if not files:
        raise NotFound(
            f'"{root}" holds no files of rows: hidden and empty ones are passed over. Name the folder that they lie in',
            name=root,
        )
    keys, texts = _partitions(root, files)
    heads = parallel_map(lambda entry: storage.read(entry.path, 0, _HEAD_BYTES), files, waiting=storage.is_remote)
    row_files = [
        ForeignFile(path=entry.path, size_bytes=entry.size_bytes, format_name=_format(entry, head), texts=own)
        for entry, head, own in zip(files, heads, texts, strict=True)
    ]
    return ForeignSource(
        storage=storage,
        root=root,
        keys=keys,
        files=tuple(row_files),
        beside=_side_files(seen, files),
        folders=tuple(folders),
    )


def _is_hidden(name: str) -> bool:
    """Return whether readers of format tables skip a name.

    A partition of a column whose name begins with `_` is not skipped.
    """
    return is_hidden(name) and not (name.startswith("_") and "=" in name)


def _walk(storage: Storage, folder: str, inside: Sequence[Stat], folders: list[str]) -> Iterator[Stat]:
    """Yield the files below a folder, hidden ones too; its folders are added to `folders`, deepest first."""
    for entry in inside:
        if not entry.is_dir:
            yield entry
        elif _TRANSACTIONS.fullmatch(entry.name):
            raise Unsupported(
                f"{entry.path} is of a transactional table of Hive, whose rows are not to be seen from its files. "
                "Have Hive write them out plainly",
                feature="procedure.migrate_table",
            )
        elif not _is_hidden(entry.name):
            yield from _walk(storage, entry.path, storage.list(entry.path), folders)
    folders.append(folder)


def _refuse_tables(storage: Storage, root: str, inside: Sequence[Stat]) -> None:
    names = {entry.name for entry in inside if entry.is_dir}
    kind = next((what for name, what in _OTHER_FORMATS.items() if name in names), None)
    if (
        kind is None
        and "metadata" in names
        and any(entry.name.endswith(".metadata.json") for entry in storage.list(f"{root}/metadata"))
    ):
        kind = "Iceberg"
    if kind is not None:
        msg = (
            f'"{root}" is a table of {kind}: which of its files are rows says its own log. Read it with its own '
            "library and append the rows"
        )
        raise Unsupported(msg, feature="procedure.migrate_table", path=root)
    if any(
        entry.name.startswith("schema-")
        for name in ("schema", "_schema")
        if name in names
        for entry in storage.list(f"{root}/{name}")
    ):
        msg = (
            f'"{root}" is a table of Paimon already: open it with lk.open, or copy it with cat.clone. Of a format '
            "table, name the table and not its folder"
        )
        raise Unsupported(msg, feature="procedure.migrate_table", path=root)


def _format(entry: Stat, head: bytes) -> str:
    format_name = foreign_file.format_of(head)
    if format_name is None:
        raise Corrupt(
            f"{entry.path} is no Parquet, ORC or Avro file: it begins with {head!r}. Move it away, or name a folder "
            "without it",
            path=entry.path,
            offset=0,
        )
    return format_name


def _side_files(seen: Sequence[Stat], files: Sequence[Stat]) -> tuple[str, ...]:
    """Return empty files, and those that only say that the others are complete, or their checksums."""
    taken = {entry.path for entry in files}
    places = [path.rpartition("/") for path in taken]
    sums = {f"{folder}/.{name}.crc" for folder, _, name in places}
    marks = {name for mark in _MARKS for name in (mark, f".{mark}.crc")}
    return tuple(
        entry.path
        for entry in seen
        if entry.path not in taken
        and (entry.path in sums or entry.name in marks or not (entry.size_bytes or _is_hidden(entry.name)))
    )


# ---- partitions ----------------------------------------------------------------------------------


def _partitions(root: str, files: Sequence[Stat]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the partition columns, and each file's texts for them."""
    specs = [_spec(entry.path[len(root.rstrip("/")) :]) for entry in files]
    keys = tuple(name for name, _ in specs[0])
    for entry, spec in zip(files, specs, strict=True):
        own = tuple(name for name, _ in spec)
        if own != keys:
            msg = (
                f"{entry.path} lies in partitions by {', '.join(own) or 'nothing'}, {files[0].path} by "
                f"{', '.join(keys) or 'nothing'}; a table has one kind"
            )
            raise SchemaMismatch(msg, column=next(iter(own or keys)))
        if len(set(own)) < len(own):
            raise SchemaMismatch(f"{entry.path} lies in two partitions of one column", column=own[0])
    return keys, [tuple(text for _, text in spec) for spec in specs]


def _spec(below: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in below.split("/")[:-1] if "=" in part]
    return [(_unescape(name), _unescape(text)) for name, _, text in pairs]


def _unescape(text: str) -> str:
    """Return the text that a folder's name stands for.

    Hive and Spark escape single characters, Polars and Arrow the bytes of UTF-8.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return partitions.unescape(text)
