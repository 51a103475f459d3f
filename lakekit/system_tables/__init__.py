"""Metadata as tables: functions from a table context to frames, and frames about lakekit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.system_tables import registry as registry

__getattr__ = plugins.late(__name__, ("registry",))
