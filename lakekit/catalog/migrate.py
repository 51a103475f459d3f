"""Take over files that other engines wrote as a table of a catalog.

`format_table` says what lies at the source, `maintenance.migrate` makes the table, and the name comes last.

A source is a folder, or a format table, whose columns are said already. With `move` the source is touched last: when the table has its name, files and the
folders that they leave empty go. A process that dies in between leaves a whole table, and files at both places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakekit import maintenance, storage as storages
from lakekit.catalog import appearing, identifier
from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.columns_given import type_of
from lakekit.errors import InvalidOption, StorageFailed, Unsupported
from lakekit.format import foreign_file
from lakekit.format.encoder import check_types
from lakekit.format_table import foreign_files as lying, joined, kinds, listing
from lakekit.format_table.foreign_files import ForeignFile, ForeignSource
from lakekit.table.format_tables import FormatTable
from lakekit.table.table import Table
from lakekit.types import TIMESTAMPS, Field
from lakekit.world import parallel_map, warn_user

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.catalog.catalog import Catalog
    from lakekit.catalog.metastore import Metastore
    from lakekit.format.held import ForeignFileSchema
    from lakekit.format_table.joined import MergedSchema
    from lakekit.maintenance.migrate import MigratedFile
    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage import PathLike

_NAME = re.compile(r"[^/\\:]+\.[^/\\:]+")
_LEGACY_LTZ_KEY = "orc.timestamp-ltz.legacy.type"
"""Whether Java takes instants in ORC files for wall clocks of its own zone, as its own older writers stored them."""
_FIXED_OPTIONS = {"bucket": "-1", "primary-key": None}
"""What such a table is; None: has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateRequest:
    """What a caller wants of the table to come."""

    move: bool
    partition_types: Mapping[str, Any]
    options: Mapping[str, Any]
    storage_options: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ForeignTable:
    """What lies at the source and what each file holds; columns in the order of the table, the partition's values of each file."""

    source: ForeignSource
    helds: tuple[ForeignFileSchema, ...]
    typed: MergedSchema
    fields: tuple[Field, ...]
    values: tuple[tuple[object, ...], ...]
    comment: str | None = None


def migrate(catalog: Catalog, source: str | PathLike | Table, metastore: Metastore, to: str, asked: MigrateRequest) -> None:
    """Makes a table of the files of a source.

    Raises what `format_table.foreign_files.source`, `format.foreign_file.read_foreign_schema`, `format_table.joined` and `maintenance.migrate` raise.
    """
    name = identifier.new_table(to, "createTable")
    appearing.check_free(metastore, name, "nothing was taken over")
    _check_options(asked.options)
    found = _read(catalog, source, asked)

    def take(ground: TableLocation) -> TableSchema:
        known = _schemas(catalog, ground, found, asked)
        return maintenance.migrate.migrate(found.source.storage, _build_migrated_files(found, known), known, ground, move=asked.move)

    appearing.create_and_register(metastore, name, take, "files were taken over")
    _warn_of_decimals(name.full, found.helds)
    if asked.move:
        _remove(found.source, name.full)


def _warn_of_decimals(name: str, helds: Sequence[ForeignFileSchema]) -> None:
    columns = sorted({column for held in helds for column in held.byte_decimals})
    if columns:
        warn_user(
            f"{name}: DECIMAL columns {', '.join(columns)} lie as bytes in its Parquet files, where Paimon writes numbers. lakekit reads and filters "
            "them; the Java engine 1.4.2 reads them and fails where it filters by them. Where that matters, write the rows anew: t.overwrite(t.scan())"
        )


def _check_options(options: Mapping[str, Any]) -> None:
    for key, only in _FIXED_OPTIONS.items():
        if options.get(key) is not None and str(options[key]) != only:
            raise InvalidOption(
                f"files are taken over as they lie, into an append table with bucket=-1: {key}={options[key]} would have their rows written anew. "
                "Leave it out, or append the rows to a table of your own",
                key=key,
                value=str(options[key]),
            )


# ---- what lies there -----------------------------------------------------------------------------


def _read(catalog: Catalog, source: str | PathLike | Table, asked: MigrateRequest) -> _ForeignTable:
    table = source if isinstance(source, Table) else _find_table(catalog, source)
    if table is not None:
        return _of_format_table(table, asked)
    assert not isinstance(source, Table)
    own, text = asked.storage_options, source if isinstance(source, str) else source.__fspath__()
    if catalog.storage is not None and own is None and "://" not in text:
        root = text.rstrip("/")
        storage = storages.confine(catalog.storage, root)
    else:
        storage, root = storages.open(text, catalog.storage_options if own is None else own)
    found = lying.source(storage, root)
    paths, helds = [one.path for one in found.files], _read_file_schemas(found)
    typed = joined.merge_schemas(paths, helds, found.keys)
    given = {name: type_of(t, name).as_nullable() for name, t in asked.partition_types.items()}
    keys = joined.partition_fields(found.keys, [one.texts for one in found.files], paths, helds, given)
    values = tuple(joined.values(one.path, one.texts, keys) for one in found.files)
    return _ForeignTable(source=found, helds=helds, typed=typed, fields=(*typed.fields, *keys), values=values)


def _find_table(catalog: Catalog, source: str | PathLike) -> Table | None:
    """The table of the catalog that a text names, if it is no path."""
    return catalog.table(source) if isinstance(source, str) and _NAME.fullmatch(source) and catalog.exists(source) else None


def _of_format_table(table: Table, asked: MigrateRequest) -> _ForeignTable:
    if not isinstance(table, FormatTable):
        raise Unsupported(f"{table.name} is no format table, whose files lie in a folder; cat.clone copies tables", feature="procedure.migrate_table")
    ctx = table.facts()
    if kinds.format_of(ctx) not in kinds.COLUMNAR:
        form = kinds.format_of(ctx)
        msg = f"{table.name} is a format table of {form} files, which are not taken over as they lie. Append its rows: t.append(f.scan())"
        raise Unsupported(msg, feature="procedure.migrate_table")
    if asked.partition_types:
        raise InvalidOption(f"{table.name} says itself which types its partition columns have", key="partition_types", value=None)
    found, values = _list_source_files(ctx)
    helds = _read_file_schemas(found)
    typed = joined.merge_with_declared([one.path for one in found.files], helds, ctx.schema.fields, ctx.schema.partition_keys)
    return _ForeignTable(source=found, helds=helds, typed=typed, fields=ctx.schema.fields, values=values, comment=ctx.schema.comment)


def _list_source_files(ctx: TableContext) -> tuple[ForeignSource, tuple[tuple[object, ...], ...]]:
    """The files of a format table, and the partition values of each."""
    storage, root = listing.files_location(ctx)
    level = listing.list_partitions(ctx)
    files = listing.files(ctx, [one.directory for one in level])
    pairs = [(one, file) for one, some in zip(level, files, strict=True) for file in some if file.size_bytes]
    format_name = kinds.format_of(ctx)
    found = tuple(ForeignFile(path=file.path, size_bytes=file.size_bytes, format_name=format_name) for _, file in pairs)
    inside = [one.directory[len(root) :].strip("/").split("/") for one in level if one.directory != root]
    above = {"/".join((root, *parts[: depth + 1])) for parts in inside for depth in range(len(parts))}
    folders = sorted(above, key=lambda folder: (-folder.count("/"), folder))
    return ForeignSource(storage=storage, root=root, keys=ctx.schema.partition_keys, files=found, folders=tuple(folders)), tuple(one.values for one, _ in pairs)


def _read_file_schemas(found: ForeignSource) -> tuple[ForeignFileSchema, ...]:
    storage = found.storage

    def held(one: ForeignFile) -> ForeignFileSchema:
        return foreign_file.read_foreign_schema(one.format_name, one.path, lambda offset, length: storage.read(one.path, offset, length), one.size_bytes)

    return tuple(parallel_map(held, found.files, waiting=storage.is_remote))


# ---- the table -----------------------------------------------------------------------------------


def _schemas(catalog: Catalog, ground: TableLocation, found: _ForeignTable, asked: MigrateRequest) -> list[TableSchema]:
    """The schemas of the table: one for each way in which files differ from its own, then its own."""
    formats = [one.format_name for one in found.source.files]
    common = max(sorted(set(formats)), key=formats.count, default="parquet")
    defaults = catalog._settings().table_defaults  # noqa: SLF001 - of the same house
    given = {**defaults, "file.format": common, **{key: value for key, value in asked.options.items() if value is not None}, "bucket": "-1"}
    if "orc" in formats and any(field.type.holds(TIMESTAMPS - {"TIMESTAMP"}) for field in found.fields):
        given.setdefault(_LEGACY_LTZ_KEY, "false")
    check_types(str(given["file.format"]).strip().lower(), [field for field in found.fields if field.name not in found.source.keys])
    own = schemas.make_first_schema(ground, found.fields, partition_keys=found.source.keys, options=given, comment=found.comment)
    differing = dict.fromkeys(tuple(sorted(one.items(), key=lambda pair: pair[0])) for one in found.typed.older if one)
    older = []
    for number, types in enumerate(dict(pairs) for pairs in differing):
        older.append(replace(own, id=number, fields=tuple(replace(field, type=types.get(field.name, field.type)) for field in own.fields)))
    return [*older, replace(own, id=len(older))]


def _build_migrated_files(found: _ForeignTable, known: Sequence[TableSchema]) -> list[MigratedFile]:
    """The files, each with the schema that says its types."""
    by_types = {tuple(field.type for field in schema.fields): schema.id for schema in known}
    keys, own = set(found.source.keys), known[-1].fields
    taken = []
    for one, held, older, values in zip(found.source.files, found.helds, found.typed.older, found.values, strict=True):
        types = {field.name: field.type for field in held.fields}
        taken.append(
            maintenance.migrate.MigratedFile(
                path=one.path,
                size_bytes=one.size_bytes,
                row_count=held.row_count,
                format_name=one.format_name,
                values=values,
                names=frozenset(types),
                stats=held.told,
                schema_id=by_types[tuple(older.get(field.name, field.type) for field in own)],
                inside={name: t for name, t in types.items() if name in keys},
            )
        )
    return taken


# ---- what was moved ------------------------------------------------------------------------------


def _remove(source: ForeignSource, name: str) -> None:
    """Takes away what the table has now, and folders that are empty then. What stays is told: the table has its rows all the same."""
    try:
        source.storage.delete([*(one.path for one in source.files), *source.beside])
        source.storage.remove_directories(source.folders)
    except StorageFailed as failed:
        warn_user(f'{name} has all rows, but not all files could be taken away from "{source.root}": {failed.message}. Delete what is left there')
