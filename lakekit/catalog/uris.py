"""Addresses of databases: as URIs, and as Java writes them, after `jdbc:`.

    sqlite:///catalog.db      postgresql://user@host:5432/db      mysql://host/db

    address("jdbc:postgresql://db.example/lake?user=me", {"password": "…"})
        ->   JdbcAddress(dialect="postgresql", host="db.example", database="lake", …)
    redact_uri("mysql://me:secret@host/db")             ->   "mysql://me:******@host/db"
    redact_uri("jdbc:oracle:thin:me/secret@host")       ->   "jdbc:oracle:******@host"
    redact_uri("secret")                                ->   "******"

One database serves both engines, so both spellings name it. Source: ENGINE.md 9.3; the drivers' own URLs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from lakekit.errors import InvalidOption
from lakekit.options.frozendict import EMPTY, FrozenDict
from lakekit.options.secrets import HIDDEN, NAME_PATTERN
from lakekit.storage.local import absolute_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

_KINDS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
}
_FORMS = "sqlite:///file, postgresql://host:port/db, mysql://host:port/db, or the same after jdbc: as Java writes it"
_SECRET = re.compile(rf"([?&;(,][^=&;?#(,]*(?:{NAME_PATTERN})[^=&;?#(,]*=)[^&]*", re.IGNORECASE)
_SCHEMES = (*_KINDS, "thrift", "oracle", "sqlserver", "db2", "h2", "derby", "hive2", "http", "https", "file")
_URI = re.compile(rf"\s*(?:jdbc:)?(?:{'|'.join(_SCHEMES)}):", re.IGNORECASE)
"""How what is an uri begins; anything else may be a secret at the wrong place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcAddress:
    """The address of a database.

    `database` is a file's path for sqlite; `parameters` are all other arguments of the driver.
    """

    dialect: str
    database: str
    host: str = "localhost"
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    parameters: Mapping[str, str] = field(default=EMPTY, repr=False)


def address(uri: str, driver: Mapping[str, str]) -> JdbcAddress:
    """Return the address of a database, by its uri and the options of its driver.

    The uri wins over the options.

    Raises: `InvalidOption` for a uri that names none.
    """
    text = uri.strip()
    kind, colon, tail = text.removeprefix("jdbc:").partition(":")
    dialect = _KINDS.get(kind.lower())
    if dialect is None or not colon:
        raise InvalidOption(
            f"{redact_uri(uri)!r} is no uri of a database that lakekit knows; there are {_FORMS}", key="uri", value=None
        )
    if dialect == "sqlite":
        return JdbcAddress(
            dialect=dialect, database=_file(uri, tail, is_java=text.startswith("jdbc:")), parameters=FrozenDict(driver)
        )
    parts = _split(f"{dialect}:{tail}")
    if parts is None:  # outside of the block that found out: its error quotes what stands behind the colon
        raise InvalidOption(f"{redact_uri(uri)!r} cannot be read as an uri; there are {_FORMS}", key="uri", value=None)
    host, port, user, password = parts.hostname, parts.port, parts.username, parts.password
    database = unquote(parts.path.strip("/"))
    if not database or "/" in database or not tail.startswith("//"):
        raise InvalidOption(f"{redact_uri(uri)!r} names no database; there are {_FORMS}", key="uri", value=None)
    parameters = {**driver, **dict(parse_qsl(parts.query, keep_blank_values=True))}
    user, secret = (
        parameters.pop(name, None) if part is None else unquote(part)
        for name, part in (("user", user), ("password", password))
    )
    remaining = {key: value for key, value in parameters.items() if key not in ("user", "password")}
    return JdbcAddress(
        dialect=dialect,
        database=database,
        host=host or "localhost",
        port=port,
        user=user,
        password=secret,
        parameters=FrozenDict(remaining),
    )


def _split(uri: str) -> SplitResult | None:
    """Return the parts of a uri; None where it has none, or its port is no number."""
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _file(uri: str, tail: str, *, is_java: bool) -> str:
    """Return the path in `jdbc:sqlite:FILE`, `jdbc:sqlite:file:FILE` or `sqlite:///FILE`.

    A fourth slash begins an absolute path.
    """
    name = tail.partition("?")[0]
    if not is_java:
        if not name.startswith("///"):
            raise InvalidOption(
                f"{redact_uri(uri)!r} names no file: sqlite:///catalog.db, or sqlite:////data/catalog.db from the root",
                key="uri",
                value=None,
            )
        name = unquote(name[3:])
    name = name.removeprefix("file:")
    if name in ("", ":memory:"):
        raise InvalidOption(
            f"{redact_uri(uri)!r} is a database in memory, which nobody else could open; give a file",
            key="uri",
            value=None,
        )
    return absolute_path(name)


def redact_uri(uri: str) -> str:
    """Return the uri without its secrets.

    A password, whatever characters are in it, ends at the last @; a parameter's value at the next &. A text that does
    not begin as a uri does is hidden as a whole: it may be a secret itself.
    """
    match = _URI.match(uri)
    if match is None:
        return HIDDEN if uri else uri
    head, slashes, tail = uri.partition("//")
    user, at, host = tail.rpartition("@")
    if slashes and at and ":" in user:
        uri = f"{head}//{user.partition(':')[0]}:{HIDDEN}@{host}"
    elif head[match.end() :].rpartition("@")[0] not in ("", "thin:", "oci:"):
        uri = f"{match[0]}{HIDDEN}@{uri.rpartition('@')[2]}"
    return _SECRET.sub(rf"\g<1>{HIDDEN}", uri)
