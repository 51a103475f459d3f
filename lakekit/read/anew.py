"""A table made anew under a frame that was kept: dropped and created again, or moved forward to a branch, its schemas begin again at the same numbers.

Numbers and field ids tell nothing then: columns are found by their names, and the whole handle is that of the table as it is.
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
    ctx: TableContext, fields: Sequence[Field], asked: str, at: int | str | datetime | None = None
) -> tuple[TableContext, tuple[Field, ...]]:
    """The handle and those columns of the table that stands there now, as of `at`; what was given, where it is the table that it was when `asked` was called.

    Raises `TableNotFound` where there is none, `SchemaChanged` where it has not all of the columns.
    """
    if schemas.is_same_table(ctx):
        return ctx, tuple(fields)
    found = load_context(ctx.ground, schemas.latest(ctx), ctx.dynamic)
    if at is not None:
        found = time_travel.schema_of(found, time_travel.locate(found, at))
    there = {field.name: field for field in found.schema.fields}
    for field in fields:
        now = there.get(field.name)
        if now is None or str(now.type.as_nullable()) != str(field.type.as_nullable()):
            what = "it is not there" if now is None else f"it is {now.type} there"
            msg = f"column {field.name!r} of {ctx.name} was {field.type} when {asked} was called; the table was made anew since, or moved \
forward to a branch, and {what}: its columns are {', '.join(there)}; call t.{asked} again"
            raise SchemaChanged(msg, column=field.name)
    return found, tuple(there[field.name] for field in fields)
