"""One reading of a cluster: its share groups at one moment. Plain values, no arithmetic.

It doesn't say which records are locked right now, by which member, and until when: only the leaders of the partitions
know that, and Kafka has no request for it.
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
    """All records before it are settled."""
    end: int
    """The end offset of the partition."""
    lag: int | None
    """Records that aren't settled; None if neither the coordinator nor the stored state has it."""
    redelivered: int | None
    """How many of these were delivered before and are available again, according to the stored state."""
    most_deliveries: int | None
    """The highest delivery count among them."""
    oldest: float | None
    """When the first record that isn't settled was written, in seconds since 1970."""
    progress: PartitionProgress | None = None
    """The source of these figures, including the in-flight window."""


@dataclass(frozen=True, slots=True)
class GroupReading:
    group: str
    state: str
    members: tuple[Member, ...] = ()
    partitions: tuple[PartitionReading, ...] = ()
    problem: str | None = None
    """The error that kept other values from being read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    time: float
    """Seconds since 1970."""
    moment: float
    """On the event loop's clock, for differences."""
    groups: tuple[GroupReading, ...] = field(default=())
    missing: tuple[str, ...] = ()
    """Messages about requested groups that don't exist."""
