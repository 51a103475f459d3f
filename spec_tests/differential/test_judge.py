"""The judge answers of golden tables what their recordings say, and a question that it cannot answer does not end it."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from lakekit.testing.expectations import canonical_value, load_golden_table
from spec_tests.differential.judge import Refused

pytestmark = pytest.mark.reference
GOLDEN = (
    "aggregate_retract_refused",
    "append_partitioned",
    "bucket_cross_deduplicate",
    "bucket_dynamic_partitioned",
    "bucket_postpone_lookup",
    "changelog_lookup",
    "changelog_partitioned",
    "dedup_orc",
    "evolve_nested_avro",
    "first_row_partitioned",
    "partial_two_groups",
    "partition_special_values",
    "types_nested_parquet",
    "types_scalars_orc",
    "types_variant_parquet",
    "vectors_append_64_parquet",
    "vectors_keyed_buckets",
)


def told(rows, types, path=""):
    """Rows without what has no meaning."""
    cells = ([canonical_value(value, t) for value, t in zip(values, types, strict=True)] for _, values in rows)
    return Counter(f"{kind} {row}".replace(f"file:{path}", "{table}") for (kind, _), row in zip(rows, cells, strict=True))


@pytest.mark.parametrize("name", GOLDEN)
def test_recorded_reads(judge, name):
    case = load_golden_table(name)
    for recorded in case.reads:
        asked = {"options": recorded.options, "system": recorded.system, "branch": recorded.branch}
        if recorded.error is not None:
            with pytest.raises(Refused) as refused:
                judge.read(case.path, **asked)
            assert str(refused.value) == recorded.error
            continue
        found = judge.read(case.path, columns=recorded.columns, **asked)
        assert (found.columns, found.types) == (recorded.columns, recorded.types)
        assert told(found.rows, found.types, case.path) == told(recorded.rows, recorded.types), recorded.name


@pytest.mark.parametrize("name", GOLDEN)
def test_places_and_counts(judge, name):
    case = load_golden_table(name)
    facts, files = judge.snapshots(case.path), judge.files(case.path)
    assert sum(file.rows for file in files) == facts[-1].total
    try:
        rows = judge.read(case.path).rows
    except Refused:
        return
    places = judge.placed(case.path)
    assert Counter(repr(values) for _, _, values in places) == Counter(repr(values) for _, values in rows)
    assert {(partition, bucket) for partition, bucket, _ in places} <= {(file.partition, file.bucket) for file in files}


@pytest.mark.parametrize("name", ["changelog_lookup", "changelog_partitioned", "changelog_full_compaction", "changelog_input"])
def test_a_streamed_changelog_is_the_recorded_one(judge, name):
    case = load_golden_table(name)
    recorded = next(read for read in case.reads if read.system == "audit_log" and read.options.get("incremental-between-scan-mode") == "changelog")
    since, until = map(int, recorded.options["incremental-between"].split(","))
    streamed = judge.changelog(case.path, since=since + 1, until=until)
    rows = [row for one in streamed.values() for row in one]
    assert rows
    audited = [(values[0], values[1:]) for _, values in recorded.rows]
    assert told(rows, recorded.types[1:]) == told(audited, recorded.types[1:])


def test_a_table_from_its_making(judge, tmp_path):
    path = tmp_path / "db.db" / "t"
    options = {"bucket": "3", "changelog-producer": "lookup", "file.format": "avro"}
    assert judge.create(path, {"p": "INT", "k": "STRING", "v": "DECIMAL(9, 2)"}, primary_keys=["p", "k"], partition_keys=["p"], options=options) == 0
    rows = [("+I", (number % 2, f"k{number}", "1.50")) for number in range(20)]
    assert judge.write(path, rows) == [1, 2]
    assert judge.write(path, [("-D", (0, "k0", "1.50"))], user="job", identifier=1) == [3, 4]
    assert judge.alter(path, ("add_column", "n", "ARRAY<ROW<a INT, b STRING>>"), ("set_option", "num-sorted-run.compaction-trigger", "2")) == 1
    assert judge.write(path, [("+U", (1, "k1", None, [[1, "x"], None]))], user="job", identifier=2, full=True) == [5, 6]

    found = judge.read(path)
    assert len(found.rows) == 19
    assert ("+I", (1, "k1", None, [[1, "x"], None])) in [("+I", values) for _, values in found.rows]
    assert judge.changelog(path)[4] == (("-D", (0, "k0", "1.50", None)),)
    assert [kind for kind, _ in judge.changelog(path, since=5)[6]] == ["-U", "+U"]
    places = {values[:2]: (partition, bucket) for partition, bucket, values in judge.placed(path, columns=["p", "k"])}
    fixed = judge.buckets_of(path, found.rows)
    assert [places[values[:2]] for _, values in found.rows] == fixed
    assert len(set(fixed)) > 4
    assert [values for _, _, values in judge.placed(path, where=("k", "k2"))] == [(0, "k2", "1.50", None)]
    assert len(judge.placed(path, where=("v", None))) == 1
    assert {file.level for file in judge.files(path) if file.partition == "p=1/"} == {5}
    assert [(one.kind, one.identifier) for one in judge.snapshots(path)[2:4]] == [("APPEND", 1), ("COMPACT", 1)]


def test_overwriting_and_deleting(judge, tmp_path):
    path = tmp_path / "db.db" / "t"
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    judge.create(path, {"p": "INT", "v": "DOUBLE"}, partition_keys=["p"], options=options)
    judge.write(path, [("+I", (number % 2, str(number / 2))) for number in range(6)])
    assert judge.delete(path, [(0, 0), (1, 2)]) == [2]
    assert told(judge.read(path).rows, judge.read(path).types) == Counter(f"+I {[p, v]}" for p, v in [(0, "1.0"), (0, "2.0"), (1, "0.5"), (1, "1.5")])
    judge.write(path, [("+I", (1, "NaN"))], overwrite={})
    assert sorted(values for _, values in judge.read(path).rows) == [(0, "1.0"), (0, "2.0"), (1, "NaN")]
    judge.truncate(path, [{"p": "0"}])
    assert judge.read(path).rows == (("+I", (1, "NaN")),)
    judge.truncate(path)
    assert judge.read(path).rows == ()


def test_a_refusal_does_not_end_it(judge, tmp_path):
    path = tmp_path / "db.db" / "t"
    with pytest.raises(Refused, match="IllegalArgumentException"):
        judge.read(path)
    judge.create(path, {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    with pytest.raises(Refused, match="exists"):
        judge.create(path, {"k": "INT NOT NULL"})
    with pytest.raises(Refused, match="2 values for"):
        judge.write(path, [("+I", (1, 2))])
    assert judge.write(path, [("+I", (1,))]) == [1]
    shutil.rmtree(path / "bucket-0")
    with pytest.raises(Refused, match="FileNotFound"):
        judge.read(path)
    assert judge.files(path)[0].rows == 1
