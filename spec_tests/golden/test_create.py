"""`lk.create` and `t.alter` as their users meet them: what a schema may be given as, what options become, what is warned of, what is refused and how."""

from __future__ import annotations

import json
import pickle
import warnings

import polars as pl
import pyarrow as pa
import pytest

import lakekit as lk
from lakekit.ddl.schema_changes import IMMUTABLE_OPTIONS
from lakekit.errors import (
    ColumnAlreadyExists,
    ColumnNotFound,
    DatabaseNotFound,
    InvalidOption,
    LakekitError,
    SchemaMismatch,
    StorageFailed,
    TableAlreadyExists,
    Unsupported,
)
from spec_tests.doors.views import in_memory

COLUMNS = {"k": "INT NOT NULL", "v": "STRING", "n": "BIGINT"}


def types(t):
    return {field.name: str(field.type) for field in t.schema.fields}


# ---- what a schema may be ------------------------------------------------------------------------------------------------------------------------


def test_a_dict_of_type_texts(tmp_path):
    t = lk.create(tmp_path / "t", {"k": "bigint not null", "m": "map<string, array<int>>", "r": pl.Struct({"x": pl.Int8}), "d": pl.Date})
    assert types(t) == {"k": "BIGINT NOT NULL", "m": "MAP<STRING, ARRAY<INT>>", "r": "ROW<`x` TINYINT>", "d": "DATE"}
    assert [field.id for field in t.schema.fields] == [0, 1, 2, 4]
    assert t.schema.highest_field_id == 4
    assert t.scan().collect().is_empty()
    assert (t.schema.id, t.comment, t.options, t.primary_keys) == (0, None, {}, ())


def test_fields(tmp_path):
    given = [lk.Field("k", "INT", id=77, comment="the key"), lk.Field("n", "BIGINT", default="5")]
    t = lk.create(tmp_path / "t", given, primary_keys=["k"], comment="numbers")
    key, number = t.schema.fields
    assert (key.id, str(key.type), key.comment) == (0, "INT NOT NULL", "the key")
    assert (number.id, number.default, t.comment, t.primary_keys) == (1, "5", "numbers", ("k",))


def test_a_polars_schema(tmp_path):
    dtypes = {
        "a": (pl.Boolean, "BOOLEAN"), "b": (pl.Int8, "TINYINT"), "c": (pl.UInt8, "SMALLINT"), "d": (pl.UInt64, "DECIMAL(20, 0)"), "e": (pl.Float32, "FLOAT"),
        "f": (pl.Decimal(12, 3), "DECIMAL(12, 3)"), "g": (pl.Categorical(), "STRING"), "h": (pl.Enum(["x"]), "STRING"), "i": (pl.Binary, "BYTES"),
        "j": (pl.Time, "TIME(3)"), "l": (pl.Datetime("ms"), "TIMESTAMP(3)"), "m": (pl.Datetime("ns", "Asia/Tokyo"), "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        "n": (pl.List(pl.Struct({"key": pl.String, "value": pl.Int64})), "ARRAY<ROW<`key` STRING, `value` BIGINT>>"),
        "o": (pl.Array(pl.Int32, 3), "ARRAY<INT>"),
    }  # fmt: skip
    t = lk.create(tmp_path / "t", pl.Schema({name: dtype for name, (dtype, _) in dtypes.items()}))
    assert types(t) == {name: text for name, (_, text) in dtypes.items()}
    with pytest.raises(SchemaMismatch, match="column d of Polars type Duration"):
        lk.create(tmp_path / "u", pl.Schema({"d": pl.Duration("us")}))


def test_a_schema_of_a_table_makes_a_table_like_it(tmp_path):
    t = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "m": "MAP<STRING, INT>", "t": "TIMESTAMP(9)", "r": "ROW<x INT NOT NULL>"})
    again = lk.create(tmp_path / "u", t.schema.to_arrow())
    assert types(again) == types(t)


def test_an_arrow_schema(tmp_path):
    fields = [
        pa.field("k", pa.int64(), nullable=False, metadata={"comment": "the key"}),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("s", pa.dictionary(pa.int32(), pa.large_string())),
    ]
    t = lk.create(tmp_path / "t", pa.schema(fields))
    assert types(t) == {"k": "BIGINT NOT NULL", "m": "MAP<STRING, INT>", "s": "STRING"}
    assert t.schema.fields[0].comment == "the key"


@pytest.mark.parametrize("given", [5, "k INT", ["k"], [("k", "INT")], {"k": 5}, {5: "INT"}])
def test_what_is_no_schema(tmp_path, given):
    with pytest.raises(TypeError):
        lk.create(tmp_path / "t", given)


def test_keys_are_names(tmp_path):
    assert lk.create(tmp_path / "t", COLUMNS, primary_keys="k", partition_keys=("v",)).partition_keys == ("v",)
    with pytest.raises(TypeError, match="primary_keys"):
        lk.create(tmp_path / "u", COLUMNS, primary_keys=[1])


# ---- a table that is there ---------------------------------------------------------------------------------------------------------------------------


def test_a_table_that_is_there(tmp_path):
    path = tmp_path / "shop.db" / "orders"
    t = lk.create(path, COLUMNS, options={"bucket": 2, "bucket-key": "k"})
    with pytest.raises(TableAlreadyExists, match="if_not_exists=True") as refused:
        lk.create(path, {"other": "INT"})
    assert isinstance(refused.value, FileExistsError)
    assert refused.value.name == "shop.orders"
    again = lk.create(path, {"other": "INT"}, if_not_exists=True)
    assert types(again) == types(t) == COLUMNS
    assert again == t
    assert pickle.loads(pickle.dumps(t)).schema == t.schema
    assert [file.name for file in (path / "schema").iterdir()] == ["schema-0"]


def test_what_is_refused_leaves_nothing(tmp_path):
    with pytest.raises(InvalidOption):
        lk.create(tmp_path / "t", COLUMNS, options={"bucket": 0})
    assert not (tmp_path / "t").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageFailed):
        lk.create(tmp_path / "file", COLUMNS)


def test_places_that_lakekit_cannot_write(tmp_path):
    with pytest.raises(Unsupported, match="hdfs"):
        lk.create("hdfs://name/t", COLUMNS)


# ---- options -------------------------------------------------------------------------------------------------------------------------------------------


def test_values_become_texts(tmp_path):
    given = {
        "bucket": 4,
        "write-only": True,
        "num-sorted-run.compaction-trigger": " 3 ",
        "merge-engine": "Partial_Update",
        "target-file-size": "64 mb",
        "none": None,
    }
    t = lk.create(tmp_path / "t", COLUMNS, primary_keys=["k"], options=given)
    wanted = {"bucket": "4", "write-only": "true", "num-sorted-run.compaction-trigger": "3", "merge-engine": "partial-update", "target-file-size": "64 mb"}
    assert t.options == wanted
    assert json.loads((tmp_path / "t" / "schema" / "schema-0").read_bytes())["options"] == wanted


@pytest.mark.parametrize(
    "old, new",
    [
        ({"partial-update.ignore-delete": "true"}, {"ignore-delete": "true"}),
        ({"first-row.ignore-delete": "true"}, {"ignore-delete": "true"}),
        ({"deletion-vectors": "true"}, {"deletion-vectors.enabled": "true"}),
        ({"fields.v.aggregate-function": "first_not_null_value"}, {"fields.v.aggregate-function": "first_non_null_value"}),
        ({"write.compaction-skip": "true"}, {"write-only": "true"}),
        ({"changelog-producer.lookup-wait": "false"}, {"lookup-wait": "false"}),
    ],
)
def test_old_names_are_shown_under_the_new_ones(tmp_path, old, new):
    t = lk.create(tmp_path / "t", COLUMNS, primary_keys=["k"], options={"bucket": "1"} | old)
    assert t.options == {"bucket": "1"} | new
    u = lk.create(tmp_path / "u", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    u.alter(*(lk.set_option(key, value) for key, value in old.items()))
    assert u.options == t.options
    u.alter(*(lk.reset_option(key) for key in old))
    assert u.options == {"bucket": "1"}


def test_two_names_of_one_option(tmp_path):
    with pytest.raises(InvalidOption, match="given twice"):
        lk.create(tmp_path / "t", COLUMNS, options={"write-only": "true", "write.compaction-skip": "false"})
    t = lk.create(tmp_path / "t", COLUMNS, options={"write-only": True, "write.compaction-skip": "true"})
    assert t.options == {"write-only": "true"}


def test_column_lists_may_hold_blanks(tmp_path):
    options = {"bucket": "2", "merge-engine": "partial-update", "fields.n , d.sequence-group": "v, w", "file-index.bsi.columns": "n, k"}
    columns = COLUMNS | {"d": "DATE", "w": "INT"}
    t = lk.create(tmp_path / "t", columns, primary_keys=["k"], options=options | {"bucket-key": " k"})
    assert t.options == {
        "bucket": "2",
        "merge-engine": "partial-update",
        "fields.n,d.sequence-group": "v,w",
        "file-index.bsi.columns": "n,k",
        "bucket-key": "k",
    }


def test_unknown_options_are_kept_and_those_near_a_known_one_warned_of(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t = lk.create(tmp_path / "t", COLUMNS, options={"owner": "me", "my.company.tier": 3})
    assert t.options == {"owner": "me", "my.company.tier": "3"}
    with pytest.warns(UserWarning, match="did you mean 'write-only'") as told:
        t.alter(lk.set_option("write-onyl", "true"))
    assert told[0].filename == __file__
    assert t.options["write-onyl"] == "true"
    with pytest.warns(UserWarning, match=r"did you mean 'fields\.v\.aggregate-function'"):
        lk.create(tmp_path / "u", COLUMNS, options={"fields.v.agg-function": "sum"})


UNWRITABLE = [
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, "Data type for sum column must be 'NumericType' but was 'STRING'"),
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "hll_sketch"}, "Data type for hll sketch column must be 'VarBinaryType'"),
    ({"file-index.bsi.columns": "v"}, "bsi index does not take column v"),
    ({"file-index.bsi.columns": "z"}, "'z', which is no column"),
    *(({"file-index.bitmap.columns": name}, f"bitmap index does not take column {name}") for name in ("dec", "byt", "bin", "arr")),
    *(({"file-index.bloom-filter.columns": name}, f"bloom-filter index does not take column {name}") for name in ("dec", "boo")),
]
"""What the reference accepts when a table is made, and refuses at every write."""


@pytest.mark.parametrize("options, said", UNWRITABLE)
def test_what_every_write_would_refuse_is_refused_at_once(tmp_path, options, said):
    others = {"dec": "DECIMAL(10, 2)", "byt": "BYTES", "bin": "BINARY(4)", "arr": "ARRAY<INT>", "boo": "BOOLEAN"}
    columns, keys = {"k": "INT", "v": "STRING", **others}, {"primary_keys": ["k"], "options": {"bucket": "1"}}
    with pytest.raises((InvalidOption, Unsupported), match=said):
        lk.create(tmp_path / "t", columns, primary_keys=["k"], options={"bucket": "1", **options})
    assert not (tmp_path / "t").exists()
    if "merge-engine" in options:
        keys["options"] = {"bucket": "1", "merge-engine": "aggregation"}
    table = lk.create(tmp_path / "t", columns, **keys)
    key, value = next((key, value) for key, value in options.items() if key != "merge-engine")
    with pytest.raises((InvalidOption, Unsupported), match=said):
        table.alter(lk.set_option(key, value))
    table.upsert([{"k": 1, "v": "a"}])
    assert table.scan().select("k").collect().item() == 1


def test_a_table_of_another_engine_that_nobody_writes_is_read_and_altered(tmp_path):
    table = lk.create(tmp_path / "t", COLUMNS)
    table.append([{"k": 1, "v": "a"}])
    schema = tmp_path / "t" / "schema" / "schema-0"
    schema.write_text(json.dumps({**json.loads(schema.read_text()), "options": {"file-index.bsi.columns": "v"}}))
    found = lk.open(tmp_path / "t")
    assert found.options["file-index.bsi.columns"] == "v"
    assert found.scan().collect().height == 1
    found.alter(lk.add_column("c", "INT"), lk.set_option("target-file-size", "1 mb"))
    found.alter(lk.reset_option("file-index.bsi.columns"))
    found.append([{"k": 2, "v": "b"}])


def test_no_keys_may_be_said_as_none(tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT"}, primary_keys=None, partition_keys=None, options=None)
    assert (table.primary_keys, table.partition_keys) == ((), ())


def test_count_is_kept_with_a_word_of_who_refuses_it(tmp_path):
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "count"}
    with pytest.warns(UserWarning, match=r"fields\.n\.aggregate-function=count: engines since 0\.9 .* refuse the table") as told:
        lk.create(tmp_path / "t", {"k": "INT", "n": "BIGINT"}, primary_keys=["k"], options=options)
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "options, said",
    [
        ({"file-index.bitmap.columns": "k", "file-index.bitmap.v.version": "1"}, "names k. Name v there"),
        ({"file-index.bitmap.v.version": "1"}, "there is no 'file-index.bitmap.columns'"),
        ({"file-index.bitmap.columns": "m[x]", "file-index.bitmap.m[y].version": "1"}, r"names m\[x\]. Name m\[y\] there"),
        ({"file-index.bitmap.columns": " "}, "names no column"),
    ],
)
def test_options_of_an_index_that_is_not_asked_for_are_refused(tmp_path, options, said):
    columns = {"k": "INT", "v": "STRING", "m": "MAP<STRING, INT>"}
    with pytest.raises(InvalidOption, match=said):
        lk.create(tmp_path / "t", columns, options=options)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "key, said",
    [
        ("file-index.bitmap.v.verison", "bitmap takes version and index-block-size"),
        ("file-index.bsi.k.version", "bsi has no options"),
        ("file-index.bitmap.column", "did you mean 'file-index.bitmap.columns'"),
    ],
)
def test_options_of_an_index_that_nobody_reads_are_warned_of(tmp_path, key, said):
    with pytest.warns(UserWarning, match=f"nobody reads the option.*{said}"):
        table = lk.create(tmp_path / "t", COLUMNS, options={"file-index.bitmap.columns": "v", "file-index.bsi.columns": "k", key: "1"})
    assert table.options[key] == "1"


@pytest.mark.parametrize(
    "key, value",
    [("bucket", "many"), ("write-only", "perhaps"), ("target-file-size", "64 mbit"), ("snapshot.time-retained", "soon"), ("bucket", ["4"]), ("owner", [1])],
)
def test_values_that_mean_nothing(tmp_path, key, value):
    with pytest.raises(InvalidOption) as refused:
        lk.create(tmp_path / "t", COLUMNS, options={key: value})
    assert refused.value.key == key


# ---- what the reference does not refuse by itself -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, words",
    [
        ({"target-file-row-num": "0"}, "target-file-row-num should be at least 1"),
        ({"primary-key.nullable": "true"}, "can only be enabled for a table with primary keys"),
        ({"sequence.snapshot-ordering": "true"}, "requires a primary-key table"),
    ],
)
def test_options_of_later_releases(tmp_path, options, words):
    with pytest.raises(InvalidOption, match=words):
        lk.create(tmp_path / "t", COLUMNS, options=options)


def test_ordering_by_snapshots(tmp_path):
    options = {"bucket": "1", "sequence.snapshot-ordering": "true"}
    with pytest.raises(InvalidOption, match="requires write-only"):
        lk.create(tmp_path / "t", COLUMNS, primary_keys=["k"], options=options)
    with pytest.raises(InvalidOption, match="mutually exclusive"):
        lk.create(tmp_path / "t", COLUMNS, primary_keys=["k"], options=options | {"write-only": "true", "sequence.field": "n"})


@pytest.mark.parametrize("kind", ["BLOB", "VECTOR<FLOAT, 3>", "GEOMETRY", "ARRAY<BLOB>"])
def test_types_that_lakekit_has_not(tmp_path, kind):
    with pytest.raises((Unsupported, SchemaMismatch)):
        lk.create(tmp_path / "t", {"k": "INT", "c": kind})
    t = lk.create(tmp_path / "u", {"k": "INT"})
    with pytest.raises((Unsupported, SchemaMismatch)):
        t.alter(lk.add_column("c", kind))
    assert t.schema.id == 0


@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "csv"},
        {"file.format.per.level": "0:csv"},
        {"type": "object-table"},
        {"type": "format-table"},
        {"blob-field": "v"},
        {"chain-table.enabled": "true"},
    ],
)
def test_tables_that_lakekit_could_not_read(tmp_path, options):
    with pytest.raises(Unsupported):
        lk.create(tmp_path / "t", COLUMNS, options=options)


# ---- changing ---------------------------------------------------------------------------------------------------------------------------------------------


def test_changes_say_what_came_of_them(tmp_path):
    t = lk.create(tmp_path / "t", COLUMNS | {"a.b": "INT", "r": "ROW<x INT, y STRING>"}, primary_keys=["k"], options={"bucket": "1"})
    schema = t.alter(
        lk.add_column("c", pl.List(pl.Int16), after="k", comment="numbers"),
        lk.rename_column("`a.b`", "ab"),
        lk.add_column("r.`z z`", "DATE", first=True),
        lk.move_column("n", before="v"),
        lk.update_comment("v", "said"),
        lk.set_comment("a table"),
    )
    assert schema == t.schema
    assert types(t) == {
        "k": "INT NOT NULL",
        "c": "ARRAY<SMALLINT>",
        "n": "BIGINT",
        "v": "STRING",
        "ab": "INT",
        "r": "ROW<`z z` DATE, `x` INT, `y` STRING>",
    }
    assert (t.comment, schema.id, [field.comment for field in schema.fields][1:4]) == ("a table", 1, ["numbers", None, "said"])
    assert t.scan().collect().columns == ["k", "c", "n", "v", "ab", "r"]


def test_types_with_parts_change_part_by_part(tmp_path):
    t = lk.create(tmp_path / "t", {"r": "ROW<x INT, y STRING, z INT NOT NULL>", "a": "ARRAY<ROW<x INT>>", "m": "MAP<STRING, INT>"})
    ids = {field.name: field.id for field in t.schema.fields[0].type.fields}
    t.alter(
        lk.update_type("r", "ROW<x BIGINT, new ROW<q INT>, z BIGINT>"),
        lk.update_type("a", "ARRAY<ROW<x DOUBLE, y INT>>"),
        lk.update_type("m", "MAP<STRING, BIGINT>"),
    )
    assert types(t) == {
        "r": "ROW<`x` BIGINT, `new` ROW<`q` INT>, `z` BIGINT NOT NULL>",
        "a": "ARRAY<ROW<`x` DOUBLE, `y` INT>>",
        "m": "MAP<STRING, BIGINT>",
    }
    now = {field.name: field.id for field in t.schema.fields[0].type.fields}
    assert (now["x"], now["z"]) == (ids["x"], ids["z"])
    assert now["new"] > max(ids.values())
    for wanted, words in [
        ("ROW<z BIGINT, x BIGINT>", "Order of existing fields in column r must be kept the same"),
        ("ROW<x BIGINT, w INT NOT NULL>", "cannot specify NOT NULL"),
        ("ROW<x DATE>", r"Column type r.x\[BIGINT\] cannot be converted to DATE"),
        ("ROW<other INT NOT NULL>", "cannot specify NOT NULL"),
        ("ARRAY<INT>", "cannot be converted"),
    ]:
        with pytest.raises(SchemaMismatch, match=words):
            t.alter(lk.update_type("r", wanted))
    with pytest.raises(SchemaMismatch, match="Cannot update key type of column m"):
        t.alter(lk.update_type("m", "MAP<INT, BIGINT>"))


@pytest.mark.parametrize(
    "change, kind, words",
    [
        (lambda: lk.drop_column("m.key"), ColumnNotFound, "the keys of a map never change"),
        (lambda: lk.add_column("l.x", "INT"), ColumnNotFound, "parts are under 'l.element'"),
        (lambda: lk.update_default("l.element", "5"), SchemaMismatch, "is the element of a ARRAY"),
        (lambda: lk.drop_column("k.x"), ColumnNotFound, "of type INT and has no fields"),
        (lambda: lk.rename_column("k", "m"), ColumnAlreadyExists, "Column m already exists"),
        (lambda: lk.add_column("_row_kind", "INT"), SchemaMismatch, "choose another name"),
        (lambda: lk.rename_column("m", "_row_kind"), SchemaMismatch, "choose another name"),
    ],
)
def test_changes_that_cannot_be(tmp_path, change, kind, words):
    t = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "l": "ARRAY<INT>", "m": "MAP<STRING, INT>"})
    with pytest.raises(kind, match=words) as refused:
        t.alter(change())
    assert isinstance(refused.value, LakekitError)
    assert t.schema.id == 0


@pytest.mark.parametrize(
    "misused",
    [
        lambda t: t.alter(),
        lambda t: t.alter("add column"),
        lambda t: lk.add_column("c", "INT", first=True, after="k"),
        lambda t: lk.move_column("c"),
        lambda t: lk.add_column(5, "INT"),
        lambda t: t.alter(lk.set_option(5, "x")),
    ],
)
def test_misuse(tmp_path, misused):
    t = lk.create(tmp_path / "t", COLUMNS)
    with pytest.raises(TypeError):
        misused(t)


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "`a", "a`b`"])
def test_names_that_name_nothing(name):
    with pytest.raises(lk.InvalidOption, match="names no column"):
        lk.drop_column(name)
    with pytest.raises(lk.InvalidOption, match="not empty"):
        lk.rename_column("a", "")


def test_deletion_vectors_on_data(tmp_path):
    t = lk.create(tmp_path / "t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    t.upsert(pl.DataFrame({"k": [1, 2], "v": ["a", "b"], "n": [1, 2]}))
    with pytest.raises(InvalidOption, match=r"'deletion-vectors.modifiable' = 'true'"):
        t.alter(lk.set_option("deletion-vectors.enabled", True))
    t.alter(lk.set_option("deletion-vectors.modifiable", True))
    t.alter(lk.set_option("deletion-vectors.enabled", True))
    assert t.options["deletion-vectors.enabled"] == "true"


def test_a_branch_has_schemas_of_its_own():
    t = in_memory("history_fallback_append")
    (branch,) = t.branches()["branch"].to_list()
    main, known = t.schema, t.branch(branch).schema
    made = t.branch(branch).alter(lk.add_column("only_here", "INT"))
    assert t.branch(branch).schema == made
    assert (made.id, made.fields[-1].name) == (known.id + 1, "only_here")
    assert t.schema == main


def test_what_is_fixed_is_what_the_list_of_options_says():
    listed = set(lk.options().filter("fixed")["key"])
    assert IMMUTABLE_OPTIONS - listed == {"blob-external-storage-field", "blob-external-storage-path"}  # no options of lakekit
    assert listed - IMMUTABLE_OPTIONS == {
        "type",  # fixed before there are snapshots too
        "dynamic-bucket.initial-buckets",  # later releases; 1.4.2 takes a change
        "blob-field",  # no such tables
        "blob-view-field",
    }


# ---- hostile and unlucky -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"comment": "\ud800"}, {"options": {"my.own": "\udfff"}}, {"primary_keys": ["\ud800"]}])
def test_texts_that_no_file_holds(tmp_path, how):
    columns = {"\ud800": "INT"} if "primary_keys" in how else COLUMNS
    with pytest.raises(SchemaMismatch, match="surrogate"):
        lk.create(tmp_path / "t", columns, **how)
    assert not (tmp_path / "t").exists()


def test_types_nested_too_deep(tmp_path):
    dtype = pl.Int32()
    for _ in range(80):
        dtype = pl.List(dtype)
    with pytest.raises(SchemaMismatch, match="nested deeper"):
        lk.create(tmp_path / "t", pl.Schema({"deep": dtype}))
    with pytest.raises(SchemaMismatch, match="nested deeper"):
        lk.create(tmp_path / "t", {"deep": "ARRAY<" * 80 + "INT" + ">" * 80})
    assert not (tmp_path / "t").exists()


def test_another_was_faster(tmp_path, monkeypatch):
    """Whoever looks before the other writes still does not write over it."""
    lk.create(tmp_path / "t", COLUMNS)
    monkeypatch.setattr("lakekit.ddl.schema_writer.schemas.list_ids", lambda place: [])
    with pytest.raises(TableAlreadyExists):
        lk.create(tmp_path / "t", {"other": "INT"})
    monkeypatch.undo()
    assert types(lk.open(tmp_path / "t")) == COLUMNS


# ---- by name ----------------------------------------------------------------------------------------------------------------------------------------------


def test_a_table_of_a_catalog(tmp_path):
    (tmp_path / "shop.db").mkdir()
    cat = lk.connect(tmp_path)
    t = cat.create_table("shop.orders", COLUMNS, primary_keys="k", options={"bucket": 1}, comment="what was sold")
    assert t == cat["shop.orders"]
    assert (t.name, t.comment, t.primary_keys, types(t)) == ("shop.orders", "what was sold", ("k",), COLUMNS)
    assert types(lk.open(tmp_path / "shop.db" / "orders")) == COLUMNS
    assert cat.create_table("shop.orders", {"x": "INT"}, if_not_exists=True).schema == t.schema
    with pytest.raises(TableAlreadyExists):
        cat.create_table("shop.orders", {"x": "INT"})
    with pytest.raises(DatabaseNotFound, match="its databases are shop"):
        cat.create_table("shopp.orders", COLUMNS)
    with pytest.raises(InvalidOption, match="branch table"):
        cat.create_table("shop.other$branch_dev", COLUMNS)
    with pytest.raises(SchemaMismatch):
        cat.create_table("shop.other", {"_row_kind": "INT"})
    assert cat.tables()["table"].to_list() == ["orders"]
