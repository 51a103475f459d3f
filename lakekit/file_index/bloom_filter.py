"""Bloom filter of one column: answers = and IN with "no row of this file" or "cannot tell".

    i32 BE k | bits / 8 bytes                 bit p is byte p >> 3, mask 1 << (p & 7)

A value's 64 bit hash H gives k bits: |i32(low(H) + i × high(H))|, i = 1 … k, modulo bits, where |c| flips every bit of
a negative c. Nulls set none.

    STRING, items 3, fpp 0.1: a, b, 湖     00000004 5b71

Options: `items` (1,000,000), `fpp` (0.1).

Source: FORMAT.md 9.4; `BloomFilter64`, `FastHash`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakekit.codec import hashing
from lakekit.codec.binary_row import read_integers_at
from lakekit.codec.cursor import Cursor
from lakekit.errors import InvalidOption
from lakekit.file_index import container

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lakekit.file_index.container import Payloads
    from lakekit.predicate import Leaf
    from lakekit.types import DataType

NAME = "bloom-filter"
OPTIONS = ("items", "fpp")
TYPES = frozenset(
    {
        *("CHAR", "VARCHAR", "BINARY", "VARBINARY", "TINYINT", "SMALLINT", "INT", "BIGINT"),
        *("FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
    }
)
_MAX_BITS = 1 << 31
_MAX_BATCH_BITS = 1 << 20
"""Bytes of many filters that are looked at together."""


def build(column: pa.Array | pa.ChunkedArray, t: DataType, options: Mapping[str, str]) -> bytes:
    """Return the payload for a column. Raises `InvalidOption`."""
    bits, k = _filter_size(options)
    keys = container.keys_of(column, t)
    valued = ~keys.nulls
    if isinstance(keys.values, np.ndarray):
        hashes = hashing.wang_mix64(container.stored_bits(keys.values[valued], t)).view(np.uint64)
    else:
        hashes = hashing.xxhash64_column(keys.values.filter(pa.array(valued)))
    filled = np.zeros(bits // 8, np.uint8)
    at = _bit_positions(hashes, np.arange(1, k + 1, dtype=np.int32), bits).reshape(-1)
    np.bitwise_or.at(filled, at >> 3, np.left_shift(1, at & 7).astype(np.uint8))
    return k.to_bytes(4, "big") + filled.tobytes()


def _filter_size(options: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of bits and of hash functions, by the arithmetic of the reference."""
    try:
        items, fpp = int(options.get("items", "1000000")), float(options.get("fpp", "0.1"))
        wanted = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
    except (ValueError, OverflowError) as error:
        msg = f"bloom-filter takes items (a whole number) and fpp (between 0 and 1): {error}"
        raise InvalidOption(msg, key="file-index.bloom-filter") from None
    bits = wanted + 8 - wanted % 8
    if not (items > 0 and 0 < fpp < 1 and bits < _MAX_BITS):
        msg = f"bloom-filter with items={items} and fpp={fpp} would have {bits} bits; it takes between 8 and 2147483640"
        raise InvalidOption(msg, key="file-index.bloom-filter")
    return bits, max(1, math.floor(bits / items * math.log(2) + 0.5))


def _bit_positions(hashes: NDArray[np.uint64], steps: NDArray[np.int32], bits: int) -> NDArray[np.int32]:
    """Return the bit positions of each hash, an array of hashes × k."""
    low, high = hashes.astype(np.int32), (hashes >> np.uint64(32)).astype(np.int32)  # their low 32 bits
    mixed = low[:, None] + steps * high[:, None]
    return (mixed ^ mixed >> np.int32(31)) % np.int32(bits)


def _read_head(cursor: Cursor) -> tuple[int, int]:
    """Return the number of hash functions and of bits."""
    k = cursor.i32be("hash functions")
    bits = 8 * cursor.remaining
    if not _is_sound(k, bits):
        raise cursor.make_error(f"{k} hash functions over {bits} bits", "hash functions", at=0)
    return k, bits


def _is_sound(k: int, bits: int) -> bool:
    return 1 <= k <= 65536 and 0 < bits < _MAX_BITS


def walk(cursor: Cursor, t: DataType | None) -> None:  # noqa: ARG001
    """Read the whole payload, to record its spans. Raises `Corrupt`."""
    _read_head(cursor)
    cursor.raw(cursor.remaining, "bits")


def probe(payload: bytes | memoryview, t: DataType, leaf: Leaf, row_count: int) -> bool:  # noqa: ARG001
    """Return False if no row can match. Raises `Corrupt`."""
    if leaf.op not in ("=", "in"):
        return True
    probe_bytes = _probe_bytes(leaf, tuple(map(type, leaf.literals)), t, *_read_head(Cursor(payload)))
    if probe_bytes is None:
        return True
    places, masks = probe_bytes
    return bool((np.frombuffer(payload, np.uint8)[places] & masks == masks).all(axis=1).any())


def absent(payloads: Payloads, t: DataType, leaf: Leaf) -> NDArray[np.bool_]:
    """Return for which of many payloads `probe` returns False; damaged ones rule nothing out."""
    data, begins, _ = payloads
    ruled_out = np.zeros(len(begins), bool)
    for k, bits, rows in _group_by_size(payloads):
        probed = _probe_bytes(leaf, tuple(map(type, leaf.literals)), t, k, bits) if _is_sound(k, bits) else None
        if probed is None:
            continue
        places, masks = probed
        step = max(1, _MAX_BATCH_BITS // max(1, places.size))
        for first in range(0, len(rows), step):
            members = rows[first : first + step]
            ruled_out[members] = ~(data[begins[members, None, None] + places] & masks == masks).all(axis=2).any(axis=1)
    return ruled_out


def _group_by_size(payloads: Payloads) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Return hash functions and bits (mostly one size), and the payloads with them that are long enough."""
    lengths = payloads.ends - payloads.begins
    members = np.flatnonzero(lengths > 4)
    every = read_integers_at(payloads.data, payloads.begins[members], 4) << 32 | lengths[members]
    # scalar: few sizes
    return [
        (shape >> 32, 8 * ((shape & 0xFFFFFFFF) - 4), members[every == shape]) for shape in np.unique(every).tolist()
    ]


@lru_cache(256)
def _probe_bytes(
    leaf: Leaf,
    kinds: tuple[type, ...],  # noqa: ARG001 - part of the cache key
    t: DataType,
    k: int,
    bits: int,
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """Return the bytes of a payload to look at for each value, and the bits in them; None if it cannot tell.

    Filters of one column mostly have the same size, so that this is cached. `kinds` are the types of the literals: 1
    and True are equal.
    """
    query = container.key_query_of(leaf, t)
    if query is None or query.kind != "equal":
        return None
    if t.root in container.STORED_WIDTHS:
        inside = [key for key in query.keys if isinstance(key, int) and -(2**63) <= key < 2**63]
        key_hashes = [hashing.wang_mix64_unsigned(container.convert_stored_bits(key, t)) for key in inside]
    else:
        key_hashes = [hashing.xxhash64(key) for key in query.keys if isinstance(key, bytes)]
    hashes = np.array(key_hashes, np.uint64)
    at = _bit_positions(hashes, np.arange(1, k + 1, dtype=np.int32), bits)
    return 4 + (at >> 3), np.left_shift(1, at & 7).astype(np.uint8)
