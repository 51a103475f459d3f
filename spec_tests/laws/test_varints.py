"""Numbers of variable length: what is written reads back, and no bytes end in anything but a number, `IndexError` or `Corrupt`."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lakekit.codec import orc_runs, orc_tail
from lakekit.codec.cursor import append_varint, append_zigzag, read_varint, read_zigzag
from lakekit.errors import Corrupt
from lakekit.format import thrift

ENDS = (0, 1, 127, 128, 300, 2**14 - 1, 2**14, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


@pytest.mark.parametrize("value", ENDS)
def test_the_ends_of_each_length(value):
    made = bytearray()
    append_varint(made, value)
    assert len(made) == max(1, -(-value.bit_length() // 7))
    assert read_varint(bytes(made), 0) == (value, len(made))


@given(st.integers(0, 2**64 - 1), st.binary(max_size=12), st.binary(max_size=12))
def test_an_unsigned_number_reads_back_wherever_it_stands(value, before, behind):
    made = bytearray(before)
    append_varint(made, value)
    end = len(made)
    assert read_varint(bytes(made) + behind, len(before)) == (value, end)
    assert read_varint(memoryview(bytes(made) + behind), len(before)) == (value, end)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_reads_back(value):
    made = bytearray()
    append_zigzag(made, value)
    assert read_zigzag(bytes(made), 0) == (value, len(made))


@pytest.mark.parametrize(("data", "value"), [("00", 0), ("01", -1), ("d704", -300), ("d804", 300), ("ffffffffffffffffff01", -(2**63))])
def test_known_signed_numbers(data, value):
    assert read_zigzag(bytes.fromhex(data), 0) == (value, len(data) // 2)


@given(st.binary(max_size=14))
def test_any_bytes_are_a_number_or_end_or_are_corrupt(data):
    try:
        value, end = read_varint(data, 0)
    except IndexError:
        assert all(byte > 0x7F for byte in data)
        assert len(data) < 10
    except Corrupt:
        whole = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[:10]))
        assert data[9] > 0x7F or whole >= 2**64
    else:
        assert value == sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[:end]))
        assert value < 2**64
        assert end <= 10


@pytest.mark.parametrize("data", ["80" * 10, "ff" * 10 + "01", "ffffffffffffffffff02", "80" * 9 + "7f"])
def test_more_than_64_bits_are_corrupt_to_all_that_read_numbers(data):
    made = bytes.fromhex(data)
    with pytest.raises(Corrupt, match="more than 64 bits"):
        read_varint(made, 0)
    with pytest.raises(Corrupt, match="more than 64 bits"):
        orc_tail.parse_members(b"\x08" + made)
    with pytest.raises(Corrupt, match="more than 64 bits"):
        thrift.decode_struct(b"\x16" + made)
    with pytest.raises(Corrupt, match="more than 64 bits"):
        orc_runs.sum_lengths(b"\xff" + made, second=False)


@given(st.integers(0, 9))
def test_a_number_that_does_not_end_is_told_by_who_reads_it(count):
    made = b"\x80" * count
    with pytest.raises(IndexError):
        read_varint(made, 0)
    with pytest.raises(Corrupt, match="does not end"):
        orc_tail.parse_members(b"\x08" + made)
    with pytest.raises(Corrupt, match="ends too early"):
        thrift.decode_struct(b"\x16" + made)
    assert orc_runs.sum_lengths(b"\xff" + made, second=False) == 0  # left to Arrow
