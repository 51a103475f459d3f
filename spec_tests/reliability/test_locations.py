"""A table's own bytes say where places are; only its caller and its catalog say which of them may be touched."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.cli.main import main
from lakekit.metadata import snapshots
from spec_tests.reliability.located import ALLOWED, EXTERNAL, STRATEGY, contents, counting_server, set_external_paths, set_options

REPORT = "partition.mark-done-action.http.url"
ROUND_ROBIN = {STRATEGY: "round-robin"}
OLD_S = 3 * 86_400


@pytest.fixture
def victim(tmp_path):
    """A folder that belongs to nobody's table: rows, lines, a key."""
    folder = tmp_path / "victim"
    (folder / "bucket-0").mkdir(parents=True)
    pl.DataFrame({"k": [1], "v": ["secret"]}, schema={"k": pl.Int64(), "v": pl.String()}).write_parquet(folder / "bucket-0" / "key.parquet")
    (folder / "diary.txt").write_text("secret\n")
    aged(folder)
    return folder


def aged(folder):
    """Make everything below a folder three days old."""
    then = time.time() - OLD_S
    for path in Path(folder).rglob("*"):
        os.utime(path, (then, then))


def hostile(path, victim, **options):
    """Snapshots whose files are all the victim's, of which the first may expire; written by nobody whom the caller knows."""
    made = path.with_name("made")  # what was read of it is remembered by its path
    table = lk.create(made, {"k": "BIGINT", "v": "STRING"}, options={"bucket": "-1"})
    table.append([{"k": 2, "v": "own"}])
    table.overwrite([{"k": 3, "v": "own"}])
    table.append([{"k": 4, "v": "own"}])
    set_options(made, {EXTERNAL: "file:///", **options})
    set_external_paths(made, lambda name: f"{victim}/bucket-0/{name}")
    for name in (file.name for file in made.glob("bucket-0/*")):
        shutil.copy(victim / "bucket-0" / "key.parquet", victim / "bucket-0" / name)
    return lk.open(made.rename(path))


def far(path, folder, **options):
    """A table that says, truly, that its only file lies in a folder outside."""
    made = path.with_name("made")
    lk.create(made, {"k": "BIGINT"}, options={"bucket": "-1"}).append([{"k": 7}])
    set_options(made, {EXTERNAL: f"file:{folder}", **options})
    set_external_paths(made, lambda name: f"{folder}/{name}")
    for file in made.glob("bucket-0/*"):
        file.rename(folder / file.name)
    return lk.open(made.rename(path))


EXTERNAL_VERBS = {
    "scan": lambda t: t.scan().collect(),
    "scan an old snapshot": lambda t: t.scan(at=1).collect(),
    "expire": lambda t: t.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms"),
    "update rows": lambda t: t.update({"v": pl.lit("x")}, where="v = 'own'"),
    "delete rows": lambda t: t.delete("v = 'own'"),
    "files": lambda t: t.files(),
    "compact": lambda t: t.compact(full=True),
    "aggregate": lambda t: t.aggregate(pl.col("v").max()),
    "follow": lambda t: [change.frame.collect() for change in t.follow(1, until="latest")],
}


@pytest.mark.parametrize("verb", EXTERNAL_VERBS)
def test_a_table_does_not_open_or_delete_files_at_roots_that_it_names_itself(tmp_path, victim, verb):
    table = hostile(tmp_path / "t", victim)
    before, own = contents(victim), contents(tmp_path / "t")
    with pytest.raises(lk.LocationNotAllowed) as refused:
        EXTERNAL_VERBS[verb](table)
    told = str(refused.value)
    assert all(part in told for part in (str(tmp_path / "t"), "file:///", EXTERNAL, f"options={{'{ALLOWED}': 'file:///'}}", "lk.open", "lk.connect"))
    assert (refused.value.location, refused.value.option) == ("file:///", EXTERNAL)
    assert (contents(victim), contents(tmp_path / "t")) == (before, own)
    assert isinstance(refused.value, PermissionError)


def test_a_check_says_which_place_it_did_not_look_at(tmp_path, victim):
    report = hostile(tmp_path / "t", victim).check(deep=True)
    assert report.ok
    assert any("file:///" in one.problem and ALLOWED in one.remedy for one in report.advice)


def test_a_tag_whose_files_lie_elsewhere_is_not_dropped(tmp_path, victim):
    made = tmp_path / "made"
    table = lk.create(made, {"k": "BIGINT"}, options={"bucket": "-1"})
    table.append([{"k": 1}])
    table.create_tag("kept")
    table.overwrite([{"k": 2}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    set_options(made, {EXTERNAL: "/"})
    set_external_paths(made, lambda name: f"{victim}/{name}")
    for file in made.glob("bucket-0/*"):
        file.rename(victim / file.name)
    before = contents(victim)
    table = lk.open(made.rename(tmp_path / "t"))
    for drop in (lambda: table.delete_tag("kept"), lambda: table.replace_tag("kept")):
        with pytest.raises(lk.LocationNotAllowed):
            drop()
    assert table.tags().height == 1
    assert contents(victim) == before


def test_opening_works_and_the_caller_may_allow(tmp_path, victim):
    table = far(tmp_path / "t", victim, **{ALLOWED: "/"})
    assert list(table.schema.to_polars()) == ["k"]
    assert table.snapshots().height == 1
    with pytest.raises(lk.LocationNotAllowed):
        table.scan().collect()  # the table's own allow list counts for nothing
    for options in ({ALLOWED: "/"}, {ALLOWED: f"s3://bucket/x, {victim}"}, {EXTERNAL: f"file:{victim}"}):
        assert lk.open(tmp_path / "t", options=options).scan().collect().rows() == [(7,)]
        assert table.with_options(options).scan().collect().rows() == [(7,)]
        assert table.scan(options=options).collect().rows() == [(7,)]
    allowed = pickle.loads(pickle.dumps(lk.open(tmp_path / "t", options={ALLOWED: str(victim)})))
    assert allowed.scan().collect().height == 1
    for options in ({ALLOWED: f"{victim}-not"}, {ALLOWED: f"{victim}/bucket"}, {EXTERNAL: "file:///etc"}):
        with pytest.raises((lk.LocationNotAllowed, lk.Corrupt)):
            lk.open(tmp_path / "t", options=options).scan().collect()


@pytest.mark.parametrize("location", ["http://", "s3://", "http://[::1", "/a\0b", "s3://bucket/../x", "https://user@host/x"])
def test_an_allow_list_that_names_no_location_is_refused(tmp_path, location):
    table = lk.create(tmp_path / "t", {"k": "INT"})
    with pytest.raises(lk.InvalidOption, match="is no location"):
        table.with_options({ALLOWED: location})
    with pytest.raises(lk.InvalidOption, match="is no location"):
        lk.connect(tmp_path, options={ALLOWED: location})


def test_an_allow_list_is_kept_in_no_table(tmp_path):
    cat = lk.connect(tmp_path)
    cat.create_database("db")
    with pytest.raises(lk.InvalidOption, match="is kept in no table"):
        lk.create(tmp_path / "t", {"k": "INT"}, options={ALLOWED: "/"})
    with pytest.raises(lk.InvalidOption, match="is kept in no table"):
        cat.create_table("db.t", {"k": "INT"}, options={ALLOWED: "/"})
    table = lk.create(tmp_path / "t", {"k": "INT"})
    with pytest.raises(lk.InvalidOption, match="is kept in no table"):
        table.alter(lk.set_option(ALLOWED, "/"))


def test_the_word_of_the_call_that_makes_a_table_holds_for_what_it_returns(tmp_path):
    options = {EXTERNAL: f"file:{tmp_path}/far", **ROUND_ROBIN}
    made = lk.create(tmp_path / "t", {"k": "INT"}, options=options)
    made.append([{"k": 1}])
    assert made.scan().collect().rows() == pickle.loads(pickle.dumps(made)).scan().collect().rows() == [(1,)]
    own = contents(tmp_path)
    later = lk.open(tmp_path / "t")
    for use in (lambda: later.append([{"k": 2}]), lambda: later.scan().collect()):
        with pytest.raises(lk.LocationNotAllowed, match=r"also where lk\.create or ALTER TABLE wrote it"):
            use()
    assert contents(tmp_path) == own
    allowed = lk.open(tmp_path / "t", options={ALLOWED: str(tmp_path / "far")})
    allowed.append([{"k": 2}])
    assert sorted(allowed.scan().collect()["k"]) == [1, 2]
    other = lk.create(tmp_path / "u", {"k": "INT"})
    other.alter(lk.set_option(EXTERNAL, f"file:{tmp_path}/far"), lk.set_option(STRATEGY, "round-robin"))
    with pytest.raises(lk.LocationNotAllowed):
        other.append([{"k": 2}])


def test_a_writer_that_meets_a_root_that_is_not_allowed_writes_nothing_at_the_others(tmp_path):
    roots = f"file:{tmp_path}/one,file:{tmp_path}/two"
    lk.create(tmp_path / "t", {"k": "INT"}, options={EXTERNAL: roots, **ROUND_ROBIN})
    table = lk.open(tmp_path / "t", options={ALLOWED: str(tmp_path / "one")})
    before = contents(tmp_path)
    with pytest.raises(lk.LocationNotAllowed, match="two"):
        table.append([{"k": 1}])
    assert contents(tmp_path) == before


# ---- orphans -----------------------------------------------------------------------------------------------------------------------------------


def orders(path, **options):
    table = lk.create(path, {"k": "INT", "p": "INT"}, partition_keys=["p"], options=options)
    table.append([{"k": 1, "p": 0}])
    return table


def cleaned(table, **more):
    return table.remove_orphans(dry_run=False, force=True, **more)


@pytest.mark.filterwarnings("ignore:.*was not looked at")
def test_orphan_cleaning_does_not_list_the_folder_of_another_table(tmp_path):
    victim = tmp_path / "shop.db" / "orders"
    orders(victim)
    other = orders(tmp_path / "shop.db" / "other")
    other.alter(lk.set_option(EXTERNAL, f"file://{victim}"))
    aged(tmp_path)
    before = contents(victim)
    everywhere = {ALLOWED: "/"}
    cleaned(lk.open(other.location))
    cleaned(lk.open(other.location, options=everywhere))
    with pytest.raises(lk.LocationNotAllowed):
        cleaned(lk.open(other.location), external=True)
    with pytest.raises(lk.Conflict, match="the folder of another table"):
        cleaned(lk.open(other.location, options=everywhere), external=True)
    below = lk.open(other.location, options={**everywhere, EXTERNAL: f"file://{victim}/p=0"})
    with pytest.raises(lk.Conflict, match="the folder of another table"):
        cleaned(below, external=True)
    assert contents(victim) == before


@pytest.mark.filterwarnings("ignore:.*was not looked at")
def test_two_tables_that_share_an_external_root_both_survive_cleaning(tmp_path):
    options = {EXTERNAL: f"file:{tmp_path}/shared", **ROUND_ROBIN}
    both = [orders(tmp_path / name, **options) for name in ("a", "b")]
    aged(tmp_path)
    before = contents(tmp_path / "shared")
    for table in both:
        cleaned(table)
        with pytest.warns(UserWarning, match=r"/shared of [ab] was not looked at"):
            table.remove_orphans()
    assert contents(tmp_path / "shared") == before
    assert [table.scan().collect().height for table in both] == [1, 1]


# ---- format and object tables --------------------------------------------------------------------------------------------------------------------


def folder_table(path, kind, /, **options):
    """A definition as an archive may bring it."""
    cat = lk.connect(path.parent.parent)
    cat.create_database(path.parent.name.removesuffix(".db"), if_not_exists=True)
    name = f"{path.parent.name.removesuffix('.db')}.{path.name}"
    if kind == "format":
        cat.create_format_table(name, {"line": "STRING"}, format="text", options={"text.line-delimiter": "\n"})
    else:
        cat.create_object_table(name, location=str(path.parent))
    set_options(path, options)
    return lk.open(path)


FORMAT_VERBS = {
    "scan": lambda t: t.scan().collect(),
    "append": lambda t: t.append([{"line": "x"}]),
    "overwrite": lambda t: t.overwrite([{"line": "x"}]),
    "truncate": lambda t: t.truncate(),
    "files": lambda t: t.files(),
    "partitions": lambda t: t.partitions(),
}


@pytest.mark.parametrize("verb", FORMAT_VERBS)
@pytest.mark.parametrize("shape", ["{}", "file:{}", "file://{}/", "{}/../victim", "~/../{}", "file://{}/%2e%2e/victim"])
def test_a_format_table_does_not_say_where_its_files_lie(tmp_path, victim, verb, shape):
    place = shape.format(victim).replace("~/../", "~" + "/.." * 30)
    table = folder_table(tmp_path / "db.db" / "f", "format", path=place)
    before = contents(victim)
    with pytest.raises(lk.LocationNotAllowed, match=rf"(?s)\bf names the location .* by its option path.*'{re.escape(ALLOWED)}'"):
        FORMAT_VERBS[verb](table)
    assert contents(victim) == before
    allowed = lk.open(tmp_path / "db.db" / "f", options={ALLOWED: str(victim)})
    assert allowed.files().height == 2
    assert lk.open(tmp_path / "db.db" / "f", options={"path": str(victim / "bucket-0")}).files().height == 1


@pytest.mark.parametrize("verb", FORMAT_VERBS)
@pytest.mark.parametrize("place", ["db.db/f/inbox", "inbox", "inbox/bucket-0"])
def test_a_place_that_is_allowed_without_a_word_is_no_link_out(tmp_path, victim, verb, place):
    house = tmp_path / "house"
    folder_table(house / "db.db" / "f", "format", path=str(house / place))
    (house / "inbox").symlink_to(victim)
    (house / "db.db" / "f" / "inbox").symlink_to(victim)
    before = contents(victim)
    with suppress(lk.LakekitError):
        found = FORMAT_VERBS[verb](lk.connect(house)["db.f"])
        assert "secret" not in repr(found)
        assert not isinstance(found, pl.DataFrame) or found.is_empty() or verb == "partitions"
    assert contents(victim) == before


def test_an_object_table_behind_a_link_shows_nothing(tmp_path, victim):
    house = tmp_path / "house"
    table = folder_table(house / "db.db" / "o", "object", **{"object-location": str(house / "db.db" / "o" / "inbox")})
    (house / "db.db" / "o" / "inbox").symlink_to(victim)
    with pytest.raises(lk.LakekitError):
        table.open("diary.txt")
    with suppress(lk.LakekitError):
        table.refresh()
    assert table.scan().collect().is_empty()
    (tmp_path / "mine").symlink_to(victim)  # the caller's own word may be a link
    assert lk.open(table.location, options={"object-location": str(tmp_path / "mine")}).open("diary.txt").read() == b"secret\n"


def test_an_object_table_does_not_say_what_it_lists(tmp_path, victim):
    table = folder_table(tmp_path / "db.db" / "o", "object", **{"object-location": str(victim)})
    own = contents(tmp_path / "db.db")
    for use in (table.refresh, lambda: table.open("diary.txt"), lambda: table.open(f"{victim}/diary.txt")):
        with pytest.raises(lk.LocationNotAllowed, match="by its option object-location"):
            use()
    assert contents(tmp_path / "db.db") == own
    allowed = lk.open(tmp_path / "db.db" / "o", options={ALLOWED: str(victim)})
    allowed.refresh()
    assert allowed.open("diary.txt").read() == b"secret\n"


@pytest.mark.parametrize(
    ("place", "is_allowed"),
    [
        ("{house}/inbox", True),
        ("{house}/inbox/deeper", True),
        ("{house}/db.db/f/inside", True),
        ("{house}", False),
        ("{house}/db.db", False),
        ("{house}/db.db/t", False),
        ("{house}/other.db/t", False),
        ("{house}/lake/other.db/t", False),
        ("{house}-old", False),
        ("{house}/../victim", False),
        ("{house}/inbox/../../victim", False),
        ("/etc/ssl", False),
        ("s3://bucket/x", False),
        ("http://127.0.0.1:9/x", False),
        ("hdfs://node/x", False),
    ],
)
def test_a_catalog_allows_its_warehouse_beside_the_folders_of_databases(tmp_path, place, is_allowed):
    house = tmp_path / "house"
    named = place.format(house=house)
    if named.startswith(str(tmp_path)):
        Path(named).mkdir(parents=True, exist_ok=True)
    folder_table(house / "db.db" / "f", "format", path=named)
    table = lk.connect(house)["db.f"]
    if is_allowed:
        assert table.files().is_empty()
    else:
        with pytest.raises(lk.LocationNotAllowed):
            table.files()


def test_a_catalog_is_configured_with_what_its_tables_may_use(tmp_path, victim):
    folder_table(tmp_path / "house" / "db.db" / "f", "format", path=str(victim))
    assert lk.connect(tmp_path / "house", options={ALLOWED: f"s3://x/y,{victim}"})["db.f"].files().height == 2
    assert lk.connect(tmp_path / "house", options={"table-default.path": str(victim)})["db.f"].files().height == 2
    cat = lk.connect(tmp_path / "house")
    assert cat.table("db.f", options={ALLOWED: str(victim)}).files().height == 2
    with pytest.raises(lk.LocationNotAllowed):
        pickle.loads(pickle.dumps(cat))["db.f"].files()
    cat.create_format_table("db.g", {"line": "STRING"}, format="text", location=str(victim))
    assert (cat["db.g"].files().height, "secret" in cat.sql("SELECT * FROM db.g").collect()["line"]) == (2, True)
    with pytest.raises(lk.LocationNotAllowed):
        lk.connect(tmp_path / "house").sql("SELECT * FROM db.g").collect()


@pytest.mark.parametrize("key", ["path", "PATH", "object-location", EXTERNAL, REPORT, ALLOWED])
def test_a_query_sets_no_places(tmp_path, victim, key):
    folder_table(tmp_path / "house" / "db.db" / "f", "format")
    cat = lk.connect(tmp_path / "house")
    query = f"SELECT * FROM db.f /*+ OPTIONS('{key}' = '{victim}') */"
    for use in (
        partial(cat.sql, query),
        partial(cat.create_view, "db.v", query, temporary=True),
        partial(cat.create_materialized_table, "db.m", query, freshness="1 h"),
        partial(cat.sql, f"CREATE TABLE db.copy AS {query}"),
    ):
        with pytest.raises(lk.InvalidOption, match="which names a place: a query may not"):
            use()


def test_the_query_of_a_materialized_table_sets_no_places(tmp_path, victim):
    cat = lk.connect(tmp_path / "house")
    cat.create_database("db")
    folder_table(tmp_path / "house" / "db.db" / "f", "format")
    table = cat.create_materialized_table("db.m", "SELECT * FROM db.f", freshness="1 h")
    assert table.scan().collect().is_empty()
    query = f"SELECT * FROM db.f /*+ OPTIONS('path' = '{victim}') */"
    set_options(tmp_path / "house" / "db.db" / "m", {"materialized-table.definition-query": query})
    table = lk.connect((tmp_path / "house").rename(tmp_path / "moved"))["db.m"]
    with pytest.raises(lk.InvalidOption, match="a query may not"):
        table.refresh(force=True)
    assert table.scan().collect().is_empty()


def test_a_table_moved_out_of_a_format_table_needs_its_place_allowed(tmp_path, victim):
    folder_table(tmp_path / "house" / "db.db" / "f", "format", path=str(victim), **{"file.format": "parquet"})
    before = contents(victim)
    with pytest.raises(lk.LocationNotAllowed):
        lk.connect(tmp_path / "house").migrate("db.f", "db.t", move=True)
    assert contents(victim) == before


# ---- requests ------------------------------------------------------------------------------------------------------------------------------------


def reporting(path, url):
    options = {"partition.mark-done-action": "success-file,http-report", "partition.end-input-to-done": "true"}
    lk.create(path, {"k": "INT", "p": "STRING"}, partition_keys=["p"], options=options)
    set_options(path, {REPORT: url})
    return lk.open(path)


def test_a_table_makes_no_requests(tmp_path):
    with counting_server() as (url, requests):
        table = reporting(tmp_path / "t", f"{url}/x?token=s3cret")
        with pytest.warns(UserWarning, match="partition.mark-done-action.http.url") as told:
            assert table.append([{"k": 1, "p": "a"}]).row_count == 1
        with pytest.raises(lk.LocationNotAllowed) as refused:
            table.mark_partition_done([{"p": "a"}])
        assert "s3cret" not in f"{told[0].message} {refused.value}"
        assert requests == []
        assert not list(tmp_path.rglob("_SUCCESS"))
        for other in ("http://127.0.0.1:9", f"{url[:-1]}0", f"{url}/xy", f"{url}/x/y", url.replace("http:", "https:"), url.replace("127.0.0.1", "localhost")):
            with pytest.raises(lk.LocationNotAllowed):
                lk.open(tmp_path / "t", options={ALLOWED: other}).mark_partition_done([{"p": "a"}])
        assert requests == []
        for count, options in enumerate(({ALLOWED: url}, {ALLOWED: f"/x,{url}/"}, {ALLOWED: f"{url}/x"}, {REPORT: f"{url}/x"}), 1):
            lk.open(tmp_path / "t", options=options).mark_partition_done([{"p": "a"}])
            assert len(requests) == count


def test_a_report_address_leaves_no_allowed_folder(tmp_path):
    with counting_server() as (url, requests):
        for path in ("/in/../x", "/in/%2e%2e/x", "/in/%2E./x", "/in%2f..%2fx", "//in/x", "/in/./x"):
            shutil.rmtree(tmp_path / "t", ignore_errors=True)
            reporting(tmp_path / "t", url + path)
            with pytest.raises(lk.LocationNotAllowed):
                lk.open(tmp_path / "t", options={ALLOWED: f"{url}/in"}).mark_partition_done([{"p": "a"}])
        assert requests == []


# ---- the shell -----------------------------------------------------------------------------------------------------------------------------------


def test_the_shell_allows_places(tmp_path, victim, capsys):
    hostile(tmp_path / "t", victim)
    assert main(["inspect", str(tmp_path / "t"), "snapshots"]) == 0
    assert main(["inspect", str(tmp_path / "t"), "files", "--format", "json"]) != 0
    assert "lakekit.allowed-locations" in capsys.readouterr().err
    set_external_paths(tmp_path / "t", lambda name: f"{victim}/{name}")
    assert main(["inspect", str(tmp_path / "t"), "files", "--format", "json", "--allow", "/nowhere", "--allow", str(victim)]) == 0
    folder_table(tmp_path / "house" / "db.db" / "f", "format", path=str(victim))
    assert main(["sql", str(tmp_path / "house"), "SELECT * FROM db.f"]) != 0
    assert main(["sql", str(tmp_path / "house"), "SELECT * FROM db.f", "--allow", str(victim)]) == 0
    assert snapshots.latest(lk.open(tmp_path / "t")._context()).id == 3
