"""Links in tables and warehouses: nothing is written, deleted or read outside of a root through one. The root itself may be a link. RELIABILITY 6, check 34."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit import storage as storages
from lakekit.storage import confinement
from lakekit.storage.local import LocalStorage
from lakekit.storage.protocol import FileMissing, OutsideRoot
from spec_tests.reliability.outside import COLUMNS, filled, make_victim, names_and_bytes, rows

if TYPE_CHECKING:
    from collections.abc import Callable


def moved(path: Path, target: Path) -> Path:
    """Move a folder to another place, where older files of somebody lie, and leave a link."""
    make_victim(target, path if path.exists() else None)
    if path.exists():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return target


@pytest.fixture(params=["handles", "real paths"])
def way(request, monkeypatch):
    """Both ways of keeping within a root: that of Linux and macOS, and that of other platforms."""
    if request.param == "real paths":
        monkeypatch.setattr(confinement, "HAS_DIR_FD", False)
    elif not confinement.HAS_DIR_FD:
        pytest.skip("this platform opens no files relative to directories")


# ---- A1: cleaners --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index", "statistics", "changelog", "snapshot", "manifest", "tag", "consumer", "branch"])
@pytest.mark.usefixtures("way")
def test_orphans_behind_a_linked_directory_stay(tmp_path, name):
    filled(tmp_path / "t")
    victim = moved(tmp_path / "t" / name, tmp_path / "victim")
    before = names_and_bytes(victim)
    with pytest.raises(OutsideRoot, match=f'"{tmp_path}/t/{name}" is a link|it is a link'):
        lk.open(tmp_path / "t").remove_orphans(dry_run=False, force=True)
    assert names_and_bytes(victim) == before


@pytest.mark.parametrize("name", ["snapshot", "changelog", "tag", "schema", "consumer"])
def test_orphans_behind_a_branch_that_somebody_added_stay(tmp_path, name):
    filled(tmp_path / "t").create_branch("x")
    victim = moved(tmp_path / "t" / "branch" / "branch-x" / name, tmp_path / "victim")
    before = names_and_bytes(victim)
    with pytest.raises(lk.StorageFailed, match="is a link"):
        lk.open(tmp_path / "t").remove_orphans(dry_run=False, force=True)
    assert names_and_bytes(victim) == before


def test_linked_buckets_and_partitions_are_not_cleaned(tmp_path):
    table = lk.create(tmp_path / "t", {**COLUMNS, "p": "INT"}, partition_keys=["p"])
    table.append([{"id": 1, "v": "a", "p": 1}])
    victim = make_victim(tmp_path / "victim", tmp_path / "t")
    (tmp_path / "t" / "p=7").symlink_to(victim)
    (tmp_path / "t" / "p=1" / "bucket-9").symlink_to(victim)
    before = names_and_bytes(victim)
    table.remove_orphans(dry_run=False, force=True)
    assert names_and_bytes(victim) == before


# ---- A2: other deleters, and writers -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
def test_files_of_a_linked_bucket_are_not_expired(tmp_path):
    table = filled(tmp_path / "t")
    table.compact(full=True)
    victim = moved(tmp_path / "t" / "bucket-0", tmp_path / "victim")
    before = names_and_bytes(victim)
    with pytest.raises(OutsideRoot, match=f'"{tmp_path}/t/bucket-0" is a link, and nothing outside of "{tmp_path}/t" is written or deleted'):
        lk.open(tmp_path / "t").expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert names_and_bytes(victim) == before


def acked(table: lk.Table) -> None:
    for change in table.follow(1, consumer="c", until="latest"):
        change.ack()


VERBS: dict[str, tuple[str, Callable[[lk.Table], object]]] = {
    "delete_tag": ("tag", lambda t: t.delete_tag("x")),
    "create_tag": ("tag", lambda t: t.create_tag("y")),
    "expire_snapshots": ("snapshot", lambda t: t.expire_snapshots(retain_max=1, retain_min=1)),
    "rollback": ("snapshot", lambda t: t.rollback(1)),
    "delete_branch": ("branch", lambda t: t.delete_branch("b")),
    "create_branch": ("branch", lambda t: t.create_branch("c")),
    "upsert": ("bucket-0", lambda t: t.upsert([{"id": 9, "v": "9"}])),
    "upsert of manifests": ("manifest", lambda t: t.upsert([{"id": 9, "v": "9"}])),
    "upsert of a snapshot": ("snapshot", lambda t: t.upsert([{"id": 9, "v": "9"}])),
    "compact": ("bucket-0", lambda t: t.compact(full=True)),
    "truncate": ("manifest", lambda t: t.truncate()),
    "overwrite": ("bucket-0", lambda t: t.overwrite([{"id": 9, "v": "9"}])),
    "alter": ("schema", lambda t: t.alter(lk.add_column("w", "INT"))),
    "analyze": ("statistics", lambda t: t.analyze()),
    "follow": ("consumer", acked),
}


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_written_or_deleted_through_a_linked_directory(tmp_path, verb):
    name, call = VERBS[verb]
    table = filled(tmp_path / "t")
    table.create_tag("x")
    table.create_branch("b")
    victim = moved(tmp_path / "t" / name, tmp_path / "victim")
    before = names_and_bytes(victim)
    with pytest.raises(lk.StorageFailed, match=r"is a link|is refused"):
        call(lk.open(tmp_path / "t"))
    assert names_and_bytes(victim) == before


@pytest.mark.usefixtures("way")
def test_a_link_within_the_table_is_read_and_neither_written_nor_deleted_through(tmp_path):
    table = filled(tmp_path / "t")
    (tmp_path / "t" / "bucket-0").rename(tmp_path / "t" / "kept")
    (tmp_path / "t" / "bucket-0").symlink_to("kept")
    before = names_and_bytes(tmp_path / "t")
    assert rows(lk.open(tmp_path / "t")) == [(1, "1"), (2, "2"), (3, "3")]
    with pytest.raises(OutsideRoot, match='bucket-0" is a link'):
        table.upsert([{"id": 4, "v": "4"}])
    assert names_and_bytes(tmp_path / "t") == before


# ---- reads ---------------------------------------------------------------------------------------------------------------------------------


def linked_out(path: Path, outside: Path) -> None:
    """Put a link in a file's place, which leads to the same bytes elsewhere."""
    outside.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, outside)
    path.symlink_to(outside)


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_a_data_file_that_is_a_link_is_not_read(tmp_path, form):
    filled(tmp_path / "t", options={"file.format": form})
    path = next((tmp_path / "t" / "bucket-0").glob("data-*"))
    linked_out(path, tmp_path / "outside" / path.name)
    for read in (lambda t: t.scan().collect(), lambda t: t.scan().select("id").collect(), lambda t: t.compact(full=True)):
        with pytest.raises(lk.StorageFailed, match=f'"{path}" is refused: it is a link, and nothing outside of'):
            read(lk.open(tmp_path / "t"))


def test_a_directory_that_becomes_a_link_is_refused_at_the_next_read(tmp_path):
    table = filled(tmp_path / "t")
    assert len(rows(table)) == 3
    (tmp_path / "t" / "bucket-0").rename(tmp_path / "outside")
    (tmp_path / "t" / "bucket-0").symlink_to(tmp_path / "outside")
    with pytest.raises(lk.StorageFailed, match='bucket-0" is a link'):
        rows(table)
    with pytest.raises(lk.StorageFailed, match='bucket-0" is a link'):
        rows(lk.open(tmp_path / "t"))


@pytest.mark.parametrize("name", ["snapshot/snapshot-3", "schema/schema-0"])
def test_metadata_that_is_a_link_is_not_read(tmp_path, name):
    filled(tmp_path / "t")
    linked_out(tmp_path / "t" / name, tmp_path / "outside" / "file")
    with pytest.raises(lk.StorageFailed, match="is a link"):
        rows(lk.open(tmp_path / "t"))


@pytest.mark.parametrize("form", ["csv", "text", "json", "parquet"])
def test_a_file_of_a_format_table_that_is_a_link_is_not_read(tmp_path, form):
    cat = lk.connect(tmp_path / "lake")
    cat.create_database("db")
    table = cat.create_format_table("db.f", {"line": "STRING"}, format=form)
    (tmp_path / "passwd").write_text("root:x:0:0")
    (Path(table.location) / "part-0").symlink_to(tmp_path / "passwd")
    with pytest.raises(lk.StorageFailed, match='part-0" is refused: it is a link'):
        cat["db.f"].scan().collect()


def test_a_link_within_the_table_is_a_file_as_others(tmp_path):
    filled(tmp_path / "t", options={"file.format": "parquet"})
    path = next((tmp_path / "t" / "bucket-0").glob("data-*"))
    linked_out(path, tmp_path / "t" / "kept" / path.name)
    assert len(rows(lk.open(tmp_path / "t"))) == 3


def test_a_snapshot_that_is_a_link_is_never_overwritten(tmp_path):
    table = filled(tmp_path / "t")
    (tmp_path / "victim").write_bytes(b"keep")
    (tmp_path / "t" / "snapshot" / "snapshot-4").symlink_to(tmp_path / "victim")
    with pytest.raises(lk.LakekitError):
        table.upsert([{"id": 4, "v": "4"}])
    (tmp_path / "t" / "snapshot" / "snapshot-4").unlink()
    (tmp_path / "t" / "snapshot" / "LATEST").unlink()
    (tmp_path / "t" / "snapshot" / "LATEST").symlink_to(tmp_path / "victim")
    lk.open(tmp_path / "t").upsert([{"id": 4, "v": "4"}])
    assert not (tmp_path / "t" / "snapshot" / "LATEST").is_symlink()  # a hint is advice: one that leads out is none, and the next one takes its place
    assert (tmp_path / "victim").read_bytes() == b"keep"


# ---- the root ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
def test_the_root_may_be_a_link(tmp_path):
    filled(tmp_path / "disk" / "orders")
    (tmp_path / "orders").symlink_to(tmp_path / "disk" / "orders")
    (tmp_path / "disk2").symlink_to(tmp_path / "disk")
    for path in (tmp_path / "orders", tmp_path / "disk2" / "orders"):
        table = lk.open(path)
        table.upsert([{"id": 4, "v": str(path)}])
        table.compact(full=True)
        table.create_tag("x")
        table.delete_tag("x")
        table.expire_snapshots(retain_max=1, retain_min=1)
        table.remove_orphans(dry_run=False)
        assert (len(rows(table)), table.check(deep=True).ok) == (4, True)


def test_a_warehouse_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    cat = lk.connect(tmp_path / "lake")
    cat.create_database("db")
    cat.create_table("db.t", COLUMNS).append([{"id": 1, "v": "a"}])
    cat.rename_table("db.t", "db.u")
    assert rows(cat["db.u"]) == [(1, "a")]
    cat.drop_database("db", cascade=True)
    assert list((tmp_path / "disk").iterdir()) == []


# ---- A9: messages ----------------------------------------------------------------------------------------------------------------------------


def message_of(table: lk.Table, change: Callable[[Any], Any]) -> Any:
    """A message of a writer whose first new file is another than what it wrote."""
    with table.writer() as writer:
        writer.write([{"id": 100, "v": "new"}])
        [message] = writer.prepare()
    return replace(message, new_files=(change(message.new_files[0]), *message.new_files[1:]))


@pytest.mark.parametrize("how", ["an extra", "an external path"])
def test_a_live_file_that_a_message_names_otherwise_stays(tmp_path, how):
    table = filled(tmp_path / "t")
    live = next((tmp_path / "t" / "bucket-0").glob("data-*"))

    def changed(file: Any) -> Any:
        if how == "an extra":
            return replace(file, name="ghost.parquet", extra_files=(live.name,))
        return replace(file, name="ghost.parquet", external_path=str(live))

    message = message_of(lk.open(tmp_path / "t"), changed)
    try:
        table.abort([message])
    except lk.LakekitError:
        assert how == "an external path"
    assert live.exists()
    assert len(rows(lk.open(tmp_path / "t"))) == 3


def test_a_live_file_that_a_file_of_the_past_names_as_its_extra_stays(tmp_path):
    table = lk.create(tmp_path / "t", COLUMNS)
    table.append([{"id": 1, "v": "a"}])
    live = next((tmp_path / "t" / "bucket-0").glob("data-*"))
    table.commit([message_of(table, lambda file: replace(file, extra_files=(live.name,)))], commit_user="somebody")
    table.delete(pl.col("id") == 100)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert live.exists()
    assert rows(lk.open(tmp_path / "t")) == [(1, "a")]


def test_a_branch_with_a_link_in_it_is_deleted_whole(tmp_path):
    table = filled(tmp_path / "t")
    table.create_branch("b")
    victim = make_victim(tmp_path / "victim")
    for name in ("link", "snapshot/link"):
        (tmp_path / "t" / "branch" / "branch-b" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / "branch" / "branch-b" / name).symlink_to(victim)
    before = names_and_bytes(victim)
    table.delete_branch("b")
    assert (names_and_bytes(victim), (tmp_path / "t" / "branch" / "branch-b").exists()) == (before, False)


def test_the_extras_of_a_commit_in_doubt_stay(tmp_path):
    """The files of a message whose outcome nobody knows, and what lies beside them."""
    table = filled(tmp_path / "t", options={"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 b"})
    table = lk.open(tmp_path / "t")
    with table.writer() as writer:
        writer.write([{"id": 100, "v": "new"}])
        [message] = writer.prepare()
    from lakekit.commit import abort

    handle = table._context()
    abort.mark_outcome_unknown(handle, [message])
    before = names_and_bytes(tmp_path / "t")
    assert any(file.extra_files for file in message.new_files)
    abort.abort(handle, [message])
    assert names_and_bytes(tmp_path / "t") == before


# ---- the storage itself ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/elsewhere", "{root}/../victim/diary.txt", "{root}/a/../../victim/diary.txt", "{root}x", "{root}/..", ""])
@pytest.mark.usefixtures("way")
def test_paths_outside_the_roots_are_refused(tmp_path, path):
    make_victim(tmp_path / "victim")
    (tmp_path / "root").mkdir()
    storage, root = storages.open(tmp_path / "root")
    at, before = path.format(root=root), names_and_bytes(tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: storage.read(at),
        lambda: storage.stat(at),
        lambda: storage.list(at),
        lambda: storage.polars_path(at),
        lambda: storage.put(at, b""),
        lambda: storage.put_if_absent(at, b""),
        lambda: storage.open_write(at).__enter__(),
        lambda: storage.delete([at]),
        lambda: storage.remove_directories([at]),
    ]
    for call in calls:
        with pytest.raises(OutsideRoot):
            call()
    assert names_and_bytes(tmp_path) == before


def test_more_roots_are_allowed_by_name(tmp_path):
    (tmp_path / "root").mkdir()
    storage, root = storages.open(tmp_path / "root")
    both = storages.add_roots(storage, [f"{tmp_path}/more/"])
    both.put(f"{tmp_path}/more/deep/file", b"1")
    both.put(f"{root}/file", b"2")
    assert both.read(f"{tmp_path}/more/deep/file") == b"1"
    with pytest.raises(OutsideRoot):
        storage.read(f"{tmp_path}/more/deep/file")
    assert storages.add_roots(both, [root, f"{tmp_path}/more"]) is both
    assert storages.add_roots(LocalStorage(), [root]) == LocalStorage()
    assert pickle.loads(pickle.dumps(both)) == both != storage


@pytest.mark.skipif(not confinement.HAS_DIR_FD, reason="needs handles of directories")
def test_a_directory_that_is_replaced_between_check_and_use_changes_nothing(tmp_path, monkeypatch):
    victim = make_victim(tmp_path / "victim")
    (tmp_path / "root" / "deep").mkdir(parents=True)
    (tmp_path / "root" / "deep" / "diary.txt").write_bytes(b"mine")
    storage, root = storages.open(tmp_path / "root")
    real = confinement.ParentDirectory.__enter__

    def swapped(self):
        opened = real(self)
        if not (tmp_path / "root" / "deep").is_symlink():
            (tmp_path / "root" / "deep").rename(tmp_path / "root" / "was")
            (tmp_path / "root" / "deep").symlink_to(victim)
        return opened

    monkeypatch.setattr(confinement.ParentDirectory, "__enter__", swapped)
    before = names_and_bytes(victim)
    storage.delete([f"{root}/deep/diary.txt"])
    assert names_and_bytes(victim) == before
    assert list((tmp_path / "root" / "was").iterdir()) == []
    with pytest.raises(OutsideRoot):
        storage.put(f"{root}/deep/diary.txt", b"theirs")
    assert names_and_bytes(victim) == before


def test_no_module_opens_the_whole_disk():
    """Storages come from `storages.open`, which confines them, or are confined by who has one."""
    house = Path(storages.__file__).parent.parent
    free = [path for path in house.rglob("*.py") if "LocalStorage()" in path.read_text() and path.parent.name != "storage" and "testing" not in path.parts]
    assert free == []


def test_what_a_link_to_nothing_names_is_missing(tmp_path):
    storage, root = storages.open(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nothing").symlink_to("gone")
    assert storage.stat(f"{root}/nothing") is None
    with pytest.raises(FileMissing):
        storage.read(f"{root}/nothing")
    assert storage.list(root) == []
    with pytest.raises(lk.StorageFailed):
        storage.read(f"{root}/loop")


def test_polars_is_handed_no_link(tmp_path):
    (tmp_path / "root").mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "outside.parquet")
    (tmp_path / "root" / "a.parquet").symlink_to(tmp_path / "outside.parquet")
    storage, root = storages.open(tmp_path / "root")
    for _ in range(2):
        with pytest.raises(OutsideRoot, match="is a link"):
            storage.polars_path(f"{root}/a.parquet")
