"""Read the contents of a snapshot: manifest lists, manifests, live files, index files.

    snapshot ─ manifest_files ─▶ [ManifestFileMeta] ─ read_entries ─▶ ManifestEntries ─▶ live files
                                                                (`manifest_entries.live_entries`)

    read_live_entries(location, snapshot)                                    every live file
    read_live_entries(location, [m for m in manifests if is_needed(m)])      live files of some manifests
    read_live_entries(location, snapshot, keep_manifest=…, keep_entries=…)   live files that pass the filters

A `TableContext` is a `MetadataLocation` too.

Metadata files never change, so decoded ones are cached by path (`runtime.metadata_cache`) within a byte budget: a plan
after one more commit reads only the new lists and manifests. Manifests that are not cached are read and decoded
together. A file whose size differs from the size in its list is torn, and nothing of it is used.

Source: FORMAT.md 4, ENGINE.md 6.4, UX.md 8; `ManifestsReader`, `AbstractFileStoreScan`.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar
from weakref import ref

from lakekit.errors import Corrupt
from lakekit.model import entry_files, index_manifest, manifest_entries as columns_of, manifests
from lakekit.model.entry_files import ManifestBytes
from lakekit.model.snapshot import Snapshot
from lakekit.parallel import map_io, map_sequentially, parallel_map
from lakekit.progress import begin_work
from lakekit.storage.local import LocalStorage
from lakekit.storage.memory import MemoryStorage
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.model.entry_files import Keep
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.progress import WorkProgress

    ManifestListKind = Literal["all", "base", "delta", "changelog"]
    T = TypeVar("T")

DECODE_BATCH_BYTES = 32 << 20
"""Manifests are read and decoded in groups of about this many bytes."""
_MANIFEST_META_BYTES = 800
"""Estimated memory of one decoded `ManifestFileMeta` or `IndexManifestEntry`."""
_SHARED_BYTES = 8
"""Memory of a further reference to the same decoded object."""
_LIST_KEY, _INDEX_KEY, _ENTRIES_KEY = "list", "index", "entries"
"""Kinds of decoded metadata files, for cache keys."""
_PARTLY_READ, _LIVE_MASK, _LIVE_ENTRIES, _CACHE_ENTRY_BYTES = "asked", "standing", "live", 200
"""Kinds of cache keys: a manifest was decoded for some partitions only; the mask of live entries of manifests; these
live entries. `_CACHE_ENTRY_BYTES` is the estimated memory of such a cache entry.
"""


def empty_entries() -> ManifestEntries:
    """Return an empty `ManifestEntries`, as for a table without snapshots."""
    return columns_of.empty_entries()


def manifest_files(
    location: MetadataLocation, snapshot: Snapshot, list_kind: ManifestListKind = "all"
) -> list[ManifestFileMeta]:
    """Return the manifests of a snapshot, in order.

    `list_kind`: read the base list, the delta list, both (`all`) or the changelog list. A snapshot without a changelog
    list has no changelog manifests. Raises `FileMissing`, `Corrupt`, `LimitExceeded`, `Unsupported`.
    """
    manifest_metas: list[ManifestFileMeta] = []
    for kind in _list_kinds(list_kind):
        name, size_bytes = _list_name_and_size(snapshot, kind)
        if name is not None:
            manifest_metas += _read_once(
                location,
                _LIST_KEY,
                name,
                size_bytes,
                f"snapshot {snapshot.id} of {location.name}",
                manifests.decode_list,
            )
    return manifest_metas


def _list_kinds(list_kind: ManifestListKind) -> tuple[ManifestListKind, ...]:
    return ("base", "delta") if list_kind == "all" else (list_kind,)


def _list_name_and_size(snapshot: Snapshot, list_kind: ManifestListKind) -> tuple[str | None, int | None]:
    """Return the name of one manifest list of a snapshot (None: no such list), and its size (None: unknown)."""
    match list_kind:
        case "base":
            return snapshot.base_manifest_list, snapshot.base_manifest_list_size
        case "delta":
            return snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    return snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size


def prefetch_manifest_lists(location: MetadataLocation, lists: Iterable[tuple[Snapshot, ManifestListKind]]) -> None:
    """Read and decode many manifest lists together, into the cache that `manifest_files` reads.

    Missing lists are skipped; `manifest_files` raises for them. Raises `Corrupt`, `LimitExceeded`, `Unsupported`.
    """
    cache = location.runtime.metadata_cache
    missing: dict[str, tuple[str, int | None, str]] = {}
    for snapshot, kind in ((snapshot, kind) for snapshot, which in lists for kind in _list_kinds(which)):
        name, size_bytes = _list_name_and_size(snapshot, kind)
        if name is not None and cache.get(_cache_key(location, _LIST_KEY, name)) is None:
            missing[location.paths.manifest(name)] = (name, size_bytes, f"snapshot {snapshot.id} of {location.name}")
    if len(missing) < 2:
        return

    def read(path: str) -> tuple[str, bytes] | None:
        name, size_bytes, owner = missing[path]
        with suppress(FileMissing):
            return path, _read_checked(location, name, path, size_bytes, owner)
        return None

    files_read = [kind for kind in map_io(read, missing, is_remote=location.storage.is_remote) if kind is not None]
    counted_ids: set[int] = set()
    for (path, _), files in zip(files_read, manifests.decode_lists(files_read), strict=True):
        fresh = {id(file) for file in files} - counted_ids
        counted_ids |= fresh
        cache.put(
            {_cache_key(location, _LIST_KEY, missing[path][0]): files},
            _MANIFEST_META_BYTES * (len(fresh) + 1) + _SHARED_BYTES * len(files),
        )


def index_entries(location: MetadataLocation, snapshot: Snapshot) -> list[IndexManifestEntry]:
    """Return the index files of a snapshot: hash indexes and deletion vectors.

    Raises the same errors as `manifest_files`.
    """
    if snapshot.index_manifest is None:
        return []
    return list(
        _read_once(
            location,
            _INDEX_KEY,
            snapshot.index_manifest,
            None,
            f"snapshot {snapshot.id} of {location.name}",
            index_manifest.decode_index_manifest,
        )
    )


def read_live_entries(
    location: MetadataLocation,
    source: Snapshot | Sequence[ManifestFileMeta],
    *,
    keep_manifest: Callable[[ManifestFileMeta], bool] | None = None,
    keep_entries: Callable[[ManifestEntries], NDArray[np.bool_]] | None = None,
    keep_partitions: Keep | None = None,
    columns: Sequence[str] | None = None,
) -> ManifestEntries:
    """Return the live files of a snapshot, or of a list of manifests (base list and delta list, in order).

    `manifest_entries.live_entries` defines which entries are live. `columns`: the columns to return; None: all. The
    caller must include `manifest_entries.LIVENESS_COLUMNS`, which decide whether an entry is live.

    Filters: `keep_manifest` skips manifests without reading them. `keep_entries` returns a mask over entries.
    `keep_partitions` returns a mask over serialized partitions, so that entries of other partitions need not be
    decoded. A filter must give the same answer for the ADD and the DELETE entry of a file: it may use the partition,
    the bucket, the level and the name, but not `kind`. A filter that drops only the DELETE entry would make a deleted
    file live.

    Raises the same errors as `read_entries`, and `Corrupt` with the path of the manifest if a file is added twice.
    """
    files = manifest_files(location, source) if isinstance(source, Snapshot) else source
    files = files if keep_manifest is None else [file for file in files if keep_manifest(file)]
    try:
        if keep_entries is None and keep_partitions is None:
            return _live_entries(location, files, columns)
        entries = (
            read_entries(location, files, columns=columns)
            if keep_partitions is None
            else _read_filtered(location, files, keep_partitions, columns)
        )
        if keep_entries is not None:
            entries = entries.filter(keep_entries(entries))
        return columns_of.live_entries([entries])
    except Corrupt as wrong:
        path = _find_contradiction(location, files) if wrong.path is None else None
        raise wrong if path is None else wrong.at(path) from None


def _find_contradiction(location: MetadataLocation, files: Sequence[ManifestFileMeta]) -> str | None:
    """Return the path of the first manifest that adds an already added file; None if there is none."""
    parts: list[ManifestEntries] = []
    for file, part in zip(files, read_entries_by_manifest(location, files), strict=True):
        parts.append(part)
        try:
            columns_of.live_entries(parts)
        except Corrupt:
            return location.paths.manifest(file.name)
    return None


def _live_entries(
    location: MetadataLocation, files: Sequence[ManifestFileMeta], columns: Sequence[str] | None
) -> ManifestEntries:
    """Return the live entries of manifests.

    The last result is cached, since every read of a snapshot needs it again. If all entries of the manifests are live,
    only a reference to the cached manifests is stored.
    """
    cache, key = location.runtime.metadata_cache, (_LIVE_ENTRIES, location.storage, location.paths.manifest_dir)
    names = tuple(file.name for file in files)
    cached: tuple[tuple[str, ...], ManifestEntries | ref[Any]] | None = cache.get(key) if columns is None else None
    if cached is not None and cached[0] == names:
        if isinstance(cached[1], columns_of.ManifestEntries):
            return cached[1]
        first = cache.get(_cache_key(location, _ENTRIES_KEY, names[0]))
        if first is not None and first.all_entries.table is cached[1]():
            return first.all_entries
    entries = read_entries(location, files, columns=columns)
    live = entries.filter(_live_mask(location, files, entries))
    if columns is not None or not names:
        return live
    if live is entries:
        cache.put({key: (names, ref(entries.table))}, _CACHE_ENTRY_BYTES + _SHARED_BYTES * len(names))
    elif (weight := live.table.nbytes + _SHARED_BYTES * len(names)) < cache.budget_bytes // 4:
        cache.put({key: (names, live)}, weight)
    return live


def _live_mask(
    location: MetadataLocation, files: Sequence[ManifestFileMeta], entries: ManifestEntries
) -> NDArray[np.bool_]:
    """Return a mask of the live entries among all entries of the manifests; the mask is cached."""
    key = (_LIVE_MASK, location.storage, *(location.paths.manifest(file.name) for file in files))
    mask: NDArray[np.bool_] | None = location.runtime.metadata_cache.get(key)
    if mask is None:
        mask = columns_of.live_mask(entries)
        location.runtime.metadata_cache.put({key: mask}, len(mask) + _CACHE_ENTRY_BYTES * len(key))
    return mask


def read_entries(
    location: MetadataLocation, files: Sequence[ManifestFileMeta], *, columns: Iterable[str] | None = None
) -> ManifestEntries:
    """Return the entries of manifests in order, ADD entries and DELETE entries alike.

    `columns`: the columns to return; None: all. Raises `Corrupt` with path, offset and field if a manifest is torn or
    broken, `FileMissing`, `LimitExceeded`, `Unsupported`.
    """
    pieces = _cached_slices(location, files)
    if columns is None:
        return _concat_pieces(location, files, pieces)
    selected = tuple(columns)
    # select columns first, as concatenation copies them
    return columns_of.concat_entries(
        [run.all_entries.slice(run.start, run.end).select(selected) for run in _merge_adjacent(pieces)]
    )


def read_entries_by_manifest(location: MetadataLocation, files: Sequence[ManifestFileMeta]) -> list[ManifestEntries]:
    """Return the entries of each manifest, in a list; the manifests are read and decoded together.

    Raises the same errors as `read_entries`.
    """
    return [piece.all_entries.slice(piece.start, piece.end) for piece in _cached_slices(location, files)]


def _cached_slices(location: MetadataLocation, files: Sequence[ManifestFileMeta]) -> list[_EntrySlice | _LazySlice]:
    cache = location.runtime.metadata_cache
    pieces: dict[str, _EntrySlice | _LazySlice] = {}
    missing: list[tuple[str, ManifestFileMeta]] = []
    for file in {file.name: file for file in files}.values():
        piece = cache.get(_cache_key(location, _ENTRIES_KEY, file.name))
        if piece is None:
            missing.append((location.paths.manifest(file.name), file))
        else:
            pieces[file.name] = piece
    if missing:
        with _report_planning(location, len(missing)) as under_way:
            for group in _group_by_size(missing):
                pieces |= _decode_manifests(location, group, under_way)
    return [pieces[file.name] for file in files]


def read_manifest_bytes(location: MetadataLocation, files: Sequence[ManifestFileMeta]) -> list[bytes]:
    """Return the bytes of each manifest, after a check of their length. Raises `FileMissing`, `Corrupt`."""
    return [
        _read_checked(location, file.name, location.paths.manifest(file.name), file.size_bytes, "the manifest list")
        for file in files
    ]


def cache_list(location: MetadataLocation, name: str, files: Sequence[ManifestFileMeta]) -> None:
    """Cache the contents of a manifest list that was just written."""
    location.runtime.metadata_cache.put(
        {_cache_key(location, _LIST_KEY, name): list(files)}, _MANIFEST_META_BYTES * (len(files) + 1)
    )


def cache_index(location: MetadataLocation, name: str, entries: Sequence[IndexManifestEntry]) -> None:
    """Cache the contents of an index manifest that was just written."""
    location.runtime.metadata_cache.put(
        {_cache_key(location, _INDEX_KEY, name): list(entries)}, _MANIFEST_META_BYTES * (len(entries) + 1)
    )


def cache_entries(location: MetadataLocation, name: str, written_entries: ManifestEntries | EntryRows) -> None:
    """Cache the entries of a manifest that was just written.

    Entries that are given as rows (`EntryRows`) are converted to columns when they are first read.
    """
    piece = (
        _EntrySlice(written_entries, 0, len(written_entries))
        if isinstance(written_entries, columns_of.ManifestEntries)
        else _LazySlice(written_entries)
    )
    location.runtime.metadata_cache.put(
        {_cache_key(location, _ENTRIES_KEY, name): piece}, _MANIFEST_META_BYTES * (len(written_entries) + 1)
    )


def _read_filtered(
    location: MetadataLocation, files: Sequence[ManifestFileMeta], keep: Keep, columns: Sequence[str] | None = None
) -> ManifestEntries:
    """Return the entries of the partitions that `keep` selects.

    If a manifest is read for the first time, only the selected entries are decoded, and nothing is cached. The second
    time the whole manifest is decoded and cached.
    """
    cache = location.runtime.metadata_cache
    paths = [(location.paths.manifest(file.name), file) for file in files]
    if any(
        cache.get(_cache_key(location, _ENTRIES_KEY, file.name)) is not None
        or cache.get(_cache_key(location, _PARTLY_READ, file.name))
        for file in files
    ):
        entries = read_entries(location, files, columns=columns)
        return entries.filter(keep(entries.column("partition"))) if len(entries) else entries
    cache.put({_cache_key(location, _PARTLY_READ, file.name): True for file in files}, _CACHE_ENTRY_BYTES * len(paths))
    with _report_planning(location, len(paths)) as under_way:
        parts = [
            entry_files.decode_entries_where(_read_all(location, group, under_way), keep)
            for group in _group_by_size(paths)
        ]
    entries = columns_of.concat_entries([columns_of.empty_entries(), *parts])
    return entries if columns is None else entries.select(columns)


class _EntrySlice(NamedTuple):
    """The entries of one manifest: rows `start` to `end` of the entries decoded together with it."""

    all_entries: ManifestEntries
    start: int
    end: int


class EntryRows(Protocol):
    """Manifest entries as rows, which `entries` converts to columns."""

    def __len__(self) -> int: ...

    @property
    def entries(self) -> ManifestEntries: ...


class _LazySlice:
    """The entries of one manifest as rows, converted to columns on first use."""

    def __init__(self, entry_rows: EntryRows) -> None:
        self.facts = entry_rows
        self.start, self.end = 0, len(entry_rows)

    @property
    def all_entries(self) -> ManifestEntries:
        return self.facts.entries


def _decode_manifests(
    location: MetadataLocation, files: list[tuple[str, ManifestFileMeta]], under_way: WorkProgress
) -> dict[str, _EntrySlice]:
    """Read, decode and cache manifests, which are given as pairs (path, metadata)."""
    entries, counts = entry_files.decode_entries(_read_all(location, files, under_way))
    pieces = _cache_slices(location, [file.name for _, file in files], entries, counts)
    return {file.name: piece for (_, file), piece in zip(files, pieces, strict=True)}


def _cache_slices(
    location: MetadataLocation, names: Sequence[str], entries: ManifestEntries, counts: Iterable[int]
) -> list[_EntrySlice]:
    """Cache the entries of consecutive manifests, and return one slice of `entries` for each manifest.

    `counts`: the number of entries of each manifest.
    """
    pieces = [_EntrySlice(entries, start, end) for start, end in pairwise(accumulate(counts, initial=0))]
    keys: list[Hashable] = [_cache_key(location, _ENTRIES_KEY, name) for name in names]
    location.runtime.metadata_cache.put(
        dict(zip(keys, pieces, strict=True)), entries.table.nbytes + _MANIFEST_META_BYTES * len(pieces)
    )
    return pieces


def _group_by_size(files: list[tuple[str, ManifestFileMeta]]) -> list[list[tuple[str, ManifestFileMeta]]]:
    """Split manifests into groups of about `DECODE_BATCH_BYTES`; each group is read and decoded at once."""
    groups: list[list[tuple[str, ManifestFileMeta]]] = []
    left = 0
    for path, file in files:
        if file.size_bytes > left or not groups:
            groups.append([])
            left = DECODE_BATCH_BYTES
        groups[-1].append((path, file))
        left -= file.size_bytes
    return groups


def _report_planning(location: MetadataLocation, total: int) -> WorkProgress:
    return begin_work(location.runtime, "planning", "manifests", total, extra_unit="files")


def _read_all(
    location: MetadataLocation, files: list[tuple[str, ManifestFileMeta]], under_way: WorkProgress
) -> list[ManifestBytes]:
    def read(path_and_file: tuple[str, ManifestFileMeta]) -> ManifestBytes:
        path, file = path_and_file
        return ManifestBytes(path, _read_checked(location, file.name, path, file.size_bytes, "the manifest list"))

    def report(path_and_file: tuple[str, ManifestFileMeta]) -> None:
        under_way.advance(1, path_and_file[1].num_added_files + path_and_file[1].num_deleted_files)

    if isinstance(location.storage, (LocalStorage, MemoryStorage)):
        # handing a file of some kilobytes to a thread costs more than reading it
        return map_sequentially(read, files, on_done=report)
    return parallel_map(read, files, on_done=report, waiting=location.storage.is_remote)


def _concat_pieces(
    location: MetadataLocation, files: Sequence[ManifestFileMeta], pieces: Sequence[_EntrySlice | _LazySlice]
) -> ManifestEntries:
    """Return the entries of all pieces.

    Concatenation copies the entries with their embedded indexes. The result is cached for the next read, unless most of
    the decoded entries were not needed.
    """
    runs = _merge_adjacent(pieces)
    entries = columns_of.concat_entries([run.all_entries.slice(run.start, run.end) for run in runs])
    is_mostly_used = 2 * len(entries) >= sum({id(run.all_entries): len(run.all_entries) for run in runs}.values())
    if len(runs) > 1 and is_mostly_used and entries.table.nbytes <= location.runtime.metadata_cache.budget_bytes // 2:
        _cache_slices(location, [file.name for file in files], entries, [piece.end - piece.start for piece in pieces])
    return entries


def _merge_adjacent(pieces: Sequence[_EntrySlice | _LazySlice]) -> list[_EntrySlice | _LazySlice]:
    """Return the pieces with adjacent ones merged; at least one, of no entries."""
    runs: list[_EntrySlice | _LazySlice] = []
    for piece in pieces:
        last = runs[-1] if runs else None
        if last is not None and last.all_entries is piece.all_entries and last.end == piece.start:
            runs[-1] = _EntrySlice(last.all_entries, last.start, piece.end)
        else:
            runs.append(piece)
    return runs or [_EntrySlice(columns_of.empty_entries(), 0, 0)]


# ---- files -----------------------------------------------------------------------------------------------------------


def _cache_key(location: MetadataLocation, kind: str, name: str) -> tuple[object, ...]:
    """Return the cache key of a metadata file.

    The key contains `kind` because two references of a snapshot may name the same file but decode it differently.
    """
    return kind, location.storage, location.paths.manifest(name)


def _read_once(
    location: MetadataLocation, kind: str, name: str, size_bytes: int | None, owner: str, decode: Callable[..., list[T]]
) -> list[T]:
    """Return the decoded contents of a small metadata file, from the cache if possible."""
    path = location.paths.manifest(name)
    key = _cache_key(location, kind, name)
    decoded: list[T] | None = location.runtime.metadata_cache.get(key)
    if decoded is None:
        decoded = decode(_read_checked(location, name, path, size_bytes, owner), path=path)
        location.runtime.metadata_cache.put({key: decoded}, _MANIFEST_META_BYTES * (len(decoded) + 1))
    return decoded


def _read_checked(location: MetadataLocation, name: str, path: str, size_bytes: int | None, owner: str) -> bytes:
    """Read a metadata file that `owner` refers to, and check its size."""
    try:
        data = location.storage.read(path)
    except FileMissing:
        raise FileMissing(
            f"{owner} names {name}, which is not there. Was the snapshot expired by another writer? Open a newer one, "
            "or a tag",
            path=path,
        ) from None
    if size_bytes is not None and len(data) != size_bytes:
        raise Corrupt(
            f"{name} is {_format_thousands(len(data))} bytes, {owner} says {_format_thousands(size_bytes)}. Nothing "
            "was read",
            path=path,
            offset=len(data),
            field="_FILE_SIZE",
        )
    return data


def _format_thousands(count: int) -> str:
    return f"{count:,}".replace(",", " ")
