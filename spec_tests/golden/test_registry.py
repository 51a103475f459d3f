"""A folder is a registry, and other distributions may add to it."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from lakekit import plugins
from lakekit.errors import ExtraMissing, InvalidOption


@pytest.fixture
def entry(monkeypatch):
    """Entry points as another distribution would declare them."""
    found = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point for point in found if point.group == group])
    plugins._find_plugins.cache_clear()
    yield lambda name, value: found.append(EntryPoint(name, value, "lakekit.file_index"))
    plugins._find_plugins.cache_clear()


def test_a_part_of_another_distribution_is_found(entry):
    entry("toy", "json.decoder")
    assert plugins.names("file_index") == ("bitmap", "bloom-filter", "bsi", "range-bitmap", "toy")
    assert plugins.load("file_index", "toy").__name__ == "json.decoder"


def test_two_parts_of_one_name_are_an_error(entry):
    entry("bsi", "toys.bsi")
    with pytest.raises(InvalidOption, match=r"two plugins of file_index are called 'bsi': lakekit\.file_index\.bsi and toys\.bsi"):
        plugins.names("file_index")


def test_a_missing_guest_names_its_extra(entry, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    entry("query", "duckdb.anything")
    with pytest.raises(ExtraMissing, match=r"'query' of file_index needs duckdb: pip install 'lakekit\[sql\]'"):
        plugins.load("file_index", "query")


def test_a_part_that_is_broken_says_so_itself(entry):
    entry("broken", "no_such_module_anywhere")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        plugins.load("file_index", "broken")


def test_what_is_no_part_is_not_listed(entry):
    assert "evaluate" not in plugins.names("file_index")
