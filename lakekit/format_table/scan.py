"""Read a format table: its files as one LazyFrame, with the partition columns of their folders.

    <root>/dt=2024-01-01/hr=8/data-….csv
    <root>/2024-01-01/8/data-….csv            with the option format-table.partition-path-only-value

Columns of Parquet, ORC and JSON files are found by name, those of CSV files by position. Conditions on partition
columns are decided from folders, and folders that fail are not listed. A table has no snapshots: a scan sees the files
that exist when it runs. Files and folders whose names begin with `_` or `.` are skipped: writers keep uncommitted files
there. So are folders that are no partition. The reference looks into hidden folders of tables without partitions, and
so reads what a writer has not committed yet; where folders are values alone it does not unescape them, which 2.x fixes,
and skips the partition of nulls, whose name begins with `_`. lakekit does none of that.

Source: ENGINE.md 9.6; `FormatTable`, `FormatTableScan`, `FormatTableRead`, `FormatReadBuilder`, `PartitionPathUtils`,
`CatalogUtils.toFormatTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from lakekit import parallel, runtime, storage as storages
from lakekit.codec import binary_row
from lakekit.columns import col, cols, split_by_chunk
from lakekit.data_file import verification
from lakekit.errors import Corrupt, InvalidOption, SchemaMismatch, Unsupported
from lakekit.format import orc, parquet
from lakekit.format.encoder import check_types
from lakekit.format.polars_types import polars_schema
from lakekit.model import partition as partitions
from lakekit.model.table_paths import FORMAT_TABLE_PATH
from lakekit.parallel import parallel_map
from lakekit.read.polars_pushdown import ResolvedSource
from lakekit.text_format import compression, csv, json, text
from lakekit.text_format.options import text_options_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.runtime import Runtime
    from lakekit.storage.protocol import Stat, Storage
    from lakekit.text_format.options import TextOptions
    from lakekit.types import Field


_SCHEMA_FOLDER = "schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolder:
    """A folder of files with the same partition values, in the form that rows are decoded to."""

    directory: str
    partition_values: tuple[Any, ...] = ()


def files_location(ctx: TableContext) -> tuple[Storage, str]:
    """Return the storage and folder of a table's files: its own, or the one that the option `path` names."""
    location = ctx.all_options.get(FORMAT_TABLE_PATH, "").strip()
    return resolve_location(ctx, location, FORMAT_TABLE_PATH) if location else (ctx.storage, ctx.root)


def resolve_location(ctx: TableContext, location: str, option: str) -> tuple[Storage, str]:
    """Return the storage and the path of a location that an option of the table names.

    A path, or a URL of the table's own kind of storage, is one of that storage, with its credentials; another URL names
    its own. Links lead nowhere below the place that allows the location.

    Raises: `LocationNotAllowed`.
    """
    if _url_scheme(location) not in ("", "file"):
        ctx.check_location(location, option)  # before anything is made of it
    storage, root = storages.open(location)
    ctx.check_location(location, option, path=root)
    scheme = _url_scheme(location)
    root = root.rstrip("/") or "/"
    own = ctx.storage if not scheme or scheme == _url_scheme(ctx.root) else storage
    return storages.confine(own, ctx.trusted_base(root)), root


def _url_scheme(location: str) -> str:
    scheme, colon, _ = location.partition("/")[0].partition(":")
    return scheme.lower() if colon else ""


def portable_location(table_location: TableLocation, location: str) -> str:
    """Return a location as a table stores it: the same wherever the table is opened from."""
    if _url_scheme(location):
        return location
    path = storages.open(location)[1]
    return f"file://{quote(path)}" if table_location.storage.is_remote else path


def is_hidden(name: str) -> bool:
    """Return whether readers skip a file or folder of that name."""
    return name.startswith(("_", "."))


# ---- partitions ----------------------------------------------------------------------------------


def list_partitions(ctx: TableContext, conditions: Sequence[pl.Expr] = ()) -> list[PartitionFolder]:
    """Return the partitions that satisfy conditions on partition columns, by path.

    A table without partition columns has one. Folders that fail a condition are not listed.

    Raises: `Corrupt` for a folder whose text is no value of its column.
    """
    storage, root = files_location(ctx)
    level = [PartitionFolder(directory=root)]
    fields = ctx.schema.partition_fields
    for depth, field in enumerate(fields, 1):
        inside = parallel_map(lambda folder: _list_subpartitions(ctx, storage, folder, field), level)  # noqa: B023 - each() ends before the next turn
        level = _filter_partitions([folder for folders in inside for folder in folders], fields[:depth], conditions)
    return level


def _list_subpartitions(
    ctx: TableContext, storage: Storage, parent_folder: PartitionFolder, field: Field
) -> list[PartitionFolder]:
    only_value, null = ctx.options.format_table_partition_path_only_value, ctx.options.partition_default_name
    children = []
    for entry in storage.list(parent_folder.directory):
        if not entry.is_dir or (
            is_hidden(entry.name) and not (only_value and entry.name == partitions.escape_name(null))
        ):
            continue
        name, equals, text = entry.name.partition("=")
        if only_value:
            text = entry.name
        elif not equals or partitions.unescape_name(name) != field.name:
            continue
        try:
            [value] = partitions.parse_partition([partitions.unescape_name(text)], [field.type], default_name=null)
        except Corrupt as wrong:
            raise Corrupt(
                f"{entry.path}: partition column {field.name} is {field.type}: {wrong.message}",
                path=entry.path,
                field=field.name,
            ) from None
        children.append(
            PartitionFolder(directory=entry.path, partition_values=(*parent_folder.partition_values, value))
        )
    return children


def _filter_partitions(
    level: list[PartitionFolder], fields: Sequence[Field], conditions: Sequence[pl.Expr]
) -> list[PartitionFolder]:
    """Return the folders that satisfy the conditions on the last of these columns and on no later one."""
    names = {field.name for field in fields}
    applicable = [
        condition
        for condition in conditions
        if fields[-1].name in condition.meta.root_names() and set(condition.meta.root_names()) <= names
    ]
    if not applicable or not level:
        return level
    mask = (
        partition_frame(level, fields)
        .select(pl.all_horizontal(condition.fill_null(value=False) for condition in applicable))
        .to_series()
    )
    return [level[at] for at in mask.alias("").arg_true()]


def partition_frame(
    level: Sequence[PartitionFolder], fields: Sequence[Field], timestamp_unit: str | None = None
) -> pl.DataFrame:
    """Return the values of some partitions as a frame, a row each."""
    types = [field.type for field in fields]
    rows = pa.array(
        [binary_row.with_arity(binary_row.encode_row(folder.partition_values, types), len(types)) for folder in level],
        pa.binary(),
    )
    columns = binary_row.decode_columns(rows, types)
    wanted = polars_schema(fields, timestamp_unit=timestamp_unit)
    return pl.DataFrame(
        [pl.Series(field.name, column).cast(wanted[field.name]) for field, column in zip(fields, columns, strict=True)]
    )


# ---- files ---------------------------------------------------------------------------------------


def list_files(ctx: TableContext, directories: Sequence[str]) -> list[list[Stat]]:
    """Return the data files of each of some folders, those in inner folders included, by path."""
    storage, _ = files_location(ctx)
    own = None if ctx.paths.is_hidden else f"{ctx.root}/{_SCHEMA_FOLDER}"
    return parallel_map(lambda directory: _list_files(storage, directory, own), directories)


def _list_files(storage: Storage, directory: str, own: str | None) -> list[Stat]:
    stats: list[Stat] = []
    for entry in storage.list(directory):
        if is_hidden(entry.name) or entry.path == own:
            continue
        stats += _list_files(storage, entry.path, own) if entry.is_dir else [entry]
    return stats


# ---- file formats -----------------------------------------------------


COLUMNAR_FORMATS = ("orc", "parquet")
TEXT_FORMATS: dict[str, Any] = {"csv": csv, "json": json, "text": text}
FORMAT_TABLE_FORMATS = (*COLUMNAR_FORMATS, *TEXT_FORMATS)
"""The formats of engine 1.4.2; 2.x adds mosaic."""


def table_format(ctx: TableContext) -> str:
    """Return the format of a table's files."""
    return str(ctx.options.file_format).strip().lower()


def load_text_format(name: str) -> Any:
    """Return the module of a text format."""
    return TEXT_FORMATS[name]


def file_fields(schema: TableSchema) -> tuple[Field, ...]:
    """Return the columns that files hold: all that are no partition columns, in order."""
    return tuple(field for field in schema.fields if field.name not in schema.partition_keys)


def check_format(ctx: TableContext) -> None:
    """Raise `Unsupported` for a format that is none of the five, or a type that its files do not hold."""
    check_new_format(table_format(ctx), ctx.schema)


def check_new_format(format_name: str, schema: TableSchema) -> None:
    """Check the format of a table to make, as `check_format` does.

    Raises: `SchemaMismatch` if every column is a partition column.
    """
    if format_name not in FORMAT_TABLE_FORMATS:
        msg = (
            f"Format table unsupported file format: {format_name}. Supported formats: {', '.join(FORMAT_TABLE_FORMATS)}"
        )
        raise Unsupported(msg, feature=f"format-table.{format_name}")
    fields = file_fields(schema)
    if not fields:
        raise SchemaMismatch(
            "every column is a partition column, so that files would hold nothing; leave one column out of the "
            "partition"
        )
    if format_name in TEXT_FORMATS:
        TEXT_FORMATS[format_name].check_types(fields)
    else:
        check_types(format_name, fields)


# ---- scan ------------------------------------------------------------


_MIN_PARQUET_BYTES = 12
_WIDE_TYPES = frozenset({"DECIMAL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTableScan:
    """The source of a LazyFrame of a format table: a `read.polars_pushdown.ScanSource`."""

    ctx: TableContext

    def schema(self) -> Mapping[str, pl.DataType]:
        return dict(polars_schema(self.ctx.schema.fields, timestamp_unit=self.ctx.options.lakekit_timestamp_unit))

    def resolve(self) -> ResolvedSource:
        """Return the files as they are now; folders have no version, so each call lists them again."""
        # the limit is left to Polars
        return ResolvedSource(
            runtime.new_id(),
            lambda scan_filter, _: _scan_partitions(self.ctx, scan_filter.partition_conditions),
            self.ctx.schema,
        )


def make_scan(ctx: TableContext) -> FormatTableScan:
    """Return the scan of a format table.

    Raises: `Unsupported` and `InvalidOption` for a format or options that lakekit does not read.
    """
    check_format(ctx)
    _text_options(ctx)
    return FormatTableScan(ctx=ctx)


def _text_options(ctx: TableContext) -> TextOptions:
    options = ctx.options
    return text_options_of(
        ctx.all_options,
        table_format(ctx),
        zone=options.lakekit_java_time_zone,
        timestamp_unit=options.lakekit_timestamp_unit,
    )


def _scan_partitions(ctx: TableContext, conditions: Sequence[pl.Expr]) -> pl.LazyFrame:
    schema = ctx.schema
    unit = ctx.options.lakekit_timestamp_unit
    level = list_partitions(ctx, conditions)
    parts = []
    partition_values = (
        partition_frame(level, schema.partition_fields, unit)
        if schema.partition_keys and level
        else pl.DataFrame(height=len(level))
    )
    for at, files in enumerate(list_files(ctx, [entry.directory for entry in level])):
        nonempty = [entry for entry in files if entry.size_bytes]
        if nonempty:
            literals = [pl.lit(column.slice(at, 1)).first().alias(column.name) for column in partition_values]
            parts.append(
                _scan_files(ctx, nonempty).with_columns(literals).select(col(field.name) for field in schema.fields)
            )
    if not parts:
        return pl.LazyFrame(schema=polars_schema(schema.fields, timestamp_unit=unit))
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def _scan_files(ctx: TableContext, files: Sequence[Stat]) -> pl.LazyFrame:
    """Return the columns that files hold, of some files."""
    storage, _ = files_location(ctx)
    fields, unit = file_fields(ctx.schema), ctx.options.lakekit_timestamp_unit
    paths = [file.path for file in files]
    match table_format(ctx):
        case "parquet":
            return _scan_parquet(ctx.runtime, storage, files, fields, unit)
        case "orc":
            zone = ctx.options.lakekit_java_time_zone
            return orc.scan(paths, fields, read=partial(_path_or_whole, storage), timestamp_unit=unit, ltz_zone=zone)
    texts = TextFiles(
        storage=storage,
        files=tuple(files),
        fields=tuple(fields),
        options=_text_options(ctx),
        format_name=table_format(ctx),
    )
    return register_io_source(texts.rows, schema=polars_schema(fields, timestamp_unit=unit), is_pure=True)


def _scan_parquet(
    runtime: Runtime, storage: Storage, files: Sequence[Stat], fields: Sequence[Field], unit: str | None
) -> pl.LazyFrame:
    looks = verification.PageHeaderChecks(runtime, storage, {field.name: None for field in fields})
    parallel.parallel_map(partial(_check_parquet, storage, looks), files)
    looks.cache_checked()
    paths = [native_path.path for native_path in files]
    native = [storage.polars_path(path) for path in paths]
    # Polars cannot decode all that other writers make of such columns
    wide = any(field.type.holds(_WIDE_TYPES) for field in fields)
    if None not in native and not (
        wide
        and (
            storage.is_remote or any(parquet.undecodable_columns(_path_or_whole(storage, path), path) for path in paths)
        )
    ):
        return parquet.scan(
            [native_path or "" for native_path in native],
            fields,
            paths=paths,
            timestamp_unit=unit,
            opening=storage.polars_scan_options(),
        )
    return parquet.scan_bytes(paths, fields, read=storage.read, timestamp_unit=unit)


def _check_parquet(storage: Storage, header_checks: verification.PageHeaderChecks, file: Stat) -> None:
    if header_checks.is_checked(file):
        return
    end = storage.read(file.path, max(0, file.size_bytes - 4), 4)
    if file.size_bytes < _MIN_PARQUET_BYTES or end != parquet.MAGIC:
        raise Corrupt(f"{file.path} is no Parquet file: it ends in {end!r}", path=file.path, field="parquet")
    if not storage.is_remote:
        header_checks.check(file)


def _path_or_whole(storage: Storage, path: str) -> str | bytes:
    native = storage.polars_path(path)
    return native if native is not None and "://" not in native else storage.read(path)


# ---- text ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFiles:
    """Text files of a table, as a source of Polars."""

    storage: Storage
    files: tuple[Stat, ...]
    fields: tuple[Field, ...]
    options: TextOptions
    format_name: str

    def rows(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG002 - the contract of Polars' sources
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows, in blocks."""
        names = [field.name for field in self.fields] if with_columns is None else with_columns
        filter_columns = set() if predicate is None else set(predicate.meta.root_names())
        needed = [*names, *sorted(filter_columns - set(names))]
        left = n_rows
        for frame in parallel.map_prefetch(
            partial(self._parse_block, needed), self._read_blocks(), parallel.core_count()
        ):
            selected = frame if predicate is None else frame.filter(predicate).select(cols(names))
            if left is not None:
                selected = selected.head(left)
                left -= selected.height
            yield from split_by_chunk(selected)
            if left == 0:
                return

    def _read_blocks(self) -> Iterator[tuple[str, pl.Series]]:
        """Yield the lines of each file in blocks, with its path."""
        for file in self.files:
            pieces = compression.read_decompressed(self.storage, file.path, file.size_bytes)
            heads = self.options.has_header and self.format_name == "csv"
            for lines in compression.line_batches(
                pieces, self.options.line_end, any_line_end=self.options.accepts_any_line_end, path=file.path
            ):
                yield file.path, lines.slice(1) if heads else lines
                heads = False

    def _parse_block(self, names: Sequence[str], block: tuple[str, pl.Series]) -> pl.DataFrame:
        path, lines = block
        try:
            frame: pl.DataFrame = load_text_format(self.format_name).parse_lines(
                lines, self.fields, names, self.options
            )
        except Corrupt as wrong:
            raise wrong.at(path) from None
        return frame


def check_no_position(ctx: TableContext, at: object) -> None:
    """Raise `InvalidOption` for a scan of another time than now."""
    if at is not None:
        raise InvalidOption(
            f"{ctx.name} is a format table, which has no snapshots: scan it without at=", key="at", value=str(at)
        )
