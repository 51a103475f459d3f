"""`lk.connect`: a catalog by its settings, not yet read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit import plugins, storage as storages
from lakekit.catalog.catalog import Catalog
from lakekit.catalog.catalog_core import options_to_texts
from lakekit.errors import InvalidOption
from lakekit.options.features import find_feature, make_refusal
from lakekit.options.option import SecretOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.storage import PathLike

_DEFAULT_METASTORE = "filesystem"


def connect(
    warehouse: str | PathLike | None = None,
    *,
    metastore: str = _DEFAULT_METASTORE,
    uri: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Catalog:
    """Return a catalog: the tables of a warehouse by name. Reads nothing.

    `metastore` "filesystem" stores everything in folders; "jdbc" stores names in a database, at a `uri` such as
    "sqlite:///catalog.db", "postgresql://host/db", "mysql://host/db" or Java's "jdbc:…" forms; "hive" stores them in a
    Hive metastore, at "thrift://host:9083", which may know the warehouse itself. `options` are catalog options as
    Java's catalogs spell them, `metastore`, `uri` and `warehouse` among them; `storage_options` are for the storage.
    Secrets appear in no repr.

    Raises: `Unsupported`, `InvalidOption`.
    """
    settings = options_to_texts(options)
    named = settings.pop("metastore", None)
    kind = (named if named is not None and metastore == _DEFAULT_METASTORE else metastore).strip().lower()
    uri = _resolve_argument("uri", uri, settings.pop("uri", None))
    location = _resolve_argument("warehouse", warehouse, settings.pop("warehouse", None))
    if named is not None and named.strip().lower() != kind:
        raise InvalidOption(
            f"metastore is {kind!r}, and {named!r} in options; give it once", key="metastore", value=named
        )
    if kind != _DEFAULT_METASTORE and kind not in (metastores := plugins.names("catalog/metastores")):
        if find_feature(f"catalog.{kind}") is None:
            raise InvalidOption(
                f"no metastore is called {kind[:200]!a}; lakekit knows {', '.join(metastores)}",
                key="metastore",
                value=kind,
            )
        raise make_refusal(
            f"catalog.{kind}",
            "this catalog",
            alternative='Tables that lie in folders open by path: lk.open("warehouse/shop.db/orders")',
        )
    if kind == _DEFAULT_METASTORE and uri is not None:
        raise InvalidOption(
            "a warehouse that is a folder has no uri; give its path as warehouse", key="uri", value=None
        )
    if location is None and kind != "hive":
        raise InvalidOption(
            f"metastore {kind} needs a warehouse: the folder that holds the databases", key="warehouse", value=None
        )
    if kind != _DEFAULT_METASTORE and uri is None:
        raise InvalidOption(f"metastore {kind} needs an uri: where to find it", key="uri", value=None)
    root = "" if location is None else storages.open(location, storage_options)[1]
    secrets = None if storage_options is None else SecretOptions(storage_options)
    return Catalog(warehouse=root, metastore=kind, uri=uri, options=SecretOptions(settings), storage_options=secrets)


def _resolve_argument(key: str, argument: Any, option: str | None) -> Any:
    """Return an argument that may be given among the options instead."""
    if argument is not None and option is not None and str(argument) != option:
        raise InvalidOption(
            f"{key} is given twice, as an argument and, differently, in options; give it once", key=key, value=None
        )
    return option if argument is None else argument
