"""Manifests in Parquet and ORC: what Arrow takes without a look is looked at."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakekit.codec.avro import METADATA
from lakekit.codec.columnar_file import read_table, write_table
from lakekit.errors import Corrupt


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_bytes_that_are_no_text_are_refused(kind):
    good = pa.table({"_FILE_NAME": pa.array(["data-1"] * 3)})
    assert read_table(write_table(good, kind, "none"), limits=METADATA).equals(good)
    texts = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"\x80\x80ab")])
    damaged = write_table(pa.table({"_FILE_NAME": texts}), kind, "none")
    with pytest.raises(Corrupt, match="UTF8"):
        read_table(damaged, limits=METADATA, path="manifest-1")
