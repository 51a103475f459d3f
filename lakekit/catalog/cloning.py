"""Copy a table of a catalog to another name, of this catalog or of another one: files first, then the name.

See `maintenance.clone`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import maintenance
from lakekit.catalog import appearing, identifier
from lakekit.errors import InvalidOption

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.catalog.metastore import Metastore
    from lakekit.metadata.table_context import TableContext


def check_source(text: str) -> None:
    """Raise `InvalidOption` for the name of a table without files of its own."""
    parsed = identifier.parse(text)
    if parsed.system is not None or parsed.database == identifier.SYSTEM:
        raise InvalidOption(
            f"{text[:200]!a} is a system table, which has no files: clone the table it tells of", key="name", value=text
        )


def clone(source: TableContext, metastore: Metastore, to: str, at: int | str | datetime | None) -> None:
    """Copy a table to a name that its database does not have yet.

    Raises: `TableAlreadyExists`, and what `maintenance.clone` raises; then there is no such table.
    """
    name = identifier.new_table(to, "createTable")
    appearing.check_free(metastore, name, f"{source.name} was not copied")
    appearing.create_and_register(
        metastore, name, lambda target: maintenance.clone.clone(source, target, at), f"{source.name} was copied"
    )
