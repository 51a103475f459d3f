"""Options of object stores from environment variables, AWS profiles and renewing functions.

    AWS_ENDPOINT_URL_S3=http://h:9000      ->   aws_endpoint_url
    AWS_PROFILE=lake                       ->   [lake] of ~/.aws/credentials and [profile lake] of ~/.aws/config
    storage_options={"credential_provider": function}, as in Polars:
        pl.CredentialProviderAWS(profile_name="lake")                                 asks boto3
        lambda: ({"aws_access_key_id": …, "aws_secret_access_key": …}, 1735689600)    options; expiry in s since 1970,
                                                                                      or None

Names are those of `object_store_options`. obstore and Polars read the environment too, each in its own way, once, when
a store is made. Here it is read for both, at each request, so both get one set of options and renewed credentials are
used. Variables without an entry here reach both libraries by themselves; they are part of a store's identity.

Source: `AmazonS3Builder::from_env`, `GoogleCloudStorageBuilder::from_env`, `MicrosoftAzureBuilder::from_env`; AWS SDKs
and Tools guide.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from lakekit.errors import ExtraMissing, InvalidOption, StorageFailed
from lakekit.runtime import new_lock, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable


_EARLY_SECONDS, _KEPT_SECONDS = 60, 60
"""How long before they expire credentials are asked for again; how long those are kept that never expire."""


@dataclass(slots=True)
class _CachedCredentials:
    """The last result of a function, valid `valid_until` (seconds since 1970)."""

    options: dict[str, str] | None = None
    valid_until: float = 0.0
    guard: Any = field(default_factory=new_lock)


@dataclass(frozen=True, slots=True)
class CredentialSource:
    """A function that returns credentials; equal if the function is.

    Its result is cached until shortly before it expires.
    """

    function: Callable[[], Any] = field(repr=False)
    _cached: _CachedCredentials = field(default_factory=_CachedCredentials, compare=False, repr=False)

    def read(self) -> dict[str, str]:
        """Return the current options of the function.

        Raises:
            InvalidOption: the result is not a mapping of texts with a time.
            StorageFailed: the function raises.
        """
        cached = self._cached
        with cached.guard:
            now_s = now_ms() / 1000
            if cached.options is None or now_s >= cached.valid_until:
                options, expiry = self._call_function()
                cached.options = options
                cached.valid_until = (
                    now_s + _KEPT_SECONDS if expiry is None else max(expiry - _EARLY_SECONDS, now_s + 1)
                )
            return cached.options

    def _call_function(self) -> tuple[dict[str, str], float | None]:
        failure: str | None = None
        try:
            answer = self.function()
        except Exception as wrong:  # noqa: BLE001 - whatever a function of the user raises
            failure = f"{type(wrong).__name__}: {str(wrong)[:300]}"
        if failure is not None:  # outside of the block: what hangs on the error may hold a credential
            raise StorageFailed(f"the credential_provider of the storage options fails: {failure}", path=None)
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Mapping)):
            raise _wrong_answer()
        options, expiry = answer
        if not all(isinstance(key, str) and isinstance(text, str) for key, text in options.items()):
            raise _wrong_answer()
        if not (expiry is None or isinstance(expiry, (int, float))):
            raise _wrong_answer()
        return dict(options), expiry

    def __reduce__(self) -> tuple[type[CredentialSource], tuple[Any]]:
        return CredentialSource, (self.function,)


@lru_cache(maxsize=64)
def cached_source(function: Callable[[], Any]) -> CredentialSource:
    """Return the source of a function, one for all stores that use it."""
    return CredentialSource(function)


def _wrong_answer() -> InvalidOption:
    return InvalidOption(
        "the credential_provider of the storage options answers with a tuple: a dict of options, as "
        '{"aws_access_key_id": …}, and the second since 1970 when they expire, or None',
        key="credential_provider",
        value=None,
    )


# ---- environment ------------------------------------------------------------


_VARIABLE_PREFIXES = {"s3": ("AWS_",), "gs": ("GOOGLE_", "SERVICE_ACCOUNT"), "azure": ("AZURE_", "IDENTITY_", "MSI_")}
_CONNECTION_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of the connection, which may be written in small letters too."""
_OPTION_OF_VARIABLE = {
    "s3": {
        "AWS_ACCESS_KEY_ID": "aws_access_key_id",
        "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
        "AWS_SECURITY_TOKEN": "aws_session_token",
        "AWS_SESSION_TOKEN": "aws_session_token",
        "AWS_TOKEN": "aws_session_token",
        "AWS_REGION": "aws_region",
        "AWS_DEFAULT_REGION": "aws_region",
        "AWS_ENDPOINT_URL_S3": "aws_endpoint_url",
        "AWS_ENDPOINT_URL": "aws_endpoint_url",
        "AWS_ENDPOINT": "aws_endpoint_url",
        "AWS_ALLOW_HTTP": "allow_http",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "aws_virtual_hosted_style_request",
        "AWS_SKIP_SIGNATURE": "aws_skip_signature",
        "AWS_DEFAULT_PROFILE": "aws_profile",
        "AWS_PROFILE": "aws_profile",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "aws_metadata_endpoint",
    },
    "gs": {
        "GOOGLE_SERVICE_ACCOUNT": "google_service_account",
        "GOOGLE_SERVICE_ACCOUNT_PATH": "google_service_account",
        "SERVICE_ACCOUNT": "google_service_account",
        "GOOGLE_SERVICE_ACCOUNT_KEY": "google_service_account_key",
        "GOOGLE_SKIP_SIGNATURE": "google_skip_signature",
        "GOOGLE_BASE_URL": "google_base_url",
        "GOOGLE_ALLOW_HTTP": "allow_http",
    },
    "azure": {
        "AZURE_STORAGE_ACCOUNT_NAME": "azure_storage_account_name",
        "AZURE_STORAGE_ACCOUNT_KEY": "azure_storage_account_key",
        "AZURE_STORAGE_SAS_KEY": "azure_storage_sas_key",
        "AZURE_STORAGE_SAS_TOKEN": "azure_storage_sas_key",
        "AZURE_STORAGE_TOKEN": "azure_storage_token",
        "AZURE_STORAGE_ENDPOINT": "azure_storage_endpoint",
        "AZURE_ENDPOINT": "azure_storage_endpoint",
        "AZURE_ALLOW_HTTP": "allow_http",
    },
}
"""Variable -> option; of two for one option the first counts."""
_CREDENTIAL_FILE_VARIABLES = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "SERVICE_ACCOUNT",
)
"""Variables that name a file with credentials, which a store reads once."""
_KEY_OPTIONS = ("aws_access_key_id", "aws_secret_access_key")
_PROFILE_OPTIONS = {"region": "aws_region", "endpoint_url": "aws_endpoint_url"}
_NEEDS_SDK = (
    "sso_session",
    "sso_start_url",
    "sso_account_id",
    "role_arn",
    "credential_process",
    "credential_source",
    "login_session",
)
"""Settings of a profile whose credentials something else must fetch."""
_CONTAINER_VARIABLES, _CONTAINER_TOKEN = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
"""Where a container gets credentials; obstore and Polars take the address only beside a file with a token."""
_RENEWED_SECONDS = 540
"""How long credentials that boto3 renews count."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file's current version: another version is another credential.

    `modified_ns` is None if it is missing.
    """

    path: str
    modified_ns: int | None
    size_bytes: int


def read_variables(kind: str) -> dict[str, str]:
    """Return the variables that a store of that kind depends on, without empty ones."""
    prefixes = _VARIABLE_PREFIXES[kind]
    return {
        name: text
        for name, text in os.environ.items()
        if text and (name.startswith(prefixes) or name.upper() in _CONNECTION_VARIABLES)
    }


def read_file_versions(kind: str, variables: Mapping[str, str]) -> tuple[FileVersion, ...]:
    """Return the current versions of the credential files that `variables` name or that the store reads."""
    if kind == "gs":
        return tuple(_file_version(variables[name]) for name in _CREDENTIAL_FILE_VARIABLES if name in variables)
    return profile_files(variables) if kind == "s3" else ()


def named_options(kind: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the options given by variables, under the names of `object_store_options`."""
    options: dict[str, str] = {}
    for variable, name in _OPTION_OF_VARIABLE[kind].items():
        text = variables.get(variable)
        if text is not None:
            options.setdefault(name, text)
    return options


def other_variables(kind: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are not options here, and that the libraries read themselves."""
    return {name: text for name, text in variables.items() if name not in _OPTION_OF_VARIABLE[kind]}


# ---- profiles of AWS -------------------------------------------------------------------------------------------------


def profile_files(variables: Mapping[str, str]) -> tuple[FileVersion, ...]:
    """Return the versions of the two AWS profile files: settings, credentials."""
    settings = variables.get("AWS_CONFIG_FILE") or "~/.aws/config"
    credentials = variables.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    return _file_version(settings), _file_version(credentials)


def profile_options(name: str | None, files: tuple[FileVersion, ...]) -> tuple[dict[str, str], CredentialSource | None]:
    """Return the options of an AWS profile, and its credential source if the files hold no credentials.

    `name` None: the profile "default", which may be missing.

    Raises:
        InvalidOption: no file has that profile, or a file cannot be read.
        Unsupported: boto3 must fetch its credentials, and is not installed.
    """
    profiles = _read_profiles(files)
    paths_text = " and ".join(file.path for file in files)
    if isinstance(profiles, str):
        if name is None:
            return {}, None
        raise InvalidOption(
            f"the AWS profile {name!a} cannot be looked up in {paths_text}: {profiles}", key="aws_profile", value=name
        )
    settings = profiles.get(name or "default")
    if settings is None:
        if name is None:
            return {}, None
        profile_names = ", ".join(sorted(profiles)) or "none"
        raise InvalidOption(
            f"no AWS profile {name!a} in {paths_text}; there are {profile_names}", key="aws_profile", value=name
        )
    options = {option: settings[key] for key, option in _PROFILE_OPTIONS.items() if settings.get(key)}
    needs = next((key for key in _NEEDS_SDK if settings.get(key)), None)
    if needs is None and all(settings.get(key) for key in _KEY_OPTIONS):
        token = settings.get("aws_session_token") or settings.get("aws_security_token")
        credentials = {**options, **{key: settings[key] for key in _KEY_OPTIONS}}
        return (credentials | {"aws_session_token": token} if token else credentials), None
    if needs is None and name is None:
        return options, None
    if importlib.util.find_spec("boto3") is None:
        if name is None:
            return options, None
        reason = f"the credentials of the AWS profile {name!a} come by {needs or 'the default chain of AWS'}"
        raise ExtraMissing(f"{reason}, which boto3 fetches: pip install boto3", feature="storage.object")
    return options, _profile_source(name, files)


def container_source(variables: Mapping[str, str], files: tuple[FileVersion, ...]) -> CredentialSource | None:
    """Return the source of a container's credentials if only boto3 accepts their address.

    Else None, as without boto3.
    """
    if (
        _CONTAINER_VARIABLES not in variables
        or _CONTAINER_TOKEN in variables
        or importlib.util.find_spec("boto3") is None
    ):
        return None
    return _profile_source(None, files)


@lru_cache(maxsize=16)
def _profile_source(name: str | None, files: tuple[FileVersion, ...]) -> CredentialSource:  # noqa: ARG001 - other files, another source
    session = importlib.import_module("boto3").Session(profile_name=name)
    return CredentialSource(partial(_ask_sdk, session, name))


def _ask_sdk(session: Any, name: str | None) -> tuple[dict[str, str], int | None]:
    """Return the credentials of a boto3 session, which renews them ten minutes or more before expiry."""
    credentials = session.get_credentials()
    if credentials is None:
        raise StorageFailed(f"boto3 finds no credentials for the AWS profile {name!a}", path=None)
    frozen = credentials.get_frozen_credentials()
    options = {"aws_access_key_id": frozen.access_key, "aws_secret_access_key": frozen.secret_key}
    if frozen.token is None:
        return options, None
    return options | {"aws_session_token": frozen.token}, now_ms() // 1000 + _RENEWED_SECONDS


@lru_cache(maxsize=16)
def _read_profiles(files: tuple[FileVersion, ...]) -> dict[str, dict[str, str]] | str:
    """Return the profiles of both files by name, the second winning; a text if a file cannot be read."""
    profiles: dict[str, dict[str, str]] = {}
    for number, file in enumerate(files):
        if file.modified_ns is None:
            continue
        parser = configparser.RawConfigParser(strict=False, default_section="", allow_no_value=True)
        try:
            parser.read(file.path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError) as wrong:
            return f"{file.path} is no file of profiles ({type(wrong).__name__})"
        for section in parser.sections():
            kind, _, name = section.partition(" ")
            if number == 0 and kind == "profile":
                section_name = name.strip().strip("\"'")
            elif number == 0 and section != "default":
                continue
            else:
                section_name = section
            profiles.setdefault(section_name, {}).update(
                {key: text.strip() for key, text in parser.items(section) if text}
            )
    return profiles


def _file_version(path: str) -> FileVersion:
    expanded = os.path.expanduser(path)  # noqa: PTH111 - a file of the user, no place of a table
    try:
        stat = os.stat(expanded)  # noqa: PTH116 - as above
    except OSError:
        return FileVersion(expanded, None, 0)
    return FileVersion(expanded, stat.st_mtime_ns, stat.st_size)
