"""Split the text of a file into columns of lines, block by block.

A line ends at a line feed, a carriage return, or both after another, where the option names one of these; else at
exactly the text of the option. The last line needs no end. A byte order mark at the beginning is skipped, bytes that
are no UTF-8 become U+FFFD.

Source: `StandardLineReader`, `CustomLineReader`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MARK = b"\xef\xbb\xbf"
MOST_LINE_BYTES = 32 << 20
"""The most bytes of a line, which is held several times while it is decoded.

A compressed file of some kilobytes may hold a line of gigabytes.
"""


def blocks(pieces: Iterable[bytes], line_end: str, *, any_line_end: bool, path: str) -> Iterator[pl.Series]:
    """Yield the lines of a text that comes in pieces, one column a block.

    Raises:
        LimitExceeded: a line is longer than 32 MiB.
    """
    end = b"\n" if any_line_end else line_end.encode()
    unfinished, at_start = b"", any_line_end
    for piece in pieces:
        data = unfinished + piece
        if at_start and len(data) >= len(_MARK):
            data, at_start = data.removeprefix(_MARK), False
        carried = b""
        if any_line_end and b"\r" in data:
            if data.endswith(b"\r"):  # the line feed that belongs to it may come next
                data, carried = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut = data.rfind(end)
        if cut >= 0:
            yield _column(data[:cut], end)
            data = data[cut + len(end) :]
        unfinished = data + carried
        if len(unfinished) > MOST_LINE_BYTES:
            raise LimitExceeded(f"{path}: a line is longer than {MOST_LINE_BYTES} bytes", path=path, field="line")
    if unfinished:
        yield _column(unfinished.removesuffix(b"\r") if any_line_end else unfinished, end)


def _column(data: bytes, end: bytes) -> pl.Series:
    """Return the lines of a text whose last line has no end."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        data = text.encode()
    if end == b"\n":
        return pl.read_lines(io.BytesIO(data + b"\n")).to_series().alias("line")
    return pl.Series("line", [text]).str.split(end.decode()).explode().alias("line")
