"""The options of a table against what engine 1.4.2 declares (`core_options_1_4_2.tsv`: key, type, default, older keys), and how texts are read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from lakekit.errors import InvalidOption
from lakekit.options.definitions import IGNORED_KEYS
from lakekit.options.option import INFINITE_SIZE, read_boolean, read_duration, read_integer, read_levels, read_number, read_size
from lakekit.options.table_options import BY_KEY, OPTION_OF_ATTRIBUTE, TableOptions, list_options

DECLARED = [line.split("\t") for line in (Path(__file__).parent / "core_options_1_4_2.tsv").read_text().splitlines()]
TYPES = {
    "Boolean": ("boolean",),
    "Integer": ("integer",),
    "Long": ("long",),
    "Double": ("number",),
    "Float": ("number",),
    "Duration": ("duration",),
    "MemorySize": ("size",),
    "String": ("text", "names"),
    "Map": ("levels",),
}
CONFLICTS = {"file.compression"}
"""Keys that are an option of their own and an older key of another."""
UNTYPED = "parquet.enable.dictionary"
"""Declared as a number, handed to Parquet as text, where it is a boolean."""


@pytest.mark.parametrize(("key", "type_name", "default", "older"), DECLARED, ids=[row[0] for row in DECLARED])
def test_options_are_those_of_the_engine(key: str, type_name: str, default: str, older: str) -> None:
    if key in IGNORED_KEYS:
        assert key not in BY_KEY
        return
    name, option = BY_KEY[key]
    assert option.type in TYPES.get(type_name, ("choice", "text")) or key == UNTYPED
    assert list(option.old_keys) == [old for old in older.split(",") if old]
    declared = option.parse("" if type_name == "Map" else default) if default != "null" else option.parse("") if option.type == "names" else None
    assert getattr(TableOptions.parse({}), name) == declared
    for old in option.old_keys:
        if old not in CONFLICTS and default != "null" and type_name != "Map":
            assert getattr(TableOptions.parse({old: default}), name) == declared


def test_attributes_follow_from_keys() -> None:
    for name, option in OPTION_OF_ATTRIBUTE.items():
        unit = {"duration": "_ms", "size": "_bytes"}.get(option.type, "")
        plain = "".join("_" + c.lower() if c.isupper() else c for c in option.key).replace(".", "_").replace("-", "_")
        assert name == plain + unit


def test_every_option_has_its_line() -> None:
    rows = list(list_options())
    assert len(rows) == len({row["key"] for row in rows}) > 250
    for row in rows:
        assert row["words"].endswith(".")
        assert row["type"] in {"boolean", "integer", "long", "number", "duration", "size", "text", "names", "levels", "choice"}
        assert (row["type"] == "choice") == bool(row["choices"])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16kb", 16384),
        ("64 MB", 64 << 20),
        ("1", 1),
        ("500 bytes", 500),
        ("1 g", 1 << 30),
        ("2 Tebibytes", 2 << 40),
        (" 1 k ", 1024),
        ("infinite", INFINITE_SIZE),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1 h", 3_600_000),
        ("5min", 300_000),
        ("30 s", 30_000),
        ("1 d", 86_400_000),
        ("2 days", 172_800_000),
        ("100", 100),
        ("0 ms", 0),
        ("1500 µs", 1),
        ("999999 ns", 0),
        ("PT5M", 300_000),
        ("P1DT2H", 93_600_000),
        ("-PT1S", -1000),
    ],
)
def test_durations(text: str, millis: int) -> None:
    assert read_duration(text) == millis


def test_other_texts() -> None:
    assert (read_boolean("TRUE"), read_boolean("false")) == (True, False)
    assert (read_integer("+5"), read_integer("-2147483648"), read_number("0.05"), read_number("1e3")) == (5, -(2**31), 0.05, 1000.0)
    assert read_levels("0:avro, 5:orc") == {0: "avro", 5: "orc"}


WRONG = {
    "bucket": ["", "x", "1.0", "2147483648", "1_0", "٣"],
    "scan.snapshot-id": ["9223372036854775808", "latest"],
    "write-only": ["yes", "", "1"],
    "write-buffer-size": ["", "mb", "-1", "1.5 mb", "1 parsec", "9999999999999999999", "٣ mb"],
    "snapshot.time-retained": ["", "soon", "1 fortnight", "P", "PT", "PT1X", "9" * 30],
    "merge-engine": ["", "upsert"],
    "file.format.per.level": ["avro", "x:avro"],
    "compaction.delete-ratio-threshold": ["nan", "1/2", "1e9999"],
}


@pytest.mark.parametrize(("key", "text"), [(key, text) for key, texts in WRONG.items() for text in texts])
def test_texts_that_mean_nothing_raise_when_the_option_is_asked_for(key: str, text: str) -> None:
    options = TableOptions.parse({key: text, "num-levels": "3"}, kind="key")
    assert options.num_levels == 3
    with pytest.raises(InvalidOption) as raised:
        getattr(options, BY_KEY[key][0])
    assert (raised.value.key, raised.value.value) == (key, text)
    assert "allowed: " in str(raised.value)
    with pytest.raises(InvalidOption):
        TableOptions.parse({}).with_options({key: text})


def test_the_message_says_what_is_allowed() -> None:
    with pytest.raises(InvalidOption, match="option 'merge-engine' is 'upsert'; allowed: deduplicate, partial-update, aggregation, first-row"):
        _ = TableOptions.parse({"merge-engine": "upsert"}).merge_engine


@pytest.mark.parametrize("text", ["partial-update", "PARTIAL_UPDATE", "Partial-Update"])
def test_choices_are_read_in_any_spelling(text: str) -> None:
    assert TableOptions.parse({"merge-engine": text}).merge_engine == "partial-update"


def test_what_is_said_of_columns() -> None:
    options = TableOptions.parse(
        {
            "fields.default-aggregate-function": "max",
            "fields.v.aggregate-function": "listagg",
            "fields.v.list-agg-delimiter": ";",
            "fields.v.distinct": "true",
            "fields.a.b.ignore-retract": "true",
            "fields.n.nested-key": "x, y",
            "fields.n.count-limit": "5",
            "fields.g1, g2.sequence-group": "a,b",
            "fields.loose": "x",
        }
    )
    assert options.fields_default_aggregate_function == "max"
    assert set(options.fields) == {"v", "a.b", "n"}
    assert (options.field("v").aggregate_function, options.field("v").list_agg_delimiter, options.field("v").distinct) == ("listagg", ";", True)
    assert (options.field("a.b").ignore_retract, options.field("none").ignore_retract) == (True, False)
    assert (options.field("n").nested_key, options.field("n").count_limit) == (("x", "y"), 5)
    assert options.sequence_groups == {("g1", "g2"): ("a", "b")}
    assert options.unknown_options == {"fields.loose": "x"}


def test_what_means_nothing_of_a_column_raises_when_columns_are_asked_for() -> None:
    options = TableOptions.parse({"fields.v.distinct": "maybe"})
    assert options.bucket == -1
    for name in ("fields", "sequence_groups"):
        with pytest.raises(InvalidOption) as raised:
            getattr(options, name)
        assert raised.value.key == "fields.v.distinct"


def test_file_indexes() -> None:
    options = TableOptions.parse(
        {
            "file-index.bloom-filter.columns": "a, b.c,m[k]",
            "file-index.bloom-filter.b.c.fpp": "0.1",
            "file-index.bitmap.columns": "a",
            "file-index.bitmap.a.version": "1",
            "file-index.read.enabled": "false",
            "file-index.in-manifest-threshold": "1 kb",
        }
    )
    assert options.file_indexes == {"bloom-filter": {"a": {}, "b.c": {"fpp": "0.1"}, "m[k]": {}}, "bitmap": {"a": {"version": "1"}}}
    assert (options.file_index_read_enabled, options.file_index_in_manifest_threshold_bytes) == (False, 1024)
    assert not options.unknown_options


def test_what_follows_from_others() -> None:
    key, append = TableOptions.parse({}, kind="key"), TableOptions.parse({})
    assert (key.rolling_size_bytes, append.rolling_size_bytes) == (128 << 20, 256 << 20)
    assert TableOptions.parse({"target-file-size": "1 mb"}).rolling_size_bytes == 1 << 20
    assert (key.level_count, key.stop_trigger, key.spill_threshold, key.gentle_lookup_interval) == (6, 8, 9, 10)
    lazy = TableOptions.parse({"num-sorted-run.compaction-trigger": "10", "num-sorted-run.stop-trigger": "3", "num-levels": "4"})
    assert (lazy.level_count, lazy.stop_trigger, lazy.spill_threshold, lazy.gentle_lookup_interval) == (4, 10, 11, 20)
    assert key.changelog_retained == (10, 2**31 - 1, 3_600_000)
    assert not key.changelog_outlives_snapshots
    assert TableOptions.parse({"changelog.num-retained.min": "20"}).changelog_outlives_snapshots
    assert [TableOptions.parse({option: value}).needs_lookup for option, value in LOOKUP] == [True, True, True, True, False]


LOOKUP = [
    ("merge-engine", "first-row"),
    ("changelog-producer", "lookup"),
    ("deletion-vectors.enabled", "true"),
    ("force-lookup", "true"),
    ("changelog-producer", "full-compaction"),
]


def test_older_keys_give_way_to_the_option_itself() -> None:
    assert TableOptions.parse({"partial-update.ignore-delete": "true"}).ignore_delete
    assert not TableOptions.parse({"partial-update.ignore-delete": "true", "ignore-delete": "false"}).ignore_delete
    assert TableOptions.parse({"write-only": "false"}).with_options({"write.compaction-skip": True}).write_only
    assert TableOptions.parse({"write.compaction-skip": "true"}).with_options({"write-only": False}).texts == {"write-only": "false"}
    assert TableOptions.parse({"write.compaction-skip": "true"}).with_options({"write-only": None}).texts == {}


def test_a_caller_changes_options() -> None:
    options = TableOptions.parse({"bucket": "4", "other": "kept"}, kind="key")
    changed = options.with_options({"scan.snapshot-id": 3, "scan.mode": "latest", "lakekit.timestamp-unit": "us", "global-index.thread-num": "4"})
    assert (changed.scan_snapshot_id, changed.bucket, changed.texts["scan.snapshot-id"], changed.unknown_options) == (3, 4, "3", {"other": "kept"})
    assert changed.with_options({"scan.snapshot-id": None, "scan.mode": None}).scan_snapshot_id is None
    assert options.with_options({"merge-engine": "DEDUPLICATE"}).merge_engine == "deduplicate"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"scan.snpshot-id": 1}, "did you mean 'scan.snapshot-id'"),
        ({"completely else": 1}, r"lk\.options\(\) lists them"),
        ({"merge-engine": "first-row"}, "is fixed when a table is made"),
        ({"bucket-key": "v"}, "is fixed when a table is made"),
        ({"bucket": [1]}, "takes a text, found list"),
        ({"fields.v.distinct": "maybe"}, "allowed: true, false"),
        ({"scan.snapshot-id": "one"}, "a whole number of 64 bits"),
    ],
)
def test_a_caller_is_told_what_is_wrong(change: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidOption, match=why) as raised:
        TableOptions.parse({"bucket": "4"}).with_options(change)
    assert raised.value.key == next(iter(change))


def test_options_are_values() -> None:
    given = {"bucket": "4", "merge-engine": "nonsense"}
    options = TableOptions.parse(given, kind="key")
    assert options == TableOptions.parse(dict(given), kind="key") != TableOptions.parse(given)
    assert pickle.loads(pickle.dumps(options)) == options
    assert len({options, TableOptions.parse(given, kind="key")}) == 1
    with pytest.raises(TypeError, match="never changes"):
        options.texts["bucket"] = "5"
    with pytest.raises(AttributeError):
        _ = options.no_such_option  # type: ignore[attr-defined]
