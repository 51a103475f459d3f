"""A table of a catalog that appears whole (`care.whole`): its files first, then its name. Where the name cannot be kept the files go again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.care import whole
from lakekit.errors import CommitStateUnknown, LakekitError, TableAlreadyExists

if TYPE_CHECKING:
    from lakekit.catalog.metastore import Define, Metastore
    from lakekit.catalog.names import Name
    from lakekit.meta.handle import Ground
    from lakekit.model.schema import TableSchema


def check_free(metastore: Metastore, name: Name, otherwise: str) -> None:
    """Raises `TableAlreadyExists` for a name that its database has; `otherwise` says what was not done."""
    if metastore.has_table(name.database, name.table):
        raise TableAlreadyExists(f'{name.full} is in "{metastore.where}" already, and {otherwise}; choose another name', name=name.full)


def appear(metastore: Metastore, name: Name, make: Define, meanwhile: str) -> None:
    """Has a table made and makes it known. `meanwhile`: during what somebody else may have made one. Raises `TableAlreadyExists`, and what `make` raises."""
    made: list[Ground] = []

    def define(ground: Ground) -> TableSchema:
        schema = make(ground)
        made.append(ground)
        return schema

    try:
        metastore.create_table(name, define)
    except BaseException as wrong:
        if made:
            with suppress(LakekitError):  # where nobody tells whether the name is there, the files stay: they are a whole table
                if not metastore.has_table(name.database, name.table):
                    whole.withdraw(made[0])
        elif isinstance(wrong, LakekitError) and not isinstance(wrong, CommitStateUnknown) and metastore.has_table(name.database, name.table):
            raise TableAlreadyExists(f"{name.full} was made by somebody else while {meanwhile}; theirs stands", name=name.full) from wrong
        raise
