"""A plan that is asked for again says what it said, from what was kept of it; and what is kept of entries is of those entries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import ref

import polars as pl
import pytest

import lakekit as lk
from lakekit.model import manifest_entries as columns_of
from lakekit.read import polars_pushdown, table_scan
from lakekit.read.bounds_cache import get_or_compute
from lakekit.runtime import LRUCache, Runtime

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = {
    "bucket": "-1",
    "write-only": "true",
    "file-index.in-manifest-threshold": "1 mb",
    "file-index.bitmap.columns": "k,s,x",
    "file-index.bitmap.k.index-block-size": "64 b",
    "file-index.bloom-filter.columns": "s",
}
ASKED = {
    "in one file": pl.col("k") == 41,
    "in no file": pl.col("k") == 42,
    "in some": pl.col("k").is_in([3, 41, 55]),
    "beyond": pl.col("k") == 2**40,
    "text": pl.col("s") == "s7",
    "real": pl.col("x") == 2.5,
    "both": (pl.col("k") == 41) & (pl.col("x") == 20.5),
    "none of both": (pl.col("k") == 41) & (pl.col("x") == 2.5),
    "not": pl.col("k") != 41,
    "null": pl.col("k").is_null(),
    "no index": pl.col("p") == 1,
    "partly": (pl.col("p") == 1) & (pl.col("k") == 41),
}


def rows(first: int, count: int = 20, p: int = 0) -> pl.DataFrame:
    """Odd numbers, two a row, from all over: least and greatest values leave every file in."""
    keys = [None, -1, 999, *(2 * (first + at) + 1 for at in range(count))]
    return pl.DataFrame(
        {"p": [p] * len(keys), "k": keys, "s": [None if k is None else f"s{k}" for k in keys], "x": [None if k is None else k / 2 for k in keys]},
        schema={"p": pl.Int32, "k": pl.Int32, "s": pl.String, "x": pl.Float64},
    )


def answers(table: lk.Table, asked: pl.Expr) -> pl.DataFrame:
    return table.scan().filter(asked).collect().sort("p", "k", "s", nulls_last=True)


@pytest.mark.long
@pytest.mark.parametrize("partition", [[], ["p"]], ids=["plain", "in partitions"])
def test_what_is_asked_again(tmp_path: Path, partition: list[str]) -> None:
    table = lk.create(tmp_path / "t", rows(0).schema, partition_keys=partition, options=OPTIONS)
    plain = table.with_options({"file-index.read.enabled": "false"})
    others = {"file-index.bitmap.columns": "s", "file-index.bitmap.k.index-block-size": None, "file-index.bloom-filter.columns": "k"}
    changes = [
        lambda: [table.append(rows(at, p=at % 2)) for at in range(0, 60, 10)],
        lambda: table.delete(pl.col("k") == 41),
        lambda: table.append(rows(15, p=1)),
        lambda: table.with_options(others).append(rows(20, p=1)),
        lambda: table.alter(lk.update_type("k", "BIGINT")),
        lambda: table.append(rows(18, p=2).with_columns(pl.col("k").cast(pl.Int64))),
        lambda: table.compact(full=True),
    ]
    for change in changes:
        change()
        for name, asked in ASKED.items():
            said = [table.explain(asked) for _ in range(4)]
            assert len({(one.files_read, tuple(one.steps)) for one in said}) == 1, name
            for _ in range(2):
                assert answers(table, asked).equals(answers(plain, asked)), name
    assert table.explain(ASKED["in no file"]).files_read <= 1


def test_a_shelf_without_room_keeps_nothing_and_says_the_same(tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", rows(0).schema, options=OPTIONS)
    for at in range(0, 60, 10):
        table.append(rows(at))
    small = replace(table._context(), runtime=Runtime(metadata_cache=LRUCache(500)))
    source = table_scan.scan(small)
    for asked in ASKED.values():
        wanted = answers(table, asked)
        condition, _ = polars_pushdown.build_scan_filter(polars_pushdown.filters_of(asked, source.schema()), small.schema)
        for _ in range(3):
            found = source.resolve().frame(condition, None).filter(asked).collect().sort("p", "k", "s", nulls_last=True)
            assert found.equals(wanted)
    assert small.runtime.metadata_cache.size_bytes <= 500


def test_what_is_kept_is_of_those_entries() -> None:
    runtime, one, other = Runtime(), columns_of.empty_entries(), columns_of.empty_entries()
    made = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert get_or_compute(runtime, one, "a", make) is None
    assert [get_or_compute(runtime, one, "a", make), get_or_compute(runtime, one, "a", make)] == [1, 1]
    assert get_or_compute(runtime, other, "a", make) is None
    assert get_or_compute(runtime, one, "b", make) is None
    assert len(made) == 1
    gone = columns_of.empty_entries()
    runtime.metadata_cache.put({(get_or_compute, id(other.table), "a"): (ref(gone.table), (7,))}, 1)  # as if those had been there before
    del gone
    assert [get_or_compute(runtime, other, "a", make), get_or_compute(runtime, other, "a", make)] == [None, 2]
