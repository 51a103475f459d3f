"""Small tables of every kind of file, and damage done to one of their files: what the tests of damaged files draw from."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lakekit as lk

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = {
    "id": "BIGINT",
    "v": "STRING",
    "x": "DECIMAL(10, 2)",
    "d": "DOUBLE",
    "n": "INT",
    "b": "BOOLEAN",
    "at": "TIMESTAMP(3)",
    "a": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
    "r": "ROW<p INT, q STRING>",
    "w": "BYTES",
}


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows of `COLUMNS`, with nulls, repeated texts and texts of one row alone."""
    start = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - a wall clock
    return [
        {
            "id": i,
            "v": None if i % 5 == 4 else f"v{i % 3}",
            "x": Decimal(i) / 4,
            "d": i * 0.5,
            "n": i * 1000 if i % 7 else None,
            "b": i % 2 == 0,
            "at": start + dt.timedelta(hours=i),
            "a": [i, 2, None],
            "m": {f"k{i}": i},
            "r": {"p": i, "q": f"q{i}"},
            "w": bytes([i % 256]) * (i % 4),
        }
        for i in range(first, first + count)
    ]


def make(path: Path, name: str) -> lk.Table:
    """The table that a name stands for: "parquet append", "orc keys vectors", …"""
    words = name.split()
    options = {"file.format": words[0], "bucket": "-1"}
    if "keys" in words:
        options["bucket"] = "1"
    if "vectors" in words:
        options["deletion-vectors.enabled"] = "true"
    if "indexes" in words:
        options |= {"file-index.bitmap.columns": "n", "file-index.bloom-filter.columns": "v", "file-index.bsi.columns": "id"}
    if "waiting" in words:
        options["write-only"] = "true"
    t = lk.create(path, COLUMNS, primary_keys=["id"] if "keys" in words else (), options=options)
    if "keys" in words:
        t.upsert(rows(40))
        t.upsert(rows(10, 35))
    else:
        t.append(rows(40))
    if "vectors" in words:
        t = lk.open(path)
        t.delete("id < 5")
    return lk.open(path)


def targets(path: Path, kind: str) -> list[Path]:
    """The files of a table that damage of some kind is done to: "data", "index", "manifest" or "deletion vectors"."""
    patterns = {"data": "bucket-*/*.*", "manifest": "manifest/*", "index": "index/*"}
    return sorted(one for one in path.glob(patterns[kind]) if one.is_file() and not one.name.startswith("."))


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Bytes of the same length of which few are others: a bit, a byte, the bytes of a number, a stretch of zeros or of other bytes of the file."""
    made = bytearray(data)
    at = draw.randrange(len(made))
    _DAMAGES[draw.choices(range(len(_DAMAGES)), (6, 4, 2, 1, 1))[0]](made, at, draw)
    if draw.random() < 0.15:
        _flip(made, draw.randrange(len(made)), draw)
    return bytes(made)


def _flip(made: bytearray, at: int, draw: random.Random) -> None:
    made[at] ^= 1 << draw.randrange(8)


def _set(made: bytearray, at: int, draw: random.Random) -> None:
    made[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, (made[at] + 1) % 256, draw.randrange(256)))


def _number(made: bytearray, at: int, draw: random.Random) -> None:
    length = min(draw.choice((2, 4, 8)), len(made) - at)
    made[at : at + length] = draw.choice((b"\xff" * length, b"\0" * length, b"\x80" * (length - 1) + b"\x01", draw.randbytes(length)))


def _zeros(made: bytearray, at: int, draw: random.Random) -> None:
    length = min(draw.randrange(1, 64), len(made) - at)
    made[at : at + length] = bytes(length)


def _moved(made: bytearray, at: int, draw: random.Random) -> None:
    length = min(draw.randrange(1, 32), len(made) - at)
    begin = draw.randrange(len(made) - length + 1)
    made[at : at + length] = made[begin : begin + length]


_DAMAGES: tuple[Callable[[bytearray, int, random.Random], None], ...] = (_flip, _set, _number, _zeros, _moved)
