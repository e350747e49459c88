"""A minimal holder of records: always wants more, keeps all leases, and notes every callback."""

from __future__ import annotations

from collections.abc import Sequence

from kshare.engine.events import LossReason
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.state.lease import Lease, TopicIdPartition
from kshare.state.session import AckRange


class PlainHolder:
    wants_more = True
    is_user_waiting = False
    wants_only_ready = False
    refill_at = 0
    rate = 0.0
    handed_out_at = 0.0

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.told: list[tuple[object, ...]] = []

    def capacity(self, brokers: int) -> int:
        return 1000 // brokers

    def capacity_in_bytes(self, brokers: int) -> int:
        return 1_000_000 // brokers

    def on_acquired(self, topic: str, leases: Sequence[Lease], data: PartitionData, lock_s: float) -> None:
        self.leases += leases
        self.told.append(("acquired", topic, [(lease.first, lease.last) for lease in leases]))

    def on_renewing(self, lease: Lease) -> None:
        self.told.append(("renewing", lease.first))

    def on_released(self, lease: Lease) -> None:
        self.told.append(("released", lease.first))

    def on_lost(self, lease: Lease, reason: LossReason) -> None:
        self.told.append(("lost", lease.first, lease.undecided, reason))

    def on_moved(self, lease: Lease) -> None:
        self.told.append(("moved", lease.first))

    def on_confirmed(self, partition: TopicIdPartition, ranges: Sequence[AckRange]) -> None:
        self.told.append(("confirmed", list(ranges)))

    def on_session_ended(self) -> None:
        self.told.append(("session ended",))

    def on_topic_gone(self, topic_id: bytes) -> None:
        self.told.append(("topic gone",))
