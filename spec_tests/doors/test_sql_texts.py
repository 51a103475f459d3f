"""Texts that sqlglot reads wrongly, or in too many ways, are refused with their place, in bounded time."""

import duckdb
import pytest

import lakekit as lk
from lakekit.expressions.dialect import LakekitDialect
from lakekit.expressions.parser import parse_expression, parse_statement


@pytest.mark.parametrize("text", ["1e308+1e308", "k ** 2 < 1e", "2e IS NULL", "1e.300 = k"])
def test_a_number_without_its_end_is_no_number(text):
    with pytest.raises(lk.SqlError, match=r"is no number; write blanks around"):
        parse_expression(text, "where=")


@pytest.mark.parametrize("text", ["1e308 + 1e308", "1_000 + .5 - 5. * 1.5e-3", "k < 1E5"])
def test_numbers_are_read(text):
    parse_expression(text, "where=")


def test_joins_that_are_read_in_many_ways_are_refused_before_they_are_tried():
    with pytest.raises(lk.SqlError, match=r"can be read in too many ways"):
        parse_statement("SELECT * FROM a" + " LEFT JOIN b (k)" * 20)


def test_a_long_statement_is_within_the_bound():
    rows = ", ".join(f"({at}, 'x{at}', {at}.5)" for at in range(2_000))
    parse_statement(f"INSERT INTO t VALUES {rows}")
    parse_statement("SELECT " + ", ".join(f"c{at} + 1 AS d{at}" for at in range(1_000)) + " FROM t")


@pytest.mark.parametrize("text", ["SELECT 1 FROM x LEFT JOIN db...s ON s.k = c.k", "SELECT * FROM db.t.t.t.t"])
def test_names_of_many_parts_are_lakekits_errors(text, tmp_path):
    with pytest.raises(lk.LakekitError):
        lk.connect(str(tmp_path)).sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "DATE '2008-01-01'::VARCHAR = 'x'",
        "d = INTERVAL '14 months ago' + d",
        "date_trunc(u, d) = d",
        "date_part(u, d) = 1",
        "jaro_winkler_similarity('CRATE', 'TRACE', 0.8) > 0",
    ],
)
def test_what_the_parser_reads_in_another_sense_is_refused_in_a_condition_and_right_in_a_query(text, tmp_path):
    with pytest.raises(lk.SqlError):
        parse_expression(text, "where=")
    query = f"SELECT 1 FROM (SELECT TIMESTAMP '2024-01-01' AS d, 'month' AS u) WHERE {text}"
    cat = lk.connect(str(tmp_path))
    try:
        right = duckdb.connect().execute(query).fetchall()
    except duckdb.Error:
        with pytest.raises(lk.LakekitError):
            cat.sql(query).collect()
    else:
        assert cat.sql(query).collect().rows() == right


def test_an_index_is_the_one_that_is_written(tmp_path):
    cat = lk.connect(str(tmp_path))
    text = (
        "SELECT [10, 20, 30][1::INT], [10, 20, 30][k], [10, 20, 30][k + 1], MAP {1: 'a', 2: 'b'}[2::TINYINT], "
        "[10, 20, 30][CAST(k AS INT) + 1] FROM (SELECT 1 AS k)"
    )
    assert cat.sql(text).collect().row(0) == (10, 10, 20, "b", 20)
    assert cat.sql("SELECT date_trunc('month', DATE '2024-03-31'), DATE '2024-03-31' - INTERVAL '1 day'").collect().height == 1


@pytest.mark.parametrize("text", ["SELECT 1 AS a", "\n\n  SELECT 1 AS a, $1 AS b\n;", "VALUES (1)", "INSERT INTO t VALUES (1), (DEFAULT)"])
def test_a_statement_is_cut_into_tokens_once(text, tmp_path, monkeypatch):
    """Once to see where statements end, and of an INSERT once more for its query."""
    catalog, cut = lk.connect(tmp_path), []
    catalog.sql("CREATE TABLE t (id INT)")
    tokenize = LakekitDialect.tokenize
    monkeypatch.setattr(LakekitDialect, "tokenize", lambda self, sql, **options: cut.append(sql) or tokenize(self, sql, **options))
    catalog.sql(text, [2] if "$" in text else None).lazy().collect()
    assert len(cut) == (2 if "$" in text or "INSERT" in text else 1)


def test_the_place_of_an_error_counts_lines_from_the_beginning_of_the_text(tmp_path):
    with pytest.raises(lk.SqlError, match=r"query: line 3, column 12: "):
        lk.connect(tmp_path).sql("\n-- one\n  SELECT 1 +")
