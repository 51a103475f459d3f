"""Requests that get lost: what a reading survives, a claim, a listing, a deletion and the probe survive; a claim is in doubt only after as many tries."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lakekit.errors import CommitStateUnknown, StorageFailed
from lakekit.storage import object_store
from lakekit.storage.atomic_write import create_exclusive
from spec_tests.reliability.s3_server import Asked, S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("impatience")

RETRIES = 3
CLAIM = "t/snapshot/snapshot-1"


def opened(server: S3Server, **more: object) -> object_store.ObjectStorage:
    return object_store.open(server.url(), {**server.options, "max_retries": RETRIES, **more})[0]


def probed(server: S3Server, **more: object) -> object_store.ObjectStorage:
    storage = opened(server, **more)
    assert storage.put_if_absent(server.url("t/probed"), b"")
    return storage


def fail_claims(server: S3Server, faults: list[str | None]) -> None:
    """The next claims fail so, one after the other."""
    left = iter(faults)
    server.fault = lambda asked: next(left, None) if asked.method == "PUT" and asked.key == CLAIM else None


def is_claim(asked: Asked) -> bool:
    return asked.method == "PUT" and asked.key == CLAIM


# ---- claims ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["drop", "reset", "lose", "lose-reset", "503", "lose-500", "hang", "lose-hang"])
def test_a_claim_that_is_lost_is_made_again(fault: str, server: S3Server) -> None:
    server.slow_seconds = 0.4
    storage, path = probed(server, timeout="100ms"), server.url(CLAIM)
    fail_claims(server, [fault] * RETRIES)
    assert create_exclusive(storage, path, b"mine")
    assert server.data(CLAIM) == b"mine"
    server.fault = None
    assert not create_exclusive(storage, path, b"theirs")


def test_a_claim_is_in_doubt_after_as_many_tries_as_other_requests(server: S3Server) -> None:
    storage = probed(server)
    tries: dict[str, int] = {}
    for fault in ("reset", "503"):
        server.forget()
        fail_claims(server, [fault] * 99)
        with pytest.raises(CommitStateUnknown, match="nothing is there, and the request may still arrive"):
            create_exclusive(storage, server.url(CLAIM), b"mine")
        tries[fault] = sum(is_claim(asked) for asked in server.requests)
    server.forget()
    server.fault = lambda asked: "503"
    with pytest.raises(StorageFailed):
        storage.read(server.url("t/x"))
    assert tries == dict.fromkeys(tries, server.count("GET"))


def test_a_claim_behind_somebody_elses_is_lost_after_any_number_of_tries(server: S3Server) -> None:
    storage = probed(server)
    for faults in (["reset"], ["reset", "503"], ["503", "drop"]):
        server.put(CLAIM, b"theirs")
        fail_claims(server, list(faults))
        assert not create_exclusive(storage, server.url(CLAIM), b"mine")
        assert server.data(CLAIM) == b"theirs"


@pytest.mark.parametrize("fault", ["expired", "skew", "403"])
def test_a_claim_that_is_answered_with_4xx_is_a_plain_failure(fault: str, server: S3Server) -> None:
    storage = probed(server)
    server.forget()
    server.fault = lambda asked: fault  # reading is refused as well
    with pytest.raises(StorageFailed, match=r"the store answers 40[03]"):
        create_exclusive(storage, server.url(CLAIM), b"mine")
    assert sum(is_claim(asked) for asked in server.requests) == 1


def test_a_claim_that_is_refused_after_a_lost_try_is_in_doubt(server: S3Server) -> None:
    storage = probed(server)
    faults = iter(["reset"])
    server.fault = lambda asked: next(faults, "expired") if is_claim(asked) else None
    with pytest.raises(CommitStateUnknown):
        create_exclusive(storage, server.url(CLAIM), b"mine")


def test_another_claim_under_way_is_waited_for(server: S3Server) -> None:
    storage = probed(server)
    fail_claims(server, ["409", "409"])
    assert create_exclusive(storage, server.url(CLAIM), b"mine")


def test_another_claim_that_never_ends_is_a_plain_failure(server: S3Server) -> None:
    storage = probed(server)
    fail_claims(server, ["409"] * 99)
    with pytest.raises(StorageFailed, match="409"):
        create_exclusive(storage, server.url(CLAIM), b"mine")
    assert not server.keys(CLAIM)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([None, "drop", "reset", "lose", "lose-reset", "503", "lose-500", "403", "expired", "409"]), max_size=6),
    st.lists(st.sampled_from([None, None, "reset", "503", "cut"]), max_size=4),
    st.sampled_from([None, b"theirs", b"mine"]),
)
def test_what_a_claim_says_is_so(shared: S3Server, claims: list[str | None], reads: list[str | None], there: bytes | None) -> None:
    """Drawn answers to the claim and to the reads that settle it: True is ours, False is theirs, a plain failure is nothing, doubt is after a lost try."""
    server = shared
    server.fault = None
    storage = probed(server)
    server.buckets["lake"].pop(CLAIM, None)
    if there is not None:
        server.put(CLAIM, there)
    given_faults, read_faults, made = iter(claims), iter(reads), list[str | None]()

    def fault(asked: Asked) -> str | None:
        if not is_claim(asked):
            return next(read_faults, None)
        made.append(next(given_faults, None))
        return made[-1]

    server.fault = fault
    try:
        outcome: object = create_exclusive(storage, server.url(CLAIM), b"mine")
    except (StorageFailed, CommitStateUnknown) as failed:
        outcome = failed
    server.fault = None
    found = server.data(CLAIM) if server.keys(CLAIM) else None
    assert there is None or found == there, "nothing is overwritten"
    if outcome is True:
        assert found == b"mine"
    elif outcome is False:
        assert found == b"theirs"
    elif isinstance(outcome, CommitStateUnknown):
        assert {*made} & {"drop", "reset", "lose", "lose-reset", "503", "lose-500"} or {*reads} - {None}
        assert len(made) > RETRIES or {*made} & {"403", "expired"} or {*reads} - {None}
    else:
        assert found == there, "a plain failure has done nothing"


@pytest.fixture(scope="module")
def shared() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


# ---- other requests --------------------------------------------------------------------------------------------------------


def requests(storage: object_store.ObjectStorage, server: S3Server) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: storage.read(server.url("d/x")),
        "read a part": lambda: storage.read(server.url("d/x"), 1, 2),
        "read in parts": lambda: storage.read(server.url("d/large"), 0, 9 << 20),
        "stat": lambda: storage.stat(server.url("d/x")),
        "stat a folder": lambda: storage.stat(server.url("d")),
        "list": lambda: storage.list(server.url("d")),
        "put": lambda: storage.put(server.url("d/new"), b"1"),
        "delete": lambda: storage.delete([server.url("d/gone"), server.url("d/new")]),
    }


@pytest.mark.parametrize("fault", ["drop", "reset", "lose", "lose-reset", "503", "lose-500", "cut", "429"])
def test_every_request_survives_what_passes(fault: str, server: S3Server) -> None:
    server.put("d/x", b"12345")
    server.put("d/large", bytes(10 << 20))
    storage = opened(server)
    for name, ask in requests(storage, server).items():
        wanted = ask()
        for at in range(3):  # which request of it fails
            number = count()
            server.fault = lambda asked, number=number, at=at: fault if next(number) == at else None
            assert ask() == wanted, f"{name}, request {at}"
            server.fault = None


@pytest.mark.parametrize("fault", ["503", "drop", "cut"])
def test_a_failure_that_stays_ends(fault: str, server: S3Server) -> None:
    server.put("d/x", b"12345")
    storage = opened(server, max_retries=2)
    server.fault = lambda asked: fault
    for name, ask in requests(storage, server).items():
        server.forget()
        if fault == "cut" and name in {"stat", "put", "stat a folder"}:
            continue
        with pytest.raises(StorageFailed):
            ask()
        assert server.count() <= 12, f"{name} is not made again and again"


def test_the_probe_survives_what_a_reading_survives(server: S3Server) -> None:
    for seed in range(6):
        number = count(seed)
        server.fault = lambda asked, number=number: {3: "reset", 7: "lose-reset", 11: "503", 13: "lose-500"}.get(next(number) % 17)
        object_store._verdicts.clear()
        assert opened(server, max_retries=8).put_if_absent(server.url(f"t/{seed}"), b"1")
    assert [key for key in server.keys("") if "probe" in key] == []


def test_the_probe_sees_a_broken_word_through_faults(server: S3Server) -> None:
    for broken in ("ignores_conditions", "racy"):
        server.ignores_conditions = server.racy = False
        setattr(server, broken, True)
        number = count()
        server.fault = lambda asked, number=number: {3: "reset", 11: "503"}.get(next(number) % 17)
        object_store._verdicts.clear()
        with pytest.raises(NotImplementedError):
            opened(server, max_retries=8).put_if_absent(server.url("t/x"), b"1")
