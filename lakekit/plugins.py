"""Plugins: each module of a folder is one plugin, named after its file.

    names("file_index")                  ("bitmap", "bloom-filter", "bsi", "range-bitmap")
    load("file_index", "bloom-filter")   lakekit/file_index/bloom_filter.py

`names` lists them without importing any; `load` imports one. Modules of a folder that are no plugins are listed in its
`NOT_PLUGINS`. Other distributions add plugins by entry points: the group is the folder, `lakekit.file_index`, the
entry's name is the plugin's. Two plugins of one name are an error. A plugin whose dependency is not installed is
refused with the extra that brings it.

`late` is for packages whose modules are no plugins, and are loaded when they are first used:

    __getattr__ = late(__name__, ("views", "operations"), {"connect": "connection"})
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lakekit.errors import ExtraMissing, InvalidOption, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

EXTRA_OF_DEPENDENCY = {
    "ipywidgets": "notebook",
    "PIL": "notebook",
    "duckdb": "sql",
    "datasketches": "sketches",
    "hypothesis": "conformance",
    "obstore": "cloud",
    "psycopg": "postgresql",
    "pymysql": "mysql",
    "thrift": "hive",
    "pyspark": "spark",
}
"""The extra of lakekit that installs a dependency, by the module that the dependency is imported as."""
_CLOSED_FOLDERS = frozenset({"notebook", "sql"})
"""Folders whose modules are loaded by name, and to which no other distribution adds any."""


@cache
def _find_plugins(folder: str) -> dict[str, str | EntryPoint]:
    package = "lakekit." + folder.replace("/", ".")
    package_module = import_module(package)
    not_plugins: frozenset[str] = getattr(package_module, "NOT_PLUGINS", frozenset())
    own_names = [
        module.name
        for module in iter_modules(package_module.__path__)
        if module.name not in not_plugins and not module.name.startswith("_")
    ]
    plugins: dict[str, str | EntryPoint] = {name.replace("_", "-"): f"{package}.{name}" for name in own_names}
    for entry in () if folder in _CLOSED_FOLDERS else entry_points(group=package):
        if entry.name in plugins:
            other = plugins[entry.name]
            msg = (
                f"two plugins of {folder} are called {entry.name!r}: "
                f"{other if isinstance(other, str) else other.value} "
                f"and {entry.value}; uninstall one"
            )
            raise InvalidOption(msg, key=folder, value=entry.name)
        plugins[entry.name] = entry
    return plugins


def names(folder: str) -> tuple[str, ...]:
    """Return the plugins of a folder, sorted, as options name them (`-` for `_`), without importing them."""
    return tuple(sorted(_find_plugins(folder)))


def load(folder: str, name: str) -> ModuleType:
    """Return the module of a plugin.

    Raises `Unsupported` for an unknown name, `ExtraMissing` for a plugin whose dependency is not installed.
    """
    plugin = _find_plugins(folder).get(name)
    if plugin is None:
        msg = f"no plugin of {folder} is called {name!r}; there are {', '.join(names(folder))}"
        raise Unsupported(msg, feature=f"{folder}.{name}")
    try:
        return import_module(plugin) if isinstance(plugin, str) else plugin.load()
    except ModuleNotFoundError as error:
        dependency = (error.name or "").partition(".")[0]
        if dependency not in EXTRA_OF_DEPENDENCY:
            raise
        extra = EXTRA_OF_DEPENDENCY[dependency]
        msg = f"{name!r} of {folder} needs {dependency}: pip install 'lakekit[{extra}]'"
        raise ExtraMissing(msg, feature=f"{folder}.{name}", extra=extra) from error


def late(package: str, modules: Sequence[str], homes: Mapping[str, str] = MappingProxyType({})) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which loads its modules when they are first used.

    `homes`: names of the package, and the modules that they are in.
    """

    def load_attribute(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load_attribute
