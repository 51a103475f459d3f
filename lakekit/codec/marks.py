"""The spans of fields that decoders read, for hex views.

    offset  length  field                  value      section
    0       1       version                1          FORMAT 8.1
    1       4       vectors[0].length      24         FORMAT 8.1

A `SpanRecorder` is passed down to decoders for a hex view, and is None everywhere else. A value decoded from bytes that
were recorded before lies inside their span; `leaves` keeps the innermost spans, so that each byte has one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PADDING_LABEL = "padding"
"""The label of bytes without meaning."""
UNREAD_LABEL = "not read"
"""The label of bytes that no decoder read: those after an error."""


class FieldSpan(NamedTuple):
    """One value that was read: its bytes, its name, its value, and the section that describes it."""

    offset: int
    length: int
    field: str
    value: object
    section: str = ""

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + self.length


class SpanRecorder:
    """Spans in the order of reading. `wrong_at` is where the innermost decoder met an error."""

    __slots__ = ("found", "name", "section", "shift", "wrong_at")

    def __init__(self, *, section: str = "") -> None:
        self.found: list[FieldSpan] = []
        self.name, self.section, self.shift = "", section, 0
        self.wrong_at: int | None = None

    def __iter__(self) -> Iterator[FieldSpan]:
        return iter(self.found)

    def add(self, offset: int, length: int, field: str, value: object, *, section: str = "") -> None:
        """Record a span; its offset counts from where the decoder's bytes begin."""
        name = f"{self.name}.{field}" if self.name and field else self.name or field
        self.found.append(FieldSpan(self.shift + offset, length, name, value, section or self.section))

    def means(self, value: object) -> None:
        """Set the value of the span recorded last, if the plain value of its bytes does not say it."""
        self.found[-1] = self.found[-1]._replace(value=value)

    @contextmanager
    def within(self, name: str = "", *, at: int = 0, section: str = "") -> Iterator[None]:
        """Prefix spans recorded inside by `name.`, count their offsets from `at`, and set their section."""
        before = self.name, self.section, self.shift
        self.name = f"{self.name}.{name}" if self.name and name else self.name or name
        self.section, self.shift = section or self.section, self.shift + at
        try:
            yield
        except Corrupt as error:
            if self.wrong_at is None and error.offset is not None:
                self.wrong_at = self.shift + error.offset
            raise
        finally:
            self.name, self.section, self.shift = before

    def rename(self, since: int, old: str, new: str) -> None:
        """Replace `old` by `new` in the names of spans from index `since` on: list items get their indexes."""
        for i in range(since, len(self.found)):
            self.found[i] = self.found[i]._replace(field=self.found[i].field.replace(old, new, 1))

    def fill(self, start: int, end: int, *, since: int) -> None:
        """Record as padding what no span from index `since` on covers between `start` and `end`."""
        at = start + self.shift
        for mark in sorted(self.found[since:], key=lambda mark: mark.offset):
            if mark.offset > at:
                self.add(at - self.shift, mark.offset - at, PADDING_LABEL, None)
            at = max(at, mark.end)
        if at < end + self.shift:
            self.add(at - self.shift, end + self.shift - at, PADDING_LABEL, None)


def leaves(marks: Sequence[FieldSpan], size: int) -> list[FieldSpan]:
    """Return the innermost spans in the order of their bytes, each byte from 0 to `size` in exactly one.

    Bytes without any are called `UNREAD_LABEL`. Of two spans over the same bytes the later one stays; where damaged
    bytes are read twice under two names, the first name stays.
    """
    order = sorted(range(len(marks)), key=lambda i: (marks[i].offset, -marks[i].length, i))
    parents: set[int] = set()
    open_: list[int] = []
    for i in order:
        mark = marks[i]
        if not mark.length:
            parents.add(i)
            continue
        while open_ and marks[open_[-1]].end <= mark.offset:
            open_.pop()
        if open_ and mark.end <= marks[open_[-1]].end:
            parents.add(open_[-1])
        open_.append(i)
    innermost: list[FieldSpan] = []
    at = 0
    for i in order:
        mark = marks[i]
        start, end = max(mark.offset, at), min(mark.end, size)
        if i in parents or start >= end:
            continue
        if start > at:
            innermost.append(FieldSpan(at, start - at, UNREAD_LABEL, None))
        innermost.append(
            mark if (start, end) == (mark.offset, mark.end) else mark._replace(offset=start, length=end - start)
        )
        at = end
    if at < size:
        innermost.append(FieldSpan(at, size - at, UNREAD_LABEL, None))
    return innermost
