"""Every damaged file raises the error that its fixture says: its class, and field and offset where there is one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakekit.testing.fixtures import broken_cases, load_case
from lakekit.testing.golden.checks import DECODER_OF_FORMAT, check_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def cases() -> Sequence[Any]:
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in broken_cases()]


@pytest.mark.parametrize("path", cases())
def test_broken(path: Path) -> None:
    check_refusal(*load_case(path))


def test_every_format_is_read() -> None:
    assert {path.parent.name for path in broken_cases()} == set(DECODER_OF_FORMAT)


def test_there_are_enough() -> None:
    assert len(cases()) >= 60
