"""Null keys of MAP and null elements of MULTISET in ORC files: written as the engine has them, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.codec import orc_tail
from lakekit.format import orc_write

TYPES = {
    "m": "MAP<STRING, INT>",
    "n": "MAP<INT, MAP<STRING, ARRAY<INT>>>",
    "s": "MULTISET<STRING>",
    "r": "ROW<a INT, m MAP<BIGINT, STRING>>",
    "l": "ARRAY<MAP<STRING, INT>>",
    "d": "MAP<DATE, DECIMAL(20, 2)>",
    "t": "MAP<TIMESTAMP(3), TIMESTAMP(6)>",
}


def made(path, **options) -> lk.Table:
    return lk.create(path, {"k": "INT", **TYPES, "z": "STRING"}, options={"file.format": "orc", **options})


def entries(keys, items, **limits):
    """Maps as lists of entries, in which a key stands once, null or not."""
    return st.none() | st.lists(st.tuples(st.none() | keys, items), max_size=4, unique_by=lambda pair: pair[0], **limits).map(
        lambda pairs: [{"key": key, "value": value} for key, value in pairs]
    )


NUMBERS, TEXTS = st.integers(-5, 5), st.text("abé", max_size=2)
ROWS = st.fixed_dictionaries(
    {
        "k": NUMBERS,
        "m": entries(TEXTS, st.none() | NUMBERS),
        "n": entries(NUMBERS, entries(TEXTS, st.none() | st.lists(NUMBERS, max_size=2))),
        "s": entries(TEXTS, st.integers(1, 3)),
        "r": st.none() | st.fixed_dictionaries({"a": st.none() | NUMBERS, "m": entries(NUMBERS, st.none() | TEXTS)}),
        "l": st.none() | st.lists(entries(TEXTS, st.none() | NUMBERS), max_size=2),
        "z": st.none() | TEXTS,
    }
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=12), codec=st.sampled_from(["zstd", "none", "lz4", "snappy", "zlib"]))
def test_drawn_maps_come_back(tmp_path_factory, rows, codec):
    """Law: what is written is read, whatever keys are null and however deep the maps lie, by columns too."""
    table = made(tmp_path_factory.mktemp("t") / "t", **{"file.compression": codec})
    table.append(rows)
    found = table.scan().collect()
    assert [{name: row[name] for name in rows[0]} for row in found.to_dicts()] == rows
    assert [row["z"] for row in table.scan().select("z").collect().to_dicts()] == [row["z"] for row in rows]
    assert [row["n"] for row in table.scan().select("n").collect().to_dicts()] == [row["n"] for row in rows]
    assert table.check(deep=True).ok


def test_a_null_key_that_comes_late_begins_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr(orc_write, "ROWS_AT_ONCE", 2)
    table = made(tmp_path / "t")
    with table.writer() as writer:
        for number in range(3):
            writer.write([{"k": number, "m": [{"key": "a", "value": number}]}])
            writer.write([{"k": 10 + number, "m": [{"key": None, "value": number}]}])
    rows = table.scan().sort("k").collect()
    assert rows["k"].to_list() == [0, 1, 2, 10, 11, 12]
    assert [row[0]["key"] for row in rows["m"].to_list()] == ["a"] * 3 + [None] * 3
    assert table.check(deep=True).ok


def test_stripes_and_row_groups_hold_their_null_keys(tmp_path):
    table = made(tmp_path / "t", **{"orc.stripe.size": "16 kb"})
    rows = [{"k": n, "m": [{"key": None if n % 3 else f"{n * 7919}", "value": n}], "z": f"{n * 104729}"} for n in range(40_000)]
    table.append(rows)
    [file] = Path(table.location).rglob("data-*.orc")
    assert len(orc_tail.parse_tail(file.read_bytes()).stripes) > 1
    found = table.scan().sort("k").collect()
    assert found["k"].to_list() == list(range(40_000))
    assert [one[0]["key"] for one in found["m"].to_list()] == [row["m"][0]["key"] for row in rows]
    assert table.scan().filter(k=39_999).collect()["z"].item() == f"{39_999 * 104729}"


def test_keys_that_may_not_be_null_are_not(tmp_path):
    table = lk.create(tmp_path / "t", {"m": "MAP<STRING NOT NULL, INT>"}, options={"file.format": "orc"})
    with pytest.raises(lk.errors.ValueOutOfRange):
        table.append([{"m": [{"key": None, "value": 1}]}])
