"""A folder is a registry: each module in it is one part, named after its file. `names` lists them without importing any; `load` imports one.

    names("file_index")                  ("bitmap", "bloom-filter", "bsi", "range-bitmap")
    load("file_index", "bloom-filter")   lakekit/file_index/bloom_filter.py

Modules of a folder that are no parts are named in its `NOT_PARTS`. Other distributions add parts by entry points: the group is the folder,
`lakekit.file_index`, the entry's name is the part's. Two parts of one name are an error. A part whose guest is not installed is refused with the extra that
brings it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption, Unsupported

if TYPE_CHECKING:
    from types import ModuleType

EXTRAS = {
    "ipywidgets": "notebook",
    "PIL": "notebook",
    "sqlglot": "sql",
    "datasketches": "sketches",
    "hypothesis": "conformance",
    "obstore": "cloud",
    "psycopg": "postgresql",
    "pymysql": "mysql",
    "thrift": "hive",
    "pyspark": "spark",
}
"""Guest -> the extra of lakekit that installs it."""


@cache
def _find_plugins(folder: str) -> dict[str, str | EntryPoint]:
    package = "lakekit." + folder.replace("/", ".")
    house = import_module(package)
    others: frozenset[str] = getattr(house, "NOT_PARTS", frozenset())
    own = [module.name for module in iter_modules(house.__path__) if module.name not in others and not module.name.startswith("_")]
    found: dict[str, str | EntryPoint] = {name.replace("_", "-"): f"{package}.{name}" for name in own}
    for entry in entry_points(group=package):
        if entry.name in found:
            where = found[entry.name]
            msg = f"two parts of {folder} are called {entry.name!r}: {where if isinstance(where, str) else where.value} and {entry.value}; uninstall one"
            raise InvalidOption(msg, key=folder, value=entry.name)
        found[entry.name] = entry
    return found


def names(folder: str) -> tuple[str, ...]:
    """The parts of a folder, sorted, as options name them (`-` for `_`). Imports nothing but the folder itself."""
    return tuple(sorted(_find_plugins(folder)))


def load(folder: str, name: str) -> ModuleType:
    """The module of a part. Raises `Unsupported` for a name that is not there, or one whose guest is not installed."""
    part = _find_plugins(folder).get(name)
    if part is None:
        msg = f"no part of {folder} is called {name!r}; there are {', '.join(names(folder))}"
        raise Unsupported(msg, feature=f"{folder}.{name}")
    try:
        return import_module(part) if isinstance(part, str) else part.load()
    except ModuleNotFoundError as error:
        guest = (error.name or "").partition(".")[0]
        if guest not in EXTRAS:
            raise
        msg = f"{name!r} of {folder} needs {guest}: pip install 'lakekit[{EXTRAS[guest]}]'"
        raise Unsupported(msg, feature=f"{folder}.{name}") from error
