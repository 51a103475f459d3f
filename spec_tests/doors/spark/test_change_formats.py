"""Change events of other systems as rows: every shape that the engine's parsers read, and those that they stop at."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as sf

from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.spark.pipeline.change_format import FORMATS, read_changes
from lakekit.spark.pipeline.change_schema import ChangeSchema, infer_types, to_rows
from lakekit.types import Field, parse
from spec_tests.doors.spark.change_events import canal, changes, debezium, dms, kinds, maxwell, ogg, problems, read_events, typed

pytestmark = pytest.mark.spark


# ---- messages --------------------------------------------------------------------------------------------------------

WRONG = [
    "",
    "  ",
    "{",
    '{"a": 1',
    '{"a": 1} x',
    '{"a": 1}{"a": 2}',
    '{"a": 1},{"a": 2}',
    '{"a": 1}] x',
    '{"a": 1, "a": 2}',
    "[" * 1200 + "]" * 1200,
    "nonsense",
]
NO_OBJECT = ["5", '"text"', "[]", '[{"a": 1}]', "null", "true"]


@pytest.mark.parametrize("dialect", sorted(FORMATS))
def test_a_message_that_is_no_json_or_no_object_has_a_problem_and_is_there(spark, dialect):
    rows = read_events(spark, [*WRONG, None, *NO_OBJECT], dialect)
    assert [row["position"] for row in rows] == list(range(len(WRONG) + 1 + len(NO_OBJECT)))
    assert all("kind" not in row and "row" not in row for row in rows)
    said = [row.get("problem") for row in rows]
    assert all(problem.startswith("no JSON: ") for problem in said[: len(WRONG)])
    assert said[len(WRONG)] is None, "a tombstone says nothing"
    assert said[len(WRONG) + 1 :] == ["no JSON object"] * len(NO_OBJECT)


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        ("debezium", "no op: it says which change this is"),
        ("canal", "no type: it says which change this is"),
        ("maxwell", "no type: it says which change this is"),
        ("ogg", "no op_type: it says which change this is"),
        ("dms", "no record-type in metadata: it says whether this is a row"),
    ],
)
def test_an_event_of_another_format_says_what_it_misses(spark, dialect, said):
    assert problems(spark, [{"id": 1}, {}], dialect) == [said, said]


def test_numbers_that_no_variant_holds_are_problems_unless_they_are_texts(spark):
    inexact = ["1" * 39, f"-{'9' * 30}.{'1' * 9}", "1e400", "-2.5E-400", "1.23456789012345678e5", "1e1000"]
    exact = ["9" * 38, f"{'1' * 30}.{'1' * 8}", "0.00000000000000000000000000000000000001", "1e308", "1.2345678901234567e-300", "5e-324"]
    texts = [json.dumps(text) for text in ("9" * 50, "1e400", '"' + "9" * 50, "\\" + "9" * 50, '\\"' + "9" * 50)]
    events = [f'{{"a": {number}, "b": "x"}}' for number in [*inexact, *exact, *texts]]
    said = problems(spark, events, "plain")
    assert [problem is not None for problem in said] == [True] * len(inexact) + [False] * (len(exact) + len(texts))
    assert said[0].startswith("a number of more digits than are kept")


def test_formats_and_options_are_refused_with_the_nearest(spark):
    frame = spark.createDataFrame([(1, "{}")], "position int, value string")
    with pytest.raises(InvalidOption, match=r"format 'debezum': .*did you mean 'debezium'"):
        read_changes(frame, "debezum")
    with pytest.raises(InvalidOption, match=r"option 'row-kinds' of format plain: .*did you mean 'row-kind'"):
        read_changes(frame, "plain", options={"row-kinds": "op"})
    with pytest.raises(InvalidOption, match=r"type-mapping 'to-strings': .*did you mean 'to-string'"):
        read_changes(frame, "canal", options={"type-mapping": "to-strings"})
    with pytest.raises(SchemaMismatch, match="no column value"):
        read_changes(frame.select("position"), "canal")
    with pytest.raises(SchemaMismatch, match="the columns kind, which the changes have"):
        read_changes(frame.withColumn("kind", sf.lit(1)), "canal")
    with pytest.raises(SchemaMismatch, match="column value is int"):
        read_changes(frame.select(sf.lit(1).alias("value")), "canal")
    with pytest.raises(SchemaMismatch, match="rows that have columns are format plain"):
        read_changes(frame.select(sf.struct("position").alias("value")), "canal")


def test_other_columns_are_passed_through_and_bytes_are_messages(spark):
    frame = spark.createDataFrame([("t", 3, 7, bytearray(b'{"a": "\xc3\xa9"}'))], "topic string, `part ition` int, offset long, value binary")
    (row,) = read_changes(frame, "plain").collect()
    assert (row["topic"], row["part ition"], row["offset"], row["value"], row["kind"]) == ("t", 3, 7, '{"a": "é"}', "+I")


# ---- plain -----------------------------------------------------------------------------------------------------------


def test_plain_rows_are_inserts_without_a_row_kind(spark):
    assert kinds(spark, [{"a": 1, "b": None}, {}], "plain") == [("+I", {"a": 1, "b": None}), ("+I", {})]


def test_plain_rows_have_the_kind_of_a_column(spark):
    texts = {"+I": ["+I", "insert", " c ", "R", False], "+U": ["+U", "update", "U"], "-U": ["-U"], "-D": ["-D", "delete", "d", True]}
    events = [{"op": said, "a": 1} for of in texts.values() for said in of]
    assert kinds(spark, events, "plain", row_kind="op") == [(kind, {"a": 1}) for kind, of in texts.items() for _ in of]
    assert problems(spark, [{"a": 1}, {"op": None}, {"op": "x"}], "plain", row_kind="op") == [
        "no column op: it says which change this is",
        "no column op: it says which change this is",
        "column op x is no change of a row that this format has",
    ]


def test_plain_rows_name_their_table_and_time(spark):
    events = [{"db": "d", "t t": "x", "at": "2024-03-31T10:00:00Z", "a": 1}, {"at": 5}]
    rows = read_events(spark, events, "plain", database="db", table="t t", time="at")
    assert [(row.get("source_database"), row.get("source_table"), row["ts_ms"]) for row in rows] == [("d", "x", 1711879200000), (None, None, 5)]
    assert rows[0]["row"] == events[0]


def test_plain_rows_of_columns_tell_their_types(spark):
    frame = spark.sql(
        "SELECT 1 AS position, struct(CAST(1 AS INT) AS a, CAST(1.50 AS DECIMAL(10, 2)) AS b, X'ff' AS c, DATE '2024-01-02' AS d, '-D' AS op) AS value"
    )
    made = read_changes(frame, "plain", options={"row-kind": "op"})
    (row,) = made.select("kind", "types", "value", sf.to_json("row").alias("row")).collect()
    assert (row["kind"], row["types"]) == ("-D", {"a": "INT", "b": "DECIMAL(10, 2)", "c": "BYTES", "d": "DATE"})
    fields = [Field(name, parse(t)) for name, t in row["types"].items()]
    assert tuple(to_rows(made, fields).first()["row"]) == (1, Decimal("1.50"), bytearray(b"\xff"), date(2024, 1, 2))


# ---- Debezium --------------------------------------------------------------------------------------------------------


def test_debezium_events_of_every_kind(spark):
    old, new = {"id": 1, "n": "a", "x": None}, {"id": 1, "n": "b", "x": 2}
    events = [
        debezium("c", None, old),
        debezium("r", None, old),
        debezium("u", old, new),
        debezium("u", None, new),
        debezium("u", {"id": 1}, {"id": 7, "n": "a"}),
        debezium("d", new, None),
        None,
        debezium("m"),
    ]
    assert kinds(spark, events, "debezium") == [
        ("+I", old),
        ("+I", old),
        ("-D", old),
        ("+I", new),
        ("+U", new),
        ("-D", {"id": 1, "n": "a"}),
        ("+I", {"id": 7, "n": "a"}),
        ("-D", new),
        (None, None),
        (None, None),
    ]
    row = read_events(spark, events[2:3], "debezium")[1]
    assert (row["step"], row["source_database"], row["source_table"], row["ts_ms"]) == (1, "shop", "orders", 1700000000123)


def test_half_events_of_debezium_say_what_they_miss(spark):
    events = [debezium("c"), debezium("u", {"id": 1}), debezium("d", None, {"id": 1}), debezium("t"), debezium("c", None, [1]), {"schema": {}, "op": "c"}]
    assert problems(spark, events, "debezium") == [
        "no row after the change, where op is c",
        "no row after the change, where op is u",
        "no row before the change, where op is d",
        "op t is no change of a row that this format has",
        "no row after the change, where op is c",
        "no JSON object",
    ]


def test_ddl_of_debezium_is_told(spark):
    event = {"source": {"db": "shop"}, "databaseName": "shop", "ddl": "ALTER TABLE orders ADD n INT", "tableChanges": []}
    assert read_events(spark, [event], "debezium") == [{"position": 0, "step": 0, "source_database": "shop", "ddl": "ALTER TABLE orders ADD n INT"}]


def test_keys_of_debezium_come_from_the_key_of_the_message(spark):
    event = debezium("c", None, {"a": 1, "b": 2})
    assert read_events(spark, [event], "debezium", key='{"b": 2, "a": 1}')[0]["primary_keys"] == ["b", "a"]
    assert read_events(spark, [event], "debezium", key='{"schema": {"fields": []}, "payload": {"b": 2}}')[0]["primary_keys"] == ["b"]
    assert "primary_keys" not in read_events(spark, [event], "debezium", key="text")[0]
    assert read_events(spark, [{**event, "pkNames": ["a"]}], "debezium")[0]["primary_keys"] == ["a"]


CONNECT = "org.apache.kafka.connect.data"
SCHEMA = [
    ("id", "int64", None, {}, 7, "BIGINT", 7),
    ("tiny", "int8", None, {}, 1, "TINYINT", 1),
    ("small", "int16", None, {}, 2, "SMALLINT", 2),
    ("n", "int32", None, {}, 3, "INT", 3),
    ("f", "float", None, {}, 1.5, "FLOAT", 1.5),
    ("x", "double", None, {}, 0.1, "DOUBLE", 0.1),
    ("ok", "boolean", None, {}, True, "BOOLEAN", True),
    ("raw", "bytes", None, {}, "/wA=", "BYTES", bytearray(b"\xff\x00")),
    ("bits", "bytes", "io.debezium.data.Bits", {"length": "16"}, "AQI=", "BINARY(2)", bytearray(b"\x02\x01")),
    (
        "price",
        "bytes",
        f"{CONNECT}.Decimal",
        {"scale": "2", "connect.decimal.precision": "20"},
        Decimal("123456789012345678.25"),
        "DECIMAL(20, 2)",
        Decimal("123456789012345678.25"),
    ),
    ("big", "bytes", f"{CONNECT}.Decimal", {"scale": "0"}, 18446744073709551615, "DECIMAL(20, 0)", Decimal(18446744073709551615)),
    (
        "huge",
        "bytes",
        f"{CONNECT}.Decimal",
        {"scale": "3", "connect.decimal.precision": "40"},
        Decimal("123456789876543212345678987654321.110"),
        "STRING",
        "123456789876543212345678987654321.11",
    ),
    ("day", "int32", "io.debezium.time.Date", {}, 19813, "DATE", date(2024, 3, 31)),
    ("early", "int32", "io.debezium.time.Date", {}, -1, "DATE", date(1969, 12, 31)),
    ("at", "int64", "io.debezium.time.Timestamp", {}, 1711879200123, "TIMESTAMP(3)", datetime.fromisoformat("2024-03-31T10:00:00.123")),
    ("micro", "int64", "io.debezium.time.MicroTimestamp", {}, 1711879200123456, "TIMESTAMP(6)", datetime.fromisoformat("2024-03-31T10:00:00.123456")),
    ("before_1970", "int64", "io.debezium.time.MicroTimestamp", {}, -1, "TIMESTAMP(6)", datetime.fromisoformat("1969-12-31T23:59:59.999999")),
    ("zoned", "string", "io.debezium.time.ZonedTimestamp", {}, "2024-03-31T12:00:00+02:00", "TIMESTAMP(6)", datetime.fromisoformat("2024-03-31T10:00:00")),
    ("time", "int64", "io.debezium.time.MicroTime", {}, 36_793_500_000, "TIME(3)", 36_793_500),
    ("year", "int32", "io.debezium.time.Year", {}, 2024, "INT", 2024),
    ("text", "string", None, {}, "é'\"\\", "STRING", "é'\"\\"),
    ("doc", "string", "io.debezium.data.Json", {}, '{"a": 1}', "STRING", '{"a": 1}'),
    ("kind", "string", "io.debezium.data.Enum", {"allowed": "a,b"}, "b", "STRING", "b"),
    ("list", "array", None, {}, [1, None], "STRING", "[1,null]"),
    ("none", "int32", None, {}, None, "INT", None),
]


def with_schema(event, fields=SCHEMA, sides=("before", "after")):
    described = [
        {"field": name, "type": t, "optional": True, **({"name": of} if of else {}), **({"parameters": parameters} if parameters else {})}
        for name, t, of, parameters, *_ in fields
    ]
    schema = {"type": "struct", "fields": [*({"type": "struct", "fields": described, "field": side} for side in sides), {"type": "string", "field": "op"}]}
    numbers = {field[0]: field[4] for field in fields if isinstance(field[4], Decimal)}
    made = json.dumps({"schema": schema, "payload": event}, default=lambda value: f"<{value}>")
    for value in numbers.values():
        made = made.replace(f'"<{value}>"', str(value))
    return made


def test_debezium_events_with_a_schema_have_its_types_and_values(spark):
    row = {field[0]: field[4] for field in SCHEMA}
    columns = {field[0]: field[5] for field in SCHEMA}
    event = with_schema(debezium("c", None, row))
    assert read_events(spark, [event], "debezium")[0]["types"] == columns
    assert typed(spark, [event], "debezium", columns) == [tuple(field[6] for field in SCHEMA)]
    assert infer_types(changes(spark, [event], "debezium")) == {("shop", "orders"): ChangeSchema(columns, ())}
    assert list(infer_types(changes(spark, [event], "debezium"))["shop", "orders"].columns) == list(columns)
    strings = read_events(spark, [event], "debezium", type_mapping="to-string")[0]["types"]
    assert strings == dict.fromkeys(columns, "STRING")


def test_a_schema_of_debezium_may_be_null_told_by_one_side_or_wrong(spark):
    event = debezium("c", None, {"id": 7})
    assert read_events(spark, [{"schema": None, "payload": event}], "debezium")[0]["row"] == {"id": 7}
    assert read_events(spark, [with_schema(event, SCHEMA[:1], ["before"])], "debezium")[0]["types"] == {"id": "BIGINT"}
    twice = with_schema(event, [SCHEMA[0], SCHEMA[0]])
    assert problems(spark, [twice, {"schema": {"fields": []}, "payload": event}], "debezium") == ["a schema that does not tell the columns of the row"] * 2


def test_values_that_are_not_of_their_debezium_type_are_problems_of_the_row(spark):
    fields = {field[0]: field for field in SCHEMA}
    wrong = [("raw", "%%", "BYTES"), ("day", "monday", "DATE"), ("at", "soon", "TIMESTAMP(3)"), ("price", "MTIz", "DECIMAL(20, 2)"), ("tiny", 300, "TINYINT")]
    for name, value, t in wrong:
        event = with_schema(debezium("c", None, {name: value}), [fields[name]])
        (said,) = typed(spark, [event], "debezium", {name: t})
        assert said.startswith(f"column {name}: "), said
        assert said.endswith(f" does not fit {parse(t)}"), said


# ---- Canal -----------------------------------------------------------------------------------------------------------


def test_canal_events_of_every_kind(spark):
    types = {"id": "int(11)", "n": "varchar(10)", "x": "int"}
    one, two = {"id": "1", "n": "a", "x": None}, {"id": "2", "n": "b", "x": "5"}
    events = [
        canal("INSERT", [one, two], types=types),
        canal("ROW", [one]),
        canal("UPDATE", [one, two], [{"n": "old"}, {"id": "7", "x": None}], types),
        canal("UPDATE", [one]),
        canal("UPDATE", [one, one], [{"n": "old"}]),
        canal("DELETE", [one, two], types=types),
        canal("INSERT", []),
    ]
    assert kinds(spark, events, "canal") == [
        ("+I", one),
        ("+I", two),
        ("+I", one),
        ("-D", {**one, "n": "old"}),
        ("+I", one),
        ("-D", {**two, "id": "7", "x": None}),
        ("+I", two),
        ("+U", one),
        ("-D", {**one, "n": "old"}),
        ("+I", one),
        ("+U", one),
        ("-D", one),
        ("-D", two),
        (None, None),
    ]
    row = read_events(spark, events[2:3], "canal")[3]
    assert row["types"] == {"id": "INT", "n": "VARCHAR(10)", "x": "INT"}
    assert (row["step"], row["source_database"], row["source_table"], row["primary_keys"], row["ts_ms"]) == (3, "shop", "orders", ["id"], 1700000000123)


def test_half_events_of_canal_say_what_they_miss(spark):
    events = [canal("INSERT", None), canal("INSERT", {"id": "1"}), canal("INSERT", [{"id": "1"}, 5]), canal("INSERT", [None]), canal("QUERY", [{"id": 1}])]
    assert problems(spark, events, "canal") == ["data is no array of rows"] * 4 + ["type QUERY is no change of a row that this format has"]


def test_ddl_of_canal_is_told_and_an_incomplete_event_is_a_row(spark):
    ddl = canal("ALTER", None, isDdl=True, sql="ALTER TABLE orders ADD n INT", pkNames=None)
    assert read_events(spark, [ddl], "canal") == [
        {"position": 0, "step": 0, "source_database": "shop", "source_table": "orders", "ddl": "ALTER TABLE orders ADD n INT", "ts_ms": 1700000000123}
    ]
    assert read_events(spark, [{"data": [{"k": "1"}], "type": "INSERT"}], "canal") == [{"position": 0, "step": 0, "kind": "+I", "row": {"k": "1"}}]


MYSQL = {
    "tinyint(1)": "BOOLEAN",
    "bit(1)": "BOOLEAN",
    "bit": "BOOLEAN",
    "bit(64)": "BINARY(8)",
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "tinyint(4)": "TINYINT",
    "tinyint(2) unsigned": "SMALLINT",
    "tinyint unsigned zerofill": "SMALLINT",
    "smallint(6)": "SMALLINT",
    "smallint unsigned": "INT",
    "mediumint": "INT",
    "mediumint(8) unsigned": "BIGINT",
    "INT": "INT",
    "int(10) unsigned zerofill": "BIGINT",
    "integer": "INT",
    "year": "INT",
    "bigint(20)": "BIGINT",
    "BIGINT UNSIGNED": "DECIMAL(20, 0)",
    "bigint(20) unsigned zerofill": "DECIMAL(20, 0)",
    "serial": "DECIMAL(20, 0)",
    "float": "FLOAT",
    "float(7,4) unsigned": "FLOAT",
    "double": "DOUBLE",
    "real": "DOUBLE",
    "double precision unsigned zerofill": "DOUBLE",
    "decimal": "DECIMAL(38, 18)",
    "decimal(10,2)": "DECIMAL(10, 2)",
    "decimal(8) unsigned": "DECIMAL(8, 0)",
    "numeric( 8 , 3 )": "DECIMAL(8, 3)",
    "fixed(40,3)": "STRING",
    "date": "DATE",
    "time": "TIME(0)",
    "datetime": "TIMESTAMP(0)",
    "datetime(3)": "TIMESTAMP(3)",
    "timestamp(6)": "TIMESTAMP(6)",
    "datetime(23)": "TIMESTAMP(3)",
    "datetime(19)": "TIMESTAMP(0)",
    "char(10)": "CHAR(10)",
    "varchar(20)": "VARCHAR(20)",
    "varchar": "STRING",
    "tinytext": "STRING",
    "longtext": "STRING",
    "json": "STRING",
    "binary(10)": "VARBINARY(10)",
    "varbinary(20)": "VARBINARY(20)",
    "longblob": "BYTES",
    "enum('a','b')": "STRING",
    "set('a','b')": "ARRAY<STRING>",
    "geometry": "STRING",
    "multipolygon": "STRING",
}


def test_types_of_mysql(spark):
    event = canal("INSERT", [dict.fromkeys(MYSQL)], types={t: t for t in MYSQL})
    assert read_events(spark, [event], "canal")[0]["types"] == MYSQL
    assert all(str(parse(t)) == str(parse(str(parse(t)))) for t in MYSQL.values())
    mapped = {
        "tinyint1-not-bool": {"tinyint(1)": "TINYINT"},
        "char-to-string": {"char(10)": "STRING", "varchar(20)": "STRING"},
        "longtext-to-bytes": {"longtext": "BYTES"},
        "bigint-unsigned-to-bigint": {"BIGINT UNSIGNED": "BIGINT", "bigint(20) unsigned zerofill": "BIGINT", "serial": "BIGINT"},
        "to-nullable": {},
        "to-string": dict.fromkeys(MYSQL, "STRING"),
    }
    for mode, changed in mapped.items():
        assert read_events(spark, [event], "canal", type_mapping=mode)[0]["types"] == {**MYSQL, **changed}, mode
    assert read_events(spark, [canal("INSERT", [{"a": None}], types={"a": "whatever"})], "canal")[0]["types"] == {}


def test_enums_and_sets_of_canal_have_names(spark):
    types = {"e": "enum('a','b''c',\"d\")", "s": "set('x','y, z','w')", "id": "int"}
    rows = [
        {"e": "2", "s": "3", "id": "1"},
        {"e": "1", "s": "0", "id": "2"},
        {"e": None, "s": None, "id": "3"},
        {"e": "a", "s": "x", "id": "4"},
        {"e": "9", "s": "99", "id": "5"},
    ]
    assert [row for _, row in kinds(spark, [canal("INSERT", rows, types=types)], "canal")] == [
        {"e": "b'c", "s": ["x", "y, z"], "id": "1"},
        {"e": "a", "s": [], "id": "2"},
        {"e": None, "s": None, "id": "3"},
        {"e": "a", "s": "x", "id": "4"},
        {"e": "9", "s": "99", "id": "5"},
    ]
    assert typed(spark, [canal("INSERT", rows[:1], types=types)], "canal", {"e": "STRING", "s": "ARRAY<STRING>"}) == [("b'c", ["x", "y, z"])]


def test_values_of_canal_are_cast_by_their_types(spark):
    row = {
        "b": "1",
        "t": "-128",
        "d": "12345.110",
        "day": "2023-03-23",
        "at": "2023-03-23 14:30:05.123",
        "tm": "10:13:23",
        "c": "Paimon",
        "raw": "bytes",
        "f": "1.5",
        "x": "1.000011",
    }
    types = {
        "b": "tinyint(1)",
        "t": "tinyint(4)",
        "d": "decimal(8,3)",
        "day": "date",
        "at": "datetime(3)",
        "tm": "time",
        "c": "char(10)",
        "raw": "varbinary(20)",
        "f": "float",
        "x": "double",
    }
    event = canal("INSERT", [row], types=types)
    columns = infer_types(changes(spark, [event], "canal"))["shop", "orders"]
    assert columns.primary_keys == ("id",)
    assert list(columns.columns) == list(row)
    assert typed(spark, [event], "canal", columns.columns) == [
        (
            True,
            -128,
            Decimal("12345.110"),
            date(2023, 3, 23),
            datetime.fromisoformat("2023-03-23T14:30:05.123"),
            36_803_000,
            "Paimon",
            bytearray(b"bytes"),
            1.5,
            1.000011,
        )
    ]


# ---- Maxwell, OGG, DMS -----------------------------------------------------------------------------------------------


def test_maxwell_events_of_every_kind(spark):
    row = {"id": 1, "n": "a", "w": None}
    events = [
        maxwell("insert", row),
        maxwell("bootstrap-start", {}),
        maxwell("bootstrap-insert", row),
        maxwell("bootstrap-complete"),
        maxwell("update", row, {"n": "old", "w": 1.5}),
        maxwell("update", row),
        maxwell("delete", row),
    ]
    assert kinds(spark, events, "maxwell") == [
        ("+I", row),
        (None, None),
        ("+I", row),
        (None, None),
        ("-D", {"id": 1, "n": "old", "w": Decimal("1.5")}),
        ("+I", row),
        ("+U", row),
        ("-D", row),
    ]
    first = read_events(spark, events[:1], "maxwell")[0]
    assert (first["source_database"], first["source_table"], first["primary_keys"], first["ts_ms"]) == ("shop", "orders", ["id"], 1700000000000)
    assert problems(spark, [maxwell("insert"), maxwell("delete", 5), maxwell("control", row)], "maxwell") == [
        "no row in data, where type is insert",
        "no row in data, where type is delete",
        "type control is no change of a row that this format has",
    ]
    ddl = maxwell("table-alter", sql="ALTER TABLE orders ADD w DOUBLE")
    assert [(row.get("ddl"), row.get("problem"), row.get("kind")) for row in read_events(spark, [ddl, maxwell("table-drop")], "maxwell")] == [
        ("ALTER TABLE orders ADD w DOUBLE", None, None),
        ("table-drop", None, None),
    ]


def test_ogg_events_of_every_kind(spark):
    old, new = {"id": 1, "n": "a"}, {"id": 1, "n": "b"}
    events = [ogg("I", None, new), ogg("U", old, new), ogg("U", None, new), ogg("U", {"id": 9}, new), ogg("D", old)]
    assert kinds(spark, events, "ogg") == [("+I", new), ("-D", old), ("+I", new), ("+U", new), ("-D", {"id": 9, "n": "b"}), ("+I", new), ("-D", old)]
    tables = read_events(spark, [ogg("D", old), ogg("D", old, table="PDB.HR.EMP"), ogg("D", old, table="EMP"), ogg("D", old, table=None)], "ogg")
    assert [(row.get("source_database"), row.get("source_table")) for row in tables] == [("SHOP", "ORDERS"), ("PDB", "HR.EMP"), (None, "EMP"), (None, None)]
    assert (tables[0]["primary_keys"], tables[0]["ts_ms"]) == (["id"], 1589391130904)
    assert problems(spark, [ogg("I", new), ogg("U", old), ogg("D", None, new), ogg("T")], "ogg") == [
        "no row after the change, where op_type is I",
        "no row after the change, where op_type is U",
        "no row before the change, where op_type is D",
        "op_type T is no change of a row that this format has",
    ]


def test_dms_events_of_every_kind(spark):
    row = {"id": 1, "n": "a"}
    events = [
        dms("load", row),
        dms("insert", row),
        dms("update", {**row, "BI_id": 1, "BI_n": "old"}),
        dms("update", row),
        dms("delete", row),
        dms("insert", {"BI_x": 1}),
    ]
    assert kinds(spark, events, "dms") == [("+I", row), ("+I", row), ("-D", {"id": 1, "n": "old"}), ("+I", row), ("+U", row), ("-D", row), ("+I", {"BI_x": 1})]
    assert read_events(spark, [dms("create-table", {"a": 1}, "control")], "dms") == [
        {"position": 0, "step": 0, "source_database": "shop", "source_table": "orders", "ddl": "create-table", "ts_ms": 1730032743210}
    ]
    assert problems(spark, [dms("insert"), dms("commit", row), dms(None, row), {"data": row}], "dms") == [
        "no row in data, where operation is insert",
        "operation commit is no change of a row that this format has",
        "no operation: it says which change this is",
        "no record-type in metadata: it says whether this is a row",
    ]
