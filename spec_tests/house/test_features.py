"""Nothing is half claimed: one list of features, and what code, options, fixtures and refusals say agrees with it."""

from __future__ import annotations

import ast
import re

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import TableNotFound, Unsupported
from lakekit.options.features import FEATURES, SUPPORT_STATES, Feature, find_feature, find_read_refusal, make_refusal
from spec_tests.house import written
from spec_tests.house.evidence import NAMED, claimed, golden
from spec_tests.house.source import PACKAGE, modules, name, tree

REFUSED_AREAS = {
    "catalog.rest",
    "data-evolution",
    "file.format.blob",
    "file.format.lance",
    "file.format.mosaic",
    "file.format.row",
    "file.format.vortex",
    "index.global",
    "index.vector",
    "row-id",
    "type.geography",
    "type.geometry",
    "type.vector",
}


def test_the_list_is_well_formed():
    assert all(feature.read in SUPPORT_STATES and feature.write in SUPPORT_STATES for feature in FEATURES.values())
    assert all(key == feature.name for key, feature in FEATURES.items())
    assert {key for key in REFUSED_AREAS if FEATURES[key].read != "refused"} == set()


def test_code_refuses_by_names_of_the_list():
    unknown = []
    for path in modules():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            said = [word.value for word in node.keywords if word.arg == "feature"] if called != "make_refusal" else node.args[:1]
            constants = [word for word in said if isinstance(word, ast.Constant) and word.value]
            unknown += [f"{name(path)}:{node.lineno} {word.value}" for word in constants if not find_feature(word.value)]
    assert not unknown


@pytest.mark.parametrize("area, folder", [("merge-engine.", "lsm/engines"), ("file.format.", "format"), ("file-index.", "file_index")])
def test_parts_that_are_files_are_claimed_and_claims_are_files(area, folder):
    named = {path.stem.replace("_", "-") for path in (PACKAGE / folder).glob("*.py")}
    claimed = {key.removeprefix(area) for key, feature in FEATURES.items() if key.startswith(area) and feature.read == "yes"} - {"per-level", "embedded"}
    assert claimed <= named


def test_a_refusal_names_what_where_and_what_to_do():
    error = make_refusal("data-evolution", "table shop.orders", path="schema-0")
    assert isinstance(error, Unsupported)
    assert (error.feature, error.path) == ("data-evolution", "schema-0")
    assert str(error) == (
        "table shop.orders uses data-evolution (files that hold some columns of other files' rows), which lakekit does not support. "
        "Read it with the Java engine; lk.features() lists what lakekit reads"
    )
    assert "does not support. Wait" in str(make_refusal("procedure.migrate_database", "x", alternative="Wait"))


@pytest.mark.parametrize(
    "options, feature",
    [
        ({"data-evolution.enabled": "true"}, "option.data-evolution.enabled"),
        ({"blob-field": "picture"}, "option.blob-field"),
        ({"file.format": "Lance"}, "file.format.lance"),
        ({"type": "FORMAT_TABLE"}, "format-table"),
        ({"data-evolution.enabled": "false", "type": "table", "file.format": "orc"}, None),
    ],
)
def test_options_that_refuse_a_table(options, feature):
    error = find_read_refusal(options, "t")
    assert (error.feature if error else None) == feature


def test_aliases_and_keys_are_found():
    assert find_feature("type.integer") == FEATURES["type.int"]
    assert find_feature("scan.snapshot-id") == FEATURES["option.scan.snapshot-id"]
    assert find_feature("no such thing") is None
    assert isinstance(find_feature("tag"), Feature)


def test_what_is_claimed_is_shown():
    shown = golden()
    assert [feature for feature in claimed() if feature not in shown and feature not in NAMED] == []
    assert sorted(set(NAMED) - set(claimed())) == []


def test_what_is_claimed_to_be_written_is_shown():
    shown = written.shown()
    assert [feature for feature in written.claimed() if feature not in shown] == []
    assert sorted(set(shown) - set(written.claimed())) == []
    assert {name: FEATURES[name].write for name in written.REFUSED} == dict.fromkeys(written.REFUSED, "refused")


def test_tests_of_an_option_say_its_key():
    silent = []
    for place, features in written.NAMED.items():
        said = written.source_of(place)
        keys = [name.removeprefix("option.") for name in features.split() if name.startswith("option.")]
        silent += [
            (place, key) for key in keys if not all(part in said or part.replace("-", "_").replace(".", "__") in said for part in re.split("<[a-z]+>", key))
        ]
    assert silent == []


@pytest.mark.parametrize("place", sorted({*NAMED.values(), *written.NAMED, *written.AGAIN, *written.REFUSED.values()}))
def test_tests_that_show_a_feature_are_there(root, place):
    path, _, test = place.partition("::")
    assert f"def {test}(" in (root / "spec_tests" / path).read_text(encoding="utf-8")


def test_everything_is_there_or_refused():
    assert set(lk.features().select(pl.concat_list("read", "write").explode()).to_series()) == set(SUPPORT_STATES)


def test_system_tables_are_those_that_are_claimed(fixtures_path):
    table = lk.open(str(fixtures_path / "flights" / "table"))
    claimed = {key.removeprefix("system.") for key, feature in FEATURES.items() if key.startswith("system.") and feature.read == "yes"}
    with pytest.raises(TableNotFound) as refused:
        table.system("no such table")
    assert set(str(refused.value).rpartition("There are ")[2].split(", ")) == claimed
    for system in sorted(claimed):
        assert table.system(system).collect_schema().names()
    for system in {key.removeprefix("system.") for key in FEATURES if key.startswith("system.")} - claimed:
        with pytest.raises((Unsupported, TableNotFound)):
            table.system(system)
