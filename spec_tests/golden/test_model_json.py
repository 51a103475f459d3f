"""Every metadata file in JSON that an engine wrote: what it says, and the same bytes again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.errors import Corrupt, LimitExceeded, Unsupported
from lakekit.model import snapshot
from lakekit.model.snapshot import NO_WATERMARK, Snapshot, Tag
from lakekit.model.table_schema import TableSchema, assign_ids, highest_id
from lakekit.testing import fixtures as golden
from lakekit.testing.fixtures import fixtures
from lakekit.testing.golden.checks import check_golden_file
from lakekit.testing.golden.metadata import DECODER_OF_FORMAT, instant
from lakekit.types import Field, parse
from spec_tests.longer import some

if TYPE_CHECKING:
    from pathlib import Path

# by hand: members left out or spelled as no engine does
TABLES = sorted(path for path in (fixtures() / "tables").iterdir() if path.is_dir() and not path.name.startswith("hand_"))


def cases(name: str) -> list[Path]:
    return golden.golden_cases(name)


def metadata_files(table: Path) -> list[Path]:
    return [
        path
        for folder in ("schema", "snapshot", "changelog", "tag", "consumer", "statistics")
        for path in sorted(table.rglob(f"{folder}/*-*"))
        if path.is_file() and format_of(path) in DECODER_OF_FORMAT
    ]


def format_of(path: Path) -> str:
    """By its name; a file of statistics is called stat-…"""
    return path.name.partition("-")[0].replace("stat", "statistics")


@pytest.mark.parametrize("table", some(TABLES, 3), ids=lambda path: path.name)
def test_what_an_engine_wrote_is_written_again(table: Path) -> None:
    engine = json.loads(table.with_suffix(".json").read_text())["engine"]
    files = metadata_files(table)
    assert files
    for path in files:
        data = path.read_bytes()
        again = DECODER_OF_FORMAT[format_of(path)](data, str(path)).to_json()
        if path.parent.name == "schema" and json.loads(data).get("version", 1) < 3:
            continue  # old schemas gain options when read
        assert json.loads(again) == json.loads(data), path
        if engine == "1.4.2":
            assert again == data, path


@pytest.mark.parametrize("path", cases("snapshot") + cases("changelog"), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_snapshots(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("schema"), ids=lambda path: path.stem)
def test_schemas(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("tag"), ids=lambda path: path.stem)
def test_tags(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("statistics"), ids=lambda path: path.stem)
def test_statistics(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("consumer"), ids=lambda path: path.stem)
def test_consumers(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("hint"), ids=lambda path: path.stem)
def test_hints(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("data", [b"", b"abc", b"-1", b"1\n", b"\xef\xbb\xbf1", b" 1", b"1" * 20, b"9223372036854775808", "٣".encode(), b"1.0"])
def test_hints_that_make_no_sense_say_nothing(data: bytes) -> None:
    assert snapshot.decode_hint(data) is None


# ---- what engines of long ago wrote ----------------------------------------------------------------------------------------------------------

OLD = {
    "schemaId": 0,
    "id": 4,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "commitUser": "u",
    "commitIdentifier": 1,
    "commitKind": "COMPACT",
    "timeMillis": 5,
}


def test_snapshots_of_old_releases_keep_their_nulls() -> None:
    written = {
        "version": 3,
        **OLD,
        "changelogManifestList": None,
        "indexManifest": None,
        "logOffsets": {"0": 5},
        "totalRecordCount": None,
        "watermark": NO_WATERMARK,
        "somethingNewer": {"a": [1, None, 1.5]},
    }
    found = Snapshot.from_json(json.dumps(written).replace("1.5]", "1.50]").encode())
    assert (found.index_manifest, found.watermark, found.watermark_or_none, found.log_offsets) == (None, NO_WATERMARK, None, {"0": 5})
    assert set(found.nulls) == {"changelogManifestList", "indexManifest", "totalRecordCount"}
    assert json.loads(found.to_json()) == written
    assert b"1.50" in found.to_json()
    assert found == replace(found, nulls=())


def test_a_snapshot_without_version_is_of_version_1() -> None:
    assert Snapshot.from_json(json.dumps(OLD).encode()).version == 1


def test_future_snapshots_are_refused_by_name() -> None:
    for change, feature in (({"version": 4}, "snapshot.version-4"), ({"version": 0}, "snapshot.version-0"), ({"commitKind": "MERGE"}, "commit-kind.MERGE")):
        with pytest.raises(Unsupported) as raised:
            Snapshot.from_json(json.dumps({**OLD, **change}).encode(), "t/snapshot/snapshot-4")
        assert (raised.value.feature, raised.value.path) == (feature, "t/snapshot/snapshot-4")


def schema_json(**changes: Any) -> bytes:
    said = {
        "version": 3,
        "id": 0,
        "fields": [{"id": 0, "name": "k", "type": "INT"}],
        "highestFieldId": 0,
        "partitionKeys": [],
        "primaryKeys": [],
        "options": {},
    }
    return json.dumps({key: value for key, value in {**said, **changes}.items() if value is not ...}).encode()


def test_old_schemas_gain_what_was_the_default_then() -> None:
    assert TableSchema.from_json(schema_json(version=...)).options == {"bucket": "1", "file.format": "orc"}
    assert TableSchema.from_json(schema_json(version=1, options={"bucket": "3"})).options == {"bucket": "3", "file.format": "orc"}
    assert TableSchema.from_json(schema_json(version=2)).options == {"file.format": "orc"}
    assert TableSchema.from_json(schema_json(version=2, options={"file.format": "avro"})).options == {"file.format": "avro"}
    assert TableSchema.from_json(schema_json()).options == {}
    assert TableSchema.from_json(schema_json()).time_millis == 0


def test_a_comment_that_is_null_is_none_and_is_not_written() -> None:
    found = TableSchema.from_json(schema_json(comment=None))
    assert found.comment is None
    assert b"comment" not in found.to_json()


def test_a_future_schema_is_refused_by_name() -> None:
    with pytest.raises(Unsupported) as raised:
        TableSchema.from_json(schema_json(version=4), "t/schema/schema-0")
    assert raised.value.feature == "schema.version-4"


def test_the_bucket_key_is_split_and_not_trimmed() -> None:
    fields = [{"id": number, "name": name, "type": "INT"} for number, name in enumerate(("a", " b"))]
    assert TableSchema.from_json(schema_json(fields=fields, options={"bucket-key": "a, b"})).bucket_keys == ("a", " b")


def test_ids_are_given_as_the_reference_gives_them() -> None:
    row = "ROW<x INT, y ROW<z STRING>, w BIGINT NOT NULL>"
    fields, highest = assign_ids([Field("row", parse(row)), Field("ms", parse("MULTISET<STRING>"))], highest=26)
    assert highest == highest_id(fields) == 32
    assert [(field.id, field.name) for field in (fields[0], *fields[0].type.fields, fields[0].type.fields[1].type.fields[0], fields[1])] == [
        (27, "row"),
        (28, "x"),
        (30, "y"),
        (31, "w"),
        (29, "z"),
        (32, "ms"),
    ]
    added, highest = assign_ids([Field("c", parse("ROW<p INT, q ROW<s INT>>"))], highest=4)
    assert (added[0].id, added[0].type.fields[0].id, added[0].type.fields[1].id, added[0].type.fields[1].type.fields[0].id, highest) == (5, 6, 8, 7, 8)


# ---- what no engine writes ---------------------------------------------------------------------------------------------------------------------

DAMAGED: list[tuple[str, bytes, str | None]] = [
    ("empty", b"", "json"),
    ("half", b'{"version" : 3, "id" : ', "json"),
    ("no object", b"[1]", "json"),
    ("nothing but a null", b"null", "json"),
    ("not UTF-8", b'{"commitUser" : "\xff"}', "json"),
    ("a byte order mark", b"\xef\xbb\xbf{}", "json"),
    ("half a surrogate pair", b'{"commitUser" : "\\ud800"}', "json"),
    ("a name twice", b'{"id" : 1, "id" : 2}', "id"),
    ("NaN", b'{"id" : NaN}', "json"),
    ("infinity", b'{"id" : -Infinity}', "json"),
    ("a text for a number", json.dumps({**OLD, "id": "4"}).encode(), "id"),
    ("a boolean for a number", json.dumps({**OLD, "id": True}).encode(), "id"),
    ("a fraction for a number", json.dumps({**OLD, "id": 4.0}).encode(), "id"),
    ("a number of 64 bits and one", json.dumps({**OLD, "timeMillis": 2**63}).encode(), "timeMillis"),
    ("a negative id", json.dumps({**OLD, "id": -1}).encode(), "id"),
    ("a member missing", json.dumps({k: v for k, v in OLD.items() if k != "schemaId"}).encode(), "schemaId"),
    ("a member null", json.dumps({**OLD, "schemaId": None}).encode(), "schemaId"),
    ("a number for a text", json.dumps({**OLD, "commitUser": 1}).encode(), "commitUser"),
    ("a path for a name", json.dumps({**OLD, "baseManifestList": "../../etc/passwd"}).encode(), "baseManifestList"),
    ("an absolute path", json.dumps({**OLD, "indexManifest": "/etc/passwd"}).encode(), "indexManifest"),
    ("an empty name", json.dumps({**OLD, "statistics": ""}).encode(), "statistics"),
    ("a control character in a name", json.dumps({**OLD, "deltaManifestList": "a\nb"}).encode(), "deltaManifestList"),
    ("properties that are no texts", json.dumps({**OLD, "properties": {"a": 1}}).encode(), "properties.a"),
]
TOO_MUCH = {
    "nesting": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "nesting that the parser bears": b'{"a":' * 300 + b"1" + b"}" * 300,
    "lists": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "digits": b'{"id" : ' + b"1" * 5000 + b"}",
    "exponent": b'{"id" : 1e999999999999999999999}',
}


@pytest.mark.parametrize(("about", "data", "field"), DAMAGED, ids=[about for about, _, _ in DAMAGED])
def test_damaged_snapshots_name_file_and_member(about: str, data: bytes, field: str) -> None:
    with pytest.raises(Corrupt) as raised:
        Snapshot.from_json(data, "t/snapshot/snapshot-4")
    assert (raised.value.path, raised.value.field) == ("t/snapshot/snapshot-4", field)
    assert raised.value.message.startswith("t/snapshot/snapshot-4: ")


@pytest.mark.parametrize("about", TOO_MUCH)
def test_more_than_anybody_writes_is_refused(about: str) -> None:
    for reader in DECODER_OF_FORMAT.values():
        with pytest.raises(LimitExceeded) as raised:
            reader(TOO_MUCH[about], "t/tag/tag-x")
        assert raised.value.path == "t/tag/tag-x"


DAMAGED_SCHEMAS: list[tuple[str, dict[str, Any], str]] = [
    ("no fields", {"fields": ...}, "fields"),
    ("fields that are no list", {"fields": {}}, "fields"),
    ("a field that is no object", {"fields": [7]}, "fields"),
    ("an id that is text", {"fields": [{"id": "0", "name": "k", "type": "INT"}]}, "id"),
    ("no type", {"fields": [{"id": 0, "name": "k"}]}, "type"),
    ("a type nobody knows", {"fields": [{"id": 0, "name": "k", "type": "INTS"}]}, "type"),
    ("a column twice", {"fields": [{"id": 0, "name": "k", "type": "INT"}, {"id": 1, "name": "k", "type": "INT"}]}, "fields"),
    ("an id twice", {"fields": [{"id": 0, "name": "k", "type": "INT"}, {"id": 0, "name": "l", "type": "INT"}]}, "fields"),
    ("a key that is no column", {"primaryKeys": ["x"]}, "primaryKeys"),
    ("a partition that is no column", {"partitionKeys": ["x"]}, "partitionKeys"),
    ("a key twice", {"primaryKeys": ["k", "k"]}, "primaryKeys"),
    ("a key with parts", {"fields": [{"id": 0, "name": "k", "type": {"type": "ARRAY", "element": "INT"}}], "primaryKeys": ["k"]}, "primaryKeys"),
    ("keys that are no texts", {"primaryKeys": [1]}, "primaryKeys"),
    ("an option that is no text", {"options": {"bucket": 1}}, "options.bucket"),
    ("a comment that is no text", {"comment": 1}, "comment"),
    ("an id beyond 32 bits", {"highestFieldId": 2**31}, "highestFieldId"),
]


@pytest.mark.parametrize(("about", "changes", "field"), DAMAGED_SCHEMAS, ids=[about for about, _, _ in DAMAGED_SCHEMAS])
def test_damaged_schemas_name_file_and_member(about: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Corrupt) as raised:
        TableSchema.from_json(schema_json(**changes), "t/schema/schema-0")
    assert (raised.value.path, raised.value.field) == ("t/schema/schema-0", field)


@pytest.mark.parametrize(
    ("written", "created"),
    [
        ([2026, 11, 21, 9, 25], (2026, 11, 21, 9, 25, 0, 0)),
        ("2026-11-21T09:25:49.88", (2026, 11, 21, 9, 25, 49, 880_000_000)),
        ("2026-11-21T09:25", (2026, 11, 21, 9, 25, 0, 0)),
    ],
)
def test_times_of_tags(written: Any, created: tuple[int, ...]) -> None:
    assert Tag.from_json(json.dumps({**OLD, "tagCreateTime": written}).encode(), "v").create_time == instant(*created)


@pytest.mark.parametrize(("written", "retained"), [(b'"PT36H"', 129600 * 10**9), (b"5", 5 * 10**9), (b"0.0", 0), (b'"P1DT0.5S"', 86_400_500_000_000)])
def test_lives_of_tags(written: bytes, retained: int) -> None:
    data = json.dumps({**OLD, "tagTimeRetained": "?"}).encode().replace(b'"?"', written)
    assert Tag.from_json(data, "v").time_retained_ns == retained


@pytest.mark.parametrize(
    ("member", "written"),
    [
        ("tagCreateTime", [2026, 11]),
        ("tagCreateTime", [2026, 13, 1, 0, 0]),
        ("tagCreateTime", [2026, 2, 30, 0, 0]),
        ("tagCreateTime", [2026, 2, "1", 0, 0]),
        ("tagCreateTime", "yesterday"),
        ("tagCreateTime", 5),
        ("tagTimeRetained", "a while"),
        ("tagTimeRetained", "P"),
        ("tagTimeRetained", []),
        ("tagTimeRetained", True),
        ("tagTimeRetained", 2**80),
    ],
)
def test_damaged_tags(member: str, written: Any) -> None:
    with pytest.raises(Corrupt) as raised:
        Tag.from_json(json.dumps({**OLD, member: written}).encode(), "v", "t/tag/tag-v")
    assert (raised.value.path, raised.value.field) == ("t/tag/tag-v", member)
