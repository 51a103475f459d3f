"""`t.compact` as its user meets it: rows stay, files and levels change; some partitions, postponed rows, wrong input."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import SqlError
from lakekit.inspection import timeline
from lakekit.maintenance import rewrite

COLUMNS = {"p": "INT", "k": "INT", "v": "STRING"}
KEY = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}


def rows_of(table: lk.Table) -> dict[tuple[int, int], str]:
    return {(p, k): v for p, k, v in table.scan().collect().rows()}


def filled(path, **options: str) -> tuple[lk.Table, dict[tuple[int, int], str]]:
    """Six commits over the same keys, one of them with deletes."""
    table, want = lk.create(path, COLUMNS, **KEY, options=options), {}
    for turn in range(6):
        rows = [{"p": k % 2, "k": k, "v": f"{turn}.{k}"} for k in range(turn, 20)]
        table.upsert(rows)
        want |= {(row["p"], row["k"]): row["v"] for row in rows}
    table.upsert([{"p": 0, "k": 0, "v": None, "_row_kind": "-D"}], row_kind="_row_kind")
    del want[0, 0]
    return table, want


def levels(table: lk.Table) -> dict[str, set[int]]:
    return {place[0]: set(some["level"]) for place, some in table.files().group_by("partition")}


@pytest.mark.long
def test_rows_stay_and_files_move_to_the_highest_level(tmp_path):
    table, want = filled(tmp_path, **{"bucket": "2", "write-only": "true"})
    done = table.compact(full=True)
    assert (done.kinds, done.removed_file_count) == (("COMPACT",), 25)
    assert levels(table) == {"p=0": {5}, "p=1": {5}}
    assert table.files()["delete_row_count"].sum() == 0
    assert rows_of(table) == want
    assert table.compact(full=True).snapshot_ids == ()


@pytest.mark.long
@pytest.mark.parametrize("where", ["p = 1", pl.col("p") == 1])
def test_some_partitions(tmp_path, where):
    table, want = filled(tmp_path, **{"bucket": "2", "write-only": "true"})
    table.compact(where=where)
    assert levels(table) == {"p=0": {0}, "p=1": {5}}
    assert rows_of(table) == want


@pytest.mark.long
@pytest.mark.parametrize(("where", "said"), [("v = 'x'", "'v' is no partition column"), ("p ==", "an operand of = is missing")])
def test_conditions_that_choose_no_partition(tmp_path, where, said):
    table, want = filled(tmp_path, **{"bucket": "1", "write-only": "true"})
    with pytest.raises(lk.InvalidOption, match=said):
        table.compact(where=where)
    assert rows_of(table) == want


@pytest.mark.parametrize("chore", ["compact", "rewrite_file_index"])
@pytest.mark.parametrize(
    ("where", "error", "said"),
    [("p = 'one'", lk.SchemaMismatch, "compares a number with a text"), ("p + 1", lk.SchemaMismatch, "true or false"), ({"p": 1}, TypeError, "not dict")],
)
def test_conditions_that_do_not_fit(tmp_path, chore, where, error, said):
    table, want = filled(tmp_path, **{"bucket": "1", "write-only": "true"})
    with pytest.raises(error, match=said):
        getattr(table, chore)(where=where)
    assert rows_of(table) == want


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("d = '2024-03-31'", [1, 3]),
        ("'2024-03-30' < d", [1, 3]),
        ("d IN ('2024-03-29', '2024-03-31')", [3]),
        ("d NOT IN ('2024-03-31')", [2]),
        ("d BETWEEN '2024-03-29' AND '2024-03-30' OR v > 2", [2]),
        ("at >= '2024-03-30 12:00:00' AND d <> DATE '2024-03-30'", [1, 3]),
        ("CASE WHEN d > '2024-03-30' THEN true ELSE s = '2024-03-29' END", [3]),
        ("s > '2024-03-28' AND d = '2024-03-29'", [2, 3]),
        ("d > '2024-03-30 12:00:00' AND v > 0", "is compared with a day, and is a moment"),
        ("d = '2024-02-30'", "is no day of the years 1 to 9999"),
        ("d = 'today'", "'today' is no DATE; write '2024-03-31'"),
        ("d > s", "d is DATE, and s is STRING: CAST one of them"),
        ("d > '2024-03-30' AND sum(v) > 3", "line 1, column 22: sum\\(\\) is an aggregate"),
    ],
)
def test_a_text_beside_a_date_is_a_date(tmp_path, where, left):
    """As SQL has it; what says no date, and what is no text of the query's own, is refused before anything is read."""
    table = lk.create(tmp_path, {"d": "DATE", "at": "TIMESTAMP(6)", "s": "STRING", "v": "INT"}, partition_keys=["d"])
    days = [date(2024, 3, 29), date(2024, 3, 31), date(2024, 3, 30)]
    table.append([{"d": day, "at": datetime(day.year, day.month, day.day, 12), "s": str(day), "v": v} for v, day in enumerate(days, 1)])  # noqa: DTZ001
    if isinstance(left, str):
        for act in (table.delete, lambda where: table.aggregate(pl.len(), where=where)):
            with pytest.raises((lk.SchemaMismatch, SqlError), match=left) as told:
                act(where)
            assert "plan" not in str(told.value)
        assert table.scan().collect().height == 3
        return
    gone = set(table.scan().select("v").collect()["v"]) - set(left)
    assert table.aggregate(pl.len(), where=where).item() == len(gone)
    assert table.explain(timeline.parse_condition_text(table, where)).files_total == 3
    table.delete(where)
    assert sorted(table.scan().collect()["v"]) == left


@pytest.mark.parametrize(
    "where",
    ["v > '9'", "v IN (1) OR d = '9.60'", "d > '9.6'", pl.col("d") <= "9.6", pl.col("s") == 10, pl.col("n").struct.field("d") > "1", "v = 10 AND d <> s"],
)
def test_a_text_beside_a_number_is_refused(tmp_path, where):
    """Of a decimal Polars says nothing and compares texts, so that 10.50 is less than '9.6'."""
    table = lk.create(tmp_path, {"v": "INT", "d": "DECIMAL(10, 2)", "s": "STRING", "n": "ROW<d DECIMAL(10, 2)>"})
    table.append([{"v": 10, "d": Decimal("10.50"), "s": "10", "n": {"d": Decimal("10.50")}}])
    for act in (table.delete, lambda where: table.update({"v": 1}, where=where), lambda where: table.aggregate(pl.len(), where=where)):
        with pytest.raises(lk.SchemaMismatch, match="without quotes"):
            act(where)
    assert table.scan().collect()["v"].to_list() == [10]
    table.delete("v > 9 AND d > 9.6 AND CAST(d AS STRING) = '10.50'")
    assert table.scan().collect().is_empty()


def test_chores_and_merges_take_dates_as_texts(tmp_path):
    table = lk.create(tmp_path, {"d": "DATE NOT NULL", "k": "INT NOT NULL"}, primary_keys=["d", "k"], partition_keys=["d"], options={"bucket": "1"})
    table.upsert([{"d": date(2024, 3, day), "k": 1} for day in (30, 31)])
    assert table.compact(where="d = '2024-03-31'", full=True).snapshot_ids == (2,)
    assert table.files().filter(pl.col("level") > 0)["partition"].to_list() == ["d=19813"]
    source = pl.DataFrame({"d": [date(2024, 3, 30), date(2024, 3, 31)], "k": [1, 1]})
    table.merge(source, lk.when_matched(delete=True, where="s.d = '2024-03-30'"), on=["d", "k"])
    assert table.scan().collect()["d"].to_list() == [date(2024, 3, 31)]
    with pytest.raises(lk.SchemaMismatch, match="'March' is no DATE; write '2024-03-31'"):
        table.compact(where="d = 'March'")


def test_a_sum_that_outgrew_its_type_is_compacted_as_it_is_read(tmp_path):
    """The reference keeps it too (`DecimalUtils.add` checks nothing): 2999.97 in a DECIMAL(5, 2)."""
    table = lk.create(
        tmp_path,
        {"k": "INT", "v": "DECIMAL(5, 2)"},
        primary_keys=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "write-only": "true"},
    )
    for _ in range(3):
        table.upsert(pl.DataFrame({"k": [1, 2], "v": [Decimal("999.99"), Decimal("0.01")]}))
    wide = table.scan().sort("k").select(pl.col("v").cast(pl.Decimal(38, 2)))
    assert wide.collect()["v"].to_list() == [Decimal("2999.97"), Decimal("0.03")]
    table.compact(full=True)
    assert table.scan().sort("k").select(pl.col("v").cast(pl.Decimal(38, 2))).collect()["v"].to_list() == [Decimal("2999.97"), Decimal("0.03")]


@pytest.mark.long
@pytest.mark.parametrize("full", [False, True])
def test_postponed_rows_find_their_buckets(tmp_path, full):
    table, want = filled(tmp_path, **{"bucket": "-2", "postpone.default-bucket-num": "3"})
    assert rows_of(table) == {}
    assert table.compact(full=full).kinds == ("COMPACT",)
    assert rows_of(table) == want
    assert set(table.files()["bucket"]) <= {0, 1, 2}
    table.upsert([{"p": 1, "k": 1, "v": "late"}])
    table.compact(full=full)
    assert rows_of(table) == want | {(1, 1): "late"}
    assert not [path for path in tmp_path.rglob("data-*") if path.name not in names_of(table, tmp_path)]


def names_of(table: lk.Table, path) -> set[str]:
    """Every data file that a snapshot of the table added."""
    found = set()
    for number in table.snapshots()["snapshot_id"]:
        found |= set(table.files(at=number)["file_name"])
    return found


def test_small_files_of_an_append_table(tmp_path):
    table = lk.create(tmp_path, {"d": "INT", "v": "INT"}, partition_keys=["d"])
    for turn in range(6):
        table.append(pl.DataFrame({"d": [0, 1] if turn < 4 else [0], "v": [turn, turn + 100] if turn < 4 else [turn]}, schema={"d": pl.Int32, "v": pl.Int32}))
    want = sorted(table.scan().collect().rows())
    assert table.compact().removed_file_count == 6  # four files of partition 1 are not worth it
    assert table.files().group_by("partition").len().sort("partition").rows() == [("d=0", 1), ("d=1", 4)]
    assert table.compact(full=True).removed_file_count == 4
    assert table.files().height == 2
    assert sorted(table.scan().collect().rows()) == want
    assert table.compact(full=True).snapshot_ids == ()


def test_deleted_rows_go_when_their_files_are_compacted(tmp_path):
    table = lk.create(tmp_path, {"v": "INT"}, options={"deletion-vectors.enabled": "true"})
    for turn in range(4):
        table.append(pl.DataFrame({"v": range(turn * 10, turn * 10 + 10)}, schema={"v": pl.Int32}))
    table.delete(pl.col("v") % 3 == 0)
    assert table.indexes().height == 1
    table.compact(full=True)
    assert table.indexes().height == 0
    assert table.files()["row_count"].to_list() == [26]
    assert sorted(table.scan().collect()["v"]) == [v for v in range(40) if v % 3]


# ---- other numbers of buckets -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_rows_stay_in_other_buckets(tmp_path, engine):
    table = lk.create(tmp_path, COLUMNS, **KEY, options={"bucket": "2", "merge-engine": engine})
    want = {(k % 2, k): "0" for k in range(40)}
    table.upsert([{"p": p, "k": k, "v": v} for (p, k), v in want.items()])
    done = table.rescale(5)
    assert done.kinds == ("OVERWRITE",)
    assert sorted(table.files()["bucket"].unique()) == [0, 1, 2, 3, 4]
    assert rows_of(table) == want
    table.upsert([{"p": 0, "k": 100, "v": "new"}])
    table.compact(full=True)
    assert rows_of(table) == want | {(0, 100): "new"}
    assert table.check(deep=True).ok


@pytest.mark.long
def test_some_partitions_are_rescaled(tmp_path):
    table, want = filled(tmp_path, bucket="2")
    table.rescale(3, where="p = 1")
    assert rows_of(table) == want
    table.upsert([{"p": 1, "k": 1, "v": "new"}])
    with pytest.raises(lk.InvalidOption, match="rescale"):
        table.upsert([{"p": 0, "k": 2, "v": "new"}])
    table.rescale(3, where=pl.col("p") == 0)
    assert rows_of(table) == want | {(1, 1): "new"}


def test_what_cannot_be_rescaled(tmp_path):
    with pytest.raises(lk.InvalidOption, match="cannot be rescaled"):
        lk.create(tmp_path / "a", COLUMNS).rescale(2)
    with pytest.raises(lk.InvalidOption, match="1 or more"):
        filled(tmp_path / "b", bucket="1")[0].rescale(0)


def test_rows_that_come_in_between_are_not_lost(tmp_path, monkeypatch):
    table, want = filled(tmp_path, bucket="1")
    kept = rewrite.row_conversion.convert_batches

    def interrupted(*arguments, **how):
        monkeypatch.setattr(rewrite.row_conversion, "convert_batches", kept)
        rows = list(kept(*arguments, **how))
        lk.open(tmp_path, options={"bucket": "1"}).upsert([{"p": 1, "k": 500, "v": "meanwhile"}])
        return rows

    monkeypatch.setattr(rewrite.row_conversion, "convert_batches", interrupted)
    with pytest.raises(lk.Conflict):
        table.rescale(2)
    assert lk.open(tmp_path).options["bucket"] == "1"
    table.upsert([{"p": 0, "k": 501, "v": "after"}])
    table.rescale(2)
    assert lk.open(tmp_path).options["bucket"] == "2"
    assert rows_of(table) == want | {(1, 500): "meanwhile", (0, 501): "after"}


def test_a_number_of_buckets_that_others_use_by_now_stays(tmp_path, monkeypatch):
    table, want = filled(tmp_path, bucket="1")
    kept = rewrite.row_conversion.convert_batches

    def interrupted(*arguments, **how):
        monkeypatch.setattr(rewrite.row_conversion, "convert_batches", kept)
        rows = list(kept(*arguments, **how))
        lk.open(tmp_path).rescale(2)
        return rows

    monkeypatch.setattr(rewrite.row_conversion, "convert_batches", interrupted)
    with pytest.raises(lk.Conflict):
        table.rescale(2)
    assert lk.open(tmp_path).options["bucket"] == "2"
    table.upsert([{"p": 0, "k": 501, "v": "after"}])
    assert rows_of(table) == want | {(0, 501): "after"}


def test_partitions_whose_time_is_over_are_left_out_where_the_option_says(tmp_path):
    options = {"bucket": "1", "write-only": "true", "partition.expiration-time": "7 d"}
    table = lk.create(tmp_path, {"dt": "STRING", "k": "INT"}, primary_keys=["dt", "k"], partition_keys=["dt"], options=options)
    for _ in range(2):
        table.upsert([{"dt": day, "k": 1} for day in ("2020-01-01", "2999-01-01", "nonsense")])
    table.with_options({"compaction.skip-expired-partitions": "true"}).compact(full=True)
    assert levels(table) == {"dt=2020-01-01": {0}, "dt=2999-01-01": {5}, "dt=nonsense": {5}}
    table.with_options({"write-only": "true"}).compact(full=True)
    assert levels(table)["dt=2020-01-01"] == {5}
