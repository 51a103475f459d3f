"""Keys with nulls (`primary-key.nullable`): a null is a value like any other, equal to itself and before all others."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from spec_tests.conftest import DEEP
from spec_tests.longer import some

COLUMNS = {"p": "INT", "k": "BIGINT", "s": "STRING", "v": "INT"}
KEYS = ["p", "k", "s"]
OPTION = {"primary-key.nullable": "true"}
MODES = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "full": {"bucket": "1", "changelog-producer": "full-compaction"},
    "orc": {"bucket": "2", "file.format": "orc"},
    "avro": {"bucket": "2", "file.format": "avro", "num-sorted-run.compaction-trigger": "2"},
    "thin": {"bucket": "2", "data-file.thin-mode": "true", "write-only": "true"},
    "postpone": {"bucket": "-2"},
}


def made(path, **options) -> lk.Table:
    return lk.create(str(path), COLUMNS, primary_keys=KEYS, partition_keys=["p"], options=OPTION | options)


def test_columns_of_the_key_are_nullable(tmp_path):
    t = lk.create(str(tmp_path / "t"), COLUMNS | {"k": "BIGINT NOT NULL"}, primary_keys=KEYS, options=OPTION | {"bucket": "1"})
    assert [field.nullable for field in t.schema.fields] == [True] * 4
    t = lk.create(str(tmp_path / "u"), COLUMNS, primary_keys=KEYS, options={"bucket": "1"})
    assert [field.nullable for field in t.schema.fields] == [False] * 3 + [True]
    with pytest.raises(lk.ValueOutOfRange, match="NOT NULL"):
        t.upsert([{"p": 1, "k": None, "s": "a", "v": 1}])


KEY = st.tuples(st.none() | st.integers(0, 1), st.none() | st.integers(-1, 1), st.none() | st.sampled_from(["", "a"]))
ROWS = st.lists(st.tuples(KEY, st.integers(0, 9), st.booleans()), min_size=1, max_size=8)


@pytest.mark.long
@pytest.mark.parametrize("mode", some(MODES, 8))
@settings(max_examples=40 if DEEP else 2, deadline=None)
@given(batches=st.lists(ROWS, min_size=1, max_size=4), full=st.booleans())
def test_a_table_is_a_dict(tmp_path_factory, mode, batches, full):
    t = made(tmp_path_factory.mktemp("nulls") / "t", **MODES[mode])
    want = {}
    for batch in batches:
        t.upsert([{**dict(zip(KEYS, key, strict=True)), "v": v, "op": "-D" if gone else "+I"} for key, v, gone in batch], row_kind="op")
        for key, v, gone in batch:
            want.pop(key, None)
            if not gone:
                want[key] = v
        if full or mode in ("postpone", "vectors"):
            t.compact(full=True)
        found = t.scan().collect().rows()
        assert len(found) == len(want)
        assert {row[:3]: row[3] for row in found} == want
        for key in [(None, None, None), (0, None, "a"), (None, 1, None)]:
            where = [pl.col(name).is_null() if value is None else pl.col(name) == value for name, value in zip(KEYS, key, strict=True)]
            assert t.scan().filter(*where).collect()["v"].to_list() == ([want[key]] if key in want else [])
    assert t.check(deep=True).ok


@pytest.mark.long
def test_rows_of_null_keys_are_changed(tmp_path):
    t = made(tmp_path / "t", bucket="2")
    t.upsert([{"p": p, "k": k, "s": None, "v": 1} for p in (None, 0) for k in (None, 0)])
    t.update({"v": 2}, where="k IS NULL")
    t.delete("p IS NULL AND k = 0")
    t.compact(full=True)
    assert sorted(t.scan().select("p", "k", "v").collect().rows(), key=repr) == sorted([(None, None, 2), (0, None, 2), (0, 0, 1)], key=repr)
    t.rescale(3)
    assert t.scan().collect().height == 3
    assert t.check(deep=True).ok
