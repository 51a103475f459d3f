"""listagg: texts in one text, a delimiter between them.

    'a,b' + 'b,c'  ->  'a,b,b,c'        distinct: 'a,b,c'

Nulls and empty texts add nothing. With `distinct` the first text stays as it is, and of a later text the parts are
appended that are not empty and not in it already.

Source: ENGINE.md 3.4, `FieldListaggAgg`, `BinaryStringUtils.splitByWholeSeparatorPreserveAllTokens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.lsm.aggregates import by_key
from lakekit.lsm.aggregates.contract import aggregate, contributions
from lakekit.lsm.row_versions import REVERSE
from lakekit.types import MAX_LENGTH

if TYPE_CHECKING:
    from lakekit.lsm.aggregates.contract import FieldFunction
    from lakekit.lsm.numpy_columns import Array
    from lakekit.lsm.row_versions import Versions


def _refuses(function: FieldFunction) -> str | None:
    if function.type.root != "VARCHAR":
        return f"Data type for list agg column must be 'VarCharType' but was '{function.type}'."
    if function.type.length != MAX_LENGTH:
        return (
            "Data type for list agg column must be STRING (unbounded VARCHAR), but was "
            f"VARCHAR({function.type.length})."
        )
    return None


@aggregate("listagg", refuses=_refuses)
def listagg(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the texts of each key, joined."""
    if function.distinct and ops is not None and (ops == REVERSE).any():
        return by_key.fold(
            versions,
            column,
            ops,
            by_key.ScalarFold(agg=lambda accumulator, text: _append_text(accumulator, text, function.delimiter)),
        )
    used = contributions(versions, ops)
    parts = pl.DataFrame({"key": used.keys, "text": column.gather(versions.rows[used.places])}).filter(
        pl.col("text").is_not_null()
    )
    filled = parts.filter(pl.col("text").str.len_bytes() > 0)
    if function.distinct:
        filled = _drop_repeated_parts(filled, function.delimiter or " ")
    joined = filled.group_by("key", maintain_order=True).agg(pl.col("text").str.join(function.delimiter))
    numbers = pl.DataFrame({"key": np.arange(versions.count)})
    empty = parts.select(pl.col("key").unique(), pl.lit("").alias("empty"))
    return (
        numbers.join(joined, on="key", how="left", maintain_order="left")
        .join(empty, on="key", how="left", maintain_order="left")
        .select(pl.coalesce("text", "empty").alias(column.name))
        .to_series()
    )


def _drop_repeated_parts(filled: pl.DataFrame, delimiter: str) -> pl.DataFrame:
    """Return the first text of each key, and of the other texts the parts that are new."""
    first = pl.col("key").is_first_distinct()
    tokens = (
        filled.with_columns(whole=first)
        .with_columns(part=pl.col("text").str.split(delimiter))
        .explode("part")
        .with_columns(fresh=pl.struct("key", "part").is_first_distinct())
        .filter(pl.col("fresh") & ~pl.col("whole") & (pl.col("part") != ""))
        .select("key", pl.col("part").alias("text"))
    )
    return pl.concat([filled.filter(first), tokens]).sort("key", maintain_order=True)


def _append_text(accumulator: str | None, text: str | None, delimiter: str) -> str | None:
    if accumulator is None or text is None:
        return text if accumulator is None else accumulator
    if not text or not accumulator:
        return accumulator or text
    existing = set(accumulator.split(delimiter or " "))
    fresh = [part for part in dict.fromkeys(text.split(delimiter or " ")) if part and part not in existing]
    return delimiter.join([accumulator, *fresh])
