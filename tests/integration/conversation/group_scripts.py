"""Requests to the group coordinator: joining, heartbeats, leaving, describing."""

from __future__ import annotations

from typing import Any

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    CreatePartitionsRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.protocol.messages.delete_topics_request import DeleteTopicState
from kshare.protocol.messages.join_group_request import JoinGroupRequestProtocol
from tests.integration.conversation.sharer import Sharer
from tests.integration.conversation.talk import Talk


def describe(talk: Talk, *groups: str) -> Any:
    return talk.ask(ShareGroupDescribeRequest(list(groups)))


def beat(talk: Talk, sharer: Sharer, epoch: int, topics: list[str] | None = None) -> Any:
    return talk.ask(sharer.heartbeat(epoch, topics))


def wrong_heartbeats(talk: Talk) -> None:
    topic, group = talk.topic("orders"), talk.group("g")
    one = Sharer(talk, group, topic, "one")
    nobody = Sharer(talk, "", topic, "nobody")
    nobody_epoch = nobody.heartbeat(0, [topic])
    talk.ask(nobody_epoch)
    talk.ask(ShareGroupHeartbeatRequest("  ", one.id, 0, None, [topic]))
    talk.ask(ShareGroupHeartbeatRequest(group, "", 0, None, [topic]))
    talk.ask(ShareGroupHeartbeatRequest(group, " ", 0, None, [topic]))
    talk.ask(ShareGroupHeartbeatRequest(group, one.id, 0, "", [topic]))
    talk.ask(ShareGroupHeartbeatRequest(group, one.id, 0, None, None))
    talk.ask(ShareGroupHeartbeatRequest(group, one.id, 0, None, []))
    beat(talk, one, -2, [topic])
    beat(talk, one, -7, [topic])
    beat(talk, one, 1)
    beat(talk, one, -1)
    describe(talk, group)
    describe(talk, "")
    describe(talk)


def a_members_life(talk: Talk) -> None:
    topic, group = talk.topic("orders", 3), talk.group("g")
    one = Sharer(talk, group, topic, "one")
    first = beat(talk, one, 0, [topic])
    epoch = first.member_epoch
    describe(talk, group)
    one.member_epoch = epoch
    _until_assigned(talk, one, 3)
    describe(talk, group)
    epoch = one.member_epoch
    beat(talk, one, epoch)
    beat(talk, one, epoch, [topic])
    beat(talk, one, epoch + 1)
    beat(talk, one, epoch + 9)
    beat(talk, one, epoch - 1)
    beat(talk, one, max(epoch - 2, 1))
    stranger = Sharer(talk, group, topic, "stranger")
    beat(talk, stranger, 1)
    beat(talk, stranger, epoch)
    beat(talk, stranger, -1)
    beat(talk, one, -1)
    describe(talk, group)
    beat(talk, one, epoch)
    again = beat(talk, one, 0, [topic])
    assert again.error_code == 0
    beat(talk, one, -1)
    talk.ask(DeleteGroupsRequest([group]))
    describe(talk, group)
    talk.ask(DeleteGroupsRequest([group]))


def two_members(talk: Talk) -> None:
    topic, other, group = talk.topic("orders", 2), talk.topic("more", 1), talk.group("g")
    one, two = Sharer(talk, group, topic, "one"), Sharer(talk, group, other, "two")
    one.join(2)
    beat(talk, one, one.member_epoch)
    describe(talk, group)
    two.join(1)
    describe_sorted(talk, group)
    # The next heartbeat has the changed assignment.
    talk.wait_for(lambda: one.heartbeat(one.member_epoch), lambda a: a.member_epoch == two.member_epoch)
    one.member_epoch = two.member_epoch
    beat(talk, one, one.member_epoch)
    beat(talk, one, one.member_epoch, [topic, other])
    talk.ask(DeleteGroupsRequest([group]))
    two.leave()
    one.leave()
    describe(talk, group)


def members_in_turn(talk: Talk) -> None:
    """Each joins when the one before has left: after it got its assignment, and before."""
    topic, group = talk.topic("orders", 2), talk.group("g")
    one, two, three = (Sharer(talk, group, topic, name) for name in ("one", "two", "three"))
    one.join(2)
    for leaving, joining in ((one, two), (two, three), (three, one)):
        beat(talk, leaving, -1)
        describe(talk, group)
        joining.member_epoch = beat(talk, joining, 0, [topic]).member_epoch
        describe(talk, group)
    beat(talk, two, 0, [topic])
    two.leave()
    one.leave()


def subscriptions(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), talk.group("g")
    # Wait until the coordinator knows the topic: learning of it later would increase the group epoch once more.
    scout = Sharer(talk, talk.group("scouts"), topic, "scout")
    scout.join(2)
    scout.leave()
    one = Sharer(talk, group, talk.name("missing"), "one")
    beat(talk, one, 0, [one.topic])
    missing = beat(talk, one, 0, [one.topic])
    assert not missing.error_code
    one.member_epoch = missing.member_epoch
    describe(talk, group)
    one.member_epoch = talk.quietly(one.heartbeat(one.member_epoch, [topic])).member_epoch
    _until_assigned(talk, one, 2)
    describe(talk, group)
    beat(talk, one, one.member_epoch, [])
    describe(talk, group)
    one.leave()


def topics_change(talk: Talk) -> None:
    topic, group = talk.topic("orders", 1), talk.group("g")
    one = Sharer(talk, group, topic, "one")
    one.join(1)
    talk.quietly(CreatePartitionsRequest([CreatePartitionsTopic(topic, 3, None)], 10_000))
    talk.wait_for(lambda: one.heartbeat(one.member_epoch), _adopts(one, 3))
    describe(talk, group)
    talk.quietly(DeleteTopicsRequest([DeleteTopicState(topic)], [], 10_000))
    talk.wait_for(lambda: one.heartbeat(one.member_epoch), _adopts(one, 0))
    describe(talk, group)
    one.leave()


def other_kinds_of_groups(talk: Talk) -> None:
    topic, group, other = talk.topic("orders"), talk.group("g"), talk.group("consumers")
    one = Sharer(talk, group, topic, "one")
    one.join()
    _join_classic(talk, other)
    two = Sharer(talk, other, topic, "two")
    beat(talk, two, 0, [topic])
    beat(talk, two, 3)
    describe(talk, other)
    beat(talk, two, -1)
    talk.ask(AlterShareGroupOffsetsRequest(other, []))
    talk.ask(DeleteShareGroupOffsetsRequest(other, []))
    talk.ask(DescribeGroupsRequest([group, talk.name("missing")]))
    listed = talk.quietly(ListGroupsRequest(types_filter=["share"]))
    found = [row for row in listed.groups if row.group_id == group]
    talk.note("listed", [(row.protocol_type, row.group_state, row.group_type) for row in found])
    one.leave()
    listed = talk.quietly(ListGroupsRequest(types_filter=["share"], states_filter=["Empty"]))
    found = [row for row in listed.groups if row.group_id == group]
    talk.note("listed", [(row.protocol_type, row.group_state, row.group_type) for row in found])


def _join_classic(talk: Talk, group: str) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    member = ""
    while True:
        request = JoinGroupRequest(group, 30_000, 30_000, member, None, "consumer", protocols)
        response = talk.quietly(request)
        if response.error_code == 0:
            return
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED, response
        member = response.member_id


def sessions_end(talk: Talk) -> None:
    settings = {"share.session.timeout.ms": "1000", "share.heartbeat.interval.ms": "500"}
    topic, group = talk.topic("orders"), talk.group("g", settings)
    one = Sharer(talk, group, topic, "one")
    beat(talk, one, 0, [topic])
    one.join()
    talk.wait_for(lambda: ShareGroupDescribeRequest([group]), lambda a: not a.groups[0].members)
    beat(talk, one, one.member_epoch)
    describe(talk, group)


def too_many_members(talk: Talk) -> None:
    """The brokers of this conversation allow three members per group."""
    topic, group = talk.topic("orders"), talk.group("g")
    members = [Sharer(talk, group, topic, f"member-{number}") for number in range(4)]
    for member in members:
        beat(talk, member, 0, [topic])
    beat(talk, members[0], -1)
    again = talk.quietly(members[3].heartbeat(0, [topic]))
    talk.note("room again", again.error_code)
    for member in members[1:]:
        member.leave()


def _until_assigned(talk: Talk, sharer: Sharer, partitions: int) -> None:
    talk.wait_for(lambda: sharer.heartbeat(sharer.member_epoch), _adopts(sharer, partitions))


def _adopts(sharer: Sharer, partitions: int) -> Any:
    def is_good(response: Any) -> bool:
        assert response.error_code == 0, response
        sharer.member_epoch = response.member_epoch
        if response.assignment is None:
            return False
        return sum(len(row.partitions) for row in response.assignment.topic_partitions) == partitions

    return is_good


def describe_sorted(talk: Talk, group: str) -> None:
    """Note the members sorted by their topics: brokers list them in any order."""
    response = talk.quietly(ShareGroupDescribeRequest([group]))
    members = sorted(response.groups[0].members, key=lambda member: member.subscribed_topic_names)
    talk.note(
        "members",
        [
            [
                member.member_id,
                member.member_epoch,
                [len(t.partitions) for t in member.assignment.topic_partitions],
            ]
            for member in members
        ],
    )
    talk.note("group", [response.groups[0].group_state, response.groups[0].group_epoch])


SCRIPTS = [
    wrong_heartbeats,
    a_members_life,
    two_members,
    members_in_turn,
    subscriptions,
    topics_change,
    other_kinds_of_groups,
    sessions_end,
    too_many_members,
]
