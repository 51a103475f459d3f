"""Creation of catalog tables in one step (`maintenance.atomic_create`): the files first, then the name.

Where the name cannot be registered the files are removed.
"""

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
    """Create a table, or return when a concurrent creator has done so; where that one fails, try again.

    Raises:
        TableAlreadyExists: files of a table exist there that the catalog does not know, and no other process is
            registering it.
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
    """Create a database, or return where another process created it at the same moment.

    Raises: `DatabaseAlreadyExists` where a database whose name differs only in spelling exists.
    """
    try:
        metastore.create_database(database, properties)
    except DatabaseAlreadyExists:
        if not metastore.has_database(database):
            raise


def _age_ms(target: TableLocation) -> int | None:
    """Return how long ago the first file of a table was written; None where it does not exist any more."""
    stat = target.storage.stat(target.layout.schema(0))
    return None if stat is None else REAL_RUNTIME.now_ms() - stat.modified_ms


def check_free(metastore: Metastore, name: Identifier, otherwise: str) -> None:
    """Raise `TableAlreadyExists` for a name that its database has; `otherwise` says what was not done."""
    if metastore.has_table(name.database, name.table):
        raise TableAlreadyExists(
            f'{name.full} is in "{metastore.where}" already, and {otherwise}; choose another name', name=name.full
        )


def create_and_register(metastore: Metastore, name: Identifier, make: Define, meanwhile: str) -> None:
    """Make a table and register its name.

    `meanwhile`: the work during which another process may have made one, for the error message.

    Raises: `TableAlreadyExists`, and what `make` raises.
    """
    made: list[TableLocation] = []

    def define(target: TableLocation) -> TableSchema:
        schema = make(target)
        made.append(target)
        return schema

    try:
        metastore.create_table(name, define)
    except BaseException as wrong:
        if made:
            with suppress(
                LakekitError
            ):  # where nobody tells whether the name is there, the files stay: they are a whole table
                if not metastore.has_table(name.database, name.table):
                    maintenance.atomic_create.drop_created(made[0])
        elif (
            isinstance(wrong, LakekitError)
            and not isinstance(wrong, CommitStateUnknown)
            and metastore.has_table(name.database, name.table)
        ):
            raise TableAlreadyExists(
                f"{name.full} was made by somebody else while {meanwhile}; theirs stands", name=name.full
            ) from wrong
        raise
