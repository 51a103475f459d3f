"""Scripts drawn by Hypothesis: a table of some engine and steps that make it, full of edge cases.

A failing one shrinks to few steps.

    wrong = shrunk("deduplicate", count=50, seed=7, differs=lambda script: …)      None, or the smallest script that
                                                                                   differs, and how

Rows are drawn with `lakekit.testing.strategies`. Histories are those that mean the same whatever a writer compacts
when: retractions only where a row stands for a key by itself, and folds of values that give the same result in any
grouping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import HealthCheck, Phase, given, seed as seeded, settings, strategies as st

from lakekit.format.polars_types import polars_type
from lakekit.testing.adapters import KIND
from lakekit.testing.expectations import rows_of
from lakekit.testing.known_scripts import ENGINES
from lakekit.testing.scripts import Script, ScriptStep
from lakekit.testing.strategies import COMPARABLE_TYPES, KEYS, SEQUENCE_TYPES, field_of, sequence_values, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.types import DataType, Field

_VALUE_TYPES = (*COMPARABLE_TYPES, "BOOLEAN", "ARRAY<INT>", "MAP<INT, STRING>", "ROW<x INT, y STRING>")
_INTEGER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FOLDS: dict[str, tuple[str, ...]] = {
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
    [(_, (encoded,))] = rows_of(pl.DataFrame({"c": [value]}, schema={"c": polars_type(t)}), [t])
    return encoded


@st.composite
def scripts(draw: st.DrawFn, engine: str | None = None) -> Script:
    """Draw a table and one to six steps."""
    area = engine or draw(st.sampled_from(ENGINES))
    options = {"file.format": draw(st.sampled_from(("parquet", "parquet", "orc", "avro")))}
    keyed = area != "append"
    keys = (
        [field_of(f"k{at}", f"{text} NOT NULL") for at, text in enumerate(draw(st.sampled_from(KEYS)))] if keyed else []
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
        for at, name in enumerate(draw(st.lists(st.sampled_from(tuple(_FOLDS)), min_size=1, max_size=3))):
            columns.append(field_of(f"f{at}", draw(st.sampled_from(_FOLDS[name]))))
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
        {field.name: encode_values(field.type, values(field.type)) for field in identity}
    )
    drawn_keys = draw(st.lists(key_values, min_size=1, max_size=4))
    kinds = ("+I", "+I", "+U", "-U", "-D") if area == "deduplicate" else ("+I",)
    other_values = {
        field.name: encode_values(field.type, sequence_values(field.type) if field.name == "u" else values(field.type))
        for field in fields
        if field.name not in primary
    }
    row = st.builds(
        lambda key, other, kind: {KIND: kind, **key, **other},
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


def shrunk(
    engine: str, *, count: int, seed: int, differs: Callable[[Script], object | None]
) -> tuple[Script, object] | None:
    """Return the smallest of `count` scripts that differs, and the difference; None where none does.

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
