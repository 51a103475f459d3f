"""What `to_sql` writes, `cat.sql` reads: comments, names, option values with any signs come back as they are, and nothing else is run (ATTACK A7)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

import lakekit as lk
from lakekit.sql.tokenizer import TokenStream
from lakekit.types import text_literal

SIGNS = st.lists(
    st.sampled_from(["'", '"', "`", "\\", ";", "--", "/*", "*/", "$$", "$", "\n", " ", "a", "é", "%", "{", "}", "?", ":", "@", "DROP TABLE shop.orders"]),
    max_size=8,
).map("".join)
EVIL = "\\'; DROP TABLE shop.orders; --"


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("lake"))
    made.sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT)")
    return made


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(comment=SIGNS, column=SIGNS, value=SIGNS)
@example(comment=EVIL, column=EVIL, value=EVIL)
@example(comment="\\", column="a\\b", value="\\n")
def test_a_table_made_of_its_own_statement_is_the_same(cat, comment, column, value):
    made = cat.create_table("shop.evil", [lk.Field("k`'\\\"", "INT", comment=column or None)], comment=comment or None, options={"my.option": value})
    try:
        for dialect in ("lakekit", "spark"):
            cat.sql(made.to_sql(dialect=dialect).replace("shop.evil", "shop.copy", 1), dialect=dialect)
            copy = cat["shop.copy"]
            assert (copy.comment, copy.options["my.option"]) == (made.comment, value)
            assert copy.schema.fields == made.schema.fields
            cat.drop_table("shop.copy")
    finally:
        cat.drop_table("shop.evil")
    assert cat.tables("shop")["table"].to_list() == ["orders"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(comment=SIGNS, column=st.text(st.sampled_from(["'", '"', "`", "\\", ";", "$", "a", " "]), min_size=1, max_size=5))
@example(comment=EVIL, column=EVIL)
def test_a_view_made_of_its_own_statement_is_the_same(cat, comment, column):
    made = cat.create_view("shop.evil", "SELECT id FROM shop.orders", columns=[column], comment=comment, temporary=True)
    text = made.to_sql()
    cat.drop_view("shop.evil")
    cat.sql(text)
    again = cat.table("shop.evil")
    cat.drop_view("shop.evil")
    assert (again.comment, again.fields, again.query) == (made.comment, made.fields, made.query)
    assert cat.tables("shop")["table"].to_list() == ["orders"]


@settings(max_examples=300, deadline=None)
@given(SIGNS)
def test_a_literal_is_one_token_with_its_text(value):
    for dialect in ("lakekit", "spark"):
        tokens = TokenStream.of(text_literal(value, dialect), dialect)
        assert tokens.string() == value
        tokens.end()
