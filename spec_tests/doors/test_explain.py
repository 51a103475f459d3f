"""The funnel's title says the filter as a person would, and says nothing it did not understand."""

from __future__ import annotations

from datetime import date, datetime

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import SqlError
from lakekit.predicate import FALSE, TRUE, And, Leaf, Or, describe
from lakekit.types import Instant
from spec_tests.doors.views import in_memory


@pytest.fixture(scope="module")
def flights(fixtures_path):
    return lk.open(str(fixtures_path / "flights" / "table"))


@pytest.mark.parametrize(
    ("expr", "title"),
    [
        ((pl.col("day") == date(2013, 2, 8)) & (pl.col("carrier") == "9E"), '(day = 2013-02-08) & (carrier = "9E")'),
        (pl.col("flight") >= 3314, "flight >= 3314"),
        ((pl.col("flight") < 5) | pl.col("carrier").is_null(), "(flight < 5) | (carrier is null)"),
        (pl.col("flight").is_in(range(9)), "flight in (0, 1, 2, 3, 4, … 4 more)"),
        (pl.col("sched_dep") > datetime(2013, 2, 8, 5, 0, 0, 7000), "sched_dep > 2013-02-08 05:00:00.007000"),  # noqa: DTZ001
        (pl.col("flight") % 2 == 0, '[([(col("flight")) % (2)]) == (0)]'),
        (pl.lit(value=True), "true"),
        (~pl.col("carrier").str.starts_with("9"), 'col("carrier").str.starts_with(["9"]).not()'),
    ],
    ids=str,
)
def test_the_title_says_the_filter(flights, expr, title):
    assert flights.explain(expr).condition == title


def test_a_text_is_a_filter_in_sql(flights):
    told = flights.explain("day = '2013-02-08' AND carrier = '9E'")
    same = flights.explain((pl.col("day") == date(2013, 2, 8)) & (pl.col("carrier") == "9E"))
    assert (told.steps, told.rows_read, told.snapshot_id) == (same.steps, same.rows_read, same.snapshot_id)
    for wrong, kind in (("nope = 1", lk.ColumnNotFound), ("day = (", SqlError), (5, TypeError)):
        with pytest.raises(kind, match=r"expr|SQL"):
            flights.explain(wrong)
    with pytest.raises(TypeError, match="expressions of Polars only"):
        flights.explain(aggregates=["flight"])


def test_words_of_a_predicate():
    assert describe(TRUE) == "true"
    assert describe(FALSE) == "false"
    assert describe(Leaf("b", "=", (b"\x01",))) == "b = x'01'"
    assert describe(Leaf("b", "=", (True,))) == "b = true"
    assert describe(Leaf("t", "=", (Instant(-62_135_769_600_000, 0),))) == "t = -62135769600000 ms since 1970"  # a year before datetime's first
    assert describe(Leaf("s", "starts with", ('a"b',))) == 's starts with "a\\"b"'
    assert describe(And((Or((Leaf("a", "is null"), Leaf("b", "<", (Instant(0, 0),)))), Leaf("c", ">", (1.5,))))) == (
        "((a is null) | (b < 1970-01-01 00:00:00)) & (c > 1.5)"
    )


@pytest.mark.parametrize(("kind", "column"), [("bitmap", "v"), ("bsi", "n"), ("range-bitmap", "n"), ("range-bitmap", "v")])
def test_rows_that_an_index_names_are_told(tmp_path, kind, column):
    """A bloom filter knows files only; the others know rows."""
    table = lk.create(tmp_path, {"v": "STRING", "n": "INT"}, options={f"file-index.{kind}.columns": column, "metadata.stats-mode": "none"})
    for turn in range(3):
        table.append([{"v": f"{turn}-{row % 10}", "n": turn * 100 + row % 10} for row in range(50)])
    wanted = pl.col(column) == ("1-3" if column == "v" else 103)
    steps = [(step.what, step.before, step.after, step.why) for step in table.explain(wanted).steps]
    assert steps[-2:] == [("files", 3, 1, "file index"), ("rows", 50, 5, "named by file index")]
    table.alter(lk.reset_option(f"file-index.{kind}.columns"), lk.set_option("file-index.bloom-filter.columns", "v"))
    table.rewrite_file_index()
    assert {step.what for step in table.explain(pl.col("v") == "1-3").steps} == {"files"}


# ---- two branches ----------------------------------------------------------------------------------------------------------------------------

PRIMARY = {"scan.fallback-branch": "", "scan.primary-branch": "stream"}


@pytest.mark.parametrize("expr", [None, pl.col("k") == 1, pl.col("p") == "x", pl.col("p") == "z", pl.col("p") == "nowhere", pl.col("v") == "main"], ids=str)
@pytest.mark.parametrize("options", [{}, PRIMARY, PRIMARY | {"scan.primary-branch": "nothing"}], ids=str)
def test_both_branches_are_told_as_they_are_read(options, expr):
    table = in_memory("history_fallback_branch").with_options(options)
    told = table.explain(expr)
    table.storage.trace.clear()
    lazy = table.scan() if expr is None else table.scan().filter(expr)
    rows = lazy.collect()
    opened = {path for operation, path in table.storage.trace if operation == "read" and "/bucket-" in path}
    assert told.files_read == len(opened)
    assert told.rows_read >= rows.height
    assert dict(told.branches) == ({} if "nothing" in options.values() else {"main": 2, "stream": 2})


def test_the_funnel_of_two_branches(fixtures_path):
    table = lk.open(str(fixtures_path / "tables" / "history_fallback_branch"))
    assert (
        str(table.explain(pl.col("k") == 1))
        == """\
history_fallback_branch at snapshot 2 (schema 1)     filter  k = 1
  files of main    2 → 2   bucket
                   2 → 2   keys k
  files of stream  4 → 3   partitions of the other branch
                   3 → 3   bucket
                   3 → 2   keys k
  branches main at snapshot 2, then stream at snapshot 2
  read     4 of 6 files, 4.9 KiB of 7.3 KiB    merge: none"""
    )
    assert "<p>branches stream at snapshot 2, then main at snapshot 2</p>" in table.with_options(PRIMARY).explain()._repr_html_()
