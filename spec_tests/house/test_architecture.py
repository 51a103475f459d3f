"""ARCHITECTURE.md describes the package of today: its walks name functions that exist, its glossary says each term once.

That every other dotted name of the page resolves is checked in `test_documents.py`.
"""

from __future__ import annotations

import ast
import re

import pytest

from spec_tests.house.source import PACKAGE, ROOT, modules, name, tree
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
    rows = [line for line in section("Glossary").partition("### Further nouns")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_glossary_says_each_term_once():
    rows = glossary()
    assert len(rows) >= 40
    assert {len(row) for row in rows} == {4}
    terms = [row[0] for row in rows]
    assert sorted({term for term in terms if terms.count(term) > 1}) == []
    assert {row[3] for row in rows} == SOURCES


PLURALS = (("ies", "y"), ("es", ""), ("s", ""), ("", ""))


def singulars(word: str) -> set[str]:
    """Return what a word may be the plural of, and the word itself."""
    return {word.removesuffix(ending) + singular for ending, singular in PLURALS if word.endswith(ending)}


def glossary_nouns() -> set[str]:
    """Return the words of the glossary's terms and modules, and the further nouns, in singular."""
    terms = [word for row in glossary() if len(row) == 4 for cell in (row[0], row[2]) for word in re.findall(r"[A-Za-z][a-z]*", cell)]
    further = section("Glossary").partition("### Further nouns")[2]
    return {noun for word in (*terms, *re.findall(r"[a-z]+", further)) for noun in singulars(word.lower())}


def head_noun(identifier: str) -> str:
    """Return the last word of a class or module name."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", identifier)[-1].lower()


NOUNS = glossary_nouns()


@pytest.mark.parametrize("path", modules(), ids=name)
def test_each_class_and_module_ends_with_a_noun_of_the_glossary(path):
    defined = [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    stem = [path.stem] if not path.stem.startswith("__") else []
    assert [identifier for identifier in (*stem, *defined) if not singulars(head_noun(identifier)) & NOUNS] == []


def test_a_word_that_is_in_no_list_is_found():
    assert head_noun("_PageSpot") == "spot"
    assert not singulars("spot") & NOUNS
    assert singulars("entries") & NOUNS
