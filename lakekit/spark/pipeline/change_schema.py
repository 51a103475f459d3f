"""Types of changes: those that messages tell, those that values show, and typed rows of a table's columns.

    infer_types                      changes -> the columns of each table, with Paimon types
    to_rows                          changes of one table -> rows of its columns; what does not fit has a problem
    mysql_type, mysql_value          a column that Canal describes, such as `decimal(10,2) unsigned`, and its value
    debezium_type, debezium_value    a field of a schema that stands beside Debezium's payload, and its value

The last four take and return texts of Spark's SQL; types that come out are Paimon's, as texts.

Source: `MySqlTypeUtils`, `CanalFieldParser`, `DebeziumSchemaUtils`, `TypeUtils.castFromString` of the engine, 1.4.
Otherwise than there: bytes stay bytes, where the engine makes text of them; geometries stay as the message has them,
where it makes GeoJSON; float64 is DOUBLE, where it is FLOAT; a decimal that does not fit is a problem, where it is NULL
or rounded; and columns whose types nobody tells have those of their values, where all are STRING (`to-string` here).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.spark.types import spark_type
from lakekit.types import MAX_LENGTH, DataType, parse, part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, Row

    from lakekit.types import Field

TYPE_MAPPINGS = (
    "tinyint1-not-bool",
    "to-nullable",
    "to-string",
    "char-to-string",
    "longtext-to-bytes",
    "bigint-unsigned-to-bigint",
)
"""Values of the option `type-mapping`, as the engine names them. Every type is nullable with and without one."""


@dataclass(frozen=True, slots=True)
class ChangeSchema:
    """The columns that changes of one table have, in the order of their first message, and its keys where told."""

    columns: Mapping[str, str]
    primary_keys: tuple[str, ...]


def type_mappings(options: Mapping[str, str]) -> frozenset[str]:
    """Return the modes of the option `type-mapping`.

    Raises: `InvalidOption` for an unknown one.
    """
    modes = [text.strip().lower() for text in options.get("type-mapping", "").split(",") if text.strip()]
    for mode in modes:
        if mode not in TYPE_MAPPINGS:
            near = get_close_matches(mode, TYPE_MAPPINGS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidOption(
                f"type-mapping {mode!r}: no mapping of types{hint}; there are {', '.join(TYPE_MAPPINGS)}",
                key="type-mapping",
            )
    return frozenset(modes)


# ---- the columns of changes ------------------------------------------------------------------------------------------


def infer_types(
    changes: DataFrame,
    *,
    by: Sequence[str] = ("source_database", "source_table"),
    options: Mapping[str, str] | None = None,
) -> dict[tuple[str | None, ...], ChangeSchema]:
    """Return the schema of each table that changes name, by the values of the columns `by`.

    A column has the type that its messages tell, the wider one of two. Else its values show it: BOOLEAN, BIGINT,
    DECIMAL, DOUBLE, or STRING, which objects, arrays and columns of several kinds have too. A DECIMAL that values show
    has 20 digits before the point, as BIGINT has, and 2, 4, 6, 10 or 18 behind it, so that it seldom grows. A column of
    nulls alone is not there until a value shows its type.
    """
    text_only = "to-string" in type_mappings(options or {})
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for group in _group_columns(changes, by):
        groups.setdefault(tuple(group[name] for name in by), []).append(group)
    return {table: _combine_groups(of_table, text_only=text_only) for table, of_table in groups.items()}


def _group_columns(changes: DataFrame, by: Sequence[str]) -> list[Row]:
    """Return a row for each set of columns of a table: the names in the message's order, told types, shown types."""
    rows = changes.where(sf.col("row").isNotNull())
    first = sf.min("position") if "position" in changes.columns else sf.lit(0)
    one = sf.min_by("value", "position") if "position" in changes.columns else sf.min("value")
    keys = sf.expr("map_keys(try_variant_get(row, '$', 'map<string,variant>'))")
    grouped = rows.groupBy(*by, keys.alias("_keys"), sf.to_json("types").alias("_told"), "primary_keys").agg(
        sf.expr("schema_of_variant_agg(row)").alias("_shown"),
        sf.any_value("types").alias("_types"),
        one.alias("_value"),
        first.alias("_first"),
    )
    paths = ("$.after", "$.before", "$.payload.after", "$.payload.before", "$.data", "$.data[0]")
    orders = ", ".join(
        ["json_object_keys(_value)", *(f"json_object_keys(get_json_object(_value, '{p}'))" for p in paths)]
    )
    ordered = f"get(filter(array({orders}), n -> size(array_except(_keys, n)) = 0), 0)"
    names = f"coalesce(filter({ordered}, n -> array_contains(_keys, n)), _keys)"
    return (
        grouped.orderBy("_first")
        .select(*by, sf.expr(names).alias("names"), "_types", "_shown", "primary_keys")
        .collect()
    )


def _combine_groups(groups: Iterable[Row], *, text_only: bool) -> ChangeSchema:
    told: dict[str, str] = {}
    shown: dict[str, str] = {}
    order: dict[str, None] = {}
    keys: tuple[str, ...] = ()
    for group in groups:
        of_message = {name: t for name, t in (group["_types"] or {}).items() if t is not None}
        order |= dict.fromkeys([*group["names"], *of_message])
        for name, t in of_message.items():
            told[name] = _wider(told[name], t) if name in told else t
        for name, t in _object_fields(group["_shown"]):
            kind = _shown_type(t)
            if kind is not None:
                shown[name] = _join_shown(shown[name], kind) if name in shown else kind
        keys = tuple(group["primary_keys"] or keys)
    if text_only:
        return ChangeSchema(dict.fromkeys(order, "STRING"), keys)
    types = {**shown, **told}
    return ChangeSchema({name: types[name] for name in order if name in types}, keys)


def _object_fields(text: str | None) -> list[tuple[str, str]]:
    """Return the fields of an object type as `schema_of_variant_agg` writes it: OBJECT<a: BIGINT, `b c`: STRING>."""
    if text is None or not text.startswith("OBJECT<"):
        return []
    fields, start, depth, quoted = [], len("OBJECT<"), 0, False
    for at in range(start, len(text)):
        c = text[at]
        if c == "`":
            quoted = not quoted
        elif not quoted:
            if depth == 0 and (c == "," or at == len(text) - 1):
                name, _, t = (
                    text[start:at].strip().rpartition(": ") if "<" not in text[start:at] else _split(text[start:at])
                )
                fields.append((_unquoted(name), t))
                start = at + 1
            depth += (c in "<(") - (c in ">)")
    return [field for field in fields if field[1]]


def _split(text: str) -> tuple[str, str, str]:
    match = re.match(r"\s*(`(?:[^`]|``)*`|[^:]*): (.*)", text, re.DOTALL)
    return ("", "", "") if match is None else (match[1], ": ", match[2])


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


_SCALES = (2, 4, 6, 10, 18)
_PLAIN_TYPES = {
    "BOOLEAN": "BOOLEAN",
    "BIGINT": "BIGINT",
    "FLOAT": "DOUBLE",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_LTZ(6)",
    "TIMESTAMP_NTZ": "TIMESTAMP(6)",
    "BINARY": "BYTES",
}
"""Paimon's type of what Spark finds in a VARIANT; all others are STRING."""


def _shown_type(t: str) -> str | None:
    """Return the Paimon type that holds values of a type within a VARIANT; None for nulls alone."""
    if t == "VOID":
        return None
    match = re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", t)
    if match is None:
        return _PLAIN_TYPES.get(t, "STRING")
    scale = int(match[2])
    return _decimal_type(int(match[1]) - scale, scale)


def _decimal_type(integer_digits: int, scale: int) -> str:
    """Return the DECIMAL with so many digits before and behind the point, or more where that leaves room to grow."""
    if scale == 0 and integer_digits <= 18:
        return "BIGINT"
    integer_digits = max(integer_digits, 20)
    scale = next((of for of in _SCALES if scale <= of <= 38 - integer_digits), scale) if scale else 0
    return f"DECIMAL({integer_digits + scale}, {scale})" if integer_digits + scale <= 38 else f"DECIMAL(38, {scale})"


def _join_shown(one: str, other: str) -> str:
    """Return the type that holds the values of two types that values showed."""
    if one == other:
        return one
    numbers = [parse(t) for t in (one, other) if t.startswith(("BIGINT", "DECIMAL", "DOUBLE"))]
    if len(numbers) < 2:
        return "STRING"
    if any(t.root == "DOUBLE" for t in numbers):
        return "DOUBLE"
    return _decimal_type(*_joined_digits(*numbers))


def _joined_digits(one: DataType, other: DataType) -> tuple[int, int]:
    digits = [
        (19, 0) if t.root == "BIGINT" else ((t.precision or 10) - (t.scale or 0), t.scale or 0) for t in (one, other)
    ]
    return max(whole for whole, _ in digits), max(scale for _, scale in digits)


_LADDERS = (("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"))


def _wider(one: str, other: str) -> str:
    """Return the wider of two types that messages told for one column, the later one where none holds the other."""
    a, b = parse(one), parse(other)
    for ladder in _LADDERS:
        if a.root in ladder and b.root in ladder:
            return max(one, other, key=lambda t: ladder.index(parse(t).root))
    if a.root == b.root == "DECIMAL":
        whole, scale = _joined_digits(a, b)
        return f"DECIMAL({whole + scale}, {scale})" if whole + scale <= 38 else other
    if a.root == b.root and a.root in ("VARCHAR", "VARBINARY"):
        return one if (a.length or MAX_LENGTH) > (b.length or MAX_LENGTH) else other
    return other


# ---- rows of a table -------------------------------------------------------------------------------------------------


def to_rows(changes: DataFrame, fields: Sequence[Field]) -> DataFrame:
    """Return the changes with `row` as a STRUCT of a table's columns, in Spark's types.

    A text of an event is taken as the engine takes it. A change that has a value which does not fit its column, or a
    null where the column takes none, has a NULL `row` and a `problem` that names the first such column. Columns that
    only the change has are left out.

    Raises: `Unsupported` for a column whose type no event fills, `SchemaMismatch` for names that Spark takes for one.
    """
    _check_names(changes, fields)
    wanted = ", ".join(f"{sql_name(f.name)}:{'variant' if f.type.root in _FROM_VARIANT else 'string'}" for f in fields)
    frame = changes.withColumn("_cells", sf.expr(f"try_variant_get(row, '$', {sql_text(f'struct<{wanted}>')})"))
    cells = {field.name: f"_cells.{sql_name(field.name)}" for field in fields}
    typed = ", ".join(f"{_cast(cells[f.name], f)} AS {sql_name(f.name)}" for f in fields)
    frame = frame.withColumn("_typed", sf.expr(f"struct({typed})"))
    problems = ", ".join(_unfit_problem(cells[f.name], f"_typed.{sql_name(f.name)}", f) for f in fields)
    frame = frame.withColumn("problem", sf.expr(f"CASE WHEN row IS NULL THEN problem ELSE coalesce({problems}) END"))
    row = "CASE WHEN row IS NOT NULL AND problem IS NULL THEN _typed END"
    return frame.withColumn("row", sf.expr(row)).drop("_cells", "_typed")


def _check_names(changes: DataFrame, fields: Sequence[Field]) -> None:
    if changes.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true":
        return
    names: dict[str, str] = {}
    for field in fields:
        same = names.setdefault(field.name.lower(), field.name)
        if same != field.name:
            raise SchemaMismatch(
                f"columns {same} and {field.name}: Spark takes these names for one; rename one of them, or set "
                "spark.sql.caseSensitive",
                column=field.name,
            )


_FROM_VARIANT = frozenset({"VARIANT", "BINARY", "VARBINARY", "BLOB"})
"""Types whose values are taken from the VARIANT as it is, not from its text."""


def _unfit_problem(cell: str, typed: str, field: Field) -> str:
    name = sql_text(f"column {field.name}: ")
    cut = f"left(CAST({cell} AS STRING), 100)"
    unfit = f"concat({name}, {cut}, {sql_text(f' does not fit {field.type}')})"
    is_null = f"is_variant_null({cell})" if field.type.root in _FROM_VARIANT else "FALSE"
    whens = f"WHEN {cell} IS NOT NULL AND NOT {is_null} AND {typed} IS NULL THEN {unfit}"
    if not field.type.nullable:
        whens += f" WHEN {typed} IS NULL THEN {sql_text(f'column {field.name}: no value, and it is NOT NULL')}"
    return f"CASE {whens} END"


def _cast(cell: str, field: Field) -> str:
    """Return the value of a column as Spark has it, NULL where the text does not fit."""
    t = field.type
    match t.root:
        case "VARIANT":
            return cell
        case "VARCHAR" | "CHAR":
            return (
                cell
                if t.length in (None, MAX_LENGTH)
                else f"CASE WHEN char_length({cell}) <= {t.length} THEN {cell} END"
            )
        case "BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "DOUBLE":
            return f"try_cast({cell} AS {t.root})"
        case "FLOAT":
            same = f"CAST(try_cast({cell} AS FLOAT) AS STRING) = CAST(try_cast({cell} AS DOUBLE) AS STRING)"
            exact = f"CAST(try_cast({cell} AS FLOAT) AS DOUBLE) = try_cast({cell} AS DOUBLE)"
            return f"CASE WHEN {same} OR {exact} THEN try_cast({cell} AS FLOAT) END"
        case "DECIMAL":
            return _cast_decimal(cell, t)
        case "BINARY" | "VARBINARY" | "BLOB":
            return _cast_bytes(cell, t)
        case "DATE" | "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _cast_time(cell, t)
        case "ARRAY" | "ROW" | "MAP" if t.key is None or t.key.root == "VARCHAR":
            value = f"try_variant_get(try_parse_json(concat('[', {cell}, ']')), '$[0]', 'variant')"
            typed = f"try_variant_get({value}, '$', {sql_text(_nested_sql(t))})"
            return f"CASE WHEN {_fits_within(value, typed, t)} THEN {typed} END"
    raise Unsupported(
        f"column {field.name} {t}: no event fills a column of this type; give it another one",
        feature=f"type.{t.root.lower()}",
    )


def _nested_sql(t: DataType) -> str:
    """Return Spark's type of a Paimon type as a text, with names quoted."""
    match t.root:
        case "ARRAY":
            return f"array<{_nested_sql(part(t.element))}>"
        case "MAP":
            return f"map<string,{_nested_sql(part(t.value))}>"
        case "ROW":
            return f"struct<{','.join(f'{sql_name(field.name)}:{_nested_sql(field.type)}' for field in t.fields)}>"
    return spark_type(t).simpleString()


def _fits_within(value: str, typed: str, t: DataType, depth: int = 0) -> str:
    """Return whether every value within a VARIANT is in what it was cast to: the cast makes NULL of one that is not."""
    v, x = f"v{depth}", f"x{depth}"
    match t.root:
        case "ARRAY":
            cells = f"try_variant_get({value}, '$', 'array<variant>')"
            pairs = f"zip_with({cells}, {typed}, ({v}, {x}) -> {_fits_within(v, x, part(t.element), depth + 1)})"
            inside = f"forall({pairs}, b -> b)"
        case "MAP":
            cells = f"try_variant_get({value}, '$', 'map<string,variant>')"
            within = _fits_within(f"{cells}[{v}]", f"{typed}[{v}]", part(t.value), depth + 1)
            inside = f"forall(map_keys({cells}), {v} -> {within})"
        case "ROW":
            struct = ",".join(f"{sql_name(field.name)}:variant" for field in t.fields)
            cells = f"try_variant_get({value}, '$', {sql_text(f'struct<{struct}>')})"
            names = ((field.type, sql_name(field.name)) for field in t.fields)
            inside = " AND ".join(
                _fits_within(f"{cells}.{name}", f"{typed}.{name}", of, depth + 1) for of, name in names
            )
        case _:
            inside = "TRUE"
    return f"({value} IS NULL OR is_variant_null({value}) OR {typed} IS NOT NULL AND {inside})"


def _cast_decimal(cell: str, t: DataType) -> str:
    """Return a DECIMAL, NULL where digits of the text would be lost."""
    value = f"try_cast({cell} AS DECIMAL({t.precision or 10}, {t.scale or 0}))"
    digits = f"length(trim(TRAILING '0' FROM regexp_extract({cell}, '[.]([0-9]*)', 1)))"
    exact = f"CAST({value} AS DOUBLE) = try_cast({cell} AS DOUBLE)"
    fits = f"CASE WHEN {cell} RLIKE '[eE]' THEN {exact} ELSE {digits} <= {t.scale or 0} END"
    return f"CASE WHEN {fits} THEN {value} END"


def _cast_bytes(cell: str, t: DataType) -> str:
    """Return bytes: those of the VARIANT, or of a text: base64 for BINARY, UTF-8 for others."""
    text, value = f"try_variant_get({cell}, '$', 'string')", f"try_variant_get({cell}, '$', 'binary')"
    if t.root == "BINARY":
        value = f"CASE WHEN schema_of_variant({cell}) = 'STRING' THEN try_to_binary({text}, 'base64') ELSE {value} END"
    if t.root == "BLOB" or t.length in (None, MAX_LENGTH):
        return value
    return f"CASE WHEN octet_length({value}) <= {t.length} THEN {value} END"


_UNITS = {0: 1, 3: 1_000, 6: 1_000_000}
"""Digits of a second of a TIMESTAMP -> how many of its number make a second; the engine takes no other."""


def _cast_time(cell: str, t: DataType) -> str:
    """Return a date or time: of a text, or of a number, which counts from 1970 or from midnight as the engine does."""
    number, is_number = f"try_cast({cell} AS BIGINT)", f"{cell} RLIKE '^[0-9]+$'"
    if t.root == "DATE":
        counted = f"date_add(DATE '1970-01-01', CAST({number} AS INT))"
        days = f"CASE WHEN {number} <= {_LAST_SECOND // 86_400} THEN {counted} END"
        text = f"CASE WHEN {cell} RLIKE '^[+-]?[0-9]{{4,}}-[0-9]{{1,2}}-[0-9]{{1,2}}' THEN try_cast({cell} AS DATE) END"
        return f"CASE WHEN {is_number} THEN {days} ELSE {text} END"
    if t.root == "TIME":
        moment = f"try_cast(concat('1970-01-01 ', {cell}) AS TIMESTAMP_NTZ)"
        counted = f"CAST(timestampdiff(MILLISECOND, {_EPOCH}, {moment}) AS INT)"
        text = f"CASE WHEN {cell} RLIKE '^[0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]+)?)?$' THEN {counted} END"
        return (
            f"CASE WHEN {is_number} THEN CASE WHEN {number} < 86400000 THEN CAST({number} AS INT) END ELSE {text} END"
        )
    kind = "TIMESTAMP_NTZ" if t.root == "TIMESTAMP" else "TIMESTAMP"
    day, zone = "[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}", "Z?" if t.root == "TIMESTAMP" else ".*"
    text = f"CASE WHEN {cell} RLIKE '^{day}([ T][0-9:.]+{zone})?$' THEN try_cast({cell} AS {kind}) END"
    unit = _UNITS.get(t.precision if t.precision is not None else 6)
    if unit is None or t.root == "TIMESTAMP_LTZ":
        return text
    moment = f"timestampadd(MICROSECOND, {number} * {1_000_000 // unit}, {_EPOCH})"
    return f"CASE WHEN {is_number} THEN CASE WHEN {number} <= {_LAST_SECOND * unit}L THEN {moment} END ELSE {text} END"


def sql_text(text: str) -> str:
    """Return a text as Spark's SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_name(name: str) -> str:
    """Return a column's name as Spark's SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


# ---- texts of sources ------------------------------------------------------------------------------------------------

_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first and last second of the years 1 to 9999."""
_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium"


# ---- MySQL, as Canal describes it ------------------------------------------------------------------------------------


def mysql_type(t: str, mappings: Collection[str]) -> str:
    """Return the Paimon type of a MySQL type."""
    if "to-string" in mappings:
        return "'STRING'"
    base = f"regexp_replace(upper(trim(regexp_replace({t}, '\\\\(.*\\\\)', ' '))), '\\\\s+', ' ')"
    base = f"regexp_replace({base}, ' ZEROFILL$', '')"
    signed = f"regexp_replace({base}, ' UNSIGNED$', '')"
    length = f"try_cast(regexp_extract({t}, '\\\\(\\\\s*([0-9]+)', 1) AS INT)"
    scale = f"coalesce(try_cast(regexp_extract({t}, '\\\\(\\\\s*[0-9]+\\\\s*,\\\\s*([0-9]+)', 1) AS INT), 0)"
    string = "char-to-string" in mappings
    boolean = "FALSE" if "tinyint1-not-bool" in mappings else f"{base} = 'TINYINT' AND {length} = 1"
    unsigned = "BIGINT" if "bigint-unsigned-to-bigint" in mappings else "DECIMAL(20, 0)"
    longtext = "BYTES" if "longtext-to-bytes" in mappings else "STRING"
    char = (
        "'STRING'" if string else f"CASE WHEN {length} > 0 THEN concat({signed}, '(', {length}, ')') ELSE 'STRING' END"
    )
    digits = f"""CASE WHEN {length} IS NULL THEN 0 WHEN {length} >= 19 THEN greatest({length} - 20, 0)
        WHEN {length} <= 9 THEN {length} END"""
    return f"""CASE
        WHEN {boolean} THEN 'BOOLEAN'
        WHEN {base} = 'BIT' AND coalesce({length}, 1) > 1 THEN concat('BINARY(', ({length} + 7) DIV 8, ')')
        WHEN {base} IN ('BIT', 'BOOLEAN', 'BOOL') THEN 'BOOLEAN'
        WHEN {base} = 'TINYINT' THEN 'TINYINT'
        WHEN {base} IN ('TINYINT UNSIGNED', 'SMALLINT') THEN 'SMALLINT'
        WHEN {base} IN ('SMALLINT UNSIGNED', 'INT', 'INTEGER', 'MEDIUMINT', 'YEAR') THEN 'INT'
        WHEN {base} IN ('INT UNSIGNED', 'INTEGER UNSIGNED', 'MEDIUMINT UNSIGNED', 'BIGINT', 'LONG') THEN 'BIGINT'
        WHEN {base} IN ('BIGINT UNSIGNED', 'SERIAL') THEN '{unsigned}'
        WHEN {signed} = 'FLOAT' THEN 'FLOAT'
        WHEN {signed} IN ('REAL', 'DOUBLE', 'DOUBLE PRECISION') THEN 'DOUBLE'
        WHEN {signed} IN ('NUMERIC', 'FIXED', 'DECIMAL') THEN CASE WHEN {length} IS NULL THEN 'DECIMAL(38, 18)'
            WHEN {length} <= 38 THEN concat('DECIMAL(', {length}, ', ', {scale}, ')') ELSE 'STRING' END
        WHEN {base} = 'DATE' THEN 'DATE'
        WHEN {base} = 'TIME' THEN concat('TIME(', least(coalesce({length}, 0), 3), ')')
        WHEN {base} IN ('DATETIME', 'TIMESTAMP') THEN concat('TIMESTAMP(', {digits}, ')')
        WHEN {base} IN ('CHAR', 'VARCHAR') THEN {char}
        WHEN {base} = 'LONGTEXT' THEN '{longtext}'
        WHEN {base} IN ('TINYTEXT', 'TEXT', 'MEDIUMTEXT', 'JSON', 'ENUM', 'STRING', {_GEOMETRIES}) THEN 'STRING'
        WHEN {base} IN ('BINARY', 'VARBINARY') AND {length} > 0 THEN concat('VARBINARY(', {length}, ')')
        WHEN {base} IN ('BINARY', 'VARBINARY') THEN 'BYTES'
        WHEN {base} IN ('TINYBLOB', 'BLOB', 'MEDIUMBLOB', 'LONGBLOB') THEN 'BYTES'
        WHEN {base} = 'SET' THEN 'ARRAY<STRING>'
    END"""


_GEOMETRIES = (
    "'GEOMETRY', 'POINT', 'LINESTRING', 'POLYGON', 'MULTIPOINT', 'MULTILINESTRING', 'MULTIPOLYGON', "
    "'GEOMETRYCOLLECTION'"
)


def mysql_value(value: str, t: str) -> str:
    """Return a value, a VARIANT, of a MySQL type: the name of an ENUM's number, the names of a SET's bits.

    A value that is no such number stays as it is.
    """
    quoted = sql_text("'((?:[^']|'')*)'")
    names = f"transform(regexp_extract_all({t}, {quoted}, 1), s -> replace(s, '\\'\\'', '\\''))"
    number = f"try_variant_get({value}, '$', 'bigint')"
    bits = f"filter({names}, (s, i) -> shiftright({number}, i) & 1 = 1)"
    return f"""CASE
        WHEN lower({t}) LIKE 'enum(%' AND {number} BETWEEN 1 AND size({names})
            THEN CAST(get({names}, CAST({number} AS INT) - 1) AS VARIANT)
        WHEN lower({t}) LIKE 'set(%' AND {number} >= 0
            AND ({number} < shiftleft(1L, size({names})) OR size({names}) > 62)
            THEN to_variant_object({bits})
        ELSE {value} END"""


# ---- Debezium's schemas ----------------------------------------------------------------------------------------------


def debezium_type(field: str, mappings: Collection[str]) -> str:
    """Return the Paimon type of a field of a schema: STRUCT<field, type, name, parameters>."""
    if "to-string" in mappings:
        return "'STRING'"
    parameter = f"try_cast({field}.parameters['{{}}'] AS INT)"
    precision, length = parameter.format("connect.decimal.precision"), parameter.format("length")
    scale = parameter.format("scale")
    return f"""CASE
        WHEN {field}.name = '{_DEBEZIUM}.data.Bits' THEN concat('BINARY(', ({length} + 7) DIV 8, ')')
        WHEN {field}.name = '{_CONNECT}.Decimal' THEN CASE
            WHEN {precision} IS NULL AND {scale} > 0 THEN concat('DECIMAL(38, ', {scale}, ')')
            WHEN {precision} > 38 THEN 'STRING'
            ELSE concat('DECIMAL(', coalesce({precision}, 20), ', ', coalesce({scale}, 0), ')') END
        WHEN {field}.name IN ('{_DEBEZIUM}.time.Date', '{_CONNECT}.Date') THEN 'DATE'
        WHEN {field}.name IN ('{_DEBEZIUM}.time.Timestamp', '{_CONNECT}.Timestamp') THEN 'TIMESTAMP(3)'
        WHEN {field}.name IN ('{_DEBEZIUM}.time.MicroTimestamp', '{_DEBEZIUM}.time.ZonedTimestamp') THEN 'TIMESTAMP(6)'
        WHEN {field}.name IN ('{_DEBEZIUM}.time.MicroTime', '{_DEBEZIUM}.time.Time', '{_CONNECT}.Time') THEN 'TIME(3)'
        WHEN {field}.type = 'int8' THEN 'TINYINT'
        WHEN {field}.type = 'int16' THEN 'SMALLINT'
        WHEN {field}.type = 'int32' THEN 'INT'
        WHEN {field}.type = 'int64' THEN 'BIGINT'
        WHEN {field}.type IN ('float', 'float32') THEN 'FLOAT'
        WHEN {field}.type IN ('double', 'float64') THEN 'DOUBLE'
        WHEN {field}.type = 'boolean' THEN 'BOOLEAN'
        WHEN {field}.type = 'bytes' THEN 'BYTES'
        ELSE 'STRING' END"""


def debezium_value(value: str, field: str) -> str:
    """Return a value, a VARIANT, as the type of its field has it: dates and times as texts, bytes as bytes.

    A value that does not fit its type stays as it is, for the cast to the column's type to find.
    """
    number, text = f"try_variant_get({value}, '$', 'bigint')", f"try_variant_get({value}, '$', 'string')"
    binary = f"try_to_binary({text}, 'base64')"
    reversed_bits = f"unhex(array_join(reverse(regexp_extract_all(hex({binary}), '..', 0)), ''))"
    zoned = f"unix_micros(try_cast({text} AS TIMESTAMP))"
    return f"""CASE
        WHEN {value} IS NULL OR is_variant_null({value}) OR {field} IS NULL THEN {value}
        WHEN {field}.name IS NULL AND {field}.type <> 'bytes' THEN {value}
        WHEN {field}.name = '{_DEBEZIUM}.data.Bits' THEN coalesce(CAST({reversed_bits} AS VARIANT), {_unfit(value)})
        WHEN {field}.name IS NULL THEN coalesce(CAST({binary} AS VARIANT), {_unfit(value)})
        WHEN {field}.name IN ('{_DEBEZIUM}.time.Date', '{_CONNECT}.Date')
            AND {number} BETWEEN {_FIRST_SECOND // 86_400} AND {_LAST_SECOND // 86_400}
            THEN CAST(CAST(date_add(DATE '1970-01-01', CAST({number} AS INT)) AS STRING) AS VARIANT)
        {_moment(f"{field}.name IN ('{_DEBEZIUM}.time.Timestamp', '{_CONNECT}.Timestamp')", number, 1_000)}
        {_moment(f"{field}.name = '{_DEBEZIUM}.time.MicroTimestamp'", number, 1_000_000)}
        {_moment(f"{field}.name = '{_DEBEZIUM}.time.ZonedTimestamp'", zoned, 1_000_000)}
        {_time(f"{field}.name IN ('{_DEBEZIUM}.time.Time', '{_CONNECT}.Time')", number, 1_000)}
        {_time(f"{field}.name = '{_DEBEZIUM}.time.MicroTime'", number, 1_000_000)}
        ELSE {value} END"""


def _unfit(value: str) -> str:
    """Return an object that holds a value which is no base64: no cast to bytes takes one."""
    return f"to_variant_object(map('no base64', {value}))"


def _added(count: str, unit: int) -> str:
    return f"timestampadd({'MILLISECOND' if unit == 1_000 else 'MICROSECOND'}, {count}, {_EPOCH})"


def _moment(condition: str, count: str, unit: int) -> str:
    fits = f"{count} BETWEEN {_FIRST_SECOND * unit}L AND {_LAST_SECOND * unit}L"
    return f"WHEN {condition} AND {fits} THEN CAST(CAST({_added(count, unit)} AS STRING) AS VARIANT)"


def _time(condition: str, count: str, unit: int) -> str:
    fits = f"{count} BETWEEN 0 AND {86_400 * unit - 1}L"
    return f"WHEN {condition} AND {fits} THEN CAST(substr(CAST({_added(count, unit)} AS STRING), 12) AS VARIANT)"
