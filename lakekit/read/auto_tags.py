"""Tags that engines make by the clock, one a period: what their names say, and which came before one (ENGINE 5.10, 6.3; `TagPeriodHandler`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption
from lakekit.meta import tags

if TYPE_CHECKING:
    from lakekit.meta.handle import Handle

_DAYS = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOURS = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}


def period_of(handle: Handle, name: str) -> datetime | None:
    """The period that a tag's name stands for; None for a name that the table's automatic tags would not have."""
    options = handle.options
    shapes = _DAYS if options.tag_creation_period == "daily" else _HOURS
    shape = shapes[options.tag_period_formatter]
    try:
        found = datetime.strptime(name, shape).replace(tzinfo=UTC)
    except ValueError:
        return None
    return found if found.strftime(shape) == name else None


def previous(handle: Handle, name: str) -> str | None:
    """The automatic tag before `name`; None when there is none, or no tag of that name.

    Raises `InvalidOption` for a name that automatic tags do not have.
    """
    period = period_of(handle, name)
    if period is None:
        msg = f"{name!r} is not the name of an automatic tag of {handle.name}"
        raise InvalidOption(msg, key="incremental-to-auto-tag", value=name)
    if tags.find(handle, name) is None:
        return None
    earlier = [(found, other) for other in tags.names(handle) if (found := period_of(handle, other)) is not None and found < period]
    return max(earlier)[1] if earlier else None
