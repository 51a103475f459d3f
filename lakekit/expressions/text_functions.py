"""Functions of texts as Polars expressions: positions count characters from 1, patterns are RE2's.

    substring('hello', 0, 2)   'h': the place before the first counts       substring('hello', -2)   'lo'
    strpos('hello', 'z')       0                                            lpad('a', 3, 'xy')       'xya'
    s LIKE 'a!_%' ESCAPE '!'   ^a_.*$                                       regexp_matches(s, '\\d') [0-9]

`\\d`, `\\w`, `\\s` and `\\b` mean ASCII, as in RE2; Polars' own mean Unicode.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.expressions.type_casts import cast
from lakekit.expressions.typed_expression import TypedExpression, mismatch, null_literal, text_literal, typed_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    Node = Any
    """A node of sqlglot's tree."""
    Translation = Any
    """A `lakekit.expressions.translation.Translation`, whose module imports this one."""

_MAX_COUNT = 1_000_000
"""The longest text that `repeat` and `lpad` make of a literal."""
_MAX_OFFSET = 1 << 40
_ASCII_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\f\\r "}
_FLAGS = frozenset("cislmg")
_BLANKS = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""What `trim` takes for blanks: Unicode's separators of words, and no tabs or ends of lines."""
_LAST_LONG_CAPITAL = 0xFB17


@cache
def _long_capitals() -> dict[str, str]:
    """Return the letters that Unicode writes as several capitals, as ß, each with the one letter that `upper` gives."""
    letters = [chr(code) for code in range(0xDF, _LAST_LONG_CAPITAL + 1)]
    titles = {letter: letter.title() for letter in letters if len(letter.upper()) > 1}  # scalar: a hundred letters
    return {letter: title if len(title) == 1 else letter for letter, title in titles.items()} | {"ß": "ẞ"}


def upper(text: pl.Expr) -> pl.Expr:
    """Return a text in capitals, one for each letter: ß is ẞ."""
    capitals = _long_capitals()
    is_long = text.str.contains(f"[{''.join(capitals)}]")
    letter = pl.element()
    one_by_one = letter.replace_strict(
        list(capitals), list(capitals.values()), default=letter.str.to_uppercase(), return_dtype=pl.String()
    )
    by_letter = pl.when(is_long).then(text).str.split("").list.eval(one_by_one).list.join("")
    return pl.when(is_long).then(by_letter).otherwise(text.str.to_uppercase())


def lower(text: pl.Expr) -> pl.Expr:
    """Return a text in small letters, one for each: İ is i, and Σ is σ at the end of a word too."""
    return text.str.replace_all("İ", "i", literal=True).str.replace_all("Σ", "σ", literal=True).str.to_lowercase()


def substring(text: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    """Return the characters from a place on, counted from the end where it is negative."""
    count = text.str.len_chars().cast(pl.Int64())
    start = start.clip(-_MAX_OFFSET, _MAX_OFFSET)
    first = pl.when(start > 0).then(start - 1).when(start < 0).then(count + start).otherwise(pl.lit(-1, pl.Int64()))
    first = pl.when(start.is_not_null()).then(first)
    if length is None:
        return text.str.slice(first.clip(0), None)
    end = first + length.clip(-_MAX_OFFSET, _MAX_OFFSET)
    low, high = (pl.when(first < end).then(a).otherwise(b).clip(0) for a, b in ((first, end), (end, first)))
    return text.str.slice(low, high - low)


def position(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    """Return the place of the first occurrence, from 1; 0 where there is none."""
    offset = text.str.find(part, literal=True).cast(pl.Int64())
    before = text.cast(pl.Binary()).bin.slice(pl.lit(0, pl.Int64()), offset).cast(pl.String())
    found = before.str.len_chars().cast(pl.Int64()) + 1
    is_known = text.is_not_null() & part.is_not_null()
    return pl.when(is_known).then(pl.when(offset.is_null()).then(pl.lit(0, pl.Int64())).otherwise(found))


def trim(values: Sequence[TypedExpression], side: str) -> TypedExpression:
    """Return a text without blanks, or without given characters, at both ends, the LEADING or the TRAILING one."""
    text = values[0]
    chars = values[1] if len(values) > 1 else text_literal(_BLANKS)
    if chars.literal is None or chars.is_null or text.is_null:
        return null_literal(pl.String())
    if not isinstance(chars.literal, str):
        raise mismatch("the characters that are trimmed are a literal")
    strip = {
        "LEADING": text.expr.str.strip_chars_start,
        "TRAILING": text.expr.str.strip_chars_end,
    }.get(side, text.expr.str.strip_chars)
    result = strip(chars.literal) if chars.literal else text.expr
    return typed_value(result, pl.String(), text)


def replace(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001 - as all of the table
    """Return a text with another for each occurrence of a part."""
    text, part, other = values
    if not isinstance(part.literal, str):
        raise mismatch("the part that is replaced is a literal")
    if not part.literal:
        return text
    # Polars refuses a replacement of one value that is NULL, as of one row
    new: Any = other.expr if other.is_constant else other.expr.fill_null("")
    searched = text.expr
    if text.is_constant and not other.is_constant:  # Polars takes as many texts as replacements
        searched = pl.when(other.expr.is_not_null()).then(searched)
    changed = searched.str.replace_all(part.literal, new, literal=True)
    return typed_value(pl.when(other.expr.is_not_null()).then(changed), pl.String(), *values)


def pad(values: Sequence[TypedExpression], *, is_left: bool) -> TypedExpression:
    """Return a text cut or filled to a count of characters."""
    text, count = values[0], values[1].literal
    fill = values[2].literal if len(values) > 2 else " "
    if not isinstance(count, int) or not isinstance(fill, str):
        raise mismatch("the length and the filling of a padded text are literals")
    count = max(count, 0)
    if count > _MAX_COUNT or not fill:
        raise mismatch(f"a text is padded to at most {_MAX_COUNT:,} characters, by at least one")
    filling = (fill * (count // len(fill) + 1))[:count]
    missing = (pl.lit(count, pl.Int64()) - text.expr.str.len_chars().cast(pl.Int64())).clip(0)
    more, kept = pl.lit(filling).str.slice(0, missing), text.expr.str.slice(0, count)
    both: tuple[pl.Expr, pl.Expr] = (more, kept) if is_left else (kept, more)
    return typed_value(pl.concat_str(*both), pl.String(), text)


def repeat(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return a text several times."""
    text, count = values[0], values[1].literal
    if not isinstance(count, int) or count > _MAX_COUNT:
        raise mismatch(f"the times that a text is repeated are a literal, at most {_MAX_COUNT:,}")
    repeated = text.expr.repeat_by(max(count, 0)).list.join("")
    return typed_value(pl.when(text.expr.is_not_null()).then(repeated), pl.String(), text)


def split_part(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return a part of a text between separators, counted from 1, from the end where it is negative."""
    text, separator, number = values[0], values[1].literal, values[2].literal
    if not isinstance(separator, str) or not separator or not isinstance(number, int):
        raise mismatch("the separator of a text and the number of its part are literals; the separator is not empty")
    if number == 0:
        return typed_value(pl.when(text.expr.is_not_null()).then(pl.lit("")), pl.String(), text)
    part = text.expr.str.split(separator).list.get(number - (number > 0), null_on_oob=True)
    return typed_value(pl.when(text.expr.is_not_null()).then(part.fill_null("")), pl.String(), text)


def concatenate(values: Sequence[TypedExpression], zone: str, *, skips_null: bool) -> TypedExpression:
    """Return texts, and other values as texts, one after the other."""
    if not skips_null and any(value.is_null or value.literal is None for value in values):
        return null_literal(pl.String())
    texts = [cast(value, pl.String(), zone) for value in values if not value.is_null]
    if not texts:
        return text_literal("")
    return typed_value(pl.concat_str([t.expr for t in texts], ignore_nulls=skips_null), pl.String(), *texts)


def concatenate_with(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    """Return texts with a separator between them; NULLs are left out."""
    separator, *others = values
    if separator.is_null or separator.literal is None:
        return null_literal(pl.String())
    if not isinstance(separator.literal, str):
        raise mismatch("the separator of concat_ws is a literal")
    texts = [cast(value, pl.String(), zone) for value in others if not value.is_null]
    if not texts:
        return text_literal("")
    joined = pl.concat_str([t.expr for t in texts], separator=separator.literal, ignore_nulls=True)
    return typed_value(joined, pl.String(), *texts)


# ---- patterns ----


def like(text: TypedExpression, pattern: TypedExpression, *, escape: str, ignores_case: bool) -> TypedExpression:
    """Return whether a text matches a pattern of LIKE or ILIKE."""
    if text.is_null or pattern.is_null or pattern.literal is None:
        return null_literal(pl.Boolean())
    if not text.is_text:
        raise mismatch(f"LIKE compares texts, and {text.description}: CAST it to STRING")
    if not isinstance(pattern.literal, str):
        raise mismatch("the pattern of LIKE is a literal text")
    if len(escape) > 1:
        raise mismatch("ESCAPE names one character")
    searched = lower(text.expr) if ignores_case else text.expr
    written_pattern = pl.select(lower(pl.lit(pattern.literal))).item() if ignores_case else pattern.literal
    parts = _like_parts(written_pattern, escape)
    kinds = [kind for kind, _ in parts]
    plain = "".join(text for _, text in parts)
    if "any" not in kinds and "one" not in kinds:
        return typed_value(searched == pl.lit(plain), pl.Boolean(), text)
    if kinds.count("any") == 1 and kinds[-1] == "any" and "one" not in kinds and plain:
        return typed_value(searched.str.starts_with(plain), pl.Boolean(), text)
    marks = {"any": ".*", "one": "."}
    regex = "".join(marks.get(kind) or re.escape(written) for kind, written in parts)
    return typed_value(searched.str.contains(f"(?s)^{regex}$"), pl.Boolean(), text)


def _like_parts(pattern: str, escape: str) -> list[tuple[str, str]]:
    """Return the signs of a pattern: "any", "one", or "sign" with its text."""
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if escape and sign == escape:
            if at + 1 == len(pattern):
                raise mismatch("a pattern of LIKE ends with its ESCAPE character")
            at += 1
            parts.append(("sign", pattern[at]))
        elif sign in "%_":
            parts.append(("any" if sign == "%" else "one", ""))
        else:
            parts.append(("sign", sign))
        at += 1
    return parts


def ascii_regex(pattern: str) -> str:
    r"""Return a pattern in which \d, \w, \s and \b mean ASCII, as in RE2.

    Raises: `TranslationRefusal` for a pattern that Polars does not read.
    """
    pieces, at, is_class = [], 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\" and at + 1 < len(pattern):
            letter = pattern[at + 1]
            at += 2
            if letter.lower() in _ASCII_CLASSES:
                chars = _ASCII_CLASSES[letter.lower()]
                if letter.isupper() and is_class:
                    raise mismatch(f"\\{letter} within [ ] is not supported in a pattern")
                pieces.append(chars if is_class else f"[{'^' if letter.isupper() else ''}{chars}]")
            elif letter in "bB" and not is_class:
                pieces.append(f"(?-u:\\{letter})")
            else:
                pieces.append(sign + letter)
            continue
        is_class = (is_class or sign == "[") and not (is_class and sign == "]")
        pieces.append(sign)
        at += 1
    regex = "".join(pieces)
    try:
        pl.Series([""]).str.contains(regex)
    except pl.exceptions.PolarsError:
        raise mismatch(f"{pattern[:60]!r} is no regular expression") from None
    return regex


def _pattern(value: TypedExpression, flags: str = "") -> str:
    if not isinstance(value.literal, str):
        raise mismatch("a regular expression is a literal text")
    if not _FLAGS.issuperset(flags):
        raise mismatch(f"{flags!r} are no options of a regular expression: c, i, s, m, l and g are")
    inline = "".join(flag for flag in "ism" if flag in flags)
    regex = re.escape(value.literal) if "l" in flags else ascii_regex(value.literal)
    return f"(?{inline}){regex}" if inline else regex


def _options(values: Sequence[TypedExpression], at: int) -> str:
    if len(values) <= at:
        return ""
    flags = values[at].literal
    if not isinstance(flags, str):
        raise mismatch("the options of a regular expression are a literal text")
    return flags


def regex_matches(values: Sequence[TypedExpression], *, is_whole: bool) -> TypedExpression:
    """Return whether a pattern matches a part of a text, or where `is_whole` all of it."""
    text = values[0]
    regex = _pattern(values[1], _options(values, 2))
    return typed_value(text.expr.str.contains(rf"\A(?:{regex})\z" if is_whole else regex), pl.Boolean(), text)


def regex_replace(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return a text with another for the first match of a pattern; for all with the option g."""
    text, replacement, flags = values[0], values[2].literal, _options(values, 3)
    if not isinstance(replacement, str):
        raise mismatch("what regexp_replace writes is a literal text")
    new = re.sub(r"\\(\d)", r"${\1}", replacement.replace("$", "$$")).replace("\\\\", "\\")
    change = text.expr.str.replace_all if "g" in flags else text.expr.str.replace
    return typed_value(change(_pattern(values[1], flags), new), pl.String(), text)


def regex_extract(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return the first match of a pattern, or a group of it; '' where there is none."""
    text, group = values[0], values[2].literal if len(values) > 2 else 0
    if not isinstance(group, int) or group < 0:
        raise mismatch("the number of a group is a literal from 0")
    found = text.expr.str.extract(f"({_pattern(values[1])})", group + 1)
    return typed_value(pl.when(text.expr.is_not_null()).then(found.fill_null("")), pl.String(), text)


def translate_trim(translation: Translation, node: Node) -> TypedExpression:
    """Return a text without characters at its ends: TRIM(BOTH x FROM s)."""
    values = [translation.translate(part) for part in (node.this, node.args.get("expression")) if part is not None]
    if not values[0].is_text and not values[0].is_null:
        raise mismatch(f"trim takes a text, and {values[0].description}: CAST it")
    return trim(values, str(node.args.get("position") or ""))


def translate_concat(translation: Translation, node: Node) -> TypedExpression:
    """Return texts joined: concat(a, b), or CONCAT of those that are not NULL."""
    values = [translation.translate(part) for part in node.expressions]
    return concatenate(values, translation.scope.zone, skips_null=bool(node.args.get("coalesce")))
