"""The path of every file of a table, as strings, and the locations outside its folder that it may use.

    <root>/schema/schema-0                                 metadata of branch main
    <root>/branch/branch-dev/schema/schema-0               metadata of branch dev
    <root>/manifest/…  index/…  statistics/…               shared by all branches
    <root>/[<directory>/]dt=2024-01-01/bucket-0/data-….parquet

Names from metadata files are untrusted: `checked_name` accepts only a plain file name, so no path leaves its directory.
So are schema, manifests and messages: they can name a location, not allow it. Every reader, writer, cleaner and
reporter asks `Locations.check`, which allows a location

    below the table's own folder
    at or below a location that the caller names      a location option in `options=`, or `lakekit.allowed-locations`
    at or below one of the catalog's configuration    `lakekit.allowed-locations`, `table-default.<location option>`
    below the catalog's warehouse, outside the folder of any database (`*.db`): those belong to tables

Locations are compared part by part after `normalize_location`, so `/lake-old` is not below `/lake` and no `..` leads
out.

Source: FORMAT.md 1.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lakekit import storage as storages
from lakekit.errors import Corrupt, InvalidOption, LakekitError, LocationNotAllowed
from lakekit.storage.confinement import LinkFreeRoot
from lakekit.storage.protocol import SCHEME_ALIASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


ALLOWED_LOCATIONS = "lakekit.allowed-locations"
"""Locations with commas between them that tables may use; never read from a table's schema."""
EXTERNAL_PATHS = "data-file.external-paths"
FORMAT_TABLE_PATH = "path"
OBJECT_LOCATION = "object-location"
REPORT_URL = "partition.mark-done-action.http.url"
LOCATION_OPTIONS = (EXTERNAL_PATHS, FORMAT_TABLE_PATH, OBJECT_LOCATION, REPORT_URL)
"""Options of a table that name a place or a web service."""
_URL_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_DATABASE_SUFFIX = ".db"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REFUSED_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """The locations that one table is allowed to use beside its own folder.

    `configured_locations` and `option_locations` are normalized locations: of the catalog's configuration or the call
    that created the table, and of the caller's dynamic options. `warehouse` is the catalog's folder, None without one.
    """

    configured_locations: tuple[str, ...] = ()
    option_locations: tuple[str, ...] = ()
    warehouse: str | None = None

    def with_named(self, dynamic: Mapping[str, Any]) -> Locations:
        """Return the same locations with those that a caller's dynamic options name.

        Raises `InvalidOption` for an allow list with an invalid location.
        """
        named = named_locations(dynamic)
        return self if named == self.option_locations else replace(self, option_locations=named)

    def with_configured(self, options: Mapping[str, Any] | None) -> Locations:
        """Return the same locations with those of options of a catalog, or of the call that creates a table.

        Raises `InvalidOption`.
        """
        return replace(
            self,
            configured_locations=tuple(dict.fromkeys((*self.configured_locations, *named_locations(options or {})))),
        )

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that contain allowed locations: configured, named, and the (link-free) warehouse."""
        above = None if self.warehouse is None else _base(self.warehouse)
        return (*self.configured_locations, *self.option_locations, *(() if above is None else (LinkFreeRoot(above),)))

    def is_allowed(self, location: str | None, root: str) -> bool:
        """Return whether the table with folder `root` may use a normalized location; never for None."""
        return location is not None and self.base_of(location, root) is not None

    def base_of(self, location: str, root: str) -> str | None:
        """Return the trusted place at or below which a normalized location lies; None if it is not allowed.

        Links below that place lead to nothing outside of it, and below the warehouse to nothing at all, since a link
        could lead to another table; the place itself, which the caller, the catalog or the table's own folder names,
        may be one.
        """
        bases = (
            base
            for base in (_base(root), *self.configured_locations, *self.option_locations)
            if base is not None and is_at_or_below(location, base)
        )
        return max(bases, key=len, default=None) or self._warehouse_of(location)

    def _warehouse_of(self, location: str) -> str | None:
        """Return the warehouse where a location lies in it beside the folders of databases."""
        base = None if self.warehouse is None else _base(self.warehouse)
        if base is None or location == base or not is_at_or_below(location, base):
            return None
        parts = location[len(base) :].strip("/").split("/")
        return None if any(part.lower().endswith(_DATABASE_SUFFIX) for part in parts) else LinkFreeRoot(base)

    def check(self, location: str, *, root: str, table: str, option: str, path: str | None = None) -> None:
        """Raise `LocationNotAllowed` for a location that the table names by `option` and that is not allowed.

        `path`: the path that is opened for it, if that is not the location as it is written (`file:` URLs are decoded
        for format and object tables).
        """
        if not self.is_allowed(normalize_location(location if path is None else path), root):
            raise location_not_allowed(location, table=table, option=option)


def location_not_allowed(location: str, *, table: str, option: str) -> LocationNotAllowed:
    """Return the error about a location that a table names and neither the caller nor the catalog allows."""
    location_text = _without_query(location)[:200]
    trusted_text = (
        location_text if location_text.isprintable() and normalize_location(location_text) is not None else "…"
    )
    return LocationNotAllowed(
        f"table {table} names the location {location_text!a} by its option {option}, and a table's own word is not "
        "enough, also where lk.create or ALTER TABLE wrote it: nothing there is read, written, listed, deleted or "
        f"called. To trust the table with it, pass options={{{ALLOWED_LOCATIONS!r}: {trusted_text!r}}} to lk.open, or "
        "to lk.connect for all tables",
        location=location_text,
        option=option,
    )


def named_locations(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the normalized locations that options of a caller or a catalog name.

    An invalid location in the allow list raises `InvalidOption`; an invalid one in other options is left out, and so
    not allowed.
    """
    locations: list[str] = []
    for text in _split_list(options.get(ALLOWED_LOCATIONS)):
        location = _normalize_named(text)
        if not location:
            raise InvalidOption(
                f"{ALLOWED_LOCATIONS} holds {_without_query(text)[:200]!a}, which is no location: give folders or "
                "URLs such as /data/in, s3://bucket/in or https://host/path, with commas between them",
                key=ALLOWED_LOCATIONS,
                value=None,
            )
        locations += location
    for key in LOCATION_OPTIONS:
        value = options.get(key)
        texts = (
            _split_list(value)
            if key == EXTERNAL_PATHS
            else [value.strip()]
            if isinstance(value, str) and value.strip()
            else []
        )
        for text in texts:
            locations += _normalize_named(text)
    return tuple(dict.fromkeys(locations))


def allowed_locations_option(allowed: Iterable[str]) -> dict[str, str] | None:
    """Return the option of `lk.open` and `lk.connect` that allows some locations; None for none."""
    text = ",".join(allowed)
    return {ALLOWED_LOCATIONS: text} if text else None


def _split_list(value: object) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else []


def _normalize_named(text: str) -> list[str]:
    """Return every reading of a location named by a trusted side: a `file:` URL as written, and decoded."""
    readings = [] if _is_relative(text) else [normalize_location(text)]
    scheme = _URL_SCHEME.match(text)
    if scheme is None or scheme.group(1).lower() == "file":
        try:
            readings.append(normalize_location(storages.open(text)[1]))
        except LakekitError:
            readings.append(None)
    return [reading for reading in readings if reading is not None]


def _is_relative(text: str) -> bool:
    return _URL_SCHEME.match(text) is None and not text.startswith("/")


def normalize_location(location: str) -> str | None:
    """Return a location as one text without a trailing slash; None if it is not absolute.

    Also None if it holds `.`, `..` or a control character. `file:///a/b/` -> `/a/b`, `/a//b` -> None, `S3A://bucket/a`
    -> `s3://bucket/a`, `HTTP://Host/x?q=1` -> `http://host:80/x`.
    """
    if _REFUSED_CHARACTERS.search(location):
        return None
    scheme = _URL_SCHEME.match(location)
    if scheme is None:
        return _normalize_path(location)
    kind = scheme.group(1).lower()
    after_scheme = location[scheme.end() :]
    if kind == "file":
        return _normalize_path("/" + after_scheme.lstrip("/"))
    if kind in _DEFAULT_PORTS:
        return _normalize_web(location)
    authority, _, path = after_scheme.lstrip("/").partition("/")
    parts = _plain_parts(path)
    return (
        None
        if not authority or parts is None
        else "/".join([f"{SCHEME_ALIASES.get(kind, kind)}://{authority}", *parts])
    )


_base = lru_cache(maxsize=256)(normalize_location)


def _normalize_path(path: str) -> str | None:
    parts = _plain_parts("/" + path.lstrip("/")) if path.startswith("/") else None
    return None if parts is None else "/" + "/".join(parts)


def _normalize_web(url: str) -> str | None:
    try:
        parsed = urlsplit(url)
        port = parsed.port or _DEFAULT_PORTS[parsed.scheme]
    except ValueError:
        return None
    parts = None if parsed.path.startswith("//") else _plain_parts(parsed.path)
    if not parsed.hostname or parsed.username is not None or parts is None:
        return None
    # servers decode: `%2e%2e` leads up, `%2f` divides
    if _plain_parts(unquote(parsed.path)) != [unquote(part) for part in parts]:
        return None
    return "/".join([f"{parsed.scheme}://{parsed.hostname}:{port}", *parts])


def _plain_parts(path: str) -> list[str] | None:
    """Return the parts of a path; None if one is empty, `.` or `..`."""
    inner = path.strip("/")
    parts = inner.split("/") if inner else []
    return None if any(part in {"", ".", ".."} for part in parts) else parts


def is_at_or_below(location: str, base: str) -> bool:
    """Return whether a normalized location is another one or lies below it."""
    return location == base or location.startswith(base.rstrip("/") + "/")


def check_not_in_hint(keys: Iterable[str], source: str) -> None:
    """Raise `InvalidOption` if options of a query hint name locations.

    A stored query must not widen what its reader may access.
    """
    lowered = {key.lower() for key in (*LOCATION_OPTIONS, ALLOWED_LOCATIONS)}
    for key in keys:
        if key.strip().lower() in lowered:
            raise InvalidOption(
                f"{source} sets {key}, which names a place: a query may not, since others may have written it. "
                "Give it to lk.connect(options=), lk.open(options=) or cat.table(options=)",
                key=key,
                value=None,
            )


def _without_query(location: str) -> str:
    """Return a location without its query and user, which may hold tokens."""
    return (
        re.sub(r"://[^/@]*@", "://", location.partition("?")[0])
        if location.lower().startswith(("http:", "https:"))
        else location
    )


# ---- table paths ------------------------------------------------------------


MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
UNAWARE_BUCKET = 0
"""The directory of the files of a table without fixed buckets (Paimon: `BucketMode.UNAWARE_BUCKET`)."""
MAX_NAME_BYTES = 255
_METADATA_FOLDERS = frozenset(
    {"schema", "_schema", "snapshot", "changelog", "tag", "branch", "consumer", "manifest", "statistics"}
)
"""Folders of a table that hold neither data nor indexes."""
_MAX_SHOWN = 80


def checked_name(name: str, *, path: str | None = None, field: str = "file name") -> str:
    """Return the name if it is one plain file name. Raises `Corrupt` for any other."""
    if is_plain_name(name):
        return name
    name_text = ascii(name if len(name) <= _MAX_SHOWN else name[:_MAX_SHOWN] + "…")
    prefix = "" if path is None else f"{path}: "
    raise Corrupt(
        f"{prefix}{field} {name_text} is not a plain file name: nothing outside its directory is opened",
        path=path,
        field=field,
    )


@lru_cache(maxsize=8192)
def is_plain_name(name: str) -> bool:
    """Return whether a text names one file in one directory and nothing else."""
    if not name or name in {".", ".."} or "/" in name or "\\" in name:
        return False
    if name.isascii():
        return len(name) <= MAX_NAME_BYTES and name.isprintable()
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return False
    return len(encoded) <= MAX_NAME_BYTES and not any(ord(c) < 32 or ord(c) == 127 for c in name)


def name_problem(name: str, prefix: str) -> str | None:
    """Return why a name cannot be part of a file name after a prefix; None if it can."""
    if is_plain_name(name) and is_plain_name(f"{prefix}{name}"):
        return None
    length = len(f"{prefix}{name}".encode("utf-8", "surrogatepass"))
    if length > MAX_NAME_BYTES:
        return f"the name of a file would take {length} bytes with it, and {MAX_NAME_BYTES} fit"
    return "it is part of a file's name, so no / \\ or control characters"


@lru_cache(maxsize=1024)
def join_path(*parts: str) -> str:
    """Join path parts with one slash between them, without empty ones."""
    first, *others = (part for part in parts if part)
    return "/".join([first.rstrip("/") or "", *(part.strip("/") for part in others)])


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePaths:
    """The paths of one table and branch.

    Attributes:
        directory: the option `data-file.path-directory`.
        index_beside_data: the option `index-file-in-data-file-dir`.
        external_roots: the option `data-file.external-paths`: locations of data files outside the table.
        is_hidden: whether schemas have names that no engine takes for a table's, or for data, `_schema/_schema-0`: the
            table is of a kind that the reference's catalogs do not keep in folders.
        locations: decides which locations may be used.
    """

    root: str
    branch: str = MAIN_BRANCH
    directory: str = ""
    index_beside_data: bool = False
    external_roots: tuple[str, ...] = ()
    is_hidden: bool = False
    locations: Locations = field(default=Locations(), repr=False)

    # ---- of this branch

    @property
    def branch_root(self) -> str:
        """The directory of this branch's metadata: the table itself for branch main."""
        return self.root if self.branch == MAIN_BRANCH else self.branch_dir(self.branch)

    @property
    def schema_dir(self) -> str:
        return join_path(self.branch_root, "_schema" if self.is_hidden else "schema")

    @property
    def schema_prefix(self) -> str:
        """The prefix of a schema file's name, before its id."""
        return "_schema-" if self.is_hidden else "schema-"

    @property
    def snapshot_dir(self) -> str:
        return join_path(self.branch_root, "snapshot")

    @property
    def changelog_dir(self) -> str:
        return join_path(self.branch_root, "changelog")

    @property
    def tag_dir(self) -> str:
        return join_path(self.branch_root, "tag")

    @property
    def consumer_dir(self) -> str:
        return join_path(self.branch_root, "consumer")

    def schema(self, schema_id: int) -> str:
        """Return the path of a schema file."""
        return f"{self.schema_dir}/{self.schema_prefix}{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """Return the path of a snapshot file."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    @property
    def latest_hint(self) -> str:
        """The hint file with the id of a recent newest snapshot."""
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """The hint file with the id of a recent oldest snapshot."""
        return f"{self.snapshot_dir}/EARLIEST"

    def changelog(self, snapshot_id: int) -> str:
        """Return the path of the long-lived changelog of an expired snapshot."""
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    @property
    def changelog_latest_hint(self) -> str:
        return f"{self.changelog_dir}/LATEST"

    @property
    def changelog_earliest_hint(self) -> str:
        return f"{self.changelog_dir}/EARLIEST"

    def tag(self, name: str) -> str:
        """Return the path of a tag's file."""
        return f"{self.tag_dir}/tag-{checked_name(name, field='tag name')}"

    def consumer(self, consumer_id: str) -> str:
        """Return the path of a consumer's file."""
        return f"{self.consumer_dir}/consumer-{checked_name(consumer_id, field='consumer id')}"

    # ---- shared by all branches

    @property
    def branches_dir(self) -> str:
        return join_path(self.root, "branch")

    def branch_dir(self, name: str) -> str:
        """Return the directory of a branch's metadata."""
        return f"{self.branches_dir}/branch-{checked_name(name, field='branch name')}"

    def on_branch(self, name: str) -> TablePaths:
        """Return the paths of the same table on another branch."""
        return replace(self, branch=name or MAIN_BRANCH)

    @property
    def manifest_dir(self) -> str:
        return join_path(self.root, "manifest")

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_dir}/{checked_name(name, field='manifest name')}"

    @property
    def statistics_dir(self) -> str:
        return join_path(self.root, "statistics")

    def statistics(self, name: str) -> str:
        """Return the path of a statistics file."""
        return f"{self.statistics_dir}/{checked_name(name, field='statistics')}"

    @property
    def index_dir(self) -> str:
        return join_path(self.root, "index")

    def index(self, name: str, *, partition_path: str = "", bucket: int = 0, external_path: str | None = None) -> str:
        """Return the path of an index file (hash index, deletion vectors).

        It is in `index/`, or with `index_beside_data` in its bucket's directory.
        """
        checked_name(name, field="index file name")
        if external_path is not None:
            return self._external(external_path, name)
        return (
            f"{self.bucket_dir(partition_path, bucket)}/{name}"
            if self.index_beside_data
            else f"{self.index_dir}/{name}"
        )

    def bucket_dir(self, partition_path: str, bucket: int, *, directory: str | None = None) -> str:
        """Return the directory of a bucket's files; `partition_path` is "dt=…/hr=…/" or empty."""
        word = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        above = (self.root, self.directory if directory is None else directory, partition_path)
        return f"{join_path(*above)}/{word}" if any(above) else word

    def data_file(self, partition_path: str, bucket: int, name: str, external_path: str | None = None) -> str:
        """Return the path of a data or changelog file.

        An external path, without `file:`, is used if `locations` allow it.
        """
        checked_name(name, field="_FILE_NAME")
        if external_path is not None:
            return self._external(external_path, name)
        return f"{self.bucket_dir(partition_path, bucket)}/{name}"

    def extra_file(self, data_file_path: str, name: str) -> str:
        """Return the path of a file beside a data file, such as its file index."""
        return f"{data_file_path.rpartition('/')[0]}/{checked_name(name, field='_EXTRA_FILES')}"

    def _is_metadata(self, location: str) -> bool:
        """Return whether a normalized location is in a metadata folder of any branch of the table."""
        root = (normalize_location(self.root) or self.root).rstrip("/")
        return location.startswith(f"{root}/") and location[len(root) + 1 :].partition("/")[0] in _METADATA_FOLDERS

    def _external(self, path: str, name: str) -> str:
        """Return the full path of a file given in a manifest or message.

        Raises `Corrupt`, `LocationNotAllowed`. It ends in the file's own name, since names decide which files are
        needed and which may be deleted. It lies below the location that allows it, and is no metadata of the table.
        """
        location = normalize_location(path)
        if location is not None and location != normalize_location(self.root):
            if self.locations.base_of(location, self.root) not in {None, location}:
                if self._is_metadata(location):
                    raise Corrupt(
                        f"_EXTERNAL_PATH {path[:200]!a} is metadata of the table, and no data file",
                        field="_EXTERNAL_PATH",
                    )
                if path.rpartition("/")[2] != name:
                    raise Corrupt(
                        f"_EXTERNAL_PATH {path[:200]!a} is not of the file {name!a} that it stands for",
                        field="_EXTERNAL_PATH",
                    )
                return without_scheme(path)
            for root in self.external_roots:
                base = normalize_location(root)
                if base is not None and location != base and is_at_or_below(location, base):
                    raise location_not_allowed(root, table=self.root, option=EXTERNAL_PATHS)
        roots = ", ".join(self.external_roots) or "none"
        raise Corrupt(
            f"_EXTERNAL_PATH {path[:200]!a} lies below no root that {EXTERNAL_PATHS} names ({roots})",
            field="_EXTERNAL_PATH",
        )


def without_scheme(path: str) -> str:
    """Return a local path without `file:` and its slashes; other locations unchanged."""
    if not path.startswith("file:"):
        return path
    local_path = path.removeprefix("file:")
    return "/" + local_path.lstrip("/")
