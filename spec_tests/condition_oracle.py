"""DuckDB's answer to a drawn condition: the ids of the rows of which it is true.

A draw is two texts, as `drawn_conditions` says: the second is asked only where DuckDB raises for the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from spec_tests.drawn_conditions import Draw

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Answer:
    """What DuckDB says: the ids of the rows of which the condition is true; or that it raises, and the ids by the wide text, if they are known.

    `judged` are the ids that `wide` speaks of; None for all.
    """

    ids: frozenset[int] | None
    problem: str = ""
    wide: frozenset[int] | None = None
    judged: frozenset[int] | None = None

    def is_equal(self, found: frozenset[int]) -> bool:
        """Return whether these rows are the answer."""
        if self.judged is not None:
            return found & self.judged == self.wide
        return found in (self.ids, self.wide)


class ConditionOracle:
    """DuckDB over an Arrow table of the rows."""

    def __init__(self, rows: pl.DataFrame) -> None:
        import duckdb

        self._con: duckdb.DuckDBPyConnection = duckdb.connect(config={"threads": 1})
        self._con.execute("SET TimeZone = 'UTC'")
        arrow = rows.with_columns(pl.col("tm").cast(pl.Int64)).to_arrow()  # noqa: F841 - read by name
        changed = "TIME '00:00:00' + to_microseconds(tm // 1000) AS tm, map_from_entries(m) AS m"
        self._con.execute(f"CREATE TABLE drawn AS SELECT * REPLACE ({changed}) FROM arrow")
        types = dict(self._con.execute("SELECT column_name, column_type FROM (DESCRIBE drawn)").fetchall())
        assert types["t9"] == "TIMESTAMP_NS", types
        assert types["tm"] == "TIME", types
        self._con.execute("CREATE TABLE micros AS SELECT * REPLACE (t9::TIMESTAMP AS t9) FROM drawn WHERE t9 IS NULL OR t9::TIMESTAMP::TIMESTAMP_NS = t9")
        self._micros = frozenset(key for (key,) in self._con.execute("SELECT id FROM micros").fetchall())

    def answer(self, draw: Draw) -> Answer | None:
        """Return the answer; None where DuckDB does not take the text at all."""
        import duckdb

        draw = Draw(*(text.replace("`", '"') for text in (draw.text, draw.wide)))  # DuckDB has no back quotes
        try:
            self._con.execute("SET error_on_division_by_zero = true")
            return Answer(self._ids(draw.text))
        except (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException):
            return None
        except duckdb.Error as wrong:
            problem = f"{type(wrong).__name__}: {str(wrong)[:160]}"
        # a far day meets nanoseconds, which lakekit compares; in microseconds, they would be rounded
        is_far = "higher precision" in problem or "be cast to the destination type INT64" in problem
        try:
            self._con.execute("SET error_on_division_by_zero = false")
            if is_far:
                return Answer(None, problem, self._ids(draw.wide, "micros"), self._micros)
            return Answer(None, problem, self._ids(draw.wide))
        except duckdb.Error:
            return Answer(None, problem)

    def agrees_as_written(self, draw: Draw, found: frozenset[int]) -> bool:
        """Return whether DuckDB finds these rows when it does not rewrite the condition.

        Its rewriting of `date_trunc('hour', a DATE) >= TIMESTAMP '…'` compares days (2.0.1), so that it differs from what the call gives.
        """
        import duckdb

        self._con.execute("SET disabled_optimizers = 'expression_rewriter'")
        try:
            return self._ids(draw.text.replace("`", '"')) == found
        except duckdb.Error:
            return False
        finally:
            self._con.execute("RESET disabled_optimizers")

    def matching_ids(self, text: str) -> frozenset[int]:
        """Return the ids of the rows that a WHERE keeps, whose parts are computed one after the other."""
        return frozenset(key for (key,) in self._con.execute(f"SELECT id FROM drawn WHERE {text}").fetchall())

    def _ids(self, text: str, rows: str = "drawn") -> frozenset[int]:
        found = self._con.execute(f"SELECT id, ({text}\n) AS verdict FROM {rows}").fetchall()
        if found and not isinstance(found[0][1], bool | None):
            import duckdb

            msg = "no condition"
            raise duckdb.BinderException(msg)
        return frozenset(key for key, verdict in found if verdict)
