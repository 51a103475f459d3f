"""Texts of `sql_functions` in Spark: for each name of the table whether Spark has it, and whether it gives the same values.

Spark runs as it is installed: where a sum is beyond its type, a divisor is 0, or a place is beyond a list, it fails, and such a text says nothing
of its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from lakekit.expressions.parser import SqlText, parse_text
from lakekit.expressions.scope import Scope, TableScope
from lakekit.expressions.translation import Translation
from spec_tests.sql_functions import CALLS, MAP, computed, drawn, is_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

OTHERS: dict[str, tuple[str, ...]] = {
    "locate": ("locate('b', s)", "locate(u, s)"),
    "nvl": ("nvl(a, c)", "nvl(s, '')"),
    "now": ("now() > tz",),
    "to_date": ("to_date(ts)", "to_date(dt)", "to_date('2024-02-29')"),
    "array_size": ("array_size(l)", "array_size(ls)"),
    "cardinality": ("cardinality(l)", "cardinality(m)"),
    "size": ("size(l)", "size(ls)"),
    "map_keys": ("map_keys(m)",),
    "map_values": ("map_values(m)",),
}
"""Texts of the names that DuckDB has not, or has with another meaning."""
FORM_CALLS: dict[str, str] = {
    "AND, OR, NOT": "o AND NOT a > 1 OR NULL",
    "IS [NOT] NULL, TRUE, FALSE, UNKNOWN": "(a > 1) IS NOT TRUE",
    "[NOT] IN (…)": "(a, c) IN ((1, 7), (0, NULL))",
    "[NOT] BETWEEN": "a NOT BETWEEN c AND 10",
    "[NOT] LIKE, ILIKE … ESCAPE": "s LIKE 'back\\slash'",
    "CASE, IF, IIF": "CASE WHEN a > 1 THEN a WHEN o THEN 2.5 END",
    "CAST, TRY_CAST, ::": "TRY_CAST(d AS INT)",
    "trim, ltrim, rtrim": "trim(s, 'ax')",
    "extract(part FROM …)": "extract(dow FROM dt)",
    "date_trunc, date_diff": "date_trunc('month', ts)",
    "DATE, TIME, TIMESTAMP '…', INTERVAL '…' unit": "tz > TIMESTAMPTZ '2024-02-29 12:00:00+00'",
    "current_date, current_timestamp, now(), today()": "current_date() > dt",
    "r.field, list[1], map['key']": "l[1]",
}
"""A text of each form that shows its meaning."""
_GROUP = 40


@dataclass(frozen=True, slots=True)
class SparkVerdict:
    """What Spark makes of a text: `kind` is same, other (values), absent, or fails (for a value)."""

    kind: str
    shown: str


class SparkJudge:
    """Spark and lakekit over the same drawn rows."""

    def __init__(self, spark: SparkSession, seed: int, count: int = 80) -> None:
        rng = Random(seed)
        entries = [[{"key": key, "value": rng.choice([None, 1, 2])} for key in rng.sample(["a", "b", ""], rng.randrange(4))] for _ in range(count)]
        self.rows = drawn(seed, count).with_columns(pl.Series("m", entries, dtype=MAP))
        table = self.rows.drop("ti", "m").to_arrow()  # Spark has no TIME
        maps = pa.array([[(entry["key"], entry["value"]) for entry in row] for row in entries], pa.map_(pa.string(), pa.int32()))
        self._frame: DataFrame = spark.createDataFrame(table.append_column("m", maps)).coalesce(1).localCheckpoint()

    def verdicts(self, texts: Sequence[str]) -> dict[str, SparkVerdict]:
        """Return what Spark makes of each text; it computes many at once."""
        from pyspark.errors import PySparkException

        made: dict[str, SparkVerdict] = {}
        for text in texts:
            try:
                _ = self._frame.selectExpr(f"{text} AS v").schema
            except PySparkException as wrong:
                made[text] = SparkVerdict("absent", str(wrong)[:100])
        known = [text for text in texts if text not in made]
        for at in range(0, len(known), _GROUP):
            made |= self._compared(known[at : at + _GROUP])
        return made

    def _compared(self, texts: Sequence[str]) -> dict[str, SparkVerdict]:
        from pyspark.errors import PySparkException

        try:
            found = self._frame.selectExpr(*(f"{text} AS v{at}" for at, text in enumerate(texts))).toArrow()
        except PySparkException as wrong:
            if len(texts) == 1:
                return {texts[0]: SparkVerdict("fails", str(wrong)[:100])}
            half = len(texts) // 2
            return self._compared(texts[:half]) | self._compared(texts[half:])
        frame = pl.DataFrame(pl.from_arrow(found))
        made = {}
        for text, name in zip(texts, frame.columns, strict=True):
            pairs = list(zip(self._own(text), _values(frame[name]), strict=True))
            others = [pair for pair in pairs if not is_same(*pair)]
            made[text] = SparkVerdict("other" if others else "same", str(others[:2]))
        return made

    def _own(self, text: str) -> list[Any]:
        source = SqlText(text, "text")
        scope = Scope(sides=(TableScope(names=("drawn",), columns=dict(self.rows.schema)),))
        values = _values(computed(self.rows, Translation(source, scope).run(parse_text(source)).expr))
        return values * self.rows.height if len(values) == 1 else values


def _values(values: pl.Series) -> list[Any]:
    """Return Python's values; days and moments are counts of microseconds, which has years beyond 9999."""
    if isinstance(values.dtype, pl.Datetime):
        return values.cast(pl.Datetime("us", values.dtype.time_zone)).to_physical().to_list()
    if isinstance(values.dtype, pl.Date):
        return (values.to_physical().cast(pl.Int64) * 86_400_000_000).to_list()
    return values.to_list()


def texts_of(name: str) -> Sequence[str]:
    """Return the texts that show the meaning of a name of the table, or of a form."""
    return (FORM_CALLS[name],) if name in FORM_CALLS else CALLS[name] or OTHERS[name]
