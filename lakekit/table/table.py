"""A table: what a user holds."""

from __future__ import annotations

from dataclasses import dataclass

from lakekit.table.looking import Looking
from lakekit.table.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Table(Reading, Looking):
    """A Paimon table: a name, a location and dynamic options. Immutable, hashable, picklable, shared freely by threads.

    Nothing in it is stale: `schema` and `scan()` ask for the newest schema and snapshot. Its card shows what was last seen, without looking again.
    """
