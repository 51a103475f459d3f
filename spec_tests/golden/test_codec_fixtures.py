"""Every fixture of a byte format that this library decodes: what the reference wrote is understood, and written again byte for byte."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from lakekit import registry
from lakekit.codec import binary_row, binary_value, deletion_vector, hash_index, hashing, index_container, internal
from lakekit.predicate import Leaf
from lakekit.testing.fixtures import fixtures
from lakekit.types import DataType, Instant, parse, part
from spec_tests.longer import some

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = {
    *("binary_array", "binary_map", "binary_row", "serialized_row", "bucket", "deletion_vectors", "hash_index"),
    *("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_container", "file_index_range_bitmap"),
}
EPOCH = date(1970, 1, 1)


def cases(*formats: str) -> list[Any]:
    """The cases of some formats, one test each."""
    found = sorted(path for name in formats for path in (fixtures() / "formats" / name).glob("*.json"))
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found]


def load(path: Path) -> tuple[dict[str, Any], bytes]:
    return json.loads(path.read_text("utf-8")), path.with_suffix(".bin").read_bytes()


def value_of(recorded: Any, t: DataType) -> Any:
    """A recorded value as an internal value."""
    if recorded is None:
        return None
    match t.root:
        case "FLOAT":
            return float(np.float32(recorded))
        case "DOUBLE":
            return float(recorded)
        case "DECIMAL":
            return Decimal(recorded)
        case "BINARY" | "VARBINARY" | "BLOB":
            return bytes.fromhex(recorded)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return Instant(*recorded)
        case "ARRAY":
            return [value_of(item, part(t.element)) for item in recorded]
        case "MAP" | "MULTISET":
            key, value = binary_value.map_types(t)
            return [(value_of(k, key), value_of(v, value)) for k, v in recorded]
        case "ROW":
            return tuple(value_of(item, f.type) for item, f in zip(recorded, t.fields, strict=True))
        case "VARIANT":
            return bytes.fromhex(recorded[0]), bytes.fromhex(recorded[1])
    return recorded


def literal_of(recorded: Any, t: DataType) -> Any:
    """A recorded literal as a caller would write it."""
    if t.root == "DATE":
        return EPOCH + timedelta(days=recorded)
    if t.root == "TIME":
        return (datetime.min.replace(tzinfo=UTC) + timedelta(milliseconds=recorded)).time() if recorded < 86_400_000 else time.max
    return value_of(recorded, t)


def test_the_fixtures_are_there() -> None:
    assert {name for name in FORMATS if not cases(name)} == set()


@pytest.mark.parametrize("path", cases("binary_row", "serialized_row"))
def test_rows(path: Path) -> None:
    said, data = load(path)
    for vector in said["vectors"]:
        types = [parse(text) for text in vector["types"]]
        values = tuple(value_of(value, t) for value, t in zip(vector["values"], types, strict=True))
        row = data[vector["offset"] : vector["offset"] + vector["length"]]
        if said["format"] == "serialized_row":
            arity, row = binary_row.strip_arity(row)
            assert (arity, binary_row.with_arity(row, arity)) == (len(types), data[vector["offset"] : vector["offset"] + vector["length"]])
        kind = ("+I", "-U", "+U", "-D").index(vector.get("kind", "+I"))
        assert repr(binary_row.decode(row, types)) == repr(values)
        canonical = binary_value.encode_row(values, types, kind) == row
        assert canonical or said["origin"] == "hand"  # by hand: text outside its slot, nulls of old engines
        assert vector.get("hash") in (None, hashing.hash_bytes(row))
        check_columns(row, types, values, canonical=canonical and kind == 0)


def check_columns(row: bytes, types: list[DataType], values: tuple[Any, ...], *, canonical: bool) -> None:
    columns = [internal.array_of([value, None, value], t) for value, t in zip(values, types, strict=True)]
    if any(value is not None and column.null_count > 1 for value, column in zip(values, columns, strict=True)):
        return  # a timestamp outside the int64 of its unit
    if types and canonical:
        assert binary_row.encode_columns(columns, types).take([0, 2]).to_pylist() == [row, row]
    decoded = binary_row.decode_columns(pa.array([None, binary_row.with_arity(row, len(types))]), types, arity_exact=True)
    assert repr([internal.values_of(column, t) for column, t in zip(decoded, types, strict=True)]) == repr([[None, value] for value in values])


@pytest.mark.parametrize("path", cases("binary_array", "binary_map"))
def test_arrays_and_maps(path: Path) -> None:
    said, data = load(path)
    for vector in said["vectors"]:
        t = parse(vector["type"])
        value, body = value_of(vector["value"], t), data[vector["offset"] : vector["offset"] + vector["length"]]
        if t.root == "ARRAY":
            assert repr(binary_row.decode_array(body, part(t.element))) == repr(value)
            assert binary_row.encode_array(value, part(t.element)) == body
        else:
            assert repr(binary_row.decode_map(body, t)) == repr(value)
            assert binary_row.encode_map(value, t) == body


@pytest.mark.long
@pytest.mark.parametrize("path", cases("bucket"))
def test_buckets(path: Path) -> None:
    said, data = load(path)
    for vector in said["vectors"]:
        types = [parse(text) for text in vector["types"]]
        values = [value_of(value, t) for value, t in zip(vector["values"], types, strict=True)]
        columns = [internal.array_of([value], t) for value, t in zip(values, types, strict=True)]
        if any(value is not None and column.null_count for value, column in zip(values, columns, strict=True)):
            assert {t.precision for t in types} & {7, 8, 9}  # a timestamp outside the int64 of its unit: one value at a time
            assert hashing.hash_bytes(binary_row.encode(values, types)) == vector["hash"]
            continue
        assert binary_row.encode_columns(columns, types)[0].as_py() == data[vector["offset"] : vector["offset"] + vector["length"]]
        assert hashing.hash_columns(columns, types).tolist() == [vector["hash"]]
        for count, bucket in vector["count_bucket"]:
            assert hashing.buckets(said["function"], columns, types, count).tolist() == [bucket]


@pytest.mark.parametrize("path", cases("deletion_vectors"))
def test_deletion_vectors(path: Path) -> None:
    said, data = load(path)
    wanted = [np.concatenate([np.arange(a, b + 1, step) for a, b, step in v["runs"]] or [np.zeros(0, np.int64)]) for v in said["vectors"]]
    assert [found.tolist() for found in deletion_vector.read_file(data)] == [positions.tolist() for positions in wanted]
    if said["origin"] == "reference":  # by hand: what no writer makes and every reader takes
        written, ranges = deletion_vector.write_file(wanted, said["bits"])
        assert written == data
        assert [tuple(place) for place in ranges] == [(v["f1"], v["f2"], v["cardinality"]) for v in said["vectors"]]
    for vector, positions in zip(said["vectors"], wanted, strict=True):
        entry = data[vector["f1"] : vector["f1"] + vector["f2"] + deletion_vector.ENTRY_EXTRA]
        assert deletion_vector.decode_entry(entry, limit=len(positions)).tolist() == positions.tolist()


@pytest.mark.parametrize("path", cases("hash_index"))
def test_hash_indexes(path: Path) -> None:
    said, data = load(path)
    assert hash_index.decode(data).tolist() == said["hashes"]
    assert hash_index.encode(np.array(said["hashes"], np.int32)) == data


@pytest.mark.parametrize("path", cases("file_index_container"))
def test_index_containers(path: Path) -> None:
    said, data = load(path)
    meaning = {column: {kind: None if text is None else bytes.fromhex(text) for kind, text in kinds.items()} for column, kinds in said["columns"].items()}
    assert index_container.decode(data) == meaning
    assert index_container.decode(index_container.encode(meaning)) == meaning
    assert len(index_container.encode(meaning)) == len(data) or said["origin"] == "hand"


@pytest.mark.long
@pytest.mark.parametrize("path", some(cases("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"), 3))
def test_indexes(path: Path) -> None:
    said, data = load(path)
    index: Any = registry.load("index", said["index"])
    t = parse(said["type"])
    values = [value_of(value, t) for value in said["values"]]
    built = index.build(internal.array_of(values, t), t, said["options"])
    assert len(built) == len(data)
    assert built == data or said["index"] == "bitmap"  # the order of bitmaps is that of a Java hash map
    for probe in said["probes"]:
        leaf = Leaf("c", probe["operator"].replace("<>", "!="), tuple(literal_of(value, t) for value in probe["literals"]))
        for payload in (data, built):
            check_probe(index.probe(payload, t, leaf, len(values)), probe, t, values)


def check_probe(found: Any, probe: dict[str, Any], t: DataType, values: list[Any]) -> None:
    """Exactly the answer of the reference, but for numbers that have two forms and timestamps finer than an index stores."""
    if isinstance(probe["result"], str):
        assert found is (probe["result"] == "remain")
        return
    recorded = {row for run in probe["result"] for row in ([run] if isinstance(run, int) else range(run[0], run[1] + 1))}
    rows = set(range(len(values))) if found is True else set() if found is False else set(found)
    literals = [value_of(value, t) for value in probe["literals"]]
    two_forms = any(isinstance(value, float) and (value == 0 or math.isnan(value)) for value in literals)
    if not two_forms and not (t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and (t.precision or 0) > 6):
        assert rows == recorded
    elif probe["operator"] in ("=", "in"):
        assert rows >= recorded
    elif probe["operator"] in ("<>", "not in"):
        assert rows >= {i for i, value in enumerate(values) if value is not None and value not in literals}
    else:
        assert rows >= {i for i in recorded if values[i] not in literals}
