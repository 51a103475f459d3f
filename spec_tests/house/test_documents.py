"""Documents are true: links resolve, commands and names that they show exist."""

from __future__ import annotations

import importlib
import re
import unicodedata

import pytest

from spec_tests.house.source import PACKAGE, ROOT, name, tracked

DOCUMENTS = [path for path in tracked() if path.suffix == ".md"]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"""(?:!\[[^\]]*\]\(|\b(?:src|srcset)=")([^)"\s]+)""")


def anchors(text: str) -> set[str]:
    """The anchors that headings get on GitHub."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[`*_]", "", heading.strip()).lower()
        kept = "".join(letter for letter in plain if letter in " -_" or unicodedata.category(letter)[0] in "LN")
        found.add(kept.replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_resolve(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    wrong = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        there = (path.parent / place).resolve() if place else path
        if not there.exists() or (anchor and anchor not in anchors(there.read_text(encoding="utf-8"))):
            wrong.append(target)
    assert not wrong


@pytest.mark.long
@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_pictures_are_there(path):
    there = {picture: (path.parent / picture).resolve() for picture in PICTURE.findall(path.read_text(encoding="utf-8"))}
    assert [picture for picture, place in there.items() if place not in tracked()] == []


def test_the_documents_are_there():
    assert {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "spec_tests/README.md"} <= {name(path) for path in DOCUMENTS}
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").lstrip().startswith("Apache License")


def test_readme_shows_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\npython3 -m venv .venv && . .venv/bin/activate && pip install . && lakekit demo\n" in text
    assert "\nspec_tests/run\n" in text


def resolve(dotted: str) -> object:
    """Return what a dotted name below the package stands for, a module or something in one; None where it stands for nothing."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(["lakekit", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            thing = getattr(thing, part, None)
        return thing
    return None


def test_architecture_names_what_exists():
    text = re.sub(r"```.*?```", "", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    said = {name for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)(?:\(\))?`", text) if name.split(".")[0] in rooms}
    said |= {name.replace("/", ".") for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", text) if name.split("/")[0] in rooms}
    assert said
    assert sorted(name for name in said if resolve(name) is None) == []
