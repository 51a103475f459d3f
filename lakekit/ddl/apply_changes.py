"""Changes of a schema: `apply_changes(schema, changes, …)` returns the next schema.

    types     to     TINYINT  SMALLINT  INT  BIGINT  FLOAT  DOUBLE  DECIMAL  STRING  …     Paimon's table of casts
    from INT            e        e       i     i       i      i       i        e           i implicit: values keep
                                                                                             their kind
                                                                                           e explicit: values may change

    nested    current  ROW<x INT, y STRING>     want  ROW<x BIGINT, z DATE>    x is widened, y dropped, z added, new id
              current  MAP<STRING, INT>         want  MAP<STRING, BIGINT>      values are widened; keys never change

    paths     ("r", "x")                 field x of ROW r
              ("a", "element", "x")      field x of the rows in ARRAY a
              ("m", "value")             the values of MAP m

The next schema is not yet checked as a whole. A pair of types must be in the table and have an implemented cast.
Nullability stays as it is, unless the new type says NOT NULL.

Source: ENGINE.md 1.5; `SchemaManager.generateTableSchema`, `SchemaManager.NestedColumnModifier`, `NestedSchemaUtils`,
`DataTypeCasts`, `CastExecutors`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from lakekit.ddl import schema_changes
from lakekit.ddl.schema_changes import apply_option_change, apply_option_reset, join_path
from lakekit.ddl.table_definition import check_default, define_table
from lakekit.errors import ColumnAlreadyExists, ColumnNotFound, SchemaMismatch, Unsupported
from lakekit.format import casts
from lakekit.model.table_schema import CURRENT_VERSION, TableSchema, assign_ids, highest_id
from lakekit.options import table_options
from lakekit.options.option import FrozenDict
from lakekit.options.table_options import TableOptions
from lakekit.types import INTEGERS, NESTED_TYPES, STRINGS, TIMESTAMPS, Field, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lakekit.ddl.schema_changes import ColumnPath, ColumnPosition, TableChange
    from lakekit.types import DataType

    Fields = tuple[Field, ...]


_BYTE_TYPES = frozenset({"BINARY", "VARBINARY"})
_NUMERIC_TYPES = frozenset({*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL"})
_TIME_TYPES = frozenset({"DATE", "TIME", *TIMESTAMPS})
_ALL_TYPES = frozenset(
    {*STRINGS, *_BYTE_TYPES, *_NUMERIC_TYPES, *_TIME_TYPES, *NESTED_TYPES, "BOOLEAN", "VARIANT", "BLOB"}
)
_NON_NUMERIC_TYPES = frozenset({"BOOLEAN", *TIMESTAMPS, *STRINGS})
_IMPLICIT_CASTS: Mapping[str, frozenset[str]] = {
    "VARCHAR": STRINGS,
    "VARBINARY": _BYTE_TYPES,
    "DECIMAL": _NUMERIC_TYPES,
    "SMALLINT": frozenset(INTEGERS[:2]),
    "INT": frozenset(INTEGERS[:3]),
    "BIGINT": frozenset(INTEGERS),
    "FLOAT": frozenset({*INTEGERS, "FLOAT", "DECIMAL"}),
    "DOUBLE": _NUMERIC_TYPES,
    "DATE": frozenset({"DATE", "TIMESTAMP"}),
    "TIME": frozenset({"TIME", "TIMESTAMP"}),
    "TIMESTAMP": TIMESTAMPS,
    "TIMESTAMP_LTZ": TIMESTAMPS,
}
"""By the new type: what may become it at all times, besides itself."""
_EXPLICIT_CASTS: Mapping[str, frozenset[str]] = {
    "CHAR": _ALL_TYPES,
    "VARCHAR": _ALL_TYPES,
    "BOOLEAN": frozenset({*STRINGS, *INTEGERS}),
    "BINARY": frozenset({*STRINGS, "VARBINARY"}),
    "VARBINARY": frozenset({*STRINGS, "BINARY"}),
    "DECIMAL": _NON_NUMERIC_TYPES,
    **dict.fromkeys((*INTEGERS, "FLOAT"), _NUMERIC_TYPES | _NON_NUMERIC_TYPES),
    "DOUBLE": _NON_NUMERIC_TYPES,
    "DATE": frozenset({*TIMESTAMPS, *STRINGS}),
    "TIME": frozenset({"TIME", *TIMESTAMPS, *STRINGS}),
    "TIMESTAMP": _TIME_TYPES | STRINGS | _NUMERIC_TYPES,
    "TIMESTAMP_LTZ": _TIME_TYPES | STRINGS | _NUMERIC_TYPES,
}
"""By the new type: what may become it too, unless `disable-explicit-type-casting` is on."""


def is_cast_allowed(current: DataType, target: DataType, *, explicit: bool) -> bool:
    """Return whether Paimon casts the one type to the other, whatever their nullability."""
    if not (
        current.root == target.root
        or current.root in _IMPLICIT_CASTS.get(target.root, ())
        or (explicit and current.root in _EXPLICIT_CASTS.get(target.root, ()))
    ):
        return False
    return is_cast_supported(current, target)


def is_cast_supported(current: DataType, target: DataType) -> bool:
    """Return whether the cast is implemented."""
    try:
        casts.cast(pl.col("a"), current, target, casts.CastTarget(column="a"))
    except Unsupported:
        return False
    return True


def make_cast_error(current: DataType, target: DataType, column: str, *, explicit: bool) -> SchemaMismatch:
    """Return the error for a type that values cannot be cast to."""
    how = "" if explicit else "; disable-explicit-type-casting allows only types that hold every value"
    return SchemaMismatch(
        f"Column type {column}[{current}] cannot be converted to {target} without losing information{how}. Add a "
        "column "
        "of the new type instead",
        column=column,
    )


def make_not_null_error(column: str) -> SchemaMismatch:
    """Return the error for a nullable column that cannot become NOT NULL."""
    return SchemaMismatch(
        f"Cannot update column type from nullable to non nullable for {column}. You can set table configuration option "  # noqa: S608 - no SQL
        "'alter-column-null-to-not-null.disabled' = 'false' to allow converting null columns to not null",
        column=column,
    )


# ---- nested columns ----------------------------------------------------


def change_fields_at(
    fields: Fields, path: ColumnPath, change: Callable[[Fields, str], Fields], prefix: ColumnPath = ()
) -> Fields:
    """Return `fields` with the list that holds the last part of `path` changed by `change`.

    `change` gets that list and the last name. `prefix`: the path that leads to `fields`.
    """
    name, *rest = path
    if not rest:
        return change(fields, name)
    at = field_index(fields, name, (*prefix, name))
    inner = _change_nested_fields(fields[at].type, tuple(rest), change, (*prefix, name))
    return (*fields[:at], replace_type(fields[at], inner), *fields[at + 1 :])


def _change_nested_fields(
    t: DataType, path: ColumnPath, change: Callable[[Fields, str], Fields], prefix: ColumnPath
) -> DataType:
    if t.root == "ROW":
        return replace(t, fields=change_fields_at(t.fields, path, change, prefix))
    side = _nested_type_attribute(t, path[0], prefix)
    if len(path) == 1:
        raise SchemaMismatch(
            f"{join_path((*prefix, path[0]))} is the {path[0]} of a {t.root}, no field: it has a type and takes nulls "
            "or not, and nothing else",
            column=join_path(prefix),
        )
    return replace(t, **{side: _change_nested_fields(part(getattr(t, side)), path[1:], change, (*prefix, path[0]))})  # type: ignore[arg-type]


def change_type_at(
    fields: Fields, path: ColumnPath, change: Callable[[DataType], DataType], prefix: ColumnPath = ()
) -> Fields:
    """Return `fields` with the type at the end of `path` changed.

    `prefix`: the path that leads to `fields`.
    """
    at = field_index(fields, path[0], (*prefix, path[0]))
    inner = _change_nested_type(fields[at].type, path[1:], change, (*prefix, path[0]))
    return (*fields[:at], replace_type(fields[at], inner), *fields[at + 1 :])


def _change_nested_type(
    t: DataType, path: ColumnPath, change: Callable[[DataType], DataType], prefix: ColumnPath
) -> DataType:
    if not path:
        return change(t)
    if t.root == "ROW":
        return replace(t, fields=change_type_at(t.fields, path, change, prefix))
    side = _nested_type_attribute(t, path[0], prefix)
    return replace(t, **{side: _change_nested_type(part(getattr(t, side)), path[1:], change, (*prefix, path[0]))})  # type: ignore[arg-type]


def _nested_type_attribute(t: DataType, name: str, prefix: ColumnPath) -> str:
    """Return the attribute of an ARRAY or MAP type that a part of a path names."""
    sides = {"ARRAY": "element", "MAP": "value"}
    if sides.get(t.root) == name:
        return name
    path = join_path((*prefix, name))
    if t.root in sides:
        more = "; the keys of a map never change" if t.root == "MAP" and name == "key" else ""
        raise ColumnNotFound(
            f"Column {path} does not exist in the table: {join_path(prefix)} is of type {t.root}, whose parts are "
            "under "
            f"{join_path((*prefix, sides[t.root]))!r}{more}",
            name=path,
        )
    raise ColumnNotFound(
        f"Column {path} does not exist in the table: {join_path(prefix)} is of type {t.root} and has no fields",
        name=path,
    )


def field_index(fields: Fields, name: str, path: ColumnPath) -> int:
    """Return the index of a field. Raises `ColumnNotFound`."""
    for at, field in enumerate(fields):
        if field.name == name:
            return at
    raise ColumnNotFound(
        f"Column {join_path(path)} does not exist in the table; there are {', '.join(field.name for field in fields)}",
        name=join_path(path),
    )


def replace_type(field: Field, t: DataType) -> Field:
    """Return the same field with another type."""
    return replace(field, type=t)


# ---- type changes --------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class TypeChangeRules:
    """The rules of a type change.

    They say whether casts may lose values, whether NOT NULL is forbidden, and the highest field id so far.
    """

    allows_explicit_casts: bool
    forbids_not_null: bool
    highest_field_id: int

    def evolve_type(self, current: DataType, target: DataType, column: str) -> DataType:
        """Return the type that a column of type `current` has afterwards. Raises `SchemaMismatch`."""
        nullable = current.nullable and target.nullable
        if self.forbids_not_null and current.nullable and not nullable:
            raise make_not_null_error(column)
        match current.root, target.root:
            case "ROW", "ROW":
                return replace(current, nullable=nullable, fields=self._evolve_fields(current, target, column))
            case "ARRAY", "ARRAY":
                return replace(
                    current,
                    nullable=nullable,
                    element=self.evolve_type(part(current.element), part(target.element), f"{column}.element"),
                )
            case "MAP", "MAP":
                if part(current.key).as_nullable() != part(target.key).as_nullable():
                    raise SchemaMismatch(
                        f"Cannot update key type of column {column} from {current.key} type to {target.key} type",
                        column=column,
                    )
                return replace(
                    current,
                    nullable=nullable,
                    value=self.evolve_type(part(current.value), part(target.value), f"{column}.value"),
                )
        if not is_cast_allowed(current, target, explicit=self.allows_explicit_casts):
            raise make_cast_error(current, target, column, explicit=self.allows_explicit_casts)
        return replace(target, nullable=nullable)

    def _evolve_fields(self, current: DataType, target: DataType, column: str) -> tuple[Field, ...]:
        old = {field.name: (at, field) for at, field in enumerate(current.fields)}
        fields: list[Field] = []
        last = -1
        for field in target.fields:
            name = f"{column}.{field.name}"
            if field.name not in old:
                if not field.nullable:
                    raise SchemaMismatch(
                        f"Column {name} cannot specify NOT NULL: rows that are there already have no value for it",
                        column=name,
                    )
                (added,), self.highest_field_id = assign_ids([field], self.highest_field_id)
                fields.append(added)
                continue
            at, own = old[field.name]
            if at < last:
                raise SchemaMismatch(
                    f"Order of existing fields in column {column} must be kept the same. However, field "
                    f"{current.fields[last].name} and {field.name} have "
                    "changed their orders",
                    column=column,
                )
            last = at
            fields.append(
                replace(
                    own,
                    type=self.evolve_type(own.type, field.type, name),
                    comment=own.comment if field.comment is None else field.comment,
                )
            )
        if not fields:
            raise SchemaMismatch(f"column {column} would have no fields left", column=column)
        return tuple(fields)


# ---- apply changes ------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _SchemaDraft:
    """The next schema in the making; `old_options` are the options by which the rules of changes go."""

    old_schema: TableSchema
    old_options: TableOptions
    has_snapshots: Callable[[], bool]
    fields: Fields
    highest_field_id: int
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
        old_schema=schema,
        old_options=TableOptions.parse(schema.options),
        has_snapshots=has_snapshots,
        fields=schema.fields,
        highest_field_id=max(schema.highest_field_id, highest_id(schema.fields)),
        primary_keys=schema.primary_keys,
        options=dict(schema.options),
        comment=schema.comment,
    )
    for change in changes:
        _apply_change(work, change)
    draft = define_table(work.fields, schema.partition_keys, work.primary_keys, work.options)
    return TableSchema(
        version=CURRENT_VERSION,
        id=schema.id + 1,
        fields=draft.fields,
        highest_field_id=work.highest_field_id,
        partition_keys=draft.partition_keys,
        primary_keys=draft.primary_keys,
        options=FrozenDict(draft.options),
        comment=work.comment,
        time_millis=time_ms,
    )


def _apply_change(draft: _SchemaDraft, change: TableChange) -> None:
    match change:
        case schema_changes.AddColumn():
            _add_column(draft, change)
        case schema_changes.RenameColumn():
            _rename_column(draft, change)
        case schema_changes.DropColumn():
            _drop_column(draft, change)
        case schema_changes.UpdateType():
            _change_type(draft, change)
        case schema_changes.UpdateNullability():
            _change_nullability(draft, change)
        case schema_changes.UpdateComment():
            draft.fields = change_fields_at(
                draft.fields, change.path, partial(_with_comment, comment=change.comment, path=change.path)
            )
        case schema_changes.UpdateDefault():
            draft.fields = change_fields_at(
                draft.fields, change.path, partial(_with_default, default=change.default, path=change.path)
            )
        case schema_changes.MoveColumn():
            draft.fields = _move_field(draft.fields, change)
        case schema_changes.SetOption():
            apply_option_change(
                draft.options, draft.old_options, change.key, change.value, has_snapshots=draft.has_snapshots
            )
        case schema_changes.ResetOption():
            apply_option_reset(draft.options, draft.old_options, change.key, has_snapshots=draft.has_snapshots)
        case schema_changes.SetComment():
            draft.comment = change.comment
        case _:
            msg = f"t.alter takes changes such as lk.add_column('c', 'INT'); found {type(change).__name__}"
            raise TypeError(msg)


# ---- adding and dropping columns -----------------------------------------------------------------


def _add_column(draft: _SchemaDraft, change: schema_changes.AddColumn) -> None:
    name = join_path(change.path)
    if not change.type.nullable:
        raise SchemaMismatch(
            f"Column {name} cannot specify NOT NULL: rows that are there already have no value for it. Leave NOT NULL "
            "out",
            column=name,
        )
    check_default(change.type, change.default, name)
    (field,), draft.highest_field_id = assign_ids(
        [Field(change.path[-1], change.type, comment=change.comment, default=change.default)],
        draft.highest_field_id,
    )
    partitions = (
        draft.old_schema.partition_keys
        if draft.old_options.add_column_before_partition and len(change.path) == 1
        else ()
    )

    def add(fields: Fields, last: str) -> Fields:
        if any(existing.name == last for existing in fields):
            raise ColumnAlreadyExists(f"Column {name} already exists in the table", name=name)
        at = _insertion_index(fields, change.position, change.path[:-1])
        if at is None:
            at = next((i for i, existing in enumerate(fields) if existing.name in partitions), len(fields))
        return (*fields[:at], field, *fields[at:])

    draft.fields = change_fields_at(draft.fields, change.path, add)


def _insertion_index(fields: Fields, position: ColumnPosition | None, parent_path: ColumnPath) -> int | None:
    """Return where in a list a new field goes; None if no position is given."""
    if position is None:
        return None
    if position.column is None:
        return 0 if position.relation == "first" else len(fields)
    return field_index(fields, position.column, (*parent_path, position.column)) + (position.relation == "after")


def _rename_column(draft: _SchemaDraft, change: schema_changes.RenameColumn) -> None:
    path, new = change.path, change.new_name
    if len(path) == 1:
        _refuse_partition_column(draft, path[0], "rename")

    def rename(fields: Fields, last: str) -> Fields:
        at = field_index(fields, last, path)
        if any(existing.name == new for existing in fields):
            raise ColumnAlreadyExists(
                f"Column {join_path((*path[:-1], new))} already exists in the table", name=join_path((*path[:-1], new))
            )
        return (*fields[:at], replace(fields[at], name=new), *fields[at + 1 :])

    draft.fields = change_fields_at(draft.fields, path, rename)
    if len(path) == 1:
        draft.primary_keys = tuple(new if name == path[0] else name for name in draft.primary_keys)
        draft.options = table_options.rename_column(draft.options, path[0], new)


def _refuse_partition_column(draft: _SchemaDraft, name: str, verb: str) -> None:
    if name in draft.old_schema.partition_keys:
        raise SchemaMismatch(
            f"Cannot {verb} partition column: [{name}]; its values are folders of the table", column=name
        )


def _drop_column(draft: _SchemaDraft, change: schema_changes.DropColumn) -> None:
    path = change.path
    if len(path) == 1 and path[0] in (*draft.old_schema.partition_keys, *draft.primary_keys):
        raise SchemaMismatch(
            f"Cannot drop partition key or primary key: [{path[0]}]; rows are found by it", column=path[0]
        )

    def drop(fields: Fields, last: str) -> Fields:
        at = field_index(fields, last, path)
        if len(fields) == 1:
            raise SchemaMismatch(
                f"Cannot drop all fields in table: {join_path(path)!r} is the last one", column=join_path(path)
            )
        return (*fields[:at], *fields[at + 1 :])

    draft.fields = change_fields_at(draft.fields, path, drop)


def _move_field(fields: Fields, change: schema_changes.MoveColumn) -> Fields:
    at = field_index(fields, change.column, (change.column,))
    position = change.position
    ends = {"first": 0, "last": len(fields) - 1}
    to = (
        ends[position.relation] if position.column is None else field_index(fields, position.column, (position.column,))
    )
    if to == at:
        raise SchemaMismatch(
            f"Cannot move itself for column {change.column}: it is there already", column=change.column
        )
    left = (*fields[:at], *fields[at + 1 :])
    if position.column is not None:
        to = field_index(left, position.column, (position.column,)) + (position.relation == "after")
    return (*left[:to], fields[at], *left[to:])


# ---- changing columns ----------------------------------------------------------------------------


def _change_type(draft: _SchemaDraft, change: schema_changes.UpdateType) -> None:
    path = change.path
    if len(path) == 1:
        _refuse_partition_column(draft, path[0], "update")
        if path[0] in draft.primary_keys:
            raise SchemaMismatch(
                f"Cannot update primary key: [{path[0]}]; the type of a key decides where its rows lie", column=path[0]
            )
    rules = TypeChangeRules(
        allows_explicit_casts=not draft.old_options.disable_explicit_type_casting,
        forbids_not_null=draft.old_options.alter_column_null_to_not_null_disabled,
        highest_field_id=draft.highest_field_id,
    )
    draft.fields = change_type_at(
        draft.fields, path, lambda held: rules.evolve_type(held, change.type, join_path(path))
    )
    draft.highest_field_id = rules.highest_field_id
    if len(path) == 1 or path[-1] not in ("element", "value"):
        change_fields_at(draft.fields, path, partial(_check_default_fits_type, path=path))


def _change_nullability(draft: _SchemaDraft, change: schema_changes.UpdateNullability) -> None:
    path = change.path
    if change.nullable and len(path) == 1 and path[0] in draft.primary_keys:
        raise SchemaMismatch(
            f"Cannot change nullability of primary key: [{path[0]}]; keys take no nulls", column=path[0]
        )

    def renull(current: DataType) -> DataType:
        if draft.old_options.alter_column_null_to_not_null_disabled and current.nullable and not change.nullable:
            raise make_not_null_error(join_path(path))
        return replace(current, nullable=change.nullable)

    draft.fields = change_type_at(draft.fields, path, renull)


def _with_comment(fields: Fields, name: str, *, comment: str | None, path: ColumnPath) -> Fields:
    at = field_index(fields, name, path)
    return (*fields[:at], replace(fields[at], comment=comment), *fields[at + 1 :])


def _check_default_fits_type(fields: Fields, name: str, *, path: ColumnPath) -> Fields:
    """Return the same fields, if the default, which rows will get, is a value of the new type."""
    field = fields[field_index(fields, name, path)]
    check_default(field.type, field.default, join_path(path))
    return fields


def _with_default(fields: Fields, name: str, *, default: str | None, path: ColumnPath) -> Fields:
    at = field_index(fields, name, path)
    check_default(fields[at].type, default, join_path(path))
    return (*fields[:at], replace(fields[at], default=default), *fields[at + 1 :])
