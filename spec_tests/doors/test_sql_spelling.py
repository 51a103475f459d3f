"""A query reaches DuckDB as its user typed it: spellings that sqlglot would change, and places that lakekit replaces."""

from __future__ import annotations

from datetime import date

import duckdb
import pytest

import lakekit as lk
from lakekit.expressions.parser import SqlText, parse_query
from lakekit.sql.query_text import QueryText


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    cat = lk.connect(str(tmp_path_factory.mktemp("lake")))
    cat.create_database("shop")
    cat.sql("CREATE TABLE shop.t (id INT, `order id` INT, d DATE, ts TIMESTAMP(6), v STRING, u STRING)")
    cat.sql(f"INSERT INTO shop.t {ROWS}")
    cat.table("shop.t").create_tag("v1")
    cat.sql("CREATE TABLE shop.s (r ROW<a INT, b ROW<c INT>>); INSERT INTO shop.s SELECT {'a': 1, 'b': {'c': 2}}")
    cat.sql("INSERT INTO shop.t SELECT 9, 9, DATE '2024-09-09', TIMESTAMP '2024-09-09 09:00:00', 'z', 'year'")
    return cat


@pytest.fixture(scope="module")
def con():
    con = duckdb.connect()
    con.execute("CREATE SCHEMA shop; SET TimeZone = 'UTC'")
    con.execute('CREATE TABLE shop.t (id INT, "order id" INT, d DATE, ts TIMESTAMP, v VARCHAR, u VARCHAR)')
    con.execute(f"INSERT INTO shop.t {ROWS}")
    con.execute("INSERT INTO shop.t SELECT 9, 9, DATE '2024-09-09', TIMESTAMP '2024-09-09 09:00:00', 'z', 'year'")
    return con


ROWS = (
    "SELECT * FROM (VALUES (1, 10, DATE '2024-01-31', TIMESTAMP '2024-01-31 10:11:12', 'a''b', 'month'), "
    "(2, NULL, DATE '2024-02-29', TIMESTAMP '2024-02-29 00:00:00', 'x\\y', 'day'), (2147483647, 3, NULL, NULL, NULL, NULL))"
)

AS_DUCKDB = [
    "SELECT DATE '2024-01-31'::VARCHAR",
    "SELECT d::VARCHAR || '!' FROM shop.t ORDER BY id",
    "SELECT d + INTERVAL '2 months ago' FROM shop.t ORDER BY id",
    "SELECT date_trunc(u, ts), date_part(u, ts) FROM shop.t WHERE u IS NOT NULL ORDER BY id",
    "SELECT jaro_winkler_similarity('CRATE', 'TRACE', 0.8), jaro_similarity(v, 'a') FROM shop.t ORDER BY id",
    "SELECT MAP {'a': MAP {'b': 1}}['a']['b'], {'x': [1, 2]}.x[1]",
    "SELECT id IN (1, 2), (id, d) IN ((1, DATE '2024-01-31')) FROM shop.t ORDER BY id",
    "SELECT last(id IGNORE NULLS) OVER (ORDER BY id) FROM shop.t ORDER BY id",
    "SELECT id FROM shop.t ORDER BY id LIMIT 50 %",
    "SELECT id FROM shop.t -- 'a comment' with ; and /* in it\n WHERE /* nested /* comment */ */ id /**/ < 9 /* + */ ORDER BY 1",
    "SELECT/**/id/**/FROM/**/shop.t/**/ORDER/**/BY/**/id -- at the end",
    "SELECT E'a\\'b\\n', $$a'b$$, $tag$x$$y$tag$, 'a''b', 'a\\', x'00ff'",
    "SELECT 1_000 + 1, 1e3, .5, 5. + 1",
    'SELECT "id" AS "a""b", t."order id" FROM shop.t AS t ORDER BY 1',
    "FROM shop.t SELECT id ORDER BY ALL",
    "TABLE shop.t ORDER BY id",
    "SELECT shop.t.id, shop . t . v FROM shop.t WHERE shop.t.id < 5 ORDER BY shop.t.id",
    "SELECT a.id, b.id FROM shop.t a JOIN shop.t AS b ON a.id = b.id - 1 ORDER BY ALL",
    "SELECT x: id, y: v FROM q: shop.t ORDER BY q.id",
    "WITH t AS (SELECT id FROM shop.t) SELECT * FROM t, shop.t AS o WHERE t.id = o.id ORDER BY t.id",
    "SELECT list_transform([1, 2], lambda x: x * 2 + id) FROM shop.t WHERE id < 5 ORDER BY id",
    "SELECT sum(id) FILTER (id < 5) + 1, count(*) - -1 FROM shop.t",
    "SELECT id % 3 + 2 * 2, 7 - 5 % 3, 7 // 2 * 2, -id * 2, 2 ** 3 + 1, id + 1::INT, ~id + 1 FROM shop.t WHERE id < 5 ORDER BY id",
    "SELECT d + 1, d - DATE '2024-01-01', 1 + d, ts - INTERVAL 1 DAY * 2 FROM shop.t ORDER BY id",
    "SELECT [1, 2] + [3], 'a' || 1 + 2, (INTERVAL '1' DAY * 3)::VARCHAR",
    "SELECT id + 1 AS n FROM shop.t WHERE id < 5 GROUP BY id + 1 HAVING id + 1 > 1 ORDER BY id + 1",
    "SELECT (SELECT max(i.id) - o.id FROM shop.t i WHERE i.id < 5) FROM shop.t o WHERE o.id + 1 < 9 ORDER BY o.id",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r ORDER BY n",
    "SELECT CASE WHEN id - 2 > 3 THEN 'it''s' ELSE '/* no */ -- comment' END FROM shop.t ORDER BY id",
    "PIVOT (SELECT id, u FROM shop.t WHERE id < 5) ON u USING count(*)",
    "SELECT * FROM shop.t PIVOT (max(id) FOR u IN ('day', 'month')) ORDER BY v",
    "SELECT typeof(a) FROM (SELECT id::BIGINT + 1 AS a FROM shop.t LIMIT 1)",
]


@pytest.mark.parametrize("text", AS_DUCKDB, ids=lambda text: text[:60])
def test_a_query_means_what_it_means_to_duckdb(cat, con, text):
    right = con.execute(text)
    found = cat.sql(text).lazy().collect()
    assert sorted(found.rows(), key=repr) == sorted(right.fetchall(), key=repr)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("SELECT `order id`, `id` FROM `shop`.`t` WHERE `t`.`id` = 1", [(10, 1)]),
        ("SELECT count(*) FROM shop.t@v1", [(3,)]),
        ("SELECT count(o.id) FROM shop.t@v1 AS o -- tag", [(3,)]),
        ("SELECT count(id) FROM shop.t FOR VERSION AS OF 1", [(3,)]),
        ("SELECT count(o.id) FROM shop.t /*+ OPTIONS('scan.tag-name' = 'v1') */ o", [(3,)]),
        ("SELECT count(id) FROM table_changes('shop.t', 1, 2)", [(1,)]),
        ("SELECT shop.s.r.a, shop.s.r.b.c + 1 FROM shop.s", [(1, 3)]),
        ("SELECT a + b FROM UNNEST([{'a': 1, 'b': 2}]) AS s(a, b)", [(3,)]),
        ("SELECT CAST(NULL AS ARRAY<ROW<a INT, b TIMESTAMP_LTZ(3)>>), CAST('a' AS BYTES), TIME(3) '10:00:00'::VARCHAR", [(None, b"a", "10:00:00")]),
        ("SELECT regexp_like(v, 'a.b'), id - regexp_count(v, 'a') * 1 FROM shop.t WHERE id = 1", [(True, 0)]),
        ("SELECT typeof(id + 1), id + 1, id*id FROM shop.t WHERE id > 100", [("BIGINT", 2147483648, 4611686014132420609)]),
        ("SELECT id+1 -- one\n, id /* x */ - /* y */ -1 FROM shop.t WHERE id > 100", [(2147483648, 2147483648)]),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_what_is_lakekits_own_is_replaced_in_its_place(cat, text, right):
    assert cat.sql(text).lazy().collect().rows() == right


def test_parameters_are_literals_in_their_places(cat):
    text = "SELECT id -?, -?, ?, v = ?, d = ? FROM shop.t WHERE id = ? -- ?"
    found = cat.sql(text, [-5, -7, "a'b -- \\ /*", "a'b", date(2024, 1, 31), 1]).collect()
    assert found.rows() == [(6, 7, "a'b -- \\ /*", True, True)]
    found = cat.sql("SELECT :a + :b, $a FROM shop.t WHERE id = :b", {"a": 2147483647, "b": 1}).collect()
    assert found.rows() == [(2147483648, 2147483647)]
    assert cat.sql("SELECT id FROM shop.t ORDER BY id LIMIT ? OFFSET ?", [1, 1]).collect().rows() == [(2,)]


def test_the_text_of_a_view_is_its_own(cat):
    cat.sql("CREATE TEMPORARY VIEW shop.w AS SELECT id, DATE '2024-01-31'::VARCHAR AS d, id + 1 FROM shop.t -- of t\n ORDER BY id;")
    assert cat.sql('SELECT d, "id + 1" FROM shop.w WHERE id = 1').collect().rows() == [("2024-01-31", 2)]
    assert cat.sql("SELECT o.x FROM shop.w AS o(x, y, z) WHERE o.x > 100").collect().rows() == [(2147483647,)]
    assert cat.sql("TABLE shop.w LIMIT 1").collect().rows() == [(1, "2024-01-31", 2)]
    assert cat.sql("SELECT count(*), max(w.`id + 1`) FROM q: shop.w JOIN shop.w USING (id)").collect().rows() == [(4, 2147483648)]
    cat.sql("CREATE TEMPORARY VIEW shop.x AS SELECT regexp_like(d, '2024') AS y, w.* FROM shop.w")
    assert cat.sql("SELECT regexp_like(v, (SELECT min(`d`) FROM shop.x WHERE y)), +id FROM shop.t WHERE id = 1").collect().to_dicts() == [
        {"regexp_like(v, (SELECT min(`d`) FROM shop.x WHERE y))": False, "+id": 1}
    ]
    assert cat.sql("SELECT `id + 1` FROM shop.w WHERE id > 100", dialect="spark").collect().rows() == [(2147483648,)]


def test_the_query_of_a_copy_is_its_own(cat, tmp_path):
    for text in ("(SELECT id, `v`, id+1 FROM shop.t@v1 -- c\n WHERE id < ? ORDER BY id)", "shop.t", "shop . `t`@v1 /* a */"):
        asked = f"COPY {text} TO '{tmp_path}/copy.csv' (FORMAT csv, HEADER /* of names */) -- end"
        cat.sql(asked, [5] if "?" in text else None, files=True)
        assert (tmp_path / "copy.csv").read_text().startswith("id,v,id+1\n1,a'b,2\n" if "?" in text else "id,order id,d")
    with pytest.raises(lk.SqlError, match="line 2, column 11: "):
        cat.sql(f"COPY (SELECT id,\n max(1) + nope(v) FROM shop.t) TO '{tmp_path}/copy.csv'", files=True)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 \0 FROM shop.t",
        "SELECT * FROM duckdb_settings",
        "SELECT * FROM duckdb_settings()",
        'SELECT * FROM "duckdb_settings"()',
        "SELECT * FROM sqlite_master",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('lakekit_0')",
        "SELECT * FROM lakekit_0",
        "SELECT lakekit_add(1, 2)",
        "WITH lakekit_0 AS (SELECT 1 AS id) SELECT * FROM lakekit_0, shop.t",
        "WITH duckdb_tables AS (SELECT 1) SELECT * FROM shop.t, (SELECT * FROM main.duckdb_tables)",
        "SELECT 1 -- \r FROM getenv('HOME')",
        "SELECT E'\\' || getenv('HOME') || '\\''",
        "SELECT E'\\', getenv('HOME'), '\\'",
        "SELECT U&'\\0027', getenv('HOME')",
        "SELECT $$ $$, getenv('HOME'), $$ $$",
        "SELECT $a$ $b$, getenv('HOME'), $b$ $a$, getenv('X')",
        "SELECT /* /* */ getenv('HOME') */, getenv('HOME')",
        "SELECT 1 # getenv('HOME')",
        "SELECT \"getenv\"('HOME')",
        "SELECT `getenv`('HOME')",
        "SELECT system.main.getenv('HOME')",
        "SELECT 'HOME'.getenv()",
        "SELECT 1; SELECT getenv('HOME')",
        "SELECT getenv\u00a0('HOME')",
        "SELECT \u200bversion()",
        "SELECT current_setting('threads')",
        "SELECT current_user, user",
        "SELECT n'x' getenv, getenv('HOME')",
        "SELECT x'00' || getenv('HOME')",
        "SELECT {{getenv('HOME')}}",
        "SELECT {% getenv('HOME') %}",
        "(DESCRIBE shop.t)",
        "SELECT * FROM (SHOW TABLES)",
        "SELECT * FROM 'file.csv'",
        "SELECT COLUMNS(lambda c: getenv(c) IS NULL) FROM shop.t",
        "PIVOT shop.t ON getenv(v) USING count(*)",
        "PIVOT shop.t ON E'\\'' USING count(*)",
    ],
    ids=lambda text: ascii(text)[:60],
)
def test_what_two_lexers_read_in_two_ways_hides_no_name(cat, text):
    with pytest.raises(lk.LakekitError):
        cat.sql(text).lazy().collect()


def test_edits_of_a_text():
    source = SqlText("SELECT f(a) + b /* c */ FROM `t` ;")
    text = QueryText.of(source, *parse_query(source)[1:])
    text.wrap(7, 15, "", ' AS "x"', rank=1)
    text.wrap(7, 15, "add(", ")", is_sum=True)
    text.replace(11, 14, ", ", is_sum=True)
    text.replace(9, 10, "aa")
    assert text.write() == 'SELECT add(f(aa), b) AS "x"         FROM "t"'
    assert text.write(widens=False) == 'SELECT f(aa) + b AS "x"         FROM "t"'
    assert [text.origin(text.write().index(word)) for word in ("add", "aa", "b", "FROM", '"t"')] == [7, 9, 14, 24, 29]
    text.rewrite(7, 11, "g()")
    assert text.write() == 'SELECT add(g(), b) AS "x"         FROM "t"'
    text.replace(8, 12, "!")
    with pytest.raises(lk.SqlError):
        text.write()


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT id, t.id, x.id FROM shop.t /* id */", 1, 18),
        ("SELECT count(*), id + 1, o.nope FROM shop.t AS o", 1, 26),
        ("SELECT id FROM shop.t -- v\n WHERE nofunc(v) > 1", 2, 8),
        ("SELECT id, /* id */ v + id FROM shop.t WHERE v > 'a'", 1, 23),
        ("SELECT a.id FROM shop.t a, shop.t b WHERE id = 1", 1, 43),
        ("SELECT `id`, `nope` FROM shop.t", 1, 14),
        ("SELECT " + "count(*) + 1, " * 20 + "nope, " + "2, " * 30 + "3 FROM shop.t", 1, 288),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_an_error_of_duckdb_has_its_place_in_the_users_text(cat, text, line, column):
    with pytest.raises(lk.LakekitError, match=rf"line {line}, column {column}: "):
        cat.sql(text).collect()


@pytest.mark.parametrize("word", ["at", "end", "offset", "order", "group", "limit", "desc", "table", "left", "column", "check"])
def test_columns_named_as_words_of_the_grammar_need_no_quotes_where_the_text_is_clear(tmp_path, word):
    cat = lk.connect(tmp_path)
    cat.create_database("d")
    cat.create_table("d.t", {"k": "INT", word: "BIGINT"}).append([{"k": 1, word: 5}, {"k": 2, word: 7}])
    cat.create_view("d.v", f'SELECT k, "{word}" FROM t', temporary=True)
    rows = cat.sql(f"SELECT k, t.{word} + 1 AS n FROM d.t WHERE {word} > 5 AND t.{word} < 9").collect().rows()
    assert rows == [(2, 8)]
    assert cat.sql(f"SELECT v.{word} FROM d.v WHERE v.{word} = 5").collect().rows() == [(5,)]
