"""An error about a text of SQL says where: line, column and a caret under the place; a word that is near is named."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from lakekit.errors import ColumnNotFound, DatabaseNotFound, LakekitError, SchemaMismatch, SqlError, TableAlreadyExists, TableNotFound, TagNotFound, Unsupported

COLUMNS = {"id": "INT NOT NULL", "day": "DATE", "total": "DECIMAL(10, 2)", "note": "STRING", "r": "ROW<a INT, b STRING>"}
PLACE = re.compile(r"line (?P<line>\d+), column (?P<column>\d+): ")
PLACED = (SqlError, ColumnNotFound, TableNotFound, DatabaseNotFound, Unsupported)


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("house"))
    made.create_database("d")
    made.create_table("d.orders", COLUMNS, primary_keys=["id"])
    made.create_table("d.s", {"id": "INT", "w": "INT"})
    made.sql("USE d")
    return made


def error_of(call):
    """The error of a call, a LazyFrame's of its computation; None where there is none."""
    try:
        answer = call()
        if hasattr(answer, "collect"):
            answer.collect()
    except LakekitError as wrong:
        return wrong
    return None


def pointed(wrong):
    """What stands in the message over the caret and behind it, after a check that line, column and caret agree."""
    place = PLACE.search(str(wrong))
    assert place is not None, str(wrong)
    lines = str(wrong).splitlines()
    (caret,) = (at for at, line in enumerate(lines) if re.fullmatch(r" *\^", line))
    assert int(place["column"]) >= 1
    return lines[caret - 1][lines[caret].index("^") :]


STATEMENTS = [
    ("SELEC * FROM orders", SqlError, "SELEC", "did you mean SELECT?"),
    ("UPDAT orders SET total = 1", SqlError, "UPDAT", "did you mean UPDATE?"),
    ("DELET FROM orders", SqlError, "DELET", "did you mean DELETE?"),
    ("USEE d", SqlError, "USEE", "did you mean USE?"),
    ("qqq", SqlError, "qqq", "There are SELECT, CALL"),
    (") ", SqlError, ")", "begins no statement"),
    ("VACUUM", Unsupported, "VACUUM", "there are SELECT, CALL"),
    ("GRANT ALL ON orders TO x", Unsupported, "GRANT", "no statement that is done here"),
    ("SHOW FOO", Unsupported, "FOO", "DATABASES"),
    ("SHOW", SqlError, "", "DATABASES"),
    ("CREATE INDEX i ON orders (id)", Unsupported, "INDEX", "CREATE INDEX is not done"),
    ("CREATE TABLE x (a INTT)", SqlError, "INTT", "INTT is no type"),
    ("CREATE TABLE x (a INT, b DECIMAL(50, 2))", SqlError, "DECIMAL", "1 to 38"),
    ("CREATE VIEW v AS SELEC 1", SqlError, "SELEC", "a query"),
    ("CREATE TABLE orders (a INT)", TableAlreadyExists, "orders", "already"),
    ("CREATE TABLE x (a INT) PARTITIONED BY (b)", ColumnNotFound, "", "there is no column 'b'"),
    ("CALL sys.compct()", Unsupported, "sys.compct", "did you mean sys.compact?"),
    ("ALTER TABLE orders DROP COLUMN idd", ColumnNotFound, "idd", "there are id, day"),
    ("DESCRIBE orders idd", ColumnNotFound, "idd", "it has id, day"),
    ("DROP TABLE d.ordrs", TableNotFound, "ordrs", "did you mean orders?"),
    ("SELECT id FROM e.orders", DatabaseNotFound, "e.orders", "its databases are d"),
    ("USE none", DatabaseNotFound, "none", "there are d"),
    ("DELETE FROM orders WHERE idd = 1", ColumnNotFound, "idd", "Did you mean 'id'?"),
    ("UPDATE orders SET note = 'x',\n  totl = 1", ColumnNotFound, "totl", "Did you mean 'total'?"),
    ("UPDATE orders SET note = nots || 'x'", ColumnNotFound, "nots", "Did you mean 'note'?"),
    ("UPDATE orders SET r.c = 7", ColumnNotFound, "r.c", "there are"),
    ("UPDATE orders SET id = 1", SchemaMismatch, "id = 1", "primary key"),
    ("MERGE INTO orders USING s ON orders.idd = s.id WHEN MATCHED THEN DELETE", ColumnNotFound, "orders.idd", "Did you mean 'id'?"),
    ("MERGE INTO orders USING s ON orders.id = s.id WHEN MATCHED THEN UPDATE SET note = s.ww", ColumnNotFound, "s.ww", "Did you mean 'w'?"),
    ("MERGE INTO orders USING s ON orders.id = s.id WHEN NOT MATCHED THEN INSERT (idd) VALUES (s.id)", ColumnNotFound, "idd", "Did you mean 'id'?"),
    ("INSERT INTO orders (idd) VALUES (1)", SchemaMismatch, "idd", "its columns are id"),
    ("ALTER TABLE d.orders DROP COLUMN d", ColumnNotFound, "d", "there are id, day"),
    ("INSERT INTO orders (id, ID) VALUES (1, 2)", SqlError, "ID", "named twice"),
    ("ALTER TABLE orders DELETE TAG x", TagNotFound, "x", "no tags"),
    ("SELECT id FROM orders WHERE sum(id) > 1", SqlError, "", "aggregates"),
    ("SELECT id FROM s UNION SELECT id, w FROM s", SqlError, "", "same number"),
]


@pytest.mark.parametrize(("text", "kind", "place", "hint"), STATEMENTS, ids=[text for text, *_ in STATEMENTS])
def test_statements(cat, text, kind, place, hint):
    wrong = error_of(lambda: cat.sql(text))
    assert type(wrong) is kind
    assert hint in str(wrong)
    if place or isinstance(wrong, SqlError):
        assert pointed(wrong).startswith(place)


@pytest.mark.parametrize(
    ("text", "place", "name"),
    [("idd = 1", "idd", "idd"), ("1 = 1\n AND nots = 'x'", "nots", "nots"), ("orders.idd > 2", "orders.idd", "orders.idd"), ("length(q) > 1", "q)", "q")],
)
def test_conditions_and_values(cat, text, place, name):
    orders, source = cat["d.orders"], cat["d.s"].scan()
    for argument, call in {
        "where=": lambda: orders.delete(text),
        "expr=": lambda: orders.explain(text),
        "set['note']": lambda: orders.update({"note": text}, where="true"),
        "on=": lambda: orders.merge(source, lk.when_matched(delete=True), on=text),
        "when_matched(where)=": lambda: orders.merge(source, lk.when_matched(delete=True, where=text), on="t.id = s.id"),
        "when_not_matched(insert)['note']": lambda: orders.merge(source, lk.when_not_matched(insert={"id": "s.id", "note": text}), on="t.id = s.id"),
    }.items():
        wrong = error_of(call)
        assert type(wrong) is ColumnNotFound
        assert wrong.name in (name, name.partition(".")[0])
        assert str(wrong).startswith(f"{argument} for d.orders: line {1 + text.count(chr(10))}, column ")
        assert pointed(wrong).startswith(place)


def test_a_column_called_as_the_database_is_pointed_at(cat):
    wrong = error_of(lambda: cat.sql("ALTER TABLE d.orders DROP COLUMN d"))
    assert PLACE.search(str(wrong))["column"] == "34"


def test_the_failure_of_one_of_several_says_which_ran(cat):
    wrong = error_of(lambda: cat.sql("SELECT 1;\nSHOW TABLES;\nSHOW 2; SELECT 3"))
    assert "line 3, column 6: " in str(wrong)
    assert str(wrong).endswith("In statement 3 of 4; these ran and stay done: 1: SELECT 1; 2: SHOW TABLES")


def test_a_word_that_begins_no_statement_is_found_before_one_runs(cat):
    wrong = error_of(lambda: cat.sql("SELECT 1;\nSHOW TABLES;\nSELEC 2; SELECT 3"))
    assert "line 3, column 1: 'SELEC' begins no statement; did you mean SELECT?" in str(wrong)
    assert str(wrong).endswith("In statement 3 of 4; none of them ran")


TEXTS = [
    "SELECT o.id, count(*) AS n FROM orders o JOIN d.s ON o.id = s.id WHERE o.note LIKE 'a%' GROUP BY o.id ORDER BY n DESC LIMIT 3",
    "WITH a AS (SELECT id FROM s) SELECT CASE WHEN id > 1 THEN 'x' ELSE \"id\"::STRING END FROM a",
    "UPDATE orders SET note = upper(note) || 'x', total = total * 1.5 WHERE id BETWEEN 1 AND 7 AND r.a IS NOT NULL",
    (
        "MERGE INTO orders USING (SELECT id, w FROM s) AS q ON orders.id = q.id WHEN MATCHED AND q.w > 1 THEN UPDATE SET note = 'y' "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (q.id)"
    ),
    "INSERT INTO orders (id, day, note) VALUES (1, DATE '2024-01-05', 'it''s'), (2, NULL, DEFAULT)",
    "CREATE TABLE IF NOT EXISTS orders (a INT NOT NULL COMMENT 'x', b DECIMAL(10, 2), PRIMARY KEY (a) NOT ENFORCED) WITH ('bucket' = '2')",
    "ALTER TABLE s ADD COLUMN IF NOT EXISTS w2 INT COMMENT 'x' AFTER id",
    "CALL sys.compact(table => 'd.orders', order_by => 'id')",
    "SELECT * FROM orders /*+ OPTIONS('scan.mode' = 'latest') */ WHERE day = DATE '2024-01-05'",
    "SELECT 1; USE d; SHOW TABLES; DESCRIBE orders",
]


@pytest.mark.long
@pytest.mark.parametrize("text", TEXTS, ids=[text[:20] for text in TEXTS])
def test_a_text_that_is_cut_anywhere_has_a_place(cat, text):
    for stop in range(len(text)):
        wrong = error_of(lambda: cat.sql(text[:stop]))  # noqa: B023 - called at once
        if isinstance(wrong, PLACED):
            assert pointed(wrong) is not None, (text[:stop], str(wrong))


CONDITION = "id = 1 AND note LIKE 'a%' OR CAST(total AS INT) IN (1, 2) AND day > DATE '2024-01-05' AND r.a + 1 < length(note)"
WORDS = (
    *[
        "id",
        "note",
        "idd",
        "r.a",
        "r.q",
        "AND",
        "OR",
        "NOT",
        "(",
        ")",
        ",",
        "=",
        "<",
        "+",
        "'x'",
        "1",
        "2.5",
        "NULL",
        "IN",
        "LIKE",
        "BETWEEN",
        "IS",
        "CAST",
        "AS",
        "INT",
        "length",
        "sum",
        ";",
        "?",
    ],
    "\n",
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.integers(0, len(CONDITION)).map(lambda stop: CONDITION[:stop]),
        st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join),
    )
)
def test_every_error_of_a_condition_has_a_place(cat, text):
    wrong = error_of(lambda: cat["d.orders"].explain(text))
    if wrong is not None and not isinstance(wrong, lk.ValueOutOfRange):
        assert isinstance(wrong, (SqlError, ColumnNotFound, SchemaMismatch))
        pointed(wrong)


def test_a_name_that_differs_by_case_alone_is_named(tmp_path):
    """Paimon's catalogs tell `Orders` from `orders`; DuckDB and Spark do not."""
    cat = lk.connect(tmp_path)
    cat.sql("CREATE DATABASE Shop; USE Shop; CREATE TABLE Orders (ID INT); CREATE TEMPORARY VIEW Some AS SELECT ID FROM Orders")
    assert cat.sql("SELECT id FROM Orders").collect().height == 0
    for text, place, name in (
        ("SELECT id FROM orders", "orders", "Orders"),
        ("DELETE FROM ORDERS", "ORDERS", "Orders"),
        ("INSERT INTO Shop.orders VALUES (1)", "orders", "Orders"),
        ("DROP TABLE Shop.oRders", "oRders", "Orders"),
        ("USE shop", "shop", "Shop"),
        ("SELECT id FROM shop.Orders", "shop.Orders", "Shop"),
        ("DROP VIEW some", "some", "Some"),
    ):
        wrong = error_of(lambda: cat.sql(text))  # noqa: B023 - called at once
        assert f"did you mean {name}? Upper and lower case are different names" in str(wrong)
        assert pointed(wrong).startswith(place)
    with pytest.raises(TableNotFound, match=r"did you mean Orders\? Upper and lower case"):
        cat.table("Shop.orders")


@pytest.mark.parametrize("text", ["MERGE INTO d.orders AS t USING d.s AS s ON t.id = s.id", "MERGE INTO d.orders AS t USING d.s AS s ON t"])
def test_a_merge_without_a_clause_is_told_so(cat, text):
    wrong = error_of(lambda: cat.sql(text))
    assert isinstance(wrong, SqlError)
    assert "a WHEN MATCHED or WHEN NOT MATCHED is missing" in str(wrong)
