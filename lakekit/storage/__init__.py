"""Where files live: one protocol, and the storage that a location asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urlsplit

from lakekit.errors import InvalidOption, Unsupported
from lakekit.storage.local import LocalStorage, absolute

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from lakekit.storage.protocol import Storage

    class PathLike(Protocol):
        """Anything that names a path, as `pathlib.Path` does."""

        def __fspath__(self) -> str: ...


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_OBJECT_STORES = {
    "s3": "S3",
    "s3a": "S3",
    "s3n": "S3",
    "gs": "Google Cloud Storage",
    "abfs": "Azure",
    "abfss": "Azure",
    "az": "Azure",
    "wasb": "Azure",
    "oss": "OSS",
}


def open(location: str | PathLike, storage_options: Mapping[str, Any] | None = None) -> tuple[Storage, str]:  # noqa: A001, ARG001 - options are for stores
    """The storage a location asks for, and the location as that storage's path.

    Plain paths, `pathlib.Path` and `file:` URLs (percent-decoded) are local. Raises `Unsupported` for other schemes, `InvalidOption` for a broken URL.
    """
    text = location if isinstance(location, str) else location.__fspath__()
    if not isinstance(text, str):
        msg = f"a location is a text or a pathlib.Path, found {type(location).__name__}"
        raise TypeError(msg)
    if not text.strip():
        raise InvalidOption("the location is empty; give a table's folder", key="path", value=text)
    found = _SCHEME.match(text)
    if found is None:
        return LocalStorage(), absolute(text)
    scheme = found.group(1).lower()
    if scheme == "file":
        return LocalStorage(), absolute(_path_of_url(text))
    if scheme in _OBJECT_STORES:
        raise Unsupported(
            f"{scheme}:// locations ({_OBJECT_STORES[scheme]}) need the extra lakekit[cloud], which this version has not; read a local copy",
            feature="storage.object",
        )
    raise Unsupported(f"no storage is called {scheme!r} in {text!r}; lakekit reads local paths and file:// URLs", feature=f"storage.{scheme}")


def _path_of_url(url: str) -> str:
    try:
        parts = urlsplit(url.replace("#", "%23").replace("?", "%3F"))
        if parts.netloc not in ("", "localhost"):
            raise InvalidOption(f"{url!r} names the host {parts.netloc!r}; a file URL has none: file:///path", key="path", value=url)
        return unquote_to_bytes(parts.path).decode()
    except UnicodeDecodeError:
        raise InvalidOption(f"{url!r} decodes to bytes that are no text", key="path", value=url) from None
