"""Indexes of many files that are looked at together say what each says alone, and nothing of damaged ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lakekit import registry
from lakekit.codec import index_container, internal
from lakekit.errors import LakekitError
from lakekit.index import values as values_module
from lakekit.index.bitmaps import SEARCHED
from lakekit.index.evaluate import evaluate
from lakekit.index.together import Containers, ruled_out, told
from lakekit.predicate import And, Leaf, Or
from lakekit.types import parse
from spec_tests.laws.test_indexes import OPTIONS, TYPES, leaves, values

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from lakekit.predicate import Predicate
    from lakekit.types import DataType

ASKED = ("bitmap", "bloom-filter", "range-bitmap")
SAYS = [(name, options) for name in ASKED for options in OPTIONS[name]]


def container(name: str, column: list[Any], t: DataType, options: dict[str, str]) -> bytes:
    index: Any = registry.load("index", name)
    return index_container.encode({"c": {name: index.build(internal.array_of(column, t), t, options)}})


def together(containers: Sequence[bytes], counts: Sequence[int], predicate: Predicate, types: dict[str, DataType], *, whole: bool = True) -> list[bool]:
    """Asked with something before, between and behind them; by who looks once, and by who keeps what was made: that says of `whole` ones what each says."""
    data, begins, ends = b"\xff", [], []
    for one in containers:
        begins.append(len(data))
        data += one + b"\xff"
        ends.append(len(data) - 1)
    many = Containers(np.frombuffer(data, np.uint8), np.array(begins, np.int64), np.array(ends, np.int64), np.array(counts, np.int64))
    found: list[bool] = ruled_out(many, predicate, types).tolist()
    shelf: dict[Hashable, Any] = {}
    for _ in range(2):
        again: list[bool] = ruled_out(many, predicate, types, partial(remembered, shelf)).tolist()
        said = [alone(one, count, predicate, types) for one, count in zip(containers, counts, strict=True)]
        assert [at for at, each in enumerate(said) if (found[at] or again[at]) and not each] == []
        assert not (whole and isinstance(predicate, Leaf) and predicate.literals) or again == said
        sure = np.flatnonzero(told(many, predicate, types, partial(remembered, shelf)).sure).tolist()
        assert not any(again[at] or (whole and alone(containers[at], counts[at], predicate, types)) for at in sure)
        assert not sure or isinstance(predicate, Leaf)
    return found


def remembered(shelf: dict[Hashable, Any], what: Hashable, make: Callable[[], Any]) -> Any:
    if what not in shelf:
        shelf[what] = make()
    return shelf[what]


def alone(one: bytes, count: int, predicate: Predicate, types: dict[str, DataType]) -> bool:
    try:
        return evaluate(one, predicate, types, count) is False
    except LakekitError:
        return False


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_many_say_what_each_says(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(ASKED))
    index: Any = registry.load("index", name)
    t = data.draw(st.sampled_from([t for t in map(parse, TYPES) if t.root in index.TYPES and (name != "range-bitmap" or t.precision != 9)]))
    columns = data.draw(st.lists(st.lists(st.none() | values(t), max_size=12), min_size=1, max_size=6))
    containers = [container(name, column, t, data.draw(st.sampled_from(OPTIONS[name]))) for column in columns]
    leaf, _ = data.draw(leaves(t).filter(lambda found: found[0].op in ("=", "in")))
    types, counts = {"c": t}, [len(column) for column in columns]
    said = together(containers, counts, leaf, types)
    bytes_stand_elsewhere = t.root in ("CHAR", "VARCHAR") and any("\0" in text or not text for text in leaf.literals)
    keys = len(leaf.literals) * (2 if t.root in ("FLOAT", "DOUBLE") else 1)  # 0.0 and -0.0
    if 0 < keys <= SEARCHED and not bytes_stand_elsewhere:
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
        said = together(broken, [len(column)] * len(broken), leaf, types, whole=False)
        wanted = [alone(one, len(column), leaf, types) for one in broken]
        assert [at for at, (bulk, one) in enumerate(zip(said, wanted, strict=True)) if bulk and not one] == []
        assert said[0] == wanted[0]
    assert together([whole], [len(column)], asked[-1], types) == [False]


def test_only_what_every_row_must_satisfy_is_looked_at() -> None:
    t = parse("INT")
    types = {"c": t, "d": t}
    build: Any = registry.load("index", "bitmap").build
    both = index_container.encode({"c": {"bitmap": build(pa.array([1, 2], pa.int32()), t, {})}, "d": {"bitmap": build(pa.array([3, 4], pa.int32()), t, {})}})
    no, yes = Leaf("c", "=", (7,)), Leaf("d", "=", (3,))
    assert together([both], [2], And((yes, no)), types) == [True]
    assert together([both], [2], And((yes, Leaf("c", ">", (7,)))), types) == [False]
    assert together([both], [2], Or((yes, no)), types) == [False]
    assert together([both], [3], no, types) == [False]  # of another file: whoever asks it alone is told
    assert together([], [], no, types) == []
    assert together([both], [2], Leaf("x", "=", (1,)), types) == [False]
    assert together([both], [2], Leaf("c", "in", (7, 8, 9, 10, 11)), types) == [False]  # too many to be searched for one by one
    assert evaluate(both, Leaf("c", "in", (7, 8, 9, 10, 11)), types, 2) is False


def test_containers_of_many_heads() -> None:
    t = parse("BIGINT")
    build: Any = registry.load("index", "bitmap").build
    made = [
        index_container.encode({name: {"bitmap": build(pa.array(range(at, at + 3), pa.int64()), t, {})} for name in ("c", "x" * at)[: 1 + at % 2]})
        for at in range(6)
    ]
    assert together([*made, b"", b"\0" * 40], [3] * 8, Leaf("c", "=", (2,)), {"c": t}) == [False, False, False, True, True, True, False, False]
    assert together([b"", *made], [3] * 7, Leaf("c", "=", (2,)), {"c": t}) == [False, False, False, False, True, True, True]


@pytest.mark.parametrize("most", [1, 5, 6])
def test_values_beyond_what_is_kept_are_looked_for_where_they_lie(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    t = parse("INT")
    index: Any = registry.load("index", "bitmap")
    monkeypatch.setattr(values_module, "MOST_LISTED", most)
    column = pa.array([1, 2, 3], pa.int32())
    made = [index_container.encode({"c": {"bitmap": index.build(column, t, {"version": version, "index-block-size": "1 b"})}}) for version in ("1", "2")]
    assert together(made, [3, 3], Leaf("c", "=", (4,)), {"c": t}) == [True, True]
    assert together(made, [3, 3], Leaf("c", "in", (4, 3)), {"c": t}) == [False, False]
