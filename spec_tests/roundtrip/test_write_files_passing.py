"""Row groups that go to the sink while they are encoded: files and pages are whole, manifests say what the encoder counted, a failing disk leaves nothing."""

from __future__ import annotations

import errno
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.codec import binary_row
from lakekit.data_file.file_metadata import StatsCollector
from lakekit.errors import Corrupt, StorageFailed
from lakekit.format import parquet_pages, parquet_writer
from lakekit.storage.local import LocalStorage
from lakekit.types import Field
from spec_tests.roundtrip.writing import check_pages, read, table, write

ROWS = 300_000
FIELDS = [
    Field(name, text, id=i)
    for i, (name, text) in enumerate(
        {
            "k": "BIGINT",
            "small": "SMALLINT",
            "flag": "BOOLEAN",
            "real": "DOUBLE",
            "nan": "FLOAT",
            "day": "DATE",
            "at": "TIMESTAMP(3)",
            "money": "DECIMAL(12, 2)",
            "text": "STRING",
            "long": "STRING",
            "gone": "INT",
        }.items()
    )
]


def frame():
    k = pl.Series("k", np.random.default_rng(5).permutation(ROWS).astype(np.int64) - 1000)
    return k.to_frame().select(
        "k",
        small=(pl.col("k") % 300 - 150).cast(pl.Int16),
        flag=pl.col("k") % 2 == 0,
        real=pl.when(pl.col("k") % 7 == 0).then(None).otherwise(pl.col("k") / 8),
        nan=pl.when(pl.col("k") == 5).then(float("nan")).otherwise(pl.col("k") / 8).cast(pl.Float32),
        day=(pl.col("k") % 40_000).cast(pl.Int32).cast(pl.Date),
        at=pl.col("k").cast(pl.Datetime("ms")),
        money=(pl.col("k") % 100_000).cast(pl.Decimal(12, 2)),
        text=pl.format("name-{}", pl.col("k") * 7919 % 10_007),
        long=pl.format("{}-{}", pl.lit("é" * 40), pl.col("k") % 100),  # longer than what statistics of chunks hold
        gone=pl.lit(None, pl.Int32),
    )


def test_many_row_groups_pass_and_come_back(tmp_path):
    handle, rows = table(tmp_path / "t", FIELDS, options={"metadata.stats-mode": "full"}), frame()
    [file] = write(handle, rows)
    assert read(handle, [file]).equals(rows)
    found = pq.ParquetFile(f"{handle.root}/bucket-0/{file.name}").metadata
    full = parquet_writer.ROW_GROUP_ROWS
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [full] * 2 + [ROWS - 2 * full]
    assert file.size_bytes == handle.storage.size(f"{handle.root}/bucket-0/{file.name}")
    asked = StatsCollector(FIELDS)
    asked.add_frame(rows)
    assert file.value_stats == asked.to_stats(FIELDS, ["full"] * len(FIELDS))
    lowest = binary_row.decode_row(binary_row.strip_arity(file.value_stats.min_values)[1], [field.type for field in FIELDS])
    assert lowest[0] == -1000
    assert lowest[4] is None


def test_every_page_has_its_checksum_and_is_where_indexes_say(tmp_path):
    handle, rows = table(tmp_path / "t", FIELDS), frame()
    [file] = write(handle, rows)
    path = Path(handle.root) / "bucket-0" / file.name
    assert check_pages(path.read_bytes()) > 3 * len(FIELDS)
    assert pq.ParquetFile(path, page_checksum_verification=True).read().num_rows == ROWS
    some = pl.scan_parquet(path).filter(pl.col("k") == 7).collect()
    assert some.equals(rows.filter(pl.col("k") == 7).cast(some.schema))


def encoded(rows):
    made = BytesIO()
    rows.write_parquet(made, compression="zstd", row_group_size=1 << 16, data_page_size=20_000)
    return made.getvalue()


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_pieces_of_any_length_pass_as_the_whole_does(data):
    made = encoded(frame().head(100_000).select("k", "text", "flag"))
    sizes = data.draw(st.lists(st.one_of(st.integers(1, 60), st.integers(1, 200_000)), min_size=1, max_size=400))
    found = []
    for cut in (sizes, [len(made)]):
        out = bytearray(b"beginning")
        passing, at = parquet_pages.RowGroupStream(out.extend, len(out)), 0
        for size in [*cut, len(made)]:
            passing.write(made[at : at + size])
            at += size
        groups = passing.finish_row_groups()
        found.append((bytes(out), [(group.size_bytes, group.row_count, [chunk.encoded for chunk in group.chunks]) for group in groups]))
    assert found[0] == found[1]
    assert [count for _, count, _ in found[0][1]] == [1 << 16, 100_000 - (1 << 16)]


def test_what_does_not_end_as_parquet_does_is_refused():
    passing = parquet_pages.RowGroupStream(lambda _: None, 4)
    passing.write(encoded(frame().head(10).select("k"))[:-1])
    with pytest.raises(Corrupt):
        passing.finish_row_groups()


def test_a_disk_that_fills_up_meanwhile_leaves_nothing(tmp_path, monkeypatch):
    handle = table(tmp_path / "t", FIELDS)

    class Full:
        def __init__(self, sink):
            self.sink, self.left = sink, 500_000

        def write(self, data):
            self.left -= len(data)
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.sink.write(data)

    opened = parquet_writer.ParquetEncoder.__init__
    monkeypatch.setattr(parquet_writer.ParquetEncoder, "__init__", lambda self, sink, fields, how: opened(self, Full(sink), fields, how))
    with pytest.raises(StorageFailed, match="No space left"):
        write(handle, frame())
    assert LocalStorage().list(f"{handle.root}/bucket-0") == []
