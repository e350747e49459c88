"""Membership: heartbeats, responses and the resulting states and events, with a manual clock."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.errors import BrokerError, ConfigError
from kshare.protocol.error_codes import RETRIABLE, ErrorCode
from kshare.protocol.messages import FindCoordinatorResponse, ShareGroupHeartbeatRequest
from kshare.protocol.messages.find_coordinator_response import Coordinator as FoundCoordinator
from kshare.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kshare.state.membership import (
    EARLY_PERIOD_S,
    FIRST_INTERVAL_S,
    MAX_INTERVAL_S,
    AssignmentChanged,
    Coordinator,
    Failed,
    GroupFull,
    Joined,
    Membership,
    MembershipEvent,
    MembershipLost,
    MembershipState,
)

A, B = b"a" * 16, b"b" * 16
MEMBER = "x" * 22
INTERVAL = 5.0
ELSEWHERE = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
]


class Desk:
    """A member, the coordinator's responses, and a clock."""

    def __init__(self, *topics: str, rack: str | None = None) -> None:
        self.member = Membership("group", MEMBER, topics or ["orders"], rack)
        self.now = 1000.0

    @property
    def state(self) -> MembershipState:
        return self.member.state

    @property
    def last_error(self) -> BrokerError | None:
        return self.member.last_error

    def find(self, error: int = 0) -> list[MembershipEvent]:
        request = self.member.find_coordinator(self.now)
        assert request is not None
        assert (request.coordinator_keys, request.key_type) == (["group"], 0)
        row = FoundCoordinator("group", 7, "host", 9092, error, None)
        return self.member.on_coordinator(request, FindCoordinatorResponse(coordinators=[row]), self.now)

    def sent(self) -> ShareGroupHeartbeatRequest:
        """The heartbeat that is due now."""
        request = self.member.next_heartbeat(self.now)
        assert request is not None
        assert (request.group_id, request.member_id) == ("group", MEMBER)
        return request

    def beat(self, epoch: int = 1, error: int = 0, **assigned: list[int]) -> list[MembershipEvent]:
        """Send the heartbeat that is due, and process this response."""
        return self.member.on_response(self.sent(), response(epoch, error, **assigned), self.now)

    def wait(self) -> float:
        """Advance the clock until something is due; returns by how much."""
        assert self.member.wake_at is not None
        pause, self.now = self.member.wake_at - self.now, max(self.now, self.member.wake_at)
        return pause

    def join(self) -> None:
        """Let the member join and get its assignment, until only the interval is waited for."""
        self.find()
        assert self.beat(1, none=[]) == [Joined()]
        self.wait()
        assert self.beat(2, a=[0, 1]) == [AssignmentChanged({A: frozenset({0, 1})})]

    def beats_until(self, end: float) -> list[float]:
        """When heartbeats are sent if the coordinator has no changes."""
        at = []
        while self.member.wake_at is not None and self.member.wake_at < end:
            self.wait()
            at.append(self.now)
            self.beat(self.member.member_epoch)
        return at


def response(epoch: int, error: int = 0, **assigned: list[int]) -> ShareGroupHeartbeatResponse:
    """`a=[0, 1]` assigns partitions of topic A, `none=[]` an empty assignment. Without either, there is none."""
    ids = {"a": A, "b": B}
    rows = [TopicPartitions(ids[name], numbers) for name, numbers in assigned.items() if name in ids]
    return ShareGroupHeartbeatResponse(
        error_code=error,
        member_id=None if error else MEMBER,
        member_epoch=0 if error else epoch,
        heartbeat_interval_ms=0 if error else int(INTERVAL * 1000),
        assignment=Assignment(rows) if assigned else None,
    )


def joined() -> Desk:
    desk = Desk()
    desk.join()
    return desk


# --- joining


def test_coordinator_is_found_first() -> None:
    desk = Desk()
    assert desk.member.next_heartbeat(desk.now) is None
    assert desk.find() == []
    assert desk.member.coordinator == Coordinator(7, "host", 9092)
    assert desk.member.find_coordinator(desk.now) is None
    assert desk.sent().member_epoch == 0


def test_join_has_all_fields_and_later_heartbeats_only_the_epoch() -> None:
    desk = Desk("orders", "bills", "orders", rack="r1")
    desk.find()
    first = desk.sent()
    assert (first.member_epoch, first.subscribed_topic_names, first.rack_id) == (0, ["bills", "orders"], "r1")
    assert desk.member.on_response(first, response(4), desk.now) == [Joined()]
    assert desk.state is MembershipState.STABLE
    desk.wait()
    second = desk.sent()
    assert (second.member_epoch, second.subscribed_topic_names, second.rack_id) == (4, None, None)


def test_one_request_at_a_time() -> None:
    desk = Desk()
    assert desk.member.find_coordinator(desk.now) is not None
    assert desk.member.find_coordinator(desk.now) is None
    assert desk.member.wake_at is None
    desk = Desk()
    desk.find()
    desk.sent()
    assert desk.member.next_heartbeat(desk.now + 100) is None
    assert desk.member.wake_at is None


def test_rule_12_heartbeats_are_frequent_until_the_first_assignment() -> None:
    desk = Desk()
    desk.find()
    desk.beat(1, none=[])
    assert desk.wait() == pytest.approx(0.1)
    desk.beat(1)
    assert desk.wait() == pytest.approx(0.15)
    assert desk.beat(2, a=[0]) == [AssignmentChanged({A: frozenset({0})})]
    assert desk.wait() == INTERVAL
    assert desk.beat(2) == []
    assert desk.wait() == INTERVAL


def test_assignment_in_the_join_response_ends_frequent_heartbeats() -> None:
    desk = Desk()
    desk.find()
    assert desk.beat(1, a=[3]) == [Joined(), AssignmentChanged({A: frozenset({3})})]
    assert desk.wait() == INTERVAL


@pytest.mark.parametrize("first", [response(1), response(1, none=[])])
def test_member_without_partitions_sends_frequent_heartbeats_for_a_limited_time(
    first: ShareGroupHeartbeatResponse,
) -> None:
    desk = Desk()
    desk.find()
    start = desk.now
    desk.member.on_response(desk.sent(), first, desk.now)
    beats = desk.beats_until(start + 60)
    early = [at for at in beats if at < start + EARLY_PERIOD_S + MAX_INTERVAL_S]
    assert 10 <= len(early) <= 25
    late = [at for at in beats if at not in early]
    assert all(after - before == pytest.approx(INTERVAL) for before, after in pairwise(late))
    assert len(late) == 11


def test_assignment_after_kafkas_first_second_arrives_within_a_tenth_of_a_second() -> None:
    desk = Desk()
    desk.find()
    joined_at = desk.now
    desk.member.on_response(desk.sent(), response(1), desk.now)
    beats = desk.beats_until(joined_at + 2)
    assert any(1.02 < at - joined_at < 1.1 for at in beats)


def test_topic_id_unknown_to_metadata_is_kept() -> None:
    desk = joined()
    desk.wait()
    assert desk.beat(3, a=[0], b=[5]) == [AssignmentChanged({A: frozenset({0}), B: frozenset({5})})]
    assert desk.member.assignment == {A: {0}, B: {5}}


def test_assignment_may_become_empty() -> None:
    desk = joined()
    desk.wait()
    assert desk.beat(3, none=[]) == [AssignmentChanged({})]
    assert desk.wait() == INTERVAL


def test_unchanged_assignment_is_no_event() -> None:
    desk = joined()
    desk.wait()
    assert desk.beat(3, a=[1, 0]) == []


def test_coordinator_without_an_interval_is_not_flooded() -> None:
    desk = joined()
    desk.wait()
    silent = response(2)
    silent.heartbeat_interval_ms = 0
    desk.member.on_response(desk.sent(), silent, desk.now)
    assert desk.wait() >= FIRST_INTERVAL_S


# --- changed subscriptions


def test_new_subscription_is_sent_at_once_followed_by_frequent_heartbeats() -> None:
    desk = joined()
    desk.member.subscribe(["orders", "bills"], desk.now)
    assert desk.wait() == 0
    request = desk.sent()
    assert (request.member_epoch, request.subscribed_topic_names) == (2, ["bills", "orders"])
    # The response to a changed subscription repeats the current assignment, which is no event.
    assert desk.member.on_response(request, response(3, a=[0, 1]), desk.now) == []
    assert desk.wait() == pytest.approx(0.1)
    request = desk.sent()
    assert request.subscribed_topic_names is None
    assert desk.member.on_response(request, response(4, a=[0, 1], b=[0]), desk.now) == [
        AssignmentChanged({A: frozenset({0, 1}), B: frozenset({0})})
    ]
    assert desk.wait() == INTERVAL


def test_subscription_changed_during_a_heartbeat_is_sent_right_after_it() -> None:
    desk = joined()
    desk.wait()
    request = desk.sent()
    desk.member.subscribe(["bills"], desk.now)
    assert desk.member.wake_at is None
    desk.member.on_response(request, response(2), desk.now)
    assert desk.wait() == 0
    assert desk.sent().subscribed_topic_names == ["bills"]


def test_subscription_changed_back_is_not_sent() -> None:
    desk = joined()
    desk.member.subscribe(["bills"], desk.now)
    desk.member.subscribe(["orders"], desk.now)
    assert desk.sent().subscribed_topic_names is None


def test_subscription_does_not_shorten_a_pause_after_errors() -> None:
    desk = joined()
    desk.wait()
    desk.beat(error=ErrorCode.NOT_COORDINATOR)
    due = desk.member.wake_at
    desk.member.subscribe(["bills"], desk.now)
    assert desk.member.wake_at == due


@pytest.mark.parametrize("topics", [[], ()])
def test_at_least_one_topic_is_required(topics: list[str]) -> None:
    with pytest.raises(ConfigError, match="at least one topic"):
        Membership("group", MEMBER, topics)
    with pytest.raises(ConfigError, match="close the consumer"):
        joined().member.subscribe(topics, 0.0)


# --- removed from the group


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_removed_member_loses_its_assignment_and_joins_again_at_once(code: ErrorCode) -> None:
    desk = joined()
    desk.wait()
    (lost,) = desk.beat(error=code)
    assert isinstance(lost, MembershipLost)
    assert lost.error.code == code
    assert (desk.state, desk.member.assignment) == (MembershipState.JOINING, {})
    assert desk.wait() == 0
    request = desk.sent()
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["orders"])
    assert desk.member.on_response(request, response(9, none=[]), desk.now) == [Joined()]
    assert desk.wait() == pytest.approx(0.1)
    assert desk.beat(10, a=[0, 1]) == [AssignmentChanged({A: frozenset({0, 1})})]


def test_membership_lost_during_a_long_pause_is_noticed_by_the_response() -> None:
    desk = joined()
    desk.now += 3600  # the process was stopped, and continued
    request = desk.sent()
    assert (request.member_epoch, desk.state) == (2, MembershipState.STABLE)
    (lost,) = desk.member.on_response(request, response(0, ErrorCode.UNKNOWN_MEMBER_ID), desk.now)
    assert isinstance(lost, MembershipLost)


def test_join_that_kafka_4_1_fences_is_preceded_by_leaving() -> None:
    desk = joined()
    desk.wait()
    desk.beat(error=ErrorCode.FENCED_MEMBER_EPOCH)
    assert desk.beat(error=ErrorCode.FENCED_MEMBER_EPOCH) == []
    assert desk.state is MembershipState.CLEARING
    assert desk.wait() > 0
    clearing = desk.sent()
    assert (clearing.member_epoch, clearing.subscribed_topic_names) == (-1, None)
    assert desk.member.on_response(clearing, response(-1), desk.now) == []
    request = desk.sent()
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["orders"])
    assert desk.member.on_response(request, response(12), desk.now) == [Joined()]


def test_clearing_ends_when_the_member_is_unknown() -> None:
    desk = joined()
    desk.wait()
    desk.beat(error=ErrorCode.FENCED_MEMBER_EPOCH)
    desk.beat(error=ErrorCode.FENCED_MEMBER_EPOCH)
    desk.wait()
    assert desk.beat(error=ErrorCode.UNKNOWN_MEMBER_ID) == []
    assert desk.sent().member_epoch == 0


def test_coordinator_that_fences_every_join_is_not_flooded() -> None:
    desk = Desk()
    desk.find()
    start = desk.now
    for _ in range(20):
        desk.wait()
        desk.beat(error=ErrorCode.FENCED_MEMBER_EPOCH)
        desk.wait()
        desk.beat(-1)
    assert desk.now - start > 20


# --- errors


@pytest.mark.parametrize("code", ELSEWHERE)
def test_coordinator_is_found_again_after_a_pause(code: ErrorCode) -> None:
    desk = joined()
    desk.wait()
    assert desk.beat(error=code) == []
    assert desk.last_error is not None
    assert desk.last_error.code == code
    assert desk.member.find_coordinator(desk.now) is None
    assert desk.wait() == pytest.approx(0.1)
    assert desk.member.next_heartbeat(desk.now) is None
    desk.find()
    request = desk.sent()
    assert (request.member_epoch, request.subscribed_topic_names) == (2, ["orders"])
    assert desk.member.on_response(request, response(2, a=[0, 1]), desk.now) == []
    assert desk.state is MembershipState.STABLE
    assert desk.last_error is None


def test_pauses_grow_to_a_limit_and_restart_after_success() -> None:
    desk = Desk()
    desk.find()
    pauses = []
    for _ in range(8):
        desk.beat(error=ErrorCode.NOT_COORDINATOR)
        pauses.append(desk.wait())
        desk.find()
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0])
    desk.beat(1, a=[0])
    desk.wait()
    desk.beat(error=ErrorCode.NOT_COORDINATOR)
    assert desk.wait() == pytest.approx(0.1)


@pytest.mark.parametrize("code", sorted(RETRIABLE | {ErrorCode.UNKNOWN_SERVER_ERROR}))
def test_retriable_errors_are_retried(code: ErrorCode) -> None:
    desk = joined()
    desk.wait()
    assert desk.beat(error=code) == []
    assert desk.state is MembershipState.STABLE
    assert 0 < desk.wait() < 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_ID_NOT_FOUND,  # in response to a join: a group of another type has the name
        9999,
    ],
)
def test_fatal_errors_end_the_membership(code: int) -> None:
    desk = Desk()
    desk.find()
    refused = response(0, code)
    refused.error_message = "the broker's words"
    (failed,) = desk.member.on_response(desk.sent(), refused, desk.now)
    assert isinstance(failed, Failed)
    assert failed.error.code == code
    assert "group" in str(failed.error)
    assert "the broker's words" in str(failed.error)
    assert (desk.state, desk.member.wake_at) == (MembershipState.FAILED, None)
    assert desk.member.next_heartbeat(desk.now + 100) is None


def test_refused_coordinator_request_ends_the_membership() -> None:
    (failed,) = Desk().find(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(failed, Failed)


def test_unavailable_coordinator_is_looked_up_again() -> None:
    desk = Desk()
    assert desk.find(ErrorCode.COORDINATOR_NOT_AVAILABLE) == []
    assert desk.wait() == pytest.approx(0.1)
    desk.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert desk.wait() == pytest.approx(0.2)
    desk.find()
    assert desk.sent().member_epoch == 0


def test_full_group_is_reported_and_retried() -> None:
    desk = Desk()
    desk.find()
    (full,) = desk.beat(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert isinstance(full, GroupFull)
    assert full.error.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    desk.wait()
    assert desk.beat(1) == [Joined()]


# --- no response


def test_missing_response_makes_the_next_heartbeat_complete() -> None:
    desk = joined()
    desk.wait()
    desk.sent()
    desk.member.on_no_response(desk.now)
    assert desk.state is MembershipState.STABLE
    assert desk.wait() == pytest.approx(0.1)
    desk.find()
    request = desk.sent()
    assert (request.member_epoch, request.subscribed_topic_names) == (2, ["orders"])
    # the response to it has the assignment that was lost
    assert desk.member.on_response(request, response(3, a=[0]), desk.now) == [
        AssignmentChanged({A: frozenset({0})})
    ]
    assert desk.wait() == INTERVAL


def test_lost_subscription_is_sent_again_followed_by_frequent_heartbeats() -> None:
    desk = joined()
    desk.member.subscribe(["bills"], desk.now)
    desk.sent()
    desk.member.on_no_response(desk.now)
    desk.wait()
    desk.find()
    assert desk.beat(3, none=[]) == [AssignmentChanged({})]
    assert desk.wait() == pytest.approx(0.1)


def test_connection_lost_between_heartbeats_does_not_advance_the_next_one() -> None:
    desk = joined()
    due = desk.member.wake_at
    desk.member.on_no_response(desk.now)
    assert desk.member.wake_at == due
    desk.wait()
    assert desk.member.next_heartbeat(desk.now) is None
    desk.find()
    assert desk.sent().subscribed_topic_names is None


def test_response_to_an_abandoned_heartbeat_is_dropped() -> None:
    desk = joined()
    desk.wait()
    given_up = desk.sent()
    desk.member.on_no_response(desk.now)
    late = response(0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert desk.member.on_response(given_up, late, desk.now) == []
    desk.wait()
    desk.find()
    current = desk.sent()
    assert current.member_epoch == given_up.member_epoch
    assert desk.member.on_response(given_up, late, desk.now) == []
    assert desk.state is MembershipState.STABLE
    assert desk.member.on_response(current, response(2), desk.now) == []
    assert desk.member.member_epoch == 2


def test_response_to_an_abandoned_coordinator_request_is_dropped() -> None:
    desk = Desk()
    given_up = desk.member.find_coordinator(desk.now)
    assert given_up is not None
    desk.member.on_no_response(desk.now)
    row = FoundCoordinator("group", 7, "host", 9092, 0, None)
    assert desk.member.on_coordinator(given_up, FindCoordinatorResponse(coordinators=[row]), desk.now) == []
    assert desk.member.coordinator is None


# --- leaving


def test_leave_is_sent_once() -> None:
    desk = joined()
    desk.member.leave(desk.now)
    request = desk.sent()
    assert (request.member_epoch, request.subscribed_topic_names) == (-1, None)
    desk.member.leave(desk.now)
    assert desk.member.next_heartbeat(desk.now) is None
    assert desk.member.on_response(request, response(-1), desk.now) == []
    assert (desk.state, desk.member.wake_at) == (MembershipState.LEFT, None)
    desk.member.leave(desk.now)
    assert desk.member.next_heartbeat(desk.now + 100) is None


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND])
def test_who_isnt_a_member_any_more_has_left(code: ErrorCode) -> None:
    desk = joined()
    desk.member.leave(desk.now)
    assert desk.beat(error=code) == []
    assert (desk.state, desk.member.wake_at) == (MembershipState.LEFT, None)


def test_permanent_error_ends_leaving() -> None:
    desk = joined()
    desk.member.leave(desk.now)
    assert desk.beat(error=ErrorCode.GROUP_AUTHORIZATION_FAILED) == []
    assert (desk.state, desk.member.wake_at) == (MembershipState.FAILED, None)


@pytest.mark.parametrize("code", [*ELSEWHERE, ErrorCode.UNKNOWN_SERVER_ERROR, None])
def test_leaving_is_tried_again_where_the_coordinator_is_now(code: ErrorCode | None) -> None:
    desk = joined()
    desk.member.leave(desk.now)
    if code is None:
        desk.sent()
        desk.member.on_no_response(desk.now)
    else:
        assert desk.beat(error=code) == []
    assert desk.state is MembershipState.LEAVING
    assert 0 < desk.wait() < 1
    if code is None or code in ELSEWHERE:
        desk.find()
    assert desk.sent().member_epoch == -1


def test_leaving_is_given_up_after_a_few_seconds() -> None:
    desk = joined()
    began = desk.now
    desk.member.leave(desk.now)
    attempts = 0
    while desk.state is MembershipState.LEAVING:
        desk.wait()
        if desk.member.coordinator is None:
            desk.find(error=ErrorCode.COORDINATOR_NOT_AVAILABLE if attempts % 2 else 0)
        if desk.member.coordinator is not None:
            desk.sent()
            desk.member.on_no_response(desk.now)
        attempts += 1
        assert attempts < 100
    assert (desk.state, desk.member.wake_at) == (MembershipState.FAILED, None)
    assert 2 < desk.now - began < 5


def test_leaving_does_not_wait_for_a_pending_heartbeat() -> None:
    desk = joined()
    desk.wait()
    request = desk.sent()
    desk.member.leave(desk.now)
    assert desk.member.on_response(request, response(3, none=[]), desk.now) == []
    assert desk.state is MembershipState.LEAVING
    assert desk.sent().member_epoch == -1


def test_leaving_during_a_join_sends_a_leave() -> None:
    desk = Desk()
    desk.find()
    desk.sent()
    desk.member.leave(desk.now)
    assert desk.sent().member_epoch == -1


def test_member_that_never_joined_leaves_without_a_request() -> None:
    desk = Desk()
    desk.find()
    desk.member.leave(desk.now)
    assert (desk.state, desk.member.wake_at) == (MembershipState.LEFT, None)


def test_failed_member_can_still_leave() -> None:
    desk = joined()
    desk.wait()
    desk.beat(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    desk.member.leave(desk.now)
    assert desk.sent().member_epoch == -1


# --- arbitrary events


HAPPENINGS = st.one_of(
    st.sampled_from(["ok", "assign", "lost", "idle-lost", "subscribe", "late", "pause"]),
    st.sampled_from([e for e in ErrorCode if e]).map(int),
)


@given(st.lists(HAPPENINGS, max_size=60))
def test_any_responses_leave_a_next_step_and_a_bounded_rate_of_heartbeats(
    happenings: list[str | int],
) -> None:
    desk, sent_at = Desk(), list[float]()
    old: ShareGroupHeartbeatRequest | None = None
    member = desk.member
    for happening in happenings:
        if member.state is MembershipState.FAILED:
            break
        desk.wait()
        if happening == "subscribe":
            member.subscribe([f"topic-{len(sent_at)}"], desk.now)
        elif happening == "idle-lost":
            member.on_no_response(desk.now)
        elif happening == "pause":
            desk.now += 3600
        if member.coordinator is None:
            desk.find()
        request = desk.sent()
        sent_at.append(desk.now)
        if happening == "late" and old is not None:
            assert member.on_response(old, response(77), desk.now) == []
        old = request
        if happening == "lost":
            member.on_no_response(desk.now)
        elif isinstance(happening, int):
            member.on_response(request, response(0, happening), desk.now)
        else:
            epoch = -1 if request.member_epoch == -1 else request.member_epoch + 1
            says = response(epoch, a=[len(sent_at)]) if happening == "assign" else response(epoch)
            member.on_response(request, says, desk.now)
            if request.member_epoch != -1:
                assert (member.state, member.member_epoch) == (MembershipState.STABLE, epoch)
        assert member.state is not MembershipState.STABLE or member.member_epoch > 0
        assert member.state is not MembershipState.JOINING or (member.member_epoch, member.assignment) == (
            0,
            {},
        )
    told = happenings.count("subscribe")
    for first, third in zip(sent_at, sent_at[3 + 2 * told :], strict=False):
        assert third - first >= FIRST_INTERVAL_S * 0.99
    member.leave(desk.now)
    for _ in range(2):
        if member.state is not MembershipState.LEFT:
            if member.coordinator is None:
                desk.find()
            desk.beat(-1)
    assert member.state is MembershipState.LEFT
