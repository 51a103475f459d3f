"""What lakekit supports: one list of named features.

    area | specified
    feature | read | write | words

It feeds refusals, `lk.features()`, the documents and the conformance tests. `read` and `write` are `yes`, `refused` (by
name, with `Unsupported`) or `-` (does not concern that side). Options that only tune another engine are `-` on both
sides: they are kept, listed and written back, and have no effect here. The lists themselves are in `feature_list.py`
and `option_features.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakekit.errors import Unsupported
from lakekit.options.feature_list import ALIASES, TABLES
from lakekit.options.option_features import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

STATES = ("yes", "refused", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature of Paimon. `name` is its name in errors, `specified` the section that describes it."""

    name: str
    area: str
    read: str
    write: str
    words: str
    specified: str


def _read_tables() -> dict[str, Feature]:
    features: dict[str, Feature] = {}
    for text in TABLES:
        head, *lines = (line for line in text.strip().splitlines() if line.strip())
        area, specified = (part.strip() for part in head.split("|"))
        for line in lines:
            name, read, write, words = (" ".join(part.split()) for part in line.split("|", 3))
            features[name] = Feature(name=name, area=area, read=read, write=write, words=words, specified=specified)
    for (read, write, words), keys in OPTIONS.items():
        for key in keys.split():
            name = f"option.{key}"
            features[name] = Feature(
                name=name, area="option", read=read, write=write, words=words, specified="ENGINE 12"
            )
    return features


FEATURES: Mapping[str, Feature] = MappingProxyType(_read_tables())
"""Every feature by name, in the order of the lists."""


def find(name: str) -> Feature | None:
    """Return the feature of a name; None if there is none.

    An option's key alone, and the reference engine's own names of types, are accepted too.
    """
    for candidate in (name, f"option.{name}", ALIASES.get(name, name)):
        if candidate in FEATURES:
            return FEATURES[candidate]
    return None


def refuse(feature: str, subject: str, *, instead: str | None = None, path: str | None = None) -> Unsupported:
    """Return the error for a feature that lakekit lacks; the caller raises it.

    `feature` is a name of the list, or one that Paimon itself may not know yet. `subject` is the table, file or column
    that uses it, `instead` what to do instead, `path` the file, if there is one.
    """
    known_feature = find(feature)
    if known_feature is None or not known_feature.words:
        sentence = f"{subject} uses {feature}, which lakekit does not support"
    else:
        sentence = f"{subject} uses {feature} ({known_feature.words}), which lakekit does not support"
    return Unsupported(
        f"{sentence}. {instead or 'Read it with the Java engine; lk.features() lists what lakekit reads'}",
        feature=feature,
        path=path,
    )


_SWITCHES = (
    "data-evolution.enabled",
    "chain-table.enabled",
    "pk-clustering-override",
    "postpone.merge-on-read",
    "query-auth.enabled",
)
_NAMES = (
    "blob-field",
    "blob-descriptor-field",
    "blob-view-field",
    "vector-field",
    "scan.fallback-snapshot-branch",
    "scan.fallback-delta-branch",
)
_KINDS = ("format-table", "lance-table", "iceberg-table")
OBJECTS = "object-table"
"""Engines up to 1.2 stored an object table's listing as an append table, which reads like one; later ones store
nothing.
"""


def find_read_refusal(options: Mapping[str, str], subject: str, *, instead: str | None = None) -> Unsupported | None:
    """Return the error for a table whose options make its files unreadable for lakekit.

    None if they do not.
    """
    for key in _SWITCHES:
        if options.get(key, "false").strip().lower() == "true":
            return refuse(f"option.{key}", subject, instead=instead)
    for key in _NAMES:
        if options.get(key, "").strip():
            return refuse(f"option.{key}", subject, instead=instead)
    kind = options.get("type", "table").strip().lower().replace("_", "-")
    if kind in _KINDS:
        return refuse(kind, subject, instead=instead)
    format_feature = find(f"file.format.{options.get('file.format', 'parquet').strip().lower()}")
    return (
        refuse(format_feature.name, subject, instead=instead)
        if format_feature is not None and format_feature.read == "refused"
        else None
    )


def check_readable(options: Mapping[str, str], subject: str) -> None:
    """Raise the error of `find_read_refusal`, if there is one."""
    refused = find_read_refusal(options, subject)
    if refused is not None:
        raise refused


OFF_TEXTS = ("", "false", "disabled")
"""Texts of options that switch nothing on."""


def check_supported(options: Mapping[str, str]) -> None:
    """Raise for the first of a caller's options that lakekit refuses.

    An option that switches nothing on passes.

    Raises:
        Unsupported: with the name of the option.
    """
    for key, text in options.items():
        feature = FEATURES.get(f"option.{key}")
        refused = feature is not None and feature.read != "yes" and "refused" in (feature.read, feature.write)
        if refused and text.strip().lower() not in OFF_TEXTS:
            raise refuse(
                f"option.{key}",
                f"{key}={text!r}",
                instead="Leave the option out; lk.features() lists what lakekit does with each",
            )
