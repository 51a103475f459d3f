"""`lk.connect`: tables by name.

    cat = lk.connect("warehouse")
    cat.tables()                     a frame: database, table, kind
    cat["shop.orders"].scan()        the same as lk.open("warehouse/shop.db/orders").scan()
    cat["shop.orders$files"].scan()  a system table, and cat["sys.tables"] one of the catalog's own

A catalog only names tables: what they are, and everything they do, is `Table`'s. Which names there are and where they lead to is a metastore's matter
(`metastores`). Source: ENGINE.md 9.1; `AbstractCatalog`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

from lakekit import plugins, storage as storages, world
from lakekit.catalog import appearing, cloning, compacting, identifier, listing, materialized, migrate as migrating, repairing, sys_tables, views
from lakekit.catalog.metastore import join_names, missing_database, missing_identifier, properties_of
from lakekit.catalog.options import CatalogOptions, locations_of
from lakekit.catalog.seen import CatalogCache
from lakekit.catalog.system_table import SystemTable
from lakekit.catalog.uris import redact_uri
from lakekit.draw import cards, html
from lakekit.errors import DatabaseAlreadyExists, InvalidOption, LakekitError, TableAlreadyExists, ViewAlreadyExists
from lakekit.format_table.kinds import FORMAT_TABLE
from lakekit.model.locations import named_locations
from lakekit.options.features import OBJECTS, refuse
from lakekit.options.frozendict import EMPTY, FrozenDict
from lakekit.options.table_options import normalize_keys
from lakekit.system_tables import registry as system_tables
from lakekit.table import Table
from lakekit.table.creating import define
from lakekit.table.format_tables import define_format_table, define_object_table, to_table_of_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    import polars as pl

    from lakekit.catalog.identifier import Identifier
    from lakekit.catalog.materialized import MaterializedTable
    from lakekit.catalog.metastore import Define, Metastore
    from lakekit.catalog.views import View
    from lakekit.ddl.columns_given import SchemaLike
    from lakekit.metadata.table_context import TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage import PathLike
    from lakekit.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Tables that have names. Nothing is read before something is asked, and nothing kept: each question looks again.

    Immutable, picklable, shared freely by threads.
    """

    warehouse: str
    metastore: str = "filesystem"
    uri: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default=EMPTY, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    storage: Storage | None = field(default=None, repr=False)
    _seen: CatalogCache = field(default_factory=CatalogCache, repr=False, compare=False)

    # ---- databases -------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """The names of all databases. Raises `DatabaseNotFound` where there is no warehouse, `StorageFailed` where the metastore does not answer."""
        self._seen.databases = found = self._names().databases()
        return found

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None) -> None:
        """A new database. A metastore keeps its comment and properties; a folder keeps none, and a warning says so.

        Raises `DatabaseAlreadyExists`, `InvalidOption` for a name that is none, for the name `sys`, and for a `location` that the metastore does not choose.
        """
        kept = properties_of(properties, comment)
        metastore = self._names()
        if metastore.has_database(identifier.database(name)):
            if if_not_exists:
                return
            raise DatabaseAlreadyExists(f'database {name} is in "{metastore.where}" already; pass if_not_exists=True to take it as it is', name=name)
        if if_not_exists:
            appearing.create_database_once(metastore, name, kept)
        else:
            metastore.create_database(name, kept)

    def alter_database(self, name: str, *, set: Mapping[str, str] | None = None, remove: Iterable[str] = ()) -> None:  # noqa: A002 - the public name
        """Sets and removes properties of a database; "comment" is one of them. Raises `DatabaseNotFound`, `Unsupported` where databases are folders."""
        given, gone = properties_of(set), [remove] if isinstance(remove, str) else list(remove)
        if twice := sorted({*given} & {*gone}):
            raise InvalidOption(f"{', '.join(twice)} cannot be set and removed at once", key=twice[0], value=None)
        metastore = self._there(identifier.database(name))
        if given or gone:
            metastore.alter_database(name, given, gone)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drops a database; `cascade` drops its tables with it, as `drop_table` does. Raises `DatabaseNotFound`, `InvalidOption` where tables are in it."""
        metastore = self._names()
        if not metastore.has_database(identifier.database(name)):
            if if_exists:
                return
            raise missing_database(metastore.where, name, metastore.databases())
        inside = metastore.tables(name)
        if inside and not cascade:
            raise InvalidOption(f"Database {name} is not empty. It holds {join_names(inside)}; cascade=True drops them too", key="cascade", value=None)
        for table in [] if metastore.is_linked(name) else inside:
            metastore.drop_table(identifier.Identifier(database=name, table=table))
        metastore.drop_database(name, cascade=cascade)

    # ---- what there is ---------------------------------------------------------------------------

    def tables(self, database: str | None = None, *, details: bool = False) -> pl.DataFrame:
        """A row a table, of one database or of all: `database`, `table`, `kind`.

        `kind` is what the table's schema says it is ("table" most often), null where its schema cannot be read. `details=True` opens each table and adds
        `snapshot_id`, `row_count` (stored rows), `file_count` and `size_bytes` of its newest snapshot, and `error`, why they are null. "sys" has the
        catalog's own tables, which are in no other listing. Raises `DatabaseNotFound`.
        """
        if database == identifier.SYSTEM:
            return listing.list_system_tables(sys_tables.TABLES, details=details)
        metastore = self._names() if database is None else self._there(database)
        wanted = [database] if database is not None else self.databases()
        there = [(one, name) for one in wanted for name in metastore.tables(one)]
        return listing.list_tables(there, lambda name: self._table(metastore, name), self._settings(), details=details)

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name ("db.t", also "db.t$files" and "db.t$branch_dev"); without a dot, a database."""
        if "." not in name:
            return name == identifier.SYSTEM or self._names().has_database(name)
        try:
            parsed = identifier.parse(name)
            if parsed.database != identifier.SYSTEM and not self._names().has_table(parsed.database, parsed.table):
                return False
            self.table(name)
        except LookupError:
            return False
        except LakekitError:
            return True  # it is there, and something else is wrong with it
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.exists(name)

    # ---- one of them -----------------------------------------------------------------------------

    def table(self, name: str, *, options: Mapping[str, Any] | None = None) -> Table:
        """The table of that name, with dynamic options put over its own.

        "db.t$branch_dev" is a branch of it, "db.t$files" a system table and "db.t$branch_dev$files" a branch's: a `SystemTable`, which only
        scans, as do views, and "sys.tables", "sys.partitions", "sys.all_table_options" and "sys.catalog_options". Raises `DatabaseNotFound`, `TableNotFound`,
        `BranchNotFound`, `InvalidOption`, and `Unsupported` for a table that lakekit refuses.
        """
        parsed = identifier.parse(name)
        if parsed.database == identifier.SYSTEM:
            return cast("Table", sys_tables.GlobalTable(catalog=self, name=sys_tables.check(name.partition(".")[2])))
        metastore = self._names()
        found = self._table(metastore, parsed, FrozenDict(normalize_keys(options or {})))
        if not metastore.has_table(parsed.database, parsed.table):
            view = None if parsed.branch or parsed.system else views.find_view(self, metastore, parsed, self._seen.views)
            if view is None:
                raise missing_identifier(metastore, parsed)
            return cast("Table", view)
        found = listing.check_shown(to_table_of_kind(found, materialized.kinds(self)), self._settings)
        return found if parsed.system is None else cast("Table", SystemTable(table=found, name=system_tables.check(parsed.system, found.name)))

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all tables, as `cat[name]` takes them."""
        listed = self.tables()
        yield from (f"{database}.{table}" for database, table in zip(listed["database"], listed["table"], strict=True))

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        primary_keys: Sequence[str] | None = (),
        partition_keys: Sequence[str] | None = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """A new table "db.t" of a database that is there; otherwise as `lk.create`. Catalog options `table-default.*` fill in options that are not given.

        Raises `DatabaseNotFound`, `TableAlreadyExists`, `InvalidOption` for the name of a branch or a system table, and what `lk.create` raises.
        """
        parsed = identifier.new_table(name, "createTable")
        metastore = self._there(parsed.database)
        made = self._table(metastore, parsed, made_with=normalize_keys(options or {}))
        if metastore.has_table(parsed.database, parsed.table):
            if if_not_exists:
                made.handle()
                return made
            raise TableAlreadyExists(f'{parsed.full} is in "{metastore.where}" already; open it with cat.table, or pass if_not_exists=True', name=parsed.full)
        if (options or {}).get("path") is not None:
            raise InvalidOption(
                "The current catalog does not support specifying the table path when creating a table. Leave `path` out: the catalog knows where tables lie",
                key="path",
                value=None,
            )
        given = {**self._settings().table_defaults, **{key: value for key, value in (options or {}).items() if value is not None}}

        def first_schema(ground: TableLocation) -> TableSchema:
            return define(ground, schema, primary_keys=primary_keys, partition_keys=partition_keys, options=given, comment=comment)

        if if_not_exists:
            appearing.create_or_wait(metastore, parsed, first_schema)
        else:
            metastore.create_table(parsed, first_schema)
        made.handle()
        return made

    def create_format_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        format: str,  # noqa: A002 - the public name
        location: str | None = None,
        partition_keys: Sequence[str] | None = (),
        options: Mapping[str, Any] | None = None,
    ) -> Table:
        """A new table "db.f" whose rows are the files of a folder, of `format` "csv", "json", "text", "parquet" or "orc": its own, or `location`.

        What lies at `location` already is its rows; it is neither made nor, when the table is dropped, deleted. Java's catalogs of folders have no such tables,
        and do not list it. Raises `DatabaseNotFound`, `TableAlreadyExists`, `InvalidOption`, `SchemaMismatch`, and `Unsupported` for another format, for types
        that its files do not hold, and for other metastores.
        """

        def first_schema(ground: TableLocation) -> TableSchema:
            return define_format_table(ground, schema, format_name=format, location=location, partition_keys=partition_keys, options=options)

        if not self._settings().of("format-table.enabled"):
            raise InvalidOption(f"{name}: format-table.enabled=false: this catalog makes no format tables. Connect without it", key="format-table.enabled")
        return self._create_folder_table(name, FORMAT_TABLE, first_schema, location)

    def create_object_table(self, name: str, *, location: str, comment: str | None = None) -> Table:
        """A new table "db.o" of what lies at a location: `t.refresh()` lists it, `t.open(path)` reads one of its files.

        Java's catalogs of folders have no such tables since 1.3, and do not list it. Raises as `create_format_table`.
        """
        return self._create_folder_table(name, OBJECTS, lambda ground: define_object_table(ground, location=location, comment=comment), location)

    def _create_folder_table(self, name: str, kind: str, define: Define, location: str | None) -> Table:
        parsed = identifier.new_table(name, "createTable")
        metastore = self._there(parsed.database)
        if self.metastore != "filesystem":
            raise refuse(kind, f"metastore={self.metastore!r}", instead="Keep it in a catalog of folders: lk.connect(warehouse)")
        if metastore.has_table(parsed.database, parsed.table):
            raise TableAlreadyExists(f'{parsed.full} is in "{metastore.where}" already; open it with cat.table', name=parsed.full)
        metastore.create_table(parsed, define)
        return to_table_of_kind(self._table(metastore, parsed, made_with={"path": location}))

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Drops a table and deletes its files, but for data files at external paths; of a table that is a link, only the link. A warning names what stays.

        Raises `TableNotFound`, `DatabaseNotFound`, `InvalidOption` for the name of a branch or a system table.
        """
        parsed = identifier.data_table(name, "dropTable")
        metastore = self._names()
        if metastore.has_table(parsed.database, parsed.table):
            metastore.drop_table(parsed)
        elif not if_exists:
            raise missing_identifier(metastore, parsed)

    def rename_table(self, name: str, to: str, *, if_exists: bool = False) -> None:
        """Gives a table another name, in this or another database; its folder moves with it. Jobs that have the table open lose it.

        Raises `TableNotFound`, `TableAlreadyExists`, `DatabaseNotFound`, `InvalidOption` for a name that is none, `Unsupported` where folders cannot move.
        """
        old, new = identifier.data_table(name, "renameTable"), identifier.new_table(to, "renameTable")
        metastore = self._names()
        if not metastore.has_table(old.database, old.table):
            if if_exists:
                return
            raise missing_identifier(metastore, old)
        self._there(new.database)
        if metastore.has_table(new.database, new.table):
            raise TableAlreadyExists(f"{new.full} is a table already: {old.full} keeps its name", name=new.full)
        metastore.rename_table(old, new)

    def clone(self, name: str, to: str, *, at: int | str | datetime | None = None, into: Catalog | None = None) -> Table:
        """A copy of a table, "db.u", whose files are its own: schemas, options and the live files of the newest snapshot, or of `at`, with the schema of then.

        `name` may be a branch, "db.t$branch_dev"; `at`: a snapshot, tag or time; `into`: the catalog of the copy, this one when None. The copy has one snapshot
        with the same buckets and levels, file indexes, deletion vectors, hash indexes and statistics. Files at external paths come into its own folder, and the
        options that named them are dropped; history, changelog files, tags, branches and consumers stay with the source. Where the storage has folders the
        copy appears in one step; in an object store a process that dies at the end may leave an empty table.

        Raises `TableNotFound`, `DatabaseNotFound`, `TableAlreadyExists`, `SnapshotNotFound`, `TagNotFound`, `InvalidOption`; `Unsupported` for format and
        object tables and those that lakekit does not write, `StorageFailed` where files lie at the place.
        """
        cloning.check_source(name)
        target = self if into is None else into
        ctx = self.table(name).handle()
        cloning.clone(ctx, target._there(identifier.new_table(to, "createTable").database), to, at)  # noqa: SLF001 - a catalog too
        return target.table(to)

    def migrate(
        self,
        source: str | PathLike | Table,
        name: str,
        *,
        move: bool = False,
        partition_types: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Table:
        """A new table "db.t" of the Parquet, ORC or Avro files that lie in a folder, as they are; `source` may also be a format table, or its name.

        Columns are those of all files, found by name, each as wide as the widest; folders `k=v` make partition columns, whose types `partition_types` may name.
        Files are copied, under new names; `move=True` takes them away from the source, once the table is there. The table has no key and bucket=-1.

        Raises `TableAlreadyExists`, `DatabaseNotFound`, `NotFound` where no files are; `SchemaMismatch`, `Corrupt`, `Unsupported`, `ValueOutOfRange` naming the
        file that cannot be taken as it lies; `InvalidOption`, `StorageFailed`. Then there is no table, and the source is as it was.
        """
        asked = migrating.MigrateRequest(move=move, partition_types=partition_types or {}, options=options or {}, storage_options=storage_options)
        migrating.migrate(self, source, self._there(identifier.new_table(name, "createTable").database), name, asked)
        return self.table(name)

    def create_materialized_table(
        self,
        name: str,
        query: str,
        *,
        freshness: str | timedelta,
        partition_keys: Sequence[str] | None = (),
        refresh_mode: str = "full",
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
    ) -> MaterializedTable:
        """A new table of the rows of `query`, which `t.refresh()` replaces when they are older than `freshness`, "30 s" or "1 h"; it is filled once now.

        Raises what `create_table` and the query raise, `Unsupported` for another mode than "full"; where the rows cannot be written there is no table.
        """
        return materialized.create(
            self, name, query, freshness=freshness, partition_keys=partition_keys, refresh_mode=refresh_mode, options=options, comment=comment
        )

    # ---- views -----------------------------------------------------------------------------------

    def create_view(
        self,
        name: str,
        query: str,
        *,
        columns: Sequence[str] | None = None,
        dialects: Mapping[str, str] | None = None,
        comment: str | None = None,
        temporary: bool = False,
        if_not_exists: bool = False,
    ) -> View:
        """A query under the name "db.v", which `cat["db.v"].scan()` and SQL read like a table.

        `query` is a SELECT as `cat.sql` takes it, `columns` other names for its columns, `dialects` the query in other engines' words. A temporary view is
        known to this object alone, and to no copy of it; others are kept by metastore="jdbc", which Java's catalog reads since 2.0. Raises `ViewAlreadyExists`,
        `TableAlreadyExists`, `DatabaseNotFound`, `InvalidOption`, `Unsupported` for a metastore that keeps none, and what the query raises.
        """
        parsed = identifier.new_table(name, "createView")
        metastore = self._there(parsed.database)
        if metastore.has_table(parsed.database, parsed.table):
            raise TableAlreadyExists(f"{parsed.full} is a table; a table and a view do not share a name", name=parsed.full)
        there = views.find_view(self, metastore, parsed, self._seen.views)
        if there is not None:
            return views.existing_view(there, if_not_exists=if_not_exists)
        made = views.define(self, parsed.full, query, columns=columns, dialects=dialects, comment=comment, temporary=temporary)
        if temporary:
            self._seen.views[parsed.full] = made
        else:
            try:
                views.require_view_store(metastore).put_view(parsed, views.to_text(made))
            except ViewAlreadyExists:  # somebody made it just now
                there = views.find_view(self, metastore, parsed, self._seen.views)
                if not if_not_exists or there is None:
                    raise
                return there
        return made

    def drop_view(self, name: str, *, if_exists: bool = False) -> None:
        """Forgets a view. Raises `ViewNotFound`, unless `if_exists`."""
        parsed = identifier.data_table(name, "dropView")
        if self._seen.views.pop(parsed.full, None) is None and not views.without_view(self._names(), parsed) and not if_exists:
            raise views.missing_view(parsed.full, self.views(parsed.database)["view"].to_list())

    def views(self, database: str | None = None) -> pl.DataFrame:
        """A row a view, of one database or of all: `database`, `view`, `temporary`, `query`, `comment`. Raises `DatabaseNotFound`, `Corrupt`."""
        metastore = self._names() if database is None else self._there(database)
        wanted = self.databases() if database is None else [database]
        kept = [
            views.from_text(self, f"{one}.{view}", text, metastore.where) for one in wanted for view, text in views.read_stored_views(metastore, one).items()
        ]
        return views.list_views([*kept, *(view for name, view in self._seen.views.items() if name.partition(".")[0] in wanted)])

    # ---- all of them -----------------------------------------------------------------------------

    def compact(
        self,
        *,
        databases: str | None = None,
        tables: str | None = None,
        excluding: str | None = None,
        full: bool = False,
        idle: str | timedelta | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        """Compacts many tables, one after another, as `t.compact` does each; what fails in one is told in its row, and the others go on.

        `databases`, `tables`, `excluding`: regular expressions that a whole name matches, "shop" or "shop.orders"; None: all, and none left out. `idle`: only
        partitions that got no file for so long, "1 d" or a `timedelta`. `options` are put over each table's own. A row a table: `database`, `table`, `done`
        (compacted, nothing to do, skipped, failed), `snapshot_id`, `error`. Raises `InvalidOption` for patterns that are none, or that fit no table.
        """
        return compacting.compact(self, compacting.TableSelection(databases, tables, excluding), full=full, idle=idle, options=options)

    def sql(self, text: str) -> pl.LazyFrame | pl.DataFrame:
        """Does statements of SQL, semicolons between them: one SELECT gives a LazyFrame, everything else the answer of the last statement.

        SELECT (also `VERSION AS OF`, `TIMESTAMP AS OF`, branches and system tables as ``db.`t$files` ``), by Polars; INSERT INTO and OVERWRITE, DELETE, UPDATE,
        MERGE INTO; CREATE, DROP and ALTER of tables and databases, CREATE TABLE … AS; TRUNCATE, SHOW, DESCRIBE; CALL sys.<procedure>; USE, for names without a
        database in what follows. Names stand in backquotes, texts in quotes, types are Paimon's. What changes rows answers `snapshot_id` and `row_count`. Each
        statement is a commit of its own: what stands before one that fails stays done.

        Needs `pip install 'lakekit[sql]'`. Raises `InvalidOption` with the place in the text for what is no statement, before any is done; `Unsupported` for
        one that is not done here; `ColumnNotFound`, `SchemaMismatch`; and what the methods raise that statements stand for.
        """
        found: pl.LazyFrame | pl.DataFrame = plugins.load("sql", "polars-backend").sql(self, text)
        return found

    def repair(self, name: str | None = None) -> pl.DataFrame:
        """Makes the metastore know the tables that lie in its warehouse: all, those of a database, or "db.t". Their files stay as they are.

        A row for each that lies there: `database`, `table`, `done` (registered; there, where it was known, and its copy of options renewed; failed),
        `error`. Raises `DatabaseNotFound`, `TableNotFound`, `InvalidOption`; `Unsupported` for catalogs of folders, where there is nothing to register.
        """
        return repairing.repair(self._names(), name)

    # ---- beginning and end -----------------------------------------------------------------------

    def close(self) -> None:
        """Lets go of what the catalog holds, which is nothing between two questions, so that it may be used again."""
        self._seen.metastore = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- looking ---------------------------------------------------------------------------------

    def _facts(self) -> list[tuple[str, Any]]:
        seen = self._seen.databases
        told = [] if seen is None else [("databases", ", ".join(seen) or "none")]
        uri = [] if self.uri is None else [("uri", redact_uri(self.uri))]
        return [("warehouse", self.warehouse or "as the metastore says"), ("metastore", self.metastore), *uri, *told]

    def __repr__(self) -> str:
        return cards.card("Catalog", self._facts())

    def _repr_html_(self) -> str:
        return html.card("Catalog", self._facts())

    # ---- parts -----------------------------------------------------------------------------------

    def _settings(self) -> CatalogOptions:
        world.refuse_fork()
        if self.storage is None:
            storage, root = storages.open(self.warehouse or "/", self.storage_options)
        else:
            storage, root = storages.confine(self.storage, self.warehouse or "/"), self.warehouse
        return CatalogOptions(
            warehouse=root if self.warehouse else "", storage=storage, uri=self.uri, options=self.options, storage_options=self.storage_options
        )

    def _names(self) -> Metastore:
        world.refuse_fork()
        if self._seen.metastore is None:
            self._seen.metastore = cast("Metastore", plugins.load("catalog/metastores", self.metastore).open(self._settings()))
        return self._seen.metastore

    def _there(self, database: str) -> Metastore:
        """The metastore, where it has such a database. Raises `DatabaseNotFound`."""
        metastore = self._names()
        if not metastore.has_database(database):
            raise missing_database(metastore.where, database, metastore.databases())
        return metastore

    def _table(self, metastore: Metastore, name: Identifier, dynamic: FrozenDict[str, Any] = EMPTY, made_with: Mapping[str, Any] | None = None) -> Table:
        ground = metastore.ground(name)
        if made_with:
            self._seen.named[name.full] = named_locations(made_with)
        return Table(
            location=ground.layout.root,
            name=name.full,
            branch_name=name.branch,
            dynamic=dynamic,
            storage_options=self.storage_options,
            storage=self.storage,
            keeper=ground.keeper,
            locations=locations_of(self.warehouse, self.options, self._seen.named.get(name.full, ())),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("warehouse", "metastore", "uri", "options", "storage_options", "storage")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_seen", CatalogCache())
