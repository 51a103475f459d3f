"""Times before 1970 with parts of a millisecond go into ORC files as the engine stores them; lakekit and Arrow read what was written."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import orc as arrow_orc

import lakekit as lk
from lakekit.codec import orc_tail
from lakekit.errors import ValueOutOfRange
from lakekit.format import orc, orc_rewrite, orc_write
from lakekit.format.encoder import Encoding
from lakekit.types import Field, parse

SECOND = 1_000_000
LAST = st.integers(-SECOND // 1000 + 1, -1).map(lambda milli: milli * 1000)
"""The last second before 1970: whole milliseconds alone."""
NEAR = st.integers(-3 * SECOND, 2 * SECOND).filter(lambda micro: not -999_000 <= micro < 0 or micro % 1000 == 0)
FAR = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999).filter(lambda micro: not -SECOND < micro < 0)
MICROS = st.none() | LAST | NEAR | FAR
NANOS = st.none() | st.integers(-(2**62), 2**62).filter(lambda nano: not -SECOND * 1000 < nano < 0)
ROWS = st.lists(
    st.tuples(MICROS, NANOS, st.none() | st.lists(MICROS, max_size=3), st.none() | st.dictionaries(st.none() | st.integers(0, 9), MICROS, max_size=3)),
    max_size=30,
)
KINDS = {
    "t": "TIMESTAMP(6)",
    "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "n": "TIMESTAMP(9)",
    "m": "TIMESTAMP(3)",
    "a": "ARRAY<TIMESTAMP(6)>",
    "e": "MAP<INT, TIMESTAMP(6)>",
    "r": "ROW<x TIMESTAMP(6), y INT>",
}
FIELDS = [Field(name, parse(kind), id=at) for at, (name, kind) in enumerate(KINDS.items())]


def frame_of(rows):
    """A frame of the columns of `KINDS`."""
    micros, nanos, lists, maps = ([row[at] for row in rows] for at in range(4))
    table = pa.table(
        {
            "t": pa.array(micros, pa.timestamp("us")),
            "z": pa.array(micros, pa.timestamp("us", "UTC")),
            "n": pa.array(nanos, pa.timestamp("ns")),
            "m": pa.array([None if one is None else one // 1000 for one in micros], pa.timestamp("ms")),
            "a": pa.array(lists, pa.list_(pa.timestamp("us"))),
            "e": pa.array([None if one is None else [{"key": k, "value": v} for k, v in one.items()] for one in maps], pa.list_(ENTRY)),
            "r": pa.array(
                [None if at % 4 == 3 else {"x": one, "y": at} for at, one in enumerate(micros)], pa.struct([("x", pa.timestamp("us")), ("y", pa.int32())])
            ),
        }
    )
    return pl.from_arrow(table)


ENTRY = pa.struct([("key", pa.int32()), ("value", pa.timestamp("us"))])


def file_of(frames, **how):
    buffer = BytesIO()
    writer = orc_write.open_writer(buffer, FIELDS, Encoding(**how))
    for frame in frames:
        writer.write(frame)
    writer.close()
    return buffer.getvalue()


@given(ROWS, st.sampled_from(["none", "zlib", "snappy", "lz4", "zstd"]))
def test_drawn_times_are_read_as_they_were_written(rows, compression):
    frame = frame_of(rows)
    data = file_of([frame], compression=compression)
    found = orc.scan(["f"], FIELDS, read=lambda _: data).collect()
    for name in KINDS:
        assert found[name].equals(frame[name].cast(found[name].dtype)), name
    rewritten = arrow_orc.ORCFile(pa.BufferReader(data))
    if all(one is None or abs(one) < 9_000_000_000_000_000 for row in rows for one in (row[0], *(row[2] or ()))):  # what Arrow's nanoseconds hold
        read = rewritten.read(["t", "a"])
        assert read["t"].cast(pa.int64()).to_pylist() == [None if row[0] is None else row[0] * 1000 for row in rows]


@pytest.mark.parametrize("stripes", [1, 3])
def test_many_stripes_and_frames(stripes):
    draw = random.Random(stripes)
    micros = [None if draw.random() < 0.1 else draw.randint(-(10**13), 10**13) // 3 for _ in range(30_000)]
    rows = [(one, None, [one] if one and one % 2 else None, None) for one in micros]
    frames = [frame_of(rows[start : start + 7_000]) for start in range(0, len(rows), 7_000)]
    data = file_of(frames, block_bytes=1 << 30 if stripes == 1 else 1 << 16)
    tail = orc_tail.parse_tail(data)
    assert (len(tail.stripes) == 1) == (stripes == 1)
    found = orc.scan(["f"], FIELDS, read=lambda _: data).collect()
    assert found["t"].equals(pl.concat(frames)["t"])
    assert found["a"].equals(pl.concat(frames)["a"])


def decoded(stream):
    """The unsigned numbers of direct runs."""
    values, at = [], 0
    widths = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]
    while at < len(stream):
        head = int.from_bytes(stream[at : at + 2], "big")
        assert head >> 14 == 1
        width, count = widths[head >> 9 & 31], (head & 511) + 1
        size = -(-width * count // 8)
        bits = int.from_bytes(stream[at + 2 : at + 2 + size], "big") >> (size * 8 - width * count)
        values += [bits >> width * (count - 1 - number) & (1 << width) - 1 for number in range(count)]
        at += 2 + size
    return values


@given(st.lists(st.integers(-(2**62), 2**62).filter(lambda nano: not -999_000_000 <= nano < 0), min_size=1, max_size=1200))
def test_streams_hold_what_the_engine_adds_up(nanos):
    """By the reader of the reference: a second is taken off where seconds are below zero and there is a millisecond."""
    seconds, parts = (decoded(stream) for stream in orc_rewrite.encode_timestamps(np.array(nanos, np.int64), 1_000_000))
    for nano, stored, part in zip(nanos, seconds, parts, strict=True):
        second = (stored >> 1 ^ -(stored & 1)) + 1_420_070_400
        nanos_read = (part >> 3) * 10 ** ((part & 7) + 1 if part & 7 else 0)
        assert (second - (second < 0 and nanos_read > 999_999)) * 10**9 + nanos_read == nano


@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "ARRAY<TIMESTAMP(9)>"])
def test_the_last_second_before_1970_is_refused(tmp_path, kind):
    table = lk.create(tmp_path / "t", {"k": "INT", "t": kind}, options={"file.format": "orc"})
    wrong = pl.Series([-1]).cast(pl.Datetime("us" if "6" in kind else "ns"))
    frame = pl.DataFrame({"k": pl.Series([1], dtype=pl.Int32), "t": wrong if "6" in kind else wrong.implode()})
    with pytest.raises(ValueOutOfRange, match="column t holds a time in the last second before 1970 with parts of a millisecond"):
        table.append(frame)
    assert table.snapshots().height == 0


def test_a_table_takes_them_wherever_they_come(tmp_path):
    """In the first rows of a file or in later ones, whatever else the file holds; no index of rows misleads a reader."""
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "t": "TIMESTAMP(6)"}, primary_keys=["k"], options={"bucket": "1", "file.format": "orc"})
    micros = [-2_000_500, 0, -1_000_500, -1_999_500, 7, -12_345_678_901]
    for at, one in enumerate(micros):
        table.upsert(pl.DataFrame({"k": [at], "t": [one]}).select(pl.col("k").cast(pl.Int32), pl.col("t").cast(pl.Datetime("us"))))
    table.compact(full=True)
    rows = table.scan().sort("k").collect()
    assert rows["t"].cast(pl.Int64).to_list() == micros
    for one in rows["t"]:
        assert table.scan().filter(pl.col("t") == one).collect().height == 1
    assert table.check(deep=True).ok
    for path in Path(tmp_path, "t").rglob("*.orc"):
        assert arrow_orc.ORCFile(path).nrows >= 1
