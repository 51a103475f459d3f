"""README's Python, run as it stands, block after block in one folder: what a new user types first works as it is written."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
TOTAL = pl.Decimal(10, 2)


def block(beginning: str) -> str:
    return next(code for code in BLOCKS if beginning in code)


def orders(**more):
    return pl.DataFrame(
        {"id": [1, 2], "day": [date(2024, 3, 31)] * 2, "total": [Decimal("1.50"), Decimal("2.50")]} | more, schema_overrides={"total": TOTAL, "shop": pl.Int32}
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(code, **names):
    known = {"lk": lk, "pl": pl} | names
    exec(compile(code, "README.md", "exec"), known)
    return known


def test_ten_lines_of_use():
    columns = {"id": "BIGINT NOT NULL", "day": "STRING", "shop": "INT", "total": "DECIMAL(10, 2)"}
    made = lk.create("warehouse/shop.db/orders", columns, primary_keys=["id"], options={"bucket": "1"})
    for _ in range(7):
        made.upsert(orders(shop=[7, 8]).with_columns(pl.col("day").cast(pl.String)))
    made.create_tag("month-end", at=4)
    run(block("lk.hex("))


def test_writing_and_what_looks_after_it():
    told = run(block("t.upsert(frame)  "), frame=orders(), source=orders(), changes=orders(op=["+U", "-D"]))
    assert told["t"].scan().collect().height == 2
    care = block("t.expire_partitions").replace('consumer="dashboard"', 'consumer="dashboard", until="latest"')
    run(care, t=told["t"], frame=orders(note=[None, "x"]))


def test_tables_by_name():
    schema = {"id": "BIGINT NOT NULL", "day": "DATE", "total": "DECIMAL(10, 2)"}
    Path("clicks").mkdir()
    orders().write_parquet("clicks/a.parquet")
    code = block("cat.create_format_table").replace("/data/clicks", str(Path("clicks").resolve()))
    code = "\n".join(line for line in code.splitlines() if "s3://" not in line)
    filled = 'cat["shop.sales"].upsert(frame); cat["shop.sales"].create_tag("month-end")\n'
    run(code.replace("cat.create_format_table", filled + "cat.create_format_table"), schema=schema, frame=orders())
    assert lk.connect("warehouse")["shop.march"].scan().collect().height == 2


def test_sql():
    cat = lk.connect("warehouse")
    cat.create_database("shop")
    schema = {"id": "BIGINT NOT NULL", "day": "STRING", "shop": "INT", "total": "DECIMAL(10, 2)"}
    made = cat.create_table("shop.orders", schema, primary_keys=["id"])
    for _ in range(3):
        made.upsert(orders(shop=[7, 8]).with_columns(pl.col("day").cast(pl.String)))
    cat.create_format_table("shop.inbox", schema | {"id": "BIGINT"}, format="csv")
    run(block("cat.create_view"), cat=cat)
