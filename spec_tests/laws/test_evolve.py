"""Evolution by field id: what a plain reading of the rules, row by row, makes of old rows is what the columns make of them."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest
from hypothesis import given, strategies as st

import lakekit as lk
from lakekit.data_file.schema_evolution import build_evolution, evolve_column, is_same_type
from lakekit.errors import Unsupported
from lakekit.format import casts
from lakekit.format.polars_types import polars_schema
from lakekit.testing.expectations import canonical_value, decode_series, encode_rows
from lakekit.types import DataType, Field, parse

PLAIN = ("INT", "BIGINT", "STRING", "DOUBLE", "BOOLEAN", "DECIMAL(5, 2)", "DATE")
WIDER = {"INT": ("BIGINT", "DOUBLE", "STRING"), "BIGINT": ("STRING", "INT"), "BOOLEAN": ("STRING", "INT"), "DATE": ("STRING",), "STRING": ("VARCHAR(2)",)}
NAMES = ("a", "b", "c", "d", "A", "a b", "é")


def values(t: DataType) -> st.SearchStrategy:
    if t.root == "ROW":
        return st.none() | st.tuples(*(values(f.type) for f in t.fields)).map(list)
    if t.root == "ARRAY":
        return st.none() | st.lists(values(t.element), max_size=2)
    if t.root == "MAP":
        return st.none() | st.dictionaries(st.sampled_from(["x", "y"]), values(t.value), max_size=2).map(lambda found: [[k, v] for k, v in found.items()])
    plain = {
        "INT": st.integers(-(2**31), 2**31 - 1),
        "BIGINT": st.integers(-(2**63), 2**63 - 1),
        "VARCHAR": st.text("ab\U0001f600", max_size=3),
        "DOUBLE": st.sampled_from(["0.5", "-0.0", "NaN", "1.0E10"]),
        "BOOLEAN": st.booleans(),
        "DECIMAL": st.sampled_from(["1.50", "-999.99", "0.00"]),
        "DATE": st.integers(0, 20_000),
    }
    return st.none() | plain[t.root]


@st.composite
def types(draw, ids, depth=2):
    shape = draw(st.sampled_from(["plain", "plain", "plain", "ROW", "ARRAY", "MAP"])) if depth else "plain"
    if shape == "plain":
        return parse(draw(st.sampled_from(PLAIN)))
    if shape == "ROW":
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
        return DataType(root="ROW", fields=tuple(Field(name, draw(types(ids, depth - 1)), id=next(ids)) for name in names))
    inner = draw(types(ids, depth - 1))
    return DataType(root="ARRAY", element=inner) if shape == "ARRAY" else DataType(root="MAP", key=parse("STRING"), value=inner)


@st.composite
def changed_fields(draw, fields, ids):
    """Some fields kept (renamed, moved, their types changed), some dropped, some added, under any free name."""
    kept = [field for field in draw(st.permutations(fields)) if draw(st.integers(0, 4))]
    added = [Field("new", draw(types(ids, 1)), id=next(ids)) for _ in range(draw(st.integers(0 if kept else 1, 2)))]
    names = draw(st.permutations(NAMES))
    made = []
    for field, name in zip([*kept, *added], names, strict=False):
        own = field.name if field in kept and draw(st.booleans()) else name
        own = name if own in [one.name for one in made] else own
        t = draw(changed_type(field.type, ids)) if field in kept else field.type
        made.append(Field(own if own not in [one.name for one in made] else f"{own}{len(made)}", t, id=field.id))
    return tuple(made)


@st.composite
def changed_type(draw, t, ids):
    if t.root == "ROW":
        return DataType(root="ROW", fields=draw(changed_fields(t.fields, ids)))
    if t.root == "ARRAY":
        return DataType(root="ARRAY", element=draw(changed_type(t.element, ids)))
    if t.root == "MAP":
        return DataType(root="MAP", key=t.key, value=draw(changed_type(t.value, ids)))
    wider = WIDER.get("STRING" if t.root == "VARCHAR" else t.root, ())
    return parse(draw(st.sampled_from(wider))) if wider and draw(st.booleans()) else t


@st.composite
def changes(draw):
    ids = iter(range(1_000))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    held = tuple(Field(name, draw(types(ids)), id=next(ids)) for name in names)
    want = draw(changed_fields(held, ids))
    rows = draw(st.lists(st.tuples(*(values(field.type) for field in held)), max_size=5))
    return held, want, rows


# ---- the plain reading -----------------------------------------------------------------------------------------------------------------------


def has_nothing_of(held: DataType, want: DataType) -> bool:
    """No part of a wanted ROW is in the file: such a value is null, in Java too (`differential/test_lost_parts.py`)."""
    match held.root, want.root:
        case "ROW", "ROW":
            kept = [(old.type, new.type) for new in want.fields for old in held.fields if old.id == new.id]
            return bool(held.fields) and all(has_nothing_of(old, new) for old, new in kept)
        case "ARRAY", "ARRAY":
            return has_nothing_of(held.element, want.element)
        case "MAP", "MAP":
            return has_nothing_of(held.value, want.value)
    return False


def plainly(value, held: DataType, want: DataType):
    """One value of an old type as the new type has it."""
    if value is None or has_nothing_of(held, want):
        return None
    if is_same_type(held, want):
        return value
    if held.root == "ROW":
        at = {field.id: (i, field.type) for i, field in enumerate(held.fields)}
        return [plainly(value[at[f.id][0]], at[f.id][1], f.type) if f.id in at else None for f in want.fields]
    if held.root == "ARRAY":
        return [plainly(one, held.element, want.element) for one in value]
    if held.root == "MAP":
        return [[key, plainly(one, held.value, want.value)] for key, one in value]
    match held.root, want.root:
        case "INT" | "BOOLEAN" | "BIGINT", "BIGINT":
            return int(value)
        case (("BOOLEAN" | "BIGINT"), "INT"):
            return (int(value) + 2**31) % 2**32 - 2**31
        case "INT", "DOUBLE":
            return str(float(value))
        case "BOOLEAN", "VARCHAR":
            return "true" if value else "false"
        case "DATE", "VARCHAR":
            return str(decode_series([value], held).dt.to_string()[0])
        case _, "VARCHAR":
            return str(value)[: want.length]
    raise AssertionError((held, want))


@given(changes())
def test_columns_evolve_as_rows_do(case):
    held, want, rows = case
    found = build_evolution(want, held)
    frame = pl.DataFrame([decode_series([row[i] for row in rows], field.type, field.name) for i, field in enumerate(held)])
    # what a scan gives: the columns asked for, those no file has as nulls
    missing = [decode_series([None] * len(rows), field.type, field.name) for field in found.file_fields if field.name not in frame.columns]
    read = frame.with_columns(missing).select([field.name for field in found.file_fields]) if found.file_fields else frame
    made = read.lazy().select(found.columns).collect()
    assert made.schema == polars_schema(want)
    at = {field.id: i for i, field in enumerate(held)}
    wanted = [tuple(canonical_value(plainly(row[at[f.id]], held[at[f.id]].type, f.type) if f.id in at else None, f.type) for f in want) for row in rows]
    if made.height != len(rows):  # nothing of the old file is wanted: Polars keeps one row of literals
        assert not found.file_fields
        return
    got = [tuple(canonical_value(v, f.type) for v, f in zip(row, want, strict=True)) for _, row in encode_rows(made, [f.type for f in want])]
    assert got == wanted


def test_nothing_stays_nothing_in_parts_that_change():
    r = DataType(root="ROW", fields=(Field("y", parse("STRING"), id=11), Field("z", parse("INT"), id=12), Field("x", parse("BIGINT"), id=10)))
    parts = DataType(root="ROW", fields=(Field("x", parse("INT"), id=10), Field("y", parse("STRING"), id=11)))
    held = (Field("r", parts, id=9), Field("l", parse("ARRAY<INT>"), id=1), Field("m", parse("MAP<STRING, INT>"), id=2))
    want = (Field("r", r, id=9), Field("l", parse("ARRAY<STRING>"), id=1), Field("m", parse("MAP<STRING, BIGINT>"), id=2))
    rows = [[[1, "a"], [1, None], [["k", 1], ["n", None]]], [None, None, None], [[None, None], [], []]]
    frame = pl.DataFrame([decode_series([row[i] for row in rows], field.type, field.name) for i, field in enumerate(held)])
    made = frame.select(build_evolution(want, held).columns)
    assert [list(values) for _, values in encode_rows(made, [field.type for field in want])] == [
        [["a", None, 1], ["1", None], [["k", 1], ["n", None]]],
        [None, None, None],
        [[None, None, None], [], []],
    ]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("part", ["ARRAY<DECIMAL(5, 2)>", "INT", "ROW<a INT>"])
def test_a_row_that_lost_all_its_parts_for_new_ones_is_null(part, engine):
    held = (Field("r", DataType(root="ROW", fields=(Field("x", parse("INT"), id=10),)), id=0),)
    want = (Field("r", DataType(root="ROW", fields=(Field("y", parse(part), id=11),)), id=0),)
    frame = pl.DataFrame([decode_series([[1], None, [None]], held[0].type, "r")])
    assert build_evolution(want, held).file_fields == ()  # nothing of it is read
    made = frame.lazy().with_columns(build_evolution(want, held).columns).collect(engine=engine)["r"]
    assert made.is_null().to_list() == [True, True, True]
    alone = frame.lazy().select(evolve_column(pl.col("r"), held[0].type, want[0].type, casts.CastTarget(column="r"))).collect(engine=engine)["r"]
    assert alone.is_null().to_list() == [True, True, True]


LOST = {
    "ARRAY<ROW<a INT>>": ("r.element", [{"a": 1}]),
    "MAP<STRING, ROW<a INT>>": ("r.value", {"x": {"a": 1}}),
    "ROW<x ROW<a INT>>": ("r.x", {"x": {"a": 1}}),
    "ROW<x ARRAY<ROW<a INT>>, y INT>": ("r.x.element", {"x": [{"a": 1}], "y": 1}),
}


@pytest.mark.parametrize("text", LOST)
@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "key"])
def test_lists_and_maps_of_rows_that_lost_all_their_parts_are_null(tmp_path, text, format_name, keyed):
    """As the engine reads them (`differential/test_lost_parts.py`); and what planning knows of a file agrees with what is read of it."""
    path, value = LOST[text]
    options = {"file.format": format_name, **({"bucket": "1"} if keyed else {})}
    table = lk.create(tmp_path / "t", {"k": "INT", "r": text}, primary_keys=["k"] if keyed else (), options=options)
    table.append([{"k": 1, "r": value}])
    table.alter(lk.add_column(f"{path}.b", "INT"), lk.drop_column(f"{path}.a"))
    kept = {"x": None, "y": 1} if "y" in text else None
    assert table.scan().collect()["r"].to_list() == [kept]
    assert table.scan().filter(pl.col("r").is_null()).collect().height == (kept is None)
    assert table.scan().filter(pl.col("r").is_not_null()).collect().height == (kept is not None)
    table.append([{"k": 2, "r": None}])
    table.compact(full=True)
    assert table.scan().sort("k").collect()["r"].to_list() == [kept, None]


def test_a_name_that_was_dropped_and_added_again_hides_the_old_values():
    held = (Field("k", parse("INT"), id=0), Field("v", parse("STRING"), id=1))
    want = (Field("k", parse("INT"), id=0), Field("v", parse("STRING"), id=2))
    found = build_evolution(want, held)
    assert [field.name for field in found.file_fields] == ["k"]
    assert pl.DataFrame({"k": [1], "v": ["old"]}).select(found.columns).to_dicts() == [{"k": 1, "v": None}]


def test_schemas_that_ask_for_the_same_columns_share_a_scan():
    a, b, c = Field("a", parse("INT"), id=0), Field("b", parse("STRING"), id=1), Field("c", parse("INT"), id=2)
    older, newer = build_evolution((a, b, c), (a, b)), build_evolution((a, b, c), (a, b, c))
    assert older.signature == newer.signature
    assert older.is_plain and newer.is_plain
    assert build_evolution((a,), (b, a)).is_plain
    renamed = build_evolution((Field("a2", parse("INT"), id=0),), (a,))
    assert not renamed.is_plain and renamed.signature == (("a", parse("INT")),)


def test_changed_map_keys_and_forbidden_casts_are_refused_by_name():
    with pytest.raises(Unsupported, match="keys of map column m") as refusal:
        build_evolution((Field("m", parse("MAP<BIGINT, INT>"), id=0),), (Field("m", parse("MAP<INT, INT>"), id=0),))
    assert refusal.value.feature == "schema.map-key-change"
    with pytest.raises(Unsupported, match="was changed from DATE to INT") as refusal:
        build_evolution((Field("d", parse("INT"), id=0),), (Field("d", parse("DATE"), id=0),))
    assert refusal.value.feature == "schema.type-change"


# ---- values that no cast can make ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def changed_to_int(tables_path, tmp_path):
    """A copy of a table whose STRING column became INT, as nobody should do; its rows as they were, with their files."""

    def make(case, column):
        shutil.copytree(tables_path / case, tmp_path / case)
        before = lk.open(str(tmp_path / case)).scan(raw=True).collect()
        schema = json.loads((tmp_path / case / "schema" / "schema-0").read_text())
        for field in schema["fields"]:
            field["type"] = "INT" if field["name"] == column else field["type"]
        (tmp_path / case / "schema" / "schema-1").write_text(json.dumps(schema | {"id": 1}))
        return lk.open(str(tmp_path / case)), before

    return make


TEXTS = [("append_plain", "name"), ("append_avro", "name"), ("append_orc", "name"), ("dedup_overlapping_runs", "v"), ("dedup_orc", "v"), ("dedup_avro", "v")]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize(("case", "column"), TEXTS)
def test_a_value_that_cannot_be_cast_is_told_with_its_file(changed_to_int, case, column, engine):
    table, before = changed_to_int(case, column)
    key = before.columns[0]
    asked = [pl.lit(value=True), *(pl.col(key) == value for value in before[key].unique().drop_nulls())]
    told = 0
    for lazy in (table.scan(), table.scan(raw=True)):
        for condition in asked:
            try:
                lazy.filter(condition).collect(engine=engine)
            except lk.ValueOutOfRange as refusal:
                assert refusal.column == column
                assert str(refusal).startswith(f"{refusal.path}: column {column} became INT, but an old file holds the text ")
                text = str(refusal).partition("the text '")[2].partition("'")[0]
                assert text in before.filter(pl.col("_file") == refusal.path.rpartition("/")[2])[column]
                told += 1
    assert told > 2
