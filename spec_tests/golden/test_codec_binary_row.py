"""Every worked example of FORMAT.md 5.8 and 7.7, as bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakekit.codec import binary_row, hashing
from lakekit.errors import Corrupt
from lakekit.types import Instant, arrow, parse

ROWS: list[tuple[list[str], list[Any], str, int]] = [
    ([], [], "0000000000000000", -1670924195),
    (["INT"], [1], "00000000000000000100000000000000", 1465514398),
    (["INT"], [-1], "0000000000000000ffffffff00000000", 1133687267),
    (["INT"], [None], "00010000000000000000000000000000", -1748325344),
    (["BIGINT"], [10**10], "000000000000000000e40b5402000000", 1891290426),
    (["STRING"], [""], "00000000000000000000000000000080", 302122119),
    (["STRING"], ["abc"], "00000000000000006162630000000083", -101922419),
    (["STRING"], ["abcdefg"], "00000000000000006162636465666787", -1431907323),
    (["STRING"], ["abcdefgh"], "000000000000000008000000100000006162636465666768", -843760178),
    (["STRING"], ["2024-01-01"], "00000000000000000a00000010000000323032342d30312d3031000000000000", 306517490),
    (["STRING"], ["湖仓"], "0000000000000000e6b996e4bb930086", 872831974),
    (["BYTES"], [b"\1\2\3"], "00000000000000000102030000000083", 1066645297),
    (["DECIMAL(10, 2)"], [Decimal("-123.45")], "0000000000000000c7cfffffffffffff", 280263423),
    (["DECIMAL(20, 3)"], [Decimal("12345.678")], "0000000000000000040000001000000000bc614e000000000000000000000000", -794102950),
    (["DECIMAL(20, 3)"], [Decimal("-0.001")], "00000000000000000100000010000000ff000000000000000000000000000000", 907730780),
    (["DECIMAL(20, 3)"], [None], "0001000000000000000000001000000000000000000000000000000000000000", -1380280760),
    (["TIMESTAMP(3)"], [Instant(1700000000123, 0)], "00000000000000007b68e5cf8b010000", -1285420957),
    (["TIMESTAMP(6)"], [Instant(1700000000123, 456000)], "000000000000000040f50600100000007b68e5cf8b010000", 1196670069),
    (["TIMESTAMP(9)"], [Instant(1700000000123, 456789)], "000000000000000055f80600100000007b68e5cf8b010000", -71831406),
    (["TIMESTAMP(6)"], [Instant(-1, 999000)], "0000000000000000583e0f0010000000ffffffffffffffff", 1236894319),
    (["TIMESTAMP(6)"], [None], "000100000000000000000000100000000000000000000000", -340882661),
    (
        ["INT", "STRING"],
        [7, "hello world"],
        "000000000000000007000000000000000b0000001800000068656c6c6f20776f726c640000000000",
        1628449581,
    ),
    (["INT", "STRING", "BIGINT"], [None, "x", None], "0005000000000000000000000000000078000000000000810000000000000000", -564777880),
    (
        ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME"],
        [True, -2, -300, 70000, -5, 1.5, -2.25, 19723, 3723004],
        (
            "00000000000000000100000000000000fe00000000000000d4fe0000000000007011010000000000fbffffffffffffff"
            "0000c03f0000000000000000000002c00b4d000000000000fcce380000000000"
        ),
        1942060625,
    ),
    (
        ["ARRAY<INT>"],
        [[1, None, 3]],
        "00000000000000001800000010000000030000000200000001000000000000000300000000000000",
        1830759751,
    ),
    (
        ["MAP<STRING, INT>"],
        [[("k", 1)]],
        "000000000000000024000000100000001000000001000000000000006b000000000000810100000000000000010000000000000000000000",
        1505123240,
    ),
    (
        ["ROW<a INT, b STRING>"],
        [(5, "hello nested")],
        "00000000000000002800000010000000000000000000000005000000000000000c0000001800000068656c6c6f206e657374656400000000",
        -1688935064,
    ),
]
ARRAYS: list[tuple[str, list[Any], str]] = [
    ("BIGINT", [1, None], "020000000200000001000000000000000000000000000000"),
    ("INT", [1, None, 3], "030000000200000001000000000000000300000000000000"),
    ("BOOLEAN", [True, False, None], "03000000040000000100000000000000"),
    ("DECIMAL(20, 3)", [Decimal("1.000"), None], "02000000020000000200000018000000000000000000000003e80000000000000000000000000000"),
    ("TIMESTAMP(6)", [Instant(0, 1000), None], "0200000002000000e80300001800000000000000000000000000000000000000"),
    (
        "STRING",
        ["a", "longer-than-7", None],
        "030000000400000061000000000000810d0000002000000000000000000000006c6f6e6765722d7468616e2d37000000",
    ),
]


def _name(case: object) -> str:
    return "-".join(case) if isinstance(case, list) and all(isinstance(part, str) for part in case) else ""


@pytest.mark.parametrize(("type_texts", "values", "text", "code"), ROWS, ids=_name)
def test_a_row_is_these_bytes(type_texts: list[str], values: list[Any], text: str, code: int) -> None:
    types = [parse(t) for t in type_texts]
    row = bytes.fromhex(text)
    assert binary_row.encode_row(values, types) == row
    assert binary_row.decode_row(row, types) == tuple(values)
    assert hashing.row_hash_code(row) == code


@pytest.mark.parametrize(("type_texts", "values", "text", "code"), [case for case in ROWS if case[0]], ids=_name)
def test_a_column_of_rows_is_these_bytes(type_texts: list[str], values: list[Any], text: str, code: int) -> None:
    types = [parse(t) for t in type_texts]
    row = bytes.fromhex(text)
    columns = [arrow.to_arrow_array([value, value], t) for value, t in zip(values, types, strict=True)]
    encoded = binary_row.encode_columns(columns, types)
    assert encoded.to_pylist() == [row, row]
    assert hashing.row_hash_codes(encoded).tolist() == [code, code]
    assert hashing.hash_columns(columns, types).tolist() == [code, code]
    decoded = binary_row.decode_columns(pa.array([binary_row.with_arity(row, len(types)), None]), types)
    assert [arrow.to_internal_values(column, t) for column, t in zip(decoded, types, strict=True)] == [[value, None] for value in values]


@pytest.mark.parametrize(("element", "values", "text"), ARRAYS)
def test_an_array_is_these_bytes(element: str, values: list[Any], text: str) -> None:
    assert binary_row.encode_array(values, parse(element)) == bytes.fromhex(text)
    assert binary_row.decode_array(bytes.fromhex(text), parse(element)) == values


def test_a_map_is_these_bytes() -> None:
    data = bytes.fromhex("1000000001000000000000006b0000000000008101000000000000000100000000000000")
    assert binary_row.encode_map([("k", 1)], parse("MAP<STRING, INT>")) == data
    assert binary_row.encode_map([("k", 1)], parse("MULTISET<STRING>")) == data
    assert binary_row.decode_map(data, parse("MAP<STRING, INT>")) == [("k", 1)]


def test_a_partition_is_these_bytes() -> None:
    data = bytes.fromhex("0000000200020000000000000a000000180000000000000000000000323032342d30312d3031000000000000")
    types = [parse("STRING"), parse("INT")]
    assert binary_row.with_arity(binary_row.encode_row(["2024-01-01", None], types), 2) == data
    arity, row = binary_row.strip_arity(data)
    assert (arity, binary_row.decode_row(row, types)) == (2, ("2024-01-01", None))
    assert binary_row.with_arity(binary_row.encode_row([], []), 0) == bytes(12) == binary_row.EMPTY_ROW_WITH_ARITY


def test_value_statistics_are_these_bytes() -> None:
    data = bytes.fromhex(
        "00000004000000000000000002000000000000000a0000002800000010000000380000000400000048000000"
        "323032342d30312d303100000000000076616c75652d322d6c6f6e672d6c6f6e00bc614e000000000000000000000000"
    )
    types = [parse(t) for t in ("INT", "STRING", "STRING", "DECIMAL(20, 3)")]
    columns = binary_row.decode_columns(pa.array([data]), types, arity_exact=True)
    assert [column.to_pylist() for column in columns] == [[2], ["2024-01-01"], ["value-2-long-lon"], [Decimal("12345.678")]]
    assert binary_row.with_arity(binary_row.encode_columns(columns, types)[0].as_py(), 4) == data


def test_nulls_of_old_writers_have_no_place_of_their_own() -> None:
    old = bytes.fromhex("0001000000000000" + "00" * 8)
    for text in ("DECIMAL(20, 3)", "TIMESTAMP(6)"):
        assert binary_row.decode_row(old, [parse(text)]) == (None,)
        assert binary_row.decode_columns(pa.array([b"\0\0\0\1" + old]), [parse(text)])[0].to_pylist() == [None]


def test_rows_of_other_arities() -> None:
    types = [parse("INT"), parse("STRING")]
    rows = [binary_row.with_arity(binary_row.encode_row([i, "text of row"][:n], types[:n]), n) for i, n in enumerate((2, 1, 0))]
    columns = binary_row.decode_columns(pa.array([*rows, None]), types)
    assert [column.to_pylist() for column in columns] == [[0, 1, None, None], ["text of row", None, None, None]]
    with pytest.raises(Corrupt, match="row 1 of 4, arity: 2 fields wanted"):
        binary_row.decode_columns(pa.array([*rows, None]), types, arity_exact=True)
    wide = [parse("INT")] * 60
    assert len(binary_row.encode_row(list(range(60)), wide)) == 16 + 480
    assert [c.to_pylist() for c in binary_row.decode_columns(pa.array([binary_row.with_arity(binary_row.encode_row(list(range(60)), wide), 60)]), wide)] == [
        [i] for i in range(60)
    ]


def test_a_timestamp_beyond_its_unit_is_null() -> None:
    t = parse("TIMESTAMP(9)")
    far, last, first = Instant(2**62, 0), Instant(9223372036854, 775807), Instant(-9223372036855, 224192)
    rows = [binary_row.with_arity(binary_row.encode_row([value], [t]), 1) for value in (far, last, first)]
    (column,) = binary_row.decode_columns(pa.array(rows), [t])
    assert column.cast(pa.int64()).to_pylist() == [None, 2**63 - 1, -(2**63)]
    assert binary_row.decode_row(rows[0][4:], [t]) == (far,)
