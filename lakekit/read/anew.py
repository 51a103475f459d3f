"""Refresh of a context whose table was recreated under an existing frame.

A table that was dropped and created again, or fast-forwarded to a branch, has schemas that begin again at the same
numbers. Numbers and field ids then mean nothing: columns are matched by name, and the whole context is that of the new
table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import SchemaChanged
from lakekit.metadata import schemas
from lakekit.metadata.table_context import load_context
from lakekit.read import time_travel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.types import Field


def refresh_if_recreated(
    ctx: TableContext, fields: Sequence[Field], method: str, at: int | str | datetime | None = None
) -> tuple[TableContext, tuple[Field, ...]]:
    """Return the context and those columns of the table as it is now, as of `at`.

    If it is the same table as when `method` was called, the arguments are returned.

    Raises:
        TableNotFound: there is no table.
        SchemaChanged: the table does not have all of the columns.
    """
    if schemas.is_same_table(ctx):
        return ctx, tuple(fields)
    fresh = load_context(ctx.ground, schemas.latest(ctx), ctx.dynamic)
    if at is not None:
        fresh = time_travel.schema_of(fresh, time_travel.locate(fresh, at))
    current_fields = {field.name: field for field in fresh.schema.fields}
    for field in fields:
        current = current_fields.get(field.name)
        if current is None or str(current.type.as_nullable()) != str(field.type.as_nullable()):
            what = "it is not there" if current is None else f"it is {current.type} there"
            msg = (
                f"column {field.name!r} of {ctx.name} was {field.type} when {method} was called; the table was made "
                f"anew since, or moved forward to a branch, and {what}: its columns are {', '.join(current_fields)}; "
                f"call t.{method} again"
            )
            raise SchemaChanged(msg, column=field.name)
    return fresh, tuple(current_fields[field.name] for field in fields)
