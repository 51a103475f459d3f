"""Values of many types by a seeded generator, spelt as recorded reads spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.types import DataType, part

if TYPE_CHECKING:
    from random import Random

TEXTS = ("", "a", "b", "ab", "Ä", "日本", "🙂", "a b", "x" * 17, "x" * 16 + "\U0010ffff", "null", "2024-01-01", "a'b\"c", "tab\there")
BYTES = ("", "00", "ff", "00ff", "7f80", "ab" * 17, "ff" * 18)
VARIANTS = (["0c05", "010000"], ["04", "010000"], ["00", "010000"], ["096162", "010000"])
"""5, true, null and "ab"."""
_RANGES = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_NULLS = 0.15
_DAY_MS = 86_400_000
VALUE_TYPES = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "DECIMAL(25, 3)",
    "STRING",
    "STRING",
    "VARCHAR(20)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "ARRAY<INT>",
    "ARRAY<STRING NOT NULL>",
    "MAP<STRING, BIGINT>",
    "ROW<a INT, b STRING, c ARRAY<DATE>>",
    "ARRAY<ROW<x BIGINT, y DECIMAL(5, 1)>>",
)
PARQUET_TYPES = ("VARIANT", "TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "MULTISET<STRING>", "MAP<INT, ROW<n DOUBLE>>")
KEY_TYPES = ("INT", "BIGINT", "STRING", "STRING", "DATE", "TINYINT", "DECIMAL(9, 2)", "DECIMAL(25, 3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "BOOLEAN", "BYTES")
"""Bytes last: engine 1.4.2 cannot look keys of bytes up."""
PARTITION_TYPES = ("INT", "STRING", "DATE", "BIGINT", "BOOLEAN", "STRING")
SEQUENCE_TYPES = ("INT", "BIGINT", "TIMESTAMP(3)", "DOUBLE")


def value(draw: Random, t: DataType, *, nulls: float = _NULLS) -> Any:
    """One value of type `t`; null now and then where it may be."""
    if t.nullable and draw.random() < nulls:
        return None
    match t.root:
        case "BOOLEAN":
            return draw.random() < 0.5
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            bits = _RANGES[t.root]
            return draw.choice((0, 1, -1, draw.randint(-100, 100), 2**bits - 1, -(2**bits), draw.getrandbits(bits)))
        case "FLOAT" | "DOUBLE":
            return draw.choice(("0.0", "1.5", "-2.25", "NaN", "inf", "-inf", repr(draw.randint(-(10**6), 10**6) / 64)))
        case "DECIMAL":
            digits = draw.choice((1, (t.precision or 10)))
            return _decimal(draw.randint(-(10**digits) + 1, 10**digits - 1), t.scale or 0)
        case "CHAR" | "VARCHAR":
            return draw.choice((*TEXTS, f"t{draw.randint(0, 999)}"))
        case "BINARY" | "VARBINARY":
            return draw.choice((*BYTES, draw.randbytes(3).hex()))
        case "DATE":
            return draw.choice((0, -1, 19000, draw.randint(-3000, 30000)))
        case "TIME":
            return draw.choice((0, _DAY_MS - 1, draw.randrange(_DAY_MS)))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _instant(draw, t.precision or 0)
        case "VARIANT":
            return draw.choice(VARIANTS)
        case _:
            return _nested(draw, t)


def _decimal(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text


def _instant(draw: Random, precision: int) -> list[int]:
    """Since 1970: engine 1.4.2 writes some earlier ones to ORC as others."""
    ms = draw.choice((0, 1_700_000_000_000, draw.randrange(2 * 10**12)))
    nanos = draw.randrange(10**6)
    kept = 10 ** max(0, 9 - precision)
    total = (ms * 10**6 + nanos) // kept * kept
    return [total // 10**6, total % 10**6]


def _nested(draw: Random, t: DataType) -> Any:
    if t.root == "ARRAY":
        return [value(draw, part(t.element)) for _ in range(draw.randint(0, 3))]
    if t.root == "ROW":
        return [value(draw, field.type) for field in t.fields]
    key = part(t.key) if t.root == "MAP" else part(t.element)
    keys = {repr(one): one for one in (value(draw, key, nulls=0) for _ in range(draw.randint(0, 3)))}
    return [[one, value(draw, part(t.value)) if t.root == "MAP" else draw.randint(1, 3)] for one in keys.values()]


def small(draw: Random, t: DataType, *, nulls: float = _NULLS) -> Any:
    """A value that any order of additions sums to the same, without overflow; texts and lists as above."""
    if t.nullable and draw.random() < nulls:
        return None
    match t.root:
        case "TINYINT":
            return draw.randint(-3, 3)
        case "SMALLINT" | "INT" | "BIGINT":
            return draw.randint(-50, 50)
        case "FLOAT" | "DOUBLE":
            return repr(draw.randint(-64, 64) / 4)
        case "DECIMAL":
            return _decimal(draw.randint(-5000, 5000), t.scale or 0)
    return value(draw, t, nulls=0)
