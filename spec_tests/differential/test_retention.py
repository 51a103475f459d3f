"""Tables that keep themselves: each engine commits the same rows to a table of its own, under the same options of retention, while what is there grows old.

After every step both have the same snapshots, long-lived changelogs, tags and consumers; lakekit lost no file that is needed and left no other kind of orphan;
and in the end both engines read the same rows of both tables, at every snapshot and tag.

Differences that are meant: engine 1.4.2 fails after the commit where a table has fewer snapshots than `changelog.num-retained.min` and a changelog already
("changelog--1" is not found): such a history ends there.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lakekit as lk
from lakekit.metadata import snapshots
from spec_tests.differential.judge import Refused
from spec_tests.differential.players import frame, kind_of, refusals, rows_read
from spec_tests.reliability.kept import needed, on_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.reference
HOUR = 3_600_000
DAYS = (20230101, 20240630, 29990101)
COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}
KINDS: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "key": ({"bucket": "2"}, ["k"], []),
    "parted": ({"bucket": "1", "changelog-producer": "input"}, ["k", "p"], ["p"]),
    "append": ({"bucket": "-1"}, [], ["p"]),
    "dynamic": ({"bucket": "-1", "dynamic-bucket.target-row-num": "4"}, ["k", "p"], ["p"]),
    "postpone": ({"bucket": "-2"}, ["k", "p"], ["p"]),
    "vectors": ({"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}, ["k"], []),
    "full": ({"bucket": "1", "changelog-producer": "full-compaction"}, ["k"], []),
}
SEEDS = 3
CALM = {"num-sorted-run.compaction-trigger": "100", "compaction.min.file-num": "100"}
"""Nothing compacts by itself: what is picked depends on the sizes of files, which differ."""


class Over(Exception):
    """The reference cannot go on."""


def retention(chance: random.Random, *, parted: bool) -> dict[str, str]:
    """Options that say what expires."""
    found: dict[str, str | None] = {}
    fewest, most = chance.choice((1, 1, 2, 3)), chance.choice((3, 5, None))
    found |= {"snapshot.num-retained.min": str(fewest), "snapshot.num-retained.max": None if most is None else str(most)}
    drawn = {
        "snapshot.time-retained": ("30 min", "5 h"),
        "snapshot.expire.limit": ("1", "2"),
        "changelog.num-retained.max": ("6", "9"),
        "changelog.time-retained": ("6 h", "20 d"),
        "consumer.expiration-time": ("1 h", "5 h"),
        "consumer.changelog-only": ("true",),
        "tag.default-time-retained": ("1 h", "2 d"),
        "snapshot.clean-empty-directories": ("true",),
    }
    found |= {key: chance.choice(texts) for key, texts in drawn.items() if chance.random() < 0.4}
    if most is None:
        found.pop("changelog.num-retained.max", None)
    if chance.random() < 0.6:
        found |= {"tag.automatic-creation": chance.choice(("process-time", "watermark", "batch")), "sink.process-time-zone": "UTC"}
        found |= {"sink.watermark-time-zone": "UTC", "tag.creation-period": chance.choice(("daily", "hourly"))}
        found |= {"tag.num-retained-max": chance.choice((None, "1", "3")), "tag.automatic-completion": chance.choice((None, "true"))}
    if parted and chance.random() < 0.6:
        checked = chance.choice(({"partition.expiration-check-interval": "0 s"}, {"end-input.check-partition-expire": "true"}))
        found |= {"partition.expiration-time": "400 d", "partition.timestamp-formatter": "yyyyMMdd", **checked}
    return {key: text for key, text in found.items() if text is not None}


class Pair:
    """Two tables of the same history: `java` is the reference's, `ours` is lakekit's."""

    def __init__(self, judge, path: Path, kind: str, seed: int) -> None:
        self.judge, self.kind, self.chance = judge, kind, random.Random(f"retention {kind} {seed}")
        self.java, self.ours = path / "java", path / "ours"
        options, self.keys, parts = KINDS[kind]
        self.options = retention(self.chance, parted=bool(parts))
        self.sizes_matter = kind == "vectors"
        calm = {} if self.sizes_matter else CALM
        judge.create(self.java, COLUMNS, primary_keys=self.keys, partition_keys=parts, options={**options, **calm, **self.options})
        shutil.copytree(self.java, self.ours)
        self.told, self.identifier = [str(self.options)], 0

    @property
    def table(self) -> lk.Table:
        return lk.open(str(self.ours))

    def ids(self) -> list[int]:
        return self.table.snapshots()["snapshot_id"].to_list()

    def both(self, word: str, java: Callable[[], object], ours: Callable[[], object]) -> None:
        self.told.append(word)
        try:
            java()
        except Refused as refused:
            if "changelog/changelog-" in refused.message:
                raise Over from refused
            raise
        with refusals():
            ours()

    # ---- steps

    def step(self) -> None:
        steps = (self.write,) * 5 + (self.stream,) * 3 + (self.age,) * 3 + (self.consumer, self.tag, self.untag, self.compact, self.overwrite)
        self.chance.choice(steps if self.ids() else (self.write,))()

    def rows(self, *, plain: bool = False) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        deletes = 0 if plain or not self.keys else 0.15
        days = DAYS if "p" in self.keys or self.kind == "append" else (1,)
        return tuple(
            ("-D" if self.chance.random() < deletes else "+I", (self.chance.randrange(9), self.chance.choice(days), f"{self.chance.random():.3f}"))
            for _ in range(self.chance.choice((0, 1, 3, 5)))
        )

    def write(self) -> None:
        rows, table, before = self.rows(), self.table, max(self.ids(), default=0)
        given = frame(table, rows)
        self.both(
            f"write {rows}",
            lambda: self.judge.write(self.java, rows, sink=True),
            lambda: table.upsert(given, row_kind=kind_of(table)) if self.keys else table.append(given),
        )
        self.batch_tag(before)

    def batch_tag(self, before: int) -> None:
        """What jobs of the reference do when they are done, and its commits do not."""
        if "batch" in self.options.values() and any(one.id > before for one in self.judge.snapshots(self.java)):
            self.judge.ask("care", self.java, chore="batch_tag")

    def stream(self) -> None:
        rows, table = self.rows(), self.table
        self.identifier += 1
        job = {"user": "job", "identifier": self.identifier, "watermark": int(time.time() * 1000) - self.chance.randrange(100) * HOUR}

        def ours() -> None:
            with table.writer(commit_user="job") as writer:
                writer.write(frame(table, rows), row_kind=kind_of(table))
                if self.kind == "full":
                    writer.compact(full=True)
                table.commit(writer.prepare(), commit_user="job", identifier=job["identifier"], watermark=job["watermark"])

        self.both(f"stream {job} {rows}", lambda: self.judge.write(self.java, rows, sink=True, **job), ours)

    def overwrite(self) -> None:
        rows, before = self.rows(plain=True), max(self.ids())
        whole = {"dynamic-partition-overwrite": "false"}
        table = self.table.with_options(whole)
        self.both(
            f"overwrite {rows}",
            lambda: self.judge.write(self.java, rows, overwrite={}, options=whole, sink=True),
            lambda: table.overwrite(frame(table, rows, plain=True)),
        )
        self.batch_tag(before)

    def compact(self) -> None:
        if self.sizes_matter or self.kind == "postpone":  # the judge moves postponed rows in a commit of its own kind
            return
        full, before = self.kind != "append", max(self.ids())
        self.both("compact", lambda: self.judge.compact(self.java, full=full), lambda: self.table.compact(full=full))
        self.batch_tag(before)

    def consumer(self) -> None:
        at, name = self.chance.choice([*self.ids(), self.ids()[-1] + 1]), self.chance.choice("ab")
        self.both(
            f"consumer {name} at {at}",
            lambda: self.judge.ask("care", self.java, chore="reset_consumer", name=name, snapshot=at),
            lambda: self.table.reset_consumer(name, next_snapshot=at),
        )

    def tag(self) -> None:
        at, name, retain = self.chance.choice(self.ids()), f"t{len(self.told)}", self.chance.choice((None, HOUR))
        self.both(
            f"tag {name} at {at} for {retain}",
            lambda: self.judge.ask("care", self.java, chore="create_tag", name=name, snapshot=at, retain_ms=retain),
            lambda: self.table.create_tag(name, at=at, retain=None if retain is None else timedelta(milliseconds=retain)),
        )

    def untag(self) -> None:
        names = self.table.tags()["tag"].to_list()
        if names:
            name = self.chance.choice(names)
            self.both(f"untag {name}", lambda: self.judge.ask("care", self.java, chore="delete_tag", name=name), lambda: self.table.delete_tag(name))

    def age(self) -> None:
        """Time passes: what is there was made hours ago, snapshots up to one of them."""
        by, last = self.chance.choice((HOUR // 2, 2 * HOUR, 7 * HOUR, 30 * HOUR)), self.chance.choice(self.ids())
        self.told.append(f"{by / HOUR} h pass, up to {last}")
        for root in (self.java, self.ours):
            for path in (*root.glob("snapshot/snapshot-*"), *root.glob("changelog/changelog-*")):
                if int(path.name.rpartition("-")[2]) <= last:
                    told = json.loads(path.read_text(encoding="utf-8"))
                    path.write_text(json.dumps({**told, "timeMillis": told["timeMillis"] - by}), encoding="utf-8")
            for path in (*root.glob("tag/tag-*"), *root.glob("consumer/consumer-*")):
                _age(path, by)

    # ---- what is there

    def roots(self, path: Path) -> dict[str, Any]:
        keys = ("id", "commitKind", "commitIdentifier", "watermark", *(() if self.sizes_matter else ("totalRecordCount", "deltaRecordCount")))
        found = [json.loads((path / "snapshot" / f"snapshot-{number}").read_text(encoding="utf-8")) for number in snapshots.ids(lk.open(str(path))._context())]
        tags = [(one.name, json.loads(one.read_text(encoding="utf-8"))) for one in sorted(path.glob("tag/tag-*"))]
        return {
            "snapshots": [[one.get(key) for key in keys] for one in found],
            "jobs": [one["commitUser"] == "job" for one in found],
            "changelogs": snapshots.changelog_ids(lk.open(str(path))._context()),
            "tags": [(name, one["id"], one.get("tagTimeRetained")) for name, one in tags],
            "consumers": [(one.name, json.loads(one.read_text(encoding="utf-8"))) for one in sorted(path.glob("consumer/consumer-*"))],
        }

    def alike(self) -> None:
        assert self.roots(self.ours) == self.roots(self.java), self.told
        assert needed(self.ours) <= on_disk(self.ours), self.told
        if needed(self.java) <= on_disk(self.java):
            left = [Counter(_role(name) for name in on_disk(path) - needed(path)) for path in (self.ours, self.java)]
            assert left[0] <= left[1], self.told

    def read(self) -> None:
        """Both engines read both tables, at every snapshot and tag."""
        for at in (*self.ids(), *self.table.tags()["tag"].to_list()):
            options = {"scan.tag-name": at} if isinstance(at, str) else {"scan.snapshot-id": str(at)}
            mine = [sorted(rows_read(str(path), at=at), key=repr) for path in (self.java, self.ours)]
            assert [sorted(self.judge.read(path, options=options).rows, key=repr) for path in (self.java, self.ours)] == mine, self.told
            assert mine[0] == mine[1], self.told
        assert self.table.check(deep=True).ok


def _age(path: Path, by: int) -> None:
    """A tag or consumer made so much earlier."""
    stat = path.stat()
    told = json.loads(path.read_text(encoding="utf-8"))
    if "tagCreateTime" in told:
        made = datetime(*told["tagCreateTime"][:6], tzinfo=UTC) - timedelta(milliseconds=by)
        path.write_text(json.dumps({**told, "tagCreateTime": [*made.timetuple()[:6], 0]}), encoding="utf-8")
    os.utime(path, (stat.st_atime, stat.st_mtime - by / 1000))


def _role(name: str) -> str:
    """What kind of file it is, without the random part of its name."""
    return re.sub(r"-([0-9a-f]{8}|-u)-.*?(\.index)?$", r"\2", name.rpartition("/")[2])


@pytest.mark.parametrize("case", [(kind, seed) for seed in range(SEEDS) for kind in KINDS], ids=lambda case: f"{case[0]}-{case[1]}")
def test_tables_keep_themselves_alike(case, judge, tmp_path):
    pair = Pair(judge, tmp_path, *case)
    try:
        for _ in range(14):
            pair.step()
            pair.alike()
    except Over:
        return
    pair.read()
