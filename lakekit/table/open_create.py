"""Open tables: `lk.open`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit import storage as storages
from lakekit.metadata.table_context import name_of
from lakekit.options.frozendict import FrozenDict
from lakekit.options.secrets import SecretOptions
from lakekit.options.table_options import normalize_keys
from lakekit.table.format_tables import to_table_of_kind
from lakekit.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

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
            name=name_of(root),
            branch_name=branch,
            dynamic=FrozenDict(normalize_keys(options or {})),
            storage_options=secrets,
        )
    )
