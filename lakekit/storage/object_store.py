"""Files in object stores: S3 and compatible ones, Google Cloud Storage, Azure (extra `cloud`).

    s3://bucket/warehouse/shop.db/orders      a path is a whole URL, so that it can be opened again; the key is what
                                              follows the bucket, unchanged
    s3a:// s3n://                             the same as s3://
    oss://bucket/…                            its S3-compatible endpoint
    gs://bucket/…   az://container/…   abfss://container@account.dfs.core.windows.net/…

There are no directories: one exists as long as a key begins with its name. Stores are consistent: what was put is read
and listed at once. A file is created exclusively by a conditional PUT (`If-None-Match: *`), after
`check_conditional_put` has shown that the store honours it. Requests that fail temporarily are repeated by obstore, or
by `object_store_requests`: exclusive creation too, with the same bytes. So it may meet its own file, and an attempt
that is not clearly acknowledged is settled by reading.

Options and credentials are looked up for each request (`object_store_options.read`): the store's address is fixed when
it is opened; credentials may be renewed. Polars opens Parquet files itself, with the same options.

Source: CATALOGS_AND_STORAGE 2, 2.4, decision S5; RELIABILITY D1, D2.
"""

from __future__ import annotations

import io
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import obstore
from obstore import exceptions as refusals
from obstore.store import S3Store, from_url

from lakekit.errors import CommitStateUnknown, InvalidOption, StorageFailed, Unsupported
from lakekit.options.option import FrozenDict
from lakekit.parallel import parallel_map, start_together
from lakekit.runtime import new_id, new_lock
from lakekit.storage import object_store_options, object_store_requests
from lakekit.storage.object_store_options import StoreOptions
from lakekit.storage.protocol import SCHEME_ALIASES, SCHEMES, ClaimRefused, FileMissing, Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from obstore.store import ObjectStore

    from lakekit.storage.object_store_options import StoreOptions


_WRITER_COUNT = 8
_verdicts: dict[Hashable, str] = {}
"""What was found out of each store: "" of one that keeps its word, else what it did."""
_guard = new_lock()


def check_conditional_put(
    store: Hashable,
    directory: str,
    *,
    create: Callable[[str, bytes], bool | None],
    read: Callable[[str], bytes],
    delete: Callable[[Iterable[str]], None],
) -> None:
    """Raise `Unsupported` for a store that does not create files exclusively.

        one name, twice                 the second must be refused and change nothing
        eight names, eight at a time    at most one of the concurrent creators may succeed, and the file must be its own

    It is checked once per store and process, before the first commit; the files written for it are deleted. A store
    that ignores the condition fails the first test; one that looks first and writes later fails the second. Either
    would lose commits silently.

    `create` returns True for created, False for refused, None for an unclear answer. `directory` may be written to.
    Errors of `read` and `create` are raised, and the next call checks again.
    """
    verdict = _verdicts.get(store)
    if verdict is None:
        with _guard:
            verdict = _verdicts.get(store)
            if verdict is None:
                verdict = _verdicts[store] = _probe_store(directory, create, read, delete)
    if verdict:
        raise Unsupported(
            f"{directory}: this store {verdict}, so that two writers would overwrite each other's commits. Nothing "
            "was committed. Write through an endpoint with conditional PUT (If-None-Match), or through a catalog "
            "with a lock (lk.connect(metastore='jdbc', …)); reading works",
            feature="storage.conditional-put",
            path=directory,
        )


def _probe_store(
    directory: str,
    create: Callable[[str, bytes], bool | None],
    read: Callable[[str], bytes],
    delete: Callable[[Iterable[str]], None],
) -> str:
    probe_id = new_id()
    names = [f"{directory}/.lakekit-probe-{probe_id}-{number}" for number in range(1 + _WRITER_COUNT)]
    try:
        return _check_overwrite(names[0], create, read) or _check_race(names[1:], create, read)
    finally:
        with suppress(StorageFailed):
            delete(names)


def _check_overwrite(name: str, create: Callable[[str, bytes], bool | None], read: Callable[[str], bytes]) -> str:
    create(name, b"first")
    if create(name, b"second") or read(name) != b"first":
        return "ignores If-None-Match and overwrites files that are there"
    return ""


def _check_race(names: list[str], create: Callable[[str, bytes], bool | None], read: Callable[[str], bytes]) -> str:
    def create_all(writer: int) -> list[bool | None]:
        return [create(name, b"%d" % writer) for name in names]

    answers = start_together(create_all, range(_WRITER_COUNT))
    for position, name in enumerate(names):
        winners = [writer for writer in range(_WRITER_COUNT) if answers[writer][position]]
        if len(winners) > 1 or (winners and read(name) != b"%d" % winners[0]):
            return f"told {len(winners)} of {_WRITER_COUNT} writers at once that they created the same file"
    return ""


# ---- object store ------------------------------------------------------------


T = TypeVar("T")

PART_BYTES = 8 << 20
"""What one request of a large file moves."""
FIRST_WAIT, MAX_WAIT, RETRY_TIMEOUT = timedelta(milliseconds=100), timedelta(seconds=10), timedelta(minutes=2)
"""How long a request waits before it is tried again, at first and at most; how long all tries may take."""
_WHOLE_BYTES = 2 * PART_BYTES
_PARTS_AT_ONCE = 4
_FOREIGN_FAILURES = (refusals.BaseError, OSError, ValueError)
_EXISTS_ERRORS = (refusals.AlreadyExistsError, refusals.PreconditionError)
READ_TIMEOUT = "30s"
"""How long Polars waits for the next bytes of an answer, where no option says it; obstore waits as long for the whole
of one.
"""
_STORE_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://|/)([^/]*)(.*)", re.DOTALL)


def open(location: str, options: Mapping[str, Any] | None = None) -> tuple[ObjectStorage, str]:  # noqa: A001 - as storage.open
    """Return the storage of a URL, and the normalized URL. No request is sent.

    Raises `InvalidOption` for a broken URL, unknown or contradictory options, and values that obstore refuses.
    """
    scheme, authority, key = _split_url(location)
    user_options = FrozenDict(
        {
            key: object_store_options.wrap_value(key, value)
            for key, value in (options or {}).items()
            if value is not None
        }
    )
    parsed = object_store_options.read_store_options(scheme, user_options)
    scheme_name = SCHEME_ALIASES.get(scheme, scheme)
    root = f"{scheme_name}://{authority}"
    _open_bucket(root, parsed)
    return ObjectStorage(root, parsed, scheme, user_options), f"{root}/{key}".rstrip("/")


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """A bucket (or container) with its options; equal ones share connections.

    Accepts paths of other buckets of the same kind. `options` are those at the time of opening, `user_options` the part
    that the user gave, `scheme` the one of the URL.
    """

    root: str
    options: StoreOptions = field(repr=False)
    scheme: str = field(repr=False, compare=False)
    user_options: FrozenDict[str, Any] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # without options of the environment: another process reads its own
        return _unpickle, (self.root, self.scheme, self.user_options)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        store, key = self._locate(path)
        if length is not None and length <= 0:
            self.size(path)
            return b""
        if length is not None and length > PART_BYTES:
            length = max(0, min(length, self.size(path) - offset))
            return self._in_parts(path, offset, offset + length)

        def get() -> bytes:
            result = obstore.get(
                store,
                key,
                options={"range": (offset, offset + length)}
                if length is not None
                else {"range": {"offset": offset}}
                if offset
                else {},
            )
            size = result.meta["size"]
            if length is None and size - offset > _WHOLE_BYTES:
                return self._in_parts(path, offset, size)
            return result.bytes().to_bytes()

        try:
            return self._send_repeatable(path, get)
        except StorageFailed as wrong:
            failed = wrong
        if (offset or length is not None) and _may_be_range(failed) and self.size(path) <= offset:
            return b""  # stores refuse a range that begins at the end
        raise failed

    def stat(self, path: str) -> Stat | None:
        store, key = self._locate(path)
        head = self._head(path) if key else None
        if head is None and self._send_repeatable(path, lambda: next(iter(obstore.list(store, key or None)), None)):
            return Stat(path=path, size_bytes=0, modified_ms=0, is_dir=True)
        return head

    def size(self, path: str) -> int:
        stat = self._head(path)
        if stat is None:
            raise FileMissing(f"{path} does not exist", path=path)
        return stat.size_bytes

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def list(self, directory: str) -> list[Stat]:
        store, key = self._locate(directory)
        listed = self._send_repeatable(directory, lambda: obstore.list_with_delimiter(store, key or None))
        inside, base = (f"{key}/" if key else ""), directory.rstrip("/")
        # a marker of the directory itself is spelled as the directory
        files = [
            _to_stat(f"{base}/{item['path'].removeprefix(inside)}", item)
            for item in listed["objects"]
            if item["path"].startswith(inside) and item["path"] != key
        ]
        below = [item.removeprefix(inside) for item in listed["common_prefixes"]]
        return sorted(
            [*files, *(Stat(path=f"{base}/{name}", size_bytes=0, modified_ms=0, is_dir=True) for name in below)],
            key=lambda item: item.path,
        )

    def put(self, path: str, data: bytes) -> None:
        store, key = self._locate(path)
        self._send_request(
            path, lambda: obstore.put(store, key, bytes(data), mode="overwrite", chunk_size=PART_BYTES), writes=True
        )

    def put_if_absent(self, path: str, data: bytes) -> bool:
        check_conditional_put(self, path.rpartition("/")[0], create=self._create, read=self.read, delete=self.delete)
        is_acknowledged, lost = self._create_exclusive(path, bytes(data))
        return is_acknowledged or self._settle(path, data, lost)

    def _create_exclusive(self, path: str, data: bytes) -> tuple[bool, StorageFailed | None]:
        """Create a file exclusively.

        Return whether the store acknowledged it, and the error of an attempt with unknown outcome. A lost request is
        repeated with the same bytes, as often as any other request, unless the file exists by now. Raises
        `ClaimRefused` if the store says that nothing was done.
        """
        budget, lost = self._new_budget(), None
        while True:
            store, key = self._locate(path)
            try:
                obstore.put(store, key, data, mode="create", use_multipart=False)
            except BaseException as raised:  # noqa: BLE001 - a panic of a foreign library is no Exception
                wrong = _check_foreign(raised)
            else:
                return True, None
            failed = self._translate_failure(path, wrong, writes=True)
            if object_store_requests.retry_count(wrong) > 0 or (
                object_store_requests.is_transient(wrong) and not isinstance(wrong, _EXISTS_ERRORS)
            ):
                lost = failed  # a try of which nobody knows the outcome
            if isinstance(wrong, _EXISTS_ERRORS) and (
                object_store_requests.status_of(wrong) != 409 or self._is_there(path)
            ):
                return False, lost
            is_last = not budget.wait_for_retry(wrong)  # of 409 too: another claim is under way, and may fail
            if is_last and lost is None:
                raise ClaimRefused(failed.message, path=path)
            if is_last or (lost is not None and self._is_there(path)):
                return False, lost

    def _is_there(self, path: str) -> bool:
        try:
            return self._head(path) is not None
        except StorageFailed:
            return False

    def _settle(self, path: str, data: bytes, lost: StorageFailed | None) -> bool:
        """Return whether a file after an unacknowledged creation is ours. Raises `CommitStateUnknown`."""
        unreadable: StorageFailed | None = None
        try:
            return self.read(path) == data
        except StorageFailed as wrong:
            unreadable = wrong
        if lost is None:
            if isinstance(unreadable, FileMissing):  # somebody else's, and gone by now
                return False
            raise unreadable
        outcome = (
            "nothing is there, and the request may still arrive"
            if isinstance(unreadable, FileMissing)
            else "it cannot be read either"
        )
        raise CommitStateUnknown(f"{lost.message}; {outcome}. Look before trying again")

    def _create(self, path: str, data: bytes) -> bool | None:
        """Return the store's answer to an exclusive creation; None if an attempt was lost.

        Its answer may be about its own file then.
        """
        is_acknowledged, lost = self._create_exclusive(path, data)
        return True if is_acknowledged else None if lost is not None else False

    @contextmanager
    def open_write(self, path: str) -> Iterator[BinaryIO]:
        store, key = self._locate(path)
        file = self._send_request(
            path,
            lambda: obstore.open_writer(store, key, buffer_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE).__enter__(),
            writes=True,
        )
        try:
            yield cast("BinaryIO", _Sink(lambda data: self._send_request(path, lambda: file.write(data), writes=True)))
        except BaseException as why:
            with suppress(*_FOREIGN_FAILURES):
                file.__exit__(type(why), why, why.__traceback__)  # which takes back the parts that are there
            raise
        self._send_request(path, lambda: file.__exit__(None, None, None), writes=True)

    def delete(self, paths: Iterable[str]) -> None:
        by_store: dict[str, list[str]] = {}
        for path in paths:
            by_store.setdefault(self._root_of(path), []).append(path)
        for siblings in by_store.values():
            self._send_repeatable(
                siblings[0],
                partial(_delete_keys, self._locate(siblings[0])[0], [_object_key(path) for path in siblings]),
                writes=True,
            )

    def remove_directories(self, paths: Iterable[str]) -> None:
        """Do nothing: in a store a directory without files does not exist."""

    def polars_path(self, path: str) -> str | None:
        root = self._root_of(path)
        if self.options.signs_urls or (self.options.by_host and root != self.root):
            return None
        return f"{_client_url(root)}/{_object_key(path)}"

    def polars_scan_options(self) -> dict[str, Any]:
        current = self._current_options()
        config, client = current.for_store(self.root.partition("://")[2])
        endpoint = config.get("aws_endpoint_url")
        # the variable AWS_ENDPOINT_URL_S3 would win over aws_endpoint_url alone
        options = {**config, **client} if endpoint is None else {**config, **client, "aws_endpoint_url_s3": endpoint}
        if not {"timeout", "read_timeout"} & {*client}:
            options["read_timeout"] = READ_TIMEOUT
        provider = current.polars_provider()
        if provider is not None:
            options = {
                name: text
                for name, text in options.items()
                if name not in object_store_options.credential_names(current.kind)
            }
        return {"storage_options": {**options, "max_retries": current.max_retries}, "credential_provider": provider}

    @property
    def is_remote(self) -> bool:
        return True

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _root_of(self, path: str) -> str:
        scheme, _, after_scheme = path.partition("://")
        if SCHEMES.get(scheme) != self.options.kind:
            raise StorageFailed(f"{path[:200]!a} is no place in {self.root}", path=path)
        return f"{SCHEME_ALIASES.get(scheme, scheme)}://{after_scheme.partition('/')[0]}"

    def _locate(self, path: str) -> tuple[ObjectStore, str]:
        """Return the store of a path, and its key there."""
        return _open_bucket(self._root_of(path), self._current_options()), _object_key(path)

    def _current_options(self) -> StoreOptions:
        """Return the options with current credentials."""
        return object_store_options.with_credentials(
            self.options, object_store_options.read_store_options(self.scheme, self.user_options)
        )

    def _new_budget(self) -> object_store_requests.RetryBudget:
        return object_store_requests.RetryBudget(
            attempts_left=self.options.max_retries,
            first_wait=FIRST_WAIT,
            longest_wait=MAX_WAIT,
            max_duration=RETRY_TIMEOUT,
        )

    def _head(self, path: str) -> Stat | None:
        store, key = self._locate(path)

        def head() -> Stat | None:
            try:
                return _to_stat(path, obstore.head(store, key))
            except FileNotFoundError:
                return None

        return self._send_request(path, head)

    def _in_parts(self, path: str, start: int, end: int) -> bytes:
        store, key = self._locate(path)
        starts = range(start, end, PART_BYTES)
        parts = self._send_request(
            path,
            lambda: parallel_map(
                lambda at: obstore.get_range(store, key, start=at, end=min(at + PART_BYTES, end)), starts, waiting=True
            ),
        )
        return b"".join(part.to_bytes() for part in parts)

    def _send_request(self, path: str, request: Callable[[], T], *, writes: bool = False) -> T:
        try:
            return request()
        except BaseException as wrong:  # noqa: BLE001 - a panic of a foreign library is no Exception
            failed = self._translate_failure(path, _check_foreign(wrong), writes=writes)
        raise failed  # outside of the block, so that what obstore said does not hang on the error

    def _send_repeatable(self, path: str, request: Callable[[], T], *, writes: bool = False) -> T:
        """Send a request that may be repeated; it is repeated if it is lost."""
        return self._send_request(
            path,
            lambda: object_store_requests.repeat_request(request, self._new_budget(), _FOREIGN_FAILURES),
            writes=writes,
        )

    def _translate_failure(self, path: str, error: BaseException, *, writes: bool = False) -> StorageFailed:
        """Return the error for a refusal: status, own code, what to do; no URL query, header or secret."""
        if isinstance(error, StorageFailed):
            return error
        text = str(error)
        if isinstance(error, FileNotFoundError) and not writes and "NoSuchBucket" not in text:
            return FileMissing(f"{path} does not exist", path=path)
        path_text = path if path.isprintable() else ascii(path)
        return StorageFailed(
            self.options.without_secrets(
                f"{path_text}: {object_store_requests.describe_failure(text, self.options.kind)}"
            ),
            path=path,
        )


class _Sink(io.RawIOBase):
    """A stream for writers of formats that counts its bytes."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send, self._size = send, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = data if isinstance(data, bytes) else memoryview(data).cast("B").tobytes()
        self._send(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size


def _may_be_range(error: StorageFailed) -> bool:
    """Return whether a store may have refused the range of a request, and not the request."""
    is_answer = "the store answers " in error.message or "gives no answer" in error.message
    return not isinstance(error, FileMissing) and (not is_answer or "the store answers 416" in error.message)


def _unpickle(root: str, scheme: str, user_options: FrozenDict[str, Any]) -> ObjectStorage:
    return ObjectStorage(root, object_store_options.read_store_options(scheme, user_options), scheme, user_options)


def _check_foreign(error: BaseException) -> BaseException:
    """Return an error of obstore, or a panic of Rust; raise anything else."""
    if isinstance(error, _FOREIGN_FAILURES) or type(error).__name__ == "PanicException":
        return error
    raise error


@lru_cache(maxsize=64)
def _open_bucket(root: str, options: StoreOptions) -> ObjectStore:
    """Return the store of a bucket, one for equal options."""
    bucket = root.partition("://")[2]
    config, client = options.for_store(bucket)
    retries = {
        "max_retries": options.max_retries,
        "backoff": {"init_backoff": FIRST_WAIT, "max_backoff": MAX_WAIT},
        "retry_timeout": RETRY_TIMEOUT,
    }
    arguments: dict[str, Any] = {"client_options": client or None, "retry_config": retries}
    if options.stands_alone:
        arguments["credential_provider"] = options.s3_provider()
    try:
        # obstore prefers the variable AWS_ENDPOINT_URL_S3 to the option aws_endpoint_url
        if "AWS_ENDPOINT_URL_S3" in options.shadowed_variables and "aws_endpoint_url" in config:
            config["aws_endpoint_url_s3"] = config.pop("aws_endpoint_url")
            return S3Store(bucket, config=cast("Any", config), **arguments)
        return from_url(_client_url(root), config=cast("Any", config), **arguments)
    except BaseException as wrong:  # noqa: BLE001 - a panic of a foreign library is no Exception
        text = options.without_secrets(str(_check_foreign(wrong)).partition("\n")[0][:300])
    raise InvalidOption(f"{root}: these storage options open no store: {text}", key="storage_options", value=None)


def _split_url(location: str) -> tuple[str, str, str]:
    """Return scheme, bucket and key of a URL, the key without doubled slashes. Raises `InvalidOption`."""
    matched = _STORE_URL.fullmatch(location)
    assert matched is not None
    scheme, authority, path = matched.group(1).lower(), matched.group(2), matched.group(3)
    pieces = [piece for piece in path.split("/") if piece]
    if ("@" in authority and SCHEMES[scheme] != "azure") or ("?" in path and SCHEMES[scheme] == "azure"):
        raise InvalidOption(
            f"a {scheme}:// URL holds no credentials; give them as storage_options", key="path", value=None
        )
    if not authority or not authority.isprintable():
        raise InvalidOption(f"{location[:200]!a} names no bucket: {scheme}://bucket/path", key="path", value=location)
    if any(piece in {".", ".."} for piece in pieces) or not path.isprintable():
        raise InvalidOption(
            f"{location[:200]!a} holds '.', '..' or a control character, which no place in a store has",
            key="path",
            value=location,
        )
    return scheme, authority, "/".join(pieces)


def _client_url(root: str) -> str:
    """Return a bucket's URL as obstore and Polars write it."""
    return "s3" + root.removeprefix("oss") if root.startswith("oss://") else root


def _object_key(path: str) -> str:
    return path.partition("://")[2].partition("/")[2].strip("/")


def _delete_keys(store: ObjectStore, keys: list[str]) -> None:
    """Delete keys. Some stores refuse to delete missing ones, and may have stopped there."""
    try:
        obstore.delete(store, keys)
    except FileNotFoundError:
        for key in keys:
            with suppress(FileNotFoundError):
                obstore.delete(store, key)


def _to_stat(path: str, metadata: Mapping[str, Any]) -> Stat:
    modified_ms = int(metadata["last_modified"].timestamp() * 1000)
    tag = metadata.get("e_tag") or metadata.get("version") or f"{modified_ms}-{metadata['size']}"
    return Stat(path=path, size_bytes=metadata["size"], modified_ms=modified_ms, tag=tag)
