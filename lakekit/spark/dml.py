"""Rows by statement: SELECT, CREATE TABLE … AS, INSERT, DELETE, UPDATE and MERGE INTO over the tables of a catalog.

    SELECT    each table of the catalog that the query names becomes `ls.read` of it, in its place in the text, and Spark computes the rest as it stands
    CREATE    with AS: a table of the query's columns, and its rows through `ls.write`
    INSERT    the query's columns by their order, or by name, through `ls.write`
    others    conditions and values as Polars expressions (`expressions`), through `ls.delete`, `ls.update`, `ls.merge`

A name of one part is a view of the session, where there is one, else a table of the session's current database.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import functions, types as spark_types

from lakekit.catalog.global_tables import GlobalTable
from lakekit.change import clauses
from lakekit.change.clauses import SOURCE
from lakekit.errors import CommitStateUnknown, InvalidOption, LakekitError, NotFound, SchemaMismatch, TableNotFound, Unsupported
from lakekit.format.dtypes import paimon_type, polars_schema
from lakekit.spark import definitions, expressions, merging, reads, statements, types, writes
from lakekit.spark.conditions import quoted
from lakekit.spark.definitions import columns_of, names, told
from lakekit.spark.expressions import Scope, Side, exp
from lakekit.spark.words import Words
from lakekit.table.table import Table
from lakekit.types import INTEGERS, STRINGS, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from lakekit.catalog.catalog import Catalog
    from lakekit.change.clauses import Clause
    from lakekit.commit.outcome import Commit

    Node = Any
    """A node of sqlglot's tree."""

_COMMITTED = columns_of("snapshot_id long, row_count long")
_ENDS = ("SET", "USING", "WHERE", "ON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A statement, where it is asked, and the words of it that are still to be read."""

    spark: SparkSession
    catalog: Catalog
    words: Words

    def name(self) -> str:
        """Takes the name of a table, "db.t". Raises `InvalidOption`."""
        parts = self.words.names("a table, as database.table")
        if len(parts) > 2:
            raise InvalidOption(f"{'.'.join(parts)} has {len(parts)} parts; a table of the catalog given is called database.table", key="sql")
        return self.full(parts)

    def full(self, parts: Sequence[str]) -> str:
        """A name with its database."""
        return ".".join(parts) if len(parts) > 1 else f"{self.spark.catalog.currentDatabase()}.{parts[0]}"

    def table(self, name: str) -> Table:
        """A table with rows of its own. Raises what the catalog raises, `InvalidOption` for a system table."""
        found = self.catalog.table(name)
        if not isinstance(found, Table):
            raise InvalidOption(f"{name} is made of what a table holds; a statement that changes something names that table", key="sql", value=name)
        return found

    @property
    def zone(self) -> str:
        """The session's."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"


def done(asked: Asked, commit: Commit) -> DataFrame:
    """What a commit did, as one row."""
    return told(asked, _COMMITTED, [(commit.snapshot_id, commit.row_count)])


# ---- queries ---------------------------------------------------------------------------------------------------------------------------------


def query(asked: Asked, text: str) -> DataFrame:
    """The rows of a query. Raises `InvalidOption` for what is none, and what Spark says of it."""
    tree = expressions.parsed(text, "query", reads_texts=False)
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise InvalidOption(f"no query that lakekit understands: {text[:200]}", key="sql")
    there = _Named(asked, text)
    own = {one.alias_or_name.lower() for one in tree.find_all(exp.CTE)}
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and not (node.args.get("db") is None and node.name.lower() in own):
            there.replace(node)
    for column in tree.find_all(exp.Column):
        there.shorten(column)
    return there.frame()


@dataclass(slots=True)
class _Named:
    """A query whose tables are put in their places: `spans` of its text are replaced, by `frames` where they are tables."""

    asked: Asked
    text: str
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    frames: dict[str, Any] = field(default_factory=dict)
    databases: set[tuple[str, str]] = field(default_factory=set)

    def replace(self, node: Node) -> None:
        """Puts `ls.read` of a table in its place; what the session knows under that name and the catalog does not stays."""
        if node.args.get("catalog") is not None:
            raise InvalidOption(f"{node.sql('spark')} has three parts; a table of the catalog given is called database.table", key="sql")
        parts = [one.name for one in (node.args.get("db"), node.this) if one is not None]
        spark = self.asked.spark
        if len(parts) == 1 and spark.catalog.tableExists(quoted(parts[0])):
            return
        try:
            table: Any = self.asked.catalog.table(self.asked.full(parts))  # one of the catalog's own among them
        except NotFound:
            if spark.catalog.tableExists(".".join(map(quoted, parts))):
                return
            if len(parts) > 1:
                raise
            name = self.asked.full(parts)
            raise TableNotFound(f"{parts[0]} is no view of the session, and {name} no table of the catalog; write database.table", name=name) from None
        at, end = self._version(node)
        first = node.args.get("db") or node.this
        key = f"lakekit_{len(self.frames)}"
        self.frames[key] = _collected(spark, table) if isinstance(table, GlobalTable) else reads.read(spark, table, at=at)
        words = Words.of(self.text)
        words.skip(end)
        alias = "" if node.alias or words.is_next("TABLESAMPLE") else f" AS {quoted(parts[-1])}"
        self.spans.append((_start(first), end, f"{{{key}}}{alias}"))
        if len(parts) > 1:
            self.databases.add((parts[0].lower(), parts[1].lower()))

    def shorten(self, column: Node) -> None:
        """Takes the database out of a column's name: the table goes by its own name here."""
        database, table = column.args.get("db"), column.args.get("table")
        if database is not None and (database.name.lower(), table.name.lower()) in self.databases:
            self.spans.append((_start(database), _start(table), ""))

    def _version(self, node: Node) -> tuple[int | str | datetime | None, int]:
        """Which version of a table is asked for, and where its name and that end."""
        end, version = node.this.meta["end"] + 1, node.args.get("version")
        if version is None:
            return None, end
        literal = version.expression
        words = Words.of(self.text)
        words.skip(end)
        words.accept("FOR")
        words.name("VERSION or TIMESTAMP")
        words.expect("AS", "OF")
        word = words.take("a snapshot, a tag or a time, as a literal", "number", "text")
        if str(version.this).upper() == "VERSION":
            return (literal.name if literal.is_string else int(literal.name)), word.end
        try:
            moment = datetime.fromisoformat(literal.name) if literal.is_string else datetime.fromtimestamp(int(literal.name), ZoneInfo("UTC"))
        except ValueError:
            raise InvalidOption(f"TIMESTAMP AS OF {word.said}: no time; write '2024-03-31 12:00:00', or seconds since 1970", key="sql") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(self.asked.zone))), word.end

    def frame(self) -> DataFrame:
        """The query over the tables."""
        if not self.frames:
            return self.asked.spark.sql(self.text)
        pieces, at = [], 0
        for start, end, put in sorted(self.spans):
            pieces += [_plain(self.text[at:start]), put]
            at = end
        return self.asked.spark.sql("".join([*pieces, _plain(self.text[at:])]), **self.frames)


def _collected(spark: SparkSession, table: GlobalTable) -> DataFrame:
    """A table of the catalog itself, whose rows the driver knows."""
    found = table.scan().collect()
    fields = types.read_fields([Field(name, paimon_type(dtype, name)) for name, dtype in found.schema.items()])
    return spark.createDataFrame(pa.Table.from_batches([types.to_batch(found, fields)]), types.spark_schema(fields))


def _start(identifier: Node) -> int:
    return int(identifier.meta["start"])


def _plain(text: str) -> str:
    """Text in which PySpark finds no place for a frame."""
    return text.replace("{", "{{").replace("}", "}}")


# ---- CREATE TABLE … AS ------------------------------------------------------------------------------------------------------------------------


def create(asked: Asked) -> DataFrame:
    """CREATE; TABLE … AS a query makes a table of the query's columns, which is gone again where its rows cannot be written."""
    words = asked.words
    if words.accept("DATABASE") or words.accept("SCHEMA") or words.accept("NAMESPACE"):
        return definitions.create_database(asked)
    words.expect("TABLE")
    is_lenient, name = words.accept("IF", "NOT", "EXISTS"), asked.name()
    if words.is_next("("):
        return definitions.create_table(asked, name, is_lenient=is_lenient)
    partitions, comment, properties = definitions.table_words(words)
    if not words.accept("AS"):
        raise words.wrong("the columns of the table in parentheses, or AS and a query")
    if is_lenient and asked.catalog.exists(name):
        return told(asked, _COMMITTED, [(None, 0)])
    df = query(asked, words.rest)
    fields = [types.replace_type(field, field.type.as_nullable()) for field in types.paimon_fields(df.schema)]
    table = asked.catalog.create_table(name, fields, partition_keys=partitions, options=properties, comment=comment)
    return done(asked, _filled(asked, name, table, df))


def _filled(asked: Asked, name: str, table: Table, df: DataFrame) -> Commit:
    try:
        return writes.write(df, table)
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):
            asked.catalog.drop_table(name)
        raise


# ---- INSERT ----------------------------------------------------------------------------------------------------------------------------------


def insert(asked: Asked) -> DataFrame:
    """INSERT INTO and INSERT OVERWRITE: the rows of a query by `ls.write`."""
    words = asked.words
    mode = "overwrite" if words.accept("OVERWRITE") else "append"
    if mode == "append":
        words.expect("INTO")
    words.accept("TABLE")
    name = asked.name()
    table = asked.table(name)
    partition = _partition(words, table) if words.accept("PARTITION") else {}
    by_name = words.accept("BY", "NAME")
    columns = None
    if not by_name and words.is_next("(") and not any(words.is_next("(", word) for word in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")):
        columns = names(words)
    handle = table.handle()
    wanted = [handle.schema.field(one) if handle.schema.has(one) else None for one in columns or [n for n in handle.schema.names if n not in partition]]
    if columns is not None and None in wanted:
        raise SchemaMismatch(f"INSERT INTO {name} names {columns[wanted.index(None)]!r}; its columns are {', '.join(handle.schema.names)}")
    df = query(asked, words.rest)
    if by_name:
        wanted = [handle.schema.field(one) if handle.schema.has(one) else None for one in df.columns]
    elif len(df.columns) != len(wanted):
        into = ", ".join(one.name for one in wanted if one is not None)
        raise SchemaMismatch(f"INSERT INTO {name} takes {len(wanted)} columns ({into}), and the query gives {len(df.columns)} ({', '.join(df.columns)})")
    else:
        df = df.toDF(*(one.name for one in wanted if one is not None))
    df = df.select(*(_stored(column, one) for column, one in zip(df.schema, wanted, strict=True)))
    for key, value in partition.items():
        if value is not None:
            df = df.withColumn(key, functions.lit(value).cast(types.spark_type(handle.schema.field(key).type)))
    whole = {key: value for key, value in partition.items() if value is not None}
    return done(asked, writes.write(df, table, mode=mode, partition=whole or None if mode == "overwrite" else None))


def _partition(words: Words, table: Table) -> dict[str, Any]:
    """PARTITION (dt = '2024-03-31', hour): the values that are told."""
    found: dict[str, Any] = {}
    words.expect("(")
    while True:
        key = words.name("a partition column")
        if key not in table.partition_keys:
            raise SchemaMismatch(f"PARTITION ({key}): {table.name} is partitioned by {', '.join(table.partition_keys) or 'nothing'}", column=key)
        found[key] = _literal(words, table, key) if words.accept("=") else None
        if not words.accept(","):
            break
    words.expect(")")
    for key in [key for key, value in found.items() if value is None]:  # scalar: one a column; where no value is told the query has the column
        del found[key]
    return found


def _literal(words: Words, table: Table, key: str) -> Any:
    """The value of a partition column. Raises `SchemaMismatch` for a text that is none of its type."""
    t = table.handle().schema.field(key).type
    words.accept("DATE")
    said = words.take("a literal", "text", "number").value
    try:
        if t.root in INTEGERS:
            return int(said)
        if t.root == "DATE":
            return date.fromisoformat(said)
    except ValueError:
        raise SchemaMismatch(f"PARTITION ({key} = {said!r}): the column is {t}", column=key) from None
    if t.root not in STRINGS:
        raise Unsupported(f"PARTITION ({key} = …): values of {t} are given by the query; leave the column out of PARTITION", feature="spark.sql")
    return said


def _stored(column: spark_types.StructField, wanted: Field | None) -> Any:
    """A column as the table takes it, where SQL gives a type of its own to what is written: decimals for numbers with a point, days for moments.

    All else stays as it is: `ls.write` casts where no value changes, and says what does not fit.
    """
    found = functions.col(quoted(column.name))
    if wanted is None:
        return found
    to, given = types.spark_type(wanted.type), column.dataType
    moments = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)
    is_fraction = isinstance(given, spark_types.DecimalType) and isinstance(to, (spark_types.DoubleType, spark_types.FloatType))
    is_moment = isinstance(given, moments) and isinstance(to, moments[1:]) and type(given) is not type(to)
    is_text = isinstance(to, spark_types.StringType) and isinstance(given, (spark_types.NumericType, spark_types.BooleanType, *moments))
    return found.cast(to).alias(column.name) if is_fraction or is_moment or is_text else found


# ---- DELETE, UPDATE, MERGE ----------------------------------------------------------------------------------------------------------------------


def delete(asked: Asked) -> DataFrame:
    """DELETE FROM, by `ls.delete`."""
    asked.words.expect("FROM")
    name = asked.name()
    table, side = asked.table(name), _side(asked, name)
    if not asked.words.accept("WHERE"):
        asked.words.end()
        return done(asked, statements.delete(asked.spark, table, "true"))
    node = expressions.parsed(asked.words.rest, "condition")
    return done(asked, statements.delete(asked.spark, table, expressions.expression(node, Scope(sides=(side,), zone=asked.zone))))


def update(asked: Asked) -> DataFrame:
    """UPDATE, by `ls.update`."""
    name = asked.name()
    table, side = asked.table(name), _side(asked, name)
    asked.words.expect("SET")
    tree = expressions.parsed(f"UPDATE t SET {asked.words.rest}", "UPDATE")
    _only(tree, "this", "expressions", "where")
    scope, where = Scope(sides=(side,), zone=asked.zone), tree.args.get("where")
    values = _assigned(tree.expressions, scope, side)
    condition = "true" if where is None else expressions.expression(where.this, scope)
    return done(asked, statements.update(asked.spark, table, values, where=condition))


def merge(asked: Asked) -> DataFrame:
    """MERGE INTO, by `ls.merge`."""
    words = asked.words
    words.expect("INTO")
    name = asked.name()
    table, target = asked.table(name), _side(asked, name)
    words.expect("USING")
    if words.is_next("("):
        source, parts = query(asked, words.inside()), ["s"]
    else:
        parts = words.names("the source of the merge")
        source = query(asked, f"SELECT * FROM {'.'.join(map(quoted, parts))}")
    alias = _alias(words)
    if alias is not None and words.is_next("("):
        source = source.toDF(*names(words))
    called = (parts[-1].lower(), ".".join(parts).lower())
    columns = {one.name: polars_schema(types.paimon_fields(spark_types.StructType([one])), timestamp_unit="us")[one.name] for one in source.schema}
    theirs = Side(called=called if alias is None else (alias.lower(),), columns=columns, prefix=SOURCE)
    words.expect("ON")
    tree = expressions.parsed(f"MERGE INTO t USING s ON {words.rest}", "MERGE")
    _only(tree, "this", "using", "on", "whens")
    scope = Scope(sides=(target, theirs), zone=asked.zone)
    found = [_clause(one, scope) for one in tree.args["whens"].expressions]
    return done(asked, merging.merge(asked.spark, table, source, *found, on=expressions.expression(tree.args["on"], scope)))


def _clause(node: Node, both: Scope) -> Clause:
    """One WHEN of a MERGE."""
    _only(node, "matched", "source", "condition", "then")
    target, theirs = both.sides
    is_matched, by_source = bool(node.args.get("matched")), bool(node.args.get("source"))
    sides = both.sides if is_matched else (target,) if by_source else (theirs,)
    scope = Scope(sides=sides, zone=both.zone)
    said = node.args.get("condition")
    where = None if said is None else expressions.expression(said, scope)
    then = node.args["then"]
    if not is_matched and not by_source:
        _only(then, "this", "expression")
        return clauses.when_not_matched(insert=_inserted(then, scope, target), where=where)
    make: Callable[..., Clause] = clauses.when_matched if is_matched else clauses.when_not_matched_by_source
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        return make(delete=True, where=where)
    if isinstance(then, exp.Update):
        _only(then, "expressions")
        is_all = len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)
        return make(update="all" if is_all else _assigned(then.expressions, scope, target), where=where)
    raise expressions.refused(then)


def _inserted(then: Node, scope: Scope, target: Side) -> Any:
    if isinstance(then.this, exp.Star):
        return "all"
    if not isinstance(then.this, exp.Tuple) or not isinstance(then.expression, exp.Tuple) or len(then.this.expressions) != len(then.expression.expressions):
        raise InvalidOption(f"{then.sql('spark')}: write INSERT *, or INSERT (columns) VALUES (as many values)", key="sql")
    pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
    return {_target(name, target): expressions.expression(value, scope) for name, value in pairs}


def _assigned(pairs: Sequence[Node], scope: Scope, target: Side) -> Mapping[str, pl.Expr]:
    """The new value of each column."""
    found: dict[str, pl.Expr] = {}
    for pair in pairs:
        if not isinstance(pair, exp.EQ) or not isinstance(pair.this, exp.Column):
            raise InvalidOption(f"{pair.sql('spark')} is no new value of a column, such as v = v + 1", key="sql")
        name = _target(pair.this, target)
        if name in found:
            raise InvalidOption(f"{name} gets two new values", key="sql", value=name)
        found[name] = expressions.expression(pair.expression, scope)
    return found


def _target(node: Node, target: Side) -> str:
    return Scope(sides=(target,)).column(node)


def _side(asked: Asked, name: str) -> Side:
    """The target of a statement, under its alias if it has one."""
    alias = _alias(asked.words)
    own = asked.table(name).handle().schema
    called = (name.lower().partition(".")[2], name.lower()) if alias is None else (alias.lower(),)
    return Side(called=called, columns=dict(polars_schema(own.fields)))


def _alias(words: Words) -> str | None:
    if words.accept("AS"):
        return words.name("an alias")
    return None if words.next is None or words.next.said.upper() in _ENDS else words.name("an alias")


def _only(node: Node, *names: str) -> None:
    """Raises `Unsupported` where a statement says more than is done."""
    more = [name for name, value in node.args.items() if value and name not in names]
    if more:
        raise Unsupported(f"{more[0].strip('_').upper()} of {node.sql('spark')} is not done by ls.sql; say it without", feature="spark.sql")
