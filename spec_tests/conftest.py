"""What every test may ask for, and the rule that a skip is a failure where everything was promised."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    from collections.abc import Generator

REQUIRE_ALL = os.environ.get("LAKEKIT_REQUIRE_ALL", "") not in ("", "0")
"""Set by `.ci/run`: every service was promised, so a test that skips for want of one fails."""

DEEP = os.environ.get("LAKEKIT_DEEP", "") not in ("", "0")
"""Set by `spec_tests/run --deep`: laws are tried on many more drawn inputs."""
settings.register_profile("plain", max_examples=50, deadline=None)
settings.register_profile("deep", max_examples=2000, deadline=None)
settings.load_profile("deep" if DEEP else "plain")


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
