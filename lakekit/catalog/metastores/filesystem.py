"""`metastore=filesystem`: databases and tables are folders, without a metastore.

Databases are the folders `<name>.db` of the warehouse, tables the folders in them that hold a schema. Nothing else is
stored, and other files are ignored. A table is renamed by moving its folder, in one step.

Source: ENGINE.md 9.2; `FileSystemCatalog`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.catalog import identifier, metastore
from lakekit.catalog.metastore import DATABASE_SUFFIX, build_path, holds_table
from lakekit.errors import DatabaseNotFound, InvalidOption, Unsupported
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths, is_plain_name
from lakekit.runtime import warn_user
from lakekit.storage import confine, protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.catalog.catalog_core import CatalogOptions
    from lakekit.catalog.identifier import Identifier
    from lakekit.catalog.metastore import Define
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage.protocol import Stat, Storage


def open(settings: CatalogOptions) -> FilesystemMetastore:  # noqa: A001 - every metastore's
    """Return the metastore of a warehouse.

    Raises: `InvalidOption` for a uri, `Unsupported` for a lock type, as folders cannot store locks.
    """
    if settings.uri is not None:
        raise InvalidOption(
            "a warehouse that is a folder has no uri; give its path as warehouse", key="uri", value=None
        )
    kind = settings.of("lock.type")
    if settings.of("lock.enabled") and kind is not None:
        raise Unsupported(
            f"lock.type={kind!r} needs a metastore that keeps locks, and metastore=filesystem has none; where files "
            "are claimed atomically none is needed",
            feature="option.lock.type",
        )
    return FilesystemMetastore(storage=settings.storage, root=settings.warehouse)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemMetastore:
    """A metastore whose databases and tables are folders; `catalog.metastore.Metastore` describes the methods."""

    storage: Storage
    root: str

    @property
    def address(self) -> str:
        """The path of the warehouse, as `Metastore.where`."""
        return self.root

    def databases(self) -> list[str]:
        """Return the databases, by name.

        Raises: `DatabaseNotFound` if the path does not exist, or is something other than a warehouse.
        """
        names = metastore.list_databases(self.storage, self.root)
        if not names and (why := _no_warehouse(self.storage, self.root, self.storage.list(self.root))) is not None:
            raise DatabaseNotFound(f'no warehouse at "{self.root}": {why}', name=self.root)
        return names

    def has_database(self, database: str) -> bool:
        """Return whether the folder of the database exists, as `Metastore.has_database`."""
        if not is_plain_name(database):
            return False
        folder = build_path(self.root, database)
        stat = confine(self.storage, folder).stat(folder)
        return stat is not None and stat.is_dir

    def has_linked_folder(self, database: str) -> bool:
        """Return whether the folder of the database is a link, as `Metastore.has_linked_folder`."""
        return protocol.symlink_target(self.storage, build_path(self.root, database)) is not None

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        """Create the folder of a database; properties are dropped with a warning.

        Raises: `InvalidOption` for the property `build_path`.
        """
        if "location" in properties:
            raise InvalidOption(
                "Cannot specify location for a database when using fileSystem catalog. Its folder is the database; "
                "leave `build_path` out",
                key="location",
                value=properties["location"],
            )
        if properties:
            warn_user(
                f"a folder keeps no properties: {', '.join(sorted(properties))} of database {database} are dropped; "
                "metastore='jdbc' keeps them"
            )
        protocol.make_folder(self.storage, build_path(self.root, database))

    def alter_database(self, database: str, properties: Mapping[str, str], remove: Iterable[str]) -> None:  # noqa: ARG002 - every metastore's
        """Raise `Unsupported`: a folder stores no properties."""
        raise Unsupported(
            f"Alter database is not supported: {database} is a folder, which keeps no properties. metastore='jdbc' "
            "keeps them",
            feature="catalog.filesystem",
        )

    def properties(self, database: str) -> dict[str, str]:  # noqa: ARG002 - every metastore's
        """Return no properties: a folder stores none."""
        return {}

    def drop_database(self, database: str, *, cascade: bool) -> None:
        """Delete the folder of a database; if the folder is a link, only the link is deleted.

        Raises: `InvalidOption` if the folder has other contents and `cascade` is false.
        """
        folder = build_path(self.root, database)
        own = confine(self.storage, folder)
        inside = [
            *(entry.name for entry in own.list(folder) if entry.name != protocol.FOLDER_MARKER),
            *protocol.link_names(own, folder),
        ]
        if inside and not cascade:
            raise InvalidOption(
                f"database {database} has no tables, but its folder holds {', '.join(inside[:5])}; cascade=True "
                "deletes it all",
                key="cascade",
                value=None,
            )
        target = protocol.symlink_target(self.storage, folder)
        protocol.remove_folder(self.storage, folder)
        if target is not None:
            warn_user(
                f'database {database} was a link to "{target}": the link is gone, and what lies there stays. Delete '
                "it if nobody needs it"
            )

    def tables(self, database: str) -> list[str]:
        """Return the tables of a database, as `Metastore.tables`."""
        return metastore.list_tables(self.storage, build_path(self.root, database))

    def has_table(self, database: str, table: str) -> bool:
        """Return whether the folder of the table holds a schema, as `Metastore.has_table`."""
        return (
            identifier.is_database_name(database)
            and identifier.is_table_name(table)
            and holds_table(self.storage, build_path(self.root, database, table))
        )

    def locate(self, name: Identifier) -> TableLocation:
        """Return the folder that a table has or would have, as `Metastore.locate`."""
        root = build_path(self.root, name.database, name.table)
        return TableLocation(name=name.full, storage=confine(self.storage, root), paths=TablePaths(root=root))

    def create_table(self, name: Identifier, define: Define) -> None:
        """Write a table's first schema with `define`, as `Metastore.create_table`.

        Raises: `StorageFailed` if the folder of the database is a link.
        """
        metastore.check_own_folder(self.storage, self.root, name.database)
        define(metastore.widen_storage(self.locate(name), [self.root]))

    def drop_table(self, name: Identifier) -> None:
        """Delete the folder of a table, as `Metastore.drop_table`. Raises as `create_table`."""
        metastore.check_own_folder(self.storage, self.root, name.database)
        metastore.delete_table_files(self.locate(name), [self.root])

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Move the folder of a table, as `Metastore.rename_table`. Raises as `create_table`."""
        for name in (old, new):
            metastore.check_own_folder(self.storage, self.root, name.database)
        metastore.move_table_folder(self.locate(old), build_path(self.root, new.database, new.table), [self.root])

    def list_in_warehouse(self, database: str | None = None) -> list[str]:
        """Raise `Unsupported`: each folder with a schema is a table already, so nothing can be registered."""
        raise _nothing_to_register(self.root, database)

    def register(self, name: Identifier, schema: TableSchema) -> bool:  # noqa: ARG002 - every metastore's
        """Raise `Unsupported`, as `list_in_warehouse`."""
        raise _nothing_to_register(self.root, name.full)


def _nothing_to_register(root: str, name: str | None) -> Unsupported:
    return Unsupported(
        f'repair of {name or "everything"} in "{root}" has nothing to register: without a metastore each folder with '
        "a schema is a table already. "
        "metastore='jdbc' and 'hive' have databases of names that can be repaired",
        feature="catalog.filesystem",
    )


def _no_warehouse(storage: Storage, root: str, entries: list[Stat]) -> str | None:
    """Return a text on what exists at the path instead of a warehouse; None for an empty folder, which is one."""
    stat = storage.stat(root)
    if stat is None:
        return "there is no such folder"
    if not stat.is_dir:
        return "it is a file; a warehouse is a folder"
    if holds_table(storage, root):
        return f'it is a table; open it with lk.open("{root}")'
    parent, _, own = root.rpartition("/")
    if own.endswith(DATABASE_SUFFIX) or any(
        entry.is_dir and holds_table(storage, entry.path) for entry in entries[:200]
    ):
        return f'it looks like a database; its warehouse would be "{parent}"'
    return None
