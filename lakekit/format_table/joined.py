"""One schema for foreign files, each with columns of its own.

    a.parquet  k INT, v FLOAT          b.parquet  k BIGINT, w STRING
    the table  k BIGINT, v FLOAT, w STRING             columns in the order of their first file, partition columns last

A column that a file lacks is null there. Where types differ, the table has the wider one, and the others become older
schemas of the table, so that each file is read by the schema that it was written with: no reader takes one number for
another. The partition values in folder names are texts: the column is a whole number (INT, BIGINT) or day (DATE) only
where every text is exactly what its value prints as, else it stays STRING: `01` is not 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakekit.errors import Corrupt, SchemaMismatch
from lakekit.format.held import BYTES, STRING, ForeignFileSchema
from lakekit.format_table.foreign_files import HIVE_NULL
from lakekit.model import partition as partitions
from lakekit.types import INTEGERS, NESTED_TYPES, STRINGS, TIMESTAMPS, DataType, Field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_REALS = ("FLOAT", "DOUBLE")
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSchema:
    """The columns of a table to make, without ids; and for each file its deviating types, by column."""

    fields: tuple[Field, ...]
    older: tuple[Mapping[str, DataType], ...]


def merge_schemas(paths: Sequence[str], file_schemas: Sequence[ForeignFileSchema], keys: Sequence[str]) -> MergedSchema:
    """Return the columns of some files that are no partition columns.

    Raises: `SchemaMismatch` naming the column and both files where no type holds the values of both.
    """
    types: dict[str, DataType] = {}
    first: dict[str, str] = {}
    for path, file_schema in zip(paths, file_schemas, strict=True):
        for field in file_schema.fields:
            if field.name in keys:
                continue
            have = types.get(field.name)
            wide = field.type if have is None else wider_type(have, field.type)
            if wide is None:
                raise SchemaMismatch(
                    f"column {field.name} is {field.type} in {path} and {have} in {first[field.name]}, and no type "
                    "holds both. Write one of them anew",
                    column=field.name,
                )
            types[field.name] = wide
            first.setdefault(field.name, path)
    _check_names([*types, *keys])
    if not types:
        raise SchemaMismatch(
            f"{paths[0]} has no column beside those of its partition ({', '.join(keys)}), and a table needs one"
        )
    older = [
        {field.name: field.type for field in file_schema.fields if types.get(field.name, field.type) != field.type}
        for file_schema in file_schemas
    ]
    return MergedSchema(fields=tuple(Field(name, t) for name, t in types.items()), older=tuple(older))


def merge_with_declared(
    paths: Sequence[str], file_schemas: Sequence[ForeignFileSchema], fields: Sequence[Field], keys: Sequence[str]
) -> MergedSchema:
    """Return the merged schema where a format table declares its columns.

    Raises: `SchemaMismatch` for a file that holds what its column cannot.
    """
    declared = {field.name: field.type for field in fields if field.name not in keys}
    older: list[dict[str, DataType]] = []
    for path, file_schema in zip(paths, file_schemas, strict=True):
        own: dict[str, DataType] = {}
        for field in file_schema.fields:
            want = declared.get(field.name)
            if (
                want is None
                or _is_as(field.type, want)
                or (field.name in file_schema.timeless and want.root in TIMESTAMPS)
            ):
                continue
            if wider_type(field.type, want) != want.as_nullable():
                raise SchemaMismatch(
                    f"{path}: column {field.name} holds {field.type}, and the format table says {want}",
                    column=field.name,
                )
            own[field.name] = field.type
        older.append(own)
    return MergedSchema(fields=tuple(fields), older=tuple(older))


def _is_as(stored: DataType, want: DataType) -> bool:
    """Return whether a stored type is read as the column's type without another schema.

    Lengths do not matter: files do not store them.
    """
    if stored.root in ("VARCHAR", "VARBINARY"):
        return want.root in (STRINGS if stored.root == "VARCHAR" else ("BINARY", "VARBINARY"))
    return _bare_type(stored) == _bare_type(want)


def wider_type(a: DataType, b: DataType) -> DataType | None:
    """Return the type that holds the values of both; None where there is none.

    Nested types must be equal but for nullability.
    """
    a, b = _bare_type(a), _bare_type(b)
    if a == b:
        return a
    if a.root in NESTED_TYPES or b.root in NESTED_TYPES:
        return None
    if a.root in INTEGERS and b.root in INTEGERS:
        return max(a, b, key=lambda t: INTEGERS.index(t.root))
    if a.root in _REALS and b.root in _REALS:
        return DataType(root="DOUBLE")
    if a.root == b.root and a.root in (*TIMESTAMPS, "TIME"):
        return max(a, b, key=lambda t: t.precision or 0)
    if a.root == b.root == "DECIMAL":
        scale = max(a.scale or 0, b.scale or 0)
        integer_digits = max((t.precision or 10) - (t.scale or 0) for t in (a, b))
        return (
            replace(a, precision=integer_digits + scale, scale=scale)
            if integer_digits + scale <= _MOST_DIGITS
            else None
        )
    if a.root in STRINGS and b.root in STRINGS:
        return STRING
    return BYTES if {a.root, b.root} <= {"BINARY", "VARBINARY"} else None


def _bare_type(t: DataType) -> DataType:
    """Return a type with all its parts nullable, without ids and comments."""
    element, key, value = (None if inner is None else _bare_type(inner) for inner in (t.element, t.key, t.value))
    fields = tuple(Field(field.name, _bare_type(field.type)) for field in t.fields)
    return replace(t, nullable=True, element=element, key=key, value=value, fields=fields)


def _check_names(names: Sequence[str]) -> None:
    """Raise `SchemaMismatch` for names that differ in case alone.

    To most engines they are one column, and the values of one of them would be lost.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaMismatch(
                f"columns {other} and {name} differ in nothing but capitals, and columns are found by name. Rename one",
                column=name,
            )


# ---- partition columns ---------------------------------------------------------------------------


def partition_fields(
    keys: Sequence[str],
    texts: Sequence[Sequence[str]],
    paths: Sequence[str],
    file_schemas: Sequence[ForeignFileSchema],
    types: Mapping[str, DataType],
) -> tuple[Field, ...]:
    """Return the partition columns, with their types.

    The type is that of `types`, else that of files that hold the column too, else one that fits all texts.

    Raises: `SchemaMismatch` for a type that is given for no partition column, and where files disagree.
    """
    if unknown := next((name for name in types if name not in keys), None):
        raise SchemaMismatch(
            f"{unknown} is no partition column of the folders; they are {', '.join(keys) or 'none'}", column=unknown
        )
    fields = []
    for at, name in enumerate(keys):
        inside = [
            (path, field)
            for path, file_schema in zip(paths, file_schemas, strict=True)
            for field in file_schema.fields
            if field.name == name
        ]
        t = types.get(name) or (_common_type(name, inside) if inside else _infer_type({row[at] for row in texts}))
        fields.append(Field(name, t))
    return tuple(fields)


def _common_type(name: str, inside: Sequence[tuple[str, Field]]) -> DataType:
    path, first = inside[0]
    t = first.type
    for other, field in inside:
        wide = wider_type(t, field.type)
        if wide is None or t.root in NESTED_TYPES:
            raise SchemaMismatch(f"partition column {name} is {field.type} in {other} and {t} in {path}", column=name)
        t = wide
    return t


def _infer_type(texts: set[str]) -> DataType:
    present = texts - {HIVE_NULL, partitions.DEFAULT_NAME}
    for root, form in (("INT", _NUMBER), ("BIGINT", _NUMBER), ("DATE", _DAY)):
        t = DataType(root=root)
        if present and all(form.fullmatch(text) and _is_value(text, t) for text in present):
            return t
    return STRING


def _is_value(text: str, t: DataType) -> bool:
    try:
        partitions.parse_value(text, t)
    except Corrupt:
        return False
    return True


def values(path: str, texts: Sequence[str], fields: Sequence[Field]) -> tuple[object, ...]:
    """Return the partition values of a file, as rows hold them.

    Raises: `SchemaMismatch` for a text that is no value of its column, and a blank one.
    """
    parsed = []
    for text, field in zip(texts, fields, strict=True):
        if partitions.is_blank(text):
            msg = (
                f"{path} lies in a partition whose {field.name} is blank, which in a table of Paimon is the folder of "
                f"nulls. Name the folder {HIVE_NULL}"
            )
            raise SchemaMismatch(msg, column=field.name)
        try:
            parsed.append(
                None if text in (HIVE_NULL, partitions.DEFAULT_NAME) else partitions.parse_value(text, field.type)
            )
        except Corrupt as wrong:
            msg = (
                f"{path}: partition column {field.name} is {field.type}, and {wrong.message}. Name another type in "
                "partition_types"
            )
            raise SchemaMismatch(msg, column=field.name) from None
    return tuple(parsed)
