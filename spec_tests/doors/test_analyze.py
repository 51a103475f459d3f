"""`t.analyze` as its user meets it: statistics in a snapshot of their own, as the rows are, carried on by later commits."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import StorageFailed
from lakekit.maintenance import analyze
from lakekit.metadata import refs, snapshots

COLUMNS = {
    "k": "INT NOT NULL",
    "i": "BIGINT",
    "f": "DOUBLE",
    "d": "DECIMAL(5, 2)",
    "big": "DECIMAL(30, 2)",
    "s": "STRING",
    "b": "BYTES",
    "t": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP(6)",
    "ms": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "sec": "TIMESTAMP(0)",
    "clock": "TIME(3)",
    "many": "ARRAY<INT>",
}
ROW = {
    "k": 1,
    "i": 5,
    "f": 1.5,
    "d": Decimal("1.50"),
    "big": Decimal("1.50"),
    "s": "zürich",
    "b": b"123",
    "t": True,
    "day": dt.date(2024, 1, 1),
    "at": dt.datetime(2023, 11, 14, 22, 13, 20, 123456),  # noqa: DTZ001 - TIMESTAMP has no zone
    "ms": dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=dt.UTC),
    "sec": dt.datetime(2023, 11, 14, 22, 13, 20),  # noqa: DTZ001
    "clock": dt.time(1, 2, 3),
    "many": [1, 2],
}


def filled(path) -> lk.Table:
    table = lk.create(path, COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    table.upsert([ROW])
    table.upsert([ROW | {"i": 7, "s": "a"}, dict.fromkeys(COLUMNS) | {"k": 2}])
    return table


def found(table: lk.Table):
    handle = table._context()
    return refs.read_statistics(handle, snapshots.latest(handle))


def test_every_column_that_can_have_some(tmp_path):
    table = filled(tmp_path)
    done = table.analyze()
    assert (done.kinds, done.snapshot_ids, done.added_file_count) == (("ANALYZE",), (3,), 0)
    told = found(table)
    assert (told.snapshot_id, told.schema_id, told.merged_record_count) == (2, 0, 2)
    assert set(told.columns) == set(COLUMNS) - {"many"}
    bounds = {name: (one.min, one.max) for name, one in told.columns.items()}
    assert bounds == {
        "k": ("1", "2"),
        "i": ("7", "7"),
        "f": ("1.5", "1.5"),
        "d": ("1.50", "1.50"),
        "big": ("1.50", "1.50"),
        "s": ("a", "a"),
        "b": (None, None),
        "t": ("true", "true"),
        "day": ("19723", "19723"),
        "at": ("2023-11-14 22:13:20.123456",) * 2,
        "ms": ("2023-11-14 22:13:20.123",) * 2,
        "sec": ("2023-11-14 22:13:20",) * 2,
        "clock": (None, None),
    }
    assert {name: one.null_count for name, one in told.columns.items()} == dict.fromkeys(told.columns, 1) | {"k": 0}
    assert {name: one.distinct_count for name, one in told.columns.items()} == dict.fromkeys(told.columns, 1) | {"k": 2}
    assert (told.columns["b"].avg_length_bytes, told.columns["d"].max_length_bytes, told.columns["big"].max_length_bytes) == (3, 8, 16)
    assert table.scan().collect().height == 2
    assert table.check(deep=True).ok


def test_some_columns_and_lengths_in_bytes(tmp_path):
    table = lk.create(tmp_path, {"a": "INT", "s": "STRING"})
    table.append([{"a": n, "s": "ü" * n} for n in range(4)])
    table.analyze(columns=["s", "s"])
    (told,) = found(table).columns.values()
    assert (told.avg_length_bytes, told.max_length_bytes, told.distinct_count, told.min, told.max) == (3, 6, 4, "", "üüü")


@pytest.mark.parametrize("count", [0, 1, 7, 1_000, 10_000, 200_000])
def test_distinct_values_are_counted_about_and_parts_as_the_whole(count):
    values = pl.select(pl.int_range(count) * 7_919).to_series()
    whole, parts = analyze.DistinctSketch(), [analyze.DistinctSketch() for _ in range(3)]
    for some in (values, values, pl.Series([None], dtype=pl.Int64)):
        whole.add(some)
    for at, part in enumerate(parts):
        part.add(values.gather_every(3, at))
        part.add(values.head(50))
    found = analyze.estimate_distinct([whole.to_bytes()])
    assert abs(found - count) <= 0.06 * count
    assert found == analyze.estimate_distinct([part.to_bytes() for part in parts])


def test_rows_are_looked_at_in_batches(tmp_path, monkeypatch):
    table = filled(tmp_path)
    table.upsert([{"k": k, "s": "x" * k} for k in range(3, 20)])
    table.analyze()
    whole = found(table)
    monkeypatch.setattr(analyze, "_BATCH_ROWS", 2)
    monkeypatch.setattr(analyze, "_MAX_PARTIAL_FRAMES", 3)
    table.analyze()
    assert found(table).columns == whole.columns
    assert whole.columns["k"].distinct_count == whole.merged_record_count == 19


def test_later_commits_carry_them_until_the_schema_changes(tmp_path):
    table = filled(tmp_path)
    table.analyze()
    before = found(table)
    table.upsert([{"k": 9}])
    table.compact(full=True)
    assert found(table) == before
    table.alter(lk.add_column("more", "INT"))
    table.upsert([{"k": 10}])
    assert found(table) is None


@pytest.mark.parametrize("keyed", [True, False])
def test_columns_are_those_of_today_though_nothing_was_written_since(tmp_path, keyed):
    table = lk.create(
        tmp_path, {"k": "INT NOT NULL", "v": "INT", "s": "STRING"}, primary_keys=["k"] if keyed else [], options={"bucket": "1" if keyed else "-1"}
    )
    table.append([{"k": 1, "v": 5, "s": "a"}, {"k": 2, "v": 7, "s": "b"}])
    table.alter(lk.add_column("more", "INT"), lk.rename_column("s", "text"), lk.update_type("v", "BIGINT"))
    table.analyze()
    told = found(table)
    assert (told.snapshot_id, told.schema_id, told.merged_record_count) == (1, 1, 2)
    assert {name: (one.null_count, one.min, one.max) for name, one in told.columns.items()} == {
        "k": (0, "1", "2"),
        "v": (0, "5", "7"),
        "text": (0, "a", "b"),
        "more": (2, None, None),
    }
    table.append([{"k": 3}])
    assert found(table) == told, "the schema is still the same"
    table.alter(lk.drop_column("text"))
    table.analyze(columns=["more"])
    assert (list(found(table).columns), found(table).schema_id) == (["more"], 2)


def test_an_empty_table_has_none(tmp_path):
    table = lk.create(tmp_path, {"a": "INT"})
    assert table.analyze().snapshot_ids == ()
    table.append([{"a": 1}])
    table.truncate()
    table.analyze()
    assert found(table).merged_record_count == 0
    assert found(table).columns["a"].min is None


@pytest.mark.parametrize(
    ("columns", "kind", "said"),
    [
        (["many"], lk.InvalidOption, "ARRAY<INT>"),
        (["x"], lk.ColumnNotFound, "x"),
        *((wrong, TypeError, "columns= takes a list of names") for wrong in ("s", 0, 1.5, [1], [["s"]], object())),
    ],
)
def test_columns_that_have_none(tmp_path, columns, kind, said):
    table = filled(tmp_path)
    with pytest.raises(kind, match=said):
        table.analyze(columns=columns)
    assert table.snapshots().height == 2


def test_a_commit_that_fails_leaves_no_file(tmp_path, monkeypatch):
    table = filled(tmp_path)

    def refused(*_):
        raise StorageFailed("no space left", path="x")

    monkeypatch.setattr("lakekit.maintenance.analyze.try_commit.try_commit", refused)
    with pytest.raises(StorageFailed):
        table.analyze()
    assert not list((tmp_path / "statistics").glob("*"))


def test_expiry_takes_them_along(tmp_path):
    table = filled(tmp_path)
    table.analyze()
    table.analyze(columns=["k"])
    table.upsert([ROW])
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(list((tmp_path / "statistics").glob("stat-*"))) == 1
    assert table.remove_orphans(older_than=dt.timedelta(0)).is_empty()
    assert pl.Series(table.system("statistics").collect()["mergedRecordCount"]).to_list() == [2]
