"""A handle: the facts of an opened table, from which everything else is asked.

    handle = open_handle("warehouse/shop.db/orders")
    handle.schema, handle.options, handle.layout, handle.storage

Opening reads the newest schema and nothing else. A handle does not change; `with_schema` and `with_options` make another.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lakekit import storage as storages
from lakekit.errors import BranchNotFound, Corrupt, TableNotFound
from lakekit.metadata import schemas
from lakekit.model.locations import Locations, normalize_location
from lakekit.model.table_paths import MAIN, TablePaths, is_plain
from lakekit.options import renaming
from lakekit.options.frozendict import EMPTY, FrozenDict
from lakekit.options.table_options import TableOptions
from lakekit.world import REAL_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.metadata.keeper import CatalogEnvironment
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage import PathLike
    from lakekit.storage.protocol import Storage
    from lakekit.world import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """Where a table is, before anything of it is known: the least that `meta` works on."""

    name: str
    storage: Storage
    layout: TablePaths
    world: Runtime = REAL_RUNTIME
    keeper: CatalogEnvironment | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """An opened table. `options` are those of its newest schema with `dynamic`, the caller's, put over them.

    `newest_schema_id` is the schema whose options these are: a read of an old snapshot has that time's columns and today's options.
    """

    name: str
    schema: TableSchema
    options: TableOptions
    layout: TablePaths
    storage: Storage
    dynamic: Mapping[str, Any] = EMPTY
    world: Runtime = REAL_RUNTIME
    newest_schema_id: int = 0
    keeper: CatalogEnvironment | None = field(default=None, compare=False, repr=False)

    @property
    def ground(self) -> TableLocation:
        """Where the table is, without what is known of it."""
        return TableLocation(name=self.name, storage=self.storage, layout=self.layout, world=self.world, keeper=self.keeper)

    @property
    def branch(self) -> str:
        """The branch this handle looks at."""
        return self.layout.branch

    @property
    def root(self) -> str:
        """The table's folder."""
        return self.layout.root

    @property
    def all_options(self) -> Mapping[str, str]:
        """Every given option as text, the caller's put over the table's."""
        return self.options.given

    @property
    def kind(self) -> Literal["key", "append"]:
        """Whether the table has a primary key."""
        return self.options.kind

    @property
    def has_buckets(self) -> bool:
        """Whether a row's place is a bucket of its own; files of append tables with the option bucket=-1 lie together, in no order."""
        return self.kind == "key" or self.options.bucket != -1

    def new_commit_user(self) -> str:
        """A user drawn for one commit or one writer, after the option `commit.user-prefix`."""
        prefix, drawn = self.options.commit_user_prefix, self.world.new_id()
        return f"{prefix}_{drawn}" if prefix else drawn

    @property
    def fallback_branch(self) -> str | None:
        """The branch that is read along with this one, partition by partition: `scan.fallback-branch`, or else `scan.primary-branch`."""
        return self.options.scan_fallback_branch or self.options.scan_primary_branch or None

    @property
    def fallback_first(self) -> bool:
        """Whether that branch is the primary one: this one then stands in for the partitions that it lacks."""
        return not self.options.scan_fallback_branch and bool(self.options.scan_primary_branch)

    def check_location(self, location: str, option: str, *, place: str | None = None) -> None:
        """Raise `LocationNotAllowed` for a location that the table names by an option and that is not allowed; see `Locations.check`."""
        self.layout.locations.check(location, root=self.root, table=self.name, option=option, place=place)

    def trusted_place(self, location: str) -> str:
        """Return the place that allows a location, as `Locations.base_of`; the location itself where none does."""
        normalized = normalize_location(location)
        base = None if normalized is None else self.layout.locations.base_of(normalized, self.root)
        return location if base is None else base

    def with_schema(self, schema: TableSchema) -> TableContext:
        """The same table with other columns: a newer schema brings its options, an older one is read with today's, which name its columns as it does."""
        if schema.id < self.newest_schema_id:
            own, given = (renaming.translate_options(options, self.schema.fields, schema.fields) for options in (self.schema.options, self.options.given))
            options = self.options if given is self.options.given else TableOptions.parse(given, kind=self.kind)
            return replace(self, schema=replace(schema, options=FrozenDict(own)), options=options)
        return load_context(self.ground, schema, self.dynamic)

    def with_names_of(self, schema: TableSchema) -> TableContext:
        """The same branch with its columns called as those of another branch are, which have the same types, one by one; options follow.

        Columns that began as one, before the branches parted, are one: where both branches have the same columns in another order, order does not
        count. The schema is that of no file: its id is negative.
        """
        mine, by_id = self.schema.fields, {field.id: field.name for field in schema.fields}
        is_same = by_id.keys() == {field.id for field in mine}
        names = [by_id[field.id] for field in mine] if is_same else schema.names
        fields = tuple(replace(field, name=name) for field, name in zip(mine, names, strict=True))
        own, given = (renaming.translate_options(options, mine, fields) for options in (self.schema.options, self.options.given))
        called = replace(schema, id=-1 - self.schema.id, fields=fields, options=FrozenDict(own))
        return replace(self, schema=called, options=self.options if given is self.options.given else TableOptions.parse(given, kind=self.kind))

    def with_options(self, options: Mapping[str, Any]) -> TableContext:
        """The same table with more of the caller's options, each checked: the option `branch` is the branch it is seen from, None the main one.

        Raises: `BranchNotFound`; `InvalidOption`, see `TableOptions.changed`.
        """
        branch = str(options.get("branch") or MAIN) if "branch" in options else self.branch
        if branch != self.branch:
            return self.on_branch(branch).with_options(options)
        changed, dynamic = self.options.changed(options), FrozenDict({**self.dynamic, **options})
        layout = _layout(self.layout, changed, dynamic)
        return replace(self, options=changed, dynamic=dynamic, layout=layout, storage=_storage(self.storage, layout))

    def on_branch(self, name: str) -> TableContext:
        """The same table seen from another branch, with that branch's schema. Raises `BranchNotFound`."""
        ground = replace(self.ground, layout=_branch_layout(self.name, self.layout, name))
        return load_context(ground, schemas.latest(ground), self.dynamic)


def open_context(
    path: str | PathLike,
    *,
    branch: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    name: str | None = None,
    world: Runtime = REAL_RUNTIME,
    keeper: CatalogEnvironment | None = None,
    locations: Locations = Locations(),  # noqa: B008 - frozen
) -> TableContext:
    """The table at a path. `options` are put over the table's own; `storage` replaces what the path asks for; `keeper` is the catalog that names it.

    `locations`: the places outside its folder that the catalog, or the call that made the table, allows it.

    Raises `TableNotFound` saying what is there instead, `BranchNotFound`, `InvalidOption`, `Unsupported`, `Corrupt`.
    """
    dynamic = options or {}
    asked = path if isinstance(path, str) else path.__fspath__()
    if storage is None:
        storage, root = storages.open(path, storage_options)
    else:
        root = asked.rstrip("/")
        storage = storages.confine(storage, root)
    name = name or name_of(root)
    layout = _branch_layout(name, TablePaths(root=root, locations=locations), branch or str(dynamic.get("branch") or MAIN))
    ground = TableLocation(name=name, storage=storage, layout=layout, world=world, keeper=keeper)
    try:
        return load_context(ground, schemas.latest(ground, asked=asked), dynamic)
    except TableNotFound:
        hidden = replace(ground, layout=replace(layout, hidden=True))
        if not schemas.ids(hidden):
            raise
        return load_context(hidden, schemas.latest(hidden), dynamic)


def name_of(root: str) -> str:
    """What messages call the table at a path: `orders`, or `shop.orders` where the folder above is a database's."""
    parent, _, own = root.rstrip("/").rpartition("/")
    database = parent.rpartition("/")[2]
    return f"{database.removesuffix('.db')}.{own}" if database.endswith(".db") and database != ".db" else own


def load_context(ground: TableLocation, schema: TableSchema, dynamic: Mapping[str, Any] = EMPTY) -> TableContext:
    """The table as it is by its newest schema. Raises `InvalidOption`."""
    options = TableOptions.parse(schema.options, kind="key" if schema.primary_keys else "append")
    if dynamic:
        options = options.changed(dynamic)
    layout = _layout(ground.layout, options, dynamic)
    return TableContext(
        name=ground.name,
        schema=schema,
        options=options,
        layout=layout,
        storage=_storage(ground.storage, layout),
        dynamic=FrozenDict(dynamic),
        world=ground.world,
        newest_schema_id=schema.id,
        keeper=ground.keeper,
    )


def _layout(layout: TablePaths, options: TableOptions, dynamic: Mapping[str, Any]) -> TablePaths:
    directory = options.data_file_path_directory or ""
    if directory and not all(is_plain(part) for part in directory.strip("/").split("/")):
        raise Corrupt(f"option data-file.path-directory is {directory[:200]!a}, which leaves the table's folder", field="data-file.path-directory")
    return replace(
        layout,
        directory=directory.strip("/"),
        index_beside_data=options.index_file_in_data_file_dir,
        external_roots=options.data_file_external_paths,
        locations=layout.locations.with_named(dynamic),
    )


def _storage(storage: Storage, layout: TablePaths) -> Storage:
    """The storage for the table's folder, and for the places on the same disk that are allowed to it."""
    return storages.add_roots(storage, [location for location in layout.locations.folders if location.startswith("/")])


def _branch_layout(name: str, layout: TablePaths, branch: str) -> TablePaths:
    wanted = str(branch).strip() or MAIN
    if not is_plain(wanted) or str(branch) != branch:
        raise BranchNotFound(f"{name} has no branch {branch!r}: that is no branch name", name=branch)
    return layout.on_branch(wanted)
