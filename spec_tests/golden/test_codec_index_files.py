"""Every worked example of FORMAT.md 6.2, 6.4, 8.4, 9.2 and 9.4 (hashes), as bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakekit.codec import hashing, index_files, roaring
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import container
from lakekit.types import arrow, parse

DV_32 = bytes.fromhex(
    "01000000185e43f2d03a300000010000000000010010000000" + "02000300c898f63d000000165e43f2d03a300000010000000000000010000000" + "0100fa2b5192"
)
DV_64 = bytes.fromhex(
    "01"
    "00000024d1d339640100000000000000000000003a300000010000000000010010000000" + "020003007a813847"
    "00000022d1d339640100000000000000000000003a300000010000000000000010000000" + "0100eebd85f4"
)
ENTRIES: list[tuple[int, list[int], str, int]] = [
    (32, [], "0000000c5e43f2d03a300000000000005de5c7e9", 12),
    (32, list(range(10)), "000000135e43f2d03b3000000100000900010000000900a34efa89", 19),
    (32, [1, 10, 100], "0000001a5e43f2d03a30000001000000000002001000000001000a006400f27c8487", 26),
    (64, [], "0000000cd1d339640000000000000000bf18480c", 20),
    (
        64,
        [1, 2**32 + 5],
        "00000038d1d339640200000000000000000000003a3000000100000000000000100000000100010000003a3000000100000000000000100000000500bbe896e6",
        64,
    ),
]
BUCKETS = {
    1: {2: (0, 1, 1), 3: (1, 1, 1), 5: (3, 1, 1), 8: (6, 1, 1), 1000: (398, 1, 1)},
    2: {2: (0, 0, 0), 3: (2, 2, 2), 5: (4, 2, 2), 8: (0, 2, 2), 1000: (384, 2, 2)},
    -7: {2: (1, 1, 1), 3: (0, 2, 1), 5: (2, 3, 1), 8: (3, 1, 1), 1000: (587, 993, 641)},
    123456: {2: (1, 0, 0), 3: (2, 0, 0), 5: (1, 1, 1), 8: (5, 0, 0), 1000: (181, 456, 456)},
}


@pytest.mark.parametrize(("data", "bits", "lengths"), [(DV_32, 32, (24, 22)), (DV_64, 64, (44, 42))])
def test_the_deletion_files_of_the_reference(data: bytes, bits: int, lengths: tuple[int, int]) -> None:
    assert [v.tolist() for v in index_files.decode_vector_file(data)] == [[2, 3], [1]]
    vectors = [np.array([2, 3], np.uint64), np.array([1], np.uint64)]
    second = 33 if bits == 32 else 45
    assert index_files.encode_vector_file(vectors, bits) == (data, [(1, lengths[0], 2), (second, lengths[1], 1)])
    assert index_files.decode_vector_entry(data[second:]).tolist() == [1]


@pytest.mark.parametrize(("bits", "positions", "text", "length"), ENTRIES)
def test_a_deletion_vector_is_these_bytes(bits: int, positions: list[int], text: str, length: int) -> None:
    entry = bytes.fromhex(text)
    assert index_files.encode_vector_entry(np.array(positions, np.uint64), bits) == entry
    assert index_files.decode_vector_entry(entry).tolist() == positions
    assert index_files.decode_vector_entry(entry + b"next").dtype == (np.uint32 if bits == 32 else np.uint64)
    assert index_files.encode_vector_file([np.array(positions, np.uint64)], bits)[1][0].length == length


def test_a_gap_in_a_64_bit_vector_is_read_and_written_filled() -> None:
    data = index_files.encode_deletion_vector(np.array([5, 2**33 + 1], np.uint64), 64)
    assert data[4:12] == (3).to_bytes(8, "little")
    empty = (1).to_bytes(4, "little") + bytes.fromhex("3a30000000000000")
    assert empty in data
    gapped = data[:4] + (2).to_bytes(8, "little") + data[12:].replace(empty, b"")
    assert index_files.decode_deletion_vector(gapped).tolist() == index_files.decode_deletion_vector(data).tolist() == [5, 2**33 + 1]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("last", [7, 2**32 - 1, 2**33])
def test_vectors_encoded_at_once_are_those_encoded_alone(bits: int, last: int) -> None:
    every = [np.array(found, np.uint64) for found in ([5], [], [0, 1, 2, 70_000], range(9000), [last])]
    every = every if bits == 64 or last < 2**32 else every[:-1]
    assert index_files.encode_deletion_vectors(every, bits) == [index_files.encode_deletion_vector(one, bits) for one in every]


def test_a_deletion_file_without_vectors_is_one_byte() -> None:
    assert index_files.encode_vector_file([]) == (b"\1", [])
    assert index_files.decode_vector_file(b"\1") == []
    with pytest.raises(Unsupported, match="version 2"):
        index_files.decode_vector_file(b"\2")


def test_a_wrong_checksum_is_named() -> None:
    broken = bytearray(DV_32)
    broken[-1] ^= 1
    with pytest.raises(Corrupt, match=r"index/i-0: crc at offset 59: checksum fa2b5193 stored, fa2b5192 computed") as caught:
        index_files.decode_vector_file(bytes(broken), path="index/i-0")
    assert (caught.value.path, caught.value.offset, caught.value.field) == ("index/i-0", 59, "crc")


def test_hash_index_files() -> None:
    data = bytes.fromhex("5759f99eee18d2a54fe4bbf0")
    hashes = index_files.decode_hash_index(data)
    assert hashes[0] == 1465514398
    keys = pa.array([1, 0, 2, 9], pa.int32())
    assert index_files.encode_hash_index(hashing.hash_columns([keys], [parse("INT")])[:3]) == data
    assert index_files.encode_hash_index(hashing.hash_columns([keys.take([2, 0, 1, 3])], [parse("INT")])).endswith(bytes.fromhex("5476553f"))
    with pytest.raises(Corrupt, match="13 bytes"):
        index_files.decode_hash_index(data + b"\0")


@pytest.mark.parametrize("key", BUCKETS)
def test_bucket_functions(key: int) -> None:
    column, t = pa.array([key], pa.int32()), parse("INT")
    for n, wanted in BUCKETS[key].items():
        assert tuple(hashing.assign_buckets(name, [column], [t], n)[0] for name in ("default", "mod", "hive")) == wanted


def test_buckets_of_text_and_of_many_columns() -> None:
    user = [pa.array(["user-1"])], [parse("STRING")]
    assert hashing.hash_columns(*user)[0] == -813579580
    assert [hashing.assign_buckets("default", *user, n)[0] for n in (3, 4, 7)] == [1, 0, 2]
    types = [parse(t) for t in ("STRING", "BIGINT", "DECIMAL(10, 2)", "DOUBLE")]
    values: list[Any] = ["北京ab", -5000000000, Decimal("100.50"), -0.0]
    columns = [arrow.to_arrow_array([value], t) for value, t in zip(values, types, strict=True)]
    assert hashing.hash_columns(columns, types)[0] == -1505625080
    assert (hashing.assign_buckets("hive", columns, types, 16)[0], hashing.assign_buckets("default", columns, types, 16)[0]) == (3, 8)


CONTAINER = bytes.fromhex(
    "00054e4ed01a35ae000000010000005b00000002"
    "00016100000002" + "000c626c6f6f6d2d66696c7465720000005b00000003" + "00066269746d61700000005e00000002"
    "0003e5889700000001" + "0003627369ffffffff00000000"
    "00000000" + "0102030405"
)


def test_an_index_container_is_these_bytes() -> None:
    meaning = {"a": {"bloom-filter": b"\1\2\3", "bitmap": b"\4\5"}, "列": {"bsi": None}}
    assert container.decode_container(CONTAINER) == meaning
    assert container.encode_container(meaning) == CONTAINER
    assert container.head_length(CONTAINER[:16]) == 91
    assert container.read_toc(CONTAINER[:91])["a"]["bitmap"] == (94, 2)
    with pytest.raises(Corrupt, match="magic"):
        container.decode_container(b"\1" + CONTAINER[1:])
    with pytest.raises(Unsupported, match="version 2"):
        container.decode_container(CONTAINER[:11] + b"\2" + CONTAINER[12:])


def test_hashes_of_bloom_filters() -> None:
    assert [hashing.xxhash64(text) for text in (b"", b"a", b"abc")] == [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999]
    assert [hex(h & (1 << 64) - 1) for h in hashing.wang_mix64(np.array([0, 1, -1])).tolist()] == ["0x0", "0x5bca7c69b794f8ce", "0x5bca868437950d03"]
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), *np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 1000).tolist()]
    assert [hashing.wang_mix64_unsigned(one) for one in numbers] == hashing.wang_mix64(np.array(numbers)).view(np.uint64).tolist()


def test_three_in_a_row_stay_an_array() -> None:
    """Java's rule for runs; C libraries take one word of overhead into account and would write a run."""
    assert roaring.encode_positions(np.arange(3, dtype=np.uint32)).hex() == "3a300000010000000000020010000000000001000200"
    assert roaring.encode_positions(np.arange(4, dtype=np.uint32)).hex() == "3b3000000100000300010000000300"
    assert roaring.encode_positions(np.zeros(0, np.uint32)).hex() == "3a30000000000000"
