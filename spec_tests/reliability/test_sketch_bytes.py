"""Sketches as bytes: what the library writes passes the checks, and no damaged one ends the process, or is united without an error or a sketch."""

from __future__ import annotations

import os
import random
import struct

import pytest
from hypothesis import given, strategies as st
from pyroaring import BitMap

import lakekit as lk
from lakekit.errors import Corrupt, ValueOutOfRange
from lakekit.lsm.sketch_bytes import CHECK_OF_FUNCTION, check_hll, check_theta
from spec_tests.golden.test_lsm_bitmaps import bitmap
from spec_tests.reliability.children import Child

datasketches = pytest.importorskip("datasketches", reason="the extra `sketches`")
INPUTS = int(os.environ.get("LAKEKIT_FUZZ_INPUTS", "400"))
SEED = int(os.environ.get("LAKEKIT_FUZZ_SEED", "1"))
EVIL = bytes.fromhex("0201070c0308ff00") + bytes.fromhex("c1e91705") * 255
CALLS = "spec_tests.reliability.damaged_calls:"
TYPES = [datasketches.tgt_hll_type.HLL_4, datasketches.tgt_hll_type.HLL_6, datasketches.tgt_hll_type.HLL_8]


def hll(lg_k: int, kind: int, values: int, *, compact: bool = True) -> bytes:
    sketch = datasketches.hll_sketch(lg_k, TYPES[kind])
    for value in range(values):
        sketch.update(value)
    return bytes(sketch.serialize_compact() if compact else sketch.serialize_updatable())


def theta(lg_k: int, values: int, *, ordered: bool = True) -> bytes:
    sketch = datasketches.update_theta_sketch(lg_k)
    for value in range(values):
        sketch.update(value)
    return bytes(sketch.compact(ordered).serialize())


@given(st.integers(4, 16), st.integers(0, 2), st.one_of(st.integers(0, 300), st.integers(0, 40_000)), st.booleans())
def test_the_librarys_own_hll_sketches_pass(lg_k, kind, values, compact):
    check_hll(hll(lg_k, kind, values, compact=compact))


@given(st.integers(4, 12), st.lists(st.integers(0, 20_000), min_size=2, max_size=4), st.integers(0, 2))
def test_united_hll_sketches_pass(lg_k, counts, kind):
    union = datasketches.hll_union(lg_k)
    for values in counts:
        union.update(datasketches.hll_sketch.deserialize(hll(lg_k, kind, values)))
    for form in TYPES:
        check_hll(bytes(union.get_result(form).serialize_compact()))


@given(st.integers(5, 14), st.integers(0, 20_000), st.booleans())
def test_the_librarys_own_theta_sketches_pass(lg_k, values, ordered):
    check_theta(theta(lg_k, values, ordered=ordered))


def test_a_list_of_more_coupons_than_it_has_places_is_corrupt():
    """The library copied 1,020 bytes into a buffer of 32."""
    with pytest.raises(Corrupt, match="255 coupons in a list of 8") as wrong:
        CHECK_OF_FUNCTION["hll_sketch"](EVIL)
    assert wrong.value.offset == 6
    with Child() as child:
        answer = child.ask(f"{CALLS}fold_hll", pair(hll(12, 0, 3), EVIL))
    assert answer.end == "error"
    assert "255 coupons" in str(answer.found)


def pair(held: bytes, given: bytes) -> bytes:
    return struct.pack("<I", len(held)) + held + given


def sound(kind: str) -> list[bytes]:
    """Sketches and bitmaps of every form, small enough that a changed byte is seldom one of their values."""
    if kind == "hll":
        counts = (0, 3, 7, 20, 300, 20_000)
        return [hll(lg_k, form, n, compact=compact) for lg_k in (4, 7, 8, 10) for form in range(3) for n in counts for compact in (True, False)]
    if kind == "theta":
        return [theta(lg_k, values, ordered=ordered) for lg_k in (5, 8) for values in (0, 1, 2, 30, 5000) for ordered in (True, False)]
    numbers = [range(0), range(10), range(0, 10_000, 2), [at << 16 for at in range(60)], [1, 70_000, 2**32 - 1]]
    if kind == "rbm32":
        return [bytes(BitMap(some).serialize()) for some in numbers]
    return [bitmap(some) for some in (*numbers, [1, 2**32, 2**40, 2**63 - 1])]


def changed(data: bytes, draw: random.Random) -> bytes:
    """Bytes with some changed, most of them in the head; sometimes cut or longer."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if made:
            at = draw.randrange(min(len(made), 48)) if draw.random() < 0.7 else draw.randrange(len(made))
            made[at] = draw.choice((made[at] ^ 1 << draw.randrange(8), draw.randrange(256), 0, 255, (made[at] + 1) & 255))
    if draw.random() < 0.1:
        del made[draw.randrange(len(made) + 1) :]
    if draw.random() < 0.1:
        made += draw.randbytes(draw.randrange(1, 1024))
    return bytes(made)


@pytest.mark.parametrize("kind", ["hll", "theta", "rbm32", "rbm64"])
def test_no_damaged_sketch_ends_the_process(kind):
    draw, known = random.Random(SEED), sound(kind)
    ends: dict[str, int] = {}
    with Child() as child:
        for _ in range(INPUTS):
            held, given = draw.choice(known), changed(draw.choice(known), draw)
            if draw.random() < 0.5:
                held, given = given, held
            answer = child.ask(f"{CALLS}fold_{kind}", pair(held, given))
            ends[answer.end] = ends.get(answer.end, 0) + 1
            assert answer.end in ("value", "error"), (answer, held.hex(), given.hex())
    assert ends["error"] > INPUTS / 10, ends


def test_a_value_that_is_no_sketch_is_refused_before_it_is_written(tmp_path):
    options = {"bucket": "1", "write-only": "true", "merge-engine": "aggregation", "fields.v.aggregate-function": "hll_sketch"}
    t = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "BYTES"}, primary_keys=["id"], options=options)
    t.upsert([{"id": 1, "v": hll(12, 0, 3)}])
    with pytest.raises(ValueOutOfRange, match=r"row 1: column v .* hll_sketch cannot unite: 255 coupons in a list of 8") as wrong:
        t.upsert([{"id": 2, "v": None}, {"id": 1, "v": EVIL}])
    assert wrong.value.column == "v"
    assert lk.open(tmp_path / "t").scan().collect().height == 1


def test_a_sketch_that_another_writer_damaged_is_corrupt(tmp_path):
    """The value lies in a data file: the merge names its column, and the process lives."""
    columns = {"id": "BIGINT", "v": "BYTES"}
    t = lk.create(tmp_path / "t", columns, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    t.upsert([{"id": 1, "v": hll(12, 0, 3)}])
    t.upsert([{"id": 1, "v": EVIL}])
    schema = tmp_path / "t" / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"write-only"', '"merge-engine":"aggregation","fields.v.aggregate-function":"hll_sketch","write-only"'))
    with Child() as child:
        answer = child.ask(f"{CALLS}scan_table", str(tmp_path / "t").encode())
    assert answer.end == "error", answer
    assert "a value of column v is no sketch that hll_sketch can unite" in str(answer.found)
    assert "255 coupons" in str(answer.found)
