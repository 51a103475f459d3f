"""Golden tables and the rows the reference engine read from them.

    fixtures/tables/dedup_orc/        the table as the engine wrote it
    fixtures/tables/dedup_orc.json    {"case": …, "reads": [{"name": "latest", "columns": […], "types": […],
                                       "rows": [["+I", [1, "a"]], …]}]}

    case = load("dedup_orc")
    read = case.read("latest")
    assert difference(frame, read) is None

Values are those of the recording (plain JSON values), which is exact for every type:

    BOOLEAN true/false · TINYINT…BIGINT number · FLOAT, DOUBLE text · DECIMAL plain text · CHAR, VARCHAR text ·
    BINARY, VARBINARY lower-case hex · DATE epoch day · TIME milliseconds of day ·
    TIMESTAMP and LTZ [epoch milliseconds, nanoseconds of that millisecond] ·
    ARRAY list · MAP and MULTISET list of [key, value] · ROW list · VARIANT [value hex, metadata hex]

A name in place of the list of columns (and types), or of rows, is that of an earlier read of the case that has the
same. `encode_rows` turns a Polars frame into the same values, `canonical_value` removes what has no meaning: the order
of map entries, the digits of a float's text.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from lakekit.columns import drop_columns
from lakekit.format.polars_types import polars_type
from lakekit.testing.fixtures import fixtures
from lakekit.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType, parse, part, timestamp_unit
from lakekit.types.arrow import to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One recorded read: its arguments, and the rows of the engine, in the engine's order, or its error."""

    name: str
    branch: str | None
    system: str | None
    options: dict[str, str]
    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    rows: tuple[tuple[str, tuple[Any, ...]], ...]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One golden table: its path, its subject, its recorded reads.

    `allowed` are the locations outside its folder that its files may lie at.
    """

    name: str
    about: str
    features: tuple[str, ...]
    engine: str
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    path: str
    reads: tuple[Read, ...] = field(repr=False)
    allowed: tuple[str, ...] = ()

    def read(self, name: str) -> Read:
        """Return the recorded read of that name."""
        for read in self.reads:
            if read.name == name:
                return read
        msg = f"{self.name} has no read {name!r}: it has {', '.join(read.name for read in self.reads)}"
        raise LookupError(msg)


def load_golden_table(case: str, *, root: str | None = None) -> Case:
    """Return the golden table `case` ("dedup_orc") of a folder of fixtures."""
    root = root or str(fixtures("tables"))
    facts = json.loads(Path(f"{root}/tables/{case}.json").read_bytes())
    reads: dict[str, Read] = {}
    for recorded in facts["reads"]:
        reads[recorded["name"]] = _read(recorded, reads)
    return Case(
        name=facts["case"],
        about=facts["about"],
        features=tuple(facts["features"]),
        engine=facts["engine"],
        primary_keys=tuple(facts["primary_keys"]),
        partition_keys=tuple(facts["partition_keys"]),
        path=f"{root}/{facts['location']}",
        reads=tuple(reads.values()),
    )


def _read(facts: dict[str, Any], earlier: dict[str, Read]) -> Read:
    columns, rows = facts.get("columns") or [], facts.get("rows") or []
    shaped, filled = (earlier[same] if isinstance(same, str) else None for same in (columns, rows))
    return Read(
        name=facts["name"],
        branch=facts.get("branch"),
        system=facts.get("system"),
        options=facts.get("options") or {},
        columns=shaped.columns if shaped else tuple(columns),
        types=shaped.types if shaped else tuple(parse(text) for text in facts.get("types") or ()),
        rows=filled.rows if filled else tuple((kind, tuple(values)) for kind, values in rows),
        error=facts.get("error"),
    )


# ---- Polars -> recorded values ---------------------------------------------------------------------------------------


def encode_rows(
    frame: pl.DataFrame, types: Sequence[DataType], *, kind_column: str | None = None
) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the rows of `frame` as (kind, values) in the recording's encoding.

    `types` are those of its columns, the kind column left out. Without `kind_column` every row is "+I".

    Raises: `TypeError` for a column whose Polars type cannot hold values of its Paimon type.
    """
    kinds = ["+I"] * frame.height if kind_column is None else frame[kind_column].to_list()
    values = frame if kind_column is None else drop_columns(frame, [kind_column])
    if len(types) != values.width:
        msg = f"{values.width} columns and {len(types)} types"
        raise TypeError(msg)
    columns = [
        encode_values(column.to_arrow(), t, column.name) for column, t in zip(values.get_columns(), types, strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else ((),) * frame.height
    return [(kind, tuple(row)) for kind, row in zip(kinds, rows, strict=True)]


def encode_values(array: pa.Array, t: DataType, location: str = "") -> list[Any]:
    """Return the values of an Arrow array in the recording's encoding.

    The array is as Polars exports it, or Arrow's own map.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = array.is_valid().to_pylist()
    if t.root in ("ARRAY", "MAP", "MULTISET"):
        return _lists(array, t, location, valid)
    if t.root in ("ROW", "VARIANT"):
        _expect(array, pa.types.is_struct(array.type), t, location)
        inner = [f.type for f in t.fields] if t.root == "ROW" else [DataType(root="VARBINARY")] * 2
        parts = [
            encode_values(child, u, f"{location}.{i}")
            for i, (child, u) in enumerate(zip(array.flatten(), inner, strict=True))
        ]
        return [[p[i] for p in parts] if ok else None for i, ok in enumerate(valid)]
    scalars = _scalar_values(array, t, location)
    return [value if ok else None for value, ok in zip(scalars, valid, strict=True)]


def _lists(array: pa.Array, t: DataType, location: str, valid: list[bool]) -> list[Any]:
    checks = pa.types
    _expect(
        array, checks.is_list(array.type) or checks.is_large_list(array.type) or checks.is_map(array.type), t, location
    )
    if t.root == "ARRAY":
        inner = encode_values(array.values, part(t.element), location + "[]")
    else:
        key = part(t.key) if t.root == "MAP" else part(t.element)
        value = part(t.value) if t.root == "MAP" else DataType(root="INT")
        keys, items = (
            encode_values(array.values.field(0), key, location + ".key"),
            encode_values(array.values.field(1), value, location + ".value"),
        )
        inner = [list(pair) for pair in zip(keys, items, strict=True)]
    offsets = array.offsets.to_pylist()
    return [inner[offsets[i] : offsets[i + 1]] if ok else None for i, ok in enumerate(valid)]


def _scalar_values(array: pa.Array, t: DataType, location: str) -> list[Any]:
    checks, arrow, root = pa.types, array.type, t.root
    if root in TIMESTAMPS:
        _expect(array, checks.is_timestamp(arrow) and (arrow.tz is not None) == (root == "TIMESTAMP_LTZ"), t, location)
        nanos = [
            None if v is None else v * (1_000_000_000 // _UNITS_PER_SECOND[arrow.unit])
            for v in array.cast(pa.int64()).to_pylist()
        ]
        return [None if v is None else [v // 1_000_000, v % 1_000_000] for v in nanos]
    if root == "DATE":
        _expect(array, checks.is_date32(arrow), t, location)
        return array.cast(pa.int32()).to_pylist()
    if root == "TIME":
        _expect(array, checks.is_time(arrow), t, location)
        ticks = _UNITS_PER_SECOND[arrow.unit] // 1000
        return [
            None if v is None else v // ticks
            for v in array.view(pa.int64() if arrow.bit_width == 64 else pa.int32()).to_pylist()
        ]
    if root in BINARIES:
        _expect(
            array,
            checks.is_binary(arrow)
            or checks.is_large_binary(arrow)
            or checks.is_binary_view(arrow)
            or checks.is_fixed_size_binary(arrow),
            t,
            location,
        )
        return [None if v is None else v.hex() for v in array.to_pylist()]
    if root == "DECIMAL":
        _expect(array, checks.is_decimal(arrow), t, location)
        return [None if v is None else format(v, "f") for v in array.to_pylist()]
    if root in ("FLOAT", "DOUBLE"):
        _expect(array, checks.is_float32(arrow) if root == "FLOAT" else checks.is_float64(arrow), t, location)
        return [None if v is None else repr(v) for v in array.to_pylist()]
    fits = (
        {"BOOLEAN": checks.is_boolean(arrow)}
        | dict.fromkeys(STRINGS, _is_text(arrow))
        | dict.fromkeys(INTEGERS, checks.is_integer(arrow))
    )
    _expect(array, fits.get(root, False), t, location)
    return array.to_pylist()


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def _expect(array: pa.Array, fits: bool, t: DataType, location: str) -> None:
    if not fits:
        msg = f"column {location!r} holds {array.type}, the recording {t}"
        raise TypeError(msg)


# ---- recorded values -> Polars ---------------------------------------------------------------------------------------


def decode_series(values: Sequence[Any], t: DataType, name: str = "") -> pl.Series:
    """Return recorded values of type `t` as a column of its Polars type.

    A timestamp must fit its unit: ms up to precision 3, us up to 6, else ns.
    """
    series = pl.from_arrow(pa.array([_plain_object(value, t) for value in values], to_arrow(t)))
    assert isinstance(series, pl.Series)
    return series.cast(polars_type(t)).alias(name)


def _plain_object(value: Any, t: DataType) -> Any:
    if value is None:
        return None
    if t.root in TIMESTAMPS:
        unit = timestamp_unit(t.precision)
        return (
            value[0]
            if unit == "ms"
            else value[0] * 1000 + value[1] // 1000
            if unit == "us"
            else value[0] * 1_000_000 + value[1]
        )
    match t.root:
        case "DECIMAL":
            return Decimal(value)
        case "FLOAT" | "DOUBLE":
            return float(value.replace("Infinity", "inf"))
        case "ARRAY":
            return [_plain_object(v, part(t.element)) for v in value]
        case "MAP":
            return [(_plain_object(k, part(t.key)), _plain_object(v, part(t.value))) for k, v in value]
        case "MULTISET":
            return [(_plain_object(k, part(t.element)), v) for k, v in value]
        case "ROW":
            return {f.name: _plain_object(v, f.type) for f, v in zip(t.fields, value, strict=True)}
        case "VARIANT":
            return {"value": bytes.fromhex(value[0]), "metadata": bytes.fromhex(value[1])}
    return bytes.fromhex(value) if t.root in BINARIES else value


# ---- what Polars cannot hold -----------------------------------------------------------------------------------------

_NANOSECONDS_MS = 2**63 // 1_000_000
_DAY_MS = 86_400_000


def beyond_polars(read: Read) -> tuple[str, ...]:
    """Return the columns with a recorded value that their Polars type cannot hold.

    Reading one raises `ValueOutOfRange`. These are nanoseconds outside 1677 to 2262, and times of day outside of the
    day, which the reference's casts make.
    """
    columns = []
    for i, (name, t) in enumerate(zip(read.columns, read.types, strict=True)):
        values = [row[i] for _, row in read.rows if row[i] is not None]
        late = (
            t.root in TIMESTAMPS
            and (t.precision or 0) > 6
            and any(not -_NANOSECONDS_MS < value[0] < _NANOSECONDS_MS for value in values)
        )
        if late or (t.root == "TIME" and any(not 0 <= value < _DAY_MS for value in values)):
            columns.append(name)
    return tuple(columns)


def drop_read_columns(read: Read, names: Sequence[str]) -> Read:
    """Return the same read of the other columns."""
    indices = [i for i, name in enumerate(read.columns) if name not in names]
    rows = tuple((kind, tuple(row[i] for i in indices)) for kind, row in read.rows)
    return replace(
        read, columns=tuple(read.columns[i] for i in indices), types=tuple(read.types[i] for i in indices), rows=rows
    )


# ---- comparing -------------------------------------------------------------------------------------------------------


def canonical_value(value: Any, t: DataType) -> Any:
    """Return `value` of type `t` without what has no meaning; equal values have equal canonical forms."""
    if value is None:
        return None
    match t.root:
        case "FLOAT" | "DOUBLE":
            return _float(value, t.root)
        case "DECIMAL":
            return _decimal(value, t.scale or 0)
        case "ARRAY":
            return [canonical_value(v, part(t.element)) for v in value]
        case "MAP" | "MULTISET":
            key = part(t.key) if t.root == "MAP" else part(t.element)
            entry = part(t.value) if t.root == "MAP" else DataType(root="INT")
            pairs = [[canonical_value(k, key), canonical_value(v, entry)] for k, v in value]
            return sorted(pairs, key=json.dumps)
        case "ROW":
            return [canonical_value(v, f.type) for v, f in zip(value, t.fields, strict=True)]
    return value


def _float(text: str, root: str) -> str:
    number = float(text.replace("Infinity", "inf"))
    if number != number:  # noqa: PLR0124 - NaN
        return "NaN"
    packed = struct.pack(">f" if root == "FLOAT" else ">d", number)
    return repr(struct.unpack(">f" if root == "FLOAT" else ">d", packed)[0])


def _decimal(text: str, scale: int) -> str:
    """Return the unscaled digits as text.

    So 1.50 of scale 2 and of scale 4 differ only when the type says so.
    """
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    integer, _, fraction = digits.partition(".")
    unscaled = int(integer + fraction.ljust(scale, "0"))
    return "0" if unscaled == 0 else f"{sign}{unscaled}"


_UNREPEATABLE_COLUMNS = {"branches": ("create_time",)}
"""Columns of system tables that depend on the copy that is read: when its files were made."""
_UNORDERED_COLUMNS = {"aggregation_fields": ("function", "function_options")}
"""Columns of system tables whose text lists what the engine kept in a hash map."""
_IDENTITY_TEXT = "{bytes}"
"""The text in recordings where the engine prints an object's identity instead of its bytes."""


def drop_unrepeatable(frame: pl.DataFrame, read: Read) -> tuple[pl.DataFrame, Read]:
    """Return both without what differs between any two runs of the engine.

    That is times of files, the order of hash maps, identities of objects.
    """
    identities = {
        name
        for name, *values in zip(read.columns, *(row for _, row in read.rows), strict=True)
        if any(_IDENTITY_TEXT in str(v) for v in values)
    }
    left_out = identities.union(_UNREPEATABLE_COLUMNS.get(read.system or "", ()))
    frame, read = drop_columns(frame, left_out, strict=False), drop_read_columns(read, list(left_out))
    unordered = [i for i, name in enumerate(read.columns) if name in _UNORDERED_COLUMNS.get(read.system or "", ())]
    if unordered and list(frame.columns) == list(read.columns):
        rows = tuple(
            (kind, tuple(_sorted_list(value) if i in unordered else value for i, value in enumerate(row)))
            for kind, row in read.rows
        )
        texts = [
            pl.Series(frame.columns[i], [_sorted_list(value) for value in frame.to_series(i)], pl.String)
            for i in unordered
        ]
        frame, read = frame.with_columns(texts), replace(read, rows=rows)
    return frame, read


def _sorted_list(text: str | None) -> str | None:
    return None if text is None else f"[{', '.join(sorted(text.strip('[]').split(', ')))}]"


def describe_difference(
    frame: pl.DataFrame, read: Read, *, kind_column: str | None = None, ordered: bool = False, limit: int = 3
) -> str | None:
    """Return None when `frame` holds the rows of `read`, else a text that shows the difference.

    Each row counts as many times as it occurs, in the same order when `ordered`. Columns must be the same, in the same
    order, beside `kind_column`. Without a kind column the recorded kinds do not count: the engine's batch reads return
    how a row was last written ("+U"), a frame of rows does not. What differs between any two runs is left out
    (`drop_unrepeatable`).
    """
    frame, read = drop_unrepeatable(frame, read)
    names = [name for name in frame.columns if name != kind_column]
    if names != list(read.columns):
        return f"columns {names}, recorded {list(read.columns)}"
    try:
        rows = encode_rows(frame, read.types, kind_column=kind_column)
    except TypeError as wrong:
        return str(wrong)
    return diff_rows(rows, read, kinds=kind_column is not None, ordered=ordered, limit=limit)


def diff_rows(
    rows: Sequence[tuple[str, Sequence[Any]]], read: Read, *, kinds: bool, ordered: bool = False, limit: int = 3
) -> str | None:
    """Return the difference of rows in the recording's encoding, as (kind, values), from those of `read`.

    `kinds`: whether kinds count.
    """
    actual = [_key(row if kinds else ("+I", row[1]), read.types) for row in rows]
    wanted = [_key(row if kinds else ("+I", row[1]), read.types) for row in read.rows]
    if ordered:
        for i, (a, b) in enumerate(zip(actual, wanted, strict=False)):
            if a != b:
                return f"row {i} is {a}, recorded {b}"
        return None if len(actual) == len(wanted) else f"{len(actual)} rows, recorded {len(wanted)}"
    more, less = Counter(actual) - Counter(wanted), Counter(wanted) - Counter(actual)
    if not more and not less:
        return None
    return (
        f"{len(actual)} rows, recorded {len(wanted)}; {more.total()} not recorded: {sorted(more.elements())[:limit]};"
        f" {less.total()} missing: {sorted(less.elements())[:limit]}"
    )


def _key(row: tuple[str, Sequence[Any]], types: Sequence[DataType]) -> str:
    kind, values = row
    return (
        f"{kind} {json.dumps([canonical_value(v, t) for v, t in zip(values, types, strict=True)], ensure_ascii=False)}"
    )
