"""One Spark session for all of these tests."""

from __future__ import annotations

import os
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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small classic session on this machine: two cores, no pages, a JVM that starts fast."""
    from lakekit.spark import session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = session.start(
            "local[2]",
            config={
                "spark.ui.enabled": "false",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "1g",
                "spark.sql.session.timeZone": "UTC",
            },
        )
        made.sparkContext.setLogLevel("OFF")
    yield made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.stop()
