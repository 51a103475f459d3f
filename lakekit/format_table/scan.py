"""Read a format table: its files as one LazyFrame, with the partition columns of their folders.

Columns of Parquet, ORC and JSON files are found by name, those of CSV files by position. Conditions on partition
columns are decided from folders, and folders that fail are not listed. A table has no snapshots: a scan sees the files
that exist when it runs. Source: `FormatTableRead`, `FormatReadBuilder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
from polars.io.plugins import register_io_source

from lakekit import parallel, runtime
from lakekit.columns import col, cols
from lakekit.data_file import verification
from lakekit.errors import Corrupt, InvalidOption
from lakekit.format import orc, parquet
from lakekit.format.polars_types import polars_schema
from lakekit.format_table import listing
from lakekit.read.polars_pushdown import ResolvedSource
from lakekit.text_format import compression
from lakekit.text_format.options import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.runtime import Runtime
    from lakekit.storage.protocol import Stat, Storage
    from lakekit.text_format.options import TextOptions
    from lakekit.types import Field

_LEAST_PARQUET_BYTES = 12
_WIDE_TYPES = frozenset({"DECIMAL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTableScan:
    """The source of a LazyFrame of a format table: a `read.polars_pushdown.ScanSource`."""

    ctx: TableContext

    def schema(self) -> Mapping[str, pl.DataType]:
        return dict(polars_schema(self.ctx.schema.fields, timestamp_unit=self.ctx.options.lakekit_timestamp_unit))

    def resolve(self) -> ResolvedSource:
        """Folders have no version: each question lists them again."""
        return ResolvedSource(
            runtime.new_id(), lambda condition, _: _frame(self.ctx, condition.on_partition), self.ctx.schema
        )  # Polars stops by itself


def source(ctx: TableContext) -> FormatTableScan:
    """Return the scan of a format table.

    Raises: `Unsupported` and `InvalidOption` for a format or options that lakekit does not read.
    """
    listing.check_format(ctx)
    _lines(ctx)
    return FormatTableScan(ctx=ctx)


def _lines(ctx: TableContext) -> TextOptions:
    options = ctx.options
    return lines_of(
        ctx.all_options,
        listing.format_of(ctx),
        zone=options.lakekit_java_time_zone,
        timestamp_unit=options.lakekit_timestamp_unit,
    )


def _frame(ctx: TableContext, conditions: Sequence[pl.Expr]) -> pl.LazyFrame:
    schema = ctx.schema
    unit = ctx.options.lakekit_timestamp_unit
    level = listing.list_partitions(ctx, conditions)
    parts = []
    partition_values = (
        listing.values(level, schema.partition_fields, unit)
        if schema.partition_keys and level
        else pl.DataFrame(height=len(level))
    )
    for at, files in enumerate(listing.files(ctx, [entry.directory for entry in level])):
        nonempty = [entry for entry in files if entry.size_bytes]
        if nonempty:
            literals = [pl.lit(column.slice(at, 1)).first().alias(column.name) for column in partition_values]
            parts.append(_scan(ctx, nonempty).with_columns(literals).select(col(field.name) for field in schema.fields))
    if not parts:
        return pl.LazyFrame(schema=polars_schema(schema.fields, timestamp_unit=unit))
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def _scan(ctx: TableContext, files: Sequence[Stat]) -> pl.LazyFrame:
    """Return the columns that files hold, of some files."""
    storage, _ = listing.files_location(ctx)
    fields, unit = listing.held_fields(ctx.schema), ctx.options.lakekit_timestamp_unit
    paths = [file.path for file in files]
    match listing.format_of(ctx):
        case "parquet":
            return _parquet(ctx.runtime, storage, files, fields, unit)
        case "orc":
            zone = ctx.options.lakekit_java_time_zone
            return orc.scan(paths, fields, read=partial(_path_or_whole, storage), timestamp_unit=unit, ltz_zone=zone)
    texts = TextFiles(
        storage=storage, files=tuple(files), fields=tuple(fields), how=_lines(ctx), format_name=listing.format_of(ctx)
    )
    return register_io_source(texts.rows, schema=polars_schema(fields, timestamp_unit=unit), is_pure=True)


def _parquet(
    shared: Runtime, storage: Storage, files: Sequence[Stat], fields: Sequence[Field], unit: str | None
) -> pl.LazyFrame:
    looks = verification.PageHeaderChecks(shared, storage, {field.name: None for field in fields})
    parallel.parallel_map(partial(_check_parquet, storage, looks), files)
    looks.remember()
    paths = [native_path.path for native_path in files]
    native = [storage.polars(path) for path in paths]
    wide = any(
        field.type.holds(_WIDE_TYPES) for field in fields
    )  # Polars cannot decode all that other writers make of such columns
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
            opening=storage.polars_options(),
        )
    return parquet.scan_bytes(paths, fields, read=storage.read, timestamp_unit=unit)


def _check_parquet(storage: Storage, looks: verification.PageHeaderChecks, file: Stat) -> None:
    if looks.is_known(file):
        return
    end = storage.read(file.path, max(0, file.size_bytes - 4), 4)
    if file.size_bytes < _LEAST_PARQUET_BYTES or end != parquet.MAGIC:
        raise Corrupt(f"{file.path} is no Parquet file: it ends in {end!r}", path=file.path, field="parquet")
    if not storage.is_remote:
        looks.check(file)


def _path_or_whole(storage: Storage, path: str) -> str | bytes:
    native = storage.polars(path)
    return native if native is not None and "://" not in native else storage.read(path)


# ---- text ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFiles:
    """Text files of a table, as a source of Polars."""

    storage: Storage
    files: tuple[Stat, ...]
    fields: tuple[Field, ...]
    how: TextOptions
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
        for frame in parallel.map_prefetch(partial(self._parsed, needed), self._blocks(), parallel.core_count()):
            selected = frame if predicate is None else frame.filter(predicate).select(cols(names))
            if left is not None:
                selected = selected.head(left)
                left -= selected.height
            yield selected
            if left == 0:
                return

    def _blocks(self) -> Iterator[tuple[str, pl.Series]]:
        """Yield the lines of each file in blocks, with its path."""
        for file in self.files:
            pieces = compression.pieces(self.storage, file.path, file.size_bytes)
            heads = self.how.header and self.format_name == "csv"
            for lines in compression.blocks(
                pieces, self.how.line_end, any_line_end=self.how.ends_anyhow, path=file.path
            ):
                yield file.path, lines.slice(1) if heads else lines
                heads = False

    def _parsed(self, names: Sequence[str], block: tuple[str, pl.Series]) -> pl.DataFrame:
        path, lines = block
        try:
            frame: pl.DataFrame = listing.text_format(self.format_name).parsed(lines, self.fields, names, self.how)
        except Corrupt as wrong:
            raise wrong.at(path) from None
        return frame


def check_no_position(ctx: TableContext, at: object) -> None:
    """Raise `InvalidOption` for a scan of another time than now."""
    if at is not None:
        raise InvalidOption(
            f"{ctx.name} is a format table, which has no snapshots: scan it without at=", key="at", value=str(at)
        )
