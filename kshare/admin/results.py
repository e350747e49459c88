"""Results of an AdminClient: immutable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "ConfigEntry",
    "GroupDescription",
    "GroupListing",
    "Member",
    "OffsetReset",
    "PartitionOffset",
    "PartitionProgress",
    "TopicListing",
    "TopicPartition",
]

TopicPartition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    type: str
    """Share, Consumer, Classic or Streams."""
    state: str
    """Empty, Stable or Dead for share groups."""
    protocol: str


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    client_id: str
    host: str
    rack: str | None
    epoch: int
    topics: tuple[str, ...]
    """What it subscribes to."""
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group: str
    state: str
    coordinator: int
    """The node that keeps the group."""
    coordinator_address: str
    """Where it is: host:port."""
    epoch: int
    assignment_epoch: int
    """Behind `epoch` while the next assignment is being made."""
    assignor: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    topic: str
    partition: int
    start_offset: int | None
    """Where the share-partition begins: all below is settled. None before the first member fetched from it."""
    leader_epoch: int
    lag: int | None
    """Records that aren't settled yet. None where the broker doesn't say: Kafka 4.1 never does."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far a share group is in a partition, out of everything that brokers say of it."""

    topic: str
    partition: int
    start_offset: int | None
    """The first record that is there and isn't settled; None before the first member fetched from it."""
    lag: int | None
    """Records that are there and aren't settled. None where neither the coordinator nor the stored state tells."""
    leader_epoch: int
    log_start_offset: int | None
    """Where the topic's partition begins; None if its leader couldn't be asked, as for its end."""
    end_offset: int | None
    removed: int = 0
    """Records that the topic removed, by retention or DeleteRecords, before the group had settled them."""
    window_end: int | None = None
    """One behind the last offset known to have been delivered; None where the stored state can't be read.

    Brokers store what was settled or released, not what is locked: the real one may be farther on.
    """
    window_limit: int | None = None
    """How many offsets may be in flight, from the first that isn't settled to the last that was delivered.

    Only asked for where something is in flight and more waits behind.
    """
    window_open: int | None = None
    """Records between the two that aren't settled."""
    redelivered: int | None = None
    """Of the lag, records that have been delivered before and wait for their next delivery, as far as it is stored."""
    most_deliveries: int | None = None
    """The highest delivery count among them."""
    start_since: float | None = None
    """Since when the start offset is what it is, in seconds since 1970, by the brokers' clocks: at least so long."""
    changed_at: float | None = None
    """When brokers last stored that something was settled or released."""
    archived: tuple[tuple[int, int], ...] = ()
    """Records that were archived, as far back as brokers remember: number of deliveries, number of records."""

    @property
    def window_span(self) -> int | None:
        """How many offsets are known to be in flight: settled ones count too, unless all before them are settled."""
        if self.window_end is None or self.start_offset is None:
            return None
        return max(0, self.window_end - self.start_offset)

    @property
    def waiting(self) -> int:
        """Records after the window: not delivered yet."""
        if self.window_end is None or self.end_offset is None:
            return 0
        return max(0, self.end_offset - self.window_end)

    @property
    def is_window_full(self) -> bool:
        """No new records are delivered until the one at the start offset is settled.

        What is locked behind the last stored offset isn't known: so what is nearly full counts as full.
        """
        span, limit = self.window_span, self.window_limit
        return span is not None and limit is not None and self.waiting > 0 and span >= _NEARLY * limit


_NEARLY = 0.9


@dataclass(frozen=True, slots=True)
class OffsetReset:
    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    """None for secrets."""
    source: str
    """group, topic, broker, cluster, static or default: who set it."""
    is_read_only: bool
    lowest: str | None = None
    highest: str | None = None
    """What brokers allow for settings of share groups. None if there is no bound, or we may not look."""


@dataclass(frozen=True, slots=True)
class TopicListing:
    topic: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    is_internal: bool
