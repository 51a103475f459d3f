"""Avro schemas of manifest lists, manifests and index manifests, as in the reference (FORMAT 4.1).

The root record is `record` in `org.apache.paimon.avro.generated`; a nested record is named after its parent and its
field, `record__FILE__KEY_STATS`. A nullable field is `["null", X]` in this order with default null. `text(LIST)`
returns the bytes in a file's header. Tables of engines up to 1.4 may hold the same records as ORC or Parquet
(`manifest.format`): `arrow(LIST)` returns their columns.

Fields that a newer writer added are kept: their declarations follow the last field that the reference knows.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lakekit.codec.avro_columns import arrow_type
from lakekit.codec.avro_schema import parse
from lakekit.options.frozendict import FrozenDict

NAMESPACE = "org.apache.paimon.avro.generated"
Fields = tuple[tuple[str, Any], ...]
"""Names and types. A type is an Avro primitive's name, ("null", X), ("array", X), fields of a record, or an object
given as it is.
"""

TIME = FrozenDict({"type": "long", "logicalType": "timestamp-millis"})
STATS: Fields = (
    ("_MIN_VALUES", "bytes"),
    ("_MAX_VALUES", "bytes"),
    ("_NULL_COUNTS", ("null", ("array", ("null", "long")))),
)
LIST: Fields = (
    ("_VERSION", "int"),
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_NUM_ADDED_FILES", "long"),
    ("_NUM_DELETED_FILES", "long"),
    ("_PARTITION_STATS", STATS),
    ("_SCHEMA_ID", "long"),
    ("_MIN_BUCKET", ("null", "int")),
    ("_MAX_BUCKET", ("null", "int")),
    ("_MIN_LEVEL", ("null", "int")),
    ("_MAX_LEVEL", ("null", "int")),
    ("_MIN_ROW_ID", ("null", "long")),
    ("_MAX_ROW_ID", ("null", "long")),
)
FILE: Fields = (
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_ROW_COUNT", "long"),
    ("_MIN_KEY", "bytes"),
    ("_MAX_KEY", "bytes"),
    ("_KEY_STATS", STATS),
    ("_VALUE_STATS", STATS),
    ("_MIN_SEQUENCE_NUMBER", "long"),
    ("_MAX_SEQUENCE_NUMBER", "long"),
    ("_SCHEMA_ID", "long"),
    ("_LEVEL", "int"),
    ("_EXTRA_FILES", ("array", "string")),
    ("_CREATION_TIME", ("null", TIME)),
    ("_DELETE_ROW_COUNT", ("null", "long")),
    ("_EMBEDDED_FILE_INDEX", ("null", "bytes")),
    ("_FILE_SOURCE", ("null", "int")),
    ("_VALUE_STATS_COLS", ("null", ("array", "string"))),
    ("_EXTERNAL_PATH", ("null", "string")),
    ("_FIRST_ROW_ID", ("null", "long")),
    ("_WRITE_COLS", ("null", ("array", "string"))),
)
ENTRY_HEAD: Fields = (
    ("_VERSION", "int"),
    ("_KIND", "int"),
    ("_PARTITION", "bytes"),
    ("_BUCKET", "int"),
    ("_TOTAL_BUCKETS", "int"),
)
"""The reference decodes these and `_FILE` by position: nothing may be added among them."""
RANGE: Fields = (("f0", "string"), ("f1", "int"), ("f2", "int"), ("_CARDINALITY", ("null", "long")))
GLOBAL_INDEX: Fields = (
    ("_ROW_RANGE_START", "long"),
    ("_ROW_RANGE_END", "long"),
    ("_INDEX_FIELD_ID", "int"),
    ("_EXTRA_FIELD_IDS", ("null", ("array", "int"))),
    ("_INDEX_META", ("null", "bytes")),
)
SOURCE_META: Fields = (("_SOURCE_META", ("null", "bytes")),)
"""What engine 2.0 adds to `_GLOBAL_INDEX`."""


def entry(extra: Fields = ()) -> Fields:
    """Return the fields of a manifest's record; `extra` are declarations after the last field of `_FILE`."""
    return (*ENTRY_HEAD, ("_FILE", FILE + extra))


def index_entry(extra: Fields = (), *, source_meta: bool = False) -> Fields:
    """Return the fields of an index manifest's record."""
    return (
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_INDEX_TYPE", "string"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        ("_DELETIONS_VECTORS_RANGES", ("null", ("array", ("null", RANGE)))),
        ("_EXTERNAL_PATH", ("null", "string")),
        ("_GLOBAL_INDEX", ("null", GLOBAL_INDEX + (SOURCE_META if source_meta else ()))),
        *extra,
    )


def text(fields: Fields) -> bytes:
    """Return the schema text of a record with those fields."""
    root = {"type": "record", "name": "record", "namespace": NAMESPACE, "fields": _fields(fields, "record")}
    return json.dumps(root, separators=(",", ":"), ensure_ascii=False).encode()


def arrow(fields: Fields) -> pa.Schema:
    """Return the same record as columns of an ORC or Parquet file."""
    return pa.schema([_arrow_field(name, t) for name, t in fields])


_ARROW = {"int": pa.int32(), "long": pa.int64(), "bytes": pa.binary(), "string": pa.string()}
_TINYINT_FIELDS = frozenset({"_KIND", "_FILE_SOURCE"})
"""TINYINT: a type of their own in ORC and Parquet, an int in Avro."""


def _arrow_field(name: str, t: Any) -> pa.Field:
    nullable = isinstance(t, (tuple, list)) and t[0] == "null"
    inner = t[1] if nullable and isinstance(t, tuple) else t
    return pa.field(name, pa.int8() if name in _TINYINT_FIELDS else _arrow(inner), nullable)


def _arrow(t: Any) -> pa.DataType:
    match t:
        case str():
            return _ARROW[t]
        case {"logicalType": _}:
            return pa.timestamp("ms")
        case dict() | list():  # declared by a newer writer
            return arrow_type(parse(json.dumps(t).encode()))
        case ("array", inner):
            return pa.list_(_arrow_field("element", inner))
    return pa.struct([_arrow_field(name, inner) for name, inner in t])


def _fields(fields: Fields, parent: str) -> list[dict[str, Any]]:
    declared: list[dict[str, Any]] = []
    for name, t in fields:
        resolved = _type(t, f"{parent}_{name}")
        optional = isinstance(resolved, list) and resolved[0] == "null"
        declared.append({"name": name, "type": resolved} | ({"default": None} if optional else {}))
    return declared


def _type(t: Any, name: str) -> Any:
    match t:
        case str() | dict() | list():
            return t
        case ("null", inner):
            return ["null", _type(inner, name)]
        case ("array", inner):
            return {"type": "array", "items": _type(inner, name)}
    return {"type": "record", "name": name, "fields": _fields(t, name)}
