"""A table of a catalog that appears whole (`maintenance.atomic_create`): its files first, then its name. Where the name cannot be kept the files go again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit import maintenance
from lakekit.errors import CommitStateUnknown, DatabaseAlreadyExists, LakekitError, TableAlreadyExists
from lakekit.world import REAL_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.catalog.identifier import Identifier
    from lakekit.catalog.metastore import Define, Metastore
    from lakekit.metadata.table_context import TableLocation
    from lakekit.model.table_schema import TableSchema

_PATIENCE_MS = 20_000
"""How long after its first file a table may become known."""
_MOST_VANISHED = 5
"""How often the files of others may go again before the name itself is taken to be in the way."""
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 10, 250


def create_or_wait(metastore: Metastore, name: Identifier, define: Define) -> None:
    """Creates a table, or returns when whoever creates it at the same moment has done so; where that fails, this goes on.

    Raises:
        TableAlreadyExists: files of a table lie there that the catalog does not know, and nobody is making it known.
    """
    pause_ms, most_vanished = _FIRST_PAUSE_MS, _MOST_VANISHED
    while True:
        try:
            metastore.create_table(name, define)
        except TableAlreadyExists:
            if metastore.has_table(name.database, name.table):
                return
            age_ms = _age_ms(metastore.ground(name))
            most_vanished -= age_ms is None
            if not most_vanished or (age_ms is not None and age_ms >= _PATIENCE_MS):
                raise
        else:
            return
        REAL_RUNTIME.wait(pause_ms)
        pause_ms = min(2 * pause_ms, _LONGEST_PAUSE_MS)


def create_database_once(metastore: Metastore, database: str, properties: Mapping[str, str]) -> None:
    """Creates a database, or returns where somebody created it at the same moment. Raises `DatabaseAlreadyExists` where another spelling is in the way."""
    try:
        metastore.create_database(database, properties)
    except DatabaseAlreadyExists:
        if not metastore.has_database(database):
            raise


def _age_ms(ground: TableLocation) -> int | None:
    """How long ago the first file of a table was written; None where it is gone again."""
    found = ground.storage.stat(ground.layout.schema(0))
    return None if found is None else REAL_RUNTIME.now_ms() - found.modified_ms


def check_free(metastore: Metastore, name: Identifier, otherwise: str) -> None:
    """Raises `TableAlreadyExists` for a name that its database has; `otherwise` says what was not done."""
    if metastore.has_table(name.database, name.table):
        raise TableAlreadyExists(f'{name.full} is in "{metastore.where}" already, and {otherwise}; choose another name', name=name.full)


def create_and_register(metastore: Metastore, name: Identifier, make: Define, meanwhile: str) -> None:
    """Has a table made and makes it known. `meanwhile`: during what somebody else may have made one. Raises `TableAlreadyExists`, and what `make` raises."""
    made: list[TableLocation] = []

    def define(ground: TableLocation) -> TableSchema:
        schema = make(ground)
        made.append(ground)
        return schema

    try:
        metastore.create_table(name, define)
    except BaseException as wrong:
        if made:
            with suppress(LakekitError):  # where nobody tells whether the name is there, the files stay: they are a whole table
                if not metastore.has_table(name.database, name.table):
                    maintenance.atomic_create.drop_created(made[0])
        elif isinstance(wrong, LakekitError) and not isinstance(wrong, CommitStateUnknown) and metastore.has_table(name.database, name.table):
            raise TableAlreadyExists(f"{name.full} was made by somebody else while {meanwhile}; theirs stands", name=name.full) from wrong
        raise
