"""A drawn query gives through `cat.sql` what DuckDB gives of the same rows, under the same names, or is refused by name; few are.

`LAKEKIT_SQL_QUERIES` is how many queries are drawn for each of the tables' seeds, `LAKEKIT_SQL_SEED` where the draws begin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from spec_tests.drawn_queries import QueryOracle, filled, queries
from spec_tests.query_doors import by_catalog, judged

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = int(os.environ.get("LAKEKIT_SQL_QUERIES", "60"))
SEED = int(os.environ.get("LAKEKIT_SQL_SEED", "1"))
REFUSED = 0.02
"""The share of draws that may be refused by name."""


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_a_query_gives_what_duckdb_gives(tmp_path: Path, seed: int) -> None:
    cat = lk.connect(tmp_path)
    oracle = QueryOracle(filled(cat, seed))
    verdicts = judged(queries(seed), oracle, by_catalog(cat), QUERIES)
    assert verdicts.different == []
    assert verdicts.renamed == []
    assert sum(verdicts.refused.values()) <= max(QUERIES * REFUSED, 2), verdicts.refused
