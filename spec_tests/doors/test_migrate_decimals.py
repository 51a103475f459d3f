"""Short decimals that Parquet holds as bytes are taken over with a warning, and what it advises helps."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakekit as lk

VALUES = [Decimal("1.50"), None, Decimal("-7.25")]


@pytest.mark.parametrize("as_numbers", [True, False])
def test_decimals_as_bytes_are_told(tmp_path, recwarn, as_numbers):
    (tmp_path / "in").mkdir()
    columns = {"short": pa.array(VALUES, pa.decimal128(10, 2)), "long": pa.array(VALUES, pa.decimal128(30, 2)), "n": pa.array([1, 2, 3])}
    pq.write_table(pa.table(columns), tmp_path / "in" / "x.parquet", store_decimal_as_integer=as_numbers)
    catalog = lk.connect(tmp_path / "lake")
    catalog.create_database("d")
    catalog.migrate(tmp_path / "in", "d.t")
    said = [str(one.message) for one in recwarn.list]
    assert len(said) == (0 if as_numbers else 1)
    table = catalog["d.t"]
    assert table.scan().filter(pl.col("short") > Decimal(1)).collect().height == 1
    if not as_numbers:
        assert "DECIMAL columns short lie as bytes" in said[0]
        assert "t.overwrite(t.scan())" in said[0]
        table.overwrite(table.scan())
        [path] = [one for one in (tmp_path / "lake").rglob("*.parquet") if str(one.name) in table.files()["file_name"].to_list()]
        assert pq.ParquetFile(path).schema.column(0).physical_type == "INT64"
    assert table.scan().collect()["short"].to_list() == VALUES
