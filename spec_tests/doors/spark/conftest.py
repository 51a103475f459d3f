"""One Spark session for all of these tests: a classic one, or, where `LAKEKIT_SPARK` is `connect`, a client of a Spark Connect server on this machine."""

from __future__ import annotations

import os
import sys
import warnings
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import lakekit as lk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PYSPARK_OWN = (
    "ignore::ResourceWarning",  # its sockets to workers close when they are collected
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:.*:DeprecationWarning:pyspark.*",
    "ignore:.*:FutureWarning:pyspark.*",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)  # noqa: PTH120 - text in, text out
    for item in items:
        if str(item.path).startswith(here):
            for words in PYSPARK_OWN:
                item.add_marker(pytest.mark.filterwarnings(words))


CONFIG = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
}
"""A JVM that starts fast, no pages, two tasks a shuffle."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small session on this machine: two cores, and a task that fails is tried once more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _connected() if os.environ.get("LAKEKIT_SPARK") == "connect" else _classic()
    yield made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.stop()


@pytest.fixture(scope="module")
def cat(tmp_path_factory: pytest.TempPathFactory) -> lk.Catalog:
    """A catalog that no test changes."""
    made = lk.connect(tmp_path_factory.mktemp("lake"))
    made.create_database("shop")
    t = made.create_table(
        "shop.orders",
        {
            "id": "BIGINT NOT NULL",
            "day": "STRING",
            "n": "INT",
            "price": "DECIMAL(10, 2)",
            "x": "DOUBLE",
            "d": "DATE",
            "at": "TIMESTAMP(6)",
            "ok": "BOOLEAN",
            "f": "FLOAT",
            "r": "ROW<a INT, b ROW<c STRING>>",
        },
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    t.append(
        [
            {
                "id": 1,
                "day": "mon",
                "n": 5,
                "price": Decimal("1.50"),
                "x": 0.5,
                "d": date(2024, 3, 31),
                "at": datetime.fromisoformat("2024-03-31T10:00:00"),
                "ok": True,
                "f": 0.1,
                "r": {"a": 1, "b": {"c": "x"}},
            },
            {
                "id": 2,
                "day": "tue",
                "n": -7,
                "price": Decimal("2.25"),
                "x": 1e10,
                "d": date(2024, 4, 1),
                "at": datetime.fromisoformat("2024-04-01T00:00:00"),
                "ok": False,
                "f": 0.25,
                "r": {"a": 2, "b": {"c": None}},
            },
            {"id": 3, "day": "it's {a}%", "n": None, "price": None, "x": None, "d": None, "at": None, "ok": None},
        ]
    )
    t.create_tag("first")
    t.create_branch("dev")
    t.append([{"id": 4, "day": "wed"}])
    t.branch("dev").append([{"id": 9, "day": "dev"}])
    made.create_table("shop.days", {"day": "STRING", "name": "STRING"}).append([{"day": "mon", "name": "Monday"}, {"day": "tue", "name": "Tuesday"}])
    made.create_table("shop.parted", {"k": "INT", "n": "INT", "d": "DATE"}, partition_keys=["n", "d"])
    return made


def _classic() -> SparkSession:
    from lakekit.spark import session

    made = session.start("local[2,2]", config=CONFIG)
    made.sparkContext.setLogLevel("OFF")
    return made


def _connected() -> SparkSession:
    """What a user has who did not make the session with `ls.start`: its Python processes are told by the environment alone."""
    from pyspark.sql import SparkSession

    os.environ.update({"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"})
    builder = SparkSession.builder.remote("local[2]")
    for key, value in CONFIG.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
