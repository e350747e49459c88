"""One member of a consumer group: what it has, and how it gets from there to its target assignment.

    state                 | the member
    ----------------------+----------------------------------------------------------------------------
    STABLE                | has its target assignment, in the epoch of it
    UNREVOKED_PARTITIONS  | must revoke partitions first, and keeps its epoch until it no longer reports them
    UNRELEASED_PARTITIONS | is in the epoch of the target, but others still have some of its partitions

Pure: time is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum, auto

from kshare.broker.cluster import TopicIdPartition


class MemberState(Enum):
    STABLE = auto()
    UNREVOKED_PARTITIONS = auto()
    UNRELEASED_PARTITIONS = auto()


@dataclass(slots=True, eq=False)
class ConsumerMember:
    id: str
    client_id: str = ""
    host: str = ""
    instance: str | None = None
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    """The names that it has subscribed to, whether they exist or not."""
    regex: str = ""
    """The regular expression that it has subscribed to, or an empty string."""
    assignor: str | None = None
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: dict[TopicIdPartition, int] = field(default_factory=dict)
    """The partitions that it may read, with the epoch in which it got each."""
    revoking: dict[TopicIdPartition, int] = field(default_factory=dict)
    """Partitions that it must revoke, and that nobody else gets until it has."""
    session_ends_at: int = 0
    """When the session times out without another heartbeat."""
    revocation_ends_at: int | None = None
    """When the member is fenced if it hasn't revoked by then. None if it needn't revoke anything."""

    @property
    def held(self) -> dict[TopicIdPartition, int]:
        """All partitions that nobody else may get."""
        return self.assigned | self.revoking

    def is_reconciled(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def reconcile(
        self,
        target_epoch: int,
        target: Set[TopicIdPartition],
        topic_ids: Set[bytes],
        owned: Set[TopicIdPartition] | None,
        is_held: Callable[[TopicIdPartition], bool],
        now: int,
    ) -> None:
        """Go as far towards the target as possible.

        `topic_ids` are the topics that the member is subscribed to now; `owned` is what it says it has, None if it
        says nothing; `is_held` says whether another member has a partition.
        """
        if self.is_reconciled(target_epoch) or self._must_still_revoke(owned):
            self._drop_unsubscribed(topic_ids, owned, now)
        else:
            wanted = {partition for partition in target if partition[0] in topic_ids}
            self._approach(target_epoch, wanted, owned, is_held, now)

    def _must_still_revoke(self, owned: Set[TopicIdPartition] | None) -> bool:
        return self.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(self.revoking, owned)

    def _approach(
        self,
        target_epoch: int,
        wanted: Set[TopicIdPartition],
        owned: Set[TopicIdPartition] | None,
        is_held: Callable[[TopicIdPartition], bool],
        now: int,
    ) -> None:
        kept = {partition: epoch for partition, epoch in self.assigned.items() if partition in wanted}
        revoked = {partition: epoch for partition, epoch in self.assigned.items() if partition not in wanted}
        if revoked and _owns_any(revoked, owned):
            self._change(MemberState.UNREVOKED_PARTITIONS, self.epoch, kept, revoked, now)
            return
        missing = wanted - kept.keys()
        free = {each for each in missing if not is_held(each)}
        state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
        self._change(state, target_epoch, kept | dict.fromkeys(free, target_epoch), {}, now)

    def _drop_unsubscribed(
        self, topic_ids: Set[bytes], owned: Set[TopicIdPartition] | None, now: int
    ) -> None:
        """Revoke partitions of topics that it is no longer subscribed to, without waiting for a new target."""
        kept = {partition: epoch for partition, epoch in self.assigned.items() if partition[0] in topic_ids}
        if len(kept) == len(self.assigned):
            return
        dropped = {partition: epoch for partition, epoch in self.assigned.items() if partition not in kept}
        revoking = self.revoking | dropped
        if _owns_any(revoking, owned):
            self._change(MemberState.UNREVOKED_PARTITIONS, self.epoch, kept, revoking, now)
        else:
            self._change(self.state, self.epoch, kept, self.revoking, now)

    def _change(
        self,
        state: MemberState,
        epoch: int,
        assigned: dict[TopicIdPartition, int],
        revoking: dict[TopicIdPartition, int],
        now: int,
    ) -> None:
        if (state, epoch, assigned, revoking) == (self.state, self.epoch, self.assigned, self.revoking):
            return
        # As in Kafka, even if the epoch stays: then the one before is no longer accepted.
        self.previous_epoch, self.epoch = self.epoch, epoch
        self.state, self.assigned, self.revoking = state, assigned, revoking
        is_revoking = state is MemberState.UNREVOKED_PARTITIONS
        self.revocation_ends_at = now + self.rebalance_timeout_ms if is_revoking else None


def _owns_any(revoked: Mapping[TopicIdPartition, int], owned: Set[TopicIdPartition] | None) -> bool:
    """Whether the member still has one of these, or doesn't say what it has."""
    return owned is None or bool(revoked.keys() & owned)
