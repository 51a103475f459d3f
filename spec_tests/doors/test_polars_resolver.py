"""What lakekit believes of Polars' resolver, which is marked unstable there: a Polars that thinks otherwise is noticed here first."""

from __future__ import annotations

import polars as pl
import pytest
from polars.lazyframe.resolver import FilterExpr, LazyFrameResolver, ResolvedLazyFrameProps

ENGINES = ("in-memory", "streaming")
DATA = pl.DataFrame({"k": range(100), "v": [f"v{i}" for i in range(100)], "p": [f"d{i % 3}" for i in range(100)]})


class Listening(LazyFrameResolver):
    """A table of 100 rows that writes down what Polars asks."""

    def __init__(self, version: str | None = None, applied: tuple[int, ...] = ()) -> None:
        self.version, self.applied = version, applied
        self.asked: list[dict[str, object]] = []
        self.frame = DATA

    def schema(self):
        return dict(DATA.schema)

    def resolve_lazyframe(self, **question):
        self.asked.append(question)
        props = ResolvedLazyFrameProps(version_key=self.version, applied_filters=list(self.applied))
        if self.version is not None and question["existing_resolved_version_key"] == self.version:
            return None, props
        return self.frame.lazy(), props


def asked(query, engine):
    """What the resolver is asked by a query: (projection, limit, pyarrow texts of the filters, columns to drop after)."""
    table = Listening()
    query(table.lazy()).collect(engine=engine)
    found = table.asked[-1]
    return found["projection"], found["limit"], sorted((f.pyarrow_str for f in found["filters"]), key=str), found["filter_drop_columns_idx"]


K90 = "(pa.compute.field('k') > 90)"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "query, wanted",
    [
        pytest.param(lambda t: t.select("v"), (["v"], None, [], 1), id="a projection"),
        pytest.param(lambda t: t.filter(pl.col("k") > 90).select("v"), (["v", "k"], None, [K90], 1), id="columns that only a filter needs come last"),
        pytest.param(
            lambda t: t.filter(pl.col("p") == "d1").filter(pl.col("k").is_between(5, 20)),
            (
                None,
                None,
                ["((pa.compute.field('k') >= 5) & (pa.compute.field('k') <= 20))", "(pa.compute.field('p') == 'd1')"],
                None,
            ),
            id="one filter a conjunct",
        ),
        pytest.param(
            lambda t: t.filter((pl.col("k") > 1) & (pl.col("k") < 50) & ((pl.col("v") == "a") | (pl.col("p") == "d2"))),
            (
                None,
                None,
                ["((pa.compute.field('v') == 'a') | (pa.compute.field('p') == 'd2'))", "(pa.compute.field('k') < 50)", "(pa.compute.field('k') > 1)"],
                None,
            ),
            id="an or stays whole",
        ),
        pytest.param(lambda t: t.head(5), (None, 5, [], None), id="a limit"),
        pytest.param(lambda t: t.slice(3, 5), (None, 8, [], None), id="a slice is a limit of its end"),
        pytest.param(lambda t: t.filter(pl.col("k") > 90).head(5), (None, None, [K90], None), id="a limit never passes a filter"),
        pytest.param(lambda t: t.head(50).filter(pl.col("k") > 90), (None, 50, [], None), id="a filter never passes a limit"),
        pytest.param(lambda t: t.filter(pl.col("k") > pl.col("k").mean()), (None, None, [], None), id="a filter over the whole table stays above"),
        pytest.param(lambda t: t.tail(5), (None, None, [], None), id="a tail is nothing to plan by"),
        pytest.param(lambda t: t.filter(pl.col("k") + 1 > 5), (None, None, [None], None), id="arithmetic has no pyarrow text"),
        pytest.param(
            lambda t: t.filter(pl.col("k").map_batches(lambda s: s > 90, return_dtype=pl.Boolean)),
            (None, None, [], None),
            id="a function of whole columns stays above",
        ),
        pytest.param(
            lambda t: t.filter(pl.col("k").map_batches(lambda s: s > 90, return_dtype=pl.Boolean, is_elementwise=True)),
            (None, None, [None], None),
            id="a function of single rows has no pyarrow text",
        ),
    ],
)
def test_what_is_asked(query, wanted, engine):
    assert asked(query, engine) == wanted


@pytest.mark.parametrize("engine", ENGINES)
def test_counting_rows_asks_for_at_most_one_column(engine):
    projection, limit, filters, _ = asked(lambda t: t.select(pl.len()), engine)
    assert projection is not None and len(projection) <= 1
    assert (limit, filters) == (None, [])


@pytest.mark.parametrize(
    "expr, texts",
    [
        (pl.col("v").is_in(["a", None]), ["(pa.compute.field('v')).isin([\"a\"])"]),
        (pl.col("v").is_in(["a", None], nulls_equal=True), ["(pa.compute.field('v')).isin([\"a\",None])"]),
        (~pl.col("v").is_in(["a", "b"]), ['~((pa.compute.field(\'v\')).isin(["a","b"]))']),
        (pl.col("v").str.starts_with("ab"), ["pa.compute.starts_with(pa.compute.field('v'), pattern='ab')"]),
        (pl.col("v").is_null(), ["(pa.compute.field('v')).is_null()"]),
        (pl.col("v").is_not_null(), ["~(pa.compute.field('v')).is_null()"]),
        (pl.col("v").eq_missing(None), ["(pa.compute.field('v')).is_null()"]),
        (~(pl.col("k") == 5), ["(pa.compute.field('k') != 5)"]),
        (5 < pl.col("k"), [K5 := "(pa.compute.field('k') > 5)"]),  # noqa: SIM300 - the other way round is what is asked
        (pl.lit(value=False), ["pa.compute.scalar(False)"]),
        (pl.sql_expr("k > 5 AND v IN ('a','b')"), ['(pa.compute.field(\'v\')).isin(["a","b"])', K5]),
        (pl.sql_expr("k > 5 AND v IN ('a','b') OR v IS NULL"), [f"(({K5} & (pa.compute.field('v')).isin([\"a\",\"b\"])) | (pa.compute.field('v')).is_null())"]),
        (pl.sql_expr("v LIKE 'ab%'"), ["pa.compute.starts_with(pa.compute.field('v'), pattern='ab')"]),
        (pl.col("v") == "it's", [None]),  # no text for what would need escaping
        (pl.col("v").str.ends_with("ab"), [None]),
        (pl.col("k") > 0.5, [None]),
    ],
)
def test_the_texts_that_conditions_arrive_as(expr, texts):
    assert asked(lambda t: t.filter(expr), "in-memory")[2] == sorted(texts, key=str)


@pytest.mark.parametrize("engine", ENGINES)
def test_whatever_is_returned_is_the_table_and_unclaimed_filters_run_again(engine):
    table = Listening()
    table.frame = DATA.head(40)
    assert table.lazy().filter(pl.col("k") >= 30).collect(engine=engine)["k"].to_list() == list(range(30, 40))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_claimed_filter_runs_nowhere_else(engine):
    table = Listening(applied=(0,))
    assert table.lazy().filter(pl.col("k") >= 30).collect(engine=engine).height == 100


def test_without_a_version_a_frame_asks_once_with_one_it_asks_each_time():
    still, moving = Listening(), Listening(version="1")
    for table in (still, moving):
        frame = table.lazy()
        frame.collect(), frame.collect()
    assert (len(still.asked), len(moving.asked)) == (1, 2)
    assert moving.asked[1]["existing_resolved_version_key"] == "1"
    moving.version, moving.frame = "2", DATA.head(7)
    frame = moving.lazy()
    assert frame.collect().height == 7
    moving.version, moving.frame = "3", DATA.head(9)
    assert frame.collect().height == 9


def test_the_schema_is_known_without_resolving_and_explain_resolves():
    table = Listening()
    frame = table.lazy()
    assert frame.collect_schema().names() == ["k", "v", "p"]
    assert not table.asked
    assert "RESOLVER" in frame.explain()
    assert len(table.asked) == 1


def test_frames_of_one_table_in_one_query_ask_one_by_one():
    table = Listening(version="1")
    frame = table.lazy()
    frame.join(frame, on="k").collect()
    assert len(table.asked) == 2
    pl.collect_all([table.lazy().filter(pl.col("k") > i) for i in range(20)])
    assert len(table.asked) == 22


@pytest.mark.parametrize("engine", ENGINES)
def test_an_exception_keeps_its_class_and_text(engine):
    class Refusing(Listening):
        def resolve_lazyframe(self, **question):
            raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        Refusing().lazy().collect(engine=engine)


def test_filters_are_public_facts():
    table = Listening()
    table.lazy().filter(pl.col("k") > 90).collect()
    (found,) = table.asked[0]["filters"]
    assert isinstance(found, FilterExpr)
    assert DATA.filter(found.expr).height == 9
    assert found.expr.meta.root_names() == ["k"]


@pytest.mark.parametrize("name", ["it's", "a') | pa.compute.field('b", "a\\", "a\nb", 'a"b', "(1)", "a\\'b"])
def test_names_that_would_need_escaping_have_no_text(name):
    class Odd(Listening):
        def schema(self):
            return {name: pl.Int64(), "b": pl.Boolean()}

        def resolve_lazyframe(self, **question):
            self.asked.append(question)
            return pl.LazyFrame(schema=self.schema()), ResolvedLazyFrameProps()

    for condition in (pl.col(name) > 5, pl.col(name).is_in([1]), pl.col(name).is_null()):
        table = Odd()
        table.lazy().filter(condition).explain()
        assert [found.pyarrow_str for found in table.asked[0]["filters"]] == [None]


def test_a_filter_that_never_holds_after_a_cut_loses_the_projection_above_any_resolver():
    """Polars 2.1 answers with all columns; the day it does not, `query_strategies.difference` need not look away."""
    assert Listening().lazy().head(1).filter(pl.lit(value=False)).select("k").collect().columns == ["k", "v", "p"]
