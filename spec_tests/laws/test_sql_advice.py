"""What a statement's error advises is SQL, and no call of Python that the reader of the statement did not make."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.sql.query_refusal import advise_in_sql

PYTHON = re.compile(
    r"\b\w+=(?:True|False|None)\b|\b(?:t|cat|lk|pl|w|df)\.[a-z_]+|\b(?:at|options|expiration|older_than|refresh_mode|row_kind)=(?!>)|metastore='"
)
"""Calls, keyword arguments and modules of Python."""
PACKAGE = Path(lk.__file__).parent
UNREACHED = {
    "cli": "the command line's own words",
    "draw": "pictures in a notebook",
    "inspection": "cards and pages",
    "spark": "functions and pipelines of Spark; ls.sql goes through lakekit.sql",
    "notebook": "levels and manifests as pages",
    "testing": "the conformance kit",
    "options/features.py": "the table of features",
    "sql/dispatch.py": "the table of advice",
    "read/time_travel.py:at": "at= of t.scan; VERSION AS OF has a number or a text",
    "table/write_methods.py:messages": "messages of t.commit",
    "expressions/functions.py": "the table of functions names fields of sqlglot's tree",
    "options/definitions.py": "lists of option names",
    "options/option.py": "lists of option names",
    "maintenance/check": "findings of `t.check`, which no statement runs",
    "maintenance/orphan_files.py:finding": "quotes a finding",
    "data_file/write_metrics.py": "numbers for a caller",
    "progress.py": "lk.progress",
    "read/stream.py": "t.follow, which no statement calls",
    "read/stream_start.py": "t.follow, which no statement calls",
    "read/incremental.py": "kind_column of t.changes",
    "read/user_expressions.py": "expressions of Polars",
    "table/read_methods.py": "t.aggregate, t.explain",
    "table/table_writer.py": "t.writer",
    "table/schema.py": "t.alter without changes",
    "ddl/apply_changes.py": "objects that are no change",
    "ddl/schema_changes.py:place": "places of a change object",
    "ddl/table_definition.py": "frames in place of columns",
    "dml/merge_plan.py": "clauses of t.merge, which MERGE writes itself",
    "dml/delete_update.py:pl.col": "values of t.update",
    "write/input_frames.py": "rows of t.append",
    "write/row_conversion.py:pandas": "a frame of pandas",
    "catalog/jdbc_session.py": "examples of a uri",
    "sql/query_refusal.py": "files=True is an argument of cat.sql itself",
    "sql/query_report.py": "files=True is an argument of cat.sql itself",
}
"""Sentences that no statement reaches, and why."""
_TOLD = {"place": "a column ", "finding": "finding.remedy", "pl.col": "pl.col('v') + 1", "pandas": "pandas", "at": "at= takes", "messages": "w.prepare()"}


def is_unreached(path: str, text: str) -> bool:
    for entry in UNREACHED:
        where, _, which = entry.partition(":")
        if (path == where or path.startswith(f"{where}/")) and (not which or _TOLD[which] in text):
            return True
    return False


def sentences():
    """Yield each text with Python in it, of messages of the package, and where it stands."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree, inner = ast.parse(path.read_text()), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                inner.add(id(node.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "'x'" if part.conversion in (97, 114) else "x" for part in node.values]
                inner |= {id(part) for part in node.values}
                text = "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
                text = node.value
            else:
                continue
            if " " in text.strip() and len(text) > 15 and "\\" not in text and PYTHON.search(text):
                yield f"{path.relative_to(PACKAGE)}", node.lineno, text


def test_each_sentence_that_a_statement_reaches_has_words_of_sql():
    left = []
    for path, line, text in sentences():
        if is_unreached(path, text):
            continue
        wrong = LakekitError(text)
        advise_in_sql(wrong, "")
        if PYTHON.search(wrong.message):
            left.append(f"{path}:{line}: {wrong.message}")
    assert not left, "\n".join(left)


def test_what_the_statement_itself_says_stays():
    wrong = LakekitError("column 't.compact(full=True)' is no INT; t.compact() compacts it")
    advise_in_sql(wrong, "INSERT INTO s VALUES ('t.compact(full=True)')")
    assert wrong.message == "column 't.compact(full=True)' is no INT; CALL sys.compact compacts it"


STATEMENTS = [
    "CREATE DATABASE d",
    "CREATE TABLE d.k (id INT)",
    "CREATE VIEW d.v AS SELECT 1 AS a",
    "CREATE VIEW d.k AS SELECT 1 AS a",
    "DROP DATABASE d",
    "DROP TABLE d.nope",
    "DROP VIEW d.nope",
    "ALTER DATABASE d SET ('a' = 'b')",
    "ALTER TABLE d.k CREATE TAG one",
    "CALL sys.create_tag('d.k', 'one')",
    "CALL sys.create_branch('d.k', 'side')",
    "CALL sys.delete_tag('d.k', 'nope')",
    "CALL sys.delete_branch('d.k', 'nope')",
    "CALL sys.rollback('d.k', tag => 'nope')",
    "CALL sys.rescale('d.a', 4)",
    "CALL sys.expire_partitions('d.p')",
    "CALL sys.remove_orphan_files('d.k', older_than => '2999-01-01 00:00:00')",
    "CALL sys.compact('d.k', order_strategy => 'zorder', order_by => 'v')",
    "CALL sys.clone(database => 'd', table => 'k', target_database => 'd')",
    "CALL sys.migrate_table('files', 'd.k')",
    "CALL sys.repair('d.k')",
    "CALL sys.refresh_object_table('d.k')",
    "ALTER TABLE d.k SET ('branch' = 'side')",
    "ALTER TABLE d.k RESET ('bucket')",
    "ALTER TABLE d.a SET ('deletion-vectors.enabled' = 'true', 'bucket' = '3')",
    "ALTER TABLE d.k SET ('scan.fallback-branch' = 'nope')",
    "ALTER TABLE d.k SET ('lakekit.allowed-locations' = '/tmp')",
    "INSERT INTO d.k VALUES ('x', 1)",
    "INSERT INTO d.k SELECT true, 1",
    "INSERT INTO d.k (id, nope) VALUES (1, 2)",
    "INSERT INTO d.k BY NAME SELECT 1 AS id, 2 AS other",
    "INSERT INTO d.p PARTITION (nope = 1) VALUES (1)",
    "DELETE FROM d.k WHERE nope = 1",
    "DELETE FROM d.ts WHERE at > 5",
    "DELETE FROM d.ig WHERE v = 1",
    "UPDATE d.k SET id = 2",
    "UPDATE d.fr SET v = 2",
    "SELECT * FROM d.k /*+ OPTIONS('scan.mode' = 'nope') */",
    "SELECT * FROM d.k /*+ OPTIONS('lakekit.allowed-locations' = '/tmp') */",
    "SELECT * FROM d.k FOR VERSION AS OF 99",
    "SELECT * FROM d.k$branch_nope",
    "CREATE TABLE d.l (a INT) LOCATION '/tmp/x'",
    "CREATE TABLE d.n (a INT) WITH ('auto-create' = 'true')",
    "CREATE MATERIALIZED TABLE d.m FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = CONTINUOUS AS SELECT id FROM d.k",
    "CREATE CATALOG c WITH ('type' = 'paimon')",
    "TRUNCATE TABLE d.nope",
    "ALTER TABLE d.k DROP PARTITION ()",
]


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql(
        """
        CREATE DATABASE d;
        CREATE TABLE d.k (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2');
        INSERT INTO d.k VALUES (1, 1), (2, 2);
        ALTER TABLE d.k CREATE TAG one;
        CALL sys.create_branch('d.k', 'side');
        CREATE TABLE d.a (id INT, v INT);
        CREATE TABLE d.p (id INT, dt STRING) PARTITIONED BY (dt);
        CREATE TABLE d.ts (at TIMESTAMP(3));
        CREATE TABLE d.dv (id INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'deletion-vectors.enabled' = 'true');
        CREATE TABLE d.fr (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'first-row');
        INSERT INTO d.fr VALUES (1, 1); INSERT INTO d.fr VALUES (1, 2), (3, 1);
        CREATE TABLE d.ig (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'ignore-delete' = 'true');
        INSERT INTO d.ig VALUES (1, 1);
        CREATE TABLE d.pu (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update');
        INSERT INTO d.pu VALUES (1, 1);
        CREATE TEMPORARY VIEW d.v AS SELECT 1 AS a
        """
    )
    return made


def test_an_error_of_a_statement_speaks_sql(cat):
    spoken, ran = [], []
    for text in STATEMENTS:
        try:
            answer = cat.sql(text)
            if hasattr(answer, "collect"):
                answer.collect()
            ran.append(text)
        except LakekitError as wrong:
            if PYTHON.search(wrong.message.replace(text, "")):
                spoken.append(f"{text}\n    {wrong.message}")
    assert not spoken, "\n".join(spoken)
    assert not ran, ran
