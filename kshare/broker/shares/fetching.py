"""A share fetch: looks for records, and waits until there are some.

Decides when a fetch has waited long enough, and how its partitions share its limits. Records are acquired from one
partition after the other until there are enough; the bytes are divided evenly.

A share-partition that was never fetched is cold: a broker reads its state in the background. A fetch with cold
share-partitions first tries the loaded ones, then each of the others as it is loaded, and returns as soon as it has
records. The next fetch returns the rest.

Records go to the fetch that has waited longest. Acknowledgements in a request may make room for others, and wake a
waiting fetch: then the fetch of the same request comes after it, so that a burst isn't taken by one member.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshare.broker.cluster import TopicIdPartition
from kshare.broker.connection import Call
from kshare.broker.notifiers import Notifier, let_others_first
from kshare.broker.request_error import RequestError
from kshare.broker.shares.acknowledging import check_topic
from kshare.broker.shares.sessions import ShareSession
from kshare.broker.shares.share_partition_leader import (
    PartitionRecords,
    ReadableBatches,
    SharePartitionLeader,
)
from kshare.protocol.error_codes import ErrorCode

RecordsByPartition = dict[TopicIdPartition, PartitionRecords | RequestError]


@dataclass(slots=True, frozen=True)
class FetchParameters:
    """The parameters of a request."""

    max_records: int
    batch_size: int
    is_strict: bool
    min_bytes: int
    max_bytes: int
    max_wait_ms: int


class ShareFetching:
    """One fetch."""

    def __init__(self, call: Call, session: ShareSession, parameters: FetchParameters) -> None:
        self._call = call
        self._session = session
        self._epoch = session.epoch
        self._parameters = parameters
        self._found: RecordsByPartition = {}
        self._leaders: dict[TopicIdPartition, SharePartitionLeader] = {}
        self._loading: set[TopicIdPartition] = set()
        """Cold share-partitions, which this fetch doesn't use yet."""

    async def run(self) -> RecordsByPartition:
        """The result of each partition. Raises RequestError if the session was closed or used by another request."""
        if self._parameters.max_records <= 0:
            return {}
        try:
            wait_ms = self._parameters.max_wait_ms
            return await self._wait_for_records(self._call.now + wait_ms, self._call.real_deadline(wait_ms))
        finally:
            self._wake_next()

    async def _wait_for_records(self, deadline: int, real_deadline: float) -> RecordsByPartition:
        is_newcomer = True
        while True:
            self._check_session()
            self._open()
            if is_newcomer:
                is_newcomer = False
                if await let_others_first([leader.available for leader in self._leaders.values()]):
                    continue
            if self._deliver(is_last=self._call.now >= deadline):
                return self._found
            if self._loading:
                # Loading takes no time here. A real broker that can't wait for it returns nothing half of the time.
                self._finish_one_load()
                continue
            if not self._leaders:
                return self._found
            self._wake_next()
            if not await self._call.wait(self._notifiers(), deadline, real_deadline):
                break
        if self._call.connection.is_open:
            self._call.broker.counters.fetches_expired[self._session.group] += 1
            self._check_session()
            self._open()
            self._deliver(is_last=True)
        return self._found

    def _check_session(self) -> None:
        current = self._call.broker.shares.sessions(self._call.node).find(self._session.owner)
        if current is None:
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if current is not self._session or current.epoch != self._epoch:
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)

    def _open(self) -> None:
        """Look up the leaders again: while we wait, leaders may move, and topics may be deleted."""
        self._found.clear()
        self._leaders.clear()
        for topic_partition in self._session.rotated():
            try:
                if self._parameters.max_bytes < 0:
                    raise RequestError(
                        ErrorCode.UNKNOWN_SERVER_ERROR,
                        f"invalid max_bytes: {self._parameters.max_bytes} bytes",
                    )
                check_topic(self._call, topic_partition)
                leader, is_cold = self._call.broker.shares.leader(
                    self._session.group, topic_partition, self._call.node
                )
            except RequestError as refusal:
                self._found[topic_partition] = refusal
                continue
            if is_cold:
                self._loading.add(topic_partition)
            if topic_partition not in self._loading:
                self._leaders[topic_partition] = leader

    def _finish_one_load(self) -> None:
        """In the order of a 4.3.1 broker: it starts one partition before the first that it acquires from."""
        *others, last = self._session.rotated()
        self._loading.remove(next(each for each in (last, *others) if each in self._loading))

    def _deliver(self, is_last: bool) -> bool:
        """Acquire records. Returns whether the fetch is done.

        As in real brokers, it is also done, without records, if the log start has passed a share-partition's next
        offset, or if all records were aborted.
        """
        moved = [leader for leader in self._leaders.values() if leader.follow_log()]
        part = self._parameters.max_bytes // max(len(self._leaders), 1)
        readable_batches = {
            topic_partition: ReadableBatches([], False)
            if moved
            else leader.look(part, self._parameters.max_records)
            for topic_partition, leader in self._leaders.items()
        }
        size = sum(batch.size for readable in readable_batches.values() for batch in readable.batches)
        is_enough = (
            is_last
            or size >= self._parameters.min_bytes
            or any(readable.has_more for readable in readable_batches.values())
        )
        remaining = self._parameters.max_records if is_enough else 0
        has_available = False
        for topic_partition, readable in readable_batches.items():
            handout = PartitionRecords([], [])
            if remaining > 0 and readable.batches:
                handout = self._leaders[topic_partition].acquire(
                    self._session.member,
                    readable.batches,
                    remaining,
                    self._parameters.batch_size,
                    self._parameters.is_strict,
                )
                remaining -= sum(each.size for each in handout.acquired)
            has_available |= bool(handout.acquired) or handout.has_skipped
            self._found[topic_partition] = handout
        return has_available or bool(moved)

    def _wake_next(self) -> None:
        """Wake another fetch, for records that this one left."""
        for leader in self._leaders.values():
            leader.wake_next()

    def _notifiers(self) -> Iterator[Notifier]:
        for leader in self._leaders.values():
            yield leader.available
