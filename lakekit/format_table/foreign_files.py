"""Files that other engines laid into a folder, as they are found: flat, or in folders that say the values of partition columns.

    <root>/part-0.parquet                     <root>/dt=2024-01-01/hr=__HIVE_DEFAULT_PARTITION__/000000_0

What begins with a dot, or with `_` and is no `k=v`, is passed over, as Spark and Hive pass it over; so are files without a byte, which Hive leaves for buckets
without rows. Folders that are no `k=v` are looked into. A folder of another table format is refused: which of its files are rows is not to be seen from them.
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
    """What lies at a place. `beside` are files that hold no row and say something of the others only; `folders` come before those that they lie in."""

    storage: Storage
    root: str
    keys: tuple[str, ...]
    files: tuple[ForeignFile, ...]
    beside: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def source(storage: Storage, root: str) -> ForeignSource:
    """What lies in a folder, or a single file.

    Raises `NotFound` where nothing is, or no file of rows; `Unsupported` for a folder of another table format, `SchemaMismatch` where folders disagree on the
    partition columns, `Corrupt` for a file that is no Parquet, ORC or Avro.
    """
    inside = storage.list(root)
    known = None if inside else storage.stat(root)
    if known is not None and not known.is_dir:
        inside = [known]
    elif not inside:
        what = "an empty folder" if known is not None else "nothing"
        raise NotFound(f'there is {what} at "{root}", where Parquet, ORC or Avro files were to be taken over', name=root)
    _refuse_tables(storage, root, inside)
    folders: list[str] = []
    seen = list(_walk(storage, root, inside, folders))
    files = [one for one in seen if one.size_bytes and not _is_hidden(one.name)]
    if not files:
        raise NotFound(f'"{root}" holds no files of rows: hidden and empty ones are passed over. Name the folder that they lie in', name=root)
    keys, texts = _partitions(root, files)
    heads = parallel_map(lambda one: storage.read(one.path, 0, _HEAD_BYTES), files, waiting=storage.is_remote)
    found = [
        ForeignFile(path=one.path, size_bytes=one.size_bytes, format_name=_format(one, head), texts=own)
        for one, head, own in zip(files, heads, texts, strict=True)
    ]
    return ForeignSource(storage=storage, root=root, keys=keys, files=tuple(found), beside=_side_files(seen, files), folders=tuple(folders))


def _is_hidden(name: str) -> bool:
    """What readers of format tables pass over, but for partitions of a column whose name begins with `_`."""
    return is_hidden(name) and not (name.startswith("_") and "=" in name)


def _walk(storage: Storage, folder: str, inside: Sequence[Stat], folders: list[str]) -> Iterator[Stat]:
    """The files below a folder, hidden ones too; the folders on the way are told, the deepest first."""
    for one in inside:
        if not one.is_dir:
            yield one
        elif _TRANSACTIONS.fullmatch(one.name):
            raise Unsupported(
                f"{one.path} is of a transactional table of Hive, whose rows are not to be seen from its files. Have Hive write them out plainly",
                feature="procedure.migrate_table",
            )
        elif not _is_hidden(one.name):
            yield from _walk(storage, one.path, storage.list(one.path), folders)
    folders.append(folder)


def _refuse_tables(storage: Storage, root: str, inside: Sequence[Stat]) -> None:
    names = {one.name for one in inside if one.is_dir}
    kind = next((what for name, what in _OTHER_FORMATS.items() if name in names), None)
    if kind is None and "metadata" in names and any(one.name.endswith(".metadata.json") for one in storage.list(f"{root}/metadata")):
        kind = "Iceberg"
    if kind is not None:
        msg = f'"{root}" is a table of {kind}: which of its files are rows says its own log. Read it with its own library and append the rows'
        raise Unsupported(msg, feature="procedure.migrate_table", path=root)
    if any(one.name.startswith("schema-") for name in ("schema", "_schema") if name in names for one in storage.list(f"{root}/{name}")):
        msg = f'"{root}" is a table of Paimon already: open it with lk.open, or copy it with cat.clone. Of a format table, name the table and not its folder'
        raise Unsupported(msg, feature="procedure.migrate_table", path=root)


def _format(one: Stat, head: bytes) -> str:
    found = foreign_file.format_of(head)
    if found is None:
        raise Corrupt(
            f"{one.path} is no Parquet, ORC or Avro file: it begins with {head!r}. Move it away, or name a folder without it", path=one.path, offset=0
        )
    return found


def _side_files(seen: Sequence[Stat], files: Sequence[Stat]) -> tuple[str, ...]:
    """Empty files, and those that say of the others that they are done, or whole."""
    taken = {one.path for one in files}
    places = [path.rpartition("/") for path in taken]
    sums = {f"{folder}/.{name}.crc" for folder, _, name in places}
    marks = {name for mark in _MARKS for name in (mark, f".{mark}.crc")}
    return tuple(one.path for one in seen if one.path not in taken and (one.path in sums or one.name in marks or not (one.size_bytes or _is_hidden(one.name))))


# ---- partitions ----------------------------------------------------------------------------------


def _partitions(root: str, files: Sequence[Stat]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The partition columns, and each file's texts for them."""
    specs = [_spec(one.path[len(root.rstrip("/")) :]) for one in files]
    keys = tuple(name for name, _ in specs[0])
    for one, spec in zip(files, specs, strict=True):
        own = tuple(name for name, _ in spec)
        if own != keys:
            msg = f"{one.path} lies in partitions by {', '.join(own) or 'nothing'}, {files[0].path} by {', '.join(keys) or 'nothing'}; a table has one kind"
            raise SchemaMismatch(msg, column=next(iter(own or keys)))
        if len(set(own)) < len(own):
            raise SchemaMismatch(f"{one.path} lies in two partitions of one column", column=own[0])
    return keys, [tuple(text for _, text in spec) for spec in specs]


def _spec(below: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in below.split("/")[:-1] if "=" in part]
    return [(_unescape(name), _unescape(text)) for name, _, text in pairs]


def _unescape(text: str) -> str:
    """The text that a folder's name stands for: Hive and Spark escape single characters, Polars and Arrow the bytes of UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return partitions.unescape(text)
