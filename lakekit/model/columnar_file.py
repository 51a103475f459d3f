"""Read and write small ORC and Parquet files: manifests of tables whose `manifest.format` is not Avro.

    "ORC" …            ORC      footer at the end
    "PAR1" … "PAR1"    Parquet  footer at the end

Arrow decodes the bytes, and checks pages of Parquet files against the CRC-32 that Java writes before each; this module
limits what a file may allocate and turns Arrow's errors into `Corrupt`. Source: FORMAT 4.1, ENGINE_1.4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import orc, parquet

from lakekit.codec import orc_bounds
from lakekit.errors import Corrupt, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from lakekit.codec.avro_container import Limits

ORC_MAGIC = b"ORC"
PARQUET_MAGIC = b"PAR1"
_MAX_SHOWN = 200


def read_table(data: bytes, *, limits: Limits, path: str | None = None) -> pa.Table:
    """Return the rows of an ORC or Parquet file.

    Raises `Corrupt`, or `LimitExceeded` for more rows or bytes than `limits` allows a file of that size.
    """
    prefix = "" if path is None else f"{path}: "
    try:
        if data.startswith(ORC_MAGIC):
            return _read_orc(data, limits, prefix, path)
        return _read_parquet(data, limits, prefix, path)
    except Corrupt:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        kind = "ORC" if data.startswith(ORC_MAGIC) else "Parquet"
        raise Corrupt(
            f"{prefix}not a readable {kind} file of {len(data)} bytes: {str(error)[:_MAX_SHOWN]}",
            path=path,
            offset=0,
            field="footer",
        ) from None


def _read_orc(data: bytes, limits: Limits, prefix: str, path: str | None) -> pa.Table:
    orc_bounds.check(path or "an ORC file", data)  # Arrow allocates by what its streams say
    file = orc.ORCFile(pa.BufferReader(data))
    _allow(file.nrows, 0, len(data), limits, prefix, path)
    return _validate(file.read())


def _read_parquet(data: bytes, limits: Limits, prefix: str, path: str | None) -> pa.Table:
    file = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    _allow(file.metadata.num_rows, sum(group.total_byte_size for group in groups), len(data), limits, prefix, path)
    return _validate(file.read(use_threads=False))


def _validate(table: pa.Table) -> pa.Table:
    """Return the table after a check of offsets and texts: both readers take any bytes for UTF-8."""
    table.validate(full=True)
    return table


def _allow(rows: int, inflated: int, size: int, limits: Limits, prefix: str, path: str | None) -> None:
    if rows > limits.values(size) or inflated > limits.inflated_bytes(size):
        raise LimitExceeded(
            f"{prefix}{rows} rows in {inflated} bytes from a file of {size} bytes, more than lakekit reads from one "
            "so small",
            path=path,
            field="footer",
        )


def write_table(table: pa.Table, kind: str, compression: str = "zstd") -> bytes:
    """Return a table as the bytes of an `orc` or `parquet` file.

    Raises `Unsupported` for a compression that the format lacks.
    """
    sink = pa.BufferOutputStream()
    try:
        if kind == "orc":
            orc.write_table(table, sink, compression="uncompressed" if compression == "none" else compression)
        else:
            parquet.write_table(table, sink, compression=compression, store_schema=False, write_page_checksum=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unsupported(
            f"{kind} files cannot be compressed by {compression!r}: {str(error)[:_MAX_SHOWN]}",
            feature=f"{kind}.codec.{compression}",
        ) from None
    return sink.getvalue().to_pybytes()
