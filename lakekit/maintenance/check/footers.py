"""The row count that a data file itself states.

Parquet   the footer's row count, of the file's last bytes
ORC       the footer's, of the file's last bytes
Avro      the sum over the heads of its blocks
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakekit.codec import avro_container, orc_tail
from lakekit.errors import Corrupt, Unsupported
from lakekit.format import parquet_footer

if TYPE_CHECKING:
    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext

_TAIL_BYTES = 1 << 16
_END_BYTES = 8
_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"


def row_count(
    ctx: TableContext, path: str, format_name: str, size_bytes: int, what: str, notes: Findings
) -> int | None:
    """Return the row count of a file; None where it cannot be read, which becomes a finding."""
    with notes.reading(what, path):
        match format_name:
            case "parquet":
                return _parquet(ctx, path, size_bytes)
            case "orc":
                return orc_tail.row_count(partial(ctx.storage.read, path), size_bytes)
            case "avro":
                packed = avro_container.open_blocks(ctx.storage.read(path), path=path)
                return sum(block.count for _, block in packed.inflate())
            case other:
                raise Unsupported(
                    f"{path}: data files of format {other!r} are not looked into",
                    feature=f"file.format.{other}",
                    path=path,
                )
    return None


def _parquet(ctx: TableContext, path: str, size_bytes: int) -> int:
    first = max(0, size_bytes - _TAIL_BYTES)
    tail = ctx.storage.read(path, first, size_bytes - first)
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise Unsupported(
            f"{path} is encrypted Parquet, which lakekit does not read", feature="parquet.encryption", path=path
        )
    if tail[-4:] != _MAGIC:
        raise Corrupt(
            f"{path} ends with {tail[-4:].hex(' ')}, where PAR1 was expected",
            path=path,
            offset=size_bytes - 4,
            field="magic",
        )
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    start = size_bytes - _END_BYTES - length
    if start < 4:
        raise Corrupt(
            f"{path}: a footer of {length} bytes does not fit into a file of {size_bytes}",
            path=path,
            offset=size_bytes - 8,
            field="footer length",
        )
    footer = tail[start - first : -_END_BYTES] if start >= first else ctx.storage.read(path, start, length)
    try:
        return parquet_footer.row_count(footer)
    except Corrupt as damaged:
        raise damaged.at(path) from None
