"""Chores on twins: the reference engine does one on a table, lakekit the same on a copy of it, and both leave the same files, by name, and the same rows.

Differences that are meant: lakekit keeps what another branch needs, and what a long-lived changelog needs when a tag is deleted; it deletes what only the old
place of a moved tag needed, and what lies beside changelog files.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.maintenance import expire, tags
from lakekit.metadata import snapshots
from spec_tests.differential.judge import told_rows
from spec_tests.differential.players import ByLakekit, ByReference
from spec_tests.differential.scripts import Compact, Write
from spec_tests.laws.test_care_histories import KEPT, KINDS
from spec_tests.reliability.kept import METADATA, needed, on_disk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.reference
HINTS = {"LATEST", "EARLIEST"}
SEEDS = 2
LEFT = re.compile(r"/changelog-[^/]*\.index$")
"""What the reference forgets: the file index beside a changelog file."""
FAR = "9999-01-01T00:00:00"


class Twins:
    """A table built by both engines in turns, then copied: `java` and `ours`."""

    def __init__(self, judge, path: Path, kind: str, seed: int, steps: int = 8, **more: str) -> None:
        options, keys, parts = KINDS[kind]
        self.judge, self.kind, self.random = judge, kind, random.Random(f"care {kind} {seed}")
        self.java, self.ours = path / "java", path / "ours"
        lk.create(
            str(self.java),
            {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"},
            primary_keys=keys,
            partition_keys=parts,
            options={**KEPT, **options, **more},
        )
        for _ in range(steps):
            self.step()
        shutil.copytree(self.java, self.ours)
        self.table = lk.open(str(self.ours))

    def step(self) -> None:
        player = self.random.choice((ByReference(self.judge), ByLakekit()))
        rows = tuple(("+I", (self.random.randrange(12), self.random.randrange(3), f"{self.random.random():.3f}")) for _ in range(5))
        step = Compact(full=self.random.random() < 0.5) if self.random.random() < 0.35 else Write(rows=rows)
        player.take(str(self.java), step, {"write-only": "false"} if isinstance(step, Compact) else {})

    def do(self, chore: str, **given: Any) -> dict[str, Any]:
        return self.judge.ask("care", self.java, chore=chore, **given)

    def same(self) -> bool:
        """Whether the twins can go on; no more where the reference deleted what a long-lived changelog needs."""
        java, ours = files(self.java), files(self.ours)
        if "changelog/changelog-1" in java or self.kind == "lasting-none":
            lost = ours.keys() - java.keys()
            if lost and lost <= needed(self.ours):
                assert {name for name in java if not LEFT.search(name)} == {name for name in ours.keys() - lost if not LEFT.search(name)}
                assert {name: text for name, text in ours.items() if name not in lost} == {name: java[name] for name in ours.keys() - lost}
                return False
        assert sorted(name for name in java if not LEFT.search(name)) == sorted(name for name in ours if not LEFT.search(name))
        for name, text in ours.items():
            assert text == java[name], name
        return True

    def read(self, *, both: bool = True) -> None:
        """Both engines read both tables, at every tag and branch; or only ours, where the reference has lost files of its own."""
        paths = (self.java, self.ours) if both else (self.ours,)
        for branch in (None, *self.table.branches()["branch"].to_list()):
            ours = lk.open(str(self.ours), branch=branch)
            there = [lk.open(str(path), branch=branch)._context() for path in paths]
            assert len({(snapshots.latest_id(one), snapshots.earliest_id(one)) for one in there}) == 1
            for tag in (None, *ours.tags()["tag"].to_list()):
                if tag is None and snapshots.latest_id(there[-1]) is None:
                    continue
                options = {} if tag is None else {"scan.tag-name": tag}
                mine = sorted((("+I", row) for row in ours.scan(at=tag).collect().rows()), key=repr)
                assert [sorted(self.judge.read(path, branch=branch, options=options).rows, key=repr) for path in paths] == [mine] * len(paths)

    # ---- chores

    def chore(self) -> None:
        names = self.table.tags()["tag"].to_list()
        ids = self.table.snapshots()["snapshot_id"].to_list()
        word = self.random.choice(("tag", "tag", "old tag", "untag", "untag", "rename", "expire", "expire", "expire", "rollback", "changelogs", "write"))
        if word == "tag" or (word == "old tag" and not names):
            name, at = f"t{self.random.randrange(10**6)}", self.random.choice(ids)
            self.do("create_tag", name=name, snapshot=at)
            self.table.create_tag(name, at=at)
        elif word == "old tag":
            name, at = f"u{self.random.randrange(10**6)}", self.random.choice(self.table.tags()["snapshot_id"].to_list())
            self.do("create_tag", name=name, snapshot=at)
            self.table.create_tag(name, at=at)
        elif word == "untag" and names:
            name = self.random.choice(names)
            self.do("delete_tag", name=name)
            self.table.delete_tag(name)
        elif word == "rename" and names:
            name = self.random.choice(names)
            self.do("rename_tag", name=name, to=f"{name}+")
            self.table.rename_tag(name, f"{name}+")
        elif word == "expire":
            most, at_once = self.random.choice((1, 2, 3)), self.random.choice((2, 50))
            gone = self.do("expire_snapshots", retain_max=most, retain_min=1, max_deletes=at_once)["gone"]
            handle = self.table._context()
            how = expire.override_limits(expire.snapshot_limits(handle), retain_max=most, retain_min=1, older_than_ms=2**62, max_deletes=at_once)
            assert len(expire.expire_snapshots(handle, how).snapshot_ids) == gone
        elif word == "changelogs" and len(snapshots.changelog_ids(self.table._context())) > 1:
            self.do("expire_changelogs", retain_min=1)
            handle = self.table._context()
            how = expire.override_limits(expire.changelog_limits(handle), retain_max=2**31 - 1, retain_min=1, older_than_ms=2**62, max_deletes=2**31)
            expire.expire_changelogs(handle, how)
        elif word == "rollback":
            to = self.random.choice([*names, *ids])
            self.do("rollback", **({"name": to} if isinstance(to, str) else {"snapshot": to}))
            self.table.rollback(to)
        elif word == "write":
            self.judge.write(self.java, [("+I", (self.random.randrange(12), 1, "w"))])
            shutil.rmtree(self.ours)  # names of new files are drawn, so the copy is made anew
            shutil.copytree(self.java, self.ours)


def files(path: Path) -> dict[str, Any]:
    """Every file but hints; of metadata that engines write into a table, its content, without the times of tags."""
    found: dict[str, Any] = {}
    for one in path.rglob("*"):
        name = str(one.relative_to(path))
        if not one.is_file() or one.name in HINTS or one.name.startswith("."):
            continue
        found[name] = None
        if METADATA.fullmatch(name) and "/consumer/" not in f"/{name}":
            told = json.loads(one.read_text(encoding="utf-8"))
            found[name] = {key: value for key, value in told.items() if key != "tagCreateTime"}
    return found


@pytest.mark.parametrize("case", [(kind, seed) for seed in range(SEEDS) for kind in KINDS])
def test_chores_leave_the_same_files_and_rows(case, judge, tmp_path):
    twins = Twins(judge, tmp_path, *case)
    for _ in range(12):
        twins.chore()
        if not twins.same():
            break
    twins.read(both=twins.same())
    assert on_disk(tmp_path / "ours") >= needed(tmp_path / "ours")


def branched(judge, path: Path, kind: str = "key") -> Twins:
    """Twins with a tag and a branch of it, to which both engines wrote."""
    twins = Twins(judge, path, kind, 0, steps=3)
    twins.do("create_tag", name="a", snapshot=2)
    twins.do("create_branch", name="b", tag="a")
    judge.ask("write", twins.java, branch="b", rows=told_rows([("+I", (1, 1, "java"))]), options={}, overwrite=None)
    there = lk.open(str(twins.java), branch="b")
    there.append(pl.DataFrame([(2, 2, "ours")], schema=dict(there.schema.to_polars()), orient="row"))
    there.compact(full=True)
    judge.ask("compact", twins.java, branch="b", full=True, postponed=1, options={"write-only": "false"})
    there.append(pl.DataFrame([(3, 2, "ours")], schema=dict(there.schema.to_polars()), orient="row"))
    shutil.rmtree(twins.ours)
    shutil.copytree(twins.java, twins.ours)
    return twins


@pytest.mark.parametrize("kind", ["key", "parted", "append", "vectors"])
def test_branches_are_made_written_renamed_and_followed_alike(kind, judge, tmp_path):
    twins = branched(judge, tmp_path, kind)
    twins.read()
    steps = [
        (("create_branch", {"name": "empty"}), lambda t: t.create_branch("empty")),
        (("create_branch", {"name": "c", "tag": "a"}), lambda t: t.create_branch("c", tag="a")),
        (("rename_branch", {"name": "c", "to": "d"}), lambda t: t.rename_branch("c", "d")),
        (("delete_branch", {"name": "empty"}), lambda t: t.delete_branch("empty")),
        (("fast_forward", {"name": "b"}), lambda t: t.fast_forward("b")),
        (("delete_branch", {"name": "b"}), lambda t: t.delete_branch("b")),
    ]
    for (chore, given), ours in steps:
        twins.do(chore, **given)
        ours(twins.table)
        assert twins.same()
        twins.read()
    assert not (twins.ours / "branch" / "branch-b").exists()
    assert max(row[0] for row in twins.table.scan().collect().rows()) >= 3


def test_what_another_branch_needs_stays(judge, tmp_path):
    twins = branched(judge, tmp_path)
    twins.table.expire_snapshots(retain_max=1, retain_min=1, older_than=FAR)
    twins.table.delete_tag("a")
    assert needed(twins.ours) <= on_disk(twins.ours)
    held = sorted(twins.judge.read(twins.ours, branch="b").rows)
    assert held == sorted(("+I", row) for row in twins.table.branch("b").scan().collect().rows())
    assert twins.table.branch("b").check().ok


def test_a_moved_tag_leaves_nothing_behind(judge, tmp_path):
    twins = Twins(judge, tmp_path, "key", 1)
    twins.table.create_tag("a", at=2)
    twins.table.expire_snapshots(retain_max=1, retain_min=1, older_than=FAR)
    assert on_disk(twins.ours) == needed(twins.ours)
    twins.table.replace_tag("a", retain="1 d")
    assert on_disk(twins.ours) == needed(twins.ours)
    assert sorted(judge.read(twins.ours, options={"scan.tag-name": "a"}).rows) == sorted(judge.read(twins.ours).rows)


@pytest.mark.parametrize("more", [{}, {"retain_ms": 1000}])
def test_a_moved_tag_lives_as_long_by_both(more, judge, tmp_path):
    """The option is for tags that are new: one that is moved without a time of its own is kept for ever."""
    twins = Twins(judge, tmp_path, "key", 1, **{"tag.default-time-retained": "1 d"})
    twins.do("create_tag", name="a", snapshot=1)
    twins.table.create_tag("a", at=1)
    assert twins.same()
    twins.do("replace_tag", name="a", snapshot=2, **more)
    twins.table.replace_tag("a", at=2, retain=timedelta(milliseconds=more["retain_ms"]) if more else None)
    assert twins.same()


def test_the_reference_takes_care_of_what_lakekit_left(judge, tmp_path):
    """Java's chores on a table that lakekit's chores went over."""
    twins = Twins(judge, tmp_path, "lookup", 2)
    ours = twins.table
    ours.create_tag("a", at=2, retain="0 ms")
    ours.create_tag("b", at=3)
    ours.expire_snapshots(retain_max=2, retain_min=1, older_than=FAR)
    ours.rollback(ours.snapshots()["snapshot_id"][0])
    twins.java, twins.ours = twins.ours, twins.java
    assert twins.do("expire_tags")["gone"] == ["a"]
    judge.write(twins.java, [("+I", (1, 1, "x"))])
    judge.write(twins.java, [("+I", (2, 1, "x"))])
    assert twins.do("expire_snapshots", retain_max=1)["gone"] >= 2
    twins.do("delete_tag", name="b")
    assert needed(twins.java) <= on_disk(twins.java)
    assert sorted(judge.read(twins.java).rows) == sorted(("+I", row) for row in ours.scan().collect().rows())


# ---- by the clock ---------------------------------------------------------------------------------------------------------------------------------------


def day_after_day(judge, path: Path, *times: str, watermarks: bool = False) -> Twins:
    """Twins whose snapshots say that they were made at these times."""
    twins = Twins(judge, path, "key", 0, steps=0)
    for text in times:
        judge.write(twins.java, [("+I", (1, 1, text))])
        handle = lk.open(str(twins.java))._context()
        snapshot, time = snapshots.latest(handle), int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
        changed = replace(snapshot, watermark=time) if watermarks else replace(snapshot, time_millis=time)
        handle.storage.put(handle.paths.snapshot(snapshot.id), changed.to_json())
    shutil.rmtree(twins.ours)
    shutil.copytree(twins.java, twins.ours)
    return twins


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tag.creation-delay": "10 min", "tag.create-success-file": "true"},
        {"tag.automatic-completion": "true"},
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes", "tag.num-retained-max": "3"},
        {"tag.creation-period": "two-hours", "tag.automatic-completion": "true", "tag.period-formatter": "without_dashes"},
        {"tag.creation-period-duration": "7 min", "tag.default-time-retained": "1 d"},
        {"tag.period-formatter": "without_dashes_and_spaces", "sink.process-time-zone": "America/New_York"},
        {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "Asia/Kolkata", "tag.creation-period": "hourly"},
        {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "GMT-08:00"},
        *({"sink.process-time-zone": zone, "tag.creation-period": "hourly"} for zone in ("+5", "UT-0545", "UTC+18", "-03:30:07", "Z", "GMT0")),
        {"tag.automatic-creation": "batch", "tag.num-retained-max": "2"},
        {"tag.automatic-creation": "batch", "tag.batch.customized-name": "newest", "tag.default-time-retained": "1 d"},
    ],
    ids=lambda options: " ".join(options.values()),
)
def test_automatic_tags_are_the_same(options, judge, tmp_path):
    given = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC", **options}
    times = ("2024-03-09 23:00", "2024-03-09 23:59:59.999", "2024-03-10 00:00", "2024-03-10 00:09", "2024-03-10 00:10", "2024-03-10 07:30", "2024-03-13 01:00")
    twins = day_after_day(judge, tmp_path, *times, watermarks=given["tag.automatic-creation"] == "watermark")
    by_batch = given["tag.automatic-creation"] == "batch"
    twins.table.create_tag("mine", at=1)
    twins.do("create_tag", name="mine", snapshot=1)
    for _ in range(2):
        twins.do("batch_tag" if by_batch else "auto_tags", options=given)
        (tags.create_batch_tag if by_batch else tags.create_automatic_tags)(twins.table._context().with_options(given))
        assert {name: text for name, text in files(twins.java).items() if "_SUCCESS" not in name} == {
            name: text for name, text in files(twins.ours).items() if "_SUCCESS" not in name
        }
        assert files(twins.java).keys() == files(twins.ours).keys()
    assert len(files(twins.java / "tag")) > 1


def test_tags_that_are_over_are_the_same(judge, tmp_path):
    twins = day_after_day(judge, tmp_path, "2024-01-01 00:00", "2024-01-02 00:00")
    for path in (twins.java, twins.ours):
        table = lk.open(str(path))
        table.create_tag("over", at=1, retain="0 ms")
        table.create_tag("young", retain="1 d")
        table.create_tag("for ever")
    assert twins.do("expire_tags")["gone"] == ["over"] == list(twins.table.expire_tags().tags)
    for far in (0, 2**43):
        gone = twins.do("expire_tags", older_than_ms=far)["gone"]
        assert sorted(gone) == sorted(twins.table.expire_tags(older_than=datetime.fromtimestamp(far / 1000, UTC)).tags)
    assert files(twins.java).keys() == files(twins.ours).keys()


@pytest.mark.parametrize(
    ("options", "days"),
    [
        ({}, ("2023-12-30", "2024-01-01 10:00:00", "0001-1-1", "x", "", "2999-01-01", "+2023-01-01", "-5-01-01", "2023-01-01 24:61:00", "2023-02-31")),
        ({"partition.timestamp-formatter": "yyyyMMdd"}, ("20231230", "20240101", "2024-01-01", "29990101")),
        ({"partition.timestamp-formatter": "yyyy-MM-dd[ HH[:mm]]"}, ("2023-12-30", "2023-12-30 10", "2023-12-30 10:07", "2023-12-30 10:", "2999-01-01")),
        ({"partition.timestamp-formatter": "[yyyyMMdd][yyyy-MM-dd]"}, ("20231230", "2023-12-30", "202312302023-12-30", "202312302023-12-31", "2999-01-01", "")),
        ({"partition.timestamp-formatter": "[yyyyMMdd][:yyyy-MM-dd]"}, ("20231230", ":2023-12-30", "20231230:2023-12-30", "20231230:2023-12-31")),
        ({"partition.timestamp-formatter": "yyyyMMdd[HH]"}, ("20231230", "2023123010")),
        ({"partition.timestamp-formatter": "[yyyy][yyyy-MM-dd]"}, ("2023-12-30", "20232023-12-30", "20222023-12-30", "2023")),
        ({"partition.timestamp-formatter": "uuuu-MM-dd"}, ("-0005-01-01", "+12023-01-01", "12023-01-01", "2023-01-01", "+2023-01-01", "-005-01-01")),
        ({"partition.timestamp-formatter": "yyyy-MM-dd"}, ("-0005-01-01", "+12023-01-01", "2023-01-01", "+2023-01-01")),
        ({"partition.timestamp-formatter": "u-M-d"}, ("-5-01-01", "+12023-01-01", "12023-1-1", "2023-01-01")),
        ({"partition.timestamp-pattern": "$dt 12:00:00"}, ("2023-12-30", "2024-01-01", "2999-01-01")),
        ({"partition.expiration-max-num": "2", "partition.expiration-batch-size": "1"}, ("2023-12-30", "2024-01-01", "2022-01-01", "2021-01-01")),
        ({"partition.expiration-max-num": "2", "partition.timestamp-pattern": "2023-01-01"}, ("2023-12-30", "", "a", " ")),
        ({"partition.expiration-strategy": "update-time"}, ("a", "b")),
        ({"partition.expiration-strategy": "update-time", "partition.expiration-time": "0 s"}, ("a", "b")),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_the_same_partitions_expire(options, days, judge, tmp_path):
    given = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s", **options}
    java, ours = str(tmp_path / "java"), str(tmp_path / "ours")
    lk.create(java, {"k": "INT", "dt": "STRING"}, partition_keys=["dt"], options={"bucket": "-1", "write-only": "true"})
    judge.write(java, [("+I", (1, day)) for day in days])
    shutil.copytree(java, ours)
    judge.ask("care", java, chore="expire_partitions", options=given)
    lk.open(ours, options=given).expire_partitions()
    assert sorted(judge.read(java).rows) == sorted(judge.read(ours).rows)
    assert [one.kind for one in judge.snapshots(java)] == [one.kind for one in judge.snapshots(ours)]


def test_complete_partitions_are_told_alike(judge, tmp_path):
    path = str(tmp_path / "t")
    table = lk.create(path, {"k": "INT", "dt": "STRING", "h": "INT"}, partition_keys=["dt", "h"], options={"bucket": "-1"})
    judge.ask("care", path, chore="mark_done", name="dt=a%3Ab/h=1")
    there = tmp_path / "t" / "dt=a%3Ab" / "h=1" / "_SUCCESS"
    first = json.loads(there.read_text(encoding="utf-8"))
    table.mark_partition_done([{"dt": "a:b", "h": 1}])
    second = json.loads(there.read_text(encoding="utf-8"))
    assert second["creationTime"] == first["creationTime"] <= first["modificationTime"] <= second["modificationTime"]
    judge.ask("care", path, chore="mark_done", name="dt=a%3Ab/h=1")
    assert json.loads(there.read_text(encoding="utf-8"))["creationTime"] == first["creationTime"]


def test_commits_expire_the_same_snapshots(judge, tmp_path):
    """Each engine commits to its own table, by the same options, and each then keeps as many snapshots, changelogs and files."""
    counts = []
    options = {
        "bucket": "1",
        "snapshot.num-retained.min": "2",
        "snapshot.num-retained.max": "4",
        "changelog.num-retained.max": "6",
        "changelog-producer": "input",
    }
    for name, write in (
        ("java", lambda path, row: judge.write(path, [row])),
        ("ours", lambda path, row: lk.open(path).upsert([dict(zip("kv", row[1], strict=True))])),
    ):
        path = str(tmp_path / name)
        lk.create(path, {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options)
        told = []
        for number in range(12):
            write(path, ("+I", (number % 3, str(number))))
            handle = lk.open(path)._context()
            told.append((snapshots.ids(handle), snapshots.changelog_ids(handle)))
        counts.append((told, len(on_disk(path))))
        assert needed(path) <= on_disk(path)
        assert len(judge.read(path).rows) == 3
    assert counts[0] == counts[1]


def test_consumers_are_the_same_files(judge, tmp_path):
    twins = Twins(judge, tmp_path, "key", 3)
    twins.do("reset_consumer", name="a", snapshot=3)
    twins.table.reset_consumer("a", next_snapshot=3)
    assert [(path / "consumer" / "consumer-a").read_text(encoding="utf-8") for path in (twins.java, twins.ours)].count(
        (twins.java / "consumer" / "consumer-a").read_text(encoding="utf-8")
    ) == 2
    assert twins.do("expire_snapshots", retain_max=1)["gone"] == len(twins.table.expire_snapshots(retain_max=1, retain_min=1, older_than=FAR).snapshot_ids) == 2
    twins.do("reset_consumer", name="a")
    twins.table.reset_consumer("a")
    assert twins.do("expire_snapshots", retain_max=1)["gone"] == len(twins.table.expire_snapshots(retain_max=1, retain_min=1, older_than=FAR).snapshot_ids)
    assert twins.same()
