"""The interface of metastores, which know databases and tables by name; folders of a warehouse.

    warehouse/shop.db/orders/schema/schema-0   ->   the table shop.orders

A metastore is a module of `catalog/metastores`, named as the option `metastore` names it, with `open(settings)`. Names
passed to it are checked (`identifier`), and `Catalog` has checked all conditions: a metastore only executes. It knows
names and locations; files define the tables. Every catalog lays tables out as a folder for each database, and in it one
for each table; the catalog without a metastore reads nothing else.

Source: FORMAT.md 1.1, `AbstractCatalog`.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakekit import metadata
from lakekit.catalog import identifier
from lakekit.errors import DatabaseNotFound, InvalidOption, LakekitError, StorageFailed, TableNotFound
from lakekit.model.table_paths import TablePaths
from lakekit.parallel import parallel_map
from lakekit.runtime import warn_user
from lakekit.storage import confine, protocol
from lakekit.storage.protocol import OutsideRoot, SupportsDirectories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl

    from lakekit.catalog.identifier import Identifier
    from lakekit.ddl.table_definition import SchemaLike
    from lakekit.metadata.table_context import TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage.protocol import Storage
    from lakekit.table import Table

    Define = Callable[[TableLocation], TableSchema]
    """Writes the first schema of a table at its location, and returns it."""


MAX_SHOWN_NAMES = 12


class Metastore(Protocol):
    """Databases and tables by name."""

    @property
    def address(self) -> str:
        """The address of the metastore for messages, without secrets."""
        ...

    def databases(self) -> list[str]:
        """Return the databases, by name."""
        ...

    def has_database(self, database: str) -> bool:
        """Return whether there is a database of that name; any text is accepted as name."""
        ...

    def has_linked_folder(self, database: str) -> bool:
        """Return whether the folder of a database is a link to another folder, whose tables stay when it is dropped."""
        ...

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        """Create a database. Raises `DatabaseAlreadyExists` if another process created it first."""
        ...

    def alter_database(self, database: str, properties: Mapping[str, str], remove: Iterable[str]) -> None:
        """Set and remove properties of a database."""
        ...

    def properties(self, database: str) -> dict[str, str]:
        """Return the stored properties of a database."""
        ...

    def drop_database(self, database: str, *, cascade: bool) -> None:
        """Remove a database whose tables were dropped before."""
        ...

    def tables(self, database: str) -> list[str]:
        """Return the tables of a database, by name; none if there is no database."""
        ...

    def has_table(self, database: str, table: str) -> bool:
        """Return whether there is a table of that name; any text is accepted as name."""
        ...

    def locate(self, name: Identifier) -> TableLocation:
        """Return the location that a table has or would have, with the catalog environment of its changes."""
        ...

    def create_table(self, name: Identifier, define: Define) -> None:
        """Write a table's first schema with `define`, and register its name.

        The location that `define` gets reaches the folder above the table, through no link.
        """
        ...

    def drop_table(self, name: Identifier) -> None:
        """Remove a table, and delete its files."""
        ...

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Rename a table, and move its files to the location of the new name."""
        ...

    def list_in_warehouse(self, database: str | None = None) -> list[str]:
        """Return the tables of `database` that exist in the warehouse, registered or not; without it, the databases."""
        ...

    def register(self, name: Identifier, schema: TableSchema) -> bool:
        """Register the table at the location of its name, or renew its entry; return True if the table is new."""
        ...


@runtime_checkable
class SupportsViews(Protocol):
    """A metastore that stores views too."""

    def views(self, database: str) -> dict[str, str]:
        """Return the stored texts of the views of a database, by name."""
        ...

    def put_view(self, name: Identifier, text: str) -> None:
        """Store a view. Raises `ViewAlreadyExists` if another process was faster."""
        ...

    def drop_view(self, name: Identifier) -> bool:
        """Remove a view; return whether there was one."""
        ...


class TableCatalog(Protocol):
    """What views, the tables of `sys` and work on many tables need of their catalog: its settings, and tables by name.

    A `Catalog` is one, and describes the methods.
    """

    @property
    def warehouse(self) -> str: ...
    @property
    def metastore(self) -> str: ...
    @property
    def uri(self) -> str | None: ...
    @property
    def options(self) -> Mapping[str, str]: ...

    def databases(self) -> list[str]: ...
    def tables(self, database: str | None = None) -> pl.DataFrame: ...
    def table(self, name: str, *, options: Mapping[str, Any] | None = None) -> Table: ...
    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        partition_keys: Sequence[str] | None = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
    ) -> Table: ...
    def drop_table(self, name: str) -> None: ...


def missing_identifier(metastore: Metastore, name: Identifier) -> DatabaseNotFound | TableNotFound:
    """Return the error for a name of no table."""
    if not metastore.has_database(name.database):
        return missing_database(metastore.address, name.database, metastore.databases())
    return missing_table(name.database, name.table, metastore.tables(name.database))


def missing_database(location: str, database: str, existing: Sequence[str]) -> DatabaseNotFound:
    """Return the error for a missing database."""
    has = f"its databases are {join_names(existing)}" if existing else "it has no databases yet"
    return DatabaseNotFound(
        f'no database {database[:200]!a} in "{location}": {has}{suggest_name(database, existing)}', name=database
    )


def missing_table(database: str, table: str, existing: Sequence[str]) -> TableNotFound:
    """Return the error for a missing table."""
    has = f"its tables are {join_names(existing)}" if existing else "it has no tables yet"
    return TableNotFound(
        f"no table {table[:200]!a} in database {database}: {has}{suggest_name(table, existing)}",
        name=f"{database}.{table}",
    )


def join_names(names: Sequence[str]) -> str:
    """Return names with commas between them, not too many."""
    more = len(names) - MAX_SHOWN_NAMES
    return ", ".join(names[:MAX_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def suggest_name(name: str, candidates: Sequence[str]) -> str:
    """Return a hint at the nearest name: one that differs only in case, if there is one."""
    same = [candidate for candidate in candidates if candidate.lower() == name.lower()]
    if same:
        return f"; did you mean {same[0]}? Upper and lower case are different names"
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.lower(), by_lower, 1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def properties_of(properties: Mapping[Any, Any] | None, comment: str | None = None) -> dict[str, str]:
    """Return the checked properties of a database; its comment is the property of that name."""
    merged = {**(properties or {}), **({} if comment is None else {"comment": comment})}
    for key, value in merged.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise InvalidOption(f"properties of a database are texts: {key!r} is {value!r}", key=str(key), value=None)
    return merged


# ---- warehouse ------------------------------------------------------------


DATABASE_SUFFIX = ".db"


def build_path(root: str, database: str, table: str | None = None) -> str:
    """Return the path of a database, or of a table in it."""
    folder = f"{root.rstrip('/')}/{database}{DATABASE_SUFFIX}"
    return folder if table is None else f"{folder}/{table}"


def holds_table(storage: Storage, directory: str) -> bool:
    """Return whether a directory, or a link to one, holds a table: a schema, maybe under a hidden name.

    See `TablePaths.hidden`.
    """
    layouts = (TablePaths(root=directory), TablePaths(root=directory, is_hidden=True))
    own = confine(storage, directory)
    try:
        return any(
            not entry.is_dir
            and entry.name.startswith(layout.schema_prefix)
            and entry.name[len(layout.schema_prefix) :].isdecimal()
            for layout in layouts
            for entry in own.list(layout.schema_dir)
        )
    except OutsideRoot:  # its schemas lie outside, where they are not read
        return False


def list_databases(storage: Storage, root: str) -> list[str]:
    """Return the databases that are folders of a warehouse, or links to such, by name."""
    names = (
        name.removesuffix(DATABASE_SUFFIX)
        for name in protocol.list_folders(storage, root)
        if name.endswith(DATABASE_SUFFIX) and name != DATABASE_SUFFIX
    )
    return sorted(filter(identifier.is_database_name, names))


def list_tables(storage: Storage, folder: str) -> list[str]:
    """Return the tables that are folders of a database's, or links to such, by name."""
    own = confine(storage, folder)
    inside = [name for name in protocol.list_folders(own, folder) if identifier.is_table_name(name)]
    are_tables = parallel_map(lambda name: holds_table(own, f"{folder}/{name}"), inside)
    return sorted(name for name, is_one in zip(inside, are_tables, strict=True) if is_one)


def check_own_folder(storage: Storage, root: str, database: str) -> None:
    """Raise `StorageFailed` for a database whose folder is a link.

    Nothing is made, moved or dropped at its target.
    """
    target = protocol.symlink_target(storage, build_path(root, database))
    if target is not None:
        raise StorageFailed(
            f'database {database} is a link to "{target}": its tables are read and written, and made, renamed and '
            "dropped only through a catalog of the "
            "warehouse where they lie. Connect to the folder above that one",
            path=build_path(root, database),
        )


def widen_storage(table_location: TableLocation, folders: Sequence[str]) -> TableLocation:
    """Return a table's location whose storage reaches all of the outermost of some folders above it.

    No link below that folder is written, moved or deleted through: not the table's own, nor one that replaces a folder
    meanwhile. Where the table lies below none of the folders, the folder that holds it is that folder.
    """
    root = table_location.paths.root
    above = min(
        (folder for folder in folders if is_below(root, folder)), key=len, default=root.rpartition("/")[0] or "/"
    )
    return replace(table_location, storage=confine(table_location.storage, above))


def delete_table_files(table_location: TableLocation, folders: Sequence[str]) -> None:
    """Delete the files of a table below one of some folders, referring files first and its schemas last.

    Interrupted, the table is complete or empty, and can be dropped again. Of a table that is a link only the link is
    deleted. What is no table, or lies below none of the folders or below a link, stays where it is; so do data files at
    external paths, since other tables may keep theirs there too. A warning says so.
    """
    layout = table_location.paths
    own = (
        widen_storage(table_location, folders).storage if any(is_below(layout.root, root) for root in folders) else None
    )
    target = None if own is None else protocol.symlink_target(own, layout.root)
    if own is not None and target is not None:
        own.delete([layout.root])
        warn_user(
            f'{table_location.name} was a link to "{target}": the link is gone, and the table stays there. Delete the '
            "folder if nobody needs it"
        )
        return
    if (
        own is None
        or not holds_table(table_location.storage, layout.root)
        or (isinstance(own, SupportsDirectories) and not protocol.is_folder(own, layout.root))
    ):
        if table_location.storage.stat(layout.root) is not None:
            why = (
                "no table of this catalog lies there"
                if holds_table(table_location.storage, layout.root)
                else "no table lies there"
            )
            warn_user(
                f'{table_location.name} is gone from the catalog, and its folder "{layout.root}" was left alone: '
                f"{why}. Delete it if nobody needs it"
            )
        return
    outside = _external_paths(table_location)
    has_branches = protocol.is_folder(own, layout.branches_dir)
    tops = [
        layout.root,
        *(entry.path for entry in (own.list(layout.branches_dir) if has_branches else ()) if entry.is_dir),
    ]
    roots = [f"{top}/{kind}" for top in tops for kind in ("snapshot", "tag", "changelog")]
    protocol.remove_folder(
        own,
        layout.root,
        first=roots,
        last=(layout.branches_dir, layout.schema_dir, replace(layout, is_hidden=True).schema_dir),
    )
    if outside:
        warn_user(
            f"{table_location.name} kept data files outside its folder, which were not deleted: {', '.join(outside)}. "
            "Delete those that no other table needs"
        )


def is_below(path: str, root: str) -> bool:
    """Return whether a path lies below a folder, by its text."""
    return path.startswith(f"{root.rstrip('/')}/") and ".." not in path[len(root) :].split("/")


def move_table_folder(table_location: TableLocation, target: str, folders: Sequence[str]) -> None:
    """Move a table's folder; both paths lie below one of some folders.

    Raises: `StorageFailed` where something exists at the target.
    """
    outermost = [folder for folder in folders if not any(is_below(folder, other) for other in folders)]
    storage, root = confine(table_location.storage, *outermost), table_location.paths.root
    if protocol.entry_exists(storage, target):
        raise StorageFailed(f'"{target}" is there already, though no table is; move it away first', path=target)
    led = protocol.symlink_target(storage, root)
    if led is not None and not led.startswith("/") and root.rpartition("/")[0] != target.rpartition("/")[0]:
        raise StorageFailed(
            f'"{root}" is a link to "{led}", which means another place from another folder: make it a link to a whole '
            "path first",
            path=root,
        )
    protocol.move_folder(storage, root, target)


def _external_paths(table_location: TableLocation) -> list[str]:
    external: set[str] = set()
    locations = [table_location]
    try:
        locations += [
            replace(table_location, paths=table_location.paths.on_branch(name))
            for name in metadata.refs.list_branch_names(table_location)
        ]
        for branch_location in locations:
            for schema in metadata.schemas.read_all(branch_location):
                external |= {
                    path.strip()
                    for path in schema.options.get("data-file.external-paths", "").split(",")
                    if path.strip()
                }
    except LakekitError:  # a table too damaged to say can still be dropped
        return sorted(external)
    return sorted(external)
