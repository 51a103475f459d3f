"""Dense bitmaps that are checked together are those that are sound alone, up to the first that is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakekit.codec import roaring
from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt
from lakekit.file_index import bsi
from lakekit.types import parse

ROWS = 100_000
HEAD = 8 + 8 * 2
SIZE = HEAD + 2 * 8192


def alone(data: bytes) -> list[int]:
    """The positions of each dense bitmap, one by one, until one is not sound, not dense, or of other keys."""
    cursor, found = Cursor(data), list[int]()
    keys = None
    while cursor.remaining:
        try:
            layout = roaring.read_layout(cursor, "bitmap")
        except Corrupt:
            break
        if min(layout.cardinalities) <= 4096 or (keys or layout.high_keys) != layout.high_keys or len(layout.data[: cursor.tell]) % SIZE:
            break
        keys = layout.high_keys
        found.append(sum(layout.cardinalities))
    return found


def dense(count: int) -> list[bytes]:
    generator = np.random.default_rng(count)
    return [roaring.encode_positions(np.flatnonzero(generator.random(ROWS) < 0.4)) for _ in range(count)]


def together(data: bytes, most: int) -> tuple[list[int], int]:
    """Wherever they lie: words are counted in two ways."""
    said = []
    for before in range(9):
        cursor = Cursor(b"\xff" * before + data, offset=before)
        said.append((roaring.read_dense(cursor, most).tolist(), cursor.tell - before))
    assert said == said[:1] * 9
    return said[0]


def test_as_many_as_are_sound() -> None:
    four = dense(4)
    assert {len(one) for one in four} == {SIZE}
    whole = b"".join(four)
    assert together(whole, 4) == (alone(whole), 4 * SIZE)
    assert together(whole, 3) == (alone(whole)[:3], 3 * SIZE)
    for positions in (np.arange(5), np.arange(ROWS), np.flatnonzero(np.arange(ROWS) % 3 == 0) + 65536):
        other = roaring.encode_positions(positions)
        mixed = b"".join([*four[:2], other, *four[2:]])
        assert together(mixed, 5) == (alone(mixed), 2 * SIZE)
        assert together(other + whole, 5) == (alone(other + whole), len(alone(other + whole)) * SIZE)
    assert together(b"", 4) == together(whole[:7], 4) == together(whole[:-1], 1) == ([], 0)
    assert together(whole[:-1], 4) == (alone(whole)[:3], 3 * SIZE)


@pytest.mark.parametrize("at", [*range(HEAD), *range(HEAD, HEAD + 9), *range(HEAD + 8183, HEAD + 8202), *range(SIZE - 9, SIZE)])
@pytest.mark.parametrize("which", [0, 1])
def test_damage_ends_them(which: int, at: int) -> None:
    whole = b"".join(dense(3))
    place = which * SIZE + at
    for mask in (1, 0x80):
        broken = whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
        found, length = together(broken, 3)
        assert found == alone(broken)
        assert length == len(found) * SIZE
        assert len(found) < 3


def test_a_bsi_index_of_dense_slices_adds_up_and_says_where_it_is_broken() -> None:
    values = np.random.default_rng(7).integers(0, 1 << 12, ROWS)
    payload = bsi.build(pa.array(values), parse("BIGINT"), {})
    assert bsi.compute_totals(payload, ROWS).value_sum == int(values.sum())
    place = len(payload) - 3 * SIZE - 100
    with pytest.raises(Corrupt, match="slice"):
        bsi.compute_totals(payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :], ROWS)


@pytest.mark.parametrize("rows", [np.arange(3 * 65536), np.r_[5:65536, 70_000:131_072], np.r_[7:90, 100:65536, 65540:65550, 131_072:190_000], np.arange(9)])
def test_runs_are_checked_one_beside_the_other_as_alone(rows: np.ndarray) -> None:
    """Whatever a byte of it becomes: what is let through holds as many positions as its heads say, ascending."""
    whole = roaring.encode_positions(rows)
    assert roaring.decode_positions(whole).tolist() == rows.tolist()
    refused = 0
    for at in range(len(whole)):
        for other in {0, 1, 255, whole[at] ^ 1, whole[at] ^ 128} - {whole[at]}:
            damaged = whole[:at] + bytes([other]) + whole[at + 1 :]
            try:
                found = roaring.parse_layout(damaged)
            except Corrupt:
                refused += 1
                continue
            highs = np.repeat(np.array(found.high_keys, np.int64), found.cardinalities)
            positions = roaring.layout_positions(found).astype(np.int64)
            assert len(positions) == sum(found.cardinalities)
            assert (np.diff(positions) > 0).all()
            assert (positions >> 16 == highs).all(), "every position is in its container"
    assert refused > len(whole)


@pytest.mark.parametrize("rows", [1, 2, 5, 4096, 65535, 65536, 65537, 65538, 65536 * 4, ROWS, 1_000_000])
def test_the_set_of_all_rows_is_known_by_its_bytes(rows: int) -> None:
    data = roaring.encode_positions(np.arange(rows))
    cursor = Cursor(b"\xff" + data + b"\xff", offset=1)
    found = roaring.read_full_bitmap(cursor, rows)
    assert found == roaring.full_bitmap(rows) if found is not None else cursor.tell == 1
    assert found is None or cursor.tell == 1 + len(data)
    assert found is not None or rows < 4096  # those of few rows are written in another way
    for other in (roaring.encode_positions(np.arange(rows + 1)), roaring.encode_positions(np.arange(1, rows + 1)), data[:-1], b""):
        cursor = Cursor(other)
        assert roaring.read_full_bitmap(cursor, rows) is None
        assert cursor.tell == 0
    assert roaring.read_full_bitmap(Cursor(data), 0) is None


def test_the_set_of_all_rows_is_not_changed_by_who_gets_it() -> None:
    data = roaring.encode_positions(np.arange(ROWS))
    found = roaring.read_full_bitmap(Cursor(data), ROWS)
    assert found is not None
    found.discard(7)
    assert roaring.read_full_bitmap(Cursor(data), ROWS) == roaring.full_bitmap(ROWS)
