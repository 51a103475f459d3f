"""The statistics file `statistics/stat-<uuid>-<n>` that ANALYZE writes.

    { "snapshotId" : 1, "schemaId" : 0, "mergedRecordCount" : 1, "mergedRecordSize" : 100,
      "colStats" : { "dec" : { "colId" : 4, "distinctCount" : 1, "min" : "1.50", "max" : "1.50",
                               "nullCount" : 0, "avgLen" : 8, "maxLen" : 8 } } }

`min` and `max` are texts (FORMAT 3.6). Source: FORMAT.md 3.6, `Statistics`, `ColStats`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.model import json_codec
from lakekit.model.json_codec import int32, integer, member, text
from lakekit.options.frozendict import EMPTY, FrozenDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.types import DataType

_FIXED_WIDTHS = {
    "BOOLEAN": 1,
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "BIGINT": 8,
    "FLOAT": 4,
    "DOUBLE": 8,
    "DATE": 4,
    "TIME": 4,
    "TIMESTAMP": 8,
    "TIMESTAMP_LTZ": 8,
}
_LONG_DECIMAL = 18
"""Digits that eight bytes hold."""


def fixed_length_bytes(t: DataType) -> int:
    """Bytes of a value of a type, as statistics count them; 0 for a type whose values differ."""
    if t.root == "DECIMAL":
        return 8 if (t.precision or 0) <= _LONG_DECIMAL else 16
    return _FIXED_WIDTHS.get(t.root, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column; lengths are in bytes."""

    column_id: int = member("colId", int32)
    distinct_count: int | None = member("distinctCount", integer, default=None)
    min: str | None = member("min", text, default=None)
    max: str | None = member("max", text, default=None)
    null_count: int | None = member("nullCount", integer, default=None)
    avg_length_bytes: int | None = member("avgLen", integer, default=None)
    max_length_bytes: int | None = member("maxLen", integer, default=None)
    extra: Mapping[str, Any] = json_codec.extra_member()
    nulls: tuple[str, ...] = json_codec.nulls_member()


def _columns(name: str, value: Any) -> FrozenDict[str, ColumnStatistics]:
    if not isinstance(value, dict):
        raise json_codec.invalid_member(name, "an object of columns", value)
    columns = {}
    for column, members in value.items():
        if not isinstance(members, dict):
            raise json_codec.invalid_member(f"{name}.{column}", "an object", members)
        columns[column] = json_codec.decode(ColumnStatistics, members)
    return FrozenDict(columns)


def _columns_to_json(columns: Mapping[str, ColumnStatistics]) -> dict[str, Any]:
    return {name: json_codec.encode(statistics) for name, statistics in columns.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of a snapshot; sizes are in bytes."""

    snapshot_id: int = member("snapshotId", integer)
    schema_id: int = member("schemaId", integer)
    merged_record_count: int | None = member("mergedRecordCount", integer, default=None)
    merged_record_size_bytes: int | None = member("mergedRecordSize", integer, default=None)
    columns: Mapping[str, ColumnStatistics] = member("colStats", _columns, default=EMPTY, put=_columns_to_json)
    extra: Mapping[str, Any] = json_codec.extra_member()
    nulls: tuple[str, ...] = json_codec.nulls_member()

    @staticmethod
    def from_json(data: bytes, path: str | None = None) -> Statistics:
        """Decode a statistics file. Raises `Corrupt`."""
        return json_codec.decode(Statistics, json_codec.loads(data, path), path)

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        return json_codec.dumps(json_codec.encode(self))
