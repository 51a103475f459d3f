"""Numbers of snapshots that follow each other and are of two lines: main went forward to a branch whose first snapshots had expired.

main   1  2  3  4                      main   1  2  3  4 | 5'
b         2  3' 4' 5'   expired: 5'               4' is kept by a tag, and is not what 4 is
"""

from __future__ import annotations

import shutil

import pytest

import lakekit as lk
from lakekit.metadata import refs
from spec_tests.reliability.kept import needed, on_disk

FAR = {"retain_max": 1, "retain_min": 1}
MAIN, COMMON = [(number, "main") for number in range(4)], [(0, "main"), (1, "main")]
BRANCH = [*COMMON, (10, "b"), (11, "b"), (12, "b")]


def rows(table: lk.Table, at: int | str | None = None) -> list[tuple[int, str]]:
    return sorted(table.scan(at).collect().rows())


def forward(path, **options: str) -> lk.Table:
    """Such a table; the branch is gone, its tags came along."""
    given = {"bucket": "1", "write-only": "true", **options}
    table = lk.create(path, {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=given)
    for number in range(4):
        table.upsert([{"k": number, "v": "main"}])
    table.create_tag("v", at=2)
    table.create_branch("b", tag="v")
    branch = table.branch("b")
    for number in range(3):
        branch.upsert([{"k": 10 + number, "v": "b"}])
    branch.create_tag("t4", at=4)
    branch.expire_snapshots(**FAR)
    table.fast_forward("b")
    table.delete_branch("b")
    assert table.snapshots()["snapshot_id"].to_list() == [1, 2, 3, 4, 5]
    return table


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "input"}, {"manifest.merge-min-count": "2"}])
@pytest.mark.parametrize(
    "deletes",
    [
        lambda t: t.delete_tag("t4"),
        lambda t: t.expire_tags(older_than="9999-01-01"),
        lambda t: t.replace_tag("t4", at=1),
        lambda t: (t.delete_tag("t4"), t.expire_snapshots(**FAR)),
        lambda t: (t.expire_snapshots(**FAR), t.delete_tag("v"), t.delete_tag("t4")),
    ],
)
def test_what_goes_with_a_tag_is_not_what_the_newest_snapshot_holds(tmp_path, options, deletes):
    """Of 5' only what it added was looked at, as if it went on from 4: with the tag of 4' went files and manifests that 5' needs."""
    table = forward(tmp_path / "t", **options)
    left = {number: rows(table, number) for number in table.snapshots()["snapshot_id"]}
    deletes(table)
    assert {number: rows(table, number) for number in table.snapshots()["snapshot_id"]}.items() <= left.items()
    assert rows(table) == BRANCH
    assert table.check(deep=True).ok
    assert needed(table.location) <= on_disk(table.location)


def test_a_tag_of_another_line_is_where_a_rollback_goes(tmp_path):
    """It went to 4, which has the number of the tag's snapshot."""
    table = forward(tmp_path / "t", **{"changelog-producer": "input"})
    assert rows(table, 4) == MAIN
    assert table.rollback("t4", dry_run=True).snapshot_ids == (5,)
    table.rollback("t4")
    assert table.snapshots()["snapshot_id"].to_list() == [1, 2, 3, 4]
    assert rows(table) == rows(table, 4) == rows(table, "t4") == BRANCH[:4]
    table.upsert([{"k": 20, "v": "after"}])
    table.delete_tag("t4")
    assert rows(table, 4) == BRANCH[:4]
    assert table.expire_snapshots(**FAR).snapshot_ids == (1, 2, 3, 4)
    assert rows(table) == [*BRANCH[:4], (20, "after")]
    assert table.check(deep=True).ok
    assert needed(table.location) <= on_disk(table.location)


@pytest.mark.parametrize("lost", ["base_manifest_list", "delta_manifest_list"])
def test_a_rollback_to_a_snapshot_that_nobody_can_read_changes_nothing(tmp_path, lost):
    table = forward(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    copy = lk.open(tmp_path / "copy")
    (tmp_path / "copy" / "manifest" / getattr(refs.read_tag(table._context(), "v").snapshot, lost)).unlink()
    for target in ("v", 2):
        with pytest.raises(lk.Corrupt, match=r"nobody could read it, and nothing was changed\. Go back to another"):
            copy.rollback(target)
    assert copy.snapshots()["snapshot_id"].to_list() == [1, 2, 3, 4, 5]
    assert copy.rollback(4).snapshot_ids == (5,)


def test_a_rollback_to_a_snapshot_whose_manifest_is_lost_changes_nothing(tmp_path):
    table = forward(tmp_path / "t")
    lost = table.manifests(3)["file_name"][-1]
    (tmp_path / "t" / "manifest" / lost).unlink()
    with pytest.raises(lk.Corrupt, match=lost):
        table.rollback(3)
    assert table.rollback(2).snapshot_ids == (3, 4, 5)


def test_changelogs_of_the_line_that_is_given_up_go(tmp_path):
    """Else a reader that waits for 3 is given those of the old 3."""
    options = {"bucket": "1", "write-only": "true", "changelog-producer": "input", "changelog.num-retained.min": "9", "changelog.num-retained.max": "9"}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options)
    for number in range(4):
        table.upsert([{"k": number, "v": "main"}])
    table.create_tag("v", at=2)
    table.create_branch("b", tag="v")
    assert table.expire_snapshots(**FAR).snapshot_ids == (1, 2, 3)
    table.fast_forward("b")
    assert rows(table) == COMMON
    changelogs = sorted(one.name for one in (tmp_path / "t" / "changelog").glob("changelog-*"))
    assert changelogs == ["changelog-1"]
    table.upsert([{"k": 9, "v": "new"}])
    assert sorted(table.changes(2).collect().rows()) == [("+I", 9, "new")]
    assert table.check(deep=True).ok


@pytest.mark.parametrize("key", ["scan.fallback-branch", "scan.primary-branch"])
@pytest.mark.parametrize("change", [lambda t: t.delete_branch("f"), lambda t: t.rename_branch("f", "g")])
def test_a_branch_that_is_read_along_stays_what_it_is(tmp_path, key, change):
    """Another name was given to it, and from another branch it was removed: its partitions were missing, and nobody said so."""
    table = lk.create(tmp_path / "t", {"dt": "STRING", "v": "INT"}, partition_keys=["dt"])
    table.append([{"dt": "a", "v": 1}])
    table.create_branch("f")
    table.create_branch("x")
    table.branch("f").append([{"dt": "b", "v": 2}])
    table.alter(lk.set_option(key, "f"))
    for one, said in ((table, r"t\.alter"), (table.branch("x"), r"t\.branch\('main'\)\.alter"), (table.with_options({key: "f"}), r"t\.alter")):
        with pytest.raises(lk.InvalidOption, match=rf"branch 'f' is {key} of t: {said}\(lk.reset_option\('{key}'\)\) first"):
            change(one)
    assert rows(table) == [("a", 1), ("b", 2)]
    table.alter(lk.reset_option(key))
    table.branch("x").alter(lk.set_option(key, "f"))
    with pytest.raises(lk.InvalidOption, match=rf"branch 'f' is {key} of branch 'x' of t: t\.branch\('x'\)\.alter"):
        change(table)
    table.delete_branch("x")
    change(table)
    assert rows(table) == [("a", 1)]
