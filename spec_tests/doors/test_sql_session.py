"""A session keeps what statements leave behind for those after them: the database of USE, catalogs, temporary views."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT, day STRING); INSERT INTO shop.orders VALUES (1, 'mon'), (2, 'tue')")
    return made


def rows(found):
    return sorted((found.collect() if isinstance(found, pl.LazyFrame) else found).rows(), key=repr)


def test_use_holds_from_call_to_call_and_in_no_other_session(cat):
    cat.sql("USE shop")
    assert rows(cat.sql("SELECT id FROM orders")) == [(1,), (2,)]
    other = cat.session()
    with pytest.raises(lk.TableNotFound, match="USE names another"):
        other.sql("SELECT id FROM orders")
    other.sql("USE shop; CREATE TEMPORARY VIEW late AS SELECT id FROM orders WHERE id > 1")
    assert rows(other.sql("SELECT id FROM late")) == [(2,)]
    with pytest.raises(lk.NotFound):
        cat.sql("SELECT id FROM late")


def test_create_catalog_and_use_catalog_hold_from_call_to_call(cat, tmp_path):
    cat.sql(f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/other')")
    cat.sql("USE CATALOG c")
    cat.sql("CREATE DATABASE lab")
    assert lk.connect(tmp_path / "other").databases() == ["lab"]


def test_frames_of_the_caller_are_read_by_their_names(cat):
    eager = pl.DataFrame({"id": [3], "day": ["wed"]}, schema={"id": pl.Int32, "day": pl.String})
    forms = {"eager": eager, "lazy": eager.lazy(), "arrow": eager.to_arrow(), "pandas": eager.to_pandas(), "stream": eager.to_arrow().to_reader()}
    for at, frame in enumerate(forms.values(), 1):
        answer = cat.sql("INSERT INTO shop.orders SELECT id, day FROM df", df=frame)
        assert answer["row_count"].to_list() == [1]
        assert cat["shop.orders"].scan().collect().height == 2 + at
    with pytest.raises(InvalidOption, match="df="):
        cat.sql("SELECT * FROM df", df=7)
    with pytest.raises(lk.NotFound):
        cat.sql("SELECT * FROM df").collect()


def test_a_table_is_asked_by_the_name_self(cat):
    t = cat["shop.orders"]
    assert rows(t.sql("SELECT day FROM self WHERE id > 1")) == [("tue",)]
    assert rows(t.sql("SELECT count(*) AS n FROM self /*+ OPTIONS('scan.snapshot-id'='1') */")) == [(2,)]
    other = pl.DataFrame({"id": [1]}, schema={"id": pl.Int32})
    assert rows(t.sql("SELECT day FROM self JOIN other ON self.id = other.id", other=other)) == [("mon",)]
    for text in ("DELETE FROM self", "SELECT 1; SELECT 2", "SELECT * FROM orders"):
        with pytest.raises(lk.LakekitError):
            t.sql(text).collect()
    assert t.scan().collect().height == 2


def test_an_answer_has_rows_and_is_collected_as_a_query_is(cat):
    answer = cat.sql("SHOW TABLES IN shop")
    assert isinstance(answer, pl.DataFrame)
    assert answer.collect() is answer
    assert answer.lazy().collect().rows() == answer.rows() == [("shop", "orders", False)]
    assert cat.sql("SELECT 1 AS a; SELECT id FROM shop.orders WHERE id = 1").collect().rows() == [(1,)]


def test_a_statement_that_fails_in_the_middle_says_which_ran(cat):
    with pytest.raises(lk.LakekitError) as told:
        cat.sql("CREATE TABLE shop.a (x INT); INSERT INTO shop.a VALUES (1);\nDELETE FROM shop.nope; DROP TABLE shop.orders")
    assert "statement 3 of 4" in str(told.value)
    assert "1: CREATE TABLE shop.a (x INT); 2: INSERT INTO shop.a VALUES (1)" in str(told.value)
    assert cat.exists("shop.orders")
    assert rows(cat.sql("SELECT * FROM shop.a")) == [(1,)]
    with pytest.raises(lk.LakekitError) as told:
        cat.sql("DROP TABLE shop.nope; DROP TABLE shop.orders")
    assert "statement 1 of 2; none ran" in str(told.value)


def test_parameters_of_a_call(cat):
    cat.sql("CALL sys.create_tag(?, ?)", ["shop.orders", "it's"])
    cat.sql("CALL sys.create_tag(table => :t, tag => :tag)", {"t": "shop.orders", "tag": "b"})
    assert sorted(cat["shop.orders"].tags()["tag"]) == ["b", "it's"]


@pytest.mark.parametrize(
    ("text", "values"),
    [("SELECT ?", None), ("SELECT ?", []), ("SELECT ?", [1, 2]), ("SELECT 1", [1]), ("SELECT :a", {"b": 1}), ("SELECT ?", {"a": 1}), ("SELECT $2", [1])],
)
def test_parameters_and_values_fit_together(cat, text, values):
    with pytest.raises(InvalidOption):
        cat.sql(text, values).collect()


def test_parameters_are_bound_in_queries_and_changes(cat):
    assert rows(cat.sql("SELECT id FROM shop.orders WHERE day = ? OR id > ?", ["mon", 1])) == [(1,), (2,)]
    assert rows(cat.sql("SELECT id FROM shop.orders WHERE day = $2 AND id = $1", [1, "mon"])) == [(1,)]
    assert rows(cat.sql("SELECT id, :x AS x FROM shop.orders WHERE id = :id", {"id": 2, "x": "it's; DROP TABLE shop.orders"})) == [
        (2, "it's; DROP TABLE shop.orders")
    ]
    cat.sql(
        "INSERT INTO shop.orders VALUES (?, ?); UPDATE shop.orders SET day = ? WHERE id = ?; DELETE FROM shop.orders WHERE id = ?", [3, "w'ed\\", "\\'x", 1, 2]
    )
    assert rows(cat.sql("SELECT * FROM shop.orders")) == [(1, "\\'x"), (3, "w'ed\\")]
    cat.sql("MERGE INTO shop.orders t USING (SELECT :id AS id) s ON t.id = s.id WHEN MATCHED AND t.id = :id THEN UPDATE SET day = :day", {"id": 3, "day": None})
    assert rows(cat.sql("SELECT * FROM shop.orders")) == [(1, "\\'x"), (3, None)]


VALUES = [None, True, 7, -(2**62), 1.5, -0.0, float("inf"), "it's", Decimal("1.50"), Decimal("-0.001"), date(2024, 3, 31), time(1, 2, 3), b"a\x00"]


@pytest.mark.parametrize("value", [*VALUES, datetime(2024, 3, 31, 12, 0, 0, 5)])  # noqa: DTZ001 - a TIMESTAMP has no zone
def test_a_value_comes_back_as_it_was_given(cat, value):
    found = cat.sql("SELECT ? AS v", [value]).collect().item()
    assert found == value
    assert type(found) is type(value)


def test_a_colon_of_a_struct_or_a_slice_is_no_parameter(cat):
    assert cat.sql("SELECT {'a':id} AS s, [7, 8, 9][1:id] AS l, $day AS d FROM shop.orders WHERE id=:id", {"id": 2, "day": "x"}).collect().rows() == [
        ({"a": 2}, [7, 8], "x")
    ]


def test_a_list_is_the_values_of_in(cat):
    assert rows(cat.sql("SELECT id FROM shop.orders WHERE list_contains(?, id)", [[2, 3]])) == [(2,)]


def test_sparks_texts_are_read_where_the_caller_says_so(cat):
    def do(text, *values):
        return rows(cat.sql(text, *values, dialect="spark"))

    do("""INSERT INTO shop.orders VALUES (3, "it's"), (4, 'a\\'b\\\\c')""")
    assert rows(cat.sql("SELECT day FROM shop.orders WHERE id > 2")) == [("a'b\\c",), ("it's",)]
    assert do('SELECT id FROM shop.orders WHERE day = "it\'s" AND id <=> 3') == [(3,)]
    assert do("SELECT size(array(1, 2)) AS n, id FROM shop.orders WHERE id = ?", [1]) == [(2, 1)]
    assert do("SELECT :x AS x FROM shop.orders WHERE id = :y", {"x": "q", "y": 1}) == [("q",)]
    assert do("SELECT snapshot_id FROM shop.orders$snapshots WHERE snapshot_id > 1") == [(2,)]
    do('CALL sys.create_tag("shop.orders", "v1")')
    assert cat["shop.orders"].tags()["tag"].to_list() == ["v1"]
    with pytest.raises(InvalidOption, match="dialect"):
        cat.sql("SELECT 1", dialect="mysql")
