"""Golden metadata files and messages, decoded to the recorded values, written as the same bytes.

JSON        snapshots, changelogs, schemas, tags, statistics, consumers and hints
manifests   manifest lists, manifests and index manifests
messages    splits, commit messages and committables of engines 0.8 to 1.4; those of 1.4 are written again
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekit.codec import avro_columns, avro_container
from lakekit.errors import Unsupported
from lakekit.model import commit_message, entry_files, index_manifest, manifests, snapshot, split as split_bytes
from lakekit.model.entry_files import ManifestBytes
from lakekit.model.partition import epoch_day
from lakekit.model.snapshot import Consumer, Snapshot, Statistics, Tag
from lakekit.model.table_schema import TableSchema
from lakekit.testing.fixtures import Mismatch, check_equal
from lakekit.types import DataType, Field, Instant, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.data_file import DataFileMeta, Stats
    from lakekit.model.index_manifest import IndexFileMeta


DECODER_OF_FORMAT: dict[str, Callable[[bytes, str], Any]] = {
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


def _decode_and_check(facts: dict[str, Any], data: bytes) -> Any:
    return DECODER_OF_FORMAT[facts["format"]](data, f"tag-{facts['case']}")


def _check_rewrite(facts: dict[str, Any], data: bytes, decoded: Any, *, respelled: tuple[str, ...] = ()) -> None:
    """Check that a file of the reference is written again byte for byte.

    For a file made by hand only the JSON members must be the same when it is written again, except those in
    `respelled`, which are written in another spelling.
    """
    if facts["origin"] == "reference":
        check_equal("the file written again", decoded.to_json(), data)
        return
    before, after = json.loads(data), json.loads(decoded.to_json())
    check_equal("what was written, read again", _decode_and_check(facts, decoded.to_json()), decoded)
    defaulted = {"version", "timeMillis"}  # absent, they have a meaning that is written out
    check_equal("members written again", sorted(after.keys() | defaulted), sorted(before.keys() | defaulted))
    for name, value in before.items():
        if name not in respelled:
            check_equal(f"{name} written again", after[name], value)


def check_snapshots(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats snapshot and changelog: every member."""
    decoded = _decode_and_check(facts, data)
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


def check_schemas(facts: dict[str, Any], data: bytes) -> None:
    """Format schema: fields with ids, keys, options, and what follows from them."""
    decoded = _decode_and_check(facts, data)
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


def _nested_fields(t: DataType) -> list[Field]:
    inner = [part for side in (t.element, t.key, t.value) if side is not None for part in _nested_fields(side)]
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
        [_flatten_field(part) for part in _nested_fields(field.type)],
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


def check_tags(facts: dict[str, Any], data: bytes) -> None:
    """Format tag: the snapshot, when the tag was made, and how long it is kept."""
    decoded = _decode_and_check(facts, data)
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


def check_statistics(facts: dict[str, Any], data: bytes) -> None:
    """Format statistics: counts of the table and of each column, and its bounds."""
    decoded = _decode_and_check(facts, data)
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


def check_consumers(facts: dict[str, Any], data: bytes) -> None:
    """Format consumer: the next snapshot."""
    decoded = _decode_and_check(facts, data)
    check_equal("nextSnapshot", decoded.next_snapshot, facts["nextSnapshot"])
    _check_rewrite(facts, data, decoded)


def check_hints(facts: dict[str, Any], data: bytes) -> None:
    """Format hint: the number."""
    check_equal("number", snapshot.decode_hint(data), facts["id"])
    check_equal("the number written again", snapshot.encode_hint(facts["id"]), data)


# ---- manifests ------------------------------------------------------------


def read_avro_container(data: bytes) -> tuple[dict[str, bytes], list[tuple[int, bytes]]]:
    """Return metadata and blocks of an Avro file, independent of its compressor."""
    container = avro_container.open_container(data)
    return dict(container.metadata), [(block.count, block.data) for block in container.blocks]


def decode_recorded(value: Any) -> Any:
    """Return a recorded value, with serialized rows as their bytes."""
    match value:
        case {"hex": text, "values": _}:
            return bytes.fromhex(text)
        case dict():
            return {name: decode_recorded(part) for name, part in value.items()}
        case list():
            return [decode_recorded(part) for part in value]
    return value


def select_fields(row: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that another one has; a missing field is null."""
    return {name: row.get(name) for name in template}


def _check_manifest_rewrite(facts: dict[str, Any], data: bytes, encode: Callable[..., bytes]) -> None:
    """Check that writing the reference's records gives the same header and records.

    Where nothing compresses the bytes must be the same.
    """
    if avro_container.is_avro(data) and facts["origin"] == "reference":
        codec = avro_container.open_container(data).codec
        check_equal(
            "header and records written again", read_avro_container(encode(codec=codec)), read_avro_container(data)
        )
        if codec == "null":
            check_equal("the file written again", encode(codec=codec, sync=data[-16:]).hex(), data.hex())


def check_manifest_lists(facts: dict[str, Any], data: bytes) -> None:
    """Format manifest_list: every member of every manifest."""
    decoded = manifests.decode_list(data, path=facts["case"])
    wanted = [decode_recorded(row) for row in facts["manifests"]]
    check_equal("how many manifests", len(decoded), len(wanted))
    for number, (file, row) in enumerate(zip(decoded, wanted, strict=True)):
        added = {extra.name: extra.value for extra in file.extra}
        check_equal(f"manifest {number}", select_fields(manifests.to_record(file) | added, row), row)
    check_equal("the list written again", manifests.decode_list(manifests.encode_list(decoded)), decoded)
    _check_manifest_rewrite(facts, data, lambda **how: manifests.encode_list(decoded, **how))


def check_manifests(facts: dict[str, Any], data: bytes) -> None:
    """Format manifest: every member of every entry, those of newer writers too."""
    decoded = entry_files.decode_entries([ManifestBytes(facts["case"], data)])[0]
    records = avro_columns.read_records(avro_container.open_container(entry_files.encode_entries(decoded)))
    wanted = [decode_recorded(row) for row in facts.get("entries", [facts.get("first_entry")])]
    check_equal("how many entries", len(records), facts.get("entry_count", len(wanted)))
    for number, (record, row) in enumerate(zip(records, wanted, strict=False)):
        index = row["_FILE"]["_EMBEDDED_FILE_INDEX"]
        row["_FILE"]["_EMBEDDED_FILE_INDEX"] = None if index is None else bytes.fromhex(index)
        if facts["container"] == "orc" and row["_FILE"]["_CREATION_TIME"] == -1:
            row["_FILE"]["_CREATION_TIME"] = 999  # ORC holds no fraction in the second before 1970
        record["_FILE"] = select_fields(record["_FILE"], row["_FILE"])
        future = record["_FILE"].get("_FROM_THE_FUTURE")
        if future is not None:  # a map of doubles, which recordings write as text
            record["_FILE"]["_FROM_THE_FUTURE"] = [[key, None if item is None else str(item)] for key, item in future]
        check_equal(f"entry {number}", select_fields(record, row), row)
    _check_manifest_rewrite(facts, data, lambda **how: entry_files.encode_entries(decoded, **how))


def check_index_manifests(facts: dict[str, Any], data: bytes) -> None:
    """Format index_manifest: every member of every entry."""
    decoded = index_manifest.decode_index_manifest(data, path=facts["case"])
    check_equal("how many entries", len(decoded), len(facts["entries"]))
    for number, (entry, wanted) in enumerate(zip(decoded, map(decode_recorded, facts["entries"]), strict=True)):
        row = index_manifest.to_record(entry)
        if row["_GLOBAL_INDEX"] is not None:
            covers = {
                name: value.hex() if isinstance(value, bytes) else value for name, value in row["_GLOBAL_INDEX"].items()
            }
            row["_GLOBAL_INDEX"] = select_fields(covers, wanted["_GLOBAL_INDEX"])
        ranges = wanted["_DELETIONS_VECTORS_RANGES"]
        wanted["_DELETIONS_VECTORS_RANGES"] = None if ranges is None else [item for item in ranges if item is not None]
        check_equal(f"entry {number}", select_fields(row, wanted), wanted)
    check_equal(
        "the file written again",
        index_manifest.decode_index_manifest(index_manifest.encode_index_manifest(decoded)),
        decoded,
    )
    _check_manifest_rewrite(facts, data, lambda **how: index_manifest.encode_index_manifest(decoded, **how))


# ---- messages ------------------------------------------------------------


def _stats_members(stats: Stats) -> dict[str, Any]:
    nulls = None if stats.null_counts is None else list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values.hex(), "_MAX_VALUES": stats.max_values.hex(), "_NULL_COUNTS": nulls}


def _data_file(file: DataFileMeta) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key.hex(),
        "_MAX_KEY": file.max_key.hex(),
        "_KEY_STATS": _stats_members(file.key_stats),
        "_VALUE_STATS": _stats_members(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": None if file.embedded_index is None else file.embedded_index.hex(),
        "_FILE_SOURCE": file.source,
        "_VALUE_STATS_COLS": None if file.value_stats_cols is None else list(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": None if file.write_cols is None else list(file.write_cols),
    }


def _index_file(index: IndexFileMeta) -> dict[str, Any]:
    ranges = [{"f0": r.file_name, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in index.ranges]
    covers = index.global_index
    return {
        "_INDEX_TYPE": index.index_type,
        "_FILE_NAME": index.file_name,
        "_FILE_SIZE": index.file_size_bytes,
        "_ROW_COUNT": index.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges or ([] if index.index_type == "DELETION_VECTORS" else None),
        "_EXTERNAL_PATH": index.external_path,
        "_GLOBAL_INDEX": None
        if covers is None
        else {
            "_ROW_RANGE_START": covers.row_range_start,
            "_ROW_RANGE_END": covers.row_range_end,
            "_INDEX_FIELD_ID": covers.index_field_id,
            "_EXTRA_FIELD_IDS": None if covers.extra_field_ids is None else list(covers.extra_field_ids),
            "_INDEX_META": None if covers.index_meta is None else covers.index_meta.hex(),
        },
    }


def _rows_to_hex(recorded: Any) -> Any:
    """Return recorded values with serialized rows as their hex alone."""
    if isinstance(recorded, dict):
        return recorded["hex"] if "hex" in recorded else {key: _rows_to_hex(value) for key, value in recorded.items()}
    return [_rows_to_hex(value) for value in recorded] if isinstance(recorded, list) else recorded


def _check_files(subject: str, files: tuple[Any, ...], recorded: list[dict[str, Any]]) -> None:
    """Check every recorded field; what an old engine did not record must be absent."""
    members = [_index_file(item) if hasattr(item, "index_type") else _data_file(item) for item in files]
    check_equal(f"how many {subject}", len(members), len(recorded))
    for number, (mine, theirs) in enumerate(zip(members, _rows_to_hex(recorded), strict=True)):
        check_equal(f"{subject}[{number}]", {key: mine[key] for key in theirs}, theirs)
        check_equal(
            f"{subject}[{number}], what was not recorded",
            {value for key, value in mine.items() if key not in theirs} - {None},
            set(),
        )


def _check_message(message: CommitMessage, recorded: dict[str, Any], version: int) -> None:
    recorded = dict(recorded)
    check_equal("partition", message.partition.hex(), recorded.pop("partition")["hex"])
    check_equal(
        "bucket, total_buckets",
        (message.bucket, message.total_buckets),
        (recorded.pop("bucket"), recorded.pop("total_buckets")),
    )
    for key, files in recorded.items():
        mine = getattr(message, key)
        # recorded before they belonged to one half of the message
        if version < 10 and key in ("new_index_files", "deleted_index_files"):
            mine = (*mine, *getattr(message, f"compact_{key}"))
        _check_files(key, mine, files)


def check_splits(facts: dict[str, Any], data: bytes) -> None:
    """Format data_split: files and deletion files of a bucket."""
    if "refused" in facts:
        try:
            split_bytes.decode_split(data)
        except Unsupported:
            return
        raise Mismatch("the split", "a refusal", "a split")
    split = split_bytes.decode_split(data)
    for member in ("snapshot_id", "bucket", "total_buckets"):
        check_equal(member, getattr(split, member), facts[member])
    check_equal("end of bucket_path", split.bucket_path.endswith(facts["bucket_path"]), expected=True)
    check_equal(
        "is_streaming, raw_convertible", (split.streaming, split.raw), (facts["is_streaming"], facts["raw_convertible"])
    )
    _check_files("data_files", split.files, facts["data_files"])
    for file, deletion in zip(split.files, facts["deletion_files"] or [None] * len(split.files), strict=True):
        mine = split.deletions.get(file.name)
        range_ = None if mine is None else [mine.offset, mine.length, mine.cardinality]
        check_equal(
            f"deletions of {file.name}",
            range_,
            None if deletion is None else [deletion["offset"], deletion["length"], deletion["cardinality"]],
        )
        if mine is not None:
            check_equal(f"deletions of {file.name}, path", mine.path.endswith(deletion["path"]), expected=True)
    written = split_bytes.encode_split(split)
    check_equal("the split written again", split_bytes.decode_split(written), split)
    if facts["version"] == 8:
        check_equal("bytes written again", written.hex(), data.hex())


def check_commit_messages(facts: dict[str, Any], data: bytes) -> None:
    """Format commit_message: files that came and went in a bucket."""
    decoded = commit_message.decode_message(data, facts["version"])
    _check_message(decoded, facts["message"], facts["version"])
    written = commit_message.encode_message(decoded)
    check_equal("the message written again", commit_message.decode_message(written), decoded)
    if facts["version"] == 11:
        check_equal("bytes written again", written.hex(), data.hex())


def check_committables(facts: dict[str, Any], data: bytes) -> None:
    """Format manifest_committable: messages with what is committed beside them."""
    decoded = commit_message.decode_committable(data, facts["version"])
    check_equal(
        "identifier, watermark", [decoded.identifier, decoded.watermark], [facts["identifier"], facts["watermark"]]
    )
    check_equal("properties", dict(decoded.properties), facts.get("properties", {}))
    check_equal("how many messages", len(decoded.messages), len(facts["messages"]))
    for message, recorded in zip(decoded.messages, facts["messages"], strict=True):
        _check_message(message, recorded, facts["message_version"])
    written = commit_message.encode_committable(decoded)
    check_equal("the committable written again", commit_message.decode_committable(written), decoded)
    if facts["version"] == 5:
        check_equal("bytes written again", written.hex(), data.hex())
