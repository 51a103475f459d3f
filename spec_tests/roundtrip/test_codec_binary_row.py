"""decode(encode(x)) == x for rows and columns, one value at a time and a column at a time; damaged rows are refused by name."""

from __future__ import annotations

import contextlib
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.codec import binary_row, hashing
from lakekit.errors import Corrupt, LakekitError, ValueOutOfRange
from lakekit.types import DataType, Instant, arrow, parse

SIMPLE = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "CHAR(5)", "STRING", "BYTES"),
    *("DECIMAL(1, 0)", "DECIMAL(18, 4)", "DECIMAL(19, 4)", "DECIMAL(38, 10)"),
    *("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(4)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"),
]
NESTED = [
    *("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<ARRAY<TIMESTAMP(6)>>", "MAP<STRING, DECIMAL(20, 2)>", "MULTISET<STRING>", "VARIANT"),
    "ROW<a INT, b ROW<c STRING, d ARRAY<DATE>>>",
]
RANGES = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "DATE": 31, "BIGINT": 63}


def values(t: DataType) -> st.SearchStrategy[Any]:
    """Values of a type, nulls included."""
    return st.none() | present(t)


def present(t: DataType) -> st.SearchStrategy[Any]:
    if t.root in RANGES:
        return st.integers(-(2 ** RANGES[t.root]), 2 ** RANGES[t.root] - 1)
    if t.root == "DECIMAL":
        top = 10 ** (t.precision or 0) - 1
        return st.integers(-top, top).map(lambda n: arrow.from_unscaled(n, t.scale or 0))
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        digits = 6 if t.precision is None else t.precision
        unit = 10**6 if digits <= 3 else 1000 if digits <= 6 else 1
        return st.builds(Instant, st.integers(-9_000_000_000_000, 9_000_000_000_000), st.integers(0, 999_999).map(lambda n: n // unit * unit))
    match t.root:
        case "BOOLEAN":
            return st.booleans()
        case "FLOAT":
            return st.floats(width=32, allow_nan=False)
        case "DOUBLE":
            return st.floats(allow_nan=False)
        case "TIME":
            return st.integers(0, 86_399_999)
        case "CHAR" | "VARCHAR":
            return st.text(max_size=20)
        case "VARBINARY":
            return st.binary(max_size=20)
        case "ARRAY":
            return st.lists(values(t.element), max_size=4)  # type: ignore[arg-type]
        case "MULTISET":
            return st.lists(st.tuples(present(t.element), st.integers(1, 9)), max_size=3)  # type: ignore[arg-type]
        case "MAP":
            return st.lists(st.tuples(present(t.key), values(t.value)), max_size=3)  # type: ignore[arg-type]
        case "ROW":
            return st.tuples(*(values(f.type) for f in t.fields))
    return st.tuples(st.binary(max_size=9), st.binary(max_size=9))


@st.composite
def tables(draw: st.DrawFn, texts: list[str]) -> tuple[list[DataType], list[tuple[Any, ...]]]:
    types = [parse(text) for text in draw(st.lists(st.sampled_from(texts), min_size=1, max_size=5))]
    return types, draw(st.lists(st.tuples(*map(values, types)), max_size=6))


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(tables([*SIMPLE, *NESTED]))
def test_rows_come_back_and_columns_give_the_same_bytes(table: tuple[list[DataType], list[tuple[Any, ...]]]) -> None:
    types, rows = table
    encoded = [binary_row.encode_row(row, types) for row in rows]
    assert [binary_row.decode_row(row, types) for row in encoded] == rows
    columns = [arrow.to_arrow_array([row[i] for row in rows], t) for i, t in enumerate(types)]
    by_column = binary_row.encode_columns(columns, types)
    assert by_column.to_pylist() == encoded
    hashes = [hashing.row_hash_code(row) for row in encoded]
    assert hashing.hash_columns(columns, types).tolist() == hashing.row_hash_codes(by_column).tolist() == hashes
    stored = pa.array([binary_row.with_arity(row, len(types)) for row in encoded], pa.binary())
    decoded = binary_row.decode_columns(stored, types, arity_exact=True)
    assert [arrow.to_internal_values(column, t) for column, t in zip(decoded, types, strict=True)] == [[row[i] for row in rows] for i in range(len(types))]
    some = list(range(len(types)))[::-2]
    assert all(column.equals(decoded[i]) for column, i in zip(binary_row.decode_columns(stored, types, only=some), some, strict=True))


@settings(max_examples=15, deadline=None)
@given(tables([*SIMPLE, *NESTED]), st.integers(0, 4), st.integers(0, 4))
def test_slices_chunks_and_other_layouts_are_the_same_rows(table: tuple[list[DataType], list[tuple[Any, ...]]], head: int, tail: int) -> None:
    types, rows = table
    columns = [arrow.to_arrow_array([row[i] for row in rows], t) for i, t in enumerate(types)]
    wanted = [binary_row.encode_row(row, types) for row in rows]
    stop = max(head, len(rows) - tail)
    assert binary_row.encode_columns([column.slice(head, stop - head) for column in columns], types).to_pylist() == wanted[head:stop]
    chunked = [pa.chunked_array([column.slice(0, head), column.slice(head)]) for column in columns]
    assert binary_row.encode_columns(chunked, types).to_pylist() == wanted
    stored = pa.array([None, *(binary_row.with_arity(row, len(types)) for row in wanted)], pa.binary()).slice(1 + head, max(0, stop - head))
    decoded = binary_row.decode_columns(stored, types)
    values = [arrow.to_internal_values(column, t) for column, t in zip(decoded, types, strict=True)]
    assert values == [[row[i] for row in rows[head:stop]] for i in range(len(types))]


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_rows_give_a_value_or_are_refused(data: st.DataObject) -> None:
    types, rows = data.draw(tables([*SIMPLE, *NESTED]))
    row = bytearray(binary_row.with_arity(binary_row.encode_row(rows[0], types), len(types)) if rows else data.draw(st.binary(max_size=60)))
    for _ in range(data.draw(st.integers(1, 4))):
        if row:
            row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(row[: data.draw(st.integers(0, len(row)))])
    with contextlib.suppress(Corrupt):
        arity, body = binary_row.strip_arity(damaged)
        assert len(binary_row.decode_row(body, types[:arity])) == len(types[:arity])
    with contextlib.suppress(Corrupt):
        for column in binary_row.decode_columns(pa.array([damaged, damaged]), types):
            column.validate()
            assert len(column) == 2


def test_parts_that_overlap_are_refused() -> None:
    t = parse("ARRAY<STRING>")
    count, text = 40, b"x" * 80
    start = 4 + 8 + 8 * count
    body = struct.pack("<i", count) + bytes(8) + struct.pack("<Q", start << 32 | 80) * count + text
    with pytest.raises(Corrupt, match="overlap"):
        binary_row.decode_array(body, parse("STRING"))
    row = bytes(8) + struct.pack("<Q", 16 << 32 | len(body)) + body
    with pytest.raises(Corrupt, match="overlap"):
        binary_row.decode_columns(pa.array([binary_row.with_arity(row, 1)]), [t])
    flat = bytes(8) + struct.pack("<Q", 48 << 32 | 16) * 5 + bytes(8) + text[:16]
    with pytest.raises(Corrupt, match="overlap"):
        binary_row.decode_columns(pa.array([binary_row.with_arity(flat, 5)]), [parse("STRING")] * 5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("TINYINT", 128), ("INT", "1"), ("STRING", 5), ("DECIMAL(5, 2)", Decimal("1.005"))],
        *[("DECIMAL(38, 0)", Decimal(10) ** 45), ("TIMESTAMP(6)", Instant(0, 10**6))],
    ],
)
def test_values_that_do_not_fit_are_refused(text: str, value: object) -> None:
    with pytest.raises(ValueOutOfRange):
        binary_row.encode_row([value], [parse(text)])


def test_floats_keep_their_bits_in_rows_and_have_one_nan_in_arrays() -> None:
    odd = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    row = binary_row.encode_columns([pa.array(odd)], [parse("DOUBLE")])[0].as_py()
    assert row[8:] == bytes.fromhex("010000000000f87f")
    assert binary_row.encode_row([-0.0], [parse("DOUBLE")])[8:] == bytes.fromhex("0000000000000080")
    assert binary_row.encode_array([float(odd[0])], parse("DOUBLE"))[8:] == bytes.fromhex("000000000000f87f")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.text(max_size=90), max_size=30))
def test_a_column_has_the_hashes_of_its_values(texts: list[str | None]) -> None:
    assert hashing.xxhash64_column(pa.array(texts, pa.string())).tolist() == [hashing.xxhash64((text or "").encode()) for text in texts]


def test_texts_of_every_length_around_the_words_that_are_copied_at_once() -> None:
    texts = ["x" * n + "é" for n in (*range(20), *range(118, 140), 300, 5000)]
    types = [parse("STRING"), parse("BYTES"), parse("INT")]
    column = pa.array([None, *texts, ""])
    columns = [column, column.cast(pa.binary()).take(list(range(len(column)))[::-1]), pa.array(range(len(column)), pa.int32())]
    rows = list(zip(*(c.to_pylist() for c in columns), strict=True))
    encoded = binary_row.encode_columns(columns, types)
    assert encoded.to_pylist() == [binary_row.encode_row(row, types) for row in rows]
    assert hashing.hash_columns(columns, types).tolist() == [hashing.row_hash_code(row) for row in encoded.to_pylist()]
    assert hashing.row_hash_codes(encoded.slice(3, 9)).tolist() == hashing.row_hash_codes(encoded)[3:12].tolist()


def test_only_whole_words_are_hashed() -> None:
    for call in (lambda: hashing.row_hash_code(b"abc"), lambda: hashing.row_hash_codes(pa.array([b"abc"]))):
        with pytest.raises(LakekitError, match="word"):
            call()
