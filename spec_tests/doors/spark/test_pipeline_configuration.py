"""The configuration of a pipeline, its computed columns and the growth of its tables, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import lakekit as lk
from lakekit.errors import Conflict, InvalidOption, SchemaMismatch, Unsupported
from lakekit.read.table_scan import context_of
from lakekit.spark.pipeline.computed_column import parse_computed_column
from lakekit.spark.pipeline.configuration import GrowthConfiguration, find_line, parse_configuration, read_configuration
from lakekit.spark.pipeline.pipeline_state import open_state, status
from lakekit.spark.pipeline.schema_growth import create_table, grow_table, plan_growth, widen_type
from lakekit.types import DataType, parse

HEAD = '[pipeline]\nuser = "orders"\nwarehouse = "lake"\ncheckpoint = "at"\n'
SOURCE = '[source]\npath = "landing"\n'
FULL = (
    HEAD
    + 'database = "shop"\n'
    + SOURCE
    + """format = "debezium"
files_per_batch = 7
options = { recursiveFileLookup = true, maxFileAge = "7d" }

[catalog]
metastore = "jdbc"
uri = "sqlite:///catalog.db"
options = { "jdbc.password" = "${WORD}" }

[routing]
include = "shop\\\\..*"
prefix = "ods_"

[defaults]
primary_keys = "id"
options = { bucket = 2 }

[[table]]
name = "orders"
source = ["shop\\\\.orders_[0-9]+"]
partition_keys = ["day"]
computed = { day = "date_format(at, yyyy-MM-dd)" }
rename = { "a b" = "ab" }

[growth]
on_problem = "stop"

[care]
expire_every = 5
"""
)


def test_a_configuration_is_read_with_its_defaults():
    made = parse_configuration(FULL, environment={"WORD": "xyzzy"})
    assert (made.user, made.warehouse, made.database, made.checkpoint) == ("orders", "lake", "shop", "at")
    assert (made.source.kind, made.source.format, made.source.files_per_batch) == ("files", "debezium", 7)
    assert dict(made.source.options) == {"recursiveFileLookup": "true", "maxFileAge": "7d"}
    orders = made.table("orders")
    assert orders.primary_keys == ("id",), "from [defaults]"
    assert dict(orders.options) == {"bucket": "2"}
    assert orders.rename == {"a b": "ab"}
    assert [column.function for column in orders.computed_columns()] == ["date_format"]
    other = made.table("ods_items")
    assert (other.name, other.primary_keys, other.partition_keys) == ("ods_items", ("id",), ())
    assert made.growth.on_problem == "stop"
    assert made.care.compact_every == 0


def test_no_password_is_shown_and_the_environment_fills_in():
    made = parse_configuration(FULL, environment={"WORD": "xyzzy"})
    assert made.catalog.options["jdbc.password"] == "xyzzy"
    assert "xyzzy" not in repr(made)
    with pytest.raises(InvalidOption, match="asks for the environment's WORD, which is not set") as raised:
        parse_configuration(FULL, environment={})
    assert "line 15" in str(raised.value)


def test_paths_start_from_the_folder_of_the_file(tmp_path):
    (tmp_path / "a.toml").write_text(HEAD.replace("lake", "s3://lake/x") + SOURCE)
    made = read_configuration(tmp_path / "a.toml")
    assert (made.warehouse, made.checkpoint, made.source.path) == ("s3://lake/x", str(tmp_path / "at"), str(tmp_path / "landing"))
    with pytest.raises(InvalidOption, match="cannot be read"):
        read_configuration(tmp_path / "b.toml")


WRONG = {
    "x = [": "is no TOML",
    "[pipeline]\nuser = 'a'\nwarehose = 'b'\n": r"line 3: \[pipeline\] has no 'warehose'; did you mean 'warehouse'\?",
    "[pipelin]\n": r"line 1: there is no section 'pipelin'; did you mean 'pipeline'\?",
    "[pipeline]\nuser = 'a'\n": r"lacks warehouse: where the tables are",
    HEAD + "[source]\npath = 'p'\nformat = 'debezum'\n": r"line 7: format is 'debezum'; did you mean 'debezium'\?",
    HEAD + "[source]\npath = 'p'\nkind = 'zzz'\n": r"line 7: kind is 'zzz'; there are files, paimon, stream",
    HEAD + "[source]\nkind = 'files'\n": "needs path",
    HEAD + "[source]\nkind = 'paimon'\npath = 'p'\nformat = 'canal'\n": "line 8: a Paimon table has rows",
    HEAD + "[source]\nkind = 'stream'\nformat = 'csv'\n": "is of files",
    HEAD + "[source]\npath = 'p'\nformat = 'canal'\nrow_kind = 'op'\n": "canal tells kinds itself",
    HEAD + SOURCE + "files_per_batch = 0\n": "one is the least",
    HEAD + SOURCE + "files_per_batch = true\n": "takes a whole number",
    HEAD + SOURCE + "options = 'a'\n": "takes names and values",
    HEAD + SOURCE + "order = 3\n": "takes texts in a list",
    HEAD + SOURCE + "[[source]]\n": "is no TOML",
    HEAD + "source = 'x'\n": r"\[pipeline\] has no 'source'",
    HEAD.replace("orders", "a/b") + SOURCE: "line 2: user is 'a/b'",
    HEAD + SOURCE + "[routing]\nby = 'a'\ntable = 'b'\n": "give one",
    HEAD + SOURCE + "[routing]\ninclude = '('\n": "line 8: include is '\\(', which is no regular expression",
    HEAD + SOURCE + "[growth]\non_problem = 'stopp'\n": r"did you mean 'stop'\?",
    HEAD + SOURCE + "[growth]\nadd_columns = 'yes'\n": "takes true or false",
    HEAD + SOURCE + "[care]\nretain_snapshots = 2\n": "10 is the least",
    HEAD + SOURCE + "[[table]]\nprimary_keys = ['a']\n": "lacks name",
    HEAD + SOURCE + "[[table]]\nname = 'a'\n[[table]]\nname = 'a'\n": "is there twice",
    HEAD + SOURCE + "[table]\nname = 'a'\n": r"written as \[\[table\]\]",
    HEAD + SOURCE + "[[table]]\nname = 'a'\nkeys = ['a']\n": r"line 9: \[table\] has no 'keys'; did you mean 'primary_keys'",
    HEAD + SOURCE + "[[table]]\nname = 'a'\ncomputed = { y = 'yeer(at)' }\n": r"line 9: y = 'yeer\(at\)': .*did you mean year\?",
    HEAD + SOURCE + "[[table]]\nname = 'a'\ncolumns = { n = 'INTT' }\n": "line 9: column n: ",
    HEAD + SOURCE + "[[table]]\nname = 'a'\nmetadata = { n = 'op_tz' }\n": r"did you mean 'op_ts'\?",
    HEAD + SOURCE + "[[table]]\nname = 'a'\ncolumns = { n = 'INT' }\ncomputed = { n = 'now()' }\n": "'n' is made twice",
    HEAD + SOURCE + "[[table]]\nname = 'a'\nrename = { a = 'c', b = 'c' }\n": "renamed to one name",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_its_line(text):
    with pytest.raises(InvalidOption, match=WRONG[text]):
        parse_configuration(text, name="a.toml")


def test_kafka_is_refused_by_name():
    with pytest.raises(Unsupported, match='kind = "stream"') as raised:
        parse_configuration(HEAD + "[source]\nkind = 'kafka'\n")
    assert raised.value.feature == "spark.pipeline.kafka"
    assert any(name == "spark.pipeline.kafka" for name in lk.features()["feature"])


def test_a_line_is_found_by_section():
    text = '[a]\nname = 1 # b\n[[t]]\n"name" = 2\nx = { b = 3 }\n'
    assert [find_line(text, ("a",), "name"), find_line(text, ("t",), "name"), find_line(text, ("t",), "b")] == [2, 4, 5]
    assert find_line(text, (), "zz") is None


# ---- computed columns


TYPES = {"at": parse("TIMESTAMP(3)"), "ms": parse("BIGINT"), "s": parse("STRING"), "n": parse("INT"), "d": parse("DECIMAL(10, 2)")}


@pytest.mark.parametrize(
    ("text", "result", "expression"),
    [
        ("year(at)", "INT", "CAST(year(CAST(`at` AS TIMESTAMP_NTZ)) AS INT)"),
        ("HOUR( ms , 3 )", "INT", "* 1000"),
        ("date_format(s, 'yyyy, MM')", "STRING", "'yyyy, MM'"),
        ("substring(s, 1, 3)", "STRING", "substring(CAST(`s` AS STRING), 2, 2)"),
        ("substring(s, 1)", "STRING", "substring(CAST(`s` AS STRING), 2)"),
        ("truncate(n, 10)", "INT", "`n` - pmod(`n`, 10)"),
        ("truncate(d, 10)", "DECIMAL(10, 2)", "10E-2BD"),
        ("truncate(s, 2)", "STRING", "left(`s`, 2)"),
        ("cast(its, STRING)", "STRING", "'its'"),
        ("cast(7, INT)", "INT", "'7'"),
        ("upper(s)", "STRING", "upper(CAST(`s` AS STRING))"),
        ("now()", "TIMESTAMP_LTZ(3)", "current_timestamp()"),
    ],
)
def test_computed_columns(text, result, expression):
    column = parse_computed_column("c", text)
    assert column.result_type(TYPES) == parse(result)
    assert expression in column.to_sql(TYPES)


@pytest.mark.parametrize(
    "text",
    [
        "at",
        "yeer(at)",
        "year()",
        "year(at, 4)",
        "substring(s, x)",
        "substring(s, 3, 3)",
        "truncate(n, 0)",
        "cast(1, NOPE)",
        "cast(1, ARRAY<INT>)",
        "now(1)",
        "upper('a', b",
        "date_format(s, 'a'b)",
    ],
)
def test_computed_columns_that_are_none(text):
    with pytest.raises(InvalidOption):
        parse_computed_column("c", text)


def test_a_computed_column_of_a_column_that_is_not_there():
    for text in ("year(att)", "truncate(zz, 1)"):
        with pytest.raises(SchemaMismatch):
            parse_computed_column("c", text).to_sql(TYPES)
    for text in ("year(d)", "truncate(at, 1)"):
        with pytest.raises(SchemaMismatch):
            parse_computed_column("c", text).to_sql(TYPES)


# ---- growth


WIDER = {
    ("INT", "BIGINT"): "BIGINT",
    ("BIGINT", "INT"): "BIGINT",
    ("FLOAT", "DOUBLE"): "DOUBLE",
    ("INT", "DOUBLE"): "DOUBLE",
    ("DOUBLE", "BIGINT"): "DOUBLE",
    ("BIGINT", "DOUBLE"): None,
    ("INT", "STRING"): None,
    ("STRING", "INT"): None,
    ("BOOLEAN", "INT"): None,
    ("DATE", "TIMESTAMP(3)"): None,
    ("DECIMAL(10, 2)", "DECIMAL(8, 4)"): "DECIMAL(12, 4)",
    ("DECIMAL(38, 2)", "DECIMAL(8, 4)"): None,
    ("INT", "DECIMAL(5, 2)"): "DECIMAL(12, 2)",
    ("VARCHAR(5)", "STRING"): "STRING",
    ("STRING", "VARCHAR(5)"): "STRING",
    ("CHAR(5)", "CHAR(3)"): "CHAR(5)",
    ("CHAR(5)", "VARCHAR(3)"): "VARCHAR(5)",
    ("VARBINARY(5)", "BYTES"): "BYTES",
    ("TIMESTAMP(3)", "TIMESTAMP(6)"): "TIMESTAMP(6)",
    ("ARRAY<INT>", "ARRAY<BIGINT>"): "ARRAY<BIGINT>",
    ("MAP<STRING, INT>", "MAP<STRING, BIGINT>"): "MAP<STRING, BIGINT>",
    ("MAP<STRING, INT>", "MAP<INT, INT>"): None,
    ("ROW<a INT>", "ROW<a BIGINT, b STRING>"): "ROW<`a` BIGINT, `b` STRING>",
    ("ROW<a INT>", "ROW<a STRING>"): None,
}


@pytest.mark.parametrize("pair", WIDER, ids=str)
def test_types_that_widen(pair):
    found = widen_type(parse(pair[0]), parse(pair[1]))
    assert (None if found is None else str(found)) == (None if WIDER[pair] is None else str(parse(WIDER[pair])))


SCALARS = st.sampled_from(
    [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"),
        *("STRING", "VARCHAR(9)", "CHAR(4)", "CHAR(9)", "BYTES", "BINARY(3)", "VARBINARY(9)", "VARIANT"),
        *("DECIMAL(5, 2)", "DECIMAL(20, 0)", "DECIMAL(38, 18)", "DECIMAL(10, 9)"),
    ]
).map(parse)
DRAWN = st.one_of(
    SCALARS,
    SCALARS.map(lambda t: DataType(root="ARRAY", element=t)),
    st.dictionaries(st.sampled_from("abc"), SCALARS, min_size=1).map(
        lambda fields: DataType(root="ROW", fields=tuple(lk.Field(name, t) for name, t in fields.items()))
    ),
)


@given(DRAWN, DRAWN)
def test_a_type_that_came_twice_changes_nothing_the_second_time(a, b):
    assert widen_type(a, a) == a
    wider = widen_type(a, b)
    if wider is not None:
        assert widen_type(wider, b) == wider, "a batch that is done again finds the same table"
        assert widen_type(wider, a) == wider
        assert wider.nullable == a.nullable


@pytest.fixture
def catalog(tmp_path):
    made = lk.connect(tmp_path)
    made.create_database("shop")
    return made


def table_of(**words):
    text = HEAD + SOURCE + "[[table]]\nname = 't'\n"
    return replace(parse_configuration(text).table("t"), **words)


GROW = GrowthConfiguration()


def test_a_table_is_made_and_grows(catalog):
    types = {"n": parse("INT"), "id": parse("BIGINT"), "s": parse("STRING")}
    t = create_table(catalog, "shop.t", types, table_of(options={"bucket": "1"}), ("id",))
    assert [str(f.type) for f in t.schema.fields] == ["BIGINT NOT NULL", "INT", "STRING"]
    t.upsert([{"id": 1, "n": 2, "s": "a"}])
    grown = grow_table(t, {"n": parse("BIGINT"), "id": parse("STRING"), "s": parse("INT"), "a.b": parse("ROW<x INT>")}, GROW)
    assert (set(grown.added), set(grown.widened), set(grown.misfits)) == ({"a.b"}, {"n"}, {"id", "s"})
    t.upsert([{"id": 2, "n": 2**40, "s": "b", "a.b": {"x": 1}}])
    grow_table(t, {"a.b": parse("ROW<x BIGINT, y STRING>")}, GROW)
    t.upsert([{"id": 3, "n": 1, "s": "c", "a.b": {"x": 2**40, "y": "z"}}])
    assert t.scan().collect().sort("id")["n"].to_list() == [2, 2**40, 1]
    assert t.scan().collect().sort("id")["a.b"].to_list() == [None, {"x": 1, "y": None}, {"x": 2**40, "y": "z"}]


def test_key_columns_keep_their_types_and_growth_can_be_off(catalog):
    types = {"id": parse("INT"), "p": parse("INT"), "n": parse("INT")}
    t = create_table(catalog, "shop.t", types, table_of(partition_keys=("p",), options={"bucket": "1"}), ("p", "id"))
    wide = {name: parse("BIGINT") for name in types} | {"new": parse("INT")}
    assert set(plan_growth(context_of(t).schema, wide, GROW).widened) == {"n"}
    off = plan_growth(context_of(t).schema, wide, GrowthConfiguration(add_columns=False, widen_types=False))
    assert (off.added, off.widened) == ({}, {})
    with pytest.raises(SchemaMismatch, match="differ by case alone"):
        plan_growth(context_of(t).schema, {"N": parse("INT")}, GROW)
    with pytest.raises(SchemaMismatch, match="no message has such a column"):
        create_table(catalog, "shop.u", types, table_of(), ("nope",))


# ---- the state


def configured(root, **words):
    made = parse_configuration(HEAD + SOURCE)
    return replace(made, warehouse=str(root / "lake"), checkpoint=str(root / "at"), **words)


def test_two_pipelines_with_one_user(tmp_path):
    with open_state(configured(tmp_path)), pytest.raises(Conflict, match="is running"), open_state(configured(tmp_path)):
        pass
    other = replace(configured(tmp_path), user="another", checkpoint=str(tmp_path / "other"))
    with open_state(configured(tmp_path)) as first, open_state(other) as second:
        assert first.commit_user.startswith("orders-")
        assert second.commit_user.startswith("another-")
    with open_state(configured(tmp_path)) as again:
        assert again.commit_user == first.commit_user


def test_a_checkpoint_of_something_else(tmp_path):
    with open_state(configured(tmp_path)):
        pass
    with pytest.raises(InvalidOption, match="whose database is 'default', and here it is 'shop'"), open_state(configured(tmp_path, database="shop")):
        pass
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "metadata").write_text("{}")
    foreign = replace(configured(tmp_path), checkpoint=str(tmp_path / "spark"))
    with pytest.raises(InvalidOption, match="checkpoint of another stream"), open_state(foreign):
        pass
    (tmp_path / "at" / "pipeline" / "identity.json").write_text("{")
    with pytest.raises(InvalidOption, match="is damaged"), open_state(configured(tmp_path)):
        pass


def test_a_table_with_commits_of_another_checkpoint(tmp_path):
    made = configured(tmp_path)
    catalog = lk.connect(made.warehouse)
    catalog.create_database("default")
    t = catalog.create_table("default.t", {"id": "INT"}, primary_keys=["id"], options={"bucket": "1"})
    with open_state(made) as state:
        state.check_table(t)
        with t.writer(commit_user=state.commit_user) as writer:
            writer.write([{"id": 1}])
            writer.commit(3)
        state.check_table(t)
        state.write_error(4, ValueError("broken"))
    found = status(made)
    assert found.select("table", "batch", "rows", "pending_batches", "last_error").rows() == [("default.t", 3, 1, 0, "ValueError: broken")]
    assert 0 <= found["lag_s"][0] < 600
    with open_state(replace(made, checkpoint=str(tmp_path / "new"))) as state, pytest.raises(Conflict, match="with another checkpoint"):
        state.check_table(t)
    with open_state(made) as state:
        state.clear_error()
    assert status(made)["last_error"].to_list() == [None]
    assert status(replace(made, database="empty")).is_empty()
