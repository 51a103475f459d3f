"""Every golden table reads on Spark as it reads without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import lakekit as lk
import lakekit.spark as ls
from lakekit.testing.fixtures import fixtures
from spec_tests.doors.spark.equal import expected, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = Path(fixtures(), "tables")
EVERY = sorted(path.stem for path in TABLES.glob("*.json"))
FEW = frozenset(
    """
    aggregate_collect aggregate_sequence_field append_avro append_bucketed append_orc append_partitioned bucket_dynamic_partitioned bucket_rescaled
    cast_timestamp dedup_composite_key dedup_overlapping_runs dedup_partitioned empty_keyed evolve_append_parquet evolve_keyed_orc evolve_nested_parquet
    evolve_vectors files_formats_changed_keyed files_index_in_bucket files_parquet_v2 files_thin_mode_parquet first_row_lookup hand_foreign_names
    history_fallback_branch index_keyed old_0_8_2_evolved old_1_2_0_dv_64 partial_two_groups partition_special_values partition_types_legacy
    sequence_two_fields types_decimals_parquet types_key_times_parquet types_nested_times_parquet types_scalars_parquet types_timestamps_parquet
    types_variant_parquet vectors_append_mixed vectors_keyed_aggregation vectors_keyed_many
    """.split()  # noqa: SIM905 - forty words
)
"""A table of every kind: engines, formats, types, evolution, vectors, partitions, branches, old writers."""


BEYOND = {
    "aggregate_sum_types": "cannot be represented as Decimal",
    "types_null_map_keys_avro": "ValueOutOfRange: .* null key",
    "types_null_map_keys_orc": "ValueOutOfRange: .* null key",
}
"""What Spark's types cannot hold: a sum beyond its DECIMAL, a map with a null key."""


@pytest.mark.deep
@pytest.mark.parametrize("name", EVERY)
def test_a_golden_table_without_sparks_own_reader(spark: SparkSession, name: str) -> None:
    held(spark, lk.open(TABLES / name, options={"spark.read.native": "off"}))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FEW else [pytest.mark.deep]) for name in EVERY])
def test_a_golden_table(spark: SparkSession, name: str) -> None:
    held(spark, lk.open(TABLES / name))


def held(spark: SparkSession, table: lk.Table) -> None:
    name = table.name
    if name in BEYOND:
        with pytest.raises(PySparkException, match=BEYOND[name]):
            ls.read(spark, table).collect()
        return
    try:
        wanted = expected(table)
    except lk.LakekitError as refused:
        with pytest.raises((PySparkException, type(refused)), match=re.escape(refused.message[:60])):
            rows(ls.read(spark, table))
        return
    assert rows(ls.read(spark, table)) == wanted


def test_the_few_are_there() -> None:
    assert set(EVERY) >= FEW
