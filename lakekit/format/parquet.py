"""Read Parquet data files by one scan of Polars for many files, whose columns follow the schema.

Polars finds columns by name, fills missing ones with nulls, reads MAP groups as lists of key and value, decimals of any
physical type, and INT96 timestamps in the requested unit. Filters and projections on the frame reach the scan, and skip
row groups. Nothing is opened before the frame runs.

Polars cannot decode fixed-length bytes in DELTA_BYTE_ARRAY pages, which Java writes for wide decimals where
`parquet.writer.version` is PARQUET_2_0, nor in BYTE_STREAM_SPLIT pages: such columns are decoded by Arrow, and given to
Polars as plain pages.

INT96 holds any day: a value of a day that nanoseconds do not hold from its midnight on arrives from Polars as the
greatest nanosecond, and is refused here by name. Read as microseconds it loses its last three digits, toward zero.

Source: FORMAT.md 7.4, `ParquetSchemaConverter`.
"""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from lakekit.columns import col, cols, series_field
from lakekit.errors import Corrupt, Unsupported, ValueOutOfRange
from lakekit.format import external_reader, parquet_validation, parquet_writer
from lakekit.format.encoder import FIRST_DAY_NS
from lakekit.format.polars_types import cached_schema, has_nanoseconds, polars_schema, polars_type
from lakekit.options.option import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakekit.types import DataType, Field

open_writer, check_types = parquet_writer.open_writer, parquet_writer.check_types
MAGIC = b"PAR1"
_LAST_NS = 2**63 - 1
_FIRST_US = FIRST_DAY_NS // 1000
_BEYOND_FIXED = frozenset({7, 9})
"""Encodings of fixed-length bytes that Polars cannot decode: DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT."""
_CAST_OPTIONS = pl.ScanCastOptions(
    integer_cast="upcast",
    float_cast="upcast",
    datetime_cast=["nanosecond-downcast", "microsecond-downcast", "millisecond-upcast", "convert-timezone"],
    categorical_to_string="allow",
)
"""Casts from what files of other writers may hold: only those that keep every value of the column's own type."""


def scan(
    sources: Sequence[str | bytes],
    fields: Sequence[Field],
    *,
    paths: Sequence[str],
    timestamp_unit: str | None = None,
    row_index: tuple[str, int] | None = None,
    file_column: str | None = None,
    opening: Mapping[str, Any] = EMPTY,
) -> pl.LazyFrame:
    """Return the columns `fields` (names and types as the files were written) of all `sources`, in order.

    `sources` are paths that Polars opens, or the bytes of files; `paths` are their names for errors. `row_index` adds a
    first column that counts rows over all files from a start. `file_column` adds the source's path, last. `opening` are
    the options with which Polars opens them (`Storage.polars_scan_options`). Running the frame raises `ValueOutOfRange`
    for a timestamp that its unit cannot hold.
    """
    name, start = row_index if row_index is not None else (None, 0)
    frame = pl.scan_parquet(
        # all of one kind
        [BytesIO(source) if isinstance(source, bytes) else source for source in sources],  # type: ignore[arg-type]
        glob=False,
        hive_partitioning=False,
        schema=cached_schema(tuple(fields), timestamp_unit),
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=_CAST_OPTIONS,
        row_index_name=name,
        row_index_offset=start,
        include_file_paths=file_column,
        **opening,
    )
    if timestamp_unit == "us":
        return frame
    checked = [f for f in fields if has_nanoseconds(f.type)]
    return frame.with_columns(_check_column(f, sources, paths, opening) for f in checked) if checked else frame


def scan_bytes(
    paths: Sequence[str],
    fields: Sequence[Field],
    *,
    read: Callable[[str], bytes],
    counts: Mapping[str, int] | None = None,
    timestamp_unit: str | None = None,
) -> pl.LazyFrame:
    """Return the same for files that Polars cannot open or decode itself.

    Each is read into memory when it is reached, and decoded from there.
    """

    def open_file(path: str) -> external_reader.OpenFile:
        data = read(path)
        parquet_validation.check_footer_and_pages(
            path,
            lambda offset, length: data[offset : offset + length],
            len(data),
            {field.name: field.type for field in fields},
        )
        rows, refusals = read_row_count(data, path), find_shredded(data, fields, path)
        beyond = undecodable_columns(data, path)
        arrow = [
            field.name
            for field in fields
            if any(column == field.name or column.startswith(f"{field.name}.") for column in beyond)
        ]

        def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
            if not columns:
                yield pl.DataFrame(height=rows)
                return
            for name in columns:
                if name in refusals:
                    raise refusals[name]
            parts = [(data, [name for name in columns if name not in arrow])]
            if by_arrow := [name for name in columns if name in arrow]:
                parts.append((_plain_pages(data, by_arrow), by_arrow))
            frames = [
                scan([content], fields, paths=[path], timestamp_unit=timestamp_unit).select(cols(names)).collect()
                for content, names in parts
                if names
            ]
            yield pl.concat(frames, how="horizontal").select(cols(columns))

        return external_reader.OpenFile(row_count=rows, batches=batches)

    return external_reader.scan(
        paths, open_file, polars_schema(fields, timestamp_unit=timestamp_unit), name="parquet", counts=counts
    )


def _check_column(
    field: Field, sources: Sequence[str | bytes], paths: Sequence[str], opening: Mapping[str, Any]
) -> pl.Expr:
    check = partial(_refuse_unreachable, field=field, sources=sources, paths=paths, opening=opening)
    return col(field.name).map_batches(check, return_dtype=polars_type(field.type), is_elementwise=True)


def _refuse_unreachable(
    column: pl.Series, *, field: Field, sources: Sequence[str | bytes], paths: Sequence[str], opening: Mapping[str, Any]
) -> pl.Series:
    if _has_extreme_time(column, _LAST_NS):
        for source, path in zip(sources, paths, strict=True):
            micros = scan([source], [field], paths=[path], timestamp_unit="us", opening=opening).collect()[field.name]
            # cut off toward zero, the last microsecond before that midnight is the midnight: it is refused with those
            # before it
            if _has_extreme_time(micros, _LAST_NS // 1000 + 1, above=True) or _has_extreme_time(
                micros, _FIRST_US, below=True
            ):
                raise out_of_range(field, path)
    return column


def out_of_range(field: Field, path: str) -> ValueOutOfRange:
    """Return the error for a timestamp that nanoseconds cannot hold."""
    return ValueOutOfRange(
        f"{path}: column {field.name} ({field.type}) holds a time outside 1677-09-22 to 2262-04-11, "
        "which nanoseconds cannot hold. "
        "Read it in microseconds: with_options({'lakekit.timestamp-unit': 'us'})",
        column=field.name,
        path=path,
    )


def _has_extreme_time(column: pl.Series, tick: int, *, above: bool = False, below: bool = False) -> bool:
    """Return whether a timestamp at any depth is `tick` (or at least, or at most)."""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        ticks = column.to_physical()
        return bool((ticks >= tick if above else ticks <= tick if below else ticks == tick).any())
    if isinstance(dtype, pl.List):
        return _has_extreme_time(column.explode(), tick, above=above, below=below)
    if isinstance(dtype, pl.Struct):
        return any(
            _has_extreme_time(series_field(column, f.name), tick, above=above, below=below) for f in dtype.fields
        )
    return False


def read_row_count(source: str | bytes, path: str) -> int:
    """Return the row count of a file by its footer. Raises `Corrupt` if that cannot be read."""
    return int(_read_footer(source, path).metadata.num_rows)


def find_shredded(source: str | bytes, fields: Sequence[Field], path: str) -> dict[str, Unsupported]:
    """Return the errors of columns that a file stores as several columns of their own, by name.

    These are a shredded VARIANT, or a MAP whose keys share columns. Raises `Corrupt`.
    """
    schema = _read_footer(source, path).schema_arrow
    errors = {}
    for field in fields:
        at = schema.get_field_index(field.name)
        feature = None if at < 0 else _shredding_feature(field.type, schema.field(at).type)
        if feature is not None:
            problem = f"column {field.name} holds {_SHREDDED_TEXTS[feature]}, which lakekit does not read"
            errors[field.name] = Unsupported(
                f"{path}: {problem}. Select other columns, or rewrite the table without it", feature=feature, path=path
            )
    return errors


def _read_footer(source: str | bytes, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(pa.BufferReader(source) if isinstance(source, bytes) else source)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"{path}: its Parquet footer cannot be read: {error}", path=path, field="footer") from error


_SHREDDED_TEXTS = {
    "type.variant.shredded": "a shredded VARIANT",
    "type.map.shared-shredding": "a MAP whose keys share columns (map.storage-layout = shared-shredding)",
}


def _shredding_feature(t: DataType, arrow: pa.DataType) -> str | None:
    """Return the feature by which a column is stored as several columns of its own; None without one."""
    if t.root == "MAP" and pa.types.is_struct(arrow) and arrow.get_field_index("__field_mapping") >= 0:
        return "type.map.shared-shredding"
    return "type.variant.shredded" if _is_shredded(t, arrow) else None


def undecodable_columns(source: str | bytes, path: str) -> frozenset[str]:
    """Return the columns of a file, by their paths, whose pages Polars cannot decode.

    Raises:
        Corrupt: the footer cannot be read.
    """
    try:
        with pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(source) as file:
            return parquet_validation.fixed_len_columns_with_encoding(
                path, lambda offset, length: bytes(file.read_at(length, offset)), file.size(), _BEYOND_FIXED
            )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise external_reader.to_corrupt(path, error, "parquet") from error


def integer_bounds(source: str | bytes, column: str) -> tuple[int, int] | None:
    """Return minimum and maximum of a top-level integer column by the statistics of all row groups.

    Returns None if a row group has none. Arrow is not used: it ends the process where a column is stored as another
    type than the schema says. Raises `Corrupt`, or what Arrow raises for a file that cannot be opened.
    """
    with pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(source) as file:
        return parquet_validation.integer_min_max(
            lambda offset, length: bytes(file.read_at(length, offset)), file.size(), column
        )


def _plain_pages(data: bytes, columns: Sequence[str]) -> bytes:
    """Return some columns of a file as a file of plain pages."""
    sink = BytesIO()
    pq.write_table(
        pq.read_table(pa.BufferReader(data), columns=list(columns)), sink, use_dictionary=False, compression="none"
    )
    return sink.getvalue()


def _is_shredded(t: DataType, arrow: pa.DataType) -> bool:
    if t.root == "VARIANT":
        return pa.types.is_struct(arrow) and arrow.get_field_index("typed_value") >= 0
    if t.root == "ROW" and pa.types.is_struct(arrow):
        parts = [(f.type, arrow.get_field_index(f.name)) for f in t.fields]
        return any(at >= 0 and _is_shredded(u, arrow.field(at).type) for u, at in parts)
    if t.root == "ARRAY" and t.element is not None and pa.types.is_list(arrow):
        return _is_shredded(t.element, arrow.value_type)
    if t.root == "MAP" and t.value is not None and pa.types.is_map(arrow):
        return _is_shredded(t.value, arrow.item_type)
    return False
