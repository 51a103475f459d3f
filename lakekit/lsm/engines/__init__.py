"""Merge engines, one a module named after the value of `merge-engine`.

A module says `CHOOSES`: True, and has `winners(section, rule)`, a mask of the rows that stand for their keys; or False, and has `fold(section, rule)`, a
frame of one row a key. Deletes are included; who asked decides what becomes of them.
"""

from __future__ import annotations

NOT_PARTS = frozenset({"shared"})
