"""What `t.check()` advises, by sizes that stand in metadata alone: at each bound there is advice on one side of it and none on the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table
from spec_tests.reliability.commits import ROOT, commit, file, message, opened, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.maintenance.check.findings import Finding
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.data_file import DataFileMeta

MB, GB = 1 << 20, 1 << 30
LARGE, SMALL, MANY, RUNS, PARTITIONS = "buckets are large", "buckets are small", "many small files", "many runs at level 0", "partitions are small"


def advised(messages: Iterable[CommitMessage], *, keys: bool = True, options: Mapping[str, str] | None = None) -> dict[str, Finding]:
    """What is advised of a table of these files, none of which is there: that is a problem, and no advice."""
    store = MemoryStorage()
    store.put(f"{ROOT}/schema/schema-0", schema(keys=keys, options=options))
    commit(opened(store), messages, 1)
    table = Table(location=ROOT, name="t", storage=store)
    report = table.check()
    assert {one.check for one in report.problems} <= {"data file is missing", "hash index is missing"}
    assert ("advice" in report.summary) == bool(report.advice)
    assert report.summary in table._repr_html_()
    assert all(one.remedy and one.field for one in report.advice)
    return {one.check: one for one in report.advice}


def sized(name: str, size: int, *, level: int = 5, rows: int = 10) -> DataFileMeta:
    number = int(name.strip("abcdefgh"))
    return replace(file(name, low=number * 10, high=number * 10 + 9, level=level, rows=rows), size_bytes=size)


def bucket(p: str, number: int, *sizes: int, total: int = 2, level: int = 5, rows: int = 10) -> CommitMessage:
    """A bucket with one file of each size."""
    files = [sized(f"{p}{number * 1000 + at}", size, level=level, rows=rows) for at, size in enumerate(sizes)]
    return message(p, number, total, new=files)


@pytest.mark.parametrize(("size", "what"), [(200 * MB, set()), (GB, set()), (GB + 1, {LARGE}), (200 * MB - 1, set()), (100 * MB, {SMALL}), (1, {SMALL})])
def test_buckets_hold_200_mb_to_1_gb(size: int, what: set[str]):
    """Two buckets are one too many only where one could hold what is in both."""
    assert advised([bucket("a", number, size) for number in (0, 1)]).keys() == what


def test_a_large_bucket_is_named_and_told_from_the_others():
    one = advised([bucket("a", 0, 300 * MB), bucket("a", 1, 300 * MB), bucket("b", 0, 250 * MB), bucket("b", 1, GB, 2 * GB)])[LARGE]
    assert "1 bucket of 4" in one.problem
    assert "bucket 1 of p=b" in one.problem
    assert "3.0 GB" in one.problem or "3 GB" in one.problem or "3.0 GiB" in one.problem
    assert "t.rescale(6)" in one.remedy


def test_how_many_buckets_would_do_is_said():
    one = advised([bucket("a", number, 50 * MB, total=16) for number in range(16)], options={"bucket": "16"})[SMALL]
    assert "16 buckets" in one.problem
    assert "where 4 buckets would do" in one.problem
    assert "t.rescale(4)" in one.remedy
    assert one.field == "bucket"


@pytest.mark.parametrize(("number", "size"), [("1", 1), ("1", GB), ("-1", 1), ("-1", 2 * GB), ("-2", 1)])
def test_one_bucket_is_never_too_small_and_those_that_grow_by_themselves_are_not_judged(number: str, size: int):
    total = 1 if number == "1" else int(number)
    assert advised([bucket("a", 0, size, total=total)], options={"bucket": number}).keys() == set()


@pytest.mark.parametrize(("count", "size", "what"), [(10, MB, set()), (11, MB, {MANY}), (11, 32 * MB - 1, {MANY}), (11, 32 * MB, set())])
def test_many_small_files(count: int, size: int, what: set[str]):
    """Below a quarter of the size that files are written to: 128 MB in key tables."""
    options = {"bucket": "1"}
    found = advised([bucket("a", 0, *[size] * count, total=1)], options=options)
    assert found.keys() == what
    if what:
        assert str(count) in found[MANY].problem
        assert advised([bucket("a", 0, *[size] * count, total=1)], options={**options, "target-file-size": "4 mb" if size == MB else "8 mb"}).keys() == set()


@pytest.mark.parametrize(("size", "what"), [(64 * MB - 1, {MANY}), (64 * MB, set())])
def test_many_small_files_of_append_tables(size: int, what: set[str]):
    """All files of an append table are at level 0, and are written to 256 MB."""
    assert advised([bucket("a", 0, *[size] * 11, total=-1, level=0)], keys=False, options={"bucket": "-1"}).keys() == what


@pytest.mark.parametrize(("count", "options", "what"), [(5, {}, set()), (6, {}, {RUNS}), (6, {"num-sorted-run.compaction-trigger": "6"}, set())])
def test_many_runs_at_level_0(count: int, options: dict[str, str], what: set[str]):
    """As many as compaction would not leave there; they are young, so that their size is no matter."""
    found = advised([bucket("a", 0, *[MB] * count, total=1, level=0)], options={"bucket": "1", **options})
    assert found.keys() == what
    assert not what or "t.compact()" in found[RUNS].remedy


@pytest.mark.parametrize(("count", "rows", "what"), [(100, 10, set()), (101, 10, {PARTITIONS}), (101, 9_999, {PARTITIONS}), (101, 10_000, set())])
def test_partitions_that_are_too_fine(count: int, rows: int, what: set[str]):
    found = advised([message(f"p{at}", 0, 1, new=[sized(f"f{at}", MB, rows=rows)]) for at in range(count)], options={"bucket": "1"})
    assert found.keys() == what
    assert not what or "coarser partition column than p" in found[PARTITIONS].remedy


def test_a_table_of_every_fault_is_told_all_of_them():
    found = [message(f"p{at}", 0, 2, new=[sized(f"f{at}", MB)]) for at in range(101)]
    found += [message("a", 1, 2, new=[sized(f"a{at}", MB) for at in range(11)]), bucket("b", 0, 2 * GB)]
    found += [bucket("c", 0, *[MB] * 6, level=0), bucket("c", 1, MB)]
    assert advised(found).keys() == {LARGE, SMALL, MANY, RUNS, PARTITIONS}
