"""One reading of a cluster: its share groups at one moment. Plain values, no arithmetic.

It doesn't say which records are locked right now, by which member, and until when: only the leaders of the partitions
know that, and Kafka has no request for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kshare.admin.results import Member, PartitionProgress
from kshare.monitor.dead_letter_topics import DeadLetterFlaw
from kshare.monitor.settings import GroupSettings
from kshare.state.share_records import SharePartitionState


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
    retention_s: float | None = None
    """How long the topic keeps records; None if there is no limit, or it can't be read."""
    topic_id: bytes = b""
    state: SharePartitionState | None = None
    """The stored state; None if it can't be read."""
    has_records: bool = True
    """False if the group may have nothing of what isn't settled: markers, and aborted or open transactions."""
    members_since: float | None = None
    """Since when it has had members, as far as readings show; None without members. In seconds since 1970."""

    @property
    def first(self) -> int | None:
        """The first record that isn't settled. If nothing was ever settled or released: probably. None if unknown."""
        expected = self.progress.expected_start if self.progress else None
        return expected if self.start is None else self.start

    @property
    def waiting(self) -> int:
        """How many records wait to be settled. If that isn't known: the records from `first` on."""
        if self.lag is not None:
            return self.lag
        return 0 if self.first is None else max(0, self.end - self.first)


@dataclass(frozen=True, slots=True)
class GroupReading:
    group: str
    state: str
    members: tuple[Member, ...] = ()
    partitions: tuple[PartitionReading, ...] = ()
    problem: str | None = None
    """The error that kept other values from being read."""
    settings: GroupSettings = field(default_factory=GroupSettings)
    leaderless: int = 0
    """How many partitions are missing because they have no leader at the moment."""
    dead_letters: int | None = None
    """Records in its dead-letter topic; None if it has none, or it can't be read."""
    dead_letter_flaw: DeadLetterFlaw | None = None
    """Why brokers write none; None if they do, if no topic is set, or if it can't be read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    time: float
    """Seconds since 1970."""
    moment: float
    """On the event loop's clock, for differences."""
    groups: tuple[GroupReading, ...] = field(default=())
    missing: tuple[str, ...] = ()
    """Messages about requested groups that don't exist."""
