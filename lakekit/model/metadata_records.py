"""Records of manifest lists, manifests and index manifests, whatever holds them: Avro, ORC or Parquet, told apart by their first bytes.

    4f 62 6a 01   Avro      every table by default
    4f 52 43      ORC       tables of engines up to 1.4 with `manifest.format` = `orc`
    50 41 52 31   Parquet   the same with `parquet`

Fields are found by name. A field that is not there reads as null: files of older engines lack the last ones. Fields that nobody knows are left to the
caller by `others`. Source: FORMAT 4.1, ENGINE_1.4.2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakekit.codec import avro_columns, avro_container, avro_schema, avro_values
from lakekit.codec.avro_schema import record_of
from lakekit.errors import Corrupt, LimitExceeded, Unsupported
from lakekit.model import columnar_file, record_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.avro_values import Write
    from lakekit.model.record_schemas import Fields

    T = TypeVar("T")

_NO_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class ExtraField:
    """A field that lakekit does not know: its name, its Avro type as JSON, and its value, to be written back."""

    name: str
    declared: str
    value: Any


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one file as dicts, the declarations of their fields (None where the file is not Avro), and where they begin in it."""

    rows: list[dict[str, Any]]
    schema: AvroNode | None
    offset: int

    def facts(self, fact: Callable[[dict[str, Any]], T]) -> list[T]:
        """What each record says; an error about one says where the records begin."""
        found = []
        for i, row in enumerate(self.rows):
            try:
                found.append(fact(row))
            except Corrupt as error:
                raise type(error)(f"{error.message}, in record {i}", path=error.path, offset=self.offset, field=error.field) from None
        return found

    def others(self, row: dict[str, Any], known: Collection[str]) -> tuple[ExtraField, ...]:
        """The fields of a record that are not in `known`, as far as they are set and `may_be_kept`."""
        if self.schema is None:
            return ()
        return tuple(
            ExtraField(name, json.dumps(part.declared), row[name])
            for name, part in zip(self.schema.names, self.schema.parts, strict=True)
            if name not in known and row[name] is not None and may_be_kept(part)
        )


def may_be_kept(node: AvroNode) -> bool:
    """Whether an unknown field can be written again: it is null or one other type, declared in one piece, and so may be missing from other records."""
    if not node.nullable or node.value is node:
        return False
    try:
        return avro_schema.parse(json.dumps(node.declared).encode()) == node
    except (Corrupt, Unsupported):
        return False


def is_columnar(data: bytes) -> bool:
    """Whether a metadata file is ORC or Parquet."""
    return data.startswith((columnar_file.ORC_MAGIC, columnar_file.PARQUET_MAGIC))


def table(data: bytes, path: str | None) -> pa.Table:
    """An ORC or Parquet metadata file as an Arrow table."""
    return columnar_file.read_table(data, limits=avro_container.METADATA, path=path)


def records(data: bytes, path: str | None = None, *, max_records: int | None = None) -> Records:
    """Every record of a metadata file. Raises `Corrupt`, `LimitExceeded` (of more than `max_records` too), `Unsupported`."""
    if is_columnar(data):
        columns = table(data, path)
        check_count(columns.num_rows, max_records, path)
        return Records(columns.to_pylist(), None, 0)
    container = avro_container.open_container(data, path=path)
    check_count(container.count, max_records, path)
    offset = container.blocks[0].offset if container.blocks else 0
    return Records(avro_columns.read_records(container), record_of(container.schema), offset)


def check_count(record_count: int, max_records: int | None, path: str | None) -> None:
    """Raise `LimitExceeded` for a file of more records than its size can hold by any writer."""
    if max_records is not None and record_count > max_records:
        where = "" if path is None else f"{path}: "
        raise LimitExceeded(
            f"{where}{record_count} records, and a file of this size holds {max_records} at most. It was not written by a Paimon engine; "
            "put it back from a copy, or roll back to a snapshot that does not name it",
            path=path,
            field="record count",
        )


_COMPRESSIONS = {"zstandard": ("zstd", "zstd"), "null": ("none", "none"), "deflate": ("zlib", "gzip")}
"""What ORC and Parquet call an Avro codec; other names they share."""


def write(
    fields: Fields,
    rows: Iterable[dict[str, Any]],
    *,
    kind: str = "avro",
    codec: str = "zstandard",
    level: int = avro_container.ZSTD_LEVEL,
    sync: bytes | None = None,
) -> bytes:
    """Records as a file of some kind: `avro`, `orc` or `parquet`. `codec` is Avro's name of a compression, `sync` an Avro file's marker."""
    if kind != "avro":
        compression = _COMPRESSIONS.get(codec, (codec, codec))[kind == "parquet"]
        return columnar_file.write_table(pa.Table.from_pylist(list(rows), record_schemas.arrow(fields)), kind, compression)
    text, put = _writer(fields)
    return avro_container.write(text, (_encode_row(put, row) for row in rows), codec=codec, level=level, sync=sync)


def encode_record(fields: Fields, row: dict[str, Any]) -> bytes:
    """One record as it stands in an Avro file."""
    return _encode_row(_writer(fields)[1], row)


def write_encoded(fields: Fields, rows: Iterable[bytes], *, codec: str, level: int) -> bytes:
    """Encoded records as an Avro file."""
    return avro_container.write(_writer(fields)[0], rows, codec=codec, level=level)


def _writer(fields: Fields) -> tuple[bytes, Write]:
    """The text of a schema, and what encodes a record of it; kept for the schemas that are always the same."""
    try:
        return _cached_writer(fields)
    except TypeError:  # declarations of newer writers are dicts
        return _cached_writer.__wrapped__(fields)


@lru_cache(maxsize=16)
def _cached_writer(fields: Fields) -> tuple[bytes, Write]:
    text = record_schemas.text(fields)
    return text, avro_values.writer(avro_schema.parse(text))


def _encode_row(put: Write, row: dict[str, Any]) -> bytes:
    out = bytearray()
    put(out, row)
    return bytes(out)


# ---- one field of one record -----------------------------------------------------------------------------------------------------------------------------


def value(row: dict[str, Any], name: str, kind: type, path: str | None, *, default: Any = _NO_DEFAULT) -> Any:
    """A field's value, of that type; `default`, if given, where it is null or not there."""
    found = row.get(name)
    if found is None:
        if default is _NO_DEFAULT:
            raise invalid_field(f"{name} is {'null' if name in row else 'not there'}", name, path)
        return default
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
        raise invalid_field(f"{name} is of type {type(found).__name__}, {kind.__name__} wanted", name, path)
    return found


def count(row: dict[str, Any], name: str, path: str | None) -> int:
    """A number that cannot be negative."""
    found: int = value(row, name, int, path)
    if found < 0:
        raise invalid_field(f"{name} is {found}", name, path)
    return found


def invalid_field(why: str, field: str, path: str | None) -> Corrupt:
    """The error for what a field says."""
    found = Corrupt(why, field=field)
    return found if path is None else found.at(path)


def check_version(versions: Sequence[int], known: int, what: str, path: str | None) -> None:
    """Refuses records of another `_VERSION`."""
    for version in versions:
        if version != known:
            where = "" if path is None else f"{path}: "
            raise Unsupported(
                f"{where}{what} of version {version}; lakekit knows {known}. {'A newer' if version > known else 'An older'} engine wrote it",
                feature=f"{what.replace(' ', '-')}.version-{version}",
                path=path,
            )
