"""Indexes of many files that are looked at together say what each says alone, and nothing of damaged ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lakekit import plugins
from lakekit.codec import arrow_values, hashing
from lakekit.errors import LakekitError
from lakekit.file_index import container as index_container, values as values_module
from lakekit.file_index.bitmaps import MAX_SEARCHED_KEYS
from lakekit.file_index.evaluator import evaluate
from lakekit.file_index.together import Containers, evaluate_batch, rule_out_files
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
    index: Any = plugins.load("file_index", name)
    return index_container.encode({"c": {name: index.build(arrow_values.array_of(column, t), t, options)}})


def many_of(containers: Sequence[bytes], counts: Sequence[int]) -> Containers:
    data, begins, ends = b"\xff", [], []
    for one in containers:
        begins.append(len(data))
        data += one + b"\xff"
        ends.append(len(data) - 1)
    return Containers(np.frombuffer(data, np.uint8), np.array(begins, np.int64), np.array(ends, np.int64), np.array(counts, np.int64))


def together(containers: Sequence[bytes], counts: Sequence[int], predicate: Predicate, types: dict[str, DataType], *, whole: bool = True) -> list[bool]:
    """Asked with something before, between and behind them; by who looks once, and by who keeps what was made: that says of `whole` ones what each says."""
    many = many_of(containers, counts)
    found: list[bool] = rule_out_files(many, predicate, types).tolist()
    shelf: dict[Hashable, Any] = {}
    for _ in range(2):
        again: list[bool] = rule_out_files(many, predicate, types, partial(remembered, shelf)).tolist()
        said = [alone(one, count, predicate, types) for one, count in zip(containers, counts, strict=True)]
        assert [at for at, each in enumerate(said) if (found[at] or again[at]) and not each] == []
        assert not (whole and isinstance(predicate, Leaf) and predicate.literals) or again == said
        heard = evaluate_batch(many, predicate, types, partial(remembered, shelf))
        assert all(evaluate(containers[at], predicate, types, counts[at]) is True for at in np.flatnonzero(heard.mute))
        sure = np.flatnonzero(heard.sure).tolist()
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
    index: Any = plugins.load("file_index", name)
    t = data.draw(st.sampled_from([t for t in map(parse, TYPES) if t.root in index.TYPES and (name != "range-bitmap" or t.precision != 9)]))
    columns = data.draw(st.lists(st.lists(st.none() | values(t), max_size=12), min_size=1, max_size=6))
    containers = [container(name, column, t, data.draw(st.sampled_from(OPTIONS[name]))) for column in columns]
    leaf, _ = data.draw(leaves(t).filter(lambda found: found[0].op in ("=", "in")))
    types, counts = {"c": t}, [len(column) for column in columns]
    said = together(containers, counts, leaf, types)
    bytes_stand_elsewhere = t.root in ("CHAR", "VARCHAR") and any("\0" in text or not text for text in leaf.literals)
    keys = len(leaf.literals) * (2 if t.root in ("FLOAT", "DOUBLE") else 1)  # 0.0 and -0.0
    if 0 < keys <= MAX_SEARCHED_KEYS and not bytes_stand_elsewhere:
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
    build: Any = plugins.load("file_index", "bitmap").build
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
    build: Any = plugins.load("file_index", "bitmap").build
    made = [
        index_container.encode({name: {"bitmap": build(pa.array(range(at, at + 3), pa.int64()), t, {})} for name in ("c", "x" * at)[: 1 + at % 2]})
        for at in range(6)
    ]
    assert together([*made, b"", b"\0" * 40], [3] * 8, Leaf("c", "=", (2,)), {"c": t}) == [False, False, False, True, True, True, False, False]
    assert together([b"", *made], [3] * 7, Leaf("c", "=", (2,)), {"c": t}) == [False, False, False, False, True, True, True]


@pytest.mark.parametrize("most", [1, 5, 6])
@pytest.mark.parametrize("kind", ["INT", "STRING"])
@pytest.mark.parametrize("name", ["bitmap", "range-bitmap"])
def test_values_beyond_what_is_kept_are_looked_for_where_they_lie(name: str, kind: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    t, form = parse(kind), {"INT": int, "STRING": str}[kind]
    monkeypatch.setattr(values_module, "MOST_LISTED", most)
    forms: list[dict[str, str]] = [{"version": version, "index-block-size": "1 b", "chunk-size": size} for version, size in (("1", "0"), ("2", "9b"))]
    made = [container(name, list(map(form, (1, 2, 3))), t, options) for options in forms]
    types = {"c": t}
    if kind == "INT" or most > 1:  # texts are walked through within the same bound
        assert together(made, [3, 3], Leaf("c", "=", (form(4),)), types) == [True, True]
    assert together(made, [3, 3], Leaf("c", "in", (form(4), form(3))), types) == [False, False]


@pytest.mark.parametrize("name", ["bitmap", "range-bitmap"])
@pytest.mark.parametrize(("bound", "most"), [("MOST_BYTES", 5), ("MOST_STEPS", 1), ("LONGEST", 4)])
def test_of_texts_that_take_too_long_nothing_is_kept(name: str, bound: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    t, types = parse("STRING"), {"c": parse("STRING")}
    made = [container(name, ["a", "bb", text, None], t, {"version": version}) for text in ("b", "ccccc") for version in ("1", "2")]
    monkeypatch.setattr(values_module, bound, most)
    for leaf in (Leaf("c", "=", ("dd",)), Leaf("c", "in", ("ccccc", "zzzzz")), Leaf("c", "=", ("bb",))):
        kept = evaluate_batch(many_of(made, [4] * 4), leaf, types, lambda _, make: make())
        wanted = [alone(one, 4, leaf, types) for one in made]
        assert not any(dead and not each for dead, each in zip(kept.dead.tolist(), wanted, strict=True))
        assert bound != "LONGEST" or kept.dead.tolist() == [each and at < 2 for at, each in enumerate(wanted)]
        assert not (kept.sure & np.array(wanted)).any()


@pytest.mark.parametrize("name", ["bitmap", "range-bitmap"])
def test_another_text_of_the_same_hash_rules_nothing_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    t, types = parse("STRING"), {"c": parse("STRING")}
    made = [container(name, column, t, {}) for column in (["a", "b"], ["c", None], [None, None])]
    monkeypatch.setattr(hashing, "xx64", lambda _: 7)
    monkeypatch.setattr(hashing, "xx64_at", lambda _, starts, __: np.full(len(starts), 7, np.uint64))
    kept = evaluate_batch(many_of(made, [2] * 3), Leaf("c", "=", ("c",)), types, lambda _, make: make())
    assert (kept.dead.tolist(), kept.sure.tolist()) == ([False, False, True], [True, True, False])


@pytest.mark.parametrize("blocks", [2, 40])
def test_blocks_that_all_say_to_be_the_same_are_not_hashed_again_and_again(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    t = parse("STRING")
    number: Callable[[int], bytes] = partial(int.to_bytes, length=4, byteorder="big")
    text = number(300) + b"x" * 300
    block = number(1) + text + number(2**32 - 1) * 2
    heads = number(blocks) + (number(1) + b"a" + number(0)) * blocks + number(len(block))
    payload = b"\2" + number(1) + number(blocks) + b"\0" + heads + block
    hashed: list[int] = []
    monkeypatch.setattr(hashing, "xx64_at", lambda _, starts, lengths: (hashed.append(int(lengths.sum())), np.zeros(len(starts), np.uint64))[1])
    evaluate_batch(many_of([index_container.encode({"c": {"bitmap": payload}})], [1]), Leaf("c", "=", ("y",)), {"c": t}, lambda _, make: make())
    assert sum(hashed) <= len(payload)
