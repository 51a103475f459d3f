"""Stripes, streams and lengths of ORC files: those of every writer pass, those by which Arrow would read where nothing is are refused before it reads them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import orc

import lakekit as lk
from lakekit.errors import Corrupt
from lakekit.format import orc_bounds
from spec_tests.reliability import damaged_tables
from spec_tests.reliability.children import Child
from spec_tests.reliability.test_check_survives import length_stream

CALLS = "spec_tests.reliability.damaged_calls:"


def test_files_of_every_writer_pass(fixtures_path):
    found = 0
    for path in sorted(fixtures_path.rglob("*")):
        if path.is_file() and "broken" not in path.parts and (data := path.read_bytes())[:3] == b"ORC":
            orc_bounds.check(str(path), data)
            found += 1
    assert found > 100


lengths = st.lists(
    st.one_of(
        st.integers(0, 40).flatmap(lambda value: st.integers(1, 30).map(lambda count: [value] * count)),
        st.integers(0, 9).flatmap(lambda first: st.integers(1, 60).map(lambda count: list(range(first, first + count)))),
        st.lists(st.integers(0, 5000), max_size=6),
        st.integers(1, 40).map(lambda count: list(range(count, 0, -1))),
    ),
    max_size=8,
).map(lambda parts: [value for part in parts for value in part])
"""Lengths that make runs of every kind."""


@given(lengths=lengths, codec=st.sampled_from(["uncompressed", "zlib", "zstd", "snappy", "lz4"]), nulls=st.booleans())
def test_files_of_arrow_pass(lengths, codec, nulls):
    texts = [None if nulls and at % 7 == 3 else "x" * length for at, length in enumerate(lengths)]
    table = pa.table({"s": pa.array(texts, pa.string()), "l": pa.array([[1] * (length % 50) for length in lengths], pa.list_(pa.int32()))})
    sink = pa.BufferOutputStream()
    orc.write_table(table, sink, compression=codec)
    orc_bounds.check("a.orc", sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("data", "second", "total"),
    [
        ("0a05", True, 25),  # five times five
        ("c0040201", True, None),  # 2, then one less each time, five times: below zero
        ("c0040a01", True, 50),
        ("c0040200", True, 10),
        ("020102", False, 5 * 6),  # 2, 3, 4, 5, 6
        ("02ff02", False, None),  # 2, 1, 0, -1, -2
        ("fe0507", False, 12),
        ("38ffffffffffffffff", True, None),  # a repeated value of eight bytes
    ],
)
def test_runs_are_bounded(data, second, total):
    if total is None:
        with pytest.raises(Corrupt, match="a length of "):
            orc_bounds.total_bound(bytes.fromhex(data), second=second)
    else:
        assert orc_bounds.total_bound(bytes.fromhex(data), second=second) >= total


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_bounded_or_corrupt(data, second):
    try:
        assert orc_bounds.total_bound(data, second=second) >= 0
    except Corrupt as wrong:
        assert "a length" in str(wrong)


def test_lengths_below_zero_are_corrupt_and_the_process_lives(tmp_path):
    """One flipped bit: Arrow read where nothing is, and the process ended."""
    t = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, options={"file.format": "orc"})
    t.append([{"id": i, "v": f"v{i % 3}"} for i in range(20)])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    data = bytearray(file.read_bytes())
    data[length_stream(bytes(data))[1] - 1] ^= 1
    file.write_bytes(data)
    with Child() as child:
        answer = child.ask(f"{CALLS}scan_table", str(tmp_path / "t").encode())
    assert answer.end == "error", answer
    assert "a length of -" in str(answer.found)
    assert file.name in str(answer.found)


def test_a_decimal_of_too_many_digits_is_corrupt():
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"x": pa.array([1], pa.decimal128(10, 2))}), sink, compression="uncompressed")
    data = sink.getvalue().to_pybytes()
    at = data.index(bytes([40, 10, 48, 2])) - 2
    with pytest.raises(Corrupt, match="a decimal of 99 digits"):
        orc_bounds.check("a.orc", data[: at + 3] + bytes([99]) + data[at + 4 :])
