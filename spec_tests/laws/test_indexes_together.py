"""Indexes of many files that are looked at together say what each says alone, and nothing of damaged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lakekit import plugins
from lakekit.errors import LakekitError
from lakekit.file_index import container as index_container
from lakekit.file_index.evaluator import Containers, evaluate_indexes, rule_out_files
from lakekit.predicate import And, Leaf, Or
from lakekit.types import arrow, parse
from spec_tests.laws.test_indexes import OPTIONS, TYPES, leaves, values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.predicate import Predicate
    from lakekit.types import DataType

ASKED = ("bitmap", "bloom-filter", "range-bitmap")
FEW = {"items": "4", "fpp": "0.0001"}
SAYS = [(name, options) for name in ASKED for options in OPTIONS[name]]


def container(name: str, column: list[Any], t: DataType, options: dict[str, str]) -> bytes:
    index: Any = plugins.load("file_index", name)
    return index_container.encode_container({"c": {name: index.build(arrow.to_arrow_array(column, t), t, options)}})


def many_of(containers: Sequence[bytes], counts: Sequence[int]) -> Containers:
    data, begins, ends = b"\xff", [], []
    for one in containers:
        begins.append(len(data))
        data += one + b"\xff"
        ends.append(len(data) - 1)
    return Containers(np.frombuffer(data, np.uint8), np.array(begins, np.int64), np.array(ends, np.int64), np.array(counts, np.int64))


def together(containers: Sequence[bytes], counts: Sequence[int], predicate: Predicate, types: dict[str, DataType]) -> list[bool]:
    """Asked with something before, between and behind them: nothing is ruled out that is not when asked alone."""
    found: list[bool] = rule_out_files(many_of(containers, counts), predicate, types).tolist()
    assert [at for at, (one, count) in enumerate(zip(containers, counts, strict=True)) if found[at] and not alone(one, count, predicate, types)] == []
    return found


def alone(one: bytes, count: int, predicate: Predicate, types: dict[str, DataType]) -> bool:
    try:
        return evaluate_indexes(one, predicate, types, count) is False
    except LakekitError:
        return False


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_many_say_what_each_says(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(ASKED))
    index: Any = plugins.load("file_index", name)
    t = data.draw(st.sampled_from([t for t in map(parse, TYPES) if t.root in index.TYPES and (name != "range-bitmap" or t.precision != 9)]))
    columns = data.draw(st.lists(st.lists(st.none() | values(t), max_size=12), min_size=1, max_size=6))
    containers = [container(name, column, t, data.draw(st.sampled_from(OPTIONS[name]))) for column in columns]
    leaf, _ = data.draw(leaves(t).filter(lambda found: found[0].op in ("=", "in")))
    types, counts = {"c": t}, [len(column) for column in columns]
    said = together(containers, counts, leaf, types)
    if leaf.literals and hasattr(index, "absent"):
        assert said == [alone(one, count, leaf, types) for one, count in zip(containers, counts, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), SAYS)
@pytest.mark.parametrize("kind", ["INT", "DOUBLE", "STRING"])
def test_what_is_damaged_rules_nothing_out(name: str, options: dict[str, str], kind: str) -> None:
    t, column = parse(kind), [5, None, 5, 9, 11, 20, 20, 31, None, -4]
    form: Callable[[int], Any] = {"INT": int, "DOUBLE": lambda v: v / 2, "STRING": lambda v: f"n{v}"}[kind]
    whole = container(name, [None if v is None else form(v) for v in column], t, options)
    types, asked = {"c": t}, tuple(Leaf("c", op, tuple(map(form, some))) for op, some in (("=", (7,)), ("in", (-9, 100)), ("in", (14, 8)), ("=", (20,))))
    broken = [whole, *(whole[:at] for at in range(0, len(whole), 3))]
    broken += [whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :] for at in range(len(whole)) for mask in (1, 0xFF)]
    for leaf in asked:
        said = together(broken, [len(column)] * len(broken), leaf, types)
        wanted = [alone(one, len(column), leaf, types) for one in broken]
        assert said[0] == (wanted[0] and name == "bloom-filter")
    assert together([whole], [len(column)], asked[-1], types) == [False]


def test_only_what_every_row_must_satisfy_is_looked_at() -> None:
    t = parse("INT")
    types = {"c": t, "d": t}
    build: Any = plugins.load("file_index", "bloom-filter").build
    both = index_container.encode_container(
        {"c": {"bloom-filter": build(pa.array([1, 2], pa.int32()), t, FEW)}, "d": {"bloom-filter": build(pa.array([3, 4], pa.int32()), t, FEW)}}
    )
    no, yes = Leaf("c", "=", (7,)), Leaf("d", "=", (3,))
    assert together([both], [2], And((yes, no)), types) == [True]
    assert together([both], [2], And((yes, Leaf("c", ">", (7,)))), types) == [False]
    assert together([both], [2], Or((yes, no)), types) == [False]
    assert together([], [], no, types) == []
    assert together([both], [2], Leaf("x", "=", (1,)), types) == [False]
    assert together([both], [2], Leaf("c", "in", (7, 8, 9, 10, 11)), types) == [True]


def test_containers_of_many_heads() -> None:
    t = parse("BIGINT")
    build: Any = plugins.load("file_index", "bloom-filter").build
    made = [
        index_container.encode_container(
            {name: {"bloom-filter": build(pa.array(range(at, at + 3), pa.int64()), t, FEW)} for name in ("c", "x" * at)[: 1 + at % 2]}
        )
        for at in range(6)
    ]
    assert together([*made, b"", b"\0" * 40], [3] * 8, Leaf("c", "=", (2,)), {"c": t}) == [False, False, False, True, True, True, False, False]
    assert together([b"", *made], [3] * 7, Leaf("c", "=", (2,)), {"c": t}) == [False, False, False, False, True, True, True]
