"""Names in a catalog, taken apart.

    shop.orders                        a table
    shop.orders$branch_dev             its branch dev
    shop.orders$files                  its system table files
    shop.orders$branch_dev$snapshots   the system table of its branch

Source: FORMAT.md 1.2, `Identifier`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakekit.errors import TableNotFound
from lakekit.model.layout import is_plain

_BRANCH = "branch_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The parts of a name; `branch` None is the main branch, `system` None the table itself."""

    database: str
    table: str
    branch: str | None = None
    system: str | None = None

    @property
    def full(self) -> str:
        """`database.table`, without branch or system table."""
        return f"{self.database}.{self.table}"


def parse(text: str) -> Name:
    """The parts of a table's name in a catalog. Raises `TableNotFound` for a text that can name none."""
    database, dot, rest = text.partition(".")
    if not dot or not database or not rest:
        raise TableNotFound(f'{text[:200]!a} is no name of a table: a catalog calls them "database.table", such as "shop.orders"', name=text)
    table, *more = rest.split("$")
    if not is_plain(database) or not is_plain(table) or "." in table or len(more) > 2 or not all(more):
        raise TableNotFound(f'{text[:200]!a} is no name of a table: there are "db.t", "db.t$files", "db.t$branch_dev" and "db.t$branch_dev$files"', name=text)
    branch = more.pop(0).removeprefix(_BRANCH) if more and more[0].startswith(_BRANCH) else None
    if len(more) > 1 or branch == "":
        raise TableNotFound(f'{text[:200]!a} is no name of a table: a branch comes before a system table, as in "db.t$branch_dev$files"', name=text)
    return Name(database=database, table=table, branch=branch, system=more[0] if more else None)
