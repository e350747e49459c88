"""Fetch v4-18: whole batches, for classic consumers. Waits until there are enough bytes, or the wait time is over.

Fetch sessions aren't supported: each response has session id 0, so clients send all partitions each time.

v4: the first supported version: isolation levels and aborted transactions.
v5: the request adds LogStartOffset; the response adds LogStartOffset.
v6: may return KAFKA_STORAGE_ERROR.
v7: the request adds SessionId, SessionEpoch and ForgottenTopicsData; the response adds ErrorCode and
    SessionId.
v8: when a quota is exceeded, the response is sent before throttling.
v9: the request adds CurrentLeaderEpoch.
v10: records may be compressed by zstd.
v11: the request adds RackId; the response adds PreferredReadReplica.
v12: the request adds ClusterId and LastFetchedEpoch; the response adds DivergingEpoch, CurrentLeader and
    SnapshotId; flexible, with compact lengths and tagged fields.
v13: the request adds TopicId and drops Topic; the response adds TopicId and drops Topic.
v14: may return OFFSET_MOVED_TO_TIERED_STORAGE.
v15: the request adds ReplicaState and drops ReplicaId.
v16: the response adds NodeEndpoints.
v17: the request adds ReplicaDirectoryId.
v18: the request adds HighWatermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from kshare.broker.cluster import Partition
from kshare.broker.connection import Call
from kshare.broker.new_leaders import NewLeaders
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import FetchRequest, FetchResponse
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_BY_ID_SINCE = 13
_READ_COMMITTED = 1
_LEADER_TOLD_SINCE = 16


async def handle(request: FetchRequest, call: Call) -> FetchResponse:
    if request.session_id != 0 and request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    deadline, real_deadline = call.now + request.max_wait_ms, call.real_deadline(request.max_wait_ms)
    while True:
        reading = _Reading(request, call)
        reading.read_all()
        is_enough = reading.size >= request.min_bytes or reading.has_error or not reading.partitions
        signals = [
            signal for partition in reading.partitions for signal in (partition.log.appended, partition.moved)
        ]
        if is_enough or not await call.wait(signals, deadline, real_deadline):
            return reading.response


class _Reading:
    """Reads all requested partitions once."""

    def __init__(self, request: FetchRequest, call: Call) -> None:
        self.response = FetchResponse()
        self.partitions: list[Partition] = []
        self.size = 0
        self.has_error = False
        self._request = request
        self._call = call
        self._max_bytes = min(request.max_bytes, call.broker.configs.broker_number("fetch.max.bytes"))

    def read_all(self) -> None:
        leaders = NewLeaders(self._call.broker.cluster)
        for topic, partitions in self._wanted():
            name = topic.topic_id if self._call.version >= _BY_ID_SINCE else topic.topic
            results = [self._read(name, wanted, leaders) for wanted in partitions]
            self.response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, results))
        self.response.node_endpoints = leaders.endpoints(NodeEndpoint)

    def _wanted(self) -> Iterator[tuple[FetchTopic, list[FetchPartition]]]:
        """Each partition once. If it is named several times, the last one counts, as in Kafka."""
        partitions = {
            (topic.topic, topic.topic_id, wanted.partition): (topic, wanted)
            for topic in self._request.topics
            for wanted in topic.partitions
        }
        for _, group in groupby(partitions.items(), key=lambda each: each[0][:2]):
            found = [value for _, value in group]
            yield found[0][0], [wanted for _, wanted in found]

    def _read(self, name: str | bytes, wanted: FetchPartition, leaders: NewLeaders) -> PartitionData:
        try:
            partition = self._call.broker.cluster.partition_led_by(name, wanted.partition, self._call.node)
            partition.check_epoch(wanted.current_leader_epoch)
            self.partitions.append(partition)
            return self._read_log(partition, wanted)
        except RequestError as refusal:
            self.has_error = True
            result = PartitionData(wanted.partition, refusal.code, -1, records=b"")
            if refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._call.version >= _LEADER_TOLD_SINCE:
                result.current_leader = LeaderIdAndEpoch(*leaders.find(name, wanted.partition))
            return result

    def _read_log(self, partition: Partition, wanted: FetchPartition) -> PartitionData:
        log, offset = partition.log, wanted.fetch_offset
        if not log.start_offset <= offset <= log.end_offset:
            self.has_error = True
            return PartitionData(wanted.partition, ErrorCode.OFFSET_OUT_OF_RANGE, -1, records=b"")
        committed_only = self._request.isolation_level == _READ_COMMITTED
        end = log.readable_end(committed_only)
        result = PartitionData(
            wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=[] if committed_only else None,
            records=b"",
        )
        room = min(wanted.partition_max_bytes, self._max_bytes - self.size)
        if room <= 0 and self.size:
            return result
        span = log.read(offset, room, end)
        # A batch that is too large is sent nevertheless if it is the first in the response.
        if not span or (span.size > room and self.size):
            return result
        result.records = span.data()
        self.size += span.size
        if committed_only:
            result.aborted_transactions = [
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in log.aborted_between(offset, span.last_offset + 1)
            ]
        return result
