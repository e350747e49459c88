"""Searches the records of a topic with plain Fetch requests, partition by partition, for a limited time.

Decides when a search pauses: when enough was found, or enough was read. What is damaged is left out and reported.
Records of open and aborted transactions are left out, as for a `read_committed` consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio
import anyio.lowlevel

from kshare.admin.batch_opening import open_batch
from kshare.admin.log_reading import FetchedBatches, LogReader
from kshare.admin.reading_budget import KeptRecord, kept, reading_budget
from kshare.admin.routing import Router
from kshare.errors import BrokerError, CorruptBatchError
from kshare.protocol.decompression_budget import BudgetSpentError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.record import Record
from kshare.protocol.records import Batch
from kshare.wording import span

_MOST_KEPT = 32 << 20
"""Bytes of found records. With more than these, a search pauses."""
_AT_A_TIME = 100
"""Records between which other tasks run: each may have many headers."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    found: int = 50
    records: int = 5_000
    bytes: int = 16 << 20
    seconds: float = 5.0


class LogPosition(NamedTuple):
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


class FoundRecord(NamedTuple):
    partition: int
    record: KeptRecord


@dataclass(slots=True)
class RecordSearch:
    """How far a search has come."""

    found: list[FoundRecord] = field(default_factory=list)
    records: int = 0
    """How many records were read."""
    bytes: int = 0
    at: LogPosition | None = None
    """Where to continue; None at the end."""
    problems: list[str] = field(default_factory=list)
    """What couldn't be read."""
    kept_bytes: int = 0

    def is_over(self, limits: SearchLimits) -> bool:
        is_full = len(self.found) >= limits.found or self.kept_bytes >= _MOST_KEPT
        return is_full or self.records >= limits.records or self.bytes >= limits.bytes


async def search_records(
    router: Router,
    topic: str,
    spans: Mapping[int, tuple[int, int]],
    is_wanted: Callable[[int, Record], bool],
    limits: SearchLimits,
) -> RecordSearch:
    """`spans` are the first offset and the end of each partition; `is_wanted` gets partition and record."""
    topic_id = (await router.metadata([topic])).topics[0].topic_id
    search = _Search(LogReader(router, is_committed_only=True), topic, topic_id, is_wanted, limits)
    with anyio.move_on_after(limits.seconds):
        await search.run(spans)
    return search.state


class _Search:
    def __init__(
        self,
        reader: LogReader,
        topic: str,
        topic_id: bytes,
        is_wanted: Callable[[int, Record], bool],
        limits: SearchLimits,
    ) -> None:
        self.state = RecordSearch()
        self._reader = reader
        self._topic = topic
        self._topic_id = topic_id
        self._is_wanted = is_wanted
        self._limits = limits
        self._budget = reading_budget()

    async def run(self, spans: Mapping[int, tuple[int, int]]) -> None:
        for number, (first, end) in sorted(spans.items()):
            if first >= end:
                continue
            self.state.at = LogPosition(number, first)
            if self.state.is_over(self._limits):
                return
            try:
                await self._read_partition(number, first, end)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._report(
                    number, f"its log has no offset {first}: it was removed, or it isn't written yet"
                )
            except BudgetSpentError:
                return
            except CorruptBatchError as error:
                self._report(number, f"{error}; the records after it in this partition can't be read")
            else:
                if self.state.at is not None and self.state.at.offset < end:
                    return
        self.state.at = None

    async def _read_partition(self, number: int, first: int, end: int) -> None:
        """Returns at the end, or when a limit is reached.

        Raises CorruptBatchError if the next batch can't be found, BudgetSpentError if it would take too much.
        """
        at = first
        while at < end and not self.state.is_over(self._limits):
            at = await self._read_batches(
                await self._reader.fetch((self._topic_id, number), at), number, at, end
            )

    async def _read_batches(self, fetch: FetchedBatches, number: int, first: int, end: int) -> int:
        """Returns the offset at which to continue. Decompressed bytes are gone then."""
        state, at = self.state, first
        for batch, is_for_users in fetch.batches(self._budget):
            # Here, and not at the end: until now, the iterator had the previous batch with its decompressed bytes.
            await anyio.lowlevel.checkpoint()
            at = await self._read_batch(number, batch, at, end) if is_for_users else batch.last_offset + 1
            state.at = LogPosition(number, at)
            state.bytes += batch.size
            if at >= end or state.is_over(self._limits):
                break
        return at

    async def _read_batch(self, number: int, batch: Batch, first: int, end: int) -> int:
        """Returns the offset at which to continue."""
        state, last = self.state, min(batch.last_offset, end - 1)
        at = max(first, batch.base_offset)
        try:
            await open_batch(batch)
            for record in batch.records([(at, last)]):
                if state.is_over(self._limits):
                    return record.offset
                at = record.offset + 1
                state.records += 1
                if state.records % _AT_A_TIME == 0:
                    await anyio.lowlevel.checkpoint()
                if self._is_wanted(number, record):
                    found = kept(record)
                    state.kept_bytes += found.kept_bytes
                    state.found.append(FoundRecord(number, found))
        except CorruptBatchError as error:
            self._report(number, f"offsets {span(at, last)} can't be read: {error}")
        return batch.last_offset + 1

    def _report(self, number: int, problem: str) -> None:
        self.state.problems.append(f"{self._topic}[{number}]: {problem}")
