"""Expressions that panic in Polars over columns with an empty chunk, at every door, over tables whose merge or change drops all rows of a file.

Polars 2.1 keeps a chunk of which a filter left no row, and over it `list.set_union` and its sisters, and `pl.format`, panic.
"""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from lakekit.columns import split_by_chunk, without_empty_chunks

LISTS = {
    "STRING": (pl.String, st.sampled_from(["", "a", "b", "a text that fits in no view of Polars"])),
    "BYTES": (pl.Binary, st.sampled_from([b"", b"a", b"\xff"])),
    "INT": (pl.Int32, st.sampled_from([-1, 0, 7])),
}
SETS = ("set_union", "set_difference", "set_intersection", "set_symmetric_difference")
OPTIONS = {
    "deduplicate": {"bucket": "1"},
    "partial-update": {"bucket": "1", "merge-engine": "partial-update"},
    "first-row": {"bucket": "1", "merge-engine": "first-row"},
    "aggregation": {"bucket": "2", "merge-engine": "aggregation"},
    "key vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "append": {},
}
FEW = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_empty_chunk() -> pl.DataFrame:
    """Two chunks, of which the first is empty."""
    lists = [pl.DataFrame({"e": [["a"]], "t": ["x"]}), pl.DataFrame({"e": [["b", None], []], "t": ["y", None]})]
    return pl.concat(lists, rechunk=False).filter(pl.Series([False, True, True]))


@pytest.mark.parametrize("name", SETS)
def test_polars_panics_over_an_empty_chunk_and_not_without_it(name):
    frame = with_empty_chunk()
    assert frame["e"].chunk_lengths() == [0, 2]
    asked = getattr(pl.col("e").list, name)("e")
    with pytest.raises(pl.exceptions.PanicException, match="index out of bounds"):
        frame.select(asked)  # when this fails, `without_empty_chunks` may be needed no more
    with pytest.raises(pl.exceptions.PanicException, match="assertion failed"):
        frame.select(pl.format("{}{}", "t", "t"))
    dense = without_empty_chunks(frame)
    assert dense.select(asked).equals(frame.rechunk().select(asked))
    assert dense.select(pl.format("{}{}", "t", "t")).to_series().to_list() == ["yy", None]


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=4))
def test_frames_without_empty_chunks_have_the_same_rows(masks):
    parts = [pl.DataFrame({"k": [f"{at}.{n}" for n in range(len(mask))], "*": [[at]] * len(mask)}) for at, mask in enumerate(masks)]
    frame = pl.concat(parts, rechunk=False).filter(pl.Series([kept for mask in masks for kept in mask])).with_columns(z=1)
    dense = without_empty_chunks(frame)
    assert dense.equals(frame) and dense.schema == frame.schema
    for column in dense:
        assert dense.is_empty() or 0 not in column.chunk_lengths()
    assert without_empty_chunks(dense) is dense or dense.is_empty()
    assert without_empty_chunks(frame.select([])).height == frame.select([]).height


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=4), st.sampled_from(["one", "whole", "cut otherwise"]))
def test_frames_split_by_chunk_are_the_rows_in_order(masks, other):
    frame = pl.concat([pl.DataFrame({"k": [at] * len(mask)}) for at, mask in enumerate(masks)], rechunk=False)
    frame = frame.filter(pl.Series([kept for mask in masks for kept in mask]))
    if other == "whole":
        frame = frame.with_columns(frame["k"].rechunk().alias("z"))
    elif other == "cut otherwise":
        frame = frame.with_columns(pl.concat([frame["k"][:-1].rechunk(), frame["k"][-1:]], rechunk=False).alias("z"))
    parts = list(split_by_chunk(frame))
    assert pl.concat(parts).equals(frame)
    assert all(column.n_chunks() == 1 for part in parts for column in part)
    assert all(part.height for part in parts) or len(parts) == 1


@pytest.mark.parametrize("kind", ["deduplicate", "partial-update", "aggregation"])
def test_an_expression_over_a_table_whose_first_file_is_replaced_whole(tmp_path, kind):
    table = lk.create(str(tmp_path / "t"), {"k": "INT", "a": "ARRAY<STRING>", "t": "STRING"}, primary_keys=["k"], options=OPTIONS[kind])
    for keys in ([1], [1, 2, 3]):
        table.upsert(
            pl.DataFrame({"k": keys, "a": [["x", None]] * len(keys), "t": ["p"] * len(keys)}, schema={"k": pl.Int32, "a": pl.List(pl.String), "t": pl.String})
        )
    for name, count in zip(SETS, (2, 0, 2, 0), strict=True):
        made = getattr(pl.col("a").list, name)("a").list.len()
        for engine in ("auto", "streaming", "in-memory"):
            assert table.scan().select(made).collect(engine=engine)["a"].to_list() == [count] * 3
            assert table.scan().filter(made == count, pl.col("k") > 1).collect(engine=engine).height == 2
        assert table.aggregate(pl.len(), where=made == count).item() == 3
    assert sorted(table.scan().select(pl.format("{}{}", "k", "t").alias("x")).collect()["x"]) == ["1p", "2p", "3p"]


@st.composite
def drawn_rows(draw, of: str) -> list[pl.DataFrame]:
    """Rows of some commits, the later of which replace rows of the earlier where there are keys."""
    dtype, values = LISTS[of]
    lists = st.none() | st.lists(st.none() | values, max_size=3)
    frames = []
    for _ in range(draw(st.integers(1, 4))):
        keys = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
        rows = [(k, draw(lists), draw(lists), draw(st.none() | st.sampled_from(["p", "q"]))) for k in keys]
        frames.append(pl.DataFrame(rows, schema={"k": pl.Int32, "a": pl.List(dtype), "b": pl.List(dtype), "t": pl.String}, orient="row"))
    return frames


@st.composite
def drawn_list(draw) -> pl.Expr:
    left, right = draw(st.sampled_from([("a", "a"), ("a", "b"), ("b", "a")]))
    made = getattr(pl.col(left).list, draw(st.sampled_from(SETS)))(pl.col(right))
    return draw(st.sampled_from([made, made.list.sort(), pl.coalesce(made, pl.col(left))]))


@st.composite
def drawn_condition(draw) -> pl.Expr:
    formatted = pl.format("{}-{}", "k", "t")
    truth = draw(st.sampled_from([formatted.str.contains("1|3|q"), None])) if draw(st.booleans()) else None
    truth = draw(drawn_list()).list.len() > draw(st.integers(0, 2)) if truth is None else truth
    return draw(st.sampled_from([truth, ~truth, truth & (pl.col("k") > 0), truth | (pl.col("k") == 1)]))


def rows_of(t: lk.Table) -> pl.DataFrame:
    return t.scan().collect(engine="in-memory").rechunk().sort(pl.all().exclude("a", "b"))


def sorted_rows(frame: pl.DataFrame) -> list[str]:
    return sorted(map(repr, frame.rows()))


@pytest.mark.parametrize("kind", OPTIONS)
@settings(FEW, max_examples=max(4, settings.default.max_examples // 5))
@given(data=st.data())
def test_lists_as_sets_at_every_door(tmp_path_factory, kind, data):
    of = data.draw(st.sampled_from(list(LISTS)))
    keys = [] if kind in ("append", "vectors") else ["k"]
    table = lk.create(
        str(tmp_path_factory.mktemp("t") / "t"), {"k": "INT", "a": f"ARRAY<{of}>", "b": f"ARRAY<{of}>", "t": "STRING"}, primary_keys=keys, options=OPTIONS[kind]
    )
    for frame in data.draw(drawn_rows(of)):
        table.upsert(frame) if keys else table.append(frame)
    where, made = data.draw(drawn_condition()), data.draw(drawn_list())
    whole = rows_of(table)
    matching = whole.filter(where)
    for engine in ("auto", "streaming", "in-memory"):
        assert sorted_rows(table.scan().filter(where).collect(engine=engine)) == sorted_rows(matching)
        assert sorted_rows(table.scan().select("k", x=made).collect(engine=engine)) == sorted_rows(whole.select("k", x=made))
        assert sorted_rows(table.scan().filter(where).select(x=made).collect(engine=engine)) == sorted_rows(matching.select(x=made))
    assert table.aggregate(pl.len(), made.list.len().sum().alias("n"), where=where).equals(matching.select(pl.len(), made.list.len().sum().alias("n")))
    if kind in ("first-row", "aggregation"):
        return
    new = whole.with_columns(a=pl.when(where.fill_null(False)).then(made).otherwise("a"))
    table.update({"a": made}, where=where)
    if kind != "partial-update":  # which keeps the old value where the new one is null
        assert sorted_rows(rows_of(table)) == sorted_rows(new)
    if keys:
        merged(table, where, made)
    whole = rows_of(table)
    if kind != "partial-update":
        table.delete(where)
        assert sorted_rows(rows_of(table)) == sorted_rows(whole.filter(~where.fill_null(False)))


def merged(table: lk.Table, where: pl.Expr, made: pl.Expr) -> None:
    """A merge from a frame whose first chunk is empty, and which has one row more than the table."""
    whole = rows_of(table)
    more = pl.concat([whole[:1], whole, whole[:1].with_columns(k=pl.lit(99, pl.Int32))], rechunk=False)
    source = more.filter(pl.Series([False] + [True] * (len(more) - 1)))
    union = lk.source("a").list.set_union(lk.source("b"))
    insert = lk.when_not_matched(insert={"k": lk.source("k"), "a": union}, where=union.is_null() | (union.list.len() >= 0))
    table.merge(source, lk.when_matched(update={"b": made}, where=where), insert, on=["k"])
    inserted = source[-1:].rechunk().with_columns(a=pl.col("a").list.set_union("b"), b=None, t=None).cast(dict(whole.schema))
    new = whole.with_columns(b=pl.when(where.fill_null(False)).then(made).otherwise("b"))
    if "merge-engine" not in table.options:  # partial-update keeps the old value where the new one is null
        assert sorted_rows(rows_of(table)) == sorted_rows(pl.concat([new, inserted]))
