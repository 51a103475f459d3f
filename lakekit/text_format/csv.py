"""CSV: values between delimiters, one row a line, columns by position.

    1,a            null is the null literal, quoted or not; a text that equals it is read as null
    2,"b, c"       quoted where it holds the delimiter, a quote or a line end
    3              missing values are null, surplus ones are ignored; a blank line is a row of nulls

A text that is no value of its column makes this and all later columns of the row null (mode permissive), drops the row
(dropmalformed), or is an error (failfast). The writer refuses a line end inside a value: every reader of these tables
takes it for the end of the row. Where a value holds an escape, the reference's writer leaves it as it is, and loses it
when it reads; lakekit quotes such a value and doubles the escape, which both read.

Source: ENGINE.md 9.6, `CsvFormatWriter`, `CsvFileReader`, `CsvParser`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import col, cols
from lakekit.errors import Corrupt, ValueOutOfRange
from lakekit.format.encoder import refuse_type
from lakekit.model.partition import JAVA_BLANKS
from lakekit.text_format import options as values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.text_format.options import TextOptions
    from lakekit.types import Field


def split_cells(lines: pl.Series, count: int, options: TextOptions) -> list[pl.Series]:
    r"""Return the first `count` cells of each line, as one column each: `a,"b, c",\d` is a | b, c | d.

        escape         before a quote or another escape, inside a text: that character stands for itself;
                       elsewhere the escape is dropped
        quote          begins or ends a quoted text; doubled inside one it stands for itself; between other characters
                       of a text it stands for itself, and begins or ends a quoted text nevertheless
        delimiter      ends a text, outside quotes

    Lines without quotes are split, lines whose quotes are in order are cut by a pattern, both by column. What is left,
    a quote or an escape in the middle of a text, is read character by character. A last text whose quotes never end is
    missing. Null where a line has fewer cells, and throughout where it is blank.
    """
    specials = [special for special in (options.quote, options.escape) if special != "\0"]
    blank = lines.str.strip_chars(JAVA_BLANKS) == ""
    marked = (
        lines.str.contains_any(specials) if specials else pl.repeat(value=False, n=len(lines), eager=True)
    ) & ~blank
    plain = lines.to_frame("line").select(pl.when(~blank & ~marked).then(pl.col("line"))).to_series()
    columns = plain.str.split_exact(options.delimiter, count).struct.unnest().get_columns()[:count]
    if marked.any():
        rows = marked.arg_true()
        quoted_cells = _split_quoted(lines.gather(rows), count, options)
        columns = [column.scatter(rows, part) for column, part in zip(columns, quoted_cells, strict=True)]
    return columns


def _split_quoted(lines: pl.Series, count: int, options: TextOptions) -> list[pl.Series]:
    """Return the cells of lines that hold quotes or escapes."""
    if "\0" in (options.quote, options.escape):
        # quotes without escapes have no pattern
        return _cells_to_columns(
            [_by_sign(line, count, options) for line in lines.to_list()], count
        )  # scalar: see above
    quote, escape, delimiter = (_escape_pattern(sign) for sign in (options.quote, options.escape, options.delimiter))
    quoted = f"{quote}(?:[^{quote}{escape}]|{escape}[{quote}{escape}]|{quote}{quote})*{quote}"
    text = f"(?:{quoted}|[^{quote}{escape}{delimiter}]*)"
    in_order = lines.str.contains(f"^(?s:{text}(?:{delimiter}{text})*)$")
    ordered_lines, rows = lines.filter(in_order), in_order.arg_true()
    pieces = (options.delimiter + ordered_lines).str.extract_all(f"(?s:{delimiter}{text})")
    cells = []
    for i in range(count):
        cell = pieces.list.get(i, null_on_oob=True).str.slice(1)
        bare = cell.str.slice(1, (cell.str.len_chars().cast(pl.Int64) - 2).clip(0))
        bare = bare.str.replace_all(f"{escape}([{quote}{escape}])|{quote}({quote})", "${1}${2}")
        cells.append(cell.zip_with(~cell.str.starts_with(options.quote).fill_null(value=False), bare))
    columns = [
        pl.Series(f"field_{i}", [None], pl.String).new_from_index(0, len(lines)).scatter(rows, part)
        for i, part in enumerate(cells)
    ]
    if in_order.all():
        return columns
    is_odd = (~in_order).arg_true()
    odd_rows = [_by_sign(line, count, options) for line in lines.gather(is_odd).to_list()]  # scalar: quotes in no order
    odd_cells = _cells_to_columns(odd_rows, count)
    return [column.scatter(is_odd, part) for column, part in zip(columns, odd_cells, strict=True)]


def _cells_to_columns(rows: list[list[str | None]], count: int) -> list[pl.Series]:
    return [pl.Series(f"field_{i}", [row[i] for row in rows], pl.String) for i in range(count)]


def _escape_pattern(character: str) -> str:
    """Return a character as a regular expression, valid between square brackets too."""
    return f"\\x{{{ord(character):x}}}"


def _by_sign(line: str, count: int, options: TextOptions) -> list[str | None]:
    """Return the cells of one line by the engine's rules, character by character."""
    cells: list[str | None] = []
    text: list[str] = []
    quoted = inside = False
    at = 0
    while at < len(line) and len(cells) < count:
        char, next_char = line[at], line[at + 1 : at + 2]
        if char == options.escape:
            if (quoted or inside) and next_char and next_char in (options.quote, options.escape):
                text.append(next_char)
                at += 1
        elif char == options.quote:
            if (quoted or inside) and next_char == options.quote:
                text.append(next_char)
                at += 1
            else:
                if at > 2 and line[at - 1] != options.delimiter and next_char and next_char != options.delimiter:
                    if text and all(character in JAVA_BLANKS for character in text):
                        text.clear()
                    else:
                        text.append(char)
                quoted = not quoted
            inside = not inside
        elif char == options.delimiter and not quoted:
            cells.append("".join(text))
            text.clear()
            inside = False
        else:
            text.append(char)
            inside = True
        at += 1
    if len(cells) < count and not quoted:
        cells.append("".join(text))
    return [*cells, *[None] * (count - len(cells))]


# ---- csv ------------------------------------------------------------


def check_types(fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for a column of a nested type, which CSV cannot hold."""
    for field in fields:
        if field.type.root not in values.PLAIN_TYPES:
            raise refuse_type(field.type, "csv")


def parse_lines(
    lines: pl.Series, fields: Sequence[Field], column_names: Sequence[str], options: TextOptions
) -> pl.DataFrame:
    """Parse lines to rows of the columns `column_names`.

    Every column before a requested one is parsed too, since its bad values make the later ones null or drop the row.
    """
    count = max((number for number, field in enumerate(fields, 1) if field.name in column_names), default=0)
    if not count:
        return pl.DataFrame(height=len(lines))
    columns = []
    is_bad_row = pl.repeat(value=False, n=len(lines), eager=True)
    for field, cell in zip(fields[:count], split_cells(lines, count, options), strict=True):
        texts = (
            cell.alias("t")
            .to_frame()
            .select(pl.when(pl.col("t") != options.null_literal).then(pl.col("t")))
            .to_series()
        )
        column, is_bad = values.parse_values(texts, field.type, options, field.name)
        is_bad = is_bad.fill_null(value=False)
        if options.parse_mode == "failfast" and is_bad.any():
            raise Corrupt(
                f"column {field.name} is {field.type}, but a row holds {texts.filter(is_bad)[0][:80]!r}",
                field=field.name,
            )
        is_bad_row = is_bad_row | is_bad
        if field.name in column_names:
            columns.append(
                column.to_frame("v").select(pl.when(~is_bad_row).then(pl.col("v")).alias(field.name)).to_series()
            )
    frame = pl.DataFrame(columns).select(cols(column_names))
    return frame.filter(~is_bad_row) if options.parse_mode == "dropmalformed" else frame


def format_lines(frame: pl.DataFrame, fields: Sequence[Field], options: TextOptions) -> pl.Series:
    """Return the lines of the rows of `frame`.

    Raises:
        ValueOutOfRange: a value holds a line end.
    """
    texts = frame.select(
        values.print_values(col(field.name), field.type, options).alias(field.name) for field in fields
    )
    ends = ["\n", "\r"] if options.accepts_any_line_end else [options.line_end]
    blanks = len(fields) == 1 or options.delimiter in JAVA_BLANKS
    for column in texts:
        broken = column.str.contains_any(ends).fill_null(value=False)
        if broken.any():
            excerpt = column.filter(broken)[0][:80]
            msg = f"column {column.name} holds a line end in {excerpt!r}, which ends a row of a CSV file"
            raise ValueOutOfRange(f"{msg}. Take it out, or choose file.format json or parquet", column=column.name)
    cells = [_quote_cells(column, options, blanks=blanks).fill_null(options.null_literal) for column in texts]
    return pl.select(pl.concat_str(cells, separator=options.delimiter)).to_series()


def header(fields: Sequence[Field], options: TextOptions) -> str:
    """Return the line of column names that the option csv.include-header adds."""
    names = pl.DataFrame({field.name: [field.name] for field in fields})
    return str(
        pl.select(
            pl.concat_str([_quote_cells(name, options, blanks=False) for name in names], separator=options.delimiter)
        ).item()
    )


def _quote_cells(column: pl.Series, options: TextOptions, *, blanks: bool) -> pl.Series:
    """Quote the cells that need it, and escape the quotes inside.

    `blanks`: a line could consist of blanks alone, which would be read as a row of nulls, so blank cells are quoted
    too.
    """
    if options.quote == "\0":
        return column
    needs = column.str.contains_any(
        [sign for sign in (options.delimiter, options.line_end[0], options.quote, options.escape) if sign != "\0"]
    )
    if blanks:
        needs = needs | ((column.str.strip_chars(JAVA_BLANKS) == "") & (column != options.null_literal))
    if not needs.any():
        return column
    doubled = options.quote if options.escape == "\0" else options.escape
    escaped = (
        column if options.escape == "\0" else column.str.replace_all(options.escape, options.escape * 2, literal=True)
    )
    escaped = escaped.str.replace_all(options.quote, doubled + options.quote, literal=True)
    return column.zip_with(~needs.fill_null(value=False), options.quote + escaped + options.quote)
