"""Scripts of steps for writers: what lakekit makes of one, and the rows that the oracle expects.

    {
      "columns": [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}],
      "primary_keys": ["k"], "partition_keys": [], "options": {"bucket": "2"},
      "steps": [
        {"do": "write", "rows": [{"_row_kind": "+I", "k": 1, "v": "a"}, {"_row_kind": "-D", "k": 2, "v": null}]},
        {"do": "delete", "rows": [{"k": 1}]},
        {"do": "compact", "full": true}
      ]
    }

A step is one commit: rows in the order in which they are written, by row kind (an append table takes +I alone); rows
that are no longer there afterwards, by primary key, or of an append table by values of columns; files merged.
`lakekit.testing.adapters` describes the encoding of values. What a step does not name is free: a writer may flush,
compact and number its files as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from lakekit.columns import col
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import rule as rules
from lakekit.model.row_kind import KIND_TEXTS
from lakekit.model.table_schema import TableSchema
from lakekit.table.creating import create
from lakekit.table.open_create import open as open_table
from lakekit.testing import oracle
from lakekit.testing.adapters import KIND
from lakekit.testing.expectations import Read, rows_of, series_of
from lakekit.types import Field, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptStep:
    """One commit: `rows` to write (each with its kind under `_row_kind`) or to delete, or a compaction."""

    do: Literal["write", "delete", "compact"]
    rows: tuple[Row, ...] = ()
    full: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the step as a writer gets it."""
        return {"do": self.do, "full": self.full} if self.do == "compact" else {"do": self.do, "rows": list(self.rows)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A table and the steps that make it.

    `area` and `name` describe it, `columns` are types by name.
    """

    area: str
    name: str
    columns: Mapping[str, str]
    steps: tuple[ScriptStep, ...]
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Its columns; keys are NOT NULL."""
        return tuple(Field(name, parse(text), id=number) for number, (name, text) in enumerate(self.columns.items()))

    @property
    def rule(self) -> rules.MergeSpec:
        """The merge rule of its versions."""
        count = len(self.columns)
        return rules.merge_spec_from_options(
            TableSchema(
                version=3,
                id=0,
                fields=self.fields,
                highest_field_id=count - 1,
                primary_keys=self.primary_keys,
                options=dict(self.options),
            )
        )

    def as_json(self) -> dict[str, Any]:
        """Return the script as a writer gets it."""
        return {
            "columns": [{"name": name, "type": text} for name, text in self.columns.items()],
            "primary_keys": list(self.primary_keys),
            "partition_keys": list(self.partition_keys),
            "options": dict(self.options),
            "steps": [step.as_json() for step in self.steps],
        }

    def wanted(self) -> Read:
        """Return the rows that a reader of the table must return, by the oracle."""
        rows = rows_of(self._merged() if self.primary_keys else self._appended(), [field.type for field in self.fields])
        names, types = tuple(self.columns), tuple(field.type for field in self.fields)
        return Read(
            name="latest",
            branch=None,
            system=None,
            options={},
            columns=names,
            types=types,
            rows=tuple(rows),
            error=None,
        )

    def _merged(self) -> pl.DataFrame:
        versions: list[Row] = []
        for step in self.steps:
            if step.do == "compact":
                continue
            kinds = [KIND_TEXTS.index("-D" if step.do == "delete" else row[KIND]) for row in step.rows]
            written = frame_of(self.fields, step.rows).to_arrow().to_pylist()
            numbers = range(len(versions), len(versions) + len(written))
            versions += [
                {**row, "_VALUE_KIND": kind, "_SEQUENCE_NUMBER": at}
                for row, kind, at in zip(written, kinds, numbers, strict=True)
            ]
        live = [row for row in oracle.merge(versions, self.rule) if row["_VALUE_KIND"] in oracle.ADD_KINDS]
        return pl.DataFrame(
            {name: [row[name] for row in live] for name in self.columns}, schema=polars_schema(self.fields)
        )

    def _appended(self) -> pl.DataFrame:
        present: list[Row] = []
        for step in self.steps:
            if step.do == "write":
                present += step.rows
            elif step.do == "delete":
                present = [
                    row
                    for row in present
                    if not any(all(row.get(name) == value for name, value in deleted.items()) for deleted in step.rows)
                ]
        return frame_of(self.fields, present)


def frame_of(fields: Sequence[Field], rows: Sequence[Row]) -> pl.DataFrame:
    """Return encoded rows as a frame of the columns; a missing value is null."""
    return pl.DataFrame([series_of([row.get(field.name) for row in rows], field.type, field.name) for field in fields])


def play(path: str, script: dict[str, Any]) -> None:
    """Make the table of a script (as JSON) at a path with lakekit.

    Raises: what `lk.create` and the writes raise.
    """
    fields = [Field(column["name"], parse(column["type"])) for column in script["columns"]]
    columns = {column["name"]: column["type"] for column in script["columns"]}
    table = create(
        path,
        columns,
        primary_keys=script["primary_keys"],
        partition_keys=script["partition_keys"],
        options=script["options"],
    )
    for step in script["steps"]:
        if step["do"] == "compact":
            table.compact(full=step["full"])
        elif step["do"] == "delete":
            table.delete(_any_of(fields, step["rows"]))
        elif script["primary_keys"]:
            kinds = pl.Series(KIND, [row[KIND] for row in step["rows"]], pl.String)
            table.upsert(frame_of(fields, step["rows"]).with_columns(kinds), row_kind=KIND)
        else:
            table.append(frame_of(fields, step["rows"]))


def _any_of(fields: Sequence[Field], rows: Sequence[Row]) -> pl.Expr:
    def one(row: Row) -> pl.Expr:
        named = [field for field in fields if field.name in row]
        return reduce(
            lambda a, b: a & b, (col(field.name) == series_of([row[field.name]], field.type)[0] for field in named)
        )

    return reduce(lambda a, b: a | b, map(one, rows))


def read(path: str, options: dict[str, str]) -> pl.DataFrame:
    """Return the rows of a table under dynamic options, `branch` among them."""
    options = dict(options)
    return open_table(path, branch=options.pop("branch", None)).scan(options=options or None).collect()
