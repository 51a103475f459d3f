"""Row groups that go to the sink while they are encoded: files are whole, manifests say what the encoder counted, and a failing disk leaves nothing."""

from __future__ import annotations

import errno

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from lakekit.codec import binary_row
from lakekit.errors import StorageFailed
from lakekit.files.statistics import Collecting
from lakekit.format import parquet_pass, parquet_write
from lakekit.storage.local import LocalStorage
from lakekit.types import Field
from spec_tests.roundtrip.writing import read, table, write

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
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [parquet_write.GROUP_ROWS] * 2 + [ROWS - 2 * parquet_write.GROUP_ROWS]
    assert file.size_bytes == handle.storage.size(f"{handle.root}/bucket-0/{file.name}")
    asked = Collecting(FIELDS)
    asked.add(rows)
    assert file.value_stats == asked.stats(FIELDS, ["full"] * len(FIELDS))
    lowest = binary_row.decode(binary_row.strip_arity(file.value_stats.min_values)[1], [field.type for field in FIELDS])
    assert lowest[0] == -1000
    assert lowest[4] is None


@pytest.mark.long
def test_a_footer_longer_than_what_is_held_back_makes_a_gap(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_pass, "HELD_BYTES", 100)
    handle, rows = table(tmp_path / "t", FIELDS), frame()
    [file] = write(handle, rows)
    assert read(handle, [file]).equals(rows)
    path = f"{handle.root}/bucket-0/{file.name}"
    assert file.size_bytes == handle.storage.size(path)
    assert pq.read_table(path).num_rows == ROWS


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

    opened = parquet_write.ParquetEncoder.__init__
    monkeypatch.setattr(parquet_write.ParquetEncoder, "__init__", lambda self, sink, fields, how: opened(self, Full(sink), fields, how))
    with pytest.raises(StorageFailed, match="No space left"):
        write(handle, frame())
    assert LocalStorage().list(f"{handle.root}/bucket-0") == []
