"""Files of sqllogictest are read as their authors meant them, and what two engines give is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spec_tests.reliability.sql_mutants import CONDITIONS, STATEMENTS, mutants
from spec_tests.sqllogic import Record, records, run_folder

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """# name: one
statement ok
CREATE TABLE default.t (a INTEGER, b INTEGER);

statement error
SELECT nothing
----
no such column

foreach n 1 2

query II
SELECT ${n},
       3
----
${n}\t3

endloop

skipif sqlite
query I rowsort
SELECT 5
----
5

query I
SELECT NULL
----
NULL
"""


def test_statements_queries_and_loops_are_read() -> None:
    made = Record("CREATE TABLE default.t (a INTEGER, b INTEGER)")
    loops = [Record(f"SELECT {n},\n       3", (str(n), "3")) for n in (1, 2)]
    found = list(records(TEXT))
    assert found[:3] == [made, *loops]
    assert found[-1] == Record("SELECT NULL", ("NULL",))


def test_a_folder_is_run_and_counted(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    text = TEXT + "\nstatement ok\nINSERT INTO default.t VALUES (1, 2), (2, NULL)\n\nquery II\nSELECT a, b FROM default.t ORDER BY a\n----\n1\t2\n2\tNULL\n"
    (tmp_path / "files" / "one.test").write_text(text.replace("default.t", "t"))
    counts = run_folder(tmp_path / "files", tmp_path)
    assert counts.queries == counts.confirmed
    assert counts.queries == counts.equal + sum(counts.refused.values()) + len(counts.different)
    assert counts.statements == 2


def test_a_text_is_cut_at_every_character_before_it_is_mutated() -> None:
    drawn = mutants(CONDITIONS, 1)
    first = [next(drawn) for _ in range(len(CONDITIONS[0]) + 1)]
    assert first == [CONDITIONS[0][:at] for at in range(len(CONDITIONS[0]) + 1)]
    cuts = sum(len(text) + 1 for text in STATEMENTS)
    drawn = mutants(STATEMENTS, 1)
    texts = {next(drawn) for _ in range(cuts + 500)}
    assert len(texts) > cuts * 0.9
