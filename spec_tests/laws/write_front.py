"""Tables that are only a schema in memory: what the tests of conform, route and dynamic buckets write to; and what conforms to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from lakekit.format.polars_types import polars_schema
from lakekit.metadata.table_context import TableContext, open_context
from lakekit.model.table_schema import TableSchema, assign_ids
from lakekit.storage.memory import MemoryStorage
from lakekit.types import Field
from lakekit.write import row_conversion

if TYPE_CHECKING:
    from lakekit.errors import LakekitError


def table(columns: dict[str, str], *, keys=(), partitions=(), defaults=None, storage=None, **options: str) -> TableContext:
    """A table `shop.t`; options are given with `_` for `-` and `__` for `.`."""
    fields, highest = assign_ids([Field(name, text, default=(defaults or {}).get(name)) for name, text in columns.items()])
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = TableSchema(
        version=3, id=0, fields=fields, highest_field_id=highest, partition_keys=tuple(partitions), primary_keys=tuple(keys), options={"bucket": "-1", **given}
    )
    storage = MemoryStorage() if storage is None else storage
    storage.put("shop.db/t/schema/schema-0", schema.to_json())
    return open_context("shop.db/t", storage=storage)


KEYED = table({"k": "BIGINT NOT NULL", "v": "INT", "s": "VARCHAR(3)"}, keys=("k",), bucket="1")
APPEND = table({"a": "INT", "b": "STRING"})


def one(data, handle, **how) -> pl.DataFrame:
    return pl.concat([row_conversion.empty_frame(handle), *row_conversion.convert_batches(data, handle, **how)])


def column(text: str, values, *, dtype=None, cast: bool = False, **options) -> pl.Series:
    handle = table({"c": text}, **options)
    found = one(pl.DataFrame({"c": values if isinstance(values, pl.Series) else pl.Series(values, dtype=dtype)}), handle, cast=cast)
    assert found.schema == polars_schema(handle.schema.fields)
    return found["c"]


def says(data, handle, kind: type[LakekitError], *parts: str, column: str | None = None, **how) -> None:
    with pytest.raises(kind) as raised:
        list(row_conversion.convert_batches(data, handle, **how))
    for part in parts:
        assert part in raised.value.message
    assert getattr(raised.value, "column", None) == column
