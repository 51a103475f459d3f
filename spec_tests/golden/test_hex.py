"""Every byte of a golden file has one field, named by its decoder, with the value that the decoder returns; broken files tell as much as was read."""

from __future__ import annotations

import io
import json
import pickle
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import lakekit as lk
from lakekit import errors
from lakekit.codec import avro_columns, avro_container, avro_schema, binary_row, index_files, orc_tail
from lakekit.codec.cursor import PADDING_LABEL, UNREAD_LABEL, Cursor, SpanRecorder
from lakekit.draw import hexdump as draw
from lakekit.format import parquet_pages
from lakekit.inspection.hexdump_formats import HEX_FORMATS
from lakekit.model import entry_files, index_manifest, json_codec, manifests
from lakekit.testing.fixtures import fixtures
from lakekit.types import parse
from spec_tests.longer import some

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakekit.inspection.hexdump import Hex

UNKNOWN = {"cast", "blob_file"}
"""Fixtures of no file format that is read: casts of values, and blob files, which are refused."""
ROWS = {"bucket": "binary_row", "simple_stats": "serialized_row"}
JSON = ("snapshot", "changelog", "schema", "tag", "consumer", "statistics")


def row_type(types: list[str]) -> str:
    return f"ROW<{', '.join(f'c{i} {text}' for i, text in enumerate(types))}>"


def cases(folder: str = "formats") -> list[Any]:
    found = sorted((fixtures() / folder).rglob("*.json"))
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found if path.parent.name not in UNKNOWN]


def parts(path: Path) -> Iterator[tuple[bytes, str, dict[str, Any]]]:
    """The pieces of a fixture that are decoded by themselves, the format that says how, and what is known of them."""
    said, data = json.loads(path.read_text(encoding="utf-8")), path.with_suffix(".bin").read_bytes()
    name = said["format"]
    if "vectors" in said and name != "deletion_vectors":
        for vector in said["vectors"]:
            of = vector["type"] if "type" in vector else row_type(vector["types"])
            yield data[vector["offset"] : vector["offset"] + vector["length"]], f"{ROWS.get(name, name)}: {of}", vector
    elif name in ("binary_row", "serialized_row"):
        yield data, f"{name}: {row_type(said['types'])}", said
    elif name.startswith("data_file_"):
        yield data, name.rpartition("_")[2], said
    elif name in ("commit_message", "manifest_committable"):
        yield data, f"{name}: {said['version']}", said
    elif name.startswith("file_index_") and name != "file_index_container":
        yield data, f"{name}: {said['type']}", said
    else:
        yield data, name, said


def covered(shown: Hex) -> None:
    """Marks lie one behind the other, from the first byte to the last."""
    at = 0
    for mark in shown.spans:
        assert (mark.offset, mark.length > 0) == (at, True)
        at = mark.end
    assert at == len(shown.data)


def whole(shown: Hex) -> None:
    """Read to the end: nothing is left without a name."""
    assert shown.error is None
    covered(shown)
    assert [mark for mark in shown.spans if mark.field == UNREAD_LABEL] == []
    assert all(mark.section.startswith("FORMAT ") for mark in shown.spans if mark.field.rpartition(".")[2] != PADDING_LABEL)


@pytest.mark.long
@pytest.mark.parametrize("path", some(cases(), 3))
def test_every_byte_has_one_field(path: Path) -> None:
    for data, name, _ in parts(path):
        shown = lk.hex(data, format=name)
        whole(shown)
        for offset in shown.opens:
            whole(shown.open(offset))
    frame = shown.marks
    assert frame["length"].sum() == len(data)
    assert frame.columns == ["offset", "length", "field", "value", "section"]
    assert len(repr(shown).splitlines()) <= draw.DEFAULT_LINES + 2
    assert len(shown._repr_html_()) < draw.MAX_HTML_BYTES + 500


def test_every_format_has_a_golden_file() -> None:
    there = {name.partition(":")[0] for param in cases() for _, name, _ in parts(param.values[0])}
    assert set(HEX_FORMATS) - there == {"json"}


# ---- values are the decoder's -------------------------------------------------------------------------------------------------------------------


def values(shown: Hex) -> dict[str, Any]:
    return {mark.field: mark.value for mark in shown.spans}


@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name in ("binary_row", "serialized_row", "bucket", "simple_stats")])
def test_rows_say_what_was_decoded(path: Path) -> None:
    for data, name, vector in parts(path):
        types = [parse(text) for text in vector["types"]]
        arity = name.startswith("serialized_row")
        decoded = binary_row.decode_row(binary_row.strip_arity(data)[1] if arity else data, types)
        found = values(lk.hex(data, format=name))
        for i, (value, t) in enumerate(zip(decoded, types, strict=True)):
            if not t.is_nested and t.root != "VARIANT" and value not in ("", b""):
                assert repr(found[f"c{i}"]) == repr(value)
        assert found["row kind"] == data[4 * arity]
        assert found.get("arity", len(types)) == len(types)
        assert found.get("null bits", []) == [f"c{i}" for i, value in enumerate(decoded) if value is None]


@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name in ("binary_array", "binary_map")])
def test_elements_say_what_was_decoded(path: Path) -> None:
    for data, name, vector in parts(path):
        t = parse(vector["type"])
        found = values(lk.hex(data, format=name))
        if t.root == "ARRAY":
            decoded = {"": binary_row.decode_array(data, t.element)}
            assert found["count"] == len(decoded[""])
        else:
            pairs = binary_row.decode_map(data, t)
            decoded = {"keys.": [key for key, _ in pairs], "values.": [value for _, value in pairs]}
        for outer, items in decoded.items():
            for i, item in enumerate(items):
                if not isinstance(item, (list, bytes)) and item != "" and type(item) is not tuple:
                    assert repr(found[f"{outer}element {i}"]) == repr(item)


@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name == "deletion_vectors"])
def test_deletion_vectors_say_their_positions(path: Path) -> None:
    data = path.with_suffix(".bin").read_bytes()
    shown = lk.hex(data)
    assert shown.format == "deletion_vectors"
    for number, wanted in enumerate(index_files.decode_vector_file(data)):
        found = [mark.value for mark in shown.spans if mark.field.startswith(f"vector {number}.") and ".positions" in mark.field]
        positions = [value for value in found if isinstance(value, list)]
        assert [position for some in positions for position in some] == wanted.tolist()


@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name == "hash_index"])
def test_hash_indexes_say_their_hashes(path: Path) -> None:
    data = path.with_suffix(".bin").read_bytes()
    assert [mark.value for mark in lk.hex(data, format="hash_index").spans] == index_files.decode_hash_index(data).tolist()


def rebuilt(found: list[Any], data: bytes, outer: str, wanted: Any) -> Any:
    """A record built of marks, in the shape of the decoded one; bytes that were marked in pieces are the pieces behind each other."""
    match wanted:
        case dict():
            return {name: rebuilt(found, data, f"{outer}.{name}", value) for name, value in wanted.items()}
        case list():
            return [rebuilt(found, data, f"{outer}[{i}]", value) for i, value in enumerate(wanted)]
        case (key, value):
            return rebuilt(found, data, f"{outer} key", key), rebuilt(found, data, outer, value)
    here = [mark for mark in found if mark.field == outer or mark.field.startswith(f"{outer}.")]
    if not here:
        return type(wanted)() if wanted in ("", b"") else None
    return here[0].value if here[0].field == outer else b"".join(data[mark.offset : mark.end] for mark in here)


@pytest.mark.long
@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name in ("manifest", "manifest_list", "index_manifest", "data_file_avro")])
def test_records_say_what_was_decoded(path: Path) -> None:
    """The records by marks are those of the columnar decoder, which plans use."""
    data = path.with_suffix(".bin").read_bytes()
    if not avro_container.is_avro(data):
        assert lk.hex(data).format in ("orc", "parquet")
        return
    container = avro_container.open_container(data, limits=avro_container.DATA_LIMITS)
    columns = {name: column.to_pylist() for name, column in avro_columns.decode_columns([container]).items()}
    names = avro_schema.unwrap_record(container.schema).names
    count, shown = 0, lk.hex(data)
    for offset in shown.opens or [None]:
        inner = shown if offset is None else shown.open(offset)
        records: dict[str, list[Any]] = {}
        for mark in inner.spans:
            if mark.field.startswith("["):
                records.setdefault(mark.field.partition(".")[0], []).append(mark)
        for outer, found in records.items():
            assert outer == f"[{count}]"
            for name in names:
                wanted = columns[name][count]
                assert repr(rebuilt(found, inner.data, f"{outer}.{name}", wanted)) == repr(wanted)
            count += 1
    assert count == container.count


@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name in JSON])
def test_json_says_what_was_decoded(path: Path) -> None:
    data, marks = path.with_suffix(".bin").read_bytes(), SpanRecorder()
    wanted = json_codec.loads(data)
    assert json_codec.record_json_spans(Cursor(data, spans=marks)) == wanted
    found = values(lk.hex(data, format=path.parent.name))
    for name, value in wanted.items():
        if not isinstance(value, (dict, list)):
            assert found[name] == value
    assert lk.hex(data).format in (path.parent.name, "snapshot", "tag")


def test_json_numbers_and_texts_of_every_form() -> None:
    text = '{"a" : [1, -2.50, 1e3, true, false, null, "é\\n\\u00e9\\"", {}, []], "b": {"c": "😀"}}'
    marks = SpanRecorder()
    assert json_codec.record_json_spans(Cursor(text.encode(), spans=marks)) == json_codec.loads(text.encode())
    assert {mark.field: mark.value for mark in marks}["a[1]"] == Decimal("-2.50")
    for wrong in ("", "{", '{"a"}', "[1 2]", "[1,]", "{} x", '{"a": tru}', "{1: 2}", '"', "[[[", "\x00"):
        with pytest.raises(errors.Corrupt):
            json_codec.record_json_spans(Cursor(wrong.encode()))


@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name == "data_file_parquet"])
def test_parquet_says_what_arrow_says(path: Path) -> None:
    data = path.with_suffix(".bin").read_bytes()
    facts = pq.ParquetFile(io.BytesIO(data)).metadata
    footer = parquet_pages.record_footer(Cursor(data))
    assert footer["num_rows"] == facts.num_rows
    assert footer["created_by"].decode() == facts.created_by
    assert len(footer["row_groups"]) == facts.num_row_groups
    for i, group in enumerate(footer["row_groups"]):
        assert group["num_rows"] == facts.row_group(i).num_rows
        for j, column in enumerate(group["columns"]):
            wanted, found = facts.row_group(i).column(j), column["meta_data"]
            assert ".".join(part.decode() for part in found["path_in_schema"]) == wanted.path_in_schema
            assert found["data_page_offset"] == wanted.data_page_offset
            assert found["num_values"] == wanted.num_values
            assert found["total_compressed_size"] == wanted.total_compressed_size
            assert found.get("dictionary_page_offset") == wanted.dictionary_page_offset
    pages = Counter(mark.field.rpartition(" ")[2] for mark in lk.hex(data).spans if mark.field.endswith((".data", ".dictionary")))
    assert pages


@pytest.mark.parametrize("path", [case for case in cases() if case.values[0].parent.name == "data_file_orc"])
def test_orc_says_where_streams_are(path: Path) -> None:
    data = path.with_suffix(".bin").read_bytes()
    tail, found = orc_tail.parse_tail(data), lk.hex(data).spans
    assert found[0].value == b"ORC"
    assert found[-1].value == data[-1]
    for number, stripe in enumerate(tail.stripes):
        inside = [mark for mark in found if mark.field.startswith(f"stripe {number}.column ")]
        assert inside[0].offset == stripe.offset
        assert sum(mark.length for mark in inside) == stripe.index_bytes + stripe.data_bytes


def test_manifests_decode_to_what_is_marked() -> None:
    """The whole way: facts of the model against marks of the file."""
    data = (fixtures() / "formats/manifest_list/avro_null.bin").read_bytes()
    found = values(lk.hex(data))
    for i, one in enumerate(manifests.decode_list(data)):
        assert (found[f"[{i}]._FILE_NAME"], found[f"[{i}]._FILE_SIZE"], found[f"[{i}]._SCHEMA_ID"]) == (one.name, one.size_bytes, one.schema_id)
    data = (fixtures() / "formats/index_manifest/avro_null.bin").read_bytes()
    found = values(lk.hex(data))
    for i, entry in enumerate(index_manifest.decode_index_manifest(data)):
        assert (found[f"[{i}]._FILE_NAME"], found[f"[{i}]._ROW_COUNT"]) == (entry.file_name, entry.row_count)
        for j, part in enumerate(entry.ranges):
            assert (found[f"[{i}]._DELETIONS_VECTORS_RANGES[{j}].f0"], found[f"[{i}]._DELETIONS_VECTORS_RANGES[{j}].f1"]) == (part.file_name, part.offset)
    data = (fixtures() / "formats/manifest/avro_null.bin").read_bytes()
    assert entry_files.decode_entries([entry_files.ManifestBytes("manifest", data)]) is not None
    assert "[0]._FILE._MIN_KEY.slot 0" in values(lk.hex(data))


# ---- broken files ---------------------------------------------------------------------------------------------------------------------------------

UNTOLD = {"data_file_orc/data_garbage", "data_file_parquet/data_garbage"}
"""Damage inside data pages and streams, which are shown as one stretch each."""


@pytest.mark.parametrize("path", some(cases("broken"), 3))
def test_broken_files_are_shown_as_far_as_they_were_read(path: Path) -> None:
    said = json.loads(path.read_text(encoding="utf-8"))
    if f"{path.parent.name}/{path.stem}" in UNTOLD:
        return
    for data, name, _ in parts(path):
        shown = lk.hex(data, format=name)
        assert isinstance(shown.error, getattr(errors, said["error"]))
        covered(shown)
        if said["offset"] is not None:
            assert shown.error_at == said["offset"]
        row = shown.marks.filter(shown.marks["field"] == "error")
        assert row["value"].to_list() == [str(shown.error)]
        assert str(shown.error)[:60] in repr(shown)
        assert (
            all(mark.offset >= (shown.error_at or 0) or mark.field != UNREAD_LABEL for mark in shown.spans) or shown.error_at is None or said["offset"] is None
        )


def test_what_was_read_before_the_error_is_named() -> None:
    shown = lk.hex(fixtures() / "broken/deletion_vectors/roaring_truncated.bin")
    assert [mark.field for mark in shown.spans[:3]] == ["version", "vector 0.length", "vector 0.magic"]
    assert shown.error is not None


# ---- what it is given -------------------------------------------------------------------------------------------------------------------------------


def test_a_file_of_a_table_knows_the_types_of_its_rows() -> None:
    table = fixtures() / "flights" / "table"
    manifests = sorted(path for path in (table / "manifest").iterdir() if path.name.startswith("manifest-") and "list" not in path.name)
    shown = lk.hex(manifests[0])
    assert shown.format == "manifest"
    found = values(shown.open())
    assert isinstance(found["[0]._FILE._MIN_KEY.carrier"], str)
    assert isinstance(found["[0]._FILE._VALUE_STATS._MIN_VALUES.status"], str)
    formats = {lk.hex(path).format for folder in ("manifest", "snapshot", "schema") for path in (table / folder).iterdir()}
    assert formats == {"manifest", "manifest_list", "snapshot", "schema", "hint"}
    data_files = sorted(table.rglob("data-*"))
    assert lk.hex(data_files[0]).format == "parquet"


def test_bytes_tell_their_format_where_they_can() -> None:
    for name in ("manifest", "manifest_list", "index_manifest", "deletion_vectors", "file_index_container", "hint", "schema", "consumer"):
        for path in sorted((fixtures() / "formats" / name).glob("*.bin")):
            found = lk.hex(path.read_bytes()).format
            assert found == (path.stem.partition("_")[0] if path.stem.startswith(("orc_", "parquet_")) else name)
    assert lk.hex((fixtures() / "formats/data_split/everything_v8.bin").read_bytes()).format == "data_split"


def test_what_cannot_be_told_is_asked_for() -> None:
    with pytest.raises(errors.InvalidOption, match="give format= one of snapshot"):
        lk.hex(b"\x07\x07\x07")
    with pytest.raises(errors.InvalidOption, match="no format is called 'png'"):
        lk.hex(b"", format="png")
    with pytest.raises(errors.InvalidOption, match="do not say their type"):
        lk.hex(bytes(8), format="binary_row")
    with pytest.raises(errors.InvalidOption, match="'ROW<a NUMBER>' is no type"):
        lk.hex(bytes(16), format="binary_row: ROW<a NUMBER>")
    with pytest.raises(errors.InvalidOption, match="is no type"):
        lk.hex(bytes(16), format="file_index_bitmap: SOME")
    with pytest.raises(errors.InvalidOption, match="is no version"):
        lk.hex(bytes(8), format="commit_message: new")
    with pytest.raises(errors.StorageFailed):
        lk.hex("no/such/file")
    with pytest.raises(errors.NotFound, match="no compressed block"):
        lk.hex(b"31").open()
    assert lk.hex(memoryview(b"31"), format=None).spans[0].value == 31
    assert values(lk.hex(binary_row.encode_row([7], [parse("INT")]), format="ROW<id INT>"))["id"] == 7


def test_marks_are_found_by_their_bytes() -> None:
    shown = lk.hex(fixtures() / "formats/deletion_vectors/mixed.bin")
    for at in range(len(shown.data)):
        mark = shown.at(at)
        assert mark.offset <= at < mark.end
    with pytest.raises(IndexError):
        shown.at(len(shown.data))
    assert np.array(shown.marks["length"]).sum() == len(shown.data)
    assert {shown, pickle.loads(pickle.dumps(shown))} == {shown}
