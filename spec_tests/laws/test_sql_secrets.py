"""No password of a statement on any error about it: drawn passwords, places and names of options."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from lakekit.errors import LakekitError, without_logins
from lakekit.options.redaction import excerpt, piece, without_secrets, without_secrets_of
from spec_tests.laws.test_secrets import assert_none, shown_by

if TYPE_CHECKING:
    from pathlib import Path

DRAWS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
URI = "SCHEME://USERPASSWORD@h/x.csv"
PLACES = [
    f"FROM read_csv('{URI}')",
    f"FROM read_csv(['{URI}', 'x.csv'])",
    f"SELECT id FROM read_parquet('{URI}') WHERE id > 5",
    f"COPY (SELECT 1) TO '{URI}'",
    f"COPY d.t TO '{URI}' (FORMAT csv)",
    f"COPY d.t FROM '{URI}'",
    f"CREATE CATALOG c WITH ('warehouse'='{URI}') zz",
    f"CREATE TABLE d.y (a INT) WITH ('path'='{URI}')",
    f"CREATE TABLE d.y (a INT) WITH ('path'='{URI}') zz",
    f"SELECT * FROM '{URI}'",
    f'SELECT * FROM "{URI}"',
    f"SELECT * FROM `{URI}`",
    f"DESCRIBE '{URI}'",
    f"SUMMARIZE '{URI}'",
    f"EXPLAIN FROM '{URI}'",
    f"INSERT INTO '{URI}' VALUES (1)",
    f"CALL sys.clone('{URI}', 'x')",
    f"CALL sys.compact(table => '{URI}')",
    f"ATTACH '{URI}' AS x",
    f"USE '{URI}'",
    f"SET '{URI}' = 1",
    f"DELETE FROM d.t WHERE s = '{URI}' AND",
    f"UPDATE d.t SET id = CAST('{URI}' AS INT)",
    f"SELECT CAST('{URI}' AS INT)",
    f"SELECT '{URI}'::INT, 1",
    f"SELECT nope FROM d.t WHERE s = '{URI}'",
    f"SELECT * FROM d.t /*+ OPTIONS('x'='{URI}') */",
    f"SELECT 1; FROM '{URI}'",
]
PAIRS = [
    "CREATE TABLE d.y (a INT) WITH ('NAME'='PASSWORD') zz",
    "CREATE TABLE d.y (a INT) WITH ('NAME' 'PASSWORD')",
    "CREATE TABLE d.y (a INT) TBLPROPERTIES ('NAME'='PASSWORD', 'bucket'='x')",
    "ALTER TABLE d.t SET ('NAME'='PASSWORD') zz",
    "CREATE CATALOG c WITH ('NAME'='PASSWORD') zz",
    "SELECT * FROM d.t /*+ OPTIONS('NAME'='PASSWORD') */",
    "COPY (SELECT 1) TO '/nowhere/x.parquet' (ENCRYPTION_CONFIG {NAME: 'PASSWORD'})",
    "COPY (SELECT 1) TO '/nowhere/x.parquet' (ENCRYPTION_CONFIG {k: 'PASSWORD'}, COMPRESSION 'no')",
    "FROM read_parquet('/nowhere/x.parquet', encryption_config={k: 'PASSWORD'})",
    "FROM read_parquet('/nowhere/x.parquet', encryption_config => {k: ['PASSWORD']}) WHERE nope",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'PASSWORD')",
    "CREATE SECRET s (TYPE http, BEARER_TOKEN 'PASSWORD')",
    "CREATE SECRET s (TYPE http, EXTRA_HTTP_HEADERS MAP {'Authorization': 'Bearer PASSWORD'})",
    "PRAGMA add_parquet_encryption_key('k', 'PASSWORD')",
]
AGAIN = [
    "SELECT 'PASSWORD' AS x FROM d.t /*+ OPTIONS('NAME'='PASSWORD') */ WHERE (",
    "SELECT nope, 'PASSWORD', 'NAME' = 'PASSWORD' FROM d.t",
    "SELECT s = 'xPASSWORDx', 'NAME' = 'PASSWORD', nope FROM d.t",
    "CREATE TABLE d.y (a INT) COMMENT 'PASSWORD' WITH ('NAME'='PASSWORD') zz",
    "CREATE TABLE d.y (\"PASSWORD\" INT) WITH ('NAME'='PASSWORD') zz",
    "UPDATE d.t SET s = 'PASSWORD' WHERE 'NAME' = 'PASSWORD' AND",
    "INSERT INTO d.t /*+ OPTIONS('NAME'='PASSWORD') */ VALUES (1, 'PASSWORD'",
]
"""Statements in which a password stands a second time, where no name says what it is."""
NAMES = ["pass", "auth.header", "bearer", "password", "s3.secret-key", "footer_key", "header.Authorization", "token", "encryption_config"]
FILE_SIGNS = "abcxyzABCXYZ0123456789/+=:!.-_%#?@"
users = st.sampled_from(["", "u:", "me:", "AKIA0:", "a.b:"])
schemes = st.sampled_from(["s3", "https", "s3a", "hdfs", "abfss", "postgresql", "ftp", "x+y"])
passwords = st.text(FILE_SIGNS, min_size=6, max_size=20).map(lambda text: f"cAnArY{text}")
tokens = st.text("abcxyzABC0123456789+=!.-_%", min_size=6, max_size=20).map(lambda text: f"cAnArY{text}")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lk.Catalog:
    cat = lk.connect(tmp_path_factory.mktemp("lake"))
    cat.create_database("d")
    cat.create_table("d.t", {"id": "BIGINT", "s": "STRING"}).append([{"id": 1, "s": "a"}])
    return cat


def texts_of(cat: lk.Catalog, statement: str, *, files: bool) -> list[str]:
    """What a statement shows where it fails, and what excerpts of it show."""
    texts = [excerpt(statement), excerpt(statement, 20), piece(statement, 5, len(statement)), without_secrets(f"it says: {statement}")]
    try:
        cat.sql(statement, files=files).collect()
    except (LakekitError, TypeError) as failed:
        texts += shown_by(failed)
    return texts


@DRAWS
@given(st.sampled_from(PLACES), schemes, users, st.data(), st.booleans())
def test_users_of_uris(lake: lk.Catalog, caplog: pytest.LogCaptureFixture, form: str, scheme: str, user: str, data: st.DataObject, files: bool) -> None:
    caplog.set_level(logging.DEBUG)
    password = data.draw(passwords if user else tokens)
    statement = form.replace("SCHEME", scheme).replace("USER", user).replace("PASSWORD", password)
    assert_none(password, texts_of(lake, statement, files=files), caplog)


@DRAWS
@given(st.sampled_from(PAIRS), st.sampled_from(NAMES), passwords, st.booleans())
def test_values_of_pairs(lake: lk.Catalog, caplog: pytest.LogCaptureFixture, form: str, name: str, password: str, files: bool) -> None:
    caplog.set_level(logging.DEBUG)
    statement = form.replace("NAME", name).replace("PASSWORD", password)
    assert_none(password, texts_of(lake, statement, files=files), caplog)


@DRAWS
@given(st.sampled_from(AGAIN), st.sampled_from(NAMES), passwords)
def test_values_that_stand_again(lake: lk.Catalog, caplog: pytest.LogCaptureFixture, form: str, name: str, password: str) -> None:
    caplog.set_level(logging.DEBUG)
    statement = form.replace("NAME", name).replace("PASSWORD", password)
    assert_none(password, texts_of(lake, statement, files=False), caplog)


def test_a_caret_points_at_its_place_behind_stars(lake: lk.Catalog) -> None:
    with pytest.raises(LakekitError) as caught:
        lake.sql("SELECT 'hunter22' AS x, 'password' = 'hunter22', nope FROM d.t")
    *_, line, caret = str(caught.value).splitlines()
    assert line.strip() == "SELECT '******' AS x, 'password' = '******', nope FROM d.t"
    assert line[caret.index("^") :].startswith("nope")


@DRAWS
@given(st.text("ab/:@ '", max_size=40), schemes, passwords, st.text("xyz,;) ", max_size=10))
def test_messages_of_libraries(before: str, scheme: str, password: str, after: str) -> None:
    message = f"{before} {scheme}://u:{password}@host/p{after}"
    assert password not in without_secrets(message)
    assert password not in str(lk.NotFound(message, name=message))
    assert password not in str(lk.NotFound(message, name=message).name)
    assert without_logins(without_logins(message)) == without_logins(message)
    statement = f"FROM '{scheme}://u:{password}@host'"
    assert password[:8] not in without_secrets_of(statement, f"{before} no <{password}> and {password[: len(password) // 2 + 3]}…{after}")


@pytest.mark.parametrize(
    "message",
    [
        'Cannot access file "/tmp/x/secret.csv" - file system operations are disabled by configuration',
        'Referenced column "my_secret_x" not found in FROM clause!\nCandidate bindings: "secret", "n"',
        'No files found that match the pattern "/tmp/x/secret.csv"',
        "'default./tmp/x/secret.csv' is no name of a table: there are \"db.t\"",
        "/tmp/x/token: no such file",
        "SELECT 'my secret' AS a, 'other' AS b",
        "SELECT token::VARCHAR, 'x' FROM d.password WHERE x = 'y'",
        "https://host/a@b and s3://bucket/table/x@tag and file:///tmp/a@b",
        "SELECT * FROM shop.orders@v1 WHERE url = 'http://h/x'",
    ],
)
def test_words_of_names_and_paths_leave_the_reason(message: str) -> None:
    assert without_secrets(message) == message
    assert str(LakekitError(message)) == message


def test_show_hides_secret_options(lake: lk.Catalog) -> None:
    made = "CREATE TABLE d.hidden (a INT) WITH ('x.token' = 'cAnArY1', 'place' = 's3://u:cAnArY2@b', 'x' = 'open')"
    lake.sql(made)
    try:
        for statement in ("SHOW TBLPROPERTIES d.hidden", "SHOW TBLPROPERTIES d.hidden ('x.token')", "SHOW CREATE TABLE d.hidden", "DESCRIBE EXTENDED d.hidden"):
            shown = str(lake.sql(statement).collect().rows())
            assert "cAnArY" not in shown, shown
            assert "******" in shown
        assert "'x' = 'open'" in lake.sql("SHOW CREATE TABLE d.hidden").collect().item()
        assert dict(lake.sql("SELECT key, value FROM d.`hidden$options`").collect().rows())["x.token"] == "cAnArY1"
    finally:
        lake.sql("DROP TABLE d.hidden")


def test_a_long_text_is_redacted_in_time() -> None:
    for part in ("secret", "token[", "password='", "://", "://a:", "@://a:/", "x='http://", "token 'a''", "token {'", "'s3://a@b' "):
        text = part * (100_000 // len(part)) + "@"
        assert isinstance(excerpt(text, 50), str)


def test_a_path_is_one(tmp_path: Path) -> None:
    path = f"{tmp_path}/secret/a@b"
    assert lk.StorageFailed(f"{path}: gone", path=path).path == path
