"""The encoding of the files of a format table: their compression, and text formats as encoders.

The compression is that of `file.compression`, where the table sets it, else of `format-table.file.compression`, else of
`compression`; without any, Parquet is compressed by snappy, ORC by zstd, and text not at all. Source:
`CoreOptions.formatTableFileCompression`, `AbstractTextFileWriter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.columns import prepare_series
from lakekit.data_file import shape
from lakekit.format_table import kinds
from lakekit.text_format import compression, csv
from lakekit.text_format.options import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, BinaryIO

    import polars as pl

    from lakekit.format.encoder import Encoder, Encoding
    from lakekit.metadata.table_context import TableContext
    from lakekit.text_format.options import TextOptions
    from lakekit.types import Field

_KEYS = ("file.compression", "format-table.file.compression", "compression")
_DEFAULTS = {"parquet": "snappy", "orc": "zstd"}


def encoding(ctx: TableContext) -> Encoding:
    """Return the encoding of a table's files."""
    options = ctx.all_options
    codec = next((options[key] for key in _KEYS if key in options), _DEFAULTS.get(kinds.format_of(ctx), "none"))
    return shape.encoding(ctx.options, codec)


def lines_encoder(ctx: TableContext, sink: BinaryIO) -> Encoder:
    """Return an encoder of text files. Raises `InvalidOption` for a compression that they do not have."""
    name = kinds.format_of(ctx)
    how = lines_of(ctx.all_options, name, zone=ctx.options.lakekit_java_time_zone)
    return TextEncoder(sink, kinds.text_format(name), kinds.held_fields(ctx.schema), how, encoding(ctx).compression)


class TextEncoder:
    """A text file being written: an `Encoder` without null counts and bounds."""

    def __init__(self, sink: BinaryIO, text_format: Any, fields: Sequence[Field], how: TextOptions, codec: str) -> None:
        prepare_series(
            field.name for field in fields
        )  # whoever wrote the first rows of a process has asked for no schema of Polars yet
        self.counted = _CountingFile(sink)
        self.sink = compression.open_compressed(self.counted, codec)  # type: ignore[arg-type] # all it needs is write
        self.text_format, self.fields, self.how = text_format, fields, how
        self.told: Any = {}
        if how.header and text_format is csv:
            self.sink.write((csv.header(fields, how) + how.line_end).encode())

    @property
    def size_bytes(self) -> int:
        return self.counted.size_bytes

    def can_add(self, frame: pl.DataFrame) -> bool:  # noqa: ARG002 - any rows fit beside any others
        """Return True."""
        return True

    def write(self, frame: pl.DataFrame) -> None:
        lines = self.text_format.printed(frame, self.fields, self.how)
        if len(lines):
            self.sink.write((lines.str.join(self.how.line_end, ignore_nulls=False).item() + self.how.line_end).encode())

    def flush(self) -> None:
        """Compressors give what they hold at the end alone."""

    def close(self) -> None:
        self.sink.close()


class _CountingFile:
    """A file that counts the bytes written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size_bytes = file, 0

    def write(self, data: bytes) -> int:
        self.size_bytes += len(data)
        return self.file.write(data)
