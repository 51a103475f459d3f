"""`ls.sql`: Spark's SQL over the tables of a catalog, without a connector in Java.

    ls.sql(spark, "SELECT day, sum(total) FROM shop.orders WHERE id > 7 GROUP BY day", catalog=cat).show()
    ls.sql(
        spark,
        "MERGE INTO shop.orders t USING new s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        catalog=cat,
    )
    ls.sql(spark, "CALL sys.compact(table => 'shop.orders')", catalog=cat)

`lakekit.sql` parses the statements, `lakekit.spark` changes tables. Spark computes queries and the rows of INSERT, with
its functions and its optimizer: each table of the catalog in the text becomes an `ls.read` of it. A name of one part is
a view of the session, where there is one, else a table of the session's current database. Nothing is registered in the
session.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions, types as spark_types
from sqlglot import exp

from lakekit.catalog import session as sessions
from lakekit.catalog.session import DEFAULT_DATABASE
from lakekit.catalog.sys_tables import GlobalTable
from lakekit.catalog.views import View
from lakekit.errors import InvalidOption, NotFound, SchemaMismatch, TableNotFound, Unsupported
from lakekit.expressions.parser import SqlText, parse_statement
from lakekit.format.polars_types import paimon_type
from lakekit.options.redaction import excerpt
from lakekit.spark import batch_read, batch_write, dml, found_rows, maintenance, session, types
from lakekit.sql import dispatch, session_statement
from lakekit.sql.backend import Statement, StatementResult, parse_hint, single_column
from lakekit.sql.store_assignment import store_texts
from lakekit.sql.tokenizer import TokenStream, single_statement
from lakekit.table.format_tables import FormatTable
from lakekit.types import Field, parse, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from lakekit.catalog.catalog import Catalog
    from lakekit.catalog.session import Session
    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause
    from lakekit.maintenance.result import Expired
    from lakekit.table.format_tables import ObjectTable
    from lakekit.table.table import Table
    from lakekit.types import DataType

    Node = Any
    """A node of sqlglot's tree."""


INCREMENTAL_FUNCTIONS = {
    "paimon_incremental_query": "incremental-between",
    "paimon_incremental_between_timestamp": "incremental-between-timestamp",
    "paimon_incremental_to_auto_tag": "incremental-to-auto-tag",
}
"""The connector's functions that give a table's changes, and the option that means each. Source:
`PaimonTableValuedFunctions`.
"""


def query(spark: SparkSession, statement: Statement, text: str) -> DataFrame:
    """Return the rows of a query.

    Raises: `InvalidOption` for what is no query, and what Spark raises for it.
    """
    text, hints = _prepare(single_statement(text))
    tree = statement.bind(parse_statement(text, "query", dialect="spark"))
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise InvalidOption(f"no query that lakekit understands: {excerpt(text)}", key="sql")
    rewritten = _StatementTables(spark, statement, text, hints)
    own = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Anonymous) and node.this.name.lower() in INCREMENTAL_FUNCTIONS:
            rewritten.between(node)
        elif (
            isinstance(node.this, exp.Identifier)
            and node.find_ancestor(exp.Hint) is None
            and not (node.args.get("db") is None and node.name.lower() in own)
        ):
            rewritten.replace(node)
    if hints:
        at = next(iter(hints))
        raise SqlText(text, "query").error(at, "the hint OPTIONS stands behind the name of a table of the catalog")
    for column in tree.find_all(exp.Column):
        rewritten.shorten(column)
    return rewritten.frame()


def _prepare(text: str) -> tuple[str, dict[int, str]]:
    """Return a query as Spark's parser takes it, and its hints by their offset.

    Names with a dollar, `t$files`, are quoted; hints `/*+ OPTIONS(…) */` are blank, other hints are Spark's own.
    """
    tokens = TokenStream.of(text, "spark")
    changes = [(token.start, token.end, quote_identifier(token.text)) for token in tokens.words_with_dollar()]
    changes += [
        (hint.start - 3, hint.start + len(hint.text) + 2, "")
        for hint in tokens.hints
        if hint.text.strip().upper().startswith("OPTIONS")
    ]
    pieces, hints, at, length = [], {}, 0, 0
    for start, end, name in sorted(changes):  # scalar: one a name or a hint
        pieces += [text[at:start], name or " " * (end - start)]
        length += start - at
        if not name:
            hints[length] = text[start + 3 : end - 2]
        length += len(pieces[-1])
        at = end
    return "".join([*pieces, text[at:]]), hints


def values(spark: SparkSession, statement: Statement, text: str, most: int) -> pl.Series:
    """Return the values of a query's only column.

    Raises: `Unsupported` where Spark does not know a name in it, and for more than `most` values.
    """
    try:
        df = query(spark, statement, text)
        rows = pl.DataFrame(pl.from_arrow(df.limit(most + 1).toArrow()))
    except AnalysisException as wrong:
        msg = (
            f"{text} is computed once, before any row is looked at, and Spark says: {str(wrong).splitlines()[0]} A "
            "MERGE compares row by row"
        )
        raise Unsupported(msg, feature="spark.sql") from None
    column = single_column(rows, text, most)
    return (
        column.dt.convert_time_zone("UTC")
        if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone
        else column
    )


@dataclass(slots=True)
class _StatementTables:
    """A query whose table names are replaced: `spans` of its text give way to `frames` of tables."""

    spark: SparkSession
    statement: Statement
    text: str
    hints: dict[int, str]
    """The hints that no table has taken yet, by their offset."""
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    frames: dict[str, Any] = field(default_factory=dict)
    databases: set[tuple[str, str]] = field(default_factory=set)

    def replace(self, node: Node) -> None:
        """Replace the name of a table by `ls.read` of it.

        A name that the session knows and the catalog does not stays.
        """
        own, parts = self.statement, [identifier.name for identifier in node.parts]
        if node.args.get("catalog") is not None:
            own, parts = own.in_catalog(parts[0]), parts[1:]
        spark = self.spark
        if len(parts) == 1 and spark.catalog.tableExists(quote_identifier(parts[0])):
            return
        try:
            table: Any = own.resolve_name(own.full(parts), self._hint(node))
        except NotFound:
            if spark.catalog.tableExists(".".join(map(quote_identifier, parts))):
                return
            if len(parts) > 1:
                raise
            name = self.statement.full(parts)
            raise TableNotFound(
                f"{parts[0]} is no view of the session, and {name} no table of the catalog; write database.table",
                name=name,
            ) from None
        at, end = self._version(node)
        first = node.parts[0]
        key = f"lakekit_{len(self.frames)}"
        self.frames[key] = self._rows(table, at)
        tokens = TokenStream.of(self.text, "spark")
        tokens.skip(end)
        alias = "" if node.alias or tokens.is_next("TABLESAMPLE") else f" AS {quote_identifier(parts[-1])}"
        self.spans.append((_start(first), end, f"{{{key}}}{alias}"))
        if len(parts) > 1:
            self.databases.add((parts[0].lower(), parts[1].lower()))

    def _hint(self, node: Node) -> dict[str, str] | None:
        """Take the options of the hint behind a table's name. Raises `SqlError`, `InvalidOption`."""
        end = node.this.meta["end"] + 1
        at = next((at for at in self.hints if at >= end and not self.text[end:at].strip()), None)
        return None if at is None else parse_hint(TokenStream.of(self.hints.pop(at), "spark", name="hint"))

    def between(self, node: Node) -> None:
        """Replace a function that names the changes of a table by those changes.

        Raises: `InvalidOption` for other arguments than it takes.
        """
        name, start = node.this.name.lower(), int(node.this.meta["start"])
        arguments = [argument.name for argument in node.this.expressions if isinstance(argument, exp.Literal)]
        if len(arguments) != len(node.this.expressions) or len(arguments) != (
            2 if INCREMENTAL_FUNCTIONS[name].endswith("tag") else 3
        ):
            ends = (
                "tag"
                if INCREMENTAL_FUNCTIONS[name].endswith("tag")
                else "first time', 'last time"
                if INCREMENTAL_FUNCTIONS[name].endswith("timestamp")
                else "since', 'until"
            )
            raise InvalidOption(f"{node.this.sql('spark')}: write {name}('database.table', '{ends}')", key="sql")
        if INCREMENTAL_FUNCTIONS[name].endswith("timestamp"):
            arguments[1:] = [
                argument if argument.isdecimal() else str(int(self.statement.moment(argument).timestamp() * 1000))
                for argument in arguments[1:]
            ]
        table = self.statement.table(self.statement.full(arguments[0].split(".", 1)))
        key = f"lakekit_{len(self.frames)}"
        self.frames[key] = batch_read.read(
            self.spark, table, options={INCREMENTAL_FUNCTIONS[name]: ",".join(arguments[1:])}
        )
        tokens = TokenStream.of(self.text, "spark")
        tokens.skip(start)
        self.spans.append((start, tokens.call().end, f"{{{key}}}{'' if node.alias else f' AS {name}'}"))

    def _rows(self, table: Any, at: int | str | datetime | None) -> DataFrame:
        if hasattr(table, "mapInArrow"):  # a frame of the statement, under a name of its own
            return table
        if isinstance(table, GlobalTable):
            return _read_global_table(self.spark, table)
        if isinstance(table, View):
            return query(self.spark, self.statement, table.dialects.get("spark", table.query)).toDF(
                *(field.name for field in table.fields)
            )
        return batch_read.read(self.spark, table, at=at)

    def shorten(self, column: Node) -> None:
        """Remove the database from a column's name, as the replaced table goes by its own name."""
        database, table = column.args.get("db"), column.args.get("table")
        if database is not None and (database.name.lower(), table.name.lower()) in self.databases:
            self.spans.append((_start(database), _start(table), ""))

    def _version(self, node: Node) -> tuple[int | str | datetime | None, int]:
        """Return the requested version of a table, and where its name and that end in the text."""
        end, version = node.this.meta["end"] + 1, node.args.get("version")
        if version is None:
            return None, end
        literal = version.expression
        tokens = TokenStream.of(self.text, "spark")
        tokens.skip(end)
        tokens.accept("FOR")
        tokens.name("VERSION or TIMESTAMP")
        tokens.expect("AS", "OF")
        if (
            str(version.this).upper() == "TIMESTAMP"
            and tokens.next is not None
            and (tokens.next.kind == "word" or tokens.is_next("("))
        ):
            expression = tokens.inside() if tokens.is_next("(") else tokens.call().text
            moment = values(self.spark, self.statement, f"SELECT CAST({expression} AS TIMESTAMP)", 1)[0]
            if moment is None:
                raise InvalidOption(f"TIMESTAMP AS OF {expression}: that is null, and no time", key="sql")
            return moment, tokens.end_of(0)
        word = tokens.take("a snapshot, a tag or a time, as a literal", "number", "text")
        if str(version.this).upper() == "VERSION":
            return (literal.name if literal.is_string else int(literal.name)), word.end
        return self.statement.moment(literal.name, is_text=literal.is_string), word.end

    def frame(self) -> DataFrame:
        """Return the result of the query over the replaced tables."""
        if not self.frames:
            return self.spark.sql(self.text)
        pieces, at = [], 0
        for start, end, put in sorted(self.spans):
            pieces += [_escape_braces(self.text[at:start]), put]
            at = end
        return self.spark.sql("".join([*pieces, _escape_braces(self.text[at:])]), **self.frames)


def _read_global_table(spark: SparkSession, table: GlobalTable) -> DataFrame:
    """Return a table of the catalog itself, whose rows the driver knows."""
    rows = table.scan().collect()
    fields = types.read_fields([Field(name, paimon_type(dtype, name)) for name, dtype in rows.schema.items()])
    return spark.createDataFrame(pa.Table.from_batches([types.to_batch(rows, fields)]), types.spark_schema(fields))


def _start(identifier: Node) -> int:
    return int(identifier.meta["start"])


def _escape_braces(text: str) -> str:
    """Return the text with braces escaped, which PySpark would take for a frame's placeholder."""
    return text.replace("{", "{{").replace("}", "}}")


# ---- sql ------------------------------------------------------------


_RESULT_TYPES = {
    "string": spark_types.StringType(),
    "long": spark_types.LongType(),
    "int": spark_types.IntegerType(),
    "boolean": spark_types.BooleanType(),
}


@dataclass(frozen=True, slots=True)
class SparkBackend:
    """A session that computes rows and runs tasks: a `lakekit.sql.backend.SqlBackend`."""

    spark: SparkSession
    session: Session | None = None
    """What USE and CREATE CATALOG left behind; None: nothing."""

    @property
    def tables(self) -> dict[str, Table]:
        """The tables by path of the session."""
        return {} if self.session is None else self.session.tables

    @property
    def catalogs(self) -> dict[str, Catalog]:
        """The catalogs of the session."""
        return {} if self.session is None else self.session.catalogs

    @property
    def database(self) -> str:
        """The database of USE, else the current one of Spark's session."""
        used = DEFAULT_DATABASE if self.session is None else self.session.database
        return self.spark.catalog.currentDatabase() if used == DEFAULT_DATABASE else used

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    def named(self, name: str) -> Catalog:
        """Return the catalog of a name. Raises `InvalidOption`."""
        if self.session is not None:
            return self.session.named(name)
        raise InvalidOption(f"no catalog {name[:200]!a} here", key="sql", value=name)

    def query(self, statement: Statement, text: str) -> DataFrame:
        return query(self.spark, statement, text)

    def literal_rows(self, statement: Statement) -> DataFrame | None:  # noqa: ARG002 - Spark reads them
        return None

    def explain(self, statement: Statement) -> StatementResult:
        raise _not_of_spark(statement, "EXPLAIN", "df.explain() shows Spark's plan")

    def summarize(self, statement: Statement) -> DataFrame:
        raise _not_of_spark(statement, "SUMMARIZE", "df.summary() is Spark's own")

    def copy(self, statement: Statement) -> StatementResult:
        raise _not_of_spark(statement, "COPY", "df.write writes files")

    def values(self, statement: Statement, text: str, most: int) -> pl.Series:
        return values(self.spark, statement, text, most)

    def names(self, rows: DataFrame) -> list[str]:
        return list(rows.columns)

    def fields(self, rows: DataFrame) -> tuple[Field, ...]:
        return types.paimon_fields(rows.schema)

    def renamed(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        return rows.toDF(*names)

    def stored(self, rows: DataFrame, wanted: Sequence[Field | None], constants: Mapping[Field, Any]) -> DataFrame:
        columns = [source.name if to is None else to.name for source, to in zip(rows.schema, wanted, strict=True)]
        rows = rows.toDF(*columns)
        rows = rows.select(*(_store_column(column, to) for column, to in zip(rows.schema, wanted, strict=True)))
        for key, value in constants.items():
            rows = rows.withColumn(key.name, functions.lit(value).cast(types.spark_type(key.type)))
        return rows

    def type(self, text: str) -> DataType:
        """Return the type of a text of Spark's, or else of Paimon's: BYTES, TIME(3), MULTISET<INT>, ROW<a INT>.

        Raises: `InvalidOption` for what is neither, `SchemaMismatch` for a type of Spark's that Paimon has not.
        """
        failure: InvalidOption | SchemaMismatch
        try:
            return types.paimon_type(spark_types.DataType.fromDDL(text))
        except PySparkException as wrong:
            message = f"{text} is no type that Spark or Paimon knows: {str(wrong).splitlines()[0]}"
            failure = InvalidOption(message, key="sql", value=text)
        except SchemaMismatch as wrong:
            failure = wrong
        with suppress(ValueError):
            return parse(text)
        raise failure

    def type_text(self, t: DataType) -> str:
        return types.spark_type(t).simpleString()

    def write(self, rows: DataFrame, table: Table, *, mode: str, partition: Mapping[str, Any] | None) -> Commit:
        """Write rows by Spark's tasks; those of a format table in the driver, which has them all for that."""
        if isinstance(table, FormatTable):
            frame = pl.DataFrame(pl.from_arrow(rows.toArrow()))
            frame = store_texts(frame, table.schema.fields, self.zone)
            return table.append(frame) if mode == "append" else table.overwrite(frame, partition=partition)
        if mode == "overwrite" and partition is None:
            table = table.with_options(
                {
                    batch_write.DYNAMIC_OVERWRITE_OPTION: batch_write.is_dynamic(
                        self.spark.conf.get(batch_write.OVERWRITE_MODE, None)
                    )
                }
            )
        return batch_write.insert(rows, table, mode=mode, partition=partition, zone=self.zone)

    def change_rows(self, statement: Statement) -> StatementResult | None:
        return found_rows.change_rows(self.spark, statement)

    def delete(self, table: Table, where: pl.Expr | str) -> Commit:
        return dml.delete(self.spark, table, where)

    def update(self, table: Table, values: Mapping[str, Any], *, where: pl.Expr | str) -> Commit:
        return dml.update(self.spark, table, values, where=where)

    def merge(self, table: Table, source: DataFrame, *clauses: Clause, on: pl.Expr) -> Commit:
        return dml.merge(self.spark, table, source, *clauses, on=on)

    def analyze(self, table: Table, *, columns: Sequence[str] | None) -> Commit:
        return maintenance.analyze(self.spark, table, columns=columns)

    def compact(self, table: Table, **how: Any) -> Commit:
        return maintenance.compact(self.spark, table, **how)

    def rewrite_file_index(self, table: Table, *, where: pl.Expr | None) -> Commit:
        return maintenance.rewrite_file_index(self.spark, table, where=where)

    def remove_orphans(self, table: Table, *, older_than: datetime | None, dry_run: bool) -> pl.DataFrame:
        return maintenance.remove_orphans(self.spark, table, older_than=older_than, dry_run=dry_run)

    def refresh(self, table: ObjectTable) -> Commit:
        return maintenance.refresh(self.spark, table)

    def expire_snapshots(self, table: Table, **how: Any) -> Expired:
        return maintenance.expire_snapshots(self.spark, table, **how)

    def result_frame(self, answer: StatementResult) -> DataFrame:
        """Return an answer of few rows as a DataFrame that needs no job."""
        schema = spark_types.StructType(
            [spark_types.StructField(name, _RESULT_TYPES[kind]) for name, kind in answer.kinds.items()]
        )
        if not schema.fields:
            return session.empty_frame(self.spark, schema)
        columns = list(zip(*answer.rows, strict=True)) or [()] * len(schema.fields)
        wanted = types.arrow_schema(types.paimon_fields(schema))
        arrays = [pa.array(column, field.type) for column, field in zip(columns, wanted, strict=True)]
        return self.spark.createDataFrame(pa.Table.from_arrays(arrays, names=schema.names), schema)


def _not_of_spark(statement: Statement, word: str, instead: str) -> Unsupported:
    text = excerpt(statement.tokens.statement_text)
    return Unsupported(f"{word} is done by cat.sql, not by Spark: {instead}. In: {text}", feature="spark.sql")


def _store_column(column: spark_types.StructField, wanted: Field | None) -> Any:
    """Return a column as the table takes it, where SQL gives written values a type of its own.

    These are decimals for numbers with a point, and dates for timestamps. Fields of a ROW without names of their own
    are `col1`, `col2`, … to SQL. All else stays as it is: `ls.write` casts where no value changes, and reports what
    does not fit.
    """
    column_value = functions.col(quote_identifier(column.name))
    if wanted is None:
        return column_value
    to, source = types.spark_type(wanted.type), column.dataType
    moments = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)
    is_fraction = isinstance(source, spark_types.DecimalType) and isinstance(
        to, (spark_types.DoubleType, spark_types.FloatType)
    )
    is_moment = isinstance(source, moments) and isinstance(to, moments[1:]) and type(source) is not type(to)
    is_text = isinstance(to, spark_types.StringType) and isinstance(
        source, (spark_types.NumericType, spark_types.BooleanType, *moments)
    )
    typed = to if is_fraction or is_moment or is_text or _is_unnamed(source, to) else _fill_void_types(source, to)
    return column_value if typed == source else column_value.cast(typed).alias(column.name)


def _fill_void_types(source: spark_types.DataType, to: spark_types.DataType) -> spark_types.DataType:
    """Return the type with the table's types in place of void.

    `array()` and `named_struct('a', NULL)` have parts without a type.
    """
    match source, to:
        case spark_types.ArrayType(), spark_types.ArrayType():
            return spark_types.ArrayType(_part(source.elementType, to.elementType), source.containsNull)
        case spark_types.MapType(), spark_types.MapType():
            return spark_types.MapType(
                _part(source.keyType, to.keyType), _part(source.valueType, to.valueType), source.valueContainsNull
            )
        case spark_types.StructType(), spark_types.StructType():
            types_by_name = {field.name: field.dataType for field in to}
            parts = [_part(field.dataType, types_by_name.get(field.name, field.dataType)) for field in source]
            return spark_types.StructType(
                [
                    spark_types.StructField(field.name, part, field.nullable)
                    for field, part in zip(source, parts, strict=True)
                ]
            )
    return source


def _part(source: spark_types.DataType, to: spark_types.DataType) -> spark_types.DataType:
    return to if isinstance(source, spark_types.NullType) else _fill_void_types(source, to)


def _is_unnamed(source: spark_types.DataType, to: spark_types.DataType) -> bool:
    """Return whether a ROW is one of `struct(1, 'a')`, whose fields have no names and count by order."""
    if (
        not isinstance(source, spark_types.StructType)
        or not isinstance(to, spark_types.StructType)
        or len(source) != len(to)
    ):
        return False
    return source.names == [f"col{at}" for at in range(1, len(to) + 1)]


# ---- speaking ------------------------------------------------------------


def sql(spark: SparkSession, text: str, *, catalog: Catalog) -> DataFrame:
    """Execute one statement over the tables of a catalog, named "database.table", and return its rows.

    SELECT (also `VERSION AS OF`, `TIMESTAMP AS OF`, branches and system tables as ``db.`t$files` ``, and changes as the
    connector names them, `paimon_incremental_query('db.t', 3, 7)`); INSERT INTO and OVERWRITE, which replaces its
    PARTITION, else the whole table, or what it has rows of where spark.sql.sources.partitionOverwriteMode is dynamic;
    DELETE FROM, UPDATE (of fields of a ROW too), MERGE INTO, whose conditions and values are all that Spark computes of
    a row: functions, UDFs, subqueries; CREATE, DROP and ALTER of tables and databases, CREATE TABLE … AS a query;
    TRUNCATE and ANALYZE TABLE, SHOW, DESCRIBE; CALL sys.<procedure>. A statement that changes rows returns one row,
    `snapshot_id` (null: nothing was to be done) and `row_count`, the rows that were deleted, updated and inserted;
    definitions return none. A name of one part is a view of the session where there is one, else of the
    database of USE, else of the session's current database. USE, CREATE CATALOG and SET hold in the catalog object, for
    `cat.sql` too. Hints `/*+ OPTIONS('k' = 'v') */` behind a table's name are options of that table.

    Raises: `InvalidOption` with the place in the text for what is no statement, `Unsupported` for one that is not done
    here: nothing has changed then; and what the catalog, `ls.write`, `ls.delete`, `ls.update`, `ls.merge`, the methods
    of tables and Spark raise.
    """
    session.check(spark)
    state = sessions.shared(catalog)
    backend, tokens = SparkBackend(spark, state), TokenStream.of(text, "spark")
    answer: Any = session_statement.execute(state, tokens)
    if answer is None:
        answer = dispatch.execute(
            Statement(backend=backend, catalog=state.catalog, tokens=tokens, settings=state.settings)
        )
    return backend.result_frame(answer) if isinstance(answer, StatementResult) else answer
