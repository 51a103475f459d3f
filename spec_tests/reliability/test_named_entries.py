"""Wrong values of manifest entries, and of rows that are merged: `Corrupt` names the file that holds them, though many were decoded together."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import random
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import Corrupt
from lakekit.testing.fixtures import fixtures
from spec_tests.reliability import damaged_tables
from spec_tests.reliability.test_orc_bounds import every_stream, with_lengths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INPUTS = int(os.environ.get("LAKEKIT_FUZZ_INPUTS", "12"))
SEED = int(os.environ.get("LAKEKIT_FUZZ_SEED", "7"))

LOOKS: dict[str, Callable[[lk.Table], object]] = {
    "scan": lambda t: t.scan().collect(),
    "filter": lambda t: t.scan().filter(pl.col("id") == 3).collect(),
    "aggregate": lambda t: t.aggregate(pl.len()),
    "explain": lambda t: t.explain(pl.col("id") == 3),
    "files": lambda t: t.files(),
    "system": lambda t: t.system("files").collect(),
    "changes": lambda t: t.changes(since=0, mode="delta").collect(),
    "follow": lambda t: [change.frame.collect() for change in t.follow("latest-full", until="latest")],
    "compact": lambda t: t.compact(full=True),
}


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> int:
    """Changes the records of an Avro file; gives how long it is now."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records, schema = list(reader), reader.writer_schema
    change(records)
    made = io.BytesIO()
    fastavro.writer(made, schema, records, codec="deflate")
    path.write_bytes(made.getvalue())
    return len(made.getvalue())


def with_entry(made: Path, change: Callable[[dict[str, Any]], None]) -> tuple[Path, Path]:
    """A copy of a table, whose entries nobody remembers, with another last entry in its newest manifest; and that manifest."""
    table = made.with_name(f"{made.name}-copy")
    shutil.copytree(made, table)
    manifest = max(table.glob("manifest/manifest-*[0-9]"), key=lambda one: (not one.name.startswith("manifest-list"), one.stat().st_mtime_ns))
    size = rewritten(manifest, lambda records: change(records[-1]))
    sizes = {}

    def resize(records: list[dict[str, Any]]) -> None:
        for record in records:
            if record["_FILE_NAME"] == manifest.name:
                record["_FILE_SIZE"] = size

    for one in table.glob("manifest/manifest-list-*"):
        sizes[one.name] = rewritten(one, resize)
    for one in table.glob("snapshot/snapshot-*"):
        said = json.loads(one.read_text())
        for which in ("baseManifestList", "deltaManifestList", "changelogManifestList"):
            if said.get(which) in sizes:
                said[f"{which}Size"] = sizes[said[which]]
        one.write_text(json.dumps(said))
    return table, manifest


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "name": lambda entry: entry["_FILE"].update(_FILE_NAME="../diary.txt"),
    "empty name": lambda entry: entry["_FILE"].update(_FILE_NAME=""),
    "escape in the name": lambda entry: entry["_FILE"].update(_FILE_NAME="\x1b[2J"),
    "external path": lambda entry: entry["_FILE"].update(_EXTERNAL_PATH="/etc/passwd"),
    "least key": lambda entry: entry["_FILE"].update(_MIN_KEY=b"\0\0"),
    "greatest key": lambda entry: entry["_FILE"].update(_MAX_KEY=b"\0\0\0\7" + bytes(12)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_wrong_value_of_an_entry_names_its_manifest(tmp_path, name):
    t = lk.create(tmp_path / "t", {"id": "INT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for number in range(3):
        t.upsert([{"id": number, "v": "a"}, {"id": 9, "v": "b"}])
    table, manifest = with_entry(tmp_path / "t", CHANGES[name])
    told = 0
    for look in LOOKS.values():
        try:
            look(lk.open(table))
        except lk.LocationNotAllowed:
            told += 1
        except Corrupt as wrong:
            assert wrong.path == str(manifest)
            assert str(wrong).startswith(str(manifest))
            assert str(wrong).isprintable()
            told += 1
    assert told >= 2


def test_a_partition_that_is_none_names_its_manifest(tmp_path):
    t = lk.create(tmp_path / "t", {"id": "INT", "day": "STRING"}, partition_keys=["day"])
    for number in range(3):
        t.append([{"id": number, "day": "a"}])
    table, manifest = with_entry(tmp_path / "t", lambda entry: entry.update(_PARTITION=b"\0\0\0\1abc"))
    for look in (LOOKS["scan"], LOOKS["files"], lambda t: t.partitions(), lambda t: t.scan().filter(pl.col("day") == "a").collect()):
        with pytest.raises(Corrupt) as wrong:
            look(lk.open(table))
        assert wrong.value.path == str(manifest)


def test_a_partition_of_a_table_that_has_none_is_corrupt(tmp_path):
    """Two versions of a key came out, since they lay in two partitions."""
    t = lk.create(tmp_path / "t", {"id": "INT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for value in "abc":
        t.upsert([{"id": 1, "v": value}])
    table, manifest = with_entry(tmp_path / "t", lambda entry: entry.update(_PARTITION=bytes(11) + b"\2"))
    for look in (LOOKS["scan"], LOOKS["aggregate"]):
        with pytest.raises(Corrupt, match="several partitions") as wrong:
            look(lk.open(table))
        assert wrong.value.path == str(manifest)
    assert "entry is of a partition that there is not" in {problem.check for problem in lk.open(table).check().problems}


def test_postponed_files_are_of_one_partition():
    """Their bucket is -2: a partition and a bucket in one number are negative."""
    found = lk.open(fixtures() / "tables" / "bucket_postpone_ended").scan(at=2).collect()
    assert sorted(found.rows()) == [(1, "a"), (2, "b"), (3, "c")]


VALUES: dict[str, list[Any]] = {
    "INT": [1, 5, 9],
    "STRING": ["a", "b", "c"],
    "DOUBLE": [1.5, 2.5, 9.0],
    "DECIMAL(20, 2)": [Decimal(1), Decimal(5), Decimal(9)],
    "DATE": [dt.date(2024, 1, day) for day in (1, 5, 9)],
    "TIMESTAMP(6)": [dt.datetime(2024, 1, day) for day in (1, 5, 9)],  # noqa: DTZ001 - a wall clock
    "BYTES": [b"a", b"b", b"c"],
}


@pytest.mark.parametrize("kind", VALUES)
def test_statistics_the_wrong_way_round_leave_out_no_row(tmp_path, kind):
    t = lk.create(tmp_path / "t", {"v": kind})
    for value in VALUES[kind]:
        t.append([{"v": value}, {"v": VALUES[kind][0]}, {"v": VALUES[kind][2]}])

    def turn(entry: dict[str, Any]) -> None:
        stats = entry["_FILE"]["_VALUE_STATS"]
        stats.update(_MIN_VALUES=stats["_MAX_VALUES"], _MAX_VALUES=stats["_MIN_VALUES"])

    table, _ = with_entry(tmp_path / "t", turn)
    for value in VALUES[kind]:
        for condition in (pl.col("v") == value, pl.col("v") >= value, pl.col("v") <= value, pl.col("v").is_in([value])):
            assert lk.open(table).scan().filter(condition).collect().height == t.scan().collect().filter(condition).height


@pytest.mark.parametrize("kind", VALUES)
def test_bounds_the_wrong_way_round_tell_nothing(tmp_path, kind):
    """A file whose smallest key was another lay in a section of its own: its older versions came out too."""
    values = VALUES[kind]
    t = lk.create(tmp_path / "t", {"id": f"{kind} NOT NULL", "v": "INT"}, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for number in range(3):
        t.upsert([{"id": value, "v": number} for value in (values if number == 2 else values[:2])])

    def turn(entry: dict[str, Any]) -> None:
        file = entry["_FILE"]
        file.update(_MIN_KEY=file["_MAX_KEY"], _MAX_KEY=file["_MIN_KEY"])
        for stats in (file["_KEY_STATS"], file["_VALUE_STATS"]):
            stats.update(_MIN_VALUES=stats["_MAX_VALUES"], _MAX_VALUES=stats["_MIN_VALUES"])

    table, _ = with_entry(tmp_path / "t", turn)
    for value in values:
        assert lk.open(table).scan().filter(pl.col("id") == value).collect()["v"].to_list() == [2]
    assert sorted(lk.open(table).scan().collect().rows()) == [(value, 2) for value in values]
    lk.open(table).compact(full=True)
    assert sorted(lk.open(table).scan().collect().rows()) == [(value, 2) for value in values]


def test_a_file_that_is_added_twice_names_a_file_of_the_metadata(tmp_path):
    t = lk.create(tmp_path / "t", {"id": "INT"})
    for number in range(2):
        t.append([{"id": number}])
    first = t.files()["file_name"][0]
    table, manifest = with_entry(tmp_path / "t", lambda entry: entry["_FILE"].update(_FILE_NAME=first))
    with pytest.raises(Corrupt, match="added twice") as wrong:
        lk.open(table).scan().collect()
    assert wrong.value.path in {str(manifest), str(table / "snapshot" / "snapshot-2")}


@pytest.mark.parametrize("length", [1 << 24, 1 << 30, 1 << 40])
def test_texts_longer_than_an_orc_manifest_list_take_no_memory(tmp_path, length):
    """Arrow was handed manifests as they are, and asked for 2 GiB by one of 4 KiB."""
    t = lk.create(tmp_path / "t", {"id": "INT"}, options={"manifest.format": "orc"})
    t.append([{"id": 1}])
    table = tmp_path / "copy"
    shutil.copytree(tmp_path / "t", table)
    snapshot = table / "snapshot" / "snapshot-1"
    said = json.loads(snapshot.read_text())
    listed = table / "manifest" / said["deltaManifestList"]
    data = listed.read_bytes()
    column = next(column for kind, column, _ in every_stream(data) if kind == 2)
    listed.write_bytes(with_lengths(data, column, length, 3))
    snapshot.write_text(json.dumps(said | {"deltaManifestListSize": listed.stat().st_size}))
    with pytest.raises(Corrupt) as wrong:
        lk.open(table).scan().collect()
    assert wrong.value.path == str(listed)
    if length >= 1 << 30:
        assert wrong.value.field == "length", "told before Arrow reads"


def test_a_value_that_no_merge_takes_names_its_file(tmp_path):
    columns = {"id": "BIGINT", "v": "BYTES"}
    t = lk.create(tmp_path / "t", columns, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for value in (b"no sketch", b"none either"):
        t.upsert([{"id": 1, "v": value}])
    schema = tmp_path / "t" / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"write-only"', '"merge-engine":"aggregation","fields.v.aggregate-function":"rbm32","write-only"'))
    files = {str(file) for file in damaged_tables.targets(tmp_path / "t", "data")}
    for look in (LOOKS["scan"], LOOKS["compact"]):
        with pytest.raises(Corrupt, match="column v") as wrong:
            look(lk.open(tmp_path / "t"))
        assert wrong.value.path in files


def test_no_changed_entry_ends_without_the_name_of_a_file(tmp_path):
    """Law: any one value of an entry is another; whatever is raised as `Corrupt` has the path of a file that is there, or would be."""
    draw = random.Random(SEED)
    values: list[Any] = [b"", b"\0", b"\0\0\0\1", b"\xff" * 12, "..", "a/b", "\0", "", -1, 2**31 - 1, -(2**63), 2**62, 0]
    told = 0
    for number in range(INPUTS):
        root = tmp_path / f"t{number}"
        t = lk.create(root, {"id": "INT", "day": "INT", "v": "STRING"}, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": "1"})
        for _ in range(2):
            t.upsert([{"id": 1, "day": 1, "v": "a"}])

        def change(entry: dict[str, Any]) -> None:
            holder = entry if draw.random() < 0.3 else entry["_FILE"]
            name = draw.choice([one for one, value in holder.items() if isinstance(value, (bytes, str, int)) and one != "_VERSION"])
            holder[name] = draw.choice([value for value in values if type(value) is type(holder[name])] or [holder[name]])
            if name in {"_KIND", "_BUCKET", "_TOTAL_BUCKETS", "_LEVEL", "_FILE_SOURCE"}:
                holder[name] = max(-(2**31), min(2**31 - 1, holder[name]))

        root, _ = with_entry(root, change)
        for look in LOOKS.values():
            try:
                look(lk.open(root))
            except Corrupt as wrong:
                assert wrong.path is not None, wrong
                assert str(root) in wrong.path
                told += 1
            except lk.LakekitError:
                pass
    assert told > INPUTS / 2
