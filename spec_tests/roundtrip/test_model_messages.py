"""Splits, messages and committables of any content come back from their bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from lakekit.codec import binary_row
from lakekit.model import commit_message, split as split_bytes
from lakekit.model.commit_message import CommitMessage, Committable
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.model.index_manifest import DELETION_VECTORS, DeletionRange, GlobalIndex, IndexFileMeta
from lakekit.model.split import DeletionFile, Split
from lakekit.options.option import FrozenDict
from lakekit.types import parse

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
NAME = st.text("ab/湖😀.-", max_size=12)
ROW = st.integers(-5, 5).map(lambda n: binary_row.with_arity(binary_row.encode_row([n], [parse("INT")]), 1)) | st.just(binary_row.EMPTY_ROW_WITH_ARITY)
NAMES = st.lists(NAME, max_size=3).map(tuple)
STATS = st.builds(Stats, min_values=ROW, max_values=ROW, null_counts=st.none() | st.lists(st.none() | LONG, max_size=3).map(tuple))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


FILE = st.builds(
    DataFileMeta,
    name=NAME,
    size_bytes=LONG,
    row_count=LONG,
    min_key=ROW,
    max_key=ROW,
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=LONG,
    max_sequence_number=LONG,
    schema_id=LONG,
    level=INT,
    extra_files=NAMES,
    creation_time_ms=maybe(LONG),
    delete_row_count=maybe(LONG),
    embedded_index=maybe(st.binary(max_size=12)),
    source=maybe(st.integers(0, 1)),
    value_stats_cols=maybe(NAMES),
    external_path=maybe(NAME),
    first_row_id=maybe(LONG),
    write_cols=maybe(NAMES),
)
RANGES = st.lists(st.builds(DeletionRange, file_name=NAME, offset=INT, length=INT, cardinality=maybe(LONG)), max_size=2).map(tuple)
GLOBAL = st.builds(
    GlobalIndex,
    row_range_start=LONG,
    row_range_end=LONG,
    index_field_id=INT,
    extra_field_ids=maybe(st.lists(INT, max_size=3).map(tuple)),
    index_meta=maybe(st.binary(max_size=12)),
)
INDEX = st.builds(
    IndexFileMeta,
    index_type=st.sampled_from(["HASH", DELETION_VECTORS, "btree"]),
    file_name=NAME,
    file_size_bytes=LONG,
    row_count=LONG,
    ranges=RANGES,
    external_path=maybe(NAME),
    global_index=maybe(GLOBAL),
)
FILES, INDEXES = st.lists(FILE, max_size=2).map(tuple), st.lists(INDEX, max_size=2).map(tuple)
FILE_LISTS = ("new_files", "deleted_files", "changelog_files", "compact_before", "compact_after", "compact_changelog")
INDEX_LISTS = ("new_index_files", "deleted_index_files", "compact_new_index_files", "compact_deleted_index_files")


@st.composite
def messages(draw: st.DrawFn) -> CommitMessage:
    filled = draw(st.sets(st.sampled_from([*FILE_LISTS, *INDEX_LISTS]), max_size=3))
    lists = {name: draw(FILES if name in FILE_LISTS else INDEXES) for name in sorted(filled)}
    return CommitMessage(partition=draw(ROW), bucket=draw(INT), total_buckets=draw(maybe(INT)), **lists)


@st.composite
def splits(draw: st.DrawFn) -> Split:
    files = draw(st.lists(FILE, max_size=3, unique_by=lambda file: file.name).map(tuple))
    deletion = st.builds(DeletionFile, path=NAME, offset=LONG, length=LONG, cardinality=maybe(st.integers(0, 2**63 - 1)))
    deletions = {file.name: draw(deletion) for file in files if draw(st.booleans())}
    return Split(
        snapshot_id=draw(LONG),
        partition=draw(ROW),
        bucket=draw(INT),
        total_buckets=draw(maybe(INT)),
        bucket_path=draw(NAME),
        files=files,
        deletions=FrozenDict(deletions),
        raw=draw(st.booleans()),
        streaming=draw(st.booleans()),
    )


@settings(max_examples=20, deadline=None)
@given(splits())
def test_splits_come_back(split: Split) -> None:
    assert split_bytes.decode_split(split_bytes.encode_split(split)) == split


@settings(max_examples=20, deadline=None)
@given(st.lists(messages(), max_size=2).map(tuple), LONG, maybe(LONG), st.dictionaries(NAME, NAME, max_size=2))
def test_messages_come_back(some: tuple[CommitMessage, ...], identifier: int, watermark: int | None, properties: dict[str, str]) -> None:
    for message in some:
        assert commit_message.decode_message(commit_message.encode_message(message)) == message
    committable = Committable(identifier=identifier, watermark=watermark, properties=FrozenDict(properties), messages=some)
    assert commit_message.decode_committable(commit_message.encode_committable(committable)) == committable
