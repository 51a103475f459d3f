"""What statistics let expect: rows of a condition, near what is there, and nothing where there are none."""

from __future__ import annotations

import json
from datetime import date, datetime

import numpy as np
import polars as pl
import pytest

import lakekit as lk
from lakekit.predicate import And, Leaf
from lakekit.read import explain
from lakekit.read.planner import plan_read
from lakekit.read.polars_pushdown import ScanFilter
from lakekit.read.time_travel import resolve_position

ROWS = 10_000
COLUMNS = {"k": "BIGINT NOT NULL", "text": "STRING", "day": "DATE", "made": "TIMESTAMP(6)", "cents": "INT", "paid": "BOOLEAN", "raw": "BYTES"}


def drawn(first: int = 0) -> pl.DataFrame:
    """Ten thousand rows whose values lie evenly; a fifth of the texts are null."""
    generator, number = np.random.default_rng(first), np.arange(first, first + ROWS)
    return pl.DataFrame({
        "k": number,
        "text": pl.Series([f"name-{n % 50}" for n in number.tolist()]).set(pl.Series(number % 5 == 0), None),
        "day": pl.Series(generator.integers(19_000, 19_100, ROWS), dtype=pl.Int32).cast(pl.Date),
        "made": pl.Series(generator.integers(0, 10**15, ROWS)).cast(pl.Datetime("us")),
        "cents": pl.Series(generator.integers(0, 1000, ROWS), dtype=pl.Int32),
        "paid": generator.integers(0, 2, ROWS) == 1,
        "raw": pl.Series([b"x" * 30] * ROWS),
    })  # fmt: skip


def planned(table: lk.Table):
    handle = table._context()
    return plan_read(handle, resolve_position(handle, None))


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory) -> lk.Table:
    """15 000 keys, a third of them twice; statistics count them once."""
    table = lk.create(tmp_path_factory.mktemp("t"), COLUMNS, primary_keys=["k"], options={"write-only": "true"})
    table.upsert(drawn())
    table.upsert(drawn(ROWS // 2))
    table.analyze()
    return table


@pytest.mark.parametrize(
    "wanted",
    [
        pl.col("text") == "name-3",
        pl.col("text").is_in(["name-3", "name-4", "zebra"]),
        pl.col("text") != "name-3",
        pl.col("text").is_null(),
        pl.col("text").is_not_null(),
        pl.col("text") > "zebra",
        pl.col("day") > date(2022, 3, 1),
        (pl.col("day") >= date(2022, 2, 1)) & (pl.col("day") < date(2022, 2, 11)),
        pl.col("made") < datetime(1980, 1, 1),  # noqa: DTZ001
        pl.col("cents").is_between(100, 299),
        (pl.col("cents") > 100) & (pl.col("cents") > 300) & (pl.col("cents") <= 400) & pl.col("paid"),
        pl.col("cents") > 100_000,
        ~pl.col("paid"),
        (pl.col("text") == "name-3") | (pl.col("k") < 500),
        pl.col("k") == 77,
        pl.col("k") == -5,
        pl.lit(value=True),
    ],
    ids=str,
)
def test_rows_expected_are_near_those_there(analyzed, wanted):
    told = analyzed.explain(wanted)
    there = analyzed.scan().filter(wanted).collect().height
    assert told.rows_expected == pytest.approx(there, rel=0.1, abs=1)
    assert told.analyzed_snapshot_id == 2


def test_it_is_said_in_words(analyzed):
    assert "expect   about 15 000 rows, by statistics of snapshot 2" in str(analyzed.explain())
    assert "about 300 rows, by statistics of snapshot 2" in analyzed.explain(pl.col("text") == "name-3")._repr_html_()


def test_without_statistics_nothing_is_expected(analyzed, tmp_path):
    for at in (1, 2):
        told = analyzed.explain(at=at)
        assert (told.rows_expected, told.analyzed_snapshot_id) == (None, None)
        assert "expect" not in str(told)
    assert analyzed.explain(aggregates=[pl.len()]).rows_expected is None
    assert lk.create(tmp_path, COLUMNS).explain().rows_expected is None


def test_what_is_not_understood_leaves_all_rows(analyzed):
    assert analyzed.explain(pl.col("text").str.contains("3")).rows_expected == 15_000
    assert analyzed.explain(pl.col("raw") == b"y").rows_expected == pytest.approx(15_000, rel=0.01)  # one distinct value, of no known bounds


def test_rows_written_since_count(tmp_path):
    table = lk.create(tmp_path, COLUMNS)
    table.append(drawn())
    table.analyze()
    table.append(drawn(ROWS))
    assert (table.explain().rows_expected, table.explain().rows_read) == (2 * ROWS, 2 * ROWS)
    table.overwrite(drawn().head(100))
    assert table.explain().rows_expected == 100  # never more than the files hold
    table.truncate()
    assert table.explain().rows_expected == 0


def test_statistics_of_a_snapshot_that_is_gone(tmp_path):
    table = lk.create(tmp_path, COLUMNS, options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    table.append(drawn())
    table.analyze()
    table.append(drawn(ROWS))
    table.expire_snapshots()
    assert table.explain(pl.col("text") == "name-3").rows_expected == pytest.approx(200, rel=0.1)


def test_lost_or_damaged_statistics_are_none(tmp_path):
    table = lk.create(tmp_path, COLUMNS)
    table.append(drawn())
    table.analyze()
    [file] = (tmp_path / "statistics").iterdir()
    file.write_bytes(b'{"snapshotId": ')
    assert table.explain().rows_expected is None
    file.unlink()
    assert lk.open(tmp_path).explain(pl.col("k") < 5).rows_expected is None
    assert not table.check().ok


@pytest.mark.parametrize("count", [-5, 0, 1, 2**63 - 1])
@pytest.mark.parametrize("bound", ["", "NaN", "1e999", "-1", "true", "2024-01-01 00:00:00.5Z", "9" * 400])
def test_statistics_of_nonsense_are_within_what_files_hold(tmp_path, count, bound):
    table = lk.create(tmp_path, COLUMNS)
    table.append(drawn())
    table.analyze()
    [file] = (tmp_path / "statistics").iterdir()
    said = json.loads(file.read_bytes())
    for column in said["colStats"].values():
        column.update(distinctCount=count, nullCount=count, avgLen=count, maxLen=count, min=bound, max=bound)
    file.write_text(json.dumps(said | {"mergedRecordCount": count, "mergedRecordSize": count}))
    table = lk.open(tmp_path)
    for wanted in (None, pl.col("k") != 5, pl.col("text").is_in(["a", "b"]), pl.col("made") > datetime(1980, 1, 1), ~pl.col("paid"), pl.col("day").is_null()):  # noqa: DTZ001
        told = table.explain(wanted)
        assert told.rows_expected is not None
        assert 0 <= told.rows_expected <= told.rows_read
    assert explain.estimate_plan(planned(table), table._context().schema.fields).size_bytes >= 0


def test_indexes_that_name_rows_say_more(tmp_path):
    table = lk.create(tmp_path, COLUMNS, options={"file-index.bitmap.columns": "cents"})
    table.append(drawn().with_columns(cents=pl.lit(7, pl.Int32)))
    table.append(drawn(ROWS).with_columns(cents=pl.when(pl.col("k") % 1000 == 0).then(9).otherwise(7).cast(pl.Int32)))
    table.analyze()
    assert table.explain(pl.col("cents") == 9).rows_expected == 10  # by distinct values alone it would be half of all


def test_the_engine_counted_them(fixtures_path):
    """Case flights_board: 15 of the 19 rows that files hold stand, which ANALYZE of the reference counted."""
    table = lk.open(str(fixtures_path / "tables" / "flights_board"))
    told = table.explain()
    assert (told.rows_expected, told.rows_total, table.scan().collect().height) == (15, told.rows_total, 15)
    assert told.rows_expected < told.rows_total
    flights = table.scan().collect()["flight"]
    assert table.explain(pl.col("flight") == flights[0]).rows_expected == 1
    assert table.explain(pl.col("dep_delay").is_null()).rows_expected == 8


def test_renamed_and_widened_columns_are_the_same(tmp_path):
    table = lk.create(tmp_path, {"a": "INT", "b": "STRING"})
    table.append(pl.DataFrame({"a": pl.Series(range(100), dtype=pl.Int32), "b": [f"{n % 4}" for n in range(100)]}))
    table.analyze()
    position = resolve_position(table._context(), None)
    table.alter(lk.rename_column("b", "text"), lk.update_type("a", "BIGINT"))
    handle = table._context()
    wanted = ScanFilter(And((Leaf("text", "=", ("3",)), Leaf("a", "<", (40,)))))
    found = explain.estimate_plan(plan_read(handle, position, wanted), handle.schema.fields)
    assert (found.rows, found.analyzed_snapshot_id) == (10, 1)


def test_texts_are_as_long_as_statistics_say(tmp_path):
    table = lk.create(tmp_path, {"id": "BIGINT", "text": "STRING"})
    table.append(pl.DataFrame({"id": range(1000), "text": ["word " * 100] * 1000}))
    plan = planned(table)
    guessed = explain.estimate_plan(plan, table._context().schema.fields)
    table.analyze()
    known = explain.estimate_plan(planned(table), table._context().schema.fields)
    assert guessed.size_bytes == 1000 * (8 + 8 + 12 + 20)
    assert known.size_bytes == 1000 * (8 + 8 + 12 + 500)
    assert explain.estimate_plan(planned(table), table._context().schema.fields[:1]).size_bytes == 1000 * (8 + 8)


def test_rows_are_no_smaller_than_their_files(tmp_path):
    """Texts of which nothing is known, and which no compression makes small."""
    table = lk.create(tmp_path, {"id": "BIGINT", "text": "BYTES"})
    generator = np.random.default_rng(1)
    table.append(pl.DataFrame({"id": range(100), "text": [generator.bytes(10_000) for _ in range(100)]}))
    assert explain.estimate_plan(planned(table), table._context().schema.fields).size_bytes > 900_000
