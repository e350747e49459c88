"""Writes the records of dead letters to the topics they came from, or elsewhere, and accepts the dead letters.

The share group keeps track: a dead letter is accepted once its copy is confirmed by all in-sync replicas, not before.
So nothing is lost if this is killed, and the next run continues. If a dead letter wasn't accepted in time, its copy is
written again (at least once).

Each dead letter is redriven, settled because a copy of it was, skipped because the filters exclude it, or left because
it can't be redriven.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from kshare.client.record import ShareBatch, ShareRecord
from kshare.dead_letters.dead_letter import DeadLetter, Origin, read
from kshare.dead_letters.letter_run import Commit, LetterRun, RunProgress, Start
from kshare.dead_letters.original_records import Missing, OriginalRecords
from kshare.dead_letters.outcome import Fate, LetterOutcome, OnOutcome
from kshare.dead_letters.selection import Selection
from kshare.dead_letters.writing import RecordRefused, write_each
from kshare.errors import AcknowledgeError, BrokerError, KshareError
from kshare.producer.records import NewRecord
from kshare.protocol.error_codes import ErrorCode

_NOWHERE = Missing("it has no headers that say where its record is: name a topic with --to")
_ITSELF = Missing("it says that its record is in the dead-letter topic itself: name another topic with --to")

_Rows = list[tuple[ShareRecord, DeadLetter, NewRecord]]
_Waiting = dict[tuple[str, int], _Rows]
"""What is written next, by topic and partition."""
_STOPPED = "it was being written when the run was stopped: the next redrive may write it twice"
_CLOSED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Errors about one topic: dead letters of others can be redriven."""
_MOST_LEFT = 10_000
_AT_ONCE = 500
"""The most records that are written, confirmed and accepted together."""


@dataclass(slots=True)
class RedriveProgress(RunProgress):
    redriven: int = 0
    left: list[tuple[DeadLetter, str]] = field(default_factory=list)
    """Dead letters that can't be redriven, without their values, and why: only the first of very many."""
    left_count: int = 0
    has_left_letter: bool = False
    """Whether any of them is more than an ordinary record."""
    targets: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def seen(self) -> int:
        return self.redriven + self.passed_over + self.duplicates + self.left_count


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

    def destination(self, letter: DeadLetter) -> str | Missing:
        """The topic to write to, which the user or the dead letter names."""
        if self.target is not None:
            return self.target
        if letter.origin is None:
            return _NOWHERE
        return _ITSELF if letter.origin.topic == letter.topic else letter.origin.topic


class Redrive(LetterRun[RedriveProgress]):
    def __init__(
        self,
        request: RedriveRequest,
        originals: OriginalRecords,
        start: Start,
        on_progress: Callable[[RedriveProgress], None],
        on_outcome: OnOutcome,
    ) -> None:
        super().__init__(RedriveProgress(), request.selection, start, on_progress, on_outcome)
        self._request = request
        self._originals = originals
        self._writer = start.writer
        self._next_write_at = 0.0
        self._closed: dict[str, str] = {}
        """Original topics to which nothing can be written, and why."""

    @property
    def is_full(self) -> bool:
        has_all_chosen = self.has_all_chosen and not self._request.settles_others
        return has_all_chosen or self.is_full_with(0)

    async def _deal_with(self, batch: ShareBatch, commit: Commit) -> None:
        """Redrive what is chosen, and accept what was redriven."""
        waiting: _Waiting = defaultdict(list)
        count = 0
        for record in batch:
            if self._is_new(batch, record):
                continue
            letter = read(batch.topic, batch.partition, record)
            if self._duplicates.includes(letter):
                await self._write(waiting)  # its copy may be waiting, and must be written first
                waiting, count = defaultdict(list), 0
                if self._duplicates.includes(letter):  # it isn't if the broker has refused its copy
                    self._settle_duplicate(record, letter)
                    continue
            if self.is_full_with(count):
                self._hold(record)
                continue
            original = await self._find_original(letter, record)
            if original is None:
                continue
            place = await self._place_for(letter, original, record)
            if place is None:
                continue
            waiting[place].append((record, letter, original))
            self._duplicates.add(letter)
            count += 1
            if count >= self._chunk:
                await self._write(waiting)
                waiting, count = defaultdict(list), 0
        if count:
            await self._write(waiting)

    def is_full_with(self, count: int) -> bool:
        return self._request.most is not None and self.progress.redriven + count >= self._request.most

    @property
    def _chunk(self) -> int:
        """How many records to write together: with a rate, at most those of one second."""
        return _AT_ONCE if self._request.rate is None else max(1, min(_AT_ONCE, int(self._request.rate)))

    async def _find_original(self, letter: DeadLetter, record: ShareRecord) -> NewRecord | None:
        """The record to write, or None if it isn't redriven."""
        if not self._selection.wants(letter):
            if self._request.settles_others:
                self._settle_other(record, letter)
            else:
                self._pass_over(record, letter)
            return None
        target = self._request.destination(letter)
        if isinstance(target, Missing):
            self._leave(letter, record, target.reason)
            return None
        original = await self._originals.record(letter, self._request.target)
        if isinstance(original, NewRecord):
            return original
        self._leave(letter, record, original.reason)
        return None

    def _settle_other(self, record: ShareRecord, letter: DeadLetter) -> None:
        try:
            self._accept(record)
        except AcknowledgeError:
            self._on_outcome(LetterOutcome(letter, Fate.FAILED, reason="its lock was lost: it stays open"))
            return
        self.progress.passed_over += 1
        self._on_outcome(LetterOutcome(letter, Fate.SKIPPED, reason="settled for this group"))

    def _leave(self, letter: DeadLetter, record: ShareRecord, reason: str) -> None:
        where = (letter.partition, letter.offset)
        if where not in self._held:
            self._missing.discard(where)
            self.progress.left_count += 1
            self.progress.has_left_letter |= letter.is_dead_letter
            if len(self.progress.left) < _MOST_LEFT:
                self.progress.left.append((letter.cut(0, b""), reason))
            self._on_outcome(LetterOutcome(letter, Fate.LEFT, reason=reason))
        self._hold(record)

    async def _place_for(
        self, letter: DeadLetter, original: NewRecord, record: ShareRecord
    ) -> tuple[str, int] | None:
        """Where to write it; None if it is left, because nothing can be written to its own topic."""
        home = letter.origin.topic if letter.origin else ""
        if home not in self._closed:
            try:
                return await self._destination(letter, original)
            except BrokerError as error:
                if not self._closes(home, error):
                    raise
        self._leave(letter, record, self._closed[home])
        return None

    def _closes(self, topic: str, error: KshareError) -> bool:
        """Whether nothing can be written to an original topic. If the user named the topic, the run ends instead."""
        if self._request.target is not None or not (isinstance(error, BrokerError) and error.code in _CLOSED):
            return False
        self._closed[topic] = f"nothing can be written to topic {topic}: {error}"
        return True

    async def _destination(self, letter: DeadLetter, record: NewRecord) -> tuple[str, int]:
        """The original topic and partition, or another topic and a partition chosen by key, as producers do."""
        target = self._request.destination(letter)
        assert isinstance(target, str), "others are not redriven"
        home = letter.origin if letter.origin and letter.origin.topic == target else None
        if home and home.partition < await self._writer.partition_count(target):
            return target, home.partition
        return target, await self._writer.choose(target, record.key)

    async def _write(self, waiting: _Waiting) -> None:
        for (topic, partition), rows in waiting.items():
            await self._wait_for_rate(len(rows))
            failed: KshareError | None = None
            for (record, letter, _), offset in zip(
                rows, await self._append(topic, partition, rows), strict=True
            ):
                if isinstance(offset, int):
                    self._on_written(record, letter, Origin(topic, partition, offset))
                elif isinstance(offset, RecordRefused) or self._closes(topic, offset):
                    self._duplicates.discard(letter)
                    self._leave(letter, record, self._closed.get(topic, str(offset)))
                else:
                    failed = failed or offset
                    self._on_outcome(LetterOutcome(letter, Fate.FAILED, reason=str(offset)))
            self._on_progress(self.progress)
            if failed is not None:
                raise failed

    def _on_written(self, record: ShareRecord, letter: DeadLetter, written: Origin) -> None:
        problem = None
        try:
            self._accept(record)
        except AcknowledgeError:
            self._late.add((letter.partition, letter.offset))
            problem = "its lock was lost: it will be redelivered, and redriven again by the next run"
        self._missing.discard((letter.partition, letter.offset))
        self.progress.redriven += 1
        self.progress.targets[written.topic] += 1
        self._on_outcome(LetterOutcome(letter, Fate.REDRIVEN, written, problem))
        self._settle_held_duplicates(letter)

    async def _append(self, topic: str, partition: int, rows: _Rows) -> list[int | KshareError]:
        try:
            return await write_each(self._writer, topic, partition, [new for _, _, new in rows])
        except anyio.get_cancelled_exc_class():
            for _, letter, _ in rows:
                self._on_outcome(LetterOutcome(letter, Fate.FAILED, reason=_STOPPED))
            raise

    async def _wait_for_rate(self, count: int) -> None:
        """Wait until the rate allows so many more records."""
        if self._request.rate is None:
            return
        now = anyio.current_time()
        start = max(now, self._next_write_at)
        self._next_write_at = start + count / self._request.rate
        await anyio.sleep_until(start)
