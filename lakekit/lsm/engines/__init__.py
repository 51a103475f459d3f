"""Merge engines, one module each, named after the value of `merge-engine`.

A module sets `CHOOSES`: True, and has `winners(section, rule)`, a mask of the winning rows; or False, and has
`fold(section, rule)`, a frame of one row for each key. Deletes are included; the caller drops or keeps them.
"""

from __future__ import annotations

NOT_PARTS: frozenset[str] = frozenset()
