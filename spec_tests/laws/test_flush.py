"""A flush leaves what the row-wise oracle leaves, in the order of the reference's comparator, deletes included; spilling changes nothing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import cmp_to_key
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st

from lakekit import runtime
from lakekit.bucket import write_buffer as flushing
from lakekit.bucket.write_buffer import SpillFile, WriteBuffer
from lakekit.columns import LEVEL
from lakekit.errors import LakekitError, StorageFailed
from lakekit.lsm import merge
from lakekit.testing import oracle
from lakekit.testing.strategies import DRAWN_ENGINES, canonical_rows, merges, to_dicts

FEW = settings(max_examples=settings.default.max_examples // 3)


def arrived(case):
    """The rows in the order of their sequence numbers, as a buffer holds them."""
    return case.frame().sort("_SEQUENCE_NUMBER").drop(LEVEL)


def flushed(case, frame=None):
    try:
        return flushing.merge_for_flush(arrived(case) if frame is None else frame, case.rule)
    except LakekitError as refused:
        return refused


def buffered(case):
    """The rule of a write buffer: `sequence.field.sort-order` does not reach it, only what is merged from level 0 on."""
    return replace(case.rule, is_descending=False)


def compared(names):
    """The reference's order of rows by some columns."""

    def order(one, other):
        return next((found for name in names if (found := oracle.compare(one[name], other[name]))), 0)

    return cmp_to_key(order)


@pytest.mark.long
@pytest.mark.parametrize("engine", DRAWN_ENGINES)
@FEW
@given(data=st.data())
def test_a_flush_is_what_the_oracle_makes_of_the_rows(engine, data):
    case = data.draw(merges(engine))
    rows = [{**row, LEVEL: 0} for row in to_dicts(arrived(case))]
    try:
        want = oracle.merge(rows, buffered(case))
    except oracle.RefusedRows:
        assert isinstance(flushed(case), LakekitError)
        return
    found = flushed(case)
    assert not isinstance(found, LakekitError), found
    assert found.columns == arrived(case).columns
    assert canonical_rows(to_dicts(found), case.rule) == canonical_rows(want, case.rule)


@FEW
@given(case=merges())
def test_keys_ascend_as_the_reference_compares_them_and_none_repeats(case):
    found = flushed(case)
    assume(not isinstance(found, LakekitError))
    rows, order = to_dicts(found), compared(case.key)
    assert all(order(one) < order(other) for one, other in pairwise(rows))


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_deletes_reach_level_0(engine, monkeypatch):
    """Dropped at flush, a deleted row of an older file would live again: the planted mutant is caught."""
    rule = next_rule(engine)
    frame = pl.DataFrame(
        {"k": [1, 2, 2], "v": [10, 20, 20], "_SEQUENCE_NUMBER": [0, 1, 2], "_VALUE_KIND": [3, 0, 3]},
        schema={"k": pl.Int32(), "v": pl.Int64(), "_SEQUENCE_NUMBER": pl.Int64(), "_VALUE_KIND": pl.Int8()},
    )

    def deletes():
        return flushing.merge_for_flush(frame, rule).filter(pl.col("_VALUE_KIND") == 3)["k"].to_list()

    wanted = [1, 2] if engine == "deduplicate" else [1]  # an aggregation keeps the row, and takes its values out
    assert deletes() == wanted
    names = ("winner_mask", "merge_section")
    kept = {name: getattr(merge, name) for name in names}
    for name in names:
        monkeypatch.setattr(merge, name, lambda section, rule, *, keep_deletes, name=name: kept[name](section, rule, keep_deletes=False))
    assert deletes() == []


def next_rule(engine):
    from lakekit.lsm import merge
    from lakekit.model.table_schema import TableSchema
    from lakekit.types import Field, parse

    fields = (Field("k", parse("INT NOT NULL"), id=0), Field("v", parse("BIGINT"), id=1))
    options = {"merge-engine": engine, "fields.v.aggregate-function": "sum"}
    return merge.merge_spec_from_options(TableSchema(version=3, id=0, fields=fields, highest_field_id=1, primary_keys=("k",), options=options))


@FEW
@given(case=merges())
def test_the_unmerged_rows_are_in_the_order_of_age(case):
    """What `changelog-producer=input` keeps: every row, by key, sequence fields, sequence number."""
    found = to_dicts(flushing.sort_versions(arrived(case), case.rule))
    assert sorted(map(repr, found)) == sorted(map(repr, to_dicts(arrived(case))))
    order = compared(case.key)
    for one, other in pairwise(found):
        assert order(one) <= order(other)
        if order(one) == order(other):
            assert oracle._compare_versions(one, other, buffered(case)) < 0


# ---- spilling ----------------------------------------------------------------------------------------------------------------------------------------


@FEW
@given(case=merges(), data=st.data(), chunk=st.integers(1, 3), memory=st.sampled_from((1, 200, 1 << 20)))
def test_spilled_rows_flush_to_what_unspilled_ones_do(case, data, chunk, memory):
    frame = arrived(case)
    whole = flushed(case, frame)
    buffer = WriteBuffer(key_columns=case.key, spill_file=SpillFile(runtime=runtime.REAL_RUNTIME))
    ends = sorted(data.draw(st.lists(st.integers(0, frame.height), max_size=4)))
    with pytest.MonkeyPatch.context() as patch, closing(buffer.spill_file):
        patch.setattr("lakekit.bucket.write_buffer._MIN_CHUNK_ROWS", chunk)
        patch.setattr("lakekit.bucket.write_buffer._MAX_CHUNK_ROWS", chunk)
        for start, end in zip([0, *ends], [*ends, frame.height], strict=True):
            buffer.add(frame[start:end])
            assert buffer.spill_to_disk()
            assert buffer.memory_bytes == 0
        sections = list(buffer.iter_sections(memory))
        assert sum(section.height for section in sections) == frame.height == buffer.row_count
        buffer.clear()
        assert buffer.spill_file.live_bytes == 0
    if isinstance(whole, LakekitError):
        with pytest.raises(LakekitError):  # where several refuse, columns of all keys find another one first than keys do
            [flushing.merge_for_flush(section, case.rule) for section in sections]
        return
    parts = [flushing.merge_for_flush(section, case.rule) for section in sections]
    assert pl.concat(parts).equals(whole) or to_dicts(pl.concat(parts)) == to_dicts(whole)


@pytest.mark.long
def test_sections_of_a_spilled_buffer_keep_within_the_memory():
    frame = pl.DataFrame({"k": pl.arange(0, 100_000, eager=True).shuffle(seed=1), "v": pl.arange(0, 100_000, eager=True)})
    buffer = WriteBuffer(key_columns=("k",), spill_file=SpillFile(runtime=runtime.REAL_RUNTIME))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakekit.bucket.write_buffer.CHUNK_BYTES", 16_000)
        for start in range(0, frame.height, 10_000):
            buffer.add(frame[start : start + 10_000])
            buffer.spill_to_disk()
        sizes, ends = [], []
        for section in buffer.iter_sections(200_000):
            sizes.append(section.estimated_size())
            ends.append((section["k"].min(), section["k"].max()))
    assert len(sizes) > 4
    assert max(sizes) <= 200_000 + 10 * 16_000, "a chunk of every run may hang over"
    assert all(one[1] < other[0] for one, other in pairwise(ends)), "a key is in one section"
    assert buffer.spill_file.live_bytes < frame.estimated_size(), "spilled rows are compressed"
    buffer.clear()


def test_rows_without_key_come_back_as_they_came():
    frame = pl.DataFrame({"v": pl.arange(0, 1000, eager=True).shuffle(seed=1)})
    buffer = WriteBuffer(key_columns=(), spill_file=SpillFile(runtime=runtime.REAL_RUNTIME, compression="lz4"))
    for start in range(0, 1000, 300):
        buffer.add(frame[start : start + 300])
        buffer.spill_to_disk()
    assert pl.concat(buffer.iter_sections(1)).equals(frame)
    assert pl.concat(buffer.iter_sections(1)).equals(frame), "sections may be asked for again"
    buffer.clear()


def test_a_full_scratch_file_takes_no_more_and_a_full_disk_is_told():
    buffer = WriteBuffer(key_columns=(), spill_file=SpillFile(runtime=runtime.REAL_RUNTIME, max_bytes=1))
    buffer.add(pl.DataFrame({"v": [1]}))
    assert buffer.spill_to_disk(), "the first run finds the file empty"
    buffer.add(pl.DataFrame({"v": [2]}))
    assert not buffer.spill_to_disk()
    assert buffer.memory_bytes > 0
    buffer.clear()

    def full():
        raise OSError(28, "No space left on device")

    broken = WriteBuffer(key_columns=(), spill_file=SpillFile(runtime=runtime.Runtime(open_scratch_file=full)))
    broken.add(pl.DataFrame({"v": [1]}))
    with pytest.raises(StorageFailed, match="No space left on device"):
        broken.spill_to_disk()
