"""Write data files: frames go in, bytes of some format go to a sink.

    with storage.open_write(path) as sink:
        encoder = open_writer(sink, "parquet", fields, Encoding())
        encoder.write(frame)          many times
        encoder.size_bytes            how long the file would be about now
        encoder.close()               the sink stays open: its owner closes it

A format is a module of this folder with `open_writer(sink, fields, encoding)` and `check_types(fields)`. Frames have
exactly the columns of `fields`, in order, with the dtypes of `polars_types.polars_schema(fields)`.

Source: FORMAT.md 7.4-7.6 and 7.8, `FormatWriter`, `FileFormat`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from lakekit import plugins
from lakekit.errors import Unsupported, ValueOutOfRange
from lakekit.options.features import refuse
from lakekit.options.frozendict import EMPTY
from lakekit.types import DataType, part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from lakekit.format.told import ColumnStats
    from lakekit.types import Field

_COUNT = DataType(root="INT", nullable=False)
BLOCK_BYTES = 128 << 20
"""Bytes of a block where no option says another number; of an ORC stripe it is half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a file is encoded.

    `given` are options of the table as text, for what only one format knows (`parquet.page.size`, `orc.stripe.size`).
    `compression` is named as `file.compression` names it. `block_bytes` is the size of a row group, a stripe or an Avro
    block; `file_bytes` the size at which the file will be ended, so that a format which knows its length only at a
    block's end has some ends before. `time_zone` is the zone of processes that take instants in ORC for wall clocks
    (FORMAT 7.5): true instants are written, which such a process reads right in UTC alone.
    """

    compression: str = "zstd"
    compression_level: int = 1
    block_bytes: int | None = None
    file_bytes: int | None = None
    batch_rows: int = 1024
    given: Mapping[str, str] = EMPTY
    time_zone: str = "UTC"


class Encoder(Protocol):
    """A file that is being written.

    `told`: columns whose null counts and bounds the encoder knows once it is closed, so that they need not be counted
    elsewhere.
    """

    told: Mapping[str, ColumnStats]

    @property
    def size_bytes(self) -> int:
        """Bytes written to the sink, and an estimate of what is buffered."""

    def can_add(self, frame: pl.DataFrame) -> bool:
        """Return whether this file may hold these rows; another file may."""

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows. Raises `ValueOutOfRange` for what the format cannot hold."""

    def flush(self) -> None:
        """Write to the sink what may be written before the end.

        `size_bytes` is exact afterwards where the format allows.
        """

    def close(self) -> None:
        """Write what is buffered and the end of the file. Nothing can be written afterwards."""


def open_writer(sink: BinaryIO, format_name: str, fields: Sequence[Field], encoding: Encoding) -> Encoder:
    """Return a writer of one file.

    Raises:
        Unsupported: lakekit does not write the format, or the format does not have a type or the compression.
    """
    encoder: Encoder = _format(format_name).open_writer(sink, fields, encoding)
    return encoder


def check_types(format_name: str, fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for columns that files of a format do not hold."""
    _format(format_name).check_types(fields)


def _format(name: str) -> Any:
    format_names = plugins.names("format")
    if name.lower() not in format_names:
        raise refuse(
            f"file.format.{name.lower()}", "the option file.format", instead=f"Choose one of {', '.join(format_names)}"
        )
    return plugins.load("format", name.lower())


def refuse_type(t: DataType, format_name: str) -> Unsupported:
    """Return the error for a type that a format does not have."""
    return Unsupported(
        f"{format_name} files do not hold columns of type {t}; choose another file.format",
        feature=f"file-format.{format_name}.{t.root.lower()}",
    )


def refuse_name(name: str, format_name: str, why: str) -> Unsupported:
    """Return the error for a name that a format lacks, or that the reference does not find in its files."""
    msg = f"{format_name} files do not hold a column or field called {name!r}, {why}"
    return Unsupported(f"{msg}; rename it, or choose another file.format", feature=f"file-format.{format_name}.name")


def refuse_null(column: str, t: DataType) -> ValueOutOfRange:
    """Return the error for a null where a column or a part of it is NOT NULL."""
    return ValueOutOfRange(f"column {column} is {t}, but holds null", column=column)


def refuse_null_key(column: str, format_name: str) -> ValueOutOfRange:
    """Return the error for a null key of a map.

    A file of a format table that began without one cannot take one.
    """
    why = (
        "which an orc file can have where its first rows have one: sort the rows so, or leave the entry out"
        if format_name == "orc"
        else f"which {format_name} files do not have"
    )
    return ValueOutOfRange(f"column {column} holds a map with a null key, {why}", column=column)


def map_types(t: DataType) -> tuple[DataType, DataType]:
    """Return the key and value types of a MAP; of a MULTISET its elements and their counts."""
    return (part(t.element), _COUNT) if t.root == "MULTISET" else (part(t.key), part(t.value))
