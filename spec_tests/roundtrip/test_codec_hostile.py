"""Any bytes give a value, or are refused by name: never a foreign exception, a crash, or memory out of proportion to what was given."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lakekit import plugins
from lakekit.codec import index_files, roaring
from lakekit.codec.cursor import Cursor, SpanRecorder, encode_java_utf
from lakekit.errors import Corrupt, LimitExceeded, Unsupported, ValueOutOfRange
from lakekit.file_index import container
from lakekit.file_index.evaluator import evaluate_indexes
from lakekit.model import commit_message, split
from lakekit.predicate import LEAF_OPERATORS, And, Leaf
from lakekit.testing.fixtures import fixtures
from lakekit.types import arrow, parse

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
INT, TEXT = parse("INT"), parse("STRING")


def probe_all(name: str, payload: bytes) -> None:
    """Every question of an index of integers, and of one of texts."""
    index: Any = plugins.load("file_index", name)
    for t, some in ((INT, 7), (TEXT, "b")):
        if t.root in index.TYPES:
            for op in LEAF_OPERATORS:
                ask(index, payload, t, Leaf("c", op, () if "null" in op else ("b",) if op == "starts with" else (some,)))


def ask(index: Any, payload: bytes, t: Any, leaf: Leaf) -> None:
    found = index.probe(payload, t, leaf, 5)
    assert isinstance(found, bool) or found.max() < 5


def sample(name: str) -> list[bytes]:
    index: Any = plugins.load("file_index", name)
    texts = [] if name == "bsi" else [index.build(arrow.to_arrow_array(["b", "a", None, "ccc", "b"], TEXT), TEXT, {"items": "5", "chunk-size": "20b"})]
    options = [{"items": "5"}, {"version": "1"}, {"index-block-size": "20b", "chunk-size": "8b"}]
    return [*texts, *(index.build(arrow.to_arrow_array([7, -3, None, 2, 7], INT), INT, said) for said in options)]


def stored(*names: str) -> list[bytes]:
    return [path.read_bytes() for name in names for path in sorted((fixtures() / "formats" / name).glob("*.bin")) if path.stat().st_size < 3000]


RUNS = roaring.encode_positions(np.concatenate([np.arange(300), np.arange(70_000, 90_000), np.arange(200_000, 300_000, 3), [2**32 - 1]]).astype(np.uint32))
CODECS: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "bitmap": (roaring.decode_positions, [RUNS, roaring.encode_positions(np.array([1, 5, 9], np.uint32)), roaring.encode_positions(np.zeros(0, np.uint32))]),
    "roaring": (lambda data: roaring.decode_bitmap(data).max(), [RUNS]),
    "deletion vector": (index_files.decode_vector_entry, [index_files.encode_vector_entry(np.array([1, 2**33], np.uint64), 64)]),
    "deletion vector data": (
        index_files.decode_deletion_vector,
        [index_files.encode_deletion_vector(np.array([1, 2**33], np.uint64), 64), b"\x5e\x43\xf2\xd0" + RUNS],
    ),
    "deletion file": (index_files.decode_vector_file, [index_files.encode_vector_file([np.array([1, 7], np.uint32), np.arange(9, dtype=np.uint32)])[0]]),
    "hash index": (index_files.decode_hash_index, [bytes(range(40))]),
    "index container": (container.decode_container, stored("file_index_container")),
    "split": (split.decode_split, stored("data_split")),
    "message": (lambda data: [commit_message.decode_message(data, version) for version in (2, 3, 6, 11)], stored("commit_message")),
    "committable": (lambda data: [commit_message.decode_committable(data, version) for version in (2, 4, 5)], stored("manifest_committable")),
    **{name: (lambda data, name=name: probe_all(name, data), sample(name)) for name in ("bitmap", "bloom-filter", "bsi", "range-bitmap")},
    "evaluate": (
        lambda data: evaluate_indexes(data, And((Leaf("k", "=", (1,)), Leaf("k", ">", (0,)))), {"k": INT}, 5),
        stored("file_index_container"),
    ),
}


@st.composite
def damaged(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """Bytes flipped, cut, doubled, or numbers in them made extreme; sometimes nothing but noise."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=80))
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 3))):
        if not data:
            break
        at = draw(st.integers(0, min(len(data) - 1, 120)) | st.integers(0, len(data) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                data[at] = draw(st.integers(0, 255))
            case 1:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 2:
                data[at : at + 4] = draw(st.sampled_from([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\1\0\0", b"\xff\xff\xff\x7f"]))
            case 3:
                del data[at:]
            case 4:
                data[at:at] = data[at : at + 8]
    return bytes(data)


@pytest.mark.parametrize("name", sorted(CODECS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_damaged_bytes_give_a_value_or_are_refused(name: str, data: st.DataObject) -> None:
    decode, originals = CODECS[name]
    refused(decode, data.draw(damaged(originals)))


def refused(decode: Callable[[bytes], object], data: bytes) -> bool:
    """Whether it was refused, in one of the three ways."""
    try:
        decode(data)
    except Corrupt as error:
        if error.field is None:
            pytest.fail(f"an error that names no field: {error}")
        return True
    except Unsupported as error:
        return bool(error.feature)
    return False


def bomb(containers: int) -> bytes:
    """A bitmap of a few bytes a container that claims every one of its 65,536 positions."""
    flags = b"\xff" * (containers // 8)
    heads = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(containers))
    first = 4 + len(flags) + 8 * containers
    offsets = b"".join(struct.pack("<I", first + 6 * key) for key in range(containers))
    return struct.pack("<HH", 12347, containers - 1) + flags + heads + offsets + struct.pack("<HHH", 1, 0, 0xFFFF) * containers


def wide_bomb(containers: int) -> bytes:
    """The same as a 64 bit deletion vector of two halves."""
    half = bomb(containers // 2)
    return index_files.MAGIC_64 + struct.pack("<q", 2) + b"".join(struct.pack("<i", high) + half for high in (0, 9))


@pytest.mark.long
@pytest.mark.parametrize(
    ("decode", "most", "make"),
    [
        (roaring.decode_positions, 128, bomb),
        (lambda data: index_files.decode_deletion_vector(b"\x5e\x43\xf2\xd0" + data), 128, bomb),
        (index_files.decode_deletion_vector, 64, wide_bomb),
    ],
    ids=["bitmap", "deletion vector", "wide deletion vector"],
)
def test_small_input_takes_no_great_memory(decode: Callable[[bytes], Any], most: int, make: Callable[[int], bytes]) -> None:
    tracemalloc.start()
    try:
        for containers in (most + 16, 4096):
            with pytest.raises(LimitExceeded):
                decode(make(containers))
        assert len(decode(make(most))) == most * 65536
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


def test_a_bitmap_with_a_known_number_of_rows_is_held_to_it() -> None:
    assert len(roaring.decode_positions(bomb(8), max_positions=8 * 65536)) == 8 * 65536
    with pytest.raises(LimitExceeded, match="claims 524288 positions; at most 100 are expected"):
        roaring.decode_positions(bomb(8), max_positions=100)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:-1], "left"),
        (lambda data: data + b"\0", "after the end"),
        (lambda data: b"\x3c" + data[1:], "no roaring bitmap"),
        (lambda data: data[:4] + struct.pack("<i", -1) + data[8:], "no roaring bitmap"),
        (lambda data: data[:10] + b"\3" + data[11:], "left|offsets|container"),
        (lambda data: data[:16] + b"\x11" + data[17:], "container 0 is out of order"),
        (lambda data: data[:12] + b"\x11" + data[13:], "offsets that do not fit"),
    ],
)
def test_what_is_wrong_with_a_bitmap_is_said(change: Callable[[bytes], bytes], why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        roaring.decode_positions(change(roaring.encode_positions(np.array([1, 5, 9], np.uint32))))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2**18) | st.integers(0, 2**32 - 1), unique=True, max_size=60), st.lists(st.tuples(st.integers(0, 2**17), st.integers(1, 9000))))
def test_bitmaps_come_back(some: list[int], runs: list[tuple[int, int]]) -> None:
    positions = np.unique(np.concatenate([np.array(some, np.uint32), *(np.arange(a, a + n, dtype=np.uint32) for a, n in runs)]))
    data = roaring.encode_positions(positions)
    assert (roaring.decode_positions(data) == positions).all()
    assert (roaring.bitmap_positions(roaring.decode_bitmap(data)) == positions).all()
    assert roaring.bitmap_of(positions) == roaring.decode_bitmap(data)
    for bits in (32, 64):
        assert (index_files.decode_vector_entry(index_files.encode_vector_entry(positions, bits)) == positions).all()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**17), unique=True, max_size=9).map(sorted), max_size=6))
def test_many_bitmaps_at_once_are_the_same_bytes(groups: list[list[int]]) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int64)
    data, places = roaring.encode_bitmaps(np.array([position for group in groups for position in group], np.uint32), offsets)
    assert [data[a:b].tobytes() for a, b in pairwise(places)] == [roaring.encode_positions(np.array(group, np.uint32)) for group in groups]


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=40) | st.text(st.sampled_from("a\0é湖😀"), max_size=40))
def test_java_texts_come_back(text: str) -> None:
    cursor = Cursor(encode_java_utf(text))
    assert cursor.java_utf("text") == text
    cursor.expect_end("text")


def test_positions_beyond_32_bits_need_64() -> None:
    with pytest.raises(ValueOutOfRange, match="bitmap64"):
        index_files.encode_deletion_vector(np.array([2**32], np.uint64), 32)


def test_a_cursor_records_what_it_read() -> None:
    cursor = Cursor(b"\0\0\0\3abc\1", spans=SpanRecorder())
    cursor.raw(cursor.i32be("length"), "body")
    cursor.u8("tail")
    assert [tuple(mark)[:4] for mark in cursor.spans or ()] == [(0, 4, "length", 3), (4, 3, "body", b"abc"), (7, 1, "tail", 1)]
