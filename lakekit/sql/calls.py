"""Calls of procedures, CALL sys.name(…), checked by their parameters; procedures of Flink alone.

    @procedure("table string, tag string, snapshot long?")
    def create_tag(call, *, table, tag, snapshot): …          an entry of `PROCEDURES`

    CALL sys.rollback_to(table => 'shop.orders', snapshot_id => 12)               by name
    CALL sys.drop_partition('shop.orders', 'day=2024-03-31;day=2024-04-01')       by position

The procedures here are those that only Paimon's Flink connector has, not its Spark connector (`procedures`), each over
the method that does it. Names and order of the arguments are the connector's.

Source: "Flink / Procedures" of Paimon's documentation.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

import lakekit.ddl.schema_changes as changes
from lakekit.columns import col
from lakekit.errors import InvalidOption, Unsupported
from lakekit.metadata import refs
from lakekit.options.features import find_feature
from lakekit.read import user_expressions
from lakekit.read.table_scan import context_of
from lakekit.sql import dml
from lakekit.sql.backend import StatementResult
from lakekit.sql.tokenizer import TokenStream
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.catalog.catalog import Catalog
    from lakekit.sql.backend import Row, SqlBackend, Statement
    from lakekit.table.table import Table


_LIMITS = {"long": 2**63, "int": 2**31}
_TASKS = ("sink.parallelism", "scan.parallelism")
_RESULT = "result boolean"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a procedure in a statement."""

    statement: Statement

    @property
    def backend(self) -> SqlBackend:
        """The backend that executes the statement."""
        return self.statement.backend

    @property
    def catalog(self) -> Catalog:
        """The catalog whose tables the call names."""
        return self.statement.catalog

    def full(self, name: str) -> str:
        """Return a table's name with its database. Raises `Unsupported` for one of another catalog."""
        own, full_name = self.locate(name)
        if own.is_foreign:
            raise Unsupported(
                f"{name} is a table of another catalog than this procedure works in: USE CATALOG names that one",
                feature="catalog.sql",
            )
        return full_name

    def locate(self, name: str) -> tuple[Statement, str]:
        """Return the statement in the catalog that a table's name begins with, and "db.t"."""
        parts = name.split(".", 2)
        is_foreign = len(parts) > 2 and parts[0] in self.backend.catalogs
        return self.statement.locate(parts if is_foreign else name.split(".", 1))

    def table(self, name: str, options: str | None = None) -> Table:
        """Return the table of a name, with options such as "a=b,c=d" put over its own.

        Raises what the catalog raises.
        """
        own, full_name = self.locate(name)
        return own.table(full_name, table_options(options))

    def time(self, text: str | None) -> datetime | None:
        """Return a time in the backend's zone, or of milliseconds since 1970. Raises `InvalidOption`."""
        if text is None:
            return None
        return datetime.fromtimestamp(int(text) / 1000, UTC) if text.isdecimal() else self.statement.moment(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument of a procedure: `kind` is "string", "long", "int" or "boolean"."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure: its parameters in order, the columns of its result as "name kind", and its function."""

    parameters: tuple[Parameter, ...]
    result_columns: str
    run: Callable[..., Sequence[Row]]


PROCEDURES: dict[str, Procedure] = {}
"""By name; `lakekit.sql.procedures` enters them."""


def procedure(
    takes: str, gives: str = _RESULT
) -> Callable[[Callable[..., Sequence[Row]]], Callable[..., Sequence[Row]]]:
    """Register a function as a procedure.

    `takes`: its parameters as "name kind", where a kind with a question mark is optional; the function is called by
    their names.
    """
    parameters = tuple(
        Parameter(name=name, kind=kind.rstrip("?"), required=not kind.endswith("?"))
        for name, kind in (item.split() for item in takes.split(",") if item)
    )

    def enter(run: Callable[..., Sequence[Row]]) -> Callable[..., Sequence[Row]]:
        PROCEDURES[run.__name__.removeprefix("_")] = Procedure(parameters=parameters, result_columns=gives, run=run)
        return run

    return enter


# ---- a call --------------------------------------------------------------------------------------


def call_procedure(statement: Statement) -> StatementResult:
    """Execute what stands after CALL.

    Raises: `Unsupported` for an unknown procedure, `InvalidOption` for its arguments, and what the procedure raises.
    """
    tokens = statement.tokens
    first = tokens.position
    parts = tokens.names("a procedure, as sys.compact")
    name = parts[-1].lower()
    if len(parts) == 3 and parts[0] in statement.backend.catalogs:
        statement, parts = statement.in_catalog(parts[0]), parts[1:]
    if [part.lower() for part in parts[:-1]] not in ([], ["sys"]):
        wrong = InvalidOption(f"{'.'.join(parts)}: procedures are called sys.<name>", key="sql", value=name)
        raise tokens.located(first, wrong)
    if name not in PROCEDURES:
        known_feature = find_feature(f"procedure.{name}")
        what = (
            f"sys.{name} ({known_feature.description}) is not done by lakekit"
            if known_feature
            else f"there is no procedure sys.{name}"
        )
        near = difflib.get_close_matches(name, PROCEDURES, 1)
        hint = f"; did you mean sys.{near[0]}?" if near and not known_feature else "."
        problem = f"{what}{hint} CALL sys.help() lists them: {', '.join(sorted(PROCEDURES))}"
        raise Unsupported(
            tokens.error_at(first, problem).message,
            feature=known_feature.name if known_feature else "catalog.sql",
        )
    procedure = PROCEDURES[name]
    arguments = _arguments(name, procedure, tokens)
    return StatementResult(procedure.result_columns, procedure.run(Call(statement), **arguments))


def _arguments(name: str, procedure: Procedure, tokens: TokenStream) -> dict[str, Any]:
    by_name = {declared.name.lower(): declared for declared in procedure.parameters}
    values: dict[str, Any] = {}
    named, first = False, tokens.position - 1
    tokens.expect("(")
    while not tokens.accept(")"):
        if values:
            tokens.expect(",")
        is_named = tokens.is_after("=>")
        if named and not is_named:
            raise tokens.wrong("an argument by name, as those before")
        named, at = named or is_named, tokens.position
        if is_named:
            label = tokens.name("an argument's name")
            tokens.expect("=>")
            parameter = by_name.get(label.lower())
        else:
            label = f"number {len(values) + 1}"
            parameter = procedure.parameters[len(values)] if len(values) < len(procedure.parameters) else None
        if parameter is None:
            problem = f"sys.{name} takes no argument {label}; it takes {format_parameters(procedure)}"
            raise tokens.located(at, InvalidOption(problem, key=label))
        if parameter.name in values:
            problem = f"sys.{name}: argument {parameter.name} is given twice"
            raise tokens.located(at, InvalidOption(problem, key=parameter.name))
        values[parameter.name] = _value(name, parameter, tokens)
    tokens.end()
    if missing := [
        declared.name for declared in procedure.parameters if declared.required and values.get(declared.name) is None
    ]:
        problem = f"sys.{name} needs {', '.join(missing)}; it takes {format_parameters(procedure)}"
        raise tokens.located(first, InvalidOption(problem, key=missing[0]))
    return {declared.name: values.get(declared.name) for declared in procedure.parameters}


def format_parameters(procedure: Procedure) -> str:
    """Return the parameters of a procedure as text."""
    return ", ".join(
        f"{parameter.name} {parameter.kind}{'' if parameter.required else ' (optional)'}"
        for parameter in procedure.parameters
    )


def _value(name: str, parameter: Parameter, tokens: TokenStream) -> Any:
    """Return a literal as a value of an argument's type.

    A number or bool in quotes is one, and a number for a text its digits, as Spark casts them.
    """
    at, negative = tokens.position, tokens.accept("-")
    word = tokens.take("a literal", "text", "number", *(() if negative else ("word", "quoted")))
    if word.kind == "word" and word.text.upper() == "NULL":
        return None
    if word.kind in ("word", "quoted") and parameter.kind == "string" and not negative:
        return _bare_name(word.value, tokens)
    text = word.value.rstrip("lL") if word.kind == "number" else word.value
    text = f"-{text}" if negative else text
    if parameter.kind == "string" and word.kind != "word":
        return text
    if parameter.kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if (
        parameter.kind in _LIMITS
        and re.fullmatch(r"-?\d+", text)
        and -_LIMITS[parameter.kind] <= int(text) < _LIMITS[parameter.kind]
    ):
        return int(text)
    problem = f"sys.{name}: argument {parameter.name} is a {parameter.kind}, not {word.text}"
    raise tokens.located(at, InvalidOption(problem, key=parameter.name, value=word.text))


def _bare_name(first: str, tokens: TokenStream) -> str:
    """Return a name that stands without quotes, `shop.orders`, or key=value pairs that do."""
    parts = [first]
    while tokens.accept("."):
        parts.append(tokens.name("a name"))
    return ".".join(parts)


def options_of(text: str | None) -> dict[str, str] | None:
    """Return options written as "a=b,c=d". Raises `InvalidOption`."""
    if text is None or not text.strip():
        return None
    pairs = [item.partition("=") for item in text.split(",")]
    if wrong := next((item for item in pairs if not item[1] or not item[0].strip()), None):
        raise InvalidOption(f"options {text!r}: {''.join(wrong)!r} is no key=value", key="options", value=text)
    return {key.strip(): value.strip() for key, _, value in pairs}


def table_options(text: str | None) -> dict[str, str] | None:
    """Return options of a table written as "a=b,c=d". Raises `InvalidOption`.

    Those that set how many tasks another engine runs are left out: Spark decides that itself.
    """
    options = options_of(text)
    return options and {key: value for key, value in options.items() if key not in _TASKS}


def partitions_of(text: str) -> list[dict[str, str]]:
    """Return partitions written as "dt=1,hh=2;dt=3". Raises `InvalidOption`."""
    partitions = [options_of(item) for item in text.split(";") if item.strip()]
    return [item for item in partitions if item]


def rows_of(table: Table, partitions: str | None, where: str | None, *, dialect: str = "lakekit") -> pl.Expr | None:
    """Return the condition of rows in partitions that are named one by one, or by a condition in a dialect."""
    if partitions is not None and where is not None:
        raise InvalidOption(
            "partitions and where cannot be given at once: leave one out", key="partitions", value=partitions
        )
    if where is not None:
        return user_expressions.condition_on_table(where, context_of(table), dialect=dialect)
    if partitions is None:
        return None
    wanted = [{name: _unquote(value) for name, value in spec.items()} for spec in partitions_of(partitions)]
    names = sorted({name for spec in wanted for name in spec})
    if not wanted or not set(names) <= set(table.partition_keys):
        raise InvalidOption(
            f"partitions {partitions!r}: {table.name} is partitioned by {', '.join(table.partition_keys) or 'nothing'}",
            key="partitions",
        )
    chosen = [
        pl.all_horizontal(*(col(name).cast(pl.String) == value for name, value in spec.items())) for spec in wanted
    ]
    return pl.any_horizontal(*chosen)


def _unquote(value: str) -> str:
    """Return a value without the quotes of an SQL text around it."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def success_rows() -> Sequence[Row]:
    """Return the result of a procedure that reports only its success."""
    return [(True,)]


# ---- flink procedures ------------------------------------------------------------


@procedure("table string, tag string?, snapshot_id long?", "previous_snapshot_id long, current_snapshot_id long")
def _rollback_to(call: Call, *, table: str, tag: str | None, snapshot_id: int | None) -> Sequence[Row]:
    target = snapshot_id if tag is None else tag
    if target is None or None not in (tag, snapshot_id):
        raise InvalidOption("sys.rollback_to takes one of tag and snapshot_id", key="tag")
    rolled = call.table(table)
    before = rolled.snapshots()["snapshot_id"].max()
    rolled.rollback(target)
    return [(before, rolled.snapshots()["snapshot_id"].max())]


@procedure(
    "table string, tag string, watermark long, time_retained string?",
    "tagName string, snapshot long, commit_time long, watermark string",
)
def _create_tag_from_watermark(
    call: Call, *, table: str, tag: str, watermark: int, time_retained: str | None
) -> Sequence[Row]:
    tagged = call.table(table)
    tagged.create_tag(tag, watermark=watermark, retain=time_retained)
    snapshot = refs.read_tag(context_of(tagged), tag).snapshot
    return [(tag, snapshot.id, snapshot.time_millis, None if snapshot.watermark is None else str(snapshot.watermark))]


@procedure(
    "table string, retain_max int?, retain_min int?, older_than string?, max_deletes int?, delete_all boolean?",
    "deleted_changelogs_count int",
)
def _expire_changelogs(
    call: Call,
    *,
    table: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    max_deletes: int | None,
    delete_all: bool | None,
) -> Sequence[Row]:
    expired = call.table(table).expire_changelogs(
        retain_max=retain_max,
        retain_min=retain_min,
        older_than=call.time(older_than),
        max_deletes=max_deletes,
        delete_all=bool(delete_all),
    )
    return [(len(expired.snapshot_ids),)]


@procedure("table string")
def _repair_earliest_snapshot(call: Call, *, table: str) -> Sequence[Row]:
    call.table(table).repair()
    return success_rows()


@procedure(
    "database string?, table string?, catalog_conf string?, target_database string?, target_table string?, "
    "target_catalog_conf string?, "
    "parallelism int?, where string?"
)
def _clone(
    call: Call,
    *,
    database: str | None,
    table: str | None,
    catalog_conf: str | None,
    target_database: str | None,
    target_table: str | None,
    target_catalog_conf: str | None,
    parallelism: int | None,
    where: str | None,
) -> Sequence[Row]:
    if (
        catalog_conf is not None
        or target_catalog_conf is not None
        or where is not None
        or table is None
        or target_table is None
    ):
        message = (
            "sys.clone copies one table within a catalog: database, table, target_database and target_table; "
            "CREATE TABLE other.db.t AS SELECT … copies rows to another catalog, VERSION AS OF an older state"
        )
        raise Unsupported(message, feature="procedure.clone")
    if parallelism is not None and parallelism < 1:
        raise InvalidOption(f"parallelism {parallelism}; it is 1 or more", key="parallelism", value=str(parallelism))
    source = call.full(table) if database is None else f"{database}.{table}"
    call.catalog.clone(source, f"{target_database or source.partition('.')[0]}.{target_table}")
    return success_rows()


@procedure("table string, partitions string")
def _drop_partition(call: Call, *, table: str, partitions: str) -> Sequence[Row]:
    call.table(table).drop_partitions(partitions_of(partitions))
    return success_rows()


@procedure("table string, column string, default_value string")
def _alter_column_default_value(call: Call, *, table: str, column: str, default_value: str) -> Sequence[Row]:
    call.table(table).alter(changes.update_default(column, default_value))
    return success_rows()


@procedure(
    "target_table string, target_alias string?, source_sqls string?, source_table string, merge_condition string, "
    "matched_upsert_condition string?, "
    "matched_upsert_setting string?, not_matched_insert_condition string?, not_matched_insert_values string?, "
    "matched_delete_condition string?, "
    "not_matched_by_source_upsert_condition string?, not_matched_by_source_upsert_setting string?, "
    "not_matched_by_source_delete_condition string?"
)
def _merge_into(
    call: Call,
    *,
    target_table: str,
    target_alias: str | None,
    source_table: str,
    merge_condition: str,
    **clauses: str | None,
) -> Sequence[Row]:
    """Execute MERGE INTO of the same parts.

    An empty text counts as not given: the connector takes it for positions that are not meant.
    """
    arguments = {name: text for name, text in clauses.items() if text}
    if "source_sqls" in arguments:
        raise Unsupported(
            "sys.merge_into(source_sqls => …) is not done: CREATE TEMPORARY VIEW before, and name the view",
            feature="procedure.merge_into",
        )
    name = call.full(target_table)
    columns = context_of(call.table(name)).schema.names
    whens = [
        _build_when_clause("MATCHED", arguments, "matched_upsert", _update),
        _build_when_clause("MATCHED", arguments, "matched_delete", _delete),
        _build_when_clause(
            "NOT MATCHED",
            arguments,
            "not_matched_insert",
            lambda text: f"INSERT {'*' if text.strip() == '*' else _values(columns, text)}",
        ),
        _build_when_clause("NOT MATCHED BY SOURCE", arguments, "not_matched_by_source_upsert", _update),
        _build_when_clause("NOT MATCHED BY SOURCE", arguments, "not_matched_by_source_delete", _delete),
    ]
    if not any(whens):
        raise InvalidOption(
            "sys.merge_into needs something to do, such as matched_upsert_setting or not_matched_insert_values",
            key="matched_upsert_setting",
        )
    target = ".".join(quote_identifier(part) for part in name.split(".")) + (
        f" AS {quote_identifier(target_alias)}" if target_alias else ""
    )
    source = ".".join(quote_identifier(part) for part in source_table.split("."))
    text = f"MERGE INTO {target} USING {source} ON {merge_condition} {' '.join(when for when in whens if when)}"
    merge = TokenStream.of(text, call.statement.tokens.dialect, name="CALL sys.merge_into")
    merge.expect("MERGE")
    dml.merge(replace(call.statement, tokens=merge))
    return success_rows()


_BODIES = ("_setting", "_values")


def _build_when_clause(
    kind: str, arguments: Mapping[str, str], clause: str, action: Callable[[str], str]
) -> str | None:
    """Return one WHEN of a MERGE by the arguments of a clause; None where it is not requested.

    The arguments are `clause`_condition and what it sets.
    """
    condition = arguments.get(f"{clause}_condition")
    body = next((arguments[clause + end] for end in _BODIES if clause + end in arguments), None)
    if body is None and (condition is None or not clause.endswith("delete")):
        if condition is not None:
            raise InvalidOption(
                f"sys.merge_into: {clause}_condition says when, and nothing says what is set", key=f"{clause}_condition"
            )
        return None
    return f"WHEN {kind}{'' if condition is None else f' AND ({condition})'} THEN {action(body or '')}"


def _values(columns: Sequence[str], text: str) -> str:
    return f"({', '.join(map(quote_identifier, columns))}) VALUES ({text})"


def _update(text: str) -> str:
    return f"UPDATE SET {text}"


def _delete(_: str) -> str:
    return "DELETE"
