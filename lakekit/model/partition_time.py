"""The time that a partition's values say, as `partition.timestamp-pattern` and `partition.timestamp-formatter` read them.

    dt=2024-02-29/hr=7    pattern "$dt $hr:00:00"    ->   "2024-02-29 7:00:00"    ->   1709190000000, in milliseconds of a wall clock
    dt=20240229           formatter "yyyyMMdd"       ->   1709164800000

Without a pattern the first column is the text; without a formatter it is year-month-day, or that with hour:minute:second and a fraction, numbers beyond
their range carried over (2024-13-01 is 2025-01-01). A formatter takes the letters y u M d H m s S, text between quotes, parts between brackets that may be
missing, and itself anything else that is no letter.
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
_DEFAULT = re.compile(r"(?P<y>-?\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})(?: (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?", re.ASCII)
_PARTS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'{}#]")
_RANGES = {"M": (1, 12), "d": (1, 31), "H": (0, 23), "m": (0, 59), "s": (0, 59)}


def time_ms(names: Sequence[str], texts: Sequence[str], *, pattern: str | None, formatter: str | None) -> int | None:
    """Milliseconds of a wall clock since 1970; None where the values say no time. Raises `InvalidOption` for a formatter that lakekit cannot read."""
    text = texts[0] if pattern is None else pattern
    if pattern is not None:
        for name, value in zip(names, texts, strict=True):
            text = text.replace(f"${name}", value)
    found = (_DEFAULT if formatter is None else _expression(formatter)).fullmatch(text)
    if found is None:
        return None
    parts = {letter: int(digits) for letter, digits in found.groupdict().items() if digits is not None and letter != "S"}
    if "yy" in parts:
        parts["y"] = 2000 + parts["yy"]
    elif "u" in parts:
        parts["y"] = parts["u"]
    elif formatter is not None and parts.get("y") == 0:  # y counts the years of an era, which begin with 1
        return None
    if not {"y", "M", "d"} <= parts.keys():
        return None
    fraction = (found.groupdict().get("S") or "").ljust(3, "0")[:3]
    return _counted(parts, int(fraction), lenient=formatter is None)


def _counted(parts: dict[str, int], millis: int, *, lenient: bool) -> int | None:
    year, month, day = parts["y"], parts["M"], parts["d"]
    if lenient:
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        number = epoch_day(year, month, 1) + day - 1
    else:
        midnight = parts.get("H") == 24 and not parts.get("m") and not parts.get("s") and not millis  # the end of the day
        if any(not low <= parts.get(letter, low) <= high and not (letter == "H" and midnight) for letter, (low, high) in _RANGES.items()):
            return None
        number = epoch_day(year, month, day)
        while civil(number)[1] != month:  # 30 February is its last day
            number -= 1
    return number * _DAY_MS + ((parts.get("H", 0) * 60 + parts.get("m", 0)) * 60 + parts.get("s", 0)) * 1000 + millis


@lru_cache(maxsize=64)
def _expression(formatter: str) -> re.Pattern[str]:
    """What a formatter matches."""
    pieces, end, depth = [], 0, 0
    for found in _PARTS.finditer(formatter):
        if found.start() != end:
            raise _unreadable(formatter, formatter[end])
        end = found.end()
        if found.group() in ("[", "]"):
            depth += 1 if found.group() == "[" else -1
            if depth < 0:
                raise _unreadable(formatter, "]")
            pieces.append("(?:" if found.group() == "[" else ")?")
            continue
        letter = found.group(2)
        if letter is None:
            quoted = found.group(1)
            pieces.append(re.escape(found.group() if quoted is None else quoted.replace("''", "'") or "'"))
            continue
        count = len(found.group())
        name = "yy" if count == 2 and letter in "yu" else letter
        if letter not in "yuMdHmsS" or (name == "M" and count > 2) or any(piece.startswith(f"(?P<{name}>") for piece in pieces):
            raise _unreadable(formatter, found.group())
        least, most = (count, count) if name == "S" or count > 1 else (1, 10 if name in "yu" else 2)
        pieces.append(rf"(?P<{name}>\d{{{least},{most}}})")
    if end != len(formatter):
        raise _unreadable(formatter, formatter[end])
    return re.compile("".join([*pieces, ")?" * depth]), re.ASCII)  # a part that is not closed ends with the formatter


def _unreadable(formatter: str, what: str) -> InvalidOption:
    return InvalidOption(
        f"lakekit does not read {what!r} in the option partition.timestamp-formatter={formatter!r}; it reads y u M d H m s S, quoted text and [optional parts]",
        key="partition.timestamp-formatter",
        value=formatter,
    )
