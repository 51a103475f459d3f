"""Page headers and footers of Parquet files: those of every writer pass, those that Polars would end the process over are refused before it reads them."""

from __future__ import annotations

import io
import random
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import lakekit as lk
from lakekit.errors import Corrupt
from lakekit.format import parquet_pages, parquet_validation, thrift
from spec_tests.reliability import damaged_tables
from spec_tests.reliability.children import Child

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = "spec_tests.reliability.damaged_calls:"


def part(data: bytes, offset: int, length: int) -> bytes:
    return data[offset : offset + length]


def check(data: bytes) -> int:
    return parquet_validation.check_footer_and_pages("a.parquet", partial(part, data), len(data))


def headers(data: bytes) -> Iterator[tuple[int, int, thrift.Struct]]:
    """Where each page header begins and ends, and what it says."""
    footer = pq.read_metadata(io.BytesIO(data))
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            at = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            end = at + chunk.total_compressed_size
            while at < end:
                said, behind = thrift.decode_struct(data, at)
                yield at, behind, said
                at = behind + said[3][1]


def test_files_of_every_writer_pass(fixtures_path):
    found = 0
    for path in sorted(fixtures_path.rglob("*")):
        if path.is_file() and "broken" not in path.parts and (data := path.read_bytes())[:4] == b"PAR1":
            check(data)
            found += 1
    assert found > 800


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_files_without_rows_pass_both_looks(version):
    """Arrow writes a dictionary, and says that data pages begin at byte 0."""
    made = io.BytesIO()
    pq.write_table(pl.DataFrame(schema={"i": pl.Int64, "s": pl.String}).to_arrow(), made, data_page_version=version)
    data = made.getvalue()
    assert check(data) == 0
    assert not list(parquet_pages.find_damaged_pages("a.parquet", lambda at, length: part(data, at, len(data) if length is None else length), len(data)))


@given(
    count=st.integers(0, 3000),
    version=st.sampled_from(["1.0", "2.0"]),
    codec=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
    page_bytes=st.sampled_from([64, 1000, 1 << 20]),
    dictionary=st.booleans(),
)
def test_files_of_arrow_and_polars_pass(count, version, codec, page_bytes, dictionary):
    frame = pl.DataFrame({"i": range(count), "s": [f"a long text number {i % 50}" * (i % 4) for i in range(count)], "l": [[i] * (i % 3) for i in range(count)]})
    made = io.BytesIO()
    pq.write_table(frame.to_arrow(), made, data_page_version=version, compression=codec, data_page_size=page_bytes, use_dictionary=dictionary)
    assert check(made.getvalue()) == count
    made = io.BytesIO()
    frame.write_parquet(made, data_page_size=page_bytes, row_group_size=1000)
    assert check(made.getvalue()) == count


@given(st.randoms(use_true_random=False), st.sampled_from(["1.0", "2.0"]))
def test_headers_say_the_same_matched_and_decoded(draw, version):
    """A damaged header too: matched as bytes it says what it says member by member, or is not matched."""
    made = io.BytesIO()
    pq.write_table(pl.DataFrame({"i": [1, 2, 3], "s": ["a", "b", None]}).to_arrow(), made, data_page_version=version, write_page_checksum=draw.random() < 0.5)
    at, behind, _ = draw.choice(list(headers(made.getvalue())))
    data = damaged_tables.damaged(made.getvalue()[at:behind], draw) + bytes(8)
    ends = []
    for read in (parquet_validation._match_header, parquet_validation._decode_header):
        try:
            ends.append(read(data))
        except (Corrupt, IndexError):
            ends.append("refused")
    assert ends[0] is None or ends[0] == ends[1] or ends[1] == "refused"


VALUES = (-1, -300, -(2**31), 2**31 - 1, 2**30, 100_000)
MEMBERS = ((2,), (3,), (5, 1), (5, 2), (7, 1), (8, 1), (8, 2), (8, 4), (8, 5), (8, 6))


def changed(data: bytes, at: int, behind: int, said: thrift.Struct, member: tuple[int, ...], value: int) -> bytes | None:
    """The file with another number in a page header that has as many bytes; None where it has not."""
    new = {number: (kind, dict(found) if kind == thrift.STRUCT else found) for number, (kind, found) in said.items()}
    if member[0] not in new:
        return None
    holder = new if len(member) == 1 else new[member[0]][1]
    if member[-1] not in holder:
        return None
    holder[member[-1]] = (thrift.I32, value)
    head = thrift.encode_struct(new)
    missing = len(head) - (behind - at)
    return data[:at] + head + data[behind + missing :] if missing >= 0 else data[:at] + head + bytes(-missing) + data[behind:]


@pytest.mark.parametrize("name", ["parquet append", "parquet keys waiting"])
def test_no_number_of_a_page_header_ends_the_process(tmp_path, name):
    """Polars asked for 2,305,843,009,213,693,904 bytes where a data page had -1 values, and the process ended."""
    damaged_tables.make(tmp_path / "t", name)
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    sound, draw, tried = file.read_bytes(), random.Random(3), 0
    pages = list(headers(sound))
    with Child() as child:
        for at, behind, said in draw.sample(pages, 8):
            for member in MEMBERS:
                for value in VALUES:
                    bad = changed(sound, at, behind, said, member, value)
                    if bad is None or len(bad) != len(sound):
                        continue
                    file.write_bytes(bad)
                    answer = child.ask(f"{CALLS}scan_table", str(tmp_path / "t").encode())
                    assert answer.end == "error", (answer, member, value, said)
                    assert str(answer.found).startswith("Corrupt") and file.name in str(answer.found), answer
                    tried += 1
    assert tried > 50


def test_a_damaged_header_is_named_by_file_place_and_field(tmp_path):
    t = damaged_tables.make(tmp_path / "t", "parquet append")
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    sound = file.read_bytes()
    at, behind, said = next(one for one in headers(sound) if 5 in one[2])
    bad = changed(sound, at, behind, said, (5, 1), -41)
    assert bad is not None
    file.write_bytes(bad)
    with pytest.raises(Corrupt, match="a page of -41 values, and 40 are left of the column") as wrong:
        t.scan().collect()
    assert (wrong.value.path, wrong.value.offset, wrong.value.field) == (str(file), at, "num_values")
    with pytest.raises(Corrupt):  # what was seen is not forgotten by looking again
        lk.open(tmp_path / "t").scan().select("id").collect()
    file.write_bytes(sound)
    assert lk.open(tmp_path / "t").scan().collect().height == 40
