"""Options as a caller writes them, as the texts that a schema file holds.

    {"partial-update.ignore-delete": True}            ignore-delete                  true
    {"fields.v.aggregate-function":
         "first_not_null_value"}                      fields.v.aggregate-function    first_non_null_value
    {"file-index.bsi.columns": "price, time"}         file-index.bsi.columns         price,time

Names of older releases become today's. Choices are spelt as the reference spells them, lists lose their blanks (which
the reference takes for a part of a name), and values are checked. An unknown key is kept: engines have options of their
own. One that resembles a known key causes a warning.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from lakekit.errors import InvalidOption
from lakekit.model.locations import ALLOWED_LOCATIONS
from lakekit.options.definitions import FIELD_OPTIONS, IGNORED_KEYS, SEQUENCE_GROUP
from lakekit.options.table_options import BY_KEY, FIELD_KEYS, OLDER_KEYS, is_known, normalize_keys, own_key, spell
from lakekit.secret_names import HIDDEN, is_secret
from lakekit.world import warn_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.options.option import Option

FIELDS = "fields."
_FORMER_KEYS = {"deletion-vectors": "deletion-vectors.enabled"}
"""What older documents called an option that no release ever read under that name."""
_FORMER_FUNCTIONS = {"first_not_null_value": "first_non_null_value"}
_LISTS = frozenset(
    {"bucket-key", "upsert-key", *(key for key, (_, option) in BY_KEY.items() if option.type == "names")}
)
_FIELD_LISTS = frozenset({option.key for option in FIELD_OPTIONS.values() if option.type == "names"})
_FUNCTIONS = ("aggregate-function", "default-aggregate-function")
_MIN_SIMILARITY = 0.8
_STRIPPED_TYPES = ("boolean", "integer", "long", "number")


def texts_of(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Return checked texts by today's keys.

    Raises: `InvalidOption` for an invalid value, or two values for one option under different names.
    """
    texts: dict[str, str] = {}
    for name, value in normalize_keys(options or {}).items():
        if value is None:
            continue
        key, text = normalize_option(name, value)
        if texts.get(key, text) != text:
            shown = HIDDEN if is_secret(key) else texts[key]
            raise InvalidOption(
                f"option {key!r} is given twice, as {shown!r} and, under the name {name!r}, as {text!r}",
                key=key,
                value=text,
            )
        texts[key] = text
    return texts


def normalize_option(name: str, value: Any) -> tuple[str, str]:
    """Return today's key of one option, and its checked text."""
    key = key_of(name)
    if key == ALLOWED_LOCATIONS:
        msg = (
            f"{ALLOWED_LOCATIONS} is the caller's, and is kept in no table: give it to lk.open(options=) or "
            "lk.connect(options=)"
        )
        raise InvalidOption(msg, key=key, value=None)
    if not is_known(key):
        _warn_near(key)
        return key, _value_text(key, value)
    text = spell(key, value)
    option = _field_option(key)
    if (
        option == SEQUENCE_GROUP
        or option in _FIELD_LISTS
        or key in _LISTS
        or (key.startswith("file-index.") and key.endswith(".columns"))
    ):
        text = strip_name_list(text)
    elif option in FIELD_KEYS:
        text = _canonical_text(FIELD_OPTIONS[FIELD_KEYS[option]], text, key)
    elif key in BY_KEY:
        text = _canonical_text(BY_KEY[key][1], text, key)
    if option in _FUNCTIONS or key == "fields.default-aggregate-function":
        text = _FORMER_FUNCTIONS.get(text.strip(), text.strip())
    return key, text


def _canonical_text(option: Option, text: str, key: str) -> str:
    """Return a choice as the reference spells it, and numbers and words without surrounding blanks.

    The reference takes no other spelling of a choice.
    """
    value = option.value(text, key)
    if option.type == "choice":
        return str(value)
    return text.strip() if option.type in _STRIPPED_TYPES else text


def key_of(name: str) -> str:
    """Return today's key of an option, with no blanks in the column list of a sequence group."""
    if not isinstance(name, str):
        msg = f"an option's key is a text; found {type(name).__name__}"
        raise TypeError(msg)
    key = own_key(name.strip())
    key = _FORMER_KEYS.get(key, key)
    if key.startswith(FIELDS) and key.endswith("." + SEQUENCE_GROUP):
        return f"{FIELDS}{strip_name_list(key[len(FIELDS) : -len(SEQUENCE_GROUP) - 1])}.{SEQUENCE_GROUP}"
    return key


def names_of(key: str) -> tuple[str, ...]:
    """Every key under which a schema file may hold an option: its own and older ones."""
    return (key, *(old for old, now in OLDER_KEYS.items() if now == key))


def strip_name_list(text: str) -> str:
    """Names between commas, without blanks around them."""
    return ",".join(name.strip() for name in text.split(","))


def _field_option(key: str) -> str | None:
    return key.rpartition(".")[2] if key.startswith(FIELDS) else None


def _value_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise InvalidOption(
            f"option {key!r} takes a text, found {type(value).__name__}", key=key, value=repr(value)[:100]
        )
    return str(value)


def _warn_near(key: str) -> None:
    """Warn of an unknown option that resembles a known one."""
    candidates = [*BY_KEY, *OLDER_KEYS, *IGNORED_KEYS]
    if key.startswith(FIELDS) and key.count(".") >= 2:
        column, _, option = key.rpartition(".")
        candidates = [f"{column}.{name}" for name in (*FIELD_KEYS, SEQUENCE_GROUP)]
        near = [
            f"{column}.{name}"
            for name in difflib.get_close_matches(option, [*FIELD_KEYS, SEQUENCE_GROUP], n=1, cutoff=0.6)
        ]
    else:
        near = difflib.get_close_matches(key.lower(), candidates, n=1, cutoff=_MIN_SIMILARITY)
    if near:
        warn_user(
            f"no option is called {key!r}; did you mean {near[0]!r}? The key is kept as it is; lk.options() lists "
            "those that mean something"
        )
