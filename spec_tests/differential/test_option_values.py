"""The engine takes these values when a table is made, and fails by them at a write or a read: the rules of `ddl/option_values.py` are its own."""

from __future__ import annotations

import pytest

from spec_tests.differential.judge import Refused
from spec_tests.golden.option_values import COLUMNS, FAILING, USABLE, keys_of

pytestmark = pytest.mark.reference
ROWS = [("+I", (1, 1, "a" * 40, "x")), ("+I", (2, None, None, "y"))]
LAKEKIT_ALONE = {("changelog-file.prefix", "a/b"), ("num-levels", "2147483647")}
"""Files of a changelog are written where there is a producer only; so many levels end the engine's process."""


def works(judge, path, key, value):
    try:
        judge.create(path, COLUMNS, **keys_of({key: value}))
        for _ in range(2):
            judge.write(path, ROWS)
        judge.compact(path, full=True)
        judge.read(path)
    except Refused:
        return False
    return True


def test_values(judge, tmp_path):
    cases = [(case, False) for case in FAILING if case not in LAKEKIT_ALONE] + [(case, True) for case in USABLE]
    assert [case for number, (case, wanted) in enumerate(cases) if works(judge, tmp_path / f"{number}" / "t", *case) != wanted] == []
