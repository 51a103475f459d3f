"""Take over files that other engines wrote as a table of a catalog.

`format_table` describes the source, `maintenance.migrate` makes the table, and the name is registered last.

A source is a folder, or a format table, which declares its columns. With `move` the source is changed last: when the
table has its name, files and the folders that they leave empty are deleted. A process that dies in between leaves a
complete table, and files at both places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakekit import maintenance, storage as storages
from lakekit.catalog import identifier, operations
from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.table_definition import to_paimon_type
from lakekit.errors import InvalidOption, StorageFailed, Unsupported
from lakekit.format import foreign_file
from lakekit.format.encoder import check_types
from lakekit.format_table import foreign_files, scan
from lakekit.format_table.foreign_files import ForeignFile, ForeignSource
from lakekit.parallel import parallel_map
from lakekit.runtime import warn_user
from lakekit.table.format_tables import FormatTable
from lakekit.table.table import Table
from lakekit.types import TIMESTAMPS, Field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.catalog.catalog_core import CatalogCore
    from lakekit.catalog.metastore import Metastore
    from lakekit.format.foreign_file import ForeignFileSchema
    from lakekit.format_table.foreign_files import MergedSchema
    from lakekit.maintenance.migrate import MigratedFile
    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage import PathLike

_HIVE_TABLE_NAME = re.compile(r"[^/\\:]+\.[^/\\:]+")
_LEGACY_LTZ_KEY = "orc.timestamp-ltz.legacy.type"
"""Whether Java takes instants in ORC files for wall clocks of its own zone, as its own older writers stored them."""
_FIXED_OPTIONS = {"bucket": "-1", "primary-key": None}
"""What such a table is; None: has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateRequest:
    """The settings of a migration."""

    move: bool
    partition_types: Mapping[str, Any]
    options: Mapping[str, Any]
    storage_options: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ForeignTable:
    """The files of the source and the schema of each.

    `fields`: the columns in the order of the table; `partition_values`: the partition values of each file.
    """

    source: ForeignSource
    file_schemas: tuple[ForeignFileSchema, ...]
    merged_schema: MergedSchema
    fields: tuple[Field, ...]
    partition_values: tuple[tuple[object, ...], ...]
    comment: str | None = None


def is_table_name(source: str) -> bool:
    """Return whether a text may be the name of a table, "db.t", and no path."""
    return _HIVE_TABLE_NAME.fullmatch(source) is not None


def migrate(
    catalog: CatalogCore, source: str | PathLike | Table, metastore: Metastore, to: str, request: MigrateRequest
) -> None:
    """Make a table of the files of a source.

    Raises what `format_table.foreign_files.list_source`, `format.foreign_file.read_foreign_schema`,
    `format_table.foreign_files` and `maintenance.migrate` raise.
    """
    name = identifier.new_table(to, "createTable")
    operations.check_name_is_free(metastore, name, "nothing was taken over")
    _check_options(request.options)
    foreign = _read_source(catalog, source, request)

    def take(target: TableLocation) -> TableSchema:
        table_schemas = _build_schemas(catalog, target, foreign, request)
        return maintenance.migrate.create_migrated_table(
            foreign.source.storage,
            _build_migrated_files(foreign, table_schemas),
            table_schemas,
            target,
            move=request.move,
        )

    operations.create_and_register(metastore, name, take, "files were taken over")
    _warn_of_decimals(name.full, foreign.file_schemas)
    if request.move:
        _delete_source_files(foreign.source, name.full)


def _warn_of_decimals(name: str, file_schemas: Sequence[ForeignFileSchema]) -> None:
    columns = sorted({column for file_schema in file_schemas for column in file_schema.byte_decimals})
    if columns:
        warn_user(
            f"{name}: DECIMAL columns {', '.join(columns)} lie as bytes in its Parquet files, where Paimon writes "
            "numbers. lakekit reads and filters "
            "them; the Java engine 1.4.2 reads them and fails where it filters by them. Where that matters, write the "
            "rows anew: t.overwrite(t.scan())"
        )


def _check_options(options: Mapping[str, Any]) -> None:
    for key, only in _FIXED_OPTIONS.items():
        if options.get(key) is not None and str(options[key]) != only:
            raise InvalidOption(
                f"files are taken over as they lie, into an append table with bucket=-1: {key}={options[key]} would "
                "have their rows written anew. "
                "Leave it out, or append the rows to a table of your own",
                key=key,
                value=str(options[key]),
            )


# ---- the source ----------------------------------------------------------------------------------


def _read_source(catalog: CatalogCore, source: str | PathLike | Table, request: MigrateRequest) -> _ForeignTable:
    if isinstance(source, Table):
        return _read_format_table(source, request)
    own, text = request.storage_options, source if isinstance(source, str) else source.__fspath__()
    if catalog.storage is not None and own is None and "://" not in text:
        root = text.rstrip("/")
        storage = storages.confine(catalog.storage, root)
    else:
        storage, root = storages.open(text, catalog.storage_options if own is None else own)
    files = foreign_files.list_source(storage, root)
    paths, file_schemas = [file.path for file in files.files], _read_file_schemas(files)
    typed = foreign_files.merge_schemas(paths, file_schemas, files.keys)
    types = {name: to_paimon_type(t, name).as_nullable() for name, t in request.partition_types.items()}
    keys = foreign_files.partition_fields(
        files.keys, [file.partition_texts for file in files.files], paths, file_schemas, types
    )
    values = tuple(foreign_files.parse_partition_values(file.path, file.partition_texts, keys) for file in files.files)
    return _ForeignTable(
        source=files,
        file_schemas=file_schemas,
        merged_schema=typed,
        fields=(*typed.fields, *keys),
        partition_values=values,
    )


def _read_format_table(table: Table, request: MigrateRequest) -> _ForeignTable:
    if not isinstance(table, FormatTable):
        raise Unsupported(
            f"{table.name} is no format table, whose files lie in a folder; cat.clone copies tables",
            feature="procedure.migrate_table",
        )
    ctx = table.facts()
    if scan.table_format(ctx) not in scan.COLUMNAR_FORMATS:
        form = scan.table_format(ctx)
        msg = (
            f"{table.name} is a format table of {form} files, which are not taken over as they lie. Append its rows: "
            "t.append(f.scan())"
        )
        raise Unsupported(msg, feature="procedure.migrate_table")
    if request.partition_types:
        raise InvalidOption(
            f"{table.name} says itself which types its partition columns have", key="partition_types", value=None
        )
    files, values = _list_source_files(ctx)
    file_schemas = _read_file_schemas(files)
    typed = foreign_files.merge_with_declared(
        [file.path for file in files.files], file_schemas, ctx.schema.fields, ctx.schema.partition_keys
    )
    return _ForeignTable(
        source=files,
        file_schemas=file_schemas,
        merged_schema=typed,
        fields=ctx.schema.fields,
        partition_values=values,
        comment=ctx.schema.comment,
    )


def _list_source_files(ctx: TableContext) -> tuple[ForeignSource, tuple[tuple[object, ...], ...]]:
    """Return the files of a format table, and the partition values of each."""
    storage, root = scan.files_location(ctx)
    level = scan.list_partitions(ctx)
    files = scan.list_files(ctx, [partition.directory for partition in level])
    pairs = [
        (partition, file)
        for partition, entries in zip(level, files, strict=True)
        for file in entries
        if file.size_bytes
    ]
    format_name = scan.table_format(ctx)
    row_files = tuple(
        ForeignFile(path=file.path, size_bytes=file.size_bytes, format_name=format_name) for _, file in pairs
    )
    inside = [
        partition.directory[len(root) :].strip("/").split("/") for partition in level if partition.directory != root
    ]
    above = {"/".join((root, *parts[: depth + 1])) for parts in inside for depth in range(len(parts))}
    folders = sorted(above, key=lambda folder: (-folder.count("/"), folder))
    return ForeignSource(
        storage=storage, root=root, keys=ctx.schema.partition_keys, files=row_files, folders=tuple(folders)
    ), tuple(partition.partition_values for partition, _ in pairs)


def _read_file_schemas(source: ForeignSource) -> tuple[ForeignFileSchema, ...]:
    storage = source.storage

    def read_schema(file: ForeignFile) -> ForeignFileSchema:
        return foreign_file.read_foreign_schema(
            file.format_name, file.path, lambda offset, length: storage.read(file.path, offset, length), file.size_bytes
        )

    return tuple(parallel_map(read_schema, source.files, waiting=storage.is_remote))


# ---- the table -----------------------------------------------------------------------------------


def _build_schemas(
    catalog: CatalogCore, target: TableLocation, foreign: _ForeignTable, request: MigrateRequest
) -> list[TableSchema]:
    """Return one schema for each set of differing file types, then the table's own schema."""
    formats = [item.format_name for item in foreign.source.files]
    common = max(sorted(set(formats)), key=formats.count, default="parquet")
    defaults = catalog._settings().table_defaults  # noqa: SLF001 - of the same house
    options = {
        **defaults,
        "file.format": common,
        **{key: value for key, value in request.options.items() if value is not None},
        "bucket": "-1",
    }
    if "orc" in formats and any(field.type.holds(TIMESTAMPS - {"TIMESTAMP"}) for field in foreign.fields):
        options.setdefault(_LEGACY_LTZ_KEY, "false")
    check_types(
        str(options["file.format"]).strip().lower(),
        [field for field in foreign.fields if field.name not in foreign.source.keys],
    )
    own = schemas.make_first_schema(
        target, foreign.fields, partition_keys=foreign.source.keys, options=options, comment=foreign.comment
    )
    differing = dict.fromkeys(
        tuple(sorted(item.items(), key=lambda pair: pair[0])) for item in foreign.merged_schema.file_types if item
    )
    older = []
    for number, types in enumerate(dict(pairs) for pairs in differing):
        older.append(
            replace(
                own,
                id=number,
                fields=tuple(replace(field, type=types.get(field.name, field.type)) for field in own.fields),
            )
        )
    return [*older, replace(own, id=len(older))]


def _build_migrated_files(foreign: _ForeignTable, table_schemas: Sequence[TableSchema]) -> list[MigratedFile]:
    """Return the files, each with the id of the schema that has its types."""
    by_types = {tuple(field.type for field in schema.fields): schema.id for schema in table_schemas}
    keys, own = set(foreign.source.keys), table_schemas[-1].fields
    taken = []
    for file, file_schema, older, values in zip(
        foreign.source.files,
        foreign.file_schemas,
        foreign.merged_schema.file_types,
        foreign.partition_values,
        strict=True,
    ):
        types = {field.name: field.type for field in file_schema.fields}
        taken.append(
            maintenance.migrate.MigratedFile(
                path=file.path,
                size_bytes=file.size_bytes,
                row_count=file_schema.row_count,
                format_name=file.format_name,
                partition_values=values,
                column_names=frozenset(types),
                stats=file_schema.column_stats,
                schema_id=by_types[tuple(older.get(field.name, field.type) for field in own)],
                partition_types={name: t for name, t in types.items() if name in keys},
            )
        )
    return taken


# ---- removal of the source -----------------------------------------------------------------------


def _delete_source_files(source: ForeignSource, name: str) -> None:
    """Delete the migrated files at the source, and folders that are empty then; a failure is a warning."""
    try:
        source.storage.delete([*(file.path for file in source.files), *source.metadata_files])
        source.storage.remove_directories(source.folders)
    except StorageFailed as failed:
        warn_user(
            f'{name} has all rows, but not all files could be taken away from "{source.root}": {failed.message}. '
            "Delete what is left there"
        )
