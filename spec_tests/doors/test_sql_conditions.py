"""A text is SQL at every door that takes one: the faults that were found from outside, each with the right answer."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import SqlError


def rows(table: lk.Table) -> list[dict[str, object]]:
    found = table.scan().collect()
    return found.sort(found.columns[0]).to_dicts()


def table_of(tmp_path, schema, values, **how):
    table = lk.create(tmp_path / "t", schema, **how)
    table.append(pl.DataFrame(values, schema=table.schema.to_polars(), orient="row"))
    return table


ABC = [(1, 1), (2, 2), (3, None)]


def test_distinct_takes_one_operand(tmp_path):
    """C1: everything behind DISTINCT FROM was its right side, and all rows were deleted."""
    table = table_of(tmp_path, {"k": "INT", "a": "INT"}, ABC)
    assert table.aggregate(pl.len(), where="a IS NOT DISTINCT FROM 1 OR k = 2").item() == 2
    table.delete("a IS DISTINCT FROM 1 AND k = 3")
    assert [row["k"] for row in rows(table)] == [1, 2]


def test_distinct_drops_no_partition_that_should_stay(tmp_path):
    """C1: "p IS DISTINCT FROM 1 AND p = 2" dropped whole partitions."""
    table = table_of(tmp_path, {"k": "INT", "p": "INT"}, [(1, 1), (2, 2), (3, 3)], partition_keys=["p"])
    table.delete("p IS DISTINCT FROM 1 AND p = 2")
    assert sorted(row["k"] for row in rows(table)) == [1, 3]


@pytest.mark.parametrize(("where", "gone"), [("LENGTH(s) - 3 > 0", [2]), ("LENGTH(s) - 3 < 0", [1]), ("strpos(s, 'z') - 1 < 0", [1, 2])])
def test_lengths_and_places_are_signed(tmp_path, where, gone):
    """C1: a length was UInt32, and 1 - 3 was 4294967294."""
    table = table_of(tmp_path, {"k": "INT", "s": "STRING"}, [(1, "a"), (2, "abcdef")])
    table.delete(where)
    assert [row["k"] for row in rows(table)] == [k for k in (1, 2) if k not in gone]


def test_a_length_is_written_with_its_sign(tmp_path):
    """C1: 4294967294 was written."""
    table = table_of(tmp_path, {"s": "STRING", "n": "BIGINT"}, [("a", 0)])
    table.update({"n": "LENGTH(s) - 3"}, where="TRUE")
    assert rows(table) == [{"s": "a", "n": -2}]


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("f IS NOT TRUE", [2, 3]),
        ("NOT (f IS TRUE)", [2, 3]),
        ("f IS NOT FALSE", [1, 3]),
        ("f IS UNKNOWN", [3]),
        ("f IS NOT UNKNOWN", [1, 2]),
        ("f IS TRUE", [1]),
    ],
)
def test_is_true_is_never_null(tmp_path, where, gone):
    """C1: IS NOT TRUE was NOT (f = TRUE), which is null of a null."""
    table = table_of(tmp_path, {"k": "INT", "f": "BOOLEAN"}, [(1, True), (2, False), (3, None)])
    table.delete(where)
    assert [row["k"] for row in rows(table)] == [k for k in (1, 2, 3) if k not in gone]


@pytest.mark.parametrize(("kind", "most"), [("TINYINT", 2**7 - 1), ("SMALLINT", 2**15 - 1), ("INT", 2**31 - 1), ("BIGINT", 2**63 - 1)])
def test_a_sum_never_wraps(tmp_path, kind, most):
    """C1 and C2: the least value was written; a condition wrapped too."""
    table = table_of(tmp_path, {"a": kind}, [(most,)])
    for value in ("a + 1", "a * 2", "a - -1"):
        with pytest.raises(lk.ValueOutOfRange, match=f"which is no {kind}"):
            table.update({"a": value}, where="TRUE")
    with pytest.raises(lk.ValueOutOfRange):
        table.merge([{"a": most}], lk.when_matched(update={"a": "t.a + s.a"}), on="t.a = s.a")
    assert rows(table) == [{"a": most}]
    assert table.aggregate(pl.len(), where="a + 1 > a AND -a - 2 < -a AND abs(-a - 1) > a").item() == 1


def test_a_decimal_is_rounded_half_up(tmp_path):
    """B8: 1.25 * 0.5 is 0.63 in a DECIMAL(10, 2), and 1.005 is 1.01."""
    table = table_of(tmp_path, {"k": "INT", "d": "DECIMAL(10, 2)"}, [(1, Decimal("1.25")), (2, Decimal("-1.25"))])
    table.update({"d": "d * 0.5"}, where="TRUE")
    assert [row["d"] for row in rows(table)] == [Decimal("0.63"), Decimal("-0.63")]
    table.update({"d": "1.005"}, where="k = 1")
    table.merge([{"k": 2, "n": 1}], lk.when_matched(update={"d": "s.n * -1.005"}), on="t.k = s.k")
    assert [row["d"] for row in rows(table)] == [Decimal("1.01"), Decimal("-1.01")]
    assert table.aggregate(pl.len(), where="CAST(d + 0.005 AS DECIMAL(10, 2)) = 1.02").item() == 1


@pytest.mark.parametrize("kind", [pl.Float64, pl.Decimal(10, 4)])
def test_a_cast_of_a_decimal_rounds_half_up(tmp_path, kind):
    """B8: Polars' own cast is half to even, and 0.125 was 0.12."""
    table = lk.create(tmp_path / "t", {"k": "INT", "d": "DECIMAL(10, 2)"})
    values = [Decimal("0.125"), Decimal("-0.125"), Decimal("1.375"), Decimal("0.135"), None]
    table.append(pl.DataFrame({"k": range(5), "d": pl.Series(values, dtype=pl.Decimal(10, 4)).cast(kind)}).with_columns(pl.col("k").cast(pl.Int32)), cast=True)
    assert [row["d"] for row in rows(table)][:3] == [Decimal("0.13"), Decimal("-0.13"), Decimal("1.38")]
    with pytest.raises(lk.ValueOutOfRange):
        table.append(pl.DataFrame({"k": [1], "d": [1e9]}), cast=True)


def test_statements_compute_as_conditions_do(tmp_path):
    """B8, B9, B20 and C2 in cat.sql: one table of functions for a text and for a statement."""
    cat = lk.connect(tmp_path)
    cat.create_database("s")
    t = cat.create_table("s.t", {"k": "INT", "d": "DECIMAL(10, 2)", "f": "FLOAT", "b": "BIGINT", "Shop": "STRING"})
    t.append(pl.DataFrame([(1, Decimal("1.25"), 0.1, 2**63 - 1, "a")], schema=t.schema.to_polars(), orient="row"))
    cat.sql("UPDATE s.t SET d = d * 0.5, f = f + 1 WHERE \"Shop\" = 'a' AND f = 0.1")
    assert t.scan().select("d", pl.col("f").round(5)).collect().row(0) == (Decimal("0.63"), pytest.approx(1.1, rel=1e-6))
    cat.sql("MERGE INTO s.t USING (SELECT 1 AS k, 1.005 AS n) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET d = s.n, f = f / 3")
    assert t.scan().collect()["d"].to_list() == [Decimal("1.01")]
    with pytest.raises(lk.ValueOutOfRange):
        cat.sql("UPDATE s.t SET b = b + 1 WHERE k = 1")
    for where in ("b - 100 <= 7", "abs(b) < 0", "b + b < b"):
        cat.sql(f"DELETE FROM s.t WHERE {where}")
    assert t.scan().collect().height == 1
    cat.sql('DELETE FROM s.t WHERE k IS DISTINCT FROM 2 AND NOT (f IS UNKNOWN) AND length("Shop") - 3 < 0')
    assert t.scan().collect().height == 0


def test_a_float_stays_one(tmp_path):
    """B9: the sum was a DOUBLE, which no FLOAT holds."""
    table = table_of(tmp_path, {"k": "INT", "f": "FLOAT"}, [(1, 0.1)])
    table.update({"f": "f + 1"}, where="f = 0.1")
    table.merge([{"k": 1}], lk.when_matched(update={"f": "f / 3"}), on=["k"])
    assert rows(table)[0]["f"] == pytest.approx(1.1 / 3, rel=1e-6)


@pytest.mark.parametrize(("value", "is_now"), [("7.0", 7.0), ("-0.5", -0.5), ("0.1 + 0.2", 0.3), ("d", 1.25), ("7", 7.0), ("1e3", 1000.0), ("d / 2", 0.625)])
def test_a_decimal_fits_a_double(tmp_path, value, is_now):
    """B10: "the rows have Decimal"."""
    table = table_of(tmp_path, {"k": "INT", "x": "DOUBLE", "d": "DECIMAL(10, 2)"}, [(1, 0.0, Decimal("1.25"))])
    table.update({"x": value}, where="k = 1")
    assert rows(table)[0]["x"] == is_now
    table.merge([{"k": 1}], lk.when_matched(update={"x": value}), on=["k"])
    assert rows(table)[0]["x"] == is_now


def test_the_moment_of_now_is_cut_to_the_column(tmp_path):
    """B10: finer than ms."""
    table = table_of(tmp_path, {"k": "INT", "at": "TIMESTAMP(3)", "tz": "TIMESTAMP_LTZ(3)", "day": "DATE"}, [(1, None, None, None)])
    before = datetime.now(UTC)
    table.update({"at": "CURRENT_TIMESTAMP", "tz": "now()", "day": "current_date"}, where="k = 1")
    row = rows(table)[0]
    assert 0 <= (row["tz"] - before).total_seconds() + 0.001 < 60
    assert abs(row["at"].replace(tzinfo=UTC) - row["tz"]).total_seconds() < 60
    assert abs((row["day"] - before.date()).days) <= 1


def test_a_quoted_name_is_a_column(tmp_path):
    """B20: a double-quoted word was a text in one place and a column in another."""
    table = table_of(tmp_path, {"Shop": "STRING", "order id": "INT"}, [("a", 1), ("Shop", 2)])
    assert table.aggregate(pl.len(), where="\"Shop\" = 'Shop'").item() == 1
    assert table.aggregate(pl.len(), where='`order id` > 1 AND "order id" < 3').item() == 1
    with pytest.raises(lk.ColumnNotFound, match="Shops"):
        table.delete("\"Shops\" = 'a'")


@pytest.mark.parametrize(
    ("where", "line", "column", "problem"),
    [
        ("k = 1 AND", 1, 7, "an operand of AND is missing"),
        ("k = 1\n  OR k == (", 2, 11, "nothing stands between the brackets"),
        ("k = 1 AND foo(k) > 1", 1, 11, "foo"),
        ("k = 1 AND sum(k) > 1", 1, 11, "aggregate"),
        ("k IN (SELECT 1)", 1, 1, "subquery"),
        ("k > 1 AND count(*) OVER () > 1", 1, 11, "window function"),
        ("k BETWEEN SYMMETRIC 1 AND 2", 1, 1, "SYMMETRIC"),
        ("k = 'x", 1, 5, "does not end"),
        ("k = 1 k", 1, 7, "'k' is not expected here"),
        ("CAST(k AS DECIMAL(k)) > 1", 1, 6, "a type takes whole numbers"),
    ],
)
def test_what_is_no_condition_is_shown_with_its_place(tmp_path, where, line, column, problem):
    table = table_of(tmp_path, {"k": "INT"}, [(1,)])
    for door in (table.delete, table.explain, lambda text: table.aggregate(pl.len(), where=text), lambda text: table.update({"k": "1"}, where=text)):
        with pytest.raises(SqlError, match=problem) as told:
            door(where)
        assert (told.value.line, told.value.column) == (line, column)
        assert str(told.value).endswith("^")
    assert len(table.snapshots()) == 1


def test_a_long_chain_is_no_deep_one(tmp_path):
    table = table_of(tmp_path, {"k": "INT"}, [(number,) for number in range(10)])
    assert table.aggregate(pl.len(), where=" OR ".join(f"k = {number}" for number in range(3, 5003))).item() == 7
    assert table.aggregate(pl.len(), where=" AND ".join(f"k <> {number}" for number in range(3, 5003))).item() == 3
    assert table.aggregate(pl.len(), where=" + ".join(["k"] * 5000) + " = 15000").item() == 1
    with pytest.raises(SqlError, match="operators in one chain"):
        table.delete(" * ".join(["k"] * 5000) + " = 1")


def test_long_chains_keep_their_three_values(tmp_path):
    table = table_of(tmp_path, {"k": "INT"}, [(1,), (None,), (3000,)])
    text = " AND ".join(f"k <> {number}" for number in range(2000, 4000))
    assert [table.aggregate(pl.len(), where=where).item() for where in (text, f"NOT ({text})", f"({text}) IS NULL")] == [1, 1, 1]


def test_half_a_number_is_none(tmp_path):
    table = table_of(tmp_path, {"k": "INT"}, [(1,)])
    for where in ("k ** 2 < 1e", "2e IS NULL", "k = 1e.3"):
        with pytest.raises((SqlError, lk.SchemaMismatch)):
            table.delete(where)


def test_what_would_take_all_memory_is_refused(tmp_path):
    table = table_of(tmp_path, {"k": "INT", "s": "STRING"}, [(1, "a")])
    texts = ("repeat(repeat(s, 2000), 2000) = 'a'", f"replace(repeat(s, 2000), 'a', '{'x' * 1000}') = 'a'", "k = " + "9" * 5000, "lpad(s, 2000000000, 'x') = s")
    for where in texts:
        with pytest.raises((SqlError, lk.SchemaMismatch)):
            table.delete(where)
    assert table.aggregate(pl.len(), where="length(repeat(s, 1000)) = 1000").item() == 1


@pytest.mark.parametrize("where", ["CAST(s AS INT) = 1", "CAST(s AS DATE) = '2024-01-01'", "CAST(b * b * b AS DOUBLE) > 1", "CAST(s AS BOOLEAN)"])
def test_a_value_that_does_not_fit_is_named(tmp_path, where):
    table = table_of(tmp_path, {"s": "STRING", "b": "BIGINT"}, [("x", 2**62)])
    with pytest.raises(lk.ValueOutOfRange, match="does not fit"):
        table.aggregate(pl.len(), where=where)
    assert table.aggregate(pl.len(), where=where.replace("CAST(s", "TRY_CAST(s").replace("b * b * b", "b * b")).item() in (0, 1)


def test_a_quotient_is_the_nearest_number(tmp_path):
    """Polars multiplies by the reciprocal of a scalar divisor: 3 / 10 was 0.30000000000000004."""
    table = table_of(tmp_path, {"k": "INT", "x": "DOUBLE"}, [(number, float(number)) for number in range(1000)])
    for divisor in (3, 7, 10, 49):
        wanted = [number for number in range(1000) if number / divisor == number * 7 / divisor / 7]
        assert table.aggregate(pl.len(), where=f"k / {divisor} = k * 7 / {divisor} / 7").item() == len(wanted)
    assert table.aggregate(pl.len(), where="k / 10 = 0.3 AND x / 10 = 0.3 AND round(x / 7, 2) = 0.43").item() == 1


def test_times_meet_texts_that_are_times(tmp_path):
    table = table_of(tmp_path, {"d": "DATE", "at": "TIMESTAMP(3)"}, [(date(2024, 1, 31), datetime(2024, 1, 31, 12))])  # noqa: DTZ001
    for where in (
        "d = '2024-01-31' AND at > '2024-01-31' AND at < '2024-01-31 12:00:00.0005'",
        "d + INTERVAL 1 MONTH = DATE '2024-02-29' AND d + 1 = '2024-02-01' AND d - DATE '2024-01-01' = 30",
        "date_trunc('month', at) = '2024-01-01' AND extract(isodow FROM d) = 3 AND year(d) = 2024",
        "d < TIMESTAMP '2024-01-31 00:00:00.000001' AND date_diff('hour', d, at) = 12",
    ):
        assert table.aggregate(pl.len(), where=where).item() == 1, where
    for where in ("d = '2024-02-30'", "d = 'soon'", "d > 5", "at = '2024-01-31T00:00:00+02:00'"):
        with pytest.raises(lk.SchemaMismatch):
            table.delete(where)
