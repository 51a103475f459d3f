"""The lines of the bench: what is read, and the most that it may cost beside the limit and beside the rival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spec_tests.bench import rows as data, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TWO = ("id", "price")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One measured line. `how` says how it is measured: "turns" (in processes that stay), "cold" (in fresh ones), "warm" (in ones that
    stay and may remember), "again" (after one new snapshot),
    "memory" (peaks in fresh processes), "sink" (a peak in MB), "slope" (processor time that a row more costs beyond its decoding, in ns).

    `limit`, `rival`: at most so many times those; for "memory" and "sink" `most` is the bound, for "slope" too.
    """

    group: str
    what: str
    table: str
    how: str = "turns"
    op: str = "read"
    columns: Sequence[str] | None = None
    where: Callable[[int], Sequence[tuple[str, str, Any]]] | None = None
    limit: float | None = None
    rival: float | None = None
    most: float | None = None

    @property
    def name(self) -> str:
        return f"{self.group}: {self.what}"

    @property
    def needs_reference(self) -> bool:
        """Whether the reference engine has a part in its table."""
        return bool(tables.ALL[self.table].after)

    def arguments(self, run_rows: int) -> dict[str, Any]:
        """What the systems are asked."""
        found: dict[str, Any] = {"table": self.table}
        if self.columns is not None:
            found["columns"] = list(self.columns)
        if self.where is not None:
            found["where"] = list(self.where(tables.ALL[self.table].row_count(run_rows)))
        return found


def scattered(_count: int) -> list[tuple[str, str, Any]]:
    return [("grp", "==", 5)]


def one_key(count: int) -> list[tuple[str, str, Any]]:
    ids = data.uniform_ids(count, 5)[0]
    return [("id", "==", int(ids[len(ids) // 2]))]


def one_partition(_count: int) -> list[tuple[str, str, Any]]:
    return [("dt", "==", "p042")]


def some(share: float) -> Callable[[int], list[tuple[str, str, Any]]]:
    """That share of the keys, from the middle on."""

    def where(count: int) -> list[tuple[str, str, Any]]:
        first = count // 2
        return [("id", ">=", first), ("id", "<", first + max(1, int(count * share)))]

    return where


LINES = (
    Line(group="append", what="full", table="plain", limit=1.10, rival=0.6),
    Line(group="append", what="2 of 10 columns", table="plain", columns=TWO, limit=1.15, rival=0.6),
    Line(group="append", what="scattered filter, 0.1 %", table="plain", where=scattered, limit=1.15, rival=0.7),
    Line(group="append", what="range filter, 0.1 %", table="plain", where=some(0.001), limit=1.3, rival=1.0),
    Line(group="key table, 5 runs", what="int key", table="uniform", limit=1.8, rival=0.5),
    Line(group="key table, 5 runs", what="string key", table="uniform_text", limit=2.4, rival=0.6),
    Line(group="key table, 5 runs", what="base + delta", table="delta", limit=1.4, rival=0.5),
    Line(group="key table, 5 runs", what="2 columns", table="uniform", columns=TWO, limit=3.0, rival=0.5),
    Line(group="key table, 5 runs", what="value filter, 0.1 %", table="uniform", where=scattered, limit=2.0, rival=0.5),
    Line(group="key table, 5 runs", what="one key, 2 columns", table="uniform", columns=TWO, where=one_key, limit=0.6, rival=1.0),
    Line(group="partial-update", what="int key", table="partial", limit=3.0, rival=0.3),
    Line(group="partial-update", what="string key", table="partial_text", limit=5.5, rival=0.5),
    Line(group="aggregation", what="int key", table="sums", limit=2.5, rival=0.3),
    Line(group="aggregation", what="string key", table="sums_text", limit=4.0, rival=0.5),
    Line(group="deletion vectors, 10 %", what="append", table="plain_vectors", limit=1.3, rival=0.6),
    Line(group="deletion vectors, 10 %", what="key table", table="key_vectors", limit=1.5, rival=0.6),
    Line(group="200 small files", what="100 rows each", table="tiny_files", limit=2.0, rival=0.5),
    Line(group="200 small files", what="all rows", table="small_files", limit=2.0, rival=0.5),
    Line(group="merged table", what="projection + key filter, 1 %", table="groups", columns=TWO, where=some(0.01), limit=1.5, rival=1.0),
    Line(group="plan 10,000 files", what="cold", table="parted", how="cold", op="plan", rival=1.0),
    Line(group="plan 10,000 files", what="1 of 100 partitions, cold", table="parted", how="cold", op="plan", where=one_partition, rival=0.7),
    Line(group="plan 10,000 files", what="1 of 100 partitions", table="parted", how="warm", op="plan", where=one_partition, rival=0.7),
    Line(group="plan 10,000 files", what="again after one new snapshot", table="parted", how="again", op="plan", rival=0.2),
    Line(group="10 files", what="open + plan + count(*)", table="ten_files", op="count", rival=1.0),
    Line(group="peak memory of a merge read", what="int key", table="uniform", how="memory", most=1.6),
    Line(group="peak memory of a merge read", what="string key", table="uniform_text", how="memory", most=1.6),
    Line(group="peak memory of a merge read", what="partial-update", table="partial", how="memory", most=1.6),
    Line(group="peak memory of a merge read", what="aggregation", table="sums", how="memory", most=1.6),
    Line(group="memory of a sink", what="20 × the rows, key table to Parquet, in MB", table="huge", how="sink", op="sink", most=1536),
    Line(group="200 columns", what="key table, 5 runs", table="wide", limit=2.0),
    Line(group="CPU beyond decoding, ns a row", what="append", table="plain", how="slope", most=200),
    Line(group="CPU beyond decoding, ns a row", what="deduplicate", table="uniform", how="slope", most=200),
    Line(group="CPU beyond decoding, ns a row", what="partial-update", table="partial", how="slope", most=200),
    Line(group="CPU beyond decoding, ns a row", what="aggregation", table="sums", how="slope", most=200),
)


def chosen(words: Sequence[str]) -> list[Line]:
    """The lines whose name, table or way of measuring holds one of the words; all of them without any."""
    return [line for line in LINES if not words or any(word in f"{line.name} | {line.table} | {line.how}" for word in words)]
