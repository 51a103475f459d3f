"""Avro values one at a time: readers, skippers and writers, each a function built once from a type.

    null        nothing                         boolean     00 or 01
    int, long   zig-zag varint                  float       4 bytes LE; double 8
    bytes       long length | bytes             string      the same, UTF-8
    fixed       its bytes                       enum        int, index of the symbol
    record      its fields, in order            union       int, index of the branch | value
    array       blocks of count | items, 00     map         blocks of count | key, value, 00
                a negative count: the size of the block in bytes follows it

A record is a dict, an array a list, a map a list of pairs, an enum its symbol; logical types are left to the caller.
The readers here serve small files and name the field that broke; `avro_columns` reads many values at once.

Source: the Avro specification 1.11, "Binary Encoding".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from lakekit.codec.avro_container import append_long, read_long
from lakekit.errors import Corrupt, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.cursor import Cursor

    Read = Callable[[bytes, int], tuple[Any, int]]
    ReadSpans = Callable[[Cursor], Any]
    Skip = Callable[[bytes, int], int]
    Write = Callable[[bytearray, Any], None]

_FLOAT_STRUCTS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_INT32_RANGE = range(-(2**31), 2**31)
FREE_BLOCKS = 64
_MIN_BLOCK_ITEMS = 256
"""The least average number of items in blocks of an array beyond the first `FREE_BLOCKS` blocks, whose size is free."""


def _invalid_value(problem: str, offset: int, field: str) -> Corrupt:
    return Corrupt(f"{field or 'value'} at byte {offset} of its block: {problem}", offset=offset, field=field or None)


# ---- reading ---------------------------------------------------------------------------------------------------------


def build_reader(node: AvroNode, field: str = "") -> Read:
    """Return a function `read(data, at)` that returns a value of that type and the offset after it.

    It raises `Corrupt` with the offset and the name of the field.
    """
    match node.kind:
        case "null":
            return lambda _data, at: (None, at)
        case "record":
            return _record_reader(node, field)
        case "union":
            return _union_reader(node, field)
        case "array" | "map":
            return _array_reader(node, field)
    return _leaf_reader(node, field)


def _leaf_reader(node: AvroNode, field: str) -> Read:
    match node.kind:
        case "int":
            return _int_reader(field)
        case "long":
            return lambda data, at: read_long(data, at, field)
        case "bytes" | "string":
            return _bytes_reader(field, text=node.kind == "string")
    return _fixed_reader(node, field)


def _int_reader(field: str) -> Read:
    def read(data: bytes, offset: int) -> tuple[int, int]:
        value, after = read_long(data, offset, field)
        if value not in _INT32_RANGE:
            raise _invalid_value(f"{value} is no 32 bit number", offset, field)
        return value, after

    return read


def _bytes_reader(field: str, *, text: bool) -> Read:
    def read(data: bytes, offset: int) -> tuple[Any, int]:
        length, start = read_long(data, offset, field)
        if not 0 <= length <= len(data) - start:
            raise _invalid_value(f"a length of {length}, {len(data) - start} bytes left", offset, field)
        body = data[start : start + length]
        if not text:
            return body, start + length
        try:
            return body.decode(), start + length
        except UnicodeDecodeError as error:
            raise _invalid_value(f"not UTF-8: {error.reason}", start, field) from None

    return read


def _fixed_reader(node: AvroNode, field: str) -> Read:
    """Return the reader of a boolean, enum, float, double or fixed."""
    kind, size, symbols, form = node.kind, node.min_bytes, node.names, _FLOAT_STRUCTS.get(node.kind)

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        if kind == "enum":
            number, after = read_long(data, offset, field)
            if not 0 <= number < len(symbols):
                raise _invalid_value(f"symbol {number} of {len(symbols)}", offset, field)
            return symbols[number], after
        if len(data) - offset < size:
            raise _invalid_value(f"{size} bytes wanted, {max(0, len(data) - offset)} left", offset, field)
        if form is not None:
            return form.unpack_from(data, offset)[0], offset + size
        if kind == "boolean":
            if data[offset] > 1:
                raise _invalid_value(f"a boolean of {data[offset]}", offset, field)
            return data[offset] == 1, offset + 1
        return data[offset : offset + size], offset + size

    return read


def _record_reader(node: AvroNode, field: str) -> Read:
    prefix = field + "." if field else ""
    fields = [(name, build_reader(part, prefix + name)) for name, part in zip(node.names, node.children, strict=True)]

    def read(data: bytes, offset: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, part in fields:
            record[name], offset = part(data, offset)
        return record, offset

    return read


def _union_reader(node: AvroNode, field: str) -> Read:
    branches = [build_reader(part, field) for part in node.children]

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        number, after = read_long(data, offset, field)
        if not 0 <= number < len(branches):
            raise _invalid_value(f"branch {number} of a union of {len(branches)}", offset, field)
        return branches[number](data, after)

    return read


def has_tiny_blocks(block_count: int, item_count: int) -> bool:
    """Return whether an array of so many blocks holds too few items for them.

    Writers put an array into one block, or into blocks of kilobytes. A block of one item takes three bytes and a step
    of every decoder, so a small file could demand millions of steps.
    """
    return block_count > FREE_BLOCKS and item_count < _MIN_BLOCK_ITEMS * (block_count - FREE_BLOCKS)


def _check_blocks(block_count: int, item_count: int, offset: int, field: str) -> None:
    if has_tiny_blocks(block_count, item_count):
        rule = f"beyond {FREE_BLOCKS} blocks each holds at least {_MIN_BLOCK_ITEMS}"
        problem = f"{item_count} items in {block_count} blocks; {rule}"
        raise LimitExceeded(f"{field} at offset {offset}: {problem}", offset=offset, field=field)


def _array_reader(node: AvroNode, field: str) -> Read:
    value = build_reader(node.children[0], field)
    key = _bytes_reader(field, text=True) if node.kind == "map" else None
    least = max(1, node.children[0].min_bytes + (key is not None))

    def read(data: bytes, offset: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        block_count = 0
        while True:
            start = offset
            _check_blocks(block_count, len(items), start, field)
            block_count += 1
            count, offset = read_long(data, offset, field)
            if count < 0:
                count = -count
                _, offset = read_long(data, offset, field)
            if count == 0:
                return items, offset
            if count > (len(data) - offset) // least:
                raise _invalid_value(f"{count} items do not fit into {len(data) - offset} bytes", start, field)
            for _ in range(count):
                name = None
                if key is not None:
                    name, offset = key(data, offset)
                item, offset = value(data, offset)
                items.append(item if key is None else (name, item))

    return read


# ---- reading with spans ----------------------------------------------------------------------------------------------


def build_span_reader(node: AvroNode, field: str = "") -> ReadSpans:
    """Return a function `read(cursor)` that returns a value of that type and records the span of each part.

    Parts are values, lengths, branches and counts.
    """
    match node.kind:
        case "null":
            return lambda _cursor: None
        case "record":
            return _record_span_reader(node, field)
        case "union":
            return _union_span_reader(node, field)
        case "array" | "map":
            return _array_span_reader(node, field)
    return _leaf_span_reader(_leaf_reader(node, field), field, prefixed=node.kind in ("bytes", "string"))


def _leaf_span_reader(read: Read, field: str, *, prefixed: bool) -> ReadSpans:
    def read_spans(cursor: Cursor) -> Any:
        data = bytes(cursor.data)
        value, after = read(data, cursor.at)
        if prefixed:
            length, start = read_long(data, cursor.at, field)
            cursor.advance(start, f"{field} length", length)
        cursor.advance(after, field, value)
        return value

    return read_spans


def _record_span_reader(node: AvroNode, field: str) -> ReadSpans:
    prefix = field + "." if field else ""
    fields = [
        (name, build_span_reader(part, prefix + name)) for name, part in zip(node.names, node.children, strict=True)
    ]
    return lambda cursor: {name: read(cursor) for name, read in fields}


def _union_span_reader(node: AvroNode, field: str) -> ReadSpans:
    branches = [build_span_reader(part, field) for part in node.children]

    def read_spans(cursor: Cursor) -> Any:
        number, after = read_long(cursor.data, cursor.at, field)
        if not 0 <= number < len(branches):
            raise _invalid_value(f"branch {number} of a union of {len(branches)}", cursor.at, field)
        cursor.advance(after, f"{field} branch", node.children[number].kind)
        return branches[number](cursor)

    return read_spans


def _array_span_reader(node: AvroNode, field: str) -> ReadSpans:
    """Return an array reader that gives each item its index in its name."""
    item = f"{field}[]"
    value = build_span_reader(node.children[0], item)
    key = None
    if node.kind == "map":
        key = _leaf_span_reader(_bytes_reader(item, text=True), f"{item} key", prefixed=True)
    least = max(1, node.children[0].min_bytes + (key is not None))

    def number(cursor: Cursor, name: str) -> int:
        integer, after = read_long(cursor.data, cursor.at, field)
        cursor.advance(after, f"{field} {name}", integer)
        return integer

    def read_spans(cursor: Cursor) -> list[Any]:
        items: list[Any] = []
        block_count = 0
        while True:
            start = cursor.at
            _check_blocks(block_count, len(items), start, field)
            block_count += 1
            count = number(cursor, "count")
            if count < 0:
                count = -count
                number(cursor, "size")
            if count == 0:
                return items
            if count > cursor.remaining // least:
                raise _invalid_value(f"{count} items do not fit into {cursor.remaining} bytes", start, field)
            for _ in range(count):
                with cursor.renaming_spans(item, f"{field}[{len(items)}]"):
                    name = None if key is None else key(cursor)
                    element = value(cursor)
                items.append(element if key is None else (name, element))

    return read_spans


# ---- skipping --------------------------------------------------------------------------------------------------------

_SKIP_VARINT, _SKIP_BYTES, _CALL_SKIPPER = -1, -2, -3


def build_skipper(node: AvroNode) -> Skip:
    """Return a function `skip(data, at)` that returns the offset after a value.

    It trusts the bytes: a value may end behind the data, or IndexError is raised if they are broken.
    """
    steps: list[tuple[int, Skip | None]] = []
    _collect_skip_steps(node, steps)
    plan = tuple(steps)

    def skip(data: bytes, offset: int) -> int:
        for step, call in plan:
            if step == _SKIP_VARINT:
                while data[offset] > 127:
                    offset += 1
                offset += 1
            elif step == _SKIP_BYTES:
                length = data[offset]
                offset += 1
                if length > 127:
                    length, offset = _long_length(data, offset - 1)
                if length & 1:
                    raise IndexError  # a negative length
                offset += length >> 1
            elif call is not None:
                offset = call(data, offset)
            else:
                offset += step
        return offset

    return skip


def _long_length(data: bytes, offset: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        raw |= (byte & 0x7F) << shift
        if byte < 128:
            return raw, offset
        shift += 7
        if shift > 63:
            raise IndexError


def _collect_skip_steps(node: AvroNode, steps: list[tuple[int, Skip | None]]) -> None:
    match node.kind:
        case "record":
            for part in node.children:
                _collect_skip_steps(part, steps)
        case "int" | "long" | "enum":
            steps.append((_SKIP_VARINT, None))
        case "bytes" | "string":
            steps.append((_SKIP_BYTES, None))
        case "union":
            steps.append((_CALL_SKIPPER, _union_skipper(node)))
        case "array" | "map":
            steps.append((_CALL_SKIPPER, _array_skipper(node)))
        case _ if node.min_bytes:
            steps.append((node.min_bytes, None))


def _union_skipper(node: AvroNode) -> Skip:
    branches = [None if part.kind == "null" else build_skipper(part) for part in node.children]

    def skip(data: bytes, offset: int) -> int:
        number = data[offset]
        offset += 1
        if number > 127:
            number, offset = _long_length(data, offset - 1)
        if number & 1:
            raise IndexError
        branch = branches[number >> 1]
        return offset if branch is None else branch(data, offset)

    return skip


def _array_skipper(node: AvroNode) -> Skip:
    value, is_map = build_skipper(node.children[0]), node.kind == "map"

    def skip(data: bytes, offset: int) -> int:
        block_count = item_count = 0
        while True:
            count, offset = _long_length(data, offset)
            if count == 0:
                return offset
            if has_tiny_blocks(block_count, item_count):
                raise IndexError
            block_count += 1
            if count & 1:
                _, offset = _long_length(data, offset)
                count += 1
            item_count += count >> 1
            for _ in range(min(count >> 1, len(data))):
                if is_map:
                    length, offset = _long_length(data, offset)
                    if length & 1:
                        raise IndexError
                    offset += length >> 1
                offset = value(data, offset)

    return skip


# ---- writing ---------------------------------------------------------------------------------------------------------


def build_writer(node: AvroNode) -> Write:
    """Return a function `write(out, value)` that appends a value of that type.

    Of a union, None goes to its null branch and anything else to its one other branch.
    """
    match node.kind:
        case "null":
            return lambda _out, _value: None
        case "int" | "long":
            return append_long
        case "bytes":
            return _put_bytes
        case "string":
            return lambda out, value: _put_bytes(out, value.encode())
        case "boolean":
            return lambda out, value: out.append(bool(value))
        case "float" | "double":
            form = _FLOAT_STRUCTS[node.kind]
            return lambda out, value: out.extend(form.pack(value))
        case "record":
            return _record_writer(node)
        case "union":
            return _union_writer(node)
        case "array" | "map":
            return _array_writer(node)
        case "enum":
            return lambda out, value: append_long(out, node.names.index(value))
    return lambda out, value: out.extend(value)


def _put_bytes(out: bytearray, value: bytes) -> None:
    append_long(out, len(value))
    out += value


def _record_writer(node: AvroNode) -> Write:
    fields = [(name, build_writer(part)) for name, part in zip(node.names, node.children, strict=True)]

    def write(out: bytearray, value: dict[str, Any]) -> None:
        for name, part in fields:
            part(out, value[name])

    return write


def _union_writer(node: AvroNode) -> Write:
    non_null = [number for number, part in enumerate(node.children) if part.kind != "null"]
    if len(non_null) != 1:
        raise Unsupported("writing an Avro union of several types", feature="avro.union")
    null_branch, branch, write_value = not non_null[0], 2 * non_null[0], build_writer(node.children[non_null[0]])

    def write(out: bytearray, value: Any) -> None:
        if value is None and node.is_nullable:
            out.append(2 * null_branch)
        else:
            out.append(branch)
            write_value(out, value)

    return write


def _array_writer(node: AvroNode) -> Write:
    write_item, is_map = build_writer(node.children[0]), node.kind == "map"

    def write(out: bytearray, value: list[Any]) -> None:
        if value:
            append_long(out, len(value))
            for item in value:
                if is_map:
                    _put_bytes(out, item[0].encode())
                write_item(out, item[1] if is_map else item)
        out.append(0)

    return write
