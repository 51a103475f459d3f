"""Tables in an object store, through everything a user touches: what is written there reads back, in few requests, whatever the store answers meanwhile."""

from __future__ import annotations

import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.cli import main
from lakekit.errors import CommitStateUnknown, Corrupt, LakekitError, StorageFailed, TableNotFound, Unsupported
from lakekit.storage.protocol import FileMissing
from lakekit.testing.fixtures import fixtures
from spec_tests.longer import some
from spec_tests.reliability.s3_server import ACCESS_KEY, SECRET_KEY, Asked, S3Server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("impatience")

ROWS = pl.DataFrame({"k": [1, 2, 3, 4], "p": ["a", "a%/b c", "a", "é"], "v": ["x", "y", "z", None]})
COLUMNS = {"k": "BIGINT", "p": "STRING", "v": "STRING"}


def made(server: S3Server, key: str = "w/d.db/t", **options: str) -> lk.Table:
    return lk.create(
        server.url(key), COLUMNS, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": "1", **options}, storage_options=server.options
    )


def copied(server: S3Server, folder: Path, key: str = "") -> None:
    """The bucket as a folder."""
    for name in server.keys(key):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(server.data(name))


# ---- reading and writing --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("file_format", some(["parquet", "orc", "avro"], 3))
def test_a_table_lives_in_a_store(file_format: str, server: S3Server, tmp_path: Path) -> None:
    t = made(server, **{"file.format": file_format})
    t.upsert(ROWS)
    t.upsert(ROWS.with_columns(v=pl.lit("new")).head(2))
    t.delete(pl.col("k") == 3)
    wanted = pl.DataFrame({"k": [1, 2, 4], "p": ["a", "a%/b c", "é"], "v": ["new", "new", None]})
    assert_frame_equal(t.scan().sort("k").collect(), wanted)
    t.compact(full=True)
    again = pickle.loads(pickle.dumps(lk.open(server.url("w/d.db/t"), storage_options=server.options)))
    assert again.location == server.url("w/d.db/t")
    assert_frame_equal(again.scan().sort("k").collect(), wanted)
    assert_frame_equal(again.scan().filter(pl.col("p") == "a%/b c").collect(), wanted.slice(1, 1))
    assert_frame_equal(again.scan(at=1).sort("k").collect(), ROWS)
    assert again.scan(raw=True).collect().height == 3
    assert again.check(deep=True).ok
    copied(server, tmp_path)
    local = lk.open(tmp_path / "w/d.db/t")
    assert_frame_equal(local.scan().sort("k").collect(), wanted)
    assert local.check(deep=True).ok


@pytest.mark.long
@pytest.mark.parametrize("kind", some(["azure", "gs"], 2))
def test_a_table_lives_in_other_stores(kind: str) -> None:
    with S3Server(kind=kind) as other:
        t = made(other)
        t.upsert(ROWS)
        t.upsert(ROWS.head(2))
        assert_frame_equal(t.scan().sort("k").collect(), ROWS)
        t.compact(full=True)
        assert_frame_equal(lk.open(t.location, storage_options=other.options).scan().filter(pl.col("k") == 2).collect(), ROWS.slice(1, 1))
        assert t.check(deep=True).ok


def test_tables_by_name(server: S3Server) -> None:
    cat = lk.connect(server.url("w"), storage_options=server.options)
    made(server).upsert(ROWS)
    assert cat.databases() == ["d"]
    assert cat.tables(details=True).select("database", "table", "kind", "row_count").rows() == [("d", "t", "table", 4)]
    assert cat["d.t"].scan().collect().height == 4
    assert cat["d.t$files"].scan().collect().height == 3
    assert "d.none" not in cat
    with pytest.raises(TableNotFound, match="its tables are t"):
        cat["d.none"]
    other = cat.create_table("d.other", {"a": "INT"})
    other.append(pl.DataFrame({"a": [1]}, schema={"a": pl.Int32}))
    assert cat.tables("d")["table"].to_list() == ["other", "t"]
    for shown in (repr(cat), cat._repr_html_(), repr(other), other._repr_html_(), repr(cat.tables())):
        assert SECRET_KEY not in shown
        assert ACCESS_KEY not in shown


def test_a_catalog_in_a_store_makes_and_drops_and_renames_nothing(server: S3Server) -> None:
    cat = lk.connect(server.url("w"), storage_options=server.options)
    cat.create_database("empty")
    assert cat.databases() == ["empty"]
    assert cat.tables("empty").is_empty()
    t = cat.create_table("empty.t", COLUMNS)
    t.append(ROWS)
    with pytest.raises(Unsupported, match="cannot be renamed") as raised:
        cat.rename_table("empty.t", "empty.u")
    assert raised.value.feature == "storage.rename"
    assert cat["empty.t"].scan().collect().height == 4
    cat.drop_table("empty.t")
    assert server.keys("w/empty.db/t/") == []
    assert cat.tables("empty").is_empty()
    cat.drop_database("empty")
    assert server.keys("w/") == []


@pytest.mark.long
def test_files_elsewhere_in_a_store_are_reached_with_the_same_options(server: S3Server) -> None:
    cat = lk.connect(server.url("w"), storage_options=server.options)
    cat.create_database("d")
    server.buckets["other"] = {}
    server.put("pictures/a.png", b"12345")
    pictures = cat.create_object_table("d.o", location=server.url("pictures"))
    pictures.refresh()
    assert pictures.scan().select(pl.col("path").str.ends_with("a.png"), "length").collect().rows() == [(True, 5)]
    t = cat.create_format_table("d.f", {"a": "BIGINT"}, format="csv", location="s3://other/csv")
    t.append(pl.DataFrame({"a": [1, 2]}))
    assert all(key.startswith("csv/") for key in server.buckets["other"])
    assert cat["d.f"].scan().collect()["a"].to_list() == [1, 2]


def test_a_place_without_a_table_is_told(server: S3Server) -> None:
    server.put("w/file", b"1")
    for key, told in (("w", "it has no schema/ folder"), ("none", "there is no such folder"), ("w/file", "it is a file")):
        with pytest.raises(TableNotFound, match=told):
            lk.open(server.url(key), storage_options=server.options)


@pytest.mark.parametrize("every", [59, pytest.param(3, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.deep)])
def test_golden_tables_read_as_from_a_folder(every: int, server: S3Server) -> None:
    root = fixtures() / "tables"
    folders = sorted(path.parent.parent for path in root.rglob("schema/schema-0") if "branch-" not in str(path))
    for folder in folders[::every]:
        key = str(folder.relative_to(root))
        for path in folder.rglob("*"):
            if path.is_file():
                server.put(f"{key}/{path.relative_to(folder)}", path.read_bytes())
        assert _read(lk.open, folder) == _read(lk.open, server.url(key), storage_options=server.options), key


def _read(how: object, *where: object, **options: object) -> tuple[str, object]:
    """The rows, in order, or the error."""
    try:
        frame = how(*where, **options).scan().collect()  # type: ignore[operator]
    except LakekitError as refused:
        return type(refused).__name__, None
    return "rows", frame.to_init_repr() if frame.height < 50 else (frame.height, frame.hash_rows().sort().to_list() if not frame.is_empty() else None)


def test_bytes_of_a_file_in_a_store_are_named(server: S3Server) -> None:
    t = made(server)
    t.upsert(ROWS)
    name = next(key for key in server.keys("w/d.db/t/manifest/") if "manifest-list" not in key)
    shown = lk.hex(server.url(name), storage_options=server.options)
    assert shown.error is None
    assert "_PARTITION" in " ".join(shown.open().marks["field"].to_list())
    server.put("alone", server.data(name))
    assert lk.hex(server.url("alone"), format="manifest", storage_options=server.options).error is None
    assert SECRET_KEY not in repr(shown)


# ---- requests ----------------------------------------------------------------------------------------------------------------------------------------------


def test_reading_takes_few_requests(server: S3Server) -> None:
    t = made(server)
    for _ in range(3):
        t.upsert(ROWS)
    files = 3 * 3
    server.forget()
    t = lk.open(server.url("w/d.db/t"), storage_options=server.options)
    assert server.count() <= 2, "the schemas' list, and the newest"
    server.forget()
    t.scan().collect()
    assert server.count("HEAD", "PUT", "POST", "DELETE") == 0
    assert server.count("LIST") <= 7
    assert server.count("GET") <= 1 + files, "the snapshot, and each file once; lists and manifests are known from writing"
    server.forget()
    t.scan().filter(pl.col("p") == "é").collect()
    assert server.count("GET") <= 3
    server.forget()
    assert t.scan().select(pl.len()).collect().item() == 4
    server.forget()
    t.snapshots()
    assert server.count("LIST") <= 3
    assert server.count() <= 6


def test_writing_takes_few_requests(server: S3Server) -> None:
    t = made(server)
    server.forget()
    t.upsert(ROWS.head(1))
    assert server.count("PUT") <= 1 + 3 + 1 + 2, "a data file; delta list, base list, manifest; snapshot; two hints"
    assert server.count("GET", "HEAD") <= 3
    assert server.count("LIST") <= 9, "schemas, snapshots, and what expiry looks at: tags, consumers"


@pytest.mark.long
def test_a_column_of_a_large_file_is_read_alone(server: S3Server) -> None:
    t = lk.create(server.url("wide"), {"a": "BIGINT", "b": "STRING"}, storage_options=server.options)
    t.append(pl.DataFrame({"a": range(100_000), "b": [hashlib.md5(b"%d" % at).hexdigest() for at in range(100_000)]}))
    [key] = server.keys("wide/bucket-0/")
    size = len(server.data(key))
    assert size > 1 << 20
    server.forget()
    assert t.scan().select(pl.col("a").sum()).collect().item() == 4_999_950_000
    moved = 0
    for asked in server.requests:
        if asked.key == key:
            first, _, last = asked.range.removeprefix("bytes=").partition("-")
            moved += int(last) if not first else int(last) - int(first) + 1
    assert moved < size / 2


@pytest.mark.long
def test_footers_are_looked_at_alone(server: S3Server) -> None:
    rows = pl.DataFrame({"k": range(60_000), "v": [hashlib.md5(b"%d" % at).hexdigest() for at in range(60_000)]})
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "parquet.writer.version": "PARQUET_2_0", "target-file-size": "1 mb"}
    t = lk.create(server.url("dv"), {"k": "BIGINT", "v": "STRING"}, primary_keys=["k"], options=options, storage_options=server.options)
    t.upsert(rows)
    t.delete(pl.col("k").is_in([1, 59_000]))
    files = {key for key in server.keys("dv/bucket-0/") if key.endswith(".parquet")}
    assert len(files) > 1
    server.forget()
    assert t.scan().select(pl.col("k").sum()).collect().item() == sum(range(60_000)) - 59_001
    looked = [asked for asked in server.requests if asked.key in files]
    assert all(asked.range for asked in looked), "nothing is read whole"


# ---- what goes wrong ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_data_file_that_is_gone_is_named(server: S3Server) -> None:
    for file_format in ("parquet", "orc"):
        t = made(server, file_format, **{"file.format": file_format})
        t.upsert(ROWS)
        t.upsert(ROWS)
        gone = next(key for key in server.keys(f"{file_format}/p=a/") if "bucket" in key)
        del server.buckets["lake"][gone]
        with pytest.raises(FileNotFoundError, match=gone.rpartition("/")[2]) as raised:
            t.scan().collect()
        assert SECRET_KEY not in str(raised.value)
        with pytest.raises(FileMissing):
            t.scan().filter(pl.col("v") == "x").collect()
        skipping = t.with_options({"scan.ignore-lost-files": "true"})
        assert skipping.scan().collect().height == 4
        assert not t.check().ok


def test_a_file_of_another_size_is_refused(server: S3Server) -> None:
    t = made(server, **{"file.format": "avro"})
    t.upsert(ROWS)
    key = next(key for key in server.keys("w/d.db/t/p=a/"))
    server.put(key, server.data(key) + b"more")
    with pytest.raises(Corrupt, match="the manifest says"):
        t.scan().collect()


def test_a_store_that_stops_answering_is_told(server: S3Server) -> None:
    t = lk.open(made(server).location, storage_options={**server.options, "max_retries": 1})
    t.upsert(ROWS)
    t.upsert(ROWS)
    frame = t.scan()
    server.fault = lambda asked: "403" if asked.key.endswith(".parquet") else None
    with pytest.raises((StorageFailed, PermissionError)) as raised:
        frame.collect()
    assert SECRET_KEY not in str(raised.value)
    server.fault = lambda asked: "503"
    with pytest.raises(StorageFailed, match="503 Service Unavailable"):
        t.scan()


def test_a_store_without_conditional_put_is_read_and_not_written(server: S3Server) -> None:
    made(server).upsert(ROWS)
    with S3Server(ignores_conditions=True) as broken:
        broken.buckets = server.buckets
        t = lk.open(broken.url("w/d.db/t"), storage_options=broken.options)
        assert t.scan().collect().height == 4
        before = broken.keys()
        with pytest.raises(Unsupported, match="conditional PUT") as raised:
            t.upsert(ROWS)
        assert raised.value.feature == "storage.conditional-put"
        with pytest.raises(Unsupported):
            lk.create(broken.url("new"), COLUMNS, storage_options=broken.options)
        assert [key for key in broken.keys("") if key not in before and "/bucket-" not in key] == []
        assert t.scan().collect().height == 4


@pytest.mark.long
def test_a_catalog_with_a_lock_writes_to_a_store_without_conditional_put(tmp_path: Path) -> None:
    with S3Server(ignores_conditions=True) as broken:
        places = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "storage_options": broken.options}
        cat = lk.connect(broken.url("w"), **places)
        cat.create_database("d")
        cat.create_table("d.t", {"w": "INT"}, options={"commit.min-retry-wait": "1 ms"})

        def write(writer: int) -> None:
            for number in range(3):
                cat["d.t"].append(pl.DataFrame({"w": [10 * writer + number]}, schema={"w": pl.Int32}))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(write, range(3)))
        assert sorted(cat["d.t"].scan().collect()["w"]) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
        unlocked = lk.connect(broken.url("w"), **places, options={"lock.enabled": "false"})
        with pytest.raises(Unsupported, match="a catalog with a lock"):
            unlocked["d.t"].append(pl.DataFrame({"w": [1]}, schema={"w": pl.Int32}))


@pytest.mark.parametrize("fault", some(["lose", "lose-500", "drop", "503"], 4))
def test_a_commit_whose_answer_is_lost_happens_once(fault: str, server: S3Server) -> None:
    t = made(server)
    t.upsert(ROWS)
    faults = iter([fault])
    server.fault = lambda asked: next(faults, None) if asked.method == "PUT" and asked.key.endswith("snapshot-2") else None
    t.upsert(ROWS)
    assert next(faults, None) is None
    server.fault = None
    assert t.snapshots()["snapshot_id"].to_list() == [1, 2]
    assert t.check(deep=True).ok


@pytest.mark.long
def test_a_commit_that_nobody_can_judge_deletes_nothing(server: S3Server) -> None:
    t = lk.open(made(server).location, storage_options={**server.options, "max_retries": 1})
    t.upsert(ROWS)
    claimed: list[Asked] = []

    def fault(asked: Asked) -> str | None:
        if not asked.key.endswith("snapshot-2"):
            return None
        if asked.method == "PUT":
            claimed.append(asked)
            return "lose"
        return "503" if claimed else None

    server.fault = fault
    with pytest.raises(CommitStateUnknown, match=r"Nobody can tell whether snapshot 2 of d\.t was made"):
        t.upsert(ROWS)
    server.fault = None
    assert t.snapshots()["snapshot_id"].to_list() == [1, 2], "it happened"
    assert t.check(deep=True).ok


# ---- many at once ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("writers, commits", some([pytest.param(4, 3), pytest.param(6, 12)], 2))
def test_of_many_writers_at_once_none_is_lost(writers: int, commits: int, server: S3Server) -> None:
    url = lk.create(server.url("race"), {"w": "INT", "n": "INT"}, options={"commit.min-retry-wait": "1 ms"}, storage_options=server.options).location
    asked_so_far = iter(range(10**9))

    def fault(asked: Asked) -> str | None:
        """Every seventh claim is lost on its way back, every eleventh request is turned away."""
        number = next(asked_so_far)
        if asked.method == "PUT" and "/snapshot/snapshot-" in asked.key and number % 7 == 0:
            return "lose" if number % 2 else "lose-500"
        return "503" if number % 11 == 0 else None

    def write(writer: int) -> list[tuple[int, int]]:
        t = lk.open(url, storage_options=server.options)
        for number in range(commits):
            rows = pl.DataFrame({"w": [writer], "n": [number]}, schema={"w": pl.Int32, "n": pl.Int32})
            while True:
                with suppress(lk.RetriesExhausted):  # nothing changed: on a busy machine others may be faster again and again
                    t.append(rows)
                    break
        return [(writer, number) for number in range(commits)]

    server.fault = fault
    with ThreadPoolExecutor(writers) as pool:
        acknowledged = sorted(row for rows in pool.map(write, range(writers)) for row in rows)
    server.fault = None
    t = lk.open(url, storage_options=server.options)
    assert sorted(t.scan().collect().rows()) == acknowledged, "none is lost, none is there twice"
    assert t.snapshots().height == writers * commits
    assert t.check(deep=True).ok


# ---- the shell -----------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_shell_takes_storage_options(server: S3Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    t = made(server)
    t.upsert(ROWS)
    given = [part for key, value in server.options.items() if "key" not in key for part in ("--storage", f"{key}={value}")]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    assert main.main(["inspect", t.location, "snapshots", *given, "--format", "tsv"]) == 0
    assert "APPEND" in capsys.readouterr().out
    assert main.main(["check", t.location, *given]) == 0
    assert main.main(["hex", f"{t.location}/snapshot/snapshot-1", *given]) == 0
    assert "schemaId" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main.main(["inspect", t.location, "--storage", "nonsense"])
    assert "KEY=VALUE" in capsys.readouterr().err
