"""The options of the Spark source, typed and validated; named like Spark's Kafka source where they mean the same.

Decides which values are allowed, and the defaults. Errors say what to write instead and never contain secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

from kshare.client.config import ConsumerConfig
from kshare.client.given_options import attempted_by
from kshare.client.kafka_names import KAFKA_NAMES, parse_option
from kshare.errors import ConfigError
from kshare.net.settings import NetSettings
from kshare.options.mistakes import Mistakes
from kshare.options.refusals import why_refused
from kshare.options.unknown import no_option
from kshare.spark.journal.settings import JournalSettings
from kshare.spark.option_names import KAFKA, check_kafka_names, spark_error
from kshare.spark.splitting import TaskLimits
from kshare.wording import nearest_name

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
        """Parse the options that Spark passes. Their names are case-insensitive.

        Raises ConfigError with all mistakes.
        """
        mistakes = Mistakes()
        values: dict[str, Any] = {}
        kafkas: dict[str, Any] = {}
        attempted: set[str] = set()
        written = {name.lower(): (name, value) for name, value in given.items()}
        for name, (original, value) in written.items():
            if name.startswith(KAFKA):
                kafkas[name.removeprefix(KAFKA)] = value
                continue
            attempted.add(_field_meant(name))
            with mistakes:
                _take(name, original, value, values, is_streaming)
                attempted.remove(_field_meant(name))
        journal = _journal(values, mistakes)
        with mistakes:
            consumer = _consumer(kafkas, values, attempted)
            if journal.get("topic") in consumer.topics:
                raise ConfigError(
                    f"journalTopic and subscribe both name {journal['topic']}: a journal needs a topic of its own, "
                    "because kshare deletes from it what isn't needed any more"
                )
        _check_together(values, journal, attempted, mistakes)
        mistakes.raise_all()
        if values.get("settle") == "journal":
            values["journal"] = JournalSettings(**journal)
        return cls(consumer=consumer, **values)


def _check_together(
    values: Mapping[str, Any], journal: Mapping[str, Any], attempted: Collection[str], mistakes: Mistakes
) -> None:
    settle = values.get("settle", "sink")
    if values.get("settle_rows") and settle != "sink":
        mistakes.add(
            f"settleRows needs settle=sink: with {settle}, all rows are accepted before your code gets them"
        )
    if values.get("min_partitions", 0) > values.get("max_partitions", LARGEST_BATCH):
        mistakes.add("minPartitions must not be larger than maxPartitions")
    if journal and settle != "journal" and "settle" not in attempted:
        mistakes.add(
            f'{_JOURNAL[next(iter(journal))]} needs settle=journal: write option("settle", "journal")'
        )


def lease_token(given: Mapping[str, str]) -> str | None:
    """The value of the option `lease`, if given. It excludes most others: a lease has its own cluster and ranges."""
    written = {name.lower(): value for name, value in given.items()}
    token = written.pop("lease", None)
    others = [name for name in written if name not in _OF_ROWS]
    if token is not None and others:
        other = _KNOWN[others[0]].spelled if others[0] in _KNOWN else others[0]
        raise ConfigError(
            f"lease and {other} exclude each other: a lease has its own cluster, group and topics"
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
    for settle in get_args(Settle):
        if value.strip().lower() == settle:
            return cast("Settle", settle)
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
    option.field.removeprefix(_OF_JOURNAL): option.spelled
    for option in _ALL
    if option.field.startswith(_OF_JOURNAL)
}
_KNOWN = {option.spelled.lower(): option for option in _ALL}
_MEANT = {
    **{name: option.field for name, option in _KNOWN.items()},
    **dict.fromkeys(("assign", "subscribepattern", "path", "topic", "topics"), "topics"),
    "groupidprefix": "group",
}
"""Fields by the names that users write for them, including some that are refused."""
_OF_ROWS = {
    "includeheaders",
    "deliverycount",
    "failondataloss",
    "minpartitions",
    "maxpartitions",
    "minrecordsperpartition",
}
"""Options that may be combined with a lease."""

_LENT = {
    "max_records": "write maxRecordsPerTrigger instead",
    "acknowledgement": "micro-batches are acknowledged as a whole: see the option settle",
    "acquire": "leave it out: write maxRecordsPerTrigger for smaller micro-batches",
}


def _take(name: str, original: str, value: str, values: dict[str, Any], is_streaming: bool) -> None:
    if refused := why_refused(name, "source"):
        raise ConfigError(refused)
    option = _KNOWN.get(name)
    if option is None:
        raise ConfigError(no_option(original, [*_names(), "lease"], _names()))
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


def _field_meant(name: str) -> str:
    """The field of the option that is given, or that seems to be meant by a name that is refused or unknown."""
    if name in _MEANT:
        return _MEANT[name]
    known = nearest_name(name, _KNOWN)
    return _KNOWN[known].field if known else ""


def _journal(values: dict[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """Take the options of the journal out of `values`."""
    found = {name: values.pop(_OF_JOURNAL + name) for name in _JOURNAL if _OF_JOURNAL + name in values}
    if "topic" in found and "folder" in found:
        mistakes.add("journalTopic and journalFolder exclude each other: a journal is in one place")
    return found


def _consumer(kafkas: dict[str, Any], values: dict[str, Any], attempted: Collection[str]) -> ConsumerConfig:
    """Build the consumer's configuration. As in Spark's Kafka source, Kafka's own options begin with `kafka.`.

    Raises ConfigError with all mistakes. Options that are `attempted` aren't missing.
    """
    mistakes = Mistakes()
    group = kafkas.pop("group.id", None)
    if group is not None and "group" in values:
        mistakes.add("group and kafka.group.id mean the same: leave one of them out")
    named = {"group": values.pop("group", group), "topics": values.pop("topics", None)}
    with mistakes:
        check_kafka_names(kafkas)
    usable = {name: value for name, value in kafkas.items() if name in KAFKA_NAMES}
    meant = set(attempted)
    for name, value in kafkas.items():
        if name not in usable:
            meant.update(attempted_by(name, value, partial(parse_option, given=kafkas, ours=()), ()))
    if not kafkas.get("bootstrap.servers") and "bootstrap_servers" not in meant:
        mistakes.add(
            'kafka.bootstrap.servers is missing: write option("kafka.bootstrap.servers", "localhost:9092")'
        )
    if not named["group"] and "group" not in meant:
        mistakes.add('group is missing: write option("group", "orders")')
    if not named["topics"] and "topics" not in meant:
        mistakes.add('subscribe is missing: write option("subscribe", "orders")')
    usable["bootstrap.servers"] = kafkas.get("bootstrap.servers") or _PLAIN.bootstrap_servers
    named = {name: value or getattr(_PLAIN, name) for name, value in named.items()}
    wrong: set[str] = set()
    try:
        config = ConsumerConfig.make(None, {**usable, **named}, meant)
    except ConfigError as error:
        mistakes.add(*spark_error(error, kafkas).mistakes)
        wrong = {mistake.split()[0] for mistake in error.mistakes}
    for name, value in usable.items():
        with suppress(ConfigError):  # it has been found above
            for field, ours in KAFKA_NAMES[name](value, kafkas).items():
                if field in _LENT and field not in wrong and ours != getattr(_PLAIN, field):
                    mistakes.add(f"{KAFKA}{name}: {_LENT[field]}")
    mistakes.raise_all()
    return config


_PLAIN = ConsumerConfig(bootstrap_servers="localhost:9092", group="plain", topics=("plain",))


def _names() -> list[str]:
    return ["kafka.bootstrap.servers", *(option.spelled for option in _ALL)]
