"""`metastore=jdbc`: a catalog of names in a SQL database, as Java's JDBC catalog stores them.

    paimon_tables                 catalog_key, database_name, table_name
    paimon_database_properties    …, property_key, property_value          a database has the property `exists`
    paimon_table_properties       …, property_key, property_value          a copy of each table's options, for people
    paimon_distributed_locks      lock_id, acquired_at, expire_time_seconds

The files of the tables are in the warehouse, and schema files define a table. A table is created in this order: its
schema, then its row; it is dropped in the reverse order.

Source: ENGINE.md 9.3; `JdbcCatalog`, `JdbcUtils`.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakekit.catalog import identifier, metastore
from lakekit.catalog.jdbc_session import (
    DuplicateKey,
    JdbcDatabase,
    JdbcLock,
    MissingDatabaseTable,
    create_if_missing,
    retry_while_busy,
)
from lakekit.catalog.metastore import build_path
from lakekit.errors import (
    DatabaseAlreadyExists,
    InvalidOption,
    StorageFailed,
    TableAlreadyExists,
    Unsupported,
    ViewAlreadyExists,
)
from lakekit.metadata import table_context
from lakekit.metadata.table_context import NoLock, TableLocation
from lakekit.model.table_paths import MAIN_BRANCH, TablePaths
from lakekit.options.option import FrozenDict
from lakekit.options.redaction import redact_uri
from lakekit.runtime import REAL_RUNTIME, warn_user
from lakekit.storage import confine, protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from lakekit.catalog.catalog_core import CatalogOptions
    from lakekit.catalog.identifier import Identifier
    from lakekit.catalog.jdbc_session import JdbcSession
    from lakekit.catalog.metastore import Define
    from lakekit.metadata.table_context import HeldLock
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage.protocol import Storage

_KEY_COLUMNS = "catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,"
_CREATE_STATEMENTS = {
    "paimon_tables": (
        f"CREATE TABLE paimon_tables({_KEY_COLUMNS}table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, "
        "database_name, "
        "table_name))"
    ),
    "paimon_database_properties": (
        f"CREATE TABLE paimon_database_properties({_KEY_COLUMNS}property_key VARCHAR(255),property_value VARCHAR(1000),"
        "PRIMARY KEY (catalog_key, database_name, property_key))"
    ),
    "paimon_table_properties": (
        f"CREATE TABLE paimon_table_properties({_KEY_COLUMNS}table_name VARCHAR(255) NOT NULL,property_key "
        "VARCHAR(255) NOT "
        "NULL,"
        "property_value VARCHAR(1000),PRIMARY KEY (catalog_key, database_name, table_name, property_key))"
    ),
    "paimon_distributed_locks": (
        "CREATE TABLE paimon_distributed_locks(lock_id VARCHAR({lock_id_length}) NOT NULL,"
        "acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,expire_time_seconds BIGINT DEFAULT 0 NOT "
        "NULL,PRIMARY KEY (lock_id))"
    ),
}
"""As the reference makes them, byte for byte."""
_LOCKS_TABLE, _VIEWS_TABLE = "paimon_distributed_locks", "paimon_views"
_CREATE_VIEWS = (
    f"CREATE TABLE {_VIEWS_TABLE}({_KEY_COLUMNS}view_name VARCHAR(255) NOT NULL,view_schema TEXT NOT NULL, PRIMARY KEY "
    "(catalog_key, database_name, view_name))"
)
"""Made with the first view: engines before 2.0 know no such table."""
_OF_DATABASE = "WHERE catalog_key = ? AND database_name = ?"
_OF_TABLE = f"{_OF_DATABASE} AND table_name = ?"
_ADD_PROPERTY = (
    "INSERT INTO paimon_database_properties (catalog_key, database_name, property_key, property_value) VALUES (?, ?, "
    "?, ?)"
)
_ADD_OPTION = (
    "INSERT INTO paimon_table_properties (catalog_key, database_name, table_name, property_key, property_value) "
    "VALUES (?, ?, ?, ?, ?)"
)
_EXISTS_PROPERTY = "exists"
_MAX_VALUE_LENGTH = 1000


def open(settings: CatalogOptions) -> JdbcMetastore:  # noqa: A001 - every metastore's
    """Open the catalog stored in a SQL database.

    Raises: `InvalidOption` for a uri that names no database, `Unsupported` for a driver that is not installed.
    """
    kind = settings.of("lock.type")
    if kind not in (None, "jdbc"):
        raise Unsupported(
            f"lock.type={kind!r} is no lock of metastore=jdbc, which keeps its own; leave lock.type out",
            feature="option.lock.type",
        )
    catalog = JdbcMetastore(
        sql_database=JdbcDatabase(
            uri=settings.uri or "",
            driver_options=FrozenDict(settings.driver_options),
            redacted_uri=redact_uri(settings.uri or ""),
        ),
        storage=settings.storage,
        root=settings.warehouse,
        catalog_key=settings.of("catalog-key"),
        is_locking=settings.lock_enabled,
        timeout_ms=settings.of("lock-acquire-timeout"),
        max_sleep_ms=settings.of("lock-check-max-sleep"),
        lock_id_length=settings.of("lock-key-max-length"),
        copies_options=settings.of("sync-all-properties"),
    )
    _ = catalog.sql_database.dialect
    return catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcMetastore:
    """Databases and tables of the catalog `catalog_key`, which are rows of tables in a SQL database."""

    sql_database: JdbcDatabase
    storage: Storage
    root: str
    catalog_key: str
    is_locking: bool
    timeout_ms: int
    max_sleep_ms: int
    lock_id_length: int
    copies_options: bool
    _ready: list[bool] = field(default_factory=list, compare=False, repr=False)

    @property
    def address(self) -> str:
        return self.sql_database.redacted_uri

    # ---- databases -------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        with self._open_session() as session:
            names = [
                row[0]
                for row in session.query(
                    "SELECT DISTINCT database_name FROM paimon_tables WHERE catalog_key = ?", self.catalog_key
                )
            ]
            names += [
                row[0]
                for row in session.query(
                    "SELECT DISTINCT database_name FROM paimon_database_properties WHERE catalog_key = ?",
                    self.catalog_key,
                )
            ]
        return sorted({database for database in names if identifier.is_database_name(database)})

    def has_database(self, database: str) -> bool:
        with self._open_session() as session:
            queries = (
                f"SELECT DISTINCT database_name FROM {table} {_OF_DATABASE}"
                for table in ("paimon_database_properties", "paimon_tables")
            )
            return any((database,) in session.query(query, self.catalog_key, database) for query in queries)

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        path = build_path(self.root, database)
        if _normalize_location(properties.get("location", path)) != _normalize_location(path):
            raise InvalidOption(
                f"the tables of database {database} would lie at {path}: releases of the reference do not agree on "
                "other locations, so leave `build_path` out",
                key="location",
                value=properties["location"],
            )
        stored = {_EXISTS_PROPERTY: "true", **properties, "location": path}
        _check_lengths(stored)

        def insert() -> None:
            with self._open_session() as session, session.transaction():
                for name, value in stored.items():
                    session.execute(_ADD_PROPERTY, self.catalog_key, database, name, value)

        try:
            retry_while_busy(insert, REAL_RUNTIME.wait_ms)
        except DuplicateKey:
            raise DatabaseAlreadyExists(
                f'database {database} is in "{self.address}" already, perhaps spelt with other cases', name=database
            ) from None

    def alter_database(self, database: str, properties: Mapping[str, str], remove: Iterable[str]) -> None:
        removed = list(remove)
        for name in (_EXISTS_PROPERTY, "location"):
            if name in properties or name in removed:
                raise InvalidOption(
                    f"the property {name} of database {database} says where it is and that it is: it cannot change",
                    key=name,
                    value=None,
                )
        _check_lengths(properties)

        def change() -> None:
            with self._open_session() as session, session.transaction():
                for name in (*properties, *removed):
                    session.execute(
                        f"DELETE FROM paimon_database_properties {_OF_DATABASE} AND property_key = ?",
                        self.catalog_key,
                        database,
                        name,
                    )
                for name, value in properties.items():
                    session.execute(_ADD_PROPERTY, self.catalog_key, database, name, value)

        retry_while_busy(change, REAL_RUNTIME.wait_ms)

    def properties(self, database: str) -> dict[str, str]:
        with self._open_session() as session:
            rows = session.query(
                f"SELECT property_key, property_value FROM paimon_database_properties {_OF_DATABASE}",
                self.catalog_key,
                database,
            )
        return {name: value for name, value in sorted(rows) if name != _EXISTS_PROPERTY}

    def drop_database(self, database: str, *, cascade: bool) -> None:  # noqa: ARG002 - its tables are gone by now
        views = (_VIEWS_TABLE,) if self.views(database) else ()

        def delete() -> None:
            with self._open_session() as session, session.transaction():
                for table in ("paimon_tables", "paimon_database_properties", "paimon_table_properties", *views):
                    session.execute(f"DELETE FROM {table} {_OF_DATABASE}", self.catalog_key, database)

        raw = self._table_names(database)
        retry_while_busy(delete, REAL_RUNTIME.wait_ms)
        if odd := [table for table in raw if not identifier.is_table_name(table)]:
            shown = ", ".join(ascii(table[:80]) for table in odd[:5])
            warn_user(
                f"{self.address} had {len(odd)} rows of database {database} that name no table, {shown}: the rows are "
                "gone, and no folder was touched"
            )
        folder = build_path(self.root, database)
        target = protocol.symlink_target(self.storage, folder)
        if target is not None:
            self.storage.delete([folder])
            warn_user(
                f'database {database} was a link to "{target}": the link is gone, and what lies there stays. Delete '
                "it if nobody needs it"
            )
        self.storage.remove_directories([folder])

    def has_linked_folder(self, database: str) -> bool:
        return protocol.symlink_target(self.storage, build_path(self.root, database)) is not None

    # ---- tables ----------------------------------------------------------------------------------

    def tables(self, database: str) -> list[str]:
        return [table for table in self._table_names(database) if identifier.is_table_name(table)]

    def _table_names(self, database: str) -> list[str]:
        """Return the table names in the database's rows, unchecked."""
        with self._open_session() as session:
            rows = session.query(
                f"SELECT database_name, table_name FROM paimon_tables {_OF_DATABASE}", self.catalog_key, database
            )
        return sorted(table for owner, table in rows if owner == database)

    def has_table(self, database: str, table: str) -> bool:
        """Return whether there is a row of exactly that name: some databases ignore differences of case.

        Whether it leads to a table shows when the table is opened.
        """
        if not identifier.is_database_name(database) or not identifier.is_table_name(table):
            return False
        with self._open_session() as session:
            return (database, table) in session.query(
                f"SELECT database_name, table_name FROM paimon_tables {_OF_TABLE}", self.catalog_key, database, table
            )

    def locate(self, name: Identifier) -> TableLocation:
        layout = TablePaths(root=build_path(self.root, name.database, name.table))
        environment = JdbcEnvironment(catalog=self, database=name.database, table=name.table)
        return TableLocation(
            name=name.full, storage=confine(self.storage, layout.root), paths=layout, catalog_env=environment
        )

    def create_table(self, name: Identifier, define: Define) -> None:
        self._refuse_view(name)
        metastore.check_own_folder(self.storage, self.root, name.database)
        ground = metastore.widen_storage(self.locate(name), [self.root])
        schema = define(ground)
        try:
            self._insert_table(name)
        except StorageFailed as failed:
            # if this fails too, the schema stays: the row may exist
            if not self.has_table(name.database, name.table):
                self.storage.delete([ground.paths.schema(0)])  # ours: it was made where none was
                if not isinstance(failed, DuplicateKey):
                    raise
                raise _identifier_taken(self.address, name) from None
        table_context.schema_changed(ground, schema)

    def list_in_warehouse(self, database: str | None = None) -> list[str]:
        return (
            metastore.list_databases(self.storage, self.root)
            if database is None
            else metastore.list_tables(self.storage, build_path(self.root, database))
        )

    def register(self, name: Identifier, schema: TableSchema) -> bool:
        is_new = not self.has_table(name.database, name.table)
        if is_new:
            self._refuse_view(name)
            try:
                self._insert_table(name)
            except DuplicateKey:
                if not self.has_table(name.database, name.table):
                    raise _identifier_taken(self.address, name) from None
                is_new = False  # another process did the same
        table_context.schema_changed(self.locate(name), schema)
        return is_new

    def drop_table(self, name: Identifier) -> None:
        def delete() -> None:
            with self._open_session() as session, session.transaction():
                for table in ("paimon_tables", "paimon_table_properties"):
                    session.execute(f"DELETE FROM {table} {_OF_TABLE}", self.catalog_key, name.database, name.table)

        retry_while_busy(delete, REAL_RUNTIME.wait_ms)
        metastore.delete_table_files(self.locate(name), [self.root])

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        self._refuse_view(new)
        for name in (old, new):
            metastore.check_own_folder(self.storage, self.root, name.database)
        self._move_rows(old, new)
        try:
            metastore.move_table_folder(self.locate(old), build_path(self.root, new.database, new.table), [self.root])
        except BaseException:
            self._move_rows(new, old)
            raise

    # ---- views -----------------------------------------------------------------------------------

    def views(self, database: str) -> dict[str, str]:
        try:
            with self._open_session() as session:
                rows = session.query(
                    f"SELECT database_name, view_name, view_schema FROM {_VIEWS_TABLE} {_OF_DATABASE}",
                    self.catalog_key,
                    database,
                )
        except MissingDatabaseTable:
            return {}
        return {
            view: text for owner, view, text in sorted(rows) if owner == database and identifier.is_table_name(view)
        }

    def put_view(self, name: Identifier, text: str) -> None:
        def insert() -> None:
            with self._open_session() as session:
                session.execute(
                    f"INSERT INTO {_VIEWS_TABLE} (catalog_key, database_name, view_name, view_schema) VALUES (?, ?, "
                    "?, ?)",
                    self.catalog_key,
                    *name_of,
                    text,
                )

        name_of = (name.database, name.table)
        with self._open_session() as session:
            create_if_missing(lambda: session.execute(_CREATE_VIEWS), lambda: _has_table(session, _VIEWS_TABLE))
        try:
            retry_while_busy(insert, REAL_RUNTIME.wait_ms)
        except DuplicateKey:
            raise ViewAlreadyExists(
                f"{name.full} is a view in {self.address} already, perhaps spelt with other cases",
                name=name.full,
            ) from None

    def drop_view(self, name: Identifier) -> bool:
        if name.table not in self.views(name.database):
            return False

        def delete() -> None:
            with self._open_session() as session:
                session.execute(
                    f"DELETE FROM {_VIEWS_TABLE} {_OF_DATABASE} AND view_name = ?",
                    self.catalog_key,
                    name.database,
                    name.table,
                )

        retry_while_busy(delete, REAL_RUNTIME.wait_ms)
        return True

    # ---- parts -----------------------------------------------------------------------------------

    def _insert_table(self, name: Identifier) -> None:
        def insert() -> None:
            with self._open_session() as session:
                session.execute(
                    "INSERT INTO paimon_tables (catalog_key, database_name, table_name) VALUES (?, ?, ?)",
                    self.catalog_key,
                    name.database,
                    name.table,
                )

        retry_while_busy(insert, REAL_RUNTIME.wait_ms)

    def _move_rows(self, old: Identifier, new: Identifier) -> None:
        def update() -> None:
            with self._open_session() as session, session.transaction():
                for table in ("paimon_tables", "paimon_table_properties"):
                    values = (new.database, new.table, self.catalog_key, old.database, old.table)
                    session.execute(f"UPDATE {table} SET database_name = ?, table_name = ? {_OF_TABLE}", *values)

        try:
            retry_while_busy(update, REAL_RUNTIME.wait_ms)
        except DuplicateKey:
            raise TableAlreadyExists(
                f"{self.address} has a row for {new.full} already; {old.full} keeps its name",
                name=new.full,
            ) from None

    def _refuse_view(self, name: Identifier) -> None:
        """Raise `TableAlreadyExists` if a view has the name: a view and a table cannot share a name.

        Later releases of the reference store views in the same database.
        """
        try:
            with self._open_session() as session:
                rows = session.query(
                    f"SELECT view_name FROM paimon_views {_OF_DATABASE} AND view_name = ?",
                    self.catalog_key,
                    name.database,
                    name.table,
                )
        except MissingDatabaseTable:
            return
        if rows:
            raise TableAlreadyExists(
                f"{name.full} is a view in {self.address}; a table and a view do not share a name",
                name=name.full,
            )

    @contextmanager
    def _open_session(self) -> Iterator[JdbcSession]:
        with self.sql_database.session() as session:
            if not self._ready:
                self._create_catalog_tables(session)
                self._ready.append(True)
            yield session

    def _create_catalog_tables(self, session: JdbcSession) -> None:
        """Create the catalog's tables that are missing; other processes may do so at the same time."""
        for table, statement in _CREATE_STATEMENTS.items():
            if (table != _LOCKS_TABLE or self.is_locking) and not _has_table(session, table):
                text = statement.format(lock_id_length=self.lock_id_length)
                is_there = partial(_has_table, session, table)
                create_if_missing(partial(session.execute, text), is_there)

    def copy_table_options(self, database: str, table: str, schema: TableSchema) -> None:
        """Copy a table's options, and its keys, into the database."""
        keys = {
            "primary-key": schema.primary_keys,
            "partition": schema.partition_keys,
            "bucket-key": schema.bucket_keys,
        }
        wanted = {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}
        copied = {key: value for key, value in wanted.items() if len(key) <= 255 and len(value) <= _MAX_VALUE_LENGTH}
        if copied != wanted:
            warn_user(
                f"{database}.{table}: {', '.join(sorted({*wanted} - {*copied}))[:200]} is too long for {self.address}, "
                "which keeps a copy of options"
            )

        def replace() -> None:
            with self._open_session() as session, session.transaction():
                session.execute(f"DELETE FROM paimon_table_properties {_OF_TABLE}", self.catalog_key, database, table)
                for key, value in copied.items():
                    session.execute(_ADD_OPTION, self.catalog_key, database, table, key, value)

        retry_while_busy(replace, REAL_RUNTIME.wait_ms)

    def lock(self, database: str, table: str) -> JdbcLock:
        """Return the lock of a table; for a branch other than main, the branch name follows the name in `table`."""
        with self._open_session():  # the lock's own table is there from now on
            pass
        return JdbcLock(
            database=self.sql_database,
            lock_id=f"{self.catalog_key}.{database}.{table}",
            timeout_ms=self.timeout_ms,
            max_sleep_ms=self.max_sleep_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcEnvironment:
    """One table of a catalog."""

    catalog: JdbcMetastore
    database: str
    table: str

    def lock(self, branch: str) -> AbstractContextManager[HeldLock]:
        """Hold the table's lock if the catalog's options enable locks."""
        if not self.catalog.is_locking:
            return nullcontext(NoLock())
        return self.catalog.lock(
            self.database, self.table if branch == MAIN_BRANCH else f"{self.table}$branch_{branch}"
        ).hold()

    def schema_changed(self, schema: TableSchema) -> None:
        """Copy options into the database.

        A failure causes a warning, since the table itself has changed already.
        """
        if self.catalog.copies_options:
            try:
                self.catalog.copy_table_options(self.database, self.table, schema)
            except StorageFailed as failed:
                warn_user(
                    f"{self.database}.{self.table} has its new schema, but the catalog's copy of its options could "
                    f"not be renewed: {failed.message}"
                )


def _check_lengths(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if len(name) > 255 or len(value) > _MAX_VALUE_LENGTH:
            raise InvalidOption(
                f"property {name[:80]!a} is longer than 255 characters, or its value than {_MAX_VALUE_LENGTH}: the "
                "catalog cannot hold it",
                key=name[:80],
                value=None,
            )


def _identifier_taken(location: str, name: Identifier) -> TableAlreadyExists:
    return TableAlreadyExists(
        f"{location} has a row for {name.full} already, perhaps spelt with other cases; choose another name",
        name=name.full,
    )


def _has_table(session: JdbcSession, table: str) -> bool:
    try:
        session.query(f"SELECT 1 FROM {table} WHERE 1 = 0")
    except MissingDatabaseTable:
        return False
    return True


def _normalize_location(path: str) -> str:
    return path.rstrip("/").removeprefix("file:").replace("//", "/")
