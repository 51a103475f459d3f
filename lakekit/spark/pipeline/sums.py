"""Compare the tables with the landed files: the same totals, computed by Polars from the files alone.

bronze    events of plain       2310    2310
silver    flights               1784    1784
gold      arr_delay            10482   10482
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.spark.pipeline.events import ADDED_COLUMN, DEBEZIUM, KEY, PAYLOAD, PLAIN

if TYPE_CHECKING:
    from lakekit.spark.pipeline.stages import Lake

SUMS = ("flights", "arrived", "cancelled", "dep_delay", "arr_delay", ADDED_COLUMN)
GROUP_COLUMNS = ["day", "carrier"]


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of the files beside those of the tables.

    `table`: what was counted or summed, in the files and in the tables. `different`: the rows of gold, by day and
    carrier, that differ.
    """

    table: pl.DataFrame
    different: pl.DataFrame

    @property
    def agree(self) -> bool:
        """Whether every total, and every row of gold, is what the files say."""
        return self.different.is_empty() and bool((self.table["files"] == self.table["tables"]).all())

    def __str__(self) -> str:
        with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
            verdict = f"the tables {'hold' if self.agree else 'do not hold'} what the files say"
            text = f"{self.table}\n{verdict}"
            return text if self.different.is_empty() else f"{text}; in gold these are different:\n{self.different}"


def landed_events(lake: Lake) -> pl.DataFrame:
    """Return all lines of all files, one row each: feed, `is_deleted`, `ts_ms`, and the flight's columns."""
    schema = {
        "day": pl.Date,
        "carrier": pl.String,
        "flight": pl.Int64,
        "origin": pl.String,
        "dest": pl.String,
        "status": pl.String,
    }
    schema |= dict.fromkeys(["dep_delay", "arr_delay", ADDED_COLUMN], pl.Int64)
    image = pl.Struct(schema)
    frames = []
    for day in lake.landed():  # scalar: two files a day
        plain = pl.read_ndjson(
            lake.landing / day.isoformat() / PLAIN, schema={"deleted": pl.Boolean, "ts_ms": pl.Int64, **schema}
        )
        frames.append(plain.select("ts_ms", *schema, feed=pl.lit("plain"), gone="deleted"))
        envelopes = pl.read_ndjson(
            lake.landing / day.isoformat() / DEBEZIUM,
            schema={"before": image, "after": image, "op": pl.String, "ts_ms": pl.Int64},
        )
        is_deleted = pl.col("op") == "d"
        row = pl.when(is_deleted).then("before").otherwise("after")
        frames.append(
            envelopes.select(
                "ts_ms", *(row.struct.field(name) for name in schema), feed=pl.lit("debezium"), gone=is_deleted
            )
        )
    return pl.concat(frames)


def known_flights(landed: pl.DataFrame) -> pl.DataFrame:
    """Return the newest event of each flight that was not withdrawn."""
    return landed.sort("ts_ms").unique(KEY, keep="last").filter(~pl.col("gone")).select(*PAYLOAD, ADDED_COLUMN)


def sums(flights: pl.DataFrame) -> pl.DataFrame:
    """Return sums of the flights by day and carrier."""
    counted = [
        pl.len().alias("flights"),
        *((pl.col("status") == status).sum().alias(status) for status in ("arrived", "cancelled")),
    ]
    return flights.group_by(GROUP_COLUMNS).agg(
        *counted, *(pl.col(name).sum() for name in ("dep_delay", "arr_delay", ADDED_COLUMN))
    )


def totals(lake: Lake) -> Totals:
    """Return the totals of the landed files beside those of the tables, without Spark."""
    landed = landed_events(lake)
    want = _normalize_sums(sums(known_flights(landed)))
    have = _normalize_sums(lake.gold.scan().collect())
    bronze, silver = lake.bronze.scan().group_by("feed").len().collect(), lake.silver.scan()
    rows: list[tuple[str, str, Any, Any]] = [
        ("bronze", f"events of {feed}", landed.filter(feed=feed).height, bronze.filter(feed=feed)["len"].sum())
        for feed in ("plain", "debezium")
    ]
    rows.append(("silver", "flights", known_flights(landed).height, silver.select(pl.len()).collect().item()))
    rows += [("gold", name, want[name].sum(), have[name].sum()) for name in SUMS]
    either = want.join(have, on=GROUP_COLUMNS, how="full", coalesce=True, suffix="_in_gold")
    different = either.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_in_gold")) for name in SUMS))
    return Totals(
        table=pl.DataFrame(
            rows, schema={"table": pl.String, "total": pl.String, "files": pl.Int64, "tables": pl.Int64}, orient="row"
        ),
        different=different,
    )


def _normalize_sums(summed: pl.DataFrame) -> pl.DataFrame:
    """Return comparable sums: of days and carriers that have flights, with 0 for null."""
    named = summed if ADDED_COLUMN in summed.columns else summed.with_columns(pl.lit(0).alias(ADDED_COLUMN))
    return (
        named.filter(pl.col("flights") != 0)
        .select(*GROUP_COLUMNS, pl.col(SUMS).fill_null(0).cast(pl.Int64))
        .sort(GROUP_COLUMNS)
    )
