"""Care that lakekit takes of tables which the reference writes in turns with it: it reads the same rows, picks the same runs, and goes on writing."""

from __future__ import annotations

import random

import pytest

import lakekit as lk
from lakekit.bucket import append_compaction
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.metadata import snapshots
from lakekit.types import parse
from spec_tests.differential.players import frame

pytestmark = pytest.mark.reference

APPEND = {"p": "INT", "a": "INT", "b": "BIGINT", "s": "STRING"}
KEYED = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "a": "INT", "s": "STRING"}


def some_rows(chance: random.Random, columns: dict[str, str], count: int) -> tuple:
    drawn = {
        "INT": lambda: chance.randint(-9, 9),
        "BIGINT": lambda: chance.randint(0, 30),
        "VARCHAR": lambda: "x" * chance.randint(0, 9),
    }

    def value(name: str) -> object:
        t = parse(columns[name])
        return chance.randint(0, 1) if name == "p" else None if t.nullable and chance.random() < 0.2 else drawn[t.root]()

    return tuple(("+I", tuple(value(name) for name in columns)) for _ in range(count))


def write(judge, path, columns, chance, turn, count):
    rows = some_rows(chance, columns, count)
    if turn % 2:
        judge.write(path, rows)
    else:
        table = lk.open(path)
        table.append(frame(table, rows, plain=True))


def alike(judge, path):
    """Both read the same rows; they are given."""
    said = sorted((values for _, values in judge.read(path).rows), key=repr)
    assert sorted(lk.open(path).scan().collect().rows(), key=repr) == said
    assert lk.open(path).check(deep=True).ok
    return said


def units(path, *, full):
    """What lakekit would sort now."""
    handle = lk.open(path)._context()
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    due = [append_compaction.pick_clustering_unit(handle, standing.restore_bucket(*place).files, full=full) for place in standing.bucket_ids()]
    return sorted((unit.output_level, sorted(file.name for file in unit.files)) for unit in due if unit is not None)


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("partitions", [[], ["p"]], ids=["whole", "partitions"])
def test_clustering_picks_what_the_reference_picks(judge, tmp_path, partitions, vectors):
    path, chance = str(tmp_path / "db.db" / "t"), random.Random(f"{partitions}{vectors}")
    options = {"bucket": "-1", "clustering.incremental": "true", "clustering.columns": "a,s", "deletion-vectors.enabled": vectors}
    options["num-sorted-run.compaction-trigger"] = "3"
    judge.create(path, APPEND, partition_keys=partitions, options=options)
    count = 0
    for turn in range(14):
        size = chance.choice((3, 10, 400))
        write(judge, path, APPEND, chance, turn, size)
        count += size
        if vectors == "true" and turn % 5 == 4:
            file = judge.files(path)[0]
            judge.delete(path, [(0, 0)])
            count -= file.rows > 0
        for full in (False, True):
            assert units(path, full=full) == sorted((level, sorted(names)) for level, names in judge.clustering_units(path, full=full))
        if turn % 3 == 2:
            lk.open(path).compact(full=turn == 11)
        assert len(alike(judge, path)) == count
    assert max(file.level for file in judge.files(path)) == 3


def test_buckets_are_clustered_in_turns(judge, tmp_path):
    chance = random.Random(1)
    options = {"bucket": "2", "bucket-key": "b", "bucket-append-ordered": "false", "clustering.incremental": "true", "clustering.columns": "a"}
    options["num-sorted-run.compaction-trigger"] = "2"
    theirs, ours = str(tmp_path / "db.db" / "theirs"), str(tmp_path / "db.db" / "ours")
    for path in (theirs, ours):
        judge.create(path, APPEND, options=options)
    for turn in range(8):
        rows = some_rows(chance, APPEND, chance.choice((5, 300)))
        judge.write(theirs, rows)
        if turn % 3 == 2:
            judge.write(ours, rows)
        else:
            table = lk.open(ours)
            table.append(frame(table, rows, plain=True))
        if turn == 5:
            lk.open(ours).compact(full=True)
            judge.compact(theirs, full=True)
            assert {file.level for file in judge.files(ours)} == {file.level for file in judge.files(theirs)} == {2}
        assert alike(judge, ours) == sorted((values for _, values in judge.read(theirs).rows), key=repr)
    assert {file.level for file in judge.files(ours)} - {0}


@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
@pytest.mark.parametrize("more", [{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}], ids=["plain", "vectors", "lookup"])
def test_sorted_key_tables_are_written_on(judge, tmp_path, strategy, more):
    path, chance = str(tmp_path / "db.db" / "t"), random.Random(f"{strategy}{more}")
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "7", **more}
    judge.create(path, KEYED, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    want: dict[tuple, tuple] = {}
    for turn in range(7):
        rows = some_rows(chance, KEYED, 15)
        table = lk.open(path)
        if turn % 2:
            judge.write(path, rows)
        else:
            table.upsert(frame(table, rows, plain=True))
        want |= {values[:2]: values for _, values in rows}
        if turn in (2, 5):
            lk.open(path).compact(order_by=["a", "s"], strategy=strategy)
        said = alike(judge, path)
        assert said == sorted(want.values(), key=repr)
        buckets = [(values[:2], bucket) for _, bucket, values in judge.placed(path)]
        assert len({key for key, _ in buckets}) == len(buckets)
    judge.compact(path, full=True)
    assert alike(judge, path) == sorted(want.values(), key=repr)


def test_manifests_are_merged_in_turns(judge, tmp_path):
    path, chance = str(tmp_path / "db.db" / "t"), random.Random(5)
    judge.create(path, KEYED, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "2", "manifest.merge-min-count": "100"})
    for turn in range(6):
        write(judge, path, KEYED, chance, turn, 10)
    said, live = alike(judge, path), judge.files(path)
    assert lk.open(path).manifests().height > 5
    lk.open(path).compact_manifests()
    assert lk.open(path).manifests().height == 1
    assert judge.compact_manifests(path) == []
    assert judge.files(path) == live
    assert alike(judge, path) == said
    judge.write(path, some_rows(chance, KEYED, 3))
    assert len(judge.compact_manifests(path)) == 1
    assert lk.open(path).compact_manifests().snapshot_ids == ()
    newest = judge.snapshots(path)[-2:]
    assert {one.total for one in newest} == {newest[0].total}
    alike(judge, path)


@pytest.mark.parametrize("bucket", ["2", "-1"])
@pytest.mark.parametrize("more", [{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}], ids=["plain", "vectors", "lookup"])
def test_keys_with_nulls_are_written_in_turns(judge, tmp_path, bucket, more):
    """Engine 1.4.2 does not know `primary-key.nullable`, and reads and writes tables whose keys are nullable all the same."""
    path, chance = str(tmp_path / "db.db" / "t"), random.Random(f"{bucket}{more}")
    columns = {"k": "BIGINT", "s": "STRING", "v": "INT"}
    lk.create(path, columns, primary_keys=["k", "s"], options={"primary-key.nullable": "true", "bucket": bucket, "dynamic-bucket.target-row-num": "3", **more})
    want: dict[tuple, tuple] = {}
    for turn in range(6):
        rows = tuple(("+I", (chance.choice((None, 0, 1)), chance.choice((None, "", "a")), chance.choice((None, chance.randint(0, 9))))) for _ in range(5))
        table = lk.open(path)
        if turn % 2:
            judge.write(path, rows)
        else:
            table.upsert(frame(table, rows, plain=True))
        want |= {values[:2]: values for _, values in rows}
        if turn == 3:
            lk.open(path).compact(full=True)
        assert alike(judge, path) == sorted(want.values(), key=repr)
    judge.compact(path, full=True)
    assert alike(judge, path) == sorted(want.values(), key=repr)
