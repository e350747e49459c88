"""Settings of `net`: broker addresses, security, timeouts. Validated when created.

Doesn't know Kafka's dotted option names. Files are read when connecting, not here.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

from kshare.errors import ConfigError
from kshare.net.addresses import Address, parse_addresses
from kshare.protocol.frames import MAX_FRAME

TokenProvider: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = get_args(Mechanism)
NEEDS_EXTRA = "SASL needs kafka-python 3.0: pip install 'kshare[sasl]' (in a clone: '.[sasl]')"

_LONGEST_S = 86_400.0
_SMALLEST_LIMIT = 64 * 1024
LARGEST_LIMIT = 2**31 - 1
"""Of `max_response_bytes`: the size of a frame is an int32."""
_FILES = ("ca_file", "cert_file", "key_file", "key_password")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS and SASL settings. Secrets don't appear in the repr."""

    tls: bool | ssl.SSLContext = False
    """Whether to encrypt connections. True trusts the certificate authorities of the system, or those in `ca_file`. You
    may also pass your own SSLContext."""
    ca_file: str | Path | None = None
    """A PEM file with the certificate authorities to trust, in place of the system's."""
    cert_file: str | Path | None = None
    """A PEM file with the client certificate, for mutual TLS. It may contain the key too."""
    key_file: str | Path | None = None
    """A PEM file with the private key of the client certificate, if `cert_file` doesn't contain it."""
    key_password: str | None = field(default=None, repr=False)
    """The password of the private key, if it is encrypted."""
    check_hostname: bool = True
    """Whether the broker's certificate must match the host name that the client connects to."""
    sasl_mechanism: Mechanism | None = None
    """The SASL mechanism to authenticate with. Needs the extra `kshare[sasl]`."""
    username: str | None = None
    """The user name, for PLAIN and SCRAM."""
    password: str | None = field(default=None, repr=False)
    """The password, for PLAIN and SCRAM."""
    token: TokenProvider | None = field(default=None, repr=False)
    """A function that returns a fresh token, for OAUTHBEARER. It may be async. If it isn't, it runs in a thread and may
    block."""
    kerberos_service_name: str = "kafka"
    """The service name in the broker's Kerberos principal, for GSSAPI."""
    kerberos_domain_name: str | None = None
    """The host name in the broker's Kerberos principal, for GSSAPI, if it isn't the one that the client connects to."""

    def __post_init__(self) -> None:
        self._check_tls()
        self._check_sasl()

    def _check_tls(self) -> None:
        if not isinstance(self.tls, bool | ssl.SSLContext):
            raise ConfigError(f"tls must be True, False or an ssl.SSLContext, not {type(self.tls).__name__}")
        if not isinstance(self.check_hostname, bool):
            raise ConfigError(f"check_hostname must be True or False, not {self.check_hostname!r}")
        given = [name for name in _FILES if getattr(self, name) is not None]
        given += [] if self.check_hostname else ["check_hostname=False"]
        if given and self.tls is False:
            raise ConfigError(f"{given[0]} has no effect without TLS: add tls=True")
        if given and isinstance(self.tls, ssl.SSLContext):
            raise ConfigError(
                f"{given[0]} can't be combined with a context of your own: set it in the context"
            )
        for name in ("key_file", "key_password"):
            if getattr(self, name) is not None and self.cert_file is None:
                raise ConfigError(f"{name} needs cert_file")

    def _check_sasl(self) -> None:
        mechanism = self.sasl_mechanism
        if mechanism is None:
            for name in ("username", "password", "token"):
                if getattr(self, name) is not None:
                    raise ConfigError(
                        f"{name} is given without sasl_mechanism: add one of {', '.join(MECHANISMS)}"
                    )
            return
        if mechanism not in MECHANISMS:
            near = get_close_matches(str(mechanism).upper(), MECHANISMS, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(MECHANISMS)}"
            raise ConfigError(f"sasl_mechanism {mechanism!r} is unknown: {hint}")
        self._check_kerberos()
        if find_spec("kafka") is None:
            raise ConfigError(NEEDS_EXTRA)
        if mechanism in PASSWORD_MECHANISMS:
            self._check_password(mechanism)
        elif mechanism == "OAUTHBEARER" and not callable(self.token):
            raise ConfigError(
                "OAUTHBEARER needs token: a function, plain or async, that returns a fresh token"
            )
        elif mechanism == "GSSAPI" and not self.kerberos_service_name:
            raise ConfigError('GSSAPI needs kerberos_service_name, most often "kafka"')
        if mechanism != "OAUTHBEARER" and self.token is not None:
            raise ConfigError(
                f'token is for OAUTHBEARER, not for {mechanism}: write sasl_mechanism="OAUTHBEARER"'
            )

    def _check_kerberos(self) -> None:
        for name in ("kerberos_service_name", "kerberos_domain_name"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ConfigError(f"{name} must be a string, not {value!r}")

    def _check_password(self, mechanism: str) -> None:
        for name in ("username", "password"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ConfigError(f"{mechanism} needs {name}, a non-empty string")
            if "\0" in value:
                raise ConfigError(f"{name} contains a NUL character, which {mechanism} can't transmit")
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise ConfigError(f"{name} contains a surrogate, which can't be encoded as UTF-8")

    def secrets(self) -> tuple[str, ...]:
        """What must not appear in errors or logs."""
        return tuple(secret for secret in (self.password, self.key_password) if secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetSettings:
    """Durations are in seconds."""

    bootstrap: tuple[Address, ...]
    client_id: str = "kshare"
    """A name for this client, which appears in the brokers' logs, metrics and quotas."""
    security: Security = field(default_factory=Security)
    connect_timeout: float = 10.0
    """How many seconds making a connection may take: TCP, TLS, ApiVersions and SASL."""
    request_timeout: float = 30.0
    """How many seconds to wait for the response to a request."""
    backoff_min: float = 0.05
    """The pause after a failed attempt to connect, in seconds. It doubles with each further failure, up to
    `backoff_max`."""
    backoff_max: float = 1.0
    """The longest pause between attempts to connect, in seconds."""
    max_response_bytes: int = MAX_FRAME
    """The largest response to accept, in bytes, and the most that a fetch asks for. If a single record batch is larger,
    the consumer raises ConfigError; each attempt to read it uses up a delivery."""

    @classmethod
    def parse(cls, bootstrap: str | Iterable[str], **options: Any) -> Self:
        """Creates settings from one flat set of options: those of this class and those of `Security`."""
        for name in options:
            if name not in CLIENT_OPTIONS:
                near = get_close_matches(name, CLIENT_OPTIONS, 1)
                raise ConfigError(
                    f"there is no option {name!r}" + (f"; did you mean {near[0]}?" if near else "")
                )
        security = Security(**{name: value for name, value in options.items() if name in _SECURITY})
        rest = {name: value for name, value in options.items() if name not in _SECURITY}
        return cls(bootstrap=parse_addresses(bootstrap), security=security, **rest)

    def __post_init__(self) -> None:
        if not self.bootstrap:
            parse_addresses("")
        if not isinstance(self.client_id, str):
            raise ConfigError(f"client_id must be a string, not {self.client_id!r}")
        for name in ("connect_timeout", "request_timeout", "backoff_min", "backoff_max"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value <= _LONGEST_S:
                raise ConfigError(
                    f"{name} must be a positive number of seconds, at most 86,400, not {value!r}"
                )
        if self.backoff_max < self.backoff_min:
            raise ConfigError(
                f"backoff_max ({self.backoff_max}) must not be below backoff_min ({self.backoff_min})"
            )
        limit = self.max_response_bytes
        is_whole = isinstance(limit, int) and not isinstance(limit, bool)
        if not is_whole or not _SMALLEST_LIMIT <= limit <= LARGEST_LIMIT:
            raise ConfigError(
                f"max_response_bytes must be from {_SMALLEST_LIMIT} to {LARGEST_LIMIT}, not {limit!r}"
            )


_SECURITY = tuple(one.name for one in fields(Security))
CLIENT_OPTIONS = (
    *(one.name for one in fields(NetSettings) if one.name not in ("bootstrap", "security")),
    *_SECURITY,
)
"""The options of every client."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
