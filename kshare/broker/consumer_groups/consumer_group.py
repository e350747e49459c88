"""One consumer group of KIP-848: its members, its epochs, and what each member should have.

    event                                | does
    -------------------------------------+------------------------------------------------------------------
    a member joins, leaves, is fenced    | the group epoch increases
    a subscription or its topics change  | the group epoch increases
    a heartbeat, group epoch ahead       | a new target assignment, but not sooner than the interval allows
    a heartbeat, target assignment ahead | the member reconciles: see `consumer_member`
    a static member leaves for now       | it keeps its partitions for the member that replaces it

The epoch of the target assignment is that of the group when it was made. Pure: time is passed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from kshare.broker.assigned_groups import AssignedGroup, HeartbeatResult, Target, TopicMetadata
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.consumer_groups.assignors import ASSIGNORS, AssignedMember
from kshare.broker.consumer_groups.consumer_member import ConsumerMember
from kshare.broker.consumer_groups.regexes import check_regex, matching
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

JOIN_EPOCH, LEAVE_FOR_NOW = 0, -2
REGEX_INTERVAL_MS = 10_000
"""Topics that match regular expressions are looked for at most this often."""


@dataclass(slots=True, frozen=True)
class ConsumerHeartbeat:
    """The parts of a heartbeat request that the group needs. What is None hasn't changed."""

    member_id: str
    epoch: int
    client_id: str = ""
    host: str = ""
    instance: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    may_describe: Callable[[str], bool] = lambda name: True
    """Whether the client may know of a topic that matches its regular expression."""

    @property
    def is_full(self) -> bool:
        """Whether it has everything, as clients send it after errors: then they need the assignment again."""
        return self.epoch == JOIN_EPOCH or None not in (self.rebalance_timeout_ms, self.topics, self.owned)


@dataclass(slots=True, frozen=True)
class GroupBehavior:
    """What differs between releases of Kafka, and how the broker is configured."""

    assignors: Sequence[str] = ("uniform", "range")
    """The assignors that members may ask for. The first is the default."""
    first_epoch: int = 1
    """The epoch of a new group, before its first member has joined."""
    assigns_at_once_after_empty: bool = True
    """Whether an empty group counts as assigned, so that its next member doesn't wait for the interval."""
    rebalances_for_assignor: bool = True
    """Whether the group epoch increases when the members prefer another assignor."""
    keeps_partition_epochs: bool = True
    """Whether a member may commit with an older epoch for partitions that it has had since then (KIP-1251)."""
    accepts_joining_again: bool = True
    """Whether a member may join again at any time. Otherwise only if its first response may have been lost."""
    describes_revoking: bool = True
    """Whether descriptions of members have the partitions that they still have to revoke."""


class ConsumerGroup(AssignedGroup[ConsumerMember]):
    def __init__(self, group_id: str, behavior: GroupBehavior) -> None:
        super().__init__(
            group_id,
            behavior.first_epoch,
            assigns_at_once_after_empty=behavior.assigns_at_once_after_empty,
        )
        self.behavior = behavior
        self._resolved: dict[str, frozenset[str]] = {}
        """The topics that each regular expression matched when it was last looked at."""
        self._resolved_at: int | None = None
        self._resolved_among: frozenset[str] = frozenset()

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for."""
        asked = Counter(member.assignor for member in self.members.values() if member.assignor)
        in_order = [name for name in ASSIGNORS if name in asked]
        return max(in_order, key=lambda name: asked[name], default=self.behavior.assignors[0])

    @property
    def topics(self) -> set[str]:
        return set[str]().union(*(self.topics_of(member) for member in self.members.values()))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member has subscribed to, by name or by regular expression."""
        return member.topics | self._resolved.get(member.regex, frozenset())

    def target_of(self, member: ConsumerMember) -> set[TopicIdPartition]:
        return self._target.get(member.id, set())

    # --- members

    def by_instance(self, instance: str) -> ConsumerMember | None:
        return next((member for member in self.members.values() if member.instance == instance), None)

    def static_member(self, instance: str, member_id: str) -> ConsumerMember:
        """Raises RequestError if nobody has this instance id, or if another member has it."""
        member = self.by_instance(instance)
        if member is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance} is unknown.")
        if member.id != member_id:
            reason = (
                f"Static member {member_id} with instance id {instance} was fenced by member {member.id}."
            )
            raise RequestError(ErrorCode.FENCED_INSTANCE_ID, reason)
        return member

    def heartbeat(
        self, request: ConsumerHeartbeat, existing: TopicMetadata, now: int, interval: int
    ) -> HeartbeatResult:
        """`existing` are all existing topics. If it raises RequestError, nothing has changed."""
        member = self._joining(request) if request.epoch == JOIN_EPOCH else self._staying(request)
        before = self.assignor
        if request.regex and request.regex != member.regex and request.regex not in self._resolved:
            check_regex(request.regex)
        self._enter(member)
        is_changed = self._update(member, request)
        metadata = self._subscribed(existing)
        is_changed |= metadata != self._metadata
        is_changed |= self.behavior.rebalances_for_assignor and self.assignor != before
        self._metadata = metadata
        if is_changed or not self.epoch:
            self.epoch += 1
        self._assign_if_due(now, interval)
        result = self._reconcile(member, request, now)
        self._resolve(existing, request.may_describe, now)
        return result

    def leave(self, member_id: str, instance: str | None, *, for_now: bool) -> None:
        """Raises RequestError if the member is unknown."""
        member = self.member(member_id) if instance is None else self.static_member(instance, member_id)
        if for_now:
            member.epoch = LEAVE_FOR_NOW
            member.revoking = {}
            member.revocation_ends_at = None
        else:
            self.remove(member)

    def remove(self, member: ConsumerMember) -> None:
        super().remove(member)
        self._forget_regexes()
        self._metadata = self._subscribed(self._metadata)

    def _joining(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member, which may be a new one. A static member may replace the one that it was before."""
        known = self.by_instance(request.instance) if request.instance is not None else None
        if known is None:
            member = self.members.get(request.member_id) or ConsumerMember(request.member_id)
            if not self.behavior.accepts_joining_again:
                _check_epoch(member, request)
            return member
        if known.epoch != LEAVE_FOR_NOW:
            raise RequestError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {request.instance} cannot join the group because "
                f"the instance id is owned by {known.id} member.",
            )
        return replace(
            known, id=request.member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH, session_ends_at=0
        )

    def _staying(self, request: ConsumerHeartbeat) -> ConsumerMember:
        member = (
            self.member(request.member_id)
            if request.instance is None
            else self.static_member(request.instance, request.member_id)
        )
        _check_epoch(member, request)
        return member

    def _enter(self, member: ConsumerMember) -> None:
        """Add a member that may be new, or replace a static one."""
        known = self.by_instance(member.instance) if member.instance is not None else None
        if known is not None and known is not member:
            del self.members[known.id]
            self._target[member.id] = self._target.pop(known.id, set())
        self.members[member.id] = member

    def _update(self, member: ConsumerMember, request: ConsumerHeartbeat) -> bool:
        """Returns whether the subscription has changed in a way that the group must be assigned again."""
        member.client_id, member.host = request.client_id, request.host
        member.instance = member.instance if request.instance is None else request.instance
        member.rack = member.rack if request.rack is None else request.rack
        member.assignor = request.assignor or member.assignor
        if request.rebalance_timeout_ms is not None:
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
        topics = member.topics if request.topics is None else request.topics
        regex = member.regex if request.regex is None else request.regex
        # A regular expression that nobody had before is looked up after this response.
        is_changed = topics != member.topics or (
            regex != member.regex and (not regex or regex in self._resolved)
        )
        member.topics, member.regex = topics, regex
        self._forget_regexes()
        return is_changed

    # --- the assignment

    def _new_target(self) -> Target:
        counts = dict(self._metadata.values())
        members = [
            AssignedMember(
                member.id,
                member.instance,
                frozenset(self._topic_ids(member)),
                frozenset(self.target_of(member)),
            )
            for member in self.members.values()
        ]
        return ASSIGNORS[self.assignor](members, counts)

    def _reconcile(self, member: ConsumerMember, request: ConsumerHeartbeat, now: int) -> HeartbeatResult:
        before = member.assigned.keys()
        held = {partition for each in self.members.values() if each is not member for partition in each.held}
        member.reconcile(
            self.assignment_epoch,
            self.target_of(member),
            self._topic_ids(member),
            request.owned,
            held.__contains__,
            now,
        )
        is_sent = request.is_full or member.assigned.keys() != before
        return HeartbeatResult(member.epoch, frozenset(member.assigned) if is_sent else None)

    def _topic_ids(self, member: ConsumerMember) -> set[bytes]:
        """The ids of the existing topics that a member has subscribed to."""
        return {self._metadata[name][0] for name in self.topics_of(member) if name in self._metadata}

    # --- regular expressions

    def _resolve(self, existing: TopicMetadata, may_describe: Callable[[str], bool], now: int) -> None:
        """Look for topics that match. As in Kafka, this happens after the response, and not more often than allowed."""
        regexes = {member.regex for member in self.members.values() if member.regex}
        if not regexes or (self._resolved_at is not None and now - self._resolved_at < REGEX_INTERVAL_MS):
            return
        if regexes == self._resolved.keys() and existing.keys() <= self._resolved_among:
            return
        names = [name for name in existing if may_describe(name)]
        resolved = {regex: matching(regex, names) for regex in regexes}
        if any(found != self._resolved.get(regex, frozenset()) for regex, found in resolved.items()):
            self.epoch += 1
        self._resolved, self._resolved_at, self._resolved_among = resolved, now, frozenset(existing)
        self._metadata = self._subscribed(existing)

    def _forget_regexes(self) -> None:
        """Forget those that no member has any longer."""
        used = {member.regex for member in self.members.values()}
        self._resolved = {regex: names for regex, names in self._resolved.items() if regex in used}
        if not self._resolved:
            self._resolved_at = None

    # --- offsets

    def check_epoch(self, member_id: str, epoch: int) -> None:
        """Raises RequestError if the member isn't in this epoch."""
        if epoch != self.member(member_id).epoch:
            raise _stale(epoch, self.member(member_id))

    def check_commit(self, member_id: str, epoch: int, partitions: Collection[TopicIdPartition]) -> None:
        """Raises RequestError if the member may not commit for all of these partitions."""
        member = self.member(member_id)
        if self.behavior.keeps_partition_epochs and epoch < member.epoch:
            held = member.held
            if all(partition in held and held[partition] <= epoch for partition in partitions):
                return
        self.check_epoch(member_id, epoch)


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    """Raises RequestError if the member never had this epoch, or has moved on from it."""
    if request.epoch > member.epoch:
        raise _fenced("greater", request.epoch, member)
    # The response with the current epoch may have been lost.
    is_lost = request.epoch == member.previous_epoch and _is_within(request.owned, member.assigned)
    if request.epoch < member.epoch and not is_lost:
        raise _fenced("smaller", request.epoch, member)


def _is_within(owned: Collection[TopicIdPartition] | None, assigned: Collection[TopicIdPartition]) -> bool:
    return owned is not None and all(partition in assigned for partition in owned)


def _fenced(what: str, epoch: int, member: ConsumerMember) -> RequestError:
    return RequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {what} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _stale(epoch: int, member: ConsumerMember) -> RequestError:
    reason = f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
    return RequestError(ErrorCode.STALE_MEMBER_EPOCH, reason)
