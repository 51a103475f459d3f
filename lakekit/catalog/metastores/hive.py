"""`metastore=hive`: names in a Hive metastore, which Hive, Spark and Java's Hive catalog share.

The schema files define a table, and its entry is a copy for other engines. A table is made in this order: its schema,
then its entry; it is dropped in the reverse order. Hive knows names in lower case only. Partitions are not registered:
tables whose partitions the metastore stores (`metastore.partitioned-table`) can be read, and a write raises
`Unsupported` with the table's name.

Source: ENGINE.md 9.4; `HiveCatalog`, `HiveCatalog.newHmsTable`, `HiveCatalogLock`.
"""

from __future__ import annotations

import getpass
import socket
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakekit import storage as storages
from lakekit.catalog import identifier, metastore as warehouse
from lakekit.catalog.hive_client import HiveRefusal, hive_type, open_client, parse_metastore_uris
from lakekit.catalog.identifier import Identifier
from lakekit.catalog.metastore import build_path
from lakekit.errors import (
    DatabaseAlreadyExists,
    InvalidOption,
    LakekitError,
    LockLost,
    RetriesExhausted,
    StorageFailed,
    TableAlreadyExists,
    Unsupported,
)
from lakekit.metadata import schemas
from lakekit.metadata.table_context import NoLock, TableLocation
from lakekit.model.table_paths import TablePaths, is_plain_name
from lakekit.options.redaction import redact_uri
from lakekit.runtime import REAL_RUNTIME, warn_user
from lakekit.storage import protocol
from lakekit.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from lakekit.catalog.catalog_core import CatalogOptions
    from lakekit.catalog.hive_client import HiveClient
    from lakekit.catalog.metastore import Define
    from lakekit.metadata.table_context import HeldLock
    from lakekit.model.table_schema import TableSchema
    from lakekit.runtime import Runtime
    from lakekit.storage.protocol import Storage

    Entry = dict[str, Any]
    """A table as the metastore has it."""


INPUT_FORMAT, OUTPUT_FORMAT = (
    "org.apache.paimon.hive.mapred.PaimonInputFormat",
    "org.apache.paimon.hive.mapred.PaimonOutputFormat",
)
_SERDE_CLASS, _STORAGE_HANDLER = "org.apache.paimon.hive.PaimonSerDe", "org.apache.paimon.hive.PaimonStorageHandler"
_MAX_RETENTION = 2**31 - 1


def is_paimon_entry(entry: Entry) -> bool:
    """Return whether an entry is that of a Paimon table, by its input and output formats."""
    stored = entry.get("sd", {})
    return (stored.get("inputFormat"), stored.get("outputFormat")) == (INPUT_FORMAT, OUTPUT_FORMAT)


def is_external_entry(entry: Entry) -> bool:
    """Return whether the table's files outlive its entry."""
    return bool(entry.get("tableType") == "EXTERNAL_TABLE")


def new_entry(
    database: str,
    table: str,
    schema: TableSchema,
    location: str,
    *,
    now_ms: int,
    is_external: bool,
    copies_options: bool,
) -> Entry:
    """Return the entry of a new table."""
    options = (
        schema.options
        if copies_options
        else {key: value for key, value in schema.options.items() if key.startswith("hive.")}
    )
    parameters = {
        **options,
        **(_key_properties(schema) if copies_options else {}),
        "table_type": "PAIMON",
        "storage_handler": _STORAGE_HANDLER,
    }
    if schema.comment is not None:
        parameters["comment"] = schema.comment
    if is_external:
        parameters["EXTERNAL"] = "TRUE"
    entry: Entry = {
        "tableName": table,
        "dbName": database,
        "owner": getpass.getuser(),
        "createTime": now_ms // 1000,
        "lastAccessTime": now_ms // 1000,
        "retention": _MAX_RETENTION,
        "partitionKeys": [],
        "parameters": parameters,
        "tableType": "EXTERNAL_TABLE" if is_external else "MANAGED_TABLE",
        "sd": {
            "location": location,
            "compressed": False,
            "numBuckets": 0,
            "bucketCols": [],
            "sortCols": [],
            "parameters": {},
        },
    }
    return _set_columns(entry, schema)


def update_entry(entry: Entry, schema: TableSchema, removed_options: Iterable[str], *, copies_options: bool) -> Entry:
    """Return the entry after the table's schema changed; parameters of other engines stay."""
    options = (
        schema.options
        if copies_options
        else {key: value for key, value in schema.options.items() if key.startswith("hive.")}
    )
    removed_keys = set(removed_options)
    parameters = {
        key: value
        for key, value in {
            **entry.get("parameters", {}),
            **options,
            **(_key_properties(schema) if copies_options else {}),
        }.items()
        if key not in removed_keys
    }
    if schema.comment is not None:
        parameters["comment"] = schema.comment
    return _set_columns({**entry, "parameters": parameters}, schema)


def _set_columns(entry: Entry, schema: TableSchema) -> Entry:
    columns = [{"name": field.name, "type": hive_type(field.type), "comment": field.comment} for field in schema.fields]
    serde = {**entry["sd"].get("serdeInfo", {}), "serializationLib": _SERDE_CLASS, "parameters": {}}
    return {
        **entry,
        "sd": {
            **entry["sd"],
            "cols": columns,
            "inputFormat": INPUT_FORMAT,
            "outputFormat": OUTPUT_FORMAT,
            "serdeInfo": serde,
        },
    }


def _key_properties(schema: TableSchema) -> Mapping[str, str]:
    keys = {"primary-key": schema.primary_keys, "partition": schema.partition_keys, "bucket-key": schema.bucket_keys}
    return {key: ",".join(names) for key, names in keys.items() if names}


# ---- the metastore ---------------------------------------------------


_EXCLUSIVE_LOCK, _TABLE_LEVEL = 3, 2
_LOCK_ACQUIRED, _LOCK_WAITING = 1, 2
_DATABASE_FIELDS = {"comment": "description", "owner": "ownerName", "location": "locationUri"}
"""Properties of a database that have a place of their own."""
_TABLES_PER_CALL = 300
_LOCK_HOLD_MS = 240_000
"""Hive forgets a lock after five minutes without a sign of life."""


def open(settings: CatalogOptions) -> HiveMetastore:  # noqa: A001 - every metastore's
    """Return the catalog of a Hive metastore. Raises `InvalidOption`, `Unsupported`."""
    kind = settings.of("lock.type")
    if kind not in (None, "hive"):
        raise Unsupported(
            f"lock.type={kind!r} is no lock of metastore=hive, which keeps its own; leave lock.type out",
            feature="option.lock.type",
        )
    if settings.of("location-in-properties"):
        raise Unsupported(
            "location-in-properties=true keeps places where lakekit does not look for them", feature="catalog.hive"
        )
    parse_metastore_uris(settings.uri or "")
    return HiveMetastore(settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveMetastore:
    """Databases and tables of a metastore."""

    settings: CatalogOptions = field(repr=False)

    @property
    def address(self) -> str:
        return redact_uri(self.settings.uri or "")

    def _connect(self) -> AbstractContextManager[HiveClient]:
        return open_client(self.settings.uri or "")

    # ---- databases -------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        with self._connect() as client:
            return sorted(filter(identifier.is_database_name, client.call_method("get_all_databases")))

    def has_database(self, database: str) -> bool:
        return self._find_database(database) is not None

    def has_linked_folder(self, database: str) -> bool:  # noqa: ARG002 - every table has a place of its own
        return False

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        _check_case(database)
        entry: dict[str, Any] = {
            "name": database,
            "parameters": {key: value for key, value in properties.items() if key not in _DATABASE_FIELDS},
        }
        entry |= {_DATABASE_FIELDS[key]: value for key, value in properties.items() if key in _DATABASE_FIELDS}
        if "locationUri" not in entry and self.settings.warehouse:
            entry["locationUri"] = _java_url(self.settings.storage, build_path(self.settings.warehouse, database))
        if "locationUri" in entry:
            protocol.make_folder(*storages.open(entry["locationUri"], self.settings.storage_options))
        try:
            with self._connect() as client:
                client.call_method("create_database", entry)
        except HiveRefusal as refused:
            if refused.exception_name != "AlreadyExistsException":
                raise
            raise DatabaseAlreadyExists(f"database {database} is in {self.address} already", name=database) from None

    def alter_database(self, database: str, properties: Mapping[str, str], remove: Iterable[str]) -> None:
        entry, removed = dict(self._find_database(database) or {}), list(remove)
        if "location" in properties or "location" in removed:
            raise InvalidOption(
                f"the location of database {database} says where its tables are: it cannot change",
                key="location",
                value=None,
            )
        parameters = {
            **entry.get("parameters", {}),
            **{key: value for key, value in properties.items() if key not in _DATABASE_FIELDS},
        }
        entry |= {
            _DATABASE_FIELDS[key]: properties.get(key, "")
            for key in _DATABASE_FIELDS
            if key in properties or key in removed
        }
        entry["parameters"] = {key: value for key, value in parameters.items() if key not in removed}
        with self._connect() as client:
            client.call_method("alter_database", database, entry)
            stored = client.call_method("get_database", database)
        if unchanged := sorted(
            key
            for key, name in _DATABASE_FIELDS.items()
            if (key in properties or key in removed) and (stored.get(name) or "") != entry[name]
        ):
            warn_user(
                f"the metastore {self.address} does not change {', '.join(unchanged)} of a database that is there"
            )

    def properties(self, database: str) -> dict[str, str]:
        entry = self._find_database(database) or {}
        return {
            **entry.get("parameters", {}),
            **{key: entry[name] for key, name in _DATABASE_FIELDS.items() if entry.get(name)},
        }

    def drop_database(self, database: str, *, cascade: bool) -> None:  # noqa: ARG002 - its tables are gone by now
        """Drop a database; the metastore refuses it if it has tables that are not Paimon's."""
        uri = (self._find_database(database) or {}).get("locationUri")
        with self._connect() as client:
            client.call_method("drop_database", database, False, False)
        if uri:
            storage, root = storages.open(uri, self.settings.storage_options)
            storage.remove_directories([root])

    def _find_database(self, database: str) -> dict[str, Any] | None:
        if not is_plain_name(database):
            return None
        try:
            with self._connect() as client:
                entry: dict[str, Any] = client.call_method("get_database", database)
        except HiveRefusal as refused:
            if refused.exception_name == "NoSuchObjectException":
                return None
            raise
        return entry if entry.get("name") == database else None

    # ---- tables ----------------------------------------------------------------------------------

    def tables(self, database: str) -> list[str]:
        with self._connect() as client:
            names = client.call_method("get_all_tables", database)
            parts = [
                client.call_method("get_table_objects_by_name", database, names[at : at + _TABLES_PER_CALL])
                for at in range(0, len(names), _TABLES_PER_CALL)
            ]
        return sorted(
            entry["tableName"]
            for part in parts
            for entry in part
            if is_paimon_entry(entry) and identifier.is_table_name(entry["tableName"])
        )

    def has_table(self, database: str, table: str) -> bool:
        entry = self.find_entry(database, table)
        return entry is not None and is_paimon_entry(entry)

    def find_entry(self, database: str, table: str) -> Entry | None:
        """Return the entry of a table of exactly that name."""
        if not is_plain_name(database) or not is_plain_name(table):
            return None
        try:
            with self._connect() as client:
                table_entry: Entry = client.call_method("get_table", database, table)
        except HiveRefusal as refused:
            if refused.exception_name == "NoSuchObjectException":
                return None
            raise
        return table_entry if (table_entry.get("dbName"), table_entry.get("tableName")) == (database, table) else None

    def locate(self, name: Identifier) -> TableLocation:
        entry = self.find_entry(name.database, name.table)
        uri = (entry or {}).get("sd", {}).get("location")
        if not uri:
            above = (self._find_database(name.database) or {}).get("locationUri") or build_path(
                self.settings.warehouse, name.database
            )
            uri = f"{above.rstrip('/')}/{name.table}"
        storage, root = storages.open(uri, self.settings.storage_options)
        environment = HiveEnvironment(
            catalog=self,
            database=name.database,
            table=name.table,
            has_metastore_partitions=bool((entry or {}).get("partitionKeys")),
        )
        return TableLocation(name=name.full, storage=storage, paths=TablePaths(root=root), catalog_env=environment)

    def create_table(self, name: Identifier, define: Define) -> None:
        _check_case(name.table)
        if self.find_entry(name.database, name.table) is not None:
            raise _make_not_paimon_error(name)
        ground = warehouse.widen_storage(self.locate(name), self._managed_folders(name.database))
        schema = define(ground)
        try:
            self._create_entry(name, ground, schema)
        except LakekitError:
            with suppress(LakekitError):
                if self.find_entry(name.database, name.table) is None:
                    ground.storage.delete([ground.paths.schema(0)])  # ours: it was made where none was
            raise

    def _create_entry(self, name: Identifier, target: TableLocation, schema: TableSchema) -> None:
        if any(
            schema.options.get(key, default).strip().lower() != default for key, default in _SUPPORTED_VALUES.items()
        ):
            raise Unsupported(
                f"{name.full} asks for partitions in the metastore, where lakekit registers none",
                feature="option.metastore.partitioned-table",
            )
        entry = new_entry(
            name.database,
            name.table,
            schema,
            _java_url(target.storage, target.paths.root),
            now_ms=REAL_RUNTIME.now_ms(),
            is_external=self.settings.of("table.type") == "external"
            or schema.options.get("external", "").lower() == "true",
            copies_options=self.settings.of("sync-all-properties"),
        )
        try:
            with self._connect() as client:
                client.call_method("create_table", entry)
        except HiveRefusal as refused:
            if refused.exception_name != "AlreadyExistsException":
                raise
            raise TableAlreadyExists(
                f"{name.full} is in {self.address} already, made at the same moment", name=name.full
            ) from None

    def list_in_warehouse(self, database: str | None = None) -> list[str]:
        if database is None:
            return (
                warehouse.list_databases(self.settings.storage, self.settings.warehouse)
                if self.settings.warehouse
                else self.databases()
            )
        uri = (self._find_database(database) or {}).get("locationUri") or build_path(self.settings.warehouse, database)
        return warehouse.list_tables(*storages.open(uri, self.settings.storage_options))

    def register(self, name: Identifier, schema: TableSchema) -> bool:
        entry, ground = self.find_entry(name.database, name.table), self.locate(name)
        if entry is None:
            _check_case(name.table)
            self._create_entry(name, ground, schema)
            return True
        if not is_paimon_entry(entry):
            raise _make_not_paimon_error(name)
        self.update_table_entry(name.database, name.table, schema, ())
        return False

    def drop_table(self, name: Identifier) -> None:
        entry, ground = self.find_entry(name.database, name.table), self.locate(name)
        with self._connect() as client:
            client.call_method("drop_table", name.database, name.table, False)
        if entry is None or not is_external_entry(entry):
            warehouse.delete_table_files(ground, self._managed_folders(name.database))

    def _managed_folders(self, database: str) -> list[str]:
        """Return the warehouse and the database's own folder: dropping an entry deletes a table's files below them."""
        uri = (self._find_database(database) or {}).get("locationUri")
        own = [storages.open(uri, self.settings.storage_options)[1]] if uri else []
        return [root for root in (self.settings.warehouse, *own) if root]

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Rename a table, and move its files unless the metastore has done so.

        The metastore moves the files of its own tables itself, where they lie in its default location.
        """
        _check_case(new.table)
        entry, source = self.find_entry(old.database, old.table), self.locate(old)
        if entry is None:
            raise StorageFailed(f"{old.full} went away from {self.address} at this moment", path=self.address)
        wanted = self.locate(new)
        if not is_external_entry(entry) and wanted.storage.stat(wanted.paths.root) is not None:
            raise StorageFailed(
                f'"{wanted.paths.root}" is there already, though no table is; move it away first',
                path=wanted.paths.root,
            )
        self._alter_table(old.database, old.table, {**entry, "dbName": new.database, "tableName": new.table})
        lies_here = any(warehouse.is_below(source.paths.root, folder) for folder in self._managed_folders(old.database))
        if is_external_entry(entry) or not lies_here or not schemas.list_ids(source):
            return
        above = wanted.paths.root.rpartition("/")[0]
        warehouse.move_table_folder(
            source,
            wanted.paths.root,
            [*self._managed_folders(old.database), *self._managed_folders(new.database), above],
        )
        moved = self.find_entry(new.database, new.table) or entry
        self._alter_table(
            new.database,
            new.table,
            {**moved, "sd": {**moved["sd"], "location": _java_url(wanted.storage, wanted.paths.root)}},
        )

    def _alter_table(self, database: str, table: str, entry: Entry) -> None:
        with self._connect() as client:
            client.call_method(
                "alter_table_with_environment_context", database, table, entry, {"properties": {"CASCADE": "true"}}
            )

    # ---- what a table's changes need -------------------------------------------------------------

    def update_table_entry(
        self, database: str, table: str, schema: TableSchema, removed_options: Iterable[str]
    ) -> None:
        """Update the entry of a table by its schema."""
        entry = self.find_entry(database, table)
        if entry is not None:
            self._alter_table(
                database,
                table,
                update_entry(entry, schema, removed_options, copies_options=self.settings.of("sync-all-properties")),
            )

    @contextmanager
    def lock(self, database: str, table: str, runtime: Runtime = REAL_RUNTIME) -> Iterator[HiveLock]:
        """Hold the metastore's exclusive lock of a table.

        Raises: `RetriesExhausted` if others hold it for too long.
        """
        patience, longest = self.settings.of("lock-acquire-timeout"), self.settings.of("lock-check-max-sleep")
        wanted = {"type": _EXCLUSIVE_LOCK, "level": _TABLE_LEVEL, "dbname": database, "tablename": table}
        request = {
            "component": [wanted],
            "user": getpass.getuser(),
            "hostname": socket.gethostname(),
            "agentInfo": "lakekit",
        }
        started, sleep = runtime.elapsed_ms(), 100
        with self._connect() as client:
            response = client.call_method("lock", request)
            number = {"lockid": response["lockid"]}
            try:
                while response["state"] == _LOCK_WAITING and runtime.elapsed_ms() - started < patience:
                    runtime.wait_ms(min(sleep, longest))
                    sleep *= 2
                    response = client.call_method("check_lock", number)
                if response["state"] != _LOCK_ACQUIRED:
                    waited = (runtime.elapsed_ms() - started) / 1000
                    raise RetriesExhausted(
                        f"Acquire lock failed for table {database}.{table} after {waited:.0f} s: others hold it. "
                        "Nothing was changed"
                    )
                yield HiveLock(name=f"{database}.{table}", held_since_ms=runtime.elapsed_ms(), runtime=runtime)
            finally:
                try:
                    client.call_method("unlock", number)
                except StorageFailed as failed:
                    warn_user(f"the lock of {database}.{table} could not be given back: {failed.message}")


_SUPPORTED_VALUES = {"metastore.partitioned-table": "false", "metastore.tag-to-partition": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveLock:
    """A lock that this process holds."""

    name: str
    held_since_ms: float
    runtime: Runtime

    def check_held(self) -> None:
        """Raise `LockLost` if the metastore may have dropped the lock."""
        spent = self.runtime.elapsed_ms() - self.held_since_ms
        if spent > _LOCK_HOLD_MS:
            raise LockLost(
                f"the lock of {self.name} was held for {spent / 1000:.0f} s, longer than a metastore remembers it. "
                "Nothing was changed; try again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveEnvironment:
    """One table of a metastore."""

    catalog: HiveMetastore
    database: str
    table: str
    has_metastore_partitions: bool = False

    def lock(self, branch: str) -> AbstractContextManager[HeldLock]:  # noqa: ARG002 - a metastore knows no branches
        """Hold the table's lock if the catalog's options enable locks.

        Raises: `Unsupported` for tables whose partitions the metastore stores.
        """
        if self.has_metastore_partitions:
            raise Unsupported(
                f"{self.database}.{self.table} keeps its partitions in the metastore, where lakekit registers none; "
                "write it with the Java engine",
                feature="option.metastore.partitioned-table",
            )
        return (
            self.catalog.lock(self.database, self.table)
            if self.catalog.settings.lock_enabled
            else nullcontext(NoLock())
        )

    def schema_changed(self, schema: TableSchema) -> None:
        """Renew the entry; a failure causes a warning, since the table itself has changed already."""
        try:
            ground = self.catalog.locate(Identifier(database=self.database, table=self.table))
            before = schemas.read_schema(ground, schema.id - 1).options if schema.id else {}
            self.catalog.update_table_entry(self.database, self.table, schema, set(before) - set(schema.options))
        except LakekitError as failed:
            warn_user(
                f"{self.database}.{self.table} has its new schema, but the metastore's copy could not be renewed: "
                f"{failed.message}"
            )


def _make_not_paimon_error(name: Identifier) -> TableAlreadyExists:
    return TableAlreadyExists(
        f"Table {name.full} already exists, but this table is not a paimon table. Choose another name",
        name=name.full,
    )


def _check_case(name: str) -> None:
    if name != name.lower():
        raise InvalidOption(f"{name!r} has capitals, and Hive knows names in lower case only", key="name", value=name)


def _java_url(storage: Storage, path: str) -> str:
    """Return a location as Java writes it."""
    return f"file:{path}" if isinstance(storage, LocalStorage) else path
