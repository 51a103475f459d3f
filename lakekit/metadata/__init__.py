"""Metadata files of a table: list and read its schemas, snapshots, tags, branches and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.metadata import refs as refs, schemas as schemas

__getattr__ = plugins.late(__name__, ("refs", "schemas"))
