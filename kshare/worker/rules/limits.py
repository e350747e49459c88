"""The limits of a share group that decisions depend on: locks, deliveries, the in-flight window. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class ShareLimits:
    """Kafka's defaults, for what we aren't authorized to read. They may change while a worker runs."""

    lock_s: float = 30.0
    deliveries: int = 5
    window: int = 2_000
    writes_dead_letters: bool = False
    """Whether the brokers write dead letters for the group."""

    def become(self, other: ShareLimits) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(other, field.name))

    @property
    def last_safe_delivery(self) -> int:
        """From this delivery on, a record is moved to a retry topic first, if there is one.

        If a process dies while it has a record for the last time, the broker archives the record. One that kills its
        processes may arrive together with others, and does so until it is moved itself. The others must have as many
        deliveries left as that takes.
        """
        return max(2, (self.deliveries + 1) // 2)

    @property
    def last_delivery(self) -> int:
        """Without retry topics, a record becomes a dead letter at this delivery. It isn't the very last one, which may
        end with its process, too."""
        return max(2, self.deliveries - 1)

    def may_be_released(self, delivery_count: int) -> bool:
        """Whether a record that nobody has tried may be given back. It has to have two deliveries left, and must not be
        taken for one whose deliveries end without a result."""
        return self.deliveries - delivery_count >= 2 and delivery_count + 1 < self.last_safe_delivery

    @property
    def holdable_s(self) -> float:
        """How long a record can be held if locks can't be renewed: part of the lock is for the handler."""
        return self.lock_s / 2

    @property
    def give_back_s(self) -> float:
        """How long before its lock expires a record that waits is given back, if locks can't be renewed.

        Half of it is for handlers that are running. The rest is for requests, and for event loops that are late.
        """
        return self.lock_s / 4
