"""Rows of each writer are found by their bucket key: pypaimon 2.1.0 places rows by the default function, whatever the option says.

option hive, k BOOLEAN, 2 buckets        Java, pypaimon-rust: true in bucket 1        pypaimon: true in bucket 0
"""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.codec.hashing import supports_bucket_key
from lakekit.errors import Corrupt
from lakekit.format.polars_types import polars_type
from lakekit.types import parse

VALUES = {
    "BOOLEAN": (True, False),
    "TINYINT": (-128, -7, 0, 1, 127),
    "SMALLINT": (-32_768, -7, 0, 300),
    "INT": (-(2**31), -7, 0, 1, 3, 65_536),
    "BIGINT": (-(2**63), -7, 0, 1, 3, 2**32 + 3),
    "FLOAT": (-2.25, 0.0, 1.5, float("inf")),
    "DOUBLE": (-2.25, 0.0, 1.5, 1e300),
    "DECIMAL(12, 3)": (Decimal("-1.250"), Decimal("0.000"), Decimal("999999999.999")),
    "DECIMAL(38, 10)": (Decimal("-1.2500000000"), Decimal("12345678901234567890.0123456789")),
    "CHAR(3)": ("ab", "abc"),
    "STRING": ("", "ab", "abcdefgh", "longer than seven bytes"),
    "BYTES": (b"", b"\x00\xff", b"longer than seven bytes"),
    "DATE": (date(1969, 12, 31), date(2024, 2, 29)),
    "TIMESTAMP(3)": tuple(map(datetime.fromisoformat, ("1969-12-31T23:59:59.500", "2024-02-29T12:00:00"))),
    "TIMESTAMP(6)": tuple(map(datetime.fromisoformat, ("1969-12-31T23:59:59.500001", "2024-02-29T12:00:00.123456"))),
}
FUNCTIONS = ("default", "mod", "hive")


@st.composite
def tables(draw):
    """A function, a type, keys of it, whether they are a primary key, and how many buckets there are."""
    text, is_keyed = draw(st.sampled_from(sorted(VALUES))), draw(st.booleans())
    value = st.sampled_from(VALUES[text])
    keys = draw(st.lists(value if is_keyed else st.none() | value, min_size=1, max_size=8))
    return draw(st.sampled_from(FUNCTIONS)), text, keys, is_keyed, draw(st.sampled_from((1, 2, 3, 7)))


def frame_of(text, keys, first=0):
    numbers = pl.Series(range(first, first + len(keys)), dtype=pl.Int32)
    return pl.DataFrame({"k": pl.Series(keys, dtype=polars_type(parse(text))), "n": numbers})


def write(t, frame):
    (t.upsert if t._context().schema.primary_keys else t.append)(frame)


def written_by_python(folder, function, text, keys, *, is_keyed, count):
    """Return a table with a bucket function whose rows lie where the default function puts them, as pypaimon's do."""
    options = {"bucket": str(count)} if is_keyed else {"bucket": str(count), "bucket-key": "k"}
    kind = f"{text} NOT NULL" if is_keyed else text
    keys_of_rows = ["k"] if is_keyed else []
    t = lk.create(f"{folder}/t", {"k": kind, "n": "INT"}, primary_keys=keys_of_rows, options=options)
    write(t, frame_of(text, keys))
    file = Path(folder, "t", "schema", "schema-0")
    said = json.loads(file.read_text())
    said["options"]["bucket-function.type"] = function
    file.write_text(json.dumps(said))
    return lk.open(f"{folder}/t")


def of_key(key, rows):
    return pl.col("k").is_null() if key is None else pl.col("k") == pl.lit(key, rows.schema["k"])


def assert_every_row_is_found(t, case):
    rows = t.scan().collect()
    for key in rows["k"].unique():
        condition = of_key(key, rows)
        found = t.scan().filter(condition).collect()
        assert found.sort("n").rows() == rows.filter(condition).sort("n").rows(), (case, key)


@settings(max_examples=60)
@given(tables())
def test_every_row_is_found_by_its_key(case):
    function, text, keys, is_keyed, count = case
    with TemporaryDirectory() as folder:
        t = written_by_python(folder, function, text, keys, is_keyed=is_keyed, count=count)
        assert_every_row_is_found(t, case)
        if not is_keyed and supports_bucket_key(function, [parse(text)]):
            write(t, frame_of(text, keys, first=100))
            assert t.scan().collect().height == 2 * len(keys)
            assert_every_row_is_found(t, case)


def test_a_row_is_deleted_where_it_lies(tmp_path):
    t = written_by_python(tmp_path, "hive", "BOOLEAN", [True, False, None], is_keyed=False, count=2)
    t.delete("k = true")
    assert sorted(t.scan().collect()["n"]) == [1, 2]


OTHERS = [("mod", "INT"), ("mod", "STRING"), ("hive", "BOOLEAN"), ("hive", "TIMESTAMP(6)")]


@pytest.mark.parametrize(("function", "text"), OTHERS)
def test_the_difference_of_two_states_is_told(tmp_path, function, text):
    first, second = VALUES[text][:2]
    t = written_by_python(tmp_path, "default", text, [first, second], is_keyed=True, count=7)
    t.overwrite(frame_of(text, [first, second], first=1))  # sequence numbers begin anew
    file = Path(tmp_path, "t", "schema", "schema-0")
    expected = t.changes(since=1, until=2, mode="diff").sort("n").collect().rows()
    file.write_text(file.read_text().replace('"default"', f'"{function}"'))
    assert lk.open(tmp_path / "t").changes(since=1, until=2, mode="diff").sort("n").collect().rows() == expected


def test_other_buckets_are_passed_over(tmp_path):
    options = {"bucket": "16", "bucket-key": "k", "bucket-function.type": "mod"}
    t = lk.create(tmp_path / "t", {"k": "INT", "n": "INT"}, options=options)
    t.append(frame_of("INT", list(range(64))))
    assert t.explain(pl.col("k") == 3).files_read <= 2


def test_a_check_names_rows_that_lie_in_another_bucket_unless_their_key_is_null(tmp_path):
    t = written_by_python(tmp_path, "hive", "BOOLEAN", [True, False], is_keyed=False, count=2)
    assert {one.check for one in t.check(deep=True).problems} == {"rows are in another bucket"}
    t.overwrite(t.scan().collect())
    assert t.check(deep=True).ok
    (tmp_path / "null").mkdir()
    t = written_by_python(tmp_path / "null", "hive", "BOOLEAN", [None], is_keyed=False, count=7)
    assert t.check(deep=True).ok


CHANGES = {
    "delete": lambda t: t.delete("k = true"),
    "update": lambda t: t.update({"n": 5}, where="k = true"),
    "merge": lambda t: t.merge([{"k": True, "n": 5}], lk.when_matched(update="all"), on=["k"]),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_that_would_not_reach_its_rows_is_refused(tmp_path, name):
    t = written_by_python(tmp_path, "hive", "BOOLEAN", [True, False], is_keyed=True, count=2)
    with pytest.raises(Corrupt, match=r"belong to bucket 1 by bucket-function\.type=hive"):
        CHANGES[name](t)
    assert t.snapshots().height == 1
    t.overwrite(t.scan().collect())
    CHANGES[name](t)
    assert t.scan().filter(k=True).collect().rows() == ([] if name == "delete" else [(True, 5)])
