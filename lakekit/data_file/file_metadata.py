"""Statistics and file indexes of a data file for its manifest entry, collected while it is written.

    collector = StatsCollector([field, …])
    collector.add(frame)                                  many times
    collector.stats([field, …], [mode, …])                -> Stats, in the order of the fields

    modes     none: nothing · counts: null counts · truncate(n): bounds of n characters · full: whole bounds
    indexes   file-index.bloom-filter.columns = name,attrs[color]
                        columns, and keys of maps (rows without the key count as null); large ones in a file beside

A bound is never false. Text is cut to the mode's length, upper bounds then raised to the next text; where none is
greater both bounds are left out. A column that holds a NaN has none; a zero among floats is bounded by -0.0 and 0.0,
which are equal as numbers. Nested columns have none, nor have bytes: the reference writes none, and where it found some
would compare them by signed bytes, and lose rows (`CompareUtils`).

Source: FORMAT.md 7.7, 9.1 and 9.2; `StatsCollectorFactories`, `TruncateSimpleColStatsCollector`,
`ParquetSimpleStatsExtractor`, `DataFileIndexWriter`, `FileIndexOptions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import plugins
from lakekit.codec import binary_row
from lakekit.columns import col
from lakekit.errors import InvalidOption, Unsupported
from lakekit.file_index import container as index_container
from lakekit.format.encoder import FLOAT_TYPES, ColumnStats
from lakekit.model.data_file import Stats
from lakekit.options.option import EMPTY, FrozenDict
from lakekit.types import STRINGS, TIMESTAMPS, part, timestamp_unit
from lakekit.types.arrow import instant_from_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.options.table_options import TableOptions
    from lakekit.types import DataType, Field


STATS_NONE, STATS_COUNTS, STATS_FULL = "none", "counts", "full"
SYSTEM_MODE = "truncate(128)"
"""The stats mode of key columns in formats whose footers hold bounds (all but Avro)."""
_TRUNCATE_MODE = re.compile(r"TRUNCATE\(([0-9]{1,9})\)")
_NO_STATS: tuple[Any, Any, int] = (None, None, 0)
_LAST_SCALAR, _FIRST_SURROGATE, _AFTER_SURROGATES = 0x10FFFF, 0xD800, 0xE000


def parse_stats_mode(text: str, key: str) -> str:
    """Return a stats mode in lower case, parsed as the reference does. Raises `InvalidOption`."""
    upper = text.strip().upper()
    if upper in ("NONE", "COUNTS", "FULL") or (_TRUNCATE_MODE.fullmatch(upper) and upper.strip("TRUNCAE()0")):
        return upper.lower()
    raise InvalidOption(
        f"option {key!r} is {text!r}; allowed: none, counts, truncate(n) with n above 0, full", key=key, value=text
    )


class StatsCollector:
    """Null counts, minima and maxima of columns over all frames added.

    `encoder_stats`: statistics that the encoder of the file computes itself, by column; those columns are not looked at
    here.
    """

    __slots__ = ("_columns", "_fields", "_types")

    def __init__(self, fields: Sequence[Field], encoder_stats: Mapping[str, ColumnStats] = EMPTY) -> None:
        self._types = {field.name: field.type for field in fields}
        self._fields = tuple(field for field in fields if field.name not in encoder_stats)
        self._columns = {field.name: encoder_stats.get(field.name) or ColumnStats() for field in fields}

    def add_frame(self, frame: pl.DataFrame) -> None:
        """Include the rows of a frame."""
        for field in self._fields:
            self._columns[field.name].add(frame.get_column(field.name), field.type)

    def column_bounds(self, name: str) -> tuple[Any, Any, int]:
        """Return (minimum, maximum, null count) of a column; None for bounds that are not known.

        Values are in the form of `types.arrow`.
        """
        stats = self._columns[name]
        return *_convert_bounds(stats, self._types[name]), stats.nulls

    def has_exact_bounds(self, field: Field, mode: str) -> bool:
        """Return whether a mode keeps the bounds of a column exactly as its rows have them.

        False for real numbers, whose zero has two signs, for columns with nulls, and where a text is cut.
        """
        if field.name not in self._columns or field.type.root in FLOAT_TYPES:
            return False
        low, high, nulls = self.column_bounds(field.name)
        return low is not None and not nulls and truncate_bounds(low, high, field.type, mode) == (low, high)

    def to_stats(self, fields: Sequence[Field], modes: Sequence[str]) -> Stats:
        """Return the statistics of some columns as a manifest stores them.

        Columns of mode `none` need not have been added.
        """
        types = _nullable_types(tuple(fields))
        columns = [
            _NO_STATS if mode == STATS_NONE else self.column_bounds(field.name)
            for field, mode in zip(fields, modes, strict=True)
        ]
        bounds = [
            truncate_bounds(low, high, t, mode) for (low, high, _), t, mode in zip(columns, types, modes, strict=True)
        ]
        return Stats(
            min_values=binary_row.with_arity(binary_row.encode_row([low for low, _ in bounds], types), len(types)),
            max_values=binary_row.with_arity(binary_row.encode_row([high for _, high in bounds], types), len(types)),
            null_counts=tuple(
                None if mode == STATS_NONE else nulls for (_, _, nulls), mode in zip(columns, modes, strict=True)
            ),
        )


@lru_cache(maxsize=256)
def _nullable_types(fields: tuple[Field, ...]) -> tuple[DataType, ...]:
    return tuple(field.type.as_nullable() for field in fields)


@lru_cache(maxsize=256)
def _truncate_length(mode: str) -> int | None:
    """Return how many characters a mode leaves of a text; None for all."""
    match = _TRUNCATE_MODE.fullmatch(mode.upper())
    return None if match is None else int(match.group(1))


def _fits_precision(value: Any, t: DataType) -> bool:
    """Return whether a decimal has no more digits than its type."""
    limit = 10 ** ((t.precision or 10) - (t.scale or 0))
    return -limit < value < limit  # no abs: it rounds to 28 digits


def _convert_bounds(stats: ColumnStats, t: DataType) -> tuple[Any, Any]:
    """Return bounds in the form of `types.arrow`; (None, None) where they are not known."""
    low, high = stats.low, stats.high
    if low is None or not stats.has_bounds:
        return None, None
    if t.root in FLOAT_TYPES:
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    if t.root in TIMESTAMPS:
        unit = timestamp_unit(t.precision)
        return instant_from_count(low, unit), instant_from_count(high, unit)
    if t.root == "TIME":
        return low // 1_000_000, high // 1_000_000
    if t.root == "DECIMAL" and not (_fits_precision(low, t) and _fits_precision(high, t)):
        return None, None
    return low, high


def truncate_bounds(low: Any, high: Any, t: DataType, mode: str) -> tuple[Any, Any]:
    """Return the bounds that a mode stores of a column's minimum and maximum."""
    if mode in (STATS_NONE, STATS_COUNTS) or low is None or high is None:
        return None, None
    length = _truncate_length(mode)
    if length is None or t.root not in STRINGS:
        return low, high
    raised = round_up_text(high, length)
    return (None, None) if raised is None else (low[:length], raised)


def round_up_text(text: str, length: int) -> str | None:
    """Return the least text of at most `length` characters that is not before `text`; None without one."""
    if len(text) <= length:
        return text
    for i in range(length - 1, -1, -1):
        code = ord(text[i]) + 1
        if code <= _LAST_SCALAR:
            return text[:i] + chr(_AFTER_SURROGATES if code == _FIRST_SURROGATE else code)
    return None


# ---- indexing ------------------------------------------------------------


_INDEX_OPTION_PREFIX = "file-index"


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


def index_definitions(schema: TableSchema, options: TableOptions) -> tuple[IndexDefinition, ...]:
    """Return the indexes that a table's options configure.

    Raises:
        InvalidOption: the column does not exist, or an option is of a column without such an index, which the reference
            refuses when it writes.
        Unsupported: the index does not take the column's type.
    """
    _check_index_options(options)
    return tuple(
        _make_index_definition(schema, kind, name, column_options)
        for kind, columns in options.file_indexes.items()
        for name, column_options in columns.items()
    )


def ignored_index_options(indexes: Sequence[IndexDefinition], options: TableOptions) -> Iterator[str]:
    """Yield a warning for each index option that neither lakekit nor the reference reads."""
    for index in indexes:
        known_options: tuple[str, ...] = getattr(
            plugins.load("file_index", index.kind), "OPTIONS", tuple(index.options)
        )
        for option in index.options.keys() - known_options:
            allowed = f"takes {' and '.join(known_options)}" if known_options else "has no options"
            index_name = f"the {index.kind} index of {index.name}"
            yield f"nobody reads the option {option!r} of {index_name}: {index.kind} {allowed}"
    for key in options.texts:
        prefix, _, suffix = key.partition(".")
        kind, _, member = suffix.partition(".")
        if (
            prefix == _INDEX_OPTION_PREFIX
            and kind in plugins.names("file_index")
            and "." not in member
            and member != "columns"
        ):
            yield f"nobody reads the option {key!r}; did you mean '{_INDEX_OPTION_PREFIX}.{kind}.columns'?"


def _check_index_options(options: TableOptions) -> None:
    for kind, columns in options.file_indexes.items():
        if not columns:
            key = f"{_INDEX_OPTION_PREFIX}.{kind}.columns"
            raise InvalidOption(
                f"option {key!r} names no column. Name some, or take the option away", key=key, value=""
            )
    for key, value in options.texts.items():
        prefix, _, suffix = key.partition(".")
        kind, _, suffix = suffix.partition(".")
        column = suffix.rpartition(".")[0]
        if prefix != _INDEX_OPTION_PREFIX or not column or "." in column:  # the reference passes over columns with dots
            continue
        named = options.file_indexes.get(kind, {})
        if column not in named and not any(name.startswith(f"{column}[") for name in named):
            columns_key = f"'{_INDEX_OPTION_PREFIX}.{kind}.columns'"
            definition = f"{columns_key} names {', '.join(named)}" if named else f"there is no {columns_key}"
            msg = f"option {key!r} is of an index that is not asked for: {definition}"
            raise InvalidOption(f"{msg}. Name {column} there, or take this one away", key=key, value=value)


def _make_index_definition(schema: TableSchema, kind: str, name: str, options: Mapping[str, str]) -> IndexDefinition:
    column, bracket, map_key = name.partition("[")
    nested = bool(bracket) and map_key.endswith("]") and not schema.has(name)
    key = f"{_INDEX_OPTION_PREFIX}.{kind}.columns"
    if not schema.has(column if nested else name):
        raise InvalidOption(
            f"option {key!r} names {name!r}, which is no column; columns are {', '.join(schema.names)}",
            key=key,
            value=name,
        )
    field = schema.field(column if nested else name)
    t = _value_type(field, key, name) if nested else field.type
    module: Any = plugins.load("file_index", kind)
    takes = getattr(module, "supports_type", None)
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
        self._columns = tuple({(index.column, index.map_key): _indexed_values(index) for index in indexes}.items())
        self._parts: list[pl.DataFrame] = []

    def add_frame(self, frame: pl.DataFrame) -> None:
        """Add rows of the file, in order."""
        if self._indexes:
            self._parts.append(frame.select(expr.alias(str(i)) for i, (_, expr) in enumerate(self._columns)))

    def build_container(self) -> bytes:
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
        return index_container.encode_container(payloads)

    def store(self, ctx: TableContext, path: str) -> tuple[bytes | None, tuple[str, ...]]:
        """Return (bytes for the manifest entry, names of extra files).

        Writes the file at `path` where the indexes are too big for a manifest.
        """
        if not self._indexes:
            return None, ()
        data = self.build_container()
        if len(data) <= ctx.options.file_index_in_manifest_threshold_bytes:
            return data, ()
        with ctx.storage.open_write(path) as sink:
            sink.write(data)
        return None, (path.rpartition("/")[2],)


def _indexed_values(index: IndexDefinition) -> pl.Expr:
    column = col(index.column)
    if index.map_key is None:
        return column
    entry = pl.element().filter(pl.element().struct.field("key") == index.map_key).struct.field("value")
    return column.list.eval(entry).list.get(0, null_on_oob=True)
