"""The class `Table`."""

from __future__ import annotations

from dataclasses import dataclass

from lakekit.table.maintenance_methods import Caring, Expiring, Tagging
from lakekit.table.read_methods import Looking, Reading
from lakekit.table.write_methods import Altering, Changing, Writing


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Table(Reading, Writing, Changing, Looking, Altering, Caring, Tagging, Expiring):
    """A Paimon table: a name, a location and dynamic options.

    Immutable, hashable, picklable, shared freely by threads. Nothing in it is stale: `schema` and `scan()` read the
    newest schema and snapshot. Its repr shows what was last seen, without reading again.
    """
