"""Where golden and broken files are, and how what was found is told apart from what stands beside them.

fixtures/formats/binary_row/nested.bin      the bytes
fixtures/formats/binary_row/nested.json     {"format": "binary_row", "case": "nested", "about": …, "origin": "reference" | "hand", …what they mean…}
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

    def __init__(self, what: str, expected: object, found: object) -> None:
        super().__init__(f"{what}: expected {expected!r}, found {found!r}")
        self.what, self.expected, self.found = what, expected, found


def check_equal(what: str, found: object, expected: object) -> None:
    """Nothing where both are equal. Raises `Mismatch`, of lists and dicts with the first part in which they differ."""
    if found == expected:
        return
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            check_equal(f"{what}.{key}", found.get(key), expected.get(key))
    if isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        check_equal(f"how many {what}", len(found), len(expected))
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            check_equal(f"{what}[{number}]", one, other)
    raise Mismatch(what, expected, found)


def formats() -> list[str]:
    """The formats that have golden files."""
    return sorted(path.name for path in (fixtures("formats") / "formats").iterdir() if path.is_dir())


def cases(*names: str) -> list[Path]:
    """The JSON of each golden file of some formats; its bytes are `path.with_suffix(".bin")`."""
    return sorted(path for name in names for path in (fixtures("formats") / "formats" / name).glob("*.json"))


def broken_cases() -> list[Path]:
    """The JSON of each damaged file."""
    return sorted((fixtures("broken") / "broken").rglob("*.json"))


def load(path: Path) -> tuple[dict[str, Any], bytes]:
    """What is said of a file, and its bytes."""
    said: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return said, path.with_suffix(".bin").read_bytes()
