"""A panic of Polars over an expression of the caller is a LakekitError that names the expression, at every door where lakekit runs it.

`PanicException` is no `Exception`: `except Exception` around a door would not catch it. What the caller collects is Polars' own.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pytest

import lakekit as lk
from lakekit.columns import collect_batches
from lakekit.read.user_expressions import translate_panics

if TYPE_CHECKING:
    from collections.abc import Callable

STRUCTS = pl.col("r").list.set_union("r").list.len() > 1
"""Polars has no sets of structs: "not implemented for dtype Struct"."""
OF_PARTITION = pl.concat_list(pl.struct("p")).list.set_union(pl.concat_list(pl.struct("p"))).list.len() > 0
OF_SOURCE = lk.source("r").list.set_union(lk.source("r")).list.len() > 0
SCHEMA = {"k": "INT", "p": "INT", "v": "BIGINT", "r": "ARRAY<ROW<x INT>>"}
ROWS = pl.DataFrame(
    {"k": [1, 2, 3], "p": [0, 0, 1], "v": [1, 2, 3], "r": [[{"x": 1}], [{"x": 2}, {"x": 3}], []]},
    schema={"k": pl.Int32, "p": pl.Int32, "v": pl.Int64, "r": pl.List(pl.Struct({"x": pl.Int32}))},
)
OPTIONS = {
    "append": ([], {}),
    "vectors": ([], {"deletion-vectors.enabled": "true"}),
    "key": (["k", "p"], {"bucket": "1"}),
    "partial-update": (["k", "p"], {"bucket": "1", "merge-engine": "partial-update"}),
}
Doors = dict[str, "Callable[[lk.Table], object]"]
MERGE: Doors = {
    "merge on": lambda t: t.merge(ROWS, lk.when_matched(update={"v": 1}), on=(pl.col("k") == lk.source("k")) & STRUCTS),
    "merge where": lambda t: t.merge(ROWS, lk.when_matched(update={"v": 1}, where=STRUCTS), on=["k"]),
    "merge where of the source": lambda t: t.merge(ROWS, lk.when_matched(update={"v": 1}, where=OF_SOURCE), on=["k"]),
    "merge update": lambda t: t.merge(ROWS, lk.when_matched(update={"v": STRUCTS.cast(pl.Int64)}), on=["k"]),
    "merge insert": lambda t: t.merge(
        ROWS.with_columns(k=pl.col("k") + 9), lk.when_not_matched(insert={"k": lk.source("k"), "p": lk.source("p"), "v": OF_SOURCE.cast(pl.Int64)}), on=["k"]
    ),
    "merge insert where": lambda t: t.merge(ROWS.with_columns(k=pl.col("k") + 9), lk.when_not_matched(where=OF_SOURCE), on=["k"]),
    "merge by source": lambda t: t.merge(ROWS[:1], lk.when_not_matched_by_source(update={"v": 1}, where=STRUCTS), on=["k"]),
}
DOORS: Doors = MERGE | {
    "delete": lambda t: t.delete(STRUCTS),
    "delete of partitions": lambda t: t.delete(OF_PARTITION),
    "update where": lambda t: t.update({"v": 1}, where=STRUCTS),
    "update": lambda t: t.update({"v": STRUCTS.cast(pl.Int64)}, where="k > 0"),
    "aggregate where": lambda t: t.aggregate(pl.len(), where=STRUCTS),
    "aggregate": lambda t: t.aggregate(STRUCTS.sum()),
    "aggregate of changes": lambda t: t.with_options({"incremental-between": "1,2"}).aggregate(STRUCTS.sum()),
    "compact": lambda t: t.compact(full=True, where=OF_PARTITION),
    "rewrite_file_index": lambda t: t.rewrite_file_index(where=OF_PARTITION),
}


def make_table(folder: str, kind: str) -> lk.Table:
    keys, options = OPTIONS[kind]
    t = lk.create(folder, SCHEMA, primary_keys=keys, partition_keys=["p"], options=options)
    for part in (ROWS, ROWS[:1].with_columns(k=pl.lit(7, pl.Int32))):
        t.upsert(part) if keys else t.append(part)
    return t


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("door", DOORS)
def test_a_panic_at_a_door_names_the_expression(tmp_path, door, kind):
    t = make_table(str(tmp_path / "t"), kind)
    before = t.scan().collect().sort("k")
    files = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(lk.LakekitError) as refused:
        DOORS[door](t)
    said = str(refused.value)
    assert "list.union(" in said and "Polars" in said and "Traceback" not in said, said
    assert "\x1f" not in said, said
    assert ("panicked" in said and t._context().name in said) or "does not fit the columns" in said
    assert t.scan().collect().sort("k").equals(before)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == files


@pytest.mark.parametrize("kind", ["key", "partial-update"])
def test_a_panic_over_which_partitions_to_rescale_leaves_the_number_of_buckets(tmp_path, kind):
    t = make_table(str(tmp_path / "t"), kind)
    with pytest.raises(lk.SchemaMismatch, match=r"Polars panicked over where=.*list.union"):
        t.rescale(3, where=OF_PARTITION)
    assert t.options["bucket"] == "1"


@pytest.mark.parametrize("kind", OPTIONS)
def test_rows_of_a_query_that_panics_are_not_written_in_part(tmp_path, kind):
    t = make_table(str(tmp_path / "t"), kind)
    before = t.scan().collect().sort("k")
    broken = ROWS.lazy().with_columns(v=STRUCTS.cast(pl.Int64))
    for rows in (broken, pl.concat([ROWS.lazy(), broken])):
        with pytest.raises(lk.SchemaMismatch, match="Polars panicked over the query whose rows are to be written: not implemented"):
            t.upsert(rows) if OPTIONS[kind][0] else t.append(rows)
        with pytest.raises(lk.SchemaMismatch, match="Polars panicked over the query"):
            t.overwrite(rows)
        with pytest.raises(lk.SchemaMismatch, match="Polars panicked over the query"):
            t.merge(rows, lk.when_matched(update={"v": 1}), on=["k"])
    assert t.scan().collect().sort("k").equals(before)


def test_a_panic_in_a_statement_names_it(tmp_path, monkeypatch):
    cat = lk.connect(str(tmp_path))
    cat.sql("CREATE DATABASE d; CREATE TABLE d.t (k INT); INSERT INTO d.t VALUES (1)")

    collect = pl.LazyFrame.collect

    def panic(frame: pl.LazyFrame, **options: object) -> object:
        if "PaimonScan" in frame.explain():
            raise pl.exceptions.PanicException("index out of bounds")
        return collect(frame, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", panic)
    with pytest.raises(lk.SchemaMismatch, match=r"Polars panicked over sql='SELECT k FROM d.t' of the query: index out of bounds"):
        cat.sql("SELECT k FROM d.t; SELECT k FROM d.t")


@pytest.mark.parametrize(
    ("text", "error"), [("Cannot allocate memory (os error 12)", lk.StorageFailed), ("KeyboardInterrupt: ", KeyboardInterrupt), ("x", lk.SchemaMismatch)]
)
def test_what_a_panic_becomes(text, error):
    with pytest.raises(error), translate_panics("t", where=pl.col("k") > 1):
        raise pl.exceptions.PanicException(text)
    with (
        pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else pl.exceptions.PanicException if error is lk.SchemaMismatch else error),
        translate_panics("t", where=None),
    ):
        raise pl.exceptions.PanicException(text)


def test_polars_own_batches_end_at_a_panic_and_ours_raise_it():
    frame = pl.concat([ROWS.lazy().select(STRUCTS)] * 3)
    assert list(frame.collect_batches()) == []  # when this fails, `lakekit.columns.collect_batches` is needed no more
    with pytest.raises(pl.exceptions.PanicException, match="not implemented"):
        list(collect_batches(frame))


@pytest.mark.parametrize("seed", range(20))
def test_batches_are_those_of_polars(tmp_path, seed):
    rng = Random(seed)
    rows, size = rng.choice([0, 1, 7, 1000]), rng.choice([None, 1, 3, 400])
    frame = pl.DataFrame({"k": range(rows)}).lazy().filter(pl.col("k") % rng.randint(1, 3) == 0)
    own, theirs = list(collect_batches(frame, chunk_size=size)), list(frame.collect_batches(chunk_size=size))
    assert [batch.to_dict(as_series=False) for batch in own] == [batch.to_dict(as_series=False) for batch in theirs]
    unordered = list(collect_batches(frame, chunk_size=size, maintain_order=False))
    assert sorted(k for batch in unordered for k in batch["k"]) == frame.collect()["k"].to_list()


def test_batches_raise_errors_where_they_are_pulled_and_stop_where_they_are_left():
    frame = pl.DataFrame({"k": ["1", "x"]}).lazy().select(pl.col("k").cast(pl.Int32))
    with pytest.raises(pl.exceptions.InvalidOperationError):
        list(collect_batches(frame))
    several = [collect_batches(pl.DataFrame({"k": range(5000)}).lazy(), chunk_size=10) for _ in range(4)]
    assert [next(batches).height for batches in several] == [10] * 4
    assert sum(batch.height for batch in several[0]) == 4990
    for batches in several:
        batches.close()
    for _ in range(200):
        if not (running := [thread for thread in threading.enumerate() if thread.name == "lakekit-pull"]):
            break
        running[0].join(0.1)
    assert not [thread for thread in threading.enumerate() if thread.name == "lakekit-pull"]


def test_no_module_takes_the_batches_of_polars_itself():
    own = re.compile(r"\.collect_batches\(")
    assert [path for path in Path(lk.__file__).parent.rglob("*.py") if own.search(path.read_text())] == []
