"""Options of writing as a table's user meets them: each changes what `append`, `upsert`, `overwrite` and writers leave behind."""

from __future__ import annotations

import zlib
from datetime import date
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import lakekit as lk
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.manifest_entries import DELETE
from lakekit.testing.fixtures import fixtures

TABLES = fixtures() / "tables"
WRITTEN_AGAIN = (
    *("aggregate_bool", "aggregate_collect", "aggregate_default_function", "aggregate_first_last_nested", "aggregate_first_not_null_value"),
    *("aggregate_ignore_retract", "aggregate_listagg", "aggregate_max_min_types", "aggregate_merge_map", "aggregate_merge_map_with_keytime"),
    *("aggregate_nested_partial_update", "aggregate_nested_update", "aggregate_nested_update_count_limit", "aggregate_numbers_retract"),
    *("aggregate_product_types", "aggregate_rbm", "aggregate_remove_on_delete", "aggregate_retract_rules", "aggregate_sketches", "hand_nested_key_null_ignore"),
    *("old_0_8_2_count", "partial_group_default_function", "partial_group_every_function", "partial_plain", "partial_remove_on_delete"),
    "partial_remove_on_sequence_group",
)
"""Golden tables whose rows are written again; together they use every merge function."""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*aggregate-function=count. engines since 0.9")
@pytest.mark.parametrize("name", WRITTEN_AGAIN)
def test_versions_written_in_one_commit_are_merged_as_the_reference_merged_them(tmp_path, name):
    golden = lk.open(TABLES / name)
    versions = golden.scan(raw=True).sort("_SEQUENCE_NUMBER").drop("_SEQUENCE_NUMBER", "_level", "_file").collect()
    own = {"primary_keys": golden.primary_keys, "partition_keys": golden.partition_keys, "options": dict(golden.options) | {"write-only": "true"}}
    table = lk.create(tmp_path / "t", list(golden.schema.fields), **own)
    table.upsert(versions, row_kind="_row_kind")
    assert table.files()["row_count"].sum() == versions.select(golden.primary_keys).n_unique()
    assert table.scan().sort(golden.primary_keys).collect().equals(golden.scan().sort(golden.primary_keys).collect())


def keyed(path, **options) -> lk.Table:
    """A table of k and v in one bucket; options are given with `_` for `-` and `__` for `.`."""
    given = {key.replace("__", ".").replace("_", "-"): str(value) for key, value in options.items()}
    return lk.create(path / "t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", **given})


def rows(*keys, v="a"):
    return [{"k": k, "v": v} for k in keys]


def names(path: Path, glob: str) -> list[str]:
    return sorted(str(one.relative_to(path)) for one in path.glob(glob))


# ---- commits -----------------------------------------------------------------------------------------------------------------------------------------


def test_commit_users_have_their_prefix(tmp_path):
    table = keyed(tmp_path, commit__user_prefix="nightly")
    table.upsert(rows(1))
    table.delete("k = 1")
    assert [user.startswith("nightly") and len(user) > len("nightly") for user in table.snapshots()["commit_user"]] == [True, True]


def test_manifests_are_compressed_as_they_should(tmp_path):
    for codec, word in (("snappy", b"snappy"), ("null", b"null"), ("zstd", b"zstandard")):
        table = keyed(tmp_path / codec, manifest__compression=codec)
        table.upsert(rows(1))
        heads = [one.read_bytes()[:4000] for one in (tmp_path / codec / "t" / "manifest").iterdir()]
        assert heads
        assert all(b"avro.codec" in head and word in head for head in heads)


@pytest.mark.parametrize(("form", "magic"), [("avro", b"Obj\x01"), ("orc", b"ORC"), ("parquet", b"PAR1")])
def test_manifests_have_their_format(tmp_path, form, magic):
    table = keyed(tmp_path, manifest__format=form)
    table.upsert(rows(1))
    assert [one.read_bytes()[: len(magic)] for one in (tmp_path / "t" / "manifest").iterdir()] == [magic] * 3
    assert table.scan().collect().rows() == [(1, "a")]


@pytest.mark.parametrize(
    ("form", "codec"),
    [("orc", "none"), ("orc", "zlib"), ("orc", "lz4"), ("orc", "ZSTD"), ("parquet", "none"), ("parquet", "gzip"), ("parquet", "lz4"), ("parquet", "zstd")],
)
def test_manifests_are_compressed_by_the_names_of_their_format(tmp_path, form, codec):
    table = keyed(tmp_path, manifest__format=form, manifest__compression=codec)
    table.upsert(rows(1))
    assert table.scan().collect().rows() == [(1, "a")]


def test_levels_are_those_of_key_tables(tmp_path):
    """The reference asks options of levels for key tables alone."""
    options = {"file.format.per.level": "0:avro", "file.compression.per.level": "0:gzip", "metadata.stats-mode.per.level": "0:none"}
    table = lk.create(tmp_path / "t", {"k": "INT"}, options={**options, "file.suffix.include.compression": "true"})
    table.append([{"k": 1}])
    assert table.files()["file_name"][0].endswith(".zst.parquet")
    assert table.system("files").collect()["min_value_stats"].to_list() == ["{k=1}"]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, 6),
        ({"manifest__merge_min_count": 4}, 3),
        ({"manifest__merge_min_count": 4, "manifest__target_file_size": "1 b"}, 6),
        ({"manifest__full_compaction_threshold_size": "1 b"}, 2),
    ],
)
def test_manifests_are_merged(tmp_path, options, left):
    table = keyed(tmp_path, write_only="true", **options)
    for n in range(6):
        table.upsert(rows(n))
    handle = table._context()
    assert len(manifest_reader.manifest_files(handle, snapshots.latest(handle))) == left
    assert sorted(table.scan().collect()["k"]) == list(range(6))


@pytest.mark.parametrize("dropped", [True, False])
def test_statistics_of_files_that_go_may_be_left_out(tmp_path, dropped):
    table = keyed(tmp_path, manifest__delete_file_drop_stats=str(dropped).lower())
    table.upsert(rows(1, 2))
    table.overwrite(rows(3))
    handle = table._context()
    entries = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, snapshots.latest(handle), "delta"))
    [gone] = [file for kind, file in zip(entries.integers("kind"), entries.files(), strict=True) if kind == DELETE]
    assert (gone.value_stats_cols == ()) == dropped
    assert (gone.value_stats.null_counts in ((), None)) == dropped


def test_overwrites_may_replace_everything(tmp_path):
    for dynamic, left in (("true", [(0, 1), (1, 9)]), ("false", [(1, 9)])):
        table = lk.create(tmp_path / dynamic, {"p": "INT", "v": "INT"}, partition_keys=["p"], options={"dynamic-partition-overwrite": dynamic})
        table.append([{"p": 0, "v": 1}, {"p": 1, "v": 2}])
        table.overwrite([{"p": 1, "v": 9}])
        assert sorted(table.scan().collect().rows()) == left


def test_partitions_are_dropped(tmp_path):
    table = lk.create(tmp_path / "t", {"p": "INT", "q": "STRING", "v": "INT"}, partition_keys=["p", "q"])
    table.append([{"p": p, "q": q, "v": p} for p in range(3) for q in "ab"])
    table.drop_partitions([{"p": 1}, {"p": 2, "q": "a"}])
    assert sorted(table.scan().collect().rows()) == [(0, "a", 0), (0, "b", 0), (2, "b", 2)]
    table.truncate()
    assert table.scan().collect().is_empty()


@pytest.mark.long
@pytest.mark.parametrize("condition", ["p = 1", "true"])
def test_deletes_of_whole_partitions_may_be_told_row_by_row(tmp_path, condition):
    found = []
    for forced in ("false", "true"):
        options = {"bucket": "1", "changelog-producer": "input", "delete.force-produce-changelog": forced}
        table = lk.create(tmp_path / forced, {"p": "INT", "k": "INT"}, primary_keys=["p", "k"], partition_keys=["p"], options=options)
        table.upsert([{"p": 1, "k": 1}, {"p": 1, "k": 2}])
        table.delete(condition)
        assert table.scan().collect().is_empty()
        found.append(table.changes(since=1, mode="changelog").collect().height)
    assert found == [0, 2]


# ---- files -------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_files_are_smaller_at_a_higher_level_of_zstd(tmp_path, form):
    """Arrow's writer of ORC has one level alone."""
    frame = pl.DataFrame({"v": [f"{n * n * 7919 % 10007:x} and {n % 13} more of {n % 7}" for n in range(20_000)]})
    sizes = []
    for level in (1, 15):
        table = lk.create(tmp_path / f"t{level}", {"v": "STRING"}, options={"file.format": form, "file.compression.zstd-level": level})
        table.append(frame)
        sizes.append(sum(one.stat().st_size for one in (tmp_path / f"t{level}" / "bucket-0").iterdir()))
    assert sizes[1] < sizes[0] * 0.97


def test_row_groups_have_their_size_and_columns_their_dictionaries(tmp_path):
    frame = pl.DataFrame({"v": [f"value {n % 50}" for n in range(30_000)]})
    groups = []
    for n, options in enumerate(({}, {"file.block-size": "20 kb"}, {"parquet.enable.dictionary": "false"})):
        table = lk.create(tmp_path / str(n), {"v": "STRING"}, options=options)
        table.append(frame)
        [file] = (tmp_path / str(n) / "bucket-0").iterdir()
        with pq.ParquetFile(file) as found:
            groups.append((found.num_row_groups > 1, found.metadata.row_group(0).column(0).has_dictionary_page))
    assert groups == [(False, True), (True, True), (False, False)]


def test_keys_and_statistics_may_be_left_out(tmp_path):
    found = []
    for n, options in enumerate(({}, {"data_file__thin_mode": "true"}, {"metadata__stats_mode": "none", "metadata__stats_dense_store": "false"})):
        table = keyed(tmp_path / str(n), **options)
        table.upsert(rows(1))
        [path] = (tmp_path / str(n) / "t" / "bucket-0").iterdir()
        handle = table._context()
        [file] = manifest_reader.read_live_entries(handle, snapshots.latest(handle)).files()
        found.append((pq.read_schema(path).names[0], file.value_stats_cols))
        assert table.scan().collect().rows() == [(1, "a")]
    assert found == [("_KEY_k", None), ("_SEQUENCE_NUMBER", None), ("_KEY_k", None)]


def test_files_of_one_scheme_go_to_the_roots_of_that_scheme(tmp_path):
    options = {
        "data-file.external-paths": f"s3://bucket/x,file:{tmp_path}/a",
        "data-file.external-paths.strategy": "specific-fs",
        "data-file.external-paths.specific-fs": "FILE",
    }
    table = lk.create(tmp_path / "t", {"v": "INT"}, options=options)
    for n in range(2):
        table.append([{"v": n}])
    assert len(names(tmp_path / "a", "bucket-0/*.parquet")) == 2
    assert sorted(table.scan().collect()["v"]) == [0, 1]


def test_directories_of_partitions_and_files(tmp_path):
    day = [{"d": date(2024, 3, 31), "s": None, "k": 1}]
    schema, keys = {"d": "DATE", "s": "STRING", "k": "INT"}, {"partition_keys": ["d", "s"]}
    for legacy, directory in (("true", "d=19813"), ("false", "d=2024-03-31")):
        options = {"partition.legacy-name": legacy, "partition.default-name": "NONE", "data-file.path-directory": "data"}
        lk.create(tmp_path / legacy, schema, **keys, options=options).append(day)
        assert [Path(one).parent for one in names(tmp_path / legacy, "**/*.parquet")] == [Path("data", directory, "s=NONE", "bucket-0")]
        assert lk.open(tmp_path / legacy).scan().collect().rows() == [(date(2024, 3, 31), None, 1)]


@pytest.mark.parametrize(("beside", "place"), [("true", "bucket-0"), ("false", "index")])
def test_index_files_may_lie_beside_data_files(tmp_path, beside, place):
    table = lk.create(tmp_path, {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "-1", "index-file-in-data-file-dir": beside})
    table.upsert([{"k": 1}])
    assert [Path(one).parent for one in names(tmp_path, "**/index-*-*") if "manifest" not in one] == [Path(place)]
    table.upsert([{"k": 1}, {"k": 2}])
    assert sorted(table.scan().collect()["k"]) == [1, 2]


# ---- compaction --------------------------------------------------------------------------------------------------------------------------------------


def turns(table: lk.Table, count: int, *, wait: bool = False) -> list[bool]:
    """Whether each of some commits, which are not to wait, compacted."""
    found = []
    with table.writer(commit_user="u") as writer:
        for number in range(1, count + 1):
            writer.write(rows(1, v=str(number)))
            messages = writer.prepare(wait_compaction=wait)
            found.append(any(one.has_compaction for one in messages))
            table.commit(messages, commit_user="u", identifier=number)
    assert table.scan().collect().rows() == [(1, str(count))]
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "compacted"),
    [
        ({}, [False, False, True, True]),
        ({"commit__force_compact": "true"}, [False, True, True, True]),
        ({"changelog_producer": "lookup"}, [True] * 4),
        ({"changelog_producer": "lookup", "lookup_wait": "false"}, [False, True, True, True]),
        ({"full_compaction__delta_commits": 3, "num_sorted_run__compaction_trigger": 9}, [False, False, True, False]),
        ({"write_only": "true", "full_compaction__delta_commits": 1}, [False] * 4),
    ],
)
def test_which_commits_wait_for_compactions(tmp_path, options, compacted):
    assert turns(keyed(tmp_path, **{"num_sorted_run__compaction_trigger": 2, **options}), 4) == compacted


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("interval", [1, 2, 3])
def test_a_counted_writer_compacts_fully_every_n_commits(tmp_path, interval, restarts):
    """Commits whose number is a multiple of n, as the reference engine counts them; all buckets that have new files, also those of an earlier writer."""
    table = keyed(tmp_path, bucket=4, full_compaction__delta_commits=interval, num_sorted_run__compaction_trigger=99)
    found, writer = [], table.writer(commit_user="u")
    for number in range(7):
        if restarts:
            writer = table.writer(commit_user="u")
        writer.write(rows(number))
        writer.commit(identifier=number)
        found.append(0 not in table.files()["level"].to_list())
    assert found == [number % interval == 0 for number in range(7)]
    assert table.scan().collect().height == 7


def test_a_writer_waits_when_too_many_runs_have_gathered(tmp_path):
    """Without waiting, a compaction that is due comes with the next commit; beyond `num-sorted-run.stop-trigger` runs there is no next."""
    found = []
    for stop in (9, 2):
        table = keyed(tmp_path / str(stop), write_only="true", num_sorted_run__compaction_trigger=2, num_sorted_run__stop_trigger=stop)
        for n in range(4):
            table.upsert(rows(1, v=str(n)))
        with table.writer(commit_user="u", compact=True) as writer:
            writer.write(rows(2))
            messages = writer.prepare(wait_compaction=False)
            found.append(any(one.has_compaction for one in messages))
            table.commit(messages, commit_user="u", identifier=1)
    assert found == [False, True]


@pytest.mark.parametrize(("ratio", "rewritten"), [("0.1", False), ("0.9", True)])
def test_files_below_a_share_of_the_target_are_small(tmp_path, ratio, rewritten):
    table = keyed(tmp_path, compaction__small_file_ratio=ratio, target_file_size="2 kb", write_only="true")
    table.upsert(rows(1, 2))
    table.upsert(rows(3, 4))
    before = set(table.files()["file_name"])
    table.compact(full=True)
    after = table.files()
    assert set(after["level"]) == {5}
    assert (set(after["file_name"]) != before) == rewritten


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1),
        ({"postpone__target_row_num_per_bucket": 30}, 4),
        ({"postpone__target_size_per_bucket": "600 b"}, None),
        ({"postpone__target_row_num_per_bucket": 30, "postpone__default_bucket_num": 2}, 2),
    ],
)
def test_postponed_rows_get_as_many_buckets_as_they_ask_for(tmp_path, options, count):
    table = keyed(tmp_path, bucket=-2, **options)
    table.upsert(rows(*range(100)))
    [path] = (tmp_path / "t" / "bucket-postpone").iterdir()
    wanted = -(-path.stat().st_size // 600) if count is None else count
    table.compact(full=True)
    assert sorted(set(table.files()["bucket"])) == list(range(wanted))
    assert len(table.scan().collect()) == 100


@pytest.mark.long
def test_a_batch_of_postponed_rows_finds_its_buckets_at_once_where_the_table_says_so(tmp_path):
    schema, keys = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"}, {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
    options = {"bucket": "-2", "postpone.default-bucket-num": "2", "postpone.batch-write-fixed-bucket": "true"}
    table = lk.create(str(tmp_path / "t"), schema, **keys, options=options)
    later = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    later.with_options({"postpone.default-bucket-num": "3"}).upsert([{"p": 0, "k": k, "v": "a"} for k in range(20)])
    assert table.scan().collect().is_empty()
    later.with_options({"postpone.default-bucket-num": "3"}).compact()
    table.upsert([{"p": k % 2, "k": k, "v": "b"} for k in range(10, 40)])
    assert table.scan().collect().height == 45
    assert sorted(table.files().select("partition", "bucket").unique().rows()) == [("p=0", 0), ("p=0", 1), ("p=0", 2), ("p=1", 0), ("p=1", 1)]
    assert table.check(deep=True).ok
    with table.writer(commit_user="job") as writer:  # a stream is postponed in any case
        writer.write([{"p": 1, "k": 1, "v": "c"}])
        writer.commit(1)
    assert table.scan().collect().height == 45
    table.overwrite([{"p": 0, "k": 1, "v": "d"}])
    assert table.scan().filter(pl.col("p") == 0).collect().rows() == [(0, 1, "d")]
    table.compact(full=True)
    assert table.scan().collect().height == 17
    assert table.check(deep=True).ok


# ---- memory ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_buffers_that_are_full_become_files_or_are_spilled(tmp_path):
    frame = pl.DataFrame({"k": range(12_000), "v": ["x" * 20] * 12_000}, schema={"k": pl.Int32, "v": pl.String})
    counts = []
    small = {"write_buffer_size": "64 kb"}
    for n, more in enumerate(({}, small, small | {"write_buffer_spillable": "false"}, small | {"write_buffer_spill__max_disk_size": "1 b"})):
        table = keyed(tmp_path / str(n), write_only="true", **more)
        with table.writer() as writer:
            for part in frame.iter_slices(500):
                writer.write(part)
        counts.append(len(table.files()))
        assert table.scan().sort("k").collect().equals(frame)
    assert counts[:2] == [1, 1]
    assert counts[2] > counts[3] > 1, "the scratch file takes the first rows"


# ---- writers that go on ------------------------------------------------------------------------------------------------------------------------------


def test_what_a_state_carries_outlives_a_writer_that_could_not_commit_it(tmp_path, monkeypatch):
    table = keyed(tmp_path)

    def refuse(*_, **__):
        raise lk.StorageFailed("the disk is away", path="t")

    with monkeypatch.context() as away:
        away.setattr("lakekit.table.table_writer.commit_changes", refuse)
        with table.writer(commit_user="job") as writer:
            writer.write(rows(1))
            with pytest.raises(lk.StorageFailed):
                writer.commit(identifier=1)
            state = writer.state()
        with pytest.raises(lk.StorageFailed), table.writer(state=state) as again:  # noqa: PT012 - the block is what ends by it
            again.write(rows(2))
            again.commit(identifier=1)
    with table.writer(state=state) as third:
        third.commit(identifier=1)
    assert table.scan().collect()["k"].to_list() == [1]
    assert len(list(tmp_path.rglob("data-*"))) == 1


def test_a_writer_goes_on_from_its_state(tmp_path):
    table = keyed(tmp_path)
    with table.writer(commit_user="job") as writer:
        writer.write(rows(1))
        writer.commit(identifier=4)
        writer.write(rows(2))
        messages = writer.prepare()
        state = writer.state()
    assert table.scan().collect()["k"].to_list() == [1]
    table.commit(messages, commit_user="job", identifier=5)
    with table.writer(state=state) as again:
        assert again.commit_user == "job"
        again.write(rows(3))
        with pytest.raises(lk.InvalidOption, match="must not fall"):
            again.commit(identifier=3)
        again.commit(identifier=6)
    assert sorted(table.scan().collect()["k"]) == [1, 2, 3]
    for bad, error in (
        (state[:4] + b"\x01" + state[5:], lk.Corrupt),
        (state[:4] + b"\x09" + state[5:], lk.Unsupported),
        (state[:-1], lk.Corrupt),
        (b"LKWS", lk.Corrupt),
    ):
        with pytest.raises(error):
            table.writer(state=bad)
    first = b"LKWS\x01\x00\x03job\x01" + (6).to_bytes(8, "big") + bytes(4)  # what the first form held
    with table.writer(state=first + zlib.crc32(first).to_bytes(4, "big")) as older, pytest.raises(lk.InvalidOption, match="must not fall"):
        older.commit(identifier=5)


@pytest.mark.parametrize("later_first", [True, False])
def test_rows_after_a_state_are_newer_than_messages_that_wait(tmp_path, later_first):
    """Messages that were handed out and are committed later do not win over rows of the writer that went on."""
    table = keyed(tmp_path)
    table.upsert(rows(1, v="oldest"))
    with table.writer(commit_user="job", compact=False) as writer:
        writer.write(rows(1, 1, 1, v="old"))
        waiting = writer.prepare()
        state = writer.state()
    with table.writer(state=state, compact=False) as again:
        again.write(rows(1, v="new"))
        later = again.prepare()
        state = again.state()
    with table.writer(state=state, compact=False) as third:
        third.write(rows(1, v="newest"))
        last = third.prepare()
    for number, messages in enumerate([last, later, waiting] if later_first else [waiting, later, last], 1):
        table.commit(messages, commit_user=f"job-{number}", identifier=number)
    assert table.scan().collect()["v"].to_list() == ["newest"]
    assert table.check(deep=True).ok
