"""Progress of long work: nothing for half a second, then one line that is removed when the work ends.

    planning 38/41 manifests · 12 340 files

    in a notebook           an IntProgress and an HTML line under the cell
    in a terminal           one line of stderr, overwritten
    anywhere else           nothing; on stdout never

    with lk.progress(callback): …       callback(done, total, line) instead, for that block
    lk.progress(False)                  no progress in this process any more

Work reports it by `with work(runtime, "planning", "manifests", 41, extra_unit="files") as under_way: …
under_way.advance(1, 300)`, in the thread that began it; work inside other work, or inside the pool, is a part of it and
reports nothing. One work at a time has the screen: work that begins meanwhile, in another thread or task, is silent
until the line is free.

Source: UX.md section 9.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, Self

from lakekit import parallel, plugins, runtime as machine
from lakekit.draw.humanize import format_count, format_size, truncate
from lakekit.errors import LakekitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from lakekit.runtime import Runtime

    Callback = Callable[[int, int, str], object]

DELAY_MS = 500.0
"""Work that is done sooner shows nothing."""
INTERVAL_MS = 100.0
"""How long a line stands before it is drawn again."""


class Screen(Protocol):
    """A display of one line."""

    def show(self, completed: int, total: int, line: str) -> None:
        """Replace the line; `total` 0: not known."""

    def close(self) -> None:
        """Remove the line."""


class WorkProgress:
    """Work under way: `advance` reports progress.

    Use it by `with`, in one thread; leaving by any exception removes the line.
    """

    __slots__ = (
        "_action",
        "_callback",
        "_due_ms",
        "_extra_unit",
        "_is_silent",
        "_runtime",
        "_token",
        "_unit",
        "extra_count",
        "step_count",
        "total",
    )

    def __init__(self, runtime: Runtime, verb: str, unit: str, total: int, extra_unit: str) -> None:
        self._runtime, self._action, self._unit, self._extra_unit = runtime, verb, unit, extra_unit
        self.step_count, self.total, self.extra_count = 0, total, 0

    def __enter__(self) -> Self:
        self._callback = _CURRENT_CALLBACK.get()
        inside = _IS_NESTED.get() or parallel.is_pool_thread()
        self._is_silent = inside or (self._callback is None and not _Process.is_reporting)
        self._due_ms = (
            float("inf") if self._is_silent or self._callback is not None else self._runtime.elapsed_ms() + DELAY_MS
        )
        self._token = _IS_NESTED.set(True)
        return self

    def advance(self, steps: int = 1, extra: int = 0) -> None:
        """Add completed steps, and `extra` to the second count. Raises what a callback raises."""
        self.step_count += steps
        self.extra_count += extra
        if self._is_silent:
            return
        if self._callback is not None:
            self._callback(self.step_count, self.total, self.line)
        elif (now_ms := self._runtime.elapsed_ms()) >= self._due_ms:
            self._due_ms = now_ms + INTERVAL_MS
            self._show()

    @property
    def line(self) -> str:
        """The text of the line: `planning 38/41 manifests · 12 340 files`."""
        steps_text = (
            f"{format_count(self.step_count)}/{format_count(self.total)}"
            if self.total
            else format_count(self.step_count)
        )
        beside_text = (
            ""
            if not self.extra_count
            else format_size(self.extra_count)
            if self._extra_unit == "bytes"
            else f"{format_count(self.extra_count)} {self._extra_unit}"
        )
        return f"{self._action} {steps_text} {self._unit}" + (f" · {beside_text}" if beside_text else "")

    def _show(self) -> None:
        try:
            screen = _Process.acquire_screen(self)
            if screen is not None:
                screen.show(self.step_count, self.total, self.line)
        except Exception:  # noqa: BLE001 - a line that cannot be shown (a closed stderr, a kernel that goes down) is no reason to end the work
            self._is_silent = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _IS_NESTED.reset(self._token)
        _Process.release_screen(self)


def begin_work(runtime: Runtime, verb: str, unit: str, total: int = 0, *, extra_unit: str = "") -> WorkProgress:
    """Return work of `total` steps of a unit, 0 if unknown.

    `extra_unit` names what else is counted ("files", "rows", "bytes").
    """
    return WorkProgress(runtime, verb, unit, total, extra_unit)


# ---- state of the process --------------------------------------------------------------------------------------------

_CURRENT_CALLBACK: ContextVar[Callback | None] = ContextVar("lakekit_progress", default=None)
_IS_NESTED: ContextVar[bool] = ContextVar("lakekit_at_work", default=False)


class _Process:
    """State of the whole process: whether progress is reported, and which work has the screen."""

    is_reporting = True
    owner: WorkProgress | None = None
    screen: Screen | None = None
    lock = machine.new_lock()

    @classmethod
    def acquire_screen(cls, work: WorkProgress) -> Screen | None:
        """Return the screen, until it is given back; None if there is none, or another work has it."""
        with cls.lock:
            if cls.owner is None:
                cls.owner = work
            if cls.owner is work and cls.screen is None:
                cls.screen = _choose_screen()
            return cls.screen if cls.owner is work else None

    @classmethod
    def release_screen(cls, work: WorkProgress) -> None:
        """Remove the line of this work, if it has the screen."""
        if cls.owner is work:
            try:
                if cls.screen is not None:
                    cls.screen.close()
            except Exception:  # noqa: BLE001, S110 - as in Work._show: whatever it was drawn on is gone
                pass
            finally:
                cls.screen = cls.owner = None


def progress(callback: Callable[[int, int, str], object] | bool) -> AbstractContextManager[None]:
    """Set where progress is reported: a callback for a `with` block, nowhere (False) or the screen (True).

    `callback(done, total, line)` is called in the thread that works, at every step; it is a context variable, so other
    threads and tasks are not affected. `total` is 0 if unknown, `line` is what a terminal would show. An error of it
    ends the work. False holds for this process from the call on; used by `with`, until the block's end.
    """
    if isinstance(callback, bool):
        before, _Process.is_reporting = _Process.is_reporting, callback
        return _restore_tells(before)
    if not callable(callback):
        raise TypeError(f"lk.progress takes a function of (done, total, line), or False; this is {callback!r}")
    return _use_callback(callback)


@contextmanager
def _use_callback(callback: Callback) -> Iterator[None]:
    token = _CURRENT_CALLBACK.set(callback)
    try:
        yield
    finally:
        _CURRENT_CALLBACK.reset(token)


@contextmanager
def _restore_tells(before: bool) -> Iterator[None]:
    try:
        yield
    finally:
        _Process.is_reporting = before


# ---- screens ---------------------------------------------------------------------------------------------------------


def _choose_screen() -> Screen | None:
    """Return a notebook cell, a terminal, or None."""
    if _has_kernel():
        try:
            bar: Screen = plugins.load("notebook", "panels").ProgressBar()
        except LakekitError:  # the extra is not installed: a notebook without widgets
            return None
        return bar
    return _Line() if machine.terminal_columns() else None


def _has_kernel() -> bool:
    """Return whether this is the process of a notebook; nothing is imported to find out."""
    ask: Any = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask is not None and getattr(ask(), "kernel", None) is not None


class _Line:
    """The last line of a terminal."""

    def show(self, completed: int, total: int, line: str) -> None:  # noqa: ARG002 - the line says it
        machine.replace_terminal_line(truncate(line, machine.terminal_columns() - 1))

    def close(self) -> None:
        machine.replace_terminal_line("")
