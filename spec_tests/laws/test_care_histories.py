"""Tables that live by chance: rows, compactions, tags, branches, rollbacks, expiry. What is there is what is needed, and what is read is what was written.

Every snapshot, tag and branch reads, at the end of each history, what it held when it was made. Files that nothing needs are only those that the reference
leaves too: of a rollback, a branch that was deleted, or a fast-forward.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.maintenance import expire
from spec_tests.longer import some
from spec_tests.reliability.kept import needed, on_disk

KEPT = {"snapshot.num-retained.min": "1", "num-sorted-run.compaction-trigger": "3", "write-only": "true"}
KINDS: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "key": ({"bucket": "2"}, ["k"], []),
    "parted": ({"bucket": "1", "changelog-producer": "input"}, ["k", "p"], ["p"]),
    "vectors": ({"bucket": "1", "deletion-vectors.enabled": "true"}, ["k"], []),
    "append": ({"bucket": "-1", "deletion-vectors.enabled": "true"}, [], ["p"]),
    "lookup": ({"bucket": "1", "changelog-producer": "lookup", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}, ["k"], []),
    "lasting": ({"bucket": "1", "changelog.num-retained.max": "2147483647", "changelog.num-retained.min": "20", "changelog-producer": "input"}, ["k"], []),
    "lasting-none": ({"bucket": "1", "changelog.num-retained.min": "20"}, ["k"], []),
    "dynamic": ({"bucket": "-1"}, ["k"], []),
}
COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}
SEEDS = 2


class History:
    """A table and what each of its states held."""

    kinds: ClassVar = KINDS

    def __init__(self, kind: str, seed: int, path: str) -> None:
        options, keys, parts = self.kinds[kind]
        self.random = random.Random(f"{kind} {seed}")
        self.path, self.keys = path, keys
        self.main = self.created({"primary_keys": keys, "partition_keys": parts, "options": {**KEPT, **options}})
        self.tags: dict[tuple[str, str], list[Any]] = {}
        self.snapshots: dict[tuple[str, int], list[Any]] = {}
        self.count = 0
        self.left_behind = False
        """Whether something was done that leaves orphans."""

    def created(self, how: dict[str, Any]) -> lk.Table:
        return lk.create(self.path, COLUMNS, **how)

    def on_disk(self) -> set[str]:
        return on_disk(self.path)

    def needed(self) -> set[str]:
        return needed(self.path)

    def branches(self) -> list[str]:
        return ["main", *self.main.branches()["branch"].to_list()]

    def table(self, branch: str) -> lk.Table:
        return self.main if branch == "main" else self.main.branch(branch)

    def note(self, branch: str) -> None:
        table = self.table(branch)
        ids = table.snapshots()["snapshot_id"].to_list()
        if ids:
            self.snapshots[branch, ids[-1]] = rows(table.scan(at=ids[-1]))

    def step(self) -> None:
        choices = (self.write, self.write, self.write, self.compact, self.tag, self.untag, self.retag, self.expire, self.branch, self.unbranch)
        self.random.choice((*choices, self.rollback, self.overwrite, self.forward, self.delete_rows))(self.random.choice(self.branches()))

    def write(self, branch: str) -> None:
        self.count += 1
        frame = pl.DataFrame([{"k": self.random.randrange(12), "p": self.random.randrange(3), "v": f"{self.count}"} for _ in range(4)], schema_overrides=INTS)
        self.table(branch).append(frame.unique("k", keep="last") if self.keys else frame)
        self.note(branch)

    def overwrite(self, branch: str) -> None:
        self.count += 1
        self.table(branch).overwrite(pl.DataFrame([{"k": 1, "p": 1, "v": f"{self.count}"}], schema_overrides=INTS))
        self.note(branch)

    def delete_rows(self, branch: str) -> None:
        self.table(branch).delete(f"k = {self.random.randrange(12)}")
        self.note(branch)

    def compact(self, branch: str) -> None:
        self.table(branch).compact(full=self.random.random() < 0.5)
        self.note(branch)

    def tag(self, branch: str) -> None:
        table, name = self.table(branch), f"t{self.count}-{self.random.randrange(4)}"
        ids = table.snapshots()["snapshot_id"].to_list()
        if ids and (branch, name) not in self.tags:
            at = self.random.choice(ids)
            table.create_tag(name, at=at)
            self.tags[branch, name] = self.snapshots.get((branch, at), rows(table.scan(at=at)))

    def untag(self, branch: str) -> None:
        names = [name for where, name in self.tags if where == branch]
        if names:
            name = self.random.choice(names)
            told = self.table(branch).delete_tag(name, dry_run=True)
            done = self.table(branch).delete_tag(name)
            assert (told.data_file_count, told.size_bytes) == (done.data_file_count, done.size_bytes)
            del self.tags[branch, name]

    def retag(self, branch: str) -> None:
        names = [name for where, name in self.tags if where == branch]
        ids = self.table(branch).snapshots()["snapshot_id"].to_list()
        if names and ids:
            self.table(branch).replace_tag(names[0])
            self.table(branch).rename_tag(names[0], f"{names[0]}'")
            del self.tags[branch, names[0]]
            self.tags[branch, f"{names[0]}'"] = rows(self.table(branch).scan(at=ids[-1]))

    def expire(self, branch: str) -> None:
        handle = self.table(branch)._context()
        most = self.random.choice((1, 1, 2, 4))
        how = expire.override_limits(expire.snapshot_limits(handle), retain_max=most, retain_min=1, older_than_ms=None, max_deletes=None)
        told, before = expire.expire_snapshots(handle, how, dry_run=True), self.on_disk()
        assert self.on_disk() == before
        done = expire.expire_snapshots(handle, how)
        assert (told.snapshot_ids, told.data_file_count, told.size_bytes) == (done.snapshot_ids, done.data_file_count, done.size_bytes)
        for number in done.snapshot_ids:
            self.snapshots.pop((branch, number), None)
        if self.random.random() < 0.3:
            how = expire.override_limits(
                expire.changelog_limits(handle), retain_max=None, retain_min=self.random.choice((1, 3)), older_than_ms=2**62, max_deletes=None
            )
            expire.expire_changelogs(handle, how, delete_all=self.random.random() < 0.3)

    def branch(self, _: str) -> None:
        names = [name for where, name in self.tags if where == "main"]
        if len(self.branches()) < 3 and names:
            new, tag = f"b{self.count}-{self.random.randrange(100)}", self.random.choice(names)
            self.main.create_branch(new, tag=tag)
            self.tags[new, tag] = self.tags["main", tag]

    def unbranch(self, branch: str) -> None:
        if branch != "main":
            self.main.delete_branch(branch)
            self.forget(branch)
            self.left_behind = True

    def forward(self, branch: str) -> None:
        if branch != "main":
            first = self.table(branch).snapshots()["snapshot_id"].to_list()[0]
            self.main.fast_forward(branch)
            self.forget("main", first)
            for kept in (self.tags, self.snapshots):
                kept.update({("main", key): found for (where, key), found in kept.items() if where == branch})  # type: ignore[attr-defined]
            self.left_behind = True

    def rollback(self, branch: str) -> None:
        table = self.table(branch)
        names = [name for where, name in self.tags if where == branch]
        ids = table.snapshots()["snapshot_id"].to_list()
        if names and self.random.random() < 0.4:
            name = self.random.choice(names)
            target = table.tags().filter(pl.col("tag") == name)["snapshot_id"][0]
            table.rollback(name)
        elif ids:
            target = self.random.choice(ids)
            table.rollback(target)
        else:
            return
        self.forget(branch, target + 1)
        self.note(branch)
        self.left_behind = True

    def forget(self, branch: str, since: int = 0) -> None:
        there = {} if branch not in self.branches() else dict(self.table(branch).tags().select("tag", "snapshot_id").iter_rows())
        self.tags = {key: found for key, found in self.tags.items() if key[0] != branch or (since and there.get(key[1], since) < since)}
        self.snapshots = {key: found for key, found in self.snapshots.items() if key[0] != branch or (since and key[1] < since)}

    def check(self) -> None:
        here, wanted = self.on_disk(), self.needed()
        assert wanted <= here
        assert self.left_behind or here == wanted
        for (branch, name), expected in self.tags.items():
            assert rows(self.table(branch).scan(at=name)) == expected, (branch, name)
        for (branch, number), expected in self.snapshots.items():
            assert rows(self.table(branch).scan(at=number)) == expected, (branch, number)
        for branch in self.branches():
            report = self.table(branch).check()
            assert report.ok, report


INTS = {"k": pl.Int32, "p": pl.Int32}


def rows(frame: pl.LazyFrame) -> list[Any]:
    return sorted(frame.collect().rows(), key=repr)


@pytest.mark.long
@pytest.mark.parametrize("case", some([(kind, seed) for seed in range(SEEDS) for kind in KINDS], 11))
def test_what_is_there_is_what_is_needed(case, tmp_path):
    kind, seed = case
    history = History(kind, seed, str(tmp_path / "t"))
    for _ in range(30):
        history.step()
        wanted = needed(history.path)
        assert wanted <= on_disk(history.path)
    history.check()


def test_a_root_that_cannot_be_read_stops_every_deletion(tmp_path):
    history = History("key", 0, str(tmp_path / "t"))
    for _ in range(4):
        history.write("main")
    history.main.create_tag("a", at=1)
    history.main.create_branch("b", tag="a")
    before = on_disk(history.path)
    for broken in ("tag/tag-c", "branch/branch-b/tag/tag-c", "branch/branch-b/snapshot/snapshot-9", "branch/branch-half/snapshot/snapshot-1"):
        file = tmp_path / "t" / broken
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"version" : 3, "id" : 9}', encoding="utf-8")
        for deleting in (lambda: history.expire("main"), lambda: history.main.delete_tag("a"), lambda: history.main.replace_tag("a")):
            with pytest.raises(LakekitError, match=broken.rpartition("/")[2]):
                deleting()
        file.unlink()
        assert on_disk(history.path) == before
        assert history.main.tags()["tag"].to_list() == ["a"]
        assert history.main.snapshots().height == 4
