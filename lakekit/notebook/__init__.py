"""Widgets for Jupyter: ipywidgets only, no network, no JavaScript of our own.

The table asks for its browser by name (`registry`), so that a missing ipywidgets is told with the extra that brings it.
"""

from __future__ import annotations

NOT_PARTS = frozenset({"pictured", "canvas"})
