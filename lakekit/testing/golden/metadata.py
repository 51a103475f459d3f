"""Golden metadata files in JSON, decoded and written again as the same bytes.

These are snapshots, changelogs, schemas, tags, statistics, consumers and hints.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekit.model import hint
from lakekit.model.consumer import Consumer
from lakekit.model.partition import epoch_day
from lakekit.model.snapshot import Snapshot
from lakekit.model.statistics import Statistics
from lakekit.model.table_schema import TableSchema
from lakekit.model.tag import Tag
from lakekit.testing.golden.comparison import check_equal
from lakekit.types import DataType, Field, Instant, parse

if TYPE_CHECKING:
    from collections.abc import Callable

READERS: dict[str, Callable[[bytes, str], Any]] = {
    "schema": TableSchema.from_json,
    "snapshot": Snapshot.from_json,
    "changelog": Snapshot.from_json,
    "tag": lambda data, path: Tag.from_json(data, path.rpartition("tag-")[2], path),
    "consumer": Consumer.from_json,
    "statistics": Statistics.from_json,
}
_SNAPSHOT_MEMBERS = {
    "version": "version",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "nextRowId": "next_row_id",
}


def _read(facts: dict[str, Any], data: bytes) -> Any:
    return READERS[facts["format"]](data, f"tag-{facts['case']}")


def _check_rewrite(facts: dict[str, Any], data: bytes, decoded: Any, *, respelled: tuple[str, ...] = ()) -> None:
    """Check that a file of the reference is written again byte for byte.

    A file made by hand must be written with the same members, but for `respelled` ones.
    """
    if facts["origin"] == "reference":
        check_equal("the file written again", decoded.to_json(), data)
        return
    before, after = json.loads(data), json.loads(decoded.to_json())
    check_equal("what was written, read again", _read(facts, decoded.to_json()), decoded)
    defaulted = {"version", "timeMillis"}  # absent, they have a meaning that is written out
    check_equal("members written again", sorted(after.keys() | defaulted), sorted(before.keys() | defaulted))
    for name, value in before.items():
        if name not in respelled:
            check_equal(f"{name} written again", after[name], value)


def snapshots(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats snapshot and changelog: every member."""
    decoded = _read(facts, data)
    for member, name in _SNAPSHOT_MEMBERS.items():
        check_equal(member, getattr(decoded, name), facts[member])
    check_equal(
        "uuid, operation, writerVersion",
        [decoded.uuid, decoded.operation, decoded.writer_version],
        [facts.get(n) for n in ("uuid", "operation", "writerVersion")],
    )
    if facts["origin"] == "hand":
        empty = {member for member, name in _SNAPSHOT_MEMBERS.items() if getattr(decoded, name) is None}
        check_equal(
            "members that are absent", sorted(empty - set(decoded.nulls)), sorted(set(facts["absent"]) - {"version"})
        )
    _check_rewrite(facts, data, decoded)


def schemas(facts: dict[str, Any], data: bytes) -> None:
    """Format schema: fields with ids, keys, options, and what follows from them."""
    decoded = _read(facts, data)
    check_equal(
        "fields",
        [_flatten_field(field) for field in decoded.fields],
        [_expected_field(field) for field in facts["fields"]],
    )
    for member, value in {
        "id": decoded.id,
        "highestFieldId": decoded.highest_field_id,
        "comment": decoded.comment,
        "timeMillis": decoded.time_millis,
        "partitionKeys": list(decoded.partition_keys),
        "primaryKeys": list(decoded.primary_keys),
        "options": decoded.options,
        "trimmedPrimaryKeys": list(decoded.trimmed_primary_keys),
        "bucketKeys": list(decoded.bucket_keys),
    }.items():
        check_equal(member, value, facts[member])
    _check_rewrite(facts, data, decoded, respelled=("fields", "options"))


def _parts(t: DataType) -> list[Field]:
    inner = [part for side in (t.element, t.key, t.value) if side is not None for part in _parts(side)]
    return [*t.fields, *inner]


def _strip_ids_and_comments(t: DataType) -> DataType:
    """Return the type without ids and comments of its fields, which its text does not contain."""
    t = replace(t, fields=tuple(Field(part.name, _strip_ids_and_comments(part.type)) for part in t.fields))
    element, key, value = (
        None if inner is None else _strip_ids_and_comments(inner) for inner in (t.element, t.key, t.value)
    )
    return replace(t, element=element, key=key, value=value)


def _flatten_field(field: Field) -> tuple[Any, ...]:
    return (
        field.id,
        field.name,
        _strip_ids_and_comments(field.type),
        field.comment,
        field.default,
        [_flatten_field(part) for part in _parts(field.type)],
    )


def _expected_field(facts: dict[str, Any]) -> tuple[Any, ...]:
    nested = [_expected_field(part) for part in facts["nested"]]
    return (
        facts["id"],
        facts["name"],
        _strip_ids_and_comments(parse(facts["type"])),
        facts["description"],
        facts["defaultValue"],
        nested,
    )


def tags(facts: dict[str, Any], data: bytes) -> None:
    """Format tag: the snapshot, when the tag was made, and how long it is kept."""
    decoded = _read(facts, data)
    created, retained = facts["tagCreateTime"], facts["tagTimeRetained"]
    check_equal("tagCreateTime", decoded.create_time, None if created is None else instant(*created))
    check_equal(
        "tagTimeRetained", decoded.time_retained_ns, None if retained is None else retained[0] * 10**9 + retained[1]
    )
    check_equal("commitKind", decoded.snapshot.commit_kind, facts["commitKind"])
    _check_rewrite(facts, data, decoded, respelled=("tagCreateTime", "tagTimeRetained"))


def instant(*parts: int) -> Instant:
    """Return a recorded time: year, month, day, hour, minute, second, nanosecond."""
    year, month, day, hour, minute, second, nano = parts
    seconds = (epoch_day(year, month, day) * 24 + hour) * 3600 + minute * 60 + second
    return Instant(seconds * 1000 + nano // 1_000_000, nano % 1_000_000)


def statistics(facts: dict[str, Any], data: bytes) -> None:
    """Format statistics: counts of the table and of each column, and its bounds."""
    decoded = _read(facts, data)
    check_equal(
        "snapshotId, schemaId", [decoded.snapshot_id, decoded.schema_id], [facts["snapshotId"], facts["schemaId"]]
    )
    counts = [facts["mergedRecordCount"], facts["mergedRecordSize"]]
    check_equal(
        "mergedRecordCount, mergedRecordSize", [decoded.merged_record_count, decoded.merged_record_size_bytes], counts
    )
    check_equal(
        "min and max", {name: [column.min, column.max] for name, column in decoded.columns.items()}, facts["min_max"]
    )
    check_equal(
        "columns",
        {name: _statistics_members(column) for name, column in decoded.columns.items()},
        facts["columns_but_min_max"],
    )
    _check_rewrite(facts, data, decoded)


def _statistics_members(column: Any) -> dict[str, Any]:
    return {
        "colId": column.column_id,
        "distinctCount": column.distinct_count,
        "nullCount": column.null_count,
        "avgLen": column.avg_length_bytes,
        "maxLen": column.max_length_bytes,
    }


def consumers(facts: dict[str, Any], data: bytes) -> None:
    """Format consumer: the next snapshot."""
    decoded = _read(facts, data)
    check_equal("nextSnapshot", decoded.next_snapshot, facts["nextSnapshot"])
    _check_rewrite(facts, data, decoded)


def hints(facts: dict[str, Any], data: bytes) -> None:
    """Format hint: the number."""
    check_equal("number", hint.decode(data), facts["id"])
    check_equal("the number written again", hint.encode(facts["id"]), data)
