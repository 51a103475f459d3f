"""The schemas of a table: every number there is, and what each says. A schema file never changes, so that decoding one twice is remembered by content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import BranchNotFound, Corrupt, TableNotFound
from lakekit.metadata import metadata_io
from lakekit.model.table_paths import MAIN
from lakekit.model.table_schema import TableSchema
from lakekit.storage import confine
from lakekit.storage.protocol import FileMissing, OutsideRoot
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.metadata.table_context import TableContext
    from lakekit.storage.protocol import Stat
    from lakekit.types import Field

_MAX_SHOWN = 12
_MAX_LISTED = 200
_NUMBER_BYTES = 300
"""About what one kept number takes."""
_YOUNG_MS = 20
"""Two files made one after the other may have one time and one inode: clocks of file systems go in steps of up to 10 ms."""


def ids(place: MetadataLocation) -> list[int]:
    """The numbers of all schemas, ascending."""
    return metadata_io.numbers(place, place.layout.schema_dir, place.layout.schema_prefix)


def newest_id(place: MetadataLocation) -> int | None:
    """The highest of them; None while there is none.

    A directory of a disk is not listed again while it is as it was: a clock that stands still hides a change of it, but not the file of the next number.
    """
    storage, layout = place.storage, place.layout
    seen = None if storage.is_remote else storage.stat(layout.schema_dir)
    if seen is None or seen.tag is None:
        found = ids(place)
        return found[-1] if found else None
    key = ("newest schema", storage, layout.schema_dir, layout.schema_prefix)
    known: tuple[str, int] | None = place.world.decoded.get(key)
    if known is not None and known[0] == seen.tag and not storage.exists(layout.schema(known[1] + 1)):
        return known[1]
    found = ids(place)
    if found:
        place.world.decoded.put({key: (seen.tag, found[-1])}, _NUMBER_BYTES)
    return found[-1] if found else None


def read(place: MetadataLocation, schema_id: int, *, seen: Stat | None = None) -> TableSchema:
    """The schema of that number, `seen` where it was just listed. Raises `Corrupt` when the table refers to one that is not there."""
    path = place.layout.schema(schema_id)
    try:
        found = _read_cached(place, path) if seen is None else metadata_io.read_listed(place, seen, TableSchema.from_json)
    except FileMissing:
        there = ", ".join(map(str, ids(place))) or "none"
        raise Corrupt(f"{place.name} refers to schema {schema_id}, which is not there; schemas are {there}", path=path, field="schemaId") from None
    if found.id != schema_id:
        raise Corrupt(f"{path} says it is schema {found.id}", path=path, field="id")
    return found


def _read_cached(place: MetadataLocation, path: str) -> TableSchema:
    """What a file says. One of a disk is not read again while it is as it was, unless it is so young that a clock may not tell it from another yet."""
    seen = None if place.storage.is_remote else place.storage.stat(path)
    if seen is None or seen.tag is None:
        return metadata_io.read(place, path, TableSchema.from_json)
    key = ("schema", place.storage, path)
    known: tuple[str, TableSchema] | None = place.world.decoded.get(key)
    if known is not None and known[0] == seen.tag:
        return known[1]
    found = metadata_io.read(place, path, TableSchema.from_json)
    if place.world.now_ms() - seen.modified_ms >= _YOUNG_MS:
        place.world.decoded.put({key: (seen.tag, found)}, _NUMBER_BYTES + 2 * seen.size_bytes)
    return found


def schema_of_file(ctx: TableContext, schema_id: int) -> TableSchema:
    """The schema that a file was written with: mostly the one the table is open with. Raises as `read`."""
    return ctx.schema if schema_id == ctx.schema.id else read(ctx, schema_id)


def is_same_table(ctx: TableContext) -> bool:
    """Whether the schema of a handle's number is the one it has: a table that was dropped and made anew begins again at 0.

    Raises `TableNotFound` where there is no table any more.
    """
    mine = ctx.schema
    listed = dict(metadata_io.list_numbered(ctx, ctx.layout.schema_dir, ctx.layout.schema_prefix)) if ctx.storage.is_remote else {}
    try:
        now = read(ctx, mine.id, seen=listed.get(mine.id))
    except Corrupt:
        known = ids(ctx)
        if not known:
            raise table_not_found(ctx, ctx.layout.root) from None
        if mine.id in known:
            raise
        return False
    return (now.time_millis, now.fields) == (mine.time_millis, mine.fields)


def latest(place: MetadataLocation, *, asked: str | None = None) -> TableSchema:
    """The schema of the highest number. Raises `TableNotFound` (or `BranchNotFound`) saying what is there instead; `asked` is the location as given."""
    if not place.storage.is_remote and (known := newest_id(place)) is not None:  # a disk is asked for the file in any case: its number is enough
        return read(place, known)
    found = metadata_io.list_numbered(place, place.layout.schema_dir, place.layout.schema_prefix)
    if not found:
        raise table_not_found(place, asked or place.layout.root)
    newest, seen = found[-1]
    return read(place, newest, seen=seen)


def all(place: MetadataLocation) -> list[TableSchema]:  # noqa: A001 - schemas.all(handle) reads as meant
    """Every schema, by number."""
    known = metadata_io.list_numbered(place, place.layout.schema_dir, place.layout.schema_prefix)
    return parallel_map(lambda pair: read(place, pair[0], seen=pair[1]), known, waiting=place.storage.is_remote)


def have_types_always(ctx: TableContext, fields: Sequence[Field]) -> bool:
    """Return whether columns have had their types in every schema: what was made of their values, such as the hash of a bucket, is what it is today.

    Those of a primary key and of partitions never change theirs. Rows of older types may lie in files of the newest schema: compaction leaves them where
    they are: so every schema is read, once for the newest.
    """
    schema = ctx.schema
    fixed = {*schema.primary_keys, *schema.partition_keys}
    asked = [field for field in fields if field.name not in fixed]
    if not asked or ctx.newest_schema_id == 0:
        return True
    if schema.id != ctx.newest_schema_id:
        return _had_types(ctx, asked)
    types = tuple((field.id, field.type) for field in asked)
    key = ("types always", ctx.storage, ctx.layout.schema_dir, schema.id, schema.time_millis, types)
    known: bool | None = ctx.world.decoded.get(key)
    if known is None:
        known = _had_types(ctx, asked)
        ctx.world.decoded.put({key: known}, _NUMBER_BYTES)
    return known


def _had_types(ctx: TableContext, fields: Sequence[Field]) -> bool:
    for schema in all(ctx):
        types = {field.id: field.type.as_nullable() for field in schema.fields}
        if any(types.get(field.id) != field.type.as_nullable() for field in fields):
            return False
    return True


# ---- when there is none ----------------------------------------------------------------------------------------------------------------------


def table_not_found(place: MetadataLocation, asked: str) -> TableNotFound | BranchNotFound:
    """The error of a location without schema, with what the location looks like instead."""
    layout, storage = place.layout, place.storage
    if layout.branch != MAIN and metadata_io.numbers(place, f"{layout.root}/schema", "schema-"):
        from_list = [one.name.removeprefix("branch-") for one in storage.list(layout.branches_dir) if one.is_dir and one.name.startswith("branch-")]
        there = f"its branches are {', '.join(from_list)}" if from_list else "it has no branches"
        return BranchNotFound(f"{place.name} has no branch {layout.branch!r}; {there}", name=layout.branch)
    return TableNotFound(f'no Paimon table at "{asked}": {_describe_location(place)}', name=asked)


def _describe_location(place: MetadataLocation) -> str:
    layout, storage = place.layout, place.storage
    found = storage.stat(layout.root)
    if found is None:
        return "there is no such folder"
    if not found.is_dir:
        return "it is a file; a table is a folder"
    inside = storage.list(layout.root)
    if any(one.name == "schema" and one.is_dir for one in inside):
        return "its schema/ folder holds no file schema-0, schema-1, …"
    return "it has no schema/ folder" + _describe_folder(place, inside)


def _describe_folder(place: MetadataLocation, inside: list[Stat]) -> str:
    parent, _, own = place.layout.root.rpartition("/")
    tables = [one.name for one in inside[:_MAX_LISTED] if one.is_dir and _is_table(place, one.path)]
    if tables:
        return f". It looks like a database; its tables are {_join_names(tables)}"
    databases = [one.name.removesuffix(".db") for one in inside if one.is_dir and one.name.endswith(".db")]
    if databases:
        return f". It looks like a warehouse; its databases are {_join_names(databases)}"
    if _is_table(place, parent):
        return f'. It is the {own} folder of the table "{parent}"'
    return ""


def _is_table(place: MetadataLocation, directory: str) -> bool:
    """Whether a table lies in a folder in or above the one that is no table."""
    try:
        listed = confine(place.storage, directory).list(f"{directory}/schema")
    except OutsideRoot:
        return False
    return any(not one.is_dir and one.name.removeprefix("schema-").isdecimal() for one in listed if one.name.startswith("schema-"))


def _join_names(names: list[str]) -> str:
    more = len(names) - _MAX_SHOWN
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")
