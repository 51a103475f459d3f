"""Golden metadata files in JSON: snapshots, changelogs, schemas, tags, statistics, consumers and hints, and the same bytes again."""

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


def _read(said: dict[str, Any], data: bytes) -> Any:
    return READERS[said["format"]](data, f"tag-{said['case']}")


def _check_rewrite(said: dict[str, Any], data: bytes, found: Any, *, respelled: tuple[str, ...] = ()) -> None:
    """What the reference wrote comes out byte for byte; what was written by hand comes out with the same members, but for those spelled anew."""
    if said["origin"] == "reference":
        check_equal("the file written again", found.to_json(), data)
        return
    before, after = json.loads(data), json.loads(found.to_json())
    check_equal("what was written, read again", _read(said, found.to_json()), found)
    known = {"version", "timeMillis"}  # absent, they have a meaning that is written out
    check_equal("members written again", sorted(after.keys() | known), sorted(before.keys() | known))
    for name, value in before.items():
        if name not in respelled:
            check_equal(f"{name} written again", after[name], value)


def snapshots(said: dict[str, Any], data: bytes) -> None:
    """Formats snapshot and changelog: every member."""
    found = _read(said, data)
    for member, name in _SNAPSHOT_MEMBERS.items():
        check_equal(member, getattr(found, name), said[member])
    check_equal(
        "uuid, operation, writerVersion", [found.uuid, found.operation, found.writer_version], [said.get(n) for n in ("uuid", "operation", "writerVersion")]
    )
    if said["origin"] == "hand":
        empty = {member for member, name in _SNAPSHOT_MEMBERS.items() if getattr(found, name) is None}
        check_equal("members that are absent", sorted(empty - set(found.nulls)), sorted(set(said["absent"]) - {"version"}))
    _check_rewrite(said, data, found)


def schemas(said: dict[str, Any], data: bytes) -> None:
    """Format schema: fields with ids, keys, options, and what follows from them."""
    found = _read(said, data)
    check_equal("fields", [_flatten_field(field) for field in found.fields], [_expected_field(field) for field in said["fields"]])
    for member, value in {
        "id": found.id,
        "highestFieldId": found.highest_field_id,
        "comment": found.comment,
        "timeMillis": found.time_millis,
        "partitionKeys": list(found.partition_keys),
        "primaryKeys": list(found.primary_keys),
        "options": found.options,
        "trimmedPrimaryKeys": list(found.trimmed_primary_keys),
        "bucketKeys": list(found.bucket_keys),
    }.items():
        check_equal(member, value, said[member])
    _check_rewrite(said, data, found, respelled=("fields", "options"))


def _parts(t: DataType) -> list[Field]:
    inner = [part for side in (t.element, t.key, t.value) if side is not None for part in _parts(side)]
    return [*t.fields, *inner]


def _strip_ids_and_comments(t: DataType) -> DataType:
    """The type without ids and comments of its fields, which its text does not say."""
    t = replace(t, fields=tuple(Field(part.name, _strip_ids_and_comments(part.type)) for part in t.fields))
    element, key, value = (None if inner is None else _strip_ids_and_comments(inner) for inner in (t.element, t.key, t.value))
    return replace(t, element=element, key=key, value=value)


def _flatten_field(field: Field) -> tuple[Any, ...]:
    return field.id, field.name, _strip_ids_and_comments(field.type), field.comment, field.default, [_flatten_field(part) for part in _parts(field.type)]


def _expected_field(said: dict[str, Any]) -> tuple[Any, ...]:
    nested = [_expected_field(part) for part in said["nested"]]
    return said["id"], said["name"], _strip_ids_and_comments(parse(said["type"])), said["description"], said["defaultValue"], nested


def tags(said: dict[str, Any], data: bytes) -> None:
    """Format tag: the snapshot, when the tag was made, and how long it is kept."""
    found = _read(said, data)
    created, retained = said["tagCreateTime"], said["tagTimeRetained"]
    check_equal("tagCreateTime", found.create_time, None if created is None else instant(*created))
    check_equal("tagTimeRetained", found.time_retained_ns, None if retained is None else retained[0] * 10**9 + retained[1])
    check_equal("commitKind", found.snapshot.commit_kind, said["commitKind"])
    _check_rewrite(said, data, found, respelled=("tagCreateTime", "tagTimeRetained"))


def instant(*parts: int) -> Instant:
    """A time as recordings list it: year, month, day, hour, minute, second, nanosecond."""
    year, month, day, hour, minute, second, nano = parts
    seconds = (epoch_day(year, month, day) * 24 + hour) * 3600 + minute * 60 + second
    return Instant(seconds * 1000 + nano // 1_000_000, nano % 1_000_000)


def statistics(said: dict[str, Any], data: bytes) -> None:
    """Format statistics: counts of the table and of each column, and its bounds."""
    found = _read(said, data)
    check_equal("snapshotId, schemaId", [found.snapshot_id, found.schema_id], [said["snapshotId"], said["schemaId"]])
    counts = [said["mergedRecordCount"], said["mergedRecordSize"]]
    check_equal("mergedRecordCount, mergedRecordSize", [found.merged_record_count, found.merged_record_size_bytes], counts)
    check_equal("min and max", {name: [one.min, one.max] for name, one in found.columns.items()}, said["min_max"])
    check_equal("columns", {name: _statistics_members(one) for name, one in found.columns.items()}, said["columns_but_min_max"])
    _check_rewrite(said, data, found)


def _statistics_members(one: Any) -> dict[str, Any]:
    return {
        "colId": one.column_id,
        "distinctCount": one.distinct_count,
        "nullCount": one.null_count,
        "avgLen": one.avg_length_bytes,
        "maxLen": one.max_length_bytes,
    }


def consumers(said: dict[str, Any], data: bytes) -> None:
    """Format consumer: the next snapshot."""
    found = _read(said, data)
    check_equal("nextSnapshot", found.next_snapshot, said["nextSnapshot"])
    _check_rewrite(said, data, found)


def hints(said: dict[str, Any], data: bytes) -> None:
    """Format hint: the number."""
    check_equal("number", hint.decode(data), said["id"])
    check_equal("the number written again", hint.encode(said["id"]), data)
