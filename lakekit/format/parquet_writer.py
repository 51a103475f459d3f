"""Write Parquet: row groups of two encoders under one footer, with the contents of Paimon's own.

    "PAR1" | row group | row group | … | footer | i32 LE length | "PAR1"

Polars encodes a row group's columns side by side, and fastest. What it cannot write is encoded by Arrow: maps (in
Polars an entry is a list element), INT96 (how Paimon stores timestamps finer than microseconds), columns without
dictionaries. Each encoder makes a small Parquet file of its columns in memory; the chunks of both are written one after
the other, and their offsets in the footer shifted. Definition and repetition levels do not depend on the encoder. Every
page has a checksum, as in Java's files: Arrow computes its own, others are added in passing (`parquet_pages`).

Statistics of chunks are the encoders' own: readers skip row groups by them, and `encoder.ColumnStats` collects them for
manifests (`data_file.file_metadata`).

Source: FORMAT.md 7.4, `ParquetSchemaConverter`, `RowDataParquetBuilder`; the Apache Parquet format.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from lakekit.columns import col
from lakekit.errors import InvalidOption, Unsupported
from lakekit.format import external_reader, parquet_footer, thrift
from lakekit.format.encoder import (
    BLOCK_BYTES,
    FLOAT_TYPES,
    ArrowTarget,
    ColumnStats,
    arrow_field,
    has_exact_chunk_bounds,
    has_nan,
    refuse_null,
    series_to_arrow,
)
from lakekit.format.parquet_footer import leaf_count, schema_elements
from lakekit.format.parquet_pages import MAGIC, RowGroupStream
from lakekit.format.polars_types import polars_schema
from lakekit.format.thrift import BINARY, I16, I32, I64, LIST, STRUCT, Struct
from lakekit.options.option import read_boolean, read_size
from lakekit.types import timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.format.encoder import Encoding
    from lakekit.format.parquet_footer import ColumnChunk, RowGroup
    from lakekit.types import DataType, Field

CREATED_BY = b"lakekit"
CODEC_OF_COMPRESSION = {
    "none": "uncompressed",
    "uncompressed": "uncompressed",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "brotli": "brotli",
    "zstd": "zstd",
}
"""`file.compression` -> its name in both encoders; LZ4 is LZ4_RAW, which every reader of LZ4 reads."""
ROW_GROUP_BYTES = 64 << 20
"""Bytes in memory that are encoded at once where no option says more; encoded they take a third as a rule."""
ROW_GROUP_ROWS = 1 << 17
"""Rows of a row group where no option gives its size; groups that fit the caches of processors are encoded faster."""
MIN_STREAMED_BYTES = 256 << 20
"""Bytes in memory given at once to an encoder that cuts row groups by itself.

The more it has, the less often it waits for its last row group.
"""
INITIAL_COMPRESSION_RATIO = 0.35
"""Estimated ratio of encoded bytes to bytes in memory, before the first row group is written."""
_ARROW_TARGET = ArrowTarget(format_name="parquet")
_INT96_TARGET = ArrowTarget(format_name="parquet", count_timestamps=True)
"""Arrow writes all timestamps of a file as INT96 or none: the others are the integers they are stored as."""
_ARROW_ENCODED_ROOTS = frozenset({"MAP", "MULTISET", "VARIANT"})
_TIME_ROOTS = frozenset({"TIME"})


def open_writer(sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> ParquetEncoder:
    """Return a writer of one Parquet file. Raises `Unsupported`, `InvalidOption`."""
    return ParquetEncoder(sink, fields, encoding)


def check_types(fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for a column that Parquet files do not hold."""
    schema_elements(fields)


class _EncodingPlan(NamedTuple):
    """Which encoder writes which columns, by their indexes.

    `polars_columns` (as `polars_schema`; its statistics are taken for `stats_columns`), `arrow_columns`, and
    `int96_columns` (Arrow with INT96). `leaf_counts`: how many chunks each column has. `real_columns`: which hold real
    numbers, `has_times`: whether some hold times.
    """

    polars_columns: tuple[int, ...]
    polars_schema: pa.Schema
    arrow_columns: tuple[int, ...]
    int96_columns: tuple[int, ...]
    stats_columns: tuple[int, ...]
    leaf_counts: tuple[int, ...]
    real_columns: frozenset[int]
    has_times: bool


class ParquetEncoder:
    """One Parquet file that is being written; see `encoder.Encoder`."""

    def __init__(self, sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> None:
        codec = CODEC_OF_COMPRESSION.get(encoding.compression.lower())
        if codec is None:
            raise Unsupported(
                f"Parquet files cannot be compressed by {encoding.compression!r}; known are "
                f"{', '.join(CODEC_OF_COMPRESSION)}",
                feature="file.compression",
            )
        self._sink, self._fields, self._codec = sink, tuple(fields), codec
        self._level = encoding.compression_level if codec == "zstd" else None
        block_bytes = encoding.block_bytes or _size_option(encoding, "parquet.block.size")
        self._group_bytes = max(1, min(block_bytes or ROW_GROUP_BYTES, BLOCK_BYTES * 4))
        self._group_rows = None if block_bytes else ROW_GROUP_ROWS
        self._page_bytes = _size_option(encoding, "parquet.page.size")
        self._dictionary = _uses_dictionary(encoding)
        self._ends, self._plan = _plan_encoding(self._fields, self._dictionary)
        self._is_polars_only = not self._plan.arrow_columns and not self._plan.int96_columns
        self._frame_bytes = self._group_bytes if block_bytes or not self._is_polars_only else MIN_STREAMED_BYTES
        self._pending_frames: list[pl.DataFrame] = []
        self._waiting_bytes = 0
        self._written_bytes = 0
        self._raw_bytes = 0
        self._groups: list[Struct] = []
        self._rows = 0
        self.column_stats = {self._fields[i].name: ColumnStats() for i in self._plan.stats_columns}
        self._put(MAGIC)

    @property
    def size_bytes(self) -> int:
        """Bytes written to the sink, and what the waiting rows will add if they compress as those before them."""
        ratio = self._written_bytes / self._raw_bytes if self._raw_bytes else INITIAL_COMPRESSION_RATIO
        return self._written_bytes + int(self._waiting_bytes * ratio)

    def can_add(self, frame: pl.DataFrame) -> bool:  # noqa: ARG002 - any rows fit beside any others
        """Return True."""
        return True

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows; full row groups go to the sink at once."""
        size = max(1, int(frame.estimated_size()))
        while frame.height:
            room = self._frame_bytes - self._waiting_bytes
            rows = frame.height if size <= room else max(1, frame.height * room // size)
            taken = size * rows // frame.height
            self._pending_frames.append(frame if rows == frame.height else frame.head(rows))
            self._waiting_bytes += taken
            frame, size = frame.slice(rows), max(1, size - taken)
            if frame.height or self._waiting_bytes >= self._group_bytes:
                self.flush()

    def flush(self) -> None:
        """End a row group: every row added so far goes to the sink."""
        if not self._pending_frames:
            return
        frame = self._pending_frames[0] if len(self._pending_frames) == 1 else pl.concat(self._pending_frames)
        size, self._pending_frames, self._waiting_bytes = self._waiting_bytes, [], 0
        self._raw_bytes += size
        self._encode(frame)

    def close(self) -> None:
        """Write the footer."""
        self.flush()
        first, last = self._ends
        data = first + thrift.encode_members({3: (I64, self._rows), 4: (LIST, (STRUCT, self._groups))}, 2) + last
        self._put(data + len(data).to_bytes(4, "little") + MAGIC)

    def _put(self, data: bytes | memoryview) -> None:
        self._sink.write(data)
        self._written_bytes += len(data)

    # ---- row groups

    def _encode(self, frame: pl.DataFrame) -> None:
        """Write rows as one row group; as several where one encoder writes them all."""
        if self._is_polars_only:
            encoded = [(self._plan.polars_columns, self._stream_row_groups(frame))]
        else:
            encoded = [
                (columns, self._copy_row_groups(small_file, summed=columns is not self._plan.polars_columns))
                for columns, small_file in self._encode_parts(frame)
            ]
        first = 0
        for parts in zip(*(groups for _, groups in encoded), strict=True):  # scalar: one a row group
            height = parts[0].row_count
            self._add_row_group(
                frame.slice(first, height),
                [(columns, group) for (columns, _), group in zip(encoded, parts, strict=True)],
            )
            first += height
        self._rows += frame.height

    def _add_row_group(self, rows: pl.DataFrame, parts: Sequence[tuple[tuple[int, ...], RowGroup]]) -> None:
        """Add a row group to the footer, from the encoded parts of its columns."""
        chunks: dict[int, list[ColumnChunk]] = {}
        for columns, group in parts:
            group_chunks = iter(group.chunks)
            for i in columns:
                chunks[i] = [next(group_chunks) for _ in range(self._plan.leaf_counts[i])]
                self._add_statistics(i, chunks[i], rows)
        all_chunks = [chunk for i in range(len(self._fields)) for chunk in chunks[i]]
        facts = [chunk.facts for chunk in all_chunks]
        self._groups.append(
            {
                1: (LIST, (STRUCT, [chunk.encoded for chunk in all_chunks])),
                2: (I64, sum(group.size_bytes for _, group in parts)),
                3: (I64, rows.height),
                5: (
                    I64,
                    min(fact[number][1] for fact in facts for number in (9, 11) if number in fact and fact[number][1]),
                ),
                6: (I64, sum(fact[7][1] for fact in facts)),
                7: (I16, len(self._groups) % 32768),
            }
        )

    def _add_statistics(self, i: int, chunks: Sequence[ColumnChunk], rows: pl.DataFrame) -> None:
        """Add the encoder's statistics to those of a column.

        Bounds of real numbers are dropped where there may be a NaN, which a reader would miss.
        """
        field, stats = self._fields[i], self.column_stats.get(self._fields[i].name)
        unordered = i in self._plan.real_columns and (
            field.type.root not in FLOAT_TYPES or has_nan(rows.get_column(field.name))
        )
        if unordered:
            for chunk in chunks:
                chunk.drop_float_bounds()
        if stats is None:
            return
        if unordered:
            stats.add_rows_without_bounds(rows.get_column(field.name).null_count())
        elif not stats.add_chunk_statistics(chunks[0].facts, field.type):
            stats.add(rows.get_column(field.name), field.type)

    def _encode_parts(self, frame: pl.DataFrame) -> list[tuple[tuple[int, ...], memoryview]]:
        """Return small files of some columns each, all of the same rows."""
        small_files = []
        if self._plan.polars_columns:
            buffer = BytesIO()
            self._encode_by_polars(frame, buffer, None)
            small_files.append((self._plan.polars_columns, buffer.getbuffer()))
        for columns, int96 in ((self._plan.arrow_columns, False), (self._plan.int96_columns, True)):
            if columns:
                small_files.append((columns, self._encode_by_arrow(frame, columns, int96=int96)))
        return small_files

    def _stream_row_groups(self, frame: pl.DataFrame) -> list[RowGroup]:
        """Write row groups to the sink while they are encoded, and return their descriptions."""
        stream = RowGroupStream(self._put, self._written_bytes)
        try:
            # of a file object Polars needs `write` alone
            self._encode_by_polars(frame, stream, self._group_rows)  # type: ignore[arg-type]
        except BaseException:
            if stream.failed is not None:
                raise stream.failed from None
            raise
        return stream.finish_row_groups()

    def _encode_by_polars(self, frame: pl.DataFrame, sink: BinaryIO, group_rows: int | None) -> None:
        fields = [self._fields[i] for i in self._plan.polars_columns]
        changed = (
            {field.name: plain for field in fields if (plain := _encoded_expr(field)) is not None}
            if self._plan.has_times
            else {}
        )
        selected = (
            frame.select(col(field.name) for field in fields).with_columns(**changed)
            if changed
            else pl.DataFrame([frame.get_column(f.name) for f in fields])
        )
        _refuse_nulls(selected, fields)
        selected.write_parquet(
            sink,
            compression=self._codec,  # type: ignore[arg-type] # checked against CODECS
            compression_level=self._level,
            row_group_size=max(1, min(selected.height, group_rows or selected.height)),
            data_page_size=self._page_bytes,
            arrow_schema=self._plan.polars_schema,
        )

    def _encode_by_arrow(self, frame: pl.DataFrame, columns: Sequence[int], *, int96: bool) -> memoryview:
        fields = [self._fields[i] for i in columns]
        form = _INT96_TARGET if int96 else _ARROW_TARGET
        arrays = [series_to_arrow(frame.get_column(field.name), field, form) for field in fields]
        table = pa.Table.from_arrays(arrays, schema=pa.schema([arrow_field(field, form) for field in fields]))
        buffer = pa.BufferOutputStream()
        options: dict[str, Any] = {} if self._page_bytes is None else {"data_page_size": self._page_bytes}
        with pq.ParquetWriter(
            buffer,
            table.schema,
            compression="none" if self._codec == "uncompressed" else self._codec,
            compression_level=self._level,
            use_dictionary=self._dictionary,
            use_deprecated_int96_timestamps=int96,
            store_schema=False,
            write_page_checksum=True,
            store_decimal_as_integer=True,
            **options,
        ) as writer:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        return memoryview(buffer.getvalue())

    def _copy_row_groups(self, small_file: memoryview, *, summed: bool) -> list[RowGroup]:
        """Write a small file's row groups (`summed`: with Arrow's checksums); return their descriptions."""
        if not summed:
            stream = RowGroupStream(self._put, self._written_bytes)
            stream.write(small_file)
            return stream.finish_row_groups()
        length = int.from_bytes(small_file[-8:-4], "little")
        shift = self._written_bytes - len(MAGIC)
        self._put(small_file[len(MAGIC) : -8 - length])
        return parquet_footer.read_row_groups(bytes(small_file[-8 - length : -8]), shift)


# ---- encoding plan ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _plan_encoding(fields: tuple[Field, ...], dictionary: bool) -> tuple[tuple[bytes, bytes], _EncodingPlan]:
    """Return the footer's beginning (version, schema), its end (writer, orders), and the encoding plan.

    The footer's parts are the same for many files.
    """
    polars, arrow, int96 = [], [], []
    for i, field in enumerate(fields):
        if _has_int96(field.type):
            int96.append(i)
        elif not dictionary or field.type.holds(_ARROW_ENCODED_ROOTS) or _has_required_part(field.type):
            arrow.append(i)
        else:
            polars.append(i)
    schema = schema_elements(fields)
    first = thrift.encode_members({1: (I32, 1), 2: (LIST, (STRUCT, schema))}, 0)
    last = (
        thrift.encode_members(
            {6: (BINARY, CREATED_BY), 7: (LIST, (STRUCT, [{1: (STRUCT, {})}] * leaf_count(schema)))}, 4
        )
        + b"\0"
    )
    plan = _EncodingPlan(
        polars_columns=tuple(polars),
        polars_schema=_polars_schema([fields[i] for i in polars]),
        arrow_columns=tuple(arrow),
        int96_columns=tuple(int96),
        stats_columns=tuple(i for i in polars if has_exact_chunk_bounds(fields[i].type)),
        leaf_counts=tuple(_count_leaves(field.type) for field in fields),
        real_columns=frozenset(i for i, field in enumerate(fields) if field.type.holds(FLOAT_TYPES)),
        has_times=any(fields[i].type.holds(_TIME_ROOTS) for i in polars),
    )
    return (first, last), plan


def _is_int96(t: DataType) -> bool:
    return t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and timestamp_unit(t.precision) == "ns"


def _has_int96(t: DataType) -> bool:
    return _is_int96(t) or any(_has_int96(u) for u in t.parts)


def _has_required_part(t: DataType) -> bool:
    """Return whether a part of a nested type is NOT NULL: below a null, Polars would count it as a null."""
    return any(not u.nullable or _has_required_part(u) for u in t.parts)


def _count_leaves(t: DataType) -> int:
    if t.root == "MULTISET":
        return 1 + sum(map(_count_leaves, t.parts))
    return 2 if t.root == "VARIANT" else sum(map(_count_leaves, t.parts)) or 1


def _encoded_expr(field: Field) -> pl.Expr | None:
    """Return the expression that Polars encodes instead of a column with TIME (milliseconds); None without TIME."""
    return (
        external_reader.map_leaves(col(field.name), field.type, _time_as_millis)
        if field.type.holds(_TIME_ROOTS)
        else None
    )


def _polars_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the schema that Polars writes: its own types, and which columns are NOT NULL."""
    changed = {field.name: plain for field in fields if (plain := _encoded_expr(field)) is not None}
    empty = pl.DataFrame(schema=polars_schema(fields)).with_columns(**changed).to_arrow()
    return pa.schema(
        [arrow_field.with_nullable(field.nullable) for arrow_field, field in zip(empty.schema, fields, strict=True)]
    )


def _time_as_millis(column: pl.Expr, t: DataType) -> pl.Expr | None:
    return (column.to_physical() // 1_000_000).cast(pl.Int32) if t.root == "TIME" else None


def _refuse_nulls(frame: pl.DataFrame, fields: Sequence[Field]) -> None:
    for field in fields:
        if not field.nullable and frame.get_column(field.name).null_count():
            raise refuse_null(field.name, field.type)


# ---- options ---------------------------------------------------------------------------------------------------------


def _size_option(encoding: Encoding, key: str) -> int | None:
    text = encoding.table_options.get(key)
    if text is None:
        return None
    try:
        return read_size(text)
    except ValueError:
        raise InvalidOption(f"option {key!r} is {text!r}; allowed: a number of bytes", key=key, value=text) from None


def _uses_dictionary(encoding: Encoding) -> bool:
    for key in ("parquet.enable.dictionary", "parquet.enable-dictionary"):
        if key in encoding.table_options:
            try:
                return read_boolean(encoding.table_options[key])
            except ValueError:
                raise InvalidOption(
                    f"option {key!r} is {encoding.table_options[key]!r}; allowed: true, false",
                    key=key,
                    value=encoding.table_options[key],
                ) from None
    return True
