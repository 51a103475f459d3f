"""A web service is told of partitions that are complete, and no message says more of its address than where it leads."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import lakekit as lk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACTION, URL, PARAMS = "partition.mark-done-action", "partition.mark-done-action.http.url", "partition.mark-done-action.http.params"
ROWS = [{"k": 1, "dt": "2024-01-01"}, {"k": 2, "dt": "2024-01-02"}]


class Service(HTTPServer):
    """Answers what a test says, and writes down what it is told."""

    told: list[dict[str, Any]]
    answer: tuple[int, bytes]


class Answers(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append({**body, "at": self.path, "type": self.headers["Content-Type"]})
        status, said = self.server.answer
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(("127.0.0.1", 0), Answers) as made:
        made.told, made.answer = [], (200, b'{"result": "success", "more": 1}')
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def made(path: Path, service: Service, action: str = "http-report", **more: str) -> lk.Table:
    options = {ACTION: action, URL: f"http://127.0.0.1:{service.server_port}/done?token=s3cret", PARAMS: "key=s3cret", **more}
    return lk.create(path / "shop.db" / "t", {"k": "INT", "dt": "STRING"}, partition_keys=["dt"], options=options)


def told(table: lk.Table, *days: str) -> list[dict[str, Any]]:
    where = {"params": "key=s3cret", "table": "shop.t", "path": table.location, "at": "/done?token=s3cret", "type": "application/json"}
    return [{**where, "partition": f"dt={day}"} for day in days]


def test_a_web_service_is_told(tmp_path: Path, service: Service) -> None:
    """By `partition.mark-done-action.http.url` and `partition.mark-done-action.http.params`."""
    table = made(tmp_path, service)
    table.append(ROWS)
    assert service.told == []
    table.mark_partition_done([{"dt": "2024-01-01"}, {"dt": "2024-01-02"}])
    assert service.told == told(table, "2024-01-01", "2024-01-02")
    assert list((tmp_path / "shop.db" / "t").rglob("_SUCCESS")) == []


def test_at_the_end_of_a_batch_beside_the_file(tmp_path: Path, service: Service) -> None:
    table = made(tmp_path, service, "success-file, http-report", **{"partition.end-input-to-done": "true"})
    table.append(ROWS)
    assert service.told == told(table, "2024-01-01", "2024-01-02")
    assert len(list((tmp_path / "shop.db" / "t").rglob("_SUCCESS"))) == 2
    service.answer = (500, b"")
    with pytest.warns(UserWarning, match="marking partitions done afterwards failed .*answered 500") as warned:
        assert table.append(ROWS[:1]).snapshot_ids == (2,)
    assert not any("s3cret" in str(one.message) for one in warned)


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        (200, b'{"result": "FAILED"}', "the result 'FAILED' where 'SUCCESS' is wanted"),
        (200, b'{"other": 1}', "the result 'None'"),
        (200, b"[1]", "the result 'None'"),
        (200, b"<html>", "is no JSON"),
        (200, b"\xff\xfe\xff", "is no JSON"),
        (403, b"", "answered 403"),
        (302, b"", "answered 302"),
    ],
)
def test_what_is_not_success_is_told(tmp_path: Path, service: Service, status: int, said: bytes, words: str) -> None:
    table = made(tmp_path, service)
    service.answer = (status, said)
    with pytest.raises(lk.LakekitError, match=words) as failed:
        table.mark_partition_done([{"dt": "2024-01-01"}])
    assert f"127.0.0.1:{service.server_port}/done" in str(failed.value)
    assert "s3cret" not in str(failed.value)
    assert len(service.told) == 1, "a redirection leads nowhere"


def test_nobody_is_there(tmp_path: Path, service: Service) -> None:
    table = made(tmp_path, service, **{URL: "http://127.0.0.1:1/done?s3cret"})
    with pytest.raises(lk.LakekitError, match=r"http://127\.0\.0\.1:1/done could not be told that dt=2024-01-01 of shop\.t is complete") as failed:
        table.mark_partition_done([{"dt": "2024-01-01"}])
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize(
    "where", ["", " ", "ftp://s3cret/x", "file:///s3cret", "s3cret", "http://", "http://h:s3cret/", "http://[s3cret/", "http://me:s3cret@h/"]
)
def test_no_address_is_none(tmp_path: Path, service: Service, where: str) -> None:
    table = made(tmp_path, service, "success-file,http-report", **{URL: where})
    with pytest.raises(lk.InvalidOption, match=r"http-report.*partition\.mark-done-action\.http\.url") as failed:
        table.mark_partition_done([{"dt": "2024-01-01"}])
    assert "s3cret" not in str(failed.value)
    assert list((tmp_path / "shop.db" / "t").rglob("_SUCCESS")) == []
