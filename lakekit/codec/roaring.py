"""Roaring bitmaps of 32 bit positions in the portable layout of Java, and bit-sliced integers.

    3a300000 | i32 n                         no run containers
    3b30 | u16 n - 1 | flags, one bit a container     some are runs
    n × (u16 high half, u16 cardinality - 1)
    n × u32 offset from the start            absent with runs when n < 4
    n × container   array   u16 …                         up to 4096 positions
                    bitmap  8192 bytes                    more than 4096
                    run     u16 r | r × (u16 first, u16 length - 1)

Little endian throughout. A container is written as runs where 2 + 4 r bytes are less than its array or bitmap would
take: Java's rule, by one pair of bytes stricter than that of C libraries, so encoding is done here. Everything is
checked before a C library sees a byte of it: damaged bitmaps crash those.

    values 2, 0, 1, -, 0     existence {0, 1, 2, 4}    slice 0 {2}    slice 1 {0}

Bit-sliced integers: slice i holds the rows whose value has bit i. Two file indexes are built on them; comparison walks
the slices.

Source: FORMAT.md 0.2; the public specification of the format; `RoaringBitmap32`; O'Neil and Quass, "Improved query
performance with variant indexes".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from pyroaring import BitMap

from lakekit.codec.binary_row import expand_ranges
from lakekit.codec.cursor import Cursor
from lakekit.errors import LimitExceeded

if TYPE_CHECKING:
    from numpy.typing import NDArray


COOKIE_NO_RUNS, COOKIE_WITH_RUNS = 12346, 12347
ARRAY_CONTAINER, BITMAP_CONTAINER, RUN_CONTAINER = 0, 1, 2
ARRAY_MAX = 4096
_BIG_CONTAINER_ROWS = 256
"""A container of more rows is encoded in a step of its own."""
FREE_BYTES = 32 << 20
"""Positions of so many bytes are always decoded.

Beyond it, 8 positions a byte of input, which is what bitmap containers hold.
"""


class RoaringLayout(NamedTuple):
    """The containers of a checked bitmap.

    Container i holds `high_keys[i]` × 65536 + the positions stored at `data[starts[i]:]` in form `kinds[i]`.
    """

    data: bytes | memoryview
    high_keys: list[int]
    cardinalities: list[int]
    kinds: list[int]
    starts: list[int]


def parse_layout(data: bytes, *, path: str | None = None) -> RoaringLayout:
    """Return the containers of a bitmap that fills `data`, checked. Raises `Corrupt`."""
    cursor = Cursor(data, path=path)
    containers = read_layout(cursor, "bitmap")
    cursor.expect_end("bitmap")
    return containers


def read_layout(cursor: Cursor, field: str, *, base_position: int = 0) -> RoaringLayout:
    """Return the containers of the bitmap at the cursor, checked, and advance the cursor past it.

    `base_position` is added to the positions in spans.
    """
    begin = cursor.tell
    cookie = cursor.i32le(field, "cookie") & 0xFFFFFFFF
    runs: NDArray[np.uint8] | None = None
    if cookie & 0xFFFF == COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = np.unpackbits(
            np.frombuffer(cursor.raw((count + 7) // 8, field, "run flags"), np.uint8), bitorder="little"
        )
    else:
        count = cursor.i32le(field, "containers") if cookie == COOKIE_NO_RUNS else -1
        if not 0 <= count <= 65536:
            raise cursor.make_error(f"no roaring bitmap: cookie {cookie}, {count} containers", field, at=begin)
    heads = cursor.tell
    head = np.frombuffer(cursor.raw(4 * count, field, "keys"), "<u2").astype(np.int64)
    highs, cards = head[::2], head[1::2] + 1
    if np.count_nonzero(highs[1:] <= highs[:-1]):
        raise cursor.make_error("containers out of order", field, at=begin)
    offsets = np.frombuffer(cursor.raw(4 * count, field, "offsets"), "<u4") if runs is None or count >= 4 else None
    small = cards <= ARRAY_MAX
    kinds = np.where(small, ARRAY_CONTAINER, BITMAP_CONTAINER)
    if runs is not None:
        kinds[runs[:count] == 1] = RUN_CONTAINER
    starts = _container_starts(cursor, kinds.tolist(), np.where(small, 2 * cards, 8192), field)
    if offsets is not None and np.count_nonzero(offsets != starts - begin):
        raise cursor.make_error("offsets that do not fit the containers", field, at=begin)
    containers = RoaringLayout(cursor.data, highs.tolist(), cards.tolist(), kinds.tolist(), starts.tolist())
    unsound = _find_unsound(containers)
    if unsound is not None:
        raise cursor.make_error(
            f"container {unsound} is out of order or does not hold {containers.cardinalities[unsound]} positions",
            field,
            at=containers.starts[unsound],
        )
    if cursor.spans is not None:
        _record_containers(
            cursor,
            containers,
            field,
            heads=heads,
            offsets=None if offsets is None else offsets.tolist(),
            base_position=base_position,
        )
    return containers


def read_bitmap_ends(cursor: Cursor, count: int, field: str) -> tuple[list[int], list[int]]:
    """Check `count` consecutive bitmaps from the cursor on.

    Returns where each begins and the last ends, and how many positions each has.
    """
    ends, cards = [cursor.tell], list[int]()
    while len(cards) < count:
        begin, many = cursor.tell, len(cards)
        if cursor.spans is None and _is_dense(cursor):
            dense = read_dense(cursor, count - many).tolist()
            cards += dense
            ends += [begin + (cursor.tell - begin) // len(dense) * nth for nth in range(1, len(dense) + 1)]
        if len(cards) == many:
            with cursor.within(f"{field} {many}"):
                cards.append(sum(read_layout(cursor, field).cardinalities))
            ends.append(cursor.tell)
    return ends, cards


def _is_dense(cursor: Cursor) -> bool:
    """Return whether the first and the last container of the bitmap at the cursor are bitmap containers."""
    count = int.from_bytes(cursor.data[cursor.at + 4 : cursor.at + 8], "little")
    heads = cursor.at + 8
    return all(
        int.from_bytes(cursor.data[at + 2 : at + 4], "little") >= ARRAY_MAX for at in (heads, heads + 4 * (count - 1))
    )


def read_dense(cursor: Cursor, maximum: int) -> NDArray[np.int64]:
    """Return how many positions each of the next bitmaps has, at most `maximum`, checked together.

    They are dense bitmaps with the keys of the first. Dense is a bitmap of nothing but bitmap containers: all of them
    take as many bytes. The first that is not so, or not sound, ends them, and the cursor is left before it:
    `read_layout` says what it is.
    """
    begin = cursor.tell
    count = int.from_bytes(cursor.data[begin + 4 : begin + 8], "little") if cursor.remaining >= 8 else 0
    head = 8 + 8 * count
    size = head + 8192 * count
    many = min(maximum, cursor.remaining // size)
    if cursor.spans is not None or not 0 < count <= 65536 or many < 2:
        return np.zeros(0, np.int64)
    bitmaps = np.frombuffer(cursor.data, np.uint8, many * size, begin).reshape(many, size)
    numbers = np.ascontiguousarray(bitmaps[:, :head]).view("<u2")
    keys, cards = numbers[:, 4 : 4 + 2 * count : 2], numbers[:, 5 : 4 + 2 * count : 2].astype(np.int64) + 1
    offsets = np.ascontiguousarray(bitmaps[:, 8 + 4 * count : head]).view("<u4")
    alike = (
        (numbers[:, :4] == numbers[0, :4]).all(axis=1) & (keys == keys[0]).all(axis=1) & (cards > ARRAY_MAX).all(axis=1)
    )
    alike &= (offsets == head + 8192 * np.arange(count)).all(axis=1)
    is_first = int.from_bytes(cursor.data[begin : begin + 4], "little") == COOKIE_NO_RUNS and not np.count_nonzero(
        keys[0, 1:] <= keys[0, :-1]
    )
    many = (many if alike.all() else int(alike.argmin())) if is_first else 0
    sound = (_count_bits(bitmaps[:many, head:], count) == cards[:many]).all(axis=1)
    many = many if sound.all() else int(sound.argmin())
    cursor.skip(many * size, "bitmaps")
    totals: NDArray[np.int64] = cards[:many].sum(axis=1)
    return totals


def _count_bits(rows: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    """Return how many bits are set in each of the `count` adjacent bitmap containers of each row.

    Rows begin at any byte, and numpy copies words that do not begin where the machine's do, which takes as long as
    counting them. So the machine's words are counted: the first of each container begins in the one before it.

        r = 3    container 0 | 0 1 2 3 4 5 6 7 8 … 8191 | 0 1 …       bytes 0 … 4 and the last 3 of each container
                 words                 | 0             … 1022   |       are counted by themselves
    """
    beyond = rows.__array_interface__["data"][0] % 8
    if not beyond or rows.strides[0] % 8:
        return np.bitwise_count(rows.view("<u8").reshape(len(rows), count, 1024)).sum(axis=2, dtype=np.uint32)
    counted = np.empty((len(rows), count * 1024), np.uint8)
    np.bitwise_count(rows[:, 8 - beyond : -beyond].view("<u8"), out=counted[:, 1:])
    counted[:, 0] = np.bitwise_count(rows[:, : 8 - beyond]).sum(axis=1)
    last = np.bitwise_count(rows.reshape(len(rows), count, 8192)[:, :, -beyond:]).sum(axis=2, dtype=np.uint32)
    counts: NDArray[np.uint32] = counted.reshape(len(rows), count, 1024).sum(axis=2, dtype=np.uint32) + last
    counts[:, 1:] -= last[:, :-1]
    return counts


def _record_containers(
    cursor: Cursor, containers: RoaringLayout, field: str, *, heads: int, offsets: list[int] | None, base_position: int
) -> None:
    """Record the headers, offsets and positions of containers one by one."""
    count = len(containers.starts)
    for i, (high, card, kind, start) in enumerate(
        zip(containers.high_keys, containers.cardinalities, containers.kinds, containers.starts, strict=True)
    ):
        with cursor.within(f"{field} container {i}"):
            cursor.record(heads + 4 * i, 2, "key", high)
            cursor.record(heads + 4 * i + 2, 2, "cardinality", card)
            if offsets is not None:
                cursor.record(heads + 4 * (count + i), 4, "offset", offsets[i])
            positions = (
                layout_positions(
                    RoaringLayout(containers.data, [high], [card], [kind], [start]), max_positions=card
                ).astype(np.uint64)
                + np.uint64(base_position)
            ).tolist()
            if kind == RUN_CONTAINER:
                runs = int.from_bytes(containers.data[start : start + 2], "little")
                cursor.record(start, 2, "runs", runs)
                cursor.record(start + 2, 4 * runs, "positions as runs", positions)
            else:
                cursor.record(
                    start,
                    2 * card if kind == ARRAY_CONTAINER else 8192,
                    "positions" if kind == ARRAY_CONTAINER else "positions as bits",
                    positions,
                )


def _container_starts(cursor: Cursor, kinds: list[int], sizes: NDArray[np.int64], field: str) -> NDArray[np.int64]:
    """Skip every container and return where each starts; only a run container stores its own length."""
    ends = np.cumsum(sizes)
    if (
        cursor.spans is None and RUN_CONTAINER not in kinds and len(sizes) and ends[-1] <= cursor.remaining
    ):  # all at once
        return ends - sizes + cursor.skip(int(ends[-1]), field, "container")
    if (
        cursor.spans is None and set(kinds) == {RUN_CONTAINER} and 6 * len(kinds) <= cursor.remaining
    ):  # all rows, mostly: one run each
        heads = np.frombuffer(cursor.data, np.uint8, 6 * len(kinds), cursor.tell).reshape(-1, 6)[:, :2]
        if (heads == (1, 0)).all():
            return np.arange(len(kinds)) * 6 + cursor.skip(6 * len(kinds), field, "container")
    starts = []
    for kind, size in zip(kinds, sizes.tolist(), strict=True):
        starts.append(cursor.tell)
        cursor.skip(4 * cursor.u16le(field, "runs") if kind == RUN_CONTAINER else size, field, "container")
    return np.array(starts, np.int64)


def _find_unsound(containers: RoaringLayout) -> int | None:
    """Return the index of the first container that does not fit its header; None without one."""
    at = 0
    while at < len(containers.kinds):
        end = at + 1
        if containers.kinds[at] == BITMAP_CONTAINER:  # those beside each other are counted at once
            while end < len(containers.kinds) and containers.kinds[end] == BITMAP_CONTAINER:
                end += 1
            words = np.frombuffer(containers.data, "<u8", 1024 * (end - at), containers.starts[at]).reshape(-1, 1024)
            is_unsound = np.bitwise_count(words).sum(axis=1, dtype=np.uint32) != containers.cardinalities[at:end]
            if np.count_nonzero(is_unsound):
                return at + int(is_unsound.argmax())
        elif containers.kinds[at] == RUN_CONTAINER and (single := _end_of_single(containers, at)) > at:
            end = single
            table = (
                np.frombuffer(containers.data, "<u2", 3 * (end - at), containers.starts[at])
                .reshape(-1, 3)
                .astype(np.int64)
            )
            is_unsound = (table[:, 2] + 1 != containers.cardinalities[at:end]) | (table[:, 1] + table[:, 2] > 65535)
            if np.count_nonzero(is_unsound):
                return at + int(is_unsound.argmax())
        elif not _is_sound(containers, at):
            return at
        at = end
    return None


def _end_of_single(containers: RoaringLayout, at: int) -> int:
    """Return the end of the adjacent containers from `at` on that have one run each, in six bytes."""
    end = at + 1
    while (
        end < len(containers.kinds)
        and containers.kinds[end] == RUN_CONTAINER
        and containers.starts[end] - containers.starts[end - 1] == 6
    ):
        end += 1
    last = containers.starts[end - 1]
    return end if containers.data[last : last + 2] == b"\1\0" else end - 1


def _is_sound(containers: RoaringLayout, i: int) -> bool:
    data, card, start = containers.data, containers.cardinalities[i], containers.starts[i]
    if containers.kinds[i] == ARRAY_CONTAINER:
        values = np.frombuffer(data, "<u2", card, start)
        return bool((values[1:] > values[:-1]).all())
    firsts, lengths = _read_runs(data, start)
    ends = firsts + lengths
    return int(lengths.sum()) == card and bool((ends <= 65536).all()) and bool((firsts[1:] >= ends[:-1]).all())


def _read_runs(data: bytes | memoryview, start: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = int.from_bytes(data[start : start + 2], "little")
    table = np.frombuffer(data, "<u2", 2 * count, start + 2).reshape(count, 2).astype(np.int64)
    return table[:, 0], table[:, 1] + 1


def layout_positions(containers: RoaringLayout, *, max_positions: int | None = None) -> NDArray[np.uint32]:
    """Return the positions of a checked bitmap, ascending.

    Raises:
        LimitExceeded: there are more than `max_positions` (default: see `FREE_BYTES`).
    """
    total = sum(containers.cardinalities)
    check_position_count(total, len(containers.data), max_positions, width=4)
    out = np.empty(total, np.uint32)
    at = 0
    for high, card, kind, start in zip(
        containers.high_keys, containers.cardinalities, containers.kinds, containers.starts, strict=True
    ):
        if kind == ARRAY_CONTAINER:
            low: NDArray[np.integer] = np.frombuffer(containers.data, "<u2", card, start)
        elif kind == BITMAP_CONTAINER:
            low = np.flatnonzero(
                np.unpackbits(np.frombuffer(containers.data, np.uint8, 8192, start), bitorder="little").view(np.bool_)
            )
        else:
            low = expand_ranges(*_read_runs(containers.data, start))
        out[at : at + card] = low
        out[at : at + card] |= np.uint32(high << 16)
        at += card
    return out


def check_position_count(
    total: int, size: int, max_positions: int | None, *, width: int, path: str | None = None
) -> None:
    """Raise `LimitExceeded` if `size` bytes claim more positions than `max_positions`.

    Positions take `width` bytes each. Without a limit, the most is what is reasonable (see `FREE_BYTES`).
    """
    most = max(FREE_BYTES // width, 8 * size) if max_positions is None else max_positions
    if total > most:
        where = "" if path is None else f"{path}: "
        msg = f"{where}a bitmap of {size} bytes claims {total} positions; at most {most} are expected"
        raise LimitExceeded(msg, path=path, field="bitmap")


def decode_positions(data: bytes, *, max_positions: int | None = None, path: str | None = None) -> NDArray[np.uint32]:
    """Return the positions of a bitmap, ascending.

    `max_positions` is the number of rows, if the caller knows it. Raises `Corrupt`, and `LimitExceeded` (see
    `layout_positions`).
    """
    return layout_positions(parse_layout(data, path=path), max_positions=max_positions)


def decode_bitmap(data: bytes, *, path: str | None = None) -> BitMap:
    """Return the bitmap as a set with fast unions and intersections. Raises `Corrupt`."""
    parse_layout(data, path=path)
    return layout_to_bitmap(data)


def layout_to_bitmap(data: bytes) -> BitMap:
    """Return a checked bitmap as a set.

    CRoaring refuses adjacent runs, which all other readers accept as one run; those are decoded here.
    """
    try:
        return BitMap.deserialize(data)
    except ValueError:
        return BitMap(layout_positions(parse_layout(data)))


def read_bitmap(cursor: Cursor, field: str) -> BitMap:
    """Return the bitmap at the cursor as a set."""
    begin = cursor.tell
    read_layout(cursor, field)
    return layout_to_bitmap(bytes(cursor.data[begin : cursor.tell]))


def read_full_bitmap(cursor: Cursor, row_count: int) -> BitMap | None:
    """Return the set of all rows, if the bytes at the cursor are the usual ones of that set.

    Else return None and read nothing.
    """
    if cursor.spans is not None or row_count <= 0:
        return None
    serialized, bitmap = _every_row(row_count)
    if cursor.data[cursor.tell : cursor.tell + len(serialized)] != serialized or len(serialized) > cursor.remaining:
        return None
    cursor.skip(len(serialized), "all rows")
    return bitmap.copy()


@lru_cache(16)
def _every_row(count: int) -> tuple[bytes, BitMap]:
    """Return the set of all rows of a file, serialized and as a set."""
    bitmap = full_bitmap(count)
    bitmap.run_optimize()
    return bitmap.serialize(), bitmap


def bitmap_of(positions: NDArray[np.integer]) -> BitMap:
    """Return the set of some positions, ascending."""
    return BitMap.deserialize(encode_positions(positions))


def bitmap_positions(bitmap: BitMap) -> NDArray[np.uint32]:
    """Return the positions of a set, ascending."""
    return np.array(bitmap.to_array(), np.uint32)


def full_bitmap(count: int) -> BitMap:
    """Return the set of positions 0 … count - 1."""
    return BitMap(range(count))


# ---- writing ---------------------------------------------------------------------------------------------------------


def encode_positions(positions: NDArray[np.integer]) -> bytes:
    """Return the bytes of a bitmap of ascending positions, equal to those of Java's run-optimized bitmap."""
    return encode_bitmaps(positions, np.array([0, len(positions)]))[0].tobytes()


def encode_bitmaps(
    positions: NDArray[np.integer], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode many bitmaps at once and return their bytes, concatenated, and their offsets.

    Group i is `positions[offsets[i]:offsets[i+1]]`, ascending.
    """
    groups = len(offsets) - 1
    pos = positions.astype(np.int64)
    parts = _split_containers(pos, offsets)
    per_group = np.searchsorted(parts.group, np.arange(groups + 1))
    counts = np.diff(per_group)
    has_runs = np.zeros(groups, np.bool_)
    has_runs[parts.group[parts.is_run]] = True
    flag_bytes = np.where(has_runs, (counts + 7) // 8, 0)
    with_offsets = ~has_runs | (counts >= 4)
    heads = np.where(has_runs, 4 + flag_bytes, 8) + 4 * counts + np.where(with_offsets, 4 * counts, 0)
    before = np.concatenate([[0], np.cumsum(parts.body_sizes)])
    bodies = before[per_group[1:]] - before[per_group[:-1]]
    ends = np.cumsum(heads + bodies)
    begins = ends - heads - bodies
    out = np.zeros(int(ends[-1]) if groups else 0, np.uint8)
    u16 = np.ndarray((max(0, len(out) - 1),), np.dtype("<u2"), out.data, strides=(1,))
    u32 = np.ndarray((max(0, len(out) - 3),), np.dtype("<u4"), out.data, strides=(1,))
    u32[begins] = np.where(has_runs, COOKIE_WITH_RUNS | (counts - 1) << 16, COOKIE_NO_RUNS)
    u32[begins[~has_runs] + 4] = counts[~has_runs]
    nth = np.arange(len(parts.group)) - per_group[parts.group]
    flagged = np.flatnonzero(parts.is_run)
    np.bitwise_or.at(
        out, begins[parts.group[flagged]] + 4 + (nth[flagged] >> 3), (1 << (nth[flagged] & 7)).astype(np.uint8)
    )
    at = begins[parts.group] + np.where(has_runs, 4 + flag_bytes, 8)[parts.group] + 4 * nth
    u16[at] = parts.high_keys
    u16[at + 2] = parts.cardinalities - 1
    body = begins[parts.group] + heads[parts.group] + before[:-1] - before[per_group[parts.group]]
    listed = with_offsets[parts.group]
    u32[(at + 4 * counts[parts.group])[listed]] = (body - begins[parts.group])[listed]
    _write_bodies(out, u16, pos & 0xFFFF, parts, body)
    return out, np.concatenate([[0], ends])


class _Containers(NamedTuple):
    """The containers of many bitmaps: group, high half, first position, cardinality, and form."""

    group: NDArray[np.int64]
    high_keys: NDArray[np.int64]
    first_positions: NDArray[np.int64]
    cardinalities: NDArray[np.int64]
    is_run: NDArray[np.bool_]
    body_sizes: NDArray[np.int64]
    run_first: NDArray[np.int64]
    run_count: NDArray[np.int64]


def _split_containers(pos: NDArray[np.int64], offsets: NDArray[np.int64]) -> _Containers:
    count = len(pos)
    high = pos >> 16
    fresh = np.ones(count, np.bool_)
    np.not_equal(high[1:], high[:-1], out=fresh[1:])
    fresh[offsets[:-1][np.diff(offsets) > 0]] = True
    first = np.flatnonzero(fresh)
    fresh[1:] |= np.diff(pos) != 1
    run_first = np.flatnonzero(fresh)
    run_count = np.diff(np.searchsorted(run_first, np.append(first, count)))
    card = np.diff(np.append(first, count))
    plain = np.where(card > ARRAY_MAX, 8192, 2 * card)
    is_run = 2 + 4 * run_count < plain
    group = np.searchsorted(offsets, first, side="right") - 1
    return _Containers(
        group, high[first], first, card, is_run, np.where(is_run, 2 + 4 * run_count, plain), run_first, run_count
    )


def _write_bodies(
    out: NDArray[np.uint8], u16: NDArray[np.uint16], low: NDArray[np.int64], parts: _Containers, body: NDArray[np.int64]
) -> None:
    big = parts.cardinalities > _BIG_CONTAINER_ROWS
    arrays = np.flatnonzero(~parts.is_run & ~big)
    cards = parts.cardinalities[arrays]
    u16[2 * expand_ranges(np.zeros(len(arrays), np.int64), cards) + np.repeat(body[arrays], cards)] = low[
        expand_ranges(parts.first_positions[arrays], cards)
    ]
    runs = np.flatnonzero(parts.is_run)
    u16[body[runs]] = parts.run_count[runs]
    counts = parts.run_count[runs]
    which = expand_ranges((np.cumsum(parts.run_count) - parts.run_count)[runs], counts)
    at = 4 * expand_ranges(np.zeros(len(runs), np.int64), counts) + np.repeat(body[runs] + 2, counts)
    u16[at] = low[parts.run_first[which]]
    u16[at + 2] = np.diff(np.append(parts.run_first, len(low)))[which] - 1
    for i in np.flatnonzero(~parts.is_run & big).tolist():  # scalar: a container of many rows a step
        positions = low[parts.first_positions[i] : parts.first_positions[i] + parts.cardinalities[i]]
        if len(positions) <= ARRAY_MAX:
            u16[body[i] : body[i] + 2 * len(positions) : 2] = positions
            continue
        bits = np.zeros(65536, np.uint8)
        bits[positions] = 1
        out[body[i] : body[i] + 8192] = np.packbits(bits, bitorder="little")


# ---- bit slices ------------------------------------------------------------


class Slices(Protocol):
    """The slices in order, each possibly decoded on access."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> BitMap: ...


def encode_slices(rows: NDArray[np.int64], values: NDArray[np.uint64], count: int) -> list[bytes]:
    """Return the bytes of `count` slices of the values ≥ 0 that ascending rows have."""
    return [encode_positions(rows[(values >> np.uint64(i) & np.uint64(1)) == 1]) for i in range(count)]


def rows_equal(existence: BitMap, slices: Slices, value: int) -> BitMap:
    """Return the rows whose value is `value`.

    Begins at the highest bit, which most rows differ in: once no row is left, no other slice is accessed.
    """
    if value < 0 or value >> len(slices):
        return type(existence)()
    rows = existence
    for i in range(len(slices) - 1, -1, -1):
        if not rows:
            break
        rows = rows & slices[i] if value >> i & 1 else rows - slices[i]
    return rows if rows is not existence else existence.copy()


def rows_greater(existence: BitMap, slices: Slices, value: int) -> BitMap:
    """Return the rows whose value is greater than `value`.

    Begins at the highest bit: `alike` are the rows that have the same bits so far.
    """
    if value < 0:
        return existence.copy()
    rows = type(existence)()
    if value >> len(slices):
        return rows
    alike = existence
    for i in range(len(slices) - 1, -1, -1):
        if not alike:
            break
        having = alike & slices[i]
        if value >> i & 1:
            alike = having
        else:
            rows |= having
            alike = alike - having
    return rows


def rows_between(existence: BitMap, slices: Slices, low: int, high: int) -> BitMap:
    """Return the rows whose value is at least `low` and at most `high`."""
    return rows_greater(existence, slices, low - 1) - rows_greater(existence, slices, high)
