"""The one law of file indexes: a row that matches is never ruled out. And where an index is exact, nothing else is let in."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lakekit import plugins
from lakekit.file_index import container as index_container
from lakekit.file_index.evaluator import evaluate_indexes
from lakekit.predicate import LEAF_OPERATORS, And, Leaf, Or
from lakekit.types import DataType, Instant, arrow, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.predicate import Predicate

TYPES = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "CHAR(3)", "STRING"),
    *("DECIMAL(5, 2)", "DECIMAL(18, 0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "TIMESTAMP(9)"),
]
OPTIONS = {
    "bloom-filter": [{"items": "10", "fpp": "0.1"}, {"items": "3", "fpp": "0.001"}],
    "bitmap": [{}, {"version": "1"}, {"index-block-size": "60b"}],
    "bsi": [{}],
    "range-bitmap": [{}, {"chunk-size": "0"}, {"chunk-size": "20b"}],
}
EPOCH = date(1970, 1, 1)


def values(t: DataType) -> st.SearchStrategy[Any]:
    """Few different values, some of them extreme, as internal values."""
    match t.root:
        case "BOOLEAN":
            return st.booleans()
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            top = 2 ** {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[t.root]
            return st.integers(-4, 4) | st.sampled_from([1 - top, top - 1])
        case "FLOAT" | "DOUBLE":
            return st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, 3.25, float("inf"), float("-inf"), float("nan")])
        case "DATE":
            return st.integers(-3, 3)
        case "DECIMAL":
            return st.integers(-4, 4).map(lambda n: arrow.from_unscaled(n, t.scale or 0))
        case "CHAR" | "VARCHAR":
            return st.text("ab湖", max_size=3) | st.sampled_from(["a" * 33, "a" * 32 + "b", "湖" * 25, "\0", "\0\0\0\1a", "\0\0\0\0"])
    nanos = {True: st.just(0), False: st.sampled_from([0, 1000, 999_000])}[(t.precision or 0) <= 3]
    return st.builds(Instant, st.integers(-2, 2), nanos if (t.precision or 0) <= 6 else st.sampled_from([0, 1, 999, 1000, 999_999]))


def literal(value: Any, t: DataType) -> Any:
    """As a caller writes it."""
    return EPOCH + timedelta(days=value) if t.root == "DATE" else value


def matches(value: Any, op: str, literals: Sequence[Any]) -> bool:
    """What the row-wise condition says; NaN is the greatest number and equals itself."""
    if op in ("is null", "is not null"):
        return (value is None) == (op == "is null")
    if value is None or (op == "in" and not literals):
        return False

    def key(v: Any) -> Any:
        return (v != v, 0.0 if v != v else v) if isinstance(v, float) else v  # noqa: PLR0124 - NaN

    mine, theirs = key(value), [key(v) for v in literals]
    match op:
        case "=" | "in":
            return mine in theirs
        case "!=" | "not in":
            return mine not in theirs
        case "<":
            return bool(mine < theirs[0])
        case "<=":
            return bool(mine <= theirs[0])
        case ">":
            return bool(mine > theirs[0])
        case ">=":
            return bool(mine >= theirs[0])
    return str(value).startswith(literals[0]) if isinstance(value, str) else False


@st.composite
def leaves(draw: st.DrawFn, t: DataType, column: str = "c") -> tuple[Leaf, list[Any]]:
    """A leaf, and its literals as internal values."""
    op = draw(st.sampled_from([op for op in LEAF_OPERATORS if op != "starts with" or t.root in ("CHAR", "VARCHAR")]))
    if op in ("is null", "is not null"):
        return Leaf(column, op), []
    many = op in ("in", "not in")
    found = draw(st.lists(values(t), min_size=0 if many else 1, max_size=3 if many else 1))
    return Leaf(column, op, tuple(literal(value, t) for value in found)), found


def rows_of(found: Any, count: int) -> set[int]:
    return set(range(count)) if found is True else set() if found is False else set(found)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_row_that_matches_is_ruled_out(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(OPTIONS)))
    index: Any = plugins.load("file_index", name)
    limit = {"TIMESTAMP": 6, "TIMESTAMP_LTZ": 6} if name == "range-bitmap" else {}
    types = [t for t in map(parse, TYPES) if t.root in index.TYPES and (t.precision or 0) <= limit.get(t.root, 99)]
    t = data.draw(st.sampled_from(types))
    column = data.draw(st.lists(st.none() | values(t), max_size=12))
    payload = index.build(arrow.to_arrow_array(column, t), t, data.draw(st.sampled_from(OPTIONS[name])))
    leaf, literals = data.draw(leaves(t))
    found = index.probe(payload, t, leaf, len(column))
    wanted = {i for i, value in enumerate(column) if matches(value, leaf.op, literals)}
    assert rows_of(found, len(column)) >= wanted
    check_exact(name, t, leaf, rows_of(found, len(column)), wanted, column, literals)


def check_exact(name: str, t: DataType, leaf: Leaf, found: set[int], wanted: set[int], column: list[Any], literals: list[Any]) -> None:
    answers = {"bloom-filter": set(), "bitmap": set(LEAF_OPERATORS) - {"<", "<=", ">", ">=", "starts with"}}
    lossy = t.root == "TIMESTAMP" and (t.precision or 0) > 6
    if lossy or leaf.op not in answers.get(name, set(LEAF_OPERATORS) - {"starts with"}) or any(v != v for v in literals):  # noqa: PLR0124 - NaN
        return
    with_nulls = {i for i, value in enumerate(column) if value is None} if name == "bitmap" and leaf.op in ("!=", "not in") else set()
    assert found == wanted | with_nulls


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_conditions_over_several_columns(data: st.DataObject) -> None:
    types = {"a": parse("INT"), "b": parse("STRING"), "c": parse("DOUBLE")}
    count = data.draw(st.integers(0, 10))
    columns = {name: data.draw(st.lists(st.none() | values(t), min_size=count, max_size=count)) for name, t in types.items()}
    indexes: dict[str, dict[str, bytes | None]] = {}
    for name, t in types.items():
        for kind in data.draw(st.sets(st.sampled_from(sorted(OPTIONS)))):
            index: Any = plugins.load("file_index", kind)
            if t.root in index.TYPES:
                indexes.setdefault(name, {})[kind] = index.build(arrow.to_arrow_array(columns[name], t), t, {"items": "9"})
    known: dict[int, list[Any]] = {}

    def leaf() -> Predicate:
        name = data.draw(st.sampled_from(sorted(types)))
        found, literals = data.draw(leaves(types[name], name))
        known[id(found)] = literals
        kept.append(found)
        return found

    kept: list[Leaf] = []
    predicate = And((Or((leaf(), leaf())), Or((leaf(), And((leaf(), leaf()))))))

    def holds(part: Predicate, i: int) -> bool:
        if isinstance(part, And):
            return all(holds(p, i) for p in part.parts)
        if isinstance(part, Or):
            return any(holds(p, i) for p in part.parts)
        return matches(columns[part.column][i], part.op, known[id(part)])

    found = evaluate_indexes(index_container.encode_container(indexes), predicate, types, count)
    assert rows_of(found, count) >= {i for i in range(count) if holds(predicate, i)}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_large_columns(name: str) -> None:
    """Many containers, blocks and chunks: bitmaps of every form, keys of every chunk."""
    index: Any = plugins.load("file_index", name)
    generator = np.random.default_rng(5)
    dense = generator.integers(-40_000, 40_000, 150_000)
    sparse = np.where(generator.random(150_000) < 0.9, 7, dense)
    for numbers in (dense, sparse, np.arange(150_000) // 1000):
        nulls = generator.random(150_000) < 0.1
        column = pa.array(numbers, pa.int64(), mask=nulls)
        payload = index.build(column, parse("BIGINT"), {"items": "200000"})
        there = numbers[~nulls]
        for literal_ in [int(there.min()), int(there.max()), 7, *map(int, there[:3])]:
            found = index.probe(payload, parse("BIGINT"), Leaf("c", "=", (literal_,)), 150_000)
            wanted = np.flatnonzero((numbers == literal_) & ~nulls)
            assert found is True if name == "bloom-filter" else set(found) == set(wanted.tolist())
            if name in ("bsi", "range-bitmap"):
                above = index.probe(payload, parse("BIGINT"), Leaf("c", ">", (literal_,)), 150_000)
                assert rows_of(above, 0) == set(np.flatnonzero((numbers > literal_) & ~nulls).tolist())
    texts = pa.array([f"user-{n:06d}" for n in dense])
    if name != "bsi":
        payload = index.build(texts, parse("STRING"), {"items": "200000"})
        hit = index.probe(payload, parse("STRING"), Leaf("c", "=", (texts[9].as_py(),)), 150_000)
        assert hit is True if name == "bloom-filter" else 9 in hit
        assert index.probe(payload, parse("STRING"), Leaf("c", "=", ("nobody",)), 150_000) is False


@pytest.mark.long
@pytest.mark.parametrize("options", [{"version": "1"}, {"version": "2"}, {"version": "2", "index-block-size": "64 b"}], ids=["1", "2", "blocks"])
@pytest.mark.parametrize("t", ["INT", "BIGINT", "DOUBLE", "STRING"])
def test_values_whose_bytes_stand_elsewhere_too_are_told_apart(t: str, options: dict[str, str]) -> None:
    """Positions and lengths are bytes like any value, and a text may hold another with its length."""
    numbers = [*range(-40, 600), 1 << 24, 1 << 16, 0x01010101, 0x00010000, -1 - 5]
    values: list[Any] = [number % 700 - 60 if at % 3 else number for at, number in enumerate(numbers * 2)]
    if t == "DOUBLE":
        values = [float(value) for value in values]
    if t == "STRING":
        values = [f"{value}" for value in values] + ["a", "\0\0\0\1a", "x\0\0\0\1a\0\0\0\0", "", "\0\0\0\0"] * 2
    kind = parse(t)
    payload = plugins.load("file_index", "bitmap").build(arrow.to_arrow_array(values, kind), kind, options)
    for asked in {*values, *([f"{7:05}", "\1a"] if t == "STRING" else [0.5 if t == "DOUBLE" else 12345, 2**24 + 1])}:
        found = plugins.load("file_index", "bitmap").probe(payload, kind, Leaf("c", "=", (literal(asked, kind),)), len(values))
        assert rows_of(found, len(values)) == {at for at, value in enumerate(values) if value == asked}, asked
    with_nulls = [*values, None, *values[:3], None]
    payload = plugins.load("file_index", "bitmap").build(arrow.to_arrow_array(with_nulls, kind), kind, options)
    nulls = plugins.load("file_index", "bitmap").probe(payload, kind, Leaf("c", "is null"), len(with_nulls))
    assert rows_of(nulls, len(with_nulls)) == {at for at, value in enumerate(with_nulls) if value is None}


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bounds_of_one_column_are_one_question(data: st.DataObject) -> None:
    """As many bounds as there are, of whatever indexes: what an index that knows rows says of them is what each of them says."""
    t = data.draw(st.sampled_from([one for one in map(parse, TYPES) if one.root != "BOOLEAN"]))
    column = data.draw(st.lists(st.none() | values(t), max_size=12))
    payloads = {}
    for kind in data.draw(st.sets(st.sampled_from(["bsi", "range-bitmap"]), min_size=1)):
        index: Any = plugins.load("file_index", kind)
        if t.root in index.TYPES and not (kind == "range-bitmap" and t.root.startswith("TIMESTAMP") and (t.precision or 0) > 6):
            payloads[kind] = index.build(arrow.to_arrow_array(column, t), t, {})
    container = index_container.encode_container({"c": payloads})
    bounds = [(op, value) for op in data.draw(st.lists(st.sampled_from(["<", "<=", ">", ">="]), min_size=2, max_size=4)) for value in [data.draw(values(t))]]
    parts = tuple(Leaf("c", op, (literal(value, t),)) for op, value in bounds)
    found = rows_of(evaluate_indexes(container, And(parts), {"c": t}, len(column)), len(column))
    assert found == set.intersection(*(rows_of(evaluate_indexes(container, part, {"c": t}, len(column)), len(column)) for part in parts))
    assert found >= {i for i, value in enumerate(column) if all(matches(value, op, [bound]) for op, bound in bounds)}


def test_indexes_are_asked_until_one_knows_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both bounds of a range at once, and no other index once those rows are known: they are dearer than the rows of a small file."""
    t, asked = parse("INT"), list[str]()
    payloads = {kind: plugins.load("file_index", kind).build(pa.array(range(9), pa.int32()), t, {"items": "9"}) for kind in sorted(OPTIONS)}
    container = index_container.encode_container({"c": payloads})
    for kind in ("bitmap", "bsi", "range-bitmap"):
        index: Any = plugins.load("file_index", kind)
        monkeypatch.setattr(index, "rows", lambda *given, rows=index.rows, kind=kind: asked.append(kind) or rows(*given))
    for predicate, wanted, kinds in (
        (And((Leaf("c", ">=", (3,)), Leaf("c", "<", (5,)))), {3, 4}, ["bitmap", "bsi"]),
        (Leaf("c", "=", (3,)), {3}, ["bitmap"]),
        (Leaf("c", "is null"), set(), ["bitmap"]),
    ):
        assert rows_of(evaluate_indexes(container, predicate, {"c": t}, 9), 9) == wanted
        assert asked == kinds
        asked.clear()


def test_a_range_bitmap_of_many_slices_finds_the_rows_of_a_range() -> None:
    t, index = parse("INT"), plugins.load("file_index", "range-bitmap")
    payload = index.build(pa.array([n * 7 % 1000 if n % 5 else None for n in range(2000)], pa.int32()), t, {})
    found = index.probe(payload, t, Leaf("c", "<", (100,)), 2000)
    assert set(found) == {n for n in range(2000) if n % 5 and n * 7 % 1000 < 100}
