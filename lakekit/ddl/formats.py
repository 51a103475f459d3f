"""Check that the file formats of a table can store its columns.

Source: ENGINE.md 1.4, `FileFormat.validateDataFields`: `AvroSchemaConverter`, `OrcTypeUtil`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.ddl.table_definition import parts_of
from lakekit.errors import SchemaMismatch
from lakekit.format.avro_writer import bad_name
from lakekit.options.features import find, refuse
from lakekit.types import TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.model.table_schema import TableSchema
    from lakekit.options.table_options import TableOptions
    from lakekit.types import DataType, Field

FORMATS = ("parquet", "orc", "avro")


def check_formats(schema: TableSchema, options: TableOptions) -> None:
    """Raise `SchemaMismatch` for a column that the format of some level cannot store.

    Raises: `Unsupported` for a format that lakekit does not have.
    """
    name = options.file_format.strip().lower()
    _check_names(
        schema, (name, *(level_format.strip().lower() for level_format in options.file_format_per_level.values()))
    )
    for column in schema.fields:
        if (wrong := _refuses(name, column)) is not None:
            raise SchemaMismatch(f"{wrong}. Change the type, or use another file.format", column=column.name)
    for level, named in options.file_format_per_level.items():
        _check_format_name(named.strip().lower())
        if named.strip().lower() != "avro":
            continue
        for column in schema.fields:
            t = column.type
            if t.root in TIMESTAMPS and (t.precision or 0) > 6:
                raise SchemaMismatch(
                    f"'file.format.per.level' entry '{level}:avro' is incompatible with column '{column.name}' of "
                    f"type {t}: Avro supports timestamp "
                    f"precision up to 6, got {t.precision}. Lower the precision, or use parquet or orc for level "
                    f"{level}",
                    column=column.name,
                )
    _check_format_name(name)


def _check_names(schema: TableSchema, formats: Sequence[str]) -> None:
    """Raise `SchemaMismatch` for names that a format cannot store.

    The reference takes such columns, and fails at the first write or reads nulls.
    """
    names = [
        (column.name, part)
        for column in schema.fields
        for part in (column.name, *(f.name for t in parts_of(column.type) for f in t.fields))
    ]
    for column, name in names:
        if "avro" in formats and name == column and (wrong := bad_name(name)) is not None:
            msg = (
                f"column {column}: {wrong}, and Avro has names of letters, digits and _ that begin with no digit. "
                "Rename it, or use another file.format"
            )
            raise SchemaMismatch(msg, column=column)
        if "orc" in formats and "`" in name:
            msg = (
                f"column {column}: ORC quotes names by ticks, and {name!r} has one, so that it reads as null. Rename "
                "it, or use another file.format"
            )
            raise SchemaMismatch(msg, column=column)


def _check_format_name(name: str) -> None:
    if name not in FORMATS:
        feature = f"file.format.{name}"
        known_feature = find(feature)
        raise refuse(
            feature if known_feature is None else known_feature.name,
            f"file.format {name!r}",
            instead=f"Use one of {', '.join(FORMATS)}",
        )


def _refuses(name: str, column: Field) -> str | None:
    for t in parts_of(column.type):
        if name == "avro" and (wrong := _avro(t)) is not None:
            return f"column {column.name}: {wrong}"
        if name == "orc" and (wrong := _orc(t)) is not None:
            return f"column {column.name}: {wrong}"
    return None


def _avro(t: DataType) -> str | None:
    if t.root in TIMESTAMPS and (t.precision or 0) > 6:
        return f"Avro does not support TIMESTAMP type with precision: {t.precision}, it holds 6 digits at most"
    if t.root == "TIME" and (t.precision or 0) > 3:
        return f"Avro does not support TIME type with precision: {t.precision}, it holds 3 digits at most"
    if (wrong := next(filter(None, (bad_name(field.name) for field in t.fields)), None)) is not None:
        return f"{wrong}, and Avro has names of letters, digits and _ that begin with no digit"
    return f"Avro: Unsupported to derive Schema for type: {t}" if t.root == "VARIANT" else None


def _orc(t: DataType) -> str | None:
    return f"ORC: Unsupported type: {t}" if t.root == "VARIANT" else None
