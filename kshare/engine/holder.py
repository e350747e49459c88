"""The holder of a member's records: a consumer hands them to loops, Spark makes micro-batches of their offsets.

The engine asks the holder how much to fetch, and notifies it of acquired records and of what happens to them. All calls
are made in one event loop: a holder returns at once, and never raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kshare.engine.events import LossReason
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.state.lease import Lease, TopicIdPartition
from kshare.state.request_planner import HolderDemand
from kshare.state.session import AckRange


class Holder(HolderDemand, Protocol):
    """Besides its demand, these notifications."""

    def on_acquired(self, topic: str, leases: Sequence[Lease], data: PartitionData, lock_s: float) -> None:
        """Records of one partition were acquired. Call `LeaseTimers.hand_out` when a lease is handed to the user."""
        ...

    def on_confirmed(self, partition: TopicIdPartition, ranges: Sequence[AckRange]) -> None:
        """The broker has confirmed these acknowledgements."""
        ...

    def on_lost(self, lease: Lease, reason: LossReason) -> None:
        """Its locks are about to be counted as lost: the lease still shows which records are undecided or accepted."""
        ...

    def on_topic_gone(self, topic_id: bytes) -> None:
        """The topic was deleted: its records won't be redelivered."""
        ...


class LeaseListener(Protocol):
    """What else happens to leases. A holder whose records wait for the user, one by one, has to know."""

    def on_renewing(self, lease: Lease) -> None:
        """The lock of its held records will be renewed. The holder may release records that nobody is processing."""
        ...

    def on_released(self, lease: Lease) -> None:
        """It wasn't handed out in time, and was released."""
        ...

    def on_moved(self, lease: Lease) -> None:
        """An acknowledgement was refused because the leader has moved: accepted records may be redelivered."""
        ...

    def on_session_ended(self) -> None:
        """The session with one broker ended. Its leases are reported as lost after this."""
        ...
