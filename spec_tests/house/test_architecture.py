"""ARCHITECTURE.md describes the package of today: its walks name functions that exist, its glossary says each term once.

That every other dotted name of the page resolves is checked in `test_documents.py`.
"""

from __future__ import annotations

import re

import pytest

from spec_tests.house.source import PACKAGE, ROOT
from spec_tests.house.test_documents import resolve

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALKS = ("One read", "One write", "One compaction", "One SQL statement")
NAME = re.compile(r"`([a-z_]+(?:\.[A-Za-z_0-9]+)+)`")
SOURCES = {"Paimon", "RocksDB", "Arrow", "DataFusion", "Python"}


def section(title: str) -> str:
    """Return the text of a section, without its heading."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def steps(title: str) -> list[str]:
    """Return the numbered steps of a section."""
    return re.findall(r"^\d+\. .*\n(?:   .*\n)*", section(title), re.MULTILINE)


def dotted_names(text: str) -> list[str]:
    """Return the dotted names in backticks that begin with a folder or a module of the package."""
    first = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    return [name for name in NAME.findall(text) if name.partition(".")[0] in first]


@pytest.mark.parametrize("title", WALKS)
def test_each_step_of_a_walk_names_a_function_that_exists(title):
    walk = steps(title)
    assert len(walk) >= 5
    assert sorted(name for name in dotted_names(section(title)) if resolve(name) is None) == []
    assert [step for step in walk if not any(callable(resolve(name)) for name in dotted_names(step))] == []


def glossary() -> list[list[str]]:
    """Return the rows of the glossary: term, meaning, code, source."""
    rows = [line for line in section("Glossary").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_glossary_says_each_term_once():
    rows = glossary()
    assert len(rows) >= 40
    assert {len(row) for row in rows} == {4}
    terms = [row[0] for row in rows]
    assert sorted({term for term in terms if terms.count(term) > 1}) == []
    assert {row[3] for row in rows} == SOURCES
