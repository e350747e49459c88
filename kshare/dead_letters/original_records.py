"""Reads the original records of dead letters, as long as their topic retains them.

Brokers never copy a record's headers into its dead letter, and its key and value only if the group is configured so.
Therefore the original record is redriven if it still exists. `_is_same` decides whether the record at that offset is
the original one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kshare.admin.batch_opening import open_batch
from kshare.admin.log_reading import FetchedBatches, LogReader
from kshare.admin.reading_budget import reading_budget
from kshare.admin.routing import Router
from kshare.dead_letters.claims import Claims
from kshare.dead_letters.dead_letter import DeadLetter, Origin
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
        self._near: dict[Origin, NewRecord] = {}
        """The records of the last fetch: consecutive dead letters often belong to consecutive records."""

    async def record(self, letter: DeadLetter, named: str | None = None) -> NewRecord | Missing:
        """The record to write: with its original headers if available, without those of the dead letter.

        If its origin is doubtful, it is only written to a topic that the user has `named`, and only read from there.
        """
        doubt = None
        if letter.origin is not None and letter.origin.topic != named:
            doubt = await self._claims.doubt(letter, letter.origin)
        if doubt is not None and named is None:
            return Missing(doubt)
        copy = NewRecord(letter.value, letter.key, letter.own_headers, letter.timestamp)
        if letter.own_headers and letter.whole_size is None:
            return copy  # its writer copied everything
        try:
            found = await self._find(letter.origin) if letter.origin and doubt is None else None
        except (
            NotAuthorized,
            CorruptBatchError,
        ) as error:  # other dead letters may come from topics that the user may read
            return Missing(f"its record {letter.origin} can't be read: {error}")
        if found is not None and _is_same(letter, found):
            return found
        if doubt is not None and (letter.whole_size is not None or not letter.has_copy):
            return Missing(f"it has no copy of the whole record: {doubt}")
        if letter.whole_size is not None:
            return Missing(
                f"its value was cut (it had {letter.whole_size:,} bytes), and {letter.origin} no longer exists"
            )
        if letter.has_copy:
            return copy
        if letter.origin is None:
            return Missing("it has no copy of the record, and no headers that say where the record is")
        return Missing(f"it has no copy of the record, and {letter.origin} no longer exists")

    async def _find(self, origin: Origin) -> NewRecord | None:
        if origin not in self._near:
            self._near = await self._read(origin)
        return self._near.get(origin)

    async def _read(self, origin: Origin) -> dict[Origin, NewRecord]:
        topic = await self._topic(origin.topic)
        if topic is None or origin.partition >= topic[1]:
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


async def _copies(fetch: FetchedBatches, origin: Origin) -> dict[Origin, NewRecord]:
    """This record and those after it, as far as memory allows. Raises CorruptBatchError if it can't be read."""
    found: dict[Origin, NewRecord] = {}
    budget = reading_budget()
    try:
        for batch, is_for_users in fetch.batches(budget):
            if not is_for_users:
                continue
            await open_batch(batch)
            for record in batch.records([(origin.offset, batch.last_offset)]):
                found[Origin(origin.topic, origin.partition, record.offset)] = copied_record(record)
                if len(found) >= _MOST_NEAR:
                    return found
    except CorruptBatchError:
        if origin not in found:
            raise
    except BudgetSpentError:
        pass
    return found


def _is_same(letter: DeadLetter, found: NewRecord) -> bool:
    """A topic that was deleted and created again has other records at the same offsets."""
    if letter.whole_size is not None:
        value = found.value or b""
        is_whole = len(value) == letter.whole_size and value.startswith(letter.value or b"")
        return letter.key == found.key and is_whole
    if letter.has_copy:
        return (letter.key, letter.value) == (found.key, found.value)
    return found.timestamp <= letter.timestamp
