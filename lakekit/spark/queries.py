"""Run queries of `ls.sql`: each table of the catalog in the text becomes an `ls.read` of it.

Spark computes the rest of the query as it stands. A name of one part is a view of the session, where there is one, else
a table of the session's current database.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.errors import AnalysisException

from lakekit.catalog.sys_tables import GlobalTable
from lakekit.catalog.views import View
from lakekit.errors import InvalidOption, NotFound, TableNotFound, Unsupported
from lakekit.format.polars_types import paimon_type
from lakekit.spark import batch_read, types
from lakekit.sql import expressions
from lakekit.sql.backend import single_column
from lakekit.sql.excerpt import excerpt
from lakekit.sql.expressions import exp
from lakekit.sql.tokenizer import TokenStream, quote_identifier, single_statement
from lakekit.types import Field

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from lakekit.sql.backend import Statement

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
    text = single_statement(text)
    tree = expressions.parse_tree(text, "query", reads_texts=False)
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise InvalidOption(f"no query that lakekit understands: {excerpt(text)}", key="sql")
    rewritten = _Named(spark, statement, text)
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
    for column in tree.find_all(exp.Column):
        rewritten.shorten(column)
    return rewritten.frame()


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
class _Named:
    """A query whose table names are replaced: `spans` of its text give way to `frames` of tables."""

    spark: SparkSession
    asked: Statement
    text: str
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    frames: dict[str, Any] = field(default_factory=dict)
    databases: set[tuple[str, str]] = field(default_factory=set)

    def replace(self, node: Node) -> None:
        """Replace the name of a table by `ls.read` of it.

        A name that the session knows and the catalog does not stays.
        """
        if node.args.get("catalog") is not None:
            raise InvalidOption(
                f"{node.sql('spark')} has three parts; a table of the catalog given is called database.table", key="sql"
            )
        parts = [identifier.name for identifier in (node.args.get("db"), node.this) if identifier is not None]
        spark = self.spark
        if len(parts) == 1 and spark.catalog.tableExists(quote_identifier(parts[0])):
            return
        try:
            table: Any = self.asked.found(self.asked.full(parts))  # one of the catalog's own among them
        except NotFound:
            if spark.catalog.tableExists(".".join(map(quote_identifier, parts))):
                return
            if len(parts) > 1:
                raise
            name = self.asked.full(parts)
            raise TableNotFound(
                f"{parts[0]} is no view of the session, and {name} no table of the catalog; write database.table",
                name=name,
            ) from None
        at, end = self._version(node)
        first = node.args.get("db") or node.this
        key = f"lakekit_{len(self.frames)}"
        self.frames[key] = self._rows(table, at)
        tokens = TokenStream.of(self.text)
        tokens.skip(end)
        alias = "" if node.alias or tokens.is_next("TABLESAMPLE") else f" AS {quote_identifier(parts[-1])}"
        self.spans.append((_start(first), end, f"{{{key}}}{alias}"))
        if len(parts) > 1:
            self.databases.add((parts[0].lower(), parts[1].lower()))

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
                argument if argument.isdecimal() else str(int(self.asked.moment(argument).timestamp() * 1000))
                for argument in arguments[1:]
            ]
        table = self.asked.table(self.asked.full(arguments[0].split(".", 1)))
        key = f"lakekit_{len(self.frames)}"
        self.frames[key] = batch_read.read(
            self.spark, table, options={INCREMENTAL_FUNCTIONS[name]: ",".join(arguments[1:])}
        )
        tokens = TokenStream.of(self.text)
        tokens.skip(start)
        self.spans.append((start, tokens.call().end, f"{{{key}}}{'' if node.alias else f' AS {name}'}"))

    def _rows(self, table: Any, at: int | str | datetime | None) -> DataFrame:
        if isinstance(table, GlobalTable):
            return _read_global_table(self.spark, table)
        if isinstance(table, View):
            return query(self.spark, self.asked, table.dialects.get("spark", table.query)).toDF(
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
        tokens = TokenStream.of(self.text)
        tokens.skip(end)
        tokens.accept("FOR")
        tokens.name("VERSION or TIMESTAMP")
        tokens.expect("AS", "OF")
        if (
            str(version.this).upper() == "TIMESTAMP"
            and tokens.next is not None
            and (tokens.next.kind == "word" or tokens.is_next("("))
        ):
            expression = tokens.inside() if tokens.is_next("(") else tokens.call().said
            moment = values(self.spark, self.asked, f"SELECT CAST({expression} AS TIMESTAMP)", 1)[0]
            if moment is None:
                raise InvalidOption(f"TIMESTAMP AS OF {expression}: that is null, and no time", key="sql")
            return moment, tokens.end_of(0)
        word = tokens.take("a snapshot, a tag or a time, as a literal", "number", "text")
        if str(version.this).upper() == "VERSION":
            return (literal.name if literal.is_string else int(literal.name)), word.end
        return self.asked.moment(literal.name, is_text=literal.is_string), word.end

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
