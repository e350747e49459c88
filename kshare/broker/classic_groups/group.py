"""One classic group, without IO: its members, and how they agree on a generation.

    Empty ──join──▶ PreparingRebalance ──all have joined, or time is up──▶ CompletingRebalance
      ▲                 ▲        ▲                                                 │ the leader's assignment
      └──last one leaves┘        └───────────join, leave, expiry─────── Stable ◀───┘

Every member must join again in each rebalance; the leader (the first that joined) assigns the partitions. A member that
joins again unchanged, and a static member that restarts, get the result of a stable group. Decides generations, leaders
and protocols. Never decides assignments, and has no clock: the coordinator ends a rebalance when
its time is up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kshare.broker.notifiers import Notifier
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode


def check_group_id(group_id: str) -> None:
    """Raises RequestError: no classic group is without an id."""
    if not group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID)


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, frozen=True)
class JoinResult:
    """A member's result of a rebalance that all members have joined."""

    generation: int
    protocol: str
    leader: str
    members: tuple[tuple[str, str | None, bytes], ...]
    """Only for the leader: each member's id, instance and metadata for the chosen protocol."""
    skip_assignment: bool = False
    """Whether the leader must not assign the partitions again: the group is stable."""


@dataclass(slots=True, eq=False)
class ClassicMember:
    id: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    protocols: dict[str, bytes] = field(default_factory=dict)
    """Name → metadata, in order of preference."""
    assignment: bytes = b""
    has_joined: bool = False
    """Whether it has joined the current rebalance."""
    result: JoinResult | None = None
    """The result of the last rebalance, until it is returned."""


@dataclass(slots=True)
class ClassicGroup:
    """`changed` fires whenever requests that wait for the group should check it again."""

    id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, ClassicMember] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    """Member ids of members that haven't joined with them yet."""
    unsynced: set[str] = field(default_factory=set)
    """Member ids of members of the current generation that haven't asked for their assignment yet."""
    changed: Notifier = field(default_factory=Notifier)

    # --- joining

    def check_protocols(self, protocol_type: str, protocols: dict[str, bytes]) -> None:
        """Raises RequestError if a member that joins has no protocol that all members support."""
        if not protocol_type or not protocols:
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.members and (
            protocol_type != self.protocol_type or not self._supported_by_all() & protocols.keys()
        ):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def join(self, member: ClassicMember, protocol_type: str) -> None:
        """Let a new or existing member join the rebalance. Starts one if necessary."""
        self.members[member.id] = member
        self.pending.discard(member.id)
        self.protocol_type = protocol_type
        self.start_rebalance()
        member.has_joined = True
        member.result = None

    def is_settled(self, member: ClassicMember, protocols: Mapping[str, bytes]) -> bool:
        """Whether a known member that joins again needs no new generation.

        If the group is stable, the leader always does: it has seen a change that its metadata don't show.
        """
        if self.state is GroupState.STABLE and member.id == self.leader:
            return False
        return self.state in (GroupState.COMPLETING, GroupState.STABLE) and [*member.protocols.items()] == [
            *protocols.items()
        ]

    def repeat_result(self, member: ClassicMember) -> None:
        """Let the member have the result of the current generation once more."""
        member.result = self._result_for(member)

    def replace(self, old: ClassicMember, new: ClassicMember, *, can_skip_assignment: bool) -> None:
        """Let a static member that has restarted take the place of the one that it was before.

        A stable group stays as it is, unless another protocol would be chosen now. Clients that know of
        `skip_assignment` learn that they are the leader. Others get the old leader's id, so that they don't assign.
        """
        leader_before = self.leader
        new.assignment = old.assignment
        self.members = {
            each.id: each for each in (new if member is old else member for member in self.members.values())
        }
        self.unsynced.discard(old.id)
        if self.leader == old.id:
            self.leader = new.id
        if self.state is GroupState.STABLE and self._choose_protocol() == self.protocol:
            if can_skip_assignment:
                is_leader = new.id == self.leader
                new.result = replace(self._result_for(new), skip_assignment=is_leader)
            else:
                new.result = JoinResult(self.generation, self.protocol, leader_before, ())
        else:
            self.join(new, self.protocol_type)
        self.changed.fire()

    def start_rebalance(self) -> None:
        if self.state is GroupState.PREPARING:
            return
        self.state = GroupState.PREPARING
        self.unsynced.clear()
        for member in self.members.values():
            member.has_joined = False
        self.changed.fire()

    @property
    def has_everyone(self) -> bool:
        return not self.pending and all(member.has_joined for member in self.members.values())

    def complete_join(self) -> None:
        """Start the next generation with all members. The caller has removed those that haven't joined."""
        self.generation += 1
        if not self.members:
            self.state, self.leader, self.protocol = GroupState.EMPTY, "", ""
            self.changed.fire()
            return
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.protocol = self._choose_protocol()
        self.state = GroupState.COMPLETING
        self.unsynced = set(self.members)
        for member in self.members.values():
            member.result = self._result_for(member)
            member.assignment = b""
        self.changed.fire()

    def _result_for(self, member: ClassicMember) -> JoinResult:
        members = tuple(
            (each.id, each.instance, each.protocols[self.protocol])
            for each in self.members.values()
            if member.id == self.leader
        )
        return JoinResult(self.generation, self.protocol, self.leader, members)

    def _supported_by_all(self) -> set[str]:
        return set.intersection(*(set(member.protocols) for member in self.members.values()))

    def _choose_protocol(self) -> str:
        """Each member votes for its first protocol that all support. The most votes win."""
        possible = self._supported_by_all()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name in member.protocols if name in possible)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    # --- afterwards

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members."""
        return max(member.rebalance_timeout_ms for member in self.members.values())

    def member(self, member_id: str, instance: str | None = None) -> ClassicMember:
        """Raises RequestError if it isn't in the group, or if another member has this instance id now."""
        found = self.members.get(member_id)
        if instance is not None:
            holder = self.by_instance(instance)
            if holder is not None and holder.id != member_id:
                raise RequestError(ErrorCode.FENCED_INSTANCE_ID)
        if found is None or self.state is GroupState.DEAD:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found

    def by_instance(self, instance: str) -> ClassicMember | None:
        return next((each for each in self.members.values() if each.instance == instance), None)

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise RequestError(ErrorCode.ILLEGAL_GENERATION)

    def sync(self, member: ClassicMember, assignments: dict[str, bytes]) -> None:
        """Note that a member has asked for its assignment. The leader brings those of all members."""
        self.unsynced.discard(member.id)
        if self.state is GroupState.COMPLETING and self.leader == member.id:
            self.assign(assignments)

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Store the leader's assignments. The group is stable afterwards."""
        for member in self.members.values():
            member.assignment = assignments.get(member.id, b"")
        self.state = GroupState.STABLE
        self.changed.fire()

    def remove(self, member: ClassicMember) -> None:
        """Remove a member that has left, expired or was replaced. The others must join again."""
        self.members.pop(member.id, None)
        if self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self.start_rebalance()
        self.changed.fire()
