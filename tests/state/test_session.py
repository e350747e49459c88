"""Share sessions: requests, responses, and the resulting state."""

from __future__ import annotations

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest
from kshare.protocol.messages import share_acknowledge_response as acknowledged
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kshare.protocol.messages.share_fetch_response import NodeEndpoint as FetchingEndpoint
from kshare.state.session import AckRange, FetchLimits, Leader, SessionResponse, ShareSession

A, B = b"a" * 16, b"b" * 16
LIMITS = FetchLimits(max_records=500, max_wait_ms=250, max_bytes=1_000_000)
ACCEPTED = {(A, 0): [AckRange(0, 9, b"\x01")]}


def session(*partitions: tuple[bytes, int]) -> ShareSession:
    made = ShareSession("group", "member")
    made.want(partitions or [(A, 0)])
    return made


def opened(*partitions: tuple[bytes, int]) -> ShareSession:
    made = session(*partitions)
    made.on_response(made.fetch(LIMITS, {}), ShareFetchResponse())
    return made


def fetched(*rows: tuple[tuple[bytes, int], PartitionData], lock_ms: int = 30000) -> ShareFetchResponse:
    topics = []
    for (topic_id, number), data in rows:
        data.partition_index = number
        topics.append(ShareFetchableTopicResponse(topic_id, [data]))
    return ShareFetchResponse(responses=topics, acquisition_lock_timeout_ms=lock_ms)


def named(request: object) -> dict[tuple[bytes, int], list[AckRange]]:
    assert isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest)
    return {
        (topic.topic_id, partition.partition_index): [
            AckRange(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("is_fetch", [True, False])
def test_address_of_a_moved_leader_is_returned(is_fetch: bool) -> None:
    one = opened()
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if is_fetch:
        data = PartitionData(0, error_code=moved, current_leader=LeaderIdAndEpoch(7, 3))
        said = fetched(((A, 0), data))
        said.node_endpoints = [FetchingEndpoint(7, "seventh", 9092)]
        response = one.on_response(one.fetch(LIMITS, {}), said)
    else:
        row = acknowledged.PartitionData(0, moved, None, acknowledged.LeaderIdAndEpoch(7, 3))
        topics = [acknowledged.ShareAcknowledgeTopicResponse(A, [row])]
        endpoints = [acknowledged.NodeEndpoint(7, "seventh", 9092)]
        refused = ShareAcknowledgeResponse(responses=topics, node_endpoints=endpoints)
        response = one.on_response(one.acknowledge(ACCEPTED), refused)
    assert list(response.leaders) == [Leader((A, 0), 7, 3)]
    assert [(endpoint.node_id, endpoint.host, endpoint.port) for endpoint in response.endpoints] == [
        (7, "seventh", 9092)
    ]


def test_first_request_has_epoch_0_and_all_partitions() -> None:
    request = session((A, 1), (B, 0), (A, 0)).fetch(LIMITS, {}).request
    assert isinstance(request, ShareFetchRequest)
    assert (request.group_id, request.member_id, request.share_session_epoch) == ("group", "member", 0)
    assert named(request) == {(A, 0): [], (A, 1): [], (B, 0): []}
    assert (request.max_records, request.batch_size, request.max_wait_ms, request.min_bytes) == (
        500,
        500,
        250,
        1,
    )


def test_rule_1_opening_request_has_no_acknowledgements() -> None:
    fresh = session()
    assert not fresh.is_open
    with pytest.raises(ValueError, match="the request that opens a session may carry no acknowledgements"):
        fresh.fetch(LIMITS, ACCEPTED)
    with pytest.raises(ValueError, match="may carry no acknowledgements"):
        fresh.acknowledge(ACCEPTED)


def test_later_requests_increase_the_epoch_and_have_only_changes() -> None:
    made = opened((A, 0), (A, 1))
    assert made.is_open
    assert not made.has_partition_changes
    sent = made.fetch(LIMITS, {})
    assert sent.request.share_session_epoch == 1
    assert named(sent.request) == {}
    made.on_response(sent, ShareFetchResponse())
    made.want([(A, 1), (B, 3)])
    assert made.has_partition_changes
    sent = made.fetch(LIMITS, {})
    assert isinstance(sent.request, ShareFetchRequest)
    assert sent.request.share_session_epoch == 2
    assert named(sent.request) == {(B, 3): []}
    assert [(topic.topic_id, topic.partitions) for topic in sent.request.forgotten_topics_data] == [(A, [0])]
    made.on_response(sent, ShareFetchResponse())
    assert not made.has_partition_changes


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_rule_2_session_error_reopens_the_session(error: ErrorCode) -> None:
    made = opened()
    response = made.on_response(
        made.fetch(LIMITS, ACCEPTED), ShareFetchResponse(error_code=error, error_message="why")
    )
    assert (response.error, response.message) == (error, "why")
    assert not made.is_open
    sent = made.fetch(LIMITS, {})
    assert sent.request.share_session_epoch == 0
    assert named(sent.request) == {(A, 0): []}


def test_rule_2_lost_connection_resets_the_session() -> None:
    made = opened()
    made.fetch(LIMITS, {})
    made.reset()
    assert made.under_way is None
    assert made.fetch(LIMITS, {}).request.share_session_epoch == 0


def test_rule_4_partition_is_forgotten_although_nothing_else_is_sent() -> None:
    made = opened((A, 0))
    made.want([])
    assert made.has_partition_changes
    request = made.fetch(LIMITS, {}).request
    assert isinstance(request, ShareFetchRequest)
    assert [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data] == [(A, [0])]


@pytest.mark.parametrize("by_fetch", [True, False])
def test_rule_5_partition_in_an_acknowledgement_is_forgotten_later(by_fetch: bool) -> None:
    made = opened((A, 0), (B, 0))
    made.want([(B, 0)])
    if by_fetch:
        sent = made.fetch(LIMITS, ACCEPTED)
        made.on_response(sent, fetched(((A, 0), PartitionData())))
        assert isinstance(sent.request, ShareFetchRequest)
        assert sent.request.forgotten_topics_data == []
    else:
        sent = made.acknowledge(ACCEPTED)
        made.on_response(sent, ShareAcknowledgeResponse())
    assert named(sent.request) == ACCEPTED
    assert made.has_partition_changes
    request = made.fetch(LIMITS, {}).request
    assert isinstance(request, ShareFetchRequest)
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [A]


def test_an_acknowledgement_without_a_fetch_adds_no_partition() -> None:
    """The broker has forgotten the partition: unless it is added again, it returns no more records of it."""
    made = opened((A, 0))
    made.want([])
    made.on_response(made.fetch(LIMITS, {}), ShareFetchResponse())
    made.on_response(made.acknowledge(ACCEPTED), _acknowledged(0))
    assert not made.has_partition_changes
    made.want([(A, 0)])
    assert made.has_partition_changes
    assert named(made.fetch(LIMITS, {}).request) == {(A, 0): []}


def test_rule_6_renewals_are_marked() -> None:
    request = opened().acknowledge({(A, 0): [AckRange(0, 9, b"\x04")]}, is_renewing=True).request
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.is_renew_ack
    assert request.encode(2)


def test_rule_15_one_request_at_a_time() -> None:
    made = opened()
    sent = made.fetch(LIMITS, {})
    assert made.under_way is sent
    with pytest.raises(ValueError, match="one after another"):
        made.acknowledge(ACCEPTED)


def test_rule_15_response_from_before_a_reset_is_dropped() -> None:
    made = opened()
    late = made.fetch(LIMITS, {})
    made.reset()
    current = made.fetch(LIMITS, {})
    rows = fetched(((A, 0), PartitionData(acquired_records=[AcquiredRecords(0, 9, 1)])))
    assert made.on_response(late, rows) == SessionResponse()
    assert not made.is_open
    assert made.on_response(current, rows) != SessionResponse()
    assert made.is_open


def test_rule_16_closing_includes_the_last_acknowledgements() -> None:
    made = opened()
    sent = made.close(ACCEPTED)
    assert sent.request.share_session_epoch == -1
    assert named(sent.request) == ACCEPTED
    response = made.on_response(sent, _acknowledged(0))
    assert response.acknowledged == {(A, 0): 0}
    assert not made.is_open


def test_response_is_split_into_its_parts() -> None:
    made = opened((A, 0), (A, 1), (B, 0))
    moved = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(3, 17))
    acquired = PartitionData(records=b"r", acquired_records=[AcquiredRecords(10, 19, 2)])
    refused = PartitionData(acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE)
    sent = made.fetch(LIMITS, {(A, 0): [AckRange(0, 9, b"\x01")], (B, 0): [AckRange(5, 5, b"\x02")]})
    response = made.on_response(
        sent, fetched(((A, 0), acquired), ((A, 1), moved), ((B, 0), refused), lock_ms=15000)
    )
    assert response.acknowledged == {(A, 0): 0, (B, 0): ErrorCode.INVALID_RECORD_STATE}
    assert [partition for partition, _ in response.acquired] == [(A, 0)]
    assert response.failed == {(A, 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert response.leaders == [Leader((A, 1), 3, 17)]
    assert response.lock_ms == 15000
    assert response.without_response == frozenset()


def test_acknowledgement_without_a_response_is_without_response() -> None:
    made = opened((A, 0), (B, 0))
    sent = made.acknowledge(ACCEPTED | {(B, 0): [AckRange(1, 1, b"\x01")]})
    response = made.on_response(sent, _acknowledged(0))
    assert response.acknowledged == {(A, 0): 0}
    assert response.without_response == {(B, 0)}


def test_unknown_leader_is_not_returned() -> None:
    made = opened()
    moved = PartitionData(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(-1, -1)
    )
    assert made.on_response(made.fetch(LIMITS, {}), fetched(((A, 0), moved))).leaders == []


def test_epoch_restarts_at_1_after_the_highest() -> None:
    made = opened()
    made._epoch = 2**31 - 1
    made.on_response(made.fetch(LIMITS, {}), ShareFetchResponse())
    assert made.fetch(LIMITS, {}).request.share_session_epoch == 1


def test_unopened_session_cannot_be_closed() -> None:
    with pytest.raises(ValueError, match="nothing to acknowledge or to close"):
        session().close({})


def _acknowledged(error: int) -> ShareAcknowledgeResponse:
    partition = acknowledged.PartitionData(partition_index=0, error_code=error)
    return ShareAcknowledgeResponse(responses=[acknowledged.ShareAcknowledgeTopicResponse(A, [partition])])


def test_unexpected_or_repeated_partitions_are_ignored() -> None:
    """After a flipped bit in a topic id or partition number, other records would be settled."""
    one = opened((A, 0), (A, 1))
    sent = one.fetch(LIMITS, {})
    rows = [
        ((A, 0), PartitionData(acquired_records=[AcquiredRecords(0, 1, 1)])),
        ((A, 0), PartitionData(acquired_records=[AcquiredRecords(5, 6, 1)])),
        ((A, 2), PartitionData(acquired_records=[AcquiredRecords(0, 1, 1)])),
        ((B, 0), PartitionData(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
    ]
    response = one.on_response(sent, fetched(*rows))
    assert [(partition, data.acquired_records[0].first_offset) for partition, data in response.acquired] == [
        ((A, 0), 0)
    ]
    assert response.unexpected == [(A, 0), (A, 2), (B, 0)]
    assert not response.failed
