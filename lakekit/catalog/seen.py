"""What a catalog object remembers between two questions: nothing that could go stale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit.catalog.metastore import Metastore
    from lakekit.catalog.views import View


@dataclass(slots=True)
class CatalogCache:
    """What one catalog object has listed and was told; neither copied nor pickled with it.

    `databases` were listed last, for the card. `metastore` is open once it was asked. `views` are the temporary views, by name. `named` are
    the locations that the calls which made tables named, by the table's name: the caller's own word, for as long as the object lives.
    """

    databases: list[str] | None = None
    metastore: Metastore | None = None
    views: dict[str, View] = field(default_factory=dict)
    named: dict[str, tuple[str, ...]] = field(default_factory=dict)
