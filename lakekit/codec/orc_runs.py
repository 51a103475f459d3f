"""Aggregates of the runs of an ORC stream: the sum of lengths, the range of decimal scales, how many numbers there are.

    first version    00 05 02    count - 3 · delta, signed · base, varint   |  ff 07     256 - count · values, varints
    00 repeat        2 bits kind · 3 bits bytes - 1 · 3 bits count - 3 | value, big-endian
    01 direct        2 kind · 5 width · 9 count - 1 | values
    10 patched       2 kind · 5 width · 9 count - 1 · 3 bytes of the base - 1 · 5 patch width · 3 gap width - 1
                     · 5 patches | base | values | patches
    11 delta         2 kind · 5 width · 9 count - 1 | base, varint | delta, zig-zag varint | deltas

Values are computed as columns of bits. Bounds of them are told by the heads of runs alone (`bound_sum`).
Source: the ORC specification v1, "Run Length Encoding".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lakekit.codec.cursor import read_varint, read_zigzag
from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Bits = NDArray[np.uint8]


T = TypeVar("T")

_BIT_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MAX_LENGTH, _MAX_BITS = 2**63 - 1, 2**64 - 1
_BYTE_BITS, _MAX_HEAD_BITS = 8, 56
_FEW_STEPS = 16
_MAX_PACKED_BITS, _RUNS_AT_ONCE = 24, 1024
_FEW_BYTES, _BLOCK_BYTES = 2048, 24 << 10
_MAX_STEP_BITS, _STEP_DOUBLINGS = 20, 4
_DIRECT_BITS = (*[0] * 64, *(width for width in _BIT_WIDTHS for _ in (0, 1)), *[0] * 128)
"""The width of a direct run, by its first byte."""
_DIRECT_WIDTHS = np.array(_DIRECT_BITS)


def sum_lengths(data: bytes, *, second: bool) -> int:
    """Return the sum of all lengths of a stream.

    If a stream ends too early, only the runs before its end are counted: Arrow raises the error.

    Raises:
        Corrupt: a length is below zero.
    """
    return sum(_read_runs(data, _sum_run if second else _sum_first_run))


def signed_range(data: bytes, *, second: bool) -> tuple[int, int] | None:
    """Return the least and the greatest of the signed numbers of a stream; None without any.

    A run that ends too early is left to Arrow.

    Raises:
        Corrupt: a number has more than 64 bits.
    """
    bounds = [
        bound for run_bounds in _read_runs(data, _signed_run if second else _first_signed_run) for bound in run_bounds
    ]
    return (min(bounds), max(bounds)) if bounds else None


def _read_runs(data: bytes, read: Callable[[bytes, int], tuple[T, int]]) -> Iterator[T]:
    """Yield the result of `read` for each complete run.

    `read` takes an offset and returns the offset after the run, too.
    """
    at = 0
    try:
        while at < len(data):
            result, at = read(data, at)
            yield result
    except IndexError:
        return


def _first_signed_run(data: bytes, offset: int) -> tuple[list[int], int]:
    """Return bounds of the numbers of a run of the first version, and where the next run begins."""
    head = data[offset]
    if head < 0x80:
        delta = data[offset + 1] - ((data[offset + 1] & 0x80) << 1)
        base, offset = read_zigzag(data, offset + 2)
        return [base, base + delta * (head + 2)], offset
    values, offset = [], offset + 1
    for _ in range(256 - head):
        value, offset = read_zigzag(data, offset)
        values.append(value)
    return values, offset


def _signed_run(data: bytes, offset: int) -> tuple[list[int], int]:
    """Return bounds of the numbers of a run of the second version, and where the next run begins."""
    head = data[offset]
    kind = head >> 6
    if kind == 0:
        end = offset + 2 + (head >> 3 & 7)
        raw = _read_big_endian(data, offset + 1, end)
        return [(raw >> 1) ^ -(raw & 1)], end
    width, count = _BIT_WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[offset + 1]) + 1
    offset += 2
    if kind == 1:
        bits, end = _read_bits(data, offset, width, count)
        raws = _bits_to_numbers(bits)
        values = (raws >> np.uint64(1)).astype(np.int64) ^ -(raws & np.uint64(1)).astype(np.int64)
        return [int(values.min()), int(values.max())], end
    if kind == 2:
        return _patched_ends(data, offset, width, count)
    base, offset = read_zigzag(data, offset)
    delta, offset = read_zigzag(data, offset)
    if not head >> 1 & 31:
        return [base, base + delta * (count - 1)], offset
    bits, end = _read_bits(data, offset, width, max(0, count - 2))
    grown = _sum_bits(bits)
    return [base, base + delta, base + delta + (grown if delta >= 0 else -grown)], end


def _patched_ends(data: bytes, offset: int, width: int, count: int) -> tuple[list[int], int]:
    size, patch_width = (data[offset] >> 5) + 1, _BIT_WIDTHS[data[offset] & 31]
    gap_width, patches = (data[offset + 1] >> 5) + 1, data[offset + 1] & 31
    raw, sign = _read_big_endian(data, offset + 2, offset + 2 + size), 1 << (8 * size - 1)
    base = -(raw & (sign - 1)) if raw & sign else raw
    bits, offset = _read_bits(data, offset + 2 + size, width, count)
    values = _bits_to_numbers(bits)
    patch_bits = _patch_bits(gap_width + patch_width)
    bits, end = _read_bits(data, offset, patch_bits, patches)
    position = 0
    for patch in _bits_to_numbers(bits).tolist():  # scalar: at most 31 patches
        position += patch >> patch_width
        if position < count:
            values[position] |= np.uint64((patch & ((1 << patch_width) - 1)) << width & _MAX_BITS)
    return [base + int(values.min()), base + int(values.max())], end


def _patch_bits(width: int) -> int:
    """Return the width in which gaps and patches of so many bits together are stored."""
    return next(candidate for candidate in _BIT_WIDTHS if candidate >= min(width, _BIT_WIDTHS[-1]))


def _bits_to_numbers(bits: Bits) -> NDArray[np.uint64]:
    """Return the numbers that rows of bits stand for."""
    padded = np.zeros((len(bits), 64), np.uint8)
    padded[:, 64 - bits.shape[1] :] = bits
    return np.packbits(padded, axis=1).view(">u8").reshape(-1).astype(np.uint64)


def _sum_first_run(data: bytes, offset: int) -> tuple[int, int]:
    """Return the sum of a run of the first version, and where the next run begins."""
    head = data[offset]
    if head < 0x80:
        count, delta = head + 3, data[offset + 1] - ((data[offset + 1] & 0x80) << 1)
        base, offset = read_varint(data, offset + 2)
        return _sum_fixed_delta(base, delta, count), offset
    length_sum, offset = 0, offset + 1
    short = data[offset : offset + 256 - head]
    if len(short) == 256 - head and short.isascii():  # each takes one byte
        return sum(short), offset + len(short)
    for _ in range(256 - head):
        value, offset = read_varint(data, offset)
        length_sum += _check_length(value)
    return length_sum, offset


def _sum_run(data: bytes, offset: int) -> tuple[int, int]:
    """Return the sum of a run of the second version, and where the next run begins."""
    head = data[offset]
    kind = head >> 6
    if kind == 0:
        end = offset + 2 + (head >> 3 & 7)
        return ((head & 7) + 3) * _check_length(_read_big_endian(data, offset + 1, end)), end
    width, count = _BIT_WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[offset + 1]) + 1
    offset += 2
    if kind == 1:
        return _sum_direct(data, offset, width, count)
    if kind == 2:
        return _sum_patched_base(data, offset, width, count)
    base, offset = read_varint(data, offset)
    delta, offset = read_zigzag(data, offset)
    if not head >> 1 & 31:
        return _sum_fixed_delta(base, delta, count), offset
    return _sum_variable_delta(data, offset, width, (base, delta, count))


def _sum_fixed_delta(base: int, delta: int, count: int) -> int:
    """Return the sum of lengths that grow by the same each time."""
    last = base + delta * (count - 1)
    return count * (_check_length(base) + _check_length(last)) // 2


def _sum_variable_delta(data: bytes, offset: int, width: int, run: tuple[int, int, int]) -> tuple[int, int]:
    """Return the sum of the lengths of a delta run.

    The first two follow from base and delta, each other one is stored as its difference; all have the same sign.
    """
    base, delta, count = run
    steps = max(0, count - 2)
    sign = 1 if delta >= 0 else -1
    grown, weighed = 0, 0  # all steps together, and each as often as lengths have it
    end = offset + (steps * width + 7) // 8
    if steps <= _FEW_STEPS:
        packed = _read_big_endian(data, offset, end) >> -steps * width % 8
        for weight in range(1, steps + 1):
            step, packed = packed & ((1 << width) - 1), packed >> width
            grown, weighed = grown + step, weighed + step * weight
    else:
        bits, end = _read_bits(data, offset, width, steps)
        for at_bit, ones in enumerate(bits.T.astype(np.int64)):
            grown += int(ones.sum()) << (width - 1 - at_bit)
            weighed += int(ones @ np.arange(steps, 0, -1)) << (width - 1 - at_bit)
    _check_length(base)
    if count > 1:
        _check_length(base + delta)
        _check_length(base + delta + sign * grown)
    return count * base + (count - 1) * delta + sign * weighed, end


def _sum_direct(data: bytes, offset: int, width: int, count: int) -> tuple[int, int]:
    """Return the sum of `count` numbers of `width` bits, and where the next run begins."""
    bits, end = _read_bits(data, offset, width, count)
    if width == _BIT_WIDTHS[-1] and bits[:, 0].any():
        raise Corrupt("a length below zero", field="length")
    return _sum_bits(bits), end


def _sum_patched_base(data: bytes, offset: int, width: int, count: int) -> tuple[int, int]:
    size, patch_width = (data[offset] >> 5) + 1, _BIT_WIDTHS[data[offset] & 31]
    gap_width, patches = (data[offset + 1] >> 5) + 1, data[offset + 1] & 31
    offset += 2
    base = _read_big_endian(data, offset, offset + size)
    if base >> (8 * size - 1):
        raise Corrupt("a length below zero", field="length")
    unpatched, offset = _sum_direct(data, offset + size, width, count)
    patch_bits = _patch_bits(gap_width + patch_width)
    bits, end = _read_bits(data, offset, patch_bits, patches)
    return count * base + unpatched + (_sum_bits(bits[:, max(0, patch_bits - patch_width) :]) << width), end


def _read_bits(data: bytes, offset: int, width: int, count: int) -> tuple[Bits, int]:
    """Return a row of bits, the highest first, for each of `count` numbers, and the offset after them.

    Raises:
        IndexError: the data ends too early.
    """
    end = offset + (count * width + 7) // 8
    if end > len(data):
        raise IndexError
    return np.unpackbits(np.frombuffer(data[offset:end], np.uint8))[: count * width].reshape(count, width), end


def _sum_bits(bits: Bits) -> int:
    """Return the sum of the numbers that rows of bits stand for."""
    width = bits.shape[1]
    return sum(int(ones) << (width - 1 - at) for at, ones in enumerate(bits.sum(0, dtype=np.int64)))


def _read_big_endian(data: bytes, offset: int, end: int) -> int:
    """Return a big-endian number. Raises `IndexError` if the data ends."""
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[offset:end], "big")


def _check_length(length: int) -> int:
    """Return `length`. Raises `Corrupt` if it is out of range."""
    if not 0 <= length <= _MAX_LENGTH:
        raise Corrupt(f"a length of {length}", field="length")
    return length


# ---- bounds, by the heads of runs ------------------------------------------


def bound_sum(data: bytes, *, second: bool, maximum: int) -> int:
    """Return no less than the sum of the lengths of a stream; more than `maximum` only where the sum is.

    The heads of runs tell how great their lengths can be; what they hold is decoded only where that is too much.

    Raises:
        Corrupt: a length is below zero.
    """
    if not second:
        return sum_lengths(data, second=False)
    bound = _bound_runs(data, _sum_run, _MAX_HEAD_BITS)
    return bound if bound <= maximum else _sum_all(data)


def _sum_all(data: bytes) -> int:
    """Return the sum of all lengths of a stream; those of direct runs of a width are decoded together."""
    directs: dict[int, list[tuple[int, int]]] = {}

    def read(data: bytes, offset: int) -> tuple[int, int]:
        width = _DIRECT_BITS[data[offset]]
        if not 0 < width <= _MAX_PACKED_BITS:
            return _sum_run(data, offset)
        count, end = _count_run(data, offset)
        if end > len(data):
            raise IndexError
        directs.setdefault(width, []).append((offset + 2, count))
        return 0, end

    total = sum(_read_runs(data, read))
    raw = np.frombuffer(data + bytes(4), np.uint8)
    for width, runs in directs.items():
        total += sum(
            _sum_packed(raw, width, np.array(runs[at : at + _RUNS_AT_ONCE]))
            for at in range(0, len(runs), _RUNS_AT_ONCE)
        )
    return total


def _sum_packed(raw: Bits, width: int, runs: NDArray[np.int64]) -> int:
    """Return the sum of the numbers of some runs, which are given by the offsets of their values and their counts."""
    begins, counts = runs.T
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    bit = np.repeat(begins * 8, counts) + number * width
    at = bit >> 3
    packed = raw[at].astype(np.int64)
    for further in (1, 2, 3):
        packed = packed << 8 | raw[at + further]
    return int((packed >> 32 - width - (bit & 7) & (1 << width) - 1).sum())


def check_signed(data: bytes, *, second: bool, low: int, high: int) -> None:
    """Check that the signed numbers of a stream are in range, but for those of eight bits or fewer.

    Raises:
        Corrupt: a number is out of range.
    """

    def check_run(data: bytes, offset: int) -> tuple[int, int]:
        bounds, end = (_signed_run if second else _first_signed_run)(data, offset)
        if min(bounds) < low or max(bounds) > high:
            raise Corrupt(f"numbers of {min(bounds)} to {max(bounds)}", offset=offset, field="number")
        return 0, end

    if second:
        _bound_runs(data, check_run, _BYTE_BITS)
    else:
        for _ in _read_runs(data, check_run):
            pass


def count_numbers(data: bytes, *, second: bool) -> int:
    """Return how many numbers the runs of a stream hold; a run that ends too early is left out."""
    return sum(_read_runs(data, _count_run if second else _count_first_run))


def count_bytes(data: bytes) -> int:
    """Return how many bytes the runs of a stream hold: the values of a BYTE column, or eight bits each."""
    return sum(
        _read_runs(data, lambda data, at: (data[at] + 3, at + 2) if data[at] < 0x80 else _count_direct(data, at))
    )


def _count_direct(data: bytes, offset: int) -> tuple[int, int]:
    return 256 - data[offset], offset + 1 + 256 - data[offset]


def _count_first_run(data: bytes, offset: int) -> tuple[int, int]:
    """Return how many numbers a run of the first version holds, and where the next run begins."""
    head = data[offset]
    if head < 0x80:
        return head + 3, read_varint(data, offset + 2)[1]
    offset += 1
    for _ in range(256 - head):
        offset = read_varint(data, offset)[1]
    return 256 - head, offset


def _count_run(data: bytes, offset: int) -> tuple[int, int]:
    """Return how many numbers a run of the second version holds, and where the next run begins."""
    head = data[offset]
    kind = head >> 6
    if kind == 0:
        return (head & 7) + 3, offset + 2 + (head >> 3)
    width, count = _BIT_WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[offset + 1]) + 1
    offset += 2
    if kind == 1:
        return count, offset + (width * count + 7) // 8
    if kind == 2:
        size, patch_width = (data[offset] >> 5) + 1, _BIT_WIDTHS[data[offset] & 31]
        gap_width, patches = (data[offset + 1] >> 5) + 1, data[offset + 1] & 31
        return count, offset + 2 + size + (width * count + 7) // 8 + (
            _patch_bits(gap_width + patch_width) * patches + 7
        ) // 8
    _, offset = read_varint(data, offset)
    _, offset = read_varint(data, offset)
    return count, offset + ((width * max(0, count - 2) + 7) // 8 if head >> 1 & 31 else 0)


def _bound_runs(data: bytes, read: Callable[[bytes, int], tuple[int, int]], width: int) -> int:
    """Return a bound of the sum of a stream's unsigned numbers, by the heads of its runs.

    `read` returns the bound of a run that is neither direct nor one byte repeated, or that has more than `width` bits,
    and where the next run begins.

    There may be a run for every three numbers, and Arrow decodes them in less time than Python takes for a step of a
    loop. So steps are made at once for all offsets where a run of a repeated byte may begin, over that run and a direct
    one behind it: to which of these offsets they lead, and what they add. Then only every 16th is looked up.
    """
    at, total, end = 0, 0, len(data)
    if end < _FEW_BYTES:
        return _walk_runs(data, (0, end), bytes(end), read, width)[1]
    raw = np.frombuffer(data + bytes(4), np.uint8)
    for begin in range(0, end, _BLOCK_BYTES):  # arrays of a block stay in the processor's cache
        size = min(_BLOCK_BYTES, end - begin)
        steps, places = _Steps(raw[begin : begin + size + 4], width), list[int]()
        at -= begin
        while at < size:
            at, more = _walk_runs(data, (begin + at, begin + size), steps.begins, read, width)
            at, total = at - begin, total + more
            if at < size:
                at = steps.follow_steps(at, places)
        at, total = at + begin, total + steps.sum_steps(places)
    return total


class _Steps:
    """Steps from offsets where a repeated byte may begin, `begins`, to the next; `none` stands for any other offset."""

    def __init__(self, raw: Bits, width: int) -> None:
        size = len(raw) - 4
        likely = raw[:-4] < 8
        likely &= (raw[2:-2] < 8) | (raw[2:-2] ^ 0x40 < 0x40)
        self.begins = likely.tobytes()
        at = np.flatnonzero(likely).astype(np.int32)
        self.none = len(at)
        heads = raw[:-1].astype(np.uint16)
        heads <<= 8
        heads |= raw[1:]
        self.first, self.second = heads[at], heads[at + 2]
        self.sizes, self.most = _head_tables(min(width, _MAX_STEP_BITS))
        self.ends = at + self.sizes[self.second]
        self.step_indexes = np.full(size + 1, self.none, np.int32)
        self.step_indexes[at] = np.arange(self.none, dtype=np.int32)
        jump = np.empty(self.none + 1, np.int32)
        jump[self.none] = self.none
        self.step_indexes.take(self.ends, out=jump[:-1], mode="clip")
        self.jumps = [jump]
        for _ in range(_STEP_DOUBLINGS):
            self.jumps.insert(0, self.jumps[0].take(self.jumps[0]))

    def follow_steps(self, at: int, places: list[int]) -> int:
        """Return where the steps from `at` on end; every 16th of them is appended to `places`."""
        far, none = self.jumps[0].item, self.none
        last = place = self.step_indexes.item(at)
        while place != none:
            places.append(place)
            last, place = place, far(place)
        for jump in self.jumps[1:]:
            place = jump.item(last)
            last = last if place == none else place
        return self.ends.item(last)

    def sum_steps(self, places: list[int]) -> int:
        """Return the sum of the amounts that the steps of `follow_steps` add."""
        found = np.array(places, np.int32)
        for jump in self.jumps[1:]:
            found = np.concatenate([found, jump[found]])
        found = found[found != self.none]
        second = self.second[found]
        most = self.most[self.first[found]] + np.where(second >> 8 < 8, 0, self.most[second])
        return int(most.sum(dtype=np.int64))


@lru_cache(maxsize=2)
def _head_tables(width: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return by the first two bytes of a run the size of a step to behind it, and the most that it sums up to.

    The step is over a run of two bytes before it, too. Both stay so where it is no direct run of so many bits.
    """
    head, second = np.divmod(np.arange(1 << 16, dtype=np.int32), 256)
    bits = np.where(width < _DIRECT_WIDTHS, 0, _DIRECT_WIDTHS).astype(np.int32)[head]
    counts = second + ((head & 1) << 8) + 1
    sizes = np.where(bits > 0, 4 + (bits * counts + 7 >> 3), 2).astype(np.int32)
    return sizes, np.where(head < 8, (head + 3) * second, np.where(bits > 0, counts << bits, 0)).astype(np.int32)


def _walk_runs(
    data: bytes, span: tuple[int, int], stops: bytes, read: Callable[[bytes, int], tuple[int, int]], width: int
) -> tuple[int, int]:
    """Return where the runs of a span end, or the next one of `stops` in it begins, and a bound of their sum."""
    (at, end), total = span, 0
    begin = end - len(stops)
    try:
        while at < end and not stops[at - begin]:
            head = data[at]
            if head < 8:  # a byte, repeated
                total += (head + 3) * data[at + 1]
                at += 2
            elif 0 < _DIRECT_BITS[head] <= width:
                bits, count = _DIRECT_BITS[head], ((head & 1) << 8 | data[at + 1]) + 1
                total += count << bits
                at += 2 + (bits * count + 7 >> 3)
            else:
                more, at = read(data, at)
                total += more
    except IndexError:  # a run that ends too early is left to Arrow
        return len(data), total
    return at, total
