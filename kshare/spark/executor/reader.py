"""Reads offset ranges into Arrow with plain Fetch requests: what a task runs in an executor's Python worker.

Each run of a task returns the same records: exactly those in the ranges. Never acquires or acknowledges, since tasks
are retried, run twice, and lost. While one response is converted to columns, the next is on its way.

For acquired ranges, transactions don't matter: for a `read_committed` group, brokers don't acquire aborted records. The
backlog view, for which nothing is acquired, needs `is_committed_only`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice, pairwise
from time import sleep
from uuid import UUID

import pyarrow as pa

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import FetchedBatches
from kshare.errors import BrokerError, KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.records import Batch
from kshare.spark.executor.arrow import Counted, RowBuilder
from kshare.spark.executor.connections import Connections, connections
from kshare.spark.executor.cursor import Cursor
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import RecordRange, by_partition
from kshare.spark.schema import spark_schema
from kshare.surroundings import monotonic

log = logging.getLogger("kshare.spark")

ROWS = 10_000
"""Rows per Arrow batch. Fewer mean more transfers to the JVM; more need memory and save no time."""
_BYTES = 32 << 20
_AHEAD = 3
"""For how many partitions a fetch is on its way while a response is converted."""
_EMPTY_S = 30.0
"""How long fetches may return nothing where there should be records: a new leader learns its high watermark late."""
_PAUSE_S = 0.05

WantedBatch = tuple[Batch, Sequence[Counted]]
"""A batch, and which of its offsets are wanted."""


class DataLoss(KshareError):
    """Records of a planned range no longer exist in the log."""


def read_arrow(
    options: ReadOptions, ranges: Sequence[RecordRange], *, is_committed_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the records in these ranges, in the order of partitions and offsets."""
    shared = connections(options.net_settings())
    places = deque(
        _PartitionReader(options, partition_ranges, shared, is_committed_only)
        for partition_ranges in _by_partition(ranges)
    )

    def ask_ahead() -> None:
        for place in islice(places, _AHEAD):
            place.ask()

    try:
        ask_ahead()
        while places:
            place = places[0]
            found = place.response()
            if place.cursor.is_done:
                places.popleft()
            ask_ahead()  # before the response is converted
            yield from place.columns(found)
            if place.cursor.is_done:
                yield from place.rest()
    finally:
        for place in places:
            place.cancel()


class _PartitionReader:
    """Reads the ranges of one partition."""

    def __init__(
        self,
        options: ReadOptions,
        ranges: Sequence[RecordRange],
        shared: Connections,
        is_committed_only: bool,
    ) -> None:
        first = ranges[0]
        self.name = f"{first.topic}[{first.partition}]"
        self._topic = first.topic
        self._where = (UUID(first.topic_id).bytes, first.partition)
        self._fails_on_loss = options.fail_on_data_loss
        self._shared = shared
        self._reader = shared.reader(is_committed_only=is_committed_only, rack=options.consumer.rack)
        counted: list[Counted] = [(each.first, each.last, each.delivery_count) for each in ranges]
        self.cursor = Cursor(counted, shared.sizes.get(self._where))
        self._rows = RowBuilder(
            first.topic,
            first.partition,
            options.columns or spark_schema(options.include_headers, options.delivery_count).fieldNames(),
        )
        self._empty_since: float | None = None
        self._asked: Future[FetchedBatches] | None = None

    def ask(self) -> None:
        """Send the next fetch, unless one is on its way."""
        if self._asked is None:
            self._asked = self._shared.submit(
                self._reader.fetch, self._where, self.cursor.offset, self.cursor.bytes_to_fetch
            )

    def response(self) -> list[WantedBatch]:
        """Wait for the response to `ask`, and return the wanted batches. Moves the cursor past them."""
        assert self._asked is not None, "asked before"
        asked, self._asked = self._asked, None
        try:
            fetch = asked.result()
        except BrokerError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._on_out_of_range()
            elif error.code == ErrorCode.UNKNOWN_TOPIC_ID:
                self._lose(None, "the topic was deleted")
            else:
                raise self._failed(error) from None
            return []
        except KshareError as error:
            raise self._failed(error) from None
        before = self.cursor.offset
        try:
            found = self.cursor.take(fetch)
        except KshareError as error:
            raise self._failed(error) from None
        if self.cursor.offset == before:
            self._on_nothing(fetch)
        else:
            self._empty_since = None
            self._shared.sizes[self._where] = self.cursor.bytes_per_offset or 0
        return found

    def cancel(self) -> None:
        if self._asked is not None:
            self._asked.cancel()

    def columns(self, found: Iterable[WantedBatch]) -> Iterator[pa.RecordBatch]:
        """Convert these batches, and yield the Arrow batches that are full."""
        for batch, ranges in found:
            try:
                self._rows.add(batch, ranges)
            except KshareError as error:
                raise self._failed(error) from None
            if self._rows.count >= ROWS or self._rows.size >= _BYTES:
                yield self._rows.take()

    def rest(self) -> Iterator[pa.RecordBatch]:
        if self._rows.count:
            yield self._rows.take()

    def _on_out_of_range(self) -> None:
        log_start, end = (self._log_offset(which) for which in (EARLIEST, LATEST))
        if log_start > self.cursor.offset:
            self._lose(
                log_start, f"the log now begins at {log_start}: retention or DeleteRecords removed them"
            )
        else:
            self._lose(None, f"the log ends at {end}: the new leader didn't have them")

    def _on_nothing(self, fetch: FetchedBatches) -> None:
        now = monotonic()
        self._empty_since = self._empty_since or now
        if now - self._empty_since > _EMPTY_S:
            self._lose(
                None, f"there are no records, although the log goes from {fetch.log_start} to {fetch.end}"
            )
        sleep(_PAUSE_S)

    def _log_offset(self, which: int) -> int:
        place = (self._topic, self._where[1])
        try:
            return self._shared.submit(log_offsets, self._shared.router, [place], which).result()[place]
        except KshareError as error:
            raise self._failed(error) from None

    def _lose(self, log_start: int | None, reason: str) -> None:
        """Give up the wanted records before `log_start`, or all if it is None: fail, or log a warning."""
        lost = self.cursor.lose_before(log_start)
        count = sum(last - first + 1 for first, last in lost)
        named = ", ".join(f"{first} to {last}" for first, last in lost[:5]) + (", ..." if lost[5:] else "")
        text = f"{self.name}: offsets {named} ({count} in all) are gone: {reason}"
        if self._fails_on_loss:
            raise DataLoss(f'{text}. To continue without them, write option("failOnDataLoss", "false")')
        log.warning("%s; continuing without them, because failOnDataLoss is false", text)

    def _failed(self, error: KshareError) -> KshareError:
        return KshareError(f"can't read {self.name} at offset {self.cursor.offset}: {error}")


def _by_partition(ranges: Iterable[RecordRange]) -> Iterator[list[RecordRange]]:
    """Yield the ranges of each partition. Raises ValueError if they overlap: records would be returned twice."""
    for found in by_partition(ranges):
        for range_, other in pairwise(found):
            if other.first <= range_.last:
                raise ValueError(
                    f"ranges of {range_.topic}[{range_.partition}] overlap at offset {other.first}"
                )
        yield found
