"""The schema file `schema/schema-<id>`: columns, keys and options of a table.

    {
      "version" : 3,
      "id" : 0,
      "fields" : [ { "id" : 0, "name" : "k", "type" : "BIGINT NOT NULL" } ],
      "highestFieldId" : 0,
      "partitionKeys" : [ ],
      "primaryKeys" : [ "k" ],
      "options" : { "bucket" : "1" },
      "comment" : "…",                      left out when there is none; null reads as none and is never written
      "timeMillis" : 1795282713881
    }

Source: FORMAT.md 2.1-2.4, `TableSchema`, `SchemaSerializer`, `ReassignFieldId`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakekit.errors import ColumnNotFound, Corrupt, Unsupported
from lakekit.model import json_codec
from lakekit.model.json_codec import json_member, read_count, read_int32, read_text, read_text_map, read_texts
from lakekit.options.features import make_refusal
from lakekit.options.option import FrozenDict
from lakekit.types import DataType, Field, field_from_json, field_to_json, find_internal, first_duplicate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CURRENT_VERSION = 3
SYSTEM_FIELD_ID_START = 1073741823
"""Field ids from here on belong to columns that the format adds (`_KEY_…`, `_SEQUENCE_NUMBER`, …)."""


def _read_fields(name: str, value: Any) -> tuple[Field, ...]:
    if not isinstance(value, list):
        raise json_codec.invalid_member(name, "a list of fields", value)
    return tuple(field_from_json(part) for part in value)


def _fields_to_json(fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    return [field_to_json(part) for part in fields]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Columns, keys and options of one schema file.

    `options` already include the defaults of old versions.
    """

    version: int = json_member("version", read_int32, default=1)
    id: int = json_member("id", read_count)
    fields: tuple[Field, ...] = json_member("fields", _read_fields, encode=_fields_to_json)
    highest_field_id: int = json_member("highestFieldId", read_int32)
    partition_keys: tuple[str, ...] = json_member("partitionKeys", read_texts, default=())
    primary_keys: tuple[str, ...] = json_member("primaryKeys", read_texts, default=())
    options: Mapping[str, str] = json_member("options", read_text_map, default=FrozenDict())
    comment: str | None = json_member("comment", read_text, default=None)
    time_millis: int = json_member("timeMillis", read_count, default=0)
    extra: Mapping[str, Any] = json_codec.extra_members_field()

    @staticmethod
    def from_json(data: bytes, path: str | None = None) -> TableSchema:
        """Decode a schema file.

        Raises `Corrupt`, `LimitExceeded`, or `Unsupported` for a version or a type that lakekit does not know.
        """
        return _decode_schema(bytes(data), path)

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        return json_codec.format_object(json_codec.to_members(self))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(part.name for part in self.fields)

    @property
    def types(self) -> dict[str, DataType]:
        """Types by column name."""
        return {part.name: part.type for part in self.fields}

    def field(self, name: str) -> Field:
        """Return the column of a name. Raises `ColumnNotFound`."""
        for part in self.fields:
            if part.name == name:
                return part
        raise ColumnNotFound(f"no column {name!r}: the columns are {', '.join(self.names)}", name=name)

    def has(self, name: str) -> bool:
        """Return whether there is a column of that name."""
        return any(part.name == name for part in self.fields)

    def fields_of(self, names: Iterable[str]) -> tuple[Field, ...]:
        """Return the columns of the names, in that order. Raises `ColumnNotFound`."""
        by_name = {part.name: part for part in self.fields}
        return tuple(by_name.get(name) or self.field(name) for name in names)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key columns that are no partition columns: what identifies a row inside a bucket."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Return the bucket key columns.

        Option `bucket-key` (split on commas, blanks kept), else the trimmed primary key.
        """
        named = self.options.get("bucket-key")
        return tuple(named.split(",")) if named else self.trimmed_primary_keys

    @property
    def cross_partition(self) -> bool:
        """Return whether a key may move between partitions: some partition column is not in the primary key."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in partition order."""
        return self.fields_of(self.partition_keys)

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The columns of the trimmed primary key, in key order, under their table names."""
        return self.fields_of(self.trimmed_primary_keys)


@lru_cache(maxsize=1024)
def _decode_schema(data: bytes, path: str | None) -> TableSchema:
    members = json_codec.loads(data, path)
    schema = json_codec.from_members(TableSchema, members, path)
    if schema.version > CURRENT_VERSION:
        raise Unsupported(
            f"{path or 'the schema'} has version {schema.version}; lakekit knows 1 to {CURRENT_VERSION}. A newer "
            "engine wrote it",
            feature=f"schema.version-{schema.version}",
            path=path,
        )
    if (own := find_internal(schema.fields)) is not None:
        raise make_refusal(
            "column-name.u001f",
            f"column {own!r} of {path or 'the schema'}",
            alternative="Rename it with the engine that made the table",
            path=path,
        )
    try:
        _check_schema(schema)
    except Corrupt as damaged:
        raise (damaged.at(path) if path else damaged) from None
    return replace(schema, options=_add_old_defaults(schema.version, schema.options))


def _add_old_defaults(version: int, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return options with the defaults of old schema versions that have changed since (FORMAT 2.1)."""
    added = {}
    if version <= 1 and "bucket" not in options:
        added["bucket"] = "1"
    if version <= 2 and "file.format" not in options:
        added["file.format"] = "orc"
    return FrozenDict({**options, **added}) if added else options


def _check_schema(schema: TableSchema) -> None:
    names = schema.names
    if (twice := first_duplicate(names)) is not None:
        raise Corrupt(f"two columns are called {twice!r}", field="fields")
    by_name = {part.name: part for part in schema.fields}
    for member_name, keys in (("partitionKeys", schema.partition_keys), ("primaryKeys", schema.primary_keys)):
        for key in keys:
            if key not in by_name:
                raise Corrupt(
                    f"{member_name} names {key!r}, which is no column; columns are {', '.join(names)}",
                    field=member_name,
                )
            if by_name[key].type.is_nested:
                raise Corrupt(
                    f"{member_name} names {key!r}, which is a {by_name[key].type}; keys have no parts",
                    field=member_name,
                )
        if first_duplicate(keys) is not None:
            raise Corrupt(f"{member_name} names a column twice: {', '.join(keys)}", field=member_name)
    ids = [part.id for part in schema.fields]
    if len(set(ids)) != len(ids):
        raise Corrupt("two columns have the same id", field="fields")


# ---- field ids -------------------------------------------------------------------------------------------------------


def assign_ids(fields: Iterable[Field], highest: int = -1) -> tuple[tuple[Field, ...], int]:
    """Return the columns with ids after `highest`, and the new highest.

    A column comes before its parts, and a ROW's parts before the part that holds them.
    """
    numbered = []
    for part in fields:
        number = highest + 1
        t, highest = _assign_type_ids(part.type, number)
        numbered.append(replace(part, id=number, type=t))
    return tuple(numbered), highest


def _assign_type_ids(t: DataType, highest: int) -> tuple[DataType, int]:
    if t.root == "ROW":
        parts = []
        for part in t.fields:
            inner, highest = _assign_type_ids(part.type, highest)
            highest += 1
            parts.append(replace(part, id=highest, type=inner))
        return replace(t, fields=tuple(parts)), highest
    for side in ("element", "key", "value"):
        inner = getattr(t, side)
        if inner is not None:
            changed, highest = _assign_type_ids(inner, highest)
            t = replace(t, **{side: changed})  # type: ignore[arg-type]
    return t, highest


def highest_id(fields: Iterable[Field]) -> int:
    """Return the greatest id anywhere in the columns, without system ids; -1 if there is none."""
    highest = -1
    for part in fields:
        own = part.id if part.id < SYSTEM_FIELD_ID_START else -1
        inner = [
            p for t in (part.type.element, part.type.key, part.type.value) if t is not None for p in (Field("", t),)
        ]
        highest = max(highest, own, highest_id([*part.type.fields, *inner]))
    return highest
