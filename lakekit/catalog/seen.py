"""The state of a catalog object between two calls: nothing that could go stale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit.catalog.metastore import Metastore
    from lakekit.catalog.views import View


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
