"""`t.repair` as its user meets it: hints say what is there."""

from __future__ import annotations

import pytest

import lakekit as lk


@pytest.fixture
def table(tmp_path):
    made = lk.create(tmp_path, {"k": "INT"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    for number in range(6):
        made.upsert([{"k": number}])
    return made


def hints(path) -> dict[str, str]:
    return {one.name: one.read_text() for one in (path / "snapshot").iterdir() if not one.name.startswith("snapshot-")}


def test_nothing_to_mend(table, tmp_path):
    before = hints(tmp_path)
    assert table.repair().is_empty()
    assert hints(tmp_path) == before == {"LATEST": "6", "EARLIEST": "1"}


@pytest.mark.parametrize(("latest", "was"), [("4", 4), ("nine", None), ("99", 99), (None, None)])
def test_a_latest_that_is_wrong(table, tmp_path, latest, was):
    file = tmp_path / "snapshot" / "LATEST"
    file.unlink() if latest is None else file.write_text(latest)
    assert table.repair().rows() == [(str(file), was, 6)]
    assert hints(tmp_path)["LATEST"] == "6"


def test_behind_a_gap(table, tmp_path):
    (tmp_path / "snapshot" / "snapshot-3").unlink()
    assert table.repair().select("was", "is").rows() == [(1, 4)]
    assert hints(tmp_path) == {"LATEST": "6", "EARLIEST": "4"}


def test_a_table_whose_snapshots_are_gone(table, tmp_path):
    for one in (tmp_path / "snapshot").glob("snapshot-*"):
        one.unlink()
    assert table.repair().select("was", "is").rows() == [(6, None), (1, None)]
    assert hints(tmp_path) == {}
    assert table.scan().collect().is_empty()


def test_a_latest_that_was_behind_is_not_led_astray_by_an_expiry(table, tmp_path):
    """While the snapshot after it was there, no engine believed it."""
    hint = tmp_path / "snapshot" / "LATEST"
    hint.write_text("1")
    assert table.check().ok
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids
    assert table.check().ok
    assert hint.read_text() == str(table.snapshots()["snapshot_id"][-1])
    assert table.repair().is_empty()
