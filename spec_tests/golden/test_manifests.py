"""Manifest lists, manifests and index manifests that the engines wrote: understood as fastavro and the recordings understand them, and written again."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lakekit.codec import avro_columns, avro_container, avro_schema, avro_values
from lakekit.codec.avro_vectors import VectorReader
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.model import entry_files, index_manifest, manifest_entries, manifests, metadata_records
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.model.entry_files import ManifestBytes
from lakekit.model.index_manifest import DeletionRange, GlobalIndex, IndexManifestEntry
from lakekit.model.manifests import ManifestFileMeta
from lakekit.testing import fixtures as golden
from lakekit.testing.fixtures import fixtures
from lakekit.testing.golden.checks import check_golden_file
from lakekit.testing.golden.metadata import read_avro_container
from spec_tests.longer import some

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_COLUMNS = bytes(12)
TABLES = sorted(path for path in (fixtures() / "tables").iterdir() if (path / "manifest").is_dir())


def plain(value: Any) -> Any:
    """A value of fastavro's without logical types."""
    match value:
        case datetime():
            return (value - EPOCH) // timedelta(milliseconds=1)
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return [plain(part) for part in value]
    return value


def decoded(data: bytes) -> manifest_entries.ManifestEntries:
    return entry_files.decode_entries([ManifestBytes("m", data)])[0]


# ---- the worked examples of FORMAT 4.7 --------------------------------------------------------------------------------------------------------------------


def body(data: bytes) -> str:
    return read_avro_container(data)[1][0][1].hex()


def test_worked_manifest_list() -> None:
    stats = Stats(min_values=NO_COLUMNS, max_values=NO_COLUMNS, null_counts=())
    file = ManifestFileMeta(
        name="manifest-a-0",
        size_bytes=2430,
        num_added_files=1,
        num_deleted_files=0,
        partition_stats=stats,
        schema_id=0,
        min_bucket=0,
        max_bucket=0,
        min_level=0,
        max_level=0,
    )
    text = "0418 6d616e69666573742d612d30 fc250200 18000000000000000000000000 18000000000000000000000000 0200 00 02000200020002000000"
    data = manifests.encode_list([file])
    assert body(data) == text.replace(" ", "")
    assert manifests.decode_list(data) == [file]


def test_worked_manifest() -> None:
    key = "0000000100000000000000000{}00000000000000"
    low = bytes.fromhex("00000002000000000000000001000000000000006100000000000081")
    high = bytes.fromhex("00000002000000000000000002000000000000006200000000000081")
    one, two = bytes.fromhex(key.format(1)), bytes.fromhex(key.format(2))
    file = DataFileMeta(
        name="data-a-0.parquet",
        size_bytes=1000,
        row_count=2,
        min_key=one,
        max_key=two,
        key_stats=Stats(min_values=one, max_values=two, null_counts=(0,)),
        value_stats=Stats(min_values=low, max_values=high, null_counts=(0, 0)),
        max_sequence_number=1,
        creation_time_ms=1700000000123,
        delete_row_count=0,
        source=0,
    )
    found = manifest_entries.entries_of_files([file], partition=NO_COLUMNS, bucket=0, total_buckets=1)
    data = entry_files.encode_entries(found)
    text = (
        "0400 18000000000000000000000000 0002 20646174612d612d302e70617271756574 d00f 04"
        "28 0000000100000000000000000100000000000000 28 0000000100000000000000000200000000000000"
        "28 0000000100000000000000000100000000000000 28 0000000100000000000000000200000000000000 0202020000"
        "38 00000002000000000000000001000000000000006100000000000081 38 00000002000000000000000002000000000000006200000000000081 02040200020000"
        "0002000000 02f6a1abfef962 020000020000000000"
    )
    assert body(data) == text.replace(" ", "")
    assert len(body(data)) == 2 * 212  # the specification's has one null more, for `_WRITE_COLS_SEQUENCES`, which engine 1.4.2 does not write
    assert decoded(data).files() == [file]


def test_worked_index_manifest() -> None:
    entry = IndexManifestEntry(
        partition=NO_COLUMNS,
        bucket=0,
        index_type="DELETION_VECTORS",
        file_name="index-a-0",
        file_size_bytes=31,
        row_count=1,
        ranges=(DeletionRange(file_name="data-a-0.parquet", offset=1, length=22, cardinality=1),),
    )
    text = (
        "0200 18000000000000000000000000 00 2044454c4554494f4e5f564543544f5253 12696e6465782d612d30 3e02"
        "020202 20646174612d612d302e70617271756574 022c0202 000000"
    )
    data = index_manifest.encode_index_manifest([entry])
    assert body(data) == text.replace(" ", "")
    assert index_manifest.decode_index_manifest(data) == [entry]


# ---- byte formats with recorded meaning ---------------------------------------------------------------------------------------------------------------------


def cases(name: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in golden.golden_cases(name)]


@pytest.mark.parametrize("path", cases("manifest_list"))
def test_recorded_manifest_list(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("manifest"))
def test_recorded_manifest(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("index_manifest"))
def test_recorded_index_manifest(path: Path) -> None:
    check_golden_file(path)


# ---- whole tables -------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", some(TABLES, 3), ids=lambda path: path.name)
def test_every_metadata_file_of_a_table(table: Path) -> None:
    """Our records are fastavro's, one at a time and a column at a time, and they are written back as they were."""
    for path in sorted((table / "manifest").iterdir()):
        data = path.read_bytes()
        if not avro_container.is_avro(data):
            assert metadata_records.is_columnar(data), path.name
            continue
        container = avro_container.open_container(data, path=path.name)
        wanted = [plain(row) for row in fastavro.reader(io.BytesIO(data))]
        assert avro_columns.read_records(container) == wanted, path.name
        columns = avro_columns.decode_columns([container])
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*(part.to_pylist() for part in columns.values()), strict=True)]
        assert [plain(row) for row in rows] == wanted, path.name
        write = avro_values.build_writer(container.schema)
        out = bytearray()
        for row in wanted:
            write(out, row)
        assert bytes(out) == b"".join(block.data for block in container.blocks), path.name


@pytest.mark.parametrize("table", some(TABLES, 3), ids=lambda path: path.name)
def test_live_rows_are_those_the_snapshot_counts(table: Path) -> None:
    handle = open_context(str(table))
    snapshot = snapshots.latest(handle)
    if snapshot is None:
        return
    found = manifest_reader.read_live_entries(handle, snapshot)
    rows = int(found.integers("row_count").sum())
    assert snapshot.total_record_count in {None, rows}  # snapshots of version 2 count nothing
    assert all(entry.kind == 0 for entry in manifest_reader.index_entries(handle, snapshot))
    delta = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, snapshot, "delta"))
    signs = 1 - 2 * delta.integers("kind").astype(int)
    assert snapshot.delta_record_count in {None, int((signs * delta.integers("row_count")).sum())}


def test_schemas_are_the_references_own_text() -> None:
    """The reference's text of each schema, as one engine wrote it (1.4.2)."""
    found = {name: set() for name in ("manifest-list", "index-manifest", "manifest")}
    for path in (fixtures() / "flights" / "table" / "manifest").iterdir():
        kind = next(name for name in found if path.name.startswith(name + "-"))
        found[kind].add(avro_container.open_container(path.read_bytes()).metadata["avro.schema"])
    assert found["manifest-list"] == {metadata_records.schema_text(metadata_records.MANIFEST_LIST_FIELDS)}
    assert found["manifest"] == {metadata_records.schema_text(metadata_records.entry_fields())}
    text = avro_container.open_container((fixtures() / "formats/index_manifest/avro_null.bin").read_bytes()).metadata["avro.schema"]
    assert text == metadata_records.schema_text(metadata_records.index_entry_fields())


def test_many_blocks_in_one_pass() -> None:
    """Records of one file decoded with other files, with and without guesses, in any number of blocks, are the same."""
    data = (fixtures() / "formats/manifest/many_blocks.bin").read_bytes()
    container = avro_container.open_container(data)
    assert len(container.blocks) > 1
    alone = decoded(data)
    twice, counts = entry_files.decode_entries([ManifestBytes("a", data), ManifestBytes("b", data)])
    assert counts == [len(alone), len(alone)]
    assert twice.table.equals(manifest_entries.concat_entries([alone, alone]).table)
    guessed = avro_columns.decode_columns([container], guess=entry_files._guess_record_starts)
    skipped = avro_columns.decode_columns([container])
    assert all(guessed[name].equals(skipped[name]) for name in skipped)
    digest = hashlib.sha256(b"".join(block.data for block in container.blocks)).hexdigest()
    assert hashlib.sha256(b"".join(block.data for block in avro_container.open_container(entry_files.encode_entries(alone)).blocks)).hexdigest() == digest


def test_records_in_a_union_are_guessed_as_well() -> None:
    """Some writers declare `["null", record]`: each record starts a byte earlier, and no block has to be skipped through."""
    data = (fixtures() / "formats/manifest/many_blocks.bin").read_bytes()
    container = avro_container.open_container(data)
    schema, out = json.loads(container.metadata["avro.schema"]), io.BytesIO()
    fastavro.writer(out, ["null", schema], fastavro.reader(io.BytesIO(data)), codec="null", sync_interval=4000)
    wrapped = avro_container.open_container(out.getvalue())
    assert len(wrapped.blocks) > 1
    guessed = entry_files._guess_record_starts(VectorReader(block.data for block in wrapped.blocks), branch=1)
    assert len(guessed) == container.count
    assert decoded(out.getvalue()).table.equals(decoded(data).table)


# ---- newer and older writers -------------------------------------------------------------------------------------------------------------------------------


def rewritten(data: bytes, fields: metadata_records.Fields, change: Any) -> bytes:
    """A metadata file as a writer with another schema would have written it."""
    text = metadata_records.schema_text(fields)
    write = avro_values.build_writer(avro_schema.parse_schema(text))
    out = []
    for row in avro_columns.read_records(avro_container.open_container(data)):
        one = bytearray()
        write(one, change(row))
        out.append(bytes(one))
    return avro_container.write_container(text, out)


def test_fields_of_newer_writers_are_kept() -> None:
    """pypaimon 2.1 adds two fields to the manifest list, the engine after 2.0 one to `_FILE`; both survive reading and writing."""
    data = (fixtures() / "formats/manifest_list/avro_null.bin").read_bytes()
    newer = (*metadata_records.MANIFEST_LIST_FIELDS, ("_TOTAL_BUCKETS", ("null", "int")), ("_EXTRA_FILES", ("null", ("array", "string"))))
    wide = rewritten(data, newer, lambda row: row | {"_TOTAL_BUCKETS": 4 if row["_SCHEMA_ID"] else None, "_EXTRA_FILES": ["x"]})
    found = manifests.decode_list(wide)
    assert [sorted(extra.name for extra in file.extra) for file in found] == [["_EXTRA_FILES"], ["_EXTRA_FILES", "_TOTAL_BUCKETS"], ["_EXTRA_FILES"]]
    kept = avro_columns.read_records(avro_container.open_container(manifests.encode_list(found)))
    assert {row["_FILE_NAME"]: row["_TOTAL_BUCKETS"] for row in kept} == {"manifest-a-0": None, "manifest-a-1": 4, "manifest-a-2": None}

    data = (fixtures() / "formats/manifest/many_blocks.bin").read_bytes()
    newer = metadata_records.entry_fields((("_WRITE_COLS_SEQUENCES", ("null", ("array", "long"))),))
    sequences = rewritten(data, newer, lambda row: row | {"_FILE": row["_FILE"] | {"_WRITE_COLS_SEQUENCES": [row["_FILE"]["_FILE_SIZE"]]}})
    found_entries = decoded(sequences)
    assert read_avro_container(entry_files.encode_entries(found_entries)) == read_avro_container(sequences)
    assert manifest_entries.concat_entries([decoded(data), found_entries]).table.column("_WRITE_COLS_SEQUENCES").null_count == len(decoded(data))


def test_global_index_of_engine_2_is_kept() -> None:
    covers = GlobalIndex(row_range_start=0, row_range_end=9, index_field_id=2, source_meta=b"s")
    entry = IndexManifestEntry(partition=NO_COLUMNS, bucket=0, index_type="btree", file_name="i", file_size_bytes=1, row_count=1, global_index=covers)
    assert index_manifest.decode_index_manifest(index_manifest.encode_index_manifest([entry])) == [entry]


def test_fields_of_old_writers_read_as_null() -> None:
    """An engine of 0.4 ends `_FILE` with `_EXTRA_FILES` and wraps every record in `["null", record]`."""
    data = (fixtures() / "formats/manifest/avro_null.bin").read_bytes()
    short = (*metadata_records.entry_fields()[:-1], ("_FILE", metadata_records.FILE_FIELDS[:12]))
    old = decoded(rewritten(data, short, lambda row: row))
    new = decoded(data)
    for name in manifest_entries.ENTRY_SCHEMA.names:
        if manifest_entries.ENTRY_SCHEMA.field(name).nullable and "null_counts" not in name:
            assert old.column(name).null_count == len(old), name
        else:
            assert old.column(name).equals(new.column(name)), name
    text = b'["null",' + metadata_records.schema_text(metadata_records.entry_fields()) + b"]"
    wrapped = avro_container.write_container(text, [b"\x02" + one for one in one_by_one(data)])
    assert decoded(wrapped).table.equals(new.table)


def one_by_one(data: bytes) -> list[bytes]:
    container = avro_container.open_container(data)
    write = avro_values.build_writer(container.schema)
    out = []
    for row in avro_columns.read_records(container):
        one = bytearray()
        write(one, row)
        out.append(bytes(one))
    return out
