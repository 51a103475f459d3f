"""Parsing of the names in a catalog.

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
from lakekit.model.table_paths import is_plain_name

SYSTEM = "sys"
"""The database of the catalog's own tables."""
_BRANCH_PREFIX = "branch_"


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


def is_database_name(name: str) -> bool:
    """Return whether a text is a valid database name, with which a table's name can begin.

    The text may come from a caller, a folder or a metastore.
    """
    return is_plain_name(name) and "." not in name


def is_table_name(name: str) -> bool:
    """Return whether a text is a table's name within its database, without a branch or a system table.

    The text may come from a caller, a folder or a metastore.
    """
    return is_plain_name(name) and "." not in name and "$" not in name


def parse(text: str) -> Identifier:
    """Return the parts of a table's name in a catalog.

    Raises: `TableNotFound` for a text that can name none, `TypeError` for what is no text.
    """
    if not isinstance(text, str):
        msg = f'a table of a catalog is named by one text, "database.table"; found {text!r}, a {type(text).__name__}'
        raise TypeError(msg)
    database, dot, path = text.partition(".")
    if not dot or not database or not path:
        raise TableNotFound(
            f'{text[:200]!a} is no name of a table: a catalog calls them "database.table", such as "shop.orders"',
            name=text,
        )
    table, *more = path.split("$")
    if not is_database_name(database) or not is_table_name(table) or len(more) > 2 or not all(more):
        raise TableNotFound(
            f'{text[:200]!a} is no name of a table: there are "db.t", "db.t$files", "db.t$branch_dev" and '
            '"db.t$branch_dev$files"',
            name=text,
        )
    branch = more.pop(0).removeprefix(_BRANCH_PREFIX) if more and more[0].startswith(_BRANCH_PREFIX) else None
    if len(more) > 1 or branch == "":
        raise TableNotFound(
            f"{text[:200]!a} is no name of a table: a branch comes before a system table, as in "
            '"db.t$branch_dev$files"',
            name=text,
        )
    return Identifier(database=database, table=table, branch=branch, system=more[0] if more else None)


def data_table(text: str, verb: str) -> Identifier:
    """Return the parts of the name of a table with rows of its own, to which `verb` applies.

    Raises: `InvalidOption` for branches and system tables.
    """
    parsed = parse(text)
    if parsed.system is not None or parsed.database == SYSTEM:
        raise InvalidOption(
            f"Cannot '{verb}' for system table '{text[:200]}', please use data table: the others come with it",
            key="name",
            value=text,
        )
    if parsed.branch is not None:
        raise InvalidOption(
            f"Cannot '{verb}' for branch table '{text[:200]}', please modify the table with the default branch: "
            f"{parsed.full!r}",
            key="name",
            value=text,
        )
    return parsed


def new_table(text: str, verb: str) -> Identifier:
    """Return the parts of a new table's name.

    Raises: `InvalidOption` for a name by which the table could not be found again.
    """
    try:
        parsed = data_table(text, verb)
    except TableNotFound as wrong:
        raise InvalidOption(wrong.message, key="name", value=text) from None
    return _check_blanks(parsed, text)


def _check_blanks(identifier: Identifier, text: str) -> Identifier:
    for part in (identifier.database, identifier.table):
        if part != part.strip():
            raise InvalidOption(
                f"{text[:200]!a} begins or ends with a blank, which some databases do not tell apart; leave it out",
                key="name",
                value=text,
            )
    return identifier


def database(text: str) -> str:
    """Return the name of a database to make or change.

    Raises: `InvalidOption` for a name with which no table's name could begin.
    """
    if text == SYSTEM:
        raise InvalidOption(
            "Can't do operation on system database. sys holds the catalog's own tables; choose another name",
            key="name",
            value=text,
        )
    if not is_plain_name(text) or "." in text or "$" in text or text != text.strip():
        raise InvalidOption(
            f"{text[:200]!a} is no name of a database: dots, dollars, slashes, control characters and blanks at its "
            "ends are not for names",
            key="name",
            value=text,
        )
    return text
