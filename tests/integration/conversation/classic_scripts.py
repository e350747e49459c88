"""Requests of classic consumer groups: members that join again, and static members that restart."""

from __future__ import annotations

from typing import Any

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kshare.protocol.messages.join_group_request import JoinGroupRequestProtocol
from kshare.protocol.messages.leave_group_request import MemberIdentity
from kshare.protocol.messages.sync_group_request import SyncGroupRequestAssignment
from tests.integration.conversation.talk import Talk

SKIPS_ASSIGNMENT, BEFORE = 9, 8
"""JoinGroup versions: since 9, a static leader that restarts is told that it is the leader."""


class Member:
    """A member with a connection of its own, whose requests may wait."""

    def __init__(
        self, talk: Talk, group: str, label: str, instance: str | None = None, version: int = SKIPS_ASSIGNMENT
    ) -> None:
        self.talk, self.group, self.label = talk, group, label
        self.instance, self.version = instance, version
        self.id = ""
        self.generation = -1

    def send_join(self, metadata: bytes = b"topics") -> None:
        if not self.id and self.instance is None:
            response = self.talk.quietly(self._join_request(metadata), self.label, self.version)
            assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED, response
            self.id = response.member_id
        self.talk.connection(self.label).send(self._join_request(metadata), self.version)

    def _join_request(self, metadata: bytes) -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol("range", metadata)]
        return JoinGroupRequest(self.group, 30_000, 30_000, self.id, self.instance, "consumer", protocols)

    def joined(self) -> None:
        """Receive the response to a join, and note it."""
        response = self.talk.connection(self.label).receive(JoinGroupResponse, self.version)
        if response.error_code == 0:
            self.id, self.generation = response.member_id, response.generation_id
            self.talk.call(self.id, self.label)
        noted = [response.error_code, response.generation_id, response.leader, response.skip_assignment]
        self.talk.note(f"{self.label} joined", [*noted, len(response.members)])

    def join(self, metadata: bytes = b"topics") -> None:
        self.send_join(metadata)
        self.joined()

    def sync(self, **assignments: str) -> None:
        """`assignments`: partitions → member id."""
        rows = [SyncGroupRequestAssignment(member, part.encode()) for part, member in assignments.items()]
        response = self.talk.quietly(
            SyncGroupRequest(
                self.group, self.generation, self.id, self.instance, "consumer", "range", assignments=rows
            ),
            via=self.label,
        )
        self.talk.note(f"{self.label} synced", [response.error_code, bytes(response.assignment).decode()])

    def beat(self) -> None:
        request = HeartbeatRequest(self.group, self.generation, self.id, self.instance)
        self.talk.note(f"{self.label} beats", self.talk.quietly(request, via=self.label).error_code)

    def leave(self) -> None:
        self.talk.quietly(LeaveGroupRequest(self.group, members=[MemberIdentity(self.id, self.instance)]))


def new_group(talk: Talk, label: str = "consumers") -> str:
    name = talk.name(label)
    talk.wait_for(
        lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=[name]),
        lambda response: response.coordinators[0].error_code == 0,
    )
    return name


def state_of(talk: Talk, group: str) -> None:
    described: Any = talk.quietly(DescribeGroupsRequest([group])).groups[0]
    members = [f"{member.member_id} {member.group_instance_id}" for member in described.members]
    talk.note("group", [described.group_state, described.protocol_data])
    for member in sorted(members, key=lambda text: text.rpartition(" ")[2]):
        talk.note("member", member)


def settle(leader: Member, follower: Member) -> None:
    """Let both join, and assign a part to each."""
    leader.join()
    leader.sync(everything=leader.id)
    follower.send_join()
    until_told(leader)
    leader.join()
    follower.joined()
    leader.sync(first=leader.id, second=follower.id)
    follower.sync()


def until_told(member: Member) -> None:
    """Wait until heartbeats say that the group rebalances."""
    member.talk.wait_for(
        lambda: HeartbeatRequest(member.group, member.generation, member.id, member.instance),
        lambda response: response.error_code == ErrorCode.REBALANCE_IN_PROGRESS,
        via=member.label,
    )


def members_that_join_again(talk: Talk) -> None:
    group = new_group(talk)
    leader, follower = Member(talk, group, "leader"), Member(talk, group, "follower")
    settle(leader, follower)
    unnamed = SyncGroupRequest(group, leader.generation, leader.id)  # without the protocol, which v5 demands
    talk.note("leader synced", talk.quietly(unnamed).error_code)
    follower.join()  # with nothing changed: the same generation
    follower.sync()
    leader.beat()
    state_of(talk, group)
    follower.send_join(b"other topics")
    until_told(leader)
    leader.join()
    follower.joined()
    follower.join(b"other topics")  # its response was lost, and the leader hasn't assigned yet
    leader.join()
    leader.sync(first=leader.id, second=follower.id)
    follower.sync()
    leader.send_join()  # the leader always starts a rebalance: it may have seen new partitions
    until_told(follower)
    follower.join(b"other topics")
    leader.joined()
    follower.leave()
    leader.leave()
    state_of(talk, group)


def static_members_restart(talk: Talk) -> None:
    for version in (SKIPS_ASSIGNMENT, BEFORE):
        group = new_group(talk, f"consumers-{version}")
        leader = Member(talk, group, f"leader-{version}", "one", version)
        follower = Member(talk, group, f"follower-{version}", "two", version)
        settle(leader, follower)
        reborn = Member(talk, group, f"reborn-{version}", "two", version)
        reborn.join()
        reborn.sync()
        follower.beat()
        follower.join()
        leader.beat()
        state_of(talk, group)
        next_leader = Member(talk, group, f"next-{version}", "one", version)
        next_leader.join(b"other topics")
        next_leader.sync()
        reborn.beat()
        state_of(talk, group)
        next_leader.send_join()  # joins again: a leader
        until_told(reborn)
        reborn.join()
        next_leader.joined()
        again = Member(talk, group, f"again-{version}", "two", version)
        again.send_join()  # before the partitions are assigned: a rebalance
        until_told(next_leader)
        next_leader.join()
        again.joined()
        reborn.beat()
        state_of(talk, group)
        again.leave()
        next_leader.leave()
    state_of(talk, group)


SCRIPTS = [members_that_join_again, static_members_restart]
