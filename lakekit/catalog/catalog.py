"""`lk.connect`: tables by name.

    cat = lk.connect("warehouse")
    cat.tables()                     a frame: database, table, kind
    cat["shop.orders"].scan()        the same as lk.open("warehouse/shop.db/orders").scan()
    cat["shop.orders$files"].scan()  a system table, and cat["sys.tables"] one of the catalog's own

A catalog only names tables: what they are, and everything they do, is in `Table`. A metastore decides which names exist
and where they lead (`metastores`).

Source: ENGINE.md 9.1; `AbstractCatalog`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from lakekit import catalog, read, table
from lakekit.catalog import identifier
from lakekit.catalog.catalog_core import CatalogCore
from lakekit.catalog.metastore import join_names, missing_database, missing_identifier, properties_of
from lakekit.errors import DatabaseAlreadyExists, InvalidOption, LakekitError, TableAlreadyExists, ViewAlreadyExists
from lakekit.options.features import FORMAT_TABLE, OBJECT_TABLE, make_refusal
from lakekit.options.option import FrozenDict, normalize_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    import polars as pl

    from lakekit.catalog.metastore import Define
    from lakekit.catalog.session import ResultFrame, Session
    from lakekit.catalog.views import MaterializedTable, View
    from lakekit.ddl.table_definition import SchemaLike
    from lakekit.metadata.table_context import TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage import PathLike
    from lakekit.table import Table


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Catalog(CatalogCore):
    """Tables by name.

    Nothing is read before a method is called, and nothing is cached: each call reads again. Immutable, picklable,
    shared freely by threads.
    """

    # ---- databases -------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """Return the names of all databases.

        Raises: `DatabaseNotFound` if there is no warehouse, `StorageFailed` if the metastore does not answer.
        """
        self._cache.databases = names = self._names().databases()
        return names

    def create_database(
        self,
        name: str,
        *,
        if_not_exists: bool = False,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a database.

        A metastore stores its comment and properties; a folder stores none, and a warning says so.

        Raises: `DatabaseAlreadyExists`, `InvalidOption` for an invalid name, for the name `sys`, and for a `location`
        that the metastore does not choose.
        """
        stored = properties_of(properties, comment)
        metastore = self._names()
        if metastore.has_database(identifier.database(name)):
            if if_not_exists:
                return
            raise DatabaseAlreadyExists(
                f'database {name} is in "{metastore.address}" already; pass if_not_exists=True to take it as it is',
                name=name,
            )
        if if_not_exists:
            catalog.operations.create_database_once(metastore, name, stored)
        else:
            metastore.create_database(name, stored)

    def alter_database(self, name: str, *, set: Mapping[str, str] | None = None, remove: Iterable[str] = ()) -> None:  # noqa: A002 - the public name
        """Set and remove properties of a database; "comment" is one of them.

        Raises: `DatabaseNotFound`, `Unsupported` where databases are folders.
        """
        changes, removed = properties_of(set), [remove] if isinstance(remove, str) else list(remove)
        if twice := sorted({*changes} & {*removed}):
            raise InvalidOption(f"{', '.join(twice)} cannot be set and removed at once", key=twice[0], value=None)
        metastore = self._metastore_of(identifier.database(name))
        if changes or removed:
            metastore.alter_database(name, changes, removed)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; `cascade` drops its tables with it, as `drop_table` does.

        Raises: `DatabaseNotFound`, `InvalidOption` if it has tables.
        """
        metastore = self._names()
        if not metastore.has_database(identifier.database(name)):
            if if_exists:
                return
            raise missing_database(metastore.address, name, metastore.databases())
        inside = metastore.tables(name)
        if inside and not cascade:
            raise InvalidOption(
                f"Database {name} is not empty. It holds {join_names(inside)}; cascade=True drops them too",
                key="cascade",
                value=name,
            )
        for own in [] if metastore.has_linked_folder(name) else inside:
            metastore.drop_table(identifier.Identifier(database=name, table=own))
        metastore.drop_database(name, cascade=cascade)

    # ---- what there is ---------------------------------------------------------------------------

    def tables(self, database: str | None = None, *, details: bool = False) -> pl.DataFrame:
        """Return a row for each table, of one database or of all: `database`, `table`, `kind`.

        `kind` is the type in the table's schema ("table" most often), null if its schema cannot be read.
        `details=True` opens each table and adds `snapshot_id`, `row_count` (stored rows), `file_count` and `size_bytes`
        of its newest snapshot, and `error`, why they are null. "sys" has the catalog's own tables, which are in no
        other listing.

        Raises: `DatabaseNotFound`.
        """
        if database == identifier.SYSTEM:
            return catalog.operations.list_system_tables(catalog.sys_tables.SYS_TABLES, details=details)
        metastore = self._names() if database is None else self._metastore_of(database)
        wanted = [database] if database is not None else self.databases()
        pairs = [(database_name, name) for database_name in wanted for name in metastore.tables(database_name)]
        return catalog.operations.list_tables(
            pairs, lambda name: self._table(metastore, name), self._settings(), details=details
        )

    def exists(self, name: str) -> bool:
        """Return whether there is a table of that name; without a dot, a database.

        Names are "db.t", also "db.t$files" and "db.t$branch_dev".
        """
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
        """Return the table of that name, with dynamic options put over its own.

        "db.t$branch_dev" is a branch of it, "db.t$files" a system table and "db.t$branch_dev$files" a branch's: a
        `SystemTable`, which only scans, as do views, and "sys.tables", "sys.partitions", "sys.all_table_options" and
        "sys.catalog_options".

        Raises: `DatabaseNotFound`, `TableNotFound`, `BranchNotFound`, `InvalidOption`, and `Unsupported` for a table
        that lakekit refuses.
        """
        parsed = identifier.parse(name)
        if parsed.database == identifier.SYSTEM:
            return cast("Table", catalog.sys_tables.open_global_table(self, name.partition(".")[2]))
        metastore = self._names()
        opened = self._table(metastore, parsed, FrozenDict(normalize_keys(options or {})))
        if not metastore.has_table(parsed.database, parsed.table):
            view = (
                None
                if parsed.branch or parsed.system
                else catalog.views.find_view(self, metastore, parsed, self._cache.views)
            )
            if view is None:
                raise missing_identifier(metastore, parsed)
            return cast("Table", view)
        opened = catalog.operations.check_shown(
            table.format_tables.to_table_of_kind(opened, catalog.views.table_kinds(self)), self._settings
        )
        return (
            opened
            if parsed.system is None
            else cast("Table", catalog.sys_tables.open_system_table(opened, parsed.system))
        )

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
        """Create a table "db.t" in an existing database; otherwise as `lk.create`.

        Catalog options `table-default.*` fill in options that are not given.

        Raises: `DatabaseNotFound`, `TableAlreadyExists`, `InvalidOption` for the name of a branch or a system table,
        and what `lk.create` raises.
        """
        parsed = identifier.new_table(name, "createTable")
        metastore = self._metastore_of(parsed.database)
        made = self._table(metastore, parsed, made_with=normalize_keys(options or {}))
        if metastore.has_table(parsed.database, parsed.table):
            if if_not_exists:
                read.table_scan.context_of(made)
                return made
            raise TableAlreadyExists(
                f'{parsed.full} is in "{metastore.address}" already; open it with cat.table, or pass '
                "if_not_exists=True",
                name=parsed.full,
            )
        if (options or {}).get("path") is not None:
            raise InvalidOption(
                "The current catalog does not support specifying the table path when creating a table. Leave `path` "
                "out: the catalog knows where tables lie",
                key="path",
                value=None,
            )
        merged = {
            **self._settings().table_defaults,
            **{key: value for key, value in (options or {}).items() if value is not None},
        }

        def first_schema(target: TableLocation) -> TableSchema:
            return table.open_create.define(
                target,
                schema,
                primary_keys=primary_keys,
                partition_keys=partition_keys,
                options=merged,
                comment=comment,
            )

        if if_not_exists:
            catalog.operations.create_or_wait(metastore, parsed, first_schema)
        else:
            metastore.create_table(parsed, first_schema)
        read.table_scan.context_of(made)
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
        """Create a table "db.f" whose rows are the files of a folder: its own, or `location`.

        `format` is "csv", "json", "text", "parquet" or "orc". Files that exist at `location` are its rows; the folder
        is neither made nor, when the table is dropped, deleted. Java's catalogs of folders have no such tables, and do
        not list it.

        Raises: `DatabaseNotFound`, `TableAlreadyExists`, `InvalidOption`, `SchemaMismatch`, and `Unsupported` for
        another format, for types that its files do not hold, and for other metastores.
        """

        def first_schema(target: TableLocation) -> TableSchema:
            return table.format_tables.define_format_table(
                target, schema, format_name=format, location=location, partition_keys=partition_keys, options=options
            )

        if not self._settings().of("format-table.enabled"):
            raise InvalidOption(
                f"{name}: format-table.enabled=false: this catalog makes no format tables. Connect without it",
                key="format-table.enabled",
            )
        return self._create_folder_table(name, FORMAT_TABLE, first_schema, location)

    def create_object_table(self, name: str, *, location: str, comment: str | None = None) -> Table:
        """Create a table "db.o" of the files at a location.

        `t.refresh()` lists the location, `t.open(path)` opens one of its files. Java's catalogs of folders have no such
        tables since 1.3, and do not list it. Raises as `create_format_table`.
        """
        return self._create_folder_table(
            name,
            OBJECT_TABLE,
            lambda target: table.format_tables.define_object_table(target, location=location, comment=comment),
            location,
        )

    def _create_folder_table(self, name: str, kind: str, define: Define, location: str | None) -> Table:
        parsed = identifier.new_table(name, "createTable")
        metastore = self._metastore_of(parsed.database)
        if self.metastore != "filesystem":
            raise make_refusal(
                kind,
                f"metastore={self.metastore!r}",
                alternative="Keep it in a catalog of folders: lk.connect(warehouse)",
            )
        if metastore.has_table(parsed.database, parsed.table):
            raise TableAlreadyExists(
                f'{parsed.full} is in "{metastore.address}" already; open it with cat.table', name=parsed.full
            )
        metastore.create_table(parsed, define)
        return table.format_tables.to_table_of_kind(self._table(metastore, parsed, made_with={"path": location}))

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a table and delete its files, but for data files at external paths.

        Of a table that is a link, only the link is deleted. A warning names what stays.

        Raises: `TableNotFound`, `DatabaseNotFound`, `InvalidOption` for the name of a branch or a system table.
        """
        parsed = identifier.data_table(name, "dropTable")
        metastore = self._names()
        if metastore.has_table(parsed.database, parsed.table):
            metastore.drop_table(parsed)
        elif not if_exists:
            raise missing_identifier(metastore, parsed)

    def rename_table(self, name: str, to: str, *, if_exists: bool = False) -> None:
        """Rename a table, in this or another database; its folder moves with it.

        Jobs that have the table open lose it.

        Raises: `TableNotFound`, `TableAlreadyExists`, `DatabaseNotFound`, `InvalidOption` for an invalid name,
        `Unsupported` where folders cannot move.
        """
        old, new = identifier.data_table(name, "renameTable"), identifier.new_table(to, "renameTable")
        metastore = self._names()
        if not metastore.has_table(old.database, old.table):
            if if_exists:
                return
            raise missing_identifier(metastore, old)
        self._metastore_of(new.database)
        if metastore.has_table(new.database, new.table):
            raise TableAlreadyExists(f"{new.full} is a table already: {old.full} keeps its name", name=new.full)
        metastore.rename_table(old, new)

    def clone(
        self, name: str, to: str, *, at: int | str | datetime | None = None, into: Catalog | None = None
    ) -> Table:
        """Copy a table to "db.u": schemas, options and the live files of the newest snapshot, or of `at`.

        `name` may be a branch, "db.t$branch_dev"; `at`: a snapshot, tag or time, copied with the schema of then;
        `into`: the catalog of the copy, this one when None. The copy shares no file with the source. It has one
        snapshot with the same buckets and levels, file indexes, deletion vectors, hash indexes and statistics. Files at
        external paths are copied to its own folder, and the options that named them are dropped; history, changelog
        files, tags, branches and consumers stay with the source. Where the storage has directories the copy appears in
        one step; in an object store a process that dies at the end may leave an empty table.

        Raises: `TableNotFound`, `DatabaseNotFound`, `TableAlreadyExists`, `SnapshotNotFound`, `TagNotFound`,
        `InvalidOption`; `Unsupported` for format and object tables and those that lakekit does not write,
        `StorageFailed` if files exist at the location.
        """
        catalog.operations.check_source(name)
        target = self if into is None else into
        ctx = read.table_scan.context_of(self.table(name))
        catalog.operations.clone(ctx, target._metastore_of(identifier.new_table(to, "createTable").database), to, at)  # noqa: SLF001 - a catalog too
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
        """Create a table "db.t" of the Parquet, ORC or Avro files in a folder, without rewriting them.

        `source` may also be a format table, or its name. Columns are those of all files, found by name, each as wide as
        the widest; folders `k=v` make partition columns, whose types `partition_types` may name. Files are copied,
        under new names; `move=True` deletes them at the source, once the table exists. The table has no key and
        bucket=-1.

        Raises: `TableAlreadyExists`, `DatabaseNotFound`, `NotFound` if no files are; `SchemaMismatch`, `Corrupt`,
        `Unsupported`, `ValueOutOfRange` naming the file that cannot be taken as it is; `InvalidOption`,
        `StorageFailed`. Then there is no table, and the source is as it was.
        """
        request = catalog.migrate.MigrateRequest(
            move=move, partition_types=partition_types or {}, options=options or {}, storage_options=storage_options
        )
        metastore = self._metastore_of(identifier.new_table(name, "createTable").database)
        if isinstance(source, str) and catalog.migrate.is_table_name(source) and self.exists(source):
            source = self.table(source)
        catalog.migrate.migrate(self, source, metastore, name, request)
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
        """Create a table of the rows of `query`, and fill it.

        `t.refresh()` replaces the rows when they are older than `freshness`, "30 s" or "1 h".

        Raises what `create_table` and the query raise, `Unsupported` for another mode than "full"; where the rows
        cannot be written there is no table.
        """
        return catalog.views.create(
            self,
            name,
            query,
            freshness=freshness,
            partition_keys=partition_keys,
            refresh_mode=refresh_mode,
            options=options,
            comment=comment,
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
        """Create a view "db.v" of a query, which `cat["db.v"].scan()` and SQL read like a table.

        `query` is a SELECT as `cat.sql` takes it, `columns` other names for its columns, `dialects` the query in the
        dialects of other engines. A temporary view is known to this object alone, and to no copy of it; others are
        stored by metastore="jdbc", which Java's catalog reads since 2.0.

        Raises: `ViewAlreadyExists`, `TableAlreadyExists`, `DatabaseNotFound`, `InvalidOption`, `Unsupported` for a
        metastore that stores none, and what the query raises.
        """
        parsed = identifier.new_table(name, "createView")
        metastore = self._metastore_of(parsed.database)
        if metastore.has_table(parsed.database, parsed.table):
            raise TableAlreadyExists(
                f"{parsed.full} is a table; a table and a view do not share a name", name=parsed.full
            )
        existing = catalog.views.find_view(self, metastore, parsed, self._cache.views)
        if existing is not None:
            return catalog.views.existing_view(existing, if_not_exists=if_not_exists)
        made = catalog.views.define_view(
            self, parsed.full, query, columns=columns, dialects=dialects, comment=comment, temporary=temporary
        )
        if temporary:
            self._cache.views[parsed.full] = made
        else:
            try:
                catalog.views.require_view_store(metastore).put_view(parsed, catalog.views.to_text(made))
            except ViewAlreadyExists:  # made by another process just now
                existing = catalog.views.find_view(self, metastore, parsed, self._cache.views)
                if not if_not_exists or existing is None:
                    raise
                return existing
        return made

    def drop_view(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a view. Raises `ViewNotFound`, unless `if_exists`."""
        parsed = identifier.data_table(name, "dropView")
        if (
            self._cache.views.pop(parsed.full, None) is None
            and not catalog.views.without_view(self._names(), parsed)
            and not if_exists
        ):
            raise catalog.views.missing_view(parsed.full, self.views(parsed.database)["view"].to_list())

    def views(self, database: str | None = None) -> pl.DataFrame:
        """Return a row for each view, of one database or of all.

        The columns are `database`, `view`, `temporary`, `query`, `comment`.

        Raises: `DatabaseNotFound`, `Corrupt`.
        """
        metastore = self._names() if database is None else self._metastore_of(database)
        wanted = self.databases() if database is None else [database]
        stored = [
            catalog.views.from_text(self, f"{database_name}.{view}", text, metastore.address)
            for database_name in wanted
            for view, text in catalog.views.read_stored_views(metastore, database_name).items()
        ]
        return catalog.views.list_views(
            [*stored, *(view for name, view in self._cache.views.items() if name.partition(".")[0] in wanted)]
        )

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
        """Compact many tables, one after another, as `t.compact` does each, and return a row for each.

        A failure of one table is in its row, and the others go on. `databases`, `tables`, `excluding`: regular
        expressions that match a whole name, "shop" or "shop.orders"; None: all, and none left out. `idle`: only
        partitions that got no file for so long, "1 d" or a `timedelta`. `options` are put over each table's own. The
        columns are `database`, `table`, `done` (compacted, nothing to do, skipped, failed), `snapshot_id`, `error`.

        Raises: `InvalidOption` for invalid patterns, or patterns that fit no table.
        """
        return catalog.operations.compact(
            self, catalog.operations.TableSelection(databases, tables, excluding), full=full, idle=idle, options=options
        )

    def maintain(self, name: str | None = None, *, dry_run: bool = False) -> pl.DataFrame:
        """Do what is due in all tables, in those of a database or in "db.t", and return a row for each task done.

        Stale materialized tables are refreshed; tags are made and tags, partitions, consumers, snapshots and changelogs
        expire as each table's options say, also with `write-only`. A failure is in its row, and the others go on. The
        columns are `database`, `table`, `task`, `done` (done, due of a dry run, failed), `details`, `error`.

        Raises: `DatabaseNotFound`, `TableNotFound`, `InvalidOption`.
        """
        return catalog.due_maintenance.maintain(self, name, dry_run=dry_run)

    def sql(
        self,
        text: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        /,
        *,
        files: bool = False,
        dialect: str = "lakekit",
        **frames: Any,
    ) -> pl.LazyFrame | ResultFrame:
        """Execute SQL statements separated by semicolons, and return the result of the last one.

        One query gives a LazyFrame, everything else a frame; changes of rows give `snapshot_id` and `row_count`. USE
        holds in this object from call to call. `Session.sql` has the arguments, the statements and what it raises.
        """
        return catalog.session.shared(self).sql(text, parameters, files=files, dialect=dialect, **frames)

    def session(self) -> Session:
        """Return a new session, with a database, catalogs and temporary views of its own."""
        return catalog.session.create(self)

    def repair(self, name: str | None = None) -> pl.DataFrame:
        """Register the tables that exist in the warehouse with the metastore: all, a database's, or "db.t".

        Their files stay as they are. Returns a row for each table that exists there: `database`, `table`, `done`
        (registered; there, where it was known, and its copy of options renewed; failed), `error`.

        Raises: `DatabaseNotFound`, `TableNotFound`, `InvalidOption`; `Unsupported` for catalogs of folders, where there
        is nothing to register.
        """
        return catalog.operations.repair(self._names(), name)

    # ---- beginning and end -----------------------------------------------------------------------

    def close(self) -> None:
        """Release the resources of the catalog.

        It holds none between two calls, and may be used again.
        """
        self._cache.metastore = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
