"""How many of the recorded reads were answered as recorded, after the tests."""

from __future__ import annotations

from collections import Counter

COUNTED = ("reads", "equal", "otherwise", "beyond")


def pytest_terminal_summary(terminalreporter):
    found = Counter()
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        if report.when == "call" and "test_every_recorded_read" in report.nodeid:
            found.update({name: value for name, value in report.user_properties if name in COUNTED})
    if found["reads"]:
        terminalreporter.section("recorded reads of the reference")
        rule = f"{found['otherwise']} by rule OTHERWISE, {found['beyond']} but for columns that Polars cannot hold, which are refused"
        terminalreporter.line(f"reference reads: {found['equal']} of {found['reads']} equal ({rule})")
