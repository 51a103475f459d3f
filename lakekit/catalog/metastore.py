"""The interface of a metastore: it knows databases and tables by name and their locations. Files define the tables.

Each is a file of `lakekit/catalog/metastores`, named as the option `metastore` names it, with `open(settings)`. Names
passed to it are checked (`identifier`), and `Catalog` has checked all conditions: a metastore only executes.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakekit.errors import DatabaseNotFound, InvalidOption, TableNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakekit.catalog.identifier import Identifier
    from lakekit.metadata.table_context import TableLocation
    from lakekit.model.table_schema import TableSchema

    Define = Callable[[TableLocation], TableSchema]

MAX_SHOWN_NAMES = 12


class Metastore(Protocol):
    """Databases and tables by name."""

    @property
    def where(self) -> str:
        """What messages call the place, without secrets."""
        ...

    def databases(self) -> list[str]:
        """Return the databases, by name."""
        ...

    def has_database(self, database: str) -> bool:
        """Whether there is a database of that name, whatever the text."""
        ...

    def is_linked(self, database: str) -> bool:
        """Whether the folder of a database is a link: its tables stay when it is dropped."""
        ...

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        """Create a database. Raises `DatabaseAlreadyExists` where another process was faster."""
        ...

    def alter_database(self, database: str, properties: Mapping[str, str], remove: Iterable[str]) -> None:
        """Set and remove properties of a database."""
        ...

    def properties(self, database: str) -> dict[str, str]:
        """Return the stored properties of a database."""
        ...

    def drop_database(self, database: str, *, cascade: bool) -> None:
        """Forgets a database whose tables are gone."""
        ...

    def tables(self, database: str) -> list[str]:
        """Return the tables of a database, by name; none where there is no database."""
        ...

    def has_table(self, database: str, table: str) -> bool:
        """Whether there is a table of that name, whatever the text."""
        ...

    def ground(self, name: Identifier) -> TableLocation:
        """Where a table lies or would lie, and who is to be told of its changes."""
        ...

    def create_table(self, name: Identifier, define: Define) -> None:
        """Write a table's first schema with `define`, and register its name.

        The location that `define` gets reaches the folder above the table, through no link.
        """
        ...

    def drop_table(self, name: Identifier) -> None:
        """Forgets a table and deletes its files."""
        ...

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Rename a table, and move its files to the location of the new name."""
        ...

    def lying(self, database: str | None = None) -> list[str]:
        """Return what exists in the warehouse, registered or not: the tables of a database; None: databases."""
        ...

    def register(self, name: Identifier, schema: TableSchema) -> bool:
        """Register the table at the location of its name, or renew its entry; return whether it was unknown."""
        ...


@runtime_checkable
class SupportsViews(Protocol):
    """A metastore that stores views too."""

    def views(self, database: str) -> dict[str, str]:
        """Return the stored texts of the views of a database, by name."""
        ...

    def put_view(self, name: Identifier, text: str) -> None:
        """Store a view. Raises `ViewAlreadyExists` where another process was faster."""
        ...

    def drop_view(self, name: Identifier) -> bool:
        """Forgets a view; whether there was one."""
        ...


def missing_identifier(metastore: Metastore, name: Identifier) -> DatabaseNotFound | TableNotFound:
    """Return the error for a name of no table."""
    if not metastore.has_database(name.database):
        return missing_database(metastore.where, name.database, metastore.databases())
    return missing_table(name.database, name.table, metastore.tables(name.database))


def missing_database(where: str, database: str, existing: Sequence[str]) -> DatabaseNotFound:
    """Return the error for a missing database."""
    has = f"its databases are {join_names(existing)}" if existing else "it has no databases yet"
    return DatabaseNotFound(
        f'no database {database[:200]!a} in "{where}": {has}{_suggest_name(database, existing)}', name=database
    )


def missing_table(database: str, table: str, existing: Sequence[str]) -> TableNotFound:
    """Return the error for a missing table."""
    has = f"its tables are {join_names(existing)}" if existing else "it has no tables yet"
    return TableNotFound(
        f"no table {table[:200]!a} in database {database}: {has}{_suggest_name(table, existing)}",
        name=f"{database}.{table}",
    )


def join_names(names: Sequence[str]) -> str:
    """Names with commas between them, not too many."""
    more = len(names) - MAX_SHOWN_NAMES
    return ", ".join(names[:MAX_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _suggest_name(name: str, candidates: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, candidates, 1)
    return f"; did you mean {close[0]}?" if close else ""


def properties_of(properties: Mapping[Any, Any] | None, comment: str | None = None) -> dict[str, str]:
    """Return the checked properties of a database; its comment is the property of that name."""
    merged = {**(properties or {}), **({} if comment is None else {"comment": comment})}
    for key, value in merged.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise InvalidOption(f"properties of a database are texts: {key!r} is {value!r}", key=str(key), value=None)
    return merged
