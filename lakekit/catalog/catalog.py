"""`lk.connect`: tables by name.

    cat = lk.connect("warehouse")
    cat.tables()                     a frame: database, table, kind
    cat["shop.orders"].scan()        the same as lk.open("warehouse/shop.db/orders").scan()
    cat["shop.orders$files"].scan()  a system table

A catalog only names tables: what they are, and everything they do, is `Table`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

import polars as pl

from lakekit import storage as storages, world
from lakekit.catalog import filesystem, names
from lakekit.catalog.system_table import SystemTable
from lakekit.draw import html, text
from lakekit.errors import DatabaseNotFound, InvalidOption, LakekitError, TableNotFound
from lakekit.meta import manifests, snapshots
from lakekit.options.features import find, refuse
from lakekit.options.frozen import EMPTY, Frozen
from lakekit.system import tables as system_tables
from lakekit.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from lakekit.catalog.names import Name
    from lakekit.storage import PathLike
    from lakekit.storage.protocol import Storage

_NAMED = {"database": pl.String, "table": pl.String, "kind": pl.String}
_DETAILS = {"snapshot_id": pl.Int64, "row_count": pl.Int64, "file_count": pl.Int64, "size_bytes": pl.Int64, "error": pl.String}


@dataclass(slots=True)
class Seen:
    """What was last listed: what a catalog's card shows without looking again."""

    databases: list[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A warehouse whose tables have names. Nothing is read before something is asked, and nothing kept: each question looks again.

    Immutable, picklable, shared freely by threads.
    """

    warehouse: str
    metastore: str = "filesystem"
    options: Mapping[str, Any] = field(default=EMPTY, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    storage: Storage | None = field(default=None, repr=False)
    _seen: Seen = field(default_factory=Seen, repr=False, compare=False)

    # ---- what there is --------------------------------------------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """The names of all databases. Raises `DatabaseNotFound` where there is no warehouse."""
        self._seen.databases = found = filesystem.databases(*self._place())
        return found

    def tables(self, database: str | None = None, *, details: bool = False) -> pl.DataFrame:
        """A row a table, of one database or of all: `database`, `table`, `kind`.

        `kind` is what the table's schema says it is ("table" most often), null where its schema cannot be read. `details=True` opens each table and adds
        `snapshot_id`, `row_count` (stored rows), `file_count` and `size_bytes` of its newest snapshot, and `error`, why they are null. Raises
        `DatabaseNotFound`.
        """
        storage, root = self._place()
        wanted = [database] if database is not None else self.databases()
        found = [(one, name) for one in wanted for name in filesystem.tables(storage, root, one)]
        rows = world.each(lambda pair: self._row(*pair, details=details), found)
        return pl.DataFrame(rows, schema={**_NAMED, **(_DETAILS if details else {})}, orient="row")

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name ("db.t", also "db.t$files" and "db.t$branch_dev"); without a dot, a database."""
        if "." not in name:
            return filesystem.has_database(*self._place(), name)
        try:
            parsed = names.parse(name)
            if not filesystem.has_table(*self._place(), parsed.database, parsed.table):
                return False
            self.table(name)
        except LookupError:
            return False
        except LakekitError:
            return True  # it is there, and something else is wrong with it
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.exists(name)

    # ---- one of them ----------------------------------------------------------------------------------------------------------------------

    def table(self, name: str, *, options: Mapping[str, Any] | None = None) -> Table:
        """The table of that name, with dynamic options put over its own.

        "db.t$branch_dev" is a branch of it, "db.t$files" a system table and "db.t$branch_dev$files" a branch's: a `SystemTable`, which only
        scans. Raises `DatabaseNotFound`, `TableNotFound`, `BranchNotFound`, `InvalidOption`, and `Unsupported` for a table that lakekit refuses.
        """
        parsed = names.parse(name)
        storage, root = self._place()
        found = Table(
            location=filesystem.location(root, parsed.database, parsed.table),
            name=parsed.full,
            branch_name=parsed.branch,
            dynamic=Frozen({key: value for key, value in (options or {}).items() if value is not None}),
            storage_options=self.storage_options,
            storage=self.storage,
        )
        try:
            found.handle()
        except TableNotFound:
            raise self._missing(parsed, storage, root) from None
        return found if parsed.system is None else cast("Table", SystemTable(table=found, name=system_tables.check(parsed.system, found.name)))

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    # ---- beginning and end ----------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Lets go of what the catalog holds; a folder holds nothing, so that it may be used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- looking --------------------------------------------------------------------------------------------------------------------------

    def _facts(self) -> list[tuple[str, Any]]:
        seen = self._seen.databases
        told = [] if seen is None else [("databases", ", ".join(seen) or "none")]
        return [("warehouse", self.warehouse), ("metastore", self.metastore), *told]

    def __repr__(self) -> str:
        return text.card("Catalog", self._facts())

    def _repr_html_(self) -> str:
        return html.card("Catalog", self._facts())

    # ---- parts ----------------------------------------------------------------------------------------------------------------------------

    def _place(self) -> tuple[Storage, str]:
        world.refuse_fork()
        if self.storage is not None:
            return self.storage, self.warehouse
        return storages.open(self.warehouse, self.storage_options)

    def _row(self, database: str, name: str, *, details: bool) -> tuple[Any, ...]:
        _, root = self._place()
        table = Table(location=filesystem.location(root, database, name), name=f"{database}.{name}", storage_options=self.storage_options, storage=self.storage)
        try:
            handle = table.handle()
            kind = handle.all_options.get("type", "table")
        except LakekitError as broken:
            return (database, name, None, *((None, None, None, None, broken.message) if details else ()))
        if not details:
            return database, name, kind
        try:
            snapshot = snapshots.latest(handle)
            if snapshot is None:
                return database, name, kind, None, 0, 0, 0, None
            live = manifests.live(handle, snapshot)
        except LakekitError as broken:
            return database, name, kind, None, None, None, None, broken.message
        size_bytes = int(live.numbers("file_size").sum())
        return database, name, kind, snapshot.id, snapshot.total_record_count, len(live), size_bytes, None

    def _missing(self, name: Name, storage: Storage, root: str) -> TableNotFound | DatabaseNotFound:
        if not filesystem.has_database(storage, root, name.database):
            return filesystem.missing_database(root, name.database, filesystem.databases(storage, root))
        return filesystem.missing_table(name.database, name.table, filesystem.tables(storage, root, name.database))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("warehouse", "metastore", "options", "storage_options", "storage")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_seen", Seen())


def connect(
    warehouse: str | PathLike | None = None,
    *,
    metastore: str = "filesystem",
    uri: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Catalog:
    """A catalog: the tables of a warehouse by name. Reads nothing.

    `metastore` "filesystem" keeps everything in folders, and needs a `warehouse`; the others are refused by name. `options` are catalog options,
    `storage_options` are for the storage and appear in no repr. Raises `Unsupported`, `InvalidOption`.
    """
    kind = metastore.strip().lower()
    if kind != "filesystem":
        if find(f"catalog.{kind}") is None:
            msg = f"no metastore is called {metastore[:200]!a}; lakekit knows filesystem"
            raise InvalidOption(msg, key="metastore", value=metastore)
        raise refuse(f"catalog.{kind}", "this catalog", instead='Tables that lie in folders open by path: lk.open("warehouse/shop.db/orders")')
    if uri is not None:
        raise InvalidOption("a warehouse that is a folder has no uri; give its path as warehouse", key="uri", value=uri)
    if warehouse is None:
        raise InvalidOption("metastore filesystem needs a warehouse: the folder that holds the databases", key="warehouse", value=None)
    _, root = storages.open(warehouse, storage_options)
    kept = None if storage_options is None else Frozen(storage_options)
    return Catalog(warehouse=root, options=Frozen(options or {}), storage_options=kept)
