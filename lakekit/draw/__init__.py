"""Facts and small tables as text, HTML and pictures. Nothing here reads a table, a terminal or a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.draw import cards as cards

__getattr__ = plugins.late(__name__, ("cards",))
