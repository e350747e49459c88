"""Classic groups: joins, rebalances, expiry and commits, without sockets and with a manual clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from kshare.broker.classic_groups.coordinator import ClassicGroups, JoinParameters, MemberIdRequired
from kshare.broker.classic_groups.group import ClassicGroup, ClassicMember, GroupState, JoinResult
from kshare.broker.classic_groups.offsets import CommittedOffset, Offsets
from kshare.broker.clock import ManualClock
from kshare.broker.configs import Configs
from kshare.broker.groups import Groups
from kshare.broker.request_error import RequestError
from kshare.protocol.envelopes import encode_request
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kshare.protocol.messages.join_group_request import JoinGroupRequestProtocol
from kshare.protocol.messages.leave_group_request import MemberIdentity
from kshare.testing import Broker
from tests.broker.raw import Raw

Response = HeartbeatResponse | SyncGroupResponse | LeaveGroupResponse

SESSION_MS, REBALANCE_MS = 10_000, 30_000


class World:
    def __init__(self, **settings: str) -> None:
        self.clock = ManualClock()
        numbers = count(1)
        configs = Configs({name.replace("_", "."): value for name, value in settings.items()})
        self.groups = ClassicGroups(self.clock, configs, Groups(), lambda: str(next(numbers)))

    def wish(self, member_id: str = "", instance: str | None = None, **protocols: bytes) -> JoinParameters:
        return JoinParameters(
            member_id,
            instance,
            "client",
            "host",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            protocols or {"range": b"topics"},
            must_know_its_id=False,
        )

    def join(self, member_id: str = "", **protocols: bytes) -> tuple[ClassicGroup, ClassicMember]:
        return self.groups.join("g", self.wish(member_id, None, **protocols))

    def restart(self, instance: str, *, can_skip: bool = True, **protocols: bytes) -> ClassicMember:
        wish = replace(self.wish("", instance, **protocols), can_skip_assignment=can_skip)
        return self.groups.join("g", wish)[1]

    def stable(self, members: int) -> tuple[ClassicGroup, list[ClassicMember]]:
        joined: list[ClassicMember] = []
        for _ in range(members):
            group, member = self.join()
            joined.append(member)
            for other in joined[:-1]:
                self.join(other.id)
        parts = {member.id: b"part of " + member.id.encode() for member in joined}
        for member in joined:
            group.sync(member, parts)
        return group, joined


def test_first_member_becomes_the_leader() -> None:
    world = World()
    group, member = world.join()
    assert member.result is not None
    assert (member.result.generation, member.result.leader, member.result.protocol) == (1, member.id, "range")
    assert member.result.members == ((member.id, None, b"topics"),)
    assert group.state is GroupState.COMPLETING
    group.assign({member.id: b"everything"})
    assert (group.members[member.id].assignment, str(group.state)) == (b"everything", "Stable")


def test_new_member_triggers_a_rebalance() -> None:
    world = World()
    group, (first,) = world.stable(1)
    _, second = world.join()
    assert second.result is None
    assert group.state is GroupState.PREPARING
    world.join(first.id)
    assert first.result is not None
    assert second.result is not None
    assert (first.result.generation, second.result.generation) == (2, 2)
    assert {member for member, _, _ in first.result.members} == {first.id, second.id}
    assert second.result.members == ()


def test_member_that_does_not_rejoin_in_time_is_removed() -> None:
    world = World()
    group, (first,) = world.stable(1)
    _, second = world.join()
    for _ in range(2):  # it sends heartbeats, but never joins
        world.clock.advance(SESSION_MS - 1)
        world.groups.keep_alive(group, first)
    assert second.result is None
    world.clock.advance(SESSION_MS - 1)
    world.groups.keep_alive(group, first)
    world.clock.advance(REBALANCE_MS - 3 * (SESSION_MS - 1))
    assert second.result is not None
    assert list(group.members) == [second.id]


@pytest.mark.parametrize("missing", [0, 1])
def test_member_that_never_syncs_is_removed_though_it_sends_heartbeats(missing: int) -> None:
    world = World()
    group, leader = world.join()
    _, follower = world.join()
    world.join(leader.id)
    members = [leader, follower]
    group.sync(members[1 - missing], {})
    for _ in range(REBALANCE_MS // 5000):
        assert len(group.members) == 2
        for member in members:
            world.groups.keep_alive(group, member)
        world.clock.advance(5000)
    assert [*group.members.values()] == [members[1 - missing]]
    assert group.state is GroupState.PREPARING
    world.join(members[1 - missing].id)
    assert (group.generation, group.leader) == (3, members[1 - missing].id)


def test_silent_member_is_removed_after_its_session_timeout() -> None:
    world = World()
    group, (first, second) = world.stable(2)
    world.clock.advance(SESSION_MS - 1)
    world.groups.keep_alive(group, first)
    world.clock.advance(1)
    assert list(group.members) == [first.id]
    assert group.state is GroupState.PREPARING
    with pytest.raises(RequestError, match="UNKNOWN_MEMBER_ID"):
        group.member(second.id)


def test_group_is_empty_when_the_last_member_leaves() -> None:
    world = World()
    group, members = world.stable(2)
    with pytest.raises(RequestError, match="NON_EMPTY_GROUP"):
        world.groups.delete("g")
    for member in members:
        world.groups.leave(group, member)
    assert group.state is GroupState.EMPTY
    world.groups.delete("g")
    assert not world.groups.has("g")


def test_group_has_at_most_as_many_members_as_a_setting_says() -> None:
    world = World(group_max_size="2")
    group, (first, second) = world.stable(2)
    with pytest.raises(RequestError, match="GROUP_MAX_SIZE_REACHED"):
        world.join()
    assert (str(group.state), [*group.members]) == ("Stable", [first.id, second.id])
    world.join(first.id)
    world.join(second.id)
    assert group.generation == 3
    world.groups.leave(group, second)
    world.join()
    world.join(first.id)
    assert (group.generation, len(group.members)) == (4, 2)


def test_last_member_that_joins_a_rebalance_of_too_many_is_removed() -> None:
    world = World(group_max_size="2")
    group, (first,) = world.stable(1)
    _, second = world.join()
    with pytest.raises(MemberIdRequired) as required:
        world.groups.join("g", replace(world.wish(), must_know_its_id=True))
    _, third = world.join()
    for member_id in (required.value.member_id, first.id):
        with pytest.raises(RequestError, match="GROUP_MAX_SIZE_REACHED"):
            world.join(member_id)
    assert ([*group.members], group.generation) == ([second.id, third.id], 2)


def test_member_is_told_an_id_to_join_with() -> None:
    world = World()
    shy = replace(world.wish(), must_know_its_id=True)
    with pytest.raises(MemberIdRequired) as required:
        world.groups.join("g", shy)
    group, member = world.join(required.value.member_id)
    assert member.id == required.value.member_id == "client-1"
    assert member.result is not None
    assert not group.pending


def test_unused_member_id_delays_the_rebalance_only_until_it_expires() -> None:
    world = World()
    shy = replace(world.wish(), must_know_its_id=True)
    with pytest.raises(MemberIdRequired):
        world.groups.join("g", shy)
    _, member = world.join()
    assert member.result is None
    world.clock.advance(SESSION_MS)
    assert member.result is not None


def test_rebalance_does_not_wait_for_an_announced_member_that_leaves() -> None:
    def wish(member_id: str, metadata: bytes = b"") -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol("range", metadata)]
        return JoinGroupRequest("g", SESSION_MS, REBALANCE_MS, member_id, None, "consumer", protocols)

    with Broker() as broker, Raw(broker) as raw, Raw(broker) as other:
        raw.ask(FindCoordinatorRequest("", 0, ["g"]), 4)
        member = raw.ask(wish(raw.ask(wish(""), 9).member_id), 9)
        announced = other.ask(wish(""), 9)
        again = wish(member.member_id, b"other topics")
        raw.send(encode_request(again, 9, 1, "raw"))
        other.ask(LeaveGroupRequest("g", members=[MemberIdentity(announced.member_id)]), 5)
        assert raw.response(again, 9).generation_id == member.generation_id + 1


def test_static_member_replaces_its_predecessor() -> None:
    world = World()
    _, old = world.groups.join("g", world.wish(instance="one"))
    group, new = world.groups.join("g", world.wish(instance="one"))
    assert list(group.members) == [new.id]
    with pytest.raises(RequestError, match="FENCED_INSTANCE_ID"):
        group.member(old.id, "one")


def test_follower_that_joins_again_unchanged_gets_the_same_generation() -> None:
    world = World()
    group, (leader, follower) = world.stable(2)
    world.join(follower.id)
    assert (str(group.state), group.generation) == ("Stable", 2)
    assert follower.result == JoinResult(2, "range", leader.id, ())
    assert follower.assignment == b"part of " + follower.id.encode()


def test_leader_or_changed_follower_that_joins_again_starts_a_rebalance() -> None:
    for number, metadata in ((0, b"topics"), (1, b"other topics")):
        world = World()
        group, members = world.stable(2)
        world.join(members[number].id, range=metadata)
        assert group.state is GroupState.PREPARING
        assert members[number].result is None


def test_lost_result_is_repeated_before_the_partitions_are_assigned() -> None:
    world = World()
    group, leader = world.join()
    first, leader.result = leader.result, None
    world.join(leader.id)
    assert leader.result == first
    assert (group.state, group.generation) == (GroupState.COMPLETING, 1)


def stable_statics(world: World) -> tuple[ClassicGroup, ClassicMember, ClassicMember]:
    """A group of a leader, instance `one`, and a follower, instance `two`."""
    group, leader = world.groups.join("g", world.wish(instance="one"))
    _, follower = world.groups.join("g", world.wish(instance="two"))
    world.groups.join("g", world.wish(leader.id, "one"))
    group.assign({leader.id: b"first", follower.id: b"second"})
    return group, leader, follower


def test_static_follower_restarts_without_a_rebalance() -> None:
    world = World()
    group, leader, old = stable_statics(world)
    new = world.restart("two", range=b"other topics")
    assert (str(group.state), group.generation, [*group.members]) == ("Stable", 2, [leader.id, new.id])
    assert (new.result, new.assignment) == (JoinResult(2, "range", leader.id, ()), b"second")
    for request in (
        lambda: group.member(old.id, "two"),
        lambda: world.groups.join("g", world.wish(old.id, "two")),
    ):
        with pytest.raises(RequestError, match="FENCED_INSTANCE_ID"):
            request()
    world.clock.advance(SESSION_MS - 1)
    world.groups.keep_alive(group, leader)
    world.groups.keep_alive(group, new)
    world.clock.advance(1)  # the session of the one before has ended with it
    assert str(group.state) == "Stable"


def test_static_leader_restarts_and_must_not_assign_again() -> None:
    world = World()
    group, old, follower = stable_statics(world)
    new = world.restart("one")
    everyone = ((new.id, "one", b"topics"), (follower.id, "two", b"topics"))
    assert new.result == JoinResult(2, "range", new.id, everyone, skip_assignment=True)
    newest = world.restart("one", can_skip=False)
    assert newest.result == JoinResult(2, "range", new.id, ())
    assert (group.leader, newest.assignment, str(group.state)) == (newest.id, b"first", "Stable")
    assert old.id not in group.members


def test_static_member_that_restarts_with_another_protocol_starts_a_rebalance() -> None:
    world = World()
    group, leader = world.groups.join("g", world.wish(instance="one", range=b"", sticky=b""))
    group.assign({leader.id: b"everything"})
    assert world.restart("one", sticky=b"", range=b"").result is not None  # alone, it has joined
    assert (group.generation, group.protocol, group.state) == (2, "sticky", GroupState.COMPLETING)


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", {}), ("connect", {"range": b""}), ("consumer", {"other": b""})],
)
def test_only_member_that_joins_again_with_nothing_in_common_is_refused(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    world = World()
    group, (member,) = world.stable(1)
    again = replace(world.wish(member.id), protocol_type=protocol_type, protocols=protocols)
    with pytest.raises(RequestError, match="INCONSISTENT_GROUP_PROTOCOL"):
        world.groups.join("g", again)
    assert (str(group.state), group.generation, member.protocols) == ("Stable", 1, {"range": b"topics"})
    world.join()


def test_chosen_protocol_is_supported_by_all_members() -> None:
    world = World()
    _, first = world.join(range=b"", sticky=b"")
    with pytest.raises(RequestError, match="INCONSISTENT_GROUP_PROTOCOL"):
        world.join(other=b"")
    _, second = world.join(sticky=b"")
    world.join(first.id, range=b"", sticky=b"")
    assert second.result is not None
    assert second.result.protocol == "sticky"


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        (HeartbeatRequest(member_id="m"), 4),
        (SyncGroupRequest(member_id="m"), 5),
        (LeaveGroupRequest(member_id="m"), 2),
        (LeaveGroupRequest(members=[MemberIdentity("m")]), 5),
    ],
)
def test_empty_group_id_is_refused(asked: Request[Response], version: int) -> None:
    with Broker() as broker, Raw(broker) as raw:
        assert raw.ask(asked, version).error_code == ErrorCode.INVALID_GROUP_ID


def test_commits_are_checked() -> None:
    world = World()
    world.groups.check_commit("nobody's", "", -1, None)
    with pytest.raises(RequestError, match="ILLEGAL_GENERATION"):
        world.groups.check_commit("nobody's", "m", 1, None)
    group, (member,) = world.stable(1)
    world.groups.check_commit("g", member.id, group.generation, None)
    for member_id, generation, code in (
        (member.id, group.generation - 1, "ILLEGAL_GENERATION"),
        ("stranger", group.generation, "UNKNOWN_MEMBER_ID"),
        ("", -1, "UNKNOWN_MEMBER_ID"),
    ):
        with pytest.raises(RequestError, match=code):
            world.groups.check_commit("g", member_id, generation, None)


@pytest.mark.parametrize("timeout", [5999, 1_800_001])
def test_session_timeout_out_of_range_is_refused(timeout: int) -> None:
    world = World()
    with pytest.raises(RequestError, match="INVALID_SESSION_TIMEOUT"):
        world.groups.join("g", replace(world.wish(), session_timeout_ms=timeout))


def test_initial_rebalance_is_delayed() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    _, first = world.join()
    world.clock.advance(1000)
    _, second = world.join()
    assert first.result is None
    world.clock.advance(2000)
    assert first.result is not None
    assert second.result is not None


def test_transactional_offsets_are_visible_after_the_commit() -> None:
    offsets, told = Offsets(), list[object]()
    offsets.on_change = lambda *change: told.append(change)
    for producer, partition in ((1, 0), (2, 1)):
        offsets.commit_later(producer, "g", ("t", partition), CommittedOffset(5))
    assert offsets.is_pending("g", ("t", 0))
    assert offsets.of("g") == {}
    offsets.end_transaction(1, is_commit=True)
    offsets.end_transaction(2, is_commit=False)
    assert offsets.of("g") == {("t", 0): CommittedOffset(5)}
    assert told == [("g", ("t", 0), CommittedOffset(5))]
    assert not offsets.is_pending("g", ("t", 1))
    offsets.forget_topic("t")
    assert not offsets.has("g")


@pytest.mark.parametrize("what", ["group", "topic", "partition"])
def test_offsets_of_a_transaction_are_forgotten_with_their_group_topic_or_partition(what: str) -> None:
    offsets = Offsets()
    for group, topic, index in (("g", "t", 0), ("g", "u", 0), ("h", "t", 1)):
        offsets.commit_later(7, group, (topic, index), CommittedOffset(9))
    if what == "group":
        offsets.forget_group("g")
    elif what == "topic":
        offsets.forget_topic("t")
    else:
        offsets.forget("g", [("t", 0)])
    offsets.end_transaction(7, True)
    left = {(group, *partition) for group in offsets.groups() for partition in offsets.of(group)}
    expected = {
        "group": {("h", "t", 1)},
        "topic": {("g", "u", 0)},
        "partition": {("g", "u", 0), ("h", "t", 1)},
    }
    assert left == expected[what]
