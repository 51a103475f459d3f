"""A column of another type: a plain one is cast, one with parts keeps the parts that it has.

    held  ROW<x INT, y STRING>     want  ROW<x BIGINT, z DATE>      x is widened, y dropped, z added under a new id
    held  MAP<STRING, INT>         want  MAP<STRING, BIGINT>        values are widened; keys never change

Whether nulls are taken stays as it is, unless the new type says NOT NULL. Source: ENGINE.md 1.5, `NestedSchemaUtils`.
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
    """What a change of types goes by: whether casts may lose, whether NOT NULL may be asked for, and the highest id given so far."""

    explicit: bool
    forbid_not_null: bool
    highest: int

    def of(self, held: DataType, want: DataType, column: str) -> DataType:
        """The type that a column of type `held` has afterwards. Raises `SchemaMismatch`."""
        nullable = held.nullable and want.nullable
        if self.forbid_not_null and held.nullable and not nullable:
            raise casting.not_null_refused(column)
        match held.root, want.root:
            case "ROW", "ROW":
                return replace(held, nullable=nullable, fields=self._parts(held, want, column))
            case "ARRAY", "ARRAY":
                return replace(held, nullable=nullable, element=self.of(part(held.element), part(want.element), f"{column}.element"))
            case "MAP", "MAP":
                if part(held.key).as_nullable() != part(want.key).as_nullable():
                    raise SchemaMismatch(f"Cannot update key type of column {column} from {held.key} type to {want.key} type", column=column)
                return replace(held, nullable=nullable, value=self.of(part(held.value), part(want.value), f"{column}.value"))
        if not casting.is_allowed(held, want, explicit=self.explicit):
            raise casting.lossy_refused(held, want, column, explicit=self.explicit)
        return replace(want, nullable=nullable)

    def _parts(self, held: DataType, want: DataType, column: str) -> tuple[Field, ...]:
        old = {field.name: (at, field) for at, field in enumerate(held.fields)}
        found: list[Field] = []
        last = -1
        for field in want.fields:
            name = f"{column}.{field.name}"
            if field.name not in old:
                if not field.nullable:
                    raise SchemaMismatch(f"Column {name} cannot specify NOT NULL: rows that are there already have no value for it", column=name)
                (added,), self.highest = assign_ids([field], self.highest)
                found.append(added)
                continue
            at, own = old[field.name]
            if at < last:
                raise SchemaMismatch(
                    f"Order of existing fields in column {column} must be kept the same. However, field {held.fields[last].name} and {field.name} have "
                    "changed their orders",
                    column=column,
                )
            last = at
            found.append(replace(own, type=self.of(own.type, field.type, name), comment=own.comment if field.comment is None else field.comment))
        if not found:
            raise SchemaMismatch(f"column {column} would have no fields left", column=column)
        return tuple(found)
