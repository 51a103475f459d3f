"""Tables changed: whatever is asked, in whatever order, ids stay ids, refusals change nothing, and rows read as if they had been changed themselves."""

from __future__ import annotations

import threading
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.data_file.schema_evolution import build_evolution
from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.apply_changes import apply_changes
from lakekit.ddl.schema_changes import AddColumn, ColumnPosition, UpdateType
from lakekit.errors import LakekitError, RetriesExhausted, SchemaMismatch
from lakekit.metadata import schemas as files
from lakekit.metadata.table_context import TableLocation, open_context
from lakekit.model.table_paths import TablePaths
from lakekit.model.table_schema import TableSchema
from lakekit.runtime import Runtime
from lakekit.storage.memory import MemoryStorage
from lakekit.types import Field, parse
from spec_tests.doors.views import CASES, TABLES, copied, in_memory, table

NAMES = ("a", "a", "b", "b", "c", "new", "k", "p", "r.x", "r.x", "r.y", "r.y.z", "r.new", "l.element.x", "l.element.y", "m.value", "m.value.z", "z.z", "`a.b`")
TYPES = ("INT", "BIGINT", "STRING", "DOUBLE", "INT NOT NULL", "ROW<x INT, y ROW<z STRING>>", "ARRAY<ROW<x INT>>", "MAP<STRING, INT>", "DECIMAL(9, 2)", "DATE")
OPTIONS = ("bucket", "sequence.field", "fields.a.aggregate-function", "write-only", "merge-engine", "file-index.bsi.columns", "snapshot.num-retained.min")
VALUES = ("a", "1", "true", "a,b", "sum", "partial-update")
MOVES = 1 << 31
START = [
    Field("k", "INT"),
    Field("p", "STRING"),
    Field("a", "INT"),
    Field("b", "STRING"),
    Field("r", "ROW<x INT, y ROW<z INT, w STRING>>"),
    Field("l", "ARRAY<ROW<x INT, y INT>>"),
    Field("m", "MAP<STRING, INT>"),
]


def all_fields(fields):
    for field in fields:
        yield field
        for t in (field.type, field.type.element, field.type.value, field.type.key):
            if t is not None:
                yield from all_fields(t.fields if t.root == "ROW" else [Field("", t, id=-2)] if t is not field.type else ())


def ids_of(fields):
    return [field.id for field in all_fields(fields) if field.id != -2]


@st.composite
def changes(draw):
    name = draw(st.sampled_from(NAMES))
    places = st.sampled_from([{}, {}, {"first": True}, {"last": True}, {"after": "a"}, {"before": "x"}])
    match draw(st.integers(0, 9)):
        case 0 | 1:
            return lk.add_column(name, draw(st.sampled_from(TYPES)), **draw(places))
        case 2:
            return lk.rename_column(name, draw(st.sampled_from(("a", "c", "x", "new", "a.b"))))
        case 3:
            return lk.drop_column(name)
        case 4 | 5:
            return lk.update_type(name, draw(st.sampled_from(TYPES)))
        case 6:
            return lk.update_nullability(name, nullable=draw(st.booleans()))
        case 7:
            return lk.move_column("a", **(draw(places) or {"last": True}))
        case 8:
            return lk.set_option(draw(st.sampled_from(OPTIONS)), draw(st.sampled_from(VALUES)))
    return lk.reset_option(draw(st.sampled_from(OPTIONS)))


def made(storage, **more):
    return schemas.create_table_schema(TableLocation(name="t", storage=storage, paths=TablePaths(root="/t")), START, **more)


@pytest.mark.long
@settings(max_examples=40)
@given(st.lists(st.lists(changes(), min_size=1, max_size=2), min_size=2, max_size=8), st.booleans())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ids_are_never_given_twice(steps, keyed):
    storage = MemoryStorage()
    now = made(storage, **({"primary_keys": ["k"], "options": {"bucket": "1"}} if keyed else {"partition_keys": ["p"]}))
    ever = set(ids_of(now.fields))
    for step in steps:
        before = dict(storage.files)
        try:
            after = schemas.alter_schema(open_context("/t", storage=storage), step)
        except LakekitError:
            assert storage.files == before
            continue
        ids = ids_of(after.fields)
        assert len(set(ids)) == len(ids)
        assert all(one <= now.highest_field_id for one in ids if one in ever)
        assert all(now.highest_field_id < one <= after.highest_field_id for one in ids if one not in ever)
        assert (after.id, after.partition_keys, len(after.primary_keys)) == (now.id + 1, now.partition_keys, len(now.primary_keys))
        assert set(storage.files) - set(before) == {f"/t/schema/schema-{after.id}"}
        assert TableSchema.from_json(storage.read(f"/t/schema/schema-{after.id}")) == after
        build_evolution(after.fields, now.fields)  # raises where old files could not be read
        ever |= set(ids)
        now = after


# ---- rows ------------------------------------------------------------------------------------------------------------------------------------

SIMPLE = [
    name
    for name in CASES
    if name.startswith(("append_", "dedup_", "sequence_", "vectors_", "partition_typed")) and "changelog" not in name and "rowkind" not in name
]
"""Golden tables whose rows are to be read after their columns changed."""


@st.composite
def column_changes(draw, names, kept):
    """Changes of columns that can be, with what they make of a frame."""
    names, found, frames = list(names), [], []
    for at in range(draw(st.integers(1, 4))):
        free = [name for name in names if name not in kept]
        what = draw(st.sampled_from(("add", "rename", "drop", "move") if free else ("add",)))
        name = draw(st.sampled_from(free)) if free else ""
        if what == "add":
            found.append(lk.add_column(f"new{at}", "BIGINT", first=True))
            frames.append(lambda frame, new=f"new{at}": frame.select(pl.lit(None, pl.Int64).alias(new), pl.all()))
            names.insert(0, f"new{at}")
        elif what == "rename":
            found.append(lk.rename_column(f"`{name}`", f"renamed_{at}"))
            frames.append(lambda frame, old=name, new=f"renamed_{at}": frame.rename({old: new}))
            names[names.index(name)] = f"renamed_{at}"
        elif what == "drop" and len(names) > 1:
            found.append(lk.drop_column(f"`{name}`"))
            frames.append(lambda frame, old=name: frame.drop(old))
            names.remove(name)
        elif what == "move" and names[-1] != name:
            found.append(lk.move_column(f"`{name}`", last=True))
            frames.append(lambda frame, moved=name: frame.select(pl.exclude(moved), moved))
            names.append(names.pop(names.index(name)))
    return found, frames


@pytest.mark.long
@settings(max_examples=15)
@given(st.data())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_read_as_if_they_had_been_changed(data):
    case = data.draw(st.sampled_from(SIMPLE))
    t = in_memory(case)
    schema, rows = t._context().schema, t.scan().collect()
    kept = {*schema.primary_keys, *schema.partition_keys}
    for key, value in schema.options.items():  # dropping what options name is refused
        kept |= set(value.split(",")) | set(key.removeprefix("fields.").partition(".")[0].split(","))
    asked, frames = data.draw(column_changes(schema.names, kept))
    if asked:
        t.alter(*asked)
    for change in frames:
        rows = change(rows)
    assert t.scan().collect().equals(rows)
    assert rows.columns == list(t.schema.to_polars())


@pytest.mark.parametrize("default", [7, True, b"a", "\ud800"])
def test_a_default_is_a_text(default):
    t = in_memory(SIMPLE[0])
    before = t.schema
    for change in (lk.update_default(before.fields[-1].name, default), lk.add_column("added", "STRING", default=default)):
        with pytest.raises(SchemaMismatch, match="default"):
            t.alter(change)
    assert t.schema == before


def test_types_grow_under_rows_that_are_there():
    t = in_memory("append_plain" if "append_plain" in CASES else SIMPLE[0])
    rows = t.scan().collect()
    numbers = [name for name, of in rows.schema.items() if of == pl.Int32 and name not in t.primary_keys + t.partition_keys]
    assert numbers
    t.alter(*(lk.update_type(name, "BIGINT") for name in numbers))
    assert t.scan().collect().equals(rows.with_columns(pl.col(numbers).cast(pl.Int64)))
    assert all(t.schema.to_polars()[name] == pl.Int64 for name in numbers)


# ---- what the reference did to golden tables ----------------------------------------------------------------------------------------------------


def between(old, new):
    """The changes that make columns `new` of columns `old`, matched by their ids; new ones get theirs in the order that they have."""
    return [change for _, change in sorted(steps(old, new, ()), key=lambda pair: pair[0])]


def steps(old, new, path):
    """Changes with their turn: first those of what is there, then new ids, then moves."""
    quoted = lambda name: ".".join(f"`{part}`" for part in (*path, name))  # noqa: E731 - a name for a name
    by_id, known = {field.id: field for field in new}, {field.id for field in old}
    names = [by_id[field.id].name for field in old if field.id in by_id]
    for field in old:
        want = by_id.get(field.id)
        if want is None:
            yield -1, lk.drop_column(quoted(field.name))
            continue
        if field.name != want.name:
            yield -1, lk.rename_column(quoted(field.name), want.name)
        inner = path_and_fields(field.type, want.type, (*path, want.name))
        if inner is not None:
            yield from steps(*inner)
        elif field.type.as_nullable() != want.type.as_nullable():
            yield -1, UpdateType(path=(*path, want.name), type=want.type.as_nullable())
        if field.nullable != want.nullable:
            yield -1, lk.update_nullability(quoted(want.name), nullable=want.nullable)
        if field.comment != want.comment:
            yield -1, lk.update_comment(quoted(want.name), want.comment)
        if field.default != want.default:
            yield -1, lk.update_default(quoted(want.name), want.default)
    for field in sorted((field for field in new if field.id not in known), key=lambda field: field.id):
        before = [one.name for one in new[: new.index(field)] if one.name in names]
        place = ColumnPosition(relation="after", column=before[-1]) if before else ColumnPosition(relation="first")
        yield field.id, AddColumn(path=(*path, field.name), type=field.type, position=place, default=field.default, comment=field.comment)
        names.insert(names.index(before[-1]) + 1 if before else 0, field.name)
    for at, field in enumerate(new):
        if names[at] != field.name:
            yield MOVES, lk.move_column(f"`{field.name}`", **({"first": True} if at == 0 else {"after": new[at - 1].name}))
            names.insert(at, names.pop(names.index(field.name)))


def path_and_fields(held, want, path):
    """The fields inside a column, where it still is a column of that kind."""
    if held.root == want.root == "ROW":
        return held.fields, want.fields, path
    if held.root == want.root == "ARRAY":
        return path_and_fields(held.element, want.element, (*path, "element"))
    if held.root == want.root == "MAP":
        return path_and_fields(held.value, want.value, (*path, "value"))
    return None


def options_between(old, new):
    gone = [lk.reset_option(key) for key in old if key not in new]
    return gone + [lk.set_option(key, value) for key, value in new.items() if old.get(key) != value]


EVOLVED = [name for name in CASES if len(files.list_ids(table(name)._context())) > 1 and files.list_ids(table(name)._context())[0] == 0]


@pytest.mark.parametrize("case", EVOLVED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_schemas_of_the_reference(case):
    """Every schema that the reference wrote comes out of the one before it, but for its time."""
    known = files.read_all(table(case)._context())
    branches = {path: data for path, (data, _) in copied(TABLES / case, "/t").files.items() if path.startswith("/t/branch/")}
    for old, new in pairwise(known):
        storage = MemoryStorage()
        for path, data in (branches | {f"/t/schema/schema-{old.id}": old.to_json()}).items():
            storage.put(path, data)
        asked = between(old.fields, new.fields)
        left = apply_changes(old, asked, has_snapshots=lambda: False, time_ms=0).options
        asked += options_between(left, new.options)
        if old.comment != new.comment:
            asked.append(lk.set_comment(new.comment))
        made = schemas.alter_schema(open_context("/t", storage=storage), asked)
        assert made.highest_field_id == new.highest_field_id
        assert (made.fields, made.primary_keys, made.partition_keys, made.comment) == (new.fields, new.primary_keys, new.partition_keys, new.comment)
        assert dict(made.options) == dict(new.options)


# ---- races -----------------------------------------------------------------------------------------------------------------------------------


def test_changes_made_at_once_are_all_made(tmp_path):
    t = lk.create(tmp_path / "t", {"k": "INT"})
    refused = []

    def work(which):
        for at in range(6):
            try:
                t.alter(lk.add_column(f"c{which}_{at}", "ROW<x INT>"))
            except LakekitError as wrong:
                refused.append(wrong)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    schema = t.schema
    assert refused == []
    assert {field.name for field in schema.fields} == {"k", *(f"c{which}_{at}" for which in range(4) for at in range(6))}
    assert (schema.id, schema.highest_field_id, sorted(ids_of(schema.fields))) == (24, 48, list(range(49)))


def test_a_race_that_is_always_lost_ends(monkeypatch):
    storage = MemoryStorage()
    made(storage)
    monkeypatch.setattr(MemoryStorage, "put_if_absent", lambda *_: False)
    with pytest.raises(RetriesExhausted, match="nothing was changed"):
        schemas.alter_schema(open_context("/t", storage=storage), [lk.set_comment("x")])


def test_the_time_is_that_of_the_world():
    storage = MemoryStorage()
    place = TableLocation(name="t", storage=storage, paths=TablePaths(root="/t"), runtime=Runtime(now_ms=lambda: 1234))
    assert schemas.create_table_schema(place, [Field("k", parse("INT"))]).time_millis == 1234
    assert schemas.alter_schema(open_context("/t", storage=storage, runtime=place.runtime), [lk.set_comment("x")]).time_millis == 1234
