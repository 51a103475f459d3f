"""The tables of the bench: what is in each commit, and what the reference engine does to them between commits.

The rival writes them all. It cannot compact and cannot mark rows of a plain append table as deleted: for that the reference engine is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from spec_tests.bench import rows as data

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS = 100
DELETED = pl.col("grp") < 100
"""A tenth of the rows, scattered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the bench. `share` of the run's rows are written to it, or `fixed` rows whatever the run; `ids` says how keys spread over commits.

    `after`: what the reference engine does after a commit, by its number: "full" or "minor" compaction, or "delete" (a tenth of the rows).
    """

    name: str
    ids: str = "plain"
    commits: int = 1
    share: float = 1.0
    fixed: int | None = None
    kind: str = "ten"
    nulls: float = 0.0
    text_key: bool = False
    keyed: bool = False
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    after: dict[int, str] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        return (data.KEY_COLUMN,) if self.keyed else ()

    @property
    def schema(self) -> pa.Schema:
        return data.columns(self.kind, text_key=self.text_key, partition=bool(self.partitions))

    @property
    def engine(self) -> str:
        return self.options.get("merge-engine", "deduplicate") if self.keyed else "none"

    def row_count(self, run_rows: int) -> int:
        """How many rows all commits have together."""
        return self.fixed or int(run_rows * self.share)

    def frame(self, run_rows: int, commit: int) -> pl.DataFrame:
        """The rows of one commit; commits beyond the table's own go on where it ends."""
        count = self.row_count(run_rows)
        each = count // self.commits
        match self.ids:
            case "uniform":
                ids = data.uniform_ids(count, self.commits)[commit]
            case "delta":
                ids = data.delta_ids(count, self.commits)[commit]
            case _:
                ids = np.arange(commit * each, (commit + 1) * each)
        frame = data.wide(ids, 200 + commit) if self.kind == "wide" else data.mixed(ids, 200 + commit, self.nulls)
        if self.partitions:
            frame = frame.with_columns(dt=pl.format("p{}", (pl.col(data.KEY_COLUMN) % PARTITIONS).cast(pl.String).str.zfill(3)))
        return data.with_text_key(frame) if self.text_key else frame

    def commit(self, run_rows: int, commit: int) -> pa.Table:
        return data.arrow(self.frame(run_rows, commit), self.schema)

    def expected(self, run_rows: int) -> pl.DataFrame:
        """What a reader must see."""
        found = data.merged([self.frame(run_rows, commit) for commit in range(self.commits)], self.engine)
        return found.filter(~DELETED) if "delete" in self.after.values() else found


APPEND, KEYED = {"bucket": "-1"}, {"bucket": "4"}
PARTIAL = {**KEYED, "merge-engine": "partial-update"}
SUMS = {
    **KEYED,
    "merge-engine": "aggregation",
    "fields.default-aggregate-function": "last_non_null_value",
    **{f"fields.{name}.aggregate-function": function for name, function in data.FOLDED.items()},
}
VECTORS = {"deletion-vectors.enabled": "true"}
FEW = 10_000

_TABLES = (
    Table(name="plain", commits=4, options=APPEND),
    Table(name="plain_few", commits=4, fixed=FEW, options=APPEND),
    Table(name="uniform", ids="uniform", commits=5, keyed=True, options=KEYED),
    Table(name="uniform_few", ids="uniform", commits=5, fixed=FEW, keyed=True, options=KEYED),
    Table(name="uniform_text", ids="uniform", commits=5, keyed=True, text_key=True, options=KEYED),
    Table(name="delta", ids="delta", commits=5, keyed=True, options=KEYED, after={0: "full"}),
    Table(name="groups", ids="delta", commits=5, keyed=True, options={**KEYED, "parquet.block.size": "1048576"}, after={0: "full"}),
    Table(name="partial", ids="uniform", commits=5, nulls=0.5, keyed=True, options=PARTIAL),
    Table(name="partial_few", ids="uniform", commits=5, fixed=FEW, nulls=0.5, keyed=True, options=PARTIAL),
    Table(name="partial_text", ids="uniform", commits=5, nulls=0.5, keyed=True, text_key=True, options=PARTIAL),
    Table(name="sums", ids="uniform", commits=5, keyed=True, options=SUMS),
    Table(name="sums_few", ids="uniform", commits=5, fixed=FEW, keyed=True, options=SUMS),
    Table(name="sums_text", ids="uniform", commits=5, keyed=True, text_key=True, options=SUMS),
    Table(name="plain_vectors", commits=4, options={**APPEND, **VECTORS}, after={3: "delete"}),
    Table(name="key_vectors", ids="delta", commits=5, keyed=True, options={**KEYED, **VECTORS}, after={0: "full", 4: "minor"}),
    Table(name="small_files", commits=200, options=APPEND),
    Table(name="tiny_files", commits=200, fixed=20_000, options=APPEND),
    Table(name="parted", commits=100, fixed=100 * PARTITIONS * 10, partitions=("dt",), options=APPEND),
    Table(name="ten_files", commits=10, fixed=10_000, options=APPEND),
    Table(name="wide", ids="uniform", commits=5, share=0.1, kind="wide", keyed=True, options=KEYED),
    Table(name="huge", ids="uniform", commits=5, share=20.0, keyed=True, options=KEYED),
)
ALL = {table.name: table for table in _TABLES}
