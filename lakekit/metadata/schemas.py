"""List and read the schemas of a table.

A schema file never changes, so decoded schemas are cached by content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lakekit.errors import BranchNotFound, Corrupt, TableNotFound
from lakekit.metadata import metadata_io
from lakekit.metadata.metadata_io import MetadataLocation
from lakekit.model.table_paths import MAIN_BRANCH
from lakekit.model.table_schema import TableSchema
from lakekit.parallel import parallel_map
from lakekit.storage import confine
from lakekit.storage.protocol import FileMissing, OutsideRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.storage.protocol import Stat
    from lakekit.types import Field

_MAX_SHOWN = 12
_MAX_LISTED = 200
_NUMBER_BYTES = 300
"""About what one kept number takes."""
_YOUNG_MS = 20
"""Two files made one after the other may have one time and one inode: clocks of file systems go in steps of up to 10
ms.
"""


def list_ids(location: MetadataLocation) -> list[int]:
    """Return the ids of all schemas, ascending."""
    return metadata_io.list_ids(location, location.paths.schema_dir, location.paths.schema_prefix)


def newest_id(location: MetadataLocation) -> int | None:
    """Return the highest schema id; None if there is none.

    A local directory is not listed again while its stat is unchanged: a clock with coarse steps can hide a change of
    it, but not the file of the next id, which is checked.
    """
    storage, layout = location.storage, location.paths
    stat = None if storage.is_remote else storage.stat(layout.schema_dir)
    if stat is None or stat.tag is None:
        schema_ids = list_ids(location)
        return schema_ids[-1] if schema_ids else None
    key = ("newest schema", storage, layout.schema_dir, layout.schema_prefix)
    cached: tuple[str, int] | None = location.runtime.metadata_cache.get(key)
    if cached is not None and cached[0] == stat.tag and not storage.exists(layout.schema(cached[1] + 1)):
        return cached[1]
    schema_ids = list_ids(location)
    if schema_ids:
        location.runtime.metadata_cache.put({key: (stat.tag, schema_ids[-1])}, _NUMBER_BYTES)
    return schema_ids[-1] if schema_ids else None


class _OpenedTable(MetadataLocation, Protocol):
    """What these functions need of a table that is open. A `TableContext` is one."""

    @property
    def schema(self) -> TableSchema: ...

    @property
    def newest_schema_id(self) -> int: ...


def read_schema(location: MetadataLocation, schema_id: int, *, stat: Stat | None = None) -> TableSchema:
    """Return the schema of an id; `stat` if it was just listed.

    Raises `Corrupt` if the table refers to a schema that does not exist.
    """
    path = location.paths.schema(schema_id)
    try:
        schema = (
            _read_cached(location, path)
            if stat is None
            else metadata_io.read_listed_json_file(location, stat, TableSchema.from_json)
        )
    except FileMissing:
        existing = ", ".join(map(str, list_ids(location))) or "none"
        raise Corrupt(
            f"{location.name} refers to schema {schema_id}, which is not there; schemas are {existing}",
            path=path,
            field="schemaId",
        ) from None
    if schema.id != schema_id:
        raise Corrupt(f"{path} says it is schema {schema.id}", path=path, field="id")
    return schema


def _read_cached(location: MetadataLocation, path: str) -> TableSchema:
    """Read a schema file, a local one with unchanged stat only once.

    One so young that a clock may not tell it from another yet is read again.
    """
    stat = None if location.storage.is_remote else location.storage.stat(path)
    if stat is None or stat.tag is None:
        return metadata_io.read_json_file(location, path, TableSchema.from_json)
    key = ("schema", location.storage, path)
    cached: tuple[str, TableSchema] | None = location.runtime.metadata_cache.get(key)
    if cached is not None and cached[0] == stat.tag:
        return cached[1]
    schema = metadata_io.read_json_file(location, path, TableSchema.from_json)
    if location.runtime.now_ms() - stat.modified_ms >= _YOUNG_MS:
        location.runtime.metadata_cache.put({key: (stat.tag, schema)}, _NUMBER_BYTES + 2 * stat.size_bytes)
    return schema


def schema_of_file(ctx: _OpenedTable, schema_id: int) -> TableSchema:
    """Return the schema that a file was written with, mostly the table's own. Raises as `read_schema`."""
    return ctx.schema if schema_id == ctx.schema.id else read_schema(ctx, schema_id)


def is_same_table(ctx: _OpenedTable) -> bool:
    """Return whether the schema file of the context's id still holds the context's schema.

    A table that was dropped and created again begins again at id 0. Raises `TableNotFound` if there is no table any
    more.
    """
    own_schema = ctx.schema
    listed = (
        dict(metadata_io.list_ids_with_stat(ctx, ctx.paths.schema_dir, ctx.paths.schema_prefix))
        if ctx.storage.is_remote
        else {}
    )
    try:
        current = read_schema(ctx, own_schema.id, stat=listed.get(own_schema.id))
    except Corrupt:
        schema_ids = list_ids(ctx)
        if not schema_ids:
            raise table_not_found(ctx, ctx.paths.root) from None
        if own_schema.id in schema_ids:
            raise
        return False
    return (current.time_millis, current.fields) == (own_schema.time_millis, own_schema.fields)


def read_latest(location: MetadataLocation, *, given_path: str | None = None) -> TableSchema:
    """Return the schema of the highest id; `given_path` is the location as the caller wrote it.

    Raises `TableNotFound` (or `BranchNotFound`) that describes what is at the location instead.
    """
    # a local file is looked up by `read_schema` in any case, so that its id is enough here
    if not location.storage.is_remote and (schema_id := newest_id(location)) is not None:
        return read_schema(location, schema_id)
    listed = metadata_io.list_ids_with_stat(location, location.paths.schema_dir, location.paths.schema_prefix)
    if not listed:
        raise table_not_found(location, given_path or location.paths.root)
    newest, stat = listed[-1]
    return read_schema(location, newest, stat=stat)


def read_all(location: MetadataLocation) -> list[TableSchema]:
    """Return every schema, by id."""
    listed = metadata_io.list_ids_with_stat(location, location.paths.schema_dir, location.paths.schema_prefix)
    return parallel_map(
        lambda pair: read_schema(location, pair[0], stat=pair[1]), listed, waiting=location.storage.is_remote
    )


def have_constant_types(ctx: _OpenedTable, fields: Sequence[Field]) -> bool:
    """Return whether columns have had their types in every schema.

    If so, values derived from them, such as the hash of a bucket, are what they would be today. Columns of a primary
    key and of partitions never change their types. Rows of older types may be in files of the newest schema, as
    compaction leaves them there; so every schema is read, once for the newest.
    """
    schema = ctx.schema
    fixed = {*schema.primary_keys, *schema.partition_keys}
    changeable = [field for field in fields if field.name not in fixed]
    if not changeable or ctx.newest_schema_id == 0:
        return True
    if schema.id != ctx.newest_schema_id:
        return _had_types(ctx, changeable)
    types = tuple((field.id, field.type) for field in changeable)
    key = ("types always", ctx.storage, ctx.paths.schema_dir, schema.id, schema.time_millis, types)
    cached: bool | None = ctx.runtime.metadata_cache.get(key)
    if cached is None:
        cached = _had_types(ctx, changeable)
        ctx.runtime.metadata_cache.put({key: cached}, _NUMBER_BYTES)
    return cached


def _had_types(ctx: _OpenedTable, fields: Sequence[Field]) -> bool:
    for schema in read_all(ctx):
        types = {field.id: field.type.as_nullable() for field in schema.fields}
        if any(types.get(field.id) != field.type.as_nullable() for field in fields):
            return False
    return True


# ---- when there is none ----------------------------------------------------------------------------------------------


def table_not_found(location: MetadataLocation, given_path: str) -> TableNotFound | BranchNotFound:
    """Return the error for a location without schema, with what the location looks like instead."""
    layout, storage = location.paths, location.storage
    if layout.branch != MAIN_BRANCH and metadata_io.list_ids(location, f"{layout.root}/schema", "schema-"):
        from_list = [
            entry.name.removeprefix("branch-")
            for entry in storage.list(layout.branches_dir)
            if entry.is_dir and entry.name.startswith("branch-")
        ]
        hint = f"its branches are {', '.join(from_list)}" if from_list else "it has no branches"
        return BranchNotFound(f"{location.name} has no branch {layout.branch!r}; {hint}", name=layout.branch)
    return TableNotFound(f'no Paimon table at "{given_path}": {_describe_location(location)}', name=given_path)


def _describe_location(location: MetadataLocation) -> str:
    layout, storage = location.paths, location.storage
    stat = storage.stat(layout.root)
    if stat is None:
        return "there is no such folder"
    if not stat.is_dir:
        return "it is a file; a table is a folder"
    inside = storage.list(layout.root)
    if any(entry.name == "schema" and entry.is_dir for entry in inside):
        return "its schema/ folder holds no file schema-0, schema-1, …"
    return "it has no schema/ folder" + _describe_folder(location, inside)


def _describe_folder(location: MetadataLocation, entries: list[Stat]) -> str:
    parent, _, own = location.paths.root.rpartition("/")
    tables = [entry.name for entry in entries[:_MAX_LISTED] if entry.is_dir and _is_table(location, entry.path)]
    if tables:
        return f". It looks like a database; its tables are {_join_names(tables)}"
    databases = [entry.name.removesuffix(".db") for entry in entries if entry.is_dir and entry.name.endswith(".db")]
    if databases:
        return f". It looks like a warehouse; its databases are {_join_names(databases)}"
    if _is_table(location, parent):
        return f'. It is the {own} folder of the table "{parent}"'
    return ""


def _is_table(location: MetadataLocation, directory: str) -> bool:
    """Return whether a folder holds a table; it is inside or above the one that does not."""
    try:
        listed = confine(location.storage, directory).list(f"{directory}/schema")
    except OutsideRoot:
        return False
    return any(
        not entry.is_dir and entry.name.removeprefix("schema-").isdecimal()
        for entry in listed
        if entry.name.startswith("schema-")
    )


def _join_names(names: list[str]) -> str:
    more = len(names) - _MAX_SHOWN
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")
