"""Files of others as a table: what comes of folders, what stays where it was, and what is refused by the names of file and column before anything is made."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lakekit as lk
from lakekit.catalog.metastores.jdbc import JdbcMetastore
from lakekit.cli.main import EXIT_OK, EXIT_PROBLEM, main
from lakekit.errors import StorageFailed
from lakekit.maintenance import atomic_create, migrate as migration
from lakekit.storage.local import LocalStorage


@pytest.fixture
def cat(tmp_path):
    found = lk.connect(tmp_path / "house")
    found.create_database("db")
    return found


@pytest.fixture
def inside(tmp_path):
    """Lays files below a folder: a frame is Parquet, bytes are what they are."""

    def lay(**files):
        for name, held in files.items():
            path = tmp_path / "in" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(held, bytes):
                path.write_bytes(held)
            elif isinstance(held, pa.Table):
                pq.write_table(held, path)
            else:
                held.write_parquet(path)
        return tmp_path / "in"

    return lay


def lying(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def rows(table):
    return sorted(table.scan().collect().rows(), key=repr)


def test_a_folder_becomes_a_table(cat, inside):
    """Whatever files are called, and however deep they lie; what is hidden or empty is passed over, and what has no rows is no file of the table."""
    one, two = pl.DataFrame({"k": [1, 2], "v": ["a", None]}), pl.DataFrame({"v": ["c"], "k": [3]})
    names = {"part-0.snappy.parquet": one, "more/part-0.snappy.parquet": two, "000000_0": one.head(0), "000001_0": b"", "_SUCCESS": b"", ".part.crc": b"x"}
    folder = inside(**names, **{"_temporary/0/x.parquet": b"half", ".hidden/y.parquet": b"half"})
    before = lying(folder)
    table = cat.migrate(folder, "db.t")
    assert (table.name, cat.tables("db").rows()) == ("db.t", [("db", "t", "table")])
    assert rows(table) == [(1, "a"), (2, None), (3, "c")]
    facts = ("bucket", "level", "row_count", "min_sequence_number", "max_sequence_number", "source")
    assert sorted(table.files().select(facts).rows()) == [(0, 0, 1, 0, 0, "APPEND"), (0, 0, 2, 0, 1, "APPEND")]
    assert (table.options["bucket"], table.primary_keys, table.partition_keys) == ("-1", (), ())
    assert table.snapshots().select("snapshot_id", "kind", "delta_record_count").rows() == [(1, "APPEND", 3)]
    assert lying(folder) == before
    (folder / "part-0.snappy.parquet").write_bytes(b"written over in place")
    assert rows(table) == [(1, "a"), (2, None), (3, "c")], "a copy is nobody else's"
    assert table.check(deep=True).ok
    assert cat.migrate(str(folder / "more/part-0.snappy.parquet"), "db.one").scan().collect().rows() == [("c", 3)], "a single file too"
    assert rows(cat.migrate(f"file://{folder}/more", "db.url")) == [("c", 3)]


def test_files_without_rows_make_an_empty_table(cat, inside):
    table = cat.migrate(inside(**{"p=1/x": pl.DataFrame(schema={"k": pl.Int8})}), "db.t")
    assert (table.snapshots().height, {name: str(t) for name, t in table.schema.to_polars().items()}) == (0, {"k": "Int8", "p": "Int32"})
    table.append([{"k": 1, "p": 2}])
    assert rows(table) == [(1, 2)]


def test_what_polars_writes(cat, tmp_path):
    """Categories are texts, and an Avro record without a name is one all the same; an Enum, which Polars reads as nothing else, is refused."""
    (tmp_path / "in").mkdir()
    frame = pl.DataFrame({"c": ["a", None], "l": [["a"], []]}, schema={"c": pl.Categorical, "l": pl.List(pl.Categorical)})
    frame.write_parquet(tmp_path / "in" / "a.parquet")
    pl.DataFrame({"c": ["b"]}).write_avro(tmp_path / "in" / "b.avro")
    table = cat.migrate(tmp_path / "in", "db.t")
    assert {field.name: str(field.type) for field in table.schema.fields} == {"c": "STRING", "l": "ARRAY<STRING>"}
    assert rows(table) == [("a", ["a"]), ("b", None), (None, [])]
    assert table.check(deep=True).ok
    pl.DataFrame({"e": ["x"]}, schema={"e": pl.Enum(["x"])}).write_parquet(tmp_path / "in" / "e.parquet")
    with pytest.raises(lk.SchemaMismatch, match=r"e\.parquet: Polars does not read its columns as Paimon's: .*Enum"):
        cat.migrate(tmp_path / "in", "db.u")


# ---- partitions ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts, given, wanted, values",
    [
        (["1", "-20"], None, "INT", [1, -20]),
        (["1", "3000000000"], None, "BIGINT", [1, 3_000_000_000]),
        (["01", "2"], None, "STRING", ["01", "2"]),
        (["1", "+2"], None, "STRING", ["1", "+2"]),
        (["1", "9999999999999999999"], None, "STRING", ["1", "9999999999999999999"]),
        (["2024-02-29", "1999-01-01"], None, "DATE", [dt.date(2024, 2, 29), dt.date(1999, 1, 1)]),
        (["2023-02-29", "1999-01-01"], None, "STRING", ["2023-02-29", "1999-01-01"]),
        (["1.5", "2"], None, "STRING", ["1.5", "2"]),
        (["__HIVE_DEFAULT_PARTITION__", "7"], None, "INT", [None, 7]),
        (["__HIVE_DEFAULT_PARTITION__"], None, "STRING", [None]),
        (["a%2Fb", "%C3%A9=é", "50%"], None, "STRING", ["a/b", "é=é", "50%"]),
        (["01", "2"], "SMALLINT", "SMALLINT", [1, 2]),
        (["2024-01-02", "19725"], pl.Date, "DATE", [dt.date(2024, 1, 2), dt.date(2024, 1, 3)]),
        (["true", "FALSE"], "BOOLEAN", "BOOLEAN", [True, False]),
        (["1.50", "2"], "DECIMAL(5, 2)", "DECIMAL(5, 2)", [Decimal("1.50"), Decimal("2.00")]),
        (["2024-01-02 03:04:05"], "TIMESTAMP(3)", "TIMESTAMP(3)", [dt.datetime.fromisoformat("2024-01-02T03:04:05")]),
    ],
)
def test_folders_say_values_and_nothing_is_lost(cat, inside, texts, given, wanted, values):
    """Types are inferred only where a text is just what its value prints as; they may be named."""
    folder = inside(**{f"p={text}/x.parquet": pl.DataFrame({"k": [at]}) for at, text in enumerate(texts)})
    table = cat.migrate(folder, "db.t", partition_types={} if given is None else {"p": given})
    assert (table.partition_keys, str(table.schema.fields[-1].type)) == (("p",), wanted)
    assert table.scan().sort("k").collect()["p"].to_list() == values
    for value in values:
        condition = pl.col("p").is_null() if value is None else pl.col("p") == value
        assert table.scan().filter(condition).collect()["p"].to_list() == [value]
    assert table.check(deep=True).ok


def test_a_partition_column_that_files_hold_too(cat, inside, tmp_path):
    frame = pl.DataFrame({"day": [dt.date(2024, 1, 1), dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "k": [1, 2, 3], "n": pl.Series([1, 1, 2], dtype=pl.Int8)})
    frame.write_parquet(pl.PartitionBy(tmp_path / "in", key=["day", "n"]), mkdir=True)
    table = cat.migrate(tmp_path / "in", "db.t")
    assert {field.name: str(field.type) for field in table.schema.fields} == {"k": "BIGINT", "day": "DATE", "n": "TINYINT"}
    assert rows(table) == sorted(((k, day, n) for day, k, n in frame.rows()), key=repr)
    wrong = pl.DataFrame({"day": [dt.date(2024, 1, 1), dt.date(2024, 1, 9)], "k": [1, 2]})
    folder = inside(**{"../other/day=2024-01-01/x.parquet": wrong}).parent / "other"
    with pytest.raises(lk.SchemaMismatch, match=r"day=2024-01-01/x\.parquet: rows have another value in column day than their folder says") as caught:
        cat.migrate(folder, "db.u")
    assert caught.value.column == "day"
    assert not cat.exists("db.u")


def test_partition_columns_are_there_whatever_is_done(cat, inside):
    """Files do not hold them: they are read, filtered with others, changed, compacted and followed all the same."""
    files = {f"p={p}/q={q}/{k}.parquet": pl.DataFrame({"k": [k, k + 10]}) for k, (p, q) in enumerate([("a", 1), ("b", 1), ("b", 2)])}
    table = cat.migrate(inside(**files, **{"p=__HIVE_DEFAULT_PARTITION__/q=3/n.parquet": pl.DataFrame({"k": [7]})}), "db.t")
    expected = [(0, "a", 1), (1, "b", 1), (10, "a", 1), (11, "b", 1), (12, "b", 2), (2, "b", 2), (7, None, 3)]
    assert rows(table) == sorted(expected, key=repr)
    assert table.scan().filter((pl.col("p") == "b") | (pl.col("k") > 9)).collect().height == 5
    assert table.scan().select("q").sum().collect().item() == 11
    assert table.scan().group_by("p").len().sort("p").collect().rows() == [(None, 1), ("a", 2), ("b", 4)]
    assert sorted(table.scan(raw=True).select("k", "p", "q").collect().rows(), key=repr) == sorted(expected, key=repr)
    assert sorted(table.changes(0).select("k", "p", "q").collect().rows(), key=repr) == sorted(expected, key=repr)
    table.append([{"k": 100, "p": "a", "q": 1}])
    table.delete("p = 'b' AND k = 1")
    table.update({"k": pl.col("k") + 1000}, where="q = 2 AND k = 2")
    now = [(0, "a", 1), (10, "a", 1), (100, "a", 1), (1002, "b", 2), (11, "b", 1), (12, "b", 2), (7, None, 3)]
    assert rows(table) == sorted(now, key=repr)
    table.compact(full=True)
    table.compact(order_by=["k"])
    assert rows(table) == sorted(now, key=repr)
    assert table.check(deep=True).ok
    assert rows(cat.clone("db.t", "db.u")) == rows(table)


# ---- statistics ----------------------------------------------------------------------------------------------------------------------------


def test_bounds_leave_files_out_and_never_a_row(cat, inside):
    """A footer's bounds of real numbers pass over a NaN, and texts may be cut: such columns are read."""
    frames = {
        f"{at}.parquet": pl.DataFrame({"k": [at, at + 1], "f": [float(at), float("nan") if at == 20 else at + 0.5], "s": [f"{at:02}" * 60, None]})
        for at in (10, 20, 30)
    }
    table = cat.migrate(inside(**frames), "db.t")
    assert table.explain(pl.col("k") == 11).files_read == 1
    assert table.explain(pl.col("s").is_null()).files_read == 3
    assert table.explain(pl.col("f") == 30.5).files_read == 2, "the one with a NaN has no bounds"
    assert table.scan().filter(pl.col("f") > 40).collect().height == 1, "a NaN is greater than any number"
    assert table.scan().filter(pl.col("s") == "20" * 60).collect().height == 1
    with_none = cat.migrate(inside(), "db.u", options={"metadata.stats-mode": "none"})
    assert with_none.explain(pl.col("k") == 11).files_read == 3
    assert with_none.scan().collect().height == 6


# ---- moved ---------------------------------------------------------------------------------------------------------------------------------


def test_moved_files_leave_nothing_but_what_is_not_theirs(cat, inside):
    frame = pl.DataFrame({"k": [1]})
    folder = inside(
        **{"p=1/x.parquet": frame, "p=1/.x.parquet.crc": b"x", "p=2/y.parquet": frame, "p=2/notes/.mine": b"mine", "p=3/empty": b"", "_SUCCESS": b""}
    )
    number = (folder / "p=1/x.parquet").stat().st_ino
    table = cat.migrate(folder, "db.t", move=True)
    assert rows(table) == [(1, 1), (1, 2)]
    assert lying(folder) == {"p=2/notes/.mine": b"mine"}
    assert sorted(path.name for path in folder.iterdir()) == ["p=2"]
    assert number in {path.stat().st_ino for path in Path(table.location).rglob("*.parquet")}, "no byte was copied"
    assert table.check(deep=True).ok
    other = inside(**{"../more/z.parquet": frame}).parent / "more"
    cat.migrate(other, "db.u", move=True)
    assert not other.exists()


def test_a_file_that_cannot_be_taken_away_is_told(cat, inside, monkeypatch):
    folder = inside(**{"x.parquet": pl.DataFrame({"k": [1]})})

    def refuse(self, paths):
        if any(path.startswith(str(folder)) for path in paths):
            raise StorageFailed("no", path=str(folder))

    monkeypatch.setattr(LocalStorage, "delete", refuse)
    with pytest.warns(UserWarning, match=r"db\.t has all rows, but not all files could be taken away"):
        table = cat.migrate(folder, "db.t", move=True)
    assert rows(table) == [(1,)]


@pytest.mark.parametrize("move", [False, True])
def test_a_file_that_somebody_still_writes(cat, inside, monkeypatch, move):
    folder = inside(a=ONE)

    def late(function):
        def slow(storage, path, to, target):
            Path(path).write_bytes(Path(path).read_bytes() + b"more")
            return function(storage, path, to, target)

        return slow

    monkeypatch.setattr(atomic_create, "copy_file", late(atomic_create.copy_file))
    monkeypatch.setattr(migration, "hard_link", late(migration.hard_link))
    with pytest.raises(StorageFailed, match=r"/a changed while it was taken over\. Nothing was made"):
        cat.migrate(folder, "db.t", move=move)
    assert not cat.exists("db.t")
    assert list(Path(cat.warehouse, "db.db").iterdir()) == []
    assert (folder / "a").exists()


def test_links_that_lead_out_of_the_folder_are_refused(cat, inside, tmp_path):
    folder = inside(**{"../elsewhere/x.parquet": pl.DataFrame({"k": [1]})})
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "x.parquet").symlink_to(tmp_path / "elsewhere" / "x.parquet")
    with pytest.raises(StorageFailed, match=r"x\.parquet\" is refused: it is a link"):
        cat.migrate(folder, "db.t", move=True)
    assert (tmp_path / "elsewhere" / "x.parquet").exists()
    assert "db.t" not in cat


def test_links_within_the_folder_are_copied(cat, inside, tmp_path):
    folder = inside(**{".hidden/x.parquet": pl.DataFrame({"k": [1]})})
    (tmp_path / "in" / "x.parquet").symlink_to(tmp_path / "in" / ".hidden" / "x.parquet")
    table = cat.migrate(folder, "db.t", move=True)
    assert rows(table) == [(1,)]
    assert (tmp_path / "in" / ".hidden" / "x.parquet").exists()
    assert not any(path.is_symlink() for path in Path(table.location).rglob("*"))


# ---- format tables -------------------------------------------------------------------------------------------------------------------------


def test_a_format_table_by_name_or_as_it_is(cat, tmp_path):
    columns = {"k": "BIGINT", "v": "STRING", "p": "STRING"}
    table = cat.create_format_table("db.f", columns, format="parquet", partition_keys=["p"], options={"format-table.partition-path-only-value": "true"})
    table.append([{"k": k, "v": None, "p": f"{k % 2}"} for k in range(4)])
    expected = rows(table)
    assert rows(cat.migrate("db.f", "db.t")) == rows(cat.migrate(table, "db.u")) == expected
    moved = cat.migrate(cat["db.f"], "db.m", move=True)
    assert rows(moved) == expected
    assert rows(cat["db.f"]) == [], "which stays, and is empty"
    assert not list(Path(table.location).rglob("*.parquet"))
    cat.create_format_table("db.lines", {"a": "STRING"}, format="csv")
    cat.create_table("db.own", {"a": "INT"})
    for source, why in (("db.lines", "is a format table of csv files"), ("db.own", "is no format table"), (cat["db.own"], "cat.clone copies tables")):
        with pytest.raises(lk.Unsupported, match=why):
            cat.migrate(source, "db.x")
    pq.write_table(pa.table({"k": ["text"]}), Path(table.location) / "wrong.parquet")
    with pytest.raises(lk.InvalidOption, match="says itself which types"):
        cat.migrate("db.f", "db.x", partition_types={"p": "INT"})
    narrow = cat.create_format_table("db.narrow", {"k": "INT"}, format="parquet", location=str(tmp_path / "narrow"))
    (tmp_path / "narrow").mkdir()
    pq.write_table(pa.table({"k": [1 << 40]}), tmp_path / "narrow" / "x.parquet")
    with pytest.raises(lk.SchemaMismatch, match=r"x\.parquet: column k holds BIGINT, and the format table says INT"):
        cat.migrate(narrow, "db.x")


# ---- refused -------------------------------------------------------------------------------------------------------------------------------

ONE = pl.DataFrame({"k": [1]})
REFUSED = {
    "no folder": ({}, {}, lk.NotFound, "there is nothing at"),
    "no files": ({"_SUCCESS": b"", "x.parquet": b""}, {}, lk.NotFound, "holds no files of rows"),
    "a text": ({"a.parquet": ONE, "b.csv": b"a,b\n"}, {}, lk.Corrupt, r"b\.csv is no Parquet, ORC or Avro file: it begins with b'a,b"),
    "cut off": ({"a.parquet": ONE, "b.parquet": b"PAR1 and nothing more"}, {}, lk.Corrupt, r"b\.parquet is no whole Parquet file"),
    "broken footer": ({"b": b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1"}, {}, lk.Corrupt, "/b: "),
    "broken orc": ({"b": b"ORC" + b"\x00" * 20}, {}, lk.Corrupt, "/b: it has no ORC postscript"),
    "broken avro": ({"b": b"Obj\x01\x00"}, {}, lk.Corrupt, "/b: "),
    "two types": ({"a": ONE, "b": pl.DataFrame({"k": ["x"]})}, {}, lk.SchemaMismatch, r"column k is STRING in .*/b and BIGINT in .*/a, and no type holds both"),
    "two rows": (
        {"a": pl.DataFrame({"r": [{"x": 1}]}), "b": pl.DataFrame({"r": [{"x": 1, "y": 2}]})}, {}, lk.SchemaMismatch, "column r is ROW<`x` BIGINT, `y` BIGINT>"
    ),
    "capitals": ({"a": ONE, "b": pl.DataFrame({"K": [1]})}, {}, lk.SchemaMismatch, "columns k and K differ in nothing but capitals"),
    "unsigned": ({"a": pl.DataFrame({"k": [1]}, schema={"k": pl.UInt32})}, {}, lk.SchemaMismatch, "/a: column k holds unsigned numbers of 32 bits"),
    "inside": ({"a": pl.DataFrame({"r": [[1]]}, schema={"r": pl.List(pl.UInt64)})}, {}, lk.SchemaMismatch, r"column r\.element holds unsigned"),
    "nanoseconds": ({"a": pa.table({"t": pa.array([1], pa.timestamp("ns"))})}, {}, lk.SchemaMismatch, "column t holds timestamps in nanoseconds"),
    "times": ({"a": pa.table({"t": pa.array([1], pa.time64("us"))})}, {}, lk.SchemaMismatch, "column t holds times of day in microseconds"),
    "halves": ({"a": pa.table({"t": pa.array([1], pa.float16())})}, {}, lk.SchemaMismatch, "column t holds floats of 16 bits"),
    "nothing": ({"a": pl.DataFrame({"t": [None]})}, {}, lk.SchemaMismatch, "column t holds nothing but nulls and has no type"),
    "fixed lists": ({"a": pa.table({"t": pa.array([[1, 2]], pa.list_(pa.int32(), 2))})}, {}, lk.SchemaMismatch, "Polars does not read its columns as Paimon's"),
    "other folders": ({"p=1/a": ONE, "b": ONE}, {}, lk.SchemaMismatch, "lies in partitions by"),
    "other keys": ({"p=1/a": ONE, "q=1/b": ONE}, {}, lk.SchemaMismatch, "lies in partitions by q, .* by p; a table has one kind"),
    "twice": ({"p=1/p=2/a": ONE}, {}, lk.SchemaMismatch, "lies in two partitions of one column"),
    "blank": ({"p=/a": ONE}, {}, lk.SchemaMismatch, "whose p is blank"),
    "no value": ({"p=x/a": ONE}, {"partition_types": {"p": "INT"}}, lk.SchemaMismatch, "partition column p is INT, and 'x' is no INT"),
    "no column": ({"p=x/a": ONE}, {"partition_types": {"q": "INT"}}, lk.SchemaMismatch, "q is no partition column of the folders; they are p"),
    "nothing beside": ({"k=1/a": ONE}, {}, lk.SchemaMismatch, "has no column beside those of its partition"),
    "delta": ({"_delta_log/0.json": b"{}", "a": ONE}, {}, lk.Unsupported, "is a table of Delta Lake"),
    "iceberg": ({"metadata/v1.metadata.json": b"{}", "data/a": ONE}, {}, lk.Unsupported, "is a table of Iceberg"),
    "hudi": ({".hoodie/x": b"", "a": ONE}, {}, lk.Unsupported, "is a table of Hudi"),
    "transactional": ({"delta_0000001_0000001_0000/bucket_00000": b"ORC"}, {}, lk.Unsupported, "is of a transactional table of Hive"),
    "buckets": ({"a": ONE}, {"options": {"bucket": "4"}}, lk.InvalidOption, "into an append table with bucket=-1"),
    "keys": ({"a": ONE}, {"options": {"primary-key": "k"}}, lk.InvalidOption, "primary-key=k would have their rows written anew"),
    "an option": ({"a": ONE}, {"options": {"no.such": "x", "merge-engine": "none"}}, lk.InvalidOption, "merge-engine"),
}  # fmt: skip


@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_leaves_everything_as_it_was(cat, inside, tmp_path, what, move):
    files, given, kind, why = REFUSED[what]
    inside(**files)
    before = lying(tmp_path)
    with pytest.raises(kind, match=why):
        cat.migrate(tmp_path / "in", "db.t", move=move, **given)
    assert lying(tmp_path) == before
    assert not cat.exists("db.t")


@pytest.mark.parametrize("codec, why", [("brotli", "compressed by BROTLI"), (None, "BYTE_STREAM_SPLIT")])
def test_bytes_that_the_reference_does_not_read(cat, inside, codec, why):
    folder = inside(a=ONE)
    split = {"use_dictionary": False, "column_encoding": {"k": "BYTE_STREAM_SPLIT"}} if codec is None else {"compression": codec}
    pq.write_table(pa.table({"k": [1.5]}), folder / "a", **split)
    with pytest.raises(lk.Unsupported, match=f"/a: .*{why}"):
        cat.migrate(folder, "db.t")


def test_avro_unions_that_the_reference_does_not_read(cat, inside):
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["long", "null"]}]}).encode()
    head = b"Obj\x01\x02\x16avro.schema" + bytes([len(schema) * 2 & 0x7F | 0x80, len(schema) * 2 >> 7]) + schema + b"\x00" + bytes(16)
    with pytest.raises(lk.SchemaMismatch, match="column a is a union other than of null, first, and one type"):
        cat.migrate(inside(a=head), "db.t")


def test_names_and_places_that_are_taken(cat, inside, tmp_path):
    folder = inside(a=ONE)
    cat.migrate(folder, "db.t")
    for name, kind, why in (
        ("db.t", lk.TableAlreadyExists, "nothing was taken over; choose another name"),
        ("none.t", lk.DatabaseNotFound, "no database 'none'"),
        ("db.x$files", lk.InvalidOption, "system table"),
        ("x", lk.InvalidOption, "no name of a table"),
    ):
        with pytest.raises(kind, match=why):
            cat.migrate(folder, name)
    left = tmp_path / "house" / "db.db" / "x" / "a.parquet"
    left.parent.mkdir()
    ONE.write_parquet(left)
    with pytest.raises(StorageFailed, match=r"holds a\.parquet already, though no table is known there"):
        cat.migrate(left.parent, "db.x")
    with pytest.raises(lk.Unsupported, match="is a table of Paimon already"):
        cat.migrate(cat["db.t"].location, "db.y")


def test_a_name_that_cannot_be_kept_leaves_no_files(inside, tmp_path, monkeypatch):
    folder = inside(a=ONE)
    other = lk.connect(tmp_path / "other", metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    other.create_database("db")
    before = lying(folder)

    def refuse(*_):
        raise StorageFailed("no", path="names.db")

    with monkeypatch.context() as patched:
        patched.setattr(JdbcMetastore, "_insert_table", refuse)
        with pytest.raises(StorageFailed):
            other.migrate(folder, "db.t", move=True)
    assert lying(folder) == before
    assert not (tmp_path / "other" / "db.db" / "t").exists()
    assert rows(other.migrate(folder, "db.t", move=True)) == [(1,)]
    assert other.tables("db").rows() == [("db", "t", "table")]


def test_options_and_instants_of_orc(cat, inside):
    folder = inside()
    folder.mkdir(exist_ok=True)
    orc.write_table(pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))}), folder / "x")
    table = cat.migrate(folder, "db.t", options={"snapshot.time-retained": "2 h"})
    assert (table.options["file.format"], table.options["snapshot.time-retained"]) == ("orc", "2 h")
    assert table.options["orc.timestamp-ltz.legacy.type"] == "false", "else Java reads true instants as wall clocks of its zone"


def test_files_come_where_options_say(cat, inside):
    table = cat.migrate(inside(**{"p=1/a": ONE}), "db.t", options={"data-file.path-directory": "rows", "metadata.stats-dense-store": "true"})
    assert [str(path.relative_to(table.location)).rpartition("/")[0] for path in Path(table.location).rglob("*.parquet")] == ["rows/p=1/bucket-0"]
    assert rows(table) == [(1, 1)]
    assert table.check(deep=True).ok
    with pytest.raises(lk.Unsupported, match="row-tracking"):
        cat.migrate(inside(), "db.u", options={"row-tracking.enabled": "true"})


# ---- other doors ---------------------------------------------------------------------------------------------------------------------------


def test_by_a_call_in_sql(cat, inside):
    folder = inside(**{"p=1/a": ONE})
    told = cat.sql(f"CALL sys.migrate_table(source_type => 'files', table => '{folder}', target_table => 'db.t', options => 'snapshot.time-retained=2 h')")
    assert told.rows() == [(True,)]
    assert rows(cat["db.t"]) == [(1, 1)]
    assert lying(folder), "the source stays, unless delete_origin says otherwise"
    cat.sql(f"USE db; CALL sys.migrate_table('files', '{folder}', NULL, 'u', true)")
    assert rows(cat["db.u"]) == [(1, 1)]
    assert not folder.exists()
    with pytest.raises(lk.Unsupported, match="source_type => 'files'"):
        cat.sql("CALL sys.migrate_table('hive', 'db.t', NULL, 'db.v')")
    with pytest.raises(lk.InvalidOption, match="parallelism 0"):
        cat.sql("CALL sys.migrate_table(source_type => 'files', table => '/x', target_table => 'db.v', parallelism => 0)")


def test_from_the_shell(cat, inside, capsys):
    folder = inside(**{"p=01/a": ONE, "p=2/a": ONE})
    assert main(["migrate", cat.warehouse, str(folder), "db.t", "--partition-types", "p=INT", "--format", "table"]) == EXIT_OK
    assert capsys.readouterr().out == f"db.t · 2 files, 2 rows copied from {folder}, at {cat.warehouse}/db.db/t\n"
    assert rows(cat["db.t"]) == [(1, 1), (1, 2)]
    assert main(["migrate", cat.warehouse, str(folder), "db.u", "--move", "--format", "json"]) == EXIT_OK
    assert not folder.exists()
    assert main(["migrate", cat.warehouse, str(folder), "db.t"]) == EXIT_PROBLEM
    assert main(["migrate", cat.warehouse, str(folder), "db.v"]) == EXIT_PROBLEM
