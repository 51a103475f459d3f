"""The doors of lakekit that take a condition as text: each gives the ids of the rows that it found true.

A door gets a table's folder and a text. What changes a table does so in a copy.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import lakekit as lk
from lakekit.errors import LakekitError
from spec_tests.condition_oracle import Answer, ConditionOracle
from spec_tests.drawn_conditions import TYPES, Draw, conditions, drawn_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPTIONS: dict[str, dict[str, Any]] = {
    "append": {},
    "indexed": {"options": {"file-index.bitmap.columns": "i32,s", "file-index.bloom-filter.columns": "i64,dt"}},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "partitioned": {"partition_keys": ["b"]},
    "key": {"primary_keys": ["id"], "options": {"bucket": "1"}},
}
"""The tables that conditions are tried on."""


class DrawnTable:
    """A table `db.t` of drawn rows in a warehouse of its own, written in three commits, their ids in `db.s`, and copies of it."""

    def __init__(self, folder: Path, rows: pl.DataFrame, kind: str) -> None:
        self.rows = rows
        self._first = folder / "first"
        self._copy = folder / "copy"
        made = OPTIONS[kind]
        cat = lk.connect(str(self._first))
        cat.create_database("db")
        table = cat.create_table("db.t", TYPES, **made)
        half, last = rows.height // 2, rows.height - 1
        for part in (rows[:half], rows[half:last], rows[last:]):  # the last file has one row, which Polars may take for a constant
            table.append(part)
        if kind == "key":
            table.append(rows.head(rows.height // 4))
        cat.create_table("db.s", {"key_of_source": "BIGINT"}).append(rows.select(key_of_source="id"))

    def catalog(self) -> lk.Catalog:
        """Return the catalog of the rows as written, for doors that only read."""
        return lk.connect(str(self._first))

    def copied(self) -> lk.Catalog:
        """Return the catalog of a fresh copy."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._first, self._copy)
        return lk.connect(str(self._copy))


def _ids(table: lk.Table) -> frozenset[int]:
    return frozenset(table.scan().select("id").collect()["id"])


def _by_aggregate(table: DrawnTable, text: str) -> frozenset[int]:
    t = table.catalog().table("db.t")
    found = t.aggregate(pl.len().alias("n"), pl.col("id").implode().alias("ids"), where=text)
    ids = frozenset(found["ids"][0])
    assert found["n"][0] == len(ids), (found["n"][0], len(ids))
    counted = t.aggregate(pl.len(), where=text).item()  # by itself: from metadata, or without rows
    assert counted == len(ids), (counted, len(ids))
    return ids


def _by_delete(table: DrawnTable, text: str) -> frozenset[int]:
    t = table.copied().table("db.t")
    before = frozenset(table.rows["id"])
    t.delete(text)
    return before - _ids(t)


def _by_update(table: DrawnTable, text: str) -> frozenset[int]:
    t = table.copied().table("db.t")
    t.update({"vc": pl.lit("found by update")}, where=text)
    return _with_mark(t, "found by update")


def _with_mark(table: lk.Table, mark: str) -> frozenset[int]:
    return frozenset(table.scan().filter(pl.col("vc") == mark).select("id").collect()["id"])


def _by_sql_delete(table: DrawnTable, text: str) -> frozenset[int]:
    cat = table.copied()
    before = frozenset(table.rows["id"])
    cat.sql(f"DELETE FROM db.t WHERE {text}")
    return before - _ids(cat.table("db.t"))


def _by_sql_update(table: DrawnTable, text: str) -> frozenset[int]:
    cat = table.copied()
    cat.sql(f"UPDATE db.t SET vc = 'found by sql' WHERE {text}")
    return _with_mark(cat.table("db.t"), "found by sql")


def _by_sql_select(table: DrawnTable, text: str) -> frozenset[int]:
    found: Any = table.catalog().sql(f"SELECT id FROM db.t WHERE {text}")
    return frozenset(found.lazy().collect()["id"])


def _by_merge(table: DrawnTable, text: str) -> frozenset[int]:
    t = table.copied().table("db.t")
    t.merge(table.rows, lk.when_matched(update={"vc": pl.lit("found by merge")}, where=text), on=["id"])
    return _with_mark(t, "found by merge")


def _by_sql_merge(table: DrawnTable, text: str) -> frozenset[int]:
    """The columns of the target alone have plain names here: the source has an id under another."""
    cat = table.copied()
    cat.sql(f"MERGE INTO db.t USING db.s ON t.id = s.key_of_source WHEN MATCHED AND ({text}\n) THEN UPDATE SET vc = 'found by merge'")
    return _with_mark(cat.table("db.t"), "found by merge")


DOORS: dict[str, Callable[[DrawnTable, str], frozenset[int]]] = {
    "aggregate": _by_aggregate,
    "delete": _by_delete,
    "update": _by_update,
    "merge": _by_merge,
    "sql delete": _by_sql_delete,
    "sql update": _by_sql_update,
    "sql select": _by_sql_select,
    "sql merge": _by_sql_merge,
}


@dataclass(slots=True)
class Verdicts:
    """What drawn texts gave at one door: how many were equal, refused by name, raised on both sides; those that differ."""

    drawn: int = 0
    equal: int = 0
    raised: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, str] = field(default_factory=dict)
    different: list[tuple[str, str]] = field(default_factory=list)

    def count(self, draw: Draw, answer: Any, found: frozenset[int] | Exception) -> None:
        """Count one draw: `answer` is DuckDB's."""
        self.drawn += 1
        if isinstance(found, LakekitError):
            if answer.ids is None:
                self.raised += 1
            else:
                why = reason(found)
                self.refused[why] += 1
                self.refusals.setdefault(why, draw.text)
        elif isinstance(found, Exception):
            self.different.append((draw.text, f"{type(found).__name__}: {str(found)[:200]}"))
        elif answer.is_equal(found):
            self.equal += 1
        elif answer.ids is None and answer.wide is None:
            self.raised += 1  # DuckDB has no answer to compare with
        else:
            right = answer.ids if answer.ids is not None else answer.wide
            found = found if answer.judged is None else found & answer.judged
            self.different.append((draw.text, f"{len(found - right)} rows too many, {len(right - found)} too few of {len(right)}; {answer.problem}"))

    def __str__(self) -> str:
        """The counts in one line."""
        refused = sum(self.refused.values())
        return f"{self.drawn} drawn, {self.equal} equal, {self.raised} raised on both sides, {refused} refused, {len(self.different)} different"


def reason(wrong: LakekitError) -> str:
    """Return an error without what it quotes: the same reason gives the same text."""
    lines = str(wrong).splitlines()
    return re.sub(r"\d+", "#", re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "…", f"{type(wrong).__name__}: {lines[0][:160]}"))


def judged(draws: Iterator[Draw], oracle: ConditionOracle, table: DrawnTable, door: str, count: int) -> Verdicts:
    """Return the verdicts of `count` draws that DuckDB takes."""
    verdicts = Verdicts()
    judge(verdicts, draws, oracle, table, door, count)
    return verdicts


def judge(verdicts: Verdicts, draws: Iterator[Draw], oracle: ConditionOracle, table: DrawnTable, door: str, count: int) -> None:
    """Add to verdicts until `count` draws have one."""
    while verdicts.drawn < count:
        draw = next(draws)
        answer = oracle.answer(draw)
        if answer is None:
            continue
        found: frozenset[int] | Exception
        try:
            found = DOORS[door](table, draw.text)
        except Exception as wrong:  # noqa: BLE001 - whatever it is, it is counted
            found = wrong
        if isinstance(found, frozenset) and answer.ids is not None and found != answer.ids and oracle.agrees_as_written(draw, found):
            answer = Answer(found)
        verdicts.count(draw, answer, found)


def table_and_oracle(folder: Path, kind: str, seed: int, rows: int = 40) -> tuple[DrawnTable, ConditionOracle]:
    """Return a table of drawn rows in `folder`, and DuckDB over the same rows."""
    drawn = drawn_rows(seed, rows)
    return DrawnTable(folder, drawn, kind), ConditionOracle(drawn)


def main() -> None:
    """Print verdicts: `python -m spec_tests.condition_doors DOOR KIND SEED COUNT [SHOWN]`."""
    import sys
    import tempfile

    door, kind, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    shown = int(sys.argv[5]) if len(sys.argv) > 5 else 10
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = table_and_oracle(Path(folder), kind, seed)
        verdicts = Verdicts()
        with suppress(KeyboardInterrupt):  # which tells what was counted so far
            judge(verdicts, conditions(seed), oracle, table, door, count)
    print(f"{door} on {kind}, seed {seed}: {verdicts}")
    for why, many in verdicts.refused.most_common(shown):
        print(f"  {many:5d} {why}\n        {verdicts.refusals[why][:300]}")
    for text, what in sorted(verdicts.different, key=lambda one: len(one[0]))[:shown]:
        print(f"  {what}\n        {text[:400]}")


if __name__ == "__main__":
    main()
