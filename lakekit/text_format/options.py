"""The options of text formats, the interface of a format module, and values as texts.

    check_types(fields)                                     raises `Unsupported` for columns its files do not hold
    parse_lines(lines, fields, column_names, options) -> pl.DataFrame
                                                            rows of some lines: the columns `column_names` of `fields`
    format_lines(frame, fields, options) -> pl.Series       the lines of some rows

    parse_values(texts, type, options, column)   ->  values, and a mask of the texts that are none
    print_values(column, type, options)          ->  texts; null stays null

Numbers, dates and times are spelt as casts to STRING spell them, bytes in base64. Read back, `true` in any case is true
and every other text false; a whole number takes no point and no exponent.

Source: ENGINE.md 9.6 and 12; `CsvOptions`, `JsonOptions`, `TextOptions` of engine 1.4.2, which 2.x shares; `CsvParser`,
`CsvFormatWriter`, `JsonFileReader`, `JsonFormatWriter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import InvalidOption
from lakekit.format import casts, text_casts
from lakekit.format.polars_types import polars_type
from lakekit.options.option import normalize_choice, read_boolean
from lakekit.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.types import DataType


_PARSE_MODES = ("permissive", "dropmalformed", "failfast")
_NULL_KEYS = ("fail", "drop", "literal")
_LINE_ENDS = ("\n", "\r\n", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """The options of a table's text files, for readers and writers.

    `delimiter`, `quote`, `escape`, `null_literal`, `has_header` and `parse_mode` belong to CSV, `ignores_errors` to
    JSON, `line_end` to all formats. `java_zone` is the time zone of the Java processes that print instants.
    `timestamp_unit`: how integers are read as timestamps (`text_casts.make_parser`).
    """

    line_end: str = "\n"
    delimiter: str = ","
    quote: str = '"'
    escape: str = "\\"
    null_literal: str = ""
    has_header: bool = False
    parse_mode: str = "permissive"
    ignores_errors: bool = False
    java_zone: str = "UTC"
    timestamp_unit: str | None = None

    @property
    def accepts_any_line_end(self) -> bool:
        """Whether LF, CR and CRLF all end a line, which is so if the option is one of these."""
        return self.line_end in _LINE_ENDS


def text_options_of(
    table_options: Mapping[str, str], format_name: str, *, zone: str = "UTC", timestamp_unit: str | None = None
) -> TextOptions:
    """Return the options of a table's text files.

    Raises:
        InvalidOption: a value is not allowed, or two special characters are equal, so that Java's reader cannot tell
            them apart.
    """
    return _cached_options(
        tuple(sorted((key, value) for key, value in table_options.items() if key in TEXT_OPTION_KEYS)),
        format_name,
        zone,
        timestamp_unit,
    )


@lru_cache(maxsize=64)
def _cached_options(
    pairs: tuple[tuple[str, str], ...], format_name: str, zone: str, timestamp_unit: str | None
) -> TextOptions:
    options = dict(pairs)
    if format_name == "json":
        _choice_option(options, ("json.map-null-key-mode",), "fail", _NULL_KEYS)
        ignores = _flag_option(options, ("json.ignore-parse-errors",))
        return TextOptions(
            line_end=_text_option(options, ("json.line-delimiter",), "\n"),
            ignores_errors=ignores,
            java_zone=zone,
            timestamp_unit=timestamp_unit,
        )
    if format_name == "text":
        return TextOptions(
            line_end=_text_option(options, ("text.line-delimiter", "lineSep"), "\n"),
            java_zone=zone,
            timestamp_unit=timestamp_unit,
        )
    csv = TextOptions(
        line_end=_text_option(options, ("csv.line-delimiter", "lineSep"), "\n"),
        delimiter=_character_option(options, ("csv.field-delimiter", "field-delimiter", "seq"), ","),
        quote=_character_option(options, ("csv.quote-character", "quote"), '"'),
        escape=_character_option(options, ("csv.escape-character", "escape"), "\\"),
        null_literal=_find_option(options, ("csv.null-literal", "nullvalue"), "")[1],
        has_header=_flag_option(options, ("csv.include-header", "header")),
        parse_mode=_choice_option(options, ("csv.mode", "mode"), "permissive", _PARSE_MODES),
        java_zone=zone,
        timestamp_unit=timestamp_unit,
    )
    specials = [csv.delimiter, *(sign for sign in (csv.quote, csv.escape) if sign != "\0")]
    if csv.delimiter == "\0" or len(set(specials)) < len(specials) or any(sign in csv.line_end for sign in specials):
        names = f"field delimiter {csv.delimiter!r}, quote {csv.quote!r}, escape {csv.escape!r}"
        msg = f"{names} and line end {csv.line_end!r} must be told apart: give each another character"
        raise InvalidOption(msg, key="csv.field-delimiter", value=csv.delimiter)
    return csv


TEXT_OPTION_KEYS = frozenset(
    [
        "json.map-null-key-mode",
        "json.ignore-parse-errors",
        "json.line-delimiter",
        "text.line-delimiter",
        "lineSep",
        "csv.line-delimiter",
        "csv.field-delimiter",
        "field-delimiter",
        "seq",
        "csv.quote-character",
        "quote",
        "csv.escape-character",
        "escape",
        "csv.null-literal",
        "nullvalue",
        "csv.include-header",
        "header",
        "csv.mode",
        "mode",
    ]
)
"""The options of text formats by all their names."""


def _find_option(options: Mapping[str, str], keys: tuple[str, ...], default: str) -> tuple[str, str]:
    return next(((key, options[key]) for key in keys if key in options), (keys[0], default))


def _text_option(options: Mapping[str, str], keys: tuple[str, ...], default: str) -> str:
    key, text = _find_option(options, keys, default)
    if not text:
        raise InvalidOption(f"option {key!r} is empty: a line needs an end", key=key, value=text)
    return text


def _character_option(options: Mapping[str, str], keys: tuple[str, ...], default: str) -> str:
    """Return an option that is one character.

    Longer texts are refused: Java would write the whole text, but read only its first character.
    """
    key, text = _find_option(options, keys, default)
    if len(text) != 1 or ord(text) > 0xFFFF:
        raise InvalidOption(f"option {key!r} is {text[:100]!r}; it is one character", key=key, value=text)
    return text


def _flag_option(options: Mapping[str, str], keys: tuple[str, ...]) -> bool:
    key, text = _find_option(options, keys, "false")
    try:
        return read_boolean(text)
    except ValueError:
        raise InvalidOption(f"option {key!r} is {text[:100]!r}; allowed: true, false", key=key, value=text) from None


def _choice_option(options: Mapping[str, str], keys: tuple[str, ...], default: str, allowed: tuple[str, ...]) -> str:
    key, text = _find_option(options, keys, default)
    if normalize_choice(text) not in allowed:
        raise InvalidOption(f"option {key!r} is {text[:100]!r}; allowed: {', '.join(allowed)}", key=key, value=text)
    return normalize_choice(text)


# ---- values ------------------------------------------------------------


PLAIN_TYPES = frozenset(
    {*STRINGS, *INTEGERS, "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", *TIMESTAMPS, "BINARY", "VARBINARY"}
)
"""Types of which one text is one value."""
_PLAIN_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:E-?[0-9]+)?$"
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def parse_values(texts: pl.Series, t: DataType, options: TextOptions, column: str) -> tuple[pl.Series, pl.Series]:
    """Return the values of some texts, and a mask of the texts that cannot be parsed; those become null.

    A DECIMAL that does not fit its type becomes null, but is not in the mask.
    """
    dtype = polars_type(t, timestamp_unit=options.timestamp_unit)
    if t.root in STRINGS:
        return texts, _false_mask(texts)
    if t.root in INTEGERS:
        limit = 1 << (_INTEGER_BITS[t.root] - 1)
        integers = texts.str.extract(r"^\+?(-?\d+)$", 1).cast(pl.Int64, strict=False)
        parsed = (
            integers.to_frame("n")
            .select(pl.when(pl.col("n").is_between(-limit, limit - 1)).then(pl.col("n")))
            .to_series()
            .cast(dtype)
        )
    elif t.root == "BOOLEAN":
        return texts.str.to_lowercase() == "true", _false_mask(texts)
    elif t.root in ("FLOAT", "DOUBLE"):
        plain = texts.str.contains(_PLAIN_NUMBER).all()  # most files hold nothing else, and need no closer look
        parsed = texts.cast(dtype, strict=False) if plain else text_casts.parse_floats(texts, result_type=t)
    elif t.root in BINARIES:
        parsed = _decode_base64(texts)
    elif t.root == "DECIMAL":
        parsed = text_casts.make_tolerant_parser(t, column=column)(texts)
        return parsed.cast(dtype), (~text_casts.is_number_text(texts)).fill_null(value=False)
    else:
        parsed = text_casts.make_tolerant_parser(
            t, column=column, timestamp_unit=options.timestamp_unit, zone=options.java_zone
        )(texts)
    return parsed.cast(dtype), parsed.is_null() & texts.is_not_null()


def _decode_base64(texts: pl.Series) -> pl.Series:
    """Decode base64 as Java does: padding may be missing, and surplus bits at the end are ignored."""
    filled = pl.col("t").str.contains(r"^[A-Za-z0-9+/]*={1,2}$") & (pl.col("t").str.len_bytes() % 4 == 0)
    bare = pl.when(filled).then(pl.col("t").str.strip_chars_end("=")).otherwise(pl.col("t"))
    frame = (
        texts.to_frame("t")
        .select(t=bare)
        .with_columns(left=pl.col("t").str.len_bytes() % 4, size=pl.col("t").str.len_bytes() * 3 // 4)
    )
    padded = pl.concat_str("t", pl.lit("AA").str.slice(0, (4 - pl.col("left")) % 4))
    decoded = frame.select(
        pl.when(pl.col("left") != 1).then(padded).str.decode("base64", strict=False).bin.slice(0, pl.col("size"))
    )
    return decoded.to_series().alias(texts.name)


def _false_mask(texts: pl.Series) -> pl.Series:
    return pl.repeat(value=False, n=len(texts), eager=True)


def print_values(column: pl.Expr, t: DataType, options: TextOptions) -> pl.Expr:
    """Print values as texts."""
    if t.root in BINARIES:
        return column.bin.encode("base64")
    return casts.to_java_text(column, t, options.java_zone)
