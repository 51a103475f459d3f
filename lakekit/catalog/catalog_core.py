"""What every method of a catalog starts from: its warehouse, its options, its metastore, and how it opens a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from lakekit import plugins, runtime, storage as storages
from lakekit.catalog.jdbc_session import redact_uri
from lakekit.catalog.metastore import missing_database
from lakekit.catalog.options import CatalogOptions, locations_of
from lakekit.draw import cards
from lakekit.model.table_paths import named_locations
from lakekit.options.option import EMPTY, FrozenDict
from lakekit.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.catalog.identifier import Identifier
    from lakekit.catalog.metastore import Metastore
    from lakekit.catalog.views import View
    from lakekit.storage.protocol import Storage


@dataclass(slots=True)
class CatalogCache:
    """The state of one catalog object; neither copied nor pickled with it.

    `databases` were listed last, for the repr. `metastore` is open after its first use. `views` are the temporary
    views, by name. `named` are the locations in the calls which made tables, by the table's name: allowed by the
    caller, for as long as the object lives.
    """

    databases: list[str] | None = None
    metastore: Metastore | None = None
    views: dict[str, View] = field(default_factory=dict)
    named: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogCore:
    """The settings of a catalog, and what it has seen of its metastore."""

    warehouse: str
    metastore: str = "filesystem"
    uri: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default=EMPTY, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    storage: Storage | None = field(default=None, repr=False)
    _seen: CatalogCache = field(default_factory=CatalogCache, repr=False, compare=False)

    def _facts(self) -> list[tuple[str, Any]]:
        seen = self._seen.databases
        databases = [] if seen is None else [("databases", ", ".join(seen) or "none")]
        uri = [] if self.uri is None else [("uri", redact_uri(self.uri))]
        return [
            ("warehouse", self.warehouse or "as the metastore says"),
            ("metastore", self.metastore),
            *uri,
            *databases,
        ]

    def __repr__(self) -> str:
        return cards.card("Catalog", self._facts())

    def _repr_html_(self) -> str:
        return cards.html_card("Catalog", self._facts())

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
        if self._seen.metastore is None:
            self._seen.metastore = cast(
                "Metastore", plugins.load("catalog/metastores", self.metastore).open(self._settings())
            )
        return self._seen.metastore

    def _metastore_of(self, database: str) -> Metastore:
        """Return the metastore, where it has such a database. Raises `DatabaseNotFound`."""
        metastore = self._names()
        if not metastore.has_database(database):
            raise missing_database(metastore.where, database, metastore.databases())
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
            self._seen.named[name.full] = named_locations(made_with)
        return Table(
            location=ground.layout.root,
            name=name.full,
            branch_name=name.branch,
            dynamic=dynamic,
            storage_options=self.storage_options,
            storage=self.storage,
            catalog_env=ground.catalog_env,
            locations=locations_of(self.warehouse, self.options, self._seen.named.get(name.full, ())),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in ("warehouse", "metastore", "uri", "options", "storage_options", "storage")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_seen", CatalogCache())
