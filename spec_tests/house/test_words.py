"""What must not stand in any file: paths of somebody's machine, notes to oneself, how it was made."""

from __future__ import annotations

import re

import pytest

from spec_tests.house.source import PACKAGE, modules, name, tracked


def backwards(*texts):
    """Words spelled backwards here, so that this file does not hold them itself."""
    return "|".join(text[::-1] for text in texts)


MACHINE = re.compile(backwards("niam/krow/", "derahs/krow/", "kl/pmt/", "fer/pmt/", "vneyp./toor/", "2m./toor/").encode())
MAKERS = re.compile(rf"(?i)\b({backwards('edualc', 'ciporhtna', 'ianepo', 'tpgtahc', 'tolipoc', 'tnegabus', 'stnegabus', 'ledom egaugnal')})\b".encode())
NOTES = re.compile(rf"\b({backwards('ODOT', 'EMXIF', 'XXX', 'KCAH', 'won rof')})\b")


@pytest.mark.long
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
