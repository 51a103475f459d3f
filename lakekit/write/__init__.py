"""Write path: read input as frames, convert it for the table, route rows to buckets, write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.write import input_frames as input_frames, value_casting as value_casting

__getattr__ = plugins.late(__name__, ("input_frames", "value_casting"))
