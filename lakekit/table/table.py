"""The class `Table`."""

from __future__ import annotations

from dataclasses import dataclass

from lakekit.table.inspect_methods import InspectMethods
from lakekit.table.maintenance_methods import MaintenanceMethods
from lakekit.table.read_methods import ReadMethods
from lakekit.table.ref_methods import RefMethods
from lakekit.table.schema import SchemaMethods
from lakekit.table.write_methods import WriteMethods


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Table(ReadMethods, WriteMethods, SchemaMethods, MaintenanceMethods, RefMethods, InspectMethods):
    """A Paimon table: a name, a location and dynamic options.

    Immutable, hashable, picklable, shared freely by threads. Nothing in it is stale: `schema` and `scan()` read the
    newest schema and snapshot. Its repr shows what was last seen, without reading again.
    """
