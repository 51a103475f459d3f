"""Trees of links of chance in a warehouse, and everything that lists, writes or deletes: no byte and no name outside of the root changes.

Each draw puts a few links in the place of folders and files of a table, a branch, a database or among them: to a folder or a file of somebody, to nothing,
to themselves, to the folder above, to another table, to another place in the same table; as whole paths or relative ones. Then one verb is done.
"""

from __future__ import annotations

import os
import random
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest

import lakekit as lk
from lakekit.storage import confinement
from spec_tests.conftest import DEEP
from spec_tests.reliability.outside import make_old, make_victim, names_and_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

DRAWS = 2_500 if DEEP else 48
COLUMNS = {"id": "BIGINT NOT NULL", "p": "STRING NOT NULL", "v": "STRING"}
OPTIONS = {
    "changelog-producer": "input",
    "num-sorted-run.compaction-trigger": "3",
    "file-index.bloom-filter.columns": "v",
    "file-index.in-manifest-threshold": "1 b",
    "tag.create-success-file": "true",
    "snapshot.clean-empty-directories": "true",
}
ROW = [{"id": 77, "p": "a", "v": "new"}]
FUTURE = "2100-01-01"


def filled(table: lk.Table) -> lk.Table:
    """Give a table snapshots, tags, a branch, a consumer, statistics and index files."""
    for number in range(4):
        table.upsert([{"id": number, "p": "ab"[number % 2], "v": str(number)}, {"id": 0, "p": "a", "v": f"again {number}"}])
    table.create_tag("x", at=2)
    table.create_branch("b", tag="x")
    table.branch("b").upsert([{"id": 50, "p": "a", "v": "of the branch"}])
    for change in table.follow(1, consumer="c", until=2):
        change.ack()
    table.analyze()
    table.mark_partition_done([{"p": "a"}])
    return table


def acked(table: lk.Table) -> None:
    for change in table.follow(2, consumer="c", until="latest"):
        change.ack()


def aborted(table: lk.Table) -> None:
    with table.writer() as writer:
        writer.write(ROW)
        table.abort(writer.prepare())


def cleaned(table: lk.Table) -> None:
    table.remove_orphans(dry_run=False, force=True)


def expired(table: lk.Table) -> None:
    table.expire_snapshots(retain_max=1, retain_min=1)


OF_TABLES: dict[str, Callable[[lk.Table], object]] = {
    "abort": aborted,
    "alter": lambda t: t.alter(lk.add_column("w", "INT")),
    "analyze": lambda t: t.analyze(),
    "append files": lambda t: t.with_options({"write-only": "true"}).upsert(ROW),
    "branch upsert": lambda t: t.branch("b").upsert(ROW),
    "check": lambda t: t.check(deep=True),
    "compact": lambda t: t.compact(full=True),
    "compact manifests": lambda t: t.compact_manifests(),
    "create branch": lambda t: t.create_branch("c2", tag="x"),
    "create tag": lambda t: t.create_tag("y"),
    "delete": lambda t: t.delete(pl.col("id") == 1),
    "delete branch": lambda t: t.delete_branch("b"),
    "delete tag": lambda t: t.delete_tag("x"),
    "drop partitions": lambda t: t.drop_partitions([{"p": "a"}]),
    "expire changelogs": lambda t: t.expire_changelogs(delete_all=True),
    "expire consumers": lambda t: t.expire_consumers(expiration="1 ms"),
    "expire partitions": lambda t: t.expire_partitions(expiration="1 d", strategy="update-time"),
    "expire snapshots": expired,
    "expire tags": lambda t: t.expire_tags(older_than=FUTURE),
    "fast forward": lambda t: t.fast_forward("b"),
    "follow and ack": acked,
    "keep changelogs": lambda t: t.with_options({"changelog.num-retained.max": "10"}).expire_snapshots(retain_max=1, retain_min=1),
    "mark done": lambda t: t.mark_partition_done([{"p": "b"}]),
    "orphans": cleaned,
    "overwrite": lambda t: t.overwrite(ROW),
    "rename branch": lambda t: t.rename_branch("b", "b2"),
    "rename tag": lambda t: t.rename_tag("x", "y"),
    "repair": lambda t: t.repair(),
    "replace tag": lambda t: t.replace_tag("x", at=3),
    "reset consumer": lambda t: t.reset_consumer("c"),
    "rewrite file index": lambda t: t.rewrite_file_index(rebuild=True),
    "rollback": lambda t: t.rollback(2),
    "scan": lambda t: t.scan().collect(),
    "truncate": lambda t: t.truncate(),
    "update": lambda t: t.update({"v": pl.lit("changed")}, where=pl.col("id") == 1),
    "upsert": lambda t: t.upsert(ROW),
}
OF_CATALOGS: dict[str, Callable[[lk.Catalog], object]] = {
    "drop table": lambda c: c.drop_table("shop.orders"),
    "drop database": lambda c: c.drop_database("shop", cascade=True),
    "drop database that is empty": lambda c: c.drop_database("shop"),
    "rename table": lambda c: c.rename_table("shop.orders", "web.orders"),
    "create table": lambda c: c.create_table("shop.made", COLUMNS).append(ROW),
    "clone": lambda c: c.clone("shop.orders", "shop.copy"),
    "list": lambda c: (c.databases(), c.tables(details=True)),
}


class Drawn(NamedTuple):
    """A link: where it stands, what it says, and what became of what stood there."""

    place: Path
    target: str
    kind: str


class Lake:
    """A warehouse below a folder of its own, made once and copied for each draw."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "model"
        cat = lk.connect(self.model / "lake")
        for database in ("shop", "web"):
            cat.create_database(database)
        for name in ("shop.orders", "shop.other"):
            how: dict[str, Any] = {"bucket": "1"} if name == "shop.other" else {}
            filled(cat.create_table(name, COLUMNS, primary_keys=["id", "p"], partition_keys=["p"], options={**OPTIONS, **how}))
        make_victim(self.model / "victim")
        make_old(self.model)
        inside = self.model / "lake" / "shop.db" / "orders"
        self.folders = sorted(path.relative_to(self.model) for path in inside.rglob("*") if path.is_dir())
        self.files = sorted(path.relative_to(self.model) for path in inside.rglob("*") if path.is_file())

    def copy(self, folder: Path) -> None:
        shutil.copytree(self.model, folder, symlinks=True)

    def put_links(self, folder: Path, draw: random.Random) -> list[Drawn]:
        """Put some links into a copy; what stood in their place lies where they lead to, if that is a folder or a file."""
        made: list[Drawn] = []
        for count in range(draw.choice((1, 1, 1, 2, 3))):
            place = folder / self._place(draw)
            if any(above.is_symlink() for above in (place, *place.parents) if above != folder and folder in above.parents):
                continue
            elsewhere = ("moved", "moved", "moved", "folder", "empty folder", "empty folder", "file", "nothing")
            kind = draw.choice((*elsewhere, "itself", "above", "other table", "same table"))
            target = self._target(folder, place, kind, f"{count}", draw)
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            elif os.path.lexists(place):
                place.unlink()
            place.parent.mkdir(parents=True, exist_ok=True)
            said = os.path.relpath(target, place.parent) if draw.random() < 0.4 else str(target)
            place.symlink_to(said)
            made.append(Drawn(place, said, kind))
        make_old(folder)
        return made

    def _place(self, draw: random.Random) -> Path:
        table = Path("lake", "shop.db", "orders")
        which = draw.random()
        if which < 0.55:
            return draw.choice(self.folders)
        if which < 0.75:
            return draw.choice(self.files)
        if which < 0.88:
            new = ("bucket-9", "p=a/bucket-9", "p=z", "changelog/changelog-1", "tag/tag-new", "consumer/consumer-new", "branch/branch-new", "index/old", "x")
            return table / draw.choice((*new, "snapshot/snapshot-99", "schema/schema-7", "manifest/manifest-old", "p=a/bucket-0/old.parquet", "statistics/old"))
        tables = (Path("lake", "shop.db", "made"), Path("lake", "shop.db", "copy"), Path("lake", "web.db", "orders"))
        return draw.choice((table, Path("lake", "shop.db"), Path("lake", "evil.db"), Path("lake", "shop.db", "evil"), *tables))

    def _target(self, folder: Path, place: Path, kind: str, mark: str, draw: random.Random) -> Path:
        victim = folder / "victim"
        match kind:
            case "moved":  # to somebody's folder, with what was there
                target = victim / f"moved-{mark}" / place.name
                target.parent.mkdir(parents=True)
                if place.is_dir():
                    shutil.copytree(place, target, symlinks=True)
                    (target / "diary.txt").write_bytes(b"dear diary")
                    (target / "data-old.parquet").write_bytes(b"old")
                elif place.is_file():
                    shutil.copy(place, target)
                return target
            case "folder":
                return victim
            case "empty folder":
                target = victim / f"empty-{mark}"
                target.mkdir()
                return target
            case "file":
                return victim / "diary.txt"
            case "nothing":
                return folder / "nowhere" / "at all"
            case "itself":
                return place
            case "above":
                return place.parent
            case "other table":
                other = folder / "lake" / "shop.db" / "other"
                return draw.choice((other, other / place.name, other / "snapshot"))
        return folder / draw.choice(self.folders)


def allowed_to_change(folder: Path, verb: str) -> list[Path]:
    """The folder that a verb is about; for a table's own verbs also the place that its folder leads to, if it is a link or below one."""
    table, lake = folder / "lake" / "shop.db" / "orders", folder / "lake"
    if verb in OF_TABLES:
        with suppress(OSError, RuntimeError):
            return [table, table.resolve(strict=True)]
        return [table]
    return [lake]


@pytest.mark.parametrize("part", range(4))
def test_nothing_outside_of_the_root_changes(tmp_path, part, monkeypatch):
    if part == 3:
        monkeypatch.setattr(confinement, "HAS_DIR_FD", False)
    lake = Lake(tmp_path)
    ended = dict.fromkeys(("done", "refused"), 0)
    for number in range(part, DRAWS, 4):
        draw = random.Random(number)
        folder = tmp_path / f"draw-{number}"
        lake.copy(folder)
        links = lake.put_links(folder, draw)
        verb = draw.choice(sorted((*OF_TABLES, *OF_TABLES, *OF_CATALOGS, *OF_CATALOGS, *OF_CATALOGS, *OF_CATALOGS)))
        spared = allowed_to_change(folder, verb)
        before = names_and_bytes(folder, *spared)
        where = (number, verb, [(str(one.place.relative_to(folder)), one.target, one.kind) for one in links])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                done(verb, folder, by_path=draw.random() < 0.5)
                ended["done"] += 1
            except lk.LakekitError:
                ended["refused"] += 1
        after = names_and_bytes(folder, *spared)
        assert after == before, (where, before.items() ^ after.items())
        shutil.rmtree(folder)
    assert min(ended.values()) > DRAWS / 40, ended


def done(verb: str, folder: Path, *, by_path: bool) -> None:
    """Do a verb, its table opened by path or by the catalog."""
    if verb in OF_CATALOGS:
        OF_CATALOGS[verb](lk.connect(folder / "lake"))
        return
    OF_TABLES[verb](lk.open(folder / "lake" / "shop.db" / "orders") if by_path else lk.connect(folder / "lake")["shop.orders"])
