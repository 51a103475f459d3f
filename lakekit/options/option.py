"""One option: its key, parser, default and description; and the options of a dataclass.

    merge_engine: str = choice("merge-engine", "deduplicate", "How versions of a key become one row.", ENGINES,
        fixed=True)

The attribute is the key with underscores, and `_ms` after durations, `_bytes` after sizes. Texts are parsed as the
reference does: memory sizes in powers of 1024 (`64 mb`), durations (`1 h`, `5min`, `PT5M`; a bare number is
milliseconds), choices without regard to case, `-` and `_`.

An immutable mapping, with which records can be hashed, shared and pickled.

Options whose secrets are never shown.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from lakekit.errors import InvalidOption
from lakekit.secret_names import HIDDEN, NAME_PATTERN, is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


T = TypeVar("T")

INFINITE = 2**63 - 1
_INT = 2**31
_SIZE = re.compile(r"\s*([0-9]{1,19})\s*([A-Za-z]*)\s*")
_DURATION = re.compile(r"\s*([0-9]{1,19})\s*([A-Za-zµ]*)\s*")
_ISO = re.compile(
    r"(?i)([+-]?)P(?:([+-]?[0-9]{1,9})D)?"
    r"(?:T(?:([+-]?[0-9]{1,9})H)?(?:([+-]?[0-9]{1,9})M)?(?:([+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?"
)
_SIZES = {
    word: 1 << shift
    for shift, words in (
        (0, "b bytes"),
        (10, "k kb kibibytes"),
        (20, "m mb mebibytes"),
        (30, "g gb gibibytes"),
        (40, "t tb tebibytes"),
    )
    for word in words.split()
}
_DURATIONS_NS = {
    word: nanos
    for nanos, words in (
        (86_400_000_000_000, "d day days"),
        (3_600_000_000_000, "h hour hours"),
        (60_000_000_000, "m min minute minutes"),
        (1_000_000_000, "s sec secs second seconds"),
        (1_000_000, "ms milli millis millisecond milliseconds"),
        (1_000, "µs micro micros microsecond microseconds"),
        (1, "ns nano nanos nanosecond nanoseconds"),
    )
    for word in words.split()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option.

    `default` is its text as the reference documents it, None if there is none; `older` are keys of the same meaning in
    older releases. `fixed` options cannot change once a table has a snapshot.
    """

    key: str
    type: str
    read: Callable[[str], Any]
    default: str | None
    words: str
    choices: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    fixed: bool = False

    @property
    def default_value(self) -> Any:
        """The default as a value; an empty list or mapping for an option of several values without one."""
        if self.default is not None:
            return self.read(self.default)
        return self.read("") if self.type in {"names", "levels"} else None

    def value(self, text: str, key: str | None = None) -> Any:
        """Return the value of a text. Raises `InvalidOption` with the key, the text and what is allowed."""
        try:
            return self.read(text)
        except ValueError as wrong:
            allowed = ", ".join(self.choices) if self.choices else _ALLOWED_TEXTS[self.type]
            shown_text = text if len(text) <= 100 else text[:100] + "…"
            raise InvalidOption(
                f"option {key or self.key!r} is {shown_text!r}; allowed: {allowed}", key=key or self.key, value=text
            ) from wrong

    def find(self, texts: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the key and text of the option in a mapping, its own key first, then older ones.

        None without.
        """
        for key in (self.key, *self.older):
            if key in texts:
                return key, texts[key]
        return None


_ALLOWED_TEXTS = {
    "boolean": "true, false",
    "integer": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "number": "a number such as 0.75",
    "duration": "a duration such as 1 h, 30 s, 5 min, 100 ms",
    "size": "a size such as 64 mb, 4 kb, 1 gb",
    "text": "a text",
    "names": "column names with commas between them",
    "levels": "values by level such as 0:avro,5:orc",
    "choice": "one of its choices",
}


# ---- texts -> values -------------------------------------------------------------------------------------------------


def _look_up(values: Mapping[str, T], word: str) -> T:
    """Return the value of a word. Raises `ValueError`, as every reader does for an invalid text."""
    if word not in values:
        raise ValueError(word)
    return values[word]


def read_boolean(text: str) -> bool:
    """Parse `true` or `false`, in any case."""
    return _look_up({"true": True, "false": False}, text.strip().lower())


def read_integer(text: str, bound: int = _INT) -> int:
    """Parse an integer of 32 bits, or within another bound."""
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text.strip()):
        raise ValueError(text)
    value = int(text)
    if not -bound <= value < bound:
        raise ValueError(text)
    return value


def read_long(text: str) -> int:
    """Parse an integer of 64 bits."""
    return read_integer(text, 2**63)


def read_number(text: str) -> float:
    """Parse a finite number."""
    if len(text) > 50 or not re.fullmatch(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*", text):
        raise ValueError(text)
    return float(text)


def read_size(text: str) -> int:
    """Parse a size to bytes: a number and a unit, in powers of 1024.

    Without a unit it is bytes; `infinite` is the greatest size.
    """
    if text.strip().lower() == "infinite":
        return INFINITE
    matched = _SIZE.fullmatch(text)
    if matched is None:
        raise ValueError(text)
    size = int(matched.group(1)) * _look_up(_SIZES, matched.group(2).lower() or "b")
    if size > INFINITE:
        raise ValueError(text)
    return size


def read_duration(text: str) -> int:
    """Parse a duration to milliseconds: a number and a unit, or ISO 8601 such as `PT1H30M`.

    Without a unit it is milliseconds. Fractions of a millisecond are dropped.
    """
    matched = _DURATION.fullmatch(text)
    if matched is not None:
        millis = int(matched.group(1)) * _look_up(_DURATIONS_NS, matched.group(2).lower() or "ms") // 1_000_000
    else:
        millis = read_iso_duration_ns(text.strip()) // 1_000_000
    if not -INFINITE <= millis <= INFINITE:
        raise ValueError(text)
    return millis


def read_iso_duration_ns(text: str) -> int:
    """Parse an ISO 8601 duration to nanoseconds, as Java does.

    It has days, hours, minutes, and seconds with up to nine decimals.
    """
    matched = _ISO.fullmatch(text)
    if matched is None or text[-1:].upper() in {"P", "T"} or not any(matched.groups()[1:]):
        raise ValueError(text)
    sign, days, hours, minutes, seconds = matched.groups()
    whole_seconds, _, fraction = (seconds or "0").partition(".")
    nanos = int(fraction.ljust(9, "0") or 0)
    total = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(whole_seconds)
    duration_ns = total * 1_000_000_000 + (-nanos if whole_seconds.startswith("-") else nanos)
    return -duration_ns if sign == "-" else duration_ns


def read_names(text: str) -> tuple[str, ...]:
    """Names between commas, blanks around them dropped."""
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def read_levels(text: str) -> dict[int, str]:
    """Parse `0:avro,5:orc` to a value by level."""
    values = {}
    for part in text.split(",") if text.strip() else ():
        level, colon, value = part.partition(":")
        if not colon:
            raise ValueError(text)
        values[read_integer(level)] = value.strip()
    return values


def normalize_choice(text: str) -> str:
    """Return a choice in lower case with `-` for `_`."""
    return text.strip().lower().replace("_", "-")


# ---- fields of a dataclass of options --------------------------------------------------------------------------------


def _field(option: Option) -> Any:
    default_value = option.default_value
    return field(default_factory=lambda: default_value, metadata={"option": option})


def flag(key: str, default: bool | None, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare a boolean option."""
    text = None if default is None else str(default).lower()
    return _field(
        Option(key=key, type="boolean", read=read_boolean, default=text, words=description, older=older, fixed=fixed)
    )


def integer(key: str, default: int | None, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare an integer option of 32 bits."""
    text = None if default is None else str(default)
    return _field(
        Option(key=key, type="integer", read=read_integer, default=text, words=description, older=older, fixed=fixed)
    )


def long(key: str, default: int | None, description: str, *older: str) -> Any:
    """Declare an integer option of 64 bits."""
    return _field(
        Option(
            key=key,
            type="long",
            read=read_long,
            default=None if default is None else str(default),
            words=description,
            older=older,
        )
    )


def number(key: str, default: float, description: str) -> Any:
    """Declare a fraction option."""
    return _field(Option(key=key, type="number", read=read_number, default=str(default), words=description))


def duration(key: str, default: str | None, description: str, *older: str) -> Any:
    """Declare a duration option, in milliseconds."""
    return _field(Option(key=key, type="duration", read=read_duration, default=default, words=description, older=older))


def size(key: str, default: str | None, description: str, *older: str) -> Any:
    """Declare a size option, in bytes."""
    return _field(Option(key=key, type="size", read=read_size, default=default, words=description, older=older))


def text(key: str, default: str | None, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare a text option."""
    return _field(Option(key=key, type="text", read=str, default=default, words=description, older=older, fixed=fixed))


def names(key: str, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare an option of comma-separated column names."""
    return _field(
        Option(key=key, type="names", read=read_names, default=None, words=description, older=older, fixed=fixed)
    )


def levels(key: str, description: str) -> Any:
    """Declare an option with a value for each level."""
    return _field(Option(key=key, type="levels", read=read_levels, default=None, words=description))


def choice(key: str, default: str | None, description: str, choices: str, *older: str, fixed: bool = False) -> Any:
    """Declare an option with one of a few words, given separated by blanks."""
    allowed = {normalize_choice(word): word for word in choices.split()}
    read = lambda text: _look_up(allowed, normalize_choice(text))  # noqa: E731 - it is the option's reader
    return _field(
        Option(
            key=key,
            type="choice",
            read=read,
            default=default,
            words=description,
            choices=tuple(allowed.values()),
            older=older,
            fixed=fixed,
        )
    )


def options_of(cls: type) -> dict[str, Option]:
    """Return the options of a dataclass, by attribute."""
    return {part.name: part.metadata["option"] for part in fields(cls) if "option" in part.metadata}


def nearest_key(key: str, known_keys: Iterable[str]) -> str | None:
    """Return the known key that is most similar to a mistyped one; None if none is."""
    matches = difflib.get_close_matches(key.lower(), list(known_keys), n=1, cutoff=0.6)
    return matches[0] if matches else None


# ---- frozendict ------------------------------------------------------------


K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V], Generic[K, V]):
    """A dict whose mutating methods raise; equal to a dict of the same items."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        msg = "this mapping never changes; make a dict of it"
        raise TypeError(msg)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


EMPTY: FrozenDict[Any, Any] = FrozenDict()


def freeze(value: Any) -> Any:
    """Return the same JSON value with tuples for lists and `FrozenDict` for dicts."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(part) for key, part in value.items()})
    if isinstance(value, list):
        return tuple(freeze(part) for part in value)
    return value


# ---- secrets ------------------------------------------------------------


class SecretOptions(FrozenDict[str, Any]):
    """A user's options with their values; printed without secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(shown_options(self))

    __str__ = __repr__


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same options with secrets hidden."""
    return {key: HIDDEN if is_secret(key) else value for key, value in options.items()}


__all__ = ["HIDDEN", "NAME_PATTERN", "SecretOptions", "is_secret", "shown_options"]
