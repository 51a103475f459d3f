"""Made-up rows: ten mixed columns, the commits of each kind of table, what a merge must leave, and checksums that ignore order."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = ("grp", "qty", "price", "ratio", "name", "cat", "city", "ts", "amount")
KEY_COLUMN = "id"
WIDE = 200
START = datetime(2024, 1, 1)  # noqa: DTZ001 - a wall clock
FOLDED = {"qty": "sum", "ratio": "sum", "price": "max", "ts": "max"}
"""Aggregate functions of the tables with `merge-engine=aggregation`; the other columns keep their last value."""


def columns(kind: str = "ten", *, text_key: bool = False, partition: bool = False) -> pa.Schema:
    """The columns of a table: "ten" mixed ones, or "wide"."""
    key = pa.field(KEY_COLUMN, pa.string() if text_key else pa.int64(), nullable=False)
    if kind == "wide":
        cycle = (pa.int64(), pa.float64(), pa.string(), pa.int32())
        return pa.schema([key, *(pa.field(f"c{at}", cycle[at % len(cycle)]) for at in range(1, WIDE))])
    types = (pa.int32(), pa.int64(), pa.float64(), pa.float64(), pa.string(), pa.string(), pa.string(), pa.timestamp("us"), pa.decimal128(18, 2))
    fields = [key, *(pa.field(name, type_) for name, type_ in zip(VALUES, types, strict=True))]
    return pa.schema([*fields, pa.field("dt", pa.string())] if partition else fields)


def mixed(ids: np.ndarray, seed: int, nulls: float = 0.0) -> pl.DataFrame:
    """Ten columns for those ids, always the same. Doubles are multiples of 1/8, so that a sum does not depend on the order of addition."""
    drawn, count = np.random.default_rng(seed), len(ids)
    frame = pl.DataFrame(
        {
            KEY_COLUMN: np.asarray(ids, np.int64),
            "grp": drawn.integers(0, 1000, count).astype(np.int32),
            "qty": drawn.integers(0, 10**9, count),
            "price": drawn.integers(0, 8_000_000, count) / 8.0,
            "ratio": drawn.integers(0, 800, count) / 8.0,
        }
    ).with_columns(
        name=pl.format("name-{}", pl.col("qty")),
        cat=pl.format("cat{}", pl.col("grp") % 20),
        city=pl.format("city-{}", pl.col("grp")),
        ts=(pl.lit(START) + pl.duration(seconds=pl.col(KEY_COLUMN))).cast(pl.Datetime("us")),
        amount=(pl.col("qty") % 1_000_000).cast(pl.Decimal(18, 2)),
    )
    if not nulls:
        return frame
    return frame.with_columns(pl.when(pl.Series(drawn.random(count) < nulls)).then(None).otherwise(pl.col(name)).alias(name) for name in VALUES)


def wide(ids: np.ndarray, seed: int) -> pl.DataFrame:
    """A key and 199 columns of four types."""
    drawn, count = np.random.default_rng(seed), len(ids)
    data: dict[str, object] = {KEY_COLUMN: np.asarray(ids, np.int64)}
    for field in columns("wide"):
        if field.name != KEY_COLUMN:
            numbers = pl.Series(drawn.integers(0, 10**6, count))
            data[field.name] = numbers / 8 if field.type == pa.float64() else numbers
    frame = pl.DataFrame(data)
    texts = [field.name for field in columns("wide") if field.type == pa.string()]
    small = [field.name for field in columns("wide") if field.type == pa.int32()]
    return frame.with_columns(*(pl.format("t{}", pl.col(name) % 1000).alias(name) for name in texts), pl.col(small).cast(pl.Int32))


def with_text_key(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with keys of 20 characters, in their order."""
    padded = pl.col(KEY_COLUMN).cast(pl.String).str.zfill(10)
    return frame.with_columns(pl.format("key-{}-{}", padded, (pl.col(KEY_COLUMN) * 7919 % 100_000).cast(pl.String).str.zfill(5)).alias(KEY_COLUMN))


def uniform_ids(rows: int, commits: int, seed: int = 7) -> list[np.ndarray]:
    """Ids of upserts that overlap evenly: each commit draws from half as many keys as there are rows."""
    drawn = np.random.default_rng(seed)
    return [np.sort(drawn.choice(rows // 2, rows // commits, replace=False)) for _ in range(commits)]


def delta_ids(rows: int, commits: int) -> list[np.ndarray]:
    """A base of 80 % of the rows, then small upserts over it and beyond."""
    drawn, base = np.random.default_rng(11), rows * 8 // 10
    small = (rows - base) // (commits - 1)
    return [np.arange(base), *(np.sort(drawn.choice(base * 11 // 10, small, replace=False)) for _ in range(commits - 1))]


def plain_ids(rows: int, commits: int) -> list[np.ndarray]:
    """Rows in order, nothing twice."""
    return [np.arange(at * (rows // commits), (at + 1) * (rows // commits)) for at in range(commits)]


def merged(frames: Sequence[pl.DataFrame], engine: str) -> pl.DataFrame:
    """What all versions of each key must become, by way of Polars alone."""
    every = pl.concat(frames)
    match engine:
        case "deduplicate":
            return every.unique(KEY_COLUMN, keep="last", maintain_order=True)
        case "partial-update":
            return every.group_by(KEY_COLUMN, maintain_order=True).agg(pl.all().drop_nulls().last())
        case "aggregation":
            folds = [getattr(pl.col(name), function)() for name, function in FOLDED.items()]
            rest = [name for name in VALUES if name not in FOLDED]
            return every.group_by(KEY_COLUMN, maintain_order=True).agg(*folds, pl.col(rest).drop_nulls().last())
    return every


def arrow(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """A frame as a writer takes it: plain strings, no views."""
    return frame.select(schema.names).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)


def checksum(result: object, names: Sequence[str] | None = None) -> list[int]:
    """[rows, hash] of a frame, a table or record batches, whatever the order of rows, the chunks and the layout of text."""
    if isinstance(result, list):
        result = pa.Table.from_batches(result) if result else None
    if result is None:
        return [0, 0]
    frame = result if isinstance(result, pl.DataFrame) else pl.DataFrame(pl.from_arrow(result))
    chosen = sorted(names or [name for name in frame.columns if not name.startswith("_")])
    plain = [_plain(frame.schema[name], pl.col(name)) for name in chosen]
    hashes = frame.select(plain).hash_rows(seed=1).to_numpy() if frame.height else np.zeros(0, np.uint64)
    return [frame.height, int(np.add.reduce(hashes)) & (2**64 - 1)]


def _plain(dtype: pl.DataType, column: pl.Expr) -> pl.Expr:
    if dtype.is_integer():
        return column.cast(pl.Int64)
    if dtype.is_float() or dtype == pl.Decimal:
        return column.cast(pl.Float64) + 0.0
    return column.cast(pl.Datetime("us")).cast(pl.Int64) if dtype == pl.Datetime else column.cast(pl.String)
