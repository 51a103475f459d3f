"""Object stores: the laws of a storage over HTTP, options by all their names, claims in doubt, stores that break their word, secrets that are not shown."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from obstore import exceptions as refusals

from lakekit import plugins, storage as storages
from lakekit.errors import CommitStateUnknown, ExtraMissing, InvalidOption, LockLost, StorageFailed, Unsupported
from lakekit.storage import object_store as objects, object_store_options
from lakekit.storage.atomic_write import create_exclusive
from lakekit.storage.object_store_options import Secret
from lakekit.storage.protocol import FileMissing, Storage
from spec_tests.longer import some
from spec_tests.reliability.s3_server import ACCESS_KEY, SECRET_KEY, Asked, S3Server
from spec_tests.storage_suite import LAWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("impatience")


@pytest.fixture(scope="module")
def shared() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


def opened(server: S3Server, **more: object) -> objects.ObjectStorage:
    storage, _ = objects.open(server.url(), {**server.options, "max_retries": 2, **more})
    return storage


@pytest.mark.parametrize("page_size", some([3, 1000], 2))
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws(law: Callable[[Storage, str], None], page_size: int, shared: S3Server) -> None:
    shared.page_size = page_size
    storage, root = storages.open(f"{shared.url(f'{law.__name__}/{page_size}')}//new/", shared.options)
    assert isinstance(storage, Storage)
    assert root == shared.url(f"{law.__name__}/{page_size}/new")
    law(storage, root)
    assert not [key for key in shared.keys("") if "probe" in key], "the probe removes what it wrote"


@pytest.mark.long
@pytest.mark.parametrize("kind", some(["gs", "azure"], 2))
def test_laws_of_other_stores(kind: str) -> None:
    with S3Server(kind=kind, page_size=3) as server:
        for law in LAWS:
            storage, root = storages.open(server.url(f"{law.__name__}/new"), server.options)
            law(storage, root)
        assert not [key for key in server.keys("") if "probe" in key]
        data = bytes(range(256)) * (70 << 10)
        with storage.open_write(f"{root}/large") as file:
            file.write(data)
        assert storage.read(f"{root}/large") == data
        server.ignores_conditions = True
        other, root = storages.open(server.url("t"), {**server.options, "max_retries": 3})
        with pytest.raises(Unsupported, match="If-None-Match"):
            other.put_if_absent(f"{root}/x", b"1")


# ---- places --------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("s3://b/w/t", "s3://b/w/t"),
        ("s3a://b//w///t/", "s3://b/w/t"),
        ("S3N://b/w", "s3://b/w"),
        ("s3:/b/w", "s3://b/w"),
        ("s3://b", "s3://b"),
        ("s3://b/dt=a%2Fb/x y#z?q", "s3://b/dt=a%2Fb/x y#z?q"),
        ("gs://b/t", "gs://b/t"),
        ("az://c/t", "az://c/t"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("oss://b/t", "oss://b/t"),
    ],
)
def test_locations(location: str, path: str) -> None:
    options = {"azure_storage_account_name": "account", "azure_storage_account_key": "AAAA"} if location.startswith("a") else {}
    storage, found = storages.open(location, options)
    assert found == path
    assert storages.open(found, options) == (storage, found), "a location opens again as itself"
    assert storage.polars_path(f"{path}/f.parquet") == f"{path}/f.parquet".replace("oss://", "s3://")


@pytest.mark.parametrize("location", ["s3:///t", "s3://b/../t", "s3://b/./t", "s3://b/a\nb", "s3://key:hidden@b/t", "az://c/t?sig=hidden"])
def test_broken_locations(location: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        storages.open(location)
    assert "hidden" not in str(raised.value) + str(raised.value.value)


def test_paths_of_other_places_are_refused(shared: S3Server) -> None:
    for path in ("/etc/passwd", "file:///etc/passwd", "gs://lake/x", ""):
        with pytest.raises(StorageFailed, match="is no place in s3://lake"):
            opened(shared).read(path)


def test_another_bucket_is_reached_with_the_same_options(shared: S3Server) -> None:
    shared.buckets["other"] = {}
    storage = opened(shared)
    storage.put("s3a://other/x", b"1")
    assert list(shared.buckets["other"]) == ["x"]
    assert storage.polars_path("s3a://other/x") == "s3://other/x"


def test_a_marker_of_a_directory_is_no_file(shared: S3Server) -> None:
    for key in ("marked/", "marked/deep/", "marked/file"):
        shared.put(key, b"")
    storage = opened(shared)
    found = storage.stat(shared.url("marked"))
    assert found is not None
    assert found.is_dir
    assert [(one.name, one.is_dir) for one in storage.list(shared.url("marked"))] == [("deep", True), ("file", False)]


# ---- options -------------------------------------------------------------------------------------------------------------------------------------------

SPELLINGS = [
    {"s3.endpoint": "http://h:1", "s3.access-key": "A", "s3.secret-key": "B", "s3.path.style.access": "true"},
    {"s3a.endpoint": "http://h:1", "s3a.access.key": "A", "s3a.secret.key": "B", "s3a.path.style.access": True},
    {"fs.s3a.endpoint": "http://h:1/", "fs.s3a.access.key": "A", "fs.s3a.secret.key": "B", "s3.path-style-access": "TRUE"},
    {"fs.s3.endpoint": "http://h:1", "fs.s3.accessKeyId": "A", "fs.s3.accessKeySecret": "B", "s3.path-style-access": "1"},
    {"aws_endpoint_url": "http://h:1", "aws_access_key_id": "A", "AWS_SECRET_ACCESS_KEY": "B", "aws_virtual_hosted_style_request": "false"},
    {"endpoint": "http://h:1", "access_key_id": "A", "secret_access_key": "B", "virtual_hosted_style_request": False, "allow_http": True},
]


@pytest.mark.parametrize("given", SPELLINGS, ids=lambda given: next(iter(given)))
def test_every_spelling_is_the_same_option(given: dict[str, object]) -> None:
    config, client = object_store_options.parse_store_options("s3", given).for_store("b")
    assert config == {
        "aws_endpoint_url": "http://h:1",
        "aws_access_key_id": "A",
        "aws_secret_access_key": "B",
        "aws_virtual_hosted_style_request": "false",
    }
    assert client == {"allow_http": "true"}


def test_a_bucket_stands_in_the_endpoint_where_it_is_asked_to() -> None:
    given = {"fs.oss.endpoint": "oss-cn-x.example.com", "fs.oss.accessKeyId": "A", "fs.oss.securityToken": "T"}
    options = object_store_options.parse_store_options("oss", given)
    assert options.for_store("b")[0]["aws_endpoint_url"] == "https://b.oss-cn-x.example.com"
    assert options.for_store("b")[0]["aws_session_token"] == "T"
    storage, _ = storages.open("oss://b/t", {"fs.oss.endpoint": "oss-cn-x.example.com"})
    assert storage.polars_path("oss://b/t/f") == "s3://b/t/f"
    assert storage.polars_path("oss://c/t/f") is None, "Polars is told one endpoint, which is that of the other bucket"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"s3.access-key": "A", "aws_access_key_id": "hidden"}, "are the same option, with different values"),
        ({"s3.accesskey": "hidden"}, "no storage option is called 's3.accesskey'"),
        ({"fs.s3.nonsense": "hidden"}, "no storage option is called"),
        ({"nonsense": "hidden"}, "aws_nonsense"),
        ({"timeout": "bananas"}, "bananas"),
        ({"s3.path.style.access": "perhaps"}, "true or false"),
        ({"max_retries": "many"}, "max_retries"),
        ({"aws_secret_access_key": ["hidden"]}, "found list"),
    ],
)
def test_wrong_options_are_refused_when_a_table_is_opened(given: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidOption, match="storage option") as raised:
        storages.open("s3://b/t", given)
    assert told in str(raised.value)
    assert "hidden" not in str(raised.value) + repr(raised.value.value)


def test_without_obstore_the_refusal_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "lakekit.storage.object_store")
    with pytest.raises(ExtraMissing, match=r"pip install 'lakekit\[cloud\]'") as raised:
        plugins.load("storage", "object-store")
    assert raised.value.feature == "storage.object-store"


def test_no_secret_is_shown(shared: S3Server) -> None:
    storage = opened(shared, aws_session_token="another-canary-token")
    shown = [repr(storage), str(storage), f"{storage.options}", str(dataclasses.asdict(storage)), repr(storage.options.config)]
    for server_says in ("403", "500"):
        shared.fault = lambda asked, said=server_says: said
        for ask in (storage.read, storage.stat, storage.list, storage.size, lambda path: storage.put(path, b"1")):
            with pytest.raises(StorageFailed) as raised:
                ask(shared.url("x"))
            shown += [str(raised.value), repr(raised.value.__context__), repr(raised.value.__cause__)]
            assert raised.value.path == shared.url("x")
    shared.fault = None
    assert not [text for text in shown if SECRET_KEY in text or ACCESS_KEY in text or "another-canary" in text]
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert hash(storage) == hash(opened(shared, aws_session_token="another-canary-token"))
    assert storage != opened(shared, aws_session_token="another-principal"), "what one principal read is kept from another"
    assert (f"{Secret('x')}", repr(Secret("x"))) == ("***", "***")


# ---- what goes wrong ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["503", "500", "429", "drop"])
def test_passing_failures_are_sat_through(fault: str, server: S3Server) -> None:
    storage = opened(server)
    failed = iter([fault] * 2)
    server.put("x", b"12345")
    server.fault = lambda asked: next(failed, None)
    assert storage.read(server.url("x"), 1, 2) == b"23"
    assert server.count("GET") == 3


def test_a_failure_that_stays_says_what_the_store_said(server: S3Server) -> None:
    server.fault = lambda asked: "503"
    with pytest.raises(
        StorageFailed, match=r"s3://lake/x: the store answers 503 Service Unavailable \(SlowDown: as the test asked\), after 2 retries"
    ) as raised:
        opened(server).read(server.url("x"))
    assert not isinstance(raised.value, FileMissing)
    server.fault = lambda asked: "403"
    with pytest.raises(StorageFailed, match=r"403 Forbidden .*Look at the credentials"):
        opened(server).list(server.url("x"))
    assert server.count() == 4, "what does not pass is not asked again"


def test_a_silent_store_runs_into_the_timeout(server: S3Server) -> None:
    server.slow_seconds = 0.6
    server.fault = lambda asked: "slow"
    with pytest.raises(StorageFailed):
        opened(server, timeout="100ms", max_retries=0).read(server.url("x"))


@pytest.mark.parametrize(("root", "told"), [("s3://b", "s3.access-key"), ("gs://b", "GOOGLE_APPLICATION_CREDENTIALS"), ("az://b", "azure_storage_account_key")])
def test_without_credentials_it_is_said_which(root: str, told: str) -> None:
    storage, _ = objects.open(root, {"azure_storage_account_name": "a"} if root.startswith("az") else {})
    text = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: error sending request"
    assert told in storage._translate_failure(f"{root}/t", refusals.GenericError(text)).message


def test_a_store_that_is_not_reached_is_named() -> None:
    storage, _ = objects.open("s3://b", {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key": "A", "s3.secret-key": "B", "max_retries": 0})
    with pytest.raises(StorageFailed, match=r"s3://b/t: the store at http://127\.0\.0\.1:9 gives no answer"):
        storage.read("s3://b/t")


def test_a_bucket_that_is_not_there_is_told(server: S3Server) -> None:
    storage = opened(server)
    for ask in (storage.list, storage.read, lambda path: storage.put(path, b"1"), lambda path: storage.put_if_absent(path, b"1")):
        with pytest.raises(StorageFailed, match="NoSuchBucket"):
            ask("s3://nowhere/t")


# ---- claims --------------------------------------------------------------------------------------------------------------------------------------------------


def claims(server: S3Server, fault: str, times: int = 1) -> objects.ObjectStorage:
    """A storage that has been probed, the next claims of which fail so."""
    storage = opened(server)
    assert storage.put_if_absent(server.url("t/snapshot/snapshot-0"), b"0")
    faults = iter([fault] * times)
    server.fault = lambda asked: next(faults, None) if asked.method == "PUT" and asked.key.endswith("snapshot-1") else None
    return storage


@pytest.mark.long
@pytest.mark.parametrize("fault", ["lose", "lose-500", "drop", "503"])
@pytest.mark.parametrize("times", some([3, 1, 2], 3))
def test_a_claim_whose_answer_was_lost_is_settled_by_reading(fault: str, times: int, server: S3Server) -> None:
    storage, path = claims(server, fault, times), server.url("t/snapshot/snapshot-1")
    if times == 3 and not fault.startswith("lose"):  # three of three tries
        with pytest.raises(CommitStateUnknown, match=r"nothing is there, .*Look before trying again"):
            storage.put_if_absent(path, b"mine")
        return
    assert storage.put_if_absent(path, b"mine")
    assert server.data("t/snapshot/snapshot-1") == b"mine"
    assert not storage.put_if_absent(path, b"theirs")


def test_a_lost_claim_behind_somebody_elses_file_is_lost(server: S3Server) -> None:
    storage, path = claims(server, "503"), server.url("t/snapshot/snapshot-1")
    server.put("t/snapshot/snapshot-1", b"theirs")
    assert not storage.put_if_absent(path, b"mine")
    assert server.data("t/snapshot/snapshot-1") == b"theirs"


def test_a_claim_that_is_refused_for_sure_is_no_doubt(server: S3Server) -> None:
    storage = claims(server, "403", 9)
    with pytest.raises(StorageFailed, match="403 Forbidden"):
        storage.put_if_absent(server.url("t/snapshot/snapshot-1"), b"mine")


def test_a_claim_nobody_can_judge_says_so(server: S3Server) -> None:
    storage = claims(server, "")
    server.fault = lambda asked: "lose" if asked.key.endswith("snapshot-1") else None
    with pytest.raises(CommitStateUnknown, match="it cannot be read either"):
        storage.put_if_absent(server.url("t/snapshot/snapshot-1"), b"mine")


@pytest.mark.parametrize(("broken", "told"), [("ignores_conditions", "ignores If-None-Match"), ("racy", "told . of 8 writers at once")])
def test_a_store_that_breaks_its_word_is_refused_for_claims_and_reads_on(broken: str, told: str, server: S3Server) -> None:
    setattr(server, broken, True)
    storage = opened(server)
    server.put("t/file", b"1")
    for _ in range(2):
        with pytest.raises(Unsupported, match=told) as raised:
            storage.put_if_absent(server.url("t/snapshot/snapshot-1"), b"1")
        assert raised.value.feature == "storage.conditional-put"
        assert "Write through an endpoint with conditional PUT" in str(raised.value)
    assert server.keys() == ["t/file"], "nothing was written, nor left of the probe"
    assert storage.read(server.url("t/file")) == b"1"


def test_a_lock_stands_in_for_a_store_that_breaks_its_word(server: S3Server) -> None:
    server.ignores_conditions = True
    storage, path = opened(server), server.url("t/snapshot/snapshot-1")
    with pytest.raises(Unsupported):
        create_exclusive(storage, path, b"mine")
    asked: list[int] = []
    assert create_exclusive(storage, path, b"mine", check_lock=lambda: asked.append(1))
    assert not create_exclusive(storage, path, b"theirs", check_lock=lambda: asked.append(1))
    assert create_exclusive(storage, path, b"mine", check_lock=lambda: asked.append(1)), "a repeated claim of the winner is true"
    assert (server.data("t/snapshot/snapshot-1"), len(asked)) == (b"mine", 1)

    def lost() -> None:
        raise LockLost("somebody else has it")

    with pytest.raises(LockLost):
        create_exclusive(storage, server.url("t/snapshot/snapshot-2"), b"mine", check_lock=lost)
    assert server.keys("t/") == ["t/snapshot/snapshot-1"]
    for fault, found in (("lose", True), ("drop", None)):
        path = server.url(f"t/snapshot/{fault}")
        server.fault = lambda asked, name=fault: name if asked.method == "PUT" and asked.key.endswith(name) else None
        if found:
            assert create_exclusive(storage, path, b"mine", check_lock=lambda: None)
        else:
            with pytest.raises(CommitStateUnknown):
                create_exclusive(storage, path, b"mine", check_lock=lambda: None)


def test_a_store_is_probed_once(server: S3Server) -> None:
    storage = opened(server)
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda at: storage.put_if_absent(server.url("t/x"), b"%d" % at), range(4))) == 1
    probed = [asked for asked in server.requests if "probe" in asked.key and asked.method == "PUT"]
    assert len(probed) == 2 + 8 * 8
    server.forget()
    assert opened(server).put_if_absent(server.url("t/y"), b"1")
    assert server.count() == 1


def test_a_probe_that_was_cut_short_is_asked_again(server: S3Server) -> None:
    storage = opened(server)
    server.fault = lambda asked: "403" if "probe" in asked.key else None
    with pytest.raises(StorageFailed, match="403"):
        storage.put_if_absent(server.url("t/x"), b"1")
    server.fault = None
    assert storage.put_if_absent(server.url("t/x"), b"1")


# ---- large files -----------------------------------------------------------------------------------------------------------------------------------------


def test_large_files_go_in_parts_and_come_in_parts(server: S3Server) -> None:
    storage, path = opened(server), server.url("large")
    data = bytes(range(256)) * (70 << 10)  # 17.5 MiB
    with storage.open_write(path) as file:
        for start in range(0, len(data), 3 << 20):
            file.write(data[start : start + (3 << 20)])
            assert file.tell() == min(start + (3 << 20), len(data))
        assert server.keys() == []
    assert server.data("large") == data
    assert [asked.query.get("partNumber") for asked in server.requests if asked.method == "PUT"].count(None) == 0
    server.forget()
    assert storage.read(path) == data
    assert storage.read(path, 100, 9 << 20) == data[100 : 100 + (9 << 20)]
    assert all(int(asked.range.split("-")[1]) - int(asked.range[6:].split("-")[0]) < 8 << 20 for asked in server.requests if asked.range)
    server.forget()
    with storage.open_write(server.url("small")) as file:
        file.write(b"1")
    assert server.count() == 1


def test_an_upload_that_is_given_up_leaves_nothing(server: S3Server) -> None:
    with suppress(ZeroDivisionError), opened(server).open_write(server.url("large")) as file:
        file.write(bytes(20 << 20))
        file.write(bytes(1 // len(server.keys())))
    assert server.keys() == []
    assert server.uploads == {}, "no invisible parts that somebody pays for"


def test_an_upload_that_the_store_refuses_is_told(server: S3Server) -> None:
    def full(asked: Asked) -> str | None:
        return "403" if asked.query.get("partNumber") == "2" else None

    server.fault = full
    with pytest.raises(StorageFailed, match="403 Forbidden") as raised, opened(server).open_write(server.url("large")) as file:
        file.write(bytes(30 << 20))
    assert raised.value.path == server.url("large")
    assert (server.keys(), server.uploads) == ([], {})


def test_many_files_are_deleted_in_one_request(server: S3Server) -> None:
    for number in range(50):
        server.put(f"t/{number}", b"1")
    opened(server).delete(server.url(f"t/{number}") for number in range(60))
    assert (server.keys(), server.count("POST"), server.count()) == ([], 1, 1)
