"""The range of times that Polars can print: the years -262143 to 262142.

DATE and TIMESTAMP reach further; Polars panics when it prints one beyond.
"""

from __future__ import annotations

import polars as pl

_DAY_MS = 86_400_000
_FIRST_MS, _END_MS = -96_465_292 * _DAY_MS, 95_026_237 * _DAY_MS


def is_printable(values: pl.Expr) -> pl.Expr:
    """Return whether Polars can print each date or timestamp; null for null."""
    return values.cast(pl.Datetime("ms")).to_physical().is_between(_FIRST_MS, _END_MS, closed="left")
