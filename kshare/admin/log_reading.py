"""Reads a topic's log with plain Fetch requests, in whole batches and without a group.

Decides what to retry: after a leader has moved, or a connection broke. `kshare.admin.read_replicas` decides whether a
follower is asked; if it fails, the leader is asked at once. Requests contain topic ids, so that a recreated topic isn't
mistaken for the old one. `kshare.state.aborted` decides which batches are for users, the caller which of their records.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import NamedTuple

import anyio

from kshare.admin.expected_rows import expected_row
from kshare.admin.read_replicas import LogPartition, ReadReplicas
from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import BrokerError, ConnectionLost, CorruptBatchError, KshareError, RequestTimedOut
from kshare.net.permissions import Right
from kshare.protocol.decompression_budget import DecompressionBudget
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import FetchRequest, FetchResponse, MetadataRequest, MetadataResponse
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.fetch_response import PartitionData
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.primitives import Buffer
from kshare.protocol.records import Batch, read_batches
from kshare.state.aborted import AbortedTransactions

log = logging.getLogger("kshare.admin")

_USUAL_BYTES = 1 << 20
_WAIT_S = 0.5
_DISOWNED = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class FetchedBatches(NamedTuple):
    """One response: batches from the one that contains the requested offset on, cut off where the response was full."""

    records: Buffer
    aborted: list[tuple[int, int]]
    """Producer ids and first offsets of aborted transactions that overlap it."""
    log_start: int
    end: int
    """The first offset that can't be read yet: the high watermark, or the last stable offset."""

    def batches(self, budget: DecompressionBudget | None = None) -> Iterator[tuple[Batch, bool]]:
        """Yield each whole batch, and whether it is for users.

        Raises CorruptBatchError if a batch begins before the end of the previous one: no checksum covers base offsets
        and lengths.
        """
        aborted = AbortedTransactions(self.aborted)
        end = -1
        for batch in read_batches(self.records, budget=budget):
            if batch.base_offset <= end or batch.last_offset_delta < 0:
                reason = f"it ends at offset {batch.last_offset}, and the previous one at {end}"
                raise CorruptBatchError(batch.base_offset, 0, reason)
            end = batch.last_offset
            yield batch, not aborted.hides(batch)


class LogReader:
    """Reads logs and remembers leaders. The router's limit is for one `fetch` with its retries, `try_s` for one try.

    With a rack, followers in it are read, if brokers are configured to name them. `wait_s`: for how long a broker that
    has nothing waits for records.
    """

    def __init__(
        self,
        router: Router,
        *,
        is_committed_only: bool = False,
        try_s: float = 30.0,
        rack: str | None = None,
        wait_s: float = _WAIT_S,
    ) -> None:
        self._router = router
        self._is_committed_only = is_committed_only
        self._attempt_timeout_s = try_s
        self._wait_ms = round(1000 * wait_s)
        self._leaders: dict[LogPartition, int] = {}
        self._replicas = ReadReplicas(rack, anyio.current_time)
        self._names: dict[bytes, str] = {}

    async def fetch(self, where: LogPartition, offset: int, max_bytes: int = _USUAL_BYTES) -> FetchedBatches:
        """Fetch batches from this offset on; empty if there are none within `wait_s`.

        Raises BrokerError: OFFSET_OUT_OF_RANGE if the log ends before the offset or starts after it, UNKNOWN_TOPIC_ID
        if the topic was deleted, UNKNOWN_TOPIC_OR_PARTITION if it doesn't have this partition.
        """

        async def step(deadline: float) -> FetchedBatches:
            response = await self._ask_follower(where, offset, max_bytes, deadline)
            if response is None:
                response = await self._ask_leader(where, offset, max_bytes, deadline)
                named = self._row(response, where).preferred_read_replica
                if named >= 0:
                    # Without records: the leader expects us to fetch them there.
                    self._replicas.prefer(where, named)
                    response = await self._ask_follower(
                        where, offset, max_bytes, deadline
                    ) or await self._ask_leader(where, offset, max_bytes, deadline)
            return self._read(response, where)

        return await self._router.retry(step)

    async def _ask_leader(
        self, where: LogPartition, offset: int, max_bytes: int, deadline: float
    ) -> FetchResponse:
        attempt_deadline = min(deadline, anyio.current_time() + self._attempt_timeout_s)
        leader = self._leaders.get(where)
        if leader is None:
            leader = await self._find_leader(where, attempt_deadline)
        request = self._request(where, offset, max_bytes, self._replicas.rack(where))
        try:
            return await self._router.ask(leader, request, self._errors_of, attempt_deadline)
        except (ConnectionLost, RequestTimedOut):
            self._leaders.pop(where, None)
            raise
        except BrokerError as error:
            self._leaders.pop(where, None)
            if error.code not in _DISOWNED:
                raise
            # A new leader may not know the topic yet. Metadata tells whether it was deleted.
            await self._find_leader(where, attempt_deadline)
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)) from None

    async def _ask_follower(
        self, where: LogPartition, offset: int, max_bytes: int, deadline: float
    ) -> FetchResponse | None:
        """None if the leader has to be asked: none is preferred, it failed, or it doesn't have these records yet."""
        follower = self._replicas.follower(where)
        if follower is None:
            return None
        now = anyio.current_time()
        request = self._request(where, offset, max_bytes, self._replicas.rack(where))
        # Half of the time is left for the leader.
        attempt_deadline = min(now + (deadline - now) / 2, now + self._attempt_timeout_s)
        try:
            response = await self._router.ask(follower, request, self._errors_of, attempt_deadline)
            if self._row(response, where).records:
                return response
        except KshareError as error:
            log.info("reading from the leader instead of broker %d: %s", follower, error)
        self._replicas.avoid_follower(where)
        return None

    async def batches(
        self,
        where: LogPartition,
        first: int,
        end: int | None = None,
        budget: DecompressionBudget | None = None,
    ) -> AsyncIterator[Batch]:
        """Yield the batches for users with offsets from `first` up to, not including, `end`; forever without `end`.

        The first and the last batch may contain records outside of that.
        """
        at = first
        while end is None or at < end:
            fetch = await self.fetch(where, at)
            for batch, is_for_users in fetch.batches(budget):
                if end is not None and batch.base_offset >= end:
                    return
                at = batch.last_offset + 1
                if is_for_users:
                    yield batch

    def _request(self, where: LogPartition, offset: int, max_bytes: int, rack: str) -> FetchRequest:
        wanted = FetchPartition(where[1], fetch_offset=offset, partition_max_bytes=max_bytes)
        return FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(self._is_committed_only),
            topics=[FetchTopic(topic_id=where[0], partitions=[wanted])],
            rack_id=rack,
        )

    def _row(self, response: FetchResponse, where: LogPartition) -> PartitionData:
        subject = f"{self._names.get(where[0], where[0].hex())}[{where[1]}]"
        topic = expected_row(response.responses, "Fetch", subject)
        return expected_row(topic.partitions, "Fetch", subject)

    def _read(self, response: FetchResponse, where: LogPartition) -> FetchedBatches:
        row = self._row(response, where)
        return FetchedBatches(
            row.records or b"",
            [(aborted.producer_id, aborted.first_offset) for aborted in row.aborted_transactions or ()],
            row.log_start_offset,
            row.last_stable_offset if self._is_committed_only else row.high_watermark,
        )

    def _errors_of(self, response: FetchResponse) -> Iterable[ResponseError | None]:
        yield response_error(response, "reading")
        for topic in response.responses:
            name = self._names.get(topic.topic_id, "")
            for row in topic.partitions:
                action = f"reading {name}[{row.partition_index}]"
                yield response_error(row, action, Right("Read", "topic", name))

    async def _find_leader(self, where: LogPartition, deadline: float) -> int:
        topic_id, partition = where
        request = MetadataRequest([MetadataRequestTopic(topic_id, None)], allow_auto_topic_creation=False)
        response = await self._router.ask(None, request, _metadata_errors, deadline)
        self._router.learn(response)
        topic = expected_row(response.topics, "Metadata", f"the topic with id {topic_id.hex()}")
        self._names[topic_id] = topic.name or topic_id.hex()
        leaders = {row.partition_index: row.leader_id for row in topic.partitions}
        self._leaders |= {(topic_id, number): leader for number, leader in leaders.items() if leader >= 0}
        if where not in self._leaders:
            # Retry if the partition has no leader at the moment, but not if the topic doesn't have the partition.
            is_there = partition in leaders
            code = ErrorCode.LEADER_NOT_AVAILABLE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise BrokerError(code, f"{topic.name}[{partition}]")
        return self._leaders[where]


def _metadata_errors(response: MetadataResponse) -> Iterable[ResponseError | None]:
    yield response_error(response, "finding the brokers")
    for topic in response.topics:
        yield response_error(topic, f"finding the leaders of topic {topic.name or topic.topic_id.hex()}")
