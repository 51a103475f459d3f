"""Streams of `format("lakekit")`: each row once, whatever stops and goes on."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

import lakekit as lk
from lakekit.errors import InvalidOption, SnapshotNotFound
from lakekit.spark import data_source, register, streaming
from lakekit.spark.types import spark_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOWHERE = {"snapshot": -1, "first": 0, "state": 0}


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def keyed(path: Path, **options: str) -> lk.Table:
    given = {"bucket": "1", **{key.replace("_", "-"): value for key, value in options.items()}}
    return lk.create(path, {"k": "BIGINT", "v": "STRING"}, primary_keys=["k"], options=given)


def put(table: lk.Table, *rows: tuple) -> None:
    frame = pl.DataFrame(rows, schema={"k": pl.Int64, "v": pl.String, "op": pl.String}, orient="row")
    table.upsert(frame, row_kind="op") if table._context().kind == "key" else table.append(frame.drop("op"))


def reader(table: lk.Table, **options: str) -> streaming.StreamReader:
    made = data_source.PaimonDataSource(CaseInsensitiveDict({"path": table.location, **options}))
    return made.streamReader(made.schema())


def batches(stream: streaming.StreamReader, limit=None) -> list[list[tuple]]:
    """Every batch until nothing is left."""
    at, found = stream.initialOffset(), []
    while (end := stream.latestOffset(at, limit or ReadAllAvailable())) != at:
        found.append([tuple(row.values()) for part in stream.partitions(at, end) for batch in stream.read(part) for row in batch.to_pylist()])
        at = end
    return found


def followed(table: lk.Table) -> list[tuple]:
    return [row for change in table.follow(until="latest") for row in change.frame.collect().rows()]


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_what_a_stream_tells_is_what_a_follower_is_told(tmp_path, producer):
    overwrites = {"streaming_read_overwrite": "true"} if producer in ("none", "input") else {}  # of the others it would be told twice
    table = keyed(tmp_path / "t", changelog_producer=producer, **overwrites)
    put(table, (1, "a", "+I"), (2, "b", "+I"))
    put(table, (1, "c", "+U"), (3, "d", "+I"))
    stream = reader(table, row_kind="kind")
    at = stream.initialOffset()
    end = stream.latestOffset(at, ReadAllAvailable())
    told = [tuple(row.values()) for part in stream.partitions(at, end) for batch in stream.read(part) for row in batch.to_pylist()]
    follower = table.follow(until="latest")
    assert sorted(told) == sorted(next(follower).frame.collect().rows())
    put(table, (2, None, "-D"), (4, "e", "+I"))
    table.overwrite(pl.DataFrame({"k": [9], "v": ["z"]}))
    table.alter(lk.add_column("w", "INT"))
    put(table, (5, "f", "+I"))
    later = []
    while (then := stream.latestOffset(end, ReadMaxRows(1))) != end:
        later.append([tuple(row.values()) for part in stream.partitions(end, then) for batch in stream.read(part) for row in batch.to_pylist()])
        end = then
    want = [change.frame.collect().rows() for change in follower]
    assert [sorted(part, key=repr) for part in later if part] == [sorted(part, key=repr) for part in want if part]
    assert ("+I", 5, "f") in later[-1]


def test_without_kinds_what_is_taken_away_is_not_told(tmp_path):
    table = keyed(tmp_path / "t", changelog_producer="input")
    put(table, (1, "a", "+I"))
    stream = reader(table, filter="k < 3")
    put(table, (1, "a", "-U"), (1, "b", "+U"), (2, "x", "-D"), (3, "y", "+I"))
    assert batches(stream) == [[(1, "b")]], "the state, which has the second commit already"
    stream = reader(table, **{"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    assert [row for part in batches(stream, ReadMaxFiles(1)) for row in part] == [(1, "a"), (1, "b"), (3, "y")]


def test_where_a_stream_begins(tmp_path):
    table = lk.create(tmp_path / "t", {"k": "BIGINT", "v": "STRING"})
    empty = reader(table)
    assert empty.latestOffset(NOWHERE, ReadAllAvailable()) == NOWHERE
    latest = reader(table, **{"scan.mode": "latest"})
    for k in range(4):
        put(table, (k, "x", "+I"))
    assert batches(empty) == [[(k, "x") for k in range(4)]]
    assert [len(part) for part in batches(latest, ReadMaxRows(2))] == [2, 2]
    assert batches(reader(table, **{"scan.mode": "latest"})) == [[]], "a batch without rows says where the stream stands"
    part = batches(reader(table, **{"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}))
    assert part == [[(2, "x"), (3, "x")]]
    bounded = reader(table, **{"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    bounded.prepareForTriggerAvailableNow()
    put(table, (9, "late", "+I"))
    assert sum(map(len, batches(bounded))) == 4
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(SnapshotNotFound, match="expired"):
        reader(table).latestOffset({"snapshot": 1, "first": 0, "state": 0}, ReadAllAvailable())
    assert reader(table).partitions({"snapshot": 5, "first": 0, "state": 0}, {"snapshot": 5, "first": 0, "state": 0}) == []
    assert list(reader(table).read(InputPartition(None))) == []


def test_a_snapshot_that_another_has_taken_the_place_of_ends_the_stream(tmp_path):
    """What the one that is gone brought was told, and what the other brought never would be; also of a batch that is planned and done again."""
    table = lk.create(tmp_path / "t", {"k": "BIGINT", "v": "STRING"})
    latest = reader(table, **{"scan.mode": "latest"})
    for k in range(3):
        put(table, (k, "x", "+I"))
    told = reader(table).latestOffset(NOWHERE, ReadAllAvailable())
    behind = latest.latestOffset(NOWHERE, ReadAllAvailable())
    assert reader(table).latestOffset(told, ReadAllAvailable()) == told
    table.rollback(2)
    put(table, (7, "y", "+I"))
    for offset in (told, behind):
        for put_back in (lambda: None, lambda: put(table, (8, "z", "+I"))):
            put_back()
            with pytest.raises(SnapshotNotFound, match=r"told snapshot 3, and another one has its number now.*another checkpoint"):
                reader(table).latestOffset(offset, ReadAllAvailable())
    with pytest.raises(SnapshotNotFound, match="another one has its number now"):
        reader(table).partitions(NOWHERE, told)
    of_old = {name: value for name, value in told.items() if name != "made"}
    assert reader(table).latestOffset(of_old, ReadAllAvailable())["snapshot"] == 5, "a checkpoint that says less goes on"


def test_a_query_does_not_go_on_behind_a_rollback(known, tmp_path):
    table, target = lk.create(tmp_path / "t", {"k": "BIGINT", "v": "STRING"}), lk.create(tmp_path / "u", {"k": "BIGINT", "v": "STRING"})
    put(table, (1, "a", "+I"))
    put(table, (2, "b", "+I"))

    def stream():
        run(known.readStream.format("lakekit").load(table.location), target, tmp_path / "checkpoint")

    stream()
    table.rollback(1)
    put(table, (3, "c", "+I"))
    with pytest.raises(StreamingQueryException, match="another one has its number now"):
        stream()
    assert sorted(target.scan().collect().rows()) == [(1, "a"), (2, "b")]


def test_a_consumer_moves_with_the_batches(tmp_path):
    table = lk.create(tmp_path / "t", {"k": "BIGINT", "v": "STRING"})
    put(table, (1, "x", "+I"))
    stream = reader(table, **{"consumer-id": "me"})
    end = stream.latestOffset(NOWHERE, ReadAllAvailable())
    stream.commit(end)
    assert table.system("consumers").collect()["next_snapshot_id"].to_list() == [2]
    put(table, (2, "y", "+I"))
    assert batches(reader(table, **{"consumer-id": "me"})) == [[(2, "y")]]


def test_options_that_make_no_sense(tmp_path):
    table = keyed(tmp_path / "t", merge_engine="aggregation")
    for options, words in (
        ({}, "changelog-producer"),
        ({"read.stream.maxFilesPerTrigger": "0"}, "above 0"),
        ({"read.stream.maxFileTrigger": "1"}, "no option"),
        ({"read.stream.maxFilesPerTrigger": "1", "read.stream.maxRowsPerTrigger": "1"}, "one of them"),
        ({"row_kind": "v"}, "column 'v' of its own"),
    ):
        with pytest.raises(InvalidOption, match=words):
            reader(table, **options)
    with pytest.raises(InvalidOption, match="checkpointLocation"):
        data_source.PaimonDataSource(CaseInsensitiveDict({"path": table.location})).streamWriter(spark_schema(table.schema.fields), overwrite=False)


def run(frame, target: lk.Table, checkpoint: Path, **options: str) -> None:
    query = frame.writeStream.format("lakekit").options(**options).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.start(target.location).awaitTermination()


def test_from_table_to_table_each_row_once(known, tmp_path):
    table, target = keyed(tmp_path / "t", changelog_producer="input"), keyed(tmp_path / "u")
    put(table, (1, "a", "+I"), (2, "b", "+I"))

    def stream():
        found = known.readStream.format("lakekit").option("row_kind", "op").option("read.stream.maxFilesPerTrigger", "1").load(table.location)
        run(found, target, tmp_path / "checkpoint", row_kind="op")

    stream()
    put(table, (1, "a", "-U"), (1, "c", "+U"))
    put(table, (2, "b", "-D"), (3, "d", "+I"))
    stream()
    stream()
    assert target.scan().sort("k").collect().rows() == table.scan().sort("k").collect().rows() == [(1, "c"), (3, "d")]
    users = target.snapshots()["commit_user"].unique().to_list()
    assert len(users) == 1
    assert target.snapshots()["commit_identifier"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["lookup", "input", "overwritten", "in partitions"])
def test_rows_of_a_key_stay_in_their_order(known, tmp_path, kind):
    """Many snapshots in one batch: tasks run side by side, and which of them wrote last nobody knows. All rows of a key are one task's."""
    if kind == "in partitions":  # a key moves between them
        columns, how = {"k": "BIGINT NOT NULL", "v": "STRING", "p": "INT"}, {"primary_keys": ["k"], "partition_keys": ["p"]}
        table = lk.create(tmp_path / "t", columns, options={"changelog-producer": "lookup"}, **how)
        target = lk.create(tmp_path / "u", columns, primary_keys=["k"], options={"bucket": "2"})
    else:
        more = {"streaming_read_overwrite": "true"} if kind == "overwritten" else {}
        table = keyed(tmp_path / "t", bucket="3", changelog_producer="lookup" if kind == "lookup" else "input", **more)
        target = keyed(tmp_path / "u", bucket="2")
    columns = [field.name for field in table.schema.fields]
    for at in range(14):
        rows = pl.DataFrame({"k": range(6), "v": [f"{at}-{k}" for k in range(6)], "p": [at % 3] * 6}, schema_overrides={"p": pl.Int32})
        if kind == "overwritten" and at % 4 == 3:
            table.overwrite(rows.select(columns))
        else:
            table.upsert(rows.select(columns))
    begin = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    run(known.readStream.format("lakekit").option("row_kind", "op").options(**begin).load(table.location), target, tmp_path / "c", row_kind="op")
    assert target.snapshots()["commit_identifier"].to_list() == [0]
    assert target.scan().sort("k").collect().rows() == table.scan().sort("k").collect().rows()


def test_a_bucket_is_one_task_of_a_batch(tmp_path):
    table = keyed(tmp_path / "t", bucket="3", changelog_producer="input")
    for at in range(4):
        table.upsert(pl.DataFrame({"k": range(40), "v": [str(at)] * 40}))
    stream = reader(table, **{"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    parts = stream.partitions(NOWHERE, stream.latestOffset(NOWHERE, ReadAllAvailable()))
    told = [[tuple(row.values()) for batch in stream.read(part) for row in batch.to_pylist()] for part in parts]
    assert len(told) == 3
    assert sorted(k for rows in told for k in {k for k, _ in rows}) == list(range(40))
    assert all([int(v) for _, v in rows] == sorted(int(v) for _, v in rows) for rows in told)


def test_a_checkpoint_that_is_begun_anew_is_another_query(known, tmp_path):
    """Its batches are numbered from 0 again, and are other ones: taken for those that the table has they would be lost."""
    table, target, place = lk.create(tmp_path / "t", {"k": "BIGINT"}), lk.create(tmp_path / "u", {"k": "BIGINT"}), tmp_path / "checkpoint"
    table.append([{"k": 1}])

    def stream():
        run(known.readStream.format("lakekit").load(table.location), target, place)
        return sorted(target.scan().collect()["k"])

    assert (stream(), stream()) == ([1], [1])
    shutil.rmtree(place)
    table.append([{"k": 2}])
    assert stream() == [1, 1, 2]
    assert len(set(target.snapshots()["commit_user"])) == 2
    spelled = {streaming.commit_user_of(str(text)) for text in (place, f"{place}/", f"file:{place}", f"file://{place}")}
    assert spelled == {target.snapshots()["commit_user"][-1]}
    assert streaming.commit_user_of("hdfs://there/c") == streaming.commit_user_of("hdfs://there/c/") not in spelled


def test_a_batch_that_is_replayed_is_there_already(tmp_path):
    target = lk.create(tmp_path / "u", {"k": "BIGINT", "v": "STRING"})
    schema = spark_schema(target.schema.fields)
    rows = pl.DataFrame({"k": [1], "v": ["x"]}).to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()
    for _ in range(2):  # the driver died after the commit, and the batch came again
        writer = data_source.PaimonDataSource(CaseInsensitiveDict({"path": target.location, "checkpointLocation": "file:/c"})).streamWriter(
            schema, overwrite=False
        )
        answers = [writer.write(iter(rows))]
        writer.commit(answers, 7)
        writer.abort(answers, 7)
    assert target.scan().collect().rows() == [(1, "x")]
    assert len(list(tmp_path.rglob("data-*"))) == 1
    whole = data_source.PaimonDataSource(CaseInsensitiveDict({"path": target.location, "checkpointLocation": "file:/d"})).streamWriter(schema, overwrite=True)
    whole.commit([whole.write(iter([])), None], 0)
    assert target.scan().collect().is_empty(), "output mode complete: the table is what the batch is"
