"""The growth of a pipeline's tables: made as they appear, columns added, types widened.

    INT       grows to BIGINT, and every integer to a DECIMAL that holds it
    FLOAT     to DOUBLE; TINYINT, SMALLINT and INT to DOUBLE, which holds them exactly
    DECIMAL   in digits on both sides of the point, VARCHAR, CHAR, BINARY and VARBINARY in length,
              TIME and timestamps in digits
    ROW       by fields, ARRAY and MAP by what they hold
    all else  stays: a row that does not fit goes to the dead letters

Key and partition columns keep their types, as files lie by their values. Columns are never dropped: one that a message
lacks is null in its row. `widen_type` is the rule, `grow_table` applies it; whatever they are given twice changes
nothing the second time, so that a batch that is done again finds the same table.

Source: ENGINE.md 1.5; `UpdatedDataFieldsProcessFunctionBase.canConvert` of paimon-flink-cdc, engine 1.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakekit.ddl.schema_changes import add_column, update_type
from lakekit.errors import DatabaseNotFound, SchemaMismatch, TableNotFound
from lakekit.read.table_scan import context_of
from lakekit.types import INTEGERS, STRINGS, TIMESTAMPS, DataType, Field, part, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.catalog.catalog import Catalog
    from lakekit.ddl.schema_changes import TableChange
    from lakekit.model.table_schema import TableSchema
    from lakekit.spark.pipeline.configuration import GrowthConfiguration, TableConfiguration
    from lakekit.table.table import Table

_MAX_DIGITS = 38
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_BYTES = ("BINARY", "VARBINARY")
_EXACT_IN_DOUBLE = ("TINYINT", "SMALLINT", "INT", "FLOAT", "DOUBLE")
DEAD_LETTER_COLUMNS = {
    "time": "TIMESTAMP_LTZ(6)",
    "source": "STRING",
    "table": "STRING",
    "position": "STRING",
    "problem": "STRING",
    "value": "STRING",
}
"""The columns of the table that takes what fits nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGrowth:
    """What a table has to become: new columns, wider types; `misfits` are columns that cannot widen.

    A misfit has its type, and the one that came.
    """

    added: Mapping[str, DataType]
    widened: Mapping[str, DataType]
    misfits: Mapping[str, tuple[DataType, DataType]]

    def changes(self) -> list[TableChange]:
        """Return the changes for `t.alter`."""
        return [
            *(add_column(quote_identifier(name), t.as_nullable()) for name, t in self.added.items()),
            *(update_type(quote_identifier(name), t) for name, t in self.widened.items()),
        ]


def widen_type(current: DataType, incoming: DataType) -> DataType | None:
    """Return the type, as nullable as `current`, that holds the values of both; None where none does."""
    wider = _widen_root(current.as_nullable(), incoming.as_nullable())
    return None if wider is None else replace(wider, nullable=current.nullable)


def _widen_root(a: DataType, b: DataType) -> DataType | None:
    roots = (a.root, b.root)
    if a.is_nested or b.is_nested:
        return _widen_nested(a, b) if a.root == b.root else None
    if all(root in INTEGERS for root in roots):
        return max(a, b, key=lambda t: INTEGERS.index(t.root))
    if "DECIMAL" in roots:
        return _widen_decimal(a, b)
    if all(root in _EXACT_IN_DOUBLE for root in roots):
        return a if a.root == b.root else DataType(root="DOUBLE")
    if a.root == "DOUBLE" and b.root in INTEGERS:
        return a  # a source that tells 1 for 1.0 means the same column
    if all(root in STRINGS for root in roots) or all(root in _BYTES for root in roots):
        return _widen_length(a, b)
    if a.root == b.root and a.root in (*TIMESTAMPS, "TIME"):
        return max(a, b, key=lambda t: t.precision or 0)
    return a if a.root == b.root else None


def _widen_length(a: DataType, b: DataType) -> DataType:
    length = max(a.length or 1, b.length or 1)
    varying = a.root if a.root == b.root else a.root if a.root.startswith("VAR") else b.root
    return a if length == a.length and varying == a.root else replace(a, root=varying, length=length)


def _widen_decimal(a: DataType, b: DataType) -> DataType | None:
    sizes = [_decimal_size(t) for t in (a, b)]
    if None in sizes:
        return None
    whole, scale = (max(size[side] for size in sizes if size is not None) for side in (0, 1))
    return DataType(root="DECIMAL", precision=whole + scale, scale=scale) if whole + scale <= _MAX_DIGITS else None


def _decimal_size(t: DataType) -> tuple[int, int] | None:
    """Return the digits before and behind the point; None for what is no exact number."""
    if t.root in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[t.root], 0
    return ((t.precision or 10) - (t.scale or 0), t.scale or 0) if t.root == "DECIMAL" else None


def _widen_nested(a: DataType, b: DataType) -> DataType | None:
    match a.root:
        case "ROW":
            return _widen_row(a, b)
        case "ARRAY":
            element = widen_type(part(a.element), part(b.element))
            return None if element is None else replace(a, element=element)
        case "MAP":
            value = widen_type(part(a.value), part(b.value))
            same_keys = part(a.key).as_nullable() == part(b.key).as_nullable()
            return replace(a, value=value) if value is not None and same_keys else None
    return a if a == b else None


def _widen_row(a: DataType, b: DataType) -> DataType | None:
    incoming = {field.name: field for field in b.fields}
    fields = []
    for field in a.fields:
        other = incoming.pop(field.name, None)
        wider = field.type if other is None else widen_type(field.type, other.type)
        if wider is None:
            return None
        fields.append(Field(field.name, wider, id=field.id, comment=field.comment, default=field.default))
    fields += [Field(field.name, field.type.as_nullable()) for field in incoming.values()]
    return replace(a, fields=tuple(fields))


def plan_growth(schema: TableSchema, types: Mapping[str, DataType], growth: GrowthConfiguration) -> TableGrowth:
    """Return what a table of that schema has to become to hold columns of those types.

    Raises: `SchemaMismatch` for a name that differs from a column's by case alone, as Spark tells them not apart.
    """
    existing = {field.name: field.type for field in schema.fields}
    by_case = {name.lower(): name for name in existing}
    fixed = {*schema.primary_keys, *schema.partition_keys}
    added: dict[str, DataType] = {}
    widened: dict[str, DataType] = {}
    misfits: dict[str, tuple[DataType, DataType]] = {}
    for name, t in types.items():
        twin = by_case.setdefault(name.lower(), name)
        if twin != name:
            msg = (
                f"columns {twin!r} and {name!r} differ by case alone, and Spark takes them for one: give one another "
                "name under rename, or leave it out under exclude"
            )
            raise SchemaMismatch(msg, column=name)
        if name not in existing:
            if growth.add_columns:
                added[name] = t.as_nullable()
            continue
        wider = widen_type(existing[name], t)
        if wider is None:
            misfits[name] = (existing[name], t)
        elif wider != existing[name] and growth.widen_types and name not in fixed:
            widened[name] = wider
    return TableGrowth(added=added, widened=widened, misfits=misfits)


def find_table(catalog: Catalog, name: str) -> Table | None:
    """Return a table of the catalog; None where there is none."""
    try:
        return catalog.table(name)
    except (DatabaseNotFound, TableNotFound):
        return None


def make_database(catalog: Catalog, name: str) -> None:
    """Create a database, unless it exists."""
    catalog.create_database(name, if_not_exists=True)


def create_table(
    catalog: Catalog,
    name: str,
    types: Mapping[str, DataType],
    table: TableConfiguration,
    primary_keys: tuple[str, ...],
) -> Table:
    """Create a table for columns of those types; key columns come first and hold no nulls.

    Raises: what `cat.create_table` raises.
    """
    firsts = [*table.partition_keys, *primary_keys]
    order = [*dict.fromkeys(firsts), *(column for column in types if column not in firsts)]
    missing = [column for column in firsts if column not in types]
    if missing:
        msg = f"{name} has {missing[0]!r} among its keys, and no message has such a column"
        raise SchemaMismatch(msg, column=missing[0])
    columns = {
        column: types[column].not_null() if column in primary_keys else types[column].as_nullable() for column in order
    }
    return catalog.create_table(
        name,
        [Field(column, t) for column, t in columns.items()],
        primary_keys=primary_keys,
        partition_keys=table.partition_keys,
        options=dict(table.options),
        if_not_exists=True,
    )


def grow_table(table: Table, types: Mapping[str, DataType], growth: GrowthConfiguration) -> TableGrowth:
    """Add the columns and widen the types that a table needs to hold columns of those types; return what was done.

    A type that the table cannot take, as its column is a key of its buckets, counts as a misfit.

    Raises: `SchemaMismatch`, as `plan_growth`.
    """
    planned = plan_growth(context_of(table).schema, types, growth)
    added = TableGrowth(added=planned.added, widened={}, misfits={})
    if planned.added:
        table.alter(*added.changes())
    widened: dict[str, DataType] = {}
    misfits = dict(planned.misfits)
    for name, t in planned.widened.items():
        before = next(field.type for field in table.schema.fields if field.name == name)
        try:
            table.alter(update_type(quote_identifier(name), t))
            widened[name] = t
        except SchemaMismatch:
            misfits[name] = (before, t)
    return TableGrowth(added=planned.added, widened=widened, misfits=misfits)


def open_dead_letters(catalog: Catalog, name: str) -> Table:
    """Return the table of dead letters, which is made where there is none."""
    return catalog.create_table(name, DEAD_LETTER_COLUMNS, options={"bucket": "-1"}, if_not_exists=True)
