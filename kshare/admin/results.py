"""What an AdminClient answers with: plain values that never change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
