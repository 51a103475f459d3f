"""Changes of fields inside fields: one column, or one part of it, changed in place.

    ("r", "x")                 field x of ROW r
    ("a", "element", "x")      field x of the rows in ARRAY a
    ("m", "value")             the values of MAP m

Source: ENGINE.md 1.5, `SchemaManager.NestedColumnModifier`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.ddl.schema_changes import join_path
from lakekit.errors import ColumnNotFound, SchemaMismatch
from lakekit.types import part

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.ddl.schema_changes import Path
    from lakekit.types import DataType, Field

    Fields = tuple[Field, ...]


def change_fields_at(fields: Fields, path: Path, change: Callable[[Fields, str], Fields], prefix: Path = ()) -> Fields:
    """Return `fields` with the list that holds the last part of `path` changed by `change`.

    `change` gets that list and the last name. `prefix`: the path that leads to `fields`.
    """
    name, *rest = path
    if not rest:
        return change(fields, name)
    at = position(fields, name, (*prefix, name))
    inner = _change_part_fields(fields[at].type, tuple(rest), change, (*prefix, name))
    return (*fields[:at], replace_type(fields[at], inner), *fields[at + 1 :])


def _change_part_fields(t: DataType, path: Path, change: Callable[[Fields, str], Fields], prefix: Path) -> DataType:
    if t.root == "ROW":
        return replace(t, fields=change_fields_at(t.fields, path, change, prefix))
    side = _side(t, path[0], prefix)
    if len(path) == 1:
        raise SchemaMismatch(
            f"{join_path((*prefix, path[0]))} is the {path[0]} of a {t.root}, no field: it has a type and takes nulls "
            "or not, and nothing else",
            column=join_path(prefix),
        )
    return replace(t, **{side: _change_part_fields(part(getattr(t, side)), path[1:], change, (*prefix, path[0]))})  # type: ignore[arg-type]


def change_type_at(fields: Fields, path: Path, change: Callable[[DataType], DataType], prefix: Path = ()) -> Fields:
    """Return `fields` with the type at the end of `path` changed.

    `prefix`: the path that leads to `fields`.
    """
    at = position(fields, path[0], (*prefix, path[0]))
    inner = _change_part_type(fields[at].type, path[1:], change, (*prefix, path[0]))
    return (*fields[:at], replace_type(fields[at], inner), *fields[at + 1 :])


def _change_part_type(t: DataType, path: Path, change: Callable[[DataType], DataType], prefix: Path) -> DataType:
    if not path:
        return change(t)
    if t.root == "ROW":
        return replace(t, fields=change_type_at(t.fields, path, change, prefix))
    side = _side(t, path[0], prefix)
    return replace(t, **{side: _change_part_type(part(getattr(t, side)), path[1:], change, (*prefix, path[0]))})  # type: ignore[arg-type]


def _side(t: DataType, name: str, prefix: Path) -> str:
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


def position(fields: Fields, name: str, path: Path) -> int:
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
