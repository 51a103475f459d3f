"""Every worked example of FORMAT.md 9.4-9.7, built and probed."""

from __future__ import annotations

from typing import Any

import pytest

from lakekit import plugins
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import container as index_container
from lakekit.file_index.evaluator import evaluate_indexes
from lakekit.predicate import And, Leaf, Or
from lakekit.types import Instant, arrow, parse

BLOOM = [
    ("STRING", (3, 0.1), ["a", "b", None, "湖"], "000000045b71"),
    ("INT", (3, 0.1), [1, -1, 100], "00000004dd95"),
    ("BIGINT", (8, 0.01), [1, -1, 10**10], "00000007044082a800023131c508"),
    ("DOUBLE", (8, 0.01), [1.5, -0.0], "0000000700208944000218021064"),
    ("FLOAT", (8, 0.01), [1.5, -0.0], "000000075000000000922c430500"),
    ("TIMESTAMP(6)", (8, 0.01), [Instant(1700000000123, 456000)], "0000000708004000a10002000400"),
    ("BYTES", (8, 0.01), [b"\1\2\3"], "0000000704000008404000808010"),
]
OTHERS: list[tuple[str, str, dict[str, str], list[Any], str]] = [
    (
        "bitmap",
        "INT",
        {"version": "1"},
        [1, 2, 1, None, 3],
        "01000000050000000301fffffffc000000010000000000000002fffffffe00000003fffffffb3a30000001000000000001001000000000000200",
    ),
    (
        "bitmap",
        "INT",
        {},
        [1, 2, 1, None, 3],
        (
            "02000000050000000301fffffffc00000012000000010000000100000000000000280000000300000001000000000000001400000002"
            "fffffffeffffffff00000003fffffffbffffffff3a30000001000000000001001000000000000200"
        ),
    ),
    ("bitmap", "INT", {"version": "1"}, [], "01000000000000000000"),
    ("bitmap", "INT", {}, [], "020000000000000000000000000000000000"),
    ("bitmap", "INT", {}, [None, None], "02000000020000000001000000000000001400000000000000003a30000001000000000001001000000000000100"),
    (
        "bsi",
        "INT",
        {},
        [7, 7],
        (
            "01000000020101000000000000000000000000000000073a30000001000000000001001000000000000100000000033a3000000100000000000100"
            "10000000000001003a300000010000000000010010000000000001003a3000000100000000000100100000000000010000"
        ),
    ),
    (
        "bsi",
        "INT",
        {},
        [None, -1],
        "0100000002000101000000000000000000000000000000013a3000000100000000000000100000000100000000013a3000000100000000000000100000000100",
    ),
    ("bsi", "INT", {}, [], "01000000000000"),
    (
        "range-bitmap",
        "INT",
        {},
        [30, 10, 20, None, 10],
        (
            "000000150100000005000000030000000a0000001e000000360000000d0100000001000000040000001900000000010000000a0000000000000000"
            "000000020000000800000004000000140000001e0000001a01020000001800000010000000000000001200000012000000123a3000000100000000"
            "0003001000000000000100020004003a30000001000000000000001000000002003a3000000100000000000000100000000000"
        ),
    ),
    (
        "range-bitmap",
        "STRING",
        {},
        ["b", "a", None, "ccc"],
        (
            "00000019010000000400000003000000016100000003636363000000430000000d0100000001000000040000001a0000000001000000016100000000"
            "0000000000000002000000080000000c00000000000000050000000162000000036363630000001a010200000016000000100000000000000012"
            "00000012000000123a3000000100000000000200100000000000010003003a30000001000000000000001000000000003a3000000100000000000000"
            "100000000300"
        ),
    ),
    (
        "range-bitmap",
        "INT",
        {},
        [5, 5],
        (
            "0000001501000000020000000100000005000000050000002e0000000d01000000010000000400000019000000000100000005000000000000000000"
            "0000000000000000000004000000120101000000140000000800000000000000083a300000010000000000010010000000000001003a30000000000000"
        ),
    ),
]


@pytest.mark.parametrize(("text", "shape", "values", "payload"), BLOOM)
def test_a_bloom_filter_is_these_bytes(text: str, shape: tuple[int, float], values: list[Any], payload: str) -> None:
    part, t = plugins.load("file_index", "bloom-filter"), parse(text)
    options = {"items": str(shape[0]), "fpp": str(shape[1])}
    assert part.build(arrow.to_arrow_array(values, t), t, options).hex() == payload
    for value in values:
        assert value is None or part.probe(bytes.fromhex(payload), t, Leaf("c", "=", (value,)), len(values))


def test_a_default_bloom_filter_has_its_size() -> None:
    part, t = plugins.load("file_index", "bloom-filter"), parse("INT")
    payload = part.build(arrow.to_arrow_array(list(range(100)), t), t, {})
    assert (len(payload), payload[:4]) == (4 + 599067, bytes([0, 0, 0, 3]))
    assert sum(part.probe(payload, t, Leaf("c", "=", (n,)), 100) for n in range(100, 1100)) <= 2
    assert part.probe(payload, t, Leaf("c", "in", (10**6, 7)), 100)
    assert part.probe(payload, t, Leaf("c", "<", (-1,)), 100)
    assert not part.probe(payload, t, Leaf("c", "=", (2**70,)), 100)


@pytest.mark.parametrize(("name", "text", "options", "values", "payload"), OTHERS)
def test_an_index_is_these_bytes(name: str, text: str, options: dict[str, str], values: list[Any], payload: str) -> None:
    part, t = plugins.load("file_index", name), parse(text)
    data = bytes.fromhex(payload)
    assert part.build(arrow.to_arrow_array(values, t), t, options).hex() == payload
    for value in {v for v in values if v is not None}:
        found = part.probe(data, t, Leaf("c", "=", (value,)), len(values))
        wanted = [i for i, v in enumerate(values) if v == value]
        assert found is True if len(wanted) == len(values) else list(found) == wanted
    nulls = [i for i, v in enumerate(values) if v is None]
    found = part.probe(data, t, Leaf("c", "is null"), len(values))
    assert ([] if found is False else list(range(len(values))) if found is True else list(found)) == nulls


def test_answers_of_the_bitmap_family() -> None:
    t = parse("INT")
    column = arrow.to_arrow_array([30, 10, 20, None, 10], t)
    leaves = {
        ("=", 10): {1, 4},
        ("!=", 10): {0, 2},
        ("<", 20): {1, 4},
        ("<=", 20): {1, 2, 4},
        (">", 20): {0},
        (">=", 11): {0, 2},
        ("is null",): {3},
        ("is not null",): {0, 1, 2, 4},
        ("in", 30, 20, 5): {0, 2},
        ("not in", 30, 20): {1, 4},
    }
    for name in ("bsi", "range-bitmap", "bitmap"):
        part = plugins.load("file_index", name)
        payload = part.build(column, t, {})
        for (op, *literals), rows in leaves.items():
            found = part.probe(payload, t, Leaf("c", op, tuple(literals)), 5)
            if name == "bitmap" and op in ("<", "<=", ">", ">="):
                assert found is True
            else:
                assert set(found) - ({3} if op in ("!=", "not in") and name == "bitmap" else set()) == rows
        with pytest.raises(Corrupt, match="another file: 6 rows"):
            part.probe(payload, t, Leaf("c", "=", (10,)), 6)


def test_evaluation_of_a_container() -> None:
    t = parse("INT")
    columns = {"a": arrow.to_arrow_array([1, 2, 3, None], t), "b": arrow.to_arrow_array([5, 5, 6, 6], t)}
    indexes: dict[str, dict[str, bytes | None]] = {
        "a": {name: plugins.load("file_index", name).build(columns["a"], t, {}) for name in ("bitmap", "bloom-filter")},
        "b": {"bsi": plugins.load("file_index", "bsi").build(columns["b"], t, {}), "tomorrow": b"?"},
        "c": {"bitmap": None},
    }
    container = index_container.encode_container(indexes)
    types = dict.fromkeys("abcd", t)

    def rows(predicate: Any) -> Any:
        found = evaluate_indexes(container, predicate, types, 4)
        return found if isinstance(found, bool) else list(found)

    one, five = Leaf("a", "=", (1,)), Leaf("b", "=", (5,))
    assert rows(one) == [0]
    assert rows(five) == [0, 1]
    assert rows(And((one, five))) == [0]
    assert rows(And((one, Leaf("b", "=", (6,))))) is False
    assert rows(Or((one, Leaf("b", "=", (6,))))) == [0, 2, 3]
    assert rows(Or((one, Leaf("d", "=", (6,))))) is True
    assert rows(And((one, Leaf("d", "=", (6,))))) == [0]
    assert rows(Leaf("a", "=", (9,))) is False
    assert rows(Leaf("a", "starts with", ("x",))) is True
    assert rows(And(())) is True
    assert rows(Or(())) is False
    assert rows(Leaf("c", "=", (1,))) is False
    assert rows(Leaf("c", "is not null")) is False
    assert rows(Leaf("c", "!=", (1,))) is True
    assert rows(Leaf("c", "is null")) is True
    assert evaluate_indexes(container, one, types, 2**31) is True
    assert evaluate_indexes(container, one, {}, 4) is True


def test_an_index_of_a_later_version_only_costs_time() -> None:
    t = parse("INT")
    container = index_container.encode_container({"a": {"bitmap": b"\3" + bytes(30)}})
    assert evaluate_indexes(container, Leaf("a", "=", (1,)), {"a": t}, 4) is True
    with pytest.raises(Unsupported, match="version 3"):
        plugins.load("file_index", "bitmap").probe(b"\3" + bytes(30), t, Leaf("a", "=", (1,)), 4)


def test_a_damaged_index_is_named_with_its_file() -> None:
    t = parse("INT")
    container = index_container.encode_container({"a": {"bitmap": b"\2" + bytes(3)}})
    with pytest.raises(Corrupt, match=r"^bucket-0/f\.index: rows at offset 1: 4 bytes wanted, 3 left") as caught:
        evaluate_indexes(container, Leaf("a", "=", (1,)), {"a": t}, 4, path="bucket-0/f.index")
    assert (caught.value.path, caught.value.field) == ("bucket-0/f.index", "rows")


def test_the_folder_is_the_registry() -> None:
    assert plugins.names("file_index") == ("bitmap", "bloom-filter", "bsi", "range-bitmap")
    assert all(name == plugins.load("file_index", name).NAME for name in plugins.names("file_index"))
    with pytest.raises(Unsupported, match=r"no plugin of file_index is called 'btree'; there are bitmap, bloom-filter"):
        plugins.load("file_index", "btree")
