"""The coordinator of classic groups: creates them, watches timeouts, and stores their offsets.

Decides when a member has expired and when a rebalance has waited long enough. `group` handles the consequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kshare.broker.classic_groups.group import ClassicGroup, ClassicMember, GroupState, check_group_id
from kshare.broker.classic_groups.offsets import Offsets
from kshare.broker.clock import Clock, Timer
from kshare.broker.configs import Configs
from kshare.broker.groups import Groups, ListedGroup
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.surroundings import random_bytes


@dataclass(slots=True, frozen=True)
class JoinParameters:
    """The parameters of a JoinGroup request."""

    member_id: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: dict[str, bytes]
    must_know_its_id: bool
    """Whether a new member is refused once, with the member id that it must join with."""
    can_skip_assignment: bool = False
    """Whether the client understands that a leader must not assign the partitions again."""


class MemberIdRequired(RequestError):
    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.MEMBER_ID_REQUIRED)
        self.member_id = member_id


class ClassicGroups:
    """All classic groups, as a `groups.GroupKind`."""

    def __init__(
        self,
        clock: Clock,
        configs: Configs,
        groups: Groups,
        new_id: Callable[[], str] = lambda: random_bytes(16).hex(),
    ) -> None:
        self.offsets = Offsets()
        self._clock = clock
        self._configs = configs
        self._groups = groups
        self._new_id = new_id
        self._by_id: dict[str, ClassicGroup] = {}
        self._sessions: dict[ClassicMember, Timer] = {}
        self._rebalances: dict[str, Timer] = {}
        groups.kinds.append(self)

    # --- GroupKind

    def has(self, group_id: str) -> bool:
        return group_id in self._by_id or self._has_only_offsets(group_id)

    def listed(self) -> Iterator[ListedGroup]:
        for group_id in dict.fromkeys([*self._by_id, *filter(self._has_only_offsets, self.offsets.groups())]):
            group = self.describe(group_id)
            yield ListedGroup(group_id, group.state, "classic", group.protocol_type)

    def delete(self, group_id: str) -> None:
        group = self._by_id.get(group_id)
        if group is not None and group.members:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)
        self._by_id.pop(group_id, None)
        self.offsets.forget_group(group_id)

    def give_way(self, group_id: str) -> bool:
        group = self._by_id.get(group_id)
        if group is not None and (group.members or group.pending):
            return False
        self._by_id.pop(group_id, None)
        return True

    def _has_only_offsets(self, group_id: str) -> bool:
        """Whether it is a group without members, and not one of another kind, whose offsets are here too."""
        others = (kind for kind in self._groups.kinds if kind is not self)
        return self.offsets.has(group_id) and not any(kind.has(group_id) for kind in others)

    def describe(self, group_id: str) -> ClassicGroup:
        """The group. If there is none, one in state Empty if it has offsets, otherwise Dead."""
        found = self._by_id.get(group_id)
        if found is None:
            state = GroupState.EMPTY if self._has_only_offsets(group_id) else GroupState.DEAD
            found = ClassicGroup(group_id, state)
        return found

    def find(self, group_id: str) -> ClassicGroup:
        found = self._by_id.get(group_id)
        if found is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found

    # --- joining

    def join(self, group_id: str, parameters: JoinParameters) -> tuple[ClassicGroup, ClassicMember]:
        """The group and the member, which gets its `result` when all members have joined. Raises RequestError."""
        self._check_join(group_id, parameters)
        group = self._by_id.get(group_id)
        if group is None:
            if parameters.member_id:
                raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = self._by_id[group_id] = ClassicGroup(group_id)
        self._check_size(group, parameters.member_id)
        is_new = not parameters.member_id or parameters.member_id in group.pending
        known = None if is_new else group.member(parameters.member_id, parameters.instance)
        group.check_protocols(parameters.protocol_type, parameters.protocols)
        if not parameters.member_id and parameters.must_know_its_id and parameters.instance is None:
            raise MemberIdRequired(self._announce(group, parameters))
        if known is not None and group.is_settled(known, parameters.protocols):
            group.repeat_result(known)
            self.keep_alive(group, known)
            return group, known
        member = self._enter(group, known, parameters)
        self._await_everyone(group)
        return group, member

    def _check_join(self, group_id: str, parameters: JoinParameters) -> None:
        check_group_id(group_id)
        minimum = self._configs.broker_number("group.min.session.timeout.ms")
        maximum = self._configs.broker_number("group.max.session.timeout.ms")
        if not minimum <= parameters.session_timeout_ms <= maximum:
            raise RequestError(ErrorCode.INVALID_SESSION_TIMEOUT)
        other = self._groups.kind_of(group_id)
        if other is not None and other is not self and not other.give_way(group_id):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _check_size(self, group: ClassicGroup, member_id: str) -> None:
        """Raises RequestError if the group has no room for this member. The last to join a rebalance are too many."""
        joined = [
            each.id
            for each in group.members.values()
            if each.has_joined or group.state is not GroupState.PREPARING
        ]
        if member_id in joined or len(joined) < self._configs.broker_number("group.max.size"):
            return
        if member_id in group.members:
            self.leave(group, group.members[member_id])
        self.leave_pending(group, member_id)
        raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def leave_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Don't wait for a member that was told its id and hasn't joined with it. Does nothing if it has joined."""
        if member_id in group.pending:
            group.pending.discard(member_id)
            self._check_progress(group)

    def _announce(self, group: ClassicGroup, parameters: JoinParameters) -> str:
        member_id = f"{parameters.client_id}-{self._new_id()}"
        group.pending.add(member_id)
        self._clock.after(parameters.session_timeout_ms, lambda: self.leave_pending(group, member_id))
        return member_id

    def _enter(
        self, group: ClassicGroup, known: ClassicMember | None, parameters: JoinParameters
    ) -> ClassicMember:
        member_id = parameters.member_id or f"{parameters.instance or parameters.client_id}-{self._new_id()}"
        member = known or ClassicMember(member_id, parameters.instance, parameters.client_id, parameters.host)
        member.session_timeout_ms = parameters.session_timeout_ms
        member.rebalance_timeout_ms = parameters.rebalance_timeout_ms
        member.protocols = dict(parameters.protocols)
        replaced = group.by_instance(parameters.instance) if parameters.instance is not None else None
        if replaced is not None and replaced is not known:
            self._forget_session(replaced)
            group.replace(replaced, member, can_skip_assignment=parameters.can_skip_assignment)
        else:
            group.join(member, parameters.protocol_type)
        self.keep_alive(group, member)
        return member

    def _await_everyone(self, group: ClassicGroup) -> None:
        delay = self._configs.broker_number("group.initial.rebalance.delay.ms")
        if group.generation == 0 and delay and group.id not in self._rebalances:
            self._rebalances[group.id] = self._clock.after(delay, lambda: self._on_rebalance_timeout(group))
        if group.generation == 0 and delay:
            return
        self._check_progress(group)
        if group.state is GroupState.PREPARING and group.id not in self._rebalances:
            self._time_rebalance(group)

    def _time_rebalance(self, group: ClassicGroup) -> None:
        self._rebalances[group.id] = self._clock.after(
            group.rebalance_timeout_ms, lambda: self._on_rebalance_timeout(group)
        )

    def _on_rebalance_timeout(self, group: ClassicGroup) -> None:
        self._rebalances.pop(group.id, None)
        if group.state is GroupState.PREPARING:
            group.pending.clear()
            for member in [each for each in group.members.values() if not each.has_joined]:
                self._forget_session(member)
                group.remove(member)
            self._check_progress(group)

    def _check_progress(self, group: ClassicGroup) -> None:
        """Complete the rebalance if all members have joined."""
        if group.state is GroupState.PREPARING and group.has_everyone:
            timer = self._rebalances.pop(group.id, None)
            if timer is not None:
                timer.cancel()
            group.complete_join()
            for member in group.members.values():
                self.keep_alive(group, member)
            if group.members:
                self._time_sync(group)

    def _time_sync(self, group: ClassicGroup) -> None:
        """Let members leave that don't ask for their assignment in time: the others would wait for the leader's."""
        generation = group.generation

        def give_up() -> None:
            if group.generation == generation:
                for member in [group.members[each] for each in sorted(group.unsynced)]:
                    self.leave(group, member)

        self._clock.after(group.rebalance_timeout_ms, give_up)

    # --- staying and leaving

    def keep_alive(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Restart the member's session timeout."""
        self._forget_session(member)
        self._sessions[member] = self._clock.after(
            member.session_timeout_ms, lambda: self._expire(group, member)
        )

    def _expire(self, group: ClassicGroup, member: ClassicMember) -> None:
        if group.members.get(member.id) is not member:
            return
        if group.state is GroupState.PREPARING and member.has_joined:
            # It waits for the other members, and can't send heartbeats until then.
            self.keep_alive(group, member)
        else:
            self.leave(group, member)

    def leave(self, group: ClassicGroup, member: ClassicMember) -> None:
        self._forget_session(member)
        group.remove(member)
        if group.state is GroupState.PREPARING and not group.members:
            group.pending.clear()
        if group.state is GroupState.PREPARING and group.id not in self._rebalances and group.members:
            self._time_rebalance(group)
        self._check_progress(group)

    def _forget_session(self, member: ClassicMember) -> None:
        timer = self._sessions.pop(member, None)
        if timer is not None:
            timer.cancel()

    # --- offsets

    def check_commit(self, group_id: str, member_id: str, generation: int, instance: str | None) -> None:
        """Raises RequestError if this member (or, with generation -1, a client outside of the group) may not commit."""
        group = self._by_id.get(group_id)
        if group is None or not group.members:
            if generation >= 0:
                raise RequestError(ErrorCode.ILLEGAL_GENERATION)
            other = self._groups.kind_of(group_id)
            if other is not None and other is not self:
                raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        if generation < 0 and not member_id:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.member(member_id, instance)
        group.check_generation(generation)
        self.keep_alive(group, member)
        if group.state is GroupState.COMPLETING:
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
