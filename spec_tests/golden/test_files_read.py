"""Data files of golden tables through `scan_files`: order, positions, system columns, other storages, and what is missing or torn."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pyroaring import BitMap

from lakekit.columns import FILE, LEVEL
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import data_file_paths
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.errors import Corrupt, LakekitError, Unsupported
from lakekit.format import avro, external_reader, orc, parquet
from lakekit.metadata import manifest_reader, schemas, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.storage.memory import MemoryStorage
from lakekit.storage.protocol import FileMissing
from lakekit.types import Field
from spec_tests.longer import some
from spec_tests.places import FIXTURES

TABLES = Path(FIXTURES) / "tables"
MANY = ("append_plain", "append_avro", "append_orc", "append_partitioned", "files_formats_changed", "evolve_append_parquet", "evolve_append_orc")
KEYED = sorted(
    path.stem
    for path in TABLES.glob("*.json")
    if '"primary_keys":["' in path.read_text(encoding="utf-8")[:2000] and path.stem.split("_")[0] in ("dedup", "evolve", "types", "partial", "files", "old")
)


def opened(case, **how):
    handle = open_context(str(TABLES / case), **how)
    return handle, snapshots.latest(handle)


def listed(handle, snapshot):
    """Every live file, in one order, and where each lies."""
    entries = manifest_reader.read_live_entries(handle, snapshot)
    found = sorted(zip(entries.files(), data_file_paths(handle, entries), strict=True), key=lambda pair: pair[0].name)
    return [file for file, _ in found], [path for _, path in found]


def in_memory(case):
    storage = MemoryStorage()
    for path in (TABLES / case).rglob("*"):
        if path.is_file():
            storage.put(str(path), path.read_bytes())
    return storage


@pytest.mark.long
@pytest.mark.parametrize("case", MANY)
def test_many_files_are_the_files_one_after_the_other(case):
    handle, snapshot = opened(case)
    files, paths = listed(handle, snapshot)
    fields = handle.schema.fields
    system = ("_SEQUENCE_NUMBER", "_VALUE_KIND", LEVEL, FILE)
    whole = scan_files(handle, files, paths, fields, system=system, row_index="row").collect()
    parts = [scan_files(handle, [file], [path], fields, system=system).collect() for file, path in zip(files, paths, strict=True)]
    assert whole.drop("row").equals(pl.concat(parts))
    assert whole["row"].to_list() == list(range(whole.height))
    assert [part.height for part in parts] == [file.row_count for file in files]
    for file, part in zip(files, parts, strict=True):
        assert part[FILE].unique().to_list() == [file.name]
        assert part[LEVEL].unique().to_list() == [file.level]
        assert part["_VALUE_KIND"].unique().to_list() == [0]
        assert part["_SEQUENCE_NUMBER"].to_list() == list(range(file.min_sequence_number, file.max_sequence_number + 1))
    streamed = scan_files(handle, files, paths, fields, system=system, row_index="row").collect(engine="streaming")
    assert streamed.equals(whole)
    memory = open_context(str(TABLES / case), storage=in_memory(case))
    assert scan_files(memory, files, paths, fields, system=system, row_index="row").collect().equals(whole)


@pytest.mark.long
@pytest.mark.parametrize("case", MANY)
def test_rows_are_left_out_by_position(case):
    handle, snapshot = opened(case)
    files, paths = listed(handle, snapshot)
    fields = handle.schema.fields
    whole = scan_files(handle, files, paths, fields, system=(FILE,), row_index="row").collect()
    gone = {file.name: np.arange(0, file.row_count, 2, dtype=np.uint32) for file in files[1:]}
    hit = {file.name: BitMap(range(min(2, file.row_count))) for file in files}
    local = whole.with_columns(at=pl.col("row") - pl.col("row").min().over(FILE))
    alive = (pl.col(FILE) == files[0].name) | (pl.col("at") % 2 == 1)
    matching = pl.col("at") < 2
    for asked, condition in (
        ({"deleted_rows": gone}, alive),
        ({"selected_rows": hit}, matching),
        ({"deleted_rows": gone, "selected_rows": hit}, alive & matching),
    ):
        for row_index in (None, "row"):
            found = scan_files(handle, files, paths, fields, system=(FILE,), row_index=row_index, **asked)
            wanted = local.filter(condition).select(*(["row"] if row_index else []), *(field.name for field in fields), FILE)
            assert found.collect().equals(wanted)
            assert found.select(FILE).collect(engine="streaming").equals(wanted.select(FILE))


@pytest.mark.long
@pytest.mark.parametrize("case", ["append_plain", "append_orc", "append_avro"])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_columns_that_no_file_has_come_as_often_as_there_are_rows(case, engine):
    handle, snapshot = opened(case)
    files, paths = listed(handle, snapshot)
    rows = sum(file.row_count for file in files)
    first = handle.schema.fields[0]
    again = Field(first.name, first.type, id=77)  # dropped, and added again under its name
    new = Field("new", first.type, id=78)
    gone = {files[0].name: np.array([0], np.uint32)}
    for fields, system in (((again,), ()), ((new,), ()), ((), (LEVEL,)), ((again, new), (LEVEL, FILE, "_SEQUENCE_NUMBER")), ((), ())):
        frame = scan_files(handle, files, paths, fields, system=system)
        assert frame.collect_schema().names() == [*(field.name for field in fields), *system]
        assert frame.select(pl.len()).collect(engine=engine).item() == rows
        if fields or system:
            found = frame.collect(engine=engine)
            assert found.height == rows
            assert all(found[field.name].null_count() == rows for field in fields)
            fewer = scan_files(handle, files, paths, fields, system=system, deleted_rows=gone)
            assert fewer.collect(engine=engine).height == rows - 1


def test_a_filter_reaches_the_scan_below_positions_and_casts():
    handle, snapshot = opened("files_row_groups_parquet")
    files, paths = listed(handle, snapshot)
    gone = {files[0].name: np.array([1, 2], np.uint32)}
    frame = scan_files(handle, files, paths, handle.schema.fields, deleted_rows=gone, filters=[pl.col("k") > 1_500])
    assert "SELECTION" in frame.explain()
    assert 'col("k")' in frame.explain().partition("SELECTION")[2]
    whole = scan_files(handle, files, paths, handle.schema.fields).collect()
    assert frame.collect().equals(pl.concat([whole.head(1), whole.slice(3)]).filter(pl.col("k") > 1_500))


@pytest.mark.parametrize("case", some(KEYED, 3))
def test_key_columns_hold_what_value_columns_hold(case):
    """Keys are read from the value columns, so that a column is decoded once: the `_KEY_` columns say the same."""
    handle, snapshot = opened(case)
    if snapshot is None:
        return
    files, paths = listed(handle, snapshot)
    for file, path in zip(files, paths, strict=True):
        schema = schemas.read_schema(handle, file.schema_id)
        keys = [Field("_KEY_" + field.name, field.type, id=field.id + 1073741823) for field in schema.key_fields]
        frame = physical(file.format_name, path, (*keys, *schema.key_fields)).collect()
        if frame.height and frame[keys[0].name].null_count() == frame.height:
            continue  # thin mode: there are none
        for key, field in zip(keys, schema.key_fields, strict=True):
            assert frame[key.name].rename(field.name).equals(frame[field.name])


def physical(format_name, path, fields):
    match format_name:
        case "parquet":
            return parquet.scan([path], fields, paths=[path])
        case "orc":
            return orc.scan([path], fields, read=lambda path: path)
    return avro.scan([path], fields, read=lambda path: Path(path).read_bytes())


# ---- missing, torn, miscounted -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """A function from a golden table's name to a copy of it that a test may damage: handle, files, paths."""

    def copied(case, **how):
        shutil.copytree(TABLES / case, tmp_path / case)
        handle = open_context(str(tmp_path / case), **how)
        return handle, *listed(handle, snapshots.latest(handle))

    return copied


@pytest.mark.parametrize("case", ["append_plain", "append_orc", "append_avro"])
def test_a_missing_file_is_named_with_its_size_and_what_to_read_instead(case, table):
    handle, files, paths = table(case)
    Path(paths[1]).unlink()
    fields = handle.schema.fields
    with pytest.raises(FileMissing) as refusal:
        scan_files(handle, files, paths, fields, snapshot_id=1)
    newest = snapshots.latest_id(handle)
    assert refusal.value.path == paths[1]
    assert refusal.value.message.startswith(f"snapshot 1 of {case} lists bucket-0/{files[1].name} (")
    assert refusal.value.message.endswith(f"which is not there. Was it expired by another writer? t.scan(at={newest})")
    kept = replace(handle, options=handle.options.with_options({"scan.ignore-lost-files": "true"}))
    assert scan_files(kept, files, paths, fields).collect().height == sum(file.row_count for file in files) - files[1].row_count


@pytest.mark.parametrize("case", ["append_plain", "append_orc", "append_avro"])
@pytest.mark.parametrize("bytes_more", [-9, -1, 1, 50])
def test_a_file_of_another_size_is_torn(case, bytes_more, table):
    handle, files, paths = table(case)
    data = Path(paths[0]).read_bytes()
    Path(paths[0]).write_bytes(data[:bytes_more] if bytes_more < 0 else data + bytes(bytes_more))
    with pytest.raises(Corrupt, match=rf"{len(data) + bytes_more} bytes, the manifest says {len(data)}") as refusal:
        scan_files(handle, files, paths, handle.schema.fields)
    assert refusal.value.path == paths[0]
    kept = replace(handle, options=handle.options.with_options({"scan.ignore-corrupt-files": "true"}))
    assert scan_files(kept, files, paths, handle.schema.fields).collect().height == sum(file.row_count for file in files[1:])


@pytest.mark.parametrize(("tail", "kind"), [(b"PAR2", Corrupt), (b"PARE", Unsupported)])
def test_a_parquet_file_ends_as_one(tail, kind, table):
    handle, files, paths = table("append_plain")
    Path(paths[0]).write_bytes(Path(paths[0]).read_bytes()[:-4] + tail)
    with pytest.raises(kind) as refusal:
        scan_files(handle, files, paths, handle.schema.fields)
    assert refusal.value.path == paths[0]


@pytest.mark.parametrize("case", ["append_plain", "append_orc", "append_avro"])
def test_a_file_with_other_rows_than_its_manifest_says_is_corrupt(case):
    handle, snapshot = opened(case)
    files, paths = listed(handle, snapshot)
    wrong = [replace(files[0], row_count=files[0].row_count + 1), *files[1:]]
    gone = {files[1].name: np.array([0], np.uint32)}
    with pytest.raises(Corrupt, match="rows, the manifest says") as refusal:
        scan_files(handle, wrong, paths, handle.schema.fields, deleted_rows=gone).collect()
    assert refusal.value.path == paths[0]


def test_rows_are_counted_again_in_a_file_that_was_replaced(table):
    """The count in a footer is cached by what the storage says of the content: another file of that name has its own."""
    handle, files, paths = table("append_plain")
    fields, gone = handle.schema.fields, {files[0].name: np.array([0], np.uint32)}
    rows = scan_files(handle, files, paths, fields, deleted_rows=gone).collect()
    assert rows.height == sum(file.row_count for file in files) - 1
    own = pl.read_parquet(paths[0])
    other = pl.concat([own, own])
    other.write_parquet(paths[0])
    replaced = [replace(files[0], size_bytes=Path(paths[0]).stat().st_size), *files[1:]]
    with pytest.raises(Corrupt, match="rows, the manifest says"):
        scan_files(handle, replaced, paths, fields, deleted_rows=gone).collect()
    recounted = [replace(replaced[0], row_count=other.height), *files[1:]]
    assert scan_files(handle, recounted, paths, fields, deleted_rows=gone).collect().height == rows.height + own.height


def test_a_position_beyond_the_file_is_corrupt():
    handle, snapshot = opened("append_plain")
    files, paths = listed(handle, snapshot)
    beyond = np.array([0, files[0].row_count], np.uint32)
    for asked in ({"deleted_rows": {files[0].name: beyond}}, {"selected_rows": {files[0].name: beyond}}):
        with pytest.raises(Corrupt, match=f"names row {files[0].row_count}"):
            scan_files(handle, files, paths, handle.schema.fields, **asked)


def test_damage_inside_a_parquet_file_is_blamed_on_it_where_lakekit_collects(table):
    handle, files, paths = table("append_plain")
    data = bytearray(Path(paths[1]).read_bytes())
    data[4:60] = bytes(56)
    Path(paths[1]).write_bytes(data)
    with pytest.raises(Corrupt) as refusal, translate_polars_errors(handle, paths):
        scan_files(handle, files, paths, handle.schema.fields).collect()
    assert refusal.value.path == paths[1]


PANIC = "python function failed: KeyboardInterrupt: "


def test_an_interrupt_is_no_damage_where_lakekit_collects(table):
    handle, _, paths = table("append_plain")
    data = bytearray(Path(paths[1]).read_bytes())
    data[4:60] = bytes(56)
    Path(paths[1]).write_bytes(data)
    for text in (PANIC, f"{PANIC}{paths[1]}"):
        with pytest.raises(KeyboardInterrupt), translate_polars_errors(handle, paths):
            raise pl.exceptions.PanicException(text)
    with pytest.raises(Corrupt), translate_polars_errors(handle, paths):
        raise pl.exceptions.PanicException("index out of bounds")


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("opens", [False, True])
def test_an_interrupt_is_no_damage_where_a_reader_decodes(opens, engine):
    for text, kind in ((PANIC, KeyboardInterrupt), ("index out of bounds", Corrupt)):

        def panic(columns, text=text):
            raise pl.exceptions.PanicException(text)

        def open_file(path, panic=panic):
            return external_reader.OpenFile(row_count=1, batches=panic) if opens else panic(path)

        with pytest.raises(kind):
            external_reader.scan(["a.avro"], open_file, pl.Schema({"a": pl.Int64()}), name="avro").collect(engine=engine)


def test_an_unknown_format_is_refused_by_name():
    handle, snapshot = opened("append_plain")
    files, paths = listed(handle, snapshot)
    other = [replace(file, name=file.name.replace(".parquet", ".lance")) for file in files]
    with pytest.raises(Unsupported, match="lance") as refusal:
        scan_files(handle, other, paths, handle.schema.fields)
    assert refusal.value.feature == "file.format.lance"


# ---- deletion vectors ------------------------------------------------------------------------------------------------------------------------


def vectors_of(handle, snapshot):
    return {
        part.file_name: entry for entry in manifest_reader.index_entries(handle, snapshot) if entry.index_type == "DELETION_VECTORS" for part in entry.ranges
    }


@pytest.mark.parametrize("case", sorted(path.stem for path in TABLES.glob("vectors_*.json")))
def test_deletion_vectors_are_read_by_one_look_at_each_index_file(case):
    storage = in_memory(case)
    handle, snapshot = opened(case, storage=storage)
    vectors = vectors_of(handle, snapshot)
    before = len(storage.trace)
    found = deletion_vector_reader.load_positions(handle, vectors)
    assert len(storage.trace) - before == len({entry.file_name for entry in vectors.values()})
    assert found.keys() == vectors.keys()
    for name, positions in found.items():
        said = next(part for part in vectors[name].ranges if part.file_name == name)
        assert said.cardinality in (None, len(positions))
        assert (np.diff(positions.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("case", ["vectors_append_32_parquet", "vectors_append_64_parquet"])
@pytest.mark.parametrize(
    "change", [{"offset": 0}, {"offset": 5}, {"offset": 10**6}, {"length": 3}, {"length": -1}, {"length": 10**9}, {"cardinality": 77}, {"cardinality": 10**6}]
)
def test_a_vector_that_is_not_what_the_index_manifest_says_is_corrupt(case, change):
    handle, snapshot = opened(case)
    vectors = vectors_of(handle, snapshot)
    name, entry = next(iter(vectors.items()))
    wrong = replace(entry, ranges=tuple(replace(part, **change) if part.file_name == name else part for part in entry.ranges))
    with pytest.raises(Corrupt) as refusal:
        deletion_vector_reader.load_positions(handle, {name: wrong})
    assert refusal.value.path is not None


def test_a_damaged_vector_is_corrupt_wherever_the_damage_is():
    storage = in_memory("vectors_append_32_parquet")
    handle, snapshot = opened("vectors_append_32_parquet", storage=storage)
    vectors = vectors_of(handle, snapshot)
    path = deletion_vector_reader.index_path(handle, next(iter(vectors.values())))
    data = storage.read(path)
    for at in range(1, len(data)):
        storage.put(path, data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with pytest.raises(LakekitError) as refusal:
            deletion_vector_reader.load_positions(handle, vectors)
        assert path in refusal.value.message
