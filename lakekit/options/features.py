"""What lakekit does and does not: one list of named features, which feeds refusals, `lk.features()`, the documents and the conformance tests.

    area | specified
    feature | read | write | words

`read` and `write` are `yes`, `refused` (by name, with `Unsupported`) or `-` (no matter of that side). Options that only tune another engine are `-` on both
sides: they are kept, listed and written back, and change nothing here. The lists themselves stand in `feature_list.py` and `option_features.py`.
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
    """One thing that Paimon has. `name` is what errors call it, `specified` the section that describes it."""

    name: str
    area: str
    read: str
    write: str
    words: str
    specified: str


def _read_tables() -> dict[str, Feature]:
    found: dict[str, Feature] = {}
    for text in TABLES:
        head, *lines = (line for line in text.strip().splitlines() if line.strip())
        area, specified = (part.strip() for part in head.split("|"))
        for line in lines:
            name, read, write, words = (part.strip() for part in line.split("|", 3))
            found[name] = Feature(name=name, area=area, read=read, write=write, words=words, specified=specified)
    for (read, write, words), keys in OPTIONS.items():
        for key in keys.split():
            name = f"option.{key}"
            found[name] = Feature(name=name, area="option", read=read, write=write, words=words, specified="ENGINE 12")
    return found


FEATURES: Mapping[str, Feature] = MappingProxyType(_read_tables())
"""Every feature by name, in the order of the lists."""


def find(name: str) -> Feature | None:
    """The feature of that name; an option's key alone, and the reference engine's own names of types, are understood too."""
    for candidate in (name, f"option.{name}", ALIASES.get(name, name)):
        if candidate in FEATURES:
            return FEATURES[candidate]
    return None


def refuse(feature: str, where: str, *, instead: str | None = None, path: str | None = None) -> Unsupported:
    """The error for a feature that lakekit does not have, to be raised: what `where` (a table, a file, a column) uses, and what to do instead.

    `feature` is a name of the list, or one that Paimon itself may not know yet. `path` is the file, where there is one.
    """
    known = find(feature)
    if known is None or not known.words:
        told = f"{where} uses {feature}, which lakekit does not support"
    else:
        told = f"{where} uses {feature} ({known.words}), which lakekit does not support"
    return Unsupported(f"{told}. {instead or 'Read it with the Java engine; lk.features() lists what lakekit reads'}", feature=feature, path=path)


_SWITCHES = ("data-evolution.enabled", "chain-table.enabled", "pk-clustering-override", "postpone.merge-on-read", "query-auth.enabled")
_NAMES = ("blob-field", "blob-descriptor-field", "blob-view-field", "vector-field", "scan.fallback-snapshot-branch", "scan.fallback-delta-branch")
_KINDS = ("format-table", "lance-table", "iceberg-table")
OBJECTS = "object-table"
"""Engines up to 1.2 stored an object table's listing as an append table, which reads like one; later ones store nothing."""


def find_read_refusal(options: Mapping[str, str], where: str, *, instead: str | None = None) -> Unsupported | None:
    """The refusal of a table whose options say that its files mean something lakekit does not read; None where they say nothing of the kind."""
    for key in _SWITCHES:
        if options.get(key, "false").strip().lower() == "true":
            return refuse(f"option.{key}", where, instead=instead)
    for key in _NAMES:
        if options.get(key, "").strip():
            return refuse(f"option.{key}", where, instead=instead)
    kind = options.get("type", "table").strip().lower().replace("_", "-")
    if kind in _KINDS:
        return refuse(kind, where, instead=instead)
    known = find(f"file.format.{options.get('file.format', 'parquet').strip().lower()}")
    return refuse(known.name, where, instead=instead) if known is not None and known.read == "refused" else None


def check_readable(options: Mapping[str, str], where: str) -> None:
    """Raises the refusal of `find_read_refusal`, where there is one."""
    refused = find_read_refusal(options, where)
    if refused is not None:
        raise refused


OFF_TEXTS = ("", "false", "disabled")
"""Texts of options that switch nothing on."""


def check_supported(options: Mapping[str, str]) -> None:
    """Raise the refusal of the first option that a caller gives and lakekit refuses; one that switches nothing on passes.

    Raises: `Unsupported`.
    """
    for key, text in options.items():
        feature = FEATURES.get(f"option.{key}")
        refused = feature is not None and feature.read != "yes" and "refused" in (feature.read, feature.write)
        if refused and text.strip().lower() not in OFF_TEXTS:
            raise refuse(f"option.{key}", f"{key}={text!r}", instead="Leave the option out; lk.features() lists what lakekit does with each")
