"""Settings of `net`: broker addresses, security, timeouts. Validated when created.

Doesn't know Kafka's dotted option names. Files are read when connecting, not here.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

from kshare.net.addresses import Address, parse_addresses
from kshare.options.checks import require_flag, require_seconds
from kshare.options.mistakes import Mistakes
from kshare.options.unknown import no_option
from kshare.protocol.frames import MAX_FRAME
from kshare.wording import nearest_name

TokenProvider: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = get_args(Mechanism)
NEEDS_EXTRA = "SASL needs kafka-python 3.0: pip install 'kshare[sasl]' (in a clone: '.[sasl]')"

_SMALLEST_LIMIT = 64 * 1024
LARGEST_LIMIT = 2**31 - 1
"""Of `max_response_bytes`: the size of a frame is an int32."""
_ANY_ADDRESS: tuple[Address, ...] = (("localhost", 9092),)
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

    attempted: InitVar[Collection[str]] = ()
    """Options that the user has tried to give, with a mistake that is reported elsewhere. They aren't missing."""

    def __post_init__(self, attempted: Collection[str]) -> None:
        """Raises ConfigError with all mistakes."""
        mistakes = Mistakes()
        if not isinstance(self.tls, bool | ssl.SSLContext):
            mistakes.add(f"tls must be True, False or an ssl.SSLContext, not {type(self.tls).__name__}")
        else:
            self._check_files(mistakes, attempted)
        with mistakes:
            require_flag("check_hostname", self.check_hostname)
        if self.sasl_mechanism is None:
            self._check_no_sasl(mistakes, attempted)
        else:
            self._check_sasl(mistakes, self.sasl_mechanism, attempted)
        mistakes.raise_all()

    def _check_files(self, mistakes: Mistakes, attempted: Collection[str]) -> None:
        given = [name for name in _FILES if getattr(self, name) is not None]
        given += ["check_hostname=False"] if self.check_hostname is False else []
        if given and self.tls is False and "tls" not in attempted:
            mistakes.add(f"{given[0]} has no effect without TLS: add tls=True")
        if given and isinstance(self.tls, ssl.SSLContext):
            mistakes.add(f"{given[0]} can't be combined with a context of your own: set it in the context")
        lonely = [name for name in ("key_file", "key_password") if name in given and self.cert_file is None]
        if lonely and isinstance(self.tls, bool) and "cert_file" not in attempted:
            mistakes.add(f"{lonely[0]} needs cert_file")

    def _check_no_sasl(self, mistakes: Mistakes, attempted: Collection[str]) -> None:
        given = [name for name in ("username", "password", "token") if getattr(self, name) is not None]
        if given and "sasl_mechanism" not in attempted:
            mistakes.add(f"{given[0]} is given without sasl_mechanism: add one of {', '.join(MECHANISMS)}")

    def _check_sasl(self, mistakes: Mistakes, mechanism: str, attempted: Collection[str]) -> None:
        if mechanism not in MECHANISMS:
            near = nearest_name(str(mechanism).upper(), MECHANISMS, 0.5)
            hint = f"did you mean {near!r}?" if near else f"choose one of {', '.join(MECHANISMS)}"
            mistakes.add(f"sasl_mechanism {mechanism!r} is unknown: {hint}")
        for name in ("kerberos_service_name", "kerberos_domain_name"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                mistakes.add(f"{name} must be a string, not {value!r}")
        if mechanism not in MECHANISMS:
            return
        if find_spec("kafka") is None:
            mistakes.add(NEEDS_EXTRA)
        if mechanism in PASSWORD_MECHANISMS:
            for name in ("username", "password"):
                if name not in attempted:
                    _check_text(mistakes, mechanism, name, getattr(self, name))
        elif mechanism == "OAUTHBEARER" and not callable(self.token) and "token" not in attempted:
            mistakes.add("OAUTHBEARER needs token: a function, plain or async, that returns a fresh token")
        elif mechanism == "GSSAPI" and not self.kerberos_service_name:
            mistakes.add('GSSAPI needs kerberos_service_name, most often "kafka"')
        if mechanism != "OAUTHBEARER" and self.token is not None:
            mistakes.add(f'token is for OAUTHBEARER, not for {mechanism}: write sasl_mechanism="OAUTHBEARER"')

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

    attempted: InitVar[Collection[str]] = ()
    """As in `Security`."""

    @classmethod
    def parse(cls, bootstrap: str | Iterable[str], **options: Any) -> Self:
        """Creates settings from one flat set of options: those of this class and those of `Security`."""
        return cls.parse_given(bootstrap, options)

    @classmethod
    def parse_given(
        cls, bootstrap: str | Iterable[str], options: Mapping[str, Any], attempted: Collection[str] = ()
    ) -> Self:
        """The same; the user has tried to give others, too. Raises ConfigError with all mistakes."""
        mistakes = Mistakes()
        unknown = [name for name in options if name not in CLIENT_OPTIONS]
        mistakes.add(*(no_option(name, CLIENT_OPTIONS) for name in unknown))
        attempted = {*attempted, *(nearest_name(name, CLIENT_OPTIONS) for name in unknown)}
        known = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
        security, addresses = Security(), _ANY_ADDRESS
        with mistakes:
            ours = {name: value for name, value in known.items() if name in SECURITY_OPTIONS}
            security = Security(**ours, attempted=attempted)
        with mistakes:
            addresses = parse_addresses(bootstrap)
        with mistakes:
            rest = {name: value for name, value in known.items() if name not in SECURITY_OPTIONS}
            made = cls(bootstrap=addresses, security=security, **rest, attempted=attempted)
        mistakes.raise_all()
        return made

    def __post_init__(self, attempted: Collection[str]) -> None:
        """Raises ConfigError with all mistakes."""
        mistakes = Mistakes()
        if not self.bootstrap:
            with mistakes:
                parse_addresses("")
        if not isinstance(self.client_id, str):
            mistakes.add(f"client_id must be a string, not {self.client_id!r}")
        right = set()
        for name in ("connect_timeout", "request_timeout", "backoff_min", "backoff_max"):
            with mistakes:
                require_seconds(name, getattr(self, name))
                right.add(name)
        if {"backoff_min", "backoff_max"} <= right.difference(attempted) and (
            self.backoff_max < self.backoff_min
        ):
            mistakes.add(
                f"backoff_max ({self.backoff_max}) must not be below backoff_min ({self.backoff_min})"
            )
        limit = self.max_response_bytes
        is_whole = isinstance(limit, int) and not isinstance(limit, bool)
        if not is_whole or not _SMALLEST_LIMIT <= limit <= LARGEST_LIMIT:
            mistakes.add(
                f"max_response_bytes must be from {_SMALLEST_LIMIT} to {LARGEST_LIMIT}, not {limit!r}"
            )
        mistakes.raise_all()


SECURITY_OPTIONS = tuple(option.name for option in fields(Security))
CLIENT_OPTIONS = (
    *(option.name for option in fields(NetSettings) if option.name not in ("bootstrap", "security")),
    *SECURITY_OPTIONS,
)
"""The options of every client."""


def _check_text(mistakes: Mistakes, mechanism: str, name: str, value: object) -> None:
    """Of a user name or a password, which no message contains."""
    if not isinstance(value, str) or not value:
        mistakes.add(f"{mechanism} needs {name}, a non-empty string")
        return
    if "\0" in value:
        mistakes.add(f"{name} contains a NUL character, which {mechanism} can't transmit")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        mistakes.add(f"{name} contains a surrogate, which can't be encoded as UTF-8")
