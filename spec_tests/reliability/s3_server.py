"""An object store on 127.0.0.1 for tests: buckets in memory, path style, as strict as the protocol, and as faulty as a test asks.

    with S3Server() as server:
        server.fault = lambda asked: "503" if asked.method == "GET" and ... else None
        lk.create(f"s3://{server.bucket}/t", ..., storage_options=server.options)
        server.count("GET"), server.keys("t/snapshot/")

It knows GET with ranges, HEAD, PUT with If-None-Match and If-Match, multipart uploads, ListObjectsV2 by page, DELETE and DeleteObjects, and refuses anything
else with 501. Requests without the right access key are refused with 403. Each request is kept in `requests`, body left out.

`kind` "gs" and "azure" speak as Google's XML interface and Azure's blob service do, as far as clients of tables ask.

Faults, by name: "503", "500", "429", "403" and "409" answer so and do nothing; "drop" closes the connection before doing anything; "lose" does it and
closes the connection without an answer; "reset" and "lose-reset" are the same by a reset; "lose-500" does it and answers 500; "slow" answers after
`slow_seconds`; "hang" does nothing for `slow_seconds` and closes the connection, "lose-hang" does it first; "cut" sends half of the answer's body; "expired"
and "skew" answer as a store does to an old token, a wrong clock. Where `token` is given, requests must carry that session token; where not, none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import struct
import threading
import time
import uuid
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from spec_tests.reliability import azure_protocol
from spec_tests.reliability.azure_protocol import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Callable

ACCESS_KEY, SECRET_KEY = "AKIDTESTTESTTEST", "canary-secret-of-the-object-store"
_PART = 5 << 20
_XML = '<?xml version="1.0" encoding="UTF-8"?>'


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as it came."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    range: str | None
    condition: str | None
    access_key: str = ""

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and not self.key


@dataclass(frozen=True, slots=True)
class Kept:
    """One object."""

    data: bytes
    etag: str
    modified: float


@dataclass(slots=True)
class S3Server:
    """The store: see the module. `ignores_conditions` answers a conditional PUT as a plain one; `racy` looks first and writes later."""

    kind: str = "s3"
    bucket: str = "lake"
    page_size: int = 1000
    ignores_conditions: bool = False
    racy: bool = False
    slow_seconds: float = 2.0
    access_key: str = ACCESS_KEY
    token: str | None = None
    fault: Callable[[Asked], str | None] | None = None
    buckets: dict[str, dict[str, Kept]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    requests: list[Asked] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)
    port: int = 0
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self.buckets.setdefault(self.bucket, {})
        store = self

        class Handler(_Handler):
            server_of = store

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options, of S3 by the reference's own names."""
        if self.kind == "gs":
            told = {"gcs_base_url": self.endpoint, "disable_oauth": True, "client_email": "", "private_key": SECRET_KEY, "private_key_id": ""}
            return {"google_service_account_key": json.dumps(told), "allow_http": "true"}
        if self.kind == "azure":
            endpoint = f"{self.endpoint}/{ACCOUNT}"
            key = b64encode(SECRET_KEY.encode()).decode()
            return {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": key, "azure_storage_endpoint": endpoint, "allow_http": "true"}
        return {"s3.endpoint": self.endpoint, "s3.access-key": ACCESS_KEY, "s3.secret-key": SECRET_KEY, "s3.path.style.access": "true"}

    def url(self, key: str = "") -> str:
        return f"{'az' if self.kind == 'azure' else self.kind}://{self.bucket}/{key}"

    def keys(self, prefix: str = "") -> list[str]:
        with self.lock:
            return sorted(key for key in self.buckets[self.bucket] if key.startswith(prefix))

    def put(self, key: str, data: bytes) -> None:
        with self.lock:
            self.buckets[self.bucket][key] = Kept(data, f'"{hashlib.md5(data).hexdigest()}"', time.time())

    def data(self, key: str) -> bytes:
        with self.lock:
            return self.buckets[self.bucket][key].data

    def count(self, *methods: str) -> int:
        """Requests of these methods; "LIST" are those of GET that list."""
        names = [("LIST" if asked.is_list else asked.method) for asked in self.requests]
        return sum(name in methods for name in names) if methods else len(names)

    def forget(self) -> None:
        """Counts anew."""
        self.requests.clear()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    server_of: S3Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has above
        """Says nothing."""

    def _serve(self) -> None:
        store = self.server_of
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).removeprefix(f"/{ACCOUNT}/" if store.kind == "azure" else "/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        condition = self.headers.get("If-None-Match") or self.headers.get("If-Match")
        condition = "*" if self.headers.get("x-goog-if-generation-match") == "0" else condition
        found = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization") or "")
        asked = Asked(self.command, bucket, key, query, self.headers.get("Range"), condition, found.group(1) if found else "")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        store.requests.append(asked)
        fault = store.fault(asked) if store.fault is not None else None
        if fault in {"drop", "hang", "reset"}:
            time.sleep(store.slow_seconds if fault == "hang" else 0)
            self._hang_up(resets=fault == "reset")
            return
        if fault == "slow":
            time.sleep(store.slow_seconds)
        if fault in {"503", "500", "429", "403", "409"}:
            self._answer(int(fault), _error("SlowDown" if fault == "503" else "Injected"))
            return
        if fault in {"expired", "skew"}:
            self._answer(*((400, _error("ExpiredToken")) if fault == "expired" else (403, _error("RequestTimeTooSkewed"))))
            return
        if store.kind == "s3" and self.headers.get("x-amz-security-token") != store.token:
            self._answer(400, _error("InvalidToken"))
            return
        known = {"s3": f"Credential={store.access_key}/", "gs": "", "azure": f"SharedKey {ACCOUNT}:"}[store.kind]
        if known not in (self.headers.get("Authorization") or ""):
            self._answer(403, _error("InvalidAccessKeyId"))
            return
        if bucket not in store.buckets:
            self._answer(404, _error("NoSuchBucket"))
            return
        status, data, headers = self._do(asked, body)
        if fault in {"lose", "lose-hang", "lose-reset"}:
            time.sleep(store.slow_seconds if fault == "lose-hang" else 0)
            self._hang_up(resets=fault == "lose-reset")
        elif fault == "cut" and data:
            self._answer(status, data, headers, sent=len(data) // 2)
        elif fault == "lose-500":
            self._answer(500, _error("InternalError"))
        else:
            self._answer(status, data, headers)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - the names that the base class calls

    def _hang_up(self, *, resets: bool = False) -> None:
        self.close_connection = True
        with suppress(OSError):
            if resets:  # closed with nothing lingering, a connection is reset
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                os.close(self.connection.detach())
                return
            self.connection.shutdown(2)

    def _answer(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None, sent: int | None = None) -> None:
        """`sent`: how much of the data goes out before the connection ends; None: all, and it stays."""
        self.send_response(status)
        given = {"Content-Length": str(len(data)), "x-amz-request-id": uuid.uuid4().hex, **(headers or {})}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[:sent])
        if sent is not None:
            self._hang_up()

    def _do(self, asked: Asked, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        store, query = self.server_of, asked.query
        if store.kind == "azure" and (answer := azure_protocol.answer(store, asked, body, self.headers.get("Content-Type") or "")) is not None:
            return answer
        match asked.method, asked.key:
            case "GET", "" if query.get("list-type") == "2":
                return self._list(asked)
            case "POST", "" if "delete" in query:
                return self._delete_many(asked, body)
            case _, "":
                return 501, _error("NotImplemented"), {}
            case "GET" | "HEAD", key:
                return self._read(asked, key)
            case "POST", _ if "uploads" in query:
                name = uuid.uuid4().hex
                store.uploads[name] = {}
                return 200, f"{_XML}<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode(), {}
            case "PUT", _ if "partNumber" in query:
                return self._part(query, body)
            case "POST", key if "uploadId" in query:
                return self._complete(asked, key, body)
            case "DELETE", _ if "uploadId" in query:
                return (204 if store.uploads.pop(query["uploadId"], None) is not None else 404), b"", {}
            case "PUT", key if not query:
                return self._put(asked, key, body)
            case "DELETE", key:
                with store.lock:
                    store.buckets[asked.bucket].pop(key, None)
                return 204, b"", {}
        return 501, _error("NotImplemented"), {}

    def _read(self, asked: Asked, key: str) -> tuple[int, bytes, dict[str, str]]:
        store = self.server_of
        with store.lock:
            found = store.buckets[asked.bucket].get(key)
        if found is None:
            return 404, _error("NoSuchKey"), {}
        headers = {"ETag": found.etag, "Last-Modified": formatdate(found.modified, usegmt=True), "Accept-Ranges": "bytes"}
        if asked.method == "HEAD":
            return 200, b"", {**headers, "Content-Length": str(len(found.data))}
        if asked.range is None:
            return 200, found.data, headers
        size = len(found.data)
        given = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.range)
        assert given is not None
        first, last = given.groups()
        start = int(first) if first else max(0, size - int(last))
        end = min(int(last) if first and last else size - 1, size - 1)
        if start >= size or start > end:
            return 416, _error("InvalidRange"), {"Content-Range": f"bytes */{size}"}
        return 206, found.data[start : end + 1], {**headers, "Content-Range": f"bytes {start}-{end}/{size}"}

    def _refused(self, asked: Asked, key: str) -> bool:
        """Whether a condition of the request does not hold."""
        store = self.server_of
        if store.ignores_conditions or asked.condition is None:
            return False
        there = store.buckets[asked.bucket].get(key)
        if asked.condition == "*":
            return there is not None
        return there is None or there.etag != asked.condition

    def _put(self, asked: Asked, key: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        store = self.server_of
        if store.racy:
            refused = self._refused(asked, key)
            time.sleep(0.02)
            with store.lock:
                if not refused:
                    store.buckets[asked.bucket][key] = Kept(body, f'"{hashlib.md5(body).hexdigest()}"', time.time())
        else:
            with store.lock:
                refused = self._refused(asked, key)
                if not refused:
                    store.buckets[asked.bucket][key] = Kept(body, f'"{hashlib.md5(body).hexdigest()}"', time.time())
        if refused:
            return 412, _error("PreconditionFailed"), {}
        return 200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}

    def _part(self, query: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]]:
        parts = self.server_of.uploads.get(query["uploadId"])
        if parts is None:
            return 404, _error("NoSuchUpload"), {}
        parts[int(query["partNumber"])] = body
        return 200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}

    def _complete(self, asked: Asked, key: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        store = self.server_of
        parts = store.uploads.get(asked.query["uploadId"])
        if parts is None:
            return 404, _error("NoSuchUpload"), {}
        wanted = [int(one.text or "") for one in ET.fromstring(body).iter() if one.tag.endswith("PartNumber")]
        if wanted != sorted(wanted) or any(len(parts[number]) < _PART for number in wanted[:-1]):
            return 400, _error("EntityTooSmall"), {}
        data = b"".join(parts[number] for number in wanted)
        with store.lock:
            if self._refused(asked, key):
                return 412, _error("PreconditionFailed"), {}
            store.uploads.pop(asked.query["uploadId"])
            etag = f'"{hashlib.md5(data).hexdigest()}-{len(wanted)}"'
            store.buckets[asked.bucket][key] = Kept(data, etag, time.time())
        return 200, f"{_XML}<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag></CompleteMultipartUploadResult>".encode(), {}

    def _list(self, asked: Asked) -> tuple[int, bytes, dict[str, str]]:
        store, query = self.server_of, asked.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(int(query.get("max-keys", "1000")), store.page_size)
        with store.lock:
            kept = dict(store.buckets[asked.bucket])
        names: dict[str, Kept | None] = {}
        for key in sorted(kept, key=str.encode):
            if key.startswith(prefix):
                deeper = delimiter is not None and delimiter in key[len(prefix) :]
                name = prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter if deeper and delimiter else key
                if name.encode() > after.encode():
                    names[name] = None if deeper else kept[key]
        page = list(names.items())[:most]
        more = len(names) > most
        inside = [f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"]
        if more:
            inside.append(f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>")
        spelled = (lambda name: quote(name, safe="/")) if query.get("encoding-type") == "url" else escape
        for name, found in page:
            if found is None:
                inside.append(f"<CommonPrefixes><Prefix>{spelled(name)}</Prefix></CommonPrefixes>")
            else:
                when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.modified)) + f".{int(found.modified % 1 * 1000):03d}Z"
                facts = f"<Key>{spelled(name)}</Key><Size>{len(found.data)}</Size><LastModified>{when}</LastModified><ETag>{escape(found.etag)}</ETag>"
                inside.append(f"<Contents>{facts}</Contents>")
        return 200, f"{_XML}<ListBucketResult>{''.join(inside)}</ListBucketResult>".encode(), {"Content-Type": "application/xml"}

    def _delete_many(self, asked: Asked, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        store = self.server_of
        names = [one.text or "" for one in ET.fromstring(body).iter() if one.tag.endswith("Key")]
        with store.lock:
            for name in names:
                store.buckets[asked.bucket].pop(name, None)
        told = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        return 200, f"{_XML}<DeleteResult>{told}</DeleteResult>".encode(), {"Content-Type": "application/xml"}


def _error(code: str) -> bytes:
    return f"{_XML}<Error><Code>{code}</Code><Message>as the test asked</Message></Error>".encode()
