"""What a user may say to a consumer: one typed, checked place, with Kafka's own names understood where they are pasted.

Decides what is allowed and what is left out means. Every refusal says what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast

from kshare.client.deserialize import Deserializer, OnPoison
from kshare.client.kafka_names import understand
from kshare.client.observer import Observer, OnSettled
from kshare.errors import ConfigError
from kshare.net.settings import NetSettings, Security

Acknowledgement = Literal["implicit", "explicit"]
Acquire = Literal["auto", "batches", "records"]

MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Durations are seconds. `make` builds it from what users write."""

    bootstrap_servers: str
    """host:port, several parted by commas."""
    group: str
    topics: tuple[str, ...] = ()
    acknowledgement: Acknowledgement = "implicit"
    """implicit: accepted when the loop comes back for the next. explicit: nothing is settled without your word."""
    acquire: Acquire = "auto"
    """batches: whole batches of the producer's, so a few more than were asked for. records: exactly so many (from Kafka
    4.2 on). auto: batches where your code is quick, records where it is slow."""
    max_records: int = 20_000
    """The most records to hold at once. Fewer are, if your code gets through fewer in a quarter of a second."""
    max_bytes: int = MOST_BYTES
    """The most bytes of records to hold at once; no fetch asks for more than is left of it. A batch that is larger
    comes alone, when nothing else is held."""
    renew_leases: bool = True
    """Keep the lock of records that your code still works on (brokers from Kafka 4.2 on)."""
    longest_lease: float = 300.0
    """How long a record may be kept by renewing before it is given up."""
    key_deserializer: Deserializer | None = None
    """A function of bytes; a key that there isn't stays None."""
    value_deserializer: Deserializer | None = None
    on_poison: OnPoison = "raise"
    """When a deserializer raises. raise: DeserializationFailed to your loop. reject, release: settled so, and logged.

    To raise is the default since it alone loses nothing when it is the deserializer that is wrong: the others would
    run through a whole topic before anybody looks.
    """
    on_settled: OnSettled | None = None
    """Called with the outcome of acknowledgements, confirmed or refused, when the broker's word comes."""
    observer: Observer | None = None
    """Called with every event: see kshare.client.observer."""
    client_id: str = "kshare"
    rack: str | None = None
    request_timeout: float = 30.0
    close_timeout: float = 10.0
    connection: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """TLS, SASL and the pace of connecting. Users give these one by one, like all others: see kshare.net.settings."""

    @classmethod
    def make(
        cls, bootstrap_servers: str | Iterable[str] | None, options: Mapping[str, Any]
    ) -> ConsumerConfig:
        """Understands Kafka's dotted names; refuses unknown ones and suggests the nearest."""
        values: dict[str, Any] = {}
        if bootstrap_servers is not None:
            values["bootstrap_servers"] = bootstrap_servers
        for name, value in options.items():
            for known, turned in understand(name, value, options, OPTIONS).items():
                if known in values:
                    raise ConfigError(f"{name}: {known} is given twice")
                values[known] = turned
        missing = [name for name in _EXAMPLES if not values.get(name)]
        if missing:
            raise ConfigError(f"{missing[0]} is missing: write {_EXAMPLES[missing[0]]}")
        if not isinstance(values["bootstrap_servers"], str):
            values["bootstrap_servers"] = ",".join(values["bootstrap_servers"])
        values["topics"] = topic_names(values["topics"])
        connection = {name: values.pop(name) for name in CONNECTION_OPTIONS if name in values}
        config = cls(**values, connection=connection)
        config._check()
        return config

    def net_settings(self) -> NetSettings:
        """What `net` is told; refuses what makes no sense together."""
        return NetSettings.parse(
            self.bootstrap_servers,
            client_id=self.client_id,
            request_timeout=self.request_timeout,
            **self.connection,
        )

    def _check(self) -> None:
        for name in ("bootstrap_servers", "group", "client_id"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                raise ConfigError(f"{name} must be a non-empty string, not {getattr(self, name)!r}")
        for name in ("group", "client_id"):
            size = len(getattr(self, name).encode())
            if size > _LONGEST_STRING:
                raise ConfigError(
                    f"{name} has {size:,} bytes, and Kafka's protocol allows {_LONGEST_STRING:,} in a string"
                )
        for name, allowed in (
            ("acknowledgement", ("implicit", "explicit")),
            ("acquire", ("auto", "batches", "records")),
            ("on_poison", ("raise", "reject", "release")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"{name} must be {' or '.join(map(repr, allowed))}, not {getattr(self, name)!r}"
                )
        if not _is_number(self.max_records) or not 1 <= self.max_records <= 1_000_000:
            raise ConfigError(f"max_records must be between 1 and 1000000, not {self.max_records!r}")
        if type(self.max_bytes) is not int or not 1 <= self.max_bytes < 2**63:
            raise ConfigError(f"max_bytes must be a number of bytes above 0, not {self.max_bytes!r}")
        for name in ("longest_lease", "request_timeout", "close_timeout"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value <= 86_400:
                raise ConfigError(
                    f"{name} must be a number of seconds above 0 (at most a day), not {value!r}"
                )
        for name in ("key_deserializer", "value_deserializer", "on_settled", "observer"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"{name} must be a function, not {getattr(self, name)!r}")
        if not isinstance(self.renew_leases, bool):
            raise ConfigError(f"renew_leases must be True or False, not {self.renew_leases!r}")


_LONGEST_STRING = 2**15 - 1
_EXAMPLES = {
    "bootstrap_servers": '"localhost:9092"',
    "group": 'group="orders"',
    "topics": 'topics=["orders"]',
}
CONNECTION_OPTIONS = (
    *(one.name for one in fields(Security)),
    "connect_timeout",
    "backoff_min",
    "backoff_max",
    "max_response_bytes",
)
"""What is about the connection alone; an AdminClient takes these too."""
OPTIONS = (*(one.name for one in fields(ConsumerConfig) if one.name != "connection"), *CONNECTION_OPTIONS)
"""Whatever may be given, Kafka's names aside."""


def topic_names(value: object) -> tuple[str, ...]:
    """One name, or several; none twice."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence | set | frozenset) or not all(
        isinstance(one, str) and one for one in value
    ):
        raise ConfigError(f"topics must be a list of topic names, not {value!r}")
    return tuple(dict.fromkeys(cast("Sequence[str]", value)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
