"""Drawn partition values come back from their directories; drawn texts give a value or an error that says which."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from lakekit.errors import Corrupt
from lakekit.model import partition
from lakekit.model.table_paths import TablePaths, checked_name, is_plain_name
from lakekit.options.option import read_duration, read_levels, read_size
from lakekit.options.table_options import TableOptions
from lakekit.types import DataType, Instant, parse

if TYPE_CHECKING:
    from collections.abc import Callable

DAYS = st.integers(-(2**31), 2**31 - 1)
FLOATS = st.floats(width=32) | st.sampled_from([1e7, 9999999.0, 0.0010000000474974513, 0.0009999999310821295])
INSTANTS = st.builds(Instant, st.integers(-(10**15), 10**15), st.integers(0, 999_999))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    return unscaled.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)))


def cut(value: Instant, digits: int) -> Instant:
    nanos = (value.millis % 1000 * 1_000_000 + value.nanos) // 10 ** (9 - digits) * 10 ** (9 - digits)
    return Instant(value.millis // 1000 * 1000 + nanos // 1_000_000, nanos % 1_000_000)


VALUES: list[tuple[str, st.SearchStrategy[Any]]] = [
    ("BOOLEAN", st.booleans()),
    ("TINYINT", st.integers(-128, 127)),
    ("BIGINT", st.integers(-(2**63), 2**63 - 1)),
    ("STRING", st.text(st.characters(codec="utf-8"), max_size=10).filter(lambda text: not partition.is_blank(text) and text != partition.DEFAULT_NAME)),
    ("DATE", DAYS),
    ("TIME(3)", st.integers(0, 86_399_999)),
    ("DOUBLE", st.floats(allow_nan=False)),
    ("FLOAT", FLOATS.filter(lambda value: not math.isnan(value))),
    ("DECIMAL(38, 10)", decimals(38, 10)),
    ("DECIMAL(5, 5)", decimals(5, 5)),
    *((f"TIMESTAMP({digits})", INSTANTS.map(lambda value, digits=digits: cut(value, digits))) for digits in (0, 3, 6, 9)),
]
TYPED = st.sampled_from(VALUES).flatmap(lambda pair: st.tuples(st.just(parse(pair[0])), st.none() | pair[1]))


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(TYPED, max_size=3), st.booleans())
def test_values_come_back_from_directories(typed: list[tuple[DataType, Any]], legacy: bool) -> None:
    types, values = [t for t, _ in typed], [value for _, value in typed]
    names = [f"k{number}=" for number in range(len(types))]
    texts = partition.partition_texts(values, types, legacy_form=legacy)
    directory = partition.partition_path(names, texts)
    assert partition.parse_partition_path(directory) == tuple(zip(names, texts, strict=True))
    assert all(is_plain_name(part) or len(part.encode()) > 255 for part in directory.split("/")[:-1])
    found = partition.parse_partition(texts, types)
    assert list(found) == values
    assert partition.partition_texts(found, types, legacy_form=legacy) == texts


@given(st.text(max_size=20))
def test_escaped_text_is_one_path_part_and_comes_back(text: str) -> None:
    escaped = partition.escape_name(text)
    assert partition.unescape_name(escaped) == text
    assert not set(escaped) & set("\"#'*/:=?\\{}[]^\x00\x7f\n")
    assert all(ord(c) >= 32 for c in escaped)


@given(st.dates(date(1, 1, 1), date(9999, 12, 31)))
def test_days_agree_with_the_calendar(day: date) -> None:
    number = (day - date(1970, 1, 1)) // timedelta(days=1)
    assert partition.civil_date(number) == (day.year, day.month, day.day)
    assert partition.epoch_day(day.year, day.month, day.day) == number
    assert partition.iso_date(number) == day.isoformat()


@given(st.integers(-(10**12), 10**12))
def test_days_beyond_the_calendar_come_back(number: int) -> None:
    assert partition.epoch_day(*partition.civil_date(number)) == number


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_print_as_java_prints_them(value: float) -> None:
    text = partition.java_double(value)
    assert float(text) == value
    assert re.fullmatch(r"-?(?:(?:0|[1-9][0-9]{0,6})\.[0-9]+|[1-9]\.[0-9]+E-?[1-9][0-9]*)", text)
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
    assert text[-1] != "0" or re.search(r"\.0(?:$|E)", text) or "E" in text


@settings(max_examples=60, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_print_as_java_prints_them(value: float) -> None:
    text = partition.java_float(value)
    assert struct.unpack("<f", struct.pack("<f", float(text)))[0] == value
    assert len(text) <= 16


TYPES = st.sampled_from([parse(text) for text, _ in VALUES] + [parse("BYTES"), parse("CHAR(3)"), parse("TIMESTAMP(3) WITH LOCAL TIME ZONE")])


def field_of_refusal(call: Callable[[], object]) -> str | None:
    try:
        call()
    except Corrupt as refused:
        return refused.field
    return None


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30) | st.text("0123456789-+:.TeE NaInfty", max_size=30), TYPES)
def test_any_text(text: str, t: DataType) -> None:
    field = field_of_refusal(lambda: partition.parse_partition([text], [t]))
    assert field in {None, "partition value"}
    if field is None and not t.root.startswith(("CHAR", "VAR")):
        printed = partition.partition_texts(partition.parse_partition([text], [t]), [t])
        assert partition.partition_texts(partition.parse_partition(printed, [t]), [t]) == printed


@given(st.text(max_size=40))
def test_any_directory(directory: str) -> None:
    assert field_of_refusal(lambda: partition.parse_partition_path(directory)) in {None, "partition path"}


@given(st.text(max_size=300))
def test_a_checked_name_stays_in_its_directory(name: str) -> None:
    try:
        checked_name(name)
    except Corrupt:
        assert not is_plain_name(name)
    else:
        assert not set(name) & {"/", "\\", "\0"}
        assert name not in {"", ".", ".."}
        assert TablePaths(root="/t").manifest(name).rpartition("/") == ("/t/manifest", "/", name)


@given(st.text(max_size=20))
def test_any_option_text(text: str) -> None:
    for read in (read_size, read_duration, read_levels):
        try:
            read(text)
        except ValueError:
            continue
    options = TableOptions.parse({"bucket": text, "fields.v.count-limit": text, text: text})
    assert options.texts[text] == text
