"""Change events of other systems as rows: the formats plain, debezium, canal, maxwell, ogg and dms.

    read_changes     messages -> one row for each change: its kind, the row as a VARIANT, and where it comes from
    FORMATS          a format's name -> what its messages mean, as expressions of Spark

A format is a list of stages of columns, each named and written in Spark's SQL; the last one has `SAYS`. Nothing here
runs Python over rows. A message that is no change has a `problem`: none is dropped, and none ends the job.
`change_schema` makes types and typed rows of what comes from here.

Source: `*RecordParser` of paimon-flink-cdc 1.4. An event that its parsers end the job for is a `problem` here, or what
it plainly means: an update without the row before is `+U`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf, types as spark

from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.spark.pipeline.change_schema import (
    debezium_type,
    debezium_value,
    mysql_type,
    mysql_value,
    sql_name,
    sql_text,
    type_mappings,
)
from lakekit.spark.types import paimon_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

SAYS = ("source_database", "source_table", "types", "primary_keys", "ddl", "ts_ms", "problem", "images")
"""The columns of a format's last stage: what a message says, and its rows as ARRAY<STRUCT<kind, row>>."""
RESULT = (
    "step",
    "value",
    "source_database",
    "source_table",
    "kind",
    "row",
    "types",
    "primary_keys",
    "ddl",
    "ts_ms",
    "problem",
)
"""The columns that `read_changes` adds."""
_END = "end of the message"
"""A text that stands behind each message when it is parsed: Spark's parser passes over what follows a value."""
_NO_JSON = "no JSON: it ends early, has text behind its end, has a name twice, or is nested deeper than 1,000 levels"
_INEXACT = "a number of more digits than are kept: 38, or 17 with an exponent of at most 308; write it as a text"


@dataclass(frozen=True, slots=True)
class ChangeFormat:
    """A format of change events: its options, and the stages of expressions that read a message's root.

    A stage sees the columns of the stages before it, `_root` (the message, VARIANT), `value`, and `_key` (the message's
    key as text, where the source has one).
    """

    options: Mapping[str, str]
    stages: Callable[[Mapping[str, str]], Sequence[Mapping[str, str]]]


def read_changes(
    messages: DataFrame,
    format: str,  # noqa: A002 - as Spark calls it
    *,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the changes that messages tell, one row for each, with the other columns of the messages.

    `messages` has `value`: a STRING, BINARY (UTF-8), or for `plain` a STRUCT, whose fields are the columns. Its other
    columns, such as `position`, are passed through; `key` (of Kafka) tells Debezium's primary keys.

        step             order of the changes of one message, from 0
        value            the message
        source_database, source_table      null where the message does not say
        kind             +I, +U, -U, -D; null where the message is no change of a row: DDL, a tombstone, a problem
        row              VARIANT: an object of the columns
        types            Paimon types of columns where the message tells them, else null
        primary_keys     null where the message does not say
        ddl              the statement of a message that changes the schema
        ts_ms            when the change was, milliseconds
        problem          why the message is no change, null where it is one

    An update whose message has the row before gives two changes: -D of the row before, then +I of the row after.

    Raises: `InvalidOption` for an unknown format or option, `SchemaMismatch` for messages of other columns.
    """
    change_format = FORMATS.get(format)
    if change_format is None:
        raise InvalidOption(
            f"format {format!r}: no format of change events{_nearest(format, FORMATS)}; there are {', '.join(FORMATS)}",
            key="format",
        )
    settings = _check_options(format, change_format, options or {})
    frame = _parse_messages(messages, format)
    for stage in change_format.stages(settings):
        frame = frame.withColumns({name: sf.expr(text) for name, text in stage.items()})
    passed = [name for name in messages.columns if name != "value"]
    says = [sf.col(name) for name in SAYS[:-1]]
    images = sf.expr("CASE WHEN problem IS NULL THEN images END")
    exploded = frame.select(
        *map(sql_name, passed), "value", *says, sf.posexplode_outer(images).alias("_step", "_image")
    )
    return exploded.select(
        *map(sql_name, passed),
        sf.coalesce(sf.col("_step"), sf.lit(0)).alias("step"),
        "value",
        "source_database",
        "source_table",
        sf.col("_image.kind").alias("kind"),
        sf.col("_image.row").alias("row"),
        *(name for name in RESULT[6:]),
    )


def _check_options(format_name: str, change_format: ChangeFormat, options: Mapping[str, str]) -> dict[str, str]:
    for name in options:
        if name not in change_format.options:
            nearest = _nearest(name, change_format.options)
            raise InvalidOption(
                f"option {name!r} of format {format_name}: there is none of this name{nearest}; it has "
                f"{', '.join(change_format.options)}",
                key=name,
            )
    type_mappings(options)
    return {**change_format.options, **options}


def _nearest(name: str, names: Mapping[str, object] | Sequence[str]) -> str:
    near = get_close_matches(name.lower(), list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _parse_messages(messages: DataFrame, format_name: str) -> DataFrame:
    """Return the messages with `value` as text, `_root` as the VARIANT of it, `_key`, and `_is_json`."""
    taken = [name for name in messages.columns if name in RESULT and name != "value"]
    if "value" not in messages.columns or taken:
        has = f"the columns {', '.join(taken)}, which the changes have" if taken else "no column value"
        raise SchemaMismatch(
            f"messages of format {format_name}: they have {has}; give a column value of the messages, and "
            "others of other names",
            column=taken[0] if taken else "value",
        )
    kind = messages.schema["value"].dataType
    key = "CAST(key AS STRING)" if "key" in messages.columns else "CAST(NULL AS STRING)"
    if isinstance(kind, spark.StructType):
        if format_name != "plain":
            raise SchemaMismatch(
                f"messages of format {format_name}: column value is {kind.simpleString()[:100]}; that format is "
                "read from STRING or BINARY, rows that have columns are format plain",
                column="value",
            )
        told = {field.name: str(replace(field.type, nullable=True)) for field in paimon_fields(kind)}
        columns = {
            "_root": sf.expr("to_variant_object(value)"),
            "_is_json": sf.expr("value IS NOT NULL"),
            "_key": sf.expr(key),
            "_types": sf.create_map(*(sf.lit(text) for pair in told.items() for text in pair)),
        }
        return messages.withColumns(columns).withColumn("value", sf.to_json("value", {"ignoreNullFields": "false"}))
    if not isinstance(kind, (spark.StringType, spark.BinaryType)):
        raise SchemaMismatch(
            f"messages of format {format_name}: column value is {kind.simpleString()[:100]}; STRING and BINARY hold "
            "messages",
            column="value",
        )
    frame = messages.withColumn("value", sf.expr("CAST(value AS STRING)"))
    frame = frame.withColumn("_whole", sf.expr(f"try_parse_json(concat('[', value, ',\"{_END}\"]'))"))
    return frame.withColumns(
        {
            "_root": sf.expr(_get("_whole", "$[0]", "variant")),
            "_is_json": sf.expr(f"{_get('_whole', '$[1]', 'string')} <=> '{_END}'"),
            "_key": sf.expr(key),
            "_types": sf.expr(_NO_TYPES),
        }
    )


# ---- texts of Spark's SQL --------------------------------------------------------------------------------------------


def _get(source: str, path: str, t: str) -> str:
    """Return the value of a VARIANT at a path, NULL where it is not there or of no such type."""
    return f"try_variant_get({source}, '{path}', {sql_text(t)})"


def _is_object(source: str) -> str:
    return f"({_get(source, '$', 'struct<`_`:variant>')} IS NOT NULL)"


def _object(source: str, path: str) -> str:
    """Return the object of a VARIANT at a path, NULL where there is none."""
    value = _get(source, path, "variant")
    return f"CASE WHEN {_is_object(value)} THEN {value} END"


def _cells(row: str) -> str:
    """Return the columns of an object as a MAP."""
    return _get(row, "$", "map<string,variant>")


def _image(kind: str, row: str) -> str:
    return f"named_struct('kind', '{kind}', 'row', {row})"


def _overwrite(row: str, fields: str) -> str:
    """Return the object `row` with the fields of another in place of its own."""
    mine, other = _cells(row), _cells(fields)
    rest = f"map_filter({mine}, (name, v) -> NOT array_contains(map_keys({other}), name))"
    return f"to_variant_object(map_concat({rest}, {other}))"


def _update(before: str, after: str) -> str:
    """Return the images of an update; `before` is NULL, or has the columns that it changed or all."""
    both = f"array({_image('-D', _overwrite(after, before))}, {_image('+I', after)})"
    return f"CASE WHEN {before} IS NULL THEN array({_image('+U', after)}) ELSE {both} END"


def _has_inexact_number() -> str:
    """Return whether a VARIANT does not hold each number of the message as it is written.

    It holds 38 digits; with an exponent, and beyond 38 digits, it holds a double, of which 17 digits are enough. Texts
    are passed over; only messages with that many digits in a row, texts included, are looked at.
    """
    unescaped = f"replace(replace(value, {sql_text(chr(92) * 2)}, ''), {sql_text(chr(92) + chr(34))}, '')"
    quoted = '"[^"]*"'
    bare = f"regexp_replace({unescaped}, {sql_text(quoted)}, '')"
    large, small = (
        "[eE][+]?(309|3[1-9][0-9]|[4-9][0-9]{2}|[0-9]{4})",
        "[eE]-(32[5-9]|3[3-9][0-9]|[4-9][0-9]{2}|[0-9]{4})",
    )
    many = f"[1-9]([.]?[0-9]){{38}}|[1-9]([.]?[0-9]){{17}}[0-9.]*[eE]|{large}|{small}"
    maybe = "[0-9.]{18}|[0-9][eE][+-]?[0-9]{3}"
    return f"CASE WHEN value RLIKE {sql_text(maybe)} THEN {bare} RLIKE {sql_text(many)} ELSE FALSE END"


def _problem(*cases: tuple[str, str], known: str = "_op", where: str) -> str:
    """Return the first problem of a message: `cases` are conditions with texts of SQL that say them."""
    first = [
        ("value IS NULL", "NULL"),
        ("NOT _is_json", sql_text(_NO_JSON)),
        (f"NOT {_is_object('_root')}", sql_text("no JSON object")),
        (_has_inexact_number(), sql_text(_INEXACT)),
    ]
    whens = " ".join(f"WHEN {condition} THEN {text}" for condition, text in (*first, *cases))
    missing = f"WHEN {known} IS NULL THEN {sql_text(f'no {where}: it says which change this is')}"
    unknown = f"ELSE concat({sql_text(where + ' ')}, left({known}, 100), ' is no change of a row that this format has')"
    return f"CASE {whens} {missing} {unknown} END"


# ---- plain rows ------------------------------------------------------------------------------------------------------


def _plain(options: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Rows as they are: `row-kind`, `database`, `table` and `time` name columns of them that say these."""
    named = {option: options[option] for option in ("row-kind", "database", "table", "time") if options[option]}
    cells = ", ".join(f"{sql_name(name)}:string" for name in dict.fromkeys(named.values()))
    cell = {option: f"_cells.{sql_name(name)}" for option, name in named.items()}
    kind, drop = cell.get("row-kind"), named.get("row-kind")
    row, types = "_root", "_types"
    if drop is not None:
        rest = f"map_filter({_cells('_root')}, (name, v) -> name <> {sql_text(drop)})"
        row, types = f"to_variant_object({rest})", f"map_filter(_types, (name, t) -> name <> {sql_text(drop)})"
    whens = (f"WHEN lower(trim(_op)) IN ({words}) THEN {sql_text(of)}" for of, words in _KINDS.items())
    return [
        {"_cells": _get("_root", "$", f"struct<{cells}>") if cells else "NULL"},
        {"_op": kind or "'+I'"},
        {"_kind": f"CASE {' '.join(whens)} END"},
        {
            "source_database": cell.get("database", "CAST(NULL AS STRING)"),
            "source_table": cell.get("table", "CAST(NULL AS STRING)"),
            "types": types,
            "primary_keys": _NO_KEYS,
            "ddl": "CAST(NULL AS STRING)",
            "ts_ms": _milliseconds(cell["time"]) if "time" in cell else "CAST(NULL AS BIGINT)",
            "problem": _problem(("_kind IS NOT NULL", "NULL"), where=f"column {drop}" if drop else "row"),
            "images": f"CASE WHEN value IS NOT NULL THEN array(named_struct('kind', _kind, 'row', {row})) END",
        },
    ]


_KINDS = {
    "+I": "'+i', 'i', 'insert', 'c', 'create', 'r', 'read', 'load', 'false'",
    "+U": "'+u', 'u', 'update', 'upsert'",
    "-U": "'-u'",
    "-D": "'-d', 'd', 'delete', 'true'",
}
"""Texts of a row kind column, in lower case, as SQL; true and false are those of a column like `deleted`."""
_NO_KEYS = "CAST(NULL AS ARRAY<STRING>)"
_NO_TYPES = "CAST(NULL AS MAP<STRING, STRING>)"


def _milliseconds(text: str) -> str:
    """Return milliseconds of a text: of that number, or of a time, which is one of the session's zone without one."""
    return f"coalesce(try_cast({text} AS BIGINT), unix_millis(try_cast({text} AS TIMESTAMP)))"


# ---- Debezium --------------------------------------------------------------------------------------------------------


def _debezium(options: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Debezium's envelopes, bare or as `payload` beside their `schema`, whose types the values are turned by."""
    fields = "array<struct<field:string,type:string,name:string,parameters:map<string,string>>>"
    schema = f"array<struct<field:string,fields:{fields}>>"
    side = "get(filter(_schema, f -> f.field = '{}'), 0).fields"
    names = "transform(_fields, f -> f.field)"
    value = debezium_value("v", "_field_of[name]")
    turned = f"to_variant_object(transform_values({_cells('{0}')}, (name, v) -> {value}))"
    database = f"coalesce({_get('_root', '$.source.db', 'string')}, {_get('_root', '$.databaseName', 'string')})"
    paimon = f"transform_values(_field_of, (name, f) -> {debezium_type('f', type_mappings(options))})"
    images = f"""CASE
        WHEN _op IN ('c', 'r') THEN array({_image("+I", "_after")})
        WHEN _op = 'u' THEN {_update("_before", "_after")}
        WHEN _op = 'd' THEN array({_image("-D", "_before")}) END"""
    return [
        {"_message": "_root", "_has_schema": f"{_is_object('_root')} AND {_HAS_SCHEMA}"},
        {
            "_root": f"CASE WHEN _has_schema THEN {_get('_message', '$.payload', 'variant')} ELSE _message END",
            "_schema": f"CASE WHEN _has_schema THEN {_get('_message', '$.schema.fields', schema)} END",
        },
        {"_fields": f"filter(coalesce({side.format('after')}, {side.format('before')}), f -> f.field IS NOT NULL)"},
        {
            "_op": _get("_root", "$.op", "string"),
            "_ddl": _get("_root", "$.ddl", "string"),
            "_field_of": f"CASE WHEN size(array_distinct({names})) = size(_fields) "
            f"THEN map_from_entries(transform(_fields, f -> struct(f.field, f))) END",
        },
        {
            f"_{side}": f"CASE WHEN _field_of IS NULL THEN {plain} ELSE {turned.format(plain)} END"
            for side, plain in (("before", _object("_root", "$.before")), ("after", _object("_root", "$.after")))
        },
        {
            "source_database": database,
            "source_table": _get("_root", "$.source.table", "string"),
            "types": f"CASE WHEN _field_of IS NOT NULL THEN {paimon} END",
            "primary_keys": f"coalesce({_get('_root', '$.pkNames', 'array<string>')}, {_KEY_NAMES})",
            "ddl": "CASE WHEN _op IS NULL THEN _ddl END",
            "ts_ms": f"coalesce({_get('_root', '$.ts_ms', 'bigint')}, {_get('_root', '$.source.ts_ms', 'bigint')})",
            "problem": _problem(
                ("_has_schema AND _root IS NULL", sql_text("no payload beside the schema")),
                ("_op IS NULL AND _ddl IS NOT NULL", "NULL"),
                ("_op IN ('c', 'r', 'u') AND _after IS NULL", "concat('no row after the change, where op is ', _op)"),
                ("_op = 'd' AND _before IS NULL", sql_text("no row before the change, where op is d")),
                (
                    "_schema IS NOT NULL AND _field_of IS NULL",
                    sql_text("a schema that does not tell the columns of the row"),
                ),
                ("_op IN ('c', 'r', 'u', 'd', 'm')", "NULL"),
                where="op",
            ),
            "images": images,
        },
    ]


_HAS_SCHEMA = f"map_contains_key({_get('_root', '$', 'map<string,variant>')}, 'schema')"
_KEY_NAMES = """CASE WHEN array_contains(json_object_keys(_key), 'schema')
    THEN json_object_keys(get_json_object(_key, '$.payload')) ELSE json_object_keys(_key) END"""
"""The columns of the key of a message, as Kafka Connect writes it."""


# ---- Canal -----------------------------------------------------------------------------------------------------------


def _canal(options: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Canal's messages: rows in `data`, what updates changed in `old`, the types of the texts in `mysqlType`."""
    paimon = mysql_type("t", type_mappings(options))
    sql = f"coalesce({_get('_root', '$.sql', 'string')}, '')"
    objects = f"transform({{}}, v -> CASE WHEN {_is_object('v')} THEN v END)"
    value = mysql_value("v", "_mysql[name]")
    turned = f"to_variant_object(transform_values({_cells('v')}, (name, v) -> {value}))"
    typed = (
        f"CASE WHEN _mysql IS NULL THEN {{0}} ELSE transform({{0}}, v -> CASE WHEN v IS NOT NULL THEN {turned} END) END"
    )
    return [
        {
            "_op": _get("_root", "$.type", "string"),
            "_ddl": f"CASE WHEN {_get('_root', '$.isDdl', 'boolean')} THEN {sql} END",
            "_mysql": _get("_root", "$.mysqlType", "map<string,string>"),
            "_data": objects.format(_get("_root", "$.data", "array<variant>")),
            "_old": objects.format(f"coalesce({_get('_root', '$.old', 'array<variant>')}, array())"),
        },
        {"_rows": typed.format("_data"), "_olds": typed.format("_old")},
        {
            "source_database": _get("_root", "$.database", "string"),
            "source_table": _get("_root", "$.table", "string"),
            "types": f"map_filter(transform_values(_mysql, (name, t) -> {paimon}), (name, t) -> t IS NOT NULL)",
            "primary_keys": _get("_root", "$.pkNames", "array<string>"),
            "ddl": "_ddl",
            "ts_ms": f"coalesce({_get('_root', '$.ts', 'bigint')}, {_get('_root', '$.es', 'bigint')})",
            "problem": _problem(
                ("_ddl IS NOT NULL", "NULL"),
                (
                    "_op IS NOT NULL AND (_data IS NULL OR exists(_data, v -> v IS NULL))",
                    sql_text("data is no array of rows"),
                ),
                ("_op IN ('INSERT', 'ROW', 'UPDATE', 'DELETE')", "NULL"),
                where="type",
            ),
            "images": f"""flatten(transform(_rows, (v, i) -> CASE
                WHEN _op IN ('INSERT', 'ROW') THEN array({_image("+I", "v")})
                WHEN _op = 'DELETE' THEN array({_image("-D", "v")})
                WHEN _op = 'UPDATE' THEN {_update("get(_olds, i)", "v")} END))""",
        },
    ]


# ---- Maxwell ---------------------------------------------------------------------------------------------------------


def _maxwell(options: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Maxwell's messages: a row in `data`, what an update changed in `old`; `ts` is in seconds."""
    sql = _get("_root", "$.sql", "string")
    type_mappings(options)
    return [
        {
            "_op": _get("_root", "$.type", "string"),
            "_data": _object("_root", "$.data"),
            "_old": _object("_root", "$.old"),
        },
        {
            "source_database": _get("_root", "$.database", "string"),
            "source_table": _get("_root", "$.table", "string"),
            "types": _NO_TYPES,
            "primary_keys": _get("_root", "$.primary_key_columns", "array<string>"),
            "ddl": f"CASE WHEN _op RLIKE '^(table|database)-' THEN coalesce({sql}, _op) END",
            "ts_ms": f"try_multiply({_get('_root', '$.ts', 'bigint')}, 1000L)",
            "problem": _problem(
                ("_op RLIKE '^(table|database)-(create|alter|drop)$'", "NULL"),
                ("_op IN ('bootstrap-start', 'bootstrap-complete')", "NULL"),
                ("_op IS NOT NULL AND _data IS NULL", "concat('no row in data, where type is ', left(_op, 100))"),
                ("_op IN ('insert', 'bootstrap-insert', 'update', 'delete')", "NULL"),
                where="type",
            ),
            "images": f"""CASE
                WHEN _op IN ('insert', 'bootstrap-insert') THEN array({_image("+I", "_data")})
                WHEN _op = 'update' THEN {_update("_old", "_data")}
                WHEN _op = 'delete' THEN array({_image("-D", "_data")}) END""",
        },
    ]


# ---- Oracle GoldenGate -----------------------------------------------------------------------------------------------


def _ogg(options: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Messages of Oracle GoldenGate: rows in `before` and `after`; the database stands before the table's first dot."""
    type_mappings(options)
    return [
        {
            "_op": _get("_root", "$.op_type", "string"),
            "_table": _get("_root", "$.table", "string"),
            "_before": _object("_root", "$.before"),
            "_after": _object("_root", "$.after"),
        },
        {
            "source_database": "CASE WHEN contains(_table, '.') THEN substring_index(_table, '.', 1) END",
            "source_table": "substr(_table, instr(_table, '.') + 1)",
            "types": _NO_TYPES,
            "primary_keys": _get("_root", "$.primary_keys", "array<string>"),
            "ddl": "CAST(NULL AS STRING)",
            "ts_ms": _milliseconds(_get("_root", "$.op_ts", "string")),
            "problem": _problem(
                ("_op IN ('I', 'U') AND _after IS NULL", "concat('no row after the change, where op_type is ', _op)"),
                ("_op = 'D' AND _before IS NULL", sql_text("no row before the change, where op_type is D")),
                ("_op IN ('I', 'U', 'D')", "NULL"),
                where="op_type",
            ),
            "images": f"""CASE
                WHEN _op = 'I' THEN array({_image("+I", "_after")})
                WHEN _op = 'U' THEN {_update("_before", "_after")}
                WHEN _op = 'D' THEN array({_image("-D", "_before")}) END""",
        },
    ]


# ---- AWS DMS ---------------------------------------------------------------------------------------------------------


def _dms(options: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Messages of AWS DMS: a row in `data`, where an update has the columns before with names that begin with `BI_`."""
    type_mappings(options)
    cells = _cells("_data")
    olds = f"map_filter({cells}, (name, v) -> startswith(name, 'BI_'))"
    old = f"to_variant_object(transform_keys({olds}, (name, v) -> substr(name, 4)))"
    new = f"to_variant_object(map_filter({cells}, (name, v) -> NOT startswith(name, 'BI_')))"
    is_update = "_op = 'update' AND _data IS NOT NULL"
    return [
        {
            "_op": _get("_root", "$.metadata.operation", "string"),
            "_record": _get("_root", '$.metadata["record-type"]', "string"),
            "_data": _object("_root", "$.data"),
        },
        {
            "_old": f"CASE WHEN {is_update} AND size({olds}) > 0 THEN {old} END",
            "_new": f"CASE WHEN {is_update} THEN {new} END",
        },
        {
            "source_database": _get("_root", '$.metadata["schema-name"]', "string"),
            "source_table": _get("_root", '$.metadata["table-name"]', "string"),
            "types": _NO_TYPES,
            "primary_keys": _NO_KEYS,
            "ddl": "CASE WHEN _record <> 'data' THEN coalesce(_op, _record) END",
            "ts_ms": _milliseconds(_get("_root", "$.metadata.timestamp", "string")),
            "problem": _problem(
                ("_record <> 'data'", "NULL"),
                ("_record IS NULL", sql_text("no record-type in metadata: it says whether this is a row")),
                ("_op IS NOT NULL AND _data IS NULL", "concat('no row in data, where operation is ', left(_op, 100))"),
                ("_op IN ('load', 'insert', 'update', 'delete')", "NULL"),
                where="operation",
            ),
            "images": f"""CASE
                WHEN _record <> 'data' THEN NULL
                WHEN _op IN ('load', 'insert') THEN array({_image("+I", "_data")})
                WHEN _op = 'update' THEN {_update("_old", "_new")}
                WHEN _op = 'delete' THEN array({_image("-D", "_data")}) END""",
        },
    ]


# ---- the formats -----------------------------------------------------------------------------------------------------

FORMATS: Mapping[str, ChangeFormat] = MappingProxyType(
    {
        "plain": ChangeFormat({"type-mapping": "", "row-kind": "", "database": "", "table": "", "time": ""}, _plain),
        "debezium": ChangeFormat({"type-mapping": ""}, _debezium),
        "canal": ChangeFormat({"type-mapping": ""}, _canal),
        "maxwell": ChangeFormat({"type-mapping": ""}, _maxwell),
        "ogg": ChangeFormat({"type-mapping": ""}, _ogg),
        "dms": ChangeFormat({"type-mapping": ""}, _dms),
    }
)
"""Formats by the name that a configuration gives."""
