"""Hypothesis strategies of merges and of scripts: tables of any engine, full of edge cases.

    @given(merges())
    def test_engines(case: Merging): assert merge(case.frame(), case.rule) … oracle.merge(case.rows(), case.rule)

    wrong = shrunk("deduplicate", count=50, seed=7, differs=lambda script: …)      None, or the smallest script that
                                                                                   differs, and how

A failing script shrinks to few steps. Histories are those that mean the same whatever a writer compacts when:
retractions only where a row stands for a key by itself, and folds of values that give the same result in any grouping.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import HealthCheck, Phase, given, seed as seeded, settings, strategies as st

from lakekit.columns import LEVEL
from lakekit.format.polars_types import polars_schema, polars_type
from lakekit.lsm import merge
from lakekit.model.table_schema import TableSchema
from lakekit.testing.adapters import KIND_COLUMN
from lakekit.testing.expectations import encode_rows
from lakekit.testing.scripts import MERGE_ENGINES, Script, ScriptStep
from lakekit.types import Field, parse, part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.types import DataType


SYSTEM_SCHEMA = {"_SEQUENCE_NUMBER": pl.Int64(), "_VALUE_KIND": pl.Int8(), LEVEL: pl.Int32()}


@dataclass(frozen=True, kw_only=True)
class MergeCase:
    """A table and rows of it, in the order in which its files are read.

    `versions`: kind, sequence number, level, values.
    """

    fields: tuple[Field, ...]
    key: tuple[str, ...]
    options: Mapping[str, str]
    versions: tuple[tuple[int, int, int, tuple[Any, ...]], ...]

    @property
    def schema(self) -> TableSchema:
        """The table's schema."""
        fields = tuple(Field(field.name, field.type, id=number) for number, field in enumerate(self.fields))
        return TableSchema(
            version=3,
            id=0,
            fields=fields,
            highest_field_id=len(fields) - 1,
            primary_keys=self.key,
            options=dict(self.options),
        )

    @property
    def rule(self) -> MergeSpec:
        """The merge rule of its versions."""
        return merge.merge_spec_from_options(self.schema)

    def frame(self, order: Sequence[int] | None = None) -> pl.DataFrame:
        """Return the rows as a section, or some of them in that order."""
        selected = self.versions if order is None else [self.versions[at] for at in order]
        columns = {
            **{field.name: [row[3][number] for row in selected] for number, field in enumerate(self.fields)},
            **{
                name: [row[at] for row in selected]
                for name, at in (("_SEQUENCE_NUMBER", 1), ("_VALUE_KIND", 0), (LEVEL, 2))
            },
        }
        return pl.DataFrame(columns, schema={**polars_schema(self.fields), **SYSTEM_SCHEMA})

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as the oracle takes them."""
        return to_dicts(self.frame())


def to_dicts(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a frame as dictionaries, by way of Arrow.

    Polars' own way rounds decimals that are longer than their column.
    """
    return [dict(row) for row in frame.to_arrow().to_pylist()]


def canonical_rows(rows: list[dict[str, Any]], spec: MergeSpec) -> list[str]:
    """Return rows as texts that are equal where rows are.

    Their order does not count, nor that of collections which the reference keeps in hash tables.
    """
    hashed = ("merge_map", "merge_map_with_keytime", "nested_partial_update")
    loose = {
        name
        for name, function in spec.functions.items()
        if function.name in hashed or function.nested_key or (function.name == "collect" and function.distinct)
    }
    return sorted(
        repr(
            sorted(
                (name, sorted(map(repr, value)) if name in loose and value is not None else value)
                for name, value in row.items()
            )
        )
        for row in rows
    )


# ---- values ----------------------------------------------------------------------------------------------------------

_EXACT_CONTEXT = Context(prec=60)
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_SAMPLE_TEXTS = ("", "a", "b", "a,b", "b,c", ",a", "a,,b", "é", "\U0001f600", "\uffee", "a;b")


def type_values(t: DataType) -> st.SearchStrategy[Any]:
    """Draw values of a type, edges first; nulls only if the type takes them."""
    non_null = _values(t)
    return st.one_of(st.none(), non_null, non_null) if t.nullable else non_null


def _values(t: DataType) -> st.SearchStrategy[Any]:
    if t.root in _INTEGER_BITS:
        top = 2 ** (_INTEGER_BITS[t.root] - 1)
        return st.one_of(st.integers(-3, 5), st.sampled_from((top - 1, -top)))
    match t.root:
        case "BOOLEAN":
            return st.booleans()
        case "FLOAT" | "DOUBLE":
            return st.sampled_from((0.0, -0.0, 1.0, -1.5, 0.25, 3.0, 1e10, float("nan"), float("inf"), float("-inf")))
        case "DECIMAL":
            top, scale = 10 ** (t.precision or 10) - 1, t.scale or 0
            numbers = st.one_of(st.integers(-400, 400), st.sampled_from((top, -top, top // 2 + 1)))
            return numbers.map(lambda n: _EXACT_CONTEXT.scaleb(Decimal(max(-top, min(top, n))), -scale))
        case "CHAR" | "VARCHAR":
            return st.sampled_from(_SAMPLE_TEXTS)
        case "BINARY" | "VARBINARY":
            return st.sampled_from((b"", b"a", b"\x80", b"b"))
        case "DATE":
            return st.integers(-2, 3).map(lambda day: date.fromordinal(date(1970, 1, 1).toordinal() + day))
        case "TIMESTAMP":
            return st.integers(0, 4).map(lambda micro: datetime(2024, 1, 1, microsecond=micro))  # noqa: DTZ001 - a wall clock
    return _nested_values(t)


def _nested_values(t: DataType) -> st.SearchStrategy[Any]:
    if t.root == "ARRAY":
        return st.lists(type_values(part(t.element)), max_size=3)
    if t.root == "MAP":
        entry = st.fixed_dictionaries({"key": _values(part(t.key)), "value": type_values(part(t.value))})
        return st.lists(entry, max_size=3, unique_by=lambda item: item["key"])
    return st.fixed_dictionaries({item.name: type_values(item.type) for item in t.fields})


# ---- tables ----------------------------------------------------------------------------------------------------------

NUMERIC_TYPES = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5, 2)",
    "DECIMAL(18, 3)",
    "DECIMAL(20, 2)",
    "DECIMAL(38, 4)",
)
COMPARABLE_TYPES = (*NUMERIC_TYPES, "STRING", "BYTES", "DATE", "TIMESTAMP(6)")
VALUE_TYPES = (*COMPARABLE_TYPES, "BOOLEAN", "ARRAY<INT>", "ROW<x INT, y STRING>")
SEQUENCE_TYPES = ("INT", "BIGINT", "DATE", "TIMESTAMP(6)", "DOUBLE", "DECIMAL(20, 2)")
_ROWS_TYPE = "ARRAY<ROW<i INT, s STRING, v DOUBLE>>"
TYPES_OF: dict[str, tuple[str, ...]] = {
    "sum": NUMERIC_TYPES,
    "product": NUMERIC_TYPES,
    "max": COMPARABLE_TYPES,
    "min": COMPARABLE_TYPES,
    "last_value": VALUE_TYPES,
    "last_non_null_value": VALUE_TYPES,
    "first_value": VALUE_TYPES,
    "first_non_null_value": VALUE_TYPES,
    "first_not_null_value": ("INT",),
    "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",),
    "listagg": ("STRING",),
    "collect": ("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<DOUBLE>", "ARRAY<ROW<x INT, y STRING>>", "ARRAY<BYTES>"),
    "merge_map": ("MAP<INT, STRING>", "MAP<STRING, ARRAY<INT>>"),
    "merge_map_with_keytime": ("MAP<INT, ROW<a INT, b STRING>>",),
    "nested_update": (_ROWS_TYPE,),
    "nested_partial_update": (_ROWS_TYPE,),
}
FUNCTION_NAMES = tuple(TYPES_OF)
DRAWN_ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
KEY_TYPES = (("INT",), ("STRING",), ("BIGINT", "STRING"), ("DATE", "SMALLINT"), ("DECIMAL(20, 2)",), ("BYTES",))


def field_of(name: str, text: str) -> Field:
    """Return a column from the text of its type."""
    return Field(name, parse(text))


def sequence_values(t: DataType) -> st.SearchStrategy[Any]:
    """Draw values of sequence fields: NaN has no place in an order."""
    return type_values(t).filter(lambda one: one == one)  # noqa: PLR0124 - what NaN is not


@st.composite
def aggregate_columns(
    draw: st.DrawFn, name: str, options: dict[str, str], *, column: str, ignores_retract: bool = True
) -> Field:
    """Draw a column that uses an aggregate function, and set its options."""
    options[f"fields.{column}.aggregate-function"] = name
    if ignores_retract and draw(st.integers(0, 4)) == 0:
        options[f"fields.{column}.ignore-retract"] = "true"
    if name in ("listagg", "collect") and draw(st.booleans()):
        options[f"fields.{column}.distinct"] = "true"
    if name == "listagg" and draw(st.booleans()):
        options[f"fields.{column}.list-agg-delimiter"] = draw(st.sampled_from((";", ",,")))
    if name == "nested_partial_update" or (name == "nested_update" and draw(st.booleans())):
        options[f"fields.{column}.nested-key"] = draw(st.sampled_from(("i", "i,s")))
    if name == "nested_update" and draw(st.integers(0, 3)) == 0:
        options[f"fields.{column}.count-limit"] = draw(st.sampled_from(("1", "3")))
    return field_of(column, draw(st.sampled_from(TYPES_OF[name])))


@st.composite
def merges(draw: st.DrawFn, engine: str | None = None, retractions: bool | None = None) -> MergeCase:
    """Draw a table of some engine and 1 to 24 rows of at most four keys.

    `retractions`: whether rows of kind -U and -D are among them.
    """
    merge_engine = engine or draw(st.sampled_from(DRAWN_ENGINES))
    takes = draw(st.booleans()) if retractions is None else retractions
    options = {"merge-engine": merge_engine}
    key_types = draw(st.sampled_from(KEY_TYPES))
    keys = [field_of(f"k{number}", f"{text} NOT NULL") for number, text in enumerate(key_types)]
    columns = draw(
        {"partial-update": _partial_update, "aggregation": _aggregation}.get(merge_engine, _value_fields)(options)
    )
    if merge_engine != "first-row" and draw(st.integers(0, 3)) == 0:
        columns.append(field_of("u", draw(st.sampled_from(SEQUENCE_TYPES))))
        options["sequence.field"] = "u"
        options["sequence.field.sort-order"] = draw(st.sampled_from(("ascending", "descending")))
    if merge_engine != "first-row" and draw(st.integers(0, 3)) == 0:
        options["changelog-producer"] = "lookup"
    fields = (*keys, *columns)
    return MergeCase(
        fields=fields,
        key=tuple(key_field.name for key_field in keys),
        options=options,
        versions=draw(_versions(fields, len(keys), takes)),
    )


@st.composite
def _versions(draw: st.DrawFn, fields: tuple[Field, ...], keys: int, takes_retractions: bool) -> tuple[Any, ...]:
    keys_drawn = draw(
        st.lists(st.tuples(*(_values(field.type) for field in fields[:keys])), min_size=1, max_size=4, unique=True)
    )
    kinds = st.sampled_from((0, 0, 0, 2, 1, 3)) if takes_retractions else st.sampled_from((0, 2))
    count = draw(st.integers(1, 24))
    numbers = draw(st.permutations(range(count))) if draw(st.booleans()) else list(range(count))
    versions, seen = [], set()
    for number in numbers:
        which = draw(st.integers(0, len(keys_drawn) - 1))
        level = draw(st.sampled_from((0, 0, 1, 3, 5)))
        if level and (which, level) in seen:
            level = 0
        seen.add((which, level))
        other_values = [
            draw(sequence_values(field.type) if field.name[0] in "su" else type_values(field.type))
            for field in fields[keys:]
        ]
        versions.append((draw(kinds), number, level, (*keys_drawn[which], *other_values)))
    return tuple(versions)


@st.composite
def _value_fields(draw: st.DrawFn, options: dict[str, str]) -> list[Field]:
    if draw(st.booleans()):
        options["ignore-delete"] = "true"
    return [field_of("a", draw(st.sampled_from(VALUE_TYPES)))]


@st.composite
def _aggregation(draw: st.DrawFn, options: dict[str, str]) -> list[Field]:
    removes = draw(st.booleans())
    if removes:
        options["aggregation.remove-record-on-delete"] = "true"
    if draw(st.booleans()):
        options["fields.default-aggregate-function"] = "last_value"
    names = draw(st.lists(st.sampled_from(FUNCTION_NAMES), min_size=1, max_size=3))
    columns = [
        draw(aggregate_columns(name, options, column=f"f{number}", ignores_retract=not removes))
        for number, name in enumerate(names)
    ]
    return [*columns, field_of("d", "INT")]


@st.composite
def _partial_update(draw: st.DrawFn, options: dict[str, str]) -> list[Field]:
    if draw(st.booleans()):
        option = draw(st.sampled_from((None, "ignore-delete", "partial-update.remove-record-on-delete")))
        if option:
            options[option] = "true"
        if draw(st.booleans()):
            options["fields.default-aggregate-function"] = "last_non_null_value"
        return [field_of("a", draw(st.sampled_from(VALUE_TYPES))), field_of("b", "INT"), field_of("c", "STRING")]
    return draw(_groups(options))


@st.composite
def _groups(draw: st.DrawFn, options: dict[str, str]) -> list[Field]:
    drawn = [field_of("free", "INT")]
    sequences = []
    for number in range(draw(st.integers(1, 2))):
        columns = [
            field_of(f"s{number}{letter}", draw(st.sampled_from(SEQUENCE_TYPES)))
            for letter in "xy"[: draw(st.integers(1, 2))]
        ]
        names = draw(st.lists(st.sampled_from(("", *FUNCTION_NAMES)), min_size=1, max_size=3))
        protected = [
            draw(aggregate_columns(name, options, column=f"p{number}{at}"))
            if name
            else field_of(f"p{number}{at}", draw(st.sampled_from(VALUE_TYPES)))
            for at, name in enumerate(names)
        ]
        options[f"fields.{','.join(column.name for column in columns)}.sequence-group"] = ",".join(
            column.name for column in protected
        )
        sequences += [column.name for column in columns]
        drawn += [*columns, *protected]
    extra = draw(st.sampled_from(("", "ignore", "remove")))
    if extra == "ignore":
        options["ignore-delete"] = "true"
    if extra == "remove":
        options["partial-update.remove-record-on-sequence-group"] = draw(st.sampled_from(sequences))
    return draw(st.permutations(drawn))


# ---- drawn ------------------------------------------------------------


_VALUE_TYPES = (*COMPARABLE_TYPES, "BOOLEAN", "ARRAY<INT>", "MAP<INT, STRING>", "ROW<x INT, y STRING>")
_INTEGER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TYPES_OF_FOLD: dict[str, tuple[str, ...]] = {
    "sum": _INTEGER_TYPES,
    "product": _INTEGER_TYPES,
    "max": COMPARABLE_TYPES,
    "min": COMPARABLE_TYPES,
    "last_value": _VALUE_TYPES,
    "last_non_null_value": _VALUE_TYPES,
    "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",),
    "listagg": ("STRING",),
}
"""Functions whose result does not depend on how their values are grouped, and the types they take."""
_ONE_IN_THREE = st.sampled_from((False, False, True))
"""Draws features that a shrunk case leaves out."""


def encode_values(t: DataType, drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw values in the encoding of scripts."""
    return drawn.map(lambda value: _encode_value(t, value))


def _encode_value(t: DataType, value: Any) -> Any:
    [(_, (encoded,))] = encode_rows(pl.DataFrame({"c": [value]}, schema={"c": polars_type(t)}), [t])
    return encoded


@st.composite
def scripts(draw: st.DrawFn, engine: str | None = None) -> Script:
    """Draw a table and one to six steps."""
    area = engine or draw(st.sampled_from(MERGE_ENGINES))
    options = {"file.format": draw(st.sampled_from(("parquet", "parquet", "orc", "avro")))}
    keyed = area != "append"
    keys = (
        [field_of(f"k{at}", f"{text} NOT NULL") for at, text in enumerate(draw(st.sampled_from(KEY_TYPES)))]
        if keyed
        else []
    )
    options["bucket"] = draw(st.sampled_from(("1", "2", "3"))) if keyed else "-1"
    if keyed and area != "deduplicate":
        options["merge-engine"] = area
    columns = draw(_columns(area, options))
    part = [field_of("p", "INT NOT NULL")] if draw(_ONE_IN_THREE) else []
    fields = [*part, *keys, *columns]
    primary = tuple(field.name for field in (*part, *keys)) if keyed else ()
    steps = draw(_steps(area, fields, primary, options))
    return Script(
        area=area,
        name="drawn",
        columns={field.name: str(field.type) for field in fields},
        steps=tuple(steps),
        primary_keys=primary,
        partition_keys=tuple(field.name for field in part),
        options=options,
    )


@st.composite
def _columns(draw: st.DrawFn, area: str, options: dict[str, str]) -> list[Field]:
    if area == "aggregation":
        columns = []
        for at, name in enumerate(draw(st.lists(st.sampled_from(tuple(_TYPES_OF_FOLD)), min_size=1, max_size=3))):
            columns.append(field_of(f"f{at}", draw(st.sampled_from(_TYPES_OF_FOLD[name]))))
            options[f"fields.f{at}.aggregate-function"] = name
    else:
        columns = [
            field_of(f"c{at}", text)
            for at, text in enumerate(draw(st.lists(st.sampled_from(_VALUE_TYPES), min_size=1, max_size=3)))
        ]
    # folds of late rows depend on what a flush has put together before
    if area == "deduplicate" and draw(_ONE_IN_THREE):
        columns.append(field_of("u", draw(st.sampled_from(SEQUENCE_TYPES))))
        options["sequence.field"] = "u"
    if area == "deduplicate" and draw(_ONE_IN_THREE):
        options["deletion-vectors.enabled"] = "true"
    return columns


@st.composite
def _steps(
    draw: st.DrawFn, area: str, fields: list[Field], primary: tuple[str, ...], options: dict[str, str]
) -> list[ScriptStep]:
    identity = [field for field in fields if field.name in primary]
    key_values = st.fixed_dictionaries(
        {field.name: encode_values(field.type, type_values(field.type)) for field in identity}
    )
    drawn_keys = draw(st.lists(key_values, min_size=1, max_size=4))
    kinds = ("+I", "+I", "+U", "-U", "-D") if area == "deduplicate" else ("+I",)
    other_values = {
        field.name: encode_values(
            field.type, sequence_values(field.type) if field.name == "u" else type_values(field.type)
        )
        for field in fields
        if field.name not in primary
    }
    row = st.builds(
        lambda key, other, kind: {KIND_COLUMN: kind, **key, **other},
        st.sampled_from(drawn_keys),
        st.fixed_dictionaries(other_values),
        st.sampled_from(kinds),
    )
    write = st.lists(row, min_size=1, max_size=6).map(lambda rows: ScriptStep(do="write", rows=tuple(rows)))
    able = [write, write, write, st.booleans().map(lambda full: ScriptStep(do="compact", full=full))]
    if area == "deduplicate" and "sequence.field" not in options:
        able.append(
            st.lists(st.sampled_from(drawn_keys), min_size=1, max_size=2).map(
                lambda rows: ScriptStep(do="delete", rows=tuple(rows))
            )
        )
    steps = [draw(write), *draw(st.lists(st.one_of(able), max_size=5))]
    if area == "first-row" or "deletion-vectors.enabled" in options:
        steps.append(ScriptStep(do="compact", full=True))  # what waits at level 0 is not read
    return steps


def find_smallest_difference(
    engine: str, *, count: int, seed: int, differs: Callable[[Script], object | None]
) -> tuple[Script, object] | None:
    """Return the smallest of `count` scripts that differs, and the difference; None if none does.

    `differs` returns the difference of a script, or None.
    """
    last: list[tuple[Script, object]] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(script=scripts(engine))
    def holds(script: Script) -> None:
        wrong = differs(script)
        if wrong is not None:
            last[:] = [(script, wrong)]
            raise AssertionError

    try:
        holds()
    except AssertionError:
        return last[0]
    return None
