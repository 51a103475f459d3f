"""Scripts of drawn steps, as `differential/test_writes.py` has lakekit and the reference take them, taken by Spark: the same trail as the reference's own.

    LAKEKIT_WRITES_SEEDS=0-40 pytest -m "" spec_tests/doors/spark/test_write_scripts.py          other scripts

Rows of one key in one frame have no order on Spark; here a frame is one partition, whose rows a shuffle leaves as they are.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lakekit as lk
from lakekit.errors import Unsupported
from lakekit.types import Field, parse
from spec_tests.conftest import DEEP
from spec_tests.differential.judge import judge
from spec_tests.differential.players import JOB, ByLakekit, ByReference, frame, kind_of, refusals
from spec_tests.differential.scripts import Compact, Overwrite, Script, Write, script
from spec_tests.differential.trails import apart, play

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from spec_tests.differential.scripts import Step

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
types = pytest.importorskip("lakekit.spark.types", exc_type=Unsupported)
pytestmark = [pytest.mark.spark, pytest.mark.reference, pytest.mark.timeout(1200)]

__all__ = ["judge"]

BEYOND = ("VARIANT", "TIMESTAMP(9)")
"""What a frame of Spark cannot be made of: PySpark takes no variants in Arrow, and nanoseconds are cut."""
ASKED = os.environ.get("LAKEKIT_WRITES_SEEDS")
FIRST, _, LAST = (ASKED or ("0-100" if DEEP else "0-10")).partition("-")
SEEDS = [seed for seed in range(int(FIRST), int(LAST)) if not any(word in str(script(seed)) for word in BEYOND)]


class BySpark(ByLakekit):
    """`lakekit.spark` plays; what it leaves to a table's own methods they do."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def take(self, path: str, step: Step, dynamic: Mapping[str, str]) -> None:
        with refusals():
            table = lk.open(path, options=dict(dynamic))
            match step:
                case Write():
                    job = {} if step.identifier is None else {"commit_user": JOB, "identifier": step.identifier}
                    mode = "upsert" if table.primary_keys else "append"
                    ls.write(self.frame(table, frame(table, step.rows)), table, mode=mode, row_kind=kind_of(table), **job)
                    if step.full:
                        ls.compact(self.spark, table, full=True)
                case Compact():
                    ls.compact(self.spark, table, full=step.full)
                case Overwrite():
                    whole = {"dynamic-partition-overwrite": "false"} if step.partition == "whole" else {}
                    where = step.partition if isinstance(step.partition, dict) else None
                    ls.write(self.frame(table, frame(table, step.rows, plain=True)), table.with_options(whole), mode="overwrite", partition=where)
                case _:
                    super().take(path, step, dynamic)

    def frame(self, table: lk.Table, rows: pl.DataFrame) -> DataFrame:
        """Rows as a frame of Spark of one partition."""
        fields = list(table.schema.fields)
        if (kind := kind_of(table)) in rows.columns:
            fields.append(Field(kind, parse("STRING"), len(fields)))
        fields = list(types.read_fields(fields))
        made = pa.Table.from_batches([types.to_batch(rows.select(field.name for field in fields), fields)])
        return self.spark.createDataFrame(made, types.spark_schema(fields)).coalesce(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_takes_the_steps(judge, spark, tmp_path, seed):
    drawn: Script = script(seed)
    wanted = play(drawn, judge, [ByReference(judge)], str(tmp_path / "reference.db" / "t"), measures=True)
    players = [BySpark(spark), ByReference(judge)] if seed % 2 else [BySpark(spark)]
    found = play(drawn, judge, players, str(tmp_path / "db.db" / "t"))
    if drawn.options["bucket"] == "-1":  # which bucket a new key gets is the assigners' to say, and Spark has several; that it has one only, `play` looks at
        wanted, found = ([replace(seen, places=Counter()) for seen in trail] for trail in (wanted, found))
    assert (words := apart(drawn, wanted, found)) is None, words
