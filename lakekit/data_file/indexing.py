"""Build file indexes while a data file is written.

They are stored in its manifest entry where they are small, else in a file beside it.

    file-index.bloom-filter.columns = name,attrs[color]   columns, and keys of maps (rows without the key count as null)

Source: FORMAT.md 9.1 and 9.2, `DataFileIndexWriter`, `FileIndexOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import plugins
from lakekit.columns import col
from lakekit.errors import InvalidOption, Unsupported
from lakekit.file_index import container as index_container
from lakekit.options.frozendict import FrozenDict
from lakekit.types import STRINGS, part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.options.table_options import TableOptions
    from lakekit.types import DataType, Field

_PREFIX = "file-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """One configured index.

    `name` is what the container calls the column, `map_key` the key of a map whose values are indexed.
    """

    kind: str
    name: str
    column: str
    map_key: str | None
    type: DataType
    options: Mapping[str, str]


def indexes_of(schema: TableSchema, options: TableOptions) -> tuple[IndexDefinition, ...]:
    """Return the indexes that a table's options configure.

    Raises:
        InvalidOption: the column does not exist, or an option is of a column without such an index, which the reference
            refuses when it writes.
        Unsupported: the index does not take the column's type.
    """
    _check_index_options(options)
    return tuple(
        _index(schema, kind, name, column_options)
        for kind, columns in options.file_indexes.items()
        for name, column_options in columns.items()
    )


def unread_options(indexes: Sequence[IndexDefinition], options: TableOptions) -> Iterator[str]:
    """Yield a warning for each index option that neither lakekit nor the reference reads."""
    for index in indexes:
        known_options: tuple[str, ...] = getattr(
            plugins.load("file_index", index.kind), "OPTIONS", tuple(index.options)
        )
        for option in index.options.keys() - known_options:
            allowed = f"takes {' and '.join(known_options)}" if known_options else "has no options"
            index_name = f"the {index.kind} index of {index.name}"
            yield f"nobody reads the option {option!r} of {index_name}: {index.kind} {allowed}"
    for key in options.given:
        prefix, _, suffix = key.partition(".")
        kind, _, member = suffix.partition(".")
        if prefix == _PREFIX and kind in plugins.names("file_index") and "." not in member and member != "columns":
            yield f"nobody reads the option {key!r}; did you mean '{_PREFIX}.{kind}.columns'?"


def _check_index_options(options: TableOptions) -> None:
    for kind, columns in options.file_indexes.items():
        if not columns:
            key = f"{_PREFIX}.{kind}.columns"
            raise InvalidOption(
                f"option {key!r} names no column. Name some, or take the option away", key=key, value=""
            )
    for key, value in options.given.items():
        prefix, _, suffix = key.partition(".")
        kind, _, suffix = suffix.partition(".")
        column = suffix.rpartition(".")[0]
        if prefix != _PREFIX or not column or "." in column:  # the reference passes over columns with dots
            continue
        named = options.file_indexes.get(kind, {})
        if column not in named and not any(name.startswith(f"{column}[") for name in named):
            columns_key = f"'{_PREFIX}.{kind}.columns'"
            definition = f"{columns_key} names {', '.join(named)}" if named else f"there is no {columns_key}"
            msg = f"option {key!r} is of an index that is not asked for: {definition}"
            raise InvalidOption(f"{msg}. Name {column} there, or take this one away", key=key, value=value)


def _index(schema: TableSchema, kind: str, name: str, options: Mapping[str, str]) -> IndexDefinition:
    column, bracket, map_key = name.partition("[")
    nested = bool(bracket) and map_key.endswith("]") and not schema.has(name)
    key = f"{_PREFIX}.{kind}.columns"
    if not schema.has(column if nested else name):
        raise InvalidOption(
            f"option {key!r} names {name!r}, which is no column; columns are {', '.join(schema.names)}",
            key=key,
            value=name,
        )
    field = schema.field(column if nested else name)
    t = _value_type(field, key, name) if nested else field.type
    module: Any = plugins.load("file_index", kind)
    takes = getattr(module, "takes", None)
    if t.root not in module.TYPES or (takes is not None and not takes(t)):
        msg = f"a {kind} index does not take column {name} of type {t}: leave {name} out of option {key!r}"
        raise Unsupported(msg, feature=f"file-index.{kind}")
    return IndexDefinition(
        kind=kind,
        name=name,
        column=field.name,
        map_key=map_key[:-1] if nested else None,
        type=t,
        options=FrozenDict(options),
    )


def _value_type(field: Field, key: str, name: str) -> DataType:
    if field.type.root != "MAP" or part(field.type.key).root not in STRINGS:
        raise InvalidOption(
            f"option {key!r} names {name!r}, but {field.name} is {field.type}, not a map of texts", key=key, value=name
        )
    return part(field.type.value)


class IndexBuilder:
    """The values of the indexed columns of one file, buffered until the indexes are built."""

    __slots__ = ("_columns", "_indexes", "_parts")

    def __init__(self, indexes: Sequence[IndexDefinition]) -> None:
        self._indexes = tuple(indexes)
        self._columns = tuple({(index.column, index.map_key): _values(index) for index in indexes}.items())
        self._parts: list[pl.DataFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows of the file, in order."""
        if self._indexes:
            self._parts.append(frame.select(expr.alias(str(i)) for i, (_, expr) in enumerate(self._columns)))

    def container(self) -> bytes:
        """Return all indexes of the file, encoded as a container."""
        table = pl.concat(self._parts)
        arrays = {
            source: table.get_column(str(i)).to_arrow(compat_level=pl.CompatLevel.oldest())
            for i, (source, _) in enumerate(self._columns)
        }
        payloads: dict[str, dict[str, bytes | None]] = {}
        for index in self._indexes:
            module: Any = plugins.load("file_index", index.kind)
            values = arrays[index.column, index.map_key]
            payload = module.build(values, index.type, index.options)
            is_empty = values.null_count == len(values) and getattr(module, "NEEDS_VALUES", False)
            payloads.setdefault(index.name, {})[index.kind] = None if is_empty else payload
        return index_container.encode(payloads)

    def put(self, ctx: TableContext, path: str) -> tuple[bytes | None, tuple[str, ...]]:
        """Return (bytes for the manifest entry, names of extra files).

        Writes the file at `path` where the indexes are too big for a manifest.
        """
        if not self._indexes:
            return None, ()
        data = self.container()
        if len(data) <= ctx.options.file_index_in_manifest_threshold_bytes:
            return data, ()
        with ctx.storage.open_write(path) as sink:
            sink.write(data)
        return None, (path.rpartition("/")[2],)


def _values(index: IndexDefinition) -> pl.Expr:
    column = col(index.column)
    if index.map_key is None:
        return column
    entry = pl.element().filter(pl.element().struct.field("key") == index.map_key).struct.field("value")
    return column.list.eval(entry).list.get(0, null_on_oob=True)
