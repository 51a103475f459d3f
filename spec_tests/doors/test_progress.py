"""How far long work has come: half a second of silence, one line that goes when the work does, never a word on stdout."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

import lakekit as lk
from lakekit.errors import Unsupported
from lakekit.metadata.table_context import open_context
from lakekit.progress import DELAY_MS, INTERVAL_MS, _Process, begin_work
from lakekit.read import planner, time_travel
from lakekit.runtime import Runtime
from lakekit.storage.memory import MemoryStorage
from spec_tests.doors.views import awaited


class Clock:
    """Milliseconds that pass when a test says so."""

    def __init__(self):
        self.now_ms = 0.0
        self.runtime = Runtime(elapsed_ms=lambda: self.now_ms)


class Terminal(io.StringIO):
    """A stderr that is one."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal of 40 columns was sent."""
    found = Terminal()
    monkeypatch.setattr("lakekit.runtime.sys", SimpleNamespace(stderr=found, platform=sys.platform))  # pytest puts its own stderr in place again
    monkeypatch.setattr("lakekit.runtime.terminal_columns", lambda: 40)
    return found


GONE = "\r\x1b[K"


def drawn(line):
    return f"\r{line}\x1b[K"


def test_nothing_is_shown_for_half_a_second_and_nothing_is_left(clock, terminal, capfd):
    with begin_work(clock.runtime, "planning", "manifests", 41, extra_unit="files") as under_way:
        under_way.advance(30, 9000)
        clock.now_ms = DELAY_MS - 1
        under_way.advance()
        assert terminal.getvalue() == ""
        clock.now_ms = DELAY_MS
        under_way.advance(7, 3340)
        assert terminal.getvalue() == drawn("planning 38/41 manifests · 12 340 files")
        clock.now_ms += INTERVAL_MS - 1
        under_way.advance()
        assert terminal.getvalue().count("\r") == 1, "drawn again only when the line has stood for a while"
        clock.now_ms += 1
        under_way.advance(1, 1)
    assert terminal.getvalue().endswith(drawn("planning 40/41 manifests · 12 341 files") + GONE)
    assert capfd.readouterr().out == ""


def test_short_work_shows_nothing_at_all(clock, terminal):
    with begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
        under_way.advance(2)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    "total, beside, steps, line",
    [
        (0, "rows", (12, 1_000_000), "writing 12 files · 1 000 000 rows"),
        (3, "bytes", (1, 64 << 20), "writing 1/3 files · 64.0 MiB"),
        (2000, "", (1999, 0), "writing 1 999/2 000 files"),
    ],
)
def test_what_a_line_says(clock, total, beside, steps, line):
    with begin_work(clock.runtime, "writing", "files", total, extra_unit=beside) as under_way:
        under_way.advance(*steps)
        assert under_way.line == line


def test_a_narrow_terminal_gets_a_cut_line_and_one_of_few_letters_gets_question_marks(clock, terminal, monkeypatch):
    monkeypatch.setattr("lakekit.runtime.terminal_columns", lambda: 20)
    terminal.encoding = "ascii"
    with begin_work(clock.runtime, "planning", "manifests", 41, extra_unit="files") as under_way:
        clock.now_ms = DELAY_MS
        under_way.advance(1, 300)
    assert terminal.getvalue() == drawn("planning 1/41 mani?") + GONE


@pytest.mark.parametrize("where", ["a pipe", "nowhere", "a terminal that cannot rewrite"])
def test_without_a_terminal_there_is_silence(clock, monkeypatch, where):
    stream = {"a pipe": io.StringIO(), "nowhere": None, "a terminal that cannot rewrite": Terminal()}[where]
    monkeypatch.setattr("lakekit.runtime.sys", SimpleNamespace(stderr=stream, platform=sys.platform))
    monkeypatch.setenv("TERM", "dumb")
    with begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
        clock.now_ms = DELAY_MS
        under_way.advance()
    assert stream is None or stream.getvalue() == ""


def test_a_line_that_cannot_be_written_does_not_end_the_work(clock, terminal):
    terminal.close()
    with begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
        clock.now_ms = DELAY_MS
        under_way.advance()
        under_way.advance()
    assert under_way.step_count == 2
    assert _Process.owner is None


@pytest.mark.parametrize("kernel", [None, object()])
def test_ipython_in_a_terminal_has_a_line_and_a_kernel_without_widgets_nothing(clock, terminal, monkeypatch, kernel):
    def missing(folder, name):
        raise Unsupported(f"{name} of {folder} needs ipywidgets")

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=kernel)))
    monkeypatch.setattr("lakekit.plugins.load", missing)
    with begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
        clock.now_ms = DELAY_MS
        under_way.advance()
    assert terminal.getvalue() == (drawn("planning 1/2 manifests") + GONE if kernel is None else "")


# ---- who is told --------------------------------------------------------------------------------------------------------------------------------------


def test_a_callback_is_told_every_step_and_the_terminal_nothing(clock, terminal):
    said = []
    with lk.progress(lambda *step: said.append(step)), begin_work(clock.runtime, "planning", "manifests", 2, extra_unit="files") as under_way:
        clock.now_ms = DELAY_MS
        under_way.advance(1, 7)
        under_way.advance()
    assert said == [(1, 2, "planning 1/2 manifests · 7 files"), (2, 2, "planning 2/2 manifests · 7 files")]
    with begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
        under_way.advance()
    assert len(said) == 2, "the block is over"
    assert terminal.getvalue() == ""


def test_what_a_callback_raises_ends_the_work(clock):
    def enough(done, total, line):
        raise InterruptedError(line)

    with lk.progress(enough), pytest.raises(InterruptedError, match="planning 1/2"), begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
        under_way.advance()


def test_false_is_silence_for_the_process_and_a_callback_is_still_told(clock, terminal):
    said = []
    try:
        lk.progress(False)
        with begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
            clock.now_ms = DELAY_MS
            under_way.advance()
        with lk.progress(lambda *step: said.append(step)), begin_work(clock.runtime, "planning", "manifests", 2) as under_way:
            under_way.advance()
    finally:
        lk.progress(True)
    assert terminal.getvalue() == ""
    assert len(said) == 1
    with lk.progress(False):
        assert not _Process.is_reporting
    assert _Process.is_reporting


def test_something_else_than_a_function_is_refused():
    with pytest.raises(TypeError, match="function"):
        lk.progress(3)


def test_threads_do_not_meet(clock):
    said = []

    def elsewhere():
        with begin_work(clock.runtime, "planning", "manifests", 1) as under_way:
            under_way.advance()

    with lk.progress(lambda *step: said.append(step)):
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
    assert said == []


def test_tasks_do_not_meet(clock):
    said = {"one": [], "two": []}

    async def task(name):
        with lk.progress(lambda done, total, line: said[name].append(line)):
            for _ in range(3):
                with begin_work(clock.runtime, name, "steps", 1) as under_way:
                    await asyncio.sleep(0)
                    under_way.advance()

    async def both():
        await asyncio.gather(task("one"), task("two"))

    awaited(both())
    assert said == {"one": ["one 1/1 steps"] * 3, "two": ["two 1/1 steps"] * 3}


def test_one_work_at_a_time_has_the_line(clock, terminal):
    begun, may_end = threading.Event(), threading.Event()

    def elsewhere():
        with begin_work(clock.runtime, "planning", "manifests", 3) as under_way:
            begun.set()
            may_end.wait(10)
            under_way.advance(2)

    other = threading.Thread(target=elsewhere)
    other.start()
    assert begun.wait(10)
    with begin_work(clock.runtime, "checking", "files", 3) as under_way:
        clock.now_ms = DELAY_MS
        under_way.advance()
        may_end.set()
        other.join()
        assert terminal.getvalue() == drawn("checking 1/3 files")
    assert terminal.getvalue().endswith(GONE)
    assert terminal.getvalue().count("\r") == 2


def test_work_inside_other_work_is_part_of_it(clock, terminal):
    said = []
    with lk.progress(lambda *step: said.append(step)), begin_work(clock.runtime, "compacting", "buckets", 2) as outer:
        with begin_work(clock.runtime, "planning", "manifests", 9) as inner:
            inner.advance(9)
        outer.advance()
    assert said == [(1, 2, "compacting 1/2 buckets")]
    with begin_work(clock.runtime, "compacting", "buckets", 2), begin_work(clock.runtime, "planning", "manifests", 9) as inner:
        clock.now_ms = 2 * DELAY_MS
        inner.advance()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_removes_the_line_and_goes_on(clock, terminal, error):
    def breaks():
        with begin_work(clock.runtime, "planning", "manifests", 3) as under_way:
            clock.now_ms = DELAY_MS
            under_way.advance()
            raise error

    with pytest.raises(error):
        breaks()
    assert terminal.getvalue() == drawn("planning 1/3 manifests") + GONE
    assert _Process.owner is None


# ---- planning says it ---------------------------------------------------------------------------------------------------------------------------------


def opened(tables_path, runtime, case="dedup_levels"):
    found = open_context(str(tables_path / case), runtime=runtime)
    return found, time_travel.resolve_position(found, None)


def test_planning_counts_manifests_and_files(tables_path, clock):
    handle, newest = opened(tables_path, clock.runtime)
    listed = planner.manifest_reader.manifest_files(handle, newest.snapshot)
    said = []
    with lk.progress(lambda *step: said.append(step)):
        planner.plan_read(handle, newest)
        first = list(said)
        planner.plan_read(handle, newest)
    assert [step[:2] for step in first] == [(number, len(listed)) for number in range(1, len(listed) + 1)]
    files = sum(m.num_added_files + m.num_deleted_files for m in listed)
    assert first[-1][2] == f"planning {len(listed)}/{len(listed)} manifests · {files} files"
    assert said == first, "what was decoded before is not work"


def test_manifests_that_the_pool_reads_are_told_in_the_thread_that_plans(tables_path, clock, monkeypatch):
    monkeypatch.setattr("lakekit.metadata.manifest_reader.LocalStorage", MemoryStorage)
    handle, newest = opened(tables_path, clock.runtime)
    said = []
    with lk.progress(lambda done, total, _: said.append((done, total, threading.get_ident()))):
        planner.plan_read(handle, newest)
    total = len(planner.manifest_reader.manifest_files(handle, newest.snapshot))
    assert total > 1
    assert said == [(number, total, threading.get_ident()) for number in range(1, total + 1)]


def test_planning_asks_the_clock_once_a_manifest_and_never_for_a_callback(tables_path):
    asked = []
    runtime = Runtime(elapsed_ms=lambda: asked.append(1) or 0.0)
    handle, newest = opened(tables_path, runtime)
    manifests = planner.manifest_reader.manifest_files(handle, newest.snapshot)
    planner.plan_read(handle, newest)
    assert 0 < len(asked) <= len(manifests) + 1
    told = Runtime(elapsed_ms=lambda: 1 / 0)
    with lk.progress(lambda *_: None):
        planner.plan_read(*opened(tables_path, told))


def test_a_collect_says_it_to_the_block_it_is_in(tables_path, tmp_path):
    shutil.copytree(tables_path / "dedup_levels", tmp_path / "unread")  # manifests that this process remembers are no work
    said = []
    with lk.progress(lambda *step: said.append(step)):
        lk.open(tmp_path / "unread").scan().collect()
    assert said[0][2].startswith("planning 1/")


def test_importing_the_package_loads_no_progress():
    code = "import sys, lakekit; assert 'lakekit.progress' not in sys.modules and 'ipywidgets' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.long
def test_planning_imports_no_widgets_where_no_kernel_is(tables_path):
    code = f"""
    import sys, lakekit as lk
    from lakekit import runtime
    from lakekit.progress import begin_work, _choose_screen
    with lk.progress(lambda *_: None):
        lk.open({str(tables_path / "dedup_levels")!r}).scan().collect()
    assert _choose_screen() is None
    assert not {{"ipywidgets", "IPython", "lakekit.notebook"}} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], check=True, stderr=subprocess.PIPE)


# ---- a real terminal ----------------------------------------------------------------------------------------------------------------------------------

LONG = """
import signal, sys
from lakekit import runtime
from lakekit.progress import begin_work
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with begin_work(runtime.REAL_RUNTIME, "planning", "manifests", 1000, extra_unit="files") as under_way:
        for step in range(1000):
            under_way.advance(1, 300)
            runtime.wait_ms(10)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.long
def test_in_a_terminal_the_line_is_removed_by_an_interrupt(monkeypatch):
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True)
    os.close(theirs)
    began, seen = time.monotonic(), b""
    try:
        while b"planning" not in seen:
            seen += os.read(ours, 4096)
            assert time.monotonic() < began + 60
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        seen += os.read(ours, 65536)
    finally:
        process.kill()
        os.close(ours)
    assert out == "interrupted\n"
    assert seen.startswith(b"\rplanning ")
    assert seen.endswith(b"\r\x1b[K")
    assert b"\n" not in seen


# ---- a notebook ---------------------------------------------------------------------------------------------------------------------------------------

CELL = """
from lakekit import runtime
from lakekit.progress import begin_work
now = [0.0]
clocked = runtime.Runtime(elapsed_ms=lambda: now[0])
def go(interrupt=False):
    with begin_work(clocked, "planning", "manifests", 3, extra_unit="<b>files") as under_way:
        now[0] += 600
        under_way.advance(2, 700)
        if interrupt:
            raise KeyboardInterrupt
"""
SLOW = """
import lakekit as lk
object.__setattr__(runtime.REAL_RUNTIME, "elapsed_ms", lambda: (now.__setitem__(0, now[0] + 600), now[0])[1])
print(lk.open({path!r}).scan().collect().height)
"""


@pytest.mark.long
def test_in_a_notebook_a_bar_and_a_line_come_and_go(tables_path):
    slow = SLOW.format(path=str(tables_path / "dedup_levels"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (CELL, "go()", "go(interrupt=True)", slow)])
    client, comms = NotebookClient(notebook, timeout=120, kernel_name="python3", store_widget_state=True, allow_errors=True), []
    handle = client.process_message
    client.process_message = lambda message, cell, index: (comms.append(message), handle(message, cell, index))[1]
    client.execute()
    opened = {m["content"]["comm_id"]: m["content"]["data"]["state"] for m in comms if m["msg_type"] == "comm_open"}
    closed = {m["content"]["comm_id"] for m in comms if m["msg_type"] == "comm_close"}
    models = [state["_model_name"] for state in opened.values()]
    assert models.count("IntProgressModel") == models.count("HTMLModel") == models.count("HBoxModel") == 3, "one bar, one line, each time"
    assert closed == set(opened), "nothing of them is kept"
    said = [
        m["content"]["data"]["state"]["value"] for m in comms if m["msg_type"] == "comm_msg" and isinstance(m["content"]["data"]["state"].get("value"), str)
    ]
    assert said[:2] == ["planning 2/3 manifests · 700 &lt;b&gt;files"] * 2
    assert said[2].startswith("planning 1/"), "a collect says it too, from the thread that Polars plans in"
    begun, shown, interrupted, collected = notebook.cells
    assert begun.outputs == []
    assert [dict(output.get("data", {})) for output in shown.outputs] == [{}]
    assert [output.output_type for output in interrupted.outputs] == ["display_data", "error"]
    assert interrupted.outputs[1].ename == "KeyboardInterrupt"
    assert [dict(output.data) for output in collected.outputs if output.output_type == "display_data"] == [{}]
