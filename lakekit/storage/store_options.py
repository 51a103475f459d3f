"""Options of object stores: the spellings that users know, brought to one.

    {"s3.endpoint": "http://h:9000", "s3.access-key": "A", "s3.secret-key": "S", "s3.path.style.access": "true"}      the Java engine's, also s3a., fs.s3a.
    {"fs.s3.endpoint": "h:9000", "fs.s3.accessKeyId": "A", "fs.s3.accessKeySecret": "S"}                            the Python engine's
    {"aws_endpoint_url": "http://h:9000", "aws_access_key_id": "A", "aws_secret_access_key": "S"}                   obstore's and Polars', kept inside

Two spellings of one option must agree. Names that no store knows are refused when the store is made. Secrets are held so that nothing shows them.

Source: CATALOGS_AND_STORAGE 2.5; `S3FileIO`, `OSSFileIO`, obstore's `S3Config`, `GCSConfig`, `AzureConfig`, `ClientConfig`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.errors import InvalidOption
from lakekit.options.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "oss": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "azure",
    "azure": "azure",
    "adl": "azure",
    "abfs": "azure",
    "abfss": "azure",
}
"""Scheme of a URL -> the protocol of its store. OSS is spoken to by its S3-compatible endpoint."""
SPELLED = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Schemes that are another name of one."""
MAX_RETRIES = 8
"""How often a request is tried again after 5xx, 429, a timeout or a broken connection, each time after a longer wait."""

_JAVA = re.compile(r"(?:s3|s3a|fs\.s3a)[.](.+)")
_S3 = {
    "endpoint": "aws_endpoint_url",
    "access-key": "aws_access_key_id",
    "access.key": "aws_access_key_id",
    "secret-key": "aws_secret_access_key",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "session-token": "aws_session_token",
    "endpoint.region": "aws_region",
    "region": "aws_region",
    "path.style.access": "path_style",
    "path-style-access": "path_style",
}
_PYTHON = {
    "endpoint": "aws_endpoint_url",
    "accessKeyId": "aws_access_key_id",
    "accessKeySecret": "aws_secret_access_key",
    "securityToken": "aws_session_token",
    "region": "aws_region",
}
_SAME = {"aws_endpoint": "aws_endpoint_url", "aws_token": "aws_session_token", "aws_default_region": "aws_region"}
_GS = {"fs.gs.auth.service.account.json.keyfile": "google_service_account"}
_AZURE_KEY = re.compile(r"fs\.azure\.account\.key\.([^.]+)\..+")
_CLIENT = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
"""Options of the connection, which every kind of store has."""
_SECRET = re.compile(r"key|secret|token|sas|password|credential|proxy_url", re.IGNORECASE)
_TRUE, _FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


class Secret:
    """A text that shows itself as three stars, wherever it is printed; equal to one of the same text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self._text,)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """What a store is opened with: `config` is the store's own, `client` the connection's. Values are text; those that may be secret are `Secret`."""

    kind: str
    config: Frozen[str, str | Secret]
    client: Frozen[str, str | Secret]
    path_style: bool | None = None
    max_retries: int = MAX_RETRIES

    def for_store(self, bucket: str) -> tuple[dict[str, str], dict[str, str]]:
        """Plain text of `config` and `client` for a bucket: there its name may be part of the endpoint."""
        config = {key: _plain(value) for key, value in self.config.items()}
        client = {key: _plain(value) for key, value in self.client.items()}
        endpoint = config.get("aws_endpoint_url")
        if self.path_style is not None:
            config["aws_virtual_hosted_style_request"] = "false" if self.path_style else "true"
        if endpoint is not None and self.path_style is False:
            scheme, _, host = endpoint.partition("://")
            config["aws_endpoint_url"] = endpoint if host.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{host}"
        return config, client

    @property
    def by_host(self) -> bool:
        """Whether the bucket's name is part of the endpoint, so that what opens one bucket opens no other."""
        return "aws_endpoint_url" in self.config and self.path_style is False

    @property
    def signs_urls(self) -> bool:
        """Whether a secret is part of each request's URL, which errors of others would show."""
        return any("sas" in key for key in self.config)

    def without_secrets(self, text: str) -> str:
        """A text in which no secret of these options stands."""
        for value in (*self.config.values(), *self.client.values()):
            if isinstance(value, Secret) and len(value.reveal()) > 3:
                text = text.replace(value.reveal(), "***")
        return text


def parse(scheme: str, given: Mapping[str, Any]) -> StoreOptions:
    """The options of a store of that scheme. Raises `InvalidOption` for values that are no text, number or boolean, and for two that contradict each other."""
    kind = SCHEMES[scheme]
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for key, value in given.items():
        if value is None:
            continue
        name, text = _name(kind, key), _text(key, value)
        text = _endpoint(text) if name == "aws_endpoint_url" else text
        if found.setdefault(name, text) != text:
            raise InvalidOption(f"storage options {spelled[name]} and {key} are the same option, with different values; give one", key=key, value=None)
        spelled[name] = key
    path_style = _boolean(spelled.get("path_style", ""), found.pop("path_style", None))
    if path_style is None and scheme == "oss" and "aws_endpoint_url" in found:
        path_style = False  # OSS refuses the other way
    retries = found.pop("max_retries", str(MAX_RETRIES))
    if not (retries.isascii() and retries.isdecimal() and len(retries) < 4):
        raise InvalidOption(f"storage option max_retries is a number from 0 to 999, found {retries[:40]!r}", key="max_retries", value=retries)
    if found.get("aws_endpoint_url", "").startswith("http://"):
        found.setdefault("allow_http", "true")
    client = {key: _held(key, value) for key, value in found.items() if key in _CLIENT}
    config = {key: _held(key, value) for key, value in found.items() if key not in _CLIENT}
    return StoreOptions(kind=kind, config=Frozen(config), client=Frozen(client), path_style=path_style, max_retries=int(retries))


def _name(kind: str, key: str) -> str:
    """What an option is called inside."""
    low = key.lower()
    if low in _CLIENT or low == "max_retries":
        return low
    if low in {"aws_allow_http", "google_allow_http", "azure_allow_http"}:
        return "allow_http"
    if kind == "gs":
        return _GS.get(low, low)
    if kind == "azure":
        return "azure_storage_account_key" if _AZURE_KEY.fullmatch(low) else low
    for prefix in ("fs.s3.", "fs.oss."):
        if key.startswith(prefix):
            return _PYTHON.get(key.removeprefix(prefix)) or _unknown(key, f"{prefix}{{{', '.join(_PYTHON)}}}")
    java = _JAVA.fullmatch(low)
    if java is not None:
        return _S3.get(java.group(1)) or _unknown(key, f"s3.{{{', '.join(_S3)}}}")
    low = low if low.startswith("aws_") else f"aws_{low}"
    return _SAME.get(low, low)


def _unknown(key: str, known: str) -> str:
    raise InvalidOption(f"no storage option is called {key[:100]!a}; there are {known}", key=key, value=None)


def _text(key: str, value: Any) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidOption(f"storage option {key[:100]!a} is a text, a number or a boolean; found {type(value).__name__}", key=key, value=None)


def _endpoint(text: str) -> str:
    """An endpoint with its scheme: one without is spoken to in TLS."""
    return (text if "://" in text else f"https://{text}").rstrip("/")


def _boolean(key: str, text: str | None) -> bool | None:
    if text is None or text.lower() in _TRUE | _FALSE:
        return None if text is None else text.lower() in _TRUE
    raise InvalidOption(f"storage option {key} is true or false, found {text[:40]!r}", key=key, value=text)


def _held(key: str, text: str) -> str | Secret:
    return Secret(text) if _SECRET.search(key) else text


def _plain(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
