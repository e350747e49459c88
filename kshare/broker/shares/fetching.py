"""A share fetch: looks for records, and waits until there are some.

Decides when a fetch has waited long enough, and how the room for records and bytes is shared by its partitions: one
after the other until there are enough records, each partition with an even part of the bytes.

A share-partition that nobody has fetched before is cold: a broker reads its state in the background. The fetch that
finds some of them cold sees the loaded ones first, then the others as they are loaded, one by one, and is answered as
soon as there is something to answer it with. The next fetch has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.shares.acknowledging import check_topic
from kshare.broker.shares.sessions import ShareSession, TopicIdPartition
from kshare.broker.shares.share_partition_leader import (
    PartitionRecords,
    ReadableBatches,
    SharePartitionLeader,
)
from kshare.broker.signals import Signal
from kshare.protocol.error_codes import ErrorCode

RecordsByPartition = dict[TopicIdPartition, PartitionRecords | RequestError]


@dataclass(slots=True, frozen=True)
class FetchParameters:
    """What a request asks for."""

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
        """Cold ones, which this fetch doesn't see yet."""

    async def run(self) -> RecordsByPartition:
        """What each partition of the session gives; raises Refusal when the session went on without us."""
        if self._parameters.max_records <= 0:
            return {}
        try:
            return await self._wait_for_records(self._call.now + self._parameters.max_wait_ms)
        finally:
            self._pass_on()

    async def _wait_for_records(self, deadline: int) -> RecordsByPartition:
        while True:
            self._check_session()
            self._open()
            if self._deliver(is_last=self._call.now >= deadline):
                return self._found
            if self._loading:
                # Takes no time here. A real broker that may not wait for it answers with nothing half of the time.
                self._finish_one_load()
                continue
            if not self._leaders:
                return self._found
            self._pass_on()
            if not await self._call.wait(self._signals(), deadline):
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
        """Leaders move and topics go while we wait."""
        self._found.clear()
        self._leaders.clear()
        for topic_partition in self._session.rotated():
            try:
                if self._parameters.max_bytes < 0:
                    raise RequestError(
                        ErrorCode.UNKNOWN_SERVER_ERROR, f"at most {self._parameters.max_bytes} bytes"
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
        """As a 4.3.1 does, which begins one partition before the one that it begins to hand out from."""
        *others, last = self._session.rotated()
        self._loading.remove(next(each for each in (last, *others) if each in self._loading))

    def _deliver(self, is_last: bool) -> bool:
        """Whether the fetch is done.

        It is too, with nothing, where the log had moved away under a share-partition or all was aborted: as brokers do.
        """
        moved = [leader for leader in self._leaders.values() if leader.follow_log()]
        part = self._parameters.max_bytes // max(len(self._leaders), 1)
        looked = {
            topic_partition: ReadableBatches([], False)
            if moved
            else leader.look(part, self._parameters.max_records)
            for topic_partition, leader in self._leaders.items()
        }
        size = sum(batch.size for look in looked.values() for batch in look.batches)
        is_enough = (
            is_last or size >= self._parameters.min_bytes or any(look.has_more for look in looked.values())
        )
        left = self._parameters.max_records if is_enough else 0
        has_available = False
        for topic_partition, look in looked.items():
            handout = PartitionRecords([], [])
            if left > 0 and look.batches:
                handout = self._leaders[topic_partition].acquire(
                    self._session.member,
                    look.batches,
                    left,
                    self._parameters.batch_size,
                    self._parameters.is_strict,
                )
                left -= sum(each.size for each in handout.acquired)
            has_available |= bool(handout.acquired) or handout.has_skipped
            self._found[topic_partition] = handout
        return has_available or bool(moved)

    def _pass_on(self) -> None:
        """Another fetch may want what this one left, or couldn't use."""
        for leader in self._leaders.values():
            leader.wake_next()

    def _signals(self) -> Iterator[Signal]:
        for leader in self._leaders.values():
            yield leader.available
