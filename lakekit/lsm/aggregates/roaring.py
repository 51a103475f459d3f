"""rbm32 and rbm64: unions of roaring bitmaps, those of 64 bits not in the portable form.

    01                                   00: an empty bitmap, and nothing follows
    keys u64                             how many leaves the tree has
    tree, a node before its children     kind u8 · children u16 · prefix length u8 · prefix · body
        0      up to 4 children          the key bytes of the children, ascending: a word of 4 bytes, reversed
        1      up to 16                  the same: two words of 8 bytes, each reversed
        2      up to 48                  each key byte's slot, or ff: 256 bytes, every 8 reversed
        3      up to 256                 256 bits, one for each key byte
        4      leaf                      key 6 bytes · container number u64
    arrays u32 = 1                       the number of arrays of containers
    fe                                   the array is not trimmed (`NOT_TRIMMED`)
    slots u32                            how many slots the array has; for each of them:
        00                               a free slot
        01 · container                   a slot in use
    containers u64                       how many slots are in use
    array u32 = 0                        the index of the array of the last container
    last slot u32                        the slot of the last container
        container: 00 count u32 · runs u16 · (first, length - 1) u16 each
                   01 count u32 · 8192 bytes
                   02 count u32 · u16 each

It is a radix tree over the upper 48 bits, and containers of the lower 16. Everything is little endian. Slots are
assigned in the order in which containers came, so that the bytes of a union depend on its history; they are written
here as `Roaring64Bitmap.or` and `runOptimize` write them.

Source: ENGINE.md 3.4, `FieldRoaringBitmap32Agg`, `FieldRoaringBitmap64Agg`; `RoaringBitmap64`, RoaringBitmap's
`HighLowContainer`, `Art`, `Containers`. Case `aggregate_rbm`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lakekit.codec import roaring as bitmap
from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt
from lakekit.lsm.aggregates import function as by_key
from lakekit.lsm.aggregates.function import declare_aggregate, require_type_roots

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.merge_spec import FieldFunction
    from lakekit.lsm.numpy_columns import Array
    from lakekit.lsm.row_versions import Versions


NODE4, NODE16, NODE48, NODE256, LEAF_NODE = range(5)
NODE_CAPACITY = {NODE4: 4, NODE16: 16, NODE48: 48, NODE256: 256}
RUN_CONTAINER, BITMAP_CONTAINER, ARRAY_CONTAINER = range(3)
KEY_BYTES = 6
NOT_TRIMMED = 0xFE
FREE_SLOT = 0xFF
_ARRAY_MAX, _BITS_SIZE = 4096, 8192
_MAX_VALUE = 0xFFFF


@dataclass(slots=True, kw_only=True)
class ArtNode:
    """A node of the tree.

    A leaf has `key` and `container_number`. Other nodes have `prefix` and `children` by byte, with their `slots` in a
    node of 48.
    """

    kind: int
    prefix: bytes = b""
    children: dict[int, ArtNode] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    key: bytes = b""
    container_number: int = 0


@dataclass(slots=True, kw_only=True)
class RoaringParts:
    """A decoded bitmap. A container is its values and whether it was one of runs; a slot may be free."""

    root: ArtNode | None = None
    containers: list[tuple[BitMap, bool] | None] = field(default_factory=list)
    last_slot: int = -1


def unite_two_bitmaps_64(accumulator: bytes, value: bytes, column: str) -> bytes:
    """Return the union of two bitmaps, in the bytes of the reference. Raises `Corrupt`."""
    both, other = decode_bitmap_64(accumulator, column), decode_bitmap_64(value, column)
    for leaf in _iter_leaves(other.root):
        container = other.containers[leaf.container_number]
        if container is None:
            raise Corrupt(f"a 64-bit bitmap in column {column} names a container that is not there", field=column)
        mine = _find_leaf(both.root, leaf.key)
        if mine is None:
            both.root = _insert_leaf(
                both.root, ArtNode(kind=LEAF_NODE, key=leaf.key, container_number=_add_container(both, container)), 0
            )
            continue
        old = both.containers[mine.container_number]
        assert old is not None
        both.containers[mine.container_number] = (old[0] | container[0], old[1] or container[1])
    return encode_bitmap_64(both)


# ---- reading ---------------------------------------------------------------------------------------------------------


def decode_bitmap_64(data: bytes, column: str) -> RoaringParts:
    """Decode a bitmap. Raises `Corrupt` naming the column."""
    cursor = Cursor(data)
    try:
        return _decode_parts(cursor)
    except Corrupt as wrong:
        message = (
            f"Unable to se/deserialize roaring bitmap: a value of column {column} is no 64-bit bitmap ({len(data)} "
            f"bytes): {wrong}"
        )
        raise Corrupt(message, offset=wrong.offset, field=column) from wrong


def _read_number(cursor: Cursor, size: int, part: str) -> int:
    return int.from_bytes(cursor.raw(size, part), "little")


def _decode_parts(cursor: Cursor) -> RoaringParts:
    if _read_number(cursor, 1, "empty") == 0:
        return RoaringParts()
    leaves = _read_number(cursor, 8, "leaves")
    root = _decode_node(cursor, b"")
    if _read_number(cursor, 4, "arrays") != 1 or _read_number(cursor, 1, "mark") != NOT_TRIMMED:
        raise Corrupt("one untrimmed array of containers is expected", offset=cursor.tell, field="containers")
    slots = _read_number(cursor, 4, "slots")
    if slots > cursor.remaining:
        raise Corrupt(f"{slots} slots cannot be in {cursor.remaining} bytes", offset=cursor.tell, field="slots")
    containers = [_decode_container(cursor) if _read_number(cursor, 1, "slot") else None for _ in range(slots)]
    cursor.raw(12, "containers")
    last = _read_number(cursor, 4, "last slot")
    bitmap = RoaringParts(root=root, containers=containers, last_slot=last)
    numbers = [leaf.container_number for leaf in _iter_leaves(root)]
    if (
        len(numbers) != leaves
        or last >= slots
        or any(number >= slots or containers[number] is None for number in numbers)
    ):
        raise Corrupt("leaves and containers do not fit each other", offset=cursor.tell, field="leaves")
    return bitmap


def _decode_node(cursor: Cursor, above: bytes) -> ArtNode:
    """Decode a node, and all below it; `above` are the bytes of the key on the path to it."""
    kind, count = _read_number(cursor, 1, "kind"), _read_number(cursor, 2, "children")
    prefix = cursor.raw(_read_number(cursor, 1, "prefix length"), "prefix")
    if kind == LEAF_NODE:
        leaf = ArtNode(
            kind=LEAF_NODE,
            key=cursor.raw(KEY_BYTES, "key"),
            container_number=_read_number(cursor, 8, "container number"),
        )
        if not leaf.key.startswith(above):
            raise Corrupt(f"a leaf with key {leaf.key.hex()} below {above.hex()}", offset=cursor.tell, field="key")
        return leaf
    if kind not in NODE_CAPACITY or not 0 < count <= NODE_CAPACITY[kind] or len(above) + len(prefix) >= KEY_BYTES:
        raise Corrupt(
            f"a node of kind {kind} with {count} children at depth {len(above)}", offset=cursor.tell, field="node"
        )
    node = ArtNode(kind=kind, prefix=prefix)
    if kind in (NODE4, NODE16):
        word = 4 if kind == NODE4 else 8
        names = list(_reverse_words(cursor.raw(NODE_CAPACITY[kind], "bytes"), word)[:count])
    elif kind == NODE48:
        index = _reverse_words(cursor.raw(256, "slots"), 8)
        names = [at for at in range(256) if index[at] != FREE_SLOT]
        node.slots = {at: index[at] for at in names}
    else:
        bits = _read_number(cursor, 32, "bits")
        names = [at for at in range(256) if bits >> at & 1]
    if len(names) != count or len(set(names)) != count:
        raise Corrupt(f"{count} children are announced, {len(set(names))} named", offset=cursor.tell, field="node")
    node.children = {name: _decode_node(cursor, above + prefix + bytes([name])) for name in names}
    return node


def _reverse_words(data: bytes, word: int) -> bytes:
    """Return the bytes with those of each word reversed."""
    return b"".join(data[at : at + word][::-1] for at in range(0, len(data), word))


def _decode_container(cursor: Cursor) -> tuple[BitMap, bool]:
    kind, count = _read_number(cursor, 1, "container"), _read_number(cursor, 4, "count")
    if kind == BITMAP_CONTAINER:
        bits = np.frombuffer(cursor.raw(_BITS_SIZE, "bits"), np.uint8)
        return BitMap(np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.uint32)), False
    if kind == ARRAY_CONTAINER:
        return BitMap(np.frombuffer(cursor.raw(2 * count, "values"), "<u2").astype(np.uint32)), False
    if kind != RUN_CONTAINER:
        raise Corrupt(f"a container of kind {kind}", offset=cursor.tell, field="container")
    pairs = (
        np.frombuffer(cursor.raw(4 * _read_number(cursor, 2, "runs"), "runs"), "<u2").astype(np.int64).reshape(-1, 2)
    )
    if len(pairs) and pairs.sum(axis=1).max() > _MAX_VALUE:
        raise Corrupt(f"a run that ends beyond {_MAX_VALUE}", offset=cursor.tell, field="runs")
    values = BitMap()
    for first, length in pairs:
        values.add_range(int(first), int(first + length) + 1)
    return values, True


# ---- the tree --------------------------------------------------------------------------------------------------------


def _iter_leaves(node: ArtNode | None) -> list[ArtNode]:
    """Return all leaves in key order."""
    if node is None:
        return []
    if node.kind == LEAF_NODE:
        return [node]
    return [leaf for name in sorted(node.children) for leaf in _iter_leaves(node.children[name])]


def _find_leaf(node: ArtNode | None, key: bytes) -> ArtNode | None:
    depth = 0
    while node is not None and node.kind != LEAF_NODE:
        if key[depth : depth + len(node.prefix)] != node.prefix:
            return None
        depth += len(node.prefix)
        node = node.children.get(key[depth])
        depth += 1
    return node if node is not None and node.key == key else None


def _insert_leaf(node: ArtNode | None, leaf: ArtNode, depth: int) -> ArtNode:
    """Return the tree with `leaf` inserted; `depth` bytes of its key are on the path to `node`."""
    if node is None:
        return leaf
    if node.kind == LEAF_NODE:
        same = _common_prefix_length(node.key[depth:], leaf.key[depth:])
        above = ArtNode(kind=NODE4, prefix=leaf.key[depth : depth + same])
        above.children = {node.key[depth + same]: node, leaf.key[depth + same]: leaf}
        return above
    same = _common_prefix_length(node.prefix, leaf.key[depth:])
    if same < len(node.prefix):
        above = ArtNode(kind=NODE4, prefix=node.prefix[:same])
        above.children = {node.prefix[same]: node, leaf.key[depth + same]: leaf}
        node.prefix = node.prefix[same + 1 :]
        return above
    depth += same
    name = leaf.key[depth]
    if name in node.children:
        node.children[name] = _insert_leaf(node.children[name], leaf, depth + 1)
        return node
    _grow_if_full(node)
    if node.kind == NODE48:
        taken = set(node.slots.values())
        node.slots[name] = len(node.children) if len(node.children) not in taken else min(set(range(48)) - taken)
    node.children[name] = leaf
    return node


def _common_prefix_length(left: bytes, right: bytes) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _grow_if_full(node: ArtNode) -> None:
    if len(node.children) < NODE_CAPACITY[node.kind]:
        return
    node.kind += 1
    node.slots = {name: at for at, name in enumerate(sorted(node.children))} if node.kind == NODE48 else {}


def _add_container(bitmap: RoaringParts, container: tuple[BitMap, bool]) -> int:
    """Add a container and return its slot. Slots grow by half, as the reference's arrays do."""
    bitmap.last_slot += 1
    size = len(bitmap.containers)
    if bitmap.last_slot >= size:
        bitmap.containers += [None] * (max(size + (size >> 1), bitmap.last_slot + 1) - size)
    bitmap.containers[bitmap.last_slot] = container
    return bitmap.last_slot


# ---- writing ---------------------------------------------------------------------------------------------------------


def encode_bitmap_64(bitmap: RoaringParts) -> bytes:
    """Return the bytes of a bitmap, its containers in the smallest form."""
    if bitmap.root is None:
        return b"\0"
    parts = [b"\1", struct.pack("<Q", len(_iter_leaves(bitmap.root)))]
    _write_node(bitmap.root, parts)
    parts.append(struct.pack("<IBI", 1, NOT_TRIMMED, len(bitmap.containers)))
    parts += [b"\0" if container is None else b"\1" + _pack_container(*container) for container in bitmap.containers]
    parts.append(
        struct.pack("<QII", sum(container is not None for container in bitmap.containers), 0, bitmap.last_slot)
    )
    return b"".join(parts)


def _write_node(node: ArtNode, parts: list[bytes]) -> None:
    if node.kind == LEAF_NODE:
        parts.append(struct.pack("<BHB", LEAF_NODE, 0, 0) + node.key + struct.pack("<Q", node.container_number))
        return
    names = sorted(node.children)
    parts.append(struct.pack("<BHB", node.kind, len(names), len(node.prefix)) + node.prefix)
    if node.kind in (NODE4, NODE16):
        parts.append(
            _reverse_words(bytes(names).ljust(NODE_CAPACITY[node.kind], b"\0"), 4 if node.kind == NODE4 else 8)
        )
    elif node.kind == NODE48:
        parts.append(_reverse_words(bytes(node.slots.get(name, FREE_SLOT) for name in range(256)), 8))
    else:
        parts.append(sum(1 << name for name in names).to_bytes(32, "little"))
    for name in names:
        _write_node(node.children[name], parts)


def _pack_container(values: BitMap, was_runs: bool) -> bytes:
    numbers = np.array(values, np.uint32)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    runs, count = len(breaks) + 1, len(numbers)
    runs_size = 2 + 4 * runs
    plain_size = min(2 * count, _BITS_SIZE)
    if (runs_size <= min(2 * count + 2, _BITS_SIZE)) if was_runs else runs_size < plain_size:
        first, last = numbers[np.append(0, breaks + 1)], numbers[np.append(breaks, count - 1)]
        pairs = np.stack([first, last - first], axis=1).astype("<u2")
        return struct.pack("<BIH", RUN_CONTAINER, count, runs) + pairs.tobytes()
    if count <= _ARRAY_MAX:
        return struct.pack("<BI", ARRAY_CONTAINER, count) + numbers.astype("<u2").tobytes()
    bits = np.zeros(65536, np.uint8)
    bits[numbers] = 1
    return struct.pack("<BI", BITMAP_CONTAINER, count) + np.packbits(bits, bitorder="little").tobytes()


# ---- bitmaps ------------------------------------------------------------


_refuses = require_type_roots("roaring bitmap", "VarBinaryType", "VARBINARY")


@declare_aggregate("rbm32", type_problem=_refuses)
def unite_bitmaps_32(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the union of 32-bit bitmaps."""

    def agg(accumulator: bytes | None, value: bytes | None) -> bytes | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        united = _decode_bitmap32(function, accumulator) | _decode_bitmap32(function, value)
        united.run_optimize()
        return bytes(united.serialize())

    return by_key.fold_by_key(versions, column, ops, by_key.ScalarFold(agg=agg))


def _decode_bitmap32(function: FieldFunction, data: bytes) -> BitMap:
    try:
        return bitmap.decode_bitmap(data)
    except Corrupt as wrong:
        what = (
            f"Unable to se/deserialize roaring bitmap: a value of column {function.column} is none ({len(data)} "
            f"bytes): {wrong}"
        )
        raise Corrupt(what, offset=wrong.offset, field=function.column) from wrong


@declare_aggregate("rbm64", type_problem=_refuses)
def unite_bitmaps_64(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the union of 64-bit bitmaps."""

    def agg(accumulator: bytes | None, value: bytes | None) -> bytes | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return unite_two_bitmaps_64(accumulator, value, function.column)

    return by_key.fold_by_key(versions, column, ops, by_key.ScalarFold(agg=agg))
