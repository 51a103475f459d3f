"""One JupyterLab, one Chromium and one page a session; notebooks are opened in it one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

from spec_tests.browser import chromium
from spec_tests.browser.lab import running
from spec_tests.browser.notebook import Desk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from spec_tests.browser.lab import Lab
    from spec_tests.browser.notebook import Notebook


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker("browser")


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium."""
    if chromium.program() is None or chromium.font() is None:
        pytest.skip(f"needs the DejaVu fonts and one of {', '.join(chromium.PROGRAMS)} (Debian: apt-get install chromium fonts-dejavu-core)")
    with sync_playwright() as driver:
        found = chromium.launch(driver, tmp_path_factory.mktemp("chromium"))
        yield found
        found.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab."""
    with running(tmp_path_factory.mktemp("lab")) as found:
        yield found


@pytest.fixture(scope="session")
def desk(chrome: Browser, lab: Lab) -> Iterator[Desk]:
    """The page that JupyterLab is open in."""
    context = chrome.new_context(viewport=chromium.VIEWPORT, timezone_id="UTC", locale="en-US", reduced_motion="reduce")
    watch = chromium.Watch(context)
    yield Desk(context.new_page(), lab, watch)
    context.close()
    assert watch.elsewhere() == [], "a page asked for what is not on this machine"


@pytest.fixture(scope="module")
def page_of(desk: Desk) -> Iterator[Callable[..., Notebook]]:
    """Opens a notebook with the cells that it is given, and closes it when the next is opened or the module ends."""
    opened: list[Notebook] = []

    def open_one(*cells: str) -> Notebook:
        if opened:
            desk.close()
        opened.append(desk.open(cells))
        return opened[-1]

    yield open_one
    if opened:
        desk.close()
