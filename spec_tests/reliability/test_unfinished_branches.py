"""A process that dies while it makes a branch leaves what a check tells of and `remove_orphans` cleans; nothing else without a schema is taken for it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from pathlib import Path

OLD_SECONDS = 5 * 86_400


class Died(BaseException):
    """The end of a process."""


def made(path: Path) -> lk.Table:
    table = lk.create(path, {"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1"})
    table.upsert([{"id": 1, "v": "a"}])
    table.create_tag("kept")
    return table


def age(folder: Path) -> None:
    then = time.time() - OLD_SECONDS
    for entry in (*folder.rglob("*"), folder):
        os.utime(entry, (then, then))


def names(folder: Path) -> set[str]:
    return {str(entry.relative_to(folder)) for entry in folder.rglob("*")} if folder.exists() else set()


@pytest.mark.parametrize("tag", [None, "kept"])
@pytest.mark.parametrize("at", range(12))
def test_what_a_dead_process_left_of_a_branch_is_told_and_cleaned(tmp_path, monkeypatch, tag, at):
    path = tmp_path / "t"
    table = made(path)
    calls = {"link": os.link, "mkdir": os.mkdir}
    seen = 0

    def dying(name):
        def call(*arguments, **keywords):
            nonlocal seen
            seen += 1
            if seen > at:
                raise Died
            return calls[name](*arguments, **keywords)

        return call

    with monkeypatch.context() as patched:
        for name in calls:
            patched.setattr(os, name, dying(name))
        with suppress(Died):
            table.create_branch("x", tag=tag)
    again = lk.open(path)
    if "x" in again.branches()["branch"].to_list():
        assert again.branch("x").scan().collect().height == (1 if tag else 0)
        return
    branch = path / "branch" / "branch-x"
    if not branch.exists():
        assert not again.check().advice
        return
    assert [one.check for one in again.check().advice] == ["branch is half there"]
    before = names(path)
    with pytest.raises(Corrupt, match="has no schema"):
        again.remove_orphans(dry_run=False)
    assert names(path) == before
    age(branch)
    again.remove_orphans()
    assert names(path) == before
    again.remove_orphans(dry_run=False)
    assert not branch.exists()
    assert not again.check().advice
    assert again.scan().collect().height == 1
    again.create_branch("x", tag=tag)


@pytest.mark.parametrize("lost", ["schema", "tag", "other file"])
def test_a_branch_that_may_be_more_is_left_alone(tmp_path, lost):
    path = tmp_path / "t"
    table = made(path)
    table.create_branch("x", tag="kept")
    branch = path / "branch" / "branch-x"
    if lost == "schema":
        table.branch("x").upsert([{"id": 2, "v": "b"}])
    if lost == "tag":
        table.delete_tag("kept")
    if lost == "other file":
        (branch / "notes.txt").write_text("mine")
    for schema in (branch / "schema").iterdir():
        schema.unlink()
    age(branch)
    before = names(branch)
    with pytest.raises(Corrupt, match="has no schema"):
        lk.open(path).remove_orphans(dry_run=False)
    assert names(branch) == before
