"""Read values at many positions of one buffer at once, by numpy, for `avro_columns`.

A varint hides where the next value starts, so one run of Avro values can only be read in order. But there are many
runs: a plan reads hundreds of blocks, a column of lists holds thousands of lists. A `lane` is one position in the
buffer and the end it may not pass; every step reads the same field of all lanes at once, with a handful of numpy calls
whatever their number.

    item_starts(item, pos, end, counts)  where each value of each run starts: step k skips the k-th value of each run
    read_values(node, pos, end, keep)    one value of every lane -> (VectorColumn, positions after it)

With the start of every record known, `read_values` decodes a field of all records of all files in one call. Where few
lanes are left, a loop in Python skips values instead: a numpy call costs as much as about ten of its steps. A lane
whose bytes break the format jumps to `OUT_OF_BOUNDS`, far behind every end, and stays there: the caller compares the
positions with the ends, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit.codec.avro_schema import AvroNode
from lakekit.codec.avro_values import FREE_BLOCKS, build_skipper, has_tiny_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from lakekit.codec.avro_values import Skip

    Ints = NDArray[np.int64]

OUT_OF_BOUNDS = 1 << 60
FEW_LANES = 64
"""With fewer lanes than this a Python loop over values is faster than numpy steps over lanes."""
_TAIL_PADDING = bytes(16)
_ZIGZAG_OF_BYTE = np.array([(n >> 1) ^ -(n & 1) for n in range(256)], np.int64)
_VARINT_STOPS, _VARINT_BITS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_SQUEEZE_STEPS = (  # three steps that drop the top bit of each of 8 bytes
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
_UINT64_ONE = np.uint64(1)
MAP_KEY_TYPE = AvroNode(kind="string", min_bytes=1)
"""The keys of maps."""


@dataclass(slots=True, kw_only=True)
class VectorColumn:
    """What `walk` read of one type in `size` lanes, still as numbers and positions.

    int, long, enum, boolean: `values`. bytes, string, fixed, float, double: `starts` and `lengths` in the buffer.
    record: `children` of the same size. union: `values` is the branch of each lane, `children[i]` holds the lanes
    `rows[i]`.
    array, map: `lengths` counts the items, `children` are items one after the other. A part that was not requested is
    None.
    """

    node: AvroNode
    size: int
    values: NDArray[Any] | None = None
    starts: Ints | None = None
    lengths: Ints | None = None
    children: list[VectorColumn | None] = field(default_factory=list)
    rows: list[Ints] = field(default_factory=list)


class VectorReader:
    """A buffer to read from: the parts, one after the other, `size` bytes in all.

    Bytes behind them read as zeros.
    """

    __slots__ = ("_skippers", "bytes", "data", "last_word", "size", "words")

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.data = b"".join([*parts, _TAIL_PADDING])
        self.size = len(self.data) - len(_TAIL_PADDING)
        self._skippers: dict[int, Skip] = {}
        self.bytes = np.frombuffer(self.data, np.uint8)
        self.last_word = len(self.data) - 8
        self.words: NDArray[np.uint64] = np.ndarray((self.last_word + 1,), "<u8", self.data, strides=(1,))

    def read_longs(self, pos: Ints) -> tuple[Ints, Ints]:
        """Return the zig-zag varint of each lane, and the positions after them."""
        first = self.bytes.take(pos, mode="clip")
        if first.size == 0 or first.max() < 128:
            return _ZIGZAG_OF_BYTE.take(first), pos + 1
        word = self.words[np.minimum(pos, self.last_word)]
        stop = ~word & _VARINT_STOPS
        low = stop & (~stop + _UINT64_ONE)  # the lowest bit that ends a number
        raw = word & (low | (low - _UINT64_ONE)) & _VARINT_BITS
        for keep, move, by in _SQUEEZE_STEPS:
            raw = (raw & keep) | ((raw & move) >> by)
        width = (np.frexp(low.astype(np.float64))[1] >> 3).astype(np.int64)
        if not stop.all():
            self._long_longs(np.flatnonzero(stop == 0), pos, raw, width)
        return (raw >> _UINT64_ONE).astype(np.int64) ^ -(raw & _UINT64_ONE).astype(np.int64), pos + width

    def _long_longs(self, rows: Ints, pos: Ints, raw: NDArray[np.uint64], width: Ints) -> None:
        """Decode numbers of 9 and 10 bytes, in place."""
        at = pos[rows]
        values = np.zeros(len(rows), np.uint64)
        for i in range(9):
            values |= (self.bytes.take(at + i, mode="clip") & 0x7F).astype(np.uint64) << np.uint64(7 * i)
        ninth, tenth = self.bytes.take(at + 8, mode="clip"), self.bytes.take(at + 9, mode="clip")
        values |= np.where(ninth > 127, tenth & 1, 0).astype(np.uint64) << np.uint64(63)
        raw[rows] = values
        width[rows] = np.where(ninth < 128, 9, np.where(tenth < 2, 10, OUT_OF_BOUNDS))

    # ---- one value of every lane

    def read_values(self, node: AvroNode, pos: Ints, end: Ints, keep: bool = True) -> tuple[VectorColumn | None, Ints]:
        """Read one value of type `node` at every position; return it if `keep`, and the positions after it.

        Positions after a broken value are far behind every end.
        """
        match node.kind:
            case "int" | "long":
                values, pos = self.read_longs(pos)
                if node.kind == "int" and values.size and not -(2**31) <= values.min() <= values.max() < 2**31:
                    pos = np.where((values < -(2**31)) | (values >= 2**31), OUT_OF_BOUNDS, pos)
                return (VectorColumn(node=node, size=len(pos), values=values) if keep else None), pos
            case "bytes" | "string":
                lengths, pos = self.read_longs(pos)
                after = pos + lengths
                fits = (lengths >= 0) & (after <= end) & (lengths <= end)
                if not fits.all():
                    after = np.where(fits, after, OUT_OF_BOUNDS)
                return (VectorColumn(node=node, size=len(pos), starts=pos, lengths=lengths) if keep else None), after
            case "record":
                parts = []
                for part in node.children:
                    column, pos = self.read_values(part, pos, end, keep)
                    parts.append(column)
                return (VectorColumn(node=node, size=len(pos), children=parts) if keep else None), pos
            case "union":
                return self._read_union(node, pos, end, keep)
            case "array" | "map":
                return self._read_runs(node, pos, end, keep)
        return self._read_fixed(node, pos, keep)

    def _read_fixed(self, node: AvroNode, pos: Ints, keep: bool) -> tuple[VectorColumn | None, Ints]:
        """Read a null, boolean, enum, float, double or fixed in every lane."""
        match node.kind:
            case "null":
                return (VectorColumn(node=node, size=len(pos)) if keep else None), pos
            case "boolean":
                flags = self.bytes.take(pos, mode="clip")
                pos = np.where(flags > 1, OUT_OF_BOUNDS, pos + 1)
                return (VectorColumn(node=node, size=len(pos), values=flags) if keep else None), pos
            case "enum":
                values, pos = self.read_longs(pos)
                pos = np.where((values < 0) | (values >= len(node.names)), OUT_OF_BOUNDS, pos)
                return (VectorColumn(node=node, size=len(pos), values=values) if keep else None), pos
        return (VectorColumn(node=node, size=len(pos), starts=pos) if keep else None), pos + node.min_bytes

    def _read_union(self, node: AvroNode, pos: Ints, end: Ints, keep: bool) -> tuple[VectorColumn | None, Ints]:
        branches, pos = self.read_longs(pos)
        parts: list[VectorColumn | None] = []
        rows: list[Ints] = []
        size = len(pos)
        low, high = (int(branches.min()), int(branches.max())) if size else (0, 0)
        if low < 0 or high >= len(node.children):
            pos = np.where((branches < 0) | (branches >= len(node.children)), OUT_OF_BOUNDS, pos)
            branches = np.where(pos >= OUT_OF_BOUNDS, 0, branches)
            low, high = int(branches.min()), int(branches.max())
        if low == high:
            part, after = self.read_values(node.children[low], pos, end, keep)
            if not keep:
                return None, after
            parts, rows = [None] * len(node.children), [np.empty(0, np.int64)] * len(node.children)
            parts[low], rows[low] = part, np.arange(size)
            return VectorColumn(node=node, size=size, values=branches, children=parts, rows=rows), after
        after = pos
        for number, branch in enumerate(node.children):
            lanes = np.flatnonzero(branches == number)
            part = None
            if len(lanes) and branch.kind != "null":
                part, moved = self.read_values(branch, pos[lanes], end[lanes], keep)
                after = after.copy() if after is pos else after
                after[lanes] = moved
            parts.append(part)
            rows.append(lanes)
        return (VectorColumn(node=node, size=size, values=branches, children=parts, rows=rows) if keep else None), after

    # ---- runs of values

    def _read_runs(self, node: AvroNode, pos: Ints, end: Ints, keep: bool) -> tuple[VectorColumn | None, Ints]:
        """Read an array or a map in every lane.

        It is blocks of `count | (bytes, if the count is negative) | items`, up to a count of 0.
        """
        item = item_type(node)
        total = np.zeros(len(pos), np.int64)
        starts, owners = [], []
        pos = pos.copy()
        active = np.arange(len(pos))
        block_count = 0
        while len(active):
            if block_count > FREE_BLOCKS and has_tiny_blocks(block_count, int(total[active].min())):
                pos[active] = OUT_OF_BOUNDS
                break
            block_count += 1
            counts, at = self.read_longs(pos[active])
            negative = counts < 0
            if negative.any():
                counts = np.abs(counts)
                at = np.where(negative, self.read_longs(at)[1], at)
            fits = (counts >= 0) & (counts <= (end[active] - at) // item.min_bytes)
            if not fits.all():
                at, counts = np.where(fits, at, OUT_OF_BOUNDS), np.where(fits, counts, 0)
            pos[active] = at
            has_items = counts > 0
            active, at, counts = active[has_items], at[has_items], counts[has_items]
            if not len(active):
                break
            first, pos[active] = self.item_starts(item, at, end[active], counts)
            starts.append(first)
            owners.append(np.repeat(active, counts))
            total[active] += counts
        if not keep:
            return None, pos
        first, owner = (np.concatenate([np.empty(0, np.int64), *each]) for each in (starts, owners))
        if len(starts) > 1:
            order = np.argsort(owner, kind="stable")
            first, owner = first[order], owner[order]
        items, _ = self.read_values(item, first, end[owner])
        return VectorColumn(node=node, size=len(total), lengths=total, children=[items]), pos

    def item_starts(self, node: AvroNode, pos: Ints, end: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """Return where each value of each run starts, run after run, and where each run ends.

        A run is `counts` values of type `node` that follow each other from `pos`. Values must take bytes, and `counts`
        of the smallest must fit into the lanes.
        """
        offsets = np.cumsum(counts) - counts
        value_starts = np.full(int(counts.sum()), OUT_OF_BOUNDS, np.int64)
        width = fixed_width(node)
        if width:
            within = np.arange(len(value_starts)) - np.repeat(offsets, counts)
            return np.repeat(pos, counts) + within * width, pos + counts * width
        # runs with most values first: those that still have some are a prefix
        order = np.argsort(-counts, kind="stable")
        at, left, offsets, end = pos[order], counts[order], offsets[order], end[order]
        step, active = 0, len(order)
        while active >= FEW_LANES:
            active = int(np.searchsorted(-left, -step, side="left"))
            if active < FEW_LANES:
                break
            value_starts[offsets[:active] + step] = at[:active]
            at[:active] = self.read_values(node, at[:active], end[:active], keep=False)[1]
            step += 1
        skip = self._skippers.get(id(node))
        if active and skip is None:
            skip = self._skippers[id(node)] = build_skipper(node)
        for lane in range(active):
            assert skip is not None
            lane_slots = slice(offsets[lane] + step, offsets[lane] + left[lane])
            at[lane] = self._skip_one(skip, value_starts, lane_slots, int(at[lane]), int(end[lane]))
        after = np.empty_like(at)
        after[order] = at
        return value_starts, after

    def _skip_one(self, skip: Skip, value_starts: Ints, slots: slice, offset: int, end: int) -> int:
        """Skip the remaining values of one run; return where it ends, `OUT_OF_BOUNDS` if a value passes `end`."""
        offsets = []
        try:
            for _ in range(slots.stop - slots.start):
                offsets.append(offset)
                offset = skip(self.data, offset)
                if offset > end:
                    return OUT_OF_BOUNDS
        except IndexError:
            return OUT_OF_BOUNDS
        value_starts[slots] = offsets
        return offset


def item_type(node: AvroNode) -> AvroNode:
    """Return the type of an array's items; of a map's, a record of its key and value."""
    value = node.children[0]
    if node.kind == "array":
        return value
    return AvroNode(
        kind="record", names=("key", "value"), children=(MAP_KEY_TYPE, value), min_bytes=1 + value.min_bytes
    )


def fixed_width(node: AvroNode) -> int:
    """Return how many bytes every value takes; 0 if values differ in length."""
    if node.kind in {"float", "double", "fixed"}:
        return node.min_bytes
    if node.kind != "record":
        return 0
    widths = [fixed_width(part) for part in node.children]
    return sum(widths) if all(widths) else 0
