"""Options of object stores: the spellings that users know, converted to one.

    the Java engine's, also s3a., fs.s3a.
        {"s3.endpoint": "http://h:9000", "s3.access-key": "A", "s3.secret-key": "S", "s3.path.style.access": "true"}
    the Python engine's
        {"fs.s3.endpoint": "h:9000", "fs.s3.accessKeyId": "A", "fs.s3.accessKeySecret": "S"}
    obstore's and Polars', used inside
        {"aws_endpoint_url": "http://h:9000", "aws_access_key_id": "A", "aws_secret_access_key": "S"}

Two spellings of one option must agree. Names that no store knows are refused when the store is made. Secrets are stored
so that no output shows them. Options that are not given come from the environment (`environment`): one set of options
for obstore and for Polars. Given credentials stand alone: neither keys nor a token of the environment are combined with
them.

Source: CATALOGS_AND_STORAGE 2.5; `S3FileIO`, `OSSFileIO`, obstore's `S3Config`, `GCSConfig`, `AzureConfig`,
`ClientConfig`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakekit.errors import InvalidOption
from lakekit.options.option import EMPTY, FrozenDict, is_secret
from lakekit.storage import environment
from lakekit.storage.environment import CredentialSource, cached_source
from lakekit.storage.protocol import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_RETRIES = 8
"""How often a request is tried again after 5xx, 429, a timeout or a broken connection, each time after a longer wait.
"""

_JAVA_S3_OPTION = re.compile(r"(?:s3|s3a|fs\.s3a)[.](.+)")
_S3_OPTIONS = {
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
_PYTHON_S3_OPTIONS = {
    "endpoint": "aws_endpoint_url",
    "accessKeyId": "aws_access_key_id",
    "accessKeySecret": "aws_secret_access_key",
    "securityToken": "aws_session_token",
    "region": "aws_region",
}
_OPTION_ALIASES = {
    "aws_endpoint": "aws_endpoint_url",
    "aws_endpoint_url_s3": "aws_endpoint_url",
    "aws_token": "aws_session_token",
    "aws_default_region": "aws_region",
}
_GS_OPTIONS = {
    **dict.fromkeys(
        (
            "fs.gs.auth.service.account.json.keyfile",
            "google_service_account_path",
            "service_account",
            "service_account_path",
        ),
        "google_service_account",
    ),
    "service_account_key": "google_service_account_key",
    "application_credentials": "google_application_credentials",
    **dict.fromkeys(("bearer_token", "token"), "google_bearer_token"),
    "base_url": "google_base_url",
}
_AZURE_KEY = re.compile(r"fs\.azure\.account\.key\.([^.]+)\..+")
_AZURE_OPTIONS = {
    **dict.fromkeys(("account_name", "azure_account_name"), "azure_storage_account_name"),
    **dict.fromkeys(("account_key", "access_key", "azure_storage_access_key"), "azure_storage_account_key"),
    **dict.fromkeys(("sas_key", "sas_token", "azure_storage_sas_token"), "azure_storage_sas_key"),
    **dict.fromkeys(("bearer_token", "token"), "azure_storage_token"),
    **dict.fromkeys(("endpoint", "azure_endpoint"), "azure_storage_endpoint"),
}
_ENDPOINT_OPTION = {"s3": "aws_endpoint_url", "gs": "google_base_url", "azure": "azure_storage_endpoint"}
_CREDENTIAL_OPTIONS = {
    "s3": ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
    "gs": (
        "google_service_account",
        "google_service_account_key",
        "google_application_credentials",
        "google_bearer_token",
    ),
    "azure": (
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "azure_storage_token",
        "azure_storage_client_secret",
    ),
}
"""Options that say who asks: they may change while a table is open, the others may not."""
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
"""Options of the connection, which every kind of store has."""
_TRUE_TEXTS, _FALSE_TEXTS = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


class Secret:
    """A text that prints as three stars; equal to one of the same text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
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
    """The options of a store: `config` is the store's own, `client` the connection's.

    Values are text; those that may be secret are `Secret`. `source` returns credentials if they are not options;
    `variables` are the environment variables that the libraries read themselves, `files` the versions of the credential
    files: stores that differ in them are not the same.
    """

    kind: str
    config: FrozenDict[str, str | Secret]
    client: FrozenDict[str, str | Secret]
    path_style: bool | None = None
    max_retries: int = MAX_RETRIES
    source: CredentialSource | None = None
    variables: FrozenDict[str, Secret] = EMPTY
    files: tuple[environment.FileVersion, ...] = ()
    stands_alone: bool = False
    """Whether the environment has a token that is not for the keys of these options."""
    shadowed_variables: frozenset[str] = frozenset()
    """Variables of the environment that are options here, and that the libraries would put over others."""

    def for_store(self, bucket: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return `config` and `client` of a bucket in plain text, an endpoint by host with the bucket's name."""
        config = {key: _reveal_value(value) for key, value in self.config.items()}
        client = {key: _reveal_value(value) for key, value in self.client.items()}
        endpoint = config.get("aws_endpoint_url")
        if self.path_style is not None:
            config["aws_virtual_hosted_style_request"] = "false" if self.path_style else "true"
        if endpoint is not None and self.path_style is False:
            scheme, _, host = endpoint.partition("://")
            config["aws_endpoint_url"] = endpoint if host.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{host}"
        return config, client

    def s3_provider(self) -> Callable[[], dict[str, Any]]:
        """Return the keys as a function for obstore, so that it adds nothing of the environment."""
        credentials = {
            name.removeprefix("aws_"): _reveal_value(value)
            for name, value in self.config.items()
            if name in _CREDENTIAL_OPTIONS["s3"]
        }
        return lambda: {
            "access_key_id": "",
            "secret_access_key": "",
            "token": credentials.pop("session_token", None),
            **credentials,
            "expires_at": None,
        }

    def polars_provider(self) -> Callable[[], tuple[dict[str, str], int | None]] | None:
        """Return the credential function for Polars; None if options and environment are enough."""
        if self.source is not None:
            function: Callable[[], tuple[dict[str, str], int | None]] = self.source.function
            return function
        if not self.stands_alone:
            return None
        credentials = {
            name: _reveal_value(value) for name, value in self.config.items() if name in _CREDENTIAL_OPTIONS["s3"]
        }
        return lambda: (credentials, None)

    @property
    def by_host(self) -> bool:
        """Return whether the bucket's name is part of the endpoint, which then serves no other bucket."""
        return "aws_endpoint_url" in self.config and self.path_style is False

    @property
    def signs_urls(self) -> bool:
        """Return whether a secret is part of each request's URL, which errors of others would show."""
        return any("sas" in key for key in self.config)

    def without_secrets(self, text: str) -> str:
        """Return a text with the secrets of these options replaced by stars."""
        for value in (*self.config.values(), *self.client.values()):
            if isinstance(value, Secret) and len(value.reveal()) > 3:
                text = text.replace(value.reveal(), "***")
        return text


def read_store_options(scheme: str, user_options: Mapping[str, Any]) -> StoreOptions:
    """Return the current options of a store of that scheme: the user's, completed from the environment.

    Raises as `parse_store_options` does.
    """
    kind = SCHEMES[scheme]
    variables = environment.read_variables(kind)
    files = environment.read_file_versions(kind, variables)
    try:
        return _parse_again(scheme, FrozenDict(user_options), tuple(variables.items()), files)
    except TypeError:  # a value that is no key of a cache: no option either
        return parse_store_options(scheme, user_options, variables, files)


@lru_cache(maxsize=256)
def _parse_again(
    scheme: str,
    user_options: FrozenDict[str, Any],
    variables: tuple[tuple[str, str], ...],
    files: tuple[environment.FileVersion, ...],
) -> StoreOptions:
    """Call `parse_store_options`, cached by all that its result depends on."""
    return parse_store_options(scheme, user_options, dict(variables), files)


def parse_store_options(
    scheme: str,
    user_options: Mapping[str, Any],
    variables: Mapping[str, str] = EMPTY,
    files: tuple[environment.FileVersion, ...] = (),
) -> StoreOptions:
    """Return the options of a store of that scheme.

    `variables` are those of the environment, `files` the versions of the credential files
    (`environment.read_file_versions`).

    Raises:
        InvalidOption: a value is no text, number or boolean, two contradict each other, or an AWS profile does not
            exist.
        Unsupported: fetching the credentials of an AWS profile needs a package that is not installed.
    """
    kind = SCHEMES[scheme]
    options, given_keys = _given_options(kind, user_options)
    function, profile = user_options.get("credential_provider"), options.pop("aws_profile", None)
    source = None if function in (None, "auto") else _credential_source(function)
    own = [name for name in _CREDENTIAL_OPTIONS[kind] if name in options]
    if own and (profile is not None or source is not None):
        other = "aws_profile" if profile is not None else "credential_provider"
        raise InvalidOption(
            f"storage options {given_keys[own[0]]} and {other} both say who asks; give one", key=other, value=None
        )
    named = environment.named_options(kind, variables)
    stands_alone = (
        "aws_session_token" in named and "aws_access_key_id" in options and "aws_session_token" not in options
    )
    profile_name = profile if profile is not None else named.pop("aws_profile", None)
    if own or source is not None or profile is not None:
        named = {
            name: text
            for name, text in named.items()
            if name not in _CREDENTIAL_OPTIONS[kind] or _completes_credentials(name, own)
        }
    if kind == "s3" and source is None:
        source = _add_profile(profile_name, options, named, files, variables, is_given=profile is not None)
    for name, text in named.items():
        options.setdefault(name, text)
        given_keys.setdefault(name, f"{name} of the environment")
    return replace(
        _resolve_defaults(scheme, options, given_keys),
        source=source,
        variables=FrozenDict(
            {name: Secret(text) for name, text in environment.other_variables(kind, variables).items()}
        ),
        files=files,
        stands_alone=stands_alone,
        shadowed_variables=frozenset(variables) & {"AWS_ENDPOINT_URL_S3"},
    )


def credential_names(kind: str) -> tuple[str, ...]:
    """Return the names of the credential options of a kind of store."""
    return _CREDENTIAL_OPTIONS[kind]


def with_credentials(options: StoreOptions, current: StoreOptions) -> StoreOptions:
    """Return the same store with the credentials of `current`.

    Credentials may be renewed while a table is open; the store's address is fixed.
    """
    if current is options and current.source is None:
        return options
    names = _CREDENTIAL_OPTIONS[options.kind]
    config = {name: value for name, value in options.config.items() if name not in names}
    config |= {name: value for name, value in current.config.items() if name in names}
    renewed = replace(
        options,
        config=FrozenDict(config),
        source=current.source,
        variables=current.variables,
        files=current.files,
        stands_alone=current.stands_alone,
        shadowed_variables=current.shadowed_variables,
    )
    if current.source is None:
        return renewed
    credentials = {_internal_name(options.kind, key): text for key, text in current.source.read().items()}
    location_options = {name for name in ("aws_endpoint_url", "aws_region") if name in config}
    return replace(
        renewed,
        config=FrozenDict(
            config
            | {name: _wrap_secret(name, text) for name, text in credentials.items() if name not in location_options}
        ),
    )


def _completes_credentials(name: str, own: list[str]) -> bool:
    """Return whether an option of the environment completes credentials of which a part was given."""
    return (
        name in ("aws_access_key_id", "aws_secret_access_key")
        and bool(own)
        and not set(own) >= {"aws_access_key_id", "aws_secret_access_key"}
    )


def _add_profile(
    name: str | None,
    given_options: Mapping[str, str],
    profile_options: dict[str, str],
    files: tuple[environment.FileVersion, ...],
    variables: Mapping[str, str],
    *,
    is_given: bool,
) -> CredentialSource | None:
    """Add the options of an AWS profile to `profile_options`, and return the source of its credentials.

    Keys of the environment win over a profile named in the environment.
    """
    has_keys = any("aws_access_key_id" in names for names in (given_options, profile_options))
    if (has_keys and not is_given) or not files:
        return None
    if name is None and "AWS_WEB_IDENTITY_TOKEN_FILE" in variables:
        return None
    options, source = environment.profile_options(name, files)
    for option, text in options.items():
        profile_options.setdefault(option, text)
    if source is None and name is None and "aws_access_key_id" not in options:
        return environment.container_source(variables, files)
    return source


def _credential_source(function: Any) -> CredentialSource:
    if not callable(function):
        expected = "a function without arguments, as pl.CredentialProviderAWS(…)"
        raise InvalidOption(
            f"storage option credential_provider is {expected}; found {type(function).__name__}",
            key="credential_provider",
            value=None,
        )
    try:
        return cached_source(function)
    except TypeError:  # no key of a cache
        return CredentialSource(function)


def _given_options(kind: str, user_options: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options under their own names, and the key that each was given by."""
    options: dict[str, str] = {}
    given_keys: dict[str, str] = {}
    for key, value in user_options.items():
        if value is None or key == "credential_provider":
            continue
        name, text = _internal_name(kind, key), _to_text(key, value)
        if name == "path_style":
            text = "true" if _parse_boolean(key, text) else "false"
        text = _normalize_endpoint(key, text) if name == _ENDPOINT_OPTION[kind] else text
        if options.setdefault(name, text) != text:
            raise InvalidOption(
                f"storage options {given_keys[name]} and {key} are the same option, with different values; give one",
                key=key,
                value=None,
            )
        given_keys[name] = key
    return options, given_keys


def _resolve_defaults(scheme: str, options: dict[str, str], given_keys: Mapping[str, str]) -> StoreOptions:
    """Return the options of a store with defaults that depend on other options."""
    kind = SCHEMES[scheme]
    endpoint = options.get(_ENDPOINT_OPTION[kind])
    if endpoint is not None:
        endpoint = options[_ENDPOINT_OPTION[kind]] = _normalize_endpoint(
            given_keys.get(_ENDPOINT_OPTION[kind], "endpoint"), endpoint
        )
    path_style = _parse_boolean(given_keys.get("path_style", ""), options.pop("path_style", None))
    is_address = endpoint is not None and _is_address(endpoint)
    if path_style is None and scheme == "oss" and endpoint is not None:
        path_style = is_address  # OSS refuses the other way; before an IP address no name of a bucket can stand
    if path_style is False and is_address:
        raise InvalidOption(
            f"storage option {given_keys.get('path_style', 'path_style')} asks for the bucket's name before "
            f"{endpoint}, an IP address; give path style",
            key="path_style",
            value="false",
        )
    retries = options.pop("max_retries", str(MAX_RETRIES))
    if not (retries.isascii() and retries.isdecimal() and len(retries) < 4):
        raise InvalidOption(
            f"storage option max_retries is a number from 0 to 999, found {retries[:40]!r}",
            key="max_retries",
            value=retries,
        )
    if (endpoint or "").startswith("http://"):
        options.setdefault("allow_http", "true")
    client = {key: _wrap_secret(key, value) for key, value in options.items() if key in _CLIENT_OPTIONS}
    config = {key: _wrap_secret(key, value) for key, value in options.items() if key not in _CLIENT_OPTIONS}
    return StoreOptions(
        kind=kind, config=FrozenDict(config), client=FrozenDict(client), path_style=path_style, max_retries=int(retries)
    )


def _internal_name(kind: str, key: str) -> str:
    """Return the internal name of an option."""
    low = key.lower()
    if low in _CLIENT_OPTIONS or low == "max_retries":
        return low
    if low in {"aws_allow_http", "google_allow_http", "azure_allow_http"}:
        return "allow_http"
    if kind == "gs":
        return _GS_OPTIONS.get(low, low)
    if kind == "azure":
        return "azure_storage_account_key" if _AZURE_KEY.fullmatch(low) else _AZURE_OPTIONS.get(low, low)
    for prefix in ("fs.s3.", "fs.oss."):
        if key.startswith(prefix):
            return _PYTHON_S3_OPTIONS.get(key.removeprefix(prefix)) or _raise_unknown(
                key, f"{prefix}{{{', '.join(_PYTHON_S3_OPTIONS)}}}"
            )
    java = _JAVA_S3_OPTION.fullmatch(low)
    if java is not None:
        return _S3_OPTIONS.get(java.group(1)) or _raise_unknown(key, f"s3.{{{', '.join(_S3_OPTIONS)}}}")
    low = low if low.startswith("aws_") else f"aws_{low}"
    return _OPTION_ALIASES.get(low, low)


def _raise_unknown(key: str, valid_names: str) -> str:
    raise InvalidOption(f"no storage option is called {key[:100]!a}; there are {valid_names}", key=key, value=None)


def _to_text(key: str, value: Any) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidOption(
        f"storage option {key[:100]!a} is a text, a number or a boolean; found {type(value).__name__}",
        key=key,
        value=None,
    )


def _normalize_endpoint(key: str, text: str) -> str:
    """Return an endpoint with its scheme, or https. Raises `InvalidOption` if it is no URL of a host."""
    url = (text if "://" in text else f"https://{text}").rstrip("/")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or not url.isprintable() or " " in url or parts.scheme not in ("http", "https"):
        raise InvalidOption(
            f"storage option {key} is the URL of a host, https://host or http://host:port", key=key, value=None
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidOption(
            f"storage option {key} is a URL without user, password and query; credentials have options of their own",
            key=key,
            value=None,
        )
    return url


def _is_address(endpoint: str) -> bool:
    """Return whether the host of an endpoint is an IP address, before which nothing can stand."""
    try:
        ipaddress.ip_address(urlsplit(endpoint).hostname or "")
    except ValueError:
        return False
    return True


def _parse_boolean(key: str, text: str | None) -> bool | None:
    if text is None or text.lower() in _TRUE_TEXTS | _FALSE_TEXTS:
        return None if text is None else text.lower() in _TRUE_TEXTS
    raise InvalidOption(f"storage option {key} is true or false, found {text[:40]!r}", key=key, value=text)


def wrap_value(key: str, value: Any) -> Any:
    """Return a user's value, wrapped in `Secret` if it may be secret."""
    return Secret(value) if isinstance(value, str) and is_secret(key) else value


def _wrap_secret(key: str, text: str) -> str | Secret:
    return Secret(text) if is_secret(key) else text


def _reveal_value(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
