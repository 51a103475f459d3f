"""What changed in a table with a fallback branch: its increment comes too, for the partitions that the range of this branch has not."""

from __future__ import annotations

import random

import pytest

import lakekit as lk

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_increments_are_those_of_the_engine(judge, tmp_path, keyed, seed):
    draw = random.Random(seed)
    path = tmp_path / "t"
    keys = {"primary_keys": ["k", "dt"]} if keyed else {}
    columns = {"k": "INT NOT NULL", "dt": "STRING NOT NULL", "v": "STRING"}
    judge.create(path, columns, partition_keys=["dt"], options={"bucket": "1" if keyed else "-1"}, **keys)
    table = lk.open(path)
    table.create_branch("old")
    commits = {name: draw.randint(2, 4) for name in ("main", "old")}
    for name, count in commits.items():
        branch = table if name == "main" else table.branch("old")
        for at in range(count):
            partitions = draw.sample("abcd", draw.randint(1, 3))
            rows = [{"k": at, "dt": one, "v": f"{name}{at}"} for one in partitions]
            (branch.upsert if keyed else branch.append)(rows)
    judge.alter(path, ("set_option", "scan.fallback-branch", "old"))
    most = min(commits.values())
    for start in range(most):
        for end in range(start + 1, most + 1):
            options = {"incremental-between": f"{start},{end}"}
            for system in (None, "audit_log"):
                told = judge.read(path, options=options, system=system).rows
                ours = lk.open(path).scan(options=options) if system is None else lk.open(path).system(system, options=options)
                assert sorted(ours.collect().rows()) == sorted(row for _, row in told), (options, system)


def test_a_branch_without_snapshots_brings_nothing(tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT", "dt": "STRING"}, partition_keys=["dt"])
    table.create_branch("old")
    table.append([{"k": 1, "dt": "a"}])
    table.append([{"k": 2, "dt": "b"}])
    table.alter(lk.set_option("scan.fallback-branch", "old"))
    assert table.scan(options={"incremental-between": "1,2"}).collect().rows() == [(2, "b")]
    assert table.changes(0, 2).collect().height == 2
