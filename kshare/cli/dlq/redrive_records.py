"""Writes the records of dead letters to the topics they came from, or elsewhere, and accepts the dead letters.

The share group keeps track: a dead letter is accepted once its copy is confirmed by all in-sync replicas, not before.
So nothing is lost if this is killed, and the next run continues. If a dead letter wasn't accepted in time, its copy is
written again (at least once).

Each dead letter is redriven, skipped because the filters exclude it, or left because it can't be redriven. Those that
aren't settled are held until the end and then released for the next run; the broker counts that as a delivery.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from kshare.admin.results import TopicPartition
from kshare.cli.dlq.dead_letter import DeadLetter, read
from kshare.cli.dlq.original_records import Missing, OriginalRecords
from kshare.cli.dlq.selection import Selection
from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareBatch, ShareRecord
from kshare.errors import AcknowledgeError
from kshare.producer.records import NewRecord
from kshare.producer.writer import RecordWriter

NOWHERE = Missing("it has no headers that say where its record is: name a topic with --to")

_AT_ONCE = 500
"""The most records that are written, confirmed and accepted together."""


@dataclass(slots=True)
class RedriveProgress:
    redriven: int = 0
    passed_over: int = 0
    left: list[tuple[DeadLetter, str]] = field(default_factory=list)
    """Dead letters that can't be redriven, and why."""
    again: int = 0
    """Redriven, but too late to be accepted: they will be redelivered."""
    last_chances: int = 0
    """Not redriven, and at the group's delivery count limit: they won't be delivered again."""
    waits_for: int = 0
    """The number of other members of the group, while nothing is delivered."""
    targets: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def seen(self) -> int:
        return self.redriven + self.passed_over + len(self.left)


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """What the user wants."""

    selection: Selection
    target: str | None
    """None: the original topic of each record."""
    rate: float | None
    """Records per second."""
    most: int | None
    settles_others: bool

    def destination(self, letter: DeadLetter) -> str | None:
        """The topic to write to; None if neither the user nor the dead letter names one."""
        return self.target or (letter.origin.topic if letter.origin else None)


class Redrive:
    def __init__(
        self,
        request: RedriveRequest,
        originals: OriginalRecords,
        writer: RecordWriter,
        ends: Mapping[TopicPartition, int],
        most_deliveries: int,
        on_progress: Callable[[RedriveProgress], None],
    ) -> None:
        """Dead letters from `ends` on arrived after the start, and may be redriven records that failed again."""
        self.progress = RedriveProgress()
        self._request = request
        self._originals = originals
        self._writer = writer
        self._ends = ends
        self._most_deliveries = most_deliveries
        self._on_progress = on_progress
        self._held: set[tuple[int, int]] = set()
        self._next_write_at = 0.0

    @property
    def held(self) -> int:
        """How many dead letters are held until the end."""
        return len(self._held)

    @property
    def is_full(self) -> bool:
        return self._request.most is not None and self.progress.redriven >= self._request.most

    def wait_for(self, members: int) -> None:
        self.progress.waits_for = members
        self._on_progress(self.progress)

    async def take(self, batch: ShareBatch) -> None:
        """Redrive a batch and accept what was redriven. The consumer holds the others."""
        waiting: dict[tuple[str, int], list[tuple[ShareRecord, NewRecord]]] = defaultdict(list)
        count = 0
        for record in batch:
            if self.is_full_with(count) or record.offset >= self._ends.get((batch.topic, batch.partition), 0):
                continue
            letter = read(batch.topic, batch.partition, record)
            original = await self._find_original(letter, record)
            if original is None:
                continue
            waiting[await self._destination(letter, original)].append((record, original))
            count += 1
            if count >= self._chunk:
                await self._write(waiting)
                waiting, count = defaultdict(list), 0
        if count:
            await self._write(waiting)
        self._on_progress(self.progress)

    def is_full_with(self, count: int) -> bool:
        return self._request.most is not None and self.progress.redriven + count >= self._request.most

    @property
    def _chunk(self) -> int:
        """How many records to write together: with a rate, at most those of one second."""
        return _AT_ONCE if self._request.rate is None else max(1, min(_AT_ONCE, int(self._request.rate)))

    async def _find_original(self, letter: DeadLetter, record: ShareRecord) -> NewRecord | None:
        """The record to write, or None if it isn't redriven."""
        where = (letter.partition, letter.offset)
        if not self._request.selection.wants(letter):
            if self._request.settles_others:
                record.accept()
                self.progress.passed_over += 1
            elif where not in self._held:
                self.progress.passed_over += 1
                self._hold(record)
            return None
        is_addressed = self._request.destination(letter) is not None
        original = await self._originals.record(letter) if is_addressed else NOWHERE
        if isinstance(original, NewRecord):
            return original
        if where not in self._held:
            self.progress.left.append((letter, original.reason))
            self._hold(record)
        return None

    def _hold(self, record: ShareRecord) -> None:
        self._held.add((record.partition, record.offset))
        if record.delivery_count >= self._most_deliveries:
            self.progress.last_chances += 1

    async def _destination(self, letter: DeadLetter, record: NewRecord) -> tuple[str, int]:
        """The original topic and partition, or another topic and a partition chosen by key, as producers do."""
        target = self._request.destination(letter)
        assert target is not None, "others are not redriven"
        home = letter.origin if letter.origin and letter.origin.topic == target else None
        if home and home.partition < await self._writer.partition_count(target):
            return target, home.partition
        return target, await self._writer.choose(target, record.key)

    async def _write(self, waiting: Mapping[tuple[str, int], list[tuple[ShareRecord, NewRecord]]]) -> None:
        for (topic, partition), pairs in waiting.items():
            await self._wait_for_rate(len(pairs))
            await self._writer.append(topic, partition, [new for _, new in pairs])
            for record, _ in pairs:
                try:
                    record.accept()
                except AcknowledgeError:
                    self.progress.again += 1
            self.progress.redriven += len(pairs)
            self.progress.targets[topic] += len(pairs)
            self._on_progress(self.progress)

    async def _wait_for_rate(self, count: int) -> None:
        """Wait until the rate allows so many more records."""
        if self._request.rate is None:
            return
        now = anyio.current_time()
        start = max(now, self._next_write_at)
        self._next_write_at = start + count / self._request.rate
        await anyio.sleep_until(start)


async def next_batch(consumer: ShareConsumer[ShareRecord], patience_s: float) -> ShareBatch | None:
    """The next batch; None if none arrived in that time."""
    with anyio.move_on_after(patience_s):
        return await consumer.next_batch()
    return None
