"""Winner masks: direct addressing, sorting, hashing and contests agree; hashes that collide are told apart."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.lsm import numpy_columns as keyed, row_versions
from lakekit.lsm.merge_spec import MergeSpec
from lakekit.lsm.row_versions import version_rounds
from lakekit.testing.strategies import field_of

FEW = settings(max_examples=settings.default.max_examples // 3)
"""Laws that are tried in many forms need fewer draws of each."""

KINDS = {
    "dense": lambda k: {"k": pl.Series(k, dtype=pl.Int64)},
    "small": lambda k: {"k": pl.Series(k, dtype=pl.Int8)},
    "wide": lambda k: {"k": pl.Series([x * 10**15 for x in k], dtype=pl.Int64)},
    "extreme": lambda k: {"k": pl.Series([(2**63 - 1, -(2**63), 0, 1, -1, 5, 6, 7, 8, 9)[x] for x in k], dtype=pl.Int64)},
    "text": lambda k: {"k": pl.Series([f"key-{x:04}" for x in k])},
    "pair": lambda k: {"k": pl.Series([x // 3 for x in k], dtype=pl.Int32), "l": pl.Series([x % 3 for x in k], dtype=pl.Int16)},
    "text pair": lambda k: {"k": pl.Series([x // 3 for x in k], dtype=pl.Int32), "l": pl.Series([str(x % 3) for x in k])},
    "wide pair": lambda k: {"k": pl.Series([x * 10**12 for x in k], dtype=pl.Int64), "l": pl.Series([-x * 10**12 for x in k], dtype=pl.Int64)},
    "float": lambda k: {"k": pl.Series([(0.0, -0.0, float("nan"), 1.5, float("inf"), -1.0, 2.0, 3.0, 4.0, 5.0)[x] for x in k])},
    "float pair": lambda k: {
        "k": pl.Series([(0.0, -0.0, float("nan"), None)[x % 4] for x in k], dtype=pl.Float32),
        "l": pl.Series([(-0.0, 0.0, 1e300)[x // 4] for x in k]),
    },
    "binary": lambda k: {"k": pl.Series([bytes([x]) for x in k])},
    "decimal": lambda k: {"k": pl.Series(k).cast(pl.Decimal(30, 2))},
    "truth": lambda k: {"k": pl.Series([x % 2 == 0 for x in k])},
    "null": lambda k: {"k": pl.Series([None if x == 0 else x for x in k], dtype=pl.Int64)},
}
IDENTITY = {
    "truth": lambda x: x % 2,
    "float": lambda x: max(x, 1),  # 0.0 and -0.0 are one key, as in the reference,
    "float pair": lambda x: (x % 4, x // 8),  # but only in a key's last column
}
rows = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.sampled_from((0, 2, 3))), min_size=1, max_size=60)


def section(kind, drawn):
    columns = KINDS[kind]([row[0] for row in drawn])
    numbers = {"_SEQUENCE_NUMBER": pl.Series([row[1] for row in drawn], dtype=pl.Int64), "_VALUE_KIND": pl.Series([row[2] for row in drawn], dtype=pl.Int8)}
    return pl.DataFrame({**columns, **numbers})


def rule_for(frame):
    key = tuple(name for name in frame.columns if not name.startswith("_"))
    return MergeSpec(engine="deduplicate", key_columns=key, fields=tuple(field_of(name, "INT NOT NULL") for name in key))


def expected(kind, drawn, *, newest):
    same = IDENTITY.get(kind, lambda x: x)
    best = {}
    for at, (key, sequence, row_kind) in enumerate(drawn):
        age = (sequence, row_kind != 3, at)
        held = best.get(same(key))
        if held is None or (age > held[0] if newest else age < held[0]):
            best[same(key)] = (age, at)
    return sorted(at for _, at in best.values())


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(drawn=rows)
def test_every_path_finds_the_newest_and_the_oldest(kind, drawn):
    for ordered in (drawn, sorted(drawn, key=lambda row: row[1])):
        frame = section(kind, ordered)
        assert np.flatnonzero(row_versions.mask_newest(frame, rule_for(frame))).tolist() == expected(kind, ordered, newest=True)
        assert np.flatnonzero(row_versions.mask_oldest(frame, rule_for(frame))).tolist() == expected(kind, ordered, newest=False)


@FEW
@given(drawn=rows)
def test_hashes_that_collide_are_told_apart(drawn):
    frame = section("text", drawn)
    honest = keyed.encode_keys(frame, ("k",))
    for codes in (np.zeros(len(drawn), np.uint64), honest.codes & np.uint64(1), honest.codes & np.uint64(3 << 62)):
        found, starts = keyed.key_blocks(keyed.KeyCodes(columns=honest.columns, codes=codes, is_exact=False, low=0, high=2**64 - 1))
        groups = [found[start:end].tolist() for start, end in zip(starts, [*starts[1:], len(found)], strict=True)]
        texts = frame["k"].to_list()
        assert sorted(map(tuple, groups)) == sorted(tuple(at for at, text in enumerate(texts) if text == one) for one in set(texts))


@FEW
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_the_ladder_holds_every_version_once(sizes):
    starts = np.cumsum(sizes) - np.array(sizes)
    layout = version_rounds(np.arange(sum(sizes)), starts)
    assert sorted(layout.row_numbers.tolist()) == list(range(sum(sizes)))
    assert layout.step_heights == tuple(sum(size > step for size in sizes) for step in range(max(sizes)))
    columns = {}
    for place, key in enumerate(layout.key_numbers().tolist()):
        columns.setdefault(key, []).append(int(layout.row_numbers[place]))
    blocks = [list(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    assert sorted(columns.values()) == sorted(blocks)


def test_an_empty_section_has_no_winners():
    frame = section("dense", [(1, 1, 0)]).clear()
    assert row_versions.mask_newest(frame, rule_for(frame)).tolist() == []
    assert row_versions.mask_oldest(frame, rule_for(frame)).tolist() == []
