"""Drawn facts come back as they were; drawn bytes give a fact or an error that says where."""

from __future__ import annotations

import json
import pickle
import string
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings, strategies as st

from lakekit.errors import Corrupt, Unsupported
from lakekit.model import json_codec, snapshot
from lakekit.model.snapshot import COMMIT_KINDS, ColumnStatistics, Consumer, Snapshot, Statistics, Tag
from lakekit.model.table_schema import TableSchema, assign_ids, highest_id
from lakekit.options.option import FrozenDict, freeze
from lakekit.types import TYPE_ROOTS, DataType, Field, Instant

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=12)
NAME = st.text(string.ascii_letters + string.digits + "-_. é湖", min_size=1, max_size=12).filter(lambda name: name not in {".", ".."})
JSON = st.recursive(
    st.none() | st.booleans() | LONG | st.decimals(allow_nan=False, allow_infinity=False, places=3) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EXTRA = st.dictionaries(st.text(string.ascii_lowercase, min_size=1, max_size=5).map(lambda name: "x_" + name), JSON, max_size=2).map(freeze)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


SNAPSHOTS = st.builds(
    Snapshot,
    version=st.integers(1, 3),
    uuid=maybe(TEXT),
    id=COUNT,
    schema_id=COUNT,
    base_manifest_list=NAME,
    base_manifest_list_size=maybe(COUNT),
    delta_manifest_list=NAME,
    delta_manifest_list_size=maybe(COUNT),
    changelog_manifest_list=maybe(NAME),
    changelog_manifest_list_size=maybe(COUNT),
    index_manifest=maybe(NAME),
    commit_user=TEXT,
    writer_version=maybe(TEXT),
    commit_identifier=LONG,
    commit_kind=st.sampled_from(COMMIT_KINDS),
    time_millis=LONG,
    log_offsets=maybe(st.dictionaries(TEXT, LONG, max_size=2).map(FrozenDict)),
    total_record_count=maybe(LONG),
    delta_record_count=maybe(LONG),
    changelog_record_count=maybe(LONG),
    watermark=maybe(LONG),
    statistics=maybe(NAME),
    properties=maybe(st.dictionaries(TEXT, TEXT, max_size=3).map(FrozenDict)),
    next_row_id=maybe(LONG),
    operation=maybe(TEXT),
    extra=EXTRA,
)


@st.composite
def simple_types(draw: st.DrawFn) -> DataType:
    word = draw(st.sampled_from(sorted(TYPE_ROOTS)))
    root, nullable = TYPE_ROOTS[word], draw(st.booleans())
    if not root.arguments:
        return DataType(root=word, nullable=nullable)
    size = draw(st.integers(root.low, min(root.high, 100)) | st.just(root.high))
    if root.arguments == "decimal":
        return DataType(root=word, nullable=nullable, precision=size, scale=draw(st.integers(0, size)))
    return DataType(root=word, nullable=nullable, length=size) if root.arguments == "length" else DataType(root=word, nullable=nullable, precision=size)


def nested_types(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    row = st.lists(st.builds(Field, NAME, inner, comment=maybe(TEXT), default=maybe(TEXT)), min_size=1, max_size=3, unique_by=lambda field: field.name)
    return st.one_of(
        st.builds(DataType, root=st.sampled_from(["ARRAY", "MULTISET"]), nullable=st.booleans(), element=inner),
        st.builds(DataType, root=st.just("MAP"), nullable=st.booleans(), key=inner, value=inner),
        st.builds(DataType, root=st.just("ROW"), nullable=st.booleans(), fields=row.map(tuple)),
    )


TYPES = st.recursive(simple_types(), nested_types, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    named = st.lists(st.builds(Field, NAME, TYPES, comment=maybe(TEXT), default=maybe(TEXT)), max_size=5, unique_by=lambda field: field.name)
    columns, highest = assign_ids(draw(named))
    keys = [field.name for field in columns if not field.type.is_nested]
    chosen = st.lists(st.sampled_from(keys), unique=True, max_size=2) if keys else st.just([])
    return TableSchema(
        version=3,
        id=draw(COUNT),
        fields=columns,
        highest_field_id=highest,
        partition_keys=tuple(draw(chosen)),
        primary_keys=tuple(draw(chosen)),
        options=draw(st.dictionaries(TEXT, TEXT, max_size=3).map(FrozenDict)),
        comment=draw(maybe(TEXT)),
        time_millis=draw(COUNT),
        extra=draw(EXTRA),
    )


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(SNAPSHOTS, st.data())
def test_snapshots(snapshot: Snapshot, data: st.DataObject) -> None:
    members = json_codec.to_members(snapshot)
    assert None not in [value for name, value in members.items() if name not in snapshot.extra]
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    empty = sorted(part.metadata["member"] for part in fields(snapshot) if "member" in part.metadata and getattr(snapshot, part.name) is None)
    nulls = data.draw(st.lists(st.sampled_from(empty), unique=True)) if empty else []
    written = json_codec.format_object({**members, **dict.fromkeys(nulls)})
    found = Snapshot.from_json(written)
    assert (found, set(found.nulls)) == (snapshot, set(nulls))
    assert json.loads(found.to_json()) == json.loads(written)
    assert Snapshot.from_json(found.to_json()).to_json() == found.to_json()
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found) == hash(snapshot)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(schemas())
def test_schemas(schema: TableSchema) -> None:
    found = TableSchema.from_json(schema.to_json())
    assert found == schema
    assert found.to_json() == schema.to_json()
    assert highest_id(schema.fields) == schema.highest_field_id
    assert pickle.loads(pickle.dumps(found)) == found
    assert set(found.trimmed_primary_keys) == set(schema.primary_keys) - set(schema.partition_keys)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(schemas())
def test_ids_are_given_once(schema: TableSchema) -> None:
    def ids(columns: tuple[Field, ...]) -> list[int]:
        found = []
        for field in columns:
            found.append(field.id)
            inner = [part for part in (field.type.element, field.type.key, field.type.value) if part is not None]
            found += ids(field.type.fields) + ids(tuple(Field("", part, id=-1) for part in inner))
        return found

    given_ids = [number for number in ids(schema.fields) if number != -1]
    assert sorted(given_ids) == list(range(schema.highest_field_id + 1))


@settings(max_examples=25, deadline=None)
@given(SNAPSHOTS, maybe(st.builds(Instant, st.integers(-(10**15), 10**16), st.integers(0, 999_999))), maybe(st.integers(-(10**18), 10**18)))
def test_tags(snapshot: Snapshot, created: Instant | None, retained: int | None) -> None:
    tag = Tag(name="v", snapshot=snapshot, create_time=created, time_retained_ns=retained)
    assert Tag.from_json(tag.to_json(), "v") == tag


COLUMNS = st.builds(
    ColumnStatistics,
    column_id=st.integers(0, 100),
    distinct_count=maybe(LONG),
    min=maybe(TEXT),
    max=maybe(TEXT),
    null_count=maybe(LONG),
    avg_length_bytes=maybe(LONG),
    max_length_bytes=maybe(LONG),
    extra=EXTRA,
)


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        Statistics,
        snapshot_id=LONG,
        schema_id=LONG,
        merged_record_count=maybe(LONG),
        merged_record_size_bytes=maybe(LONG),
        columns=st.dictionaries(TEXT, COLUMNS, max_size=3).map(FrozenDict),
        extra=EXTRA,
    )
)
def test_statistics(statistics: Statistics) -> None:
    assert Statistics.from_json(statistics.to_json()) == statistics


@given(COUNT)
def test_consumers_and_hints(number: int) -> None:
    consumer = Consumer(next_snapshot=number)
    assert Consumer.from_json(consumer.to_json()) == consumer
    assert snapshot.decode_hint(snapshot.encode_hint(number)) == number


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_printed_json_is_json(members: dict[str, Any]) -> None:
    printed = json_codec.format_object(members)
    assert json_codec.loads(printed) == members
    assert json_codec.loads(json.dumps(members, default=float).encode()).keys() == members.keys()


# ---- any bytes at all -------------------------------------------------------------------------------------------------------------------------

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "schema": lambda data: TableSchema.from_json(data, "p"),
    "snapshot": lambda data: Snapshot.from_json(data, "p"),
    "tag": lambda data: Tag.from_json(data, "v", "p"),
    "consumer": lambda data: Consumer.from_json(data, "p"),
    "statistics": lambda data: Statistics.from_json(data, "p"),
}
VALID = {
    "schema": TableSchema(id=0, fields=(Field("k", DataType(root="INT"), id=0),), highest_field_id=0).to_json(),
    "snapshot": Snapshot(id=1, schema_id=0, base_manifest_list="a", delta_manifest_list="b", commit_user="u", commit_identifier=1, commit_kind="APPEND",
                         time_millis=5, properties=FrozenDict({"a": "b"})).to_json(),
    "consumer": b'{"nextSnapshot":5}',
    "statistics": Statistics(snapshot_id=1, schema_id=0, columns=FrozenDict({"a": ColumnStatistics(column_id=1)})).to_json(),
}  # fmt: skip
VALID["tag"] = VALID["snapshot"][:-2] + b', "tagCreateTime" : [ 2026, 11, 21, 9, 25 ], "tagTimeRetained" : 5.000000000 }'
NASTY = st.sampled_from(
    [b"\xff", b"\xed\xa0\x80", b"\\ud800", b"NaN", b"1e99999999999999999999", b"-", b"[[[[", b"{", b'"', b"\x00", b"9" * 5000, b"null", b"true"]
)


def refusal(decode: Callable[[bytes], Any], data: bytes) -> Corrupt | Unsupported | None:
    try:
        decode(data)
    except (Corrupt, Unsupported) as refused:
        return refused
    return None


def allowed(decode: Callable[[bytes], Any], data: bytes) -> bool:
    """Whether the bytes were read, or refused by an error that says where."""
    refused = refusal(decode, data)
    if isinstance(refused, Corrupt):
        return refused.path == "p" and refused.field is not None and str(refused).startswith("p: ")
    return refused is None or refused.feature is not None


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(DECODERS))
@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=80) | st.text(max_size=40).map(str.encode) | JSON.map(lambda value: json.dumps(value, default=float).encode()))
def test_any_bytes(name: str, data: bytes) -> None:
    assert allowed(DECODERS[name], data)


@pytest.mark.parametrize("name", sorted(DECODERS))
@settings(max_examples=25, deadline=None)
@given(at=st.integers(0, 400), cut=st.integers(0, 6), put=st.binary(max_size=4) | NASTY)
@example(at=0, cut=0, put=b"\xef\xbb\xbf")
def test_valid_bytes_with_a_fault(name: str, at: int, cut: int, put: bytes) -> None:
    valid = VALID[name]
    at = min(at, len(valid))
    assert allowed(DECODERS[name], valid[:at] + put + valid[at + cut :])


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(DECODERS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_valid_members_with_another_value(name: str, data: st.DataObject) -> None:
    members = json.loads(VALID[name])
    changed = data.draw(st.sampled_from(sorted(members)))
    assert allowed(DECODERS[name], json_codec.format_object({**members, changed: data.draw(JSON)}))


def test_valid_bytes_are_valid() -> None:
    for name, decode in DECODERS.items():
        decode(VALID[name])


def test_a_new_snapshot_forgets_what_it_does_not_know() -> None:
    found = Snapshot.from_json(VALID["snapshot"][:-2] + b', "later" : 1, "uuid" : null }')
    assert (found.extra, found.nulls) == ({"later": 1}, ("uuid",))
    assert found.without_extra() == replace(found, extra=FrozenDict())
