"""Bitmaps that are read one behind the other are those that `read_layout` lets through alone, wherever they lie and whatever becomes of their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyroaring import BitMap

from lakekit.codec import roaring
from lakekit.codec.cursor import Cursor, SpanRecorder
from lakekit.errors import Corrupt
from lakekit.file_index import bsi
from lakekit.types import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def _scattered(seed: int, rows: int, share: float) -> NDArray[np.int64]:
    return np.flatnonzero(np.random.default_rng(seed).random(rows) < share)


SETS = st.one_of(
    st.sets(st.integers(0, 2**32 - 1), max_size=9).map(lambda some: np.array(sorted(some), np.int64)),
    st.builds(_scattered, st.integers(0, 99), st.sampled_from([0, 9, 5000, 65_536, 150_000, 400_000]), st.sampled_from([0.01, 0.5, 0.97, 1.0])),
    st.lists(st.integers(1, 70_000), max_size=12).map(
        lambda steps: np.concatenate([np.zeros(0, np.int64), *(np.arange(5 + step % 7) + 8 * sum(steps[:i]) + 20 * i for i, step in enumerate(steps))])
    ),
)


def alone(data: bytes, begin: int, end: int, most: int) -> list[int]:
    """How many positions each bitmap has, one by one, until one is not sound."""
    cursor, cards = Cursor(data, offset=begin, end=end), list[int]()
    while len(cards) < most:
        try:
            cards.append(sum(roaring.read_layout(cursor, "bitmap").cardinalities))
        except Corrupt:
            break
    return cards


def refusal(read: Callable[[Cursor], object], cursor: Cursor) -> tuple[Any, ...]:
    """What a reader says of bytes: what it makes of them, or why not."""
    try:
        return read(cursor), cursor.tell
    except Corrupt as error:
        return str(error), error.offset, error.field


def one_by_one(cursor: Cursor, count: int) -> tuple[list[int], list[int]]:
    places, cards = [cursor.tell], list[int]()
    for _ in range(count):
        cards.append(sum(roaring.read_layout(cursor, "slice").cardinalities))
        places.append(cursor.tell)
    return places, cards


def same(data: bytes, begin: int, end: int, count: int) -> None:
    """Many are read as each of them is alone, and refused as it is."""
    many = refusal(lambda cursor: roaring.read_bitmap_ends(cursor, count, "slice"), Cursor(data, offset=begin, end=end))
    assert many == refusal(lambda cursor: one_by_one(cursor, count), Cursor(data, offset=begin, end=end))


@pytest.mark.long
@given(st.lists(SETS, max_size=5), st.integers(0, 9), st.integers(0, 9), st.data())
def test_together_as_alone(sets: list[NDArray[np.int64]], before: int, after: int, data: st.DataObject) -> None:
    parts = [roaring.encode_positions(one) for one in sets]
    whole = b"\xff" * before + b"".join(parts) + b"\xfe" * after
    end = len(whole) - after
    same(whole, before, end, len(sets))
    same(whole, before, end, len(sets) + 1)
    if before == end:
        return
    for _ in range(12):  # damaged: near the head of one, or anywhere
        heads = [before + sum(map(len, parts[:i])) for i in range(len(parts))]
        near = st.builds(lambda head, more: min(head + more, end - 1), st.sampled_from(heads), st.integers(0, 30))
        at = data.draw(near | st.integers(before, end - 1))
        other = data.draw(st.sampled_from([0, 1, 0x10, 0xFF, whole[at] ^ 1, whole[at] ^ 0x80]))
        same(whole[:at] + bytes([other]) + whole[at + 1 :], before, end, len(sets))
    same(whole, before, data.draw(st.integers(before, end)), len(sets))


@pytest.mark.parametrize(
    "rows",
    [
        np.arange(0, 40, 3),
        np.arange(9, 70),
        np.r_[0:9, 20:31, 50:99],
        np.r_[0:5, 65_530:65_536, 65_539, 131_071],
        np.r_[5, 70_000, 140_000, 210_000:210_009],
        np.arange(65_536),
    ],
)
def test_every_byte_damaged(rows: NDArray[np.int64]) -> None:
    one, other = roaring.encode_positions(rows), roaring.encode_positions(np.arange(3))
    whole = other + one + other
    for at in range(len(other), len(other) + len(one)):
        for byte in {0, 1, 2, 0x7F, 0x80, 0xFF, whole[at] ^ 1, whole[at] ^ 2} - {whole[at]}:
            same(whole[:at] + bytes([byte]) + whole[at + 1 :], 0, len(whole), 3)


def test_runs_of_every_position_and_none() -> None:
    """65536 positions and none are the same number in 16 bits."""
    every = roaring.encode_positions(np.arange(65_536))
    for less, runs in (
        (b"\xff\xff", b"\x00\x00\xff\xff"),
        (b"\xff\xff", b"\x00\x00\xfe\xff"),
        (b"\x00\x00", b"\x00\x00\xff\xff"),
        (b"\xff\xff", b"\x01\x00\xff\xff"),
    ):
        data = every[:7] + less + every[9:11] + runs
        same(data, 0, len(data), 1)
    assert roaring.read_bitmap_ends(Cursor(every), 1, "slice")[1] == [65_536]


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(4))
def test_the_first_that_is_not_sound_ends_them(first: int, second: int) -> None:
    """Whatever is wrong with it, and with one behind it: too many positions, runs that overlap, or that go too far."""
    one = roaring.encode_positions(np.r_[5:50, 70:99])
    assert len(one) == 4 + 1 + 4 + 2 + 8
    forms = [one, one[:7] + b"\x07" + one[8:], one[:15] + b"\x30" + one[16:], one[:17] + b"\xff\xff"]
    whole = one + forms[first] + one + forms[second] + one
    same(whole, 0, len(whole), 5)
    assert len(alone(whole, 0, len(whole), 5)) == (1 if first else 3 if second else 5)


def test_marks_are_those_of_one_by_one() -> None:
    payload = bsi.build(pa.array([5, -3, None, 70_000] * 9), parse("BIGINT"), {})
    cursor = Cursor(payload, spans=SpanRecorder())
    bsi.walk(cursor, None)
    assert cursor.spans is not None
    names = [mark.field for mark in cursor.spans]
    assert "positive.slice 16.slice cookie" in names
    assert "negative.slice 1.slice cookie" in names


@settings(max_examples=50)
@given(st.lists(st.none() | st.integers(0, 40), max_size=30), st.integers(-2, 70), st.integers(-2, 70), st.integers(0, 3))
def test_slices_compare_as_values(values: list[int | None], low: int, high: int, spare: int) -> None:
    """From the highest slice: those that no row needs are not asked for."""
    rows = np.array([i for i, value in enumerate(values) if value is not None], np.int64)
    numbers = np.array([value for value in values if value is not None], np.uint64)
    slices = [BitMap.deserialize(one) for one in roaring.encode_slices(rows, numbers, 6 + spare)]
    existence = BitMap(rows.tolist())
    kept = existence.copy()
    assert set(roaring.rows_equal(existence, slices, low)) == {i for i, value in enumerate(values) if value == low}
    assert set(roaring.rows_greater(existence, slices, low)) == {i for i, value in enumerate(values) if value is not None and value > low}
    assert set(roaring.rows_between(existence, slices, low, high)) == {i for i, value in enumerate(values) if value is not None and low <= value <= high}
    roaring.rows_equal(existence, [], 0).add(99)
    roaring.rows_equal(existence, slices, 0).add(99)
    assert existence == kept, "what is given is not changed"


def test_runs_that_touch_are_one() -> None:
    """CRoaring refuses what every other reader of the format takes."""
    runs = b"".join(number.to_bytes(2, "little") for number in (3, 0, 4, 5, 2, 100, 0))
    data = (0x303B).to_bytes(2, "little") + bytes(2) + b"\1" + (0).to_bytes(2, "little") + (8).to_bytes(2, "little") + runs
    with pytest.raises(ValueError, match="run start"):
        BitMap.deserialize(data)
    wanted = BitMap([*range(8), 100])
    assert roaring.decode_bitmap(data) == wanted
    assert roaring.read_bitmap(Cursor(data), "rows") == wanted
