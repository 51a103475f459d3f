"""The systems that take turns: lakekit by its public names, the rival by its two interfaces, and the limit, Polars over the same data files.

A condition is a list of [column, op, value], all of which must hold; op is one of ==, <, <=, >, >=.
"""

from __future__ import annotations

import json
import operator
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    Where = Sequence[tuple[str, str, Any]]

DATABASE = "bench"
OPS = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.timestamp("us"): "TIMESTAMP(6)",
    pa.decimal128(18, 2): "DECIMAL(18,2)",
}


def table_path(warehouse: str, table: str) -> Path:
    return Path(warehouse) / f"{DATABASE}.db" / table


def condition(where: Where) -> pl.Expr | None:
    return reduce(operator.and_, (OPS[op](pl.col(name), value) for name, op, value in where)) if where else None


class Lakekit:
    """lakekit, opened anew for every question, as a script would."""

    def __init__(self, warehouse: str) -> None:
        self.warehouse, self.lakekit = warehouse, import_module("lakekit")

    def _open(self, table: str) -> Any:
        return self.lakekit.open(str(table_path(self.warehouse, table)))

    def _lazy(self, table: str, columns: Sequence[str] | None, where: Where) -> pl.LazyFrame:
        frame, wanted = self._open(table).scan(), condition(where)
        frame = frame if wanted is None else frame.filter(wanted)
        return frame.select(columns) if columns else frame

    def read(self, table: str, columns: Sequence[str] | None = None, where: Where = ()) -> pl.DataFrame:
        return self._lazy(table, columns, where).collect()

    def count(self, table: str) -> int:
        return self._open(table).scan().select(pl.len()).collect().item()

    def plan(self, table: str, where: Where = ()) -> int:
        return self._open(table).explain(condition(where)).rows_read

    def sink(self, table: str, to: str) -> None:
        self._open(table).scan().sink_parquet(to)


class Rival:
    """pypaimon-rust by its table interface; with `sql` by its DataFusion context."""

    def __init__(self, warehouse: str, *, sql: bool = False) -> None:
        module = import_module("pypaimon_rust.datafusion")
        self.sql = sql
        self.catalog = module.PaimonCatalog({"warehouse": warehouse})
        self.context = module.SQLContext()
        self.context.register_catalog("p", {"warehouse": warehouse})
        if DATABASE not in self.catalog.list_databases():
            self.context.sql(f"CREATE SCHEMA IF NOT EXISTS p.{DATABASE}")

    def _table(self, table: str) -> Any:
        return self.catalog.get_table(f"{DATABASE}.{table}")

    def create(self, table: str, schema: pa.Schema, keys: Sequence[str], partitions: Sequence[str], options: dict[str, str]) -> None:
        lines = [f"{field.name} {SQL_TYPES[field.type]}{'' if field.nullable else ' NOT NULL'}" for field in schema]
        lines += [f"PRIMARY KEY ({', '.join(keys)})"] if keys else []
        parted = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
        said = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self.context.sql(f"CREATE TABLE p.{DATABASE}.{table} ({', '.join(lines)}){parted} WITH ({said})")

    def write(self, table: str, data: pa.Table) -> None:
        builder = self._table(table).new_batch_write_builder()
        writer = builder.new_write()
        for batch in data.combine_chunks().to_batches():
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())

    def _reading(self, table: str, columns: Sequence[str] | None, where: Where) -> Any:
        builder = self._table(table).new_read_builder()
        if columns:
            builder = builder.with_projection(list(columns))
        if where:
            names = {"==": "equal", "<": "lessThan", "<=": "lessOrEqual", ">": "greaterThan", ">=": "greaterOrEqual"}
            parts = [{"method": names[op], "field": name, "literals": [value]} for name, op, value in where]
            builder = builder.with_filter(parts[0] if len(parts) == 1 else {"method": "and", "children": parts})
        return builder

    def read(self, table: str, columns: Sequence[str] | None = None, where: Where = ()) -> list[pa.RecordBatch]:
        if not self.sql:
            builder = self._reading(table, columns, where)
            return builder.new_read().read(builder.new_scan().plan().splits())
        said = " AND ".join(f"{name} {'=' if op == '==' else op} {value!r}" for name, op, value in where)
        chosen = ", ".join(columns) if columns else "*"
        return self.context.sql(f"SELECT {chosen} FROM p.{DATABASE}.{table}{' WHERE ' + said if said else ''}")

    def count(self, table: str) -> int:
        """By SQL, or by what its plan says of an append table."""
        if self.sql:
            return self.context.sql(f"SELECT count(*) AS n FROM p.{DATABASE}.{table}")[0].column(0)[0].as_py()
        return self.plan(table)

    def plan(self, table: str, where: Where = ()) -> int:
        return sum(split.row_count() for split in self._reading(table, None, where).new_scan().plan().splits())


class Limit:
    """Polars decoding a table's own live data files: no manifest, no merge, so all versions of a key come."""

    def __init__(self, warehouse: str) -> None:
        self.warehouse = warehouse
        self.known: dict[str, list[str]] = {}

    def _files(self, table: str) -> list[str]:
        if table not in self.known:
            root = table_path(self.warehouse, table)
            listed = root / "live-files.json"  # where a compaction left dead files beside them
            found = json.loads(listed.read_text()) if listed.exists() else sorted(map(str, root.glob("**/bucket-*/data-*.parquet")))
            self.known[table] = found
        return self.known[table]

    def _lazy(self, table: str, columns: Sequence[str] | None, where: Where) -> pl.LazyFrame:
        frame, wanted = pl.scan_parquet(self._files(table), extra_columns="ignore", missing_columns="insert"), condition(where)
        frame = frame if wanted is None else frame.filter(wanted)
        return frame.select(columns) if columns else frame.select(pl.exclude("^_.*$"))

    def read(self, table: str, columns: Sequence[str] | None = None, where: Where = ()) -> pl.DataFrame:
        return self._lazy(table, columns, where).collect()

    def count(self, table: str) -> int:
        return pl.scan_parquet(self._files(table)).select(pl.len()).collect().item()

    def sink(self, table: str, to: str) -> None:
        self._lazy(table, None, ()).sink_parquet(to)


def of(name: str, warehouse: str) -> Any:
    match name:
        case "lakekit":
            return Lakekit(warehouse)
        case "rival":
            return Rival(warehouse)
        case "rival sql":
            return Rival(warehouse, sql=True)
        case "limit":
            return Limit(warehouse)
    raise ValueError(name)
