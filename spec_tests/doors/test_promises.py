"""What the documents of Paimon promise, and small things beside them, seen by running."""

from __future__ import annotations

import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, TableNotFound
from lakekit.sql.tokenizer import TokenStream


@pytest.fixture
def cat(tmp_path) -> lk.Catalog:
    made = lk.connect(tmp_path / "lake")
    made.create_database("d")
    table = made.create_table("d.t", {"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "1"})
    table.upsert([{"k": 1, "v": 1}])
    made.create_format_table("d.csv", {"a": "INT"}, format="csv")
    return made


def test_format_tables_are_hidden_where_the_catalog_says_so(cat, tmp_path):
    assert set(cat.tables("d")["table"]) == {"t", "csv"}
    hidden = lk.connect(tmp_path / "lake", options={"format-table.enabled": "false"})
    assert hidden.tables("d")["table"].to_list() == ["t"]
    assert hidden.tables(details=True)["table"].to_list() == ["t"]
    assert hidden.sql("SHOW TABLES IN d")["tableName"].to_list() == ["t"]
    assert not hidden.exists("d.csv")
    with pytest.raises(TableNotFound, match=r"format-table\.enabled=false"):
        hidden.table("d.csv")
    with pytest.raises(TableNotFound, match=r"format-table\.enabled=false"):
        hidden.sql("SELECT * FROM d.csv").collect()
    with pytest.raises(InvalidOption, match=r"format-table\.enabled=false"):
        hidden.create_format_table("d.other", {"a": "INT"}, format="csv")
    assert hidden["d.t"].scan().collect().rows() == [(1, 1)]


def test_deletion_vectors_of_a_table_with_rows_are_switched_on_by_the_statements_that_the_refusal_says(cat):
    with pytest.raises(InvalidOption) as refused:
        cat.sql("ALTER TABLE d.t SET ('deletion-vectors.enabled' = 'true')")
    said = str(refused.value).partition("In SQL: ")[2].partition("\n")[0].replace("db.t", "d.t")
    assert len(TokenStream.split(said)) == 3
    cat.sql(said)
    assert cat["d.t"].options["deletion-vectors.enabled"] == "true"
    cat["d.t"].upsert([{"k": 1, "v": 2}])
    assert cat["d.t"].scan().collect().rows() == [(1, 2)]
    assert cat["d.t"].check(deep=True).ok


@pytest.mark.parametrize("statement", ["DESCRIBE d.v", "DESC TABLE d.v", "SHOW COLUMNS IN d.v"])
def test_a_view_is_described(cat, statement):
    cat.sql("CREATE TEMPORARY VIEW d.v AS SELECT k AS a, v + 1 AS b FROM d.t")
    assert cat.sql(statement)["col_name"].to_list() == ["a", "b"]


def test_what_else_is_described(cat):
    cat.sql("CREATE TEMPORARY VIEW d.v AS SELECT k AS a FROM d.t")
    told = dict(cat.sql("DESCRIBE EXTENDED d.v").select("col_name", "data_type").rows())
    assert (told["Type"], told["View Text"]) == ("VIEW", "SELECT k AS a FROM d.t")
    assert "snapshot_id" in cat.sql("DESCRIBE d.`t$snapshots`")["col_name"].to_list()
    with pytest.raises(InvalidOption, match="gives its columns, all of them"):
        cat.sql("DESCRIBE d.v a")
    with pytest.raises(InvalidOption, match=r"d\.v is made of what a table holds, as views"):
        cat.sql("INSERT INTO d.v VALUES (1)")


@pytest.mark.parametrize("nothing", [None, (), []])
def test_no_keys_are_said_in_any_way(cat, tmp_path, nothing):
    assert lk.create(tmp_path / "t", {"a": "INT"}, primary_keys=nothing, partition_keys=nothing).partition_keys == ()
    assert cat.create_table("d.u", {"a": "INT"}, primary_keys=nothing, partition_keys=nothing).primary_keys == ()
    assert cat.create_format_table("d.w", {"a": "INT"}, format="csv", partition_keys=nothing).partition_keys == ()
