"""Every cast of a changed column type gives what the reference's own casts gave, value by value, and refuses what they refuse."""

from __future__ import annotations

import polars as pl
import pytest

from lakekit.data_file.schema_evolution import evolve_column
from lakekit.errors import Unsupported
from lakekit.format.casts import CastTarget
from lakekit.testing.expectations import decode_series, encode_values
from lakekit.testing.fixtures import golden_cases
from lakekit.testing.golden.checks import check_golden_file
from lakekit.types import parse


@pytest.mark.long
@pytest.mark.parametrize("path", golden_cases("cast"), ids=lambda path: path.stem)
def test_casts_are_java_s(path):
    check_golden_file(path)


@pytest.mark.parametrize("held", ["MULTISET<INT>", "VARIANT", "ARRAY<MULTISET<INT>>", "MAP<INT, MULTISET<STRING>>", "ROW<a INT, b ARRAY<VARIANT>>"])
def test_what_has_no_text_in_java_has_none_inside_others_either(held):
    """The reference has no cast of a MULTISET or VARIANT to text, and a NullPointerException where one lies in an ARRAY, a MAP or a ROW."""
    with pytest.raises(Unsupported, match=r"column c was changed from .* to STRING, for which Paimon has no cast"):
        evolve_column(pl.col("c"), parse(held), parse("STRING"), CastTarget(column="c"))


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
    here = CastTarget(column="c", timestamp_unit="us", zone="America/New_York")
    held, want = parse(held), parse(want)
    found = decode_series([value], held, "c").to_frame().select(evolve_column(pl.col("c"), held, want, here)).to_series()
    shift = 5 * 3_600_000  # winter there
    start = value * 86_400_000 if held.root == "DATE" else value[0] if java is None else 0
    assert encode_values(found.to_arrow(), want) == [java if java is not None else [start + shift, 0]]


@pytest.mark.parametrize(
    ("held", "millis", "java"),
    [
        ("TIME(2)", 1, "00:00:00.00"),
        ("TIME(2)", 101, "00:00:00.10"),
        ("TIME(2)", 100, "00:00:00.1"),
        ("TIME(1)", 10, "00:00:00.0"),
        ("TIME(3)", 0, "00:00:00.0"),
    ],
)
def test_times_finer_than_their_type_show_all_of_its_digits(held, millis, java):
    held, want = parse(held), parse("STRING")
    found = decode_series([millis], held, "c").to_frame().select(evolve_column(pl.col("c"), held, want, CastTarget(column="c"))).to_series()
    assert found.to_list() == [java]
