"""What house tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def mypy_cache(tmp_path_factory):
    """A cache of this run alone: one that other runs write at the same time goes stale without saying so."""
    return str(tmp_path_factory.mktemp("mypy"))
