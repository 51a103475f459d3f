"""Tables of pypaimon 2.1.0 and pypaimon-rust 0.4.0: lakekit reads the rows that both of them read, after its own work on them too, and so does the engine."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.testing.expectations import diff_rows, encode_rows, load_golden_table
from lakekit.testing.recorded_reads import describe_mismatch
from spec_tests.differential.judge import Refused
from spec_tests.places import FIXTURES

ARCHIVE = Path(FIXTURES, "writers", "tables.tar.xz")
with tarfile.open(ARCHIVE) as told:
    FACTS = {Path(one.name).stem: json.loads(told.extractfile(one).read()) for one in told if one.name.count("/") == 1 and one.name.endswith(".json")}
CASES = sorted(FACTS)
HIDDEN = ("postpone", "vectors", "first_row")
"""Tables whose rows wait for a compaction before anybody sees them."""
SHREDDED = "python_shared_shredding"
"""A table of which engine 1.4.2 and lakekit do not read one column."""
EXTERNAL = "rust_external"
"""A table whose data files lie where nobody allowed them, and are not in the archive."""
SIDECARS = "rust_sidecars"
"""A table whose manifests have sidecars, as the lists say."""
BESIDE = ".avro.sidecar"
MISPLACED = "python_mod_numbers"
"""A key table whose rows do not lie where its bucket function puts them, as the list of differences says."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    root = tmp_path_factory.mktemp("writers")
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(root, filter="data")
    return str(root)


def ordered(rows):
    return sorted(json.dumps(values, sort_keys=True) for _, values in rows)


@pytest.mark.parametrize("name", CASES)
def test_lakekit_reads_what_python_reads(unpacked, name):
    case = load_golden_table(name, root=unpacked)
    wrong = {read.name: found for read in case.reads if (found := describe_mismatch(case, read)) is not None}
    assert not wrong


def test_a_map_whose_keys_share_columns_is_refused_by_name(unpacked):
    table = lk.open(load_golden_table(SHREDDED, root=unpacked).path)
    for change in (lambda: table.scan().collect(), lambda: table.append([{"k": 1}]), lambda: table.compact(full=True)):
        with pytest.raises(lk.Unsupported) as refusal:
            change()
        assert refusal.value.feature == "type.map.shared-shredding"


def test_paths_outside_the_table_are_refused_by_name(unpacked):
    table = lk.open(load_golden_table(EXTERNAL, root=unpacked).path)
    for change in (lambda: table.scan().collect(), lambda: table.append([{"k": 2, "v": "b"}]), lambda: table.remove_orphans(older_than="0 s", external=True)):
        with pytest.raises(lk.LocationNotAllowed, match="paimon-fixtures/external"):
            change()


def test_a_bucket_whose_function_does_not_take_the_key_is_read_whole_and_not_written(unpacked):
    table = lk.open(load_golden_table("rust_hive_times", root=unpacked).path)
    rows = table.scan().collect()
    assert rows.height == 8
    assert rows["n"].n_unique() == 8
    for key, n in rows.rows():
        assert table.scan().filter(pl.col("k") == key).collect().rows() == [(key, n)]
    assert table.check(deep=True).ok
    with pytest.raises(lk.Unsupported, match="hive does not take TIMESTAMP"):
        table.upsert(rows)


@pytest.mark.parametrize("name", [name for name in CASES if name.endswith(("_hive_booleans", "_mod_numbers", "_null_times", "_buckets"))])
def test_every_row_is_found_by_its_bucket_key(unpacked, name):
    table = lk.open(load_golden_table(name, root=unpacked).path)
    rows = table.scan().collect()
    for key in rows["k"]:
        condition = pl.col("k").is_null() if key is None else pl.col("k") == pl.lit(key, rows.schema["k"])
        assert table.scan().filter(condition).collect().sort(pl.all()).rows() == rows.filter(condition).sort(pl.all()).rows()


def names_of(path, end=""):
    return {file.name for file in Path(path, "manifest").iterdir() if file.name.endswith(end)}


def owners(names):
    return {name.removesuffix(BESIDE) for name in names}


@pytest.mark.parametrize("way", ["rollback", "expire"])
def test_sidecars_live_and_go_with_their_manifests(unpacked, tmp_path, way):
    case = load_golden_table(SIDECARS, root=unpacked)
    shutil.copytree(case.path, tmp_path / SIDECARS)
    table, made = lk.open(tmp_path / SIDECARS), names_of(case.path, BESIDE)
    assert len(made) == 3
    assert table.remove_orphans(older_than="0 s", dry_run=False, force=True).is_empty()
    assert names_of(table.location, BESIDE) == made
    if way == "rollback":
        table.rollback(1)
        assert names_of(table.location, BESIDE) == made  # the files of snapshots that are gone wait for the cleaning of orphans
        table.remove_orphans(older_than="0 s", dry_run=False, force=True)
    else:
        table.append([{"k": 9, "p": "a"}])
        table.compact_manifests()
        table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    left = names_of(table.location, BESIDE)
    assert len(left) == (1 if way == "rollback" else 0)
    assert owners(left) <= names_of(table.location)
    assert table.remove_orphans(older_than="0 s", force=True).is_empty()
    assert lk.open(tmp_path / SIDECARS).check().ok


@pytest.mark.reference
@pytest.mark.parametrize("name", [name for name in CASES if name != EXTERNAL and not name.endswith("_nanoseconds")])
def test_the_engine_reads_what_python_reads(judge, unpacked, tmp_path, name):
    case = load_golden_table(name, root=unpacked)
    shutil.copytree(case.path, tmp_path / name)
    if name == SHREDDED:
        with pytest.raises(Refused):
            judge.read(tmp_path / name)
        return
    assert diff_rows(judge.read(tmp_path / name).rows, case.read("latest"), kinds=False) is None


@pytest.mark.parametrize("name", [name for name in CASES if FACTS[name]["primary_keys"] and not any(word in name for word in HIDDEN)])
def test_a_compaction_leaves_the_rows(unpacked, tmp_path, name):
    case = load_golden_table(name, root=unpacked)
    shutil.copytree(case.path, tmp_path / name)
    table, read = lk.open(tmp_path / name), case.read("latest")
    table.compact(full=True)
    assert ordered(encode_rows(lk.open(tmp_path / name).scan().collect(), read.types)) == ordered(read.rows)
    wrong = {one.check for one in lk.open(tmp_path / name).check(deep=True).problems}
    assert wrong == ({"rows are in another bucket"} if name == MISPLACED else set())
