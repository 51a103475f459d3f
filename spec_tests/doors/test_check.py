"""`t.check()`: golden tables are fine, and each kind of damage that is planted in a copy of one is named, with the file it is in."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakekit as lk
from lakekit.cli.main import EXIT_OK, EXIT_PROBLEM, main
from lakekit.maintenance.check.findings import Finding, Report
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model import entry_files, index_manifest, manifests, snapshot
from lakekit.model.manifest_entries import ManifestEntries
from spec_tests.doors.hostile import MARK, PAYLOADS, plain
from spec_tests.doors.test_html_payloads import Read
from spec_tests.doors.views import CASES, TABLES, in_memory, table
from spec_tests.longer import some

MADE_BY_HAND = {
    "hand_newest_members": {"index file is missing"},
    "hand_snapshot_ordering": {"sequence numbers pass their range"},
}
"""Tables that no engine would write, and what is wrong with them."""


@pytest.mark.parametrize("name", some(CASES, 9))
def test_a_golden_table_is_fine(name):
    report = table(name).check(deep=True)
    assert {one.check for one in report.problems} <= MADE_BY_HAND.get(name, set())
    assert report.ok or name in MADE_BY_HAND
    assert report.checked_file_count > 1 or report.snapshot_id is None


# ---- plants ----------------------------------------------------------------------------------------------------------------------------------


class Copy:
    """A golden table in memory, whose newest snapshot can be told otherwise: all live files in one manifest."""

    def __init__(self, case):
        self.table = in_memory(case)
        self.storage = self.table.storage
        self.ctx = self.table._context()
        self.snapshot = snapshots.latest(self.ctx)
        self.live = manifest_reader.read_live_entries(self.ctx, self.snapshot)
        self.files = self.table.files()
        self.said = {}

    def path(self, i=0):
        partition = self.live.column("partition")[i].as_py()
        assert len(partition) == 12, "plants are made in tables without partitions"
        return self.ctx.paths.data_file("", int(self.live.integers("bucket")[i]), self.live.column("file_name")[i].as_py())

    def say(self, i, **values):
        """Other values in the entry of a file."""
        found = self.live.table
        for name, value in values.items():
            column = found.column(name).to_pylist()
            column[i] = value
            at = found.schema.get_field_index(name)
            found = found.set_column(at, found.schema.field(at), pa.array(column, found.schema.field(at).type))
        self.live = ManifestEntries(found)

    def rewrite(self, i, change):
        """The rows of a Parquet file changed, its entry with the new size."""
        made = io.BytesIO()
        pq.write_table(change(pq.read_table(io.BytesIO(self.storage.read(self.path(i))))), made)
        self.storage.put(self.path(i), made.getvalue())
        self.say(i, file_size=len(made.getvalue()))

    def commit(self, **members):
        """Makes the entries those of the newest snapshot."""
        layout, (first, *_) = self.ctx.paths, manifest_reader.manifest_files(self.ctx, self.snapshot)
        data = entry_files.encode_entries(self.live)
        self.storage.put(layout.manifest("manifest-planted-0"), data)
        listed = replace(first, name="manifest-planted-0", size_bytes=len(data), num_added_files=len(self.live), num_deleted_files=0, **self.said)
        for name, files in (("base", [replace(listed, min_level=None, max_level=None, min_bucket=None, max_bucket=None)]), ("delta", [])):
            data = manifests.encode_list(files)
            self.storage.put(layout.manifest(f"manifest-list-planted-{name}"), data)
            members |= {f"{name}_manifest_list": f"manifest-list-planted-{name}", f"{name}_manifest_list_size": len(data)}
        rows = int(self.live.integers("row_count").sum())
        told = replace(self.snapshot, **{"total_record_count": rows, "delta_record_count": 0, **members})
        self.storage.put(layout.snapshot(self.snapshot.id), told.to_json())

    def index(self, change):
        """The index manifest changed."""
        entries = change(manifest_reader.index_entries(self.ctx, self.snapshot))
        self.storage.put(self.ctx.paths.manifest("index-manifest-planted-0"), index_manifest.encode_index_manifest(entries))
        self.commit(index_manifest="index-manifest-planted-0")
        return entries

    def index_path(self):
        entry = manifest_reader.index_entries(self.ctx, self.snapshot)[0]
        return self.ctx.paths.index(entry.file_name, bucket=entry.bucket), entry


def missing(copy):
    copy.storage.delete([copy.path()])
    return copy.path()


def truncated(copy):
    copy.storage.put(copy.path(), copy.storage.read(copy.path())[:-5])
    return copy.path()


def overwritten(copy):
    copy.storage.put(copy.path(), bytes(len(copy.storage.read(copy.path()))))
    return copy.path()


def manifest_gone(copy):
    copy.commit()
    path = copy.ctx.paths.manifest("manifest-planted-0")
    copy.storage.delete([path])
    return path


def list_torn(copy):
    copy.commit()
    path = copy.ctx.paths.manifest("manifest-list-planted-base")
    copy.storage.put(path, copy.storage.read(path)[:-1])
    return path


def list_miscounts(copy):
    copy.said = {"schema_id": 0}
    copy.commit()
    layout = copy.ctx.paths
    [one] = manifests.decode_list(copy.storage.read(layout.manifest("manifest-list-planted-base")))
    data = manifests.encode_list([replace(one, num_added_files=one.num_added_files + 1)])
    copy.storage.put(layout.manifest("manifest-list-planted-base"), data)
    told = json.loads(copy.storage.read(layout.snapshot(copy.snapshot.id))) | {"baseManifestListSize": len(data)}
    copy.storage.put(layout.snapshot(copy.snapshot.id), json.dumps(told).encode())
    return layout.manifest("manifest-planted-0")


def snapshot_miscounts(copy):
    copy.commit(total_record_count=999)
    return copy.ctx.paths.snapshot(copy.snapshot.id)


def rows_miscounted(copy):
    copy.say(0, row_count=int(copy.live.integers("row_count")[0]) + 1)
    copy.commit()
    return copy.path()


def range_swapped(copy):
    low, high = (copy.live.column(name)[0].as_py() for name in ("min_key", "max_key"))
    copy.say(0, min_key=high, max_key=low)
    copy.commit()
    return copy.path()


def range_narrow(copy):
    copy.say(0, max_key=copy.live.column("min_key")[0].as_py())
    copy.commit()
    return copy.path()


def levels_overlap(copy):
    for i in range(len(copy.live)):
        copy.say(i, level=5)
    copy.commit()
    return {copy.path(i) for i in range(len(copy.live))}


def sequences_swapped(copy):
    copy.say(0, min_sequence_number=10**6)
    copy.commit()
    return copy.path()


def extra_gone(copy):
    path = copy.path().rpartition("/")[0] + "/gone.index"
    copy.say(0, extra_files=["gone.index"])
    copy.commit()
    return path


def file_indexes_of_others(copy):
    """Two files with as many rows, each with the index of the other."""
    paths = [copy.path(i) + ".index" for i in (0, 1)]
    for path, data in zip(paths, [copy.storage.read(path) for path in reversed(paths)], strict=True):
        copy.storage.put(path, data)
    return set(paths)


def file_index_torn(copy):
    path = copy.path() + ".index"
    data = copy.storage.read(path)
    copy.storage.put(path, data[: len(data) // 2])
    return path


def schema_gone(copy):
    older = {path for path in copy.storage.files if "/schema/schema-" in path} - {copy.ctx.paths.schema(copy.ctx.newest_schema_id)}
    assert older
    copy.storage.delete(sorted(older))
    return older


def schema_of_tomorrow(copy):
    copy.commit(schema_id=7)
    return copy.ctx.paths.schema(7)


def added_twice(copy):
    copy.live = ManifestEntries(pa.concat_tables([copy.live.table, copy.live.table.slice(0, 1)]).combine_chunks())
    copy.commit()
    return copy.ctx.paths.snapshot(copy.snapshot.id)


def totals_differ(copy):
    copy.say(0, total_buckets=7)
    copy.commit()
    return copy.ctx.root


def deletes_miscounted(copy):
    copy.say(0, delete_row_count=1)
    copy.commit()
    return copy.path()


def nulls_miscounted(copy):
    copy.say(0, value_null_counts=[1, *copy.live.column("value_null_counts")[0].as_py()[1:]])
    copy.commit()
    return copy.path()


def bound_false(copy):
    copy.say(0, value_max=copy.live.column("value_min")[0].as_py())
    copy.commit()
    return copy.path()


def unsorted(copy):
    copy.rewrite(0, lambda rows: rows.take(np.arange(rows.num_rows)[::-1]))
    copy.commit()
    return copy.path()


def repeated(copy):
    copy.rewrite(0, lambda rows: pa.concat_tables([rows.slice(0, 1), rows]))
    copy.say(0, row_count=int(copy.live.integers("row_count")[0]) + 1)
    copy.commit()
    return copy.path()


def misplaced(copy):
    data = copy.storage.read(copy.path())
    copy.say(0, bucket=(int(copy.live.integers("bucket")[0]) + 1) % 3)
    copy.storage.put(copy.path(), data)
    copy.commit()
    return copy.path()


def vector_dead(copy):
    path, _ = copy.index_path()
    copy.index(lambda entries: [replace(e, ranges=tuple(replace(r, file_name="data-dead-0.parquet") for r in e.ranges)) for e in entries])
    return path


def vector_cardinality(copy):
    path, _ = copy.index_path()
    copy.index(lambda entries: [replace(e, ranges=tuple(replace(r, cardinality=(r.cardinality or 0) + 1) for r in e.ranges)) for e in entries])
    return path


def vector_crc(copy):
    path, entry = copy.index_path()
    data = bytearray(copy.storage.read(path))
    data[entry.ranges[0].offset + entry.ranges[0].length + 4] ^= 1
    copy.storage.put(path, bytes(data))
    return path


def index_gone(copy):
    path, _ = copy.index_path()
    copy.storage.delete([path])
    return path


def hashes_unlisted(copy):
    _, entry = copy.index_path()
    copy.index(lambda entries: entries[1:])
    return copy.ctx.paths.bucket_dir("", entry.bucket)


def hashes_lacking(copy):
    path, entry = copy.index_path()
    copy.storage.put(path, bytes(entry.file_size_bytes))
    return {copy.path(i) for i in range(len(copy.live)) if copy.live.integers("bucket")[i] == entry.bucket}


def newest_snapshot_gone(copy):
    newest = copy.snapshot.id
    copy.storage.delete([copy.ctx.paths.snapshot(newest)])
    assert snapshot.decode_hint(copy.storage.read(copy.ctx.paths.latest_hint)) == newest > 2
    return copy.ctx.paths.latest_hint


def hint_before_a_gap(copy):
    copy.storage.delete([copy.ctx.paths.snapshot(copy.snapshot.id - 1)])
    copy.storage.put(copy.ctx.paths.latest_hint, snapshot.encode_hint(copy.snapshot.id - 2))
    return copy.ctx.paths.latest_hint


def snapshot_gone(copy):
    copy.storage.delete([copy.ctx.paths.snapshot(copy.snapshot.id - 1)])
    return copy.ctx.paths.snapshot_dir


LEVELS, BUCKETS, VECTORS, HASHES = "dedup_levels", "bucket_mod_int", "vectors_keyed_many", "bucket_dynamic"
INDEXED, EVOLVED = "index_several", "evolve_append_parquet"
PLANTS = [
    (missing, LEVELS, "data file is missing", False),
    (truncated, LEVELS, "data file has another size", False),
    (overwritten, LEVELS, "data file is unreadable", False),
    (manifest_gone, LEVELS, "manifest is missing", False),
    (list_torn, LEVELS, "manifest list is unreadable", False),
    (list_miscounts, LEVELS, "manifest differs from its list", False),
    (snapshot_miscounts, LEVELS, "row count of the snapshot", False),
    (rows_miscounted, LEVELS, "data file has another row count", False),
    (range_swapped, LEVELS, "key range is swapped", False),
    (range_narrow, LEVELS, "keys pass the key range", True),
    (levels_overlap, LEVELS, "files of a level overlap", False),
    (sequences_swapped, LEVELS, "sequence numbers are swapped", False),
    (extra_gone, LEVELS, "extra file is missing", False),
    (file_indexes_of_others, INDEXED, "file index lacks rows", True),
    (file_index_torn, INDEXED, "file index is unreadable", True),
    (schema_gone, EVOLVED, "schema is unreadable", False),
    (schema_of_tomorrow, LEVELS, "schema is unreadable", False),
    (added_twice, LEVELS, "file is added twice", False),
    (totals_differ, BUCKETS, "total buckets differ in a partition", False),
    (deletes_miscounted, LEVELS, "delete count is wrong", True),
    (nulls_miscounted, LEVELS, "statistics are false", True),
    (bound_false, LEVELS, "statistics are false", True),
    (unsorted, LEVELS, "rows are not sorted by key", True),
    (repeated, LEVELS, "a key is twice in a file", True),
    (misplaced, BUCKETS, "rows are in another bucket", True),
    (vector_cardinality, VECTORS, "deletion vector is unreadable", False),
    (vector_crc, VECTORS, "deletion vector is unreadable", False),
    (index_gone, VECTORS, "index file is missing", False),
    (hashes_unlisted, HASHES, "hash index is missing", False),
    (hashes_lacking, HASHES, "hash index lacks keys", True),
    (newest_snapshot_gone, LEVELS, "hint leads astray", False),
    (hint_before_a_gap, LEVELS, "hint leads astray", False),
    (snapshot_gone, LEVELS, "snapshots are missing", False),
]


@pytest.mark.long
@pytest.mark.parametrize(("plant", "case", "what", "deep"), PLANTS, ids=lambda found: getattr(found, "__name__", None))
def test_planted_damage_is_named(plant, case, what, deep):
    copy = Copy(case)
    where = plant(copy)
    report = copy.table.check(deep=deep)
    found = [one for one in report.problems if one.check == what]
    assert found, report.problems
    assert not report.ok
    assert {one.path for one in found} & (where if isinstance(where, set) else {where}), found
    assert all(one.problem and one.remedy for one in found)
    assert what in str(report)


@pytest.mark.parametrize("plant", [newest_snapshot_gone, hint_before_a_gap, snapshot_gone])
def test_what_is_wrong_with_hints_is_repaired(plant):
    copy = Copy(LEVELS)
    plant(copy)
    copy.table.repair()
    assert copy.table.check().ok


@pytest.mark.parametrize("said", [b"", b"x", b"1", None])
def test_a_hint_that_nobody_believes_is_no_problem(said):
    copy = Copy(LEVELS)
    hints = [copy.ctx.paths.latest_hint, copy.ctx.paths.earliest_hint]
    for path in hints:
        copy.storage.put(path, said or b"")
    if said is None:
        copy.storage.delete(hints)
    assert copy.table.check().ok


def test_a_vector_of_no_live_file_is_no_problem():
    """The reference leaves one where a full compaction rewrote its file."""
    copy = Copy(VECTORS)
    where = vector_dead(copy)
    report = copy.table.check()
    assert report.ok
    assert {(one.check, one.path) for one in report.advice} >= {("deletion vector points at no live file", where)}


def test_only_rows_tell_what_is_in_them():
    copy = Copy(LEVELS)
    unsorted(copy)
    assert copy.table.check().ok
    copy = Copy(LEVELS)
    copy.commit()
    assert copy.table.check(deep=True).ok


def test_what_was_read_before_is_read_again():
    copy = Copy(LEVELS)
    copy.commit()
    assert copy.table.check().ok
    copy.storage.delete([copy.ctx.paths.manifest("manifest-planted-0")])
    assert [one.check for one in copy.table.check().problems][:1] == ["manifest is missing"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_whatever_bytes_are_changed_nothing_is_raised(seed):
    rng = np.random.default_rng(seed)
    copy = Copy("aggregate_bool")
    names = sorted(name for name in copy.storage.files if "/schema/" not in name and "/snapshot/" not in name)
    name = names[seed % len(names)]
    data = bytearray(copy.storage.read(name))
    for at in rng.integers(0, len(data), 3):
        data[at] ^= int(rng.integers(1, 256))
    copy.storage.put(name, bytes(data))
    report = copy.table.check(deep=True)
    assert report.snapshot_id == copy.snapshot.id
    assert {one.path for one in report.problems} <= {name, copy.ctx.paths.snapshot(copy.snapshot.id), *(copy.path(i) for i in range(len(copy.live)))}


# ---- how it is told --------------------------------------------------------------------------------------------------------------------------


def test_the_card_of_a_table_says_it_in_one_line():
    found = table(LEVELS)
    assert "files checked" not in found._repr_html_()
    report = found.check()
    assert report.summary in found._repr_html_()
    assert report.summary == f"fine at snapshot {report.snapshot_id}: {report.checked_file_count} files checked"


def test_a_table_that_cannot_be_opened_raises(tmp_path):
    with pytest.raises(lk.TableNotFound):
        lk.Table(location=str(tmp_path), name="none").check()


def test_advice_is_no_problem():
    report = table(BUCKETS).check()
    assert report.ok
    assert [one.check for one in report.advice] == ["buckets are small"]


@pytest.mark.parametrize("name", PAYLOADS)
def test_html_of_hostile_names(name):
    def report(said):
        one = Finding(check=said, path=said, field=said, problem=said, remedy=said)
        return Read(Report(table=said, snapshot_id=1, deep=False, problems=(one,), advice=(one,), checked_file_count=1)._repr_html_())

    read = report(name)
    assert read.made <= report(plain(0)).made
    assert not read.named
    assert MARK in read.said


def test_the_shell(capsys, tmp_path):
    assert main(["check", str(TABLES / LEVELS), "--format", "table"]) == EXIT_OK
    assert "fine at snapshot" in capsys.readouterr().out
    copy = Copy(LEVELS)
    lost = missing(copy).removeprefix("memory/")
    for name, (data, _) in copy.storage.files.items():
        path = tmp_path / name.removeprefix("memory/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert main(["check", str(tmp_path), "--deep", "--format", "json"]) == EXIT_PROBLEM
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["kind"], one["what"], one["path"]) for one in told] == [("problem", "data file is missing", f"{tmp_path}/{lost}")]


def test_former_names_of_a_finding_stay():
    finding = Finding(check="data file is missing", problem="no file", remedy="roll back")
    assert (finding.what, finding.found) == (finding.check, finding.problem)
    assert lk.Expired is lk.DeletionResult
