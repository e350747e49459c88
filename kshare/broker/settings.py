"""Table of topic, group and broker configs: type, default and bounds, with validation.

Doesn't contain configured values: `configs` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode


class Resource(IntEnum):
    """A type of configurable resource, with Kafka's number."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class SettingType(IntEnum):
    """The type of a setting, with Kafka's number."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


_LIMITS = {SettingType.INT: 2**31 - 1, SettingType.SHORT: 2**15 - 1, SettingType.LONG: 2**63 - 1}
MAX_LONG = str(2**63 - 1)


def listed(value: str) -> list[str]:
    """The items of a list setting."""
    return [item.strip() for item in value.split(",") if item.strip()]


@dataclass(slots=True, frozen=True)
class Setting:
    name: str
    kind: SettingType
    default: str
    least: int | None = None
    may_be_zero: bool = True
    """False: -1 is unlimited, and the least limit is 1."""
    choices: tuple[str, ...] = ()
    inherits: str | None = None
    """The broker setting with the default."""
    bounds: tuple[str, str] | None = None
    """The broker settings with the minimum and the maximum."""

    def check(self, value: str) -> None:
        """Raises RequestError if the value has the wrong type, or is invalid regardless of broker settings."""
        if self.kind is SettingType.BOOLEAN and value.lower() not in ("true", "false"):
            raise self.refusal(value, "must be true or false")
        if self.kind is SettingType.DOUBLE:
            self._number(value, float)
        if self.kind in _LIMITS:
            number = self._number(value, int)
            minimum = -_LIMITS[self.kind] - 1 if self.least is None else self.least
            if number == 0 and not self.may_be_zero:
                raise self.refusal(value, "must be -1 (unlimited), or 1 or more")
            if not minimum <= number <= _LIMITS[self.kind]:
                raise self.refusal(value, f"must be between {minimum} and {_LIMITS[self.kind]} (inclusive)")
        if self.choices:
            for each in value.split(",") if self.kind is SettingType.LIST else [value]:
                if each.strip() not in self.choices:
                    raise self.refusal(value, f"only {', '.join(self.choices)} are allowed")

    def _number(self, value: str, kind: type[int] | type[float]) -> float:
        try:
            return kind(value)
        except ValueError:
            raise self.refusal(value, "must be a number") from None

    def refusal(self, value: str, reason: str) -> RequestError:
        return RequestError(
            ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {self.name}: {reason}"
        )


def _share(name: str, kind: SettingType = SettingType.INT) -> Setting:
    """A group setting whose default and bounds are broker settings."""
    bounds = (f"group.share.min.{name}", f"group.share.max.{name}")
    return Setting(f"share.{name}", kind, "", inherits=f"group.share.{name}", bounds=bounds)


def _consumer(name: str) -> Setting:
    bounds = (f"group.consumer.min.{name}", f"group.consumer.max.{name}")
    return Setting(f"consumer.{name}", SettingType.INT, "", inherits=f"group.consumer.{name}", bounds=bounds)


_DEAD = "errors.deadletterqueue."
DEAD_LETTER_TOPIC = f"{_DEAD}topic.name"
"""A group setting. Its value must begin with that of this broker setting:"""
DEAD_LETTER_PREFIX = f"{_DEAD}topic.name.prefix"

GROUP_SETTINGS = (
    _consumer("assignment.interval.ms"),
    _consumer("heartbeat.interval.ms"),
    _consumer("session.timeout.ms"),
    Setting(f"{_DEAD}copy.record.enable", SettingType.BOOLEAN, "false"),
    Setting(DEAD_LETTER_TOPIC, SettingType.STRING, ""),
    _share("assignment.interval.ms"),
    Setting("share.auto.offset.reset", SettingType.STRING, "latest"),
    _share("delivery.count.limit"),
    _share("heartbeat.interval.ms"),
    Setting(
        "share.isolation.level",
        SettingType.STRING,
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
    ),
    _share("partition.max.record.locks"),
    _share("record.lock.duration.ms"),
    Setting("share.renew.acknowledge.enable", SettingType.BOOLEAN, "true"),
    _share("session.timeout.ms"),
)

_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
TOPIC_SETTINGS = (
    Setting(
        "cleanup.policy",
        SettingType.LIST,
        "delete",
        choices=("compact", "delete"),
        inherits="log.cleanup.policy",
    ),
    Setting("compression.gzip.level", SettingType.INT, "-1"),
    Setting("compression.lz4.level", SettingType.INT, "9"),
    Setting(
        "compression.type",
        SettingType.STRING,
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    Setting("compression.zstd.level", SettingType.INT, "3"),
    Setting(
        "delete.retention.ms", SettingType.LONG, "86400000", 0, inherits="log.cleaner.delete.retention.ms"
    ),
    Setting(f"{_DEAD}group.enable", SettingType.BOOLEAN, "false"),
    Setting("file.delete.delay.ms", SettingType.LONG, "60000", 0),
    Setting("flush.messages", SettingType.LONG, MAX_LONG, 1),
    Setting("flush.ms", SettingType.LONG, MAX_LONG, 0),
    Setting("follower.replication.throttled.replicas", SettingType.LIST, ""),
    Setting("index.interval.bytes", SettingType.INT, "4096", 0),
    Setting("leader.replication.throttled.replicas", SettingType.LIST, ""),
    Setting("local.retention.bytes", SettingType.LONG, "-2", -2),
    Setting("local.retention.ms", SettingType.LONG, "-2", -2),
    Setting("max.compaction.lag.ms", SettingType.LONG, MAX_LONG, 1),
    Setting("max.message.bytes", SettingType.INT, "1048588", 0, inherits="message.max.bytes"),
    Setting("message.timestamp.after.max.ms", SettingType.LONG, "3600000", 0),
    Setting("message.timestamp.before.max.ms", SettingType.LONG, MAX_LONG, 0),
    Setting(
        "message.timestamp.type",
        SettingType.STRING,
        "CreateTime",
        choices=_TIMESTAMP_TYPES,
        inherits="log.message.timestamp.type",
    ),
    Setting("min.cleanable.dirty.ratio", SettingType.DOUBLE, "0.5"),
    Setting("min.compaction.lag.ms", SettingType.LONG, "0", 0),
    Setting("min.insync.replicas", SettingType.INT, "1", 1, inherits="min.insync.replicas"),
    Setting("preallocate", SettingType.BOOLEAN, "false"),
    Setting("remote.log.copy.disable", SettingType.BOOLEAN, "false"),
    Setting("remote.log.delete.on.disable", SettingType.BOOLEAN, "false"),
    Setting("remote.storage.enable", SettingType.BOOLEAN, "false"),
    Setting("retention.bytes", SettingType.LONG, "-1", inherits="log.retention.bytes"),
    Setting("retention.ms", SettingType.LONG, "604800000", -1, inherits="log.retention.ms"),
    Setting("segment.bytes", SettingType.INT, "1073741824", 14),
    Setting("segment.index.bytes", SettingType.INT, "10485760", 4),
    Setting("segment.jitter.ms", SettingType.LONG, "0", 0),
    Setting("segment.ms", SettingType.LONG, "604800000", 1, inherits="log.roll.ms"),
    Setting("unclean.leader.election.enable", SettingType.BOOLEAN, "false"),
)


def _ranged(name: str, default: int, minimum: int, maximum: int, scope: str = "share") -> tuple[Setting, ...]:
    return (
        Setting(f"group.{scope}.{name}", SettingType.INT, str(default), min(minimum, 1)),
        Setting(f"group.{scope}.min.{name}", SettingType.INT, str(minimum), 0),
        Setting(f"group.{scope}.max.{name}", SettingType.INT, str(maximum), 0),
    )


BROKER_SETTINGS = (
    Setting("authorizer.class.name", SettingType.STRING, ""),
    Setting("auto.create.topics.enable", SettingType.BOOLEAN, "true"),
    Setting("default.replication.factor", SettingType.INT, "1", 1),
    Setting("delete.topic.enable", SettingType.BOOLEAN, "true"),
    Setting(f"{_DEAD}auto.create.topics.enable", SettingType.BOOLEAN, "false"),
    Setting(DEAD_LETTER_PREFIX, SettingType.STRING, "dlq."),
    Setting("fetch.max.bytes", SettingType.INT, "57671680", 1024),
    *_ranged("assignment.interval.ms", 1000, 0, 15000, "consumer"),
    Setting("group.consumer.assignors", SettingType.LIST, "uniform,range"),
    *_ranged("heartbeat.interval.ms", 5000, 5000, 15000, "consumer"),
    Setting("group.consumer.max.size", SettingType.INT, "2147483647", 1),
    *_ranged("session.timeout.ms", 45000, 45000, 60000, "consumer"),
    Setting("group.coordinator.rebalance.protocols", SettingType.LIST, "classic,consumer,share"),
    Setting("group.initial.rebalance.delay.ms", SettingType.INT, "0", 0),
    Setting("group.max.session.timeout.ms", SettingType.INT, "1800000", 1),
    Setting("group.max.size", SettingType.INT, "2147483647", 1),
    Setting("group.min.session.timeout.ms", SettingType.INT, "6000", 1),
    *_ranged("assignment.interval.ms", 1000, 0, 15000),
    *_ranged("delivery.count.limit", 5, 2, 10),
    *_ranged("heartbeat.interval.ms", 5000, 5000, 15000),
    Setting("group.share.max.share.sessions", SettingType.INT, "2000", 1),
    Setting("group.share.max.size", SettingType.INT, "200", 1),
    *_ranged("partition.max.record.locks", 2000, 100, 4000),
    *_ranged("record.lock.duration.ms", 30000, 15000, 60000),
    *_ranged("session.timeout.ms", 45000, 45000, 60000),
    Setting("log.cleaner.delete.retention.ms", SettingType.LONG, "86400000", 0),
    Setting("log.cleanup.policy", SettingType.LIST, "delete", choices=("compact", "delete")),
    Setting("log.message.timestamp.type", SettingType.STRING, "CreateTime", choices=_TIMESTAMP_TYPES),
    Setting("log.retention.bytes", SettingType.LONG, "-1"),
    Setting("log.retention.ms", SettingType.LONG, "604800000", -1, may_be_zero=False),
    Setting("log.roll.ms", SettingType.LONG, "604800000", 1),
    Setting("message.max.bytes", SettingType.INT, "1048588", 0),
    Setting("min.insync.replicas", SettingType.INT, "1", 1),
    Setting("num.partitions", SettingType.INT, "1", 1),
    Setting("offsets.topic.num.partitions", SettingType.INT, "50", 1),
    Setting("share.coordinator.cold.partition.snapshot.interval.ms", SettingType.INT, "300000", 1),
    Setting("share.coordinator.snapshot.update.records.per.snapshot", SettingType.INT, "500", 0),
    Setting("share.coordinator.state.topic.num.partitions", SettingType.INT, "50", 1),
    Setting("super.users", SettingType.STRING, ""),
    Setting("telemetry.max.bytes", SettingType.INT, "1048576", 1),
    Setting("transaction.max.timeout.ms", SettingType.INT, "900000", 1),
    Setting("transaction.state.log.num.partitions", SettingType.INT, "50", 1),
)

CHANGEABLE = frozenset(
    {
        f"{_DEAD}auto.create.topics.enable",
        f"{_DEAD}topic.name.prefix",
        "group.consumer.assignment.interval.ms",
        "group.share.assignment.interval.ms",
        "log.cleaner.delete.retention.ms",
        "log.cleanup.policy",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "message.max.bytes",
        "min.insync.replicas",
    }
)
"""The broker settings that can be changed at runtime."""

CLIENT_METRICS_SETTINGS = (
    Setting("interval.ms", SettingType.INT, "300000"),
    Setting("match", SettingType.LIST, ""),
    Setting("metrics", SettingType.LIST, ""),
)

TABLES: dict[Resource, dict[str, Setting]] = {
    Resource.TOPIC: {each.name: each for each in TOPIC_SETTINGS},
    Resource.BROKER: {each.name: each for each in BROKER_SETTINGS},
    Resource.GROUP: {each.name: each for each in GROUP_SETTINGS},
    Resource.CLIENT_METRICS: {each.name: each for each in CLIENT_METRICS_SETTINGS},
}


def tables(*, has_dead_letters: bool) -> dict[Resource, dict[str, Setting]]:
    """The settings of a release: those of dead letters only if it has them."""
    return {
        resource: {
            name: each for name, each in table.items() if has_dead_letters or not name.startswith(_DEAD)
        }
        for resource, table in TABLES.items()
    }


MIN_LOCK_MS = "group.share.min.record.lock.duration.ms"


def common_settings(min_lock_ms: int | None, auto_create_topics: bool | None) -> dict[str, str]:
    """The broker settings for options that tests often set; None means not set."""
    settings = {}
    if min_lock_ms is not None:
        settings[MIN_LOCK_MS] = str(min_lock_ms)
    if auto_create_topics is not None:
        settings["auto.create.topics.enable"] = str(auto_create_topics).lower()
    return settings
