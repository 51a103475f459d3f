"""Write Avro data files: containers of blocks, whose rows are encoded by column (`avro_cells`).

    "Obj" 01 | metadata: avro.schema, avro.codec | sync marker | blocks: row count, length, bytes, sync marker

The sync marker is derived from the schema and the first block, so that equal rows make equal files.

Source: FORMAT.md 7.6 and 7.8, `AvroFileFormat`, `AvroSchemaConverter`.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from lakekit.codec import avro_container as container
from lakekit.format import avro_cells
from lakekit.format.arrange import ArrowTarget, series_to_arrow
from lakekit.format.encoder import map_types, refuse_name, refuse_type
from lakekit.options.frozendict import EMPTY
from lakekit.types import BINARIES, STRINGS, part
from lakekit.world import core_count, map_prefetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    import pyarrow as pa

    from lakekit.format.encoder import Encoding
    from lakekit.types import DataType, Field

NAMESPACE = "org.apache.paimon.avro.generated"
BLOCK_BYTES = 1 << 20
"""Encoded bytes of a block where no option says another number."""
ROWS_AT_ONCE = 65536
_MOST_BLOCK_BYTES = 1 << 30
_UNIT = "\uffff"
"""The last character that is one unit of UTF-16."""
_FORM = ArrowTarget(format_name="avro", pairs=True, count_times=True)
_PLAIN_TYPES = {
    "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long", "FLOAT": "float",
    "DOUBLE": "double",
    **dict.fromkeys(STRINGS, "string"), **dict.fromkeys(BINARIES, "bytes"),
}  # fmt: skip


def open_writer(sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> AvroEncoder:
    """Return a writer of one Avro file. Raises `Unsupported`."""
    return AvroEncoder(sink, fields, encoding)


def check_types(fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for a column that Avro files do not hold."""
    schema_text(fields)


class AvroEncoder:
    """One Avro file that is being written; see `encoder.Encoder`."""

    told = EMPTY

    def __init__(self, sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> None:
        self._sink, self._fields, self._level = sink, tuple(fields), encoding.compression_level
        self._codec = container.codec_named(encoding.compression)
        self._schema = schema_text(fields)
        self._block_bytes = min(encoding.block_bytes or BLOCK_BYTES, _MOST_BLOCK_BYTES)
        self._sync: bytes | None = None
        self._body = bytearray()
        self._rows = self._written = self._raw_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes written to the sink, and what the open block will add if it compresses as those before it."""
        ratio = self._written / self._raw_bytes if self._raw_bytes else 0.5
        return self._written + int(len(self._body) * ratio)

    def can_add(self, frame: pl.DataFrame) -> bool:  # noqa: ARG002 - any rows fit beside any others
        """Return True."""
        return True

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows; full blocks go to the sink at once."""
        parts = (frame.slice(start, ROWS_AT_ONCE) for start in range(0, frame.height, ROWS_AT_ONCE))
        for rows in map_prefetch(self._encoded, parts, core_count() if frame.height > ROWS_AT_ONCE else 1):
            self._add(rows)

    def flush(self) -> None:
        """End the block: every row added so far goes to the sink."""
        if self._rows:
            self._block(self._rows, bytes(self._body))
            self._raw_bytes += len(self._body)
            self._body, self._rows = bytearray(), 0

    def close(self) -> None:
        """Write the last block; a file without rows is its header."""
        self.flush()
        if self._sync is None:
            self._head(b"")

    def _encoded(self, frame: pl.DataFrame) -> pa.Array:
        return avro_cells.record(
            [series_to_arrow(frame.get_column(field.name), field, _FORM) for field in self._fields], self._fields
        )

    def _add(self, rows: pa.Array) -> None:
        offsets = avro_cells.offsets_of(rows)
        data = memoryview(rows.buffers()[2]) if rows.buffers()[2] is not None else memoryview(b"")
        row = 0
        while row < len(rows):  # scalar: a block of many rows a step
            limit = int(offsets[row]) + self._block_bytes - len(self._body)
            end = min(len(rows), max(row + 1, int(np.searchsorted(offsets, limit, side="left"))))
            self._body += data[int(offsets[row]) : int(offsets[end])]
            self._rows += end - row
            row = end
            if len(self._body) >= self._block_bytes:
                self.flush()

    # ---- the container

    def _head(self, first: bytes) -> None:
        digest = hashlib.blake2b(self._schema, digest_size=container.SYNC_BYTES)
        digest.update(first)
        self._sync = digest.digest()
        out = bytearray(container.MAGIC)
        metadata = {b"avro.schema": self._schema, b"avro.codec": self._codec.encode()}
        container.put_long(out, len(metadata))
        for key, text in metadata.items():
            for piece in (key, text):
                container.put_long(out, len(piece))
                out += piece
        self._put(bytes(out) + b"\0" + self._sync)

    def _block(self, rows: int, body: bytes) -> None:
        if self._sync is None:
            self._head(body)
        assert self._sync is not None
        packed = container.compress_block(body, self._codec, self._level)
        head = bytearray()
        container.put_long(head, rows)
        container.put_long(head, len(packed))
        self._put(bytes(head) + packed + self._sync)

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._written += len(data)


# ---- the schema ------------------------------------------------------------------------------------------------------


def schema_text(fields: Sequence[Field]) -> bytes:
    """Return the schema of a file as its JSON text.

    Raises:
        Unsupported: Avro files of Paimon do not hold the type or the name of a column.
    """
    record = {
        "type": "record",
        "name": "record",
        "namespace": NAMESPACE,
        "fields": [_field(field.name, field.type, "record") for field in fields],
    }
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def bad_name(name: str) -> str | None:
    """Return what is wrong with the name of a field; None for a valid name (`Schema.validateName`).

    A name is letters that are one unit of UTF-16, digits and _, and does not begin with a digit.
    """
    if not _is_letter(name[:1]):
        return f"Illegal initial character: {name}"
    return (
        None
        if all(_is_letter(character) or (character.isdecimal() and character <= _UNIT) for character in name)
        else f"Illegal character in: {name}"
    )


def _is_letter(character: str) -> bool:
    return character == "_" or (character.isalpha() and character <= _UNIT)


def _field(name: str, t: DataType, parent: str) -> dict[str, Any]:
    if bad_name(name) is not None:
        raise refuse_name(name, "avro", "whose names are letters, digits and _, and begin with no digit")
    member = {"name": name, "type": _type(t, f"{parent}_{name}")}
    return member | {"default": None} if t.nullable else member


def _type(t: DataType, name: str) -> Any:
    """Return the schema of a value; `name` is that of the record it may be."""
    non_null = _non_null_type(t, name)
    return ["null", non_null] if t.nullable else non_null


def _non_null_type(t: DataType, name: str) -> Any:
    if t.root in _PLAIN_TYPES:
        return _PLAIN_TYPES[t.root]
    match t.root:
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "TIME":
            return {"type": "int", "logicalType": "time-millis"}
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            unit = "micros" if avro_cells.micros(t) else "millis"
            return {
                "type": "long",
                "logicalType": f"timestamp-{unit}" if t.root == "TIMESTAMP" else f"local-timestamp-{unit}",
            }
        case "DECIMAL":
            return {"type": "bytes", "logicalType": "decimal", "precision": t.precision or 10, "scale": t.scale or 0}
        case "ARRAY":
            return {"type": "array", "items": _type(part(t.element), name)}
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            value = value.as_nullable() if t.root == "MULTISET" else value
            if key.root in STRINGS:
                return {"type": "map", "values": _type(value, name)}
            if t.root == "MULTISET":  # the reference neither writes nor reads one
                raise refuse_type(t, "avro")
            entry = [{"name": "key", "type": _type(key, f"{name}_key")}, _field("value", value, name)]
            return {"type": "array", "items": {"type": "record", "name": name, "fields": entry}, "logicalType": "map"}
        case "ROW":
            return {
                "type": "record",
                "name": name,
                "fields": [_field(field.name, field.type, name) for field in t.fields],
            }
        case "VARIANT":
            return {
                "type": "record",
                "name": name,
                "fields": [{"name": "value", "type": "bytes"}, {"name": "metadata", "type": "bytes"}],
            }
    raise refuse_type(t, "avro")
