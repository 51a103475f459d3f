"""What a snapshot is made of: manifest lists, manifests, live files, index files.

    snapshot ─ manifest_files ─▶ [ManifestFile] ─ read_entries ─▶ Entries ─ fold ─▶ live files

    live(handle, snapshot)                                  every live file
    live(handle, [m for m in listed if wanted(m)])          only of some manifests
    live(handle, snapshot, keep_manifest=…, keep_entries=…)

Metadata files never change, so what was decoded is kept by path (`world.decoded`) within a byte budget: a plan after one more commit reads the new lists and
manifests only. Manifests that are not kept are read and decoded together, many at once. A file of another size than its list says is torn, and nothing of it
is used. Sources: FORMAT.md 4, ENGINE.md 6.4, UX.md 8; `ManifestsReader`, `AbstractFileStoreScan`.
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
from lakekit.progress import work
from lakekit.storage.local import LocalStorage
from lakekit.storage.memory import MemoryStorage
from lakekit.storage.protocol import FileMissing
from lakekit.world import map_io, map_sequentially, parallel_map

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.model.entry_files import Keep
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.progress import Work

    Which = Literal["all", "base", "delta", "changelog"]
    T = TypeVar("T")

TOGETHER_BYTES = 32 << 20
"""How many bytes of manifests are read before they are decoded."""
_FACT_BYTES = 800
"""About what one decoded `ManifestFileMeta` or `IndexManifestEntry` takes."""
_SHARED_BYTES = 8
"""What one takes in every further list that names it."""
_LIST, _INDEX, _ENTRIES = "list", "index", "entries"
"""What a metadata file was decoded as."""
_PARTLY_READ, _LIVE_MASK, _LIVE_ENTRIES, _MARK_BYTES = "asked", "standing", "live", 200
"""The marks of a manifest of which some partitions were asked for, of manifests of which is known what is live, and of it; and about what a mark takes."""


def no_entries() -> ManifestEntries:
    """No entries: what a table without snapshots has."""
    return columns_of.empty()


def manifest_files(place: MetadataLocation, snapshot: Snapshot, which: Which = "all") -> list[ManifestFileMeta]:
    """The manifests of a snapshot in order: of its base list, its delta list, both (`all`), or its changelog list (none where there is no such list).

    Raises `FileMissing`, `Corrupt`, `LimitExceeded`, `Unsupported`.
    """
    found: list[ManifestFileMeta] = []
    for one in _lists(which):
        name, size_bytes = _list(snapshot, one)
        if name is not None:
            found += _read_once(place, _LIST, name, size_bytes, f"snapshot {snapshot.id} of {place.name}", manifests.decode_list)
    return found


def _lists(which: Which) -> tuple[Which, ...]:
    return ("base", "delta") if which == "all" else (which,)


def _list(snapshot: Snapshot, which: Which) -> tuple[str | None, int | None]:
    """The name of one of a snapshot's lists, and its size where that is known."""
    match which:
        case "base":
            return snapshot.base_manifest_list, snapshot.base_manifest_list_size
        case "delta":
            return snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    return snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size


def read_lists(place: MetadataLocation, lists: Iterable[tuple[Snapshot, Which]]) -> None:
    """Reads and decodes many manifest lists together: `manifest_files` finds them then. Those that are not there are left for it to miss.

    Raises `Corrupt`, `LimitExceeded`, `Unsupported`.
    """
    shelf = place.world.decoded
    missing: dict[str, tuple[str, int | None, str]] = {}
    for snapshot, one in ((snapshot, one) for snapshot, which in lists for one in _lists(which)):
        name, size_bytes = _list(snapshot, one)
        if name is not None and shelf.get(_cache_key(place, _LIST, name)) is None:
            missing[place.layout.manifest(name)] = (name, size_bytes, f"snapshot {snapshot.id} of {place.name}")
    if len(missing) < 2:
        return

    def read(path: str) -> tuple[str, bytes] | None:
        name, size_bytes, owner = missing[path]
        with suppress(FileMissing):
            return path, _read(place, name, path, size_bytes, owner)
        return None

    found = [one for one in map_io(read, missing, is_remote=place.storage.is_remote) if one is not None]
    known: set[int] = set()
    for (path, _), files in zip(found, manifests.decode_lists(found), strict=True):
        fresh = {id(file) for file in files} - known
        known |= fresh
        shelf.put({_cache_key(place, _LIST, missing[path][0]): files}, _FACT_BYTES * (len(fresh) + 1) + _SHARED_BYTES * len(files))


def index_entries(place: MetadataLocation, snapshot: Snapshot) -> list[IndexManifestEntry]:
    """The index files of a snapshot: hash indexes and deletion vectors. Raises as `manifest_files` does."""
    if snapshot.index_manifest is None:
        return []
    return list(_read_once(place, _INDEX, snapshot.index_manifest, None, f"snapshot {snapshot.id} of {place.name}", index_manifest.decode))


def read_live_entries(
    place: MetadataLocation,
    source: Snapshot | Sequence[ManifestFileMeta],
    *,
    keep_manifest: Callable[[ManifestFileMeta], bool] | None = None,
    keep_entries: Callable[[ManifestEntries], NDArray[np.bool_]] | None = None,
    keep_partitions: Keep | None = None,
    columns: Sequence[str] | None = None,
) -> ManifestEntries:
    """The live files of a snapshot, or of some of its manifests (of base and delta list, in order): see `entries.fold`.

    `columns` names those wanted (all), with `entries.FOLDED` among them.

    `keep_manifest` skips manifests unread, `keep_entries` gives a mask, `keep_partitions` one over serialized partitions, which spares decoding the entries
    of others. All may look only at what ADD and DELETE of a file share (partition, bucket, level, name …): a DELETE that is skipped alone would leave its
    file alive. Raises as `read_entries` does, and `Corrupt` where a file is added twice, with the path of the manifest that does.
    """
    files = manifest_files(place, source) if isinstance(source, Snapshot) else source
    files = files if keep_manifest is None else [file for file in files if keep_manifest(file)]
    try:
        if keep_entries is None and keep_partitions is None:
            return _live_entries(place, files, columns)
        found = read_entries(place, files, columns=columns) if keep_partitions is None else _read_where(place, files, keep_partitions, columns)
        if keep_entries is not None:
            found = found.filter(keep_entries(found))
        return columns_of.live_entries([found])
    except Corrupt as wrong:
        path = _find_contradiction(place, files) if wrong.path is None else None
        raise wrong if path is None else wrong.at(path) from None


def _find_contradiction(place: MetadataLocation, files: Sequence[ManifestFileMeta]) -> str | None:
    """The path of the first manifest that adds what one before it added, or it itself did; None: none does."""
    parts: list[ManifestEntries] = []
    for file, part in zip(files, read_each(place, files), strict=True):
        parts.append(part)
        try:
            columns_of.live_entries(parts)
        except Corrupt:
            return place.layout.manifest(file.name)
    return None


def _live_entries(place: MetadataLocation, files: Sequence[ManifestFileMeta], columns: Sequence[str] | None) -> ManifestEntries:
    """The live entries of some manifests. The last that were asked for are kept where they are a copy: every read of a snapshot asks for them again.

    Where they are all that the manifests hold, which lie on the shelf themselves, only that is kept.
    """
    shelf, key = place.world.decoded, (_LIVE_ENTRIES, place.storage, place.layout.manifest_dir)
    names = tuple(file.name for file in files)
    known: tuple[tuple[str, ...], ManifestEntries | ref[Any]] | None = shelf.get(key) if columns is None else None
    if known is not None and known[0] == names:
        if isinstance(known[1], columns_of.ManifestEntries):
            return known[1]
        first = shelf.get(_cache_key(place, _ENTRIES, names[0]))
        if first is not None and first.whole.table is known[1]():
            return first.whole
    found = read_entries(place, files, columns=columns)
    live = found.filter(_live_mask(place, files, found))
    if columns is not None or not names:
        return live
    if live is found:
        shelf.put({key: (names, ref(found.table))}, _MARK_BYTES + _SHARED_BYTES * len(names))
    elif (weight := live.table.nbytes + _SHARED_BYTES * len(names)) < shelf.budget_bytes // 4:
        shelf.put({key: (names, live)}, weight)
    return live


def _live_mask(place: MetadataLocation, files: Sequence[ManifestFileMeta], found: ManifestEntries) -> NDArray[np.bool_]:
    """Which of all entries of those manifests are live; kept as what is live is."""
    key = (_LIVE_MASK, place.storage, *(place.layout.manifest(file.name) for file in files))
    kept: NDArray[np.bool_] | None = place.world.decoded.get(key)
    if kept is None:
        kept = columns_of.live_mask(found)
        place.world.decoded.put({key: kept}, len(kept) + _MARK_BYTES * len(key))
    return kept


def read_entries(place: MetadataLocation, files: Sequence[ManifestFileMeta], *, columns: Iterable[str] | None = None) -> ManifestEntries:
    """The entries of some manifests, one after the other, ADD and DELETE alike; `columns` names those wanted (all).

    Raises `Corrupt` with path, offset and field where a manifest is torn or broken, `FileMissing`, `LimitExceeded`, `Unsupported`.
    """
    pieces = _pieces(place, files)
    if columns is None:
        return _concat_pieces(place, files, pieces)
    wanted = tuple(columns)
    return columns_of.concat([run.whole.slice(run.start, run.end).select(wanted) for run in _runs(pieces)])  # selected first: putting together copies


def read_each(place: MetadataLocation, files: Sequence[ManifestFileMeta]) -> list[ManifestEntries]:
    """The entries of each of some manifests, which are read and decoded together. Raises as `read_entries` does."""
    return [piece.whole.slice(piece.start, piece.end) for piece in _pieces(place, files)]


def _pieces(place: MetadataLocation, files: Sequence[ManifestFileMeta]) -> list[_EntrySlice | _LazySlice]:
    shelf = place.world.decoded
    pieces: dict[str, _EntrySlice | _LazySlice] = {}
    missing: list[tuple[str, ManifestFileMeta]] = []
    for file in {file.name: file for file in files}.values():
        piece = shelf.get(_cache_key(place, _ENTRIES, file.name))
        if piece is None:
            missing.append((place.layout.manifest(file.name), file))
        else:
            pieces[file.name] = piece
    if missing:
        with _report_planning(place, len(missing)) as under_way:
            for group in _group_by_size(missing):
                pieces |= _decode(place, group, under_way)
    return [pieces[file.name] for file in files]


def read_bytes(place: MetadataLocation, files: Sequence[ManifestFileMeta]) -> list[bytes]:
    """Some manifests as they are, each as long as its list says. Raises `FileMissing`, `Corrupt`."""
    return [_read(place, file.name, place.layout.manifest(file.name), file.size_bytes, "the manifest list") for file in files]


def remember_list(place: MetadataLocation, name: str, files: Sequence[ManifestFileMeta]) -> None:
    """Keeps what a manifest list holds that was just written."""
    place.world.decoded.put({_cache_key(place, _LIST, name): list(files)}, _FACT_BYTES * (len(files) + 1))


def remember_index(place: MetadataLocation, name: str, entries: Sequence[IndexManifestEntry]) -> None:
    """Keep what an index manifest holds that was just written."""
    place.world.decoded.put({_cache_key(place, _INDEX, name): list(entries)}, _FACT_BYTES * (len(entries) + 1))


def remember_entries(place: MetadataLocation, name: str, written: ManifestEntries | EntryFacts) -> None:
    """Keeps the entries of a manifest that was just written; facts become columns when somebody asks for them."""
    piece = _EntrySlice(written, 0, len(written)) if isinstance(written, columns_of.ManifestEntries) else _LazySlice(written)
    place.world.decoded.put({_cache_key(place, _ENTRIES, name): piece}, _FACT_BYTES * (len(written) + 1))


def _read_where(place: MetadataLocation, files: Sequence[ManifestFileMeta], keep: Keep, columns: Sequence[str] | None = None) -> ManifestEntries:
    """The entries of some partitions. Manifests that nobody asked for before are decoded in part and not kept; the second time they are worth more."""
    shelf = place.world.decoded
    paths = [(place.layout.manifest(file.name), file) for file in files]
    if any(shelf.get(_cache_key(place, _ENTRIES, file.name)) is not None or shelf.get(_cache_key(place, _PARTLY_READ, file.name)) for file in files):
        found = read_entries(place, files, columns=columns)
        return found.filter(keep(found.column("partition"))) if len(found) else found
    shelf.put({_cache_key(place, _PARTLY_READ, file.name): True for file in files}, _MARK_BYTES * len(paths))
    with _report_planning(place, len(paths)) as under_way:
        parts = [entry_files.decode_where(_read_all(place, group, under_way), keep) for group in _group_by_size(paths)]
    found = columns_of.concat([columns_of.empty(), *parts])
    return found if columns is None else found.select(columns)


class _EntrySlice(NamedTuple):
    """The entries of one manifest: rows `start` to `end` of what was decoded together with it."""

    whole: ManifestEntries
    start: int
    end: int


class EntryFacts(Protocol):
    """Entries as facts, which can be had as columns."""

    def __len__(self) -> int: ...

    @property
    def entries(self) -> ManifestEntries: ...


class _LazySlice:
    """A piece whose columns nobody needed yet."""

    def __init__(self, facts: EntryFacts) -> None:
        self.facts = facts
        self.start, self.end = 0, len(facts)

    @property
    def whole(self) -> ManifestEntries:
        return self.facts.entries


def _decode(place: MetadataLocation, files: list[tuple[str, ManifestFileMeta]], under_way: Work) -> dict[str, _EntrySlice]:
    """Reads and decodes manifests, given with their paths, and keeps them."""
    whole, counts = entry_files.decode(_read_all(place, files, under_way))
    pieces = _keep(place, [file.name for _, file in files], whole, counts)
    return {file.name: piece for (_, file), piece in zip(files, pieces, strict=True)}


def _keep(place: MetadataLocation, names: Sequence[str], whole: ManifestEntries, counts: Iterable[int]) -> list[_EntrySlice]:
    """The entries of manifests that lie one after the other in `whole`, so many of each; kept."""
    pieces = [_EntrySlice(whole, start, end) for start, end in pairwise(accumulate(counts, initial=0))]
    keys: list[Hashable] = [_cache_key(place, _ENTRIES, name) for name in names]
    place.world.decoded.put(dict(zip(keys, pieces, strict=True)), whole.table.nbytes + _FACT_BYTES * len(pieces))
    return pieces


def _group_by_size(files: list[tuple[str, ManifestFileMeta]]) -> list[list[tuple[str, ManifestFileMeta]]]:
    """Manifests in groups that are read and decoded at once."""
    groups: list[list[tuple[str, ManifestFileMeta]]] = []
    left = 0
    for path, file in files:
        if file.size_bytes > left or not groups:
            groups.append([])
            left = TOGETHER_BYTES
        groups[-1].append((path, file))
        left -= file.size_bytes
    return groups


def _report_planning(place: MetadataLocation, total: int) -> Work:
    """The reading of so many manifests, for whoever watches."""
    return work(place.world, "planning", "manifests", total, beside="files")


def _read_all(place: MetadataLocation, files: list[tuple[str, ManifestFileMeta]], under_way: Work) -> list[ManifestBytes]:
    def read(one: tuple[str, ManifestFileMeta]) -> ManifestBytes:
        path, file = one
        return ManifestBytes(path, _read(place, file.name, path, file.size_bytes, "the manifest list"))

    def tell(one: tuple[str, ManifestFileMeta]) -> None:
        under_way.advance(1, one[1].num_added_files + one[1].num_deleted_files)

    if isinstance(place.storage, (LocalStorage, MemoryStorage)):
        return map_sequentially(read, files, after=tell)  # handing a file of some kilobytes to a thread costs more than reading it
    return parallel_map(read, files, after=tell, waiting=place.storage.is_remote)


def _concat_pieces(place: MetadataLocation, files: Sequence[ManifestFileMeta], pieces: Sequence[_EntrySlice | _LazySlice]) -> ManifestEntries:
    """The entries of all pieces.

    Putting them together copies them, embedded indexes too: they are kept so for the next read, unless most of what they came from was not asked for.
    """
    runs = _runs(pieces)
    found = columns_of.concat([run.whole.slice(run.start, run.end) for run in runs])
    asked_for = 2 * len(found) >= sum({id(run.whole): len(run.whole) for run in runs}.values())
    if len(runs) > 1 and asked_for and found.table.nbytes <= place.world.decoded.budget_bytes // 2:
        _keep(place, [file.name for file in files], found, [piece.end - piece.start for piece in pieces])
    return found


def _runs(pieces: Sequence[_EntrySlice | _LazySlice]) -> list[_EntrySlice | _LazySlice]:
    """The pieces, neighbours that lie together as one; at least one, of nothing."""
    runs: list[_EntrySlice | _LazySlice] = []
    for piece in pieces:
        last = runs[-1] if runs else None
        if last is not None and last.whole is piece.whole and last.end == piece.start:
            runs[-1] = _EntrySlice(last.whole, last.start, piece.end)
        else:
            runs.append(piece)
    return runs or [_EntrySlice(columns_of.empty(), 0, 0)]


# ---- files -----------------------------------------------------------------------------------------------------------------------------------------------


def _cache_key(place: MetadataLocation, kind: str, name: str) -> tuple[object, ...]:
    """Return the key of a decoded metadata file. It names the decoder: two members of a snapshot may name one file."""
    return kind, place.storage, place.layout.manifest(name)


def _read_once(place: MetadataLocation, kind: str, name: str, size_bytes: int | None, owner: str, decode: Callable[..., list[T]]) -> list[T]:
    """What a small metadata file lists, decoded once."""
    path = place.layout.manifest(name)
    key = _cache_key(place, kind, name)
    found: list[T] | None = place.world.decoded.get(key)
    if found is None:
        found = decode(_read(place, name, path, size_bytes, owner), path=path)
        place.world.decoded.put({key: found}, _FACT_BYTES * (len(found) + 1))
    return found


def _read(place: MetadataLocation, name: str, path: str, size_bytes: int | None, owner: str) -> bytes:
    """A metadata file that `owner` names, as large as it says."""
    try:
        data = place.storage.read(path)
    except FileMissing:
        raise FileMissing(
            f"{owner} names {name}, which is not there. Was the snapshot expired by another writer? Open a newer one, or a tag", path=path
        ) from None
    if size_bytes is not None and len(data) != size_bytes:
        raise Corrupt(
            f"{name} is {_format_thousands(len(data))} bytes, {owner} says {_format_thousands(size_bytes)}. Nothing was read",
            path=path,
            offset=len(data),
            field="_FILE_SIZE",
        )
    return data


def _format_thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")
