"""What a damaged, hostile or mistaken table is answered: an error of lakekit's own that says what, where and what to do, and never half an answer."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakekit as lk
from lakekit import runtime
from lakekit.errors import LakekitError
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model import entry_files, index_manifest, manifests
from lakekit.options.option import FrozenDict
from spec_tests.doors.views import CASES, TABLES, collected, copied, in_memory, table
from spec_tests.longer import some
from spec_tests.query_strategies import rows

KEYED, APPENDED, FOLDED, VECTORS = "dedup_levels", "append_partitioned", "aggregate_numbers_retract", "vectors_append_32_parquet"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """A torn file is read ten times, 200 ms apart."""
    monkeypatch.setattr(runtime.time, "sleep", lambda _: None)


@pytest.fixture
def shop(tmp_path):
    """A database of two tables."""
    for name, case in (("orders", KEYED), ("users", APPENDED)):
        shutil.copytree(TABLES / case, tmp_path / "wh" / "shop.db" / name)
    return tmp_path / "wh" / "shop.db"


def told(error, ask) -> str:
    with pytest.raises(error) as raised:
        ask()
    assert isinstance(raised.value, LakekitError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (type(raised.value), str(raised.value))
    return str(raised.value)


def schema_of(path: Path, change) -> None:
    """Rewrites the newest schema."""
    newest = max((path / "schema").glob("schema-*"), key=lambda one: int(one.name.removeprefix("schema-")))
    facts = json.loads(newest.read_text("utf-8"))
    change(facts)
    newest.write_text(json.dumps(facts), "utf-8")


def with_options(case: str, options: dict, *, root: str = "memory") -> lk.Table:
    """The table with options in its newest schema."""
    storage = copied(TABLES / case, root)
    path = max((name for name in storage.files if "/schema/schema-" in name), key=lambda name: int(name.rpartition("-")[2]))
    facts = json.loads(storage.files[path][0])
    facts["options"] |= options
    storage.put(path, json.dumps(facts).encode())
    storage.trace.clear()
    return lk.Table(location=root, name=case, storage=storage)


# ---- the messages of UX.md section 8 -------------------------------------------------------------------------------------------------------


def test_a_wrong_folder(shop, tmp_path):
    said = told(lk.TableNotFound, lambda: lk.open(shop))
    assert said == f'no Paimon table at "{shop}": it has no schema/ folder. It looks like a database; its tables are orders, users'
    assert told(FileNotFoundError, lambda: lk.open(shop.parent)).endswith("It looks like a warehouse; its databases are shop")
    assert told(lk.TableNotFound, lambda: lk.open(tmp_path / "none")).endswith("there is no such folder")
    assert told(lk.TableNotFound, lambda: lk.open(shop / "orders" / "bucket-0")).endswith(f'It is the bucket-0 folder of the table "{shop}/orders"')
    assert told(lk.TableNotFound, lambda: lk.open(shop / "orders" / "schema" / "schema-0")).endswith("it is a file; a table is a folder")


def test_an_expired_snapshot(tmp_path):
    shutil.copytree(TABLES / "history_tags", tmp_path / "shop.db" / "orders")
    found = lk.open(tmp_path / "shop.db" / "orders")
    ids, tags = found.snapshots()["snapshot_id"].to_list(), dict(found.tags().select("tag", "snapshot_id").iter_rows())
    (tmp_path / "shop.db" / "orders" / "snapshot" / f"snapshot-{ids[0]}").unlink()
    kept = ", ".join(f"{name} ({tags[name]})" for name in sorted(tags, key=lambda name: (tags[name], name)))
    said = told(lk.SnapshotNotFound, lambda: found.scan(at=ids[0]))
    assert said == f"snapshot {ids[0]} of shop.orders is gone: snapshots {ids[1]} to {ids[-1]} remain. A tag keeps one: tags are {kept}"
    assert told(LookupError, lambda: found.scan(at=99)).startswith(f"snapshot 99 of shop.orders does not exist: snapshots {ids[1]} to {ids[-1]} remain.")
    assert told(lk.TagNotFound, lambda: found.scan(at="nope")).startswith("shop.orders has no tag 'nope'; ")


def test_a_typo_in_a_column_is_polars_own_message():
    found = table(KEYED)
    for ask in (
        lambda: found.scan().filter(pl.col("vv") == "a").collect(),
        lambda: found.scan().select("vv").collect(),
        lambda: found.explain(pl.col("vv") == "a"),
    ):
        with pytest.raises(pl.exceptions.ColumnNotFoundError, match=r'unable to find column "vv"; valid columns: \["k", "v"\]\n\nDid you mean "v"\?'):
            ask()


def test_an_aggregate_function_nobody_knows(tmp_path):
    shutil.copytree(TABLES / FOLDED, tmp_path / "shop.db" / "orders")
    changed = []

    def median(facts):
        name = next(key for key in facts["options"] if key.endswith(".aggregate-function"))
        facts["options"][name] = "median"
        changed.append(name.split(".")[1])

    schema_of(tmp_path / "shop.db" / "orders", median)
    found, (column,) = lk.open(tmp_path / "shop.db" / "orders"), changed
    said = told(lk.Unsupported, lambda: found.scan().collect())
    assert said.startswith(f"shop.orders uses merge-engine 'aggregation' with function 'median' on column {column}; lakekit merges bool_and, bool_or, ")
    assert said.endswith("sum, theta_sketch. Read other columns, or t.scan(raw=True) for unmerged rows")
    others = [name for name in collected(FOLDED).columns if name != column]
    assert sorted(rows(found.scan().select(others).collect())) == sorted(rows(collected(FOLDED).select(others)))
    assert found.scan().select(pl.len()).collect().item() == collected(FOLDED).height
    assert found.scan(raw=True).collect().height == table(FOLDED).scan(raw=True).collect().height
    told(lk.Unsupported, lambda: found.scan().filter(pl.col(column).is_null()).select(others).collect())


def test_a_merge_engine_nobody_knows():
    found = with_options(KEYED, {"merge-engine": "quantum"})
    said = told(NotImplementedError, lambda: found.scan().collect())
    assert said.startswith("dedup_levels uses merge-engine 'quantum'; lakekit merges aggregation, deduplicate, first-row, partial-update.")
    assert not [path for _, path in found.storage.trace if "/bucket-" in path]


@pytest.mark.parametrize("case", [KEYED, APPENDED, "types_scalars_orc", "dedup_avro", FOLDED])
def test_a_missing_data_file(case, tmp_path):
    shutil.copytree(TABLES / case, tmp_path / case)
    found = lk.open(tmp_path / case)
    ids, place = found.snapshots()["snapshot_id"].to_list(), found.files().sort("file_path")["file_path"][0]
    Path(place).unlink()
    short = place.removeprefix(f"{tmp_path / case}/")
    said = told(FileNotFoundError, lambda: found.scan().collect())
    assert said.startswith(f"snapshot {ids[-1]} of {case} lists {short} (")
    assert "), which is not there. Was it expired by another writer? " in said
    assert told(lk.StorageFailed, lambda: found.scan().collect(engine="streaming")) == said
    assert found.files().height == table(case).files().height


def test_a_missing_data_file_of_an_older_snapshot_sends_to_the_newest(tmp_path):
    shutil.copytree(TABLES / KEYED, tmp_path / KEYED)
    found = lk.open(tmp_path / KEYED)
    old, new = found.files(at=1), found.files()
    gone = old.filter(~pl.col("file_name").is_in(new["file_name"].to_list()))["file_path"][0]
    Path(gone).unlink()
    said = told(lk.StorageFailed, lambda: found.scan(at=1).collect())
    assert said.startswith(f"snapshot 1 of {KEYED} lists bucket-0/")
    assert said.endswith("t.scan(at=5)")
    found.scan(at=5).collect()


@pytest.mark.parametrize("case", [KEYED, APPENDED, "types_scalars_orc", "dedup_avro"])
def test_a_torn_data_file(case, tmp_path):
    shutil.copytree(TABLES / case, tmp_path / case)
    found = lk.open(tmp_path / case)
    place = Path(found.files()["file_path"][0])
    size = place.stat().st_size
    place.write_bytes(place.read_bytes()[: size // 2])
    said = told(lk.Corrupt, lambda: found.scan().collect())
    assert said == f"{place} is {size // 2} bytes, the manifest says {size}. Nothing was read"


def test_torn_and_missing_manifests(tmp_path):
    shutil.copytree(TABLES / KEYED, tmp_path / KEYED)
    found = lk.open(tmp_path / KEYED)
    name = found.manifests()["file_name"][0]
    place = tmp_path / KEYED / "manifest" / name
    data = place.read_bytes()
    place.write_bytes(data[:-38])
    runtime.REAL_RUNTIME.metadata_cache.__init__(runtime.METADATA_CACHE_BYTES)  # what was decoded before would be believed
    said = told(lk.Corrupt, lambda: found.scan().collect())
    sizes = [f"{size:,}".replace(",", " ") for size in (len(data) - 38, len(data))]
    assert said == f"{name} is {sizes[0]} bytes, the manifest list says {sizes[1]}. Nothing was read"
    place.unlink()
    said = told(FileNotFoundError, lambda: found.scan().collect())
    assert said.startswith(f"the manifest list names {name}, which is not there. Was the snapshot expired by another writer? ")
    place.write_bytes(data)
    lists = tmp_path / KEYED / "manifest" / snapshots.latest(found._context()).delta_manifest_list
    data = lists.read_bytes()
    lists.write_bytes(data[: len(data) // 2])
    runtime.REAL_RUNTIME.metadata_cache.__init__(runtime.METADATA_CACHE_BYTES)
    assert lists.name in told(lk.Corrupt, lambda: found.scan().collect())
    lists.unlink()
    assert lists.name in told(lk.StorageFailed, lambda: found.scan().collect())


def test_versions_that_newer_engines_write(tmp_path):
    shutil.copytree(TABLES / KEYED, tmp_path / KEYED)
    found = lk.open(tmp_path / KEYED)
    snapshot = tmp_path / KEYED / "snapshot" / "snapshot-5"
    facts = json.loads(snapshot.read_text())
    snapshot.write_text(json.dumps(facts | {"version": 99}))
    assert told(lk.Unsupported, lambda: found.scan().collect()) == f"{snapshot} has version 99; lakekit knows 1 to 3. A newer engine wrote it"
    schema_of(tmp_path / KEYED, lambda facts: facts.update(version=9))
    place = tmp_path / KEYED / "schema" / "schema-0"
    assert told(lk.Unsupported, lambda: lk.open(tmp_path / KEYED)) == f"{place} has version 9; lakekit knows 1 to 3. A newer engine wrote it"


# ---- any file, damaged in any way ----------------------------------------------------------------------------------------------------------

DAMAGE = {
    "missing": None,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "its last byte gone": lambda data: data[:-1],
    "a byte more": lambda data: data + b"\0",
    "zeros": lambda data: bytes(len(data)),
    "ones": lambda data: b"\xff" * len(data),
    "garbage inside": lambda data: data[: len(data) // 3] + b"\x55" * (len(data) // 3) + data[len(data) // 3 * 2 :],
    "an empty object": lambda data: b"{}",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("case", some([KEYED, VECTORS, "bucket_dynamic"], 3))
def test_damage_to_any_file_is_an_error_of_ours_or_no_matter(case, kind):
    whole, wanted, damage = copied(TABLES / case), sorted(rows(collected(case))), DAMAGE[kind]
    newest = f"memory/snapshot/snapshot-{table(case).snapshots()['snapshot_id'].max()}"
    broken = 0
    for path in whole.files:
        storage = type(whole)(files=dict(whole.files))
        if damage is None:
            storage.delete([path])
        else:
            storage.put(path, damage(whole.files[path][0]))
        try:
            found = lk.Table(location="memory", name=case, storage=storage).scan().collect()
        except LakekitError as error:
            assert path.rpartition("/")[2] in str(error) or damage is None, f"{path}: {error}"
            broken += 1
            continue
        # a snapshot that is gone was rolled back: the one before it is the newest
        assert sorted(rows(found)) == wanted or (damage is None and path == newest), f"{path}: other rows"
    assert broken >= 5


ASKS = {
    "scan": lambda found: found.scan().collect(),
    "filter": lambda found: (lazy := found.scan()).filter(pl.col(lazy.collect_schema().names()[0]).is_not_null()).collect(),
    "raw": lambda found: found.scan(raw=True).collect(),
    "changes": lambda found: found.changes(0).collect(),
    "explain": lambda found: str(found.explain()),
    **{name: (lambda found, name=name: getattr(found, name)()) for name in ("snapshots", "schemas", "tags", "branches", "consumers")},
    **{name: (lambda found, name=name: getattr(found, name)()) for name in ("manifests", "files", "partitions", "buckets", "indexes")},
    **{name: (lambda found, name=name: found.system(name).collect()) for name in ("audit_log", "statistics", "table_indexes", "file_key_ranges")},
}


def flipped(seed: int, cases: list[str], count: int) -> None:
    """Bits flipped anywhere but in Parquet, whose pages are Polars' to read: an answer, or an error of ours, whatever is asked."""
    drawn = random.Random(seed)
    for _ in range(count):
        case = drawn.choice(cases)
        storage = copied(TABLES / case)
        path = drawn.choice([name for name, (data, _) in storage.files.items() if data and not name.endswith(".parquet")])
        data = bytearray(storage.files[path][0])
        for _ in range(drawn.choice([1, 1, 1, 2, 5])):
            at = drawn.randrange(len(data))
            data[at] = drawn.choice([0, 255, 127, 128, ord("9"), ord("-"), data[at] ^ 1 << drawn.randrange(8)])
        storage.put(path, bytes(data))
        found = lk.Table(location="memory", name=case, storage=storage)
        name = drawn.choice(sorted(ASKS))
        try:
            ASKS[name](found)
        except LakekitError:
            continue
        except BaseException as error:  # a panic of a library is no Exception
            raise AssertionError(f"{case}: {name} over {path}, seed {seed}: {type(error).__name__}: {error}") from error


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits(seed):
    flipped(seed, CASES, 50)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_flipped_bits(seed):
    flipped(seed, CASES, 400)


# ---- hostile names -------------------------------------------------------------------------------------------------------------------------

HOSTILE = ["../../../secret", "/etc/passwd", "a\0b", "", ".", "..", "a/b", "a\\b", "x" * 5000]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("member", ["baseManifestList", "deltaManifestList", "indexManifest", "statistics"])
def test_names_in_a_snapshot_stay_inside(member, name):
    found = in_memory(VECTORS)
    path = "memory/snapshot/snapshot-5"
    facts = json.loads(found.storage.files[path][0])
    found.storage.put(path, json.dumps(facts | {member: name}).encode())
    said = told(lk.Corrupt, lambda: found.scan().collect())
    assert member in said
    assert "nothing outside its directory is opened" in said
    inside(found)


def inside(found) -> None:
    """Nothing was asked of any place outside the table."""
    asked = {path for _, path in found.storage.trace}
    assert all(path.startswith("memory") and ".." not in path.split("/") and "\0" not in path for path in asked), asked


def rewritten(case: str, column: str, value, *, manifest_name: str | None = None) -> lk.Table:
    """The table with one column of its newest manifest entries replaced, or its manifests called otherwise, and everything else in agreement."""
    found = in_memory(case)
    handle, storage = found._context(), found.storage
    snapshot = snapshots.latest(handle)
    for list_name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        path = handle.paths.manifest(list_name)
        listed = manifests.decode_list(storage.read(path), path=path)
        for at, one in enumerate(listed):
            if manifest_name is not None:
                listed[at] = replace(one, name=manifest_name)
                continue
            entries = manifest_reader.read_entries(handle, [one])
            where = entries.table.schema.get_field_index(column)
            values = pa.array([value] * len(entries), entries.table.schema.field(column).type)
            changed = entry_files.encode_entries(replace(entries, table=entries.table.set_column(where, entries.table.schema.field(column), values)))
            storage.put(handle.paths.manifest(one.name), changed)
            listed[at] = replace(one, size_bytes=len(changed))
        storage.put(path, manifests.encode_list(listed))
    return lk.Table(location="memory", name=case, storage=type(storage)(files=storage.files))  # another storage: nothing of it was decoded before


@pytest.mark.parametrize("name", [one for one in HOSTILE if len(one) < 1000])
@pytest.mark.parametrize("case", [KEYED, APPENDED])
def test_names_of_data_files_stay_inside(case, name):
    found = rewritten(case, "file_name", name)
    told(lk.Corrupt, lambda: found.scan().collect())
    told(lk.Corrupt, lambda: found.scan(raw=True).collect())
    inside(found)


@pytest.mark.parametrize("name", [one for one in HOSTILE if len(one) < 1000])
def test_names_of_manifests_stay_inside(name):
    found = rewritten(KEYED, "", None, manifest_name=name)
    told(lk.Corrupt, lambda: found.scan().collect())
    inside(found)


@pytest.mark.parametrize("path", ["/etc/passwd", "file:///etc/passwd", "../../secret.parquet", "s3://bucket/x", "memory/../secret.parquet", "a\0b"])
def test_external_paths_are_followed_only_where_the_table_says(path):
    found = rewritten(APPENDED, "external_path", path)
    told(lk.Corrupt, lambda: found.scan().collect())
    inside(found)


@pytest.mark.parametrize("name", ["../x.index", "/etc/passwd.index", "a\0.index"])
def test_names_of_index_files_stay_inside(name):
    found = rewritten("index_keyed", "extra_files", [name])
    with contextlib.suppress(LakekitError):
        ASKS["filter"](found)
    inside(found)


def test_names_of_deletion_vectors_stay_inside():
    found = in_memory(VECTORS)
    handle = found._context()
    path = handle.paths.manifest(snapshots.latest(handle).index_manifest)
    entries = index_manifest.decode_index_manifest(found.storage.read(path), path=path)
    found.storage.put(path, index_manifest.encode_index_manifest([replace(entry, file_name="../../secret") for entry in entries]))
    again = lk.Table(location="memory", name=VECTORS, storage=type(found.storage)(files=found.storage.files))
    told(lk.Corrupt, lambda: again.scan().collect())
    inside(again)


@pytest.mark.parametrize("name", ["../x", "a/../../b", "/etc", "a\0b", "\ud800"])
def test_names_that_callers_give_stay_inside(name):
    found = in_memory("history_tags")
    for ask in (lambda: found.branch(name), lambda: found.scan(at=name), lambda: found.changes(name), lambda: found.system(name)):
        told(lk.NotFound, ask)
    told(lk.LakekitError, lambda: found.scan(options={"scan.tag-name": name}).collect())
    with contextlib.suppress(LakekitError):
        found.scan(options={"scan.fallback-branch": name}).collect()  # a branch that is not there does nothing
    inside(found)


# ---- hostile options -----------------------------------------------------------------------------------------------------------------------

VALUES = ["", "-1", "../../x", "9" * 40, "x,y"]
MANY = [*VALUES, "a\0b", "k", "x", "1e9", "-9223372036854775809", " ", "true", "PT1H", '{"a": 1}']


def keys() -> list[str]:
    named = [f"fields.v.{name}" for name in ("aggregate-function", "sequence-group", "nested-key", "count-limit", "default-value", "stats-mode")]
    return [*lk.options()["key"].to_list(), *named, "file-index.bloom-filter.columns", "fields.default-aggregate-function", "lakekit.unknown"]


def survives(case: str, key: str, value: str) -> None:
    for found in (with_options(case, {key: value}), lk.Table(location="memory", name=case, storage=copied(TABLES / case), dynamic=FrozenDict({key: value}))):
        with contextlib.suppress(LakekitError):
            ASKS["filter"](found)
        inside(found)


@pytest.mark.long
@pytest.mark.parametrize("value", some(VALUES, 5))
def test_option_values_that_make_no_sense(value):
    named = [
        key for key in keys() if key.startswith(("scan.", "incremental-", "sequence.", "merge-", "bucket", "partition.", "lakekit.", "fields.", "data-file"))
    ]
    for key in named:
        survives("dedup_overlapping_runs", key, value)


@pytest.mark.deep
@pytest.mark.parametrize("case", [KEYED, APPENDED, FOLDED, "partial_two_groups", "bucket_dynamic", "vectors_keyed_32_parquet"])
def test_every_option_with_values_that_make_no_sense(case):
    for key in keys():
        for value in MANY:
            survives(case, key, value)


def test_a_sequence_field_that_is_no_column():
    found = with_options(KEYED, {"sequence.field": "nope"})
    said = told(lk.InvalidOption, lambda: found.scan().collect())
    assert said == "sequence.field of dedup_levels names column 'nope', which is not there; columns are k, v"


@pytest.mark.parametrize("at", ["9" * 300, "9" * 5000, 10**400, -(10**30), 2**63, -1, 0, "", "²", "٣", "2024-13-01"])
def test_positions_that_are_none(at):
    found = table(KEYED)
    for ask in (lambda: found.scan(at=at), lambda: found.files(at=at), lambda: found.system("files", at=at).collect()):
        told(lk.NotFound, ask)
    if isinstance(at, str) and at:
        told(LakekitError, lambda: found.scan(options={"incremental-between": f"1,{at}"}).collect())
        told(LakekitError, lambda: found.scan(options={"incremental-between-timestamp": f"{at},{at}"}).collect())


def test_kinds_of_rows_that_are_none():
    """A byte 7 where a row's kind must stand, in a file that is merged and in one that is shown as it lies."""
    for case in ("dedup_avro", FOLDED):
        found = in_memory(case)
        raw = found.scan(raw=True).collect()
        assert set(raw["_row_kind"].to_list()) <= {"+I", "-U", "+U", "-D"}
    from lakekit.bucket.merge_read import check_row_kinds

    for kinds in ([0, 7], [-1], [0, None]):
        assert "row kind" in told(lk.Corrupt, lambda kinds=kinds: check_row_kinds(pl.Series(kinds, dtype=pl.Int8), ["a.parquet"]))
    check_row_kinds(pl.Series([0, 1, 2, 3], dtype=pl.Int8))
    check_row_kinds(pl.Series([], dtype=pl.Int8))


# ---- memory --------------------------------------------------------------------------------------------------------------------------------

MEASURED = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from lakekit.testing.golden.checks import DECODER_OF_FORMAT
from spec_tests.golden.test_broken import cases
def now(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
def read(path):
    said = json.loads(path.read_text(encoding="utf-8"))
    try:
        DECODER_OF_FORMAT[said["format"]](path.with_suffix(".bin").read_bytes(), said)
    except Exception:
        pass
paths = [case.values[0] for case in cases()]
for path in {path.parent.name: path for path in paths}.values():
    read(path)  # what a library takes once
for path in paths:
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = now("VmRSS")
    read(path)
    print(now("VmHWM") - before, path.with_suffix(".bin").stat().st_size, path)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_small_hostile_files_take_no_memory(root):
    """No broken file of the fixtures, bombs among them, takes more than 64 MiB above its size."""
    done = subprocess.run([sys.executable, "-c", MEASURED, str(root)], capture_output=True, text=True, check=False, timeout=300, cwd=root)
    assert done.returncode == 0, done.stderr
    taken = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert len(taken) > 60
    assert not [(kib, path) for kib, size, path in taken if int(kib) * 1024 > (64 << 20) + int(size)]
