"""A notebook open in JupyterLab: its cells run, its widgets are clicked, and its Python can be asked at any time."""

from __future__ import annotations

import ast
import time
from typing import TYPE_CHECKING, Any

import nbformat
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from playwright.sync_api import Locator, Page

    from spec_tests.browser.chromium import Watch
    from spec_tests.browser.lab import Lab

KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
"""Without it JupyterLab asks which kernel to take, and no cell runs."""
SECONDS = 30
expect.set_options(timeout=SECONDS * 1000)  # beside other work a page may take its time; how long an answer may take is asserted where it matters

_OPEN = """async ({path, kernel}) => {
  const app = window.jupyterapp;
  const panel = await app.commands.execute('docmanager:open', {path, factory: 'Notebook', kernelPreference: {shouldStart: kernel}});
  await panel.context.ready;
  await panel.revealed;
  app.shell.activateById(panel.id);
  if (kernel) { await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info; }
}"""
_RUN = """async cells => {
  const panel = window.jupyterapp.shell.currentWidget;
  const ends = cell => new Promise(done => {
    const look = () => cell.model.executionState === 'idle' && cell.model.executionCount !== null ? done() : setTimeout(look, 5);
    look();
  });
  for (const at of cells) {
    panel.content.activeCellIndex = at;
    panel.content.widgets[at].model.executionCount = null;
    void window.jupyterapp.commands.execute('notebook:run-cell');
    await ends(panel.content.widgets[at]);
  }
}"""
_TIME = """async ({at, selector, count}) => {
  const panel = window.jupyterapp.shell.currentWidget, cell = panel.content.widgets[at];
  cell.model.clearExecution();
  panel.content.activeCellIndex = at;
  const painted = () => new Promise(done => requestAnimationFrame(done));
  while (cell.node.querySelector('.jp-OutputArea-output')) await painted();
  const start = performance.now();
  void window.jupyterapp.commands.execute('notebook:run-cell');
  while (cell.node.querySelectorAll(selector).length < count) await painted();
  await painted();
  await painted();
  return (performance.now() - start) / 1000;
}"""
_ASK = """async ({code, asked}) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const reply = (await kernel.requestExecute({code, silent: false, store_history: false, user_expressions: {asked}}).done).content;
  if (reply.status !== 'ok') return {error: reply.ename + ': ' + reply.evalue};
  const found = reply.user_expressions.asked;
  return found.status === 'ok' ? {value: found.data['text/plain']} : {error: found.ename + ': ' + found.evalue};
}"""
_LISTEN = """
import sys as _sys
_raised, _show = [], get_ipython().showtraceback
def _kept(*args, **how):
    _raised.append(repr(_sys.exc_info()[1]))
    _show(*args, **how)
get_ipython().showtraceback = _kept
"""
"""Where ipywidgets tells what was raised while it answered the page."""
_CLOSE = """async () => {
  const panel = window.jupyterapp.shell.currentWidget, session = panel.sessionContext.session;
  const id = session && session.id;
  panel.dispose();
  if (id) await window.jupyterapp.serviceManager.sessions.shutdown(id);
}"""
"""The panel first: parts of it ask a session for its kernel that is no longer there."""


class Desk:
    """One page with JupyterLab in it, for all notebooks of a session: opening it costs more than all else."""

    def __init__(self, page: Page, lab: Lab, watch: Watch) -> None:
        self.page, self.lab, self.watch = page, lab, watch
        self.opened = 0
        page.goto(f"{lab.url}/lab?reset")
        page.wait_for_function("window.jupyterapp && window.jupyterapp.shell", timeout=60_000)
        page.evaluate("window.jupyterapp.restored.then(() => { window.jupyterapp.shell.collapseLeft(); window.jupyterapp.shell.collapseRight(); })")

    def open(self, cells: Sequence[str]) -> Notebook:
        """A new notebook with these cells, all of them run, none of which may fail."""
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells], metadata={"kernelspec": KERNEL})
        self.opened += 1
        nbformat.write(made, self.lab.root / f"n{self.opened}.ipynb")
        self.page.evaluate(_OPEN, {"path": f"n{self.opened}.ipynb", "kernel": True})
        self.watch.complaints.clear()  # those of JupyterLab itself while it starts
        found = Notebook(self.page)
        found.tell(_LISTEN)
        found.run(*range(len(cells)))
        return found

    def look_at(self, name: str) -> Locator:
        """A notebook that lies in the folder of the server, as it was saved, without running it."""
        self.page.evaluate(_OPEN, {"path": name, "kernel": False})
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def theme(self, name: str) -> None:
        """ "Light" or "Dark"."""
        light = "true" if name == "Light" else "false"
        if self.page.locator("body").get_attribute("data-jp-theme-light") == light:
            return
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", f"JupyterLab {name}")
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)  # JupyterLab stumbles over a second change while it fades

    def close(self) -> None:
        """Ends the notebook that is open, with its kernel."""
        self.page.evaluate(_CLOSE)


class Notebook:
    """The notebook that is open."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def output(self, cell: int = -1) -> Locator:
        """What a cell shows."""
        return self.page.locator(".jp-NotebookPanel .jp-CodeCell").nth(cell).locator(".jp-OutputArea-output").first

    def run(self, *cells: int) -> None:
        """Runs these cells and waits for them. An error or a warning that one of them shows is raised here."""
        self.page.evaluate(_RUN, list(cells))
        for cell in cells:
            shown = self.page.locator(".jp-NotebookPanel .jp-CodeCell").nth(cell)
            wrong = shown.locator('[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]')
            if wrong.count():
                raise AssertionError(wrong.first.inner_text())

    def seconds(self, cell: int, selector: str, count: int = 1) -> float:
        """How long it takes from running a cell until so many such elements of its output are painted."""
        return float(self.page.evaluate(_TIME, {"at": cell, "selector": selector, "count": count}))

    def ask(self, expression: str, code: str = "") -> Any:
        """The value of an expression in the notebook's Python, after running `code`: numbers, texts, lists of them."""
        found = self.page.evaluate(_ASK, {"code": code, "asked": expression})
        assert "error" not in found, f"{code} {expression}: {found['error']}"
        return ast.literal_eval(found["value"])

    def tell(self, code: str) -> None:
        """Runs code in the notebook's Python."""
        self.ask("None or 0", code)

    def raised(self) -> list[str]:
        """What went wrong in Python when the page sent something: nobody sees it otherwise."""
        return list(self.ask("_raised"))

    def until(self, expression: str, value: Any) -> None:
        """Waits for the expression to have that value: a click takes its time to arrive."""
        eventually(lambda: self.ask(expression) == value, lambda: f"{expression} is {self.ask(expression)!r}, not {value!r}")


def fastest(rounds: int, measured: Sequence[Callable[[], float]], enough: Callable[..., bool]) -> list[float]:
    """The shortest time of each, measured in turns: other work on the machine only lengthens them. Ends when they are good enough, or after so many rounds."""
    best = [one() for one in measured]
    for _ in range(rounds - 1):
        if enough(*best):
            break
        best = [min(least, one()) for least, one in zip(best, measured, strict=True)]
    return best


def eventually(true: Callable[[], bool], told: Callable[[], str] = str) -> None:
    """Waits until something is true."""
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, told()
        time.sleep(0.03)
