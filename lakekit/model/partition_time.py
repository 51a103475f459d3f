"""The time of a partition, from `partition.timestamp-pattern` and `partition.timestamp-formatter`.

    dt=2024-02-29/hr=7    pattern "$dt $hr:00:00"    ->   "2024-02-29 7:00:00"    ->   1709190000000 (local ms)
    dt=20240229           formatter "yyyyMMdd"       ->   1709164800000

Without a pattern the first column is the text; without a formatter it is year-month-day, or that with
hour:minute:second and a fraction, numbers beyond their range carried over (2024-13-01 is 2025-01-01). A formatter has
the letters y u M d H m s S, text between quotes, optional parts in brackets, and other characters that are not letters;
a repeated letter must have the same value again.
Source: `PartitionTimeExtractor`, `DateTimeFormatter`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption
from lakekit.model.partition import civil, epoch_day

if TYPE_CHECKING:
    from collections.abc import Sequence

_DAY_MS = 86_400_000
_DEFAULT = re.compile(
    (
        r"(?P<y>-?\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})(?: "
        r"(?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?"
    ),
    re.ASCII,
)
_PARTS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'{}#]")
_MAX_OPTIONAL_PARTS = 16
_RANGES = {"M": (1, 12), "d": (1, 31), "H": (0, 23), "m": (0, 59), "s": (0, 59)}


def time_ms(names: Sequence[str], texts: Sequence[str], *, pattern: str | None, formatter: str | None) -> int | None:
    """Return wall clock milliseconds since 1970; None if the values have no time.

    Raises `InvalidOption` for a formatter that lakekit cannot read.
    """
    text = texts[0] if pattern is None else pattern
    if pattern is not None:
        for name, value in zip(names, texts, strict=True):
            text = text.replace(f"${name}", value)
    matched = (_DEFAULT if formatter is None else _expression(formatter)).fullmatch(text)
    if matched is None:
        return None
    parts: dict[str, int] = {}
    for name, digits in matched.groupdict().items():
        letter = name.partition("_")[0]
        if digits is not None and letter != "part":
            number = int(digits.ljust(9, "0") if letter == "S" else digits)
            if parts.setdefault(letter, number) != number:
                return None
    if "yy" in parts:
        parts["y"] = 2000 + parts["yy"]
    elif "u" in parts:
        parts["y"] = parts["u"]
    elif formatter is not None and parts.get("y") == 0:  # y counts the years of an era, which begin with 1
        return None
    if not {"y", "M", "d"} <= parts.keys():
        return None
    return _to_millis(parts, parts.get("S", 0) // 1_000_000, lenient=formatter is None)


def _to_millis(parts: dict[str, int], millis: int, *, lenient: bool) -> int | None:
    year, month, day = parts["y"], parts["M"], parts["d"]
    if lenient:
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        number = epoch_day(year, month, 1) + day - 1
    else:
        # the end of the day
        midnight = parts.get("H") == 24 and not parts.get("m") and not parts.get("s") and not millis
        if any(
            not low <= parts.get(letter, low) <= high and not (letter == "H" and midnight)
            for letter, (low, high) in _RANGES.items()
        ):
            return None
        number = epoch_day(year, month, day)
        while civil(number)[1] != month:  # 30 February is its last day
            number -= 1
    return number * _DAY_MS + ((parts.get("H", 0) * 60 + parts.get("m", 0)) * 60 + parts.get("s", 0)) * 1000 + millis


@lru_cache(maxsize=64)
def _expression(formatter: str) -> re.Pattern[str]:
    """Compile a formatter to a regular expression."""
    if formatter.count("[") > _MAX_OPTIONAL_PARTS:
        raise InvalidOption(
            f"partition.timestamp-formatter has {formatter.count('[')} optional parts, at most {_MAX_OPTIONAL_PARTS} "
            "are read",
            key="partition.timestamp-formatter",
            value=formatter,
        )
    pieces, open_parts, end, has_year = list[str](), list[str](), 0, False
    for token in _PARTS.finditer(formatter):
        if token.start() != end:
            raise _unsupported_formatter(formatter, formatter[end])
        end = token.end()
        # a year takes all digits that there are, but for those of the letters right behind it
        if has_year and token.group(2) is None:
            pieces.append("(?!\\d)")
            has_year = False
        if token.group() == "[":
            open_parts.append(f"part_{len(pieces)}")
            pieces.append(f"(?=(?P<{open_parts[-1]}>(?:")
            continue
        if token.group() == "]":
            if not open_parts:
                raise _unsupported_formatter(formatter, "]")
            pieces.append(_close_group(open_parts.pop()))
            continue
        letter = token.group(2)
        if letter is None:
            quoted = token.group(1)
            pieces.append(re.escape(token.group() if quoted is None else quoted.replace("''", "'") or "'"))
            continue
        count = len(token.group())
        name = "yy" if count == 2 and letter in "yu" else letter
        if letter not in "yuMdHmsS" or (name == "M" and count > 2):
            raise _unsupported_formatter(formatter, token.group())
        has_year = has_year or name in ("y", "u")
        pieces.append(f"(?P<{name}_{len(pieces)}>{_digits(name, count)})")
    if end != len(formatter):
        raise _unsupported_formatter(formatter, formatter[end])
    # a part that is not closed ends with the formatter
    return re.compile("".join([*pieces, *map(_close_group, reversed(open_parts))]), re.ASCII)


def _close_group(part: str) -> str:
    """Return the end of an optional part: its lookahead match is not undone by backtracking."""
    return f")?))(?P={part})"  # the quantifier `?+` means the same, and does something else in Python 3.11.2


def _digits(name: str, count: int) -> str:
    """Return the pattern of a letter repeated `count` times.

    Years before the year 0 have a sign, and so have those with more digits than letters.
    """
    if name not in ("y", "u"):
        return f"\\d{{{count}}}" if name in ("S", "yy") or count > 1 else "\\d{1,2}"
    sign = "-?" if name == "u" else ""
    longer = f"\\+\\d{{{count + 1},10}}|" if 3 < count < 10 else ""
    return f"{longer}{sign}\\d{{{count}}}" if count > 1 else f"{sign}\\d{{1,10}}"


def _unsupported_formatter(formatter: str, letters: str) -> InvalidOption:
    return InvalidOption(
        (
            f"lakekit does not read {letters!r} in the option partition.timestamp-formatter={formatter!r}; it reads y "
            "u M d H m s S, quoted text and [optional parts]"
        ),
        key="partition.timestamp-formatter",
        value=formatter,
    )
