"""The context of an opened table (schema, options, paths, storage), its catalog, its feature check.

    ctx = open_context("warehouse/shop.db/orders")
    ctx.schema, ctx.options, ctx.paths, ctx.storage

    with catalog_lock(ctx) as lock:              what a catalog provides: a lock for new schemas and snapshots
        lock.check_held()                        the lock is still ours
        storage.put_if_absent(path, data)        makes a commit safe; the lock keeps out engines that need one
    schema_changed(ctx, schema)                  and schema notifications

Opening reads the newest schema and nothing else. A context does not change; `with_schema` and `with_options` return
another. A table opened by its path has no catalog environment. `check_writable` and `check_removable` refuse changes to
tables with features that lakekit does not know.

Source: ENGINE.md 9.3; `CatalogLock`, `RenamingSnapshotCommit`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lakekit import storage as storages
from lakekit.errors import BranchNotFound, Corrupt, TableNotFound
from lakekit.metadata import schemas
from lakekit.model.table_paths import MAIN_BRANCH, Locations, TablePaths, is_plain_name, normalize_location
from lakekit.options import table_options
from lakekit.options.features import FEATURES, OFF_TEXTS, find_read_refusal, make_refusal
from lakekit.options.option import EMPTY, FrozenDict
from lakekit.options.table_options import TableOptions
from lakekit.runtime import REAL_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from lakekit.errors import Unsupported
    from lakekit.model.table_schema import TableSchema
    from lakekit.runtime import Runtime
    from lakekit.storage import PathLike
    from lakekit.storage.protocol import Storage
    from lakekit.types import DataType

    class CatalogedTable(Protocol):
        """A table's location or context."""

        @property
        def catalog_env(self) -> CatalogEnvironment | None: ...
        @property
        def paths(self) -> TablePaths: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """The location of a table before its schema is read: the least that `metadata` works on."""

    name: str
    storage: Storage
    paths: TablePaths
    runtime: Runtime = REAL_RUNTIME
    catalog_env: CatalogEnvironment | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """An opened table. `options` are those of its newest schema overlaid with `dynamic`, the caller's.

    `newest_schema_id` is the schema whose options these are: a read of an old snapshot has that time's columns and
    today's options.
    """

    name: str
    schema: TableSchema
    options: TableOptions
    paths: TablePaths
    storage: Storage
    dynamic: Mapping[str, Any] = EMPTY
    runtime: Runtime = REAL_RUNTIME
    newest_schema_id: int = 0
    catalog_env: CatalogEnvironment | None = field(default=None, compare=False, repr=False)

    @property
    def location(self) -> TableLocation:
        """The location of the table."""
        return TableLocation(
            name=self.name, storage=self.storage, paths=self.paths, runtime=self.runtime, catalog_env=self.catalog_env
        )

    @property
    def branch(self) -> str:
        """Return the branch from which the table is seen."""
        return self.paths.branch

    @property
    def root(self) -> str:
        """The table's folder."""
        return self.paths.root

    @property
    def all_options(self) -> Mapping[str, str]:
        """Every given option as text, the caller's over the table's."""
        return self.options.texts

    @property
    def kind(self) -> Literal["key", "append"]:
        """Return whether the table has a primary key."""
        return self.options.kind

    @property
    def has_buckets(self) -> bool:
        """Return whether files belong to buckets; those of append tables with the option bucket=-1 do not."""
        return self.kind == "key" or self.options.bucket != -1

    def new_commit_user(self) -> str:
        """Return a new user for one commit or one writer, with the prefix of option `commit.user-prefix`."""
        prefix, drawn = self.options.commit_user_prefix, self.runtime.new_id()
        return f"{prefix}_{drawn}" if prefix else drawn

    @property
    def fallback_branch(self) -> str | None:
        """Return the branch that is read along with this one, partition by partition.

        That is `scan.fallback-branch`, else `scan.primary-branch`; None without either.
        """
        return self.options.scan_fallback_branch or self.options.scan_primary_branch or None

    @property
    def is_fallback_primary(self) -> bool:
        """Return whether the fallback branch is the primary one, whose missing partitions this branch fills."""
        return not self.options.scan_fallback_branch and bool(self.options.scan_primary_branch)

    def check_location(self, location: str, option: str, *, path: str | None = None) -> None:
        """Raise `LocationNotAllowed` for a location that a table option names and that is not allowed.

        See `Locations.check`.
        """
        self.paths.locations.check(location, root=self.root, table=self.name, option=option, path=path)

    def trusted_base(self, location: str) -> str:
        """Return the allowed location that covers `location`, as `Locations.base_of`.

        `location` itself if none does.
        """
        normalized = normalize_location(location)
        base = None if normalized is None else self.paths.locations.base_of(normalized, self.root)
        return location if base is None else base

    def with_schema(self, schema: TableSchema) -> TableContext:
        """Return the same table with another schema.

        A newer schema brings its options; an older one is read with today's, translated to its column names.
        """
        if schema.id < self.newest_schema_id:
            own, given_options = (
                table_options.translate_options(options, self.schema.fields, schema.fields)
                for options in (self.schema.options, self.options.texts)
            )
            options = (
                self.options
                if given_options is self.options.texts
                else TableOptions.parse(given_options, kind=self.kind)
            )
            return replace(self, schema=replace(schema, options=FrozenDict(own)), options=options)
        return load_context(self.location, schema, self.dynamic)

    def with_column_names_of(self, schema: TableSchema) -> TableContext:
        """Return the same branch with its columns renamed as in another branch, which has the same types.

        Options follow. Columns that were one before the branches parted are one: if both branches have the same columns
        in another order, order does not count. The schema is not that of a file: its id is negative.
        """
        own_fields, by_id = self.schema.fields, {field.id: field.name for field in schema.fields}
        is_same = by_id.keys() == {field.id for field in own_fields}
        names = [by_id[field.id] for field in own_fields] if is_same else schema.names
        fields = tuple(replace(field, name=name) for field, name in zip(own_fields, names, strict=True))
        own, given_options = (
            table_options.translate_options(options, own_fields, fields)
            for options in (self.schema.options, self.options.texts)
        )
        renamed = replace(schema, id=-1 - self.schema.id, fields=fields, options=FrozenDict(own))
        return replace(
            self,
            schema=renamed,
            options=self.options
            if given_options is self.options.texts
            else TableOptions.parse(given_options, kind=self.kind),
        )

    def with_options(self, options: Mapping[str, Any]) -> TableContext:
        """Return the same table with more of the caller's options, each checked.

        The option `branch` is the branch to see the table from, None the main one.

        Raises:
            BranchNotFound: the branch does not exist.
            InvalidOption: see `TableOptions.with_options`.
        """
        branch = str(options.get("branch") or MAIN_BRANCH) if "branch" in options else self.branch
        if branch != self.branch:
            return self.on_branch(branch).with_options(options)
        changed, dynamic = self.options.with_options(options), FrozenDict({**self.dynamic, **options})
        layout = _resolve_paths(self.paths, changed, dynamic)
        return replace(
            self, options=changed, dynamic=dynamic, paths=layout, storage=_confine_storage(self.storage, layout)
        )

    def on_branch(self, name: str) -> TableContext:
        """Return the same table seen from another branch, with that branch's schema. Raises `BranchNotFound`."""
        location = replace(self.location, paths=_branch_layout(self.name, self.paths, name))
        return load_context(location, schemas.read_latest(location), self.dynamic)


def open_context(
    path: str | PathLike,
    *,
    branch: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    name: str | None = None,
    runtime: Runtime = REAL_RUNTIME,
    catalog_env: CatalogEnvironment | None = None,
    locations: Locations = Locations(),  # noqa: B008 - frozen
) -> TableContext:
    """Open the table at a path.

    `options` overlay the table's own; `storage` replaces the one the path implies; `catalog_env` is the catalog that
    lists the table. `locations`: the locations outside its folder that the catalog, or the call that created the table,
    allows.

    Raises `TableNotFound` that describes what is there instead, `BranchNotFound`, `InvalidOption`, `Unsupported`,
    `Corrupt`.
    """
    dynamic = options or {}
    path_text = path if isinstance(path, str) else path.__fspath__()
    if storage is None:
        storage, root = storages.open(path, storage_options)
    else:
        root = path_text.rstrip("/")
        storage = storages.confine(storage, root)
    name = name or table_name_of(root)
    layout = _branch_layout(
        name, TablePaths(root=root, locations=locations), branch or str(dynamic.get("branch") or MAIN_BRANCH)
    )
    location = TableLocation(name=name, storage=storage, paths=layout, runtime=runtime, catalog_env=catalog_env)
    try:
        return load_context(location, schemas.read_latest(location, given_path=path_text), dynamic)
    except TableNotFound:
        hidden = replace(location, paths=replace(layout, is_hidden=True))
        if not schemas.list_ids(hidden):
            raise
        return load_context(hidden, schemas.read_latest(hidden), dynamic)


def table_name_of(root: str) -> str:
    """Return a table's name for messages: `orders`, or `shop.orders` in a database's folder."""
    parent, _, own = root.rstrip("/").rpartition("/")
    database = parent.rpartition("/")[2]
    return f"{database.removesuffix('.db')}.{own}" if database.endswith(".db") and database != ".db" else own


def load_context(location: TableLocation, schema: TableSchema, dynamic: Mapping[str, Any] = EMPTY) -> TableContext:
    """Return the context of a table with its newest schema. Raises `InvalidOption`."""
    options = TableOptions.parse(schema.options, kind="key" if schema.primary_keys else "append")
    if dynamic:
        options = options.with_options(dynamic)
    layout = _resolve_paths(location.paths, options, dynamic)
    return TableContext(
        name=location.name,
        schema=schema,
        options=options,
        paths=layout,
        storage=_confine_storage(location.storage, layout),
        dynamic=FrozenDict(dynamic),
        runtime=location.runtime,
        newest_schema_id=schema.id,
        catalog_env=location.catalog_env,
    )


def _resolve_paths(paths: TablePaths, options: TableOptions, dynamic: Mapping[str, Any]) -> TablePaths:
    directory = options.data_file_path_directory or ""
    if directory and not all(is_plain_name(part) for part in directory.strip("/").split("/")):
        raise Corrupt(
            f"option data-file.path-directory is {directory[:200]!a}, which leaves the table's folder",
            field="data-file.path-directory",
        )
    return replace(
        paths,
        directory=directory.strip("/"),
        index_beside_data=options.index_file_in_data_file_dir,
        external_roots=options.data_file_external_paths,
        locations=paths.locations.with_named(dynamic),
    )


def _confine_storage(storage: Storage, paths: TablePaths) -> Storage:
    """Return the storage for the table's folder and the allowed locations on the same disk."""
    return storages.add_roots(storage, [location for location in paths.locations.folders if location.startswith("/")])


def _branch_layout(name: str, paths: TablePaths, branch: str) -> TablePaths:
    stripped = str(branch).strip() or MAIN_BRANCH
    if not is_plain_name(stripped) or str(branch) != branch:
        raise BranchNotFound(f"{name} has no branch {branch!r}: that is no branch name", name=branch)
    return paths.on_branch(stripped)


# ---- the catalog of a table ------------------------------------------------------------


class HeldLock(Protocol):
    """A lock that is held."""

    def check_held(self) -> None:
        """Raise `LockLost` if another process may hold the lock by now."""
        ...


class CatalogEnvironment(Protocol):
    """The catalog of one table; hashable, picklable, thread-safe."""

    def lock(self, branch: str) -> AbstractContextManager[HeldLock]:
        """Hold the lock of the table's branch. Raises `RetriesExhausted` if it is not granted in time."""
        ...

    def schema_changed(self, schema: TableSchema) -> None:
        """Store the newest schema of branch main in the catalog."""
        ...


class NoLock:
    """The lock of a table without a catalog lock: always held."""

    def check_held(self) -> None:
        """Do nothing: without a lock nothing can be lost."""


_NO_LOCK = NoLock()


def catalog_lock(table: CatalogedTable) -> AbstractContextManager[HeldLock]:
    """Return the catalog's lock of a table, or a `NoLock`."""
    return nullcontext(_NO_LOCK) if table.catalog_env is None else table.catalog_env.lock(table.paths.branch)


def lock_check(lock: HeldLock) -> Callable[[], None] | None:
    """Return a function that checks that the lock is still ours; None without a lock."""
    return None if isinstance(lock, NoLock) else lock.check_held


def schema_changed(table: CatalogedTable, schema: TableSchema) -> None:
    """Notify the catalog of a new schema of branch main."""
    if table.catalog_env is not None and table.paths.branch == MAIN_BRANCH:
        table.catalog_env.schema_changed(schema)


# ---- feature check ------------------------------------------------------------


ICEBERG_OPTION = "metadata.iceberg.storage"
_READ_REMEDY = "Change it with the Java engine; lk.features() lists what lakekit reads and writes"
_ICEBERG_REMEDY = (
    "Readers of Iceberg would meet files that are gone, or old rows. Change it with the Java engine, "
    f"or, where nobody reads it as Iceberg any more, take the option away: t.alter(lk.reset_option({ICEBERG_OPTION!r}))"
)
_LAYOUT_SUFFIX, _SHREDDING_FEATURE = ".map.storage-layout", "type.map.shared-shredding"


def check_writable(ctx: TableContext) -> None:
    """Raise the refusal of the first feature that writing does not know, before any file changes.

    It precedes rows, compaction, statistics, manifests: everything that ends in a commit. Files that lakekit does not
    understand could be rewritten without their parts. A feature that reading refuses is refused too, and features that
    only writers implement, such as Iceberg metadata, indexes of key tables and callbacks. The table's stored options
    decide: options that a caller puts over them switch nothing off.

    Operations that only add metadata files check nothing: creating or renaming tags and branches, consumer progress,
    `t.alter`, `t.repair`, `t.check`, `t.mark_partition_done`.

    Raises: `Unsupported`, naming the feature.
    """
    refusal = _find_read_refusal(ctx) or next(_find_write_refusals(ctx), None)
    if refusal is not None:
        raise refusal


def check_removable(ctx: TableContext) -> None:
    """Raise for the first feature of a table that may have files unknown to lakekit: none may be removed.

    It precedes expiry, rollback, deletion of tags and branches, orphans: everything that removes files, as those that
    lakekit does not know could be taken for orphans. The stored options decide, as in `check_writable`. Dropping a
    whole table checks nothing, since no file of it has to stay.

    Raises:
        Unsupported: with the name of the feature.
    """
    refusal = _find_read_refusal(ctx) or next(
        (_make_refusal(ctx, key) for key, _ in _enabled_options(ctx.schema.options) if key == ICEBERG_OPTION), None
    )
    if refusal is not None:
        raise refusal


def _find_read_refusal(ctx: TableContext) -> Unsupported | None:
    """Return the error for a table whose stored options or types lakekit cannot read; None if it can."""
    table_text = f"table {ctx.name}"
    refusal = find_read_refusal(ctx.schema.options, table_text, alternative=_READ_REMEDY) or find_read_refusal(
        ctx.all_options, table_text, alternative=_READ_REMEDY
    )
    return refusal or next(_unreadable_types(ctx.schema), None)


def _unreadable_types(schema: TableSchema) -> Iterator[Unsupported]:
    """Yield the errors for columns whose types lakekit does not read."""
    for column in schema.fields:
        for root in _iter_type_roots(column.type):
            feature = FEATURES.get(f"type.{root.lower()}")
            if feature is not None and feature.read == "refused":
                yield make_refusal(feature.name, f"column {column.name}", alternative=_READ_REMEDY)


def _iter_type_roots(t: DataType) -> Iterator[str]:
    """Yield the root name of a type and of all types inside it."""
    yield t.root
    for part in t.parts:
        yield from _iter_type_roots(part)


def _find_write_refusals(ctx: TableContext) -> Iterator[Unsupported]:
    """Yield the errors for options that concern writing only."""
    for key, text in _enabled_options(ctx.all_options):
        feature = FEATURES.get(f"option.{key}")
        if feature is not None and feature.write == "refused":
            yield _make_refusal(ctx, key)
        if key.startswith("fields.") and key.endswith(_LAYOUT_SUFFIX):
            column = key.removeprefix("fields.").removesuffix(_LAYOUT_SUFFIX)
            if text == "shared-shredding":
                yield make_refusal(_SHREDDING_FEATURE, f"column {column} of table {ctx.name}", alternative=_READ_REMEDY)


def _make_refusal(ctx: TableContext, key: str) -> Unsupported:
    return make_refusal(
        f"option.{key}", f"table {ctx.name}", alternative=_ICEBERG_REMEDY if key == ICEBERG_OPTION else _READ_REMEDY
    )


def _enabled_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options that are not switched off, each as its key and its text in lower case."""
    for key, value in options.items():
        text = value.strip().lower()
        if text not in OFF_TEXTS:
            yield key, text
