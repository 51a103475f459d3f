"""What an installed lakekit must do with the versions of its dependencies that are there: `python installed.py`, in any environment.

Run by `test_dependencies.py` in environments of the lowest and of the newest versions.
"""

from __future__ import annotations

import contextlib
import io
import os
import sqlite3
import tempfile
from base64 import b64decode
from pathlib import Path

import polars as pl

import lakekit as lk
from lakekit.cli import main as cli

FORMATS = ("parquet", "orc", "avro")


def write_and_read(folder: Path) -> None:
    """Key and append tables in every format, compacted, checked, changed and followed."""
    for name in FORMATS:
        table = lk.create(
            folder / name, {"k": "BIGINT", "v": "DECIMAL(10, 2)", "t": "TIMESTAMP(3)"}, primary_keys=["k"], options={"bucket": "2", "file.format": name}
        )
        for value in range(6):
            table.upsert([{"k": value % 3, "v": value, "t": None}])
        table.compact(full=True)
        table.delete(pl.col("k") == 1)
        assert table.scan().sort("k").collect()["v"].to_list() == [3, 5], name
        assert not table.check(deep=True).problems
    log = lk.create(folder / "log", {"k": "BIGINT", "s": "STRING"}, options={"file-index.bloom-filter.columns": "k", "file-index.bitmap.columns": "s"})
    log.append(pl.DataFrame({"k": range(1000), "s": ["a", "b"] * 500}))
    assert log.aggregate(pl.len(), where="k = 7 AND s = 'b'").item() == 1


def speak_sql(folder: Path) -> None:
    """Every kind of statement, in a catalog in SQLite."""
    catalog = lk.connect(folder / "lake", metastore="jdbc", uri=f"sqlite:///{folder / 'catalog.db'}")
    catalog.create_database("d")
    catalog.sql("CREATE TABLE d.t (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('bucket' = '1')")
    catalog.sql("INSERT INTO d.t VALUES (1, 1), (2, 2); UPDATE d.t SET v = v + 1 WHERE k = 1; DELETE FROM d.t WHERE k = 2")
    assert catalog.sql("SELECT sum(v) AS s FROM d.t WHERE k IN (1, 2)").collect().item() == 2
    assert sqlite3.connect(folder / "catalog.db").execute("SELECT count(*) FROM paimon_tables").fetchone() == (1,)


def aggregate_sketches(folder: Path) -> None:
    """Sketches made by the library and merged by the engine."""
    import datasketches

    one = datasketches.hll_sketch(12)
    one.update(1)
    table = lk.create(
        folder / "sketches", {"k": "INT", "v": "BYTES"}, primary_keys=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "hll_sketch"},
    )  # fmt: skip
    for _ in range(2):
        table.upsert([{"k": 1, "v": one.serialize_compact()}])
    merged = datasketches.hll_sketch.deserialize(table.scan().collect()["v"].item())
    assert round(merged.get_estimate()) == 1


def store_objects() -> None:
    """Objects written, listed and claimed through the library of object stores."""
    from spec_tests.reliability.s3_server import S3Server

    with S3Server() as server:
        table = lk.create(server.url("t"), {"k": "BIGINT"}, storage_options=server.options)
        table.append([{"k": 1}])
        table.append([{"k": 2}])
        assert lk.open(server.url("t"), storage_options=server.options).scan().collect().height == 2


def draw(folder: Path) -> None:
    """The views of a table as pictures, and the shell."""
    table = lk.open(folder / "parquet")
    shown = table.browse()._repr_mimebundle_()
    data = shown[0] if isinstance(shown, tuple) else shown
    assert b64decode(data["image/png"]).startswith(b"\x89PNG")
    for arguments in (["inspect", str(folder / "parquet")], ["plan", str(folder / "parquet"), "--where", "k = 1"], ["demo"]):
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.main(arguments) == 0


def main() -> None:
    with tempfile.TemporaryDirectory() as found:
        folder = Path(found)
        os.chdir(folder)
        write_and_read(folder)
        speak_sql(folder)
        aggregate_sketches(folder)
        store_objects()
        draw(folder)
    print("all of it works")


if __name__ == "__main__":
    main()
