"""What every test may ask for, and the rule that a skip is a failure where everything was promised."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from lakekit.testing.fixtures import fixtures
from spec_tests.avro_judge import judging

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from spec_tests.reliability.s3_server import S3Server

REQUIRE_ALL = os.environ.get("LAKEKIT_REQUIRE_ALL", "") not in ("", "0")
"""Set by `.ci/run`: every service was promised, so a test that skips for want of one fails."""

DEEP = os.environ.get("LAKEKIT_DEEP", "") not in ("", "0")
"""Set by `spec_tests/run --deep`: laws are tried on many more drawn inputs."""
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment] # builds a grammar of URIs for 3 s in every process that imports nbformat, which asks it nothing

WHOLE = os.environ.get("LAKEKIT_WHOLE", "") not in ("", "0")
"""Set by `spec_tests/run`: laws are tried on as many drawn inputs as they are worth; the fast loop takes fewer of those that name no number."""
settings.register_profile("fast", max_examples=20, deadline=None, derandomize=True)  # the same code gets the same verdict; deep runs look for what is new
settings.register_profile("whole", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("deep", max_examples=2000, deadline=None)
settings.load_profile("deep" if DEEP else "whole" if WHOLE else "fast")


LONG = (
    "differential/test_writes.py",
    "bench/test_ratios.py",
    "differential/test_regenerate.py",
    "differential/test_chance.py",
    "doors/test_conformance.py",
    "doors/spark/test_pipeline.py",
    "reliability/test_row_crashes.py",
    "differential/test_merge_functions.py",
    "reliability/test_row_race.py",
    "reliability/test_commit_crashes.py",
    "reliability/test_interleavings.py",
    "models/test_partial_update.py",
    "models/test_append.py",
    "models/test_deduplicate.py",
    "models/test_aggregation.py",
    "models/test_first_row.py",
    "differential/test_dynamic_turns.py",
    "reliability/test_known_bugs_of_care.py",
    "differential/test_care_turns.py",
    "reliability/test_care_crashes.py",
    "browser/test_views.py",
    "golden/test_bad_input.py",
    "laws/test_planning.py",
    "house/test_style.py",
    "doors/test_polars_queries.py",
    "laws/test_lsm_engines.py",
    "doors/test_html_payloads.py",
    "doors/test_history_widgets.py",
    "doors/test_browser.py",
    "golden/test_tables.py",
    "doors/test_levels.py",
    "doors/test_polars_life.py",
    "laws/test_draw_history.py",
    "notebooks/test_notebooks.py",
    "roundtrip/test_avro.py",
    "laws/test_merged_filters.py",
    "laws/test_evolve.py",
    "laws/test_lsm_runs.py",
    "laws/test_indexes.py",
    "roundtrip/test_manifests.py",
    "roundtrip/test_model_json.py",
    "doors/test_page.py",
    "doors/test_shell.py",
)
"""The modules that take longest, longest first: they begin before the others, so that no process waits for another's at the end."""


@pytest.fixture
def server() -> Iterator[S3Server]:
    """An object store of one test."""
    from spec_tests.reliability.s3_server import S3Server

    with S3Server() as served:
        yield served


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to object stores that fail are made again after a millisecond."""
    from lakekit.storage import object_store as objects

    monkeypatch.setattr(objects, "FIRST_WAIT", timedelta(milliseconds=1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    turns = {str(Path(__file__).parent / name): at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: turns.get(str(item.path), len(LONG)))


def pytest_collection_finish() -> None:
    """Thousands of items live to the end: the collector of garbage need not walk them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """fastavro judges the Avro files that a test and its fixtures make, but not where time is measured."""
    with nullcontext() if item.get_closest_marker("bench") else judging():
        return (yield)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def fixtures_path() -> Path:
    """The directory of fixtures."""
    return fixtures()


@pytest.fixture(scope="session")
def tables_path(fixtures_path: Path) -> Path:
    """The directory of golden tables."""
    return fixtures_path / "tables"


def _refuse_skip(report: Any) -> None:
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped, where LAKEKIT_REQUIRE_ALL promises everything: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


# ---- how many of the recorded reads were answered as recorded (here, as the process that tells it collects no tests itself) ----------------------

COUNTED = ("reads", "equal", "otherwise", "beyond")
"""What `golden/test_tables.py` says of a table."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = Counter[str]()
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        if report.when == "call" and "test_every_recorded_read" in report.nodeid:
            found.update({name: value for name, value in report.user_properties if name in COUNTED})
    if found["reads"]:
        terminalreporter.section("recorded reads of the reference")
        rule = f"{found['otherwise']} by rule OTHERWISE, {found['beyond']} but for columns that Polars cannot hold, which are refused"
        terminalreporter.line(f"reference reads: {found['equal']} of {found['reads']} equal ({rule})")
