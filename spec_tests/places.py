"""Where tests find the fixtures."""

from __future__ import annotations

from lakekit.testing.fixtures import fixtures

FIXTURES = str(fixtures())
