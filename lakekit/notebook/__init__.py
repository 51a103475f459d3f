"""Widgets for Jupyter: ipywidgets only, no network, no JavaScript of lakekit's own.

A table loads its browser by name (`plugins`), so that the error of a missing ipywidgets names the extra that installs
it.
"""

from __future__ import annotations

NOT_PLUGINS: frozenset[str] = frozenset()
