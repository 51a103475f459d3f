"""Names in a Hive metastore: what stands in its entries, and what is told of what it refuses. The metastore is one in memory (`hive_server`)."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import lakekit as lk
from lakekit.catalog.hive_client import hive_type, open_client, parse_metastore_uris
from lakekit.runtime import Runtime
from lakekit.types import parse
from spec_tests.doors.hive_server import Wrong, serve

COLUMNS = {"id": "BIGINT NOT NULL", "dt": "STRING NOT NULL", "v": "DECIMAL(10, 2)"}
KEYS = {"primary_keys": ["id", "dt"], "partition_keys": ["dt"]}
ROWS = [{"id": 1, "dt": "x", "v": None}]


@pytest.fixture
def hive(tmp_path):
    with serve(tmp_path / "default") as found:
        yield found


@pytest.fixture
def cat(hive, tmp_path):
    return lk.connect(tmp_path / "house", metastore="hive", uri=hive[0], options={"lock.enabled": True, "lock-acquire-timeout": "300 ms"})


@pytest.fixture
def shop(cat):
    cat.create_database("shop")
    cat.create_table("shop.orders", COLUMNS, options={"bucket": 2}, comment="hello", **KEYS).upsert(ROWS)
    return cat


def test_what_stands_in_an_entry(shop, tmp_path):
    entry = shop._names().find_entry("shop", "orders")
    assert {key: entry[key] for key in ("tableName", "dbName", "retention", "tableType")} == {
        "tableName": "orders",
        "dbName": "shop",
        "retention": 2147483647,
        "tableType": "MANAGED_TABLE",
    }
    assert entry["parameters"] == {
        "bucket": "2",
        "bucket-key": "id",
        "comment": "hello",
        "partition": "dt",
        "primary-key": "id,dt",
        "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
        "table_type": "PAIMON",
        "transient_lastDdlTime": "1",
    }
    stored = entry["sd"]
    assert stored["location"] == f"file:{tmp_path}/house/shop.db/orders"
    assert (stored["inputFormat"], stored["outputFormat"]) == tuple(f"org.apache.paimon.hive.mapred.Paimon{way}Format" for way in ("Input", "Output"))
    assert stored["serdeInfo"] == {"serializationLib": "org.apache.paimon.hive.PaimonSerDe", "parameters": {}}
    assert [(one["name"], one["type"]) for one in stored["cols"]] == [("id", "bigint"), ("dt", "string"), ("v", "decimal(10,2)")]
    assert entry.get("partitionKeys", []) == []


@pytest.mark.parametrize(
    "paimon, hive",
    [
        ("TIMESTAMP(9)", "timestamp"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "timestamp"),
        ("TIME", "string"),
        ("VARBINARY(7)", "binary"),
        ("CHAR(255)", "char(255)"),
        ("CHAR(256)", "string"),
        ("VARCHAR(65535)", "varchar(65535)"),
        ("VARCHAR(65536)", "string"),
        ("STRING", "string"),
        ("ARRAY<ROW<a INT, b MAP<STRING, DOUBLE>>>", "array<struct<a:int,b:map<string,double>>>"),
        ("MULTISET<STRING>", "map<string,int>"),
    ],
)
def test_types_as_hive_calls_them(paimon, hive):
    assert hive_type(parse(paimon)) == hive


def test_changes_reach_the_entry(shop):
    table = shop["shop.orders"]
    table.alter(lk.add_column("w", "INT"), lk.set_option("snapshot.time-retained", "2 h"))
    entry = shop._names().find_entry("shop", "orders")
    assert [one["name"] for one in entry["sd"]["cols"]] == ["id", "dt", "v", "w"]
    assert entry["parameters"]["snapshot.time-retained"] == "2 h"
    table.alter(lk.reset_option("snapshot.time-retained"))
    parameters = shop._names().find_entry("shop", "orders")["parameters"]
    assert "snapshot.time-retained" not in parameters
    assert parameters["transient_lastDdlTime"] == "2"


def test_a_metastore_that_cannot_be_told_does_not_undo_what_happened(shop, hive):
    table = shop["shop.orders"]

    def refuse(*_):
        raise Wrong(2, "the metastore's own database is gone")

    hive[1].alter_table_with_environment_context = refuse
    with pytest.warns(UserWarning, match="has its new schema, but the metastore's copy could not be renewed"):
        table.alter(lk.add_column("w", "INT"))
    assert [field.name for field in table.schema.fields][-1] == "w"


def test_tables_are_listed_read_renamed_and_dropped(shop, tmp_path, hive):
    assert shop.tables().rows() == [("shop", "orders", "table")]
    assert shop["shop.orders"].scan().collect().to_dicts() == ROWS
    assert "shop.orders" in shop and "shop.Orders" not in shop and "shop.nope" not in shop
    shop.create_database("web")
    shop.rename_table("shop.orders", "web.sales")
    assert shop._names().find_entry("web", "sales")["sd"]["location"] == f"file:{tmp_path}/house/web.db/sales"
    assert shop["web.sales"].scan().collect().to_dicts() == ROWS
    assert shop.tables("shop").height == 0
    shop.drop_table("web.sales")
    assert not (tmp_path / "house" / "web.db" / "sales").exists()
    shop.drop_database("web")
    shop.drop_database("shop")
    assert shop.databases() == ["default"]


def test_other_tables_of_a_metastore_are_let_alone(shop, hive):
    state = hive[1]
    foreign = {**state.tables["shop", "orders"], 1: (11, "logs"), 7: (12, {2: (11, "file:/logs"), 3: (11, "org.apache.hadoop.mapred.TextInputFormat")})}
    state.tables["shop", "logs"] = foreign
    assert shop.tables("shop")["table"].to_list() == ["orders"]
    with pytest.raises(lk.TableNotFound):
        shop["shop.logs"]
    with pytest.raises(lk.TableNotFound):
        shop.drop_table("shop.logs")
    with pytest.raises(lk.TableAlreadyExists, match="already exists, but this table is not a paimon table"):
        shop.create_table("shop.logs", COLUMNS)
    with pytest.raises(lk.StorageFailed, match="Database shop is not empty"):
        shop.drop_database("shop", cascade=True)
    assert list(state.tables) == [("shop", "logs")]


def test_external_tables_outlive_their_entries(hive, tmp_path):
    cat = lk.connect(tmp_path / "house", metastore="hive", uri=hive[0], options={"table.type": "external"})
    cat.create_database("shop")
    cat.create_table("shop.t", {"n": "INT"}).append([{"n": 1}])
    entry = cat._names().find_entry("shop", "t")
    assert (entry["tableType"], entry["parameters"]["EXTERNAL"]) == ("EXTERNAL_TABLE", "TRUE")
    cat.rename_table("shop.t", "shop.u")
    assert cat["shop.u"].scan().collect().height == 1
    cat.drop_table("shop.u")
    assert lk.open(tmp_path / "house" / "shop.db" / "t").scan().collect().height == 1


def test_databases_keep_what_they_are_told(cat, tmp_path):
    cat.create_database("shop", comment="ours", properties={"owner": "me", "a": "1", "location": f"file:{tmp_path}/elsewhere"})
    assert cat._names().properties("shop") == {"a": "1", "comment": "ours", "owner": "me", "location": f"file:{tmp_path}/elsewhere"}
    cat.alter_database("shop", set={"a": "2", "b": "3"})
    with pytest.warns(UserWarning, match="does not change comment of a database that is there"):
        cat.alter_database("shop", set={"comment": "theirs"})
    assert cat._names().properties("shop") == {"a": "2", "b": "3", "comment": "ours", "owner": "me", "location": f"file:{tmp_path}/elsewhere"}
    assert cat.create_table("shop.t", {"n": "INT"}).location == f"{tmp_path}/elsewhere/t"
    with pytest.raises(lk.InvalidOption, match="cannot change"):
        cat.alter_database("shop", remove=["location"])
    with pytest.raises(lk.DatabaseAlreadyExists):
        cat.create_database("shop")
    for change in (lambda: cat.create_database("Shop"), lambda: cat.create_table("shop.T", {"n": "INT"}), lambda: cat.rename_table("shop.t", "shop.U")):
        with pytest.raises(lk.InvalidOption, match="lower case only"):
            change()


def test_a_metastore_knows_a_warehouse_itself(hive, tmp_path):
    cat = lk.connect(metastore="hive", uri=hive[0])
    made = cat.create_table("default.t", {"n": "INT"})
    made.append([{"n": 1}])
    assert made.location == f"{tmp_path}/default/t"
    assert cat.tables().rows() == [("default", "t", "table")]
    assert cat["sys.tables"].scan().collect().height == 1
    assert "as the metastore says" in repr(cat)


def test_partitions_are_not_registered_and_so_refused(shop, hive):
    with pytest.raises(lk.Unsupported, match=r"partitions are listed in no metastore|asks for partitions in the metastore"):
        shop.create_table("shop.days", COLUMNS, options={"metastore.partitioned-table": True}, **KEYS)
    assert "shop.days" not in shop
    table = hive[1].tables["shop", "orders"]
    hive[1].tables["shop", "orders"] = {**table, 8: (15, (12, [{1: (11, "dt"), 2: (11, "string")}]))}
    assert shop["shop.orders"].scan().collect().to_dicts() == ROWS
    with pytest.raises(lk.Unsupported, match="keeps its partitions in the metastore"):
        shop["shop.orders"].upsert(ROWS)
    assert shop["shop.orders"].snapshots().height == 1


@pytest.mark.long
def test_claims_wait_for_the_metastores_lock(shop, hive):
    table, held = shop["shop.orders"], shop._names().lock("shop", "orders")
    with held as claim:
        claim.check_held()
        assert list(hive[1].locks.values()) == [(3, 2, "shop", "orders")]
        with pytest.raises(lk.RetriesExhausted, match=r"Acquire lock failed for table shop\.orders"):
            table.upsert(ROWS)
        with pytest.raises(lk.LockLost, match=r"was held for 300 s, longer than a metastore remembers it\. Nothing was changed"):
            replace(claim, runtime=Runtime(elapsed_ms=lambda: claim.held_since_ms + 300_000)).check_held()
    assert hive[1].locks == {}
    table.upsert(ROWS)
    assert table.snapshots().height == 2
    with pytest.warns(UserWarning, match=r"the lock of shop\.x could not be given back: .*NoSuchLockException"), shop._names().lock("shop", "x"):
        hive[1].locks.clear()


def test_a_catalog_of_a_metastore_is_a_value(shop):
    again = pickle.loads(pickle.dumps(shop))
    assert again == shop
    table = pickle.loads(pickle.dumps(shop["shop.orders"]))
    table.upsert([{"id": 2, "dt": "x", "v": None}])
    assert again["shop.orders"].scan().collect().height == 2


def test_what_is_told_of_a_metastore_that_is_none(tmp_path, hive):
    assert parse_metastore_uris("thrift://a, thrift://b:1") == [("a", 9083), ("b", 1)]
    for uri in ("", "http://a", "a:9083", "thrift://a:x", "thrift://"):
        with pytest.raises(lk.InvalidOption):
            lk.connect(tmp_path, metastore="hive", uri=uri or " ").databases()
    with pytest.raises(lk.StorageFailed, match=r"no metastore answers at thrift://127\.0\.0\.1:1"):
        lk.connect(tmp_path, metastore="hive", uri="thrift://127.0.0.1:1").databases()
    first_is_down = lk.connect(tmp_path, metastore="hive", uri=f"thrift://127.0.0.1:1,{hive[0]}")
    assert first_is_down.databases() == ["default"]
    with open_client(hive[0]) as client:
        from lakekit.catalog import hive_client

        calls = dict(hive_client.METASTORE_CALLS)
        try:
            hive_client.METASTORE_CALLS["get_nothing"] = ((), "string", {})
            with pytest.raises(lk.StorageFailed, match="cannot get_nothing: Invalid method name"):
                client.call_method("get_nothing")
        finally:
            hive_client.METASTORE_CALLS.clear()
            hive_client.METASTORE_CALLS.update(calls)
    for options, feature in (({"lock.type": "jdbc"}, "option.lock.type"), ({"location-in-properties": True}, "catalog.hive")):
        with pytest.raises(lk.Unsupported) as refused:
            lk.connect(tmp_path, metastore="hive", uri=hive[0], options=options).databases()
        assert refused.value.feature == feature
