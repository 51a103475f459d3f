"""Validation of serialized HLL and theta sketches.

    hll      0 preamble ints: 2 list, 3 set, 10 array · 1 version: 1 · 2 family: 7 · 3 lg k · 4 lg of the table's ints
             5 flags: 04 empty, 08 compact · 6 coupons of a list, the array's lowest value
             7 mode: 0 list, 1 set, 2 array | type: 0 hll_4, 1 hll_6, 2 hll_8 << 2
      list   8 coupons                            compact: as many as said, else a table of 8
                                                  a coupon is value << 26 | slot
      set    8 count i32 · 12 coupons             compact: as many as said, else a table of 1 << lg, free slots are 0
      array  8 hip f64 · 16 kxq f64 twice · 32 slots with the lowest value i32 · 36 exceptions i32
             40 values of 4, 6 or 8 bits, a slot each
             hll_4: a value is above the lowest one, 15 says that a coupon behind the array holds it
    theta    0 preamble words (low 6 bits) · 1 version: 1 to 4 · 2 family: 3 · 5 flags: 04 empty, 10 ordered
             6 hash of the seed u16 · 8 count u32 · 12 p f32 · 16 theta u64, each where there are as many words
             hashes u64, ascending where they are ordered, below theta
      4      3 bits of a hash · 4 bytes of the count · count behind the preamble · differences of the hashes, packed

The library that unites sketches writes beyond its buffers if a count or a length is wrong.

Source: DataSketches 5.2, "HLL sketch" and "Theta sketch" formats (`PreambleUtil`, `HllArray`, `CouponHashSet`,
`compact_theta_sketch`).
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

LIST_MODE, SET_MODE, ARRAY_MODE = range(3)
_PREAMBLE_INTS = (2, 3, 10)
_MIN_LG_K, _MAX_LG_K = 4, 21
_HLL_FAMILY, _THETA_FAMILY = 7, 3
_COMPACT_FLAG, _EMPTY_FLAG, _ORDERED_FLAG = 0x08, 0x04, 0x10
_LIST_SLOTS, _MIN_LG_SET = 8, 5
_ARRAY_BEGIN = 40
_MAX_VALUE, _EXCEPTION_SLOT = 63, 15
_MAX_THETA = 2**63 - 1


def check_hll(data: bytes) -> None:
    """Raise `Corrupt` unless `data` is a serialized HLL sketch whose counts and lengths match.

    It may be compact or updatable.
    """
    if len(data) < 8:
        raise _make_corrupt(f"{len(data)} bytes, where a preamble has 8", "preamble", 0)
    ints, version, family, lg_k, lg_table, flags, low, kinds = data[:8]
    mode, bits = kinds & 3, kinds >> 2 & 3
    if mode > ARRAY_MODE or bits > 2 or ints != _PREAMBLE_INTS[mode]:
        raise _make_corrupt(f"mode {mode} of type {bits} with a preamble of {ints} ints", "mode", 7)
    if version != 1 or family != _HLL_FAMILY:
        raise _make_corrupt(
            f"version {version} of family {family}, where version 1 of family {_HLL_FAMILY} is expected", "family", 1
        )
    if not _MIN_LG_K <= lg_k <= _MAX_LG_K:
        raise _make_corrupt(f"lg k is {lg_k}, where {_MIN_LG_K} to {_MAX_LG_K} are allowed", "lg k", 3)
    compact = bool(flags & _COMPACT_FLAG)
    if mode == LIST_MODE:
        if low > _LIST_SLOTS:
            raise _make_corrupt(f"{low} coupons in a list of {_LIST_SLOTS}", "count", 6)
        _check_coupons(data, 8, low, low if compact else _LIST_SLOTS)
    elif mode == SET_MODE:
        _check_set(data, lg_k, lg_table, is_compact=compact)
    else:
        _check_array(data, lg_k, bits, low, is_compact=compact)


def check_theta(data: bytes) -> None:
    """Raise `Corrupt` unless `data` is a serialized compact theta sketch whose counts and lengths match."""
    if len(data) < 8:
        raise _make_corrupt(f"{len(data)} bytes, where a preamble has 8", "preamble", 0)
    preamble_words, version, family, flags = data[0] & 0x3F, data[1], data[2], data[5]
    if not 1 <= version <= 4 or family != _THETA_FAMILY:
        raise _make_corrupt(
            f"version {version} of family {family}, where versions 1 to 4 of family {_THETA_FAMILY} are expected",
            "family",
            1,
        )
    if not 1 <= preamble_words <= 3 or (version == 1 and preamble_words != 3) or len(data) < 8 * preamble_words:
        raise _make_corrupt(
            f"a preamble of {preamble_words} words in {len(data)} bytes of version {version}", "preamble", 0
        )
    if version == 4:
        _check_packed(data, preamble_words)
    elif preamble_words > 1:
        count = _read_number(data, 8, 4)
        theta = _read_number(data, 16, 8) if preamble_words == 3 else _MAX_THETA
        _check_hashes(data, 8 * preamble_words, count, theta, is_ordered=version > 1 and bool(flags & _ORDERED_FLAG))
    elif version >= 3 and not flags & _EMPTY_FLAG:
        _check_hashes(data, 8, 1, _MAX_THETA, is_ordered=False)


CHECK_OF_FUNCTION: Mapping[str, Callable[[bytes], None]] = {"hll_sketch": check_hll, "theta_sketch": check_theta}
"""The check of an aggregate function's values."""


# ---- HLL -------------------------------------------------------------------------------------------------------------


def _check_set(data: bytes, lg_k: int, lg_table: int, *, is_compact: bool) -> None:
    if len(data) < 12:
        raise _make_corrupt(f"{len(data)} bytes, where the preamble of a set has 12", "preamble", 0)
    count = _read_number(data, 8, 4)
    if lg_k <= _MIN_LG_SET + 2 or not _MIN_LG_SET <= lg_table <= lg_k - 3:
        raise _make_corrupt(f"a set of 2^{lg_table} coupons, lg k is {lg_k}", "lg of the table", 4)
    if 4 * count > 3 << lg_table:
        raise _make_corrupt(f"{count} coupons in a set of 2^{lg_table}", "count", 8)
    _check_coupons(data, 12, count, count if is_compact else 1 << lg_table)


def _check_coupons(data: bytes, begin: int, count: int, slots: int) -> NDArray[np.uint32]:
    """Return the coupons that begin at byte `begin`: `count` of them in `slots` slots."""
    if len(data) < begin + 4 * slots:
        raise _make_corrupt(f"{slots} coupons from byte {begin} on, in {len(data)} bytes", "coupons", begin)
    coupons = np.frombuffer(data, "<u4", slots, begin)
    coupons = coupons[coupons != 0]
    if len(coupons) != count:
        raise _make_corrupt(f"{len(coupons)} coupons, where {count} are said", "count", begin)
    if not (coupons >> 26).all() or len(np.unique(coupons)) != count:
        raise _make_corrupt("a coupon without a value, or one that is there twice", "coupons", begin)
    return coupons


def _check_array(data: bytes, lg_k: int, bits: int, lowest: int, *, is_compact: bool) -> None:
    slots = 1 << lg_k
    length = (slots // 2, slots * 3 // 4 + 1, slots)[bits]
    if len(data) < _ARRAY_BEGIN + length:
        raise _make_corrupt(
            f"{len(data)} bytes, where an array of 2^{lg_k} slots ends at byte {_ARRAY_BEGIN + length}",
            "array",
            _ARRAY_BEGIN,
        )
    sums = struct.unpack_from("<3d", data, 8)
    if not all(math.isfinite(total) and total >= 0 for total in sums):
        raise _make_corrupt(f"sums of {sums}", "sums", 8)
    at_lowest, exceptions = _read_number(data, 32, 4), _read_number(data, 36, 4)
    if at_lowest > slots or lowest > _MAX_VALUE or (bits and (lowest or exceptions)):
        raise _make_corrupt(
            f"{at_lowest} slots have the lowest value {lowest}, {exceptions} an exception, of {slots}", "counts", 32
        )
    values = np.frombuffer(data, np.uint8, length, _ARRAY_BEGIN)
    if bits == 0:
        _check_exceptions(data, values, (lg_k, lowest, exceptions), is_compact=is_compact)
    elif bits == 2 and (values > _MAX_VALUE).any():
        raise _make_corrupt(f"a value of {values.max()}, where {_MAX_VALUE} is the greatest", "array", _ARRAY_BEGIN)


def _check_exceptions(data: bytes, values: NDArray[np.uint8], facts: tuple[int, int, int], *, is_compact: bool) -> None:
    """Check the coupons after an array of four bits: one for each slot that is marked, and no other."""
    lg_k, lowest, count = facts
    slots = np.empty(2 * len(values), np.uint8)
    slots[0::2], slots[1::2] = values & 15, values >> 4
    marked = np.flatnonzero(slots == _EXCEPTION_SLOT)
    if len(marked) != count:
        raise _make_corrupt(f"{count} exceptions, where {len(marked)} slots have one", "exceptions", 36)
    if count == 0:
        if int(slots.max()) + lowest > _MAX_VALUE:
            raise _make_corrupt(
                f"values of up to {int(slots.max()) + lowest}, where {_MAX_VALUE} is the greatest",
                "array",
                _ARRAY_BEGIN,
            )
        return
    lg_table = data[4]
    if not 2 <= lg_table <= lg_k or 4 * count > 3 << lg_table:
        raise _make_corrupt(f"{count} exceptions in a table of 2^{lg_table}, lg k is {lg_k}", "lg of the table", 4)
    begin = _ARRAY_BEGIN + len(values)
    coupons = _check_coupons(data, begin, count, count if is_compact else 1 << lg_table)
    at, exceptions = np.sort(coupons & ((1 << lg_k) - 1)), coupons >> 26
    if (at != marked).any() or (exceptions < lowest + _EXCEPTION_SLOT).any():
        raise _make_corrupt(
            "exceptions of other slots than those that have one, or of values that are none", "exceptions", begin
        )
    if (slots[slots != _EXCEPTION_SLOT].astype(np.int64) + lowest > _MAX_VALUE).any():
        raise _make_corrupt(f"values above {_MAX_VALUE}", "array", _ARRAY_BEGIN)


# ---- theta -----------------------------------------------------------------------------------------------------------


def _check_hashes(data: bytes, begin: int, count: int, theta: int, *, is_ordered: bool) -> None:
    if len(data) < begin + 8 * count:
        raise _make_corrupt(f"{count} hashes from byte {begin} on, in {len(data)} bytes", "count", 8)
    if not 0 < theta <= _MAX_THETA:
        raise _make_corrupt(f"theta is {theta}", "theta", 16)
    hashes = np.frombuffer(data, "<u8", count, begin)
    if (hashes == 0).any() or (hashes >= theta).any():
        raise _make_corrupt("a hash of 0, or one that is not below theta", "hashes", begin)
    if (is_ordered and (hashes[1:] <= hashes[:-1]).any()) or (not is_ordered and len(np.unique(hashes)) != count):
        raise _make_corrupt("hashes out of order, or one that is there twice", "hashes", begin)


def _check_packed(data: bytes, preamble_words: int) -> None:
    """Check a sketch whose hashes are stored as packed differences."""
    bits, count_bytes = data[3], data[4]
    if not 1 <= bits <= 63 or not 1 <= count_bytes <= 4 or preamble_words > 2:
        raise _make_corrupt(f"hashes of {bits} bits, a count of {count_bytes} bytes", "bits of a hash", 3)
    begin = 8 * preamble_words
    count = _read_number(data, begin, count_bytes)
    if begin + count_bytes > len(data) or (count * bits + 7) // 8 > len(data) - begin - count_bytes:
        raise _make_corrupt(f"{count} hashes of {bits} bits in {len(data)} bytes", "count", begin)
    if preamble_words == 2 and not 0 < _read_number(data, 8, 8) <= _MAX_THETA:
        raise _make_corrupt(f"theta is {_read_number(data, 8, 8)}", "theta", 8)


def _read_number(data: bytes, offset: int, length: int) -> int:
    return int.from_bytes(data[offset : offset + length], "little")


def _make_corrupt(problem: str, field: str, offset: int) -> Corrupt:
    return Corrupt(problem, field=field, offset=offset)
