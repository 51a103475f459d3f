"""Partitions are dropped by values or texts, and nothing else goes."""

from __future__ import annotations

from datetime import date

import pytest

import lakekit as lk

DAYS = [date(2024, 1, 1), date(2024, 1, 2), None]


@pytest.fixture
def table(tmp_path):
    made = lk.create(tmp_path, {"d": "DATE", "h": "INT", "v": "INT"}, partition_keys=["d", "h"])
    made.append([{"d": day, "h": hour, "v": 1} for day in DAYS for hour in (1, 2)])
    return made


def places(table):
    return sorted(table.scan().select("d", "h").collect().rows(), key=str)


@pytest.mark.parametrize(
    ("spec", "gone"),
    [
        ({"d": "2024-01-01"}, [(DAYS[0], 1), (DAYS[0], 2)]),
        ({"d": date(2024, 1, 1), "h": 2}, [(DAYS[0], 2)]),
        ({"d": None}, [(None, 1), (None, 2)]),
        ({"h": "1"}, [(day, 1) for day in DAYS]),
    ],
)
def test_what_matches_goes(table, spec, gone):
    table.drop_partitions([spec])
    assert places(table) == sorted([(day, hour) for day in DAYS for hour in (1, 2) if (day, hour) not in gone], key=str)


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        ({"d": 19723}, lk.SchemaMismatch, "19723 is no value of partition column d"),
        ({"d": "yesterday"}, lk.LakekitError, "yesterday"),
        ({"x": 1}, lk.ColumnNotFound, "no partition column 'x'; partition columns are d, h"),
        ({}, lk.InvalidOption, "t.truncate"),
    ],
)
def test_what_is_no_partition_drops_none(table, spec, error, said):
    before = places(table)
    with pytest.raises(error, match=said):
        table.drop_partitions([spec])
    assert places(table) == before
    assert table.snapshots().height == 1
