"""Plain text: one STRING column, whose values are the lines.

A null is written as an empty line, which is read as an empty text. Source: `TextFormatWriter`, `TextFileReader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import Unsupported, ValueOutOfRange
from lakekit.types import STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.text_format.options import TextOptions
    from lakekit.types import Field


def check_types(fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for anything but one column of text."""
    if len(fields) != 1 or fields[0].type.root not in STRINGS:
        columns = ", ".join(f"{field.name} {field.type}" for field in fields[:12])
        raise Unsupported(
            f"Text format only supports a single string column; these files would hold {columns}",
            feature="file.format.text",
        )


def parse_lines(
    lines: pl.Series,
    fields: Sequence[Field],  # noqa: ARG001 - as every format
    column_names: Sequence[str],
    options: TextOptions,  # noqa: ARG001 - as every format
) -> pl.DataFrame:
    """Return one row for each line."""
    return pl.DataFrame([lines.alias(name) for name in column_names], height=len(lines))


def format_lines(frame: pl.DataFrame, fields: Sequence[Field], options: TextOptions) -> pl.Series:
    """Return the lines of the rows of `frame`.

    Raises:
        ValueOutOfRange: a value holds a line end.
    """
    column = frame[fields[0].name]
    broken = column.str.contains_any(["\n", "\r"] if options.accepts_any_line_end else [options.line_end]).fill_null(
        value=False
    )
    if broken.any():
        excerpt = column.filter(broken)[0][:80]
        msg = f"column {column.name} holds a line end in {excerpt!r}, which ends a row of a text file"
        raise ValueOutOfRange(msg, column=column.name)
    return column.fill_null("")
