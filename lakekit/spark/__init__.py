"""Paimon tables in Spark jobs whose tasks run lakekit, without a jar.

    pip install 'lakekit[spark]'         where the driver and the executors run

    import lakekit.spark as ls

    ls.read(spark, "warehouse/shop.db/orders", columns=["id", "total"], where="day = '2024-03-31'")    # a DataFrame

Needs PySpark 4.0 to 4.3, classic or Connect, and Java 17.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from lakekit.errors import ExtraMissing

try:
    from pyspark import TaskContext
except ModuleNotFoundError as missing:
    message = "lakekit.spark needs pyspark: pip install 'lakekit[spark]'"
    raise ExtraMissing(message, feature="spark", extra="spark") from missing

if TYPE_CHECKING:
    from lakekit.spark.batch_read import changes as changes, read as read
    from lakekit.spark.batch_write import write as write
    from lakekit.spark.data_source import attach as attach, register as register
    from lakekit.spark.dml import delete as delete, merge as merge, update as update
    from lakekit.spark.maintenance import (
        analyze as analyze,
        compact as compact,
        expire_snapshots as expire_snapshots,
        refresh as refresh,
        remove_orphans as remove_orphans,
        rewrite_file_index as rewrite_file_index,
    )
    from lakekit.spark.session import start as start
    from lakekit.spark.sql import sql as sql

if (_task := TaskContext.get()) is not None and "polars" not in sys.modules:
    # tasks of an executor run side by side: threads of each beyond its cores only stand in each other's way (measured:
    # half the speed)
    os.environ.setdefault("POLARS_MAX_THREADS", str(_task.cpus()))

_PUBLIC_NAMES = {
    "lakekit.spark.maintenance": "analyze expire_snapshots refresh remove_orphans rewrite_file_index compact",
    "lakekit.spark.batch_read": "changes read",
    "lakekit.spark.dml": "merge delete update",
    "lakekit.spark.data_source": "attach register",
    "lakekit.spark.session": "start",
    "lakekit.spark.sql": "sql",
    "lakekit.spark.batch_write": "write",
}
"""The module of each public name."""

_MODULE_OF_NAME = {name: home for home, names in _PUBLIC_NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF_NAME)  # noqa: PLE0605 - as lakekit's own


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF_NAME:
        text = f"module 'lakekit.spark' has no attribute {name!r}"
        raise AttributeError(text)
    value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULE_OF_NAME)
