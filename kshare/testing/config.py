"""Validates the embedded broker's options: every error names the option and the allowed values.

Kafka's own broker settings are checked where they are applied, by `kshare.broker.configs`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from kshare.broker.clock import Clock
from kshare.broker.cluster import MAX_NEW_PARTITIONS
from kshare.broker.profiles import DEFAULT_RELEASE, RELEASES, Release
from kshare.errors import ConfigError
from kshare.protocol.topic_names import is_topic_name, what_to_use
from kshare.wording import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The options of `kshare.testing.Broker`. `make` builds it from what users pass."""

    topics: Mapping[str, int] | None = None
    """Topics to create, with the number of partitions of each: {"orders": 3}."""
    nodes: int = 1
    """The number of brokers in the cluster."""
    release: Release = DEFAULT_RELEASE
    """The Kafka release to emulate."""
    settings: Mapping[str, str] | None = None
    """Broker settings, by the names that Kafka uses in server.properties: {"group.share.max.size": "5"}."""
    min_lock_ms: int | None = None
    """The shortest acquisition lock that a group may configure: 1,000 ms by default, 15,000 in Kafka. Overrides
    `settings`."""
    auto_create_topics: bool | None = None
    """Whether a topic is created when a client first asks for it: yes by default, as in Kafka. Overrides `settings`."""
    clock: Clock | None = None
    """A `ManualClock`, for tests that control the time. By default, the system clock."""
    data_dir: str | Path | None = None
    """A folder to store all data in. A broker that is started with the same folder continues where the last one
    stopped."""
    users: Mapping[str, str] | None = None
    """User names and passwords. If there are any, clients must authenticate with SASL PLAIN or SCRAM."""
    tls: ssl.SSLContext | None = None
    """A server-side SSLContext. If given, clients must use TLS."""

    @classmethod
    def make(cls, options: Mapping[str, Any]) -> Self:
        """Raises ConfigError for an unknown option, and suggests the closest name."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                hint = suggestion(name, names) or f"the options are {', '.join(names)}"
                raise ConfigError(f"there is no option {name!r}; {hint}")
        return cls(**options)

    def __post_init__(self) -> None:
        for name, kind, wanted in (
            ("topics", int, 'topic names to numbers of partitions, such as {"orders": 1}'),
            ("settings", str, 'names to strings, such as {"num.partitions": "3"}'),
            ("users", str, 'names to passwords, such as {"alice": "secret"}'),
        ):
            if (given := getattr(self, name)) is not None:
                check_map(name, given, kind, wanted)
        for topic, partitions in (self.topics or {}).items():
            if not is_topic_name(topic):
                raise ConfigError(f"topics: {topic!r} is not a valid topic name: {what_to_use(topic)}")
            if partitions < 1:
                raise ConfigError(f"topics: {topic!r} must have 1 partition or more, not {partitions}")
            if partitions > MAX_NEW_PARTITIONS:
                raise ConfigError(
                    f"topics: {topic!r} may have at most {MAX_NEW_PARTITIONS} partitions, not {partitions}"
                )
        if self.release not in RELEASES:
            raise ConfigError(f"release must be {_any_of(RELEASES)}, not {self.release!r}")
        for name in ("nodes", "min_lock_ms"):
            number = getattr(self, name)
            if not (number is None and name == "min_lock_ms") and (type(number) is not int or number < 1):
                raise ConfigError(f"{name} must be a whole number above 0, not {number!r}")
        for name, kinds, wanted in (
            ("auto_create_topics", bool, "True or False"),
            ("clock", Clock, "a clock, such as kshare.testing.ManualClock()"),
            ("data_dir", str | Path, "the path of a folder"),
            ("tls", ssl.SSLContext, "an ssl.SSLContext"),
        ):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kinds):
                raise ConfigError(f"{name} must be {wanted}, not {value!r}")
        if self.tls is not None and self.tls.protocol is ssl.PROTOCOL_TLS_CLIENT:
            raise ConfigError(
                "tls is a context for clients; make one for servers: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), then "
                "load_cert_chain"
            )


def check_map(name: str, given: object, kind: type, wanted: str) -> None:
    """Raise ConfigError unless it maps strings to this type."""
    if not isinstance(given, Mapping) or not all(
        isinstance(key, str) and type(value) is kind for key, value in given.items()
    ):
        raise ConfigError(f"{name} must map {wanted}, not {_shown(name, given)}")


def _shown(name: str, given: object) -> str:
    """Errors never contain passwords."""
    return type(given).__name__ if name == "users" else repr(given)


def _any_of(choices: tuple[str, ...]) -> str:
    return " or ".join(map(repr, choices))
