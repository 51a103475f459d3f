"""Change events of other systems, and what lakekit reads of them."""

from __future__ import annotations

import json
from decimal import Decimal

from pyspark.sql import functions as sf

from lakekit.spark.pipeline.change_format import read_changes
from lakekit.spark.pipeline.change_schema import to_rows
from lakekit.types import Field, parse


def text(event) -> str | None:
    return event if event is None or isinstance(event, str) else json.dumps(event, ensure_ascii=False)


def changes(spark, events, dialect, key=None, **options):
    columns = "position int, value string" + (", key string" if key else "")
    rows = [(at, text(event), *((key,) if key else ())) for at, event in enumerate(events)]
    return read_changes(spark.createDataFrame(rows, columns), dialect, options={name.replace("_", "-"): value for name, value in options.items()})


def read_events(spark, events, dialect, **options):
    """What the events say, with rows as Python has them: one dict for each change, without what is None."""
    frame = changes(spark, events, dialect, **options)
    names = [name for name in frame.columns if name not in ("row", "value")]
    rows = frame.select(*names, sf.to_json("row").alias("row")).orderBy("position", "step").collect()
    dicts = [row.asDict(recursive=True) for row in rows]
    for row in dicts:
        row["row"] = None if row["row"] is None else json.loads(row["row"], parse_float=Decimal)
    return [{name: value for name, value in row.items() if value is not None} for row in dicts]


def kinds(spark, events, dialect, **options):
    return [(row.get("kind"), row.get("row")) for row in read_events(spark, events, dialect, **options)]


def problems(spark, events, dialect, **options):
    return [row.get("problem") for row in read_events(spark, events, dialect, **options)]


def typed(spark, events, dialect, columns, **options):
    """The rows of a table of these columns, and the problems of those that do not fit."""
    fields = [Field(name, parse(t), id=at) for at, (name, t) in enumerate(columns.items())]
    rows = to_rows(changes(spark, events, dialect, **options), fields).orderBy("position", "step").collect()
    return [row["problem"] if row["problem"] is not None else None if row["row"] is None else tuple(row["row"]) for row in rows]


def debezium(op, before=None, after=None, **more):
    return {"before": before, "after": after, "op": op, "ts_ms": 1700000000123, "source": {"db": "shop", "table": "orders", "connector": "mysql"}, **more}


def canal(kind, data, old=None, types=None, **more):
    event = {
        "data": data,
        "database": "shop",
        "es": 1,
        "id": 9,
        "isDdl": False,
        "mysqlType": types,
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "table": "orders",
        "ts": 1700000000123,
    }
    return {**event, "type": kind, **more}


def maxwell(kind, data=None, old=None, **more):
    return {
        "database": "shop",
        "table": "orders",
        "type": kind,
        "ts": 1700000000,
        "xid": 1,
        "data": data,
        **({"old": old} if old is not None else {}),
        "primary_key_columns": ["id"],
        **more,
    }


def ogg(op, before=None, after=None, table="SHOP.ORDERS"):
    return {"table": table, "pos": "0000143", "primary_keys": ["id"], "before": before, "after": after, "op_type": op, "op_ts": "2020-05-13 17:32:10.904000"}


def dms(operation, data=None, record="data"):
    about = {
        "timestamp": "2024-10-27T12:39:03.210671Z",
        "record-type": record,
        "operation": operation,
        "partition-key-type": "schema-table",
        "schema-name": "shop",
        "table-name": "orders",
    }
    return {"data": data, "metadata": about}
