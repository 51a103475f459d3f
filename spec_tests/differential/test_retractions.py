"""Rows of kind -U and -D: lakekit refuses at the write what the engine commits and fails to read afterwards, and nothing else."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import LakekitError
from spec_tests.differential.judge import Refused

pytestmark = pytest.mark.reference
FUNCTIONS = ("sum", "product", "max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value")
PARTIAL, FOLD = {"merge-engine": "partial-update"}, {"merge-engine": "aggregation", "fields.s.aggregate-function": "last_value"}
GROUP = {**PARTIAL, "fields.s.sequence-group": "v"}
OPTIONS = [
    {},
    {"merge-engine": "first-row"},
    {"merge-engine": "first-row", "ignore-delete": "true"},
    PARTIAL,
    {**PARTIAL, "ignore-delete": "true"},
    {**PARTIAL, "partial-update.remove-record-on-delete": "true"},
    GROUP,
    *({**GROUP, "fields.v.aggregate-function": name} for name in FUNCTIONS),
    *({**GROUP, "fields.v.aggregate-function": name, "fields.v.ignore-retract": "true"} for name in FUNCTIONS),
    *({**FOLD, "fields.v.aggregate-function": name} for name in FUNCTIONS),
    *({**FOLD, "fields.v.aggregate-function": name, "fields.v.ignore-retract": "true"} for name in FUNCTIONS),
    *({**FOLD, "fields.v.aggregate-function": name, "aggregation.remove-record-on-delete": "true"} for name in FUNCTIONS),
    *({**FOLD, "fields.v.aggregate-function": name} for name in ("collect", "listagg", "bool_and", "bool_or")),
]
TYPES = {"collect": "ARRAY<INT>", "listagg": "STRING", "bool_and": "BOOLEAN", "bool_or": "BOOLEAN"}
VALUES = {"ARRAY<INT>": [1], "STRING": "a", "BOOLEAN": True}


def test_what_is_refused_is_what_the_engine_cannot_read_afterwards(judge, tmp_path):
    """Under first-row a read passes over rows that no compaction has merged, and that compaction fails."""
    wrong = []
    for number, options in enumerate(OPTIONS):
        of = TYPES.get(options.get("fields.v.aggregate-function", ""), "INT")
        value, columns = VALUES.get(of, 1), {"k": "INT NOT NULL", "v": of, "s": "INT"}
        for kind in ("-D", "-U"):
            path = tmp_path / f"{number}{kind}" / "t"
            judge.create(path, columns, primary_keys=["k"], options={"bucket": "1", "write-only": "true", **options})
            judge.write(path, [("+I", (1, value, 1))])
            judge.write(path, [(kind, (1, value, 2))])
            try:
                judge.read(path)
                judge.compact(path, full=True)
                judge.read(path)
            except Refused:
                is_read = False
            else:
                is_read = True
            table = lk.create(tmp_path / f"l{number}{kind}" / "t", columns, primary_keys=["k"], options={"bucket": "1", "write-only": "true", **options})
            rows = pl.DataFrame([{"k": 1, "v": value, "s": 1}])
            table.upsert(rows)
            try:
                table.upsert(rows.with_columns(s=2, op=pl.lit(kind)), row_kind="op")
            except LakekitError:
                is_taken = False
            else:
                is_taken = True
                table.scan().collect()
            if is_taken != is_read:
                wrong.append((options, kind, is_taken, is_read))
    assert wrong == []
