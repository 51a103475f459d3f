"""Type changes of a column: a plain type is cast, a nested one keeps the parts that it has.

    current  ROW<x INT, y STRING>     want  ROW<x BIGINT, z DATE>      x is widened, y dropped, z added under a new id
    current  MAP<STRING, INT>         want  MAP<STRING, BIGINT>        values are widened; keys never change

Nullability stays as it is, unless the new type says NOT NULL. Source: ENGINE.md 1.5, `NestedSchemaUtils`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakekit.ddl import casting
from lakekit.errors import SchemaMismatch
from lakekit.model.table_schema import assign_ids
from lakekit.types import part

if TYPE_CHECKING:
    from lakekit.types import DataType, Field


@dataclass(slots=True, kw_only=True)
class TypeChangeRules:
    """The rules of a type change.

    They say whether casts may lose values, whether NOT NULL is forbidden, and the highest field id so far.
    """

    explicit: bool
    forbid_not_null: bool
    highest: int

    def of(self, current: DataType, want: DataType, column: str) -> DataType:
        """Return the type that a column of type `current` has afterwards. Raises `SchemaMismatch`."""
        nullable = current.nullable and want.nullable
        if self.forbid_not_null and current.nullable and not nullable:
            raise casting.not_null_refused(column)
        match current.root, want.root:
            case "ROW", "ROW":
                return replace(current, nullable=nullable, fields=self._parts(current, want, column))
            case "ARRAY", "ARRAY":
                return replace(
                    current,
                    nullable=nullable,
                    element=self.of(part(current.element), part(want.element), f"{column}.element"),
                )
            case "MAP", "MAP":
                if part(current.key).as_nullable() != part(want.key).as_nullable():
                    raise SchemaMismatch(
                        f"Cannot update key type of column {column} from {current.key} type to {want.key} type",
                        column=column,
                    )
                return replace(
                    current, nullable=nullable, value=self.of(part(current.value), part(want.value), f"{column}.value")
                )
        if not casting.is_allowed(current, want, explicit=self.explicit):
            raise casting.lossy_refused(current, want, column, explicit=self.explicit)
        return replace(want, nullable=nullable)

    def _parts(self, current: DataType, want: DataType, column: str) -> tuple[Field, ...]:
        old = {field.name: (at, field) for at, field in enumerate(current.fields)}
        fields: list[Field] = []
        last = -1
        for field in want.fields:
            name = f"{column}.{field.name}"
            if field.name not in old:
                if not field.nullable:
                    raise SchemaMismatch(
                        f"Column {name} cannot specify NOT NULL: rows that are there already have no value for it",
                        column=name,
                    )
                (added,), self.highest = assign_ids([field], self.highest)
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
                    type=self.of(own.type, field.type, name),
                    comment=own.comment if field.comment is None else field.comment,
                )
            )
        if not fields:
            raise SchemaMismatch(f"column {column} would have no fields left", column=column)
        return tuple(fields)
