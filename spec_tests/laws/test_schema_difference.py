"""What changed between two schemas: by field id, every change once, and nothing where nothing changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import lakekit as lk
from lakekit.model.table_schema import TableSchema
from lakekit.options.option import FrozenDict
from lakekit.table.schema import diff_schemas
from lakekit.types import parse
from spec_tests.doors.views import table

row = lk.DataType(root="ROW", fields=(lk.Field("a", "INT", 20), lk.Field("b", "STRING", 21)))
types = st.just(row) | st.sampled_from(["INT", "BIGINT NOT NULL", "STRING", "ARRAY<INT>", "MAP<STRING, DECIMAL(5, 2)>", "TIMESTAMP(3)"])


@st.composite
def schemas(draw):
    ids = draw(st.lists(st.integers(0, 9), unique=True, max_size=6))
    fields = tuple(lk.Field(f"{draw(st.sampled_from('abc'))}{field_id}", draw(types), field_id, comment=draw(st.none() | st.just("c"))) for field_id in ids)
    options = draw(st.dictionaries(st.sampled_from(("bucket", "file.format")), st.sampled_from("12"), max_size=2))
    return TableSchema(id=draw(st.integers(0, 5)), fields=fields, highest_field_id=9, options=FrozenDict(options))


@pytest.mark.long
@given(schemas(), schemas())
def test_columns_come_and_go_by_id(older, newer):
    found = diff_schemas("t", older, newer)
    ours, theirs = {field.id: field.name for field in older.fields}, {field.id: field.name for field in newer.fields}
    nested = [change for change in found.changes if "." in change.what and change.change != "option"]
    top = [change for change in found.changes if change not in nested]
    assert {change.what for change in top if change.change == "added"} == {theirs[one] for one in theirs.keys() - ours.keys()}
    assert {change.what for change in top if change.change == "dropped"} == {ours[one] for one in ours.keys() - theirs.keys()}
    both = ours.keys() & theirs.keys()
    assert {(change.before, change.after) for change in top if change.change == "renamed"} == {
        (ours[one], theirs[one]) for one in both if ours[one] != theirs[one]
    }
    options = {change.what: (change.before, change.after) for change in top if change.change == "option"}
    assert options == {
        key: (older.options.get(key), newer.options.get(key)) for key in {*older.options, *newer.options} if older.options.get(key) != newer.options.get(key)
    }


@given(schemas(), schemas())
def test_there_and_back_is_as_many_changes(older, newer):
    there, back = diff_schemas("t", older, newer), diff_schemas("t", newer, older)
    assert len(there.filter("added")) == len(back.filter("dropped"))
    assert len(there.filter("moved")) == len(back.filter("moved"))
    assert len(there.filter("nullable")) == len(back.filter("not null"))


@given(schemas())
def test_nothing_changed_is_nothing_told(schema):
    found = diff_schemas("t", schema, replace(schema, id=9))
    assert found.changes == ()
    assert repr(found) == f"t from schema {schema.id} to 9: 0 changes"


@given(st.permutations(range(7)))
def test_the_fewest_columns_have_moved(order):
    fields = tuple(lk.Field(f"f{number}", "INT", number) for number in range(7))
    schema = TableSchema(id=0, fields=fields, highest_field_id=6)
    moved = diff_schemas("t", schema, replace(schema, fields=tuple(fields[number] for number in order))).filter("moved")
    stay = [number for number in order if f"f{number}" not in moved]
    assert stay == sorted(stay)
    longest = 0
    for chosen in range(128):
        kept = [number for number in order if chosen >> number & 1]
        if kept == sorted(kept):
            longest = max(longest, len(kept))
    assert len(stay) == longest


@pytest.mark.parametrize(
    "before, after, change",
    [
        ("INT", "BIGINT", "widened"),
        ("BIGINT", "INT", "type"),
        ("INT", "DOUBLE", "widened"),
        ("BIGINT", "DOUBLE", "type"),
        ("INT", "FLOAT", "type"),
        ("SMALLINT", "FLOAT", "widened"),
        ("FLOAT", "DOUBLE", "widened"),
        ("INT", "DECIMAL(10, 0)", "widened"),
        ("INT", "DECIMAL(10, 2)", "type"),
        ("DECIMAL(5, 2)", "DECIMAL(12, 4)", "widened"),
        ("DECIMAL(5, 2)", "DECIMAL(5, 3)", "type"),
        ("VARCHAR(10)", "STRING", "widened"),
        ("CHAR(10)", "VARCHAR(9)", "type"),
        ("BINARY(4)", "BYTES", "widened"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "widened"),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", "type"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "type"),
        ("INT", "STRING", "type"),
        ("STRING", "INT", "type"),
        ("INT", "ARRAY<INT>", "type"),
        ("INT NOT NULL", "INT", "nullable"),
        ("INT", "INT NOT NULL", "not null"),
    ],
)
def test_what_a_change_of_type_is_called(before, after, change):
    schema = TableSchema(id=0, fields=(lk.Field("c", before, 0),), highest_field_id=0)
    found = diff_schemas("t", schema, replace(schema, fields=(lk.Field("c", after, 0),)))
    assert [(one.change, one.what, one.before, one.after) for one in found.changes] == [(change, "c", str(parse(before)), str(parse(after)))]


def test_keys_comment_and_defaults_are_told_too():
    fields = (lk.Field("k", "INT", 0), lk.Field("v", "INT", 1))
    older = TableSchema(id=0, fields=fields, highest_field_id=1, primary_keys=("k",), partition_keys=("k",), comment="old")
    renamed = (lk.Field("key", "INT", 0), lk.Field("v", "INT", 1, default="3", comment="said"))
    newer = TableSchema(id=1, fields=renamed, highest_field_id=1, primary_keys=("key", "v"), partition_keys=("key",))
    assert [(one.change, one.what, one.before, one.after) for one in diff_schemas("t", older, newer).changes] == [
        ("renamed", "key", "k", "key"),
        ("default", "v", None, "3"),
        ("comment", "v", None, "said"),
        ("keys", "primary key", "k", "key, v"),
        ("comment", "table", "old", None),
    ]


def test_a_table_that_the_reference_changed():
    found = table("evolve_keyed_parquet").diff_schemas(0)
    assert (found.older_id, found.newer_id) == (0, 4)
    assert {kind: found.filter(kind) for kind in ("added", "dropped", "renamed", "widened")} == {
        "added": ("first", "d", "b", "a"),
        "dropped": ("a",),
        "renamed": ("renamed",),
        "widened": ("c",),
    }
    nested = table("evolve_nested_parquet").diff_schemas(0, 2)
    assert nested.filter("renamed") == ("r.why", "m.value.why")
    assert "r.in.q" in nested.filter("dropped")
    assert "7 changes" in repr(found)
    assert found._repr_html_().count("<tr>") == 8


def test_schemas_that_are_not_there_are_named():
    with pytest.raises(lk.NotFound, match="has no schema 9: its schemas are 0, 1, 2, 3, 4"):
        table("evolve_keyed_parquet").diff_schemas(0, 9)


def test_pictures_hide_what_options_hold_in_secret(tmp_path):
    changed = lk.create(tmp_path / "t", {"k": "INT"}, options={"sink.password": "hunter1"})
    changed.alter(lk.set_option("sink.password", "hunter2"), lk.set_option("s3.secret-key", "hunter3"), lk.set_option("write-only", "true"))
    found = changed.diff_schemas(0, 1)
    for shown in (repr(found), found._repr_html_()):
        assert "hunter" not in shown
        assert shown.count("******") == 3
        assert "true" in shown
    assert found.filter("option") == ("s3.secret-key", "sink.password", "write-only")
