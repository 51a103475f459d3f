"""A column that has an index, or a function that merges it, takes another type only where the table can be written afterwards.

bloom-filter of INT        alter to BIGINT         rows of both types are found by filters
                           alter to DECIMAL        refused by name: a bloom filter takes no DECIMAL
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit import plugins
from lakekit.ddl import apply_changes
from lakekit.errors import InvalidOption, LakekitError, Unsupported
from lakekit.format.polars_types import polars_type
from lakekit.types import parse
from spec_tests.longer import some

NOON = datetime(2024, 2, 29, 12, 0, 0)  # noqa: DTZ001 - TIMESTAMP knows no zone
VALUES = {
    "BOOLEAN": (True, False),
    "TINYINT": (1, 7),
    "SMALLINT": (1, 7),
    "INT": (1, 7),
    "BIGINT": (1, 7),
    "FLOAT": (1.0, 7.0),
    "DOUBLE": (1.0, 7.0),
    "DECIMAL(5, 0)": (Decimal(1), Decimal(7)),
    "DECIMAL(20, 0)": (Decimal(1), Decimal(7)),
    "CHAR(30)": ("1", "7"),
    "VARCHAR(30)": ("1", "7"),
    "STRING": ("1", "7"),
    "BINARY(4)": (b"1234", b"5678"),
    "VARBINARY(4)": (b"1234", b"56"),
    "BYTES": (b"1234", b"56"),
    "DATE": (date(1969, 12, 31), date(2024, 2, 29)),
    "TIME(0)": (time(12), time(12, 30)),
    "TIMESTAMP(3)": (NOON, NOON.replace(year=1968)),
    "TIMESTAMP(6)": (NOON, NOON.replace(year=1968)),
    "TIMESTAMP(9)": (NOON, NOON.replace(year=1968)),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": (NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC, year=1968)),
}
TEXTS = {"DATE": "2024-02-29", "TIME": "12:00:00", "TIMESTAMP": "2024-02-29 12:00:00", "TIMESTAMP_LTZ": "2024-02-29 12:00:00", "BOOLEAN": "true"}
"""What a text is that becomes a value of a type."""


def changes_of(types):
    """Pairs of types that a column may change between; moments become times of day that no reader takes."""
    pairs = [(a, b) for a in types for b in VALUES if a != b and not (a.startswith("TIMESTAMP") and b.startswith("TIME("))]
    return [(a, b) for a, b in pairs if apply_changes.is_cast_allowed(parse(a), parse(b), explicit=True)]


def is_indexed(kind, text):
    module, t = plugins.load("file_index", kind), parse(text)
    return t.root in module.TYPES and (kind != "range-bitmap" or module.supports_type(t))


CASES = [
    (kind, before, after) for kind in sorted(plugins.names("file_index")) for before, after in changes_of([text for text in VALUES if is_indexed(kind, text)])
]
FUNCTIONS = ("sum", "product", "max", "listagg", "bool_and", "last_value", "first_non_null_value", "collect", "merge_map")


def frame_of(before, after):
    is_text, root = parse(before).root in ("CHAR", "VARCHAR"), parse(after).root
    values = [TEXTS[root]] if is_text and root in TEXTS else list(VALUES[before])
    column = pl.Series([*values, None], dtype=polars_type(parse(before)))
    return pl.DataFrame({"n": pl.Series(range(len(column)), dtype=pl.Int32), "v": column})


def altered(t, after):
    """Return whether a table takes the change of a type; where it refuses, it is what it was."""
    before = t._context().schema.fields
    try:
        t.alter(lk.update_type("v", after))
    except LakekitError as refusal:
        assert "v" in str(refusal)
        assert lk.open(t.location)._context().schema.fields == before
        return False
    return True


@pytest.mark.parametrize(("kind", "before", "after"), some([pytest.param(*case) for case in CASES], 60))
def test_a_table_with_an_index_is_written_and_read_after_a_change_of_its_type(tmp_path, kind, before, after):
    frame, t = frame_of(before, after), lk.create(tmp_path / "t", {"n": "INT", "v": before}, options={f"file-index.{kind}.columns": "v"})
    t.append(frame)
    if not altered(t, after):
        assert not is_indexed(kind, after)
        t.append(frame)
        return
    rows = t.scan().collect()
    t.append(rows)
    for compacts in (False, True):
        if compacts:
            t.compact(full=True)
        every = t.scan().collect()
        assert every.height == 2 * frame.height
        for value in rows["v"].unique():
            condition = pl.col("v").is_null() if value is None else pl.col("v") == pl.lit(value, rows.schema["v"])
            found = t.scan().filter(condition).collect()
            assert sorted(found["n"]) == sorted(every.filter(condition)["n"]), (value, compacts)
    assert t.check(deep=True).ok


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_table_that_merges_a_column_is_written_after_a_change_of_its_type(tmp_path, function):
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": function}
    for at, (before, after) in enumerate(changes_of(VALUES)[::7]):
        try:
            t = lk.create(tmp_path / str(at), {"n": "INT", "v": before}, primary_keys=["n"], options=options)
        except LakekitError:
            continue
        frame = frame_of(before, after)
        t.upsert(frame)
        t.upsert(t.scan().collect() if altered(t, after) else frame)
        assert t.scan().collect().height == frame.height


def test_an_index_of_long_numbers_is_refused_before_a_table_is_made(tmp_path):
    for text in ("DECIMAL(20, 0)", "TIMESTAMP(9)"):
        with pytest.raises(Unsupported, match="a range-bitmap index does not take column v"):
            lk.create(tmp_path / "t", {"v": text}, options={"file-index.range-bitmap.columns": "v"})
    assert not (tmp_path / "t" / "schema" / "schema-0").exists()


def test_an_indexed_column_is_dropped_with_its_index(tmp_path):
    t = lk.create(tmp_path / "t", {"n": "INT", "v": "INT"}, options={"file-index.bitmap.columns": "n,v"})
    with pytest.raises(InvalidOption, match="names 'v', which is no column"):
        t.alter(lk.drop_column("v"))
    t.append([{"n": 1, "v": 1}])
    t.alter(lk.drop_column("v"), lk.set_option("file-index.bitmap.columns", "n"))
    t.append([{"n": 2}])
    assert t.scan().filter(n=2).collect().rows() == [(2,)]


def test_an_index_that_does_not_take_the_type_is_named(tmp_path):
    t = lk.create(tmp_path / "t", {"n": "INT", "v": "INT"}, options={"file-index.bloom-filter.columns": "v"})
    with pytest.raises(Unsupported, match="a bloom-filter index does not take column v of type DECIMAL"):
        t.alter(lk.update_type("v", "DECIMAL(20, 0)"))
    t.append([{"n": 1, "v": 1}])
