"""Membership with real coordinators: joining, sharing, being removed, leaving, without unnecessary heartbeats.

Waiting for a broker takes real time. For minutes in which nothing happens, the member's clock is put forward.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kshare.protocol.messages import MetadataRequest, ShareGroupHeartbeatRequest
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.state.membership import (
    AssignmentChanged,
    Joined,
    Membership,
    MembershipEvent,
    MembershipLost,
    MembershipState,
)
from tests.helpers.plain_client import DEADLINE_S, PlainClient, plain_client
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

SOON = 20
"""More heartbeats than this before an assignment mean that it came with a regular heartbeat, seconds later."""
MINUTE = 60.0
BEATS_A_MINUTE = 12
"""With the brokers' default interval of five seconds."""


class Driven:
    """A member whose requests are sent to a real broker. Counts its heartbeats and keeps its events."""

    def __init__(
        self, client: PlainClient, group: str, topics: list[str], member_id: str | None = None
    ) -> None:
        fresh_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.member = Membership(group, member_id or fresh_id, topics)
        self.client = client
        self.events: list[MembershipEvent] = []
        self.beats = 0
        self.states: set[MembershipState] = set()
        self.put_forward = 0.0

    @property
    def now(self) -> float:
        return time.monotonic() + self.put_forward

    @property
    def assigned(self) -> dict[bytes, set[int]]:
        return {topic_id: set(partitions) for topic_id, partitions in self.member.assignment.items()}

    def step(self) -> None:
        """Send what is due now."""
        finding = self.member.find_coordinator(self.now)
        if finding:
            self.events += self.member.on_coordinator(finding, self.client.ask(finding), self.now)
        request = self.member.next_heartbeat(self.now)
        if request:
            self.beats += 1
            self.events += self.member.on_response(request, self.client.ask(request), self.now)
        self.states.add(self.member.state)

    def hurry(self) -> None:
        """Put the clock forward to when something is due next."""
        assert self.member.wake_at is not None
        self.put_forward += max(0.0, self.member.wake_at - self.now)

    def beats_in(self, seconds: float) -> int:
        """How many heartbeats are sent in this time, with the clock put forward from one to the next."""
        end, before = self.now + seconds, self.beats
        while self.member.wake_at is not None and self.member.wake_at < end:
            self.hurry()
            self.step()
        return self.beats - before


Join = Callable[..., Driven]


@pytest.fixture
def join(kafka: Cluster) -> Iterator[Join]:
    """Creates members, each with its own connection. At the end, all leave their groups."""
    with ExitStack() as connections:
        members: list[Driven] = []

        def start(group: str, *topics: str, member_id: str | None = None) -> Driven:
            client = connections.enter_context(plain_client(kafka.nodes[0].address()))
            members.append(Driven(client, group, list(topics), member_id))
            return members[-1]

        yield start
        for driven in members:
            driven.member.leave(driven.now)
            until(lambda driven=driven: driven.member.state is MembershipState.LEFT, driven)  # type: ignore[misc]


def until(is_reached: Callable[[], bool], *members: Driven) -> None:
    """Let the members send what is due, in real time, until the condition holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_reached():
        assert time.monotonic() < deadline, [(m.member.state, m.member.last_error, m.events) for m in members]
        for driven in members:
            driven.step()
        time.sleep(0.01)


def id_of(driven: Driven, topic: str) -> bytes:
    (found,) = driven.client.ask(MetadataRequest([MetadataRequestTopic(name=topic)])).topics
    return found.topic_id


def test_the_assignment_arrives_soon_and_heartbeats_become_regular(
    join: Join, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic = fresh_topic(partitions=3)
    driven = join(fresh_group(), topic)
    whole = {id_of(driven, topic): {0, 1, 2}}
    until(lambda: driven.assigned == whole, driven)
    assert driven.beats <= SOON
    assert driven.events[0] == Joined()
    assert driven.beats_in(MINUTE) == pytest.approx(BEATS_A_MINUTE, abs=1)
    assert driven.assigned == whole


def test_a_changed_subscription_soon_changes_the_assignment(
    join: Join, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    first, second = fresh_topic(partitions=2), fresh_topic()
    driven = join(fresh_group(), first)
    until(lambda: bool(driven.assigned), driven)
    for topics in [[first, second], [second]]:
        wanted = {id_of(driven, topic): set(range(2 if topic == first else 1)) for topic in topics}
        beats = driven.beats
        driven.member.subscribe(topics, driven.now)
        until(lambda wanted=wanted: driven.assigned == wanted, driven)  # type: ignore[misc]
        assert driven.beats - beats <= SOON
    driven.beats_in(10.0)  # the rest of the time of frequent heartbeats
    assert driven.beats_in(MINUTE) == pytest.approx(BEATS_A_MINUTE, abs=1)


def test_a_missing_topic_causes_no_additional_heartbeats(join: Join, fresh_group: FreshGroup) -> None:
    driven = join(fresh_group(), "no-such-topic")
    until(lambda: driven.member.state is MembershipState.STABLE, driven)
    assert driven.beats_in(10.0) <= SOON + 2
    assert driven.beats_in(MINUTE) == pytest.approx(BEATS_A_MINUTE, abs=1)
    assert driven.events == [Joined()]


def test_two_members_share_and_the_remaining_one_is_assigned_everything(
    join: Join, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(partitions=2), fresh_group()
    first, second = join(group, topic), join(group, topic)
    topic_id = id_of(first, topic)
    until(lambda: first.assigned == {topic_id: {0, 1}}, first)
    until(lambda: bool(second.assigned), first, second)
    assert second.beats <= SOON
    first.beats_in(10.0)
    together = first.assigned[topic_id] | second.assigned[topic_id]
    assert together == {0, 1}

    second.member.leave(second.now)
    until(lambda: second.member.state is MembershipState.LEFT, second)
    before = second.beats
    second.step()
    assert second.beats == before
    assert second.member.last_error is None

    def stays() -> bool:
        first.hurry()
        return first.assigned == {topic_id: {0, 1}}

    until(stays, first)


def test_a_removed_member_joins_again_under_its_id(
    join: Join, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    driven = join(fresh_group(), fresh_topic())
    until(lambda: bool(driven.assigned), driven)
    before = driven.assigned
    driven.events.clear()
    member = driven.member
    gone = driven.client.ask(ShareGroupHeartbeatRequest(member.group_id, member.member_id, -1))
    assert gone.error_code == 0
    driven.hurry()
    until(lambda: len(driven.events) >= 3, driven)
    lost, joined, assigned = driven.events
    assert isinstance(lost, MembershipLost)
    assert joined == Joined()
    assert isinstance(assigned, AssignmentChanged)
    assert driven.assigned == before


def test_an_assignment_in_a_lost_response_is_sent_again(
    join: Join, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    driven = join(fresh_group(), fresh_topic())
    until(lambda: driven.member.state is MembershipState.STABLE, driven)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        assert time.monotonic() < deadline
        driven.hurry()
        request = driven.member.next_heartbeat(driven.now)
        assert request is not None
        response = driven.client.ask(request)
        if response.assignment and response.assignment.topic_partitions:
            break  # the member doesn't receive this response
        driven.member.on_response(request, response, driven.now)
    assert not driven.assigned
    driven.member.on_no_response(driven.now)
    until(lambda: bool(driven.assigned), driven)
    assert not any(isinstance(event, MembershipLost) for event in driven.events)


def test_a_member_that_forgot_its_epoch_can_join_on_every_release(
    kafka: Cluster, join: Join, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    forgetful = join(group, topic)
    until(lambda: bool(forgetful.assigned), forgetful)
    again = join(group, topic, member_id=forgetful.member.member_id)
    until(lambda: again.assigned == forgetful.assigned, again)
    assert (MembershipState.CLEARING in again.states) == kafka.release.startswith("4.1.")
