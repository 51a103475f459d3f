"""A table of a catalog copied to another name, of this catalog or of another one: the files first, then the name (see `care.clone`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.care import clone as cloning
from lakekit.catalog import names
from lakekit.errors import InvalidOption, LakekitError, TableAlreadyExists

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.catalog.metastore import Metastore
    from lakekit.meta.handle import Ground, Handle
    from lakekit.model.schema import TableSchema


def check_source(text: str) -> None:
    """Raises `InvalidOption` for the name of a table without files of its own."""
    parsed = names.parse(text)
    if parsed.system is not None or parsed.database == names.SYSTEM:
        raise InvalidOption(f"{text[:200]!a} is a system table, which has no files: clone the table it tells of", key="name", value=text)


def clone(source: Handle, metastore: Metastore, to: str, at: int | str | datetime | None) -> None:
    """Copies a table to a name that its database does not have yet. Raises `TableAlreadyExists`, and what `care.clone` raises; then there is no such table."""
    name = names.new_table(to, "createTable")
    if metastore.has_table(name.database, name.table):
        raise TableAlreadyExists(f'{name.full} is in "{metastore.where}" already, and {source.name} was not copied; choose another name', name=name.full)
    made: list[Ground] = []

    def copy(ground: Ground) -> TableSchema:
        schema = cloning.clone(source, ground, at)
        made.append(ground)
        return schema

    try:
        metastore.create_table(name, copy)
    except BaseException as wrong:
        if made:
            with suppress(LakekitError):  # where nobody tells whether the name is there, the files stay: they are a whole table
                if not metastore.has_table(name.database, name.table):
                    cloning.withdraw(made[0])
        elif isinstance(wrong, LakekitError) and metastore.has_table(name.database, name.table):
            raise TableAlreadyExists(f"{name.full} was made by somebody else while {source.name} was copied; theirs stands", name=name.full) from wrong
        raise
