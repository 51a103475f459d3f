"""Expressions of Spark in UPDATE, DELETE and MERGE of `ls.sql` are those of its SELECT, on every kind of table."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, seed, settings, strategies as st

import lakekit as lk
from lakekit.errors import ColumnNotFound, Conflict, InvalidOption, LakekitError, MergeConflict, SchemaMismatch, Unsupported, ValueOutOfRange

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark

COLUMNS = {
    "k": "INT NOT NULL",
    "p": "STRING NOT NULL",
    "s": "STRING",
    "i": "INT",
    "n": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "dc": "DECIMAL(10, 2)",
    "b": "BOOLEAN",
    "da": "DATE",
    "ts": "TIMESTAMP(6)",
    "lz": "TIMESTAMP_LTZ(6)",
    "bi": "BYTES",
    "ar": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
    "r": "ROW<a INT, b STRING>",
}
KINDS = {
    "append": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "partitioned": {"partition_keys": ["p"]},
    "buckets": {"options": {"bucket": "2", "bucket-key": "k"}},
    "key": {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"bucket": "2"}},
    "key dynamic": {"primary_keys": ["k"]},
    "key vectors": {"primary_keys": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "key across": {"primary_keys": ["k"], "partition_keys": ["p"]},
    "partial": {"primary_keys": ["k"], "options": {"bucket": "1", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}},
}


def _each(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" ;; ")]


EXPRESSIONS = {  # those of the examination, by the type of the column that takes them
    "STRING": _each(r"""
        trim(s) ;; ltrim(s) ;; upper(s) ;; lower(s) ;; substring(s, 2, 3) ;; left(s, 2) ;; right(s, 2) ;; replace(s, 'a', 'b') ;; s || 'x'
        regexp_replace(s, '[a-z]+', '#') ;; regexp_extract(s, '([a-z]+)', 1) ;; concat_ws('-', s, i) ;; concat(s, 'x') ;; split(s, ' ')[0]
        lpad(s, 8, '*') ;; rpad(s, 8, '*') ;; reverse(s) ;; initcap(s) ;; repeat(s, 2) ;; translate(s, 'ab', 'xy') ;; md5(s) ;; sha2(s, 256)
    sha1(s)
        hex(i) ;; hex(s) ;; base64(bi) ;; date_format(ts, 'yyyy/MM') ;; to_json(r) ;; to_json(struct(*)) ;; r.b
        CAST(d AS STRING) ;; CAST(dc AS STRING) ;; CAST(da AS STRING) ;; CAST(ts AS STRING) ;; CAST(lz AS STRING) ;; CAST(b AS STRING)
    CAST(i AS STRING)
        coalesce(s, 'none') ;; nullif(s, 'a') ;; CASE WHEN i > 3 THEN 'big' ELSE s END ;; if(b, 'yes', 'no') ;; decode(i, 1, 'one', 'other')"""),
    "INT": _each("""
        length(s) ;; i + 1 ;; i * 2 - n ;; -i ;; abs(i) ;; pmod(i, 3) ;; i % 3 ;; i & 3 ;; i | 8 ;; i ^ 5 ;; ~i ;; shiftleft(i, 2)
    shiftright(i, 1) ;; hash(s, i) ;; sign(i)
        year(da) ;; month(da) ;; day(da) ;; dayofweek(da) ;; dayofyear(da) ;; weekofyear(da) ;; quarter(da) ;; hour(ts) ;; minute(ts)
    datediff(da, DATE '2024-01-01')
        size(ar) ;; element_at(ar, 1) ;; ar[0] ;; m['x'] ;; r.a ;; greatest(i, n) ;; least(i, n) ;; coalesce(i, n, 0) ;; TRY_CAST(s AS INT)
    CAST(least(nanvl(d, 0D), 9D) AS INT) ;; ascii(s)
        instr(s, 'a') ;; aggregate(ar, 0, (total, x) -> total + x)"""),
    "BIGINT": _each("unix_timestamp(ts) ;; l + 1 ;; floor(d) ;; ceil(d) ;; l div 3 ;; CAST(dc AS BIGINT)"),
    "DOUBLE": _each("d / 3 ;; round(d, 1) ;; sqrt(abs(d)) ;; power(d, 2) ;; ln(abs(d) + 1) ;; f + 1 ;; i / 3 ;; exp(least(d, 1D)) ;; sin(d) ;; f"),
    "DECIMAL(10, 2)": _each("dc * 2 ;; round(dc, 1) ;; i"),
    "DATE": _each(
        "date_add(da, 3) ;; date_sub(da, 3) ;; add_months(da, 1) ;; last_day(da) ;; trunc(da, 'MM') ;; to_date('2024-02-03')"
        " ;; da + INTERVAL 1 DAY ;; CAST(ts AS DATE) ;; lz"
    ),
    "TIMESTAMP(6)": _each("ts + INTERVAL 1 HOUR ;; date_trunc('HOUR', ts) ;; da"),
    "BOOLEAN": _each("array_contains(ar, 2) ;; s RLIKE 'a.*' ;; i IN (1, 2, n) ;; s LIKE '%a%' ;; s <=> NULL"),
    "ARRAY<INT>": _each("array_sort(ar) ;; transform(ar, x -> x + i) ;; filter(ar, x -> x > 1) ;; array(i, n)"),
    "BYTES": _each("unhex('4D')"),
}
ALL = [(to, text) for to, texts in EXPRESSIONS.items() for text in texts]
CONDITIONS = _each(r"""
    length(s) > 3 ;; trim(s) = 'a' ;; upper(s) = 'AB' ;; s LIKE 'a%' ;; s NOT LIKE '%b' ;; s RLIKE '^a' ;; substring(s, 1, 1) = ' ' ;; s = 'x''y'
    s || 'x' = 'abx' ;; md5(s) > '8'
    i + 1 > 3 ;; i * 2 = n ;; pmod(i, 2) = 1 ;; i % 2 = 0 ;; i & 1 = 1 ;; i = 2.0 ;; i IN (1, n) ;; i NOT IN (1, 2) ;; i NOT IN (1, NULL)
    i BETWEEN n AND 5 ;; abs(i) < 3
    i IS NULL AND s IS NOT NULL ;; NOT (i > 3) ;; coalesce(i, 9) = 9 ;; nullif(i, 1) IS NULL ;; i <=> NULL ;; i <=> n ;; greatest(i, n) = n
    i <> n ;; i > 3 OR length(s) = 2 ;; i > 1 AND pmod(k, 2) = 0
    d / 3 > 0.5 ;; d > 1.5 ;; isnan(d) ;; round(d) = 1 ;; f = 0.1 ;; f + 1 > 2 ;; d IN (1.5, 2.5) ;; sqrt(abs(d)) > 1 ;; dc * 2 > 3 ;; dc = 1.50
    CAST(dc AS INT) = 1
    b ;; NOT b ;; b IS NOT TRUE ;; b = (i > 2) ;; b OR i = 1 ;; if(b, i, n) = 2 ;; CASE WHEN b THEN i > 1 ELSE n > 1 END ;; xxhash64(k) > 0
    hash(k) % 3 = 0
    year(da) = 2023 ;; month(da) > 6 ;; da = '2024-01-01' ;; da > DATE '2023-06-01' ;; date_add(da, 1) > DATE '2024-01-01' ;; dayofweek(da) = 2
    da IN ('2024-01-01', '2023-03-04') ;; last_day(da) = DATE '2024-01-31'
    hour(ts) > 5 ;; ts > '2024-01-01' ;; ts + INTERVAL 1 DAY > TIMESTAMP '2024-01-02 00:00:00' ;; CAST(ts AS DATE) = da ;; lz = ts
    lz > '2024-01-01 00:00:00' ;; date_trunc('DAY', ts) = ts ;; unix_timestamp(lz) > 0
    size(ar) = 2 ;; array_contains(ar, 2) ;; ar[0] = 1 ;; exists(ar, x -> x > 2) ;; forall(ar, x -> x > 0) ;; m['x'] = 1
    map_contains_key(m, 'y') ;; r.a > 2 ;; r.b = 'q1' ;; r IS NULL ;; ar = array(1, 2)
    k IN (SELECT id FROM range(3)) ;; k NOT IN (SELECT id FROM range(3)) ;; EXISTS (SELECT 1 FROM range(4) z WHERE z.id = t.k)
    NOT EXISTS (SELECT 1 FROM range(4) z WHERE z.id = t.i)
    i = (SELECT max(i) FROM lake.rows) ;; i > (SELECT avg(x.i) FROM lake.rows x WHERE x.n = t.n)
    k IN (SELECT k FROM (SELECT k, row_number() OVER (ORDER BY k DESC) AS r FROM lake.rows) WHERE r < 3)
    i NOT IN (SELECT n FROM lake.rows) ;; (i, n) IN (SELECT i, n FROM lake.rows WHERE k < 4)
    k IN (SELECT a.k FROM lake.rows a JOIN lake.rows b ON a.k = b.k + 1 WHERE b.i > 1) ;; k IN (SELECT k FROM lake.rows UNION SELECT 2)
    plus_one(i) = 3 ;; plus_one(length(s)) > 3 ;; s IN ('a', upper(s)) ;; s < 'b' ;; s >= ' ' ;; length(concat(s, p)) > 4
    p = 'p1' AND trim(s) = 'a' ;; p <> 'p1' AND i + n > 2 ;; levenshtein(s, 'ab') < 2 ;; bi = X'01' ;; length(bi) = 1
    s ILIKE 'A%' ;; startswith(s, 'a') ;; contains(s, 'b') ;; instr(s, 'b') > 0 ;; s BETWEEN 'a' AND 'b' ;; try_divide(i, n) > 1
    i / nullif(n, 0) > 1 ;; TRY_CAST(s AS INT) = 7 ;; typeof(i) = 'int'""")


def drawn(count: int, start: int = 0) -> list[dict[str, object]]:
    """Rows with nulls in every column but the key, and special values."""
    draw = random.Random(start * 7 + count)

    def one(*values: object) -> object:
        return draw.choice([None, *values])

    return [
        {
            "k": start + at,
            "p": f"p{at % 3}",
            "s": one("a", " ab ", "ab", "abc b", "", "7", "Äb", "x'y"),
            "i": one(-3, 0, 1, 2, 3, 7),
            "n": one(-1, 0, 1, 2, 5),
            "l": one(-(2**40), 0, 5, 2**40),
            "f": one(0.1, -2.5, 1.0),
            "d": one(1.5, -2.5, 2.5, 0.0, -0.0, float("nan"), 1e10),
            "dc": one(Decimal("1.50"), Decimal("-2.25"), Decimal("1000.00")),
            "b": one(True, False),
            "da": one(date(2024, 1, 1), date(2023, 3, 4), date(1969, 12, 31)),
            "ts": one(*map(datetime.fromisoformat, ("2024-01-01", "2023-03-04T05:06:07.123456", "1969-12-31T23:59:59"))),
            "lz": one(datetime(2024, 1, 1, tzinfo=UTC), datetime(2023, 3, 4, 5, 6, 7, 89, tzinfo=UTC)),
            "bi": one(b"", b"\x01", b"xyz"),
            "ar": one([1, 2], [3], [2, 1, 5]),
            "m": one({"x": 1}, {"y": 2, "x": 3}, {}),
            "r": one({"a": 1, "b": "q1"}, {"a": 3, "b": None}),
        }
        for at in range(count)
    ]


class Lake:
    """A catalog of drawn tables, and the session that changes them."""

    def __init__(self, spark, folder) -> None:
        self.spark, self.cat = spark, lk.connect(folder)
        self.cat.create_database("lake")
        self.made = 0
        self.table("rows")

    def sql(self, text: str) -> list[tuple]:
        return [tuple(row) for row in ls.sql(self.spark, text, catalog=self.cat).collect()]

    def table(self, name: str, kind: str = "append", more: dict[str, str] | None = None, rows: int = 24) -> str:
        """A table of two commits, the second over an evolved schema."""
        columns = {key: t for key, t in COLUMNS.items() if key != "n"}
        t = self.cat.create_table(f"lake.{name}", columns, **KINDS[kind])
        first, second = drawn(rows // 2), drawn(rows - rows // 2, rows // 2)
        if rows:
            t.append([{key: value for key, value in row.items() if key != "n"} for row in first])
        t.alter(lk.add_column("n", "INT"), *(lk.add_column(key, to) for key, to in (more or {}).items()))
        if rows:
            t.append(second)
        if rows and t.primary_keys:
            t.append([{**row, "i": 2} for row in first[:3]])
        return f"lake.{name}"

    def fresh(self, kind: str, more: dict[str, str] | None = None, rows: int = 24) -> str:
        self.made += 1
        return self.table(f"t{self.made}", kind, more, rows)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    spark.udf.register("plus_one", lambda x: None if x is None else x + 1, "int")
    return Lake(spark, tmp_path_factory.mktemp("expressions"))


def _row_texts(rows: list[tuple]) -> list[str]:
    return sorted(repr(tuple(0.0 if value == 0 and isinstance(value, float) else value for value in row)) for row in rows)


def _set_all(lake: Lake, kind: str, chosen: list[tuple[str, str]], where: str | None = None) -> None:
    """Holds an UPDATE of a column for each expression against their SELECT."""
    name = lake.fresh(kind, {f"o{at}": to for at, (to, _) in enumerate(chosen)})
    condition = where or "true"
    wanted = ", ".join(f"CASE WHEN {condition} THEN CAST(({text}) AS {to.replace('(6)', '_NTZ').replace('BYTES', 'BINARY')}) END" for to, text in chosen)
    hit = lake.sql(f"SELECT count(*) FROM {name} AS t WHERE {condition}")[0][0]
    before = lake.sql(f"SELECT k, i, {wanted.replace('to_json(struct(*))', 'to_json(struct(t.*))')} FROM {name} AS t")
    pairs = ", ".join(f"o{at} = {text}" for at, (_, text) in enumerate(chosen))
    done = lake.sql(f"UPDATE {name} AS t SET {pairs}" + ("" if where is None else f" WHERE {where}"))
    after = lake.sql(f"SELECT k, i, {', '.join(f'o{at}' for at in range(len(chosen)))} FROM {name}")
    for at, (to, text) in enumerate(chosen, 2):
        assert _row_texts([(row[0], row[at]) for row in after]) == _row_texts([(row[0], row[at]) for row in before]), (to, text)
    assert _row_texts(after) == _row_texts(before)
    assert done[0][1] == hit
    assert lake.cat[name].check(deep=True).ok


@pytest.mark.parametrize("kind", KINDS)
def test_each_expression_in_set_is_that_of_select(lake, kind):
    at = list(KINDS).index(kind)
    chosen = ALL if kind in ("append", "key") else ALL[at::4]
    assert len(ALL) >= 106
    assert len(ON) * len(CLAUSES) >= 40
    _set_all(lake, kind, chosen, where="pmod(k, 5) <> 1")


def test_what_differs_at_each_call_is_drawn_once_a_row(lake):
    name = lake.fresh("append")
    lake.sql(f"UPDATE {name} SET s = uuid(), d = rand()")
    rows = lake.sql(f"SELECT s, d FROM {name}")
    assert {len(text) for text, _ in rows} == {36}
    assert len({text for text, _ in rows}) == len({number for _, number in rows}) == 24
    assert all(0 <= number < 1 for _, number in rows)


def _of_its_rows(text: str) -> str:
    """The condition on the hundred rows that are its own, whose keys begin at any hundred."""
    text = text.replace("t.k", "pmod(t.k, 100)").replace("pmod(k, 2)", "pmod(pmod(k, 100), 2)")
    return f"pmod(k, 100){text[1:]}" if text.startswith("k ") else text


@pytest.mark.parametrize("kind", ["append", "vectors", "key", "key dynamic", "partial"])
def test_each_condition_of_delete_is_that_of_select(lake, kind):
    """Rows of its own for each condition: those for which it is true are gone. Subqueries stand alone, as Spark computes them."""
    at = list(KINDS).index(kind) % 5
    chosen = CONDITIONS if kind == "append" else CONDITIONS[at::4]
    assert len(CONDITIONS) >= 100
    source, made = lake.fresh("append"), lake.fresh(kind, {"c": "INT"}, rows=0)
    others = [key for key in COLUMNS if key != "k"]
    rows = f"SELECT t.k + c.id * 100, {', '.join(f't.{key}' for key in others)}, CAST(c.id AS INT) FROM {source} t, range({len(chosen)}) c"
    lake.sql(f"INSERT INTO {made} (k, {', '.join(others)}, c) {rows}")
    alone = [[number] for number, text in enumerate(chosen) if "SELECT" in text]
    plain = [number for number, text in enumerate(chosen) if "SELECT" not in text]
    deleted, before, wanted = 0, lake.sql(f"SELECT count(*) FROM {made}")[0][0], []
    for numbers in [*alone, *(plain[start : start + 32] for start in range(0, len(plain), 32))]:
        where = " OR ".join(f"(c = {number} AND ({_of_its_rows(chosen[number])}))" for number in numbers)
        own = f"c IN ({', '.join(map(str, numbers))})"
        wanted += lake.sql(f"SELECT c, k FROM {made} AS t WHERE {own}")
        hit = lake.sql(f"SELECT c, k FROM {made} AS t WHERE {own} AND ({where})")
        wanted = [row for row in wanted if row not in set(hit)]
        deleted += lake.sql(f"DELETE FROM {made} AS t WHERE {own} AND ({where})")[0][1]
    left = lake.sql(f"SELECT c, k FROM {made}")
    for number, text in enumerate(chosen):
        assert sorted(k for c, k in left if c == number) == sorted(k for c, k in wanted if c == number), text
    assert deleted == before - len(left)
    assert lake.cat[made].check(deep=True).ok


ON = [
    "t.k = s.k AND t.p = concat('p', pmod(s.k, 3))",
    "t.k = s.k AND coalesce(t.i, 1) > s.v - 5",
    "t.k = s.k",
    "t.k = s.k AND length(t.s) > 1",
    "t.k = s.k + 1",
    "t.k = s.k AND pmod(t.k, 2) = 0",
    "concat('', t.k) = concat('', s.k)",
    "t.k = s.k AND EXISTS (SELECT 1 FROM range(6) z WHERE z.id = s.k)",
]
SOURCE = "(SELECT CAST(id * 2 AS INT) AS k, CAST(id AS INT) AS v, concat(' w', id) AS w FROM range(15))"
CLAUSES = [
    ["WHEN MATCHED AND t.i + s.v > 3 THEN DELETE", "WHEN MATCHED THEN UPDATE SET s = concat_ws('/', t.s, s.w), n = s.v"],
    [
        "WHEN MATCHED AND upper(s.w) LIKE 'W%' THEN UPDATE SET i = abs(t.i) + s.v, r.b = lower(s.w)",
        "WHEN NOT MATCHED AND s.v % 2 = 0 THEN INSERT (k, p, s, i) VALUES (s.k + 500, concat('p', pmod(s.k, 3)), trim(s.w), plus_one(s.v))",
    ],
    [
        "WHEN NOT MATCHED THEN INSERT (k, p, s) VALUES (k + 500, 'p9', repeat(w, 2))",
        "WHEN NOT MATCHED BY SOURCE AND length(s) > 2 THEN UPDATE SET s = reverse(s), n = coalesce(n, 0) + 1",
    ],
    ["WHEN MATCHED THEN UPDATE SET s = CASE WHEN s.v > 2 THEN upper(s.w) ELSE t.s END", "WHEN NOT MATCHED BY SOURCE AND pmod(t.k, 2) = 1 THEN DELETE"],
    [
        "WHEN MATCHED AND s.v > (SELECT min(id) FROM range(2, 5)) THEN DELETE",
        "WHEN MATCHED AND true THEN UPDATE SET n = hash(s.w)",
        "WHEN NOT MATCHED THEN INSERT (k, p, n) VALUES (s.k + 500, 'p1', length(s.w))",
        "WHEN NOT MATCHED BY SOURCE AND t.k > 20 + 1 THEN DELETE",
    ],
]


def _merged(lake: Lake, name: str, on: str, clauses: list[str]) -> list[tuple]:
    """The rows (k, s, i, n, r.b) that a MERGE leaves, from Spark's SELECT of each clause by itself."""
    source = f"{SOURCE} AS s"
    own = {"k": "t.k", "s": "t.s", "i": "t.i", "n": "t.n", "b": "t.r.b"}
    table, parts = f"{name} AS t", []
    origins = {
        "MATCHED": f"{table} JOIN {source} ON {on}",
        "NEW": f"{source} LEFT ANTI JOIN {table} ON {on}",
        "ALONE": f"{table} LEFT ANTI JOIN {source} ON {on}",
    }
    passed: dict[str, list[str]] = {kind: [] for kind in origins}
    for clause in clauses:
        head, _, action = clause.partition(" THEN ")
        kind = "ALONE" if "BY SOURCE" in head else "NEW" if "NOT MATCHED" in head else "MATCHED"
        condition = head.split(" AND ", 1)[1] if " AND " in head else "true"
        where = " AND ".join([f"coalesce({condition}, false)", *(f"NOT coalesce({other}, false)" for other in passed[kind])])
        passed[kind].append(condition)
        if action == "DELETE":
            continue
        if kind == "NEW":
            names, values = action.removeprefix("INSERT (").removesuffix(")").split(") VALUES (")
            new = dict.fromkeys(own, "NULL") | dict(zip(names.split(", "), _commas(values), strict=True))
            new.pop("p")
        else:
            pairs = [pair.split(" = ", 1) for pair in _commas(action.removeprefix("UPDATE SET "))]
            new = own | {"b" if key == "r.b" else key: value for key, value in pairs}
        parts.append(f"SELECT {', '.join(new[key] for key in own)} FROM {origins[kind]} WHERE {where}")
    for kind in ("MATCHED", "ALONE"):
        acted = " OR ".join(f"coalesce({text}, false)" for text in passed[kind]) or "false"
        parts.append(f"SELECT {', '.join(own.values())} FROM {origins[kind]} WHERE NOT ({acted})")
    return lake.sql(" UNION ALL ".join(parts))


def _commas(text: str) -> list[str]:
    parts, depth = [""], 0
    for sign in text:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


@pytest.mark.parametrize("clauses", range(len(CLAUSES)))
@pytest.mark.parametrize("on", ON)
def test_each_form_of_merge_does_what_its_parts_select(lake, on, clauses):
    kinds = list(KINDS)
    kind = kinds[(ON.index(on) * len(CLAUSES) + clauses) % (len(kinds) - 1)]
    name = lake.fresh(kind)
    wanted = _merged(lake, name, on, CLAUSES[clauses])
    lake.sql(f"MERGE INTO {name} AS t USING {SOURCE} AS s ON {on} {' '.join(CLAUSES[clauses])}")
    assert _row_texts(lake.sql(f"SELECT k, s, i, n, r.b FROM {name}")) == _row_texts(wanted)
    assert lake.cat[name].check(deep=True).ok


WRONG = [
    ("UPDATE {} SET i = upper(s)", SchemaMismatch, "upper"),
    ("UPDATE {} SET i = trim(nope)", ColumnNotFound, "nope"),
    ("UPDATE {} SET i = nope(s)", InvalidOption, "nope"),
    ("UPDATE {} SET da = i + 1", SchemaMismatch, "CAST"),
    ("UPDATE {} SET i = l * 100000 WHERE l IS NOT NULL", ValueOutOfRange, "overflow"),
    ("UPDATE {} SET i = CAST(s AS INT)", ValueOutOfRange, "CAST"),
    ("UPDATE {} SET d = i / (k - k)", ValueOutOfRange, "zero"),
    ("UPDATE {} SET i = explode(ar)", LakekitError, "explode"),
    ("UPDATE {} SET i = max(i)", LakekitError, "max"),
    ("UPDATE {} SET i = row_number() OVER (ORDER BY k)", Unsupported, "subquery"),
    ("DELETE FROM {} WHERE trim(s)", SchemaMismatch, "trim"),
    ("DELETE FROM {} WHERE i = (SELECT id FROM range(3))", ValueOutOfRange, "ore than one row"),
    (
        "MERGE INTO {} t USING (SELECT 1 AS k FROM range(2)) s ON t.k = s.k AND length(t.p) > 0 WHEN MATCHED THEN UPDATE SET n = t.n + s.k",
        MergeConflict,
        "has such a row",
    ),
    ("MERGE INTO {} t USING (SELECT 1 AS k) s ON abs(k) = 1 WHEN MATCHED THEN DELETE", SchemaMismatch, "k"),
]


@pytest.mark.parametrize(("text", "error", "words"), WRONG, ids=[text for text, *_ in WRONG])
def test_what_spark_does_not_compute_is_one_sentence_and_changes_nothing(lake, text, error, words):
    for kind in ("append", "key"):
        name = lake.fresh(kind)
        before = lake.sql(f"SELECT count(*), sum(hash(k, p, s, i, l, d, b, da, n)) FROM {name}"), lake.cat[name].snapshots().height
        with pytest.raises(error, match=words) as told:
            lake.sql(text.format(name))
        assert len(str(told.value)) < 700
        assert "JVM" not in str(told.value)
        assert (lake.sql(f"SELECT count(*), sum(hash(k, p, s, i, l, d, b, da, n)) FROM {name}"), lake.cat[name].snapshots().height) == before


def test_what_spark_does_not_hold_is_kept(lake):
    """Nanoseconds of other columns, and of a column that another one gets."""
    for kind in ("append", "vectors", "key"):
        name = lake.fresh(kind, {"ns": "TIMESTAMP(9)", "to": "TIMESTAMP(9)"})
        lake.sql(f"UPDATE {name} SET ns = TIMESTAMP '2024-01-01 00:00:00.123456'")
        t = lake.cat[name]
        t.update({"ns": "TIMESTAMP '2024-01-01 00:00:00.123456789'"}, where="true")
        lake.sql(f"UPDATE {name} SET s = trim(s), to = ns WHERE pmod(k, 2) = 0")
        rows = t.scan().select("k", "ns", "to").collect()
        assert rows["ns"].dt.nanosecond().unique().to_list() == [123456789]
        assert [rows.filter(rows["k"] % 2 == odd)["to"].dt.nanosecond().unique().to_list() for odd in (0, 1)] == [[123456789], [None]]


def test_another_change_was_faster(lake, monkeypatch):
    from lakekit.spark import dml

    name = lake.fresh("append")
    collected = dml.collect_messages

    def slower(handle, answers):
        found = collected(handle, answers)
        lake.cat[name].delete("k = 4")
        return found

    monkeypatch.setattr(dml, "collect_messages", slower)
    with pytest.raises(Conflict):
        lake.sql(f"UPDATE {name} SET s = trim(s) WHERE length(p) > 0")
    assert lake.sql(f"SELECT count(*) FROM {name}") == [(23,)]


TEXTS = st.recursive(
    st.sampled_from(["s", "'ab'", "p", "CAST(NULL AS STRING)"]),
    lambda inner: st.one_of(
        st.builds("{}({})".format, st.sampled_from(["trim", "upper", "reverse", "initcap", "md5"]), inner),
        st.builds("concat({}, {})".format, inner, inner),
        st.builds("coalesce({}, {})".format, inner, inner),
        st.builds("substring({}, {}, 2)".format, inner, st.integers(-2, 3)),
    ),
    max_leaves=4,
)
NUMBERS = st.recursive(
    st.one_of(st.sampled_from(["i", "n", "k", "length(s)", "size(ar)", "r.a", "CAST(NULL AS INT)"]), st.integers(-3, 9).map(str)),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "&", "^"]), inner),
        st.builds("greatest({}, {})".format, inner, inner),
        st.builds("pmod({}, 5)".format, inner),
        st.builds("if({} > 1, {}, {})".format, inner, inner, inner),
    ),
    max_leaves=4,
)
TRUTHS = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, NUMBERS, st.sampled_from(["<", "=", ">=", "<=>"]), NUMBERS),
        st.builds("{} {} {}".format, TEXTS, st.sampled_from(["<", "=", "LIKE"]), TEXTS),
        st.builds("{} IS NULL".format, NUMBERS),
    ),
    lambda inner: st.one_of(st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner), st.builds("NOT ({})".format, inner)),
    max_leaves=4,
)


@seed(27)
@given(texts=st.lists(TEXTS, min_size=2, max_size=6), numbers=st.lists(NUMBERS, min_size=2, max_size=6), where=TRUTHS, kind=st.sampled_from(list(KINDS)))
@settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_a_drawn_expression_in_set_and_where_is_that_of_select(lake, texts, numbers, where, kind):
    kind = "key" if kind == "partial" else kind  # a NULL there keeps the older value, and is refused
    _set_all(lake, kind, [*(("STRING", text) for text in texts), *(("INT", text) for text in numbers)], where)
