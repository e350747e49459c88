"""Table of topic, group and broker configs: type, default and bounds, with validation.

Never holds a value that somebody chose: `configs` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kshare.broker.refusal import Refusal
from kshare.protocol.error_codes import ErrorCode


class Resource(IntEnum):
    """What can be configured, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Kind(IntEnum):
    """The types of settings, by Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


_LIMITS = {Kind.INT: 2**31 - 1, Kind.SHORT: 2**15 - 1, Kind.LONG: 2**63 - 1}
MAX_LONG = str(2**63 - 1)


@dataclass(slots=True, frozen=True)
class Setting:
    name: str
    kind: Kind
    default: str
    least: int | None = None
    choices: tuple[str, ...] = ()
    inherits: str | None = None
    """The broker's setting that gives the default."""
    bounds: tuple[str, str] | None = None
    """The broker's settings that give the least and the greatest value."""

    def check(self, value: str) -> None:
        """Raises Refusal for a value that isn't of the type, or one that is out of range whatever the broker says."""
        if self.kind is Kind.BOOLEAN and value.lower() not in ("true", "false"):
            raise self.refusal(value, "true or false is needed")
        if self.kind is Kind.DOUBLE:
            self._number(value, float)
        if self.kind in _LIMITS:
            number = self._number(value, int)
            least = -_LIMITS[self.kind] - 1 if self.least is None else self.least
            if not least <= number <= _LIMITS[self.kind]:
                raise self.refusal(value, f"from {least} to {_LIMITS[self.kind]} is allowed")
        if self.choices:
            for each in value.split(",") if self.kind is Kind.LIST else [value]:
                if each.strip() not in self.choices:
                    raise self.refusal(value, f"one of {', '.join(self.choices)} is needed")

    def _number(self, value: str, kind: type[int] | type[float]) -> float:
        try:
            return kind(value)
        except ValueError:
            raise self.refusal(value, "a number is needed") from None

    def refusal(self, value: str, reason: str) -> Refusal:
        return Refusal(
            ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {self.name}: {reason}"
        )


def _share(name: str, kind: Kind = Kind.INT) -> Setting:
    """A group's setting whose default and bounds are the broker's."""
    bounds = (f"group.share.min.{name}", f"group.share.max.{name}")
    return Setting(f"share.{name}", kind, "", inherits=f"group.share.{name}", bounds=bounds)


def _consumer(name: str) -> Setting:
    bounds = (f"group.consumer.min.{name}", f"group.consumer.max.{name}")
    return Setting(f"consumer.{name}", Kind.INT, "", inherits=f"group.consumer.{name}", bounds=bounds)


_DEAD = "errors.deadletterqueue."
DEAD_LETTER_TOPIC = f"{_DEAD}topic.name"
"""A group's, and must begin with the broker's:"""
DEAD_LETTER_PREFIX = f"{_DEAD}topic.name.prefix"

GROUP_SETTINGS = (
    _consumer("assignment.interval.ms"),
    _consumer("heartbeat.interval.ms"),
    _consumer("session.timeout.ms"),
    Setting(f"{_DEAD}copy.record.enable", Kind.BOOLEAN, "false"),
    Setting(DEAD_LETTER_TOPIC, Kind.STRING, ""),
    _share("assignment.interval.ms"),
    Setting("share.auto.offset.reset", Kind.STRING, "latest"),
    _share("delivery.count.limit"),
    _share("heartbeat.interval.ms"),
    Setting(
        "share.isolation.level",
        Kind.STRING,
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
    ),
    _share("partition.max.record.locks"),
    _share("record.lock.duration.ms"),
    Setting("share.renew.acknowledge.enable", Kind.BOOLEAN, "true"),
    _share("session.timeout.ms"),
)

TOPIC_SETTINGS = (
    Setting(
        "cleanup.policy", Kind.LIST, "delete", choices=("compact", "delete"), inherits="log.cleanup.policy"
    ),
    Setting("compression.gzip.level", Kind.INT, "-1"),
    Setting("compression.lz4.level", Kind.INT, "9"),
    Setting(
        "compression.type",
        Kind.STRING,
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    Setting("compression.zstd.level", Kind.INT, "3"),
    Setting("delete.retention.ms", Kind.LONG, "86400000", 0),
    Setting(f"{_DEAD}group.enable", Kind.BOOLEAN, "false"),
    Setting("file.delete.delay.ms", Kind.LONG, "60000", 0),
    Setting("flush.messages", Kind.LONG, MAX_LONG, 1),
    Setting("flush.ms", Kind.LONG, MAX_LONG, 0),
    Setting("follower.replication.throttled.replicas", Kind.LIST, ""),
    Setting("index.interval.bytes", Kind.INT, "4096", 0),
    Setting("leader.replication.throttled.replicas", Kind.LIST, ""),
    Setting("local.retention.bytes", Kind.LONG, "-2", -2),
    Setting("local.retention.ms", Kind.LONG, "-2", -2),
    Setting("max.compaction.lag.ms", Kind.LONG, MAX_LONG, 1),
    Setting("max.message.bytes", Kind.INT, "1048588", 0, inherits="message.max.bytes"),
    Setting("message.timestamp.after.max.ms", Kind.LONG, "3600000", 0),
    Setting("message.timestamp.before.max.ms", Kind.LONG, MAX_LONG, 0),
    Setting("message.timestamp.type", Kind.STRING, "CreateTime", choices=("CreateTime", "LogAppendTime")),
    Setting("min.cleanable.dirty.ratio", Kind.DOUBLE, "0.5"),
    Setting("min.compaction.lag.ms", Kind.LONG, "0", 0),
    Setting("min.insync.replicas", Kind.INT, "1", 1),
    Setting("preallocate", Kind.BOOLEAN, "false"),
    Setting("remote.log.copy.disable", Kind.BOOLEAN, "false"),
    Setting("remote.log.delete.on.disable", Kind.BOOLEAN, "false"),
    Setting("remote.storage.enable", Kind.BOOLEAN, "false"),
    Setting("retention.bytes", Kind.LONG, "-1", inherits="log.retention.bytes"),
    Setting("retention.ms", Kind.LONG, "604800000", -1),
    Setting("segment.bytes", Kind.INT, "1073741824", 14),
    Setting("segment.index.bytes", Kind.INT, "10485760", 4),
    Setting("segment.jitter.ms", Kind.LONG, "0", 0),
    Setting("segment.ms", Kind.LONG, "604800000", 1),
    Setting("unclean.leader.election.enable", Kind.BOOLEAN, "false"),
)


def _ranged(name: str, default: int, least: int, most: int, room: str = "share") -> tuple[Setting, ...]:
    return (
        Setting(f"group.{room}.{name}", Kind.INT, str(default), min(least, 1)),
        Setting(f"group.{room}.min.{name}", Kind.INT, str(least), 0),
        Setting(f"group.{room}.max.{name}", Kind.INT, str(most), 0),
    )


BROKER_SETTINGS = (
    Setting("authorizer.class.name", Kind.STRING, ""),
    Setting("auto.create.topics.enable", Kind.BOOLEAN, "true"),
    Setting("default.replication.factor", Kind.INT, "1", 1),
    Setting("delete.topic.enable", Kind.BOOLEAN, "true"),
    Setting(f"{_DEAD}auto.create.topics.enable", Kind.BOOLEAN, "false"),
    Setting(DEAD_LETTER_PREFIX, Kind.STRING, "dlq."),
    *_ranged("assignment.interval.ms", 1000, 0, 15000, "consumer"),
    *_ranged("heartbeat.interval.ms", 5000, 5000, 15000, "consumer"),
    *_ranged("session.timeout.ms", 45000, 45000, 60000, "consumer"),
    Setting("group.coordinator.rebalance.protocols", Kind.LIST, "classic,consumer,share"),
    Setting("group.initial.rebalance.delay.ms", Kind.INT, "0", 0),
    Setting("group.max.session.timeout.ms", Kind.INT, "1800000", 1),
    Setting("group.max.size", Kind.INT, "2147483647", 1),
    Setting("group.min.session.timeout.ms", Kind.INT, "6000", 1),
    Setting("group.share.assignors", Kind.LIST, "simple"),
    *_ranged("assignment.interval.ms", 1000, 0, 15000),
    *_ranged("delivery.count.limit", 5, 2, 10),
    *_ranged("heartbeat.interval.ms", 5000, 5000, 15000),
    Setting("group.share.max.share.sessions", Kind.INT, "2000", 1),
    Setting("group.share.max.size", Kind.INT, "200", 1),
    *_ranged("partition.max.record.locks", 2000, 100, 4000),
    *_ranged("record.lock.duration.ms", 30000, 15000, 60000),
    *_ranged("session.timeout.ms", 45000, 45000, 60000),
    Setting("log.cleanup.policy", Kind.LIST, "delete", choices=("compact", "delete")),
    Setting("log.retention.bytes", Kind.LONG, "-1"),
    Setting("message.max.bytes", Kind.INT, "1048588", 0),
    Setting("min.insync.replicas", Kind.INT, "1", 1),
    Setting("num.partitions", Kind.INT, "1", 1),
    Setting("offsets.topic.num.partitions", Kind.INT, "50", 1),
    Setting("share.coordinator.cold.partition.snapshot.interval.ms", Kind.INT, "300000", 1),
    Setting("share.coordinator.snapshot.update.records.per.snapshot", Kind.INT, "500", 0),
    Setting("share.coordinator.state.topic.num.partitions", Kind.INT, "50", 1),
    Setting("super.users", Kind.STRING, ""),
    Setting("transaction.max.timeout.ms", Kind.INT, "900000", 1),
    Setting("transaction.state.log.num.partitions", Kind.INT, "50", 1),
)

CHANGEABLE = frozenset(
    {
        f"{_DEAD}auto.create.topics.enable",
        f"{_DEAD}topic.name.prefix",
        "group.consumer.assignment.interval.ms",
        "group.share.assignment.interval.ms",
        "log.cleanup.policy",
        "log.retention.bytes",
        "message.max.bytes",
        "min.insync.replicas",
    }
)
"""The broker's settings that may change while it runs."""

TABLES: dict[Resource, dict[str, Setting]] = {
    Resource.TOPIC: {each.name: each for each in TOPIC_SETTINGS},
    Resource.BROKER: {each.name: each for each in BROKER_SETTINGS},
    Resource.GROUP: {each.name: each for each in GROUP_SETTINGS},
}

MIN_LOCK_MS = "group.share.min.record.lock.duration.ms"


def common_settings(min_lock_ms: int | None, auto_create_topics: bool | None) -> dict[str, str]:
    """Broker settings for what tests choose most often; None for what wasn't chosen."""
    settings = {}
    if min_lock_ms is not None:
        settings[MIN_LOCK_MS] = str(min_lock_ms)
    if auto_create_topics is not None:
        settings["auto.create.topics.enable"] = str(auto_create_topics).lower()
    return settings
