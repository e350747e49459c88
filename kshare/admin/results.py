"""What the methods of AdminClient return: immutable values."""

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
    """A group in the result of `list_groups`."""

    group: str
    type: str
    """Share, Consumer, Classic or Streams."""
    state: str
    """Empty, Stable or Dead for share groups."""
    protocol: str


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a share group."""

    member_id: str
    client_id: str
    host: str
    """The address from which it has connected, without the slash that Java puts before it."""
    rack: str | None
    epoch: int
    topics: tuple[str, ...]
    """The topics that it subscribes to."""
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A share group, with its members."""

    group: str
    state: str
    coordinator: int
    """The id of the broker that coordinates the group."""
    coordinator_address: str
    """The address of that broker, as host:port."""
    epoch: int
    assignment_epoch: int
    """Lower than `epoch` while the next assignment is being computed."""
    assignor: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """The start offset and lag of a share group in a partition."""

    topic: str
    partition: int
    start_offset: int | None
    """The start offset: everything before it is settled, and possibly more behind it. None until the group has
    settled or released a record of the partition."""
    leader_epoch: int
    lag: int | None
    """The number of records that aren't settled. None if the broker doesn't return it: Kafka 4.1 never does."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of a share group in a partition, from the coordinator, the stored state and the log."""

    topic: str
    partition: int
    start_offset: int | None
    """The first record that exists and isn't settled. None until the group has settled or released one."""
    lag: int | None
    """The number of records that exist and aren't settled. None if it can't be determined.

    Without a start offset, it is known if the group starts at the first record (`share.auto.offset.reset=earliest`).
    """
    leader_epoch: int
    log_start_offset: int | None
    """The first offset of the log. Like `end_offset`, None if the leader of the partition couldn't be asked."""
    end_offset: int | None
    removed: int = 0
    """The number of records that retention or DeleteRecords removed before the group settled them."""
    window_end: int | None = None
    """The offset after the last one known to have been delivered. None if the stored state can't be read.

    Brokers store what was settled or released, but not what is locked, so the real end may be higher.
    """
    window_limit: int | None = None
    """The maximum size of the in-flight window, in offsets.

    Only requested if records are in flight and others wait behind them.
    """
    window_open: int | None = None
    """The number of records in the in-flight window that aren't settled."""
    redelivered: int | None = None
    """How many records of the lag were delivered before and wait to be redelivered, according to the stored state."""
    most_deliveries: int | None = None
    """The highest delivery count among these."""
    start_since: float | None = None
    """Since when the start offset hasn't changed, at the latest. Seconds since 1970, by the brokers' clocks."""
    changed_at: float | None = None
    """When brokers last stored that records were settled or released; if never, when it was created."""
    archived: tuple[tuple[int, int], ...] = ()
    """Archived records, as far back as the stored state goes: pairs of delivery count and number of records."""
    accepted: int | None = None
    """Accepted records, as far back as the stored state goes. None if it can't be read; so are the next two."""
    released: int | None = None
    """How often records were released, or their locks expired."""
    deliveries: int | None = None
    """How many deliveries have ended, in whatever way."""
    start_deliveries: int | None = None
    """How many deliveries of the record at the start offset have ended. None if unknown, or if nothing is left."""
    stored_since: float | None = None
    """How far back the stored state goes: at most to when the group was assigned the partition. None if unknown."""
    expected_start: int | None = None
    """If there is no start offset yet: where the group starts, as far as that follows from `reset`."""
    reset: str | None = None
    """The group's `share.auto.offset.reset`. Only requested if there is no start offset yet."""

    @property
    def window_span(self) -> int | None:
        """The known size of the in-flight window: from the start offset to `window_end`, including settled offsets."""
        if self.window_end is None or self.start_offset is None:
            return None
        return max(0, self.window_end - self.start_offset)

    @property
    def waiting(self) -> int:
        """The number of records behind the in-flight window, which haven't been delivered yet."""
        if self.window_end is None or self.end_offset is None:
            return 0
        return max(0, self.end_offset - self.window_end)

    @property
    def is_window_full(self) -> bool:
        """Whether the in-flight window is full: nothing new is delivered until the start offset is settled.

        Locks behind the last stored offset aren't known, so a window that is nearly full counts as full.
        """
        span, limit = self.window_span, self.window_limit
        return span is not None and limit is not None and self.waiting > 0 and span >= FULL_FROM * limit


FULL_FROM = 0.9
"""The part of its limit from which on an in-flight window counts as full."""


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The start offset of a partition before and after a reset."""

    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting of a group or topic."""

    name: str
    value: str | None
    """None for secrets."""
    source: str
    """Where the value comes from: group, topic, broker, cluster, static or default."""
    is_read_only: bool
    lowest: str | None = None
    highest: str | None = None
    """The range that brokers allow for settings of share groups. None if there is no bound, or it may not be read."""


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in the result of `list_topics`."""

    topic: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    is_internal: bool
