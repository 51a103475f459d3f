"""The state that the methods of a catalog share: warehouse, options, metastore, opening of tables.

Options are spelled as in Java's catalogs: `lk.connect(…, options={"lock.enabled": True})`.

    table-default.<option>                              set in every table that is created without the option
    lock.enabled, lock.type                             claim schemas and snapshots under the catalog's lock
    lock-acquire-timeout, lock-check-max-sleep          8 min, 8 s
    catalog-key, lock-key-max-length                    the key of this catalog's rows; the width of the lock table
    jdbc.user, jdbc.password, jdbc.<driver's own>       how to connect to the database
    sync-all-properties                                 store a copy of a table's options in the catalog
    metastore, uri, warehouse                           as the arguments of that name
    lakekit.allowed-locations                           folders and URLs outside their own that the tables may use
                                                        (`model.table_paths`)
    lakekit.sql-memory, lakekit.sql-timeout             what a query may take: 60 % of the machine's memory, 1 h

Source: ENGINE.md 9.1, 9.3; `CatalogOptions`, `JdbcCatalogOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from lakekit import draw, plugins, runtime, storage as storages, table
from lakekit.catalog.metastore import missing_database
from lakekit.errors import InvalidOption
from lakekit.model.table_paths import ALLOWED_LOCATIONS, Locations, named_locations
from lakekit.options.option import EMPTY, FrozenDict, Option, read_boolean, read_duration, read_integer, read_size
from lakekit.options.redaction import redact_uri
from lakekit.storage.local import LocalStorage
from lakekit.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.catalog.identifier import Identifier
    from lakekit.catalog.metastore import Metastore
    from lakekit.catalog.views import View
    from lakekit.storage.protocol import Storage
    from lakekit.table import Table


TABLE_DEFAULT_PREFIX = "table-default."
SQL_MEMORY, SQL_TIMEOUT = "lakekit.sql-memory", "lakekit.sql-timeout"
DRIVER_PREFIX = "jdbc."


def _option(key: str, kind: str, read: Any, default: str | None) -> Option:
    return Option(key=key, type=kind, parse=read, default=default, description="")


_CATALOG_OPTIONS = {
    one.key: one
    for one in (
        _option("lock.enabled", "boolean", read_boolean, None),
        _option("lock.type", "text", str, None),
        _option("lock-acquire-timeout", "duration", read_duration, "8 min"),
        _option("lock-check-max-sleep", "duration", read_duration, "8 s"),
        _option("lock-key-max-length", "integer", read_integer, "255"),
        _option("catalog-key", "text", str, "jdbc"),
        _option("sync-all-properties", "boolean", read_boolean, "true"),
        _option("format-table.enabled", "boolean", read_boolean, "true"),
        _option("metastore.partitioned-table", "boolean", read_boolean, "false"),
        _option("table.type", "text", str, "managed"),
        _option("location-in-properties", "boolean", read_boolean, "false"),
        _option(SQL_MEMORY, "size", read_size, None),
        _option(SQL_TIMEOUT, "duration", read_duration, "1 h"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """The settings that open a metastore.

    `warehouse` is a path of `storage`; `options` are texts, and may hold secrets.
    """

    warehouse: str
    storage: Storage
    uri: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default=EMPTY, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def of(self, key: str) -> Any:
        """Return the value of an option, or its default. Raises `InvalidOption`."""
        return option_value(self.options, key)

    @property
    def lock_enabled(self) -> bool:
        """Whether schemas and snapshots are claimed under a lock.

        By default where the storage is no file system.
        """
        value = self.of("lock.enabled")
        return not isinstance(self.storage, (LocalStorage, MemoryStorage)) if value is None else bool(value)

    @property
    def table_defaults(self) -> dict[str, str]:
        """Options of new tables that do not give them."""
        return {
            key.removeprefix(TABLE_DEFAULT_PREFIX): value
            for key, value in self.options.items()
            if key.startswith(TABLE_DEFAULT_PREFIX)
        }

    @property
    def driver_options(self) -> dict[str, str]:
        """What the driver of a database is handed, without its prefix."""
        return {
            key.removeprefix(DRIVER_PREFIX): value
            for key, value in self.options.items()
            if key.startswith(DRIVER_PREFIX)
        }


def option_value(options: Mapping[str, str], key: str) -> Any:
    """Return the value of an option of a catalog, or its default. Raises `InvalidOption`."""
    option = _CATALOG_OPTIONS[key]
    return option.parse_value(options[key]) if key in options else option.default_value


def options_to_texts(options: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return options as texts; None leaves one out.

    Raises: `InvalidOption` for a value that is no text, number or bool, and for an invalid value of a known option.
    """
    result: dict[str, str] = {}
    for key, value in (options or {}).items():
        if value is None:
            continue
        if not isinstance(key, str) or not isinstance(value, (str, bool, int, float)):
            raise InvalidOption(
                f"catalog option {key!r} is a {type(value).__name__}; give a text, a number or True or False",
                key=str(key),
                value=None,
            )
        result[key] = str(value).lower() if isinstance(value, bool) else str(value)
        if key in _CATALOG_OPTIONS:
            _CATALOG_OPTIONS[key].parse_value(result[key])
    named_locations({ALLOWED_LOCATIONS: result.get(ALLOWED_LOCATIONS)})
    return result


def catalog_locations(warehouse: str, options: Mapping[str, str], made_with: tuple[str, ...]) -> Locations:
    """Return the locations that a catalog allows a table.

    `made_with`: the locations in the call that made the table.
    """
    defaults = {
        key.removeprefix(TABLE_DEFAULT_PREFIX): value
        for key, value in options.items()
        if key.startswith(TABLE_DEFAULT_PREFIX)
    }
    locations = Locations(configured_locations=made_with, warehouse=warehouse or None)
    return locations.with_configured({ALLOWED_LOCATIONS: options.get(ALLOWED_LOCATIONS)}).with_configured(defaults)


# ---- catalog core ------------------------------------------------------------


@dataclass(slots=True)
class CatalogCache:
    """The state of one catalog object; neither copied nor pickled with it.

    `databases` were listed last, for the repr. `metastore` is open after its first use. `views` are the temporary
    views, by name. `allowed_locations` are the locations in the calls which made tables, by the table's name: allowed
    by the caller, for as long as the object lives. `session` is that of `cat.sql`.
    """

    databases: list[str] | None = None
    metastore: Metastore | None = None
    views: dict[str, View] = field(default_factory=dict)
    allowed_locations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    session: Any = None
    """The `lakekit.catalog.session.Session` of `cat.sql`; None until its first statement."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogCore:
    """The settings of a catalog, and what it has seen of its metastore."""

    warehouse: str
    metastore: str = "filesystem"
    uri: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default=EMPTY, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    storage: Storage | None = field(default=None, repr=False)
    _cache: CatalogCache = field(default_factory=CatalogCache, repr=False, compare=False)

    def _card_facts(self) -> list[tuple[str, Any]]:
        seen = self._cache.databases
        databases = [] if seen is None else [("databases", ", ".join(seen) or "none")]
        uri = [] if self.uri is None else [("uri", redact_uri(self.uri))]
        return [
            ("warehouse", self.warehouse or "as the metastore says"),
            ("metastore", self.metastore),
            *uri,
            *databases,
        ]

    def __repr__(self) -> str:
        return draw.cards.card_text("Catalog", self._card_facts())

    def _repr_html_(self) -> str:
        return draw.cards.html_card("Catalog", self._card_facts())

    def _settings(self) -> CatalogOptions:
        runtime.refuse_fork()
        if self.storage is None:
            storage, root = storages.open(self.warehouse or "/", self.storage_options)
        else:
            storage, root = storages.confine(self.storage, self.warehouse or "/"), self.warehouse
        return CatalogOptions(
            warehouse=root if self.warehouse else "",
            storage=storage,
            uri=self.uri,
            options=self.options,
            storage_options=self.storage_options,
        )

    def _names(self) -> Metastore:
        runtime.refuse_fork()
        if self._cache.metastore is None:
            self._cache.metastore = cast(
                "Metastore", plugins.load("catalog/metastores", self.metastore).open(self._settings())
            )
        return self._cache.metastore

    def _metastore_of(self, database: str) -> Metastore:
        """Return the metastore, where it has such a database. Raises `DatabaseNotFound`."""
        metastore = self._names()
        if not metastore.has_database(database):
            raise missing_database(metastore.address, database, metastore.databases())
        return metastore

    def _table(
        self,
        metastore: Metastore,
        name: Identifier,
        dynamic: FrozenDict[str, Any] = EMPTY,
        made_with: Mapping[str, Any] | None = None,
    ) -> Table:
        ground = metastore.locate(name)
        if made_with:
            self._cache.allowed_locations[name.full] = named_locations(made_with)
        return table.Table(
            location=ground.paths.root,
            name=name.full,
            branch_name=name.branch,
            dynamic=dynamic,
            storage_options=self.storage_options,
            storage=self.storage,
            catalog_env=ground.catalog_env,
            locations=catalog_locations(self.warehouse, self.options, self._cache.allowed_locations.get(name.full, ())),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in ("warehouse", "metastore", "uri", "options", "storage_options", "storage")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_cache", CatalogCache())
