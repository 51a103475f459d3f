"""Merge engines, one module each, named after the value of `merge-engine`.

A module sets `SELECTS_ROWS`: True, and has `winners(section, spec)`, a mask of the rows that win their key; or False,
and has `fold(section, spec)`, a frame of one computed row for each key. Deletes are included; the caller drops or keeps
them.
"""

from __future__ import annotations

NOT_PLUGINS: frozenset[str] = frozenset()
