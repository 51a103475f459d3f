"""The functions that open and create tables: `lk.open`, `lk.create`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit import storage as storages
from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.table_definition import to_fields
from lakekit.errors import TableAlreadyExists
from lakekit.metadata.table_context import TableLocation, table_name_of
from lakekit.model.table_paths import Locations, TablePaths
from lakekit.options.option import FrozenDict, SecretOptions, normalize_keys
from lakekit.read.table_scan import context_of
from lakekit.table.format_tables import to_table_of_kind
from lakekit.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.ddl.table_definition import SchemaLike
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage import PathLike


def open(  # noqa: A001 - lk.open reads as meant, and is not exported by `*`
    path: str | PathLike,
    *,
    branch: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Table:
    """Open the Paimon table at a path.

    `path` is a folder, or an URL of an object store: `s3://bucket/…`, `gs://…`, `az://…`, `abfss://…` (with the extra
    lakekit[cloud]). `options` are dynamic options, put over those of the table; None takes one away. `storage_options`
    are for the store, by the names of Paimon (`s3.endpoint`, `s3.access-key`, …), of obstore and Polars
    (`aws_endpoint_url`, …), and `timeout`, `max_retries`; what is not given comes from the environment. They appear in
    no repr.

    Raises: `TableNotFound` saying what is there instead, `BranchNotFound`, `InvalidOption`, and `Unsupported` for a
    table that lakekit refuses.
    """
    _, root = storages.open(path, storage_options)
    secrets = None if storage_options is None else SecretOptions(storage_options)
    return to_table_of_kind(
        Table(
            location=root,
            name=table_name_of(root),
            branch_name=branch,
            dynamic=FrozenDict(normalize_keys(options or {})),
            storage_options=secrets,
        )
    )


# ---- creating ------------------------------------------------------------


def create(
    path: str | PathLike,
    schema: SchemaLike,
    *,
    primary_keys: Sequence[str] | None = (),
    partition_keys: Sequence[str] | None = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    if_not_exists: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Table:
    """Create a table at a path; missing folders are created.

    `schema`: Paimon types by column (`{"k": "BIGINT NOT NULL"}`), a `pl.Schema`, a `pa.Schema` or a list of `lk.Field`.
    Columns of the primary key become NOT NULL. `if_not_exists`: an existing table is returned as it is. Locations in
    `options` (`data-file.external-paths`) are allowed to the table that is returned; later openings must allow them
    again (`lakekit.allowed-locations`).

    Raises: `TableAlreadyExists`; `InvalidOption`, `SchemaMismatch`, `ColumnNotFound`, `ColumnAlreadyExists` for what
    the reference engine refuses too; `Unsupported` for what lakekit could not read back.
    """
    storage, root = storages.open(path, storage_options)
    table_location = TableLocation(name=table_name_of(root), storage=storage, paths=TablePaths(root=root))
    secrets = None if storage_options is None else SecretOptions(storage_options)
    table = Table(
        location=root,
        name=table_location.name,
        storage_options=secrets,
        locations=Locations().with_configured(normalize_keys(options or {})),
    )
    try:
        define(
            table_location,
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
        )
    except TableAlreadyExists:
        if not if_not_exists:
            raise
    context_of(table)
    return table


def define(
    table_location: TableLocation,
    schema: SchemaLike,
    *,
    primary_keys: Sequence[str] | None,
    partition_keys: Sequence[str] | None,
    options: Mapping[str, Any] | None,
    comment: str | None,
) -> TableSchema:
    """Write the first schema of a table.

    Raises: `TableAlreadyExists` for one that has a schema.
    """
    return schemas.create_table_schema(
        table_location,
        to_fields(schema),
        primary_keys=_to_names(primary_keys, "primary_keys"),
        partition_keys=_to_names(partition_keys, "partition_keys"),
        options=options,
        comment=comment,
    )


def _to_names(argument: Sequence[str] | None, parameter: str) -> tuple[str, ...]:
    """Return names as a tuple: a single text is one name, None is no name."""
    names = (argument,) if isinstance(argument, str) else () if argument is None else tuple(argument)
    for name in names:
        if not isinstance(name, str):
            msg = f"{parameter} are names of columns; found {type(name).__name__}"
            raise TypeError(msg)
    return names
