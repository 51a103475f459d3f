"""ORC files of writers in any time zone: their wall clocks are read as the reference reads them, and ours are read by it wherever it runs."""

from __future__ import annotations

import operator
import os
import random

import numpy as np
import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import Unsupported
from lakekit.format import orc_rewrite
from lakekit.testing import expectations

pytestmark = pytest.mark.reference

SEED = int(os.environ.get("LAKEKIT_CHANCE_SEED", "20261126"))
OTHER_RULES = frozenset({"Africa/Casablanca", "Africa/El_Aaiun", "Asia/Gaza", "Asia/Hebron", "Africa/Windhoek"})
"""Zones whose clocks Java changes otherwise after 2037 (or before 1900, Windhoek): moving feasts, winter time that is none."""
VERSIONS = {"Asia/Tehran": (283_000_000, 296_700_000), "Iran": (283_000_000, 296_700_000)}
"""Seconds in which versions of the tz database disagree."""
UNKNOWN = "SystemV/"
TYPES = {"t3": "TIMESTAMP(3)", "t6": "TIMESTAMP(6)", "t9": "TIMESTAMP(9)", "l3": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}
DAY = 86_400


def moments(draw: random.Random, count: int) -> list[int]:
    """Drawn seconds since the epoch: around 1970, since 1900, in all years, at the ends of days."""
    kinds = (
        lambda: draw.randint(-DAY, DAY),
        lambda: draw.randint(-2_208_988_800, 2_145_916_800),
        lambda: draw.randint(-12_219_292_800, 253_402_214_400),
        lambda: draw.randint(-25_000, 40_000) * DAY + draw.choice((-1, 0, 1)),
    )
    return [draw.choice(kinds)() for _ in range(count)]


def test_offsets_of_every_zone_are_those_of_java(judge):
    draw = random.Random(SEED)
    compared, unknown = 0, []
    for zone in [*judge.zones(), "GMT+08:00", "GMT-03:30", "GMT+14:00"]:
        seconds = moments(draw, 200)
        if zone in OTHER_RULES:
            seconds = [one for one in seconds if -2_208_988_800 <= one < 2_114_377_200]
        low, high = VERSIONS.get(zone, (0, 0))
        seconds = [one for one in seconds if not low <= one < high]
        try:
            ours = orc_rewrite.utc_offsets(np.array(seconds, np.int64), zone) * 1000
        except Unsupported:
            unknown.append(zone)
            continue
        assert dict(zip(seconds, ours.tolist(), strict=True)) == dict(zip(seconds, judge.offsets(zone, seconds), strict=True)), zone
        compared += len(seconds)
    assert all(zone.startswith(UNKNOWN) for zone in unknown)
    assert compared > 100_000


def drawn_rows(draw: random.Random, count: int) -> list[tuple[int, list[int] | None]]:
    """Keys and times as milliseconds and nanoseconds of a millisecond; some are null."""
    rows: list[tuple[int, list[int] | None]] = []
    for key, second in enumerate(moments(draw, count)):
        part = draw.choice((0, 0, 1, 500, 999, draw.randint(0, 999)))
        nanos = draw.choice((0, 0, 1000, 999_000, 123_456))
        rows.append((key, None if draw.random() < 0.05 else [second * 1000 + part, nanos]))
    return rows


ZONES = (
    "Asia/Shanghai",
    "America/New_York",
    "Asia/Kolkata",
    "Europe/Amsterdam",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Pacific/Apia",
    "PST",
    "GMT+08:00",
    "UTC",
)


@pytest.mark.parametrize("zone", ZONES)
def test_rows_of_a_writer_in_a_zone_are_read_as_the_engine_reads_them(judge, tmp_path, zone):
    compare_rows(judge, tmp_path, zone, 120)


def test_rows_of_writers_in_drawn_zones_are_read_as_the_engine_reads_them(judge, tmp_path):
    draw = random.Random(SEED)
    zones = [zone for zone in judge.zones() if zone not in OTHER_RULES | VERSIONS.keys() and not zone.startswith(UNKNOWN)]
    for zone in draw.sample(zones, 40):
        compare_rows(judge, tmp_path / zone.replace("/", "_"), zone, 40)


def compare_rows(judge, folder, zone, count):
    folder.mkdir(exist_ok=True)
    draw = random.Random(f"{SEED}{zone}")
    rows = drawn_rows(draw, count)
    schema = {"k": "INT", **TYPES, "a": "ARRAY<TIMESTAMP(6)>", "m": "MAP<INT, TIMESTAMP(3)>"}
    path = folder / "t"
    judge.create(path, schema, options={"bucket": "-1", "file.format": "orc", "orc.timestamp-ltz.legacy.type": "false"})

    def cut(time, digits):
        return None if time is None else [time[0], 0 if digits == 3 else time[1] // 1000 * 1000 if digits == 6 else time[1]]

    told = [
        (k, cut(t, 3), cut(t, 6), cut(within_nanoseconds(t), 9), cut(t, 3), None if t is None else [cut(t, 6), None], None if t is None else [[1, cut(t, 3)]])
        for k, t in rows
    ]
    with judge.in_zone(zone):
        judge.write(path, [("+I", row) for row in told])
    expected = judge.read(path)
    table = lk.open(path)
    assert expectations.describe_difference(table.scan().collect(), expected) is None
    rows_read = table.scan().collect()
    for name in ("t3", "t6"):
        asked = rows_read[name].drop_nulls().unique().sort()
        for value in [asked[0], asked[len(asked) // 2], asked[-1]]:
            for compare in (operator.eq, operator.lt, operator.ge):
                wanted = compare(pl.col(name), pl.lit(value, rows_read.schema[name]))
                assert table.scan().filter(wanted).collect().sort("k").equals(rows_read.filter(wanted).sort("k")), (name, value, compare)


def within_nanoseconds(time):
    return time if time is None or abs(time[0]) < 9_000_000_000_000 else [time[0] % 9_000_000_000_000, time[1]]


def test_rows_of_lakekit_are_read_alike_wherever_the_engine_runs(judge, tmp_path):
    draw = random.Random(SEED)
    path = tmp_path / "t"
    table = lk.create(path, {"k": "INT", "t3": "TIMESTAMP(3)", "t6": "TIMESTAMP(6)"}, options={"file.format": "orc"})
    millis = [max(second, -12_000_000_000) * 1000 for second in moments(draw, 100)]
    parts = [0 if one == -1000 else draw.choice((0, 1, 999, 1000, 500_500, 999_000, 999_999)) for one in millis]
    frame = pl.DataFrame({"k": range(100), "t3": millis, "t6": [one * 1000 + part for one, part in zip(millis, parts, strict=True)]}).with_columns(
        pl.col("k").cast(pl.Int32), pl.col("t3").cast(pl.Datetime("ms")), pl.col("t6").cast(pl.Datetime("us"))
    )
    table.append(frame)
    in_utc = judge.read(path)
    assert expectations.describe_difference(frame, in_utc) is None
    assert expectations.describe_difference(table.scan().collect(), in_utc) is None
    for zone in ZONES:
        with judge.in_zone(zone):
            elsewhere = judge.read(path)
        wrong = [(a, b) for a, b in zip(in_utc.rows, elsewhere.rows, strict=True) if a != b]
        assert wrong == [], zone
