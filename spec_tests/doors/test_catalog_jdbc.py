"""Names in a database: what is kept there, who may claim what, and what is told when it does not answer. SQLite stands for all."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
import threading
from dataclasses import replace

import pymysql
import pytest

import lakekit as lk
from lakekit.catalog.catalog_core import CatalogOptions
from lakekit.catalog.jdbc_session import JdbcLock, parse_address
from lakekit.options.redaction import redact_uri
from lakekit.runtime import Runtime
from lakekit.storage.local import LocalStorage

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
ROWS = [{"k": 1, "v": "a"}]
LOCKED = {"lock.enabled": True, "lock-acquire-timeout": "20 s"}


@pytest.fixture
def connect(tmp_path):
    def connect(**options):
        return lk.connect(tmp_path / "house", metastore="jdbc", uri=f"sqlite:///{tmp_path}/catalog.db", options=options)

    return connect


@pytest.fixture
def ask(tmp_path):
    def ask(statement, *values):
        with contextlib.closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as database:
            return database.execute(statement, values).fetchall()

    return ask


def test_what_stands_in_the_database(connect, ask, tmp_path):
    cat = connect()
    cat.create_database("shop", comment="ours", properties={"owner": "me"})
    cat.create_table("shop.orders", COLUMNS, primary_keys=["k"], options={"bucket": 2})
    assert ask("SELECT * FROM paimon_tables") == [("jdbc", "shop", "orders")]
    assert sorted(ask("SELECT property_key, property_value FROM paimon_database_properties")) == [
        ("comment", "ours"),
        ("exists", "true"),
        ("location", f"{tmp_path}/house/shop.db"),
        ("owner", "me"),
    ]
    assert sorted(ask("SELECT property_key, property_value FROM paimon_table_properties")) == [("bucket", "2"), ("bucket-key", "k"), ("primary-key", "k")]
    assert ask("SELECT name FROM sqlite_master WHERE name LIKE 'paimon_dis%'") == []  # locks only when they are asked for


def test_changed_options_are_copied(connect, ask):
    cat = connect()
    cat.create_database("shop")
    table = cat.create_table("shop.orders", COLUMNS, primary_keys=["k"], options={"bucket": 2})
    table.alter(lk.set_option("snapshot.time-retained", "2 h"), lk.add_column("w", "INT"))
    assert ("snapshot.time-retained", "2 h") in ask("SELECT property_key, property_value FROM paimon_table_properties")
    with pytest.warns(UserWarning, match=r"shop\.orders: remark is too long for sqlite:///.*, which keeps a copy of options"):
        table.alter(lk.set_option("remark", "x" * 1001))
    assert table.options["remark"] == "x" * 1001
    table.alter(lk.reset_option("remark"))
    other = connect(**{"sync-all-properties": False})
    other["shop.orders"].alter(lk.set_option("snapshot.time-retained", "3 h"))
    assert ("snapshot.time-retained", "2 h") in ask("SELECT property_key, property_value FROM paimon_table_properties")


def test_a_copy_that_cannot_be_renewed_does_not_undo_what_happened(connect, ask):
    cat = connect()
    cat.create_database("shop")
    table = cat.create_table("shop.orders", COLUMNS)
    ask("DROP TABLE paimon_table_properties")
    with pytest.warns(UserWarning, match="has its new schema, but the catalog's copy of its options could not be renewed"):
        table.alter(lk.add_column("w", "INT"))
    assert [field.name for field in table.schema.fields] == ["k", "v", "w"]


def test_properties_of_a_database_change(connect, ask):
    cat = connect()
    cat.create_database("shop", properties={"a": "1", "b": "2"})
    cat.alter_database("shop", set={"a": "3", "c": "4"}, remove=["b", "nothing"])
    assert dict(ask("SELECT property_key, property_value FROM paimon_database_properties WHERE length(property_key) = 1")) == {"a": "3", "c": "4"}
    with pytest.raises(lk.InvalidOption, match="a cannot be set and removed at once"):
        cat.alter_database("shop", set={"a": "1"}, remove=["a"])
    for name in ("location", "exists"):
        with pytest.raises(lk.InvalidOption, match="cannot change"):
            cat.alter_database("shop", remove=[name])
    with pytest.raises(lk.InvalidOption, match="is longer than 255 characters"):
        cat.alter_database("shop", set={"a": "x" * 1001})
    with pytest.raises(lk.InvalidOption, match="releases of the reference do not agree on other locations"):
        cat.create_database("web", properties={"location": "/elsewhere"})
    with pytest.raises(lk.InvalidOption, match="properties of a database are texts"):
        cat.create_database("web", properties={"a": 1})


def test_catalogs_of_other_keys_do_not_meet(connect):
    mine, yours = connect(**{"catalog-key": "mine"}), connect(**{"catalog-key": "yours"})
    mine.create_database("shop")
    assert (mine.databases(), yours.databases()) == (["shop"], [])
    yours.create_database("shop")
    mine.create_table("shop.t", COLUMNS)
    assert yours.tables().height == 0
    with pytest.raises(lk.TableAlreadyExists, match="holds a table"):  # one warehouse has one place for it
        yours.create_table("shop.t", COLUMNS)
    assert yours.tables().height == 0


def test_a_table_whose_files_are_gone_can_be_dropped(connect, tmp_path):
    cat = connect()
    cat.create_database("shop")
    cat.create_table("shop.t", COLUMNS)
    (tmp_path / "house" / "shop.db" / "t" / "schema" / "schema-0").unlink()
    with pytest.raises(lk.TableNotFound, match=r"shop\.db/t"):
        cat["shop.t"]
    assert cat.tables().rows() == [("shop", "t", None)]
    with pytest.raises(lk.TableAlreadyExists):
        cat.create_table("shop.t", COLUMNS)
    with pytest.warns(UserWarning, match=r'its folder ".*/shop\.db/t" was left alone: no table lies there'):
        cat.drop_table("shop.t")
    assert cat.tables().height == 0


def test_a_rename_that_fails_leaves_rows_and_files_as_they_were(connect, ask, tmp_path):
    cat = connect()
    cat.create_database("shop")
    cat.create_table("shop.t", COLUMNS).append(ROWS)
    (tmp_path / "house" / "shop.db" / "u").mkdir()
    with pytest.raises(lk.StorageFailed, match="is there already, though no table is"):
        cat.rename_table("shop.t", "shop.u")
    assert ask("SELECT table_name FROM paimon_tables") == [("t",)]
    assert cat["shop.t"].scan().collect().to_dicts() == ROWS


@pytest.mark.parametrize("is_done", [False, True])
def test_a_lost_answer_leaves_a_table_or_none(connect, ask, tmp_path, monkeypatch, is_done):
    from lakekit.catalog.jdbc_session import JdbcSession

    cat = connect()
    cat.create_database("shop")
    real = JdbcSession.execute

    def lost(self, statement, *values):
        if statement.startswith("INSERT INTO paimon_tables"):
            if is_done:
                real(self, statement, *values)
            raise lk.StorageFailed("the answer was lost")
        return real(self, statement, *values)

    with monkeypatch.context() as patch:
        patch.setattr(JdbcSession, "execute", lost)
        if is_done:
            cat.create_table("shop.t", COLUMNS)
        else:
            with pytest.raises(lk.StorageFailed, match="the answer was lost"):
                cat.create_table("shop.t", COLUMNS)
    assert cat.exists("shop.t") == is_done
    assert cat.create_table("shop.t", COLUMNS, if_not_exists=True).scan().collect().height == 0


def test_views_keep_their_names(connect, ask):
    cat = connect()
    cat.create_database("shop")
    ask("CREATE TABLE paimon_views(catalog_key TEXT, database_name TEXT, view_name TEXT, view_schema TEXT)")
    ask("INSERT INTO paimon_views VALUES ('jdbc', 'shop', 'v', '{}')")
    with pytest.raises(lk.TableAlreadyExists, match=r"shop\.v is a view"):
        cat.create_table("shop.v", COLUMNS)


def test_two_who_begin_at_once_make_the_tables_once(connect):
    cats = [connect(**LOCKED) for _ in range(6)]
    failed = []

    def begin(at):
        try:
            cats[at].create_database(f"db{at}")
        except lk.LakekitError as error:
            failed.append(error)

    threads = [threading.Thread(target=begin, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert cats[0].databases() == [f"db{at}" for at in range(6)]


# ---- locks


def test_claims_are_made_under_the_lock(connect, ask, monkeypatch):
    cat = connect(**LOCKED)
    cat.create_database("shop")
    from lakekit.storage.local import LocalStorage

    held, real = [], LocalStorage.put_if_absent

    def seen(self, path, data):
        if "/schema/" in path or "/snapshot/snapshot-" in path:
            held.append((path.rpartition("/")[2], [row[0] for row in ask("SELECT lock_id FROM paimon_distributed_locks")]))
        return real(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", seen)
    table = cat.create_table("shop.t", COLUMNS)
    table.append(ROWS)
    table.alter(lk.add_column("w", "INT"))
    assert held == [("schema-0", ["jdbc.shop.t"]), ("snapshot-1", ["jdbc.shop.t"]), ("schema-1", ["jdbc.shop.t"])]
    assert ask("SELECT * FROM paimon_distributed_locks") == []


@pytest.mark.long
def test_who_cannot_have_the_lock_changes_nothing(connect, ask):
    patient, cat = connect(**LOCKED), connect(**{"lock.enabled": True, "lock-acquire-timeout": "300 ms"})
    patient.create_database("shop")
    patient.create_table("shop.t", COLUMNS)
    table = cat["shop.t"]
    ask("INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES ('jdbc.shop.t', 480)")
    with pytest.raises(lk.RetriesExhausted, match=r"Acquire lock failed with time: .*Somebody else holds 'jdbc\.shop\.t'.*nothing was changed"):
        table.append(ROWS)
    with pytest.raises(lk.RetriesExhausted):
        table.alter(lk.add_column("w", "INT"))
    assert table.snapshots().height == 0
    assert [field.name for field in table.schema.fields] == ["k", "v"]
    ask("UPDATE paimon_distributed_locks SET acquired_at = datetime('now', '-600 seconds')")  # its holder died
    patient["shop.t"].append(ROWS)
    assert table.scan().collect().to_dicts() == ROWS
    assert ask("SELECT * FROM paimon_distributed_locks") == []


@pytest.fixture
def lock(connect):
    cat = connect(**LOCKED)
    cat.create_database("shop")
    return cat._names().lock("shop", "t")


def test_a_lock_that_somebody_took_is_not_released_for_him(lock, ask):
    with pytest.warns(UserWarning, match="was not there any more when it was given back"), lock.hold():
        ask("UPDATE paimon_distributed_locks SET acquired_at = '2001-01-01 00:00:00'")  # somebody else's row now
    assert ask("SELECT acquired_at FROM paimon_distributed_locks") == [("2001-01-01 00:00:00",)]


def test_a_lock_about_to_run_out_claims_nothing(lock):
    at = [0.0]
    slow = replace(lock, timeout_ms=480_000, runtime=Runtime(elapsed_ms=lambda: at[0]))
    with slow.hold() as held:
        held.check_held()
        at[0] = 419_000
        held.check_held()
        at[0] = 421_000
        with pytest.raises(lk.LockLost, match=r"was lost: held for 421 s of 480 s, it runs out\. Nothing was changed"):
            held.check_held()


def test_where_times_mean_nothing_a_lock_is_watched_before_it_is_removed(lock, ask, monkeypatch):
    from lakekit.catalog.dialects import sqlite

    monkeypatch.setattr(sqlite, "LOCK_EXPIRED_CONDITION", None)
    ask("INSERT INTO paimon_distributed_locks VALUES ('jdbc.shop.t', '2001-01-01 00:00:00', 10)")
    at = [0.0]

    def wait(duration_ms):
        at[0] += duration_ms

    watching = replace(lock, timeout_ms=10_000, max_sleep_ms=1000, runtime=Runtime(elapsed_ms=lambda: at[0], wait_ms=wait))
    with watching.hold():
        assert 15_000 < at[0] < 17_000  # as long as its row says, and five seconds more
        assert ask("SELECT count(*) FROM paimon_distributed_locks") == [(1,)]
    at[0] = 0.0
    ask("INSERT INTO paimon_distributed_locks VALUES ('jdbc.shop.t', '2001-01-01 00:00:00', 60)")
    with pytest.raises(lk.RetriesExhausted), watching.hold():
        pass


def test_many_who_add_one_lose_none(lock, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")

    def work():
        for _ in range(5):
            with replace(lock, max_sleep_ms=20).hold():
                counter.write_text(str(int(counter.read_text()) + 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "20"


def test_a_lock_is_a_value(lock, connect):
    assert isinstance(lock, JdbcLock)
    assert pickle.loads(pickle.dumps(lock)) == lock
    table = connect(**LOCKED).create_table("shop.t", COLUMNS)
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert again._context().catalog_env == table._context().catalog_env
    again.append(ROWS)
    assert table.scan().collect().to_dicts() == ROWS


def test_other_locks_are_refused_by_name(tmp_path):
    for kind in ("hive", "zookeeper"):
        with pytest.raises(lk.Unsupported, match=rf"lock\.type='{kind}' is no lock of metastore=jdbc"):
            lk.connect(tmp_path, metastore="jdbc", uri=f"sqlite:///{tmp_path}/c", options={"lock.type": kind}).databases()


# ---- getting in


@pytest.mark.parametrize(
    "uri, driver, found",
    [
        ("sqlite:////data/c.db", {}, ("sqlite", "/data/c.db", "localhost", None, None, None)),
        ("jdbc:sqlite:/data/c.db", {}, ("sqlite", "/data/c.db", "localhost", None, None, None)),
        ("jdbc:sqlite:file:/data/c.db?cache=shared", {}, ("sqlite", "/data/c.db", "localhost", None, None, None)),
        ("postgresql://me:p%40ss@h:5433/lake", {}, ("postgresql", "lake", "h", 5433, "me", "p@ss")),
        ("postgres://h/lake", {"user": "me", "password": "x"}, ("postgresql", "lake", "h", None, "me", "x")),
        ("jdbc:postgresql://h:1/lake?user=me&password=x&sslmode=require", {"user": "you"}, ("postgresql", "lake", "h", 1, "me", "x")),
        ("jdbc:mysql://h:3307/lake", {"user": "me"}, ("mysql", "lake", "h", 3307, "me", None)),
        ("jdbc:mariadb://h/lake", {}, ("mysql", "lake", "h", None, None, None)),
    ],
)
def test_where_a_database_is(uri, driver, found):
    told = parse_address(uri, driver)
    assert (told.dialect_name, told.database, told.host, told.port, told.user, told.password) == found


@pytest.mark.parametrize(
    "uri", ["", "x", "oracle://h/db", "jdbc:oracle:thin:@h", "postgresql://h", "mysql://h/a/b", "postgresql://h:x/db", "sqlite://", "jdbc:sqlite::memory:"]
)
def test_what_names_no_database(uri, tmp_path):
    with pytest.raises(lk.InvalidOption):
        lk.connect(tmp_path, metastore="jdbc", uri=uri).databases()
    with pytest.raises(lk.InvalidOption, match="metastore jdbc needs an uri"):
        lk.connect(tmp_path, metastore="jdbc")


@pytest.mark.filterwarnings("ignore:option jdbc")
@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("mysql://me:pa/ss@h/db", "mysql://me:******@h/db"),
        ("mysql://me:pa#s@h/db", "mysql://me:******@h/db"),
        ("mysql://me:12/ab@h/db", "mysql://me:******@h/db"),
        ("jdbc:postgresql://me:p@a?b:c@h:5432/db", "jdbc:postgresql://me:******@h:5432/db"),
        ("mysql://h:3306/db?a=1;password=a;b&c=d", "mysql://h:3306/db?a=1;password=******&c=d"),
        ("mysql://h/db?Password=x", "mysql://h/db?Password=******"),
        ("mysql://me@h:3306/db?useSSL=true", "mysql://me@h:3306/db?useSSL=true"),
        ("sqlite:///folder/catalog.db", "sqlite:///folder/catalog.db"),
        ("thrift://me:secret@h:x", "thrift://me:******@h:x"),
    ],
)
def test_whatever_signs_are_in_a_secret_it_is_hidden(tmp_path, uri, shown):
    assert redact_uri(uri) == shown
    for metastore in ("jdbc", "hive"):
        with pytest.raises(lk.LakekitError) as told:
            lk.connect(tmp_path / "none", metastore=metastore, uri=uri.replace("@h", "@nowhere.invalid").replace("//h", "//nowhere.invalid")).databases()
        for secret in ("pa/ss", "pa#s", "12/ab", "p@a?b:c", "a;b", "=x", "secret"):
            assert secret not in str(told.value) + repr(told.value) or secret not in uri


def test_what_a_metastore_is_opened_with_shows_no_secret():
    secret = {"jdbc.password": "hunter2"}
    given = CatalogOptions(warehouse="w", storage=LocalStorage(), uri="mysql://me:hunter2@h/db", options=secret, storage_options=secret)
    assert "hunter2" not in repr(given)


def test_secrets_are_in_no_text(tmp_path, monkeypatch):
    options = {"jdbc.user": "me", "jdbc.password": "hunter2"}
    cat = lk.connect(tmp_path, metastore="jdbc", uri="jdbc:mysql://me:hunter2@nowhere.invalid/db?password=hunter2", options=options)
    assert redact_uri(cat.uri) == "jdbc:mysql://me:******@nowhere.invalid/db?password=******"
    shown = repr(cat) + cat._repr_html_() + repr(cat["sys.catalog_options"]) + repr(cat["sys.catalog_options"].scan().collect().rows())
    assert "nowhere.invalid" in shown

    def refuse(**given):
        raise pymysql.err.OperationalError(1045, f"Access denied: {given['password']}")

    monkeypatch.setattr(pymysql, "connect", refuse)
    with pytest.raises(lk.StorageFailed, match=r"does not let lakekit in: .*Access denied") as told:
        cat.databases()
    assert told.value.__cause__ is None
    assert "hunter2" not in shown + str(told.value) + repr(told.value) + repr(cat._names()) + repr(cat._names().sql_database.address)


def test_a_file_that_is_no_database_is_named(connect, tmp_path):
    (tmp_path / "catalog.db").write_bytes(b"something else entirely, and long enough to be read " * 20)
    with pytest.raises(lk.StorageFailed, match=r"the database sqlite:///.*/catalog\.db says: file is not a database"):
        connect().databases()
    with pytest.raises(lk.StorageFailed, match="does not let lakekit in: unable to open database file"):
        lk.connect(tmp_path, metastore="jdbc", uri=f"sqlite:///{tmp_path}/no/such/folder/c.db").databases()


def test_a_driver_that_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch):
    import sys

    from lakekit import plugins

    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "lakekit.catalog.dialects.postgresql", raising=False)
    plugins._find_plugins.cache_clear()
    with pytest.raises(lk.ExtraMissing, match=r"'postgresql' of catalog/dialects needs psycopg: pip install 'lakekit\[postgresql\]'"):
        lk.connect(tmp_path, metastore="jdbc", uri="postgresql://h/db").databases()
