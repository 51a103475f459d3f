"""A table with a fallback branch, or a primary one, read from every position that options name: the rows and partitions that the reference reads.

Snapshots and tags by name are left out where the reference asks the other branch for the same names: `chance.OTHERWISE` has them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.testing.expectations import difference
from spec_tests.differential.judge import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakekit.testing.expectations import Read
    from spec_tests.differential.judge import Judge

pytestmark = pytest.mark.reference
SCHEMA = {"p": pl.String, "k": pl.Int32, "v": pl.String}
TIMES = ("scan.timestamp-millis", "scan.file-creation-time-millis", "scan.creation-time-millis")
BACKWARDS = ({"incremental-between": "2,1"}, {"incremental-between": "2,1", "incremental-between-scan-mode": "diff"}, {"incremental-between": "later,sooner"})


def put(table: lk.Table, watermark: int, *rows: tuple[str, int, str]) -> None:
    """A commit, and a pause in which nothing is made: times tell commits apart."""
    with table.writer() as writer:
        writer.write(pl.DataFrame(list(rows), schema=SCHEMA, orient="row"))
        table.commit(writer.prepare(), commit_user=f"at {watermark}", watermark=watermark)
    time.sleep(0.02)


def filled(path: Path, *, keyed: bool) -> lk.Table:
    """A table and its branch `b`, filled in turns; of keys both are compacted once."""
    options = {"bucket": "1" if keyed else "-1", "write-only": "true"}
    main = lk.create(path, SCHEMA, primary_keys=["p", "k"] if keyed else [], partition_keys=["p"], options=options)
    put(main, 10, ("x", 1, "m1"))
    main.create_branch("b")
    other = main.branch("b")
    put(other, 5, ("y", 1, "b1"))
    put(main, 20, ("x", 2, "m2"), ("w", 1, "m2"))
    put(other, 15, ("y", 2, "b2"), ("x", 9, "b2"))
    if keyed:
        main.compact(full=True)
    main.create_tag("sooner")
    put(other, 25, ("z", 1, "b3"))
    if keyed:
        other.compact(full=True)
    put(main, 30, ("w", 3, "m3"))
    main.create_tag("later")
    put(other, 35, ("w", 7, "b4"), ("z", 4, "b4"))
    return main


def positions(table: lk.Table) -> Iterator[dict[str, str]]:
    """Options that name one, before, at and after each commit of both branches."""
    yield from ({}, {"scan.mode": "compacted-full"}, {"scan.mode": "latest"})
    yield from ({"scan.watermark": str(mark)} for mark in (1, 5, 6, 10, 12, 18, 25, 28, 33, 40))
    yield from ({"scan.snapshot-id": str(number)} for number in table.snapshots()["snapshot_id"])
    commits = [one.snapshots()["time"].dt.epoch("ms") for one in (table, table.branch("b"))]
    moments = sorted({moment + more for moment in pl.concat(commits) for more in (0, 1)})
    yield from ({key: str(moment)} for key in TIMES for moment in moments)


def asked(judge: Judge, path: Path, options: dict[str, str], system: str | None) -> Read | str:
    try:
        return judge.read(path, options=options, system=system)
    except Refused as refused:
        return str(refused)


def answered(table: lk.Table, options: dict[str, str], system: str | None) -> pl.DataFrame | str:
    try:
        found = table.with_options(options)
        return (found.scan() if system is None else found.system(system)).collect()
    except LakekitError as refused:
        return str(refused)


def apart(found: pl.DataFrame | str, wanted: Read | str) -> Any:
    if isinstance(found, str) or isinstance(wanted, str):
        return None if isinstance(found, str) and isinstance(wanted, str) else (found, wanted)
    return difference(found, wanted)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("key", ["scan.fallback-branch", "scan.primary-branch"])
def test_every_position(judge, tmp_path, key, keyed):
    path = tmp_path / "t"
    filled(path, keyed=keyed).alter(lk.set_option(key, "b"))
    table = lk.open(path)
    every = [(options, system) for options in positions(table) for system in (None, "partitions")]
    told = [(one, apart(answered(table, *one), asked(judge, path, *one))) for one in every]
    assert len(told) > 90
    assert not [found for found in told if found[1] is not None]


@pytest.mark.parametrize("options", BACKWARDS)
@pytest.mark.parametrize("keyed", [True, False])
def test_changes_backwards_are_refused_as_the_reference_refuses_them(judge, tmp_path, keyed, options):
    path = tmp_path / "t"
    table = filled(path, keyed=keyed)
    with pytest.raises(Refused, match=r"should (be )?>="):
        judge.read(path, options=options)
    with pytest.raises(lk.errors.InvalidOption, match="before they begin"):
        table.with_options(options).scan()
