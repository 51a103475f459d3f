"""`t.rewrite_file_index` as its user meets it: files that are there get the indexes that options ask for, and lose others; no row moves."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk
from lakekit.data_file.paths import bucket_id_at, data_file_path
from lakekit.errors import StorageFailed
from lakekit.file_index import container
from lakekit.maintenance import rewrite_file_index
from lakekit.metadata import manifest_reader, snapshots

COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "a": "STRING", "b": "BIGINT", "m": "MAP<STRING, INT>"}
BLOOM = "file-index.bloom-filter.columns"
BITMAP = "file-index.bitmap.columns"
BSI = "file-index.bsi.columns"


def filled(path, *, keyed: bool, **options: str) -> lk.Table:
    keys = {"primary_keys": ["p", "k"]} if keyed else {}
    table = lk.create(path, COLUMNS, partition_keys=["p"], options={"bucket": "1" if keyed else "-1", "write-only": "true", **options}, **keys)
    for turn in range(4):
        rows = [{"p": turn % 2, "k": turn * 10 + n, "a": f"{turn}.{n}", "b": n if n % 3 else None, "m": {"x": n} if n % 2 else {}} for n in range(10)]
        table.append(rows)
    return table


def rows(table: lk.Table) -> list[tuple]:
    return sorted(table.scan().collect().rows(), key=repr)


def kinds(table: lk.Table) -> set[tuple[str, str, bool]]:
    """(column, index, whether it lies in a file of its own) of every live file."""
    found = set()
    handle = table._context()
    live = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    for at in range(len(live)):
        file = live.file(at)
        beside = [name for name in file.extra_files if name.endswith(".index")]
        data = file.embedded_index
        if beside:
            data = handle.storage.read(handle.paths.extra_file(data_file_path(handle, *bucket_id_at(live, at), file), beside[0]))
        for column, indexes in container.decode_container(data).items() if data else ():
            found |= {(column, kind, bool(beside)) for kind in indexes}
    return found


@pytest.mark.parametrize("keyed", [True, False])
def test_indexes_are_made_and_dropped_and_no_row_moves(tmp_path, keyed):
    table = filled(tmp_path, keyed=keyed)
    before, names = rows(table), set(table.files()["file_name"])
    table.alter(lk.set_option(BITMAP, "a"))
    done = table.rewrite_file_index()
    assert (done.kinds, done.row_count) == (("COMPACT",), 40)
    assert kinds(table) == {("a", "bitmap", False)}
    assert table.rewrite_file_index().snapshot_ids == ()
    table.alter(lk.set_option(BITMAP, "a,m[x]"), lk.set_option(BSI, "b"), lk.set_option(BLOOM, "a"))
    table.rewrite_file_index()
    made = {("a", "bloom-filter"), ("a", "bitmap"), ("m[x]", "bitmap"), ("b", "bsi")}
    assert kinds(table) == {(*one, True) for one in made}  # together too big for a manifest
    table.alter(lk.reset_option(BLOOM), lk.reset_option(BSI), lk.set_option(BITMAP, "a"))
    table.rewrite_file_index()
    assert kinds(table) == {("a", "bitmap", True)}  # an entry that went once does not come again
    table.alter(lk.reset_option(BITMAP))
    table.rewrite_file_index()
    assert kinds(table) == set()
    table.compact_manifests()
    assert rows(table) == before
    assert set(table.files()["file_name"]) == names
    assert table.check(deep=True).ok
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(list(tmp_path.rglob("*.index"))) == len(names)  # empty ones
    assert rows(table) == before


def test_queries_open_fewer_files(tmp_path):
    table = filled(tmp_path, keyed=False, **{"metadata.stats-mode": "none"})
    wanted = pl.col("a") == "2.3"
    assert table.explain(wanted).files_read == 4
    table.alter(lk.set_option(BITMAP, "a"))
    table.rewrite_file_index()
    assert table.explain(wanted).files_read == 1
    assert table.scan().filter(wanted).collect()["k"].to_list() == [23]


def test_some_partitions(tmp_path):
    table = filled(tmp_path, keyed=True)
    table.alter(lk.set_option(BLOOM, "a"))
    assert table.rewrite_file_index(where="p = 1").added_file_count == 2
    assert table.rewrite_file_index().added_file_count == 2
    with pytest.raises(lk.InvalidOption, match="no partition column"):
        table.rewrite_file_index(where="a = 'x'")


def test_columns_that_were_renamed_added_and_widened(tmp_path):
    table = filled(tmp_path, keyed=False)
    table.alter(lk.rename_column("a", "name"), lk.add_column("late", "INT"))
    table.append([{"p": 0, "k": 99, "name": "new", "late": 1}])
    table.alter(lk.set_option(BITMAP, "name,late"))
    table.rewrite_file_index()
    assert kinds(table) == {("a", "bitmap", False), ("name", "bitmap", False), ("late", "bitmap", False)}
    assert table.scan().filter(pl.col("name") == "1.4").collect()["k"].to_list() == [14]
    assert table.scan().filter(pl.col("late") == 1).collect()["k"].to_list() == [99]
    assert table.scan().filter(pl.col("late").is_null()).collect().height == 40


@pytest.mark.parametrize(("option", "columns", "kind"), [(BLOOM, "nope", lk.InvalidOption), (BSI, "m", lk.Unsupported)])
def test_what_has_no_index(tmp_path, option, columns, kind):
    table = filled(tmp_path, keyed=False)
    with pytest.raises(kind):
        table.with_options({option: columns}).rewrite_file_index()
    assert table.snapshots().height == 4


def _torn(path) -> None:
    path.write_bytes(path.read_bytes()[:9])


def _scribbled(path) -> None:
    path.write_bytes(path.read_bytes()[:-5] + b"\xff" * 5)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(("harm", "rebuild"), [("unlink", False), (_torn, False), (_scribbled, True)])
def test_indexes_that_are_lost_or_damaged_are_made_anew(tmp_path, keyed, harm, rebuild):
    """Reads refuse and say what to do, a deep check names that remedy, and it helps."""
    table = filled(tmp_path, keyed=keyed, **{"file-index.in-manifest-threshold": "1 b", BITMAP: "a"})
    if keyed:
        table.compact(full=True)
    wanted, before = pl.col("a") == "2.3", rows(table)
    for path in tmp_path.rglob("*.index"):
        getattr(path, harm)() if isinstance(harm, str) else harm(path)
    table = lk.open(tmp_path, options={"file-index.read.enabled": "true"})
    remedy = "t.rewrite_file_index(rebuild=True)"
    assert all(remedy in one.remedy for one in table.check(deep=True).problems)
    if not rebuild:
        for read in (lambda: table.scan().filter(wanted).collect(), lambda: table.aggregate(pl.len(), where=wanted)):
            with pytest.raises((lk.Corrupt, StorageFailed)) as refused:
                read()
            assert remedy in refused.value.message
            assert "file-index.read.enabled" in refused.value.message
    assert table.with_options({"file-index.read.enabled": "false"}).scan().filter(wanted).collect()["k"].to_list() == [23]
    table.rewrite_file_index(rebuild=rebuild)
    assert table.check(deep=True).ok
    assert table.explain(wanted).files_read == 1
    assert rows(table) == before


def test_indexes_are_made_anew_where_their_own_options_changed(tmp_path):
    table = filled(tmp_path, keyed=False, **{BLOOM: "a", "file-index.in-manifest-threshold": "1 mb"})
    one = "file-index.bloom-filter.a.items"

    def sizes() -> list[int]:
        return table.system("file_indexes").collect()["index_size_in_bytes"].to_list()

    big = sizes()
    table.alter(lk.set_option(one, "10"))
    assert table.rewrite_file_index().snapshot_ids == ()
    assert table.rewrite_file_index(rebuild=True, where="p = 1").added_file_count == 2
    assert sorted(set(sizes()))[1:] == sorted(set(big))
    assert table.rewrite_file_index(rebuild=True).added_file_count == 2  # the others are what they were
    assert len(set(sizes())) == 1
    assert table.scan().filter(pl.col("a") == "2.3").collect()["k"].to_list() == [23]


def test_what_is_said_of_a_map_holds_for_its_keys(tmp_path):
    options = {BLOOM: "m[a],m[b]", f"{BLOOM.removesuffix('columns')}m.items": "1000", f"{BLOOM.removesuffix('columns')}m[b].items": "50"}
    table = lk.create(tmp_path / "t", {"m": "MAP<STRING, INT>"}, options=options)
    table.append([{"m": [{"key": "a", "value": 1}]}])
    found = table.system("file_indexes").collect()
    sizes = dict(found.select("column_name", "index_size_in_bytes").rows())
    assert sizes == {"m[a]": 604, "m[b]": 34}  # as the reference makes them


def test_another_writer_was_faster(tmp_path, monkeypatch):
    table = filled(tmp_path, keyed=True, **{"file-index.in-manifest-threshold": "1 b"})
    table.alter(lk.set_option(BLOOM, "a"))
    real = rewrite_file_index.committer.commit_changes

    def late(*arguments, **how):
        monkeypatch.setattr(rewrite_file_index.committer, "commit_changes", real)
        lk.open(tmp_path).compact(full=True)
        return real(*arguments, **how)

    monkeypatch.setattr(rewrite_file_index.committer, "commit_changes", late)
    before = rows(table)
    with pytest.raises(lk.Conflict):
        table.rewrite_file_index()
    assert rows(table) == before
    assert table.check(deep=True).ok
    table.rewrite_file_index()
    assert kinds(table) == {("a", "bloom-filter", True)}


def test_a_failure_leaves_no_file(tmp_path, monkeypatch):
    table = filled(tmp_path, keyed=True, **{"file-index.in-manifest-threshold": "1 b"})
    table.alter(lk.set_option(BLOOM, "a"))

    def refused(*_, **__):
        raise StorageFailed("no space left", path="x")

    monkeypatch.setattr(rewrite_file_index.committer, "commit_changes", refused)
    with pytest.raises(StorageFailed):
        table.rewrite_file_index()
    assert not list(tmp_path.rglob("*.index"))
    assert len(list(tmp_path.rglob("data-*"))) == 4


def test_a_dry_run_tells_what_each_file_would_get(tmp_path):
    table = filled(tmp_path, keyed=False)
    table.alter(lk.set_option(BITMAP, "a"))
    table.rewrite_file_index(where=pl.col("p") == 0)
    table.alter(lk.set_option(BITMAP, "a,m[x]"), lk.set_option(BSI, "b"))
    newest, indexed = table.snapshots()["snapshot_id"].to_list(), kinds(table)
    files = table.files().select(path=pl.col("file_name"), p=pl.col("partition").str.tail(1).cast(pl.Int32))

    def told(**asked) -> dict[int, tuple[list[str], list[str]]]:
        found = table.rewrite_file_index(dry_run=True, **asked)
        assert found.columns == ["path", "row_count", "made", "dropped"]
        assert set(found["row_count"]) <= {10}
        named = found.with_columns(pl.col("path").str.split("/").list.last()).join(files, on="path")
        assert named.height == found.height
        return {row["p"]: (row["made"], row["dropped"]) for row in named.iter_rows(named=True)}

    assert told() == {0: (["bitmap(m[x])", "bsi(b)"], []), 1: (["bitmap(a)", "bitmap(m[x])", "bsi(b)"], [])}
    assert told(where="p = 0") == {0: (["bitmap(m[x])", "bsi(b)"], [])}
    assert told(rebuild=True)[0] == (["bitmap(a)", "bitmap(m[x])", "bsi(b)"], [])
    assert (table.snapshots()["snapshot_id"].to_list(), kinds(table)) == (newest, indexed)
    with pytest.raises(lk.Unsupported, match="bsi index does not take column a"):
        table.with_options({BSI: "a"}).rewrite_file_index(dry_run=True)
    table.rewrite_file_index()
    assert told() == {}
    table.alter(lk.set_option(BITMAP, "m[x]"))
    assert told() == {p: ([], ["bitmap(a)"]) for p in (0, 1)}


def test_a_dry_run_of_files_written_before_a_column_was_renamed(tmp_path):
    table = filled(tmp_path, keyed=False)
    table.alter(lk.rename_column("a", "z"), lk.add_column("c", "INT"))
    table.alter(lk.set_option(BITMAP, "z,c"))
    found = table.rewrite_file_index(dry_run=True)
    assert found["made"].to_list() == [["bitmap(a)"]] * 4, "as the files call it, which lack the other"
    assert table.rewrite_file_index().added_file_count == 4
    assert kinds(table) == {("a", "bitmap", False)}
    assert table.rewrite_file_index(dry_run=True).is_empty()


def test_a_dry_run_names_what_is_lost(tmp_path):
    table = filled(tmp_path, keyed=False, **{BITMAP: "a", "file-index.in-manifest-threshold": "1 b"})
    assert table.rewrite_file_index(dry_run=True).is_empty()
    lost = min(tmp_path.rglob("*.index"))
    lost.unlink()
    found = table.rewrite_file_index(dry_run=True)
    assert found["made"].to_list() == [["bitmap(a)"]]
    assert lost.name.startswith(found["path"][0].rpartition("/")[2].split(".")[0])
