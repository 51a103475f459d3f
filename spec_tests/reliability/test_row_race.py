"""Processes that write rows to one table at once: none lost, none twice, and who only adds rows never meets a conflict.

RELIABILITY 5.5, check 12, D1; I1-I3, I5, I7, I13; B5.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spec_tests.conftest import DEEP
from spec_tests.reliability.racing import MEETINGS, race

if TYPE_CHECKING:
    import lakekit as lk
    from spec_tests.reliability.racing import Line

ALONE = ("append", "fixed", "dynamic", "compacting")
BESIDE = ("with a compactor", "append with a compactor")


@pytest.mark.long
def test_none_lost_none_twice(tmp_path: Path):
    """8 processes, 250 commits each to four kinds of table with LAKEKIT_DEEP, else 80 each to one."""
    commits = 250 if DEEP else 80
    for table, written, _ in race(tmp_path, ALONE if DEEP else ALONE[1:2], workers=8, commits=commits).values():
        check(table, written, 8 * commits)
        assert sum(line.conflicts for line in written) == 0, "who only adds rows fits any table"


@pytest.mark.long
def test_the_other_kinds_of_table(tmp_path: Path):
    for table, written, _ in race(tmp_path, [name for name in ALONE if name != "fixed"], workers=4, commits=25).values():
        check(table, written, 100)
        assert sum(line.conflicts + line.exhausted for line in written) == 0


@pytest.mark.long
def test_a_compactor_beside_writers_meets_no_conflict(tmp_path: Path):
    """Writers that only add files, and one process that compacts what they wrote."""
    commits = 250 if DEEP else 40
    for table, written, compacted in race(tmp_path, BESIDE, workers=5, commits=commits).values():
        check(table, written, 4 * commits, compacted)
        assert sum(line.conflicts + line.exhausted for line in (*written, *compacted)) == 0
        assert len([line for line in compacted if line.snapshots]) >= MEETINGS // 2
        rows = sorted(table.scan().collect().rows())
        table.compact(full=True)
        assert sorted(table.scan().collect().rows()) == rows


@pytest.mark.long
def test_two_writers_of_one_dynamic_partition_never_put_a_key_into_two_buckets(tmp_path: Path):
    """Both write the same new keys. The slower one is refused, and writes again by what the faster one did."""
    commits = 250 if DEEP else 40
    ((table, written, _),) = race(tmp_path, ["one dynamic partition"], workers=2, commits=commits).values()
    assert sorted(line.key for line in written) == sorted([*range(commits)] * 2)
    assert sum(line.conflicts for line in written), "they met"
    assert sorted(table.scan().collect()["k"]) == list(range(commits)), "each key once"
    files = table.files()
    assert files["bucket"].n_unique() >= commits // 5
    report = table.check(deep=True)
    assert report.ok, str(report)


def check(table: lk.Table, written: list[Line], count: int, compacted: list[Line] | tuple[Line, ...] = ()) -> None:
    """The table is what the ledgers say."""
    assert len(written) == count
    assert sorted(table.scan().collect()["k"]) == sorted(line.key for line in written)
    claimed = sorted(number for line in (*written, *compacted) for number in line.snapshots)
    assert claimed == table.snapshots()["snapshot_id"].sort().to_list() == list(range(1, len(claimed) + 1)), "every snapshot is somebody's, and one's alone"
    report = table.check()
    assert report.ok, str(report)
    assert not list(Path(table.location).rglob("*.tmp"))
