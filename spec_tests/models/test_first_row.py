"""Tables of the merge engine first-row against a dict; a module of its own, so that engines run side by side."""

from __future__ import annotations

import pytest

from spec_tests.conftest import DEEP, WHOLE
from spec_tests.models.machine import FEW, MANY, SOME, played, told


@pytest.mark.long
def test_a_table_is_what_a_dict_says() -> None:
    found = played("first-row", MANY if DEEP else SOME if WHOLE else FEW, chance=DEEP, whole=DEEP or WHOLE)
    print(told("first-row", found))
