"""UPDATE, DELETE and MERGE as texts, and found rows written by their numbers: what needs no Spark of the way that Spark's expressions take."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import polars as pl
import pytest

import lakekit as lk
from lakekit.columns import internal
from lakekit.dml import merge_plan
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.merge import write_found_rows
from lakekit.dml.row_change import RowChange
from lakekit.errors import MergeConflict, Unsupported
from lakekit.read.table_scan import context_of
from lakekit.types import Field, parse

pytest.importorskip("sqlglot")

COLUMNS = {
    "k": "INT NOT NULL",
    "s": "STRING",
    "n": "INT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "b": "BOOLEAN",
    "da": "DATE",
    "ts": "TIMESTAMP(6)",
    "ns": "TIMESTAMP(9)",
    "r": "ROW<a INT, b STRING>",
}


class Backend:
    """A backend that knows the columns of every source."""

    tables = catalogs = MappingProxyType({})
    database, zone = "lake", "UTC"

    def query(self, statement, text):
        return text

    def fields(self, rows):
        return tuple(Field(name, parse(t)) for name, t in {"k": "INT", "v": "INT", "w": "STRING"}.items())

    def renamed(self, rows, names):
        return rows


@pytest.fixture
def read(tmp_path):
    from lakekit.sql.backend import Statement
    from lakekit.sql.change_text import StatementReader
    from lakekit.sql.tokenizer import TokenStream

    cat = lk.connect(tmp_path)
    cat.create_database("lake")
    cat.create_table("lake.t", COLUMNS)

    def read_text(text):
        tokens = TokenStream.of(text, "spark")
        tokens.position = 1
        return StatementReader(Statement(backend=Backend(), catalog=cat, tokens=tokens)).read()

    return read_text


PLAIN = [
    "UPDATE lake.t SET n = 7, s = 'x', d = 1.5, b = true, da = NULL, ts = ts WHERE k > 5 AND (s LIKE 'a' OR n IN (1, 2)) AND d <> 1.5",
    "DELETE FROM lake.t WHERE da = '2024-01-01' AND NOT b AND n BETWEEN k AND 7 AND s IS NULL",
    "MERGE INTO lake.t t USING x.y s ON t.k = s.k AND s.v > 3 WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY TARGET AND s.w = 'a' THEN INSERT *",
]
COMPUTED = ["f = 0.1", "s = 7", "n + 1 > 2", "trim(s) = 'a'", "n IN (SELECT 1)", "ts = da", "rand() > 0.5", "d / 3 > 1", "s LIKE n", "r.a = 1"]


@pytest.mark.parametrize("text", [PLAIN[0].replace("s LIKE 'a' OR ", ""), *PLAIN[1:]])
def test_columns_and_literals_of_one_kind_are_plain(read, text):
    assert read(text).is_plain


@pytest.mark.parametrize("where", COMPUTED)
def test_what_spark_may_mean_otherwise_is_not_plain(read, where):
    change = read(f"DELETE FROM lake.t WHERE k > 3 AND {where} AND ns > '2024-01-01'")
    assert not change.is_plain
    assert [str(expr) for expr in change.pruning] == ['[(col("k")) > (3)]'], "digits that Spark has not leave out no row"


@pytest.mark.parametrize("value", ["s = trim(s)", "n = d", "d = n + 1", "n = '7'", "r.b = s || 'x'", "n = (SELECT max(k) FROM lake.t)"])
def test_a_value_that_is_not_stored_as_it_is_goes_to_spark(read, value):
    change = read(f"UPDATE lake.t SET {value}, da = da WHERE k = 1")
    assert not change.is_plain
    [clause] = change.clauses
    assert list(clause.stored_values) == [("da", ())]
    assert [text.sql for text in clause.values.values()] == [value.split(" = ", 1)[1]]


def test_stars_and_names_become_what_a_join_takes(read):
    [clause] = read("UPDATE lake.t SET s = to_json(struct(*)), n = lake.t.n * 2 + size(array(lake.t.*))").clauses
    listed = ", ".join(f"`t`.`{name}`" for name in COLUMNS)
    assert [text.sql for text in clause.values.values()] == [f"to_json(struct({listed}))", f"t.n * 2 + size(array({listed}))"]
    merge = read(
        "MERGE INTO lake.t AS t USING (SELECT 1) AS s ON t.k = s.k WHEN NOT MATCHED AND CASE WHEN k > 1 THEN true END THEN INSERT (k, n) VALUES (k + 1, v)"
        " WHEN NOT MATCHED BY SOURCE AND k + 0 > 3 THEN UPDATE SET n = k + transform(array(1), k -> k + 1)[0] WHEN MATCHED THEN DELETE"
    )
    new, alone, matched = merge.clauses
    assert (new.condition.sql, [text.sql for text in new.values.values()]) == ("CASE WHEN s.k > 1 THEN true END", ["s.k + 1", "v"])
    assert alone.condition.sql == "t.k + 0 > 3"
    assert [text.sql for text in alone.values.values()] == ["k + transform(array(1), k -> k + 1)[0]"], (
        "k is a parameter there, and Spark says of which side it is"
    )
    assert (matched.action, matched.rows) == ("delete", "matched")


def test_a_window_is_refused_by_name(read):
    with pytest.raises(Unsupported, match="OVER"):
        read("UPDATE lake.t SET n = row_number() OVER (ORDER BY k)")


KINDS = {
    "append": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "buckets": {"options": {"bucket": "2", "bucket-key": "k"}},
    "first row": {"primary_keys": ["k"], "options": {"bucket": "1", "merge-engine": "first-row"}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_named_by_number_are_changed_where_they_are(tmp_path, kind):
    t = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "s": "STRING"}, **KINDS[kind])
    for first, last in ((0, 8), (8, 12)):
        t.append([{"k": k, "s": f"x{k}"} for k in range(first, last)])
    if t.primary_keys:
        t.compact(full=True)
    ctx = context_of(t)
    file_rows = TargetRows.at_newest(ctx).file_rows()
    stored = pl.concat(list(file_rows.batches(file_rows.rows())))
    number = dict(zip(stored["k"].to_list(), stored.to_series(0).to_list(), strict=True))
    changed = [{"row": number[k], "action": action, "new": new} for k, action, new in ((0, 0, None), (9, 1, "U9"), (3, 1, "U3"), (5, None, "no"))]
    source = merge_plan.source
    clauses = [merge_plan.when_matched(delete=True, where=source("action") == 0)]
    if kind == "first row":
        changed = [{**row, "action": 0 if row["action"] == 0 else None} for row in changed]
    else:
        changed.append({"row": None, "action": 2, "new": "new"})
        clauses += [
            merge_plan.when_matched(update={"s": source("new")}, where=source("action") == 1),
            merge_plan.when_not_matched(insert={"k": pl.lit(100), "s": source("new")}, where=source("action") == 2),
        ]
    rows = pl.DataFrame(changed, schema={"row": pl.Int64, "action": pl.Int32, "new": pl.String}).rename({"row": internal("found")})
    plan = merge_plan.build_merge_plan(ctx, rows.clear(), clauses, None)
    source_rows = rows.rename(lambda name: f"{merge_plan.MERGE_SOURCE_PREFIX}{name}").with_row_index(merge_plan.SOURCE_ROW)
    with RowChange.of(ctx, only_adds=True) as change, pytest.raises(MergeConflict, match="has such a row"):
        write_found_rows(change, replace(plan, source=pl.concat([source_rows, source_rows.head(1)])), file_rows)
    with RowChange.of(ctx, only_adds=True) as change:
        write_found_rows(change, replace(plan, source=source_rows), file_rows)
        assert change.affected_row_count == (1 if kind == "first row" else 4)
        change.commit()
    wanted = {k: f"x{k}" for k in range(1, 12)} | ({} if kind == "first row" else {3: "U3", 9: "U9", 100: "new"})
    assert dict(t.scan().collect().rows()) == wanted
    if kind == "append":
        assert t.scan().collect()["k"].to_list() == [*range(1, 12), 100], "each row in its place"
    assert t.check(deep=True).ok
