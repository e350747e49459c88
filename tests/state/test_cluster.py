"""The view of the cluster: which metadata it requests, and what it concludes from responses; with a manual clock."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kshare.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kshare.protocol.messages.share_fetch_response import NodeEndpoint
from kshare.state.cluster import (
    GRACE_S,
    REFRESH_S,
    BrokerNode,
    ClusterEvent,
    ClusterView,
    Rebootstrap,
    TopicDeleted,
)
from kshare.state.session import Leader

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
Leaders = dict[int, tuple[int, int]]


def topic(name: str, topic_id: bytes, leaders: Leaders) -> MetadataResponseTopic:
    rows = [MetadataResponsePartition(0, number, node, epoch) for number, (node, epoch) in leaders.items()]
    return MetadataResponseTopic(0, name, topic_id, partitions=rows)


def unknown_name(name: str, code: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> MetadataResponseTopic:
    return MetadataResponseTopic(code, name)


def unknown_id(topic_id: bytes, code: int = ErrorCode.UNKNOWN_TOPIC_ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(code, None, topic_id)


class Desk:
    """A view, the brokers' responses, and a clock."""

    def __init__(self, *names: str, assigned: tuple[bytes, ...] = ()) -> None:
        self.view = ClusterView()
        self.view.want(names, dict.fromkeys(assigned, ()))
        self.now = 1000.0

    def asked(self) -> MetadataRequest:
        """The request, as soon as one is due."""
        assert self.view.wake_at is not None
        self.now = max(self.now, self.view.wake_at)
        request = self.view.request(self.now)
        assert request is not None
        assert not request.allow_auto_topic_creation
        return request

    def hear(self, *topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2)) -> list[ClusterEvent]:
        """Send the request when it is due, and process this response."""
        return self.view.on_metadata(self.asked(), told(*topics, nodes=nodes), self.now)

    @property
    def is_calm(self) -> bool:
        """Nothing is requested until the metadata is old."""
        wake_at = self.view.wake_at
        return wake_at is not None and wake_at - self.now > 2 * GRACE_S

    def leader(self, topic_id: bytes = A, partition: int = 0) -> tuple[int, int] | None:
        return self.view.leader_of(topic_id, partition)


def told(*topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node, f"host{node}", 9000 + node, "r") for node in nodes]
    return MetadataResponse(brokers=brokers, cluster_id="cluster", topics=list(topics))


def by_name(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def by_id(*ids: bytes) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(topic_id, None) for topic_id in ids]


def knowing(*assigned: bytes) -> Desk:
    """A view that knows topic A, named orders, with two partitions led by nodes 1 and 2."""
    desk = Desk("orders", assigned=assigned or (A,))
    desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6)}))
    return desk


# --- requests and responses


def test_wanted_topics_are_requested_and_known_afterwards() -> None:
    desk = Desk("orders", "bills")
    assert desk.asked().topics == by_name("bills", "orders")
    desk = Desk("orders")
    assert desk.hear(topic("orders", A, {1: (2, 6), 0: (1, 5)})) == []
    view = desk.view
    assert view.name_of(A) == "orders"
    assert (desk.leader(A, 0), desk.leader(A, 1), desk.leader(A, 2)) == ((1, 5), (2, 6), None)
    assert view.nodes == {1: BrokerNode("host1", 9001, "r"), 2: BrokerNode("host2", 9002, "r")}


def test_only_brokers_are_requested_without_wanted_topics() -> None:
    desk = Desk()
    assert desk.asked().topics == []
    desk = Desk()
    desk.hear()
    assert set(desk.view.nodes) == {1, 2}
    assert desk.is_calm


def test_unknown_things_are_none() -> None:
    view = ClusterView()
    assert (view.name_of(A), view.leader_of(A, 0)) == (None, None)


def test_one_request_at_a_time_and_stale_responses_are_dropped() -> None:
    desk = Desk("orders")
    given_up = desk.asked()
    assert desk.view.wake_at is None
    assert desk.view.request(desk.now + 9999) is None
    desk.view.on_no_response()
    current = desk.asked()
    assert desk.view.on_metadata(given_up, told(topic("orders", B, {})), desk.now) == []
    assert desk.view.name_of(B) is None
    desk.view.on_metadata(current, told(topic("orders", A, {})), desk.now)
    assert desk.view.name_of(A) == "orders"


def test_metadata_is_requested_again_when_it_is_old() -> None:
    desk = knowing()
    assert desk.view.wake_at == desk.now + REFRESH_S
    assert desk.view.request(desk.now + REFRESH_S - 1) is None
    assert desk.asked().topics == by_name("orders")


def test_newly_wanted_topic_is_requested_at_once_even_during_a_request() -> None:
    desk = Desk("orders")
    request = desk.asked()
    desk.view.want(["orders", "bills"])
    desk.view.on_metadata(request, told(topic("orders", A, {})), desk.now)
    assert desk.asked().topics == by_name("bills", "orders")


def test_wanting_fewer_topics_requests_nothing() -> None:
    desk = Desk("bills", "orders")
    desk.hear(topic("orders", A, {}), topic("bills", B, {}))
    desk.view.want(["orders"])
    assert desk.is_calm


def test_pauses_grow_between_repeated_requests_and_shrink_after_a_quiet_period() -> None:
    desk = Desk("orders", assigned=(A,))
    at = []
    for _ in range(8):
        desk.asked()
        at.append(desk.now)
        desk.view.on_no_response()
    pauses = [after - before for before, after in pairwise(at)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    desk.now += 10
    desk.hear(topic("orders", A, {0: (-1, 3)}))
    heard_at = desk.now
    desk.asked()
    assert desk.now - heard_at == pytest.approx(0.05)


# --- rule 11: assignments that metadata doesn't contain yet


def test_rule_11_unknown_assigned_id_is_kept_and_requested_by_id() -> None:
    desk = knowing()
    desk.view.want(["orders"], {A: [0], B: [0]})
    assert desk.view.missing_ids == {B}
    assert desk.asked().topics == by_id(B)
    desk = knowing(A, B)
    assert desk.hear(topic("bills", B, {0: (1, 1)})) == []
    assert (desk.view.missing_ids, desk.view.name_of(B), desk.leader(B)) == (frozenset(), "bills", (1, 1))
    assert desk.is_calm
    desk.now += REFRESH_S
    assert desk.asked().topics == by_name("bills", "orders")


def test_new_topic_unknown_to_a_broker_is_requested_again_within_the_grace_period() -> None:
    desk = knowing(A, B)
    first = desk.now
    assert desk.hear(unknown_id(B)) == []
    assert desk.asked().topics == by_name("orders")
    assert desk.view.missing_ids == {B}
    assert desk.now - first < 1


def test_names_and_ids_are_requested_separately() -> None:
    desk = Desk("orders", "bills", assigned=(A, B))
    for _ in range(12):
        request = desk.asked()
        rows = request.topics or []
        assert len({row.name is None for row in rows}) == 1
        is_by_id = rows[0].name is None
        responses = [unknown_id(row.topic_id) if is_by_id else unknown_name(row.name or "") for row in rows]
        desk.view.on_metadata(request, told(*responses), desk.now)


# --- leaders


def test_leader_with_the_higher_epoch_wins() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [Leader((A, 0), 2, 7)])
    assert desk.leader() == (2, 7)
    assert desk.is_calm
    desk.view.on_moved([], [Leader((A, 0), 1, 6)])
    assert desk.leader() == (2, 7)
    desk.now += REFRESH_S
    desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6)}))
    assert desk.leader() == (2, 7)
    desk.now += REFRESH_S
    desk.hear(topic("orders", A, {0: (1, 8), 1: (2, 6)}))
    assert desk.leader() == (1, 8)


def test_refusal_without_a_leader_requests_the_topic() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [])
    assert desk.leader() == (1, 5)
    assert desk.asked().topics == by_id(A)
    desk = knowing()
    desk.view.on_moved([(A, 0)], [])
    desk.hear(topic("orders", A, {0: (2, 6), 1: (2, 6)}))
    assert desk.leader() == (2, 6)
    assert desk.is_calm


def test_refusal_with_an_older_leader_requests_the_topic() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [Leader((A, 0), 2, 4)])
    assert desk.leader() == (1, 5)
    assert desk.asked().topics == by_id(A)


def test_refusal_with_the_known_leader_requests_nothing() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [Leader((A, 0), 1, 5)])
    assert desk.is_calm


def test_repeated_refusals_do_not_flood_the_brokers() -> None:
    desk = knowing()
    start = desk.now
    for _ in range(30):
        desk.view.on_moved([(A, 0)], [])
        desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6)}))
    assert desk.now - start > 20


def test_unassigned_topics_are_not_requested() -> None:
    desk = knowing()
    desk.view.on_moved([(C, 0)], [Leader((C, 0), 1, 1)])
    assert desk.is_calm
    assert desk.leader(C) is None


def test_leader_with_an_address_can_be_used_at_once() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [Leader((A, 0), 3, 7)], [NodeEndpoint(3, "host3", 9003, None)])
    assert desk.leader() == (3, 7)
    assert desk.view.nodes[3] == BrokerNode("host3", 9003, None)
    assert desk.is_calm


def test_leader_without_an_address_is_none_and_requested() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [Leader((A, 0), 3, 7)])
    assert desk.leader() is None
    assert desk.asked().topics == by_id(A)
    desk = knowing()
    desk.view.on_moved([(A, 0)], [Leader((A, 0), 3, 7)])
    desk.hear(topic("orders", A, {0: (3, 7), 1: (2, 6)}), nodes=(2, 3))
    assert desk.leader() == (3, 7)
    assert desk.is_calm


def test_partition_without_a_leader_is_requested_until_it_has_one() -> None:
    desk = knowing()
    desk.now += REFRESH_S
    desk.hear(topic("orders", A, {0: (-1, 6), 1: (2, 6)}))
    assert (desk.leader(A, 0), desk.leader(A, 1)) == (None, (2, 6))
    desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6)}))  # a broker with outdated metadata
    assert desk.leader() is None
    desk.hear(topic("orders", A, {0: (2, 7), 1: (2, 6)}))
    assert desk.leader() == (2, 7)
    assert desk.is_calm


def test_removed_broker_leads_nothing() -> None:
    desk = knowing()
    desk.now += REFRESH_S
    desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6)}), nodes=(2,))
    assert (set(desk.view.nodes), desk.leader(A, 0), desk.leader(A, 1)) == ({2}, None, (2, 6))
    assert desk.asked().topics == by_id(A)


# --- changed topics


def test_topics_grow_and_are_not_shrunk_by_outdated_metadata() -> None:
    desk = knowing()
    for leaders in [{0: (1, 5), 1: (2, 6), 2: (1, 0)}, {0: (1, 5), 1: (2, 6)}]:
        desk.now += REFRESH_S
        desk.hear(topic("orders", A, leaders))
        assert [desk.leader(A, number) for number in range(4)] == [(1, 5), (2, 6), (1, 0), None]


def test_rule_11_new_assigned_partition_is_requested_until_it_is_known() -> None:
    desk = knowing()
    assert desk.is_calm
    desk.view.want(["orders"], {A: [0, 1, 2]})
    asked_at = desk.now
    assert desk.asked().topics == by_id(A)
    assert desk.now - asked_at <= 1.0
    desk.view.on_no_response()
    desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6)}))  # a broker with outdated metadata
    assert not desk.is_calm
    desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6), 2: (1, 0)}))
    assert desk.leader(A, 2) == (1, 0)
    assert desk.is_calm


def test_rule_10_recreated_topic_deletes_the_old_one() -> None:
    desk = knowing()
    desk.now += REFRESH_S
    assert desk.hear(topic("orders", B, {0: (1, 0)})) == [TopicDeleted(A, "orders")]
    view = desk.view
    assert (view.name_of(B), view.name_of(A)) == ("orders", None)
    assert desk.leader(A) is None
    assert desk.leader(B) == (1, 0)


def test_recreated_topic_is_found_after_its_old_id_is_refused() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0), (A, 1)], [])
    assert desk.asked().topics == by_id(A)
    desk = knowing()
    desk.view.on_moved([(A, 0), (A, 1)], [])
    assert desk.hear(unknown_id(A)) == []
    assert desk.asked().topics == by_name("orders")
    desk.view.on_no_response()
    assert desk.hear(topic("orders", B, {0: (1, 0)})) == [TopicDeleted(A, "orders")]


def test_deleted_topic_is_reported_after_the_grace_period() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [])
    start, events = desk.now, list[ClusterEvent]()
    while not events and desk.now < start + 60:
        request = desk.asked()
        is_by_id = (request.topics or [])[0].name is None
        response = unknown_id(A) if is_by_id else unknown_name("orders")
        events = desk.view.on_metadata(request, told(response), desk.now)
        assert events or desk.view.name_of(A) == "orders"
    assert events == [TopicDeleted(A, "orders")]
    assert GRACE_S <= desk.now - start < GRACE_S + 2
    assert desk.view.refused == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert desk.leader() is None


def test_assigned_id_that_stays_unknown_is_reported_as_deleted() -> None:
    desk = knowing(A, B)
    start, events = desk.now, list[ClusterEvent]()
    while not events and desk.now < start + 60:
        request = desk.asked()
        is_by_id = (request.topics or [])[0].name is None
        response = unknown_id(B) if is_by_id else topic("orders", A, {0: (1, 5), 1: (2, 6)})
        events = desk.view.on_metadata(request, told(response), desk.now)
    assert events == [TopicDeleted(B, None)]
    assert desk.view.missing_ids == frozenset()


def test_grace_period_restarts_when_the_topic_is_confirmed() -> None:
    desk = knowing()
    desk.view.on_moved([(A, 0)], [])
    desk.hear(unknown_id(A))
    desk.now += GRACE_S - 0.5
    desk.hear(topic("orders", A, {0: (1, 5), 1: (2, 6)}))
    desk.now += 1
    desk.view.on_moved([(A, 0)], [])
    assert desk.hear(unknown_id(A)) == []


def test_outdated_metadata_does_not_restore_the_old_topic() -> None:
    desk = knowing()
    desk.now += REFRESH_S
    desk.hear(topic("orders", B, {0: (1, 0)}))
    desk.view.want(["orders", "bills"], {B: [0]})
    assert desk.hear(topic("orders", A, {0: (1, 5)}), unknown_name("bills")) == []
    assert (desk.view.name_of(B), desk.view.name_of(A)) == ("orders", None)


def test_topic_reported_as_deleted_by_mistake_is_restored_while_assigned() -> None:
    desk = knowing()
    desk.now += REFRESH_S
    assert desk.hear(topic("orders", B, {0: (1, 0)})) == [TopicDeleted(A, "orders")]
    buried_at = desk.now
    assert desk.asked().topics == by_name("orders")
    assert desk.now - buried_at <= 2 * GRACE_S
    desk.view.on_no_response()
    assert desk.hear(topic("orders", A, {0: (1, 5)})) == [TopicDeleted(B, "orders")]
    assert desk.leader(A) == (1, 5)
    desk.now += REFRESH_S
    desk.hear(topic("orders", A, {0: (1, 5)}))
    assert desk.view.name_of(A) == "orders"
    assert desk.is_calm


# --- refused topics


def test_nonexistent_topic_is_reported_but_not_requested_repeatedly() -> None:
    desk = Desk("orders", "bills")
    desk.hear(unknown_name("orders"), topic("bills", B, {0: (1, 0)}))
    assert desk.view.refused == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert desk.is_calm
    desk.view.want(["orders", "bills"], {A: [0], B: [0]})  # it was created and assigned
    desk.hear(topic("orders", A, {0: (1, 0)}))
    assert (desk.view.refused, desk.leader()) == ({}, (1, 0))


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_refused_topic_is_reported_until_it_is_not_wanted(code: ErrorCode) -> None:
    desk = Desk("orders", "bills")
    assert desk.hear(unknown_name("orders", code), topic("bills", B, {})) == []
    assert desk.view.refused == {"orders": code}
    assert desk.is_calm
    desk.view.want(["bills"])
    assert desk.view.refused == {}


def test_topic_that_is_being_created_is_requested_again() -> None:
    desk = Desk("orders")
    desk.hear(unknown_name("orders", ErrorCode.LEADER_NOT_AVAILABLE))
    assert not desk.is_calm
    assert desk.asked().topics == by_name("orders")


def test_error_response_changes_nothing() -> None:
    desk = Desk("orders")
    response = MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert desk.view.on_metadata(desk.asked(), response, desk.now) == []
    assert desk.asked().topics == by_name("orders")


def test_rebootstrap_required_returns_to_the_bootstrap_servers() -> None:
    desk = knowing()
    desk.now += REFRESH_S
    response = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    assert desk.view.on_metadata(desk.asked(), response, desk.now) == [Rebootstrap()]
    assert (dict(desk.view.nodes), desk.leader()) == ({}, None)
    assert desk.asked().topics == by_name("orders")


# --- arbitrary responses


CLAIMS = st.tuples(st.booleans(), st.integers(-1, 3), st.integers(0, 9))


@given(st.lists(CLAIMS, max_size=30))
def test_highest_leader_epoch_wins_in_any_order(
    claims: list[tuple[bool, int, int]],
) -> None:
    desk = Desk("orders", assigned=(A,))
    desk.hear(topic("orders", A, {0: (1, 0)}), nodes=(0, 1, 2, 3))
    expected = (1, 0)
    for is_metadata, node, epoch in claims:
        if epoch >= expected[1]:
            expected = (node, epoch)
        if is_metadata:
            desk.view.on_moved([(A, 0)], [])
            desk.hear(topic("orders", A, {0: (node, epoch)}), nodes=(0, 1, 2, 3))
        else:
            desk.view.on_moved([(A, 0)], [Leader((A, 0), node, epoch)])
        assert desk.leader() == (expected if expected[0] >= 0 else None)


FATES = st.sampled_from(["unknown", "leaderless", "recreated"])


@given(st.lists(FATES, max_size=40))
def test_any_responses_cause_a_bounded_rate_of_requests_and_recovery(fates: list[str]) -> None:
    desk = Desk("orders", assigned=(A,))
    asked_at = []

    def hear(fate: str) -> None:
        request = desk.asked()
        asked_at.append(desk.now)
        (row, *_) = request.topics or []
        responses = [
            topic("orders", C if fate == "recreated" else A, {0: (-1 if fate == "leaderless" else 1, 3)})
        ]
        if fate == "unknown":
            responses = [unknown_name("orders")] if row.name else [unknown_id(row.topic_id)]
        elif row.topic_id == C and fate != "recreated":
            responses = [unknown_id(C)]
        desk.view.on_metadata(request, told(*responses), desk.now)

    for fate in fates:
        hear(fate)
    for _ in range(20):
        hear("good")
        if desk.leader() == (1, 3) and desk.is_calm:
            break
    assert desk.leader() == (1, 3)
    assert desk.is_calm
    assert desk.view.name_of(A) == "orders"
    for early, late in zip(asked_at, asked_at[6:], strict=False):
        assert late - early > 1
