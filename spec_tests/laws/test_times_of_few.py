"""Times that Python has no value for: nanoseconds, and years before 1 and after 9999. They are keys, bounds and values as others are."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk

COUNT = 3000
DAY_US = 86_400_000_000
FAR = {
    "TIMESTAMP(9)": [1_700_000_000_123_456_789 + 1_000_000 * n for n in range(COUNT)],
    "TIMESTAMP(6)": [570_000_000_000_000_001 + n for n in range(COUNT)],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": [-63_000_000_000_000 + n for n in range(COUNT)],
    "DATE": [5_000_000 + n for n in range(COUNT)],
}
"""Counts since 1970, in the type's own unit."""
VECTORS, LOOKUP = {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}


def made(path, kind, keyed=True, **options):
    """A table of such times, and its rows as a frame: k is the time, v is 0."""
    keys = {"primary_keys": ["k"], "options": {"bucket": "1", **options}} if keyed else {"options": options}
    table = lk.create(path, {"k": f"{kind} NOT NULL", "v": "INT"}, **keys)
    dtype = table.schema.to_polars()["k"]
    counts = pl.Series("k", FAR[kind], pl.Int32 if kind == "DATE" else pl.Int64)
    return table, pl.DataFrame([counts.cast(dtype), pl.Series("v", [0] * COUNT, pl.Int32)])


def valued(frame, value):
    return frame.with_columns(pl.lit(value, pl.Int32).alias("v"))


@pytest.mark.parametrize("kind", FAR)
@pytest.mark.parametrize("options", [VECTORS, LOOKUP, VECTORS | LOOKUP], ids=["vectors", "lookup", "both"])
def test_a_key_is_found_in_the_levels_above(tmp_path, kind, options):
    table, rows = made(tmp_path / "t", kind, **options)
    table.upsert(rows)
    table.compact(full=True)
    before = table.snapshots()["snapshot_id"].max()
    table.upsert(valued(rows[10:12], 1))
    assert table.scan().collect().sort("k").equals(pl.concat([rows[:10], valued(rows[10:12], 1), rows[12:]]))
    if "changelog-producer" in options:
        assert table.changes(before).collect()["_row_kind"].to_list() == ["-U", "+U"] * 2


@pytest.mark.parametrize("kind", FAR)
@pytest.mark.parametrize("options", [{}, VECTORS], ids=["rewritten", "vectors"])
def test_a_merge_finds_what_it_matches(tmp_path, kind, options):
    table, rows = made(tmp_path / "t", kind, keyed=False, **options)
    for at in range(4):
        table.append(rows[at : at + 1])
    table.merge(valued(rows[1:3], 1), lk.when_matched(update="all"), lk.when_not_matched(), on=["k"])
    assert table.scan().collect().sort("k").equals(pl.concat([rows[:1], valued(rows[1:3], 1), rows[3:4]]))


@pytest.mark.parametrize("kind", FAR)
def test_slices_hold_every_key_once(tmp_path, kind):
    table, rows = made(tmp_path / "t", kind, **{"write-only": "true", "lakekit.merge-memory": "1 kb"})
    for value in range(3):
        table.upsert(valued(rows, value))
    assert table.scan().collect().sort("k").equals(valued(rows, 2))
    table.compact(full=True)
    assert table.scan().collect().sort("k").equals(valued(rows, 2))


INDEXED = [
    (kind, index)
    for kind in FAR
    for index in (None, "bloom-filter", "bitmap", "range-bitmap", "bsi")
    if kind != "TIMESTAMP(9)" or index in (None, "bloom-filter")
]
"""Nanoseconds go into bloom filters only."""


@pytest.mark.parametrize(("kind", "index"), INDEXED)
def test_a_check_takes_them_as_they_are(tmp_path, kind, index):
    table, rows = made(tmp_path / "t", kind, **({} if index is None else {f"file-index.{index}.columns": "k"}))
    table.upsert(rows[:3])
    assert table.check(deep=True).problems == ()


@pytest.mark.parametrize("kind", FAR)
def test_a_check_takes_partitions_of_them(tmp_path, kind):
    rows = made(tmp_path / "of", kind)[1][:3]
    table = lk.create(tmp_path / "t", {"k": kind, "v": "INT"}, partition_keys=["k"])
    table.append(rows)
    assert table.check(deep=True).problems == ()
    assert table.scan().collect().sort("k").equals(rows)


def test_a_check_says_what_bounds_are_false(tmp_path):
    table, rows = made(tmp_path / "t", "TIMESTAMP(6)", **{"write-only": "true"})
    table.upsert(rows[:1])
    other = made(tmp_path / "other", "TIMESTAMP(6)", **{"write-only": "true"})[0]
    other.upsert(rows[5:6])
    (mine,), (theirs,) = (list((tmp_path / name / "bucket-0").glob("data-*")) for name in ("t", "other"))
    mine.write_bytes(theirs.read_bytes())
    assert any("570000000000000006 us since 1970" in one.problem for one in table.check(deep=True).problems)
