"""Drawn queries through `cat.sql` and through Spark, against DuckDB."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakekit.errors import LakekitError
from spec_tests.condition_doors import reason
from spec_tests.drawn_queries import QueryOracle, comparable, filled, is_ordered, queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import lakekit as lk

    Answer = tuple[list[str], list[tuple[Any, ...]]]


@dataclass(slots=True)
class QueryVerdicts:
    """What drawn queries gave: how many were equal, refused by name; those that differ, and those whose columns have other names."""

    drawn: int = 0
    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, str] = field(default_factory=dict)
    different: list[tuple[str, str]] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)

    def count(self, text: str, right: Answer, found: Answer | Exception) -> None:
        """Count one query: `right` is DuckDB's answer."""
        self.drawn += 1
        if isinstance(found, LakekitError):
            why = reason(found)
            self.refused[why] += 1
            self.refusals.setdefault(why, text)
        elif isinstance(found, Exception):
            self.different.append((text, f"{type(found).__name__}: {str(found)[:300]}"))
        else:
            ordered = is_ordered(text)
            ours, theirs = comparable(found[1], ordered=ordered), comparable(right[1], ordered=ordered)
            if ours == theirs:
                self.equal += 1
                if found[0] != right[0]:
                    self.renamed.append((text, f"{found[0]} for {right[0]}"))
            else:
                extra = [row for row in ours if row not in theirs][:2]
                missing = [row for row in theirs if row not in ours][:2]
                self.different.append((text, f"{len(ours)} rows for {len(theirs)}; too many {extra}, too few {missing}"))

    def __str__(self) -> str:
        """The counts in one line."""
        refused = sum(self.refused.values())
        return f"{self.drawn} drawn, {self.equal} equal, {refused} refused, {len(self.different)} different, {len(self.renamed)} with other names"


def by_catalog(cat: lk.Catalog) -> Callable[[str], Answer]:
    """Return the door `cat.sql`."""

    def run(text: str) -> Answer:
        frame = cat.sql(text).lazy().collect()
        return frame.columns, frame.rows()

    return run


def by_spark(cat: lk.Catalog) -> Callable[[str], Answer]:
    """Return the door `ls.sql`, in a session of its own on this machine."""
    from lakekit import spark as ls

    config = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"}
    session = ls.start("local[1]", config=config)
    session.sparkContext.setLogLevel("OFF")

    def run(text: str) -> Answer:
        frame = ls.sql(session, text, catalog=cat)
        return list(frame.columns), [tuple(row) for row in frame.collect()]

    return run


def judged(draws: Iterator[str], oracle: QueryOracle, door: Callable[[str], Answer], count: int) -> QueryVerdicts:
    """Return the verdicts of `count` queries that DuckDB takes."""
    verdicts = QueryVerdicts()
    while verdicts.drawn < count:
        text = next(draws)
        right = oracle.answer(text.replace("LEFT SEMI JOIN", "SEMI JOIN").replace("LEFT ANTI JOIN", "ANTI JOIN"))
        if isinstance(right, Exception):
            continue
        found: Answer | Exception
        try:
            found = door(text)
        except Exception as wrong:  # noqa: BLE001 - whatever it is, it is counted
            found = wrong
        verdicts.count(text, right, found)
    return verdicts


def main() -> None:
    """Print verdicts: `python -m spec_tests.query_doors SEED COUNT [SHOWN] [spark]`."""
    import sys
    import tempfile

    import lakekit as lk

    seed, count = int(sys.argv[1]), int(sys.argv[2])
    shown = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    with tempfile.TemporaryDirectory() as folder:
        cat = lk.connect(folder)
        oracle = QueryOracle(filled(cat, seed))
        spark = sys.argv[4:] == ["spark"]
        door = by_spark(cat) if spark else by_catalog(cat)
        verdicts = judged(queries(seed, shared=spark), oracle, door, count)
    print(f"{'ls.sql' if spark else 'cat.sql'}, seed {seed}: {verdicts}")
    for why, many in verdicts.refused.most_common(shown):
        print(f"  {many:5d} {why}\n        {verdicts.refusals[why][:300]}")
    for text, what in [*sorted(verdicts.different, key=lambda one: len(one[0]))[:shown], *verdicts.renamed[:3]]:
        print(f"  {what}\n        {text[:500]}")


if __name__ == "__main__":
    main()
