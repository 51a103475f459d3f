"""A table made of data files that others wrote: they become its files as they are, in one snapshot.

    dt=…/bucket-0/data-<uuid>-0.parquet      a copy of each file under a new name, or a second name of it where it is to be moved anyway
    schema/schema-0 …                        what files hold that have narrower types than the table, a schema each; the table's own is the last
    one snapshot 1, APPEND                   row counts, null counts and bounds, a sequence number a row, as of files that were appended

A copy is never a hard link: who writes the source on in place would change the table. Bounds are what footers tell for sure, else what the rows say, read a
column at a time. Of a partition column that files lack nothing is said, by which readers know (`data_file.unheld`); a file that has it must have its
folder's value
in every row.

Source: ENGINE.md 11; `FileMetaUtils`, `Migrator`.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.columns import col
from lakekit.data_file import paths, reader, shape as shapes
from lakekit.data_file.file_metadata import NONE, StatsCollector
from lakekit.data_file.file_names import file_names
from lakekit.errors import CommitStateUnknown, LakekitError, SchemaMismatch, StorageFailed
from lakekit.format import external_reader
from lakekit.format.polars_types import polars_type
from lakekit.format.told import ColumnStats
from lakekit.maintenance import atomic_create
from lakekit.maintenance.atomic_create import InitialState
from lakekit.metadata import feature_check, schemas as known_schemas
from lakekit.metadata.table_context import load_context
from lakekit.model import manifest_entries as columns_of
from lakekit.model.data_file import APPEND_SOURCE, EMPTY_ROW, DataFileMeta
from lakekit.model.manifest_entries import ADD
from lakekit.options.frozendict import EMPTY
from lakekit.options.table_options import TableOptions
from lakekit.storage.linked import hard_link
from lakekit.world import parallel_map, wall_clock_ms

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
    """A file to take over: where it is, what its footer told, and which of the table's schemas it was written with.

    `values` are those of its partition, as rows hold them; `names` the columns that it holds, `told` those whose null count and bounds are known, `inside`
    its own types of partition columns that it holds too.
    """

    path: str
    size_bytes: int
    row_count: int
    format_name: str
    values: tuple[object, ...]
    names: frozenset[str]
    told: Mapping[str, ColumnStats]
    schema_id: int
    inside: Mapping[str, DataType] = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedFile:
    """A file, the partition it comes into, and what the table will say of it."""

    taken: MigratedFile
    partition: bytes
    file: DataFileMeta


def migrate(storage: Storage, files: Sequence[MigratedFile], schemas: Sequence[TableSchema], target: TableLocation, *, move: bool) -> TableSchema:
    """Makes a table of files at a place where nothing is; its schema. `move`: files may get a second name in place of a copy; the first one stays.

    Raises `Corrupt`, `SchemaMismatch` and `ValueOutOfRange` naming the file that is to blame, `Unsupported` for options of tables that lakekit does not write,
    `StorageFailed`; then there is no table, and every file is where it was.
    """
    atomic_create.check_place(target)
    ctx = load_context(target, schemas[-1])
    feature_check.check_writable(ctx)
    names, rows = file_names(ctx), [one for one in files if one.row_count]
    partitions = [_partition(ctx, one) for one in rows]
    known = {schema.id: replace(load_context(target, schema), storage=storage) for schema in schemas}
    plain = [_file(one, names.next(one.format_name), ctx.world.now_ms()) for one in rows]
    described = parallel_map(
        lambda at: _with_statistics(known[rows[at].schema_id], rows[at], partitions[at], plain[at]), range(len(rows)), waiting=storage.is_remote
    )
    placed = [_PlacedFile(taken=one, partition=row, file=file) for one, row, file in zip(rows, partitions, described, strict=True)]
    try:
        return atomic_create.create_table_atomically(
            target, "migrate", lambda place: InitialState(schemas, _snapshot(storage, load_context(place, schemas[-1]), placed, move=move))
        )
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):
            if not known_schemas.ids(target):
                target.storage.delete(_paths(ctx, placed))
        raise


def _paths(here: TableContext, placed: Sequence[_PlacedFile]) -> list[str]:
    return [paths.data_file_path(here, one.partition, _UNAWARE_BUCKET, one.file) for one in placed]


def _partition(ctx: TableContext, one: MigratedFile) -> bytes:
    types = [field.type for field in ctx.schema.partition_fields]
    return binary_row.with_arity(binary_row.encode(one.values, types), len(types)) if types else EMPTY_ROW


def _snapshot(storage: Storage, here: TableContext, placed: Sequence[_PlacedFile], *, move: bool) -> Snapshot | None:
    """Copies the files; the snapshot that has them."""
    if not placed:
        return None
    paths = _paths(here, placed)
    is_remote = storage.is_remote or here.storage.is_remote

    def put(at: int) -> None:
        source = placed[at].taken.path
        if not (move and hard_link(storage, source, here.storage, paths[at])):
            atomic_create.copy_file(storage, source, here.storage, paths[at])
        if here.storage.size(paths[at]) != placed[at].file.size_bytes:
            raise StorageFailed(f"{source} changed while it was taken over. Nothing was made; try again when nobody writes there", path=source)

    parallel_map(put, range(len(placed)), waiting=is_remote)
    return atomic_create.snapshot(here, columns_of.of_rows([(ADD, one.partition, _UNAWARE_BUCKET, _NO_BUCKETS, one.file) for one in placed]))


# ---- what is said of a file ----------------------------------------------------------------------------------------------------------------


def _file(one: MigratedFile, name: str, now_ms: int) -> DataFileMeta:
    """What is known of a file before its columns are looked at."""
    return DataFileMeta(
        name=name,
        size_bytes=one.size_bytes,
        row_count=one.row_count,
        max_sequence_number=one.row_count - 1,
        schema_id=one.schema_id,
        creation_time_ms=wall_clock_ms(now_ms),
        delete_row_count=0,
        source=APPEND_SOURCE,
    )


def _with_statistics(ctx: TableContext, one: MigratedFile, partition: bytes, file: DataFileMeta) -> DataFileMeta:
    """The file with the statistics that the table's options ask for. A row of every column is looked at: what nobody could read is found out now."""
    options = TableOptions.parse({**ctx.options.given, "file.format": one.format_name})
    shape = shapes.shape_of(replace(ctx, options=options), bucket=_UNAWARE_BUCKET, level=0, keyed=False, kind="data")
    keys = ctx.schema.partition_keys
    held = [field for field in ctx.schema.fields if field.name in one.names and field.name not in keys]
    told = {name: one.told[name] for name in one.told.keys() - set(keys)}
    told |= {name: _stats_of_nulls(one) for name in ctx.schema.names if name not in one.names}
    told |= {name: _stats_of_constant(column, ctx.schema.field(name), one) for name, column in _constants(ctx, partition).items()}
    modes = [NONE if field.name in keys and field.name not in one.names else mode for field, mode in zip(shape.valued, shape.value_modes, strict=True)]
    asked = [field for field in held if field in shape.collected and field.name not in told]
    collecting = StatsCollector(shape.collected, told)
    with _name_file_in_failures(ctx, one):
        reader.scan_files(ctx, [file], [one.path], held).head(1).collect()
        if asked:
            for frame in reader.scan_files(ctx, [file], [one.path], asked).collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
                collecting.add(frame)
        _check_inside(ctx, one, partition, file)
    return replace(file, value_stats=collecting.stats(shape.valued, modes), value_stats_cols=shape.value_stats_cols)


def _constants(ctx: TableContext, partition: bytes) -> dict[str, pl.Series]:
    """The values of a partition, a row of each."""
    fields = ctx.schema.partition_fields
    columns = binary_row.decode_columns(pa.array([partition], pa.binary()), [field.type for field in fields])
    return {field.name: pl.Series(field.name, column).cast(polars_type(field.type)) for field, column in zip(fields, columns, strict=True)}


def _stats_of_constant(column: pl.Series, field: Field, one: MigratedFile) -> ColumnStats:
    """What is known of a column whose rows are all this one."""
    told = ColumnStats()
    told.add(column, field.type)
    told.nulls *= one.row_count
    return told


def _stats_of_nulls(one: MigratedFile) -> ColumnStats:
    told = ColumnStats()
    told.nulls = one.row_count
    return told


def _check_inside(ctx: TableContext, one: MigratedFile, partition: bytes, file: DataFileMeta) -> None:
    """Raises `SchemaMismatch` where a row has another value in a partition column than its folder says: it would be lost."""
    if not one.inside:
        return
    own = replace(ctx.schema, fields=tuple(replace(field, type=one.inside.get(field.name, field.type)) for field in ctx.schema.fields))
    frame = reader.scan_files(ctx.with_schema(own), [file], [one.path], own.fields_of(one.inside))
    said = _constants(ctx, partition)
    differs = [col(name).cast(said[name].dtype, strict=False).ne_missing(pl.lit(said[name]).first()).any() for name in one.inside]
    for name, wrong in frame.select(differs).collect().to_dict(as_series=False).items():  # scalar: one a partition column
        if wrong[0]:
            msg = f"{one.path}: rows have another value in column {name} than their folder says, {said[name].item()!r}, which the table would go by"
            raise SchemaMismatch(f"{msg}. Move the file to the right folder, or drop the column from it", column=name)


@contextmanager
def _name_file_in_failures(ctx: TableContext, one: MigratedFile) -> Iterator[None]:
    """What Polars says of a file that it cannot read as the table's, with the file's name."""
    try:
        with reader.translate_polars_errors(ctx, [one.path]):
            yield
    except LakekitError:
        raise
    except external_reader.FOREIGN_FAILURES as wrong:
        raise SchemaMismatch(f"{one.path}: Polars does not read its columns as Paimon's: {str(wrong).splitlines()[0][:300]}. Write it anew") from wrong
