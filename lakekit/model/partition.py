"""Partition values as directory names and back (FORMAT 1.4), and the time of a partition.

    values (20240101 as DATE, None)   ->   texts ("19723", "__DEFAULT_PARTITION__")
                                      ->   "dt=19723/hr=__DEFAULT_PARTITION__/"
    dt=2024-02-29/hr=7    pattern "$dt $hr:00:00"    ->   "2024-02-29 7:00:00"    ->   1709190000000 (local ms)
    dt=20240229           formatter "yyyyMMdd"       ->   1709164800000

A directory does not distinguish a null from a blank text; a manifest's row does. Two spellings exist: the legacy one
(the option `partition.legacy-name`, true by default) prints internal values, the other one SQL text.

The time comes from `partition.timestamp-pattern` and `partition.timestamp-formatter`. Without a pattern the first
column is the text; without a formatter it is year-month-day, or that with hour:minute:second and a fraction, numbers
beyond their range carried over (2024-13-01 is 2025-01-01). A formatter has the letters y u M d H m s S, text between
quotes, optional parts in brackets, and other characters that are not letters; a repeated letter must have the same
value again.

Source: `PartitionPathUtils`, `InternalRowPartitionComputer`, `DateTimeUtils`, `Float.toString`,
`PartitionTimeExtractor`, `DateTimeFormatter`.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit.errors import Corrupt, InvalidOption, Unsupported
from lakekit.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType, Instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


DEFAULT_NAME = "__DEFAULT_PARTITION__"
_ESCAPED_BYTES = frozenset([*range(0x20), 0x7F, *b"\"#%'*/:=?\\{}[]^"])
_ESCAPE_OF_CODE = {code: f"%{code:02X}" for code in _ESCAPED_BYTES}
_PERCENT_ESCAPE = re.compile("%([0-9a-fA-F]{2})")
JAVA_BLANKS = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
    "\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
)
"""What Java calls white space."""
_JAVA_BLANK_SET = frozenset(JAVA_BLANKS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000
_WIDE_CONTEXT = Context(prec=200)
_INTEGER_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


# ---- names and paths -------------------------------------------------------------------------------------------------


def escape_name(text: str) -> str:
    """Escape a text for a directory name."""
    return text.translate(_ESCAPE_OF_CODE)


def unescape_name(text: str) -> str:
    """Return the text of a directory name; a `%` without two hex digits after it stays."""
    return _PERCENT_ESCAPE.sub(lambda matched: chr(int(matched.group(1), 16)), text)


def partition_path(names: Iterable[str], texts: Iterable[str]) -> str:
    """Return `k=v/` for every partition column, escaped; an empty text without columns."""
    return "".join(f"{escape_name(name)}={escape_name(value)}/" for name, value in zip(names, texts, strict=True))


def parse_partition_path(directory: str) -> tuple[tuple[str, str], ...]:
    """Return the names and texts of a partition path such as `dt=1/hr=2/`.

    Raises `Corrupt` for a part without `=`.
    """
    pairs = []
    for part in directory.strip("/").split("/") if directory.strip("/") else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise Corrupt(
                f"{part[:80]!r} in the partition path {directory[:200]!r} is not of the form name=value",
                field="partition path",
            )
        pairs.append((unescape_name(name), unescape_name(value)))
    return tuple(pairs)


def is_blank(text: str) -> bool:
    """Return whether Java calls the text empty or white space only: no-break spaces are not."""
    return all(c in _JAVA_BLANK_SET for c in text)


# ---- values -> texts -------------------------------------------------------------------------------------------------


def partition_texts(
    values: Sequence[Any], types: Sequence[DataType], *, default_name: str = DEFAULT_NAME, legacy_form: bool = True
) -> tuple[str, ...]:
    """Return internal values (FORMAT 0.2) as directory texts; null and blank become `default_name`."""
    texts = []
    for value, t in zip(values, types, strict=True):
        printed = None if value is None else print_value(value, t, legacy_form=legacy_form)
        texts.append(default_name if printed is None or is_blank(printed) else printed)
    return tuple(texts)


def print_value(value: Any, t: DataType, *, legacy_form: bool = True) -> str:
    """Return an internal value as text. Raises `Unsupported` for types that have no text."""
    match t.root:
        case "BOOLEAN":
            return "true" if value else "false"
        case "FLOAT":
            return java_float(value)
        case "DOUBLE":
            return java_double(value)
        case "DECIMAL":
            return format(value.quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_WIDE_CONTEXT), "f")
        case "DATE":
            return str(value) if legacy_form else iso_date(value)
        case "TIME":
            return str(value) if legacy_form else sql_time(value, t.precision or 0)
        case root if root in INTEGERS:
            return str(value)
        case root if root in STRINGS:
            return str(value)
        case root if root in TIMESTAMPS:
            return (
                iso_timestamp(value)
                if legacy_form
                else sql_timestamp(_to_local_clock(value) if root == "TIMESTAMP_LTZ" else value, _precision_of(t))
            )
        case root if root in BINARIES and not legacy_form:
            return bytes(value).decode("utf-8", "replace")
        case root if root in BINARIES:
            raise Unsupported(
                f"a partition column of type {t} has directory names that cannot be known: engines print an object's "
                "identity. Such tables need partition.legacy-name=false",
                feature="partition.legacy-binary",
            )
    raise Unsupported(f"a partition column of type {t} has no text", feature=f"partition.{t.root.lower()}")


def _precision_of(t: DataType) -> int:
    return 6 if t.precision is None else t.precision


def iso_date(day: int) -> str:
    """Format a day since 1970 as `2024-01-01`; years beyond 9999 have a sign."""
    year, month, of_month = civil_date(day)
    return f"{_year_text(year)}-{month:02d}-{of_month:02d}"


def _year_text(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04d}"
    return f"+{year}" if year > 0 else f"-{-year:04d}"


def civil_date(day: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970, in the Gregorian calendar extended both ways."""
    shifted = day + 719468
    era, of_era = divmod(shifted, 146097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * of_year + 2) // 153
    month = month_index + 3 if month_index < 10 else month_index - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * month_index + 2) // 5 + 1


def epoch_day(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date; the inverse of `civil_date`."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719468


def iso_timestamp(value: Instant) -> str:
    """Format a time as Java's LocalDateTime does.

    Seconds only if they or a fraction are not zero; 0, 3, 6 or 9 digits after the point.
    """
    day, of_day = divmod(value.millis, _DAY_MS)
    seconds, millis = divmod(of_day, 1000)
    nanos = millis * 1_000_000 + value.nanos
    printed = f"{iso_date(day)}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or nanos:
        printed += f":{seconds % 60:02d}"
    if nanos:
        digits = 3 if nanos % 1_000_000 == 0 else 6 if nanos % 1000 == 0 else 9
        printed += f".{nanos // 10 ** (9 - digits):0{digits}d}"
    return printed


def sql_timestamp(value: Instant, precision: int) -> str:
    """Format a time as `2023-11-14 22:13:20.123`, with exactly `precision` digits after the point."""
    day, of_day = divmod(value.millis, _DAY_MS)
    seconds, millis = divmod(of_day, 1000)
    printed = f"{iso_date(day)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if precision:
        printed += f".{(millis * 1_000_000 + value.nanos) // 10 ** (9 - precision):0{precision}d}"
    return printed


def sql_time(millis: int, precision: int) -> str:
    """Format a time of day as `01:02:03.004`.

    As many digits as the value needs, one at least and `precision` at most; none for precision 0.
    """
    seconds, milliseconds = divmod(millis, 1000)
    printed = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if precision:
        printed += "." + (f"{milliseconds:03d}".rstrip("0")[:precision] or "0")
    return printed


def _to_local_clock(value: Instant) -> Instant:
    """Return an instant as local wall clock time of this process, as the reference prints it."""
    try:
        local_time = (_EPOCH + timedelta(milliseconds=value.millis)).astimezone()
    except (OverflowError, ValueError, OSError):
        return value
    offset = local_time.utcoffset()
    return value if offset is None else Instant(value.millis + int(offset.total_seconds() * 1000), value.nanos)


# ---- Java's floating point text --------------------------------------------------------------------------------------


def java_double(value: float) -> str:
    """Format a DOUBLE as Java does: `100.0`, `1.0E10`, `NaN`."""
    return _java_number_text(value, repr(value))


def java_float(value: float) -> str:
    """Format a FLOAT as Java does."""
    short = np.float32(value)
    return _java_number_text(float(short), np.format_float_scientific(short, unique=True, trim="0"))


def _java_number_text(value: float, shortest: str) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    decimal = Decimal(shortest).normalize().as_tuple()
    digits = "".join(map(str, decimal.digits))
    if len(digits) == 1:  # Java wants two, and of those the ones next to the true value: 4.9E-324
        decimal = Decimal(f"{abs(value):.1e}").as_tuple()
        digits = "".join(map(str, decimal.digits))
    point = len(digits) + int(decimal.exponent)
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits.rstrip('0')}"
        padded_digits = digits.ljust(point, "0")
        return f"{sign}{padded_digits[:point]}.{padded_digits[point:].rstrip('0') or '0'}"
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{point - 1}"


# ---- texts -> values -------------------------------------------------------------------------------------------------


def parse_partition(
    texts: Sequence[str], types: Sequence[DataType], *, default_name: str = DEFAULT_NAME
) -> tuple[Any, ...]:
    """Return the internal values of partition texts in either spelling; `default_name` is null.

    Raises `Corrupt` for a text that is not a value of its type.
    """
    return tuple(None if text == default_name else parse_value(text, t) for text, t in zip(texts, types, strict=True))


def parse_value(text: str, t: DataType) -> Any:
    """Return the internal value of one text that `print_value` printed, legacy or not."""
    try:
        value = _value_parser(t)(text)
    except (ValueError, InvalidOperation, OverflowError, struct.error):
        value = None
    if value is None:
        raise Corrupt(f"{text[:80]!r} is no {t}", field="partition value")
    return value


def _value_parser(t: DataType) -> Any:
    match t.root:
        case root if root in STRINGS:
            return str
        case root if root in INTEGERS:
            return lambda text: _parse_integer(text, _INTEGER_BITS[root])
        case "BOOLEAN":
            return lambda text: {"true": True, "false": False}.get(text.lower())
        case "FLOAT":
            return lambda text: struct.unpack("<f", struct.pack("<f", _parse_real(text)))[0]
        case "DOUBLE":
            return _parse_real
        case "DECIMAL":
            return lambda text: _parse_decimal(text, t.precision or 10, t.scale or 0)
        case "DATE":
            return lambda text: _parse_integer(text, 31) if _INTEGER_PATTERN.fullmatch(text) else _parse_date(text)
        case "TIME":
            return lambda text: _parse_integer(text, 31) if _INTEGER_PATTERN.fullmatch(text) else _parse_time(text)[0]
        case root if root in TIMESTAMPS:
            return _parse_timestamp
        case root if root in BINARIES:
            return lambda text: text.encode()
    raise Unsupported(f"a partition column of type {t} has no text", feature=f"partition.{t.root.lower()}")


_INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,20}")
_DATE_PATTERN = re.compile(r"([+-]?[0-9]{4,9})-([0-9]{2})-([0-9]{2})")
_TIME_PATTERN = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_REAL_PATTERN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")


def _parse_integer(text: str, bits: int) -> int | None:
    if not _INTEGER_PATTERN.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << bits) <= number < 1 << bits else None


def _parse_real(text: str) -> float | None:
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    return (
        special[text] if text in special else float(text) if len(text) < 400 and _REAL_PATTERN.fullmatch(text) else None
    )


def _parse_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    if len(text) > 100 or not _REAL_PATTERN.fullmatch(text):
        return None
    number = Decimal(text)
    if number.adjusted() > 40 or number.adjusted() < -80:
        return Decimal(0).scaleb(-scale) if not number else None
    quantized = Decimal(format(number, "f")).quantize(Decimal(1).scaleb(-scale), context=_WIDE_CONTEXT)
    return quantized if len(quantized.as_tuple().digits) <= precision and quantized == number else None


def _parse_date(text: str) -> int | None:
    matched = _DATE_PATTERN.fullmatch(text)
    if matched is None:
        return None
    year, month, day = (int(part) for part in matched.groups())
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    number = epoch_day(year, month, day)
    return number if civil_date(number) == (year, month, day) else None


def _parse_time(text: str) -> tuple[int, int]:
    matched = _TIME_PATTERN.fullmatch(text)
    if matched is None:
        msg = "no time"
        raise ValueError(msg)
    hour, minute, second = (int(part or 0) for part in matched.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        msg = "no time"
        raise ValueError(msg)
    nanos = int((matched.group(4) or "").ljust(9, "0"))
    return ((hour * 60 + minute) * 60 + second) * 1000 + nanos // 1_000_000, nanos % 1_000_000


def _parse_timestamp(text: str) -> Instant | None:
    day_text, separator, time_text = text.partition("T" if "T" in text else " ")
    day = _parse_date(day_text)
    if day is None or not separator:
        return None if day is None else Instant(day * _DAY_MS, 0)
    millis, nanos = _parse_time(time_text)
    return Instant(day * _DAY_MS + millis, nanos)


# ---- partition time ------------------------------------------------------------


_DEFAULT_TIME_PATTERN = re.compile(
    (
        r"(?P<y>-?\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})(?: "
        r"(?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?"
    ),
    re.ASCII,
)
_FORMATTER_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'{}#]")
_MAX_OPTIONAL_PARTS = 16
_LETTER_RANGES = {"M": (1, 12), "d": (1, 31), "H": (0, 23), "m": (0, 59), "s": (0, 59)}


def partition_time_ms(
    names: Sequence[str], texts: Sequence[str], *, pattern: str | None, formatter: str | None
) -> int | None:
    """Return wall clock milliseconds since 1970; None if the values have no time.

    Raises `InvalidOption` for a formatter that lakekit cannot read.
    """
    text = texts[0] if pattern is None else pattern
    if pattern is not None:
        for name, value in zip(names, texts, strict=True):
            text = text.replace(f"${name}", value)
    matched = (_DEFAULT_TIME_PATTERN if formatter is None else _compile_formatter(formatter)).fullmatch(text)
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
    return _to_millis(parts, parts.get("S", 0) // 1_000_000, is_lenient=formatter is None)


def _to_millis(parts: dict[str, int], millis: int, *, is_lenient: bool) -> int | None:
    year, month, day = parts["y"], parts["M"], parts["d"]
    if is_lenient:
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        number = epoch_day(year, month, 1) + day - 1
    else:
        # 24:00 is the end of the day
        midnight = parts.get("H") == 24 and not parts.get("m") and not parts.get("s") and not millis
        if any(
            not low <= parts.get(letter, low) <= high and not (letter == "H" and midnight)
            for letter, (low, high) in _LETTER_RANGES.items()
        ):
            return None
        number = epoch_day(year, month, day)
        while civil_date(number)[1] != month:  # 30 February is its last day
            number -= 1
    return number * _DAY_MS + ((parts.get("H", 0) * 60 + parts.get("m", 0)) * 60 + parts.get("s", 0)) * 1000 + millis


@lru_cache(maxsize=64)
def _compile_formatter(formatter: str) -> re.Pattern[str]:
    """Return a formatter as a regular expression."""
    if formatter.count("[") > _MAX_OPTIONAL_PARTS:
        raise InvalidOption(
            f"partition.timestamp-formatter has {formatter.count('[')} optional parts, at most {_MAX_OPTIONAL_PARTS} "
            "are read",
            key="partition.timestamp-formatter",
            value=formatter,
        )
    pieces, open_parts, end, has_year = list[str](), list[str](), 0, False
    for token in _FORMATTER_TOKEN.finditer(formatter):
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
        pieces.append(f"(?P<{name}_{len(pieces)}>{_digits_pattern(name, count)})")
    if end != len(formatter):
        raise _unsupported_formatter(formatter, formatter[end])
    # a part that is not closed ends with the formatter
    return re.compile("".join([*pieces, *map(_close_group, reversed(open_parts))]), re.ASCII)


def _close_group(part: str) -> str:
    """Return the end of an optional part: its lookahead match is not undone by backtracking."""
    return f")?))(?P={part})"  # the quantifier `?+` means the same, and does something else in Python 3.11.2


def _digits_pattern(name: str, count: int) -> str:
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
