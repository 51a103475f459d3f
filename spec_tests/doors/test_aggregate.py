"""`t.aggregate` as its user meets it: which files are answered for without being read, which are decoded, and what it says of wrong questions."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.errors import ColumnNotFound, Corrupt, SchemaMismatch
from lakekit.file_index import evaluator
from lakekit.read import aggregate_pushdown, bounds_cache

COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "BIGINT", "s": "STRING", "r": "DOUBLE"}
INDEXED = {"file-index.bsi.columns": "k,v", "file-index.bitmap.columns": "s", "file-index.in-manifest-threshold": "1 mb"}
ALL = (pl.col("v").sum(), pl.col("v").min().alias("least"), pl.col("v").max().alias("most"), pl.col("v").count().alias("there"), pl.len())


def rows(turn: int) -> list[dict]:
    return [{"p": turn % 2, "k": turn * 10 + n, "v": None if n % 4 == 3 else n * (-7) ** turn, "s": "abc"[n % 3], "r": n / 2} for n in range(10)]


def filled(path: Path, *, keyed: bool = False, turns: int = 4, **options: str) -> lk.Table:
    keys = {"primary_keys": ["p", "k"]} if keyed else {}
    given = {"bucket": "1" if keyed else "-1", **INDEXED, **{name.replace("_", "-"): value for name, value in options.items()}}
    table = lk.create(path, COLUMNS, partition_keys=["p"], options=given, **keys)
    for turn in range(turns):
        table.append(rows(turn))
    return table


def check(table: lk.Table, decoded: int, where: pl.Expr | None = None, aggregates: tuple[pl.Expr, ...] = ALL) -> None:
    """The answer is Polars' own, and so many files are decoded for it."""
    frame = table.scan() if where is None else table.scan().filter(where)
    assert_frame_equal(table.aggregate(*aggregates, where=where), frame.select(aggregates).collect())
    assert table.explain(where, aggregates=aggregates).files_read == decoded


def test_nothing_is_read_of_files_whose_index_says_it_all(tmp_path):
    table = filled(tmp_path / "t")
    expected = table.scan().filter(pl.col("s") == "a").select(ALL).collect()
    for path in table.files()["file_path"]:
        Path(path).write_bytes(b"nobody reads this")
    assert_frame_equal(table.aggregate(*ALL, where=pl.col("s") == "a"), expected)
    assert table.aggregate(pl.len()).item() == 40


def test_rows_are_not_looked_for_where_no_index_says_what_they_come_to(tmp_path, monkeypatch):
    table = filled(tmp_path / "t")
    table.alter(lk.reset_option("file-index.bsi.columns"))
    table.rewrite_file_index()
    monkeypatch.setattr(evaluator, "select_rows", None)
    check(table, 4, pl.col("s") == "a")


def test_many_small_files_are_decoded_where_a_condition_would_have_to_be_asked_of_each(tmp_path, monkeypatch):
    table = filled(tmp_path / "t")
    monkeypatch.setattr(aggregate_pushdown, "_FEW_FILES", 3)
    check(table, 4, pl.col("s") == "a")
    check(table, 0)
    monkeypatch.setattr(aggregate_pushdown, "_FEW_ROWS", 10)
    check(table, 0, pl.col("s") == "a")


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "decoded"),
    [
        (None, 0),
        (pl.col("p") == 1, 0),
        ((pl.col("p") == 1) & (pl.col("v") > 3), 0),
        (pl.col("v").is_null() | (pl.col("s") != "b"), 0),
        (pl.col("v").is_in([0, 7, 49]), 0),
        (~(pl.col("v") > 3), 0),
        (pl.lit(value=False), 0),
        (~pl.col("s").str.starts_with("a"), 4),
        (~pl.col("v").is_in([]), 4),
        (~(pl.col("v").is_in([]) | (pl.col("v") == 1)), 4),
        (~((pl.col("v") > 3) & ~pl.col("s").str.starts_with("a")), 4),
        (pl.col("r") > 1, 4),
        (pl.col("v") + 1 > 3, 4),
        (pl.col("v").map_batches(lambda v: v > 3, return_dtype=pl.Boolean), 4),
        ((pl.col("v") > 3) & (pl.col("v") > pl.col("v").mean()), 4),
    ],
    ids=str,
)
def test_conditions_that_indexes_decide(tmp_path, where, decoded):
    check(filled(tmp_path / "t"), decoded, where)


def test_deleted_rows_do_not_count(tmp_path):
    table = filled(tmp_path / "t", **{"deletion-vectors.enabled": "true"})
    table.delete("k in (0, 5, 12, 39)")
    check(table, 0)
    check(table, 0, pl.col("s") == "a")
    assert table.aggregate(pl.len()).item() == 36


def test_files_without_an_index_are_decoded_and_those_alone(tmp_path):
    table = filled(tmp_path / "t")
    table.alter(lk.reset_option("file-index.bsi.columns"))
    table.append(rows(4))
    check(table, 1)
    told = table.explain(aggregates=ALL)
    assert str(told.steps[-1].why) == "answered by bsi v"
    assert (told.steps[-1].before, told.steps[-1].after, told.files_total) == (5, 1, 5)


def test_columns_of_another_time(tmp_path):
    table = filled(tmp_path / "t")
    table.alter(lk.reset_option("file-index.bsi.columns"))
    table.alter(lk.rename_column("v", "w"), lk.add_column("v", "BIGINT"))
    check(table, 4)
    check(table, 0, aggregates=(pl.col("w").sum(), pl.col("k").max()))
    table.alter(lk.update_type("k", "BIGINT"))
    check(table, 4, aggregates=(pl.col("w").sum(), pl.col("k").max()))
    check(table, 0, aggregates=(pl.col("w").sum(),))


@pytest.mark.long
def test_rows_that_are_merged_are_decoded(tmp_path):
    table = filled(tmp_path / "t", keyed=True, **{"write-only": "true"})
    check(table, 0)  # no key twice
    table.upsert([{"p": 0, "k": 3, "v": 1000, "s": "z", "r": 0.0}, {"p": 0, "k": 900, "v": 5, "s": "z", "r": 0.0}])
    check(table, 3)
    table.compact(full=True)
    check(table, 0)
    table.upsert(
        pl.DataFrame([{"p": 1, "k": 5000, "v": 9, "s": "z", "r": 0.0, "kind": "-D"}], schema_overrides={"p": pl.Int32, "k": pl.Int32}), row_kind="kind"
    )
    check(table, 1)  # a delete that stands alone


def test_what_indexes_do_not_hold_is_read(tmp_path):
    table = filled(tmp_path / "t")
    for aggregates in ((pl.col("r").sum(),), (pl.col("v").mean(),), (pl.col("v").sum() + 1,), (pl.col("v").sum(), pl.col("r").max()), (pl.col("v") * 2,)):
        check(table, 4, aggregates=aggregates)
    check(table.with_options({"file-index.read.enabled": "false"}), 4)
    check(table.with_options({"scan.ignore-lost-files": "true"}), 4)


def test_empty_tables_and_older_states(tmp_path):
    table = lk.create(tmp_path / "t", COLUMNS, options=INDEXED)
    assert_frame_equal(table.aggregate(*ALL), table.scan().select(ALL).collect())
    table.append(rows(0))
    table.append(rows(1))
    assert_frame_equal(table.aggregate(*ALL, at=1), table.scan(at=1).select(ALL).collect())
    assert table.aggregate(pl.len(), where="v > 14 AND s = 'a'").item() == table.scan().filter(pl.sql_expr("v > 14 AND s = 'a'")).collect().height


def test_two_branches_are_one_answer(tmp_path):
    table = filled(tmp_path / "t")
    table.create_branch("b")
    table.branch("b").append([{**row, "p": 7} for row in rows(3)])
    both = table.with_options({"scan.fallback-branch": "b"})
    assert both.aggregate(pl.len()).item() == 50
    check(both, 0)


@pytest.mark.long
def test_sums_wrap_as_polars_sums_do(tmp_path):
    table = lk.create(tmp_path / "t", {"a": "INT", "b": "BIGINT", "c": "TINYINT"}, options={"file-index.bsi.columns": "a,b,c", "bucket": "-1"})
    for _ in range(3):
        table.append([{"a": 2**31 - 1, "b": 2**63 - 1, "c": 127}, {"a": None, "b": None, "c": 127}])
    every = (pl.all().sum(),)
    check(table, 0, aggregates=every)
    table.alter(lk.reset_option("file-index.bsi.columns"))
    table.append([{"a": 2**31 - 1, "b": 2**63 - 1, "c": 127}])
    check(table, 1, aggregates=every)


def test_wrong_questions(tmp_path):
    table = filled(tmp_path / "t", turns=1)
    with pytest.raises(TypeError, match="at least one expression"):
        table.aggregate()
    with pytest.raises(ColumnNotFound, match="'nope'"):
        table.aggregate(pl.len(), where="nope = 1")
    with pytest.raises(SchemaMismatch, match="a condition is true or false"):
        table.aggregate(pl.len(), where=pl.col("v") + 1)
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        table.aggregate(pl.col("nope").sum())
    with pytest.raises(pl.exceptions.DuplicateError):
        table.aggregate(pl.col("v").sum(), pl.col("v").max())
    with pytest.raises(TypeError, match="expressions of Polars"):
        table.aggregate("v")


# ---- what was said before -----------------------------------------------------------------------------------------------------------------------------


def beside(path: Path) -> list[Path]:
    return sorted(path.rglob("*.index"))


def test_what_an_index_said_of_a_whole_file_is_not_asked_again(tmp_path):
    table = filled(tmp_path / "t", **{"file-index.in-manifest-threshold": "1 b"})
    expected = table.scan().select(ALL).collect()
    assert_frame_equal(table.aggregate(*ALL), expected)
    before = beside(tmp_path / "t")
    assert len(before) == 4
    for path in before:
        path.write_bytes(b"nobody reads this")
    assert_frame_equal(table.aggregate(*ALL), expected)
    assert_frame_equal(lk.open(tmp_path / "t").aggregate(ALL[0], ALL[2]), expected.select("v", "most"))
    table.append(rows(4))
    assert_frame_equal(table.aggregate(*ALL), table.scan().select(ALL).collect())
    with pytest.raises(Corrupt, match="no file index"):
        table.aggregate(*ALL, where=pl.col("v") > 3)
    with pytest.raises(Corrupt, match="no file index"):
        table.aggregate(pl.col("k").sum())


def test_bounds_are_asked_for_when_they_are_wanted(tmp_path):
    table = filled(tmp_path / "t")
    for aggregates in ((pl.col("v").sum(),), (pl.col("v").max(), pl.col("k").count()), (pl.col("v").sum(), pl.col("k").min())):
        for _ in range(2):
            check(table, 0, aggregates=aggregates)
    table.append(rows(4))
    check(table, 0, aggregates=(pl.col("v").sum(),))
    check(table, 0, aggregates=(pl.col("v").min(), pl.col("k").sum()))


def test_what_was_said_is_of_a_column_of_that_type_and_of_rows_that_are_still_there(tmp_path):
    table = filled(tmp_path / "t", **{"deletion-vectors.enabled": "true"})
    check(table, 0)
    table.delete("k in (0, 5, 12, 39)")
    check(table, 0)
    table.alter(lk.reset_option("file-index.bsi.columns"))
    table.alter(lk.rename_column("v", "w"), lk.add_column("v", "BIGINT"))
    check(table, 4)
    check(table, 0, aggregates=(pl.col("w").sum(), pl.col("w").max().alias("most")))
    check(table, 0, aggregates=(pl.col("k").sum(),))
    table.alter(lk.update_type("k", "BIGINT"))
    check(table, 4, aggregates=(pl.col("k").sum(),))


@pytest.mark.parametrize("most", [1 << 16, 2])
def test_only_files_that_were_asked_for_last_are_remembered_beyond_some(tmp_path, monkeypatch, most):
    monkeypatch.setattr(bounds_cache, "_MAX_PATHS", most)
    table = filled(tmp_path / "t", **{"file-index.in-manifest-threshold": "1 b"})
    total = pl.col("v").sum()
    expected = table.aggregate(total)
    for path in beside(tmp_path / "t"):
        path.write_bytes(b"nobody reads this")
    assert_frame_equal(table.aggregate(total), expected)
    table.truncate()
    table.append(rows(4))
    check(table, 0, aggregates=(total,))
    if most > 2:
        assert_frame_equal(table.aggregate(total, at=4), expected)
        return
    with pytest.raises(Corrupt, match="no file index"):
        table.aggregate(total, at=4)
