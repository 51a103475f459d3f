r"""Split the lines of a CSV file into columns of texts.

    a,"b, c",\d        →  a    b, c    d

Lines without quotes are split, lines whose quotes are in order are cut by a pattern, both by column. What is left, a
quote or an escape in the middle of a text, goes through the engine's own rules character by character:

    escape      before a quote or another escape, inside a text: that character stands for itself;
                elsewhere the escape is dropped
    quote       begins or ends a quoted text; doubled inside one it stands for itself; between other characters
                of a text it stands for itself, and begins or ends a quoted text nevertheless
    delimiter   ends a text, outside quotes

A last text whose quotes never end is missing. Source: `CsvParser`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.model.partition import BLANK

if TYPE_CHECKING:
    from lakekit.text_format.options import TextOptions


def cells(lines: pl.Series, count: int, options: TextOptions) -> list[pl.Series]:
    """Return the first `count` cells of each line, as one column each.

    Null where a line has fewer cells, and throughout where it is blank.
    """
    specials = [special for special in (options.quote, options.escape) if special != "\0"]
    blank = lines.str.strip_chars(BLANK) == ""
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
        return _columns([_by_sign(line, count, options) for line in lines.to_list()], count)  # scalar: see above
    quote, escape, delimiter = (_pattern(sign) for sign in (options.quote, options.escape, options.delimiter))
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
    odd_cells = _columns(odd_rows, count)
    return [column.scatter(is_odd, part) for column, part in zip(columns, odd_cells, strict=True)]


def _columns(rows: list[list[str | None]], count: int) -> list[pl.Series]:
    return [pl.Series(f"field_{i}", [row[i] for row in rows], pl.String) for i in range(count)]


def _pattern(character: str) -> str:
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
                    if text and all(character in BLANK for character in text):
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
