"""What a text of SQL may be at most, and what of DuckDB's world a query cannot name or is not advised to change."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import lakekit as lk
from lakekit.expressions.parser import MAX_COMMENT_DEPTH, MAX_TOKENS


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lk.Catalog:
    cat = lk.connect(tmp_path_factory.mktemp("lake"))
    cat.create_database("d")
    cat.create_table("d.t", {"id": "BIGINT", "user": "STRING"}).append([{"id": 1, "user": "ann"}])
    return cat


def cpu(lake: lk.Catalog, text: str) -> tuple[float, str]:
    began = time.process_time()
    with pytest.raises(lk.SqlError) as refused:
        lake.sql(text)
    return time.process_time() - began, str(refused.value)


def test_words_of_one_text_are_bounded(lake: lk.Catalog) -> None:
    seconds, message = cpu(lake, "SELECT " + "1+" * 140_000 + "1")
    assert "line 1, column " in message
    assert f"at most {MAX_TOKENS:,} are read" in message
    assert seconds < 10


def test_comments_within_comments_are_bounded(lake: lk.Catalog) -> None:
    seconds, message = cpu(lake, "SELECT 1 AS x " + "/* " * 500_000 + "*/ " * 500_000)
    assert f"more than {MAX_COMMENT_DEPTH} comments are open" in message
    assert f"line 1, column {15 + 3 * MAX_COMMENT_DEPTH}" in message
    assert seconds < 10
    nested = "/* " * MAX_COMMENT_DEPTH + "*/ " * MAX_COMMENT_DEPTH
    assert lake.sql(f"SELECT 1 AS x {nested}").collect().item() == 1
    for text in ("/*" * 100, "/* */" * 100):
        assert lake.sql(f"SELECT '{text}' AS x, 1 AS \"{text}\" -- {text}").collect()["x"].item() == text
    assert lake.sql("SELECT 1 AS x" + "/* a */" * 1000).collect().item() == 1


def test_a_long_condition_is_computed(lake: lk.Catalog) -> None:
    text = " AND ".join(f"id <> {n + 10}" for n in range(5000))
    assert lake.sql(f"SELECT id FROM d.t WHERE {text}").collect().item() == 1


@pytest.mark.parametrize("name", ["user", "current_user", "session_user", "current_role", "current_catalog", "current_schema"])
def test_names_of_the_session_are_refused_in_each_spelling(lake: lk.Catalog, name: str) -> None:
    for spelling in (name, name.upper(), f'"{name}"', f"`{name}`", f"lower({name})"):
        with pytest.raises(lk.LakekitError, match="reads the machine or the session") as refused:
            lake.sql(f"SELECT {spelling} AS x").collect()
        assert isinstance(refused.value, lk.Unsupported)


def test_a_column_may_have_such_a_name(lake: lk.Catalog) -> None:
    assert lake.sql('SELECT user, "user" AS b, t.user AS c FROM d.t AS t').collect().row(0) == ("ann", "ann", "ann")


@pytest.mark.parametrize("text", ["SELECT {# a comment #} 1 AS x", "SELECT 1 {# ' #} AS x", "SELECT 1 {% x %} AS x", "SELECT {{x}} AS x", "{#"])
def test_templates_are_no_sql(lake: lk.Catalog, text: str) -> None:
    with pytest.raises(lk.SqlError):
        lake.sql(text).collect()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT (SELECT * FROM range(3)) AS x", "More than one row returned"),
        ("SELECT list_transform([1], x -> x + 1) AS x", "lambda"),
        ("SELECT 1 % 0 AS x", "Use TRY"),
        ("SELECT " + "1+" * 2000 + "1 AS x", "depth limit of 1000"),
        ("FROM read_csv('https://host/x.csv')", "httpfs"),
        ("COPY (SELECT 1) TO 's3://host/x.csv'", "httpfs"),
    ],
)
def test_no_advice_that_cannot_be_followed(lake: lk.Catalog, text: str, reason: str) -> None:
    with pytest.raises(lk.LakekitError) as refused:
        lake.sql(text, files=True).collect()
    message = str(refused.value).partition("\n    ")[0]
    assert reason in message
    assert [word for word in ("SET ", "INSTALL", "LOAD", "PRAGMA") if word in message] == []


def test_the_package_runs_as_the_command() -> None:
    shown = subprocess.run([sys.executable, "-m", "lakekit", "--version"], capture_output=True, text=True, check=True)
    assert lk.__version__ in shown.stdout
