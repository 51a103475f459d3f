"""Rows that Spark's own words write are seen: tables whose level 0 waits for a compaction are compacted by the process that commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict

import lakekit as lk
import lakekit.spark as ls
from lakekit.errors import Conflict
from lakekit.maintenance import compact as compaction
from lakekit.spark import attach, data_source, register
from lakekit.spark.types import spark_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COLUMNS = {"k": "INT", "v": "INT"}
HIDING = [
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "first-row"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    {"full-compaction.delta-commits": "1"},
    {"force-lookup": "true"},
]
"""Options under which readers see new files, or the changelog of them, only after a compaction."""
NAMES = ["vectors", "first-row", "lookup", "full-compaction", "delta-commits", "force-lookup"]


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def made(path: Path | str, **options: str) -> lk.Table:
    return lk.create(path, COLUMNS, primary_keys=["k"], options={"bucket": "2", **options})


def held(table: lk.Table) -> list[tuple]:
    return table.scan().sort("k").collect().rows()


@pytest.mark.parametrize("options", HIDING, ids=NAMES)
def test_insert_overwrite_and_stream_are_seen(known, tmp_path, options):
    cat = lk.connect(tmp_path / "lake")
    cat.create_database("d")
    table = cat.create_table("d.m", COLUMNS, primary_keys=["k"], options={"bucket": "2", **options})
    attach(known, cat)
    known.sql("INSERT INTO d.m VALUES (1, 1), (2, 2)")
    assert held(table) == [(1, 1), (2, 2)]
    assert [tuple(row) for row in known.sql("SELECT * FROM d.m ORDER BY k").collect()] == [(1, 1), (2, 2)]
    frame = known.createDataFrame([(3, 3), (4, 4)], "k int, v int")
    frame.write.format("lakekit").mode("append").save(table.location)
    assert held(table) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert 0 not in table.files()["level"].to_list()
    frame.write.format("lakekit").mode("overwrite").save(table.location)
    assert held(table) == [(3, 3), (4, 4)]
    plain = lk.create(tmp_path / "plain", COLUMNS)
    plain.append([{"k": 5, "v": 5}])
    query = known.readStream.format("lakekit").load(plain.location).writeStream.format("lakekit").option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start(table.location).awaitTermination()
    assert held(table) == [(3, 3), (4, 4), (5, 5)]
    assert 0 not in table.files()["level"].to_list()
    assert table.check(deep=True).ok


def test_counted_writes_compact_fully_every_n_commits(known, tmp_path):
    table = made(tmp_path / "t", **{"bucket": "4", "full-compaction.delta-commits": "3", "num-sorted-run.compaction-trigger": "99"})
    found = []
    for number in range(7):
        ls.write(known.createDataFrame([(number, number)], "k int, v int"), table, commit_user="u", identifier=number)
        found.append(0 in table.files()["level"].to_list())
    assert found == [False, True, True, False, True, True, False]
    assert held(table) == [(number, number) for number in range(7)]


# ---- without a session: the calls that Spark makes ------------------------------------------------------------------------------------------


def batches(rows: list[tuple]) -> list:
    frame = pl.DataFrame(rows, schema={"k": pl.Int32, "v": pl.Int32, "op": pl.String}, orient="row")
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


def write(table: lk.Table, tasks: list[list[tuple]], *, overwrite: bool = False, batch: int | None = None) -> None:
    """What Spark does with the rows of some tasks: a batch, or, with a number, a micro-batch."""
    schema = spark_schema(table.schema.fields).add("op", "string")
    options = {"path": table.location, "row_kind": "op", "checkpointLocation": "file:/nowhere"}
    made = data_source.PaimonDataSource(CaseInsensitiveDict(options))
    if batch is None:
        writer = made.writer(schema, overwrite=overwrite)
        writer.commit([writer.write(iter(batches(rows))) for rows in tasks])
    else:
        stream = made.streamWriter(schema, overwrite=overwrite)
        stream.commit([stream.write(iter(batches(rows))) for rows in tasks], batch)


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.just("+I")), min_size=1, max_size=6)
JOBS = st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=3), st.sampled_from([False, False, True])), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, options=st.sampled_from(HIDING), is_stream=st.booleans())
def test_every_job_is_seen_as_one_of_the_package_is(tmp_path_factory, jobs, options, is_stream):
    """Law: after each job of drawn rows the table holds what `t.upsert` and `t.overwrite` of the same rows make of it, and its changelog tells the same."""
    folder = tmp_path_factory.mktemp("law")
    table, twin = made(folder / "t", **options), made(folder / "u", **options)
    for number, (tasks, overwrite) in enumerate(jobs):
        keys = [{row[0]: row for row in rows} for rows in tasks]
        alone = [[row for row in rows.values() if not any(row[0] in other for other in keys[:at])] for at, rows in enumerate(keys)]
        write(table, alone, overwrite=overwrite, batch=number if is_stream else None)
        frame = pl.DataFrame([row[:2] for rows in alone for row in rows], schema={"k": pl.Int32, "v": pl.Int32}, orient="row")
        twin.overwrite(frame) if overwrite else twin.upsert(frame)
        assert held(table) == held(twin)
        assert 0 not in table.files()["level"].to_list()
    if options.get("changelog-producer") and not any(overwrite for _, overwrite in jobs):
        assert table.changes(0).collect().sort("k", "v", "_row_kind").rows() == twin.changes(0).collect().sort("k", "v", "_row_kind").rows()


def test_a_batch_whose_process_died_before_its_compaction_is_compacted_when_it_comes_again(tmp_path, monkeypatch):
    table = made(tmp_path / "t", **{"deletion-vectors.enabled": "true"})

    def died(*_args: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "compact_written", died)
        with pytest.raises(KeyboardInterrupt):
            write(table, [[(1, 1, "+I")]], batch=3)
    assert held(table) == []
    write(table, [[(1, 1, "+I")]], batch=3)
    assert held(table) == [(1, 1)]
    assert table.check(deep=True).ok


def test_a_faster_compaction_is_no_failure_and_a_lasting_one_tells_what_is_committed(tmp_path, monkeypatch):
    table = made(tmp_path / "t", **{"deletion-vectors.enabled": "true"})
    publish, races = compaction.commit_changes_once, []

    def overtaken(handle, *given, **named):
        if len(races) < lost:
            races.append(1)
            raise Conflict("another compaction was faster")
        return publish(handle, *given, **named)

    monkeypatch.setattr(compaction, "commit_changes_once", overtaken)
    lost = 2
    write(table, [[(1, 1, "+I")]])
    assert held(table) == [(1, 1)]
    lost, races = 100, []
    with pytest.raises(Conflict) as told:
        write(table, [[(2, 2, "+I")]])
    assert "The rows are committed" in " ".join(told.value.__notes__)
    monkeypatch.undo()
    table.compact()
    assert held(table) == [(1, 1), (2, 2)]


def test_every_n_micro_batches_compact_all_that_came_since(tmp_path):
    table = made(tmp_path / "t", **{"full-compaction.delta-commits": "3", "num-sorted-run.compaction-trigger": "99"})
    found = []
    for number in range(7):
        write(table, [[(number % 2, number, "+I")]], batch=number)
        found.append(0 in table.files()["level"].to_list())
    assert found == [False, True, True, False, True, True, False]


def test_write_only_is_the_users_own_word(tmp_path):
    table = made(tmp_path / "t", **{"deletion-vectors.enabled": "true", "write-only": "true"})
    write(table, [[(1, 1, "+I")]])
    assert held(table) == []
    assert table.files()["level"].to_list() == [0]


def test_what_a_table_wants_after_a_commit_is_done(tmp_path):
    """Tasks only add files; the table is looked after as its own options say."""
    table = made(tmp_path / "t", **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"})
    for number in range(5):
        write(table, [[(number, number, "+I")]])
    assert len(table.snapshots()) == 2
