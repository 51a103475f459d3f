"""The path of every file of a table, as strings (FORMAT 1.2).

    <root>/schema/schema-0                                 metadata of branch main
    <root>/branch/branch-dev/schema/schema-0               metadata of branch dev
    <root>/manifest/…  index/…  statistics/…               shared by all branches
    <root>/[<directory>/]dt=2024-01-01/bucket-0/data-….parquet

Names from metadata files are untrusted: `checked_name` accepts only a plain file name, so no path leaves its directory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from lakekit.errors import Corrupt
from lakekit.model.locations import EXTERNAL_PATHS, Locations, is_at_or_below, normalize_location, not_allowed

MAIN = "main"
POSTPONE_BUCKET = -2
UNAWARE_BUCKET = 0
"""The directory of the files of a table without fixed buckets (Paimon: `BucketMode.UNAWARE_BUCKET`)."""
MAX_NAME_BYTES = 255
_METADATA = frozenset(
    {"schema", "_schema", "snapshot", "changelog", "tag", "branch", "consumer", "manifest", "statistics"}
)
"""Folders of a table that hold neither data nor indexes."""
_MAX_SHOWN = 80


def checked_name(name: str, *, path: str | None = None, field: str = "file name") -> str:
    """Return the name if it is one plain file name, else raise `Corrupt`.

    Not plain is a name that is empty, too long, `.`, `..`, or holds a separator or a control character.
    """
    if is_plain(name):
        return name
    name_text = ascii(name if len(name) <= _MAX_SHOWN else name[:_MAX_SHOWN] + "…")
    prefix = "" if path is None else f"{path}: "
    raise Corrupt(
        f"{prefix}{field} {name_text} is not a plain file name: nothing outside its directory is opened",
        path=path,
        field=field,
    )


@lru_cache(maxsize=8192)
def is_plain(name: str) -> bool:
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


def flaw(name: str, prefix: str) -> str | None:
    """Return why a name cannot be part of a file name after a prefix; None if it can."""
    if is_plain(name) and is_plain(f"{prefix}{name}"):
        return None
    length = len(f"{prefix}{name}".encode("utf-8", "surrogatepass"))
    if length > MAX_NAME_BYTES:
        return f"the name of a file would take {length} bytes with it, and {MAX_NAME_BYTES} fit"
    return "it is part of a file's name, so no / \\ or control characters"


@lru_cache(maxsize=1024)
def join(*parts: str) -> str:
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
        hidden: whether schemas have names that no engine takes for a table's, or for data, `_schema/_schema-0`: the
            table is of a kind that the reference's catalogs do not keep in folders.
        locations: decides which locations may be used.
    """

    root: str
    branch: str = MAIN
    directory: str = ""
    index_beside_data: bool = False
    external_roots: tuple[str, ...] = ()
    hidden: bool = False
    locations: Locations = field(default=Locations(), repr=False)

    # ---- of this branch

    @property
    def branch_root(self) -> str:
        """The directory of this branch's metadata: the table itself for branch main."""
        return self.root if self.branch == MAIN else self.branch_dir(self.branch)

    @property
    def schema_dir(self) -> str:
        return join(self.branch_root, "_schema" if self.hidden else "schema")

    @property
    def schema_prefix(self) -> str:
        """The prefix of a schema file's name, before its id."""
        return "_schema-" if self.hidden else "schema-"

    @property
    def snapshot_dir(self) -> str:
        return join(self.branch_root, "snapshot")

    @property
    def changelog_dir(self) -> str:
        return join(self.branch_root, "changelog")

    @property
    def tag_dir(self) -> str:
        return join(self.branch_root, "tag")

    @property
    def consumer_dir(self) -> str:
        return join(self.branch_root, "consumer")

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
        return join(self.root, "branch")

    def branch_dir(self, name: str) -> str:
        """Return the directory of a branch's metadata."""
        return f"{self.branches_dir}/branch-{checked_name(name, field='branch name')}"

    def on_branch(self, name: str) -> TablePaths:
        """Return the paths of the same table on another branch."""
        return replace(self, branch=name or MAIN)

    @property
    def manifest_dir(self) -> str:
        return join(self.root, "manifest")

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_dir}/{checked_name(name, field='manifest name')}"

    @property
    def statistics_dir(self) -> str:
        return join(self.root, "statistics")

    def statistics(self, name: str) -> str:
        """Return the path of a statistics file."""
        return f"{self.statistics_dir}/{checked_name(name, field='statistics')}"

    @property
    def index_dir(self) -> str:
        return join(self.root, "index")

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
        return f"{join(*above)}/{word}" if any(above) else word

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
        return location.startswith(f"{root}/") and location[len(root) + 1 :].partition("/")[0] in _METADATA

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
                    raise not_allowed(root, table=self.root, option=EXTERNAL_PATHS)
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
