"""A table of data files that other engines wrote: they become its files unchanged, in one snapshot.

    dt=…/bucket-0/data-<uuid>-0.parquet   a copy of each file under a new name,
                                          or a hard link to it where it is to be moved anyway
    schema/schema-0 …                     a schema for each set of files with narrower types than the table;
                                          the table's own is the last
    one snapshot 1, APPEND                row counts, null counts and bounds, a sequence number a row,
                                          as of files that were appended

A copy is never a hard link: a program that goes on writing the source in place would change the table. Bounds come from
footers where these are reliable, else from the rows, read a column at a time. A partition column that a file lacks has
no statistics, which tells readers so; a file that has it must have its folder's value in every row.

Source: ENGINE.md 11; `FileMetaUtils`, `Migrator`.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.columns import col, collect_batches
from lakekit.data_file import paths, reader, rolling_writer as shapes
from lakekit.data_file.file_metadata import STATS_NONE, StatsCollector
from lakekit.data_file.paths import make_file_names
from lakekit.errors import CommitStateUnknown, LakekitError, SchemaMismatch, StorageFailed
from lakekit.format import external_reader
from lakekit.format.encoder import ColumnStats
from lakekit.format.polars_types import polars_type
from lakekit.maintenance import atomic_create
from lakekit.maintenance.atomic_create import InitialState
from lakekit.metadata import schemas as known_schemas, table_context
from lakekit.metadata.table_context import load_context
from lakekit.model import manifest_entries as columns_of
from lakekit.model.data_file import APPEND_SOURCE, EMPTY_ROW, DataFileMeta
from lakekit.model.manifest_entries import ADD
from lakekit.options.option import EMPTY
from lakekit.options.table_options import TableOptions
from lakekit.parallel import parallel_map
from lakekit.runtime import wall_clock_ms
from lakekit.storage.protocol import hard_link

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.snapshot import Snapshot
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage.protocol import Storage
    from lakekit.types import DataType, Field

_UNAWARE_BUCKET, _NO_BUCKETS = 0, -1
_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedFile:
    """A file to take over: its path, what its footer says, and the table schema it was written with.

    `partition_values` are those of its partition, as rows hold them; `column_names` the columns that it holds, `stats`
    the columns whose null count and bounds are known, `partition_types` its own types of partition columns that it
    holds too.
    """

    path: str
    size_bytes: int
    row_count: int
    format_name: str
    partition_values: tuple[object, ...]
    column_names: frozenset[str]
    stats: Mapping[str, ColumnStats]
    schema_id: int
    partition_types: Mapping[str, DataType] = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedFile:
    """A file, the partition it goes to, and its manifest entry."""

    source: MigratedFile
    partition: bytes
    file: DataFileMeta


def create_migrated_table(
    storage: Storage,
    files: Sequence[MigratedFile],
    schemas: Sequence[TableSchema],
    target: TableLocation,
    *,
    move: bool,
) -> TableSchema:
    """Make a table of files at an empty location, and return its schema.

    `move`: files may be hard-linked in place of a copy; the original name stays.

    Raises: `Corrupt`, `SchemaMismatch` and `ValueOutOfRange` naming the file that has the fault, `Unsupported` for
    options of tables that lakekit does not write, `StorageFailed`; then there is no table, and every file is where it
    was.
    """
    atomic_create.check_location_free(target)
    ctx = load_context(target, schemas[-1])
    table_context.check_writable(ctx)
    names, rows = make_file_names(ctx), [source for source in files if source.row_count]
    partitions = [_encode_partition(ctx, source) for source in rows]
    contexts = {schema.id: replace(load_context(target, schema), storage=storage) for schema in schemas}
    plain = [_make_file_meta(source, names.next_name(source.format_name), ctx.runtime.now_ms()) for source in rows]
    described = parallel_map(
        lambda at: _with_statistics(contexts[rows[at].schema_id], rows[at], partitions[at], plain[at]),
        range(len(rows)),
        waiting=storage.is_remote,
    )
    placed = [
        _PlacedFile(source=source, partition=row, file=file)
        for source, row, file in zip(rows, partitions, described, strict=True)
    ]
    try:
        return atomic_create.create_table_atomically(
            target,
            "migrate",
            lambda place: InitialState(
                schemas, _write_snapshot(storage, load_context(place, schemas[-1]), placed, move=move)
            ),
        )
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):
            if not known_schemas.list_ids(target):
                target.storage.delete(_target_paths(ctx, placed))
        raise


def _target_paths(ctx: TableContext, placed_files: Sequence[_PlacedFile]) -> list[str]:
    return [
        paths.data_file_path(ctx, placed_file.partition, _UNAWARE_BUCKET, placed_file.file)
        for placed_file in placed_files
    ]


def _encode_partition(ctx: TableContext, source: MigratedFile) -> bytes:
    types = [field.type for field in ctx.schema.partition_fields]
    return (
        binary_row.with_arity(binary_row.encode_row(source.partition_values, types), len(types)) if types else EMPTY_ROW
    )


def _write_snapshot(
    storage: Storage, ctx: TableContext, placed_files: Sequence[_PlacedFile], *, move: bool
) -> Snapshot | None:
    """Copy the files, and return the snapshot that has them; None without files."""
    if not placed_files:
        return None
    paths = _target_paths(ctx, placed_files)
    is_remote = storage.is_remote or ctx.storage.is_remote

    def put(at: int) -> None:
        source = placed_files[at].source.path
        if not (move and hard_link(storage, source, ctx.storage, paths[at])):
            atomic_create.copy_file(storage, source, ctx.storage, paths[at])
        if ctx.storage.size(paths[at]) != placed_files[at].file.size_bytes:
            raise StorageFailed(
                f"{source} changed while it was taken over. Nothing was made; try again when nobody writes there",
                path=source,
            )

    parallel_map(put, range(len(placed_files)), waiting=is_remote)
    return atomic_create.first_snapshot(
        ctx,
        columns_of.entries_of_rows(
            [
                (ADD, placed_file.partition, _UNAWARE_BUCKET, _NO_BUCKETS, placed_file.file)
                for placed_file in placed_files
            ]
        ),
    )


# ---- what is said of a file ----------------------------------------------------------------------


def _make_file_meta(source: MigratedFile, name: str, now_ms: int) -> DataFileMeta:
    """Return the manifest entry of a file, without statistics."""
    return DataFileMeta(
        name=name,
        size_bytes=source.size_bytes,
        row_count=source.row_count,
        max_sequence_number=source.row_count - 1,
        schema_id=source.schema_id,
        creation_time_ms=wall_clock_ms(now_ms),
        delete_row_count=0,
        source=APPEND_SOURCE,
    )


def _with_statistics(ctx: TableContext, source: MigratedFile, partition: bytes, file: DataFileMeta) -> DataFileMeta:
    """Return the entry of a file with the statistics that the table's options ask for.

    A row of every column is read: what cannot be read fails now.
    """
    options = TableOptions.parse({**ctx.options.texts, "file.format": source.format_name})
    shape = shapes.file_spec(
        replace(ctx, options=options), bucket=_UNAWARE_BUCKET, level=0, is_keyed=False, kind="data"
    )
    keys = ctx.schema.partition_keys
    file_fields = [field for field in ctx.schema.fields if field.name in source.column_names and field.name not in keys]
    stats = {name: source.stats[name] for name in source.stats.keys() - set(keys)}
    stats |= {name: _stats_of_nulls(source) for name in ctx.schema.names if name not in source.column_names}
    stats |= {
        name: _stats_of_constant(column, ctx.schema.field(name), source)
        for name, column in _partition_series(ctx, partition).items()
    }
    modes = [
        STATS_NONE if field.name in keys and field.name not in source.column_names else mode
        for field, mode in zip(shape.value_fields, shape.value_modes, strict=True)
    ]
    measured_fields = frozenset(shape.bounds_fields)
    unmeasured = [field for field in file_fields if field in measured_fields and field.name not in stats]
    collecting = StatsCollector(shape.bounds_fields, stats)
    with _name_file_in_failures(ctx, source):
        reader.scan_files(ctx, [file], [source.path], file_fields).head(1).collect()
        if unmeasured:
            rows = reader.scan_files(ctx, [file], [source.path], unmeasured)
            for frame in collect_batches(rows, chunk_size=_BATCH_ROWS):
                collecting.add_frame(frame)
        _check_inside(ctx, source, partition, file)
    return replace(
        file, value_stats=collecting.to_stats(shape.value_fields, modes), value_stats_cols=shape.value_stats_cols
    )


def _partition_series(ctx: TableContext, partition: bytes) -> dict[str, pl.Series]:
    """Return the values of a partition, a series of one row for each column."""
    fields = ctx.schema.partition_fields
    columns = binary_row.decode_columns(pa.array([partition], pa.binary()), [field.type for field in fields])
    return {
        field.name: pl.Series(field.name, column).cast(polars_type(field.type))
        for field, column in zip(fields, columns, strict=True)
    }


def _stats_of_constant(column: pl.Series, field: Field, source: MigratedFile) -> ColumnStats:
    """Return the statistics of a column whose rows all have this value."""
    stats = ColumnStats()
    stats.add(column, field.type)
    stats.nulls *= source.row_count
    return stats


def _stats_of_nulls(source: MigratedFile) -> ColumnStats:
    stats = ColumnStats()
    stats.nulls = source.row_count
    return stats


def _check_inside(ctx: TableContext, source: MigratedFile, partition: bytes, file: DataFileMeta) -> None:
    """Raise `SchemaMismatch` if a row has another partition value than its folder: it would be lost."""
    if not source.partition_types:
        return
    own = replace(
        ctx.schema,
        fields=tuple(
            replace(field, type=source.partition_types.get(field.name, field.type)) for field in ctx.schema.fields
        ),
    )
    frame = reader.scan_files(ctx.with_schema(own), [file], [source.path], own.fields_of(source.partition_types))
    constants = _partition_series(ctx, partition)
    differs = [
        col(name).cast(constants[name].dtype, strict=False).ne_missing(pl.lit(constants[name]).first()).any()
        for name in source.partition_types
    ]
    for name, wrong in (
        frame.select(differs).collect().to_dict(as_series=False).items()
    ):  # scalar: one a partition column
        if wrong[0]:
            msg = (
                f"{source.path}: rows have another value in column {name} than their folder says, "
                f"{constants[name].item()!r}, which the table would go by"
            )
            raise SchemaMismatch(f"{msg}. Move the file to the right folder, or drop the column from it", column=name)


@contextmanager
def _name_file_in_failures(ctx: TableContext, source: MigratedFile) -> Iterator[None]:
    """Name the file in errors of Polars about columns that it cannot read as the table's."""
    try:
        with reader.translate_polars_errors(ctx, [source.path]):
            yield
    except LakekitError:
        raise
    except external_reader.FOREIGN_FAILURES as wrong:
        raise SchemaMismatch(
            f"{source.path}: Polars does not read its columns as Paimon's: {str(wrong).splitlines()[0][:300]}. Write "
            "it anew"
        ) from wrong
