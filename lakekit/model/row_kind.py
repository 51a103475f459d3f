"""The four kinds a row can have; one plane, one spelling each: a byte in files, two characters in frames."""

from __future__ import annotations

INSERT = 0
UPDATE_BEFORE = 1
UPDATE_AFTER = 2
DELETE = 3
SHORT = ("+I", "-U", "+U", "-D")
"""The text of each kind, at its byte's place."""
RETRACTING = frozenset({UPDATE_BEFORE, DELETE})
"""Kinds that take a row away."""
KIND_OF = {text: kind for kind, text in enumerate(SHORT)}
"""The byte of each text."""
