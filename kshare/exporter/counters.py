"""GroupCounters that begin at 0 and never fall or jump, from counts that may do all of that. Pure.

What the stored state tells about the past goes back as far as its records do: to the last compaction, a restart, or the
creation of the group. So only increases between two readings of the same share-partition are counted:

    share-partition                             | counted from
    --------------------------------------------+------------------------------------------------------------
    known when the exporter started             | its counts in the first reading
    stored for the first time since then,       | 0: everything that became of its records. Records written
    because the group or the topic is new       | before the first reading of it aren't counted
    the same, of a topic that was created again | 0, including records written

A topic or a group that is deleted and created again has new share-partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kshare.monitor.figures import Row
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot

TopicPartition = tuple[str, int]


class ArchiveReason(StrEnum):
    """Why a record was archived. One that was rejected at its last delivery counts as given up by the broker."""

    REJECTED = "rejected"
    DELIVERY_LIMIT = "delivery limit"


WRITTEN, SETTLED = ("written",), ("settled",)
OF_STATE = ("deliveries", "accepted", "released", *(f"archived: {reason}" for reason in ArchiveReason))


class GroupCounters:
    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, _PartitionCounters]] = {}
        self._began: float | None = None
        """When the first reading was taken."""

    def update(self, now: Snapshot) -> None:
        """Add what happened since the previous reading. Forgets groups that no longer exist."""
        known = {group.group for group in now.groups}
        self._groups = {group: partitions for group, partitions in self._groups.items() if group in known}
        for group in now.groups:
            partitions = self._groups.setdefault(group.group, {})
            for partition in group.partitions:
                counters = partitions.setdefault((partition.topic, partition.partition), _PartitionCounters())
                counters.recognize(partition, self._began)
                counters.add(WRITTEN, [_Count("written", "written", partition.end)])
                if (outcomes := _of_state(group, partition)) is not None:
                    counters.add(OF_STATE, outcomes)
                counters.add_settled(partition)
        if self._began is None:
            self._began = now.time

    def of_partition(self, group: str, topic: str, partition: int) -> Row:
        """Only those that are known."""
        found = self._groups.get(group, {}).get((topic, partition))
        return {} if found is None else {**found.totals}

    def of_group(self, group: str) -> Row:
        """Includes partitions that are gone."""
        sums: Counter[str] = Counter()
        for partition in self._groups.get(group, {}).values():
            sums.update(partition.totals)
        return {**sums}


class _PartitionCounters:
    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self._seen: dict[tuple[str, ...], dict[str, int]] = {}
        """Counts that are known together or not at all → each of them, as last read."""
        self._stored_since: float | None = None
        self._topic_id: bytes | None = None
        self._is_complete = False
        """Whether everything that became of its records is counted in the stored state."""

    def recognize(self, one: PartitionReading, began: float | None) -> None:
        """Whether it is another share-partition than before. `began`: when the first reading was taken."""
        since = one.progress.stored_since if one.progress is not None else None
        if since is not None and since != self._stored_since:
            self._stored_since = since
            self._seen.pop(SETTLED, None)
            self._is_complete = began is not None and since > began
            if self._is_complete:
                self._seen[OF_STATE] = {}
        if one.progress is not None and one.progress.start_offset is None:
            self._is_complete = True  # nothing was settled or released yet
        if one.topic_id and one.topic_id != self._topic_id:
            if self._topic_id is not None:
                self._seen[WRITTEN] = {}
            self._topic_id = one.topic_id

    def add(self, names: tuple[str, ...], counts: Sequence[_Count]) -> None:
        before = self._seen.get(names)
        for name in names:
            self.totals.setdefault(name, 0)
        if before is not None:
            for count in counts:
                self.totals[count.name] += max(0, count.count - before.get(count.part, 0))
        self._seen[names] = {count.part: count.count for count in counts}

    def add_settled(self, one: PartitionReading) -> None:
        """What was settled first is known from its outcomes, because nobody knows where the group has started."""
        if one.lag is None:
            return
        settled = one.end - one.lag
        outcomes = self._seen.get(OF_STATE)
        if SETTLED not in self._seen and self._is_complete and outcomes is not None:
            first = sum(count for part, count in outcomes.items() if part not in ("deliveries", "released"))
            self._seen[SETTLED] = {"settled": settled - first}
        self.add(SETTLED, [_Count("settled", "settled", settled)])


@dataclass(frozen=True, slots=True)
class _Count:
    name: str
    """The counter that it belongs to."""
    part: str
    """What is counted. A part may come to belong to another counter, if the delivery limit changes."""
    count: int


def _of_state(group: GroupReading, one: PartitionReading) -> list[_Count] | None:
    """None if they are unknown."""
    found = one.progress
    if found is None or found.deliveries is None or found.accepted is None or found.released is None:
        return None
    limit = group.settings.delivery_limit
    counts = {"deliveries": found.deliveries, "accepted": found.accepted, "released": found.released}
    rows = [_Count(name, name, count) for name, count in counts.items()]
    for deliveries, count in found.archived:
        reason = ArchiveReason.DELIVERY_LIMIT if deliveries >= limit else ArchiveReason.REJECTED
        rows.append(_Count(f"archived: {reason}", f"archived after {deliveries}", count))
    return rows
