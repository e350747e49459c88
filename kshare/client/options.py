"""Generated: options of consumers and administrators, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclasses in net/settings.py and client/config.py: change them there.
"""

import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, Required, TypedDict

from kshare.client.config import Acknowledgement, Acquire
from kshare.client.deserialize import OnPoison
from kshare.client.deserializer_calls import Deserializer, KeyFunctionT, ValueFunctionT
from kshare.engine.events import Observer, OnSettled
from kshare.net.settings import Mechanism, TokenProvider


class ClientOptions(TypedDict, total=False):
    """Options of every client. Durations are seconds.

    Options: client_id, connect_timeout, request_timeout, backoff_min, backoff_max, max_response_bytes, tls, ca_file,
    cert_file, key_file, key_password, check_hostname, sasl_mechanism, username, password, token, kerberos_service_name,
    kerberos_domain_name.
    """

    client_id: str
    """A name for this client, which appears in the brokers' logs, metrics and quotas. Default: "kshare"."""
    connect_timeout: float
    """How many seconds making a connection may take: TCP, TLS, ApiVersions and SASL. Default: 10.0."""
    request_timeout: float
    """How many seconds to wait for the response to a request. Default: 30.0."""
    backoff_min: float
    """The pause after a failed attempt to connect, in seconds. It doubles with each further failure, up to
    `backoff_max`. Default: 0.05."""
    backoff_max: float
    """The longest pause between attempts to connect, in seconds. Default: 1.0."""
    max_response_bytes: int
    """The largest response to accept, in bytes, and the most that a fetch asks for. If a single record batch is larger,
    the consumer raises ConfigError; each attempt to read it uses up a delivery. Default: 256 MiB."""
    tls: bool | ssl.SSLContext
    """Whether to encrypt connections. True trusts the certificate authorities of the system, or those in `ca_file`. You
    may also pass your own SSLContext. Default: False."""
    ca_file: str | Path | None
    """A PEM file with the certificate authorities to trust, in place of the system's."""
    cert_file: str | Path | None
    """A PEM file with the client certificate, for mutual TLS. It may contain the key too."""
    key_file: str | Path | None
    """A PEM file with the private key of the client certificate, if `cert_file` doesn't contain it."""
    key_password: str | None
    """The password of the private key, if it is encrypted."""
    check_hostname: bool
    """Whether the broker's certificate must match the host name that the client connects to. Default: True."""
    sasl_mechanism: Mechanism | None
    """The SASL mechanism to authenticate with. Needs the extra `kshare[sasl]`."""
    username: str | None
    """The user name, for PLAIN and SCRAM."""
    password: str | None
    """The password, for PLAIN and SCRAM."""
    token: TokenProvider | None
    """A function that returns a fresh token, for OAUTHBEARER. It may be async. If it isn't, it runs in a thread and may
    block."""
    kerberos_service_name: str
    """The service name in the broker's Kerberos principal, for GSSAPI. Default: "kafka"."""
    kerberos_domain_name: str | None
    """The host name in the broker's Kerberos principal, for GSSAPI, if it isn't the one that the client connects to."""


class ConsumerOptions(TypedDict, total=False):
    """Options of a share consumer that it doesn't need, without those of every client.

    Options: acknowledgement, acquire, max_records, max_bytes, max_decompressed_bytes, renew_leases, max_lease_seconds,
    on_poison, on_settled, observer, metrics_push, rack, close_timeout.
    """

    acknowledgement: Acknowledgement
    """Who acknowledges. "implicit": a record is accepted when your loop asks for the next one. "explicit": you
    acknowledge each record yourself. Default: "implicit"."""
    acquire: Acquire
    """How brokers acquire records. "batches": whole producer batches, which may be more than the consumer asked for.
    "records": at most as many as it asked for (Kafka 4.2 and later). "auto": batches while your code is fast, records
    while it is slow. Default: "auto"."""
    max_records: int
    """The maximum number of records held at once. The consumer holds fewer if your code processes fewer in a quarter of
    a second. Default: 20_000."""
    max_bytes: int
    """The maximum size of the records held at once, in bytes. No fetch asks for more than what is left of it. A larger
    batch is fetched alone, when nothing else is held. Default: 64 MiB."""
    max_decompressed_bytes: int
    """The largest size of a record batch when it is decompressed, in bytes. Records of a larger batch aren't handed
    out: they stay locked, and an ERROR names them. Default: 128 MiB."""
    renew_leases: bool
    """Whether to renew the acquisition locks of records that your code is still processing (Kafka 4.2 and later).
    Default: True."""
    max_lease_seconds: float
    """How many seconds a record may be kept by renewing its lock. After that, the lock is allowed to expire. Default:
    300.0."""
    on_poison: OnPoison
    """What happens when a deserializer raises. "raise": your loop raises DeserializationFailed, which has the record.
    "reject" and "release": the record is acknowledged that way, and logged. Only "raise" loses nothing if the
    deserializer is at fault. Default: "raise"."""
    on_settled: OnSettled | None
    """A function that is called with each outcome of acknowledgements: confirmed, refused, or open."""
    observer: Observer | None
    """A function that is called with every event, for metrics and tracing. See `kshare.events`."""
    metrics_push: bool
    """Whether to push metrics of this consumer to the brokers, if they ask for them (KIP-714). Default: True."""
    rack: str | None
    """The rack (or availability zone) of this consumer, which brokers may use to assign partitions."""
    close_timeout: float
    """How many seconds closing may take: sending acknowledgements, releasing records, leaving the group. Default:
    10.0."""


class SubscriberOptions(ClientOptions, ConsumerOptions, total=False):
    """Options of a share consumer, but for the deserializers.

    Options: group, topics; and those of ClientOptions, ConsumerOptions.
    """

    group: Required[str]
    """The name of the share group to join."""
    topics: Required[str | Iterable[str]]
    """The topics to subscribe to: one name or several."""


class KeyOptions(SubscriberOptions, Generic[KeyFunctionT]):
    """Options of a consumer that deserializes keys."""

    key_deserializer: KeyFunctionT
    """A function that converts the bytes of a key. It may be async. If it requires a second argument, it gets a
    DeserializerContext too. It isn't called for a null key, which stays None."""


class ValueOptions(SubscriberOptions, Generic[ValueFunctionT]):
    """Options of a consumer that deserializes values."""

    value_deserializer: ValueFunctionT
    """A function that converts the bytes of a value. It may be async. If it requires a second argument, it gets a
    DeserializerContext too. It isn't called for a null value, which stays None."""


class KeyAndValueOptions(
    KeyOptions[KeyFunctionT], ValueOptions[ValueFunctionT], Generic[KeyFunctionT, ValueFunctionT]
):
    """Options of a consumer that deserializes keys and values."""


class BytesOptions(SubscriberOptions, total=False):
    """Options of a consumer that leaves keys and values as bytes."""

    key_deserializer: None
    value_deserializer: None


class AnyOptions(SubscriberOptions, total=False):
    """Options of any consumer.

    Options: key_deserializer, value_deserializer; and those of SubscriberOptions.
    """

    key_deserializer: Deserializer | None
    """A function that converts the bytes of a key. It may be async. If it requires a second argument, it gets a
    DeserializerContext too. It isn't called for a null key, which stays None."""
    value_deserializer: Deserializer | None
    """A function that converts the bytes of a value. It may be async. If it requires a second argument, it gets a
    DeserializerContext too. It isn't called for a null value, which stays None."""
