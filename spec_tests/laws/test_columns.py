"""A name of a column is data: what `lakekit.columns` gives means the column of exactly that name, in every place where Polars would read a pattern."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.columns import ROW, cast_columns, col, cols, drop_columns, is_pattern, prepare_series, select_by_name, series_field, struct_field

PATTERNS = ["*", "^$", "^a$", "^.*$", "^[a-z]+$", "^a.b$", "^^a$$", "^(?i)A$", '^"\\$', "^é\x01$", "^😀$"]
ORDINARY = ["a", "A", "^", "$", "a*", "**", "^a", "a$", "a.b", "a b", "`", '"', "len", "literal", "index", "é"]
NAMES = [*PATTERNS, *ORDINARY]


def frame(names=NAMES):
    return pl.DataFrame({name: [at, at + 100] for at, name in enumerate(names)})


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_name_gives_the_plain_expression(name):
    assert not is_pattern(name)
    assert col(name).meta.eq(pl.col(name))
    assert struct_field(pl.col("s"), name).meta.eq(pl.col("s").struct.field(name))
    assert frame().lazy().select(cols([name])).explain() == frame().lazy().select(name).explain()
    assert drop_columns(frame().lazy(), [name]).explain() == frame().lazy().drop([name]).explain()


@pytest.mark.parametrize("name", PATTERNS)
def test_polars_reads_these_names_as_patterns(name):
    assert is_pattern(name)
    assert pl.col(name).meta.root_names() == []
    assert col(name).meta.root_names() == [name]
    assert col(name).meta.output_name() == name


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("name", NAMES)
def test_a_column_is_the_one_of_its_name(name, lazy):
    at = NAMES.index(name)
    given = frame().lazy() if lazy else frame()
    rest = [other for other in NAMES if other != name]

    def collected(found):
        return found.collect() if lazy else found

    assert collected(given.select(col(name))).to_dict(as_series=False) == {name: [at, at + 100]}
    assert collected(given.filter(col(name) > at)).rows() == [frame().row(1)]
    assert collected(given.sort(col(name), descending=True)).rows() == frame().rows()[::-1]
    assert collected(given.group_by(col(name)).agg(pl.len().alias("\x1fn"))).columns == [name, "\x1fn"]
    assert collected(given.select(pl.len().over(col(name)))).to_series().to_list() == [1, 1]
    assert collected(given.unique(subset=cols([name]), keep="first", maintain_order=True)).columns == NAMES
    assert collected(given.drop_nulls(select_by_name([name]))).columns == NAMES
    assert collected(drop_columns(given, [name])).columns == rest
    assert collected(drop_columns(given, [name, "absent"], strict=False)).columns == rest
    cast = collected(cast_columns(given, {name: pl.String()}))
    assert cast.columns == NAMES
    assert [one for one in NAMES if cast.schema[one] == pl.String()] == [name]
    joined = given.select(col(name)).join(given.with_row_index(ROW), on=cols([name]), how="left", nulls_equal=True)
    assert collected(joined).columns == [name, ROW, *rest]
    struct = given.select(pl.struct(cols(NAMES)).alias("s"))
    assert collected(struct.select(struct_field(pl.col("s"), name))).to_dict(as_series=False) == {name: [at, at + 100]}
    inside = given.select(pl.struct(cols(NAMES)).implode().alias("s")).select(pl.col("s").list.eval(struct_field(pl.element(), name)))
    assert collected(inside).to_series().to_list() == [[at, at + 100]]


@pytest.mark.parametrize("name", NAMES)
def test_methods_of_a_series_mean_the_series(name):
    """Polars runs them as expressions over a frame of the one column, by its name."""
    prepare_series([name])
    one = pl.Series(name, [3, 1, None])
    assert one.gather([1, 0]).to_list() == [1, 3]
    assert one.is_null().to_list() == [False, False, True]
    assert (one + pl.Series([1, 2, 3])).name == name
    assert one.fill_null(0).unique().sort().to_list() == [0, 1, 3]
    assert pl.Series(name, [[1], []]).list.len().to_list() == [1, 0]
    assert pl.Series(name, ["ab"]).str.len_chars().to_list() == [2]
    assert pl.Series(name, ["1"]).str.to_decimal(scale=0).cast(pl.Int64).to_list() == [1]
    assert series_field(pl.Series("s", [{"a": 0, name: 7}]), name).to_list() == [7]


def test_filters_and_projections_reach_the_file(tmp_path):
    frame().write_parquet(tmp_path / "x.parquet")
    plan = pl.scan_parquet(tmp_path / "x.parquet").filter(col("*") == 100).select(col("^a$"))
    assert "PROJECT 2/" in plan.explain()
    assert 'SELECTION: col("*") == 100' in plan.explain()
    assert plan.collect().to_dict(as_series=False) == {"^a$": [102]}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.from_regex(r"\A\^.*\$\Z"), min_size=1, max_size=5, unique=True))
@settings(max_examples=200, deadline=None)
def test_drawn_names_are_data(names):
    given = frame(names)
    assert given.select(cols(reversed(names))).columns == names[::-1]
    for name in names:
        assert given.select(col(name)).get_column(name).to_list() == given.get_column(name).to_list()
        assert drop_columns(given, [name]).columns == [other for other in names if other != name]


FIELDS = {"column": {"\x1frow": "INT"}, "part": {"r": "ROW<`\x1fx` INT>"}, "deep": {"r": "ARRAY<MAP<INT, ROW<a ROW<`\x1fx` INT>>>>"}}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_a_schema_with_an_internal_name_is_refused(fields, tmp_path):
    with pytest.raises(lk.Unsupported, match=r"column '\\x1f(row|x)'.*Choose another name") as refused:
        lk.create(tmp_path / "t", {"k": "INT", **fields})
    assert refused.value.feature == "column-name.u001f"
    table = lk.create(tmp_path / "t", {"k": "INT", "v": "INT"})
    with pytest.raises(lk.Unsupported, match="Choose another name"):
        table.alter(lk.rename_column("v", "\x1frow"))
    path = tmp_path / "t" / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["fields"][1]["name"] = "\x1frow"
    path.write_text(json.dumps(schema))
    with pytest.raises(lk.Unsupported, match=r"column '\\x1frow' of .*schema-0"):
        lk.open(tmp_path / "t")


def test_a_column_of_a_file_is_no_part_of_one_whose_name_begins_alike(tmp_path):
    """Parquet calls parts of columns by names with dots, and a column may have such a name itself."""
    table = lk.create(tmp_path / "t", {"a": "INT", "a.b": "STRING", ".": "STRING", "..": "STRING", "r": "ROW<x INT>", "r.x": "STRING"})
    row = {"a": 1, "a.b": "x", ".": "y", "..": "z", "r": {"x": 2}, "r.x": "w"}
    table.append([row])
    assert table.scan().collect().to_dicts() == [row]
    for name, value in row.items():
        assert table.scan().select(col(name)).collect().to_dicts() == [{name: value}]
    table.append([row])
    table.compact(order_by=["."], full=True)
    assert table.scan().collect().to_dicts() == [row, row]


def test_sql_names_columns_exactly(tmp_path):
    """Polars' SQL takes the names of quoted identifiers for patterns."""
    cat = lk.connect(tmp_path)
    cat.create_database("s")
    table = cat.create_table("s.t", {"k": "INT", "^a$": "STRING", "a": "STRING", "*": "INT", "_level": "INT", "a.b": "INT"})
    table.append([{"k": 1, "^a$": "x", "a": "y", "*": 5, "_level": 6, "a.b": 7}])

    def rows(text):
        return cat.sql(text).collect().to_dicts()

    assert rows("SELECT * FROM s.t") == [{"k": 1, "^a$": "x", "a": "y", "*": 5, "_level": 6, "a.b": 7}]
    assert rows("SELECT `^a$` FROM s.t WHERE `*` = 5") == [{"^a$": "x"}]
    assert rows("SELECT u.`*` AS `^n$`, `_level` FROM s.t u WHERE u.`^a$` = 'x' ORDER BY `*`") == [{"^n$": 5, "_level": 6}]
    assert rows("SELECT `^a$`, count(*) AS n FROM s.t GROUP BY `^a$`") == [{"^a$": "x", "n": 1}]
    assert rows("SELECT count(*) AS n FROM s.t x JOIN s.t y USING (`*`)") == [{"n": 1}]
    cat.sql("UPDATE s.t SET `^a$` = 'z' WHERE `*` = 5 AND `a.b` = 7")
    assert rows("SELECT a, `^a$` FROM s.t") == [{"a": "y", "^a$": "z"}]
    cat.sql("DELETE FROM s.t WHERE `^a$` = 'z'")
    assert rows("SELECT * FROM s.t") == []


UNTOUCHED = """
import polars as pl
from polars.series import series
import lakekit as lk, sys
before = series.F
t = lk.create(sys.argv[1] + "/a", {"k": "INT", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"})
t.upsert([{"k": 1, "v": "a"}]); t.compact(full=True); t.scan().collect()
assert series.F is before
lk.create(sys.argv[1] + "/b", {"k": "INT", "^a$": "STRING"}).append([{"k": 1, "^a$": "a"}])
assert series.F is not before and series.F.sum is before.sum
assert pl.Series("v", [1, None]).is_null().to_list() == [False, True]
"""


def test_polars_stays_as_it_is_without_such_names(tmp_path):
    subprocess.run([sys.executable, "-c", UNTOUCHED, tmp_path], check=True)


def test_the_first_rows_of_a_process_may_go_to_a_text_file_with_such_names(tmp_path):
    code = """if True:
        import sys
        import lakekit as lk, polars as pl

        cat = lk.connect(sys.argv[1])
        cat.create_database("d")
        t = cat.create_format_table("d.t", {"^a$": "INT", "*": "STRING"}, format="csv", options={"csv.include-header": "true"})
        t.append(pl.DataFrame({"^a$": [1, 2], "*": ["x", "y,z"]}, schema_overrides={"^a$": pl.Int32}))
        assert sorted(t.scan().collect().rows()) == [(1, "x"), (2, "y,z")]
    """
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
