"""Names are the format's words; some words say nothing."""

from __future__ import annotations

import ast
import re

import pytest

from spec_tests.house.source import modules, name, tree

EMPTY_WORDS = ("manager", "factory", "helper", "util", "impl", "abstract", "processor", "info")


def words(identifier: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", identifier)]


@pytest.mark.parametrize("path", modules(), ids=name)
def test_names(path):
    said = [path.stem, *(node.name for node in ast.walk(tree(path)) if isinstance(node, (ast.ClassDef, ast.FunctionDef)))]
    wrong = [identifier for identifier in said for word in words(identifier) if word.removesuffix("s") in EMPTY_WORDS]
    wrong += [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef) and "base" in words(node.name)]
    wrong += [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef) and re.search(r"(Error|Exception)$", node.name)]
    assert set(wrong) <= {"LakekitError", "SqlError"}


@pytest.mark.parametrize("path", modules(), ids=name)
def test_every_module_says_what_it_is(path):
    text = ast.get_docstring(tree(path))
    assert text, "a module without a docstring"
    assert text.splitlines()[0].rstrip().endswith((".", ":")), "its first line is a sentence"
