"""Splits, commit messages and committables that engines 0.8 to 1.4 wrote: understood, and those of 1.4 written again byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.errors import Corrupt, Unsupported
from lakekit.model import commit_message, committable_bytes, split_bytes
from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    from pathlib import Path

    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.data_file import DataFile, Stats
    from lakekit.model.index_file import IndexFile

FORMATS = ("data_split", "commit_message", "manifest_committable")


def cases(name: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((fixtures() / "formats" / name).glob("*.json"))]


def load(path: Path) -> tuple[dict[str, Any], bytes]:
    return json.loads(path.read_text("utf-8")), path.with_suffix(".bin").read_bytes()


def said_of_stats(stats: Stats) -> dict[str, Any]:
    nulls = None if stats.null_counts is None else list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values.hex(), "_MAX_VALUES": stats.max_values.hex(), "_NULL_COUNTS": nulls}


def said_of_file(file: DataFile) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key.hex(),
        "_MAX_KEY": file.max_key.hex(),
        "_KEY_STATS": said_of_stats(file.key_stats),
        "_VALUE_STATS": said_of_stats(file.value_stats),
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


def said_of_index(index: IndexFile) -> dict[str, Any]:
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


def plain(recorded: Any) -> Any:
    """A recorded meaning with serialized rows as their hex alone."""
    if isinstance(recorded, dict):
        return recorded["hex"] if "hex" in recorded else {key: plain(value) for key, value in recorded.items()}
    return [plain(value) for value in recorded] if isinstance(recorded, list) else recorded


def check_files(found: tuple[Any, ...], recorded: list[dict[str, Any]]) -> None:
    """Every recorded field; what an old engine did not record is absent."""
    said = [said_of_index(item) if hasattr(item, "index_type") else said_of_file(item) for item in found]
    assert len(said) == len(recorded)
    for mine, theirs in zip(said, plain(recorded), strict=True):
        assert {key: mine[key] for key in theirs} == theirs
        assert {value for key, value in mine.items() if key not in theirs} <= {None}


def check_message(found: CommitMessage, recorded: dict[str, Any], version: int) -> None:
    recorded = dict(recorded)
    assert found.partition.hex() == recorded.pop("partition")["hex"]
    assert (found.bucket, found.total_buckets) == (recorded.pop("bucket"), recorded.pop("total_buckets"))
    for key, files in recorded.items():
        mine = getattr(found, key)
        if version < 10 and key in ("new_index_files", "deleted_index_files"):  # recorded before they belonged to one half of the message
            mine = (*mine, *getattr(found, f"compact_{key}"))
        check_files(mine, files)


def test_the_fixtures_are_there() -> None:
    assert [name for name in FORMATS if not cases(name)] == []


@pytest.mark.parametrize("path", cases("data_split"))
def test_splits(path: Path) -> None:
    said, data = load(path)
    if "refused" in said:
        with pytest.raises(Unsupported):
            split_bytes.decode(data)
        return
    found = split_bytes.decode(data)
    assert (found.snapshot_id, found.bucket, found.total_buckets) == (said["snapshot_id"], said["bucket"], said["total_buckets"])
    assert found.bucket_path.endswith(said["bucket_path"])
    assert (found.streaming, found.raw) == (said["is_streaming"], said["raw_convertible"])
    check_files(found.files, said["data_files"])
    for file, deletion in zip(found.files, said["deletion_files"] or [None] * len(found.files), strict=True):
        mine = found.deletions.get(file.name)
        assert (mine is None) == (deletion is None)
        if mine is not None:
            assert (mine.offset, mine.length, mine.cardinality) == (deletion["offset"], deletion["length"], deletion["cardinality"])
            assert mine.path.endswith(deletion["path"])
    written = split_bytes.encode(found)
    assert split_bytes.decode(written) == found
    assert written == data or said["version"] < 8


@pytest.mark.parametrize("path", cases("commit_message"))
def test_commit_messages(path: Path) -> None:
    said, data = load(path)
    found = commit_message.decode_message(data, said["version"])
    check_message(found, said["message"], said["version"])
    written = commit_message.encode_message(found)
    assert commit_message.decode_message(written) == found
    assert written == data or said["version"] < 11


@pytest.mark.parametrize("path", cases("manifest_committable"))
def test_committables(path: Path) -> None:
    said, data = load(path)
    found = committable_bytes.decode(data, said["version"])
    assert (found.identifier, found.watermark, dict(found.properties)) == (said["identifier"], said["watermark"], said.get("properties", {}))
    assert len(found.messages) == len(said["messages"])
    for message, recorded in zip(found.messages, said["messages"], strict=True):
        check_message(message, recorded, said["message_version"])
    written = committable_bytes.encode(found)
    assert committable_bytes.decode(written) == found
    assert written == data or said["version"] < 5


def test_later_versions_are_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="version 9: lakekit reads versions 1 to 8"):
        split_bytes.decode(bytes.fromhex("dec3d2302c19ec66") + (9).to_bytes(4, "big") + bytes(40))
    with pytest.raises(Unsupported, match="version 12: lakekit reads versions 1 to 11"):
        commit_message.decode_message(bytes(100), 12)
    with pytest.raises(Unsupported, match="version 6"):
        committable_bytes.decode(bytes(100), 6)


def test_a_split_with_files_before_a_change_is_refused() -> None:
    head = bytes.fromhex("dec3d2302c19ec66") + (8).to_bytes(4, "big") + bytes(8) + (12).to_bytes(4, "big") + bytes(12) + bytes(4) + bytes(2) + b"\0"
    with pytest.raises(Unsupported, match="before a change"):
        split_bytes.decode(head + (1).to_bytes(4, "big") + bytes(20))
    with pytest.raises(Corrupt, match="deletions at offset"):
        split_bytes.decode(head + bytes(4) + b"\0" + bytes(4) + b"\1" + b"\0\0\0\5" + bytes(10))
