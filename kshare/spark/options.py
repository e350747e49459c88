"""The options of the Spark source, typed and validated; named like Spark's Kafka source where they mean the same.

Decides which values are allowed, and the defaults. Errors say what to write instead and never contain secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from kshare.client.config import ConsumerConfig
from kshare.client.kafka_names import KAFKA_NAMES
from kshare.errors import ConfigError
from kshare.net.settings import NetSettings
from kshare.spark.journal.settings import JournalSettings
from kshare.spark.option_names import KAFKA, check_kafka_names, in_spark_names
from kshare.spark.splitting import TaskLimits

Settle = Literal["sink", "checkpoint", "journal"]

LARGEST_BATCH = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a stream, a backlog view or a lease. Can be pickled. Durations are in seconds."""

    consumer: ConsumerConfig
    """The cluster, the group, the topics, and how to authenticate."""
    include_headers: bool = False
    delivery_count: bool = False
    """Whether to add the column `deliveryCount`."""
    columns: tuple[str, ...] = ()
    """The columns to build, in this order, as `.schema(...)` selects them; all of them if empty."""
    fail_on_data_loss: bool = True
    fail_on_lost_checkpoint: bool = True
    """Whether to refuse a checkpoint that is older than the query, or that seems to replace another query's."""
    settle: Settle = "sink"
    """What owns the records while a micro-batch runs: the group (sink), Spark's checkpoint, or the query's journal."""
    journal: JournalSettings | None = None
    """With settle=journal."""
    settle_rows: bool = False
    """Whether `kshare.spark.settle` may reject or release single rows."""
    release_delay: float = 5.0
    """How long released rows wait after their first delivery; twice as long after each further one."""
    max_records: int = 1_000_000
    """The maximum number of records in a micro-batch. Usually the group's limit on locks per partition is lower."""
    min_partitions: int | None = None
    """At least as many tasks for a micro-batch, view or lease."""
    max_partitions: int | None = None
    """At most as many tasks."""
    min_records_per_partition: int = 1_000
    """Fewer tasks rather than tasks with fewer records than this."""
    max_wait: float = 0.5
    """How long a trigger may wait for the first record, and for more records after it."""

    @property
    def group(self) -> str:
        return self.consumer.group

    @property
    def topics(self) -> tuple[str, ...]:
        return self.consumer.topics

    @property
    def task_limits(self) -> TaskLimits:
        return TaskLimits(self.min_partitions, self.max_partitions, self.min_records_per_partition)

    def net_settings(self) -> NetSettings:
        return self.consumer.net_settings()

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
        """Parse the options that Spark passes. Their names are case-insensitive."""
        written = {name.lower(): (name, value) for name, value in given.items()}
        values: dict[str, Any] = {}
        kafkas: dict[str, Any] = {}
        for name, (original, value) in written.items():
            if name.startswith(KAFKA):
                kafkas[name.removeprefix(KAFKA)] = value
            else:
                _take(name, original, value, values, is_streaming)
        settle = values.get("settle", "sink")
        if values.get("settle_rows") and settle != "sink":
            raise ConfigError(
                f"settleRows needs settle=sink: with {settle}, all rows are accepted before your code gets them"
            )
        if values.get("min_partitions", 0) > values.get("max_partitions", LARGEST_BATCH):
            raise ConfigError("minPartitions must not be larger than maxPartitions")
        journal = _journal(values)
        consumer = _consumer(kafkas, values)
        if journal.get("topic") in consumer.topics:
            raise ConfigError(
                f"journalTopic and subscribe both name {journal['topic']}: a journal needs a topic of its own, because "
                "kshare deletes from it what isn't needed any more"
            )
        if settle == "journal":
            values["journal"] = JournalSettings(**journal)
        elif journal:
            raise ConfigError(
                f'{_JOURNAL[next(iter(journal))]} needs settle=journal: write option("settle", "journal")'
            )
        return cls(consumer=consumer, **values)


def lease_token(given: Mapping[str, str]) -> str | None:
    """The value of the option `lease`, if given. It excludes most others: a lease has its own cluster and ranges."""
    written = {name.lower(): value for name, value in given.items()}
    token = written.pop("lease", None)
    others = [name for name in written if name not in _OF_ROWS]
    if token is not None and others:
        raise ConfigError(
            f"lease and {_spelling(others[0])} exclude each other: a lease has its own cluster, group and topics"
        )
    if token == "":
        raise ConfigError('lease is empty: write option("lease", lease.token)')
    return token


# --- values


def _text(value: str) -> str:
    if not value.strip():
        raise ConfigError("is empty")
    return value.strip()


def _topics(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not names:
        raise ConfigError('names no topic: write option("subscribe", "orders"), several separated by commas')
    return names


def _flag(value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ConfigError(f"must be true or false, not {value!r}")
    return value.strip().lower() == "true"


def _count(value: str) -> int:
    if not value.strip().isdecimal() or not 1 <= int(value) <= LARGEST_BATCH:
        raise ConfigError(f"must be a whole number from 1 to {LARGEST_BATCH}, not {value!r}")
    return int(value)


def _milliseconds(value: str) -> float:
    if not value.strip().isdecimal() or int(value) > 86_400_000:
        raise ConfigError(f"must be a whole number of milliseconds, not {value!r}")
    return int(value) / 1000


def _bytes(value: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1:
        raise ConfigError(f"must be a number of bytes, at least 1, not {value!r}")
    return int(value)


def _folder(value: str) -> Path:
    path = Path(_text(value))
    if not path.is_absolute() or "://" in value or "\0" in value:
        raise ConfigError(
            f"must be an absolute path on the driver's machine, not {value!r}: for anything else, leave it out, and "
            "the journal is in a Kafka topic"
        )
    return path


def _settle(value: str) -> Settle:
    match value.strip().lower():
        case "sink":
            return "sink"
        case "checkpoint":
            return "checkpoint"
        case "journal":
            return "journal"
    raise ConfigError(
        "must be sink (accepted when the micro-batch is complete), checkpoint (accepted when Spark has it in its "
        f"offset log) or journal (accepted when the query's journal has it), not {value!r}"
    )


@dataclass(frozen=True, slots=True)
class _Known:
    spelled: str
    field: str
    turn: Callable[[str], Any]
    where: Literal["both", "stream"] = "both"


_ALL = (
    _Known("group", "group", _text),
    _Known("subscribe", "topics", _topics),
    _Known("includeHeaders", "include_headers", _flag),
    _Known("deliveryCount", "delivery_count", _flag),
    _Known("failOnDataLoss", "fail_on_data_loss", _flag),
    _Known("failOnLostCheckpoint", "fail_on_lost_checkpoint", _flag, "stream"),
    _Known("minPartitions", "min_partitions", _count),
    _Known("maxPartitions", "max_partitions", _count),
    _Known("minRecordsPerPartition", "min_records_per_partition", _count),
    _Known("settle", "settle", _settle, "stream"),
    _Known("journalTopic", "journal_topic", _text, "stream"),
    _Known("journalFolder", "journal_folder", _folder, "stream"),
    _Known("journalMaxRecords", "journal_max_records", _count, "stream"),
    _Known("journalMaxBytes", "journal_max_bytes", _bytes, "stream"),
    _Known("journalMaxAgeMs", "journal_max_age", _milliseconds, "stream"),
    _Known("settleRows", "settle_rows", _flag, "stream"),
    _Known("releaseDelayMs", "release_delay", _milliseconds, "stream"),
    _Known("maxRecordsPerTrigger", "max_records", _count, "stream"),
    _Known("maxOffsetsPerTrigger", "max_records", _count, "stream"),
    _Known("maxWaitMs", "max_wait", _milliseconds, "stream"),
)
_OF_JOURNAL = "journal_"
_JOURNAL = {
    one.field.removeprefix(_OF_JOURNAL): one.spelled for one in _ALL if one.field.startswith(_OF_JOURNAL)
}
_KNOWN = {one.spelled.lower(): one for one in _ALL}
_OF_ROWS = {
    "includeheaders",
    "deliverycount",
    "failondataloss",
    "minpartitions",
    "maxpartitions",
    "minrecordsperpartition",
}
"""Options that may be combined with a lease."""

_BEGINS = (
    "starting offsets belong to the share group, not to the query. Before its first start: `kshare groups config set "
    "GROUP share.auto.offset.reset=earliest`. Later, with the query stopped: `kshare groups reset-offsets`"
)
_ENDS = "the view ends where the topic ends when it is planned: filter by offset or timestamp instead"
_ONE_WAY = 'members of a share group share whole topics: write option("subscribe", "orders,refunds")'
_OURS = "leave it out: kshare doesn't need this setting"
_REFUSED = {
    "assign": _ONE_WAY,
    "subscribePattern": _ONE_WAY,
    "startingOffsets": _BEGINS,
    "startingTimestamp": _BEGINS,
    "startingOffsetsByTimestamp": _BEGINS,
    "startingOffsetsByTimestampStrategy": _BEGINS,
    "endingOffsets": _ENDS,
    "endingTimestamp": _ENDS,
    "endingOffsetsByTimestamp": _ENDS,
    "groupIdPrefix": 'leave it out and name the group: write option("group", "orders")',
    "minOffsetsPerTrigger": "leave it out and write maxWaitMs: how long to wait for more records",
    "maxTriggerDelay": "leave it out and write maxWaitMs: how long to wait for more records",
    "maxRecordsPerPartition": "leave it out and write minPartitions: the least number of tasks",
    "kafkaConsumer.pollTimeoutMs": _OURS,
    "fetchOffset.numRetries": _OURS,
    "fetchOffset.retryIntervalMs": _OURS,
    "path": 'leave the argument of load() out, and write option("subscribe", "orders")',
    "topic": 'write option("subscribe", "orders"): topic is an option for writing',
    "topics": 'write option("subscribe", "orders,refunds")',
}
_REFUSED_NAMES = {name.lower(): name for name in _REFUSED}
_LENT = {
    "max_records": "write maxRecordsPerTrigger instead",
    "acknowledgement": "micro-batches are acknowledged as a whole: see the option settle",
    "acquire": "leave it out: write maxRecordsPerTrigger for smaller micro-batches",
}


def _take(name: str, original: str, value: str, values: dict[str, Any], is_streaming: bool) -> None:
    if name in _REFUSED_NAMES:
        spelled = _REFUSED_NAMES[name]  # Spark passes lower-case names
        raise ConfigError(f"{spelled}: {_REFUSED[spelled]}")
    option = _KNOWN.get(name)
    if option is None:
        near = get_close_matches(name, [*_KNOWN, "kafka.bootstrap.servers", "lease"], 1)
        hint = f"did you mean {_spelling(near[0])}?" if near else f"the options are {', '.join(_names())}"
        raise ConfigError(f"there is no option {original!r}: {hint}")
    if option.where == "stream" and not is_streaming:
        raise ConfigError(
            f"{option.spelled} is for streams: spark.read only views the backlog and acquires nothing"
        )
    if option.field in values:
        raise ConfigError(
            "maxRecordsPerTrigger and maxOffsetsPerTrigger mean the same: leave one of them out"
        )
    try:
        values[option.field] = option.turn(value)
    except ConfigError as error:
        raise ConfigError(f"{option.spelled} {error}") from None


def _journal(values: dict[str, Any]) -> dict[str, Any]:
    """Take the options of the journal out of `values`."""
    found = {name: values.pop(_OF_JOURNAL + name) for name in _JOURNAL if _OF_JOURNAL + name in values}
    if "topic" in found and "folder" in found:
        raise ConfigError("journalTopic and journalFolder exclude each other: a journal is in one place")
    return found


def _consumer(kafkas: dict[str, Any], values: dict[str, Any]) -> ConsumerConfig:
    """Build the consumer's configuration. As in Spark's Kafka source, Kafka's own options begin with `kafka.`."""
    group = kafkas.pop("group.id", None)
    if group is not None and "group" in values:
        raise ConfigError("group and kafka.group.id mean the same: leave one of them out")
    named = {"group": values.pop("group", group), "topics": values.pop("topics", None)}
    if not kafkas.get("bootstrap.servers"):
        raise ConfigError(
            'kafka.bootstrap.servers is missing: write option("kafka.bootstrap.servers", "localhost:9092")'
        )
    if not named["group"]:
        raise ConfigError('group is missing: write option("group", "orders")')
    if not named["topics"]:
        raise ConfigError('subscribe is missing: write option("subscribe", "orders")')
    check_kafka_names(kafkas)
    try:
        config = ConsumerConfig.make(None, {**kafkas, **named})
        config.net_settings()
    except ConfigError as error:
        prefix = KAFKA if str(error).split(":")[0] in kafkas else ""
        raise ConfigError(prefix + in_spark_names(str(error))) from None
    for name in kafkas:
        for field in KAFKA_NAMES[name](kafkas[name], kafkas):
            if field in _LENT and getattr(config, field) != getattr(_PLAIN, field):
                raise ConfigError(f"{KAFKA}{name}: {_LENT[field]}")
    return config


_PLAIN = ConsumerConfig(bootstrap_servers="localhost:9092", group="plain", topics=("plain",))


def _spelling(name: str) -> str:
    return _KNOWN[name].spelled if name in _KNOWN else name


def _names() -> list[str]:
    return ["kafka.bootstrap.servers", *(one.spelled for one in _ALL)]
