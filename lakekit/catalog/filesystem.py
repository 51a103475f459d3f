"""A warehouse that is a folder: databases are its folders `<name>.db`, tables the folders in them that hold a schema.

    warehouse/shop.db/orders/schema/schema-0   ->   the table shop.orders

Folders say everything: nothing else is stored, and other files are passed over. Source: FORMAT.md 1.1, `FileSystemCatalog`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from lakekit.errors import DatabaseNotFound, TableNotFound
from lakekit.model.layout import is_plain
from lakekit.world import each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.storage.protocol import Stat, Storage

_SUFFIX = ".db"
_SHOWN = 12


def databases(storage: Storage, root: str) -> list[str]:
    """The databases of a warehouse, by name. Raises `DatabaseNotFound` where there is no warehouse but something else, or nothing."""
    inside = storage.list(root)
    found = sorted(one.name.removesuffix(_SUFFIX) for one in inside if one.is_dir and one.name.endswith(_SUFFIX) and one.name != _SUFFIX)
    if not found and (why := _no_warehouse(storage, root, inside)) is not None:
        raise DatabaseNotFound(f'no warehouse at "{root}": {why}', name=root)
    return found


def tables(storage: Storage, root: str, database: str) -> list[str]:
    """The tables of a database, by name. Raises `DatabaseNotFound` saying which there are."""
    if not has_database(storage, root, database):
        raise missing_database(root, database, databases(storage, root))
    folders = [one for one in storage.list(location(root, database)) if one.is_dir]
    kept = each(lambda one: _is_table(storage, one.path), folders)
    return sorted(one.name for one, is_table in zip(folders, kept, strict=True) if is_table)


def has_database(storage: Storage, root: str, database: str) -> bool:
    """Whether there is a database of that name."""
    if not is_plain(database):
        return False
    found = storage.stat(location(root, database))
    return found is not None and found.is_dir


def has_table(storage: Storage, root: str, database: str, table: str) -> bool:
    """Whether there is a table of that name."""
    return is_plain(database) and is_plain(table) and _is_table(storage, location(root, database, table))


def location(root: str, database: str, table: str | None = None) -> str:
    """Where a database, or a table in it, lies."""
    found = f"{root.rstrip('/')}/{database}{_SUFFIX}"
    return found if table is None else f"{found}/{table}"


def missing_database(root: str, database: str, known: Sequence[str]) -> DatabaseNotFound:
    """The error of a database that is not there."""
    has = f"its databases are {_some(known)}" if known else "it has no databases yet"
    return DatabaseNotFound(f'no database {database[:200]!a} in "{root}": {has}{_close(database, known)}', name=database)


def missing_table(database: str, table: str, known: Sequence[str]) -> TableNotFound:
    """The error of a table that is not there."""
    has = f"its tables are {_some(known)}" if known else "it has no tables yet"
    return TableNotFound(f"no table {table[:200]!a} in database {database}: {has}{_close(table, known)}", name=f"{database}.{table}")


def _is_table(storage: Storage, directory: str) -> bool:
    return any(not one.is_dir and one.name.startswith("schema-") and one.name[len("schema-") :].isdecimal() for one in storage.list(f"{directory}/schema"))


def _no_warehouse(storage: Storage, root: str, inside: list[Stat]) -> str | None:
    """What stands where a warehouse without databases was asked for; None for an empty folder, which is one."""
    found = storage.stat(root)
    if found is None:
        return "there is no such folder"
    if not found.is_dir:
        return "it is a file; a warehouse is a folder"
    if _is_table(storage, root):
        return f'it is a table; open it with lk.open("{root}")'
    parent, _, own = root.rpartition("/")
    if own.endswith(_SUFFIX) or any(one.is_dir and _is_table(storage, one.path) for one in inside[:200]):
        return f'it looks like a database; its warehouse would be "{parent}"'
    return None


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _close(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else ""
