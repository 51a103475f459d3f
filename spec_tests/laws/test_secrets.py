"""No secret on any surface: drawn names, values and places of secrets, and every text that lakekit shows, raises or logs about them."""

from __future__ import annotations

import logging
import pickle
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.options.option import is_secret
from lakekit.options.redaction import excerpt, piece, redact_uri
from lakekit.storage import object_store as objects

DRAWS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
S3 = [
    *("s3.secret-key", "s3a.secret.key", "fs.s3a.secret.key", "aws_secret_access_key", "secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    *("s3.access-key", "fs.s3a.access.key", "aws_access_key_id", "s3.session.token", "aws_session_token", "aws_token", "session_token"),
    *("fs.oss.accessKeySecret", "fs.oss.accessKeyId", "fs.oss.securityToken", "fs.s3.accessKeySecret", "aws_sse_customer_key_base64", "proxy_url"),
]
AZURE = [
    *("fs.azure.account.key.lake.dfs.core.windows.net", "azure_storage_account_key", "account_key", "access_key", "azure_storage_sas_key"),
    *("sas_token", "azure_storage_sas_token", "azure_storage_client_secret", "bearer_token", "azure_storage_token"),
]
GS = ["google_service_account_key", "service_account_key", "token", "bearer_token"]
CATALOG = [*S3, *AZURE[:2], "jdbc.password", "token", "dlf.access-key-secret", "dlf.security-token", "api-key", "x.signature", "a.sas", "fs.azure.sas.c.a"]
OPEN = ["primary-key", "bucket-key", "s3.endpoint", "bucket", "catalog-key", "sequence.field", "user", "s3.path.style.access", "warehouse", "key", "sassy"]
SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/+=@:!.-_%"
canaries = st.text(SIGNS, min_size=6, max_size=20).map(lambda text: f"cAnArY{text}")
INSIDE = 6


def shown_by(wrong: BaseException) -> list[str]:
    """Every text that hangs on an error: its chain, arguments, attributes and the attributes of those."""
    texts: list[str] = []
    todo, seen = [wrong], set[int]()
    while todo:
        error = todo.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        texts += [str(error), repr(error), repr(error.args), repr(vars(error)), "".join(traceback.format_exception(error))]
        for value in vars(error).values():
            with suppress(TypeError):
                texts.append(repr(vars(value)))
        todo += [one for one in (error.__cause__, error.__context__) if one is not None]
    with suppress(Exception):
        texts.append(repr(pickle.dumps(wrong)))
    return texts


def assert_none(canary: str, texts: list[str], log: pytest.LogCaptureFixture) -> None:
    leaks = [text for text in [*texts, log.text] if canary in text or canary[: 6 + INSIDE] in text]
    assert not leaks, leaks[0][:600]


@pytest.fixture(autouse=True)
def verbose(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def test_names_of_secrets_are_known_and_no_others() -> None:
    assert [name for name in {*S3, *AZURE, *GS, *CATALOG} if not is_secret(name)] == []
    assert [name for name in OPEN if is_secret(name)] == []


@DRAWS
@given(st.sampled_from([("s3", S3), ("oss", S3), ("az", AZURE), ("gs", GS)]), st.data(), canaries)
def test_options_of_stores(caplog: pytest.LogCaptureFixture, kind: tuple[str, list[str]], data: st.DataObject, canary: str) -> None:
    scheme, names = kind
    given_names = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    options: dict[str, Any] = dict.fromkeys(given_names, canary)
    options |= {"max_retries": 0, "timeout": "1ms", "connect_timeout": "1ms"}
    if scheme in ("s3", "oss") and data.draw(st.booleans()):
        options["s3.endpoint"] = data.draw(st.sampled_from(["http://127.0.0.1:9", f"http://me:{canary}@h", f"http://h?sig={canary}"]))
    if scheme == "az":
        options["azure_storage_account_name"] = "lake"
    texts: list[str] = []
    try:
        storage, path = objects.open(f"{scheme}://lake/t", options)
        texts += [repr(storage), str(storage), f"{storage.options}", repr(storage.user_options), repr(storage.options.config), repr(vars(type(storage)))]
        cat = lk.connect(f"{scheme}://lake/w", storage_options=options)
        texts += [repr(cat), cat._repr_html_(), repr(cat.storage_options), str(cat.storage_options), f"{cat.storage_options}"]
        for ask in (storage.read, storage.stat, storage.list, lambda at: storage.put_if_absent(at, b"1")):
            try:
                ask(f"{path}/x")
            except LakekitError as failed:
                texts += shown_by(failed)
        lk.open(f"{scheme}://lake/t", storage_options=options)
    except LakekitError as failed:
        texts += shown_by(failed)
    assert_none(canary, texts, caplog)


@DRAWS
@given(st.lists(st.sampled_from(CATALOG), min_size=1, max_size=4, unique=True), canaries)
def test_options_of_catalogs(tmp_path: Path, caplog: pytest.LogCaptureFixture, names: list[str], canary: str) -> None:
    cat = lk.connect(tmp_path, options=dict.fromkeys(names, canary))
    (tmp_path / "d.db").mkdir(exist_ok=True)
    rows = cat["sys.catalog_options"].scan().collect()
    texts = [repr(cat), cat._repr_html_(), repr(cat.options), repr(rows.rows()), rows._repr_html_(), repr(cat["sys.catalog_options"])]
    assert_none(canary, texts, caplog)


URIS = [
    *("postgresql://me:{}@127.0.0.1:9/db", "jdbc:postgresql://me:{}@127.0.0.1:9/db", "postgresql:me:{}@127.0.0.1/db", "mysql://me:{}@127.0.0.1:9/db"),
    *("jdbc:mysql://127.0.0.1:9/db?user=me&password={}", "jdbc:oracle:thin:me/{}@h", "jdbc:oracle:thin:me/{}@//h/x", "{}", "jdbc:{}", "x:{}"),
    *("jdbc:sqlserver://h;password={}", "postgresql://me:{}@h:x/db", "postgresql://127.0.0.1:9/db?sslpassword={}", "thrift://me:{}@127.0.0.1:9"),
    *("jdbc:mysql:address=(host=h)(user=me)(password={})/db", "sqlite:{}@x", "mysql:{}@h", "postgresql://me:{}@[::1/db"),
]


@DRAWS
@pytest.mark.filterwarnings("ignore:option jdbc")
@given(st.sampled_from(URIS), st.sampled_from(["jdbc", "hive"]), canaries)
def test_uris(tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str, metastore: str, canary: str) -> None:
    canary = "".join(sign for sign in canary if sign not in "%&") if "?" in form or ";" in form or "(" in form else canary
    uri = form.format(canary)
    cat = lk.connect(tmp_path, metastore=metastore, uri=uri, options={"jdbc.connectTimeout": "1000"})
    texts = [redact_uri(uri), repr(cat), cat._repr_html_(), repr(cat["sys.catalog_options"].scan().collect().rows())]
    try:
        cat.databases()
    except LakekitError as failed:
        texts += shown_by(failed)
    assert_none(canary, texts, caplog)


STATEMENTS = [
    "CREATE CATALOG c WITH ('type'='paimon', 'warehouse'='{place}', KEY VALUE)",
    "CREATE CATALOG c WITH (KEY VALUE, 'metastore'='jdbc')",
    "CREATE TABLE d.t (a INT, b STRING) TBLPROPERTIES ('bucket'='1', KEY VALUE)",
    "CREATE TABLE d.t (a INT) OPTIONS (KEY VALUE)",
    "ALTER TABLE d.t SET TBLPROPERTIES (KEY VALUE, 'x'='y')",
    "ALTER TABLE d.t SET (KEY VALUE)",
    "SELECT * FROM d.t /*+ OPTIONS(KEY VALUE) */",
    "CREATE DATABASE d2 WITH DBPROPERTIES (KEY VALUE)",
]
WORDS = ["(", ")", ",", "'", '"', "`", "=", " ", ";", " SET ", " WITH ", "x", "1", "--", "/*", "*/", "'x'", "="]


@DRAWS
@given(
    st.sampled_from(STATEMENTS),
    st.sampled_from([name for name in CATALOG if name != "proxy_url"]),
    st.sampled_from([" = ", "=", " => ", " "]),
    st.sampled_from(["'", '"']),
    canaries,
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["insert", "remove", "cut"]), st.sampled_from(WORDS)), max_size=3),
)
def test_statements(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    form: str,
    name: str,
    between: str,
    quote: str,
    canary: str,
    edits: list[tuple[int, str, str]],
) -> None:
    """A statement with up to three faults anywhere but between the key and the secret."""
    whole = f"{quote}{name}{quote}{between}{quote}{canary}{quote}"
    before, after = form.replace("{place}", str(tmp_path / "w")).split("KEY VALUE")
    for place, what, word in edits:
        total = len(before) + len(after)
        at = place % (total + 1)
        text, offset = (before, at) if at <= len(before) else (after, at - len(before))
        changed = {"insert": text[:offset] + word + text[offset:], "remove": text[:offset] + text[offset + 1 :], "cut": text[:offset]}[what]
        before, after = (changed, after) if text is before else (before, changed)
    statement = before + whole + after
    cat = lk.connect(tmp_path)
    (tmp_path / "d.db").mkdir(exist_ok=True)
    texts = [excerpt(statement), *(excerpt(statement, at) for at in range(0, len(statement), 7)), piece(statement, 0, len(statement))]
    texts += [piece(statement, at, at + 40) for at in range(0, len(statement), 11)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            cat.sql(statement)
        except (LakekitError, TypeError) as failed:
            texts += shown_by(failed)
    texts += [str(one.message) for one in told]
    assert_none(canary, texts, caplog)


def test_what_is_no_secret_stays_readable() -> None:
    text = "ALTER TABLE d.t SET ('primary-key'='id' 'bucket'='4', 'token'='abc')"
    assert excerpt(text) == "ALTER TABLE d.t SET ('primary-key'='id' 'bucket'='4', 'token'='******')"
    assert excerpt("SELECT token FROM d.t WHERE password IS NULL") == "SELECT token FROM d.t WHERE password IS NULL"


def test_what_is_pickled_or_serialized_holds_secrets_and_the_readme_says_so() -> None:
    secret = "cAnArY-that-goes-along"
    cat = lk.connect("s3://bucket/w", storage_options={"s3.endpoint": "http://127.0.0.1:9", "s3.access-key": "a", "s3.secret-key": secret})
    assert secret.encode() in pickle.dumps(cat)
    assert secret not in repr(cat)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert "`pickle.dumps(t)` and `t.scan().serialize()` hold" in " ".join(readme.split())
