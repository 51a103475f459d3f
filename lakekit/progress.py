"""How far long work has come: nothing for half a second, then one line that is gone when the work is.

    planning 38/41 manifests · 12 340 files

    in a notebook           an IntProgress and an HTML line under the cell
    in a terminal           one line of stderr, written over and over
    anywhere else           silence; on stdout always

    with lk.progress(callback): …       callback(done, total, line) instead, for that block
    lk.progress(False)                  nobody is told in this process any more

Work says it by `with work(world, "planning", "manifests", 41, beside="files") as under_way: … under_way.advance(1, 300)`, in the thread that began it; work
inside other work, or inside the pool, is a part of something and keeps still. One work at a time has the screen: what begins beside it, in another thread or
task, is silent until the line is free. Source: UX.md section 9.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, Self

from lakekit import plugins, world as machine
from lakekit.draw.humanize import format_count, format_size, truncate
from lakekit.errors import LakekitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from lakekit.world import Runtime

    Callback = Callable[[int, int, str], object]

QUIET_MS = 500.0
"""Work that is done sooner shows nothing."""
BETWEEN_MS = 100.0
"""How long a line stands before it is drawn again."""


class Screen(Protocol):
    """A place for one line."""

    def show(self, done: int, total: int, line: str) -> None:
        """Puts the line in the place of the last one; `total` 0: not known."""

    def close(self) -> None:
        """Removes it."""


class Work:
    """Work under way: `advance` says that more of it is done. Use it by `with`, in one thread; leaving by any exception removes the line."""

    __slots__ = ("_callback", "_due_ms", "_still", "_token", "_unit", "_verb", "_what", "_world", "beside", "done", "total")

    def __init__(self, world: Runtime, verb: str, unit: str, total: int, beside: str) -> None:
        self._world, self._verb, self._unit, self._what = world, verb, unit, beside
        self.done, self.total, self.beside = 0, total, 0

    def __enter__(self) -> Self:
        self._callback = _CALLBACK.get()
        inside = _IS_NESTED.get() or machine.in_pool()
        self._still = inside or (self._callback is None and not _Process.tells)
        self._due_ms = float("inf") if self._still or self._callback is not None else self._world.elapsed_ms() + QUIET_MS
        self._token = _IS_NESTED.set(True)
        return self

    def advance(self, steps: int = 1, beside: int = 0) -> None:
        """So many steps more are done, and so much more of what is counted beside them. What a callback raises goes on from here."""
        self.done += steps
        self.beside += beside
        if self._still:
            return
        if self._callback is not None:
            self._callback(self.done, self.total, self.line)
        elif (now := self._world.elapsed_ms()) >= self._due_ms:
            self._due_ms = now + BETWEEN_MS
            self._show()

    @property
    def line(self) -> str:
        """What the line says: `planning 38/41 manifests · 12 340 files`."""
        of = f"{format_count(self.done)}/{format_count(self.total)}" if self.total else format_count(self.done)
        beside = "" if not self.beside else format_size(self.beside) if self._what == "bytes" else f"{format_count(self.beside)} {self._what}"
        return f"{self._verb} {of} {self._unit}" + (f" · {beside}" if beside else "")

    def _show(self) -> None:
        try:
            screen = _Process.borrow(self)
            if screen is not None:
                screen.show(self.done, self.total, self.line)
        except Exception:  # noqa: BLE001 - a line that cannot be shown (a closed stderr, a kernel that goes down) is no reason to end the work
            self._still = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _IS_NESTED.reset(self._token)
        _Process.give_back(self)


def work(world: Runtime, verb: str, unit: str, total: int = 0, *, beside: str = "") -> Work:
    """Work to be done in `total` steps of a unit, 0 when nobody knows how many; `beside` names what else is counted ("files", "rows", "bytes")."""
    return Work(world, verb, unit, total, beside)


# ---- who is told -------------------------------------------------------------------------------------------------------------------------------------

_CALLBACK: ContextVar[Callback | None] = ContextVar("lakekit_progress", default=None)
_IS_NESTED: ContextVar[bool] = ContextVar("lakekit_at_work", default=False)


class _Process:
    """What holds for the whole process: whether anybody is told, and who has the screen."""

    tells = True
    owner: Work | None = None
    shown: Screen | None = None
    lock = machine.lock()

    @classmethod
    def borrow(cls, work: Work) -> Screen | None:
        """The screen, until it is given back; None where there is none, or another work has it."""
        with cls.lock:
            if cls.owner is None:
                cls.owner = work
            if cls.owner is work and cls.shown is None:
                cls.shown = _screen()
            return cls.shown if cls.owner is work else None

    @classmethod
    def give_back(cls, work: Work) -> None:
        """Removes what this work showed, if it has the screen."""
        if cls.owner is work:
            try:
                if cls.shown is not None:
                    cls.shown.close()
            except Exception:  # noqa: BLE001, S110 - as in Work._show: whatever it was drawn on is gone
                pass
            finally:
                cls.shown = cls.owner = None


def progress(callback: Callable[[int, int, str], object] | bool) -> AbstractContextManager[None]:
    """Who is told how far long work has come: `callback(done, total, line)` for a `with` block; False: nobody, in this process; True: whoever watches.

    The callback is called in the thread that works, at every step; it is a context variable, so other threads and tasks do not notice. `total` is 0 where
    nobody knows it, `line` is what a terminal would show. What it raises ends the work. False holds from the call on; used by `with`, until the block's end.
    """
    if isinstance(callback, bool):
        before, _Process.tells = _Process.tells, callback
        return _restore_tells(before)
    if not callable(callback):
        raise TypeError(f"lk.progress takes a function of (done, total, line), or False; this is {callback!r}")
    return _use_callback(callback)


@contextmanager
def _use_callback(callback: Callback) -> Iterator[None]:
    token = _CALLBACK.set(callback)
    try:
        yield
    finally:
        _CALLBACK.reset(token)


@contextmanager
def _restore_tells(before: bool) -> Iterator[None]:
    try:
        yield
    finally:
        _Process.tells = before


# ---- where it is shown -------------------------------------------------------------------------------------------------------------------------------


def _screen() -> Screen | None:
    """A notebook's cell, a terminal, or nothing."""
    if _has_kernel():
        try:
            bar: Screen = plugins.load("notebook", "progress").Bar()
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

    def show(self, done: int, total: int, line: str) -> None:  # noqa: ARG002 - the line says it
        machine.write_over(truncate(line, machine.terminal_columns() - 1))

    def close(self) -> None:
        machine.write_over("")
