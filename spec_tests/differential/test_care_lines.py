"""Main goes forward, by the reference, to a branch whose first snapshots it expired: what lakekit deletes then, both engines still read."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakekit as lk
from spec_tests.differential.judge import told_rows
from spec_tests.reliability.kept import needed, on_disk

pytestmark = pytest.mark.reference
COMMON = [(0, "main"), (1, "main")]
BRANCH = [*COMMON, (10, "b"), (11, "b"), (12, "b")]


@pytest.fixture
def forward(judge, tmp_path) -> lk.Table:
    """Main has 1 to 4 of its own, then 5 of the branch; a tag keeps the branch's 4."""
    path = tmp_path / "t"
    judge.create(
        path, {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"}
    )
    for number in range(4):
        judge.write(path, [("+I", (number, "main"))])
    judge.ask("care", path, chore="create_tag", name="v", snapshot=2)
    judge.ask("care", path, chore="create_branch", name="b", tag="v")
    for number in range(3):
        judge.ask("write", path, branch="b", rows=told_rows([("+I", (10 + number, "b"))]), options={}, overwrite=None)
    lk.open(path, branch="b").create_tag("t4", at=4)
    lk.open(path, branch="b").expire_snapshots(retain_max=1, retain_min=1)
    judge.ask("care", path, chore="fast_forward", name="b")
    judge.ask("care", path, chore="delete_branch", name="b")
    table = lk.open(path)
    assert table.snapshots()["snapshot_id"].to_list() == [1, 2, 3, 4, 5]
    return table


def both(judge, table: lk.Table) -> list[tuple[int, str]]:
    """The rows that both engines read."""
    found = sorted(table.scan().collect().rows())
    assert sorted(row for _, row in judge.read(table.location).rows) == found
    return found


@pytest.mark.parametrize("deletes", [lambda t: t.delete_tag("t4"), lambda t: (t.delete_tag("t4"), t.expire_snapshots(retain_max=1, retain_min=1))])
def test_a_tag_of_the_branch_goes_and_the_newest_snapshot_stays(judge, forward, deletes):
    deletes(forward)
    assert both(judge, forward) == BRANCH
    assert forward.check(deep=True).ok
    assert needed(forward.location) <= on_disk(forward.location)


def test_back_to_a_tag_whose_number_main_has_too(judge, forward):
    forward.rollback("t4")
    assert both(judge, forward) == BRANCH[:4]
    judge.write(forward.location, [("+I", (20, "java"))])
    forward.upsert([{"k": 21, "v": "ours"}])
    assert both(judge, forward) == [*BRANCH[:4], (20, "java"), (21, "ours")]
    assert forward.check(deep=True).ok


def test_a_hint_that_was_behind_leads_no_engine_astray_after_an_expiry(judge, forward):
    hint = Path(forward.location) / "snapshot" / "LATEST"
    hint.write_text("2")
    assert both(judge, forward) == BRANCH
    forward.expire_snapshots(retain_max=1, retain_min=1)
    assert both(judge, forward) == BRANCH
