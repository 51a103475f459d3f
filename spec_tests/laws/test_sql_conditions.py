"""A drawn condition finds at every door the rows that DuckDB finds, or is refused by name; few are.

`LAKEKIT_SQL_DRAWS` is how many conditions each door gets over each kind of table, `LAKEKIT_SQL_SEED` where the draws begin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from spec_tests.condition_doors import DOORS, OPTIONS, judged, table_and_oracle
from spec_tests.drawn_conditions import conditions

if TYPE_CHECKING:
    from pathlib import Path

DRAWS = int(os.environ.get("LAKEKIT_SQL_DRAWS", "15"))
SEED = int(os.environ.get("LAKEKIT_SQL_SEED", "1"))
REFUSED = 0.02
"""The share of draws that may be refused by name."""


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("door", DOORS)
def test_a_condition_finds_the_rows_that_duckdb_finds(tmp_path: Path, door: str, kind: str) -> None:
    table, oracle = table_and_oracle(tmp_path, kind, SEED)
    verdicts = judged(conditions(f"{SEED} {door} {kind}"), oracle, table, door, DRAWS)
    assert verdicts.different == []
    assert sum(verdicts.refused.values()) <= max(DRAWS * REFUSED, 2), verdicts.refused


@pytest.mark.parametrize("text", ["i32 = '5'", "'1.5' < f64", "d92 IN ('1', '2')", "dt = 5", "t3 > 0", "tm < 1", "dt = 'no day'", "s = 5"])
def test_a_number_meets_no_text_and_a_day_no_number(tmp_path: Path, text: str) -> None:
    from lakekit.errors import LakekitError

    table, _ = table_and_oracle(tmp_path, "append", SEED, rows=6)
    with pytest.raises(LakekitError):
        table.catalog().table("db.t").delete(text)
