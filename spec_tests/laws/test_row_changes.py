"""Rows deleted, updated and merged: drawn tables, conditions and statements come to what plain Python makes of them; what is refused changes nothing."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import Phase, given, settings, strategies as st

import lakekit as lk
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.row_change import RowChange, delete_rows
from lakekit.read.user_expressions import MERGE_SOURCE_PREFIX, translate_condition, used_columns
from spec_tests.conftest import DEEP
from spec_tests.laws.row_changes import CONDITIONS, NUMBERS, ROWS, TABLES, TEXTS, Oracle, clauses, made, merge, rows_of, values


def files(table):
    return sorted(str(path) for path in Path(table.location).rglob("*") if path.is_file())


def step(data, table, oracle):
    """One drawn statement, done and told."""
    where, as_sql = data.draw(CONDITIONS), data.draw(st.booleans())
    told = where.sql("") if as_sql else where.expr(pl.col)
    match data.draw(st.sampled_from(["delete", "update", "merge", "append"])):
        case "append":
            rows = data.draw(st.lists(ROWS, max_size=4))
            table.append(rows)
            oracle.add(rows)
        case "delete":
            table.delete(told)
            oracle.rows = [row for row in oracle.rows if where.holds(row) is not True]
        case "update":
            value, text = data.draw(values(from_source=False)), data.draw(st.none() | TEXTS)
            try:
                table.update({"v": value.told(), "s": None if text is None else f"'{text}'"}, where=told)
            except lk.InvalidOption as refused:  # partial-update would keep the older value
                assert "after the update" in str(refused)
                assert oracle.is_partial
                return
            oracle.rows = [oracle.change(row, {"v": value.of(row), "s": text}) if where.holds(row) is True else row for row in oracle.rows]
        case "merge":
            unique = {"unique_by": lambda row: (row["p"], row["k"])} if data.draw(st.integers(0, 3)) else {}
            source, some = data.draw(st.lists(ROWS, max_size=5, **unique)), data.draw(clauses())
            extra = data.draw(st.none() | CONDITIONS)
            on = ["p", "k"] if extra is None else f"t.p = s.p AND s.k = t.k AND ({extra.sql('t.')})"
            before = files(table)
            done = merge(oracle, source, some, extra)
            try:
                table.merge(source, *(one.told(as_sql=as_sql) for one in some), on=on)
            except lk.MergeConflict:
                assert not done
                assert files(table) == before
            else:
                assert done


QUICK = settings(max_examples=5, phases=[Phase.reuse, Phase.generate])
"""Without a search for smaller failures, which takes minutes: each makes a table."""


@pytest.mark.long
@QUICK
@given(st.data())
def test_statements_come_to_what_python_makes_of_them(data):
    statements(data)


@pytest.mark.long
@settings(QUICK, max_examples=400 if DEEP else 60)
@given(st.data())
def test_many_statements(data):
    statements(data)


def statements(data):
    name = data.draw(st.sampled_from(list(TABLES)))
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = made(f"{folder}/t", name), Oracle(name)
        for rows in data.draw(st.lists(st.lists(ROWS, min_size=1, max_size=8), min_size=1, max_size=2)):
            table.append(rows)
            oracle.add(rows)
        for _ in range(data.draw(st.integers(1, 3))):
            step(data, table, oracle)
            assert rows_of(table) == oracle.sorted()


FEW = [{"p": at % 2, "k": at, "v": None if at == 3 else at * 10, "s": "a"} for at in range(6)]


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_every_table(tmp_path, name):
    table = made(tmp_path / "t", name)
    table.append(FEW[:4])
    table.append(FEW[4:])
    kinds = table.delete("v > 30").kinds
    assert kinds[0] == ("APPEND" if "key" in name or name == "partial" else "OVERWRITE")
    assert [row[1] for row in rows_of(table)] == [0, 2, 1, 3]
    table.update({"v": pl.col("v") + 1, "s": pl.lit("b")}, where=pl.col("k").is_in([1, 3]))
    source = pl.LazyFrame({"p": [0, 1], "k": [2, 9], "v": [7, 8], "s": ["x", "y"], "op": ["D", "I"]})
    table.merge(source, lk.when_matched(delete=True, where="s.op = 'D'"), lk.when_not_matched(), on=["p", "k"])
    assert rows_of(table) == [(0, 0, 0, "a"), (1, 1, 11, "b"), (1, 3, None, "b"), (1, 9, 8, "y")]
    assert table.delete("k > 100").snapshot_ids == ()
    assert table.delete("p = 1").removed_file_count or not TABLES[name].get("partition_keys")
    table.delete(pl.lit(True))
    assert rows_of(table) == []
    assert len(table.files()) == 0
    assert table.delete("true").row_count == 0


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}], ids=["rewritten", "marked"])
def test_somebody_else_was_faster(tmp_path, options):
    table = lk.create(tmp_path / "t", {"k": "INT"}, options=options)
    table.append([{"k": at} for at in range(6)])
    late = table._context()
    with RowChange.of(late, only_adds=True) as change:
        stored = TargetRows.at_newest(late).file_rows()
        delete_rows(change, stored, stored.matching_row_numbers(pl.col("k") == 1))
        table.delete("k = 2")
        before = files(table)
        with pytest.raises(lk.Conflict, match="File deletion conflicts"):
            change.commit()
    left = files(table)
    assert set(left) <= set(before)
    assert len(before) - len(left) == len(options), "its index file, and nothing else, is gone"
    assert sorted(table.scan().collect()["k"]) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("name", ["append partitioned avro", "vectors partitioned"])
def test_a_storage_that_fails_midway(tmp_path, monkeypatch, name):
    table = made(tmp_path / "t", name)
    table.append(FEW)
    before, written = files(table), rows_of(table)
    opened, storage = [], type(table._context().storage)
    whole = storage.open_write

    def fails(self, path):
        opened.append(path)
        if len(opened) == 3:
            raise lk.StorageFailed("the disk is full", path=path)
        return whole(self, path)

    monkeypatch.setattr(storage, "open_write", fails)
    with pytest.raises(lk.StorageFailed, match="disk is full"):
        table.update({"p": "p + 1"}, where="k < 3")
    assert len(opened) >= 3
    assert files(table) == before
    assert rows_of(table) == written


def test_vectors_roll_into_files_of_their_size(tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT"}, options={"deletion-vectors.enabled": "true", "deletion-vector.index-file.target-size": "40 b"})
    for first in range(0, 50, 10):
        table.append([{"k": first + at} for at in range(10)])
    table.delete("k % 10 = 3")
    one = table.indexes()
    assert sorted(one["row_count"]) == [1, 2, 2]
    table.delete("k = 4")
    two = table.indexes()
    assert sorted(two["row_count"]) == [1, 2, 2]
    assert len(set(one["file_name"]) & set(two["file_name"])) == 2
    assert len(table.scan().collect()) == 44


@pytest.mark.parametrize(("limit", "counts"), [(30, [1] * 5), (31, [1, 2, 2]), (60, [1, 2, 2]), (61, [2, 3]), (90, [2, 3]), (91, [1, 4])])
def test_the_version_of_an_index_file_counts(tmp_path, limit, counts):
    """A vector of one row has 30 bytes, the version before them one: a file ends once it is longer than the limit, as the engine ends it."""
    options = {"deletion-vectors.enabled": "true", "deletion-vector.index-file.target-size": f"{limit} b"}
    table = lk.create(tmp_path / "t", {"k": "INT"}, options=options)
    for first in range(0, 50, 10):
        table.append([{"k": first + at} for at in range(10)])
    table.delete("k % 10 = 3")
    assert sorted(table.indexes()["row_count"]) == counts


@pytest.mark.parametrize("bits", ["true", "false"])
def test_vectors_that_outlive_a_compaction_roll_too(tmp_path, bits):
    """Those that are left of index files with others that go are written again in files of the size asked for."""
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": bits, "compaction.delete-ratio-threshold": "0.5", "target-file-size": "1 b"}
    table = lk.create(tmp_path / "t", {"k": "INT", "s": "STRING"}, options=options)
    for first in range(0, 50, 10):  # each is as big as files get: only those with many deleted rows are compacted
        table.append([{"k": first + at, "s": str((first + at) ** 99)} for at in range(10)])
    table.delete("k % 10 = 3 OR (k < 10 AND k > 2)")
    assert table.indexes()["row_count"].to_list() == [5]
    table.with_options({"deletion-vector.index-file.target-size": "1 b"}).compact(full=True)
    assert table.indexes()["row_count"].to_list() == [1] * 4
    assert sorted(table.scan().collect()["k"]) == [0, 1, 2, *(k for k in range(10, 50) if k % 10 != 3)]
    assert table.check(deep=True).ok


def test_partitions_by_any_value(tmp_path):
    days, numbers = [date(2024, 1, 1), date(2024, 1, 2), None], [float("nan"), 1.0, None]
    table = lk.create(tmp_path / "t", {"d": "DATE", "f": "DOUBLE", "v": "INT"}, partition_keys=["d", "f"])
    rows = [{"d": day, "f": number, "v": 1} for day in days for number in numbers]
    table.append(rows)
    assert table.delete(pl.col("f").is_nan()).removed_file_count == 3
    assert table.delete("d IS NULL").removed_file_count == 2
    done = table.delete(pl.col("d") == pl.col("d").max())
    assert (done.added_file_count, done.removed_file_count) == (0, 2)
    assert sorted(table.scan().collect().rows(), key=repr) == [(days[0], 1.0, 1), (days[0], None, 1)]


def test_times_of_two_units_are_compared_in_the_finer_one(tmp_path):
    table = lk.create(tmp_path / "t", {"t": "TIMESTAMP(3)", "v": "INT"})
    noon = datetime(2024, 1, 1, 12)  # noqa: DTZ001 - the wall clock of TIMESTAMP has no zone
    table.append([{"t": noon, "v": 1}])
    for micros, left in ((500, 1), (0, 2)):
        table.merge(pl.DataFrame({"t": [noon.replace(microsecond=micros)]}), lk.when_matched(update={"v": 2}), on=["t"])
        assert table.scan().collect()["v"].item() == left


@pytest.mark.long
@pytest.mark.parametrize("engine", ["aggregation", "first-row"])
def test_engines_without_deletes_as_rows(tmp_path, engine):
    options = {"bucket": "1", "merge-engine": engine, "fields.v.aggregate-function": "sum"}
    options = options if engine == "aggregation" else {key: value for key, value in options.items() if "fields" not in key}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options=options)
    rows = [{"k": at, "v": at} for at in range(8)]
    table.append(rows)
    table.append(rows[4:])
    if engine == "aggregation":
        with pytest.raises(lk.InvalidOption, match="Only compacted table can generate touched files, please use 'COMPACT' procedure first"):
            table.delete("k = 5")
    table.compact(full=True)
    before = {row[0]: row[1] for row in table.files().select("max_sequence_number", "level").rows()}
    assert table.delete(pl.col("v") >= (12 if engine == "aggregation" else 6)).kinds == ("OVERWRITE",)
    assert sorted(table.scan().collect()["k"]) == [0, 1, 2, 3, 4, 5]
    assert set(table.files()["level"]) <= set(before.values())
    table.append([{"k": 7, "v": 1}])
    table.compact(full=True)
    assert table.scan().filter(pl.col("k") == 7).collect().rows() == [(7, 1)]


def keyed(tmp_path, **options):
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1", **options})
    table.append([{"k": 1, "v": 1}])
    return table


BY_SOURCE = lk.when_not_matched_by_source(delete=True, where="s.k = 1")
UPDATE_ALL = lk.when_matched(update="all")
REFUSED = {
    "merge engine": (
        {"merge-engine": "first-row"},
        lambda t: t.update({"v": 2}, where="k = 1"),
        lk.InvalidOption,
        "merge engine first-row can not support Update",
    ),
    "merge into": (
        {"merge-engine": "aggregation"},
        lambda t: t.merge([{"k": 1}], UPDATE_ALL, on=["k"]),
        lk.InvalidOption,
        "aggregation can not support MergeInto",
    ),
    "key": ({}, lambda t: t.update({"k": 2}, where="k = 1"), lk.SchemaMismatch, r"Can't update the primary key column\."),
    "key merged": ({}, lambda t: t.merge([{"k": 2}], UPDATE_ALL, on="t.k < s.k"), lk.SchemaMismatch, r"Can't update the primary key column\."),
    "twice": ({}, lambda t: t.merge([{"k": 1}] * 2, UPDATE_ALL, on=["k"]), lk.MergeConflict, "each of them match more than one source rows"),
    "no deletes": (
        {"merge-engine": "partial-update"},
        lambda t: t.merge([{"k": 1}], lk.when_matched(delete=True), on=["k"]),
        lk.InvalidOption,
        "remove-record-on-delete",
    ),
    "ignored deletes": ({"ignore-delete": "true"}, lambda t: t.delete("k = 1"), lk.InvalidOption, "ignore-delete"),
    "column": ({}, lambda t: t.delete("kk = 1"), lk.ColumnNotFound, "Did you mean 'k'"),
    "no condition": ({}, lambda t: t.delete("k + 1"), lk.SchemaMismatch, "a condition is true or false, and this is BIGINT"),
    "no SQL": ({}, lambda t: t.delete("k ="), lk.SqlError, "an operand of = is missing"),
    "value": ({}, lambda t: t.update({"v": "'x'"}, where="true"), lk.SchemaMismatch, "INT"),
    "half": ({}, lambda t: t.update({"v": "v / 2"}, where="true"), lk.SchemaMismatch, "Cast it where the value is made"),
    "digits": ({}, lambda t: t.update({"v": pl.lit(Decimal("1.5"))}, where="true"), lk.ValueOutOfRange, "Round it where the value is made$"),
    "half put in": (
        {},
        lambda t: t.merge(pl.DataFrame({"k": [9], "v": [0.5]}), lk.when_not_matched(), on=["k"]),
        lk.SchemaMismatch,
        "the rows have Float64. Cast it where the value is made$",
    ),
    "types": ({}, lambda t: t.merge(pl.DataFrame({"k": ["1"]}), UPDATE_ALL, on=["k"]), lk.SchemaMismatch, "k is Int32, s.k is String"),
    "too big": ({}, lambda t: t.update({"v": pl.lit(2**40)}, where="true"), lk.LakekitError, "v"),
    "aggregate": ({}, lambda t: t.update({"v": pl.col("v").max()}, where="true"), lk.SchemaMismatch, "more than one row"),
    "text": ({}, lambda t: t.update({"v": "closed"}, where="true"), lk.ColumnNotFound, "'closed' in SQL"),
    "no source row": (
        {},
        lambda t: t.merge([{"k": 1}], lk.when_not_matched_by_source(delete=True, where="s.k = 1"), on=["k"]),
        lk.ColumnNotFound,
        "no source row",
    ),
    "no target row": ({}, lambda t: t.merge([{"k": 1}], lk.when_not_matched(where="k = 1"), on=["k"]), lk.ColumnNotFound, r"lk\.source\('k'\)"),
    "source column": ({}, lambda t: t.merge([{"k": 1}], UPDATE_ALL, on="t.k = s.j"), lk.ColumnNotFound, "its columns are k"),
}


@pytest.mark.long
@pytest.mark.parametrize("why", REFUSED)
def test_refused(tmp_path, why):
    options, done, error, words = REFUSED[why]
    table = keyed(tmp_path, **options)
    before = files(table)
    with pytest.raises(error, match=words):
        done(table)
    assert files(table) == before


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("at >= '2024-03-31 12:00:00'", [0, 6]),
        ("at >= '2024-03-31T12:00:00+06:00'", [0]),
        (pl.col("at") >= datetime(2024, 3, 31, 12, tzinfo=timezone(timedelta(hours=6))), [0]),
        ("at >= TIMESTAMP '2024-03-31 12:00:00'", [0, 6]),
        (pl.col("at") >= datetime(2024, 3, 31, 12), None),  # noqa: DTZ001
        (pl.col("at") == pl.col("at").dt.replace_time_zone(None), None),
    ],
)
def test_a_moment_with_a_zone(tmp_path, where, left):
    """A text without one is of UTC; Polars compares no moment of a zone with one that has none, and says so only while it computes."""
    table = lk.create(tmp_path / "t", {"h": "INT", "at": "TIMESTAMP_LTZ(6)"})
    table.append([{"h": hour, "at": datetime(2024, 3, 31, hour, tzinfo=UTC)} for hour in range(0, 24, 6)])
    if left is not None:
        table.delete(where)
        assert sorted(table.scan().collect()["h"]) == left
        return
    with pytest.raises(lk.SchemaMismatch, match=r"a moment that has a zone with one that has none.* tzinfo=…\)$"):
        table.delete(where)
    assert len(table.snapshots()) == 1


def test_what_cannot_be_meant():
    for wrong in (lk.when_matched, lambda: lk.when_matched(update="all", delete=True), lambda: lk.when_matched(update="some")):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError, match="no source row"):
        lk.when_not_matched_by_source(update="all")


def test_only_files_that_can_match_are_read_for_a_merge(tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT", "v": "INT"})
    for first in (0, 100, 200):
        table.append([{"k": first + at, "v": 0} for at in range(3)])
        if first == 0:
            (lost,) = Path(table.location).rglob("data-*")
    lost.unlink()
    done = table.merge([{"k": 101, "v": 1}, {"k": 202, "v": 2}], UPDATE_ALL, on="t.k = s.k AND t.v < 5")
    assert (done.added_file_count, done.removed_file_count) == (1, 2)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["t.v", "s.v", "'t.v'", '"t"."v"', " t . v ", "`s`.v", "v", "-- s.v\nv", "/* s.v */ t.v", "T.V"]), min_size=1), NUMBERS)
def test_names_of_both_sides_in_sql(parts, number):
    """`t.v` and `v` are the target's, `s.v` is the source's; texts and comments name nothing."""
    source = f"{MERGE_SOURCE_PREFIX}v"
    schema = {"v": pl.String(), source: pl.String()}
    text = " AND ".join(f"{part} <> '{number}'" for part in parts)
    expr = translate_condition(text, schema, "d.t", "on")
    wanted = [source if part in ("s.v", "`s`.v") else "v" for part in parts if part != "'t.v'"]
    assert used_columns(expr, schema) == wanted
