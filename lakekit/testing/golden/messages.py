"""Golden splits, commit messages and committables, of engines 0.8 to 1.4.

All are decoded, and those of 1.4 written again byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.errors import Unsupported
from lakekit.model import commit_message, committable_bytes, split_bytes
from lakekit.testing.golden.comparison import Mismatch, check_equal

if TYPE_CHECKING:
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.data_file import DataFileMeta, Stats
    from lakekit.model.index_file import IndexFileMeta


def _stats(stats: Stats) -> dict[str, Any]:
    nulls = None if stats.null_counts is None else list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values.hex(), "_MAX_VALUES": stats.max_values.hex(), "_NULL_COUNTS": nulls}


def _data_file(file: DataFileMeta) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key.hex(),
        "_MAX_KEY": file.max_key.hex(),
        "_KEY_STATS": _stats(file.key_stats),
        "_VALUE_STATS": _stats(file.value_stats),
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


def _files(what: str, files: tuple[Any, ...], recorded: list[dict[str, Any]]) -> None:
    """Check every recorded field; what an old engine did not record must be absent."""
    members = [_index_file(item) if hasattr(item, "index_type") else _data_file(item) for item in files]
    check_equal(f"how many {what}", len(members), len(recorded))
    for number, (mine, theirs) in enumerate(zip(members, _rows_to_hex(recorded), strict=True)):
        check_equal(f"{what}[{number}]", {key: mine[key] for key in theirs}, theirs)
        check_equal(
            f"{what}[{number}], what was not recorded",
            {value for key, value in mine.items() if key not in theirs} - {None},
            set(),
        )


def _message(message: CommitMessage, recorded: dict[str, Any], version: int) -> None:
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
        _files(key, mine, files)


def splits(facts: dict[str, Any], data: bytes) -> None:
    """Format data_split: files and deletion files of a bucket."""
    if "refused" in facts:
        try:
            split_bytes.decode(data)
        except Unsupported:
            return
        raise Mismatch("the split", "a refusal", "a split")
    split = split_bytes.decode(data)
    for member in ("snapshot_id", "bucket", "total_buckets"):
        check_equal(member, getattr(split, member), facts[member])
    check_equal("end of bucket_path", split.bucket_path.endswith(facts["bucket_path"]), expected=True)
    check_equal(
        "is_streaming, raw_convertible", (split.streaming, split.raw), (facts["is_streaming"], facts["raw_convertible"])
    )
    _files("data_files", split.files, facts["data_files"])
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
    written = split_bytes.encode(split)
    check_equal("the split written again", split_bytes.decode(written), split)
    if facts["version"] == 8:
        check_equal("bytes written again", written.hex(), data.hex())


def commit_messages(facts: dict[str, Any], data: bytes) -> None:
    """Format commit_message: files that came and went in a bucket."""
    decoded = commit_message.decode_message(data, facts["version"])
    _message(decoded, facts["message"], facts["version"])
    written = commit_message.encode_message(decoded)
    check_equal("the message written again", commit_message.decode_message(written), decoded)
    if facts["version"] == 11:
        check_equal("bytes written again", written.hex(), data.hex())


def committables(facts: dict[str, Any], data: bytes) -> None:
    """Format manifest_committable: messages with what is committed beside them."""
    decoded = committable_bytes.decode(data, facts["version"])
    check_equal(
        "identifier, watermark", [decoded.identifier, decoded.watermark], [facts["identifier"], facts["watermark"]]
    )
    check_equal("properties", dict(decoded.properties), facts.get("properties", {}))
    check_equal("how many messages", len(decoded.messages), len(facts["messages"]))
    for message, recorded in zip(decoded.messages, facts["messages"], strict=True):
        _message(message, recorded, facts["message_version"])
    written = committable_bytes.encode(decoded)
    check_equal("the committable written again", committable_bytes.decode(written), decoded)
    if facts["version"] == 5:
        check_equal("bytes written again", written.hex(), data.hex())
