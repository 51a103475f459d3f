"""CSV: texts between delimiters, a line a row, columns by their place.

    1,a                        null is the null literal, quoted or not; a text that equals it is null when it is read
    2,"b, c"                   quoted where it holds the delimiter, a quote or a line end
    3                          what a line lacks is null, what it has too much is passed over; a blank line is a row of nulls

A text that is no value of its column makes this and all later columns of the row null (mode permissive), drops the row (dropmalformed), or is an error
(failfast). The writer refuses a line end inside a value: every reader of these tables takes it for the end of the row.

Where a value holds an escape, the reference's writer leaves it as it is, and loses it when it reads; lakekit quotes such a value and doubles the escape,
which both read. Source: ENGINE.md 9.6, `CsvFormatWriter`, `CsvFileReader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import col, cols
from lakekit.errors import Corrupt, ValueOutOfRange
from lakekit.format.encoder import refuse_type
from lakekit.model.partition import BLANK
from lakekit.text_format import quoting, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.text_format.options import TextOptions
    from lakekit.types import Field


def check_types(fields: Sequence[Field]) -> None:
    """Raises `Unsupported` for a column that is no plain value."""
    for field in fields:
        if field.type.root not in values.PLAIN_TYPES:
            raise refuse_type(field.type, "csv")


def parsed(lines: pl.Series, fields: Sequence[Field], names: Sequence[str], how: TextOptions) -> pl.DataFrame:
    """The rows of some lines. Every column before a wanted one is looked at, since its mistakes decide about those behind it."""
    count = max((number for number, field in enumerate(fields, 1) if field.name in names), default=0)
    if not count:
        return pl.DataFrame(height=len(lines))
    made = []
    wrong = pl.repeat(value=False, n=len(lines), eager=True)
    for field, cell in zip(fields[:count], quoting.cells(lines, count, how), strict=True):
        texts = cell.alias("t").to_frame().select(pl.when(pl.col("t") != how.null_literal).then(pl.col("t"))).to_series()
        column, bad = values.parse_values(texts, field.type, how, field.name)
        bad = bad.fill_null(value=False)
        if how.mode == "failfast" and bad.any():
            raise Corrupt(f"column {field.name} is {field.type}, but a row holds {texts.filter(bad)[0][:80]!r}", field=field.name)
        wrong = wrong | bad
        if field.name in names:
            made.append(column.to_frame("v").select(pl.when(~wrong).then(pl.col("v")).alias(field.name)).to_series())
    frame = pl.DataFrame(made).select(cols(names))
    return frame.filter(~wrong) if how.mode == "dropmalformed" else frame


def printed(frame: pl.DataFrame, fields: Sequence[Field], how: TextOptions) -> pl.Series:
    """The lines of some rows. Raises `ValueOutOfRange` for a value that holds a line end."""
    texts = frame.select(values.print_values(col(field.name), field.type, how).alias(field.name) for field in fields)
    ends = ["\n", "\r"] if how.ends_anyhow else [how.line_end]
    blanks = len(fields) == 1 or how.delimiter in BLANK
    for column in texts:
        broken = column.str.contains_any(ends).fill_null(value=False)
        if broken.any():
            raise ValueOutOfRange(
                f"column {column.name} holds a line end in {column.filter(broken)[0][:80]!r}, which ends a row of a CSV file. "
                "Take it out, or choose file.format json or parquet",
                column=column.name,
            )
    cells = [_quote_cells(column, how, blanks=blanks).fill_null(how.null_literal) for column in texts]
    return pl.select(pl.concat_str(cells, separator=how.delimiter)).to_series()


def header(fields: Sequence[Field], how: TextOptions) -> str:
    """The line of names that the option csv.include-header asks for."""
    names = pl.DataFrame({field.name: [field.name] for field in fields})
    return str(pl.select(pl.concat_str([_quote_cells(name, how, blanks=False) for name in names], separator=how.delimiter)).item())


def _quote_cells(column: pl.Series, how: TextOptions, *, blanks: bool) -> pl.Series:
    """Texts as they stand in a file. `blanks`: a line of them could be all blank, which would make it a row of nulls."""
    if how.quote == "\0":
        return column
    needs = column.str.contains_any([sign for sign in (how.delimiter, how.line_end[0], how.quote, how.escape) if sign != "\0"])
    if blanks:
        needs = needs | ((column.str.strip_chars(BLANK) == "") & (column != how.null_literal))
    if not needs.any():
        return column
    doubled = how.quote if how.escape == "\0" else how.escape
    escaped = column if how.escape == "\0" else column.str.replace_all(how.escape, how.escape * 2, literal=True)
    escaped = escaped.str.replace_all(how.quote, doubled + how.quote, literal=True)
    return column.zip_with(~needs.fill_null(value=False), how.quote + escaped + how.quote)
