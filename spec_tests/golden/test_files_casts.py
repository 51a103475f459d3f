"""Every cast of a changed column type gives what the reference's own casts gave, value by value, and refuses what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from lakekit.errors import Unsupported, ValueOutOfRange
from lakekit.files.evolve import evolved, same
from lakekit.format.casts import Target
from lakekit.format.dtypes import polars_type
from lakekit.testing.expectations import FIXTURES, canonical, series_of, values_of
from lakekit.types import parse

FILES = sorted(Path(FIXTURES).glob("formats/cast/*.json"))
NOT_READ = {("0x1p3", "FLOAT"), ("0x1p3", "DOUBLE")}
"""Text that Java reads as a hexadecimal float."""
TARGET = Target(column="c", timestamp_unit="us")


def run(values, held, want):
    return series_of(values, held, "c").to_frame().select(evolved(pl.col("c"), held, want, TARGET)).to_series()


def reachable(value, want):
    """Whether the recorded value is one that its Polars type holds: microseconds, and times of the day."""
    if value is not None and want.root == "TIME":
        return 0 <= value < 86_400_000
    if value is not None and want.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and want.precision > 3:
        return abs(value[0]) < 2**63 // 1000
    return True


def kept(value, want):
    return [value[0], value[1] // 1000 * 1000] if value is not None and want.root.startswith("TIMESTAMP") and want.precision == 9 else value


def holdable(value, held):
    """Nanoseconds reach from 1677 to 2262."""
    nanos = held.root.startswith("TIMESTAMP") and held.precision == 9
    return not nanos or value is None or abs(value[0]) < 2**63 // 1_000_000


@pytest.mark.long
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_casts_are_java_s(file):
    facts = json.loads(file.read_text(encoding="utf-8"))
    held = parse(facts["from"])
    wrong = {target["to"]: found for target in facts["targets"] if (found := difference(facts["values"], held, target))}
    assert wrong == {}


def difference(values, held, target):
    want = parse(target["to"])
    if same(held, want) or (want.is_nested and (held.root == want.root or target["values"] is not None)):
        return None  # parts evolve by their ids (spec_tests/laws/test_evolve.py); from text there are casts, but no such type change
    if target["values"] is None:
        with pytest.raises(Unsupported, match="was changed from"):
            run([value for value in values if holdable(value, held)], held, want)
        return None
    good, bad = [], []
    for value, result in zip(values, target["values"], strict=True):
        if holdable(value, held):
            refused = isinstance(result, dict) or not reachable(result, want) or (str(value), want.root) in NOT_READ
            (bad if refused else good).append((value, result))
    try:
        found = run([value for value, _ in good], held, want)
    except ValueOutOfRange as refused:
        return refused.message
    assert found.dtype == polars_type(want, timestamp_unit="us")
    got = [canonical(v, want) for v in values_of(found.to_arrow(), want)]
    wanted = [canonical(kept(result, want), want) for _, result in good]
    wrong = [(value, mine, java) for (value, _), mine, java in zip(good, got, wanted, strict=True) if mine != java]
    return wrong or [value for value, _ in bad if not refuses(value, held, want)]


def refuses(value, held, want):
    try:
        run([value], held, want)
    except ValueOutOfRange as refusal:
        return refusal.column == "c" and "c" in refusal.message
    return False


IN_NEW_YORK = [  # the reference's casts with -Duser.timezone=America/New_York
    ("BIGINT", 0, "TIMESTAMP(3) WITH LOCAL TIME ZONE", [-18_000_000, 0]),
    ("INT", 16_777_217, "TIMESTAMP(6) WITH LOCAL TIME ZONE", [16_762_817_000, 0]),
    ("TIME(0)", 3_723_004, "TIMESTAMP(3) WITH LOCAL TIME ZONE", [3_723_004, 0]),
    ("DATE", 19_782, "TIMESTAMP(3) WITH LOCAL TIME ZONE", None),
    ("TIMESTAMP(3)", [1_709_210_096_123, 0], "TIMESTAMP(3) WITH LOCAL TIME ZONE", None),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [-1, 0], "DATE", -1),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [1_709_210_096_123, 456_000], "STRING", "2024-02-29 07:34:56.123456"),
    ("STRING", "2024-02-29 07:34:56.5", "TIMESTAMP(3) WITH LOCAL TIME ZONE", [1_709_210_096_500, 0]),
]


@pytest.mark.parametrize(("held", "value", "want", "java"), IN_NEW_YORK, ids=str)
def test_casts_to_and_from_instants_use_the_zone_of_the_java_processes(held, value, want, java):
    here = Target(column="c", timestamp_unit="us", zone="America/New_York")
    held, want = parse(held), parse(want)
    found = series_of([value], held, "c").to_frame().select(evolved(pl.col("c"), held, want, here)).to_series()
    shift = 5 * 3_600_000  # winter there
    start = value * 86_400_000 if held.root == "DATE" else value[0] if java is None else 0
    assert values_of(found.to_arrow(), want) == [java if java is not None else [start + shift, 0]]
