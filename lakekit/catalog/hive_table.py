"""The entry of a Paimon table in a Hive metastore, for other engines. The table's schema files are authoritative.

    BIGINT, STRING, TIMESTAMP_LTZ(3)     bigint, string, timestamp
    MAP<STRING, INT>, ROW<a INT>         map<string,int>, struct<a:int>

Source: ENGINE.md 9.4; `HiveCatalog.newHmsTable`, `HiveTypeUtils`.
"""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

from lakekit.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.model.table_schema import TableSchema
    from lakekit.types import DataType

    Entry = dict[str, Any]
    """A table as the metastore has it."""

INPUT, OUTPUT = "org.apache.paimon.hive.mapred.PaimonInputFormat", "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE, _HANDLER = "org.apache.paimon.hive.PaimonSerDe", "org.apache.paimon.hive.PaimonStorageHandler"
_MAX_RETENTION = 2**31 - 1
_HIVE_TYPES = {
    name.upper(): name for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date")
}
_HIVE_TYPES |= {
    "TIME": "string",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "BLOB": "binary",
}
_SIZED_TYPES = {"CHAR": ("char", 255), "VARCHAR": ("varchar", 65535)}


def is_paimon(entry: Entry) -> bool:
    """Whether an entry is a Paimon table: its formats say so."""
    stored = entry.get("sd", {})
    return (stored.get("inputFormat"), stored.get("outputFormat")) == (INPUT, OUTPUT)


def is_external(entry: Entry) -> bool:
    """Whether the table's files outlive its entry."""
    return bool(entry.get("tableType") == "EXTERNAL_TABLE")


def new_entry(
    database: str, table: str, schema: TableSchema, location: str, *, now_ms: int, is_external: bool, is_syncing: bool
) -> Entry:
    """Return the entry of a new table."""
    options = (
        schema.options
        if is_syncing
        else {key: value for key, value in schema.options.items() if key.startswith("hive.")}
    )
    parameters = {
        **options,
        **(_keys(schema) if is_syncing else {}),
        "table_type": "PAIMON",
        "storage_handler": _HANDLER,
    }
    if schema.comment is not None:
        parameters["comment"] = schema.comment
    if is_external:
        parameters["EXTERNAL"] = "TRUE"
    entry: Entry = {
        "tableName": table,
        "dbName": database,
        "owner": getpass.getuser(),
        "createTime": now_ms // 1000,
        "lastAccessTime": now_ms // 1000,
        "retention": _MAX_RETENTION,
        "partitionKeys": [],
        "parameters": parameters,
        "tableType": "EXTERNAL_TABLE" if is_external else "MANAGED_TABLE",
        "sd": {
            "location": location,
            "compressed": False,
            "numBuckets": 0,
            "bucketCols": [],
            "sortCols": [],
            "parameters": {},
        },
    }
    return _set_columns(entry, schema)


def update_entry(entry: Entry, schema: TableSchema, removed: Iterable[str], *, is_syncing: bool) -> Entry:
    """Return the entry after the table's schema changed; parameters of other engines stay."""
    options = (
        schema.options
        if is_syncing
        else {key: value for key, value in schema.options.items() if key.startswith("hive.")}
    )
    removed_keys = set(removed)
    parameters = {
        key: value
        for key, value in {**entry.get("parameters", {}), **options, **(_keys(schema) if is_syncing else {})}.items()
        if key not in removed_keys
    }
    if schema.comment is not None:
        parameters["comment"] = schema.comment
    return _set_columns({**entry, "parameters": parameters}, schema)


def _set_columns(entry: Entry, schema: TableSchema) -> Entry:
    columns = [{"name": field.name, "type": hive_type(field.type), "comment": field.comment} for field in schema.fields]
    serde = {**entry["sd"].get("serdeInfo", {}), "serializationLib": _SERDE, "parameters": {}}
    return {
        **entry,
        "sd": {**entry["sd"], "cols": columns, "inputFormat": INPUT, "outputFormat": OUTPUT, "serdeInfo": serde},
    }


def _keys(schema: TableSchema) -> Mapping[str, str]:
    keys = {"primary-key": schema.primary_keys, "partition": schema.partition_keys, "bucket-key": schema.bucket_keys}
    return {key: ",".join(names) for key, names in keys.items() if names}


def hive_type(t: DataType) -> str:
    """Return Hive's name of a type, as a metastore of Hive 2 knows it. Raises `Unsupported`."""
    if t.root in _HIVE_TYPES:
        return _HIVE_TYPES[t.root]
    if t.root in _SIZED_TYPES:
        name, longest = _SIZED_TYPES[t.root]
        return f"{name}({t.length})" if t.length is not None and t.length <= longest else "string"
    match t.root:
        case "DECIMAL":
            return f"decimal({t.precision},{t.scale})"
        case "ARRAY" if t.element is not None:
            return f"array<{hive_type(t.element)}>"
        case "MULTISET" if t.element is not None:
            return f"map<{hive_type(t.element)},int>"
        case "MAP" if t.key is not None and t.value is not None:
            return f"map<{hive_type(t.key)},{hive_type(t.value)}>"
        case "ROW":
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in t.fields)}>"
        case "VARIANT":
            return "struct<value:binary,metadata:binary>"
    raise Unsupported(f"Hive has no type for {t}; keep the table in another catalog", feature="catalog.hive")
