"""Every view's `code`, run by somebody else, gives the rows of its `frame()`: whatever is chosen, in whichever table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.notebook.browser import Browser
from lakekit.notebook.levels import Levels
from lakekit.notebook.manifests import Manifests
from lakekit.notebook.panels import Timeline
from spec_tests.doors.views import table

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = (
    "dedup_levels",
    "append_partitioned",
    "partition_keyed_types",
    "partition_special_values",
    "partition_default_name",
    "vectors_append_bucketed",
    "evolve_keyed_parquet",
    "evolve_append_parquet",
    "scan_after_expiry",
    "history_long_lived_changelog_input",
    "history_expired_compactions",
    "first_row_lookup",
    "empty_keyed",
)


def again(code: str) -> pl.DataFrame:
    """What the code of a view gives, run as a user would."""
    *before, last = code.split("; ")
    names: dict[str, object] = {"lk": lk, "pl": pl}
    for line in before:
        exec(line, names)
    found: pl.DataFrame | pl.LazyFrame = eval(last, names)
    return found.lazy().collect()


def alike(view: Timeline | Manifests | Levels | Browser) -> None:
    """The code and the frame give the same rows, or neither gives any."""
    try:
        frame = view.frame().lazy().collect()
    except LakekitError:
        with_code = again(view.code)
        assert with_code.height == 0, view.code
        return
    assert_frame_equal(again(view.code), frame, check_row_order=False)  # a semi join keeps none


def every_choice(opened: lk.Table) -> Iterator[Timeline | Manifests | Levels | Browser]:
    """Each view with each of its choices in turn."""
    line = Timeline(opened)
    yield line
    for mark in line.history.marks:
        line.selected = mark.id
        yield line
    tree = Manifests(opened)
    yield tree
    for name in [m.name for listed in tree.tree.lists for m in listed.manifests] + [one.name for one in tree.tree.indexes]:
        tree.selected = name
        yield tree
    shown, browser = Levels(opened), Browser(opened)
    yield shown
    yield browser
    for partition, bucket, name in opened.files().select("partition", "bucket", "file_name").rows():
        shown.selected = ""
        shown.partition, shown.bucket = partition, bucket
        yield shown
        shown.selected = name
        yield shown
        browser.levels.selected = name
        yield browser
    for number in opened.snapshots()["snapshot_id"].to_list():
        browser.at = shown.at = number
        yield shown
        yield browser


@pytest.mark.parametrize("case", CASES)
def test_code_gives_what_frame_gives(case: str) -> None:
    opened = table(case)
    for view in every_choice(opened):
        alike(view)


def test_code_of_a_branch_and_of_dynamic_options() -> None:
    for opened in (table("history_branches").branch("from_tag"), table("dedup_levels").with_options({"lakekit.timestamp-unit": "us"})):
        for view in every_choice(opened):
            assert "branch='from_tag'" in view.code or "options={" in view.code
            alike(view)


def test_a_file_that_went_up_a_level_is_there_though_older_snapshots_expired(tmp_path) -> None:
    opened = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    opened.upsert([{"k": 1, "v": 1}])
    opened.compact(full=True)
    opened.expire_snapshots(retain_max=1, retain_min=1)
    shown = Levels(opened)
    shown.selected = opened.files()["file_name"].item()
    assert shown.frame().collect().height == 1
    alike(shown)
