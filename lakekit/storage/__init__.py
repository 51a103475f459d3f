"""Storages behind one protocol, and the storage of a location."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urlsplit

from lakekit import plugins
from lakekit.errors import InvalidOption, Unsupported
from lakekit.storage.local import LocalStorage, absolute_path
from lakekit.storage.protocol import SCHEMES, SupportsConfinement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Protocol

    from lakekit.storage.protocol import Storage

    class PathLike(Protocol):
        """Anything that names a path, as `pathlib.Path` does."""

        def __fspath__(self) -> str: ...


_URL_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
NOT_PLUGINS = frozenset({
    "atomic_write", "confinement", "environment", "local", "local_files", "memory", "object_store_options",
    "object_store_requests", "protocol",
})  # fmt: skip
"""Modules of this folder that no location asks for by name."""


def open(location: str | PathLike, storage_options: Mapping[str, Any] | None = None) -> tuple[Storage, str]:  # noqa: A001 - as lk.open
    """Return the storage of a location, and the location as that storage's path.

    Plain paths, `pathlib.Path` and `file:` URLs (percent-decoded) are local, and their storage is confined to them
    (`confine`); `s3:`, `gs:`, `az:`, `abfss:` and similar ones are object stores, opened with `storage_options`
    (`object_store_options` has their names).

    Raises `Unsupported` for other schemes, `ExtraMissing` without lakekit[cloud], `InvalidOption` for a broken URL or
    options.
    """
    text: object = location.__fspath__() if hasattr(location, "__fspath__") else location
    if not isinstance(text, str):
        msg = f"a location is a text or a pathlib.Path, found {type(location).__name__}"
        raise TypeError(msg)
    if not text.strip():
        raise InvalidOption("the location is empty; give a table's folder", key="path", value=text)
    scheme_match = _URL_SCHEME.match(text)
    scheme = "file" if scheme_match is None else scheme_match.group(1).lower()
    if scheme == "file":
        path = absolute_path(text if scheme_match is None else _path_of_url(text))
        return LocalStorage().with_roots([path]), path
    if scheme in SCHEMES:
        opened: tuple[Storage, str] = plugins.load("storage", "object-store").open(text, storage_options)
        return opened
    raise Unsupported(
        f"no storage is called {scheme!r}; lakekit reads local paths, file:// URLs and object stores: "
        f"{', '.join(SCHEMES)}",
        feature=f"storage.{scheme}",
    )


def confine(storage: Storage, *roots: str) -> Storage:
    """Return the storage confined to these roots, if it has folders that links could lead out of.

    Other storages are returned unchanged. A root itself may be a link: the caller or the catalog names it. `add_roots`
    adds roots.
    """
    return storage.with_roots(roots) if isinstance(storage, SupportsConfinement) else storage


def add_roots(storage: Storage, roots: Iterable[str]) -> Storage:
    """Return the storage for files below these roots too.

    For example the external roots of a table that the caller or the catalog allows.
    """
    return storage.with_added_roots(roots) if roots and isinstance(storage, SupportsConfinement) else storage


def with_path_cache(storage: Storage) -> Storage:
    """Return the storage for one operation that reads many files; a local one checks each directory once."""
    return storage.with_path_cache() if type(storage) is LocalStorage else storage


def polars_paths(storage: Storage, paths: Sequence[str]) -> list[str]:
    """Return the paths that Polars opens for files that were just checked.

    On a local disk only directories are checked again.
    """
    if isinstance(storage, LocalStorage) and type(storage).polars_path is LocalStorage.polars_path:
        for path in {path.rpartition("/")[0]: path for path in paths}.values():
            storage.polars_path(path)
        return list(paths)
    return [storage.polars_path(path) or path for path in paths]


def _path_of_url(url: str) -> str:
    try:
        parts = urlsplit(url.replace("#", "%23").replace("?", "%3F"))
        if parts.netloc not in ("", "localhost"):
            raise InvalidOption(
                f"{url!r} names the host {parts.netloc!r}; a file URL has none: file:///path", key="path", value=url
            )
        return unquote_to_bytes(parts.path).decode()
    except UnicodeDecodeError:
        raise InvalidOption(f"{url!r} decodes to bytes that are no text", key="path", value=url) from None
