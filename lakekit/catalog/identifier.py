"""Names in a catalog, taken apart.

    shop.orders                        a table
    shop.orders$branch_dev             its branch dev
    shop.orders$files                  its system table files
    shop.orders$branch_dev$snapshots   the system table of its branch
    sys.tables                         a table of the catalog itself

Source: FORMAT.md 1.2, ENGINE.md 9.1, `Identifier`, `CatalogUtils`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakekit.errors import InvalidOption, TableNotFound
from lakekit.model.table_paths import is_plain

SYSTEM = "sys"
"""The database of the catalog's own tables."""
_BRANCH = "branch_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier:
    """The parts of a name; `branch` None is the main branch, `system` None the table itself."""

    database: str
    table: str
    branch: str | None = None
    system: str | None = None

    @property
    def full(self) -> str:
        """`database.table`, without branch or system table."""
        return f"{self.database}.{self.table}"


def is_database(name: str) -> bool:
    """Return whether the name of a table can begin with that name of a database, whoever says it: a caller, a folder or a metastore."""
    return is_plain(name) and "." not in name


def is_table(name: str) -> bool:
    """Return whether that is a table's name within its database, without a branch or a system table, whoever says it."""
    return is_plain(name) and "." not in name and "$" not in name


def parse(text: str) -> Identifier:
    """The parts of a table's name in a catalog. Raises `TableNotFound` for a text that can name none, `TypeError` for what is no text."""
    if not isinstance(text, str):
        msg = f'a table of a catalog is named by one text, "database.table"; found {text!r}, a {type(text).__name__}'
        raise TypeError(msg)
    database, dot, rest = text.partition(".")
    if not dot or not database or not rest:
        raise TableNotFound(f'{text[:200]!a} is no name of a table: a catalog calls them "database.table", such as "shop.orders"', name=text)
    table, *more = rest.split("$")
    if not is_database(database) or not is_table(table) or len(more) > 2 or not all(more):
        raise TableNotFound(f'{text[:200]!a} is no name of a table: there are "db.t", "db.t$files", "db.t$branch_dev" and "db.t$branch_dev$files"', name=text)
    branch = more.pop(0).removeprefix(_BRANCH) if more and more[0].startswith(_BRANCH) else None
    if len(more) > 1 or branch == "":
        raise TableNotFound(f'{text[:200]!a} is no name of a table: a branch comes before a system table, as in "db.t$branch_dev$files"', name=text)
    return Identifier(database=database, table=table, branch=branch, system=more[0] if more else None)


def data_table(text: str, verb: str) -> Identifier:
    """The parts of the name of a table with rows of its own, for what `verb` does to it. Raises `InvalidOption` for branches and system tables."""
    found = parse(text)
    if found.system is not None or found.database == SYSTEM:
        raise InvalidOption(f"Cannot '{verb}' for system table '{text[:200]}', please use data table: the others come with it", key="name", value=text)
    if found.branch is not None:
        raise InvalidOption(
            f"Cannot '{verb}' for branch table '{text[:200]}', please modify the table with the default branch: {found.full!r}",
            key="name",
            value=text,
        )
    return found


def new_table(text: str, verb: str) -> Identifier:
    """The parts of a name that a table is to get. Raises `InvalidOption` for one that could not be asked for again."""
    try:
        found = data_table(text, verb)
    except TableNotFound as wrong:
        raise InvalidOption(wrong.message, key="name", value=text) from None
    return _check_blanks(found, text)


def _check_blanks(found: Identifier, text: str) -> Identifier:
    for part in (found.database, found.table):
        if part != part.strip():
            raise InvalidOption(f"{text[:200]!a} begins or ends with a blank, which some databases do not tell apart; leave it out", key="name", value=text)
    return found


def database(text: str) -> str:
    """The name of a database that is to be made or changed. Raises `InvalidOption` for one that no table's name could begin with."""
    if text == SYSTEM:
        raise InvalidOption("Can't do operation on system database. sys holds the catalog's own tables; choose another name", key="name", value=text)
    if not is_plain(text) or "." in text or "$" in text or text != text.strip():
        raise InvalidOption(
            f"{text[:200]!a} is no name of a database: dots, dollars, slashes, control characters and blanks at its ends are not for names",
            key="name",
            value=text,
        )
    return text
