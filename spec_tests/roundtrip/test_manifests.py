"""decode(encode(x)) == x for manifests, manifest lists and index manifests, in every codec; many manifests at once are each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from lakekit.codec import avro_container
from lakekit.model import entry_files, index_manifest, manifest_entries, manifests
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.model.entry_files import ManifestBytes
from lakekit.model.index_manifest import DELETION_VECTORS, HASH_INDEX, DeletionRange, GlobalIndex, IndexManifestEntry
from lakekit.model.manifests import ManifestFileMeta

CODECS = st.sampled_from(["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
LONG, COUNT, INT = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\\", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30).filter(
    lambda name: name not in {".", ".."}
)
ROWS = st.binary(max_size=40)
TEXTS = st.lists(NAMES, max_size=3).map(tuple)
STATS = st.builds(Stats, min_values=ROWS, max_values=ROWS, null_counts=st.none() | st.lists(st.none() | LONG, max_size=4).map(tuple))
FILES = st.builds(
    DataFileMeta,
    name=NAMES,
    size_bytes=COUNT,
    row_count=COUNT,
    min_key=ROWS,
    max_key=ROWS,
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=LONG,
    max_sequence_number=LONG,
    schema_id=LONG,
    level=st.integers(0, 2**31 - 1),
    extra_files=TEXTS,
    creation_time_ms=st.none() | LONG,
    delete_row_count=st.none() | LONG,
    embedded_index=st.none() | ROWS,
    source=st.none() | st.integers(0, 1),
    value_stats_cols=st.none() | TEXTS,
    external_path=st.none() | NAMES,
    first_row_id=st.none() | LONG,
    write_cols=st.none() | TEXTS,
)
PLACES = st.fixed_dictionaries({"kind": st.integers(0, 1), "partition": ROWS, "bucket": INT, "total_buckets": INT})


@st.composite
def some_entries(draw: st.DrawFn, most: int = 5) -> tuple[list[DataFileMeta], list[dict[str, Any]], manifest_entries.ManifestEntries]:
    files = draw(st.lists(FILES, max_size=most))
    places = [draw(PLACES) for _ in files]
    return (
        files,
        places,
        manifest_entries.concat_entries(
            [manifest_entries.empty_entries(), *(manifest_entries.entries_of_files([file], **place) for file, place in zip(files, places, strict=True))]
        ),
    )


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(some_entries(), CODECS)
def test_manifest(case: tuple[list[DataFileMeta], list[dict[str, Any]], manifest_entries.ManifestEntries], codec: str) -> None:
    files, places, written = case
    data = entry_files.encode_entries(written, codec=codec)
    found, counts = entry_files.decode_entries([ManifestBytes("m", data)])
    assert counts == [len(files)]
    assert found.table.equals(written.table)
    assert found.files() == files
    assert found.select(["kind", "partition", "bucket", "total_buckets"]).table.to_pylist() == places
    assert entry_files.encode_entries(found, codec=codec) == data


KINDS = st.sampled_from([("orc", "zstandard"), ("orc", "null"), ("parquet", "zstandard"), ("parquet", "snappy"), ("parquet", "deflate")])


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(some_entries(), KINDS)
def test_manifest_of_another_format(case: tuple[list[DataFileMeta], list[dict[str, Any]], manifest_entries.ManifestEntries], how: tuple[str, str]) -> None:
    """ORC holds nanoseconds, and no fraction in the second before 1970: creation times of our century only."""
    kind, codec = how
    files = [replace(file, creation_time_ms=None if file.creation_time_ms is None else file.creation_time_ms % 10**12) for file in case[0]]
    written = manifest_entries.concat_entries(
        [manifest_entries.empty_entries(), *(manifest_entries.entries_of_files([file], **place) for file, place in zip(files, case[1], strict=True))]
    )
    found, counts = entry_files.decode_entries([ManifestBytes("m", entry_files.encode_entries(written, kind=kind, codec=codec))])
    assert counts == [len(files)]
    assert found.table.equals(written.table)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(some_entries(12), CODECS), max_size=5))
def test_manifests_together(cases: list[tuple[Any, str]]) -> None:
    """Partition rows here are any bytes, so that most guesses of where a record starts are wrong: the answer is right all the same."""
    parts = [written for (_, _, written), _ in cases]
    blobs = [ManifestBytes(str(i), entry_files.encode_entries(written, codec=codec)) for i, ((_, _, written), codec) in enumerate(cases)]
    found, counts = entry_files.decode_entries(blobs)
    assert counts == [len(part) for part in parts]
    assert found.table.equals(manifest_entries.concat_entries([manifest_entries.empty_entries(), *parts]).table)


BOUND = st.none() | INT
LISTED = st.builds(
    ManifestFileMeta,
    name=NAMES,
    size_bytes=COUNT,
    num_added_files=COUNT,
    num_deleted_files=COUNT,
    partition_stats=STATS,
    schema_id=COUNT,
    min_bucket=BOUND,
    max_bucket=BOUND,
    min_level=BOUND,
    max_level=BOUND,
    min_row_id=st.none() | LONG,
    max_row_id=st.none() | LONG,
)


@settings(max_examples=20, deadline=None)
@given(st.lists(LISTED, max_size=6, unique_by=lambda file: file.name), KINDS)
def test_manifest_list_of_another_format(files: list[ManifestFileMeta], how: tuple[str, str]) -> None:
    assert manifests.decode_list(manifests.encode_list(files, kind=how[0], codec=how[1])) == files


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(LISTED, max_size=6, unique_by=lambda file: file.name), CODECS)
def test_manifest_list(files: list[ManifestFileMeta], codec: str) -> None:
    data = manifests.encode_list(files, codec=codec)
    assert manifests.decode_list(data) == files
    assert manifests.encode_list(manifests.decode_list(data), codec=codec) == data


SMALL = st.integers(0, 2**31 - 1)
RANGES = st.lists(st.builds(DeletionRange, file_name=NAMES, offset=SMALL, length=SMALL, cardinality=st.none() | LONG), max_size=3).map(tuple)
COVERS = st.builds(
    GlobalIndex,
    row_range_start=LONG,
    row_range_end=LONG,
    index_field_id=INT,
    extra_field_ids=st.none() | st.lists(INT, max_size=3).map(tuple),
    index_meta=st.none() | ROWS,
    source_meta=st.none() | ROWS,
)
INDEXES = st.builds(
    IndexManifestEntry,
    partition=ROWS,
    bucket=INT,
    index_type=st.sampled_from([HASH_INDEX, DELETION_VECTORS, "btree"]),
    file_name=NAMES,
    file_size_bytes=COUNT,
    row_count=COUNT,
    ranges=RANGES,
    external_path=st.none() | NAMES,
    global_index=st.none() | COVERS,
)


@settings(max_examples=20, deadline=None)
@given(st.lists(INDEXES, max_size=5), KINDS)
def test_index_manifest_of_another_format(found: list[IndexManifestEntry], how: tuple[str, str]) -> None:
    assert index_manifest.decode_index_manifest(index_manifest.encode_index_manifest(found, kind=how[0], codec=how[1])) == found


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(INDEXES, max_size=5), CODECS)
def test_index_manifest(found: list[IndexManifestEntry], codec: str) -> None:
    data = index_manifest.encode_index_manifest(found, codec=codec)
    assert index_manifest.decode_index_manifest(data) == found
    assert avro_container.open_container(data).codec == codec
