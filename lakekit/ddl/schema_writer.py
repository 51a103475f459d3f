"""Write schemas: the first one of a table, and the next one.

    create_table_schema(location, fields, primary_keys=("k",))      schema/schema-0
    alter_schema(ctx, changes)                                      schema/schema-<n+1>

Every schema is checked as a whole before it is written. It is written only where no schema of its id exists; a writer
that loses that race begins again with the schema of the other.

Source: ENGINE.md 1.4, 1.5, `SchemaManager`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekit.ddl.apply_changes import apply_changes
from lakekit.ddl.schema_changes import SetOption, normalize_options
from lakekit.ddl.schema_validation import check_reference_can_write, check_schema, ignored_options
from lakekit.ddl.table_definition import check_default, define_table
from lakekit.errors import Corrupt, InvalidOption, RetriesExhausted, SchemaMismatch, TableAlreadyExists, Unsupported
from lakekit.metadata import schemas, snapshots, table_context
from lakekit.model.table_paths import is_plain_name
from lakekit.model.table_schema import CURRENT_VERSION, TableSchema, assign_ids
from lakekit.options.features import OBJECT_TABLE, check_supported
from lakekit.options.option import FrozenDict
from lakekit.runtime import warn_user
from lakekit.storage.atomic_write import create_exclusive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.ddl.schema_changes import TableChange
    from lakekit.metadata.table_context import HeldLock, TableContext, TableLocation
    from lakekit.types import Field

CATALOG_ONLY_TYPES = {OBJECT_TABLE: "cat.create_object_table", "format-table": "cat.create_format_table"}
"""Kinds of tables that folders are, and what begins one."""
MAX_RACES = 200
"""Races that one change of a schema may lose; each is a change by another writer meanwhile."""


def create_table_schema(
    location: TableLocation,
    fields: Iterable[Field],
    *,
    primary_keys: Iterable[str] = (),
    partition_keys: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """Write `schema-0`, and return it.

    Raises: `TableAlreadyExists`, and whatever `define_table` and `check_schema` raise of an invalid schema; then
    nothing was written. `CommitStateUnknown` if the outcome cannot be determined.
    """
    if schemas.list_ids(location):
        raise table_already_exists(location)
    schema = make_first_schema(
        location, fields, primary_keys=primary_keys, partition_keys=partition_keys, options=options, comment=comment
    )
    write_first_schema(location, schema)
    warn_ignored_options(schema)
    return schema


def make_first_schema(
    location: TableLocation,
    fields: Iterable[Field],
    *,
    primary_keys: Iterable[str] = (),
    partition_keys: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """Return the first schema of a table, checked as a whole; nothing is written. Raises as `create_table_schema`."""
    numbered, highest = assign_ids(fields)
    texts = normalize_options(options)
    if texts.get("auto-create", "false").strip().lower() == "true":
        raise InvalidOption(
            "The value of auto-create property should be false. lk.create makes the table itself",
            key="auto-create",
            value="true",
        )
    if (kind := texts.get("type", "")) in CATALOG_ONLY_TYPES:
        raise Unsupported(
            f"{location.name} would be of type {kind}, whose rows no manifest lists: {CATALOG_ONLY_TYPES[kind]} makes "
            "such tables",
            feature=kind,
        )
    draft = define_table(numbered, partition_keys, primary_keys, texts)
    for part in draft.fields:
        check_default(part.type, part.default, part.name)
    schema = TableSchema(
        version=CURRENT_VERSION,
        id=0,
        fields=draft.fields,
        highest_field_id=highest,
        partition_keys=draft.partition_keys,
        primary_keys=draft.primary_keys,
        options=FrozenDict(draft.options),
        comment=comment,
        time_millis=location.runtime.now_ms(),
    )
    check_schema(schema, location.name)
    check_reference_can_write(schema)
    check_supported(texts)
    _encode_checked(schema)
    return schema


def write_first_schema(location: TableLocation, schema: TableSchema) -> None:
    """Write the first schema of a table, where there is none.

    Raises: `TableAlreadyExists`, `CommitStateUnknown`.
    """
    with table_context.catalog_lock(location) as claim:
        claim.check_held()
        if not create_exclusive(
            location.storage,
            location.paths.schema(schema.id),
            _encode_checked(schema),
            check_lock=table_context.lock_check(claim),
        ):
            raise table_already_exists(location)


def alter_schema(ctx: TableContext, changes: Sequence[TableChange]) -> TableSchema:
    """Write the next schema with all of the changes, and return it.

    Raises what `apply_changes` and `check_schema` raise, `RetriesExhausted` if other writers keep writing schemas
    first.
    """
    with table_context.catalog_lock(ctx) as claim:
        made = _write_next_schema(ctx.location, changes, claim)
    table_context.schema_changed(ctx, made)
    if any(isinstance(change, SetOption) for change in changes):
        warn_ignored_options(made)
    return made


def plan_next_schema(location: TableLocation, changes: Sequence[TableChange]) -> TableSchema:
    """Return the next schema as `alter_schema` would write it now; nothing is written.

    Raises what `apply_changes` and `check_schema` raise.
    """
    cached: list[bool] = []

    def has_snapshots() -> bool:
        if not cached:
            cached.append(snapshots.latest(location) is not None)
        return cached[0]

    def has_branch(name: str) -> bool:
        return is_plain_name(name) and bool(schemas.list_ids(replace(location, paths=location.paths.on_branch(name))))

    before = schemas.read_latest(location)
    schema = apply_changes(before, changes, has_snapshots=has_snapshots, time_ms=location.runtime.now_ms())
    check_schema(schema, location.name, has_branch=has_branch)
    check_reference_can_write(schema, before)
    return schema


def _write_next_schema(location: TableLocation, changes: Sequence[TableChange], lock: HeldLock) -> TableSchema:
    for _ in range(MAX_RACES):
        schema = plan_next_schema(location, changes)
        lock.check_held()
        if create_exclusive(
            location.storage,
            location.paths.schema(schema.id),
            _encode_checked(schema),
            check_lock=table_context.lock_check(lock),
        ):
            return schema
    raise RetriesExhausted(
        f"{location.name}: {MAX_RACES} times another writer made the next schema first; nothing was changed, try again"
    )


def _encode_checked(schema: TableSchema) -> bytes:
    """Return the bytes of the schema file, read back: `SchemaMismatch` for what no file can hold."""
    try:
        data = schema.to_json()
        TableSchema.from_json(data)
    except UnicodeEncodeError as wrong:
        raise SchemaMismatch(
            "a name or text of the schema holds half of a surrogate pair at "
            f"{wrong.object[max(0, wrong.start - 20) : wrong.start]!a}"
        ) from None
    except Corrupt as wrong:
        raise SchemaMismatch(f"the schema could not be read again: {wrong.message}") from None
    return data


def table_already_exists(location: TableLocation) -> TableAlreadyExists:
    """Return the error for a location that has a table."""
    return TableAlreadyExists(
        f'"{location.paths.root}" holds a table: Schema in filesystem exists, creation is not allowed. Open it with '
        "lk.open, or pass if_not_exists=True",
        name=location.name,
    )


def warn_ignored_options(schema: TableSchema) -> None:
    """Warn of what the reference passes over without a word."""
    for doubt in ignored_options(schema):
        warn_user(doubt)
