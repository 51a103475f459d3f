"""One Spark session for all of these tests: a classic one, or, where `LAKEKIT_SPARK` is `connect`, a client of a Spark Connect server on this machine."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

import pytest

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
