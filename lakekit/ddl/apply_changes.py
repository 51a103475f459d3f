"""Apply changes to a schema, one after the other: `apply_changes(schema, changes, …)` returns the next schema.

It is not yet checked as a whole. Source: ENGINE.md 1.5, `SchemaManager.generateTableSchema`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lakekit.ddl import casting, nested, schema_changes
from lakekit.ddl.defaults import check_default
from lakekit.ddl.option_changes import reset, set_option
from lakekit.ddl.retyping import TypeChangeRules
from lakekit.ddl.schema_changes import join_path
from lakekit.ddl.table_definition import define_table
from lakekit.errors import ColumnAlreadyExists, SchemaMismatch
from lakekit.model.table_schema import CURRENT_VERSION, TableSchema, assign_ids, highest_id
from lakekit.options import renaming
from lakekit.options.frozendict import FrozenDict
from lakekit.options.table_options import TableOptions
from lakekit.types import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakekit.ddl.schema_changes import ColumnPosition, Path, TableChange
    from lakekit.types import DataType

    Fields = tuple[Field, ...]


@dataclass(slots=True, kw_only=True)
class _SchemaDraft:
    """The next schema in the making.

    `before` are the options that the table had, by which the rules of changes go.
    """

    old: TableSchema
    before: TableOptions
    has_snapshots: Callable[[], bool]
    fields: Fields
    highest: int
    primary_keys: tuple[str, ...]
    options: dict[str, str]
    comment: str | None


def apply_changes(
    schema: TableSchema, changes: Iterable[TableChange], *, has_snapshots: Callable[[], bool], time_ms: int
) -> TableSchema:
    """Return the schema after `schema`, not yet checked as a whole.

    Raises: `ColumnNotFound`, `ColumnAlreadyExists`, `SchemaMismatch`, `InvalidOption` for a change that is not
    possible.
    """
    work = _SchemaDraft(
        old=schema,
        before=TableOptions.parse(schema.options),
        has_snapshots=has_snapshots,
        fields=schema.fields,
        highest=max(schema.highest_field_id, highest_id(schema.fields)),
        primary_keys=schema.primary_keys,
        options=dict(schema.options),
        comment=schema.comment,
    )
    for change in changes:
        _apply(work, change)
    draft = define_table(work.fields, schema.partition_keys, work.primary_keys, work.options)
    return TableSchema(
        version=CURRENT_VERSION,
        id=schema.id + 1,
        fields=draft.fields,
        highest_field_id=work.highest,
        partition_keys=draft.partition_keys,
        primary_keys=draft.primary_keys,
        options=FrozenDict(draft.options),
        comment=work.comment,
        time_millis=time_ms,
    )


def _apply(work: _SchemaDraft, change: TableChange) -> None:
    match change:
        case schema_changes.AddColumn():
            _add(work, change)
        case schema_changes.RenameColumn():
            _rename(work, change)
        case schema_changes.DropColumn():
            _drop(work, change)
        case schema_changes.UpdateType():
            _retype(work, change)
        case schema_changes.UpdateNullability():
            _renull(work, change)
        case schema_changes.UpdateComment():
            work.fields = nested.change_fields_at(
                work.fields, change.path, partial(_with_comment, comment=change.comment, path=change.path)
            )
        case schema_changes.UpdateDefault():
            work.fields = nested.change_fields_at(
                work.fields, change.path, partial(_with_default, default=change.default, path=change.path)
            )
        case schema_changes.MoveColumn():
            work.fields = _move_field(work.fields, change)
        case schema_changes.SetOption():
            set_option(work.options, work.before, change.key, change.value, has_snapshots=work.has_snapshots)
        case schema_changes.ResetOption():
            reset(work.options, work.before, change.key, has_snapshots=work.has_snapshots)
        case schema_changes.SetComment():
            work.comment = change.comment
        case _:
            msg = f"t.alter takes changes such as lk.add_column('c', 'INT'); found {type(change).__name__}"
            raise TypeError(msg)


# ---- columns come and go -------------------------------------------------------------------------


def _add(work: _SchemaDraft, change: schema_changes.AddColumn) -> None:
    name = join_path(change.path)
    if not change.type.nullable:
        raise SchemaMismatch(
            f"Column {name} cannot specify NOT NULL: rows that are there already have no value for it. Leave NOT NULL "
            "out",
            column=name,
        )
    check_default(change.type, change.default, name)
    (field,), work.highest = assign_ids(
        [Field(change.path[-1], change.type, comment=change.comment, default=change.default)],
        work.highest,
    )
    partitions = work.old.partition_keys if work.before.add_column_before_partition and len(change.path) == 1 else ()

    def add(fields: Fields, last: str) -> Fields:
        if any(existing.name == last for existing in fields):
            raise ColumnAlreadyExists(f"Column {name} already exists in the table", name=name)
        at = _index(fields, change.place, change.path[:-1])
        if at is None:
            at = next((i for i, existing in enumerate(fields) if existing.name in partitions), len(fields))
        return (*fields[:at], field, *fields[at:])

    work.fields = nested.change_fields_at(work.fields, change.path, add)


def _index(fields: Fields, position: ColumnPosition | None, above: Path) -> int | None:
    """Return where in a list a new field goes; None where no position is given."""
    if position is None:
        return None
    if position.column is None:
        return 0 if position.where == "first" else len(fields)
    return nested.position(fields, position.column, (*above, position.column)) + (position.where == "after")


def _rename(work: _SchemaDraft, change: schema_changes.RenameColumn) -> None:
    path, new = change.path, change.new_name
    if len(path) == 1:
        _refuse_partition(work, path[0], "rename")

    def rename(fields: Fields, last: str) -> Fields:
        at = nested.position(fields, last, path)
        if any(existing.name == new for existing in fields):
            raise ColumnAlreadyExists(
                f"Column {join_path((*path[:-1], new))} already exists in the table", name=join_path((*path[:-1], new))
            )
        return (*fields[:at], replace(fields[at], name=new), *fields[at + 1 :])

    work.fields = nested.change_fields_at(work.fields, path, rename)
    if len(path) == 1:
        work.primary_keys = tuple(new if name == path[0] else name for name in work.primary_keys)
        work.options = renaming.rename_column(work.options, path[0], new)


def _refuse_partition(work: _SchemaDraft, name: str, what: str) -> None:
    if name in work.old.partition_keys:
        raise SchemaMismatch(
            f"Cannot {what} partition column: [{name}]; its values are folders of the table", column=name
        )


def _drop(work: _SchemaDraft, change: schema_changes.DropColumn) -> None:
    path = change.path
    if len(path) == 1 and path[0] in (*work.old.partition_keys, *work.primary_keys):
        raise SchemaMismatch(
            f"Cannot drop partition key or primary key: [{path[0]}]; rows are found by it", column=path[0]
        )

    def drop(fields: Fields, last: str) -> Fields:
        at = nested.position(fields, last, path)
        if len(fields) == 1:
            raise SchemaMismatch(
                f"Cannot drop all fields in table: {join_path(path)!r} is the last one", column=join_path(path)
            )
        return (*fields[:at], *fields[at + 1 :])

    work.fields = nested.change_fields_at(work.fields, path, drop)


def _move_field(fields: Fields, change: schema_changes.MoveColumn) -> Fields:
    at = nested.position(fields, change.name, (change.name,))
    position = change.place
    ends = {"first": 0, "last": len(fields) - 1}
    to = (
        ends[position.where]
        if position.column is None
        else nested.position(fields, position.column, (position.column,))
    )
    if to == at:
        raise SchemaMismatch(f"Cannot move itself for column {change.name}: it is there already", column=change.name)
    left = (*fields[:at], *fields[at + 1 :])
    if position.column is not None:
        to = nested.position(left, position.column, (position.column,)) + (position.where == "after")
    return (*left[:to], fields[at], *left[to:])


# ---- columns change ------------------------------------------------------------------------------


def _retype(work: _SchemaDraft, change: schema_changes.UpdateType) -> None:
    path = change.path
    if len(path) == 1:
        _refuse_partition(work, path[0], "update")
        if path[0] in work.primary_keys:
            raise SchemaMismatch(
                f"Cannot update primary key: [{path[0]}]; the type of a key decides where its rows lie", column=path[0]
            )
    rules = TypeChangeRules(
        explicit=not work.before.disable_explicit_type_casting,
        forbid_not_null=work.before.alter_column_null_to_not_null_disabled,
        highest=work.highest,
    )
    work.fields = nested.change_type_at(work.fields, path, lambda held: rules.of(held, change.type, join_path(path)))
    work.highest = rules.highest
    if len(path) == 1 or path[-1] not in ("element", "value"):
        nested.change_fields_at(work.fields, path, partial(_with_default_kept, path=path))


def _renull(work: _SchemaDraft, change: schema_changes.UpdateNullability) -> None:
    path = change.path
    if change.nullable and len(path) == 1 and path[0] in work.primary_keys:
        raise SchemaMismatch(
            f"Cannot change nullability of primary key: [{path[0]}]; keys take no nulls", column=path[0]
        )

    def renull(current: DataType) -> DataType:
        if work.before.alter_column_null_to_not_null_disabled and current.nullable and not change.nullable:
            raise casting.not_null_refused(join_path(path))
        return replace(current, nullable=change.nullable)

    work.fields = nested.change_type_at(work.fields, path, renull)


def _with_comment(fields: Fields, last: str, *, comment: str | None, path: Path) -> Fields:
    at = nested.position(fields, last, path)
    return (*fields[:at], replace(fields[at], comment=comment), *fields[at + 1 :])


def _with_default_kept(fields: Fields, last: str, *, path: Path) -> Fields:
    """Return the same fields, if the default is a value of the new type.

    Rows written without the column will get it.
    """
    field = fields[nested.position(fields, last, path)]
    check_default(field.type, field.default, join_path(path))
    return fields


def _with_default(fields: Fields, last: str, *, default: str | None, path: Path) -> Fields:
    at = nested.position(fields, last, path)
    check_default(fields[at].type, default, join_path(path))
    return (*fields[:at], replace(fields[at], default=default), *fields[at + 1 :])
