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

The scripts here are for every writer, one for each known risk, each small enough to be checked by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from lakekit.columns import col
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import merge
from lakekit.model.data_file import KIND_TEXTS
from lakekit.model.table_schema import TableSchema
from lakekit.table.open_create import create, open as open_table
from lakekit.testing import oracle
from lakekit.testing.adapters import KIND_COLUMN
from lakekit.testing.expectations import Read, decode_series, encode_rows
from lakekit.types import Field, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.lsm.merge_spec import MergeSpec


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
    def rule(self) -> MergeSpec:
        """The merge rule of its versions."""
        count = len(self.columns)
        return merge.merge_spec_from_options(
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
        rows = encode_rows(
            self._merged() if self.primary_keys else self._appended(), [field.type for field in self.fields]
        )
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
            kinds = [KIND_TEXTS.index("-D" if step.do == "delete" else row[KIND_COLUMN]) for row in step.rows]
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
    return pl.DataFrame(
        [decode_series([row.get(field.name) for row in rows], field.type, field.name) for field in fields]
    )


def play_script(path: str, script: dict[str, Any]) -> None:
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
            kinds = pl.Series(KIND_COLUMN, [row[KIND_COLUMN] for row in step["rows"]], pl.String)
            table.upsert(frame_of(fields, step["rows"]).with_columns(kinds), row_kind=KIND_COLUMN)
        else:
            table.append(frame_of(fields, step["rows"]))


def _any_of(fields: Sequence[Field], rows: Sequence[Row]) -> pl.Expr:
    def one(row: Row) -> pl.Expr:
        named = [field for field in fields if field.name in row]
        return reduce(
            lambda a, b: a & b, (col(field.name) == decode_series([row[field.name]], field.type)[0] for field in named)
        )

    return reduce(lambda a, b: a | b, map(one, rows))


def read_table(path: str, options: dict[str, str]) -> pl.DataFrame:
    """Return the rows of a table under dynamic options, `branch` among them."""
    options = dict(options)
    return open_table(path, branch=options.pop("branch", None)).scan(options=options or None).collect()


# ---- known scripts ------------------------------------------------------------


_FULL_COMPACTION = ScriptStep(do="compact", full=True)
_LONG_TEXT = "longer than sixteen characters, and then "
_KEY_COLUMN = {"k": "INT NOT NULL"}
_KEY_VALUE_COLUMNS = {**_KEY_COLUMN, "v": "STRING"}
MERGE_ENGINES = ("append", "deduplicate", "partial-update", "aggregation", "first-row")

EVERY_TYPE: dict[str, tuple[str, list[Any]]] = {
    "bool": ("BOOLEAN", [True, False, None]),
    "i8": ("TINYINT", [-128, 127, None]),
    "i16": ("SMALLINT", [-32768, 32767, None]),
    "i32": ("INT", [-(2**31), 2**31 - 1, None]),
    "i64": ("BIGINT", [-(2**63), 2**63 - 1, None]),
    "f32": ("FLOAT", ["-0.0", "3.4028235E38", None]),
    "f64": ("DOUBLE", ["NaN", "-Infinity", None]),
    "dec5": ("DECIMAL(5, 2)", ["-999.99", "0.01", None]),
    "dec38": ("DECIMAL(38, 10)", ["-9999999999999999999999999999.9999999999", "1.0000000001", None]),
    "text": ("STRING", ["", f"{_LONG_TEXT}湖", None]),
    "char": ("CHAR(3)", ["abc", "xyz", None]),
    "varchar": ("VARCHAR(10)", ["é", "😀", None]),
    "bytes": ("BYTES", ["", "00ff80", None]),
    "binary": ("BINARY(2)", ["0001", "ffff", None]),
    "day": ("DATE", [-719162, 19723, None]),
    "clock": ("TIME(3)", [0, 86_399_999, None]),
    "ts3": ("TIMESTAMP(3)", [[-1, 0], [1_700_000_000_123, 0], None]),
    "ts6": ("TIMESTAMP(6)", [[0, 1_000], [1_700_000_000_123, 456_000], None]),
    "ltz": ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [[0, 0], [1_700_000_000_123, 0], None]),
    "arr": ("ARRAY<INT>", [[1, None, 3], [], None]),
    "map": ("MAP<STRING, BIGINT>", [[["a", 1], ["b", None]], [], None]),
    "row": ("ROW<x INT, y STRING>", [[1, "one"], [None, None], None]),
}
"""A column of each type: its lowest or an unusual value, another, and null."""


def write_step(*rows: Any) -> ScriptStep:
    """Return a step that writes dicts, +I where they have no kind."""
    return ScriptStep(do="write", rows=tuple({KIND_COLUMN: "+I", **row} for row in rows))


def _kv(*pairs: tuple[int, str | None], kind: str = "+I") -> list[dict[str, Any]]:
    return [{KIND_COLUMN: kind, "k": k, "v": v} for k, v in pairs]


def _delete(*rows: dict[str, Any]) -> ScriptStep:
    return ScriptStep(do="delete", rows=rows)


def _build_script(
    area: str,
    name: str,
    columns: Mapping[str, str],
    *steps: ScriptStep,
    keys: str = "",
    partitions: str = "",
    **options: str,
) -> Script:
    """Return a script; names of options are written with _ for - and __ for a dot."""
    table_options = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    if area != "append":
        table_options = {"bucket": "1", **table_options} | ({} if area == "deduplicate" else {"merge-engine": area})
    return Script(
        area=area,
        name=name,
        columns=columns,
        steps=steps,
        primary_keys=tuple(keys.split()),
        partition_keys=tuple(partitions.split()),
        options=table_options,
    )


def scripts() -> list[Script]:
    """Return every script, by area."""
    return [*_append(), *_deduplicate(), *_sequences(), *_folds()]


def _types(*, keyed: bool) -> tuple[dict[str, str], list[dict[str, Any]]]:
    columns = ({"k": "INT NOT NULL"} if keyed else {"k": "INT"}) | {
        name: text for name, (text, _) in EVERY_TYPE.items()
    }
    return columns, [{"k": at, **{name: values[at] for name, (_, values) in EVERY_TYPE.items()}} for at in range(3)]


def _append() -> Iterable[Script]:
    columns, rows = _types(keyed=False)
    parts = {"k": "INT", "p": "STRING"}
    for form in ("parquet", "orc", "avro"):
        yield _build_script(
            "append", f"every type, {form}", columns, write_step(*rows), write_step(rows[2], rows[0]), file__format=form
        )
    yield _build_script(
        "append",
        "the same row twice",
        {"k": "INT", "v": "STRING"},
        write_step(*_kv((1, "a"), (1, "a"))),
        write_step(*_kv((1, "a"))),
    )
    yield _build_script(
        "append",
        "nulls alone",
        {"k": "INT", "v": "STRING"},
        write_step({"k": None, "v": None}),
        write_step({"k": None, "v": None}),
    )
    special = ["plain", "a/b=c%", "with blank", "湖", None]
    yield _build_script(
        "append", "partitions", parts, write_step(*({"k": n, "p": p} for n, p in enumerate(special))), partitions="p"
    )
    texts = [{"k": n, "v": f"{_LONG_TEXT}{n}"} for n in range(40)]
    yield _build_script(
        "append", "buckets of a text", {"k": "INT", "v": "STRING"}, write_step(*texts), bucket="4", bucket_key="v"
    )
    yield _build_script(
        "append",
        "buckets of numbers",
        {"k": "INT", "v": "STRING"},
        write_step(*texts),
        write_step(*texts[:9]),
        bucket="3",
        bucket_key="k",
    )
    many = [write_step(*texts[at : at + 5]) for at in range(0, 30, 5)]
    yield _build_script("append", "compacted", {"k": "INT", "v": "STRING"}, *many, _FULL_COMPACTION)
    yield _build_script(
        "append", "deleted", {"k": "INT", "v": "STRING"}, write_step(*texts), _delete({"k": 3}, {"k": 7})
    )
    yield _build_script(
        "append",
        "deleted, with vectors",
        {"k": "INT", "v": "STRING"},
        write_step(*texts),
        _delete({"k": 3}),
        deletion_vectors__enabled="true",
    )


def _deduplicate() -> Iterable[Script]:
    columns, rows = _types(keyed=True)
    first = write_step(*_kv((1, "a"), (2, "b"), (3, None)))
    second = write_step(*_kv((2, "bb"), (3, "c")), *_kv((1, None), kind="-D"))
    for form in ("parquet", "orc", "avro"):
        yield _build_script(
            "deduplicate",
            f"every type, {form}",
            columns,
            write_step(*rows),
            write_step(rows[0]),
            _FULL_COMPACTION,
            keys="k",
            file__format=form,
        )
    yield _build_script(
        "deduplicate", "written again", _KEY_VALUE_COLUMNS, first, write_step(*_kv((2, "bb"), (4, "d"))), keys="k"
    )
    yield _build_script("deduplicate", "deleted", _KEY_VALUE_COLUMNS, first, second, keys="k")
    yield _build_script(
        "deduplicate", "deleted by key", _KEY_VALUE_COLUMNS, first, _delete({"k": 2}, {"k": 9}), keys="k"
    )
    yield _build_script(
        "deduplicate", "deleted and back", _KEY_VALUE_COLUMNS, first, second, write_step(*_kv((1, "back"))), keys="k"
    )
    yield _build_script(
        "deduplicate", "deleted, compacted", _KEY_VALUE_COLUMNS, first, second, _FULL_COMPACTION, keys="k"
    )
    changes = [*_kv((1, "a"), kind="-U"), *_kv((1, "aa"), kind="+U"), *_kv((2, "b"), kind="-U")]
    yield _build_script("deduplicate", "updates", _KEY_VALUE_COLUMNS, first, write_step(*changes), keys="k")
    yield _build_script(
        "deduplicate", "null over a value", _KEY_VALUE_COLUMNS, first, write_step(*_kv((1, None))), keys="k"
    )
    yield _build_script(
        "deduplicate",
        "twice in one commit",
        _KEY_VALUE_COLUMNS,
        write_step(*_kv((1, "a"), (1, "b"), (2, "x"))),
        write_step(*_kv((1, "c"), (1, "d"))),
        keys="k",
    )
    yield from _deduplicate_runs()
    yield _build_script(
        "deduplicate",
        "vectors",
        _KEY_VALUE_COLUMNS,
        first,
        second,
        _FULL_COMPACTION,
        keys="k",
        deletion_vectors__enabled="true",
    )
    yield from _deduplicate_buckets()


def _deduplicate_runs() -> Iterable[Script]:
    runs = [write_step(*_kv((n, f"{n}"), (n + 1, f"{n}"), (9 - n, f"{n}"))) for n in range(7)]
    yield _build_script("deduplicate", "many runs", _KEY_VALUE_COLUMNS, *runs, keys="k")
    yield _build_script(
        "deduplicate",
        "many runs, compacted",
        _KEY_VALUE_COLUMNS,
        *runs,
        ScriptStep(do="compact"),
        _FULL_COMPACTION,
        keys="k",
    )


def _deduplicate_buckets() -> Iterable[Script]:
    text = {"k": "STRING NOT NULL", "v": "INT"}
    rows_of_texts = [{"k": f"{_LONG_TEXT}{n}", "v": n} for n in range(40)]
    deletes = write_step({KIND_COLUMN: "-D", **rows_of_texts[0]}, rows_of_texts[1] | {"v": -1})
    yield _build_script(
        "deduplicate", "buckets of texts", text, write_step(*rows_of_texts), deletes, keys="k", bucket="4"
    )
    yield _build_script(
        "deduplicate",
        "buckets of numbers",
        _KEY_VALUE_COLUMNS,
        write_step(*_kv(*((n, "a") for n in range(40)))),
        write_step(*_kv((7, "b"))),
        keys="k",
        bucket="4",
    )
    two = {"a": "DECIMAL(20, 3) NOT NULL", "d": "DATE NOT NULL", "v": "INT"}
    pairs = [{"a": f"{n}.500", "d": 19_000 + n % 3, "v": n} for n in range(12)]
    yield _build_script(
        "deduplicate",
        "keys of two columns",
        two,
        write_step(*pairs),
        write_step(pairs[3] | {"v": -3}),
        keys="a d",
        bucket="2",
    )
    parts = {"p": "STRING NOT NULL", **_KEY_VALUE_COLUMNS}
    sample = [{"p": p, "k": k, "v": p} for p in ("x", "y") for k in (1, 2)]
    yield _build_script(
        "deduplicate",
        "partitions",
        parts,
        write_step(*sample),
        write_step({KIND_COLUMN: "-D", **sample[0]}),
        keys="p k",
        partitions="p",
    )


def _sequences() -> Iterable[Script]:
    columns = {**_KEY_COLUMN, "s": "BIGINT", "v": "STRING"}

    def rows(*found: tuple[int, int | None, str]) -> ScriptStep:
        return write_step(*({"k": k, "s": s, "v": v} for k, s, v in found))

    steps = (
        rows((1, 5, "new"), (2, 5, "old")),
        rows((1, 4, "late"), (2, 6, "newer")),
        rows((3, None, "none"), (3, 1, "one"), (2, 6, "same")),
    )
    for area in ("deduplicate", "partial-update"):
        yield _build_script(area, "late rows", columns, *steps, keys="k", sequence__field="s")
        yield _build_script(
            area, "late rows, compacted", columns, *steps, _FULL_COMPACTION, keys="k", sequence__field="s"
        )
    yield _build_script(
        "deduplicate",
        "late rows, descending",
        columns,
        *steps,
        keys="k",
        sequence__field="s",
        sequence__field__sort_order="descending",
    )


def _folds() -> Iterable[Script]:
    columns = {**_KEY_COLUMN, "a": "INT", "b": "STRING", "c": "BIGINT"}

    def rows(*found: tuple[int, int | None, str | None, int | None]) -> ScriptStep:
        return write_step(*({"k": k, "a": a, "b": b, "c": c} for k, a, b, c in found))

    steps = (
        rows((1, 1, "a", None), (2, None, None, 7)),
        rows((1, None, "b", 5), (2, 2, None, None)),
        rows((1, 3, None, None), (3, None, None, None)),
    )
    yield _build_script("partial-update", "parts", columns, *steps, keys="k")
    yield _build_script("partial-update", "parts, compacted", columns, *steps, _FULL_COMPACTION, keys="k")
    group = {"fields__c__sequence_group": "a"}
    yield _build_script(
        "partial-update",
        "a group with its sequence",
        columns,
        *steps,
        rows((1, 9, "z", 4), (2, 8, "y", 9)),
        keys="k",
        **group,
    )
    folded = {
        "fields__a__aggregate_function": "sum",
        "fields__b__aggregate_function": "max",
        "fields__c__aggregate_function": "last_non_null_value",
    }
    yield _build_script("aggregation", "sum, max, last value", columns, *steps, keys="k", **folded)
    yield _build_script(
        "aggregation",
        "sum, max, last value, compacted",
        columns,
        *steps,
        _FULL_COMPACTION,
        rows((1, 1, "zz", 1)),
        keys="k",
        **folded,
    )
    listed = {
        "fields__a__aggregate_function": "min",
        "fields__b__aggregate_function": "listagg",
        "fields__c__aggregate_function": "first_non_null_value",
    }
    yield _build_script("aggregation", "min, listagg, first value", columns, *steps, keys="k", **listed)
    yield _build_script("first-row", "the first stays", columns, *steps, _FULL_COMPACTION, keys="k")
