"""Unions of serialized bitmaps and sketches: the bytes of engine 1.4.2, and errors for bytes that are none."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from pyroaring import BitMap

from lakekit.errors import Corrupt, ExtraMissing, InvalidOption
from lakekit.lsm import aggregates
from lakekit.lsm.aggregates import roaring
from lakekit.lsm.merge_spec import FieldFunction, MergeSpec
from lakekit.lsm.row_versions import version_rounds
from lakekit.types import parse


def bitmap(numbers):
    """A 64-bit bitmap as `add` makes it from ascending numbers."""
    found = roaring.RoaringParts()
    for upper in sorted({number >> 16 for number in numbers}):
        lower = BitMap(number & 0xFFFF for number in numbers if number >> 16 == upper)
        leaf = roaring.ArtNode(kind=roaring.LEAF_NODE, key=upper.to_bytes(6, "big"), container_number=roaring._add_container(found, (lower, False)))
        found.root = roaring._insert_leaf(found.root, leaf, 0)
    return roaring.encode_bitmap_64(found)


def numbers(data):
    parsed = roaring.decode_bitmap_64(data, "v")
    return {int.from_bytes(leaf.key, "big") << 16 | low for leaf in roaring._iter_leaves(parsed.root) for low in parsed.containers[leaf.container_number][0]}


RECORDED = {
    "one": ([1], 60, "419cdc954b72db551a2d742de5bd534f"),
    "a run": (range(10), 64, "a5f935e2a0f454fcd002dcd25ceece8e"),
    "bits": (range(0, 10000, 2), 8250, "5d395fabd3dbb029a637e844467a39be"),
    "five leaves": ([at << 16 for at in range(5)], 190, "9dce824f6d3cb11d13a87e75fb733d69"),
    "twenty leaves": ([at << 16 for at in range(20)], 827, "e604c8c178bce3e582a6bc2f91ef2b63"),
    "sixty leaves": ([at << 16 for at in range(60)], 1638, "16482ea6e23708a7b286a107484ac537"),
    "far apart": ([1, 2**32, 2**40, 2**40 + 65536, 2**63 - 1], 200, "6e6cb6d7b7c645dfd0e74e17227adc02"),
}
"""Numbers, and the length and digest of what `RoaringBitmap64.serialize` of engine 1.4.2 writes for them."""


@pytest.mark.parametrize("case", RECORDED)
def test_bytes_of_the_reference(case):
    values, size, digest = RECORDED[case]
    data = bitmap(values)
    assert (len(data), sha256(data).hexdigest()[:32]) == (size, digest)
    assert numbers(data) == set(values)
    assert roaring.encode_bitmap_64(roaring.decode_bitmap_64(data, "v")) == data


some = st.sets(st.one_of(st.integers(0, 50), st.integers(0, 2**20), st.integers(0, 2**64 - 1), st.integers(0, 60).map(lambda n: n << 16)), max_size=60)


@given(one=some, other=some)
def test_a_union_holds_both(one, other):
    united = roaring.unite_two_bitmaps_64(bitmap(one), bitmap(other), "v")
    assert numbers(united) == one | other
    assert roaring.unite_two_bitmaps_64(united, bitmap(other), "v") == united


@settings(max_examples=settings.default.max_examples * 2)
@given(values=some, at=st.integers(0, 400), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_bitmaps_are_corrupt_or_still_bitmaps(values, at, byte, cut):
    data = bytearray(bitmap(values))
    if cut:
        data = data[: at % (len(data) + 1)]
    elif data:
        data[at % len(data)] = byte
    try:
        numbers(bytes(data))
    except Corrupt as wrong:
        assert "column v" in str(wrong)


def function(name, kind="BYTES"):
    return FieldFunction(column="v", name=name, type=parse(kind))


RULE = MergeSpec(engine="aggregation", key_columns=("k",), fields=(), table="shop.visits")


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
def test_other_types_are_refused(name):
    if name in aggregates.SKETCH_FUNCTIONS:
        pytest.importorskip("datasketches", reason="the extra `sketches`")
    with pytest.raises(InvalidOption, match=r"must be 'VarBinaryType' but was 'STRING'.*shop\.visits, column v"):
        aggregates.find_aggregate(function(name, "STRING"), RULE)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(aggregates.plugins, "load", _missing)
    monkeypatch.delitem(aggregates.AGGREGATE_FUNCTIONS, "hll_sketch", raising=False)
    with pytest.raises(ExtraMissing, match=r"column v of shop\.visits uses aggregate function hll_sketch: pip install 'lakekit\[sketches\]'") as refused:
        aggregates.find_aggregate(function("hll_sketch"), RULE)
    assert refused.value.feature == "aggregate.hll_sketch"


def _missing(folder, name):
    raise ExtraMissing(f"{name!r} of {folder} needs datasketches", feature="lsm.sketches", extra="sketches")


def test_sketches_have_the_bytes_of_java():
    """Where C++ and Java serialize the same sketch differently: no hash, one hash, several."""
    sketches = pytest.importorskip("lakekit.lsm.aggregates.sketches", reason="the extra `sketches`")
    empty, one, other = (bytes.fromhex(text) for text in ("01030300001e0000", "01030300003acc93e30075f7e023bf7f", "01030300003acc930fcce3df23629e0d"))
    assert sketches._unite_theta(empty, empty) == empty
    assert sketches._unite_theta(empty, one) == sketches._unite_theta(one, empty) == one
    assert sketches._unite_theta(one, other).hex() == "02030300001acc93020000000000803f0fcce3df23629e0de30075f7e023bf7f"


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
def test_bytes_that_are_neither(name):
    if name in aggregates.SKETCH_FUNCTIONS:
        pytest.importorskip("datasketches", reason="the extra `sketches`")
    versions = version_rounds(np.arange(2), np.array([0]))
    for wrong in (b"", b"\x02\x01\x07", bytes(range(1, 40))):
        with pytest.raises(Corrupt, match="column v"):
            aggregates.fold_column(function(name), RULE, versions, pl.Series("v", [wrong, wrong]), None)
