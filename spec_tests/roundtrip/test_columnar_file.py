"""Manifests in Parquet and ORC: what Arrow takes without a look is looked at."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekit.codec.avro_container import METADATA_LIMITS
from lakekit.errors import Corrupt
from lakekit.model.metadata_records import read_table, write_table


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_bytes_that_are_no_text_are_refused(kind):
    good = pa.table({"_FILE_NAME": pa.array(["data-1"] * 3)})
    assert read_table(write_table(good, kind, "none"), limits=METADATA_LIMITS).equals(good)
    texts = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"\x80\x80ab")])
    damaged = write_table(pa.table({"_FILE_NAME": texts}), kind, "none")
    with pytest.raises(Corrupt, match="UTF8"):
        read_table(damaged, limits=METADATA_LIMITS, path="manifest-1")


def pages(data: bytes) -> range:
    """Where the pages of a Parquet file's first row group lie."""
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return range(4, max((one.dictionary_page_offset or one.data_page_offset) + one.total_compressed_size for one in chunks))


@pytest.mark.parametrize("name", ["manifest-09ec02a5-a2d0-4835-8f14-f7b0223b7260-0", "manifest-list-f4a51503-33f4-4c1e-8828-0a7e16dd586c-2", ""])
def test_a_bit_that_turned_over_in_a_page_is_no_manifest(tables_path, name):
    """Of every third of them a manifest was made that says something else: other counts, another name of a file."""
    path = tables_path / "files_manifest_parquet" / "manifest" / name
    data = path.read_bytes() if name else write_table(pa.table({"_FILE_NAME": [f"data-{number}" for number in range(90)]}), "parquet", "snappy")
    good, generator = read_table(data, limits=METADATA_LIMITS), np.random.default_rng(5)
    refused = 0
    for at in generator.choice(pages(data), 120).tolist():
        other = bytearray(data)
        other[at] ^= 1 << int(generator.integers(8))
        with suppress(Corrupt):
            assert read_table(bytes(other), limits=METADATA_LIMITS).equals(good), at
            continue
        refused += 1
    assert refused > 30
