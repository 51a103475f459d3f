"""The machine finds what it is there for: a mistake planted in lakekit fails it."""

from __future__ import annotations

import polars as pl
import pytest

from lakekit.bucket import write_buffer
from lakekit.columns import KIND
from spec_tests.models.machine import SOME, played


@pytest.mark.long
def test_deletes_dropped_at_flush_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = write_buffer.merge_for_flush
    monkeypatch.setattr(write_buffer, "merge_for_flush", lambda section, rule: kept(section, rule).filter(pl.col(KIND) & 1 == 0))
    with pytest.raises(AssertionError):
        played("deduplicate", SOME, whole=False)
