"""Dead letters as brokers since 4.4 write them: copies of records that were archived without being accepted.

A group names the topic (`errors.deadletterqueue.topic.name`). Its name must begin with the broker's prefix, and the
topic must have `errors.deadletterqueue.group.enable=true`. A missing topic is created if the
broker's configuration allows it. The headers of a dead letter contain the record's origin and the reason. Key and value
are copied if the group's configuration says so, the record's own headers never. Dead letters are written to the
partition with the number of the original partition, modulo the topic's number of partitions.

A record whose dead letter can't be written is archived nevertheless: nothing here fails.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster, Partition
from kshare.broker.configs import Configs
from kshare.broker.request_error import RequestError
from kshare.broker.settings import DEAD_LETTER_PREFIX, DEAD_LETTER_TOPIC, Resource
from kshare.broker.shares.delivery import ArchiveCause
from kshare.broker.shares.share_partition import ArchivedRange
from kshare.protocol.record import Record
from kshare.protocol.record_builder import BatchBuilder
from kshare.summary_log import SummaryLog

_COPY = "errors.deadletterqueue.copy.record.enable"
_ENABLED = "errors.deadletterqueue.group.enable"
_MAY_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
_HEADER = "__dlq.errors."
_REASONS = {
    ArchiveCause.REJECTED: b"Offset rejected by client.",
    ArchiveCause.TOO_MANY_DELIVERIES: b"Offset delivery count exceeded the threshold.",
}


class DeadLetters:
    def __init__(self, clock: Clock, configs: Configs, cluster: Cluster, log: SummaryLog) -> None:
        self._clock = clock
        self._log = log
        self._configs = configs
        self._cluster = cluster

    def write_copies(self, group: str, origin: Partition, archived: Sequence[ArchivedRange]) -> None:
        """Write all dead letters in one batch. Does nothing if the group has no usable dead-letter topic."""
        dead_letter_partition = self._target_partition(group, origin)
        if dead_letter_partition is None:
            return
        records = self._records(origin, archived) if self._copies(group) else {}
        now = self._clock.now()
        builder = BatchBuilder()
        for each in archived:
            for offset in range(each.first, each.last + 1):
                record = records.get(offset)
                builder.append(
                    record.value if record else None,
                    key=record.key if record else None,
                    timestamp=now,
                    headers=_headers(group, origin, offset, each),
                )
        try:
            dead_letter_partition.log.append(
                bytes(builder.build()),
                now=now,
                leader_epoch=dead_letter_partition.leader_epoch,
                from_client=False,
            )
        except RequestError:
            return  # As in real brokers: what can't be written is archived without a dead letter.

    def _copies(self, group: str) -> bool:
        return self._configs.is_on(Resource.GROUP, group, _COPY)

    def _target_partition(self, group: str, origin: Partition) -> Partition | None:
        name = self._configs.group(group, DEAD_LETTER_TOPIC)
        if not name:
            return None
        prefix = self._configs.broker(DEAD_LETTER_PREFIX)
        if not name.startswith(prefix):
            self._warn(group, name, f"its name must begin with {prefix!r} ({DEAD_LETTER_PREFIX})")
            return None
        topic = self._cluster.find(name)
        if topic is None and self._configs.is_on(Resource.BROKER, "", _MAY_CREATE):
            count = self._configs.broker_number("num.partitions")
            try:
                topic = self._cluster.create_topic(name, count, configs={_ENABLED: "true"})
            except RequestError:
                return None
        if topic is None:
            self._warn(group, name, "it doesn't exist")
            return None
        if not self._configs.is_on(Resource.TOPIC, name, _ENABLED):
            self._warn(group, name, f"it needs {_ENABLED}=true")
            return None
        return topic.partitions[origin.index % len(topic.partitions)]

    def _warn(self, group: str, topic: str, reason: str) -> None:
        """Kafka logs nothing here. This broker does, so that a failing test shows why there are no dead letters."""
        self._log.event(
            logging.WARNING, f"group {group}: no dead letters are written to topic {topic}: {reason}"
        )

    def _records(self, origin: Partition, archived: Iterable[ArchivedRange]) -> dict[int, Record]:
        """The archived records that are still in the log, by offset."""
        wanted = {offset for each in archived for offset in range(each.first, each.last + 1)}
        found: dict[int, Record] = {}
        for batch in origin.log.batches_from(min(wanted)):
            if batch.base_offset > max(wanted):
                break
            if not batch.is_control and not wanted.isdisjoint(
                range(batch.base_offset, batch.last_offset + 1)
            ):
                found |= {record.offset: record for record in batch.decode() if record.offset in wanted}
        return found


def _headers(group: str, origin: Partition, offset: int, archived: ArchivedRange) -> list[tuple[str, bytes]]:
    return [
        (_HEADER + "topic", origin.topic.name.encode()),
        (_HEADER + "partition", b"%d" % origin.index),
        (_HEADER + "offset", b"%d" % offset),
        (_HEADER + "group", group.encode()),
        (_HEADER + "delivery.count", b"%d" % archived.count),
        (_HEADER + "message", _REASONS[archived.cause]),
    ]
