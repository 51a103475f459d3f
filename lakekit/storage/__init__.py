"""Where files live: one protocol, and the storage that a location asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urlsplit

from lakekit import registry
from lakekit.errors import InvalidOption, Unsupported
from lakekit.storage.local import LocalStorage, absolute
from lakekit.storage.store_options import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from lakekit.storage.protocol import Storage

    class PathLike(Protocol):
        """Anything that names a path, as `pathlib.Path` does."""

        def __fspath__(self) -> str: ...


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
NOT_PARTS = frozenset(
    {
        *("credentials", "environment", "folders", "linked", "local", "memory", "probe", "protocol", "put_once", "retry", "store_options"),
        *("together", "turns"),
    }
)
"""Modules of this folder that no location asks for by name."""


def open(location: str | PathLike, storage_options: Mapping[str, Any] | None = None) -> tuple[Storage, str]:  # noqa: A001 - as lk.open
    """The storage a location asks for, and the location as that storage's path.

    Plain paths, `pathlib.Path` and `file:` URLs (percent-decoded) are local; `s3:`, `gs:`, `az:`, `abfss:` and their like are object stores, opened with
    `storage_options` (`store_options` has their names). Raises `Unsupported` for other schemes and without the extra lakekit[cloud], `InvalidOption` for a
    broken URL or options.
    """
    text: object = location.__fspath__() if hasattr(location, "__fspath__") else location
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
    if scheme in SCHEMES:
        found_storage: tuple[Storage, str] = registry.load("storage", "object").open(text, storage_options)
        return found_storage
    raise Unsupported(
        f"no storage is called {scheme!r}; lakekit reads local paths, file:// URLs and object stores: {', '.join(SCHEMES)}",
        feature=f"storage.{scheme}",
    )


def _path_of_url(url: str) -> str:
    try:
        parts = urlsplit(url.replace("#", "%23").replace("?", "%3F"))
        if parts.netloc not in ("", "localhost"):
            raise InvalidOption(f"{url!r} names the host {parts.netloc!r}; a file URL has none: file:///path", key="path", value=url)
        return unquote_to_bytes(parts.path).decode()
    except UnicodeDecodeError:
        raise InvalidOption(f"{url!r} decodes to bytes that are no text", key="path", value=url) from None
