"""The time that partition values say."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings, strategies as st

from lakekit.errors import InvalidOption
from lakekit.model.partition import partition_time_ms


def said(*texts: str, pattern: str | None = None, formatter: str | None = None) -> str | None:
    found = partition_time_ms(["dt", "hr"][: len(texts)], texts, pattern=pattern, formatter=formatter)
    return None if found is None else (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=found)).isoformat(sep=" ").removesuffix("+00:00")


@pytest.mark.parametrize(
    ("texts", "pattern", "formatter", "wanted"),
    [
        (("2024-02-29",), None, None, "2024-02-29 00:00:00"),
        (("2024-2-9 7:3:1",), None, None, "2024-02-09 07:03:01"),
        (("2024-02-29 07:03:01.5",), None, None, "2024-02-29 07:03:01.500000"),
        (("2024-13-01",), None, None, "2025-01-01 00:00:00"),
        (("2023-02-30",), None, None, "2023-03-02 00:00:00"),
        (("20240229",), None, None, None),
        (("19782",), None, None, None),
        (("2024-02-29", "7"), "$dt $hr:00:00", None, "2024-02-29 07:00:00"),
        (("20240229", "07"), "$dt$hr", "yyyyMMddHH", "2024-02-29 07:00:00"),
        (("20240229",), None, "yyyyMMdd", "2024-02-29 00:00:00"),
        (("20230230",), None, "yyyyMMdd", "2023-02-28 00:00:00"),
        (("240229",), None, "yyMMdd", "2024-02-29 00:00:00"),
        (("20231301",), None, "yyyyMMdd", None),
        (("2024-02-29T07:03",), None, "yyyy-MM-dd'T'HH:mm", "2024-02-29 07:03:00"),
        (("29.2.2024",), None, "d.M.uuuu", "2024-02-29 00:00:00"),
        (("07:03",), None, "HH:mm", None),
        (("2024-02-29 24:00:00",), None, "yyyy-MM-dd HH:mm:ss", "2024-03-01 00:00:00"),
        (("2024-02-29 24:00:01",), None, "yyyy-MM-dd HH:mm:ss", None),
        (("00000229",), None, "yyyyMMdd", None),
        (("+2024-02-29",), None, None, None),
        (("2024-02-29",), None, "yyyy-MM-dd[ HH:mm[:ss]]", "2024-02-29 00:00:00"),
        (("2024-02-29 07:03",), None, "yyyy-MM-dd[ HH:mm[:ss]]", "2024-02-29 07:03:00"),
        (("2024-02-29 07:03:01",), None, "yyyy-MM-dd[ HH:mm[:ss]", "2024-02-29 07:03:01"),
        (("2024-02-29 07",), None, "yyyy-MM-dd[ HH:mm]", None),
        (("20240229",), None, "[yyyyMMdd][yyyy-MM-dd]", "2024-02-29 00:00:00"),
        (("2024-02-29",), None, "[yyyyMMdd][yyyy-MM-dd]", "2024-02-29 00:00:00"),
        (("202402292024-02-29",), None, "[yyyyMMdd][yyyy-MM-dd]", None),
        (("20240229:2024-02-29",), None, "[yyyyMMdd][:yyyy-MM-dd]", "2024-02-29 00:00:00"),
        (("20240229:2024-02-28",), None, "[yyyyMMdd][:yyyy-MM-dd]", None),
        (("2024022907",), None, "yyyyMMdd[HH]", None),
        (("2024-02-29",), None, "[yyyy][yyyy-MM-dd]", None),
        (("2024 29 2",), None, "yyyy d[d] M", "2024-02-29 00:00:00"),
    ],
)
def test_times(texts, pattern, formatter, wanted):
    assert said(*texts, pattern=pattern, formatter=formatter) == wanted


@settings(max_examples=30)
@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 1, 1)))  # noqa: DTZ001 - a wall clock
def test_what_is_printed_is_read(moment):
    text = moment.strftime("%m %d %H:%M:%S") + f" {moment.year:04d}"
    assert said(text, formatter="MM dd HH:mm:ss yyyy") == moment.replace(microsecond=0).isoformat(sep=" ")


@pytest.mark.parametrize("formatter", ["MMM d", "yyyy 'open", "EEE", "yyyy]", "yyyy{}", "#yyyy"])
def test_formatters_that_are_not_read(formatter):
    with pytest.raises(InvalidOption, match=r"partition\.timestamp-formatter"):
        said("x", formatter=formatter)
