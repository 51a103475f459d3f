"""What the fast loop tries some of, and every run of `spec_tests/run` all of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def some(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters, of which plain pytest takes every so many; the others are marked `long`."""
    return [case if at % every == 0 else _marked(case) for at, case in enumerate(cases)]


def _marked(case: Any) -> Any:
    if hasattr(case, "values") and hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.long], id=case.id)
    return pytest.param(case, marks=pytest.mark.long)
