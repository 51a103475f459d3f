"""Files without their partition columns, as Paimon's migration of Hive's tables leaves them: the folder says the values, whatever asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lakekit as lk
from lakekit.codec import binary_row
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"k": "BIGINT", "day": "DATE", "p": "STRING"}
PLACES = {"day=19723/p=a": (19723, "a"), "day=19724/p=x%3Dy": (19724, "x=y"), "day=__DEFAULT_PARTITION__/p=a": (None, "a")}


def encoded(values, types):
    return binary_row.with_arity(binary_row.encode_row(values, types), len(types))


def laid(path: Path, format_name: str) -> None:
    held = pa.table({"k": pa.array([1, 2], pa.int64())})
    path.parent.mkdir(parents=True)
    match format_name:
        case "parquet":
            pq.write_table(held, path)
        case "orc":
            orc.write_table(held, path)
        case "avro":
            pl.DataFrame({"k": [1, 2]}).write_avro(path, name="r")


def told(table: lk.Table, path: Path, *, counted: bool) -> DataFileMeta:
    """What a migration says of a file: nothing of the columns that it lacks, or nothing of any."""
    types = [field.type for field in table.schema.fields]
    low, high = ([1, None, None], [2, None, None]) if counted else ([None] * 3, [None] * 3)
    stats = Stats(min_values=encoded(low, types), max_values=encoded(high, types), null_counts=(0 if counted else None, None, None))
    return DataFileMeta(name=path.name, size_bytes=path.stat().st_size, row_count=2, value_stats=stats, creation_time_ms=0, delete_row_count=0, source=0)


def taken(root: Path, format_name: str, *, counted: bool) -> lk.Table:
    """A table of such files, and in each partition one that lakekit wrote."""
    table = lk.create(root / "t", COLUMNS, partition_keys=["day", "p"], options={"bucket": "-1", "file.format": format_name})
    types = [field.type for field in table._context().schema.partition_fields]
    messages = []
    for folder, values in PLACES.items():
        path = root / "t" / folder / "bucket-0" / f"data-1.{format_name}"
        laid(path, format_name)
        file = told(table, path, counted=counted)
        messages.append(CommitMessage(partition=encoded(values, types), bucket=0, total_buckets=-1, new_files=(file,)))
    table.commit(messages, commit_user="migration")
    days = pl.Series([day for day, _ in PLACES.values()], dtype=pl.Int32).cast(pl.Date)
    table.append(pl.DataFrame({"k": [7] * 3, "day": days, "p": [p for _, p in PLACES.values()]}))
    return table


def expected() -> list[tuple]:
    return sorted(((k, day, p) for day, p in PLACES.values() for k in (1, 2, 7)), key=repr)


def rows(frame: pl.LazyFrame) -> list[tuple]:
    return sorted(frame.select("k", pl.col("day").to_physical(), "p").collect().rows(), key=repr)


@pytest.mark.parametrize("counted", [True, False], ids=["some statistics", "none"])
@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
def test_folders_say_what_files_lack(tmp_path, format_name, counted):
    table = taken(tmp_path, format_name, counted=counted)
    assert rows(table.scan()) == rows(table.scan(raw=True)) == rows(table.changes(0)) == expected()
    assert rows(table.scan().filter(pl.col("p") == "x=y")) == [row for row in expected() if row[2] == "x=y"]
    assert rows(table.scan().filter((pl.col("p") == "x=y") | (pl.col("k") == 1))) == [row for row in expected() if row[2] == "x=y" or row[0] == 1]
    assert rows(table.scan().filter(pl.col("day").is_null())) == [row for row in expected() if row[1] is None]
    assert sorted(table.scan().select("p").collect()["p"]) == sorted(p for _, _, p in expected())
    assert table.scan().select("k").sum().collect().item() == 30
    assert table.check(deep=True).ok
    table.delete("k = 2 AND p = 'a'")
    table.compact(full=True)
    assert rows(table.scan()) == [row for row in expected() if not (row[0] == 2 and row[2] == "a")]
    assert table.check(deep=True).ok


def test_through_a_storage_that_polars_does_not_open(tmp_path):
    table, store = taken(tmp_path, "parquet", counted=True), MemoryStorage()
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            store.put(f"t/{path.relative_to(tmp_path / 't')}", path.read_bytes())
    assert rows(Table(location="t", name="t", storage=store).scan()) == rows(table.scan())


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(("functions", "held"), [({}, [None, 3]), ({"fields.default-aggregate-function": "sum"}, [0, 6])], ids=["retracted", "added up"])
def test_partitions_that_an_aggregation_made_into_something_else(tmp_path, format_name, functions, held):
    """Where keys move between partitions the column is aggregated as any other; a row is of the partition it lies in."""
    options = {"bucket": "-1", "merge-engine": "aggregation", "file.format": format_name, "changelog-producer": "lookup", **functions}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "p": "INT", "v": "INT"}, primary_keys=["k"], partition_keys=["p"], options=options)
    rows = {"k": [1, 1, 2, 2], "p": [3, 3, 3, 3], "v": [7, 7, 7, 7], "op": ["+I", "-U", "+I", "+I"]}
    table.upsert(pl.DataFrame(rows), row_kind="op")
    [path] = (tmp_path / "t" / "p=3").rglob("data-*")
    if format_name == "parquet":
        assert pq.ParquetFile(path).read(columns=["p"]).column("p").to_pylist() == held, "what the file holds"
    assert table.scan().sort("k").select("k", "p").collect().rows() == [(1, 3), (2, 3)]
    assert table.scan().filter(pl.col("p") == 3).select("p").collect().rows() == [(3,), (3,)]
    assert next(table.follow(until="latest")).frame.sort("k").select("p").collect().rows() == [(3,), (3,)]
    table.upsert(pl.DataFrame({"k": [4], "p": [5], "v": [1]}))
    table.compact(full=True)
    assert table.scan().sort("k").select("k", "p").collect().rows() == [(1, 3), (2, 3), (4, 5)]
