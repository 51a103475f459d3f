"""A warehouse: a folder with a folder for each database and in it one for each table.

    warehouse/shop.db/orders/schema/schema-0   ->   the table shop.orders

Every catalog lays tables out like this; the one without a metastore reads nothing else. Source: FORMAT.md 1.1,
`AbstractCatalog`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.catalog import identifier
from lakekit.errors import LakekitError, StorageFailed
from lakekit.metadata import branches, schemas
from lakekit.model.table_paths import TablePaths
from lakekit.storage import confine, folders
from lakekit.storage.folders import SupportsDirectories
from lakekit.storage.protocol import OutsideRoot
from lakekit.world import parallel_map, warn_user

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.metadata.table_context import TableLocation
    from lakekit.storage.protocol import Storage

SUFFIX = ".db"


def location(root: str, database: str, table: str | None = None) -> str:
    """Return the path of a database, or of a table in it."""
    folder = f"{root.rstrip('/')}/{database}{SUFFIX}"
    return folder if table is None else f"{folder}/{table}"


def is_table(storage: Storage, directory: str) -> bool:
    """Return whether a directory, or a link to one, holds a table: a schema, maybe under a hidden name.

    See `TablePaths.hidden`.
    """
    layouts = (TablePaths(root=directory), TablePaths(root=directory, hidden=True))
    own = confine(storage, directory)
    try:
        return any(
            not entry.is_dir
            and entry.name.startswith(layout.schema_prefix)
            and entry.name[len(layout.schema_prefix) :].isdecimal()
            for layout in layouts
            for entry in own.list(layout.schema_dir)
        )
    except OutsideRoot:  # its schemas lie elsewhere, where nobody reads them
        return False


def databases(storage: Storage, root: str) -> list[str]:
    """Return the databases that are folders of a warehouse, or links to such, by name."""
    names = (
        name.removesuffix(SUFFIX)
        for name in folders.list_folders(storage, root)
        if name.endswith(SUFFIX) and name != SUFFIX
    )
    return sorted(filter(identifier.is_database, names))


def tables(storage: Storage, folder: str) -> list[str]:
    """Return the tables that are folders of a database's, or links to such, by name."""
    own = confine(storage, folder)
    inside = [name for name in folders.list_folders(own, folder) if identifier.is_table(name)]
    are_tables = parallel_map(lambda name: is_table(own, f"{folder}/{name}"), inside)
    return sorted(name for name, is_one in zip(inside, are_tables, strict=True) if is_one)


def check_own_folder(storage: Storage, root: str, database: str) -> None:
    """Raise `StorageFailed` for a database whose folder is a link.

    Nothing is made, moved or dropped at its target.
    """
    target = folders.link_target(storage, location(root, database))
    if target is not None:
        raise StorageFailed(
            f'database {database} is a link to "{target}": its tables are read and written, and made, renamed and '
            "dropped only through a catalog of the "
            "warehouse where they lie. Connect to the folder above that one",
            path=location(root, database),
        )


def reach(table_location: TableLocation, within: Sequence[str]) -> TableLocation:
    """Return a table's location whose storage reaches all of the outermost of some folders above it.

    No link below that folder is written, moved or deleted through: not the table's own, nor one that replaces a folder
    meanwhile. Where the table lies below none of the folders, the folder that holds it is that folder.
    """
    root = table_location.layout.root
    above = min(
        (folder for folder in within if is_below(root, folder)), key=len, default=root.rpartition("/")[0] or "/"
    )
    return replace(table_location, storage=confine(table_location.storage, above))


def remove(table_location: TableLocation, within: Sequence[str]) -> None:
    """Delete the files of a table below one of some folders, referring files first and its schemas last.

    Interrupted, the table is complete or empty, and can be dropped again. Of a table that is a link only the link is
    deleted. What is no table, or lies below none of the folders or below a link, stays where it is; so do data files at
    external paths, since other tables may keep theirs there too. A warning says so.
    """
    layout = table_location.layout
    own = reach(table_location, within).storage if any(is_below(layout.root, root) for root in within) else None
    target = None if own is None else folders.link_target(own, layout.root)
    if own is not None and target is not None:
        own.delete([layout.root])
        warn_user(
            f'{table_location.name} was a link to "{target}": the link is gone, and the table stays there. Delete the '
            "folder if nobody needs it"
        )
        return
    if (
        own is None
        or not is_table(table_location.storage, layout.root)
        or (isinstance(own, SupportsDirectories) and not folders.is_folder(own, layout.root))
    ):
        if table_location.storage.stat(layout.root) is not None:
            why = (
                "no table of this catalog lies there"
                if is_table(table_location.storage, layout.root)
                else "no table lies there"
            )
            warn_user(
                f'{table_location.name} is gone from the catalog, and its folder "{layout.root}" was left alone: '
                f"{why}. Delete it if nobody needs it"
            )
        return
    outside = _external_paths(table_location)
    has_branches = folders.is_folder(own, layout.branches_dir)
    tops = [
        layout.root,
        *(entry.path for entry in (own.list(layout.branches_dir) if has_branches else ()) if entry.is_dir),
    ]
    roots = [f"{top}/{kind}" for top in tops for kind in ("snapshot", "tag", "changelog")]
    folders.remove(
        own,
        layout.root,
        first=roots,
        last=(layout.branches_dir, layout.schema_dir, replace(layout, hidden=True).schema_dir),
    )
    if outside:
        warn_user(
            f"{table_location.name} kept data files outside its folder, which were not deleted: {', '.join(outside)}. "
            "Delete those that no other table needs"
        )


def is_below(path: str, root: str) -> bool:
    """Return whether a path lies below a folder, by its text."""
    return path.startswith(f"{root.rstrip('/')}/") and ".." not in path[len(root) :].split("/")


def move(table_location: TableLocation, target: str, within: Sequence[str]) -> None:
    """Move a table's folder; both paths lie below one of some folders.

    Raises: `StorageFailed` where something exists at the target.
    """
    outermost = [folder for folder in within if not any(is_below(folder, other) for other in within)]
    storage, root = confine(table_location.storage, *outermost), table_location.layout.root
    if folders.is_there(storage, target):
        raise StorageFailed(f'"{target}" is there already, though no table is; move it away first', path=target)
    led = folders.link_target(storage, root)
    if led is not None and not led.startswith("/") and root.rpartition("/")[0] != target.rpartition("/")[0]:
        raise StorageFailed(
            f'"{root}" is a link to "{led}", which means another place from another folder: make it a link to a whole '
            "path first",
            path=root,
        )
    folders.move(storage, root, target)


def _external_paths(table_location: TableLocation) -> list[str]:
    external: set[str] = set()
    locations = [table_location]
    try:
        locations += [
            replace(table_location, layout=table_location.layout.on_branch(name))
            for name in branches.names(table_location)
        ]
        for branch_location in locations:
            for schema in schemas.all(branch_location):
                external |= {
                    path.strip()
                    for path in schema.options.get("data-file.external-paths", "").split(",")
                    if path.strip()
                }
    except LakekitError:  # a table too damaged to say can still be dropped
        return sorted(external)
    return sorted(external)
