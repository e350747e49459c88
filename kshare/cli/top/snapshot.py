"""One reading of a cluster: what its requests say of share groups at a moment. Plain values, no arithmetic.

What no request of Kafka's tells isn't in here: which records are locked right now, by whom, and until when. The
leaders of the partitions know that and keep it to themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kshare.admin.results import Member, PartitionProgress


@dataclass(frozen=True, slots=True)
class PartitionReading:
    group: str
    topic: str
    partition: int
    start: int | None
    """All before is settled."""
    end: int
    """Where the topic's log ends."""
    lag: int | None
    """Records that aren't settled; None if neither the coordinator nor the stored state tells."""
    redelivered: int | None
    """Of these, those that have been delivered before and wait to be delivered again, as far as it is stored."""
    most_deliveries: int | None
    """The highest delivery count among them."""
    oldest: float | None
    """When the first record that isn't settled was written, in seconds since 1970."""
    progress: PartitionProgress | None = None
    """Where these figures come from, with what is known of the in-flight window."""


@dataclass(frozen=True, slots=True)
class GroupReading:
    group: str
    state: str
    members: tuple[Member, ...] = ()
    partitions: tuple[PartitionReading, ...] = ()
    problem: str | None = None
    """Why there is no more of it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    time: float
    """Seconds since 1970."""
    moment: float
    """On the event loop's clock, for differences."""
    groups: tuple[GroupReading, ...] = field(default=())
    missing: tuple[str, ...] = ()
    """What is to be said of groups that were asked for and aren't there."""
