"""Two nodes with one share-partition, as calls: a request is handled when an event says so, and answered later.

What brokers decide is decided by the embedded broker's code for sessions and share-partitions, which knows nothing of
the client's. Here is only what is around it: who leads, which requests are on their way, which fetch waits.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kshare.broker.request_error import RequestError
from kshare.broker.share_state.state_batches import StateBatch
from kshare.broker.shares.acknowledging import read_ranges
from kshare.broker.shares.delivery import GroupLimits, RecordState
from kshare.broker.shares.sessions import CLOSE, OPEN, ShareSessions
from kshare.broker.shares.share_partition import Change, SharePartition
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse
from kshare.protocol.messages import share_acknowledge_response as acknowledged
from kshare.protocol.messages import share_fetch_response as fetched
from kshare.protocol.record_builder import BatchBuilder

TOPIC = b"t" * 16
PARTITION = (TOPIC, 0)
NODES = (1, 2)
LOCK_S = 30.0
LIMITS = GroupLimits(lock_ms=int(LOCK_S * 1000))
_MOST_SESSIONS = 10


class ShareCluster:
    def __init__(self, records: int) -> None:
        self.records = records
        self.leader = NODES[0]
        self.leader_epoch = 0
        self.partition = SharePartition(0)
        self.sessions = {node: ShareSessions() for node in NODES}
        self.is_coordinator_away = False
        """The next acknowledgements can't be stored."""
        builder = BatchBuilder(base_offset=0, leader_epoch=0)
        for offset in range(records):
            builder.append(b"%d" % offset, timestamp=0, offset=offset)
        self._batch = bytes(builder.build())

    # --- requests

    def handle(
        self, node: int, member: str, connection: int, request: Any, now_ms: int, errors: dict[Any, int]
    ) -> Any:
        """The response; None for a fetch that waits for records. `errors` is filled with outcomes."""
        is_fetch = isinstance(request, ShareFetchRequest)
        kind: Any = ShareFetchResponse if is_fetch else ShareAcknowledgeResponse
        sessions, owner, epoch = self.sessions[node], ("group", member), request.share_session_epoch
        batches = {
            (topic.topic_id, row.partition_index): row.acknowledgement_batches
            for topic in request.topics
            for row in topic.partitions
        }
        try:
            if epoch == OPEN:
                if any(batches.values()):
                    raise RequestError(ErrorCode.INVALID_REQUEST, "acknowledgements for a new session")
                session = sessions.open(owner, connection, _MOST_SESSIONS)
            else:
                session = sessions.next_epoch(owner, epoch)
        except RequestError as refusal:
            return kind(error_code=refusal.code)
        if is_fetch:
            forgotten = [
                (topic.topic_id, number)
                for topic in request.forgotten_topics_data
                for number in topic.partitions
            ]
            session.change(batches, forgotten)
        for where, ranges in batches.items():
            if ranges:
                errors[where] = self._acknowledge(node, member, ranges, now_ms, is_renewal=_renews(request))
        if epoch == CLOSE:
            sessions.close(session)
            self._release(node, member, now_ms)
        if not is_fetch:
            rows = [self._acknowledged(node, where, error) for where, error in errors.items()]
            return ShareAcknowledgeResponse(responses=rows, acquisition_lock_timeout_ms=int(LOCK_S * 1000))
        return self.fetch(node, member, request, now_ms, errors)

    def fetch(
        self,
        node: int,
        member: str,
        request: Any,
        now_ms: int,
        errors: dict[Any, int],
        *,
        is_over: bool = False,
    ) -> Any:
        """`is_over`: the fetch has waited long enough."""
        session = self.sessions[node].find(("group", member))
        if session is None:  # it has ended while the fetch has waited
            return ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)
        rows: list[Any] = []
        for where in [*session.partitions]:
            row = fetched.PartitionData(partition_index=where[1], acknowledge_error_code=errors.get(where, 0))
            if node != self.leader:
                row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                row.current_leader = fetched.LeaderIdAndEpoch(self.leader, self.leader_epoch)
            else:
                row.acquired_records = [
                    fetched.AcquiredRecords(acquired.first, acquired.last, acquired.count)
                    for acquired in self._acquire(member, request, now_ms)
                ]
                row.records = self._batch if row.acquired_records else b""
            if row.error_code or row.acquired_records or where in errors:
                rows.append(fetched.ShareFetchableTopicResponse(where[0], [row]))
        if not is_over and not any(
            row.partitions[0].error_code or row.partitions[0].acquired_records for row in rows
        ):
            return None
        return ShareFetchResponse(
            responses=rows,
            acquisition_lock_timeout_ms=int(LOCK_S * 1000),
            node_endpoints=[fetched.NodeEndpoint(node, f"node-{node}", 9092, None) for node in NODES],
        )

    def has_records(self) -> bool:
        """Whether a fetch would get some."""
        return self.partition.window.next_available() < self.records

    def _acquire(self, member: str, request: Any, now_ms: int) -> Any:
        start = self.partition.window.next_available()
        if start >= self.records:
            return []
        return self.partition.acquire(
            member,
            [(0, self.records - 1)],
            max_records=request.max_records,
            batch_size=request.batch_size,
            is_strict=request.share_acquire_mode == 1,
            limits=LIMITS,
            now=now_ms,
        )

    def _acknowledge(self, node: int, member: str, batches: Any, now_ms: int, *, is_renewal: bool) -> int:
        if node != self.leader:
            return int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.is_coordinator_away:
            self.is_coordinator_away = False
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            change = self.partition.acknowledge(member, read_ranges(batches, is_renewal), LIMITS)
        except RequestError as refusal:
            return int(refusal.code)
        self.partition.apply(change, now_ms, LIMITS)
        return 0

    def _acknowledged(self, node: int, where: tuple[bytes, int], error: int) -> Any:
        row = acknowledged.PartitionData(partition_index=where[1], error_code=error)
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            row.current_leader = acknowledged.LeaderIdAndEpoch(self.leader, self.leader_epoch)
        return acknowledged.ShareAcknowledgeTopicResponse(where[0], [row])

    # --- what happens to brokers

    def end_connection(self, node: int, connection: int, now_ms: int) -> None:
        """The node has noticed it. A session that has been opened again on another connection goes on."""
        for session in self.sessions[node].of_connection(connection):
            self.end_session(node, session.member, now_ms)

    def end_session(self, node: int, member: str, now_ms: int) -> None:
        session = self.sessions[node].find(("group", member))
        if session is not None:
            self.sessions[node].close(session)
            self._release(node, member, now_ms)

    def _release(self, node: int, member: str, now_ms: int) -> None:
        if node == self.leader:
            self._apply(self.partition.release(member, LIMITS), now_ms)

    def expire(self, now_ms: int) -> None:
        self._apply(self.partition.expire(now_ms, LIMITS), now_ms)

    def _apply(self, change: Change, now_ms: int) -> None:
        self.partition.apply(change, now_ms, LIMITS)

    def move_leader(self) -> None:
        """The new leader reads what is stored. Locks aren't."""
        window = self.partition.window
        stored = [
            StateBatch(first, last, delivery.state, delivery.count) for first, last, delivery in window.runs()
        ]
        self.leader = next(node for node in NODES if node != self.leader)
        self.leader_epoch += 1
        self.partition = SharePartition(window.start, stored)

    # --- what is known

    def state_of(self, offset: int) -> tuple[RecordState, str]:
        """The state of a record, and who holds it."""
        window = self.partition.window
        if offset < window.start:
            return RecordState.ACKNOWLEDGED, ""
        for first, last, delivery in window.runs():
            if first <= offset <= last:
                return delivery.state, delivery.member
        return RecordState.AVAILABLE, ""

    def fingerprint(self, names: dict[str, int], now_ms: int) -> Hashable:
        window = self.partition.window
        return (
            self.leader,
            self.leader_epoch,
            window.start,
            window.end,
            tuple(
                (
                    first,
                    last,
                    delivery.state,
                    delivery.count,
                    names.get(delivery.member),
                    coarse((delivery.lock_until - now_ms) / 1000) if delivery.lock_until else None,
                )
                for first, last, delivery in window.runs()
            ),
            tuple(batch.first for batch in window.batches),
            self.is_coordinator_away,
        )


def coarse(seconds: float) -> int:
    """A time from now on, in steps of five seconds: states that differ by less are the same."""
    return round(max(-10.0, min(seconds, 1000.0)) / 5)


def _renews(request: Any) -> bool:
    return bool(getattr(request, "is_renew_ack", False))
