r"""Lines of a CSV file as columns of texts.

    a,"b, c",\d        →  a    b, c    d

Lines without quotes are split, lines whose quotes are in order are cut by a pattern, both by column. What is left, a quote or an escape in the middle of a
text, goes through the engine's own rules sign by sign:

    escape      before a quote or another escape, inside a text: that sign stands for itself; elsewhere the escape is dropped
    quote       begins or ends a quoted text; doubled inside one it stands for itself; between other signs of a text it stands for itself, and begins or
                ends a quoted text nevertheless
    delimiter   ends a text, outside quotes

A last text whose quotes never end is missing. Source: `CsvParser`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.model.partition import BLANK

if TYPE_CHECKING:
    from lakekit.text_format.options import TextOptions


def cells(lines: pl.Series, count: int, how: TextOptions) -> list[pl.Series]:
    """The first `count` texts of each line; null where a line has fewer, and throughout where it is blank."""
    signs = [sign for sign in (how.quote, how.escape) if sign != "\0"]
    blank = lines.str.strip_chars(BLANK) == ""
    marked = (lines.str.contains_any(signs) if signs else pl.repeat(value=False, n=len(lines), eager=True)) & ~blank
    plain = lines.to_frame("line").select(pl.when(~blank & ~marked).then(pl.col("line"))).to_series()
    found = plain.str.split_exact(how.delimiter, count).struct.unnest().get_columns()[:count]
    if marked.any():
        at = marked.arg_true()
        some = _split_quoted(lines.gather(at), count, how)
        found = [whole.scatter(at, part) for whole, part in zip(found, some, strict=True)]
    return found


def _split_quoted(lines: pl.Series, count: int, how: TextOptions) -> list[pl.Series]:
    """Texts of lines that hold quotes or escapes."""
    if "\0" in (how.quote, how.escape):
        return _columns([_by_sign(line, count, how) for line in lines.to_list()], count)  # scalar: quotes without escapes have no pattern
    quote, escape, delimiter = (_pattern(sign) for sign in (how.quote, how.escape, how.delimiter))
    quoted = f"{quote}(?:[^{quote}{escape}]|{escape}[{quote}{escape}]|{quote}{quote})*{quote}"
    text = f"(?:{quoted}|[^{quote}{escape}{delimiter}]*)"
    in_order = lines.str.contains(f"^(?s:{text}(?:{delimiter}{text})*)$")
    good, at = lines.filter(in_order), in_order.arg_true()
    pieces = (how.delimiter + good).str.extract_all(f"(?s:{delimiter}{text})")
    found = []
    for number in range(count):
        cell = pieces.list.get(number, null_on_oob=True).str.slice(1)
        bare = cell.str.slice(1, (cell.str.len_chars().cast(pl.Int64) - 2).clip(0))
        bare = bare.str.replace_all(f"{escape}([{quote}{escape}])|{quote}({quote})", "${1}${2}")
        found.append(cell.zip_with(~cell.str.starts_with(how.quote).fill_null(value=False), bare))
    whole = [pl.Series(f"field_{number}", [None], pl.String).new_from_index(0, len(lines)).scatter(at, part) for number, part in enumerate(found)]
    if in_order.all():
        return whole
    odd = (~in_order).arg_true()
    rest = _columns([_by_sign(line, count, how) for line in lines.gather(odd).to_list()], count)  # scalar: lines whose quotes are in no order
    return [column.scatter(odd, part) for column, part in zip(whole, rest, strict=True)]


def _columns(rows: list[list[str | None]], count: int) -> list[pl.Series]:
    return [pl.Series(f"field_{number}", [row[number] for row in rows], pl.String) for number in range(count)]


def _pattern(sign: str) -> str:
    """A sign as a pattern has it, between square brackets too."""
    return f"\\x{{{ord(sign):x}}}"


def _by_sign(line: str, count: int, how: TextOptions) -> list[str | None]:
    """The texts of one line by the engine's rules."""
    found: list[str | None] = []
    text: list[str] = []
    quoted = inside = False
    at = 0
    while at < len(line) and len(found) < count:
        sign, after = line[at], line[at + 1 : at + 2]
        if sign == how.escape:
            if (quoted or inside) and after and after in (how.quote, how.escape):
                text.append(after)
                at += 1
        elif sign == how.quote:
            if (quoted or inside) and after == how.quote:
                text.append(after)
                at += 1
            else:
                if at > 2 and line[at - 1] != how.delimiter and after and after != how.delimiter:
                    if text and all(one in BLANK for one in text):
                        text.clear()
                    else:
                        text.append(sign)
                quoted = not quoted
            inside = not inside
        elif sign == how.delimiter and not quoted:
            found.append("".join(text))
            text.clear()
            inside = False
        else:
            text.append(sign)
            inside = True
        at += 1
    if len(found) < count and not quoted:
        found.append("".join(text))
    return [*found, *[None] * (count - len(found))]
