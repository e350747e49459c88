"""Options of consumers and administrators, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclasses in net/settings.py and client/config.py: change them there.
"""

import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, Required, TypedDict

from kshare.client.config import Acknowledgement, Acquire
from kshare.client.deserialize import KeyT, OnPoison, ValueT
from kshare.engine.events import Observer, OnSettled
from kshare.net.settings import Mechanism, Token


class ClientOptions(TypedDict, total=False):
    """Options of every client. Durations are seconds."""

    client_id: str
    """The name that brokers log, and count quotas by. Default: "kshare"."""
    connect_timeout: float
    """How many seconds connecting may take: TCP, TLS, ApiVersions and SASL. Default: 10.0."""
    request_timeout: float
    """How many seconds to wait for the answer to a request. Default: 30.0."""
    backoff_min: float
    """How many seconds to wait after a failed connection. Doubles with each further failure, up to `backoff_max`.
    Default: 0.05."""
    backoff_max: float
    """The longest pause between attempts to connect, in seconds. Default: 1.0."""
    max_response_bytes: int
    """The largest response that is read, and the most that a fetch asks for. A single record batch that is larger makes
    the consumer raise ConfigError, and uses up a delivery. Default: 256 MiB."""
    tls: bool | ssl.SSLContext
    """Encrypt connections. True trusts the system's certificate authorities, or those in `ca_file`. An SSLContext of
    your own is used as it is. Default: False."""
    ca_file: str | Path | None
    """Certificate authorities to trust (PEM) instead of the system's."""
    cert_file: str | Path | None
    """The client certificate (PEM), if the broker asks for one. May contain the key too."""
    key_file: str | Path | None
    """The key of the client certificate (PEM), if it isn't in `cert_file`."""
    key_password: str | None
    """The password of the key."""
    check_hostname: bool
    """Whether the broker's certificate must be for the host that is connected to. Default: True."""
    sasl_mechanism: Mechanism | None
    """How to log in. Needs the extra `kshare[sasl]`."""
    username: str | None
    """The user, for PLAIN and SCRAM."""
    password: str | None
    """The password, for PLAIN and SCRAM."""
    token: Token | None
    """For OAUTHBEARER: a function, plain or async, that returns a fresh token. A plain one runs in a thread, so it may
    block."""
    kerberos_service_name: str
    """For GSSAPI: the service name in the broker's principal. Default: "kafka"."""
    kerberos_domain_name: str | None
    """For GSSAPI: the host name in the broker's principal, if it isn't the one that is connected to."""


class ConsumerOptions(ClientOptions, total=False):
    """Options of a share consumer."""

    group: Required[str]
    """The share group to join."""
    topics: Required[str | Iterable[str]]
    """The topics to subscribe to: one name or several."""
    acknowledgement: Acknowledgement
    """Whether a loop accepts a record by asking for the next one ("implicit"), or you acknowledge each ("explicit").
    Default: "implicit"."""
    acquire: Acquire
    """What brokers acquire. "batches": whole batches of the producer, which may be more than was asked for. "records":
    at most as many records as were asked for (Kafka 4.2 and later). "auto": batches while your code is fast, records
    while it is slow. Default: "auto"."""
    max_records: int
    """The most records to hold at once. Fewer are held if your code processes fewer in a quarter of a second. Default:
    20_000."""
    max_bytes: int
    """The most bytes of records to hold at once; no fetch asks for more than what is left of it. A larger batch is
    fetched alone, when nothing else is held. Default: 64 MiB."""
    renew_leases: bool
    """Renew the acquisition lock of records that your code is still processing (Kafka 4.2 and later). Default: True."""
    max_lease_seconds: float
    """How long a record may be kept by renewing its lock. After that the lock is left to expire. Default: 300.0."""
    on_poison: OnPoison
    """What happens to a record whose deserializer raises. "raise": your loop gets DeserializationFailed. "reject" and
    "release": the record is acknowledged that way and logged. Only "raise" loses nothing if the deserializer is wrong.
    Default: "raise"."""
    on_settled: OnSettled | None
    """Called with the outcome of acknowledgements, confirmed or refused, when the broker answers."""
    observer: Observer | None
    """Called with every event of `kshare.engine.events`."""
    rack: str | None
    """The rack this consumer is in, for the brokers' assignment."""
    close_timeout: float
    """How many seconds closing may take: sending acknowledgements, releasing records, leaving the group. Default:
    10.0."""


class KeyOptions(ConsumerOptions, Generic[KeyT]):
    """Options of a consumer that deserializes keys."""

    key_deserializer: Callable[[bytes], KeyT]
    """Turns the bytes of a key into an object of yours. A null key stays None."""


class ValueOptions(ConsumerOptions, Generic[ValueT]):
    """Options of a consumer that deserializes values."""

    value_deserializer: Callable[[bytes], ValueT]
    """Turns the bytes of a value into an object of yours. A null value stays None."""


class KeyAndValueOptions(KeyOptions[KeyT], ValueOptions[ValueT], Generic[KeyT, ValueT]):
    """Options of a consumer that deserializes keys and values."""


class BytesOptions(ConsumerOptions, total=False):
    """Options of a consumer that leaves keys and values as bytes."""

    key_deserializer: None
    value_deserializer: None


class AnyOptions(ConsumerOptions, total=False):
    """Options of any consumer."""

    key_deserializer: Callable[[bytes], Any] | None
    """Turns the bytes of a key into an object of yours. A null key stays None."""
    value_deserializer: Callable[[bytes], Any] | None
    """Turns the bytes of a value into an object of yours. A null value stays None."""
