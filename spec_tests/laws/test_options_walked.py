"""Every option at every door: one list says what lakekit does with it, and create, alter and the options of a read do that.

The list is `lakekit.options.features.FEATURES`; its names are those that the engine and lakekit declare. What is claimed as `yes` is shown by the tests that
`house/evidence.py` and `house/written.py` name. What is refused is refused by name. What has no effect says why, and has none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, Unsupported
from lakekit.options.definitions import IGNORED_KEYS
from lakekit.options.features import FEATURES, Feature
from lakekit.options.table_options import BY_KEY

GOLDEN = Path(__file__).parents[1] / "golden"
DECLARED = {line.split("\t")[0]: line.split("\t")[1] for line in (GOLDEN / "core_options_1_4_2.tsv").read_text(encoding="utf-8").splitlines()}
WALKED = {name.removeprefix("option."): feature for name, feature in FEATURES.items() if feature.area == "option"}
REFUSED = sorted(key for key, feature in WALKED.items() if "refused" in (feature.read, feature.write) and feature.read != "yes")
IGNORED = sorted(key for key, feature in WALKED.items() if (feature.read, feature.write) == ("-", "-"))
MEANT = {
    "data-file.external-paths.weights": "1,2",
    "global-index.external-path": "file:///indexes",
    "metastore.tag-to-partition.preview": "watermark",
    "page-size": "64 kb",
    "spill-compression": "lz4",
    "stream-scan-mode": "file-monitor",
    "vector.file.format": "parquet",
}
"""Options whose texts are looked at."""
OUT_OF_PLACE = {"auto-create": "true", "materialized-table": "v"}
"""A value that create refuses, and no option but the beginning of some."""
COLUMNS = {"k": "INT", "v": "INT", "p": "STRING"}


def is_flag(key: str) -> bool:
    """Whether an option is true or false."""
    return DECLARED.get(key) == "Boolean" or (key in BY_KEY and BY_KEY[key][1].type == "boolean") or key.endswith((".enabled", "-override"))


def sample(key: str) -> str:
    """A value that switches an option on, or means something."""
    if key in MEANT:
        return MEANT[key]
    if key in BY_KEY:
        option = BY_KEY[key][1]
        kinds = {"boolean": "true", "integer": "3", "long": "3", "number": "0.5", "duration": "1 h", "size": "1 mb", "levels": "0:orc"}
        return option.choices[-1] if option.type == "choice" else kinds.get(option.type, "v")
    declared = {"Boolean": "true", "Integer": "3", "Long": "3", "Double": "0.5", "MemorySize": "1 mb", "Duration": "1 h"}
    return "true" if is_flag(key) else declared.get(DECLARED.get(key, ""), "v")


def made(path: Path, **options: str) -> lk.Table:
    return lk.create(path, COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})


def test_the_list_names_every_option_that_there_is():
    known = {*DECLARED, *BY_KEY, *IGNORED_KEYS}
    assert sorted(known - set(WALKED)) == []
    assert {
        key for key, feature in WALKED.items() if (feature.read, feature.write) == ("-", "-") and not feature.description.startswith("no effect here: ")
    } == set()


@pytest.mark.parametrize("key", REFUSED)
def test_what_is_refused_is_refused_at_every_door(tmp_path, key):
    value, feature = sample(key), f"option.{key}"
    with pytest.raises((Unsupported, InvalidOption), match=key.replace(".", r"\.")) as at_create:
        made(tmp_path / "refused", **{key: value})
    assert not (tmp_path / "refused").exists()
    table = made(tmp_path / "t")
    with pytest.raises((Unsupported, InvalidOption), match=key.replace(".", r"\.")) as at_alter:
        table.alter(lk.set_option(key, value))
    with pytest.raises((Unsupported, InvalidOption), match=key.replace(".", r"\.")) as at_read:
        table.with_options({key: value})
    named = {refused.value.feature for refused in (at_create, at_alter, at_read) if isinstance(refused.value, Unsupported)}
    assert named == {feature}
    assert key not in table.options
    table.upsert([{"k": 1, "v": 1, "p": "x"}])
    assert table.scan().collect().height == 1


@pytest.mark.parametrize("key", [key for key in REFUSED if is_flag(key)])
def test_what_is_switched_off_is_no_refusal(tmp_path, key):
    table = made(tmp_path / "t", **{key: "false"})
    table.alter(lk.set_option(key, "false"))
    table.upsert([{"k": 1, "v": 1, "p": "x"}])
    assert table.with_options({key: "false"}).scan().collect().height == 1


@pytest.mark.parametrize("key", [key for key in REFUSED if WALKED[key].read == "-"])
def test_a_table_of_another_engine_with_an_option_that_only_writers_follow_is_read(tmp_path, key):
    """The option is in the schema file; what reading means does not change."""
    table = made(tmp_path / "t")
    table.upsert([{"k": 1, "v": 1, "p": "x"}])
    schema = tmp_path / "t" / "schema" / "schema-0"
    schema.write_text(schema.read_text(encoding="utf-8").replace('"bucket"', f'"{key}": "{sample(key)}", "bucket"'), encoding="utf-8")
    found = lk.open(tmp_path / "t")
    assert found.options[key] == sample(key)
    assert found.scan().collect().rows() == [(1, 1, "x")]


def test_what_has_no_effect_has_none(tmp_path):
    given = {key: sample(key) for key in IGNORED if key not in OUT_OF_PLACE and "#" not in key}
    table, plain = made(tmp_path / "t", **given), made(tmp_path / "u")
    for key, value in given.items():
        plain.with_options({key: value})
    for number in range(7):
        rows = [{"k": at % 3, "v": number * at, "p": f"{at}"} for at in range(number + 2)]
        table.upsert(rows)
        plain.upsert(rows)
    plain.alter(*(lk.set_option(key, value) for key, value in given.items()))
    assert table.scan().sort("k").collect().equals(plain.scan().sort("k").collect())
    assert table.files()["level"].to_list() == plain.files()["level"].to_list()
    assert table.check(deep=True).ok


def test_the_words_of_an_option_are_shown():
    rows = {row["feature"]: row["words"] for row in lk.features().iter_rows(named=True)}  # scalar: one a feature
    assert rows["option.sort-engine"].startswith("no effect here: ")
    assert isinstance(FEATURES["option.bucket"], Feature)
