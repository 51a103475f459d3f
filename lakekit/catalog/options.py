"""The options of a catalog, as Java's catalogs spell them: `lk.connect(…, options={"lock.enabled": True})`.

    table-default.<option>                              set in every table that is created without the option
    lock.enabled, lock.type                             claim schemas and snapshots under the catalog's lock
    lock-acquire-timeout, lock-check-max-sleep          8 min, 8 s
    catalog-key, lock-key-max-length                    the key of this catalog's rows; the width of the lock table
    jdbc.user, jdbc.password, jdbc.<driver's own>       how to connect to the database
    sync-all-properties                                 store a copy of a table's options in the catalog
    metastore, uri, warehouse                           as the arguments of that name
    lakekit.allowed-locations                           folders and URLs outside their own that the tables may use
                                                        (`model.table_paths`)

Source: ENGINE.md 9.1, 9.3; `CatalogOptions`, `JdbcCatalogOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakekit.errors import InvalidOption
from lakekit.model.table_paths import ALLOWED_LOCATIONS, Locations, named_locations
from lakekit.options.option import EMPTY, Option, read_boolean, read_duration, read_integer
from lakekit.storage.local import LocalStorage
from lakekit.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.storage.protocol import Storage

TABLE_DEFAULT = "table-default."
DRIVER = "jdbc."


def _option(key: str, kind: str, read: Any, default: str | None) -> Option:
    return Option(key=key, type=kind, read=read, default=default, words="")


_OPTIONS = {
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
        option = _OPTIONS[key]
        return option.value(self.options[key]) if key in self.options else option.default_value

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
            key.removeprefix(TABLE_DEFAULT): value
            for key, value in self.options.items()
            if key.startswith(TABLE_DEFAULT)
        }

    @property
    def driver(self) -> dict[str, str]:
        """What the driver of a database is handed, without its prefix."""
        return {key.removeprefix(DRIVER): value for key, value in self.options.items() if key.startswith(DRIVER)}


def texts(options: Mapping[Any, Any] | None) -> dict[str, str]:
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
        if key in _OPTIONS:
            _OPTIONS[key].value(result[key])
    named_locations({ALLOWED_LOCATIONS: result.get(ALLOWED_LOCATIONS)})
    return result


def locations_of(warehouse: str, options: Mapping[str, str], made_with: tuple[str, ...]) -> Locations:
    """Return the locations that a catalog allows a table.

    `made_with`: the locations in the call that made the table.
    """
    defaults = {
        key.removeprefix(TABLE_DEFAULT): value for key, value in options.items() if key.startswith(TABLE_DEFAULT)
    }
    locations = Locations(configured=made_with, warehouse=warehouse or None)
    return locations.with_configured({ALLOWED_LOCATIONS: options.get(ALLOWED_LOCATIONS)}).with_configured(defaults)
