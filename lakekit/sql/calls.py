"""How a procedure is called: CALL sys.name(…), by position or by name, held against the arguments that it takes.

@procedure("table string, tag string, snapshot long?")
def create_tag(call, *, table, tag, snapshot): …          an entry of `PROCEDURES`
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import col
from lakekit.errors import InvalidOption, Unsupported
from lakekit.format.polars_types import polars_schema
from lakekit.options.features import find
from lakekit.sql.backend import ResultRows
from lakekit.sql.expressions import Scope, Side, expression, parse_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.catalog.catalog import Catalog
    from lakekit.sql.backend import Row, SqlBackend, Statement
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table.table import Table

_LIMITS = {"long": 2**63, "int": 2**31}
_TASKS = ("sink.parallelism", "scan.parallelism")
_RESULT = "result boolean"


@dataclass(frozen=True, slots=True)
class Call:
    """Where a procedure is called."""

    asked: Statement

    @property
    def door(self) -> SqlBackend:
        """Who does it."""
        return self.asked.door

    @property
    def catalog(self) -> Catalog:
        """Whose tables are named."""
        return self.asked.catalog

    def full(self, name: str) -> str:
        """A table's name with its database."""
        return self.asked.full(name.split(".", 1))

    def table(self, name: str, options: str | None = None) -> Table:
        """The table of a name, with options such as "a=b,c=d" put over its own. Raises what the catalog raises."""
        return self.asked.table(self.full(name), table_options(options))

    def time(self, text: str | None) -> datetime | None:
        """A time of the door's zone, or milliseconds since 1970. Raises `InvalidOption`."""
        if text is None:
            return None
        return datetime.fromtimestamp(int(text) / 1000, UTC) if text.isdecimal() else self.asked.moment(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument of a procedure: `kind` is "string", "long", "int" or "boolean"."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure: its arguments in order, the columns of its answer as "name kind", and what does it."""

    parameters: tuple[Parameter, ...]
    gives: str
    run: Callable[..., Sequence[Row]]


PROCEDURES: dict[str, Procedure] = {}
"""By name; `lakekit.sql.procedures` enters them."""


def procedure(takes: str, gives: str = _RESULT) -> Callable[[Callable[..., Sequence[Row]]], Callable[..., Sequence[Row]]]:
    """An entry: `takes` are its arguments as "name kind", a kind with a question mark may be left out; the function is called by their names."""
    parameters = tuple(Parameter(name=name, kind=kind.rstrip("?"), required=not kind.endswith("?")) for name, kind in (one.split() for one in takes.split(",")))

    def enter(run: Callable[..., Sequence[Row]]) -> Callable[..., Sequence[Row]]:
        PROCEDURES[run.__name__.removeprefix("_")] = Procedure(parameters=parameters, gives=gives, run=run)
        return run

    return enter


# ---- a call --------------------------------------------------------------------------------------


def call_procedure(asked: Statement) -> ResultRows:
    """Does what stands after CALL.

    Raises `Unsupported` for a procedure that is not there, `InvalidOption` for its arguments, and what the procedure raises.
    """
    words = asked.words
    parts = words.names("a procedure, as sys.compact")
    name = parts[-1].lower()
    if [part.lower() for part in parts[:-1]] not in ([], ["sys"]):
        raise InvalidOption(f"{'.'.join(parts)}: procedures are called sys.<name>", key="sql", value=name)
    if name not in PROCEDURES:
        known = find(f"procedure.{name}")
        what = f"sys.{name} ({known.words}) is not done by lakekit" if known else f"there is no procedure sys.{name}"
        raise Unsupported(f"{what}; there are {', '.join(sorted(PROCEDURES))}", feature=known.name if known else "catalog.sql")
    found = PROCEDURES[name]
    arguments = _arguments(name, found, words)
    return ResultRows(found.gives, found.run(Call(asked), **arguments))


def _arguments(name: str, found: Procedure, words: TokenStream) -> dict[str, Any]:
    by_name = {one.name.lower(): one for one in found.parameters}
    given: dict[str, Any] = {}
    named = False
    words.expect("(")
    while not words.accept(")"):
        if given:
            words.expect(",")
        is_named = words.is_after("=>")
        if named and not is_named:
            raise words.wrong("an argument by name, as those before")
        named = named or is_named
        if is_named:
            said = words.name("an argument's name")
            words.expect("=>")
            parameter = by_name.get(said.lower())
        else:
            said = f"number {len(given) + 1}"
            parameter = found.parameters[len(given)] if len(given) < len(found.parameters) else None
        if parameter is None:
            raise InvalidOption(f"sys.{name} takes no argument {said}; it takes {_format_parameters(found)}", key=said)
        if parameter.name in given:
            raise InvalidOption(f"sys.{name}: argument {parameter.name} is given twice", key=parameter.name)
        given[parameter.name] = _value(name, parameter, words)
    words.end()
    if missing := [one.name for one in found.parameters if one.required and given.get(one.name) is None]:
        raise InvalidOption(f"sys.{name} needs {', '.join(missing)}; it takes {_format_parameters(found)}", key=missing[0])
    return {one.name: given.get(one.name) for one in found.parameters}


def _format_parameters(found: Procedure) -> str:
    return ", ".join(f"{one.name} {one.kind}{'' if one.required else ' (optional)'}" for one in found.parameters)


def _value(name: str, parameter: Parameter, words: TokenStream) -> Any:
    """A literal of an argument's type. A number or a truth in quotes is one, and a number for a text its digits, as Spark casts them."""
    if words.accept("NULL"):
        return None
    negative = words.accept("-")
    word = words.take("a literal", "text", "number", *(() if negative else ("word",)))
    said = word.value.rstrip("lL") if word.kind == "number" else word.value
    said = f"-{said}" if negative else said
    if parameter.kind == "string" and word.kind != "word":
        return said
    if parameter.kind == "boolean" and said.lower() in ("true", "false"):
        return said.lower() == "true"
    if parameter.kind in _LIMITS and re.fullmatch(r"-?\d+", said) and -_LIMITS[parameter.kind] <= int(said) < _LIMITS[parameter.kind]:
        return int(said)
    raise InvalidOption(f"sys.{name}: argument {parameter.name} is a {parameter.kind}, not {word.said}", key=parameter.name, value=word.said)


def options_of(text: str | None) -> dict[str, str] | None:
    """Options as "a=b,c=d". Raises `InvalidOption`."""
    if text is None or not text.strip():
        return None
    pairs = [one.partition("=") for one in text.split(",")]
    if wrong := next((one for one in pairs if not one[1] or not one[0].strip()), None):
        raise InvalidOption(f"options {text!r}: {''.join(wrong)!r} is no key=value", key="options", value=text)
    return {key.strip(): value.strip() for key, _, value in pairs}


def table_options(text: str | None) -> dict[str, str] | None:
    """Options of a table as "a=b,c=d", without those that say how many tasks another engine runs: Spark has as many as it has. Raises `InvalidOption`."""
    found = options_of(text)
    return found and {key: value for key, value in found.items() if key not in _TASKS}


def partitions_of(text: str) -> list[dict[str, str]]:
    """Partitions as "dt=1,hh=2;dt=3". Raises `InvalidOption`."""
    found = [options_of(one) for one in text.split(";") if one.strip()]
    return [one for one in found if one]


def rows_of(table: Table, partitions: str | None, where: str | None) -> pl.Expr | None:
    """Rows of partitions that are named one by one, or by a condition."""
    if partitions is not None and where is not None:
        raise InvalidOption("partitions and where cannot be given at once: leave one out", key="partitions", value=partitions)
    if where is not None:
        side = Side(called=(table.name.lower().rpartition(".")[2],), columns=dict(polars_schema(table.handle().schema.fields)))
        return expression(parse_tree(where, "condition"), Scope(sides=(side,)))
    if partitions is None:
        return None
    wanted = [{name: _unquote(value) for name, value in one.items()} for one in partitions_of(partitions)]
    names = sorted({name for one in wanted for name in one})
    if not wanted or not set(names) <= set(table.partition_keys):
        raise InvalidOption(f"partitions {partitions!r}: {table.name} is partitioned by {', '.join(table.partition_keys) or 'nothing'}", key="partitions")
    chosen = [pl.all_horizontal(*(col(name).cast(pl.String) == value for name, value in one.items())) for one in wanted]
    return pl.any_horizontal(*chosen)


def _unquote(value: str) -> str:
    """A value as it is; in quotes, as SQL writes a text, what is between them."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def success_rows() -> Sequence[Row]:
    """The answer of a procedure that tells nothing but that it was done."""
    return [(True,)]
