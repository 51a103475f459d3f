"""Avro of any schema: what we write fastavro reads, what fastavro writes we read, a value at a time and a column at a time, in any number of blocks.

Damaged bytes give a value or an error of ours, and small files never much memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import tracemalloc
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.codec import avro_columns, avro_container, avro_schema, avro_values, avro_vectors
from lakekit.errors import Corrupt, LimitExceeded, Unsupported
from lakekit.model import entry_files, index_manifest, manifests
from lakekit.model.entry_files import ManifestBytes
from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator

CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
WHOLE = {"int": st.integers(-(2**31), 2**31 - 1), "long": st.integers(-(2**63), 2**63 - 1)}
NUMBERS = {
    "boolean": st.booleans(),
    "int": st.one_of(st.integers(-70, 70), WHOLE["int"]),
    "long": st.one_of(st.integers(-70, 70), WHOLE["long"]),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=80),
    "string": st.text(max_size=80),
}


@st.composite
def types(draw: st.DrawFn, depth: int = 0) -> Any:
    """An Avro type that has columns, as JSON."""
    simple = st.sampled_from(list(NUMBERS))
    if depth > 2:
        return draw(simple)
    shape = draw(st.sampled_from(["simple", "simple", "null", "last null", "array", "map", "record", "fixed", "enum", "many"]))
    name = f"n{draw(st.uuids()).hex}"
    match shape:
        case "null":
            return ["null", draw(types(depth + 1).filter(lambda t: not isinstance(t, list)))]
        case "last null":
            return [draw(simple), "null"]
        case "array":
            return {"type": "array", "items": draw(types(depth + 1))}
        case "map":
            return {"type": "map", "values": draw(types(depth + 1))}
        case "record":
            parts = draw(st.lists(types(depth + 1), min_size=1, max_size=4))
            return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": part} for i, part in enumerate(parts)]}
        case "fixed":
            return {"type": "fixed", "name": name, "size": draw(st.integers(1, 20))}
        case "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
        case "many":
            return {"type": "array", "items": ["null", draw(simple)]}
    return draw(simple)


def values(t: Any) -> st.SearchStrategy[Any]:
    """Values of a type as our reader gives them: a map is a list of pairs."""
    if isinstance(t, str):
        return NUMBERS[t]
    if isinstance(t, list):
        inner = next(part for part in t if part != "null")
        return st.none() | values(inner)
    match t["type"]:
        case "array":
            return st.lists(values(t["items"]), max_size=6)
        case "map":
            return st.dictionaries(st.text(max_size=5), values(t["values"]), max_size=4).map(lambda found: list(found.items()))
        case "record":
            return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in t["fields"]})
        case "fixed":
            return st.binary(min_size=t["size"], max_size=t["size"])
        case "enum":
            return st.sampled_from(t["symbols"])
    raise AssertionError(t)


@st.composite
def files(draw: st.DrawFn, rows: int = 8) -> tuple[Any, list[dict[str, Any]]]:
    """A schema and some records of it."""
    parts = draw(st.lists(types(), min_size=1, max_size=4))
    schema = {"type": "record", "name": "record", "fields": [{"name": f"c{i}", "type": part} for i, part in enumerate(parts)]}
    return schema, draw(st.lists(values(schema), max_size=rows))


def for_fastavro(value: Any, t: Any) -> Any:
    """The same value as fastavro holds it: a map is a dict."""
    if isinstance(t, str) or value is None:
        return value
    if isinstance(t, list):
        return for_fastavro(value, next(part for part in t if part != "null"))
    match t["type"]:
        case "array":
            return [for_fastavro(item, t["items"]) for item in value]
        case "map":
            return {key: for_fastavro(item, t["values"]) for key, item in value}
        case "record":
            return {field["name"]: for_fastavro(value[field["name"]], field["type"]) for field in t["fields"]}
    return value


def encoded(schema: Any, rows: list[dict[str, Any]]) -> tuple[bytes, list[bytes]]:
    text = json.dumps(schema).encode()
    write = avro_values.build_writer(avro_schema.parse_schema(text))
    found = []
    for row in rows:
        out = bytearray()
        write(out, row)
        found.append(bytes(out))
    return text, found


@contextlib.contextmanager
def always(**constants: int) -> Iterator[None]:
    """Which way of decoding is taken, whatever the size."""
    places = {"FEW_RECORDS": avro_columns, "FEW_LANES": avro_vectors}
    before = {name: getattr(places[name], name) for name in constants}
    for name, value in constants.items():
        setattr(places[name], name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(places[name], name, value)


def columns(data: bytes) -> list[dict[str, Any]]:
    """The records, decoded a column at a time."""
    container = avro_container.open_container(data)
    found = avro_columns.decode_columns([container])
    return [{name: found[name][i].as_py() for name in found} for i in range(container.count)]


WAYS = [{"FEW_RECORDS": -1, "FEW_LANES": 1}, {"FEW_RECORDS": -1, "FEW_LANES": 1000}, {"FEW_RECORDS": 1000}]


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(files(), st.sampled_from(CODECS), st.sampled_from([1, 100, 64_000]))
def test_what_we_write(file: tuple[Any, list[dict[str, Any]]], codec: str, interval: int) -> None:
    schema, rows = file
    text, parts = encoded(schema, rows)
    data = avro_container.write_container(text, parts, codec=codec, interval=interval)
    assert avro_columns.read_records(avro_container.open_container(data)) == rows
    for way in WAYS:
        with always(**way):
            assert columns(data) == rows
    assert list(fastavro.reader(io.BytesIO(data))) == [for_fastavro(row, schema) for row in rows]


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(files(), st.sampled_from([1, 64_000]))
def test_what_fastavro_writes(file: tuple[Any, list[dict[str, Any]]], interval: int) -> None:
    schema, rows = file
    out = io.BytesIO()
    fastavro.writer(out, schema, [for_fastavro(row, schema) for row in rows], codec="deflate", sync_interval=interval)
    data = out.getvalue()
    assert avro_columns.read_records(avro_container.open_container(data)) == rows
    for way in WAYS:
        with always(**way):
            assert columns(data) == rows


def test_skipped_columns() -> None:
    parts = {"a": "string", "b": {"type": "array", "items": "long"}, "c": "int"}
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": t} for name, t in parts.items()]}
    text, rows = encoded(schema, [{"a": "x" * i, "b": list(range(i)), "c": i} for i in range(100)])
    container = avro_container.open_container(avro_container.write_container(text, rows, interval=50))
    found = avro_columns.decode_columns([container], columns={"c"})
    assert list(found) == ["c"]
    assert found["c"].to_pylist() == list(range(100))


def test_blocks_within_arrays() -> None:
    """An array may come in several blocks, each with its size in bytes: a negative count says so."""
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}).encode()
    body = bytes.fromhex("04 0204 03 04 0608 00".replace(" ", ""))  # 2 items: 1 2, then -2 items in 2 bytes: 3 4, then none
    body += bytes.fromhex("00")
    for way in WAYS:
        with always(**way):
            assert columns(avro_container.write_container(text, [body[:-1], body[-1:]])) == [{"a": [1, 2, 3, 4]}, {"a": []}]


def test_numbers_of_every_length() -> None:
    numbers = [n for bit in range(64) for n in (1 << bit, -(1 << bit), (1 << bit) - 1) if -(2**63) <= n < 2**63]
    out = bytearray()
    places = []
    for number in numbers:
        places.append(len(out))
        avro_container.append_long(out, number)
    lanes = avro_vectors.VectorReader([bytes(out)])
    found, after = lanes.read_longs(np.array(places, np.int64))
    assert found.tolist() == numbers
    assert after.tolist() == [*places[1:], len(out)]
    assert [avro_container.read_long(bytes(out), at, "n")[0] for at in places] == numbers


# ---- damage ----------------------------------------------------------------------------------------------------------------------------------------------

GOLDEN = {
    name: [(path.name, path.read_bytes()) for path in sorted((fixtures() / "formats" / name).glob("*.bin")) if path.stat().st_size < 20_000]
    for name in ("manifest", "manifest_list", "index_manifest")
}
DECODE = {
    "manifest": lambda data: entry_files.decode_entries([ManifestBytes("m", data)])[0].files(),
    "manifest_list": lambda data: manifests.decode_list(data, path="m"),
    "index_manifest": lambda data: index_manifest.decode_index_manifest(data, path="m"),
}


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A golden file with some bytes changed, cut or repeated."""
    kind = draw(st.sampled_from(list(GOLDEN)))
    _, data = draw(st.sampled_from(GOLDEN[kind]))
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(found) - 1))
        match draw(st.sampled_from(["change", "change", "change", "cut", "insert", "repeat"])):
            case "change":
                found[at] = draw(st.integers(0, 255))
            case "cut":
                del found[at : at + draw(st.integers(1, 50))]
            case "insert":
                found[at:at] = draw(st.binary(min_size=1, max_size=10))
            case "repeat":
                found[at:at] = found[at : at + draw(st.integers(1, 50))]
        if not found:
            break
    return kind, bytes(found)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(damaged(), st.sampled_from(WAYS))
def test_damaged_files_give_a_value_or_an_error_of_ours(file: tuple[str, bytes], way: dict[str, int]) -> None:
    kind, data = file
    with always(**way):
        try:
            DECODE[kind](data)
        except Corrupt as error:
            assert error.path == "m"
            assert error.field
            # rows of Parquet and ORC files have no offset of their own
            assert error.offset is not None or data[:3] in (b"PAR", b"ORC")
        except Unsupported as error:
            assert error.feature


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(WAYS))
def test_damaged_records_behind_a_good_frame(data: st.DataObject, way: dict[str, int]) -> None:
    """The same inside the blocks, where no checksum and no frame helps."""
    container = avro_container.open_container((fixtures() / "formats/manifest/avro_null.bin").read_bytes())
    body = bytearray(container.blocks[0].data)
    for at in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        body[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]))
    counts = container.blocks[0].count
    head = bytearray(avro_container.MAGIC)
    text = container.metadata["avro.schema"]
    for part in (1, b"avro.schema", text):
        avro_container.append_long(head, part if isinstance(part, int) else len(part))
        head += b"" if isinstance(part, int) else part
    head += b"\0" + bytes(16)
    for number in (counts, len(body)):
        avro_container.append_long(head, number)
    broken = bytes(head + body + bytes(16))
    with always(**way):
        try:
            one = entry_files.decode_entries([ManifestBytes("m", broken), ManifestBytes("n", broken)])[0]
        except Corrupt as error:
            assert error.path in {"m", "n"}
            assert error.offset is not None
        except Unsupported as error:
            assert error.feature
        else:
            # what is decoded together is what is decoded alone, value by value
            alone = avro_columns.read_records(avro_container.open_container(broken))
            assert [row["_FILE"]["_FILE_NAME"] for row in alone] * 2 == one.column("file_name").to_pylist()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for prefix in (b"", avro_container.MAGIC, b"PAR1", b"ORC"):
        for decode in DECODE.values():
            with contextlib.suppress(Corrupt, Unsupported):
                decode(prefix + data)


LONGS = b'{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"long"}}]}'
NOTHING = b'{"type":"record","name":"r","fields":[{"name":"a","type":"null"}]}'


def hostile(schema: bytes, codec: str, body: bytes, count: int) -> bytes:
    whole = avro_container.write_container(schema, [], codec=codec, sync=bytes(16))
    out = bytearray()
    packed = avro_container.compress_block(body, codec)
    avro_container.append_long(out, count)
    avro_container.append_long(out, len(packed))
    return whole + bytes(out) + packed + bytes(16)


def array_of(count: int, rest: bytes) -> bytes:
    out = bytearray()
    avro_container.append_long(out, count)
    return bytes(out) + rest


BOMBS = {f"bomb-{codec}": codec for codec in ("deflate", "zstandard", "bzip2", "xz")}
"""Made when they are asked for: packing takes longer than all the other files."""
HOSTILE = {
    "snappy says 2 GiB": hostile(LONGS, "null", b"", 1)[: -len(b"\x02\x00") - 16].replace(b"\x08null", b"\x0csnappy")
    + b"\x02\x14"
    + b"\xff\xff\xff\xff\x07"
    + b"12345"
    + bytes(16),
    "many items": hostile(LONGS, "deflate", array_of(10**12, bytes(1000)), 1),
    "many items that are there": hostile(LONGS, "deflate", array_of(200_000, bytes(200_001)), 1),
    "many rows": hostile(LONGS, "deflate", bytes(1_000_000), 1_000_000),
    "rows without bytes": hostile(NOTHING, "null", b"", 10**15),
    "metadata": avro_container.MAGIC + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
    "deep schema": avro_container.write_container(b"[" * 100_000, []),
    "wide schema": avro_container.write_container(
        b'{"type":"record","name":"a0","fields":['
        + b"".join(b'{"name":"f%d","type":{"type":"record","name":"a%d","fields":[' % (i, i + 1) for i in range(30))
        + b'{"name":"x","type":"int"}'
        + b']}},{"name":"g","type":"int"}' * 30
        + b"]}",
        [],
    ),
    "doubling schema": avro_container.write_container(
        b'{"type":"record","name":"a0","fields":['
        + b"".join(
            b'{"name":"f%d","type":{"type":"record","name":"b%d","fields":[{"name":"x","type":%s},{"name":"y","type":%s}]}}%s'
            % (i, i, *([b'"b%d"' % (i - 1) if i else b'"int"'] * 2), b"," if i < 50 else b"")
            for i in range(51)
        )
        + b"]}",
        [],
    ),
}


@cache
def bomb(name: str) -> bytes:
    return hostile(LONGS, BOMBS[name], bytes(60 << 20), 1)


@pytest.mark.parametrize("name", [*BOMBS, *HOSTILE])
def test_small_files_never_cost_much(name: str) -> None:
    """A file of some kilobytes is refused, or read, within 64 MiB of memory above its own size and in little time."""
    data = bomb(name) if name in BOMBS else HOSTILE[name]
    assert len(data) < 110_000
    tracemalloc.start()
    try:
        with contextlib.suppress(Corrupt, Unsupported):
            container = avro_container.open_container(data, path="f")
            avro_columns.decode_columns([container])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (64 << 20) + len(data)


@pytest.mark.parametrize("codec", ["zstandard", "deflate", "bzip2", "xz", "snappy", "null"])
def test_what_is_written_can_be_read(codec: str) -> None:
    """Values that shrink to nothing, as long keys and empty indexes do, are packed so that no reader takes them for a bomb."""
    value = bytearray()
    avro_container.append_long(value, 3_000_000)
    values = [bytes(value) + bytes([n]) * 3_000_000 for n in range(12)]
    data = avro_container.write_container(b'{"type":"bytes"}', values, codec=codec)
    assert b"".join(block.data for block in avro_container.open_container(data).blocks) == b"".join(values)
    few = avro_container.write_container(b'{"type":"bytes"}', values[:1], codec=codec)
    assert avro_container.open_container(few).codec == codec
    joined = avro_container.join_containers([avro_container.open_container(few)] * 12, codec=codec)
    assert avro_container.open_container(joined).size == 12 * len(values[0])


def test_limits_are_said() -> None:
    with pytest.raises(LimitExceeded, match="inflates to more than the"):
        avro_container.open_container(bomb("bomb-zstandard"))
    with pytest.raises(LimitExceeded, match="more than 100000 types"):
        avro_container.open_container(HOSTILE["doubling schema"])
    with pytest.raises(Unsupported, match="contains itself"):
        avro_schema.parse_schema(b'{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]}')
    with pytest.raises(Unsupported, match="lzo"):
        avro_container.open_container(avro_container.write_container(LONGS, [], codec="null").replace(b"\x08null", b"\x06lzo"))


def test_checksum_of_snappy() -> None:
    data = avro_container.write_container(LONGS, [b"\0"] * 10, codec="snappy", sync=bytes(16))
    body = bytes(10)
    assert zlib.crc32(body).to_bytes(4, "big") in data
    broken = data.replace(zlib.crc32(body).to_bytes(4, "big"), bytes(4))
    with pytest.raises(Corrupt, match="checksum"):
        avro_container.open_container(broken)


def test_floats_keep_their_bits() -> None:
    text = b'{"type":"record","name":"r","fields":[{"name":"a","type":"double"},{"name":"b","type":"float"}]}'
    rows = [{"a": -0.0, "b": math.inf}, {"a": 5e-324, "b": -0.0}] * 20
    _, parts = encoded(json.loads(text), rows)
    found = columns(avro_container.write_container(text, parts))
    assert [(math.copysign(1, row["a"]), row["b"]) for row in found[:2]] == [(-1, math.inf), (1, -0.0)]
    assert found == rows


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_guess_changes_an_answer(data: st.DataObject) -> None:
    """Guessed starts are believed only when every record ends where the next one starts: right, wrong and made-up guesses all lead to the same columns."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}, {"name": "b", "type": {"type": "array", "items": "int"}}]}
    rows = data.draw(st.lists(st.fixed_dictionaries({"a": st.binary(max_size=4), "b": st.lists(st.integers(-2, 2), max_size=3)}), min_size=1, max_size=30))
    text, parts = encoded(schema, rows)
    container = avro_container.open_container(avro_container.write_container(text, parts, interval=data.draw(st.sampled_from([1, 20, 1000]))))
    size = sum(len(part) for part in parts)
    right = list(np.cumsum([0, *(len(part) for part in parts[:-1])]))
    wrong = data.draw(st.lists(st.integers(0, size - 1), max_size=3))
    guess = data.draw(st.sampled_from([right, sorted({*right, *wrong}), sorted({*right} - {*wrong}), [min(at + 1, size) for at in right], sorted({*wrong})]))
    with always(FEW_RECORDS=-1):
        found = avro_columns.decode_columns([container], guess=lambda _: np.array(guess, np.int64))
    assert found["a"].to_pylist() == [row["a"] for row in rows]
    assert found["b"].to_pylist() == [row["b"] for row in rows]
