"""What must not stand in any file: paths of somebody's machine, notes to oneself, how it was made."""

from __future__ import annotations

import re

from spec_tests.house.source import PACKAGE, modules, name, tracked

# in pieces, so that this file does not hold them itself
MACHINE = re.compile(rb"/work/(main|shared)|/tmp/lk|/tmp/ref|/root/|/home/[a-z]+/|/Users/[a-z]+/")
MAKERS = re.compile(rb"(?i)\b(claude|anthropic|openai|chatgpt|copilot|subagents?|language models?)\b")
NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|for now\b")


def test_no_file_names_a_machine_or_its_makers():
    wrong = []
    for path in tracked():
        data = path.read_bytes()
        wrong += [f"{name(path)}: {found.group().decode()}" for pattern in (MACHINE, MAKERS) for found in [pattern.search(data)] if found]
    assert not wrong


def test_no_notes_to_oneself_in_the_package():
    wrong = [f"{name(path)}: {found.group()}" for path in modules() for found in [NOTES.search(path.read_text(encoding="utf-8"))] if found]
    assert not wrong
    assert (PACKAGE / "py.typed").exists()
