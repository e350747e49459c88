"""A consumer's options: their types, defaults and checks. Kafka's own option names are understood, too.

Every error message says what to write instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from kshare.callbacks import require_plain
from kshare.client.deserialize import OnPoison
from kshare.client.deserializer_calls import Deserializer, DeserializerCall, RecordPart
from kshare.client.given_options import given_options
from kshare.client.kafka_names import parse_option
from kshare.engine.events import Observer, OnSettled
from kshare.engine.settings import MemberSettings
from kshare.errors import ConfigError
from kshare.net.addresses import joined
from kshare.net.settings import CLIENT_OPTIONS, NetSettings
from kshare.options.checks import require_choice, require_flag, require_seconds
from kshare.options.mistakes import Mistakes
from kshare.protocol.compression import DECOMPRESSED_LIMIT
from kshare.protocol.topic_names import require_topic_name

Acknowledgement = Literal["implicit", "explicit"]
Acquire = Literal["auto", "batches", "records"]

DEFAULT_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """A consumer's options, checked and complete. Durations are in seconds. `make` builds it from what users pass.

    Names, types, defaults and docstrings here are those of the public options: `python -m tools.options` writes
    `client/options.py` and the table in docs/consumer.md from them.
    """

    bootstrap_servers: str
    """The brokers to connect to first: "host:port", several separated by commas, or a list."""
    group: str
    """The name of the share group to join."""
    topics: tuple[str, ...] = field(metadata={"given as": "str | Iterable[str]"})
    """The topics to subscribe to: one name or several."""
    acknowledgement: Acknowledgement = "implicit"
    """Who acknowledges. "implicit": a record is accepted when your loop asks for the next one. "explicit": you
    acknowledge each record yourself."""
    acquire: Acquire = "auto"
    """How brokers acquire records. "batches": whole producer batches, which may be more than the consumer asked for.
    "records": at most as many as it asked for (Kafka 4.2 and later). "auto": batches while your code is fast, records
    while it is slow."""
    max_records: int = 20_000
    """The maximum number of records held at once. The consumer holds fewer if your code processes fewer in a quarter of
    a second."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """The maximum size of the records held at once, in bytes. No fetch asks for more than what is left of it. A larger
    batch is fetched alone, when nothing else is held."""
    max_decompressed_bytes: int = DECOMPRESSED_LIMIT
    """The largest size of a record batch when it is decompressed, in bytes. Records of a larger batch aren't handed
    out: they stay locked, and an ERROR names them."""
    renew_leases: bool = True
    """Whether to renew the acquisition locks of records that your code is still processing (Kafka 4.2 and later)."""
    max_lease_seconds: float = 300.0
    """How many seconds a record may be kept by renewing its lock. After that, the lock is allowed to expire."""
    key_deserializer: Deserializer | None = None
    """A function that converts the bytes of a key. It may be async. If it requires a second argument, it gets a
    DeserializerContext too. It isn't called for a null key, which stays None."""
    value_deserializer: Deserializer | None = None
    """A function that converts the bytes of a value. It may be async. If it requires a second argument, it gets a
    DeserializerContext too. It isn't called for a null value, which stays None."""
    on_poison: OnPoison = "raise"
    """What happens when a deserializer raises. "raise": your loop raises DeserializationFailed, which has the record.
    "reject" and "release": the record is acknowledged that way, and logged. Only "raise" loses nothing if the
    deserializer is at fault."""
    on_settled: OnSettled | None = None
    """A function that is called with each outcome of acknowledgements: confirmed, refused, or open."""
    observer: Observer | None = None
    """A function that is called with every event, for metrics and tracing. See `kshare.events`."""
    client_id: str = "kshare"
    metrics_push: bool = True
    """Whether to push metrics of this consumer to the brokers, if they ask for them (KIP-714)."""
    rack: str | None = None
    """The rack (or availability zone) of this consumer, which brokers may use to assign partitions."""
    request_timeout: float = 30.0
    close_timeout: float = 10.0
    """How many seconds closing may take: sending acknowledgements, releasing records, leaving the group."""
    connection: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options about TLS, SASL and connecting. Users pass these one by one, like all others: see kshare.net.settings."""

    @classmethod
    def make(
        cls,
        bootstrap_servers: str | Iterable[str] | None,
        options: Mapping[str, Any],
        attempted: Collection[str] = (),
    ) -> ConsumerConfig:
        """Build a configuration from the user's options, in our names or Kafka's.

        Raises ConfigError with all mistakes, including those about connecting. Options that the user has attempted to
        give elsewhere aren't missing.
        """
        mistakes = Mistakes()
        values, meant = given_options(
            "ShareConsumer",
            bootstrap_servers,
            options,
            lambda name, value: parse_option(name, value, options, OPTIONS),
            OPTIONS,
            mistakes,
        )
        attempted = meant.union(attempted)
        missing = [name for name in _EXAMPLES if not values.get(name)]
        mistakes.add(
            *(f"{name} is missing: write {_EXAMPLES[name]}" for name in missing if name not in attempted)
        )
        usable: dict[str, Any] = dict(_ANY)
        with mistakes:
            usable["bootstrap_servers"] = joined(values.pop("bootstrap_servers", None) or _ANY_SERVER)
        with mistakes:
            usable["topics"] = topic_names(values.pop("topics", None) or _ANY_TOPIC)
        values = usable | {name: value for name, value in values.items() if name not in missing}
        connection = {name: values.pop(name) for name in CONNECTION_OPTIONS if name in values}
        config = cls(**values, connection=connection)
        config._check(mistakes)
        with mistakes:
            config.net_settings(attempted)
        mistakes.raise_all()
        return config

    @property
    def is_implicit(self) -> bool:
        return self.acknowledgement == "implicit"

    def net_settings(self, attempted: Collection[str] = ()) -> NetSettings:
        """The settings for connections. Raises ConfigError if options contradict each other."""
        options = {"request_timeout": self.request_timeout, **self.connection}
        if isinstance(self.client_id, str):  # otherwise it has been found already
            options["client_id"] = self.client_id
        return NetSettings.parse_given(self.bootstrap_servers, options, attempted)

    def member_settings(self) -> MemberSettings:
        """The settings for the engine."""
        return MemberSettings(
            net=self.net_settings(),
            group=self.group,
            topics=self.topics,
            rack=self.rack,
            acquire=self.acquire,
            close_timeout=self.close_timeout,
        )

    def _check(self, mistakes: Mistakes) -> None:
        for name in ("bootstrap_servers", "group", "client_id"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                mistakes.add(f"{name} must be a non-empty string, not {getattr(self, name)!r}")
            elif (
                name != "bootstrap_servers" and (size := len(getattr(self, name).encode())) > _LONGEST_STRING
            ):
                mistakes.add(
                    f"{name} has {size:,} bytes, and Kafka's protocol allows {_LONGEST_STRING:,} in a string"
                )
        for name, allowed in (
            ("acknowledgement", ("implicit", "explicit")),
            ("acquire", ("auto", "batches", "records")),
            ("on_poison", ("raise", "reject", "release")),
        ):
            with mistakes:
                require_choice(name, getattr(self, name), allowed)
        with mistakes:
            check_max_records(self.max_records)
        for name in ("max_bytes", "max_decompressed_bytes"):
            size = getattr(self, name)
            if type(size) is not int or not 1 <= size < 2**63:
                mistakes.add(f"{name} must be a number of bytes above 0, not {size!r}")
        for name in ("max_lease_seconds", "request_timeout", "close_timeout"):
            with mistakes:
                require_seconds(name, getattr(self, name))
        for part in get_args(RecordPart):
            function = getattr(self, f"{part}_deserializer")
            if function is not None and not callable(function):
                mistakes.add(f"{part}_deserializer must be a function, not {function!r}")
            elif function is not None:
                with mistakes:
                    DeserializerCall.of(function, part)
        if self.on_settled is not None:
            with mistakes:
                require_plain("on_settled", self.on_settled, "one argument, the outcome")
        if self.observer is not None:
            with mistakes:
                require_plain("observer", self.observer, "one argument, the event")
        for name in ("renew_leases", "metrics_push"):
            with mistakes:
                require_flag(name, getattr(self, name))
        if self.rack is not None and not isinstance(self.rack, str):
            mistakes.add(f"rack must be a string, not {self.rack!r}")


_LONGEST_STRING = 2**15 - 1
_EXAMPLES = {
    "bootstrap_servers": '"localhost:9092"',
    "group": 'group="orders"',
    "topics": 'topics=["orders"]',
}
_ANY_SERVER, _ANY_TOPIC = "localhost:9092", "-"
_ANY = {"bootstrap_servers": _ANY_SERVER, "group": "-", "topics": (_ANY_TOPIC,)}
"""In place of what is missing or wrong, to check everything else."""
_OWN = tuple(option.name for option in fields(ConsumerConfig) if option.name != "connection")
CONNECTION_OPTIONS = tuple(name for name in CLIENT_OPTIONS if name not in _OWN)
"""Options that are passed on to `net` unchanged."""
OPTIONS = (*_OWN, *CONNECTION_OPTIONS)
"""All options of a consumer, without Kafka's names for them."""


def topic_names(value: object) -> tuple[str, ...]:
    """The topics of a subscription, given as one name or several, without duplicates."""
    if isinstance(value, str):
        value = [value]
    names: list[Any] = list(value) if isinstance(value, Iterable) else [None]
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"topics must be a list of topic names, not {value!r}")
    for name in names:
        require_topic_name("topics:", name)  # a group may subscribe to any name, and would wait for ever
    return tuple(dict.fromkeys(names))


def check_max_records(value: object) -> None:
    if type(value) is not int:
        raise ConfigError(f"max_records must be an integer, not {value!r}")
    if not 1 <= value <= 1_000_000:
        raise ConfigError(f"max_records must be between 1 and 1000000, not {value!r}")
