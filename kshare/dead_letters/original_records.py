"""Reads the original records of dead letters, as long as their topic retains them.

Brokers never copy a record's headers into its dead letter, and its key and value only if the group is configured so.
Therefore the original record is redriven if it still exists. `_is_same` decides whether the record at that offset is
the original one. If there is another record, or there was never one, the copy may be forged: users have to confirm it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kshare.admin.batch_opening import open_batch
from kshare.admin.log_offsets import LATEST, log_offsets
from kshare.admin.log_reading import FetchedBatches, LogReader
from kshare.admin.reading_budget import reading_budget
from kshare.admin.routing import Router
from kshare.dead_letters.claims import Claims, doubt
from kshare.dead_letters.dead_letter import DeadLetter, Origin
from kshare.dead_letters.writing import MOST_HEADERS, too_many_headers
from kshare.errors import BrokerError, CorruptBatchError, NotAuthorized
from kshare.producer.records import NewRecord, copied_record
from kshare.protocol.decompression_budget import BudgetSpentError
from kshare.protocol.error_codes import ErrorCode

_MOST_NEAR = 10_000
_GONE = {
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a dead letter can't be redriven."""

    reason: str


class OriginalRecords:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._reader = LogReader(router)
        self._claims = Claims(router)
        self._topics: dict[str, tuple[bytes, int] | None] = {}
        self._ends: dict[tuple[str, int], int] = {}
        """Ends of logs when a dead letter of theirs was read first: original records are before them."""
        self._near: dict[Origin, NewRecord | Missing] = {}
        """The records of the last fetch: consecutive dead letters often belong to consecutive records."""

    async def record(self, letter: DeadLetter, named: str | None = None) -> NewRecord | Missing:
        """The record to write: with its original headers if available, without those of the dead letter.

        If its origin is doubtful, it is only written to a topic that the user has `named`, and only read from there.
        """
        origin, doubts = letter.origin, None
        if origin is not None and origin.topic != named:
            doubts = await self._claims.doubt(letter, origin)
        if doubts is not None and named is None:
            return Missing(doubts)
        if doubts is not None and (letter.whole_size is not None or not _has_contents(letter)):
            return Missing(f"it has no copy of the whole record: {doubts}")
        if origin is None or doubts is not None:
            return _copy(letter, "it has no headers that say where the record is")
        try:
            problem = await self._misplaced(origin)
            found = None if problem else await self._find(origin)
        except (
            NotAuthorized,
            CorruptBatchError,
        ) as error:  # other dead letters may come from topics that the user may read
            return Missing(f"{origin} can't be read: {error}")
        if isinstance(found, Missing):
            return found
        if found is not None:
            if _is_same(letter, found):
                return found
            problem = f"{origin} is another record"
        if problem and named is None and letter.whole_size is None and _has_contents(letter):
            return Missing(doubt(problem, origin.topic))
        return _copy(letter, problem or f"{origin} no longer exists")

    async def _misplaced(self, origin: Origin) -> str | None:
        """Why there was never a record at this place of an existing topic."""
        topic = await self._topic(origin.topic)
        if topic is None:
            return None
        if origin.partition >= topic[1]:
            return f"topic {origin.topic} has no partition {origin.partition}"
        where = origin.topic, origin.partition
        if where not in self._ends:
            try:
                self._ends[where] = (await log_offsets(self._router, [where], LATEST))[where]
            except BrokerError as error:
                if error.code in _GONE:
                    return None
                raise
        return None if origin.offset < self._ends[where] else f"{origin} is beyond the end of its log"

    async def _find(self, origin: Origin) -> NewRecord | Missing | None:
        if origin not in self._near:
            self._near = await self._read(origin)
        return self._near.get(origin)

    async def _read(self, origin: Origin) -> dict[Origin, NewRecord | Missing]:
        topic = await self._topic(origin.topic)
        if topic is None:
            return {}
        try:
            fetch = await self._reader.fetch((topic[0], origin.partition), origin.offset)
        except BrokerError as error:
            if error.code in _GONE:
                return {}
            raise
        return await _copies(fetch, origin)

    async def _topic(self, name: str) -> tuple[bytes, int] | None:
        """The topic's id and its number of partitions; None if it doesn't exist."""
        if name not in self._topics:
            try:
                found = (await self._router.metadata([name])).topics[0]
            except BrokerError as error:
                if error.code not in _GONE:
                    raise
                self._topics[name] = None
            else:
                self._topics[name] = found.topic_id, len(found.partitions)
        return self._topics[name]


async def _copies(fetch: FetchedBatches, origin: Origin) -> dict[Origin, NewRecord | Missing]:
    """This record and those after it, as far as memory allows. Raises CorruptBatchError if it can't be read."""
    found: dict[Origin, NewRecord | Missing] = {}
    budget, headers = reading_budget(), MOST_HEADERS
    try:
        for batch, is_for_users in fetch.batches(budget):
            if not is_for_users:
                continue
            await open_batch(batch)
            for record in batch.records([(origin.offset, batch.last_offset)]):
                headers -= record.header_count
                if headers < 0:
                    if record.offset == origin.offset:
                        found[origin] = Missing(
                            f"{origin} isn't copied: {too_many_headers(record.header_count)}"
                        )
                    return found
                found[Origin(origin.topic, origin.partition, record.offset)] = copied_record(record)
                if len(found) >= _MOST_NEAR:
                    return found
    except CorruptBatchError:
        if origin not in found:
            raise
    except BudgetSpentError:
        pass
    return found


def _has_contents(letter: DeadLetter) -> bool:
    """A writer that copies headers copies everything."""
    return letter.has_copy or bool(letter.own_headers)


def _copy(letter: DeadLetter, problem: str) -> NewRecord | Missing:
    """What the dead letter has of its record; `problem` says why the original can't be had."""
    if letter.whole_size is not None:
        return Missing(f"its value was cut (it had {letter.whole_size:,} bytes), and {problem}")
    if not _has_contents(letter):
        return Missing(f"it has no copy of the record, and {problem}")
    if letter.more_headers:
        count = len(letter.own_headers)
        return Missing(f"only {count:,} headers of its copy are read, it has more, and {problem}")
    return NewRecord(letter.value, letter.key, letter.own_headers, letter.timestamp)


def _is_same(letter: DeadLetter, found: NewRecord) -> bool:
    """A topic that was deleted and created again has other records at the same offsets."""
    if letter.whole_size is not None:
        value = found.value or b""
        is_whole = len(value) == letter.whole_size and value.startswith(letter.value or b"")
        return letter.key == found.key and is_whole
    if _has_contents(letter):
        return (letter.key, letter.value) == (found.key, found.value)
    return found.timestamp <= letter.timestamp
