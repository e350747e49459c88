"""Whoever holds the records of a member: a consumer hands them to loops, Spark makes micro-batches of their offsets.

The engine asks it how much to fetch, and tells it what was acquired and what became of that. All of it happens in one
event loop, between two awaits: a holder answers at once, and raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kshare.engine.events import LossReason
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.state.lease import Lease, TopicIdPartition
from kshare.state.session import AckRange


class Holder(Protocol):
    # --- what it wants: parts of `state.request_planner.Demand`, which says more

    @property
    def wants_more(self) -> bool: ...
    def capacity(self, brokers: int) -> int:
        """How many records more to ask one of so many brokers for."""
        ...

    def capacity_in_bytes(self, brokers: int) -> int:
        """How many bytes of records."""
        ...

    @property
    def refill_at(self) -> int: ...
    @property
    def is_user_waiting(self) -> bool: ...
    @property
    def rate(self) -> float: ...
    @property
    def handed_out_at(self) -> float: ...

    # --- what it is told

    def on_acquired(self, topic: str, leases: Sequence[Lease], data: PartitionData, lock_s: float) -> None:
        """One partition's part of the answer to a fetch. `LeaseTimers.hand_out` says when a lease is worked on."""
        ...

    def on_renewing(self, lease: Lease) -> None:
        """The lock of all that is still held of it will be renewed: what nobody works on may be released first."""
        ...

    def on_released(self, lease: Lease) -> None:
        """It waited for too long to be handed out, and was released."""
        ...

    def on_lost(self, lease: Lease, reason: LossReason) -> None:
        """Told before: the lease still says what is undecided, which is lost, and what was accepted."""
        ...

    def on_moved(self, lease: Lease) -> None:
        """An acknowledgement was refused since the leader has moved: what was accepted may come again."""
        ...

    def on_confirmed(self, partition: TopicIdPartition, ranges: Sequence[AckRange]) -> None:
        """The broker has taken these acknowledgements."""
        ...

    def on_session_ended(self) -> None:
        """With one broker; what was held of it is reported lost after this."""
        ...

    def on_topic_gone(self, topic_id: bytes) -> None:
        """Deleted: nothing of it comes again."""
        ...

    def on_failed(self) -> None:
        """`GroupMember.failure` says why: nothing comes any more, and nothing is sent."""
        ...
