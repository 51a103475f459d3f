"""Tables whose own bytes name places outside their folder, and folders that must stay as they are."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pyarrow as pa

from lakekit.model import entry_files, manifests
from lakekit.model.entry_files import ManifestBytes
from lakekit.model.manifest_entries import ManifestEntries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

ALLOWED = "lakekit.allowed-locations"
EXTERNAL, STRATEGY = "data-file.external-paths", "data-file.external-paths.strategy"


def set_options(table: Path, options: Mapping[str, str]) -> None:
    """Put options into every schema file of a table, as whoever made its bytes would."""
    for folder, prefix in (("schema", "schema-"), ("_schema", "_schema-")):
        for path in table.glob(f"{folder}/{prefix}*"):
            schema = json.loads(path.read_text(encoding="utf-8"))
            schema["options"] |= options
            path.write_text(json.dumps(schema), encoding="utf-8")


def set_external_paths(table: Path, path_of: Callable[[str], str | None]) -> None:
    """Rewrite every manifest so that a data file lies where `path_of` says of its name; lists and snapshots tell the new sizes."""
    _rewrite(table, "external_path", pa.string(), path_of)


def set_sizes(table: Path, size_of: Callable[[str], int]) -> None:
    """Rewrite every manifest so that a data file has as many bytes as `size_of` says of its name."""
    _rewrite(table, "file_size", pa.int64(), size_of)


def _rewrite(table: Path, column: str, kind: pa.DataType, value_of: Callable[[str], object]) -> None:
    """Rewrite a column of the entries of every manifest by the names of the data files."""
    sizes = {}
    for path in table.glob("manifest/manifest-[0-9a-f]*"):
        found, _ = entry_files.decode_entries([ManifestBytes(path.name, path.read_bytes())])
        values = pa.array([value_of(name) for name in found.column("file_name").to_pylist()], kind)
        at = found.table.schema.get_field_index(column)
        path.write_bytes(entry_files.encode_entries(ManifestEntries(found.table.set_column(at, column, values))))
        sizes[path.name] = path.stat().st_size
    for path in table.glob("manifest/manifest-list-*"):
        listed = manifests.decode_list(path.read_bytes())
        path.write_bytes(manifests.encode_list([replace(file, size_bytes=sizes[file.name]) for file in listed]))
    for path in (*table.glob("snapshot/snapshot-*"), *table.glob("tag/tag-*")):
        snapshot = json.loads(path.read_text(encoding="utf-8"))
        for which in ("base", "delta", "changelog"):
            if snapshot.get(f"{which}ManifestList"):
                snapshot[f"{which}ManifestListSize"] = (table / "manifest" / snapshot[f"{which}ManifestList"]).stat().st_size
        path.write_text(json.dumps(snapshot), encoding="utf-8")


def contents(folder: Path) -> dict[str, str]:
    """Return every entry below a folder with a digest of its bytes; of directories and links, what they are."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = f"link {path.readlink()}" if path.is_symlink() else "directory" if path.is_dir() else sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = kind
    return found


class _Counts(BaseHTTPRequestHandler):
    """Answers every request with SUCCESS, and keeps its first line."""

    def _answer(self) -> None:
        self.server.requests.append(self.requestline)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"result": "SUCCESS"}')

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _answer  # noqa: N815 - the names that the server asks for

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def counting_server() -> Iterator[tuple[str, list[str]]]:
    """A web server on this machine: its address, and the list of requests that it got."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Counts) as server:
        requests: list[str] = []
        server.requests = requests  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()
