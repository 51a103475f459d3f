"""What a commit, a writer or a call is told that no table can hold, or that would make wrong what it holds: refused, and the table is what it was.

Rows that are wrong are in `test_bad_writes.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, SchemaMismatch, SqlError, StorageFailed, Unsupported
from spec_tests.doors.test_bad_writes import FORMATS, GOOD, keyed, refused


@pytest.fixture
def table(tmp_path):
    return keyed(tmp_path / "t")


# ---- commits ---------------------------------------------------------------------------------------------------------------------------------------

NO_IDENTIFIERS = (2**63, -(2**63) - 1, True, 1.0, "1")
NO_FACTS = {
    "watermark": NO_IDENTIFIERS,
    "properties": ({"a": 1}, {1: "a"}, {"a": None}, {"a": "\ud800"}, "a"),
    "commit_user": (None, 5, "\ud800"),
}


@pytest.mark.parametrize("identifier", NO_IDENTIFIERS)
def test_identifiers_that_no_snapshot_can_hold(table, identifier):
    def write():
        with table.writer(commit_user="job") as writer:
            writer.write([GOOD | {"k": 5}])
            writer.commit(identifier)

    refused(table, write, InvalidOption, "identifier")
    refused(table, lambda: table.commit([], commit_user="job", identifier=identifier), InvalidOption, "identifier")


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NO_FACTS.items() for value in values])
def test_facts_of_a_commit_that_no_snapshot_can_hold(table, name, value):
    refused(table, lambda: table.commit([], **{"commit_user": "job", "identifier": 1, name: value}), InvalidOption, name)


@pytest.mark.parametrize("user", [5, "\ud800"])
def test_users_that_no_snapshot_can_name(table, user):
    refused(table, lambda: table.writer(commit_user=user), InvalidOption, "commit_user")


def test_messages_whose_files_are_gone(table, tmp_path):
    """They were aborted, or are another table's: a commit of them would be a table that nobody can read."""
    with table.writer() as writer:
        writer.write([GOOD | {"k": 5}])
        messages = writer.prepare()
    other = keyed(tmp_path / "other")
    refused(other, lambda: other.commit(messages, commit_user="job", identifier=1), StorageFailed, "cannot be committed")
    done = table.commit(messages, commit_user="job", identifier=1)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.commit(messages, commit_user="job", identifier=1).snapshot_ids in (done.snapshot_ids, ())  # what is committed is not looked for again
    with table.writer() as writer:
        writer.write([GOOD | {"k": 6}])
        messages = writer.prepare()
    table.abort(messages)
    refused(table, lambda: table.commit(messages, commit_user="job", identifier=2), StorageFailed, "cannot be committed")


@pytest.mark.parametrize("wrong", ["text", [b"bytes"], [None], 5, {"a": 1}], ids=str)
def test_messages_that_are_none(table, wrong):
    for ask in (lambda: table.commit(wrong, commit_user="job"), lambda: table.abort(wrong)):
        with pytest.raises(TypeError, match=r"those that w.prepare\(\) gave"):
            ask()


def test_messages_of_an_iterator_are_committed(table):
    with table.writer() as writer:
        writer.write([GOOD | {"k": 5}])
        messages = writer.prepare()
    assert table.commit(iter(messages), commit_user="job", identifier=1).row_count == 1
    assert table.scan().collect().height == 2


def test_columns_to_match_on_may_come_of_an_iterator(table):
    rows = table.scan().collect()
    done = table.merge(rows, lk.when_matched(delete=True), on=iter(["k"]))
    assert (done.row_count, table.scan().collect().height) == (1, 0)


def test_options_of_a_table_by_name_are_a_dict(tmp_path):
    cat = lk.connect(tmp_path)
    cat.create_database("d")
    cat.create_table("d.t", {"k": "INT"})
    for wrong in (["scan.mode"], {1: "x"}):
        with pytest.raises(TypeError, match=r"options are a dict|an option's key is a text"):
            cat.table("d.t", options=wrong)


def test_numbers_of_numpy_are_numbers_of_commits(table):
    done = table.commit([], commit_user="job", identifier=np.int64(7), watermark=np.int64(8))
    assert (done.identifier, table.snapshots()["commit_identifier"][-1], table.snapshots()["watermark"][-1]) == (7, 7, 8)


# ---- names and types of formats ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "name"),
    [("avro", name) for name in ("a b", "a.b", "1a", "$x", "🙂", "e\u0301", "a-b")] + [("orc", name) for name in ("a`b", "``", "`q`", "q`")],
)
def test_names_that_files_of_a_format_do_not_hold(tmp_path, form, name):
    """The reference refuses to write them too; of ORC files it reads nulls where a name has a tick. Tables that it made so are open, and not written."""
    with pytest.raises(SchemaMismatch, match=f"(?i)column .*{form} "):
        lk.create(tmp_path / "t", {"k": "INT NOT NULL", name: "INT"}, primary_keys=["k"], options={"bucket": "1", "file.format": form})
    assert not (tmp_path / "t").exists()
    made = lk.create(tmp_path / "t", {"k": "INT NOT NULL", name: "INT"}, primary_keys=["k"], options={"bucket": "1"})
    schema = Path(made.location) / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"bucket" : "1"', f'"bucket" : "1", "file.format" : "{form}"'))
    t = lk.open(tmp_path / "t")
    refused(t, lambda: t.upsert([{"k": 1, name: 1}]), Unsupported, f"{form} files do not hold")
    postponed = lk.create(tmp_path / "p", {"k": "INT NOT NULL", name: "INT"}, primary_keys=["k"], options={"bucket": "-2"})
    postponed.upsert([{"k": 1, name: 1}])
    postponed.compact()
    assert postponed.scan().collect().rows() == [(1, 1)]


@pytest.mark.parametrize(
    ("form", "t"), [("parquet", "ROW<>"), ("parquet", "ARRAY<ROW<a ROW<>>>"), ("avro", "MULTISET<INT>"), ("avro", "ARRAY<MULTISET<DATE>>")]
)
def test_types_that_files_of_a_format_do_not_hold(tmp_path, form, t):
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": t}, primary_keys=["k"], options={"bucket": "1", "file.format": form})
    refused(table, lambda: table.upsert([{"k": 1, "v": None}]), Unsupported, f"{form} files do not hold")


@pytest.mark.parametrize("form", FORMATS)
def test_names_in_letters_of_all_scripts(tmp_path, form):
    names = ("ü", "日本", "имя", "_x", "a1", "null", "value", "key")
    fields = {name: f"ROW<`{name}` INT, v ARRAY<INT>>" for name in names}
    t = lk.create(tmp_path / "t", {"k": "INT NOT NULL", **fields}, primary_keys=["k"], options={"bucket": "1", "file.format": form})
    t.upsert([{"k": 1, **{name: {name: 1, "v": [1]} for name in names}}])
    assert t.scan().collect().select(pl.exclude("k")).row(0) == tuple({name: 1, "v": [1]} for name in names)


# ---- where rows go -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bucket", [True, "0", 0.0, -1, 1])
def test_buckets_that_are_none(table, bucket):
    def write():
        with table.writer() as writer:
            writer.write([GOOD], bucket=bucket)

    refused(table, write, InvalidOption, "bucket")


def test_an_empty_partition_is_what_the_table_says(table):
    """As the reference has it: dynamic, unless the table says otherwise; it names no partition to be emptied."""
    assert table.overwrite([], partition={}).snapshot_ids == ()
    table.overwrite([GOOD | {"k": 2, "dt": "y"}], partition={})
    assert sorted(table.scan().collect()["dt"]) == ["x", "y"]
    table.with_options({"dynamic-partition-overwrite": "false"}).overwrite([GOOD | {"dt": "y"}], partition={})
    assert sorted(table.scan().collect()["dt"]) == ["y"]


@pytest.mark.parametrize("partition", ["dt=x", [("dt", "x")], 5])
def test_partitions_that_are_none(table, partition):
    refused(table, lambda: table.overwrite([], partition=partition), InvalidOption, "partition")
    refused(table, lambda: table.drop_partitions([partition]), InvalidOption, "partition")


# ---- options of one call -------------------------------------------------------------------------------------------------------------------------

MODES = (
    ({}, {"deletion-vectors.enabled": "true"}),
    ({}, {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true"}),
    ({"deletion-vectors.enabled": "true"}, {"deletion-vectors.enabled": "false"}),
    ({"ignore-delete": "true"}, {"ignore-delete": "false"}),
    ({"ignore-update-before": "true"}, {"ignore-update-before": "false"}),
    ({}, {"bucket": "-1"}),
    ({"bucket": "-1"}, {"bucket": "2"}),
)


@pytest.mark.parametrize(("held", "asked"), MODES)
def test_modes_that_one_call_cannot_change(tmp_path, held, asked):
    """Rows would be left out, or lie where nobody looks: the reference refuses them too."""
    t = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1", **held})
    t.upsert([{"k": 1, "v": 1}])
    (key, _), *_ = asked.items()
    for ask in (lambda: t.with_options(asked), lambda: lk.open(t.location, options=asked).scan()):
        assert refused(t, ask, InvalidOption, "Cannot change").key == key


def test_modes_may_be_told_again(tmp_path):
    t = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "2", "ignore-delete": "true"})
    t.upsert([{"k": 1}])
    again = t.with_options({"bucket": "2", "ignore-delete": "true", "deletion-vectors.enabled": "false"})
    assert again.scan().collect().height == 1
    assert lk.open(t.location, options={"deletion-vectors.modifiable": "true"}).scan().collect().height == 1
    t.alter(lk.set_option("deletion-vectors.modifiable", "true"))
    t.compact(full=True)
    assert t.with_options({"deletion-vectors.enabled": "true"}).scan().collect().height == 1


# ---- conditions and words ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("never", ["NULL", pl.lit(None), "NULL AND dt IS NOT NULL"], ids=str)
def test_a_condition_that_is_null_holds_for_no_row(table, never):
    before = table.scan().collect()
    assert table.delete(never).snapshot_id is None
    assert table.update({"v": None}, where=never).snapshot_id is None
    assert table.merge(before, lk.when_matched(delete=True, where=never), on=["k"]).snapshot_id is None
    assert table.compact(where=never).snapshot_id is None
    assert table.aggregate(pl.len(), where=never).item() == 0


@pytest.mark.parametrize("always", ["1 = 1", "true", True, pl.lit(value=True)], ids=str)
def test_a_condition_without_a_column_holds_for_every_partition(tmp_path, always):
    parts = lk.create(tmp_path / "t", {"k": "INT", "p": "INT"}, partition_keys=["p"], options={"compaction.min.file-num": "2"})
    assert parts.compact(where=always).snapshot_id is None  # there is none yet
    for _ in range(2):
        parts.append([{"k": 1, "p": p} for p in range(3)])
    parts.compact(where=always, full=True)
    assert parts.files().height == 3


@pytest.mark.parametrize("options", [{5: "x"}, "scan.mode", [("scan.mode", "latest")]], ids=str)
def test_options_that_are_no_mapping_of_texts(table, options, tmp_path):
    for ask in (
        lambda: table.scan(options=options),
        lambda: table.with_options(options),
        lambda: lk.open(table.location, options=options),
        lambda: lk.create(tmp_path / "other", {"k": "INT"}, options=options),
    ):
        with pytest.raises(TypeError, match=r"options are a dict|an option's key is a text"):
            ask()


def test_words_that_are_none(table):
    refused(table, lambda: table.drop_partitions([]), InvalidOption, "no partition is named")
    refused(table, lambda: table.append([None]), SchemaMismatch, "NoneType holds no rows")
    refused(table, lambda: table.append([{}]), SchemaMismatch, "they have no columns")
    for ask, says in (
        (lambda: table.update({1: 2}, where="k = 1"), "takes the new values by column"),
        (lambda: table.merge([GOOD], lk.when_matched(delete=True), on=5), "on= takes columns"),
        (lambda: table.changes(0, kind_column=5), "kind_column= is the name of a column"),
    ):
        with pytest.raises(TypeError, match=says):
            ask()


HALF = "a = '\ud800'"
"""A lone surrogate, which is no text to Polars, nor to any file."""


def test_texts_that_hold_half_a_character(table):
    """They ended in UnicodeEncodeError."""
    for ask in (
        lambda: table.delete(HALF),
        lambda: table.update({"v": "1"}, where=HALF),
        lambda: table.update({"v": "'\ud800'"}, where="k = 1"),
        lambda: table.explain(HALF),
        lambda: table.aggregate(pl.len(), where=HALF),
    ):
        refused(table, ask, SqlError, "is half of a character")
    refused(table, lambda: table.rewrite_file_index(where=HALF), SqlError, "is half of a character")
    refused(table, lambda: table.compact(where=HALF), SqlError, "is half of a character")


@pytest.mark.parametrize("name", [None, 5, b"k"])
def test_fields_whose_name_is_no_text(name):
    """Such a field was made, and str() of it ended in AttributeError."""
    with pytest.raises(TypeError, match="the name of a field is a text"):
        lk.Field(name, "INT")
