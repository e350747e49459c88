"""What brokers have had of one topic, and what has become of it while the world changed.

An offset may stand for another record than before: the topic was created again, or brokers have lost what they hadn't
flushed. Each such time begins an era of the partition, and judges know the partition by another number in each era.
The first one's is its own, so nothing differs where nothing changes.

    event                       | what may be missing from then on
    ----------------------------+------------------------------------------------------------------------------------
    the log's start has moved   | all before it
    compaction                  | what it has removed
    the topic was deleted       | everything
    batches were lost           | these, and what is written again at offsets that the group has behind it
    offsets of the group reset  | what is before the new start; settled records after it may be handed out again
    share state was lost        | nothing; records may be handed out again whose accept was written after the loss began
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from kshare.broker.broker import Broker
from kshare.broker.cluster import SHARE_STATE_TOPIC, Partition, Topic
from kshare.broker.log import StoredBatch
from kshare.broker.share_state.share_state import ShareState
from kshare.broker.share_state.state_records import Key, replay
from tests.integration.consumer_storm.diary import Entry, Event
from tests.integration.consumer_storm.fault_book import Acknowledged, Acquired
from tests.integration.consumer_storm.judging import ACCEPT, Place

_SNAPSHOT = b"\0\0"
"""Keys of snapshots of states begin so."""
ERA = 1000
"""Numbers of a partition's eras are so far apart. Topics have fewer partitions."""


@dataclass
class Era:
    number: int
    """By which judges know the partition."""
    topic_id: bytes
    at: float
    first: int
    """Offsets from here on belong to it."""
    batches: list[tuple[float, StoredBatch]] = field(default_factory=list)
    """What was appended, and when."""


class _Missing(NamedTuple):
    """Offsets up to `last` may be missing from then on."""

    at: float
    first: int
    last: float


class _Undone(NamedTuple):
    """What was settled since then may be handed out again after `at`, from this offset on."""

    since: float
    at: float
    first: int


class Ledger:
    def __init__(self, broker: Broker, topic: str, group: str, now: Callable[[], float]) -> None:
        """Create it before the topic. Without a group, resets of offsets aren't noticed."""
        self._now = now
        self._broker = broker
        self._topic = topic
        self._group = group
        self._states: dict[Key, ShareState] = {}
        self._initialized: dict[Key, tuple[int, int]] = {}
        """State epochs, and when states were initialized: a second reset may have the epoch of the first."""
        self._eras: dict[int, list[Era]] = defaultdict(list)
        """By partition."""
        self._missing: dict[int, list[_Missing]] = defaultdict(list)
        """By the number of an era."""
        self._skipped: dict[int, tuple[float, int]] = {}
        """Where the group goes on in an era, and since when: it needn't read what is before."""
        self._removed: dict[Place, float] = {}
        self._undone: dict[int, list[_Undone]] = defaultdict(list)
        broker.cluster.log_made.append(self._watch)
        broker.cluster.topic_deleted.append(self._on_deleted)

    # --- what happens

    def _watch(self, partition: Partition) -> None:
        log = partition.log
        if partition.topic.name == SHARE_STATE_TOPIC and self._group:
            log.on_append = self._on_state
        if partition.topic.name != self._topic:
            return
        self._begin(partition, 0)
        log.on_append = lambda stored: self._on_append(partition, stored)
        log.on_start_moved = lambda start: self._on_start_moved(partition, start)
        log.on_replaced = lambda: self._on_compacted(partition)

    def _begin(self, partition: Partition, first: int) -> Era:
        eras = self._eras[partition.index]
        era = Era(len(eras) * ERA + partition.index, partition.topic.id, self._now(), first)
        eras.append(era)
        return era

    def _on_append(self, partition: Partition, stored: StoredBatch) -> None:
        self._of(partition)[-1].batches.append((self._now(), stored))

    def _on_start_moved(self, partition: Partition, start: int) -> None:
        for era in self._of(partition):
            self._missing[era.number].append(_Missing(self._now(), 0, start - 1))

    def _on_compacted(self, partition: Partition) -> None:
        log = partition.log
        kept = {record.offset for stored in log.batches_from(log.start_offset) for record in stored.decode()}
        for number, offset, _ in self._records(self._of(partition)):
            if offset < log.end_offset and offset not in kept:
                self._removed.setdefault((number, offset), self._now())

    def _on_deleted(self, topic: Topic) -> None:
        for partition in topic.partitions if topic.name == self._topic else ():
            for era in self._of(partition):
                self._missing[era.number].append(_Missing(self._now(), 0, inf))

    def _on_state(self, stored: StoredBatch) -> None:
        """A share-partition's state is initialized again if the group's offsets are reset."""
        for record in stored.decode():
            if bytes(record.key or b"")[:2] != _SNAPSHOT or (key := replay(self._states, record)) is None:
                continue
            group, topic_id, index = key
            state, topic = self._states.get(key), self._broker.cluster.find(topic_id)
            if group != self._group or state is None or topic is None or topic.name != self._topic:
                continue
            initialized = state.state_epoch, state.created
            if self._initialized.get(key) != initialized and state.start >= 0:
                self._on_reset(topic.partitions[index], state.start)
            self._initialized[key] = initialized

    def lost(self, partition: Partition) -> None:
        """The log has just lost its last batches. What the group had settled behind its end stays settled."""
        end = partition.log.end_offset
        key = self._group, partition.topic.id, partition.index
        state = dict(self._broker.share_states.known()).get(key, ShareState())
        group_end = max([state.start, *(batch.last + 1 for batch in state.batches)])
        for era in self._of(partition):
            self._missing[era.number].append(_Missing(self._now(), end, inf))
        self._skipped[self._begin(partition, end).number] = self._now(), group_end

    def lost_state(self, index: int, since: float) -> None:
        """The group's state of this partition is as it was then, or a little newer."""
        self._undone[index].append(_Undone(since, self._now(), 0))

    def _on_reset(self, partition: Partition, start: int) -> None:
        for era in self._of(partition):
            self._skipped[era.number] = self._now(), start
        self._undone[partition.index].append(_Undone(-inf, self._now(), start))

    def appended_since(self, partition: Partition, at: float) -> int:
        """The offset of the first batch that was appended since then, or the end of the log."""
        found = [stored.base_offset for then, stored in self._of(partition)[-1].batches if then >= at]
        return min(found, default=partition.log.end_offset)

    # --- for the judge

    def numbers(self, index: int) -> list[int]:
        """Those of a partition, one for each era."""
        return [era.number for era in self._eras[index]]

    def number(self, topic_id: bytes, index: int) -> int | None:
        """The number of a partition's first era in this topic; None if it is another topic."""
        return next((era.number for era in self._eras[index] if era.topic_id == topic_id), None)

    def written(self) -> dict[Place, str]:
        """The values of all records that there have ever been."""
        return {
            (number, offset): bytes(value or b"").decode()
            for eras in self._eras.values()
            for number, offset, value in self._records(eras)
        }

    def gone(self, place: Place) -> float:
        """From when on a record may be missing."""
        number, offset = place
        times = [self._removed.get(place, inf)]
        times += [missing.at for missing in self._missing[number] if missing.first <= offset <= missing.last]
        since, start = self._skipped.get(number, (inf, 0))
        if offset < start:
            times.append(since)
        return min(times)

    def is_undone(self, place: Place, confirmed: float, again: float) -> bool:
        """Whether a record that was settled at one time may be handed out again at another, later one."""
        return any(
            undone.since <= confirmed and confirmed <= undone.at <= again and place[1] >= undone.first
            for undone in self._undone[place[0] % ERA]
        )

    def acquired(self, rows: list[Acquired]) -> list[Acquired]:
        """By the numbers of their eras."""
        return [
            replace(row, partition=number, first=first, last=last)
            for row in rows
            for number, first, last in self._parts(row.partition, row.first, row.last, row.at)
        ]

    def acknowledged(self, rows: list[Acknowledged]) -> list[Acknowledged]:
        found = []
        for row in rows:
            for number, first, last in self._parts(row.partition, row.first, row.last, row.at):
                kinds = (
                    row.kinds if len(row.kinds) == 1 else row.kinds[first - row.first : last - row.first + 1]
                )
                found.append(replace(row, partition=number, first=first, last=last, kinds=kinds))
        return found

    def entries(
        self,
        entries: list[Entry],
        values: dict[int, str],
        written: dict[Place, str],
        rows: list[Acknowledged],
    ) -> list[Entry]:
        """What a program wrote down, by the numbers of eras.

        `values`: those of records, by the index of the entry. `rows`: what was acknowledged, by numbers of eras.
        """
        if all(len(eras) == 1 for eras in self._eras.values()):
            return entries
        accepts = {
            (row.member, row.partition, offset): row.error
            for row in sorted(rows, key=lambda row: row.error == 0)
            for offset in range(row.first, row.last + 1)
            if row.kind_of(offset) == ACCEPT
        }
        """With None, or any error, only if the broker has confirmed none of them."""
        found: list[Entry] = []
        for index, entry in enumerate(entries):
            if entry.event is Event.COMMITTED:
                failed = [int(text) for text in entry.text.split(",") if text]
                text = ",".join(str(number) for partition in failed for number in self.numbers(partition))
                found.append(entry._replace(text=text))
            elif entry.event in (Event.CONFIRMED, Event.REFUSED):
                for offset in range(entry.offset, int(entry.text) + 1):
                    eras = self._eras_of(entry, offset)
                    of_member = [era for era in eras if (entry.member, era, offset) in accepts]
                    if entry.event is Event.CONFIRMED:
                        confirmed = [era for era in of_member if accepts[entry.member, era, offset] == 0]
                        of_member = (confirmed or eras)[-1:]
                    # Which of them was refused isn't known.
                    found += [
                        entry._replace(partition=number, offset=offset, text=str(offset))
                        for number in of_member or eras[-1:]
                    ]
            elif entry.partition < 0:
                found.append(entry)
            else:
                eras, value = self._eras_of(entry, entry.offset), values.get(index, entry.text)
                with_value = [era for era in eras if written.get((era, entry.offset)) == value]
                found.append(entry._replace(partition=(with_value or eras)[-1]))
        return found

    def _eras_of(self, entry: Entry, offset: int) -> list[int]:
        """The numbers of the eras that this offset may have been of by then."""
        eras = self._eras[entry.partition]
        return [era.number for era in eras if era.at <= entry.at and era.first <= offset]

    def log(self, lines: list[str]) -> str:
        """Lines that name a partition, once for each of its eras."""
        text = [f"{line}\n" for line in lines]
        for index, eras in self._eras.items():
            name = f"{self._topic}[{index}]"
            for era in eras[1:]:
                text += [
                    f"{line}\n".replace(name, f"{self._topic}[{era.number}]")
                    for line in lines
                    if name in line
                ]
        return "".join(text)

    def _of(self, partition: Partition) -> list[Era]:
        """The eras of a partition in this topic, not in others of the same name."""
        return [era for era in self._eras[partition.index] if era.topic_id == partition.topic.id]

    def _parts(self, number: int, first: int, last: int, at: float) -> Iterator[tuple[int, int, int]]:
        """Of offsets at this time: the number of each era, and the first and the last that belong to it."""
        eras = self._eras[number % ERA]
        later = [
            era
            for era in eras
            if era.topic_id == eras[number // ERA].topic_id and (era.at <= at or era.number == number)
        ]
        offset = first
        while offset <= last:
            era = next(era for era in reversed(later) if era.first <= offset)
            bounds = sorted(era.first for era in later)
            index = bisect_right(bounds, offset)
            end = min(last, bounds[index] - 1) if index < len(bounds) else last
            yield era.number, offset, end
            offset = end + 1

    @staticmethod
    def _records(eras: list[Era]) -> Iterator[tuple[int, int, bytes | None]]:
        for era in eras:
            for _, stored in era.batches:
                if not stored.is_control:
                    for record in stored.decode():
                        yield era.number, record.offset, record.value
