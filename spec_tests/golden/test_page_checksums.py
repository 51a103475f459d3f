"""A deep check finds every bit that turned over in the pages of Parquet files with checksums, and Arrow is the judge of which those are."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakekit as lk
from lakekit.errors import Corrupt, Unsupported
from lakekit.format import parquet_pages

TABLES = ("aggregate_max_min_types", "evolve_nested_parquet", "files_compressions_parquet", "files_parquet_v2", "files_row_groups_parquet")
BITS = 24
"""So many are turned over, one at a time, in a file of each table."""


def damaged(path: Path) -> list[parquet_pages.DamagedPage]:
    data = path.read_bytes()

    def read(at: int, length: int | None) -> bytes:
        return data[at:] if length is None else data[at : at + length]

    return list(parquet_pages.find_damaged_pages(str(path), read, len(data)))


def told_by_arrow(path: Path) -> str:
    """What Arrow says of a file when it looks at checksums; nothing where all are right."""
    try:
        pq.ParquetFile(path, page_checksum_verification=True).read()
    except (OSError, ValueError, pa.ArrowException) as error:
        return str(error)
    return ""


def pages(path: Path) -> tuple[int, int]:
    """From where to where the pages of the first row group lie."""
    group = pq.read_metadata(path).row_group(0)
    places = [(one.dictionary_page_offset or one.data_page_offset, one.total_compressed_size) for one in (group.column(i) for i in range(group.num_columns))]
    return min(begin for begin, _ in places), max(begin + length for begin, length in places)


def turned(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def one_file(table: lk.Table) -> Path:
    """The biggest of its files."""
    found = table.files().filter(pl.col("file_name").str.ends_with(".parquet")).sort("size_bytes", descending=True)
    return Path(found["file_path"][0])


def check_bits(table: lk.Table) -> None:
    """Turns bits over one at a time: a deep check names the file wherever Arrow finds a checksum wrong."""
    path = one_file(table)
    assert not damaged(path)
    first, end = pages(path)
    generator, found = np.random.default_rng(7), 0
    for at, bit in zip(generator.integers(first, end, BITS).tolist(), generator.integers(0, 8, BITS).tolist(), strict=True):
        turned(path, at, bit)
        if "CRC checksum verification failed" in told_by_arrow(path):
            problems = [one for one in table.check(deep=True).problems if one.path == str(path)]
            assert problems, (at, bit)
            found += "a page has another checksum" in {one.check for one in problems}
        turned(path, at, bit)
    assert found > BITS // 3
    assert not damaged(path)


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_bits_of_the_references_files(tables_path: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(tables_path / name, tmp_path / name)
    check_bits(lk.open(str(tmp_path / name)))


@pytest.mark.parametrize(("rows", "more"), [(20, {}), (20_000, {}), (2_000, {"m": "MAP<INT, STRING>", "t": "TIMESTAMP(9)"})])
def test_bits_of_our_own_files(tmp_path: Path, rows: int, more: dict[str, str]) -> None:
    table = lk.create(str(tmp_path / "t"), {"k": "INT", "v": "STRING"} | more, primary_keys=["k"], options={"bucket": "1"})
    made = pl.DataFrame({"k": range(rows)}, schema={"k": pl.Int32}).with_columns(v=pl.format("text {}", pl.col("k") * 7919 % 1000))
    given = made.to_arrow().cast(pa.schema({"k": pa.int32(), "v": pa.string()}))
    if more:
        pairs = pa.array([[(at, "x" * (at % 9))] for at in range(rows)], pa.map_(pa.int32(), pa.string()))
        given = given.append_column("m", pairs).append_column("t", pa.array(range(rows), pa.timestamp("ns")))
    table.upsert(given)
    check_bits(table)


def test_what_is_told_of_a_damaged_page(tables_path: Path, tmp_path: Path) -> None:
    shutil.copytree(tables_path / "append_plain", tmp_path / "t")
    table = lk.open(str(tmp_path / "t"))
    path = one_file(table)
    turned(path, pages(path)[1] - 1, 3)
    [one] = damaged(path)
    assert one.offset < pages(path)[1]
    [told] = table.check(deep=True).problems
    assert (told.check, told.path, told.field) == ("a page has another checksum", str(path), one.column)
    assert f"{one.stored_crc:08x}" in told.problem
    assert f"byte {one.offset} " in told.problem
    assert table.check().ok  # which reads no rows


def test_files_without_checksums_are_fine(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "f.parquet")
    assert not damaged(tmp_path / "f.parquet")


@pytest.mark.parametrize("seed", range(2))
def test_damaged_footers_and_heads_are_said_to_be(tables_path: Path, tmp_path: Path, seed: int) -> None:
    source = one_file(lk.open(str(tables_path / "aggregate_max_min_types")))
    path, whole = tmp_path / "f.parquet", source.read_bytes()
    generator = np.random.default_rng(seed)
    for at in generator.integers(0, len(whole), 150).tolist():
        data = bytearray(whole)
        data[at] = int(generator.integers(0, 256))
        path.write_bytes(data)
        with suppress(Corrupt, Unsupported):
            damaged(path)
