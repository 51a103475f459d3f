"""The partitions in a table's folder, and the files in them.

    <root>/dt=2024-01-01/hr=8/data-….csv
    <root>/2024-01-01/8/data-….csv            with the option format-table.partition-path-only-value

Files and folders whose names begin with `_` or `.` are skipped: writers keep uncommitted files there. So are folders
that are no partition. Source: ENGINE.md 9.6; `FormatTableScan`, `PartitionPathUtils`. The reference looks into hidden
folders of tables without partitions, and so reads what a writer has not committed yet; where folders are values alone
it does not unescape them, which 2.x fixes, and skips the partition of nulls, whose name begins with `_`. lakekit does
none of that.

The file format of a format table, and the columns that its files hold.

Source: ENGINE.md 9.6; `FormatTable`, `CatalogUtils.toFormatTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa

from lakekit import storage as storages
from lakekit.codec import binary_row
from lakekit.errors import Corrupt, SchemaMismatch, Unsupported
from lakekit.format.encoder import check_types
from lakekit.format.polars_types import polars_schema
from lakekit.model import partition as partitions
from lakekit.model.locations import FORMAT_TABLE_PATH
from lakekit.parallel import parallel_map
from lakekit.text_format import csv, json, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage.protocol import Stat, Storage
    from lakekit.types import Field


_SCHEMA = "schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolder:
    """A folder of files with the same partition values, in the form that rows are decoded to."""

    directory: str
    values: tuple[Any, ...] = ()


def files_location(ctx: TableContext) -> tuple[Storage, str]:
    """Return the storage and folder of a table's files: its own, or the one that the option `path` names."""
    location = ctx.all_options.get(FORMAT_TABLE_PATH, "").strip()
    return resolve_location(ctx, location, FORMAT_TABLE_PATH) if location else (ctx.storage, ctx.root)


def resolve_location(ctx: TableContext, location: str, option: str) -> tuple[Storage, str]:
    """Return the storage and the path of a location that an option of the table names.

    A path, or a URL of the table's own kind of storage, is one of that storage, with its credentials; another URL names
    its own. Links lead nowhere below the place that allows the location.

    Raises: `LocationNotAllowed`.
    """
    if _scheme(location) not in ("", "file"):
        ctx.check_location(location, option)  # before anything is made of it
    storage, root = storages.open(location)
    ctx.check_location(location, option, path=root)
    scheme = _scheme(location)
    root = root.rstrip("/") or "/"
    own = ctx.storage if not scheme or scheme == _scheme(ctx.root) else storage
    return storages.confine(own, ctx.trusted_place(root)), root


def _scheme(location: str) -> str:
    scheme, colon, _ = location.partition("/")[0].partition(":")
    return scheme.lower() if colon else ""


def portable_location(table_location: TableLocation, location: str) -> str:
    """Return a location as a table stores it: the same wherever the table is opened from."""
    if _scheme(location):
        return location
    path = storages.open(location)[1]
    return f"file://{quote(path)}" if table_location.storage.is_remote else path


def is_hidden(name: str) -> bool:
    """Whether readers pass over a file or folder of that name."""
    return name.startswith(("_", "."))


# ---- partitions ----------------------------------------------------------------------------------


def list_partitions(ctx: TableContext, conditions: Sequence[pl.Expr] = ()) -> list[PartitionFolder]:
    """Return the partitions that satisfy conditions on partition columns, by path.

    A table without partition columns has one. Folders that fail a condition are not listed.

    Raises: `Corrupt` for a folder whose text is no value of its column.
    """
    storage, root = files_location(ctx)
    level = [PartitionFolder(directory=root)]
    fields = ctx.schema.partition_fields
    for depth, field in enumerate(fields, 1):
        inside = parallel_map(lambda folder: _list_subpartitions(ctx, storage, folder, field), level)  # noqa: B023 - each() ends before the next turn
        level = _filter_partitions([folder for folders in inside for folder in folders], fields[:depth], conditions)
    return level


def _list_subpartitions(
    ctx: TableContext, storage: Storage, above: PartitionFolder, field: Field
) -> list[PartitionFolder]:
    only_value, null = ctx.options.format_table_partition_path_only_value, ctx.options.partition_default_name
    children = []
    for entry in storage.list(above.directory):
        if not entry.is_dir or (is_hidden(entry.name) and not (only_value and entry.name == partitions.escape(null))):
            continue
        name, equals, text = entry.name.partition("=")
        if only_value:
            text = entry.name
        elif not equals or partitions.unescape(name) != field.name:
            continue
        try:
            [value] = partitions.parse([partitions.unescape(text)], [field.type], default_name=null)
        except Corrupt as wrong:
            raise Corrupt(
                f"{entry.path}: partition column {field.name} is {field.type}: {wrong.message}",
                path=entry.path,
                field=field.name,
            ) from None
        children.append(PartitionFolder(directory=entry.path, values=(*above.values, value)))
    return children


def _filter_partitions(
    level: list[PartitionFolder], fields: Sequence[Field], conditions: Sequence[pl.Expr]
) -> list[PartitionFolder]:
    """Return the folders that satisfy the conditions on the last of these columns and on no later one."""
    names = {field.name for field in fields}
    applicable = [
        condition
        for condition in conditions
        if fields[-1].name in condition.meta.root_names() and set(condition.meta.root_names()) <= names
    ]
    if not applicable or not level:
        return level
    mask = (
        values(level, fields)
        .select(pl.all_horizontal(condition.fill_null(value=False) for condition in applicable))
        .to_series()
    )
    return [level[at] for at in mask.alias("").arg_true()]


def values(
    level: Sequence[PartitionFolder], fields: Sequence[Field], timestamp_unit: str | None = None
) -> pl.DataFrame:
    """Return the values of some partitions as a frame, a row each."""
    types = [field.type for field in fields]
    rows = pa.array(
        [binary_row.with_arity(binary_row.encode(folder.values, types), len(types)) for folder in level], pa.binary()
    )
    columns = binary_row.decode_columns(rows, types)
    wanted = polars_schema(fields, timestamp_unit=timestamp_unit)
    return pl.DataFrame(
        [pl.Series(field.name, column).cast(wanted[field.name]) for field, column in zip(fields, columns, strict=True)]
    )


# ---- files ---------------------------------------------------------------------------------------


def files(ctx: TableContext, directories: Sequence[str]) -> list[list[Stat]]:
    """Return the data files of each of some folders, those in inner folders included, by path."""
    storage, _ = files_location(ctx)
    own = None if ctx.layout.hidden else f"{ctx.root}/{_SCHEMA}"
    return parallel_map(lambda directory: _list_files(storage, directory, own), directories)


def _list_files(storage: Storage, directory: str, own: str | None) -> list[Stat]:
    stats: list[Stat] = []
    for entry in storage.list(directory):
        if is_hidden(entry.name) or entry.path == own:
            continue
        stats += _list_files(storage, entry.path, own) if entry.is_dir else [entry]
    return stats


# ---- kinds ------------------------------------------------------------


FORMAT_TABLE = "format-table"
COLUMNAR = ("orc", "parquet")
TEXTS: dict[str, Any] = {"csv": csv, "json": json, "text": text}
FORMATS = (*COLUMNAR, *TEXTS)
"""The formats of engine 1.4.2; 2.x adds mosaic."""


def format_of(ctx: TableContext) -> str:
    """Return the format of a table's files."""
    return str(ctx.options.file_format).strip().lower()


def text_format(name: str) -> Any:
    """Return the module of a text format."""
    return TEXTS[name]


def held_fields(schema: TableSchema) -> tuple[Field, ...]:
    """Return the columns that files hold: all that are no partition columns, in order."""
    return tuple(field for field in schema.fields if field.name not in schema.partition_keys)


def check_format(ctx: TableContext) -> None:
    """Raise `Unsupported` for a format that is none of the five, or a type that its files do not hold."""
    check(format_of(ctx), ctx.schema)


def check(format_name: str, schema: TableSchema) -> None:
    """Check the format of a table to make, as `check_format` does.

    Raises: `SchemaMismatch` where every column is a partition column.
    """
    if format_name not in FORMATS:
        msg = f"Format table unsupported file format: {format_name}. Supported formats: {', '.join(FORMATS)}"
        raise Unsupported(msg, feature=f"format-table.{format_name}")
    fields = held_fields(schema)
    if not fields:
        raise SchemaMismatch(
            "every column is a partition column, so that files would hold nothing; leave one column out of the "
            "partition"
        )
    if format_name in TEXTS:
        TEXTS[format_name].check_types(fields)
    else:
        check_types(format_name, fields)
