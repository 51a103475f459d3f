"""Aggregates of the runs of an ORC stream: the sum of lengths, and the range of decimal scales.

    first version    00 05 02    count - 3 · delta, signed · base, varint   |  ff 07     256 - count · values, varints
    00 repeat        2 bits kind · 3 bits bytes - 1 · 3 bits count - 3 | value, big-endian
    01 direct        2 kind · 5 width · 9 count - 1 | values
    10 patched       2 kind · 5 width · 9 count - 1 · 3 bytes of the base - 1 · 5 patch width · 3 gap width - 1
                     · 5 patches | base | values | patches
    11 delta         2 kind · 5 width · 9 count - 1 | base, varint | delta, zig-zag varint | deltas

Values are computed as columns of bits. Source: the ORC specification v1, "Run Length Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lakekit.codec.varints import read_varint, read_zigzag
from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Bits = NDArray[np.uint8]

T = TypeVar("T")

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MOST_LENGTH, _MOST_BITS = 2**63 - 1, 2**64 - 1


def total(data: bytes, *, second: bool) -> int:
    """Return the sum of all lengths of a stream.

    Of a stream that ends too early, which is left to Arrow, only the runs before the end are counted.

    Raises:
        Corrupt: a length is below zero.
    """
    return sum(_read_runs(data, _run if second else _first_run))


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


def _first_signed_run(data: bytes, at: int) -> tuple[list[int], int]:
    """Return bounds of the numbers of a run of the first version, and where the next run begins."""
    head = data[at]
    if head < 0x80:
        delta = data[at + 1] - ((data[at + 1] & 0x80) << 1)
        base, at = read_zigzag(data, at + 2)
        return [base, base + delta * (head + 2)], at
    values, at = [], at + 1
    for _ in range(256 - head):
        value, at = read_zigzag(data, at)
        values.append(value)
    return values, at


def _signed_run(data: bytes, at: int) -> tuple[list[int], int]:
    """Return bounds of the numbers of a run of the second version, and where the next run begins."""
    head = data[at]
    kind = head >> 6
    if kind == 0:
        end = at + 2 + (head >> 3 & 7)
        raw = _number(data, at + 1, end)
        return [(raw >> 1) ^ -(raw & 1)], end
    width, count = _WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1
    at += 2
    if kind == 1:
        bits, end = _bits(data, at, width, count)
        raws = _bits_to_numbers(bits)
        values = (raws >> np.uint64(1)).astype(np.int64) ^ -(raws & np.uint64(1)).astype(np.int64)
        return [int(values.min()), int(values.max())], end
    if kind == 2:
        return _patched_ends(data, at, width, count)
    base, at = read_zigzag(data, at)
    delta, at = read_zigzag(data, at)
    if not head >> 1 & 31:
        return [base, base + delta * (count - 1)], at
    bits, end = _bits(data, at, width, max(0, count - 2))
    grown = _sum(bits)
    return [base, base + delta, base + delta + (grown if delta >= 0 else -grown)], end


def _patched_ends(data: bytes, at: int, width: int, count: int) -> tuple[list[int], int]:
    size, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    raw, sign = _number(data, at + 2, at + 2 + size), 1 << (8 * size - 1)
    base = -(raw & (sign - 1)) if raw & sign else raw
    bits, at = _bits(data, at + 2 + size, width, count)
    values = _bits_to_numbers(bits)
    patch_bits = next(candidate for candidate in _WIDTHS if candidate >= min(gap_width + patch_width, _WIDTHS[-1]))
    bits, end = _bits(data, at, patch_bits, patches)
    position = 0
    for patch in _bits_to_numbers(bits).tolist():  # scalar: at most 31 patches
        position += patch >> patch_width
        if position < count:
            values[position] |= np.uint64((patch & ((1 << patch_width) - 1)) << width & _MOST_BITS)
    return [base + int(values.min()), base + int(values.max())], end


def _bits_to_numbers(bits: Bits) -> NDArray[np.uint64]:
    """Return the numbers that rows of bits stand for."""
    padded = np.zeros((len(bits), 64), np.uint8)
    padded[:, 64 - bits.shape[1] :] = bits
    return np.packbits(padded, axis=1).view(">u8").reshape(-1).astype(np.uint64)


def _first_run(data: bytes, at: int) -> tuple[int, int]:
    """Return the sum of a run of the first version, and where the next run begins."""
    head = data[at]
    if head < 0x80:
        count, delta = head + 3, data[at + 1] - ((data[at + 1] & 0x80) << 1)
        base, at = read_varint(data, at + 2)
        return _sum_fixed_delta(base, delta, count), at
    length_sum, at = 0, at + 1
    for _ in range(256 - head):
        value, at = read_varint(data, at)
        length_sum += _check_length(value)
    return length_sum, at


def _run(data: bytes, at: int) -> tuple[int, int]:
    """Return the sum of a run of the second version, and where the next run begins."""
    head = data[at]
    kind = head >> 6
    if kind == 0:
        end = at + 2 + (head >> 3 & 7)
        return ((head & 7) + 3) * _check_length(_number(data, at + 1, end)), end
    width, count = _WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1
    at += 2
    if kind == 1:
        return _sum_direct(data, at, width, count)
    if kind == 2:
        return _sum_patched_base(data, at, width, count)
    base, at = read_varint(data, at)
    delta, at = read_zigzag(data, at)
    if not head >> 1 & 31:
        return _sum_fixed_delta(base, delta, count), at
    return _sum_variable_delta(data, at, width, (base, delta, count))


def _sum_fixed_delta(base: int, delta: int, count: int) -> int:
    """Return the sum of lengths that grow by the same each time."""
    last = base + delta * (count - 1)
    return count * (_check_length(base) + _check_length(last)) // 2


def _sum_variable_delta(data: bytes, at: int, width: int, run: tuple[int, int, int]) -> tuple[int, int]:
    """Return the sum of the lengths of a delta run.

    The first two follow from base and delta, each other one is stored as its difference; all have the same sign.
    """
    base, delta, count = run
    steps = max(0, count - 2)
    bits, end = _bits(data, at, width, steps)
    sign = 1 if delta >= 0 else -1
    grown, weighed = 0, 0  # all steps together, and each as often as lengths have it
    for at_bit, ones in enumerate(bits.T.astype(np.int64)):
        grown += int(ones.sum()) << (width - 1 - at_bit)
        weighed += int(ones @ np.arange(steps, 0, -1)) << (width - 1 - at_bit)
    _check_length(base)
    if count > 1:
        _check_length(base + delta)
        _check_length(base + delta + sign * grown)
    return count * base + (count - 1) * delta + sign * weighed, end


def _sum_direct(data: bytes, at: int, width: int, count: int) -> tuple[int, int]:
    """Return the sum of `count` numbers of `width` bits, and where the next run begins."""
    bits, end = _bits(data, at, width, count)
    if width == _WIDTHS[-1] and bits[:, 0].any():
        raise Corrupt("a length below zero", field="length")
    return _sum(bits), end


def _sum_patched_base(data: bytes, at: int, width: int, count: int) -> tuple[int, int]:
    size, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    at += 2
    base = _number(data, at, at + size)
    if base >> (8 * size - 1):
        raise Corrupt("a length below zero", field="length")
    unpatched, at = _sum_direct(data, at + size, width, count)
    patch_bits = next(candidate for candidate in _WIDTHS if candidate >= min(gap_width + patch_width, _WIDTHS[-1]))
    bits, end = _bits(data, at, patch_bits, patches)
    return count * base + unpatched + (_sum(bits[:, max(0, patch_bits - patch_width) :]) << width), end


def _bits(data: bytes, at: int, width: int, count: int) -> tuple[Bits, int]:
    """Return a row of bits, the highest first, for each of `count` numbers, and the offset after them.

    Raises:
        IndexError: the data ends too early.
    """
    end = at + (count * width + 7) // 8
    if end > len(data):
        raise IndexError
    return np.unpackbits(np.frombuffer(data[at:end], np.uint8))[: count * width].reshape(count, width), end


def _sum(bits: Bits) -> int:
    """Return the sum of the numbers that rows of bits stand for."""
    width = bits.shape[1]
    return sum(int(ones) << (width - 1 - at) for at, ones in enumerate(bits.sum(0, dtype=np.int64)))


def _number(data: bytes, at: int, end: int) -> int:
    """Return a big-endian number. Raises `IndexError` where the data ends."""
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[at:end], "big")


def _check_length(length: int) -> int:
    """Return `length`. Raises `Corrupt` if it is out of range."""
    if not 0 <= length <= _MOST_LENGTH:
        raise Corrupt(f"a length of {length}", field="length")
    return length
