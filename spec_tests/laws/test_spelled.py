"""Conditions with texts that Polars does not spell are spelled as it spells the others, and reach planning."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, strategies as st

import lakekit as lk
from lakekit.predicate import TRUE
from lakekit.read.filter_pushdown import expr_to_pyarrow_text, filter_to_pyarrow_text
from lakekit.read.polars_pushdown import filters_of, parse_exact, predicate_of

SCHEMA = {"a": pl.String(), "b": pl.Int64(), "t": pl.Boolean()}
A, B = pl.col("a"), pl.col("b")

PLAIN = [
    A == "zz",
    pl.lit("zz") == A,
    A != "zz",
    A < "zz",
    A >= "zz",
    A.is_in(["x", "y"]),
    ~A.is_in(["x", "y"]),
    A.str.starts_with("x"),
    (A == "x") | (B == 1),
    (A == "x") | (A.is_null()),
    (A == "x") | (A.is_not_null()),
    (A == "x") | pl.col("t"),
    ~((A == "x") | (B > -5)),
]


@pytest.mark.parametrize("expr", PLAIN, ids=str)
def test_what_polars_spells_means_the_same_spelled_here(expr):
    for found in filters_of(expr, SCHEMA):
        assert found.pyarrow_str is not None
        mine = expr_to_pyarrow_text(found.expr)
        assert mine is not None
        assert predicate_of(mine) == predicate_of(found.pyarrow_str) != TRUE
        assert parse_exact(mine) == parse_exact(found.pyarrow_str)


@given(st.text(min_size=1, max_size=8), st.sampled_from(["==", "<=", "in", "starts", "or"]))
def test_any_text_is_understood_as_it_is(text, how):
    odd = text + ".'\"\\"
    made = {"==": odd == A, "<=": odd >= A, "in": A.is_in([odd, "x"]), "starts": A.str.starts_with(odd), "or": (odd == A) | (B == 1)}[how]
    same = {"==": A == "Q", "<=": A <= "Q", "in": A.is_in(["Q", "x"]), "starts": A.str.starts_with("Q"), "or": (A == "Q") | (B == 1)}[how]
    (found,), (plain,) = filters_of(made, SCHEMA), filters_of(same, SCHEMA)
    wanted = repr(predicate_of(plain.pyarrow_str)).replace("'Q'", repr(odd))
    assert repr(predicate_of(filter_to_pyarrow_text(found))) == wanted


@pytest.mark.parametrize("expr", [A.str.to_uppercase() == "a.b", A.str.len_chars() == 3, A.map_elements(len, return_dtype=pl.Int64) == 3, (A + ".b") == "a.b"])
def test_what_is_no_plain_condition_says_nothing(expr):
    assert all(predicate_of(filter_to_pyarrow_text(found)) == TRUE for found in filters_of(expr, SCHEMA))


@pytest.mark.parametrize("ticks", [253_402_300_800_000_000, -62_135_596_800_000_001])
def test_a_time_that_python_has_no_date_for_says_nothing(ticks):
    (found,) = filters_of((A == "a.b'") | (pl.col("d") <= pl.lit(ticks).cast(pl.Datetime("us"))), {**SCHEMA, "d": pl.Datetime("us")})
    assert found.pyarrow_str is None
    assert predicate_of(filter_to_pyarrow_text(found)) == TRUE


def test_partitions_and_files_are_spared(tmp_path):
    table = lk.create(tmp_path, {"host": "STRING NOT NULL", "mail": "STRING", "n": "INT"}, partition_keys=["host"])
    for number in range(6):
        table.append([{"host": f"h{number}.example", "mail": f"m{number}@x.example", "n": number}])
    for expr, want in (
        (pl.col("host") == "h3.example", [3]),
        (pl.col("host").is_in(["h1.example", "h5.example"]), [1, 5]),
        (pl.col("mail") == "m2@x.example", [2]),
        (pl.col("mail").str.starts_with("m4@x."), [4]),
        ((pl.col("mail") == "m2@x.example") | (pl.col("mail") == "m3@x.example"), [2, 3]),
    ):
        assert table.explain(expr).files_read == len(want)
        assert table.scan().filter(expr).collect()["n"].sort().to_list() == want
    assert table.delete("host = 'h3.example'").removed_file_count == 1
