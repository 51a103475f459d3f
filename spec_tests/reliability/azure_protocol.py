"""What Azure's blob service would answer: the same objects as `s3_server`, asked for by another protocol."""

from __future__ import annotations

import hashlib
import re
import time
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from spec_tests.reliability.s3_server import Asked, Kept, S3Server

    Answer = tuple[int, bytes, dict[str, str]]

ACCOUNT = "account"


def answer(store: S3Server, asked: Asked, body: bytes, kind: str) -> Answer | None:
    """The answer to a request; None for what S3 answers in the same way. `kind` is the content type of the request."""
    match asked.method, asked.query.get("comp"):
        case "GET", "list":
            return _list(store, asked)
        case "POST", "batch":
            return _batch(store, asked, body, kind)
        case "PUT", "block":
            store.uploads.setdefault(asked.key, {})[_number(asked.query["blockid"])] = body
            return 201, b"", {}
        case "PUT", "blocklist":
            names = [one.text or "" for one in ET.fromstring(body).iter() if one.text and one.text.strip()]
            parts = store.uploads.pop(asked.key)
            return _created(store, asked, b"".join(parts[_number(name)] for name in names))
        case "PUT", None:
            return _created(store, asked, body)
        case "DELETE", None:
            return (202 if _deleted(store, asked.bucket, asked.key) else 404), b"", {}
    return None


def _created(store: S3Server, asked: Asked, data: bytes) -> Answer:
    with store.lock:
        if asked.condition == "*" and not store.ignores_conditions and asked.key in store.buckets[asked.bucket]:
            return 409, b"<?xml version='1.0'?><Error><Code>BlobAlreadyExists</Code><Message>it is there</Message></Error>", {}
        store.put(asked.key, data)
    return 201, b"", {"ETag": f'"{hashlib.md5(data).hexdigest()}"', "Last-Modified": formatdate(usegmt=True)}


def _deleted(store: S3Server, container: str, key: str) -> bool:
    with store.lock:
        return store.buckets[container].pop(key, None) is not None


def _batch(store: S3Server, asked: Asked, body: bytes, kind: str) -> Answer:
    mark = kind.partition("boundary=")[2]
    parts = []
    for number, path in enumerate(re.findall(rb"DELETE (\S+) HTTP/1.1", body)):
        key = unquote(path.decode()).split("/", 3)[3]
        status = "202 Accepted" if _deleted(store, asked.bucket, key) else "404 The specified blob does not exist."
        parts.append(f"--{mark}\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\nx-ms-request-id: 1\r\n\r\n")
    return 202, ("".join(parts) + f"--{mark}--\r\n").encode(), {"Content-Type": f"multipart/mixed; boundary={mark}"}


def _list(store: S3Server, asked: Asked) -> Answer:
    prefix, delimiter, after = asked.query.get("prefix", ""), asked.query.get("delimiter", ""), asked.query.get("marker", "")
    names: dict[str, Kept | None] = {}
    with store.lock:
        kept = dict(store.buckets[asked.bucket])
    for key in sorted(kept):
        rest = key.removeprefix(prefix)
        if key.startswith(prefix):
            deeper = bool(delimiter) and delimiter in rest
            name = prefix + rest.partition(delimiter)[0] + delimiter if deeper else key
            if name > after:
                names[name] = None if deeper else kept[key]
    page = list(names.items())[: store.page_size]
    inside = []
    for name, found in page:
        if found is None:
            inside.append(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>")
            continue
        when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(found.modified))
        facts = f"<Last-Modified>{when}</Last-Modified><Etag>{escape(found.etag)}</Etag><Content-Length>{len(found.data)}</Content-Length>"
        inside.append(f"<Blob><Name>{escape(name)}</Name><Properties>{facts}<Content-Type>x</Content-Type></Properties></Blob>")
    more = f"<NextMarker>{escape(page[-1][0])}</NextMarker>" if len(names) > len(page) else "<NextMarker />"
    return 200, f'<?xml version="1.0"?><EnumerationResults><Blobs>{"".join(inside)}</Blobs>{more}</EnumerationResults>'.encode(), {}


def _number(block: str) -> int:
    return int(hashlib.md5(block.encode()).hexdigest(), 16)
