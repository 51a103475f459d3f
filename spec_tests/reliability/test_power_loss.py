"""What a snapshot refers to is safe from power loss before the snapshot is there, whoever writes; and what a writer hands out is safe when it does.

RELIABILITY D1, F3. Calls to the system tell: `spec_tests.reliability.power`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakekit.errors import StorageFailed
from spec_tests.reliability.power import Power
from spec_tests.reliability.test_local_disk import CHANGES, ROWS, filled

if TYPE_CHECKING:
    from pathlib import Path

HINTS = {"LATEST", "EARLIEST"}


@pytest.fixture
def power(monkeypatch, tmp_path):
    found = Power(monkeypatch)
    found.at_claims = lambda: unsafe(tmp_path, found)
    return found


def unsafe(path: Path, power: Power) -> set[str]:
    """The files that a power loss would take; hints are advice, and what has not got its name is nobody's."""
    standing = {str(one) for one in path.rglob("*") if one.is_file() and one.name not in HINTS and not one.name.endswith(".tmp")}
    return standing - (power.safe & power.named)


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
def test_all_is_safe_before_it_is_referred_to(tmp_path, power, name):
    table, before = filled(tmp_path / "t", name), len(power.claimed)
    CHANGES[name][1](table)
    assert len(power.claimed) > before
    assert all(not found for found in power.claimed.values()), power.claimed
    assert unsafe(tmp_path, power) == set()


def test_what_a_writer_prepares_is_safe(tmp_path, power):
    with filled(tmp_path / "t", "upsert").writer(commit_user="job") as writer:
        writer.write(ROWS)
        assert writer.prepare()
        assert unsafe(tmp_path, power) == set()


def test_what_a_writers_state_holds_is_safe(tmp_path, power, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise StorageFailed("no", path="")

    table = filled(tmp_path / "t", "upsert")
    with table.writer(commit_user="job") as writer:
        writer.write(ROWS)
        with monkeypatch.context() as patch:
            patch.setattr("lakekit.table.table_writer.commit_changes", refuse)
            with pytest.raises(StorageFailed):
                writer.commit(identifier=1)
        assert unsafe(tmp_path, power)  # which is what this is about
        assert writer.state()
        assert unsafe(tmp_path, power) == set()
        writer.commit(identifier=1)
