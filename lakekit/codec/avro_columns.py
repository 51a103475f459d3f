"""Avro containers to Arrow columns, a column of all records of all files at a time.

    decode([container, …])                        {"_VERSION": int32 array, "_FILE": struct array, …}
    decode([container], columns={"k", "v"})       only those fields; the others are skipped

1. All inflated blocks lie behind each other in one buffer. A block says how many records it holds, not where they start.
2. The starts: for manifests, `guess` names the places that look like the beginning of one (a version, a kind, a row of few columns); a block whose guesses
   are as many as its records is believed for the moment. In the others `VectorReader.starts` skips record by record, all blocks side by side.
3. With a start for every record, each field of all records is decoded by one call.
4. The proof: each record must end where the next one starts, and the last one where its block ends. That can only be so if every start was right. A wrong
   guess costs a second pass; broken bytes raise `Corrupt` from `avro_values`, which reads the block again one value at a time and names the field.

A few small records are read one at a time, which costs less than a numpy call for each of their fields.

Types come out as Arrow's plain ones: int32, int64, float, double, bool, binary, string, fixed binary, enum as string, struct, list, map; `["null", X]` is X
with nulls. Logical types (dates, decimals, times) are left to the caller.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakekit.codec.avro_schema import record_of
from lakekit.codec.avro_values import reader
from lakekit.codec.avro_vectors import VectorColumn, VectorReader
from lakekit.errors import Corrupt, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from lakekit.codec.avro_container import Block, Container
    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.avro_values import Read
    from lakekit.codec.avro_vectors import Ints
    from lakekit.codec.marks import SpanRecorder

    Guess = Callable[[VectorReader], Ints]
    Where = tuple[str, Callable[[pa.Array], NDArray[np.bool_]]]

MAX_BUFFER_BYTES = (1 << 31) - (1 << 20)
BATCH_BYTES = 64 << 20
"""How many inflated bytes are best decoded at once."""
FEW_RECORDS = 16
_NO_NAME = nullcontext()
FEW_BYTES = 64 << 10
_PRIMITIVE_TYPES = {"null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
_PRIMITIVE_TYPES |= {"bytes": pa.binary(), "string": pa.string(), "enum": pa.string()}


def decode(
    containers: Sequence[Container], *, columns: Collection[str] | None = None, guess: Guess | None = None, where: Where | None = None
) -> dict[str, pa.Array]:
    """The record fields (`columns`, or all) of every record of some containers of one schema, in order of the containers.

    `guess(lanes)` may give, ascending, all places where a record seems to start. `where`, a field's name and a mask over its values, says which records are
    wanted: others are left out where that saves work. Then the proof is that of the records that stay; for the others it is enough that each block holds as
    many guesses as records, so `guess` may not miss a record of a sound file. Raises `Corrupt`, `LimitExceeded`, and `Unsupported` for a union of several
    types.
    """
    node = containers[0].schema
    if sum(container.count for container in containers) <= FEW_RECORDS and sum(container.size for container in containers) <= FEW_BYTES:
        return _decode_few(containers, columns)
    blocks = [block for container in containers for block in container.blocks]
    total = sum(len(block.data) for block in blocks)
    if total > MAX_BUFFER_BYTES:
        raise LimitExceeded(f"{total} bytes of records at once, {MAX_BUFFER_BYTES} are allowed", path=containers[0].path, field="block")
    lanes = VectorReader(block.data for block in blocks)
    sizes = np.array([len(block.data) for block in blocks], np.int64)
    counts = np.array([block.count for block in blocks], np.int64)
    last = np.cumsum(sizes)
    if not node.min_bytes and counts.any():
        raise Unsupported("Avro records that take no bytes", feature="avro.empty-items", path=containers[0].path)
    for attempt in (guess, None) if guess else (None,):
        starts = _starts(lanes, node, last - sizes, last, counts, attempt)
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[np.cumsum(counts) - 1] = last
        if where is not None and attempt is not None:
            wanted = _record_mask(lanes, node, starts, ends, where)
            starts, ends = starts[wanted], ends[wanted]
        found, after = _walk(lanes, node, starts, ends, columns)
        if np.array_equal(after, ends):
            try:
                return _arrays(found, node, columns, lanes, containers[0].path)
            except pa.ArrowInvalid:
                raise _explain(containers) from None  # a string that is not UTF-8
    broken = int(np.searchsorted(np.cumsum(counts), np.flatnonzero(after != ends)[0], side="right"))
    raise _explain(containers, only=broken)


def batches(containers: Iterable[Container]) -> Iterator[list[Container]]:
    """Containers in order, as many at once as are best decoded together."""
    found: list[Container] = []
    size = 0
    for container in containers:
        if found and size + container.size > BATCH_BYTES:
            yield found
            found, size = [], 0
        found.append(container)
        size += container.size
    if found:
        yield found


def _record_mask(lanes: VectorReader, node: AvroNode, starts: Ints, ends: Ints, where: Where) -> NDArray[np.bool_]:
    """Which records the mask over one of their fields wants: all, where the guessed starts lead to no such field."""
    record, pos = record_of(node), starts
    if record is not node:
        pos = lanes.longs(pos)[1]
    for name, part in zip(record.names, record.parts, strict=True):
        found, pos = lanes.walk(part, pos, ends, name == where[0])
        if name == where[0]:
            try:
                return where[1](_arrow(found, lanes))
            except (Corrupt, pa.ArrowInvalid):
                break
    return np.ones(len(starts), bool)


def _decode_few(containers: Sequence[Container], columns: Collection[str] | None) -> dict[str, pa.Array]:
    record = record_of(containers[0].schema)
    rows = [row for container in containers for row in read_records(container)]
    return {
        name: pa.array([row[name] for row in rows], arrow_type(part))
        for name, part in zip(record.names, record.parts, strict=True)
        if columns is None or name in columns
    }


def read_records(container: Container) -> list[dict[str, Any]]:
    """The records of one container as dicts. Raises `Corrupt` with the file, the offset of the block and the field."""
    read = reader(container.schema)
    rows: list[dict[str, Any]] = []
    for block in container.blocks:
        try:
            rows += _block_records(read, block)
        except Corrupt as error:
            raise with_block_offset(error, container, block) from None
    return rows


def mark_records(schema: AvroNode, block: Block, marks: SpanRecorder, *, first: int = 0) -> list[dict[str, Any]]:
    """The records of one block as dicts, value by value with a mark each; their numbers count from `first`. Offsets count from the block's inflated bytes."""
    return _block_records(reader(schema, marks=marks), block, marks, first)


def _block_records(read: Read, block: Block, marks: SpanRecorder | None = None, first: int = 0) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    at = 0
    for i in range(block.count):
        with _NO_NAME if marks is None else marks.within(f"[{first + i}]"):
            row, at = read(block.data, at)
        if row is None:
            raise Corrupt(f"a null where a record must be, before byte {at}", offset=at, field="record")
        rows.append(row)
    if at != len(block.data):
        raise Corrupt(f"{block.count} records end at byte {at} of a block of {len(block.data)}", offset=at, field="block count")
    return rows


def with_block_offset(error: Corrupt, container: Container, block: Block) -> Corrupt:
    """An error met inside an inflated block, with its place in the file."""
    inside = error.offset or 0 if container.codec == "null" else 0
    found = type(error)(f"block at offset {block.offset}: {error.message}", offset=block.offset + inside, field=error.field)
    return found if container.path is None else found.at(container.path)


def arrow_type(node: AvroNode) -> pa.DataType:
    """The Arrow type that values of a type come out as."""
    match node.kind:
        case "record":
            return pa.struct([pa.field(name, arrow_type(part)) for name, part in zip(node.names, node.parts, strict=True)])
        case "array":
            return pa.list_(arrow_type(node.parts[0]))
        case "map":
            return pa.map_(pa.string(), arrow_type(node.parts[0]))
        case "fixed":
            return pa.binary(node.size)
        case "union":
            if node.value is node:
                raise Unsupported("an Avro union of several types", feature="avro.union")
            return arrow_type(node.value)
    return _PRIMITIVE_TYPES[node.kind]


# ---- places ------------------------------------------------------------------------------------------------------------------------------------------


def _starts(lanes: VectorReader, node: AvroNode, first: Ints, last: Ints, counts: Ints, guess: Guess | None) -> Ints:
    """Where every record starts, block after block. Guessed ones are not proved yet."""
    if guess is None or not len(counts):
        return lanes.starts(node, first, last, counts)[0]
    places = guess(lanes)
    low = np.searchsorted(places, first)
    believed = np.searchsorted(places, last) - low == counts
    believed &= places.take(low, mode="clip") == first if len(places) else False
    if believed.all():
        return places
    found = np.empty(int(counts.sum()), np.int64)
    of_record = np.repeat(believed, counts)
    block_of = np.searchsorted(last, places, side="right")
    found[of_record] = places[believed[block_of]]
    rest = ~believed
    found[~of_record] = lanes.starts(node, first[rest], last[rest], counts[rest])[0]
    return found


def _walk(lanes: VectorReader, node: AvroNode, starts: Ints, ends: Ints, columns: Collection[str] | None) -> tuple[VectorColumn | None, Ints]:
    if columns is None or node.kind != "record":
        return lanes.walk(node, starts, ends)
    parts: list[VectorColumn | None] = []
    pos = starts
    for name, part in zip(node.names, node.parts, strict=True):
        found, pos = lanes.walk(part, pos, ends, name in columns)
        parts.append(found)
    return VectorColumn(node=node, size=len(starts), parts=parts), pos


def _arrays(found: VectorColumn | None, node: AvroNode, columns: Collection[str] | None, lanes: VectorReader, path: str | None) -> dict[str, pa.Array]:
    """The fields of the top record; files of old writers wrap it in a union with null."""
    assert found is not None
    record = record_of(node)
    if found.node.kind == "union":
        branch = node.parts.index(record)
        if len(found.rows[branch]) != found.size:
            raise Corrupt("a null where a record must be", path=path, field="record")
        inner = found.parts[branch] if found.size else None
        if inner is None:
            inner = lanes.walk(record, np.empty(0, np.int64), np.empty(0, np.int64))[0]
        assert inner is not None
        found = inner
    return {
        name: _arrow(part, lanes) for name, part in zip(record.names, found.parts, strict=True) if part is not None and (columns is None or name in columns)
    }


def _explain(containers: Sequence[Container], only: int | None = None) -> Corrupt:
    """What is wrong in some blocks, or the one of that number: read value by value until the field shows itself."""
    blocks = [(container, block) for container in containers for block in container.blocks]
    for container, block in blocks if only is None else [blocks[only]]:
        try:
            read_records(replace(container, blocks=(block,)))
        except Corrupt as error:
            return error
    return Corrupt("records do not end where their block ends", path=containers[0].path, field="block count")


# ---- columns -----------------------------------------------------------------------------------------------------------------------------------------


def _arrow(column: VectorColumn | None, lanes: VectorReader) -> pa.Array:
    assert column is not None
    node, size = column.node, column.size
    match node.kind:
        case "int" | "long":
            assert column.values is not None
            return pa.array(column.values.astype(np.int32) if node.kind == "int" else column.values)
        case "bytes" | "string":
            assert column.starts is not None
            assert column.lengths is not None
            return slices(lanes.data, column.starts, column.lengths, text=node.kind == "string")
        case "record":
            fields = [pa.field(name, arrow_type(part)) for name, part in zip(node.names, node.parts, strict=True)]
            if not fields:
                return pa.array([{}] * size, pa.struct([]))
            return pa.StructArray.from_arrays([_arrow(part, lanes) for part in column.parts], fields=fields)
        case "union":
            return _nullable_array(column, lanes)
        case "array" | "map":
            assert column.lengths is not None
            offsets = pa.array(np.concatenate([[0], np.cumsum(column.lengths)]).astype(np.int32))
            items = _arrow(column.parts[0], lanes)
            if node.kind == "array":
                return pa.ListArray.from_arrays(offsets, items)
            return pa.MapArray.from_arrays(offsets, items.field(0), items.field(1))
    return _fixed_array(column, lanes)


def _fixed_array(column: VectorColumn, lanes: VectorReader) -> pa.Array:
    """null, boolean, enum, float, double, fixed."""
    node = column.node
    match node.kind:
        case "null":
            return pa.nulls(column.size)
        case "boolean":
            assert column.values is not None
            return pa.array(column.values.astype(bool))
        case "enum":
            assert column.values is not None
            return pa.array(node.names, pa.string()).take(pa.array(column.values))
    assert column.starts is not None
    words = lanes.words[column.starts]
    match node.kind:
        case "double":
            return pa.array(words.view(np.float64))
        case "float":
            return pa.array((words & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32))
    places = column.starts[:, None] + np.arange(node.size)
    body = lanes.bytes[places].tobytes()
    return pa.Array.from_buffers(pa.binary(node.size), column.size, [None, pa.py_buffer(body)])


def _nullable_array(column: VectorColumn, lanes: VectorReader) -> pa.Array:
    """A union of null and one other type; of one type alone, that type."""
    kind = arrow_type(column.node)
    branch = column.node.parts.index(column.node.value)
    part, rows = column.parts[branch], column.rows[branch]
    if not len(rows):
        return pa.nulls(column.size, kind)
    found = _arrow(part, lanes)
    if len(rows) == column.size:
        return found
    places = np.zeros(column.size, np.int64)
    places[rows] = np.arange(len(rows))
    absent = np.ones(column.size, bool)
    absent[rows] = False
    return found.take(pa.array(places, mask=absent))


def slices(data: bytes, starts: Ints, lengths: Ints, *, text: bool) -> pa.Array:
    """The byte ranges of a buffer as one binary or string column. Ranges must ascend and not overlap.

    The buffer between all edges is an Arrow array already, whose every second value is wanted: one `take` copies them.
    """
    kind = pa.string() if text else pa.binary()
    size = len(starts)
    if not size:
        return pa.array([], kind)
    edges = np.empty(2 * size, np.int64)
    edges[0::2] = starts
    edges[1::2] = starts + lengths
    if edges[0] < 0 or edges[-1] > len(data) or (np.diff(edges) < 0).any():
        raise Corrupt("values overlap", field="string" if text else "bytes")
    offsets = pa.py_buffer(edges.astype(np.int32))
    whole = pa.Array.from_buffers(kind, 2 * size - 1, [None, offsets, pa.py_buffer(data)])
    found = whole.take(pa.array(np.arange(0, 2 * size - 1, 2)))
    if text:
        found.validate(full=True)
    return found
