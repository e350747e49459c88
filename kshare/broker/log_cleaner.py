"""Periodic log cleanup: retention and compaction.

Decides which batches are expired, exceed the size limit, or are superseded. Kafka works on segments; here each batch is
one, and the newest batch is the active segment, which isn't cleaned. Internal topics are cleaned by their owners.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile
from weakref import WeakKeyDictionary

from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster, Partition
from kshare.broker.configs import Configs
from kshare.broker.log import AbortedTransaction, PartitionLog, StoredBatch, is_aborted
from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import Batch, read_batches

EVERY_MS = 250


class LogCleaner:
    """Cleans all logs periodically."""

    def __init__(self, clock: Clock, cluster: Cluster, configs: Configs) -> None:
        self._clock = clock
        self._cluster = cluster
        self._configs = configs
        self._compacted = WeakKeyDictionary[PartitionLog, int]()
        """The end offset up to which each log is compacted."""
        clock.after(EVERY_MS, self._run)

    def _run(self) -> None:
        self._clock.after(EVERY_MS, self._run)
        now = self._clock.now()
        for topic in self._cluster.topics.values():
            if topic.is_internal:
                continue
            policy = self._configs.topic(topic.name, "cleanup.policy")
            longest = self._configs.topic_number(topic.name, "retention.ms")
            largest = self._configs.topic_number(topic.name, "retention.bytes")
            for partition in topic.partitions:
                if "delete" in policy:
                    self._retain(partition.log, now, longest, largest)
                if "compact" in policy:
                    self._compact(partition, now)

    def _retain(self, log: PartitionLog, now: int, longest: int, largest: int) -> None:
        start, remaining = log.start_offset, log.size
        for batch in log.batches_from(start):
            is_old = 0 <= longest < now - batch.max_timestamp
            is_too_much = 0 <= largest <= remaining - batch.size
            if not is_old and not is_too_much:
                break
            remaining -= batch.size
            start = batch.last_offset + 1
        if start > log.start_offset:
            log.delete_before(min(start, log.last_stable_offset))

    def _compact(self, partition: Partition, now: int) -> None:
        log, name = partition.log, partition.topic.name
        if self._compacted.get(log) == log.end_offset:
            return
        cleaned_after = max(
            self._configs.topic_number(name, "segment.ms"),
            self._configs.topic_number(name, "min.compaction.lag.ms"),
        )
        batches = list(log.batches_from(log.start_offset))
        stable = log.last_stable_offset
        # Timestamps needn't ascend. Only a prefix is cleaned, so that a record is compared with all earlier ones.
        eligible = list(
            takewhile(
                lambda batch: batch.max_timestamp + cleaned_after <= now and batch.last_offset < stable,
                batches[:-1],
            )
        )
        if len(eligible) == len(batches) - 1:
            self._compacted[log] = log.end_offset
        forget_after = self._configs.topic_number(name, "delete.retention.ms")
        kept = compacted(log, eligible, now - forget_after)
        if kept is not None:
            log.replace_batches(kept + batches[len(eligible) :])


def compacted(
    log: PartitionLog, batches: list[StoredBatch], tombstones_until: int
) -> list[StoredBatch] | None:
    """The log's first batches with only the last committed record of each key; None if nothing is superseded.

    Records of aborted transactions are removed, and so are those without a key, which are from before the topic was
    compacted; further tombstones older than `tombstones_until`, and markers if nothing is left of their transactions.
    The last batch of a producer stays, though it may be empty: it has the producer's epoch and sequence number, which
    are read from the log after a restart.
    """
    aborted = defaultdict[int, list[AbortedTransaction]](list)
    for transaction in log.aborted:
        aborted[transaction.producer_id].append(transaction)
    decoded = {
        batch.base_offset: batch.decode()
        for batch in batches
        if not batch.is_control and not is_aborted(batch, aborted[batch.producer_id])
    }
    last = {
        bytes(record.key): record.offset
        for batch in decoded.values()
        for record in batch
        if record.key is not None
    }
    producers = dict(log.producers.items())
    unended: set[int] = set()
    """Producers with batches that are kept, since their last marker."""
    kept: list[StoredBatch] = []
    for stored in batches:
        producer = producers.get(stored.producer_id)
        if stored.is_control:
            is_last = (
                producer is not None and not producer.written and producer.epoch == stored.producer_epoch
            )
            if stored.producer_id in unended or is_last or stored.max_timestamp > tombstones_until:
                kept.append(stored)
            unended.discard(stored.producer_id)
            continue
        offsets = {
            record.offset
            for record in decoded.get(stored.base_offset, ())
            if record.key is not None
            and last[bytes(record.key)] == record.offset
            and (record.value is not None or record.timestamp > tombstones_until)
        }
        is_last = producer is not None and producer.last_base_offset == stored.base_offset
        if not offsets and not is_last:
            continue
        batch = stored.decode()
        kept.append(stored if len(offsets) == batch.record_count else _with_only(batch, offsets))
        if stored.is_transactional:
            unended.add(stored.producer_id)
    return kept if kept != batches else None


def _with_only(batch: Batch, offsets: set[int]) -> StoredBatch:
    """A copy of the batch with only these records, or none. It has the same first and last offset."""
    builder = BatchBuilder(
        compression=batch.compression if offsets else Compression.NONE,
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        append_time=batch.max_timestamp if batch.has_append_time else None,
    )
    for record in batch:
        if record.offset in offsets:
            builder.append(
                record.value,
                timestamp=record.timestamp,
                key=record.key,
                headers=record.headers,
                offset=record.offset,
            )
    return StoredBatch.of(next(read_batches(builder.build(last_offset=batch.last_offset))))
