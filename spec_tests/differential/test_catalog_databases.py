"""Names in PostgreSQL and in MariaDB: the same statements as in SQLite, on real servers, shared with the reference."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

import lakekit as lk
from lakekit.catalog.jdbc_session import parse_address
from spec_tests.differential.databases import PASSWORD, SERVERS, missing
from spec_tests.differential.test_catalogs import COLUMNS, JAVA_ROWS, KEYS, ROWS, Java, committed_ms, java_table

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=sorted(SERVERS))
def served(request):
    program, serve = SERVERS[request.param]
    if (why := missing(program)) is not None:
        pytest.skip(why)
    with serve() as found:
        yield found


@pytest.fixture
def cat(served, tmp_path, request):
    options = {"catalog-key": request.node.name[:200], "lock.enabled": True, "lock-acquire-timeout": "30 s"}
    return lk.connect(tmp_path / "house", metastore="jdbc", uri=served.uri, options=options)


def test_databases_and_tables_come_and_go(cat):
    cat.create_database("shop", comment="ours", properties={"a": "1"})
    with pytest.raises(lk.DatabaseAlreadyExists):
        cat.create_database("shop")
    cat.alter_database("shop", set={"a": "2"}, remove=["comment"])
    assert {name: value for name, value in cat._names().properties("shop").items() if name != "location"} == {"a": "2"}
    table = cat.create_table("shop.t", COLUMNS, options={"bucket": 2}, **KEYS)
    table.upsert(ROWS)
    table.alter(lk.set_option("snapshot.time-retained", "2 h"))
    cat.create_database("web")
    cat.rename_table("shop.t", "web.u")
    assert cat["web.u"].scan().collect().sort("id").to_dicts() == ROWS
    with pytest.raises(lk.TableNotFound):
        cat["shop.t"]
    assert cat.tables().rows() == [("web", "u", "table")]
    cat.drop_database("web", cascade=True)
    cat.drop_database("shop")
    assert cat.databases() == []


def test_names_that_differ_in_case(cat, served):
    cat.create_database("shop")
    cat.create_table("shop.t", {"n": "INT"})
    assert not cat.exists("shop.T")
    assert not cat.exists("SHOP")
    if served.dialect == "mysql":
        with pytest.raises(lk.TableAlreadyExists, match="perhaps spelt with other cases"):
            cat.create_table("shop.T", {"n": "INT"})
    else:
        cat.create_table("shop.T", {"n": "INT"})
    assert cat["shop.t"].scan().collect().height == 0
    cat.drop_database("shop", cascade=True)


def test_what_does_not_fit_is_left_out_of_the_copy(cat):
    cat.create_database("shop")
    table = cat.create_table("shop.t", {"n": "INT"})
    with pytest.warns(UserWarning, match="remark is too long"):
        table.alter(lk.set_option("remark", "x" * 1001))
    with pytest.raises(lk.InvalidOption, match="is longer than 255"):
        cat.alter_database("shop", set={"a": "x" * 1001})


def test_many_who_add_one_lose_none(cat, tmp_path):
    cat.create_database("shop")
    lock, counter = replace(cat._names().lock("shop", "t"), max_sleep_ms=20), tmp_path / "counter"
    counter.write_text("0")
    failed = []

    def work():
        try:
            for _ in range(10):
                with lock.hold() as held:
                    held.check_held()
                    counter.write_text(str(int(counter.read_text()) + 1))
        except lk.LakekitError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, counter.read_text()) == ([], "40")


def test_a_lock_left_behind(cat, served):
    cat.create_database("shop")
    lock = replace(cat._names().lock("shop", "left"), timeout_ms=2000, max_sleep_ms=200)
    with lock.database.session() as session:
        session.execute("INSERT INTO paimon_distributed_locks (lock_id, acquired_at, expire_time_seconds) VALUES (?, '2001-01-01 00:00:00', 1)", lock.lock_id)
    with lock.hold() as held:  # at once where the database knows its age, after watching it for six seconds elsewhere
        held.check_held()
    with lock.database.session() as session:
        assert session.query("SELECT lock_id FROM paimon_distributed_locks WHERE lock_id = ?", lock.lock_id) == []


def test_who_is_not_let_in(served, tmp_path):
    with pytest.raises(lk.StorageFailed, match="does not let lakekit in") as told:
        lk.connect(tmp_path, metastore="jdbc", uri=served.uri.replace(f"/{parse_address(served.uri, {}).database}", "/nowhere")).databases()
    assert PASSWORD + "@" not in str(told.value)
    if served.dialect == "mysql":
        with pytest.raises(lk.StorageFailed, match=r"too long for utf8mb4: ALTER DATABASE"):
            lk.connect(tmp_path, metastore="jdbc", uri=served.uri.rpartition("/")[0] + "/wide").databases()


@pytest.mark.reference
def test_the_reference_shares_the_database(served, judge, tmp_path):
    house = tmp_path / "house"
    house.mkdir()
    options = {**served.java, "catalog-key": "shared", "lock.enabled": "true"}
    java, cat = Java(judge, house, **options), lk.connect(house, options=options)
    answers = java.ask(["create_database", "one", {"k": "v"}], java_table("one.theirs"), ["write", "one.theirs", JAVA_ROWS])
    assert answers == [None, None, None]
    assert cat["one.theirs"].scan().collect().sort("id").to_dicts() == ROWS
    cat.create_database("two")
    cat.create_table("two.ours", COLUMNS, options={"bucket": 2}, **KEYS).upsert(ROWS)
    cat.rename_table("one.theirs", "two.theirs")
    assert java.ask(["databases"], ["tables", "two"]) == [["one", "two"], ["ours", "theirs"]]
    assert sorted(java.one("read", "two.ours")["rows"]) == sorted(java.one("read", "two.theirs")["rows"]) == sorted(JAVA_ROWS)
    answers, done_ms = [], []
    holding = threading.Thread(target=lambda: answers.append(java.one("hold", "two.ours", 2000)))
    holding.start()
    while holding.is_alive():
        done_ms.append(committed_ms(cat["two.ours"]))
    holding.join()
    assert done_ms[-1] >= answers[0]
    assert not [at for at in done_ms if answers[0] - 1500 < at < answers[0]], "nobody commits while the reference holds the lock"
    assert java.one("drop_database", "two", True) is None
    assert cat.databases() == ["one"]
