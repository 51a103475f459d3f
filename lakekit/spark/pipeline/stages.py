"""The steps of the pipeline: each does what is missing in the tables, and may be run again.

    bronze    commit (flights, day)                     as it came; columns that the table lacks are added
    silver    commit (flights, day)                     of one bronze partition; if a run is killed before its
                                                        compaction, that of the next run writes the changelog
    gold      commit (flights, snapshot of silver)      silver's changelog since the snapshot of gold's newest commit
    tag       name = day                                on silver and gold
    upkeep    compaction, then expiry                   the newest snapshots stay, among them those that show which
                                                        changes of silver gold has

`totals` compares the tables with the landed files: the same totals, computed by Polars from the files alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from pyspark.sql import functions as sql

from lakekit.columns import ROW_KIND
from lakekit.commit import committer as publishing
from lakekit.ddl.schema_changes import add_column
from lakekit.errors import SnapshotNotFound
from lakekit.read.table_scan import context_of
from lakekit.spark.batch_read import changes, read
from lakekit.spark.batch_write import write
from lakekit.spark.maintenance import compact
from lakekit.spark.pipeline.events import (
    ADDED_COLUMN,
    DEBEZIUM,
    KEY,
    KEY_TYPES,
    PAYLOAD,
    PLAIN,
    EventSelection,
    PipelineLocation,
    land,
)
from lakekit.spark.types import paimon_type, spark_type
from lakekit.types import INTEGERS, DataType, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType

    from lakekit.table.table import Table


SUMS = ("flights", "arrived", "cancelled", "dep_delay", "arr_delay", ADDED_COLUMN)
GROUP_COLUMNS = ["day", "carrier"]


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of the files beside those of the tables.

    `comparison` has a row for each count or sum: its name, its value in the files, its value in the tables.
    `differences` has the rows of gold, by day and carrier, that differ.
    """

    comparison: pl.DataFrame
    differences: pl.DataFrame

    @property
    def agree(self) -> bool:
        """Whether every total, and every row of gold, is equal to that of the files."""
        return self.differences.is_empty() and bool((self.comparison["files"] == self.comparison["tables"]).all())

    def __str__(self) -> str:
        with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
            verdict = f"the tables {'hold' if self.agree else 'do not hold'} what the files say"
            text = f"{self.comparison}\n{verdict}"
            return text if self.differences.is_empty() else f"{text}; in gold these are different:\n{self.differences}"


def landed_events(lake: PipelineLocation) -> pl.DataFrame:
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


def totals(lake: PipelineLocation) -> Totals:
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
        comparison=pl.DataFrame(
            rows, schema={"table": pl.String, "total": pl.String, "files": pl.Int64, "tables": pl.Int64}, orient="row"
        ),
        differences=different,
    )


def _normalize_sums(summed: pl.DataFrame) -> pl.DataFrame:
    """Return comparable sums: of days and carriers that have flights, with 0 for null."""
    named = summed if ADDED_COLUMN in summed.columns else summed.with_columns(pl.lit(0).alias(ADDED_COLUMN))
    return (
        named.filter(pl.col("flights") != 0)
        .select(*GROUP_COLUMNS, pl.col(SUMS).fill_null(0).cast(pl.Int64))
        .sort(GROUP_COLUMNS)
    )


# ---- stages ------------------------------------------------------------


COMMIT_USER = "flights"
"""The commit user of all that the pipeline writes."""
RETAINED_SNAPSHOTS = 10
"""How many snapshots expiry leaves: a day makes up to four in a table."""


# ---- steps -----------------------------------------------------------------------------------------------------------


def run(
    spark: SparkSession, root: str | PathLike[str], selection: EventSelection, *, say: Callable[[str], None] = print
) -> Totals:
    """Run the whole pipeline, and compare the tables with the files.

    It lands the selected files and takes every landed day through all steps. Days that are finished (tagged on gold)
    are skipped, except the newest of them, which is checked again.

    Raises: the errors of `land`, of reading and of writing; the same call again then resumes where this call stopped.
    """
    lake = PipelineLocation(root)
    days = land(lake, selection)
    ended = set(lake.gold.tags()["tag"])
    through = [day for day in days if day.isoformat() in ended]
    for day in days:
        if day in through[:-1]:
            continue
        bronze(spark, lake, day)
        silver(spark, lake, day)
        gold(spark, lake)
        tag(lake, day)
        compact_and_expire(spark, lake, day)
        say(
            f"{day}  through: bronze at snapshot {_newest_snapshot_id(lake.bronze)}, silver at "
            f"{_newest_snapshot_id(lake.silver)}, gold at {_newest_snapshot_id(lake.gold)}"
        )
    return totals(lake)


def bronze(spark: SparkSession, lake: PipelineLocation, day: date) -> None:
    """Append the events that landed that day, from both feeds, in one commit.

    Columns that the files have and the table lacks are added to it.
    """
    if _has_commit(lake.bronze, day.toordinal()):
        return
    folder, json = lake.landing / day.isoformat(), spark.read.option("dropFieldIfAllNull", "true")
    feeds = {"plain": json.json(str(folder / PLAIN)), "debezium": json.json(str(folder / DEBEZIUM))}
    frames = {
        "plain": feeds["plain"].selectExpr("IF(deleted, 'd', 'u') AS op", "* EXCEPT (deleted)"),
        "debezium": _unwrap_envelopes(feeds["debezium"]),
    }
    types = {field.name: paimon_type(field.dataType, field.name) for frame in frames.values() for field in frame.schema}
    _add_missing_columns(lake.bronze, types)
    wanted = {field.name: spark_type(field.type) for field in lake.bronze.schema.fields}
    rows = [
        _select_as(frame.withColumns({"landed": sql.lit(day), "feed": sql.lit(name)}), wanted)
        for name, frame in frames.items()
    ]
    write(rows[0].unionAll(rows[1]), lake.bronze, commit_user=COMMIT_USER, identifier=day.toordinal())


def _unwrap_envelopes(envelopes: DataFrame) -> DataFrame:
    """Return Debezium's envelopes as rows: the row before for a delete, else the row after."""
    # a side that is null in every line is no column
    had, has = (
        set(envelopes.select(f"{side}.*").columns if side in envelopes.columns else ()) for side in ("before", "after")
    )
    pairs = {
        name: (
            f"before.{quote_identifier(name)}" if name in had else "NULL",
            f"after.{quote_identifier(name)}" if name in has else "NULL",
        )
        for name in sorted(had | has)
    }
    return envelopes.selectExpr(
        "op",
        "ts_ms",
        *(f"IF(op = 'd', {was}, {is_now}) AS {quote_identifier(name)}" for name, (was, is_now) in pairs.items()),
    )


def silver(spark: SparkSession, lake: PipelineLocation, day: date) -> None:
    """Apply the events that landed that day to the flights.

    A withdrawn flight is deleted, and stays deleted.
    """
    _add_missing_columns(
        lake.silver,
        {field.name: field.type for field in lake.bronze.schema.fields if field.name not in ("landed", "feed", "op")},
    )
    if not _has_commit(lake.silver, day.toordinal()):
        arrivals = read(spark, lake.bronze, where=pl.col("landed") == day)
        # the bottom level keeps no deletes: what comes late of a withdrawn flight would bring it back, and bronze knows
        # better
        withdrawn = read(spark, lake.bronze, columns=[*KEY_TYPES, "ts_ms"], where="op = 'd'")
        newer = [arrivals[name] == withdrawn[name] for name in KEY_TYPES]
        rows = arrivals.join(sql.broadcast(withdrawn), [*newer, withdrawn["ts_ms"] > arrivals["ts_ms"]], "left_anti")
        rows = rows.withColumn(ROW_KIND, sql.expr("IF(op = 'd', '-D', '+U')")).drop("landed", "feed", "op")
        write(rows, lake.silver, mode="upsert", row_kind=ROW_KIND, commit_user=COMMIT_USER, identifier=day.toordinal())
    # the rows were committed, and the driver died before what the compaction found out was
    if 0 in lake.silver.files()["level"]:
        compact(spark, lake.silver)


def gold(spark: SparkSession, lake: PipelineLocation) -> None:
    """Add what changed in silver since the last call to the sums; subtract the values of replaced rows.

    Raises: `SnapshotNotFound` if those changes have expired.
    """
    names = [
        field.name
        for field in lake.silver.schema.fields
        if field.name not in (*KEY_TYPES, "ts_ms") and field.type.root in INTEGERS
    ]
    _add_missing_columns(lake.gold, {name: DataType(root="BIGINT") for name in names})
    since, until = _last_applied_snapshot_id(lake), _newest_snapshot_id(lake.silver)
    if lake.silver.snapshots().filter(pl.col("snapshot_id") > since)["changelog_record_count"].sum() == 0:
        return  # nothing, or files that were made of others
    changed = changes(spark, lake.silver, since, until)
    counted = [
        "1L AS flights",
        *(f"IF(status = '{status}', 1L, 0L) AS {status}" for status in ("arrived", "cancelled")),
    ]
    rows = changed.selectExpr(
        ROW_KIND,
        "day",
        "carrier",
        *counted,
        *(f"CAST({quote_identifier(name)} AS BIGINT) AS {quote_identifier(name)}" for name in names),
    )
    write(rows, lake.gold, mode="upsert", row_kind=ROW_KIND, commit_user=COMMIT_USER, identifier=until)


def tag(lake: PipelineLocation, day: date) -> None:
    """Tag the end of the day, on gold last: a day whose tag is on gold is finished."""
    for table in (lake.silver, lake.gold):
        table.create_tag(day.isoformat(), if_not_exists=True)


def compact_and_expire(spark: SparkSession, lake: PipelineLocation, day: date) -> None:
    """Compact the day's partition of bronze and all of silver and gold, then expire old snapshots."""
    compact(spark, lake.bronze, full=True, where=pl.col("landed") == day)
    compact(spark, lake.silver, full=True)
    compact(spark, lake.gold, full=True)
    for table in (lake.bronze, lake.silver, lake.gold):
        table.expire_snapshots(retain_max=RETAINED_SNAPSHOTS, retain_min=RETAINED_SNAPSHOTS)


# ---- what the tables say ---------------------------------------------------------------------------------------------


def _has_commit(table: Table, identifier: int) -> bool:
    return publishing.find_commit(context_of(table), commit_user=COMMIT_USER, identifier=identifier) is not None


def _newest_snapshot_id(table: Table) -> int:
    """Return the id of the newest snapshot, 0 where there is none."""
    return max(table.snapshots()["snapshot_id"], default=0)


def _last_applied_snapshot_id(lake: PipelineLocation) -> int:
    """Return the snapshot of silver up to which gold has its changes."""
    snapshots = lake.gold.snapshots()
    own = snapshots.filter(commit_user=COMMIT_USER)["commit_identifier"]
    if own.is_empty() and not snapshots.is_empty():
        msg = (
            f"{lake.gold.name} has snapshots, and none by {COMMIT_USER!r} that says how far it is: they expired, or "
            "someone else fills it; begin with another root"
        )
        raise SnapshotNotFound(msg, name=COMMIT_USER)
    oldest = min(lake.silver.snapshots()["snapshot_id"], default=1)
    if own.is_empty() and oldest > 1:
        msg = (
            f"{lake.gold.name} is empty, and {lake.silver.name} begins with snapshot {oldest}: what it told before "
            "has expired; begin with another root"
        )
        raise SnapshotNotFound(msg, name="1")
    return max(own, default=0)


def _add_missing_columns(table: Table, types: Mapping[str, DataType]) -> None:
    """Add the columns that a table lacks."""
    existing = {field.name for field in table.schema.fields}
    missing = [add_column(name, t.as_nullable()) for name, t in types.items() if name not in existing]
    if missing:
        table.alter(*missing)


def _select_as(frame: DataFrame, types: Mapping[str, SparkType]) -> DataFrame:
    """Return those columns, of those types; null where the frame has none."""
    return frame.select(
        *((sql.col(name) if name in frame.columns else sql.lit(None)).cast(t).alias(name) for name, t in types.items())
    )
