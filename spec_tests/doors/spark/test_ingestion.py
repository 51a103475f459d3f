"""The pipeline for one's own data: each batch once in each table, whatever stops it; nothing is lost unseen."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import polars as pl
import pytest

import lakekit as lk
from lakekit.cli.main import main
from lakekit.errors import Conflict, InvalidOption, SchemaMismatch, Unsupported
from lakekit.spark.pipeline import change_source, ingestion
from lakekit.spark.pipeline.configuration import parse_configuration, read_configuration
from lakekit.spark.pipeline.pipeline_state import open_state, status
from spec_tests.doors.spark.kill import kill_run
from spec_tests.doors.test_readme import FENCES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakekit.spark.pipeline.configuration import PipelineConfiguration

pytestmark = pytest.mark.spark


def configured(root: Path, text: str = "", *, source: str = "", head: str = "") -> PipelineConfiguration:
    """A pipeline of the files in `root/landing`."""
    (root / "landing").mkdir(exist_ok=True)
    return parse_configuration(
        f'[pipeline]\nuser = "u"\nwarehouse = "{root}/lake"\ncheckpoint = "{root}/at"\ndatabase = "shop"\n{head}'
        f'[source]\npath = "{root}/landing"\n{source}\n{text}'
    )


def put(root: Path, name: str, rows: list[Any]) -> None:
    """Let a file of JSON lines land; a text stands as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    hidden = root / f".{name}"
    hidden.write_text("\n".join(lines) + "\n")
    hidden.rename(root / "landing" / name)


def run(spark: SparkSession, configuration: PipelineConfiguration, **words: Any) -> list[str]:
    """Take what is there; return the lines that were said."""
    said: list[str] = []
    ingestion.run(spark, configuration, once=True, say=said.append, **words)
    return said


def rows(root: Path, name: str) -> list[dict[str, Any]]:
    frame = lk.connect(root / "lake").table(f"shop.{name}").scan().collect()
    return frame.sort(frame.columns[0]).to_dicts()


def letters(root: Path) -> list[tuple[Any, ...]]:
    frame = lk.connect(root / "lake").table("shop.dead_letters").scan().collect()
    return frame.select("table", "problem", "value").sort("value").rows()


TWO_TABLES = """
[routing]
by = "t"
[[table]]
name = "x"
primary_keys = ["id"]
exclude = ["t"]
computed = { year = "year(at)", month = "date_format(at, yyyy-MM)", five = "cast(5, INT)" }
metadata = { origin = "table_name" }
columns = { at = "TIMESTAMP(3)" }
[[table]]
name = "y"
primary_keys = ["k"]
rename = { "the s" = "s" }
"""


def test_two_tables_from_one_source_that_grow(spark, tmp_path):
    made = configured(tmp_path, TWO_TABLES, source='row_kind = "op"')
    put(
        tmp_path,
        "a.json",
        [
            {"op": "+I", "t": "x", "id": 1, "n": 5, "at": "2024-01-02 03:04:05"},
            {"op": "+I", "t": "y", "k": 1, "the s": "hi"},
            {"op": "+U", "t": "x", "id": 1, "n": 6, "at": "2024-02-02 03:04:05"},
            "no json",
            "",
            {"op": "+I", "id": 7},
            {"op": "+I", "t": "x", "n": 1},
            {"op": "?", "t": "x", "id": 1},
        ],
    )
    seen = ingestion.check(spark, made)
    assert seen.filter(table="shop.x").select("column", "key").rows()[0] == ("id", "primary")
    assert set(seen["table"]) == {"shop.x", "shop.y", "shop.dead_letters"}
    assert not (tmp_path / "lake" / "shop.db").exists(), "nothing is written"
    [said] = run(spark, made)
    assert "x 3, y 1, dead letters 4" in said
    [x] = rows(tmp_path, "x")
    assert (x["id"], x["n"], x["year"], x["month"], x["five"], x["origin"]) == (1, 6, 2024, "2024-02", 5, "x")
    assert rows(tmp_path, "y") == [{"k": 1, "t": "y", "s": "hi"}]
    assert len(letters(tmp_path)) == 4
    assert {table for table, _, _ in letters(tmp_path)} == {"x", None}
    put(
        tmp_path,
        "b.json",
        [
            {"op": "-D", "t": "x", "id": 1},
            {"op": "+I", "t": "x", "id": 2, "n": 2**40, "new": True},
            {"op": "+I", "t": "x", "id": 3, "n": "word"},
            {"op": "+I", "t": "y", "k": 2},
        ],
    )
    run(spark, made)
    assert [(row["id"], row["n"], row["new"]) for row in rows(tmp_path, "x")] == [(2, 2**40, True)]
    assert [row["k"] for row in rows(tmp_path, "y")] == [1, 2]
    assert len(letters(tmp_path)) == 5
    assert any(value is not None and "word" in value for _, _, value in letters(tmp_path))
    assert run(spark, made) == [], "nothing has come"
    found = {row["table"]: row for row in status(made).to_dicts()}
    assert found["shop.x"]["batch"] == 1
    assert found["shop.x"]["pending_batches"] == 0
    assert found["shop.dead_letters"]["rows"] == 5
    assert set(ingestion.check(spark, made)["state"]) >= {"as it is"}


def test_what_stops_it_names_the_first_that_does_not_fit(spark, tmp_path):
    made = configured(tmp_path, '[growth]\non_problem = "stop"\n[[table]]\nname = "t"\nprimary_keys = ["id"]\n')
    put(tmp_path, "a.json", [{"id": 1}, "no json"])
    with pytest.raises(SchemaMismatch, match="batch 0: 1 messages fit nowhere"):
        run(spark, made)
    assert status(made).is_empty()
    kept = replace(made, growth=replace(made.growth, on_problem="dead-letter"))
    run(spark, kept)
    assert rows(tmp_path, "t") == [{"id": 1}]
    assert set(status(kept)["last_error"]) == {None}


# ---- formats of files


def test_csv_whose_headers_change(spark, tmp_path):
    made = configured(
        tmp_path,
        '[[table]]\nname = "t"\nprimary_keys = ["id"]\ncolumns = { id = "INT", n = "BIGINT", "a b" = "STRING" }\n',
        source='format = "csv"\nrow_kind = "op"',
    )
    put(tmp_path, "a.csv", ["op,id,n", "+I,1,007", "+I,2,x", "+I,3"])
    put(tmp_path, "b.csv", ["a b,n,op,id", "'q,5,+U,1"])
    run(spark, made)
    assert rows(tmp_path, "t") == [{"id": 1, "n": 5, "a b": "'q"}]
    assert any(problem.startswith("the line has other columns") for _, problem, _ in letters(tmp_path))
    assert len(letters(tmp_path)) == 2


def test_parquet_with_typed_columns(spark, tmp_path):
    made = configured(tmp_path, '[[table]]\nname = "t"\nprimary_keys = ["id"]\n', source='format = "parquet"')
    first = pl.DataFrame({"id": [1, 2], "n": [1, 2], "f": [0.1, None], "d": ["a", "é"], "l": [[1], [2, 3]]})
    first = first.with_columns(pl.col("id").cast(pl.Int32), pl.date(2024, 1, pl.col("n")).alias("day"), pl.lit(None, pl.Binary).alias("b"))
    first.write_parquet(tmp_path / "landing" / "a.parquet")
    run(spark, made)
    assert rows(tmp_path, "t") == first.to_dicts()


def test_parquet_files_whose_schemas_do_not_merge_are_read_one_by_one(monkeypatch):
    monkeypatch.setattr(change_source, "_file_position", lambda: "position")
    source = parse_configuration('[pipeline]\nuser = "u"\nwarehouse = "w"\ncheckpoint = "c"\n[source]\npath = "p"\nformat = "parquet"').source
    spark = MagicMock()
    reader = spark.read.options.return_value.option.return_value
    reader.option.return_value.parquet.side_effect = RuntimeError("[CANNOT_MERGE_SCHEMAS] Failed merging schemas")
    assert len(change_source._read_parquet(spark, source, ["a", "b"])) == 2
    assert [call.args for call in reader.parquet.call_args_list] == [("a",), ("b",)]
    reader.option.return_value.parquet.side_effect = RuntimeError("a disk is full")
    with pytest.raises(RuntimeError, match="a disk is full"):
        change_source._read_parquet(spark, source, ["a", "b"])


def test_avro_files(spark, tmp_path):
    made = configured(tmp_path, '[[table]]\nname = "t"\nprimary_keys = ["id"]\n', source='format = "avro"')
    pl.DataFrame({"id": [1, 2], "s": ["a", None]}).write_avro(tmp_path / "landing" / "a.avro")
    run(spark, made)
    pl.DataFrame({"id": [2], "s": ["b"], "x": [1.5]}).write_avro(tmp_path / "landing" / "b.avro")
    run(spark, made)
    assert rows(tmp_path, "t") == [{"id": 1, "s": "a", "x": None}, {"id": 2, "s": "b", "x": 1.5}]


def test_debezium_events_into_tables_of_their_names(spark, tmp_path):
    made = configured(
        tmp_path,
        '[routing]\nexclude = "shop\\\\.secret"\nprefix = "ods_"\n[defaults]\nprimary_keys = ["id"]\nmetadata = { at = "op_ts" }\n',
        source='format = "debezium"',
    )

    def event(op: str, before: Any, after: Any, table: str = "orders") -> dict[str, Any]:
        return {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}, "ts_ms": 1_700_000_000_000}

    put(
        tmp_path,
        "a.json",
        [
            event("c", None, {"id": 1, "n": 1}),
            event("c", None, {"id": 2, "n": 1}),
            event("u", {"id": 1, "n": 1}, {"id": 3, "n": 2}),
            event("d", {"id": 2, "n": 1}, None),
            event("c", None, {"id": 1, "s": "it's"}, "items"),
            event("c", None, {"id": 1}, "secret"),
            event("c", None, {"id": 1}, "no/table"),
            {"op": "x"},
        ],
    )
    run(spark, made)
    assert [(row["id"], row["n"]) for row in rows(tmp_path, "ods_orders")] == [(3, 2)]
    assert rows(tmp_path, "ods_orders")[0]["at"].timestamp() == 1_700_000_000
    assert [(row["id"], row["s"]) for row in rows(tmp_path, "ods_items")] == [(1, "it's")]
    assert set(lk.connect(tmp_path / "lake").tables("shop")["table"]) == {"ods_orders", "ods_items", "dead_letters"}
    assert len(letters(tmp_path)) == 2


def test_the_configuration_of_the_readme(spark, tmp_path):
    [text] = [code for language, code in FENCES if language == "toml"]
    (tmp_path / "orders.toml").write_text(text)
    (tmp_path / "landing").mkdir()
    after = {"id": 1, "created": "2024-03-31 10:00:00", "total": 1.5}
    put(tmp_path, "a.json", [{"op": "c", "before": None, "after": after, "source": {"db": "shop", "table": "orders"}}])
    assert "shop.ods_orders" in ingestion.check(spark, read_configuration(tmp_path / "orders.toml"))["table"].to_list()
    run(spark, read_configuration(tmp_path / "orders.toml"))
    assert [(row["id"], row["day"]) for row in rows(tmp_path, "ods_orders")] == [(1, "2024-03-31")]


# ---- other sources


def test_a_table_as_a_source(spark, tmp_path):
    catalog = lk.connect(tmp_path / "from")
    catalog.create_database("a")
    t = catalog.create_table("a.t", {"id": "INT", "n": "INT"}, primary_keys=["id"], options={"bucket": "1", "changelog-producer": "input"})
    t.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    made = configured(tmp_path, '[[table]]\nname = "copy"\nprimary_keys = ["id"]\n')
    made = replace(made, source=replace(made.source, kind="paimon", path=t.location))
    run(spark, made)
    t.upsert([{"id": 1, "n": 5}])
    t.upsert(pl.DataFrame({"id": [2], "n": [2], "k": ["-D"]}).cast({"id": pl.Int32, "n": pl.Int32}), row_kind="k")
    run(spark, made)
    assert rows(tmp_path, "copy") == [{"id": 1, "n": 5}]


def test_a_stream_of_ones_own(spark, tmp_path):
    made = configured(tmp_path, '[[table]]\nname = "t"\nprimary_keys = ["id"]\n')
    streamed = replace(made, source=replace(made.source, kind="stream", path=None, order=("n",)))
    put(tmp_path, "a.json", [{"id": 1, "n": 2}, {"id": 1, "n": 9}, {"id": 1, "n": 3}])
    stream = spark.readStream.schema("id INT, n INT").json(str(tmp_path / "landing"))
    run(spark, streamed, stream=stream)
    assert rows(tmp_path, "t") == [{"id": 1, "n": 9}]
    with pytest.raises(InvalidOption, match="a stream is missing"):
        run(spark, streamed)
    with pytest.raises(InvalidOption, match="of kind 'stream' alone"):
        run(spark, replace(made, checkpoint=f"{tmp_path}/other"), stream=stream)


# ---- who may run


def test_a_second_pipeline_and_another_checkpoint(spark, tmp_path):
    made = configured(tmp_path, '[[table]]\nname = "t"\nprimary_keys = ["id"]\n')
    put(tmp_path, "a.json", [{"id": 1}])
    with open_state(made), pytest.raises(Conflict, match="is running"):
        run(spark, made)
    run(spark, made)
    with pytest.raises(Conflict, match="with another checkpoint"):
        run(spark, replace(made, checkpoint=f"{tmp_path}/new"))
    assert "Conflict" in status(replace(made, checkpoint=f"{tmp_path}/new"))["last_error"][0]
    with pytest.raises(InvalidOption, match="source format"):
        run(spark, replace(made, source=replace(made.source, format="debezium")))
    put(tmp_path, "b.json", [{"id": 1, "n": 1}])
    with pytest.raises(InvalidOption, match="primary keys id"):
        run(spark, replace(made, tables={"t": replace(made.tables["t"], primary_keys=("n",))}))


def test_tables_that_cannot_be_filled(spark, tmp_path):
    catalog = lk.connect(tmp_path / "lake")
    catalog.create_database("shop")
    first = {"merge-engine": "first-row", "bucket": "1"}
    t = catalog.create_table("shop.t", {"id": "BIGINT"}, primary_keys=["id"], options=first)
    with pytest.raises(Unsupported, match="first-row"):
        ingestion.check_engine(t, ())
    u = catalog.create_table("shop.u", {"id": "BIGINT"}, primary_keys=["id"], options={"merge-engine": "partial-update", "bucket": "1"})
    with pytest.raises(InvalidOption, match=r"sequence\.field"):
        ingestion.check_engine(u, ())


def test_a_sequence_field_decides_and_sums_get_every_change(spark, tmp_path):
    made = configured(
        tmp_path,
        '[routing]\nby = "t"\n[defaults]\nexclude = ["t"]\nprimary_keys = ["id"]\n'
        '[[table]]\nname = "late"\noptions = { "sequence.field" = "ts" }\n'
        '[[table]]\nname = "sum"\noptions = { merge-engine = "aggregation", "fields.n.aggregate-function" = "sum" }\n',
    )
    put(tmp_path, "a.json", [{"t": t, "id": 1, "ts": ts, "n": ts} for t in ("late", "sum") for ts in (5, 9, 7)])
    run(spark, made)
    assert rows(tmp_path, "late") == [{"id": 1, "ts": 9, "n": 9}]
    assert rows(tmp_path, "sum")[0]["n"] == 21


# ---- killed


def drawn_events(number: int) -> list[dict[str, Any]]:
    """Changes of two tables, in order; the same each time."""
    made = []
    for at in range(number):
        key, table = (at * 7919) % 97, ("a", "b")[(at // 3) % 2]
        row: dict[str, Any] = {"op": "-D" if at % 11 == 10 else "+U", "t": table, "id": key, "n": at * (1 if at < number // 2 else 2**33)}
        if at > number // 3:
            row["added"] = f"é{at}"
        made.append(row)
    return made


def folded(events: list[dict[str, Any]], table: str) -> list[tuple[Any, ...]]:
    frame = pl.DataFrame(events, schema={"op": pl.String, "t": pl.String, "id": pl.Int64, "n": pl.Int64, "added": pl.String})
    newest = frame.filter(t=table).unique("id", keep="last", maintain_order=True).filter(pl.col("op") != "-D")
    return newest.select("id", "n", "added").sort("id").rows()


def killed(root: Path, landmark: Path) -> None:
    kill_run(["lakekit.cli.main", "pipeline", "run", str(root / "p.toml"), "--once"], landmark)


CONFIG = """
[pipeline]
user = "u"
warehouse = "lake"
checkpoint = "at"
database = "shop"
[source]
path = "landing"
row_kind = "op"
files_per_batch = 3
[routing]
by = "t"
[defaults]
primary_keys = ["id"]
exclude = ["t"]
options = { bucket = 1 }
"""


def test_killed_between_two_tables_and_run_again(spark, tmp_path, capsys):
    (tmp_path / "landing").mkdir()
    (tmp_path / "p.toml").write_text(CONFIG)
    events = drawn_events(600)
    for at in range(6):
        put(tmp_path, f"{at}.json", events[at * 100 : at * 100 + 100])
        os.utime(tmp_path / "landing" / f"{at}.json", (1_700_000_000 + at,) * 2)
    killed(tmp_path, tmp_path / "lake" / "shop.db" / "a" / "snapshot" / "snapshot-1")
    assert main(["pipeline", "status", str(tmp_path / "p.toml"), "--format", "json"]) == 0
    [line] = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert (line["table"], line["batch"], line["pending_batches"]) == ("shop.a", 0, 1)
    killed(tmp_path, tmp_path / "lake" / "shop.db" / "b" / "snapshot" / "snapshot-2")
    made = read_configuration(tmp_path / "p.toml")
    run(spark, made)
    for name in ("a", "b"):
        assert [tuple(row.values()) for row in rows(tmp_path, name)] == folded(events, name)
        assert lk.connect(tmp_path / "lake").table(f"shop.{name}").snapshots()["commit_identifier"].to_list() == [0, 1]
    assert status(made)["pending_batches"].to_list() == [0, 0]


def test_tables_are_looked_after_and_lose_nothing(spark, tmp_path):
    made = configured(
        tmp_path,
        '[[table]]\nname = "t"\nprimary_keys = ["id"]\noptions = { bucket = 1 }\n[care]\ncompact_every = 2\nexpire_every = 2\n',
        source="files_per_batch = 1",
    )
    for at in range(2):
        put(tmp_path, f"{at}.json", [{"id": at, "n": at}])
    run(spark, made)
    assert lk.connect(tmp_path / "lake").table("shop.t").files()["level"].to_list() == [0, 0], "two runs are not due"
    assert rows(tmp_path, "t") == [{"id": 0, "n": 0}, {"id": 1, "n": 1}]


def test_the_sample_of_a_source_is_bounded(spark, tmp_path):
    made = configured(tmp_path, '[[table]]\nname = "t"\nprimary_keys = ["id"]\n')
    for at in range(change_source.SAMPLE_FILES + 5):
        put(tmp_path, f"{at:03}.json", [{"id": at}])
    assert ingestion.check(spark, made)["rows"].to_list() == [change_source.SAMPLE_FILES]
