"""Splits, commit messages and committables that engines 0.8 to 1.4 wrote: understood, and those of 1.4 written again byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakekit.errors import Corrupt, Unsupported
from lakekit.model import commit_message, split
from lakekit.testing import fixtures as golden
from lakekit.testing.golden.checks import check_golden_file

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("data_split", "commit_message", "manifest_committable")


def cases(name: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in golden.golden_cases(name)]


def test_the_fixtures_are_there() -> None:
    assert [name for name in FORMATS if not cases(name)] == []


@pytest.mark.parametrize("path", cases("data_split"))
def test_splits(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("commit_message"))
def test_commit_messages(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("manifest_committable"))
def test_committables(path: Path) -> None:
    check_golden_file(path)


def test_later_versions_are_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="version 9: lakekit reads versions 1 to 8"):
        split.decode_split(bytes.fromhex("dec3d2302c19ec66") + (9).to_bytes(4, "big") + bytes(40))
    with pytest.raises(Unsupported, match="version 12: lakekit reads versions 1 to 11"):
        commit_message.decode_message(bytes(100), 12)
    with pytest.raises(Unsupported, match="version 6"):
        commit_message.decode_committable(bytes(100), 6)


def test_a_split_with_files_before_a_change_is_refused() -> None:
    head = bytes.fromhex("dec3d2302c19ec66") + (8).to_bytes(4, "big") + bytes(8) + (12).to_bytes(4, "big") + bytes(12) + bytes(4) + bytes(2) + b"\0"
    with pytest.raises(Unsupported, match="before a change"):
        split.decode_split(head + (1).to_bytes(4, "big") + bytes(20))
    with pytest.raises(Corrupt, match="deletions at offset"):
        split.decode_split(head + bytes(4) + b"\0" + bytes(4) + b"\1" + b"\0\0\0\5" + bytes(10))
