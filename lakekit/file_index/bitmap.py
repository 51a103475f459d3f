"""Bitmap index of one column: a roaring bitmap of row positions for each distinct value.

version 1   u8 1 | i32 rows | i32 distinct values | u8 has null | [i32 null offset]
            entries: value | i32 offset                                             in any order
            body: [null bitmap] bitmaps

version 2   u8 2 | i32 rows | i32 distinct values | u8 has null | [i32 null offset | i32 null length]
            i32 blocks | blocks × (first value | i32 block offset) | i32 length of all blocks
            blocks: i32 entries | entries × (value | i32 offset | i32 length)       ascending by value
            body: [null bitmap] bitmaps

An offset ≥ 0 counts from the start of the body; a negative one means the single row -1 - offset, stored nowhere (length
-1). Big endian; values are stored as `file_index.container` stores them. The index answers =, IN, IS NULL and their
opposites exactly. != and NOT IN include rows that are null: the reader of the rows applies the condition again.

    INT 1, 2, 1, null, 3, version 1
    01 00000005 00000003 01 fffffffc  00000001 00000000  00000002 fffffffe  00000003 fffffffb  3a30…(rows 0, 2)

Options: `version` (2), `index-block-size` (16kb).

Source: FORMAT.md 9.5; `BitmapFileIndex`, `BitmapFileIndexMeta`, `BitmapFileIndexMetaV2`.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap

from lakekit.codec import roaring
from lakekit.codec.cursor import Cursor
from lakekit.errors import InvalidOption, Unsupported
from lakekit.file_index import container
from lakekit.file_index.container import STORED_WIDTHS, Key, may_contain_length_prefixed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.file_index.container import KeyQuery, RaggedBytes
    from lakekit.predicate import Leaf
    from lakekit.types import DataType

NAME = "bitmap"
OPTIONS = ("version", "index-block-size")
TYPES = frozenset(
    {
        *("CHAR", "VARCHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT"),
        *("FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
    }
)
_MAX_SEARCHED_KEYS = 4
"""As many values are searched one by one."""
_STORED_DTYPES = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
"""Values as their bytes stand: read the wrong way round, equal where the right ones are."""


# ---- building --------------------------------------------------------------------------------------------------------


class _EncodedBitmaps(NamedTuple):
    """The bitmaps of all groups of rows: the bytes, and each group's offset and length in its entry."""

    data: bytes
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]


def build(column: pa.Array | pa.ChunkedArray, t: DataType, options: Mapping[str, str]) -> bytes:
    """Return the payload for a column. Raises `InvalidOption`."""
    version = options.get("version", "2")
    if version not in ("1", "2"):
        msg = f"bitmap indexes have version 1 or 2, found {version!r}"
        raise InvalidOption(msg, key="file-index.bitmap.version", value=version)
    block_size = container.parse_size_option(options, "index-block-size", 16384, NAME)
    distinct = container.distinct_keys(column, t)
    nulls = np.flatnonzero(distinct.codes < 0)
    null_bitmap = roaring.encode_positions(nulls)
    bodies = _encode_bitmaps(distinct.codes, len(distinct.keys), len(null_bitmap) if len(nulls) > 1 else 0)
    head = bytes([int(version)]) + _i32(len(distinct.codes), len(distinct.keys)) + bytes([len(nulls) > 0])
    if len(nulls):
        head += _i32(-1 - int(nulls[0]) if len(nulls) == 1 else 0)
        head += _i32(len(null_bitmap)) if version == "2" else b""
    keys = container.encode_stored(distinct.keys, t)
    body = (null_bitmap if len(nulls) > 1 else b"") + bodies.data
    if version == "1":
        return head + container.concat_rowwise(keys, container.encode_i32_rows(bodies.offsets))[0].tobytes() + body
    return head + _encode_blocks(keys, bodies, block_size) + body


def _i32(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "big", signed=True) for number in numbers)


def _encode_bitmaps(codes: NDArray[np.int64], distinct_count: int, body_offset: int) -> _EncodedBitmaps:
    valued = np.flatnonzero(codes >= 0)
    rows = valued[np.argsort(codes[valued], kind="stable")]
    sizes = np.bincount(codes[valued], minlength=distinct_count)
    ends = np.cumsum(sizes)
    single = sizes == 1
    many = np.repeat(~single, sizes)
    data, offsets = roaring.encode_bitmaps(rows[many], np.concatenate([[0], np.cumsum(sizes[~single])]))
    entry_offsets, lengths = np.empty(distinct_count, np.int64), np.full(distinct_count, -1, np.int64)
    entry_offsets[single] = -1 - rows[(ends - sizes)[single]]
    entry_offsets[~single] = body_offset + offsets[:-1]
    lengths[~single] = np.diff(offsets)
    return _EncodedBitmaps(data.tobytes(), entry_offsets, lengths)


def _encode_blocks(keys: RaggedBytes, bodies: _EncodedBitmaps, block_size: int) -> bytes:
    data, offsets = keys
    entries, ends = container.concat_rowwise(keys, container.encode_i32_rows(bodies.offsets, bodies.lengths))
    heads, blocks = bytearray(), bytearray()
    first, count, number = 0, len(offsets) - 1, 0
    while first < count:  # scalar: a block of many values a step
        end = int(np.searchsorted(ends, int(ends[first]) + block_size - 4, side="right")) - 1
        end = max(first + 1, min(end, count))
        heads += data[offsets[first] : offsets[first + 1]].tobytes() + _i32(len(blocks))
        blocks += _i32(end - first) + entries[ends[first] : ends[end]].tobytes()
        first, number = end, number + 1
    return _i32(number) + bytes(heads) + _i32(len(blocks)) + bytes(blocks)


_MAX_UNPACKED_ENTRIES = 64
"""Up to this many entries Python decodes faster than numpy."""
_STRUCT_LETTERS = {1: "b", 2: "h", 4: "i", 8: "q"}


@lru_cache(16)
def _entry_struct(width: int, int_count: int) -> Struct:
    """Return the struct of an entry: a value of that width, then `int_count` i32."""
    return Struct(f">{_STRUCT_LETTERS[width]}{int_count}i")


# ---- probing ---------------------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    offset: int
    length: int
    """-1: not given."""


def probe(payload: bytes | memoryview, t: DataType, leaf: Leaf, row_count: int) -> bool | BitMap:
    """Return the rows that match, False for none, True if the index cannot tell.

    Of version 2 it reads one block for each literal. Raises `Corrupt`, `Unsupported`.
    """
    query = container.key_query_of(leaf, t)
    matching = None if query is None else rows(payload, t, query, row_count)
    return True if matching is None else container.to_probe_result(matching, row_count)


def rows(payload: bytes | memoryview, t: DataType, query: KeyQuery, row_count: int) -> BitMap | None:
    """Return the rows for which a query is true; None for a range.

    Rows without a value are among the unequal ones. Raises `Corrupt`, `Unsupported`.
    """
    if query.kind == "range":
        return None
    cursor = Cursor(payload)
    version, count, values, null = _read_head(cursor, row_count)
    if query.kind in ("null", "not null"):
        body = (_skip_to_body_v1 if version == 1 else _skip_to_body_v2)(cursor, t, values)
        matching = BitMap() if null is None else _entry_rows(cursor, body, null, count)
        return matching if query.kind == "null" else roaring.full_bitmap(row_count) - matching
    entries, body = (_find_entries_v1 if version == 1 else _find_entries_v2)(cursor, t, values, set(query.keys))
    matching = BitMap()
    for entry in entries:
        matching |= _entry_rows(cursor, body, entry, count)
    return matching if query.kind == "equal" else roaring.full_bitmap(row_count) - matching


def _read_head(cursor: Cursor, row_count: int | None = None) -> tuple[int, int, int, _Entry | None]:
    """Return version, rows, distinct values, and the entry of the nulls."""
    version = cursor.u8("version")
    if version not in (1, 2):
        msg = f"bitmap indexes of version {version} are newer than lakekit; versions 1 and 2 are known"
        raise Unsupported(msg, feature="file-index.bitmap")
    rows = cursor.i32be("rows")
    if row_count is not None and rows != row_count:
        raise cursor.make_error(f"an index of another file: {row_count} rows wanted", "rows", at=1)
    values = cursor.i32be("distinct values")
    null = None
    if cursor.flag("has null"):
        null = _Entry(cursor.i32be("null offset"), cursor.i32be("null length") if version == 2 else -1)
    return version, rows, values, null


def walk(cursor: Cursor, t: DataType | None) -> None:
    """Read the whole payload, to record its spans; only the head if the column's type is unknown.

    Raises `Corrupt`, `Unsupported`.
    """
    version, rows, values, null = _read_head(cursor)
    if t is None:
        cursor.raw(cursor.remaining, "values and bitmaps")
        return
    entries, body = _read_all_entries_v1(cursor, t, values) if version == 1 else _read_all_entries_v2(cursor, t)
    if null is not None:
        with cursor.within("null"):
            _entry_rows(cursor, body, null, rows)
    for number, entry in enumerate(entries):
        with cursor.within(f"value {number}"):
            _entry_rows(cursor, body, entry, rows)


def _read_all_entries_v1(cursor: Cursor, t: DataType, distinct_count: int) -> tuple[list[_Entry], int]:
    return [_Entry(offset, -1) for _, (offset,) in _read_entries(cursor, t, distinct_count, 1, None)], cursor.tell


def _read_all_entries_v2(cursor: Cursor, t: DataType) -> tuple[list[_Entry], int]:
    with cursor.within("blocks"):
        heads = _read_entries(cursor, t, cursor.i32be("blocks"), 1, None)
    length = cursor.i32be("blocks length")
    start = cursor.tell
    cursor.skip(length, "blocks")
    entries = []
    for number, (_, (offset,)) in enumerate(heads):
        with cursor.within(f"block {number}"):
            entries += _find_in_block(cursor, t, start, length, offset, None)
    return entries, start + length


def _entry_rows(cursor: Cursor, body_offset: int, entry: _Entry, row_count: int) -> BitMap:
    payload = cursor.data
    if entry.offset < 0:
        positions = BitMap([-1 - entry.offset])
    else:
        at = min(body_offset + entry.offset, len(payload))
        end = len(payload) if entry.length < 0 else min(at + entry.length, len(payload))
        positions = roaring.read_bitmap(cursor.region(at, end), "bitmap")
    if positions and positions.max() >= row_count:
        raise Cursor(payload).make_error(
            f"row {positions.max()} of {row_count}", "bitmap", at=max(entry.offset, 0) + body_offset
        )
    return positions


def _read_entries(
    cursor: Cursor, t: DataType, count: int, int_count: int, searched_keys: set[Key] | None
) -> list[tuple[Key, tuple[int, ...]]]:
    """Read `count` × (value | `int_count` i32); return those with a wanted value (None: all)."""
    width = STORED_WIDTHS.get(t.root)
    if count < 0 or count * (4 * int_count + (width or 4)) > cursor.remaining:
        raise cursor.make_error(f"{count} entries in {cursor.remaining} bytes", "entries")
    if width is None:
        pairs: list[tuple[Key, tuple[int, ...]]] = []
        if searched_keys and cursor.spans is None and not _may_contain_strings(cursor, searched_keys):
            return pairs
        for _ in range(count):
            key = container.read_key(cursor, t, "value")
            if searched_keys is None or key in searched_keys:
                pairs.append((key, tuple(cursor.i32be(name) for name in ("offset", "length")[:int_count])))
            else:
                cursor.raw(4 * int_count, "numbers")
        return pairs
    begin = cursor.tell
    data = cursor.view(count * (width + 4 * int_count), "entries")
    if cursor.spans is None and (
        len(searched_keys) <= _MAX_SEARCHED_KEYS if searched_keys is not None else count <= _MAX_UNPACKED_ENTRIES
    ):
        form = _entry_struct(width, int_count)
        return (
            [(container.convert_stored_bits(row[0], t), row[1:]) for row in form.iter_unpack(data)]
            if searched_keys is None
            else _search_fixed_width(data, form, t, searched_keys)
        )
    table = np.frombuffer(data, [("value", f">i{width}"), ("numbers", ">i4", (int_count,))])
    keys = table["value"].astype(np.int64)
    if t.root in ("FLOAT", "DOUBLE"):
        keys = container.order_float_bits(keys, width)
    if cursor.spans is not None:
        for i, key in enumerate(keys.tolist()):
            start = begin + i * (width + 4 * int_count)
            cursor.record(start, width, "value", key)
            for j in range(int_count):
                cursor.record(start + width + 4 * j, 4, ("offset", "length")[j], int(table["numbers"][i][j]))
    at = (
        np.arange(count)
        if searched_keys is None
        else np.flatnonzero(np.isin(keys, [k for k in searched_keys if isinstance(k, int) and -(2**63) <= k < 2**63]))
    )
    return list(zip(keys[at].tolist(), map(tuple, table["numbers"][at].tolist()), strict=True))


def _may_contain_strings(cursor: Cursor, searched_keys: set[Key]) -> bool:
    """Return whether the remaining bytes may contain one of the searched strings, by a search without decoding."""
    left = memoryview(cursor.data)[cursor.tell : cursor.tell + cursor.remaining]
    return any(may_contain_length_prefixed(left, key) for key in searched_keys)


def _search_fixed_width(
    data: memoryview, entry_struct: Struct, t: DataType, searched_keys: set[Key]
) -> list[tuple[Key, tuple[int, ...]]]:
    """Return the same as `_read_entries`, for few numbers: stored values are compared, and only equal ones decoded."""
    values = np.ndarray(
        (len(data) // entry_struct.size,), _STORED_DTYPES[STORED_WIDTHS[t.root]], data, 0, (entry_struct.size,)
    )
    pairs: list[tuple[Key, tuple[int, ...]]] = []
    for key in searched_keys:
        if isinstance(key, int) and (stored := _to_stored_integer(key, t)) is not None:
            pairs += [
                (key, entry_struct.unpack_from(data, at * entry_struct.size)[1:])
                for at in (values == stored).nonzero()[0].tolist()
            ]
    return pairs


def _to_stored_integer(key: int, t: DataType) -> int | None:
    """Return the number whose little endian bytes a key is stored as; None if the type does not hold it."""
    width = STORED_WIDTHS[t.root]
    bound = 1 << 8 * width - 1
    if not -bound <= key < bound:
        return None
    return int.from_bytes(container.convert_stored_bits(key, t).to_bytes(width, "big", signed=True), "little")


def _find_entries_v1(
    cursor: Cursor, t: DataType, distinct_count: int, searched_keys: set[Key]
) -> tuple[list[_Entry], int]:
    entries = [_Entry(offset, -1) for _, (offset,) in _read_entries(cursor, t, distinct_count, 1, searched_keys)]
    return entries, cursor.tell


def _skip_to_body_v1(cursor: Cursor, t: DataType, distinct_count: int) -> int:
    return _find_entries_v1(cursor, t, distinct_count, set())[1]


def _find_entries_v2(
    cursor: Cursor,
    t: DataType,
    distinct_count: int,  # noqa: ARG001 - a block has its own count of entries
    searched_keys: set[Key],
) -> tuple[list[_Entry], int]:
    heads = _read_entries(cursor, t, cursor.i32be("blocks"), 1, None)
    length = cursor.i32be("blocks length")
    start = cursor.tell
    cursor.skip(length, "blocks")
    firsts = [key for key, _ in heads]
    by_block: dict[int, set[Key]] = {}
    for key in searched_keys:
        block = container.count_before(firsts, key, includes_equal=True) - 1
        if block >= 0:
            by_block.setdefault(block, set()).add(key)
    entries = []
    for block, keys in by_block.items():
        next_offset = heads[block + 1][1][0] if block + 1 < len(heads) else length
        entries += _find_in_block(cursor, t, start, length, heads[block][1][0], keys, next_offset=next_offset)
    return entries, start + length


def _find_in_block(
    cursor: Cursor,
    t: DataType,
    blocks_offset: int,
    blocks_length: int,
    offset: int,
    searched_keys: set[Key] | None,
    *,
    next_offset: int | None = None,
) -> list[_Entry]:
    """Return the wanted entries of the block at `offset` among all blocks.

    `next_offset` is the offset of the next block, if known.
    """
    if not 0 <= offset <= blocks_length:
        raise cursor.make_error(f"a block at {offset} of {blocks_length}", "block offset", at=blocks_offset)
    end = next_offset if next_offset is not None and offset <= next_offset <= blocks_length else blocks_length
    inside = cursor.region(blocks_offset + offset, blocks_offset + end)
    return [_Entry(*numbers) for _, numbers in _read_entries(inside, t, inside.i32be("entries"), 2, searched_keys)]


def _skip_to_body_v2(cursor: Cursor, t: DataType, distinct_count: int) -> int:
    return _find_entries_v2(cursor, t, distinct_count, set())[1]
