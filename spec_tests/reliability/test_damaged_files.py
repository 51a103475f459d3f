"""Files of tables with some bytes changed, read in child processes: none ends the process, hangs it, or raises what is not lakekit's where lakekit reads.

`LAKEKIT_FUZZ_INPUTS` is how many inputs each kind of file gets, `LAKEKIT_FUZZ_SEED` where the draws begin.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from spec_tests.reliability import damaged_tables
from spec_tests.reliability.children import Child

if TYPE_CHECKING:
    from pathlib import Path

INPUTS = int(os.environ.get("LAKEKIT_FUZZ_INPUTS", "60"))
SEED = int(os.environ.get("LAKEKIT_FUZZ_SEED", "1"))
CALLS = "spec_tests.reliability.damaged_calls:"
POLARS_OWN = ("scan", "column", "filter", "raw")
"""Verbs whose LazyFrame a caller collects: what breaks inside a page is Polars' own error there."""
_PEAK_BYTES = 512 << 20

TABLES = [
    ("parquet append", "data"),
    ("parquet append indexes", "data"),
    ("parquet keys", "data"),
    ("parquet keys waiting", "data"),
    ("parquet keys vectors", "index"),
    ("avro append", "data"),
    ("avro keys", "data"),
    ("parquet append", "manifest"),
    ("orc append", "data"),
    ("orc keys", "data"),
]


def copies(table: Path, kind: str, name: str, call: str) -> Counter[str]:
    """How calls on a table end while its files are damaged, one input after the other; fails for those that must not be."""
    draw = random.Random(f"{SEED} {name} {kind}")
    files = damaged_tables.targets(table, kind)
    assert files
    ends: Counter[str] = Counter()
    with Child(seconds=30) as child:
        for _ in range(INPUTS):
            file = draw.choice(files)
            sound = file.read_bytes()
            bad = damaged_tables.damaged(sound, draw)
            file.write_bytes(bad)
            answer = child.ask(f"{CALLS}{call}", str(table).encode())
            file.write_bytes(sound)
            where = [at for at, (a, b) in enumerate(zip(sound, bad, strict=True)) if a != b][:8]
            if answer.end != "value":
                ends[f"{answer.end}: {str(answer.found)[:90]} at {where}"] += 1
                continue
            for verb, end in answer.found.items():
                ends[_said(verb, end)] += 1
    return ends


def _said(verb: str, end: str) -> str:
    """How a verb ended, in a few words; what is neither lakekit's nor may be Polars' begins with "foreign"."""
    if "." not in end or verb == "found":
        return f"{verb} {end.partition(';')[0]}"
    return f"{verb} theirs" if verb in POLARS_OWN else f"foreign {verb}: {end[:160]}"


@pytest.mark.parametrize(("name", "kind"), TABLES)
def test_no_damaged_file_ends_the_process(tmp_path, name, kind):
    damaged_tables.make(tmp_path / "t", name)
    ends = copies(tmp_path / "t", kind, name, "walk_table")
    wrong = {end: count for end, count in ends.items() if end.startswith(("death", "hang", "foreign", "error"))}
    assert not wrong, (wrong, ends)
