"""The schema of a table as users see it, its changes, the difference of two, its statement.

In `t.diff_schemas(0, 3)` columns are matched by their ids, as Paimon does, so that a renamed column is not one
dropped and one added; fields of rows within columns too, by their path.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.ddl import schema_writer
from lakekit.draw import cards, humanize
from lakekit.draw.humanize import plural
from lakekit.errors import InvalidOption, NotFound
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import schemas as schema_files
from lakekit.options.features import OBJECT_TABLE
from lakekit.options.option import HIDDEN, is_secret
from lakekit.read.table_scan import TableCore
from lakekit.system_tables import frames
from lakekit.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, quote, text_literal
from lakekit.types.arrow import to_arrow_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakekit.ddl.schema_changes import TableChange
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.types import DataType, Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a table under one schema id.

    `highest_field_id` is the highest id ever given to a column, dropped ones included.
    """

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int

    @staticmethod
    def of(schema: TableSchema) -> Schema:
        """Return the schema of a schema file."""
        return Schema(id=schema.id, fields=schema.fields, highest_field_id=schema.highest_field_id)

    def to_polars(self) -> pl.Schema:
        """Return Polars' schema of a scan."""
        return pl.Schema(polars_schema(self.fields))

    def to_arrow(self) -> pa.Schema:
        """Return the schema in Arrow's own types: maps are maps, comments are field metadata."""
        return pa.schema([to_arrow_field(field) for field in self.fields])

    def __repr__(self) -> str:
        columns = [
            (humanize.escape_controls(field.name), humanize.escape_controls(str(field.type))) for field in self.fields
        ]
        width = max((humanize.display_width(name) for name, _ in columns), default=0)
        return "\n".join(
            [f"Schema {self.id}", *(f"  {humanize.pad(name, width)}  {of_type}" for name, of_type in columns)]
        )

    def _repr_html_(self) -> str:
        return columns_html(self.fields, title=f"Schema {self.id}")


def columns_html(fields: Sequence[Field], keys: Sequence[str] = (), *, title: str = "") -> str:
    """Return columns as an HTML table; those of the primary key are marked, unused heads are left out."""
    rows = [
        (field.id, field.name, str(field.type), "key" if field.name in keys else None, field.default, field.comment)
        for field in fields
    ]
    heads = ("id", "column", "type", "key", "default", "comment")
    used = [at for at in range(len(heads)) if at < 3 or any(row[at] is not None for row in rows)]
    return cards.html_table([heads[at] for at in used], [[row[at] for at in used] for row in rows], title=title)


# ---- schema difference ------------------------------------------------------------


_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""Decimal digits that hold every integer of a type."""
_EXACTLY_CONVERTED_TYPES = {"FLOAT": ("TINYINT", "SMALLINT"), "DOUBLE": ("TINYINT", "SMALLINT", "INT", "FLOAT")}
"""Floating types, and the types whose values they hold without loss."""
_DIFF_COLUMNS = ("change", "what", "before", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One difference of `what`: a column's path ("a", "a.b"), an option's key or a part of the table.

    `before` is None if it did not exist, `after` is None if it was dropped. `change`: "added", "dropped",
    "renamed", "widened" (every old value still fits), "type" (some may not), "nullable", "not null", "default",
    "comment", "moved", "option", "keys".
    """

    change: str
    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDiff:
    """The changes from schema `older_id` to schema `newer_id` of a table.

    Columns in their order, then the table's keys, comment and options.
    """

    table: str
    older_id: int
    newer_id: int
    changes: tuple[SchemaChange, ...]

    def filter(self, change: str) -> tuple[str, ...]:
        """Return the names that changed in that way: `filter("added")` are the paths of new columns."""
        return tuple(difference.what for difference in self.changes if difference.change == change)

    @property
    def _title(self) -> str:
        return f"{self.table} from schema {self.older_id} to {self.newer_id}: {plural(len(self.changes), 'change')}"

    @property
    def _rows(self) -> list[tuple[str, str, str | None, str | None]]:
        return [
            (change.change, change.what, _redact_secret(change, change.before), _redact_secret(change, change.after))
            for change in self.changes
        ]

    def __repr__(self) -> str:
        return f"{self._title}\n{cards.table_text(_DIFF_COLUMNS, self._rows)}" if self.changes else self._title

    def _repr_html_(self) -> str:
        return cards.html_table(_DIFF_COLUMNS, self._rows, title=self._title)


def _redact_secret(change: SchemaChange, value: str | None) -> str | None:
    """Return a value as displayed, secrets hidden: displays are saved with notebooks."""
    return HIDDEN if value is not None and change.change == "option" and is_secret(change.what) else value


def diff_schemas(table_name: str, older_schema: TableSchema, newer_schema: TableSchema) -> SchemaDiff:
    """Return the difference between two schemas of a table; `older_schema` may have the higher id."""
    changes = [*_diff_fields("", older_schema.fields, newer_schema.fields)]
    changes += [
        SchemaChange(change="keys", what=what, before=", ".join(before) or None, after=", ".join(after) or None)
        for what, before, after in (
            ("primary key", older_schema.primary_keys, newer_schema.primary_keys),
            ("partitioned by", older_schema.partition_keys, newer_schema.partition_keys),
        )
        if _current_key_names(before, older_schema, newer_schema) != after
    ]
    if older_schema.comment != newer_schema.comment:
        changes.append(
            SchemaChange(change="comment", what="table", before=older_schema.comment, after=newer_schema.comment)
        )
    return SchemaDiff(
        table=table_name,
        older_id=older_schema.id,
        newer_id=newer_schema.id,
        changes=(*changes, *_diff_options(older_schema.options, newer_schema.options)),
    )


def _current_key_names(keys: Sequence[str], older_schema: TableSchema, newer_schema: TableSchema) -> tuple[str, ...]:
    """Return key columns by their names in the newer schema: renaming one is no change of the key."""
    names = {field.id: field.name for field in newer_schema.fields}
    ids = {field.name: field.id for field in older_schema.fields}
    return tuple(names.get(ids.get(key, -1), key) for key in keys)


def _diff_options(older: Mapping[str, str], newer: Mapping[str, str]) -> Iterator[SchemaChange]:
    for key in sorted({*older, *newer}):
        before, after = older.get(key), newer.get(key)
        if before != after:
            yield SchemaChange(change="option", what=key, before=before, after=after)


def _diff_fields(path: str, older: Sequence[Field], newer: Sequence[Field]) -> Iterator[SchemaChange]:
    """Yield the changes of columns, or of a row's fields below `path`: newer order, dropped ones last."""
    older_by_id = {field.id: field for field in older}
    common_ids = [field.id for field in newer if field.id in older_by_id]
    order = [field.id for field in older if field.id in {*common_ids}]
    for field in newer:
        field_path, before = path + field.name, older_by_id.get(field.id)
        if before is None:
            yield SchemaChange(change="added", what=field_path, before=None, after=str(field.type))
            continue
        if before.name != field.name:
            yield SchemaChange(change="renamed", what=field_path, before=path + before.name, after=field_path)
        yield from _diff_types(field_path, before.type, field.type)
        if before.default != field.default:
            yield SchemaChange(change="default", what=field_path, before=before.default, after=field.default)
        if before.comment != field.comment:
            yield SchemaChange(change="comment", what=field_path, before=before.comment, after=field.comment)
    if moved := _moved_field_ids(order, common_ids):
        yield from (
            SchemaChange(change="moved", what=path + field.name, before=None, after=None)
            for field in newer
            if field.id in moved
        )
    ids = {field.id for field in newer}
    yield from (
        SchemaChange(change="dropped", what=path + field.name, before=str(field.type), after=None)
        for field in older
        if field.id not in ids
    )


def _moved_field_ids(older: Sequence[int], newer: Sequence[int]) -> set[int]:
    """Return the fewest moved ids that explain the new order: all but a longest run in the old order."""
    old_position = {field_id: at for at, field_id in enumerate(older)}
    ends: list[int] = []  # ends[n]: the smallest place in the old order at which a run of n + 1 ids ends
    longest = []
    for field_id in newer:
        length = bisect_left(ends, old_position[field_id])
        ends[length : length + 1] = [old_position[field_id]]
        longest.append(length)
    left, last, stay = len(ends) - 1, len(older), set()
    for field_id, length in zip(reversed(newer), reversed(longest), strict=True):
        if length == left and old_position[field_id] < last:
            stay.add(field_id)
            last, left = old_position[field_id], left - 1
    return {*newer} - stay


def _diff_types(path: str, old_type: DataType, new_type: DataType) -> Iterator[SchemaChange]:
    """Yield the changes of a type: whether it takes nulls, its width, and the fields of rows inside it."""
    if old_type.nullable != new_type.nullable:
        yield SchemaChange(
            change="nullable" if new_type.nullable else "not null", what=path, before=str(old_type), after=str(new_type)
        )
    if old_type.root != new_type.root:
        yield SchemaChange(
            change="widened" if _is_lossless(new_type, old_type) else "type",
            what=path,
            before=str(old_type),
            after=str(new_type),
        )
    elif old_type.root == "ROW":
        yield from _diff_fields(f"{path}.", old_type.fields, new_type.fields)
    elif old_type.is_nested:
        for name in ("element", "key", "value"):
            old_part, new_part = getattr(old_type, name), getattr(new_type, name)
            if old_part is not None and new_part is not None:
                yield from _diff_types(f"{path}.{name}", old_part, new_part)
    elif old_type.as_nullable() != new_type.as_nullable():
        yield SchemaChange(
            change="widened" if _is_lossless(new_type, old_type) else "type",
            what=path,
            before=str(old_type),
            after=str(new_type),
        )


def _is_lossless(wider_type: DataType, narrower_type: DataType) -> bool:
    """Return whether every value of one plain type is a value of the other, without loss."""
    if narrower_type.root in INTEGERS and wider_type.root in INTEGERS:
        return INTEGERS.index(wider_type.root) >= INTEGERS.index(narrower_type.root)
    if wider_type.root == "DECIMAL":
        digits, scale = (
            (_INTEGER_DIGITS.get(narrower_type.root), 0)
            if narrower_type.root in INTEGERS
            else (narrower_type.precision, narrower_type.scale or 0)
        )
        if digits is None or narrower_type.root not in (*INTEGERS, "DECIMAL"):
            return False
        own = wider_type.scale or 0
        return own >= scale and (wider_type.precision or 0) - own >= digits - scale
    if narrower_type.root in _EXACTLY_CONVERTED_TYPES.get(wider_type.root, ()):
        return True
    for family in (STRINGS, BINARIES):
        if narrower_type.root in family and wider_type.root in family:
            return _max_length(wider_type) >= _max_length(narrower_type)
    alike = narrower_type.root == wider_type.root and (narrower_type.root in TIMESTAMPS or narrower_type.root == "TIME")
    return alike and (wider_type.precision or 0) >= (narrower_type.precision or 0)


def _max_length(t: DataType) -> float:
    """Return how long a string or how many bytes fit; infinite where the type names no length."""
    return float("inf") if t.length is None else t.length


# ---- methods of a table ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SchemaMethods(TableCore):
    """The newest schema and its changes."""

    @property
    def schema(self) -> Schema:
        """The newest schema."""
        return Schema.of(self._context().schema)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The columns of the primary key; empty for an append table."""
        return self._context().schema.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns that partition the table."""
        return self._context().schema.partition_keys

    @property
    def options(self) -> Mapping[str, str]:
        """The table's options with the dynamic ones put over them, as text."""
        return dict(self._context().all_options)

    @property
    def comment(self) -> str | None:
        """The table's comment."""
        return self._context().schema.comment

    @property
    def uuid(self) -> str:
        """The table's identity: its name and its creation time."""
        ctx = self._context()
        return f"{self.name}.{schema_files.read_schema(ctx, schema_files.list_ids(ctx)[0]).time_millis}"

    def to_sql(self, *, dialect: str = "lakekit") -> str:
        """Return the CREATE TABLE statement that would make a table like this one.

        `dialect` is "lakekit" (`cat.sql`) or "spark" (`ls.sql`), whose texts escape a backslash.
        """
        return create_table_statement(self.name, self._context(), dialect)

    def schemas(self) -> pl.DataFrame:
        """Return every schema, one row each."""
        return frames.schemas(self._context())

    def diff_schemas(self, older: int, newer: int | None = None) -> SchemaDiff:
        """Return the changes between two schemas; without `newer`, up to the newest.

        Changes are columns added, dropped, renamed, widened or moved, options set and reset.

        Raises: `NotFound` for a number that no schema has.
        """
        ctx = self._context()
        schema_ids = schema_files.list_ids(ctx)
        wanted = (older, schema_ids[-1] if newer is None else newer)
        if missing := [number for number in wanted if number not in schema_ids]:
            msg = (
                f"{self.name} has no schema {missing[0]}: its schemas are "
                f"{', '.join(map(str, schema_ids[:12]))}{' …' if len(schema_ids) > 12 else ''}"
            )
            raise NotFound(msg, name=str(missing[0]))
        return diff_schemas(
            self.name, schema_files.read_schema(ctx, wanted[0]), schema_files.read_schema(ctx, wanted[1])
        )

    def alter(self, *changes: TableChange) -> Schema:
        """Make changes to the schema, all of them in order, or none; return the new schema.

        `t.alter(lk.add_column("c", "INT"), lk.set_option("bucket", 8))`. No data is rewritten. When another writer
        changes the table at the same time, the changes are made to what that one left.

        Raises: `ColumnNotFound`, `ColumnAlreadyExists`, `SchemaMismatch`, `InvalidOption` for what the reference engine
        refuses too, `Unsupported` for what lakekit could not read.
        """
        if not changes:
            msg = "t.alter needs changes, such as lk.add_column('c', 'INT')"
            raise TypeError(msg)
        return Schema.of(schema_writer.alter_schema(self._context(), changes))


def create_table_statement(name: str, ctx: TableContext, dialect: str) -> str:
    """Return the CREATE TABLE statement of a table.

    That of an object table has no columns, since they are always the same.
    """
    check_dialect(dialect)
    literal = partial(text_literal, dialect=dialect)
    full = ".".join(map(quote, name.split(".")))
    options = sorted(ctx.schema.options.items())
    if ctx.options.type == OBJECT_TABLE:
        options = [pair for pair in options if pair[0] in ("type", "object-location")]
    clauses = [] if ctx.options.type == OBJECT_TABLE else [_columns_clause(ctx, literal)]
    if ctx.schema.comment:
        clauses.append(f"COMMENT {literal(ctx.schema.comment)}")
    if ctx.schema.partition_keys:
        clauses.append(f"PARTITIONED BY ({', '.join(map(quote, ctx.schema.partition_keys))})")
    if options:
        pairs = ",\n".join(f"  {literal(key)} = {literal(value)}" for key, value in options)
        clauses.append(f"WITH (\n{pairs}\n)")
    return f"CREATE TABLE {full} {' '.join(clauses)}"


def check_dialect(dialect: str) -> None:
    """Raise `InvalidOption` for a dialect of SQL that lakekit does not write."""
    if dialect not in ("lakekit", "spark"):
        raise InvalidOption(f"dialect={dialect!r}; there are 'lakekit' and 'spark'", key="dialect", value=str(dialect))


def _columns_clause(ctx: TableContext, literal: Callable[[str], str]) -> str:
    """Return the columns of a table and its primary key, in parentheses."""
    lines = [
        f"  {quote(f.name)} {f.type}"
        + ("" if f.default is None else f" DEFAULT {literal(f.default)}")
        + ("" if f.comment is None else f" COMMENT {literal(f.comment)}")
        for f in ctx.schema.fields
    ]
    if ctx.schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(quote, ctx.schema.primary_keys))}) NOT ENFORCED")
    return "(\n" + ",\n".join(lines) + "\n)"
