"""The coordinator of consumer groups: timeouts, limits, kinds of groups, and what survives a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kshare.broker.assigned_groups import HeartbeatResult
from kshare.broker.broker import Broker as State
from kshare.broker.classic_groups.coordinator import JoinParameters
from kshare.broker.classic_groups.offsets import CommittedOffset
from kshare.broker.clock import ManualClock
from kshare.broker.connection import Call, ClientConnection
from kshare.broker.consumer_groups.consumer_group import JOIN_EPOCH, ConsumerHeartbeat
from kshare.broker.consumer_groups.consumer_groups import supported_assignors
from kshare.broker.handlers import consumer_group_describe, consumer_group_heartbeat
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.broker.storage.folder import DataFolder
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest

SESSION_MS, REBALANCE_MS = 45_000, 10_000


class Stage:
    def __init__(self, **settings: str) -> None:
        self.clock = ManualClock()
        chosen = {"group.consumer.assignment.interval.ms": "0"}
        chosen |= {name.replace("_", "."): value for name, value in settings.items()}
        self.broker = State(clock=self.clock, settings=chosen)
        self.broker.cluster.create_topic("orders", 2)

    def join(self, member: str, group: str = "g", **fields: Any) -> HeartbeatResult:
        usual: dict[str, Any] = {
            "topics": frozenset({"orders"}),
            "rebalance_timeout_ms": REBALANCE_MS,
            "owned": frozenset(),
        }
        return self.beat(member, JOIN_EPOCH, group, **usual | fields)

    def beat(self, member: str, epoch: int, group: str = "g", **fields: Any) -> HeartbeatResult:
        return self.broker.consumer_groups.heartbeat(group, ConsumerHeartbeat(member, epoch, **fields))

    def members(self, group: str = "g") -> list[str]:
        return sorted(self.broker.consumer_groups.find(group).members)

    def listed(self) -> list[tuple[str, str, str]]:
        return [(each.group_id, each.kind, each.state) for each in self.broker.groups.listed()]


def refused(caught: pytest.ExceptionInfo[RequestError]) -> ErrorCode:
    return caught.value.code


def test_sessions_expire_without_heartbeats() -> None:
    stage = Stage()
    stage.join("one")
    stage.clock.advance(SESSION_MS - 1)
    assert stage.beat("one", 2).epoch == 2
    stage.clock.advance(SESSION_MS - 1)
    assert stage.members() == ["one"]
    stage.clock.advance(1)
    assert stage.members() == []
    assert stage.listed() == [("g", "consumer", "Empty")]


def test_session_timeout_of_the_group() -> None:
    stage = Stage(group_consumer_min_session_timeout_ms="1000")
    stage.broker.configs.replace(Resource.GROUP, "g", {"consumer.session.timeout.ms": "1000"})
    stage.join("one")
    stage.join("other", "h")
    stage.clock.advance(1000)
    assert (stage.members("g"), stage.members("h")) == ([], ["other"])


def test_member_that_does_not_revoke_in_time_is_fenced() -> None:
    stage = Stage()
    stage.join("one")
    stage.join("two")
    stage.beat("one", 2)
    stage.clock.advance(REBALANCE_MS - 1)
    stage.beat("one", 2)
    assert stage.members() == ["one", "two"]
    stage.clock.advance(1)
    assert stage.members() == ["two"]
    assert len(stage.beat("two", 3).assigned or ()) == 2


def test_member_that_revokes_in_time_stays() -> None:
    stage = Stage()
    stage.join("one")
    stage.join("two")
    stage.beat("one", 2)
    stage.beat("one", 2, owned=frozenset())
    stage.clock.advance(REBALANCE_MS)
    assert stage.members() == ["one", "two"]


def test_static_member_that_does_not_return_loses_its_place() -> None:
    stage = Stage()
    stage.join("one", instance="i")
    stage.broker.consumer_groups.leave("g", "one", "i", for_now=True)
    stage.clock.advance(SESSION_MS)
    assert stage.members() == []


def test_replaced_static_member_has_a_session_of_its_own() -> None:
    stage = Stage()
    stage.join("one", instance="i")
    stage.broker.consumer_groups.leave("g", "one", "i", for_now=True)
    stage.clock.advance(SESSION_MS - 1)
    stage.join("again", instance="i")
    stage.clock.advance(SESSION_MS - 1)
    assert stage.members() == ["again"]
    stage.clock.advance(1)
    assert stage.members() == []


def test_full_group() -> None:
    stage = Stage(group_consumer_max_size="1")
    stage.join("one")
    stage.join("one")
    with pytest.raises(RequestError) as caught:
        stage.join("two")
    assert refused(caught) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert caught.value.message == "The consumer group has reached its maximum capacity of 1 members."


def test_assignors_that_the_broker_is_configured_with() -> None:
    stage = Stage(group_consumer_assignors="range")
    stage.join("one")
    assert stage.broker.consumer_groups.find("g").assignor == "range"
    with pytest.raises(RequestError) as caught:
        stage.join("two", assignor="uniform")
    assert caught.value.message == "ServerAssignor uniform is not supported. Supported assignors: range."


def test_names_of_assignors() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    assert supported_assignors(f"{package}.RangeAssignor, {package}.UniformAssignor") == ("range", "uniform")
    assert supported_assignors("uniform") == ("uniform",)


def test_empty_groups_change_their_kind() -> None:
    stage = Stage()
    classic, consumers = stage.broker.classic_groups, stage.broker.consumer_groups
    classic.offsets.commit("g", ("orders", 0), CommittedOffset(5))
    assert stage.listed() == [("g", "classic", "Empty")]
    stage.join("one")
    assert stage.listed() == [("g", "consumer", "Stable")]
    parameters = JoinParameters("", None, "c", "h", 10_000, 10_000, "consumer", {"range": b""}, False)
    with pytest.raises(RequestError) as caught:
        classic.join("g", parameters)
    assert refused(caught) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    consumers.leave("g", "one", None, for_now=False)
    classic.join("g", parameters)
    assert stage.listed() == [("g", "classic", "CompletingRebalance")]
    with pytest.raises(RequestError) as caught:
        stage.join("one")
    assert caught.value.message == "Group g is not a consumer group."
    assert classic.offsets.of("g") == {("orders", 0): CommittedOffset(5)}


def test_share_groups_stay_what_they_are() -> None:
    stage = Stage()
    stage.broker.share_groups.find_or_make("g")
    with pytest.raises(RequestError) as caught:
        stage.join("one")
    assert refused(caught) is ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_are_deleted_with_their_offsets() -> None:
    stage = Stage()
    stage.join("one")
    stage.broker.classic_groups.offsets.commit("g", ("orders", 0), CommittedOffset(5))
    with pytest.raises(RequestError) as caught:
        stage.broker.consumer_groups.delete("g")
    assert refused(caught) is ErrorCode.NON_EMPTY_GROUP
    stage.broker.consumer_groups.leave("g", "one", None, for_now=False)
    stage.broker.consumer_groups.delete("g")
    assert stage.listed() == []


def test_members_join_again_after_a_restart(tmp_path: Path) -> None:
    """A restarted broker knows the group, but none of its members: clients can cope with that."""
    stage = Stage()
    folder = DataFolder(tmp_path)
    folder.attach(stage.broker)
    stage.join("one")
    stage.join("two")
    stage.broker.classic_groups.offsets.commit("g", ("orders", 0), CommittedOffset(5))
    epoch = stage.broker.consumer_groups.find("g").epoch
    folder.close()
    again = Stage.__new__(Stage)
    again.clock = ManualClock()
    again.broker = State(clock=again.clock)
    folder = DataFolder(tmp_path)
    folder.attach(again.broker)
    assert again.listed() == [("g", "consumer", "Empty")]
    with pytest.raises(RequestError) as caught:
        again.beat("one", epoch)
    assert refused(caught) is ErrorCode.UNKNOWN_MEMBER_ID
    assert again.join("one").epoch > epoch
    assert again.broker.classic_groups.offsets.of("g") == {("orders", 0): CommittedOffset(5)}
    folder.close()


def test_only_the_coordinator_responses() -> None:
    broker = State(nodes=3)
    coordinator = broker.cluster.coordinator(0, "g")
    request = ConsumerGroupHeartbeatRequest("g", "one", -1)
    for node in broker.cluster.nodes.values():
        call = Call(broker, node, ClientConnection(1, node, "127.0.0.1"), request.API_KEY, 1, "client")
        heartbeat = asyncio.run(consumer_group_heartbeat.handle(request, call))
        described = asyncio.run(
            consumer_group_describe.handle(ConsumerGroupDescribeRequest(["g"]), call)
        ).groups[0]
        expected = ErrorCode.GROUP_ID_NOT_FOUND if node is coordinator else ErrorCode.NOT_COORDINATOR
        assert (heartbeat.error_code, described.error_code) == (expected, expected)
