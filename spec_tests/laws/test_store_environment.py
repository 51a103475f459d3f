"""Options of the environment and given ones take one way, for lakekit's own requests and for Polars'; credentials that change are taken."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import sys
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from lakekit.errors import ExtraMissing, InvalidOption, StorageFailed
from lakekit.storage import object_store as objects, object_store_options
from spec_tests.reliability.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"id": "BIGINT", "v": "STRING"}
ROWS = pl.DataFrame({"id": [1, 2], "v": ["a", "b"]})
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1"}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no profile of the machine that the tests run on."""
    for name in os.environ:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)


def make(server: S3Server, key: str = "t", rows: pl.DataFrame = ROWS) -> lk.Table:
    t = lk.create(server.url(key), COLUMNS, storage_options={**server.options, **({} if server.token is None else {"s3.session.token": server.token})})
    t.append(rows)
    return t


def read(url: str, **options: Any) -> pl.DataFrame:
    return lk.open(url, storage_options={"max_retries": 0, **options}).scan().sort("id").collect()


# ---- where the store is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variables", [("AWS_ENDPOINT_URL",), ("AWS_ENDPOINT_URL_S3",), ("AWS_ENDPOINT",), ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP")])
def test_an_http_endpoint_of_the_environment_is_reached(variables: tuple[str, ...], server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    make(server)
    set_all(monkeypatch, KEYS | {name: "true" if name == "AWS_ALLOW_HTTP" else server.endpoint for name in variables})
    assert read(server.url("t")).equals(ROWS)
    t = lk.create(server.url("new"), COLUMNS)
    t.append(ROWS)
    assert read(server.url("new")).equals(ROWS)


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_a_given_endpoint_wins_over_the_environment(variable: str, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    make(server)
    set_all(monkeypatch, {variable: NOWHERE, "AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other", "AWS_SESSION_TOKEN": "other"})
    assert read(server.url("t"), **server.options).equals(ROWS)


def test_another_endpoint_of_the_environment_is_another_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as one, S3Server() as two:
        make(one)
        make(two, rows=ROWS.reverse().with_columns(v=pl.lit("two")))
        for server, wanted in ((one, ["a", "b"]), (two, ["two", "two"]), (one, ["a", "b"])):
            set_all(monkeypatch, KEYS | {"AWS_ENDPOINT_URL": server.endpoint})
            assert read("s3://lake/t")["v"].to_list() == wanted
        held = lk.open("s3://lake/t")
        set_all(monkeypatch, {"AWS_ENDPOINT_URL": two.endpoint})
        assert held.scan().sort("id").collect()["v"].to_list() == ["two", "two"], "a location means what the environment says when it is read"


def test_other_kinds_take_the_environment_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server(kind="azure") as server:
        make(server)
        names = {"azure_storage_endpoint": "AZURE_STORAGE_ENDPOINT"}
        set_all(monkeypatch, {names.get(key, key.upper()): text for key, text in server.options.items() if key != "allow_http"})
        assert read(server.url("t")).equals(ROWS)
    with S3Server(kind="gs") as server:
        make(server)
        set_all(monkeypatch, {key.upper(): text for key, text in server.options.items() if key != "allow_http"} | {"GOOGLE_ALLOW_HTTP": "true"})
        assert read(server.url("t")).equals(ROWS)


# ---- who asks ------------------------------------------------------------------------------------------------------------------------------


def test_credentials_that_are_set_later_are_taken(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    make(server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    set_all(monkeypatch, {"AWS_ACCESS_KEY_ID": "wrong", "AWS_SECRET_ACCESS_KEY": "wrong"})
    with pytest.raises(StorageFailed):
        read("s3://lake/t")
    set_all(monkeypatch, KEYS)
    assert read("s3://lake/t").equals(ROWS)


def test_a_token_that_is_renewed_is_taken_by_an_open_table(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.token = "token-0"
    make(server)
    set_all(monkeypatch, KEYS | {"AWS_ENDPOINT_URL": server.endpoint, "AWS_SESSION_TOKEN": "token-0"})
    t = lk.open("s3://lake/t")
    for number in (1, 2):
        server.token = f"token-{number}"
        server.access_key = f"KEY{number}"
        set_all(monkeypatch, {"AWS_SESSION_TOKEN": server.token, "AWS_ACCESS_KEY_ID": server.access_key})
        t.append(ROWS)
        assert t.scan().collect().height == 2 + 2 * number
        assert lk.open("s3://lake/t").scan().collect().height == 2 + 2 * number
    again = pickle.loads(pickle.dumps(t))
    assert b"token-2" not in pickle.dumps(t), "what the environment says stays in this process"
    assert again.scan().collect().height == 6


@pytest.mark.parametrize("sets_token", [False, True])
def test_a_profile_gives_what_it_has(sets_token: bool, server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.token = "t0" if sets_token else None
    make(server)
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "config").write_text(f"[default]\nregion=us-east-1\n[profile lake]\nregion = us-east-1\nendpoint_url = {server.endpoint}\n")

    def write(key: str, token: str | None) -> None:
        text = f"[lake]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET_KEY}\n"
        (folder / "credentials").write_text(text + (f"aws_session_token = {token}\n" if token else ""))

    write(ACCESS_KEY, server.token)
    assert read("s3://lake/t", aws_profile="lake").equals(ROWS)
    monkeypatch.setenv("AWS_PROFILE", "lake")
    t = lk.open("s3://lake/t")
    assert t.scan().sort("id").collect().equals(ROWS)
    server.access_key, server.token = "ROTATED", "t1" if sets_token else None
    write("ROTATED", server.token)
    assert t.scan().sort("id").collect().equals(ROWS), "a file that changes is read again"
    t.append(ROWS)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(InvalidOption, match=r"no AWS profile 'nobody' in .*; there are default, lake"):
        lk.open("s3://lake/t")
    set_all(monkeypatch, {"AWS_ACCESS_KEY_ID": "ROTATED", "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "x"})
    if not sets_token:
        assert read("s3://lake/t").height == 4, "keys of the environment win over its profile, as the SDK has it"


def test_the_default_profile_is_taken_as_polars_takes_it(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make(server)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(f"[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    assert read("s3://lake/t").equals(ROWS)


@pytest.mark.parametrize("setting", ["sso_session = s", "role_arn = arn:aws:iam::1:role/r", "credential_process = /bin/false"])
def test_a_profile_that_needs_boto3_says_so(setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text(f"[profile lake]\n{setting}\n[default]\n{setting}\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match=f"'lake' come by {setting.partition(' ')[0]}, which boto3 fetches: pip install boto3") as raised:
        lk.open("s3://lake/t", storage_options={"aws_profile": "lake"})
    assert raised.value.feature == "storage.object"
    objects.open("s3://lake/t", {})  # nobody asked for the default profile: the libraries look further


@pytest.mark.parametrize("variable", ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"])
def test_a_variable_names_the_profile(variable: str, server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make(server)
    (tmp_path / ".aws").mkdir()
    keys = f"aws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n"
    (tmp_path / ".aws/credentials").write_text(f"[lake]\n{keys}[other]\n{keys.replace(ACCESS_KEY, 'OTHER')}")
    set_all(monkeypatch, {"AWS_PROFILE": "other", variable: "lake", "AWS_ENDPOINT_URL": server.endpoint})
    assert read("s3://lake/t").equals(ROWS)


def test_the_older_name_of_a_token_is_taken(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.token = "token-0"
    make(server)
    set_all(monkeypatch, {**KEYS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_SECURITY_TOKEN": "token-0"})
    assert read("s3://lake/t").equals(ROWS)


class Machine(BaseHTTPRequestHandler):
    """The metadata service of a machine, which gives the credentials of its role."""

    def do_PUT(self) -> None:
        self.give(b"token of a session")

    def do_GET(self) -> None:
        role = {"AccessKeyId": "ROLE", "SecretAccessKey": SECRET_KEY, "Token": "token-0", "Expiration": "2099-01-01T00:00:00Z"}
        self.give(b"role" if self.path.endswith("security-credentials/") else json.dumps({"Code": "Success", **role}).encode())

    def give(self, answer: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_the_role_of_a_machine_is_taken(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.token = "token-0"
    make(server)
    server.access_key = "ROLE"
    with ThreadingHTTPServer(("127.0.0.1", 0), Machine) as machine:
        thread = threading.Thread(target=machine.serve_forever)
        thread.start()
        endpoint = f"http://127.0.0.1:{machine.server_port}"
        set_all(monkeypatch, {"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "x"})
        try:
            assert read("s3://lake/t").equals(ROWS)
        finally:
            machine.shutdown()
            thread.join()


def test_boto3_fetches_the_credentials_of_a_container(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The SDK is not needed for the tests: what stands here answers as it does."""
    make(server)
    server.access_key = "CONTAINER"
    frozen = SimpleNamespace(access_key="CONTAINER", secret_key=SECRET_KEY, token=None)
    session = SimpleNamespace(get_credentials=lambda: SimpleNamespace(get_frozen_credentials=lambda: frozen))
    sdk = ModuleType("boto3")
    sdk.__spec__ = ModuleSpec("boto3", None)
    sdk.Session = lambda profile_name: session if profile_name is None else None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "boto3", sdk)
    set_all(monkeypatch, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{NOWHERE}/role", "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "x"})
    assert read("s3://lake/t").equals(ROWS)
    server.access_key = "FILE"
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(f"[default]\naws_access_key_id=FILE\naws_secret_access_key={SECRET_KEY}\n")
    assert read("s3://lake/t").equals(ROWS), "keys of the default profile come before the container's, as the SDK has it"


def test_a_provider_gives_credentials_and_renews_them(server: S3Server) -> None:
    make(server)
    asked: list[int] = []
    expiry: list[int | None] = [None]

    def provider() -> tuple[dict[str, str], int | None]:
        asked.append(1)
        return {"aws_access_key_id": server.access_key, "aws_secret_access_key": SECRET_KEY}, expiry[0]

    place = {"aws_endpoint_url": server.endpoint, "aws_region": "us-east-1"}
    t = lk.open("s3://lake/t", storage_options={**place, "credential_provider": provider})
    assert t.scan().sort("id").collect().equals(ROWS)
    t.append(ROWS)
    assert len(asked) < 6, "an answer is kept"
    assert t.scan().collect().height == 4
    expiry[0] = int(time.time()) + 20
    storage, path = objects.open("s3://lake/t/schema/schema-0", {**place, "credential_provider": partial(provider), "max_retries": 0})
    assert storage.read(path)
    before = len(asked)
    server.access_key = "ANOTHER"
    time.sleep(1.1)
    assert storage.read(path), "what expires soon is asked for again"
    assert len(asked) == before + 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"credential_provider": "x"}, "a function without arguments"),
        ({"credential_provider": dict}, "answers with a tuple"),
        ({"credential_provider": lambda: ({"aws_access_key_id": 1}, None)}, "answers with a tuple"),
        ({"credential_provider": lambda: ({}, None), "s3.access-key": "a"}, "both say who asks"),
        ({"aws_profile": "p", "s3.secret-key": "hidden"}, "both say who asks"),
    ],
)
def test_wrong_credentials_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOption, match=told) as raised:
        lk.open("s3://lake/t", storage_options=options)
    assert "hidden" not in str(raised.value)


def test_a_provider_that_fails_is_told_without_what_it_holds() -> None:
    def provider() -> Any:
        secret = "canary-of-the-provider"
        raise ValueError(f"no answer of {len(secret)} signs")

    with pytest.raises(StorageFailed, match=r"credential_provider .* ValueError") as raised:
        lk.open("s3://lake/t", storage_options={"credential_provider": provider})
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


# ---- endpoints that are none -----------------------------------------------------------------------------------------------


def test_an_address_as_endpoint_of_oss_works(server: S3Server) -> None:
    make(server)
    options = {"fs.oss.endpoint": server.endpoint, "fs.oss.accessKeyId": ACCESS_KEY, "fs.oss.accessKeySecret": SECRET_KEY}
    assert read("oss://lake/t", **options).equals(ROWS)
    with pytest.raises(InvalidOption, match="an IP address; give path style"):
        lk.open("oss://lake/t", storage_options={**options, "s3.path.style.access": "false"})


@pytest.mark.parametrize(
    "endpoint", ["http://[::1", "http://", "http://a b", "http://h:99999", "ftp://h", "http://me:hidden@h", "http://h?sig=hidden", "http://h\n"]
)
@pytest.mark.parametrize("scheme", ["s3", "oss"])
def test_an_endpoint_that_is_no_url_is_refused(scheme: str, endpoint: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        lk.open(f"{scheme}://lake/t", storage_options={"s3.endpoint": endpoint})
    assert "hidden" not in str(raised.value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["s3", "oss", "s3a"]),
    st.text(min_size=1, max_size=12).map(lambda text: text.replace("/", "").replace("@", "") or "b"),
    st.one_of(st.text(max_size=20), st.ip_addresses().map(lambda ip: f"http://[{ip}]:9" if ip.version == 6 else f"http://{ip}:9")),
    st.sampled_from([None, "true", "false"]),
)
def test_whatever_bucket_and_endpoint_nothing_panics(scheme: str, bucket: str, endpoint: str, path_style: str | None) -> None:
    options = {"s3.endpoint": endpoint, "s3.access-key": "a", "s3.secret-key": "b", "s3.path.style.access": path_style, "max_retries": 0}
    try:
        storage, path = objects.open(f"{scheme}://{bucket}/t", options | {"connect_timeout": "1ms", "timeout": "5ms"})
        storage.read(f"{path}/x")
    except (InvalidOption, StorageFailed):
        pass


# ---- the law: one way -------------------------------------------------------------------------------------------------------

_NAMES = {
    "AWS_ENDPOINT_URL": ("s3.endpoint", "aws_endpoint_url"),
    "AWS_ENDPOINT_URL_S3": ("s3.endpoint", "aws_endpoint_url"),
    "AWS_ACCESS_KEY_ID": ("s3.access-key", "aws_access_key_id"),
    "AWS_SECRET_ACCESS_KEY": ("s3.secret-key", "aws_secret_access_key"),
    "AWS_REGION": ("s3.region", "aws_region"),
    "AWS_ALLOW_HTTP": ("allow_http", "allow_http"),
}


@settings(max_examples=400, deadline=None)
@given(st.sets(st.sampled_from(sorted(_NAMES))), st.sets(st.sampled_from(sorted(_NAMES))))
def test_a_variable_is_the_option_of_its_name(in_environment: set[str], are_given: set[str]) -> None:
    def value(variable: str, place: str) -> str:
        return f"http://{place}:1" if "ENDPOINT" in variable else "true" if "HTTP" in variable else f"{place}-{variable}"

    variables = {name: value(name, "environment") for name in in_environment}
    options = {_NAMES[name][0]: value(name, "given") for name in are_given}
    found = object_store_options.parse_store_options("s3", options, variables)
    config, client = found.for_store("b")
    for variable, (spelled, name) in _NAMES.items():
        told = {**config, **client}.get(name)
        if spelled in options:
            assert told == options[spelled], "what is given wins"
        elif variable in variables:
            assert told == variables[variable]
    if (config.get("aws_endpoint_url") or "").startswith("http://"):
        assert client["allow_http"] == "true"
