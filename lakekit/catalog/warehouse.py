"""A warehouse: a folder with a folder for each database and in it one for each table.

    warehouse/shop.db/orders/schema/schema-0   ->   the table shop.orders

Every catalog lays tables out like this; the one without a metastore reads nothing else. Source: FORMAT.md 1.1, `AbstractCatalog`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.errors import LakekitError, StorageFailed
from lakekit.meta import branches, schemas
from lakekit.model.layout import Layout
from lakekit.storage import folders
from lakekit.world import caution, each

if TYPE_CHECKING:
    from lakekit.meta.handle import Ground
    from lakekit.storage.protocol import Storage

SUFFIX = ".db"


def location(root: str, database: str, table: str | None = None) -> str:
    """Where a database, or a table in it, lies."""
    found = f"{root.rstrip('/')}/{database}{SUFFIX}"
    return found if table is None else f"{found}/{table}"


def is_table(storage: Storage, directory: str) -> bool:
    """Whether a table lies there: a directory that holds a schema, under a hidden name too (`Layout.hidden`)."""
    layouts = (Layout(root=directory), Layout(root=directory, hidden=True))
    return any(
        not one.is_dir and one.name.startswith(layout.schema_prefix) and one.name[len(layout.schema_prefix) :].isdecimal()
        for layout in layouts
        for one in storage.list(layout.schema_dir)
    )


def databases(storage: Storage, root: str) -> list[str]:
    """The databases that are folders of a warehouse, by name."""
    return sorted(one.name.removesuffix(SUFFIX) for one in storage.list(root) if one.is_dir and one.name.endswith(SUFFIX) and one.name != SUFFIX)


def tables(storage: Storage, folder: str) -> list[str]:
    """The tables that are folders of a database's, by name."""
    inside = [one for one in storage.list(folder) if one.is_dir]
    kept = each(lambda one: is_table(storage, one.path), inside)
    return sorted(one.name for one, is_one in zip(inside, kept, strict=True) if is_one)


def remove(ground: Ground) -> None:
    """Deletes a table's files, what needs others first and its schemas last: cut off in between, the table is whole or empty, and can be dropped again.

    Data files at external paths stay where they are, since other tables may keep theirs there too; a warning names the places.
    """
    outside = _external_paths(ground)
    layout = ground.layout
    tops = [layout.root, *(one.path for one in ground.storage.list(layout.branches_dir) if one.is_dir)]
    roots = [f"{top}/{kind}" for top in tops for kind in ("snapshot", "tag", "changelog")]
    folders.remove(ground.storage, layout.root, first=roots, last=(layout.branches_dir, layout.schema_dir, replace(layout, hidden=True).schema_dir))
    if outside:
        caution(f"{ground.name} kept data files outside its folder, which were not deleted: {', '.join(outside)}. Delete those that no other table needs")


def move(ground: Ground, target: str) -> None:
    """Gives a table's folder another place. Raises `StorageFailed` where something lies there."""
    if ground.storage.stat(target) is not None:
        raise StorageFailed(f'"{target}" is there already, though no table is; move it away first', path=target)
    folders.move(ground.storage, ground.layout.root, target)


def _external_paths(ground: Ground) -> list[str]:
    found: set[str] = set()
    grounds = [ground]
    try:
        grounds += [replace(ground, layout=ground.layout.on_branch(name)) for name in branches.names(ground)]
        for one in grounds:
            for schema in schemas.all(one):
                found |= {path.strip() for path in schema.options.get("data-file.external-paths", "").split(",") if path.strip()}
    except LakekitError:  # a table too damaged to say can still be dropped
        return sorted(found)
    return sorted(found)
