"""Whatever places a table names, and by whatever option, no verb touches what neither its caller nor its catalog allows.

Each draw is a table that came from elsewhere: its schema names a place, in some spelling, by some option, and its manifests name files there. A verb is called
on it. Folders that are none of its business stay as they are, byte by byte, none of their files is opened by Python or shown by its rows, and a server on this
machine, which is also the endpoint of every object store, gets no request. Where the place is allowed, the same table is read.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.metadata import manifest_reader, snapshots
from spec_tests.reliability import test_locations
from spec_tests.reliability.located import ALLOWED, EXTERNAL, STRATEGY, contents, counting_server, set_external_paths, set_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DRAWS = int(os.environ.get("LAKEKIT_LOCATION_DRAWS", "40"))
REPORT = "partition.mark-done-action.http.url"
SECRET = "a secret of somebody else"
DAYS_S = 3 * 86_400
LOCAL = ("{victim}", "file:{victim}", "file://{victim}", "{victim}/", "file://{victim}/")
"""Spellings of a folder that are read where the folder is allowed."""
SHAPES = (
    *LOCAL,
    "FILE:{victim}",
    "file:////{victim}",
    "/{victim}",
    "{victim}//",
    "{victim}/../victim",
    "{victim}/.",
    "{own}/../victim",
    "{own}/../../../victim",
    "{own}-old",
    "{own}/link",
    "{own}/link/p=0",
    "file://{house}/link",
    "{house}/link/../victim",
    "{other}",
    "file://{other}",
    "{other}/",
    "{other}/p=0",
    "{relative}",
    "./{relative}",
    "~/../../../../../../../../../../..{victim}",
    "file://{encoded}",
    "file://{victim}/%2e%2e/victim",
    "{victim}/%2e%2e/victim",
    "file:///",
    "/",
    "file://localhost{victim}",
    "s3://bucket/place",
    "S3A://bucket/place/",
    "s3:/bucket/../place",
    "gs://bucket/place",
    "az://box/place",
    "abfss://box@account.dfs.core.windows.net/place",
    "oss://bucket/place",
    "hdfs://node:8020/place",
    "{url}",
    "{url}/place",
    "{url}/allowed/../place",
    "{url}/allowed/%2e%2e/place",
    "{url}/allowed-not",
    "http://user@{host}/place",
    "HTTP://{host}/place?token=1",
)
DECOYS = (
    "{own}",
    "{victim}-not",
    "{short}",
    "/nowhere",
    "s3://bucket-not/place",
    "s3://bucket/place-not",
    "{url}/allowed",
    "http://127.0.0.1:9/place",
    "{own}/x",
)
"""Locations that a caller allows, below none of which a drawn place lies."""
EXTERNAL_VERBS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda t: t.scan().collect(),
    "scan an old snapshot": lambda t: t.scan(at=1).collect(),
    "filter": lambda t: t.scan().filter(pl.col("k") > 0).select("v").collect(),
    "aggregate": lambda t: t.aggregate(pl.col("v").max()),
    "explain": lambda t: t.explain(pl.col("k") == 1),
    "follow": lambda t: [change.frame.collect() for change in t.follow(1, until="latest")],
    "files": lambda t: t.files(),
    "check": lambda t: t.check(deep=True),
    "append": lambda t: t.append([{"k": 9, "p": 0, "v": "x"}]),
    "overwrite": lambda t: t.overwrite([{"k": 9, "p": 0, "v": "x"}]),
    "delete": lambda t: t.delete("k = 1"),
    "update": lambda t: t.update({"v": pl.lit("x")}, where="k > 0"),
    "compact": lambda t: t.compact(full=True),
    "truncate": lambda t: t.truncate(),
    "drop partitions": lambda t: t.drop_partitions([{"p": 0}]),
    "expire": lambda t: t.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms"),
    "overwrite and expire": lambda t: (t.truncate(), t.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")),
    "expire partitions": lambda t: t.with_options({"partition.expiration-time": "1 d"}).expire_partitions(),
    "rollback": lambda t: t.rollback(1),
    "delete tag": lambda t: t.delete_tag("kept"),
    "delete branch": lambda t: (t.create_branch("b", tag="kept"), t.delete_branch("b")),
    "orphans": lambda t: t.remove_orphans(dry_run=False, force=True),
    "orphans outside": lambda t: t.remove_orphans(dry_run=False, force=True, external=True),
    "rewrite indexes": lambda t: t.with_options({"file-index.bitmap.columns": "k"}).rewrite_file_index(),
    "analyze": lambda t: t.analyze(),
    "abort a message": lambda t: t.abort([message(t)]),
    "commit a message": lambda t: t.commit([message(t)], commit_user="u", identifier=1),
    "card": repr,
}
FORMAT_VERBS: dict[str, Callable[[Any], Any]] = {**test_locations.FORMAT_VERBS, "card": repr}
OBJECT_VERBS: dict[str, Callable[[Any], Any]] = {
    "refresh": lambda t: t.refresh(),
    "open": lambda t: t.open("diary.txt").read(),
    "open a path": lambda t: t.open(f"{t.options['object-location']}/diary.txt").read(),
    "scan": lambda t: t.scan().collect(),
    "orphans": lambda t: t.remove_orphans(dry_run=False, force=True),
}
REPORT_VERBS: dict[str, Callable[[Any], Any]] = {
    "append": lambda t: t.append([{"k": 1, "p": 0, "v": "x"}]),
    "overwrite": lambda t: t.overwrite([{"k": 1, "p": 0, "v": "x"}]),
    "mark": lambda t: t.mark_partition_done([{"p": 0}]),
}
VERBS = {EXTERNAL: EXTERNAL_VERBS, "path": FORMAT_VERBS, "object-location": OBJECT_VERBS, REPORT: REPORT_VERBS}
TABLES = {EXTERNAL: "t", "path": "f", "object-location": "o", REPORT: "t"}


def message(table: lk.Table) -> lk.CommitMessage:
    """A message whose file is one that the newest snapshot names, where the manifest says that it lies."""
    handle = table._context()
    entries = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    [file, *_] = entries.files()
    return lk.CommitMessage(partition=entries.table.column("partition")[0].as_py(), bucket=0, new_files=(replace(file, level=0),))


# ---- what is opened ------------------------------------------------------------------------------------------------------------------------------


@dataclass
class Audit:
    """Which paths below some folders Python opened, listed or changed while it watches."""

    folders: tuple[str, ...] = ()
    touched: list[tuple[str, str]] = field(default_factory=list)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.folders and (event == "open" or event.startswith(("os.", "shutil."))):
            for arg in args:
                path = os.fsdecode(arg) if isinstance(arg, (str, bytes)) else ""
                if any(path == folder or path.startswith(f"{folder}/") for folder in self.folders):
                    self.touched.append((event, path))


AUDIT = Audit()
sys.addaudithook(AUDIT.hook)


# ---- what is drawn -------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A table as it was drawn, and how it is opened."""

    option: str
    shape: str
    verb: str
    allow: str | None
    by_catalog: bool
    round_robin: bool
    is_sure: bool = False


def drawn(seed: int) -> Drawn:
    chance = random.Random(seed)
    option = chance.choice([EXTERNAL, EXTERNAL, EXTERNAL, "path", "path", "object-location", REPORT])
    shape = chance.choice(SHAPES)
    allow = chance.choice([None, None, *chance.sample(DECOYS, 2), "{victim}", "{parent}"])
    return Drawn(
        option=option,
        shape=shape,
        verb=chance.choice(sorted(VERBS[option])),
        allow=allow,
        by_catalog=chance.random() < 0.4,
        round_robin=chance.random() < 0.5,
        is_sure=allow in ("{victim}", "{parent}") and shape in LOCAL,
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with tables that are sound, and folders beside it that are nobody's."""
    top = tmp_path_factory.mktemp("template")
    cat = lk.connect(top / "house")
    cat.create_database("shop")
    columns = {"k": "INT", "p": "INT", "v": "STRING"}
    done = {"partition.mark-done-action": "success-file,http-report", "partition.end-input-to-done": "true", REPORT: "http://127.0.0.1:9/"}
    for name, options in (("orders", {}), ("t", {**done, "bucket": "-1"})):
        table = cat.create_table(f"shop.{name}", columns, partition_keys=["p"], options=options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = lk.open(table.location, options={"partition.end-input-to-done": "false"})
            table.append([{"k": 1, "p": 0, "v": SECRET}])
            table.create_tag("kept")
            table.overwrite([{"k": 2, "p": 0, "v": SECRET}])
            table.append([{"k": 3, "p": 0, "v": SECRET}])
    cat.create_format_table("shop.f", {"line": "STRING"}, format="text")
    cat.create_object_table("shop.o", location=str(top))
    (top / "victim").mkdir()
    (top / "house" / "shop.db" / "t-old").mkdir()
    (top / "home").mkdir()
    bucket = top / "house" / "shop.db" / "t" / "p=0" / "bucket-0"
    for folder in (top / "victim", top / "house" / "shop.db" / "t-old", top / "house" / "shop.db" / "orders", top / "house" / "shop.db" / "orders" / "p=0"):
        (folder / "diary.txt").write_text(SECRET)
        for place in (folder, folder / "p=0" / "bucket-0"):
            place.mkdir(parents=True, exist_ok=True)
            for file in bucket.iterdir():
                shutil.copy(file, place / file.name)
    shutil.rmtree(bucket)
    return top


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[str]]]:
    """A server that is the endpoint of every store, and counts."""
    with counting_server() as (url, requests), pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL"):
            patch.setenv(name, url)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_NAME"):
            patch.setenv(name, "key")
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_REGION", "eu-central-1")
        yield url, requests


def made(template: Path, top: Path, url: str, case: Drawn) -> tuple[Path, str, str | None]:
    """The table of a draw: its folder, the place that it names and what its caller allows."""
    shutil.copytree(template, top, symlinks=True)
    own = top / "house" / "shop.db" / TABLES[case.option]
    victim = top / "victim"
    facts = {
        "victim": victim,
        "own": own,
        "house": top / "house",
        "other": top / "house" / "shop.db" / "orders",
        "relative": os.path.relpath(victim),
        "encoded": str(victim).replace("v", "%76"),
        "url": url,
        "host": url.removeprefix("http://"),
        "short": str(victim)[:-1],
        "parent": f"{top}/victim/../victim",
    }
    for link in (own / "link", top / "house" / "link"):
        link.symlink_to(victim)
    place = case.shape.format(**facts)
    set_options(own, {case.option: place, ALLOWED: "/", **({STRATEGY: "round-robin"} if case.round_robin else {})})
    if case.option == EXTERNAL:
        set_external_paths(own, lambda name: f"{place.rstrip('/')}/{name}")
    then = time.time() - DAYS_S
    for path in top.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)
    return own, place, None if case.allow is None else case.allow.format(**facts)


def opened(top: Path, own: Path, case: Drawn, allow: str | None) -> lk.Table:
    options = None if allow is None else {ALLOWED: allow}
    if case.by_catalog:
        return lk.connect(top / "house", options=options)[f"shop.{own.name}"]
    return lk.open(own, options=options)


def shows(result: object) -> bool:
    """Whether rows, bytes or names of somebody else are in an answer."""
    if isinstance(result, (list, tuple)):
        return any(shows(one) for one in result)
    text = repr(result.rows()) if isinstance(result, pl.DataFrame) else repr(result)
    return SECRET in text or "diary.txt" in text


@pytest.mark.parametrize("first", range(0, DRAWS, 20))
def test_no_verb_touches_a_place_that_only_the_table_names(
    first: int, template: Path, server: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, requests = server
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(template / "home"))
    done = 0
    for seed in range(first, min(first + 20, DRAWS)):
        case = drawn(seed)
        top = tmp_path / f"case{seed}"
        own, place, allow = made(template, top, url, case)
        guarded = [top / "victim", top / "house" / "shop.db" / "orders", top / "house" / "shop.db" / "t-old"]
        before = {folder: contents(folder) for folder in guarded}
        beside = sorted(path.name for path in tmp_path.iterdir())
        own_before = contents(own)
        is_watched = case.allow not in ("{victim}", "{parent}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = opened(top, own, case, allow)  # schema and place alone: that always works
            AUDIT.touched.clear()
            AUDIT.folders = tuple(map(str, guarded)) if is_watched else ()
            result, refused = None, None
            try:
                result = VERBS[case.option][case.verb](table)
            except lk.LakekitError as error:
                refused = error
            finally:
                AUDIT.folders = ()
        where = (seed, case, place, refused)
        assert not requests, where
        if is_watched:
            assert AUDIT.touched == [], where
            assert not shows(result), where
            assert {folder: contents(folder) for folder in guarded} == before, where
        else:  # the victim is the table's now: no other folder is
            assert {folder: contents(folder) for folder in guarded[1:]} == {folder: before[folder] for folder in guarded[1:]}, where
        assert sorted(path.name for path in tmp_path.iterdir()) == beside, where
        if isinstance(refused, lk.LocationNotAllowed):
            assert not is_watched or contents(own) == own_before or case.verb in CHANGES_FIRST, where
            assert all(part in str(refused) for part in (ALLOWED, case.option, "lk.open")), where
        if case.is_sure and case.option == EXTERNAL and case.verb == "scan":
            assert result is not None, where
            assert result["v"].to_list() == [SECRET, SECRET], where
        done += 1
        shutil.rmtree(top)
    assert done


CHANGES_FIRST = ("overwrite and expire", "delete branch", "append", "overwrite", "mark", "check")
"""Verbs that do something in the table's own folder before they come to what is refused."""
