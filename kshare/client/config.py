"""What a user may say to a consumer: one typed, checked place, with Kafka's own names understood where they are pasted.

Decides what is allowed and what is left out means. Every refusal says what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal, cast

from kshare.errors import ConfigError

Acknowledgement = Literal["implicit", "explicit"]
Acquire = Literal["batches", "records"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Durations are seconds. `make` builds it from what users write."""

    bootstrap_servers: str
    """host:port, several parted by commas."""
    group: str
    topics: tuple[str, ...] = ()
    acknowledgement: Acknowledgement = "implicit"
    """implicit: accepted when the loop comes back for the next. explicit: nothing is settled without your word."""
    acquire: Acquire = "batches"
    """batches: whole batches, for speed. records: never more than max_records at once, for slow handlers."""
    max_records: int = 2000
    """The most records to hold at once."""
    renew_leases: bool = True
    """Keep the lock of records that your code still works on (brokers from Kafka 4.2 on)."""
    longest_lease: float = 300.0
    """How long a record may be kept by renewing before it is given up."""
    client_id: str = "kshare"
    rack: str | None = None
    request_timeout: float = 30.0
    close_timeout: float = 10.0
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For the connection: see kshare.net.settings."""

    @classmethod
    def make(cls, bootstrap_servers: str, options: Mapping[str, Any]) -> ConsumerConfig:
        """Understands Kafka's dotted names; refuses unknown ones and suggests the nearest."""
        values: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
        for name, value in options.items():
            known, converted = _translate(name, value)
            if known in values:
                raise ConfigError(f"{name}: {known} is given twice")
            values[known] = converted
        missing = [name for name in ("group", "topics") if not values.get(name)]
        if missing:
            raise ConfigError(f"{missing[0]} is missing: write {_EXAMPLES[missing[0]]}")
        values["topics"] = _topics(values["topics"])
        config = cls(**values)
        config._check()
        return config

    def _check(self) -> None:
        for name in ("bootstrap_servers", "group", "client_id"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ConfigError(f"{name} must be a non-empty string, not {getattr(self, name)!r}")
        for name, allowed in (
            ("acknowledgement", ("implicit", "explicit")),
            ("acquire", ("batches", "records")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"{name} must be {' or '.join(map(repr, allowed))}, not {getattr(self, name)!r}"
                )
        if not _is_number(self.max_records) or not 1 <= self.max_records <= 1_000_000:
            raise ConfigError(f"max_records must be between 1 and 1000000, not {self.max_records!r}")
        for name in ("longest_lease", "request_timeout", "close_timeout"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value <= 86_400:
                raise ConfigError(
                    f"{name} must be a number of seconds above 0 (at most a day), not {value!r}"
                )
        if not isinstance(self.renew_leases, bool):
            raise ConfigError(f"renew_leases must be True or False, not {self.renew_leases!r}")


_EXAMPLES = {"group": 'group="orders"', "topics": 'topics=["orders"]'}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _topics(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence | set | frozenset) or not all(
        isinstance(one, str) and one for one in value
    ):
        raise ConfigError(f"topics must be a list of topic names, not {value!r}")
    return tuple(dict.fromkeys(cast("Sequence[str]", value)))


def _same(value: Any) -> Any:
    return value


def _seconds(value: Any) -> Any:
    """Kafka counts in milliseconds, often written as text."""
    return _number(value) / 1000


def _number(value: Any) -> Any:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{value!r} is no whole number") from None


def _acquire_mode(value: Any) -> Any:
    return {"batch_optimized": "batches", "record_limit": "records"}.get(value, value)


_KAFKA_NAMES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "group.id": ("group", _same),
    "share.acknowledgement.mode": ("acknowledgement", _same),
    "share.acquire.mode": ("acquire", _acquire_mode),
    "max.poll.records": ("max_records", _number),
    "client.id": ("client_id", _same),
    "client.rack": ("rack", _same),
    "request.timeout.ms": ("request_timeout", _seconds),
}

_NOT_OURS = {
    "auto.offset.reset": "it is a setting of the share group: share.auto.offset.reset, set with an admin client",
    "enable.auto.commit": 'share groups have no offsets to commit: choose acknowledgement="implicit" or "explicit"',
    "max.poll.interval.ms": "there is none: records are kept by renewing their leases, see longest_lease",
    "isolation.level": "it is a setting of the share group: share.isolation.level",
}


def _translate(name: str, value: Any) -> tuple[str, Any]:
    own = [one.name for one in fields(ConsumerConfig)]
    if name in own:
        return name, value
    dotted = name.replace("_", ".") if name.replace("_", ".") in _KAFKA_NAMES | _NOT_OURS else name
    if dotted in _NOT_OURS:
        raise ConfigError(f"{name}: {_NOT_OURS[dotted]}")
    if dotted in _KAFKA_NAMES:
        known, convert = _KAFKA_NAMES[dotted]
        try:
            return known, convert(value)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
    near = get_close_matches(name, [*own, *_KAFKA_NAMES], 1)
    raise ConfigError(f"there is no option {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
