"""Decode Avro containers to Arrow columns, each column for all records of all files at once.

    decode_columns([container, …])                {"_VERSION": int32 array, "_FILE": struct array, …}
    decode_columns([container], columns={"k"})    only those fields; the others are skipped

1. All inflated blocks are concatenated in one buffer. A block says how many records it holds, not where they start.
2. The starts: for manifests, `guess` lists the offsets that look like the beginning of one (a version, a kind, a row of
few columns); a block with as many guesses as records is trusted until step 4. In the others `VectorReader.starts` skips
record by record, all blocks side by side.
3. With a start for every record, each field of all records is decoded by one call.
4. The proof: each record must end where the next one starts, and the last one where its block ends. That can only be so
if every start was right. A wrong guess costs a second pass; broken bytes raise `Corrupt` from `avro_values`, which
reads the block again one value at a time and names the field.

A few small records are read one at a time, which costs less than a numpy call for each of their fields. Types come out
as Arrow's plain ones: int32, int64, float, double, bool, binary, string, fixed binary, enum as string, struct, list,
map; `["null", X]` is X with nulls. Logical types (dates, decimals, times) are left to the caller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakekit.codec.avro_schema import unwrap_record
from lakekit.codec.avro_values import build_reader, build_span_reader
from lakekit.codec.avro_vectors import VectorColumn, VectorReader
from lakekit.errors import Corrupt, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from lakekit.codec.avro_container import Block, Container
    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.avro_values import Read
    from lakekit.codec.avro_vectors import Ints
    from lakekit.codec.cursor import Cursor

    Guess = Callable[[VectorReader], Ints]
    Where = tuple[str, Callable[[pa.Array], NDArray[np.bool_]]]

MAX_BUFFER_BYTES = (1 << 31) - (1 << 20)
BATCH_BYTES = 64 << 20
"""Inflated bytes that are best decoded at once."""
FEW_RECORDS = 16
FEW_BYTES = 64 << 10
_PRIMITIVE_TYPES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_PRIMITIVE_TYPES |= {"bytes": pa.binary(), "string": pa.string(), "enum": pa.string()}


def decode_columns(
    containers: Sequence[Container],
    *,
    columns: Collection[str] | None = None,
    guess: Guess | None = None,
    where: Where | None = None,
) -> dict[str, pa.Array]:
    """Return the record fields (`columns`, or all) of all records of containers of one schema, in order.

    `guess(vectors)` may return, ascending, all offsets where a record seems to start. `where`, a field's name and a
    mask over its values, selects records: others are left out where that saves work. Then the proof is that of the
    records that stay; for the others it is enough that each block holds as many guesses as records, so `guess` may not
    miss a record of a sound file.

    Raises `Corrupt`, `LimitExceeded`, and `Unsupported` for a union of several types.
    """
    node = containers[0].schema
    if (
        sum(container.count for container in containers) <= FEW_RECORDS
        and sum(container.size for container in containers) <= FEW_BYTES
    ):
        return _decode_few(containers, columns)
    blocks = [block for container in containers for block in container.blocks]
    total = sum(len(block.data) for block in blocks)
    if total > MAX_BUFFER_BYTES:
        raise LimitExceeded(
            f"{total} bytes of records at once, {MAX_BUFFER_BYTES} are allowed", path=containers[0].path, field="block"
        )
    vectors = VectorReader(block.data for block in blocks)
    sizes = np.array([len(block.data) for block in blocks], np.int64)
    counts = np.array([block.count for block in blocks], np.int64)
    last = np.cumsum(sizes)
    if not node.min_bytes and counts.any():
        raise Unsupported("Avro records that take no bytes", feature="avro.empty-items", path=containers[0].path)
    for active_guess in (guess, None) if guess else (None,):
        starts = _record_starts(vectors, node, last - sizes, last, counts, active_guess)
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[np.cumsum(counts) - 1] = last
        if where is not None and active_guess is not None:
            mask = _record_mask(vectors, node, starts, ends, where)
            starts, ends = starts[mask], ends[mask]
        column, after = _read_values(vectors, node, starts, ends, columns)
        if np.array_equal(after, ends):
            try:
                return _field_arrays(column, node, columns, vectors, containers[0].path)
            except pa.ArrowInvalid:
                raise _locate_damage(containers) from None  # a string that is not UTF-8
    broken = int(np.searchsorted(np.cumsum(counts), np.flatnonzero(after != ends)[0], side="right"))
    raise _locate_damage(containers, block_index=broken)


def batch_containers(containers: Iterable[Container]) -> Iterator[list[Container]]:
    """Yield containers in order, in batches of at most `BATCH_BYTES` inflated bytes or one container."""
    batch: list[Container] = []
    size = 0
    for container in containers:
        if batch and size + container.size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(container)
        size += container.size
    if batch:
        yield batch


def _record_mask(vectors: VectorReader, node: AvroNode, starts: Ints, ends: Ints, mask: Where) -> NDArray[np.bool_]:
    """Return which records `mask` selects: all, if the guessed starts lead to no such field."""
    record, pos = unwrap_record(node), starts
    if record is not node:
        pos = vectors.read_longs(pos)[1]
    for name, part in zip(record.names, record.children, strict=True):
        column, pos = vectors.read_values(part, pos, ends, name == mask[0])
        if name == mask[0]:
            try:
                return mask[1](_to_arrow(column, vectors))
            except (Corrupt, pa.ArrowInvalid):
                break
    return np.ones(len(starts), bool)


def _decode_few(containers: Sequence[Container], columns: Collection[str] | None) -> dict[str, pa.Array]:
    record = unwrap_record(containers[0].schema)
    rows = [row for container in containers for row in read_records(container)]
    return {
        name: pa.array([row[name] for row in rows], arrow_type(part))
        for name, part in zip(record.names, record.children, strict=True)
        if columns is None or name in columns
    }


def read_records(container: Container) -> list[dict[str, Any]]:
    """Return the records of one container as dicts.

    Raises:
        Corrupt: with the file, the offset of the block and the field.
    """
    read = build_reader(container.schema)
    rows: list[dict[str, Any]] = []
    for block in container.blocks:
        try:
            rows += _block_records(read, block)
        except Corrupt as error:
            raise with_block_offset(error, container, block) from None
    return rows


def read_spans(schema: AvroNode, cursor: Cursor, count: int, *, first: int = 0) -> list[dict[str, Any]]:
    """Return the records of one block, the cursor's data, as dicts; the cursor records the span of each value.

    The numbers of the records count from `first`.
    """
    read = build_span_reader(schema)
    rows: list[dict[str, Any]] = []
    for i in range(count):
        with cursor.within(f"[{first + i}]"):
            if (row := read(cursor)) is None:
                raise _no_record(cursor.at)
            rows.append(row)
    _check_end(count, cursor.at, cursor.end)
    return rows


def _block_records(read: Read, block: Block) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    at = 0
    for _ in range(block.count):
        row, at = read(block.data, at)
        if row is None:
            raise _no_record(at)
        rows.append(row)
    _check_end(block.count, at, len(block.data))
    return rows


def _no_record(offset: int) -> Corrupt:
    return Corrupt(f"a null where a record must be, before byte {offset}", offset=offset, field="record")


def _check_end(count: int, offset: int, size: int) -> None:
    if offset != size:
        raise Corrupt(f"{count} records end at byte {offset} of a block of {size}", offset=offset, field="block count")


def with_block_offset(error: Corrupt, container: Container, block: Block) -> Corrupt:
    """Return an error raised inside an inflated block with its position in the file."""
    offset_in_block = error.offset or 0 if container.codec == "null" else 0
    located = type(error)(
        f"block at offset {block.offset}: {error.message}", offset=block.offset + offset_in_block, field=error.field
    )
    return located if container.path is None else located.at(container.path)


def arrow_type(node: AvroNode) -> pa.DataType:
    """Return the Arrow type that values of an Avro type are decoded to."""
    match node.kind:
        case "record":
            return pa.struct(
                [pa.field(name, arrow_type(part)) for name, part in zip(node.names, node.children, strict=True)]
            )
        case "array":
            return pa.list_(arrow_type(node.children[0]))
        case "map":
            return pa.map_(pa.string(), arrow_type(node.children[0]))
        case "fixed":
            return pa.binary(node.size)
        case "union":
            if node.non_null_type is node:
                raise Unsupported("an Avro union of several types", feature="avro.union")
            return arrow_type(node.non_null_type)
    return _PRIMITIVE_TYPES[node.kind]


# ---- starts of records -----------------------------------------------------------------------------------------------


def _record_starts(
    vectors: VectorReader, node: AvroNode, begins: Ints, ends: Ints, counts: Ints, guess: Guess | None
) -> Ints:
    """Return where every record starts, block after block. Guessed starts are not proved yet."""
    if guess is None or not len(counts):
        return vectors.item_starts(node, begins, ends, counts)[0]
    guesses = guess(vectors)
    low = np.searchsorted(guesses, begins)
    is_plausible = np.searchsorted(guesses, ends) - low == counts
    is_plausible &= guesses.take(low, mode="clip") == begins if len(guesses) else False
    if is_plausible.all():
        return guesses
    record_starts = np.empty(int(counts.sum()), np.int64)
    of_record = np.repeat(is_plausible, counts)
    block_of = np.searchsorted(ends, guesses, side="right")
    record_starts[of_record] = guesses[is_plausible[block_of]]
    unguessed = ~is_plausible
    record_starts[~of_record] = vectors.item_starts(node, begins[unguessed], ends[unguessed], counts[unguessed])[0]
    return record_starts


def _read_values(
    vectors: VectorReader, node: AvroNode, starts: Ints, ends: Ints, columns: Collection[str] | None
) -> tuple[VectorColumn | None, Ints]:
    if columns is None or node.kind != "record":
        return vectors.read_values(node, starts, ends)
    parts: list[VectorColumn | None] = []
    pos = starts
    for name, part in zip(node.names, node.children, strict=True):
        column, pos = vectors.read_values(part, pos, ends, name in columns)
        parts.append(column)
    return VectorColumn(node=node, size=len(starts), children=parts), pos


def _field_arrays(
    column: VectorColumn | None,
    node: AvroNode,
    columns: Collection[str] | None,
    vectors: VectorReader,
    path: str | None,
) -> dict[str, pa.Array]:
    """Return the fields of the top record; files of old writers wrap it in a union with null."""
    assert column is not None
    record = unwrap_record(node)
    if column.node.kind == "union":
        branch = node.children.index(record)
        if len(column.rows[branch]) != column.size:
            raise Corrupt("a null where a record must be", path=path, field="record")
        inner = column.children[branch] if column.size else None
        if inner is None:
            inner = vectors.read_values(record, np.empty(0, np.int64), np.empty(0, np.int64))[0]
        assert inner is not None
        column = inner
    return {
        name: _to_arrow(part, vectors)
        for name, part in zip(record.names, column.children, strict=True)
        if part is not None and (columns is None or name in columns)
    }


def _locate_damage(containers: Sequence[Container], block_index: int | None = None) -> Corrupt:
    """Return the error of damaged blocks, or of block number `block_index`, by decoding them value by value."""
    blocks = [(container, block) for container in containers for block in container.blocks]
    for container, block in blocks if block_index is None else [blocks[block_index]]:
        try:
            read_records(replace(container, blocks=(block,)))
        except Corrupt as error:
            return error
    return Corrupt("records do not end where their block ends", path=containers[0].path, field="block count")


# ---- columns ---------------------------------------------------------------------------------------------------------


def _to_arrow(column: VectorColumn | None, vectors: VectorReader) -> pa.Array:
    assert column is not None
    node, size = column.node, column.size
    match node.kind:
        case "int" | "long":
            assert column.values is not None
            return pa.array(column.values.astype(np.int32) if node.kind == "int" else column.values)
        case "bytes" | "string":
            assert column.starts is not None
            assert column.lengths is not None
            return slice_buffer(vectors.data, column.starts, column.lengths, text=node.kind == "string")
        case "record":
            fields = [pa.field(name, arrow_type(part)) for name, part in zip(node.names, node.children, strict=True)]
            if not fields:
                return pa.array([{}] * size, pa.struct([]))
            return pa.StructArray.from_arrays([_to_arrow(part, vectors) for part in column.children], fields=fields)
        case "union":
            return _nullable_array(column, vectors)
        case "array" | "map":
            assert column.lengths is not None
            offsets = pa.array(np.concatenate([[0], np.cumsum(column.lengths)]).astype(np.int32))
            items = _to_arrow(column.children[0], vectors)
            if node.kind == "array":
                return pa.ListArray.from_arrays(offsets, items)
            return pa.MapArray.from_arrays(offsets, items.field(0), items.field(1))
    return _fixed_array(column, vectors)


def _fixed_array(column: VectorColumn, vectors: VectorReader) -> pa.Array:
    """Return an array of null, boolean, enum, float, double or fixed."""
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
    values = vectors.words[column.starts]
    match node.kind:
        case "double":
            return pa.array(values.view(np.float64))
        case "float":
            return pa.array((values & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32))
    positions = column.starts[:, None] + np.arange(node.size)
    body = vectors.bytes[positions].tobytes()
    return pa.Array.from_buffers(pa.binary(node.size), column.size, [None, pa.py_buffer(body)])


def _nullable_array(column: VectorColumn, vectors: VectorReader) -> pa.Array:
    """Return the array of a union of null and one other type, or of one type alone."""
    kind = arrow_type(column.node)
    branch = column.node.children.index(column.node.non_null_type)
    part, rows = column.children[branch], column.rows[branch]
    if not len(rows):
        return pa.nulls(column.size, kind)
    values = _to_arrow(part, vectors)
    if len(rows) == column.size:
        return values
    indexes = np.zeros(column.size, np.int64)
    indexes[rows] = np.arange(len(rows))
    absent = np.ones(column.size, bool)
    absent[rows] = False
    return values.take(pa.array(indexes, mask=absent))


def slice_buffer(data: bytes, starts: Ints, lengths: Ints, *, text: bool) -> pa.Array:
    """Return byte ranges of a buffer as one binary or string column. Ranges must ascend and not overlap.

    The buffer between all edges is an Arrow array already, whose every second value is selected: one `take` copies
    them.
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
    ranges = pa.Array.from_buffers(kind, 2 * size - 1, [None, offsets, pa.py_buffer(data)])
    values = ranges.take(pa.array(np.arange(0, 2 * size - 1, 2)))
    if text:
        values.validate(full=True)
    return values
