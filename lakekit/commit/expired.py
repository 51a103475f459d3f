"""Decide whether `partition.expiration-time` removes a partition, by the time in its values.

A commit that replaces files of such a partition fails with an error of its own: the files were removed with the
partition, and would be again.

Source: ENGINE.md 5.5 (3a) and 5.12; `PartitionExpire.isValueAllExpired`, `PartitionValuesTimeExpireStrategy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.data_file.paths import partition_values
from lakekit.model import partition as partitions
from lakekit.model.partition_time import time_ms
from lakekit.world import wall_clock_ms

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext


def is_expired(ctx: TableContext, partition: bytes) -> bool:
    """Return True for a partition past its expiration time.

    Always False without `partition.expiration-time`, and with another strategy than values-time.
    """
    options = ctx.options
    age = options.partition_expiration_time_ms
    if age is None or options.partition_expiration_strategy != "values-time" or not ctx.schema.partition_keys:
        return False
    values, pattern = partition_values(ctx, partition), options.partition_timestamp_pattern
    if any(value is None for value in (values if pattern is not None else values[:1])):
        return False
    types = [field.type for field in ctx.schema.partition_fields]
    texts = partitions.text(values, types, default_name=options.partition_default_name)
    time = time_ms(ctx.schema.partition_keys, texts, pattern=pattern, formatter=options.partition_timestamp_formatter)
    return time is not None and time < wall_clock_ms(ctx.world.now_ms()) - age
