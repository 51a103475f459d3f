"""Records of manifest lists, manifests and index manifests, in Avro, ORC or Parquet.

The first bytes of a file identify its format.

    4f 62 6a 01   Avro      every table by default
    4f 52 43      ORC       tables of engines up to 1.4 with `manifest.format` = `orc`
    50 41 52 31   Parquet   the same with `parquet`

Fields are looked up by name. A missing field reads as null: files of older engines lack the last ones. Unknown fields
are returned by `others`. Source: FORMAT 4.1, ENGINE_1.4.2.
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
    """A field that lakekit does not know: its name, Avro type as JSON, and value, to be written back."""

    name: str
    declared: str
    value: Any


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one file as dicts, their schema (None if not Avro), and the offset of the first."""

    rows: list[dict[str, Any]]
    schema: AvroNode | None
    offset: int

    def facts(self, fact: Callable[[dict[str, Any]], T]) -> list[T]:
        """Convert each record by `fact`; errors get the index of the record and the offset of the records."""
        decoded = []
        for i, row in enumerate(self.rows):
            try:
                decoded.append(fact(row))
            except Corrupt as error:
                raise type(error)(
                    f"{error.message}, in record {i}", path=error.path, offset=self.offset, field=error.field
                ) from None
        return decoded

    def others(self, row: dict[str, Any], known_fields: Collection[str]) -> tuple[ExtraField, ...]:
        """Return the fields of a record that are not in `known_fields`, are set and `may_be_kept`."""
        if self.schema is None:
            return ()
        return tuple(
            ExtraField(name, json.dumps(part.declared), row[name])
            for name, part in zip(self.schema.names, self.schema.parts, strict=True)
            if name not in known_fields and row[name] is not None and may_be_kept(part)
        )


def may_be_kept(node: AvroNode) -> bool:
    """Return whether an unknown field can be written again.

    It must be nullable, so that other records may lack it, and declared in one piece.
    """
    if not node.nullable or node.value is node:
        return False
    try:
        return avro_schema.parse(json.dumps(node.declared).encode()) == node
    except (Corrupt, Unsupported):
        return False


def is_columnar(data: bytes) -> bool:
    """Return whether a metadata file is ORC or Parquet."""
    return data.startswith((columnar_file.ORC_MAGIC, columnar_file.PARQUET_MAGIC))


def table(data: bytes, path: str | None) -> pa.Table:
    """Return an ORC or Parquet metadata file as an Arrow table."""
    return columnar_file.read_table(data, limits=avro_container.METADATA, path=path)


def records(data: bytes, path: str | None = None, *, max_records: int | None = None) -> Records:
    """Return every record of a metadata file.

    Raises `Corrupt`, `LimitExceeded` (for more than `max_records` too), `Unsupported`.
    """
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
        prefix = "" if path is None else f"{path}: "
        raise LimitExceeded(
            f"{prefix}{record_count} records, and a file of this size holds {max_records} at most. It was not written "
            "by a Paimon engine; put it back from a copy, or roll back to a snapshot that does not name it",
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
    """Encode records as a file of kind `avro`, `orc` or `parquet`.

    `codec` is Avro's name of a compression, `sync` an Avro file's sync marker.
    """
    if kind != "avro":
        compression = _COMPRESSIONS.get(codec, (codec, codec))[kind == "parquet"]
        return columnar_file.write_table(
            pa.Table.from_pylist(list(rows), record_schemas.arrow(fields)), kind, compression
        )
    text, put = _writer(fields)
    return avro_container.write(text, (_encode_row(put, row) for row in rows), codec=codec, level=level, sync=sync)


def encode_record(fields: Fields, row: dict[str, Any]) -> bytes:
    """One record as it stands in an Avro file."""
    return _encode_row(_writer(fields)[1], row)


def write_encoded(fields: Fields, rows: Iterable[bytes], *, codec: str, level: int) -> bytes:
    """Return encoded records as an Avro file."""
    return avro_container.write(_writer(fields)[0], rows, codec=codec, level=level)


def _writer(fields: Fields) -> tuple[bytes, Write]:
    """Return the text and the encoder of a schema; cached unless newer writers' fields make it unhashable."""
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


# ---- one field of one record -----------------------------------------------------------------------------------------


def value(row: dict[str, Any], name: str, kind: type, path: str | None, *, default: Any = _NO_DEFAULT) -> Any:
    """Return a field's value, of the given type; `default`, if given, if it is null or missing."""
    field_value = row.get(name)
    if field_value is None:
        if default is _NO_DEFAULT:
            raise invalid_field(f"{name} is {'null' if name in row else 'not there'}", name, path)
        return default
    if not isinstance(field_value, kind) or (isinstance(field_value, bool) and kind is int):
        raise invalid_field(f"{name} is of type {type(field_value).__name__}, {kind.__name__} wanted", name, path)
    return field_value


def count(row: dict[str, Any], name: str, path: str | None) -> int:
    """Return a non-negative number. Raises `Corrupt`."""
    number: int = value(row, name, int, path)
    if number < 0:
        raise invalid_field(f"{name} is {number}", name, path)
    return number


def invalid_field(reason: str, field: str, path: str | None) -> Corrupt:
    """Return the error for an invalid field."""
    error = Corrupt(reason, field=field)
    return error if path is None else error.at(path)


def check_version(versions: Sequence[int], expected: int, subject: str, path: str | None) -> None:
    """Raise `Unsupported` for records of another `_VERSION`."""
    for version in versions:
        if version != expected:
            prefix = "" if path is None else f"{path}: "
            raise Unsupported(
                f"{prefix}{subject} of version {version}; lakekit knows {expected}. "
                f"{'A newer' if version > expected else 'An older'} engine wrote it",
                feature=f"{subject.replace(' ', '-')}.version-{version}",
                path=path,
            )
