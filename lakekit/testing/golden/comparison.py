"""The paths of golden and broken files, and the comparison of values with recorded ones.

fixtures/formats/binary_row/nested.bin      the bytes
fixtures/formats/binary_row/nested.json     {"format": "binary_row", "case": "nested", "about": …,
                                             "origin": "reference" | "hand", …the recorded values…}
fixtures/broken/manifest/kind_7.bin         bytes that are damaged
fixtures/broken/manifest/kind_7.json        {…, "error": "Corrupt", "field": …, "offset": …}: how they are refused
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    from pathlib import Path


class Mismatch(AssertionError):
    """A difference between an expected and an actual value."""

    def __init__(self, what: str, expected: object, actual: object) -> None:
        super().__init__(f"{what}: expected {expected!r}, found {actual!r}")
        self.what, self.expected, self.found = what, expected, actual


def check_equal(what: str, actual: object, expected: object) -> None:
    """Check that both are equal.

    Raises: `Mismatch`, of lists and dicts with the first part in which they differ.
    """
    if actual == expected:
        return
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            check_equal(f"{what}.{key}", actual.get(key), expected.get(key))
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        check_equal(f"how many {what}", len(actual), len(expected))
        for number, (element, expected_element) in enumerate(zip(actual, expected, strict=True)):
            check_equal(f"{what}[{number}]", element, expected_element)
    raise Mismatch(what, expected, actual)


def formats() -> list[str]:
    """Return the formats that have golden files."""
    return sorted(path.name for path in (fixtures("formats") / "formats").iterdir() if path.is_dir())


def cases(*names: str) -> list[Path]:
    """Return the JSON of each golden file of some formats; its bytes are `path.with_suffix(".bin")`."""
    return sorted(path for name in names for path in (fixtures("formats") / "formats" / name).glob("*.json"))


def broken_cases() -> list[Path]:
    """Return the JSON of each damaged file."""
    return sorted((fixtures("broken") / "broken").rglob("*.json"))


def load(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the recorded facts of a file, and its bytes."""
    facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return facts, path.with_suffix(".bin").read_bytes()
