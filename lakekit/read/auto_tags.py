"""Tags that engines create by the clock, one for each period: their names and their order.

daily          2024-01-01        20240101            any name that begins so and continues after a blank counts too
hourly         2024-01-01 05     20240101 05    2024010105
two-hours      2024-01-01 04
a duration     202401010405      year, month, day, hour, minute

Source: ENGINE 5.10, 6.3; `TagPeriodHandler`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption
from lakekit.metadata import tags

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext

BY_CLOCK = ("process-time", "watermark")
"""The values of `tag.automatic-creation` by which every commit may make tags."""
_DAYS = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOURS = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}
_MINUTES = "%Y%m%d%H%M"
_MOST_MS = timedelta.max // timedelta(milliseconds=1)
_LENGTHS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}


def length(ctx: TableContext) -> timedelta:
    """Return the length of a period."""
    free = ctx.options.tag_creation_period_duration_ms
    return _LENGTHS[ctx.options.tag_creation_period] if free is None else timedelta(milliseconds=min(free, _MOST_MS))


def name_of(ctx: TableContext, period: datetime) -> str:
    """Return the name of a period's tag."""
    return period.strftime(_shape(ctx))


def period_of(ctx: TableContext, name: str) -> datetime | None:
    """Return the period of a tag's name; None for a name that the table's automatic tags do not have."""
    shape = _shape(ctx)
    text = name.partition(" ")[0] if shape in _DAYS.values() else name
    try:
        period = datetime.strptime(text, shape).replace(tzinfo=UTC)
    except ValueError:
        return None
    return period if period.strftime(shape) == text else None


def _shape(ctx: TableContext) -> str:
    options = ctx.options
    if options.tag_creation_period_duration_ms is not None:
        return _MINUTES
    if options.tag_creation_period == "two-hours":
        return _HOURS["with_dashes"]
    return (_DAYS if options.tag_creation_period == "daily" else _HOURS)[options.tag_period_formatter]


def find_previous_tag(ctx: TableContext, name: str) -> str | None:
    """Return the automatic tag before `name`; None if there is none, or no tag of that name.

    Raises:
        InvalidOption: automatic tags do not have such a name.
    """
    period = period_of(ctx, name)
    if period is None:
        msg = f"{name!r} is not the name of an automatic tag of {ctx.name}"
        raise InvalidOption(msg, key="incremental-to-auto-tag", value=name)
    if tags.find(ctx, name) is None:
        return None
    earlier = [
        (other_period, other)
        for other in tags.names(ctx)
        if (other_period := period_of(ctx, other)) is not None and other_period < period
    ]
    return max(earlier)[1] if earlier else None
